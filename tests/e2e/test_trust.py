# SPDX-License-Identifier: Apache-2.0
"""Who may do what: other users of the machine, proxies, browsers' pages of other sites, shared caches, an empty token file."""

import contextlib
import os
import shutil
import socket
import subprocess
import time

import pytest

import http2
from browser import Browser
from conftest import LODE, free_port
from making import elf, fetch, healthy, new_id, pool
from pushing import bearer, put, server, token

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
OTHER_UID = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
needs_nginx = pytest.mark.skipif(not os.path.exists(NGINX), reason="no nginx")


@contextlib.contextmanager
def as_user(uid):
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def raw(port, text, uid=0):
    """The reply to these bytes, sent by a socket of this user."""
    with as_user(uid) if uid else contextlib.nullcontext():
        k = socket.socket()
    with k:
        k.settimeout(30)
        k.connect(("127.0.0.1", port))
        k.sendall(text)
        got = b""
        with contextlib.suppress(ConnectionError):
            while piece := k.recv(65536):
                got += piece
    return got


def status_of(reply):
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.1 ") else 0


def request(method, path, body=b"", headers=(), host="localhost"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# ---- users ----

@needs_root
def test_another_user_of_the_machine_may_only_read(server, elf):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    for uid, want in ((OTHER_UID, 403), (65534, 403), (0, 201)):
        reply = raw(s.port, request("PUT", path, elf.debug), uid)
        assert status_of(reply) == want, (uid, reply[:600])
    for uid in (OTHER_UID, 65534):
        assert status_of(raw(s.port, request("GET", path), uid)) == 200
        assert status_of(raw(s.port, request("DELETE", path), uid)) == 403
        assert status_of(raw(s.port, request("POST", "/profiles", b"a;b 3\n"), uid)) == 403
    assert status_of(raw(s.port, request("DELETE", path))) == 200
    healthy(s)


@needs_root
def test_a_socket_that_its_owner_closed_is_nobodys(server, elf):
    """The kernel reports root as the user of a socket without a process."""
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    for _ in range(20):
        with as_user(OTHER_UID):
            k = socket.socket()
        k.connect(("127.0.0.1", s.port))
        k.sendall(request("PUT", path, elf.debug))
        k.close()
    s.wait(lambda: s.log_path.read_text().count("PUT /buildid") == 20, "the requests to be logged")
    assert fetch(s, path)[0] == 404


@needs_root
def test_a_service_of_another_user_trusts_that_user_and_root(elf, pool, tmp_path):
    """The service of a user who is not root."""
    try:
        subprocess.run(["true"], user=OTHER_UID, group=OTHER_UID, extra_groups=[], check=True)
    except PermissionError:
        pytest.skip("somebody else may run nothing here")
    port, data = free_port(), tmp_path / "data"
    data.mkdir()
    os.chown(data, OTHER_UID, OTHER_UID)
    for p in (tmp_path, *tmp_path.parents):
        if p.stat().st_uid == os.getuid() and p != p.parent and not p.stat().st_mode & 1:
            os.chmod(p, p.stat().st_mode | 0o055)
    # The build folder may be one that other users may not enter.
    lode = tmp_path / "lode"
    shutil.copy(LODE, lode)
    os.chmod(lode, 0o755)
    with open(tmp_path / "log", "wb") as log:
        p = subprocess.Popen([str(lode), "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data), "--no-upstream", str(pool)],
                             stdout=log, stderr=log, user=OTHER_UID, group=OTHER_UID, extra_groups=[])
    try:
        end = time.monotonic() + 30
        while b"listening" not in (tmp_path / "log").read_bytes():
            assert time.monotonic() < end and p.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.02)
        path = f"/buildid/{elf.id}/debuginfo"
        for uid, want in ((OTHER_UID + 1, 403), (OTHER_UID, 201), (0, 200)):
            assert status_of(raw(port, request("PUT", path, elf.debug), uid)) == want, uid
    finally:
        p.terminate()
        p.wait(30)


@needs_root
def test_a_unix_socket_has_the_user_who_connects(server, elf, tmp_path):
    at = tmp_path / "lode.sock"
    for p in (tmp_path, *tmp_path.parents):
        if not p.stat().st_mode & 1:
            os.chmod(p, p.stat().st_mode | 0o011)
    s = server(["--listen", f"unix:{at}"])
    path = f"/buildid/{elf.id}/debuginfo"

    def ask(uid, *args):
        out = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", str(at), *args],
                             input=elf.debug, capture_output=True, user=uid, extra_groups=[])
        return int(out.stdout)

    url = f"http://localhost{path}"
    (tmp_path / "x").write_bytes(elf.debug)
    os.chmod(tmp_path / "x", 0o644)
    assert ask(OTHER_UID, "-T", str(tmp_path / "x"), url) == 403
    assert ask(0, "-T", str(tmp_path / "x"), url) == 201
    assert ask(OTHER_UID, url) == 200
    assert ask(0, "-H", "X-Forwarded-For: 192.0.2.1", "-X", "DELETE", url) == 403
    assert ask(0, "-X", "DELETE", url) == 200
    # The access log has a thread of its own.
    end = time.monotonic() + 30
    while " unix:0 " not in s.log_path.read_text():
        assert time.monotonic() < end, s.log_path.read_text()
        time.sleep(0.02)
    s.stop()
    assert not at.exists()
    # Left from a process that was killed: it is replaced. One in use is not.
    with socket.socket(socket.AF_UNIX) as k:
        k.bind(str(at))
    t = server(["--listen", f"unix:{at}"])
    assert ask(0, f"http://localhost{path}") == 404
    other = subprocess.run([LODE, "serve", "--listen", f"unix:{at}", "--data", str(tmp_path / "other"), "--no-upstream", str(tmp_path / "none")],
                           capture_output=True, text=True, timeout=60)
    assert other.returncode and "another program listens there" in other.stderr
    healthy(t)


