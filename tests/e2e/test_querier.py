# SPDX-License-Identifier: Apache-2.0
"""querier.v1, the API that Grafana asks: each number compared with that of /api, as protobuf and as JSON."""

import gzip
import json
import random
import struct
import time
from urllib.parse import quote

import pytest

from profiling import Pprof, ask, call, fields, folded, message, number, numbers, send, varint

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SAMPLES = "process_cpu:samples:count:cpu:nanoseconds"
STORED_CPU = "profile:cpu:nanoseconds:cpu:nanoseconds:delta"
NOW = int(time.time() * 1000)
START, END = NOW - 3600000, NOW


def text(field, value):
    return message(field, value.encode())


def double(field, value):
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def rpc(s, name, body=b"", status=200, headers=None):
    """A call with a binary message; the fields of the answer."""
    path = f"/querier.v1.QuerierService/{name}"
    got, data, h = call(s, "POST", path, body, {"Content-Type": "application/proto", **(headers or {})})
    assert got == status, (name, got, data)
    if status != 200:
        assert h["Content-Type"] == "application/json"
        return json.loads(data)
    assert h["Content-Type"] == "application/proto"
    return data


def rpc_json(s, name, **args):
    got, data, h = call(s, "POST", f"/querier.v1.QuerierService/{name}", json.dumps(args), {"Content-Type": "application/json"})
    assert got == 200 and h["Content-Type"] == "application/json", (got, data)
    return json.loads(data)


def strings(data):
    return [v.decode() for n, v in fields(data) if n == 1]


def select(type_id=CPU, selector="{}", start=START, end=END, more=b""):
    return text(1, type_id) + text(2, selector) + number(3, start) + number(4, end) + more


def points(data):
    """Of SelectSeries: {labels: {time: value}}."""
    out = {}
    for _, series in fields(data):
        labels, found = {}, {}
        for n, v in fields(series):
            if n == 1:
                pair = dict(fields(v))
                labels[pair[1].decode()] = pair[2].decode()
            else:
                point = doubles(v)
                found[point[2]] = point.get(1, 0)
        out[tuple(sorted(labels.items()))] = found
    return out


def doubles(data):
    """A Point: a double and a number."""
    out, at = {}, 0
    while at < len(data):
        if data[at] & 7 == 1:
            out[data[at] >> 3] = struct.unpack("<d", data[at + 1:at + 9])[0]
            at += 9
        else:
            out.update(fields(data[at:]))
            break
    return out


def flame(data, sides=1):
    """A flame graph as {"main;f": self values}, after checking each bar against its caller."""
    names, levels, sums = [], [], {}
    for n, v in fields(data):
        if n == 1:
            names.append(v.decode())
        elif n == 2:
            levels.append([x for _, packed in fields(v) for x in numbers(packed)])
        else:
            sums[n] = v
    assert names[0] == "total" and len(levels[0]) == 3 * sides + 1 and levels[0][-1] == 0
    above, out, max_self = None, {}, 0
    for level in levels:
        bars, ends = [], [0] * sides
        for i in range(0, len(level), 3 * sides + 1):
            spans, own = [], []
            for side in range(sides):
                offset, total, self_value = level[i + 3 * side:i + 3 * side + 3]
                start = ends[side] + offset
                ends[side] = start + total
                spans.append((start, ends[side]))
                own.append(self_value)
                max_self = max(max_self, self_value)
            name = names[level[i + 3 * sides]]
            path = ""
            if above is not None:
                found = [b for b in above if all(b[0][k][0] <= spans[k][0] and spans[k][1] <= b[0][k][1] for k in range(sides))]
                assert found, (name, spans, above)
                # Of callers without a width at this place, the wide one.
                caller = max(found, key=lambda b: sum(e - a for a, e in b[0]))
                path = f"{caller[1]};{name}" if caller[1] else name
            bars.append((spans, path))
            if any(own):
                out[path] = [a + b for a, b in zip(out.get(path, [0] * sides), own)]
        above = bars
    assert sums.get(4, 0) == max_self
    return ({k: v[0] for k, v in out.items()} if sides == 1 else out), sums


