# SPDX-License-Identifier: Apache-2.0
"""lode push: finding and sending files, resuming after cuts and kills, and its messages."""

import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import LODE, free_port
from faults import Faults
from making import elf, fetch, new_id, peak_mib
from profiling import Answerer, Taker
from pushing import lode, server, sound, token


@pytest.fixture
def tree(tmp_path, elf):
    """A build folder with programs, debug files, a large one, and other files."""
    root = tmp_path / "build"
    (root / "sub").mkdir(parents=True)
    made = {}
    for i in range(20):
        k = new_id("tree", i)
        made[k] = elf.of(elf.debug, k)
        (root / "sub" / f"{i}.debug").write_bytes(made[k])
    made[elf.id] = elf.large
    (root / "large.debug").write_bytes(elf.large)
    (root / "notes.txt").write_text("hello")
    (root / "link").symlink_to("sub")
    return root, made


def test_lode_push(server, tree):
    root, made = tree
    s = server()
    r = json.loads(lode("push", root, "--to", s.url, "--json").stdout)
    assert (r["stored"], r["already_there"], r["failed"]) == (21, 0, 0)
    for k, content in made.items():
        assert fetch(s, f"/buildid/{k}/debuginfo") == (200, content, True)
    r = json.loads(lode("push", root, "--to", s.url + "/", "--json").stdout)
    assert (r["stored"], r["already_there"], r["bytes_sent"]) == (0, 21, 0)
    assert {o["result"] for o in r["objects"]} == {"same"}
    r = lode("push", root / "notes.txt", root / "missing", "--to", s.url, ok=False)
    assert r.returncode == 1 and "not an ELF file" in r.stderr and "missing" in r.stderr
    assert lode("push", root, ok=False).returncode == 2
    assert lode("push", "--to", "ftp://x", root, ok=False).returncode == 2
    r = lode("push", root, "--to", f"http://127.0.0.1:{free_port()}", "--retries", "1", ok=False)
    assert r.returncode == 1 and "Connection refused" in r.stderr


def test_no_upload_is_left_hanging(server, elf, tmp_path):
    """The server gathers 256 KiB at a time: a file may end anywhere after a multiple of that, and may be complete before the last part is written."""
    s = server(["--idle-timeout", "600"])
    root = tmp_path / "many"
    root.mkdir()
    for i in range(150):
        k = new_id("ends anywhere", i)
        (root / f"{i}.debug").write_bytes(elf.of(elf.debug, k) + bytes((256 << 10) * (1 + i % 2) + i * 331 - len(elf.debug)))
    r = json.loads(lode("push", root, "--to", s.url, "--json", "--parallel", "4", timeout=60).stdout)
    assert (r["stored"], r["failed"]) == (150, 0)


def test_lode_push_with_tokens(server, tree, tmp_path):
    root, made = tree
    s = server()
    t = token(s, "ci")
    r = lode("push", root, "--to", s.url, ok=False)
    assert r.returncode == 1 and "token" in r.stderr and "(401)" in r.stderr
    (tmp_path / "t").write_text(t + "\n")
    r = lode("push", root, "--to", s.url, ok=False, env={"LODE_TOKEN": "lode_wrong"})
    assert r.returncode == 1
    lode("push", root, "--to", s.url, "--token-file", tmp_path / "t")
    assert json.loads(lode("push", root, "--to", s.url, "--json", env={"LODE_TOKEN": t}).stdout)["already_there"] == 21


def test_a_file_or_folder_that_cannot_be_looked_at_is_an_error(server, tree, tmp_path):
    root, _ = tree
    s = server()
    deep = root / "/".join("d" * 258)
    deep.mkdir(parents=True)
    (deep / "x.debug").write_bytes((root / "large.debug").read_bytes())
    r = lode("push", root, "--to", s.url, ok=False)
    assert r.returncode == 1 and "21 stored" in r.stdout and "not searched: it is more than 256 folders deep" in r.stderr
    shutil.rmtree(root / "d")
    assert lode("push", root, "--to", s.url).returncode == 0
    faults = Faults(tmp_path / "faults", root)
    for call, part in (("list", ""), ("list", "sub"), ("read", "sub/3.debug"), ("open", "sub/3.debug")):
        faults.on([call], "EIO", part=part)
        r = lode("push", root, "--to", s.url, ok=False, env=faults.environment)
        faults.off()
        assert r.returncode == 1 and f"{root}{'/' + part if part else ''}: " in r.stderr and "Input/output error" in r.stderr, (call, part, r)


