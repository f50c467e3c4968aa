# SPDX-License-Identifier: Apache-2.0
"""Runs of lode agent, programs for it to sample, and a server that takes its profiles."""

import functools
import gzip
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import LODE
from profiling import Answerer, Taker

# A chain of calls through a shared library's sort, without frame pointers, for so many milliseconds of CPU time.
CHAIN = """
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) void burn_here(void) { for (int i = 0; i < 100000; i++) sum += i * i; }
__attribute__((noinline)) int go_down(int n) { int r; if (!n) { burn_here(); return 1; } r = go_down(n - 1); sum += r; return r + 1; }
static int compare(const void *a, const void *b) { go_down(30); return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) void sort_all(void) { int v[8] = {5, 3, 8, 1, 9, 2, 7, 4}; qsort(v, 8, sizeof(int), compare); }
int main(int argc, char **argv)
{
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    do {
        sort_all();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    } while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < atoi(argv[1]));
    return 0;
}
"""


# Maps, fills and unmaps code all the time, and runs it.
CHURN = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
int main(int argc, char **argv)
{
    static const unsigned char code[] = {0xb9, 0, 0, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    time_t end = time(NULL) + atoi(argv[1]);
    while (time(NULL) < end) {
        void *p[64];
        for (int i = 0; i < 64; i++) {
            p[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(p[i], code, sizeof(code));
            ((void (*)(void))p[i])();
        }
        for (int i = 0; i < 64; i++)
            munmap(p[i], 4096);
    }
    return 0;
}
"""


# Starts /bin/true, and children that run its own code for a third of a millisecond, as fast as it can.
STORM = """
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned sum;
__attribute__((noinline)) int spin_child(void)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		for (int i = 0; i < 1000; i++) sum += i * i;
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 300000);
	return sum & 1;
}
int main(int argc, char **argv)
{
	time_t end = time(NULL) + atoi(argv[1]);
	while (time(NULL) < end) {
		pid_t p = fork();
		if (!p)
			_exit(spin_child());
		waitpid(p, NULL, 0);
		p = vfork();
		if (!p) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		waitpid(p, NULL, 0);
	}
	return 0;
}
"""


def agent(*args, timeout=120, **kw):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    return subprocess.run([LODE, "agent", *map(str, args)], capture_output=True, text=True, timeout=timeout, env={**env, "DEBUGINFOD_URLS": ""}, **kw)


@functools.lru_cache
def why_no_sampling():
    """Empty: there is BPF, or there are perf events. One probe serves all files of tests."""
    with tempfile.TemporaryDirectory() as folder:
        r = agent("-o", pathlib.Path(folder) / "x.folded", "--duration", "1", "-F", "99", "--no-names", "--", "/bin/sh", "-c", "while :; do :; done", timeout=30)
    return r.stderr.strip().split("\n")[0] if r.returncode and "no sample" not in r.stderr else ""


@pytest.fixture(scope="module")
def can_sample():
    """Skips where neither BPF nor perf events may be used: in most containers, and for ordinary users."""
    if why_no_sampling():
        pytest.skip("no sampling here: " + why_no_sampling())


def compiled(work, name, text, *flags):
    (work / f"{name}.c").write_text(text)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-g", "-o", work / name, work / f"{name}.c", *flags], check=True)
    return work / name


def folded(path):
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in pathlib.Path(path).read_text().splitlines()]


def by_bpf(result):
    if "by BPF" not in result.stderr:
        pytest.skip("no BPF here: " + result.stderr.strip().split("\n")[0])


class Server(Taker):
    """Takes profiles, or answers 503 while it is away."""

    def __init__(self):
        super().__init__(Handler)
        self.got, self.away = [], False


class Handler(Answerer):
    def do_POST(self):
        body = self.body()
        if self.server.away:
            self.answer(503, b'{"error":"away"}')
            return
        self.server.got.append((self.path, gzip.decompress(body)))
        self.answer(200, json.dumps({"profiles": 1, "samples": 1, "id": 1, "duplicate": False}).encode())


def until(condition, what, timeout=60):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(what)


def stripped_chain(folder):
    """CHAIN without debug information, which is in the folder .debug beside it."""
    program = compiled(folder, "chain", CHAIN)
    debug = folder / ".debug" / "chain.debug"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    return program


@pytest.fixture
def running(tmp_path):
    made = []

    def start(*args):
        log = open(tmp_path / "agent.log", "w")
        made.append(subprocess.Popen([LODE, "agent", "--state", str(tmp_path / "state"), *map(str, args)], stderr=log, stdout=log))
        return made[-1]

    yield start
    for p in made:
        p.send_signal(signal.SIGTERM)
        p.wait(30)


def state_of(tmp_path):
    path = tmp_path / "state" / "status.json"
    return json.loads(path.read_text()) if path.exists() else {}
