# SPDX-License-Identifier: Apache-2.0
"""The policies of docs/object-storage.md suffice, tried on a server that enforces them; and with less, refusals say so."""

import json
import os
import re
import signal
import subprocess

import pytest

import versitygw
from bucket import KEY_ID, SECRET
from conftest import LODE, ROOT
from making import debug_deb, elf, fetch_right, new_id
from test_bucket_uploads import PARTS, large
from test_signed_uploads import announce, finish

USERS = ("reader", "node")


def statements():
    """Those for reading packages, and those that a store needs, too; of the document, for "bucket"."""
    text = (ROOT / "docs" / "object-storage.md").read_text()
    read = json.loads(re.search(r'^    (\{ "Version".*?\] \})$', text, re.M | re.S).group(1).replace(":::debs", ":::bucket"))
    store = json.loads(re.search(r'^    (\{ "Effect": "Allow", "Action": \["s3:GetObject".*?\})$', text, re.M | re.S).group(1).replace(":::debs", ":::bucket"))
    return read["Statement"], [store]


@pytest.fixture
def gateway(tmp_path):
    if not versitygw.PROGRAM.exists():
        pytest.skip(versitygw.WHY_NOT)
    (tmp_path / "iam").mkdir()
    g = versitygw.Versitygw(tmp_path, options=["--iam-dir", tmp_path / "iam"])
    try:
        for user in USERS:
            subprocess.run([versitygw.PROGRAM, "admin", "--access", KEY_ID, "--secret", SECRET, "--endpoint-url", g.url, "create-user",
                            "--access", user, "--secret", f"{user}-secret", "--role", "user"], check=True, capture_output=True, timeout=30)
        read, store = statements()
        policy = [{**s, "Principal": {"AWS": user}} for user, all_of in (("reader", read), ("node", read + store)) for s in all_of]
        status, _, body = versitygw.request(g.port, "PUT", "", json.dumps({"Version": "2012-10-17", "Statement": policy}).encode(), query="policy=")
        assert status in (200, 204), body
        yield g
    finally:
        g.close()


def env_of(gateway, user):
    return gateway.env(AWS_ACCESS_KEY_ID=user, AWS_SECRET_ACCESS_KEY=f"{user}-secret")


def lode(gateway, user, *args):
    return subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=60, env={**os.environ, **env_of(gateway, user)})


def test_packages_need_no_more_than_reading(serve, gateway, elf):
    gateway.objects["debs/x.deb"] = debug_deb("xz", elf.id, elf.debug)
    s = serve(["s3://bucket/debs"], extra=env_of(gateway, "reader")).scanned()
    fetch_right(s, f"/buildid/{elf.id}/debuginfo", elf.debug)


@pytest.mark.slow
def test_a_store_needs_no_more(serve, gateway, elf, tmp_path):
    """Pushes, also in parts that go on after a kill, removals, collections, copies; the index for other nodes."""
    gateway.objects["debs/x.deb"] = debug_deb("xz", elf.id, elf.debug)
    store, path = ("--store", "s3://bucket/store"), tmp_path / "large.debug"

    def start():
        return serve(["s3://bucket/debs"], data=tmp_path / "data", args=store, extra=env_of(gateway, "node")).ready()

    s = start()
    s.wait(lambda: list((gateway.folder / "bucket" / "store" / "index").glob("*")), "a copy of the index")
    build_id, content = large(elf, tmp_path, "rights", 60 << 20)
    path.write_bytes(content)
    push = subprocess.Popen([LODE, "push", "--to", s.url, "--retries", "0", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    s.wait(lambda: (s.metric(PARTS) or 0) >= 2, "two parts")
    s.stop(signal.SIGKILL)
    push.wait(60)
    s = start()
    r = lode(gateway, "node", "push", "--to", s.url, path)
    assert r.returncode == 0 and "1 stored" in r.stdout, r.stderr
    fetch_right(s, f"/buildid/{build_id}/debuginfo", content)
    assert lode(gateway, "node", "store", "rm", *store, f"{build_id}/debuginfo").returncode == 0
    for args in (("gc", *store), ("verify", *store), ("copy", "s3://bucket/store", tmp_path / "copy")):
        r = lode(gateway, "node", "store", *args)
        assert r.returncode == 0, (args, r.stderr)
    assert "denied" not in s.log_path.read_text()


@pytest.mark.slow
def test_uploads_of_clients_to_the_bucket_need_no_more(serve, gateway, elf, tmp_path):
    """Whole and in parts, finished, and given up."""
    store = ("--store", "s3://bucket/store")
    s = serve([], args=["--no-packages", "--no-files", *store, "--signed-uploads", "push"], extra=env_of(gateway, "node")).ready()
    paths = []
    for name, size in (("whole", 2 << 20), ("parts", 66 << 20)):
        build_id, content = large(elf, tmp_path, name, size)
        paths.append(tmp_path / f"{name}.debug")
        paths[-1].write_bytes(content)
    r = json.loads(lode(gateway, "node", "push", "--json", "--to", s.url, *paths).stdout)
    assert (r["stored"], r["to_bucket"]) == (2, 2), r
    build_id, content = large(elf, tmp_path, "given up", 66 << 20)
    _, a = announce(s, build_id, content)
    assert finish(s, a, method="DELETE")[0] == 200
    assert not list((gateway.folder / "bucket" / "store" / "incoming").glob("*"))
    assert "denied" not in s.log_path.read_text()


def test_with_less_it_says_so(serve, gateway, elf):
    """The right to read does not make a store, and the reason is not "missing"."""
    s = serve([], args=["--no-packages", "--no-files", "--store", "s3://bucket/store"], extra=env_of(gateway, "reader"))
    s.wait(lambda: all(text in s.log_path.read_text() for text in ("access denied", "listening at")), "the reason")
    r = s.get(f"/buildid/{new_id('none')}/debuginfo")
    assert r.status == 503 and b"access denied" in r.body, (r.status, r.body)
