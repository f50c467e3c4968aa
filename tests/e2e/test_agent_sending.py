# SPDX-License-Identifier: Apache-2.0
"""lode agent: a server that goes away, uploads of debug information, receivers of OTLP."""

import gzip
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time

import pytest

from conftest import LODE, build_id
from profiling import Answerer, Taker, ask, fields
from pushing import lode
from sampling import CHAIN, Server, can_sample, compiled, running, state_of, stripped_chain, until  # noqa: F401


def start_time(pprof):
    return next(v for k, v in fields(pprof) if k == 9)


@pytest.mark.slow
def test_profiles_wait_for_a_server_that_is_away(can_sample, tmp_path, running):  # noqa: F811
    with Server() as server:
        server.away = True
        process = running("--to", server.url, "--window", "1", "-F", "99", "--label", "service=x y", "--node", "n1")
        spool = tmp_path / "state" / "spool"
        until(lambda: len(list(spool.glob("*.pb.gz"))) >= 2, "profiles in the spool")
        status = tmp_path / "state" / "status.json"
        until(lambda: status.exists() and json.loads(status.read_text())["send_error"], "the failure in the state")
        shown = lode("agent", "--status", "--state", tmp_path / "state").stdout
        assert "503" in (shown if isinstance(shown, str) else shown.decode())
        away_ns = time.time_ns()
        server.away = False
        until(lambda: not list(spool.glob("*.pb.gz")) and len(server.got) >= 3, "the spool to be sent")
        assert min(start_time(p) for _, p in server.got) < away_ns
        assert len({start_time(p) for _, p in server.got}) == len(server.got)
        assert server.got[0][0] == "/profiles?service=x%20y&node=n1&__name__=process_cpu"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


class Page(Answerer):
    """A proxy that answers everything with a page to log in, until it lets requests through."""

    def do_POST(self):
        body = self.body()
        self.server.got.append(body)
        self.answer(200 if self.server.is_open else self.server.status, self.server.receipt if self.server.is_open else self.server.page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b'{"error": "log in"}', b""])
def test_a_page_with_status_200_is_no_receipt(can_sample, tmp_path, running, page):  # noqa: F811
    page_is_no_receipt(tmp_path, running, "--to", "spool", page, b'{"profiles": 1, "samples": 1, "id": 1}', "not a lode server")


@pytest.mark.slow
@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b"\r\n<!DOCTYPE html><html>Please log in</html>"])
def test_a_page_with_status_200_is_no_receipt_of_otlp(can_sample, tmp_path, running, page):  # noqa: F811
    page_is_no_receipt(tmp_path, running, "--to-otlp", "spool-otlp", page, b"", "not a receiver of OTLP")


@pytest.mark.slow
@pytest.mark.parametrize("status", [407, 421])
def test_a_refusal_of_the_way_drops_no_profile(can_sample, tmp_path, running, status):  # noqa: F811
    """A proxy wants a password, or the server does not know the name that it is called by: both can be mended."""
    page_is_no_receipt(tmp_path, running, "--to", "spool", b"who are you", b'{"profiles": 1, "samples": 1, "id": 1}', f"answered {status}", status)


def page_is_no_receipt(tmp_path, running, option, folder, page, receipt, why, status=200):  # noqa: F811
    with Taker(Page) as server:
        server.got, server.is_open, server.page, server.receipt, server.status = [], False, page, receipt, status
        running(option, server.url, "--window", "1", "-F", "99")
        spool = tmp_path / "state" / folder
        until(lambda: len(list(spool.glob("*.pb.gz"))) >= 2, "profiles in the spool")
        until(lambda: state_of(tmp_path).get("send_error"), "the failure in the state")
        assert why in state_of(tmp_path)["send_error"] and not state_of(tmp_path)["profiles_sent"]
        server.is_open = True
        until(lambda: not list(spool.glob("*.pb.gz")), "the spool to be sent")


class Failing(Answerer):
    """A server that fails on one profile."""

    def do_POST(self):
        body = self.body()
        self.server.got.append(body)
        bad = body == b"bad"
        self.answer(500 if bad else 200, b"failed" if bad else b'{"profiles": 1, "samples": 1, "id": 1}')


