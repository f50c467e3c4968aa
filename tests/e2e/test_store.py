# SPDX-License-Identifier: Apache-2.0
"""The store of a running server: pushed objects are compressed in the background, within a quota, also if the server is killed meanwhile."""

import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from making import elf, fetch, new_id
from pushing import forms, listed, put, server, settled, sound


@pytest.fixture(scope="module")
def texts(elf, tmp_path_factory):
    """Debug files of 4 MB that compress to half."""
    work = tmp_path_factory.mktemp("texts")
    (work / "text").write_text(random.Random(1).randbytes(2_000_000).hex())
    (work / "x.debug").write_bytes(elf.debug)
    subprocess.run(["objcopy", "--add-section", f".noise={work / 'text'}", str(work / "x.debug")], check=True)
    whole = (work / "x.debug").read_bytes()
    return lambda *name: (new_id(*name), elf.of(whole, new_id(*name)))


@pytest.mark.slow
def test_it_is_compressed_when_there_is_time_and_nobody_sees_that(server, texts):
    s = server()
    build_id, content = texts("one")
    path = f"/buildid/{build_id}/debuginfo"
    assert put(s, path, content)[0] == 201
    key = f"{build_id}/debuginfo"
    before, kept = s.get(path), listed(s)[key]
    assert before.body == content
    settled(s)
    after, then = s.get(path), listed(s)[key]
    assert then["form"] == "zstd" and then["stored_size"] < 0.7 * len(content) and then["created"] == kept["created"]
    assert after.body == content and after.headers["ETag"] == before.headers["ETag"]
    assert s.get(path, headers={"Range": "bytes=1000000-1000099"}).body == content[1000000:1000100]
    assert put(s, path, content)[1]["X-LODE-RESULT"] == "same"
    # The raw content is deleted automatically, and the status shows it.
    s.wait(lambda: re.search(r"^lode_store_bytes (\d+)", s.get("/metrics").body.decode(), re.M).group(1) == str(then["stored_size"]),
           "the raw content to be collected")
    assert "lode_store_to_compress_bytes 0\n" in s.get("/metrics").body.decode()
    assert json.loads(s.get("/api/status").body)["store"]["to_compress"] == {"objects": 0, "bytes": 0}
    assert [p.suffix for p in (s.data / "store/data").glob("*/*")] == [".zst"]
    sound(s)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_ended_while_it_compresses_nothing_is_lost(server, texts, tmp_path, how):
    data = tmp_path / "data"
    files = dict(texts("killed", how, i) for i in range(8))
    s = server(data=data)
    for build_id, content in files.items():
        assert put(s, f"/buildid/{build_id}/debuginfo", content)[0] == 201
    rng = random.Random(3)
    for _ in range(12):
        time.sleep(rng.random() * 0.4)
        s.stop(how)
        s = server(data=data)
        for build_id, content in files.items():
            assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
        if not any(later for _, later in forms(s).values()):
            break
        # Compression begins a second after the start.
        s.wait(lambda: os.listdir(data / "store/tmp") or not any(later for _, later in forms(s).values()), "it to go on")
    settled(s)
    for build_id, content in files.items():
        assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    assert {form for form, _ in forms(s).values()} == {"zstd"}
    s.wait(lambda: len(list((data / "store/data").glob("*/*"))) == len(files), "what is not needed any more to be collected")
    sound(s)


@pytest.mark.slow
def test_a_quota_holds_what_it_holds_compressed(server, texts):
    """If there is no room for raw objects, they are compressed while they arrive; the store exceeds the quota only for a moment."""
    s = server(["--store-quota", "12000000", "--store-keep-pushed"])
    files = dict(texts("quota", i) for i in range(5))
    for build_id, content in files.items():
        s.wait(lambda: put(s, f"/buildid/{build_id}/debuginfo", content)[0] in (200, 201), "room for one more")
    assert len(listed(s)) == 5
    settled(s)
    s.wait(lambda: sum(p.stat().st_size for p in (s.data / "store/data").glob("*/*")) <= 12_000_000, "the quota to hold")
    sound(s)


@pytest.mark.slow
def test_a_disk_that_is_full_while_it_compresses(server, texts):
    s = server()
    build_id, content = texts("full")
    assert put(s, f"/buildid/{build_id}/debuginfo", content)[0] == 201
    subprocess.run(["prlimit", "--pid", str(s.proc.pid), "--fsize=1000000:"], check=True)
    s.wait(lambda: ": compress: " in s.log_path.read_text() or not forms(s)[f"{build_id}/debuginfo"][1], "the try")
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    s.wait(lambda: os.listdir(s.data / "store/tmp") == [], "what was begun to be removed")
    s.stop()
    s = server(data=s.data)
    settled(s)
    assert fetch(s, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    sound(s)
