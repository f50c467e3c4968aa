/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program under ptrace and compares its stacks with the truth.
 *
 *	unwind_follow PROGRAM [ARG...]
 *
 * Between two breakpoint instructions (int3) of its own, the program runs in single steps. A shadow stack has the return
 * address of each call that was stepped over; at each instruction, the walk from the registers and the stack must find all
 * of them. One line of counts at the end; the first 20 differences go to standard error. Exit status 1: there are any.
 *
 *	unwind_follow --stack PID
 *
 * Prints the stack of each thread of a stopped process: "TID" and the addresses of the frames, then the outcome.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/base.h"
#include "unwind/unwind.h"

#define MAPPINGS 4096
#define FILES    256
#define CALLS    4096
#define STEPS    2000000u
#define COPY     KIB(32) /* of the stack, for each instruction */

struct file {
	char *path;
	struct source *src;
	struct elf_image *img;
	struct buf out;
	struct unwind_table table;
	bool has_table;
};
struct map_range {
	uint64_t start, end, off;
	struct file *file;
};
struct call {
	uint64_t at, ra; /* the stack pointer at the function's first instruction, which points to ra */
	bool by_kernel;  /* a signal handler */
};

struct process {
	pid_t pid;
	struct file files[FILES];
	size_t n_files;
	struct map_range mappings[MAPPINGS];
	size_t n_mappings;
	struct user_regs_struct regs;
	uint8_t copy[COPY];
	uint64_t copy_start, n_copy;
	struct call calls[CALLS];
	size_t n_calls;
	uint64_t n_steps, n_frames, n_different, n_unknown;
	unsigned deepest;
	struct unwind_set sets[UNWIND_SETS]; /* the way of BPF */
	bool signalled;                      /* the last step has entered a signal handler */
};

/* ---- memory ---- */

static int read_memory(void *arg, uint64_t address, void *to, size_t size)
{
	struct process *p = arg;
	struct iovec l = { to, size }, r = { (void *)(uintptr_t)address, size };

	if (address >= p->copy_start && address - p->copy_start <= p->n_copy &&
	    size <= p->n_copy - (address - p->copy_start)) {
		memcpy(to, p->copy + (address - p->copy_start), size);
		return 0;
	}
	return process_vm_readv(p->pid, &l, 1, &r, 1, 0) == (ssize_t)size ? 0 : -1;
}

static void copy_stack(struct process *p)
{
	p->copy_start = p->regs.rsp - 256;
	p->n_copy = 0;
	for (size_t n = sizeof(p->copy); n >= 4096; n /= 2) {
		struct iovec l = { p->copy, n }, r = { (void *)(uintptr_t)p->copy_start, n };
		ssize_t got = process_vm_readv(p->pid, &l, 1, &r, 1, 0);

		if (got > 0) {
			p->n_copy = (uint64_t)got;
			return;
		}
	}
}

/* ---- mappings ---- */

static void open_tables(struct process *p, struct file *f)
{
	struct unwind_stats stats;
	struct err err = { 0 };

	if (strcmp(f->path, "[vdso]") == 0) {
		struct map_range *m = &p->mappings[p->n_mappings - 1];
		size_t n = m->end - m->start;
		void *copy = mem_zalloc(n);

		read_memory(p, m->start, copy, n);
		f->src = source_of_heap(copy, n, "[vdso]");
	} else if (f->path[0] != '/' || source_open_file(f->path, &f->src, &err)) {
		return;
	}
	if (elf_open(f->src, &f->img, &err))
		return;
	f->has_table = unwind_build(f->img, NULL, &f->out, &stats, &err) == 0 &&
		       unwind_table_open(buf_bytes(&f->out), &f->table, &err) == 0;
}

static struct file *find_file(struct process *p, const char *path)
{
	struct file *f;

	for (size_t i = 0; i < p->n_files; i++)
		if (strcmp(p->files[i].path, path) == 0)
			return &p->files[i];
	if (p->n_files == FILES)
		return NULL;
	f = &p->files[p->n_files++];
	f->path = mem_strdup(path);
	open_tables(p, f);
	return f;
}

static void read_mappings(struct process *p)
{
	char path[64], line[4096 + 128];
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid);
	in = fopen(path, "r");
	p->n_mappings = 0;
	while (in && fgets(line, sizeof(line), in)) {
		char perms[5], name[4096] = "";
		struct map_range m = { 0 };

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %4095[^\n]", &m.start,
			   &m.end, perms, &m.off, name) < 4 ||
		    !strchr(perms, 'x') || p->n_mappings == MAPPINGS)
			continue;
		p->mappings[p->n_mappings++] = m;
		p->mappings[p->n_mappings - 1].file = name[0] ? find_file(p, name) : NULL;
	}
	if (in)
		fclose(in);
}

