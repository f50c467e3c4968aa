/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwfl_attach_state() with callbacks that give the registers and the stack of the sample, and nothing else: neither program
 * stops for the other, and both see the same bytes. Modules are those of the process as it is now.
 */
#include "oracle.h"

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The frames of libdw: at most as many as the sampler has. */
struct oracle_walk {
	const struct sampler_raw *raw;
	uint64_t pc[SAMPLER_MAX_USER + 1]; /* as sampler_frame.addr before the mapping: exact, or minus 1 */
	size_t n;
	bool wants_below; /* a word below the stack pointer, which the copy does not have */
};

struct oracle_process {
	uint32_t pid;
	uint64_t start_ticks;
	Dwfl *dwfl;
	struct oracle_walk *walk; /* of the sample in hand */
	bool attached;
};

struct oracle {
	struct oracle_process *processes;
	size_t n, room;
};

static char *debuginfo_path;
static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &debuginfo_path,
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct oracle_process *p = arg;

	if (*thread_arg)
		return 0;
	*thread_arg = p;
	return (pid_t)p->pid;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result, void *arg)
{
	struct oracle_process *p = arg;
	const struct sampler_raw *raw = p->walk->raw;
	uint64_t off = addr - raw->regs[7];

	p->walk->wants_below |= addr < raw->regs[7];
	if (addr < raw->regs[7] || off > raw->stack.size || raw->stack.size - off < sizeof(*result))
		return false;
	memcpy(result, raw->stack.p + off, sizeof(*result));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct oracle_process *p = arg;
	Dwarf_Word regs[17];

	for (int i = 0; i < 16; i++)
		regs[i] = p->walk->raw->regs[i];
	regs[16] = p->walk->raw->ip;
	return dwfl_thread_state_registers(thread, 0, 17, regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static int note_frame(Dwfl_Frame *frame, void *arg)
{
	struct oracle_walk *w = arg;
	bool exact;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	w->pc[w->n++] = exact ? pc : pc - 1;
	return w->n == ARRAY_SIZE(w->pc) ? DWARF_CB_ABORT : DWARF_CB_OK;
}

struct oracle *oracle_new(void)
{
	return NEW(struct oracle);
}

void oracle_free(struct oracle *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->n; i++)
		dwfl_end(o->processes[i].dwfl);
	free(o->processes);
	free(o);
}

static bool oracle_open(struct oracle_process *p)
{
	p->dwfl = dwfl_begin(&callbacks);
	if (!p->dwfl)
		return false;
	dwfl_report_begin(p->dwfl);
	return dwfl_linux_proc_report(p->dwfl, (pid_t)p->pid) == 0 &&
	       dwfl_report_end(p->dwfl, NULL, NULL) == 0;
}

/* The mapping of @pid with @pc: *ret_off is the offset of @pc in its file. */
static bool offset_in_file(uint32_t pid, uint64_t pc, uint64_t *ret_off)
{
	char path[64], line[8192];
	bool found = false;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof(line), in)) {
		unsigned long long start, end, off;

		found = sscanf(line, "%llx-%llx %*s %llx", &start, &end, &off) == 3 && pc >= start &&
			pc < end;
		if (found)
			*ret_off = pc - start + off;
	}
	if (in)
		fclose(in);
	return found;
}

/*
 * V8 maps the code of its built-in functions a second time, near the code that it makes: libdw has one bias for a file, and
 * so a wrong address for the second mapping, in a stack that is the same. By the offset in the file it is @addr.
 */
static bool is_mapped_twice(uint32_t pid, Dwfl_Module *m, uint64_t pc, uint64_t addr)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(m, &bias);
	uint64_t off;
	size_t n;

	if (!elf || elf_getphdrnum(elf, &n) || !offset_in_file(pid, pc, &off))
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;

		if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_LOAD && off >= p.p_offset &&
		    off - p.p_offset < p.p_filesz && off - p.p_offset + p.p_vaddr == addr)
			return true;
	}
	return false;
}

/*
 * Compare addresses in the process: that of a frame in a file is its address in libdw's module, whose bias libdw knows.
 * Modules are matched by the mapping that contains libdw's address.
 */
static bool same_frames(Dwfl *dwfl, const struct oracle_walk *w, const struct sampler_sample *s)
{
	size_t n = MIN(w->n, s->n_user);

	for (size_t i = 0; i < n; i++) {
		Dwfl_Module *m = dwfl_addrmodule(dwfl, w->pc[i]);
		GElf_Addr bias = 0;

		if (s->user[i].file != SAMPLER_NO_FILE && (!m || !dwfl_module_getelf(m, &bias)))
			return false;
		if (s->user[i].file == SAMPLER_NO_FILE)
			bias = 0;
		if (w->pc[i] - bias != s->user[i].addr &&
		    !(m && is_mapped_twice(s->pid, m, w->pc[i], s->user[i].addr)))
			return false;
	}
	/* libdw ends where the copy of the stack does; the sampler in the kernel does not. */
	return w->n == s->n_user ||
	       (w->n < s->n_user && (w->wants_below || s->raw->stack.size >= SAMPLER_MAX_STACK - 8192));
}

enum oracle_verdict oracle_compare(struct oracle *o, const struct sampler_sample *s)
{
	struct oracle_walk w = { .raw = s->raw };
	struct oracle_process p = { .pid = s->pid, .walk = &w };
	enum oracle_verdict verdict = ORACLE_NOTHING;

	/* A new one each time: libdw attaches once. */
	if (oracle_open(&p) && dwfl_attach_state(p.dwfl, NULL, (pid_t)p.pid, &thread_callbacks, &p)) {
		dwfl_getthread_frames(p.dwfl, (pid_t)p.pid, note_frame, &w);
		if (w.n)
			verdict = same_frames(p.dwfl, &w, s) ? ORACLE_SAME : ORACLE_DIFFERENT;
		/*
		 * After `pop %rbp`, clang's rows still have rbp where it was saved, below the stack pointer: libdw does not
		 * get it and ends early.
		 */
		if (verdict == ORACLE_SAME && w.n < s->n_user && w.wants_below)
			verdict = ORACLE_NOTHING;
	}
	dwfl_end(p.dwfl);
	return verdict;
}
