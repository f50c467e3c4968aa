# SPDX-License-Identifier: Apache-2.0
"""Shared by the rows of bench/senders.py: Go programs, what arrived, a server with TLS and tokens."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.parse
import urllib.request

from common import CORPUS, LODE, ROOT, free_port


class NotRun(Exception):
    """This machine lacks the sender."""


def run(argv, **kw):
    """Its output; an error has the end of what it said."""
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, **{"timeout": 120, **kw}).stdout


def go(work, *args):
    run(["go", *args], cwd=work, timeout=900, env={**os.environ, "GOFLAGS": "-mod=mod"})


def go_program(name, *modules, flags=()):
    """bench/senders/NAME, compiled beside the corpus: its modules are fetched once."""
    folder = CORPUS / f"sender-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "bench/senders" / name / "main.go", folder)
    if not (folder / "go.sum").exists():
        (folder / "go.mod").unlink(missing_ok=True)
        go(folder, "mod", "init", name)
        go(folder, "get", *modules)
        go(folder, "mod", "tidy")
    go(folder, "build", *flags, "-o", name, ".")
    return folder / name


# ---- what arrived ----

class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, **kw):
        super().__init__("localhost", **kw)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def connection(url, context=None):
    """@url: http://, https://, or unix:PATH."""
    scheme, rest = url.split(":", 1)
    if scheme == "unix":
        return UnixConnection(rest, timeout=60)
    kind, more = (http.client.HTTPSConnection, {"context": context}) if scheme == "https" else (http.client.HTTPConnection, {})
    return kind(rest.removeprefix("//"), timeout=60, **more)


def ask(url, path, context=None, token=None, **args):
    c = connection(url, context)
    c.request("GET", f"/api/{path}?{urllib.parse.urlencode(args)}", headers={"Authorization": f"Bearer {token}"} if token else {})
    r = c.getresponse()
    if r.status != 200:
        raise LookupError(f"/api/{path}: {r.status} {r.read()[:200]}")
    return json.load(r)


def names_of(url, service, kind=None, **kw):
    types = [kind] if kind else ask(url, "types", query='{service_name="%s"}' % service, **kw)["types"]
    rows = ask(url, "top", query=types[0] + '{service_name="%s"}' % service, limit=200, sort="cum", wait="10s", **kw)["rows"]
    return {r["name"] for r in rows}


def all_names_of(url, service):
    """Java's agent sends types of memory and locks, too, and the first type may be one of these."""
    return set().union(*(names_of(url, service, t) for t in ask(url, "types", query='{service_name="%s"}' % service)["types"]))


def flat_values(url, query, **kw):
    """Name to its own value, by the flame graph."""
    g = ask(url, "flamegraph", query=query, min_share=0, wait="10s", **kw)
    names, out = [g["strings"][n] for n in g["frames"]["name"]], {}
    for frame, value in zip(g["nodes"]["frame"], g["nodes"]["self"]):
        if frame >= 0 and value:
            out[names[frame]] = out.get(names[frame], 0) + value
    return out


def wait_for(what, seconds=30):
    """@what() until it is true; its last value otherwise."""
    end = time.monotonic() + seconds
    while not (got := what()) and time.monotonic() < end:
        time.sleep(0.3)
    return got


# ---- a server with TLS and a token ----

class TlsServer:
    def __init__(self, url, grpc, cert, token):
        self.url, self.grpc, self.cert, self.token = url, grpc, cert, token
        self.context = ssl.create_default_context(cafile=cert)


@contextlib.contextmanager
def tls_server(work):
    cert, key, tokens = work / "cert.pem", work / "key.pem", work / "tokens"
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert, "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
    token = run([LODE, "token", "add", "--tokens", tokens, "--scope", "push,read", "sender"]).decode().split()[-1]
    (work / "tls-empty").mkdir()
    s = TlsServer(f"https://localhost:{free_port()}", f"localhost:{free_port()}", cert, token)
    listen = [x for option, a in (("--listen", s.url), ("--listen-grpc", s.grpc)) for x in (option, f"127.0.0.1:{a.rsplit(':', 1)[1]}")]
    with open(work / "tls-log", "wb") as log, subprocess.Popen(
            [LODE, "serve", *listen, "--data", work / "tls-state", "--tls-cert", cert, "--tls-key", key, "--tokens", tokens, "--require-read-token",
             "--no-upstream", work / "tls-empty"], stdout=log, stderr=log) as process:
        try:
            def ready():
                try:
                    return urllib.request.urlopen(f"{s.url}/readyz", context=s.context, timeout=10).status == 200
                except OSError:
                    return False
            if not wait_for(ready):
                raise LookupError("the server with TLS is not ready")
            yield s
        finally:
            process.terminate()
