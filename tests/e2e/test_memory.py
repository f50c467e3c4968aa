# SPDX-License-Identifier: Apache-2.0
"""The memory budget (--memory): small inputs that inflate to much, and clients that hold much. The service stays within the
budget, says what it refuses, and answers others meanwhile."""

import gzip
import http.client
import json
import re
import socket
import subprocess
import threading
import time

import pytest

from making import NESTED_AT, bomb, healthy, nested, peak_mib, zeros
from compact import binary_request
from conftest import Program, build_id as build_id_of
from profiling import call, message, number
from pushing import lode, put

@pytest.mark.slow
def test_a_command_does_not_take_memory_by_a_section_s_claim(tmp_path):
    # Of the first some sections are read, of the second none.
    for mib, status, told in ((100, 0, "needs more memory than the"), (2047, 1, "are more than the")):
        path = tmp_path / f"{mib}.debug"
        path.write_bytes(bomb(mib, bytes(20), zeros(mib)))
        # 600 MB of address space hold the program itself and the limit of a small file.
        r = subprocess.run(["bash", "-c", 'ulimit -v 600000; exec "$@"', "-", lode_path(), "symtab", "build", path, "-o", tmp_path / "out"],
                           capture_output=True, text=True, timeout=60)
        assert r.returncode == status and told in r.stderr and ".debug_" in r.stderr, r.stderr


def returned(s, kind):
    """All memory of this class is granted back. That of a request may be so after its answer."""
    s.wait(lambda: s.metric(f'lode_memory_bytes{{class="{kind}"}}') == 0, f"the memory of class {kind} to be returned")


def lode_path():
    return lode("--version").args[0]


@pytest.mark.slow
def test_sections_that_inflate_to_gigabytes(serve, tmp_path):
    s = serve([tmp_path], args=["--memory", "256M", "--workers", "4"]).scanned()
    before = peak_mib(s)
    packed = zeros(100)
    ids = [bytes([i]) * 20 for i in range(1, 5)]
    for build_id in ids:
        assert put(s, f"/buildid/{build_id.hex()}/debuginfo", bomb(100, build_id, packed))[0] == 201
    replies = {}

    def ask(build_id):
        replies[build_id] = s.get(f"/buildid/{build_id.hex()}/symbolize?addr=0x1000&timeout=60", timeout=90)

    threads = [threading.Thread(target=ask, args=(i,)) for i in ids]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        began = time.monotonic()
        assert s.get("/metadata?key=glob&value=/nothing").status == 200
        assert time.monotonic() - began < 5
        time.sleep(0.05)
    assert peak_mib(s) - before < 256
    assert all(r.status in (200, 202) for r in replies.values())
    assert all(b'"partial"' in r.body and b'"skipped"' in r.body for r in replies.values() if r.status == 200)
    assert any(r.status == 200 for r in replies.values())
    returned(s, "table")
    healthy(s)


@pytest.mark.slow
def test_the_log_names_a_pushed_file_whose_table_is_incomplete(serve, tmp_path):
    s = serve([tmp_path], args=["--memory", "64M"]).scanned()
    assert put(s, f"/buildid/{'ab' * 20}/debuginfo", bomb(100, b"\xab" * 20, zeros(100)))[0] == 201
    s.get(f"/buildid/{'ab' * 20}/symbolize?addr=0x1000&timeout=60", timeout=90)
    s.wait(lambda: "parts are left out" in s.log_path.read_text(), "the warning")
    assert f"tables: build ID {'ab' * 20}: parts are left out" in s.log_path.read_text()


