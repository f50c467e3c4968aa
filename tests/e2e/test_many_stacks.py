# SPDX-License-Identifier: Apache-2.0
"""Queries over more stacks than are copied (1.5 million): each kind of answer has the right sums, and the server's memory stays within
a bound that a copy of all stacks does not keep."""

import json
import pathlib
import re
import subprocess
import time
from collections import Counter

import pytest

import profiling
from conftest import LODE, Service
from profiling import message, number, query, varint

N = 116  # each of three levels has so many functions, and each combination of them is a stack
A = [1 + i % 7 for i in range(N)]
B = [2 * (j % 5) for j in range(N)]
C = [90 if k == 0 else k % 11 for k in range(N)]
SUMS = (sum(A), sum(B), sum(C))
TOTAL = N * N * sum(SUMS)
N_NODES = 1 + N + N ** 2 + N ** 3
CPU = "profile:cpu:nanoseconds:::delta"
NOW = int(time.time() * 1000)
MIB = 1 << 20
PATIENT_S = 600

pytestmark = pytest.mark.slow


def value_of(path, more=0):
    """The value of all stacks with these frames, one of each level at most: "a1", "b2"; each stack has @more."""
    parts = {"a": (A, SUMS[0]), "b": (B, SUMS[1]), "c": (C, SUMS[2])}
    given = {f[0]: parts[f[0]][0][int(f[1:])] for f in path}
    n = N ** (3 - len(given))
    return more * n + sum(n * given[k] if k in given else n // N * parts[k][1] for k in "abc")


def pprof(more=0):
    """A profile with a value for each stack; numbers of locations have two bytes, so that all samples are equally long."""
    first = {"a": 200, "b": 400, "c": 600}
    strings = ["", "cpu", "nanoseconds", "/bin/many", "/src/many.c"]
    out = [message(1, number(1, 1) + number(2, 2))]
    for i in range(N):
        for j in range(N):
            rows = bytearray(b"".join(b"\x12\x0b\x0a\x06" + varint(first["c"] + k) + b"    \x12\x01" + bytes([more + A[i] + B[j] + C[k]]) for k in range(N)))
            for at, v in zip(range(6, 10), varint(first["b"] + j) + varint(first["a"] + i)):
                rows[at::13] = bytes([v]) * N
            out.append(bytes(rows))
    out.append(message(3, number(1, 1) + number(2, 0x400000) + number(3, 0x500000) + number(5, 3)))
    for kind, at in first.items():
        for i in range(N):
            strings.append(f"{kind}{i}")
            out.append(message(4, number(1, at + i) + number(2, 1) + number(3, 0x400000 + at + i) + message(4, number(1, at + i))))
            out.append(message(5, number(1, at + i) + number(2, len(strings) - 1) + number(4, 4)))
    out += [message(6, s.encode()) for s in strings]
    return b"".join(out) + number(9, NOW * 1000000) + number(10, 1000000000)


class Peak:
    """Memory of the server within a block of code, above that before it; more than @mib MiB fails."""

    def __init__(self, s, mib):
        self.proc, self.mib = pathlib.Path(f"/proc/{s.proc.pid}"), mib

    def kib(self, name):
        return int(re.search(rf"{name}:\s+(\d+)", (self.proc / "status").read_text()).group(1))

    def __enter__(self):
        (self.proc / "clear_refs").write_text("5")
        self.before = self.kib("VmRSS")

    def __exit__(self, kind, *_):
        added = (self.kib("VmHWM") - self.before) >> 10
        assert kind or added <= self.mib, f"{added} MiB"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    # Memory is what is measured: on a busy machine a query may take longer than the usual deadline.
    s = Service([], tmp_path_factory.mktemp("many") / "data", args=["--deadline", str(PATIENT_S)]).ready()
    for service, more in ("web", 0), ("db", 3):
        status, data, _ = call(s, "POST", f"/profiles?{query(service=service)}", pprof(more))
        assert status == 200 and json.loads(data)["samples"] == N ** 3, data
    yield s
    s.stop()


def call(s, method, path, body=None, headers=None):
    return profiling.call(s, method, path, body, headers, PATIENT_S)


def ask(s, path, **args):
    status, data, headers = call(s, "GET", f"/api/{path}?{query(**args)}")
    assert status == 200, (path, args, data)
    assert headers["Content-Type"] == "application/json"
    return json.loads(data)


def selector(service="web"):
    return f'{CPU}{{service="{service}"}}'


def graph(s, mib, **args):
    with Peak(s, mib):
        return ask(s, "flamegraph", **args)


def nodes_of(g):
    """[(path, total, base total)], without the root."""
    names = [g["strings"][n] for n in g["frames"]["name"]]
    nodes, paths = g["nodes"], [()]
    for parent, frame in zip(nodes["parent"][1:], nodes["frame"][1:]):
        paths.append((*paths[parent], names[frame]))
    return list(zip(paths, nodes["total"], nodes["base_total"] or nodes["total"]))[1:]


def assert_left_out(g, n_nodes):
    assert abs(g["left_out"] + len(g["nodes"]["total"]) - n_nodes) < n_nodes / 100


def check_nodes(g, levels):
    """All nodes have their sums; those of the first two levels are there, and many of the third."""
    found = nodes_of(g)
    depths = Counter(len(path) for path, _, _ in found)
    assert depths[1] == N and depths[2] == N * N and N < depths[3] and len(found) <= 100000, depths
    for path, total, _ in found:
        assert [f[0] for f in path] == levels[:len(path)], path
        assert total == value_of(path), path
    assert g["total"] == TOTAL
    assert_left_out(g, N_NODES)


def test_graph(many):
    check_nodes(graph(many, 64, query=selector()), ["a", "b", "c"])


def test_inverted_graph(many):
    check_nodes(graph(many, 64, query=selector(), invert=1), ["c", "b", "a"])


def test_comparison(many):
    for normalise in 0, 1:
        g = graph(many, 96, query=selector(), base=selector("db"), normalise=normalise)
        check_nodes(g, ["a", "b", "c"])
        all_of_base = value_of([], 3)
        scale = TOTAL / all_of_base if normalise else 1
        assert g["base_total"] == round(scale * all_of_base)
        assert all(abs(base - scale * value_of(path, 3)) <= 0.5 for path, _, base in nodes_of(g))


def test_inverted_comparison(many):
    g = graph(many, 112, query=selector(), base=selector("db"), invert=1)
    check_nodes(g, ["c", "b", "a"])
    assert g["base_total"] == value_of([], 3)
    assert all(base == value_of(path, 3) for path, _, base in nodes_of(g))


@pytest.mark.parametrize("how, levels, mib", [({}, "abc", 72), ({"invert": 1}, "cba", 84)], ids=["plain", "inverted"])
def test_graph_by_a_label(many, how, levels, mib):
    g = graph(many, mib, query=CPU, label="service", **how)
    found = nodes_of(g)
    depths = Counter(len(path) for path, _, _ in found)
    assert depths[1] == 2 and depths[2] == 2 * N and depths[3] == 2 * N * N and len(found) <= 100000, depths
    for path, total, _ in found:
        assert [f[0] for f in path[1:]] == list(levels[:len(path) - 1]), path
        assert total == value_of(path[1:], {"web": 0, "db": 3}[path[0]]), path
    assert g["total"] == TOTAL + value_of([], 3)
    assert_left_out(g, 2 * N_NODES + 1)


def test_graph_by_a_label_with_hidden_values(many):
    """Their nodes are directly below the root."""
    found = nodes_of(graph(many, 96, query=CPU, label="service", hide="^db$"))
    assert {path[1:]: total for path, total, _ in found if path[0] == "web" and len(path) <= 2} == {
        (): TOTAL, **{(f"a{i}",): value_of([f"a{i}"]) for i in range(N)}}
    hidden = {path: total for path, total, _ in found if path[0] != "web"}
    assert {path for path in hidden if len(path) == 1} == {(f"a{i}",) for i in range(N)}
    assert all(total == value_of(path, 3) for path, total in hidden.items())


def test_comparison_by_a_label(many):
    for normalise in 0, 1:
        g = graph(many, 104, query=CPU, base=selector("db"), label="service", normalise=normalise)
        found = nodes_of(g)
        assert {path[0]: (total, base) for path, total, base in found if len(path) == 1} == {
            "web": (TOTAL, 0), "db": (value_of([], 3), g["base_total"])}
        all_of_both = TOTAL + value_of([], 3)
        scale = all_of_both / value_of([], 3) if normalise else 1
        assert g["total"] == all_of_both and abs(g["base_total"] - scale * value_of([], 3)) <= 0.5
        for path, total, base in found:
            more = {"web": 0, "db": 3}[path[0]]
            assert total == value_of(path[1:], more) and abs(base - (scale * total if more else 0)) <= 0.5, path


def test_graph_by_a_label_with_filters(many):
    plain = dict((path[1:], total) for path, total, _ in nodes_of(graph(many, 72, query=CPU, label="service", focus="^a7$")) if path[0] == "web")
    assert plain[()] == plain["a7",] == value_of(["a7"]) and plain["a7", "b5"] == value_of(["a7", "b5"])
    # A value that matches has all its stacks, one that is ignored has none.
    totals = {path[0]: total for path, total, _ in nodes_of(graph(many, 72, query=CPU, label="service", focus="^db$")) if len(path) == 1}
    assert totals == {"db": value_of([], 3)}
    totals = {path[0]: total for path, total, _ in nodes_of(graph(many, 72, query=CPU, label="service", ignore="^db$")) if len(path) == 1}
    assert totals == {"web": TOTAL}


@pytest.fixture(scope="module")
def lines():
    """Every stack with its value."""
    return {f"a{i};b{j};c{k} {A[i] + B[j] + C[k]}" for i in range(N) for j in range(N) for k in range(N)}


def download(s, mib, **args):
    with Peak(s, mib):
        status, data, _ = call(s, "GET", f"/api/download?{query(**{'query': selector(), **args})}")
    assert status == 200, data
    return data


def test_folded(many, lines):
    got = download(many, 48, format="folded").decode().splitlines()
    assert len(got) == len(lines) and set(got) == lines


def test_folded_by_a_label(many, lines):
    got = download(many, 48, query=CPU, label="service", format="folded").decode().splitlines()
    assert len(got) == 2 * len(lines) and {row[4:] for row in got if row.startswith("web;")} == lines
    assert sum(int(row.rsplit(" ", 1)[1]) for row in got if row.startswith("db;")) == value_of([], 3)


def test_folded_comparison(many, lines):
    for normalise in 0, 1:
        got = [row.rsplit(" ", 2) for row in download(many, 64, base=selector("db"), normalise=normalise, format="folded").decode().splitlines()]
        assert {f"{path} {now}" for path, _, now in got} == lines
        scale = TOTAL / value_of([], 3) if normalise else 1
        assert all(abs(int(base) - scale * (int(now) + 3)) <= normalise for _, base, now in got)
        assert sum(int(base) for _, base, _ in got) == round(scale * value_of([], 3))


def test_speedscope(many, lines):
    # The base is no part of it.
    for args in {}, {"base": selector("db")}:
        got = json.loads(download(many, 56, format="speedscope", **args))
        names, p = [f["name"] for f in got["shared"]["frames"]], got["profiles"][0]
        assert (p["type"], p["unit"], p["startValue"], p["endValue"]) == ("sampled", "nanoseconds", 0, TOTAL)
        assert {";".join(names[f] for f in stack) + f" {value}" for stack, value in zip(p["samples"], p["weights"])} == lines
        assert len(p["samples"]) == len(p["weights"]) == len(lines)


def test_pprof(many, lines, tmp_path):
    path = tmp_path / "x.pb.gz"
    path.write_bytes(download(many, 48, format="pprof"))
    out = subprocess.run([LODE, "profile", path, "--output-format", "folded"], capture_output=True, text=True, check=True).stdout
    assert set(out.splitlines()) == lines


def test_pprof_of_a_comparison(many, tmp_path):
    path = tmp_path / "x.pb.gz"
    path.write_bytes(download(many, 64, format="pprof", query=selector("db"), base=selector()))
    out = subprocess.run([LODE, "profile", path, "--output-format", "folded"], capture_output=True, text=True, check=True).stdout
    assert Counter(row.rsplit(" ", 1)[1] for row in out.splitlines()) == {"3": N ** 3}
    # Each value of the label by itself: all of "web" is taken away.
    path.write_bytes(download(many, 64, format="pprof", query=selector("db"), base=selector(), label="service"))
    out = subprocess.run([LODE, "profile", path, "--output-format", "folded", "--label", "service"], capture_output=True, text=True, check=True).stdout
    sums = Counter()
    for row in out.splitlines():
        stack, value = row.rsplit(" ", 1)
        sums[stack.split(";")[0]] += int(value)
    assert sums == {"db": value_of([], 3), "web": -TOTAL}


def test_svg_has_the_nodes_that_can_be_seen(many):
    data = download(many, 64, format="svg").decode()
    # Others are narrower than a tenth of a pixel.
    wide = sum(value_of([f"a{i}", f"b{j}"]) * 1180 >= 0.1 * TOTAL for i in range(N) for j in range(N))
    assert all(f"<title>a{i} (" in data for i in range(N)) and data.count("<title>") == 1 + N + wide


def test_top(many):
    with Peak(many, 48):
        rows = {r["name"]: r for r in ask(many, "top", query=selector(), limit=1000)["rows"]}
    assert len(rows) == 3 * N
    for name, row in rows.items():
        assert row["cum"] == value_of([name]) and row["flat"] == (row["cum"] if name[0] == "c" else 0), row


def test_top_of_a_comparison(many):
    for normalise in 0, 1:
        with Peak(many, 80):
            rows = {r["name"]: r for r in ask(many, "top", query=selector(), base=selector("db"), normalise=normalise, limit=1000)["rows"]}
        scale = TOTAL / value_of([], 3) if normalise else 1
        assert len(rows) == 3 * N
        for name, row in rows.items():
            assert row["cum"] == value_of([name]) and row["base_cum"] == round(scale * value_of([name], 3)), row
            leaf = name[0] == "c"
            assert row["flat"] == (row["cum"] if leaf else 0) and row["base_flat"] == (row["base_cum"] if leaf else 0), row


def test_callers_in_a_comparison(many):
    with Peak(many, 80):
        got = ask(many, "callers", query=selector(), base=selector("db"), function="b7")
    assert (got["function"]["cum"], got["function"]["base_cum"]) == (value_of(["b7"]), value_of(["b7"], 3))
    found = {r["name"]: (r["cum"], r["base_cum"]) for r in got["callers"]}
    assert found == {f"a{i}": (value_of([f"a{i}", "b7"]), value_of([f"a{i}", "b7"], 3)) for i in range(N)}


def test_callers(many):
    with Peak(many, 48):
        got = ask(many, "callers", query=selector(), function="b7")
    assert got["function"]["cum"] == value_of(["b7"])
    assert {r["name"]: r["cum"] for r in got["callers"]} == {f"a{i}": value_of([f"a{i}", "b7"]) for i in range(N)}
    assert {r["name"]: r["cum"] for r in got["callees"]} == {f"c{k}": value_of(["b7", f"c{k}"]) for k in range(N)}


def test_stacktraces_of_querier_v1(many):
    body = json.dumps({"profileTypeID": "profile:cpu:nanoseconds::", "labelSelector": '{service="web"}', "start": NOW - 60000, "end": NOW + 60000})
    with Peak(many, 64):
        status, data, _ = call(many, "POST", "/querier.v1.QuerierService/SelectMergeStacktraces", body, {"Content-Type": "application/json"})
    assert status == 200, data
    g = json.loads(data)["flamegraph"]
    bars = [[int(v) for v in level["values"]] for level in g["levels"]]
    assert bars[0][1] == TOTAL and len(bars) == 4
    totals = {g["names"][bars[1][i + 3]]: bars[1][i + 1] for i in range(0, len(bars[1]), 4)}
    assert totals == {f"a{i}": value_of([f"a{i}"]) for i in range(N)}


def test_diff_of_querier_v1(many):
    side = {"profileTypeID": "profile:cpu:nanoseconds::", "start": NOW - 60000, "end": NOW + 60000}
    body = json.dumps({"left": {**side, "labelSelector": '{service="web"}'}, "right": {**side, "labelSelector": '{service="db"}'}})
    with Peak(many, 96):
        status, data, _ = call(many, "POST", "/querier.v1.QuerierService/Diff", body, {"Content-Type": "application/json"})
    assert status == 200, data
    g = json.loads(data)["flamegraph"]
    bars = [[int(v) for v in level["values"]] for level in g["levels"]]
    # Seven numbers a bar: offset, total and self of both sides, name.
    totals = {g["names"][bars[1][i + 6]]: (bars[1][i + 1], bars[1][i + 4]) for i in range(0, len(bars[1]), 7)}
    assert totals == {f"a{i}": (value_of([f"a{i}"]), value_of([f"a{i}"], 3)) for i in range(N)}
