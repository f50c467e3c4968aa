# SPDX-License-Identifier: Apache-2.0
"""Requests per second for a small cached file and for a miss, beside nginx and Debian's debuginfod; 5 000 idle connections.

    bench/serving.py [--seconds 5] [--no-reference]

Only wrk and the server should run on the machine; wrk's share is the same for all servers.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time

from common import CORPUS, Server, Table, free_port, percentile, say, scratch

NGINX = """
daemon off;
worker_processes 2;
pid {dir}/pid;
error_log {dir}/error.log crit;
events {{ worker_connections 8192; }}
http {{
    access_log {log};
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=1000 inactive=60s;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    server {{ listen 127.0.0.1:{port}; root {dir}/root; default_type application/octet-stream; }}
}}
"""


def wrk(url, connections, seconds):
    out = subprocess.run(["wrk", "-t", "2", "-c", str(connections), "-d", f"{seconds}s", "--latency", url], check=True,
                         capture_output=True, text=True).stdout
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))


def build_id(path):
    out = subprocess.run(["readelf", "-n", path], check=True, capture_output=True, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", out).group(1)


def small_elf():
    """A program of this machine of about 20 KB."""
    for p in sorted(pathlib.Path("/usr/bin").iterdir()):
        if p.is_file() and not p.is_symlink() and 14_000 < p.stat().st_size < 40_000 and p.read_bytes()[:4] == b"\x7fELF":
            return p
    raise SystemExit("no small program in /usr/bin")


def rss_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def latencies(port, n):
    found = []
    with socket.create_connection(("127.0.0.1", port)) as s:
        for _ in range(n):
            t0 = time.monotonic()
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n")
            s.recv(65536)
            found.append(time.monotonic() - t0)
    return found


def idle(table, s):
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, max(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    before, quiet = rss_mb(s.proc.pid), percentile(latencies(s.port, 500), 0.99)
    conns = []
    for _ in range(5000):
        c = socket.create_connection(("127.0.0.1", s.port))
        c.sendall(b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n")
        conns.append(c)
    answered = sum(c.recv(65536).startswith(b"HTTP/1.1 200") for c in conns)
    table.add("5 000 idle connections: answered", answered, None, None, 5000, "connections")
    table.add("5 000 idle connections: RSS grew by", rss_mb(s.proc.pid) - before, None, None, 64, "MiB")
    table.add("... health p99 without them", quiet)
    table.add("... health p99 with them", percentile(latencies(s.port, 500), 0.99), None, None, quiet)
    for c in conns:
        c.close()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seconds", type=int, default=5)
    ap.add_argument("--no-reference", action="store_true")
    args = ap.parse_args()
    CORPUS.mkdir(parents=True, exist_ok=True)
    files = scratch("http-files")
    elf = small_elf()
    shutil.copy(elf, files / elf.name)
    the_id = build_id(files / elf.name)
    hit, miss = f"/buildid/{the_id}/executable", f"/buildid/{'00' * 20}/debuginfo"
    say(f"{elf.name}: {elf.stat().st_size} bytes")
    table = Table()
    rates = {}

    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp) / "root" / "buildid" / the_id
        root.mkdir(parents=True)
        shutil.copy(elf, root / "executable")
        os.chmod(tmp, 0o755)
        port = free_port()
        conf = pathlib.Path(tmp) / "nginx.conf"
        conf.write_text(("user root;" if os.getuid() == 0 else "") + NGINX.format(dir=tmp, port=port, log=f"{tmp}/access.log"))
        nginx = subprocess.Popen(["/usr/sbin/nginx", "-c", str(conf)])
        time.sleep(1)
        for name, path in (("hit", hit), ("miss", miss)):
            for n in (32, 256):
                rates["nginx", name, n] = wrk(f"http://127.0.0.1:{port}{path}", n, args.seconds)
        nginx.terminate()
        nginx.wait()

    for kind in ("lode",) if args.no_reference else ("lode", "debuginfod"):
        extra = ["--max-connections", "8192", "--max-connections-per-ip", "0"] if kind == "lode" else []
        with Server(kind, [str(files)], scratch(f"http-state-{kind}"), extra) as s:
            s.wait_ready()
            s.wait_scanned()
            for name, path in (("hit", hit), ("miss", miss)):
                for n in (32, 256):
                    c0, t0 = s.cpu(), time.monotonic()
                    rates[kind, name, n] = wrk(f"http://127.0.0.1:{s.port}{path}", n, args.seconds)
                    say(f"   {kind} {name} {n}: {rates[kind, name, n]:.0f}/s, "
                        f"{1e6 * (s.cpu() - c0) / (time.monotonic() - t0) / rates[kind, name, n]:.1f} us of CPU each")
            if kind == "lode":
                idle(table, s)
    for name, text in (("hit", "hot small file"), ("miss", "404")):
        for n in (32, 256):
            best = rates["nginx", name, n]
            table.add(f"{text}, {n} connections", rates["lode", name, n], rates.get(("debuginfod", name, n)), best, 0.8 * best, "/s")
    table.print()


if __name__ == "__main__":
    main()
