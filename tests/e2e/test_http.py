# SPDX-License-Identifier: Apache-2.0
"""Difficult clients over HTTP, and the limits that options set."""

import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time

import pytest

from conftest import LODE
from making import debug_deb, elf, fetch_right, healthy, new_id, pool, raw

BASH = pathlib.Path("/usr/bin/bash")
END = b"Host: x\r\nConnection: close\r\n\r\n"


def status_of(reply):
    m = re.match(rb"HTTP/1\.[01] (\d\d\d) ", reply)
    return int(m.group(1)) if m else None


def test_requests_that_nobody_should_send(serve):
    s = serve([BASH]).ready()
    cases = {
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + END: 414,
        b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(10_000)) + END: 431,
        b"GET /healthz HTTP/1.1\r\nX-Long: " + b"a" * 100_000 + b"\r\n" + END: 431,
        b"GET /buildid/00/source/%zz HTTP/1.1\r\n" + END: 400,
        b"GET /buildid/00/source/a%00b HTTP/1.1\r\n" + END: 400,
        b"GET /buildid/00/source/% HTTP/1.1\r\n" + END: 400,
        b"GET /metadata?key=file&value=%zz HTTP/1.1\r\n" + END: 400,
        b"GET /metadata?key=file HTTP/1.1\r\n" + END: 400,
        b"GET /metadata?key=glob&value=" + b"*" * 5000 + b" HTTP/1.1\r\n" + END: 400,
        b"GET http://example.com/healthz HTTP/1.1\r\n" + END: 200,
        b"GET HTTP://example.com:99/buildid/zz/debuginfo HTTP/1.1\r\n" + END: 400,
        b"GET /healthz HTTP/1.0\r\n\r\n": 200,
        b"GET /healthz\r\n\r\n": 400,
        b"GET /healthz HTTP/2.0\r\n" + END: 505,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 505,
        b"GET /../../etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /web/../../etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /web/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /web//etc/passwd HTTP/1.1\r\n" + END: 404,
        b"GET /heal\x01thz HTTP/1.1\r\n" + END: 404,
        b"GET /\xff\xfe HTTP/1.1\r\n" + END: 404,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + bytes(200): None,
        b"GET /healthz HTTP/1.1\r\nno colon\r\n" + END: 400,
        b"GET /healthz HTTP/1.1\r\nContent-Length: -5\r\n" + END: 400,
        b"POST /healthz HTTP/1.1\r\nContent-Length: 1000000000\r\n" + END: 405,
    }
    for request, want in cases.items():
        assert status_of(raw(s, request)) == want, request[:80]
    # Bytes after a body with two contradictory lengths must not be read as a request.
    smuggled = raw(s, b"GET /healthz HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + END + b"0\r\n\r\nGET /metrics HTTP/1.1\r\n" + END)
    assert b"lode_" not in smuggled
    for method in (b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"CONNECT", b"OPTIONS", b"BREW", b"get", b"HEADS"):
        reply = raw(s, method + b" /healthz HTTP/1.1\r\n" + END)
        assert status_of(reply) == 405 and b"\r\nAllow: GET, HEAD\r\n" in reply, method
    for method in (b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"BREW"):
        reply = raw(s, method + b" /nothing HTTP/1.1\r\nContent-Length: 1000000000\r\n" + END if method != b"GET" else b"GET /nothing HTTP/1.1\r\n" + END)
        assert status_of(reply) == 404 and b"\r\nAllow:" not in reply, method
    allowed = {
        b"BREW /buildid/00/section/x": b"GET, HEAD, DELETE",
        b"POST /buildid/00/debuginfo": b"GET, HEAD, PUT, DELETE",
        b"GET /buildid/00/sources": b"PUT, DELETE",
        b"PUT /buildid/00/symbolize": b"GET, HEAD, POST",
        b"GET http://x/symbolize": b"POST",
        b"GET /profiles": b"POST",
        b"POST /api/types": b"GET, HEAD",
    }
    for request, methods in allowed.items():
        reply = raw(s, request + b" HTTP/1.1\r\n" + END)
        assert status_of(reply) == 405 and b"\r\nAllow: " + methods + b"\r\n" in reply, request
    pipelined = raw(s, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 50 + b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /readyz HTTP/1.1\r\n" + END)
    assert len(re.findall(rb"HTTP/1\.1 200 OK", pipelined)) == 52 and pipelined.endswith(b"\r\n\r\nok\n")
    healthy(s)


@pytest.mark.slow
def test_head_says_what_get_says(serve, elf, pool):
    build_id = new_id("head")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.large, build_id)))
    s = serve([pool]).scanned()
    for path in (f"/buildid/{build_id}/debuginfo", f"/buildid/{build_id}/executable", f"/buildid/{build_id}/section/.debug_info",
                 f"/buildid/{build_id}/section/.none", f"/buildid/{build_id}/source/none", "/buildid/zz/debuginfo", "/healthz", "/readyz", "/",
                 "/web/app.js", "/web/none", f"/metadata?key=buildid&value={build_id}", "/metadata?key=x&value=y", "/none"):
        head, get = s.get(path, "HEAD"), s.get(path)
        assert (head.status, head.body) == (get.status, b""), path
        assert {k: v for k, v in head.headers.items() if k != "Date"} == {k: v for k, v in get.headers.items() if k != "Date"}, path
        assert int(head.headers["Content-Length"]) == len(get.body), path
    for path in ("/metrics", "/api/status", "/api/failures"):
        assert s.get(path, "HEAD").status == s.get(path).status == 200
    healthy(s)


