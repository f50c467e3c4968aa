# SPDX-License-Identifier: Apache-2.0
"""A bucket that hangs: requests that need it wait, all others are answered as fast as ever."""

import http.client
import signal
import threading
import time

import pytest

from bucket_engines import stub as bucket  # noqa: F401
from making import debug_deb, elf, fetch_right, new_id

N_WAITING = 30
SILENT_S = 10  # a request to a bucket that is silent for so long has failed
ROUND, AT_ONCE_S, BUSY_S = 10, 1, 6


def answered_at_once(s, path, status):
    """ROUND requests in a row have this answer, each within a second. After one that took longer, as on a busy machine, a new round
    begins, for as long as is left of BUSY_S, which is less than SILENT_S."""
    end, n, took = time.monotonic() + BUSY_S, 0, 0
    while n < ROUND:
        from_s = time.monotonic()
        assert from_s < end, f"{path} took {took:.3f} s"
        assert s.get(path).status == status, path
        took = time.monotonic() - from_s
        n = n + 1 if took < AT_ONCE_S else 0


def ask_for(s, ids, ended=False):
    """Requests, each on a connection of its own, that wait for the bucket. Returns the threads and their replies. @ended: the
    service will end meanwhile."""
    replies = []

    def read(c):
        try:
            r = c.getresponse()
            replies.append((r.status, r.read()))
        except (OSError, http.client.HTTPException):
            assert ended
        c.close()

    # All are connected before the first one asks: on a busy machine so many threads would take longer to ask than SILENT_S.
    clients = [http.client.HTTPConnection("127.0.0.1", s.port, timeout=120) for _ in ids]
    for c in clients:
        c.connect()
    for c, build_id in zip(clients, ids):
        c.request("GET", f"/buildid/{build_id}/debuginfo")
    threads = [threading.Thread(target=read, args=(c,), daemon=True) for c in clients]
    for t in threads:
        t.start()
    return threads, replies


def hanging_service(serve, bucket, elf, *more):
    """A service with one cached artifact, whose bucket hangs after the scan, and the build IDs that it has to be asked for."""
    bucket.objects["debs/cached.deb"] = debug_deb("xz", elf.id, elf.debug)
    ids = [new_id("hanging", i) for i in range(N_WAITING)]
    for i in ids:
        bucket.objects[f"debs/{i}.deb"] = debug_deb("xz", i, elf.of(elf.debug, i))
    s = serve(["s3://bucket/debs"], args=["--s3-cache", "1", "--s3-disk-cache", "0", "--rescan", "0", *more], extra=bucket.env())
    s.scanned()
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    bucket.hangs.set()
    return s, ids


@pytest.mark.slow
def test_a_bucket_that_hangs_holds_no_worker(serve, bucket, elf):
    s, ids = hanging_service(serve, bucket, elf, "--workers", "2")
    from_s = time.monotonic()
    threads, replies = ask_for(s, ids)
    s.wait(lambda: s.metric("lode_workers_waiting") == N_WAITING, "all requests wait for the bucket")
    paths = {f"/buildid/{elf.id}/debuginfo": 200, "/healthz": 200, "/metrics": 200,
             f"/buildid/{new_id('unknown')}/debuginfo": 404, "/metadata?key=glob&value=/usr/*": 200}
    for path, status in paths.items():
        answered_at_once(s, path, status)
    # A busy machine may take longer for all that than the service waits for a silent bucket; its reply has the reason then.
    in_time = time.monotonic() - from_s < SILENT_S - 1
    assert not replies or not in_time, replies
    bucket.hangs.clear()
    bucket.answers.set()
    for t in threads:
        t.join(60)
    # The connections that hung were closed, and the requests repeated.
    failed = [body for status, body in replies if status != 200]
    assert len(replies) == N_WAITING and not (failed and in_time), failed
    assert all(b"s3://bucket/debs/" in body for body in failed), failed
    for i in ids if failed else ():
        s.wait(lambda: s.get(f"/buildid/{i}/debuginfo").status == 200, "the bucket answers again")
    s.wait(lambda: s.metric("lode_workers_waiting") == 0, "no request waits any more")


@pytest.mark.slow
def test_the_service_ends_while_the_bucket_hangs(serve, bucket, elf):
    s, ids = hanging_service(serve, bucket, elf)
    ask_for(s, ids[:10], ended=True)
    s.wait(lambda: s.metric("lode_workers_waiting") == 10, "the requests wait for the bucket")
    from_s = time.monotonic()
    s.stop(signal.SIGTERM)
    assert time.monotonic() - from_s < 15
