# SPDX-License-Identifier: Apache-2.0
"""lode symbolize: by build ID, of the kernel, in the place of addr2line; and its cache."""

import fcntl
import http.server
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import threading
import time

import pytest

from conftest import LODE, build_id
from symbolizing import run, program, line_of  # noqa: F401
from test_symbolize import built  # noqa: F401


def test_by_build_id_from_a_server_with_packages(built, serve, run, tmp_path):  # noqa: F811
    if not (built.dir / "pool").exists():
        built.debs(built.dir / "pool")
    s = serve([built.dir / "pool"]).scanned()
    addrs = built.code[::40]
    out = run("--build-id", built.id, "--server", s.url, "--output-style", "llvm", "--no-demangle", *map(hex, addrs))
    chains = [[(n, *p.rsplit(":", 2)[:2]) for n, p in zip(c.splitlines()[::2], c.splitlines()[1::2])] for c in out.split("\n\n") if c]
    want = [[(f, p or "??", str(l)) for f, p, l in c] for c in built.oracle(addrs, "--no-demangle")]
    assert [[(re.sub("^shop::", "", n), p, l) for n, p, l in c] for c in chains] == want
    # It is in the cache folder now.
    s.stop()
    assert run("--build-id", built.id, "--output-style", "llvm", "--no-demangle", *map(hex, addrs)) == out
    assert "not" in run("--build-id", "00" * 20, "--local", "0x1", status=1)
    run("--build-id", "xyz", "0x1", status=2)


def test_by_build_id_with_symbols_that_only_the_program_has(serve, run, tmp_path):
    """`eu-strip -g -f` leaves the symbol table in the program."""
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    app = tmp_path / "bin" / "app"
    app.parent.mkdir()
    subprocess.run(["gcc", "-O1", "-g", "-Wl,--build-id", "-o", app, "a.c"], check=True, cwd=tmp_path)
    subprocess.run(["eu-strip", "-g", "-f", app.with_suffix(".debug"), app], check=True)
    start = re.search(r"^(\w+) T _start$", subprocess.run(["nm", app], check=True, capture_output=True, text=True).stdout, re.M)[1]
    s = serve([app.parent]).scanned()
    assert run("--build-id", build_id(app), "--server", s.url, "--output-style", "llvm", start).split("\n")[0] == "_start"


