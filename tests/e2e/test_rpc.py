# SPDX-License-Identifier: Apache-2.0
"""Calls of protobuf services over Connect: Pyroscope's push.v1, in the forms that its clients send."""

import base64
import gzip
import json
import time

import pytest

from profiling import Pprof, ask, call, call_error, folded, message, small_profile

PUSH = "/push.v1.PusherService/Push"
PROTO = {"Content-Type": "application/proto"}
JSON = {"Content-Type": "application/json"}


def series(labels, *profiles, ids=()):
    out = b"".join(message(1, message(1, k.encode()) + message(2, v.encode())) for k, v in labels.items())
    for i, p in enumerate(profiles):
        out += message(2, message(1, p) + (message(2, ids[i].encode()) if ids else b""))
    return message(1, out)


def push(s, body, headers=PROTO, path=PUSH):
    return call(s, "POST", path, body, headers)


def test_profiles_in_protobuf_compressed_and_not(s):
    labels = {"__name__": "process_cpu", "service_name": "web", "__delta__": "false", "__session_id__": "17", "spy_name": "x"}
    status, data, headers = push(s, series(labels, small_profile()))
    assert (status, data, headers["Content-Type"]) == (200, b"", "application/proto")
    labels["service_name"] = "gz"
    status, data, _ = push(s, gzip.compress(series(labels, gzip.compress(small_profile(2)))), {**PROTO, "Content-Encoding": "gzip"})
    assert (status, data) == (200, b"")
    assert folded(ask(s, "flamegraph", query='{service_name="gz"}')) == {"main;parse": 200}
    assert ask(s, "labels")["labels"] == ["service_name", "spy_name"]
    assert ask(s, "labels/service_name/values")["values"] == ["gz", "web"]


def test_profiles_in_json(s):
    raw = base64.b64encode(small_profile()).decode()
    for i, (one, two) in enumerate([("rawProfile", raw), ("raw_profile", raw.rstrip("=").replace("+", "-").replace("/", "_"))]):
        body = {"series": [{"labels": [{"name": "__name__", "value": "process_cpu"}, {"name": "service_name", "value": f"j{i}"}],
                            "samples": [{one: two, "ID": "an ID"}], "annotations": None}]}
        status, data, headers = push(s, json.dumps(body), {**JSON, "Connect-Protocol-Version": "1", "Connect-Timeout-Ms": "10000"})
        assert (status, data, headers["Content-Type"]) == (200, b"{}", "application/json"), data
    assert ask(s, "labels/service_name/values")["values"] == ["j0", "j1"]


def test_each_profile_of_a_batch_is_judged_by_itself(s):
    body = series({"service_name": "good"}, small_profile(1), b"no profile", small_profile(2), ids=["a", "b", "c"]) + series({"service_name": "bad"}, b"\xff")
    call_error(push(s, body), 400, "invalid_argument", "2 of 4 profiles were refused, the others are stored: series 0, sample 1, ID b: the profile")
    assert ask(s, "labels/service_name/values")["values"] == ["good"]
    assert ask(s, "flamegraph", query="{}")["total"] == 300
    assert push(s, series({"__name__": "godeltaprof_memory", "service_name": "go"}, small_profile(3)))[0] == 200
    assert ask(s, "types", query='{service_name="go"}')["types"] == ["memory:cpu:nanoseconds:cpu:nanoseconds"]


