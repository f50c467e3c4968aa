# SPDX-License-Identifier: Apache-2.0
"""A store in a bucket: pushed to, served, collected, by one service and by two at once, and while the bucket is away."""

import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from bucket import SECRET
from bucket_engines import STORE, engine, start, stub  # noqa: F401
from conftest import LODE
from making import elf, fetch, new_id
from pushing import put


def lode(bucket, *args, data=None):
    r = subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=120, env={**os.environ, **bucket.env()})
    assert r.returncode == 0, (r.stdout, r.stderr)
    return r.stdout


def objects(bucket, tmp_path):
    return {o["key"]: o for o in json.loads(lode(bucket, "store", "ls", "--json", "--store", STORE, "--data", tmp_path / "own"))}


def pushed(s, elf, name):
    """A debug file that the service has taken: build ID, path, bytes."""
    build_id = new_id(name)
    content = elf.of(elf.debug, build_id)
    path = f"/buildid/{build_id}/debuginfo"
    assert put(s, path, content)[0] == 201
    return build_id, path, content


def test_what_is_pushed_is_in_the_bucket_and_served_by_a_new_node(engine, start, elf, tmp_path):
    s = start(engine)
    build_id, path, content = pushed(s, elf, "pushed")
    assert put(s, path, content)[1]["X-LODE-RESULT"] == "same"
    assert fetch(s, path) == (200, content, True)
    assert s.get(path, headers={"Range": "bytes=100-199"}).body == content[100:200]
    assert s.get(f"/buildid/{new_id('nowhere')}/debuginfo").status == 404
    assert list(objects(engine, tmp_path)) == [f"{build_id}/debuginfo"]
    s.stop()
    other = start(engine, "another node")
    assert fetch(other, path) == (200, content, True)
    r = json.loads(lode(engine, "store", "verify", "--json", "--store", STORE, "--data", tmp_path / "own"))
    assert r["bad"] == []
    assert SECRET not in s.log_path.read_text() + other.log_path.read_text()


def noisy(elf, folder, build_id, size):
    """A debug file with @size bytes that do not compress."""
    (folder / "noise").write_bytes(random.Random(1).randbytes(size))
    (folder / "x").write_bytes(elf.debug)
    subprocess.run(["objcopy", "--add-section", f".noise={folder / 'noise'}", str(folder / "x")], check=True)
    return elf.of((folder / "x").read_bytes(), build_id)


def test_a_content_is_on_the_disk_once(stub, start, elf, tmp_path):
    """In the cache of contents, not in that of ranges."""
    build_id = new_id("once")
    path, content = f"/buildid/{build_id}/debuginfo", noisy(elf, tmp_path, build_id, 9 << 20)
    s = start(stub)
    assert put(s, path, content)[0] == 201
    s.stop()
    s = start(stub, "another node")
    assert fetch(s, path) == (200, content, True)
    assert len(os.listdir(s.data / "bucket" / "cache")) == 1
    assert os.listdir(s.data / "s3-cache") == []


@pytest.mark.slow
def test_a_large_file_is_uploaded_in_parts(engine, start, elf, tmp_path):
    build_id = new_id("large")
    content = noisy(elf, tmp_path, build_id, 40 << 20)
    s = start(engine)
    assert put(s, f"/buildid/{build_id}/debuginfo", content)[0] == 201
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    if engine.requests:
        assert len([r for r in engine.requests if r[0] == "PART"]) == 6, "\n".join(str(r) for r in engine.requests)


def test_versions_without_end_do_not_fill_the_memory(stub, start, elf):
    s = start(stub)
    build_id, other = new_id("much"), new_id("other")
    for i in (build_id, other):
        assert put(s, f"/buildid/{i}/debuginfo", elf.of(elf.debug, i))[0] == 201
    s.stop()
    name = next(k for k in stub.objects if f"{build_id}.debuginfo!" in k)
    mark, version = name.split("!")[0], name.split("!")[1]
    for n in range(10_001):
        stub.objects[f"{mark}!{n + 2:016x}.{n + 1:016x}{version[33:]}"] = stub.objects[name]
    s = start(stub)
    r = s.get(f"/buildid/{build_id}/debuginfo", timeout=100)
    assert r.status == 503 and b"more than 10000 versions" in r.body, r
    assert fetch(s, f"/buildid/{other}/debuginfo")[0] == 200


@pytest.mark.slow
def test_what_is_removed_is_collected(engine, start, elf, tmp_path):
    s = start(engine)
    ids = [new_id("removed", i) for i in range(3)]
    for i in ids:
        assert put(s, f"/buildid/{i}/debuginfo", elf.of(elf.debug, i))[0] == 201
    s.stop()
    lode(engine, "store", "rm", "--store", STORE, "--data", tmp_path / "own", f"{ids[0]}/debuginfo")
    time.sleep(3.5)  # contents put a moment ago are left alone
    r = json.loads(lode(engine, "store", "gc", "--json", "--store", STORE, "--data", tmp_path / "own"))
    assert r["contents_removed"] == 1
    assert sorted(objects(engine, tmp_path)) == sorted(f"{i}/debuginfo" for i in ids[1:])
    s = start(engine)
    for i in ids[1:]:
        assert fetch(s, f"/buildid/{i}/debuginfo") == (200, elf.of(elf.debug, i), True)


