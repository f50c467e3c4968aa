#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other programs see of the stored profiles: the client library of Grafana's data source, and profilecli if it is in PATH.

    bench/viewers.py [--profiles 300] [--samples 1000] [--runs 15] [--no-clients] [--lode FILE]

The first table compares each number that the Go client gets, by protobuf and by JSON, with that of /api: the client is bench/viewers/main.go, compiled with
the published modules (Go and its module proxy are needed). The second has the CPU time of one SelectMergeStacktraces, and of one Query of Parca, beside /api/flamegraph over the same data.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

import common
from common import CORPUS, ROOT, Server, Table, say

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from grouping import service  # noqa: E402
from profiling import Pprof, message, number  # noqa: E402

TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
STORED = "profile:cpu:nanoseconds:cpu:nanoseconds:delta"
MODULES = ("github.com/grafana/pyroscope/api@v1.6.0", "connectrpc.com/connect@latest")


def post(port, path, body, kind="application/proto"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    c.request("POST", path, body=body, headers={"Content-Type": kind} if kind else {})
    r = c.getresponse()
    data = r.read()
    if r.status != 200:
        raise SystemExit(f"{path}: {r.status} {data[:300]}")
    return data


def fill(server, a, now):
    stacks = [s.split(";") for s in service(20000)]
    for i in range(a.profiles):
        r = random.Random(i)
        p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=now - 1000 - i * 3500000 // a.profiles, duration_ms=10000)
        for s in r.choices(stacks, k=a.samples):
            p.sample(s, [10000000 * (1 + r.randrange(9))])
        post(server.port, f"/profiles?service=s{i % 3}&host=h{i % 10}", p.bytes(), None)


def ask(server, path, **args):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    c.request("GET", f"/api/{path}?{urllib.parse.urlencode(args)}")
    return json.loads(c.getresponse().read())


def client():
    """The compiled Go client; None: there is no Go."""
    go = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin")
    folder = CORPUS / "viewers"
    if not go:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "bench/viewers/main.go", folder)
    if not (folder / "go.mod").exists():
        subprocess.run([go, "mod", "init", "viewers"], cwd=folder, check=True, capture_output=True)
        subprocess.run([go, "get", *MODULES], cwd=folder, check=True)
        subprocess.run([go, "mod", "tidy"], cwd=folder, check=True)
    subprocess.run([go, "build", "-o", "viewers", "."], cwd=folder, check=True)
    return folder / "viewers"


def compare(server, program, start, end):
    bad = 0
    for selector, stored in ("{}", STORED), ('{service_name="s1",host=~"h[0-4]"}', STORED + '{service="s1",host=~"h[0-4]"}'):
        when = {"from": start, "to": end + 1}
        graph = ask(server, "flamegraph", query=stored, min_share=0, **when)
        series = ask(server, "series", query=stored, by="service", step=end - start + 1, **{"from": start + 1, "to": end + 1})
        names = [graph["strings"][n] for n in graph["frames"]["name"]]
        self_values = {}
        for frame, value in zip(graph["nodes"]["frame"], graph["nodes"]["self"]):
            if frame >= 0:
                self_values[names[frame]] = self_values.get(names[frame], 0) + value
        want = {
            "types": [TYPE],
            "services": ["s0", "s1", "s2"] if selector == "{}" else ["s1"],
            "sets": 3 if selector == "{}" else 1,
            "total": graph["total"],
            "self": {k: v for k, v in self_values.items() if v},
            "diff": [graph["total"]] * 2,
            "pprof": graph["total"],
            "sums": {x["labels"]["service"]: x["total"] for x in series["series"]},
            "ingested": True,
            "spans": "unimplemented",
            "failures": {},
        }
        for form in [], ["json"]:
            out = subprocess.run([program, f"http://127.0.0.1:{server.port}", str(start), str(end), TYPE, selector, *form], capture_output=True, text=True)
            got = json.loads(out.stdout) if out.returncode == 0 else {}
            got["self"] = {k: v for k, v in got.get("self", {}).items() if v}
            for k, v in want.items():
                ok = got.get(k) == v
                bad += not ok
                print(f"{'pass' if ok else 'FAIL'}  {selector:38} {'JSON' if form else 'protobuf':8}  {k}")
    return bad


