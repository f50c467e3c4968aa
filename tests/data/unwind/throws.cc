// SPDX-License-Identifier: Apache-2.0
// C++ that throws through frames with destructors, between two breakpoints; see tests/differential/test_unwind.py.
#include <stdexcept>
#include <string>
#include <vector>

static volatile int sink;

struct Guard {
	std::string s;
	explicit Guard(int n) : s(static_cast<size_t>(n % 40), 'x') {}
	~Guard() { sink = sink + static_cast<int>(s.size()); }
};

__attribute__((noinline)) static int thrower(int n)
{
	Guard g(n);

	if (n == 0)
		throw std::runtime_error("deep");
	return thrower(n - 1) + static_cast<int>(g.s.size());
}

__attribute__((noinline)) static int catcher(int n)
{
	std::vector<int> v(static_cast<size_t>(n) + 1, 3);

	try {
		return thrower(n) + v[0];
	} catch (const std::exception &e) {
		return static_cast<int>(std::string(e.what()).size()) + v.back();
	}
}

int main(int argc, char **)
{
	while (argc > 1)
		sink = catcher(40);
	// The first throw reads tables of all libraries.
	sink = catcher(1);
	__asm__ volatile("int3");
	sink = catcher(4);
	__asm__ volatile("int3");
	return 0;
}