@pytest.mark.slow
def test_refusals_are_connects(s):
    good = series({}, small_profile())
    call_error(push(s, b""), 400, "invalid_argument", "the request has no profiles")
    call_error(push(s, b"{}", JSON), 400, "invalid_argument", "the request has no profiles")
    call_error(push(s, b"\x0a\xff"), 400, "invalid_argument", "cut off")
    call_error(push(s, b"[]", JSON), 400, "invalid_argument", "a message must be an object")
    call_error(push(s, b'{"series":[{"labels":[{"name":1}]}]}', JSON), 400, "invalid_argument", "series 0: labels 0: 'name' must be text")
    call_error(push(s, good, {}), 415, "invalid_argument", "application/proto")
    call_error(push(s, good, {"Content-Type": "text/plain"}), 415, "invalid_argument")
    call_error(push(s, good, {**PROTO, "Content-Encoding": "br"}), 501, "unimplemented", "gzip, zstd")
    call_error(push(s, good, {**PROTO, "Content-Encoding": "gzip"}), 400, "invalid_argument", "the body as gzip")
    call_error(push(s, good, {**PROTO, "Connect-Timeout-Ms": "soon"}), 400, "invalid_argument")
    call_error(push(s, good, {**PROTO, "Connect-Protocol-Version": "2"}), 400, "invalid_argument")
    call_error(push(s, series({f"l{i}": "x" for i in range(70)}, small_profile())), 413, "invalid_argument", "labels")
    call_error(push(s, good, path="/push.v1.PusherService/Pull"), 404, "unimplemented")
    call_error(call(s, "GET", PUSH), 405, "unimplemented")
    call_error(push(s, series({}, b"") * 10001), 413, "invalid_argument", "more than 10000 profiles")
    # A bomb: 300 MiB of zeros.
    call_error(push(s, gzip.compress(bytes(300 << 20), 1), {**PROTO, "Content-Encoding": "gzip"}), 413, "invalid_argument")
    # A second layer of the message is refused; one of the profile in it is not, but both do no more than one could.
    gz = {**PROTO, "Content-Encoding": "gzip"}
    for twice in gzip.compress(gzip.compress(good)), gzip.compress(gzip.compress(gzip.compress(bytes(64 << 20)))):
        call_error(push(s, twice, gz), 400, "invalid_argument", "compressed twice")
    call_error(push(s, gzip.compress(series({}, gzip.compress(bytes(32 << 20)))), gz), 413, "invalid_argument", "more than the 16777216 bytes")
    assert push(s, good, {"Content-Type": "application/PROTO; x=y"})[0] == 200


@pytest.mark.slow
def test_a_label_with_ever_new_values_is_refused_for_good(s):
    """No client sends such a profile again; the reason names the label; profiles of series that are there are accepted."""
    def many(n, first=0):
        p = Pprof(types=[("cpu", "nanoseconds")], time_ms=int(time.time() * 1000), duration_ms=1000)
        for i in range(n):
            p.sample(["main"], [1], [("request", f"r{first + i}"), ("zone", f"z{i % 3}")])
        return p.bytes()

    # A sender that is alone may have seven eighths of 100 000 series.
    for k in range(88):
        status, data, _ = call(s, "POST", "/profiles?service=a", many(1000 - 500 * (k == 87), 1000 * k))
        assert status == 200, (k, data)
    reason = ("the sender 'loopback' has 87500 series, its share of the 100000 that there may be: the label 'request' has 16384 values in the "
              "newest 16384 of them; do not send it")
    call_error(push(s, series({"service_name": "a"}, many(1, 500000))), 422, "invalid_argument", reason)
    call_error(push(s, json.dumps({"series": [{"labels": [{"name": "service_name", "value": "b"}], "samples": [
        {"rawProfile": base64.b64encode(small_profile()).decode()}]}]}), JSON), 422, "invalid_argument", reason)
    status, data, _ = call(s, "POST", "/profiles?service=a", many(1, 600000))
    assert status == 422 and reason in json.loads(data)["error"], data
    assert call(s, "POST", "/ingest?name=b", b"a;b 1\n")[0] == 422
    assert call(s, "POST", "/profiles?service=a", many(2))[0] == 200
    assert s.metric(r'lode_http_refused_total\{limit="series"\}') == 4
    told = {x["path"]: x["refusal"] for x in ask(s, "senders")["senders"] if "refusal" in x}
    assert reason in told["/profiles"]["reason"] and told["/profiles"]["status"] == 422, told
