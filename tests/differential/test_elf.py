# SPDX-License-Identifier: Apache-2.0
"""lode's ELF and DWARF readers compared with readelf, eu-unstrip and llvm-dwarfdump, on this machine's files.

Files are a sample, the same each time on the same machine; LODE_ALL_FILES=1 takes all of them. The programs that print what lode
reads are tests/tools/*; LODE_BUILD says where they were built (build).
"""

import json
import os
import pathlib
import re
import struct
import subprocess
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("LODE_BUILD", ROOT / "build"))
ELF_DUMP = BUILD / "tests/tools/elf_dump"
DWARF_SOURCES = BUILD / "tests/tools/dwarf_sources"
TREES = ["/usr/bin", "/usr/sbin", "/usr/lib"]
SAMPLE = 400


def run(*argv, **kw):
    r = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **kw)
    return r.stdout.decode("latin-1")


def is_elf(path):
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def elf_files():
    paths = [os.path.join(folder, n) for tree in TREES for folder, _, names in os.walk(tree) for n in names]
    # Chosen by a hash of the name, so that every kind of file is included.
    paths.sort(key=lambda p: zlib.crc32(p.encode("utf-8", "surrogateescape")))
    found = []
    for path in paths:
        if "\n" not in path and os.path.isfile(path) and not os.path.islink(path) and is_elf(path):
            found.append(path)
            if len(found) == SAMPLE and not os.environ.get("LODE_ALL_FILES"):
                break
    return found


@pytest.fixture(scope="module")
def dumps():
    files = elf_files()
    assert len(files) >= 20
    text = run(ELF_DUMP, "-p", input="\n".join(files).encode("utf-8", "surrogateescape"))
    got = {d["path"]: d for d in map(json.loads, text.splitlines())}
    assert set(got) == {f.encode("utf-8", "surrogateescape").decode("latin-1") for f in files}
    return got


SECTION = re.compile(r"^  \[ *(\d+)\] ?(.*?) +([A-Z0-9_<>: a-z+]+?) +([0-9a-f]{8,16}) ([0-9a-f]{6,}) ([0-9a-f]{6,}) ([0-9a-f]{2,}) ")


def readelf(files):
    """Per file: its sections, build IDs and type, from one run of readelf."""
    out = {}
    path = None
    for line in run("readelf", "-h", "-S", "-n", "-W", *files, env={**os.environ, "LC_ALL": "C"}).splitlines():
        if line.startswith("File: "):
            path = line[6:]
            out[path] = {"sections": [], "ids": [], "type": None}
        elif path is None:
            continue
        elif line.startswith("  Type: ") and out[path]["type"] is None:
            out[path]["type"] = line.split()[1]
        elif m := SECTION.match(line):
            if m.group(1) != "0":
                out[path]["sections"].append((int(m.group(4), 16), int(m.group(5), 16), int(m.group(6), 16)))
        elif "Build ID: " in line:
            out[path]["ids"].append(line.split("Build ID: ")[1])
    return out


def in_pieces(items, n=100):
    items = list(items)
    return [items[i : i + n] for i in range(0, len(items), n)]


def test_sections_types_and_build_ids_equal_readelf(dumps):
    types = {1: "REL", 2: "EXEC", 3: "DYN", 4: "CORE"}
    n_ids = 0
    for files in in_pieces(dumps):
        theirs = readelf(files)
        for path in files:
            ours = dumps[path]
            assert "error" not in ours and "sections_error" not in ours, path
            them = theirs[path]
            assert [(s["addr"], s["off"], s["size"]) for s in ours["sections"]] == them["sections"], path
            assert types[ours["type"]] == them["type"], path
            assert ours["build_id"] == (them["ids"][0] if them["ids"] else ""), path
            n_ids += bool(them["ids"])
    assert n_ids > len(dumps) // 2


def test_probe_returns_the_same_and_rarely_needs_another_read(dumps):
    said = [d["probe"] for d in dumps.values()]
    assert "different" not in said
    assert said.count("again") <= len(said) // 100


def test_build_ids_equal_eu_unstrip(dumps):
    # One process per file, so only a few; readelf has read them all.
    some = [d for d in dumps.values() if d["type"] in (2, 3) and d["build_id"]][:25]
    for d in some:
        m = re.match(r"\S+ ([0-9a-f]+)@", run("eu-unstrip", "-n", "-e", d["path"]))
        assert m and m.group(1) == d["build_id"], d["path"]


