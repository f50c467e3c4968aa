# SPDX-License-Identifier: Apache-2.0
"""The way to a bucket's server: certificates, proxies, styles of names, redirects; and answers that are not to be followed or believed."""

import datetime
import http.server
import os
import select
import socket
import ssl
import subprocess
import threading

import pytest

from bucket import SECRET
from bucket_engines import bucket_of_one as bucket  # noqa: F401
from conftest import LODE


OTHERS = ("AWS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "all_proxy")


def inspect(bucket, *args, **env):
    env = {**{k: v for k, v in os.environ.items() if k not in OTHERS}, **bucket.env(**env)}
    return subprocess.run([LODE, *(args or ("inspect", "s3://bucket/x"))], capture_output=True, text=True, timeout=60,
                          env={k: v for k, v in env.items() if v != ""})


def was_read(bucket, r):
    """The object was read: it is no ELF file."""
    return bool(bucket.gets()) and "denied" not in r.stderr and SECRET not in r.stderr


@pytest.fixture
def certificate(tmp_path):
    r = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=lode test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, capture_output=True)
    if r.returncode:
        pytest.skip(f"openssl: {r.stderr[-200:]}")
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def over_tls(bucket, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, certificate))
    bucket.server.socket = context.wrap_socket(bucket.server.socket, server_side=True)
    return bucket.url.replace("http://", "https://")


@pytest.mark.parametrize("how", ["environment", "profile", "option"])
def test_a_certificate_of_ones_own(bucket, certificate, tmp_path, how):
    url = over_tls(bucket, certificate)
    r = inspect(bucket, AWS_ENDPOINT_URL_S3=url)
    assert r.returncode == 1 and "AWS_CA_BUNDLE" in r.stderr and not bucket.requests, r.stderr
    if how == "environment":
        r = inspect(bucket, AWS_ENDPOINT_URL_S3=url, AWS_CA_BUNDLE=str(certificate[0]))
    elif how == "profile":
        (tmp_path / "config").write_text(f"[default]\nca_bundle = {certificate[0]}\n")
        r = inspect(bucket, AWS_ENDPOINT_URL_S3=url, AWS_CONFIG_FILE=str(tmp_path / "config"))
    else:
        bucket.objects.clear()
        r = inspect(bucket, "scan", "--data", str(tmp_path / "data"), "--s3-ca", str(certificate[0]), "--s3-endpoint", url, "s3://bucket", AWS_ENDPOINT_URL_S3="")
        assert r.returncode == 0 and bucket.requests[0][0] == "LIST", r.stderr
        return
    assert was_read(bucket, r), r.stderr


class Proxy:
    """A proxy for HTTP and CONNECT; every name leads to one port of the loopback."""

    def __init__(self, port):
        self.lines = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_CONNECT(self):
                proxy.lines.append(self.requestline)
                with socket.create_connection(("127.0.0.1", port)) as to:
                    self.send_response(200)
                    self.end_headers()
                    self.pump(to)

            def do_GET(self):
                proxy.lines.append(self.requestline)
                target = "/" + self.path.split("/", 3)[3]
                with socket.create_connection(("127.0.0.1", port)) as to:
                    fields = [f"{k}: {v}" for k, v in self.headers.items() if k.lower() not in ("connection", "proxy-connection")]
                    to.sendall("\r\n".join([f"{self.command} {target} HTTP/1.1", *fields, "Connection: close", "", ""]).encode())
                    self.pump(to)
                self.close_connection = True

            do_HEAD = do_PUT = do_GET

            def pump(self, to):
                while True:
                    ready, _, _ = select.select([to, self.connection], [], [], 20)
                    for s in ready:
                        data = s.recv(1 << 16)
                        if not data:
                            return
                        (self.connection if s is to else to).sendall(data)
                    if not ready:
                        return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def proxy(bucket):
    p = Proxy(bucket.port)
    yield p
    p.close()


