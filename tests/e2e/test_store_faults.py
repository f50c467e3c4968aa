# SPDX-License-Identifier: Apache-2.0
"""Seeded faults of a bucket with a store in it, while two services push and fetch, and a third process collects.

Oracle: an object that was acknowledged is never 404, and its bytes are right or the reply is 503 and says that the bucket failed, or breaks off. At
the end each service serves all of them, and so does a new one with an empty disk. The service and the server are killed now and then.
LODE_STORE_FAULTS is the number of faults (200), LODE_SEED the seed (1), LODE_STORE_ENGINES the servers (stub, versitygw); `./dev soak` sets them."""

import collections
import http.client
import json
import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest

import versitygw
from bucket import SECRET, Bucket
from bucket_engines import STORE, running
from conftest import LODE
from fault_proxy import FAULTS, Proxy
from making import elf, fetch, new_id
from pushing import put

N_FAULTS, SEED = int(os.environ.get("LODE_STORE_FAULTS", 200)), int(os.environ.get("LODE_SEED", 1))
SLOW = ("black_hole", "huge_length")  # cost seconds each
N_SHARED, N_SCRATCH = 12, 8


# The real server where it is, else the one of the tests: both take two minutes.
ENGINES = os.environ.get("LODE_STORE_ENGINES", "versitygw" if versitygw.PROGRAM.exists() else "stub").split()


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    with running(request.param, tmp_path) as b:
        yield b


class Failure(Exception):
    pass


class Objects:
    """What the oracle knows. An object whose removal was tried, and not put since, is unknown."""

    def __init__(self, elf):
        self.elf, self.lock = elf, threading.Lock()
        self.shared = [new_id("shared", i) for i in range(N_SHARED)]
        self.scratch = [new_id("scratch", i) for i in range(N_SCRATCH)]
        self.acked, self.lost_track, self.removals = set(), set(), collections.Counter()

    def content(self, build_id):
        return self.elf.of(self.elf.debug, build_id)

    def begin(self, build_id):
        with self.lock:
            return build_id in self.acked, self.removals[build_id], build_id in self.lost_track

    def ack(self, build_id, begun):
        with self.lock:
            # A push beside a removal may be answered before it, and be removed then.
            if not begun[2] and build_id not in self.lost_track and self.removals[build_id] == begun[1]:
                self.acked.add(build_id)

    def must_be_there(self, build_id, begun):
        with self.lock:
            return begun[:2] == (True, self.removals[build_id])

    def known(self):
        with self.lock:
            return sorted(self.acked)

    def take_scratch(self, rng):
        """An acknowledged object that is to be removed."""
        with self.lock:
            has = sorted(set(self.scratch) & self.acked)
            if has:
                self.acked.discard(has := rng.choice(has))
                # A removal that failed may be carried out after the next push: which, then, is not the loss of a push.
                self.lost_track.add(has)
                self.removals[has] += 1
            return has or None

    def removed(self, build_id):
        with self.lock:
            self.lost_track.discard(build_id)


class Run:
    def __init__(self, engine, start, elf, tmp_path):
        self.engine, self.start, self.tmp_path = engine, start, tmp_path
        self.objects, self.lock = Objects(elf), threading.Lock()
        self.table = collections.defaultdict(collections.Counter)
        self.injected = collections.Counter()
        self.failures, self.n_faults, self.n_pushed = [], 0, 0

    def count(self, kind, injected, outcome):
        with self.lock:
            self.injected[kind] += injected
            self.table[kind][outcome] += 1
            self.n_faults += 1

    def goes_on(self):
        return self.n_faults < N_FAULTS and not self.failures

    def guarded(self, work):
        def run():
            try:
                work()
            except BaseException as e:  # the test reports it
                self.failures.append(e)
        t = threading.Thread(target=run)
        t.start()
        return t


