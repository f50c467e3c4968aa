# SPDX-License-Identifier: Apache-2.0
"""lode serve --scrape: profiles pulled from programs, by a server on loopback that answers as the test says."""

import base64
import contextlib
import gzip
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading
import time

import jsonschema
import pytest

from profiling import Pprof, ask
from test_openapi import DOC, schema_of

CPU = (("samples", "count"), ("cpu", "nanoseconds"))
HEAP = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))
LOCKS = (("contentions", "count"), ("delay", "nanoseconds"))


def heap(allocs, inuse=10):
    """Objects allocated in each function since the start of the process."""
    p = Pprof(types=HEAP)
    for function, n in allocs.items():
        p.sample(["main", function], [n, n * 100, inuse, inuse * 100])
    return p.bytes()


class Program(http.server.ThreadingHTTPServer):
    """A program with pages of profiles: page[path] is bytes, or a function of the request handler. A context manager."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, pages, tls=None):
        self.pages, self.requests = pages, []
        program = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path, _, args = self.path.partition("?")
                program.requests.append((path, args, dict(self.headers)))
                page = program.pages.get(path)
                if page is None:
                    self.give(404, b"Unknown profile\n")
                elif callable(page):
                    page(self)
                else:
                    self.give(200, gzip.compress(page))

            def give(self, status, body, headers=()):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # lode has gone away

    def __exit__(self, *args):
        self.shutdown()
        super().__exit__(*args)

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def paths(self):
        return [path for path, _, _ in self.requests]


class Targets:
    """A file of targets, replaced as a whole."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def write(self, groups):
        text = groups if isinstance(groups, str) else json.dumps(groups)
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.rename(self.path)
        return self


@pytest.fixture
def scrape(serve, tmp_path):
    """scrape(groups) -> (Service, Targets)"""
    (tmp_path / "empty").mkdir()

    def start(groups, extra=None):
        file = Targets(tmp_path / "targets.json")
        if groups is not None:
            file.write(groups)
        s = serve([tmp_path / "empty"], args=["--scrape", str(file.path)], extra=extra)
        s.wait(lambda: targets(s)["files"][0]["read"] or "error" in targets(s)["files"][0], "the file is read")
        return s, file

    return start


def group(program, **more):
    """A group that is pulled every second."""
    address = program if isinstance(program, str) else program.address
    return {"targets": [address], "scrape_interval": "1s", "profiles": ["memory"], **more}


def targets(s):
    got = json.loads(s.get("/api/targets").body)
    jsonschema.validate(got, schema_of(DOC["paths"]["/api/targets"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]))
    return got


def endpoint(s, name="memory"):
    return next(p for t in targets(s)["targets"] for p in t["profiles"] if p["name"] == name)


def wait_for(s, what, name="memory", **values):
    s.wait(lambda: all(endpoint(s, name).get(k) == v for k, v in values.items()), what, 20)
    return endpoint(s, name)


def tried(s, slow=()):
    """The profile of each target, by the end of the target's path, when all were tried. On a busy machine a pull may time out: only those in @slow must."""
    def pulls():
        return {t["url"].rsplit("/", 1)[1]: t["profiles"][0] for t in targets(s)["targets"]}

    s.wait(lambda: all(p["result"] not in (("none",) if name in slow else ("none", "timeout")) for name, p in pulls().items()), "all are tried", 60)
    return pulls()


def total(s, kind, **labels):
    matchers = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return ask(s, "flamegraph", query=f"{kind}{{{matchers}}}", from_="now-1h")["total"]


def types(s):
    return set(ask(s, "types")["types"])


# ---- what is stored ----