@pytest.mark.slow
def test_slow_and_broken_clients(serve, elf, pool):
    build_id = new_id("slow")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.large, build_id)))
    s = serve([pool], args=["--idle-timeout", "1"]).scanned()
    # A header that arrives byte by byte: not silent, but never complete.
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", s.port), timeout=10) as k, contextlib.suppress(ConnectionError):
        k.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        k.settimeout(0.25)
        while time.monotonic() - began < 15:
            k.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                if not k.recv(1):
                    break
    assert 1 < time.monotonic() - began < 8
    # Clients that disconnect in the middle of a reply.
    for cut in range(0, 60, 3):
        with socket.create_connection(("127.0.0.1", s.port)) as k:
            k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n".encode()[:cut])
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", s.port)) as k:
            k.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            k.recv(1000)
    # A client that neither reads nor sends.
    with socket.create_connection(("127.0.0.1", s.port)) as k:
        k.sendall(f"GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 100)
        assert fetch_right(s, f"/buildid/{build_id}/debuginfo", elf.of(elf.large, build_id)) == 200
    s.wait(lambda: s.metric("lode_http_connections") <= 1 and s.metric("lode_http_waiting") in (0, 1), "all to be forgotten")
    healthy(s)


def test_limits(serve):
    s = serve([BASH], args=["--rate", "5", "--max-connections-per-ip", "6"])
    s.wait(lambda: s.get("/healthz").status == 200, "it to be up")
    replies = [s.get("/healthz") for _ in range(100)]
    refused = [r for r in replies if r.status == 429]
    assert refused and {r.status for r in replies} == {200, 429}
    assert refused[0].headers["Retry-After"] and b"too many" in refused[0].body
    time.sleep(1)
    assert s.get("/healthz").status == 200
    assert 'lode_http_refused_total{limit="rate"}' in s.get("/metrics").body.decode()
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(("127.0.0.1", s.port), timeout=5)) for _ in range(12)]
        time.sleep(0.3)
        alive = 0
        for k in socks:
            with contextlib.suppress(ConnectionError):
                k.sendall(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
                alive += bool(k.recv(100))
        assert 1 <= alive <= 6
    s.wait(lambda: s.get("/healthz").status == 200, "those that went to make room")


def test_refusals_are_counted_by_their_status(serve):
    s = serve([]).ready()
    call = b"POST /querier.v1.QuerierService/LabelNames HTTP/1.1\r\nContent-Type: %s\r\nContent-Encoding: %s\r\nContent-Length: 1\r\n" + END + b"x"
    cases = {
        415: ("view", call % (b"text/plain", b"gzip")),
        421: ("debuginfo", b"GET /buildid/00/debuginfo HTTP/1.1\r\nAccept-Language: de\r\n" + END),
        501: ("view", call % (b"application/proto", b"br")),
    }
    for status, (kind, request) in cases.items():
        assert status_of(raw(s, request)) == status
        # Counted after the reply.
        s.wait(lambda: s.metric(rf'http_responses_transfer_bytes_count\{{code="{status}",type="{kind}"\}}') == 1, f"count of {status}")
    assert 'code="0"' not in s.get("/metrics").body.decode()
    requests = json.loads(s.get("/api/status").body)["requests"]
    assert (requests["refused"], requests["failed"]) == (len(cases), 0)


# ---- options ----

def test_archive_paths_can_be_hidden(serve, elf, pool):
    build_id, bad = new_id("hide"), new_id("hide", "bad")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.debug, build_id)))
    (pool / "bad.deb").write_bytes(debug_deb("xz", bad, elf.of(elf.debug, bad))[:-100])
    for args in ([], ["--archive-path=hide"]):
        s = serve([pool], args=args).scanned()
        paths = [f"/buildid/{build_id}/debuginfo", f"/buildid/{build_id}/executable", f"/buildid/{build_id}/section/.none",
                 f"/buildid/{build_id}/source/none.c", f"/buildid/{bad}/debuginfo", f"/metadata?key=buildid&value={build_id}", "/metadata?key=glob&value=/usr/*/*",
                 "/api/status", "/api/failures", "/", "/metrics"]
        shown = b"".join(repr((r.headers.items(), r.body)).encode() for r in map(s.get, paths))
        assert s.get(paths[0]).headers["X-DEBUGINFOD-ARCHIVE"] == (str(pool / "x.deb") if not args else "x.deb")
        assert (str(pool).encode() in shown) == (not args)
        s.stop()


