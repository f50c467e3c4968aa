/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks with a table, registers and a stack that are any bytes: each ends within UNWIND_MAX_FRAMES steps, and reads nothing
 * outside of the table (which the sanitizer sees: it is a block of its own) and the stack. By way of a cache of rows each
 * step is the same, whether the row was kept before or not.
 *
 * Input: the number of chunks, and of steps to skip in the file's addresses; registers; the stack; the rest is the table. The
 * head of the table is made sound if the first byte is odd, so that walks get further.
 */
#include "fuzz.h"

#include <string.h>
#include "base/base.h"
#include "unwind/unwind.h"

#define STACK_ADDRESS 0x7ffd00000000u
#define STACK_SIZE    1024u
#define CODE          0x400000u

struct walk_input {
	uint8_t stack[STACK_SIZE];
	unsigned n_reads;
};

static int read_stack(void *arg, uint64_t address, void *to, size_t size)
{
	struct walk_input *w = arg;

	w->n_reads++;
	FUZZ_CHECK(size == 8 || size == 16);
	if (address < STACK_ADDRESS || address - STACK_ADDRESS > STACK_SIZE - size)
		return -1;
	memcpy(to, w->stack + (address - STACK_ADDRESS), size);
	return 0;
}

/* Values near the stack or the code are more useful than others. */
static uint64_t useful_value(uint64_t v)
{
	switch (v >> 62) {
	case 0:
		return STACK_ADDRESS + (v & (STACK_SIZE - 1) & ~7u);
	case 1:
		return CODE + (v & 0x1ffff);
	case 2:
		return 0;
	default:
		return v;
	}
}

static void check_cached(const struct unwind_table *t, struct unwind_set *sets,
			 const struct unwind_memory *memory, const struct unwind_frame *before,
			 const struct unwind_frame *after, enum unwind_outcome how)
{
	for (int i = 0; i < 2; i++) {
		struct unwind_frame f = *before;

		FUZZ_CHECK(unwind_step_cached(t, sets, 1, memory, unwind_pc(&f), &f) == how);
		FUZZ_CHECK(memcmp(&f, after, sizeof(f)) == 0);
	}
}

static void check_find(const struct unwind_table *t, const struct unwind_memory *memory,
		       struct unwind_frame f)
{
	const struct walk_input *w = memory->arg;
	struct unwind_set *sets = mem_zalloc(UNWIND_SETS * sizeof(*sets));
	unsigned n;

	for (n = 0; n < UNWIND_MAX_FRAMES; n++) {
		struct unwind_frame before = f;
		unsigned n_reads = w->n_reads;
		enum unwind_outcome how = unwind_step(t, memory, unwind_pc(&f), &f);
		struct unwind_rule r;

		FUZZ_CHECK((unsigned)how < UNWIND_TOO_DEEP && w->n_reads - n_reads <= 4);
		check_cached(t, sets, memory, &before, &f, how);
		if (how >= UNWIND_END) {
			FUZZ_CHECK(f.pc == before.pc && f.sp == before.sp && f.bp == before.bp);
			break;
		}
		FUZZ_CHECK(f.pc);
		/* Up the stack, but in the cases that the header names. */
		if (f.sp <= before.sp && !(f.flags & UNWIND_EXACT) && how == UNWIND_CALLER) {
			FUZZ_CHECK(unwind_find(t, unwind_pc(&before), &r) == 0);
			FUZZ_CHECK(f.sp == before.sp && (r.save >> 2 & 3) == UNWIND_RA_REG &&
				   before.flags & UNWIND_EXACT);
		}
	}
	free(sets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walk_input w = { 0 };
	struct unwind_memory memory = { .read = read_stack, .arg = &w };
	struct unwind_table t = { 0 };
	struct unwind_frame f = { .flags = UNWIND_EXACT | UNWIND_TOP };
	struct unwind_rows it;
	struct unwind_rule r;
	union unwind_chunk *chunks;
	struct cursor c = cursor_of(bytes_of(data, size));
	uint8_t kind = cursor_u8(&c);
	uint64_t words[STACK_SIZE / 8];

	t.n_chunks = 1 + (kind >> 1) % 4;
	f.pc = CODE + cursor_u32(&c) % 0x20000;
	f.sp = STACK_ADDRESS + cursor_u8(&c) * 8u;
	f.bp = useful_value(cursor_u64(&c));
	for (unsigned i = 0; i < 16; i++)
		memory.registers[i] = useful_value((uint64_t)cursor_u8(&c) << 56 | cursor_u8(&c));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = useful_value((uint64_t)cursor_u8(&c) << 56 | cursor_u16(&c));
	memcpy(w.stack, words, sizeof(words));
	/* A block of the heap, so that a byte outside of it is found. */
	chunks = mem_zalloc(t.n_chunks * sizeof(*chunks));
	memcpy(chunks, c.p, MIN(cursor_left(&c), t.n_chunks * sizeof(*chunks)));
	t.chunks = chunks;
	if (kind & 1) {
		struct unwind_head *h = &chunks[0].head;

		h->base = UNWIND_LE64(CODE);
		h->span = UNWIND_LE64(0x20000);
		h->blocks = UNWIND_LE32(UNWIND_LE32(h->blocks) % (t.n_chunks * 512));
		h->n_rules = UNWIND_LE32(UNWIND_LE32(h->n_rules) % 600 + 1);
	}
	check_find(&t, &memory, f);
	for (uint64_t a = 0; a < 0x20000; a += 1021)
		(void)unwind_find(&t, CODE + a, &r);
	/* Without rows each page of 2 GiB is looked at: nearly all of the time of a run. */
	chunks[0].head.span = UNWIND_LE64(MIN(UNWIND_LE64(chunks[0].head.span), (uint64_t)MIB(1)));
	unwind_rows_start(&it, &t);
	for (unsigned i = 0; i < 500 && unwind_rows_next(&it); i++) {
		AUTO(buf_done) struct buf text = { 0 };

		unwind_rule_print(&it.rule, &text);
	}
	free(chunks);
	return 0;
}