def fill(s):
    """Profiles of two services over an hour: one every five minutes."""
    for i in range(12):
        at = END - 5 * 60000 * i - 1000
        p = Pprof(time_ms=at, duration_ms=10000)
        p.sample(["main", "parse", "lex"], [3, 300 + i]).sample(["main", "parse"], [1, 100])
        p.sample(["main", "emit"], [2, 200]).sample(["main", "parse", "lex", "parse"], [1, 50])
        send(s, p.bytes(), service="web", host=f"a{i % 3}")
        q = Pprof(time_ms=at, duration_ms=10000)
        q.sample(["main", "wait"], [5, 500 * i])
        send(s, q.bytes(), service_name="db", region="eu")


# ---- lists ----

def test_lists(s):
    assert rpc(s, "ProfileTypes") == b""
    fill(s)
    times = number(1, START) + number(2, END)
    types = [dict(fields(v)) for n, v in fields(rpc(s, "ProfileTypes", times))]
    assert [t[1].decode() for t in types] == [CPU, SAMPLES]
    assert {k: v.decode() for k, v in types[0].items()} == {1: CPU, 2: "process_cpu", 4: "cpu", 5: "nanoseconds", 6: "cpu", 7: "nanoseconds"}
    assert rpc(s, "ProfileTypes", number(1, 1000) + number(2, 2000)) == b""
    names = strings(rpc(s, "LabelNames", number(2, START) + number(3, END)))
    assert [n for n in names if n[0] != "_"] == sorted(ask(s, "labels")["labels"])
    for matcher in ("", "{}", '{service_name="web"}'):
        names = strings(rpc(s, "LabelNames", text(1, matcher) + number(2, START) + number(3, END)))
        assert "host" in names and ("region" in names) == ("web" not in matcher)

    def values(name, *matchers):
        return strings(rpc(s, "LabelValues", text(1, name) + b"".join(text(2, m) for m in matchers) + number(3, START) + number(4, END)))

    assert values("service_name") == ["db", "web"]
    assert values("service_name", '{host=~"a[12]",x=""}', '{__type__="cpu"}') == ["web"]
    assert values("__profile_type__") == [CPU, SAMPLES]
    assert values("__name__") == ["process_cpu"]
    assert values("host", '{service_name!="web"}') == []
    assert values("host", f'{{__profile_type__="{CPU}",host!~"a1|a2"}}') == ["a0"]
    sets = rpc_json(s, "Series", matchers=["{}"], labelNames=["service_name", "region"], start=START, end=END)["labelsSet"]
    assert sets == [{"labels": [{"name": "region", "value": "eu"}, {"name": "service_name", "value": "db"}]},
                    {"labels": [{"name": "service_name", "value": "web"}]}]
    whole = rpc_json(s, "Series", start=START, end=END)["labelsSet"]
    assert len(whole) == 8 and all(any(p["name"] == "__profile_type__" for p in x["labels"]) for x in whole)
    stats = rpc_json(s, "GetProfileStats")
    assert stats["dataIngested"] is True and START <= int(stats["oldestProfileTime"]) < int(stats["newestProfileTime"]) <= END
    assert rpc_json(s, "AnalyzeQuery", start=START, end=END, query=CPU + '{service_name="web"}')["queryImpact"] == {"totalQueriedSeries": "3"}


def test_a_type_from_before_is_queried_by_the_same_id(s):
    p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=NOW - 60000, duration_ms=1000)
    p.sample(["f"], [5])
    send(s, p.bytes(), service="old")
    send(s, p.bytes(), service="new", __name__="process_cpu")
    assert len(ask(s, "types")["types"]) == 2
    data = dict(fields(rpc(s, "SelectMergeStacktraces", select())))
    assert flame(data[1])[0] == {"f": 10}
    for stored in (STORED_CPU, CPU + ":delta"):
        assert rpc(s, "SelectMergeStacktraces", select(stored)) == rpc(s, "SelectMergeStacktraces", select())


