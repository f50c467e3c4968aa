#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service that takes in profiles with many locations, under queries: memory, the length of the WAL, the time to stop.

    bench/growth.py [--locations 2000000] [--stacks 5] [--clients 2] [--named] [--lode FILE]

Each profile has 8 000 locations that no other one has, and --stacks stacks that end at each. They have no names; a program that is made for
it is served, and names them. --named: they come with names. --clients query flame graphs of everything meanwhile, one after the other.
Memory is that of the process, at rest after a restart and at its peak while profiles come, and how much of it is anonymous (the rest are pages
of files: the program, its libraries, tables); the WAL is that of profiles.db.
"""

import argparse
import http.client
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse

import common
from common import CORPUS, Server, Table, say

TYPE = "profile:cpu:nanoseconds:::delta"
PER_PROFILE = 8000
STEP = 16  # bytes from one location to the next
PER_FUNCTION = 12  # locations
REST_S = 15  # the groomer has returned the memory of the burst
BASE = 0x400000


def varint(n):
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def function_name(n):
    name = f"function{n}"
    return f"_ZN4wide{len(name)}{name}Ei"


def make_program(folder, locations):
    """A shared library of so many functions, as large as their locations take. (its build ID, address of the first)"""
    size = PER_FUNCTION * STEP
    text = "".join(f".globl {f}\n.type {f},@function\n{f}: .skip {size}\n.size {f},{size}\n"
                   for f in map(function_name, range(locations // PER_FUNCTION + 1)))
    source, path = folder / "wide.s", folder / "wide.so"
    source.write_text(f".text\n.balign {STEP}\n{text}")
    subprocess.run(["gcc", "-nostdlib", "-shared", "-Wl,--build-id=sha1", "-o", path, source], check=True)
    source.unlink()
    out = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    first = int(re.search(rf"^(\w+) T {function_name(0)}$", symbols, re.M).group(1), 16)
    return re.search(r"Build ID: (\w+)", out).group(1), first


def profile(k, a, build_id, first, now):
    """The k-th one, as pprof."""
    r = random.Random(k)
    strings = ["", "cpu", "nanoseconds", "/usr/lib/wide.so", build_id]
    out = [message(1, number(1, 1) + number(2, 2))]
    # The callers of a stack are an older one's, and one more.
    paths = [b""]
    for i in range(PER_PROFILE):
        at = varint(i + 1)
        for _ in range(a.stacks):
            path = at + paths[r.randrange(len(paths))]
            if len(path) < 60:
                paths.append(path)
            out.append(message(2, message(1, path) + message(2, b"\x0a")))
    out.append(message(3, number(1, 1) + number(2, BASE) + number(3, BASE + (1 << 32)) + number(5, 3) + number(6, 4)))
    functions = {}
    for i in range(PER_PROFILE):
        n = k * PER_PROFILE + i
        line = b""
        if a.named:
            f = n // PER_FUNCTION
            if f not in functions:
                functions[f] = len(functions) + 1
                strings.append(f"wide::function{f}(int)")
                out.append(message(5, number(1, functions[f]) + number(2, len(strings) - 1)))
            line = message(4, number(1, functions[f]) + number(2, n % 900))
        out.append(message(4, number(1, i + 1) + number(2, 1) + number(3, BASE + first + n * STEP) + line))
    out += [message(6, s.encode()) for s in strings]
    return b"".join(out) + number(9, (now - k) * 10 ** 9) + number(10, 10 ** 10)


def status_mb(pid, name):
    return int(re.search(name + r":\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def add_memory(table, what, pid, target=None):
    table.add(f"RSS, {what}", status_mb(pid, "VmRSS"), unit="MB", target=target)
    table.add("  of which anonymous", status_mb(pid, "RssAnon"), unit="MB")
    table.add("  of which of files", status_mb(pid, "RssFile"), unit="MB")


class Wal(threading.Thread):
    """The longest that the WAL was."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.most, self.ends = path, 0, threading.Event()

    def run(self):
        while not self.ends.wait(0.01):
            try:
                self.most = max(self.most, self.path.stat().st_size)
            except FileNotFoundError:
                pass


