# SPDX-License-Identifier: Apache-2.0
"""Split DWARF in unusual places: in sections of the debug file itself, and in packages of more than 4 GiB (sparse files)."""

import os
import pathlib
import re
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LODE = os.environ.get("LODE", str(ROOT / "build" / "lode"))

# Both sources have units of the same size.
SOURCE = """
extern "C" int puts(const char *);
namespace {name} {{
    static inline int square(int x) {{ if (x > 3) puts("large"); return x * x; }}
    template <class T> __attribute__((noinline)) T work(T n) {{ T s = 0; for (T i = 0; i < n; i++) s += square(i) * {number}; return s; }}
}}
int {name}_all(int c) {{ return {name}::work(c) + (int){name}::work((long)c); }}
"""
MAIN = "int one_all(int); int two_all(int); int main(int c, char **) { return one_all(c) + two_all(c); }\n"


def run(*argv, **kw):
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True, **kw).stdout


def table(program, out):
    run(LODE, "symtab", "build", "-o", out, program)
    return out.read_bytes()


def build(tmp_path, compiler, version, *flags):
    objects = []
    for name, text in (("one", SOURCE.format(name="one", number=1)), ("two", SOURCE.format(name="two", number=2)), ("main", MAIN)):
        (tmp_path / f"{name}.cc").write_text(text)
        run(compiler, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", *flags, "-c", f"{name}.cc", cwd=tmp_path)
        objects.append(f"{name}.o")
    run(compiler, *flags, "-o", "program", *objects, cwd=tmp_path)
    return tmp_path / "program"


def package(tmp_path, packer):
    run(packer, "-e", "program", "-o", "program.dwp", cwd=tmp_path)
    for dwo in tmp_path.glob("*.dwo"):
        dwo.unlink()
    return tmp_path / "program.dwp"


def sections(elf):
    """{name: (offset, size)}"""
    return {m[1]: (int(m[2], 16), int(m[3], 16)) for m in re.finditer(
        r"\] (\S+) +PROGBITS +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", run("readelf", "-SW", elf))}


@pytest.mark.parametrize("compiler, packer, version", (("g++", "dwp", 4), ("clang++", "llvm-dwp", 5)))
def test_a_package_that_was_merged_into_the_debug_file(compiler, packer, version, tmp_path):
    program = build(tmp_path, compiler, version)
    before = table(program, tmp_path / "before.sym")
    dwp = package(tmp_path, packer)
    merged = tmp_path / "merged"
    add = []
    for name in sections(dwp):
        if name.startswith(".debug_"):
            run("objcopy", "-O", "binary", "--only-section", name, "--set-section-flags", f"{name}=alloc", dwp, tmp_path / name[1:])
            add += ["--add-section", f"{name}={tmp_path / name[1:]}"]
    dwp.unlink()
    run("objcopy", *add, program, merged)
    assert table(merged, tmp_path / "after.sym") == before
    assert " 0 different" in run(LODE, "symtab", "verify", "-e", merged, tmp_path / "after.sym")


@pytest.mark.parametrize("version", (4, 5))
def test_an_object_file_with_its_own_split_unit(version, tmp_path):
    (tmp_path / "one.cc").write_text(SOURCE.format(name="one", number=1))
    run("clang++", "-O2", f"-gdwarf-{version}", "-gsplit-dwarf=single", "-c", "one.cc", cwd=tmp_path)
    table(tmp_path / "one.o", tmp_path / "one.sym")
    dump = run(LODE, "symtab", "dump", tmp_path / "one.sym")
    assert "split files missing" not in dump and "square" in dump


def enlarge(dwp, second):
    """Insert units of zeros into .debug_info.dwo, so that its second part starts at @second; the index has the lower 32 bits."""
    data = dwp.read_bytes()
    at = sections(dwp)
    info_off, info_size = at[".debug_info.dwo"]
    index_off, index_size = at[".debug_cu_index"]
    index = bytearray(data[index_off:index_off + index_size])
    version, columns, rows, slots = struct.unpack_from("<IIII", index)
    assert version in (2, 5)
    kinds_at = 16 + slots * 12
    info = struct.unpack_from(f"<{columns}I", index, kinds_at).index(1)
    offsets_at = kinds_at + columns * 4
    cells = [offsets_at + (row * columns + info) * 4 for row in range(rows)]
    offsets = [struct.unpack_from("<I", index, cell)[0] for cell in cells]
    cut = sorted(offsets)[1]
    for cell, off in zip(cells, offsets):
        if off >= cut:
            struct.pack_into("<I", index, cell, (off - cut + second) % 2**32)
    shoff, = struct.unpack_from("<Q", data, 40)
    shentsize, shnum = struct.unpack_from("<HH", data, 58)
    headers = bytearray(data[shoff:shoff + shentsize * shnum])
    new_off = (len(data) + 4095) & ~4095
    size = info_size - cut + second
    for i in range(shnum):
        if struct.unpack_from("<Q", headers, i * shentsize + 24)[0] == info_off and struct.unpack_from("<Q", headers, i * shentsize + 32)[0] == info_size:
            struct.pack_into("<QQ", headers, i * shentsize + 24, new_off, size)
    with dwp.open("r+b") as f:
        f.seek(index_off)
        f.write(index)
        f.seek(new_off)
        f.write(data[info_off:info_off + cut])
        pos = cut
        while pos < second:
            n = min(second - pos, 2**32 - 64)
            n -= 64 if 0 < second - pos - n < 64 else 0
            f.seek(new_off + pos)
            f.write(struct.pack("<I", n - 4) + data[info_off + 4:info_off + 16])
            pos += n
        f.seek(new_off + second)
        f.write(data[info_off + cut:info_off + info_size])
        f.seek(new_off + size)
        end = f.tell()
        f.write(headers)
        f.seek(40)
        f.write(struct.pack("<Q", end))


# 2**32 puts the second part where the index cannot tell it from the first.
@pytest.mark.parametrize("compiler, packer, version, second", (("g++", "dwp", 4, 2**31 + 5), ("g++", "dwp", 4, 2**32 + 7), ("g++", "dwp", 4, 3 * 2**32 + 7), ("g++", "dwp", 4, 2**32),
                                                               ("clang++", "llvm-dwp", 5, 2**31 + 5), ("clang++", "llvm-dwp", 5, 2**32 + 7), ("clang++", "llvm-dwp", 5, 2**32)))
def test_a_package_of_more_than_4_gib(compiler, packer, version, second, tmp_path):
    program = build(tmp_path, compiler, version)
    before = table(program, tmp_path / "before.sym")
    dwp = package(tmp_path, packer)
    enlarge(dwp, second)
    try:
        assert dwp.stat().st_size > second and dwp.stat().st_blocks < 4096
        assert table(program, tmp_path / "after.sym") == before
        assert " 0 different" in run(LODE, "symtab", "verify", "-e", program, tmp_path / "after.sym")
    finally:
        dwp.unlink()


def rows(program, out):
    run(LODE, "symtab", "build", "-o", out, program)
    dump = run(LODE, "symtab", "dump", out)
    assert "skipped" not in dump
    return re.findall(r"^[0-9a-f]+-[0-9a-f]+ .*(?:\n .*)*", dump, re.M)


# Each type unit of version 5 is in a .debug_info of its own, before that of the code.
@pytest.mark.parametrize("compiler", ("g++", "clang++"))
@pytest.mark.parametrize("flags", ("-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gsplit-dwarf"))
def test_an_object_file_with_type_units(compiler, flags, tmp_path):
    text = SOURCE.format(name="one", number=1) + "struct point { int x, y; int sum() const { return x + y; } }; int sum(const point &p) { return p.sum(); }\n"
    (tmp_path / "one.cc").write_text(text)
    found = []
    for more in ("-fno-debug-types-section", "-fdebug-types-section"):
        run(compiler, "-O2", *flags.split(), more, "-c", "one.cc", cwd=tmp_path)
        found.append(rows(tmp_path / "one.o", tmp_path / "sym"))
    assert found[0] == found[1] and any("square" in row for row in found[0])
