# SPDX-License-Identifier: Apache-2.0
"""Sent profiles: every input form and every view, compared with lode profile and Go's pprof on the same files."""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import LODE, build_id
from profiling import Pprof, ask, call, fields, folded, query, refused, send
from test_profile import go_pprof, program  # noqa: F401 (a fixture)


def lode_profile(tmp_path, data, *args):
    (tmp_path / "one.pb").write_bytes(data)
    return subprocess.run([LODE, "profile", str(tmp_path / "one.pb"), "-o", "-", *args], capture_output=True, text=True, check=True).stdout


def example(time_ms=0, duration_ms=0, **kw):
    p = Pprof(time_ms=time_ms, duration_ms=duration_ms, **kw)
    p.sample(["main", "parse", "lex"], [3, 300]).sample(["main", "parse"], [1, 100])
    return p.sample(["main", "emit"], [2, 200]).sample(["main", "parse", "lex", "parse"], [1, 50])


CPU = "profile:cpu:nanoseconds:cpu:nanoseconds:delta"
SAMPLES = "profile:samples:count:cpu:nanoseconds:delta"


# ---- in ----

def test_what_is_sent_is_there_at_once(s):
    now = int(time.time() * 1000)
    body = example(now, 1000).bytes()
    receipt = send(s, body, service="web", host="a1")
    assert receipt == {"profiles": 2, "samples": 4, "id": receipt["id"], "duplicate": False} and receipt["id"] > 0
    assert send(s, gzip.compress(body), service="web", host="a1")["duplicate"] is True
    assert send(s, body, service="web", host="a2")["duplicate"] is False
    assert ask(s, "types")["types"] == [CPU, SAMPLES]
    assert ask(s, "labels")["labels"] == ["host", "service"]
    assert ask(s, "labels/host/values")["values"] == ["a1", "a2"]
    assert ask(s, "labels/none/values")["values"] == []
    g = ask(s, "flamegraph", query=CPU + '{host="a1"}')
    assert (g["type"], g["unit"], g["total"], g["profiles"], g["left_out"]) == ("cpu", "nanoseconds", 650, 1, 0)
    assert folded(g) == {"main;parse;lex": 300, "main;parse": 100, "main;emit": 200, "main;parse;lex;parse": 50}
    assert folded(ask(s, "flamegraph", query=SAMPLES))["main;emit"] == 4
    one = ask(s, "flamegraph", profile=receipt["id"])
    assert one["total"] in (7, 650)
    assert ask(s, "series", profile=receipt["id"], **{"from": 0, "to": 1})["series"] == [
        {"labels": {"host": "a1", "service": "web"}, "total": one["total"], "profiles": 1, "points": [one["total"]]}]
    assert ask(s, "labels/host/values", profile=receipt["id"])["values"] == ["a1"]
    assert len(ask(s, "types", profile=receipt["id"])["types"]) == 1
    # Children are sorted by size.
    names = [g["strings"][n] for n in g["frames"]["name"]]
    assert [names[f] for f in g["nodes"]["frame"][1:]] == ["main", "parse", "lex", "parse", "emit"]


def test_labels_of_samples_and_of_the_request(s):
    p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=int(time.time() * 1000))
    p.sample(["f"], [1], [("thread", "io"), ("host", "inner"), ("bytes", 4)]).sample(["f"], [2], [("thread", "main")])
    assert send(s, p.bytes(), host="outer", **{"__name__": "fgprof"})["profiles"] == 2
    assert ask(s, "types")["types"] == ["fgprof:cpu:nanoseconds:cpu:nanoseconds"]
    assert ask(s, "labels")["labels"] == ["exported_host", "host", "thread"]
    g = ask(s, "flamegraph", label="thread")
    assert folded(g) == {"io;f": 1, "main;f": 2}


def test_times(s):
    assert send(s, b"a;b 3\n", time="2026-11-01T00:00:00+01:00", x="1")["samples"] == 1
    at = 1793487600000
    assert ask(s, "profiles", from_=at, to=at + 1)["profiles"][0]["time"] == at
    assert ask(s, "profiles", from_="2026-10-31T23:00:00Z", to="2026-11-01T00:00:00.001+01:00")["profiles"][0]["time"] == at
    assert ask(s, "profiles", from_=at + 1, to="now")["profiles"] == []
    send(s, b"a;b 4\n", time="now-10m", x="2")
    assert len(ask(s, "profiles", from_="now-15m", to="now-5m")["profiles"]) == 1
    assert ask(s, "profiles", from_="now-5m")["profiles"] == []


