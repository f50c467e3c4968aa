# SPDX-License-Identifier: Apache-2.0
"""gRPC over HTTP/2: calls by curl, and frames of clients that break the rules, each of which costs the server little."""

import base64
import gzip
import json
import re
import socket
import struct
import subprocess
import tempfile
import time

import pytest

from conftest import LODE, free_port
from http2 import (ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, NO_ERROR, PING, PREFACE,
                   PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, Conn, frame, head, literal, message, rss_mib)
from making import elf
from profiling import Pprof, ask, call
from profiling import message as field

PUSH = "/push.v1.PusherService/Push"
TYPES = "/querier.v1.QuerierService/ProfileTypes"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


@pytest.fixture
def start(serve, tmp_path):
    (tmp_path / "empty").mkdir()

    def go(*args, **kw):
        port = free_port()
        s = serve([tmp_path / "empty"], args=["--listen-grpc", f"127.0.0.1:{port}", *args], **kw)
        s.grpc_port = port
        # --tls-cert is for both addresses.
        return s if "--tls-cert" in args else s.ready()

    return go


@pytest.fixture
def s(start):
    return start()


def body_size(c):
    return sum(len(f[3]) for f in c.of(DATA, 1))


def curl(s, path, body=None, headers=(), args=(), scheme="http"):
    """Status, headers and trailers, body."""
    cmd = ["curl", "-sS", "-D", "-", "-o", "-", *(["--http2-prior-knowledge"] if scheme == "http" else []), f"{scheme}://127.0.0.1:{s.grpc_port}{path}", *args]
    for h in headers:
        cmd += ["-H", h]
    if body is not None:
        cmd += ["--data-binary", "@-"]
    # A complete answer to a body that is not out yet is followed by a reset (RFC 9113, section 8.1), for which curl 7.88 may forget the answer.
    for _ in range(20):
        p = subprocess.run(cmd, input=body, capture_output=True, timeout=60)
        if p.returncode != 92 or p.stdout:
            break
    assert p.returncode == 0, p.stderr
    first, rest = p.stdout.split(b"\r\n\r\n", 1)
    fields = dict(line.split(": ", 1) for line in first.decode().split("\r\n")[1:])
    m = re.search(rb"((?:grpc-[a-z-]+: [^\r\n]*\r\n)+)(?:\r\n)?$", rest)
    if m:
        fields |= dict(line.split(": ", 1) for line in m[1].decode().split("\r\n") if line)
        rest = rest[:m.start()]
    return int(first.split()[1]), fields, rest


def grpc(s, body, path=PUSH, headers=(), **kw):
    status, fields, data = curl(s, path, body, ["content-type: application/grpc+proto", *headers], **kw)
    assert status == 200 and fields["content-type"].startswith("application/grpc"), (status, fields)
    return int(fields["grpc-status"]), fields.get("grpc-message", ""), data


def example(service, n=1):
    p = Pprof(types=[("cpu", "nanoseconds")], time_ms=int(time.time() * 1000), duration_ms=1000).sample(["main", "parse"], [n]).bytes()
    return field(1, field(1, field(1, b"service_name") + field(2, service.encode())) + field(2, field(1, p)))


def is_well(s):
    """It answers others, over both transports, in good time."""
    t = time.monotonic()
    assert call(s, "GET", "/healthz")[0] == 200
    with Conn(s) as c:
        c.ask(1, message(), path=TYPES)
        assert c.wait(lambda c: c.ended(1)) and c.of(DATA, 1)
    assert time.monotonic() - t < 5


# ---- calls ----

def test_every_path_is_there_over_http2(s):
    assert curl(s, "/healthz")[0::2] == (200, b"ok\n")
    assert curl(s, "/nothing")[0::2] == (404, b"no such path\n")
    status, fields, data = curl(s, "/web/app.js")
    assert (status, data) == call(s, "GET", "/web/app.js")[:2]
    status, _, data = curl(s, "/api/types?from=now-1h")
    assert (status, json.loads(data)) == (200, {"types": []})
    s.wait(lambda: "GET /api/types 200" in s.log_path.read_text(), "its line in the log")


