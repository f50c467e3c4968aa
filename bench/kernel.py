# SPDX-License-Identifier: Apache-2.0
"""The kernel debug package: scan, one module, one section, vmlinux, 100 modules; lode beside Debian's debuginfod.

    bench/kernel.py [--codecs xz,zstd,gzip] [--modules 40] [--series 100] [--no-reference]

The reference takes minutes where lode takes seconds; with the reference, --modules 6 --series 8 is enough to see the factor.

"limit" is the time of the codec's own program in the same run: for the whole payload, or in proportion for the bytes that lode
decoded (from the start of their block or span). Targets in seconds were set on a machine that decodes the package in the time in
DECODE; they are scaled by this machine's time for it in the same run.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import random
import re
import resource
import socket
import subprocess
import time

from common import CORPUS, LODE, Server, Table, kernel_packages, median, percentile, say, scratch


def members(package):
    """[(build ID, path)] of the package's debug files, from their .build-id links or our own map."""
    out = subprocess.run([LODE, "inspect", "--json", "--members", str(package)], check=True, capture_output=True).stdout
    found = []
    for m in json.loads(out).get("members", []):
        if m.get("build_id"):
            found.append((m["build_id"], m["path"], m["size"]))
    return found


def decode(package, codec, threads=1):
    """(CPU seconds, wall seconds, decoded bytes) of the codec's own program for the payload: the limit."""
    tool = {"xz": f"xz -dc -T{threads}", "zstd": "zstd -dc", "gzip": "gzip -dc"}[codec]
    member = {"xz": "data.tar.xz", "zstd": "data.tar.zst", "gzip": "data.tar.gz"}[codec]
    before, t0 = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ar = subprocess.Popen(["ar", "p", str(package), member], stdout=subprocess.PIPE)
    out = subprocess.run(f"{tool} | wc -c", shell=True, stdin=ar.stdout, check=True, capture_output=True).stdout
    ar.wait()
    wall, after = time.monotonic() - t0, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, wall, int(out)


def probe_health(port, path, stop, answers):
    """Run in a child process that decodes nothing, so that it shares no lock with decoders: latencies over one connection."""
    found = []
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(50):
                t0 = time.monotonic()
                s.sendall(request)
                if not s.recv(65536):
                    break
                found.append(time.monotonic() - t0)
                time.sleep(0.01)
    answers.put(found)


def pull(port, urls):
    """Run in a child process: fetch and discard."""
    for url in urls:
        subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}{url}"], check=True)


def decoded(server):
    return sum(float(x) for x in re.findall(r"^lode_codec_decoded_bytes_total\S* (\S+)", server.metrics(), re.M))


def scan(kind, folder, state):
    t0 = time.monotonic()
    with Server(kind, [str(folder)], state) as s:
        s.wait_ready()
        ready = time.monotonic() - t0
        s.wait_scanned()
        wall = time.monotonic() - t0
        return dict(cpu=s.cpu(), wall=wall, ready=ready, rss=s.rss())


def fresh(urls, kind, folder, state):
    """Fetch each URL in a child process: (CPU seconds, decoded bytes) of each."""
    cpu, bytes_ = [], []
    for url in urls:
        for junk in pathlib.Path(state).glob("cache/*"):
            subprocess.run(["rm", "-rf", str(junk)], check=True)
        with Server(kind, [str(folder)], state) as s:
            s.wait_ready()
            s.wait_scanned()
            time.sleep(0.3)
            d0 = decoded(s) if kind == "lode" else 0
            c0 = s.cpu()
            status, _, _, _, _ = s.get(url)
            assert status == 200, (url, status)
            cpu.append(s.cpu() - c0)
            bytes_.append((decoded(s) if kind == "lode" else 0) - d0)
    return cpu, bytes_


DECODE = {"xz": 43.0, "zstd": 5.1}  # CPU seconds for the whole payload on the machine of the targets
TARGETS = {  # (codec, name): CPU seconds or seconds on that machine
    ("xz", "module"): 0.09, ("zstd", "module"): 0.02, ("zstd", "module p90"): 0.05, ("gzip", "module p90"): 0.06,
    ("xz", "lines"): 0.2, ("zstd", "lines"): 0.05, ("xz", "vmlinux lines"): 0.4, ("zstd", "vmlinux lines"): 0.05,
    ("xz", "first byte"): 0.3, ("zstd", "first byte"): 0.02, ("xz", "all"): 21, ("zstd", "all"): 4,
}


def bench_scan(table, codec, package, folder, have_ref):
    limit, _, size = decode(package, codec)
    state = scratch(f"state-lode-{codec}")
    ours, theirs = scan("lode", folder, state), None
    if have_ref:
        theirs = scan("debuginfod", folder, scratch(f"state-ref-{codec}"))
    table.add(f"{codec}: deep pass, CPU", ours["cpu"], theirs and theirs["cpu"], limit, limit * (1.1 if codec == "xz" else 1.6))
    table.add(f"{codec}: deep pass, wall", ours["wall"], theirs and theirs["wall"], None, 0.65 * ours["cpu"])
    table.add(f"{codec}: findable after", ours["ready"], theirs and theirs["wall"])
    table.add(f"{codec}: peak RSS of the scan", ours["rss"], theirs and theirs["rss"], None, 128, "MiB")
    index = sum(f.stat().st_size for f in state.glob("index*") if not f.name.endswith("-shm"))
    points = sum(f.stat().st_size for f in (state / "points").glob("*"))
    table.add(f"{codec}: index", index / 1e6, None, None, 1.0, "MB")
    table.add(f"{codec}: resume points, part of the package", 100 * points / package.stat().st_size, None, None,
              4.0 if codec == "zstd" else 0.6, "%")
    return state, limit / size, limit / DECODE.get(codec, limit)