def test_tls(serve, elf, pool, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    build_id = new_id("tls")
    truth = elf.of(elf.large, build_id)
    (pool / "x.deb").write_bytes(debug_deb("zst", build_id, truth))
    s = serve([pool], args=["--tls-cert", cert, "--tls-key", key])
    context = ssl.create_default_context(cafile=str(cert))

    def get(path):
        c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=30, context=context)
        try:
            c.request("GET", path)
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()
    s.wait(lambda: get("/readyz")[0] == 200, "ready")
    # The service may answer before it has printed its address.
    s.wait(lambda: f"https://127.0.0.1:{s.port}" in s.log_path.read_text(), "told where it listens")
    for _ in range(3):
        assert get(f"/buildid/{build_id}/debuginfo") == (200, truth)
    # Plain HTTP, garbage and silence on the TLS port.
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(100), b""):
        with socket.create_connection(("127.0.0.1", s.port), timeout=5) as k:
            k.sendall(data)
    assert get("/healthz")[0] == 200
    assert s.stop() == 0
    for args in (["--tls-cert", cert], ["--tls-cert", key, "--tls-key", cert], ["--tls-cert", "/nonexistent", "--tls-key", key]):
        r = subprocess.run([LODE, "serve", "--no-upstream", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), *map(str, args), str(pool)], capture_output=True, text=True,
                           timeout=30)
        assert r.returncode == 1 and re.search("^lode: serve: ", r.stderr, re.M), args


LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info  http: (\S+:\d+) UA:(\S*) XFF:(\S*) (\S+) (\S+) (\d+) (\d+) (\d+)ms( cut)?$")


