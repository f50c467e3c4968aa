# SPDX-License-Identifier: Apache-2.0
"""Damage and malice from outside, against a real service: packages, files, the disk, HTTP. Whatever comes in, no full answer is wrong, the
reason is told, and the service goes on."""

import bz2
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import tarfile
import time

import pytest

from conftest import LODE, Program, make_rpm

NOISE = 3_000_000  # of a debug file: more than any buffer between decoder and client


# ---- making things ----

def new_id(*what):
    return hashlib.sha1(repr(what).encode()).hexdigest()


class Elf:
    """A program and its debug file, from which others are made by another build ID."""

    def __init__(self, work):
        p = Program(work)
        noise = work / "noise"
        noise.write_bytes(random.Random(1).randbytes(NOISE))
        self.id, self.program, self.debug = p.build_id, p.binary.read_bytes(), p.debug.read_bytes()
        subprocess.run(["objcopy", "--add-section", f".noise={noise}", str(p.debug)], check=True)
        self.large = p.debug.read_bytes()

    def of(self, what, build_id):
        old = bytes.fromhex(self.id)
        assert what.count(old) == 1
        return what.replace(old, bytes.fromhex(build_id))


@pytest.fixture(scope="module")
def elf(tmp_path_factory):
    return Elf(tmp_path_factory.mktemp("elf"))


def tar_of(members, form=tarfile.GNU_FORMAT):
    """(name, content), or (name, type, target) of a link. Names may be bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as t:
        for name, *rest in members:
            info = tarfile.TarInfo(os.fsdecode(name))
            info.mode = 0o755
            if len(rest) == 2:
                info.type, info.linkname = rest[0], rest[1]
                t.addfile(info)
            else:
                info.size = len(rest[0])
                t.addfile(info, io.BytesIO(rest[0]))
    return out.getvalue()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-1", "--check", "-c"], input=data, capture_output=True, check=True).stdout


PACKERS = {"xz": lambda d: lzma.compress(d, preset=0), "gz": lambda d: gzip.compress(d, 1), "zst": zstd, "bz2": lambda d: bz2.compress(d, 1)}


def deb(packed, suffix, build_ids=(), name="x"):
    """A .deb around a data.tar that is packed already."""
    control = f"Package: {name}\nVersion: 1\nArchitecture: amd64\nDescription: x\n"
    if build_ids:
        control += f"Build-Ids: {' '.join(build_ids)}\n"
    out = b"!<arch>\n"
    for member, data in (("debian-binary", b"2.0\n"), ("control.tar.gz", gzip.compress(tar_of([("./control", control.encode())]))),
                         (f"data.tar.{suffix}" if suffix else "data.tar", packed)):
        out += f"{member:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def debug_path(build_id):
    return f"./usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


def debug_deb(suffix, build_id, debug):
    return deb(PACKERS[suffix](tar_of([(debug_path(build_id), debug)])), suffix, [build_id])


# ---- asking ----

def fetch(s, path, headers=None):
    """Status, body, and whether all of it came."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    try:
        c.request("GET", path, headers=headers or {})
        r = c.getresponse()
        try:
            return r.status, r.read(), True
        except (http.client.IncompleteRead, ConnectionError) as e:
            return r.status, getattr(e, "partial", b""), False
    finally:
        c.close()


def fetch_right(s, path, truth):
    """The answer may be none or be cut, but never be wrong. Its status."""
    status, body, whole = fetch(s, path)
    if status == 200:
        assert body == truth if whole else truth.startswith(body), path
    else:
        assert status in (404, 500, 503) and whole and body.endswith(b"\n"), (path, status, body)
    return status if whole else "cut"


def raw(s, data, timeout=10):
    """Everything that comes back until the other side closes."""
    out = b""
    with socket.create_connection(("127.0.0.1", s.port), timeout=timeout) as k:
        try:
            k.sendall(data)
            while piece := k.recv(65536):
                out += piece
        except ConnectionError:
            pass
    return out


def healthy(s):
    assert s.proc.poll() is None, s.log_path.read_text()[-4000:]
    assert s.get("/healthz").status == 200


def stat(data):
    out = subprocess.run([LODE, "stat", "--json", "--data", str(data)], capture_output=True, check=True).stdout
    return json.loads(out)


def failures(s):
    return {pathlib.Path(f["path"]).name: f["reason"] for f in stat(s.data)["failures"]}


def told(s, name):
    """Failed: in `lode stat` and in the log, with one reason."""
    reason = failures(s)[name]
    assert reason and f"{name}: {reason}" in s.log_path.read_text(errors="replace"), (name, reason)
    return reason


def peak_mib(s):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{s.proc.pid}/status").read_text()).group(1)) >> 10


# ---- packages ----

@pytest.fixture
def pool(tmp_path):
    p = tmp_path / "pool"
    p.mkdir()
    return p


