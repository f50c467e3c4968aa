# SPDX-License-Identifier: Apache-2.0
"""A few cases of bench/compilers.py: options that change how the DWARF is written, compared with llvm-symbolizer, elfutils and binutils."""

import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import compilers  # noqa: E402

# ./dev installs the compilers without a version in their names: gcc 12 and clang 14.
UNVERSIONED = (("g++-12", "g++"), ("gcc-12", "gcc"), ("clang++-14", "clang++"), ("clang-14", "clang"), ("llvm-dwp-14", "llvm-dwp"), ("-fuse-ld=lld-14", ""))
# Without headers, each compiles in a fraction of a second.
SOURCES = {"a.cc": """
extern "C" int puts(const char *);
int second(int);
namespace ns {
    struct base { virtual ~base() {} virtual int value(int x) const = 0; };
    template <class T, int N> struct box : base {
        T list[N]; int n = 0;
        int add(T x) { if (n < N) list[n++] = x; return n; }
        int value(int x) const override { return n ? (int)list[x % n] : 0; }
    };
    namespace { inline int hidden(int x) { if (x > 3) puts("large"); return x * x; } }
    template <class T> inline T smallest(const T *p, int n) { T s = p[0]; for (int i = 1; i < n; i++) if (hidden((int)p[i]) < hidden((int)s)) s = p[i]; return s; }
    __attribute__((noinline)) int work(int n)
    {
        box<int, 16> b;
        for (int i = 0; i < n; i++)
            b.add(hidden(i));
        if (__builtin_expect(n > 1000, 0))
            puts("very large");
        return smallest(b.list, b.n) + b.value(n);
    }
}
int main(int c, char **) { ns::box<long, 4> p; p.add(c); return ns::work(c * 10) + p.value(c) + second(c); }
""", "b.cc": """
namespace other { template <class T> struct pair { T a, b; T sum() const { return a + b; } }; }
static inline int triple(int x) { return x * 3; }
__attribute__((noinline)) static int loop(int c) { int s = 0; for (int i = 0; i < c; i++) { other::pair<int> p{i, triple(s)}; s += p.sum(); } return s; }
int second(int c) { other::pair<long> p{c, loop(c)}; return (int)p.sum(); }
""", "o.c": compilers.OMP}
QUICK = [c for c in compilers.cases() if c.quick]


@pytest.mark.parametrize("case", QUICK, ids=[c.name for c in QUICK])
def test_option(case, tmp_path):
    commands = case.commands
    for a, b in UNVERSIONED:
        commands = [c.replace(a, b) for c in commands]
    assert shutil.which(commands[0].split()[0]), commands[0]
    assert compilers.compile_case(case._replace(commands=commands), tmp_path, SOURCES) is None
    r = compilers.judge(case, tmp_path, 100)
    assert compilers.is_good(r), (r.verified, r.skipped, r.counts, dict(r.differ))
    assert r.counts["known line"] > 20


def test_the_matrix_has_every_compiler_and_no_name_twice():
    names = [c.name for c in compilers.cases()]
    assert len(set(names)) == len(names)
    for compiler in ("gcc 11", "gcc 12", "clang 13", "clang 19", "gfortran", "gnat", "ldc", "rustc", "go"):
        assert any(n.startswith(f"{compiler}:") for n in names)
