#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 and failing system calls under mixed load, with an oracle of the acknowledged items.

    bench/chaos.py [--kills 200] [--faults 2000] [--seed 1] [--keep]

It goes on until it has both: a slow machine makes fewer calls before each kill, so fewer of them fail. Profiles, whole and divided pushes, queries and readers run against build/lode with a scanned folder, while system calls on its
files fail (tests/support/faults.c) and the process is killed at random instants. After each restart:

- each acknowledged profile is there once, with its value; one without an answer at most once; nothing else. The sums of
  the series and of the flame graph are those of the profiles;
- each acknowledged object is served, byte for byte;
- no valid request was answered with 4xx, and no answer had wrong bytes.

Exit status 1 and a list of findings if any of this does not hold.
"""

import argparse
import collections
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from conftest import LODE, Program, free_port, make_deb, tree_of  # noqa: E402
from faults import Faults  # noqa: E402
from profiling import CPU, Pprof  # noqa: E402

DRY = 100  # turns in a row without a fault: no call fails any more
PLACEHOLDER = hashlib.sha1(b"chaos").hexdigest()
OBJECTS = 5  # new ones before each kill
FAULTS = (("write",), ("read",), ("sync",), ("write", "sync"), ("rename", "link"), ("truncate",), ("open",), ("mmap",), ("write", "sync", "rename", "link", "open"))
QUERIES = (("series", {"one": 1}), ("flamegraph", {}), ("labels", None), ("types", None), ("top", {}))


class Chaos:
    OPTIONS = ("--profiles-max-age", "30d")
    # One each 137 ms: 150 000 profiles before one would be of the future, which no query has.
    BEGIN_MS, STEP_MS = 6 * 3600 * 1000, 137
    RUN_S = (0.05, 0.9)  # until it is killed
    PATIENCE_S = 20  # with an answer
    TYPE = CPU
    LOAD = {"sender": 3, "pusher": 2, "reader": 1, "querier": 1}  # threads

    def __init__(self, args):
        self.args, self.rng = args, random.Random(args.seed)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lode-chaos-"))
        self.data, self.pool = self.dir / "data", self.dir / "pool"
        self.pool.mkdir()
        self.faults = Faults(self.dir / "faults", self.data)
        self.lock = threading.Lock()
        self.base_ms = int(time.time() * 1000) - self.BEGIN_MS
        self.next, self.acked, self.unknown = 0, {}, {}
        self.objects, self.pushed = {}, {}
        self.findings, self.counts = [], collections.Counter()
        self.proc, self.running = None, threading.Event()
        self.make_objects()

    # ---- inputs ----

    def make_objects(self):
        for i in range(3):
            p = Program(self.dir / f"p{i}", f"packed{i}")
            make_deb(tree_of(p, self.dir / f"root{i}"), self.pool / f"p{i}.deb", ["xz", "zstd", "gzip"][i])
        source, out = self.dir / "x.c", self.dir / "x"
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{PLACEHOLDER}", "-o", out, source], check=True)
        self.template = out.read_bytes()
        assert self.template.count(bytes.fromhex(PLACEHOLDER)) == 1
        symbols = subprocess.run(["nm", out], capture_output=True, text=True, check=True).stdout
        self.main = next(line.split()[0] for line in symbols.splitlines() if line.endswith(" T main"))

    def more_objects(self):
        """New ones before each kill: of an object that is stored, a push only says so."""
        for _ in range(OBJECTS):
            build_id = self.rng.randbytes(20)
            content = self.template.replace(bytes.fromhex(PLACEHOLDER), build_id)
            # of various sizes, so that some take several writes
            self.objects[build_id.hex()] = content + self.rng.randbytes(self.rng.choice((0, 5000, 100000, 1000000)))

    @staticmethod
    def value(n):
        return 1000 + n * 7 % 9973

    def time(self, n):
        return self.base_ms + n * self.STEP_MS

    @staticmethod
    def sent_to(n):
        return f"/profiles?service=s{n % 5}"

    def profile(self, n):
        p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=self.time(n))
        return p.sample(["main", f"f{n % 50}", f"g{n % 211}"], [self.value(n)]).bytes()

    # ---- talking ----

    def find(self, text):
        with self.lock:
            if len(self.findings) < 100:
                self.findings.append(text)
                print("FINDING:", text, flush=True)

    def call(self, method, path, body=None, headers=None):
        """(status, body), or (None, b"") without an answer."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.PATIENCE_S)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return r.status, r.read()
        except (OSError, http.client.HTTPException):
            return None, b""
        finally:
            c.close()

    def blamed(self, what, status, body):
        self.counts[f"{what.split()[0]} {status}"] += 1
        if status is not None and 400 <= status < 500 and status not in (409, 429):
            self.find(f"{what}: {status} {body[:200]!r}")

    # ---- load ----

    def sender(self, rng):
        with self.lock:
            again = [n for n in self.unknown] if rng.random() < 0.2 else []
            n = rng.choice(again) if again else self.next
            if not again:
                self.next += 1
            # from here on it may be stored
            self.unknown[n] = True
        status, body = self.call("POST", self.sent_to(n), self.profile(n))
        self.blamed("profile", status, body)
        if status == 200:
            with self.lock:
                self.unknown.pop(n, None)
                self.acked[n] = True

    def pusher(self, rng):
        with self.lock:
            missing = [x for x in self.objects if x not in self.pushed]
        build_id = rng.choice(missing if missing and rng.random() < 0.8 else list(self.objects))
        content, path = self.objects[build_id], f"/buildid/{build_id}/debuginfo"
        sha = {"X-LODE-SHA256": hashlib.sha256(content).hexdigest()}
        status, body = None, b""
        if rng.random() < 0.5 and len(content) > 4096:
            half = len(content) // 2
            parts = ((0, half), (half, len(content)))
        else:
            parts = ((0, len(content)),)
        for first, limit in parts:
            head = {**sha, "Content-Range": f"bytes {first}-{limit - 1}/{len(content)}"} if len(parts) > 1 else sha
            status, body = self.call("PUT", path, content[first:limit], head)
            self.blamed("push", status, body)
            if status != 202:
                break
        if status in (200, 201):
            with self.lock:
                self.pushed[build_id] = True

    def reader(self, rng):
        with self.lock:
            known = list(self.pushed)
        if known and rng.random() < 0.5:
            self.check_object(rng.choice(known))
        elif known:
            self.check_name(rng.choice(known))

    def check_object(self, build_id):
        status, body = self.call("GET", f"/buildid/{build_id}/debuginfo")
        self.blamed("artifact", status, body)
        if status == 200 and body != self.objects[build_id]:
            self.find(f"artifact {build_id}: wrong bytes")
        return status

    def check_name(self, build_id):
        """Its table is built, stored and mapped. While calls fail there may be no name, but never another one."""
        status, body = self.call("GET", f"/buildid/{build_id}/symbolize?addr={self.main}")
        self.blamed("symbolize", status, body)
        for frame in json.loads(body)["addresses"][0].get("frames", []) if status == 200 else []:
            if frame["function"] != "main":
                self.find(f"symbolize {build_id}: {body[:300]!r}")

    def querier(self, rng):
        path, args = rng.choice(QUERIES)
        args = {} if args is None else {**args, "query": self.TYPE}
        status, body = self.call("GET", f"/api/{path}?{urllib.parse.urlencode({**args, 'from': 0})}")
        self.blamed(f"query {path}", status, body)

    def loop(self, what, seed):
        rng = random.Random(seed)
        while self.running.is_set():
            what(rng)

    # ---- the service ----

    def start(self):
        self.port = free_port()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
        log = open(self.dir / "log", "ab")
        self.proc = subprocess.Popen([LODE, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.data, "--no-upstream", "--no-access-log",
                                      *self.OPTIONS, "--rescan", "1", self.pool], stdout=log, stderr=log,
                                     env={**env, **self.faults.environment})
        log.close()
        end = time.monotonic() + 60
        while time.monotonic() < end and self.proc.poll() is None:
            if self.call("GET", "/healthz")[0] == 200:
                return True
            time.sleep(0.02)
        self.find(f"no start: {self.proc.poll()}: {(self.dir / 'log').read_text(errors='replace')[-500:]}")
        return False

    def stop(self, sig):
        self.proc.send_signal(sig)
        self.proc.wait()

    # ---- the oracle ----

    def ask(self, path, **args):
        status, body = self.call("GET", f"/api/{path}?{urllib.parse.urlencode({**args, 'from': 0})}")
        if status != 200:
            self.find(f"check {path}: {status} {body[:300]!r}")
            return None
        return json.loads(body)

    def views(self):
        """The list, the series and the flame graph, with nothing deleted in between."""
        while True:
            listed = self.ask("profiles", query=self.TYPE, limit=100000)
            series = self.ask("series", query=self.TYPE, one=1)
            graph = series and self.graph(series)
            if not listed or not graph:
                return None
            if self.ask("profiles", query=self.TYPE, limit=100000) == listed:
                return listed, series, graph

    def graph(self, series):
        return self.ask("flamegraph", query=self.TYPE)

    def check(self, objects):
        views = self.views()
        if not views:
            return
        listed, series, graph = views
        seen = collections.Counter()
        for p in listed["profiles"]:
            n, rest = divmod(p["time"] - self.base_ms, self.STEP_MS)
            seen[n] += 1
            if rest or p["total"] != self.value(n) or p["labels"].get("service") != f"s{n % 5}":
                self.find(f"profile {n}: wrong: {p}")
        for n in seen:
            if seen[n] > 1:
                self.find(f"profile {n}: counted {seen[n]} times")
            elif n not in self.acked and n not in self.unknown:
                self.find(f"profile {n}: was not sent")
        self.check_kept(seen)
        want = sum(self.value(n) * k for n, k in seen.items())
        got = sum(s["total"] for s in series["series"])
        if got != want or graph["total"] != want or sum(s["profiles"] for s in series["series"]) != sum(seen.values()):
            self.find(f"sums: profiles {want}, series {got}, flame graph {graph['total']}")
        for build_id in objects:
            status = self.check_object(build_id)
            if status != 200:
                self.find(f"object {build_id}: acknowledged, and {status} now")

    def check_kept(self, seen):
        lost = [n for n in self.acked if n not in seen]
        if lost:
            self.find(f"{len(lost)} acknowledged profiles lost: {lost[:10]}")

    # ---- all of it ----

    def begin(self, all_objects):
        """Start, and compare with what was acknowledged before."""
        if not self.start():
            return False
        known = list(self.pushed)
        self.check(known if all_objects else self.rng.sample(known, min(3, len(known))))
        return True

    def turn(self, k):
        if not self.begin(k % 20 == 0):
            return False
        left = max(0, self.args.faults - self.faults.failed)
        before, calls = self.faults.failed, self.rng.choice(FAULTS)
        if left and k % 4:
            part = -(-left * 4 // max(1, 3 * (self.args.kills - k)))
            self.faults.on(calls, one_in=self.rng.choice((3, 10, 40)), left=2 * part, seed=self.rng.randrange(1 << 30))
        self.more_objects()
        self.running.set()
        threads = [threading.Thread(target=self.loop, args=[getattr(self, what), self.rng.random()]) for what, n in self.LOAD.items() for _ in range(n)]
        for t in threads:
            t.start()
        time.sleep(self.rng.uniform(*self.RUN_S))
        if self.proc.poll() is not None:
            self.find(f"ended by itself: {self.proc.returncode}")
        if k % 10 == 9:
            os.utime(self.pool / "p1.deb")
        self.stop(signal.SIGKILL)
        self.running.clear()
        for t in threads:
            t.join()
        self.faults.off()
        self.counts["fault " + "+".join(calls)] += self.faults.failed - before
        return True

    def turns(self):
        """Returns the number of kills."""
        started, k, dry = time.monotonic(), 0, 0
        while k < self.args.kills or self.faults.failed < self.args.faults:
            before = self.faults.failed
            if not self.turn(k):
                return k
            k += 1
            dry = 0 if self.faults.failed > before else dry + 1
            if dry == DRY and k >= self.args.kills:
                self.find(f"no system call has failed in {DRY} turns")
                break
            if k % 20 == 0:
                print(f"{k} kills, {self.faults.failed} faults, {len(self.acked)} profiles and {len(self.pushed)} objects acknowledged, "
                      f"{time.monotonic() - started:.0f} s", flush=True)
        self.begin(True)
        return k

    def run(self):
        started, n_kills = time.monotonic(), self.turns()
        if self.proc and self.proc.poll() is None:
            self.stop(signal.SIGTERM)
            if self.proc.returncode != 0:
                self.find(f"stopped with {self.proc.returncode}")
        print(f"{n_kills} kills, {self.faults.failed} faults, {time.monotonic() - started:.0f} s: {len(self.acked)} profiles and {len(self.pushed)} "
              f"objects acknowledged; {len(self.findings)} findings")
        print(", ".join(f"{what}: {n}" for what, n in sorted(self.counts.items())))
        if self.findings or self.args.keep:
            print("kept:", self.dir)
        else:
            shutil.rmtree(self.dir)
        return 1 if self.findings else 0


def main(chaos=Chaos, doc=__doc__, kills=200, faults=2000):
    a = argparse.ArgumentParser(description=doc.split("\n")[0])
    a.add_argument("--kills", type=int, default=kills)
    a.add_argument("--faults", type=int, default=faults)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--keep", action="store_true")
    return chaos(a.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