def overlap(spans):
    """The most of them that ran at once."""
    ends = sorted([(s[0], 1) for s in spans] + [(s[1], -1) for s in spans])
    return max(itertools.accumulate(step for _, step in ends))


@pytest.mark.slow
def test_the_requests_of_a_collection_run_side_by_side(stub, start, elf, tmp_path):
    s = start(stub)
    ids = [new_id("marks", i) for i in range(24)]
    for i in ids:
        assert put(s, f"/buildid/{i}/debuginfo", elf.of(elf.debug, i))[0] == 201
    s.stop()
    lode(stub, "store", "rm", "--store", STORE, "--data", tmp_path / "own", *(f"{i}/debuginfo" for i in ids))
    time.sleep(3.5)  # contents put a moment ago are left alone
    stub.delay, stub.spans = 0.1, []
    r = json.loads(lode(stub, "store", "gc", "--json", "--store", STORE, "--data", tmp_path / "own"))
    stub.delay = 0
    assert r["contents_removed"] == len(ids)
    for method, what in [("PUT", "/dying/"), ("DELETE", "/data/"), ("DELETE", "/dying/")]:
        of = [x for x in stub.spans if x[2] == method and what in x[3]]
        assert len(of) == len(ids) and overlap(of) >= 12, (method, what, len(of), overlap(of))
    # All marks are there before the first listing of the records, and that before the first removal.
    marked = max(x[1] for x in stub.spans if x[2] == "PUT" and "/dying/" in x[3])
    listed = [x for x in stub.spans if x[2] == "GET" and "keys%2F&" in x[3] + "&" and x[0] > marked]
    assert listed and listed[0][1] < min(x[0] for x in stub.spans if x[2] == "DELETE"), stub.spans
    assert not [k for k in stub.objects if "/dying/" in k or "/data/" in k]


@pytest.mark.slow
def test_what_was_read_is_served_while_the_bucket_is_away(stub, start, elf):
    s = start(stub, args=["--cache-size", "0"])
    build_id, path, content = pushed(s, elf, "kept")
    assert fetch(s, path) == (200, content, True)
    assert s.get(f"/buildid/{build_id}/section/.debug_line").status == 200
    stub.away = True
    # Another section: not a reply in memory.
    assert s.get(f"/buildid/{build_id}/section/.debug_info").status == 200
    text = [line for line in s.get("/metrics").body.decode().splitlines() if line.startswith("lode_store_cache_")]
    assert 'lode_store_cache_reads_total{where="fetched"} 1' in text and any('where="kept"' in line for line in text), text
    assert any(line.startswith("lode_store_cache_stale_records_total ") for line in text), text
    assert abs(s.metric("lode_s3_away_since_seconds") - time.time()) < 60
    store = json.loads(s.get("/api/status").body)["store"]
    assert store["where"] == "bucket" and store["cache"]["bytes"] > 0 and store["cache"]["hits"] > 0, store
    stub.away = False
    assert s.get(f"/buildid/{build_id}/section/.debug_str").status == 200
    assert s.metric("lode_s3_away_since_seconds") == 0
    s.stop()
    # Another process has the files. A damaged one is fetched again.
    kept, = (p for p in (s.data / "bucket" / "cache").iterdir() if p.name != "lock")
    kept.write_bytes(b"x" + kept.read_bytes()[1:])
    s = start(stub, args=["--cache-size", "0"])
    assert fetch(s, path) == (200, content, True)
    assert "a damaged file of the cache" in s.log_path.read_text()
    s.stop()
    s = start(stub, args=["--cache-size", "0", "--store-cache", "0"])
    assert fetch(s, path) == (200, content, True)
    assert "lode_store_cache_reads_total{" not in s.get("/metrics").body.decode()


@pytest.mark.slow
def test_a_program_with_debug_information_is_served_while_the_bucket_is_away(stub, start, tmp_path):
    """It is its own debug file; whether the bucket has another one cannot be known now, and need not be."""
    build_id, program = new_id("program"), tmp_path / "program"
    (tmp_path / "x.c").write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{build_id}", "-o", program, tmp_path / "x.c"], check=True)
    s = start(stub, args=["--cache-size", "0", "--memory-cache", "1"])
    content, path = program.read_bytes(), f"/buildid/{build_id}/debuginfo"
    assert put(s, f"/buildid/{build_id}/executable", content)[0] == 201
    assert fetch(s, path) == (200, content, True)
    stub.away = True
    assert fetch(s, path) == (200, content, True)
    assert s.get(f"/buildid/{build_id}/section/.debug_info").status == 200
    r = s.get(f"/buildid/{build_id}/section/.debug_none")
    assert r.status == 503 and b"No such" not in r.body, (r.status, r.body)


