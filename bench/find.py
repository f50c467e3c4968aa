# SPDX-License-Identifier: Apache-2.0
"""`lode find` for vmlinux and 100 modules from a lode service that has them in one package, cold on both sides, beside debuginfod-find
asking the same service (and Debian's debuginfod) for one after the other; and what a build ID costs that is in the cache folder.

The limit is the time to decode the package's part that they lie in: all of it, as they are spread over the whole.
"""

import argparse
import os
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile
import time

from common import CORPUS, LODE, Server, Table, kernel_packages, median, say, scratch
from kernel import decode, members


def timed(argv, env):
    """(CPU, wall) of a client."""
    before, t0 = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    r = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wall, after = time.monotonic() - t0, resource.getrusage(resource.RUSAGE_CHILDREN)
    if r.returncode:
        say(f"{argv[:2]}: {r.stderr[-300:].decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, r.stdout.decode().split()


def client_env(cache, port):
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    return dict(os.environ, DEBUGINFOD_CACHE_PATH=str(cache), DEBUGINFOD_URLS=f"http://127.0.0.1:{port}", DEBUGINFOD_TIMEOUT="900")


def cold(kind, folder, state, ask):
    """Wall and server CPU of one client, the server's own cache of hot artifacts empty."""
    for junk in pathlib.Path(state).glob("cache/*"):
        shutil.rmtree(junk, ignore_errors=True) if junk.is_dir() else junk.unlink()
    with Server(kind, [str(folder)], state) as s:
        s.wait_ready()
        s.wait_scanned()
        c0 = s.cpu()
        wall, size = ask(s.port)
        return wall, s.cpu() - c0, size


def by_lode(ids, cache):
    def ask(port):
        _, wall, paths = timed([LODE, "find", *ids], client_env(cache, port))
        return wall, sum(os.path.getsize(p) for p in paths)
    return ask


def by_reference(ids, cache):
    def ask(port):
        env, size, t0 = client_env(cache, port), 0, time.monotonic()
        for i in ids:
            paths = timed(["debuginfod-find", "debuginfo", i], env)[2]
            size += sum(os.path.getsize(p) for p in paths)
        return time.monotonic() - t0, size
    return ask


def bench_warm(table, build_id, cache):
    env = dict(os.environ, DEBUGINFOD_CACHE_PATH=str(cache), DEBUGINFOD_URLS="http://127.0.0.1:9")
    runs = {name: [timed(argv, env)[0] for _ in range(50)] for name, argv in
            {"find": [LODE, "find", build_id], "version": [LODE, "version"], "ref": ["debuginfod-find", "debuginfo", build_id]}.items()}
    table.add("a build ID in the cache, CPU", median(runs["find"]), median(runs["ref"]), None, 0.003)
    table.add("starting the program alone, CPU", median(runs["version"]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--modules", type=int, default=100)
    ap.add_argument("--reference", action="store_true", help="Debian's debuginfod too: it scans the package for minutes")
    args = ap.parse_args()
    package = kernel_packages(("xz",))["xz"]
    folder, table = CORPUS / "only-xz", Table()
    if not folder.exists():
        os.link(package, scratch("only-xz") / package.name)
    known = members(package)
    modules = [m for m in known if m[1].endswith(".ko") or "/.build-id/" in m[1] and m[2] < 5_000_000]
    random.Random(1).shuffle(modules)
    ids = [max(known, key=lambda m: m[2])[0]] + [m[0] for m in modules[:args.modules]]
    _, limit, _ = decode(package, "xz", os.cpu_count())
    with tempfile.TemporaryDirectory(dir=CORPUS) as work:
        cache = pathlib.Path(work) / "cache"
        state = CORPUS / "state-lode-xz"
        ref_wall, ref_cpu, ref_size = cold("lode", folder, state, by_reference(ids, cache))
        wall, cpu, size = cold("lode", folder, state, by_lode(ids, cache))
        say(f"{size} bytes by lode find, {ref_size} by debuginfod-find")
        table.add(f"vmlinux and {args.modules} modules, wall", wall, ref_wall, limit, 1.2 * limit)
        table.add("the same, the service's CPU", cpu, ref_cpu)
        bench_warm(table, ids[1], cache)
        if args.reference:
            far = cold("debuginfod", folder, CORPUS / "state-ref-xz", by_reference(ids, cache))
            table.add("the same from Debian's debuginfod, wall", wall, far[0])
    table.print()


if __name__ == "__main__":
    main()
