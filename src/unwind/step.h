/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * The layout of an unwind table, its look-up, and the step from a frame to its caller: one text for user space and for
 * BPF (clang -target bpf, -mcpu=v2), so that tests and fuzzing run the code that the kernel runs.
 * docs/formats/unwind.md describes the bytes.
 *
 * Primitives. A BPF program defines these before it includes this file; in user space they are functions on struct
 * unwind_table and struct unwind_memory, see the end.
 *
 *	UNWIND_TABLE             the type of a file's table; in BPF the pointer to the inner array of its chunks
 *	UNWIND_CHUNK(table, n)   const union unwind_chunk *: chunk @n, aligned to 8 bytes; NULL: there is none
 *	UNWIND_MEMORY            the type of the process's memory and registers
 *	UNWIND_READ(memory, address, to, size)
 *	                         read @size (8 or 16) bytes of the process at @address; 0, or not 0 if it cannot be read
 *	UNWIND_REGISTER(memory, n)
 *	                         register @n of DWARF's x86-64 numbers (0 to 15) of the top frame
 *	UNWIND_SEARCH(table, n, c, from, to, low)
 *	                         unwind_search(c, ...), the only loop, in chunk @n at @c. BPF passes the numbers to a global
 *	                         function, so that the verifier checks the search once; a pointer would need Linux 5.13
 *
 * A walk:
 *
 *	struct unwind_frame f = { .pc = ip, .sp = sp, .bp = bp, .flags = UNWIND_EXACT | UNWIND_TOP };
 *	for (n = 0; n < UNWIND_MAX_FRAMES; n++) {
 *		uint64_t pc = unwind_pc(&f);                 // of the frame: look up the mapping with it, record it
 *		... the mapping's file and @addr, the address in the file (its ELF address, not the offset)
 *		how = unwind_step(table, memory, addr, &f);  // or unwind_chain(memory, &f): no file, no table
 *		if (how >= UNWIND_END)
 *			break;
 *	}
 *
 * The rule "pc - 1" is unwind_pc()'s: a return address may belong to the next function or mapping, so the address before
 * it stands for the call. Mapping, table and record all take unwind_pc(), never f.pc.
 *
 * A step takes a fixed number of instructions, and reads at most 4 chunks, 1 more if the file has over 492 rules, 13 slots
 * of a chunk, and 3 words of the process. No table or stack, however hostile, makes it read outside of the chunks that it
 * was given. Each step moves the stack pointer up, but that over a signal frame or from one of Go's stacks to another; the
 * caller's count of frames ends a walk through those that refer to each other. There is no division.
 */
#pragma once

#include "unwind/types.h"

#ifdef __bpf__
#define UNWIND_FN static inline __attribute__((always_inline))
#else
#include <stddef.h>
#include <string.h>
#define UNWIND_FN static inline
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define UNWIND_LE16(x) ((uint16_t)(x))
#define UNWIND_LE32(x) ((uint32_t)(x))
#define UNWIND_LE64(x) ((uint64_t)(x))
#else
#define UNWIND_LE16(x) __builtin_bswap16(x)
#define UNWIND_LE32(x) __builtin_bswap32(x)
#define UNWIND_LE64(x) __builtin_bswap64(x)
#endif

/* ---- the table ---- */

#define UNWIND_MAGIC       "LoUT"
#define UNWIND_VERSION     1
#define UNWIND_CHUNK_SIZE  4096u /* bytes; a table is a whole number of chunks */
#define UNWIND_CHUNK_SLOTS 2048u
#define UNWIND_BLOCK_SHIFT 16   /* a block is 64 KiB of code */
#define UNWIND_PAGE_SHIFT  8    /* a page is 256 bytes of code; 256 of them are a block */
#define UNWIND_ESCAPE      255u /* a rule number that takes three slots */
#define UNWIND_MAX_RULES   65025u
#define UNWIND_MAX_SPAN    0x80000000ull /* bytes of code of a file, gaps included */
#define UNWIND_MAX_FRAMES  512u
#define UNWIND_ID_MAX      84

