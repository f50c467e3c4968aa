# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2, raw: a client that may break every rule. Its headers are literals; it reads those of the server only by
the bytes that are the same in every coding of them."""

import os
import socket
import struct
import threading
import time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 3, 7, 8, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(n, bits):
    """HPACK's integer with a prefix of so many bits, all other bits 0."""
    if n < (1 << bits) - 1:
        return bytes([n])
    out, n = [(1 << bits) - 1], n - (1 << bits) + 1
    while n >= 128:
        out, n = out + [n % 128 + 128], n // 128
    return bytes([*out, n])


def literal(name, value):
    name, value = (x if isinstance(x, bytes) else x.encode() for x in (name, value))
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def head(method="POST", path="/push.v1.PusherService/Push", **headers):
    fields = {":method": method, ":scheme": "http", ":path": path, ":authority": "localhost",
              **({"content-type": "application/grpc", "te": "trailers"} if method == "POST" else {}), **headers}
    return b"".join(literal(k.replace("_", "-"), v) for k, v in fields.items())


def message(data=b""):
    return struct.pack(">BI", 0, len(data)) + data


class Conn:
    """A connection. Its frames are read in the background into `frames`: (type, flags, stream, payload)."""

    def __init__(self, s, settings=b"", preface=True, receive=None, window=None):
        self.k = socket.socket()
        if receive:
            self.k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.k.settimeout(30)
        self.k.connect(("127.0.0.1", s.grpc_port))
        self.frames, self.closed, self.reads = [], False, True
        self.changed = threading.Condition()
        if preface:
            self.send(PREFACE + frame(SETTINGS, payload=settings))
        if window:
            self.send(frame(WINDOW_UPDATE, payload=struct.pack(">I", window)))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        data = b""
        try:
            while True:
                while not self.reads:
                    time.sleep(0.01)
                got = self.k.recv(65536)
                if not got:
                    break
                data += got
                while len(data) >= 9 and len(data) >= 9 + (size := int.from_bytes(data[:3], "big")):
                    kind, flags, stream = struct.unpack(">BBI", data[3:9])
                    with self.changed:
                        self.frames.append((kind, flags, stream, data[9:9 + size]))
                        self.changed.notify_all()
                    data = data[9 + size:]
        except OSError:
            pass
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def send(self, data):
        """Returns whether the server still takes it."""
        try:
            self.k.sendall(data)
            return True
        except OSError:
            return False

    def wait(self, condition, timeout=30):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), timeout)

    def ask(self, stream, body=None, end=True, **kw):
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if body is None and end else 0), stream, head(**kw)) +
                  (frame(DATA, END_STREAM if end else 0, stream, body) if body is not None else b""))

    def of(self, kind, stream=None):
        return [f for f in list(self.frames) if f[0] == kind and stream in (None, f[2])]

    def ended(self, stream):
        """The reply is complete, or the stream was reset."""
        return any(f[2] == stream and (f[0] == RST_STREAM or (f[0] in (DATA, HEADERS) and f[1] & END_STREAM)) for f in list(self.frames))

    def reset_code(self, stream):
        return next((struct.unpack(">I", f[3])[0] for f in self.of(RST_STREAM, stream)), None)

    def goaway_code(self):
        return next((struct.unpack(">I", f[3][4:8])[0] for f in self.of(GOAWAY)), None)

    def close(self):
        self.k.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def rss_mib(s, field="VmRSS"):
    for line in open(f"/proc/{s.proc.pid}/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return os.nan