@pytest.mark.parametrize("how", ["gzip", "zstd", "xz"])
def test_bodies_are_compressed_or_not(s, how):
    body = subprocess.run([how, "-c"], input=example().bytes(), capture_output=True, check=True).stdout
    assert send(s, body)["samples"] == 4


def test_as_parcas_clients_send(s):
    now = int(time.time() * 1000)
    labels = [{"name": "__name__", "value": "process_cpu"}, {"name": "job", "value": "api"}]
    raw = base64.b64encode(gzip.compress(example(now).bytes())).decode()
    for i, path in enumerate(["/api/profiles/writeraw", "/profilestore/writeraw"]):
        body = {"series": [{"labels": {"labels": labels + [{"name": "n", "value": str(i)}]}, "samples": [{"raw_profile": raw}]},
                           {"labels": {"labels": labels + [{"name": "n", "value": f"x{i}"}]}, "samples": [{"rawProfile": raw.rstrip("=")}]}]}
        status, data, _ = call(s, "POST", path, json.dumps(body), {"Content-Type": "application/json"})
        assert (status, json.loads(data)) == (200, {})
    assert ask(s, "types")["types"][0].startswith("process_cpu:cpu:nanoseconds")
    assert ask(s, "labels/n/values")["values"] == ["0", "1", "x0", "x1"]
    assert ask(s, "top", query="process_cpu:cpu:nanoseconds:cpu:nanoseconds")["total"] == 4 * 650


def multipart(**parts):
    out = b""
    for name, data in parts.items():
        out += b'--XyZ\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n' % (name.encode(), name.encode()) + data + b"\r\n"
    return out + b"--XyZ--\r\n", {"Content-Type": "multipart/form-data; boundary=XyZ"}


def test_as_pyroscopes_clients_send(s):
    now = int(time.time())

    def ingest(body, headers=None, **args):
        status, data, _ = call(s, "POST", f"/ingest?{query(**args)}", body, headers)
        assert (status, json.loads(data)) == (200, {}), data

    ingest(b"a;b 3\na;c 4\n", name="one.cpu{env=dev,host=x}", from_=now - 10, until=now, format="folded", sampleRate=100, spyName="x")
    ingest(b"a;b\na;b\na;c\n", name="two", from_=str(now - 10) + "000000000", until=now, format="lines")
    ingest(gzip.compress(example(now * 1000).bytes()), name="three", format="pprof")
    body, headers = multipart(profile=gzip.compress(example(now * 1000).bytes()),
                              sample_type_config=b'{"cpu":{"units":"nanoseconds","display-name":"process_cpu"}}')
    ingest(body, headers, name="four{}", spyName="gospy", from_=now - 10, until=now)
    assert ask(s, "labels/service_name/values")["values"] == ["four", "one", "three", "two"]
    assert ask(s, "labels/env/values")["values"] == ["dev"]
    tick = 10 ** 7  # of 100 Hz, in nanoseconds
    assert folded(ask(s, "flamegraph", query='{service_name="one"}')) == {"a;b": 3 * tick, "a;c": 4 * tick}
    assert folded(ask(s, "flamegraph", query='{service_name="two"}')) == {"a;b": 2 * tick, "a;c": tick}
    names = ["process_cpu:cpu:nanoseconds:cpu:nanoseconds", "process_cpu:samples:count:cpu:nanoseconds"]
    for service, want in (("one", names[:1]), ("two", names[:1]), ("three", names), ("four", names)):
        assert ask(s, "types", query='{service_name="%s"}' % service)["types"] == want
    assert ask(s, "profiles", query='{service_name="one"}')["profiles"][0]["duration"] == 10000