def test_calls_and_refusals_have_trailers(s):
    assert grpc(s, message(example("a"))) == (0, "", message())
    assert grpc(s, message(b"\x0a\xff"))[0] == 3
    assert grpc(s, message(), path="/push.v1.PusherService/Pull") == (12, "this server has no call /push.v1.PusherService/Pull", b"")
    assert grpc(s, message(), path="/nothing") == (12, "no such path", b"")
    assert ask(s, "labels/service_name/values")["values"] == ["a"]
    status, text, _ = grpc(s, struct.pack(">BI", 0, 64 << 20) + bytes(1 << 20))
    assert (status, "64 MiB" in text) == (8, True)
    senders = json.loads(call(s, "GET", "/api/senders")[1])["senders"]
    assert {x["path"] for x in senders} >= {PUSH} and any(x["accepted"] for x in senders)


def test_calls_that_ask_have_small_messages(s):
    """In each form, compressed or not: readers need no token, and may not use up the room of profiles. The text names the limit."""
    large, bomb = bytes(1 << 20), gzip.compress(bytes(2 << 20))
    limits = {TYPES: "1 MiB", "/parca.query.v1alpha1.QueryService/ProfileTypes": "1 MiB", "/grpc.health.v1.Health/Check": "4 KiB"}
    for path, limit in limits.items():
        status, text, _ = grpc(s, struct.pack(">BI", 0, 1 << 20) + bytes(1000), path=path)
        assert (status, limit in text) == (8, True), (path, status, text)
        status, text, _ = grpc(s, struct.pack(">BI", 1, len(bomb)) + bomb, path=path, headers=["grpc-encoding: gzip"])
        assert status == 8, (path, status, text)
        status, data, _ = call(s, "POST", path, message(large), {"Content-Type": "application/grpc-web+proto"})
        assert status == 200 and b"grpc-status:8\r\n" in data, (path, data)
        for kind in ("proto", "json"):
            status, data, _ = call(s, "POST", path, large + b"x", {"Content-Type": f"application/{kind}"})
            assert (status, json.loads(data)["code"]) == (413, "invalid_argument") and limit in json.loads(data)["message"], (path, data)
        status, data, _ = call(s, "POST", path, bomb, {"Content-Type": "application/proto", "Content-Encoding": "gzip"})
        assert status == 413, (path, status, data)
    assert grpc(s, message(example("large") + field(15, large)))[0] == 0


def test_health(start):
    s = start("--require-read-token")
    path = "/grpc.health.v1.Health/Check"
    assert grpc(s, message(), path=path) == (0, "", message(b"\x08\x01"))
    assert grpc(s, message(field(1, b"push.v1.PusherService")), path=path) == (0, "", message(b"\x08\x01"))
    assert grpc(s, message(field(1, b"nobody.v1.Service")), path=path)[:2] == (5, "this server has no service nobody.v1.Service")
    assert grpc(s, message(b"\xff"), path=path)[0] == 3
    assert call(s, "POST", path, b"{}", {"Content-Type": "application/json"})[:2] == (200, b'{"status":"SERVING"}')


def test_a_profile_of_many_windows(s):
    """More than the windows of stream and connection: they are opened as it is taken."""
    body = example("large") + field(15, bytes(20 << 20))
    assert grpc(s, message(body))[0] == 0
    assert ask(s, "labels/service_name/values")["values"] == ["large"]


def test_tokens(start, tmp_path):
    tokens = tmp_path / "tokens"
    s = start("--require-read-token", "--tokens", str(tokens))
    out = subprocess.run([LODE, "token", "add", "--tokens", str(tokens), "--scope", "push", "agent"], capture_output=True, text=True)
    token = out.stdout.strip().split()[-1]
    assert out.returncode == 0, out
    s.wait(lambda: grpc(s, message(example("c")))[0] == 16, "the token")
    assert grpc(s, message(example("a")), headers=[f"authorization: Bearer {token}"])[0] == 0
    basic = base64.b64encode(f"x:{token}".encode()).decode()
    assert grpc(s, message(example("b")), headers=[f"authorization: Basic {basic}"])[0] == 0
    assert grpc(s, message(), path=TYPES)[0] == 16
    # A query is no header, whatever it says.
    assert grpc(s, message(), path=TYPES + "?authorization")[0] == 16
    assert grpc(s, message(example("q")), path=PUSH + "?x=1&y", headers=[f"authorization: Bearer {token}"])[0] == 0
    assert grpc(s, message(), path=TYPES, headers=[f"authorization: Bearer {token}"])[0] in (0, 7)