def test_clients_of_lode_reach_a_unix_socket(server, elf, tmp_path):
    at = tmp_path / "lode.sock"
    s = server(["--listen", f"unix:{at}"])
    (tmp_path / "x.debug").write_bytes(elf.debug)

    def run(*args, url=f"unix:{at}", **kw):
        env = dict(os.environ, DEBUGINFOD_URLS=url, DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"), http_proxy="http://127.0.0.1:1")
        return subprocess.run([LODE, *map(str, args)], env=env, capture_output=True, text=True, timeout=60, **kw)

    out = run("push", tmp_path / "x.debug", "--to", f"unix:{at}")
    assert out.returncode == 0, out.stderr
    out = run("debuginfod-find", "-v", "debuginfo", elf.id)
    assert out.returncode == 0, out.stderr
    assert open(out.stdout.strip(), "rb").read() == elf.debug
    assert f"unix:{at}/buildid/{elf.id}/debuginfo" in out.stderr
    (tmp_path / "folded").write_text("a;b 3\n")
    out = run("send", tmp_path / "folded", "--to", f"unix:{at}", "--label", "service=x")
    assert out.returncode == 0 and "http" not in out.stdout, out.stderr
    # Another service asks it as its upstream server.
    t = server(["--debuginfod-upstream-servers", f"unix:{at}"], data=tmp_path / "other")
    assert fetch(t, f"/buildid/{elf.id}/debuginfo")[0] == 200
    t.stop()
    # What is wrong with the socket is said.
    out = run("push", tmp_path / "x.debug", "--to", f"unix:{tmp_path}/none.sock", "--retries", "0")
    assert out.returncode != 0 and "No such file" in out.stderr, out.stderr
    assert "--listen unix:" in out.stderr
    with socket.socket(socket.AF_UNIX) as k:
        k.bind(str(tmp_path / "left.sock"))
    out = run("push", tmp_path / "x.debug", "--to", f"unix:{tmp_path}/left.sock", "--retries", "0")
    assert out.returncode != 0 and "no server listens" in out.stderr, out.stderr
    s.stop()


# ---- proxies ----

class Nginx:
    """nginx before a service, with the lines of its location; started as root, so its workers are www-data."""

    def __init__(self, tmp_path, upstream, lines="", http=""):
        self.port, self.dir = free_port(), tmp_path / "nginx"
        self.dir.mkdir()
        os.chmod(self.dir, 0o777)
        (self.dir / "conf").write_text(f"""
            daemon off; worker_processes 1; pid {self.dir}/pid; error_log {self.dir}/error.log;
            events {{ worker_connections 64; }}
            http {{ log_format up '$upstream_status $request'; access_log {self.dir}/access.log up; client_body_temp_path {self.dir}/body; proxy_temp_path {self.dir}/temp; fastcgi_temp_path {self.dir}/f;
                uwsgi_temp_path {self.dir}/u; scgi_temp_path {self.dir}/s; {http}
                server {{ listen 127.0.0.1:{self.port}; location / {{ proxy_pass http://127.0.0.1:{upstream}; {lines} }} }} }}""")
        self.proc = subprocess.Popen([NGINX, "-c", str(self.dir / "conf"), "-e", str(self.dir / "error.log")],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                assert time.monotonic() < end and self.proc.poll() is None, (self.dir / "error.log").read_text()
                time.sleep(0.02)

    def stop(self):
        self.proc.terminate()
        self.proc.wait(20)


@pytest.fixture
def nginx(tmp_path):
    made = []

    def start(*args, **kw):
        made.append(Nginx(tmp_path, *args, **kw))
        return made[-1]

    yield start
    for n in made:
        n.stop()


@needs_nginx
@pytest.mark.parametrize("lines", ["", "proxy_http_version 1.1; proxy_set_header Connection '';"], ids=["default", "1.1"])
def test_a_bare_proxy_gives_nobody_rights(server, elf, nginx, lines):
    """Its default sends no header about its client."""
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    if lines and os.geteuid() != 0:
        pytest.skip("a proxy of our own user cannot be told")
    n = nginx(s.port, lines=lines)
    assert status_of(raw(n.port, request("PUT", path, elf.debug))) == 403
    assert status_of(raw(n.port, request("POST", "/profiles", b"a;b 3\n"))) == 403
    assert status_of(raw(s.port, request("PUT", path, elf.debug))) == 201
    assert status_of(raw(n.port, request("DELETE", path))) == 403
    assert status_of(raw(n.port, request("GET", path))) == 200


SECOND = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"POST /symbolize HTTP/1.1\r\nHost: localhost\r\n"
AMBIGUOUS = [
    BODY + b"Content-Length: 5\r\nContent-Length: %d\r\n\r\nhello" % (5 + len(SECOND)),
    BODY + b"Content-Length: 5, 5\r\n\r\nhello",
    BODY + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(SECOND)),
    BODY + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    BODY + b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello",
    BODY + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 5\r\n\r\nhello",
    BODY + b"Transfer-Encoding\r\n : chunked\r\nContent-Length: 5\r\n\r\nhello",
    BODY + b"X: y\nContent-Length: %d\r\n\r\n" % len(SECOND),
    BODY + b"X: y\rContent-Length: %d\r\n\r\n" % len(SECOND),
    BODY + b"X: y\r\n Content-Length: %d\r\n\r\n" % len(SECOND),
    BODY + b"Content-Length : %d\r\n\r\n" % len(SECOND),
    BODY + b"Content-Length: 5\r\n\n",
    BODY + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
    BODY + b"Transfer-Encoding: chunked\r\n\r\n10;\n0\r\naaaaaaaaaaaaa\r\n0\r\n%x;a:b\r\n\r\n%s\r\n0\r\n\r\n" % (2 + len(SECOND), SECOND),
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /healthz HTTP/1.1\nHost: a\n\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(SECOND),
]


@needs_nginx
def test_nothing_is_smuggled_through_a_proxy(server, nginx):
    """The proxy and the server count the same requests, whatever a client sends."""
    s = server()
    n = nginx(s.port, lines="proxy_http_version 1.1; proxy_set_header Connection ''; proxy_request_buffering off;")
    for text in AMBIGUOUS:
        with socket.create_connection(("127.0.0.1", n.port)) as k:
            k.settimeout(0.3)
            k.sendall(text + SECOND)
            with contextlib.suppress(OSError):
                while k.recv(65536):
                    pass
    assert status_of(raw(n.port, request("GET", "/last"))) == 404
    passed = [line for line in (n.dir / "access.log").read_text().splitlines() if not line.startswith("- ")]
    s.wait(lambda: "GET /last " in s.log_path.read_text(), "the log")
    taken = [line for line in s.log_path.read_text().splitlines() if " http: " in line and "/readyz" not in line]
    assert len(passed) == len(taken), (passed, taken)
    healthy(s)


@needs_nginx
def test_a_shared_cache_does_not_serve_without_a_token(server, elf, nginx):
    s = server(["--require-read-token"])
    made = subprocess.run([LODE, "token", "--data", str(s.data), "add", "ci"], capture_output=True, text=True, check=True).stdout.strip()
    token = f"Authorization: Bearer {made}"
    path = f"/buildid/{elf.id}/debuginfo"
    s.wait(lambda: s.get("/api/status", headers=dict([token.split(": ")])).status == 200, "the token to be read")
    assert put(s, path, elf.debug, dict([token.split(": ")]))[0] == 201
    n = nginx(s.port, http="proxy_cache_path /dev/shm/lode-cache-%d keys_zone=z:1m;" % free_port(),
              lines="proxy_cache z; proxy_cache_valid any 10m; add_header X-Cache $upstream_cache_status;")
    for p in (path, f"/buildid/{elf.id}/section/.debug_info", "/api/status", "/", "/metrics", "/api/types", "/web/main.js"):
        assert status_of(raw(n.port, request("GET", p))) == 401, p
        assert status_of(raw(n.port, request("GET", p, headers=[token]))) in (200, 404), p
        again = raw(n.port, request("GET", p, headers=[token]))
        assert b"X-Cache: HIT" not in again, again[:500]
        assert status_of(raw(n.port, request("GET", p))) == 401, p
    assert b"Cache-Control: private, max-age" in raw(s.port, request("GET", path, headers=[token]))
    assert b"Vary: Authorization" in raw(s.port, request("GET", path, headers=[token]))


def test_what_anyone_may_read_may_be_cached(server, elf):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, elf.debug)[0] == 201
    assert b"Cache-Control: public, max-age" in raw(s.port, request("GET", path))