@pytest.fixture
def split(tmp_path):
    """A build folder with a program "prog" of two units, each with its .dwo file."""
    root = tmp_path / "split"
    root.mkdir()
    for name, text in (("a", "int b(void); int main(void) { return b(); }"), ("b", "int b(void) { return 0; }")):
        (root / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-g", "-gsplit-dwarf", "-c", f"{name}.c"], cwd=root, check=True)
    subprocess.run(["gcc", "-Wl,--build-id=sha1", "-o", "prog", "a.o", "b.o"], cwd=root, check=True)
    return root


def test_split_files_that_come_later_are_taken(server, split):
    s = server()
    (split / "b.dwo").rename(split / "away")

    def pushed(*args):
        objects = json.loads(lode("push", split / "prog", "--to", s.url, "--json", *args).stdout)["objects"]
        return [o["result"] for o in objects if o["kind"] == "sources"]

    assert pushed() == ["stored"]
    (split / "away").rename(split / "b.dwo")
    assert pushed() == ["stored"] and pushed() == ["same"]
    # With sources it is better, and stays.
    assert pushed("--sources") == ["stored"] and pushed() == ["better"]


def test_a_split_file_that_cannot_be_read_is_an_error(server, split, tmp_path):
    """Else the server would have a tar of the others, and status 0 says that it has all."""
    root = split
    dwp = shutil.copy(root / "a.dwo", root / "other.dwp")
    (root / "other").write_bytes((root / "prog").read_bytes())
    s = server()
    faults = Faults(tmp_path / "faults", root)
    for program, part in (("prog", "b.dwo"), ("other", dwp.name)):
        lode("push", root / program, "--to", s.url)
        for call in ("open", "read"):
            faults.on([call], "EIO", part=part)
            r = lode("push", root / program, "--to", s.url, "--json", ok=False, env=faults.environment)
            faults.off()
            assert r.returncode == 1 and f"{root}/{part}: " in r.stderr and "Input/output error" in r.stderr, (program, call, r)
            assert {o["kind"] for o in json.loads(r.stdout)["objects"]} == {"executable"}


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can be somebody else")
def test_a_folder_whose_files_may_not_be_looked_at_is_an_error(server, elf):
    s = server()
    env = {**os.environ, "LODE_TOKEN": token(s, "ci")}
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*other, "true"], capture_output=True).returncode != 0:
        pytest.skip("somebody else may run nothing here")
    top = pathlib.Path(tempfile.mkdtemp(prefix="lode-push-"))
    try:
        shutil.copy(LODE, top / "lode")
        root = top / "build"
        (root / "sub").mkdir(parents=True)
        for name in ("x.debug", "sub/y.debug"):
            (root / name).write_bytes(elf.of(elf.debug, new_id(name, 1)))
        (root / "sub").chmod(0o744)
        top.chmod(0o755)
        r = subprocess.run([*other, top / "lode", "push", root, "--to", s.url], capture_output=True, text=True, env=env, cwd="/", timeout=60)
        assert r.returncode == 1 and "1 stored" in r.stdout and f"{root}/sub/y.debug: Permission denied" in r.stderr, r
    finally:
        shutil.rmtree(top)


def test_lode_push_of_sources(server, tmp_path):
    src = tmp_path / "src" / ("deep/" * 30)
    src.mkdir(parents=True)
    (src / "a.c").write_text("#include \"a.h\"\nint main(void) { return A; }\n")
    (src / "a.h").write_text("#define A 0\nstruct a { int x; } a;\n")
    exe = tmp_path / "a"
    subprocess.run(["gcc", "-g", "-Wl,--build-id", "-o", str(exe), str(src / "a.c")], check=True, cwd=src)
    s = server()
    r = json.loads(lode("push", exe, "--sources", "--to", s.url, "--json").stdout)
    assert sorted(o["kind"] for o in r["objects"]) == ["executable", "sources"] and r["stored"] == 2
    build_id = r["objects"][0]["build_id"]
    for name in ("a.c", "a.h"):
        assert fetch(s, f"/buildid/{build_id}/source{src / name}")[1] == (src / name).read_bytes()
    assert fetch(s, f"/buildid/{build_id}/debuginfo")[1] == exe.read_bytes()
    # The same sources make the same tar.
    assert json.loads(lode("push", exe, "--sources", "--to", s.url, "--json").stdout)["already_there"] == 2


