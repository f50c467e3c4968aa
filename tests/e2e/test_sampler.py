# SPDX-License-Identifier: Apache-2.0
"""The sampler of the agent, by tests/tools/sampler_run: stacks of real programs, by BPF and by perf events.

Skipped with the kernel's reason where neither may be had.
"""

import json
import os
import shutil
import signal
import subprocess

import pytest

from conftest import ROOT

RUN = ROOT / "build/tests/tools/sampler_run"
COMPLETE = ("complete", "frame pointer", "kernel only")

DEEP = r"""
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static int compare(const void *a, const void *b) { sink += *(const int *)a; return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static void leaf(int n)
{
	int v[64];
	for (int i = 0; i < 64; i++)
		v[i] = (i * 7919 + n) % 101;
	qsort(v, 64, sizeof(*v), compare);
	char *p = malloc(100 + n % 1000);
	memset(p, n, 100);
	sink += p[3] + time(NULL);
	free(p);
}
__attribute__((noinline)) static int deeper(int n, int x)
{
	char local[16 + n * 8 % 64];
	if (!n) {
		leaf(x);
		return x;
	}
	memset(local, n, sizeof(local));
	return deeper(n - 1, x + 1) + local[3];
}
int main(int argc, char **argv)
{
	clock_t end = atoi(argv[2]) * (CLOCKS_PER_SEC / 10);
	for (int i = 0; end == 0 || clock() < end; i++)
		sink += deeper(atoi(argv[1]), i & 1023);
	pause();
}
"""

