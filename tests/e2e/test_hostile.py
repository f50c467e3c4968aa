# SPDX-License-Identifier: Apache-2.0
"""Damaged and malicious packages, ELF files and disks: no complete answer is wrong, the reason is reported, and the service
continues."""

import contextlib
import gzip
import json
import lzma
import os
import random
import signal
import socket
import sqlite3
import struct
import subprocess
import tarfile
import time

import pytest

from conftest import LODE, Program, make_rpm, slow_but
from making import (PACKERS, deb, debug_deb, debug_path, elf, failures, fetch, fetch_right, healthy, new_id, peak_mib, pool, stat, tar_of,
                    told, zstd)

# ---- packages ----

@pytest.mark.slow
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
    """Requests during the deep pass: some are answered from the running pass, which detects damage only at the end of a block."""
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


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["w3.zstdio", "w3.lzdio"])
def test_bits_flipped_where_the_compression_has_no_sums(serve, elf, pool, tmp_path, payload):
    """zstd in rpms has no checksums, and lzma has none at all; only the rpm header has a digest."""
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


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["xz", "zst", "gz", "none"])
def test_damage_behind_the_scan(serve, elf, pool, suffix):
    """The package has the same size, time and inode as at the scan, but one bit differs."""
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
        # An uncompressed archive has no checksums: its current bytes are served, as with a plain file.
        assert fetch(s, url)[0] == 200
    else:
        assert fetch_right(s, url, truth) == "cut"
        assert "replies are cut" in s.log_path.read_text()
        # The bytes before the damage are still served.
        status, body, _ = fetch(s, url, {"Range": "bytes=0-99999"})
        assert status == 206 and body == truth[:100000]
    healthy(s)


@pytest.mark.parametrize("change", slow_but(["delete"], ["truncate", "delete", "replace"]))
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
    # A deleted file can still be read through an open descriptor.
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


