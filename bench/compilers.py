#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option of Debian's compilers that changes the DWARF: lode beside llvm-symbolizer, eu-addr2line and addr2line.

    compilers.py [-n ADDRESSES] [--list] [--keep FOLDER] [PATTERN...]

Each case compiles a small program, builds and verifies its table, and looks up addresses as symbols_score.py does. A line per case:

    lines    innermost lines on which the others agree: the same ones of how many
    chains   the same of whole chains
    LLVM's   the lines of LLVM's chain, at all addresses with a line
    skipped  parts that the table lists as skipped

Cases whose compiler is not installed are left out, and so are options that a compiler refuses. PATTERN selects cases by a part of
their names. The newest llvm-symbolizer is used; it reads all that its compilers write. Exit status 1: a line or a chain differs, a
part was skipped, or a table does not verify.

All compilers: apt install gcc-11 g++-11 gcc-12-multilib g++-12-multilib gfortran gnat-12 ldc clang-13 clang-14 clang-15 clang-16 clang-19
lld-14 lld-19 llvm-14 llvm-19 dwz mold
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import symbols_score as score

C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define TWICE(x) ((x) + (x))
struct pair { int a, b; };
static inline int square(int x) { if (x > 3) return x * x; return TWICE(x); }
static inline int nested(struct pair p) { int s = 0; for (int i = 0; i < p.a; i++) s += square(i) + p.b; return s; }
__attribute__((noinline, cold)) static void die(const char *why) { fprintf(stderr, "%s\n", why); exit(1); }
__attribute__((noinline)) static int slow(int n)
{
	struct pair p = { n, n / 2 };
	if (__builtin_expect(n > 1000, 0)) { fprintf(stderr, "%d", nested(p)); die("large"); }
	char *s = malloc((size_t)n + 1);
	if (!s) die("memory");
	memset(s, square(n), (size_t)n);
	int r = nested(p) + s[n / 2];
	free(s);
	return r;
}
static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv)
{
	int list[8] = { argc, 3, 5 };
#ifdef NESTED
	int inner(int x) { return square(x) + list[x & 7]; }
	list[3] = inner(argc) + inner(4);
#endif
	qsort(list, 8, sizeof(*list), by_number);
	switch (argc) {
	case 1: list[1] = slow(argc * 10); break;
	case 2: list[2] = slow(argc) + square(argc); break;
	default: list[3] = nested((struct pair){ argc, list[0] });
	}
	printf("%d\n", list[0] + list[1] + list[2] + list[3]);
	return 0;
}
"""
CC = r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>
int second(int);
namespace ns {
struct base { virtual ~base() {} virtual int value(int x) const = 0; };
template <class T> struct box : base {
	std::vector<T> v;
	int add(T x) { v.push_back(x); return (int)v.size(); }
	int value(int x) const override { return (int)v[(size_t)x % v.size()]; }
};
namespace { inline int hidden(int x) { return x > 3 ? x * x : x; } }
__attribute__((noinline)) int work(int n)
{
	box<int> b;
	for (int i = 0; i < n; i++)
		b.add(hidden(i));
	std::sort(b.v.begin(), b.v.end(), [n](int x, int y) { return hidden(x ^ n) < hidden(y ^ n); });
	std::map<std::string, int> m;
	for (int x : b.v)
		m[std::to_string(x)] += x;
	int s = b.value(n);
	for (auto &p : m)
		s += p.second;
	return s;
}
}
int main(int c, char **)
{
	auto p = std::make_unique<ns::box<long>>();
	p->add(c);
	try {
		if (c > 100)
			throw std::string("many");
		std::printf("%d\n", ns::work(c * 10) + p->value(c) + second(c));
	} catch (const std::string &s) {
		return (int)s.size();
	}
	return 0;
}
"""
CC2 = r"""
#include <string>
namespace other { template <class T> struct box { T t; T twice() const { return t + t; } }; }
static inline int triple(int x) { return x * 3; }
int second(int c) { std::string s(c, 'x'); other::box<std::string> b{s}; return (int)b.twice().size() + triple(c); }
"""
FORTRAN = r"""
module numbers
  implicit none
contains
  pure integer function square(x)
    integer, intent(in) :: x
    square = x * x
  end function
  subroutine fill(a, n)
    integer, intent(in) :: n
    integer, intent(out) :: a(n)
    integer :: i
    do i = 1, n
      a(i) = square(i) + inner(i)
    end do
  contains
    integer function inner(k)
      integer, intent(in) :: k
      inner = k + n
    end function
  end subroutine
end module
integer function first(x)
  integer :: x, other
  first = x + 1
  return
  entry other(x)
  other = x + 2
end function
program p
  use numbers
  integer :: a(10), first, other
  call fill(a, 10)
  print *, sum(a), first(3), other(4)
end program
"""
ADA = r"""
with Ada.Text_IO; use Ada.Text_IO;
procedure P is
   type List is array (Positive range <>) of Integer;
   function Square (X : Integer) return Integer is (X * X);
   pragma Inline (Square);
   procedure Fill (A : in out List) is
      N : Integer := 0;
      procedure Step (I : Positive) is
      begin
         N := N + Square (I);
         A (I) := N;
      end Step;
   begin
      for I in A'Range loop
         Step (I);
      end loop;
   end Fill;
   L : List (1 .. 10);
begin
   Fill (L);
   Put_Line (Integer'Image (L (10)));
end P;
"""
D = r"""
import std.stdio, std.algorithm, std.range;
int square(int x) { return x > 3 ? x * x : x; }
class Box { int[] v; void add(int x) { v ~= square(x); } int total() { return v.sum; } }
void main(string[] args) {
	auto b = new Box;
	foreach (i; iota(10)) b.add(i);
	writeln(b.total, b.v.map!(x => x + 1).filter!(x => x & 1).array);
}
"""
RUST = r"""
use std::collections::BTreeMap;
#[inline] fn square(x: u32) -> u32 { if x > 3 { x * x } else { x } }
trait Shape { fn area(&self) -> u32; }
struct Rect(u32, u32);
impl Shape for Rect { fn area(&self) -> u32 { square(self.0) + self.1 } }
#[inline(never)] fn work(n: u32) -> u32 {
    let mut m = BTreeMap::new();
    for i in 0..n { *m.entry(i.to_string()).or_insert(0) += square(i); }
    let mut v: Vec<u32> = m.values().copied().filter(|x| x & 1 == 1).collect();
    v.sort_by(|a, b| b.cmp(a));
    v.iter().map(|x| square(*x)).sum()
}
fn main() {
    let n = std::env::args().count() as u32;
    let s: Box<dyn Shape> = Box::new(Rect(n, 2));
    println!("{} {}", work(n * 10), s.area());
}
"""
GO = r"""
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

type shape interface{ area() int }
type rect struct{ a, b int }

func square(x int) int {
	if x > 3 {
		return x * x
	}
	return x
}
func (r rect) area() int { return square(r.a) + r.b }
func each[T any](list []T, f func(T)) {
	for _, x := range list {
		f(x)
	}
}

func main() {
	var s shape = rect{len(os.Args), 2}
	list := strings.Fields("b c a")
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	each(list, func(x string) { fmt.Println(x, square(len(x))) })
	fmt.Println(s.area())
}
"""
# Regions of OpenMP become functions of their own within the one that they stand in; so do functions that GNU C nests. Here those around
# them are inlined, so that they stand in an abstract function.
OMP = r"""
#include <stdio.h>
#include <stdlib.h>
static inline int square(int x) { if (x > 3) return x * x; return x + x; }
static inline int sum(const int *list, int n)
{
	int s = 0;
#pragma omp parallel for reduction(+ : s)
	for (int i = 0; i < n; i++)
		s += square(list[i]);
	return s;
}
static inline void twice(int *list, int n)
{
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < n; i++) {
#pragma omp task firstprivate(i)
		list[i] += square(list[i]) + square(i);
	}
}
#ifdef __cplusplus
struct box { int n; int total(int k) { int s = 0; auto f = [&](int x) { return square(x) + n; };
#pragma omp parallel for simd reduction(+ : s) schedule(dynamic)
	for (int i = 0; i < k; i++) s += f(i);
	return s; } };
#endif
int main(int argc, char **argv)
{
	int list[64] = { argc, 3, 5 };
	twice(list, 64);
	printf("%d\n", sum(list, 64) + sum(list, argc));
#ifdef __cplusplus
	box b { argc };
	printf("%d\n", b.total(argc * 10));
#endif
#pragma omp parallel sections
	{
#pragma omp section
		list[1] = square(list[2]);
#pragma omp section
		list[3] = sum(list, 3);
	}
	return list[1] + list[3];
}
"""
NESTED = r"""
#include <stdio.h>
static inline int square(int x) { if (x > 3) return x * x; return x + x; }
static inline int all(const int *list, int n)
{
	int s = 0;
	__attribute__((noinline)) void add(int x) { s += square(x) + n; }
	int one(int i) { add(i); return square(list[i]); }
	for (int i = 0; i < n; i++)
		s += one(i);
	return s;
}
int main(int argc, char **argv)
{
	int list[8] = { argc, 3, 5 };
	printf("%d %d\n", all(list, 8), all(list, argc));
	return 0;
}
"""
OMP_FORTRAN = r"""
program p
  implicit none
  integer :: a(100), i, s
  s = 0
  !$omp parallel do
  do i = 1, 100
    a(i) = square(i)
  end do
  !$omp parallel do reduction(+:s)
  do i = 1, 100
    s = s + square(a(i)) + inner(i)
  end do
  print *, s
contains
  pure integer function square(x)
    integer, intent(in) :: x
    square = x * x + 1
  end function
  integer function inner(k)
    integer, intent(in) :: k
    inner = k + a(1)
  end function
end program
"""