def target(codec, what, pace):
    return TARGETS[codec, what] * pace if (codec, what) in TARGETS else None


def bench_cold(table, codec, folder, states, modules, vmlinux, per_byte, n, pace):
    """Read one file of the package, each in a fresh server process."""
    small = [m for m in modules if 100_000 <= m[2] <= 1_000_000]
    for what, urls in (("module", [f"/buildid/{b}/debuginfo" for b, _, _ in small[:n]]),
                       ("lines", [f"/buildid/{b}/section/.debug_line" for b, _, _ in small[:n // 2]]),
                       ("vmlinux lines", [f"/buildid/{vmlinux[0]}/section/.debug_line"] * 3)):
        cpu, size = fresh(urls, "lode", folder, states["lode"])
        ref = fresh(urls[:3] if what != "vmlinux lines" else urls[:1], "debuginfod", folder, states["ref"])[0] if states["ref"] else None
        name = {"module": "one module", "lines": ".debug_line of a module", "vmlinux lines": ".debug_line of vmlinux"}[what]
        table.add(f"{codec}: {name}, CPU, median", median(cpu), ref and median(ref), median(size) * per_byte, target(codec, what, pace))
        if len(cpu) > 5:
            table.add(f"{codec}: {name}, CPU, p90", percentile(cpu, 0.9), ref and max(ref), percentile(size, 0.9) * per_byte,
                      target(codec, what + " p90", pace))


def bench_series(table, codec, folder, states, sample, vmlinux, package, pace):
    """Read vmlinux and 100 modules (--series): one after another, and eight at a time."""
    url = f"/buildid/{vmlinux[0]}/debuginfo"
    files = [f"/buildid/{b}/debuginfo" for b, _, _ in sample]
    figures = {}
    for kind in [k for k in ("lode", "ref") if states[k]]:
        server_kind = "lode" if kind == "lode" else "debuginfod"
        for junk in pathlib.Path(states[kind]).glob("cache/*"):
            subprocess.run(["rm", "-rf", str(junk)], check=True)
        f = figures[kind] = {}
        with Server(server_kind, [str(folder)], states[kind]) as s:
            s.wait_ready()
            s.wait_scanned()
            time.sleep(0.3)
            c0 = s.cpu()
            _, size, f["first"], f["whole"], _ = s.get(url)
            f["whole cpu"] = s.cpu() - c0
            assert size == vmlinux[2], (size, vmlinux)
            for u in files:
                s.get(u)
            f["all"] = s.cpu() - c0
        for junk in pathlib.Path(states[kind]).glob("cache/*"):
            subprocess.run(["rm", "-rf", str(junk)], check=True)
        with Server(server_kind, [str(folder)], states[kind]) as s:
            s.wait_ready()
            s.wait_scanned()
            time.sleep(0.3)
            stop, answers = multiprocessing.Event(), multiprocessing.Queue()
            prober = multiprocessing.Process(target=probe_health, args=(s.port, "/healthz" if kind == "lode" else "/", stop, answers))
            prober.start()
            c0, t0 = s.cpu(), time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda u: pull(s.port, [u]), [url] + files))
            f["wall 8"], f["cpu 8"] = time.monotonic() - t0, s.cpu() - c0
            stop.set()
            f["health"] = percentile(answers.get(), 0.99)
            prober.join()
    mine, other = figures["lode"], figures.get("ref")

    def add(what, key, limit=None, wanted=None):
        table.add(f"{codec}: {what}", mine[key], other and other[key], limit, wanted)
    wall_limit = None
    if codec == "xz":
        _, wall, size = decode(package, codec, 2)
        wall_limit = wall * vmlinux[2] / size
    add("first byte of vmlinux", "first", None, target(codec, "first byte", pace))
    add("all of vmlinux, wall", "whole", wall_limit, wall_limit and 1.2 * wall_limit)
    add("all of vmlinux, CPU", "whole cpu")
    add(f"vmlinux + {len(sample)} modules, CPU", "all", None, target(codec, "all", pace) if len(sample) == 100 else None)
    add("the same 8 at a time, wall", "wall 8", None, 1.3 * mine["cpu 8"] / 2)
    add("health p99 meanwhile", "health", None, 0.01 * pace)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--codecs", default="xz,zstd,gzip")
    ap.add_argument("--modules", type=int, default=40)
    ap.add_argument("--series", type=int, default=100)
    ap.add_argument("--no-reference", action="store_true")
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    packages = kernel_packages(args.codecs.split(","))
    table = Table()
    for codec in args.codecs.split(","):
        folder = scratch(f"only-{codec}")
        os.link(packages[codec], folder / packages[codec].name)
        say(f"== {codec}")
        ours, per_byte, pace = bench_scan(table, codec, packages[codec], folder, not args.no_reference)
        states = {"lode": ours, "ref": None if args.no_reference else CORPUS / f"state-ref-{codec}"}
        known = members(packages[codec])
        rng = random.Random(args.seed)
        modules = [m for m in known if m[1].endswith(".ko") or "/.build-id/" in m[1] and m[2] < 5_000_000]
        rng.shuffle(modules)
        vmlinux = max(known, key=lambda m: m[2])
        bench_cold(table, codec, folder, states, modules, vmlinux, per_byte, args.modules, pace)
        bench_series(table, codec, folder, states, modules[:args.series], vmlinux, packages[codec], pace)
    table.print()


if __name__ == "__main__":
    main()
