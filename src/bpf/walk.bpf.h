/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The walk of a user stack, a part of sample.bpf.c: its state in `scratch`, an element a processor, and the step from a
 * frame to its caller.
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

/*
 * Make the compiler forget how @x came about, so that a comparison after it bounds the very register that is used: else it
 * compares one copy and uses another, of which the verifier knows no bound. 64 bits, since -mcpu=v2 has no others.
 */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/*
 * Registers, and a copy of the part of the stack that the walk has reached. Frames are near each other, and a read of a process
 * costs mostly the call: so one read serves several frames.
 */
#define WALK_WINDOW 512
struct walk_memory {
	uint64_t ip, regs[16];
	uint64_t window_at, window_size; /* size 0: none */
	uint8_t window[WALK_WINDOW];
};

/* Copy from @address on, to the end of its page at most: the window is readable if @address is. */
static __attribute__((noinline)) int fill_window(struct walk_memory *m, uint64_t address)
{
	uint64_t size = BPF_STACK_PAGE - (address & (BPF_STACK_PAGE - 1));

	if (size > WALK_WINDOW)
		size = WALK_WINDOW;
	OPAQUE(size);
	m->window_size = 0;
	if (size > WALK_WINDOW || bpf_probe_read_user(m->window, size, (const void *)address))
		return -1;
	m->window_at = address;
	m->window_size = size;
	return 0;
}

/* As UNWIND_READ(). */
static __attribute__((always_inline)) int read_words(struct walk_memory *m, uint64_t address, uint64_t *to,
						     uint64_t size)
{
	uint64_t off = address - m->window_at;

	OPAQUE(off);
	if (off > WALK_WINDOW - 16 || off + size > m->window_size) {
		/* Two words on two pages, or the last one of a page: read by themselves. */
		if (fill_window(m, address) || m->window_size < 16)
			return bpf_probe_read_user(to, size, (const void *)address);
		off = 0;
	}
	to[0] = *(const uint64_t *)(m->window + off);
	if (size == 16)
		to[1] = *(const uint64_t *)(m->window + off + 8);
	return 0;
}

#define UNWIND_TABLE                           const struct walk_table *
#define UNWIND_CHUNK(table, n)                 ((const union unwind_chunk *)table_chunk((table), (n)))
#define UNWIND_MEMORY                          struct walk_memory *
#define UNWIND_READ(memory, address, to, size) read_words((memory), (address), (to), (size))
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

/* ---- a walk ---- */

#define MAPPINGS_KEPT 256 /* a power of two */

struct scratch {
	struct walk_memory memory;
	struct unwind_frame frame;
	struct bpf_process process;
	struct bpf_mapping mapping; /* of the last frame */
	uint64_t n_user;
	uint64_t n_rows, n_row_misses;
	struct unwind_rule rule;                /* by find_row() */
	struct unwind_set sets[UNWIND_SETS];    /* rows of any process, by file; kept from sample to sample */
	struct bpf_mapping kept[MAPPINGS_KEPT]; /* of any process, kept from sample to sample */
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

/* Where the mapping of @pc is kept: by MiB, so that large mappings have several places. */
static __attribute__((always_inline)) struct bpf_mapping *kept_mapping(struct scratch *s, uint64_t pc)
{
	uint64_t key = (uint64_t)s->process.serial << 32 ^ pc >> 20;

	return &s->kept[key * 0x9e3779b97f4a7c15ull >> 56 & (MAPPINGS_KEPT - 1)];
}

/* Copy the mapping of @pc into the scratch @cpu. Returns 0, or -1: there is none. */
__attribute__((noinline)) int find_mapping(uint32_t cpu, uint64_t pc)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	uint32_t from, to, pool;
	struct bpf_mapping *m, *kept;
	void *inner;

