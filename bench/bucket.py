# SPDX-License-Identifier: Apache-2.0
"""Packages in a bucket 30 ± 20 ms away: cold members and sections of the kernel debug package, header passes, deep passes. And a store
in it: pushes of a large file, and of small ones.

    bench/bucket.py [--rows cold,headers,deep,walks,push,fuse] [--members 40] [--packages 10000] [--objects 500] [--push-size 4000] [--delay 30]
        [--spread 20] [--package DEB]

The bucket is versitygw's (./dev test builds it), after a proxy that delays each answer. The same files on the local disk are the reference.
"cold" and "deep" scan the 858 MB package twice: minutes. "limit" of the header pass is the time that 64 requests in flight need at this
delay. "walks" pushes small objects into a store in the bucket, and reads all of their records. "push", which has to be named, is an ELF file
of --push-size MB of this build's own debug information, beside an upload of the same file in parts and nothing else (bench-bucket-put), whose
parts and threads are the same (4); and of a file that does not compress. "CPU of all" is that of the client, the service, the bucket and
the proxy: where it takes all processors, as on two, it is the limit of the wall time. "fuse", which has to be named, is the peer of
"cold": elfutils' server over a mount of the bucket (s3fs, of the package of that name; needs /dev/fuse and root). It unpacks the package to its
end for each new member, so few are asked for. Cold: what a request takes longer than on the local disk, where it takes the decoding alone; in the same run, as the CPU is shared.
"""

import argparse
import http.client
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

from _far_bucket import Far, versitygw
from common import CORPUS, LODE, ROOT, Server, Table, kernel_packages, percentile, say, scratch
from kernel import members
from making import Elf, deb, new_id
from pushing import put


HEADER = 256 << 10
IN_FLIGHT = 64


def counted(server):
    """(requests for ranges, bytes) so far."""
    text = server.metrics()
    requests = sum(float(x) for x in re.findall(r'^lode_s3_requests_total\{what="(?:range|get|head)",.*\} (\S+)', text, re.M))
    m = re.search(r"^lode_s3_received_bytes_total (\S+)", text, re.M)
    return requests, float(m.group(1)) if m else 0.0


def scanned(root, state, *more):
    """Scan @root. (CPU seconds, wall seconds)"""
    t0 = time.monotonic()
    with Server("lode", [root], state, ["--rescan", "0", "--cache-size", "0", *more]) as s:
        s.wait_ready()
        s.wait_scanned()
        return s.cpu(), time.monotonic() - t0


def settled(server):
    """Read-ahead that is under way has ended."""
    was = None
    while was != (was := counted(server)):
        time.sleep(0.3)
    return was


def cold(table, far, local, ids):
    """Each of @ids in turn, on a fresh place of the package: time beyond the local disk's, requests, bytes."""
    extra = ["--rescan", "0", "--cache-size", "0", "--header-only"]
    found = {"member": [], "section": []}
    with Server("lode", [far[0]], far[1], extra) as s, Server("lode", [local[0]], local[1], extra) as here:
        s.wait_ready()
        here.wait_ready()
        for i, build_id in enumerate(ids):
            what = "section" if i % 2 else "member"
            url = f"/buildid/{build_id}/{'section/.debug_line' if i % 2 else 'debuginfo'}"
            there = here.get(url)
            n0, b0 = settled(s)
            got = s.get(url)
            assert got[0] == there[0] == 200 and got[1] == there[1], (url, got, there)
            n1, b1 = settled(s)
            found[what].append((got[2], got[2] - there[2], n1 - n0, b1 - b0, got[3]))
    for what, rows in found.items():
        for name, k, limit, unit in (("first byte, p50", 0, None, "s"), ("first byte beyond the local disk, p50", 1, 0.150, "s"),
                                     ("all of it, p50", 4, None, "s"), ("GETs, p50", 2, None, "count"), ("GETs, most", 2, 2, "count"),
                                     ("bytes, most", 3, 6e6, "B")):
            values = [r[k] for r in rows]
            table.add(f"cold {what}: {name}", max(values) if "most" in name else percentile(values, 0.5), limit=limit, unit=unit)


