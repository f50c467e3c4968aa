#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A flame graph grouped by a label, beside the same without the label: CPU and memory of the server.

    bench/grouping.py [--sets 10000] [--samples 100] [--stacks 20000] [--values 10] [--runs 5] [--keep FOLDER] [--lode FILE]

Each of --sets label sets has one profile of --samples samples, drawn from --stacks stacks of one service. The label `group` has --values values, the label
`instance` one for each profile. Memory is the peak of one query above the resident memory before it. --keep: make the data there once, and use it again.
"""

import argparse
import http.client
import pathlib
import random
import re
import statistics
import tempfile
import threading
import urllib.parse

import common
from common import CORPUS, Server, Table, say

TYPE = "profile:samples:count::"
SENDERS = 4


def service(n):
    """The stacks of a call tree, folded: each new one extends a prefix of an older one by 8 frames on average."""
    r = random.Random(5)
    name = lambda: f"shop::order_line<int>::step_{r.randrange(12000)}"  # noqa: E731
    made = [[name() for _ in range(16)]]
    while len(made) < n:
        old = r.choice(made)
        at = r.randrange(len(old) // 2, len(old) + 1)
        if at < 48:
            made.append(old[:at] + [name() for _ in range(r.randrange(1, 16))])
    return [";".join(s) for s in made]


def send(port, stacks, sets, a):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for i in sets:
        r = random.Random(i)
        body = "".join(f"{s} {1 + r.randrange(9)}\n" for s in r.choices(stacks, k=a.samples))
        c.request("POST", f"/profiles?format=folded&group=g{i % a.values}&instance=i{i}", body=body)
        got = c.getresponse()
        text = got.read()
        if got.status not in (200, 202):
            raise SystemExit(f"{got.status} {text[:300]}")


def fill(server, a):
    stacks = service(a.stacks)
    todo = [threading.Thread(target=send, args=(server.port, stacks, range(k, a.sets, SENDERS), a)) for k in range(SENDERS)]
    for t in todo:
        t.start()
    for t in todo:
        t.join()


def status_kb(pid, name):
    return int(re.search(name + r":\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def query(server, path):
    """CPU seconds, and the peak of resident memory above the one before, in MB."""
    pid = server.proc.pid
    rest = status_kb(pid, "VmRSS")
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM begins anew
    before = server.cpu()
    status, size, *_ = server.get(path)
    if status != 200:
        raise SystemExit(f"{path}: {status}")
    return server.cpu() - before, (status_kb(pid, "VmHWM") - rest) / 1024, size


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sets", type=int, default=10000)
    p.add_argument("--samples", type=int, default=100)
    p.add_argument("--stacks", type=int, default=20000)
    p.add_argument("--values", type=int, default=10)
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--keep")
    p.add_argument("--lode", default=common.LODE)
    a = p.parse_args()
    common.LODE = a.lode
    with tempfile.TemporaryDirectory(prefix="bench-grouping-", dir=CORPUS) as work:
        empty = pathlib.Path(work) / "empty"
        empty.mkdir()
        state = pathlib.Path(a.keep or f"{work}/state")
        with Server("lode", [str(empty)], state=state, extra=["--no-access-log"]) as s:
            s.wait_ready()
            if not (state / "made").exists():
                say(f"sending {a.sets} profiles")
                fill(s, a)
                (state / "made").touch()
            ask = "/api/flamegraph?from=0&query=" + urllib.parse.quote(TYPE)
            t, plain = Table(), None
            for what, more in ("no label", ""), (f"{a.values} values", "&label=group"), (f"{a.sets} values", "&label=instance"):
                runs = [query(s, ask + more) for _ in range(a.runs)]
                cpu, mb = statistics.median(r[0] for r in runs), max(r[1] for r in runs)
                plain = plain or cpu
                t.add(f"flame graph of {a.sets} label sets, {what}", cpu, unit="s", target=0.3)
                t.add("  times that without a label", cpu / plain)
                t.add("  memory above rest", mb, unit="MB", target=64)
            t.print()


if __name__ == "__main__":
    main()