# ---- profiles ----

def test_flame_graphs_are_those_of_the_api(s):
    fill(s)
    for selector, query in (("{}", STORED_CPU), ('{service_name="web"}', STORED_CPU + '{service="web"}'), ('{host=~"a0|a1"}', STORED_CPU + '{host=~"a0|a1"}')):
        graph = ask(s, "flamegraph", query=query, from_=START, to=END + 1)
        got, sums = flame(dict(fields(rpc(s, "SelectMergeStacktraces", select(selector=selector))))[1])
        assert got == folded(graph) and sums[3] == graph["total"], selector
        j = rpc_json(s, "SelectMergeStacktraces", profileTypeID=CPU, labelSelector=selector, start=str(START), end=END)["flamegraph"]
        assert j["names"][0] == "total" and int(j["total"]) == graph["total"] and int(j["levels"][0]["values"][1]) == graph["total"]
    assert rpc(s, "SelectMergeStacktraces", select(selector='{service_name="none"}')) == b""
    assert rpc(s, "SelectMergeStacktraces", select("memory:x:y:z:w")) == b""
    assert rpc_json(s, "SelectMergeStacktraces", profileTypeID=CPU, start=1, end=2) == {}
    # One profile.
    one = ask(s, "profiles", query=STORED_CPU, limit=1)["profiles"][0]
    got, _ = flame(dict(fields(rpc(s, "SelectMergeStacktraces", select(more=text(8, str(one["id"]))))))[1])
    assert got == folded(ask(s, "flamegraph", profile=one["id"]))
    # A call site: what is called from main, parse.
    site = message(7, message(1, text(1, "main")) + message(1, text(1, "parse")))
    whole = folded(ask(s, "flamegraph", query=STORED_CPU, from_=START, to=END + 1))
    got, _ = flame(dict(fields(rpc(s, "SelectMergeStacktraces", select(more=site))))[1])
    assert got == {k: v for k, v in whole.items() if (k + ";").startswith("main;parse;")}


def test_nodes_that_are_left_out_are_other(s):
    p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=NOW - 60000, duration_ms=1000)
    for i in range(300):
        p.sample(["main", f"f{i % 20}", f"g{i}"], [1000 + i])
    send(s, p.bytes(), service="web")
    whole = sum(1000 + i for i in range(300))
    full, sums = flame(dict(fields(rpc(s, "SelectMergeStacktraces", select())))[1])
    assert sums[3] == whole and len(full) == 300
    for n in (1, 5, 30, 100):
        got, sums = flame(dict(fields(rpc(s, "SelectMergeStacktraces", select(more=number(5, n)))))[1])
        assert sums[3] == whole and sum(got.values()) == whole
        assert len(got) < 300 and any(k.endswith("other") for k in got)


def tree_of(data):
    """Pyroscope's tree as {"main;f": self}."""
    from profiling import taken
    at, open_nodes, out = 0, [], {}
    while at < len(data):
        size, at = taken(data, at)
        name, at = data[at:at + size].decode(), at + size
        value, at = taken(data, at)
        n, at = taken(data, at)
        path = open_nodes.pop() if open_nodes else None
        path = "" if path is None else f"{path};{name}" if path else name
        if value:
            out[path] = out.get(path, 0) + value
        open_nodes += [path] * n
    assert not open_nodes
    return out