SOURCES = {"a.c": C, "a.cc": CC, "b.cc": CC2, "a.f90": FORTRAN, "p.adb": ADA, "a.d": D, "a.rs": RUST, "a.go": GO,
           "o.c": OMP, "o.cc": OMP, "n.c": NESTED, "o.f90": OMP_FORTRAN}
CLANGS = (13, 14, 15, 16, 19)
GCCS = (11, 12)

# unread: the others cannot read an option; they are asked for a program with the same code, compiled with
# others: pairs of an option and that instead of it.
Case = collections.namedtuple("Case", "name commands program env quick section unread", defaults=({}, False, None, None))


def compile_and_link(cxx, flags, link="", tail=()):
    """Two units of C++ as objects, so that split units, comdats and link-time optimization have something to do."""
    return [f"{cxx} {flags} -c a.cc -o a.o", f"{cxx} {flags} -c b.cc -o b.o", f"{cxx} {flags} {link} -o program a.o b.o", *tail]


def gcc_cases():
    for n in GCCS:
        cxx, cc = f"g++-{n}", f"gcc-{n}"

        def case(name, flags, link="", tail=(), quick=False):
            return Case(f"gcc {n}: {name}", compile_and_link(cxx, flags, link, tail), "program", quick=quick and n == 12,
                        unread=(("-gz=zlib-gnu", ""),) if "zlib-gnu" in flags else None)
        for version in (2, 3, 4, 5):
            for level in ("-O0", "-O2") if version != 5 else ("-O0", "-Og", "-O1", "-O2", "-O3", "-Os"):
                yield case(f"-gdwarf-{version} {level}", f"-g -gdwarf-{version} {level}")
            yield Case(f"gcc {n}: C with nested functions, -gdwarf-{version} -O2", [f"{cc} -DNESTED -g -gdwarf-{version} -O2 a.c -o program"], "program")
            for level in ("-O0", "-O1", "-O2", "-O3"):
                yield Case(f"gcc {n}: functions nested in inlined ones, -gdwarf-{version} {level}", [f"{cc} -g -gdwarf-{version} {level} n.c -o program"], "program")
                yield Case(f"gcc {n}: OpenMP, -gdwarf-{version} {level}", [f"{cc} -fopenmp -g -gdwarf-{version} {level} o.c -o program"], "program",
                           quick=n == 12 and (version, level) == (5, "-O2"))
            # The others do not read split units of versions before 4.
            for flags in ("", "-flto", *(["-gsplit-dwarf"] if version > 3 else [])):
                yield Case(f"gcc {n}: OpenMP in C++, -gdwarf-{version} -O2 {flags}", [f"{cxx} -fopenmp -g -gdwarf-{version} -O2 {flags} o.cc -o program"], "program")
            yield Case(f"gcc {n}: C -m32, -gdwarf-{version} -O2", [f"{cc} -m32 -g -gdwarf-{version} -O2 a.c -o program"], "program")
        for version in (4, 5):
            yield case(f"-gsplit-dwarf, version {version}", f"-g -gdwarf-{version} -O2 -gsplit-dwarf", quick=version == 4)
            yield case(f"-gsplit-dwarf in a .dwp, version {version}", f"-g -gdwarf-{version} -O2 -gsplit-dwarf", tail=(
                "dwp -e program" if version == 4 else "llvm-dwp-19 -e program -o program.dwp", "rm a.dwo b.dwo"))
            yield case(f"-fdebug-types-section, version {version}", f"-g -gdwarf-{version} -O2 -fdebug-types-section", quick=version == 5)
            yield case(f"-fdebug-types-section -gsplit-dwarf, version {version}", f"-g -gdwarf-{version} -O2 -fdebug-types-section -gsplit-dwarf", quick=version == 5)
            yield Case(f"gcc {n}: an object file, -fdebug-types-section, version {version}", [f"{cxx} -g -gdwarf-{version} -O2 -fdebug-types-section -c a.cc -o a.o"],
                       "a.o", section=".text", unread=(("-fdebug-types-section", ""),))
            yield case(f"-gdwarf64, version {version}", f"-g -gdwarf-{version} -O2 -gdwarf64", quick=version == 5)
            yield case(f"dwz, version {version}", f"-g -gdwarf-{version} -O2", tail=("dwz program",), quick=version == 5)
            yield case(f"-flto, version {version}", f"-g -gdwarf-{version} -O2 -flto", quick=version == 5)
            yield case(f"-m32, version {version}", f"-g -gdwarf-{version} -O2 -m32")
        for flags in ("-g1", "-g3", "-gz=zlib", "-gz=zlib-gnu", "-gz=zstd", "-ggnu-pubnames", "-gno-column-info", "-gno-inline-points", "-ginline-points",
                      "-gno-statement-frontiers", "-gvariable-location-views", "-gvariable-location-views=incompat5", "-gno-variable-location-views",
                      "-gno-as-loc-support", "-gno-as-locview-support", "-gstrict-dwarf", "-gdescribe-dies", "-gno-record-gcc-switches", "-grecord-gcc-switches",
                      "-gno-internal-reset-location-views", "-fno-dwarf2-cfi-asm", "-femit-class-debug-always", "-fno-merge-debug-strings",
                      "-fno-eliminate-unused-debug-types", "-fno-eliminate-unused-debug-symbols", "-fvar-tracking-assignments", "-ffunction-sections",
                      "-fno-reorder-functions", "-freorder-blocks-and-partition", "-fno-reorder-blocks-and-partition", "-fipa-icf", "-fno-inline", "-finline-functions",
                      "-fpatchable-function-entry=4", "-fsanitize=address", "-fsanitize=undefined", "-fprofile-generate", "-pg", "-fno-pie -no-pie", "-static"):
            yield case(f"{flags} -O2", f"-g -O2 {flags}", quick=flags == "-gz=zlib")
        yield case("-ffunction-sections --gc-sections", "-g -O2 -ffunction-sections -fdata-sections", "-Wl,--gc-sections")
        yield case("gold --icf=all --gc-sections", "-g -O2 -ffunction-sections", "-fuse-ld=gold -Wl,--icf=all -Wl,--gc-sections", quick=True)
        yield case("mold --icf=all --gc-sections", "-g -O2 -ffunction-sections", "-fuse-ld=mold -Wl,--icf=all -Wl,--gc-sections")
        yield case("gold --gdb-index", "-g -O2 -ggnu-pubnames", "-fuse-ld=gold -Wl,--gdb-index")
        yield case("--compress-debug-sections=zlib", "-g -O2", "-Wl,--compress-debug-sections=zlib")
        yield case("hot and cold partitions by a profile", "-g -O2 -fprofile-use -fprofile-partial-training -Wno-missing-profile -freorder-blocks-and-partition")
        yield Case(f"gcc {n}: an object file", [f"{cxx} -g -O2 -c a.cc -o a.o"], "a.o", section=".text")
        yield Case(f"gcc {n}: a linked object file (-r)", [f"{cxx} -g -O2 -c a.cc -o a.o", f"{cxx} -g -O2 -c b.cc -o b.o", "ld -r -o ab.o a.o b.o"], "ab.o", section=".text")
        yield case("a debug file", "-g -O2", tail=("objcopy --only-keep-debug program program.debug", "mv program.debug program"))
        yield case("a debug file, eu-strip", "-g -O2", tail=("eu-strip -f program.debug program", "mv program.debug program"))


