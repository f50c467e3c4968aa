# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of pushing: requests to a server, checks of its store, a server with a store."""

import hashlib
import http.client
import json
import os
import subprocess

import pytest

from conftest import LODE
from making import fetch


def put(s, path, body, headers=None, method="PUT"):
    """(status, X-LODE headers, text). A refusal may arrive before the server has read the whole body."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    try:
        c.putrequest(method, path)
        for k, v in {"Content-Length": str(len(body)), **(headers or {})}.items():
            if v is not None:
                c.putheader(k, v)
        c.endheaders()
        try:
            c.send(body)
        except ConnectionError:
            pass
        r = c.getresponse()
        return r.status, r.headers, r.read().decode()
    finally:
        c.close()


def sha(b):
    return hashlib.sha256(b).hexdigest()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def want(s, *objects, headers=None):
    body = json.dumps({"objects": objects}).encode()
    status, _, text = put(s, "/push/want", body, headers, "POST")
    assert status == 200, text
    return json.loads(text)["objects"]


def one(build_id, content, kind="debuginfo", quality="dwarf"):
    return {"id": build_id, "kind": kind, "size": len(content), "sha256": sha(content), "quality": quality}


def lode(*args, ok=True, env=None, timeout=120):
    e = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    r = subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=timeout, env={**e, **(env or {})})
    assert not ok or r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return r


def token(s, name, scope="push"):
    t = lode("token", "add", name, "--scope", scope, "--data", s.data).stdout.strip()
    s.wait(lambda: put(s, "/push/want", b"{}", None, "POST")[0] == 401 and
           put(s, "/push/want", b"{}", bearer(t), "POST")[0] != 401, "the token to be seen")
    return t


def listed(s):
    return {o["key"]: o for o in json.loads(lode("store", "ls", "--json", "--data", s.data).stdout)}


def sound(s):
    """The store has no damaged objects and no leftovers, and serves all of its objects."""
    r = json.loads(lode("store", "verify", "--json", "--data", s.data).stdout)
    assert r["bad"] == [], r
    for key, o in listed(s).items():
        if o["quality"] == "dynsym":
            continue
        status, body, whole = fetch(s, f"/buildid/{key}") if "sources" not in key else (200, b"", True)
        assert status == 200 and whole, key
    return r


@pytest.fixture
def server(serve, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()

    def start(args=(), data=None, **more):
        return serve([empty], data=data, args=["--no-packages", *args], **more).ready()

    return start


def forms(s):
    return {k: (o["form"], o["to_compress"]) for k, o in listed(s).items()}


def settled(s):
    """Wait until everything is compressed and the raw contents are deleted."""
    s.wait(lambda: not any(later for _, later in forms(s).values()), "all to be compressed")
