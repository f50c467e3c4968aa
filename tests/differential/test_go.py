# SPDX-License-Identifier: Apache-2.0
"""Go programs, whole and stripped as profilers and packagers strip them: compare names with nm, lines with go tool addr2line."""

import os
import pathlib
import random
import re
import shutil
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LODE = os.environ.get("LODE", str(ROOT / "build" / "lode"))
GO = shutil.which("go") or "/usr/local/go/bin/go"

PLAIN = """package main

import ("fmt"; "os"; "sort")

type T struct{ a, b int }

func (t *T) sum() int { return t.a + t.b }

//go:noinline
func work(n int) (s int) {
	for i := 0; i < n; i++ {
		s += (&T{i, 2 * i}).sum()
	}
	return
}

func main() { l := []string{"b", "a"}; sort.Strings(l); fmt.Println(work(len(os.Args)), l) }
"""
WITH_C = """package main

// static int twice(int x) { return x * 2; }
import "C"
import "fmt"

func main() { fmt.Println(C.twice(4)) }
"""


def run(*args, **kw):
    return subprocess.run(args, check=True, capture_output=True, text=True, timeout=300, **kw).stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if not pathlib.Path(GO).exists() or not shutil.which("objcopy"):
        pytest.skip("no Go")
    d = tmp_path_factory.mktemp("go")
    # Only the compiler's cache is the user's: it saves a minute.
    env = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="", GO111MODULE="off")
    made = {}
    for name, text, more, cgo in (("exe", PLAIN, (), "0"), ("pie", PLAIN, ("-buildmode=pie",), "0"), ("cgo", WITH_C, (), "1"),
                                  ("cgopie", WITH_C, ("-buildmode=pie", "-ldflags=-linkmode=external"), "1")):
        (d / f"{name}.go").write_text(text)
        run(GO, "build", *more, "-o", str(d / name), str(d / f"{name}.go"), env=dict(env, CGO_ENABLED=cgo))
        made[name] = d / name
    return made


def without_sections(src, dst):
    data = bytearray(src.read_bytes())
    struct.pack_into("<Q", data, 0x28, 0)
    struct.pack_into("<HH", data, 0x3c, 0, 0)
    dst.write_bytes(data)


def without_bytes(src, dst):
    """All sections but Go's table NOBITS."""
    data = bytearray(src.read_bytes())
    shoff, = struct.unpack_from("<Q", data, 0x28)
    n, names = struct.unpack_from("<HH", data, 0x3c)
    strings, = struct.unpack_from("<Q", data, shoff + 64 * names + 24)
    for i in range(1, n):
        name, = struct.unpack_from("<I", data, shoff + 64 * i)
        name = bytes(data[strings + name:data.index(0, strings + name)])
        if b"gopclntab" not in name and i != names:
            struct.pack_into("<I", data, shoff + 64 * i + 4, 8)
    dst.write_bytes(data)


def with_debug_file(program):
    """A stripped copy with a link to a debug file that has symbols and no DWARF."""
    slim, debug, out = (program.with_name(f"{program.name}.{end}") for end in ("slim", "symbols", "linked"))
    run("strip", "-g", "-o", str(slim), str(program))
    run("objcopy", "--only-keep-debug", str(slim), str(debug))
    run("strip", "-s", "-o", str(out), str(slim))
    run("objcopy", f"--add-gnu-debuglink={debug}", str(out))
    return out


def copies(program):
    def made(name, *args):
        out = program.with_name(program.name + "." + name)
        run(*args, str(program), str(out))
        return out

    stripped = program.with_name(program.name + ".stripped")
    run("strip", "-s", "-o", str(stripped), str(program))
    bare, nobits = stripped.with_suffix(".bare"), stripped.with_suffix(".nobits")
    without_sections(stripped, bare)
    without_bytes(stripped, nobits)
    yield stripped
    yield with_debug_file(program)
    yield made("notext", "objcopy", "-S", "-R", ".text")
    if program.name != "cgopie":  # without sections its description is found, but only relocations write it
        yield bare
    # Only the module's description and C's startup code know where Go's code is in a program with C.
    if not program.name.startswith("cgo"):
        yield made("table", "objcopy", "--only-section=.gopclntab")
        yield nobits


@pytest.mark.parametrize("name", ["exe", "pie", "cgo", "cgopie"])
def test_stripped_programs_keep_their_names_and_lines(programs, name):
    program = programs[name]
    symbols = [(int(a, 16), int(n, 16), s) for a, n, s in
               re.findall(r"^(\w+) (\w+) [tT] ((?:main|fmt|runtime|sort)\.\S+)$", run("nm", "-S", str(program)), re.M)]
    symbols = [s for s in symbols if s[1]]
    random.seed(7)
    some = random.sample(symbols, min(300, len(symbols)))
    addresses = "\n".join(hex(a + random.randrange(n)) for a, n, _ in some)
    lines = run(GO, "tool", "addr2line", str(program), input=addresses).splitlines()[1::2]
    for copy in copies(program):
        got = run(LODE, "addr2line", "-e", str(copy), input=addresses).splitlines()
        assert got == lines, copy
        got = run(LODE, "addr2line", "-f", "-i", "-a", "-e", str(copy), input=addresses).split("0x")[1:]
        assert [one.splitlines()[-2] for one in got] == [s[2].removesuffix(".abi0") for s in some], copy
