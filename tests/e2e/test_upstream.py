# SPDX-License-Identifier: Apache-2.0
"""Requests passed on to other servers: files arrive complete and are stored; servers that lie, stall, fail and loop."""

import http.client
import json
import os
import signal
import tarfile
import threading
import time

import pytest

from conftest import free_port, slow_but
from faulty import Dead
from making import deb, elf, new_id, tar_of
from profiling import message, number, send, varint

WAIT = 60
NOTHING = "/proc/self/fdinfo" # a folder without any file to be found; without a path the server would scan this machine


def through(serve, *urls, args=()):
    return serve([NOTHING], args=["--debuginfod-upstream-servers", ",".join(urls), *args]).ready()


@pytest.fixture
def path(elf):
    return f"/buildid/{elf.id}/debuginfo"


def status(s):
    return json.loads(s.get("/api/status").body)["upstream"]


def test_a_file_arrives_complete_and_is_stored(serve, faulty, elf, path):
    up = faulty({path: elf.debug}, headers=["X-DEBUGINFOD-FILE: x.debug", "X-DEBUGINFOD-ARCHIVE: /pool/x.deb", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"])
    s = through(serve, up.url)
    first = s.get(path)
    assert first.status == 200 and first.body == elf.debug
    assert first.headers["X-DEBUGINFOD-FILE"] == "x.debug" and first.headers["X-DEBUGINFOD-ARCHIVE"] == "/pool/x.deb"
    assert first.headers["Last-Modified"] == "Sun, 06 Nov 1994 08:49:37 GMT"
    s.wait(lambda: status(s)["stored"] == 1, "stored")
    up.how = lambda path, n: "404"
    assert s.get(path).body == elf.debug
    part = s.get(path, headers={"Range": "bytes=5-104", "If-Range": first.headers["ETag"]})
    assert part.status == 206 and part.body == elf.debug[5:105]
    head = s.get(path, method="HEAD")
    assert head.status == 200 and int(head.headers["Content-Length"]) == len(elf.debug)
    assert len(up.requests()) == 1
    assert s.metric(r'lode_upstream_fetches\{outcome="found"\}') == 1
    assert s.metric(rf'lode_upstream_requests\{{server="{up.url}",outcome="found"\}}') == 1
    # It is found by its name, too.
    for query in (f"key=buildid&value={elf.id}", "key=file&value=/x.debug", "key=glob&value=/*.debug"):
        r = json.loads(s.get(f"/metadata?{query}").body)["results"]
        assert r == [{"type": "debuginfo", "buildid": elf.id, "file": "/x.debug", "archive": "/pool/x.deb"}], query
    # Also after a restart.
    asked = len(up.requests("/buildid/"))
    s.stop()
    again = serve([NOTHING], data=s.data, args=["--debuginfod-upstream-servers", up.url]).ready()
    assert again.get(path).body == elf.debug and len(up.requests("/buildid/")) == asked == 1


def test_first_bytes_go_out_before_the_last_come(serve, faulty, elf):
    large = elf.large
    path = f"/buildid/{elf.id}/debuginfo"
    up = faulty({path: large}, how=lambda p, n: f"stall {len(large) - 1000}")
    s = through(serve, up.url)
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
    c.request("GET", path)
    r = c.getresponse()
    assert r.status == 200 and int(r.headers["Content-Length"]) == len(large)
    assert r.read(len(large) - 1000) == large[:-1000]
    c.close()


FAULTS = ["503 Retry-After: 100\r\n", "429 Retry-After: 100\r\n", "500", "404", "loop", "html", "bomb", "cut 0", "cut 1", "cut 3", "cut 5000", "stall 0",
          "stall 1000", "longer", "shorter 100", "endless", "silent", "other"]


@pytest.mark.parametrize("fault", slow_but(["500", "404", "loop", "bomb", "cut 3", "stall 0", "other"], FAULTS))
def test_a_second_server_makes_up_for_a_bad_first(serve, faulty, elf, path, fault):
    bad = faulty({path: elf.debug, "other": elf.of(elf.debug, new_id("other"))}, how=lambda p, n: fault)
    good = faulty({path: elf.debug})
    s = through(serve, bad.url, good.url)
    r = s.get(path)
    # An endless body that passed its first check cannot be taken back.
    assert r.status == 200 and r.body == elf.debug, (fault, r.status, r.body[:200])
    assert len(bad.requests()) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "html", "cut 5000", "bomb", "loop", "shorter 100", "other", "endless"])