/* How a rule computes the CFA, the value of the stack pointer in the caller. */
enum unwind_cfa {
	UNWIND_CFA_NONE,  /* no rule: the address has no row. Rule 0 is of this kind */
	UNWIND_CFA_REG,   /* register + off */
	UNWIND_CFA_DEREF, /* *(register + bits 0 to 15 of off) + bits 16 to 23, both signed */
	UNWIND_CFA_PLT,   /* rsp + 8, + 16 from byte `off` of each 16 on: a lazy procedure linkage table */
	UNWIND_CFA_SIGNAL, /* the kernel's signal frame: registers are saved at rsp + off, in the order of gregs */
	UNWIND_CFA_CHAIN, /* by rbp as a frame pointer, which may be of another stack */
	UNWIND_CFA_BAD,   /* there is a rule, but one that is not supported */
	UNWIND_CFA_CLONE, /* rsp + 8, after the kernel's call for a new thread, which has no caller (rax is 0) */
};
/* The caller's rbp. */
enum unwind_rbp {
	UNWIND_RBP_SAME,
	UNWIND_RBP_CFA,  /* at CFA + aux */
	UNWIND_RBP_RBP,  /* at rbp + aux */
	UNWIND_RBP_LOST, /* not known */
};
/* The return address. */
enum unwind_ra {
	UNWIND_RA_CFA, /* at CFA - 8 */
	UNWIND_RA_END, /* none: this frame is the outermost */
	UNWIND_RA_REG, /* in register `aux`, in the top frame */
	UNWIND_RA_AT,  /* at CFA + aux */
};

/* The caller's rbx: UNWIND_RBX_LOST, or at CFA - 8 * n, 0: the same. Only few functions have their CFA by it. */
#define UNWIND_RBX_LOST 255u

struct unwind_rule {
	uint8_t cfa;  /* enum unwind_cfa | register << 4 */
	uint8_t save; /* enum unwind_rbp | enum unwind_ra << 2 | UNWIND_INTERRUPT */
	int16_t aux;
	uint32_t off; /* bits 0 to 23: of the CFA, signed; 24 to 31: rbx */
};
/* The caller was interrupted: its pc is no return address. */
#define UNWIND_INTERRUPT 0x10

/* A block of code: of the first level of the index. */
struct unwind_block {
	uint32_t rows; /* the number of the block's first slot, counted from the start of the table */
	uint16_t
		pages; /* where its 256 page entries are, in units of 512 bytes; 0: no row starts in this block */
	uint16_t n; /* slots from `rows` to the end of the last page */
};

struct unwind_head {
	uint8_t magic[4]; /* UNWIND_MAGIC */
	uint8_t version;
	uint8_t id_size;
	uint16_t machine; /* EM_X86_64 */
	uint32_t n_chunks, n_rules;
	uint64_t base;   /* the address of the first block, a multiple of 64 KiB */
	uint64_t span;   /* no address from base + span on has a row */
	uint32_t blocks; /* where struct unwind_block of the first one is, in units of 8 bytes */
	uint32_t n_blocks;
	uint32_t n_rows;     /* that start somewhere: without the copies at the start of chunks */
	uint32_t flags;      /* enum unwind_flags in unwind.h */
	uint64_t hash;       /* hash64() of all chunks, with 0 in place of this */
	uint32_t more_rules; /* where rule UNWIND_FIRST_RULES is, in units of 8 bytes */
	uint32_t reserved[3];
	uint8_t id[UNWIND_ID_MAX]; /* the file's build ID */
	uint32_t unused;
};
/* The first rules come right after the head, in the first chunk. In units of 8 bytes. */
#define UNWIND_RULES       20u
#define UNWIND_FIRST_RULES (UNWIND_CHUNK_SIZE / 8 - UNWIND_RULES)
_Static_assert(sizeof(struct unwind_head) == UNWIND_RULES * 8, "rules follow the head");

union unwind_chunk {
	struct unwind_head head; /* of chunk 0 */
	/*
	 * Rows and page entries. A row: bits 0 to 7 are bits 0 to 7 of its first address, bits 8 to 15 the number of its rule.
	 * A rule number n from 255 on takes three slots with the same bits 0 to 7, with 255, n / 255 and n % 255. The
	 * last slot of a chunk with rows is not a row but the number of slots before it that are used.
	 */
	uint16_t slot[UNWIND_CHUNK_SLOTS];
	struct unwind_block block[UNWIND_CHUNK_SIZE / 8];
	struct unwind_rule rule[UNWIND_CHUNK_SIZE / 8];
};

/* ---- outcomes ---- */