def test_a_get_may_end_after_its_head(s):
    with Conn(s) as c:
        c.ask(1, b"", method="GET", path="/healthz")
        c.ask(3, end=False, method="GET", path="/healthz")
        c.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, literal("x-trailer", "1")))
        c.ask(5, b"x", method="GET", path="/healthz")
        assert c.wait(lambda c: all(c.ended(n) for n in (1, 3, 5)))
        # 200, 200, 400 in HPACK's static table.
        assert [c.of(HEADERS, n)[0][3][0] for n in (1, 3, 5)] == [0x88, 0x88, 0x8c]
        assert c.of(DATA, 1)[0][3] == b"ok\n"


@pytest.mark.slow
def test_an_upload_is_held_up_by_its_window(s, tmp_path):
    """A file of 30 MiB to the store, whose writer is slower than the client: bytes wait at the client, not here."""
    elf = tmp_path / "x.c"
    elf.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-Wl,--build-id=0x0123456789abcdef0123", "-o", tmp_path / "x", elf], check=True)
    pad = tmp_path / "pad"
    pad.write_bytes(bytes(range(256)) * (30 << 12))
    subprocess.run(["objcopy", "--add-section", f".pad={pad}", tmp_path / "x"], check=True)
    for args in (["-T", str(tmp_path / "x")], ["-T", "-"]):
        with open(tmp_path / "x", "rb") as f:
            p = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "-o", "/dev/null", "--http2-prior-knowledge", *args,
                                f"http://localhost:{s.grpc_port}/buildid/0123456789abcdef0123/debuginfo"], stdin=f, capture_output=True, timeout=60)
        assert p.stdout in (b"201", b"200"), p
    status, _, data = curl(s, "/buildid/0123456789abcdef0123/debuginfo")
    assert (status, data) == (200, (tmp_path / "x").read_bytes())


def test_goaway_when_the_service_stops(s):
    with Conn(s) as c:
        c.ask(1, message(), path=TYPES)
        assert c.wait(lambda c: c.ended(1))
        # A request that is being received goes on.
        c.ask(3, message(example("late"))[:20], end=False)
        time.sleep(0.2)
        s.proc.terminate()
        assert c.wait(lambda c: c.goaway_code() == NO_ERROR, 10)
        c.send(frame(DATA, END_STREAM, 3, message(example("late"))[20:]))
        assert c.wait(lambda c: c.of(HEADERS, 3), 10)
    assert s.proc.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("sends", [False, True])
def test_slow_readers_get_the_ends_of_their_replies_when_the_service_stops(serve, tmp_path, elf, sends):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x.debug").write_bytes(elf.large)
    port = free_port()
    s = serve([tmp_path / "files"], args=["--listen-grpc", f"127.0.0.1:{port}"]).scanned()
    s.grpc_port = port
    readers = []
    # Which part of a reply waits in the server depends on its size.
    for size in range(2_900_000, 2_964_000, 8000):
        c = Conn(s, settings=struct.pack(">HI", 4, (1 << 31) - 1), receive=4096, window=(1 << 31) - 65536)
        c.ask(1, method="GET", path=f"/buildid/{elf.id}/debuginfo", range=f"bytes=0-{size - 1}")
        assert c.wait(lambda c: body_size(c) > size - 300_000)
        c.reads = False
        readers.append((size, c))
    for size, c in readers:
        while f"/debuginfo 206 {size} " not in s.log_path.read_text():
            c.reads = True
            time.sleep(0.001)
            c.reads = False
            time.sleep(0.02)
    s.proc.terminate()
    if sends:
        # As most clients do while they read; a socket that is closed takes it for a reason to drop what it has not delivered.
        time.sleep(1)
        for _, c in readers:
            c.send(frame(WINDOW_UPDATE, payload=struct.pack(">I", 1)))
    for size, c in readers:
        c.reads = True
        assert c.wait(lambda c: c.ended(1) or c.closed)
        assert (body_size(c), c.ended(1)) == (size, True)
        c.close()
    assert s.proc.wait(30) == 0