def test_packages_cut_anywhere(serve, elf, pool, tmp_path):
    truth = {}
    for suffix in PACKERS:
        for i in range(10):
            build_id = new_id("cut", suffix, i)
            truth[build_id] = elf.of(elf.debug, build_id)
            whole = debug_deb(suffix, build_id, truth[build_id])
            name = f"{suffix}{i}.deb" if suffix != "bz2" else f"{i}.tar.bz2"
            if suffix == "bz2":
                whole = PACKERS[suffix](tar_of([(debug_path(build_id), truth[build_id])]))
            (pool / name).write_bytes(whole[:len(whole) * i // 10 if i < 9 else len(whole) - 2])
    root = tmp_path / "root"
    (root / "usr/lib/debug").mkdir(parents=True)
    (root / "usr/lib/debug/x.debug").write_bytes(elf.debug)
    whole = make_rpm(root, tmp_path, tmp_path / "rpm", "w3.zstdio").read_bytes()
    truth[elf.id] = elf.debug
    for i in range(10):
        (pool / f"{i}.rpm").write_bytes(whole[:len(whole) * i // 10])
    n_cut = len(os.listdir(pool))
    good = new_id("cut", "good")
    (pool / "good.deb").write_bytes(debug_deb("xz", good, elf.of(elf.debug, good)))
    s = serve([pool]).scanned()
    for build_id, debug in truth.items():
        assert fetch_right(s, f"/buildid/{build_id}/debuginfo", debug) in (404, 500), build_id
        fetch_right(s, f"/buildid/{build_id}/section/.debug_info", b"")
    assert fetch_right(s, f"/buildid/{good}/debuginfo", elf.of(elf.debug, good)) == 200
    assert len(failures(s)) == n_cut and "good.deb" not in failures(s)
    for name in failures(s):
        told(s, name)
    healthy(s)


@pytest.mark.parametrize("args", [[], ["--header-only"]])
def test_bits_flipped_in_packages(serve, elf, pool, args):
    """Asked for at once: some are answered out of the running pass, which learns only at a block's end that it is damaged."""
    rng = random.Random(2)
    truth = {}
    for suffix in PACKERS:
        for i in range(8):
            build_id = new_id("flip", suffix, i, args)
            truth[build_id] = elf.of(elf.debug, build_id)
            content = bytearray(debug_deb(suffix, build_id, truth[build_id]))
            content[rng.randrange(len(content) // 5, len(content))] ^= 1 << rng.randrange(8)
            (pool / f"{suffix}{i}.deb").write_bytes(content)
    s = serve([pool], args=args).ready()
    seen = [fetch_right(s, f"/buildid/{build_id}/debuginfo", debug) for build_id, debug in truth.items()]
    assert seen.count(500) > len(seen) * 2 // 3
    if not args:
        s.scanned()
    for build_id, debug in truth.items():
        fetch_right(s, f"/buildid/{build_id}/debuginfo", debug)
    assert len(failures(s)) > len(truth) * 2 // 3
    for name in failures(s):
        told(s, name)
    healthy(s)


@pytest.mark.parametrize("payload", ["w3.zstdio", "w3.lzdio"])
def test_bits_flipped_where_the_compression_has_no_sums(serve, elf, pool, tmp_path, payload):
    """rpm's zstd has no check sums, and lzma never has; the header has a digest."""
    root = tmp_path / "root"
    (root / "usr/lib/debug").mkdir(parents=True)
    (root / "usr/lib/debug/x.debug").write_bytes(elf.large)
    whole = make_rpm(root, tmp_path, tmp_path / "rpm", payload).read_bytes()
    for i in range(5):
        content = bytearray(whole)
        content[len(whole) * (i + 4) // 10] ^= 8
        (pool / f"{i}.rpm").write_bytes(content)
    s = serve([pool]).scanned()
    assert fetch(s, f"/buildid/{elf.id}/debuginfo")[0] in (404, 500)
    assert len(failures(s)) == 5
    assert all("SHA-256" in told(s, f"{i}.rpm") for i in range(5))
    (pool / "good.rpm").write_bytes(whole)
    s.wait(lambda: fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.large, True), "the good one")
    healthy(s)


@pytest.mark.parametrize("suffix", ["xz", "zst", "gz", "none"])
def test_damage_behind_the_scan(serve, elf, pool, suffix):
    """The package is what it was by size, time and inode, but a bit of it has turned."""
    build_id = new_id("later", suffix)
    truth = elf.of(elf.large, build_id)
    path = pool / "x.tar"
    if suffix == "none":
        path.write_bytes(tar_of([(debug_path(build_id), truth)]))
    else:
        path = pool / "x.deb"
        path.write_bytes(debug_deb(suffix, build_id, truth))
    s = serve([pool], args=["--cache-size", "0", "--no-watch", "--rescan", "0"]).scanned()
    st = path.stat()
    with open(path, "r+b") as f:
        f.seek(st.st_size * 2 // 3)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 4]))
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    url = f"/buildid/{build_id}/debuginfo"
    if suffix == "none":
        # Nothing says what the bytes of a plain archive were: as with a plain file, what lies there is served.
        assert fetch(s, url)[0] == 200
    else:
        assert fetch_right(s, url, truth) == "cut"
        assert "replies are cut" in s.log_path.read_text()
        # What lies before the damage is as good as it was.
        status, body, _ = fetch(s, url, {"Range": "bytes=0-99999"})
        assert status == 206 and body == truth[:100000]
    healthy(s)


@pytest.mark.parametrize("change", ["truncate", "delete", "replace"])
def test_packages_change_while_they_are_read(serve, elf, pool, change):
    rng = random.Random(4)
    build_id = new_id("live", change)
    truth = elf.of(elf.large, build_id) + rng.randbytes(9_000_000)
    path = pool / "x.deb"
    path.write_bytes(debug_deb("gz", build_id, truth))
    s = serve([pool], args=["--cache-size", "0", "--no-watch", "--rescan", "0", "--memory-cache", "1M"]).scanned()
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as k:
        k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        got = k.recv(4096)
        if change == "truncate":
            os.truncate(path, path.stat().st_size // 10)
        elif change == "delete":
            path.unlink()
        else:
            other = new_id("live", "other")
            (pool / "new").write_bytes(debug_deb("gz", other, elf.of(elf.large, other)))
            (pool / "new").rename(path)
        with contextlib.suppress(ConnectionError):
            while piece := k.recv(1 << 20):
                got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and truth.startswith(body)
    # A file that has lost its name is still there for who has it open.
    assert (len(body) == len(truth)) == (change != "truncate")
    assert fetch_right(s, f"/buildid/{build_id}/debuginfo", truth) in (404, 500, 503)
    s.proc.send_signal(signal.SIGUSR1)
    s.proc.send_signal(signal.SIGUSR2)
    if change == "truncate":
        s.wait(lambda: "x.deb" in failures(s), "the failure to be told")
    if change == "delete":
        s.wait(lambda: stat(s.data)["packages"] == 0, "the package to go")
    if change == "replace":
        s.wait(lambda: fetch_right(s, f"/buildid/{other}/debuginfo", elf.of(elf.large, other)) == 200, "the new package")
    healthy(s)


def zero_frames(pack, size, unit=64 << 20):
    return pack(bytes(unit)) * (size // unit)


def test_bombs(serve, elf, pool):
    """10 GB of zeros in a member, a file that says it has 10 TB, a module that unpacks to more than any: bounded memory, and the rest is served."""
    good = new_id("bomb", "good")
    head = tarfile.TarInfo("./usr/lib/zeros")
    head.size = 10 << 30
    (pool / "zeros.deb").write_bytes(deb(zstd(head.tobuf(tarfile.GNU_FORMAT)) + zero_frames(zstd, 10 << 30) + zstd(bytes(1024)), "zst"))
    head.size = 256 << 20
    (pool / "xz.deb").write_bytes(deb(lzma.compress(head.tobuf(tarfile.GNU_FORMAT)) +
                                      zero_frames(lambda d: lzma.compress(d, preset=0), 256 << 20) + lzma.compress(bytes(1024)), "xz"))
    # What is said to follow does not.
    head.size = 10 << 40
    (pool / "lies.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    sparse = tarfile.TarInfo("./usr/lib/sparse")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "usr/lib/sparse", "GNU.sparse.realsize": str(10 << 40)}
    sparse.size = 512
    (pool / "sparse.tar").write_bytes(sparse.tobuf(tarfile.PAX_FORMAT) + b"1\n0\n1\n".ljust(512, b"\0") + bytes(1024))
    module = zero_frames(lambda d: lzma.compress(d, preset=0), 768 << 20)
    (pool / "module.deb").write_bytes(deb(zstd(tar_of([("./lib/modules/x.ko.xz", module), (debug_path(good), elf.of(elf.debug, good))])), "zst"))
    # A package in a package is a file like any other.
    (pool / "nested.tar").write_bytes(tar_of([("a.deb", (pool / "xz.deb").read_bytes()), ("b.tar.gz", gzip.compress(bytes(1 << 20)))]))
    s = serve([pool], args=["--scan-threads", "2"]).ready()
    slowest = 0
    while s.metric("lode_scan_idle") != 1:
        began = time.monotonic()
        assert s.get("/healthz").status == 200
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.05)
        assert time.monotonic() < began + 60
    assert slowest < 1
    assert fetch_right(s, f"/buildid/{good}/debuginfo", elf.of(elf.debug, good)) == 200
    assert set(failures(s)) == {"lies.tar", "sparse.tar"}, failures(s)
    assert sum(f.stat().st_size for f in s.data.rglob("*") if f.is_file()) < 32 << 20
    assert peak_mib(s) < 800
    healthy(s)


def test_names_and_links(serve, elf, pool, tmp_path):
    """Names that lead elsewhere are not taken; all others are bytes, and are served as what they are."""
    source = b"int main;\n"
    names = {
        "up": b"../../../../etc/up", "middle": b"./usr/../../../etc/middle", "absolute": b"/usr/lib/absolute", "bytes": b"./usr/lib/\xff\xc3(\x80",
        "newline": b"./usr/lib/a\nX-Evil: yes\r\n", "long": b"./usr/" + b"d" * 200 + b"/" + b"l" * 3000, "dots": b"./usr/lib/...", "blank": b"./usr/lib/ ",
    }
    ids = {what: new_id("name", what) for what in names}
    members = [(name, elf.of(elf.program, ids[what])) for what, name in names.items()]
    members += [("./src/a", tarfile.SYMTYPE, "b"), ("./src/b", tarfile.SYMTYPE, "a"), ("./src/self", tarfile.SYMTYPE, "self/self"),
                ("./src/up", tarfile.SYMTYPE, "../../../../etc"), ("./src/dir", tarfile.SYMTYPE, "."), ("./src/real.c", source),
                ("./src/hard.c", tarfile.LNKTYPE, "./src/real.c"), ("./src/hard", tarfile.LNKTYPE, "./src/hard"),
                ("./src/h1", tarfile.LNKTYPE, "./src/h2"), ("./src/h2", tarfile.LNKTYPE, "./src/h1")]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        (pool / f"names{form}.deb").write_bytes(deb(PACKERS["gz"](tar_of(members, form)), "gz", ids.values()))
    # On disk: links in a circle, and a folder that is in itself.
    (pool / "d").mkdir()
    (pool / "d/loop").symlink_to("..")
    (pool / "one").symlink_to("two")
    (pool / "two").symlink_to("one")
    (pool / "nowhere").symlink_to("/nonexistent")
    os.mkfifo(pool / "fifo.deb")
    s = serve([pool], args=["--follow-links"]).scanned()
    for what in names:
        want = 404 if what in ("up", "middle") else 200
        assert fetch_right(s, f"/buildid/{ids[what]}/executable", elf.of(elf.program, ids[what])) == want, what
    reply = s.get(f"/buildid/{ids['newline']}/executable")
    assert "X-Evil" not in reply.headers
    assert s.get(f"/buildid/{ids['absolute']}/executable").headers["X-DEBUGINFOD-FILE"] == "/usr/lib/absolute"
    for path, want in (("real.c", 200), ("hard.c", 200), ("dir/../real.c", 200), ("a", 404), ("self", 404), ("up/passwd", 404), ("hard", 404),
                       ("h1", 404), ("h2", 404), ("../../../etc/passwd", 404)):
        assert fetch_right(s, f"/buildid/{ids['dots']}/source/src/{path}", source) == want, path
    for key, value in (("glob", "/usr/lib/*"), ("file", "/usr/lib/%ff%c3(%80"), ("buildid", ids["newline"])):
        found = json.loads(s.get(f"/metadata?key={key}&value={value}").body)
        assert found["complete"] and found["results"], value
    assert not [p for p in ("/etc/up", "/etc/middle") if os.path.exists(p)]
    healthy(s)


def test_a_request_does_not_tell_which_files_exist(serve, tmp_path):
    """Sources lie on disk, and any path can be asked for: that a file is there must not show unless it is served."""
    p = Program(tmp_path / "p", source_dir=str(tmp_path / "p"))
    (tmp_path / "p/other.c").write_text("other")
    s = serve([tmp_path / "p"]).scanned()
    assert fetch(s, f"/buildid/{p.build_id}/source{p.source}")[0] == 200
    answers = {fetch(s, f"/buildid/{p.build_id}/source{path}") for path in ("/etc/passwd", "/etc/none", "/etc", "/proc/1/environ", tmp_path / "p/other.c",
                                                                         tmp_path / "p/none.c", "/README.md", "/none.md")}
    assert len(answers) == 1 and answers.pop()[0] == 404


def patched(data, off, form, *values):
    out = bytearray(data)
    struct.pack_into(form, out, off, *values)
    return bytes(out)


def test_elf_files_that_lie(serve, elf, tmp_path):
    """Tables that are gigantic, overlap each other or lie outside of the file; also behind the scan."""
    d = tmp_path / "elf"
    d.mkdir()
    shoff, = struct.unpack_from("<Q", elf.debug, 0x28)
    shnum, = struct.unpack_from("<H", elf.debug, 0x3c)
    lies = {
        "shoff": (0x28, "<Q", 1 << 62), "shoff-end": (0x28, "<Q", len(elf.debug) - 1), "shnum": (0x3c, "<H", 0xfffe), "names": (0x3e, "<H", 0xfff0),
        "shentsize": (0x3a, "<H", 1), "phoff": (0x20, "<Q", 1 << 63), "phnum": (0x38, "<H", 0xfffe), "phentsize": (0x36, "<H", 3),
        "type": (0x10, "<H", 0xffff), "huge": (shoff + 0x20, "<Q", 1 << 40),
        # Every section is all of the file, or more than that.
        **{f"size{i}": (shoff + 64 * i + 0x20, "<Q", 1 << 63) for i in range(1, shnum)},
        **{f"all{i}": (shoff + 64 * i + 0x18, "<QQ", 0, len(elf.debug)) for i in range(1, shnum)},
        **{f"packed{i}": (shoff + 64 * i + 0x8, "<Q", 0x800) for i in range(1, shnum)},
    }
    files = {}
    for what, (off, form, *values) in lies.items():
        build_id = new_id("lie", what)
        files[build_id] = patched(elf.of(elf.debug, build_id), off, form, *values)
        (d / what).write_bytes(files[build_id])
    # Extended numbering: a number of sections that no file has.
    build_id = new_id("lie", "extended")
    files[build_id] = patched(patched(elf.of(elf.debug, build_id), 0x3c, "<H", 0), shoff + 0x20, "<Q", 1 << 60)
    (d / "extended").write_bytes(files[build_id])
    (d / "head").write_bytes(elf.debug[:60])
    (d / "sparse").write_bytes(elf.of(elf.debug, new_id("lie", "sparse")))
    os.truncate(d / "sparse", 1 << 40)
    s = serve([d]).scanned()
    for build_id, content in files.items():
        fetch_right(s, f"/buildid/{build_id}/debuginfo", content)
        for section in (".debug_info", ".debug_line", ".symtab", "%ff", ".shstrtab"):
            status, body, whole = fetch(s, f"/buildid/{build_id}/section/{section}")
            assert whole and (status in (404, 500) or (status == 200 and body in content)), (section, status)
        assert fetch(s, f"/buildid/{build_id}/source/etc/passwd")[0] in (404, 500)
    # Half a TB of hole is a file like any other, to whoever wants it.
    assert s.get(f"/buildid/{new_id('lie', 'sparse')}/debuginfo", "HEAD").headers["Content-Length"] == str(1 << 40)
    told(s, "head")
    told(s, "shoff")
    healthy(s)


# ---- the disk, and what lies there ----

@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk(serve, elf, pool, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "lode-test", str(small)], capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    s = None
    try:
        first, second = new_id("full", 1), new_id("full", 2)
        (pool / "first.deb").write_bytes(debug_deb("xz", first, elf.of(elf.debug, first)))
        s = serve([pool], data=small / "data", args=["--cache-size", "1G"]).scanned()
        filler = os.open(small / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)
        (pool / "second.deb").write_bytes(debug_deb("gz", second, elf.of(elf.large, second)))
        s.wait(lambda: "full" in s.log_path.read_text(), "the full disk to be told")
        for _ in range(3):
            assert fetch_right(s, f"/buildid/{first}/debuginfo", elf.of(elf.debug, first)) == 200
            fetch_right(s, f"/buildid/{second}/debuginfo", elf.of(elf.large, second))
        healthy(s)
        (small / "filler").unlink()
        s.proc.send_signal(signal.SIGUSR1)
        s.wait(lambda: fetch_right(s, f"/buildid/{second}/debuginfo", elf.of(elf.large, second)) == 200, "the second package")
        assert fetch_right(s, f"/buildid/{first}/debuginfo", elf.of(elf.debug, first)) == 200
        assert s.stop() == 0
        assert sqlite3.connect(small / "data/index.sqlite").execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    finally:
        if s:
            s.stop()
        subprocess.run(["umount", "-l", str(small)])


def test_files_may_not_grow(serve, elf, pool, tmp_path):
    """A limit on file sizes instead of a full disk: it comes with a signal, by which nobody may die."""
    first, second = new_id("fsize", 1), new_id("fsize", 2)
    (pool / "first.deb").write_bytes(debug_deb("xz", first, elf.of(elf.large, first)))
    s = serve([pool], args=["--cache-size", "1G"]).scanned()
    # Of the log too, so that it fails; what is there can still be asked for.
    subprocess.run(["prlimit", "--pid", str(s.proc.pid), "--fsize=1024:"], check=True)
    (pool / "second.deb").write_bytes(debug_deb("gz", second, elf.of(elf.large, second)))
    s.proc.send_signal(signal.SIGUSR1)
    for _ in range(3):
        assert fetch_right(s, f"/buildid/{first}/debuginfo", elf.of(elf.large, first)) == 200
        fetch_right(s, f"/buildid/{second}/debuginfo", elf.of(elf.large, second))
        time.sleep(0.1)
    healthy(s)
    subprocess.run(["prlimit", "--pid", str(s.proc.pid), "--fsize=unlimited"], check=True)
    s.proc.send_signal(signal.SIGUSR1)
    s.wait(lambda: fetch_right(s, f"/buildid/{second}/debuginfo", elf.of(elf.large, second)) == 200, "the second package")


def test_a_database_that_is_none_of_ours(elf, tmp_path):
    """Of a newer version, of another program, nonsense: said, exit status 1, and not a byte of it changed."""
    def runs(data):
        before = (data / "index.sqlite").read_bytes()
        for command in (["serve", "--listen", "127.0.0.1:0"], ["scan"], ["stat"]):
            r = subprocess.run([LODE, *command, "--data", str(data), *(["/usr/bin/true"] if command != ["stat"] else [])], capture_output=True,
                               text=True, timeout=30)
            assert r.returncode == 1 and str(data / "index.sqlite") in r.stderr, (command, r.stderr)
            assert (data / "index.sqlite").read_bytes() == before, command
            yield r.stderr
    newer = tmp_path / "newer"
    subprocess.run([LODE, "scan", "--data", str(newer), "/usr/bin/true"], check=True, capture_output=True)
    with contextlib.closing(sqlite3.connect(newer / "index.sqlite")) as db:
        db.execute("PRAGMA user_version = 4711")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert all("newer lode" in text and "4711" in text for text in runs(newer))
    for name, sql in (("other", "PRAGMA application_id = 1; CREATE TABLE t(x); INSERT INTO t VALUES('mine')"), ("nobody's", "CREATE TABLE t(x)")):
        other = tmp_path / name
        other.mkdir()
        with contextlib.closing(sqlite3.connect(other / "index.sqlite")) as db:
            db.executescript(sql)
        assert all("another program" in text for text in runs(other))
    nonsense = tmp_path / "nonsense"
    nonsense.mkdir()
    (nonsense / "index.sqlite").write_bytes(b"nonsense" * 1000)
    assert all("not a database" in text for text in runs(nonsense))


# ---- HTTP ----

BASH = pathlib.Path("/usr/bin/bash")
END = b"Host: x\r\nConnection: close\r\n\r\n"


def status_of(reply):
    m = re.match(rb"HTTP/1\.[01] (\d\d\d) ", reply)
    return int(m.group(1)) if m else None


def test_requests_that_nobody_should_send(serve):
    s = serve([BASH]).ready()
    cases = {
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + END: 414,
        b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(10_000)) + END: 431,
        b"GET /healthz HTTP/1.1\r\nX-Long: " + b"a" * 100_000 + b"\r\n" + END: 431,
        b"GET /buildid/00/source/%zz HTTP/1.1\r\n" + END: 400,
        b"GET /buildid/00/source/a%00b HTTP/1.1\r\n" + END: 400,
        b"GET /buildid/00/source/% HTTP/1.1\r\n" + END: 400,
        b"GET /metadata?key=file&value=%zz HTTP/1.1\r\n" + END: 400,
        b"GET /metadata?key=file HTTP/1.1\r\n" + END: 400,
        b"GET /metadata?key=glob&value=" + b"*" * 5000 + b" HTTP/1.1\r\n" + END: 400,
        b"GET http://example.com/healthz HTTP/1.1\r\n" + END: 200,
        b"GET HTTP://example.com:99/buildid/zz/debuginfo HTTP/1.1\r\n" + END: 400,
        b"GET /healthz HTTP/1.0\r\n\r\n": 200,
        b"GET /healthz\r\n\r\n": 400,
        b"GET /healthz HTTP/2.0\r\n" + END: 505,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 505,
        b"GET /../../etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /web/../../etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /web/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /web//etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /heal\x01thz HTTP/1.1\r\n" + END: 404,
        b"GET /\xff\xfe HTTP/1.1\r\n" + END: 404,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + bytes(200): None,
        b"GET /healthz HTTP/1.1\r\nno colon\r\n" + END: 400,
        b"GET /healthz HTTP/1.1\r\nContent-Length: -5\r\n" + END: 400,
        b"POST /healthz HTTP/1.1\r\nContent-Length: 1000000000\r\n" + END: 405,
    }
    for request, want in cases.items():
        assert status_of(raw(s, request)) == want, request[:80]
    # What follows a body that two headers bound differently is none of the connection's requests.
    smuggled = raw(s, b"GET /healthz HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + END + b"0\r\n\r\nGET /metrics HTTP/1.1\r\n" + END)
    assert b"lode_" not in smuggled
    for method in (b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"CONNECT", b"OPTIONS", b"BREW", b"get", b"HEADS"):
        reply = raw(s, method + b" /healthz HTTP/1.1\r\n" + END)
        assert status_of(reply) == 405 and b"\r\nAllow: GET, HEAD\r\n" in reply, method
    pipelined = raw(s, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 50 + b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /readyz HTTP/1.1\r\n" + END)
    assert len(re.findall(rb"HTTP/1\.1 200 OK", pipelined)) == 52 and pipelined.endswith(b"\r\n\r\nok\n")
    healthy(s)


def test_head_says_what_get_says(serve, elf, pool):
    build_id = new_id("head")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.large, build_id)))
    s = serve([pool]).scanned()
    for path in (f"/buildid/{build_id}/debuginfo", f"/buildid/{build_id}/executable", f"/buildid/{build_id}/section/.debug_info",
                 f"/buildid/{build_id}/section/.none", f"/buildid/{build_id}/source/none", "/buildid/zz/debuginfo", "/healthz", "/readyz", "/",
                 "/web/app.js", "/web/none", f"/metadata?key=buildid&value={build_id}", "/metadata?key=x&value=y", "/none"):
        head, get = s.get(path, "HEAD"), s.get(path)
        assert (head.status, head.body) == (get.status, b""), path
        assert {k: v for k, v in head.headers.items() if k != "Date"} == {k: v for k, v in get.headers.items() if k != "Date"}, path
        assert int(head.headers["Content-Length"]) == len(get.body), path
    for path in ("/metrics", "/api/status", "/api/failures"):
        assert s.get(path, "HEAD").status == s.get(path).status == 200
    healthy(s)


def test_slow_and_broken_clients(serve, elf, pool):
    build_id = new_id("slow")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.large, build_id)))
    s = serve([pool], args=["--idle-timeout", "1"]).scanned()
    # A header's bytes, now and then: no silence, and no request either.
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", s.port), timeout=10) as k, contextlib.suppress(ConnectionError):
        k.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        k.settimeout(0.25)
        while time.monotonic() - began < 15:
            k.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                if not k.recv(1):
                    break
    assert 1 < time.monotonic() - began < 8
    # Those who go away in the midst of it.
    for cut in range(0, 60, 3):
        with socket.create_connection(("127.0.0.1", s.port)) as k:
            k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n".encode()[:cut])
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", s.port)) as k:
            k.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            k.recv(1000)
    # One that does not read, and is silent.
    with socket.create_connection(("127.0.0.1", s.port)) as k:
        k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 100)
        assert fetch_right(s, f"/buildid/{build_id}/debuginfo", elf.of(elf.large, build_id)) == 200
    s.wait(lambda: s.metric("lode_http_connections") <= 1 and s.metric("lode_http_waiting") in (0, 1), "all to be forgotten")
    healthy(s)


def test_limits(serve):
    s = serve([BASH], args=["--rate", "5", "--max-connections-per-ip", "6"])
    s.wait(lambda: s.get("/healthz").status == 200, "it to be up")
    replies = [s.get("/healthz") for _ in range(100)]
    refused = [r for r in replies if r.status == 429]
    assert refused and {r.status for r in replies} == {200, 429}
    assert refused[0].headers["Retry-After"] and b"too many" in refused[0].body
    time.sleep(1)
    assert s.get("/healthz").status == 200
    assert 'lode_http_refused_total{limit="rate"}' in s.get("/metrics").body.decode()
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(("127.0.0.1", s.port), timeout=5)) for _ in range(12)]
        time.sleep(0.3)
        alive = 0
        for k in socks:
            with contextlib.suppress(ConnectionError):
                k.sendall(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
                alive += bool(k.recv(100))
        assert 1 <= alive <= 6
    s.wait(lambda: s.get("/healthz").status == 200, "those that went to make room")


# ---- what the options promise ----

def test_archive_paths_can_be_hidden(serve, elf, pool):
    build_id, bad = new_id("hide"), new_id("hide", "bad")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.debug, build_id)))
    (pool / "bad.deb").write_bytes(debug_deb("xz", bad, elf.of(elf.debug, bad))[:-100])
    for args in ([], ["--archive-path=hide"]):
        s = serve([pool], args=args).scanned()
        paths = [f"/buildid/{build_id}/debuginfo", f"/buildid/{build_id}/executable", f"/buildid/{build_id}/section/.none",
                 f"/buildid/{build_id}/source/none.c", f"/buildid/{bad}/debuginfo", f"/metadata?key=buildid&value={build_id}", "/metadata?key=glob&value=/usr/*/*",
                 "/api/status", "/api/failures", "/", "/metrics"]
        shown = b"".join(repr((r.headers.items(), r.body)).encode() for r in map(s.get, paths))
        assert s.get(paths[0]).headers["X-DEBUGINFOD-ARCHIVE"] == (str(pool / "x.deb") if not args else "x.deb")
        assert (str(pool).encode() in shown) == (not args)
        s.stop()


