/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a table's head: its file, that file's sections, the parts left out and why, the index of the blocks.
 */
#include "symtab/build.h"

#include <stdlib.h>

#define REASONS_MAX 100u
#define REASON_MAX  KIB(1)

static void buf_align(struct buf *b, size_t to)
{
	while (b->size % to)
		buf_add_char(b, 0);
}

static void head_put32(struct buf *b, size_t at, uint64_t v)
{
	uint32_t x = htole32((uint32_t)v);

	memcpy(b->p + at, &x, 4);
}

static void head_put64(struct buf *b, size_t at, uint64_t v)
{
	v = htole64(v);
	memcpy(b->p + at, &v, 8);
}

static void head_add_sections(struct build *b, struct buf *out)
{
	if (b->img->h.type != 1) /* ET_REL */
		return;
	head_put32(out, 48, b->n_code);
	head_put32(out, 52, out->size);
	for (size_t i = 0; i < b->n_code; i++) {
		struct str name = b->img->sections[b->code[i].index].name;

		buf_add_u32(out, b->code[i].index);
		buf_add_u32(out, (uint32_t)name.size);
		buf_add_u64(out, b->code[i].base);
		buf_add_u64(out, b->code[i].size);
		buf_add_str(out, name);
		buf_align(out, 8);
	}
}

static void head_add_reason(struct buf *out, struct str s)
{
	s.size = MIN(s.size, REASON_MAX);
	buf_add_u32(out, (uint32_t)s.size);
	buf_add_str(out, s);
	buf_align(out, 4);
}

static int skipped_by_unit(const void *a, const void *b)
{
	const struct skipped *x = a, *y = b;

	return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Write the reasons of whole sections. Returns their number. */
static size_t head_add_damage(struct build *b, struct buf *out)
{
	static const struct err none;
	const struct err *damage, *others[] = { &b->dwarf_err, &b->go_err, &b->split_err, &b->rowless_err,
						b->dwarf ? dwarf_units_err(b->dwarf) : &none };
	size_t n_damage = b->dwarf ? dwarf_damage(b->dwarf, &damage) : 0, n = n_damage + b->symbols.n_damage;

	for (size_t i = 0; i < n_damage; i++)
		head_add_reason(out, str_of(damage[i].text));
	for (size_t i = 0; i < b->symbols.n_damage; i++)
		head_add_reason(out, str_of(b->symbols.damage[i].text));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (!others[i]->kind)
			continue;
		head_add_reason(out, str_of(others[i]->text));
		n++;
	}
	return n;
}

/* Write why parts were left out: sections, which may be the reason of many units, then units; of these the first ones. */
static uint64_t head_add_reasons(struct build *b, struct buf *out)
{
	struct skipped *all = NULL;
	size_t n = 0, room = 0, n_sections;
	uint64_t total = 0;

	head_put32(out, 68, out->size);
	n_sections = head_add_damage(b, out);
	for (unsigned k = 0; k < b->n_batches; k++) {
		const struct batch *one = b->batches[k];

		total += one->n_skipped + one->n_more;
		for (size_t i = 0; i < MIN(one->n_skipped, (size_t)REASONS_MAX); i++)
			VEC_PUSH(all, n, room) = one->skipped[i];
	}
	if (n)
		qsort(all, n, sizeof(*all), skipped_by_unit);
	n = MIN(n, (size_t)REASONS_MAX);
	for (size_t i = 0; i < n; i++)
		head_add_reason(out, str_of(all[i].reason));
	free(all);
	total += n_sections;
	total += b->n_rowless ? b->n_rowless - 1 : 0;
	head_put64(out, 56, total);
	head_put32(out, 64, (uint32_t)(n_sections + n));
	if (total)
		b->flags |= SYMTAB_PARTIAL;
	return total;
}

int build_head(struct build *b, struct buf *out, uint64_t *ret_skipped, struct err *err)
{
	static const char producer[] = "lode " LODE_VERSION;
	const struct block_index *index;
	size_t n = block_writer_index(b->blocks, &index), index_at;
	struct build_id id = { 0 };
	struct err ignored = { 0 };

	out->size = 0;
	memset(buf_reserve(out, HEAD_SIZE), 0, HEAD_SIZE);
	out->size = HEAD_SIZE;
	memcpy(out->p, HEAD_MAGIC, 8);
	head_put32(out, 8, SYMTAB_VERSION);
	head_put32(out, 36, b->img->h.machine);
	head_put32(out, 168, SYMTAB_MAKER);
	head_put32(out, 172, MIN(b->hidden.n_ranges, (uint64_t)UINT32_MAX));
	head_put64(out, 176, b->hidden.size);
	head_put64(out, 184, b->hidden.lines_size);
	head_put32(out, 40, n);
	head_put32(out, 72, out->size);
	head_put32(out, 76, sizeof(producer) - 1);
	buf_add(out, producer, sizeof(producer) - 1);
	buf_align(out, 8);
	if (elf_build_id(b->img, &id, &ignored) == 0) {
		head_put32(out, 80, id.size);
		memcpy(out->p + 84, id.b, id.size);
	}
	head_add_sections(b, out);
	buf_align(out, 8);
	*ret_skipped = head_add_reasons(b, out);
	buf_align(out, 8);
	head_put32(out, 32, b->flags);
	index_at = out->size;
	head_put32(out, 44, index_at);
	if (index_at + (uint64_t)n * INDEX_SIZE > SYMTAB_MAX_HEAD)
		return err_set(err, ERR_LIMIT, "a head cannot list %zu blocks", n);
	head_put32(out, 12, index_at + n * INDEX_SIZE);
	for (size_t i = 0; i < n; i++) {
		buf_add_u64(out, index[i].first);
		buf_add_u64(out, index[i].last);
		buf_add_u64(out, index[i].off + index_at + n * INDEX_SIZE);
		buf_add_u32(out, index[i].size);
		buf_add_u32(out, index[i].check);
	}
	head_put64(out, 16, out->size + b->block_bytes.size + TABLE_PAD);
	head_put64(out, 24, hash64(out->p, out->size, 0));
	return 0;
}
