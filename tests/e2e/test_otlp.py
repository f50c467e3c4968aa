# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's profiles, as its eBPF profiler and its Collector send them: named, labelled, and refused with a reason."""

import gzip
import json
import struct
import time

import pytest

from profiling import ask, call, fields, folded, message, number, varint
from test_naming import RARELY, built, chains, code_segment, put, sample  # noqa: F401 (a fixture)

PATH = "/v1development/profiles"
PROTO = {"Content-Type": "application/x-protobuf"}


class Otlp:
    """One profile of bare addresses: strings and attributes by number, a timestamp for each time that a sample was seen."""

    def __init__(self, built, addrs, service="shop", pid=4711):
        self.built, self.strings, self.attributes = built, {"": 0}, [b""]
        off, vaddr, size = code_segment(built.full)
        identity = self.attribute("process.executable.build_id.gnu", built.id)
        mapping = (number(1, vaddr) + number(2, vaddr + size) + number(3, off) + number(4, self.string("shop")) +
                   message(5, varint(identity)))
        self.mappings = [b"", mapping]
        self.locations = [b""] + [number(1, 1) + number(2, a) for a in addrs]
        self.stacks = [b""] + [message(1, varint(i + 1)) for i in range(len(addrs))]
        self.now = int(time.time() * 1e9)
        thread = self.attribute("thread.name", "worker")
        self.samples = [number(1, i + 1) + message(2, varint(thread)) + message(5, struct.pack("<Q", self.now) * (i + 1)) for i in range(len(addrs))]
        self.resource = b"".join(message(1, number(3, self.string(k)) + message(2, v)) for k, v in
                                 (("service.name", number(8, self.string(service))), ("process.pid", number(3, pid))))

    def string(self, s):
        return self.strings.setdefault(s, len(self.strings))

    def attribute(self, key, value):
        self.attributes.append(number(1, self.string(key)) + message(2, number(8, self.string(value))))
        return len(self.attributes) - 1

    def type(self, field, name, unit):
        return message(field, number(1, self.string(name)) + number(2, self.string(unit)))

    def profile(self):
        return (self.type(1, "samples", "count") + b"".join(message(2, s) for s in self.samples) + varint(3 << 3 | 1) + struct.pack("<Q", self.now) +
                number(4, 5 * 10**9) + self.type(5, "cpu", "nanoseconds") + number(6, 20 * 10**6))

    def bytes(self):
        out = message(1, message(1, self.resource) + message(2, message(2, self.profile())))
        tables = ((1, self.mappings), (2, self.locations), (5, [s.encode() for s in self.strings]), (6, self.attributes), (7, self.stacks))
        return out + message(2, b"".join(message(n, entry) for n, table in tables for entry in table))


@pytest.fixture
def s(serve, tmp_path):
    (tmp_path / "pool").mkdir()
    return serve([tmp_path / "pool"], args=RARELY).scanned()


def types(s):
    return sorted(t.split(":")[1] for t in ask(s, "types")["types"])


def test_addresses_of_the_ebpf_profiler_get_their_names(s, built):
    addrs = sample(built, 40)
    status, data, headers = call(s, "POST", PATH, gzip.compress(Otlp(built, addrs).bytes()), PROTO | {"Content-Encoding": "gzip"})
    assert (status, data, headers["Content-Type"]) == (200, b"", "application/x-protobuf")
    assert put(s, f"/buildid/{built.id}/debuginfo", built.full.read_bytes())[0] == 201
    samples = next(t for t in ask(s, "types")["types"] if ":samples:" in t)
    s.wait(lambda: ask(s, "binaries", query=samples, from_="now-1h", to="now")["binaries"][0]["state"] == "named", "names", 30)
    status, data, _ = call(s, "GET", f"/api/download?format=pprof&query={samples}&from=now-1h&to=now%2B1h")
    got, want = chains(data), built.oracle(addrs, "--no-demangle")
    assert [got[i + 1] for i in range(len(addrs))] == want


