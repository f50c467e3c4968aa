# SPDX-License-Identifier: Apache-2.0
"""Compare answers with llvm-symbolizer and eu-addr2line, for programs of every DWARF version and compiler."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LODE = os.environ.get("LODE", str(ROOT / "build" / "lode"))

C = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static inline int square(int x) { if (x > 10) return x * x; return x + 1; }
static inline int twice(int x) { int y = square(x); return square(y) + y; }
__attribute__((noinline)) static int slow(int n)
{
	int s = 0;
	for (int i = 0; i < n; i++)
		s += twice(i) ^ square(s);
	return s;
}
__attribute__((cold, noinline)) static void never(int c) { printf("%d\\n", c); abort(); }
int main(int c, char **v)
{
	if (c > 3)
		never(c);
	printf("%d %d\\n", slow(c), (int)strlen(v[0]));
	return twice(c);
}
"""

CC = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
namespace ns {
namespace { struct Hidden { int v; int get() const { return v * 3; } }; }
template <class T> struct Box { T t; explicit Box(T x) : t(x) {} T twice() { return t + t; } };
int work(int n)
{
	std::vector<int> v;
	for (int i = 0; i < n; i++)
		v.push_back(i * 7 % 13);
	std::sort(v.begin(), v.end(), [](int a, int b) { return a % 5 < b % 5; });
	std::map<std::string, int> m;
	for (int x : v)
		m[std::to_string(x)] += Hidden{x}.get();
	return Box<int>(m.size()).twice();
}
}
int main(int c, char **) { return ns::work(c * 10); }
"""

DISCRIMINATORS = """
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(int x, int y) { return x > 3 ? (y ? x * 7 : y * 3) : (x < 0 ? y - x : rand() % 3); }
static int mid(int x) { int s = 0; for (int i = 0; i < x; i++) s += inner(i, x) + (i & 1 ? inner(x, i) : inner(s, 2)); return s; }
int main(int c, char **v) { int s = 0; for (int i = 0; i < c * 10; i++) { if ((i % 3 && c > 2) || i % 7 == 2) s += mid(i); else s -= i % 2 ? mid(s) : inner(i, s); } printf("%d\\n", s); return s & 1; }
"""

KINDS = [(compiler, flags) for compiler in ("gcc", "clang") for flags in
         ("-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gz", "-gdwarf-4 -ffunction-sections", "-gdwarf-5 -O0")]
KINDS += [("g++", "-gdwarf-5"), ("g++", "-gdwarf-4 -fdebug-types-section"), ("clang++", "-gdwarf-5"), ("g++", "-gdwarf-5 -flto"), ("gcc", "-gdwarf-5 -flto")]
KINDS += [(compiler, f"-gdwarf-{version} -gsplit-dwarf") for compiler in ("g++", "clang++") for version in (4, 5)]


def run(*argv, text=None):
    return subprocess.run([str(a) for a in argv], input=text, capture_output=True, text=True, timeout=120, check=True).stdout


def addresses(path):
    """Every third byte of the sections of code."""
    out = run("readelf", "-SW", path)
    for m in re.finditer(r"\] (\S+) +PROGBITS +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +AX", out):
        if not m[1].startswith(".plt"):
            yield from range(int(m[2], 16), int(m[2], 16) + int(m[3], 16), 3)


def chains(text):
    """[(name without the suffix that a compiler adds, path, line)]"""
    ret = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.strip("\n").split("\n")
        chain = []
        for name, place in zip(lines[::2], lines[1::2]):
            path, line, _ = place.rsplit(":", 2)
            chain.append((re.sub(r"\.(isra|constprop|part|cold|lto_priv).*", "", name), os.path.normpath(path), int(line)))
        ret.append(chain)
    return ret


def eu_lines(path, text):
    """The innermost frames by eu-addr2line."""
    return [(os.path.normpath(m[1]), int(m[2])) for m in
            re.finditer(r"^(.*?):(\d+)(?::\d+)?(?: \(.*\))?$", run("eu-addr2line", "-A", "-e", path, text=text), re.M)]


@pytest.mark.parametrize("compiler,flags", KINDS, ids=lambda x: str(x).replace(" ", ""))
def test_lines_and_chains_are_those_of_llvm_and_elfutils(compiler, flags, tmp_path):
    source = tmp_path / ("a.cc" if compiler.endswith("+") else "a.c")
    source.write_text(CC if compiler.endswith("+") else C)
    program = tmp_path / "program"
    subprocess.run([compiler, "-O2", *flags.split(), "-o", program, source], check=True, cwd=tmp_path)
    text = "".join(f"0x{a:x}\n" for a in addresses(program))
    n = text.count("\n")
    ours = chains(run(LODE, "symbolize", "-e", program, "--output-style", "llvm", "--no-demangle", text=text))
    theirs = chains(run("llvm-symbolizer", "-e", program, "--no-demangle", text=text))
    elfutils = eu_lines(program, text)
    assert len(ours) == len(theirs) == len(elfutils) == n
    agreed = different = 0
    for address, o, t, e in zip(text.split(), ours, theirs, elfutils):
        # elfutils does not read every table of clang's
        if t[0][1:] != e and (e[0] != "??" or not t[0][2]):
            continue
        agreed += 1
        same = [x[1:] for x in o] == [x[1:] for x in t]
        same = same and all(a == b or a.endswith("::" + b) for (a, _, _), (b, _, _) in zip(o, t))
        if not same:
            different += 1
            print(address, o, t)
    assert agreed > n // 20 and different * 1000 <= agreed


@pytest.mark.parametrize("compiler,packer,version", (("g++", "llvm-dwp", 4), ("g++", "dwp", 4), ("clang++", "llvm-dwp", 5)))
def test_a_dwp_gives_the_same_table_as_the_dwo_files(compiler, packer, version, tmp_path):
    for name, text in (("a", CC.replace("int main", "int one(); int main").replace("ns::work(c * 10)", "one() + ns::work(c * 10)")),
                       ("b", CC.replace("ns::work(c * 10)", "ns::work(c)").replace("int main(int c, char **)", "int one(int c)")
                        .replace("namespace ns", "namespace other").replace("ns::", "other::").replace("int one(int c)", "int one() { int c = 3;") + "}")):
        (tmp_path / f"{name}.cc").write_text(text)
        subprocess.run([compiler, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", "-c", f"{name}.cc"], check=True, cwd=tmp_path)
    subprocess.run([compiler, "-o", "program", "a.o", "b.o"], check=True, cwd=tmp_path)
    build = (LODE, "symtab", "build", "-o")
    run(*build, tmp_path / "dwo.sym", tmp_path / "program")
    subprocess.run([packer, "-e", "program", "-o", "program.dwp"], cwd=tmp_path, check=True)
    for dwo in tmp_path.glob("*.dwo"):
        dwo.unlink()
    run(*build, tmp_path / "dwp.sym", tmp_path / "program")
    assert (tmp_path / "dwo.sym").read_bytes() == (tmp_path / "dwp.sym").read_bytes()
    assert " 0 different" in run(LODE, "symtab", "verify", "-e", tmp_path / "program", tmp_path / "dwp.sym")
    dump = run(LODE, "symtab", "dump", tmp_path / "dwp.sym")
    assert "ns::work" in dump and "missing" not in dump
    (tmp_path / "program.dwp").unlink()
    run(*build, tmp_path / "none.sym", tmp_path / "program")
    dump = run(LODE, "symtab", "dump", "--summary", tmp_path / "none.sym")
    assert "split files missing" in dump and "a.dwo: was not found" in dump


@pytest.mark.parametrize("flags", ("-gdwarf-4", "-gdwarf-5"))
def test_discriminators_are_those_of_llvm(flags, tmp_path):
    (tmp_path / "a.c").write_text(DISCRIMINATORS)
    program = tmp_path / "program"
    subprocess.run(["clang", "-O2", "-fdebug-info-for-profiling", *flags.split(), "-o", program, "a.c"], check=True, cwd=tmp_path)
    text = "".join(f"0x{a:x}\n" for a in addresses(program))

    def frames(out):
        places = (json.loads(line)["Symbol"] for line in out.splitlines())
        keys = ("FunctionName", "Line", "Column", "Discriminator")
        # for an unknown address llvm-symbolizer prints one empty frame
        return [[tuple(f[k] for k in keys) for f in chain if f["FunctionName"]] for chain in places]

    options = ("-e", program, "--output-style", "json")
    theirs = frames(run("llvm-symbolizer", "-e", program, "--output-style=JSON", text=text))
    assert frames(run(LODE, "symbolize", "--discriminators", *options, text=text)) == theirs
    found = [f[3] for chain in theirs for f in chain]
    callers = [f[3] for chain in theirs for f in chain[1:]]
    assert any(found) and any(callers)
    # Discriminators are absent unless they are asked for.
    assert not any(f[3] for chain in frames(run(LODE, "symbolize", *options, text=text)) for f in chain)
    table = tmp_path / "table"
    run(LODE, "symtab", "build", "--discriminators", "-o", table, program)
    assert " 0 different" in run(LODE, "symtab", "verify", "-e", program, table)
    assert frames(run(LODE, "symbolize", "-e", table, "--output-style", "json", text=text)) == theirs
    run(LODE, "symtab", "build", "-o", table, program)
    without = subprocess.run([LODE, "symbolize", "--discriminators", "-e", table, "0x1000"], capture_output=True, text=True)
    assert without.returncode == 1 and "without discriminators" in without.stderr


def test_addr2line_prints_the_same_as_binutils(tmp_path):
    source = tmp_path / "a.c"
    source.write_text(C)
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O2", "-g", "-o", program, source], check=True, cwd=tmp_path)
    nm = {m[2]: int(m[1], 16) for m in re.finditer(r"^(\S+) [tT] (\S+)$", run("nm", program), re.M)}
    where = [f"{a:x}" for start in (nm["main"], nm["slow"]) for a in range(start, start + 24)]
    for options in ("-e", "-fe", "-fie", "-fiae", "-fipae", "-fise"):
        ours = run(LODE, "addr2line", options, program, *where)
        theirs = re.sub(r" \(discriminator \d+\)", "", run("addr2line", options, program, *where))
        assert ours == theirs, options
    assert run(LODE, "addr2line", "-fie", program, text="\n".join(where)) == run(LODE, "addr2line", "-fie", program, *where)

def test_addr2line_takes_offsets_in_a_section_of_any_file(tmp_path):
    (tmp_path / "x.c").write_text(
        '__attribute__((section(".extra"), noinline)) int extra(int n) { return n * 3; }\nint main(int n, char **v) { return extra(n); }\n')
    program = tmp_path / "x"
    subprocess.run(["gcc", "-g", "-O1", "-o", program, tmp_path / "x.c"], check=True)
    for args in (["-j", ".extra", "0", "2"], ["-j", ".text", "0", "ffffff"], ["-j", ".extra", "-a", "zzz"]):
        ours, theirs = (subprocess.run([*tool, "-fe", program, *args], capture_output=True, text=True)
                        for tool in ([LODE, "addr2line"], ["addr2line"]))
        names = [r.stdout.splitlines()[::2] for r in (ours, theirs)]
        assert ours.returncode == theirs.returncode == 0 and (names[0] == names[1] or "-a" in args), (ours, theirs)
    assert "extra\n" in run(LODE, "addr2line", "-j", ".extra", "-fe", program, "0")
    ours, theirs = (subprocess.run([*tool, "-j", ".none", "-e", program, "0"], capture_output=True, text=True)
                    for tool in ([LODE, "addr2line"], ["addr2line"]))
    assert ours.returncode == theirs.returncode == 1 and "no section .none" in ours.stderr


def test_a_table_is_verified_and_the_same_with_threads(tmp_path):
    source = tmp_path / "a.cc"
    source.write_text(CC)
    program = tmp_path / "program"
    subprocess.run(["g++", "-O2", "-g", "-o", program, source], check=True, cwd=tmp_path)
    for threads in (1, 2, 5):
        run(LODE, "symtab", "build", "--threads", threads, "-o", tmp_path / f"{threads}.sym", program)
    assert len({(tmp_path / f"{t}.sym").read_bytes() for t in (1, 2, 5)}) == 1
    assert " 0 different" in run(LODE, "symtab", "verify", "-e", program, tmp_path / "1.sym")
    main = re.search(r"^(\S+) T main$", run("nm", program), re.M)[1]
    assert run(LODE, "symbolize", "-e", tmp_path / "1.sym", main) == run(LODE, "symbolize", "-e", program, main)
    assert "main" in run(LODE, "symtab", "dump", tmp_path / "1.sym")


@pytest.mark.parametrize("version", (4, 5))
def test_relative_folders_of_the_compilation(version, tmp_path):
    """Directory 0 of DWARF 5 is src itself, as llvm-symbolizer 19 says (14 does not); another directory, with the same string, is src/src."""
    (tmp_path / "src").mkdir()
    (tmp_path / "a.c").write_text("#include <a.c>\nint g(int x) { return f(x) ^ 5; }\n")
    (tmp_path / "src" / "a.c").write_text("__attribute__((noinline)) int f(int x) { return x * 3; }\n")
    program = tmp_path / "program.so"
    subprocess.run(["clang", "-g", f"-gdwarf-{version}", "-O1", "-Isrc", "-shared", "-fPIC", f"-ffile-prefix-map={tmp_path}=src", "-o", program, "a.c"], cwd=tmp_path, check=True)
    places = {}
    for address, f in re.findall(r"^(\w+) T ([fg])$", run("nm", program), re.M):
        places[f] = run(LODE, "symbolize", "-e", program, "--output-style", "llvm", f"0x{address}").split("\n")[1].rsplit(":", 2)[0]
    assert places == {"f": "src/src/a.c", "g": "src/a.c"}

def test_addr2line_prints_unknown_places_as_binutils(tmp_path):
    source = tmp_path / "a.c"
    source.write_text(C)
    subprocess.run(["gcc", "-O2", "-o", tmp_path / "symbols", source], check=True)
    subprocess.run(["strip", "-o", tmp_path / "bare", tmp_path / "symbols"], check=True)
    main = re.search(r"^(\S+) T main$", run("nm", tmp_path / "symbols"), re.M)[1]
    for program in ("symbols", "bare"):
        for options in ("-e", "-fe", "-fie", "-fpe", "-fiape"):
            where = [tmp_path / program, main, "0", "7fffffff0000"]
            assert run(LODE, "addr2line", options, *where) == run("addr2line", options, *where), (program, options)


def test_the_debug_file_is_found_by_its_link(tmp_path):
    source = tmp_path / "a.c"
    source.write_text(C)
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O2", "-g", "-o", program, source], check=True, cwd=tmp_path)
    slow = re.search(r"^(\S+) t slow$", run("nm", program), re.M)[1]
    before = run(LODE, "symbolize", "-e", program, slow)
    subprocess.run(["objcopy", "--only-keep-debug", program, f"{program}.debug"], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={program}.debug", program], check=True)
    assert "a.c:" in before and run(LODE, "symbolize", "-e", program, slow) == before


@pytest.mark.parametrize("strip", (("eu-strip", "-g", "-f"), ("eu-strip", "-f"), ("eu-strip", "-g", "--reloc-debug-sections", "-f")), ids=" ".join)
def test_symbols_that_only_the_program_has(strip, tmp_path):
    """`eu-strip -g` leaves the symbol table in the program; the linkage table of any program is in no debug file."""
    (tmp_path / "a.c").write_text(C)
    (tmp_path / "b.s").write_text(".text\n.globl by_hand\n.type by_hand, @function\nby_hand:\nnop\nret\n.size by_hand, . - by_hand\n"
                                  ".section .note.GNU-stack\n")
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O2", "-g", "-Wl,-z,lazy", "-o", program, "a.c", "b.s"], check=True, cwd=tmp_path)
    symbols = dict((name, address) for address, name in re.findall(r"^(\S+) [tT] (\w+)$", run("nm", program), re.M))
    entries = re.findall(r"^([0-9a-f]+) <\w+@plt>:", run("objdump", "-d", program), re.M)
    asked = "".join(f"0x{a}\n" for a in [*symbols.values(), *entries])
    before = run(LODE, "symbolize", "-e", program, "--output-style", "llvm", text=asked)
    assert {"by_hand", "_start", "slow", "printf@plt"} <= set(before.split("\n"))
    subprocess.run([*strip, program.with_suffix(".debug"), program], check=True)
    assert run(LODE, "symbolize", "-e", program, "--output-style", "llvm", text=asked) == before
    run(LODE, "symtab", "build", "-o", tmp_path / "table", program)
    assert run(LODE, "symbolize", "-e", tmp_path / "table", "--output-style", "llvm", text=asked) == before


def test_entries_of_the_linkage_table_have_names(tmp_path):
    source = tmp_path / "a.c"
    source.write_text(C)
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O2", "-o", program, source], check=True, cwd=tmp_path)
    entries = re.findall(r"^([0-9a-f]+) <(\w+@plt)>:", run("objdump", "-d", program), re.M)
    assert entries
    for address, name in entries:
        assert name in run(LODE, "symbolize", "-e", program, address)


OUTSIDE = """
__attribute__((noreturn, cold)) void fail(const char *, int);
int puts(const char *);
static inline int inner(int x) { if (x > 100) { puts("large"); fail("inner", x); } return x + 1; }
static inline int middle(int x) { if (x < 0) { puts("negative"); fail("middle", x); } return inner(x) * 3; }
__attribute__((noinline)) int outer(int x) { int s = 0; for (int i = 0; i < x; i++) s += middle(x ^ i); return s; }
int main(int c, char **v) { return outer(c); }
__attribute__((noreturn)) void fail(const char *why, int n) { for (;;) n += puts(why + n); }
"""


@pytest.mark.parametrize("compiler", ("gcc", "clang"))
def test_folded_functions_are_counted(compiler, tmp_path):
    """gold folds identical functions; each DIE has the code."""
    (tmp_path / "a.c").write_text("""
