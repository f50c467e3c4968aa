#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time from a profile's arrival to its names: profiles of 5 000 new addresses each, of programs whose debug files are here.

    bench/naming.py [--profiles 16] [--addresses 5000] [--binaries 2] [--program build/lode]

Each profile has addresses of its own programs: --program, which needs debug information, is copied with new build IDs and served from a folder. The
first round has no symbol tables; the second has other addresses of the same programs, whose tables are in the store. Wall seconds are from the first byte
sent to the last address looked up. The benchmark polls /api/binaries for that, which is a good part of the server's CPU seconds.
"""

import argparse
import hashlib
import json
import http.client
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

from common import LODE, ROOT, Server, Table, percentile, say

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from profiling import Pprof, code_segment  # noqa: E402


def code(path):
    """Random addresses within functions."""
    out = subprocess.run(["nm", "-S", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    return [a for m in re.finditer(r"^(\w{16}) (\w{16}) [tT] ", out, re.M)
            for a in range(int(m[1], 16), int(m[1], 16) + int(m[2], 16), 4)]


def copy(program, to, n):
    """A copy of the program with another build ID."""
    identity = hashlib.sha1(f"{program} {n}".encode()).digest()
    note = to.parent / "note"
    note.write_bytes(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0" + identity)
    subprocess.run(["objcopy", f"--update-section=.note.gnu.build-id={note}", program, to], check=True)
    note.unlink()
    return identity.hex()


class Client:
    def __init__(self, server):
        self.c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def call(self, method, path, body=None):
        self.c.request(method, path, body=body)
        r = self.c.getresponse()
        data = r.read()
        if r.status not in (200, 202):
            raise SystemExit(f"{path}: {r.status} {data[:200]}")
        return json.loads(data)


def profile(identities, addrs, where, base=0x55d0c0de0000):
    off, vaddr, size = where
    bodies = []
    for n, identity in enumerate(identities):
        start = base + vaddr
        p = Pprof(types=(("cpu", "nanoseconds"),), mapping=(start, start + size, off, f"/usr/bin/p{n}", identity), time_ms=int(time.time() * 1000),
                  duration_ms=1000)
        for a in addrs:
            p.sample([base + a], [1])
        bodies.append(p.bytes())
    return bodies


def until_named(client, identities, bodies, label):
    """Send the profiles, one per message and binary, and wait for their names. Returns the seconds."""
    t0 = time.monotonic()
    for body in bodies:
        client.call("POST", f"/profiles?p={urllib.parse.quote(label)}", body)
    want = set(identities)
    while want:
        for b in client.call("GET", "/api/binaries?limit=100000")["binaries"]:
            # No address of it is left to be looked up.
            if b["build_id"] in want and b["state"] in ("named", "partly") and b["next_try"] == 0 and b["named"] and not b["tries"]:
                want.discard(b["build_id"])
        time.sleep(0.005)
    return time.monotonic() - t0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--profiles", type=int, default=16)
    p.add_argument("--addresses", type=int, default=5000)
    p.add_argument("--binaries", type=int, default=2)
    p.add_argument("--program", default=LODE)
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-naming-", dir="/var/tmp") as d:
        pool = pathlib.Path(d) / "pool"
        pool.mkdir()
        say(f"{a.profiles * a.binaries} copies of {a.program}")
        identities = [[copy(a.program, pool / f"p{n}-{i}", n * a.binaries + i) for i in range(a.binaries)] for n in range(a.profiles)]
        where, each = code_segment(a.program), a.addresses // a.binaries
        chosen = random.Random(1).sample(code(a.program), 2 * each)
        with Server("lode", [str(pool)], state=pathlib.Path(d) / "data", extra=["--no-access-log", "--symbolize-interval", "3600"]) as server:
            client, table = Client(server), Table()
            server.wait_ready()
            server.wait_scanned()
            for what, addrs, target in (("no tables", chosen[:each], 1.5), ("tables", chosen[each:], 0.3)):
                before, times = server.cpu(), []
                for n in range(a.profiles):
                    bodies = profile(identities[n], addrs, where)
                    times.append(until_named(client, identities[n], bodies, f"{what[0]}{n}"))
                say(f"{a.binaries * each} addresses in {a.binaries} programs, {what}")
                table.add(f"named, {what}: p50", percentile(times, 0.5))
                table.add(f"named, {what}: p99", percentile(times, 0.99), target=target)
                table.add(f"named, {what}: CPU each", (server.cpu() - before) / a.profiles)
            table.print()


if __name__ == "__main__":
    main()