def ask_again_and_again(server, ends, done):
    while not ends.is_set():
        done.append(server.get("/api/flamegraph?from=0&query=" + urllib.parse.quote(TYPE))[0])


def add(server, body):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    c.request("POST", "/profiles?service=wide", body=body)
    got = c.getresponse()
    text = got.read()
    if got.status not in (200, 202):
        raise SystemExit(f"{got.status} {text[:300]}")


def wait_named(server, a):
    """Until no location has a name to get; (locations, those without one)."""
    while True:
        text = server.metrics()
        named, unnamed = (int(re.search(rf'^lode_profiles_locations{{names="{k}"}} (\d+)', text, re.M).group(1)) for k in ("named", "unnamed"))
        if not unnamed:
            return named
        time.sleep(0.2)


def stop(server):
    """Seconds from SIGTERM to the end of the process."""
    began = time.monotonic()
    server.proc.send_signal(signal.SIGTERM)
    server.proc.wait(120)
    return time.monotonic() - began


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--locations", type=int, default=2000000)
    p.add_argument("--stacks", type=int, default=5)
    p.add_argument("--clients", type=int, default=2)
    p.add_argument("--named", action="store_true")
    p.add_argument("--lode", default=common.LODE)
    a = p.parse_args()
    common.LODE = a.lode
    with tempfile.TemporaryDirectory(prefix="bench-growth-", dir=CORPUS) as work:
        files, state = pathlib.Path(work) / "files", pathlib.Path(work) / "state"
        files.mkdir()
        build_id, first = make_program(files, a.locations)
        if a.named:
            (files / "wide.so").unlink()
        now, t = int(time.time()), Table()
        with Server("lode", [str(files)], state=state, extra=["--no-access-log"]) as s:
            s.wait_ready()
            s.wait_scanned()
            wal, ends, done = Wal(state / "profiles" / "profiles.db-wal"), threading.Event(), []
            wal.start()
            clients = [threading.Thread(target=ask_again_and_again, args=(s, ends, done)) for _ in range(a.clients)]
            for c in clients:
                c.start()
            for k in range(a.locations // PER_PROFILE):
                add(s, profile(k, a, build_id, first, now))
                if k % 50 == 49:
                    say(f"{k + 1} profiles, {len(done)} queries, RSS {status_mb(s.proc.pid, 'VmRSS'):.0f} MB, WAL {wal.most >> 20} MiB")
            ends.set()
            for c in clients:
                c.join()
            n = wait_named(s, a)
            add_memory(t, f"{n} locations with names, after the last one", s.proc.pid)
            t.add(f"  peak, with {len(done)} queries ({sum(x != 200 for x in done)} refused)", status_mb(s.proc.pid, "VmHWM"), unit="MB")
            wal.ends.set()
            data = sum(f.stat().st_size for f in state.glob("profiles/profiles.db*"))
            time.sleep(REST_S)
            add_memory(t, f"{REST_S} s later", s.proc.pid, target=256)
            stopped = [stop(s)]
        for k in range(3):
            with Server("lode", [str(files)], state=state, extra=["--no-access-log"]) as s:
                s.wait_ready()
                s.wait_scanned()
                time.sleep(3)
                if k == 2:
                    add_memory(t, "after a restart", s.proc.pid, target=256)
                stopped.append(stop(s))
        t.add("longest WAL", wal.most / 1e6, unit="MB")
        t.add("  beside profiles.db of", data / 1e6, unit="MB")
        t.add("time to stop, after the last one", stopped[0], unit="s", target=0.2)
        t.add("  idle, median of 3", statistics.median(stopped[1:]), unit="s", target=0.2)
        t.print()


if __name__ == "__main__":
    main()
