# SPDX-License-Identifier: Apache-2.0
"""--keep-pushes: pushes that arrive while the bucket of the store is away are kept on the node's disk, and put when it is back."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from bucket_engines import STORE, engine, start, stub  # noqa: F401
from conftest import LODE
from faults import Faults
from making import elf, fetch, new_id
from pushing import bearer, one, put, token, want
from test_parca_debuginfo import initiate, upload
from test_store_bucket import noisy

KEEP = ["--keep-pushes", "64M", "--cache-size", "0"]


@pytest.fixture
def nodes(start):
    """start(), whose kept ports make a restart look the same."""
    return lambda bucket, name="data", args=(): start(bucket, name, [*KEEP, *args])


def away(engine):
    if engine.requests is None:
        engine.proc.kill()
        engine.proc.wait()
    else:
        engine.away = True


def back(engine):
    if engine.requests is None:
        engine.start()
    else:
        engine.away = False


def path(build_id, kind="debuginfo"):
    return f"/buildid/{build_id}/{kind}"


def held(s):
    return json.loads(s.get("/api/status").body)["store"]["held"]


def cli(engine, what, data, *args):
    r = subprocess.run([LODE, "store", what, "--json", "--store", STORE, "--data", data, *args], capture_output=True, text=True, timeout=120,
                       env={**os.environ, **engine.env()})
    assert r.returncode == 0, (r.stdout, r.stderr)
    return json.loads(r.stdout)


def in_bucket(engine, tmp_path):
    return {o["key"]: o for o in cli(engine, "ls", tmp_path / "own")}


def taken(s):
    s.wait(lambda: held(s)["pushes"] == 0, "the kept pushes to be put")


@pytest.mark.slow
def test_a_push_is_kept_and_served_and_put_when_the_bucket_is_back(engine, nodes, elf, tmp_path):
    s = nodes(engine)
    ids = [new_id("kept", i) for i in range(4)]
    contents = {i: elf.of(elf.debug, i) for i in ids}
    assert put(s, path(ids[0]), contents[ids[0]])[0] == 201
    away(engine)
    for i in ids[1:]:
        status, headers, text = put(s, path(i), contents[i])
        assert (status, headers["X-LODE-RESULT"]) == (202, "held") and "bucket is away" in text, text
        assert fetch(s, path(i)) == (200, contents[i], True)
        assert s.get(f"/buildid/{i}/section/.debug_line").status == 200
        # The same bytes again are one push.
        assert put(s, path(i), contents[i])[1]["X-LODE-RESULT"] == "held"
        assert want(s, one(i, contents[i])) == [{"want": False, "why": "held"}]
    h = held(s)
    assert (h["pushes"], h["refused"], h["max"]) == (3, 0, 64 << 20) and 0 < h["bytes"] < 64 << 20, h
    assert s.metric('lode_store_held{state="waiting"}') == 3
    assert s.metric("lode_store_held_bytes") == h["bytes"]
    assert [o["key"] for o in cli(engine, "kept", s.data)] == [f"{i}/debuginfo" for i in ids[1:]]
    back(engine)
    taken(s)
    assert sorted(in_bucket(engine, tmp_path)) == sorted(f"{i}/debuginfo" for i in ids)
    assert s.metric('lode_store_held_ended_total{outcome="put"}') == 3
    assert cli(engine, "kept", s.data) == []
    assert not [p for p in next((s.data / "bucket").glob("held-*")).iterdir() if p.name != "lock"]
    s.stop()
    other = nodes(engine, "another node")
    for i in ids:
        assert fetch(other, path(i)) == (200, contents[i], True)


@pytest.mark.slow
def test_without_the_option_a_push_is_refused(stub, start, elf):
    s = start(stub)
    stub.away = True
    assert put(s, path(new_id("refused")), elf.of(elf.debug, new_id("refused")))[0] == 503
    assert "held" not in json.loads(s.get("/api/status").body)["store"]


@pytest.mark.slow
def test_kept_pushes_survive_kills_and_are_put_without_the_option(engine, nodes, start, elf, tmp_path):
    s = nodes(engine)
    ids = [new_id("killed", i) for i in range(3 if engine.requests is not None else 6)]
    away(engine)
    for i in ids:
        assert put(s, path(i), elf.of(elf.debug, i))[0] == 202
        s.proc.kill()
        s.proc.wait()
        # The bucket may be away at the start.
        s = nodes(engine)
        assert fetch(s, path(i)) == (200, elf.of(elf.debug, i), True)
    s.stop(signal.SIGKILL)
    back(engine)
    s = start(engine, "data")
    s.wait(lambda: "held" not in (st := json.loads(s.get("/api/status").body)["store"]) or not st["held"]["pushes"], "the kept pushes to be put")
    assert sorted(in_bucket(engine, tmp_path)) == sorted(f"{i}/debuginfo" for i in ids)


@pytest.mark.slow
def test_kills_while_they_are_put_lose_none(stub, nodes, elf, tmp_path):
    s = nodes(stub)
    rng = random.Random(7)
    ids = [new_id("while", i) for i in range(12)]
    stub.away = True
    for i in ids:
        assert put(s, path(i), elf.of(elf.debug, i))[0] == 202
    stub.delay, stub.away = 0.02, False
    for _ in range(6):
        n = held(s)["pushes"]
        if n:
            at = len(stub.requests) + rng.randrange(2, 12)
            s.wait(lambda: len(stub.requests) >= at or not held(s)["pushes"], "some requests")
        s.stop(signal.SIGKILL)
        s = nodes(stub)
    taken(s)
    stub.delay = 0
    there = in_bucket(stub, tmp_path)
    assert sorted(there) == sorted(f"{i}/debuginfo" for i in ids)
    assert cli(stub, "verify", tmp_path / "own")["bad"] == []
    assert cli(stub, "history", tmp_path / "own") == []


@pytest.mark.slow
def test_a_kill_while_parts_are_put_leaves_no_upload(stub, nodes, elf, tmp_path):
    s = nodes(stub)
    build_id = new_id("parts")
    content = noisy(elf, tmp_path, build_id, 30 << 20)
    stub.away = True
    assert put(s, path(build_id), content)[0] == 202
    stub.part_delay, stub.away = 0.5, False
    s.wait(lambda: any(stub.uploads.values()), "a part")
    s.stop(signal.SIGKILL)
    assert len(stub.uploads) == 1
    stub.part_delay = 0
    s = nodes(stub)
    taken(s)
    s.wait(lambda: not stub.uploads, "the upload of the process that was killed to be aborted")
    assert sorted(in_bucket(stub, tmp_path)) == [f"{build_id}/debuginfo"]
    assert not list((s.data / "bucket/tmp").iterdir())
    assert fetch(s, path(build_id)) == (200, content, True)


@pytest.mark.slow
def test_a_full_folder_refuses_with_the_reason(stub, start, elf):
    s = start(stub, args=["--keep-pushes", "20K", "--cache-size", "0"])
    stub.away = True
    n = 0
    while put(s, path(new_id("full", n)), elf.of(elf.debug, new_id("full", n)))[0] == 202:
        n += 1
        assert n < 50
    assert n > 0 and held(s)["bytes"] <= 20 << 10
    status, _, text = put(s, path(new_id("full", n)), elf.of(elf.debug, new_id("full", n)))
    assert status == 503 and "--keep-pushes" in text, text
    stub.away = False
    taken(s)
    assert put(s, path(new_id("full", n)), elf.of(elf.debug, new_id("full", n)))[0] == 201


@pytest.mark.slow
def test_one_token_leaves_room_for_others(stub, start, elf):
    """Of 64 KiB a token has 48 KiB. A push that is not kept is tried in the bucket, and refused after 30 s."""
    s = start(stub, args=["--keep-pushes", "64K", "--cache-size", "0"])
    first, other = (bearer(token(s, name)) for name in ("ci", "other"))
    stub.away = True
    n, size = 0, 0
    while held(s)["bytes"] + size <= 48 << 10:
        before = held(s)["bytes"]
        assert put(s, path(new_id("share", n)), elf.of(elf.debug, new_id("share", n)), first)[0] == 202
        n, size = n + 1, held(s)["bytes"] - before + 16
    assert n > 3
    assert put(s, path(new_id("share", n)), elf.of(elf.debug, new_id("share", n)), other)[0] == 202
    status, _, text = put(s, path(new_id("more", n)), elf.of(elf.debug, new_id("more", n)), first)
    assert status == 503 and "have their share of the 65536 bytes of --keep-pushes" in text, text


def variant(elf, build_id, n, tmp_path):
    """Another file with the same build ID and quality."""
    (tmp_path / "v").write_bytes(elf.debug)
    (tmp_path / "note").write_bytes(b"variant %d" % n)
    subprocess.run(["objcopy", "--add-section", f".variant={tmp_path / 'note'}", str(tmp_path / "v")], check=True)
    return elf.of((tmp_path / "v").read_bytes(), build_id)


@pytest.mark.slow
def test_a_conflict_is_reported_and_listed(stub, nodes, elf, tmp_path):
    build_id = new_id("conflict")
    mine, theirs = elf.of(elf.debug, build_id), variant(elf, build_id, 1, tmp_path)
    s = nodes(stub)
    ci = token(s, "ci")
    stub.away = True
    assert put(s, path(build_id), mine, bearer(ci))[0] == 202
    # At this node the owner of what is kept is known.
    other = token(s, "other")
    assert put(s, path(build_id), theirs, bearer(other))[0] == 409
    s.stop(signal.SIGKILL)
    stub.away = False
    b = nodes(stub, "another node")
    assert put(b, path(build_id), theirs, bearer(token(b, "other")))[0] == 201
    s = nodes(stub)
    s.wait(lambda: held(s)["refused"] == 1, "the conflict")
    h = held(s)
    assert h["pushes"] == 0 and [(r["key"], r["by"], r["owner"]) for r in h["latest_refused"]] == [(f"{build_id}/debuginfo", "ci", "other")], h
    assert s.metric('lode_store_held{state="refused"}') == 1 and s.metric('lode_store_held_ended_total{outcome="refused"}') == 1
    assert f"{build_id}/debuginfo: a push of 'ci'" in s.log_path.read_text() and "belongs to 'other'" in s.log_path.read_text()
    assert fetch(s, path(build_id)) == (200, theirs, True)
    o, = cli(stub, "kept", s.data)
    assert (o["owner"], o["replaced_by"]) == ("ci", "other")
    s.stop()
    s = nodes(stub)
    assert held(s)["refused"] == 1 and fetch(s, path(build_id)) == (200, theirs, True)


@pytest.mark.slow
def test_the_order_of_pushes_is_kept(stub, nodes, elf, tmp_path):
    build_id = new_id("order")
    versions = [variant(elf, build_id, n, tmp_path) for n in range(3)]
    s = nodes(stub)
    stub.away = True
    for v in versions[:2]:
        assert put(s, path(build_id), v)[0] == 202
        assert fetch(s, path(build_id)) == (200, v, True)
    stub.delay, stub.away = 0.05, False
    # One that comes while the others wait must not be overtaken by them.
    assert put(s, path(build_id), versions[2])[0] in (201, 202)
    taken(s)
    stub.delay = 0
    assert fetch(s, path(build_id)) == (200, versions[2], True)
    assert len(cli(stub, "history", tmp_path / "own")) == 2


@pytest.mark.slow
def test_a_later_push_at_another_node_stays(stub, nodes, elf, tmp_path):
    build_id = new_id("later")
    first, second = elf.of(elf.debug, build_id), variant(elf, build_id, 2, tmp_path)
    s = nodes(stub)
    stub.away = True
    assert put(s, path(build_id), first)[0] == 202
    s.stop(signal.SIGKILL)
    stub.away = False
    b = nodes(stub, "another node")
    time.sleep(1.1)  # times of pushes are in seconds
    assert put(b, path(build_id), second)[0] == 201
    s = nodes(stub)
    taken(s)
    assert fetch(s, path(build_id)) == (200, second, True)
    assert s.metric('lode_store_held_ended_total{outcome="better"}') == 1


@pytest.mark.slow
def test_a_removal_also_removes_what_is_kept(stub, nodes, elf):
    build_id = new_id("removed")
    s = nodes(stub)
    stub.away = True
    assert put(s, path(build_id), elf.of(elf.debug, build_id))[0] == 202
    assert put(s, path(build_id), b"", method="DELETE")[0] == 503
    assert fetch(s, path(build_id))[0] == 200
    stub.away = False
    assert put(s, path(build_id), b"", method="DELETE")[0] == 200
    assert s.get(path(build_id)).status == 404
    taken(s)
    assert s.get(path(build_id)).status == 404


@pytest.mark.slow
def test_every_door_keeps(stub, nodes, elf):
    s = nodes(stub)
    stub.away = True
    a, b = new_id("parca"), new_id("post")
    assert upload(s, initiate(s, a, len(elf.of(elf.debug, a)))["signedUrl"], elf.of(elf.debug, a))[0] in (200, 202)
    status, headers, _ = put(s, f"/debuginfo.v1alpha1.DebuginfoService/Upload/{b}", elf.of(elf.debug, b), method="POST")
    assert (status, headers["X-LODE-RESULT"]) == (200, "held")
    for i in (a, b):
        assert fetch(s, path(i)) == (200, elf.of(elf.debug, i), True)
    assert held(s)["pushes"] == 2
    stub.away = False
    taken(s)


@pytest.mark.slow
def test_lode_push_says_that_files_are_kept(stub, nodes, elf, tmp_path):
    build_id = new_id("client")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x.debug").write_bytes(elf.of(elf.debug, build_id))
    s = nodes(stub)
    stub.away = True
    r = subprocess.run([LODE, "push", "--to", f"http://127.0.0.1:{s.port}", str(tmp_path / "files")], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and "1 stored" in r.stdout and "on the server's disk only" in r.stdout, (r.stdout, r.stderr)
    r = subprocess.run([LODE, "push", "--json", "--to", f"http://127.0.0.1:{s.port}", str(tmp_path / "files")], capture_output=True, text=True, timeout=60)
    assert [o["result"] for o in json.loads(r.stdout)["objects"]] == ["held"]


@pytest.mark.slow
def test_damage_of_a_kept_file_is_reported(stub, nodes, elf, tmp_path):
    ids = [new_id("damage", i) for i in range(3)]
    s = nodes(stub)
    stub.away = True
    for i in ids:
        assert put(s, path(i), elf.of(elf.debug, i))[0] == 202
    s.stop(signal.SIGKILL)
    folder, = (s.data / "bucket").glob("held-*")
    content = sorted(folder.glob("*.content"))
    raw = bytearray(content[0].read_bytes())
    raw[len(raw) // 2] ^= 1
    content[0].write_bytes(raw)
    content[1].unlink()
    (folder / "00000000000000ff.content").write_bytes(b"of a push that was not acknowledged")
    (folder / "00000000000000fe.owned").write_bytes(b"no record")
    stub.away = False
    s = nodes(stub)
    taken(s)
    assert list(in_bucket(stub, tmp_path)) == [f"{ids[2]}/debuginfo"]
    assert held(s)["refused"] == 2 and s.metric('lode_store_held_ended_total{outcome="damaged"}') == 2
    assert "is damaged" in s.log_path.read_text() and "cannot be read" in s.log_path.read_text()
    assert not (folder / "00000000000000ff.content").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", ["EMFILE", "EIO"])
def test_a_kept_file_that_cannot_be_opened_for_a_moment_is_put_later(stub, serve, elf, tmp_path, number):
    build_id = new_id("opened", number)
    faults = Faults(tmp_path / "faults", tmp_path / "data")
    s = serve([], data=tmp_path / "data", args=["--no-packages", "--store", STORE, *KEEP], extra={**stub.env(), **faults.environment}).ready()
    stub.away = True
    faults.on(["open"], number, left=1, part=".content")
    assert put(s, path(build_id), elf.of(elf.debug, build_id))[0] == 202
    s.wait(lambda: faults.failed == 1, "the fault")
    faults.off()
    stub.away = False
    taken(s)
    assert held(s)["refused"] == 0
    assert list(in_bucket(stub, tmp_path)) == [f"{build_id}/debuginfo"]


def test_the_option_is_refused_without_a_bucket(tmp_path):
    r = subprocess.run([LODE, "serve", "--keep-pushes", "1M", "--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", str(tmp_path)],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode != 0 and "--keep-pushes is for a store in a bucket" in r.stderr, r.stderr
