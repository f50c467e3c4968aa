# SPDX-License-Identifier: Apache-2.0
"""lode agent: a known chain of calls, code of interpreters, short processes, time off the processor, options."""

import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from conftest import LODE
from pushing import lode
from sampling import CHAIN, CHURN, STORM, Server, agent, by_bpf, can_sample, compiled, folded, running, state_of, until  # noqa: F401

# Sleeps, waits for a mutex and reads a pipe, a thread each, and prints how many seconds passed in each of them.
SLEEPS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fds[2];
static volatile int over;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double slept, waited, read_s;
static void pause_ms(int ms) { struct timespec t = { ms / 1000, ms % 1000 * 1000000L }; nanosleep(&t, NULL); }
__attribute__((noinline)) void sleep_here(void) { double a = now(); pause_ms(3); slept += now() - a; }
__attribute__((noinline)) void wait_here(void) { double a = now(); pthread_mutex_lock(&lock); waited += now() - a; pthread_mutex_unlock(&lock); pause_ms(1); }
__attribute__((noinline)) void read_here(void) { char c; double a = now(); if (read(fds[0], &c, 1) != 1) exit(1); read_s += now() - a; }
static void *sleeper(void *x) { while (!over) sleep_here(); return NULL; }
static void *waiter(void *x) { while (!over) wait_here(); return NULL; }
static void *reader(void *x) { while (!over) read_here(); return NULL; }
static void *writer(void *x) { while (!over) { pause_ms(5); (void)!write(fds[1], "x", 1); } return NULL; }
int main(int argc, char **argv)
{
	pthread_t t[4];
	double end = now() + atof(argv[1]);
	(void)!pipe(fds);
	pthread_create(&t[0], NULL, sleeper, NULL); pthread_create(&t[1], NULL, waiter, NULL);
	pthread_create(&t[2], NULL, reader, NULL); pthread_create(&t[3], NULL, writer, NULL);
	while (now() < end) { pthread_mutex_lock(&lock); pause_ms(7); pthread_mutex_unlock(&lock); pause_ms(2); }
	over = 1;
	for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
	printf("%f %f %f\\n", slept, waited, read_s);
	return 0;
}
"""


@pytest.mark.slow
def test_a_known_chain_is_complete(can_sample, tmp_path):  # noqa: F811
    program, out = compiled(tmp_path, "chain", CHAIN), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--", program, "2500")
    assert r.returncode == 0, r.stderr
    stacks = [s for s, _ in folded(out) if "burn_here" in s]
    total = sum(n for s, n in folded(out) if "burn_here" in s)
    assert stacks, r.stderr
    whole = [s for s in stacks if s[0] == "_start" and s.count("go_down") == 31 and "compare" in s and "sort_all" in s and "main" in s]
    good = sum(n for s, n in folded(out) if s in whole)
    assert good >= 0.98 * total, [s for s in stacks if s not in whole][:3]


@pytest.mark.slow
def test_a_process_of_half_a_second_is_seen_from_its_start(can_sample, tmp_path):  # noqa: F811
    program, out = compiled(tmp_path, "short", CHAIN), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "997", "--", "/bin/sh", "-c", f"sleep 1; {program} 400; sleep 0.2")
    assert r.returncode == 0, r.stderr
    burnt = sum(n for s, n in folded(out) if "burn_here" in s)
    lost = sum(n for s, n in folded(out) if s[0] in ("[no process]", "[no mapping]", "[no table]"))
    # 400 ms of CPU time. On an idle machine every sample of 1 ms hits it; beside others each hits it or another by chance, so that the
    # count is Poisson's at worst: a deviation of 20 ms. At 99 Hz it was 64 ms: 12 runs at load 26 gave 333 to 495, 402 on average.
    assert 300e6 <= burnt <= 500e6, r.stderr
    assert lost <= 0.2 * burnt


# 400 calls of some 130 bytes each: 52 KiB of stack.
DEEP = CHAIN.replace("int go_down(int n) { int r;", "int go_down(int n) { volatile char local[88]; int r; local[n % 80] = n;").replace("go_down(30)", "go_down(400)")


@pytest.mark.slow
def test_the_first_samples_of_a_deep_stack_are_complete(can_sample, tmp_path):  # noqa: F811
    """They wait for the program's tables, with a copy of their stack."""
    program, out = compiled(tmp_path, "deep", DEEP), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--", program, "600")
    assert r.returncode == 0, r.stderr
    by_bpf(r)
    burnt = [(s, n) for s, n in folded(out) if "burn_here" in s]
    whole = [(s, n) for s, n in burnt if s[0] == "_start" and s.count("go_down") == 401]
    assert sum(n for _, n in whole) >= 0.99 * sum(n for _, n in burnt) > 0, r.stderr