def test_tls(serve, elf, pool, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    build_id = new_id("tls")
    truth = elf.of(elf.large, build_id)
    (pool / "x.deb").write_bytes(debug_deb("zst", build_id, truth))
    s = serve([pool], args=["--tls-cert", cert, "--tls-key", key])
    context = ssl.create_default_context(cafile=str(cert))

    def get(path):
        c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=30, context=context)
        try:
            c.request("GET", path)
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()
    s.wait(lambda: get("/readyz")[0] == 200, "ready")
    assert f"https://127.0.0.1:{s.port}" in s.log_path.read_text()
    for _ in range(3):
        assert get(f"/buildid/{build_id}/debuginfo") == (200, truth)
    # Plain HTTP, nonsense and silence at its port.
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(100), b""):
        with socket.create_connection(("127.0.0.1", s.port), timeout=5) as k:
            k.sendall(data)
    assert get("/healthz")[0] == 200
    assert s.stop() == 0
    for args in (["--tls-cert", cert], ["--tls-cert", key, "--tls-key", cert], ["--tls-cert", "/nonexistent", "--tls-key", key]):
        r = subprocess.run([LODE, "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), *map(str, args), str(pool)], capture_output=True, text=True,
                           timeout=30)
        assert r.returncode == 1 and re.search("^lode: serve: ", r.stderr, re.M), args


LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info  http: (\S+:\d+) UA:(\S*) XFF:(\S*) (\S+) (\S+) (\d+) (\d+) (\d+)ms( cut)?$")


def test_the_access_log_is_a_line_a_request(serve, elf, pool):
    build_id = new_id("log")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.debug, build_id)))
    s = serve([pool]).scanned()
    mark = len(s.log_path.read_text())
    url = f"/buildid/{build_id}/debuginfo"
    evil = "a b\tc\u00e9 UA:x GET / 200 \"'<>"
    asked = [("GET", url, 200), ("HEAD", url, 200), ("GET", "/none%0a%20x", 404), ("GET", "/healthz", 200), ("BREW", "/x", 405),
             ("GET", "/buildid/zz/debuginfo", 400), ("GET", f"/buildid/{build_id}/source/none", 404), ("GET", "/metadata?key=x", 400)]
    for method, path, want in asked:
        assert s.get(path, method, headers={"User-Agent": evil.encode(), "X-Forwarded-For": "192.0.2.1, 192.0.2.2"}).status == want
    raw(s, b"GET /\x1b[31m HTTP/1.1\r\n" + END)
    s.wait(lambda: s.log_path.read_text().count(" XFF:") >= len(asked) + 1, "the lines")
    s.wait(lambda: "[31m" in s.log_path.read_text()[mark:], "the lines")
    lines = [m.groups() for m in map(LINE.match, s.log_path.read_text()[mark:].splitlines()) if m]
    for method, path, want in asked:
        mine = [g for g in lines if (g[3], g[4], int(g[5])) == (method, path.split("?")[0], want)]
        assert len(mine) == 1, (method, path, lines)
        assert mine[0][1].startswith("a_b_c") and mine[0][2] == "192.0.2.1,_192.0.2.2"
        assert mine[0][8] is None
    assert int(next(g for g in lines if g[3:5] == ("GET", url))[6]) == len(elf.debug)
    assert int(next(g for g in lines if g[3:5] == ("GET", "/healthz"))[6]) == len("ok\n")
    assert "\x1b" not in s.log_path.read_text()
    quiet = serve([pool], args=["--no-access-log"]).ready()
    assert " XFF:" not in quiet.log_path.read_text()


def test_the_pages_files_may_lie_in_a_folder(serve, tmp_path):
    web = tmp_path / "web"
    shutil.copytree(pathlib.Path(__file__).resolve().parents[2] / "web", web)
    (web / "index.html").write_text("<!doctype html>mine")
    (tmp_path / "secret").write_text("secret")
    (web / "more.txt").write_text("not one of the page's")
    s = serve(["/usr/bin/true"], args=["--web-dir", web]).ready()
    assert s.get("/").body == b"<!doctype html>mine"
    assert s.get("/web/app.js").body == (web / "app.js").read_bytes()
    for path in ("/web/../secret", "/web/%2e%2e/secret", "/web/more.txt", "/web/", "/web//app.js", "/web/app.js/"):
        assert s.get(path).status in ((404,) if path != "/web/" else (200, 404)), path
    (web / "app.js").unlink()
    r = subprocess.run([LODE, "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--web-dir", str(web), "/usr/bin/true"],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "app.js" in r.stderr