def clang_cases():
    for n in CLANGS:
        cxx, cc = f"clang++-{n}", f"clang-{n}"
        lld = f"-fuse-ld=lld-{19 if n > 14 else 14}"

        def case(name, flags, link="", tail=(), quick=False):
            return Case(f"clang {n}: {name}", compile_and_link(cxx, flags, link, tail), "program", quick=quick and n == 14,
                        unread=(("=Expressions", "=Disabled"), ("-gsplit-dwarf", "")) if "=Expressions" in flags else None)
        for version in (2, 3, 4, 5):
            for level in ("-O0", "-O2") if version != 5 else ("-O0", "-O1", "-O2", "-O3", "-Os"):
                yield case(f"-gdwarf-{version} {level}", f"-g -gdwarf-{version} {level}")
            for level in ("-O0", "-O2"):
                yield Case(f"clang {n}: OpenMP, -gdwarf-{version} {level}", [f"{cc} -fopenmp -g -gdwarf-{version} {level} -c o.c -o o.o"], "o.o", section=".text")
                yield Case(f"clang {n}: OpenMP in C++, -gdwarf-{version} {level}", [f"{cxx} -fopenmp -g -gdwarf-{version} {level} -c o.cc -o o.o"], "o.o", section=".text")
            yield Case(f"clang {n}: C -m32, -gdwarf-{version} -O2", [f"{cc} -m32 -g -gdwarf-{version} -O2 a.c -o program"], "program")
        for version in (4, 5):
            yield case(f"-gsplit-dwarf, version {version}", f"-g -gdwarf-{version} -O2 -gsplit-dwarf", quick=version == 5)
            yield case(f"-gsplit-dwarf in a .dwp, version {version}", f"-g -gdwarf-{version} -O2 -gsplit-dwarf",
                       tail=(f"llvm-dwp-{max(n, 14) if n in (14, 19) else 19} -e program -o program.dwp", "rm a.dwo b.dwo"))
            yield case(f"-gsplit-dwarf=single, version {version}", f"-g -gdwarf-{version} -O2 -gsplit-dwarf=single")
            yield case(f"-gsplit-dwarf -fsplit-dwarf-inlining, version {version}", f"-g -gdwarf-{version} -O2 -gsplit-dwarf -fsplit-dwarf-inlining")
            yield case(f"-fdebug-types-section, version {version}", f"-g -gdwarf-{version} -O2 -fdebug-types-section")
            yield case(f"-fdebug-types-section -gsplit-dwarf, version {version}", f"-g -gdwarf-{version} -O2 -fdebug-types-section -gsplit-dwarf")
            yield Case(f"clang {n}: an object file, -fdebug-types-section, version {version}", [f"{cxx} -g -gdwarf-{version} -O2 -fdebug-types-section -c a.cc -o a.o"],
                       "a.o", section=".text", unread=(("-fdebug-types-section", ""),))
            yield case(f"-gdwarf64, version {version}", f"-g -gdwarf-{version} -O2 -gdwarf64")
            yield case(f"-gmlt, version {version}", f"-gmlt -gdwarf-{version} -O2", quick=version == 5)
            yield case(f"-flto, version {version}", f"-g -gdwarf-{version} -O2 -flto", lld)
            yield case(f"-flto=thin, version {version}", f"-g -gdwarf-{version} -O2 -flto=thin", lld)
            yield case(f"-flto=thin -gsplit-dwarf, version {version}", f"-g -gdwarf-{version} -O2 -flto=thin -gsplit-dwarf", f"{lld} -Wl,--plugin-opt=dwo_dir=dwo")
            yield case(f"-m32, version {version}", f"-g -gdwarf-{version} -O2 -m32")
            yield case(f"dwz, version {version}", f"-g -gdwarf-{version} -O2", tail=("dwz program",))
            yield case(f"-fbasic-block-sections=all, version {version}", f"-g -gdwarf-{version} -O2 -fbasic-block-sections=all", lld, quick=version == 5)
        for mode in ("Disabled", "Ranges", "Expressions", "Form"):
            yield case(f"-minimize-addr-in-v5={mode}", f"-g -gdwarf-5 -O2 -mllvm -minimize-addr-in-v5={mode}", quick=mode in ("Expressions", "Form"))
            yield case(f"-minimize-addr-in-v5={mode} -gsplit-dwarf", f"-g -gdwarf-5 -O2 -gsplit-dwarf -mllvm -minimize-addr-in-v5={mode}")
            yield case(f"-minimize-addr-in-v5={mode} -ffunction-sections", f"-g -gdwarf-5 -O2 -ffunction-sections -mllvm -minimize-addr-in-v5={mode}")
        for flags in ("-g1", "-g3", "-gline-tables-only", "-gz=zlib", "-gz=zstd", "-gembed-source", "-gcolumn-info", "-gno-column-info", "-gno-inline-line-tables",
                      "-ggnu-pubnames", "-gpubnames", "-gsimple-template-names", "-gsimple-template-names=mangled", "-fdebug-info-for-profiling",
                      "-fpseudo-probe-for-profiling", "-fdebug-macro", "-fno-dwarf2-cfi-asm", "-fno-dwarf-directory-asm", "-grecord-command-line", "-ggdb", "-glldb", "-gsce",
                      "-gdbx", "-gtemplate-alias", "-gkey-instructions", "-gstrict-dwarf", "-gno-strict-dwarf", "-fstandalone-debug", "-fno-standalone-debug", "-ffunction-sections",
                      "-funique-basic-block-section-names -fbasic-block-sections=all", "-fbasic-block-sections=labels", "-fbasic-block-address-map", "-fno-inline",
                      "-fno-integrated-as", "-mllvm -dwarf-inlined-strings=Enable", "-mllvm -no-dwarf-ranges-section=Enable", "-mllvm -dwarf-linkage-names=Abstract",
                      "-mllvm -dwarf-sections-as-references=Enable", "-mllvm -use-dwarf-ranges-base-address-specifier", "-mllvm -generate-arange-section", "-gdwarf-aranges",
                      "-mllvm -use-gnu-debug-macro", "-mllvm -dwarf-op-convert=Enable", "-mllvm -hot-cold-split", "-mllvm -enable-split-machine-functions",
                      "-fsplit-machine-functions", "-fsanitize=address", "-fprofile-instr-generate -fcoverage-mapping", "-fno-pie -no-pie"):
            yield case(f"{flags} -O2", f"-g -O2 {flags}", quick=flags in ("-gsimple-template-names",))
        yield case("lld --icf=all --gc-sections", "-g -O2 -ffunction-sections", f"{lld} -Wl,--icf=all -Wl,--gc-sections")
        yield case("lld --gdb-index", "-g -O2 -ggnu-pubnames", f"{lld} -Wl,--gdb-index")
        yield case("lld --compress-debug-sections=zstd", "-g -O2", f"{lld} -Wl,--compress-debug-sections=zstd")
        # Only LLVM 19 reads CREL.
        yield Case(f"clang {n}: an object file, CREL", [f"{cxx} -g -O2 -Wa,--crel,--allow-experimental-crel -c a.cc -o a.o"], "a.o", section=".text",
                   unread=(("-Wa,--crel,--allow-experimental-crel", ""),))
        yield Case(f"clang {n}: an object file", [f"{cxx} -g -O2 -c a.cc -o a.o"], "a.o", section=".text")
        yield Case(f"clang {n}: an object file, -minimize-addr-in-v5=Form", [f"{cxx} -g -O2 -gdwarf-5 -mllvm -minimize-addr-in-v5=Form -c a.cc -o a.o"], "a.o", section=".text")