enum unwind_outcome {
	UNWIND_CALLER, /* the frame is now that of the caller */
	UNWIND_CALLER_CHAIN, /* the same, by rbp as a frame pointer, since there is no row: callers may be missing */
	/* The walk is complete. */
	UNWIND_END,       /* the outermost frame, as the file or a return address of 0 says */
	UNWIND_END_CHAIN, /* rbp is 0, and there is no row: the end of a chain of frame pointers */
	/* It is cut, since ... */
	UNWIND_NO_ROW,   /* ... the file has no row for the address, and rbp is no frame pointer */
	UNWIND_BAD_RULE, /* ... the row's rule is not supported, or needs a register that is not known here */
	UNWIND_UNREADABLE, /* ... the stack cannot be read where the rule says */
	UNWIND_LOOP,       /* ... the stack pointer would not go up */
	/* These are for callers; no function of this file returns them. */
	UNWIND_TOO_DEEP,   /* ... there are over UNWIND_MAX_FRAMES frames */
	UNWIND_NO_MAPPING, /* ... the address is in no mapping that is known */
	UNWIND_NO_TABLE,   /* ... the file of the mapping has no table (yet), and rbp is no frame pointer */
	UNWIND_NO_PROCESS, /* ... the process is not known (yet) */
	UNWIND_N_OUTCOMES
};

/* ---- a frame ---- */

enum {
	UNWIND_EXACT = 1 << 0, /* pc is where the frame was interrupted, not a return address */
	UNWIND_TOP = 1 << 1,   /* the frame's registers are those of UNWIND_REGISTER() */
	UNWIND_RBX = 1 << 2,   /* its rbx is */
};
struct unwind_frame {
	uint64_t pc, sp, bp;
	uint64_t saved;  /* the address of the registers that a signal has saved of this frame; 0: none */
	uint64_t rbx_at; /* the address where a callee has saved rbx; 0: none has */
	uint64_t flags;
};

/* The address that stands for the frame; see above. */
UNWIND_FN uint64_t unwind_pc(const struct unwind_frame *f)
{
	return f->flags & UNWIND_EXACT ? f->pc : f->pc - 1;
}

#ifndef __bpf__
/* A table in memory: @n_chunks whole chunks, aligned to 8 bytes. unwind_table_open() makes and checks one. */
struct unwind_table {
	const union unwind_chunk *chunks;
	uint32_t n_chunks;
};
struct unwind_memory {
	/* As UNWIND_READ(). */
	int (*read)(void *arg, uint64_t address, void *to, size_t size);
	void *arg;
	uint64_t registers[16]; /* of the top frame, by DWARF's numbers */
};
#define UNWIND_TABLE const struct unwind_table *
#define UNWIND_CHUNK(table, n) \
	((n) < (table)->n_chunks ? &(table)->chunks[n] : (const union unwind_chunk *)NULL)
#define UNWIND_MEMORY                          const struct unwind_memory *
#define UNWIND_READ(memory, address, to, size) ((memory)->read((memory)->arg, (address), (to), (size)))
#define UNWIND_REGISTER(memory, n)             ((memory)->registers[(n)&15])
#endif

#ifndef UNWIND_SEARCH
#define UNWIND_SEARCH(table, n, c, from, to, low) unwind_search((c), (from), (to), (low))
#endif

/* The rule number of the row whose last slot is @at. */
UNWIND_FN uint32_t unwind_slot_rule(const union unwind_chunk *c, uint32_t at)
{
	uint32_t n = UNWIND_LE16(c->slot[at & (UNWIND_CHUNK_SLOTS - 1)]) >> 8;

	if (at >= 2 && UNWIND_LE16(c->slot[(at - 2) & (UNWIND_CHUNK_SLOTS - 1)]) >> 8 == UNWIND_ESCAPE)
		n += UNWIND_ESCAPE * (UNWIND_LE16(c->slot[(at - 1) & (UNWIND_CHUNK_SLOTS - 1)]) >> 8);
	return n;
}

/*
 * The rule number of an address whose bits 0 to 7 are @low: that of the last row from slot @from up to @to that starts at or
 * before it; slot @from holds for the start of the page, whichever bits it has.
 */
