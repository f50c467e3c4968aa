# SPDX-License-Identifier: Apache-2.0
"""Pushing: stored objects are checked and complete, whatever happens on the way; a refusal has a sentence."""

import concurrent.futures
import http.client
import json
import os
import random
import signal
import socket
import struct
import subprocess
import tarfile
import threading
import time

import pytest

from conftest import LODE
from making import elf, fetch, healthy, new_id, tar_of
from pushing import bearer, listed, lode, one, put, server, settled, sha, sound, token, want


# ---- accepted and refused objects ----

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
    assert (o["from"], o["address"], o["file"], o["quality"], o["origin"]) == ("local", "127.0.0.1", "a name", "dwarf", "pushed")
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


def damaged_elf(n_sections, names=b"", section_zero=(0, 0, 0), n_segments=0):
    """A 64-bit ELF file with these section headers. @section_zero: size, link, info of the first one."""
    table = bytearray()
    for i in range(n_sections):
        size, link, info = section_zero if i == 0 else (len(names), 0, 0) if i == 1 else (0, 0, 0)
        table += struct.pack("<IIQQQQIIQQ", i % max(1, len(names)), 3 if i == 1 else 0, 0, 0, 64, size, link, info, 1, 0)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 64 + len(names), 0, 64, 56, n_segments, 64,
                       0 if section_zero[0] else n_sections, 1)
    return head + names + bytes(table)


@pytest.mark.parametrize("body,says", [
    (damaged_elf(60000, names=b"a" * 65536), "overlap"),
    (damaged_elf(2, section_zero=(1 << 21, 0, 0)), "number of sections"),
    (damaged_elf(2, section_zero=(2, 0, 70000), n_segments=0xffff), "70000 segments"),
], ids=["names", "sections", "segments"])
def test_a_file_over_a_limit_is_not_to_be_pushed_again(server, elf, body, says):
    s = server()
    status, headers, text = put(s, f"/buildid/{elf.id}/debuginfo", body)
    assert status == 422 and says in text and "later" not in text, (status, text)
    assert listed(s) == {}


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
    # A removal by another process takes effect at once.
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


def test_a_target_may_have_a_scheme_and_a_host(server, elf):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, "http://localhost" + path, elf.debug)[0] == 201
    assert fetch(s, path)[0] == 200
    status, _, text = put(s, "HTTPS://example.com:99/push/want", b'{"objects": []}', method="POST")
    assert status == 200 and json.loads(text) == {"objects": []}
    assert put(s, "http://localhost" + path, b"", method="DELETE")[0] == 200
    # An unknown path is refused before any of its body is read.
    assert put(s, "/elsewhere", b"x", {"Content-Length": "1000000000"})[0] == 404
    healthy(s)


