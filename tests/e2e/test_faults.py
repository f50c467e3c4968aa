# SPDX-License-Identifier: Apache-2.0
"""Faults of the service's own files: a sender is never told that it is at fault, and nothing is lost."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time

import pytest

from conftest import LODE
from faults import Faults
from making import elf, fetch, new_id
from profiling import CPU, Pprof, ask, call, send
from pushing import put, settled

STORED = 5
# calls, errno, of which files; status of a profile that is sent
PROFILE_FAULTS = [
    (["write"], "ENOSPC", "profiles.db-wal", 507),
    (["write"], "EDQUOT", "profiles.db-wal", 507),
    (["write"], "EFBIG", "profiles.db-wal", 507),
    (["write"], "EIO", "profiles.db-wal", 503),
    (["write"], "EROFS", "profiles.db-wal", 503),
    (["sync"], "ENOSPC", "profiles.db-wal", 507),
    (["sync"], "EIO", "profiles.db-wal", 503),
]


def profile(n, values=(3, 4)):
    return Pprof(time_ms=int(time.time() * 1000) - 60000 + n).sample(["main", "f", f"g{n}"], values).bytes()


def totals(s):
    series = ask(s, "series", query=CPU, one=1)["series"]
    return (series[0]["total"], series[0]["profiles"]) if series else (0, 0)


@pytest.fixture
def faulted(serve, tmp_path):
    data = tmp_path / "data"
    faults = Faults(tmp_path / "faults", data)
    s = serve([], data=data, extra=faults.environment).ready()
    return s, faults


@pytest.mark.slow
def test_a_profile_that_cannot_be_stored_is_never_the_senders_fault(faulted):
    s, faults = faulted
    n = 0
    for calls, number, part, status in PROFILE_FAULTS:
        for _ in range(STORED):
            send(s, profile(n), service="a")
            n += 1
        failed = faults.failed
        faults.on(calls, number, part=part)
        got, body, _ = call(s, "POST", "/profiles?service=a", profile(n))
        faults.off()
        assert faults.failed > failed, (calls, number)
        assert got == status and json.loads(body)["error"], (calls, number, got, body)
        # the same profile is accepted once the disk is well again, and counted once
        send(s, profile(n), service="a")
        n += 1
        assert totals(s) == (4 * n, n), (calls, number)


@pytest.mark.slow
def test_a_damaged_profile_store_is_never_the_senders_fault(serve, tmp_path):
    s = serve([], data=tmp_path / "data").ready()
    send(s, profile(0), service="a")
    with sqlite3.connect(tmp_path / "data" / "profiles" / "profiles.db") as db:
        db.execute("ALTER TABLE profile RENAME TO elsewhere")
    # The database is made anew; rows that no table leads to are among those that are found. A reader that has its WAL delays that.
    got = []
    s.wait(lambda: got.append(call(s, "POST", "/profiles?service=a", profile(1))[0]) or got[-1] == 200, "the store to be made anew")
    assert set(got) <= {200, 500, 503}, got
    assert totals(s) == (8, 2)
    assert "made anew in use" in s.log_path.read_text()


PUSH_FAULTS = [(["write"], "ENOSPC", 507), (["write"], "EIO", 503), (["sync"], "EIO", 503), (["rename", "link"], "EIO", 503)]


@pytest.mark.slow
def test_a_push_that_cannot_be_stored_is_never_the_senders_fault(faulted, program):
    s, faults = faulted
    path = f"/buildid/{program.build_id}/debuginfo"
    for calls, number, status in PUSH_FAULTS:
        failed = faults.failed
        faults.on(calls, number, part="store/")
        got, body, _ = call(s, "PUT", path, program.debug.read_bytes())
        faults.off()
        assert faults.failed > failed and got == status, (calls, number, got, body)
    assert call(s, "PUT", path, program.debug.read_bytes())[0] == 201
    assert s.get(path).body == program.debug.read_bytes()


@pytest.mark.slow
def test_a_read_error_is_not_damage(faulted, serve):
    """Neither of the database nor of its WAL: 503, and the next answer is right."""
    s, faults = faulted
    for n in range(60):
        send(s, profile(n), service=f"s{n % 20}")
    n = 60
    for part in ("profiles.db-wal", "profiles.db"):
        if part == "profiles.db":
            s.stop()
            s = serve([], data=s.data, extra=faults.environment).ready()
        seen = set()
        for one_in in (1, 1, 2, 3):
            # SQLite keeps pages in memory for as long as nothing is written
            send(s, profile(n), service="a")
            n += 1
            faults.on(["read"], "EIO", part=part, one_in=one_in)
            status, body, _ = call(s, "GET", f"/api/flamegraph?query={CPU}&from=0")
            faults.off()
            seen.add(status)
            assert status in (200, 503) and (status == 200 or b"I/O error" in body), (part, status, body)
            assert sum(x["profiles"] for x in ask(s, "series", query=CPU)["series"]) == n
        assert 503 in seen, part
    figures = json.loads(s.get("/api/status").body)["profiles"]
    assert figures["set_aside"] == figures["damaged_pages"] == figures["repaired_pages"] == 0, figures


@pytest.mark.slow
def test_a_read_error_at_the_start_sets_nothing_aside(faulted, serve):
    s, faults = faulted
    data = s.data
    for n in range(60):
        send(s, profile(n), service=f"s{n % 20}")
    s.stop()
    for left in (1 << 60, 20, 3):
        faults.on(["read"], "EIO", part="profiles.db", left=left)
        s = serve([], data=data, extra=faults.environment)
        s.wait(lambda: s.get("/healthz").status == 200, "up")
        faults.off()
        s.stop()
        assert not list(data.glob("*damaged*")) and not list(data.glob("profiles/*damaged*"))
    s = serve([], data=data, extra=faults.environment).ready()
    assert sum(x["profiles"] for x in ask(s, "series", query=CPU)["series"]) == 60


@pytest.mark.slow
def test_a_read_error_of_an_object_is_not_damage(faulted, serve, program):
    s, faults = faulted
    path, content = f"/buildid/{program.build_id}/debuginfo", program.debug.read_bytes()
    assert call(s, "PUT", path, content)[0] == 201
    s.stop()
    s = serve([], data=s.data, extra=faults.environment).ready()
    faults.on(["read"], "EIO", part="store/data")
    asked = s.get(path)
    assert asked.status == 503 and asked.headers["Retry-After"] and asked.headers["X-LODE-UNREADABLE"], asked.body
    # a server behind it asks for other files meanwhile, and for this one again
    near = serve([], args=["--debuginfod-upstream-servers", s.url]).ready()
    assert near.get(path).status == 502
    assert near.get(f"/buildid/{'0' * 40}/debuginfo").status == 404
    faults.off()
    near.wait(lambda: near.get(path).body == content, "the file")
    assert s.get(path).body == content
    assert "damaged" not in s.log_path.read_text()


@pytest.mark.slow
def test_a_read_error_while_a_file_is_sent_cuts_that_reply_only(serve, elf, tmp_path):
    data = tmp_path / "data"
    faults = Faults(tmp_path / "faults", data)
    s = serve([], data=data, args=["--idle-timeout", "3"], extra=faults.environment).ready()
    path, n_cut = f"/buildid/{elf.id}/debuginfo", 0
    assert call(s, "PUT", path, elf.large)[0] == 201
    for one_in in (1, 2, 3, 3, 3):
        assert fetch(s, path) == (200, elf.large, True)
        faults.on(["read"], "EIO", one_in=one_in)
        status, body, whole = fetch(s, path)
        faults.off()
        if status == 200:
            n_cut += not whole
            assert elf.large.startswith(body) and whole == (body == elf.large)
        else:
            assert status == 503
        assert fetch(s, path) == (200, elf.large, True)
    assert n_cut


@pytest.mark.slow
def test_chaos():
    """Five kills and fifty faults under mixed load; bench/chaos.py does the long run."""
    chaos = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "chaos.py"
    r = subprocess.run([sys.executable, str(chaos), "--kills", os.environ.get("LODE_KILLS", "5"), "--faults", os.environ.get("LODE_FAULTS_N", "50")],
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stdout[-4000:] + r.stderr[-4000:]


@pytest.mark.slow
def test_a_start_without_room_for_the_index_names_the_remedy(serve, tmp_path):
    data = tmp_path / "data"
    faults = Faults(tmp_path / "faults", data)
    s = serve([], data=data, extra=faults.environment).ready()
    s.proc.kill()
    s.proc.wait()
    faults.on(["write", "truncate"], "ENOSPC", part="index.sqlite-shm")
    r = subprocess.run([s.proc.args[0], "serve", "--data", str(data), "--listen", "127.0.0.1:0", "--no-upstream"],
                       env={**os.environ, **faults.environment}, capture_output=True, text=True, timeout=20)
    assert r.returncode == 1
    assert f"{data}/index.sqlite" in r.stderr and f"on the disk of {data}" in r.stderr and "free 1 MiB" in r.stderr, r.stderr
    faults.off()
    serve([], data=data).ready()


@pytest.mark.slow
def test_a_start_with_a_full_disk_serves_what_is_stored(serve, program, tmp_path):
    data = tmp_path / "data"
    faults = Faults(tmp_path / "faults", data)
    s = serve([program.debug.parent], data=data, extra=faults.environment).scanned()
    send(s, profile(0), service="a")
    s.proc.kill()
    s.proc.wait()
    # a checkpoint at the start fails, too
    faults.on(["sync"], "ENOSPC", part="profiles.db")
    s = serve([program.debug.parent], data=data, extra=faults.environment)
    s.wait(lambda: s.get("/healthz").status == 200, "up")
    assert totals(s) == (4, 1)
    assert s.get(f"/buildid/{program.build_id}/debuginfo").body == program.debug.read_bytes()
    assert call(s, "POST", "/profiles?service=a", profile(1))[0] == 507
    faults.off()
    send(s, profile(1), service="a")
    assert totals(s) == (8, 2)


@pytest.mark.slow
def test_a_folder_of_records_that_cannot_be_listed_loses_no_content(faulted, serve, elf, tmp_path):
    """A collector that takes the failure for the end of the folder would remove the contents of all records in it."""
    s, faults = faulted
    build_id = new_id("listed")
    content = elf.of(elf.debug, build_id)
    assert put(s, f"/buildid/{build_id}/debuginfo", content)[0] == 201
    settled(s)
    s.stop()
    time.sleep(2.5)  # a young content is left alone
    faults.on(["list"], "EIO", part=f"store/keys/{build_id[:2]}")
    r = subprocess.run([LODE, "store", "gc", "--data", s.data], capture_output=True, text=True, timeout=60, env={**os.environ, **faults.environment})
    faults.off()
    assert faults.failed and r.returncode != 0 and "Input/output error" in r.stderr, (r.stdout, r.stderr)
    s = serve([], data=s.data).ready()
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
