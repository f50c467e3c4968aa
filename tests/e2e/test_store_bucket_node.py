# SPDX-License-Identifier: Apache-2.0
"""What one node knows of packages in a bucket is in the store, in a bucket too: another node needs no scan."""

import hashlib
import os
import random
import subprocess
import time

import pytest

from bucket import hedges
from bucket_engines import STORE, engine, stub  # noqa: F401
from conftest import LODE
from making import PACKERS, deb, debug_deb, debug_path, elf, fetch, new_id, tar_of


@pytest.fixture
def node(serve, tmp_path):
    def start(bucket, name, *args, roots=("debs",), **env):
        return serve([f"s3://bucket/{r}" for r in roots], args=["--store", STORE, *args], extra=bucket.env(**env), data=tmp_path / name)

    return start


def gave(s):
    s.wait(lambda: "info  facts: gave what is known of" in s.log_path.read_text(), "a snapshot was given", 30)


def took(s):
    return "info  facts: took what other nodes know" in s.log_path.read_text()


def large_deb(e):
    """With resume points that need a file of their own."""
    noise = [(f"usr/share/noise{i}", random.Random(i).randbytes(6 << 20)) for i in range(5)]
    return deb(PACKERS["gz"](tar_of([*noise[:3], (debug_path(e.id), e.debug), *noise[3:]])), "gz")


def fill(bucket, e):
    """The build IDs in three packages, two of which list none."""
    ids = [new_id("node", i) for i in range(2)]
    for i, compression in enumerate(["xz", "zst"]):
        bucket.objects[f"debs/p{i}.deb"] = debug_deb(compression, ids[i], e.of(e.debug, ids[i]))
    bucket.objects["debs/large.deb"] = large_deb(e)
    return [*ids, e.id]


def served(s, build_id, content):
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)


def keys(bucket, prefix):
    return sorted(k for k in bucket.objects if k.startswith(f"a/store/{prefix}"))


@pytest.mark.slow
def test_a_node_with_an_empty_disk_needs_no_scan(engine, node, elf, tmp_path):
    ids = fill(engine, elf)
    a = node(engine, "a").scanned()
    gave(a)
    a.stop()
    if engine.requests:
        engine.forget()
    b = node(engine, "b").scanned()
    assert took(b), b.log_path.read_text()
    for i in ids:
        served(b, i, elf.of(elf.debug, i))
    assert b.get(f"/buildid/{new_id('nowhere')}/debuginfo").status == 404
    assert len(list((tmp_path / "b" / "points").iterdir())) == 1
    if engine.requests:
        # Of packages, nothing but the ranges of what was asked for: no head, no payload from end to end.
        large = [r for r in engine.gets() if r[0] == "debs/large.deb"]
        assert sum(r[2] for r in large) < len(engine.objects["debs/large.deb"]) / 2, large
        assert 1 <= [k for k, *_ in engine.gets()].count(keys(engine, "points/")[0]) <= 1 + hedges(b)
        # It knows nothing that others do not.
        assert not [r for r in engine.requests if r[0] == "PUT" and "/index/" in r[1]], engine.requests


@pytest.mark.slow
def test_a_package_that_was_replaced_meanwhile_is_scanned(engine, node, elf):
    ids = fill(engine, elf)
    a = node(engine, "a").scanned()
    gave(a)
    a.stop()
    other = new_id("other")
    engine.objects["debs/p0.deb"] = debug_deb("xz", other, elf.of(elf.debug, other))
    del engine.objects["debs/p1.deb"]
    b = node(engine, "b").scanned()
    assert took(b)
    served(b, other, elf.of(elf.debug, other))
    for gone in ids[:2]:
        b.wait(lambda: b.get(f"/buildid/{gone}/debuginfo").status == 404, "the old rows are gone")
    gave(b)