def test_a_client_without_a_request_does_not_delay_the_stop(serve, tmp_path):
    """It never reads, as one that is gone without a word never acknowledges."""
    (tmp_path / "empty").mkdir()
    with tempfile.TemporaryDirectory() as folder:
        s = serve([tmp_path / "empty"], args=["--listen-grpc", f"unix:{folder}/s"]).ready()
        with socket.socket(socket.AF_UNIX) as k:
            k.connect(f"{folder}/s")
            k.sendall(PREFACE + frame(SETTINGS))
            k.recv(1, socket.MSG_PEEK)
            start = time.monotonic()
            s.proc.terminate()
            assert s.proc.wait(30) == 0
            assert time.monotonic() - start < 4  # replies have 5 s


@pytest.mark.slow
def test_an_idle_connection_is_told_to_go(start):
    s = start("--idle-timeout", "1")
    with Conn(s) as c:
        c.ask(1, message(), path=TYPES)
        assert c.wait(lambda c: c.goaway_code() == NO_ERROR and c.closed, 10)


def test_tls_with_alpn(start, tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    s = start("--tls-cert", str(cert), "--tls-key", str(key))
    secure = ["--cacert", str(cert)]
    s.wait(lambda: subprocess.run(["curl", "-sf", *secure, f"https://127.0.0.1:{s.port}/readyz"]).returncode == 0, "ready")
    # Over TLS, ALPN chooses HTTP/2; curl's prior knowledge is for plain text.
    assert grpc(s, message(example("a")), scheme="https", args=[*secure, "--http2"])[0] == 0
    assert curl(s, "/healthz", scheme="https", args=[*secure, "--http2"])[2] == b"ok\n"
    # Nothing else is spoken there: a client without ALPN, or of HTTP/1.1, is refused.
    for args in (["--no-alpn"], ["--http1.1"]):
        p = subprocess.run(["curl", "-sS", *secure, *args, f"https://127.0.0.1:{s.grpc_port}/healthz"], capture_output=True, timeout=20)
        assert p.returncode and b"ok" not in p.stdout, (args, p)


# ---- frames that break the rules ----

def test_pings_are_answered(s):
    with Conn(s) as c:
        c.send(frame(PING, payload=b"12345678"))
        assert c.wait(lambda c: (PING, ACK, 0, b"12345678") in c.frames)


def ends_calmly(c, timeout=30):
    return c.wait(lambda c: c.closed, timeout)


@pytest.mark.parametrize("flood", ["ping", "settings", "empty data", "priority", "window", "reset"])
def test_floods_end_their_connection(s, flood):
    before = rss_mib(s)
    with Conn(s) as c:
        stream = 1
        c.ask(stream, message()[:3], end=False)
        for _ in range(2000):
            if flood == "ping":
                data = frame(PING, payload=b"x" * 8) * 50
            elif flood == "settings":
                data = frame(SETTINGS, payload=struct.pack(">HI", 4, 65535)) * 50
            elif flood == "empty data":
                data = frame(DATA, 0, 1) * 50
            elif flood == "priority":
                data = b"".join(frame(2, 0, 101 + 2 * i, struct.pack(">IB", 0, 1)) for i in range(50))
            elif flood == "window":
                data = frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)) * 50
            else:
                data = b""
                for _ in range(50):
                    stream += 2
                    data += frame(HEADERS, END_HEADERS | END_STREAM, stream, head(path=TYPES)) + frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
            if not c.send(data):
                break
        assert ends_calmly(c)
    is_well(s)
    assert rss_mib(s) - before < 64


def test_continuations_have_an_end(s):
    with Conn(s) as c:
        c.send(frame(HEADERS, 0, 1, head()))
        for _ in range(100000):
            if not c.send(frame(CONTINUATION, 0, 1, b"") * 100):
                break
        assert ends_calmly(c)
    with Conn(s) as c:
        c.send(frame(HEADERS, 0, 1, head()))
        for i in range(100000):
            if not c.send(frame(CONTINUATION, 0, 1, literal(f"x{i}", "y" * 4000))):
                break
        assert ends_calmly(c)
    is_well(s)


