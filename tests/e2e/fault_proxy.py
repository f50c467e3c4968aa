# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a server with S3's API, which makes requests go wrong.

Proxy(server) passes requests on to `server.port`. proxy.arm(op, fault, times) makes the next `times` requests of that operation go wrong; proxy.disarm()
ends that, and returns how many did. Operations: GET, HEAD, LIST, PUT (parts too), DELETE. FAULTS has the faults of each. A late put or
removal is refused (503) until its client has given up, and carried out some seconds after that."""

import http.client
import http.server
import random
import socket
import struct
import threading
import time

from bucket import Endpoint, Server

PASSING = ["slow_down", "conflict", "expired", "reset", "black_hole", "other_region"]
FAULTS = {
    "GET": [*PASSING, "error_200", "deny", "cut", "short", "huge_length", "wrong_etag", "flipped"],
    "HEAD": [*PASSING, "deny"],
    "LIST": [*PASSING, "error_200", "deny", "cut", "endless", "same_token", "not_xml"],
    "PUT": [*PASSING, "error_200", "deny", "flipped", "lost", "done_503", "late", "late"],
    "DELETE": [*PASSING, "error_200", "deny", "lost", "done_503", "late", "late"],
}
LATE_AFTER_S = 6  # a client tries for less than that while it is refused


class Proxy(Endpoint):
    def __init__(self, server, seed=0):
        self.server, self.lock, self.random = server, threading.Lock(), random.Random(seed)
        self.op = self.fault = None
        self.times = self.hit = 0
        self.late, self.held = {}, threading.Event()  # keys that are refused until their time; the end of black holes
        self.landing, self.tokens = [], set()  # tokens: of listings, made up
        proxy = self

        class Handler(Request):
            pass

        Handler.proxy = proxy
        self.http = Server(("127.0.0.1", 0), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def arm(self, op, fault, times=1):
        with self.lock:
            self.op, self.fault, self.times, self.hit = op, fault, times, 0

    def disarm(self):
        with self.lock:
            self.times, hit = 0, self.hit
            return hit

    def take(self, op, target):
        """The fault of this request, or None."""
        with self.lock:
            if self.late.get((op, target), 0) > time.monotonic():
                return "slow_down"
            if op != self.op or self.times == 0:
                return None
            self.times -= 1
            self.hit += 1
            if self.fault == "late":
                self.late[(op, target)] = time.monotonic() + LATE_AFTER_S
            return self.fault

    def land(self, request):
        """Carry @request out later: a function that asks the server."""
        def run():
            time.sleep(LATE_AFTER_S + self.random.random() * 4)
            try:
                request()
            except (OSError, http.client.HTTPException):
                pass  # the server was killed

        t = threading.Thread(target=run, daemon=True)
        self.landing.append(t)
        t.start()

    def landed(self):
        for t in self.landing:
            t.join()

    def close(self):
        self.held.set()
        self.http.shutdown()
        self.http.server_close()


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy = None

    def log_message(self, *args):
        pass

    def operation(self):
        path, _, query = self.path.partition("?")
        if self.command in ("PUT", "POST"):
            return "PUT"
        if self.command == "GET" and "prefix=" in query:
            return "LIST"
        return self.command

    def ask(self):
        """The server's answer: (status, headers, body)."""
        c = http.client.HTTPConnection("127.0.0.1", self.proxy.server.port, timeout=60)
        try:
            c.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "connection":
                    c.putheader(name, value)
            c.putheader("Connection", "close")
            c.endheaders(self.body or None)
            r = c.getresponse()
            return r.status, [h for h in r.getheaders() if h[0].lower() not in ("connection", "transfer-encoding", "keep-alive")], r.read()
        finally:
            c.close()

    def reply(self, status, headers, body, length=None):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD" and status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code, headers=()):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as the test wants</Message></Error>".encode()
        if self.command == "HEAD":
            headers = [*headers, ("Content-Length", str(len(text)))]
        self.reply(status, headers, text)

    def drop(self, reset=True):
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def do_GET(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.take(self.operation(), self.path)
        try:
            if fault:
                getattr(self, f"fault_{fault}")()
            elif self.proxy.tokens & set(self.path.partition("?")[2].split("&")):
                self.error(400, "InvalidArgument")  # as of a server that does not know it
            else:
                self.reply(*self.ask())
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the server was killed, or the client has gone

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    # ---- refused: nothing is carried out ----

    def fault_slow_down(self):
        self.error(503, "SlowDown")

    def fault_conflict(self):
        self.error(409, "OperationAborted")

    def fault_expired(self):
        self.error(400, "ExpiredToken")

    def fault_deny(self):
        self.error(403, "AccessDenied")

    def fault_error_200(self):
        self.error(200, "InternalError")

    def fault_reset(self):
        self.drop()

    def fault_black_hole(self):
        self.proxy.held.wait(60)
        self.drop(reset=False)

    def fault_other_region(self):
        self.error(301, "PermanentRedirect", [("x-amz-bucket-region", "eu-north-1")])

    # ---- carried out, and the client is told otherwise ----

    def fault_lost(self):
        self.ask()
        self.drop()

    def fault_done_503(self):
        self.ask()
        self.error(503, "InternalError")

    def fault_late(self):
        self.proxy.land(self.ask)
        self.error(503, "SlowDown")

    # ---- answers that are wrong ----

    def fault_flipped(self):
        if self.command in ("PUT", "POST"):  # on its way to the server
            self.body = self.flip(self.body)
            return self.reply(*self.ask())
        status, headers, body = self.ask()
        self.reply(status, headers, self.flip(body))

    @staticmethod
    def flip(body):
        middle = len(body) // 2
        return bytes([*body[:middle], body[middle] ^ 0x10, *body[middle + 1:]]) if body else body

    def fault_cut(self):
        status, headers, body = self.ask()
        self.close_connection = True
        self.reply(status, headers, body[:len(body) // 2], len(body))

    def fault_short(self):
        status, headers, body = self.ask()
        self.reply(status, headers, body[:len(body) // 2])

    def fault_huge_length(self):
        status, headers, body = self.ask()
        self.close_connection = True
        self.reply(status, headers, body, 1 << 60)

    def fault_wrong_etag(self):
        status, headers, body = self.ask()
        self.reply(status, [(n, '"of another object"' if n.lower() == "etag" else v) for n, v in headers], body)

    def list_with_token(self, token):
        self.proxy.tokens.add(f"continuation-token={token}")
        self.reply(200, [("Content-Type", "application/xml")],
                   f"<?xml version='1.0'?><ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}"
                   "</NextContinuationToken></ListBucketResult>".encode())

    def fault_endless(self):
        self.list_with_token(time.monotonic_ns())

    def fault_same_token(self):
        self.list_with_token("same")

    def fault_not_xml(self):
        self.reply(200, [("Content-Type", "text/html")], b"<html>welcome</html>")