class Cutter(threading.Thread):
    """A proxy that cuts each connection after a number of bytes from a list; after the last one it cuts no more."""

    def __init__(self, port, budgets):
        super().__init__(daemon=True)
        self.to, self.budgets, self.n_cut, self.starts = port, list(budgets), 0, []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                a, _ = self.listener.accept()
            except OSError:
                return
            try:
                b = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # the server was killed; its client asks again
                a.close()
                continue
            with self.lock:
                budget = self.budgets.pop(0) if self.budgets else None
            threading.Thread(target=self.pump, args=(a, b, budget), daemon=True).start()
            threading.Thread(target=self.pump, args=(b, a, None), daemon=True).start()

    def pump(self, a, b, budget):
        try:
            while piece := a.recv(65536):
                self.starts += [int(n) for n in re.findall(rb"Content-Range: bytes ([0-9]+)-", piece)]
                if budget is not None:
                    budget -= len(piece)
                    if budget < 0:
                        self.n_cut += 1
                        break
                b.sendall(piece)
        except OSError:
            pass
        for k in (a, b):
            try:
                k.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.mark.slow
def test_lode_push_goes_on_after_cuts(server, tree):
    root, made = tree
    s = server()
    cutter = Cutter(s.port, [1_000_000, 50_000, 700_000, 100, 900_000, 5_000])
    r = json.loads(lode("push", root, "--to", f"http://127.0.0.1:{cutter.port}", "--json").stdout)
    assert (r["stored"] + r["already_there"], r["failed"]) == (21, 0), r
    assert cutter.n_cut > 0
    for k, content in made.items():
        assert fetch(s, f"/buildid/{k}/debuginfo") == (200, content, True)
    sound(s)