# ---- tokens ----

def held_body(port, path, announced, sent):
    """A connection that leaves a request without the end of its body."""
    k = socket.create_connection(("127.0.0.1", port))
    k.settimeout(30)
    with contextlib.suppress(ConnectionError):
        k.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/proto\r\n{announced}\r\n\r\n".encode() + sent)
    return k


def unread_bytes(port):
    """Bytes that the server has not read yet, on all connections to this port."""
    with open("/proc/net/tcp") as table:
        sockets = [line.split() for line in table.readlines()[1:]]
    return sum(int(x[4].split(":")[1], 16) for x in sockets if x[1].endswith(f":{port:04X}"))


def test_bodies_without_a_token_take_no_room_of_calls_with_one(server):
    """The health check needs none: its message is small, by its announced size and by its bytes."""
    s = server(["--require-read-token"])
    health, mine = "/grpc.health.v1.Health/Check", bearer(token(s, "mine"))
    asked = ("/querier.v1.QuerierService/ProfileTypes", "/parca.debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload")
    message = {"Content-Type": "application/json", **mine}
    with contextlib.ExitStack() as held:
        for i in range(32):
            announced, start = ("Transfer-Encoding: chunked", b"fffff\r\n") if i % 2 else (f"Content-Length: {1 << 20}", b"")
            held.enter_context(held_body(s.port, health, announced, start + bytes(0xfffff)))
        for path in asked:
            status, _, text = put(s, path, b'{"buildId": "%s"}' % (b"ab" * 20), message, "POST")
            assert status == 200, (path, status, text)
    # By its announced size before the body, which may never come.
    with held_body(s.port, health, "Content-Length: 4097", b"") as k:
        assert k.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert status_of(raw(s.port, request("POST", health, b" " * 4090 + b"{}", ["Content-Type: application/json"]))) == 200


