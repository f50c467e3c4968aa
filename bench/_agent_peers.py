# SPDX-License-Identifier: Apache-2.0
"""The table of bench/agent.py --rows peers: lode agent, OpenTelemetry's eBPF profiler and perf record, one after the other under the same load.

Each sends to a server of its own, or writes its file; stacks are judged by one rule: the outermost frame is at the entry point of the program, or
in the C library's start of threads. What a profiler itself counts as complete is not asked. Samples are told apart by the names of programs, so
nothing else of these names may run: on a machine where others ran an xz and a node of their own, these had 97 and 76 % complete stacks.
"""

import collections
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

COLUMNS = ["", "CPU, % of a core", "start, CPU s", "RSS, MiB", "maps, MiB", "first profile, s"]
SHORT_S, SHORT_RUNS = 0.4, 5

SHORT = r"""
#include <time.h>
static volatile unsigned long sum;
int main(void)
{
	struct timespec t;
	do {
		for (int i = 0; i < 100000; i++)
			sum += i * i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec == 0 && t.tv_nsec < 400000000);
	return 0;
}
"""
CPP = r"""
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
static volatile int sink;
__attribute__((noinline)) static int f(int n, const std::map<std::string, int> &m)
{
	std::vector<std::string> v;
	for (auto &e : m)
		v.push_back(e.first + std::to_string(n));
	std::sort(v.begin(), v.end(), [](auto &a, auto &b) { return a.back() < b.back(); });
	return n ? f(n - 1, m) + (int)v[0].size() : (int)v.size();
}
int main()
{
	std::map<std::string, int> m;
	for (int i = 0; i < 60; i++)
		m[std::to_string(i * 7919 % 101)] = i;
	for (;;)
		sink = sink + f(30, m);
}
"""
RUST = r"""
fn f(n: u32, v: &[String]) -> usize { let mut w: Vec<&String> = v.iter().collect(); w.sort_by_key(|s| s.len() * 7919 % 101 + n as usize); if n == 0 { w[0].len() } else { f(n - 1, v) + w.len() } }
fn main() { let v: Vec<String> = (0..80).map(|i| format!("{}", i * i)).collect(); let mut s = 0usize; loop { s = s.wrapping_add(f(30, &v)); if s == 1 { println!("{}", s) } } }
"""


def build_programs(folder):
    """More load: names and commands."""
    made = {}
    for name, source, compiler in (("short", SHORT, ["gcc", "-O2"]), ("cplusplus", CPP, ["g++", "-O2"]), ("rust", RUST, ["rustc", "-O", "-C", "link-arg=-Wl,--build-id"])):
        if not shutil.which(compiler[0]):
            continue
        path = folder / (name + (".rs" if name == "rust" else ".cc" if name == "cplusplus" else ".c"))
        path.write_text(source)
        if subprocess.run([*compiler, path, "-o", folder / name], capture_output=True).returncode == 0:
            made[name] = [str(folder / name)]
    return made


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A lode server for one profiler, by HTTP and gRPC."""

    def __init__(self, lode, data):
        self.http, self.grpc = free_port(), free_port()
        self.process = subprocess.Popen([lode, "serve", "--listen", f"127.0.0.1:{self.http}", "--listen-grpc", f"127.0.0.1:{self.grpc}", "--data", str(data)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_ready()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=60) as r:
            return r.read()

    def wait_ready(self):
        for _ in range(300):
            try:
                self.get("/readyz")
                return
            except OSError:
                time.sleep(0.1)

    def has_profiles(self):
        try:
            return bool(self.cpu_type())
        except OSError:
            return False

    def cpu_type(self):
        """The type of CPU time, by which a query must begin if a profiler sends several; empty: there is no profile yet."""
        types = json.loads(self.get("/api/types?from=now-1h&to=now%2B1h"))["types"]
        return next((t for t in types if ":cpu:nanoseconds:" in t), "")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def entry_of(path):
    """The offset in the file of the program's entry point: frames without a name are file and offset."""
    text = subprocess.run(["readelf", "-hlW", path], capture_output=True, text=True).stdout
    entry = int(re.search(r"Entry point address:\s+0x([0-9a-f]+)", text)[1], 16)
    for off, vaddr, size in re.findall(r"^\s+LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", text, re.M):
        if 0 <= entry - int(vaddr, 16) < int(size, 16):
            return entry - int(vaddr, 16) + int(off, 16)
    return entry


def entries_of(programs):
    """The entry points of each program by its name; also of the Python that runs this, which is busy, too, and may be another one."""
    entries = collections.defaultdict(set)
    for path in [sys.executable, *(argv[0] for argv in programs.values())]:
        entries[os.path.basename(os.path.realpath(path))].add(entry_of(path))
    return entries


def is_complete(stack, entries):
    """@stack: frames of lode's folded output, the outermost first: names, or "program+0x1234" without one."""
    outermost = stack[0]
    if re.match(r"(_start|clone3?|__clone3?|start_thread|__libc_start\w*)$", outermost):
        return True
    name, _, addr = outermost.rpartition("+0x")
    if name.startswith("libc.so") and len(stack) > 1 and stack[1].startswith(("libc.so", "start_thread")):
        return True
    try:
        return any(0 <= int(addr, 16) - entry < 0x40 for entry in entries.get(name, ()))
    except ValueError:
        return False


