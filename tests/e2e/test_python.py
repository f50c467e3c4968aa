# SPDX-License-Identifier: Apache-2.0
"""lode agent: functions of CPython with files and lines, compared with the interpreter's own stack."""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import LODE
from profiling import fields, numbers

# Each scene ends in a function burn_NAME, which notes the stack as the interpreter sees it: names and lines.
PROGRAM = r'''
import asyncio, functools, json, sys, threading, time

seen = {}


def note(name):
    if name not in seen:
        chain, f = [], sys._getframe(1)
        while f:
            chain.append((getattr(f.f_code, "co_qualname", f.f_code.co_name), f.f_code.co_filename, f.f_lineno))
            f = f.f_back
        seen[name] = chain


SOURCE = """
def burn_NAME(x=0):
    note("burn_NAME")
    s = 0
    for i in range(6000):
        s += i * i
    return s
"""
for name in "deep", "sort", "generator", "thread", "task", "method", "strange", "thrown", "class":
    exec(compile(SOURCE.replace("NAME", name), "burn.py", "exec"))


def deep(n):
    if n:
        return deep(n - 1) + 1
    return burn_deep()


def in_sort():
    sorted([3, 1, 2], key=lambda x: functools.reduce(lambda a, b: burn_sort(a), [x, x]))


def generator(n):
    if n:
        for x in generator(n - 1):
            yield x
    else:
        yield burn_generator()


def in_generator():
    return [x for x in generator(20)]


async def inner():
    await asyncio.sleep(0)
    return burn_task()


async def in_task():
    await asyncio.gather(inner(), inner())


class Scene:
    @property
    def method(self):
        return (
            burn_method()
        )

    def __eq__(self, other):
        return bool(burn_class())


exec(compile("def \u00e9t\u00e9():\n return burn_strange()\n", "bad\x1b[31m\n\u65e5\u672c.py", "exec"))


def in_throw():
    try:
        raise KeyError
    except KeyError:
        burn_thrown()


stopped = False


def in_thread():
    while not stopped:
        burn_thread()


thread = threading.Thread(target=in_thread)
thread.start()
while time.process_time() < float(sys.argv[1]):
    deep(100)
    in_sort()
    in_generator()
    asyncio.run(in_task())
    Scene().method
    Scene() == 1
    été()
    in_throw()
stopped = True
thread.join()
with open(sys.argv[2], "w") as f:
    json.dump(seen, f)
'''


def interpreters():
    """Debian's, which every machine of the tests has, and others: of supported versions, and $LODE_TEST_PYTHON."""
    found = dict.fromkeys(["/usr/bin/python3", *filter(None, os.environ.get("LODE_TEST_PYTHON", "").split(":"))])
    for minor in range(9, 15):
        name = f"python3.{minor}"
        found |= dict.fromkeys(filter(None, [shutil.which(name, path="/usr/local/bin:/usr/bin")]))
        found |= dict.fromkeys(map(str, sorted(pathlib.Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))))
    return {os.path.realpath(path): None for path in found if os.path.exists(path)}


@pytest.fixture(scope="module")
def can_use_bpf(tmp_path_factory):
    r = agent("-o", tmp_path_factory.mktemp("probe") / "x.folded", "--duration", "1", "--no-names")
    if "by BPF" not in r.stderr:
        pytest.skip("BPF cannot be used here: " + r.stderr.strip().split("\n")[0])


def agent(*args, timeout=120):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    return subprocess.run([LODE, "agent", *map(str, args)], capture_output=True, text=True, timeout=timeout, env={**env, "DEBUGINFOD_URLS": ""})