def test_the_fault_of_a_lone_server_is_reported_and_nothing_kept(serve, faulty, elf, path, fault):
    bad = faulty({path: elf.debug, "other": elf.of(elf.debug, new_id("other"))}, how=lambda p, n: fault)
    s = through(serve, bad.url)
    try:
        r = s.get(path)
        # By Range it may come in parts; that is as good.
        assert r.body == elf.debug if fault.startswith("cut") else r.status == 502 and bad.url in r.body.decode(), (r.status, r.body)
        assert r.status == 200 or "other servers failed" in r.body.decode()
    except http.client.IncompleteRead:
        assert fault.startswith("cut")
    if not fault.startswith("cut"):
        assert status(s)["stored"] == 0
    bad.how = lambda p, n: None
    s.wait(lambda: s.get(path).status == 200, "had when it is well again", timeout=30)
    assert s.get(path).body == elf.debug


def test_a_file_of_another_build_id_is_never_given_out(serve, faulty, elf):
    wrong = "00" * 20
    up = faulty({f"/buildid/{wrong}/debuginfo": elf.debug})
    s = through(serve, up.url)
    r = s.get(f"/buildid/{wrong}/debuginfo")
    assert r.status == 502 and elf.id in r.body.decode()
    assert status(s)["stored"] == 0


def test_a_miss_lists_every_server_and_is_cached(serve, faulty):
    a, b = faulty({}), faulty({})
    s = through(serve, a.url, b.url)
    for _ in range(3):
        r = s.get("/buildid/" + "ab" * 20 + "/debuginfo")
        assert r.status == 404
        assert f"{a.url}: 404" in r.body.decode() and f"{b.url}: 404" in r.body.decode()
    assert len(a.requests()) == len(b.requests()) == 1
    assert status(s)["remembered"] >= 2


@pytest.mark.slow
def test_a_dead_server_costs_once(serve, faulty, elf, path):
    dead, good = Dead(), faulty({path: elf.debug})
    s = through(serve, dead.url, good.url)
    assert s.get(path).body == elf.debug
    for i in range(30):
        assert s.get(f"/buildid/{i:040x}/debuginfo").status in (404, 502)
    server = next(x for x in status(s)["servers"] if x["url"] == dead.url)
    assert server["open"] and server["asked"] < 10
    assert s.metric(rf'lode_upstream_breaker_open\{{server="{dead.url}"\}}') == 1
    dead.stop()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_does_not_ask_the_dead_again(serve, faulty, elf, path, how):
    dead, good = Dead(), faulty({path: elf.debug})
    args = ["--debuginfod-upstream-servers", f"{dead.url},{good.url}"]
    s = through(serve, dead.url, good.url)

    def state(s):
        return next((x for x in status(s)["servers"] if x["url"] == dead.url), None)

    for i in range(100):
        s.get(f"/buildid/{i:040x}/debuginfo")
        if state(s)["open"]:
            break
    assert state(s)["open"] and state(s)["failures_in_a_row"] >= 1
    s.wait(lambda: dead.url in (s.data / "servers").read_text(), "what is known of it to be kept")
    s.proc.send_signal(how)
    s.proc.wait(30)
    line = next(x for x in (s.data / "servers").read_text().splitlines() if x.startswith(dead.url)).split(" ", 2)
    assert int(line[1]) > time.time() - WAIT
    # However long this machine takes for a restart. Other contents of that file do no harm.
    (s.data / "servers").write_bytes(f"{line[0]} {int(time.time()) + 300} {line[2]}\n".encode() + b"nonsense\n\0\xff\n" +
                                     good.url.encode() + b" 99999999999999 0 0 closed for ever\n")
    s = serve([NOTHING], data=s.data, args=args).ready()
    assert s.get(path).body == elf.debug
    assert state(s)["open"] and state(s)["asked"] == 0
    dead.stop()