def test_small_bodies_without_a_token_take_little_of_the_memory(server):
    """Of 256 MiB 102 are for bodies, those of uploads, too: 2000 streams with a byte each do not use them up."""
    port = free_port()
    s = server(["--require-read-token", "--memory", "256M", "--listen-grpc", f"127.0.0.1:{port}"])
    s.grpc_port = port
    mine = bearer(token(s, "mine"))
    with contextlib.ExitStack() as held:
        for c in [held.enter_context(http2.Conn(s)) for _ in range(20)]:
            for i in range(100):
                c.ask(2 * i + 1, body=b"\0", end=False, path="/grpc.health.v1.Health/Check")
            # After all of them: it is refused or answered when they are in.
            c.ask(201, path="/grpc.health.v1.Health/Check")
            assert c.wait(lambda c: c.ended(201))
        status, _, text = put(s, "/push/want", b'{"objects": []}', mine, "POST")
        assert status == 200, (status, text)


def test_bodies_of_readers_take_no_room_of_calls_that_push(server):
    """Reading needs no token, and a body may take minutes."""
    s = server()
    mine = {"Content-Type": "application/json", **bearer(token(s, "mine"))}
    asked = "/querier.v1.QuerierService/ProfileTypes"
    with contextlib.ExitStack() as held:
        for _ in range(32):
            held.enter_context(held_body(s.port, asked, f"Content-Length: {1 << 20}", bytes(0xfffff)))
        s.wait(lambda: unread_bytes(s.port) == 0, "the bodies to be read")
        s.wait(lambda: put(s, asked, b'{"start": "%s"}' % (b"0" * 50), mine, "POST")[0] == 503, "the room to be used up")
        for path in ("/parca.debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload", "/debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload"):
            status, _, text = put(s, path, b'{"buildId": "%s"}' % (b"ab" * 20), mine, "POST")
            assert status == 200, (path, status, text)