# Makes a thread and starts a program, again and again.
MAKES = """
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
static void *thread(void *x) { return x; }
__attribute__((noinline)) void make_thread(void) { pthread_t t; pthread_create(&t, NULL, thread, NULL); pthread_join(t, NULL); }
__attribute__((noinline)) void make_process(void) { char *argv[] = {"true", NULL}; pid_t p; posix_spawn(&p, "/bin/true", NULL, NULL, argv, NULL); waitpid(p, NULL, 0); }
int main(int argc, char **argv)
{
	time_t end = time(NULL) + atoi(argv[1]);
	while (time(NULL) < end) { for (int i = 0; i < 30; i++) make_thread(); make_process(); }
	return 0;
}
"""


# A function whose frame is found by rbx, as that of lazy binding in the dynamic linker.
BY_RBX = """
#include <time.h>
void by_rbx(long);
__asm__(".globl by_rbx; .type by_rbx,@function; by_rbx: .cfi_startproc; push %rbx; .cfi_def_cfa_offset 16; .cfi_offset %rbx, -16;"
	"mov %rsp, %rbx; .cfi_def_cfa_register %rbx; and $-64, %rsp; sub $256, %rsp; 1: dec %rdi; jnz 1b;"
	"mov %rbx, %rsp; .cfi_def_cfa_register %rsp; pop %rbx; .cfi_restore %rbx; .cfi_def_cfa_offset 8; ret; .cfi_endproc; .size by_rbx,.-by_rbx");
__attribute__((noinline)) void caller_of_it(void) { time_t end = time(NULL) + 3; while (time(NULL) < end) by_rbx(200000); __asm__ volatile(""); }
int main(void) { caller_of_it(); return 0; }
"""


@pytest.mark.slow
def test_a_frame_by_a_register_is_that_of_the_sample(can_sample, tmp_path):  # noqa: F811
    """Not by the place where a frame of the sample before had saved the register."""
    program, out = compiled(tmp_path, "byrbx", BY_RBX), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--", program)
    assert r.returncode == 0, r.stderr
    rows = [(s, n) for s, n in folded(out) if "by_rbx" in s]
    assert sum(n for s, n in rows if "main" in s) >= 0.95 * sum(n for _, n in rows) > 0, [s for s, _ in rows if "main" not in s][:5]


@pytest.mark.slow
def test_makers_of_threads_and_processes_have_complete_stacks(can_sample, tmp_path):  # noqa: F811
    """glibc's clone3() and clone() have no rows around the call of the kernel: all of its time there was [no row in libc.so.6]."""
    program, out = compiled(tmp_path, "makes", MAKES, "-pthread"), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "997", "--", program, "4")
    assert r.returncode == 0, r.stderr
    made = [(s, n) for s, n in folded(out) if "kernel_clone" in s]
    whole = [(s, n) for s, n in made if s[0] == "_start" and ("make_thread" in s or "make_process" in s)]
    assert sum(n for _, n in whole) >= 0.98 * sum(n for _, n in made) > 0, [s for s, _ in made if s[0] != "_start"][:5]
    # A new thread has no caller in it, and is no caller of anybody.
    assert not [s for s, _ in folded(out) if s[0].startswith("[no row") and "ret_from_fork" in s], r.stderr


@pytest.mark.slow
def test_a_command_is_profiled_without_the_rest_of_the_machine(can_sample, tmp_path):  # noqa: F811
    """Neither threads of the kernel nor processes that nobody knows: a storm of them is running."""
    program, storm, out = compiled(tmp_path, "chain", CHAIN), compiled(tmp_path, "storm", STORM), tmp_path / "out.folded"
    with subprocess.Popen([storm, "20"]) as load:
        try:
            r = agent("-o", out, "-F", "199", "--", program, "1500")
        finally:
            load.kill()
    assert r.returncode == 0, r.stderr
    rows = folded(out)
    assert sum(n for s, n in rows if "main" in s) >= 0.95 * sum(n for _, n in rows) > 0, [s for s, _ in rows if "main" not in s][:5]


