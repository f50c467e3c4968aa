#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that clients of HTTP/2 and senders of too much can use: idle connections, messages of 64 MiB, many of these at once.

    bench/limits.py [--connections 5000] [--at-once 8]

Each row has the growth of the server's resident memory in MiB and its target. The second table has the answers to messages beyond the limit. The exit
status is 1 if an answer is not the expected one or a target is missed.
"""

import argparse
import concurrent.futures
import contextlib
import gzip
import http.client
import pathlib
import resource
import socket
import struct
import sys
import tempfile
import time

from common import CORPUS, ROOT, Server, Table, free_port

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from http2 import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, Conn, frame, head, message  # noqa: E402

PUSH = "/push.v1.PusherService/Push"
HEALTH = "/grpc.health.v1.Health/Check"
MIB = 1 << 20
MAX = 64 * MIB  # of a body


def memory(server, field="VmRSS"):
    for line in pathlib.Path(f"/proc/{server.proc.pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


@contextlib.contextmanager
def fresh(*extra):
    with tempfile.TemporaryDirectory(prefix="bench-limits-", dir=CORPUS) as tmp:
        (pathlib.Path(tmp) / "empty").mkdir()
        port = free_port()
        with Server("lode", [f"{tmp}/empty"], state=f"{tmp}/state", extra=["--listen-grpc", f"127.0.0.1:{port}", *extra]) as s:
            s.grpc_port = port
            s.wait_ready()
            time.sleep(1)
            yield s


# ---- idle connections ----

def idle_connection(server):
    """As a client of gRPC leaves it after a call: settings acknowledged, one call answered."""
    k = socket.create_connection(("127.0.0.1", server.grpc_port), timeout=60)
    k.sendall(PREFACE + frame(SETTINGS) + frame(SETTINGS, ACK) + frame(HEADERS, END_HEADERS, 1, head(path=HEALTH)) + frame(DATA, END_STREAM, 1, message()))
    data = b""
    while not ends_stream(data):
        got = k.recv(65536)
        if not got:
            raise SystemExit("a connection was closed")
        data += got
    return k


def ends_stream(data):
    at = 0
    while at + 9 <= len(data):
        size, kind, flags, stream = int.from_bytes(data[at:at + 3], "big"), data[at + 3], data[at + 4], int.from_bytes(data[at + 5:at + 9], "big")
        if at + 9 + size <= len(data) and kind in (HEADERS, DATA) and stream == 1 and flags & END_STREAM:
            return True
        at += 9 + size
    return False


def measure_idle(table, n):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A connection may need two descriptors of the server.
    if hard < 2 * n + 1000:
        raise SystemExit(f"{n} connections need a limit of {2 * n + 1000} open files; ulimit -Hn is {hard}")
    with fresh() as s:
        for k in [idle_connection(s) for _ in range(10)]:
            k.close()
        time.sleep(2)
        before = memory(s)
        conns = [idle_connection(s) for _ in range(n)]
        # The buffers of idle connections are given back after a second.
        time.sleep(3)
        table.add(f"{n} idle connections of gRPC", round(memory(s) - before, 1), target=64.0 * n / 5000, unit="MiB")
        for k in conns:
            k.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- large messages ----

def grpc_prefix(s, size=MAX):
    """A prefix that announces the size, then the bytes until the server answers."""
    with Conn(s) as c:
        c.ask(1, struct.pack(">BI", 0, size), end=False, path=PUSH)
        for _ in range(size // 16384):
            if c.ended(1) or not c.send(frame(DATA, 0, 1, bytes(16384))):
                break
        if not c.wait(lambda c: c.ended(1)):
            return "no answer"
        got = b"".join(f[3] for f in c.of(HEADERS, 1))
    # The number is a literal in HPACK, after its name, plain or in Huffman's code.
    return "RESOURCE_EXHAUSTED" if is_code_8(got) else f"{got[:60]}"


def is_code_8(block):
    """The field grpc-status with the value 8: a literal value of one byte, as such (01 38) or in Huffman's code (81 7b)."""
    return b"\x01\x38" in block or b"\x81\x7b" in block