def test_profiles_of_go_have_the_names_of_pyroscope(scrape):
    pages = {"/debug/pprof/profile": Pprof(types=CPU).sample(["main", "work"], [3, 30000000]).bytes(),
             "/debug/pprof/allocs": heap({"f": 5}),
             "/debug/pprof/goroutine": Pprof(types=(("goroutine", "count"),)).sample(["main"], [4]).bytes(),
             "/debug/pprof/mutex": Pprof(types=LOCKS).sample(["main", "lock"], [1, 1000]).bytes(),
             "/debug/pprof/block": Pprof(types=LOCKS).sample(["main", "wait"], [1, 1000]).bytes()}
    with Program(pages) as program:
        s, _ = scrape([{"targets": [program.address], "labels": {"job": "shop", "env": "test", "__scrape_interval__": "1s", "__meta_x": "1"}}])
        s.wait(lambda: all(p["stored"] >= 1 for p in targets(s)["targets"][0]["profiles"]), "all are pulled")
        got = targets(s)["targets"][0]
        assert got["labels"] == {"job": "shop", "env": "test", "service_name": "shop", "instance": program.address}
        assert {p["name"] for p in got["profiles"]} == {"process_cpu", "memory", "goroutine", "mutex", "block"}
        assert {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", "goroutines:goroutine:count:cpu:nanoseconds",
                "memory:inuse_space:bytes:cpu:nanoseconds"} <= types(s)
        assert total(s, "process_cpu:cpu:nanoseconds:cpu:nanoseconds", env="test", service_name="shop") >= 30000000
        # One second of it fits into the interval.
        assert ("/debug/pprof/profile", "seconds=1") in [r[:2] for r in program.requests]
        assert s.metric("lode_scrape_targets") == 1
        assert s.metric('lode_scrape_profiles{state="good"}') == 5
        assert s.metric('lode_scrapes_total{result="stored"}') >= 2


def test_counters_are_stored_as_differences(scrape):
    pages = {"/debug/pprof/allocs": heap({"f": 1000, "g": 50})}
    with Program(pages) as program:
        s, _ = scrape([group(program)])
        first = wait_for(s, "the base", result="base")
        assert first["restarts"] == 0
        # What is in use is no counter.
        assert types(s) == {"memory:inuse_objects:count:cpu:nanoseconds", "memory:inuse_space:bytes:cpu:nanoseconds"}
        pages["/debug/pprof/allocs"] = heap({"f": 1007, "g": 50, "h": 2})
        s.wait(lambda: total(s, "memory:alloc_objects:count:cpu:nanoseconds"), "a difference")
        wait_for(s, "two more pulls", result="stored")
        assert total(s, "memory:alloc_objects:count:cpu:nanoseconds") == 9
        assert total(s, "memory:alloc_space:bytes:cpu:nanoseconds") == 900


@pytest.mark.slow
def test_a_restarted_program_is_a_new_base(scrape):
    pages = {"/debug/pprof/mutex": Pprof(types=LOCKS).sample(["main", "lock"], [1000, 100000]).bytes()}
    with Program(pages) as program:
        s, _ = scrape([group(program, profiles=["mutex"])])
        wait_for(s, "the base", "mutex", result="base")
        pages["/debug/pprof/mutex"] = Pprof(types=LOCKS).sample(["main", "lock"], [10, 900]).bytes()
        wait_for(s, "the restart", "mutex", restarts=1)
        pages["/debug/pprof/mutex"] = Pprof(types=LOCKS).sample(["main", "lock"], [13, 950]).bytes()
        s.wait(lambda: total(s, "mutex:contentions:count:cpu:nanoseconds"), "a difference")
        assert total(s, "mutex:contentions:count:cpu:nanoseconds") == 3
        assert total(s, "mutex:delay:nanoseconds:cpu:nanoseconds") == 50
        assert s.metric("lode_scrape_restarts_total") == 1


def test_deltas_that_the_program_makes_are_stored_as_they_are(scrape):
    pages = {"/debug/pprof/delta_heap": heap({"f": 7}), "/app/wall": Pprof(types=(("wall", "nanoseconds"),)).sample(["main"], [5]).bytes()}
    with Program(pages) as program:
        s, _ = scrape([group(program, profiles={"godeltaprof_memory": True, "mine": {"path": "/app/wall?debug=0", "seconds": 1}})])
        wait_for(s, "the delta", "godeltaprof_memory", result="stored")
        wait_for(s, "another path", "mine", result="stored")
        assert total(s, "memory:alloc_objects:count:cpu:nanoseconds") % 7 == 0
        assert "wall:wall:nanoseconds:cpu:nanoseconds" in types(s)
        assert ("/app/wall", "debug=0&seconds=1") in [r[:2] for r in program.requests]


