# SPDX-License-Identifier: Apache-2.0
"""Pushing: what is kept was checked and is whole, whatever happens on the way; what is refused is refused with a sentence."""

import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tarfile
import threading
import time

import pytest

from conftest import LODE, Program, free_port
from making import elf, fetch, healthy, new_id, peak_mib, tar_of

NOISE = 2_000_000


def put(s, path, body, headers=None, method="PUT"):
    """Status, X-LODE headers, text. What is refused early may be told before all of the body was read."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    try:
        c.putrequest(method, path)
        for k, v in {"Content-Length": str(len(body)), **(headers or {})}.items():
            if v is not None:
                c.putheader(k, v)
        c.endheaders()
        try:
            c.send(body)
        except ConnectionError:
            pass
        r = c.getresponse()
        return r.status, r.headers, r.read().decode()
    finally:
        c.close()


def sha(b):
    return hashlib.sha256(b).hexdigest()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def want(s, *objects, headers=None):
    body = json.dumps({"objects": objects}).encode()
    status, _, text = put(s, "/push/want", body, headers, "POST")
    assert status == 200, text
    return json.loads(text)["objects"]


def one(build_id, content, kind="debuginfo", quality="dwarf"):
    return {"id": build_id, "kind": kind, "size": len(content), "sha256": sha(content), "quality": quality}


def lode(*args, ok=True, env=None, timeout=120):
    e = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    r = subprocess.run([LODE, *map(str, args)], capture_output=True, text=True, timeout=timeout, env={**e, **(env or {})})
    assert not ok or r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return r


def token(s, name, scope="push"):
    t = lode("token", "add", name, "--scope", scope, "--data", s.data).stdout.strip()
    s.wait(lambda: put(s, "/push/want", b"{}", None, "POST")[0] == 401 and
           put(s, "/push/want", b"{}", bearer(t), "POST")[0] != 401, "the token to be seen")
    return t


def listed(s):
    return {o["key"]: o for o in json.loads(lode("store", "ls", "--json", "--data", s.data).stdout)}


def sound(s):
    """Nothing wrong is kept, and nothing is left behind."""
    r = json.loads(lode("store", "verify", "--json", "--data", s.data).stdout)
    assert r["bad"] == [], r
    for key in listed(s):
        status, body, whole = fetch(s, f"/buildid/{key}") if "sources" not in key else (200, b"", True)
        assert status == 200 and whole, key
    return r


@pytest.fixture
def server(serve, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()

    def start(args=(), data=None, **more):
        return serve([empty], data=data, args=["--no-packages", *args], **more).ready()

    return start


# ---- what is taken, what is refused ----

def test_what_is_pushed_is_served_and_who_did_is_known(server, elf):
    s = server()
    for what, kind in ((elf.debug, "debuginfo"), (elf.program, "executable")):
        status, headers, text = put(s, f"/buildid/{elf.id}/{kind}", what, {"X-LODE-FILE": "a%20name"})
        assert (status, headers["X-LODE-RESULT"]) == (201, "stored"), text
        assert fetch(s, f"/buildid/{elf.id}/{kind}") == (200, what, True)
        status, headers, _ = put(s, f"/buildid/{elf.id}/{kind}", what, {"X-LODE-SHA256": sha(what)})
        assert (status, headers["X-LODE-RESULT"]) == (200, "same")
        status, headers, _ = put(s, f"/buildid/{elf.id}/{kind}", what)
        assert (status, headers["X-LODE-RESULT"]) == (200, "same")
    status, body, _ = fetch(s, f"/buildid/{elf.id}/section/.debug_str")
    assert status == 200 and body in elf.debug
    o = listed(s)[f"{elf.id}/debuginfo"]
    assert (o["from"], o["address"], o["file"], o["quality"], o["origin"]) == ("loopback", "127.0.0.1", "a name", "dwarf", "pushed")
    r = s.get(f"/buildid/{elf.id}/debuginfo", headers={"Range": "bytes=10-19"})
    assert (r.status, r.body) == (206, elf.debug[10:20])
    sound(s)


@pytest.mark.parametrize("body,kind,says", [
    (b"hello, world\n" * 100, "debuginfo", "not an ELF file"),
    ("other", "debuginfo", "its build ID is"),
    ("program", "debuginfo", "neither debug information nor a symbol table"),
    ("debug", "executable", "push it as debuginfo"),
    ("cut", "debuginfo", "damaged"),
    (b"not a tar" * 300, "sources", "tar"),
    ("gzip", "sources", "compressed tar"),
    ("dots", "sources", "'..'"),
    ("link", "sources", "a link"),
    ("none", "sources", "no file"),
])
def test_what_is_not_what_it_says_is_refused(server, elf, tmp_path, body, kind, says):
    s = server()
    if body == "program":
        p = tmp_path / "stripped"
        p.write_bytes(elf.program)
        subprocess.run(["strip", "-s", str(p)], check=True)
        body = p.read_bytes()
    elif isinstance(body, str):
        body = {"other": elf.of(elf.debug, new_id("other")), "debug": elf.debug, "cut": elf.debug[:len(elf.debug) // 2],
                "gzip": b"\x1f\x8b\x08" + bytes(1000), "dots": tar_of([("usr/src/../../etc/passwd", b"root")]),
                "link": tar_of([("usr/src/x.c", tarfile.SYMTYPE, "/etc/passwd")]), "none": bytes(10240)}[body]
    status, _, text = put(s, f"/buildid/{elf.id}/{kind}", body)
    assert status == 422 and says in text and text.endswith("\n") and text.count("\n") == 1, (status, text)
    assert listed(s) == {}
    assert os.listdir(s.data / "store/tmp") == []
    healthy(s)


def metadata(s, key, value):
    r = s.get(f"/metadata?key={key}&value={value}")
    assert r.status == 200
    r = json.loads(r.body)
    assert r["complete"] is True
    return sorted((x["buildid"], x["type"], x["file"]) for x in r["results"])


def test_metadata_know_what_was_pushed(server, elf, tmp_path):
    s = server()
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/app").write_bytes(elf.program)
    lode("push", root, "--to", s.url)
    put(s, f"/buildid/{elf.id}/debuginfo", elf.debug, {"X-LODE-FILE": "app.debug"})
    program, debug = (elf.id, "executable", "/usr/bin/app"), (elf.id, "debuginfo", "/app.debug")
    s.wait(lambda: json.loads(s.get("/metadata?key=file&value=/x").body)["complete"], "the store to be counted")
    for _ in range(2):
        assert metadata(s, "buildid", elf.id) == [debug, program]
        assert metadata(s, "file", "/usr/bin/app") == [program] and metadata(s, "file", "/app.debug") == [debug]
        assert metadata(s, "glob", "/usr/*/a?p") == [program] and metadata(s, "glob", "/app*") == [debug]
        assert metadata(s, "glob", "/*/app*") == [] and metadata(s, "file", "/app") == []
        assert s.get(f"/buildid/{elf.id}/executable").headers["X-DEBUGINFOD-FILE"] == "app"
        s.stop()
        s = server(data=s.data)
        s.wait(lambda: json.loads(s.get("/metadata?key=file&value=/x").body)["complete"], "the store to be counted")
    # Another process' doing is seen at once where it takes something away.
    lode("store", "rm", f"{elf.id}/debuginfo", "--data", s.data)
    assert metadata(s, "buildid", elf.id) == [program] and metadata(s, "glob", "/app*") == []


def test_sources_are_served_out_of_their_tar(server, elf):
    s = server()
    tar = tar_of([("usr/src/hello.c", b"int main;\n"), ("usr/src/" + "long/" * 60 + "x.h", b"x"), ("./usr/src/dot.c", b"dot")])
    assert put(s, f"/buildid/{elf.id}/sources", tar)[0] == 201
    assert fetch(s, f"/buildid/{elf.id}/source/usr/src/hello.c") == (200, b"int main;\n", True)
    assert fetch(s, f"/buildid/{elf.id}/source/usr/src/" + "long/" * 60 + "x.h")[1] == b"x"
    assert fetch(s, f"/buildid/{elf.id}/source/usr/src/dot.c")[1] == b"dot"
    assert fetch(s, f"/buildid/{elf.id}/source/usr/src/other.c")[0] == 404
    assert fetch(s, f"/buildid/{elf.id}/source/../../etc/passwd")[0] == 404


def test_the_better_one_stays(server, elf, tmp_path):
    s = server()
    debug = tmp_path / "x.debug"
    debug.write_bytes(elf.debug)
    poorer = tmp_path / "poorer.debug"
    subprocess.run(["objcopy", "--strip-debug", str(debug), str(poorer)], check=True)
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, poorer.read_bytes())[0] == 201
    assert want(s, one(elf.id, elf.debug)) == [{"want": True, "offset": 0}]
    assert put(s, path, elf.debug)[0] == 201
    status, headers, text = put(s, path, poorer.read_bytes())
    assert (status, headers["X-LODE-RESULT"]) == (200, "kept") and "better" in text
    assert want(s, one(elf.id, poorer.read_bytes(), quality="symtab")) == [{"want": False, "why": "better"}]
    assert fetch(s, path)[1] == elf.debug
    sound(s)


def test_sizes(server, elf):
    s = server(["--max-push", "20000"])
    path = f"/buildid/{elf.id}/debuginfo"
    status, _, text = put(s, path, bytes(20001))
    assert status == 413 and "20000" in text and "--max-push" in text
    assert put(s, path, b"", {"Content-Length": None, "Transfer-Encoding": "chunked"})[0] == 411
    assert put(s, path, b"")[0] == 422
    assert put(s, path, b"x", {"Content-Range": "bytes 5-4/9"})[0] == 400
    assert put(s, path, b"x", {"Content-Range": "bytes 0-1/9"})[0] == 400
    assert put(s, path, b"xx", {"Content-Range": "bytes 0-1/9"})[0] == 400
    assert put(s, path, b"xx", {"X-LODE-SHA256": "12"})[0] == 400
    assert put(s, "/buildid/abc/debuginfo", b"x")[0] == 400
    assert put(s, f"/buildid/{elf.id}/section/x", b"x")[0] == 405
    assert put(s, f"/buildid/{elf.id}/debuginfo/x", b"x")[0] == 404
    assert put(s, "/elsewhere", b"x")[0] == 405
    assert want(s, one(elf.id, bytes(20001))) == [{"want": False, "why": "too large"}]
    for body in (b"", b"{", b"[]", b'{"objects": 5}', b'{"objects": [{}]}', b'{"objects": [{"id": "xx"}]}'):
        assert put(s, "/push/want", body, method="POST")[0] == 400
    healthy(s)


# ---- who may ----

def test_tokens(server, elf):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    push = token(s, "ci")
    reader, admin = token(s, "reader", "read"), token(s, "ops", "admin")
    assert oct((s.data / "tokens").stat().st_mode & 0o777) == "0o600"
    assert push not in (s.data / "tokens").read_text()
    status, headers, text = put(s, path, elf.debug)
    assert status == 401 and "Bearer" in headers["WWW-Authenticate"] and "lode token" in text
    assert put(s, path, elf.debug, bearer("lode_" + "0" * 64))[0] == 401
    assert put(s, path, elf.debug, {"Authorization": "Basic eDp5"})[0] == 401
    status, _, text = put(s, path, elf.debug, bearer(reader))
    assert status == 403 and "push" in text
    assert put(s, path, elf.debug, bearer(push))[0] == 201
    assert listed(s)[f"{elf.id}/debuginfo"]["from"] == "ci"
    assert put(s, path, b"", bearer(push), "DELETE")[0] == 403
    assert fetch(s, path)[0] == 200
    assert put(s, path, b"", bearer(admin), "DELETE")[0] == 200
    assert put(s, path, b"", bearer(admin), "DELETE")[0] == 404
    s.wait(lambda: fetch(s, path)[0] == 404, "the removed one to be gone")
    lode("token", "rm", "ci", "--data", s.data)
    s.wait(lambda: put(s, path, elf.debug, bearer(push))[0] == 401, "the removed token to be unknown")
    assert lode("token", "add", "ops", "--data", s.data, ok=False).returncode == 1
    assert [t["name"] for t in json.loads(lode("token", "ls", "--json", "--data", s.data).stdout)] == ["reader", "ops"]


def test_without_a_token_only_this_machine_may_push(server, elf):
    s = server()
    status, _, text = put(s, f"/buildid/{elf.id}/debuginfo", elf.debug, {"X-Forwarded-For": "192.0.2.1"})
    assert status == 403 and "lode token add" in text
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)[0] == 201


def test_a_file_of_tokens_that_cannot_be_read_lets_nobody_in(server, elf):
    s = server()
    (s.data / "tokens").write_text("nonsense\n")
    s.wait(lambda: put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)[0] == 401, "the door to be shut")


def test_reading_may_need_a_token(server, elf):
    s = server(["--require-read-token"])
    assert s.get("/healthz").status == 200
    r = s.get(f"/buildid/{elf.id}/debuginfo")
    assert r.status == 401 and "Bearer" in r.headers["WWW-Authenticate"]
    reader, push = token(s, "r", "read"), token(s, "p")
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug, bearer(push))[0] == 201
    for t in (reader, push):
        assert s.get(f"/buildid/{elf.id}/debuginfo", headers=bearer(t)).body == elf.debug
    assert s.get("/metrics").status == 401


# ---- at once, cut, killed ----

def test_many_push_the_same_at_once(server, elf):
    s = server()
    path, how = f"/buildid/{elf.id}/debuginfo", [{}, {"X-LODE-SHA256": sha(elf.large)}]
    with concurrent.futures.ThreadPoolExecutor(25) as pool:
        done = list(pool.map(lambda i: put(s, path, elf.large, how[i % 2])[:2], range(25)))
    assert all(status in (200, 201) for status, _ in done), done
    assert [h["X-LODE-RESULT"] for _, h in done].count("stored") == 1
    assert fetch(s, path) == (200, elf.large, True)
    assert sound(s)["objects"] == 1
    assert os.listdir(s.data / "store/tmp") == []


def send_part(s, path, content, first, last, cut=None, headers=None):
    """The part [first, last] of it; with @cut only so many bytes of it come, and then the connection ends."""
    part = content[first:last + 1]
    head = {"X-LODE-SHA256": sha(content), "Content-Range": f"bytes {first}-{last}/{len(content)}", **(headers or {})}
    if cut is None:
        return put(s, path, part, head)
    with socket.create_connection(("127.0.0.1", s.port)) as k:
        lines = [f"PUT {path} HTTP/1.1", "Host: x", f"Content-Length: {len(part)}", *(f"{a}: {b}" for a, b in head.items())]
        k.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + part[:cut])
    return None


def test_an_upload_goes_on_where_it_was_cut(server, elf):
    s = server()
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    asked = one(elf.id, elf.large)
    rng, off, cuts = random.Random(5), 0, 0
    while off < n:
        if cuts < 5:
            send_part(s, path, elf.large, off, n - 1, cut=min(rng.randrange(300_000, 500_000), n - off - 1))
            cuts += 1
            # What was sent has 256 KiB at least; it may not even have been looked at yet.
            s.wait(lambda: want(s, asked)[0].get("offset", 0) > off, "the cut to be noticed")
            off = want(s, asked)[0]["offset"]
            assert fetch(s, path)[0] == 404
        else:
            status, headers, text = send_part(s, path, elf.large, off, n - 1)
            assert status == 201, text
            break
    assert off > 0
    assert fetch(s, path) == (200, elf.large, True)
    assert os.listdir(s.data / "store/tmp") == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_upload_outlives_the_server(server, elf, how):
    s = server()
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    asked = one(elf.id, elf.large)
    send_part(s, path, elf.large, 0, n - 1, cut=n // 2)
    s.wait(lambda: not want(s, asked)[0].get("busy"), "the cut to be noticed")
    before = want(s, asked)[0]["offset"]
    s.proc.send_signal(how)
    s.proc.wait(30)
    s = server(data=s.data)
    off = want(s, asked)[0]["offset"]
    assert 0 < off <= before and (how == signal.SIGKILL or off + (256 << 10) > before), (off, before)
    assert fetch(s, path)[0] == 404
    # It is this one's alone: not of who sends other bytes, nor of who sends them under another name.
    assert want(s, one(elf.id, elf.large[:-1]))[0]["offset"] == 0
    assert want(s, one(new_id("other"), elf.large))[0]["offset"] == 0
    status, headers, _ = send_part(s, path, elf.large, off + 1, n - 1)
    assert (status, headers["X-LODE-OFFSET"]) == (409, str(off))
    status, _, text = send_part(s, path, elf.large, off, n - 1)
    assert status == 201, text
    assert fetch(s, path) == (200, elf.large, True)
    assert os.listdir(s.data / "store/tmp") == []
    sound(s)


def test_what_a_crash_of_the_machine_took_is_sent_again(server, elf):
    s = server()
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    asked = one(elf.id, elf.large)
    send_part(s, path, elf.large, 0, n - 1, cut=n * 3 // 4)
    s.wait(lambda: not want(s, asked)[0].get("busy"), "the cut to be noticed")
    s.stop()
    part = next((s.data / "store/tmp").glob("part-*"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2:] = bytes(len(content) - len(content) // 2)
    part.write_bytes(content)
    s = server(data=s.data)
    off = want(s, asked)[0]["offset"]
    status, headers, text = send_part(s, path, elf.large, off, n - 1)
    assert status == 409 and 0 < int(headers["X-LODE-OFFSET"]) < off and "crash" in text
    off = int(headers["X-LODE-OFFSET"])
    assert want(s, asked)[0]["offset"] == off
    assert send_part(s, path, elf.large, off, n - 1)[0] == 201
    assert fetch(s, path) == (200, elf.large, True)
    sound(s)


def test_who_falls_silent_in_a_body_is_let_go(server, elf):
    s = server(["--idle-timeout", "3"])
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    head = (f"PUT {path} HTTP/1.1\r\nHost: x\r\nX-LODE-SHA256: {sha(elf.large)}\r\nContent-Length: {n}\r\n\r\n").encode()
    silent = []
    for sent in (b"", elf.large[:1], elf.large[:2_000_000]):
        k = socket.create_connection(("127.0.0.1", s.port), timeout=60)
        k.sendall(head.replace(sha(elf.large).encode(), sha(sent).encode()) + sent)
        silent.append(k)
    # More of them than there may be uploads at once: that is a 503 for others, and not for long.
    for i in range(70):
        k = socket.create_connection(("127.0.0.1", s.port), timeout=60)
        k.sendall(head.replace(sha(elf.large).encode(), sha(b"%d" % i).encode()) + elf.large[:100])
        silent.append(k)
    for k in silent:
        try:
            while k.recv(65536):
                pass
        except ConnectionError:
            pass
        k.close()
    s.wait(lambda: s.metric("lode_uploads") == 0, "all of them to be gone")
    # What had come waits for the rest; and somebody slow, who says something now and then, is waited for.
    left = {"id": elf.id, "kind": "debuginfo", "size": n, "sha256": sha(elf.large[:2_000_000]), "quality": "dwarf"}
    assert 2_000_000 - (256 << 10) <= want(s, left)[0]["offset"] <= 2_000_000
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as k:
        k.sendall(head.replace(str(n).encode(), str(len(elf.debug)).encode()).replace(sha(elf.large).encode(), sha(elf.debug).encode()))
        step = len(elf.debug) // 8
        for at in range(0, len(elf.debug), step):
            k.sendall(elf.debug[at:at + step])
            time.sleep(0.5)
        assert b"201 Created" in k.recv(65536)
    assert fetch(s, path) == (200, elf.debug, True)


def test_parts(server, elf):
    s = server()
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    status, headers, _ = send_part(s, path, elf.large, 500_000, n - 1)
    assert (status, headers["X-LODE-OFFSET"]) == (409, "0")
    status, headers, _ = send_part(s, path, elf.large, 0, 999_999)
    assert (status, headers["X-LODE-OFFSET"]) == (202, "1000000")
    status, headers, _ = send_part(s, path, elf.large, 0, 499_999)
    assert (status, headers["X-LODE-OFFSET"]) == (202, "500000")
    status, headers, _ = send_part(s, path, elf.large, 500_001, 600_000)
    assert (status, headers["X-LODE-OFFSET"]) == (409, "500000")
    assert send_part(s, path, elf.large, 500_000, n - 1)[0] == 201
    assert fetch(s, path) == (200, elf.large, True)
    # Of other bytes than were announced nothing is kept.
    other = elf.of(elf.large, new_id("lies"))
    lie = {"X-LODE-SHA256": sha(elf.large)}
    status, _, text = put(s, f"/buildid/{new_id('lies')}/debuginfo", other, lie)
    assert status == 422 and "SHA-256" in text
    assert list(listed(s)) == [f"{elf.id}/debuginfo"]


def test_killed_at_any_time_nothing_half_is_there(server, elf, tmp_path):
    data = tmp_path / "data"
    ids = [new_id("kill", i) for i in range(6)]
    files = {i: elf.of(elf.large[:], i) for i in ids}
    acknowledged, rng = set(), random.Random(7)

    def push(s, build_id):
        try:
            if put(s, f"/buildid/{build_id}/debuginfo", files[build_id])[0] in (200, 201):
                acknowledged.add(build_id)
        except (OSError, http.client.HTTPException):
            pass

    for i in range(50):
        s = server(data=data)
        for build_id in acknowledged:
            assert fetch(s, f"/buildid/{build_id}/debuginfo", {"Range": "bytes=0-99"})[1] == files[build_id][:100]
        if len(acknowledged) == len(ids):
            acknowledged.clear()
            lode("store", "rm", *(f"{k}/debuginfo" for k in ids), "--data", data)
        todo = [k for k in ids if k not in acknowledged][:2]
        threads = [threading.Thread(target=push, args=(s, k)) for k in todo]
        for t in threads:
            t.start()
        time.sleep(rng.random() * 0.15)
        s.proc.kill()
        s.proc.wait()
        for t in threads:
            t.join()
    s = server(data=data)
    for build_id in ids:
        status, body, whole = fetch(s, f"/buildid/{build_id}/debuginfo")
        assert (status, body, whole) == (200, files[build_id], True) if build_id in acknowledged else \
            status == 404 or (body, whole) == (files[build_id], True)
    assert os.listdir(data / "store/tmp") == [] or json.loads(lode("store", "gc", "--json", "--data", data).stdout)
    assert os.listdir(data / "store/tmp") == []
    sound(s)


# ---- room ----

def test_a_quota(server, elf):
    files = {k: elf.of(elf.large, k) for k in (new_id("quota", i) for i in range(4))}
    s = server(["--store-quota", "7000000", "--store-keep-pushed"])
    codes = [put(s, f"/buildid/{k}/debuginfo", f)[::2] for k, f in files.items()]
    assert [c for c, _ in codes] == [201, 201, 507, 507], codes
    assert "quota" in codes[2][1]
    assert len(sound(s)) and len(listed(s)) == 2
    s.stop()
    s = server(["--store-quota", "7000000"], data=s.data)
    last = list(files)[-1]
    s.wait(lambda: put(s, f"/buildid/{last}/debuginfo", files[last])[0] == 201, "older ones to be old enough to go")
    assert len(listed(s)) == 2 and f"{last}/debuginfo" in listed(s)
    sound(s)


def test_a_full_disk(server, elf, tmp_path):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    subprocess.run(["prlimit", "--pid", str(s.proc.pid), "--fsize=1000000:"], check=True)
    status, _, text = put(s, path, elf.large)
    assert status == 507 and "room" in text
    status, _, text = put(s, path, elf.debug)
    assert status == 201
    subprocess.run(["prlimit", "--pid", str(s.proc.pid), "--fsize=unlimited"], check=True)
    assert put(s, path, elf.large)[0] == 201
    assert fetch(s, path) == (200, elf.large, True)
    assert os.listdir(s.data / "store/tmp") == []
    sound(s)


def test_what_rots_is_found(server, elf):
    s = server()
    put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    name = next((s.data / "store/data").glob("*/*.zst"))
    rotten = bytearray(name.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    name.write_bytes(rotten)
    r = lode("store", "verify", "--data", s.data, ok=False)
    assert r.returncode == 1 and elf.id in r.stderr
    assert fetch(s, f"/buildid/{elf.id}/debuginfo")[0] in (200, 500)
    assert lode("store", "verify", "--remove", "--data", s.data, ok=False).returncode == 1
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)[0] == 201
    sound(s)


# ---- lode push ----

@pytest.fixture
def tree(tmp_path, elf):
    """A build folder: programs, debug files, a large one, and what is none of these."""
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
    """The server gathers 256 KiB at a time: a file may end anywhere behind that, and all of it may be there before that is written."""
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
    """Between client and server: lets so many bytes of each connection through, then cuts it; a list, then no more cuts."""

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
            b = socket.create_connection(("127.0.0.1", self.to))
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
    assert peak_mib(s) < 128  # with sanitizers in mind; bench/push.py measures it