def test_the_access_log_is_a_line_a_request(serve, elf, pool):
    build_id = new_id("log")
    (pool / "x.deb").write_bytes(debug_deb("xz", build_id, elf.of(elf.debug, build_id)))
    s = serve([pool]).scanned()
    mark = len(s.log_path.read_text())
    url = f"/buildid/{build_id}/debuginfo"
    evil = "a b\tc\u00e9 UA:x GET / 200 \"'<>"
    asked = [("GET", url, 200), ("HEAD", url, 200), ("GET", "/none%0a%20x", 404), ("GET", "/healthz", 200), ("BREW", "/x", 404), ("BREW", "/metrics", 405),
             ("GET", "/buildid/zz/debuginfo", 400), ("GET", f"/buildid/{build_id}/source/none", 404), ("GET", "/metadata?key=x", 400)]
    for method, path, want in asked:
        assert s.get(path, method, headers={"User-Agent": evil.encode(), "X-Forwarded-For": "192.0.2.1, 192.0.2.2"}).status == want
    raw(s, b"GET /\x1b[31m HTTP/1.1\r\n" + END)
    s.wait(lambda: s.log_path.read_text()[mark:].count(" XFF:") >= len(asked) + 1, "the lines")
    s.wait(lambda: "[31m" in s.log_path.read_text()[mark:], "the lines")
    lines = [m.groups() for m in map(LINE.match, s.log_path.read_text()[mark:].splitlines()) if m]
    for method, path, want in asked:
        mine = [g for g in lines if (g[3], g[4], int(g[5])) == (method, path.split("?")[0], want)]
        assert len(mine) == 1, (method, path, lines)
        assert mine[0][1].startswith("a_b_c") and mine[0][2] == "192.0.2.1,_192.0.2.2"
        assert mine[0][8] is None
    assert int(next(g for g in lines if g[3:5] == ("GET", url))[6]) == len(elf.debug)
    assert int(next(g for g in lines if g[3:5] == ("GET", "/healthz"))[6]) == len("ok\n")
    assert "\x1b" not in s.log_path.read_text()
    quiet = serve([pool], args=["--no-access-log"]).ready()
    assert " XFF:" not in quiet.log_path.read_text()


def test_the_pages_files_may_lie_in_a_folder(serve, tmp_path):
    web = tmp_path / "web"
    shutil.copytree(pathlib.Path(__file__).resolve().parents[2] / "web", web)
    (web / "index.html").write_text("<!doctype html>mine")
    (tmp_path / "secret").write_text("secret")
    (web / "more.txt").write_text("not one of the page's")
    s = serve(["/usr/bin/true"], args=["--web-dir", web]).ready()
    assert s.get("/").body == b"<!doctype html>mine"
    assert s.get("/web/app.js").body == (web / "app.js").read_bytes()
    for path in ("/web/../secret", "/web/%2e%2e/secret", "/web/more.txt", "/web/", "/web//app.js", "/web/app.js/"):
        assert s.get(path).status in ((404,) if path != "/web/" else (200, 404)), path
    (web / "app.js").unlink()
    r = subprocess.run([LODE, "serve", "--no-upstream", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--web-dir", str(web), "/usr/bin/true"],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 1 and "app.js" in r.stderr


def reads_of(s):
    return int(re.search(r"syscr: (\d+)", pathlib.Path(f"/proc/{s.proc.pid}/io").read_text()).group(1))


@pytest.mark.slow
def test_the_kernel_sends_a_file(serve, elf, pool):
    """By sendfile(), some calls for a MiB, and not by a read() and a send() for each 4 KiB. HEAD, and what it sent before, cost nothing more."""
    body = elf.program + bytes(1 << 20)
    (pool / "program").write_bytes(body)
    s = serve([pool]).ready()
    s.scanned()
    path = f"/buildid/{elf.id}/executable"
    assert s.get(path).body == body
    before, files = reads_of(s), len(list(pathlib.Path(f"/proc/{s.proc.pid}/fd").iterdir()))
    for _ in range(20):
        assert s.get(path).body == body
        r = s.get(path, method="HEAD")
        assert r.status == 200 and r.headers["Content-Length"] == str(len(body)) and r.body == b""
        assert s.get(path, headers={"Range": "bytes=-70000"}).body == body[-70000:]
    assert reads_of(s) - before < 20 * 128
    s.wait(lambda: len(list(pathlib.Path(f"/proc/{s.proc.pid}/fd").iterdir())) <= files + 2, "no descriptors are left over")
