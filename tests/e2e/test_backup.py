# SPDX-License-Identifier: Apache-2.0
"""lode backup: a copy of the data of a service, which runs or not, that another service starts on without loss or repair."""

import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
import time

import pytest

from bucket_engines import STORE, start, stub  # noqa: F401
from conftest import LODE
from making import elf, fetch, new_id
from profiling import CPU, Pprof, ask, call
from pushing import bearer, lode, put, server, sound, token
from test_operating import n_profiles
from test_store_kept import held, nodes, path, taken  # noqa: F401


def profile(n):
    p = Pprof(time_ms=int(time.time() * 1000) - 600000 + n)
    for i in range(40):
        p.sample(["main", f"f{n % 7}", f"g{(n * 31 + i) % 997}", f"h{i}"], (1, 1 + n))
    return p.bytes()


def backup(s, to, *args, ok=True):
    r = lode("backup", "--json", "--data", s.data, *args, to, ok=ok)
    return json.loads(r.stdout) if ok else r


@pytest.fixture
def restored(server, tmp_path):
    """A service on a copy of a backup, which found nothing to repair and nothing to warn of."""
    n = iter(range(100))

    def start(backup, args=()):
        data = tmp_path / f"restored{next(n)}"
        data.mkdir()
        for entry in backup.iterdir():
            (shutil.copytree if entry.is_dir() else shutil.copy2)(entry, data / entry.name)
        r = server(args=args, data=data)
        assert not re.search(r" (warn|error) ", r.log_path.read_text()), r.log_path.read_text()
        profiles = json.loads(r.get("/api/status").body)["profiles"]
        assert (profiles["set_aside"], profiles["lost"]) == (0, 0), profiles
        return r

    return start


class Sender(threading.Thread):
    """Sends profiles, and every tenth time pushes a debug file, until it is stopped; counts what was acknowledged."""

    def __init__(self, s, elf, headers=None):
        super().__init__()
        self.s, self.elf, self.headers, self.n, self.pushed, self.over = s, elf, headers or {}, 0, {}, threading.Event()
        self.start()

    def run(self):
        while not self.over.is_set():
            status, text, _ = call(self.s, "POST", "/profiles?service=a", profile(self.n), self.headers)
            assert status == 200, text
            self.n += 1
            if self.n % 10 == 0:
                i = new_id("backup", self.n)
                content = self.elf.of(self.elf.debug, i)
                assert put(self.s, f"/buildid/{i}/debuginfo", content, self.headers)[0] == 201
                self.pushed[i] = content

    def stop(self):
        self.over.set()
        self.join()


@pytest.fixture
def sender(elf):
    made = []

    def start(s, headers=None):
        made.append(Sender(s, elf, headers))
        return made[-1]

    yield start
    for x in made:
        x.stop()


def check(r, profiles, pushed):
    assert profiles <= n_profiles(r)
    for i, content in pushed.items():
        assert fetch(r, f"/buildid/{i}/debuginfo") == (200, content, True)
    assert sound(r)["objects"] >= len(pushed)


