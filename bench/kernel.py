# SPDX-License-Identifier: Apache-2.0
"""The kernel debug package: scan, one module, one section, vmlinux, 100 modules; lode beside Debian's debuginfod.

    bench/kernel.py [--codecs xz,zstd,gzip] [--modules 15] [--no-reference]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import time

from common import CORPUS, LODE, Server, Table, kernel_packages, median, percentile, say, scratch


def members(package):
    """[(build ID, path)] of the package's debug files, as their .build-id links or our own map say."""
    out = subprocess.run([LODE, "inspect", "--json", "--members", str(package)], check=True, capture_output=True).stdout
    found = []
    for m in json.loads(out).get("members", []):
        if m.get("build_id"):
            found.append((m["build_id"], m["path"], m["size"]))
    return found


def decode_cpu(package, codec):
    """CPU seconds that the plain decoder needs for the payload: the limit."""
    tool = {"xz": "xz -dc -T1", "zstd": "zstd -dc", "gzip": "gzip -dc"}[codec]
    member = {"xz": "data.tar.xz", "zstd": "data.tar.zst", "gzip": "data.tar.gz"}[codec]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ar = subprocess.Popen(["ar", "p", str(package), member], stdout=subprocess.PIPE)
    ar_pid = ar.pid
    subprocess.run(tool.split(), stdin=ar.stdout, stdout=subprocess.DEVNULL, check=True)
    ar.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    del ar_pid
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def scan(kind, folder, state):
    t0 = time.monotonic()
    with Server(kind, [str(folder)], state) as s:
        s.wait_ready()
        ready = time.monotonic() - t0
        s.wait_scanned()
        wall = time.monotonic() - t0
        return dict(cpu=s.cpu(), wall=wall, ready=ready, rss=s.rss())