@pytest.mark.slow
def test_a_profile_that_a_server_never_takes_keeps_no_other(can_sample, tmp_path, running):  # noqa: F811
    spool = tmp_path / "state" / "spool"
    spool.mkdir(parents=True)
    now_ms = int(time.time() * 1000)
    for i, body in enumerate([b"first", b"second", b"bad"]):
        (spool / f"{now_ms - 60000 + i:013d}-{i:08x}.pb.gz").write_bytes(body)
    with Taker(Failing) as server:
        server.got = []
        running("--to", server.url, "--window", "3600")
        until(lambda: len(list(spool.glob("*.pb.gz"))) == 1, "the other two to be sent")
        assert server.got[:3] == [b"bad", b"second", b"first"]
        until(lambda: len(server.got) > 3, "another try")
        assert server.got[3] == b"bad"


@pytest.mark.slow
def test_no_profile_is_dropped_while_a_server_is_silent(can_sample, tmp_path, running):  # noqa: F811
    """Fifteen windows end during a request without an answer: they go to the spool after it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        running("--to", f"http://127.0.0.1:{silent.getsockname()[1]}", "--window", "1", "-F", "99")
        until(lambda: state_of(tmp_path).get("spool_profiles", 0) >= 12, "profiles in the spool")
        assert state_of(tmp_path)["profiles_dropped"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--no-kernel", "--no-bpf"])
def test_a_moment_without_descriptors_does_not_end_the_agent(can_sample, tmp_path, running, option):  # noqa: F811
    """It looks for new processors every ten seconds."""
    with Server() as server:
        process = running("--to", server.url, "--window", "1", "-F", "99", option)
        until(lambda: server.got, "a profile")
        usual = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(12)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, usual)
        n = len(server.got)
        until(lambda: len(server.got) > n, "another profile")


# pthread_create() fails the Nth time, and later.
FEW_THREADS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
static atomic_int n;
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
	return atomic_fetch_add(&n, 1) + 1 >= atoi(getenv("FAIL_FROM")) ? EAGAIN : real(t, a, run, arg);
}
"""


def test_an_agent_without_threads_says_so(can_sample, tmp_path):  # noqa: F811
    """Whichever of its threads cannot be started at first."""
    (tmp_path / "few.c").write_text(FEW_THREADS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "few.so", tmp_path / "few.c", "-ldl"], check=True)
    said = []
    for n in range(2, 5):
        r = subprocess.run([LODE, "agent", "--to", "http://127.0.0.1:9", "--state", tmp_path / "state", "--duration", "1"], capture_output=True, text=True, timeout=60,
                           env={**os.environ, "LD_PRELOAD": str(tmp_path / "few.so"), "FAIL_FROM": str(n)})
        assert r.returncode == 1, (n, r)
        said.append(r.stderr.strip().rsplit("lode: agent: ", 1)[1])
    assert [s.split(":")[0] for s in said] == ["the thread that reads files", "the thread that uploads debug information", "the thread that sends profiles"]


@pytest.mark.slow
def test_the_state_has_no_password(can_sample, tmp_path, running):  # noqa: F811
    with Server() as server:
        running("--to", server.url.replace("http://", "http://alice:s3cret@"), "--window", "1")
        until(lambda: state_of(tmp_path).get("server"), "the state")
        assert state_of(tmp_path)["server"] == server.url
        assert "s3cret" not in (tmp_path / "state" / "status.json").read_text()


@pytest.mark.slow
def test_profiles_outlive_an_agent_that_is_killed(can_sample, tmp_path, running):  # noqa: F811
    """Those in its spool: the next agent sends each once, with the time of its window."""
    with Server() as server:
        server.away = True
        process = running("--to", server.url, "--window", "1", "-F", "99", "--node", "first")
        spool = tmp_path / "state" / "spool"
        until(lambda: len(list(spool.glob("*.pb.gz"))) >= 3, "profiles in the spool")
        process.kill()
        process.wait(30)
        killed_ns, kept = time.time_ns(), len(list(spool.glob("*.pb.gz")))
        server.away = False
        process = running("--to", server.url, "--window", "60", "-F", "99", "--node", "second")
        until(lambda: len(server.got) >= kept and not list(spool.iterdir()), "the spool to be sent")
        times = [start_time(p) for _, p in server.got]
        assert len(times) == len(set(times)) == kept and all(t < killed_ns for t in times), (times, killed_ns, kept)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [False, True])