def other_cases():
    for version in (2, 3, 4, 5):
        for level in ("-O0", "-O2", "-O3"):
            yield Case(f"gfortran: -gdwarf-{version} {level}", [f"gfortran -g -gdwarf-{version} {level} a.f90 -o program"], "program")
            yield Case(f"gfortran: OpenMP, -gdwarf-{version} {level}", [f"gfortran -fopenmp -g -gdwarf-{version} {level} o.f90 -o program"], "program")
            yield Case(f"gnat: -gdwarf-{version} {level}", [f"gnatmake-12 -f -q -g -gdwarf-{version} {level} -gnatn p.adb -o program"], "program")
    for flags in ("-g -O0", "-g -O2", "-g -O3 -inline", "-gc -O2", "-gline-tables-only -O2", "-g -O2 --dwarf-version=4", "-g -O2 --dwarf-version=5",
                  "-g -O2 --flto=full", "-g -O2 -release"):
        yield Case(f"ldc: {flags}", [f"ldc2 {flags} a.d -of=program"], "program")
    for flags in ("debuginfo=0", "debuginfo=1", "debuginfo=2", "debuginfo=line-tables-only", "debuginfo=line-directives-only", "debuginfo=2 -C split-debuginfo=packed",
                  "debuginfo=2 -C split-debuginfo=unpacked", "debuginfo=2 -C lto=fat", "debuginfo=2 -C lto=thin", "debuginfo=2 -C codegen-units=1",
                  "debuginfo=2 -C symbol-mangling-version=v0", "debuginfo=2 -C dwarf-version=4", "debuginfo=2 -C dwarf-version=5", "debuginfo=2 -C panic=abort",
                  "debuginfo=2 -C llvm-args=-minimize-addr-in-v5=Form -C dwarf-version=5"):
        for level in (0, 3):
            yield Case(f"rustc: -C opt-level={level} -C {flags}", [f"rustc -C opt-level={level} -C {flags} a.rs -o program"], "program")
    for flags, env in (("", {}), ("-gcflags=all=-N\\ -l", {}), ("-ldflags=-compressdwarf=false", {}), ("-buildmode=pie", {}), ("-ldflags=-w", {}), ("-trimpath", {}),
                       ("", {"GOEXPERIMENT": "nodwarf5"}), ("", {"GOARCH": "386"}), ("", {"GOARCH": "arm64"})):
        name = " ".join([*(f"{k}={v}" for k, v in env.items()), flags or "as it is"])
        # Without DWARF lode has the lines of Go's own table.
        yield Case(f"go: {name}", [f"go build {flags} -o program a.go"], "program", unread=(("-ldflags=-w", ""),) if "=-w" in flags else None, env={"GOFLAGS": "-mod=mod", "GO111MODULE": "off", **env})