def entries(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_backup_of_a_service_in_use_has_all_that_was_acknowledged(server, sender, restored, tmp_path):
    s = server()
    secret = token(s, "ci")
    to = tmp_path / "backup"
    x = sender(s, bearer(secret))
    s.wait(lambda: x.n > 150, "profiles")
    for i in range(2):
        before, pushed = x.n, dict(x.pushed)
        r = backup(s, to)
        assert (r["complete"], r["profiles"], r["store"], r["tokens"]) == (True, "copied", "copied", "copied"), r
        assert entries(to) == ["profiles", "store", "tokens"] and entries(to / "profiles") == ["begun", "clock", "profiles.db"]
        # The second one copies only what is new.
        assert len(pushed) > 0 and (r["store_copy"]["there"] > 0) == (i > 0)
        at = x.n
        s.wait(lambda: x.n > at + 50, "the service to go on")
        c = restored(to)
        check(c, before, pushed)
        assert call(c, "POST", "/profiles?service=a", profile(0))[0] == 401
        assert call(c, "POST", "/profiles?service=b", profile(0), bearer(secret))[0] == 200
        c.stop()
    x.stop()
    assert not re.search(r" (warn|error) ", s.log_path.read_text()), s.log_path.read_text()
    backup(s, to)
    c = restored(to)
    assert n_profiles(c) == x.n
    assert ask(c, "series", query=CPU) == ask(s, "series", query=CPU)
    assert ask(c, "flamegraph", query=CPU) == ask(s, "flamegraph", query=CPU)
    assert entries(to) == ["profiles", "store", "tokens"]


def test_a_backup_is_for_nobody_else_to_read(server, sender, tmp_path):
    s = server()
    x = sender(s, bearer(token(s, "ci")))
    s.wait(lambda: x.n > 20, "profiles")
    os.chmod(s.data / "profiles", 0o750)
    os.chmod(s.data / "profiles" / "profiles.db", 0o600)
    old = os.umask(0)
    try:
        backup(s, tmp_path / "backup")
    finally:
        os.umask(old)
    modes = {p: stat.S_IMODE((tmp_path / "backup" / p).stat().st_mode) for p in (".", "tokens", "profiles", "profiles/profiles.db")}
    assert modes == {".": 0o700, "tokens": 0o600, "profiles": 0o750, "profiles/profiles.db": 0o600}


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_backup_of_a_service_that_has_ended(server, sender, restored, tmp_path, end):
    s = server()
    x = sender(s)
    s.wait(lambda: x.n > 100, "profiles")
    x.stop()
    s.stop(end)
    wal = s.data / "profiles" / "profiles.db-wal"
    assert wal.exists() == (end == signal.SIGKILL)
    left = wal.read_bytes() if wal.exists() else b""
    db = (s.data / "profiles" / "profiles.db").read_bytes()
    for _ in range(2):
        backup(s, tmp_path / "backup")
        assert n_profiles(c := restored(tmp_path / "backup")) == x.n
        check(c, x.n, x.pushed)
        c.stop()
    assert (s.data / "profiles" / "profiles.db").read_bytes() == db and wal.read_bytes() == left
    s = server(data=s.data)
    assert n_profiles(s) == x.n
    assert len(re.findall(r" (?:warn|error) ", s.log_path.read_text())) == 0


def usable(to):
    """The number of profiles in a backup of which nothing is missing."""
    assert "profiles.db" in entries(to / "profiles") and "begun" in entries(to / "profiles"), entries(to)
    assert not (to / "profiles" / "profiles.db-wal").exists()
    with sqlite3.connect(f"file:{to}/profiles/profiles.db?immutable=1", uri=True) as c:
        assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return c.execute("SELECT n_profiles FROM counter").fetchone()[0]


@pytest.mark.slow
def test_a_kill_leaves_the_former_backup_or_the_new_one(server, sender, restored, tmp_path):
    s = server()
    x = sender(s)
    s.wait(lambda: x.n > 200, "profiles")
    to = tmp_path / "backup"
    begin = time.monotonic()
    backup(s, to)
    whole = time.monotonic() - begin
    n, ended = usable(to), 0
    for i in range(24):
        p = subprocess.Popen([LODE, "backup", "--data", s.data, to], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * i / 22)
        p.kill()
        ended += p.wait() == 0
        now = usable(to)
        assert n <= now
        n = now
    assert ended < 24
    x.stop()
    backup(s, to)
    assert usable(to) == x.n * 2  # two sample types
    assert entries(to) == ["profiles", "store"]
    check(restored(to), x.n, x.pushed)


def test_without_data_there_is_a_message(server, tmp_path):
    r = lode("backup", "--data", tmp_path / "none", tmp_path / "to", ok=False)
    assert r.returncode == 1 and "no service has stored anything there" in r.stderr and "--data" in r.stderr
    assert not (tmp_path / "to").exists() and not (tmp_path / "none").exists()
    assert lode("backup", ok=False).returncode == 2
    # A service without profiles and tokens.
    s = server(args=["--no-profiles"])
    r = backup(s, tmp_path / "to")
    assert (r["profiles"], r["store"], r["tokens"]) == ("none", "copied", "none")


def test_what_is_gone_from_the_data_is_said_of(server, tmp_path):
    s = server(args=["--no-profiles"])
    token(s, "ci")
    backup(s, tmp_path / "to")
    os.remove(s.data / "tokens")
    r = lode("backup", "--data", s.data, tmp_path / "to")
    assert "tokens: none" in r.stdout and "is of an earlier backup" in r.stderr and (tmp_path / "to" / "tokens").exists()


def flip(file, at):
    with open(file, "r+b") as f:
        f.seek(at)
        b = f.read(3)
        f.seek(at)
        f.write(bytes(x ^ 0x5A for x in b))


def test_damage_is_not_copied_and_the_former_backup_stays(server, sender, restored, tmp_path):
    s = server()
    x = sender(s, bearer(token(s, "ci")))
    s.wait(lambda: x.n > 100, "profiles")
    to = tmp_path / "backup"
    backup(s, to)
    n = usable(to)
    at = x.n
    s.wait(lambda: x.n > at + 30, "more")
    x.stop()
    s.stop()
    db = s.data / "profiles" / "profiles.db"
    former = (to / "profiles" / "profiles.db").read_bytes()
    flip(db, db.stat().st_size // 8192 // 2 * 8192 + 100)
    damaged = db.read_bytes()
    r = backup(s, to, ok=False)
    assert r.returncode == 1 and re.search(r"lode: backup: profiles: .*profiles\.db: page \d+ is damaged\n", r.stderr), r.stderr
    assert "repairs" in r.stderr
    result = json.loads(r.stdout)
    assert (result["complete"], result["profiles"], result["store"], result["tokens"]) == (False, "failed", "copied", "copied")
    assert (to / "profiles" / "profiles.db").read_bytes() == former and usable(to) == n and db.read_bytes() == damaged
    assert entries(to) == ["profiles", "store", "tokens"]
    c = restored(to)
    check(c, n // 2, x.pushed)
    # A database that is missing is no store without profiles.
    os.remove(db)
    r = backup(s, to, ok=False)
    assert r.returncode == 1 and "is missing" in r.stderr and usable(to) == n


def test_damaged_tokens_do_not_take_the_place_of_their_copy(server, tmp_path):
    """The copy is what they are restored from."""
    s = server(args=["--no-profiles"])
    token(s, "ci")
    backup(s, to := tmp_path / "to")
    good = (to / "tokens").read_bytes()
    flip(s.data / "tokens", 5)
    r = backup(s, to, ok=False)
    assert r.returncode == 1 and re.search(r"lode: backup: tokens: .*/tokens: line 1: not a line of", r.stderr), r.stderr
    assert json.loads(r.stdout)["tokens"] == "failed" and (to / "tokens").read_bytes() == good
    # All of them were removed.
    (s.data / "tokens").write_bytes(b"")
    assert backup(s, to)["tokens"] == "copied" and (to / "tokens").read_bytes() == b""


def test_data_that_is_in_use_is_no_destination(server, tmp_path):
    s, other = server(), server()
    for to in (s.data, s.data / "store" / "x", s.data / "profiles"):
        r = lode("backup", "--data", s.data, to, ok=False)
        assert r.returncode == 1 and "part of the data" in r.stderr, to
    assert not (s.data / "store" / "x").exists()
    r = lode("backup", "--data", s.data, other.data, ok=False)
    assert r.returncode == 1 and "the data directory of a service that runs" in r.stderr
    # One backup at a time.
    (tmp_path / "to").mkdir()
    fd = os.open(tmp_path / "to", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    r = lode("backup", "--data", s.data, tmp_path / "to", ok=False)
    os.close(fd)
    assert r.returncode == 1 and "another lode backup" in r.stderr


def test_a_destination_that_would_cost_data_is_refused(server, tmp_path):
    """A data directory that is called profiles, beside it a destination; a folder of somebody; the tokens of the service."""
    (tmp_path / "srv").mkdir()
    s = server(data=tmp_path / "srv" / "profiles")
    token(s, "ci")
    before = entries(s.data)
    for to, args, of in (
        (tmp_path / "srv", [], "part of the data"),
        (s.data / "to", ["--profiles", s.data / "to" / "profiles" / "x"], "part of the data"),
        (s.data, ["--data", tmp_path / "other", "--profiles", s.data / "profiles"], "part of the data"),
    ):
        (s.data / "to" / "profiles" / "x").mkdir(parents=True, exist_ok=True)
        r = lode("backup", "--data", s.data, *args, to, ok=False)
        assert r.returncode == 1 and of in r.stderr, (to, r.stdout, r.stderr)
        shutil.rmtree(s.data / "to")
    assert entries(s.data) == before
    mine = tmp_path / "to" / "profiles"
    mine.mkdir(parents=True)
    (mine / "mine").write_text("x")
    r = lode("backup", "--data", s.data, tmp_path / "to", ok=False)
    assert r.returncode == 1 and "is not a folder with a copy of profiles" in r.stderr and (mine / "mine").exists()
    assert "tokens: copied" in r.stdout
    r = lode("backup", "--data", s.data, "--tokens", tmp_path / "to" / "tokens", tmp_path / "to", ok=False)
    assert r.returncode == 1 and "part of the data" in r.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_destination_that_another_user_made_in_tmp_is_refused(server, tmp_path):
    s = server()
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "to").mkdir()
    os.chown(shared / "to", 65534, 65534)
    shared.chmod(0o1777)
    r = lode("backup", "--data", s.data, shared / "to" / "", ok=False)
    assert r.returncode == 1 and "belongs to another user" in r.stderr and not entries(shared / "to")
    # Where nobody else may make folders, it is a matter of whoever made it.
    shared.chmod(0o755)
    backup(s, shared / "to")


@pytest.mark.slow
def test_pushes_that_wait_for_a_bucket_are_in_the_backup(stub, nodes, elf, tmp_path):
    s = nodes(stub)
    ids = [new_id("kept", i) for i in range(3)]
    stub.away = True
    for i in ids:
        assert put(s, path(i), elf.of(elf.debug, i))[0] == 202
    to = tmp_path / "backup"
    r = lode("backup", "--store", STORE, "--data", s.data, to)
    assert f"lode store copy {STORE} FOLDER" in r.stdout and "kept pushes: copied: 3" in r.stdout, r.stdout
    s.stop(signal.SIGKILL)
    shutil.rmtree(s.data / "bucket")
    shutil.copytree(to / "bucket", s.data / "bucket")
    s = nodes(stub)
    assert held(s)["pushes"] == 3
    for i in ids:
        assert fetch(s, path(i)) == (200, elf.of(elf.debug, i), True)
    stub.away = False
    taken(s)
    # A wrong data directory costs no copy of them.
    r = lode("backup", "--store", STORE, "--data", tmp_path / "none", to)
    assert "no kept pushes" in r.stderr and len(list((to / "bucket").iterdir())) == 1
    # Of a backup that is made now they are not part.
    r = json.loads(lode("backup", "--json", "--store", STORE, "--data", s.data, to).stdout)
    assert (r["store"], r["kept_pushes"], r["n_kept_pushes"]) == ("not copied", "none", 0)
    assert not list((to / "bucket").iterdir())