def test_lode_push_outlives_a_server_that_is_killed(server, serve, tree):
    root, made = tree
    s = server()
    p = subprocess.Popen([LODE, "push", str(root), "--to", s.url, "--json"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.02)
    s.proc.kill()
    s.proc.wait()
    again = subprocess.Popen([LODE, "serve", "--listen", f"127.0.0.1:{s.port}", "--data", str(s.data), "--no-upstream",
                              "--no-packages", str(root.parent / "empty")], stdout=s.log, stderr=s.log)
    s.proc = again
    out, _ = p.communicate(timeout=120)
    r = json.loads(out)
    assert p.returncode == 0 and r["failed"] == 0, r
    # On a fast machine all may have been sent before the kill.
    s.ready()
    for k, content in made.items():
        assert fetch(s, f"/buildid/{k}/debuginfo") == (200, content, True)
    sound(s)


def test_lode_push_goes_on_behind_a_server_that_was_killed(server, elf, tmp_path):
    (tmp_path / "large.debug").write_bytes(elf.large)
    s = server()
    cutter = Cutter(s.port, [2_500_000])
    p = subprocess.Popen([LODE, "push", str(tmp_path / "large.debug"), "--to", f"http://127.0.0.1:{cutter.port}", "--json"],
                         stdout=subprocess.PIPE, text=True)
    s.wait(lambda: cutter.n_cut and list((s.data / "store/tmp").glob("note-*")), "the cut, and something of it to be kept")
    s.proc.kill()
    s.proc.wait()
    s.proc = subprocess.Popen([LODE, "serve", "--listen", f"127.0.0.1:{s.port}", "--data", str(s.data), "--no-upstream",
                               "--no-packages", str(tmp_path / "empty")], stdout=s.log, stderr=s.log)
    out, _ = p.communicate(timeout=120)
    r = json.loads(out)
    assert p.returncode == 0 and (r["stored"], r["failed"]) == (1, 0), r
    assert cutter.starts and cutter.starts[0] >= 1 << 20, cutter.starts
    assert fetch(s, f"/buildid/{elf.id}/debuginfo") == (200, elf.large, True)
    sound(s)


class Greedy(Answerer):
    """A server that wants the first bytes again after each part."""

    def do_POST(self):
        objects = json.loads(self.body())["objects"]
        self.answer(200, json.dumps({"objects": [{"want": True, "offset": 0} for _ in objects]}).encode())

    def do_PUT(self):
        self.body()
        self.server.parts += 1
        self.send_response(202)
        self.send_header("X-LODE-RESULT", "partial")
        self.send_header("X-LODE-OFFSET", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()


def fails_with(answerer, elf, tmp_path, message):
    """A push to this server fails after one retry, with this message."""
    (tmp_path / "x.debug").write_bytes(elf.debug)
    with Taker(answerer) as server:
        server.parts = 0
        r = lode("push", tmp_path / "x.debug", "--to", server.url, "--retries", "1", ok=False, timeout=30)
        assert r.returncode == 1 and message in r.stderr, r.stderr
        assert server.parts == 2


def test_lode_push_does_not_send_the_same_bytes_for_ever(elf, tmp_path):
    fails_with(Greedy, elf, tmp_path, "did not take all of a part")


class Firewall(Greedy):
    """It lets small requests through, and answers each file with a page."""

    status = 200

    def do_PUT(self):
        self.body()
        self.server.parts += 1
        self.answer(self.status, b"<html>The requested URL was rejected.</html>")


class Creator(Firewall):
    status = 201


@pytest.mark.parametrize("answerer", [Firewall, Creator])
def test_a_page_does_not_say_that_the_file_is_there(elf, tmp_path, answerer):
    fails_with(answerer, elf, tmp_path, f"an answer ({answerer.status}) that is not of a lode server")


class Unsatisfied(Answerer):
    """It never has all of what was sent to its bucket."""

    def do_POST(self):
        body, path = self.body(), self.path
        if path == "/push/want":
            self.answer(200, b'{"objects": [{"want": true, "signed": true, "offset": 0}]}')
        elif path == "/push/signed":
            self.server.announced += 1
            size = json.loads(body)["objects"][0]["size"]
            self.answer(200, json.dumps({"upload": "ab", "part_size": size, "urls": [f"{self.server.url}/bucket"]}).encode())
        else:
            self.send_response(202)
            self.send_header("X-LODE-OFFSET", "5")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def do_PUT(self):
        self.body()
        self.send_response(200 if self.path == "/bucket" else 201)
        self.send_header("X-LODE-RESULT", "new")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_DELETE(self):
        self.answer(200, b"")


def test_a_file_is_sent_to_the_bucket_once(elf, tmp_path):
    (tmp_path / "x.debug").write_bytes(elf.debug)
    with Taker(Unsatisfied) as server:
        server.announced = 0
        r = lode("push", tmp_path / "x.debug", "--to", server.url, "--json", timeout=30)
        assert json.loads(r.stdout)["stored"] == 1 and server.announced == 1


class Refuser(Answerer):
    """Its answer to each file is that of the server."""

    def do_POST(self):
        objects = json.loads(self.body())["objects"]
        self.answer(200, json.dumps({"objects": [self.server.one for _ in objects]}).encode())


@pytest.mark.parametrize("one,message", [
    ({"want": False, "why": "a new reason"}, "the server does not take it: a new reason"),
    ({"want": False}, "the server does not take it: ?"),
    ({}, "not a lode server"),
    (None, "not a lode server"),
])
def test_a_file_is_there_only_if_the_server_says_so(elf, tmp_path, one, message):
    (tmp_path / "x.debug").write_bytes(elf.debug)
    with Taker(Refuser) as server:
        server.one = one
        r = lode("push", tmp_path / "x.debug", "--to", server.url, ok=False, timeout=30)
        assert r.returncode == 1 and message in r.stderr, r


@pytest.mark.slow
def test_memory_stays_small(server, tmp_path, elf):
    s = server()
    root = tmp_path / "big"
    root.mkdir()
    noise = tmp_path / "noise"
    rng = random.Random(3)
    block = rng.randbytes(1 << 20)
    noise.write_bytes(block * 40)
    debug = tmp_path / "x.debug"
    debug.write_bytes(elf.debug)
    subprocess.run(["objcopy", "--add-section", f".noise={noise}", str(debug)], check=True)
    big = debug.read_bytes()
    for i in range(4):
        (root / f"{i}.debug").write_bytes(elf.of(big, new_id("big", i)))
    r = json.loads(lode("push", root, "--to", s.url, "--json").stdout)
    assert r["stored"] == 4
    assert peak_mib(s) < 128  # generous, for builds with sanitizers; bench/push.py measures it
