# SPDX-License-Identifier: Apache-2.0
"""Formats of profiles by their content alone: every command and route that reads a profile recognises the same ones."""

import gzip
import subprocess
import time

import pytest

from conftest import LODE
from profiling import Pprof, ask, call, fields, message, number

# Go's runtime writes the time first and the strings last.
GO_ORDER = [9, 10, 11, 12, 1, 2, 3, 4, 5, 6]


def like_go(data):
    """The same message with its fields in the order of Go's runtime. No byte of the first 64 KiB is zero."""
    out = {n: b"" for n in GO_ORDER}
    for n, v in fields(data):
        out[n] += number(n, v) if isinstance(v, int) else message(n, v)
    moved = b"".join(out[n] for n in GO_ORDER)
    assert len(moved) == len(data) and 0 not in moved[:1 << 16]
    return moved


def big():
    p = Pprof(time_ms=int(time.time() * 1000), duration_ms=10000)
    for i in range(6000):
        p.sample(["main", f"f{i % 250}", f"g{i % 500}", f"h{i}"], [1, 10])
    return like_go(p.bytes())


@pytest.mark.slow
def test_go_s_order_of_fields_everywhere(s, tmp_path):
    data = big()
    (tmp_path / "cpu").write_bytes(data)
    (tmp_path / "cpu.gz").write_bytes(gzip.compress(data))
    for name in "cpu", "cpu.gz":
        for command in ("profile", name), ("symbolize", name, "-o", "out.txt"):
            r = subprocess.run([LODE, *command], cwd=tmp_path, capture_output=True, timeout=60)
            assert r.returncode == 0, r.stderr
        r = subprocess.run([LODE, "send", "--to", f"http://127.0.0.1:{s.port}", "--label", f"service=send-{name}", name], cwd=tmp_path,
                           capture_output=True, timeout=60)
        assert r.returncode == 0, r.stderr
    for i, body in enumerate([data, gzip.compress(data)]):
        status, answer, _ = call(s, "POST", f"/profiles?service=post{i}", body)
        assert status == 200, answer
        status, answer, _ = call(s, "POST", f"/ingest?name=ingest{i}", body)
        assert status == 200, answer
    for label, name in [("service", n) for n in ("send-cpu", "send-cpu.gz", "post0", "post1")] + [("service_name", f"ingest{i}") for i in (0, 1)]:
        types = [t for t in ask(s, "types", query=f'{{{label}="{name}"}}')["types"]]
        totals = {ask(s, "top", query=f'{t}{{{label}="{name}"}}')["total"] for t in types}
        assert totals == {6000, 60000}, (name, types)


def test_what_is_no_profile_is_named(s, tmp_path):
    data = big()
    for body, text in [(data[:100000], "damaged or cut short"), (gzip.compress(data)[:5000], ""), (b"\x7fELF\2\1\1" + bytes(9), "ELF file"),
                       (b"FLR\0\0\2\0\1", "chunk 1: its header is cut off"), (b"<!doctype html><p>Sign in</p>", "page for people"), (b"", "empty"),
                       (b"goroutine 1 [running]:\nmain.main()\n", "debug=0")]:
        for path in "/profiles?service=x", "/ingest?name=x":
            status, answer, _ = call(s, "POST", path, body)
            assert status == 400 and text in answer.decode(), answer
        (tmp_path / "x").write_bytes(body)
        r = subprocess.run([LODE, "profile", "x"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert r.returncode and text in r.stderr, r.stderr