@pytest.mark.slow
def test_bombs(serve, elf, pool):
    """10 GB of zeros in a member, a member with a stated size of 10 TB, a module that decompresses beyond the limit: memory is bounded, and other
    files are served."""
    good = new_id("bomb", "good")
    head = tarfile.TarInfo("./usr/lib/zeros")
    head.size = 10 << 30
    (pool / "zeros.deb").write_bytes(deb(zstd(head.tobuf(tarfile.GNU_FORMAT)) + zero_frames(zstd, 10 << 30) + zstd(bytes(1024)), "zst"))
    head.size = 256 << 20
    (pool / "xz.deb").write_bytes(deb(lzma.compress(head.tobuf(tarfile.GNU_FORMAT)) +
                                      zero_frames(lambda d: lzma.compress(d, preset=0), 256 << 20) + lzma.compress(bytes(1024)), "xz"))
    # The stated content is missing.
    head.size = 10 << 40
    (pool / "lies.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    sparse = tarfile.TarInfo("./usr/lib/sparse")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "usr/lib/sparse", "GNU.sparse.realsize": str(10 << 40)}
    sparse.size = 512
    (pool / "sparse.tar").write_bytes(sparse.tobuf(tarfile.PAX_FORMAT) + b"1\n0\n1\n".ljust(512, b"\0") + bytes(1024))
    module = zero_frames(lambda d: lzma.compress(d, preset=0), 576 << 20)
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
    """Names that escape the package are refused; all other names are bytes, and are served unchanged."""
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
    # On disk: a circle of links, and a folder that contains itself.
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


def test_links_to_packages_are_passed_over_unless_asked_for(serve, elf, pool, tmp_path):
    real, ident = tmp_path / "real.deb", new_id("link")
    program = elf.of(elf.program, ident)
    real.write_bytes(deb(PACKERS["gz"](tar_of([("./usr/bin/p", program)], tarfile.GNU_FORMAT)), "gz", [ident]))
    (pool / "link.deb").symlink_to(real)
    (pool / "other").symlink_to(real)
    for args, status in (([], 404), (["--follow-links"], 200)):
        s = serve([pool], args=args).scanned()
        assert s.get(f"/buildid/{ident}/executable").status == status
        told = f"{pool}: packages that are symbolic links are passed over: 1;" in s.log_path.read_text()
        assert told == (status == 404), args


def test_a_request_does_not_tell_which_files_exist(serve, tmp_path):
    """Sources are on disk, and any path can be requested: a reply must not reveal that a file exists unless it is served."""
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
    """Section tables that are huge, overlap, or are outside of the file; also after the scan."""
    d = tmp_path / "elf"
    d.mkdir()
    shoff, = struct.unpack_from("<Q", elf.debug, 0x28)
    shnum, = struct.unpack_from("<H", elf.debug, 0x3c)
    lies = {
        "shoff": (0x28, "<Q", 1 << 62), "shoff-end": (0x28, "<Q", len(elf.debug) - 1), "shnum": (0x3c, "<H", 0xfffe), "names": (0x3e, "<H", 0xfff0),
        "shentsize": (0x3a, "<H", 1), "phoff": (0x20, "<Q", 1 << 63), "phnum": (0x38, "<H", 0xfffe), "phentsize": (0x36, "<H", 3),
        "type": (0x10, "<H", 0xffff), "huge": (shoff + 0x20, "<Q", 1 << 40),
        # Every section covers the whole file, or more.
        **{f"size{i}": (shoff + 64 * i + 0x20, "<Q", 1 << 63) for i in range(1, shnum)},
        **{f"all{i}": (shoff + 64 * i + 0x18, "<QQ", 0, len(elf.debug)) for i in range(1, shnum)},
        **{f"packed{i}": (shoff + 64 * i + 0x8, "<Q", 0x800) for i in range(1, shnum)},
    }
    files = {}
    for what, (off, form, *values) in lies.items():
        build_id = new_id("lie", what)
        files[build_id] = patched(elf.of(elf.debug, build_id), off, form, *values)
        (d / what).write_bytes(files[build_id])
    # Extended numbering with an impossible number of sections.
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
    # A sparse file of half a TB is served like any other.
    assert s.get(f"/buildid/{new_id('lie', 'sparse')}/debuginfo", "HEAD").headers["Content-Length"] == str(1 << 40)
    told(s, "head")
    told(s, "shoff")
    healthy(s)


# ---- the disk and the data directory ----

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
        stat = subprocess.run([LODE, "stat", "--data", str(small / "data")], capture_output=True, text=True)
        assert stat.returncode == 0 and "the disk is full" in stat.stdout, stat
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


@pytest.mark.slow
def test_files_may_not_grow(serve, elf, pool, tmp_path):
    """A limit on file sizes (in place of a full disk) raises a signal, which must not kill the service."""
    first, second = new_id("fsize", 1), new_id("fsize", 2)
    (pool / "first.deb").write_bytes(debug_deb("xz", first, elf.of(elf.large, first)))
    s = serve([pool], args=["--cache-size", "1G"]).scanned()
    # Writing the log fails too; indexed files are still served.
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
    """A data file of a newer version, of another program, or garbage: a message, exit status 1, and the file is unchanged."""
    def runs(data, commands=(["serve", "--no-upstream", "--listen", "127.0.0.1:0"], ["scan"], ["stat"])):
        before = (data / "index.sqlite").read_bytes()
        for command in commands:
            r = subprocess.run([LODE, *command, "--data", str(data), *(["/usr/bin/true"] if command != ["stat"] else [])], capture_output=True,
                               text=True, timeout=30)
            assert r.returncode == 1 and str(data / "index.sqlite") in r.stderr, (command, r.stderr)
            assert (data / "index.sqlite").read_bytes() == before, command
            yield r.stderr
    newer = tmp_path / "newer"
    newer.mkdir()
    with contextlib.closing(sqlite3.connect(newer / "index.sqlite")) as db:
        db.executescript(f"PRAGMA application_id = {0x6c6f6465}; PRAGMA user_version = 4711; CREATE TABLE t(x)")
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
    assert all("not a database" in text for text in runs(nonsense, (["scan"], ["stat"])))


def test_a_damaged_index_is_set_aside(serve, program, tmp_path):
    """The service starts, scans again, and says so."""
    data = tmp_path / "data"
    for damage in (lambda b: b"nonsense" * 1000, lambda b: b[:5000] + bytes(x ^ 255 for x in b[5000:5040]) + b[5040:], lambda b: b[:-4000], lambda b: b""):
        s = serve([program.debug.parent], data=data).scanned()
        assert s.get(f"/buildid/{program.build_id}/debuginfo").body == program.debug.read_bytes()
        assert s.stop() == 0
        index = data / "index.sqlite"
        index.write_bytes(damage(index.read_bytes()))
    s = serve([program.debug.parent], data=data).scanned()
    assert s.get(f"/buildid/{program.build_id}/debuginfo").body == program.debug.read_bytes()
    assert s.log_path.read_text().count("set aside as") == 3
    assert len(list(data.glob("index.sqlite.damaged.*"))) >= 1
