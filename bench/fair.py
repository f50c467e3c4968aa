#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fairness under load: how long short requests take while others do long ones.

    bench/fair.py [--lode FILE] [--rate 100] [--seconds 20] [--clients 32] [--stored 3000]

1. --rate profiles a second are offered while nobody else asks; then while --clients query: a quarter of them short lists (values of a label, types, labels),
   the others flame graphs over everything (plain, inverted, by label). The time until a profile is acknowledged is counted from when it was due.
2. Four clients each do one costly thing again and again; meanwhile /metadata is asked once in 50 ms.

Senders and clients are child processes. They share the processors with the server.
"""

import argparse
import gzip
import http.client
import json
import multiprocessing
import pathlib
import random
import sys
import tempfile
import threading
import time

import common
from common import CORPUS, ROOT, Server, Table

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from profiling import Pprof, number  # noqa: E402

SHORT = ["/api/labels/instance/values", "/api/types", "/api/labels"]
CPU = "query=profile%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds%3Adelta"
LONG = [f"/api/flamegraph?{CPU}&from=now-3h{x}" for x in ("", "&invert=1", "&label=instance")]


def stacks(n):
    r = random.Random(5)
    made = [[0x1000 + 16 * r.randrange(12000) for _ in range(8)]]
    while len(made) < n:
        old = r.choice(made)
        if (at := r.randrange(len(old) // 2, len(old) + 1)) < 60:
            made.append(old[:at] + [0x1000 + 16 * r.randrange(12000) for _ in range(r.randrange(1, 6))])
    return made


def bodies(seed, n, samples=300):
    r, all_stacks, made = random.Random(seed), stacks(8000), []
    start_ms = int(time.time() * 1000) - 3600_000
    for i in range(n):
        if i % 16 == 0:
            p = Pprof(mapping=(0x1000, 1 << 32, 0, "/usr/bin/service", "5e" * 20), duration_ms=1000)
            for s in r.sample(all_stacks, samples):
                p.sample(s, [1 + r.randrange(5), 10_000_000 * (1 + r.randrange(5))])
            base = p.bytes()
        made.append(gzip.compress(base + number(9, (start_ms + 1000 * i + seed) * 1_000_000), 1))
    return made


def ask(c, path, method="GET", body=None):
    t0 = time.monotonic()
    c.request(method, path, body=body, headers={"Content-Type": "application/octet-stream"} if body else {})
    a = c.getresponse()
    a.read()
    return a.status, time.monotonic() - t0


def send(port, rate, seconds, seed, out):
    """Offer profiles at times that do not depend on the answers."""
    todo, times, lock = bodies(seed, int(rate * seconds)), [], threading.Lock()
    start = time.monotonic() + 0.2

    def run(first, step):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for i in range(first, len(todo), step):
            due = start + i / rate
            time.sleep(max(0, due - time.monotonic()))
            status, _ = ask(c, f"/profiles?service=shop&instance=i{i % 50}", "POST", todo[i])
            with lock:
                times.append((status, time.monotonic() - due))

    threads = [threading.Thread(target=run, args=(i, 16)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    out.put(("ack", times))


def query(port, paths, seconds, n, out):
    end, times = time.monotonic() + seconds, []

    def run(i):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while time.monotonic() < end:
            path = paths[i % len(paths)]
            times.append((path, *ask(c, path)))
            i += 1

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    out.put(("query", times))


def quantile(times, q):
    times = sorted(times)
    return 1e3 * times[min(len(times) - 1, int(len(times) * q))] if times else float("nan")


def run_load(s, a, clients):
    out, procs = multiprocessing.Queue(), []
    procs.append(multiprocessing.Process(target=send, args=(s.port, a.rate, a.seconds, 7 + clients, out)))
    short = max(1, clients // 4)
    procs.append(multiprocessing.Process(target=query, args=(s.port, SHORT, a.seconds, short if clients else 1, out)))
    for _ in range(3 if clients else 0):
        procs.append(multiprocessing.Process(target=query, args=(s.port, LONG, a.seconds, (clients - short) // 3, out)))
    for p in procs:
        p.start()
    got = [out.get() for _ in procs]
    for p in procs:
        p.join()
    return [x for k, v in got if k == "ack" for x in v], [x for k, v in got if k == "query" for x in v]


def report(t, what, acks, queries):
    t.add(f"{what}: acknowledged", sum(200 <= s < 300 for s, _ in acks), unit=f"of {len(acks)}")
    t.add("  until a profile is acknowledged, median", quantile([x for _, x in acks], 0.5), unit="ms")
    t.add("  p99", quantile([x for _, x in acks], 0.99), target=50, unit="ms")
    for path in SHORT:
        t.add(f"  {path}, median", quantile([x for p, _, x in queries if p == path], 0.5), target=20, unit="ms")
    long = [x for p, _, x in queries if p in LONG]
    if long:
        t.add(f"  {len(long)} long queries, median", quantile(long, 0.5), unit="ms")


def symbolize_body():
    """Run-time addresses in many mappings, of a build ID that is not here."""
    maps = [{"start": 0x10000 * i, "end": 0x10000 * i + 0x1000} for i in range(1, 65537)]
    addrs = [0x10000 * (1 + i % 65536) + 0x2000 for i in range(200000)]
    return json.dumps({"modules": [{"id": "ab" * 20, "mappings": maps}], "addresses": addrs, "kind": "runtime", "timeout": 1}).encode()


def plant_deep(s):
    for k in range(4):
        p = Pprof(mapping=(0x1000, 1 << 40, 0, "/usr/bin/deep", "6e" * 20), duration_ms=1000)
        for i in range(60):
            p.sample([0x100000 * (i + 60 * k) + 16 * d for d in range(2000)], [1, 1])
        body = p.bytes()
        ask(http.client.HTTPConnection("127.0.0.1", s.port, timeout=120), "/profiles?service=deep", "POST", body)


def attack(s, what, path, method, body, seconds, t):
    """Four clients at @path; and /metadata."""
    end, n, times = time.monotonic() + seconds, [0], []

    def run():
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=90)
        while time.monotonic() < end:
            try:
                ask(c, path, method, body)
                n[0] += 1
            except (OSError, http.client.HTTPException):
                c.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for x in threads:
        x.start()
    time.sleep(0.3)
    while time.monotonic() < end:
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=90)
        times.append(ask(c, "/metadata?key=glob&value=/usr/bin/none*")[1])
        c.close()
        time.sleep(0.05)
    for x in threads:
        x.join()
    t.add(f"/metadata beside {what}, median", quantile(times, 0.5), unit="ms")
    t.add("  longest", quantile(times, 1), unit="ms")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--lode", help="another build of lode")
    a.add_argument("--rate", type=float, default=100)
    a.add_argument("--seconds", type=float, default=20)
    a.add_argument("--clients", type=int, default=32)
    a.add_argument("--stored", type=int, default=3000)
    a = a.parse_args()
    common.LODE = a.lode or common.LODE
    with tempfile.TemporaryDirectory(prefix="bench-fair-", dir=CORPUS) as work:
        (pathlib.Path(work) / "empty").mkdir()
        with Server("lode", [f"{work}/empty"], state=f"{work}/state", extra=["--no-access-log"]) as s:
            s.wait_ready()
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120)
            for i, b in enumerate(bodies(1, a.stored)):
                ask(c, f"/profiles?service=shop&instance=i{i % 50}", "POST", b)
            t = Table()
            report(t, f"{a.rate:.0f} profiles a second alone", *run_load(s, a, 0))
            report(t, f"beside {a.clients} clients that query", *run_load(s, a, a.clients))
            plant_deep(s)
            attack(s, "4 x POST /symbolize, 65 536 mappings", "/symbolize", "POST", symbolize_body(), a.seconds / 2, t)
            attack(s, "4 x inverted flame graphs of deep stacks", f"/api/flamegraph?{CPU}&from=now-3h&invert=1", "GET", None, a.seconds / 2, t)
            attack(s, "4 x focus=, with many states", LONG[0] + "&focus=(0%7C1%7C00%7C11)*1((0%7Cx)(1%7Cf))%7B20%7Dz", "GET", None, a.seconds / 2, t)
            t.print()


if __name__ == "__main__":
    main()
