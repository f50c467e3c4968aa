# SPDX-License-Identifier: Apache-2.0
"""An upstream server that misbehaves: a debuginfod on loopback that serves a dictionary, with a fault per request."""

import contextlib
import gzip
import socket
import threading
import time


class Faulty:
    """Serves @files, {path: content}. how(path, n) returns the fault of the n-th request for a path (from 0), or None."""

    def __init__(self, files, how=lambda path, n: None, headers=(), tls=None, port=0):
        self.files, self.how, self.headers, self.tls = files, how, list(headers), tls
        self.heads, self.lock, self.stopping = [], threading.Lock(), threading.Event()
        self.socket = socket.create_server(("127.0.0.1", port), backlog=128)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def requests(self, part=""):
        with self.lock:
            return [h for h in self.heads if part in h.split("\r\n")[0]]

    def stop(self):
        self.stopping.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                c, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=[c], daemon=True).start()

    def serve(self, c):
        with contextlib.suppress(OSError):
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
        with contextlib.suppress(OSError), c:
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    more = c.recv(65536)
                    if not more:
                        return
                    data += more
                head, data = data.split(b"\r\n\r\n", 1)
                if not self.answer(c, head.decode()):
                    return

    def answer(self, c, head):
        path = head.split(" ")[1]
        if path.startswith("http://"):  # the client uses this server as a proxy
            path = "/" + path.split("/", 3)[3]
        with self.lock:
            n = sum(1 for h in self.heads if h.split(" ")[1].endswith(path))
            self.heads.append(head)
        fault = self.how(path, n)
        name, _, arg = (fault or "").partition(" ")
        body = self.files.get(path)
        if name in ("503", "429", "500", "404"):
            c.sendall(f"HTTP/1.1 {name} no\r\n{arg}Content-Length: 5\r\n\r\nbusy\n".encode())
            return True
        if name == "silent":
            self.stopping.wait(60)
            return False
        if name == "loop":
            c.sendall(f"HTTP/1.1 302 There\r\nLocation: {path}\r\nContent-Length: 0\r\n\r\n".encode())
            return True
        if name == "redirect":
            c.sendall(f"HTTP/1.1 302 There\r\nLocation: {arg}\r\nContent-Length: 0\r\n\r\n".encode())
            return True
        if name == "other":
            body = self.files["other"]
        if name == "html":
            body = b"<html><h1>Welcome to the hotel</h1></html>"
        if body is None:
            c.sendall(b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n")
            return True
        status, first, extra = "200 OK", 0, "".join(h + "\r\n" for h in self.headers)
        for line in head.split("\r\n"):
            if line.lower().startswith("range: bytes=") and name != "norange":
                first = int(line.split("=")[1].split("-")[0])
                status = "206 Part"
                extra += f"Content-Range: bytes {first}-{len(body) - 1}/{len(body)}\r\n"
        if first >= len(body) and first:
            c.sendall(b"HTTP/1.1 416 no\r\nContent-Length: 0\r\n\r\n")
            return True
        if name == "bomb":
            body, extra = gzip.compress(body[:4096] + bytes(int(arg or 50) << 20), 1), "Content-Encoding: gzip\r\n"
        if name == "longer":
            extra += f"Content-Length: {len(body) + 100}\r\n"
        elif name == "shorter":
            extra += f"Content-Length: {len(body) - 100}\r\n"
        elif name == "huge":
            extra += f"Content-Length: {1 << 50}\r\n"
        elif name == "shorter":
            extra += f"Content-Length: {len(body) - int(arg)}\r\n"
        elif name == "endless":
            extra += "Transfer-Encoding: chunked\r\n"
        else:
            extra += f"Content-Length: {len(body) - first}\r\n"
        c.sendall(f"HTTP/1.1 {status}\r\n{extra}\r\n".encode())
        body = body[first:]
        if name == "endless":
            while not self.stopping.is_set():
                c.sendall(f"{len(body):x}\r\n".encode() + body + b"\r\n")
        if name in ("cut", "stall", "longer"):
            c.sendall(body[:int(arg)] if arg else body)
            if name == "stall" or name == "longer":
                self.stopping.wait(60)
            return False
        if name == "drip":
            c.sendall(body[:1000])
            for i in range(1000, len(body)):
                if self.stopping.wait(float(arg)):
                    break
                c.sendall(body[i:i + 1])
            return False
        if name == "slow":
            for i in range(0, len(body), int(arg)):
                c.sendall(body[i:i + int(arg)])
                time.sleep(0.05)
            return True
        c.sendall(body)
        return True


class Dead:
    """A server that drops connections, like a machine that is switched off: its backlog is full."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.fill = []
        for _ in range(8):
            s = socket.socket()
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                s.connect(self.socket.getsockname())
            self.fill.append(s)

    def stop(self):
        for s in [self.socket, *self.fill]:
            s.close()
