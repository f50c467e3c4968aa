#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Storing profiles over HTTP, durably: rate, and CPU of the server.

    bench/http_ingest.py [--profiles 4000] [--samples 1000] [--senders 8] [--push-v1]

Each profile is compressed pprof of --samples samples, no two equal, of one service with 12 000 locations in 8 000 stacks. --senders connections are kept open,
each with its own labels. The senders are child processes with prepared bodies; their CPU time is printed too, since they share the processors with the server.
"""

import argparse
import gzip
import http.client
import multiprocessing
import pathlib
import random
import sys
import tempfile
import time

from common import CORPUS, ROOT, Server, Table

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from profiling import Pprof, message, number  # noqa: E402

PLACES, STACKS = 12000, 8000


def service():
    """A call tree: each new stack extends a prefix of an older one."""
    r = random.Random(5)
    place = lambda: 0x1000 + 16 * r.randrange(PLACES)  # noqa: E731
    made = [[place() for _ in range(8)]]
    while len(made) < STACKS:
        old = r.choice(made)
        at = r.randrange(len(old) // 2, len(old) + 1)
        if at < 60:
            made.append(old[:at] + [place() for _ in range(r.randrange(1, 6))])
    return made


def push_request(sender, profile):
    """A PushRequest of one series with one profile, as Pyroscope's clients make it."""
    labels = {"__name__": "process_cpu", "service_name": "shop", "instance": f"i{sender}"}
    made = b"".join(message(1, message(1, k.encode()) + message(2, v.encode())) for k, v in labels.items())
    return message(1, made + message(2, message(1, profile)))


def bodies(stacks, sender, n, samples):
    """Encode the samples once for every 16 profiles, and append another time to each: the last value of a field counts."""
    r, made = random.Random(sender), []
    start_ms = int(time.time() * 1000) - 3600_000
    for i in range(n):
        if i % 16 == 0:
            p = Pprof(mapping=(0x1000, 1 << 32, 0, "/usr/bin/service", "5e" * 20), duration_ms=10000)
            for k in r.sample(range(STACKS), samples):
                p.sample(stacks[k], [1 + r.randrange(5), 10_000_000 * (1 + r.randrange(5))])
            base = p.bytes()
        made.append(gzip.compress(base + number(9, (start_ms + 1000 * i) * 1_000_000), 1))
    return made


def send(port, sender, n, samples, push_v1, ready, go, out):
    todo = bodies(service(), sender, n, samples)
    path, kind = f"/profiles?service=shop&instance=i{sender}", "application/octet-stream"
    if push_v1:
        todo, path, kind = [push_request(sender, b) for b in todo], "/push.v1.PusherService/Push", "application/proto"
    ready.put(sender)
    go.wait()
    c, times = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
    cpu = time.process_time()
    for b in todo:
        t0 = time.monotonic()
        c.request("POST", path, body=b, headers={"Content-Type": kind})
        a = c.getresponse()
        text = a.read()
        times.append(time.monotonic() - t0)
        if a.status not in (200, 202):
            raise SystemExit(f"{a.status} {text[:300]}")
    out.put((times, time.process_time() - cpu, sum(map(len, todo))))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--profiles", type=int, default=4000)
    a.add_argument("--samples", type=int, default=1000)
    a.add_argument("--senders", type=int, default=8)
    a.add_argument("--push-v1", action="store_true", help="send by Pyroscope's push.v1.PusherService, not by POST /profiles")
    a = a.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ingest-", dir=CORPUS) as work:
        (pathlib.Path(work) / "empty").mkdir()
        with Server("lode", [f"{work}/empty"], state=f"{work}/state", extra=["--no-access-log"]) as s:
            s.wait_ready()
            ready, go, out = multiprocessing.Queue(), multiprocessing.Event(), multiprocessing.Queue()
            each = a.profiles // a.senders
            senders = [multiprocessing.Process(target=send, args=(s.port, i, each, a.samples, a.push_v1, ready, go, out)) for i in range(a.senders)]
            for p in senders:
                p.start()
            for _ in senders:
                ready.get()
            before, t0 = s.cpu(), time.monotonic()
            go.set()
            got = [out.get() for _ in senders]
            wall, cpu = time.monotonic() - t0, s.cpu() - before
            n = each * a.senders
            t = Table()
            times = sorted(x for g in got for x in g[0])
            t.add(f"{n} profiles of {a.samples} samples, {sum(g[2] for g in got) / n / 1e3:.0f} KB each: a second of wall time", n / wall, target=500, unit="1/s")
            t.add("  a CPU second of the server", n / cpu, unit="1/s")
            t.add("  CPU of the server, for one", 1e3 * cpu / n, target=1.5, unit="ms")
            t.add("  CPU of the senders, for one", 1e3 * sum(g[1] for g in got) / n, unit="ms")
            t.add("  until it is acknowledged, median", 1e3 * times[len(times) // 2], unit="ms")
            t.add("  p99", 1e3 * times[int(len(times) * 0.99)], unit="ms")
            t.add("  peak RSS, server", s.rss(), target=256, unit="MB")
            t.print()


if __name__ == "__main__":
    main()