class Node:
    """A service behind a proxy of its own, and the client that uses it."""

    def __init__(self, run, n):
        self.run, self.name, self.rng = run, f"node {n}", random.Random(SEED * 100 + n)
        self.proxy = Proxy(run.engine, SEED * 100 + n)
        # One reads the bucket for each request, the other keeps all.
        self.args = ["--cache-size", "0"] + (["--store-cache", "0"] if n else [])
        self.killed = False
        self.begin()

    def begin(self):
        self.s = self.run.start(self.proxy, self.name, self.args)

    def end(self):
        self.s.stop()
        self.proxy.close()

    def broken(self, what):
        """A connection broke: that is right only if the service was killed."""
        if not self.killed and self.s.proc.poll() is not None:
            raise Failure(f"{self.name}: the service died: {what}: {self.s.log_path.read_text()[-2000:]}")
        return "broken off"

    def refused(self, status, text, what):
        if status != 503 or "bucket" not in text:
            raise Failure(f"{self.name}: {what}: {status} {text!r}")
        return "503"

    def push(self, build_id, what):
        o = self.run.objects
        begun = o.begin(build_id)
        try:
            status, _, text = put(self.s, f"/buildid/{build_id}/debuginfo", o.content(build_id))
        except (OSError, http.client.HTTPException):
            return self.broken(what)
        if status not in (200, 201):
            return self.refused(status, text, f"push under {what}")
        o.ack(build_id, begun)
        self.run.n_pushed += 1
        return "done"

    def fetch(self, build_id, what):
        o = self.run.objects
        begun = o.begin(build_id)
        try:
            r = self.s.get(f"/buildid/{build_id}/debuginfo", timeout=60)
        except (OSError, http.client.HTTPException):
            return self.broken(what)
        if r.status == 200:
            if r.body != o.content(build_id):
                raise Failure(f"{self.name}: wrong bytes under {what}: {build_id}")
            return "done"
        # It may be removed while it is asked for.
        if r.status == 404 and not o.must_be_there(build_id, begun):
            return "404, rightly"
        return self.refused(r.status, r.body.decode(errors="replace"), f"{build_id} under {what}")

    def any_id(self):
        o, kind = self.run.objects, self.rng.random()
        return new_id(self.name, self.rng.random()) if kind < 0.4 else self.rng.choice(o.shared if kind < 0.7 else o.scratch)

    def one(self):
        """One request under one fault."""
        if self.rng.random() < 0.03:
            return self.kill()
        op = self.rng.choice(["PUT", "PUT", "LIST", "GET", "GET", "HEAD", "DELETE"])
        fault = self.rng.choice(FAULTS[op])
        if fault in SLOW and self.rng.random() < 0.7:
            return None
        times = times_of(fault, self.rng)
        known, what = self.run.objects.known(), f"{op} {fault} x{times}"
        self.proxy.arm(op, fault, times)
        if op in ("GET", "LIST") and known and self.rng.random() < 0.7:
            outcome = "fetch: " + self.fetch(self.rng.choice(known), what)
        else:
            outcome = "push: " + self.push(self.any_id(), what)
        hit = self.proxy.disarm()
        if hit:
            self.run.count(f"{op} {fault}", hit, outcome)

    def kill(self):
        def later():
            time.sleep(self.rng.random() * 0.3)
            self.killed = True
            self.s.stop(signal.SIGKILL)

        t = threading.Thread(target=later)
        t.start()
        outcomes = set()
        while t.is_alive():
            outcomes.add("push: " + self.push(self.any_id(), "kill -9 of lode"))
        t.join()
        self.killed = False
        self.begin()
        self.run.count("kill -9 of lode", 1, " and ".join(sorted(outcomes)))

    def drive(self):
        while self.run.goes_on():
            self.one()


def times_of(fault, rng):
    """In a row. An object that has other bytes at each read is a damaged one."""
    return 1 if fault in (*SLOW, "late", "flipped") else rng.choice([1, 1, 1, 2, 8])