# An anonymous mapping after many others; its code calls itself by a frame pointer chain, and spins.
MAPPINGS = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	/* push rbp; mov rbp, rsp; 1: jmp 1b */
	static const unsigned char spin[] = { 0x55, 0x48, 0x89, 0xe5, 0xeb, 0xfe };
	unsigned char *all = mmap(NULL, 4096L * 2 * atoi(argv[1]), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *last = NULL;
	for (long i = 0; i < atoi(argv[1]); i++) {
		last = all + i * 8192;
		memcpy(last, spin, sizeof(spin));
		if (mprotect(last, 4096, PROT_READ | PROT_EXEC))
			return 1;
	}
	((void (*)(void))last)();
}
"""

# Runs a program in its place, at the same addresses: neither is position-independent.
BEFORE = r"""
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void burn(void) { for (int i = 0; i < 1000000; i++) sink += i; }
int main(int argc, char **argv)
{
	while (clock() < CLOCKS_PER_SEC / 2)
		burn();
	return execl(argv[1], argv[1], "30", "0", (char *)0);
}
"""

# Spins on a stack whose frames of signals say that they interrupted themselves: the walk has no end but by its own limit.
ITSELF = r"""
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static long frame[512];
static void on_signal(int sig) {}
void spin(long *stack);
__asm__(".globl spin\nspin:\n.cfi_startproc\nmov %rdi, %rsp\n1: jmp 1b\n.cfi_endproc\n");
int main(void)
{
	struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } old;
	struct sigaction a = { .sa_handler = on_signal };
	long *stack = frame + 64, *gregs;
	sigaction(SIGUSR1, &a, NULL);
	syscall(SYS_rt_sigaction, SIGUSR1, NULL, &old, 8);
	stack[0] = (long)old.restorer;
	gregs = stack + 1 + 5;
	gregs[15] = (long)(stack + 1);
	gregs[16] = (long)old.restorer;
	spin(stack);
}
"""


def compiled(folder, name, text, *options, compiler="gcc"):
    source = folder / f"{name}.c"
    source.write_text(text)
    subprocess.run([compiler, "-O2", "-w", *options, source, "-o", folder / name], check=True)
    return str(folder / name)


class Load:
    """Programs that keep a processor busy."""

    def __init__(self):
        self.programs = []

    def start(self, *argv, **more):
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        self.programs.append(p)
        return p

    def stop(self):
        for p in self.programs:
            p.kill()
            p.wait()


@pytest.fixture
def load():
    it = Load()
    yield it
    it.stop()


def sample(*options, pids=(), prefix=(), seconds=1.5, hz=199):
    argv = [*prefix, str(RUN), "--seconds", str(seconds), "--hz", str(hz), *options]
    for pid in pids:
        argv += ["--pid", str(pid)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip()[:300])
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    if "--perf" not in options and not result["bpf"]:
        pytest.skip(done.stderr.strip()[:300])
    return result


def assert_complete(comm, least=5):
    assert comm["n"] >= least, comm
    assert sum(n for end, n in comm["ends"].items() if end in COMPLETE) == comm["n"], comm


PYTHON = "def f(n):\n return 1 if n < 2 else f(n - 1) + f(n - 2)\nwhile True: sorted(range(99), key=lambda x: x * 7919 % 101); f(12)"
NODE = "function f(n) { return n < 2 ? 1 : f(n - 1) + f(n - 2) } for (;;) JSON.parse(JSON.stringify({ a: f(15) }))"
PERL = "sub f { my $n = shift; return $n < 2 ? 1 : f($n - 1) + f($n - 2) } while (1) { my @x = sort { $a * 7919 % 101 <=> $b } 1 .. 99; f(12) }"


@pytest.mark.parametrize("how", [(), ("--perf",)], ids=["bpf", "perf"])
def test_stock_programs_have_complete_stacks(load, how):
    pids = [load.start("/usr/bin/python3", "-c", PYTHON).pid, load.start("perl", "-e", PERL).pid]
    got = sample(*how, pids=pids)["comms"]
    assert_complete(got["python3"])
    assert_complete(got["perl"])
    assert got["python3"]["frames"] >= 5 * got["python3"]["n"]


@pytest.mark.slow
def test_four_hundred_frames(load, tmp_path):
    deep = compiled(tmp_path, "deep", DEEP, "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-ipa-cp", "-fno-inline")
    got = sample("--copy", "65528", pids=[load.start(deep, "400", "0").pid])["comms"]["deep"]
    assert_complete(got)
    assert 400 < got["deepest"] < 420


def test_a_deeper_stack_ends_with_its_mark(load, tmp_path):
    deep = compiled(tmp_path, "deep", DEEP, "-fomit-frame-pointer", "-fno-inline")
    got = sample(pids=[load.start(deep, "3000", "0").pid])["comms"]["deep"]
    assert got["deepest"] == 512
    assert got["ends"].get("too deep", 0) > 0
    # Those at the outermost calls are complete, all others are cut by depth and by nothing else.
    # The first ones were walked over a copy of 32 KiB.
    assert set(got["ends"]) <= {"too deep", "truncated", *COMPLETE}
    assert got["ends"].get("truncated", 0) <= 0.2 * got["n"]


@pytest.mark.slow
def test_frames_equal_those_of_libdw_at_the_same_stop(load, tmp_path):
    flags = "-fomit-frame-pointer", "-fno-inline"
    pids = [load.start("/usr/bin/python3", "-c", PYTHON).pid, load.start("perl", "-e", PERL).pid,
            load.start(compiled(tmp_path, "deep", DEEP, *flags), "200", "0").pid]
    if shutil.which("clang"):
        pids.append(load.start(compiled(tmp_path, "deep_clang", DEEP, "-fomit-frame-pointer", compiler="clang"), "200", "0").pid)
    got = sample("--oracle", "--frames", pids=pids, seconds=8, hz=49)["comms"]
    for name, comm in got.items():
        assert_complete(comm, least=1)
        assert comm["differ"] == 0, (name, comm)
        assert comm["same"] >= 1, (name, comm)


@pytest.mark.slow
def test_frames_of_node_equal_those_of_libdw(load):
    """Its built-in functions are mapped twice, and half of its frames are of code made at run time."""
    node = shutil.which("node", path="/usr/bin")
    if not node:
        pytest.skip("no node in /usr/bin")
    # Not with the others: while the table of its 80 MB is built, their samples would wait.
    got = sample("--oracle", "--frames", pids=[load.start(node, "-e", NODE).pid], seconds=8, hz=49)["comms"]["node"]
    assert got["differ"] == 0 and got["same"] >= 1, got


@pytest.mark.slow
def test_no_sample_of_a_new_process_is_lost(load, tmp_path):
    """Those before its mappings were read wait, with their registers and stack. The program sleeps after 0.3 s, so that it is
    there when they are read, however slow this machine is."""
    deep = compiled(tmp_path, "young", DEEP, "-fno-inline")
    programs = [load.start("sh", "-c", f"kill -STOP $$; exec {deep} 20 3") for _ in range(3)]
    argv = [str(RUN), "--seconds", "4", "--hz", "97"]
    for program in programs:
        argv += ["--pid", str(program.pid)]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in p.stderr:
            if line.strip() == "ready":
                break
        else:
            pytest.skip("no sampler")
        for program in programs:
            os.waitid(os.P_PID, program.pid, os.WSTOPPED)
            program.send_signal(signal.SIGCONT)
        out, _ = p.communicate(timeout=60)
    finally:
        p.kill()
    result = json.loads(out.splitlines()[-1])
    if not result["bpf"]:
        pytest.skip(result["about"])
    young = result["comms"]["young"]
    assert result["new"] >= 3
    assert "no process" not in young["ends"], young
    assert sum(n for end, n in young["ends"].items() if end in COMPLETE) >= 0.97 * young["n"], young


@pytest.mark.slow
def test_another_program_in_the_same_process(load, tmp_path):
    compiled(tmp_path, "second", DEEP, "-fno-inline")
    p = load.start("sh", "-c", f"i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec {tmp_path}/second 30 0")
    result = sample(pids=[p.pid], seconds=4)
    assert result["exec"] >= 1
    assert_complete(result["comms"]["second"])


@pytest.mark.slow
def test_another_program_at_the_same_addresses(load, tmp_path):
    """The mappings that a processor keeps are of the program before."""
    second = compiled(tmp_path, "second", DEEP, "-fno-inline", "-no-pie")
    p = load.start(compiled(tmp_path, "before", BEFORE, "-no-pie"), second)
    done = subprocess.run([RUN, "--seconds", "6", "--hz", "199", "--frames", "--pid", str(p.pid)], capture_output=True, text=True, timeout=100)
    if done.returncode == 77 or not json.loads(done.stdout.splitlines()[-1])["bpf"]:
        pytest.skip(done.stderr.strip()[:300])
    stacks = {name: [line for line in done.stdout.splitlines() if line.startswith(f"{name};")] for name in ("before", "second")}
    for name, other in (("before", "second"), ("second", "before")):
        assert sum(f"/{name}:0x4" in line for line in stacks[name]) > 10
        assert not [line for line in stacks[name] if f"/{other}:" in line]


@pytest.mark.parametrize("how", [(), ("--perf",)], ids=["bpf", "perf"])
def test_a_stack_that_points_into_itself(load, tmp_path, how):
    got = sample(*how, pids=[load.start(compiled(tmp_path, "itself", ITSELF)).pid])
    itself = got["comms"]["itself"]
    assert itself["n"] >= 5 and itself["ends"].get("too deep", 0) >= 0.9 * itself["n"] and itself["deepest"] == 512, itself
    # 512 frames are walked in some 50 us; on a machine that is busy with other things in some more.
    assert got["bpf_ns"] <= 2e6 * max(1, got["bpf_runs"]), got


@pytest.mark.slow
def test_sixty_thousand_mappings(load, tmp_path):
    p = load.start(compiled(tmp_path, "mappings", MAPPINGS), "30000")
    result = sample(pids=[p.pid], seconds=4)
    assert result["mappings"] > 30000
    got = result["comms"]["mappings"]
    assert got["ends"].keys() <= {*COMPLETE, "no mapping"}, got
    assert got["ends"].get("complete", 0) + got["ends"].get("frame pointer", 0) > 5, got


@pytest.mark.slow
def test_tables_over_the_limit_are_evicted_and_come_back(load):
    pids = [load.start("/usr/bin/python3", "-c", PYTHON).pid, load.start("perl", "-e", PERL).pid]
    result = sample("--table-memory", "270000", pids=pids, seconds=5)
    assert result["evicted"] > 0 and result["wanted"] > 0
    assert result["table_bytes"] <= 270000
    for comm in ("python3", "perl"):
        ends = result["comms"][comm]["ends"]
        assert sum(ends.get(end, 0) for end in COMPLETE) > 0, ends


@pytest.mark.slow
def test_most_rows_are_in_the_cache(load):
    pids = [load.start("/usr/bin/python3", "-c", PYTHON).pid, load.start("perl", "-e", PERL).pid]
    result = sample(pids=pids, seconds=5)
    assert result["row_lookups"] > 1000
    # About 4 % on a machine that does nothing else; a few callers of each processor are looked up once.
    assert 0 < result["row_misses"] < 0.25 * result["row_lookups"]


@pytest.mark.slow
def test_rows_of_a_replaced_table_are_not_used_for_long(load, tmp_path):
    """A processor's cache of rows has those of the earlier table for the rest of a period of 4.3 s."""
    deep = compiled(tmp_path, "deep", DEEP, "-fomit-frame-pointer", "-fno-inline")
    result = sample("--forget", "3", pids=[load.start(deep, "100", "0").pid], seconds=16)
    got = result["comms"]["deep"]
    assert got["ends"]["complete"] > 10
    # Complete is a stack that ends by a row.
    assert sum(got["late"].values()) > 10 and "complete" not in got["late"], got


def test_an_ordinary_user_samples_its_own_processes(load):
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv")
        drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    else:
        drop = []
    if subprocess.run([*drop, "test", "-x", str(RUN)]).returncode:
        pytest.skip("the build folder is not open to other users")
    p = load.start(*drop, "/usr/bin/python3", "-c", PYTHON)
    result = sample("--perf", pids=[p.pid], prefix=drop)
    assert_complete(result["comms"]["python3"])
    assert not result["bpf"]


def test_a_signal_stops_the_tool_and_detaches(load):
    p = subprocess.Popen([str(RUN), "--seconds", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in p.stderr:
        if line.strip() == "ready":
            break
    else:
        pytest.skip("no sampler")
    p.send_signal(signal.SIGTERM)
    out, _ = p.communicate(timeout=20)
    assert p.returncode == 0 and json.loads(out)["samples"] >= 0


