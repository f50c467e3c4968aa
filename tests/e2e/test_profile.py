# SPDX-License-Identifier: Apache-2.0
"""lode profile, and lode symbolize with profiles: formats in and out, named and unnamed frames; compared with Go's pprof if installed."""

import gzip
import json
import os
import re
import shutil
import subprocess
import xml.dom.minidom

import pytest

from conftest import LODE, build_id
from profiling import message, number, varint

SOURCE = r"""
#include <stdio.h>

static inline __attribute__((always_inline)) int inner(int n)
{
	return n * 3 + 1; /* the inlined line */
}

__attribute__((noinline)) int work(int n)
{
	return inner(n) ^ 5;
}

int main(int argc, char **argv)
{
	return work(argc);
}
"""


@pytest.fixture
def run(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    env.update(HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"), DEBUGINFOD_URLS="")

    def go(*args, text=True, **kw):
        return subprocess.run([LODE, *map(str, args)], env=env, capture_output=True, text=text, timeout=120, **kw)

    return go


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A stripped program, its debug file beside it, and the addresses of its functions."""
    d = tmp_path_factory.mktemp("profile")
    (d / "p.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o", "p", "p.c"], cwd=d, check=True)
    symbols = {w[2]: int(w[0], 16) for w in
               (line.split() for line in subprocess.run(["nm", "p"], cwd=d, capture_output=True, text=True).stdout.splitlines())
               if len(w) == 3}
    # An address of the inlined call.
    for at in range(symbols["work"], symbols["work"] + 32):
        frames = subprocess.run(["addr2line", "-fi", "-e", "p", hex(at)], cwd=d, capture_output=True, text=True).stdout.split()
        if frames[0] == "inner":
            symbols["inner"] = at
            break
    subprocess.run(["objcopy", "--only-keep-debug", "p", "p.debug"], cwd=d, check=True)
    subprocess.run(["objcopy", "--strip-all", "--add-gnu-debuglink=p.debug", "p", "stripped"], cwd=d, check=True)
    return d, symbols


# ---- pprof by hand ----

def pprof(binary, identity, addresses, start, named=()):
    """A CPU profile with a sample at each address, in a mapping of the whole binary from start."""
    strings = ["", "samples", "count", "cpu", "nanoseconds", str(binary), identity, "by hand", "x.c", "key", "value"]
    out = message(1, number(1, 1) + number(2, 2)) + message(1, number(1, 3) + number(2, 4))
    for i in range(len(addresses)):
        out += message(2, message(1, varint(i + 1)) + message(2, varint(i + 1) + varint(1000 * (i + 1))) +
                       message(3, number(1, 9) + number(2, 10)))
    out += message(3, number(1, 1) + number(2, start) + number(3, start + 0x100000) + number(5, 5) + number(6, 6))
    for i, a in enumerate(addresses):
        line = message(4, number(1, 1) + number(2, 77)) if i in named else b""
        out += message(4, number(1, i + 1) + number(2, 1) + number(3, a) + line)
    out += message(5, number(1, 1) + number(2, 7) + number(4, 8))
    for s in strings:
        out += message(6, s.encode())
    return gzip.compress(out + message(11, number(1, 3) + number(2, 4)) + number(12, 1000))


def go_pprof(*args):
    """pprof, or the command in $LODE_TEST_PPROF (such as "go tool pprof", which is built on first use and takes a minute)."""
    command = os.environ.get("LODE_TEST_PPROF", "").split() or [shutil.which("pprof")]
    if not command[0]:
        pytest.skip("no pprof")
    r = subprocess.run([*command, "-symbolize=none", *map(str, args)], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr
    return r.stdout


def without_dates(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith(("File:", "Time:", "Build ID:")))


# ---- names ----

def test_a_profile_gets_names_and_inlined_calls(program, run, tmp_path):
    d, symbols = program
    start = 0x7F0000000000
    (tmp_path / "in.pb.gz").write_bytes(pprof(d / "stripped", build_id(d / "p"),
                                              [start + symbols["inner"], start + symbols["main"] + 8, start + 0xFF000], start))
    r = run("symbolize", tmp_path / "in.pb.gz", "-o", tmp_path / "out.pb.gz")
    assert r.returncode == 0, r.stderr
    assert "2 addresses named, 0 had names before, 1 have no name" in r.stderr
    assert re.search(rf"1  {d}/stripped: .+", r.stderr)
    r = run("profile", tmp_path / "out.pb.gz", "-o", "-", "--output-format", "folded")
    assert re.search(r"^work;inner 1000$", r.stdout, re.M), r.stdout
    assert re.search(r"^main 2000$", r.stdout, re.M)
    r = run("profile", tmp_path / "out.pb.gz", "--by", "line", "--output-format", "folded")
    assert re.search(r"inner .*p\.c:6 1000$", r.stdout, re.M), r.stdout


def test_a_file_that_is_no_profile_is_named(run, tmp_path):
    """Folders, too, and files that are larger than any profile: a core dump is."""
    (tmp_path / "x.dSYM").mkdir()
    (tmp_path / "folder").mkdir()
    head = b"\x7fELF\2\1\1" + bytes(9) + b"\4\0"
    for name, content in (("core", head), ("large", b"main;f 1\n" * 1000)):
        with open(tmp_path / name, "wb") as f:
            f.write(content)
            f.truncate((1 << 30) + 1)
    said = {"x.dSYM": "a .dSYM folder, debug information of Apple's systems", "folder": "a folder: name a file in it",
            "core": "is an ELF core dump, not a profile", "large": "larger than the limit of 1024 MiB for a profile"}
    for name, text in said.items():
        for args in (["profile", tmp_path / name], ["symbolize", tmp_path / name, "-o", "-"], ["send", "--to", "http://127.0.0.1:9", tmp_path / name]):
            r = run(*args)
            assert r.returncode == 1 and text in r.stderr and r.stderr.count(str(tmp_path / name)) == 1, (args, r.stderr)


def test_what_is_named_stays(program, run, tmp_path):
    d, symbols = program
    start = 0x500000
    (tmp_path / "in.pb.gz").write_bytes(pprof(d / "stripped", build_id(d / "p"), [start + symbols["inner"]] * 2, start, named=(0,)))
    r = run("symbolize", tmp_path / "in.pb.gz", "--output-format", "folded")
    assert "by hand 1000\n" in r.stdout and "work;inner 2000\n" in r.stdout
    assert "1 addresses named, 1 had names before, 0 have no name\n" in r.stderr
    r = run("symbolize", "-q", tmp_path / "in.pb.gz")
    assert r.stderr == "" and "flat" in r.stdout


def test_what_nobody_knows_is_told_with_its_reason(run, tmp_path):
    (tmp_path / "in.pb.gz").write_bytes(pprof("/nowhere/gone", "00" * 20, [0x500010, 0x500020], 0x500000))
    r = run("symbolize", tmp_path / "in.pb.gz", "-o", tmp_path / "out.svg")
    assert r.returncode == 0
    assert re.search(r"2  /nowhere/gone: .+", r.stderr)
    assert "gone+0x10" in (tmp_path / "out.svg").read_text()


def test_text_of_perf_is_named_by_its_maps(program, run):
    d, symbols = program
    text = (f"p 9/9 [000] 1.000001: PERF_RECORD_MMAP2 9/9: [0x550000000000(0x9000) @ 0 08:01 7 0]: r-xp {d}/stripped\n"
            f"p 9/9 [000] 1.000002:     1001 cpu-clock:u: \n"
            f"\t{0x550000000000 + symbols['inner']:16x} [unknown] ({d}/stripped)\n"
            f"\t{0x550000000000 + symbols['main'] + 9:16x} [unknown] ({d}/stripped)\n\n")
    r = run("symbolize", "--output-format", "folded", input=text)
    assert r.returncode == 0, r.stderr
    assert r.stdout == "main;work;inner 1001\n"


# ---- formats ----

FOLDED = "main;a;<b> 3\nmain;a;c 2\nmain;d 5\n"


def test_images_and_pages_are_well_formed(run, tmp_path):
    for suffix in ("svg", "html", "json", "folded", "txt", "pb.gz", "pb"):
        r = run("profile", "-o", tmp_path / f"out.{suffix}", input=FOLDED)
        assert r.returncode == 0, r.stderr
    xml.dom.minidom.parse(str(tmp_path / "out.svg"))
    scope = json.loads((tmp_path / "out.json").read_text())
    frames = [f["name"] for f in scope["shared"]["frames"]]
    stacks = {";".join(frames[i] for i in s): w
              for s, w in zip(scope["profiles"][0]["samples"], scope["profiles"][0]["weights"])}
    assert stacks == {"main;a;<b>": 3, "main;a;c": 2, "main;d": 5}
    page = (tmp_path / "out.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    assert data["nodes"][0][2] == 10 and ["<b>", "", 0, ""] in data["frames"]
    assert not re.search(r'(src|href)=|url\(|@import|fetch\(|XMLHttp', page)
    assert sorted((tmp_path / "out.folded").read_text().splitlines()) == sorted(FOLDED.splitlines())
    assert (tmp_path / "out.pb.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert gzip.decompress((tmp_path / "out.pb.gz").read_bytes()) == (tmp_path / "out.pb").read_bytes()


def test_what_is_no_file_is_written_to_and_stays(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert run("profile", "-o", tmp_path / "pipe", "--output-format", "folded", input=FOLDED).returncode == 0
        assert sorted(reader.stdout.read().splitlines()) == sorted(FOLDED.splitlines())
    assert (tmp_path / "pipe").is_fifo()
    r = run("profile", "-o", "/dev/stdout", "--output-format", "folded", input=FOLDED)
    assert sorted(r.stdout.splitlines()) == sorted(FOLDED.splitlines())


def test_profiles_are_merged_and_compared(run, tmp_path):
    (tmp_path / "a").write_text("main;f 3\nmain;g 1\n")
    (tmp_path / "b").write_text("main;f 1\nmain;h 2\n")
    r = run("profile", "--output-format", "folded", tmp_path / "a", tmp_path / "b")
    assert sorted(r.stdout.splitlines()) == ["main;f 4", "main;g 1", "main;h 2"]
    r = run("profile", "--output-format", "folded", "--base", tmp_path / "b", tmp_path / "a")
    assert sorted(r.stdout.splitlines()) == ["main;f 1 3", "main;g 0 1", "main;h 2 0"]
    r = run("profile", "-o", tmp_path / "d.pb", "--base", tmp_path / "a", tmp_path / "a")
    assert r.returncode == 0
    r = run("profile", "--output-format", "folded", tmp_path / "d.pb")
    assert r.stdout == ""


@pytest.mark.parametrize("args, status, said", [
    (["--output-format", "gif"], 2, "'gif' is not pprof"),
    (["-o", "x.gif"], 2, "the name has no known suffix"),
    (["--by", "colour"], 2, "'colour' is not function"),
    (["--focus", "("], 1, "focus: '('"),
    (["--sample-type", "heap"], 1, "the types are samples"),
    (["-o", "x.pb.gz", "--focus", "f"], 2, "--focus has no effect on pprof"),
    (["--output-format", "pprof", "--invert"], 2, "--invert has no effect on pprof"),
    (["-o", "x.pb", "--no-inlines"], 2, "--no-inlines has no effect on pprof"),
    (["/nowhere/at/all"], 1, "there is no such file"),
])
def test_mistakes_are_told(run, args, status, said):
    r = run("profile", *args, input=FOLDED)
    assert r.returncode == status
    assert r.stderr.startswith("lode: profile: ") and said in r.stderr


def test_a_path_is_told_once(run, tmp_path):
    """Before, `/dev/null: /dev/null: not a regular file`."""
    for command in ("profile", "inspect", "split"):
        r = run(command, "/dev/null")
        assert (r.returncode, r.stderr) == (1, f"lode: {command}: /dev/null: not a regular file\n")
    r = run("store", "ls", "--store", tmp_path / "none")
    assert r.returncode == 1 and r.stderr.count("store: ") == 1, r.stderr


def test_what_is_no_profile_is_refused(run, tmp_path):
    bomb = gzip.compress(b"\0" * (64 << 20))
    for content, said in ((b"", "is empty"), (b"\x1f\x8b\x08\0garbage", "gzip"), (b"PERFILE2...", "perf"),
                          (b"hello\n", "line 1"), (bomb, "profile.proto")):
        (tmp_path / "x").write_bytes(content)
        r = run("profile", tmp_path / "x")
        assert r.returncode == 1 and said in r.stderr, (said, r.stderr)


# ---- Go's pprof ----

def test_pprof_prints_the_same_of_what_we_write(program, run, tmp_path):
    d, symbols = program
    start = 0x500000
    (tmp_path / "in.pb.gz").write_bytes(pprof(d / "stripped", build_id(d / "p"),
                                              [start + symbols["inner"], start + symbols["main"] + 8], start, named=(0,)))
    assert run("profile", tmp_path / "in.pb.gz", "-o", tmp_path / "out.pb.gz").returncode == 0
    for report in ("-top", "-traces", "-raw"):
        a, b = (without_dates(go_pprof(report, tmp_path / name)) for name in ("in.pb.gz", "out.pb.gz"))
        assert a == b


def test_pprof_takes_what_is_made_of_text(run, tmp_path):
    assert run("profile", "-o", tmp_path / "out.pb.gz", input=FOLDED).returncode == 0
    top = go_pprof("-top", "-sample_index=samples", tmp_path / "out.pb.gz")
    assert re.search(r"^ +5 50\.00% .* d$", top, re.M), top
