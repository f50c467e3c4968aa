# SPDX-License-Identifier: Apache-2.0
"""Flipped bytes in every file of a data directory: right answers or clear errors, never wrong bytes; and all of it is mended."""

import json
import os
import random
import shutil
import sqlite3
import time
import urllib.parse

import pytest

from making import PACKERS, debug_path, deb, elf, fetch, new_id, tar_of
from profiling import CPU, Pprof, ask, send
from pushing import lode, one, put, sha, want

N_ROUNDS = int(os.environ.get("LODE_FLIPS", "3"))


def flip(path, at):
    """As a disk does: without a change of the file's times."""
    st = path.stat()
    if not st.st_size:
        return
    with open(path, "r+b") as f:
        f.seek(at % st.st_size)
        b = f.read(1)
        f.seek(at % st.st_size)
        f.write(bytes([b[0] ^ 0x08]))
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


class World:
    """A server with objects of each kind, and the right answers."""

    def __init__(self, serve, tmp_path, elf):
        self.serve, self.elf, self.tmp = serve, elf, tmp_path
        self.pool, upstream_pool = tmp_path / "pool", tmp_path / "up"
        self.pool.mkdir()
        upstream_pool.mkdir()
        self.answers, self.pushed = {}, {}
        for suffix in ("zst", "gz"):
            self.add_deb(self.pool, suffix, self.answers)
        fetched = {}
        self.add_deb(upstream_pool, "xz", fetched)
        self.upstream = serve([upstream_pool]).scanned()
        self.answers.update(fetched)
        for i, content in enumerate((elf.debug, elf.large)):
            build_id = new_id("pushed", i)
            self.pushed[f"/buildid/{build_id}/debuginfo"] = elf.of(content, build_id)
        tar_id = new_id("tar")
        self.pushed[f"/buildid/{tar_id}/sources"] = tar_of([("usr/src/x.c", b"int x;\n" * 5000)])
        self.answers[f"/buildid/{tar_id}/source/usr/src/x.c"] = b"int x;\n" * 5000
        self.answers.update({k: v for k, v in self.pushed.items() if "sources" not in k})

    def add_deb(self, pool, suffix, answers):
        build_id = new_id("deb", str(pool), suffix)
        debug = self.elf.of(self.elf.large, build_id)
        # So much before it that there are resume points in a file.
        text = random.Random(3).randbytes(10_000_000 if suffix == "gz" else 1000).hex().encode()
        members = tar_of([("./usr/share/text", text), (debug_path(build_id), debug), ("./usr/share/text2", text[:5_000_000])])
        (pool / f"{suffix}.deb").write_bytes(deb(PACKERS[suffix](members), suffix, [build_id]))
        answers[f"/buildid/{build_id}/debuginfo"] = debug

    def start(self, data):
        s = self.serve([self.pool], data=data, args=["--debuginfod-upstream-servers", self.upstream.url])
        return s.scanned()

    def push(self, s):
        for path, content in self.pushed.items():
            status, _, text = put(s, path, content, {"X-LODE-SHA256": sha(content)})
            assert status in (200, 201), (path, status, text)

    def ask(self, s):
        """The answers that were not right; a wrong one fails the test."""
        bad = []
        for path, right in self.answers.items():
            status, body, whole = fetch(s, path)
            if status == 200 and whole:
                assert body == right, path
            elif status == 200:
                assert right.startswith(body), path
                bad.append(path)
            else:
                assert status in (500, 502, 503), (path, status, body)
                bad.append(path)
        return bad


@pytest.fixture
def world(serve, tmp_path, elf):
    w = World(serve, tmp_path, elf)
    data = tmp_path / "sound"
    s = w.start(data)
    w.push(s)
    assert w.ask(s) == []
    s.wait(lambda: s.metric(r'lode_upstream_stored\{outcome="stored"\}') == 1, "the fetched file to be stored")
    assert w.ask(s) == []
    s.stop()
    w.data = data
    return w


