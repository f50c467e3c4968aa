# SPDX-License-Identifier: Apache-2.0
"""Pushes into a store in a bucket: how often the bucket is asked, and large ones that are interrupted."""

import random
import signal
import socket
import subprocess
import threading
import time

import pytest

from bucket_engines import running, start, stub  # noqa: F401
from conftest import LODE
from making import elf, fetch, new_id  # noqa: F401
from pushing import bearer, lode, one, put, sha, token, want

PART = 8 << 20
PARTS = r'lode_s3_requests_total\{what="part",outcome="done"\}'


def about(bucket, *words):
    """The requests with one of these words in their target: the service has others of its own, as its walk at the start."""
    return [s for s in bucket.spans if any(w in s[3] for w in words)]


def rounds(spans):
    """The longest chain of requests of which each began after the one before had ended."""
    n, end = 0, 0.0
    for began, ended, *_ in sorted(spans, key=lambda s: s[1]):
        if began >= end:
            n, end = n + 1, ended
    return n


def large(elf, tmp_path, name, size):
    """An ELF file with @size bytes that do not compress."""
    build_id = new_id(name)
    (tmp_path / "noise").write_bytes(random.Random(name).randbytes(size))
    (tmp_path / "x").write_bytes(elf.debug)
    subprocess.run(["objcopy", "--add-section", f".noise={tmp_path / 'noise'}", str(tmp_path / "x")], check=True)
    return build_id, elf.of((tmp_path / "x").read_bytes(), build_id)


def wait_for(what, fn, seconds=60):
    end = time.monotonic() + seconds
    while not fn():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def test_a_small_push_is_five_round_trips(stub, start, elf):
    s = start(stub)
    put(s, f"/buildid/{new_id('first')}/debuginfo", elf.of(elf.debug, new_id("first")))
    stub.delay, stub.spans = 0.1, []
    build_id = new_id("round trips")
    content = elf.of(elf.debug, build_id)
    assert want(s, one(build_id, content))[0]["want"]
    asked = about(stub, build_id)
    assert len(asked) == 2 and rounds(asked) == 1, asked
    stub.spans = []
    status, headers, _ = put(s, f"/buildid/{build_id}/debuginfo", content, {"X-LODE-SHA256": sha(content)})
    assert (status, headers["X-LODE-RESULT"]) == (201, "stored")
    stub.delay = 0
    # The stub notes a request after its answer.
    wait_for("eight requests", lambda: len(about(stub, build_id, sha(content))) >= 8)
    asked = about(stub, build_id, sha(content))
    assert rounds(asked) <= 5 and sorted(s[2] for s in asked) == ["GET"] * 5 + ["HEAD", "PUT", "PUT"], asked
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)


def test_a_want_list_is_looked_up_together(stub, start, elf):
    s = start(stub)
    ids = [new_id("wanted", i) for i in range(48)]
    stub.delay = 0.05
    stub.spans = []
    assert all(o["want"] for o in want(s, *[one(i, b"x") for i in ids]))
    # 96 listings, 16 at once.
    asked = about(stub, *ids)
    assert len(asked) == 96 and rounds(asked) <= 10