def test_an_empty_token_file_closes(server, elf):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, elf.debug)[0] == 201
    s.stop()
    (s.data / "tokens").write_bytes(b"")
    s = server(data=s.data)
    for method in ("PUT", "DELETE"):
        assert put(s, path, elf.debug, method=method)[0] == 401
    assert fetch(s, path)[0] == 200
    assert "has no token" in s.log_path.read_text()
    # Removed: this machine may push again.
    (s.data / "tokens").unlink()
    s.wait(lambda: put(s, path, b"", method="DELETE")[0] == 200, "the file to be missed")


# ---- pages of other sites ----

SCRIPT = """
    const [path, done] = [arguments[0], arguments[arguments.length - 1]];
    const tries = {
        GET: {}, POST: { method: "POST", body: "a;b 3" }, PUT: { method: "PUT", body: "x" }, DELETE: { method: "DELETE" },
        opaque: { method: "POST", body: "a;b 3", mode: "no-cors" },
        token: { method: "POST", body: "a;b 3", headers: { Authorization: "Bearer made-up" } },
    };
    (async () => {
        const said = {};
        for (const [name, init] of Object.entries(tries)) {
            const url = name === "GET" || name === "POST" || name === "opaque" || name === "token" ? path.replace("BUILD", "profiles") : path;
            try { const r = await fetch(url, init); said[name] = r.status; } catch (e) { said[name] = "blocked"; }
        }
        done(said);
    })();
"""


@pytest.fixture(scope="module")
def mapped():
    """A browser for which every name is this machine, as a page with changed DNS answers would have it."""
    b = Browser(extra=["--host-resolver-rules=MAP *.example 127.0.0.1"])
    yield b
    b.close()


def test_a_page_under_a_foreign_name_can_do_nothing(server, elf, mapped):
    s = server()
    path = f"/buildid/{elf.id}/debuginfo"
    assert put(s, path, elf.debug)[0] == 201
    mapped.open(f"http://evil.example:{s.port}/")
    assert "--public-url http://evil.example" in mapped.text()
    said = mapped.run_async(SCRIPT, path)
    assert set(said.values()) <= {421}, said
    for read in (path, "/api/status", "/api/types", "/metrics", "/symbolize"):
        assert mapped.run_async("const done = arguments[1]; fetch(arguments[0]).then((r) => done(r.status))", read) == 421
    assert fetch(s, path)[0] == 200 and s.metric(r"lode_profiles_stored_total") in (None, 0)
    assert "a request for the host 'evil.example" in s.log_path.read_text()
    # Another origin on a name of ours: its requests arrive with its Origin.
    t = server()
    mapped.open(f"http://127.0.0.1:{t.port}/")
    said = mapped.run_async(SCRIPT, f"http://127.0.0.1:{s.port}{path}")
    assert set(said.values()) <= {"blocked", 403, 0}, said
    assert fetch(s, path)[0] == 200
    assert not [line for line in s.log_path.read_text().splitlines() if " 20" in line.split("XFF:")[-1] and "POST" in line]


def test_a_given_url_is_a_name_of_ours(server, mapped):
    s = server(["--public-url", "https://lode.example"])
    mapped.open(f"http://lode.example:{s.port}/")
    mapped.wait_text("body", "version")
    assert mapped.run_async("const done = arguments[0]; fetch('/api/status').then((r) => done(r.status))") == 200
    # It has no rights there: a proxy would pass that name on.
    assert mapped.run_async("const done = arguments[0]; fetch('/profiles', { method: 'POST', body: 'a;b 3' }).then((r) => done(r.status))") == 403
    mapped.open(f"http://localhost:{s.port}/")
    assert mapped.run_async("const done = arguments[0]; fetch('/profiles', { method: 'POST', body: 'a;b 3' }).then((r) => done(r.status))") == 200
