#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole agent, as it runs in production: CPU of all its threads, memory, the first sample, complete stacks, bytes sent.

Two busy programs, python3 and one in C without frame pointers, 400 calls deep; profiles go to a server of our own that takes them.
CPU is measured after 10 s, when the tables of all files are built. --lode for another build; root, or the capabilities of
docs/agent.md. The time in BPF is not in it (bench/agent.py has it)."""

import argparse
import http.server
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARM_S = 10
TICKS = os.sysconf("SC_CLK_TCK")
DEEP = r"""
static volatile unsigned long sink;
__attribute__((noinline)) static int deeper(int n)
{
	volatile char local[24] = {n};
	int r = 0;

	if (n)
		r = deeper(n - 1);
	else
		for (int i = 0; i < 20000; i++)
			sink += i * i;
	return r + local[0];
}
int main(void) { for (;;) sink += deeper(400); }
"""
PYTHON = "def f(n):\n return 1 if n < 2 else f(n - 1) + f(n - 2)\nwhile True: sorted(range(300), key=lambda x: x * 7919 % 101); f(15)"


class Taker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bytes = 0

    def do_POST(self):
        Taker.bytes += len(self.rfile.read(int(self.headers["Content-Length"])))
        body = b'{"profiles":1,"samples":1,"id":1,"duplicate":false}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid):
    """(resident without the maps of BPF, these maps)."""
    maps = rss = 0
    name = ""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            name = line.split(None, 5)[-1]
        elif line.startswith("Rss:"):
            size = int(line.split()[1])
            rss += size
            maps += size if "bpf-map" in name else 0
    return (rss - maps) / 1024, maps / 1024


def measure(lode, hz, seconds, folder, url):
    state = folder / f"state{hz}"
    before = Taker.bytes
    p = subprocess.Popen([lode, "agent", "--to", url, "--state", str(state), "-F", str(hz)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(WARM_S)
        if p.poll() is not None:
            print(f"{hz:4} Hz  the agent cannot run here")
            return
        start, from_s = cpu_s(p.pid), time.monotonic()
        time.sleep(seconds)
        used, took = cpu_s(p.pid) - start, time.monotonic() - from_s
        own, maps = memory_mib(p.pid)
        status = json.loads((state / "status.json").read_text())
        ends = status["stacks"]
        whole = sum(n for end, n in ends.items() if end in ("complete", "frame pointer", "kernel only"))
        print(f"{hz:4} Hz  CPU of a processor {100 * used / took:5.2f} %, at the start {start:5.2f} s  resident {own:5.1f} MiB and {maps:5.1f} MiB of maps"
              f"  first sample after {status['first_sample_ms']} ms  samples {status['samples']}, lost {status['samples_lost']}"
              f"  complete {100 * whole / max(1, sum(ends.values())):6.2f} %  {(Taker.bytes - before) / (WARM_S + took) / 1e3:.1f} kB/s")
    finally:
        p.terminate()
        p.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lode", default=str(ROOT / "build/lode"))
    parser.add_argument("--hz", type=int, nargs="*", default=[19, 99])
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "deep.c").write_text(DEEP)
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", folder / "deep.c", "-o", folder / "deep"], check=True)
        load = [subprocess.Popen([str(folder / "deep")]), subprocess.Popen(["/usr/bin/python3", "-c", PYTHON])]
        try:
            for hz in options.hz:
                measure(options.lode, hz, options.seconds, folder, f"http://127.0.0.1:{server.server_address[1]}")
        finally:
            for p in load:
                p.kill()
                p.wait()


if __name__ == "__main__":
    main()