def cases():
    return [*gcc_cases(), *clang_cases(), *other_cases()]


def compile_case(case, folder, sources=SOURCES):
    """None, or why there is no program."""
    if case.unread:
        # in the same folder, since its name is in the DWARF
        commands = list(case.commands)
        for option, instead in case.unread:
            commands = [c.replace(option, instead) for c in commands]
        why = compile_case(case._replace(commands=commands, unread=None), folder, sources)
        if why:
            return why
        (folder / case.program).rename(folder / "theirs")
    for name, text in sources.items():
        (folder / name).write_text(text)
    (folder / "dwo").mkdir(exist_ok=True)
    for command in case.commands:
        p = subprocess.run(command, shell=True, cwd=folder, env={**os.environ, **case.env}, capture_output=True, text=True, errors="replace")
        if p.returncode:
            lines = [line for line in (p.stderr + p.stdout).split("\n") if line.strip()]
            return (lines or [f"exit status {p.returncode}"])[0].strip()[:110]
    return None


Result = collections.namedtuple("Result", "counts differ skipped verified")


def judge(case, folder, n):
    program, table = folder / case.program, folder / "table"
    said = subprocess.run([score.LODE, "symtab", "build", "-o", table, program], capture_output=True, text=True)
    if said.returncode:
        return Result(collections.Counter(), {}, 0, said.stderr.strip()[-200:])
    skipped = re.search(r"^(\d+) parts were skipped", said.stderr, re.M)
    verified = subprocess.run([score.LODE, "symtab", "verify", "-e", program, table], capture_output=True, text=True)
    sections = [s for s in score.code(program) if not case.section or s[0] == case.section]
    counts, differ = score.compare(program, score.choose(sections, n, 1), case.section, theirs=folder / "theirs" if case.unread else None)
    return Result(counts, differ, int(skipped[1]) if skipped else 0, "" if " 0 different" in verified.stdout else (verified.stdout + verified.stderr)[-200:])