def test_trees_and_pprof_are_the_same_profile(s):
    fill(s)
    whole = folded(ask(s, "flamegraph", query=STORED_CPU, from_=START, to=END + 1))
    assert tree_of(dict(fields(rpc(s, "SelectMergeStacktraces", select(more=number(6, 2)))))[2]) == whole
    small = tree_of(dict(fields(rpc(s, "SelectMergeStacktraces", select(more=number(5, 2) + number(6, 2)))))[2])
    assert sum(small.values()) == sum(whole.values()) and len(small) < len(whole)
    _, download, _ = call(s, "GET", f"/api/download?query={STORED_CPU}&from={START}&to={END + 1}&format=pprof")
    download = gzip.decompress(download)
    assert rpc(s, "SelectMergeProfile", select()) == download
    pprof = dict(fields(rpc(s, "SelectMergeStacktraces", select(more=number(6, 4)))))[5]
    assert dict(fields(pprof))[1] == download
    j = rpc_json(s, "SelectMergeProfile", profileTypeID=CPU, start=START, end=END)
    assert sum(int(x["value"][0]) for x in j["sample"]) == sum(whole.values()) and j["stringTable"][0] == ""


@pytest.mark.slow
def test_a_large_profile_is_sent_from_a_file(s):
    """More than 8 MiB of reply: plain as a message and with a head, framed, and compressed, all the same bytes."""
    rng, p = random.Random(7), Pprof(time_ms=NOW - 60000, duration_ms=10000)
    ids = [varint(p.location(f"large::function{i}(int)")) for i in range(2000)]
    callers = [b"".join(rng.choices(ids, k=24)) for _ in range(100)]
    p.samples = b"".join(message(2, message(1, b"".join(rng.choices(ids, k=6)) + rng.choice(callers)) +
                                 message(2, b"\1" + varint(rng.randrange(1 << 35, 1 << 40)))) for _ in range(130000))
    send(s, p.bytes(), service="large")
    which = select(selector='{service_name="large"}')
    plain = rpc(s, "SelectMergeProfile", which)
    assert len(plain) > 8 << 20
    query = STORED_CPU + '{service="large"}'
    _, download, _ = call(s, "GET", f"/api/download?query={quote(query)}&from={START}&to={END + 1}&format=pprof")
    assert gzip.decompress(download) == plain
    pprof = dict(fields(rpc(s, "SelectMergeStacktraces", which + number(6, 4))))[5]
    assert dict(fields(pprof))[1] == plain
    status, framed, _ = call(s, "POST", "/querier.v1.QuerierService/SelectMergeProfile",
                             b"\0" + struct.pack(">I", len(which)) + which, {"Content-Type": "application/grpc-web+proto"})
    assert status == 200 and framed[:5] == b"\0" + struct.pack(">I", len(plain)) and framed[5:5 + len(plain)] == plain
    assert framed[5 + len(plain)] == 0x80 and b"grpc-status:0" in framed[5 + len(plain):]


def test_comparing(s):
    fill(s)
    left, right = select(selector='{service_name="web",host="a0"}'), select(selector='{service_name="web",host="a1"}')
    got, sums = flame(dict(fields(rpc(s, "Diff", message(1, left) + message(2, right))))[1], sides=2)
    graphs = [folded(ask(s, "flamegraph", query=f'{STORED_CPU}{{host="{h}"}}', from_=START, to=END + 1)) for h in ("a0", "a1")]
    assert got == {k: [g.get(k, 0) for g in graphs] for k in set(graphs[0]) | set(graphs[1])}
    assert [sums[5], sums[6]] == [sum(g.values()) for g in graphs] and sums[3] == sums[5] + sums[6]
    # One side without data.
    none = select(selector='{service_name="none"}')
    got, sums = flame(dict(fields(rpc(s, "Diff", message(1, none) + message(2, right))))[1], sides=2)
    assert got == {k: [0, v] for k, v in graphs[1].items()} and 5 not in sums


# ---- series ----

