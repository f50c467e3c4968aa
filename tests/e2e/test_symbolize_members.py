# SPDX-License-Identifier: Apache-2.0
"""lode symbolize, and other commands: members of archives and packages, and files that are not ELF."""

import struct
import subprocess
import zlib

import pytest

from conftest import LODE, build_id
from symbolizing import run  # noqa: F401


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


def test_objects_without_machine_code_and_folders_are_named(run, tmp_path):
    """GCC's slim objects have no symbols, so no server is advised; a fat one without functions is no such object."""
    (tmp_path / "m.c").write_text("int sq(int x) { return x * x; }\n")
    (tmp_path / "d.c").write_text("int data = 1;\n")
    subprocess.run("gcc -g -flto -fno-fat-lto-objects -c m.c -o slim.o && ar rcs libm.a slim.o && "
                   "gcc -flto -ffat-lto-objects -c m.c -o fat.o && gcc -flto -ffat-lto-objects -c d.c", shell=True, cwd=tmp_path, check=True)
    slim = "an object file of GCC's -flto, which has no machine code: name the program that is linked of it"
    for path in ("slim.o", "libm.a:slim.o"):
        r = subprocess.run([LODE, "symbolize", "-e", path, "0"], capture_output=True, text=True, cwd=tmp_path)
        assert r.returncode == 1 and slim in r.stderr and "server" not in r.stderr, r.stderr
    r = subprocess.run([LODE, "symtab", "build", "slim.o", "-o", "out"], capture_output=True, text=True, cwd=tmp_path)
    assert r.returncode == 1 and slim in r.stderr
    assert "sq  " in run("-e", tmp_path / "fat.o", "2")
    assert slim not in run("-e", tmp_path / "d.o", "0", status=1)
    (tmp_path / "x.dSYM").mkdir()
    for path, says in (("x.dSYM", "a .dSYM folder, debug information of Apple's systems"), (".", "a folder: name a file in it")):
        r = subprocess.run([LODE, "split", path], capture_output=True, text=True, cwd=tmp_path)
        assert r.returncode == 1 and r.stderr.startswith(f"lode: split: {path}: {says}"), r.stderr


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
