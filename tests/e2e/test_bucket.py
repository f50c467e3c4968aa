# SPDX-License-Identifier: Apache-2.0
"""Packages that lie in a bucket: inspected, scanned and served from there, by a server that checks each signature."""

import json
import lzma
import os
import random
import shutil
import subprocess
import time

import pytest

from bucket import SECRET, hedges
from bucket_engines import engine, stub as bucket  # noqa: F401
from conftest import LODE
from making import PACKERS, deb, debug_deb, debug_path, elf, fetch_right, new_id, tar_of

FAULTS = ["slow_down", "cut", "short", "conflict", "expired", "silent", "wrong_etag", "error_200", "ignore_range", "deny"]
# After these the answer of another try is right; the others say that something is wrong with the object.
PASSING = ["slow_down", "cut", "short", "conflict", "expired", "silent"]


def lode(bucket, *args, **env):
    return subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **bucket.env(**env)})


def serve_bucket(serve, bucket, prefix="debs", args=(), **more):
    return serve([f"s3://bucket/{prefix}"], args=["--scan-threads", "1", *args], extra=bucket.env(), **more)


def test_a_package_in_a_bucket_is_served(serve, engine, elf):
    bucket = engine
    bucket.objects["debs/a b+c%.deb"] = debug_deb("xz", elf.id, elf.debug)
    bucket.objects["debs-old/other.deb"] = b"not a package"
    s = serve_bucket(serve, bucket).scanned()
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    r = s.get(f"/buildid/{elf.id}/debuginfo", "HEAD")
    assert r.headers["X-DEBUGINFOD-ARCHIVE"] == "s3://bucket/debs/a b+c%.deb"
    assert s.get(f"/buildid/{new_id('nowhere')}/debuginfo").status == 404
    if bucket.requests:
        assert [r for r in bucket.requests if r[0] == "HEAD"] == []
        assert {r[1] for r in bucket.requests if r[0] == "GET"} == {"debs/a b+c%.deb"}


@pytest.mark.slow
def test_the_header_pass_is_one_range_and_nothing_is_read_twice(serve, bucket, elf, tmp_path):
    big = lzma.compress(os.urandom(3 << 20))
    for i in range(5):
        bucket.objects[f"debs/p{i}.deb"] = deb(big, "xz", [new_id(i)], name=f"p{i}")
    s = serve_bucket(serve, bucket, args=["--header-only"]).ready()
    assert len(bucket.gets()) - hedges(s) <= 5 == len({key for key, _, _ in bucket.gets()}), bucket.gets()
    assert all(first == 0 and size <= 256 << 10 for _, first, size in bucket.gets())
    assert os.listdir(s.data / "s3-cache") == []
    s.stop()
    bucket.forget()
    serve_bucket(serve, bucket, args=["--header-only"], data=s.data).ready()
    assert bucket.gets() == []


def xz_blocks(data):
    return subprocess.run(["xz", "-0", "-T1", "--block-size=3MiB", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["xz blocks", "xz", "zst", "gz"])
def test_the_deep_pass_keeps_no_ranges(serve, bucket, elf, payload):
    """It would evict what requests have read: from the disk, and from the memory. A member is read from the bucket after it."""
    noise = random.Random(1).randbytes(3 << 20)
    noises = [(f"./usr/share/noise{i}", noise) for i in range(4)]
    tar = tar_of([*noises[:2], (debug_path(elf.id), elf.debug), *noises[2:]])
    packed = xz_blocks(tar) if payload == "xz blocks" else PACKERS[payload](tar)
    bucket.objects["debs/p.deb"] = deb(packed, payload.split()[0], [elf.id])
    s = serve_bucket(serve, bucket, args=["--rescan", "0", "--cache-size", "0"]).scanned()
    assert os.listdir(s.data / "s3-cache") == []
    assert s.metric('lode_s3_cache_bytes{where="memory"}') < 4 << 20
    assert bucket.bytes_sent < 1.1 * len(bucket.objects["debs/p.deb"])
    bucket.forget()
    before = hedges(s)
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    assert 1 <= len(bucket.gets()) <= 2 + hedges(s) - before, bucket.gets()
    assert s.metric('lode_s3_cache_bytes{where="disk"}') > 0


def test_a_replaced_and_a_removed_package_are_noticed(serve, engine, elf):
    bucket = engine
    other = new_id("other")
    bucket.objects["debs/x.deb"] = deb(lzma.compress(tar_of([])), "xz", [other])
    bucket.objects["debs/y.deb"] = debug_deb("xz", elf.id, elf.debug)
    s = serve_bucket(serve, bucket, args=["--rescan", "1"]).scanned()
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    del bucket.objects["debs/y.deb"]
    s.wait(lambda: s.get(f"/buildid/{elf.id}/section/.nosuch").status == 404, "the removed package is forgotten")
    bucket.objects["debs/x.deb"] = debug_deb("zst", elf.id, elf.debug)
    s.wait(lambda: s.get(f"/buildid/{elf.id}/debuginfo").status == 200, "the replaced package is read")
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)


