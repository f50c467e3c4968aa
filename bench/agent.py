#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sampler of the agent beside perf record: CPU, time in BPF, complete stacks, the same load, one after the other.

The load is one copy of each stock program that is installed (python3, perl, sqlite3, xz, node, ruby, php) and a C program 400
frames deep. perf's stack is complete if its last frame is the program's start. --hz and --seconds as given; root."""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = ROOT / "build/tests/tools/sampler_run"
COMPLETE = ("complete", "frame pointer", "kernel only")
STARTS = re.compile(r"^(_start|__?libc_start_\w*|start_thread|clone3?|__clone3?|main|_dl_start_user|ret_from_fork\w*)(@\S+)?(\+0x\w+)?$")

DEEP = r"""
#include <stdlib.h>
#include <string.h>
static volatile unsigned long sink;
__attribute__((noinline)) static int deeper(int n)
{
	char local[16 + n % 48];
	memset(local, n, sizeof(local));
	if (!n)
		for (int i = 0; i < 20000; i++)
			sink += i * i;
	return n ? deeper(n - 1) + local[3] : local[2];
}
int main(void) { for (;;) sink += deeper(400); }
"""

PROGRAMS = {
    "python3": ["-c", "def f(n):\n return 1 if n < 2 else f(n - 1) + f(n - 2)\nwhile True: sorted(range(300), key=lambda x: x * 7919 % 101); f(15)"],
    "perl": ["-e", "sub f { my $n = shift; return $n < 2 ? 1 : f($n - 1) + f($n - 2) } while (1) { f(15) }"],
    "ruby": ["-e", "def f(n) n < 2 ? 1 : f(n - 1) + f(n - 2) end; loop { (1..300).sort_by { |x| x * 7919 % 101 }; f(15) }"],
    "php": ["-r", "function f($n) { return $n < 2 ? 1 : f($n - 1) + f($n - 2); } while (1) f(15);"],
    "node": ["-e", "function f(n) { return n < 2 ? 1 : f(n - 1) + f(n - 2) } for (;;) JSON.parse(JSON.stringify({ a: f(15) }))"],
    "sqlite3": [":memory:", "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000000000) select sum(x * x % 7) from c group by x % 1000"],
    "xz": ["-9", "-c", "/usr/bin/gdb"],
}


def start_load(folder):
    (folder / "deep.c").write_text(DEEP)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-fno-inline", folder / "deep.c", "-o", folder / "deep"], check=True)
    argvs = [[str(folder / "deep")]]
    for name, args in PROGRAMS.items():
        path = f"/usr/bin/{name}" if os.path.exists(f"/usr/bin/{name}") else shutil.which(name)
        if path:
            argvs.append([path, *args])
    return [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for argv in argvs]


def run(argv, **more):
    """Standard output, and CPU seconds of the program and its children."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)
    out = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return out, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def share(part, whole):
    return f"{100 * part / whole:6.1f} %" if whole else "     -"


def sampler(name, options, hz, seconds):
    out, cpu, rss = run([str(RUN), "--hz", str(hz), "--seconds", str(seconds), *options])
    if not out:
        print(f"{name:14} cannot run here")
        return
    r = json.loads(out.splitlines()[-1])
    per = r["bpf_ns"] / r["bpf_runs"] / 1000 if r["bpf_runs"] else 0
    print(f"{name:14} {hz:4} Hz  {r['samples']:6} samples  lost {r['lost']:4}  user CPU {share(cpu, seconds)}  BPF {share(r['bpf_ns'] / 1e9, seconds)}"
          f"  {per:5.1f} us a sample  RSS {rss / 1024:5.1f} MiB  tables {r['table_bytes'] / 1e6:5.1f} MB"
          f" ({r['table_bytes'] / max(1, r['rows']):.2f} B a row, {r['build_ms']:.0f} ms CPU)  first sample after {r['start_s']:.2f} s")
    for comm, c in sorted(r["comms"].items(), key=lambda kv: -kv[1]["n"]):
        if comm in PROGRAMS or comm == "deep":
            whole = sum(n for end, n in c["ends"].items() if end in COMPLETE)
            print(f"    {comm:12} {c['n']:6}  complete {share(whole, c['n'])}  frames {c['frames'] / max(1, c['user']):6.1f}, deepest {c['deepest']}")


def perf(hz, seconds, folder):
    if not shutil.which("perf"):
        print("perf           is not installed")
        return
    data = folder / "perf.data"
    _, cpu, rss = run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(hz), "-a", "--call-graph", "dwarf,8192", "-o", str(data), "--", "sleep", str(seconds)])
    size = data.stat().st_size
    begin = time.monotonic()
    text, naming, _ = run(["perf", "script", "--no-inline", "-i", str(data), "-F", "comm,ip,sym"])
    stacks = collections.Counter()
    complete = collections.Counter()
    for block in text.split("\n\n"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if len(lines) < 2:
            continue
        comm = lines[0].split(":")[0].strip()
        stacks[comm] += 1
        # A stripped program's _start has no name, but libc's frame before it has.
        names = [line.split(None, 1)[-1] for line in lines[-3:]]
        complete[comm] += any(STARTS.match(name) for name in names)
    print(f"perf dwarf 8K  {hz:4} Hz  {sum(stacks.values()):6} samples  user CPU {share(cpu, seconds)} and naming {naming:.1f} s CPU"
          f" ({time.monotonic() - begin:.1f} s)  RSS {rss / 1024:5.1f} MiB  file {size / seconds / 1e6:.2f} MB/s")
    for comm, n in stacks.most_common():
        if comm in PROGRAMS or comm == "deep":
            print(f"    {comm:12} {n:6}  complete {share(complete[comm], n)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hz", type=int, nargs="*", default=[19, 99])
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        load = start_load(folder)
        try:
            time.sleep(1)
            for hz in options.hz:
                sampler("BPF", [], hz, options.seconds)
                sampler("perf events", ["--perf"], hz, options.seconds)
                perf(hz, options.seconds, folder)
        finally:
            for p in load:
                p.kill()
                p.wait()


if __name__ == "__main__":
    main()
