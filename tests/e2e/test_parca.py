# SPDX-License-Identifier: Apache-2.0
"""Parca's services, as its senders call them."""

import base64
import gzip
import json
import pathlib

from profiling import ask, call, call_error, folded, message, number, small_profile

STORE = "/parca.profilestore.v1alpha1.ProfileStoreService/"
PROTO = {"Content-Type": "application/proto"}
JSON = {"Content-Type": "application/json"}
ALL = {"from": "0"}


def series(labels, *profiles):
    pairs = b"".join(message(1, message(1, k.encode()) + message(2, v.encode())) for k, v in labels.items())
    return message(2, message(1, pairs) + b"".join(message(2, message(1, p)) for p in profiles))


def write_raw(s, body, headers=PROTO):
    return call(s, "POST", STORE + "WriteRaw", body, headers)


def test_write_raw_in_protobuf_and_json(s):
    labels = {"__name__": "parca_agent_cpu", "job": "web"}
    status, data, headers = write_raw(s, series(labels, gzip.compress(small_profile())) + number(3, 1))
    assert (status, data, headers["Content-Type"]) == (200, b"", "application/proto")
    assert folded(ask(s, "flamegraph", query='{job="web"}')) == {"main;parse": 100}
    labels = [{"name": "__name__", "value": "cpu"}, {"name": "job", "value": "json"}]
    body = {"series": [{"labels": {"labels": labels}, "samples": [{"rawProfile": base64.b64encode(small_profile(2)).decode()}]}], "normalized": True}
    assert write_raw(s, json.dumps(body), JSON)[:2] == (200, b"{}")
    assert folded(ask(s, "flamegraph", query='{job="json"}')) == {"main;parse": 200}
    assert ask(s, "types")["types"] == ["cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "parca_agent_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"]


def test_each_profile_of_write_raw_is_judged_by_itself(s):
    body = series({"__name__": "cpu", "job": "web"}, small_profile(1), b"none", small_profile(2)) + series({"job": "nameless"}, small_profile())
    call_error(write_raw(s, body), 400, "invalid_argument", "2 of 4 profiles were refused, the others are stored: series 0, sample 1: the profile")
    assert ask(s, "flamegraph", query="{}")["total"] == 300
    call_error(write_raw(s, series({"job": "x"}, small_profile())), 400, "invalid_argument", "the label __name__ is missing")
    call_error(write_raw(s, b""), 400, "invalid_argument", "no profiles")
    call_error(write_raw(s, b"\x12\x99"), 400, "invalid_argument", "cut off")
    call_error(write_raw(s, series({f"l{i}": "x" for i in range(70)}, small_profile())), 413, "invalid_argument", "labels")


# ---- WriteArrow ----

AGENT = (pathlib.Path(__file__).parent.parent / "data/arrow/parca_agent.arrows").read_bytes()


def write_arrow(s, stream):
    return call(s, "POST", STORE + "WriteArrow", message(1, stream), PROTO)


def test_samples_of_the_agent(s):
    assert write_arrow(s, AGENT)[:2] == (200, b"")
    assert ask(s, "types", **ALL)["types"] == ["memory:inuse_space:bytes:space:bytes", "parca_agent:cpu:nanoseconds:cpu:nanoseconds:delta",
                                               "parca_agent:samples:count:cpu:nanoseconds:delta"]
    # Not the thread's ID and CPU, which would make a series of each.
    assert ask(s, "labels", **ALL)["labels"] == ["comm", "node", "thread_name"]
    count = "parca_agent:samples:count:cpu:nanoseconds:delta"
    assert ask(s, "flamegraph", query=count + '{comm="web"}', **ALL)["total"] == 3
    assert ask(s, "flamegraph", query="parca_agent:cpu:nanoseconds:cpu:nanoseconds:delta" + '{comm="db"}', **ALL)["total"] == 4 * 52631578
    stacks = folded(ask(s, "flamegraph", query=count + "{}", **ALL))
    assert sum(stacks.values()) == 7
    assert any(line.endswith("do_syscall_64") for line in stacks) and any(line.endswith("handler_of_requests_with_a_long_name") for line in stacks)
    binaries = {b["build_id"] for b in ask(s, "binaries", **ALL)["binaries"]}
    assert {"0123456789abcdef0123456789abcdef01234567", "00112233445566778899aabbccddeeff"} <= binaries
    profiles = ask(s, "profiles", query=count + "{}", **ALL)["profiles"]
    assert len(profiles) == 2 and {p["duration"] for p in profiles} == {1000}
    # Sent again, since the reply was lost.
    assert write_arrow(s, AGENT)[:2] == (200, b"")
    assert ask(s, "flamegraph", query=count + "{}", **ALL)["total"] == 7
    senders = json.loads(call(s, "GET", "/api/senders")[1])["senders"]
    assert [x["path"] for x in senders] == [STORE + "WriteArrow"]


def test_streams_that_are_none(s):
    call_error(write_arrow(s, b""), 400, "invalid_argument", "ipc_buffer: is no stream of Arrow")
    call_error(write_arrow(s, AGENT[:5000]), 400, "invalid_argument", "ipc_buffer: message")
    call_error(write_arrow(s, AGENT.replace(b"parca_write_schema_version", b"parca_write_schema_versiom")), 400, "invalid_argument", "schema v2")