def test_programs_themselves_are_uploaded_only_when_asked(can_sample, tmp_path, serve, running, asked):  # noqa: F811
    """A program that is stripped, without a debug file anywhere."""
    program = compiled(tmp_path, "chain", CHAIN, "-Wl,--build-id", "-s")
    s = serve([]).ready()
    with subprocess.Popen([program, "60000"]) as load:
        try:
            running("--to", s.url, "--window", "1", "-F", "99", "--relabel", "keep comm=chain", *(["--upload-executables"] if asked else []))
            if asked:
                until(lambda: s.get(f"/buildid/{build_id(program)}/executable").status == 200, "the program")
                assert s.get(f"/buildid/{build_id(program)}/executable").body == program.read_bytes()
            else:
                until(lambda: state_of(tmp_path).get("uploads_missing"), "the end of the search")
                assert state_of(tmp_path)["uploads"] == 0 and s.get(f"/buildid/{build_id(program)}/executable").status == 404
        finally:
            load.kill()


@pytest.mark.slow
def test_debug_information_is_brought_to_the_server(can_sample, tmp_path, serve, running):  # noqa: F811
    """The program is stripped, its debug file is below .debug: the server gets it, and names the functions and lines."""
    program = stripped_chain(tmp_path)
    s = serve([]).ready()
    load = subprocess.Popen([program, "60000"])
    try:
        running("--to", s.url, "--window", "1", "-F", "99", "--relabel", "keep comm=chain")

        def named():
            rows = ask(s, "top", query='{comm="chain"}', **{"from": "now-1h", "limit": 50})["rows"]
            return any(r["name"] == "burn_here" and r["file"].endswith("chain.c") for r in rows)

        until(named, "the names of the program's functions", 60)
        assert s.get(f"/buildid/{build_id(program)}/debuginfo").status == 200
        kernel = ask(s, "top", query='{comm="chain"}', **{"from": "now-1h", "limit": 1000})["rows"]
        assert all(r["name"] != "[no process]" for r in kernel[:3])
        labels = ask(s, "labels")["labels"]
        assert {"node", "comm"} <= set(labels)
    finally:
        load.kill()
        load.wait()


@pytest.mark.slow
def test_debug_files_are_those_of_the_mount_namespace(can_sample, tmp_path, serve, running):  # noqa: F811
    """A program in a mount namespace of its own, whose /usr/lib/debug this machine does not have."""
    if not pathlib.Path("/usr/lib/debug").is_dir() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace with a /usr/lib/debug of its own can be made here")
    program = compiled(tmp_path, "chain", CHAIN, "-Wl,--build-id")
    ident = build_id(program)
    subprocess.run(["objcopy", "--only-keep-debug", program, tmp_path / "chain.debug"], check=True)
    subprocess.run(["strip", program], check=True)
    place = f"/usr/lib/debug/.build-id/{ident[:2]}"
    inside = f"mount -t tmpfs none /usr/lib/debug && mkdir -p {place} /usr/lib/debug/far && cp {tmp_path}/chain.debug /usr/lib/debug/far/x.debug && ln -s /usr/lib/debug/far/x.debug {place}/{ident[2:]}.debug && exec {program} 60000"
    s = serve([]).ready()
    with subprocess.Popen(["unshare", "-m", "--propagation", "private", "/bin/sh", "-c", inside]) as load:
        try:
            running("--to", s.url, "--window", "1", "-F", "99", "--relabel", "keep comm=chain")
            until(lambda: s.get(f"/buildid/{ident}/debuginfo").status == 200, "the debug file of the namespace", 60)
            assert not pathlib.Path(place, ident[2:] + ".debug").exists()
        finally:
            load.kill()


class Keeper(Answerer):
    """A server of lode whose bucket goes away: it wants a debug file, and keeps what comes on its disk."""

    def do_POST(self):
        body = self.body()
        if self.path == "/push/want":
            answer = {"objects": [{"want": not self.server.kept, "offset": 0, "why": "held" if self.server.kept else None}]}
        else:
            answer = {"profiles": 1, "samples": 1, "id": 1, "duplicate": False, "wanted": [self.server.build_id]}
        self.server.asked += self.path == "/push/want"
        assert body
        self.answer(200, json.dumps(answer).encode())

    def do_PUT(self):
        self.server.kept += self.body()
        self.send_response(202)
        self.send_header("X-LODE-RESULT", "held")
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.slow
def test_a_debug_file_that_the_server_keeps_is_sent(can_sample, tmp_path, running):  # noqa: F811
    """The answer 202 with "held" ends an upload, as 201 does: it has not failed, and is not begun again."""
    program = stripped_chain(tmp_path)
    with Taker(Keeper) as server:
        server.kept, server.asked, server.build_id = b"", 0, build_id(program)
        with subprocess.Popen([program, "60000"]) as load:
            try:
                running("--to", server.url, "--window", "1", "-F", "99", "--relabel", "keep comm=chain")
                until(lambda: state_of(tmp_path).get("uploads") == 1, "the upload", 30)
            finally:
                load.kill()
        assert server.kept == (tmp_path / ".debug" / "chain.debug").read_bytes() and server.asked == 1