def test_series_are_those_of_the_api(s):
    fill(s)
    for step in (60, 300, 1800):
        step_ms = 1000 * step
        got = points(rpc(s, "SelectSeries", select(more=text(5, "service_name") + text(5, "region") + double(6, step))))
        for labels, query in (((("service_name", "web"),), '{service="web"}'), ((("region", "eu"), ("service_name", "db")), '{region="eu"}')):
            for at, value in got[labels].items():
                assert (at - START) % step_ms == 0 and START <= at <= END
                graph = ask(s, "flamegraph", query=STORED_CPU + query, from_=at - step_ms + 1, to=at + 1)
                assert value == graph["total"] and graph["profiles"] > 0, (step, labels, at)
            api = ask(s, "series", query=STORED_CPU + query, from_=START - step_ms + 1, to=END + 1, one=1, step=step_ms)
            assert sum(got[labels].values()) == api["series"][0]["total"]
    # A profile without a value is a point, a time without a profile is none.
    db = got[(("region", "eu"), ("service_name", "db"))]
    assert list(points(rpc(s, "SelectSeries", select(more=double(6, 60)))))[0] == ()
    assert len(points(rpc(s, "SelectSeries", select(selector='{service_name="db"}', more=double(6, 60))))[()]) == 11 and db
    # The average is that of profiles.
    total, mean = (points(rpc(s, "SelectSeries", select(end=END, start=END - 3600000, more=double(6, 3600) + number(7, kind))))[()][END] for kind in (0, 1))
    assert mean == total / ask(s, "flamegraph", query=STORED_CPU, from_=END - 3600000 + 1, to=END + 1)["profiles"]
    # The largest only.
    top = points(rpc(s, "SelectSeries", select(more=text(5, "host") + double(6, 300) + number(9, 1))))
    assert len(top) == 1
    j = rpc_json(s, "SelectSeries", profileTypeID=CPU, start=END - 3600000, end=END, step=3600)["series"]
    assert j == [{"points": [{"value": total, "timestamp": str(END)}]}]


# ---- refusals ----

def test_refusals_have_final_codes(s):
    fill(s)
    for name, body, part in (
        ("SelectMergeStacktraces", select("cpu"), "<name>:<sample-type>"),
        ("SelectMergeStacktraces", select(selector="{a"), "the selector"),
        ("SelectMergeStacktraces", select(selector='{a=~"("}'), "the pattern"),
        ("SelectMergeStacktraces", select(start=0, end=0), "missing"),
        ("SelectMergeStacktraces", select(start=END, end=START), "later"),
        ("SelectMergeStacktraces", select(more=number(6, 9)), "ProfileFormat"),
        ("SelectMergeStacktraces", select(more=text(8, "7c9e6679-7425-40de-944b-e07fc1f90ae7")), "profile_id_selector"),
        ("SelectMergeStacktraces", b"\x0a\x7f", "message"),
        ("SelectSeries", select(), "step"),
        ("SelectSeries", select(more=double(6, float("nan"))), "step"),
        ("SelectSeries", select(more=double(6, 0.01)), "longer step"),
        ("SelectSeries", select(more=b"".join(text(5, f"l{i}") for i in range(65))), "more than 64"),
        ("LabelValues", b"", "name"),
        ("Diff", b"", "missing"),
    ):
        e = rpc(s, name, body, status=413 if part in ("longer step", "more than 64") else 400)
        assert e["code"] == "invalid_argument" and part in e["message"], (name, e)
    for name, body in (("SelectMergeSpanProfile", select()), ("SelectHeatmap", select())):
        assert rpc(s, name, body, status=404)["code"] == "unimplemented"
    for body in (select(more=number(6, 3)), select(more=text(11, "9a517183f26a089d"))):
        assert rpc(s, "SelectMergeStacktraces", body, status=501)["code"] == "unimplemented"


def test_the_calls_around_it(s):
    assert call(s, "GET", "/ready")[0] == 200
    for path in ("/settings.v1.SettingsService/Get", "/capabilities.v1.FeatureFlagsService/GetFeatureFlags"):
        status, data, _ = call(s, "POST", path, "{}", {"Content-Type": "application/json"})
        assert (status, json.loads(data)) == (200, {})
