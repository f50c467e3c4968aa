# SPDX-License-Identifier: Apache-2.0
"""The debuginfod client beside elfutils': dead and stalled servers, many files over one handle, a cached file.

    bench/client.py [--files 30] [--timeout 5]

The same few lines of ctypes call both versions of libdebuginfod.so.1, one find after another as a debugger does, each with an empty
cache folder. --timeout is DEBUGINFOD_TIMEOUT in the rows with a stalled server: elfutils' usual 90 s would make these rows wait for minutes.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from common import LODE, Server, Table, say

OURS = pathlib.Path(LODE).parent / "lib" / "libdebuginfod.so.1"
THEIRS = "libdebuginfod.so.1"


def build_id(path):
    out = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    m = re.search(r"Build ID: ([0-9a-f]+)", out)
    return m and m.group(1)


def libraries(n):
    """{build ID: path} of @n libraries of this machine."""
    found = {}
    for p in sorted(pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("*.so.*")):
        if p.is_file() and p.stat().st_size < 20_000_000 and len(found) < n:
            i = build_id(p)
            if i:
                found.setdefault(i, p)
    return found


@contextlib.contextmanager
def drops_packets():
    """A server that accepts no connections, with a full backlog."""
    with socket.socket() as s, contextlib.ExitStack() as stack:
        s.bind(("127.0.0.1", 0))
        s.listen(0)
        for _ in range(4):
            c = stack.enter_context(socket.socket())
            c.setblocking(False)
            c.connect_ex(s.getsockname())
        yield f"http://127.0.0.1:{s.getsockname()[1]}"


@contextlib.contextmanager
def stalls(content):
    """A server that sends 1 KB of each answer, then nothing more."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        held = []

        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                c.recv(65536)
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content[:1024])
                held.append(c)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{s.getsockname()[1]}"
        s.shutdown(socket.SHUT_RDWR)
        for c in held:
            c.close()


def child(library, kind, ids):
    """Run in a child process: find the files one after another. Prints the seconds and the number of files found."""
    lib = ctypes.CDLL(library)
    lib.debuginfod_begin.restype = ctypes.c_void_p
    find = getattr(lib, f"debuginfod_find_{kind}")
    find.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    t0 = time.monotonic()
    c, found = lib.debuginfod_begin(), 0
    for i in ids:
        fd = find(c, i.encode(), 0, None)
        if fd >= 0:
            found += 1
            os.close(fd)
    print(json.dumps([time.monotonic() - t0, found]))


def run(library, urls, kind, ids, expect=None, **env):
    cache = tempfile.mkdtemp(prefix="bench-client-")
    e = dict(os.environ, DEBUGINFOD_URLS=" ".join(urls), DEBUGINFOD_CACHE_PATH=cache, **env)
    out = subprocess.run([sys.executable, __file__, "--child", str(library), kind, *ids], env=e, capture_output=True, text=True, check=True)
    shutil.rmtree(cache)
    seconds, found = json.loads(out.stdout)
    if found != (len(ids) if expect is None else expect):
        say(f"    {library}: {found} of {len(ids)} found")
    return seconds


def process(argv, env, n=30):
    best = 1e9
    for _ in range(n):
        t0 = time.perf_counter()
        subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - t0)
    return best


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--files", type=int, default=30)
    a.add_argument("--timeout", type=int, default=5)
    args = a.parse_args()
    table = Table()
    libs = libraries(max(args.files, 200))
    ids = list(libs)
    some = ids[:args.files]
    with tempfile.TemporaryDirectory(prefix="bench-served-") as served:
        for i, p in libs.items():
            shutil.copy(p, served)
        with Server("lode", [served]) as s:
            s.wait_ready()
            s.wait_scanned()
            good = f"http://127.0.0.1:{s.port}"
            for i in ids:  # fill the server's cache
                s.get(f"/buildid/{i}/executable")
            table.add(f"{len(some)} files, one server", run(OURS, [good], "executable", some), run(THEIRS, [good], "executable", some))
            table.add(f"{len(ids)} files, one server", run(OURS, [good], "executable", ids), run(THEIRS, [good], "executable", ids))
            with drops_packets() as dead:
                table.add(f"{len(some)} files, first server drops packets", run(OURS, [dead, good], "executable", some),
                          run(THEIRS, [dead, good], "executable", some), target=2.0)
                # elfutils' client waits for curl's own 300 s here.
                table.add("3 files that nobody has, first server drops packets",
                          run(OURS, [dead, good], "debuginfo", [f"{n:040x}" for n in range(3)], expect=0))
            largest = max(ids, key=lambda i: libs[i].stat().st_size)
            with stalls(libs[largest].read_bytes()) as slow:
                table.add(f"one file, first server stalls after 1 KB (TIMEOUT {args.timeout})",
                          run(OURS, [slow, good], "executable", [largest], DEBUGINFOD_TIMEOUT=str(args.timeout)),
                          run(THEIRS, [slow, good], "executable", [largest], DEBUGINFOD_TIMEOUT=str(args.timeout)), target=3.0)
            with tempfile.TemporaryDirectory(prefix="bench-client-") as cache:
                e = dict(os.environ, DEBUGINFOD_URLS=good, DEBUGINFOD_CACHE_PATH=cache)
                table.add("a cached file, process", process([LODE, "debuginfod-find", "executable", largest], e),
                          process(["debuginfod-find", "executable", largest], e), limit=process(["true"], e), target=0.003)
    table.print()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        child(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