@pytest.mark.slow
def test_names_of_sources_in_sections_that_inflate(serve, tmp_path):
    """Of 64 MiB 25 per cent are for files that requests read: 100 MiB of strings do not fit."""
    pool, source, strings = tmp_path / "pool", tmp_path / "pool/a.c", {}
    pool.mkdir()
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-gz=none", "-Wl,--build-id", "-o", tmp_path / "a", source], check=True)
    for name in (".debug_str", ".debug_line_str"):
        strings[name] = tmp_path / name[1:]
        subprocess.run(["objcopy", f"--dump-section={name}={strings[name]}", tmp_path / "a", "/dev/null"], check=True)
        with open(strings[name], "ab") as f:
            f.write(bytes(100 << 20))
    subprocess.run(["objcopy", *(f"--update-section={n}={p}" for n, p in strings.items()), tmp_path / "a", tmp_path / "b"], check=True)
    subprocess.run(["objcopy", "--compress-debug-sections=zlib", tmp_path / "b", pool / "b"], check=True)
    path = f"/buildid/{build_id_of(pool / 'b')}/source{source}"
    s = serve([pool], args=["--memory", "64M"]).scanned()
    before = peak_mib(s)
    r = s.get(path, timeout=60)
    assert r.status == 503 and peak_mib(s) - before < 64
    returned(s, "file")
    healthy(s)


@pytest.mark.slow
def test_names_of_many_files_are_not_in_memory_at_once(serve, tmp_path):
    """An address of each file needs 16 MB of names. One request has some of the files, and one of them many times."""
    s = serve([tmp_path], args=["--memory", "128M"]).scanned()
    names = [b"n%05d" % i + b"a" * 16000 for i in range(1000)]
    ids = [bytes([i]) * 20 for i in range(1, 9)]
    for build_id in ids:
        assert put(s, f"/buildid/{build_id.hex()}/debuginfo", nested(build_id, names, 64))[0] == 201
        assert s.get(f"/buildid/{build_id.hex()}/symbolize?addr={NESTED_AT:x}&timeout=60").status == 200
    before = peak_mib(s)
    modules = [{"id": i.hex()} for i in ids + ids[:1] * 8]
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("POST", "/symbolize", json.dumps({"modules": modules, "addresses": [[i, NESTED_AT + i] for i in range(len(modules))]}))
    r = c.getresponse()
    assert r.status == 200 and all(m["status"] == "found" for m in json.loads(r.read())["modules"])
    assert peak_mib(s) - before < 64
    healthy(s)


@pytest.mark.slow
def test_names_that_many_requests_need_at_once(serve, tmp_path):
    """An address of each file needs 56 MB for its names, and eight workers answer at once."""
    s = serve([tmp_path], args=["--memory", "128M", "--workers", "8"]).scanned()
    names = [b"n%05d" % i + b"a" * 7000 for i in range(4000)]
    ids = [bytes([i]) * 20 for i in range(1, 9)]
    for build_id in ids:
        assert put(s, f"/buildid/{build_id.hex()}/debuginfo", nested(build_id, names, 64))[0] == 201
        assert s.get(f"/buildid/{build_id.hex()}/symbolize?addr=1&timeout=60").status == 200
    before = peak_mib(s)
    replies = []

    def ask(build_id):
        replies.append(s.get(f"/buildid/{build_id.hex()}/symbolize?addr={NESTED_AT:x}", timeout=60))

    threads = [threading.Thread(target=ask, args=(i,)) for i in 4 * ids]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert peak_mib(s) - before < 64
    # The memory that one may have is too little for it; it was used up for others, which may ask again.
    assert {json.loads(r.body)["addresses"][0]["status"] for r in replies} <= {"damaged", "busy"}
    returned(s, "file")
    small = b"\xab" * 20
    assert put(s, f"/buildid/{small.hex()}/debuginfo", nested(small, names[:10], 64))[0] == 201
    assert json.loads(s.get(f"/buildid/{small.hex()}/symbolize?addr={NESTED_AT:x}&timeout=60").body)["addresses"][0]["status"] == "found"
    healthy(s)


# ---- replies ----

ADDRS = 200000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return Program(tmp_path_factory.mktemp("program"), flags=("-g", "-O2"))


def question(program, n):
    main = int(subprocess.run(f"nm {program.debug} | grep ' main$'", shell=True, capture_output=True, text=True, check=True).stdout.split()[0], 16)
    return json.dumps({"modules": [{"id": build_id_of(program.debug)}], "addresses": [[0, main + i % 16] for i in range(n)]}).encode()