@pytest.mark.slow
def test_code_that_a_process_made_has_its_name(can_sample, tmp_path):  # noqa: F811
    program = compiled(tmp_path, "made", CHURN.replace("munmap(p[i], 4096);", ";").replace("while (time(NULL) < end) {", "{").replace(
        "((void (*)(void))p[i])();", "char name[64]; FILE *f; snprintf(name, 64, \"/tmp/perf-%d.map\", getpid()); f = fopen(name, \"w\");"
        "fprintf(f, \"%lx 1000 made_by\\x1bJIT %d\\n\", (long)p[i], i); fclose(f); while (time(NULL) < end) ((void (*)(void))p[i])(); unlink(name);").replace(
        "#include <time.h>", "#include <time.h>\n#include <stdio.h>\n#include <unistd.h>"))
    out = tmp_path / "out.folded"
    r = agent("-o", out, "-F", "99", "--", program, "2")
    assert r.returncode == 0, r.stderr
    named = sum(n for s, n in folded(out) if s[-1] == "made_by?JIT 0")
    assert named >= 0.8 * sum(n for s, n in folded(out) if s[-1].startswith(("made_by", "[code made"))), folded(out)[:5]
    assert named > 0
    assert "have no names" not in r.stderr, r.stderr


# Calls a function through the trampoline that python3 -X perf makes for each of its functions. In its caller, rbp is no frame pointer.
TRAMPOLINE = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static volatile unsigned long sum;
long burn_here(void) { for (int i = 0; i < 300000; i++) sum += i * i; return sum; }
long through(void *code);
__asm__(".type through, @function\\nthrough:\\n.cfi_startproc\\npush %rbp\\n.cfi_def_cfa_offset 16\\n.cfi_offset rbp, -16\\nmov $1, %ebp\\n"
	"lea burn_here(%rip), %rcx\\ncall *%rdi\\npop %rbp\\n.cfi_def_cfa_offset 8\\n.cfi_restore rbp\\nret\\n.cfi_endproc\\n");
int main(int argc, char **argv)
{
	static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3}; /* sub $8, %rsp; call *%rcx; add $8, %rsp; ret */
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	time_t end = time(NULL) + atoi(argv[1]);
	memcpy(p, code, sizeof(code));
	while (time(NULL) < end) sum += through(p);
	return 0;
}
"""


# Two programs with functions at the same addresses; each runs one of them for some milliseconds, and then the other program.
TURNS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
#define SPIN(name) __attribute__((noinline, aligned(4096))) void name(long end) { while (now() < end) for (volatile int i = 0; i < 20000; i++); }
SPIN(FIRST)
SPIN(SECOND)
int main(int argc, char **argv)
{
	char left[16];
	RUNS(now() + atol(argv[2]) * 1000000);
	if (argc > 9)
		NEVER(0);
	snprintf(left, sizeof(left), "%d", atoi(argv[1]) - 1);
	return atoi(left) && execl(argv[4], argv[4], left, argv[2], argv[4], argv[3], (char *)NULL);
}
"""


@pytest.mark.slow
def test_programs_at_the_same_addresses_that_run_each_other(can_sample, tmp_path):  # noqa: F811
    flags = ("-no-pie", "-static")
    first = compiled(tmp_path, "first", TURNS, *flags, "-DFIRST=first_runs", "-DSECOND=first_never", "-DRUNS=first_runs", "-DNEVER=first_never")
    second = compiled(tmp_path, "second", TURNS, *flags, "-DFIRST=second_never", "-DSECOND=second_runs", "-DRUNS=second_runs", "-DNEVER=second_never")
    out = tmp_path / "out.folded"
    r = agent("-o", out, "-F", "997", "--", first, "40", "50", first, second)
    assert r.returncode == 0, r.stderr
    rows = folded(out)
    # Two seconds of wall time, of which a busy machine gives a part.
    assert sum(n for s, n in rows if "_runs" in str(s)) > 0.3e9, r.stderr
    assert sum(n for s, n in rows if "_never" in str(s)) < 0.02 * sum(n for _, n in rows), [s for s, _ in rows if "_never" in str(s)][:5]