UNWIND_FN int unwind_search(const union unwind_chunk *c, uint32_t from, uint32_t to, uint32_t low)
{
	uint32_t end;

	if (!c)
		return -1;
	end = UNWIND_LE16(c->slot[UNWIND_CHUNK_SLOTS - 1]);
	if (to > end)
		to = end;
	/* The row is in [from, to). A page has at most 256 rows of 3 slots. */
	for (int i = 0; i < 10; i++) {
		uint32_t middle = (from + to) >> 1;

		if (from + 1 >= to)
			break;
		if ((UNWIND_LE16(c->slot[middle & (UNWIND_CHUNK_SLOTS - 1)]) & 0xff) <= low)
			from = middle;
		else
			to = middle;
	}
	return (int)unwind_slot_rule(c, from & (UNWIND_CHUNK_SLOTS - 1));
}

/*
 * The rule of address @addr of the file, in *ret, which is of kind UNWIND_CFA_NONE if there is none. -1: the table is
 * damaged.
 */
UNWIND_FN int unwind_find(UNWIND_TABLE table, uint64_t addr, struct unwind_rule *ret)
{
	const union unwind_chunk *first = UNWIND_CHUNK(table, 0), *c;
	uint32_t off, at, page, rows, from = 0, to = 0;
	struct unwind_block b;
	int n;

	*ret = (struct unwind_rule){ 0 };
	if (!first)
		return -1;
	addr -= UNWIND_LE64(first->head.base);
	if (addr >= UNWIND_LE64(first->head.span) || addr >= UNWIND_MAX_SPAN)
		return 0;
	off = (uint32_t)addr;
	at = UNWIND_LE32(first->head.blocks) + (off >> UNWIND_BLOCK_SHIFT);
	c = UNWIND_CHUNK(table, at >> 9);
	if (!c)
		return -1;
	b = c->block[at & 511];
	if (b.pages) {
		at = UNWIND_LE16(b.pages);
		c = UNWIND_CHUNK(table, at >> 3);
		if (!c)
			return -1;
		page = (off >> UNWIND_PAGE_SHIFT) & 255;
		at = ((at & 7) << 8) + page;
		from = UNWIND_LE16(c->slot[at & (UNWIND_CHUNK_SLOTS - 1)]);
		to = page == 255 ? UNWIND_LE16(b.n)
				 : UNWIND_LE16(c->slot[(at + 1) & (UNWIND_CHUNK_SLOTS - 1)]);
	}
	/* The row before the page's first one, in the same chunk as these: it holds at the start of the page. */
	rows = UNWIND_LE32(b.rows) + from - 1;
	c = UNWIND_CHUNK(table, rows >> 11);
	if (!c)
		return -1;
	at = rows & (UNWIND_CHUNK_SLOTS - 1);
	n = UNWIND_SEARCH(table, rows >> 11, c, at, at + 1 + (to > from ? to - from : 0), off & 255);
	if (n < 0 || (uint32_t)n >= UNWIND_LE32(first->head.n_rules))
		return -1;
	at = UNWIND_RULES + (uint32_t)n;
	if ((uint32_t)n >= UNWIND_FIRST_RULES) {
		at = UNWIND_LE32(first->head.more_rules) + (uint32_t)n - UNWIND_FIRST_RULES;
		first = UNWIND_CHUNK(table, at >> 9);
		if (!first)
			return -1;
	}
	*ret = first->rule[at & 511];
	ret->aux = (int16_t)UNWIND_LE16(ret->aux);
	ret->off = UNWIND_LE32(ret->off);
	return 0;
}

/* ---- a cache of rows ---- */

/*
 * A set of a cache of rows: the rules of UNWIND_WAYS addresses that were looked up before. It is 64 bytes in one place, where a
 * look-up in a table reads five places that are far from each other. Zeros are an empty set.
 *
 * @since is a number that the caller gives, and compares: rows do not change, but the table of a file may be replaced.
 */
#define UNWIND_SET_BITS 9
#define UNWIND_SETS     (1u << UNWIND_SET_BITS) /* of a cache */
#define UNWIND_WAYS     3u
struct unwind_set {
	uint32_t file[UNWIND_WAYS], addr[UNWIND_WAYS], since[UNWIND_WAYS];
	uint32_t next; /* the way that the next new address takes */
	struct unwind_rule rule[UNWIND_WAYS];
};
_Static_assert(sizeof(struct unwind_set) == 64, "three ways fill a set");

