# SPDX-License-Identifier: Apache-2.0
"""lode symbolize as a filter: crash reports, traces of the kernel and of perf."""

import os
import re
import shutil
import struct
import subprocess

import pytest

from conftest import LODE, build_id
from symbolizing import run, program, line_of  # noqa: F401


def test_sanitizer_stacks_get_functions_and_lines(run, tmp_path):
    exe = program(tmp_path, "-fsanitize=address", "-fPIE", "-pie")
    r = subprocess.run([str(exe)], capture_output=True, text=True, env={**os.environ, "ASAN_OPTIONS": "symbolize=0:detect_leaks=0"})
    assert "AddressSanitizer" in r.stderr
    out = run(text=r.stderr)
    assert re.search(r"^    #0 0x\w+ in inner \S*crash\.c:%d" % line_of("the bad line"), out, re.M), out
    assert re.search(r"^    #0 0x\w+ in outer \S*crash\.c:%d" % line_of("inner(p, n);"), out, re.M), out
    assert re.search(r"^    #1 0x\w+ in main \S*crash\.c:%d" % line_of("outer(malloc"), out, re.M), out
    # The rest of the text is unchanged.
    keep = [l for l in r.stderr.splitlines() if not l.lstrip().startswith("#")]
    assert [l for l in out.splitlines() if not l.lstrip().startswith("#")] == keep


def test_lines_of_glibcs_backtrace(run, tmp_path):
    exe = program(tmp_path, "-fPIE", "-pie")
    text = subprocess.run([str(exe)], capture_output=True, text=True).stdout
    assert f"{exe}(" in text
    out = run(text=text)
    assert re.search(r"^        trace  \S*crash\.c:%d" % line_of("backtrace_symbols_fd"), out, re.M), out
    assert re.search(r"^        main  \S*crash\.c:%d" % line_of("	trace();"), out, re.M), out
    assert [l for l in out.splitlines() if not l.startswith("        ")] == text.splitlines()


def test_long_names_that_end_alike_do_not_fill_the_memory(tmp_path):
    """Before, each of them was copied: 4 GB for a file of 1 MB."""
    n, size = 2000, 1000000
    names = b"\0" + b"a" * (size - 2) + b"\0good\0"
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, 0x401000, 16) for name in [*range(1, n), size])
    strings = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    parts = [b"\xc3" * 16, symbols, names, strings]
    at = [120 + sum(map(len, parts[:i])) for i in range(5)]
    sections = [(0,) * 10, (1, 1, 6, 0x401000, at[0], 16, 0, 0, 1, 0), (7, 2, 0, 0, at[1], len(symbols), 3, 1, 8, 24),
                (15, 3, 0, 0, at[2], len(names), 0, 0, 1, 0), (23, 3, 0, 0, at[3], len(strings), 0, 0, 1, 0)]
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x401000, 64, at[4], 0, 64, 56, 1, 64, 5, 4)
    load = struct.pack("<IIQQQQQQ", 1, 5, 120, 0x401000, 0x401000, 16, 16, 1)
    (tmp_path / "x").write_bytes(head + load + b"".join(parts) + b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in sections))
    text = f"{tmp_path / 'x'}(f+0x1) [0x401001]\n"
    r = subprocess.run(["prlimit", f"--as={2 << 30}", LODE, "symbolize", "--local", "--text"], input=text, capture_output=True, text=True)
    assert (r.returncode, r.stdout) == (0, text), r.stderr


def test_perf_script(run, tmp_path):
    exe = program(tmp_path, "-fPIE", "-pie")
    out = subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout
    outer = int(re.search(r"(\w+) T outer", out).group(1), 16)
    loads = subprocess.run(["readelf", "-lW", str(exe)], capture_output=True, text=True).stdout
    off, vaddr = (int(x, 16) for x in re.search(r"LOAD\s+(0x\w+) (0x\w+) \S+ \S+ \S+ R E", loads).groups())
    base = 0x550000000000
    pc = base + outer
    text = (f"crash 1 0.0: PERF_RECORD_MMAP2 1/1: [{base + (vaddr & ~0xfff):#x}(0x1000) @ {off & ~0xfff:#x} fe:01 12 0]: r-xp {exe}\n"
            f"crash 1 0.1: 1 cycles:\n\t    {pc:x} [unknown] ({exe})\n\t    {pc + 1:x} outer+0x1 ({exe})\n"
            f"\t    {pc:x} [unknown] ([kernel.kallsyms])\n\n"
            f"crash 1 0.2: 1 cycles:\n\t    {pc:x} [unknown] ({exe}+{outer - vaddr + off:#x})\n\n")
    got = run(text=text)
    assert len(re.findall(rf"^\t    {pc:x} (?:inner \(inlined\)|outer \({exe}\)) \S*crash\.c:[0-9:]+$", got, re.M)) >= 2, got
    assert re.search(rf"^\t    {pc + 1:x} outer \({exe}\)", got, re.M), got
    assert "[kernel.kallsyms]" in got