HOT = """
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline, section(".hot2"))) void in_hot(unsigned n) { for (unsigned i = 0; i < n; i++) sum += i; }
int main(void)
{
	struct timespec t;
	do { in_hot(100000); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (t.tv_sec < 1);
	return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["-no-pie", "-pie"])
def test_segments_of_code_in_one_page_of_the_file(can_sample, tmp_path, form):  # noqa: F811
    """The kernel maps the page twice: by the offset alone the second segment is the first one."""
    starts = (".hot2=0x600900", ".eh_frame_hdr=0x680000", ".init_array=0x700000")
    program, out = compiled(tmp_path, "hot", HOT, form, "-fPIE", "-Wl,-z,noseparate-code", *("-Wl,--section-start=" + s for s in starts)), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--", program)
    assert r.returncode == 0, r.stderr
    assert sum(n for s, n in folded(out) if s[-2:] == ["main", "in_hot"]) > 0.7e9, out.read_text()


# A child of a process that has ended when the child is first sampled.
ORPHAN = """
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) void spin_orphan(void)
{
	struct timespec t;
	do { for (volatile int i = 0; i < 20000; i++); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (t.tv_sec < 1);
}
int main(void)
{
	int p[2];
	char byte;
	if (pipe(p))
		return 1;
	if (!fork()) {
		if (!fork())
			spin_orphan();
		_exit(0);
	}
	wait(NULL);
	close(p[1]);
	return (int)read(p[0], &byte, 1); /* ends with the orphan */
}
"""


@pytest.mark.slow
def test_a_process_whose_parent_has_ended_is_of_the_command(can_sample, tmp_path):  # noqa: F811
    program, out = compiled(tmp_path, "orphan", ORPHAN), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--", program)
    assert r.returncode == 0, r.stderr
    assert sum(n for s, n in folded(out) if "spin_orphan" in s) > 0.7e9, out.read_text()


@pytest.mark.slow
def test_trampolines_of_python_have_callers(can_sample, tmp_path):  # noqa: F811
    """They keep no frame pointer: all stacks of python3 -X perf ended with [no row in code made at run time]."""
    program, out = compiled(tmp_path, "trampoline", TRAMPOLINE), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--no-kernel", "--", program, "3")
    assert r.returncode == 0, r.stderr
    by_bpf(r)
    burnt = [(s, n) for s, n in folded(out) if "burn_here" in s]
    whole = [s for s, _ in burnt if s[0] == "_start" and "main" in s and s[-3:-1] == ["through", "[code made at run time, without a perf map]"]]
    # The first samples are walked in copies of the stack, without the code.
    assert sum(n for s, n in burnt if s in whole) >= 0.9 * sum(n for _, n in burnt) > 0, [s for s, _ in burnt][:5]


@pytest.mark.slow
def test_code_without_a_perf_map_has_advice(can_sample, tmp_path, running):  # noqa: F811
    program, out = compiled(tmp_path, "churn", CHURN), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "99", "--", program, "2")
    assert r.returncode == 0, r.stderr
    assert any("[code made at run time, without a perf map]" in s for s, _ in folded(out)), folded(out)[:5]
    assert "frames of code made at run time have no names" in r.stderr and "Compiler.perfmap" in r.stderr, r.stderr
    with Server() as server, subprocess.Popen([program, "60"]) as load:
        try:
            running("--to", server.url, "--window", "1", "-F", "99")
            until(lambda: state_of(tmp_path).get("made_frames"), "frames of code made at run time in the state")
            shown = lode("agent", "--status", "--state", tmp_path / "state").stdout
            assert "of code made at run time, 0 named by perf maps" in shown, shown
        finally:
            load.kill()


@pytest.mark.slow
def test_time_off_the_processor_is_that_which_passed(can_sample, tmp_path):  # noqa: F811
    program, out = compiled(tmp_path, "sleeps", SLEEPS, "-pthread"), tmp_path / "out.pb.gz"
    # Sums of sleeps that were walked by chance: beside other load one of nine was wrong by 26 % at 199 Hz, at 997 Hz none of nine by 2 %.
    r = agent("-o", out, "--off-cpu", "-F", "997", "--", program, "5")
    assert r.returncode == 0, r.stderr
    by_bpf(r)
    passed = dict(zip(("sleep_here", "wait_here", "read_here"), map(float, r.stdout.split())))
    off, cpu = (subprocess.run([LODE, "profile", out, "--sample-type", kind, "--output-format", "folded"], capture_output=True, text=True).stdout
                for kind in ("off_cpu", "cpu"))
    (tmp_path / "off.folded").write_text(off)
    got = {name: sum(n for s, n in folded(tmp_path / "off.folded") if name in s and not (name == "wait_here" and "pause_ms" in s)) / 1e9 for name in passed}
    for name, seconds in passed.items():
        assert 0.9 * seconds <= got[name] <= 1.1 * seconds, (got, passed, r.stderr)
    # The other type has none of it: these threads hardly run.
    (tmp_path / "cpu.folded").write_text(cpu)
    assert sum(n for s, n in folded(tmp_path / "cpu.folded") if "sleep_here" in s) < 0.2e9
    # Stacks begin in the scheduler, and are whole.
    stacks = [s for s, _ in folded(tmp_path / "off.folded") if "sleep_here" in s]
    assert all("start_thread" in s and "sleeper" in s for s in stacks), stacks
    assert any(s[-1] == "__schedule" for s in stacks), stacks


@pytest.mark.slow
def test_a_long_sleep_is_in_each_window(can_sample, tmp_path, running):  # noqa: F811
    """A process that sleeps all the time: each window has its part, and the server a series of the second type."""
    with Server() as server:
        sleeper = compiled(tmp_path, "longsleep", "#include <unistd.h>\nint main(void) { sleep(1); for (;;) sleep(600); }")
        # At this rate no sleep of a busy machine is left out.
        running("--to", server.url, "--window", "1", "-F", "999", "--off-cpu", "--relabel", "keep comm=longsleep", "--no-upload")
        time.sleep(1)
        load = subprocess.Popen([sleeper])
        try:
            until(lambda: len(server.got) >= 6 or "perf events" in (tmp_path / "agent.log").read_text(), "six windows", 30)
        finally:
            load.kill()
            load.wait()
        if "perf events" in (tmp_path / "agent.log").read_text():
            pytest.skip("no BPF here")
        parts = []
        for i, (_, text) in enumerate(server.got):
            (tmp_path / f"{i}.pb").write_bytes(text)
            out = subprocess.run([LODE, "profile", tmp_path / f"{i}.pb", "--sample-type", "off_cpu", "--output-format", "folded"], capture_output=True, text=True).stdout
            parts.append(sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines()) / 1e9)
        # The first and the last may be cut, and a window is as long as this machine makes it.
        assert all(0.5 < part < 3 for part in parts[2:-1]), parts


def test_cycles_or_the_clock_in_their_place(can_sample, tmp_path):  # noqa: F811
    out = tmp_path / "out.folded"
    r = agent("-o", out, "-F", "99", "--clock", "cycles", "--no-names", "--", "/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    assert r.returncode == 0 and folded(out), r.stderr
    counts = "99 Hz, cycles" in r.stderr
    assert counts != ("no counter" in r.stderr and "99 Hz, CPU clock" in r.stderr), r.stderr


@pytest.mark.slow
def test_frames_of_python_are_counted(can_sample, tmp_path, running):  # noqa: F811
    """In the state, in the metrics and for people. The interpreter runs before the agent, so its first samples are taken before it is known."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Server() as server, subprocess.Popen(["/usr/bin/python3", "-c", "def f(n):\n return 1 if n < 2 else f(n - 1) + f(n - 2)\nwhile True: f(15)"]) as load:
        try:
            time.sleep(1)
            running("--to", server.url, "--window", "1", "-F", "199", "--no-upload", "--listen", port, "--relabel", "keep comm=python3")
            until(lambda: state_of(tmp_path).get("samples", 0) > 100 or "perf events" in (tmp_path / "agent.log").read_text(), "samples of it")
            if "perf events" in (tmp_path / "agent.log").read_text():
                pytest.skip("no BPF here")
            until(lambda: state_of(tmp_path)["python_frames_named"] > 100, "frames with names", 30)
            state = state_of(tmp_path)
            assert state["python_frames"] >= state["python_frames_named"] and state["python_functions"] >= 2 and state["python_bytes"] > 0, state
            assert 1 <= state["python_early_samples"] < state["samples"] / 2, state
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
            assert "lode_agent_python_frames_named_total" in metrics and "lode_agent_python_early_samples_total" in metrics
            shown = lode("agent", "--status", "--state", tmp_path / "state").stdout
            assert "before the interpreter was known" in (shown if isinstance(shown, str) else shown.decode())
        finally:
            load.kill()


def test_options_that_contradict_each_other_are_refused(tmp_path):
    for args, text in [([], "-o FILE"), (["--to", "http://x", "-o", "y.folded"], "together"), (["--to-otlp", "http://x", "-o", "y.folded"], "--to-otlp and -o"),
                       (["--to-otlp", "http://x", "--to", "http://y"], "--to and --to-otlp"), (["-o", "x.folded", "--container-names", "here"], "absolute"), (["-o", "x.folded", "-F", "0"], "--frequency"),
                       (["-o", "x.folded", "--pid", "no"], "--pid"), (["--to", "http://x", "--relabel", "hold x=y"], "--relabel"),
                       (["-o", "x.folded", "--clock", "sun"], "--clock"),
                       (["-o", "x.folded", "--sample-type", "off_cpu"], "--off-cpu"), (["-o", "x.unknown"], "suffix")]:
        r = agent(*args, cwd=tmp_path)
        assert r.returncode == 2 and text in r.stderr, (args, r.stderr)


def test_a_file_that_cannot_be_written_is_refused_before_the_samples(tmp_path):
    for path in (tmp_path / "none" / "x.folded", tmp_path / "closed" / "x.folded"):
        (tmp_path / "closed").mkdir(exist_ok=True)
        (tmp_path / "closed").chmod(0o500)
        if os.geteuid() == 0 and path.parent.exists():
            continue
        started = tmp_path / "started"
        r = agent("-o", path, "--", "/usr/bin/touch", started)
        assert r.returncode == 1 and "in its folder" in r.stderr and not started.exists(), r.stderr


@pytest.mark.slow
def test_a_reader_of_the_report_that_goes_away_does_not_cost_the_profile(can_sample, tmp_path):  # noqa: F811
    """As `lode agent -o FILE ... 2>&1 | head` does. The command has the usual signals."""
    out = tmp_path / "out.folded"
    command = "grep SigIgn /proc/self/status; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    p = subprocess.Popen([LODE, "agent", "-o", out, "-F", "99", "--no-names", "--", "/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stderr.close()
    ignored = int(p.stdout.read().split()[1], 16)
    assert p.wait(60) == 0 and folded(out)
    assert not ignored >> 12 & 1  # SIGPIPE


def cpu_ticks(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11])