/* The set of address @addr of file @file, in a cache of UNWIND_SETS. */
UNWIND_FN uint32_t unwind_set_of(uint32_t file, uint64_t addr)
{
	return (uint32_t)(((addr << 32 | file) * 0x9e3779b97f4a7c15ull) >> (64 - UNWIND_SET_BITS)) &
	       (UNWIND_SETS - 1);
}

/* The way that has @addr; UNWIND_WAYS: none. File 0 and addresses from 2^32 on are never in a set. */
UNWIND_FN uint32_t unwind_set_find(const struct unwind_set *set, uint32_t file, uint64_t addr)
{
	uint32_t low = (uint32_t)addr;

	if (addr != low || !file)
		return UNWIND_WAYS;
	if (set->file[0] == file && set->addr[0] == low)
		return 0;
	if (set->file[1] == file && set->addr[1] == low)
		return 1;
	if (set->file[2] == file && set->addr[2] == low)
		return 2;
	return UNWIND_WAYS;
}

/* Keep the rule of @addr: in @way of unwind_set_find(), or, if that is UNWIND_WAYS, in place of the oldest address. */
UNWIND_FN void unwind_set_put(struct unwind_set *set, uint32_t way, uint32_t file, uint64_t addr,
			      uint32_t since, const struct unwind_rule *rule)
{
	if (addr >> 32 || !file)
		return;
	if (way >= UNWIND_WAYS) {
		way = set->next;
		if (way >= UNWIND_WAYS)
			way = 0;
		set->next = way + 1;
	}
	set->file[way] = file;
	set->addr[way] = (uint32_t)addr;
	set->since[way] = since;
	set->rule[way] = *rule;
}

/* ---- steps ---- */

/* The places of DWARF's registers 0 to 15 in gregs, 4 bits each. */
#define UNWIND_GREGS     0x76543210fa89becdull
#define UNWIND_GREG_BP   10
#define UNWIND_GREG_BX   11
#define UNWIND_GREG_SP   15
#define UNWIND_GREG_PC   16
#define UNWIND_RAX       0u
#define UNWIND_DWARF_RBX 3u
#define UNWIND_RBP       6u
#define UNWIND_RSP       7u

UNWIND_FN int32_t unwind_rule_off(const struct unwind_rule *r)
{
	return (int32_t)(r->off << 8) >> 8;
}
UNWIND_FN uint32_t unwind_rule_rbx(const struct unwind_rule *r)
{
	return r->off >> 24;
}

/* Register @n of the frame. -1: it is not known there. -2: it cannot be read. */
UNWIND_FN int unwind_register(UNWIND_MEMORY memory, const struct unwind_frame *f, uint32_t n, uint64_t *ret)
{
	n &= 15;
	if (n == UNWIND_RSP) {
		*ret = f->sp;
		return 0;
	}
	if (n == UNWIND_RBP) {
		*ret = f->bp;
		return 0;
	}
	if (f->saved)
		return UNWIND_READ(memory, f->saved + ((UNWIND_GREGS >> (4 * n)) & 15) * 8, ret, 8) ? -2 : 0;
	if (n == UNWIND_DWARF_RBX && f->rbx_at)
		return UNWIND_READ(memory, f->rbx_at, ret, 8) ? -2 : 0;
	if (!(f->flags & UNWIND_TOP) && !(n == UNWIND_DWARF_RBX && f->flags & UNWIND_RBX))
		return -1;
	*ret = UNWIND_REGISTER(memory, n);
	return 0;
}

/* The frame that a signal has interrupted. */
UNWIND_FN enum unwind_outcome unwind_interrupted(UNWIND_MEMORY memory, struct unwind_frame *f, uint64_t saved)
{
	uint64_t sp_pc[2] = { 0, 0 }, bp = 0; /* rsp and rip are neighbours */

	if (UNWIND_READ(memory, saved + UNWIND_GREG_SP * 8, sp_pc, 16) ||
	    UNWIND_READ(memory, saved + UNWIND_GREG_BP * 8, &bp, 8))
		return UNWIND_UNREADABLE;
	if (!sp_pc[1])
		return UNWIND_END;
	f->pc = sp_pc[1];
	f->sp = sp_pc[0];
	f->bp = bp;
	f->saved = saved;
	f->rbx_at = saved + UNWIND_GREG_BX * 8;
	f->flags = UNWIND_EXACT;
	return UNWIND_CALLER;
}