def test_debug_links_equal_readelf(dumps):
    linked = [d for d in dumps.values() if "debug_link" in d or "alt_link" in d]
    if not linked:
        pytest.skip("no file with a debug link")
    by_path = {}
    path = None
    for files in in_pieces(d["path"] for d in linked):
        for line in run("readelf", "--debug-dump=links,no-follow-links", *files).splitlines():
            if line.startswith("File: "):
                path = line[6:]
            elif m := re.match(r"\s+Separate debug info file: (.*)", line):
                by_path.setdefault(path, {})["name"] = m.group(1)
            elif m := re.match(r"\s+CRC value: 0x([0-9a-f]+)", line):
                by_path[path]["crc"] = int(m.group(1), 16)
            elif m := re.match(r"\s+Build-ID \(0x14 bytes\):", line):
                by_path.setdefault(path, {})["id"] = None
            elif path in by_path and by_path[path].get("id", "") is None:
                by_path[path]["id"] = line.replace(" ", "")
    for d in linked:
        if "debug_link" in d:
            assert by_path[d["path"]]["name"] == d["debug_link"], d["path"]
            assert by_path[d["path"]]["crc"] == d["debug_link_crc"], d["path"]
        if "alt_link" in d:
            assert by_path[d["path"]]["id"] == d["alt_link_id"], d["path"]


def test_compressed_section_contents_equal_zlib(dumps):
    """Size and CRC of the content of SHF_COMPRESSED sections, decompressed here; Debian's are all zlib's."""
    some = [p for p, d in dumps.items() if any(s["flags"] & 0x800 for s in d["sections"])]
    some = sorted(some, key=os.path.getsize)[:60]
    if not some:
        pytest.skip("no file with compressed sections")
    for path, line in zip(some, run(ELF_DUMP, "-c", *some).splitlines(), strict=True):
        data = pathlib.Path(path).read_bytes()
        assert data[4] == 2 and data[5] == 1, "64 bit, little endian"
        for s in json.loads(line)["sections"]:
            if s["flags"] & 0x800:
                kind, _, size, _ = struct.unpack("<IIQQ", data[s["off"] : s["off"] + 24])
                content = zlib.decompress(data[s["off"] + 24 : s["off"] + s["size"]])
                assert kind == 1 and len(content) == size
                assert (s["content_size"], s["crc"]) == (len(content), zlib.crc32(content)), path


# ---- source names ----


def canonical(path):
    """RFC 3986, remove-dot-segments, and "//" as "/"."""
    absolute = path.startswith("/")
    out = []
    parts = path.split("/")
    for i, part in enumerate(parts):
        if part in ("", "."):
            continue
        if part == "..":
            if out:
                out.pop()
        else:
            out.append(part)
    slash = "/" if out and parts[-1] in ("", ".", "..") else ""
    return ("/" if absolute else "") + "/".join(out) + slash


def join(directory, name):
    return name if name.startswith("/") or not directory else f"{directory}/{name}"


def units(path):
    """stmt_list -> [(comp_dir, name)] of every unit, from readelf; llvm-dwarfdump prints all DIEs or none."""
    out = {}
    unit = None
    text = run("readelf", "--debug-dump=info,no-follow-links", "--dwarf-depth=1", path)
    for line in text.splitlines() + ["  Compilation Unit @"]:
        if line.startswith("  Compilation Unit @"):
            if unit and "stmt" in unit:
                out.setdefault(unit["stmt"], []).append((unit.get("dir", ""), unit.get("name", "")))
            unit = {}
        elif m := re.match(r" *<[0-9a-f]+> +DW_AT_(name|comp_dir|stmt_list) *: (?:\((?:alt |indexed |indirect |line )*string[^)]*\): |)(.*)", line):
            key = {"name": "name", "comp_dir": "dir", "stmt_list": "stmt"}[m.group(1)]
            value = m.group(2).strip()
            unit[key] = int(value, 0) if key == "stmt" else value
    return out


def expected_sources(path):
    """From llvm-dwarfdump's line table headers, joined here by the rules of the standard."""
    names = set()
    by_stmt = None
    tables = re.split(r"^debug_line\[0x([0-9a-f]+)\]$", run("llvm-dwarfdump", "--debug-line", path), flags=re.M)
    for off, text in zip(tables[1::2], tables[2::2]):
        version = int(re.search(r"^ +version: (\d+)", text, re.M).group(1))
        dirs = {int(i): d for i, d in re.findall(r'^include_directories\[ *(\d+)\] = "(.*)"$', text, re.M)}
        files = re.findall(r'^file_names\[ *\d+\]:\n +name: "(.*)"\n +dir_index: (\d+)$', text, re.M)
        top = dirs.get(0, "")
        if version < 5:
            by_stmt = by_stmt if by_stmt is not None else units(path)
            mine = by_stmt.get(int(off, 16), [])
            top = next((d for d, _ in mine if d), "")
            names |= {join(d, n) for d, n in mine if n}
            dirs[0] = top
        for name, i in files:
            names.add(join(join(top, dirs[int(i)]) if int(i) else top, name))
    return {canonical(n) for n in names if n and not re.match(r"^<.*>$", n.rsplit("/", 1)[-1])}