@pytest.mark.slow
def test_rows_of_other_roots_are_not_taken(stub, node, elf):
    ids = fill(stub, elf)
    apart = new_id("apart")
    stub.objects["debs-other/x.deb"] = debug_deb("xz", apart, elf.of(elf.debug, apart))
    a = node(stub, "a", roots=("debs", "debs-other")).scanned()
    gave(a)
    a.stop()
    b = node(stub, "b").scanned()
    assert took(b)
    assert b.get(f"/buildid/{apart}/debuginfo").status == 404
    served(b, ids[0], elf.of(elf.debug, ids[0]))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["piece", "cut", "gone", "manifest", "sqlite"])
def test_a_damaged_snapshot_costs_a_scan(stub, node, elf, damage):
    ids = fill(stub, elf)
    a = node(stub, "a").scanned()
    gave(a)
    a.stop()
    manifest, piece = keys(stub, "index/")
    data = bytearray(stub.objects[piece])
    data[len(data) // 2] ^= 1
    if damage == "piece":
        stub.objects[piece] = bytes(data)
    elif damage == "cut":
        stub.objects[piece] = stub.objects[piece][:-1]
    elif damage == "gone":
        del stub.objects[piece]
    elif damage == "manifest":
        stub.objects[manifest] = stub.objects[manifest].replace(b"size", b"sise")
    else:
        # Right digests of a file that is no index.
        body = subprocess.run(["zstd", "-c"], input=b"x" * 5000, capture_output=True, check=True).stdout
        stub.objects[piece] = body
        stub.objects[manifest] = (f"lode-index 1\nsize 5000\nrows 3\nfingerprint {'0' * 15}1\npiece {len(body)} "
                                  f"{hashlib.sha256(body).hexdigest()}\nend\n").encode()
    b = node(stub, "b").scanned()
    log = b.log_path.read_text()
    assert not took(b) and "not taken" in log and "no snapshot could be taken" in log, log
    for i in ids:
        served(b, i, elf.of(elf.debug, i))


@pytest.mark.slow
def test_points_that_are_gone_or_damaged_are_made_again(stub, node, elf):
    fill(stub, elf)
    a = node(stub, "a").scanned()
    gave(a)
    a.stop()
    name = keys(stub, "points/")[0]
    whole = stub.objects[name]
    for at, damaged in enumerate([None, whole[:100] + bytes([whole[100] ^ 255]) + whole[101:], whole[:-1]]):
        stub.objects.pop(name, None)
        if damaged:
            stub.objects[name] = damaged
        b = node(stub, f"b{at}").scanned()
        assert took(b)
        b.wait(lambda: b.get(f"/buildid/{elf.id}/debuginfo").status == 200, "it is served")
        served(b, elf.id, elf.debug)
        b.stop()


@pytest.mark.slow
def test_two_nodes_that_scan_at_once_both_give(stub, node, elf):
    ids = fill(stub, elf)
    both = [node(stub, name) for name in "ab"]
    for s in both:
        s.scanned()
    both[0].wait(lambda: any("facts: gave" in s.log_path.read_text() for s in both), "one gave", 30)
    for s in both:
        s.stop()
    c = node(stub, "c").scanned()
    assert took(c)
    for i in ids:
        served(c, i, elf.of(elf.debug, i))


@pytest.mark.slow
def test_without_the_bucket_it_starts_all_the_same(stub, node, elf):
    ids = fill(stub, elf)
    a = node(stub, "a").scanned()
    gave(a)
    a.stop()
    stub.away = True
    b = node(stub, "b")
    b.wait(lambda: b.get("/healthz").status == 200, "it answers")
    assert b.get(f"/buildid/{ids[0]}/debuginfo").status == 503
    stub.away = False
    b.wait(lambda: b.get(f"/buildid/{ids[0]}/debuginfo").status == 200, "the bucket is back", 90)


@pytest.mark.slow
def test_what_others_put_there_does_not_begin_a_store(stub, node, elf):
    """A snapshot in a prefix without the store's marker would keep the store from beginning there."""
    fill(stub, elf)
    a = node(stub, "a").scanned()
    gave(a)
    assert stub.objects["a/store/lode-store"]
    put = [r[1] for r in stub.requests if r[0] == "PUT"]
    assert put.index("a/store/lode-store") < min(i for i, k in enumerate(put) if "/index/" in k)
    # A folder of this machine is nobody else's business.
    assert b"/usr/" not in b"".join(stub.objects[k] for k in keys(stub, "index/"))
    assert os.listdir(a.data / "points")


@pytest.mark.slow
def test_a_store_below_a_served_prefix_is_not_indexed(stub, node, elf):
    ids = fill(stub, elf)
    a = node(stub, "a", "--rescan", "1", roots=("",)).scanned()
    gave(a)
    walked = len([r for r in stub.requests if r[0] == "LIST" and not r[1]])
    stub.requests = [r for r in stub.requests if r[0] == "LIST"]
    a.wait(lambda: len([r for r in stub.requests if r[0] == "LIST" and not r[1]]) > walked + 1, "two more walks")
    assert not [k for k, *_ in stub.gets() if k.startswith("a/store/index/") and not k.endswith(".manifest")], stub.gets()
    served(a, ids[0], elf.of(elf.debug, ids[0]))


YEAR_AHEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int r = real(id, ts);

	if (id == CLOCK_REALTIME)
		ts->tv_sec += 365 * 86400;
	return r;
}
"""


@pytest.fixture
def year_ahead(tmp_path):
    """The environment of a process whose clock is a year ahead."""
    (tmp_path / "ahead.c").write_text(YEAR_AHEAD)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "ahead.so", tmp_path / "ahead.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(tmp_path / "ahead.so")}


def last_manifest(bucket):
    """The request that put it."""
    return max(i for i, r in enumerate(bucket.requests) if r[0] == "PUT" and r[1].endswith(".manifest"))


@pytest.mark.slow
def test_a_node_whose_clock_is_ahead_removes_nothing_of_others(stub, node, elf, year_ahead, tmp_path):
    """Snapshots that somebody may be taking, points, an unfinished upload, and the mark of a collection that goes on."""
    fill(stub, elf)
    a = node(stub, "a").scanned()
    gave(a)
    a.stop()
    given = keys(stub, "index/")
    others = [f"index/{i:011x}{i:013x}.manifest" for i in range(1, 4)]
    others += ["points/0123456789abcdef-0123456789abcdef", f"incoming/{'0' * 32}!facts", f"dying/ab/{'ab' * 32}!{'0' * 24}!{'0' * 15}1"]
    for name in others:
        stub.objects[f"a/store/{name}"] = b"x"
        stub.times[f"a/store/{name}"] = time.time() - 600
    stub.objects["debs/more.deb"] = debug_deb("xz", new_id("more"), elf.of(elf.debug, new_id("more")))
    stub.forget()
    b = node(stub, "b", **year_ahead).scanned()
    gave(b)
    # The removal of older ones begins with a listing.
    b.wait(lambda: ("LIST", "a/store/index/") in [r[:2] for r in stub.requests[last_manifest(stub):]], "older snapshots were listed", 30)
    env = {**os.environ, **stub.env(), **year_ahead}
    subprocess.run([LODE, "store", "gc", "--store", STORE, "--data", tmp_path / "gc"], env=env, check=True, timeout=60)
    b.stop()
    assert set(given) | {f"a/store/{name}" for name in others} <= set(stub.objects)
    # Of two days ago.
    for name in others:
        stub.times[f"a/store/{name}"] -= 2 * 86400
    subprocess.run([LODE, "store", "gc", "--store", STORE, "--data", tmp_path / "gc"], env=env, check=True, timeout=60)
    assert not keys(stub, "dying/") and not keys(stub, "incoming/")