class Greedy(Keeper):
    """A server that takes one byte of each part."""

    def do_PUT(self):
        self.server.times.append(time.monotonic())
        first = int(self.headers["Content-Range"].split()[1].split("-")[0]) if "Content-Range" in self.headers else 0
        self.body()
        self.send_response(202)
        self.send_header("X-LODE-RESULT", "partial")
        self.send_header("X-LODE-OFFSET", str(first + 1))
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.slow
def test_a_server_that_takes_one_byte_of_each_part_is_left(can_sample, tmp_path, running):  # noqa: F811
    program = stripped_chain(tmp_path)
    with Taker(Greedy) as server:
        server.kept, server.asked, server.build_id, server.times = b"", 0, build_id(program), []
        with subprocess.Popen([program, "60000"]) as load:
            try:
                running("--to", server.url, "--window", "1", "-F", "99", "--relabel", "keep comm=chain", "--upload-rate", "64K")
                until(lambda: state_of(tmp_path).get("uploads_failed") == 1, "the end of the upload", 60)
            finally:
                load.kill()
        assert len(server.times) <= 5, len(server.times)


class Receiver(Answerer):
    """A receiver of OTLP: 503 first, then it rejects one profile, then it takes them."""

    def do_POST(self):
        body, n = self.body(), len(self.server.got)
        self.server.got.append((self.path, self.headers["Content-Type"], self.headers["Content-Encoding"], self.headers["Authorization"], body))
        if n == 0:
            self.answer(503, b"\x08\x0e\x12\x0bnot\x1byet now")
        else:
            self.answer(200, self.server.rejection if n == 1 else b"")


@pytest.mark.slow
@pytest.mark.parametrize("rejection", [b"\x0a\x08\x08\x01\x12\x04full", b'{"partialSuccess":{"rejectedProfiles":"1","errorMessage":"full"}}'])
def test_profiles_go_to_a_receiver_of_otlp(can_sample, tmp_path, running, rejection):  # noqa: F811
    with Taker(Receiver) as server:
        server.got, server.rejection = [], rejection
        (tmp_path / "token").write_text("secret")
        process = running("--to-otlp", server.url, "--window", "1", "-F", "99", "--node", "n1", "--label", "region=eu", "--token-file", tmp_path / "token")
        status = tmp_path / "state" / "status.json"
        until(lambda: status.exists() and "not?yet now" in json.loads(status.read_text())["send_error"] or len(server.got) >= 3, "three requests")
        until(lambda: len(server.got) >= 4, "four requests")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    path, kind, encoding, auth, body = server.got[0]
    assert (path, kind, encoding, auth) == ("/v1development/profiles", "application/x-protobuf", "gzip", "Bearer secret")
    resources = [r for k, r in fields(gzip.decompress(body)) if k == 1]
    assert resources and all(b"host.name" in r and b"n1" in r and b"region" in r for r in resources)
    assert any(b"process.executable.name" in r for r in resources)
    assert "rejected 1 profiles of a request: full" in (tmp_path / "agent.log").read_text()
    assert not list((tmp_path / "state" / "spool").glob("*")) if (tmp_path / "state" / "spool").exists() else True


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["gzip", "zstd", "none"])
def test_lode_takes_the_agents_otlp(can_sample, tmp_path, serve, running, packing):  # noqa: F811
    program = compiled(tmp_path, "chain", CHAIN)
    s = serve([]).ready()
    with subprocess.Popen([program, "60000"]) as load:
        try:
            running("--to-otlp", s.url, "--otlp-compression", packing, "--window", "1", "-F", "99", "--node", "n1", "--relabel", "keep comm=chain")

            def arrived():
                rows = ask(s, "top", query='process_cpu:cpu:nanoseconds:cpu:nanoseconds{process_executable_name="chain",host_name="n1"}', **{"from": "now-1h", "limit": 1000})["rows"]
                return sum(r["flat"] for r in rows) > 5e8
            until(arrived, "half a second of the program", 60)
            assert {"cpu", "samples"} <= {t.split(":")[1] for t in ask(s, "types")["types"]}
        finally:
            load.kill()
