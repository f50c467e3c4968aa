# SPDX-License-Identifier: Apache-2.0
"""lode symbolize --pid: what a process has mapped."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import LODE
from symbolizing import run, program, line_of  # noqa: F401


def test_addresses_of_a_process(run, tmp_path):
    exe = program(tmp_path, "-fPIE", "-pie")
    p = subprocess.Popen([str(exe), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        addr = p.stdout.readline().strip()
        out = run("--pid", p.pid, addr)
        assert re.search(r"^  outer  \S*crash\.c:%d" % line_of("outer(char"), out, re.M) or "  inner  " in out
        # The offset in the function is right, although file addresses differ.
        assert int(re.match(r"0x[0-9a-f]+  \+(0x[0-9a-f]+)$", out.splitlines()[0])[1], 16) < 0x1000
        assert "outer" in run("--pid", p.pid, text=addr + "\n")
        run("--pid", p.pid, "0x1", status=1)
    finally:
        p.communicate("\n")
    assert "no process" in run("--pid", "999999999", "0x1", status=1)


PLUGINS = r"""
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *first = dlopen(argv[1], RTLD_NOW), *second;

	printf("%p\n", dlsym(first, "first"));
	rename(argv[2], argv[1]);
	second = dlopen(argv[3], RTLD_NOW); /* the same path by another name */
	printf("%p\n", dlsym(second, "second"));
	fflush(stdout);
	getchar();
	return 0;
}
"""


def test_a_file_that_was_replaced_while_it_was_mapped(run, tmp_path):
    """Both files are mapped, under one path: each address has the name of its own file, or none."""
    (tmp_path / "p.c").write_text(PLUGINS)
    (tmp_path / "one.c").write_text("int first(void) { return 1; }\n")
    (tmp_path / "two.c").write_text("int other(int n) { return n * 7; }\nint more(int n) { return n * 9; }\nint second(void) { return 2; }\n")
    subprocess.run(["gcc", "-g", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    for name in ("one", "two"):
        subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", f"{name}.so", f"{name}.c"], cwd=tmp_path, check=True)
    p = subprocess.Popen(["./p", "./one.so", "two.so", f"{tmp_path}/one.so"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        first, second = p.stdout.readline().strip(), p.stdout.readline().strip()
        assert "  second  " in run("--pid", p.pid, second)
        if os.geteuid() == 0:
            assert "  first  " in run("--pid", p.pid, first)
        else:
            assert "was replaced or deleted" in run("--pid", p.pid, first, status=1)
    finally:
        p.communicate("\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_file_of_another_mount_namespace_with_the_same_inode(run, tmp_path):
    (tmp_path / "m").mkdir()
    for name in ("mine", "theirs"):
        (tmp_path / f"{name}.c").write_text(
            f'#include <stdio.h>\nint {name}(void) {{ return 1; }}\n'
            f'int main(void) {{ printf("%p\\n", (void *){name}); fflush(stdout); return getchar(); }}\n')
        subprocess.run(["gcc", "-g", "-o", name, f"{name}.c"], cwd=tmp_path, check=True)
    mount = "mount -t tmpfs none m && cp {} m/prog && exec {}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount.format("mine", "true")], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("no mounts here")
    p = subprocess.Popen(["unshare", "-m", "sh", "-c", mount.format("theirs", f"{tmp_path}/m/prog")], cwd=tmp_path, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        addr = p.stdout.readline().strip()
        inside = subprocess.run(["unshare", "-m", "sh", "-c", mount.format("mine", '"$@"'), "sh", LODE, "symbolize", "--pid", str(p.pid), addr],
                                cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "DEBUGINFOD_URLS": ""})
        assert "  theirs  " in inside.stdout, inside
    finally:
        p.communicate("\n")


def test_the_vdso_and_code_that_a_process_made(run, tmp_path):
    p = subprocess.Popen(["sleep", "60"])
    made = pathlib.Path(f"/tmp/perf-{p.pid}.map")
    try:
        maps = ""
        while "bin/sleep" not in maps or "[heap]" not in maps:
            maps = pathlib.Path(f"/proc/{p.pid}/maps").read_text()
        start, end = [int(x, 16) for x in re.search(r"^(\w+)-(\w+) .*\[vdso\]$", maps, re.M).groups()]
        heap = [int(x, 16) for x in re.search(r"^(\w+)-(\w+) .*\[heap\]$", maps, re.M).groups()]
        # The oracle reads the vDSO of this process, which is the same one.
        own = re.search(r"^(\w+)-(\w+) .*\[vdso\]$", pathlib.Path("/proc/self/maps").read_text(), re.M).groups()
        with open("/proc/self/mem", "rb") as f:
            f.seek(int(own[0], 16))
            (tmp_path / "vdso").write_bytes(f.read(end - start))
        symbols = re.findall(r"^(\w+) (\w+) [TWi] (\w+)", subprocess.run(
            ["nm", "-D", "-S", "--defined-only", tmp_path / "vdso"], capture_output=True, text=True, check=True).stdout, re.M)
        assert symbols
        for at, size, _ in symbols:
            names = {n for a, z, n in symbols if int(a, 16) <= int(at, 16) < int(a, 16) + int(z, 16)}
            out = run("--pid", p.pid, hex(start + int(at, 16)))
            assert re.search(r"^  (\w+)", out, re.M)[1] in names, out
        made.write_text(f"{heap[0]:x} 20 jit one(\x1b[31m)\nnonsense\n{heap[0] + 0x20:x} zz bad\n0x{heap[0] + 0x40:x} 0x10 two\n")
        out = run("--pid", p.pid, hex(heap[0] + 0x1f))
        assert "jit one(?[31m)" in out and "\x1b" not in out
        assert "two" in run("--pid", p.pid, hex(heap[0] + 0x40))
        run("--pid", p.pid, hex(heap[0] + 0x20), status=1)
        made.unlink()
        made.symlink_to("/etc/passwd")
        run("--pid", p.pid, hex(heap[0]), status=1)
        made.unlink()
        if os.geteuid() == 0:
            made.write_text(f"{heap[0]:x} 20 evil\n")
            os.chown(made, 12345, 12345)
            assert "belongs to user 12345" in run("--pid", p.pid, hex(heap[0]), status=1)
    finally:
        made.unlink(missing_ok=True)
        p.kill()
        p.wait()
