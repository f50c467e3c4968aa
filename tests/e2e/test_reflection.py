# SPDX-License-Identifier: Apache-2.0
"""gRPC's server reflection: a client that knows no service asks, over a stream that goes both ways, which there are."""

import re
import struct
import time

import pytest

from http2 import DATA, END_STREAM, HEADERS, Conn, frame, message
from profiling import call, fields
from profiling import message as field
from test_grpc_web import ask_web
from test_grpc_web import frame as web_frame
from test_http2 import start  # noqa: F401 (a fixture)

PATH = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
FILE, SYMBOL, EXTENSION, EXTENSIONS_OF, SERVICES = 3, 4, 5, 6, 7


class Stream:
    """A stream of questions, on a connection of its own."""

    def __init__(self, s, path=PATH, **kw):
        self.c = Conn(s, **kw)
        self.c.ask(1, end=False, path=path)
        self.n = 0

    def replies(self):
        data, at = b"".join(f[3] for f in self.c.of(DATA, 1)), 0
        out = []
        while at + 5 <= len(data) and at + 5 + (size := struct.unpack_from(">BI", data, at)[1]) <= len(data):
            out.append(data[at + 5:at + 5 + size])
            at += 5 + size
        return out

    def say(self, data, end=False):
        self.c.send(frame(DATA, END_STREAM if end else 0, 1, data))

    def ask(self, number, text=b""):
        """The answer, while the stream stays open."""
        self.say(message(field(number, text)))
        self.n += 1
        assert self.c.wait(lambda c: len(self.replies()) >= self.n or c.ended(1) or c.closed, 20)
        answer = dict(fields(self.replies()[self.n - 1]))
        assert answer[2] == field(number, text)
        return answer

    def ended(self, timeout=20):
        return self.c.wait(lambda c: c.ended(1) or c.closed, timeout) and self.c.ended(1)

    def trailers(self):
        """Of the last HEADERS: literals, in the bytes of which names and values are the same in every coding but Huffman's."""
        return self.c.of(HEADERS, 1)[-1][3]


def files_of(answer):
    """name -> its fields, of the first of them first."""
    out = {}
    for k, v in fields(answer[4]):
        assert k == 1
        f = list(fields(v))
        out[next(v for k, v in f if k == 1).decode()] = f
    return out


def names(items, number):
    return [next((v for k, v in fields(m) if k == 1), b"").decode() for n, m in items if n == number]


def services_of(answer):
    return [next(fields(m))[1].decode() for _, m in fields(answer[6])]


def test_questions_are_answered_while_the_stream_is_open(start):  # noqa: F811
    s = start()
    q = Stream(s)
    services = services_of(q.ask(SERVICES))
    assert {"push.v1.PusherService", "querier.v1.QuerierService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection", "parca.debuginfo.v1alpha1.DebuginfoService"} <= set(services)
    assert len(services) == len(set(services))
    files = files_of(q.ask(SYMBOL, b"push.v1.PusherService"))
    assert next(iter(files)) == "push/v1/push.proto" and set(files) == {"push/v1/push.proto", "types/v1/types.proto"}
    push = files["push/v1/push.proto"]
    assert names(push, 4) == ["PushRequest", "PushResponse", "RawProfileSeries", "RawSample"] and (3, b"types/v1/types.proto") in push
    # The symbol may be a method, a message, an enum's value; the file may be asked for by its name.
    for symbol in (b"push.v1.PusherService.Push", b"push.v1.RawSample", b"push.v1.RawSample.ID"):
        assert list(files_of(q.ask(SYMBOL, symbol)))[0] == "push/v1/push.proto"
    assert list(files_of(q.ask(FILE, b"types/v1/types.proto"))) == ["types/v1/types.proto"]
    assert list(files_of(q.ask(SYMBOL, b"debuginfo.v1alpha1.FileMetadata.Type")))[0] == "debuginfo/v1alpha1/debuginfo.proto"
    # What there is not is an answer too, and the stream goes on.
    for number, text, code in ((SYMBOL, b"no.Such", 5), (FILE, b"no.proto", 5), (EXTENSION, b"", 5), (EXTENSIONS_OF, b"no.Such", 5), (99, b"x", 3)):
        assert dict(fields(q.ask(number, text)[7]))[1] == code, text
    assert dict(fields(q.ask(EXTENSIONS_OF, b"push.v1.RawSample")[5])) == {1: b"push.v1.RawSample"}
    assert not q.c.ended(1)
    q.say(b"", end=True)
    assert q.ended() and q.c.reset_code(1) is None