def test_a_command_that_ignores_sigterm_does_not_cost_the_profile(can_sample, tmp_path):  # noqa: F811
    out, number = tmp_path / "x.folded", tmp_path / "number"
    command = f"trap '' TERM; echo $$ >{number}.new; mv {number}.new {number}; while :; do :; done"
    p = subprocess.Popen([LODE, "agent", "-o", out, "-F", "99", "--no-names", "--", "/bin/sh", "-c", command], stderr=subprocess.PIPE)
    pid, end = 0, time.monotonic() + 60
    try:
        # From here on it ignores the signal, and there are samples of it.
        while not pid or cpu_ticks(pid) < 0.3 * os.sysconf("SC_CLK_TCK"):
            assert p.poll() is None and time.monotonic() < end
            time.sleep(0.05)
            pid = int(number.read_text()) if number.exists() else 0
        p.send_signal(signal.SIGINT)
        while not out.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert out.exists() and p.poll() is None
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
        else:
            p.kill()
        status = p.wait(60)
    assert status == 0 and folded(out)


def test_the_status_from_the_first_line_on(can_sample, tmp_path):  # noqa: F811
    """Another agent that does not start in this folder leaves its state there."""
    state = ["--state", tmp_path / "state"]
    with Server() as server, socket.socket() as taken:
        first = subprocess.Popen([LODE, "agent", "--to", server.url, *state], stderr=subprocess.PIPE, text=True)
        try:
            next(line for line in first.stderr if "profiles go to" in line)
            assert agent("--status", *state).returncode == 0
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            assert agent("--to", server.url, "--listen", f"127.0.0.1:{taken.getsockname()[1]}", *state).returncode == 1
            assert agent("--status", *state).returncode == 0
        finally:
            first.terminate()
            first.wait(30)


def test_the_status_of_no_agent_says_so(tmp_path):
    r = agent("--status", "--state", tmp_path)
    assert r.returncode == 1 and "no agent runs" in r.stderr
    (tmp_path / "status.json").write_text("{}")
    r = agent("--status", "--state", tmp_path)
    assert r.returncode == 1 and "not the state of an agent" in r.stderr