def share(counts, what):
    return f"{counts['same ' + what]}/{counts['known ' + what]}"


def is_good(r):
    return not r.verified and not r.skipped and all(r.counts[f"same {w}"] == r.counts[f"known {w}"] for w in score.KINDS[:3])


def newest_symbolizer():
    for n in (19, 16, 15, 14):
        if shutil.which(f"llvm-symbolizer-{n}"):
            return f"llvm-symbolizer-{n}"
    return "llvm-symbolizer"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", type=int, default=600)
    p.add_argument("--list", action="store_true")
    p.add_argument("--show", type=int, default=0, help="so many of each kind of difference")
    p.add_argument("--keep", help="leave the programs in this folder")
    p.add_argument("patterns", nargs="*")
    a = p.parse_args()
    if "LLVM_SYMBOLIZER" not in os.environ:
        score.LLVM = newest_symbolizer()
    chosen = [c for c in cases() if not a.patterns or any(x in c.name for x in a.patterns)]
    if a.list:
        print("\n".join(c.name for c in chosen))
        return 0
    print(f"{score.LLVM}; {a.n} addresses for each case")
    total, bad, none = collections.Counter(), 0, collections.Counter()
    for i, case in enumerate(chosen):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(a.keep) / str(i) if a.keep else pathlib.Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            why = compile_case(case, folder)
            if why:
                none[why] += 1
                print(f"{case.name}: none: {why}", flush=True)
                continue
            try:
                r = judge(case, folder, a.n)
            except (ValueError, subprocess.TimeoutExpired) as e:
                bad += 1
                print(f"{case.name}: FAILED: {e}", flush=True)
                continue
            total.update(r.counts)
            total["skipped"] += r.skipped
            bad += not is_good(r)
            print(f"{case.name}: lines {share(r.counts, 'line')}, chains {share(r.counts, 'chain')}, but for names {share(r.counts, 'chain but for names')}, "
                  f"LLVM's {share(r.counts, KIND_LLVM)}, skipped {r.skipped}{'' if is_good(r) else '  DIFFERS ' + r.verified}", flush=True)
            for kind, list_ in sorted(r.differ.items()):
                for address, *answers in list_[:a.show]:
                    print(f"    {kind} {address:#x}", *answers)
    print(f"all: {len(chosen) - sum(none.values())} programs, {total['asked']} addresses, lines {share(total, 'line')}, chains {share(total, 'chain')}, "
          f"but for names {share(total, 'chain but for names')}, LLVM's {share(total, KIND_LLVM)}, skipped {total['skipped']}; {bad} differ, {sum(none.values())} not compiled")
    return 1 if bad else 0


KIND_LLVM = score.KINDS[3]

if __name__ == "__main__":
    sys.exit(main())