	if (!s)
		return -1;
	kept = kept_mapping(s, pc);
	if (kept->serial == s->process.serial && pc >= kept->start && pc < kept->end) {
		s->mapping = *kept;
		return 0;
	}
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
	*kept = *m;
	kept->serial = s->process.serial;
	return 0;
}

/* bpf_frame.place of @frame: how far its stack pointer is from the sample's. */
static __attribute__((always_inline)) uint32_t place_of(const struct scratch *s,
							const struct unwind_frame *frame)
{
	uint64_t far = (frame->sp - s->memory.regs[7]) >> 3;

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
	bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_FORCE_WAKEUP);
}

/*
 * The row of @addr in the file of the last mapping, that the cache does not have in this period: scratch.rule of processor
 * @cpu. Returns 0, or 1 + how the walk ends.
 */
__attribute__((noinline)) int find_row(uint32_t cpu, uint64_t addr)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	uint32_t file, index, way;
	struct unwind_set *set;
	struct walk_table t;
	struct bpf_file *f;

	if (!s)
		return 1 + UNWIND_NO_PROCESS;
	file = s->mapping.file;
	index = file & 0xffff;
	f = bpf_map_lookup_elem(&files, &index);
	if (!f || f->file != file)
		return 1 + UNWIND_NO_TABLE;
	if (f->state != BPF_FILE_SET && f->state != BPF_FILE_NEVER) {
		note_wanted(f, s->sample.pid, s->sample.time_ns);
		return 1 + (f->state == BPF_FILE_EVICTED ? BPF_END_EVICTED : UNWIND_NO_TABLE);
	}
	if (f->used_ns != s->sample.time_ns)
		f->used_ns = s->sample.time_ns;
	set = &s->sets[unwind_set_of(file, addr)];
	way = unwind_set_find(set, file, addr);
	/* A row of an earlier period holds if nothing was set since. */
	if (way < UNWIND_WAYS && f->set_period < set->since[way]) {
		set->since[way] = BPF_ROW_PERIOD(s->sample.time_ns);
		s->rule = set->rule[way];
		return 0;
	}
	s->n_row_misses++;
	s->rule = (struct unwind_rule){ 0 }; /* as unwind_chain() */
	if (f->state == BPF_FILE_SET) {
		t.segment = f->segment;
		t.first = f->first;
		t.n_chunks = f->n_chunks;
		if (unwind_find(&t, addr, &s->rule))
			return 1 + UNWIND_BAD_RULE;
	}
	unwind_set_put(set, way, file, addr, BPF_ROW_PERIOD(s->sample.time_ns), &s->rule);
	return 0;
}

/* One frame of the walk of processor @cpu: record it, go to its caller. Returns 0, or 1 + how the walk ends. */
__attribute__((noinline)) int walk_step(uint32_t cpu)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	struct unwind_rule rule = { 0 }; /* as unwind_chain() */
	const struct unwind_set *set;
	struct unwind_frame frame;
	uint32_t file, way;
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
	file = s->mapping.file;
	pc -= s->mapping.bias;
	s->user[n].addr = pc;
	s->user[n].file = file;
	s->user[n].place = place_of(s, &frame);
	s->n_user = n + 1;
	if (file != BPF_NO_FILE) {
		s->n_rows++;
		set = &s->sets[unwind_set_of(file, pc)];
		way = unwind_set_find(set, file, pc);
		if (way < UNWIND_WAYS && set->since[way] == BPF_ROW_PERIOD(s->sample.time_ns)) {
			rule = set->rule[way];
		} else {
			how = find_row(cpu, pc);
			if (how)
				return how;
			rule = s->rule;
		}
	} else if (!(frame.flags & UNWIND_EXACT)) {
		uint64_t code = 0;

		bpf_probe_read_user(&code, sizeof(code), (const void *)frame.pc);
		rule = unwind_made_rule(code);
	}
	how = unwind_apply(&s->memory, &rule, &frame);
	if (how >= UNWIND_END)
		return 1 + how;
	s->frame = frame;
	return 0;
}
