#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Storing profiles over HTTP, durably: rate, and CPU of the server.

    bench/http_ingest.py [--profiles 4000] [--samples 1000] [--senders 8] [--form pprof|push-v1|otlp|arrow]

Each profile has --samples samples, no two equal, of one service with 12 000 locations in 8 000 stacks, and is compressed. --senders connections are kept open,
each with its own labels. The senders are child processes with prepared bodies; their CPU time is printed too, since they share the processors with the server.
"""

import argparse
import gzip
import http.client
import multiprocessing
import pathlib
import random
import struct
import sys
import tempfile
import time

import arrow_stream
from common import CORPUS, ROOT, Server, Table

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from profiling import Pprof, message, number, varint  # noqa: E402

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


def otlp_requests(stacks, sender, n, samples):
    """ExportProfilesServiceRequests with a dictionary each, as OpenTelemetry's eBPF profiler sends them: bare addresses, one type."""
    r, made, strings = random.Random(sender), [], {"": 0}
    string = lambda s: strings.setdefault(s, len(strings))  # noqa: E731
    fixed64 = lambda field, v: bytes([field << 3 | 1]) + struct.pack("<Q", v)  # noqa: E731
    start_ms = int(time.time() * 1000) - 3600_000
    attribute = number(1, string("process.executable.build_id.gnu")) + message(2, number(8, string("5e" * 20)))
    mapping = number(1, 0x1000) + number(2, 1 << 32) + number(4, string("/usr/bin/service")) + message(5, varint(1))
    names = {"service.name": "shop", "service.instance.id": f"i{sender}"}
    resource = b"".join(message(1, number(3, string(k)) + message(2, number(8, string(v)))) for k, v in names.items())
    counted, period = (number(1, string(t)) + number(2, string(u)) for t, u in (("samples", "count"), ("cpu", "nanoseconds")))
    for i in range(n):
        if i % 16 == 0:
            places, chosen = {}, r.sample(range(STACKS), samples)
            held = [message(1, b"".join(varint(places.setdefault(a, len(places) + 1)) for a in reversed(stacks[k]))) for k in chosen]
            values = [message(2, number(1, k + 1) + message(4, varint(1 + r.randrange(5)))) for k in range(samples)]
            tables = ((1, [b"", mapping]), (2, [b""] + [number(1, 1) + number(2, a) for a in places]), (5, [s.encode() for s in strings]),
                      (6, [b"", attribute]), (7, [b""] + held))
            dictionary = message(2, b"".join(message(t, entry) for t, table in tables for entry in table))
            profile = message(1, counted) + b"".join(values) + number(4, 10**10) + message(5, period) + number(6, 10**7)
        profiles = message(2, profile + fixed64(3, (start_ms + 1000 * i) * 1_000_000))
        made.append(gzip.compress(message(1, message(1, resource) + message(2, profiles)) + dictionary, 1))
    return made


def arrow_requests(stacks, sender, n, samples):
    """WriteArrowRequests as Parca's agent sends them: one service, a row each."""
    r, made = random.Random(sender), []
    start_ms = int(time.time() * 1000) - 3600_000
    for i in range(n):
        if i % 16 == 0:
            chosen = [stacks[k][::-1] for k in r.sample(range(STACKS), samples)]
            values = [1 + r.randrange(5) for _ in chosen]
            stream = arrow_stream.agent(chosen, values, {"service_name": "shop", "instance": f"i{sender}"}, "service", "5e" * 20)
        times = [(start_ms + 1000 * i) * 1_000_000 + 900_000 * k for k in range(samples)]
        made.append(message(1, stream.bytes(timestamp=arrow_stream.times(times))))
    return made


def prepared(form, sender, n, samples):
    """The bodies, their path and their headers."""
    if form == "otlp":
        return (otlp_requests(service(), sender, n, samples), "/v1development/profiles",
                {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"})
    if form == "arrow":
        return (arrow_requests(service(), sender, n, samples), "/parca.profilestore.v1alpha1.ProfileStoreService/WriteArrow",
                {"Content-Type": "application/proto"})
    made = bodies(service(), sender, n, samples)
    if form == "push-v1":
        return [push_request(sender, b) for b in made], "/push.v1.PusherService/Push", {"Content-Type": "application/proto"}
    return made, f"/profiles?service=shop&instance=i{sender}", {"Content-Type": "application/octet-stream"}


def send(port, sender, n, samples, form, ready, go, out):
    todo, path, headers = prepared(form, sender, n, samples)
    ready.put(sender)
    go.wait()
    c, times = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
    cpu = time.process_time()
    for b in todo:
        t0 = time.monotonic()
        c.request("POST", path, body=b, headers=headers)
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
    a.add_argument("--form", choices=("pprof", "push-v1", "otlp", "arrow"), default="pprof",
                   help="POST /profiles, Pyroscope's push.v1.PusherService, OpenTelemetry's protobuf over HTTP, or Parca's WriteArrow")
    a = a.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ingest-", dir=CORPUS) as work:
        (pathlib.Path(work) / "empty").mkdir()
        with Server("lode", [f"{work}/empty"], state=f"{work}/state", extra=["--no-access-log"]) as s:
            s.wait_ready()
            ready, go, out = multiprocessing.Queue(), multiprocessing.Event(), multiprocessing.Queue()
            each = a.profiles // a.senders
            senders = [multiprocessing.Process(target=send, args=(s.port, i, each, a.samples, a.form, ready, go, out)) for i in range(a.senders)]
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