def check_sources(path, *alt, at_least=1):
    got = run(DWARF_SOURCES, path, *alt).splitlines()
    assert len(got) == len(set(got)), path
    want = expected_sources(path)
    assert set(got) == want, path
    assert len(want) >= at_least, path
    return want


PROGRAM = """
#include <stdio.h>
#include "sub/part.h"
int main(int argc, char **argv) { return printf("%d\\n", part(argc)) < 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    top = tmp_path_factory.mktemp("program")
    (top / "sub").mkdir()
    (top / "main.c").write_text(PROGRAM)
    (top / "sub" / "part.h").write_text("int part(int);\nstatic inline int twice(int x) { return 2 * x; }\n")
    (top / "sub" / "part.c").write_text('#include "part.h"\nint part(int x) { return twice(x) + 1; }\n')
    (top / "start.s").write_text(".globl nothing\nnothing: .byte 0\n")
    return top


OTHER_WAYS = [
    ["-gz=zlib"],
    ["-gsplit-dwarf"],
    ["-ffile-prefix-map={top}=."],
    ["-ffile-prefix-map={top}=/usr/src/x"],
    ["-O2", "-flto"],
    ["-m32"],
    ["-gdwarf64"],
]
WAYS = [(v, []) for v in (2, 3, 4, 5)] + [(v, w) for v in (4, 5) for w in OTHER_WAYS]


@pytest.mark.parametrize("version, way", WAYS, ids=lambda w: str(w) if isinstance(w, int) else " ".join(w) or "plain")
@pytest.mark.parametrize("compiler", ("gcc", "clang"))
def test_sources_of_compiled_programs(program, compiler, version, way, tmp_path):
    flags = [f.format(top=program) for f in way]
    argv = [compiler, "-g", f"-gdwarf-{version}", *flags, "-o", tmp_path / "x", "main.c", program / "sub" / "part.c", "start.s"]
    if subprocess.run(argv, cwd=program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this compiler does not do that here")
    want = check_sources(tmp_path / "x", at_least=3)
    assert any(n.endswith("sub/part.c") for n in want)
    # The objects too: their offsets are relocations.
    if "-flto" not in flags:
        argv = [compiler, "-c", "-g", f"-gdwarf-{version}", *flags, "-o", tmp_path / "x.o", "main.c"]
        subprocess.run(argv, cwd=program, check=True, stderr=subprocess.DEVNULL)
        check_sources(tmp_path / "x.o")


def test_sources_of_a_program_and_its_dwz_file(program, tmp_path):
    for name in "a", "b":
        argv = ["gcc", "-g", "-o", tmp_path / name, "main.c", program / "sub" / "part.c"]
        subprocess.run(argv, cwd=program, check=True)
    subprocess.run(["dwz", "-m", tmp_path / "sup", tmp_path / "a", tmp_path / "b"], check=True)
    check_sources(tmp_path / "a", tmp_path / "sup", at_least=3)
    facts = json.loads(run(ELF_DUMP, tmp_path / "sup"))
    assert facts["flags"] & (1 << 5), "a supplementary file is known as one"
    d = json.loads(run(ELF_DUMP, tmp_path / "a"))
    assert d["alt_link_id"] == facts["build_id"]


def test_sources_of_this_machines_debug_files(dumps):
    some = [p for p, d in dumps.items() if any(s["name"] == ".debug_line" for s in d["sections"])]
    some = [p for p in sorted(some, key=os.path.getsize) if os.path.getsize(p) < 8 << 20][-20:]
    if not some:
        pytest.skip("no debug files here")
    for path in some:
        check_sources(path)


def test_sources_of_the_files_named_in_the_environment():
    """LODE_DEBUG_FILES: more debug files, for tests of large ones (a kernel, its modules)."""
    files = os.environ.get("LODE_DEBUG_FILES", "").split()
    if not files:
        pytest.skip("none named")
    for path in files:
        check_sources(path)
