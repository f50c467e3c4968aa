# SPDX-License-Identifier: Apache-2.0
"""Seeded faults of a bucket, while packages out of it are served.

Oracle: a reply is right, byte for byte, or it is 503 and says what failed in which object, or it breaks off. A build ID that is in the
bucket is never 404. After the faults everything is right again. LODE_BUCKET_FAULTS is the number of faults (200), LODE_SEED the seed (1);
`./dev soak` sets them."""

import http.client
import os
import random
import re
import time

import pytest

from bucket import SECRET
from bucket_engines import stub as bucket  # noqa: F401
from making import debug_deb, elf, fetch_right, new_id

N_FAULTS, SEED = int(os.environ.get("LODE_BUCKET_FAULTS", 200)), int(os.environ.get("LODE_SEED", 1))
N_PACKAGES = 24
NOISE = 400_000  # larger than a range that is fetched, and than files that are kept in memory
# Of one answer. With one of these in a row another try is right.
PASSING = ["slow_down", "cut", "short", "conflict", "expired", "silent", "reset", "black_hole", "other_region"]
# These may end a request with 503.
ENDING = ["wrong_etag", "error_200", "ignore_range", "deny", "flipped", "wrong_range", "huge_length"]
OF_LISTINGS = ["slow_down", "endless", "same_token", "not_xml", "error_200"]
OF_OBJECTS = ["truncated", "longer", "replaced", "removed"]


class Run:
    def __init__(self, s, bucket, packages, rng):
        self.s, self.bucket, self.packages, self.rng = s, bucket, packages, rng
        self.table, self.first_fault = {}, None

    def ask(self, build_id, truth, fault):
        """One request under a fault; its outcome by the oracle."""
        try:
            r = self.s.get(f"/buildid/{build_id}/debuginfo", timeout=60)
        except (OSError, http.client.HTTPException):
            assert self.s.proc.poll() is None, f"the service died: {fault}"
            return "cut"
        if r.status == 200:
            assert r.body == truth, f"wrong bytes: {fault}, {build_id}"
            return "right"
        assert r.status == 503, f"status {r.status} for a build ID that is in the bucket: {fault}: {r.body!r}"
        assert b"s3://bucket/debs/" in r.body, f"no reason: {fault}: {r.body!r}"
        return "refused"

    def count(self, fault, outcome):
        row = self.table.setdefault(fault, {})
        row[outcome] = row.get(outcome, 0) + 1

    def answer_fault(self):
        fault = self.rng.choice(PASSING + ENDING)
        times = 1 if fault in ("silent", "black_hole") else self.rng.choice([1, 1, 2, 8])
        build_id = self.rng.choice(sorted(self.packages))
        self.bucket.faults = [fault] * times
        outcome = self.ask(build_id, self.packages[build_id], fault)
        assert len(self.bucket.faults) < times, f"no request met it: {fault}"
        self.bucket.faults = []
        self.count(fault, outcome)
        if (fault in PASSING or fault == "flipped") and times == 1 and fault != "other_region":
            assert outcome == "right", (fault, outcome)

    def object_fault(self):
        kind = self.rng.choice(OF_OBJECTS)
        build_id = self.rng.choice(sorted(self.packages))
        key = f"debs/{build_id}.deb"
        was = self.bucket.objects[key]
        if kind == "removed":
            del self.bucket.objects[key]
        else:
            self.bucket.objects[key] = {"truncated": was[:self.rng.randrange(len(was))], "longer": was + b"x" * 100,
                                        "replaced": self.rng.randbytes(len(was))}[kind]
        r = self.s.get(f"/buildid/{build_id}/debuginfo", timeout=60)
        # The package is gone, which only the removal makes a 404.
        assert r.status == 503 or (r.status == 404 and kind == "removed") or r.body == self.packages[build_id], (kind, r.status, r.body)
        self.count(kind, "right" if r.status == 200 else "refused")
        self.bucket.objects[key] = was

    def listing_fault(self):
        fault = self.rng.choice(OF_LISTINGS)
        self.bucket.requests = []
        self.bucket.faults = [fault] * (200 if fault == "endless" else 8)
        os.kill(self.s.proc.pid, 10)  # SIGUSR1: rescan
        self.s.wait(lambda: any(r[0] == "LIST" for r in self.bucket.requests), "a listing")
        time.sleep(0.05)
        build_id = self.rng.choice(sorted(self.packages))
        # Only listings fail now.
        status = self.s.get(f"/buildid/{new_id(self.rng.random())}/debuginfo").status
        assert status in (404, 503), (fault, status)
        self.bucket.faults = []
        assert self.ask(build_id, self.packages[build_id], f"listing {fault}") == "right"
        # A listing that still ran would miss the object that the next fault takes away, which is a right 404 then.
        self.s.scanned()
        self.count(f"listing {fault}", status)


@pytest.mark.slow
@pytest.mark.timeout(max(300, N_FAULTS * 2))
def test_seeded_faults(serve, bucket, elf):
    rng = random.Random(SEED)
    packages = {}
    for i in range(N_PACKAGES):
        build_id = new_id("fault", i)
        packages[build_id] = elf.of(elf.debug, build_id) + rng.randbytes(NOISE)
        bucket.objects[f"debs/{build_id}.deb"] = debug_deb(("xz", "zst")[i % 2], build_id, packages[build_id])
    # Nothing is cached, so each request needs the bucket.
    s = serve(["s3://bucket/debs"], args=["--s3-cache", "1", "--s3-disk-cache", "0", "--cache-size", "0", "--memory-cache", "1", "--rescan", "0",
                                       "--unread-wait", "1"],
              extra=bucket.env()).scanned()
    run = Run(s, bucket, packages, rng)
    for _ in range(N_FAULTS):
        rng.choices([run.answer_fault, run.object_fault, run.listing_fault], [16, 3, 1])[0]()
    bucket.answers.set()
    os.kill(s.proc.pid, 10)
    for build_id, truth in packages.items():
        s.wait(lambda: s.get(f"/buildid/{build_id}/debuginfo").status == 200, "everything is right again")
        fetch_right(s, f"/buildid/{build_id}/debuginfo", truth)
    for fault, outcomes in sorted(run.table.items()):
        print(f"{fault:20} {outcomes}")
    log = s.log_path.read_text()
    assert SECRET not in log and not re.search(r"Sanitizer|assert", log)
    assert SECRET not in s.get("/metrics").body.decode()