static const struct map_range *find_mapping(struct process *p, uint64_t pc)
{
	for (int i = 0; i < 2; i++) {
		for (size_t k = 0; k < p->n_mappings; k++)
			if (pc >= p->mappings[k].start && pc < p->mappings[k].end)
				return &p->mappings[k];
		if (i == 0)
			read_mappings(p);
	}
	return NULL;
}

/* The address in the file; false: no segment has it. */
static bool file_address(const struct map_range *m, uint64_t pc, uint64_t *ret)
{
	uint64_t off = m->off + (pc - m->start);

	for (uint32_t i = 0; i < m->file->img->n_segments; i++) {
		const struct elf_segment *s = &m->file->img->segments[i];

		if (s->type == 1 && off >= s->off && off - s->off < s->filesz) {
			*ret = s->vaddr + (off - s->off);
			return true;
		}
	}
	return false;
}

/* ---- walks ---- */

static void start_walk(struct process *p, struct unwind_memory *memory, struct unwind_frame *f)
{
	const struct user_regs_struct *r = &p->regs;

	*memory = (struct unwind_memory){ .read = read_memory,
					  .arg = p,
					  .registers = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
							 r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12,
							 r->r13, r->r14, r->r15 } };
	*f = (struct unwind_frame){
		.pc = r->rip, .sp = r->rsp, .bp = r->rbp, .flags = UNWIND_EXACT | UNWIND_TOP
	};
}

static enum unwind_outcome walk_step(struct process *p, struct unwind_memory *memory, struct unwind_frame *f)
{
	const struct map_range *m = find_mapping(p, unwind_pc(f));
	uint64_t addr;

	if (!m)
		return UNWIND_NO_MAPPING;
	if (!m->file || !m->file->has_table || !file_address(m, unwind_pc(f), &addr))
		return unwind_chain(memory, f);
	return unwind_step_cached(&m->file->table, p->sets, (uint32_t)(m->file - p->files) + 1, memory, addr,
				  f);
}

/* ---- single steps ---- */

static bool step_once(struct process *p)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, p->pid, NULL, NULL) < 0 || waitpid(p->pid, &status, 0) != p->pid ||
	    !WIFSTOPPED(status))
		return false;
	p->signalled = WSTOPSIG(status) != SIGTRAP;
	/* The next step enters the handler of a signal. */
	while (WSTOPSIG(status) != SIGTRAP) {
		if (ptrace(PTRACE_SINGLESTEP, p->pid, NULL, (void *)(uintptr_t)WSTOPSIG(status)) < 0 ||
		    waitpid(p->pid, &status, 0) != p->pid || !WIFSTOPPED(status))
			return false;
	}
	return ptrace(PTRACE_GETREGS, p->pid, NULL, &p->regs) == 0;
}

static bool is_syscall(struct process *p, uint64_t pc)
{
	uint8_t code[2] = { 0 };

	return read_memory(p, pc, code, 2) == 0 && code[0] == 0x0f && code[1] == 0x05;
}

/* After a step: calls that were returned from, or left by longjmp() or a throw; then a new call. */
static void follow_calls(struct process *p, const struct user_regs_struct *before)
{
	uint64_t top = 0, sp = p->regs.rsp;

	if (before->rax == SYS_rt_sigreturn && is_syscall(p, before->rip)) {
		while (p->n_calls && !p->calls[--p->n_calls].by_kernel)
			;
		return;
	}
	if (p->signalled && p->n_calls < CALLS && !read_memory(p, sp, &top, 8)) {
		p->calls[p->n_calls++] = (struct call){ sp, top, true };
		return;
	}
	/* On another stack nothing has been returned from. */
	if (sp - before->rsp < MIB(1) || before->rsp - sp < KIB(64))
		while (p->n_calls && p->calls[p->n_calls - 1].at < sp &&
		       sp - p->calls[p->n_calls - 1].at < MIB(1))
			p->n_calls--;
	if (sp != before->rsp - 8 || read_memory(p, sp, &top, 8) || top <= before->rip ||
	    top - before->rip > 7 || p->regs.rip == top || p->n_calls == CALLS)
		return;
	p->calls[p->n_calls++] = (struct call){ sp, top, false };
}

