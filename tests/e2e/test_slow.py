# SPDX-License-Identifier: Apache-2.0
"""Clients that send or read a byte now and then, and many at once: they cost no other client anything for long."""

import contextlib
import socket
import threading
import time

import pytest

from making import debug_deb, elf, fetch, healthy, new_id, pool
from pushing import put, server, sha

def connect(s, head, body=b"", receive=None):
    k = socket.socket()
    if receive:
        k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    k.settimeout(60)
    k.connect(("127.0.0.1", s.port))
    k.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + body)
    return k


def is_closed(k):
    """Has the server closed it, with or without a reply?"""
    with contextlib.suppress(BlockingIOError):
        try:
            return k.recv(4096, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b"" or b"Connection: close" in k.recv(4096, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except ConnectionError:
            return True
    return False


class Trickle:
    """Sends a byte on each connection, ten times a second."""

    def __init__(self, socks):
        self.socks, self.stopping = socks, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            for k in self.socks:
                with contextlib.suppress(OSError):
                    k.send(b"x")
            time.sleep(0.1)

    def stop(self):
        self.stopping = True
        self.thread.join()
        for k in self.socks:
            k.close()


def closed_within(socks, timeout):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if all(is_closed(k) for k in socks):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_slow_bodies_end(server, elf):
    """To a path that takes a body, to one that does not exist, and of a GET."""
    s = server(["--idle-timeout", "3"])
    put_head = [f"PUT /buildid/{elf.id}/debuginfo HTTP/1.1", "Host: localhost", f"Content-Length: {len(elf.debug)}"]
    heads = [put_head, ["POST /profiles HTTP/1.1", "Host: localhost", "Content-Length: 60000"],
             ["POST /profiles HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked"],
             ["POST /nothing HTTP/1.1", "Host: localhost", "Content-Length: 60000"],
             ["POST /nothing HTTP/1.1", "Host: localhost", "Content-Length: 600000000"],
             ["GET /healthz HTTP/1.1", "Host: localhost", "Content-Length: 60000"]]
    socks = [connect(s, head, b"10\r\n" if "chunked" in head[-1] else b"") for head in heads for _ in range(5)]
    t = Trickle(socks)
    try:
        assert closed_within(socks, 20), [heads[i // 5][0] for i, k in enumerate(socks) if not is_closed(k)]
    finally:
        t.stop()
    s.wait(lambda: s.metric("lode_http_connections") <= 1, "all to be forgotten")
    assert s.metric(r'lode_http_refused_total{limit="slow body"}') >= 5
    healthy(s)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_get_whose_body_does_not_come_is_answered(server, elf, method):
    """By the HTTP thread, and by a worker."""
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, elf.debug)[0] == 201
    for target, body in (("/healthz", None), (path, elf.debug), (f"/buildid/{'00' * 20}/debuginfo", None), ("/nothing", None)):
        for sent in (b"", b"x" * 100, b"x" * 60000):
            k = connect(s, [f"{method} {target} HTTP/1.1", "Host: x", "Content-Length: 60000"], sent)
            k.settimeout(10)
            got, began = b"", time.monotonic()
            while more := k.recv(65536):
                got += more
            k.close()
            head, _, rest = got.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200" if target in ("/healthz", path) else b"HTTP/1.1 404"), (target, len(sent), got[:100])
            assert method == "HEAD" or body in (None, rest)
            assert time.monotonic() - began < 5
    s.wait(lambda: s.metric("lode_http_connections") <= 1, "all to be forgotten")


@pytest.mark.slow
def test_a_trickling_reader_is_let_go(server, elf):
    s = server(["--idle-timeout", "3"])
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, elf.large)[0] == 201
    slow = [connect(s, [f"GET {path} HTTP/1.1", "Host: x"], receive=4096) for _ in range(10)]
    # As many bytes as the rate needs, in one go now and then: a reader that is slow but sound.
    steady = connect(s, [f"GET {path} HTTP/1.1", "Host: x"], receive=4096)
    end, got, left = time.monotonic() + 30, 0, 12
    # The steady one and the one that asks. Asked once a round: the one that asked before may still be closing.
    while time.monotonic() < end and left > 2:
        for k in slow:
            with contextlib.suppress(OSError):
                k.recv(100)
        with contextlib.suppress(TimeoutError):
            got += len(steady.recv(20000))
        time.sleep(0.2)
        left = s.metric("lode_http_connections")
    # Those that read nearly nothing: by the rate, or by the idle time-out if the socket's buffer took the whole reply.
    assert left <= 2
    steady.settimeout(10)
    while got < len(elf.large):
        piece = steady.recv(1 << 20)
        assert piece
        got += len(piece)
    for k in [*slow, steady]:
        k.close()
    s.wait(lambda: s.metric("lode_http_connections") <= 1, "all to be forgotten")


@pytest.mark.slow
def test_trickling_uploads_make_room(server, elf):
    s = server()
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    socks = [connect(s, [f"PUT {path} HTTP/1.1", "Host: localhost", f"X-LODE-SHA256: {sha(b'%d' % i)}", f"Content-Length: {n}"])
             for i in range(100)]
    t = Trickle(socks)
    try:
        s.wait(lambda: put(s, path, elf.debug)[0] == 201, "a push to get through", 10)
        began = time.monotonic()
        for _ in range(5):
            assert put(s, path, b"", method="DELETE")[0] == 200
            assert put(s, path, elf.debug)[0] == 201
        assert time.monotonic() - began < 3
    finally:
        t.stop()
    s.wait(lambda: s.metric("lode_uploads") == 0, "all to be forgotten")
    healthy(s)


def test_new_clients_get_in_when_all_connections_are_idle(serve, pool):
    s = serve([pool], args=["--max-connections", "20"]).ready()
    idle = [connect(s, ["GET /healthz HTTP/1.1", "Host: x"]) for _ in range(100)]
    half = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(100)]
    for _ in range(20):
        assert s.get("/healthz").status == 200
    assert s.metric("lode_http_connections") <= 20 + 17
    for k in idle + half:
        k.close()
    s.wait(lambda: s.metric("lode_http_connections") <= 2, "all to be forgotten")


def test_this_machine_has_no_limit_of_its_own(serve, pool):
    """As a proxy on it needs them."""
    s = serve([pool]).ready()
    socks = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(300)]
    s.wait(lambda: s.metric("lode_http_connections") >= 300, "all to be accepted")
    for k in socks:
        k.close()
