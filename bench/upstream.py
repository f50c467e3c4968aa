# SPDX-License-Identifier: Apache-2.0
"""The cost of fetching a file through lode instead of directly; of upstream servers that are dead or stall, or that ask each other.

    bench/upstream.py [--size MB] [--rate MB/s] [--runs N] [--circle]

The upstream is nginx, once at the speed of loopback and once at a given rate, like a network. Beside lode: Debian's debuginfod
with DEBUGINFOD_URLS, which sends its first byte after it has received the last.
"""

import argparse
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from common import ROOT, Server, Table, free_port, say, scratch

sys.path.insert(0, str(ROOT / "tests/e2e"))
from faulty import Dead, Faulty  # noqa: E402

NGINX = """
daemon off;
worker_processes 1;
pid {dir}/pid;
error_log {dir}/error.log crit;
events {{ worker_connections 512; }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    default_type application/octet-stream;
    server {{ listen 127.0.0.1:{fast}; root {dir}/root; }}
    server {{ listen 127.0.0.1:{slow}; root {dir}/root; limit_rate {rate}m; }}
}}
"""


def make_file(work, n, mb):
    """Make a shared object with @mb MB of incompressible data. Returns the path and the build ID."""
    blob, obj = work / "blob", work / f"{n}.so"
    blob.write_bytes(os.urandom(1 << 20) * mb)
    (work / "x.c").write_text(f"int x{n} = {n};\n")
    subprocess.run(["gcc", "-g", "-shared", "-Wl,--build-id=sha1", "-o", obj, work / "x.c"], check=True)
    subprocess.run(["objcopy", "--add-section", f".debug_blob={blob}", obj], check=True)
    blob.unlink()
    text = subprocess.run(["readelf", "-n", obj], check=True, capture_output=True, text=True).stdout
    return obj, re.search(r"Build ID: ([0-9a-f]+)", text).group(1)


def fetch(url, path):
    """(seconds to the first byte, seconds)."""
    c = http.client.HTTPConnection(url.split("//")[1], timeout=600)
    t0 = time.monotonic()
    c.request("GET", path)
    r = c.getresponse()
    assert r.status == 200, (r.status, r.read(300))
    r.read(1)
    first = time.monotonic() - t0
    room = bytearray(1 << 20)
    while r.readinto(room):
        pass
    c.close()
    return first, time.monotonic() - t0


def lode(work, urls, name):
    s = Server("lode", [str(work / "nothing")], state=work / name, extra=["--debuginfod-upstream-servers", ",".join(urls), "--no-access-log"])
    s.wait_ready()
    return s


def transfers(work, table, args):
    files = [make_file(work, n, args.size) for n in range(args.runs)]
    for obj, build_id in files:
        folder = work / "root/buildid" / build_id
        folder.mkdir(parents=True)
        obj.rename(folder / "debuginfo")
    fast, slow = free_port(), free_port()
    conf = work / "nginx.conf"
    conf.write_text(NGINX.format(dir=work, fast=fast, slow=slow, rate=args.rate))
    nginx = subprocess.Popen(["nginx", "-p", str(work), "-c", str(conf)], stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        for what, port in (("as fast as it goes", fast), (f"{args.rate} MB/s", slow)):
            url = f"http://127.0.0.1:{port}"
            paths = [f"/buildid/{build_id}/debuginfo" for _, build_id in files]
            for path in paths:
                fetch(f"http://127.0.0.1:{fast}", path)
            direct = [fetch(url, path) for path in paths]
            s = lode(work, [url], f"lode-{port}")
            cpu = s.cpu()
            through = [fetch(f"http://127.0.0.1:{s.port}", path) for path in paths]
            cpu = s.cpu() - cpu
            rss = s.rss()
            s.stop()
            d, t = (statistics.median(x[1] for x in runs) for runs in (direct, through))
            name = f"{args.size} MB through another server, {what}"
            theirs = reference(work, url, paths) if args.reference else (None, None)
            table.add(name, t, theirs[0], limit=d, target=1.05 * d)
            table.add(f"{name}: first byte", statistics.median(x[0] for x in through), theirs[1], limit=statistics.median(x[0] for x in direct))
            say(f"   {100 * (t / d - 1):+.1f} % to a direct transfer; CPU {cpu / args.runs:.2f} s each, peak {rss:.0f} MB")
    finally:
        nginx.terminate()
        nginx.wait()


def reference(work, url, paths):
    port = free_port()
    env = dict(os.environ, DEBUGINFOD_URLS=url, DEBUGINFOD_CACHE_PATH=tempfile.mkdtemp(dir=work), TMPDIR=str(work))
    p = subprocess.Popen(["debuginfod", "-p", str(port), "-d", ":memory:"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        time.sleep(2)
        runs = [fetch(f"http://127.0.0.1:{port}", path) for path in paths]
        return statistics.median(x[1] for x in runs), statistics.median(x[0] for x in runs)
    finally:
        p.terminate()
        p.wait()


def troubles(work, table):
    obj, build_id = make_file(work, 99, 1)
    content = obj.read_bytes()
    many = [f"/buildid/{build_id}/section/.s{i}" for i in range(30)]
    path = f"/buildid/{build_id}/debuginfo"
    good = Faulty({path: content} | {p: b"x" * 20000 for p in many})
    dead = Dead()
    s = lode(work, [dead.url, good.url], "dead")
    t0 = time.monotonic()
    for p in many:
        fetch(f"http://127.0.0.1:{s.port}", p)
    table.add("30 files one after another, first server drops packets", time.monotonic() - t0, target=2)
    s.stop()
    dead.stop()
    for what, fault in (("stalls after 1 KB", "stall 1024"), ("breaks off after 1 KB", "cut 1024"), ("503", "503")):
        bad = Faulty({path: content}, how=lambda p, n, fault=fault: fault)
        s = lode(work, [bad.url, good.url], what.split()[0])
        table.add(f"a file whose first server says or does: {what}", fetch(f"http://127.0.0.1:{s.port}", path)[1], target=3)
        s.stop()
        bad.stop()
    good.stop()


def circle(work, table):
    """Servers that name each other as upstream: time until the 404 for a file that none has. Each build ID is requested once."""
    for n in (2, 3):
        ports, ring = [free_port() for _ in range(n)], []
        for i, port in enumerate(ports):
            s = Server("lode", [str(work / "nothing")], state=work / f"ring{n}-{i}", extra=[
                "--listen", f"127.0.0.1:{port}", "--debuginfod-upstream-servers", f"http://127.0.0.1:{ports[(i + 1) % n]}", "--no-access-log"])
            s.port = port
            ring.append(s)
        for s in ring:
            s.wait_ready()
        took = []
        for i in range(50):
            status, _, _, seconds, _ = ring[0].get(f"/buildid/{n}{i:039x}/debuginfo")
            assert status == 404, status
            took.append(seconds)
        for s in ring:
            s.stop()
        table.add(f"{n} servers in a circle, 404: median of 50", statistics.median(took), target=0.05)
        table.add(f"{n} servers in a circle, 404: the longest", max(took), target=0.05)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=400)
    p.add_argument("--rate", type=int, default=100)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--no-reference", dest="reference", action="store_false")
    p.add_argument("--circle", action="store_true", help="only servers that name each other")
    args = p.parse_args()
    table, work = Table(), scratch("upstream")
    (work / "nothing").mkdir()
    circle(work, table)
    if not args.circle:
        troubles(work, table)
        transfers(work, table, args)
    table.print()
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