def test_bytes_that_were_damaged_on_their_way_are_read_again(stub, start, elf):
    s = start(stub)
    build_id, path, content = pushed(s, elf, "flipped")
    s.stop()
    for n in range(8):
        # Not what the process before has kept, but what this one does: ranges in memory and on disk, and what it knows of the content.
        s = start(stub, f"node {n}", args=["--cache-size", "0", "--store-cache", "0"])
        stub.faults = [None] * n + ["flipped"]
        assert fetch(s, path) == (200, content, True), n
        stub.faults = []
        assert s.get(f"/buildid/{build_id}/section/.debug_line").status == 200, n
        s.stop()


@pytest.mark.slow
def test_a_bucket_that_hangs_does_not_delay_the_start(stub, start, elf):
    s = start(stub)
    _, path, content = pushed(s, elf, "hangs")
    s.stop()
    stub.hangs.set()
    from_s = time.monotonic()
    s = start(stub, args=["--store-cache", "0", "--cache-size", "0"])
    assert time.monotonic() - from_s < 15
    assert "no answer in 3 s" in s.log_path.read_text()
    replies = []
    t = threading.Thread(target=lambda: replies.append(s.get(path, timeout=120)))
    t.start()
    time.sleep(1)
    assert s.get("/healthz").status == 200
    t.join(120)
    assert replies[0].status == 503 and b"s3://bucket" in replies[0].body, replies[0].body
    stub.hangs.clear()
    stub.answers.set()
    s.wait(lambda: s.get(path).status == 200, "the bucket to be used again")
    assert fetch(s, path) == (200, content, True)


@pytest.mark.slow
def test_while_the_bucket_is_away_nothing_is_404(stub, start, elf):
    s = start(stub)
    _, path, content = pushed(s, elf, "away")
    stub.away = True
    status, _, text = put(s, f"/buildid/{new_id('refused')}/debuginfo", elf.of(elf.debug, new_id("refused")))
    assert status == 503 and "s3://bucket" in text, text
    r = s.get(f"/buildid/{new_id('unknown')}/debuginfo")
    assert r.status == 503 and b"s3://bucket" in r.body, r.body
    stub.away = False
    s.wait(lambda: s.get(path).status == 200, "the bucket to be used again")
    assert s.get(path).body == content
    assert put(s, f"/buildid/{new_id('refused')}/debuginfo", elf.of(elf.debug, new_id("refused")))[0] == 201


@pytest.mark.slow
def test_two_services_push_and_collect_and_are_killed(engine, start, elf, tmp_path):
    """Nothing that was acknowledged is lost."""
    ids = [new_id("both", i) for i in range(12)]
    acked, stop, lock = set(), threading.Event(), threading.Lock()
    nodes = [start(engine, "node 0"), start(engine, "node 1")]

    def pusher(n):
        r = random.Random(n)
        while not stop.is_set():
            i = r.choice(ids)
            try:
                if put(nodes[n % 2], f"/buildid/{i}/debuginfo", elf.of(elf.debug, i))[0] in (200, 201):
                    with lock:
                        acked.add(i)
            except (OSError, http.client.HTTPException):  # the service was killed, perhaps in the middle of its answer
                time.sleep(0.1)

    def collector():
        while not stop.is_set():
            lode(engine, "store", "gc", "--store", STORE, "--data", tmp_path / "own")

    threads = [threading.Thread(target=pusher, args=(n,)) for n in range(4)] + [threading.Thread(target=collector)]
    for t in threads:
        t.start()
    for n in (0, 1, 0):
        time.sleep(1.5)
        nodes[n].stop(signal.SIGKILL)
        nodes[n] = start(engine, f"node {n}")
    time.sleep(1)
    stop.set()
    for t in threads:
        t.join()
    assert acked
    s = start(engine, "a third one")
    for i in sorted(acked):
        assert fetch(s, f"/buildid/{i}/debuginfo") == (200, elf.of(elf.debug, i), True)
    r = json.loads(lode(engine, "store", "verify", "--json", "--store", STORE, "--data", tmp_path / "own"))
    assert [b for b in r["bad"] if any(i in str(b) for i in acked)] == []


def test_a_store_is_copied_into_a_bucket_and_back(engine, start, elf, tmp_path):
    s = start(engine)
    build_id = new_id("copied")
    content = elf.of(elf.debug, build_id)
    assert put(s, f"/buildid/{build_id}/debuginfo", content)[0] == 201
    s.stop()
    own = ["--data", tmp_path / "own"]
    lode(engine, "store", "copy", STORE, tmp_path / "folder", *own)
    lode(engine, "store", "copy", tmp_path / "folder", "s3://bucket/b", *own)
    for where in (tmp_path / "folder", "s3://bucket/b"):
        assert [o["key"] for o in json.loads(lode(engine, "store", "ls", "--json", "--store", where, *own))] == [f"{build_id}/debuginfo"]
        assert json.loads(lode(engine, "store", "verify", "--json", "--store", where, *own))["bad"] == []
