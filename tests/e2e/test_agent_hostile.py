# SPDX-License-Identifier: Apache-2.0
"""lode agent: processes that change all the time, storms of them, huge mappings."""

import gzip
import resource
import subprocess
import time

import pytest

from sampling import CHAIN, CHURN, STORM, agent, by_bpf, can_sample, compiled, folded  # noqa: F401

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


@pytest.mark.slow
def test_hostile_processes_are_bounded(can_sample, tmp_path):  # noqa: F811
    churn, forks, out = compiled(tmp_path, "churn", CHURN), compiled(tmp_path, "forks", FORKS), tmp_path / "out.pb.gz"
    before = time.monotonic()
    r = agent("-o", out, "-F", "99", "--no-names", "--", "/bin/sh", "-c", f"{churn} 3 & {forks} 3; wait")
    assert r.returncode == 0, r.stderr
    assert time.monotonic() - before < 20
    assert len(gzip.decompress(out.read_bytes())) > 100


@pytest.mark.slow
def test_processes_of_a_millisecond_are_known_after_their_end(can_sample, tmp_path):  # noqa: F811
    """/proc has nothing of most of them when their sample is read: 42 % had no process before."""
    program, out = compiled(tmp_path, "storm", STORM), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "499", "--", program, "4")
    assert r.returncode == 0, r.stderr
    by_bpf(r)
    if "records of mappings" in r.stderr:
        pytest.skip("the kernel does not permit records of mappings here")
    rows = folded(out)
    total = sum(n for _, n in rows)
    assert sum(n for s, n in rows if s[0] == "[no process]") <= 0.1 * total, r.stderr
    # A child that ran no program has its parent's, and one that did has its own.
    spun = [(s, n) for s, n in rows if "spin_child" in s]
    assert sum(n for s, n in spun if s[0] == "_start" and "main" in s) >= 0.9 * sum(n for _, n in spun) > 0, spun[:3]
    assert any("_dl_start" in s or "dl_main" in s or s[0] == "_start" and "main" not in s for s, _ in rows), rows[:5]