def test_an_object_replaced_since_the_scan_is_no_mix(serve, engine, elf):
    bucket = engine
    bucket.objects["debs/x.deb"] = debug_deb("xz", elf.id, elf.debug)
    s = serve_bucket(serve, bucket, args=["--s3-cache", "1", "--s3-disk-cache", "0"]).scanned()
    # As long, and with the same name. A server without ETags in its listing knows seconds only.
    time.sleep(1.1 if engine.by_time else 0)
    bucket.objects["debs/x.deb"] = bytes(len(bucket.objects["debs/x.deb"]))
    r = s.get(f"/buildid/{elf.id}/debuginfo")
    assert r.status == 503 and b"replaced" in r.body, r.body


@pytest.mark.slow
def test_a_bucket_that_is_away(serve, bucket, elf):
    """What is cached is served; the rest is 503 with the reason, never 404; then it is found again."""
    cached, other = elf.id, new_id("other")
    bucket.objects["debs/x.deb"] = debug_deb("xz", cached, elf.debug)
    debug = elf.debug.replace(bytes.fromhex(cached), bytes.fromhex(other))
    bucket.objects["debs/y.deb"] = debug_deb("xz", other, debug)
    s = serve_bucket(serve, bucket, args=["--s3-cache", "1", "--s3-disk-cache", "0", "--rescan", "1", "--unread-wait", "1"]).scanned()
    fetch_right(s, f"/buildid/{cached}/debuginfo", elf.debug)
    bucket.away = True
    fetch_right(s, f"/buildid/{cached}/debuginfo", elf.debug)
    r = s.get(f"/buildid/{other}/section/.debug_info")
    assert r.status == 503 and b"s3://bucket/debs/y.deb" in r.body, r.body
    s.wait(lambda: b"unread" in s.get("/readyz").body, "the failed listing is noticed")
    assert s.get(f"/buildid/{new_id('unknown')}/debuginfo").status == 503
    bucket.away = False
    s.wait(lambda: s.get(f"/buildid/{new_id('unknown')}/debuginfo").status == 404, "the bucket is back")


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(bucket, elf, fault):
    """Right bytes, or an error that names the object: never wrong bytes."""
    bucket.objects["x.debug"] = elf.debug + bytes(1 << 20)
    args = ("inspect", "--build-id", "s3://bucket/x.debug")
    want = lode(bucket, *args)
    assert want.returncode == 0, want.stderr
    bucket.fault(None)  # HEAD
    bucket.fault(fault, 1 if fault in PASSING else 8)
    r = lode(bucket, *args)
    if fault in PASSING:
        assert (r.returncode, r.stdout) == (0, want.stdout), r.stderr
    else:
        assert r.returncode == 1 and "s3://bucket/x.debug" in r.stderr, (fault, r.stderr)
    assert SECRET not in r.stdout + r.stderr


def test_commands_read_objects(engine, elf):
    bucket = engine
    bucket.objects["x/a.deb"] = debug_deb("xz", elf.id, elf.debug)
    bucket.objects["x/prog.debug"] = elf.debug
    r = lode(bucket, "inspect", "--json", "--members", "s3://bucket/x/a.deb")
    assert r.returncode == 0, r.stderr
    assert any(elf.id in json.dumps(m) for m in json.loads(r.stdout)["members"])
    r = lode(bucket, "inspect", "--build-id", f"s3://bucket/x/a.deb!{debug_path(elf.id).removeprefix('./')}")
    assert r.stdout.strip() == elf.id, r.stderr
    r = lode(bucket, "symbolize", "--local", "-e", "s3://bucket/x/prog.debug", "0x1139")
    assert r.returncode == 0, r.stderr
    r = lode(bucket, "inspect", "s3://bucket/missing")
    assert r.returncode == 1 and "no such file" in r.stderr


