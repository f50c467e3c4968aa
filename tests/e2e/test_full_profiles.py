# SPDX-License-Identifier: Apache-2.0
"""Entries that no kept profile names leave the store while it takes profiles; a full store makes room by age, and one sender does not fill it for all."""

import hashlib
import threading
import time

import pytest

from profiling import CPU, Pprof, ask, call, send
from pushing import bearer, token

HOUR_MS = 3600 * 1000
WORLDS, STACKS, PROFILES = 30, 1200, 5  # of each hour: functions, stacks, a binary and a series of its own, and how often they are sent
VALUE = 1 << 40  # takes some bytes, so that profiles are what the disk is full of


def world(i, time_ms):
    """What nothing else has: as of a program that is deployed anew each hour."""
    build_id = hashlib.sha1(b"%d" % i).hexdigest()
    p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=time_ms, mapping=(0x400000, 0x400000 + (1 << 24), 0, f"/srv/{i}/app", build_id))
    for k in range(STACKS):
        p.sample([f"main{i}", 0x401000 + 16 * k, f"version{i}::handler{k % 400}", f"version{i}::leaf{k}"], [VALUE + k])
    return p.bytes()


def steady(time_ms):
    return Pprof(types=(("cpu", "nanoseconds"),), time_ms=time_ms).sample(["main", "loop"], [7]).bytes()


def figures(s):
    return ask(s, "status")["profiles"]


class Intake:
    """Sends one small profile after the other, and keeps the answers that were not 200."""

    def __init__(self, s, time_ms):
        self.s, self.time_ms, self.wrong, self.ends = s, time_ms, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        n = 0
        while not self.ends.is_set():
            status, body, _ = call(self.s, "POST", "/profiles?service=steady", steady(self.time_ms + n))
            if status != 200:
                self.wrong.append((status, body))
            n += 1
            self.ends.wait(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.ends.set()
        self.thread.join()


@pytest.mark.slow
def test_what_no_kept_profile_names_is_swept_while_profiles_come_in(serve):
    """More than a day of a program that changes each hour, of which some hours are kept."""
    s = serve([], args=["--profiles-max-size", "600K", "--symbolize-interval", "0"]).ready()
    now_ms, kinds = int(time.time() * 1000), ("series", "functions", "stacks", "locations", "binaries", "memory")
    send(s, steady(now_ms - (WORLDS + 1) * HOUR_MS), service="steady")
    empty, sent = figures(s), None
    with Intake(s, now_ms - WORLDS * HOUR_MS) as intake:
        for i in range(WORLDS):
            intake.time_ms = now_ms - (WORLDS - i) * HOUR_MS
            for k in range(PROFILES):
                send(s, world(i, intake.time_ms + 60000 * k), service=f"web{i}")
            # All worlds are equally large. What is there at the end is no measure: on a slow machine sweeps run meanwhile.
            sent = sent or {k: WORLDS * (figures(s)[k] - empty[k]) for k in kinds}
        # The groomer looks every ten seconds; it deletes the oldest profiles first, and sweeps then.
        s.wait(lambda: all(figures(s)[k] < 0.5 * sent[k] for k in kinds), "the sweep", 300)
    left = figures(s)
    assert not intake.wrong and not left["refused"]
    # What is kept is whole.
    kept = ask(s, "flamegraph", query=f'{CPU}{{service="web{WORLDS - 1}"}}', from_=0)
    assert kept["total"] == PROFILES * sum(VALUE + k for k in range(STACKS))
    names = ask(s, "labels/service/values", from_=0)["values"]
    assert "steady" in names and f"web{WORLDS - 1}" in names and "web0" not in names, names


def labelled(i, time_ms, n):
    p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=time_ms)
    for k in range(n):
        p.sample(["main"], [1], [("request", f"{i}-{k}")])
    return p.bytes()


@pytest.mark.slow
def test_series_of_old_profiles_make_room(serve):
    """100 000 series of one label, some hours old: all that there may be. New ones find room."""
    s = serve([], args=["--symbolize-interval", "0"]).ready()
    now_ms = int(time.time() * 1000)
    for i in range(100):
        send(s, labelled(i, now_ms - 12 * HOUR_MS + i * 60000, 1000), service="hostile")
    before = figures(s)
    assert before["series"] > 75000
    with Intake(s, now_ms - 60000) as intake:
        for i in range(10):
            send(s, labelled(1000 + i, now_ms - 60000 + i, 1000), service="new")
    after = figures(s)
    assert not intake.wrong and after["refused"] == 0 and after["series"] <= 100000
    assert ask(s, "series", query=f'{CPU}{{service="new"}}', from_=0, one=1)["series"][0]["total"] == 10000


@pytest.mark.slow
def test_one_sender_does_not_use_up_the_series(serve):
    s = serve([], args=["--symbolize-interval", "0"]).ready()
    hostile, other = (bearer(token(s, name)) for name in ("hostile", "other"))
    now_ms, refusal = int(time.time() * 1000), None
    for i in range(120):
        status, body, _ = call(s, "POST", "/profiles?service=hostile", labelled(i, now_ms - 60000 + i, 1000), hostile)
        if status != 200:
            refusal = status, body.decode()
            break
    assert refusal[0] == 422 and "the sender 'hostile' has" in refusal[1] and "the label 'request'" in refusal[1], refusal
    for i in range(5):
        assert call(s, "POST", "/profiles?service=other", labelled(5000 + i, now_ms - 60000, 1000), other)[0] == 200
    assert call(s, "POST", "/profiles?service=hostile", labelled(9999, now_ms - 60000, 1000), hostile)[0] == 422
