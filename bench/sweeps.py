#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 and failing system calls while old profiles are deleted and their stacks swept, with an oracle of what each kept profile says.

    bench/sweeps.py [--kills 15] [--faults 150] [--seed 1] [--keep]

As bench/chaos.py, but the store is small, so that it deletes and sweeps all the time, and profiles are large: two of five have 20 000 to 60 000
stacks of their own. After each restart, besides:

- of the profiles that were acknowledged, those that are gone are the oldest;
- of some that are kept, each stack has the value that was sent, and there is no other stack.
"""

import collections
import functools
import random
import sys
import urllib.parse

import chaos

CHECKED = 12  # profiles after each restart
SLACK = 12    # the oldest go by whole hours, and senders overtake each other


class Sweeps(chaos.Chaos):
    OPTIONS = ("--profiles-max-size", "7m")
    BEGIN_MS, STEP_MS = 150 * 86400 * 1000, 600 * 1000
    RUN_S = (10, 40)
    PATIENCE_S = 120
    LOAD = {"sender": 2, "querier": 1}  # sweeps are of a lower priority than requests
    TYPE = "profile:samples:count::"

    @staticmethod
    def stacks(n):
        """{stack: value}: some are shared by all profiles, the others are of this one."""
        rng = random.Random(n)
        own = rng.choice((0, 40, 2000, rng.randrange(20000, 60000), rng.randrange(20000, 60000)))
        out = collections.Counter({f"main;f{rng.randrange(50)};g{rng.randrange(211)}": 1 + rng.randrange(1000) for _ in range(20)})
        for i in range(own):
            out[f"main;run{i % 7};p{n}_{i // 16};q{i}"] = 1 + (n * 31 + i) % 997
        return out

    @staticmethod
    @functools.cache
    def value(n):
        return sum(Sweeps.stacks(n).values())

    def profile(self, n):
        return "".join(f"{stack} {value}\n" for stack, value in self.stacks(n).items()).encode()

    def sent_to(self, n):
        return f"{super().sent_to(n)}&format=folded&time={self.time(n)}"

    def graph(self, series):
        """Not the flame graph of all stacks, which takes a minute: those of single profiles are compared."""
        return {"total": sum(s["total"] for s in series["series"])}

    def stop(self, sig):
        text = self.call("GET", "/metrics")[1].decode()
        self.counts["sweeps"] += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("lode_profiles_sweeps_total "))
        super().stop(sig)

    def run(self):
        status = super().run()
        if not self.counts["sweeps"]:
            print("nothing was swept: let it run for longer")
        return status or not self.counts["sweeps"]

    def check_kept(self, seen):
        kept = sorted(seen)
        first = kept[0] if kept else 0
        lost = [n for n in self.acked if n not in seen and n > first + SLACK]
        if lost:
            self.find(f"{len(lost)} acknowledged profiles lost, though older ones are kept from {first} on: {sorted(lost)[:10]}")
        self.counts["kept"] += len(kept)
        for n in sorted(set(kept[:3] + self.rng.sample(kept, min(CHECKED, len(kept))))):
            self.check_stacks(n)

    def first_kept(self):
        listed = self.ask("profiles", query=self.TYPE, limit=100000)
        return min((p["time"] - self.base_ms) // self.STEP_MS for p in listed["profiles"])

    def check_stacks(self, n):
        ask = {"query": self.TYPE, "from": self.time(n), "to": self.time(n) + 1, "format": "folded"}
        status, body = self.call("GET", f"/api/download?{urllib.parse.urlencode(ask)}")
        if status != 200:
            self.find(f"download of profile {n}: {status} {body[:200]!r}")
            return
        # deleted since the list was made, as all that are older
        if not body and n < self.first_kept():
            return
        got = collections.Counter()
        for line in body.decode().splitlines():
            stack, _, value = line.rpartition(" ")
            got[stack] += int(value)
        want = self.stacks(n)
        self.counts["stacks compared"] += len(want)
        if got != want:
            wrong = [s for s in want | got if want[s] != got[s]]
            self.find(f"profile {n}: {len(wrong)} of {len(want)} stacks are false: {[(s, want[s], got[s]) for s in wrong[:3]]}")


if __name__ == "__main__":
    sys.exit(chaos.main(Sweeps, __doc__, kills=15, faults=150))