def test_a_program_on_a_unix_socket(scrape, tmp_path):
    path = tmp_path / "app.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        body = gzip.compress(heap({"f": 1}))
        reply = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body

        def answer():
            with contextlib.suppress(OSError):  # the test is over
                while True:
                    c, _ = listener.accept()
                    c.recv(4096)
                    c.sendall(reply)
                    c.close()

        threading.Thread(target=answer, daemon=True).start()
        s, _ = scrape([group(f"unix:{path}")])
        wait_for(s, "the profile", result="base")
        assert targets(s)["targets"][0]["url"] == f"unix:{path}"


# ---- the file ----


@pytest.mark.slow
def test_a_changed_file_keeps_the_state_of_its_targets(scrape):
    pages = {"/debug/pprof/allocs": heap({"f": 100})}
    with Program(pages) as program, Program(dict(pages)) as other:
        s, file = scrape([group(program)])
        wait_for(s, "the base", result="base")
        s.wait(lambda: endpoint(s)["stored"] >= 2, "a difference")
        had = endpoint(s)["stored"]
        file.write([group(other), group(program)])
        s.wait(lambda: len(targets(s)["targets"]) == 2, "another target")
        kept = next(t for t in targets(s)["targets"] if t["url"].endswith(program.address))["profiles"][0]
        assert kept["stored"] >= had and kept["result"] == "stored"
        file.write([group(other)])
        s.wait(lambda: [t["url"] for t in targets(s)["targets"]] == [f"http://{other.address}"], "a target is gone")
        asked = len(program.requests)
        s.wait(lambda: targets(s)["targets"][0]["profiles"][0]["stored"] >= 2, "the other one is pulled")
        assert len(program.requests) <= asked + 1


@pytest.mark.slow
def test_a_broken_file_keeps_the_old_targets(scrape):
    with Program({"/debug/pprof/allocs": heap({"f": 100})}) as program:
        s, file = scrape([group(program)])
        wait_for(s, "the base", result="base")
        for text, why in (("[{", "not JSON: line 1"), ('[{"targets": ["http://u:secret@h/x"]}]', "group 1: target 1"),
                          ('[{"targets": [], "interval": "1s"}]', "'interval' is none of"), ("{}", "not a list of groups")):
            file.write(text)
            s.wait(lambda: why in targets(s)["files"][0].get("error", ""), why)
            assert s.metric("lode_scrape_files_broken") == 1
            assert len(targets(s)["targets"]) == 1
        os.remove(file.path)
        s.wait(lambda: "no such file" in targets(s)["files"][0]["error"], "the file is gone")
        had = endpoint(s)["stored"]
        s.wait(lambda: endpoint(s)["stored"] > had, "it is pulled on")
        file.write([group(program), group(program)])
        s.wait(lambda: "error" not in targets(s)["files"][0], "the file is good again")
        assert targets(s)["duplicates"] == 1 and len(targets(s)["targets"]) == 1
        log = s.log_path.read_text()
        assert "its 1 targets from before stay until the file is corrected" in log and "secret" not in log


def test_without_the_file_the_service_starts_and_waits_for_it(scrape):
    s, file = scrape(None)
    assert "no such file" in targets(s)["files"][0]["error"]
    with Program({"/debug/pprof/allocs": heap({"f": 100})}) as program:
        file.write([group(program)])
        s.wait(lambda: targets(s)["targets"], "the file is there")
        wait_for(s, "the base", result="base")


def test_without_a_profile_store_it_does_not_start(serve, tmp_path):
    s = serve([tmp_path], args=["--scrape", "x.json", "--no-profiles"])
    assert s.proc.wait(20) != 0
    assert "--scrape needs a profile store" in s.log_path.read_text()


# ---- credentials ----