def test_a_bucket_that_is_slow_holds_no_other_request_up(stub, start, elf):
    """What a push is refused for is asked by a worker, not by the thread of all connections."""
    s = start(stub)
    stub.delay = 2
    build_id = new_id("slow")
    content = elf.of(elf.debug, build_id)
    with socket.create_connection(("127.0.0.1", s.port)) as c:
        c.sendall(f"PUT /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: localhost\r\nX-LODE-SHA256: {sha(content)}\r\n"
                  f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
        time.sleep(0.3)
        for _ in range(5):
            t0 = time.monotonic()
            assert s.get("/healthz").status == 200
            assert time.monotonic() - t0 < 1
        stub.delay = 0


def test_another_owner_is_found_in_a_bucket(stub, start, tmp_path):
    s = start(stub)
    mine, other = token(s, "mine"), token(s, "other")
    build_id = new_id("owned")
    (tmp_path / "x.c").write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{build_id}", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", tmp_path / "x", tmp_path / "x.debug"], check=True)
    program, debug = (tmp_path / "x").read_bytes(), (tmp_path / "x.debug").read_bytes()
    assert put(s, f"/buildid/{build_id}/executable", program, bearer(mine))[0] == 201
    status, headers, text = put(s, f"/buildid/{build_id}/debuginfo", debug, bearer(other))
    assert (status, headers["X-LODE-RESULT"]) == (409, "owned") and "'mine'" in text
    assert put(s, f"/buildid/{build_id}/debuginfo", debug, bearer(mine))[0] == 201
    s2 = start(stub, "another node")
    assert fetch(s2, f"/buildid/{build_id}/debuginfo") == (200, debug, True)


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["lode", "client"])
@pytest.mark.parametrize("kind", ["stub", "versitygw"])
def test_a_large_push_goes_on_after_a_kill(kind, killed, start, elf, tmp_path):
    """Each byte is sent to the bucket once, but for the parts that were under way when lode was killed."""
    with running(kind, tmp_path) as bucket:
        s = start(bucket)
        build_id, content = large(elf, tmp_path, f"kill {killed} {kind}", 90 << 20)
        (tmp_path / "large.debug").write_bytes(content)
        bucket.part_delay = 0.3
        half = len(content) // 2
        if killed == "client":
            with socket.create_connection(("127.0.0.1", s.port)) as c:
                c.sendall(f"PUT /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: localhost\r\nX-LODE-SHA256: {sha(content)}\r\n"
                          f"Content-Length: {len(content)}\r\n\r\n".encode() + content[:half])
                wait_for("the parts", lambda: (s.metric(PARTS) or 0) >= 4)
            wait_for("the end of the connection", lambda: want(s, one(build_id, content))[0].get("busy") is None)
        else:
            push = subprocess.Popen([LODE, "push", "--to", s.url, "--retries", "0", str(tmp_path / "large.debug")],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for("the parts", lambda: (s.metric(PARTS) or 0) >= 4)
            s.stop(signal.SIGKILL)
            push.wait(60)
            s = start(bucket)
        offset = want(s, one(build_id, content))[0]["offset"]
        assert offset > 4 * PART, offset
        bucket.part_delay = 0
        r = lode("push", "--to", s.url, str(tmp_path / "large.debug"))
        assert "1 stored" in r.stdout + r.stderr, (r.stdout, r.stderr)
        if kind == "stub":
            assert bucket.n_uploads == 1 and not bucket.uploads, bucket.uploads.keys()
            # Frames and their table take a little more; four parts were under way.
            assert len(content) <= bucket.part_bytes <= len(content) + 5 * PART, bucket.part_bytes
        assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
        other = start(bucket, "another node")
        assert fetch(other, f"/buildid/{build_id}/debuginfo") == (200, content, True)


@pytest.mark.slow
def test_a_push_goes_on_when_the_bucket_is_back(stub, start, elf, tmp_path):
    s = start(stub)
    build_id, content = large(elf, tmp_path, "away", 40 << 20)
    stub.part_delay = 0.2

    def leaves():
        wait_for("two parts", lambda: stub.part_bytes >= 2 * PART)
        stub.away = True

    t = threading.Thread(target=leaves)
    t.start()
    status, _, text = put(s, f"/buildid/{build_id}/debuginfo", content, {"X-LODE-SHA256": sha(content)})
    t.join()
    assert status == 503 and "push again later" in text, text
    stub.away, stub.part_delay = False, 0
    answer = want(s, one(build_id, content))[0]
    assert answer["want"] and answer["offset"] > 30 << 20, answer
    rest = content[answer["offset"]:]
    status, headers, _ = put(s, f"/buildid/{build_id}/debuginfo", rest, {
        "X-LODE-SHA256": sha(content), "Content-Range": f"bytes {answer['offset']}-{len(content) - 1}/{len(content)}"})
    assert (status, headers["X-LODE-RESULT"]) == (201, "stored")
    # Frames of zstd are a little longer than what does not compress, and two parts are on their way at once.
    assert len(content) <= stub.part_bytes <= 1.001 * len(content) + 2 * PART, stub.part_bytes
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    assert not stub.uploads
