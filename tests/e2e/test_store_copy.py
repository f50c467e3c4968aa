# SPDX-License-Identifier: Apache-2.0
"""lode store copy: between folders, ended at any point, beside servers that use both stores, and with damage."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from bucket import Bucket
from conftest import LODE
from making import elf, fetch, new_id
from pushing import bearer, lode, put, server, sound, token


def ls(store, what="ls"):
    """All objects, or earlier versions, without the times of last use."""
    return [{k: v for k, v in o.items() if k != "last_used"} for o in json.loads(lode("store", what, "--json", "--store", store).stdout)]


def copy(source, to, *args, ok=True):
    r = lode("store", "copy", "--json", *args, source, to, ok=ok)
    return json.loads(r.stdout), r


def verified(store):
    return json.loads(lode("store", "verify", "--json", "--store", store).stdout)["bad"] == []


def filled(server, elf, n, size=0):
    """A server with @n pushed objects, one of them replaced by its owner. (server, build ID -> content)"""
    s = server()
    t = token(s, "ci")
    files = {}
    for i in range(n):
        build_id = new_id("copy", n, size, i)
        files[build_id] = elf.of(elf.debug, build_id) + random.Random(i).randbytes(size)
        assert put(s, f"/buildid/{build_id}/debuginfo", files[build_id], bearer(t))[0] == 201
    first = next(iter(files))
    files[first] += b"newer"
    assert put(s, f"/buildid/{first}/debuginfo", files[first], bearer(t))[0] in (200, 201)
    return s, files


def test_a_copy_has_everything_and_serves_it(server, elf, tmp_path):
    s, files = filled(server, elf, 6)
    store, to = s.data / "store", tmp_path / "other" / "store"
    done, r = copy(store, to)  # while the server uses it
    assert done["complete"] and done["bad"] == [] and done["copied"] == 7 and done["earlier_versions_copied"] == 1, done
    assert ls(to) == ls(store) and ls(to, "history") == ls(store, "history") and ls(to, "history") != []
    assert {o["owner"] for o in ls(to)} == {"ci"}
    again, _ = copy(store, to)
    assert again["there"] == 7 and again["copied"] == again["contents_copied"] == 0 and again["bytes_there"] > 0
    text = lode("store", "copy", store, to).stdout
    assert "copied: 0 objects" in text and "there already: 7, " in text
    s.stop()
    other = server(data=tmp_path / "other")
    for build_id, content in files.items():
        assert fetch(other, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    sound(other)


@pytest.mark.slow
def test_killed_at_any_point_both_stores_are_whole(server, elf, tmp_path):
    s, files = filled(server, elf, 12, size=3_000_000)
    s.stop()
    store, to = s.data / "store", tmp_path / "copy"
    before, rng, killed = ls(store), random.Random(4), 0
    began = time.monotonic()
    copy(store, tmp_path / "whole")
    took = time.monotonic() - began
    for _ in range(14):
        p = subprocess.Popen([LODE, "store", "copy", "--json", str(store), str(to)], stdout=subprocess.DEVNULL)
        try:
            p.wait(rng.random() * took)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            killed += p.wait() == -signal.SIGKILL
        if (to / "lode-store").exists():
            assert verified(to)
    assert killed >= 2
    done, _ = copy(store, to)
    assert done["copied"] + done["there"] == 13
    assert verified(store) and verified(to)
    assert ls(store) == before == ls(to)
    lode("store", "gc", "--store", to)
    assert os.listdir(to / "tmp") == []


def test_damaged_contents_are_named_and_the_rest_is_copied(server, elf, tmp_path):
    s, files = filled(server, elf, 5)
    s.wait(lambda: not any(o["to_compress"] for o in ls(s.data / "store")), "all to be compressed")
    s.stop()
    store, to = s.data / "store", tmp_path / "copy"
    objects = ls(store)
    victim, gone = objects[1], objects[3]

    def file_of(o):
        return next((store / "data").glob(f"*/{o['sha256']}*"))

    whole = file_of(victim).read_bytes()
    file_of(victim).write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    file_of(gone).unlink()
    done, r = copy(store, to, ok=False)
    assert r.returncode == 1 and done["complete"]
    named = {b["what"].split("/")[-1].split(".")[0]: b["why"] for b in done["bad"]}
    assert named.keys() == {o["key"].split("/")[0] for o in (victim, gone)}, done
    assert "damaged" in named[victim["key"].split("/")[0]] and "missing" in named[gone["key"].split("/")[0]]
    assert r.stderr.count("lode: store: not copied: ") == 2
    assert verified(to)
    assert [o["key"] for o in ls(to)] == [o["key"] for o in objects if o not in (victim, gone)]
    # Mended, the same command copies the rest.
    file_of(victim).write_bytes(whole)
    shutil.rmtree(store / "data" / "nothing", ignore_errors=True)
    done, r = copy(store, to, ok=False)
    assert done["copied"] == 1 and len(done["bad"]) == 1


def test_a_full_disk_ends_it_and_it_goes_on(server, elf, tmp_path):
    s, files = filled(server, elf, 4, size=2_000_000)
    s.stop()
    store, to = s.data / "store", tmp_path / "copy"
    r = subprocess.run(["prlimit", "--fsize=1000000", LODE, "store", "copy", str(store), str(to)], capture_output=True, text=True)
    assert r.returncode == 1 and "the store that is copied to" in r.stderr and "File too large" in r.stderr, r
    assert "the same command again copies the rest" in r.stderr
    assert verified(to)
    assert copy(store, to)[0]["complete"]
    assert ls(to) == ls(store)


def test_ended_by_a_signal_it_says_what_it_did(server, elf, tmp_path):
    s, files = filled(server, elf, 12, size=3_000_000)
    s.stop()
    p = subprocess.Popen([LODE, "store", "copy", "--parallel", "1", str(s.data / "store"), str(tmp_path / "copy")], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "copy" / "lode-store").exists():
        time.sleep(0.002)
    time.sleep(0.05)
    p.terminate()
    out, text = p.communicate(timeout=60)
    assert (p.returncode, "stopped" in text) in ((1, True), (0, False)) and out.startswith("copied: ")
    assert verified(tmp_path / "copy")


def test_names_in_a_bucket_lead_to_no_other_folder(server, elf, tmp_path):
    """Whoever can write to the bucket chooses the names of its objects, but not where a copy writes."""
    bucket, top = Bucket(), tmp_path / "top"
    s, files = filled(server, elf, 2)
    lode("store", "copy", s.data / "store", "s3://bucket/st", "--data", tmp_path / "own", env=bucket.env())
    s.stop()
    past = next(k for k in bucket.objects if k.startswith("st/past/"))
    name, mark, version = past.partition("!")
    key = name[:-26]  # without ".<time>-<SHA-256>"
    wrong = ["/-makes-a-folder-of-the-key", "/../../../../../0123456789", "/../../../outside-of-it-all", ".0000000000000000-../../../", "/" * 26,
             ".0123456789abcdeF-01234567", ".0123456789abcdef-0123456\n", ".0123456789abcdef.01234567", ".0123456789abcdef-012345\x1b["]
    for tail in wrong:
        assert len(tail[:26]) == 26
        bucket.objects[key + tail[:26] + mark + version] = bucket.objects[past]
    (top / "a" / "b").mkdir(parents=True)
    try:
        for n in range(2):  # the first one may make folders that the second one goes through
            r = lode("store", "copy", "--json", "s3://bucket/st", top / "a" / "b" / "to", "--data", tmp_path / "own", env=bucket.env(), ok=False)
            assert "\x1b" not in r.stderr and "is not the name of an earlier version" in r.stderr, r
            assert len(json.loads(r.stdout)["bad"]) == 2, r  # objects with other names are not of the store
        stray = [p for p in top.rglob("*") if p.is_file() and top / "a" / "b" / "to" not in p.parents]
        assert stray == []
        assert [p for p in (top / "a" / "b" / "to" / "past").rglob("*") if p.is_file() and not p.name[-26:].startswith(".")] == []
        assert len(ls(top / "a" / "b" / "to", "history")) == 1 and len(ls(top / "a" / "b" / "to")) == 2
    finally:
        bucket.close()


def test_mistakes(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "thesis").write_text("x")
    store = tmp_path / "store"
    r = lode("store", "copy", store, ok=False)
    assert r.returncode == 2 and "two stores are needed" in r.stderr
    r = lode("store", "copy", store, store, ok=False)
    assert r.returncode == 2 and "the same store" in r.stderr
    r = lode("store", "copy", store, tmp_path / "new", ok=False)
    assert r.returncode == 1 and "there is no store" in r.stderr and not (tmp_path / "new").exists()
    lode("store", "gc", "--store", store, ok=False)
    assert "store copy" in lode("store", "--help").stdout and "--parallel" in lode("completion", "bash").stdout
