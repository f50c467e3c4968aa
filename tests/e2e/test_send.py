# SPDX-License-Identifier: Apache-2.0
"""lode send: the profiles that a server receives from several formats; refused profiles; perf.data."""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.parse

import pytest

from conftest import LODE, build_id, free_port
from profiling import Answerer, Taker, number

FOLDED = "main;f;g 12\nmain;f 3\n"
MAPS = "MAPPED_LIBRARIES:\n{:x}-{:x} r-xp {:08x} 00:00 1 {}\n"


class Server(Taker):
    """Accepts profiles, or sends the next of `answers`."""

    def __init__(self):
        super().__init__(Handler)
        self.got, self.answers = [], []


class Handler(Answerer):
    def do_POST(self):
        self.server.got.append((self.path, self.headers, self.body()))
        status, answer = self.server.answers.pop(0) if self.server.answers else (
            200, {"profiles": 1, "samples": 2, "id": len(self.server.got), "duplicate": False})
        self.answer(status, answer if isinstance(answer, bytes) else json.dumps(answer).encode())


@pytest.fixture
def server():
    with Server() as s:
        yield s


@pytest.fixture
def send(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    env.update(HOME=str(tmp_path), DEBUGINFOD_URLS="")

    def go(*args, extra=None, **kw):
        return subprocess.run([LODE, "send", *map(str, args)], env={**env, **(extra or {})}, capture_output=True, timeout=120,
                              cwd=tmp_path, **kw)

    return go


def shown(tmp_path, body, *args):
    (tmp_path / "got.pb.gz").write_bytes(body)
    return subprocess.run([LODE, "profile", "--output-format", "folded", *args, "got.pb.gz"], cwd=tmp_path, capture_output=True,
                          check=True).stdout.decode()


def test_several_files_are_several_profiles(server, send, tmp_path):
    (tmp_path / "a.folded").write_text(FOLDED)
    (tmp_path / "b").write_text("goroutine profile: total 2\n2 @ 0x10 0x20\n#\t0xf\tmain.f+0x1\t/f.go:3\n")
    os.utime(tmp_path / "a.folded", (1700000000, 1700000000))
    r = send("a.folded", "b", "--to", server.url + "/", "--label", "service=a b&c", "--label", "host.name=x=y")
    assert r.returncode == 0 and r.stderr == b"", r
    assert r.stdout.decode().startswith("a.folded: 2 samples in 1 profiles")
    (path, headers, body), (_, _, second) = server.got
    path, query = path.split("?")
    assert path == "/profiles" and urllib.parse.parse_qs(query) == {"service": ["a b&c"], "host.name": ["x=y"]}
    assert "Authorization" not in headers and body[:2] == b"\x1f\x8b"
    assert shown(tmp_path, body) == "main;f 3\nmain;f;g 12\n"
    assert shown(tmp_path, second) == "0x1f;main.f 2\n"
    # The file's time, in nanoseconds.
    assert number(9, 1700000000 * 10 ** 9) in gzip.decompress(body)


def test_build_ids_are_those_of_the_files(server, send, tmp_path):
    (tmp_path / "p.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-Wl,--build-id", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    text = "heap profile: 1: 10 [1: 10] @ heapprofile\n1: 10 [1: 10] @ 0x5010\n\n" + MAPS.format(0x5000, 0x6000, 0x1000, tmp_path / "p")
    text += "7000-8000 r-xp 00001000 00:00 1 /nowhere/else\n9000-a000 r-xp 00000000 00:00 0 [vdso]\n"
    r = send("-", "--to", server.url, "--json", input=text.encode())
    assert r.returncode == 0, r
    assert json.loads(r.stdout) == {"sent": 1, "failed": 0, "files": [
        {"file": "-", "result": "sent", "samples": 2, "profiles": 1, "id": 1, "bytes": len(server.got[0][2])}]}
    assert build_id(tmp_path / "p").encode() in gzip.decompress(server.got[0][2])


def test_what_the_server_says_is_told(server, send, tmp_path):
    (tmp_path / "a").write_text(FOLDED)
    server.answers = [(400, {"error": "label \x1b[31m: no"}), (200, {"duplicate": True, "profiles": 0, "samples": 0})]
    r = send("a", "a", "--to", server.url)
    assert r.returncode == 1
    assert r.stderr == b"lode: send: a: the server refused it: label ?[31m: no (400)\n"
    assert r.stdout.startswith(b"a: the server has it already\n")
    server.answers = [(404, b"no such page")]
    assert b"does not accept profiles" in send("a", "--to", server.url).stderr
    server.answers = [(200, b"<html>")]
    assert b"not a lode server" in send("a", "--to", server.url).stderr


def test_without_a_server_each_file_has_its_result(send, tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(FOLDED)
    r = send("a", "b", "c", "--to", "http://127.0.0.1:1", "--json")
    got = json.loads(r.stdout)
    assert r.returncode == 1 and (got["sent"], got["failed"]) == (0, 3)
    assert [(f["file"], f["result"]) for f in got["files"]] == [(name, "failed") for name in "abc"]
    assert "not sent" in got["files"][2]["why"] and r.stderr.count(b"\n") == 1


def test_what_may_pass_is_tried_again(server, send, tmp_path):
    (tmp_path / "a").write_text(FOLDED)
    server.answers = [(503, b"busy\n"), (429, b"slowly\n")]
    r = send("a", "--to", server.url)
    assert r.returncode == 0 and len(server.got) == 3
    assert server.got[0][2] == server.got[2][2]


def test_tokens_go_along(server, send, tmp_path):
    (tmp_path / "a").write_text(FOLDED)
    (tmp_path / "token").write_text("abc.def\n")
    assert send("a", "--to", server.url, "--token-file", "token").returncode == 0
    assert send("a", "--to", server.url, extra={"LODE_TOKEN": "ghi"}).returncode == 0
    # A variable that was filled from a file.
    assert send("a", "--to", server.url, extra={"LODE_TOKEN": "jkl\r\n"}).returncode == 0
    assert [h["Authorization"] for _, h, _ in server.got] == ["Bearer abc.def", "Bearer ghi", "Bearer jkl"]
    r = send("a", "--to", server.url, extra={"LODE_TOKEN": "mno\nX-Other: 1"})
    assert r.returncode == 1 and b"one token" in r.stderr and b"mno" not in r.stderr and len(server.got) == 3


def caught(pid):
    return int(re.search(r"^SigCgt:\s*(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1), 16)


def test_nothing_is_sent_after_a_signal(server, tmp_path):
    """Ctrl-C also ends the program that writes the profile: a part of it is no profile."""
    for _ in range(5):
        p = subprocess.Popen([LODE, "send", "-", "--to", server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not caught(p.pid) >> signal.SIGINT - 1 & 1:
            time.sleep(0.01)
        p.stdin.write(b"main;f 3\nmain;f;g 1")
        p.stdin.flush()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode == 1 and out == b"" and b"stopped" in err and server.got == [], (out, err)
    # The files after it have their result, too.
    (tmp_path / "a").write_text(FOLDED)
    p = subprocess.Popen([LODE, "send", "-", "a", "a", "--to", server.url, "--json"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not caught(p.pid) >> signal.SIGINT - 1 & 1:
        time.sleep(0.01)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(b"main;f 3\n", timeout=60)
    out = json.loads(out)
    assert (p.returncode, out["sent"], out["failed"], [f["file"] for f in out["files"]]) == (1, 0, 3, ["-", "a", "a"]), out
    assert b"stopped; 2 files were not sent" in err and server.got == [], err


def test_mistakes(server, send, tmp_path):
    (tmp_path / "a").write_text(FOLDED)
    (tmp_path / "bad").write_text("no numbers\n")
    for args, what in (
        (["a"], b"no server given"),
        (["a", "--to", "ftp://x"], b"not the URL of a server"),
        (["a", "--to", server.url, "--label", "9=x"], b"not NAME=VALUE"),
        (["a", "--to", server.url, "--label", "service"], b"not NAME=VALUE"),
        (["a", "--to", server.url, "--label", "time=1"], b"uses this name itself"),
        (["--to", server.url], b"no PROFILE given"),
    ):
        r = send(*args)
        assert r.returncode == 2 and what in r.stderr, r
    assert not server.got
    r = send("bad", "none", "a", "--to", server.url)
    assert r.returncode == 1 and len(server.got) == 1
    assert b"bad: line 1: is not a stack" in r.stderr and b"none: there is no such file" in r.stderr
    r = send("a", "a", "--to", f"http://127.0.0.1:{free_port()}")
    assert r.returncode == 1 and r.stderr.count(b"\n") == 1, r


def test_perf_data_needs_perf(server, send, tmp_path):
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(96))
    (tmp_path / "bin").mkdir()
    for args, kw in ((["perf.data"], {}), (["-"], {"input": b"PERFILE2" + bytes(96)})):
        r = send(*args, "--to", server.url, extra={"PATH": str(tmp_path / "bin")}, **kw)
        assert r.returncode == 1 and b"perf is not installed here" in r.stderr, r
    # A perf that cannot read the file, and says so.
    (tmp_path / "bin" / "perf").write_text("#!/bin/sh\necho incompatible file format >&2\nexit 255\n")
    (tmp_path / "bin" / "perf").chmod(0o755)
    r = send("perf.data", "--to", server.url, extra={"PATH": f"{tmp_path}/bin:/bin:/usr/bin"})
    assert b"perf.data: perf cannot read it: incompatible file format" in r.stderr, r


def test_perf_data(server, send, tmp_path):
    """A perf that prints a recorded script; build IDs come from its own list."""
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(96))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "perf").write_text(
        "#!/bin/sh\ncase $1 in\n"
        "script) printf 'busy 7 1.5: PERF_RECORD_MMAP2 7/7: [0x5000(0x1000) @ 0 00:00 1 1]: r-xp /nowhere/busy\\n"
        "busy 7 2.5: 100 cycles: \\n\\t5010 [unknown] (/nowhere/busy)\\n\\n';;\n"
        "buildid-list) echo 0123abcd /nowhere/busy;;\nesac\n")
    (tmp_path / "bin" / "perf").chmod(0o755)
    r = send("perf.data", "--to", server.url, extra={"PATH": f"{tmp_path}/bin:/bin:/usr/bin"})
    assert r.returncode == 0, r
    assert b"0123abcd" in gzip.decompress(server.got[0][2])
    assert shown(tmp_path, server.got[0][2]) == "busy+0x10 100\n"


@pytest.mark.skipif(not shutil.which("perf"), reason="there is no perf")
def test_perf_data_of_perf(server, send, tmp_path):
    r = subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "2000", "-o", "perf.data", "sh", "-c",
                        "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"], cwd=tmp_path, capture_output=True)
    if r.returncode:
        pytest.skip("perf record is not allowed here")
    assert send("perf.data", "--to", server.url).returncode == 0
    assert "sh" in shown(tmp_path, server.got[0][2], "--by", "binary")
