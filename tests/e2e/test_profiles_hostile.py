# SPDX-License-Identifier: Apache-2.0
"""Bad profiles and queries: each is refused with a sentence, and stored profiles stay. After kill -9, acknowledged profiles are there."""

import base64
import gzip
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from making import peak_mib, raw
from profiling import Pprof, ask, call, folded, message, number, query, refused, send, varint

NASTY = ["'; DROP TABLE profile; --", "\"><script>alert(1)</script>", "</script>", "%s%n%00", "a\\b\"c", "\u202e\u0000".replace("\0", ""), "$(id)`id`",
         "{{7*7}}", "../../etc/passwd", "ä" * 100]


def one(n=1, time_ms=0, **kw):
    return Pprof(types=(("cpu", "ns"),), time_ms=time_ms, **kw).sample(["main", "f"], [n])


def test_damaged_profiles(s):
    whole = one().sample(["main", 0x1234], [3]).bytes()
    packed = gzip.compress(whole)
    bad = [b"", b"\x1f\x8b", packed[:-9], packed[:20], packed[:30] + b"xx" + packed[32:], b"\0" * 100, b"PERFILE2" + b"\0" * 100, b"<html></html>",
           whole[:-3], os.urandom(64), b"a b c\n"]
    # Indexes out of range, missing locations and functions, wrong lengths.
    bad += [whole + message(2, message(1, varint(99)) + message(2, varint(1))),
            whole + message(4, number(1, 50) + number(2, 9)),
            whole + message(4, number(1, 51) + message(4, number(1, 77))),
            whole + message(5, number(1, 60) + number(2, 1 << 40)),
            whole + message(1, number(1, 1 << 60) + number(2, 2)),
            whole + b"\x12\xff\xff\xff\xff\x0f", whole + message(2, message(1, varint(1)) + message(2, varint(1) * 9))]
    for body in bad:
        refused(s, "POST", "/profiles?x=1", body, status=400)
        refused(s, "POST", "/ingest?name=x&format=pprof", body, status=400)
    rng = random.Random(3)
    for _ in range(60):
        b = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            b[rng.randrange(len(b))] = rng.randrange(256)
        status, data, _ = call(s, "POST", "/profiles?fuzz=1", bytes(b))
        assert status in (200, 400, 413), data
    assert send(s, whole, x="1")["profiles"] == 1


