# SPDX-License-Identifier: Apache-2.0
"""Stacks in core dumps, frame for frame those of libdw: by the step that the kernel runs. bench/unwind.py --cores has more of them."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess

import pytest

import cores

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="tables are for x86-64"),
              pytest.mark.skipif(not shutil.which("gcore") or not shutil.which("eu-stack"), reason="gcore or eu-stack is missing")]
DUMPS = 10 if os.environ.get("LODE_ALL_FILES") else 2


def assert_equal(argv, folder, n=DUMPS):
    counts = cores.compare(argv, n, folder)
    if counts is None:
        pytest.skip("processes cannot be dumped here")
    assert counts.stacks >= n
    assert counts.equal_frames >= 0.995 * counts.frames, counts.different[:3]
    return counts


@pytest.mark.parametrize("name", ["python3", "perl", "sqlite3", "bash", "xz"])
def test_stock_programs(name, tmp_path):
    argv = cores.stock(name)
    if not argv:
        pytest.skip(f"no {name}")
    assert_equal(argv, tmp_path)


@pytest.mark.parametrize("name", cores.SMALL)
def test_small_programs(name, tmp_path):
    argv = cores.small(name, tmp_path)
    if not argv:
        pytest.skip("no compiler for it")
    counts = assert_equal(argv, tmp_path)
    assert counts.frames >= 4 * counts.stacks


ABORTS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
static char stack[1 << 16];
static pthread_barrier_t created; /* the code at which clone() returns has no rows */
static volatile int zero;
__attribute__((noinline)) static void last(int sig) { if (sig) abort(); }
static void on_signal(int sig) { last(sig); zero++; }
__attribute__((noinline)) static int divide(int n) { return n ? divide(n - 1) + 1 : 7 / zero; }
static void *run(void *arg)
{
	stack_t s = { .ss_sp = stack, .ss_size = sizeof(stack) };
	sigaltstack(&s, NULL);
	pthread_barrier_wait(&created);
	return (void *)(long)divide(10);
}
int main(void)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	pthread_t t;
	sigaction(SIGFPE, &a, NULL);
	pthread_barrier_init(&created, NULL, 2);
	pthread_create(&t, NULL, run, NULL);
	pthread_barrier_wait(&created);
	pthread_join(t, NULL);
	return 0;
}
"""


def test_a_dump_of_the_kernel_through_a_signal_on_another_stack(tmp_path):
    """abort() in the handler of a division by zero, in a thread that has a stack for signals."""
    (tmp_path / "aborts.c").write_text(ABORTS)
    subprocess.run(["gcc", "-O2", "-w", "-pthread", "-o", tmp_path / "aborts", tmp_path / "aborts.c"], check=True)

    def unlimited():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    try:
        r = subprocess.run([tmp_path / "aborts"], cwd=tmp_path, preexec_fn=unlimited, timeout=30)
    except (ValueError, OSError, subprocess.SubprocessError):
        pytest.skip("core dumps are limited here")
    assert r.returncode == -signal.SIGABRT
    made = [f for f in pathlib.Path(tmp_path).iterdir() if f.name.startswith("core")]
    if not made:
        pytest.skip("the kernel gives its dumps to another program (kernel.core_pattern)")
    ours, theirs = cores.stacks_of_tool(cores.CORE, made[0]), cores.stacks_of_elfutils(f"--core={made[0]}")
    assert ours.keys() == theirs.keys() and len(ours) == 2
    for tid, (frames, how) in ours.items():
        assert frames == theirs[tid] and how == "outermost frame", (how, frames, theirs[tid])
    # raise, abort, last, on_signal, the frame of the signal, 11 times divide (or what the compiler left of it), run, start_thread, clone
    assert max(len(frames) for frames, _ in ours.values()) >= 9