def test_frames_of_a_program_that_was_started_by_a_relative_path(tmp_path):
    program(tmp_path)
    env = {**os.environ, "DEBUGINFOD_URLS": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    crash = subprocess.run(["./crash"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert crash.startswith("./crash(")
    r = subprocess.run([LODE, "symbolize"], cwd=tmp_path, input=crash, capture_output=True, text=True, env=env)
    assert re.search(r"^        trace  \S*crash\.c:%d" % line_of("backtrace_symbols_fd"), r.stdout, re.M), r.stdout
    # A name alone is no path: the reason is not damage.
    r = subprocess.run([LODE, "symbolize", "-v"], cwd=tmp_path, input="    #0 0x1 (crash+0x1169)\n", capture_output=True, text=True, env=env)
    assert "neither its path nor its build ID" in r.stderr and "cannot be read" not in r.stderr, r.stderr


def test_other_text_passes_unchanged(run):
    text = ("panic: oh\n\ngoroutine 1 [running]:\nmain.f(0x1)\n\t/x/a.go:12 +0x1d\n#0 \n#x 0x1 (a+0x1)\n(+0x1) [0x2]\n/nowhere(+0x1) [0x2]\n"
            "  1 f (/nowhere)\n f+0x1/0x2\n" + "x" * 3000 + "\n    #0 0x1  (/nowhere/at/all+0x12) (BuildId: zz)\n\0\x01\n")
    assert run(text=text) == text
    assert run(text="no newline") == "no newline\n"
    assert run(text="") == ""


def test_call_traces_of_linux(run, tmp_path):
    exe = program(tmp_path, "-no-pie")
    size = int(re.search(r"\w+ (\w+) T outer", subprocess.run(["nm", "-S", str(exe)], capture_output=True, text=True).stdout).group(1), 16)
    text = (f"[    1.0] RIP: 0010:outer+0x0/{size:#x}\n[    1.0]  outer+0x1/{size:#x}\n[    1.0]  ? nobody+0x1/0x20\n"
            f"[    1.0]  outer+0x1/{size + 5000:#x}\n")
    out = run("--text", "-e", exe, text=text)
    assert len(re.findall(r"^        (?:inner|outer)  \S*crash\.c:\d+", out, re.M)) >= 2, out
    assert [l for l in out.splitlines() if not l.startswith("        ")] == text.splitlines()
    # A function of another version is not used.
    assert out.endswith(text.splitlines()[-1] + "\n")


def test_call_traces_of_another_kernel_by_its_build_ids(run, serve, tmp_path):
    """Call traces of kernels with CONFIG_STACKTRACE_BUILD_ID."""
    exe = program(tmp_path, "-no-pie")
    size = int(re.search(r"\w+ (\w+) T outer", subprocess.run(["nm", "-S", str(exe)], capture_output=True, text=True).stdout).group(1), 16)
    (tmp_path / "files").mkdir()
    shutil.copy(exe, tmp_path / "files")
    s = serve([tmp_path / "files"]).scanned()
    frame = r"^        (?:inner|outer)  \S*crash\.c:\d+"
    head = "[    1.0] CPU: 0 PID: 1 Comm: cat Tainted: G        W          6.99.0-nowhere #1 Debian 6.99"
    place = f"[    1.0] RIP: 0010:outer+0x1/{size:#x}"
    in_module = f"[    1.0]  ? outer+0x1/{size:#x} [crash {build_id(exe)}]"
    out = run("--server", s.url, text=f"{head} {build_id(exe)}\n{place}\n{in_module}\n")
    assert out.splitlines()[1] == place and re.search(frame, "\n".join(out.splitlines()[2:3]), re.M), out
    assert len(re.findall(frame, out, re.M)) >= 2, out
    # For an unavailable kernel, no names are invented, and none of the running kernel are used.
    text = f"{head}\n{place}\n[    1.0]  vfs_read+0x1/0x30c\n[    1.0]  outer+0x1/{size:#x} [crash]\n"
    assert run("--server", s.url, text=text) == text
    assert run("--kernel-release", "../../etc", "--local", text=text) == text


GO = """package main

import "os"

type T struct{ x, y int }

//go:noinline
func (t *T) read() int { return t.y }

func main() {
	var t *T
	if len(os.Args) > 100 {
		t = &T{}
	}
	println(t.read())
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("go") and not os.path.exists("/usr/local/go/bin/go"), reason="there is no go")
def test_addresses_that_go_programs_leave_bare(run, tmp_path):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    (tmp_path / "a.go").write_text(GO)
    env = {**os.environ, "GOCACHE": str(tmp_path / "gocache"), "GO111MODULE": "off", "GOFLAGS": ""}
    for flags in ([], ["-ldflags=-s -w"]):  # by DWARF, and by Go's own table
        if subprocess.run([go, "build", *flags, "-o", "prog", "a.go"], cwd=tmp_path, env=env, capture_output=True).returncode:
            pytest.skip("go cannot build here")
        text = subprocess.run([str(tmp_path / "prog")], capture_output=True, text=True).stderr
        line = next(l for l in text.splitlines() if " pc=0x" in l)
        pc = int(re.search(r" pc=(0x\w+)", line).group(1), 16)
        text += f"1 @ {pc:#x} {pc + 1:#x}\n\n{pc:#x}\nrip    {pc:#x}\n"
        out = run("-e", tmp_path / "prog", "--text", text=text)
        frame = r"        main\.\(\*T\)\.read  \S*a\.go:8\b"
        assert re.search(re.escape(line) + "\n" + frame, out), out
        assert len(re.findall(frame, out)) >= 4, out
        assert [l for l in out.splitlines() if not l.startswith("        ")] == text.splitlines()
        assert run(text=text) == text