static inline int square(int x) { return x * x + 3; }
int one(int n, int *p) { int s = 0; for (int i = 0; i < n; i++) s += square(p[i]); return s; }
int same(int n, int *p) { int s = 0; for (int i = 0; i < n; i++) s += square(p[i]); return s; }
int main(int n, char **v) { int list[2] = { n, 2 }; return one(n, list) + same(n, list); }
""")
    program = tmp_path / "program"
    run(compiler, "-O1", "-g", "-ffunction-sections", "-c", "-o", tmp_path / "a.o", tmp_path / "a.c")
    run("gcc", "-fuse-ld=gold", "-Wl,--icf=all", "-o", program, tmp_path / "a.o")
    sizes = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) T (?:one|same)$", run("nm", "-S", program), re.M)
    assert len(sizes) == 2 and sizes[0] == sizes[1]
    r = subprocess.run([LODE, "symtab", "build", "-o", tmp_path / "table", program], capture_output=True, text=True, check=True)
    size = int(sizes[0][1], 16)
    assert f"hidden: 1 ranges of functions, {size} bytes" in r.stderr and "skipped" not in r.stderr
    assert json.loads(run(LODE, "inspect", "--json", tmp_path / "table"))["hidden"] == {"ranges": 1, "bytes": size, "line_bytes": 0}
    assert " 0 different" in run(LODE, "symtab", "verify", "-e", program, tmp_path / "table")


@pytest.mark.parametrize("compiler", ("gcc", "clang"))
def test_calls_outside_of_their_function(compiler, tmp_path):
    """BOLT cuts the addresses of a function that it splits, not those of the calls inlined into it. Here they are cut by hand."""
    (tmp_path / "a.c").write_text(OUTSIDE)
    run(compiler, "-O2", "-gdwarf-4", "-S", "-o", tmp_path / "a.s", tmp_path / "a.c")
    text = (tmp_path / "a.s").read_text()
    begin = re.search(r"^outer:(?:.*\n)+?\.(LFB\d+|Lfunc_begin\d+):", text, re.M)[1]
    end = begin.replace("FB", "FE").replace("begin", "end")
    text, n = re.subn(rf"(DW_AT_low_pc\n.*|{begin}\n\t\.quad\t)\.{end}-\.{begin}\b", r"\g<1>16", text)
    assert n
    (tmp_path / "a.s").write_text(text)
    program = tmp_path / "program"
    run(compiler, "-o", program, tmp_path / "a.s")
    m = re.search(r"^([0-9a-f]+) ([0-9a-f]+) T outer$", run("nm", "-S", program), re.M)
    text = "".join(f"{a:#x}\n" for a in range(int(m[1], 16), int(m[1], 16) + int(m[2], 16)))
    ours = chains(run(LODE, "symbolize", "-e", program, "--output-style", "llvm", "--no-demangle", text=text))
    for o, t in zip(ours, chains(run("llvm-symbolizer", "-e", program, "--no-demangle", text=text)), strict=True):
        # The rest of the row in which the function is cut counts as padding.
        assert o == t or (o == [("outer", "??", 0)] and len(t) == 1)
    assert sum(len(c) == 3 and c[-1][0] == "outer" for c in ours[16:]) > 20
    run(LODE, "symtab", "build", "-o", tmp_path / "table", program)
    assert " 0 different" in run(LODE, "symtab", "verify", "-e", program, tmp_path / "table")
    assert "skipped" not in run(LODE, "symtab", "dump", tmp_path / "table")