def stacks(path):
    """[(name, file, line), ...], the outermost first, of each sample of a pprof profile."""
    profile = list(fields(gzip.decompress(path.read_bytes())))
    strings = [v.decode() for k, v in profile if k == 6]
    period = dict(profile)[12]
    functions = {f[1]: (strings[f.get(2, 0)], strings[f.get(4, 0)]) for f in (dict(fields(v)) for k, v in profile if k == 5)}
    locations = {}
    for v in (v for k, v in profile if k == 4):
        location = list(fields(v))
        lines = [dict(fields(line)) for k, line in location if k == 4]
        locations[dict(location)[1]] = [(*functions[line[1]], line.get(2, 0)) for line in reversed(lines)] or [("", "", 0)]
    for v in (v for k, v in profile if k == 2):
        ids = [n for k, f in fields(v) if k == 1 for n in numbers(f)]
        count = next(n for k, f in fields(v) if k == 2 for n in numbers(f)) // period
        for _ in range(count):
            yield [frame for i in reversed(ids) for frame in locations[i]]


def run_scenes(python, work, cpu_seconds):
    (work / "program.py").write_text(PROGRAM)
    r = agent("-o", work / "out.pb.gz", "-F", "499", "--no-kernel", "--no-names", "--", python, work / "program.py", cpu_seconds, work / "seen.json")
    assert r.returncode == 0, r.stderr
    return json.loads((work / "seen.json").read_text()), list(stacks(work / "out.pb.gz"))


def python_of(stack):
    return [f for f in stack if re.search(r"\.py$|^<", f[1])]


def shown(text):
    return re.sub(r"[\x00-\x1f]", "?", text)


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters())
def test_frames_are_those_of_the_interpreter(can_use_bpf, tmp_path, python):
    seen, found = run_scenes(python, tmp_path, 2)
    equal, other = {}, {}
    for stack in found:
        own = python_of(stack)
        burning = [f for f in own if f[0].startswith("burn_")]
        if not burning or own[-1] != burning[-1]:
            continue
        name = burning[-1][0]
        expected = [(n, shown(f), line) for n, f, line in reversed(seen[name])]
        # The innermost line is another one than that of the note; loops of the program call from the same line always.
        same = own[:-1] == expected[:-1] and own[-1][:2] == expected[-1][:2] and 2 <= own[-1][2] <= 7
        (equal if same else other).setdefault(name, []).append(own)
    n_equal, n_other = (sum(map(len, d.values())) for d in (equal, other))
    assert set(equal) == set(seen), (set(seen) - set(equal), {k: v[0] for k, v in other.items()})
    assert n_equal >= 50 and n_other <= n_equal * 0.02, {k: (v[0], seen[k][::-1]) for k, v in other.items()}
    # Frames of C are in their places.
    assert not any(f[0] == "_PyEval_EvalFrameDefault" for stack in found for f in stack if python_of(stack))


