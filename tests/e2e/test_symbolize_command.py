# SPDX-License-Identifier: Apache-2.0
"""lode symbolize: by build ID, of a process, of the kernel, in crash text; and its cache."""

import json
import os
import pathlib
import re
import shutil
import struct
import struct
import subprocess
import time
import zlib

import pytest

from conftest import LODE, build_id
from test_symbolize import Built, built  # noqa: F401

CRASH = r"""
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline __attribute__((always_inline)) void inner(char *p, int n)
{
	p[n] = 1; /* the bad line */
}

__attribute__((noinline)) void outer(char *p, int n)
{
	inner(p, n);
	__asm__("");
}

__attribute__((noinline)) void trace(void)
{
	void *list[10];

	backtrace_symbols_fd(list, backtrace(list, 10), 1);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		printf("%p\n", (void *)outer);
		fflush(stdout);
		getchar();
		return 0;
	}
	trace();
	fflush(stdout);
#ifdef __SANITIZE_ADDRESS__
	outer(malloc(5), 5);
#endif
	return 0;
}
"""


@pytest.fixture
def run(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    env.update(XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path / "home"))

    def call(*args, text=None, status=0, extra=None):
        r = subprocess.run([LODE, "symbolize", *map(str, args)], input=text, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL if text is None else None, env={**env, **(extra or {})})
        assert r.returncode == status, (r.returncode, r.stderr, r.stdout)
        return r.stdout if status == 0 else r.stderr

    return call


def program(tmp_path, *flags):
    (tmp_path / "crash.c").write_text(CRASH)
    subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id=sha1", *flags, "-o", "crash", "crash.c"], cwd=tmp_path, check=True)
    return tmp_path / "crash"


def line_of(text):
    return next(i for i, l in enumerate(CRASH.splitlines(), 1) if text in l)


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


@pytest.mark.slow
def test_members_of_archives_and_files_that_are_not_elf(run, tmp_path):
    import zipfile
    (tmp_path / "m.c").write_text("int sq(int x) { return x * x; }\n")
    subprocess.run("gcc -g -c m.c -o m.o && ar rcs libm.a m.o && gcc -g -shared -fPIC m.c -o m.so", shell=True, cwd=tmp_path, check=True)
    with zipfile.ZipFile(tmp_path / "m.apk", "w") as z:
        z.write(tmp_path / "m.so", "lib/x/m.so", zipfile.ZIP_DEFLATED)
        z.write(tmp_path / "m.so", "stored.so", zipfile.ZIP_STORED)
        z.writestr("bomb", bytes(150 << 20), zipfile.ZIP_DEFLATED)
        z.writestr("text", "hello")
    addr = "0x" + subprocess.run(["nm", tmp_path / "m.so"], capture_output=True, text=True).stdout.split(" T sq")[0].split()[-1]
    assert "sq  " in run("-e", f"{tmp_path}/libm.a:m.o", "0x2")
    assert "sq  " in run("-e", f"{tmp_path}/m.apk!lib/x/m.so", addr)
    assert "sq  " in run("-e", f"{tmp_path}/m.apk:stored.so", addr)
    assert "no such member; the archive has lib/x/m.so" in run("-e", f"{tmp_path}/m.apk!nom.so", addr, status=1)
    assert "bytes allowed" in run("-e", f"{tmp_path}/m.apk!bomb", addr, status=1)
    assert "a text file" in run("-e", f"{tmp_path}/m.apk!text", addr, status=1)
    assert "ARCHIVE:MEMBER" in run("-e", f"{tmp_path}/libm.a", addr, status=1)
    assert "no such file" in run("-e", f"{tmp_path}/none:m.o", addr, status=1)


def write_zip(path, name, content, method, packed, align=1):
    """One member; @align: that of its content, as APKs have it for libraries that are mapped from the archive."""
    pad = -(30 + len(name) + 4) % align
    extra = struct.pack("<HH", 0xd935, pad) + bytes(pad)
    sizes = (zlib.crc32(content), len(packed), len(content), len(name))
    head = struct.pack("<IHHHHHIIIHH", 0x04034b50, 63, 0, method, 0, 0x21, *sizes, len(extra)) + name.encode() + extra
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 63, 63, 0, method, 0, 0x21, *sizes, 0, 0, 0, 0, 0, 0) + name.encode()
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 1, 1, len(entry), len(head) + len(packed), 0)
    path.write_bytes(head + packed + entry + end)


