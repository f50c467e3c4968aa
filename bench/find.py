# SPDX-License-Identifier: Apache-2.0
"""`lode find` for vmlinux and 100 modules in one call, from a lode service that has them in one package, both with cold caches; beside
debuginfod-find for one file after another, from the same service and (a few of them) from Debian's debuginfod. Also the cost of a build ID
that is in the cache folder already.

    bench/find.py                                   the kernel's debug package (858 MB of xz; about ten minutes with the first scan)
    bench/find.py --package FILE.deb                another package, such as that of the cloud kernel (283 MB)
    bench/find.py --modules 20 --reference 0        fewer modules, and without Debian's debuginfod, which scans the package for minutes
    bench/find.py --warm                            only the build ID in the cache folder; takes seconds

The limit is the time in which the codec's own program decodes the payload, in the same run: vmlinux and 100 modules are spread all over it. CPU is
the kernel's accounting for client and service; wall times mean something only on a quiet machine.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

from common import CORPUS, LODE, Server, Table, kernel_packages, median, say
from kernel import decode, members

CODECS = {"data.tar.xz": "xz", "data.tar.zst": "zstd", "data.tar.gz": "gzip"}


def timed(argv, env):
    """(CPU, wall, lines) of a client."""
    t0 = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(argv, env=env, stdout=out, stderr=err)
        _, status, use = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - t0
        out.seek(0)
        err.seek(0)
        if p.returncode:
            say(f"{argv[:2]}: {err.read()[-300:].decode()}")
        return use.ru_utime + use.ru_stime, wall, out.read().decode().split()


def client_env(cache, port):
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    return dict(os.environ, DEBUGINFOD_CACHE_PATH=str(cache), DEBUGINFOD_URLS=f"http://127.0.0.1:{port}", DEBUGINFOD_TIMEOUT="900")


def cold(kind, folder, state, ask):
    """(client CPU, service CPU, wall, bytes) of one client, with an empty cache of hot artifacts in the service."""
    for junk in pathlib.Path(state).glob("cache/*"):
        shutil.rmtree(junk, ignore_errors=True) if junk.is_dir() else junk.unlink()
    with Server(kind, [str(folder)], state) as s:
        s.wait_ready()
        s.wait_scanned()
        c0, t0 = s.cpu(), time.monotonic()
        cpu, size = ask(s.port)
        return cpu, s.cpu() - c0, time.monotonic() - t0, size


def in_one_call(ids, cache):
    def ask(port):
        cpu, _, paths = timed([LODE, "find", *ids], client_env(cache, port))
        return cpu, sum(os.path.getsize(p) for p in paths)
    return ask


def one_by_one(ids, cache):
    def ask(port):
        env, cpu, size = client_env(cache, port), 0, 0
        for i in ids:
            one, _, paths = timed(["debuginfod-find", "debuginfo", i], env)
            cpu += one
            size += sum(os.path.getsize(p) for p in paths)
        return cpu, size
    return ask


def bench_cold(table, package, args, cache):
    folder = CORPUS / f"find-{package.stem}"
    folder.mkdir(exist_ok=True)
    if not (folder / package.name).exists():
        os.link(package, folder / package.name)
    member = next(m for m in subprocess.run(["ar", "t", str(package)], check=True, capture_output=True, text=True).stdout.split() if m in CODECS)
    known = members(package)
    vmlinux = max(known, key=lambda m: m[2])
    modules = [m for m in known if m != vmlinux and (m[1].endswith(".ko") or "/.build-id/" in m[1])]
    random.Random(1).shuffle(modules)
    ids = [m[0] for m in [vmlinux, *modules[:args.modules]]]
    what = f"vmlinux and {len(ids) - 1} modules"
    # Scan before measuring; the index is kept for the next run.
    state = CORPUS / f"find-state-lode-{package.stem}"
    with Server("lode", [str(folder)], state) as s:
        s.wait_ready()
        s.wait_scanned()
    limit_cpu, limit_wall, payload = decode(package, CODECS[member], os.cpu_count())
    say(f"{package.name}: {payload} bytes decoded; {what}: {sum(m[2] for m in [vmlinux, *modules[:args.modules]])} bytes of them")
    cpu, server, wall, size = cold("lode", folder, state, in_one_call(ids, cache))
    few = ids[:1] + ids[1:1 + args.reference] if args.reference else []
    ref_cpu, ref_server, ref_wall, ref_size = cold("lode", folder, state, one_by_one(ids, cache))
    say(f"{size} bytes by lode find, {ref_size} by debuginfod-find")
    table.add(f"{what}, one call: service and client, CPU", cpu + server, ref_cpu + ref_server, limit_cpu, 1.2 * limit_cpu)
    table.add("of which the client, CPU", cpu, ref_cpu)
    table.add("of which the service, CPU", server, ref_server)
    table.add("the same, wall", wall, ref_wall, limit_wall, 1.2 * limit_wall)
    if few:
        far_state = CORPUS / f"find-state-ref-{package.stem}"
        near = cold("lode", folder, state, in_one_call(few, cache))
        far = cold("debuginfod", folder, far_state, one_by_one(few, cache))
        say(f"{near[3]} bytes by lode find from lode, {far[3]} by debuginfod-find from debuginfod")
        table.add(f"vmlinux and {len(few) - 1} modules, one call; beside debuginfod, one by one: CPU", near[0] + near[1], far[0] + far[1], limit_cpu)
        table.add("the same, wall", near[2], far[2], limit_wall)
    return vmlinux[0]


def bench_warm(table, build_id, cache, n=200):
    """Measure in turns, so that other load on the machine affects all alike."""
    env = dict(os.environ, DEBUGINFOD_CACHE_PATH=str(cache), DEBUGINFOD_URLS="http://127.0.0.1:9")
    argvs = {"true": ["/bin/true"], "version": [LODE, "version"], "find": [LODE, "find", build_id],
             "debuginfod-find": [LODE, "debuginfod-find", "debuginfo", build_id], "reference": ["debuginfod-find", "debuginfo", build_id]}
    runs = {name: [] for name in argvs}
    for _ in range(n):
        for name, argv in argvs.items():
            runs[name].append(timed(argv, env)[:2])
    for what, i, pick in (("CPU, median", 0, median), ("CPU, least", 0, min), ("wall, median", 1, median), ("wall, least", 1, min)):
        f = {name: pick([1000 * r[i] for r in rs]) for name, rs in runs.items()}
        target = 3 if i == 0 else None
        table.add(f"lode find of a build ID in the cache, {what}; limit: /bin/true", f["find"], f["reference"], f["true"], target, "ms")
        table.add(f"lode debuginfod-find of it, {what}", f["debuginfod-find"], f["reference"], f["true"], target, "ms")
        table.add(f"lode version, {what}", f["version"], None, f["true"], None, "ms")


def some_cached(cache):
    """Put a program of this machine into the cache folder, as if it had been fetched."""
    program = pathlib.Path("/usr/bin/ls")
    out = subprocess.run([LODE, "find", "--json", "--local", "--executable", str(program)], capture_output=True, text=True).stdout
    build_id = out.split('"build_id": "')[1].split('"')[0]
    (cache / build_id).mkdir(parents=True)
    shutil.copy(program, cache / build_id / "debuginfo")
    return build_id


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--package", type=pathlib.Path, help="a kernel's debug package")
    ap.add_argument("--modules", type=int, default=100)
    ap.add_argument("--reference", type=int, default=3, metavar="N", help="so many modules (and vmlinux) also from Debian's debuginfod; 0: none")
    ap.add_argument("--warm", action="store_true")
    args = ap.parse_args()
    CORPUS.mkdir(parents=True, exist_ok=True)
    table = Table()
    with tempfile.TemporaryDirectory(dir=CORPUS) as work:
        if args.warm:
            cache = pathlib.Path(work) / "warm"
            bench_warm(table, some_cached(cache), cache)
        else:
            package = args.package or kernel_packages(("xz",))["xz"]
            cache = pathlib.Path(work) / "cache"
            bench_cold(table, package, args, cache)
            shutil.rmtree(cache, ignore_errors=True)
            bench_warm(table, some_cached(cache), cache)
    table.print()


if __name__ == "__main__":
    main()