def test_a_refusal_does_not_wait_for_the_body(server):
    """The reply comes before the body, and is not lost if the body comes all the same."""
    s = server()
    for head in ["Content-Length: 500000", "Content-Length: 500000000", "Transfer-Encoding: chunked"]:
        with socket.create_connection(("127.0.0.1", s.port), timeout=30) as k:
            started = time.monotonic()
            k.sendall(f"POST /elsewhere HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
            got = b""
            while piece := k.recv(65536):
                got += piece
            assert got.startswith(b"HTTP/1.1 404") and b"no such path" in got, (head, got)
            assert time.monotonic() - started < 1.5, head
    body = bytes(8 << 20)
    for _ in range(20):
        assert put(s, "/elsewhere", body)[0] == 404
    # A refused request without a body leaves its connection open.
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
    for _ in range(3):
        c.request("POST", "/elsewhere", headers={"Content-Length": "0"})
        r = c.getresponse()
        assert (r.status, r.will_close) == (404, False) and r.read()
    c.close()
    healthy(s)


def in_chunks(s, path, body, size=5000, headers=None, end=True):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    try:
        c.putrequest("PUT", path)
        for k, v in {"Transfer-Encoding": "chunked", **(headers or {})}.items():
            c.putheader(k, v)
        c.endheaders()
        try:
            for i in range(0, len(body), size):
                part = body[i:i + size]
                c.send(b"%x\r\n%s\r\n" % (len(part), part))
            if not end:
                return None
            c.send(b"0\r\n\r\n")
        except ConnectionError:
            pass
        r = c.getresponse()
        return r.status, r.headers["X-LODE-RESULT"], r.read().decode()
    finally:
        c.close()


def test_a_body_in_chunks_has_any_size_up_to_the_limit(server, elf):
    s = server(["--max-push", str(len(elf.debug) + 300000)])
    path = f"/buildid/{elf.id}/debuginfo"
    assert in_chunks(s, path, elf.debug[:-100], end=False) is None
    assert in_chunks(s, path, b"")[0] == 422
    assert in_chunks(s, path, b"x" * 100)[0] == 422
    assert in_chunks(s, path, elf.debug, headers={"X-LODE-SHA256": "0" * 64})[0] == 422
    status, _, text = in_chunks(s, path, elf.debug + bytes(400000), 70000)
    assert status == 413 and "--max-push" in text
    assert fetch(s, path)[0] == 404
    assert in_chunks(s, path, elf.debug, headers={"X-LODE-SHA256": sha(elf.debug)})[:2] == (201, "stored")
    assert fetch(s, path)[1] == elf.debug
    assert in_chunks(s, path, elf.debug, 37)[:2] == (200, "same")
    # A client that never ends is cut.
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        in_chunks(s, path, bytes(200 << 20), 1 << 20)
    sound(s)


def test_sizes(server, elf):
    s = server(["--max-push", "20000"])
    path = f"/buildid/{elf.id}/debuginfo"
    status, _, text = put(s, path, bytes(20001))
    assert status == 413 and "20000" in text and "--max-push" in text
    status, _, text = in_chunks(s, path, b"xx", headers={"Content-Range": "bytes 0-1/9"})
    assert status == 411 and "Content-Length" in text
    assert put(s, path, b"")[0] == 422
    assert put(s, path, b"x", {"Content-Range": "bytes 5-4/9"})[0] == 400
    assert put(s, path, b"x", {"Content-Range": "bytes 0-1/9"})[0] == 400
    assert put(s, path, b"xx", {"Content-Range": "bytes 0-1/9"})[0] == 400
    for body in (b"x", b"xxx"):
        status, _, text = put(s, path, body, {"Content-Range": "bytes 0-1/9", "X-LODE-SHA256": "0" * 64})
        assert status == 400 and "different sizes" in text
    assert put(s, path, b"xx", {"X-LODE-SHA256": "12"})[0] == 400
    assert put(s, "/buildid/abc/debuginfo", b"x")[0] == 400
    assert put(s, f"/buildid/{elf.id}/section/x", b"x")[0] == 405
    assert put(s, f"/buildid/{elf.id}/debuginfo/x", b"x")[0] == 404
    assert put(s, "/elsewhere", b"x")[0] == 404
    assert want(s, one(elf.id, bytes(20001))) == [{"want": False, "why": "too large"}]
    for body in (b"", b"{", b"[]", b'{"objects": 5}', b'{"objects": [{}]}', b'{"objects": [{"id": "xx"}]}'):
        assert put(s, "/push/want", body, method="POST")[0] == 400
    healthy(s)


# ---- access ----

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


# ---- parallel, cut and killed uploads ----

def nothing_is_staged(s):
    """The compressor, which begins after a second without pushes, has a staging file, too, and removes it last."""
    settled(s)
    s.wait(lambda: os.listdir(s.data / "store/tmp") == [], "staging files to be removed")


def test_many_push_the_same_at_once(server, elf):
    s = server()
    path, how = f"/buildid/{elf.id}/debuginfo", [{}, {"X-LODE-SHA256": sha(elf.large)}]
    with concurrent.futures.ThreadPoolExecutor(25) as pool:
        done = list(pool.map(lambda i: put(s, path, elf.large, how[i % 2])[:2], range(25)))
    assert all(status in (200, 201) for status, _ in done), done
    assert [h["X-LODE-RESULT"] for _, h in done].count("stored") == 1
    assert fetch(s, path) == (200, elf.large, True)
    assert sound(s)["objects"] == 1
    nothing_is_staged(s)


def send_part(s, path, content, first, last, cut=None, headers=None):
    """Send the part [first, last]; with @cut, only that many bytes of it, then close the connection."""
    part = content[first:last + 1]
    head = {"X-LODE-SHA256": sha(content), "Content-Range": f"bytes {first}-{last}/{len(content)}", **(headers or {})}
    if cut is None:
        return put(s, path, part, head)
    with socket.create_connection(("127.0.0.1", s.port)) as k:
        lines = [f"PUT {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(part)}", "Expect: 100-continue",
                 *(f"{a}: {b}" for a, b in head.items())]
        k.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        # The owner of a closed socket is unknown, so the request has to be accepted first.
        assert k.recv(4096).startswith(b"HTTP/1.1 100")
        k.sendall(part[:cut])
    return None


@pytest.mark.slow
def test_an_upload_goes_on_where_it_was_cut(server, elf):
    s = server()
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    asked = one(elf.id, elf.large)
    rng, off, cuts = random.Random(5), 0, 0
    while off < n:
        if cuts < 5:
            send_part(s, path, elf.large, off, n - 1, cut=min(rng.randrange(300_000, 500_000), n - off - 1))
            cuts += 1
            # At least 256 KiB were sent; the server may not have read them yet.
            s.wait(lambda: want(s, asked)[0].get("offset", 0) > off, "the cut to be noticed")
            off = want(s, asked)[0]["offset"]
            assert fetch(s, path)[0] == 404
        else:
            status, headers, text = send_part(s, path, elf.large, off, n - 1)
            assert status == 201, text
            break
    assert off > 0
    assert fetch(s, path) == (200, elf.large, True)
    nothing_is_staged(s)


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
    # The upload belongs to these bytes and this build ID: other bytes, or the same bytes under another ID, start over.
    assert want(s, one(elf.id, elf.large[:-1]))[0]["offset"] == 0
    assert want(s, one(new_id("other"), elf.large))[0]["offset"] == 0
    status, headers, _ = send_part(s, path, elf.large, off + 1, n - 1)
    assert (status, headers["X-LODE-OFFSET"]) == (409, str(off))
    status, _, text = send_part(s, path, elf.large, off, n - 1)
    assert status == 201, text
    assert fetch(s, path) == (200, elf.large, True)
    nothing_is_staged(s)
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
    assert status == 409 and int(headers["X-LODE-OFFSET"]) < off and "crash" in text
    off = int(headers["X-LODE-OFFSET"])
    assert want(s, asked)[0]["offset"] == off
    assert send_part(s, path, elf.large, off, n - 1)[0] == 201
    assert fetch(s, path) == (200, elf.large, True)
    sound(s)


@pytest.mark.slow
def test_who_falls_silent_in_a_body_is_let_go(server, elf):
    s = server(["--idle-timeout", "3"])
    path, n = f"/buildid/{elf.id}/debuginfo", len(elf.large)
    head = (f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nX-LODE-SHA256: {sha(elf.large)}\r\nContent-Length: {n}\r\n\r\n").encode()
    silent = []
    for sent in (b"", elf.large[:1], elf.large[:2_000_000]):
        k = socket.create_connection(("127.0.0.1", s.port), timeout=60)
        k.sendall(head.replace(sha(elf.large).encode(), sha(sent).encode()) + sent)
        silent.append(k)
    # More than the limit of parallel uploads: others get 503 for a moment.
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
    # The received part waits for the rest, and a slow client that sends now and then is not cut.
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
    # If the bytes differ from the announced hash, none are kept.
    other = elf.of(elf.large, new_id("lies"))
    lie = {"X-LODE-SHA256": sha(elf.large)}
    status, _, text = put(s, f"/buildid/{new_id('lies')}/debuginfo", other, lie)
    assert status == 422 and "SHA-256" in text
    assert list(listed(s)) == [f"{elf.id}/debuginfo"]


@pytest.mark.slow
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


# ---- quota ----

@pytest.mark.slow
def test_a_quota(server, elf):
    files = {k: elf.of(elf.large, k) for k in (new_id("quota", i) for i in range(4))}
    s = server(["--store-quota", "7000000", "--store-keep-pushed"])
    codes = [put(s, f"/buildid/{k}/debuginfo", f)[::2] for k, f in files.items()]
    assert [c for c, _ in codes] == [201, 201, 507, 507], codes
    assert "quota" in codes[2][1]
    assert len(sound(s)) and len(listed(s)) == 2
    s.stop()
    # Two files are less than 7/8 of it, to which objects are removed in the background.
    s = server(["--store-quota", "8000000"], data=s.data)
    last = list(files)[-1]
    s.wait(lambda: put(s, f"/buildid/{last}/debuginfo", files[last])[0] == 201, "older ones to be old enough to go")
    # The copy that compressing makes costs no other object.
    settled(s)
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
    nothing_is_staged(s)
    sound(s)


def test_what_rots_is_found(server, elf):
    s = server()
    put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    name = next((s.data / "store/data").glob("*/*"))
    rotten = bytearray(name.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    name.write_bytes(rotten)
    r = lode("store", "verify", "--data", s.data, ok=False)
    assert r.returncode == 1 and elf.id in r.stderr
    assert fetch(s, f"/buildid/{elf.id}/debuginfo")[0] in (200, 500)
    assert lode("store", "verify", "--remove", "--data", s.data, ok=False).returncode == 1
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)[0] == 201
    sound(s)


def test_what_is_asked_about_is_read_after_a_start(server, elf):
    """Bytes of an earlier process are a reason not to send a file if they are whole, and only then."""
    s = server()
    put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)
    settled(s)
    s.stop()
    s = server(data=s.data)
    assert want(s, one(elf.id, elf.debug)) == [{"want": False, "why": "same"}]
    s.stop()
    name = next((s.data / "store/data").glob("*/*"))
    rotten = bytearray(name.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    name.write_bytes(rotten)
    s = server(data=s.data)
    assert want(s, one(elf.id, elf.debug)) == [{"want": True, "offset": 0}]
    assert put(s, f"/buildid/{elf.id}/debuginfo", elf.debug)[0] in (200, 201)
    assert s.get(f"/buildid/{elf.id}/debuginfo").body == elf.debug
    sound(s)
