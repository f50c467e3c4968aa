# SPDX-License-Identifier: Apache-2.0
"""lode agent: a server that goes away, uploads of debug information, receivers of OTLP."""

import gzip
import json
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import build_id
from profiling import Answerer, Taker, ask, fields
from pushing import lode
from sampling import CHAIN, Server, can_sample, compiled, running, until  # noqa: F401


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


@pytest.mark.slow
def test_debug_information_is_brought_to_the_server(can_sample, tmp_path, serve, running):  # noqa: F811
    """The program is stripped, its debug file is below .debug: the server gets it, and names the functions and lines."""
    program = compiled(tmp_path, "chain", CHAIN)
    (tmp_path / ".debug").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", program, tmp_path / ".debug" / "chain.debug"], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path / '.debug' / 'chain.debug'}", program], check=True)
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


class Receiver(Answerer):
    """A receiver of OTLP: 503 first, then it rejects one profile, then it takes them."""

    def do_POST(self):
        body, n = self.body(), len(self.server.got)
        self.server.got.append((self.path, self.headers["Content-Type"], self.headers["Content-Encoding"], self.headers["Authorization"], body))
        if n == 0:
            self.answer(503, b"\x08\x0e\x12\x0bnot\x1byet now")
        else:
            self.answer(200, b"\x0a\x08\x08\x01\x12\x04full" if n == 1 else b"")


@pytest.mark.slow
def test_profiles_go_to_a_receiver_of_otlp(can_sample, tmp_path, running):  # noqa: F811
    with Taker(Receiver) as server:
        server.got = []
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