def test_headers_that_unpack_to_much(s):
    # One entry of the table, 4000 bytes long, then a byte for each time that it comes again.
    entry = b"\x40" + literal("x-bomb", "y" * 4000)[1:]
    before = rss_mib(s)
    with Conn(s) as c:
        c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head() + entry + b"\xbe" * 8000))
        assert ends_calmly(c)
    # A little too much is refused in the form of the protocol; its connection goes on.
    with Conn(s) as c:
        c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head() + entry + b"\xbe" * 6))
        assert c.wait(lambda c: c.ended(1)) and c.of(HEADERS, 1)
        c.ask(3, message(), path=TYPES)
        assert c.wait(lambda c: c.ended(3)) and c.of(DATA, 3)
    assert rss_mib(s) - before < 32


def test_a_refused_call_of_grpc_is_answered_at_once(start, tmp_path):
    """Its client may send nothing more, and waits for the reply."""
    tokens = tmp_path / "tokens"
    assert subprocess.run([LODE, "token", "add", "--tokens", str(tokens), "--scope", "push", "agent"], capture_output=True).returncode == 0
    s = start("--tokens", str(tokens))
    with Conn(s) as c:
        # By its head; by the size of its message; by its form, with bytes of a message that never ends.
        c.ask(1, message(b"x" * 100)[:10], end=False, authorization="Bearer no-token-of-this-server")
        c.ask(3, struct.pack(">BI", 0, 64 << 20), end=False, path="/grpc.health.v1.Health/Check")
        c.ask(5, message(b"x" * 100)[:10], end=False, path="/nothing")
        for i in (1, 3, 5):
            assert c.wait(lambda c: c.ended(i), 1), i
        # The reply is complete before the reset, which says that nothing is wrong.
        assert c.wait(lambda c: all(c.reset_code(i) == NO_ERROR for i in (1, 3, 5)))
        assert all(c.of(HEADERS, i)[-1][1] & END_STREAM for i in (1, 3, 5))


def test_streams_beyond_the_limit_are_refused(s):
    with Conn(s) as c:
        for i in range(150):
            c.ask(1 + 2 * i, message(b"x" * 10)[:4], end=False)
        assert c.wait(lambda c: c.reset_code(201) == REFUSED_STREAM or c.closed, 10), [f[:3] for f in c.frames]
    is_well(s)


def test_a_client_that_opens_no_window(s):
    """It asks for much and takes nothing: what waits for it is little, and does not grow."""
    before = rss_mib(s)
    conns = [Conn(s, settings=struct.pack(">HI", 4, 0)) for _ in range(20)]
    for c in conns:
        for i in range(50):
            c.ask(1 + 2 * i, method="GET", path="/web/app.js")
    assert all(c.wait(lambda c: len(c.of(HEADERS)) == 50) for c in conns)
    assert not any(c.of(DATA) for c in conns)
    is_well(s)
    assert rss_mib(s) - before < 64
    # Byte by byte it gets what it asked for.
    c = conns[0]
    for _ in range(20):
        c.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
    assert c.wait(lambda c: sum(len(f[3]) for f in c.of(DATA, 1)) == 20)
    for c in conns:
        c.close()


@pytest.mark.slow
def test_a_client_may_pause_as_long_as_it_may_be_idle(start):
    s = start("--idle-timeout", "8")
    size = len(s.get("/api/openapi.json").body)
    with Conn(s, settings=struct.pack(">HI", 4, 1000)) as c:
        c.ask(1, method="GET", path="/api/openapi.json")
        assert c.wait(lambda c: sum(len(f[3]) for f in c.of(DATA, 1)) == 1000)
        time.sleep(5)
        assert not c.ended(1)
        c.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1 << 20)))
        assert c.wait(lambda c: c.ended(1)) and sum(len(f[3]) for f in c.of(DATA, 1)) == size
        c.ask(3, method="GET", path="/api/openapi.json")
        assert c.wait(lambda c: c.reset_code(3) == CANCEL, 20)
    assert s.metric(r'lode_http_refused_total\{limit="slow reader"\}') == 1


def test_windows_that_overflow(s):
    with Conn(s) as c:
        c.send(frame(WINDOW_UPDATE, payload=struct.pack(">I", 0x7fffffff)) * 2)
        assert ends_calmly(c) and c.goaway_code() == 3
    with Conn(s) as c:
        # More than the window of a connection.
        c.ask(1, message()[:4], end=False, path="/buildid/abcdef0123456789/debuginfo", method="PUT")
        is_well(s)


