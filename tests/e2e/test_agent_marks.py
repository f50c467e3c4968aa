# SPDX-License-Identifier: Apache-2.0
"""lode agent: stacks that cannot be walked to their end say why, by BPF and by perf events."""

import collections
import os
import shutil
import subprocess
import tempfile

import pytest

from sampling import agent, by_bpf, can_sample, compiled, folded  # noqa: F401
from test_agent_rights import as_unit, unit_list

# Functions whose stack cannot be walked, each for its own reason, for a millisecond each time. Their rows are made by hand.
SCENES = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#define BURN "mov $1000000, %ecx\n1: dec %ecx\njnz 1b\n"
#define FUNCTION(name) ".p2align 4\n.type " name ", @function\n" name ":\n"
__asm__(".text\n"
	/* The word in the place of the return address is no address of code. */
	FUNCTION("no_mapping") ".cfi_startproc\npush $0x1234567\n" BURN "pop %rcx\nret\n.cfi_endproc\n"
	/* The CFA is a number, by an expression. */
	FUNCTION("bad_rule") ".cfi_startproc\n.cfi_escape 0x0f, 2, 0x08, 0x40\n" BURN "ret\n.cfi_endproc\n"
	/* The CFA is at the end of the address space, after the stack. */
	FUNCTION("unreadable") ".cfi_startproc\n.cfi_def_cfa rax, 8\nmovabs $0x7fffffffd000, %rax\n" BURN "ret\n.cfi_endproc\n"
	/* The caller's frame is below this one. */
	FUNCTION("below") ".cfi_startproc\n.cfi_def_cfa rax, 8\nlea -64(%rsp), %rax\nmov (%rsp), %rdx\nmov %rdx, -64(%rsp)\n" BURN "ret\n.cfi_endproc\n"
	/* Without rows, and the frame pointer points to itself. */
	FUNCTION("itself") "push %rbp\nsub $16, %rsp\nmov %rsp, %rbp\nmov %rbp, (%rbp)\nlea itself(%rip), %rax\nmov %rax, 8(%rbp)\n" BURN
	"add $16, %rsp\npop %rbp\nret\n"
	FUNCTION("no_row") "push %rbp\nmov $1, %ebp\n" BURN "pop %rbp\nret\nno_row_end:\n");
void no_mapping(void), bad_rule(void), unreadable(void), below(void), itself(void), no_row(void);
extern const char no_row_end[];
static volatile int sum;
__attribute__((noinline)) static int too_deep(int n) { if (!n) for (int i = 0; i < 300000; i++) sum++; return n ? too_deep(n - 1) + sum : 1; }
__attribute__((noinline)) static int truncated(int n)
{
	volatile char local[4000];
	local[n] = 1;
	if (!n) for (int i = 0; i < 300000; i++) sum++;
	return n ? truncated(n - 1) + local[n] : 1;
}
int main(int argc, char **argv)
{
	void (*made)(void) = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	time_t end = time(NULL) + atoi(argv[1]);
	memcpy((void *)made, no_row, no_row_end - (const char *)no_row);
	if (argc > 2) unlink(argv[0]);
	while (time(NULL) < end) { no_mapping(); bad_rule(); unreadable(); below(); itself(); no_row(); made(); too_deep(700); truncated(30); }
	return 0;
}
"""
MADE = "[code made at run time, without a perf map]"
MARKS = {"no_mapping": "[no mapping]", "bad_rule": "[bad rule in scenes]", "unreadable": "[unreadable]", "below": "[loop]", "itself": "[no row in scenes]",
         "no_row": "[no row in scenes]", MADE: "[no row in code made at run time]", "too_deep": "[too deep]"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["bpf", "perf"])
def test_each_stack_that_is_cut_says_why(can_sample, tmp_path, way):  # noqa: F811
    program, out = compiled(tmp_path, "scenes", SCENES), tmp_path / "out.folded"
    r = agent("-o", out, "-F", "499", "--no-kernel", *(["--no-bpf"] if way == "perf" else []), "--", program, "4")
    assert r.returncode == 0, r.stderr
    if way == "bpf":
        by_bpf(r)
    # A copy of 32 KiB; the kernel walks a stack where it is.
    expected = MARKS | ({"truncated": "[truncated]"} if way == "perf" else {"truncated": "_start"})
    seen = {name: collections.Counter() for name in expected}
    for stack, n in folded(out):
        name = stack[-1].split(".")[0]  # gcc's clones: too_deep.isra.0
        if name in seen:
            seen[name][stack[0]] += n
    for name, mark in expected.items():
        # The first samples of a process are walked in copies by BPF, too.
        assert seen[name][mark] >= 0.9 * sum(seen[name].values()) > 0, (name, seen[name], r.stderr)


@pytest.mark.slow
def test_a_deleted_program_is_marked_where_it_may_not_be_read(can_sample, tmp_path):  # noqa: F811
    """With the capabilities of the unit, without CAP_CHECKPOINT_RESTORE."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root can start a program with chosen capabilities, by setpriv")
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        program, out = compiled(tmp_path, "scenes", SCENES), os.path.join(name, "out")
        os.mkdir(out)
        os.chown(out, 65534, 65534)
        shutil.copy(program, f"{out}/scenes")
        r = as_unit(unit_list("AmbientCapabilities"), "-o", f"{out}/out.folded", "-F", "199", "--no-kernel", "--", "/bin/sh", "-c", f"cd {out} && {out}/scenes 2 deleted")
        assert r.returncode == 0, r.stderr
        by_bpf(r)
        rows = folded(f"{out}/out.folded")
    gone = [(s, n) for s, n in rows if s[-1] == "[code of a file that cannot be read]"]
    assert sum(n for _, n in gone) >= 0.5 * sum(n for _, n in rows) > 0, rows[:5]
    assert any(s[0] == "[no row in a file that cannot be read]" for s, _ in gone), gone[:5]
