# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: test packages, the two servers, CPU time of a process, the table of results.

Results are CPU seconds of the server's process (the kernel's accounting, per thread, in ns) and wall seconds of the client.
Ratios are within one run on one machine. Benchmarks assert nothing.
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = pathlib.Path(os.environ.get("LODE_BENCH_CORPUS", "/var/tmp/lode-bench"))
LODE = os.environ.get("LODE", str(ROOT / "build" / "lode"))


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_s(pid):
    """CPU seconds of all threads of a process, with ended ones (those in ticks of 10 ms)."""
    live = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            live += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    total_ticks = sum(int(x) for x in pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])
    return max(live / 1e9, total_ticks / os.sysconf("SC_CLK_TCK"))


def peak_rss_mb(pid):
    m = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(m.group(1)) / 1024


class Server:
    """A server process on loopback with its own data folder."""

    def __init__(self, kind, paths, state=None, extra=(), upstream=None):
        self.kind = kind
        self.port = free_port()
        self.state = pathlib.Path(state or tempfile.mkdtemp(prefix=f"bench-{kind}-", dir=CORPUS))
        self.state.mkdir(parents=True, exist_ok=True)
        self.log = open(self.state / "log", "ab")
        env = dict(os.environ, TMPDIR=str(self.state))
        env.pop("DEBUGINFOD_URLS", None)
        if kind == "lode":
            argv = [LODE, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.state), *extra, *paths]
            argv += ["--debuginfod-upstream-servers", upstream] if upstream else ["--no-upstream"]
        else:
            argv = ["debuginfod", "-F", "-R", "-U", "-Z", ".tar.zst", "-Z", ".tar.gz", "-t", "0", "-g", "0", "-d", str(self.state / "index.sqlite"),
                    "-p", str(self.port), *extra, *paths]
        self.proc = subprocess.Popen(argv, stdout=self.log, stderr=self.log, env=env)

    def get(self, path, method="GET", headers=None, stop_after=None):
        """(status, body size, seconds to the first byte, seconds, headers). @stop_after: close after so many bytes."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        t0 = time.monotonic()
        c.request(method, path, headers=headers or {})
        r = c.getresponse()
        n, first = 0, None
        while True:
            piece = r.read(1 << 20 if stop_after is None else min(1 << 20, stop_after - n))
            if first is None:
                first = time.monotonic() - t0
            n += len(piece)
            if not piece or (stop_after is not None and n >= stop_after):
                break
        total = time.monotonic() - t0
        c.close()
        return r.status, n, first, total, r.headers

    def wait_ready(self, timeout=1200):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise SystemExit(f"{self.kind} ended: see {self.state}/log")
            try:
                if self.kind == "lode":
                    if self.get("/readyz")[0] == 200:
                        return
                else:
                    c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                    c.request("GET", "/metrics")
                    text = c.getresponse().read().decode()
                    if re.search(r"^ready 1", text, re.M):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"{self.kind} is not ready after {timeout} s")

    def metrics(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("GET", "/metrics")
        return c.getresponse().read().decode()

    def wait_scanned(self, timeout=1800):
        """Wait until everything is scanned."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            text = self.metrics()
            if self.kind == "lode":
                m = re.search(r"^lode_scan_idle (\d+)", text, re.M)
                if m and m.group(1) == "1":
                    return
            else:
                pending = re.search(r'^thread_work_pending\{role="scan"\} (\d+)', text, re.M)
                busy = re.search(r'^thread_busy\{role="scan"\} (\d+)', text, re.M)
                total = re.search(r'^thread_work_total\{role="traverse"\} (\d+)', text, re.M)
                if total and (not pending or pending.group(1) == "0") and (not busy or busy.group(1) == "0"):
                    return
            time.sleep(0.2)
        raise SystemExit(f"{self.kind} still scans after {timeout} s")

    def cpu(self):
        return cpu_s(self.proc.pid)

    def rss(self):
        return peak_rss_mb(self.proc.pid)

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(60)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


class Table:
    """Rows of (name, ours, theirs, limit, unit), printed as a table and written as JSON."""

    def __init__(self):
        self.rows = []

    def add(self, what, ours, theirs=None, limit=None, target=None, unit="s"):
        self.rows.append(dict(what=what, ours=ours, theirs=theirs, limit=limit, target=target, unit=unit))
        say("  ", self.line(self.rows[-1]))

    @staticmethod
    def line(r):
        def f(v):
            return "-" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v)
        ratio = f"{(r['ours'] / r['theirs'] if r['unit'] == '/s' else r['theirs'] / r['ours']):.1f}x" if r["theirs"] and r["ours"] else "-"
        return f"| {r['what']} | {f(r['ours'])} | {f(r['theirs'])} | {ratio} | {f(r['limit'])} | {f(r['target'])} | {r['unit']} |"

    def print(self):
        print("| measure | lode | reference | ratio | limit | target | unit |\n|---|---|---|---|---|---|---|")
        for r in self.rows:
            print(self.line(r))


def kernel_packages(parts=("xz", "zstd", "gzip")):
    """Debian's kernel debug package and the same content in other compressions, made once: {"xz": path, ...}"""
    CORPUS.mkdir(parents=True, exist_ok=True)
    have = {}
    original = sorted(CORPUS.glob("linux-image-6.1.0-*[0-9]-amd64-dbg_*.deb"))
    if not original:
        name = subprocess.run(["apt-cache", "search", "--names-only", r"^linux-image-6\.1\.0-[0-9]+-amd64-dbg$"], check=True,
                              capture_output=True, text=True).stdout.split("\n")
        newest = sorted((n.split(" ")[0] for n in name if n), key=lambda n: int(n.split("-")[3]))[-1]
        say(f"downloading {newest} (860 MB)")
        subprocess.run(["apt-get", "download", newest], cwd=CORPUS, check=True)
        original = sorted(CORPUS.glob("linux-image-6.1.0-*[0-9]-amd64-dbg_*.deb"))
    have["xz"] = original[-1]
    for kind, member, tool in (("zstd", "data.tar.zst", ["zstd", "-q", "-T0", "-19", "-c"]), ("gzip", "data.tar.gz", ["gzip", "-6", "-c"])):
        if kind not in parts:
            continue
        out = CORPUS / f"kernel-{kind}.deb"
        have[kind] = out
        if out.exists():
            continue
        say(f"repacking as {kind}: minutes")
        with tempfile.TemporaryDirectory(dir=CORPUS) as tmp:
            subprocess.run(["ar", "x", str(have["xz"])], cwd=tmp, check=True)
            with open(f"{tmp}/{member}", "wb") as f:
                xz = subprocess.Popen(["xz", "-dc", "-T0", f"{tmp}/data.tar.xz"], stdout=subprocess.PIPE)
                subprocess.run(tool, stdin=xz.stdout, stdout=f, check=True)
                xz.wait()
            control = next(pathlib.Path(tmp).glob("control.tar*")).name
            subprocess.run(["ar", "rc", f"{out}.part", "debian-binary", control, member], cwd=tmp, check=True)
            os.rename(f"{out}.part", out)
    return have


def scratch(name):
    d = CORPUS / name
    shutil.rmtree(d, ignore_errors=True)
    d.mkdir(parents=True)
    return d


def median(values):
    return statistics.median(values)
