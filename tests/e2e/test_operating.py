# SPDX-License-Identifier: Apache-2.0
"""docs/operating.md: its names exist, its proxy works, and a copy of a paused service has all that was acknowledged."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import free_port
from making import elf, fetch, new_id
from profiling import CPU, Pprof, ask, call, send
from pushing import bearer, lode, put, server, sound, token

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
ALERTS = (ROOT / "contrib" / "lode-alerts.yml").read_text()
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


def source():
    return {f: f.read_text() for f in (ROOT / "src").rglob("*.[ch]")}


def section(text, heading):
    """The text from a heading to the next one of its level."""
    return re.search(rf"^(#+) {heading}$\n(.*?)(?=^\1 |\Z)", text, re.M | re.S).group(2)


# ---- names ----

def test_metrics_and_alerts_of_the_page_exist():
    agent = (ROOT / "docs" / "agent.md").read_text()
    code = "".join(source().values())
    for text in (PAGE, ALERTS, agent):
        named = set(re.findall(r"\blode_\w+", text)) - {"lode_agent_"}
        assert len(named) > 4 and not [m for m in named if f'"{re.sub("_(bucket|sum|count)$", "", m)}"' not in code]
    alerts = re.findall(r"alert: (\w+)", ALERTS)
    assert len(alerts) == len(set(alerts))
    shown = set(re.findall(r"`(Lode[A-Z]\w+)`", PAGE + agent))
    group = re.search(r"name: lode-service\n(.*?)name: lode-object-storage\n", ALERTS, re.S).group(1)
    assert shown == set(re.findall(r"alert: (\w+)", group))


def test_options_of_the_page_exist():
    helps = "".join(lode("help", c).stdout for c in ("serve", "store", "agent", "push", "token"))
    others = {"--reflink", "--signal", "--reference"}  # of cp, systemctl, chown
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", PAGE)) - others
    assert len(named) > 20 and not [o for o in named if not re.search(rf"{o}\b", helps) and o != "--version"]


def test_log_lines_of_the_page_exist():
    """What is between the numbers and names in a line is in one message of the program."""
    code = "\n".join(re.sub(r'"\s*"', "", text) for text in source().values())
    lines = re.findall(r"^\| `(?:profiles|index): (.*?)`(?:, then `(.*?)`)? \|", section(PAGE, "A database is damaged"), re.M)
    fragments = [f.strip() for pair in lines for line in pair for f in re.split(r"…|\b[NM]\b|[():]", line) if len(f.strip()) > 12]
    assert len(lines) >= 10 and len(fragments) >= 15 and not [f for f in fragments if f not in code]


def test_functions_of_the_path_of_damage_exist():
    """And they are in the files that are named after them."""
    text = section((ROOT / "docs" / "architecture.md").read_text(), "Path of damage")
    defined = {}
    for f in (ROOT / "src").rglob("*.c"):
        for name in re.findall(r"^[a-z_][^;=\n]*?\b(\w+)\(", f.read_text(), re.M):
            defined.setdefault(name, []).append(str(f))
    named = re.findall(r"`(\w+)\(\)`(?: \(`([\w/]+\.c)`)?", text)
    assert len(named) > 50
    for name, where in named:
        assert any(f.endswith("/" + where if where else "") for f in defined.get(name, [])), (name, where, defined.get(name))


# ---- a backup ----

def profile(n):
    return Pprof(time_ms=int(time.time() * 1000) - 60000 + n).sample(["main", "f", f"g{n % 50}"], (1, 1)).bytes()


def n_profiles(s):
    series = ask(s, "series", query=CPU, one=1)["series"]
    return series[0]["profiles"] if series else 0


def test_a_copy_of_a_paused_service_has_all_that_was_acknowledged(serve, server, elf, tmp_path):
    s = server()
    build_id = new_id("backup")
    content = elf.of(elf.debug, build_id)
    secret = token(s, "ci")
    assert put(s, f"/buildid/{build_id}/debuginfo", content, bearer(secret))[0] == 201
    acknowledged, stop = [], threading.Event()

    def sender():
        while not stop.is_set():
            status, text, _ = call(s, "POST", "/profiles?service=a", profile(len(acknowledged)), bearer(secret))
            assert status == 200, text
            acknowledged.append(1)

    t = threading.Thread(target=sender)
    t.start()
    copy = tmp_path / "copy"
    try:
        s.wait(lambda: len(acknowledged) > 100, "profiles")
        s.proc.send_signal(signal.SIGSTOP)
        time.sleep(0.3)  # a system call that was under way ends
        before = len(acknowledged)
        shutil.copytree(s.data / "profiles", copy / "profiles")
    finally:
        s.proc.send_signal(signal.SIGCONT)
        s.wait(lambda: len(acknowledged) > before + 10, "the service to go on")
        stop.set()
        t.join()
    assert (copy / "profiles" / "profiles.db-wal").stat().st_size
    lode("store", "copy", s.data / "store", copy / "store")
    shutil.copy2(s.data / "tokens", copy / "tokens")

    r = server(data=copy)
    # the profile that was on its way may be in it
    assert before <= n_profiles(r) <= before + 1
    assert fetch(r, f"/buildid/{build_id}/debuginfo") == (200, content, True)
    assert sound(r)["objects"] == 1
    assert not re.search(r" (warn|error) ", r.log_path.read_text()), r.log_path.read_text()
    assert call(r, "POST", "/profiles?service=a", profile(0))[0] == 401
    assert call(r, "POST", "/profiles?service=b", profile(0), bearer(secret))[0] == 200

    # a service that is stopped has one file
    n = n_profiles(r)
    r.stop()
    assert not (copy / "profiles" / "profiles.db-wal").exists()
    shutil.copytree(copy, tmp_path / "stopped")
    assert n_profiles(server(data=tmp_path / "stopped")) == n


# ---- a proxy ----

@pytest.fixture
def proxied(server, tmp_path):
    """The configuration of the page, with its names and ports replaced. (service, token, port, port of gRPC, curl)"""
    http, grpc, tls, tls_grpc = (free_port() for _ in range(4))
    block = re.search(r"^    # /etc/nginx/conf\.d/lode\.conf\n(.*?)^(?=\S)", PAGE, re.M | re.S).group(1)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
                    "/CN=lode.example", "-addext", "subjectAltName=DNS:lode.example,DNS:localhost"], check=True, capture_output=True)
    changes = [(r"127\.0\.0\.1:8002", f"127.0.0.1:{http}"), (r"127\.0\.0\.1:8003", f"127.0.0.1:{grpc}"), (r"listen 443\b", f"listen 127.0.0.1:{tls}"),
               (r"listen 8443\b", f"listen 127.0.0.1:{tls_grpc}"), (r"/etc/ssl/lode\.example\.pem", str(cert)),
               (r"/etc/ssl/private/lode\.example\.key", str(key))]
    for old, new in changes:
        block, n = re.subn(old, new, block)
        assert n, old
    work = tmp_path / "nginx"
    work.mkdir()
    os.chmod(work, 0o777)
    paths = "".join(f"{p}_temp_path {work}/{p}; " for p in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (work / "conf").write_text(f"daemon off; worker_processes 1; pid {work}/pid; error_log {work}/error.log;\nevents {{ worker_connections 64; }}\n"
                               f"http {{ access_log off; {paths}\n{block}}}\n")
    s = server(args=["--listen", f"127.0.0.1:{http}", "--listen-grpc", f"127.0.0.1:{grpc}", "--public-url", f"https://lode.example:{tls}"])
    proc = subprocess.Popen([NGINX, "-c", work / "conf", "-e", work / "error.log"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def up():
        assert proc.poll() is None, (work / "error.log").read_text()
        with socket.socket() as k:
            return k.connect_ex(("127.0.0.1", tls_grpc)) == 0

    def curl(port, path, *args, body=None):
        r = subprocess.run(["curl", "-s", "--cacert", cert, "--resolve", f"lode.example:{port}:127.0.0.1", "-o", "-", "-w", "\n%{http_code}",
                            *args, f"https://lode.example:{port}{path}"], input=body, capture_output=True, timeout=60)
        text, _, status = r.stdout.rpartition(b"\n")
        return int(status), text

    try:
        s.wait(up, "nginx")
        yield s, tls, tls_grpc, curl, cert
    finally:
        proc.terminate()
        proc.wait(20)


@pytest.mark.skipif(not os.path.exists(NGINX), reason="no nginx")
def test_the_proxy_of_the_page_works(proxied, elf, tmp_path):
    s, tls, tls_grpc, curl, cert = proxied
    build_id = new_id("proxy")
    content = elf.of(elf.debug, build_id)
    path = f"/buildid/{build_id}/debuginfo"
    assert curl(tls, path, "-X", "PUT", "--data-binary", "@-", body=content)[0] == 403
    secret = token(s, "ci")
    (tmp_path / "ci.token").write_text(secret)
    # larger than nginx's own limit of a body
    (tmp_path / "x.debug").write_bytes(content + bytes(3 << 20))
    r = lode("push", tmp_path / "x.debug", "--to", f"https://localhost:{tls}", "--token-file", tmp_path / "ci.token", env={"SSL_CERT_FILE": str(cert)})
    assert "1 stored" in r.stderr + r.stdout
    assert not list((tmp_path / "nginx" / "client_body").rglob("*")), "the body waited on nginx's disk"
    assert curl(tls, path, "-r", "10-59") == (206, content[10:60])
    assert curl(tls, "/", "-A", "Mozilla/5.0")[0] == 200
    assert curl(tls, "/profiles?service=p", "-H", f"Authorization: Bearer {secret}", "--data-binary", "@-", body=profile(0))[0] == 200
    status, text = curl(tls_grpc, "/grpc.health.v1.Health/Check", "--http2", "-H", "content-type: application/grpc", "-H", "te: trailers",
                        "--data-binary", "@-", body=bytes(5))
    assert (status, text) == (200, b"\0\0\0\0\2\x08\1")
    log = s.log_path.read_text()
    assert f"XFF:127.0.0.1 GET {path} " in log and "XFF:127.0.0.1 POST /grpc.health" in log