@pytest.mark.slow
def test_bodies_that_are_too_large(s):
    # Refused by its headers, before any of the body is sent.
    reply = raw(s, b"POST /profiles HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 413") and b'{"error":"the body has more than 64 MiB' in reply
    before = peak_mib(s)
    # A body without a length, and one that decompresses to much more.
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as k:
        k.sendall(b"POST /profiles HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(200):
                k.sendall(b"100000\r\n" + b"a" * 0x100000 + b"\r\n")
            k.sendall(b"0\r\n\r\n")
            reply = k.recv(4096)
            assert b" 413 " in reply
        except (ConnectionError, TimeoutError):
            pass
    assert peak_mib(s) < before + 160
    bomb = gzip.compress(b"\0" * (300 << 20), 1)
    assert "more than" in refused(s, "POST", "/profiles", bomb, status=413)
    assert send(s, one().bytes())["profiles"] == 1


def test_label_values_without_end(s):
    p = Pprof(types=(("cpu", "ns"),))
    for i in range(1500):
        p.sample(["f"], [1], [("id", str(i))])
    assert "1000" in refused(s, "POST", "/profiles", p.bytes(), status=413)
    refused(s, "POST", "/profiles?" + "&".join(f"l{i}=x" for i in range(100)), one().bytes(), status=413)
    refused(s, "POST", "/profiles?x=" + "v" * 5000, one().bytes())
    assert ask(s, "types")["types"] == []


def test_labels_that_are_none(s):
    for labels in ("1a=x", "a-b=x", "=x", "a%00=x", "a=%zz", "a=b&a=c", "a=%01", "a=%ff%fe", "%3Cscript%3E=x", "a+b=1"):
        refused(s, "POST", f"/profiles?{labels}", one().bytes(), status=400)
    assert ask(s, "labels")["labels"] == []


def test_clocks_that_are_wrong(s):
    now = int(time.time() * 1000)
    assert "clock" in refused(s, "POST", "/profiles", one(time_ms=now + 3600000).bytes(), status=400)
    refused(s, "POST", "/profiles?time=now%2B1h", one().bytes(), status=400)
    assert "in the future" in refused(s, "POST", "/profiles?time=9999-12-31T23:59:59Z", one().bytes(), status=400)
    assert "'time'" in refused(s, "POST", "/profiles?time=tomorrow", one().bytes(), status=400)
    refused(s, "POST", "/ingest?name=x&from=later", b"a;b 1\n", status=400)
    assert send(s, one(time_ms=now + 60000).bytes())["profiles"] == 1


def test_nothing_is_ever_interpreted(s):
    for i, text in enumerate(NASTY):
        p = Pprof(types=(("cpu", "ns"),), mapping=(0, 1 << 40, 0, text, text), file=text).sample([text, "f"], [i + 1], [("inner", text)])
        send(s, p.bytes(), n=str(i), v=text)
        send(s, f"{text.replace(';', ':')};g 1\n".encode(), n=f"f{i}", format="folded")
    assert ask(s, "labels/v/values")["values"] == sorted(NASTY, key=str.encode)
    for i, text in enumerate(NASTY):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        g = ask(s, "flamegraph", query=f'profile:cpu:ns:cpu:nanoseconds{{v="{quoted}",inner="{quoted}"}}')
        assert g["total"] == i + 1 and text in g["strings"]
        for form in ("html", "svg", "folded", "speedscope"):
            status, data, headers = call(s, "GET", f"/api/download?{query(query='profile:cpu:ns:cpu:nanoseconds{n=%r}' % str(i), format=form)}")
            assert status == 200 and b"<script>alert(1)" not in data or form in ("folded", "speedscope")
            assert headers["Content-Disposition"].startswith("attachment;")
    assert ask(s, "top", query="profile:cpu:ns:cpu:nanoseconds")["total"] == sum(range(1, len(NASTY) + 1))


def test_mappings_that_lie(s):
    for mapping in ((0x500000, 0x400000, 0, "/bin/x", ""), (0, 0, 0, "", ""), ((1 << 64) - 1, 1, (1 << 64) - 1, "/bin/y", "zz"),
                    (0x400000, 0x500000, (1 << 64) - 4096, "/bin/z", "ab"), (0, (1 << 64) - 1, 0, "[vdso]", ""), (1, 2, 3, "/bin/" + "x" * 3000, "a" * 200),
                    (0x400000, 0x500000, 0, "/bin/go", "abc/def-GHI_123/xyz"), (0x400000, 0x500000, 0, "/bin/u", "AB" * 20)):
        p = Pprof(types=(("cpu", "ns"),), mapping=mapping).sample([0x400100, 0, (1 << 64) - 1, 5], [1])
        send(s, p.bytes(), m=mapping[3][:20].strip("[]") or "none")
    g = ask(s, "flamegraph", by="address")
    assert g["total"] == 8 and all(a.startswith("0x") or not a for a in g["frames"]["address"])
    assert "ab" * 20 in g["strings"] and "AB" * 20 not in g["strings"]


def test_a_binary_that_changes_under_its_path(s):
    for i in range(2):
        p = Pprof(types=(("cpu", "ns"),), mapping=(0x400000, 0x500000, 0, "/bin/x", f"{i}{i}" * 20)).sample([0x400100], [i + 1])
        send(s, p.bytes(), i=str(i))
    rows = ask(s, "top")["rows"]
    assert sorted((r["build_id"][:2], r["flat"]) for r in rows) == [("00", 1), ("11", 2)]


def test_questions_that_are_none(s):
    send(s, one().bytes())
    for path, args in [("flamegraph", {"query": "{"}), ("flamegraph", {"query": "x{a=~\"(\"}"}), ("flamegraph", {"query": "' OR 1=1"}),
                       ("flamegraph", {"query": "{a=~\"((a{99}){99}){99}\"}"}), ("flamegraph", {"focus": "("}), ("top", {"hide": "((a{99}){99}){99}"}),
                       ("top", {"focus": "(a)\\1"}), ("types", {"from": "yesterday"}), ("types", {"from": "now", "to": "now-1h"}),
                       ("types", {"to": "99999999999999999999"}), ("types", {"from": "-1"}), ("types", {"from": "2026-02-30T00:00:00Z"}),
                       ("types", {"from": "now-1y"}), ("top", {"limit": "-1"}), ("top", {"limit": "x"}), ("top", {"sort": "size"}),
                       ("flamegraph", {"min_share": "2"}), ("flamegraph", {"min_share": "nan"}), ("flamegraph", {"by": "thread"}),
                       ("flamegraph", {"wait": "1h"}), ("flamegraph", {"wait": "soon"}), ("flamegraph", {"invert": "maybe"}),
                       ("flamegraph", {"profile": "x"}), ("flamegraph", {"profile": "0"}), ("series", {"step": "0"}), ("series", {"step": "x"}),
                       ("series", {"by": ",".join("abcdefghijklmnopqrstuvwxyz")}), ("download", {"format": "exe"}), ("lines", {}), ("callers", {}),
                       ("flamegraph", {"query": "x" * 5000 + "}"}), ("flamegraph", {"nothing": "1"}), ("flamegraph", {"base": "{"})]:
        text = refused(s, "GET", f"/api/{path}?{query(**args)}")
        for name in args:
            if name != "nothing" and len(str(args[name])) < 1000:
                assert name in text or (name == "to" and "from" in text), (args, text)
    for path in ("/api/", "/api/none", "/api/labels//values", "/api/labels/a/b/values", "/api/types/", "/api/../types"):
        assert call(s, "GET", path)[0] == 404
    assert call(s, "GET", "/api/types?from=%zz")[0] == 400
    for method in ("PUT", "DELETE", "PATCH", "POST"):
        assert call(s, method, "/api/types")[0] in (404, 405)
    # Many parameters, one twice.
    assert "twice" in refused(s, "GET", "/api/types?from=now-1h&from=now-2h", status=400)
    refused(s, "GET", "/api/types?" + "&".join(f"a{i}=" for i in range(60)), status=400)


def test_different_units_do_not_add_up(s):
    send(s, Pprof(types=(("cpu", "ns"), ("samples", "count"))).sample(["f"], [1, 2]).bytes())
    for path in ("flamegraph", "top", "series", "download", "lines?function=f", "callers?function=f"):
        assert "different types" in refused(s, "GET", f"/api/{path}", status=400)


def test_forms_that_are_none(s):
    raw_profile = base64.b64encode(one().bytes()).decode()
    name = {"name": "__name__", "value": "n"}
    ok = {"series": [{"labels": {"labels": [name]}, "samples": [{"raw_profile": raw_profile}]}]}
    for change in ({"series": None}, {"series": []}, {"series": [{}]}, {"series": [{"labels": {"labels": []}, "samples": [{"raw_profile": raw_profile}]}]},
                   {"series": [{"labels": {"labels": [{"name": "-", "value": "x"}]}, "samples": [{"raw_profile": raw_profile}]}]},
                   {"series": [{"labels": {"labels": [name]}, "samples": [{"raw_profile": "*"}]}]},
                   {"series": [{"labels": {"labels": [name]}, "samples": [{"raw_profile": "AAAA"}]}]},
                   {"series": [{"labels": {"labels": [name]}, "samples": [{}]}]}, {"series": ok["series"] + [{}]}):
        assert refused(s, "POST", "/api/profiles/writeraw", json.dumps({**ok, **change}), status=400), change
    for text in ("", "{", "[" * 5000, "[]", "null", "\0", '{"series":[{"series":1,"series":2}]}'):
        refused(s, "POST", "/api/profiles/writeraw", text, status=400)
    refused(s, "POST", "/api/profiles/writeraw", b"[" + b"[]," * 3000000 + b"1]", status=413)
    form = {"Content-Type": "multipart/form-data; boundary=XyZ"}
    part = b'--XyZ\r\nContent-Disposition: form-data; name="profile"\r\n\r\n'
    for body in (b"", b"--XyZ", b"--XyZ--", part, part + one().bytes(), b"--XyZ\r\n\r\nx\r\n--XyZ--", part + b"x\r\n--XyZ--",
                 part * 40 + b"\r\n--XyZ--", part.replace(b"profile", b"other") + b"x\r\n--XyZ--"):
        refused(s, "POST", "/ingest?name=x", body, form)
    refused(s, "POST", "/ingest?name=x", part + b"x\r\n--XyZ--", {"Content-Type": "multipart/form-data"}, 400)
    for args in ("", "name=", "name={a=b}", "name=x{a=b", "name=x{a}", "name=x&format=jfr", "name=x&from=2&until=1"):
        refused(s, "POST", f"/ingest?{args}", b"a;b 1\n", status=400)
    # One bad series fails the request, but an earlier series may have been stored.
    assert ask(s, "top", from_="now-1h")["total"] in (0, 1)


def test_a_disk_that_is_full(serve, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("no file system of our own can be mounted here")
    try:
        (tmp_path / "empty").mkdir()
        s = serve([tmp_path / "empty"], args=["--profiles", small / "profiles"]).ready()
        taken, text = 0, None
        for i in range(400):
            body = "".join(f"m{i};f{i}_{k}_{'x' * 200} 1\n" for k in range(300)).encode()
            status, data, _ = call(s, "POST", f"/profiles?i={i}", body)
            if status != 200:
                assert status in (503, 507), data
                text = json.loads(data)["error"]
                break
            taken += 300
        assert text and taken, "the disk never got full"
        # Acknowledged profiles are there, also in the next process.
        assert ask(s, "series", one=1)["series"][0]["total"] == taken
        assert s.stop(signal.SIGKILL)
        s = serve([tmp_path / "empty"], data=s.data, args=["--profiles", small / "profiles"]).ready()
        assert ask(s, "series", one=1)["series"][0]["total"] == taken
        s.stop()
    finally:
        subprocess.run(["umount", "-l", str(small)])


def test_a_repair_on_a_disk_that_is_full_loses_nothing(serve, tmp_path):
    """There is room for the copy's WAL, and not for its file: the repair fails, and the next start, with room, does all of it."""
    small, n = tmp_path / "small", 40
    small.mkdir()
    (tmp_path / "empty").mkdir()
    s = serve([tmp_path / "empty"], args=["--profiles", tmp_path / "profiles"]).ready()
    for i in range(n):
        body = "".join(f"main;f{k} {(i * 7919 + k * 104729) % 10**9 + 1}\n" for k in range(20000)).encode()
        assert call(s, "POST", f"/profiles?time=now-{n - i}s", body)[0] == 200
    s.stop()
    size = (tmp_path / "profiles" / "profiles.db").stat().st_size
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size * 5 // 2}", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("no file system of our own can be mounted here")
    try:
        shutil.copytree(tmp_path / "profiles", small / "profiles")
        with open(small / "profiles" / "profiles.db", "r+b") as f:
            f.seek(size * 3 // 4 // 8192 * 8192 + 3000)
            f.write(b"\xff" * 64)
        s = serve([tmp_path / "empty"], data=s.data, args=["--profiles", small / "profiles"]).ready()
        assert call(s, "GET", "/api/types")[0] >= 500
        s.stop()
        subprocess.run(["mount", "-o", f"remount,size={size * 8}", str(small)], check=True)
        s = serve([tmp_path / "empty"], data=s.data, args=["--profiles", small / "profiles"]).ready()
        assert ask(s, "series", one=1)["series"][0]["profiles"] >= n - 2
        s.stop()
    finally:
        subprocess.run(["umount", "-l", str(small)])


@pytest.mark.slow
def test_queries_beyond_the_memory(serve, tmp_path):
    """Merges, trees, graphs and tables of frames are granted: 422 if it can never fit, else 503; the next small query is answered."""
    (tmp_path / "empty").mkdir()
    s = serve([tmp_path / "empty"], args=["--memory", "64M"]).ready()
    for i in range(3):
        body = "".join(f"main;f{i}_{k};g{i}_{k} 1\n" for k in range(40000)).encode()
        assert call(s, "POST", f"/profiles?format=folded&i=n{i}", body)[0] == 200
    assert call(s, "POST", "/profiles?format=folded&i=small", b"main;a;b 7\n")[0] == 200
    kind = "profile:samples:count::"
    for path in ("flamegraph", "flamegraph?label=i", "flamegraph?invert=1", "top", "callers?function=main", "download?format=folded"):
        ask_for = f"/api/{path}{'&' if '?' in path else '?'}from=now-1h&query={kind}"
        status, data, headers = call(s, "GET", ask_for)
        assert status == 422 or (status == 503 and int(headers["Retry-After"]) > 0), (path, status, data[:200])
        assert "--memory" in json.loads(data)["error"]
        assert ask(s, "top", query=kind + "{i='small'}", from_="now-1h")["total"] == 7
    s.stop()


@pytest.mark.slow
def test_kill_minus_nine(serve, tmp_path):
    """LODE_KILLS=100 for the long run. Acknowledged profiles are there, and not twice if they are sent again."""
    (tmp_path / "empty").mkdir()
    data, acknowledged, lock = tmp_path / "data", {}, threading.Lock()
    rng, unsure, count = random.Random(11), [], [0]

    def sender(s, end):
        while time.monotonic() < end:
            with lock:
                count[0] += 1
                n = unsure.pop() if unsure and rng.random() < 0.5 else count[0]
            body = f"main;f{n % 50};g{n} {n}\nmain;h{n % 7} 1\n"
            try:
                status, _, _ = call(s, "POST", f"/profiles?n={n % 10}&time={1795000000000 + n}", body.encode(), timeout=20)
            except (OSError, http.client.HTTPException):
                status = 0
            with lock:
                if status == 200:
                    acknowledged[n] = n + 1
                else:
                    unsure.append(n)
            if not status:
                return

    for _ in range(int(os.environ.get("LODE_KILLS", "8"))):
        s = serve([tmp_path / "empty"], data=data)
        s.wait(lambda: s.get("/healthz").status == 200, "up")
        end = time.monotonic() + rng.uniform(0.05, 0.5)
        threads = [threading.Thread(target=sender, args=(s, end + 5)) for _ in range(3)]
        for t in threads:
            t.start()
        time.sleep(max(0, end - time.monotonic()))
        s.proc.send_signal(signal.SIGKILL)
        s.proc.wait()
        for t in threads:
            t.join()
        s.stop()
    s = serve([tmp_path / "empty"], data=data).ready()
    # A profile that was not acknowledged may be there or not; sent again, it is there once.
    for n in set(unsure) - set(acknowledged):
        body = f"main;f{n % 50};g{n} {n}\nmain;h{n % 7} 1\n"
        send(s, body.encode(), n=str(n % 10), time=str(1795000000000 + n))
        acknowledged[n] = n + 1
    assert acknowledged
    r = {"from_": 1795000000000, "to": 1796000000000}
    assert ask(s, "series", one=1, **r)["series"][0]["total"] == sum(acknowledged.values())
    graph = folded(ask(s, "flamegraph", min_share=0, **r))
    for n in acknowledged:
        assert graph[f"main;f{n % 50};g{n}"] == n
    assert sum(graph.values()) == sum(acknowledged.values())