/* The caller by rbp. @up: only if that is further up the stack. */
UNWIND_FN enum unwind_outcome unwind_by_rbp(UNWIND_MEMORY memory, struct unwind_frame *f, uint32_t up)
{
	uint64_t bp_ra[2] = { 0, 0 };

	if (!f->bp)
		return UNWIND_END_CHAIN;
	if ((up && f->bp < f->sp) || f->bp > ~0ull - 16 || f->bp & 7 || UNWIND_READ(memory, f->bp, bp_ra, 16))
		return UNWIND_NO_ROW;
	if (!bp_ra[1])
		return UNWIND_END_CHAIN;
	f->sp = f->bp + 16;
	f->bp = bp_ra[0];
	f->pc = bp_ra[1];
	f->saved = f->rbx_at = 0;
	f->flags = 0;
	return UNWIND_CALLER_CHAIN;
}

/* The caller by rbp, for code without rows. */
UNWIND_FN enum unwind_outcome unwind_chain(UNWIND_MEMORY memory, struct unwind_frame *f)
{
	return unwind_by_rbp(memory, f, 1);
}

/*
 * The rule of code outside of files, of which @code is the word at a return address: that of CPython's trampolines for perf(1)
 * (python3 -X perf, 3.12 and 3.13), which keep no frame pointer: sub $8, %rsp; call *%rcx; add $8, %rsp; ret. All other
 * code: by rbp.
 */
UNWIND_FN struct unwind_rule unwind_made_rule(uint64_t code)
{
	struct unwind_rule r = { 0 };

	if ((code & 0xffffffffffull) == 0xc308c48348ull) { /* add $8, %rsp; ret */
		r.cfa = UNWIND_CFA_REG | UNWIND_RSP << 4;
		r.off = 16;
	}
	return r;
}

/* The CFA of a rule that is not of kind NONE, SIGNAL or BAD. */
UNWIND_FN enum unwind_outcome unwind_compute_cfa(UNWIND_MEMORY memory, const struct unwind_frame *f,
						 const struct unwind_rule *r, uint64_t *ret)
{
	uint64_t v = 0;
	int e;

	switch (r->cfa & 15) {
	case UNWIND_CFA_REG:
		e = unwind_register(memory, f, r->cfa >> 4, &v);
		v += (uint64_t)(int64_t)unwind_rule_off(r);
		break;
	case UNWIND_CFA_DEREF:
		e = unwind_register(memory, f, r->cfa >> 4, &v);
		if (!e && UNWIND_READ(memory, v + (uint64_t)(int64_t)(int16_t)r->off, &v, 8))
			e = -2;
		v += (uint64_t)(int64_t)((int32_t)(r->off << 8) >> 24);
		break;
	case UNWIND_CFA_PLT:
		v = f->sp + ((unwind_pc(f) & 15) >= (r->off & 15) ? 16 : 8);
		e = 0;
		break;
	case UNWIND_CFA_CLONE:
		e = unwind_register(memory, f, UNWIND_RAX, &v);
		if (!e && !v)
			return UNWIND_END;
		v = f->sp + 8;
		break;
	default:
		e = -1;
	}
	if (e)
		return e == -1 ? UNWIND_BAD_RULE : UNWIND_UNREADABLE;
	*ret = v;
	return UNWIND_CALLER;
}

/* The caller by a rule of unwind_find(). */
UNWIND_FN enum unwind_outcome unwind_apply(UNWIND_MEMORY memory, const struct unwind_rule *r,
					   struct unwind_frame *f)
{
	uint64_t cfa = 0, bp_ra[2] = { 0, 0 };
	enum unwind_outcome how;
	uint32_t kind, rbp, ra;
	int e = 0;