def test_two_servers_that_name_each_other_answer(serve, elf):
    ports = [free_port(), free_port()]
    pair = []
    for i in range(2):
        s = serve([NOTHING], args=["--listen", f"127.0.0.1:{ports[i]}", "--debuginfod-upstream-servers", f"http://127.0.0.1:{ports[1 - i]}"])
        s.port = ports[i]
        pair.append(s.ready())
    for i, s in enumerate(pair):
        began = time.monotonic()
        r = s.get("/buildid/" + f"{i}c" * 20 + "/debuginfo")
        took = time.monotonic() - began
        assert r.status == 404 and took < WAIT / 2, (r.status, took)
        r = s.get("/metadata?key=glob&value=/x/*")
        assert r.status == 200 and json.loads(r.body)["complete"] is True


def test_the_client_is_forwarded_and_hops_are_counted(serve, faulty, elf, path):
    up = faulty({path: elf.debug})
    s = through(serve, up.url, args=["--forwarded-ttl-limit", "2"])
    r = s.get(path, headers={"X-Forwarded-For": "10.0.0.1, 10.0.0.2"})
    assert r.status == 404 and "X-Forwarded-For" in r.body.decode() and not up.requests()
    assert s.get(path, headers={"X-Forwarded-For": "10.0.0.1", "User-Agent": "some/1"}).body == elf.debug
    head = up.requests()[0]
    assert "X-Forwarded-For: 10.0.0.1, 127.0.0.1" in head and "User-Agent: some/1" in head and "Via: 1.1 lode-" in head


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Via"])
@pytest.mark.parametrize("value", ["," * 8, "," * 1020, "x" * 1020])
def test_hops_that_a_client_makes_up_are_no_miss_for_others(serve, elf, path, tmp_path, name, value):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/x.debug").write_bytes(elf.debug)
    there = serve([tmp_path / "files"]).scanned()
    between = through(serve, there.url)
    s = through(serve, between.url)
    s.get(path, headers={name: value})
    assert s.get(path, headers={"X-Forwarded-For": "10.0.0.1"}).body == elf.debug
    assert s.get(path).body == elf.debug


def test_a_removed_file_is_not_answered_from_the_cache(serve, faulty, elf):
    path = f"/buildid/{elf.id}/source/usr/src/a.c"
    old, new = b"/* old */\n" * 10000, b"/* new */\n" * 10000
    up = faulty({path: old})
    s = through(serve, up.url)
    assert s.get(path).body == old
    packed = lambda: json.loads(s.get("/api/status").body)["store"]["to_compress"]["objects"] == 0
    s.wait(lambda: status(s)["stored"] == 1 and packed(), "stored and compressed")
    s.wait(lambda: s.get(path).body == old and s.metric(r'http_responses_total\{result="archive fdcache"\}'), "cached")
    assert s.get(path, method="DELETE", headers={"Host": f"localhost:{s.port}"}).status == 200
    up.files[path] = new
    assert s.get(path).body == new
    s.wait(lambda: status(s)["stored"] == 2 and packed(), "stored and compressed")
    assert s.get(path).body == new


def test_a_package_that_cannot_be_read_does_not_keep_other_files_away(serve, elf, path, tmp_path):
    bad = new_id("bad")
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool/x.debug").write_bytes(elf.debug)
    # Its control file has a build ID, and the name in its payload is longer than any that is read.
    (tmp_path / "pool/bad-dbgsym_1_amd64.deb").write_bytes(deb(tar_of([("./" + "n" * 100000, b"x")], tarfile.GNU_FORMAT), "", [bad]))
    there = serve([tmp_path / "pool"]).scanned()
    s = through(serve, there.url)
    assert there.get(f"/buildid/{bad}/debuginfo").headers["X-LODE-UNREADABLE"]
    assert s.get(f"/buildid/{bad}/debuginfo").status == 502
    assert s.get(path).body == elf.debug


