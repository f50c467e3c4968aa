# SPDX-License-Identifier: Apache-2.0
"""A folder that cannot be listed: nothing that may be below it is reported as missing, and the operator learns of it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import LODE
from faults import Faults
from making import debug_deb, elf, fetch_right, new_id, pool


@pytest.fixture
def faulted(serve, elf, pool, tmp_path):
    """A service over a pool with a program; the folder `old` of it may be made to fail."""
    (pool / "old").mkdir()
    (pool / "old" / "program").write_bytes(elf.program)
    (pool / "new").mkdir()
    (pool / "new" / "program.debug").write_bytes(elf.debug)
    faults = Faults(tmp_path / "faults", pool)

    def start():
        return serve([pool], data=tmp_path / "data", args=["--no-watch"], extra=faults.environment), faults
    return start


def scan_status(s):
    return json.loads(s.get("/api/status").body)["scan"]


def rescan(s):
    n = s.metric('thread_work_total{role="traverse"}')
    s.proc.send_signal(signal.SIGUSR1)
    s.wait(lambda: s.metric('thread_work_total{role="traverse"}') > n, "walked")


def missing(s):
    r = s.get(f"/buildid/{new_id('nowhere')}/debuginfo")
    return r.status, r.body.decode()


@pytest.mark.slow
@pytest.mark.parametrize("number, text", [("EIO", "Input/output error"), ("ENFILE", "fs.file-max"), ("ENOMEM", "out of memory")])
def test_a_folder_that_cannot_be_listed(faulted, elf, pool, number, text):
    s, faults = faulted()
    s.scanned()
    assert missing(s)[0] == 404 and s.get("/readyz").body == b"ok\n"
    assert s.metric("lode_scan_unlisted") == 0
    faults.on(["list"], number, part="/old")
    rescan(s)
    rescan(s)
    status, body = missing(s)
    assert status == 503 and f"{pool}/old: " in body
    assert b"\nunread: a folder or bucket cannot be listed" in s.get("/readyz").body
    assert s.metric("lode_scan_unlisted") == 1
    scan = scan_status(s)
    assert scan["unlisted"] == 1 and scan["unlisted_why"].startswith(f"{pool}/old: ")
    # What is known is served.
    assert s.get(f"/buildid/{elf.id}/executable").body == elf.program
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug
    told = [line for line in s.log_path.read_text().splitlines() if "could not be listed" in line]
    assert len(told) == 1 and f"{pool}/old: " in told[0] and text in told[0]
    faults.off()
    if number == "EIO":  # it is tried again without a rescan
        s.wait(lambda: missing(s)[0] == 404, "listed again", 60)
    rescan(s)
    assert missing(s)[0] == 404
    assert s.get("/readyz").body == b"ok\n" and f"{pool}/old: it is listed again" in s.log_path.read_text()


@pytest.mark.slow
def test_it_fails_at_the_start(faulted, elf):
    s, faults = faulted()
    s.scanned()
    s.stop()
    faults.on(["list"], "EIO", part="/old")
    s, _ = faulted()
    s.ready()
    assert missing(s)[0] == 503
    assert s.get(f"/buildid/{elf.id}/executable").body == elf.program


@pytest.mark.slow
def test_paths_are_hidden_from_clients(serve, pool, tmp_path):
    (pool / "old").mkdir()
    faults = Faults(tmp_path / "faults", pool)
    faults.on(["list"], "EIO", part="/old")
    s = serve([pool], args=["--archive-path", "hide"], extra=faults.environment).ready()
    status, body = missing(s)
    assert status == 503 and str(pool) not in body and "old: Input/output error" in body
    assert scan_status(s)["unlisted_why"] == "old: Input/output error"


def test_the_command_fails(pool, tmp_path):
    (pool / "old").mkdir()
    faults = Faults(tmp_path / "faults", pool)
    faults.on(["list"], "EIO", part="/old")
    r = subprocess.run([LODE, "scan", "--data", tmp_path / "data", pool], capture_output=True, text=True, timeout=60, env={**os.environ, **faults.environment})
    assert r.returncode == 1 and f"{pool}/old: Input/output error" in r.stderr
    faults.off()
    r = subprocess.run([LODE, "scan", "--data", tmp_path / "data", pool], capture_output=True, text=True, timeout=60, env={**os.environ, **faults.environment})
    assert r.returncode == 0, r.stderr


@pytest.fixture
def mounted(pool):
    """Functions that mount a folder of another file system at the pool, and unmount it."""
    other = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        if other.stat().st_dev == pool.stat().st_dev:
            pytest.skip("/dev/shm is no other file system")

        def mount():
            r = subprocess.run(["mount", "--bind", other, pool], capture_output=True, text=True)
            if r.returncode:
                pytest.skip(f"no mounts here: {r.stderr}")

        def unmount():
            subprocess.run(["umount", "-l", pool], check=True)
        mount()
        yield mount, unmount
        subprocess.run(["umount", "-l", pool], capture_output=True)
    finally:
        shutil.rmtree(other)


def n_files(s):
    return json.loads(s.get("/api/status").body)["index"]["files"]


def groom(s):
    n = s.metric('thread_work_total{role="groom"}')
    s.proc.send_signal(signal.SIGUSR2)
    s.wait(lambda: s.metric('thread_work_total{role="groom"}') > n, "groomed")


@pytest.mark.slow
@pytest.mark.parametrize("running", [True, False])
def test_a_root_that_is_not_mounted_keeps_its_files(serve, elf, pool, mounted, tmp_path, running):
    mount, unmount = mounted
    (pool / "x.deb").write_bytes(debug_deb("xz", elf.id, elf.debug))
    (pool / "program").write_bytes(elf.program)
    data = tmp_path / "data"
    s = serve([pool], data=data).scanned()
    if not running:
        s.stop()
    unmount()
    if not running:
        s = serve([pool], data=data).ready()
    groom(s)
    s.wait(lambda: n_files(s) == 2, "counted")
    for build_id, kind in ((new_id("nowhere"), "debuginfo"), (elf.id, "executable")):
        r = s.get(f"/buildid/{build_id}/{kind}")
        assert r.status == 503 and b"it is not mounted" in r.body, r.body
    assert "mount it; the index keeps them for 7 days" in s.log_path.read_text()
    mount()
    rescan(s)
    assert missing(s)[0] == 404
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    fetch_right(s, f"/buildid/{elf.id}/executable", elf.program)
    assert s.log_path.read_text().count("resume points, ") == 1  # one deep pass
    # Without the path its files are forgotten, if they are not there.
    s.stop()
    unmount()
    s = serve([], data=data).scanned()
    s.wait(lambda: n_files(s) == 0, "forgotten")