# A program that looks like an interpreter of 3.11 to the agent, and whose memory is hostile: frames in a circle, or wild ones; a name of
# 1 GB with control characters; new code objects all the time.
HOSTILE = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <time.h>
char _PyRuntime[4096] __attribute__((aligned(16)));
const unsigned long Py_Version = 0x030b02f0;
static uint64_t state[64], cframe[4], frames[2][16], file[8], lines[4];
static uint64_t (*code)[32];
static char name[1 << 16] __attribute__((aligned(16)));
__attribute__((noinline)) int _PyEval_EvalFrameDefault(unsigned n) { volatile int s = 0; for (unsigned i = 0; i < n; i++) s += i; return s; }
int main(int argc, char **argv)
{
    clock_t end = atoi(argv[1]) * CLOCKS_PER_SEC;
    pthread_key_t key;
    pthread_key_create(&key, NULL);
    pthread_setspecific(key, state);
    ((int *)(_PyRuntime + 592))[0] = 1;
    ((int *)(_PyRuntime + 592))[1] = key;
    state[152 / 8] = pthread_self();
    state[56 / 8] = (uintptr_t)cframe;
    cframe[1] = (uintptr_t)frames[0];
    cframe[2] = (uintptr_t)cframe;
    memset(name, '\x1b', sizeof(name));
    ((uint64_t *)name)[2] = 1 << 30;
    ((uint32_t *)name)[8] = 1 << 2 | 1 << 5 | 1 << 6;
    file[2] = 3;
    ((uint32_t *)file)[8] = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy(file + 6, "a\nb", 3);
    lines[2] = 1ull << 40;
    code = calloc(4096, sizeof(*code));
    for (unsigned round = 0; clock() < end; round++) {
        uint64_t *c = code[round % 4096];
        c[112 / 8] = (uintptr_t)file;
        c[120 / 8] = c[128 / 8] = (uintptr_t)name;
        c[136 / 8] = round % 3 ? (uintptr_t)lines : round;
        for (int i = 0; i < 2; i++) {
            frames[i][32 / 8] = (uintptr_t)c;
            frames[i][48 / 8] = argc > 2 && round % 2 ? 0xdead0000 + round : (uintptr_t)frames[!i];
            frames[i][56 / 8] = round * 77;
            frames[i][68 / 8] = (uint64_t)(round % 5 == 0) << 32;
        }
        _PyEval_EvalFrameDefault(3000000);
    }
    return 0;
}
"""


@pytest.mark.slow
def test_hostile_memory_is_bounded(can_use_bpf, tmp_path):
    (tmp_path / "x.c").write_text(HOSTILE)
    program = tmp_path / "python3.11"
    subprocess.run(["gcc", "-O1", "-rdynamic", "-o", program, tmp_path / "x.c"], check=True)
    for arguments in (["2"], ["2", "wild"]):
        r = agent("-o", tmp_path / "out.pb.gz", "-F", "499", "--no-names", "--", program, *arguments)
        assert r.returncode == 0, r.stderr
        found = [s for s in stacks(tmp_path / "out.pb.gz") if len(s) > 10]
        assert found, "no frames of Python"
        assert any("[too deep]" in (f[0] for f in s) for s in found)
        for name, file, _ in {f for s in found for f in s}:
            assert len(name) <= 512 and name.isprintable() and file.isprintable(), (name, file)


@pytest.mark.slow
def test_names_are_those_of_a_program_that_lives_half_a_second(can_use_bpf, tmp_path):
    program, out = tmp_path / "short.py", tmp_path / "out.pb.gz"
    program.write_text("import time\ndef spin():\n    n = 0\n    while time.process_time() < 0.5:\n        n += 1\nspin()\n")
    with subprocess.Popen([LODE, "agent", "-o", out, "--duration", "12", "-F", "99", "--no-names"], stderr=subprocess.DEVNULL) as a:
        for _ in range(5):
            time.sleep(1)
            subprocess.run(["/usr/bin/python3", program], check=True)
        a.send_signal(signal.SIGINT)
    spins = sum(1 for s in stacks(out) if any(f[:2] == ("spin", str(program)) for f in s))
    gone = sum(1 for s in stacks(out) if any("Python function" in f[0] for f in s))
    assert spins >= 100 and gone <= spins / 10, (spins, gone)


SLEEPERS = """
import threading, time
def nap_one(): time.sleep(0.011)
def nap_two(n=20): time.sleep(0.013) if n == 0 else nap_two(n - 1)
def work(nap):
    for _ in range(300): nap()
threads = [threading.Thread(target=work, args=(nap,)) for nap in (nap_one, nap_two)]
for t in threads: t.start()
for t in threads: t.join()
"""


@pytest.mark.slow
def test_sleeping_threads_have_their_own_frames(can_use_bpf, tmp_path):
    (tmp_path / "sleepers.py").write_text(SLEEPERS)
    p = subprocess.Popen(["/usr/bin/python3", tmp_path / "sleepers.py"])
    r = agent("-o", tmp_path / "out.folded", "--off-cpu", "--sample-type", "off_cpu", "--duration", "3", "--no-names", "--no-kernel", "--pid", p.pid)
    assert p.wait() == 0 and r.returncode == 0, r.stderr
    # Frames of Python only: others are addresses here.
    found = [[f for f in line.split(";") if "+0x" not in f and "[" not in f] for line in (tmp_path / "out.folded").read_text().splitlines()]
    naps = [[f for f in s if f.isidentifier()] for s in found if any(f.startswith("nap_") for f in s)]
    assert ["work", "nap_one"] in [n[-2:] for n in naps]
    assert ["work"] + ["nap_two"] * 21 in [n[-22:] for n in naps]
    assert not any("nap_one" in n and "nap_two" in n for n in naps)
