# SPDX-License-Identifier: Apache-2.0
"""Parca's QueryService, over Connect and as its page and Grafana's data source call it, over gRPC-Web."""

import datetime
import gzip
import json
import struct
import time

import pytest

from conftest import Service
from profiling import Pprof, call, message, number, taken

SERVICE = "/parca.query.v1alpha1.QueryService/"
CPU = "profile:cpu:nanoseconds:cpu:nanoseconds:delta"
NOW = int(time.time()) // 60 * 60


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    s = Service([tmp_path_factory.mktemp("empty")], tmp_path_factory.mktemp("data")).ready()
    for i, job in enumerate(("web", "db", "web")):
        p = Pprof(types=[("cpu", "nanoseconds")], time_ms=(NOW - 600 + 60 * i) * 1000, duration_ms=10000)
        p.sample(["main", "parse"], [100 * (i + 1)]).sample(["main", "write"], [10])
        assert call(s, "POST", f"/profiles?job={job}", p.bytes())[0] in (200, 202)
    yield s
    s.stop()


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


RANGE = {"start": stamp(NOW - 3600), "end": stamp(NOW)}


def ask(s, what, request, status=200):
    got, body, _ = call(s, "POST", SERVICE + what, json.dumps(request), {"Content-Type": "application/json"})
    assert got == status, body
    return json.loads(body)


def query(s, report, text=CPU + "{}", status=200, **more):
    return ask(s, "Query", {"mode": "MODE_MERGE", "merge": {"query": text, **RANGE}, "reportType": f"REPORT_TYPE_{report}", **more}, status)


def test_lists(s):
    one, = ask(s, "ProfileTypes", {})["types"]
    assert one == {"name": "profile", "sampleType": "cpu", "sampleUnit": "nanoseconds", "periodType": "cpu", "periodUnit": "nanoseconds", "delta": True}
    assert ask(s, "Labels", {**RANGE, "profileType": CPU})["labelNames"] == ["job"]
    assert ask(s, "Values", {"labelName": "job", **RANGE})["labelValues"] == ["db", "web"]
    assert ask(s, "Values", {"labelName": "job", "match": ['{job=~"w.*"}'], **RANGE})["labelValues"] == ["web"]
    assert ask(s, "Labels", {"start": stamp(5), "end": stamp(9)}) == {}
    assert ask(s, "HasProfileData", {}) == {"hasData": True}
    assert ask(s, "Values", {}, 400)["code"] == "invalid_argument"


def test_values_over_time(s):
    found = ask(s, "QueryRange", {"query": CPU + "{}", **RANGE, "step": {"seconds": 60}})["series"]
    by_job = {x["labelset"]["labels"][0]["value"]: x for x in found}
    assert set(by_job) == {"web", "db"} and by_job["web"]["sampleType"] == {"type": "cpu", "unit": "nanoseconds"}
    assert ask(s, "QueryRange", {"query": CPU + "{}", **RANGE, "step": "60s"})["series"] == found
    points = by_job["web"]["samples"]
    assert [int(p["value"]) for p in points] == [110, 310] and points[0]["timestamp"].startswith(stamp(NOW - 600)[:16])
    assert points[0]["valuePerSecond"] == pytest.approx(110 / 60) and points[0]["count"] == 1
    one, = ask(s, "QueryRange", {"query": CPU + '{job="db"}', **RANGE, "sumBy": ["job"]})["series"]
    assert sum(int(p["value"]) for p in one["samples"]) == 210
    assert ask(s, "QueryRange", {"query": CPU + "{", **RANGE}, 400)["code"] == "invalid_argument"


def test_a_series_without_profiles_in_the_range_is_not_listed(s):
    between = {"start": stamp(NOW - 590), "end": stamp(NOW - 490)}
    one, = ask(s, "QueryRange", {"query": CPU + "{}", **between})["series"]
    assert one["labelset"]["labels"] == [{"name": "job", "value": "db"}]


def test_all_series_without_a_limit(tmp_path):
    s = Service([tmp_path], tmp_path / "data").ready()
    for part in range(2):
        p = Pprof(types=[("many", "count")], time_ms=(NOW - 600) * 1000, duration_ms=10000)
        for i in range(550):
            p.sample(["main"], [1], [("worker", f"{part}-{i}")])
        assert call(s, "POST", "/profiles?job=many", p.bytes())[0] in (200, 202)
    request = {"query": 'profile:many:count:cpu:nanoseconds:delta{job="many"}', **RANGE}
    assert len(ask(s, "QueryRange", request)["series"]) == 1100
    assert len(ask(s, "QueryRange", {**request, "limit": 10})["series"]) == 10
    s.stop()