class Collector:
    """lode store gc and rm, behind a proxy of their own."""

    def __init__(self, run):
        self.run, self.rng = run, random.Random(SEED * 100 + 9)
        self.proxy = Proxy(run.engine, SEED * 100 + 9)

    def lode(self, *args):
        return subprocess.run([LODE, "store", *args, "--store", STORE, "--data", self.run.tmp_path / "collector"], capture_output=True, text=True,
                              timeout=240, env={**os.environ, **self.proxy.env()})

    def said(self, r, what):
        if r.returncode and (r.returncode < 0 or "bucket" not in r.stderr):
            raise Failure(f"{what}: {r.returncode} {r.stderr}")
        return "failed" if r.returncode else "done"

    def one(self):
        scratch = self.run.objects.take_scratch(self.rng)
        if scratch and self.said(self.lode("rm", f"{scratch}/debuginfo"), "rm") == "done":
            self.run.objects.removed(scratch)
        op = self.rng.choice(["PUT", "LIST", "GET", "DELETE", "DELETE"])
        fault = self.rng.choice([f for f in FAULTS[op] if f not in SLOW])
        times = times_of(fault, self.rng)
        self.proxy.arm(op, fault, times)
        outcome = "gc: " + self.said(self.lode("gc"), f"gc under {op} {fault}")
        hit = self.proxy.disarm()
        if hit:
            self.run.count(f"{op} {fault}", hit, outcome)

    def drive(self):
        while self.run.goes_on():
            self.one()


def kill_server(run):
    """Some times, for a moment."""
    rng, n = random.Random(SEED), 0
    while run.goes_on():
        time.sleep(0.2)
        if run.n_faults < (n + 1) * N_FAULTS // 4:
            continue
        n += 1
        if isinstance(run.engine, Bucket):
            run.engine.away = True
            time.sleep(rng.random())
            run.engine.away = False
        else:
            run.engine.proc.kill()
            run.engine.proc.wait()
            time.sleep(rng.random())
            run.engine.start()
        run.count("kill -9 of the server", 1, "see above")


def served(s, objects, known):
    for i in known:
        s.wait(lambda: s.get(f"/buildid/{i}/debuginfo").status == 200, f"{i} is served")
        assert fetch(s, f"/buildid/{i}/debuginfo") == (200, objects.content(i), True), i


@pytest.mark.slow
@pytest.mark.timeout(max(400, N_FAULTS * 4))
def test_seeded_faults_of_a_store(serve, engine, elf, tmp_path):
    (tmp_path / "empty").mkdir()

    def start(server, name, args=()):
        return serve([tmp_path / "empty"], data=tmp_path / name, args=["--no-packages", "--store", STORE, *args], extra=server.env()).ready()

    from_s = time.monotonic()
    run = Run(engine, start, elf, tmp_path)
    nodes, collector = [Node(run, 0), Node(run, 1)], Collector(run)
    threads = [run.guarded(w) for w in (nodes[0].drive, nodes[1].drive, collector.drive, lambda: kill_server(run))]
    for t in threads:
        t.join()
    for p in (*(n.proxy for n in nodes), collector.proxy):
        p.landed()
    print(f"\nseed {SEED}, {type(engine).__name__}: {run.n_faults} faults, {run.n_pushed} pushes acknowledged, {time.monotonic() - from_s:.0f} s")
    for kind, outcomes in sorted(run.table.items()):
        print(f"{kind:24} {run.injected[kind]:4}  {', '.join(f'{k} {n}' for k, n in sorted(outcomes.items()))}")
    if run.failures:
        raise run.failures[0]
    known = run.objects.known()
    assert known
    assert collector.lode("gc").returncode == 0
    for n in nodes:
        served(n.s, run.objects, known)
    served(start(engine, "a third one"), run.objects, known)
    r = json.loads(subprocess.run([LODE, "store", "verify", "--json", "--store", STORE, "--data", tmp_path / "own"], capture_output=True,
                                  text=True, timeout=240, env={**os.environ, **engine.env()}).stdout)
    assert [b for b in r["bad"] if any(i in str(b) for i in known)] == []
    for n in nodes:
        log = n.s.log_path.read_text()
        assert SECRET not in log and not re.search(r"Sanitizer|assert", log)
        n.end()
    collector.proxy.close()