def count_stacks(lines, programs):
    """lines: (program, frames outermost first, samples). Per program: samples, complete, deepest, and where the others end."""
    entries = entries_of(programs)
    n, whole, deepest, ends = collections.Counter(), collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter)
    for program, frames, samples in lines:
        n[program] += samples
        deepest[program] = max(deepest[program], len(frames))
        if is_complete(frames, entries):
            whole[program] += samples
        else:
            ends[program][frames[0]] += samples
    return n, whole, deepest, ends


def server_lines(lode, server, folder, label, programs, hz):
    """Downloads have no labels: one for each program, which the server names."""
    path = folder / "peer.pb.gz"
    for program, argv in programs.items():
        query = server.cpu_type() + urllib.parse.quote(f'{{{label}=~"(unknown_service:)?{os.path.basename(argv[0])}.*"}}')
        try:
            path.write_bytes(server.get(f"/api/download?format=pprof&query={query}&from=now-1h&to=now%2B1h"))
        except OSError:
            continue
        out = subprocess.run([lode, "profile", path, "--output-format", "folded", "--quiet"], capture_output=True, text=True).stdout
        for line in out.splitlines():
            stack, value = line.rsplit(" ", 1)
            # Nanoseconds, or samples.
            samples = int(value) * hz / 1e9 if int(value) >= 1e6 else int(value)
            yield program, stack.split(";"), samples


def print_counts(name, hz, counts, programs):
    n, whole, deepest, ends = counts
    for program in programs:
        comm = os.path.basename(programs[program][0])[:15]
        key = comm if n[comm] else program
        got = round(n[key])
        if not got:
            print(f"    {name:10} {program:10} no samples")
        elif program == "short":
            print(f"    {name:10} {program:10} {got:6} samples of {SHORT_RUNS * SHORT_S * hz:.0f} in processes of {SHORT_S} s")
        else:
            print(f"    {name:10} {program:10} {got:6} samples  complete {100 * whole[key] / got:6.1f} %  deepest {deepest[key]:3}  "
                  + ", ".join(f"{end}: {round(count)}" for end, count in ends[key].most_common(2)))


def run_short(programs, during_s):
    for _ in range(SHORT_RUNS if "short" in programs else 0):
        subprocess.run(programs["short"])
        time.sleep(max(0.1, during_s / SHORT_RUNS - SHORT_S * 2))


def run_peer(name, argv, tools, programs, hz, seconds, server):
    """Run a profiler that sends; prints its line of the table. @tools: bench/agent.py's cpu_s() and memory_mib()."""
    begin = time.monotonic()
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    first = None
    while time.monotonic() - begin < tools.WARM_S or (not first and time.monotonic() - begin < 60):
        if not first and server.has_profiles():
            first = time.monotonic() - begin
        if p.poll() is not None:
            print(f"| {name} {hz} Hz | cannot run here |", flush=True)
            return False
        time.sleep(0.2)
    start, from_s = tools.cpu_s(p.pid), time.monotonic()
    time.sleep(seconds)
    used, took = tools.cpu_s(p.pid) - start, time.monotonic() - from_s
    own, maps = tools.memory_mib(p.pid)
    run_short(programs, 5)
    time.sleep(12)
    print(f"| {name} {hz} Hz | {100 * used / took:.2f} | {start:.2f} | {own:.1f} | {maps:.1f} | {first or float('nan'):.1f} |", flush=True)
    os.killpg(p.pid, signal.SIGTERM)
    p.wait()
    time.sleep(2)
    return True


def perf_lines(data):
    text = subprocess.run(["perf", "script", "--no-inline", "-i", str(data), "-F", "comm,ip,sym"], capture_output=True, text=True).stdout
    for block in text.split("\n\n"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if len(lines) > 1:
            frames = [line.split(None, 1)[-1] for line in reversed(lines[1:])]
            # A stripped program's _start has no name, but the C library's frame before it has.
            known = next((f for f in frames[:3] if re.match(r"(_start|__?libc_start_\w*|start_thread|clone3?|__clone3?)(@\S+)?$", f.split("+")[0])), None)
            yield lines[0].split(":")[0].strip(), (["_start"] if known else []) + frames, 1


def run_perf(how, programs, hz, seconds, folder):
    data = folder / "perf.data"
    p = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(hz), "-a", "--call-graph", how, "-o", str(data), "--", "sleep", str(seconds)],
                         stderr=subprocess.DEVNULL)
    run_short(programs, min(5, seconds))
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    print(f"| perf {how} {hz} Hz, without naming | {100 * cpu / seconds:.2f} | | {used.ru_maxrss / 1024:.1f} | | |", flush=True)
    print_counts("perf", hz, count_stacks(perf_lines(data), programs), programs)


def table(tools, options, programs, folder):
    """@options: of bench/agent.py. --peer commands may have {grpc} and {hz} in them."""
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for hz in options.hz:
        for i, command in enumerate([None, *options.peer]):
            data = folder / f"data{hz}-{i}"
            server = Server(options.lode, data)
            name = "peer" if command else "lode agent"
            argv = [options.lode, "agent", "--to", f"http://127.0.0.1:{server.http}", "--state", str(folder / f"peers{hz}"), "-F", str(hz), "--no-upload"]
            if command:
                argv = shlex.split(command.replace("{grpc}", f"127.0.0.1:{server.grpc}").replace("{hz}", str(hz)))
            try:
                if run_peer(name, argv, tools, programs, hz, options.seconds, server):
                    lines = server_lines(options.lode, server, folder, options.peer_label if command else "comm", programs, hz)
                    print_counts(name, hz, count_stacks(lines, programs), programs)
            finally:
                server.stop()
        for how in ("fp", "dwarf,8192") if shutil.which("perf") else ():
            run_perf(how, programs, hz, options.seconds, folder)
