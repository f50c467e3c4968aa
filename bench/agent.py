#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent beside perf record and another profiler: CPU, memory, first sample, complete stacks, one after the other.

  agent        the whole agent as in production, sending to a server of this bench: CPU of all its threads and memory after 10 s
  sampler      its sampler alone by BPF and by perf events, by a test tool: time in BPF, rows found in its cache, size of tables. With --beside
               also BPF's time beside that of another build, both at once over the load alone: the figure to trust on a busy machine
  perf         perf record --call-graph dwarf, and perf script
  peers        the agent, each --peer and perf under the same load of all programs, each sending to a lode server of its own: CPU, memory, time until
               the first profile, complete stacks of each program, samples of processes that live 0.4 s; stacks of all are judged by one rule
  --peer       any other command, as "/opt/profiler -collection-agent={grpc} -samples-per-second={hz} -disable-tls"

The load of the agent and --peer are two busy programs, python3 and "deep", one in C without frame pointers, 400 calls deep; of the others one
copy of each stock program that is installed (python3, perl, sqlite3, xz, node, ruby, php) and that C program. --load replaces the load of all
rows but peers. The time that a sample needs, cold, of stacks as programs have them:

  bench/agent.py --rows sampler --hz 99 --load python3 perl ruby node php sqlite3 [--beside OLD/build/tests/tools/sampler_run]

perf's stack is complete if its last frame is the program's start. Root."""

import argparse
import collections
import contextlib
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import _agent_beside
import _agent_marks
import _agent_peers

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = ROOT / "build/tests/tools/sampler_run"
WARM_S = 10
TICKS = os.sysconf("SC_CLK_TCK")
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
    "xz": ["-9", "-c", "/dev/zero"],
}
BUILT = {"cplusplus", "rust"}  # by _agent_peers.build_programs()
LOADS = ["deep", *PROGRAMS, *sorted(BUILT)]


@contextlib.contextmanager
def load(folder, programs, more=()):
    """Those of @programs that are installed, "deep" for the C program, and @more, busy. Yields the commands by name, and the process IDs."""
    (folder / "deep.c").write_text(DEEP)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-fno-inline", folder / "deep.c", "-o", folder / "deep"], check=True)
    argvs = [[str(folder / "deep")]] if "deep" in programs else []
    for name in programs:
        if name not in PROGRAMS:
            continue
        path = f"/usr/bin/{name}" if os.path.exists(f"/usr/bin/{name}") else shutil.which(name)
        if path:
            argvs.append([path, *PROGRAMS[name]])
    argvs += more
    if not argvs:
        sys.exit("none of the programs of the load is installed")
    started = [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for argv in argvs]
    try:
        time.sleep(1)
        yield {os.path.basename(argv[0]): argv for argv in argvs}, [p.pid for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait()


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
    cached = f"  rows in cache {share(r['row_lookups'] - r['row_misses'], r['row_lookups']).strip()}" if r["row_lookups"] else ""
    print(f"{name:14} {hz:4} Hz  {r['samples']:6} samples  lost {r['lost']:4}  user CPU {share(cpu, seconds)}  BPF {share(r['bpf_ns'] / 1e9, seconds)}"
          f"  {per:5.1f} us a sample{cached}  RSS {rss / 1024:5.1f} MiB  tables {r['table_bytes'] / 1e6:5.1f} MB"
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


class Taker(http.server.BaseHTTPRequestHandler):
    """Takes all profiles."""

    protocol_version = "HTTP/1.1"
    bodies = []

    def do_POST(self):
        Taker.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        body = b'{"profiles":1,"samples":1,"id":1,"duplicate":false}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def processes_of(group):
    """The process group: a peer may be started by a script."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            yield int(stat.parent.name), (int(fields[11]) + int(fields[12])) / TICKS


def cpu_s(group):
    return sum(s for _, s in processes_of(group))


def memory_mib(group):
    """(resident without the maps of BPF, these maps)."""
    maps = rss = 0
    for pid, _ in processes_of(group):
        name = ""
        for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                name = line.split(None, 5)[-1]
            elif line.startswith("Rss:"):
                size = int(line.split()[1])
                rss += size
                maps += size if "bpf-map" in name else 0
    return (rss - maps) / 1024, maps / 1024