def fuse(table, far, url, state, ids):
    """elfutils' debuginfod over the bucket as a file system: scan, then a section of each of @ids."""
    if not shutil.which("s3fs") or not shutil.which("debuginfod"):
        return say("fuse: needs s3fs and debuginfod")
    mount, keys = state / "mount", state / "keys"
    mount.mkdir(parents=True)
    keys.touch(mode=0o600)
    keys.write_text(f"{os.environ['AWS_ACCESS_KEY_ID']}:{os.environ['AWS_SECRET_ACCESS_KEY']}")
    subprocess.run(["s3fs", "bucket", mount, "-o", f"passwd_file={keys}", "-o", f"url={os.environ['AWS_ENDPOINT_URL_S3']}",
                    "-o", "use_path_request_style"], check=True)
    try:
        t0 = time.monotonic()
        with Server("debuginfod", [str(mount / url.removeprefix("s3://bucket/"))], state / "data") as s:
            s.wait_ready()
            s.wait_scanned()
            table.add("scan, elfutils over s3fs", time.monotonic() - t0)
            took = []
            for build_id in ids:
                status, _, _, seconds, _ = s.get(f"/buildid/{build_id}/section/.debug_line")
                assert status == 200, (build_id, status)
                took.append(seconds)
            table.add("cold section, elfutils over s3fs: all of it, p50", percentile(took, 0.5))
    finally:
        subprocess.run(["umount", mount], check=False)


def walks(table, far, n, work):
    """All records of a store with @n objects."""
    store, state = "s3://bucket/walks", work / "walks"
    state.mkdir()
    elf = Elf(state)
    near = {**os.environ, "AWS_ENDPOINT_URL_S3": far.gateway.url}
    # Into a folder, and from there at no distance.
    with Server("lode", [], state / "folder", ["--no-packages", "--no-files"]) as s:
        s.wait_ready()
        for i in range(n):
            assert put(s, f"/buildid/{new_id('walk', i)}/debuginfo", elf.of(elf.debug, new_id("walk", i)))[0] == 201
    subprocess.run([LODE, "store", "copy", state / "folder" / "store", store, "--data", state / "copy"], check=True, capture_output=True, env=near)
    for what in ("ls", "gc", "verify"):
        t0 = time.monotonic()
        subprocess.run([LODE, "store", what, "--store", store, "--data", state / what], check=True, capture_output=True)
        table.add(f"store {what} of {n} objects", time.monotonic() - t0)


def headers(table, far, n, delay):
    first = CORPUS / "bucket-small.deb"
    first.write_bytes(deb(random.Random(1).randbytes(300_000), "xz", [new_id("bucket")], name="small"))
    (far.folder / "small").mkdir(parents=True)
    for i in range(n):
        os.link(first, far.folder / "small" / f"p{i:05}.deb")
    state = scratch("bucket-headers")
    t0, far_cpu = time.monotonic(), far.cpu()
    with Server("lode", ["s3://bucket/small"], state, ["--rescan", "0", "--header-only"]) as s:
        s.wait_ready()
        wall, (requests, size) = time.monotonic() - t0, counted(s)
        table.add(f"header pass of {n} packages", wall, limit=n / IN_FLIGHT * delay / 1000)
        table.add("header pass: requests a package", requests / n, target=1.0, unit="count")
        table.add("header pass: bytes a package", size / n, target=HEADER, unit="B")
        table.add("header pass: CPU", s.cpu())
        table.add("header pass: CPU of the bucket and the proxy", far.cpu() - far_cpu)
    shutil.rmtree(state)
    first.unlink()


def timed(far, argv):
    """Run it. (wall seconds, CPU seconds of it, the bucket and the proxy)"""
    t0, far_cpu = time.monotonic(), far.cpu()
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, p.returncode, used = os.wait4(p.pid, 0)
    assert p.returncode == 0, argv
    return time.monotonic() - t0, used.ru_utime + used.ru_stime + far.cpu() - far_cpu


def push_one(far, path):
    """`lode push` into a new store. (wall seconds, CPU seconds of all, peak RSS of the service, CPU seconds of the service)"""
    state, store = scratch("bucket-push"), f"s3://bucket/{path.stem}-{os.getpid()}/store"
    with Server("lode", ["--no-packages", "--store", store, state], state, ["--rescan", "0"]) as s:
        s.wait_ready()
        before = s.cpu()
        wall, cpu = timed(far, [LODE, "push", "--to", f"http://127.0.0.1:{s.port}", path])
        ret = wall, cpu + s.cpu() - before, s.rss(), s.cpu() - before
    shutil.rmtree(state)
    shutil.rmtree(far.folder / store.split("/")[3])
    return ret


def push_plain(far, path):
    tool = pathlib.Path(LODE).parent / "bench" / "bench-bucket-put"
    ret = timed(far, [tool, path, f"s3://bucket/plain/{path.name}"])
    (far.folder / "plain" / path.name).unlink()
    return ret