def test_through_the_proxy_of_the_environment(bucket, proxy):
    r = inspect(bucket, AWS_ENDPOINT_URL_S3="http://s3.example", http_proxy=proxy.url)
    assert was_read(bucket, r), r.stderr
    assert proxy.lines[0].split()[1] == "http://s3.example/bucket/x"
    assert not [line for line in proxy.lines if "Signature" in line]
    n = len(proxy.lines)
    r = inspect(bucket, AWS_ENDPOINT_URL_S3="http://s3.invalid", http_proxy=proxy.url, no_proxy="s3.invalid")
    assert r.returncode == 1 and len(proxy.lines) == n


def test_through_a_proxy_by_option_with_tls_to_the_server(bucket, proxy, certificate, tmp_path):
    """The proxy sees a name and a port."""
    bucket.objects.clear()
    url = over_tls(bucket, certificate)
    r = inspect(bucket, "scan", "--data", str(tmp_path / "data"), "--s3-proxy", proxy.url, "--s3-endpoint", url, "--s3-ca", str(certificate[0]), "s3://bucket")
    assert r.returncode == 0 and bucket.requests, r.stderr
    assert {line.split()[0] for line in proxy.lines} == {"CONNECT"}, proxy.lines


def test_the_bucket_in_the_host_name(bucket, proxy, tmp_path):
    """Amazon's style. A bucket with a dot stays in the path, as no certificate holds for it."""
    seen = []
    handler = bucket.server.RequestHandlerClass
    old = handler.answer

    def answer(self, name, query):
        seen.append((self.headers["Host"], self.path))
        old(self, "/b" + name if self.headers["Host"].startswith("bucket.") else name, query)

    handler.answer = answer
    (tmp_path / "config").write_text("[default]\ns3 =\n    addressing_style = virtual\n")
    r = inspect(bucket, AWS_ENDPOINT_URL_S3="http://s3.example", http_proxy=proxy.url, AWS_CONFIG_FILE=str(tmp_path / "config"))
    assert was_read(bucket, r) and seen[0] == ("bucket.s3.example", "/x"), (seen, r.stderr)
    del seen[:]
    inspect(bucket, "inspect", "s3://bu.cket/x", AWS_ENDPOINT_URL_S3="http://s3.example", http_proxy=proxy.url, AWS_CONFIG_FILE=str(tmp_path / "config"))
    assert seen[0] == ("s3.example", "/bu.cket/x"), seen


def test_another_region_is_signed_for(bucket):
    bucket.fault("other_region")
    scopes = []
    handler = bucket.server.RequestHandlerClass
    old = handler.signed_right

    def signed_right(self):
        scopes.append(self.headers["Authorization"].split("/")[2])
        return old(self)

    handler.signed_right = signed_right
    r = inspect(bucket)
    assert was_read(bucket, r), r.stderr
    assert scopes[0] == "us-east-1" and scopes[-1] == "eu-north-1", scopes


def test_a_redirect_to_another_host_is_not_followed(bucket):
    """With temporary keys a request carries a token."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            self.send_response(307)
            self.send_header("Location", f"http://localhost:{bucket.port}/bucket/x")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        r = inspect(bucket, AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
    assert r.returncode == 1 and "307" in r.stderr, r.stderr
    assert not bucket.requests


@pytest.mark.parametrize("fault", ["endless", "same_token"])
def test_a_listing_that_never_ends_is_an_error(bucket, tmp_path, fault):
    bucket.fault(fault, 1 << 20)
    r = inspect(bucket, "scan", "--data", str(tmp_path / "data"), "s3://bucket")
    assert r.returncode == 1 and "list" in r.stderr, r.stderr


def test_a_servers_clock_is_signed_by(bucket):
    """A server whose clock is a day ahead refuses what is signed by ours."""
    handler = bucket.server.RequestHandlerClass
    old, day = handler.answer, datetime.timedelta(days=1)

    def answer(self, name, query):
        now = datetime.datetime.now(datetime.timezone.utc) + day
        then = datetime.datetime.strptime(self.headers["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
        self.date_time_string = lambda *a: now.strftime("%a, %d %b %Y %H:%M:%S GMT")
        if abs(now - then) > datetime.timedelta(minutes=15):
            return self.error(403, "RequestTimeTooSkewed")
        return old(self, name, query)

    handler.answer = answer
    r = inspect(bucket)
    assert was_read(bucket, r) and "clock" in r.stderr, r.stderr
