# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any instant: nothing committed is lost, nothing half-written is served. LODE_KILLS=200 for the long run."""

import os
import random
import signal
import sqlite3
import time

import pytest

from conftest import Program, make_deb, tree_of


@pytest.mark.slow
def test_kill_minus_nine(serve, tmp_path):
    rng = random.Random(7)
    pool = tmp_path / "pool"
    pool.mkdir()
    programs = [Program(tmp_path / f"p{i}", f"hello{i}") for i in range(6)]
    for i, p in enumerate(programs):
        make_deb(tree_of(p, tmp_path / f"root{i}"), pool / f"hello{i}.deb", ["xz", "zstd", "gzip"][i % 3])
    answered = set()
    data = tmp_path / "data"
    for n in range(int(os.environ.get("LODE_KILLS", "6"))):
        s = serve([pool], data=data, args=["--rescan", "1"])
        end = time.monotonic() + rng.uniform(0.01, 0.6)
        while time.monotonic() < end:
            p = rng.choice(programs)
            try:
                r = s.get(f"/buildid/{p.build_id}/debuginfo", timeout=5)
            except OSError:
                continue
            if r.status == 200:
                assert r.body == p.debug.read_bytes()
                answered.add(p.name)
        s.stop(signal.SIGKILL)
        for db in data.glob("index.sqlite"):
            assert sqlite3.connect(f"file:{db}?mode=ro", uri=True).execute("PRAGMA integrity_check").fetchone()[0] == "ok", n
        # a touched file is scanned again
        os.utime(pool / f"hello{n % 6}.deb")
    s = serve([pool], data=data).scanned()
    for p in programs:
        r = s.get(f"/buildid/{p.build_id}/debuginfo")
        assert r.status == 200 and r.body == p.debug.read_bytes()
        assert s.get(f"/buildid/{p.build_id}/source{p.source_path}").body == p.source.read_bytes()
    assert answered
