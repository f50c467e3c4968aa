/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code without entries in .eh_frame that is recognised all the same:
 *
 *   .debug_frame     of assembly code, or of all code if it is the only one; see frames.c
 *   Go's functions   see go.c
 *   linkage tables   lld and mold write no entries for them
 *   _init, _fini     sections that are put together of pieces; see init.c
 *   restorers        the function to which a signal handler returns, of musl and Go
 *   clone, clone3    glibc's: the entry ends before the call of the kernel, since it would be wrong in the new thread
 */
#include "unwind/internal.h"

#include <elf.h>
#include <stdlib.h>
#include "base/search.h"

#define PLACES_MAX  16u    /* sections */
#define SCAN_MAX    MIB(8) /* bytes of gaps that are searched for a restorer */
#define DYNAMIC_MAX 64u    /* entries of the dynamic section: needed libraries come first */
#define SCAN_STEP   KIB(32)
#define CLONE_LEAST 10u /* bytes from the call of the kernel to the return, by the sizes of two jumps */
#define CLONE_MOST  18u

/* mov $15, %rax; syscall: rt_sigreturn. */
static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

/* A section whose code has a known form. */
struct place {
	uint64_t start, end;
	enum { PLACE_JUMPS, PLACE_LAZY, PLACE_INIT } kind;
	int push; /* lazy: the byte of an entry from which on its number is on the stack */
	struct init_code init;
};

struct gap_reader {
	struct frames *debug; /* NULL: there is no .debug_frame */
	struct collected functions;
	struct go_rows *go;
	struct place places[PLACES_MAX];
	size_t n_places;
	bool may_restore; /* it may have a restorer without entries */
	uint64_t n_scanned;
	uint8_t bytes[SCAN_STEP + sizeof(restorer)];
};

bool gap_file_range(const struct build *b, uint64_t addr, struct byte_range *ret)
{
	size_t n = SEARCH(0, b->n_loads, i, b->loads[i].key <= addr);
	const struct elf_segment *s = n ? &b->img->segments[b->loads[n - 1].at] : NULL;
	uint64_t size = b->img->src->size, at = s ? addr - s->vaddr : 0;

	if (!s || at >= s->filesz || s->off > size || at >= size - s->off)
		return false;
	*ret = range_of(s->off + at, MIN(s->filesz - at, size - s->off - at));
	return true;
}

int gap_read_code(const struct build *b, uint64_t addr, uint8_t *to, size_t n, size_t *ret, struct err *err)
{
	struct byte_range range;

	*ret = 0;
	if (!gap_file_range(b, addr, &range))
		return 0;
	*ret = MIN(n, range.size);
	return source_read_full(b->img->src, range.off, to, *ret, SOURCE_RANDOM, err);
}

/* ---- sections of a known form ---- */

/*
 * A lazy table starts with an entry that pushes a word and jumps; each other entry pushes its number after a jump of 6 bytes,
 * or after endbr64. Any other table only jumps. 0: it is none.
 */
static int find_linkage(struct build *b, struct place *p, struct err *err)
{
	static const uint8_t push_word[] = { 0xff, 0x35 }, endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x68 };
	uint8_t code[32];
	size_t n;

	if (gap_read_code(b, p->start, code, sizeof(code), &n, err) < 0)
		return -1;
	if (n < sizeof(code))
		return 0;
	p->kind = PLACE_JUMPS;
	if (memcmp(code, push_word, sizeof(push_word)) == 0) {
		if (memcmp(code + 16, endbr, sizeof(endbr)) == 0)
			p->push = 9;
		else if (code[22] == 0x68)
			p->push = 11;
		p->kind = p->push ? PLACE_LAZY : PLACE_JUMPS;
	}
	return 1;
}

/* Add the section with this name, if the file has it in a known form. */
static int find_place(struct build *b, struct gap_reader *g, const char *name, struct err *err)
{
	const struct elf_section *s = elf_section_find(b->img, name);
	struct place p = { 0 };
	int r;

	if (!s || s->type != SHT_PROGBITS || add_overflows(s->addr, s->size, &p.end))
		return 0;
	p.start = s->addr;
	if (str_eq(str_of(name), STR(".init")) || str_eq(str_of(name), STR(".fini"))) {
		p.kind = PLACE_INIT;
		r = init_find(b, p.start, p.end, &p.init, err);
	} else {
		r = find_linkage(b, &p, err);
	}
	if (r > 0)
		g->places[g->n_places++] = p;
	return MIN(r, 0);
}