def test_objects_are_pushed(serve, engine, elf):
    """An object, and a member of a package in the bucket; a package itself is refused as a file would be."""
    bucket = engine
    other = new_id("in a package")
    bucket.objects["x/prog.debug"] = elf.debug
    bucket.objects["x/a.deb"] = debug_deb("xz", other, elf.of(elf.debug, other))
    s = serve([], args=["--no-packages", "--no-files"]).ready()
    member = f"s3://bucket/x/a.deb!{debug_path(other).removeprefix('./')}"
    r = lode(bucket, "push", "--to", f"http://127.0.0.1:{s.port}", "s3://bucket/x/prog.debug", member)
    assert r.returncode == 0 and r.stdout.startswith("2 stored"), r.stdout + r.stderr
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    fetch_right(s, f"/buildid/{other}/debuginfo", elf.of(elf.debug, other))
    for path, why in (("s3://bucket/x/a.deb", "a Debian package"), ("s3://bucket/x/none", "No such file"), ("s3://bucket/", "add its key")):
        r = lode(bucket, "push", "--to", f"http://127.0.0.1:{s.port}", path)
        assert r.returncode == 1 and why in r.stderr, r.stderr


def test_wrong_keys_and_settings_say_what_to_do(engine):
    bucket = engine
    bucket.objects["x"] = b"data"
    r = lode(bucket, "inspect", "s3://bucket/x", AWS_SECRET_ACCESS_KEY="wrong")
    assert r.returncode == 1 and "the secret is wrong" in r.stderr, r.stderr
    r = lode(bucket, "inspect", "s3://bucket/x", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert r.returncode == 1 and "AWS_ACCESS_KEY_ID" in r.stderr, r.stderr
    r = lode(bucket, "inspect", "s3://bucket/x", AWS_PROFILE="nosuch")
    assert r.returncode == 1 and "nosuch" in r.stderr, r.stderr
    r = lode(bucket, "inspect", "s3://bucket/x", AWS_ENDPOINT_URL_S3="localhost:1")
    assert r.returncode == 1 and "http://" in r.stderr, r.stderr


def test_keys_of_the_shared_files(bucket, tmp_path):
    bucket.objects["x"] = b"data"
    credentials, config = tmp_path / "credentials", tmp_path / "config"
    credentials.write_text(f"[dev]\naws_access_key_id = AKTESTTESTTEST\naws_secret_access_key = {SECRET}\n")
    config.write_text(f"[profile dev]\nregion = eu-west-1\nendpoint_url = {bucket.url}\n")
    r = lode(bucket, "inspect", "s3://bucket/x", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_ENDPOINT_URL_S3="", AWS_REGION="",
             AWS_PROFILE="dev", AWS_CONFIG_FILE=str(config), AWS_SHARED_CREDENTIALS_FILE=str(credentials))
    assert "unknown" in r.stderr or "not an ELF" in r.stderr or "neither" in r.stderr, r.stderr
    assert bucket.gets()


def test_scan_of_a_bucket_that_is_not_there_fails(engine, tmp_path):
    bucket = engine
    r = lode(bucket, "scan", "--data", tmp_path / "data", "s3://nosuch/debs")
    assert r.returncode == 1 and "no such bucket" in r.stderr, r.stderr


def test_a_listing_of_many_pages(bucket, tmp_path):
    bucket.page = 7
    for i in range(50):
        bucket.objects[f"debs/p{i:03}.deb"] = deb(lzma.compress(tar_of([])), "xz", [new_id(i)], name=f"p{i}")
    r = lode(bucket, "scan", "--json", "--data", tmp_path / "data", "s3://bucket")
    assert r.returncode == 0, r.stderr
    assert json.loads(r.stdout)["packages"] == 50


ODD_KEYS = ["a b.deb", "plus+sign.deb", "percent%41.deb", "uml\u00e4ut \u20ac.deb", "amp&lt;<x>.deb", "quote'\".deb", "eq=u;al,s@x.deb",
            "tilde~(1)!*.deb", "deep/er/and.deb", "semi:colon$.deb", "#hash?query.deb", "[brackets]{}|^`.deb"]


def test_a_listing_in_drips_ends(serve, bucket, elf, tmp_path):
    """It would keep all other roots from being walked."""
    bucket.fault("drips", 5000)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.debug").write_bytes(elf.debug)
    s = serve(["s3://bucket/debs", tmp_path / "files"], args=["--rescan", "0"], extra=bucket.env()).ready()
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    assert "s3://bucket/debs: it could not be listed: s3://bucket/debs: the listing does not end" in s.log_path.read_text()
    assert 900 < len(bucket.listings()) < 1100


def test_odd_keys_are_listed_and_read(engine, tmp_path):
    """Keys that have to be escaped in URLs, in signatures or in XML."""
    for i, key in enumerate(ODD_KEYS):
        engine.objects["odd/" + key] = deb(lzma.compress(tar_of([])), "xz", [new_id(i)], name=f"p{i}")
    r = lode(engine, "scan", "--json", "--data", tmp_path / "data", "s3://bucket/odd/")
    assert r.returncode == 0, r.stderr
    counts = json.loads(r.stdout)
    assert (counts["packages"], counts["failed"]) == (len(ODD_KEYS), 0), r.stderr
    for key in ODD_KEYS:
        r = lode(engine, "inspect", f"s3://bucket/odd/{key}")
        assert r.returncode == 0, r.stderr


def test_keys_that_xml_cannot_hold_are_asked_for_escaped(bucket, tmp_path):
    keys = ["bell\x07.deb", "g++-12_12.2.0.deb", "replaced\ufffd.deb"]
    bucket.page = 2
    for i, key in enumerate(keys):
        bucket.objects["odd/" + key] = deb(lzma.compress(tar_of([])), "xz", [new_id(i)], name=f"p{i}")
    r = lode(bucket, "scan", "--json", "--data", tmp_path / "data", "s3://bucket/odd/")
    assert r.returncode == 0 and json.loads(r.stdout)["packages"] == len(keys), r.stderr
    assert len(bucket.listings()) == 3, bucket.listings()


@pytest.mark.slow
def test_ranges_on_disk_serve_while_the_bucket_is_away(serve, bucket, elf):
    """After a restart, too: what was read once needs no request, and what was not is 503."""
    ids = [new_id("on disk", i) for i in range(3)]
    for i in ids:
        bucket.objects[f"debs/{i}.deb"] = debug_deb("xz", i, elf.of(elf.large, i))
    args = ["--rescan", "0", "--cache-size", "0"]
    s = serve_bucket(serve, bucket, args=args).scanned()
    for i in ids[:2]:
        fetch_right(s, f"/buildid/{i}/debuginfo", elf.of(elf.large, i))
    assert s.metric('lode_s3_cache_bytes{where="disk"}') > 0
    s.stop()
    bucket.away = True
    s = serve_bucket(serve, bucket, args=args, data=s.data)
    s.wait(lambda: s.get("/metrics").status == 200, "it listens")
    for i in ids[:2]:
        fetch_right(s, f"/buildid/{i}/debuginfo", elf.of(elf.large, i))
    assert s.metric('lode_s3_cache_reads_total{where="disk"}') > 0
    shutil.rmtree(s.data / "s3-cache")
    (s.data / "s3-cache").mkdir()
    s.wait(lambda: s.metric("lode_s3_up") == 0, "the listing has failed")
    page = json.loads(s.get("/api/status").body)["bucket"]
    assert page["failing"] and page["failed"] and page["endpoint"] == bucket.url and page["said"], page
    s.stop()
    bucket.away = False
    s = serve_bucket(serve, bucket, args=[*args, "--s3-disk-cache", "0"], data=s.data).scanned()
    fetch_right(s, f"/buildid/{ids[2]}/debuginfo", elf.of(elf.large, ids[2]))
    assert not list((s.data / "s3-cache").iterdir())
    assert s.metric("lode_s3_up") == 1


@pytest.mark.parametrize("payload", ["xz", "zst", "gz"])
def test_a_range_that_was_damaged_on_its_way_is_read_again(serve, bucket, elf, tmp_path, payload):
    """Once in each request; the damage does not stay in the caches of ranges."""
    bucket.objects["debs/p.deb"] = debug_deb(payload, elf.id, elf.debug)
    s = serve_bucket(serve, bucket, data=tmp_path / "data").scanned()
    path = f"/buildid/{elf.id}/debuginfo"
    for n in range(4):
        s.stop()
        shutil.rmtree(tmp_path / "data" / "s3-cache", ignore_errors=True)
        s = serve_bucket(serve, bucket, data=tmp_path / "data", args=["--cache-size", "0", "--memory-cache", "1", "--passive"]).ready()
        bucket.faults = [None] * n + ["flipped"]
        r = s.get(path)
        unused, bucket.faults = len(bucket.faults), []
        assert r.status == 200 and r.body == elf.debug, (n, r.status, r.body[:200])
        assert s.get(f"/buildid/{elf.id}/section/.debug_line").status == 200
        fetch_right(s, path, elf.debug)
        if unused:
            break
    assert n


def test_a_package_that_is_damaged_in_the_bucket_is_told_after_one_more_try(serve, bucket, elf, tmp_path):
    bucket.objects["debs/p.deb"] = debug_deb("xz", elf.id, elf.debug)
    s = serve_bucket(serve, bucket, args=["--cache-size", "0", "--memory-cache", "1", "--s3-cache", "1", "--s3-disk-cache", "0", "--rescan", "0"]).scanned()
    bucket.forget()
    before = hedges(s)
    bucket.faults = ["flipped"] * 100
    r = s.get(f"/buildid/{elf.id}/debuginfo")
    assert r.status == 503 and b"s3://bucket/debs/p.deb" in r.body, (r.status, r.body)
    assert len(bucket.gets()) <= 4 + hedges(s) - before, bucket.gets()
    bucket.faults = []
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