# 60 000 mappings of code, and a perf map of 1 GiB whose first line is good; then it runs its code.
HUGE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static const unsigned char code[] = {0xb9, 0, 0, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    char *p = mmap(NULL, 120000 * 4096L, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), name[64];
    time_t end = time(NULL) + atoi(argv[1]);
    FILE *f;
    for (long i = 0; i < 60000; i++)
        if (mprotect(p + i * 8192, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
            break;
    memcpy(p, code, sizeof(code));
    snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
    f = fopen(name, "w");
    fprintf(f, "%lx 1000 in_huge_map\\n", (long)p);
    fflush(f);
    if (ftruncate(fileno(f), 1L << 30))
        return 1;
    while (time(NULL) < end)
        ((void (*)(void))p)();
    unlink(name);
    return 0;
}
"""


# Becomes itself all the time.
EXECS = """
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (volatile int i = 0; i < 100000; i++)
        ;
    if (time(NULL) < atol(argv[1]))
        execv("/proc/self/exe", argv);
    return 0;
}
"""


@pytest.mark.slow
def test_huge_maps_and_execs_cost_others_nothing(can_sample, tmp_path):  # noqa: F811
    huge, execs, chain, out = compiled(tmp_path, "huge", HUGE), compiled(tmp_path, "execs", EXECS), compiled(tmp_path, "chain", CHAIN), tmp_path / "out.folded"
    # A full machine may not come to a sample of a short run: then a longer one follows.
    for burn_ms in 1500, 6000, 24000:
        r = agent("-o", out, "-F", "99", "--", "/bin/sh", "-c", f"{huge} 4 & {execs} $(($(date +%s) + 4)) & {chain} {burn_ms}; wait", timeout=600)
        assert r.returncode == 0, r.stderr
        # The largest resident memory of all programs that this test has waited for.
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 600 << 10
        burnt = [(s, n) for s, n in folded(out) if "burn_here" in s]
        if burnt:
            break
        print(burn_ms, r.stderr, out.read_text()[:2000])  # shown if the test fails
    assert burnt and sum(n for s, n in burnt if s[0] == "_start") >= 0.9 * sum(n for _, n in burnt), (burnt[:3], r.stderr)


@pytest.mark.slow
def test_names_with_control_characters_are_shown_without_them(can_sample, tmp_path):  # noqa: F811
    """That of a program's file, and of its process: a terminal or a page would follow them."""
    program, out = compiled(tmp_path, "chain", CHAIN, "-s"), tmp_path / "out.folded"
    program = program.rename(tmp_path / "bad\x1b[31m\n;name")
    r = agent("-o", out, "-F", "199", "--", program, "1000")
    assert r.returncode == 0, r.stderr
    assert any(s[-1].startswith("bad?[31m?") for s, _ in folded(out)), folded(out)[:5]
    assert not [c for c in out.read_text() + r.stderr if c < " " and c != "\n"]


# Starts a program that ends at once, without libraries, as fast as it can, and prints how often a second.
STARTS = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char **argv)
{
	double start = now();
	long n = 0;
	while (now() - start < atof(argv[2])) {
		pid_t p = vfork();
		if (!p) {
			execl(argv[1], argv[1], (char *)NULL);
			_exit(1);
		}
		waitpid(p, NULL, 0);
		n++;
	}
	printf("%.0f\\n", n / (now() - start));
	return 0;
}
"""
# In execve() these run when the memory of the old program is gone.
LOADER = {"elf_load", "elf_map", "setup_arg_pages", "create_elf_tables", "load_elf_interp", "shift_arg_pages"}


@pytest.mark.slow
def test_a_thousand_programs_a_second(can_sample, tmp_path):  # noqa: F811
    """The agent neither slows them down nor loses their stacks: 3.5 % ended with a mark, all of those in the loader among them."""
    starts, out = compiled(tmp_path, "starts", STARTS), tmp_path / "out.folded"
    nothing = compiled(tmp_path, "nothing", '__asm__(".globl _start\\n_start: mov $60, %eax\\nxor %edi, %edi\\nsyscall\\n");', "-static", "-nostdlib")
    alone = float(subprocess.run([starts, nothing, "1"], capture_output=True, text=True, check=True).stdout)
    if alone < 1500:
        pytest.skip(f"this machine starts {alone:.0f} programs a second now")
    r = agent("-o", out, "-F", "997", "--no-names", "--", starts, nothing, "4")
    assert r.returncode == 0, r.stderr
    by_bpf(r)
    assert float(r.stdout) >= 0.1 * alone, (r.stdout, alone)
    loading = [s for s, _ in folded(out) if LOADER & set(s)]
    assert not [s for s in loading if s[0].startswith("[no ")], loading
    rows = folded(out)
    assert sum(n for s, n in rows if s[0] in ("[no process]", "[no mapping]")) <= 0.05 * sum(n for _, n in rows), r.stderr


# Runs two programs in turn, and gives the second one the process number of the first, which has ended. Prints how often that came true.
REUSE = """
import subprocess, sys
same = 0
for _ in range(60):
    first = subprocess.Popen([sys.argv[1], "150"])
    first.wait()
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(first.pid - 1))
    second = subprocess.Popen([sys.argv[2], "150"])
    second.wait()
    same += second.pid == first.pid
    if same == 5:
        break
print(same)
"""


@pytest.mark.slow
def test_a_process_number_that_is_used_again_is_another_program(can_sample, tmp_path):  # noqa: F811
    """Within milliseconds: before anybody reads that the first one has ended."""
    try:
        open("/proc/sys/kernel/ns_last_pid", "w").close()
    except OSError as e:
        pytest.skip(f"numbers of processes cannot be chosen here: {e}")
    padding = "".join(f"int pad{i}(int n) {{ return n * {i}; }}\n" for i in range(200))
    first = compiled(tmp_path, "first", CHAIN)
    second = compiled(tmp_path, "second", padding + CHAIN.replace("burn_here", "burn_again").replace("go_down", "go_on"))
    out = tmp_path / "out.folded"
    r = agent("-o", out, "-F", "199", "--", "python3", "-c", REUSE, first, second)
    assert r.returncode == 0, r.stderr
    by_bpf(r)
    rows = folded(out)
    same = int(r.stdout.split()[0])
    if not same:
        pytest.skip("other programs took the numbers")
    chains = {name: [(s, n) for s, n in rows if name in s] for name in ("burn_here", "burn_again")}
    for name, other in (("burn_here", "go_on"), ("burn_again", "go_down")):
        assert sum(n for _, n in chains[name]) >= 0.8 * same * 0.15 * 199, (name, rows[:5])
        assert all(s[0] == "_start" and other not in s for s, _ in chains[name]), chains[name][:3]
    # No sample of them lost its names.
    assert sum(n for s, n in rows if "main" in s and not {"burn_here", "burn_again"} & set(s)) <= 0.1 * sum(n for _, n in rows)
