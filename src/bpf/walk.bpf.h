/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The walk of a user stack, a part of sample.bpf.c: its state in `scratch`, an element a processor, and the step from a frame to
 * its caller.
 *
 * Shape, for the verifier: a step of the walk is a global function of numbers. It is verified once with unknown
 * arguments, so that the loop of 512 steps costs some instructions each, not 512 copies of the step with every path through
 * two binary searches.
 */
#pragma once

#include "bpf/maps.bpf.h"

/* ---- the table of a file, and the memory of a process, for the step ---- */

struct walk_table {
	uint32_t segment, first, n_chunks;
};

static __attribute__((always_inline)) const void *table_chunk(const struct walk_table *t, uint32_t n)
{
	uint32_t segment = t->segment, at = t->first + n;
	void *inner;

	if (n >= t->n_chunks)
		return NULL;
	inner = bpf_map_lookup_elem(&segments, &segment);
	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

struct walk_regs {
	uint64_t ip, regs[16];
};

#define UNWIND_TABLE                           const struct walk_table *
#define UNWIND_CHUNK(table, n)                 ((const union unwind_chunk *)table_chunk((table), (n)))
#define UNWIND_MEMORY                          const struct walk_regs *
#define UNWIND_READ(memory, address, to, size) bpf_probe_read_user((to), (size), (const void *)(address))
#define UNWIND_REGISTER(memory, n)             ((memory)->regs[(n)&15])
#define UNWIND_SEARCH(table, n, c, from, to, low) \
	search_rows((table)->segment, (table)->first + (n), (from), (to), (low))
int search_rows(uint32_t segment, uint32_t chunk, uint32_t from, uint32_t to, uint32_t low);
#include "unwind/step.h"

/* The search in a chunk's rows, verified by itself. Numbers only: kernels before 5.13 take no pointers here. */
__attribute__((noinline)) int search_rows(uint32_t segment, uint32_t chunk, uint32_t from, uint32_t to,
					  uint32_t low)
{
	const struct walk_table t = { segment, chunk, 1 };

	return unwind_search(table_chunk(&t, 0), from, to, low);
}

/*
 * Make the compiler forget how @x came about, so that a comparison after it bounds the very register that is used: else it
 * compares one copy and uses another, of which the verifier knows no bound. 64 bits, since -mcpu=v2 has no others.
 */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* ---- a walk ---- */

struct scratch {
	struct walk_regs regs;
	struct unwind_frame frame;
	struct bpf_process process;
	struct bpf_mapping mapping; /* of the last frame */
	uint64_t n_user;
	/* of the frames of Python */
	struct bpf_python python;
	uint64_t n_python, python_frame, python_cframe, python_new;
	uint8_t python_block[BPF_PYTHON_BLOCK];
	struct bpf_sample sample; /* the record, from here on */
	struct bpf_frame user[BPF_MAX_USER + 2 * BPF_MAX_PYTHON];
	uint8_t rest[BPF_REST(BPF_MAX_PAGES)]; /* the loader may make it smaller */
};

/* Sizes, not types: the loader sets them, to the number of processors and by the stack that is copied. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct scratch));
} scratches SEC(".maps");

/* Copy the mapping of @pc into the scratch @cpu. Returns 0, or -1: there is none. */
__attribute__((noinline)) int find_mapping(uint32_t cpu, uint64_t pc)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	uint32_t from, to, pool;
	struct bpf_mapping *m;
	void *inner;

	if (!s)
		return -1;
	pool = s->process.pool;
	from = s->process.first;
	to = from + s->process.n;
	inner = bpf_map_lookup_elem(&pools, &pool);
	if (!inner)
		return -1;
	/* The first mapping that ends after @pc. */
	for (int i = 0; i < BPF_MAPPING_STEPS; i++) {
		uint32_t middle = from + ((to - from) >> 1);

		if (from >= to)
			break;
		m = bpf_map_lookup_elem(inner, &middle);
		if (!m)
			return -1;
		if (m->end <= pc)
			from = middle + 1;
		else
			to = middle;
	}
	if (from >= s->process.first + s->process.n)
		return -1;
	m = bpf_map_lookup_elem(inner, &from);
	if (!m || pc < m->start || pc >= m->end)
		return -1;
	s->mapping = *m;
	return 0;
}

/* bpf_frame.place of @frame: how far its stack pointer is from the sample's. */
static __attribute__((always_inline)) uint32_t place_of(const struct scratch *s,
							const struct unwind_frame *frame)
{
	uint64_t far = (frame->sp - s->regs.regs[7]) >> 3;

	if (far > BPF_PLACE_FAR)
		far = BPF_PLACE_FAR;
	return (uint32_t)far << 1 | (frame->flags & UNWIND_EXACT);
}

static __attribute__((always_inline)) void note_wanted(struct bpf_file *f, uint32_t pid, uint64_t now)
{
	struct bpf_event e = { .record = BPF_RECORD_WANTED, .pid = pid, .file = f->file, .time_ns = now };

	if (now - f->wanted_ns < SECOND_NS)
		return;
	f->wanted_ns = now;
	bpf_ringbuf_output(&events, &e, sizeof(e), 0);
}

/* One frame of the walk of processor @cpu: record it, go to its caller. Returns 0, or 1 + how the walk ends. */
__attribute__((noinline)) int walk_step(uint32_t cpu)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	struct unwind_frame frame;
	struct walk_table t;
	struct bpf_file *f;
	uint32_t index;
	uint64_t pc, n;
	int how;

	if (!s)
		return 1 + UNWIND_NO_PROCESS;
	n = s->n_user;
	OPAQUE(n);
	if (n >= BPF_MAX_USER)
		return 1 + UNWIND_TOO_DEEP;
	frame = s->frame;
	pc = unwind_pc(&frame);
	if ((pc < s->mapping.start || pc >= s->mapping.end) && find_mapping(cpu, pc)) {
		s->user[n].addr = pc;
		s->user[n].file = BPF_NO_FILE;
		s->user[n].place = place_of(s, &frame);
		s->n_user = n + 1;
		return 1 + UNWIND_NO_MAPPING;
	}
	index = s->mapping.file;
	pc -= s->mapping.bias;
	s->user[n].addr = pc;
	s->user[n].file = index;
	s->user[n].place = place_of(s, &frame);
	s->n_user = n + 1;
	if (index == BPF_NO_FILE) {
		how = unwind_chain(&s->regs, &frame);
		goto out;
	}
	index &= 0xffff;
	f = bpf_map_lookup_elem(&files, &index);
	if (!f || f->file != s->mapping.file)
		return 1 + UNWIND_NO_TABLE;
	if (f->state != BPF_FILE_SET && f->state != BPF_FILE_NEVER) {
		note_wanted(f, s->sample.pid, s->sample.time_ns);
		return 1 + (f->state == BPF_FILE_EVICTED ? BPF_END_EVICTED : UNWIND_NO_TABLE);
	}
	if (f->used_ns != s->sample.time_ns)
		f->used_ns = s->sample.time_ns;
	if (f->state == BPF_FILE_NEVER) {
		how = unwind_chain(&s->regs, &frame);
		goto out;
	}
	t.segment = f->segment;
	t.first = f->first;
	t.n_chunks = f->n_chunks;
	how = unwind_step(&t, &s->regs, pc, &frame);
out:
	if (how >= UNWIND_END)
		return 1 + how;
	s->frame = frame;
	return 0;
}
