# SPDX-License-Identifier: Apache-2.0
"""gRPC-Web over HTTP/1.1: frames, codings, text, and refusals in the codes of gRPC."""

import base64
import gzip
import json
import re
import struct
import time
import urllib.parse

import pytest

from profiling import Pprof, ask, call, message

PUSH = "/push.v1.PusherService/Push"
WEB = {"Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1"}


def series(service, n=1):
    p = Pprof(types=[("cpu", "nanoseconds")], time_ms=int(time.time() * 1000), duration_ms=1000).sample(["main", "parse"], [n]).bytes()
    return message(1, message(1, message(1, b"service_name") + message(2, service.encode())) + message(2, message(1, p)))


def frame(data, flags=0):
    return struct.pack(">BI", flags, len(data)) + data


def frames(body):
    """The messages of a body, and its trailers."""
    out, trailers, at = [], None, 0
    while at < len(body):
        flags, size = struct.unpack_from(">BI", body, at)
        data, at = body[at + 5:at + 5 + size], at + 5 + size
        assert len(data) == size and trailers is None
        if flags & 0x80:
            trailers = dict(line.split(":", 1) for line in data.decode().split("\r\n") if line)
        else:
            out.append(data)
    return out, trailers


def ask_web(s, body, path=PUSH, headers=(), kind="application/grpc-web+proto"):
    status, data, got = call(s, "POST", path, body, {**WEB, "Content-Type": kind, **dict(headers)})
    assert status == 200 and got["Content-Type"] == kind, (status, data)
    return frames(base64.b64decode(data) if "text" in kind else data)


def refused(s, body, code, text, **kw):
    messages, trailers = ask_web(s, body, **kw)
    assert messages == [] and trailers["grpc-status"] == str(code), trailers
    assert text in urllib.parse.unquote(trailers["grpc-message"]), trailers


def test_calls_in_frames_compressed_and_in_text(s):
    assert ask_web(s, frame(series("plain"))) == ([b""], {"grpc-status": "0"})
    assert ask_web(s, frame(gzip.compress(series("gz")), 1), headers={"grpc-encoding": "gzip"})[1] == {"grpc-status": "0"}
    # A message that is not compressed, although a coding is named.
    assert ask_web(s, frame(series("none")), headers={"grpc-encoding": "zstd"})[1] == {"grpc-status": "0"}
    whole = frame(series("text"))
    text = base64.b64encode(whole[:4]) + base64.b64encode(whole[4:])
    assert ask_web(s, text, kind="application/grpc-web-text+proto") == ([b""], {"grpc-status": "0"})
    messages, trailers = ask_web(s, frame(b'{"name":"service_name"}'), path="/querier.v1.QuerierService/LabelValues", kind="application/grpc-web+json")
    assert json.loads(messages[0]) == {"names": ["gz", "none", "plain", "text"]} and trailers == {"grpc-status": "0"}
    messages, _ = ask_web(s, frame(message(1, b"service_name")), path="/querier.v1.QuerierService/LabelValues", kind="application/grpc-web")
    assert messages == [b"".join(message(1, n) for n in (b"gz", b"none", b"plain", b"text"))]


@pytest.mark.slow
def test_refusals_have_grpcs_codes(s):
    good = frame(series("a"))
    refused(s, frame(b""), 3, "the request has no profiles")
    refused(s, b"", 3, "ends within it")
    refused(s, good[:-1], 3, "ends within it")
    refused(s, good + good, 3, "bytes after it")
    refused(s, frame(series("a"), 2), 3, "flags")
    refused(s, frame(series("a"), 1), 3, "no grpc-encoding")
    refused(s, frame(series("a"), 1), 12, "gzip, zstd", headers={"grpc-encoding": "snappy"})
    refused(s, frame(b"\x0a\xff"), 3, "cut off")
    refused(s, good, 3, "grpc-timeout", headers={"grpc-timeout": "5"})
    refused(s, good, 12, "no call", path="/push.v1.PusherService/Pull")
    refused(s, good, 12, "no such path", path="/nothing")
    refused(s, b"not base64!", 3, "base64", kind="application/grpc-web-text+proto")
    # A bomb: 300 MiB of zeros.
    refused(s, frame(gzip.compress(bytes(300 << 20), 1), 1), 8, "", headers={"grpc-encoding": "gzip"})
    assert ask_web(s, good, headers={"grpc-timeout": "100S"})[1] == {"grpc-status": "0"}
    # In the log and for /api/senders it is the status that was refused with.
    senders = json.loads(call(s, "GET", "/api/senders")[1])["senders"]
    refusals = [x["refusal"] for x in senders if x["refused"]]
    assert {(x["status"], x["reason"].split()[0]) for x in refusals} >= {(404, "this")} and 413 in {x["status"] for x in refusals}, refusals


def test_no_refusal_is_kept_by_a_cache(s):
    """A call's is sent with 200. A GET is no call, whatever its type is: a cache would give the refusal to all who ask for that file."""
    status, _, got = call(s, "POST", "/querier.v1.QuerierService/LabelValues", b"", WEB)
    assert (status, got["Cache-Control"]) == (200, "no-store")
    for method in "GET", "HEAD":
        for host in "evil.example", "localhost":
            status, _, got = call(s, method, f"/buildid/{'ab' * 20}/debuginfo", None, {**WEB, "Host": host, "Referer": "x"})
            assert (status, got["Cache-Control"]) == (421 if host == "evil.example" else 404, "no-store"), (method, host)


def test_a_message_that_is_too_large_is_refused_by_its_prefix(s):
    def peak():
        return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{s.proc.pid}/status").read())[1])

    before = peak()
    # In chunks, so that no Content-Length says it first.
    refused(s, iter([struct.pack(">BI", 0, 64 << 20), *([bytes(1 << 20)] * 40)]), 8, "64 MiB")
    assert peak() - before < 16 << 10
    refused(s, struct.pack(">BI", 0, 0xffffffff), 8, "64 MiB")


def test_grpc_itself_needs_http2(s):
    status, data, headers = call(s, "POST", PUSH, frame(series("a")), {"Content-Type": "application/grpc"})
    assert status == 404 and b"gRPC needs HTTP/2" in data and headers["Content-Type"].startswith("text/plain")


def test_a_deadline_of_the_client_ends_the_call(s):
    def slowly():
        yield frame(series("late"))
        time.sleep(0.02)

    refused(s, slowly(), 4, "", headers={"grpc-timeout": "1n"})
    assert ask(s, "labels")["labels"] == []
