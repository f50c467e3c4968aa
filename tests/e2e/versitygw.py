# SPDX-License-Identifier: Apache-2.0
"""versitygw, a real server with S3's API over a folder. `./dev test` fetches it into a cache folder; without it its tests are skipped.

Versitygw(work) has one bucket, "bucket", as bucket.Bucket has: objects[key] = bytes, env(), url, close()."""

import collections.abc
import datetime
import hashlib
import http.client
import os
import pathlib
import socket
import subprocess
import time
import urllib.parse

from bucket import KEY_ID, SECRET, Endpoint, signature_of

VERSION = "1.8.0"
CACHE = os.environ.get("LODE_DEV_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lode-dev")
PROGRAM = pathlib.Path(CACHE, f"versitygw-{VERSION}", "versitygw")
WHY_NOT = f"no versitygw in {PROGRAM.parent}: ./dev test fetches it where Go modules can be had"


def request(port, method, key, body=b"", bucket="bucket", query="", headers=None):
    """One signed request. Returns (status, headers, body)."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{date[:8]}/us-east-1/s3/aws4_request"
    target = urllib.parse.quote(f"/{bucket}/{key}" if key else f"/{bucket}") + (f"?{query}" if query else "")
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": f"127.0.0.1:{port}", "x-amz-content-sha256": digest, "x-amz-date": date}
    names = sorted(signed)
    signature = signature_of(SECRET, method, target, signed, names, scope, date, digest)
    auth = f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        c.request(method, target, body or None, {**signed, "authorization": auth, **(headers or {})})
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


class Objects(collections.abc.MutableMapping):
    """The objects of the bucket, put and deleted by requests."""

    def __init__(self, server):
        self.server, self.known = server, {}

    def __setitem__(self, key, data):
        status, _, body = request(self.server.port, "PUT", key, data)
        assert status == 200, (key, status, body)
        self.known[key] = data

    def __delitem__(self, key):
        status, _, body = request(self.server.port, "DELETE", key)
        assert status in (200, 204), (key, status, body)
        del self.known[key]

    def __getitem__(self, key):
        return self.known[key]

    def __iter__(self):
        return iter(self.known)

    def __len__(self):
        return len(self.known)


class Versitygw(Endpoint):
    requests = None  # not known

    def __init__(self, work, port=None, options=()):
        self.folder = pathlib.Path(work) / "buckets"
        (self.folder / "bucket").mkdir(parents=True, exist_ok=True)
        if not port:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
        self.port, self.objects, self.options = port, Objects(self), options
        self.log = open(pathlib.Path(work) / "versitygw.log", "ab")
        self.start()

    def command(self):
        return [PROGRAM, "--port", f"127.0.0.1:{self.port}", "--quiet", "--keep-alive", *self.options, "posix", self.folder]

    def start(self):
        env = {**os.environ, "ROOT_ACCESS_KEY": KEY_ID, "ROOT_SECRET_KEY": SECRET, "MINIO_ROOT_USER": KEY_ID, "MINIO_ROOT_PASSWORD": SECRET}
        self.proc = subprocess.Popen(self.command(), env=env, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.proc.poll() is None and time.monotonic() < end, f"{self.command()[0]} does not start"
                time.sleep(0.02)

    def close(self):
        if self.proc.poll() is None:
            self.proc.terminate()
            self.proc.wait(30)
        self.log.close()
