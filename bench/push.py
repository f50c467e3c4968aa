# SPDX-License-Identifier: Apache-2.0
"""Pushing gigabytes over loopback: speed, beside copying them on the same disk, and memory on both sides.

    bench/push.py [--size 4000] [--parallel 8] [ELF...]

The files are copies of ELF (default: the programs of this build), each with another build ID, so that the server has none of them.

The reference is an equally durable copy on the same disk, with the same parallelism: fsync of each file and of its folder. It is made before and after, and
the mean is used. The limit is the unavoidable CPU: SHA-256 on both sides, that copy, and the loopback, each measured alone in the same run.
Compression in the background after the push has a row of its own.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import queue
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from common import CORPUS, LODE, ROOT, Server, Table, peak_rss_mb, say


def build_id(path):
    out = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True).stdout
    m = re.search(r"Build ID: ([0-9a-f]{40})", out)
    return m and bytes.fromhex(m.group(1))


def originals(given):
    if given:
        return [pathlib.Path(p) for p in given]
    return [p for p in (ROOT / "build").rglob("*") if p.is_file() and p.stat().st_size > 300_000 and p.suffix == "" and build_id(p)]


def make(files, folder, size):
    """Make copies, each with another build ID."""
    made = n = 0
    while made < size:
        before = made
        for p in files:
            old = build_id(p)
            content = p.read_bytes()
            if not old or content.count(old) != 1 or made >= size:
                continue
            n += 1
            (folder / f"{n}.debug").write_bytes(content.replace(old, hashlib.sha1(f"{n}".encode()).digest()))
            made += len(content)
        if made == before:
            raise SystemExit("none of these files has a build ID")
    return n, made


def wait_watching(argv):
    """Wall seconds, CPU seconds and peak RSS (MB) of a command."""
    t0, rss = time.monotonic(), 0
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(argv, stdout=out)
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            # wait4() may report our own peak, from before the exec.
            with contextlib.suppress(OSError, AttributeError):
                rss = max(rss, peak_rss_mb(p.pid))
            time.sleep(0.05)
        out.seek(0)
        text = out.read()
    if status:
        raise SystemExit(f"{argv[0]} failed: {text.decode()[-2000:]}")
    return time.monotonic() - t0, usage.ru_utime + usage.ru_stime, rss, text


def copied(folder, to, parallel):
    """Wall and CPU seconds of copying as durably as a push: each file is written, then fsync of it and of its folder.

    The copy is kept until the end: ext4 skips inodes that were freed in the last minutes, one by one."""
    to.mkdir()
    todo = queue.SimpleQueue()
    for p in folder.iterdir():
        todo.put(p)

    def work():
        room = memoryview(bytearray(262144))
        with contextlib.suppress(queue.Empty):
            while True:
                p = todo.get_nowait()
                with open(p, "rb", buffering=0) as src, open(to / p.name, "xb", buffering=0) as dst:
                    while n := src.readinto(room):
                        dst.write(room[:n])
                    os.fsync(dst.fileno())
                fd = os.open(to, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)

    t0, cpu = time.monotonic(), time.process_time()
    threads = [threading.Thread(target=work) for _ in range(parallel)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.monotonic() - t0, time.process_time() - cpu


def fill_memory(folder):
    """Fill memory with page cache, as on a machine that has run for a while. On a virtual machine whose host reclaims free memory, the first
    touch of a page costs many times the measured work."""
    with open("/proc/meminfo") as f:
        free = 1024 * int(re.search(r"MemFree: *(\d+)", f.read()).group(1))
    with open(folder / "holes", "wb") as f:
        f.truncate(free)
    room = memoryview(bytearray(1 << 20))
    with open(folder / "holes", "rb", buffering=0) as f:
        while f.readinto(room):
            pass


def hashed(folder):
    """CPU seconds of SHA-256 over all files, without reading them."""
    piece = memoryview(bytearray(next(folder.iterdir()).read_bytes()[:262144]))
    size = sum(p.stat().st_size for p in folder.iterdir())
    t0, h, n = time.process_time(), hashlib.sha256(), 0
    while n < size:
        h.update(piece)
        n += len(piece)
    return time.process_time() - t0


def carried(size):
    """CPU seconds of sending that many bytes over the loopback, both ends."""
    t0 = time.process_time()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def send():
            with socket.create_connection(listener.getsockname()) as s:
                piece = bytes(262144)
                for _ in range(int(size / len(piece))):
                    s.sendall(piece)
        t = threading.Thread(target=send)
        t.start()
        c, _ = listener.accept()
        room = bytearray(262144)
        while c.recv_into(room):
            pass
        t.join()
        c.close()
    return time.process_time() - t0


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--size", type=float, default=4000, help="MB")
    a.add_argument("--parallel", type=int, default=8)
    a.add_argument("elf", nargs="*")
    a = a.parse_args()
    CORPUS.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="bench-push-", dir=CORPUS))
    try:
        (work / "files").mkdir()
        (work / "empty").mkdir()
        n, size = make(originals(a.elf), work / "files", a.size * 1e6)
        say(f"{n} files, {size / 1e6:.0f} MB")
        os.sync()
        fill_memory(work)
        copy, copy_cpu = copied(work / "files", work / "before", a.parallel)
        hash_and_loopback = 2 * hashed(work / "files") + carried(size)
        t = Table()
        with Server("lode", [str(work / "empty")], state=work / "state", extra=["--no-access-log"]) as s:
            s.wait_ready()
            before = s.cpu()
            wall, cpu, rss, out = wait_watching([LODE, "push", str(work / "files"), "--to", f"http://127.0.0.1:{s.port}", "--json",
                                                 "--parallel", str(a.parallel)])
            r = json.loads(out)
            assert r["stored"] == n and not r["failed"], (r["stored"], r["failed"])
            server_cpu = s.cpu() - before
            again, again_cpu = copied(work / "files", work / "after", a.parallel)
            copy, copy_cpu = (copy + again) / 2, (copy_cpu + again_cpu) / 2
            limit = hash_and_loopback + copy_cpu
            t.add(f"push of {n} files, {size / 1e6:.0f} MB; beside copying them durably", wall, copy)
            t.add("  its speed", size / wall / 1e6, size / copy / 1e6, unit="MB/s")
            t.add("  CPU, both sides; limit: 2 x SHA-256, copy, loopback", cpu + server_cpu, limit=limit)
            t.add("  what two cores need at least", wall, limit=limit / 2)
            t.add("  CPU, client", cpu)
            t.add("  CPU, server", server_cpu)
            t.add("  peak RSS, client", rss, target=64, unit="MB")
            t.add("  peak RSS, server", s.rss(), target=64, unit="MB")
            wall, cpu, rss, out = wait_watching([LODE, "push", str(work / "files"), "--to", f"http://127.0.0.1:{s.port}", "--json"])
            assert json.loads(out)["already_there"] == n
            t.add("the same again: nothing is sent", wall)
            before = s.cpu()
            while json.loads(urllib.request.urlopen(f"http://127.0.0.1:{s.port}/api/status").read())["store"]["to_compress"]["objects"]:
                time.sleep(0.2)
            t.add("  CPU, server, compressing it afterwards", s.cpu() - before)
            t.add("  peak RSS, server, then", s.rss(), target=64, unit="MB")
            subprocess.run([LODE, "store", "gc", "--data", str(work / "state")], check=True, stdout=subprocess.DEVNULL)
            kept = sum(p.stat().st_size for p in (work / "state/store/data").rglob("*") if p.is_file())
            wall, cpu, rss, _ = wait_watching([LODE, "store", "verify", "--json", "--data", str(work / "state")])
            t.add("lode store verify", wall)
        t.print()
        print(f"kept in {kept / 1e6:.0f} MB, {100 * kept / size:.0f} %")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
