/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk in user space: over a sample's registers and copied stack, with the step that BPF has. For samples that had to
 * wait, and for all samples of perf events.
 */
#include "agent/sampler_ops.h"
#include "unwind/unwind.h"

/* An address so far after the copy is no stack that was cut. */
#define STACK_FAR MIB(8)
#define RED_ZONE  128 /* bytes below the stack pointer that an interrupt leaves alone */

enum sampler_end sampler_end_of(unsigned outcome)
{
	switch (outcome) {
	case UNWIND_END:
		return SAMPLER_COMPLETE;
	case UNWIND_END_CHAIN:
		return SAMPLER_FRAME_END;
	case UNWIND_NO_ROW:
		return SAMPLER_NO_ROW;
	case UNWIND_BAD_RULE:
		return SAMPLER_BAD_RULE;
	case UNWIND_UNREADABLE:
		return SAMPLER_UNREADABLE;
	case UNWIND_LOOP:
		return SAMPLER_LOOP;
	case UNWIND_TOO_DEEP:
		return SAMPLER_TOO_DEEP;
	case UNWIND_NO_MAPPING:
		return SAMPLER_NO_MAPPING;
	case UNWIND_NO_TABLE:
		return SAMPLER_NO_TABLE;
	case UNWIND_NO_PROCESS:
		return SAMPLER_NO_PROCESS;
	default:
		return SAMPLER_BAD_RULE;
	}
}

struct copied_stack {
	uint64_t start, bp;
	struct bytes bytes;
	bool cut; /* the last read was after the end of the copy */
};

static int read_copied(void *arg, uint64_t address, void *to, size_t size)
{
	struct copied_stack *c = arg;
	uint64_t off = address - c->start;

	c->cut = false;
	/*
	 * The copy starts at the stack pointer. Between `pop rbp` and `ret`, gcc's rows still have rbp where it was popped
	 * from, below: it has the value that rbp has now. Nothing else is looked up there.
	 */
	if (address < c->start && c->start - address <= RED_ZONE && size >= 8) {
		memcpy(to, &c->bp, 8);
		return size == 8 ? 0 : read_copied(arg, address + 8, (uint8_t *)to + 8, size - 8);
	}
	if (address >= c->start && off <= c->bytes.size && size <= c->bytes.size - off) {
		memcpy(to, c->bytes.p + off, size);
		return 0;
	}
	c->cut = address >= c->start && off < c->bytes.size + STACK_FAR;
	return -1;
}

/* The mapping of @pc; NULL: none. */
static const struct sampler_mapping *walk_mapping(const struct sampler_process *p, uint64_t pc)
{
	size_t from = 0, to = p->n_mappings;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (p->mappings[middle].end <= pc)
			from = middle + 1;
		else
			to = middle;
	}
	return from < p->n_mappings && p->mappings[from].start <= pc ? &p->mappings[from] : NULL;
}

/* One step in @file. */
static unsigned step_in_file(struct sampler *s, uint32_t file, const struct unwind_memory *memory,
			     uint64_t addr, struct unwind_frame *f)
{
	struct sampler_file *entry = sampler_file_get(s, file);
	struct unwind_table table;

	if (!entry || entry->state == SAMPLER_TABLE_NONE || entry->state == SAMPLER_TABLE_EVICTED)
		return UNWIND_NO_TABLE;
	entry->last_use_ns = clock_mono_ns();
	if (entry->state == SAMPLER_TABLE_NEVER)
		return unwind_chain(memory, f);
	table = (struct unwind_table){
		.chunks = (const union unwind_chunk *)(const void *)entry->table->bytes.p,
		.n_chunks = (uint32_t)(entry->table->bytes.size / UNWIND_CHUNK_SIZE)
	};
	return unwind_step(&table, memory, addr, f);
}

static enum sampler_end why_no_table(const struct sampler *s, uint32_t file)
{
	const struct sampler_file *f = sampler_file_get(s, file);

	return f && f->state == SAMPLER_TABLE_EVICTED ? SAMPLER_EVICTED : SAMPLER_NO_TABLE;
}

enum sampler_end sampler_walk(struct sampler *s, const struct sampler_process *p,
			      const struct sampler_raw *raw, struct sampler_walk *ret)
{
	struct copied_stack stack = { raw->regs[UNWIND_RSP], raw->regs[UNWIND_RBP], raw->stack, false };
	struct unwind_memory memory = { .read = read_copied, .arg = &stack };
	struct unwind_frame f = { .pc = raw->ip,
				  .sp = raw->regs[UNWIND_RSP],
				  .bp = raw->regs[UNWIND_RBP],
				  .flags = UNWIND_EXACT | UNWIND_TOP };
	const struct sampler_mapping *m = NULL;
	unsigned how = UNWIND_CALLER;

	memcpy(memory.registers, raw->regs, sizeof(memory.registers));
	ret->n = 0;
	ret->missing = raw->ip;
	ret->file = SAMPLER_NO_FILE;
	if (!p)
		return SAMPLER_NO_PROCESS;
	while (how < UNWIND_END) {
		uint64_t pc = unwind_pc(&f);
		struct sampler_frame *to = &ret->frames[ret->n];

		if (ret->n == SAMPLER_MAX_USER)
			return SAMPLER_TOO_DEEP;
		ret->n++;
		*to = (struct sampler_frame){ pc, SAMPLER_NO_FILE, f.flags & UNWIND_EXACT,
					      (uint32_t)MIN((f.sp - raw->regs[UNWIND_RSP]) >> 3,
							    (uint64_t)SAMPLER_FAR) };
		if (!m || pc < m->start || pc >= m->end)
			m = walk_mapping(p, pc);
		ret->missing = pc;
		if (!m)
			return SAMPLER_NO_MAPPING;
		to->addr = pc - m->bias;
		to->file = ret->file = m->file;
		stack.cut = false;
		how = m->file == SAMPLER_NO_FILE ? unwind_chain(&memory, &f)
						 : step_in_file(s, m->file, &memory, to->addr, &f);
	}
	if (how == UNWIND_NO_TABLE)
		return why_no_table(s, m->file);
	if ((how == UNWIND_UNREADABLE || how == UNWIND_NO_ROW) && stack.cut)
		return SAMPLER_TRUNCATED;
	return sampler_end_of(how);
}