def files_of(data):
    return sorted(p for p in data.rglob("*") if p.is_file() and "profiles" not in p.parts and p.name not in ("lock", ".lock")
                  and not p.name.startswith("index.sqlite") and p.name != "lode-store")


@pytest.mark.slow
def test_flipped_bytes(world, tmp_path):
    rng = random.Random(5)
    seen = {p.relative_to(world.data).parts[0] for p in files_of(world.data)}
    assert {"store", "cache", "points"} <= seen, seen
    for n in range(N_ROUNDS):
        data = tmp_path / f"round{n}"
        shutil.copytree(world.data, data)
        for p in files_of(data):
            size = p.stat().st_size
            flip(p, {0: 0, 1: size - 1, 2: size // 2}.get(n, rng.randrange(max(size, 1))))
        s = world.start(data)
        world.ask(s)
        # What the server has of its own it mends by itself; pushes are mended by the same push.
        w = want(s, *[one(p.split("/")[2], c, p.split("/")[3]) for p, c in world.pushed.items()])
        world.push(s)
        s.wait(lambda: world.ask(s) == [], f"all to be mended (round {n}; wanted {w})", timeout=20)
        s.stop()
        s = world.start(data)
        assert world.ask(s) == [], n
        s.stop()
        assert json.loads(lode("store", "verify", "--json", "--data", data).stdout)["bad"] == []
        shutil.rmtree(data)


@pytest.mark.slow
def test_a_profile_that_is_damaged_in_use_is_set_aside_and_the_rest_goes_on(serve, tmp_path):
    data = tmp_path / "data"
    path = data / "profiles" / "profiles.db"
    now = int(time.time() * 1000) - 1800_000
    deep = [f"f{k}" for k in range(300)]
    s = serve([], data=data).ready()
    for i in range(6):
        p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=now + i * 1000)
        for k in range(300):
            p = p.sample(deep[: k + 1], [1000003 + k * 70001 + i])
        send(s, p.bytes(), service=f"s{i}")  # a series each: there are no rollups
    s.stop()
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        page = db.execute("SELECT pageno FROM dbstat WHERE name = 'profile' AND pagetype = 'leaf' ORDER BY pageno DESC").fetchone()[0]
    s = serve([], data=data).ready()
    for at in (7990, 8000):  # one wrong byte would be corrected
        flip(path, (page - 1) * 8192 + at)
    answer = ask(s, "flamegraph", query=CPU)
    assert answer["profiles"] + answer["damaged"] == 6 and answer["damaged"] == 1
    assert ask(s, "series", query=CPU, one=1)["damaged"] == 1
    assert "damaged" not in ask(s, "flamegraph", query=CPU, to=now - 1)
    figures = json.loads(s.get("/api/status").body)["profiles"]
    assert figures["lost"] == 1 and figures["set_aside"] == 1 and f"page {page}" in figures["damage"], figures
    assert b'lode_profiles_damaged{what="lost"} 1' in s.get("/metrics").body
    assert b"set aside" in s.get("/healthz").body
    send(s, Pprof(time_ms=now + 100_000).sample(["main", "g"], [3, 4]).bytes(), service="new")
    assert ask(s, "flamegraph", query=CPU)["profiles"] == 6
    s.stop()
    # it was repaired: the next start finds nothing
    s = serve([], data=data).ready()
    assert ask(s, "flamegraph", query=CPU)["profiles"] == 6
    assert json.loads(s.get("/api/status").body)["profiles"]["set_aside"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [(1500,), (1500, 1777, 4000)])
def test_each_kind_of_page_of_the_profiles_that_is_damaged_in_use(serve, tmp_path, wrong):
    """The page is corrected, or the database made anew: answers at once, intake goes on, no restart."""
    data, now = tmp_path / "sound", int(time.time() * 1000) - 1800_000
    deep = [f"f{k}" for k in range(200)]
    s = serve([], data=data).ready()
    for i in range(60):
        p = Pprof(types=(("cpu", "nanoseconds"),), time_ms=now + i * 1000)
        for k in range(200):
            p = p.sample(deep[: k + 1], [1000003 + k * 70001 + i])
        send(s, p.bytes(), service=f"s{i % 7}")
    right = ask(s, "flamegraph", query=CPU)
    s.stop()
    pages = pages_of_database(data / "profiles" / "profiles.db")
    assert len(pages) > 8, pages
    for n, (kind, page) in enumerate(sorted(pages.items())):
        mine = tmp_path / f"data{n}"
        shutil.copytree(data, mine)
        s = serve([], data=mine).ready()
        for at in wrong:
            flip(mine / "profiles" / "profiles.db", (page - 1) * 8192 + at)
        answer = ask(s, "flamegraph", query=CPU)
        lost = answer.get("damaged", 0)
        assert answer["profiles"] + lost == 60 and lost <= (2 if kind[0] == "profile" and len(wrong) > 1 else 0), (kind, answer["profiles"], lost)
        assert lost or answer["total"] == right["total"], kind
        send(s, Pprof(time_ms=now + 100_000).sample(["main", "g"], [3, 4]).bytes(), service="new")
        assert ask(s, "flamegraph", query=CPU)["profiles"] == 61 - lost, kind
        assert not json.loads(s.get("/api/status").body)["profiles"].get("unrepaired"), kind
        s.stop()
        s = serve([], data=mine).ready()
        assert ask(s, "flamegraph", query=CPU)["profiles"] == 61 - lost, kind
        s.stop()


def pages_of_database(path):
    """One page of each kind of a database: {(table or index, kind of page): number}."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT name, pagetype, max(pageno) FROM dbstat GROUP BY name, pagetype").fetchall()
    kinds = {(name, kind): page for name, kind, page in rows}
    return {**kinds, ("file", "header"): 1, ("file", "pointer map"): 2}


@pytest.mark.slow
def test_a_page_of_the_index_that_is_damaged_in_use(serve, tmp_path, elf):
    """The index is made anew from the files: no wrong answer, no 404, no restart."""
    pool, data = tmp_path / "pool", tmp_path / "sound"
    pool.mkdir()
    answers = {}
    for i in range(150):
        build_id = new_id("plain", i)
        answers[f"/buildid/{build_id}/debuginfo"] = content = elf.of(elf.debug, build_id)
        (pool / f"a file with a long name that fills pages of the index {i:04}.debug").write_bytes(content)
    for i in range(30):
        build_id = new_id("packed", i)
        answers[f"/buildid/{build_id}/debuginfo"] = content = elf.of(elf.debug, build_id)
        texts = [(f"./usr/share/doc/package-{i}/part-{k}/text", b"x") for k in range(60)]
        (pool / f"p{i}.deb").write_bytes(deb(PACKERS["gz"](tar_of([*texts, (debug_path(build_id), content)])), "gz", [build_id]))
    serve([pool], data=data).scanned().stop()
    pages = pages_of_database(data / "index.sqlite")
    assert len(pages) > 12, pages
    n_remade = 0
    for n, (kind, page) in enumerate(sorted(pages.items())):
        mine = tmp_path / f"data{n}"
        shutil.copytree(data, mine)
        s = serve([pool], data=mine).scanned()
        flip(mine / "index.sqlite", (page - 1) * 4096 + 1500)

        def wrong():
            bad = []
            for path, right in answers.items():
                r = s.get(path)
                assert r.status in (200, 500, 503), (kind, path, r.status, r.body[:200])
                if r.status == 200:
                    assert r.body == right
                else:
                    bad.append((path, r.status))
            return bad

        first = wrong()
        s.get(f"/metadata?key=glob&value={urllib.parse.quote(str(pool))}/*")
        s.get("/api/status")
        s.wait(lambda: not wrong(), f"all answers again ({kind})", timeout=20)
        log = s.log_path.read_text()
        n_remade += "scanned again" in log
        print(kind, page, "failed at first:", len(first), "made anew" if "scanned again" in log else "not met")
        assert not first or "scanned again" in log, (kind, first[:3])
        s.stop()
        s = serve([pool], data=mine).scanned()
        assert not wrong(), kind
        s.stop()
    assert n_remade >= 4
