# SPDX-License-Identifier: Apache-2.0
"""`lode split` compared with objcopy and strip: the same sections with the same content, the same symbols, and gdb accepts the pair.

Inputs are files compiled here, files of this build, and programs of this machine with a debug section added by objcopy (which
keeps their layout). LODE_ALL_FILES=1 takes more of them.
"""

import hashlib
import itertools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LODE_BUILD", ROOT / "build"))
LODE = os.environ.get("LODE", str(BUILD / "lode"))
SAMPLE = 400 if os.environ.get("LODE_ALL_FILES") else 16
NOBITS, GROUP, SYMTAB, REL, RELA, SHNDX, ADDRSIG = 8, 17, 2, 9, 4, 18, 0x6fff4c03


def run(*argv, check=True, **kw):
    return subprocess.run([str(a) for a in argv], check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)


class Elf:
    """Sections, symbols, segments of a file, read by the simplest code."""

    def __init__(self, path):
        self.data = d = pathlib.Path(path).read_bytes()
        assert d[:4] == b"\x7fELF", path
        self.wide, self.order = d[4] == 2, "<" if d[5] == 1 else ">"
        head = self.unpack("HHIQQQIHHHHHH" if self.wide else "HHIIIIIHHHHHH", 16)
        (self.type, self.machine, _, self.entry, self.phoff, shoff, self.flags, _, phsize, phnum, shsize, shnum, names) = head
        raw = [self.unpack("IIQQQQIIQQ" if self.wide else "IIIIIIIIII", shoff + i * shsize) for i in range(1)] if shoff else []
        if shoff and shnum == 0:
            shnum = raw[0][5]
        if names == 0xffff:
            names = raw[0][6]
        raw = [self.unpack("IIQQQQIIQQ" if self.wide else "IIIIIIIIII", shoff + i * shsize) for i in range(shnum)]
        keys = ("name", "type", "flags", "addr", "off", "size", "link", "info", "align", "entsize")
        self.sections = [dict(zip(keys, r)) for r in raw]
        text = self.bytes(self.sections[names])
        for i, s in enumerate(self.sections):
            s["index"] = i
            s["name"] = text[s["name"]:text.index(b"\0", s["name"])].decode()

    def unpack(self, form, off):
        return struct.unpack_from(self.order + form, self.data, off)

    def bytes(self, s):
        return b"" if s["type"] in (0, NOBITS) else self.data[s["off"]:s["off"] + s["size"]]

    def section(self, name):
        return next((s for s in self.sections if s["name"] == name), None)

    def label(self, i):
        """A section's identity without its number."""
        return self.sections[i]["name"] if 0 < i < len(self.sections) else i

    def symbols(self):
        table = next((s for s in self.sections if s["type"] == SYMTAB), None)
        if not table:
            return []
        names, data = self.bytes(self.sections[table["link"]]), self.bytes(table)
        far = next((self.bytes(s) for s in self.sections if s["type"] == SHNDX and s["link"] == table["index"]), b"")
        out = []
        for i in range(len(data) // (24 if self.wide else 16)):
            if self.wide:
                name, info, other, shndx, value, size = struct.unpack_from(self.order + "IBBHQQ", data, i * 24)
            else:
                name, value, size, info, other, shndx = struct.unpack_from(self.order + "IIIBBH", data, i * 16)
            if shndx == 0xffff:
                shndx, = struct.unpack_from(self.order + "I", far, 4 * i)
                where = self.label(shndx)
            else:
                where = self.label(shndx) if shndx < 0xff00 else shndx
            # binutils changes symbols in sections of thread-local storage to that type.
            if info & 15 == 0 and shndx < len(self.sections) and self.sections[shndx]["flags"] & 0x400:
                info |= 6
            out.append((names[name:names.index(b"\0", name)].decode("latin-1"), value, size, info, other, where))
        assert table["info"] >= 1 and all((s[3] >> 4 == 0) == (i < table["info"]) for i, s in enumerate(out) if i)
        return out

    def content(self, s):
        """A section's content without the numbers of sections and symbols."""
        data = self.bytes(s)
        if s["type"] == GROUP:
            words = struct.unpack(f"{self.order}{len(data) // 4}I", data)
            return words[:1] + tuple(self.label(w) for w in words[1:]) + (self.symbols()[s["info"]],)
        if s["type"] in (REL, RELA) and not s["flags"] & 2 and s["link"] and self.sections[s["link"]]["type"] == SYMTAB:
            symbols = self.symbols()
            form = {(True, RELA): "QQq", (True, REL): "QQ", (False, RELA): "IIi", (False, REL): "II"}[self.wide, s["type"]]
            shift = 32 if self.wide else 8
            return tuple((r[0], r[1] & ((1 << shift) - 1), symbols[r[1] >> shift], r[2:]) for r in struct.iter_unpack(self.order + form, data))
        return hashlib.sha1(data).hexdigest()


# Each tool lays out string tables in its own way; they are compared by the names that refer to them.
MADE = {".shstrtab", ".strtab", ".symtab", ".symtab_shndx"}


def described(elf, with_content=True):
    out = []
    for s in elf.sections[1:]:
        if s["name"] == ".gnu_debuglink" and not with_content:
            continue
        made = s["name"] in MADE
        info = elf.label(s["info"]) if s["type"] in (REL, RELA) and not s["flags"] & 2 else None
        # binutils drops SHF_INFO_LINK of sections that become NOBITS, sets it where others do not, splits the one table of names that LLVM's
        # objects have, and drops the link of their table of addresses.
        if s["name"] == ".shstrtab":
            continue
        entsize = None if made or s["type"] in (14, 15, 16) else s["entsize"]  # nor do all say how large an address is
        flags = s["flags"] & ~0x40
        link = 0 if s["type"] == ADDRSIG else elf.label(s["link"])
        out.append((s["name"], s["type"], flags, s["addr"], None if made or s["name"] == ".gnu_debuglink" else s["size"], s["align"],
                    entsize, link, info,
                    None if made or s["name"] == ".gnu_debuglink" else elf.content(s)))
    return out


def check_sections(ours, theirs, what):
    a, b = described(ours), described(theirs)
    # binutils puts its new sections at the end, and the link before them.
    key = lambda d: (d[0], d[1], str(d[7:]))
    for x, y in itertools.zip_longest(sorted(a, key=key), sorted(b, key=key)):
        assert x == y, what
    loaded = [d[0] for d in a if d[2] & 2]
    assert loaded == [d[0] for d in b if d[2] & 2], what


def check_link(stripped, debug_path, what):
    s = stripped.section(".gnu_debuglink")
    data = stripped.bytes(s)
    name = data[:data.index(b"\0")].decode()
    assert name == debug_path.name, what
    assert struct.unpack(stripped.order + "I", data[-4:])[0] == zlib.crc32(debug_path.read_bytes()), what


def check_loaded(original, stripped, what):
    """Loaded bytes keep their offsets; ET_REL has none."""
    if original.type == 1:
        return
    for a in original.sections:
        if a["flags"] & 2 and a["type"] != NOBITS:
            assert stripped.data[a["off"]:a["off"] + a["size"]] == original.bytes(a), (what, a)
    assert original.phoff == stripped.phoff and original.entry == stripped.entry, what


def split_both(path, tmp_path, *args):
    """(our stripped, our debug, their stripped, their debug) of a file; None if it cannot be split."""
    ours, theirs = tmp_path / "o" / path.name, tmp_path / "t" / path.name
    for d in ours, theirs:
        shutil.rmtree(d.parent, ignore_errors=True)
        d.parent.mkdir(parents=True)
    debug, their_debug = pathlib.Path(f"{ours}.debug"), pathlib.Path(f"{theirs}.debug")
    r = run(LODE, "split", *args, "-o", ours, path, check=False)
    assert r.returncode == 0, (path, r.stderr)
    run("objcopy", "--only-keep-debug", path, their_debug)
    run("strip", "-g", "-o", theirs, path)
    run("objcopy", f"--add-gnu-debuglink={their_debug}", theirs)
    return ours, debug, theirs, their_debug


def check(path, tmp_path):
    ours, debug, theirs, their_debug = split_both(path, tmp_path)
    a, b = Elf(debug), Elf(their_debug)
    check_sections(a, b, (path, "debug"))
    assert sorted(a.symbols(), key=str) == sorted(b.symbols(), key=str), (path, "debug")
    c, d = Elf(ours), Elf(theirs)
    check_sections(c, d, (path, "stripped"))
    assert sorted(c.symbols(), key=str) == sorted(d.symbols(), key=str), (path, "stripped")
    check_link(c, debug, path)
    check_loaded(Elf(path), c, path)
    assert ours.stat().st_mode == path.stat().st_mode
    return ours, debug


PROGRAM = """
#include <stdio.h>
static int twice(int n) { return 2 * n; }
int table[1000]; int filled[] = { 1, 2, 3 };
__thread int own, own_filled = 3;
int main(int argc, char **argv) { table[0] = twice(argc); return printf("%d\\n", table[0] + own + own_filled + filled[1]) < 0; }
"""
CXX = """
#include <string>
#include <vector>
std::vector<std::string> v;
inline int counted() { static int n; return n++; }
int f() { v.push_back("x"); try { return counted() + v.at(3).size(); } catch (...) { return 1; } }
thread_local std::string own = "own";
int main() { return f() + own.size(); }
"""
WAYS = {
    "pie": ["gcc", "-g", "c.c"],
    "no-pie": ["gcc", "-g", "-no-pie", "c.c"],
    "static": ["gcc", "-g", "-static", "c.c"],
    "static-pie": ["gcc", "-g", "-static-pie", "c.c"],
    "shared": ["gcc", "-g", "-fPIC", "-shared", "c.c"],
    "object": ["gcc", "-g", "-c", "c.c"],
    "functions in sections": ["gcc", "-g", "-ffunction-sections", "-fdata-sections", "-c", "c.c"],
    "c++ object with groups": ["g++", "-g", "-c", "cxx.cc"],
    "c++ object, types in groups": ["g++", "-g", "-gdwarf-5", "-fdebug-types-section", "-c", "cxx.cc"],
    "c++": ["g++", "-g", "-O2", "cxx.cc"],
    "32 bit": ["gcc", "-g", "-m32", "-nostdlib", "-c", "c.c"],
    "x32 object": ["gcc", "-g", "-mx32", "-c", "c.c"],
    "partial link": ["gcc", "-g", "-r", "c.c"],
    "relocations kept": ["gcc", "-g", "-Wl,--emit-relocs", "c.c"],
    "compressed": ["gcc", "-g", "-gz=zlib", "c.c"],
    "compressed the old way": ["gcc", "-g", "-Wl,--compress-debug-sections=zlib-gnu", "c.c"],
    "gold": ["gcc", "-g", "-fuse-ld=gold", "c.c"],
    "lld": ["gcc", "-g", "-fuse-ld=lld", "c.c"],
    "gdb index": ["gcc", "-g", "-fuse-ld=gold", "-Wl,--gdb-index", "-ggnu-pubnames", "c.c"],
    "stabs": ["gcc", "-gstabs", "c.c"],
    "no build ID": ["gcc", "-g", "-Wl,--build-id=none", "c.c"],
    "large model": ["gcc", "-g", "-mcmodel=large", "-c", "c.c"],
    "lto, fat": ["gcc", "-g", "-flto", "-ffat-lto-objects", "-c", "c.c"],
    "clang": ["clang", "-g", "c.c"],
    "clang object": ["clang", "-g", "-c", "c.c"],
    "clang++ object": ["clang++", "-g", "-ffunction-sections", "-c", "cxx.cc"],
    "separate code": ["gcc", "-g", "-Wl,-z,noseparate-code", "c.c"],
    "packed relocations": ["gcc", "-g", "-Wl,-z,pack-relative-relocs", "c.c"],
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    top = tmp_path_factory.mktemp("split")
    (top / "c.c").write_text(PROGRAM)
    (top / "cxx.cc").write_text(CXX)
    return top


def build(sources, way, out):
    r = run(*WAYS[way], "-o", out, cwd=sources, check=False)
    if r.returncode:
        pytest.skip("this compiler does not do that here")
    return out


@pytest.mark.parametrize("way", WAYS)
def test_output_of_compilers(sources, way, tmp_path):
    path = build(sources, way, tmp_path / "x")
    ours, debug = check(path, tmp_path)
    if not any(w in WAYS[way] for w in ("-c", "-r", "-shared", "-gstabs", "-m32")):
        assert run(ours).returncode in (0, 4) if "cxx.cc" not in WAYS[way] else True
        out = run("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "info line main", "-ex", "break main", "-ex", "run",
                  "-ex", "backtrace", ours).stdout.decode()
        assert re.search(r"Line \d+ of \"c", out), out


@pytest.mark.parametrize("target", ["s390x-linux-gnu", "powerpc-linux-gnu", "powerpc64le-linux-gnu", "mips64el-linux-gnuabi64",
                                    "mips64-linux-gnuabi64", "aarch64-linux-gnu", "armv7-linux-gnueabihf", "riscv64-linux-gnu", "sparc64-linux-gnu"])
def test_other_machines_against_llvm_objcopy(sources, target, tmp_path):
    """binutils here knows only this machine's relocations."""
    path = tmp_path / "x.o"
    (tmp_path / "x.c").write_text("int f(int); static int g(int n) { return f(n) + 1; } int h(int n) { return g(n) * 2; } int v = 3;\n")
    if run("clang", f"--target={target}", "-g", "-c", "-o", path, tmp_path / "x.c", check=False).returncode:
        pytest.skip("this clang does not do that")
    run(LODE, "split", "-o", tmp_path / "s.o", path)
    run("llvm-objcopy", "-g", path, tmp_path / "t.o")
    original, ours, theirs, debug = Elf(path), Elf(tmp_path / "s.o"), Elf(tmp_path / "t.o"), Elf(tmp_path / "s.o.debug")
    assert [s["name"] for s in debug.sections] == [s["name"] for s in original.sections]
    assert debug.symbols() == original.symbols()
    check_link(ours, tmp_path / "s.o.debug", target)
    mips = "mips64el" in target

    def relocations(elf):
        # llvm-objcopy keeps symbols of files, so numbers differ; 64-bit little-endian MIPS has its own format.
        return {s["name"]: s["size"] if mips else elf.content(s) for s in elf.sections if s["type"] in (REL, RELA)}
    assert relocations(ours) == relocations(theirs)
    names = {s[0] for s in ours.symbols() if s[3] & 15 not in (3, 4)}
    assert names == {s[0] for s in theirs.symbols() if s[3] & 15 not in (3, 4)}
    assert "\n" in run("llvm-objdump", "-dr", tmp_path / "s.o").stdout.decode()
    if mips:
        text = [run("llvm-readelf", "-r", tmp_path / f).stdout.decode() for f in ("s.o", "t.o")]
        told = [re.findall(r"(R_MIPS\S+) +\S+ (\S+)", t) for t in text]
        assert told[0] == told[1] and told[0]


def relocations_of(path):
    """As LLVM reads them: section, offset, kind, symbol."""
    text = run("llvm-readelf-19", "-r", "--wide", path).stdout.decode()
    assert "warning" not in text, text
    out, section = [], None
    for line in text.splitlines():
        if line.startswith("Relocation section"):
            section = re.search(r"'\.(?:rela|rel|crel)(\.[^']*)'", line).group(1)
        elif re.match(r"[0-9a-f]{8}", line):
            words = line.split()
            out.append((section, words[0], *words[2:5]))
    return out


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu", "i386-linux-gnu", "powerpc64-linux-gnu"])
def test_relocations_in_crel(sources, target, tmp_path):
    """The same object with usual relocations, stripped by LLVM, refers to the same symbols."""
    compile_ = ["clang++-19", f"--target={target}", "-O1", "-g", "-ffunction-sections", "-c", tmp_path / "x.cc"]
    (tmp_path / "x.cc").write_text("""extern "C" int f(int); template<int N> struct T { static int g(int n) { try { return f(n) + N; } catch (...) { return 0; } } };
static int a(int n) { return f(n) * 3; } int h(int n) { return T<1>::g(n) * 2 + T<2>::g(n) + a(n); } int (*p)(int) = h;\n""")
    if not shutil.which("llvm-readelf-19") or run(*compile_, "-Wa,--crel,--allow-experimental-crel", "-o", tmp_path / "x.o", check=False).returncode:
        pytest.skip("no LLVM 19 here that writes CREL")
    run(*compile_, "-o", tmp_path / "y.o")
    run(LODE, "split", "-o", tmp_path / "s.o", tmp_path / "x.o")
    run("llvm-objcopy-19", "-g", tmp_path / "y.o", tmp_path / "t.o")
    assert relocations_of(tmp_path / "s.o") == relocations_of(tmp_path / "t.o") != []
    assert len(Elf(tmp_path / "s.o").symbols()) < len(Elf(tmp_path / "x.o").symbols())


def system_files():
    found = []
    for tree in "/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu":
        if os.path.isdir(tree):
            found += [p for p in pathlib.Path(tree).iterdir() if p.is_file() and not p.is_symlink() and p.stat().st_size < 3 << 20]
    found.sort(key=lambda p: zlib.crc32(str(p).encode()))
    return [p for p in found if p.open("rb").read(4) == b"\x7fELF"]


def test_programs_of_this_machine(tmp_path):
    (tmp_path / "bytes").write_bytes(b"debug" * 100)
    n = 0
    for path in system_files():
        copy = tmp_path / path.name
        r = run("objcopy", "--add-section", f".debug_info={tmp_path}/bytes", path, copy, check=False)
        if r.returncode:
            continue
        check(copy, tmp_path)
        copy.unlink()
        n += 1
        if n == SAMPLE:
            break
    assert n >= 10


def test_files_of_this_build(tmp_path):
    """Objects and programs of this build, and the C library's own objects."""
    paths = sorted(BUILD.glob("src/**/*.o"), key=lambda p: zlib.crc32(p.name.encode()))[:SAMPLE // 2]
    paths += sorted(BUILD.glob("tests/unit/**/unit-*"), key=lambda p: zlib.crc32(p.name.encode()))[:SAMPLE // 4]
    n = 0
    for path in paths:
        if not path.is_file() or path.open("rb").read(4) != b"\x7fELF" or path.stat().st_size > 30 << 20:
            continue
        if not Elf(path).section(".debug_info"):
            continue
        check(path, tmp_path)
        n += 1
    if not n:
        pytest.skip("this build has no debug information")


def test_more_sections_than_the_header_has_room_for(tmp_path):
    n = 0xff00 + 50
    text = "".join(f'.section .s{i},"a"\n.globl g{i}\ng{i}: .byte 1\n' for i in range(n // 2))
    text += "".join(f'.section .t{i},"a"\n.quad g{i}\n' for i in range(n // 4))
    (tmp_path / "x.s").write_text(text + '.section .debug_info,""\n.byte 1\n')
    run("as", "-o", tmp_path / "x.o", tmp_path / "x.s")
    assert len(Elf(tmp_path / "x.o").sections) > 0xff00
    check_cheaply(tmp_path / "x.o", tmp_path)
    # Fewer are left, so the symbols need no table for large numbers.
    text = "".join(f'.section .debug_{i},""\n.byte 1\n' for i in range(n)) + '.section .s,"a"\n.globl g\ng: .byte 1\n'
    (tmp_path / "y.s").write_text(text)
    run("as", "-o", tmp_path / "y.o", tmp_path / "y.s")
    check_cheaply(tmp_path / "y.o", tmp_path)


def check_cheaply(path, tmp_path):
    """As check(), without reading all symbols for every section."""
    ours, debug, theirs, their_debug = split_both(path, tmp_path)
    for a, b in ((Elf(ours), Elf(theirs)), (Elf(debug), Elf(their_debug))):
        brief = [sorted((s["name"], s["type"], s["flags"], s["size"] if s["name"] not in MADE | {".gnu_debuglink"} else 0) for s in e.sections[1:])
                 for e in (a, b)]
        assert brief[0] == brief[1]
        assert sorted(a.symbols(), key=str) == sorted(b.symbols(), key=str)
    told = [run("readelf", "-rW", f).stdout.decode() for f in (ours, theirs)]
    rows = [sorted(re.findall(r"^[0-9a-f]{16}  \S+ (R_\S+ +\S+ .*)$", t, re.M)) for t in told]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("packing", ["zlib", "zstd", "none"])
@pytest.mark.parametrize("way", ["pie", "compressed", "compressed the old way", "32 bit", "c++ object with groups"])
def test_compressed_debug_sections(sources, way, packing, tmp_path):
    path = build(sources, way, tmp_path / "x")
    run(LODE, "split", "--compress", packing, "-o", tmp_path / "s", path)
    debug = Elf(tmp_path / "s.debug")
    names = [s["name"] for s in debug.sections]
    assert not [n for n in names if n.startswith(".z")]
    if packing != "none":
        kinds = {struct.unpack_from(debug.order + "I", debug.bytes(s))[0] for s in debug.sections if s["flags"] & 0x800}
        assert kinds == {1 if packing == "zlib" else 2}
    else:
        assert not any(s["flags"] & 0x800 for s in debug.sections)
    check_link(Elf(tmp_path / "s"), tmp_path / "s.debug", way)
    # Decompressed by binutils they equal the originals.
    run("objcopy", "--decompress-debug-sections", tmp_path / "s.debug", tmp_path / "plain")
    run("objcopy", "--decompress-debug-sections", path, tmp_path / "full")
    a, b = Elf(tmp_path / "plain"), Elf(tmp_path / "full")
    for s in b.sections:
        if s["name"].startswith(".debug_"):
            t = a.section(s["name"])
            assert t["align"] == s["align"] and a.bytes(t) == b.bytes(s), (way, s["name"])

@pytest.mark.parametrize("args", [["-f", "./x", "x"], ["-f", "sub/../x", "x"], ["-f", "link/x", "x"], ["-o", "out", "-f", "./out", "x"],
                                  ["-o", "out", "-f", "./x", "x"]])
def test_the_debug_file_never_replaces_the_file_by_another_spelling(tmp_path, args):
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    run("gcc", "-g", "-o", tmp_path / "x", tmp_path / "x.c")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(".")
    before = (tmp_path / "x").read_bytes()
    r = run(LODE, "split", *args, check=False, cwd=tmp_path)
    assert r.returncode == 1 and b"would replace the file itself" in r.stderr, r
    assert (tmp_path / "x").read_bytes() == before and not (tmp_path / "out").exists()


def test_gdb_accepts_pairs_that_are_compressed_and_laid_out_by_build_id(sources, tmp_path):
    path = build(sources, "pie", tmp_path / "x")
    run(LODE, "split", "--build-id-tree", tmp_path / "tree", "--executable-link", "--compress", "zlib", path)
    assert not (tmp_path / "x.debug").exists()
    link, = [p for p in (tmp_path / "tree/.build-id").glob("*/*") if p.is_symlink()]
    assert link.resolve() == path
    out = run("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", f"set debug-file-directory {tmp_path}/tree", "-ex",
              "info line main", path).stdout.decode()
    assert re.search(r'Line \d+ of "c.c"', out), out


@pytest.mark.parametrize("way", ["pie", "no-pie", "static", "shared", "object", "c++ object with groups", "c++"])
def test_elflint_reports_nothing(sources, way, tmp_path):
    path = build(sources, way, tmp_path / "x")
    if b"No errors" not in run("eu-elflint", "--gnu-ld", path, check=False).stdout:
        pytest.skip("nor is the original clean")
    run(LODE, "split", path)
    assert b"No errors" in run("eu-elflint", "--gnu-ld", path, check=False).stdout
    r = run("eu-elflint", "--gnu-ld", "-d", f"{path}.debug", check=False)
    assert b"No errors" in r.stdout, r.stdout + r.stderr


def module(sources, out):
    """A minimal kernel module made from an object."""
    run("gcc", "-g", "-c", "-o", f"{out}.o", "c.c", cwd=sources)
    (out.parent / "mod.S").write_text('.section .modinfo,"a"\n.asciz "license=GPL"\n')
    run("gcc", "-c", "-o", f"{out}.mod.o", out.parent / "mod.S")
    run("ld", "-r", "--build-id=sha1", "-o", out, f"{out}.o", f"{out}.mod.o")
    return out


def test_a_signed_module(sources, tmp_path):
    """binutils' strip removes the signature silently."""
    path = module(sources, tmp_path / "x.ko")
    plain = path.read_bytes()
    signature = os.urandom(700)
    path.write_bytes(plain + signature + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, len(signature)) + b"~Module signature appended~\n")
    ours, debug = check(path, tmp_path)
    r = run(LODE, "split", "-o", tmp_path / "again.ko", path)
    assert b"the signature was dropped" in r.stderr and b"sign-file" in r.stderr
    assert b"~Module signature" not in ours.read_bytes() + debug.read_bytes()
    # The same result as for the module before signing.
    unsigned = tmp_path / "u" / "x.ko"
    unsigned.parent.mkdir()
    unsigned.write_bytes(plain)
    unsigned.chmod(path.stat().st_mode)
    r = run(LODE, "split", "-o", tmp_path / "v.ko", "-f", tmp_path / "x.ko.debug", unsigned)
    assert r.stderr == b"" and (tmp_path / "v.ko").read_bytes() == ours.read_bytes() and (tmp_path / "x.ko.debug").read_bytes() == debug.read_bytes()


@pytest.mark.parametrize("what, says", [("gzip", b"compressed as a whole (gzip)"), ("xz", b"compressed as a whole (xz)"), ("text", b"not an ELF file"),
                                        ("appended", b"bytes after the end of the ELF file would be lost"), ("core", b"lode find --core")])
def test_refused_files_are_not_changed(sources, tmp_path, what, says):
    path = module(sources, tmp_path / "x.ko")
    if what in ("gzip", "xz"):
        path.write_bytes(run(what, "-c", path).stdout)
    elif what == "text":
        path.write_text("text")
    elif what == "appended":
        path.write_bytes(path.read_bytes() + b"archive" * 100)
    else:
        data = bytearray(path.read_bytes())
        data[16] = 4  # ET_CORE
        path.write_bytes(data)
    before = path.read_bytes()
    r = run(LODE, "split", path, check=False)
    assert r.returncode == 1 and says in r.stderr, r.stderr
    assert path.read_bytes() == before and [p.name for p in tmp_path.glob("*.debug")] == []