def profilecli(server, start, end):
    """Its commands end without an error, and print something."""
    program, bad = shutil.which("profilecli"), 0
    if not program:
        say("profilecli is not in PATH")
        return 0
    url, when = [f"--url=http://127.0.0.1:{server.port}"], [f"--from={start // 1000}", f"--to={end // 1000}"]
    for args in (["ready", *url], ["query", "series", *url, *when], ["query", "top", *url, *when],
                 ["query", "profile", *url, *when, f"--profile-type={TYPE}"], ["query", "profile", *url, *when, "--tree"]):
        out = subprocess.run([program, *args], capture_output=True, text=True)
        ok = out.returncode == 0 and (args[0] == "ready" or out.stdout)
        bad += not ok
        print(f"{'pass' if ok else 'FAIL'}  profilecli {' '.join(args[:2])}")
    return bad


def seconds(server, fn, runs):
    """CPU time of the server, so that other load does not matter."""
    took = []
    for _ in range(runs):
        before = server.cpu()
        fn()
        took.append(server.cpu() - before)
    return statistics.mean(took)


def settle(server):
    """Wait until the server does nothing: naming and cleaning after the profiles came would be counted with the first queries."""
    for _ in range(120):
        before = server.cpu()
        time.sleep(1)
        if server.cpu() - before < 0.02:
            return
    say("the server does not come to rest")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--profiles", type=int, default=300)
    p.add_argument("--samples", type=int, default=1000)
    p.add_argument("--runs", type=int, default=15)
    p.add_argument("--no-clients", action="store_true")
    p.add_argument("--lode", default=common.LODE)
    a = p.parse_args()
    common.LODE = a.lode
    CORPUS.mkdir(parents=True, exist_ok=True)
    program, bad = None if a.no_clients else client(), 0
    now = int(time.time() * 1000)
    start, end = now - 3600000, now
    with tempfile.TemporaryDirectory(prefix="bench-viewers-", dir=CORPUS) as work:
        empty = pathlib.Path(work) / "empty"
        empty.mkdir()
        with Server("lode", [str(empty)], state=f"{work}/state", extra=["--no-access-log"]) as s:
            s.wait_ready()
            say(f"sending {a.profiles} profiles")
            fill(s, a, now)
            if program:
                bad += compare(s, program, start, end) + profilecli(s, start, end)
            t = Table()
            request = message(1, TYPE.encode()) + message(2, b"{}") + number(3, start) + number(4, end)
            path = f"/api/flamegraph?{urllib.parse.urlencode({'query': STORED, 'from': start, 'to': end + 1})}"
            call = "/querier.v1.QuerierService/SelectMergeStacktraces"
            asjson = json.dumps({"profileTypeID": TYPE, "labelSelector": "{}", "start": start, "end": end, "maxNodes": 100000})
            s.get(path)
            settle(s)
            api = seconds(s, lambda: s.get(path), a.runs)
            t.add("/api/flamegraph, 100 000 nodes at most", api, unit="s")
            for what, fn in (("SelectMergeStacktraces, protobuf", lambda: post(s.port, call, request + number(5, 100000))),
                             ("SelectMergeStacktraces, JSON", lambda: post(s.port, call, asjson, "application/json"))):
                got = seconds(s, fn, a.runs)
                t.add(what, got, unit="s")
                t.add("  times /api/flamegraph", got / api, target=1.2)
            merge = message(1, STORED.encode() + b"{}") + message(2, number(1, start // 1000)) + message(3, number(1, end // 1000 + 1))
            query = message(3, merge) + number(1, 2)
            got = seconds(s, lambda: post(s.port, "/parca.query.v1alpha1.QueryService/Query", query), a.runs)
            t.add("Parca's Query, protobuf, 8 192 nodes at most", got, unit="s")
            t.add("  times /api/flamegraph", got / api, target=1.2)
            t.print()
    raise SystemExit(bad != 0)


if __name__ == "__main__":
    main()