def test_what_todays_senders_write_to_ingest(s):
    """Forms of names, times and labels that senders make, each with the labels and the type that come of it."""
    now = int(time.time())

    def ingest(body=b"a;b 1\n", headers=None, path="/ingest", **args):
        status, data, headers = call(s, "POST", f"{path}?{query(**args)}", body, headers)
        assert (status, json.loads(data)) == (200, {}), data
        return headers.get("X-LODE-NOTE")

    def stored(service):
        of = '{service_name="%s"}' % service
        (one,) = ask(s, "profiles", query=of)["profiles"]
        (type_,) = ask(s, "types", query=of)["types"]
        return type_, one["labels"]

    assert ingest(name="twice{region=eu,service_name=twice}") is None
    assert stored("twice") == ("process_cpu:cpu:nanoseconds:cpu:nanoseconds", {"region": "eu", "service_name": "twice"})
    assert ingest(name="app{service_name=explicit,__session_id__=1}", path="/pyroscope/ingest") is None
    assert stored("explicit")[1] == {"service_name": "explicit", "app_name": "app"}
    ingest(name="bytes", units="bytes", aggregationType="average", from_="now-10s", until="now")
    assert stored("bytes")[0] == "memory:inuse_space:bytes:space:bytes"
    ingest(name="fast", sampleRate=1000)
    assert ask(s, "top", query='{service_name="fast"}')["total"] == 10 ** 6
    assert ingest(name="mended{with space=1,with-space=2,with_space=3,9=x,=y,bad=a\tb}") == "labels mended: 4, dropped: 1"
    assert stored("mended")[1] == {"service_name": "mended", "with_space": "3", "with_space_": "1", "with_space__": "2", "_9": "x", "bad": "a?b"}
    assert s.metric(r'lode_profile_labels_total\{outcome="mended"\}') == 4
    assert s.metric(r'lode_profile_labels_total\{outcome="dropped"\}') == 1
    # Clients of some years ago write microseconds into a profile's time.
    ingest(example(now // 1000).bytes(), name="old", from_=now - 10, until=now, format="pprof")
    assert ask(s, "profiles", query='process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="old"}')["profiles"][0]["time"] == (now - 10) * 1000


def test_senders_are_listed_with_their_newest_refusal(s):
    def listed():
        return json.loads(s.get("/api/senders").body)

    assert listed() == {"senders": [], "forgotten": 0}
    agent = {"User-Agent": "sdk/1.0 \"x\"\\\xe4"}
    before = time.time() * 1000 - 1
    assert call(s, "POST", "/ingest?name=x", b"a;b 1\n", agent)[0] == 200
    assert call(s, "POST", "/ingest?name=x&from=later", b"a;b 1\n", agent)[0] == 400
    # Requests are noted after their reply, so the note of the next one could come first.
    s.wait(lambda: any(x["refused"] for x in listed()["senders"]), "the first refusal")
    assert call(s, "POST", "/ingest?name=x&format=tree", b"a;b 1\n", agent)[0] == 400
    assert call(s, "POST", "/none.v1.NoService/Call", b"", {"User-Agent": "agent"})[0] == 404
    s.wait(lambda: sum(x["accepted"] + x["refused"] for x in listed()["senders"]) == 4, "four requests")
    by = {x["agent"]: x for x in listed()["senders"]}
    one, other = by['sdk/1.0 "x"\\?'], by["agent"]
    assert (one["token"], one["address"], one["path"], one["accepted"], one["refused"]) == ("loopback", "127.0.0.1", "/ingest", 1, 2)
    assert before < one["first"] <= one["refusal"]["time"] <= one["last"]
    assert one["refusal"]["status"] == 400 and "update the client" in one["refusal"]["reason"]
    assert other["path"] == "other calls" and "no call /none.v1.NoService/Call" in other["refusal"]["reason"]
    assert s.metric("lode_senders") == 2
    assert s.metric(r'lode_sender_requests_total\{token="loopback",address="127.0.0.1",agent="sdk/1.0 \\"x\\"\\\\\?",path="/ingest",outcome="refused"\}') == 2
    for i in range(140):
        call(s, "POST", "/ingest?name=x", b"", {"User-Agent": f"many{i}"})
    s.wait(lambda: listed()["forgotten"] == 14, "all requests")
    all_of_them = listed()
    assert len(all_of_them["senders"]) == 128 and all_of_them["senders"][0]["agent"] in ("many139", "many138")


def test_forms_of_ingest_that_are_not_read_say_what_to_do(s):
    def refusal(body=b"x", headers=None, **args):
        return refused(s, "POST", f"/ingest?{query(name='x', **args)}", body, headers, 400)

    body, headers = multipart(jfr=b"FLR\0", labels=b"")
    assert "chunk 1: its header is cut off" in refusal(body, headers, format="jfr") and "cut off" in refusal(body, headers)
    body, headers = multipart(profile=b"x", prev_profile=b"x")
    assert "update pyroscope-go" in refusal(body, headers)
    for args in {"format": "tree"}, {"format": "trie"}, {"format": "speedscope"}:
        assert "update the client" in refusal(**args)
    assert "update the client" in refusal(headers={"Content-Type": "binary/octet-stream+trie"})
    assert "lock_nanoseconds" in refusal(b"a;b 1\n", units="apples")
    assert "sampleRate" in refusal(b"a;b 1\n", sampleRate="fast")
    assert "now-10s" in refusal(b"a;b 1\n", from_="later")


# ---- out ----

def test_tables_are_lode_profiles(s, tmp_path):
    body = example(int(time.time() * 1000)).bytes()
    send(s, body)
    want = [line.split() for line in lode_profile(tmp_path, body, "--output-format", "top").splitlines()]
    cpu = "profile:cpu:nanoseconds:cpu:nanoseconds"
    top = ask(s, "top", query=cpu)
    assert {r["name"]: (r["flat"], r["cum"]) for r in top["rows"]} == \
        {"main": (0, 650), "parse": (150, 450), "lex": (300, 350), "emit": (200, 200)}
    order = [w[-1] for w in want if w and w[-1] in ("main", "parse", "lex", "emit")]
    assert [r["name"] for r in top["rows"]] == order
    assert [r["name"] for r in ask(s, "top", query=cpu, sort="cum", limit=2)["rows"]] == ["main", "parse"]
    assert ask(s, "top", query=cpu, limit=1)["left_out"] == 3
    status, data, headers = call(s, "GET", f"/api/download?{query(query=cpu, format='folded')}")
    assert data.decode() == lode_profile(tmp_path, body, "--output-format", "folded", "--sample-type", "cpu")
    assert headers["Content-Disposition"] == 'attachment; filename="profile.folded"'
    c = ask(s, "callers", query=cpu, function="parse")
    assert c["function"]["cum"] == 450
    assert {r["name"]: r["cum"] for r in c["callers"]} == {"main": 450, "lex": 50}
    assert {r["name"]: r["cum"] for r in c["callees"]} == {"lex": 350}
    assert "no function" in refused(s, "GET", f"/api/callers?{query(query=cpu, function='none')}", status=404)


def test_filters_and_groups(s):
    send(s, example(int(time.time() * 1000)).bytes())
    cpu = "profile:cpu:nanoseconds:cpu:nanoseconds"

    def graph(**args):
        return folded(ask(s, "flamegraph", query=cpu, **args))

    assert graph(focus="^lex$") == {"main;parse;lex": 300, "main;parse;lex;parse": 50}
    assert graph(ignore="lex") == {"main;parse": 100, "main;emit": 200}
    assert graph(hide="parse") == {"main;lex": 350, "main;emit": 200, "main": 100}
    assert graph(show="lex|emit") == {"lex": 350, "emit": 200}
    assert graph(invert=1)["emit;main"] == 200
    assert graph(by="file") == {"/src/x.c": 650} and graph(by="binary") == {"/bin/x": 650}
    assert all(re.match(r"x\+0x[0-9a-f]+", k.split(";")[-1]) for k in graph(by="address"))
    assert any("parse /src/x.c:" in k for k in graph(by="line"))


def test_an_address_without_a_name_selects_lines(s):
    send(s, Pprof(types=(("cpu", "nanoseconds"),), time_ms=int(time.time() * 1000)).sample(["main", 0x1000], [5]).sample(["main"], [1]).bytes())
    for view, want in (({"focus": r"^x\+0x1000$"}, 5), ({"ignore": "0x1000"}, 1)):
        assert ask(s, "flamegraph", **view)["total"] == want
        lines = ask(s, "lines", function="main", **view)
        assert lines["total"] == lines["lines"][0]["cum"] == want, view


def test_the_text_of_a_line_selects_the_same_samples_in_every_view(s):
    send(s, Pprof(types=(("cpu", "nanoseconds"),), time_ms=int(time.time() * 1000)).sample(["main", "parse"], [5]).sample(["main", "emit"], [1]).bytes())
    g = ask(s, "flamegraph", by="line")
    line, = [x for x in g["strings"] if x.startswith("parse /src/x.c:")]
    for view, want in (({"focus": f"^{line}$"}, 5), ({"ignore": f"^{line}$"}, 1)):
        for by in ("function", "file", "binary", "line", "address"):
            assert ask(s, "flamegraph", by=by, **view)["total"] == want, (by, view)
        assert ask(s, "lines", function="main", **view)["total"] == want, view
    places = [x for x in ask(s, "flamegraph", by="address")["strings"] if x.startswith("x+0x")]
    totals = [ask(s, "lines", function="main", focus=f"^{x}$".replace("+", "\\+"))["total"] for x in places]
    assert sorted(totals) == [1, 5, 6]
    for place, want in zip(places, totals, strict=True):
        for by in ("function", "file", "binary", "line", "address"):
            assert ask(s, "flamegraph", by=by, focus=f"^{place}$".replace("+", "\\+"))["total"] == want, (by, place)


BYS = ("function", "file", "binary", "line", "address")


def totals(s, by=BYS, **view):
    """The totals of trees by each of @by, and of the lines of main: a set, of one if all agree."""
    return {ask(s, "flamegraph", by=b, **view)["total"] for b in by} | {ask(s, "lines", function="main", **view)["total"]}


def test_a_function_named_like_its_binary_selects_its_own_samples(s):
    send(s, Pprof(types=(("cpu", "nanoseconds"),), time_ms=int(time.time() * 1000)).sample(["main", "x"], [5]).sample(["main", "emit"], [1]).bytes())
    assert totals(s, focus="^x$") == {5}
    assert totals(s, ignore="^x$") == {1}


def test_any_byte_and_what_is_not_known_select_the_same_samples_in_every_view(s):
    p = Pprof(types=(("cpu", "nanoseconds"),), file="", mapping=(0, 1 << 40, 0, "", ""), time_ms=int(time.time() * 1000))
    send(s, p.sample(["main", "parse"], [5]).sample(["main", 0x2000], [2]).sample([0x2000], [8]).bytes())
    assert totals(s, focus="^parse :1.$") == {5}  # " :12": it has no file
    assert totals(s, focus="^unknown file$") == {7}
    assert totals(s, focus="^unknown binary$") == {15}
    assert totals(s, focus="^$") == {0}


def test_the_value_of_a_label_selects_lines(s):
    cpu = "profile:cpu:nanoseconds:cpu:nanoseconds"
    for service, values in ({"service": "web"}, (5, 1)), ({"service": "shop"}, (20, 7)), ({}, (300, 100)):
        p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=int(time.time() * 1000))
        send(s, p.sample(["main", "parse"], values[:1]).sample(["main", "emit", f"only{len(values) + values[0]}"], values[1:]).bytes(), **service)
    for view, want in (({"focus": "^web$"}, 6), ({"ignore": "^web$"}, 427), ({"focus": "no label"}, 400), ({"focus": "^(web|only302)$"}, 106), ({"focus": "sh", "ignore": "parse"}, 7),
                       ({"focus": "."}, 433)):
        assert totals(s, query=cpu, label="service", **view) == {want}, view
        line, = ask(s, "lines", query=cpu, function="main", label="service", **view)["lines"]
        assert line["cum"] == want, view
    # Without the label its values do not select.
    assert totals(s, query=cpu, focus="^web$") == {0}
    assert totals(s, query=cpu, label="none", focus="^web$") == {0}


def test_addresses_have_their_binary_and_build_id(s):
    p = Pprof(types=(("cpu", "nanoseconds"),), mapping=(0x400000, 0x500000, 0, "/usr/bin/x", "AB" * 20), time_ms=int(time.time() * 1000))
    send(s, p.sample([0x401000, 0x402000], [5]).bytes())
    g = ask(s, "flamegraph")
    assert g["frames"]["address"] == ["0x1000", "0x2000"]
    assert [g["strings"][b] for b in g["frames"]["build_id"]] == ["ab" * 20] * 2
    assert [g["strings"][b] for b in g["frames"]["binary"]] == ["/usr/bin/x"] * 2
    assert [g["strings"][b] for b in g["frames"]["name"]] == ["x+0x1000", "x+0x2000"]
    assert {(r["address"], r["build_id"], r["flat"]) for r in ask(s, "top")["rows"]} == {("0x1000", "ab" * 20, 0), ("0x2000", "ab" * 20, 5)}


def test_comparisons(s):
    now = int(time.time() * 1000)
    send(s, Pprof(types=(("cpu", "ns"),), time_ms=now).sample(["a", "b"], [10]).sample(["a", "c"], [30]).bytes(), v="1")
    send(s, Pprof(types=(("cpu", "ns"),), time_ms=now).sample(["a", "b"], [20]).sample(["a", "d"], [60]).bytes(), v="2")
    g = ask(s, "flamegraph", query='{v="1"}', base='{v="2"}')
    assert (g["total"], g["base_total"]) == (40, 80)
    names = [g["strings"][n] for n in g["frames"]["name"]]
    assert {names[f]: (a, b) for f, a, b in zip(g["nodes"]["frame"][1:], g["nodes"]["total"][1:], g["nodes"]["base_total"][1:])} == \
        {"a": (40, 80), "b": (10, 20), "c": (30, 0), "d": (0, 60)}
    g = ask(s, "flamegraph", query='{v="1"}', base='{v="2"}', normalise=1)
    assert g["base_total"] == 40
    # The total of no profiles is 0, so nothing is left of the base, as in pprof.
    g = ask(s, "flamegraph", query='{v="3"}', base='{v="2"}', normalise=1)
    assert (g["total"], g["base_total"]) == (0, 0)
    _, data, _ = call(s, "GET", "/api/download?" + query(query='{v="3"}', base='{v="2"}', normalise=1, format="pprof"))
    assert not [v for n, v in fields(gzip.decompress(data)) if n == 2]
    same = ask(s, "top", query='{v="1"}', base_from="now-1h")
    assert all((r["flat"], r["cum"]) == (r["base_flat"], r["base_cum"]) for r in same["rows"])


def test_series_over_time(s):
    t = int(time.time()) // 60 * 60000 - 600000
    for i in range(6):
        for host in "ab":
            p = Pprof(types=(("cpu", "ns"),), time_ms=t + i * 60000, duration_ms=1000).sample(["f"], [10 if host == "a" else 1])
            send(s, p.bytes(), host=host, service="x")
    r = ask(s, "series", from_=t, to=t + 360000, step="1m")
    assert (r["step"], r["left_out"], r["type"], r["unit"]) == (60000, 0, "cpu", "ns")
    assert [(x["labels"]["host"], x["total"], x["profiles"]) for x in r["series"]] == [("a", 60, 6), ("b", 6, 6)]
    assert [sum(x["points"]) for x in r["series"]] == [60, 6] and max(r["series"][0]["points"]) == 10
    assert ask(s, "series", from_=t, to=t + 360000, one=1)["series"][0]["total"] == 66
    assert [x["labels"] for x in ask(s, "series", from_=t, to=t + 360000, by="service")["series"]] == [{"service": "x"}]
    largest = ask(s, "series", from_=t, to=t + 360000, limit=1)
    assert (largest["left_out"], largest["total"]) == (1, 66) and largest["series"][0]["total"] < 66
    assert ask(s, "series", from_=t + 60000, to=t + 120000, one=1)["series"][0]["total"] == 11


def test_a_limit_of_0_lists_nothing(s):
    for host in "ab":
        send(s, Pprof(types=(("cpu", "ns"),)).sample(["f", "main"], [10]).bytes(), host=host)
    series = ask(s, "series", limit=0)
    assert (series["series"], series["left_out"], series["total"], series["unit"]) == ([], 2, 20, "ns")
    assert len(ask(s, "series")["series"]) == len(ask(s, "profiles")["profiles"]) == 2
    one = ask(s, "profiles")["profiles"][0]["id"]
    assert ask(s, "profiles", limit=0) == ask(s, "profiles", limit=0, profile=one) == {"profiles": []}
    top = ask(s, "top", limit=0)
    assert (top["rows"], top["left_out"], top["total"]) == ([], 2, 20)
    callers = ask(s, "callers", function="f", limit=0)
    assert (callers["function"]["name"], callers["callers"], callers["callees"]) == ("f", [], [])
    assert ask(s, "binaries", limit=0)["binaries"] == []


def test_names_of_perfs_events_have_colons(s):
    for host in "ab":
        send(s, Pprof(types=(("cycles:u", "count"),)).sample(["f"], [10]).bytes(), host=host)
    types = ask(s, "types")["types"]
    assert len(types) == 1 and ":cycles:u:count" in types[0]
    for args in ({}, {"query": types[0]}, {"query": types[0] + '{host="a"}'}):
        r = ask(s, "series", **args)
        assert (r["type"], r["unit"]) == ("cycles:u", "count"), args


def test_lines(s):
    send(s, example(int(time.time() * 1000)).bytes())
    cpu = "profile:cpu:nanoseconds:cpu:nanoseconds"
    r = ask(s, "lines", query=cpu, file="/src/x.c")
    assert r["total"] == 650 and sum(x["flat"] for x in r["lines"]) == 650
    assert sorted((x["flat"], x["cum"]) for x in r["lines"]) == [(0, 650), (150, 450), (200, 200), (300, 350)]
    assert ask(s, "lines", query=cpu, function="lex")["lines"] == [{"line": 11, "flat": 300, "cum": 350}]
    assert ask(s, "lines", query=cpu, function="parse", focus="^lex$")["lines"][0]["cum"] == 350
    assert ask(s, "lines", query=cpu, function="parse", ignore="^lex$", label="x")["lines"][0]["cum"] == 100
    assert ask(s, "lines", query=cpu, file="/none")["lines"] == []
    for view in ({}, {"focus": "^lex$"}, {"ignore": "^lex$"}):
        assert ask(s, "lines", query=cpu, file="/src/x.c", **view)["total"] == ask(s, "top", query=cpu, **view)["total"], view
    refused(s, "GET", "/api/lines", status=400)


def test_downloads(s, tmp_path):
    send(s, example(int(time.time() * 1000)).bytes(), service="web")
    cpu = query(query="profile:cpu:nanoseconds:cpu:nanoseconds")
    for form, begin in (("pprof", b"\x1f\x8b"), ("svg", b"<"), ("html", b"<"), ("speedscope", b"{")):
        status, data, headers = call(s, "GET", f"/api/download?{cpu}&format={form}")
        assert status == 200 and data.startswith(begin)
        assert headers["Content-Disposition"].startswith("attachment") and headers["Content-Security-Policy"] == "sandbox"
    (tmp_path / "down.pb.gz").write_bytes(call(s, "GET", f"/api/download?{cpu}")[1])
    r = subprocess.run([LODE, "profile", str(tmp_path / "down.pb.gz"), "-o", "-", "--output-format", "folded"], capture_output=True, text=True)
    assert r.stdout == call(s, "GET", f"/api/download?{cpu}&format=folded")[1].decode()


def test_a_download_is_gos(s, tmp_path):
    send(s, example(int(time.time() * 1000)).bytes(), service="web")
    cpu = query(query="profile:cpu:nanoseconds:cpu:nanoseconds")
    (tmp_path / "down.pb.gz").write_bytes(call(s, "GET", f"/api/download?{cpu}")[1])
    out = go_pprof("-top", tmp_path / "down.pb.gz")
    rows = dict(re.findall(r"^ +(\S+) +\S+ +\S+ +\S+ +\S+ +(\S+)$", out, re.M))
    assert {v: k for k, v in rows.items()} == {"lex": "300ns", "emit": "200ns", "parse": "150ns", "main": "0"}


@pytest.mark.slow
def test_of_large_graphs_the_small_nodes_stay(s):
    lines = "".join(f"main;f{i};g{i % 7};h{i} {1 + i % 100 * i % 97}\n" for i in range(60000))
    send(s, lines.encode())
    g = ask(s, "flamegraph")
    n = len(g["nodes"]["parent"])
    assert n <= 100000 and n + g["left_out"] == 2 + 3 * 60000
    for name, column in g["nodes"].items():
        assert len(column) == (0 if name.startswith("base_") else n)
    small = ask(s, "flamegraph", min_share=0.00001)
    assert min(small["nodes"]["total"]) >= small["total"] * 0.00001 - 1
    assert ask(s, "flamegraph", min_share=0)["left_out"] == 0
    # The same request again is 304.
    _, _, headers = call(s, "GET", "/api/types")
    tag = headers["ETag"]
    for known in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
        status, data, _ = call(s, "GET", "/api/types", headers={"If-None-Match": known})
        assert (status, data) == (304, b""), known
    for other in (f'"{tag}"', tag[:-1], '"x"'):
        assert call(s, "GET", "/api/types", headers={"If-None-Match": other})[0] == 200, other


def test_compression_where_it_pays(s):
    send(s, "".join(f"main;f{i} 1\n" for i in range(5000)).encode())
    far = {"X-Forwarded-For": "192.0.2.1"}
    plain = call(s, "GET", "/api/flamegraph", headers=far)[1]
    assert call(s, "GET", "/api/flamegraph", headers={"Accept-Encoding": "gzip"})[1] == plain
    _, data, headers = call(s, "GET", "/api/flamegraph", headers={**far, "Accept-Encoding": "br, gzip"})
    assert headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in headers["Vary"]
    assert gzip.decompress(data) == plain and len(data) < len(plain) / 2
    _, data, headers = call(s, "GET", "/api/flamegraph", headers={**far, "Accept-Encoding": "gzip, zstd"})
    assert headers["Content-Encoding"] == "zstd"
    assert subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout == plain
    for no in ("gzip;q=0", "identity", "*;q=0"):
        assert "Content-Encoding" not in call(s, "GET", "/api/flamegraph", headers={**far, "Accept-Encoding": no})[2]


@pytest.mark.slow
def test_a_go_program(s, tmp_path):
    go = shutil.which("go")
    if not go:
        pytest.skip("no Go")
    (tmp_path / "p.go").write_text("""package main

import (
	"os"
	"runtime/pprof"
	"time"
)

//go:noinline
func spin(n int) (x int) {
	for i := 0; i < n; i++ {
		x += i * i
	}
	return x
}

func main() {
	f, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(f)
	for t := time.Now(); time.Since(t) < 300*time.Millisecond; {
		spin(100000)
	}
	pprof.StopCPUProfile()
	f.Close()
}
""")
    env = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GO111MODULE": "off"}
    subprocess.run([go, "build", "-o", "p", "p.go"], cwd=tmp_path, env=env, check=True, timeout=600)
    subprocess.run(["./p", "cpu.pb.gz"], cwd=tmp_path, check=True)
    body = (tmp_path / "cpu.pb.gz").read_bytes()
    send(s, body, service="go")
    cpu = next(t for t in ask(s, "types")["types"] if ":cpu:nanoseconds:" in t)
    want = lode_profile(tmp_path, body, "--output-format", "folded", "--sample-type", "cpu")
    assert "main.spin" in want
    assert sorted(call(s, "GET", f"/api/download?{query(query=cpu, format='folded')}")[1].decode().splitlines()) == sorted(want.splitlines())


def test_names_come_later_and_who_waits_gets_them(serve, program, tmp_path):
    from test_profile import pprof
    d, symbols = program
    (tmp_path / "files").mkdir()
    shutil.copy(d / "stripped", tmp_path / "files" / "stripped")
    shutil.copy(d / "p.debug", tmp_path / "files" / "p.debug")
    s = serve([tmp_path / "files"]).scanned()
    start = 0x7F0000000000
    send(s, pprof(d / "stripped", build_id(d / "p"), [start + symbols["inner"], start + symbols["main"] + 8], start), time="now")
    end = time.monotonic() + 60
    cpu = CPU.replace(":delta", "")
    names = {}
    while "work;inner" not in names and time.monotonic() < end:
        names = folded(ask(s, "flamegraph", query=cpu, wait="10s"))
    assert "work;inner" in names and names["main"] == 2000, names
    r = ask(s, "lines", query=cpu, function="inner")
    assert r["file"].endswith("p.c") and r["build_ids"] == [build_id(d / "p")] and r["lines"][0]["flat"] == 1000


# ---- access and limits ----

def test_who_may_send(serve, tmp_path):
    (tmp_path / "empty").mkdir()
    tokens = tmp_path / "tokens"
    s = serve([tmp_path / "empty"], args=["--tokens", tokens]).ready()
    body = b"a;b 1\n"
    assert call(s, "POST", "/profiles", body)[0] == 200
    # Requests through a proxy on this machine, and from pages of other sites, do not count as local.
    assert "token" in refused(s, "POST", "/profiles", body, {"X-Forwarded-For": "192.0.2.1"}, 403)
    assert "other sites" in refused(s, "POST", "/profiles", body, {"Origin": "http://elsewhere.example"}, 403)
    assert call(s, "POST", "/profiles", b"a;b 2\n", {"Origin": s.url, "Host": f"127.0.0.1:{s.port}"})[0] == 200
    made = {scope: subprocess.run([LODE, "token", "add", scope, "--scope", scope, "--tokens", str(tokens)], capture_output=True, text=True,
                                  check=True).stdout.split()[-1] for scope in ("read", "push")}
    s.wait(lambda: call(s, "POST", "/profiles", body)[0] == 401, "tokens are seen")
    refused(s, "POST", "/profiles", body, {"Authorization": "Bearer lode_x"}, 401)
    refused(s, "POST", "/ingest?name=x", body, {"Authorization": f"Bearer {made['read']}"}, 403)
    assert call(s, "POST", "/profiles", b"a;b 3\n", {"Authorization": f"Bearer {made['push']}", "X-Forwarded-For": "192.0.2.1"})[0] == 200
    assert ask(s, "types")["types"]


def test_none_are_taken_where_none_are_wanted(serve, tmp_path):
    (tmp_path / "empty").mkdir()
    s = serve([tmp_path / "empty"], args=["--no-profiles"]).ready()
    assert "--no-profiles" in refused(s, "POST", "/profiles", b"a;b 1\n", status=404)
    assert "--no-profiles" in refused(s, "GET", "/api/types", status=404)
    assert call(s, "GET", "/api/openapi.json")[0] == 200
    assert not (s.data / "profiles").exists()


def test_counted(s):
    send(s, b"a;b 1\n")
    send(s, b"a;b 1\nc;d 2\n")
    refused(s, "POST", "/profiles", b"\0")
    assert s.metric(r'lode_profiles_total\{outcome="added"\}') == 2
    assert s.metric("lode_profiles_samples") == 3
    assert s.metric(r'http_requests_total\{type="ingest"\}') == 3
    status = json.loads(call(s, "GET", "/api/status")[1])["profiles"]
    assert (status["profiles"], status["samples"], status["stacks"]) == (2, 3, 4)