@pytest.mark.slow
def test_credentials_are_sent_and_never_shown(scrape, tmp_path):
    (tmp_path / "token").write_text("t0ps3cret\n")
    (tmp_path / "password").write_text("hunter2")

    def guarded(handler):
        if handler.headers.get("Authorization") in ("Bearer t0ps3cret", "Basic " + base64.b64encode(b"bob:hunter2").decode()):
            handler.give(200, heap({"f": 1}))
        else:
            handler.give(401, b"go away\n")

    with Program({"/debug/pprof/allocs": guarded, "/basic/debug/pprof/allocs": guarded, "/none/debug/pprof/allocs": guarded}) as program:
        s, _ = scrape([group(program, authorization={"credentials_file": "token"}),
                       group(program, path_prefix="/basic/", basic_auth={"username": "bob", "password_file": str(tmp_path / "password")}),
                       group(program, labels={"__profile_path_prefix__": "/none"})])
        s.wait(lambda: sum(t["profiles"][0]["stored"] > 0 for t in targets(s)["targets"]) == 2, "two are let in")
        s.wait(lambda: targets(s)["targets"][0]["failing"], "the third is not")
        assert targets(s)["targets"][0]["profiles"][0]["error"] == "status 401: go away; check authorization or basic_auth of its group"
        os.remove(tmp_path / "token")
        s.wait(lambda: any("no such file" in p.get("error", "") for t in targets(s)["targets"] for p in t["profiles"]), "the token is gone")
        (tmp_path / "token").write_text("t0ps3cret")
        s.wait(lambda: targets(s)["targets"][1]["failing"] == 0, "the token is there again")
        shown = s.get("/api/targets").body + s.get("/metrics").body + s.log_path.read_bytes() + s.get("/api/status").body
        for secret in (b"t0ps3cret", b"hunter2", base64.b64encode(b"bob:hunter2"), str(tmp_path).encode() + b"/token\""):
            assert secret not in shown


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A CA, and a certificate of it for app.test (not for 127.0.0.1)."""
    d = tmp_path_factory.mktemp("ca")

    def run(*args):
        subprocess.run(["openssl", *args], cwd=d, check=True, capture_output=True)

    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=CA")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "app.key", "-out", "app.csr", "-subj", "/CN=app")
    (d / "ext").write_text("subjectAltName=DNS:app.test\n")
    run("x509", "-req", "-in", "app.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "app.pem", "-days", "2", "-extfile", "ext")
    return d


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_tls_with_a_ca_a_name_and_a_client_certificate(scrape, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "app.pem", authority / "app.key")
    context.load_verify_locations(authority / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    pages = {f"/{n}/debug/pprof/allocs": heap({"f": 1}) for n in ("good", "untrusted", "misnamed", "insecure")}
    pages["/good/debug/pprof/allocs"] = lambda h: h.give(200 if h.connection.getpeercert() else 403, heap({"f": 1}))
    ca = {"ca_file": str(authority / "ca.pem")}
    with Program(pages, context) as program:
        def https(name, **tls):
            return group(program, scheme="https", path_prefix=f"/{name}", tls_config=tls)

        s, _ = scrape([https("good", **ca, server_name="app.test", cert_file=str(authority / "app.pem"), key_file=str(authority / "app.key")),
                       https("untrusted", server_name="app.test"), https("misnamed", **ca), https("insecure", insecure_skip_verify=True)])
        got = tried(s)
        # A slow machine has pulled a second time by now: "stored", and not "base" any more.
        reached = {n: p["result"] in ("base", "stored") for n, p in got.items()}
        assert reached == {"good": True, "untrusted": False, "misnamed": False, "insecure": True}, got
        assert got["untrusted"]["result"] == got["misnamed"]["result"] == "unreachable"
        assert "TLS" in got["untrusted"]["error"] and "TLS" in got["misnamed"]["error"]
        # The Host is that of the target.
        assert program.requests[0][2]["Host"].startswith("127.0.0.1")


# ---- targets that misbehave ----


def endless(handler, piece=b"x" * 65536, pause=0):
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(piece)
            time.sleep(pause)
    except OSError:
        handler.close_connection = True


def test_bad_answers_are_told_in_words(scrape):
    pages = {"/html/debug/pprof/allocs": lambda h: h.give(200, b"<html>Please log in</html>"),
             "/empty/debug/pprof/allocs": lambda h: h.give(200, b""),
             "/cut/debug/pprof/allocs": lambda h: h.give(200, gzip.compress(heap({"f": 1}))[:-9]),
             "/busy/debug/pprof/allocs": lambda h: h.give(503, b"later\n", [("Retry-After", "600")]),
             "/away/debug/pprof/allocs": lambda h: h.give(302, b"", [("Location", "http://127.0.0.2:1/x")]),
             "/disk/debug/pprof/allocs": lambda h: h.give(302, b"", [("Location", "file:///etc/passwd")]),
             "/near/debug/pprof/allocs": lambda h: h.give(302, b"", [("Location", "/gzip/debug/pprof/allocs")]),
             "/gzip/debug/pprof/allocs": lambda h: h.give(200, gzip.compress(heap({"f": 1})), [("Content-Encoding", "gzip")])}
    with Program(pages) as program:
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))
        nobody = group(f"127.0.0.1:{closed.getsockname()[1]}", path_prefix="/nobody")
        s, _ = scrape([nobody, group(program, path_prefix="/none"), *(group(program, path_prefix=path.partition("/debug")[0]) for path in pages)])
        got = tried(s)
        closed.close()
        assert {n: p["result"] for n, p in got.items()} == {
            "nobody": "unreachable", "none": "status", "html": "invalid", "empty": "invalid", "cut": "invalid", "busy": "status",
            "away": "unreachable", "disk": "unreachable", "near": "base", "gzip": "base"}, got
        assert "Connection refused" in got["nobody"]["error"]
        assert got["none"]["error"] == "status 404: Unknown profile; the program has no such profile, or path_prefix is wrong"
        assert "redirects to another host" in got["away"]["error"] and "scheme other than" in got["disk"]["error"]
        assert "empty" in got["empty"]["error"]
        # It asked for ten minutes.
        assert got["busy"]["next"] - time.time() * 1000 > 500000
        assert s.log_path.read_text().count("/html/debug/pprof/allocs: its answer") == 1


@pytest.mark.slow
def test_hostile_targets_are_bounded(scrape):
    bomb = gzip.compress(b"\x0a" * (1 << 20) * 300)
    pages = {"/endless/debug/pprof/allocs": endless,
             "/trickle/debug/pprof/allocs": lambda h: endless(h, b"x", 0.05),
             "/silent/debug/pprof/allocs": lambda h: time.sleep(30),
             "/bomb/debug/pprof/allocs": lambda h: h.give(200, bomb),
             "/coded/debug/pprof/allocs": lambda h: h.give(200, bomb, [("Content-Encoding", "gzip")])}
    with Program(pages) as program:
        s, _ = scrape([group(program, path_prefix=path.partition("/debug")[0]) for path in pages])
        got = tried(s, slow=("trickle", "silent", "endless", "bomb", "coded"))
        assert got["trickle"]["result"] == got["silent"]["result"] == "timeout", got
        assert got["endless"]["result"] in ("too_large", "timeout") and got["coded"]["result"] in ("too_large", "timeout"), got
        assert got["bomb"]["result"] in ("too_large", "invalid", "busy", "timeout"), got
        assert all(p["duration"] < 25000 for p in got.values()), got  # silent would answer after 30 s
        peak = int(next(line for line in open(f"/proc/{s.proc.pid}/status") if line.startswith("VmHWM")).split()[1])
        assert peak < 1 << 20, f"{peak} KiB"


@pytest.mark.slow
def test_a_failing_target_is_asked_less_often(scrape):
    with Program({}) as program:
        s, _ = scrape([group(program)])
        s.wait(lambda: endpoint(s)["failures"] >= 3, "three failures", 20)
        p = endpoint(s)
        # The fourth comes after four intervals, less a fifth at most.
        assert p["next"] - p["start"] > 3000
        program.pages["/debug/pprof/allocs"] = heap({"f": 1})
        wait_for(s, "it is good again", failures=0)
        log = s.log_path.read_text()
        assert log.count("status 404") == 1 and "profiles come again, after" in log


def test_the_service_stops_at_once_while_profiles_are_taken(scrape):
    with Program({"/debug/pprof/profile": lambda h: time.sleep(30), "/debug/pprof/allocs": heap({"f": 1})}) as program:
        s, _ = scrape([group(program, scrape_interval="60s", profiles={"process_cpu": {"seconds": 30}}),
                       *(group(program, labels={"n": str(i)}, profiles=["process_cpu", "memory"]) for i in range(20))])
        s.wait(lambda: program.paths().count("/debug/pprof/profile") >= 10, "profiles are taken")
        start = time.monotonic()
        assert s.stop() == 0
        assert time.monotonic() - start < 5
