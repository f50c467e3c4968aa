# SPDX-License-Identifier: Apache-2.0
"""Makes and reads pprof profiles by hand, sends them, and has a small HTTP server to receive them."""

import http.client
import http.server
import json
import re
import subprocess
import threading
import time
import urllib.parse

CPU = "profile:cpu:nanoseconds:cpu:nanoseconds"


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, v):
    return varint(field << 3) + varint(v)


def message(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def taken(data, at):
    """(the varint at that offset, the offset after it)."""
    v = shift = 0
    while True:
        b = data[at]
        at += 1
        v |= (b & 127) << shift
        shift += 7
        if b < 128:
            return v, at


def fields(data):
    """The fields of a message, (number, value); values are numbers or bytes."""
    at = 0
    while at < len(data):
        key, at = taken(data, at)
        v, at = taken(data, at)
        if key & 7 == 2:
            v, at = data[at:at + v], at + v
        yield key >> 3, v


def numbers(value):
    """The numbers of a repeated field, single or packed."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        v, at = taken(value, at)
        yield v


class Pprof:
    """Builds a profile: sample(["outer", "inner"], [values...]). An int in a stack is an address in the mapping."""

    def __init__(self, types=(("samples", "count"), ("cpu", "nanoseconds")), mapping=(0, 1 << 40, 0, "/bin/x", ""), time_ms=0, duration_ms=0,
                 file="/src/x.c"):
        self.strings, self.functions, self.locations = {"": 0}, {}, {}
        self.types, self.mapping, self.time_ms, self.duration_ms = types, mapping, time_ms, duration_ms
        self.file, self.samples = file, b""

    def string(self, s):
        return self.strings.setdefault(s, len(self.strings))

    def location(self, frame):
        if isinstance(frame, str):
            self.functions.setdefault(frame, (len(self.functions) + 1, self.string(frame), self.string(self.file)))
        return self.locations.setdefault(frame, len(self.locations) + 1)

    def sample(self, stack, values, labels=()):
        out = message(1, b"".join(varint(self.location(f)) for f in reversed(stack)))
        out += message(2, b"".join(varint(v) for v in values))
        for k, v in labels:
            out += message(3, number(1, self.string(k)) + (number(2, self.string(v)) if isinstance(v, str) else number(3, v)))
        self.samples += message(2, out)
        return self

    def bytes(self):
        out = b"".join(message(1, number(1, self.string(t)) + number(2, self.string(u))) for t, u in self.types) + self.samples
        start, limit, offset, name, build_id = self.mapping
        out += message(3, number(1, 1) + number(2, start) + number(3, limit) + number(4, offset) + number(5, self.string(name)) +
                       number(6, self.string(build_id)))
        for frame, i in self.locations.items():
            if isinstance(frame, str):
                line = message(4, number(1, self.functions[frame][0]) + number(2, 10 + self.functions[frame][0]))
                out += message(4, number(1, i) + number(2, 1) + number(3, 0x1000 + i) + line)
            else:
                out += message(4, number(1, i) + number(2, 1) + number(3, frame))
        for i, name_at, file_at in self.functions.values():
            out += message(5, number(1, i) + number(2, name_at) + number(4, file_at))
        out += number(9, self.time_ms * 1000000) + number(10, self.duration_ms * 1000000)
        out += message(11, number(1, self.string("cpu")) + number(2, self.string("nanoseconds"))) + number(12, 10000000)
        for s in self.strings:
            out += message(6, s.encode() if isinstance(s, str) else s)
        return out


def code_segment(path):
    """Offset, address and size of the executable mapping, in whole pages."""
    out = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
    for m in re.finditer(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ (R.E)", out):
        off, vaddr, size = (int(m.group(i), 16) for i in (1, 2, 3))
        return off & ~0xfff, vaddr & ~0xfff, (size + 0x1fff) & ~0xfff
    raise AssertionError(out)


class Taker(http.server.ThreadingHTTPServer):
    """A context manager: a server on loopback whose answers come from the test's Answerer."""

    def __init__(self, answerer):
        super().__init__(("127.0.0.1", 0), answerer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *args):
        self.shutdown()
        super().__exit__(*args)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answerer(http.server.BaseHTTPRequestHandler):
    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def call(s, method, path, body=None, headers=None, timeout=120):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=timeout)
    try:
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        data = r.read()
        return r.status, data, r.headers
    finally:
        c.close()


def query(**args):
    return urllib.parse.urlencode({"from" if k == "from_" else k: v for k, v in args.items()})


def send(s, body, **labels):
    """Send a profile that must be accepted. Returns the receipt."""
    status, data, _ = call(s, "POST", f"/profiles?{query(**labels)}", body)
    assert status == 200, data
    return json.loads(data)


def ask(s, path, **args):
    status, data, headers = call(s, "GET", f"/api/{path}?{query(**args)}")
    assert status == 200, (path, args, data)
    assert headers["Content-Type"] == "application/json"
    return json.loads(data)


def refused(s, method, path, body=None, headers=None, status=None):
    """Send a request that must be refused. Returns the error text; the server must still run."""
    got, data, _ = call(s, method, path, body, headers)
    assert 400 <= got < 500 or got in (503, 507), (path, got, data)
    assert status is None or got == status, (path, got, data)
    text = json.loads(data)
    assert list(text) == ["error"] and len(text["error"]) > 8, data
    assert s.proc.poll() is None
    return text["error"]


def folded(graph):
    """The self values of a flame graph: {"main;f": value}."""
    names = [graph["strings"][n] for n in graph["frames"]["name"]]
    nodes, paths, out = graph["nodes"], [""], {}
    for i in range(1, len(nodes["parent"])):
        above = paths[nodes["parent"][i]]
        paths.append(f"{above};{names[nodes['frame'][i]]}" if above else names[nodes["frame"][i]])
        if nodes["self"][i]:
            out[paths[i]] = out.get(paths[i], 0) + nodes["self"][i]
    return out


def small_profile(n=1):
    """CPU time of one stack, main;parse: @n times 100 ns."""
    p = Pprof(types=[("cpu", "nanoseconds")], time_ms=int(time.time() * 1000), duration_ms=1000)
    return p.sample(["main", "parse"], [n * 100]).bytes()


def call_error(answer, status, code, text=""):
    """The reply of a Connect call that failed."""
    assert answer[0] == status and answer[2]["Content-Type"] == "application/json", answer
    found = json.loads(answer[1])
    assert found["code"] == code and text in found["message"], found