def test_every_call_is_described_and_every_type_is_there(start):  # noqa: F811
    """Against the paths that the documentation has, and each description by the rules of protobuf."""
    s = start()
    q = Stream(s, PATH.replace("v1", "v1alpha"))
    described, types, used = set(), set(), set()
    for service in services_of(q.ask(SERVICES)):
        for file in files_of(q.ask(SYMBOL, service.encode())).values():
            package = next(v for k, v in file if k == 2).decode()
            assert (12, b"proto3") in file
            for k, v in file:
                if k == 6:
                    name = names([(k, v)], 6)[0]
                    for n, m in fields(v):
                        if n == 2:
                            method = dict(fields(m))
                            described.add(f"/{package}.{name}/{method[1].decode()}")
                            used |= {method[2].decode(), method[3].decode()}
                            assert method.get(5, 0) == ("Reflection" in name or method[1] == b"Upload"), method
                if k == 4:
                    outer = f".{package}.{names([(k, v)], 4)[0]}"
                    types.add(outer)
                    types |= {f"{outer}.{inner}" for inner in names(fields(v), 4)}
                    check_fields(v, used)
                if k in (4, 5):
                    check_enums([m for n, m in fields(v) if n == 4] if k == 4 else [v])
                if k == 5:
                    types.add(f".{package}.{names([(k, v)], 5)[0]}")
    assert used <= types, used - types
    text = open("docs/protocol.md").read()
    paths = set(re.findall(r"`(/[a-z0-9.]+\.[A-Z][A-Za-z]+/[A-Z][A-Za-z]+)`", "".join(re.findall(r"^\| POST \| .*", text, re.M))))
    assert described == paths, described ^ paths
    q.c.close()


def check_fields(message, used):
    seen, oneofs = set(), sum(n == 8 for n, _ in fields(message))
    for n, m in fields(message):
        if n != 2:
            continue
        f = dict(fields(m))
        assert f[3] > 0 and f[3] not in seen and f[1] not in seen and f[4] in (1, 3) and (6 in f) == (f[5] in (11, 14)), f
        seen |= {f[3], f[1]}
        used |= {f[6].decode()} if 6 in f else set()
        assert (9 in f) == (17 in f) and f.get(9, 0) < max(oneofs, 1)


def check_enums(enums):
    for e in enums:
        values = [dict(fields(m)) for n, m in fields(e) if n == 2]
        assert values and values[0][2] == 0 and all(2 in v for v in values), values


def test_streams_that_are_wrong_end_with_a_code(start):  # noqa: F811
    s = start()
    for data, what in ((message(b"\x0a\xff"), "cut off"), (struct.pack(">BI", 0, 1 << 20), "too long"), (b"\1" + message(b"x")[1:], "compressed"), (b"\7\0\0\0\0", "flags")):
        q = Stream(s)
        q.say(data)
        assert q.ended(), what
        assert q.replies() == []
    # The end of the client's side within a message.
    q = Stream(s)
    q.say(b"\0\0", end=True)
    assert q.ended()
    # No question at all, in frames or by the headers alone.
    c = Conn(s)
    c.ask(1, path=PATH)
    assert c.wait(lambda c: c.ended(1)) and c.reset_code(1) is None
    status, body, _ = call(s, "POST", PATH, b"{}", {"Content-Type": "application/json"})
    assert status == 415, body
    s.wait(lambda: s.log_path.read_text().count("ServerReflectionInfo") >= 7, "the lines of the log")
    assert re.findall(r"ServerReflectionInfo (\d+)", s.log_path.read_text())[:4] == ["400", "413", "400", "400"]


def test_answers_that_are_not_read_are_bounded(start):  # noqa: F811
    s = start()
    q = Stream(s, settings=struct.pack(">HI", 4, 16 << 20), window=16 << 20, receive=4096)
    q.c.reads = False
    one = message(field(SYMBOL, b"querier.v1.QuerierService"))
    for _ in range(200):
        if not q.c.send(frame(DATA, 0, 1, one * 10)):
            break
    q.c.reads = True
    assert q.ended()
    # Buffers of sockets took some.
    assert len(q.replies()) < 2000
    s.wait(lambda: "ServerReflectionInfo 429" in s.log_path.read_text(), "the line of the log")


def test_over_grpc_web_all_are_answered_at_the_end(start):  # noqa: F811
    s = start()
    messages, trailers = ask_web(s, web_frame(field(SERVICES, b"")) + web_frame(field(SYMBOL, b"push.v1.RawSample")), path=PATH)
    assert len(messages) == 2 and trailers == {"grpc-status": "0"}
    assert "push/v1/push.proto" in files_of(dict(fields(messages[1])))
    messages, trailers = ask_web(s, web_frame(b"\xff"), path=PATH)
    assert messages == [] and trailers["grpc-status"] == "3"


def test_an_open_stream_does_not_keep_the_server(start):  # noqa: F811
    s = start()
    q = Stream(s)
    q.ask(SERVICES)
    began = time.monotonic()
    s.stop()
    assert time.monotonic() - began < 4
    assert q.c.wait(lambda c: c.closed)


@pytest.mark.slow
def test_a_stream_without_questions_ends(start):  # noqa: F811
    s = start("--idle-timeout", "2")
    q = Stream(s)
    q.ask(SERVICES)
    assert q.ended(15) or q.c.closed


def test_a_server_for_tokens_says_nothing_without_one(start):  # noqa: F811
    s = start("--require-read-token")
    q = Stream(s)
    assert q.ended() and q.replies() == []
