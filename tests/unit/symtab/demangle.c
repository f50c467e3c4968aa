/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "answers.h"

static void check(const char *mangled, const char *full, const char *simple)
{
	AUTO(buf_done) struct buf b = { 0 };

	symtab_demangle(str_of(mangled), SYMTAB_FULL, &b);
	assert_str(buf_str(&b), full);
	b.size = 0;
	symtab_demangle(str_of(mangled), SYMTAB_SIMPLE, &b);
	assert_str(buf_str(&b), simple);
	b.size = 0;
	symtab_demangle(str_of(mangled), SYMTAB_MANGLED, &b);
	assert_str(buf_str(&b), mangled);
}

static void names_of_every_language(void **state)
{
	check("_ZN2ns4workEi", "ns::work(int)", "ns::work");
	check("_ZN2ns4workEi.constprop.0", "ns::work(int) [clone .constprop.0]", "ns::work");
	check("_ZNSt6vectorIiSaIiEE9push_backERKi@@V1",
	      "std::vector<int, std::allocator<int> >::push_back(int const&)@@V1",
	      "std::vector<int, std::allocator<int> >::push_back");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo", "mycrate::foo");
	check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", "core::fmt::write");
	check("_ZN4core3fmt5write17h0123456789abcdefE.llvm.1788", "core::fmt::write", "core::fmt::write");
	check("_ZN4core3fmt5write17h0123456789abcdefE.cold", "core::fmt::write.cold", "core::fmt::write");
	check("_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE.llvm.1788",
	      "core::ptr::drop_in_place<alloc::string::String>",
	      "core::ptr::drop_in_place<alloc::string::String>");
	check("_D3std5stdio7writelnFZv", "std.stdio.writeln()", "std.stdio.writeln()");
	check("main", "main", "main");
	check("_Znonsense", "_Znonsense", "_Znonsense");
	check("", "", "");
}

/* Each substitution doubles the one before: a name of 1 kB expands to more text than there is memory. */
static void names_that_grow_without_end_stay_as_they_are(void **state)
{
	AUTO(buf_done) struct buf name = { 0 }, out = { 0 };

	buf_add_str(&name, STR("_Z1fI1aS_S_E"));
	name.size = 0;
	buf_add_str(&name, STR("_Z1f"));
	buf_add_str(&name, STR("1AIiiE"));
	for (unsigned i = 0; i < 30; i++)
		buf_printf(&name, "S0_IS%c_S%c_E", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i],
			   "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i]);
	symtab_demangle(buf_str(&name), SYMTAB_FULL, &out);
	assert_true(out.size <= SYMTAB_MAX_DEMANGLED);
	out.size = name.size = 0;
	buf_add_str(&name, STR("_Z1f"));
	for (unsigned i = 0; i < 5000; i++)
		buf_add_char(&name, 'P');
	buf_add_char(&name, 'i');
	symtab_demangle(buf_str(&name), SYMTAB_FULL, &out);
	assert_true(out.size <= SYMTAB_MAX_DEMANGLED);
}

static void assert_stays(const char *name)
{
	AUTO(buf_done) struct buf out = { 0 };

	symtab_demangle(str_of(name), SYMTAB_FULL, &out);
	assert_str(buf_str(&out), name);
}

/* Each type of D refers twice to the one before: a name of 172 bytes has gigabytes of text. */
static void types_of_d_that_double_stay_as_they_are(void **state)
{
	AUTO(buf_done) struct buf name = { 0 };

	buf_add_str(&name, STR("_D1a1fFHiiHQeQg"));
	for (unsigned i = 0; i < 31; i++)
		buf_add_str(&name, STR("HQgQi"));
	buf_add_str(&name, STR("Zv"));
	assert_stays(buf_cstr(&name));
	check("_D1a1fFHiiHQeQgZv", "a.f(int[int], int[int][int[int]])", "a.f(int[int], int[int][int[int]])");
}

/* Lifetimes within the path of an implementation are counted, but not printed. */
static void lifetimes_of_rust_without_end_stay_as_they_are(void **state)
{
	assert_stays("_RNvMIC1aFGzzzzzzzzzz_EuEuNtC1b1c1d");
	assert_stays("_RNvCsaFGxyzabcde_7mycrateFGzzzzzzzzzz_EuE3foo");
}

static void hashes_of_crates_with_the_letters_of_lifetimes_are_no_lifetimes(void **state)
{
	check("_RNvCsaFGxyzabcde_7mycrate3foo", "mycrate::foo", "mycrate::foo");
	check("_RNvCsDGxyzabcd_7mycrate3foo", "mycrate::foo", "mycrate::foo");
	/* Shown with another letter otherwise. */
	assert_stays("_RNvC7mycrate11DGRAM_thing");
}

/* A decoded identifier is on the heap while it is printed: the leak checker watches this test. */
static void long_identifiers_of_rust_are_freed(void **state)
{
	AUTO(buf_done) struct buf name = { 0 };

	buf_add_str(&name, STR("_RINvC1au3504_"));
	for (unsigned i = 0; i < 3500; i++)
		buf_add_char(&name, 'a');
	buf_add_str(&name, STR("_kva"));
	for (unsigned i = 0; i < 40; i++)
		buf_add_str(&name, STR("B0_"));
	buf_add_char(&name, 'E');
	assert_stays(buf_cstr(&name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_every_language),
		cmocka_unit_test(names_that_grow_without_end_stay_as_they_are),
		cmocka_unit_test(types_of_d_that_double_stay_as_they_are),
		cmocka_unit_test(lifetimes_of_rust_without_end_stay_as_they_are),
		cmocka_unit_test(hashes_of_crates_with_the_letters_of_lifetimes_are_no_lifetimes),
		cmocka_unit_test(long_identifiers_of_rust_are_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
