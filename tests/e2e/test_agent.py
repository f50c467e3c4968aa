# SPDX-License-Identifier: Apache-2.0
"""lode agent: a known chain of calls, code of interpreters, short processes, a server that goes away, hostile processes."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from conftest import LODE, build_id
from profiling import Answerer, Taker, ask, fields, numbers
from pushing import lode

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

FORKS = """
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    time_t end = time(NULL) + atoi(argv[1]);
    while (time(NULL) < end) {
        pid_t p = fork();
        if (!p)
            _exit(0);
        waitpid(p, NULL, 0);
    }
    return 0;
}
"""


def agent(*args, timeout=120, **kw):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    return subprocess.run([LODE, "agent", *map(str, args)], capture_output=True, text=True, timeout=timeout, env={**env, "DEBUGINFOD_URLS": ""}, **kw)


@pytest.fixture(scope="module")
def can_sample(tmp_path_factory):
    """Skips where neither BPF nor perf events may be used: in most containers, and for ordinary users."""
    r = agent("-o", tmp_path_factory.mktemp("probe") / "x.folded", "--duration", "1", "-F", "99", "--no-names", "--", "/bin/sh", "-c", "while :; do :; done", timeout=30)
    if r.returncode and "no sample" not in r.stderr:
        pytest.skip("no sampling here: " + r.stderr.strip().split("\n")[0])


def compiled(work, name, text, *flags):
    (work / f"{name}.c").write_text(text)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-g", "-o", work / name, work / f"{name}.c", *flags], check=True)
    return work / name


def folded(path):
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in pathlib.Path(path).read_text().splitlines()]


@pytest.mark.slow
def test_a_known_chain_is_complete(can_sample, tmp_path):
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
def test_a_process_of_half_a_second_is_seen_from_its_start(can_sample, tmp_path):
    program, out = compiled(tmp_path, "short", CHAIN), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "99", "--", "/bin/sh", "-c", f"sleep 1; {program} 400; sleep 0.2")
    assert r.returncode == 0, r.stderr
    burnt = sum(n for s, n in folded(out) if "burn_here" in s)
    lost = sum(n for s, n in folded(out) if s[0] in ("[no process]", "[no mapping]", "[no table]"))
    # The processor's time of the program is 400 ms, whatever else runs; samples are 10 ms each.
    assert 320e6 <= burnt <= 480e6, r.stderr
    assert lost <= 0.2 * burnt


@pytest.mark.slow
def test_code_that_a_process_made_has_its_name(can_sample, tmp_path):
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


@pytest.mark.slow
def test_hostile_processes_are_bounded(can_sample, tmp_path):
    churn, forks, out = compiled(tmp_path, "churn", CHURN), compiled(tmp_path, "forks", FORKS), tmp_path / "out.pb.gz"
    before = time.monotonic()
    r = agent("-o", out, "-F", "99", "--no-names", "--", "/bin/sh", "-c", f"{churn} 3 & {forks} 3; wait")
    assert r.returncode == 0, r.stderr
    assert time.monotonic() - before < 20
    assert len(gzip.decompress(out.read_bytes())) > 100


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


def start_time(pprof):
    return next(v for k, v in fields(pprof) if k == 9)


def until(condition, what, timeout=60):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(what)


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


@pytest.mark.slow
def test_profiles_wait_for_a_server_that_is_away(can_sample, tmp_path, running):
    with Server() as server:
        server.away = True
        process = running("--to", server.url, "--window", "1", "-F", "99", "--label", "service=x y", "--node", "n1")
        spool = tmp_path / "state" / "spool"
        until(lambda: len(list(spool.glob("*.pb.gz"))) >= 2, "profiles in the spool")
        status = tmp_path / "state" / "status.json"
        until(lambda: status.exists() and json.loads(status.read_text())["send_error"], "the failure in the state")
        shown = lode("agent", "--status", "--state", tmp_path / "state").stdout
        assert "503" in (shown if isinstance(shown, str) else shown.decode())
        away_ns = time.time_ns()
        server.away = False
        until(lambda: not list(spool.glob("*.pb.gz")) and len(server.got) >= 3, "the spool to be sent")
        assert min(start_time(p) for _, p in server.got) < away_ns
        assert len({start_time(p) for _, p in server.got}) == len(server.got)
        assert server.got[0][0] == "/profiles?service=x%20y&node=n1&__name__=process_cpu"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.slow
def test_debug_information_is_brought_to_the_server(can_sample, tmp_path, serve, running):
    """The program is stripped, its debug file is below .debug: the server gets it, and names the functions and lines."""
    program = compiled(tmp_path, "chain", CHAIN)
    (tmp_path / ".debug").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", program, tmp_path / ".debug" / "chain.debug"], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path / '.debug' / 'chain.debug'}", program], check=True)
    s = serve([]).ready()
    load = subprocess.Popen([program, "60000"])
    try:
        running("--to", s.url, "--window", "1", "-F", "99", "--relabel", "keep comm=chain")

        def named():
            rows = ask(s, "top", query='{comm="chain"}', **{"from": "now-1h", "limit": 50})["rows"]
            return any(r["name"] == "burn_here" and r["file"].endswith("chain.c") for r in rows)

        until(named, "the names of the program's functions", 60)
        assert s.get(f"/buildid/{build_id(program)}/debuginfo").status == 200
        kernel = ask(s, "top", query='{comm="chain"}', **{"from": "now-1h", "limit": 1000})["rows"]
        assert all(r["name"] != "[no process]" for r in kernel[:3])
        labels = ask(s, "labels")["labels"]
        assert {"node", "comm"} <= set(labels)
    finally:
        load.kill()
        load.wait()


def test_options_that_contradict_each_other_are_refused(tmp_path):
    for args, text in [([], "-o FILE"), (["--to", "http://x", "-o", "y.folded"], "together"), (["-o", "x.folded", "-F", "0"], "--frequency"),
                       (["-o", "x.folded", "--pid", "no"], "--pid"), (["--to", "http://x", "--relabel", "hold x=y"], "--relabel"),
                       (["-o", "x.folded", "--clock", "sun"], "--clock"), (["-o", "x.unknown"], "suffix")]:
        r = agent(*args, cwd=tmp_path)
        assert r.returncode == 2 and text in r.stderr, (args, r.stderr)


def test_the_status_of_no_agent_says_so(tmp_path):
    r = agent("--status", "--state", tmp_path)
    assert r.returncode == 1 and "no agent runs" in r.stderr
    (tmp_path / "status.json").write_text("{}")
    r = agent("--status", "--state", tmp_path)
    assert r.returncode == 1 and "not the state of an agent" in r.stderr