	if (!memory || !r || !f) /* for the verifier */
		return UNWIND_BAD_RULE;
	bp_ra[0] = f->bp;
	kind = r->cfa & 15;
	rbp = r->save & 3;
	ra = (r->save >> 2) & 3;
	if (kind == UNWIND_CFA_NONE || kind == UNWIND_CFA_CHAIN)
		return unwind_by_rbp(memory, f, kind == UNWIND_CFA_NONE);
	if (kind == UNWIND_CFA_SIGNAL)
		return unwind_interrupted(memory, f, f->sp + (uint64_t)(int64_t)unwind_rule_off(r));
	/* An address without callers needs no CFA. */
	if (ra == UNWIND_RA_END)
		return UNWIND_END;
	/* A register that no rule could restore is 0: no stack is there. */
	if ((kind == UNWIND_CFA_REG || kind == UNWIND_CFA_DEREF) && r->cfa >> 4 == UNWIND_RBP && !f->bp)
		return UNWIND_BAD_RULE;
	how = unwind_compute_cfa(memory, f, r, &cfa);
	if (how != UNWIND_CALLER)
		return how;
	/* Only a top frame that has its return address in a register may be without a stack of its own. */
	if (!(r->save & UNWIND_INTERRUPT) && (cfa < f->sp || (cfa == f->sp && ra != UNWIND_RA_REG)))
		return UNWIND_LOOP;

	if (ra == UNWIND_RA_CFA && rbp == UNWIND_RBP_CFA && r->aux == -16) {
		e = UNWIND_READ(memory, cfa - 16, bp_ra, 16);
	} else {
		if (rbp == UNWIND_RBP_CFA)
			e = UNWIND_READ(memory, cfa + (uint64_t)(int64_t)r->aux, &bp_ra[0], 8);
		else if (rbp == UNWIND_RBP_RBP)
			e = UNWIND_READ(memory, f->bp + (uint64_t)(int64_t)r->aux, &bp_ra[0], 8);
		else if (rbp == UNWIND_RBP_LOST)
			bp_ra[0] = 0;
		if (e)
			return UNWIND_UNREADABLE;
		if (ra == UNWIND_RA_REG) {
			/* unwind_register() of r->aux; a frame that is not exact does not have its registers. */
			e = unwind_register(memory, f, (uint32_t)r->aux, &bp_ra[1]);
			if (e == -1 || !(f->flags & UNWIND_EXACT))
				return UNWIND_BAD_RULE;
		} else {
			e = UNWIND_READ(memory,
					ra == UNWIND_RA_AT ? cfa + (uint64_t)(int64_t)r->aux : cfa - 8,
					&bp_ra[1], 8);
		}
	}
	if (e)
		return UNWIND_UNREADABLE;
	if (!bp_ra[1])
		return UNWIND_END;
	f->pc = bp_ra[1];
	f->sp = cfa;
	f->bp = bp_ra[0];
	f->saved = 0;
	f->flags &= UNWIND_TOP | UNWIND_RBX;
	if (unwind_rule_rbx(r)) {
		f->rbx_at = unwind_rule_rbx(r) == UNWIND_RBX_LOST ? 0
								  : cfa - 8 * (uint64_t)unwind_rule_rbx(r);
		f->flags = 0;
	}
	/* Of the registers of the top frame, this one is still there. */
	f->flags = (f->flags ? UNWIND_RBX : 0) | (r->save & UNWIND_INTERRUPT ? UNWIND_EXACT : 0);
	return UNWIND_CALLER;
}

/* The caller of @f, which is at address @addr (of unwind_pc()) of the file that has @table. */
UNWIND_FN enum unwind_outcome unwind_step(UNWIND_TABLE table, UNWIND_MEMORY memory, uint64_t addr,
					  struct unwind_frame *f)
{
	struct unwind_rule r;

	if (unwind_find(table, addr, &r))
		return UNWIND_BAD_RULE;
	return unwind_apply(memory, &r, f);
}

#ifndef __bpf__
/*
 * unwind_step() by way of @sets, a cache of UNWIND_SETS, in which @file is the number of @table. BPF does the same in two
 * functions, walk_step() and find_row().
 */
UNWIND_FN enum unwind_outcome unwind_step_cached(UNWIND_TABLE table, struct unwind_set *sets, uint32_t file,
						 UNWIND_MEMORY memory, uint64_t addr, struct unwind_frame *f)
{
	struct unwind_set *set = &sets[unwind_set_of(file, addr)];
	uint32_t way = unwind_set_find(set, file, addr);
	struct unwind_rule r;

	if (way < UNWIND_WAYS) {
		r = set->rule[way];
	} else {
		if (unwind_find(table, addr, &r))
			return UNWIND_BAD_RULE;
		unwind_set_put(set, way, file, addr, 0, &r);
	}
	return unwind_apply(memory, &r, f);
}
#endif