def test_members_of_archives_are_split(tmp_path):
    """As the files themselves: of an ar, a zip with zstd (method 93), zip64, an APK with aligned libraries, archives in archives."""
    import tarfile
    import zipfile
    (tmp_path / "m.c").write_text("int sq(int x) { return x * x; }\n")
    subprocess.run("gcc -g -shared -fPIC m.c -o m.so && gcc -g -c m.c -o m.o && ar rcs libm.a m.o", shell=True, cwd=tmp_path, check=True)
    so = (tmp_path / "m.so").read_bytes()
    packed = subprocess.run(["zstd", "-c"], input=so, capture_output=True, check=True).stdout
    write_zip(tmp_path / "zstd.zip", "lib/m.so", so, 93, packed)
    write_zip(tmp_path / "m.apk", "lib/arm64-v8a/m.so", so, 0, so, 4096)
    with zipfile.ZipFile(tmp_path / "far.zip", "w") as z, z.open("m.so", "w", force_zip64=True) as f:
        f.write(so)
    with tarfile.open(tmp_path / "m.tar.xz", "w:xz") as t:
        t.add(tmp_path / "libm.a", "lib/libm.a")
    lode = lambda *args: subprocess.run([LODE, "split", *map(str, args)], capture_output=True, text=True, cwd=tmp_path)
    members = {"m.so": ("zstd.zip!lib/m.so", "m.apk!lib/arm64-v8a/m.so", "far.zip:m.so"), "m.o": ("libm.a:m.o", "m.tar.xz!lib/libm.a:m.o")}
    for name, of in members.items():
        assert lode("-o", "want", "--debug-file", "x.debug", name).returncode == 0
        for member in of:
            r = lode("-o", "got", "--debug-file", "y.debug", member)
            assert r.returncode == 0, (member, r.stderr)
            assert (tmp_path / "y.debug").read_bytes() == (tmp_path / "x.debug").read_bytes()
            assert (tmp_path / "got").read_bytes() == (tmp_path / "want").read_bytes().replace(b"x.debug", b"y.debug"), member
            assert bool((tmp_path / "got").stat().st_mode & 0o111) == (name == "m.so")
    assert "give the path of the stripped file by -o" in lode("m.apk!lib/arm64-v8a/m.so").stderr
    for archive in "-o ./m.apk --debug-file z", "-o got --debug-file m.apk":
        assert "the archive itself would be replaced" in lode(*archive.split(), "m.apk!lib/arm64-v8a/m.so").stderr
    assert (tmp_path / "m.apk").read_bytes()[:2] == b"PK"
    assert "no such member; the archive has m.o" in lode("-o", "got", "libm.a:n.o").stderr
    assert "name a member of it" in lode("-o", "got", "libm.a").stderr
    assert "a text file, which has no members" in lode("-o", "got", "m.c:m.o").stderr
    assert (tmp_path / "m.so").read_bytes() == so


def test_members_of_packages_in_all_commands(run, tmp_path, serve):
    import tarfile
    (tmp_path / "m.c").write_text("int sq(int x) { return x * x; }\n")
    subprocess.run("gcc -g -shared -fPIC -Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567 m.c -o m.so && gcc -g -c m.c -o m.o && ar rcs libm.a m.o",
                   shell=True, cwd=tmp_path, check=True)
    with tarfile.open(tmp_path / "m.tar.xz", "w:xz") as t:
        for name in ("m.so", "libm.a"):
            t.add(tmp_path / name, "usr/lib/" + name)
    so, inner = f"{tmp_path}/m.tar.xz!usr/lib/m.so", f"{tmp_path}/m.tar.xz!usr/lib/libm.a:m.o"
    addr = "0x" + subprocess.run(["nm", tmp_path / "m.so"], capture_output=True, text=True).stdout.split(" T sq")[0].split()[-1]
    build_id = "0123456789abcdef0123456789abcdef01234567"
    assert "sq  " in run("-e", so, addr) and "sq  " in run("-e", inner, "0x2")
    lode = lambda *args: subprocess.run([LODE, *map(str, args)], capture_output=True, text=True)
    assert lode("inspect", "--build-id", so).stdout.strip() == build_id
    assert "relocatable" in lode("inspect", inner).stdout
    assert "m.so" in lode("inspect", f"{tmp_path}/m.tar.xz!usr/lib/M.so").stderr
    assert lode("find", "--local", so).stdout.strip().endswith(so)
    assert "libm.a" in lode("find", "--local", f"{tmp_path}/m.tar.xz!libm.a").stderr
    service = serve([])
    r = lode("push", "--to", service.url, so)
    assert r.returncode == 0, r.stderr
    assert service.get(f"/buildid/{build_id}/debuginfo").body == (tmp_path / "m.so").read_bytes()


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
    other = tmp_path / "none"
    assert run("-e", exe, main, extra={"LODE_SYMTAB_CACHE": ""}) == first
    copy = tmp_path / "copy"
    shutil.copy(exe, copy)
    run("-e", copy, text=main + "\n")
    assert len(list(folder.glob("*.symtab"))) == 2 and not other.exists()


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