def test_many_at_once_are_one_request(serve, faulty, elf, path):
    up = faulty({path: elf.debug}, how=lambda p, n: f"slow {len(elf.debug) // 5}")
    s = through(serve, up.url)
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(s.get(path).body)) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert replies == [elf.debug] * 20 and len(up.requests()) == 1


def test_sources_and_sections(serve, faulty, elf):
    files = {f"/buildid/{elf.id}/source/usr/src/a%20b.c": b"int a;\n", f"/buildid/{elf.id}/section/.text": b"\x90" * 100}
    up = faulty(files)
    s = through(serve, up.url)
    for path, content in files.items():
        assert s.get(path).body == content
    assert s.get(f"/buildid/{elf.id}/source/usr/src/b.c").status == 404
    assert all(h.split(" ")[1].startswith("/buildid/") for h in up.requests())


DOTS = ["/../../../../secret", "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret", "/..%2f..%2f..%2f..%2fsecret", "/%252e%252e/%252e%252e/%252e%252e/secret",
        "/..%5c..%5c..%5csecret", "/..;/..;/..;/..;/secret", "/x/%00/../../../../../secret", "//../../../../secret", "/.%2e/.%2E/.%2e/.%2e/secret"]


@pytest.mark.parametrize("kind", slow_but(["source"], ["source", "section"]))
def test_a_name_never_leads_out_of_a_servers_folder(serve, faulty, elf, tmp_path, kind):
    tree = tmp_path / "tree"
    inside = tree / "buildid" / elf.id / kind
    inside.mkdir(parents=True)
    (inside / "in").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"secret")
    (tree / "secret").write_bytes(b"secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(inside / "fifo")
    up = faulty({"/base/" + "admin": b"secret"}, how=lambda p, n: None)
    s = through(serve, f"file://{tree}", f"{up.url}/base")
    assert s.get(f"/buildid/{elf.id}/{kind}/in").body == b"inside"
    for name in [*DOTS, *(d.replace("secret", "buildid/../admin") for d in DOTS), "/link", "/fifo"]:
        r = s.get(f"/buildid/{elf.id}/{kind}{name}")
        assert r.status in (404, 400) and b"secret" not in r.body.replace(name.encode(), b"").replace(b"/secret", b""), (name, r.status, r.body)
    for head in up.requests():
        path = head.split(" ")[1]
        assert path.startswith(f"/base/buildid/{elf.id}/") and ".." not in path and "%2e" not in path.lower() and "%5c" not in path.lower(), path


def test_redirects_to_others_need_to_be_allowed(serve, faulty, elf, path):
    other = faulty({path: elf.debug})
    up = faulty({path: b""}, how=lambda p, n: f"redirect {other.url}{path}")
    r = through(serve, up.url).get(path)
    assert r.status == 502 and b"it redirects to another port: name that one as server, or allow redirects" in r.body, r.body
    assert not other.requests()
    assert through(serve, up.url, args=["--upstream-redirects"]).get(path).body == elf.debug


def made_up(n):
    """A profile of @n binaries that nobody has."""
    out, strings = b"", ["", "samples", "count", *(f"/opt/{i}" for i in range(n)), *(new_id(f"flood{i}") for i in range(n))]
    out += message(1, number(1, 1) + number(2, 2))
    for i in range(n):
        out += message(2, message(1, varint(i + 1)) + message(2, varint(1)))
        out += message(3, number(1, i + 1) + number(2, 0x1000) + number(3, 0x9000) + number(5, 3 + i) + number(6, 3 + n + i))
        out += message(4, number(1, i + 1) + number(2, i + 1) + number(3, 0x2000))
    for x in strings:
        out += message(6, x.encode())
    return out + number(9, int(time.time() * 1e9)) + number(10, 1000000000)


def test_a_flood_of_made_up_build_ids_ends_here(serve, faulty, elf, path):
    up = faulty({path: elf.debug})
    s = through(serve, up.url, args=["--upstream-misses", "50"])
    send(s, made_up(2000), service="flood")
    s.wait(lambda: s.metric("lode_upstream_over_budget") > 500, "over the budget")
    flooded = len(up.requests("/buildid/"))
    assert flooded <= 20, flooded
    # A debugger gets its answer meanwhile, and its own budget is not that of others.
    assert s.get(path).body == elf.debug
    replies = [s.get(f"/buildid/{new_id(f'gdb{i}')}/debuginfo") for i in range(60)]
    assert [r.status for r in replies[:45]] == [404] * 45 and replies[-1].status == 503, [r.status for r in replies]
    assert b"--upstream-misses" in replies[-1].body and replies[-1].headers["Retry-After"]
    assert s.get(f"/buildid/{new_id('gdb0')}/debuginfo").status == 404
    other = s.get(f"/buildid/{new_id('other')}/debuginfo", headers={"X-Forwarded-For": "192.0.2.7"})
    assert other.status == 404
    assert len(up.requests("/buildid/")) <= flooded + 75


def test_it_says_at_the_start_what_is_sent_to_whom(serve, faulty):
    up = faulty({})
    s = through(serve, up.url.replace("://", "://user:word@"))
    text = s.log_path.read_text()
    assert f"requested from {up.url}: build IDs" in text and "word" not in text and "--no-upstream" in text
    s = serve([NOTHING]).ready()
    assert "requested from" not in s.log_path.read_text()


def test_metadata_of_others_follow_ours(serve, faulty):
    key = "/metadata?key=glob&value=%2Fusr%2Flib%2F%2A"
    theirs = {"results": [{"type": "debuginfo", "buildid": "aa" * 20, "file": "/usr/lib/x", "archive": "y.deb", "evil": {"a": [1]}}], "complete": True}
    a, b = faulty({key: json.dumps(theirs).encode()}), faulty({key: b"<html>"})
    s = through(serve, a.url)
    r = json.loads(s.get("/metadata?key=glob&value=/usr/lib/*").body)
    assert r == {"results": [{k: v for k, v in theirs["results"][0].items() if k != "evil"}], "complete": True}
    s = through(serve, a.url, b.url)
    r = json.loads(s.get("/metadata?key=glob&value=/usr/lib/*").body)
    assert len(r["results"]) == 1 and r["complete"] is False
    s = through(serve, "http://127.0.0.1:1")
    assert json.loads(s.get("/metadata?key=glob&value=/usr/lib/*").body) == {"results": [], "complete": False}


@pytest.mark.parametrize("command", ["serve", "debuginfod"])
def test_the_environment_names_servers(serve, faulty, elf, path, command, tmp_path):
    up = faulty({path: elf.debug})
    args = {"serve": ["--forwarded-ttl-limit", "8"], "debuginfod": []}[command]
    s = serve([NOTHING] if command == "serve" else [], command=command, data=tmp_path / "d.sqlite", args=args, extra={"DEBUGINFOD_URLS": f"nonsense://x {up.url}"})
    s.ready()
    if command == "serve":
        # The tests' own --no-upstream overrides the environment.
        assert s.get(path).status == 404
    else:
        assert s.get(path).body == elf.debug
        s.wait(lambda: status(s)["stored"] == 1, "stored")
        assert "nonsense://x" in s.log_path.read_text()


@pytest.mark.slow
def test_a_stop_in_the_middle_is_orderly(serve, faulty, elf, path):
    up = faulty({path: elf.debug}, how=lambda p, n: "silent")
    s = through(serve, up.url)

    def ask():
        try:
            s.get(path)
        except (OSError, http.client.HTTPException):
            pass

    t = threading.Thread(target=ask)
    t.start()
    s.wait(lambda: up.requests(), "asked")
    assert s.stop() == 0
    t.join()
    assert not [f for f in os.listdir(s.data / "spool")]