def test_replies_that_nobody_reads(s):
    """The socket is full: no further request of this client is read until it has been emptied."""
    before = rss_mib(s)
    with Conn(s, settings=struct.pack(">HI", 4, 0x7fffffff), window=0x7f000000 - 65535, receive=4096) as c:
        c.reads = False
        c.k.settimeout(2)
        for i in range(20000):
            if not c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * i, head(method="GET", path="/web/app.js"))):
                break
        is_well(s)
        assert rss_mib(s) - before < 32


@pytest.mark.slow
@pytest.mark.parametrize("what", ["answers", "replies", "headers"])
def test_streams_that_nobody_reads_hold_what_the_budget_grants(start, what):
    """3000 at once, without a window; those for which there is no memory are refused, and nobody else."""
    s = start("--memory", "64M")
    before = rss_mib(s)
    services = [Conn(s, settings=struct.pack(">HI", 4, 0), window=1 << 24) for _ in range(30)]
    question = message(field(4, b"querier.v1.QuerierService"))
    for c in services:
        for i in range(100):
            if what == "answers":
                c.ask(1 + 2 * i, question * 4, end=False, path=REFLECTION)
            elif what == "replies":
                c.ask(1 + 2 * i, method="GET", path="/metrics")
            else:
                c.ask(1 + 2 * i, end=False, path=REFLECTION, **{f"x-{k}": "v" * 900 for k in range(16)})
    is_well(s)
    # Without memory for the text of the metrics there is none of them.
    s.wait(lambda: (s.metric('lode_memory_bytes{class="reply"}') or 0) > 10 << 20, "most of the memory is granted")
    s.wait(lambda: (s.metric('lode_http_refused_total{limit="memory"}') or 0) > 0, "others are refused")
    assert any(c.reset_code(1 + 2 * i) == ENHANCE_YOUR_CALM or c.ended(1 + 2 * i) for c in services for i in range(100))
    assert rss_mib(s) - before < 64
    for c in services:
        c.close()
    s.wait(lambda: s.metric('lode_memory_bytes{class="reply"}') == 0, "the memory is returned")
    s.wait(lambda: rss_mib(s) - before < 12, "to the kernel, too")


@pytest.mark.slow
def test_stalled_bodies_and_half_open_connections(start):
    s = start("--idle-timeout", "1", "--body-deadline", "1", "--min-rate", "1000")
    with Conn(s, preface=False) as half, Conn(s) as stalled, Conn(s) as slow:
        half.send(PREFACE[:10])
        stalled.ask(1, message(b"x" * 100)[:10], end=False)
        slow.ask(1, message(b"x" * 100)[:10], end=False)
        for _ in range(60):
            slow.send(frame(DATA, 0, 1, b"x"))
            if slow.reset_code(1) == CANCEL:
                break
            time.sleep(0.1)
        assert slow.reset_code(1) == CANCEL
        assert stalled.wait(lambda c: c.reset_code(1) == CANCEL, 10)
        assert half.wait(lambda c: c.closed, 10)
    assert s.metric('lode_http_refused_total{limit="slow body"}') >= 2


def test_nonsense_is_an_error_of_the_protocol(s):
    for data in (b"GET / HTTP/1.1\r\n\r\n" + b"x" * 40, PREFACE + b"\xff" * 64, PREFACE + frame(HEADERS, END_HEADERS, 2, head()),
                 PREFACE + frame(SETTINGS) + frame(DATA, 0, 1, b"x"), PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, b"\xff" * 30)):
        with Conn(s, preface=False) as c:
            c.send(data)
            assert ends_calmly(c)
    is_well(s)


def test_many_connections_of_one_address_have_a_limit(start):
    s = start("--max-connections-per-ip", "5")
    conns = []
    for _ in range(20):
        k = socket.create_connection(("127.0.0.1", s.grpc_port), timeout=10)
        k.sendall(PREFACE + frame(SETTINGS))
        conns.append(k)
    time.sleep(0.5)
    left = 0
    for k in conns:
        k.setblocking(False)
        try:
            data = b"x"
            while data:
                data = k.recv(65536)
        except BlockingIOError:
            left += 1
        except OSError:
            pass
        k.close()
    assert left <= 6