@pytest.mark.parametrize("of_go", [False, True])
def test_a_server_that_has_packages_to_read_is_waited_for_only_with_go(run, tmp_path, of_go):
    """It has the debug file. Of Go the names are in the program, else a few more."""
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-Wl,--build-id", "-o", "a", "a.c"], check=True, cwd=tmp_path)
    main = re.search(r"^(\w+) T main$", subprocess.run(["nm", tmp_path / "a"], check=True, capture_output=True, text=True).stdout, re.M)[1]
    (tmp_path / "table").write_bytes(bytes(8))
    subprocess.run(["objcopy", "--add-section=.gopclntab=table", "--set-section-flags=.gopclntab=alloc,readonly", "a", "b"], check=True,
                   cwd=tmp_path)
    subprocess.run(["objcopy", "--only-keep-debug", "b" if of_go else "a", "debug"], check=True, cwd=tmp_path)
    subprocess.run(["objcopy", "--strip-unneeded", "--keep-section=.debug*", "debug"], check=True, cwd=tmp_path)
    asked = []

    class Unread(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if "debuginfo" in self.path:
                body = (tmp_path / "debug").read_bytes()
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
            else:
                body = b""
                self.send_response(404)
                self.send_header("X-LODE-UNREAD", "later")
                self.send_header("Retry-After", "1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unread)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        out = run("--build-id", build_id(tmp_path / "a"), "--server", f"http://127.0.0.1:{s.server_port}", "--unread-wait", "3",
                  "--output-style", "llvm", main)
    finally:
        s.shutdown()
        s.server_close()
    assert out.startswith("main\n")
    n = sum("executable" in path for path in asked)
    assert n > 1 if of_go else n == 1, asked


@pytest.mark.slow
def test_addresses_of_the_kernel(run):
    names = {}
    for line in pathlib.Path("/proc/kallsyms").read_text().splitlines():
        addr, kind, name = line.split("\t")[0].split(" ")[:3]
        if kind in "tT":
            names.setdefault(int(addr, 16), set()).add(name)
    if 0 in names or not names:
        assert "hides" in run("--kernel", "0x1", status=1)
        pytest.skip("addresses are hidden")
    for addr in sorted(names)[1000:1010]:
        out = run("--kernel", hex(addr))
        assert any(f"  {n}" in out for n in names[addr]), (hex(addr), out)


WORK = r"""
#include <stdio.h>
static inline __attribute__((always_inline)) unsigned mix(unsigned x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}
__attribute__((noinline)) unsigned work(unsigned n)
{
	unsigned x = 1;
	for (unsigned i = 0; i < n; i++)
		x = mix(x);
	return x;
}
int main(void)
{
	printf("%u\\n", work(60000000));
	return 0;
}
"""


@pytest.mark.slow
def test_perf_has_the_same_lines_with_ours_in_addr2lines_place(run, tmp_path):
    if not shutil.which("perf"):
        pytest.skip("there is no perf")
    (tmp_path / "work.c").write_text(WORK)
    subprocess.run(["gcc", "-g", "-O2", "-fno-omit-frame-pointer", "-o", "work", "work.c"], cwd=tmp_path, check=True)
    if subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-g", "-o", "data", "./work"], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("perf may not record here")
    ours = tmp_path / "bin"
    ours.mkdir()
    (ours / "addr2line").write_text(f'#!/bin/sh\nexec {LODE} addr2line "$@"\n')
    (ours / "addr2line").chmod(0o755)

    def lines(path, *args):
        env = {**os.environ, "PATH": path, "HOME": str(tmp_path), "DEBUGINFOD_URLS": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(["perf", "script", "-i", "data", *args], cwd=tmp_path, capture_output=True, text=True, env=env).stdout

    theirs = lines(os.environ["PATH"], "-F", "+srcline")
    mine = lines(f"{ours}:{os.environ['PATH']}", "-F", "+srcline")
    of_work = re.compile(r"work\+0x\w+ \(\S*/work\)\n +(work\.c:\d+)")
    assert of_work.findall(theirs) and of_work.findall(mine) == of_work.findall(theirs)
    # A flame graph's script reads what the filter writes: functions, also those that were inlined.
    text = lines(os.environ["PATH"], "--no-inline")
    stacks = [re.findall(r"^\s+\w+ (.+) \((\S+)\)", s, re.M) for s in run(text=text).split("\n\n")]
    assert any([f for f, _ in s][:2] == ["mix", "work"] and s[0][1] == "inlined" for s in stacks), stacks[:3]


def wait_for(condition):
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_tables_are_kept_for_the_second_call(run, tmp_path):
    exe = pathlib.Path(LODE)  # large enough to be worth it
    if not re.search(r"\.debug_info", subprocess.run(["readelf", "-SW", str(exe)], capture_output=True, text=True).stdout):
        pytest.skip("it has no debug information")
    main = re.search(r"(\w+) T main", subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout).group(1)
    first = run("-e", exe, main)
    folder = tmp_path / "cache" / "lode" / "symtab"
    wait_for(lambda: list(folder.glob("*.symtab")))
    (kept,) = folder.glob("*.symtab")
    assert kept.name.startswith(build_id(exe))
    assert run("-e", exe, main) == first
    # A damaged table is not used, and built again.
    kept.write_bytes(b"x" * 100)
    assert run("-e", exe, text=main + "\n") == first
    assert kept.stat().st_size > 100
    # So does the process in the background, of a call for few addresses.
    kept.write_bytes(b"x" * 100)
    assert run("-e", exe, main) == first
    wait_for(lambda: kept.stat().st_size > 100)
    # Damage of a block is seen when the block is read: it costs one answer, and the next call builds the table anew.
    everything = "".join(f"{a}\n" for a in re.findall(r"(\w+) [Tt] ", subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout))
    names = run("-e", exe, text=everything)
    flipped = bytearray(kept.read_bytes())
    for i in range(len(flipped) // 4, len(flipped) * 3 // 4, 512):
        flipped[i] ^= 1
    kept.write_bytes(flipped)
    assert f"{kept} was damaged and is deleted; run this again" in run("-e", exe, text=everything, status=1) and not kept.exists()
    assert run("-e", exe, text=everything) == names and kept.exists()
    other = tmp_path / "none"
    assert run("-e", exe, main, extra={"LODE_SYMTAB_CACHE": ""}) == first
    copy = tmp_path / "copy"
    shutil.copy(exe, copy)
    run("-e", copy, text=main + "\n")
    assert len(list(folder.glob("*.symtab"))) == 2 and not other.exists()


def test_few_tables_are_built_at_once_in_the_background(tmp_path):
    exe, folder = pathlib.Path(LODE), tmp_path / "lode" / "symtab"
    if not re.search(r"\.debug_info", subprocess.run(["readelf", "-SW", str(exe)], capture_output=True, text=True).stdout):
        pytest.skip("it has no debug information")
    main = re.search(r"(\w+) T main", subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout).group(1)
    folder.mkdir(parents=True)

    def tables_after_a_call():
        reader, writer = os.pipe()  # the process in the background has its end, too
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        env.pop("LODE_SYMTAB_CACHE", None)
        subprocess.run([LODE, "symbolize", "-l", "-e", exe, main], env=env, pass_fds=[writer], stdout=subprocess.DEVNULL, check=True)
        os.close(writer)
        assert os.read(reader, 1) == b""
        os.close(reader)
        return len(list(folder.glob("*.symtab")))

    # Those of another user, who works, too, do not count.
    others = [open(folder / f"builder-{os.geteuid() + 1}-{i}.lock", "w") for i in range(2)]
    busy = [open(folder / f"builder-{os.geteuid()}-{i}.lock", "w") for i in range(2)]
    for f in others + busy:
        fcntl.flock(f, fcntl.LOCK_EX)
    assert tables_after_a_call() == 0
    busy[1].close()
    assert tables_after_a_call() == 1
    # Nor does a lock of another user on this table. One of this user does.
    (table,) = folder.glob("*.symtab")
    table.unlink()
    for uid, n in ((f".{os.geteuid()}", 0), (f".{os.geteuid() + 1}", 1), ("", 1)):
        with open(f"{table}{uid}.lock", "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            assert tables_after_a_call() == n
        table.unlink(missing_ok=True)


def test_wrong_use_is_told(run, tmp_path):
    run("-e", "a", "--pid", "1", "0x1", status=2)
    run("--text", "0x1", text="", status=2)
    run("--output-style", "none", "0x1", status=2)
    run("-e", "a", "--demangle", "none", "--no-demangle", "0x1", status=2)
    run("0x1", status=2)
    # An option without effect is refused with a message.
    for args in (["-e", "a", "-o", "x", "0x1"], ["-e", "a", "--focus", "x", "0x1"], ["--pid", "1", "--alt", "x", "0x1"],
                 ["--kernel", "--section", "x", "0x1"], ["--text", "--output-style", "llvm"], ["--text", "--pid", "1"],
                 ["-o", "x.svg", "--addresses", "/dev/null"], ["-o", "x.svg", "--verbose", "/dev/null"],
                 ["-o", "x.svg", "--demangle", "simple", "/dev/null"]):
        said = run(*args, text="", status=2)
        assert "has no effect" in said or "crash text names" in said, (args, said)
    assert "gnu and llvm" in run("-e", "a", "--output-style", "json", "--pretty-print", "0x1", status=2)
    for args in (["dump", "-o", "x", "t"], ["build", "-e", "x", "-o", "y", "t"], ["verify", "--summary", "-e", "x", "t"]):
        r = subprocess.run([LODE, "symtab", *args], capture_output=True, text=True)
        assert r.returncode == 2 and "has no effect" in r.stderr, (args, r)

def test_each_answer_in_json_is_json_and_has_its_own_module(run, tmp_path):
    exe = program(tmp_path)
    main = re.search(r"(\w+) T main", subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout).group(1)
    where = [main, "z\"zz", "0x10 more"]
    want = [("main", None), (None, 'unable to parse arguments: z"zz'), (None, "unable to parse arguments: 0x10 more")]

    def read(one):
        assert one["ModuleName"] == str(exe)
        return (one["Symbol"][-1]["FunctionName"] if "Symbol" in one else None, one.get("Error", {}).get("Message"))

    assert [read(one) for one in json.loads(run("-e", exe, "--output-style", "json", *where))] == want
    assert [read(json.loads(line)) for line in run("-e", exe, "--output-style", "json", text="\n".join(where) + "\n").splitlines()] == want
    p = subprocess.Popen([str(exe), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        addr = int(p.stdout.readline(), 16)
        unmapped, inside, word = json.loads(run("--pid", p.pid, "--output-style", "json", hex(addr + (1 << 40)), hex(addr), "zzz"))
        assert inside["ModuleName"] == str(exe) and unmapped["ModuleName"] == word["ModuleName"] == ""
    finally:
        p.communicate("\n")


def test_a_prelinked_object_and_its_debug_file(run, tmp_path):
    """Prelinking moves an object; its debug file was made before that and keeps the old addresses."""
    exe = program(tmp_path, "-fPIE", "-pie")
    (tmp_path / "bin").mkdir()
    moved, debug = tmp_path / "bin" / "crash", tmp_path / "bin" / "crash.debug"
    subprocess.run(["objcopy", "--only-keep-debug", exe, debug], check=True)
    subprocess.run(["strip", "-o", moved, exe], check=True)
    outer = int(re.search(r"(\w+) T outer", subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout).group(1), 16)
    want = run("-e", exe, "--output-style", "llvm", hex(outer), hex(outer + 4))
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", moved], check=True)
    assert run("-e", moved, "--output-style", "llvm", hex(outer), hex(outer + 4)) == want
    by = 0x3000000000
    data = bytearray(moved.read_bytes())
    phoff, (phentsize, phnum) = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<HH", data, 54)
    for i in range(phnum):
        at = phoff + i * phentsize + 16
        struct.pack_into("<QQ", data, at, *(x + by for x in struct.unpack_from("<QQ", data, at)))
    moved.write_bytes(data)
    assert run("-e", moved, "--output-style", "llvm", hex(by + outer), hex(by + outer + 4)) == want
    assert run("-e", moved, "--output-style", "gnu", text=f"{by + outer:x}\n") == run("-e", exe, "--output-style", "gnu", text=f"{outer:x}\n")


def test_one_frame_of_each_address(run, tmp_path):
    exe = program(tmp_path, "-fPIE", "-pie")
    inner = line_of("the bad line")
    nm = subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout
    outer = int(re.search(r"(\w+) T outer", nm).group(1), 16)
    all_of = [run("-e", exe, "--output-style", "llvm", hex(outer + i)) for i in range(12)]
    at = next(outer + i for i, o in enumerate(all_of) if o.startswith("inner\n") and f"crash.c:{inner}:" in o)
    for style, form in (("llvm", r"outer\n\S*crash\.c:%d:\d+\n\n"), ("gnu", r"outer\n\S*crash\.c:%d\n"),
                        ("lode", r"0x\w+  \+0x\w+\n  outer  \S*crash\.c:%d:\d+\n")):
        assert re.fullmatch(form % inner, run("-e", exe, "--output-style", style, "--no-inlines", hex(at)))
    for extra in ([], ["-p"], ["-a"], ["-p", "-a"], ["--no-inlines"]):
        theirs = subprocess.run(["llvm-symbolizer", "-e", str(exe), *extra, hex(at)], capture_output=True, text=True).stdout
        assert run("-e", exe, "--output-style", "llvm", *extra, hex(at)) == theirs


@pytest.mark.parametrize("style", [["gnu"], ["llvm"], ["llvm", "--no-inlines"], ["gnu", "--pretty-print"]])
def test_addresses_of_one_row_have_one_answer(built, run, style):  # noqa: F811
    """Answers without addresses are cached per row, those with addresses are not: both have the same text."""
    text = "".join(f"{a:#x}\n" for a in built.code[::-1] + built.code + [1, 0, 1]) + "none\n"
    with_addresses = run("-e", built.full, "--local", "--output-style", *style, "--addresses", text=text)
    assert len(set(re.findall(r"^0x\w+", with_addresses, re.M))) > len(built.code)
    assert run("-e", built.full, "--local", "--output-style", *style, text=text) == re.sub(r"(?m)^0x\w+(\n|: )", "", with_addresses)


@pytest.mark.parametrize("style, end", [("llvm", b"\n\n"), ("json", b"\n")])
def test_answers_together_are_those_of_each_alone(built, run, style, end):  # noqa: F811
    """In a batch, addresses share frames and names; one by one, they share none. The output is the same."""
    code = built.code[::-1] + built.code[:100] + [1]
    together = run("-e", built.full, "--local", "--output-style", style, text="".join(f"{a:#x}\n" for a in code))
    p = subprocess.Popen([LODE, "symbolize", "-e", built.full, "--local", "--output-style", style], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    alone = b""
    for a in code:
        answer = b""
        p.stdin.write(f"{a:#x}\n".encode())
        p.stdin.flush()
        while not answer.endswith(end):
            answer += p.stdout.read1()
        alone += answer
    p.stdin.close()
    assert p.wait() == 0 and alone.decode() == together


def test_names_in_the_degree_that_is_wanted(built, run):  # noqa: F811
    addr = next(a for a, c in zip(built.code, built.oracle(built.code)) if c[-1][0].startswith("int shop::sum"))

    def last(*args):
        return run("-e", built.full, *args, hex(addr)).splitlines()[-1].split("  ")[1]

    def addr2line(tool, style):
        args = ["-fi", f"--demangle{style}", "-e", str(built.full), hex(addr)]
        return subprocess.run([*tool, *args], capture_output=True, text=True)

    full = last()
    assert full.startswith("int shop::sum<int>(") and last("--demangle", "full") == full
    assert (last("--demangle", "templates"), last("--demangle=simple")) == ("shop::sum<int>", "shop::sum")
    assert last("--demangle", "none") == last("--no-demangle") and last("--no-demangle").startswith("_ZN4shop3sumIiEE")
    for style in ("", "=auto", "=gnu-v3", "=none"):
        assert addr2line([LODE, "addr2line"], style).stdout == addr2line(["addr2line"], style).stdout
    simple = addr2line([LODE, "addr2line"], "=simple").stdout
    assert run("-e", built.full, "--output-style", "gnu", "--demangle", "simple", hex(addr)) == simple and "<" not in simple
    assert "unknown demangling style 'klingon'" in addr2line([LODE, "addr2line"], "=klingon").stderr
    # In crash text, too.
    assert "shop::sum /" in run("--demangle", "simple", text=f"    #0 0x1 in f ({built.full}+{addr:#x})\n")
    assert "one of full" in run("-e", built.full, "--demangle", "klingon", "0x1", status=2)


def test_gos_escapes_are_undone_but_in_the_styles_of_others(run, tmp_path):
    (tmp_path / "go.c").write_text("int go(int n) { return n + 1; }\nint main(int n, char **v) { return n; }\n")
    program = tmp_path / "go"
    subprocess.run(["gcc", "-O1", "-o", str(program), str(tmp_path / "go.c")], check=True)
    # The assembler does not accept such names.
    subprocess.run(["objcopy", "--redefine-sym", "go=gopkg.in/yaml%2ev2.f", str(program)], check=True)
    out = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    addr = next(l.split()[0] for l in out.splitlines() if l.endswith("yaml%2ev2.f"))

    def name(*args):
        return run("-e", program, *args, addr)

    assert "  gopkg.in/yaml.v2.f  " in name() and "  gopkg.in/yaml%2ev2.f  " in name("--no-demangle")
    assert all("gopkg.in/yaml%2ev2.f" in name("--output-style", s) for s in ("gnu", "llvm", "json"))


def test_addr2line_fails_as_addr2line_does(run, tmp_path):
    exe = program(tmp_path)
    for args in (["-e", str(exe), "0x1"], ["-e", str(exe), "-fi", "zzz"], ["-e", "/nowhere/at/all", "0x1"], ["-v"]):
        ours, theirs = (subprocess.run([*tool, *args], capture_output=True, text=True)
                        for tool in ([LODE, "addr2line"], ["addr2line"]))
        assert ours.returncode == theirs.returncode and (args == ["-v"] or ours.stdout == theirs.stdout), args
        assert all(line.startswith("lode: addr2line: ") for line in ours.stderr.splitlines()), ours.stderr
    said = run("-e", "/nowhere/at/all", "0x1", status=1), subprocess.run([LODE, "addr2line", "-e", str(exe), "-j", ".no", "0"],
                                                                         capture_output=True, text=True).stderr
    assert said == ("lode: symbolize: /nowhere/at/all: there is no such file\n", f"lode: addr2line: {exe}: it has no section .no\n")


def test_a_servers_debug_file_is_used_for_a_file(run, serve, tmp_path):
    exe = program(tmp_path)
    (tmp_path / "debug").mkdir()
    (tmp_path / "bare").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", exe, tmp_path / "debug" / "crash.debug"], check=True)
    subprocess.run(["strip", "-o", tmp_path / "bare" / "crash", exe], check=True)
    s = serve([tmp_path / "debug"]).scanned()
    main = re.search(r"(\w+) T main", subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout).group(1)
    out = run("-e", tmp_path / "bare" / "crash", "--server", s.url, main)
    assert re.search(r"  main  \S*crash\.c:\d+", out), out