def post(server, path, body, headers):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        c.request("POST", path, body=body, headers=headers)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the reply is there
    try:
        r = c.getresponse()
        return f"{r.status} {r.read()[:400].decode(errors='replace').strip()}"
    except (http.client.HTTPException, OSError) as e:
        return f"no answer: {e!r}"


def chunks(size):
    for _ in range(size // MIB):
        yield bytes(MIB)


PROTO = {"Content-Type": "application/proto"}
OTLP = {"Content-Type": "application/x-protobuf"}
MESSAGES = [
    # what, how, a part of the right answer
    ("gRPC, 64 MiB by its prefix", grpc_prefix, "RESOURCE_EXHAUSTED"),
    ("Connect, by its Content-Length", lambda s: post(s, PUSH, bytes(MAX + 1), PROTO), '"code":"invalid_argument"'),
    ("Connect, in chunks", lambda s: post(s, PUSH, chunks(MAX + MIB), PROTO), '"code":"invalid_argument"'),
    ("gRPC-Web, by its prefix, in chunks", lambda s: post(s, PUSH, (b for b in [struct.pack(">BI", 0, MAX), *chunks(40 * MIB)]),
                                                          {"Content-Type": "application/grpc-web+proto"}), "grpc-status:8"),
    ("OTLP over HTTP, by its Content-Length", lambda s: post(s, "/v1development/profiles", bytes(MAX + 1), OTLP), "413 "),
    ("POST /profiles, in chunks", lambda s: post(s, "/profiles?service=x", chunks(MAX + MIB), {}), "413 "),
    ("a query of Grafana's, 2 MiB", lambda s: post(s, "/querier.v1.QuerierService/ProfileTypes", bytes(2 * MIB), PROTO), '"code":"invalid_argument"'),
    ("Connect, 64 KiB that decompress to 64 MiB", lambda s: post(s, PUSH, gzip.compress(bytes(MAX)), PROTO | {"Content-Encoding": "gzip"}), "400 "),
    ("Connect, 300 KiB that decompress to 300 MiB", lambda s: post(s, PUSH, gzip.compress(bytes(300 * MIB), 1), PROTO | {"Content-Encoding": "gzip"}), "413 "),
]


def measure_messages(table, answers):
    for what, send, want in MESSAGES:
        with fresh() as s:
            before = memory(s)
            got = send(s)
            # Collected up to the limit, and what one body decompresses to: API_MAX_BODY, API_MAX_DECODED.
            table.add(what, round(memory(s, "VmHWM") - before, 1), target=272.0 if "decompress" in what else 80.0, unit="MiB")
            answers.append((what, got.replace("\n", " ")[:150], want in got))


def measure_at_once(table, answers, n):
    """Messages just below the limit, that never end: at most 256 MiB of them are kept."""
    with fresh() as s:
        before = memory(s)
        socks = []

        def send(_):
            k = socket.create_connection(("127.0.0.1", s.port), timeout=60)
            socks.append(k)
            k.sendall(b"POST /profiles?service=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % MAX)
            with contextlib.suppress(OSError):
                for b in chunks(MAX - MIB):
                    k.sendall(b)

        with concurrent.futures.ThreadPoolExecutor(n) as pool:
            list(pool.map(send, range(n)))
        time.sleep(1)
        table.add(f"{n} bodies of 63 MiB at once, which do not end", round(memory(s, "VmHWM") - before, 1), target=300.0, unit="MiB")
        refused = "503 " in post(s, "/profiles?service=x", bytes(8 * MIB), {})
        answers.append((f"one more, of 8 MiB, beside {n} of these", "503" if refused else "not refused", refused))
        for k in socks:
            k.close()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--connections", type=int, default=5000)
    a.add_argument("--at-once", type=int, default=8)
    a = a.parse_args()
    CORPUS.mkdir(parents=True, exist_ok=True)
    table, answers = Table(), []
    measure_idle(table, a.connections)
    measure_messages(table, answers)
    measure_at_once(table, answers, a.at_once)
    table.print()
    print("\n| message | answer | right |\n|---|---|---|")
    for what, got, right in answers:
        print(f"| {what} | {got} | {'yes' if right else 'NO'} |")
    sys.exit(any(not right for _, _, right in answers) or any(r["ours"] > r["target"] for r in table.rows))


if __name__ == "__main__":
    main()