def elf_of(work, name, size, piece):
    """A debug file with a section of @size bytes, of @piece again and again with a counter in each 64 KiB."""
    (work / "x.c").write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{new_id(name, os.getpid())}", "-o", work / "x", work / "x.c"], check=True)
    with open(work / "fill", "wb") as f:
        for i in range(size // len(piece) + 1):
            block = bytearray(piece)
            block[::65536] = bytes([i % 251] * len(block[::65536]))
            f.write(block)
    subprocess.run(["objcopy", "--only-keep-debug", "--add-section", f".debug_fill={work / 'fill'}", work / "x", work / f"{name}.debug"], check=True)
    (work / "fill").unlink()
    return work / f"{name}.debug"


def pushes(table, far, work, args):
    size = args.push_size * 1000 * 1000
    debug = pathlib.Path(LODE).read_bytes()
    for name, piece in (("debug", debug), ("noise", random.Random(1).randbytes(64 << 20))):
        path = elf_of(work, name, size, piece)
        # Beside each other, twice: the machine changes.
        rows = [(*push_plain(far, path), *push_one(far, path)) for _ in range(2)]
        path.unlink()
        plain, plain_cpu, wall, all_cpu, rss, cpu = (min(r[i] for r in rows) if i < 4 else max(r[i] for r in rows) for i in range(6))
        table.add(f"push of {args.push_size} MB, {name}", wall, plain, target=1.3 * plain)
        table.add(f"push of {args.push_size} MB, {name}: CPU of all", all_cpu, plain_cpu)
        table.add(f"push of {args.push_size} MB, {name}: peak RSS", rss, target=64, unit="MB")
        table.add(f"push of {args.push_size} MB, {name}: CPU of the service", cpu)


def small_pushes(table, work):
    """Files of 100 kB, one after the other."""
    state = scratch("bucket-small-push")
    with Server("lode", ["--no-packages", "--store", f"s3://bucket/small-{os.getpid()}/store", state], state, ["--rescan", "0"]) as s:
        s.wait_ready()
        walls = []
        for i in range(20):
            path = elf_of(work, f"small{i}", 100_000, random.Random(i).randbytes(100_000))
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            build_id = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-nW", path], capture_output=True, text=True).stdout).group(1)
            t0 = time.monotonic()
            c.request("PUT", f"/buildid/{build_id}/debuginfo", path.read_bytes())
            assert c.getresponse().status == 201
            walls.append(time.monotonic() - t0)
        table.add("push of 100 kB, p50", percentile(walls, 0.5), target=0.150 + 0.050)
    shutil.rmtree(state)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="cold,headers,deep,walks")
    p.add_argument("--members", type=int, default=40)
    p.add_argument("--packages", type=int, default=10000)
    p.add_argument("--push-size", type=int, default=4000)
    p.add_argument("--objects", type=int, default=500)
    p.add_argument("--package", type=pathlib.Path, help="another one than the kernel's")
    p.add_argument("--delay", type=float, default=30)
    p.add_argument("--spread", type=float, default=20)
    args = p.parse_args()
    rows, table = args.rows.split(","), Table()
    if not versitygw.PROGRAM.exists():
        raise SystemExit(f"bench: {versitygw.WHY_NOT}")
    work = scratch("bucket")
    far = Far(work, args.delay, args.spread)
    try:
        if "headers" in rows:
            headers(table, far, args.packages, args.delay)
        if "push" in rows:
            small_pushes(table, work)
            pushes(table, far, work, args)
        if "walks" in rows:
            walks(table, far, args.objects, work)
        if {"cold", "deep", "fuse"} & set(rows):
            package = args.package or kernel_packages(parts=())["xz"]
        if "fuse" in rows:
            ids = [m[0] for m in members(package) if 100_000 < m[2] < 4_000_000]
            fuse(table, far, far.put(package, "mounted"), work / "fuse", random.Random(2).sample(ids, 3))
        if "cold" in rows or "deep" in rows:
            (work / "local").mkdir()
            os.link(package, work / "local" / package.name)
            places = (far.put(package, "kernel"), work / "far"), (str(work / "local"), work / "near")
            say("scanning the kernel package twice: minutes")
            (cpu, wall), (cpu_here, wall_here) = (scanned(root, state) for root, state in places)
            table.add("deep pass: CPU", cpu, cpu_here, target=1.1 * cpu_here)
            table.add("deep pass: wall", wall, wall_here)
        if "cold" in rows:
            ids = [m[0] for m in members(package) if 100_000 < m[2] < 4_000_000]
            cold(table, *places, random.Random(1).sample(ids, args.members))
    finally:
        far.close()
        shutil.rmtree(work, ignore_errors=True)
    table.print()


if __name__ == "__main__":
    main()