def post(s, body, version=11):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c._http_vsn, c._http_vsn_str = version, f"HTTP/{version // 10}.{version % 10}"
    c.request("POST", "/symbolize", body, {"Content-Type": "application/json"})
    r = c.getresponse()
    return r, r.read()


def serve_program(serve, program, tmp_path, *args):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/hello.debug").write_bytes(program.debug.read_bytes())
    return serve([tmp_path / "files"], args=args).scanned()


@pytest.mark.slow
def test_a_long_reply_in_chunks_is_the_same_as_short_ones(serve, program, tmp_path):
    s = serve_program(serve, program, tmp_path)
    short, text = post(s, question(program, 16))
    assert short.getheader("Content-Length") and short.status == 200
    want = json.loads(text)
    for version in (11, 10):
        long, text = post(s, question(program, 50000), version)
        got = json.loads(text)
        assert long.status == 200 and long.getheader("Content-Length") is None
        assert got["modules"] == want["modules"] and got["addresses"] == want["addresses"] * (50000 // 16)
    jobs = [{"memoryMap": [["hello", "0" * 33]], "stacks": [[[0, k] for k in range(i % 3)] for i in range(30000)]}] * 2
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("POST", "/symbolicate/v5", json.dumps({"jobs": jobs}))
    got = json.loads(c.getresponse().read())["results"]
    assert [[len(stack) for stack in job["stacks"]] for job in got] == [[i % 3 for i in range(30000)]] * 2
    assert all(frame["frame"] == k for job in got for stack in job["stacks"] for k, frame in enumerate(stack))


@pytest.mark.slow
def test_clients_that_do_not_read_their_replies(serve, program, tmp_path):
    s = serve_program(serve, program, tmp_path, "--memory", "256M")
    body = question(program, ADDRS)
    assert post(s, question(program, 16))[0].status == 200
    before = peak_mib(s)
    held = []
    for _ in range(24):
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.connect(("127.0.0.1", s.port))
        c.sendall(b"POST /symbolize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        held.append(c)
    first = []
    for c in held:
        c.settimeout(60)
        first.append(c.recv(300))
    assert all(f.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")) for f in first) and any(b" 200 " in f for f in first)
    for f in first:
        if b" 503 " in f:
            assert b"Retry-After" in f
    assert peak_mib(s) - before < 256
    assert s.get("/metadata?key=glob&value=/nothing").status == 200
    for c in held:
        c.close()
    returned(s, "reply")
    assert post(s, body)[0].status == 200
    healthy(s)


def rss_mib(s):
    status = open(f"/proc/{s.proc.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) >> 10


def functions_with_long_names(tmp_path, n):
    """A header with so many functions, of names of 600 letters."""
    path = tmp_path / "long_names.h"
    path.write_text("".join(f"int named_{i}_{'n' * 600}(int a) {{ return a + {i}; }}\n" for i in range(n)))
    return str(path)


@pytest.mark.slow
def test_clients_that_hang_up_in_the_midst_of_a_compact_answer_leave_nothing(serve, tmp_path):
    long = Program(tmp_path / "long", flags=("-g", "-O0", "-include", functions_with_long_names(tmp_path, 4000)))
    s = serve_program(serve, long, tmp_path)
    nm = subprocess.run(["nm", long.debug], capture_output=True, text=True, check=True).stdout.splitlines()
    places = sorted(int(line.split()[0], 16) for line in nm if " named_" in line)
    addrs = [places[0] + i * (places[-1] - places[0]) // 200000 for i in range(200000)]
    body = binary_request([(bytes.fromhex(build_id_of(long.debug)), addrs)])
    head = b"POST /symbolize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-lode-symbolize\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert post(s, question(long, 16))[0].status == 200
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", s.port)) as c:
        c.sendall(head + body)
        assert c.recv(12) == b"HTTP/1.1 200"
    took, before = time.monotonic() - began, rss_mib(s)
    for i in range(40):
        with socket.create_connection(("127.0.0.1", s.port)) as c:
            c.sendall(head + body)
            time.sleep(took * (i % 4 + 1) / 5)
    returned(s, "reply")
    # Each that is lost has up to 10 MiB.
    assert rss_mib(s) - before < 60


def metadata_of(n):
    """The answer of another server with results of some 400 bytes each."""
    return json.dumps({"results": [{"type": "debuginfo", "buildid": f"{i:040x}", "file": f"/{i}" + "x" * 300} for i in range(n)], "complete": True}).encode()


@pytest.mark.slow
def test_metadata_for_clients_that_do_not_read(serve, faulty, tmp_path):
    """Answers of other servers and of this one are granted while they are read and until they are sent."""
    path = "/metadata?key=file&value=/usr/bin/x"
    up = faulty({path.replace("/usr", "%2Fusr").replace("/bin/x", "%2Fbin%2Fx"): metadata_of(8000), path: metadata_of(8000)})
    s = serve([tmp_path], args=["--memory", "64M", "--debuginfod-upstream-servers", up.url, "--min-rate", "0"]).scanned()
    first = s.get(path, timeout=60)
    assert first.status == 200 and len(json.loads(first.body)["results"]) == 8000 and json.loads(first.body)["complete"]
    before = peak_mib(s)
    held, heads = [], []
    for _ in range(40):
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.connect(("127.0.0.1", s.port))
        c.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        c.settimeout(60)
        held.append(c)
        # One after the other: 40 that are read at once may refuse each other, all of them.
        heads.append(c.recv(300))
    assert all(h.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")) for h in heads)
    # Of those with all results, which have 3 MB, fewer than 40 fit into the memory for replies.
    whole = [h for h in heads if b" 200 " in h and int(h.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) > 2000000]
    assert 1 <= len(whole) <= 10
    assert s.metric('lode_memory_bytes{class="reply"}') <= 0.3 * (64 << 20)
    assert peak_mib(s) - before < 64
    for c in held:
        c.close()
    returned(s, "reply")
    assert len(json.loads(s.get(path, timeout=60).body)["results"]) == 8000
    healthy(s)


# ---- profiles and bodies ----

def post_profile(s, body):
    c = http.client.HTTPConnection("localhost", s.port, timeout=60)
    c.request("POST", "/profiles?service=x", body)
    r = c.getresponse()
    return r.status, r.getheader("Retry-After"), r.read().decode()


@pytest.mark.slow
def test_a_profile_of_many_tiny_strings(serve, tmp_path):
    s = serve([tmp_path], args=["--memory", "256M"]).scanned()
    before = peak_mib(s)
    status, _, text = post_profile(s, gzip.compress(b"\x32\0" + b"\x32\1a" * 30000000, 1))
    assert status == 413 and "--memory" in text
    assert peak_mib(s) - before < 256
    returned(s, "profile")
    assert post_profile(s, b"main;work 3\nmain;idle 4\n")[0] == 200


@pytest.mark.slow
def test_a_list_of_wanted_objects_takes_no_more_than_its_share(serve, tmp_path):
    """Its tree takes many times its size: that of 7 MB does not fit into 40 per cent of 64 MiB."""
    s = serve([tmp_path], args=["--memory", "64M"]).scanned()

    def want(n):
        one = {"build_id": "ab" * 20, "kind": "debuginfo", "sha256": "cd" * 32, "size": 1}
        c = http.client.HTTPConnection("localhost", s.port, timeout=60)
        c.request("POST", "/push/want", json.dumps({"objects": [one] * n}))
        r = c.getresponse()
        return r.status, r.read()

    status, text = want(48000)
    assert status in (413, 503) and b"--memory" in text
    assert want(100)[0] in (200, 400)
    returned(s, "body")
    healthy(s)


@pytest.mark.slow
def test_bodies_that_use_up_the_memory_for_bodies(serve, tmp_path):
    """Of 64 MiB 40 per cent are for bodies: two of 12 MiB that do not end are, a third one is not."""
    s = serve([tmp_path], args=["--memory", "64M"]).scanned()
    held = []
    for _ in range(2):
        c = http.client.HTTPConnection("localhost", s.port, timeout=60)
        c.putrequest("POST", "/profiles?service=x")
        c.putheader("Content-Length", str(13 << 20))
        c.endheaders()
        c.send(bytes(11 << 20))
        held.append(c)
    s.wait(lambda: s.metric('lode_memory_bytes{class="body"}') >= 22 << 20, "both to be received")
    status, retry, text = post_profile(s, bytes(12 << 20))
    assert (status, retry) == (503, "5") and "--memory" in text and "body" in text
    assert s.metric('lode_memory_refused_total{class="body"}') >= 1
    assert post_profile(s, b"main;work 3\n")[0] == 200
    for c in held:
        c.close()
    returned(s, "body")


def deep_profile(leaves, depth):
    """Folded stacks of one deep chain: their text is depth times as long as the tree that they make."""
    chain = ";".join(f"a_function_with_a_long_name_{'x' * 60}_{i}" for i in range(depth))
    return "".join(f"{chain};leaf_{i} 1\n" for i in range(leaves)).encode()


@pytest.mark.slow
def test_the_text_of_a_download_is_granted_as_it_grows(serve, tmp_path):
    """Much text of a small tree: refused before it is in memory, and a text that fits is whole."""
    s = serve([], data=tmp_path / "data", args=["--memory", "64M"]).ready()
    for k, leaves in enumerate((40, 2500)):
        for i in range(0, leaves, 250):
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            body = gzip.compress(deep_profile(min(250, leaves - i), 500).replace(b";leaf_", b";leaf_%d_" % i), 1)
            c.request("POST", f"/profiles?format=folded&service=s{k}", body, {"Content-Encoding": "gzip"})
            assert c.getresponse().status == 200
            c.close()
    query = "profile:samples:count::%7Bservice=%22s{}%22%7D"
    for form in ("folded", "speedscope", "pprof"):
        r = s.get(f"/api/download?format={form}&from=0&query={query.format(0)}")
        assert r.status == 200 and (form != "folded" or r.body.count(b"\n") == 40)
    rest = peak_mib(s)
    r = s.get(f"/api/download?format=folded&from=0&query={query.format(1)}")
    # 422: a text of 180 MB is more than queries may ever have
    assert r.status in (422, 503) and b"--memory" in r.body, (r.status, r.body[:300])
    assert peak_mib(s) - rest < 70, (rest, peak_mib(s))
    healthy(s)


def functions_of_a_long_file(n, mib):
    """pprof: @n functions, all of one source file with a name of @mib MiB."""
    strings = ["", "cpu", "count", "x" * (mib << 20)] + [f"f{i}" for i in range(n)]
    out = [message(1, number(1, 1) + number(2, 2))]
    for i in range(n):
        out.append(message(2, number(1, i + 1) + number(2, 1)))
        out.append(message(4, number(1, i + 1) + message(4, number(1, i + 1))))
        out.append(message(5, number(1, i + 1) + number(2, 4 + i) + number(4, 3)))
    return b"".join(out + [message(6, text.encode()) for text in strings])


def test_rows_with_long_texts_are_granted_as_they_are_written(serve, tmp_path):
    """Each row of a table repeats the texts of its function: the reply may be 300 times as long as the profile."""
    s = serve([], data=tmp_path / "data", args=["--memory", "128M"]).ready()
    status, data, _ = call(s, "POST", "/profiles?service=web", gzip.compress(functions_of_a_long_file(300, 1), 1))
    assert status == 200, data
    rest = peak_mib(s)
    r = s.get("/api/top?from=0&query=" + "profile:cpu:count::")
    assert r.status in (422, 503) and b"--memory" in r.body, (r.status, r.body[:300])
    assert peak_mib(s) - rest < 100, (rest, peak_mib(s))
    healthy(s)