def long_running(name, argv, hz, seconds):
    """Run it in a session of its own, and print its CPU and memory when it has warmed up; the process, still running."""
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(WARM_S)
    if p.poll() is not None:
        print(f"{name:14} cannot run here")
        return None
    start, from_s = cpu_s(p.pid), time.monotonic()
    time.sleep(seconds)
    used, took = cpu_s(p.pid) - start, time.monotonic() - from_s
    own, maps = memory_mib(p.pid)
    print(f"{name:14} {hz:>4} Hz  CPU of a processor {100 * used / took:5.2f} %, in the first {WARM_S} s {start:5.2f} s  resident {own:5.1f} MiB"
          f" and {maps:5.1f} MiB of maps")
    return p


def agent(lode, hz, seconds, folder, url, programs):
    state = folder / f"state{hz}"
    Taker.bodies.clear()
    p = long_running("agent", [lode, "agent", "--to", url, "--state", str(state), "-F", str(hz)], hz, seconds)
    if not p:
        return
    status = json.loads((state / "status.json").read_text())
    ends = status["stacks"]
    whole = sum(n for end, n in ends.items() if end in COMPLETE)
    print(f"    first sample after {status['first_sample_ms']} ms  samples {status['samples']}, lost {status['samples_lost']}"
          f"  complete {share(whole, sum(ends.values()))}  {sum(map(len, Taker.bodies)) / (WARM_S + seconds) / 1e3:.1f} kB/s sent")
    p.terminate()
    p.wait()
    show_marks(_agent_marks.count_marks(Taker.bodies), programs)


def show_marks(counts, programs):
    """Complete stacks of the load alone; then the other programs of the machine that have incomplete ones."""
    total, whole = collections.Counter(), collections.Counter()
    for (comm, mark), n in counts.items():
        total[comm] += n
        whole[comm] += n * (not mark)
    load_n = sum(total[c[:15]] for c in programs)
    print(f"    of the load {share(sum(whole[c[:15]] for c in programs), load_n)}:"
          + "".join(f"  {c} {share(whole[c[:15]], total[c[:15]]).strip()}" for c in programs))
    for (comm, mark), n in sorted(counts.items(), key=lambda kv: -kv[1]):
        if mark and n >= 0.001 * sum(total.values()):
            print(f"    {comm:16} {mark:40} {share(n, sum(total.values()))} of all")


def peer(command, seconds):
    p = long_running("peer", shlex.split(command), "-", seconds)
    if p:
        os.killpg(p.pid, signal.SIGTERM)
        p.wait()


def kernel_rows(options, hz, folder, pids):
    if "sampler" in options.rows:
        sampler("BPF", [], hz, options.seconds)
        sampler("perf events", ["--perf"], hz, options.seconds)
        if options.beside:
            _agent_beside.compare(str(RUN), options.beside, hz, options.seconds, pids)
    if "perf" in options.rows:
        perf(hz, options.seconds, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lode", default=str(ROOT / "build/lode"))
    parser.add_argument("--hz", type=int, nargs="*", default=[19, 99])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--peer-label", default="service_name", help="the label of a peer's samples that has the name of the program")
    parser.add_argument("--rows", nargs="+", choices=["agent", "sampler", "perf", "peers"], default=["agent", "sampler", "perf"])
    parser.add_argument("--load", nargs="+", choices=LOADS, help="the programs that are busy, those that are installed (not of the row peers)")
    parser.add_argument("--beside", metavar="RUN", help="sampler_run of another build, to be compared with under the row sampler")
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        named = options.load or []
        built = _agent_peers.build_programs(folder) if BUILT & set(named) else {}
        built = [argv for name, argv in built.items() if name in named]
        if "agent" in options.rows:
            with load(folder, named or ["deep", "python3"], built) as (started, _):
                for hz in options.hz:
                    agent(options.lode, hz, options.seconds, folder, f"http://127.0.0.1:{server.server_address[1]}", started)
                for command in options.peer:
                    peer(command, options.seconds)
        if "peers" in options.rows:
            more = _agent_peers.build_programs(folder)
            with load(folder, ["deep", *PROGRAMS], [argv for name, argv in more.items() if name != "short"]) as (started, _):
                _agent_peers.table(sys.modules[__name__], options, {**started, **more}, folder)
        if {"sampler", "perf"} & set(options.rows):
            with load(folder, named or ["deep", *PROGRAMS], built) as (_, pids):
                for hz in options.hz:
                    kernel_rows(options, hz, folder, pids)


if __name__ == "__main__":
    main()