def test_json(s, built):
    """As OpenTelemetry's JSON has it: 64-bit numbers as text, names of fields in camel case."""
    now = str(int(time.time() * 1e9))
    strings = ["", "samples", "count", "cpu", "nanoseconds", "main", "serve", "x.c"]
    doc = {"resourceProfiles": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]}, "scopeProfiles": [{"profiles": [{
        "sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "timeUnixNano": now, "durationNano": "1000000000", "profileId": "00ff",
        "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": "20000000",
        "samples": [{"stackIndex": 1, "values": ["3"]}, {"stackIndex": 1, "timestampsUnixNano": [now, now]}]}]}]}],
        "dictionary": {"mappingTable": [{}], "linkTable": [{"traceId": "00", "spanId": "00"}], "attributeTable": [{}], "stringTable": strings,
                       "functionTable": [{}, {"nameStrindex": 5, "filenameStrindex": 7}, {"nameStrindex": 6}],
                       "locationTable": [{}, {"lines": [{"functionIndex": 2, "line": "7"}]}, {"lines": [{"functionIndex": 1}]}],
                       "stackTable": [{}, {"locationIndices": [1, 2]}]}}
    body = json.dumps(doc).encode()
    for twice, kind in ((body, "application/json"), (Otlp(built, sample(built, 3)).bytes(), "application/x-protobuf")):
        status, data, _ = call(s, "POST", PATH, gzip.compress(gzip.compress(twice)), {"Content-Type": kind, "Content-Encoding": "gzip"})
        assert status == 400, data
    for packed, headers in ((body, {}), (gzip.compress(body), {"Content-Encoding": "gzip"})):
        status, data, answered = call(s, "POST", PATH, packed, {"Content-Type": "application/json"} | headers)
        assert (status, data, answered["Content-Type"]) == (200, b"{}", "application/json")
    samples = next(t for t in ask(s, "types")["types"] if ":samples:" in t)
    assert folded(ask(s, "flamegraph", query=samples + '{service_name="web"}')) == {"main;serve": 5}
    doc["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"][0]["stackIndex"] = 9
    status, data, _ = call(s, "POST", PATH, json.dumps(doc), {"Content-Type": "application/json"})
    assert status == 400 and json.loads(data)["code"] == 3 and "no stack 9" in json.loads(data)["message"]


def test_the_service_takes_what_its_path_takes(s, built):
    """ProfilesService/Export, here over gRPC-Web."""
    body = Otlp(built, sample(built, 3)).bytes()
    for flags, packed in ((0, body), (1, gzip.compress(body))):
        status, data, _ = call(s, "POST", "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
                               struct.pack(">BI", flags, len(packed)) + packed, {"Content-Type": "application/grpc-web+proto", "grpc-encoding": "gzip"})
        assert (status, data) == (200, bytes(5) + struct.pack(">BI", 0x80, 15) + b"grpc-status:0\r\n")
    assert types(s) == ["cpu", "samples"]
    twice = gzip.compress(gzip.compress(body))
    _, data, _ = call(s, "POST", "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
                      struct.pack(">BI", 1, len(twice)) + twice, {"Content-Type": "application/grpc-web+proto", "grpc-encoding": "gzip"})
    assert b"grpc-status:3\r\ngrpc-message:the body is compressed twice" in data
    _, data, _ = call(s, "POST", "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
                      struct.pack(">BI", 0, 2) + b"\x0a\xff", {"Content-Type": "application/grpc-web+proto"})
    assert data.startswith(b"\x80") and b"grpc-status:3\r\ngrpc-message:the request: " in data


def test_idle_processes_of_one_program_are_added_up(s, built):
    """Their numbers are no labels, so their profiles of one request are equal; when it is sent again, nothing is added."""
    one = Otlp(built, sample(built, 1)).bytes()
    resource = next(value for n, value in fields(one) if n == 1)
    body = one + message(1, resource) * 2
    for _ in range(2):
        assert call(s, "POST", PATH, body, PROTO)[0] == 200
        samples = next(t for t in ask(s, "types")["types"] if ":samples:" in t)
        assert ask(s, "flamegraph", query=samples)["total"] == 3


def test_types_and_labels(s, built):
    addrs = sample(built, 3)
    for pid in (1, 2):
        assert call(s, "POST", PATH, Otlp(built, addrs, pid=pid).bytes(), PROTO)[0] == 200
    # The count of samples, and what that is in time; one series each, whatever process it was.
    assert types(s) == ["cpu", "samples"]
    assert ask(s, "labels")["labels"] == ["service_name", "thread_name"]
    cpu = next(t for t in ask(s, "types")["types"] if ":cpu:nanoseconds:" in t)
    g = ask(s, "flamegraph", query=cpu + '{service_name="shop"}')
    assert (g["unit"], g["total"]) == ("nanoseconds", 2 * (1 + 2 + 3) * 20 * 10**6)


def test_what_is_refused_is_told_in_the_clients_form(s, built):
    one = Otlp(built, sample(built, 3))
    good = one.bytes()
    one.samples.append(number(1, 99) + message(4, varint(1)))
    status, data, _ = call(s, "POST", PATH, one.bytes(), PROTO)
    assert status == 400 and dict(fields(data))[1] == 3 and b"no stack 99" in dict(fields(data))[2], data
    # In one request with a sound one: that one is stored, and the reply says how many were not.
    bad = message(1, message(2, message(2, one.profile())))
    status, data, _ = call(s, "POST", PATH, bad + good, PROTO)
    partial = dict(fields(dict(fields(data))[1]))
    assert status == 200 and partial[1] == 1 and b"no stack 99" in partial[2]
    assert types(s) == ["cpu", "samples"]
    for body, why in ((b"", b"empty"), (b"main;f 1\n", b""), (b"\x0a\x00", b"before 1.7")):
        status, data, headers = call(s, "POST", PATH, body, PROTO)
        assert status == 400 and headers["Content-Type"] == "application/x-protobuf"
        assert dict(fields(data))[1] == 3 and why in dict(fields(data))[2], data
    assert call(s, "GET", PATH)[0] == 405