def test_flame_graph_top_and_pprof(s):
    r = query(s, "FLAMEGRAPH_UNSPECIFIED")
    graph = r["flamegraph"]
    assert r["total"] == "630" and graph["unit"] == "nanoseconds" and graph["height"] == 2
    main, = graph["root"]["children"]
    assert main["meta"]["function"]["name"] == "main" and main["cumulative"] == "630"
    assert {c["meta"]["function"]["name"]: c["cumulative"] for c in main["children"]} == {"parse": "600", "write": "30"}
    top = query(s, "TOP", CPU + '{job="db"}')["top"]
    assert [(n["meta"]["function"]["name"], n.get("flat", "0"), n["cumulative"]) for n in top["list"]][0] == ("parse", "200", "200")
    body = message(3, message(1, CPU.encode() + b"{}") + message(2, number(1, NOW - 3600)) + message(3, number(1, NOW))) + number(1, 2) + number(5, 1)
    status, data, _ = call(s, "POST", SERVICE + "Query", body, {"Content-Type": "application/proto"})
    assert status == 200 and data[:1] == b"\x32"
    size, at = taken(data, 1)
    assert b"parse" in gzip.decompress(data[at:at + size])


def test_deep_stacks_in_json_too(s):
    """Levels below the 200th are part of it, in both forms of the reply."""
    at = NOW - 20 * 3600
    p = Pprof(types=[("cpu", "nanoseconds")], time_ms=at * 1000, duration_ms=10000)
    assert call(s, "POST", "/profiles?job=deep", p.sample([f"f{i}" for i in range(260)], [7]).bytes())[0] in (200, 202)
    merge = {"query": CPU + '{job="deep"}', "start": stamp(at - 60), "end": stamp(at + 60)}
    graph = ask(s, "Query", {"mode": "MODE_MERGE", "merge": merge})["flamegraph"]
    names, node = [], graph["root"]
    while node.get("children"):
        node, = node["children"]
        names.append(node["meta"]["function"]["name"])
        assert node["cumulative"] == "7"
    assert names == [f"f{i}" for i in range(200)] and graph["height"] == 200


def test_one_profile_and_a_comparison(s):
    single = {"query": CPU + '{job="web"}', "time": stamp(NOW - 600)}
    assert ask(s, "Query", {"single": single})["total"] == "110"
    sides = {k: {"mode": "MODE_MERGE", "merge": {"query": CPU + '{job="%s"}' % job, **RANGE}} for k, job in (("a", "db"), ("b", "web"))}
    root = ask(s, "Query", {"mode": "MODE_DIFF", "diff": sides})["flamegraph"]["root"]
    assert root["cumulative"] == "420" and root["diff"] == "210"


def test_what_is_not_there(s):
    for report in "FLAMEGRAPH_ARROW", "TABLE_ARROW", "FLAMEGRAPH_TABLE", "CALLGRAPH", "SOURCE":
        assert query(s, report, status=501)["code"] == "unimplemented"
    assert query(s, "TOP", "{}", status=400)["code"] == "invalid_argument"
    assert ask(s, "Query", {"mode": "MODE_DIFF"}, 400)["code"] == "invalid_argument"
    assert query(s, "TOP", CPU + '{job="none"}').get("top", {}).get("list", []) == []


def test_over_grpc_web(s):
    request = message(3, message(1, CPU.encode() + b"{}") + message(2, number(1, NOW - 3600)) + message(3, number(1, NOW))) + number(1, 2)
    status, data, headers = call(s, "POST", SERVICE + "Query", b"\0" + struct.pack(">I", len(request)) + request, {"Content-Type": "application/grpc-web+proto"})
    assert status == 200 and headers["Content-Type"] == "application/grpc-web+proto"
    size, = struct.unpack_from(">I", data, 1)
    assert data[0] == 0 and data[5:6] == b"\x2a" and b"parse" in data[5:5 + size]
    assert data[5 + size] == 0x80 and b"grpc-status: 0" in data[5 + size:].lower().replace(b":0", b": 0")


def test_top_counts_the_rows_that_it_leaves_out(tmp_path):
    s = Service([tmp_path], tmp_path / "data").ready()
    p = Pprof(types=[("cpu", "nanoseconds")], time_ms=(NOW - 600) * 1000, duration_ms=10000)
    for i in range(1500):
        p.sample(["main", f"f{i}"], [i + 1])
    assert call(s, "POST", "/profiles?job=web", p.bytes())[0] in (200, 202)
    top = query(s, "TOP")["top"]
    assert (len(top["list"]), top["reported"], top["total"]) == (1000, 1000, 1501)
    s.stop()
