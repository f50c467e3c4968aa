/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code without entries in .eh_frame that is recognised all the same:
 *
 *   linkage tables   lld and mold write no entries for them
 *   restorers        the function to which a signal handler returns, of musl and Go
 *   Go's functions   see go.c
 */
#include "unwind/internal.h"

#include <elf.h>
#include <stdlib.h>
#include "base/sort.h"

#define LINKAGE_MAX 16u    /* sections */
#define SCAN_MAX    MIB(8) /* bytes of gaps that are searched for a restorer */
#define DYNAMIC_MAX 64u    /* entries of the dynamic section: needed libraries come first */
#define SCAN_STEP   KIB(32)

/* mov $15, %rax; syscall: rt_sigreturn. */
static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

struct linkage {
	uint64_t start, end;
	int push; /* the byte of an entry from which on its number is on the stack; 0: it has none */
	bool lazy;
};

struct gap_reader {
	struct linkage linkage[LINKAGE_MAX];
	size_t n_linkage;
	bool may_restore; /* it may have a restorer without entries */
	uint64_t n_scanned;
	uint8_t bytes[SCAN_STEP + sizeof(restorer)];
};

bool gap_file_range(const struct elf_image *img, uint64_t addr, struct byte_range *ret)
{
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (s->type != PT_LOAD || addr < s->vaddr || addr - s->vaddr >= s->filesz)
			continue;
		if (s->off > img->src->size || addr - s->vaddr >= img->src->size - s->off)
			return false;
		*ret = range_of(s->off + (addr - s->vaddr), MIN(s->filesz - (addr - s->vaddr),
								img->src->size - s->off - (addr - s->vaddr)));
		return true;
	}
	return false;
}

static int read_code(const struct elf_image *img, uint64_t addr, uint8_t *to, size_t n, size_t *ret,
		     struct err *err)
{
	struct byte_range range;

	*ret = 0;
	if (!gap_file_range(img, addr, &range))
		return 0;
	*ret = MIN(n, range.size);
	return source_read_full(img->src, range.off, to, *ret, SOURCE_RANDOM, err);
}

/* ---- linkage tables ---- */

/*
 * A lazy table starts with an entry that pushes a word and jumps; each other entry pushes its number after a jump of 6 bytes,
 * or after endbr64. Any other table only jumps.
 */
static int find_linkage(struct build *b, struct gap_reader *g, const struct elf_section *s, struct err *err)
{
	static const uint8_t push_word[] = { 0xff, 0x35 }, endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x68 };
	struct linkage *l = &g->linkage[g->n_linkage];
	uint8_t code[32];
	size_t n;

	*l = (struct linkage){ .start = s->addr };
	if (add_overflows(s->addr, s->size, &l->end))
		return 0;
	if (read_code(b->img, s->addr, code, sizeof(code), &n, err) < 0)
		return -1;
	if (n < sizeof(code))
		return 0;
	l->lazy = memcmp(code, push_word, sizeof(push_word)) == 0;
	if (l->lazy && memcmp(code + 16, endbr, sizeof(endbr)) == 0)
		l->push = 9;
	else if (l->lazy && code[22] == 0x68)
		l->push = 11;
	else
		l->lazy = false;
	g->n_linkage++;
	return 0;
}

static int linkage_by_start(const void *a, const void *b)
{
	const struct linkage *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void add_at_stack(struct build *b, uint64_t addr, uint32_t off)
{
	struct unwind_rule r = { .cfa = UNWIND_CFA_REG | UNWIND_RSP << 4, .off = off };

	pack_add(&b->pack, addr, pack_key(r));
}

static void add_linkage(struct build *b, const struct linkage *l)
{
	struct unwind_rule r = { .cfa = UNWIND_CFA_PLT, .off = (uint32_t)l->push };

	if (!l->lazy) {
		add_at_stack(b, l->start, 8);
	} else {
		add_at_stack(b, l->start, 16);
		add_at_stack(b, l->start + 6, 24);
		pack_add(&b->pack, l->start + 16, pack_key(r));
	}
	pack_add(&b->pack, l->end, 0);
	b->flags |= UNWIND_FROM_CODE;
}

/* ---- restorers ---- */

/* A return address is looked up one byte before: the byte before the function has its rule, too. */
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

	if (!g->may_restore)
		return 0;
	while (from < to && to - from >= sizeof(restorer) && g->n_scanned < SCAN_MAX) {
		size_t n = MIN(to - from, sizeof(g->bytes)), got;
		const uint8_t *p = g->bytes, *end;

		if (read_code(b->img, from, g->bytes, n, &got, err) < 0)
			return -1;
		g->n_scanned += got;
		for (end = p + got; (p = memmem(p, (size_t)(end - p), restorer, sizeof(restorer)));
		     p += sizeof(restorer))
			add_restorer(b, from + (uint64_t)(p - g->bytes), from);
		if (got < n || n < sizeof(g->bytes))
			return 0;
		from += SCAN_STEP;
	}
	return 0;
}

/* A program that needs another library has no restorer of its own: that is in the C library. */
static int needs_libraries(const struct elf_image *img, bool *ret_none, struct err *err)
{
	*ret_none = true;
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];
		uint8_t words[DYNAMIC_MAX * 16];
		struct cfi_bytes e;
		struct byte_range range;

		if (s->type != PT_DYNAMIC || !gap_file_range(img, s->vaddr, &range))
			continue;
		range.size = MIN(MIN(range.size, s->filesz), sizeof(words)) / 16 * 16;
		if (source_read_full(img->src, range.off, words, range.size, SOURCE_RANDOM, err) < 0)
			return -1;
		for (e = (struct cfi_bytes){ words, words + range.size, false }; e.p < e.end; e.p += 8)
			if (cfi_fixed(&e, 8) == DT_NEEDED)
				*ret_none = false;
		return 0;
	}
	return 0;
}

/* ---- gaps ---- */

int gap_reader_new(struct build *b, struct gap_reader **ret, struct err *err)
{
	static const char *const names[] = { ".plt", ".plt.sec", ".plt.got", ".iplt" };
	struct gap_reader *g = *ret = NEW(struct gap_reader);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct elf_section *s = elf_section_find(b->img, names[i]);

		if (s && s->type == SHT_PROGBITS && find_linkage(b, g, s, err) < 0)
			return -1;
	}
	SORT(g->linkage, g->n_linkage, linkage_by_start);
	return needs_libraries(b->img, &g->may_restore, err);
}

void gap_reader_free(struct gap_reader *g)
{
	free(g);
}

bool gap_has_go(const struct gap_reader *g)
{
	return false;
}

int gap_fill(struct build *b, uint64_t from, uint64_t to, struct err *err)
{
	for (size_t i = 0; i < b->gaps->n_linkage; i++) {
		const struct linkage *l = &b->gaps->linkage[i];

		/* One that is in the gap as a whole. */
		if (l->start < from || l->end > to)
			continue;
		if (scan_restorers(b, from, l->start, err) < 0)
			return -1;
		add_linkage(b, l);
		from = l->end;
	}
	return scan_restorers(b, from, to, err);
}