static int place_by_start(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void add_at_stack(struct build *b, uint64_t addr, uint32_t off)
{
	struct unwind_rule r = { .cfa = UNWIND_CFA_REG | UNWIND_RSP << 4, .off = off };

	pack_add(&b->pack, addr, pack_key(r));
}

static void add_place(struct build *b, const struct place *p)
{
	struct unwind_rule r = { .cfa = UNWIND_CFA_PLT, .off = (uint32_t)p->push };

	switch (p->kind) {
	case PLACE_JUMPS:
		add_at_stack(b, p->start, 8);
		break;
	case PLACE_LAZY:
		add_at_stack(b, p->start, 16);
		add_at_stack(b, p->start + 6, 24);
		pack_add(&b->pack, p->start + 16, pack_key(r));
		break;
	case PLACE_INIT:
		add_at_stack(b, p->start, 8);
		add_at_stack(b, p->start + p->init.begun, 16);
		add_at_stack(b, p->start + p->init.ends, 8);
		break;
	}
	pack_add(&b->pack, p->end, 0);
	b->flags |= UNWIND_FROM_CODE;
}

/* ---- restorers ---- */

/* A return address is looked up one byte before: the byte before the function has its rule, too, if it is not before @from. */
static void add_restorer(struct build *b, uint64_t addr, uint64_t from)
{
	struct unwind_rule r = { .cfa = UNWIND_CFA_SIGNAL, .off = 40 };

	pack_add(&b->pack, addr > from ? addr - 1 : addr, pack_key(r));
	pack_add(&b->pack, addr + sizeof(restorer), 0);
	b->flags |= UNWIND_FROM_CODE;
}

static int scan_restorers(struct build *b, uint64_t from, uint64_t to, struct err *err)
{
	struct gap_reader *g = b->gaps;
	uint64_t last =
		from; /* the end of the one before: rows rise, and the end of a window is in the next one, too */

	if (!g->may_restore)
		return 0;
	while (from < to && to - from >= sizeof(restorer) && g->n_scanned < SCAN_MAX) {
		size_t n = MIN(to - from, sizeof(g->bytes)), got;
		const uint8_t *p = g->bytes, *end;

		if (gap_read_code(b, from, g->bytes, n, &got, err) < 0)
			return -1;
		g->n_scanned += got;
		for (end = p + got; (p = memmem(p, (size_t)(end - p), restorer, sizeof(restorer)));
		     p += sizeof(restorer)) {
			uint64_t addr = from + (uint64_t)(p - g->bytes);

			if (addr < last)
				continue;
			add_restorer(b, addr, last);
			last = addr + sizeof(restorer);
		}
		if (got < n || n < sizeof(g->bytes))
			return 0;
		from += SCAN_STEP;
	}
	return 0;
}

/* ---- clone ---- */

/*
 * A conditional jump of 2 or 6 bytes, by its condition in the lower half of the opcode. Returns the bytes after it; NULL:
 * it is another instruction.
 */
static const uint8_t *after_jump(const uint8_t *p, uint8_t condition)
{
	if (p[0] == (0x70 | condition))
		return p + 2;
	return p[0] == 0x0f && p[1] == (0x80 | condition) ? p + 6 : NULL;
}

/* syscall; test %rax, %rax; jl error; jz new_thread; ret, and nothing else: *ret_is. */
static int find_clone(const struct build *b, uint64_t from, uint64_t to, bool *ret_is, struct err *err)
{
	static const uint8_t call[] = { 0x0f, 0x05, 0x48, 0x85, 0xc0 };
	uint8_t code[CLONE_MOST + 8] = { 0 };
	const uint8_t *p = code;
	size_t n;

	*ret_is = false;
	if (to - from < CLONE_LEAST || to - from > CLONE_MOST)
		return 0;
	if (gap_read_code(b, from, code, (size_t)(to - from), &n, err) < 0)
		return -1;
	if (n < to - from || memcmp(p, call, sizeof(call)) != 0)
		return 0;
	p = after_jump(p + sizeof(call), 0xc);
	p = p ? after_jump(p, 0x4) : NULL;
	*ret_is = p && *p == 0xc3 && p + 1 == code + n;
	return 0;
}

static void add_clone(struct build *b, uint64_t from, uint64_t to)
{
	pack_add(&b->pack, from, pack_key((struct unwind_rule){ .cfa = UNWIND_CFA_CLONE }));
	pack_add(&b->pack, to, 0);
	b->flags |= UNWIND_FROM_CODE;
}

/* A program that needs another library has no restorer of its own: that is in the C library. */
static int needs_libraries(const struct build *b, bool *ret_none, struct err *err)
{
	const struct elf_image *img = b->img;

	*ret_none = true;
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];
		uint8_t words[DYNAMIC_MAX * 16];
		struct cursor e;
		struct byte_range range;

		if (s->type != PT_DYNAMIC || !gap_file_range(b, s->vaddr, &range))
			continue;
		range.size = MIN(MIN(range.size, s->filesz), sizeof(words)) / 16 * 16;
		if (source_read_full(img->src, range.off, words, range.size, SOURCE_RANDOM, err) < 0)
			return -1;
		for (e = cursor_of(bytes_of(words, range.size)); e.p < e.end; e.p += 8)
			if (cursor_u64(&e) == DT_NEEDED)
				*ret_none = false;
		return 0;
	}
	return 0;
}

