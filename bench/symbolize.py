# SPDX-License-Identifier: Apache-2.0
"""Addresses over HTTP from a server that has only a kernel's debug package: first and second time, and addresses per second.

    bench/symbolize.py [--package FILE.deb] [--modules 10] [--addresses 100000]

Modules and vmlinux, each the first time (the table is built) and again; then many addresses of vmlinux in JSON and in the compact form, beside
llvm-symbolizer on the unpacked vmlinux of --vmlinux.
"""

import argparse
import http.client
import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "e2e"))
from common import CORPUS, Server, Table, median, say
from compact import binary_request


def request(build_id, addrs):
    return binary_request([(bytes.fromhex(build_id), addrs)], 12, 120000)


def post(s, body, kind):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=300)
    c.request("POST", "/symbolize", body=body, headers={"Content-Type": kind})
    r = c.getresponse()
    out = r.read()
    c.close()
    assert r.status == 200, (r.status, out[:200])
    return out


def ask(s, build_id, addr):
    """Repeat until there is an answer: (seconds, CPU seconds, frames)."""
    cpu, t0 = s.cpu(), time.monotonic()
    while True:
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=300)
        c.request("GET", f"/buildid/{build_id}/symbolize?addr={addr:#x}&timeout=60")
        r = json.loads(c.getresponse().read())
        c.close()
        if r["addresses"][0]["status"] != "pending":
            break
    return time.monotonic() - t0, s.cpu() - cpu, r["addresses"][0].get("frames", [])


def find(s, pattern, n):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=300)
    c.request("GET", f"/metadata?key=glob&value={pattern}")
    found = json.loads(c.getresponse().read())["results"]
    c.close()
    ids = sorted({r["buildid"] for r in found if r["type"] == "debuginfo"})
    random.Random(1).shuffle(ids)
    return ids[:n]


def oracle(vmlinux, addrs):
    """Addresses per CPU second of llvm-symbolizer; None if it is not installed."""
    if not shutil.which("llvm-symbolizer"):
        return None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["llvm-symbolizer", "-e", str(vmlinux), "--no-demangle"], input="".join(f"{a:#x}\n" for a in addrs), text=True,
                   stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return len(addrs) / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--package", type=pathlib.Path)
    p.add_argument("--vmlinux", type=pathlib.Path, help="the same one, unpacked: for llvm-symbolizer")
    p.add_argument("--modules", type=int, default=10)
    p.add_argument("--addresses", type=int, default=100000)
    o = p.parse_args()
    package = o.package or next(iter(sorted(CORPUS.glob("linux-image-*-dbg_*.deb"))), None)
    if not package:
        sys.exit("which package? --package")
    folder = CORPUS / "symbolize-http"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / package.name).symlink_to(package.resolve())
    s = Server("lode", [str(package.resolve())], state=folder / "state")
    t = Table()
    try:
        s.wait_ready()
        s.wait_scanned()
        say("scanned")
        first, again = [], []
        for build_id in find(s, "/usr/lib/debug/lib/modules/*/kernel/drivers/*/*.ko", o.modules):
            first.append(ask(s, build_id, 0x40))
            again.append(ask(s, build_id, 0x40))
        t.add(f"module, first time, wall (median of {len(first)})", median([x[0] for x in first]))
        t.add("module, first time, CPU", median([x[1] for x in first]))
        t.add("module, again, wall", median([x[0] for x in again]))
        (vmlinux,) = find(s, "/usr/lib/debug/boot/vmlinux*", 1)
        wall, cpu, frames = ask(s, vmlinux, 0xffffffff81100010)
        t.add(f"vmlinux, first time, wall ({len(frames)} frames)", wall)
        t.add("vmlinux, first time, CPU", cpu)
        t.add("vmlinux, again, wall", ask(s, vmlinux, 0xffffffff81100010)[0])
        r = random.Random(2)
        addrs = [0xffffffff81000000 + r.randrange(12 << 20) for _ in range(o.addresses)]
        theirs = oracle(o.vmlinux, addrs) if o.vmlinux else None
        plain = {"modules": [{"id": vmlinux}], "addresses": [[0, hex(a)] for a in addrs], "demangle": "none"}
        for name, kind, body in (("JSON", "application/json", json.dumps(plain)),
                                 ("compact", "application/x-lode-symbolize", request(vmlinux, addrs)),
                                 ("compact, sorted", "application/x-lode-symbolize", request(vmlinux, sorted(addrs)))):
            cpu = s.cpu()
            out = post(s, body, kind)
            t.add(f"addresses a CPU second, {name} ({len(out) / 1e6:.1f} MB for {len(addrs)})", len(addrs) / max(s.cpu() - cpu, 1e-3), theirs, unit="/s")
        t.add("peak memory", s.rss(), unit="MB")
        t.print()
    finally:
        s.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