def one_by_one(server, urls):
    cpu, wall = [], []
    for url in urls:
        c0 = server.cpu()
        status, _, _, total, _ = server.get(url)
        assert status == 200, (url, status)
        cpu.append(server.cpu() - c0)
        wall.append(total)
    return cpu, wall


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--codecs", default="xz,zstd,gzip")
    ap.add_argument("--modules", type=int, default=15)
    ap.add_argument("--no-reference", action="store_true")
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    packages = kernel_packages(args.codecs.split(","))
    table = Table()
    for codec in args.codecs.split(","):
        folder = scratch(f"only-{codec}")
        os.link(packages[codec], folder / packages[codec].name)
        say(f"== {codec}")
        limit = decode_cpu(packages[codec], codec)
        ours_state = scratch(f"state-lode-{codec}")
        ours = scan("lode", folder, ours_state)
        ref_state, theirs = CORPUS / f"state-ref-{codec}", None
        if not args.no_reference:
            theirs = scan("debuginfod", folder, scratch(f"state-ref-{codec}"))
        table.add(f"{codec}: deep pass, CPU", ours["cpu"], theirs and theirs["cpu"], limit, limit * (1.1 if codec == "xz" else 1.6))
        table.add(f"{codec}: deep pass, wall", ours["wall"], theirs and theirs["wall"], None, 0.65 * ours["cpu"])
        table.add(f"{codec}: findable after", ours["ready"], theirs and theirs["wall"])
        table.add(f"{codec}: peak RSS of the scan", ours["rss"], theirs and theirs["rss"], None, 128, "MB")
        index = sum(f.stat().st_size for f in ours_state.glob("index*"))
        points = sum(f.stat().st_size for f in (ours_state / "points").glob("*"))
        table.add(f"{codec}: index", index / 1e6, None, None, 1.0, "MB")
        table.add(f"{codec}: resume points, part of the package", 100 * points / packages[codec].stat().st_size, None, None,
                  4.0 if codec == "zstd" else 0.6, "%")

        known = members(packages[codec])
        rng = random.Random(args.seed)
        modules = [(b, p, s) for b, p, s in known if p.endswith(".ko") or "/.build-id/" in p and s < 5_000_000]
        vmlinux = max(known, key=lambda m: m[2])
        sample = rng.sample(modules, 100)

        def fresh(urls, kind, state):
            """Each URL in a process of its own."""
            cpu = []
            for url in urls:
                with Server(kind, [str(folder)], state) as s:
                    s.wait_ready()
                    time.sleep(0.3)
                    cpu += one_by_one(s, [url])[0]
            return cpu

        files = [f"/buildid/{b}/debuginfo" for b, _, _ in sample]
        lines = [f"/buildid/{b}/section/.debug_line" for b, _, _ in sample]
        n, n_ref = args.modules, 3
        have_ref = not args.no_reference
        cpu = fresh(files[:n], "lode", ours_state)
        ref = fresh(files[:n_ref], "debuginfod", ref_state) if have_ref else None
        table.add(f"{codec}: one module, CPU, median", median(cpu), ref and median(ref), None, {"xz": 0.09, "zstd": 0.02}.get(codec))
        table.add(f"{codec}: one module, CPU, p90", percentile(cpu, 0.9), ref and max(ref), None, {"zstd": 0.05, "gzip": 0.06}.get(codec))
        cpu = fresh(lines[:n], "lode", ours_state)
        ref = fresh(lines[:n_ref], "debuginfod", ref_state) if have_ref else None
        table.add(f"{codec}: .debug_line of a module, CPU, median", median(cpu), ref and median(ref), None,
                  {"xz": 0.2, "zstd": 0.05}.get(codec))
        url = f"/buildid/{vmlinux[0]}/section/.debug_line"
        cpu = fresh([url], "lode", ours_state)
        ref = fresh([url], "debuginfod", ref_state) if have_ref else None
        table.add(f"{codec}: .debug_line of vmlinux, CPU", cpu[0], ref and ref[0], None, {"xz": 0.4, "zstd": 0.05}.get(codec))

        url = f"/buildid/{vmlinux[0]}/debuginfo"
        figures = {}
        for kind, state in (("lode", ours_state),) + ((("debuginfod", ref_state),) if have_ref else ()):
            with Server(kind, [str(folder)], state) as s:
                s.wait_ready()
                time.sleep(0.3)
                c0 = s.cpu()
                _, size, first, total, _ = s.get(url)
                figures[kind] = (first, total, s.cpu() - c0, size)
                assert size == vmlinux[2], (size, vmlinux)
                c1 = s.cpu()
                t1 = time.monotonic()
                for u in files:
                    s.get(u)
                figures[kind] += (s.cpu() - c0, time.monotonic() - t1, s.cpu() - c1)
            # the same 8 at a time, fresh, nothing cached
            for junk in pathlib.Path(state).glob("cache/*"):
                subprocess.run(["rm", "-rf", str(junk)], check=True)
            with Server(kind, [str(folder)], state) as s:
                s.wait_ready()
                time.sleep(0.3)
                c0, t0 = s.cpu(), time.monotonic()
                slow = []
                with concurrent.futures.ThreadPoolExecutor(9) as pool:
                    jobs = [pool.submit(s.get, u) for u in [url] + files]
                    while not all(j.done() for j in jobs):
                        slow.append(s.get("/healthz" if kind == "lode" else "/")[3])
                        time.sleep(0.02)
                figures[kind] += (time.monotonic() - t0, s.cpu() - c0, percentile(slow, 0.99))
        mine, other = figures["lode"], figures.get("debuginfod")

        def pick(i):
            return mine[i], other and other[i]
        table.add(f"{codec}: first byte of vmlinux", *pick(0), None, {"xz": 0.3, "zstd": 0.02}.get(codec))
        table.add(f"{codec}: all of vmlinux, wall", *pick(1))
        table.add(f"{codec}: all of vmlinux, CPU", *pick(2))
        table.add(f"{codec}: vmlinux + 100 modules, CPU", *pick(4), None, {"xz": 21, "zstd": 4}.get(codec))
        table.add(f"{codec}: the same 8 at a time, wall", *pick(7), None, 1.3 * mine[8] / 2)
        table.add(f"{codec}: health p99 meanwhile", *pick(9), None, 0.01)
        re.purge()
    table.print()


if __name__ == "__main__":
    main()