static void compare_stack(struct process *p)
{
	struct unwind_memory memory;
	struct unwind_frame f;
	enum unwind_outcome how = UNWIND_CALLER;
	size_t n = p->n_calls, depth = 0;
	bool chained = false;

	start_walk(p, &memory, &f);
	while (n && how < UNWIND_END && depth++ < UNWIND_MAX_FRAMES) {
		how = walk_step(p, &memory, &f);
		chained |= how == UNWIND_CALLER_CHAIN || how == UNWIND_END_CHAIN;
		/* A frame that was interrupted was not called. */
		if (how == UNWIND_CALLER && f.flags & UNWIND_EXACT)
			continue;
		if (how < UNWIND_END && f.pc == p->calls[n - 1].ra && f.sp == p->calls[n - 1].at + 8) {
			n--;
			p->n_frames++;
			continue;
		}
		break;
	}
	p->deepest = MAX(p->deepest, (unsigned)(p->n_calls - n));
	if (!n)
		return;
	/* Both are outcomes that say so. */
	if (how == UNWIND_BAD_RULE || chained) {
		p->n_unknown++;
		return;
	}
	if (p->n_different++ < 20)
		fprintf(stderr,
			"at %" PRIx64 ", frame %zu of %zu: %s, %" PRIx64 " sp %" PRIx64 ", truly %" PRIx64
			" sp %" PRIx64 "\n",
			(uint64_t)p->regs.rip, p->n_calls - n, p->n_calls, unwind_outcome_name(how), f.pc,
			f.sp, p->calls[n - 1].ra, p->calls[n - 1].at + 8);
}

static int follow_program(struct process *p, char **argv)
{
	int status;

	p->pid = fork();
	if (p->pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		_exit(127);
	}
	if (p->pid < 0 || waitpid(p->pid, &status, 0) != p->pid || !WIFSTOPPED(status))
		return 2;
	/* To its first breakpoint. */
	if (ptrace(PTRACE_CONT, p->pid, NULL, NULL) < 0 || waitpid(p->pid, &status, 0) != p->pid ||
	    !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP ||
	    ptrace(PTRACE_GETREGS, p->pid, NULL, &p->regs) < 0)
		return 2;
	read_mappings(p);
	while (p->n_steps < STEPS) {
		struct user_regs_struct before = p->regs;
		uint8_t code = 0;

		read_memory(p, before.rip, &code, 1);
		if (code == 0xcc)
			break;
		if (!step_once(p))
			return 2;
		p->n_steps++;
		copy_stack(p);
		follow_calls(p, &before);
		compare_stack(p);
	}
	kill(p->pid, SIGKILL);
	printf("steps %" PRIu64 " frames %" PRIu64 " deepest %u different %" PRIu64 " unsupported %" PRIu64
	       "\n",
	       p->n_steps, p->n_frames, p->deepest, p->n_different, p->n_unknown);
	return p->n_different != 0;
}

/* ---- a stopped process ---- */

static void print_stack(struct process *p, pid_t tid)
{
	struct unwind_memory memory;
	struct unwind_frame f;
	enum unwind_outcome how = UNWIND_CALLER;
	unsigned n = 0;
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 ||
	    waitpid(tid, &status, __WALL) != tid || ptrace(PTRACE_GETREGS, tid, NULL, &p->regs) < 0)
		return;
	printf("%d", tid);
	copy_stack(p);
	for (start_walk(p, &memory, &f); how < UNWIND_END && n < UNWIND_MAX_FRAMES; n++) {
		printf(" %" PRIx64, f.pc);
		how = walk_step(p, &memory, &f);
	}
	printf(" (%s)\n", unwind_outcome_name(how < UNWIND_END ? UNWIND_TOO_DEEP : how));
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
}

static int print_stacks(struct process *p, pid_t pid)
{
	char path[64];
	struct dirent *e;
	DIR *d;

	p->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	if (!d)
		return 2;
	read_mappings(p);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			print_stack(p, (pid_t)strtol(e->d_name, NULL, 10));
	closedir(d);
	return 0;
}

int main(int argc, char **argv)
{
	struct process *p = NEW(struct process);

	if (argc == 3 && strcmp(argv[1], "--stack") == 0)
		return print_stacks(p, (pid_t)strtol(argv[2], NULL, 10));
	if (argc < 2) {
		fputs("usage: unwind_follow PROGRAM [ARG...] | --stack PID\n", stderr);
		return 2;
	}
	return follow_program(p, argv + 1);
}