/* ---- .debug_frame ---- */

static int open_debug_frame(struct build *b, struct gap_reader *g, struct err *err)
{
	const struct elf_section *sec = elf_debug_section(b->img, ".debug_frame");
	struct section *s;
	size_t size;
	int r;

	if (!sec || sec->type == SHT_NOBITS)
		return 0;
	g->debug = NEW(struct frames);
	g->debug->debug = true;
	s = &g->debug->section;
	r = elf_section_load(b->img, sec, 0, b->img->memory, &s->loaded, &size, err);
	if (r < 0 && err_is_input(err))
		r = 1;
	if (r) {
		section_done(s);
		free(g->debug);
		g->debug = NULL;
		b->stats.n_skipped++;
		return r < 0 ? -1 : 0;
	}
	s->all = s->loaded;
	s->size = size;
	s->memory = b->img->memory;
	s->held = size;
	g->functions.memory = b->o->memory;
	return build_collect(b, g->debug, &g->functions, err);
}

/* ---- gaps ---- */

int gap_reader_new(struct build *b, struct gap_reader **ret, struct err *err)
{
	static const char *const names[] = { ".init", ".plt", ".plt.sec", ".plt.got", ".iplt", ".fini" };
	struct gap_reader *g = *ret = NEW(struct gap_reader);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (find_place(b, g, names[i], err) < 0)
			return -1;
	SORT(g->places, g->n_places, place_by_start);
	if (needs_libraries(b, &g->may_restore, err) < 0 || go_rows_new(b, &g->go, err) < 0)
		return -1;
	return open_debug_frame(b, g, err);
}

void gap_reader_free(struct gap_reader *g)
{
	if (!g)
		return;
	if (g->debug) {
		section_done(&g->debug->section);
		free(g->debug);
	}
	collected_done(&g->functions);
	go_rows_free(g->go);
	free(g);
}

static int fill_places(struct build *b, uint64_t from, uint64_t to, struct err *err)
{
	for (size_t i = 0; i < b->gaps->n_places; i++) {
		const struct place *p = &b->gaps->places[i];

		/* One that is in the gap as a whole. */
		if (p->start < from || p->end > to)
			continue;
		if (scan_restorers(b, from, p->start, err) < 0)
			return -1;
		add_place(b, p);
		from = p->end;
	}
	return scan_restorers(b, from, to, err);
}

/* By the functions of .debug_frame that start in the gap. */
static int fill_debug(struct build *b, uint64_t from, uint64_t to, struct err *err)
{
	const struct collected *c = &b->gaps->functions;
	size_t i = SEARCH(0, c->n, k, c->list[k].key < from);

	for (; i < c->n && c->list[i].key < to; i++) {
		struct cfi_program program = { 0 };
		struct frames_function f;
		uint64_t next;
		bool damaged;
		int r = frames_read(b->gaps->debug, c->list[i].at, &f, &next, &damaged, err);

		if (r < 0)
			return -1;
		/* A function holds up to the next one. */
		program.limit = MIN(f.end, i + 1 < c->n ? MIN(c->list[i + 1].key, to) : to);
		if (r || program.limit <= f.start)
			continue;
		if (fill_places(b, from, f.start, err) < 0)
			return -1;
		program.p = section_at(&b->gaps->debug->section, f.code, f.code_size, err);
		if (!program.p)
			return -1;
		program.end = program.p + f.code_size;
		program.cie = &f.cie;
		program.start = f.start;
		b->flags |= UNWIND_FROM_DEBUG_FRAME;
		b->stats.n_functions++;
		if (!cfi_run(&program, &b->pack))
			b->stats.n_skipped++;
		pack_add(&b->pack, program.limit, 0);
		from = program.limit;
		if (build_check_cancel(b, err) < 0)
			return -1;
	}
	return fill_places(b, from, to, err);
}

/* Go's functions come before their entries in .debug_frame, which have no rules for rbp. */
int gap_fill(struct build *b, uint64_t from, uint64_t to, struct err *err)
{
	struct code_range f;
	bool is_clone;

	if (find_clone(b, from, to, &is_clone, err) < 0)
		return -1;
	if (is_clone) {
		add_clone(b, from, to);
		return 0;
	}

	while (b->gaps->go && go_rows_next(b->gaps->go, from, to, &f)) {
		if (fill_debug(b, from, f.start, err) < 0)
			return -1;
		from = MIN(f.end, to);
		if (go_rows_add(b->gaps->go, b, from, err) < 0 || build_check_cancel(b, err) < 0)
			return -1;
		pack_add(&b->pack, from, 0);
	}
	return fill_debug(b, from, to, err);
}
