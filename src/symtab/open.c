/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a table's head, and its blocks when they are asked for. No byte is trusted: a table may come from
 * another machine.
 */
#include "symtab/read.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SECTIONS_MAX (1u << 20)
#define REASONS_MAX  1000u

const char *symtab_origin_name(enum symtab_origin o)
{
	static const char *const names[] = { "dwarf", "go", "lines", "symtab", "minidebug", "dynsym", "plt" };

	return (unsigned)o < ARRAY_SIZE(names) ? names[o] : "?";
}

bool symtab_is_table(struct bytes head)
{
	return head.size >= 8 && memcmp(head.p, HEAD_MAGIC, 8) == 0;
}

static uint64_t head_hash(struct bytes head)
{
	static const uint8_t zeros[8];
	struct hash64_state s;

	hash64_init(&s, 0);
	hash64_feed(&s, head.p, 24);
	hash64_feed(&s, zeros, 8);
	hash64_feed(&s, head.p + 32, head.size - 32);
	return hash64_end(&s);
}

/* A file may have tens of thousands of sections, and each address that is looked up may name one. */
static void index_sections(struct symtab *t)
{
	/* From the last on, so that the first of several with one name stays. */
	for (size_t i = t->info.n_sections; i--;) {
		struct symtab_section *sec = (struct symtab_section *)(uintptr_t)&t->info.sections[i];

		map_put(&t->by_name, bytes_of(sec->name.p, sec->name.size), sec);
		map_put(&t->by_index, bytes_of(&sec->index, sizeof(sec->index)), sec);
	}
}

const struct symtab_section *symtab_section(const struct symtab *t, struct str name)
{
	return map_get(&t->by_name, bytes_of(name.p, name.size));
}

const struct symtab_section *symtab_section_of_index(const struct symtab *t, uint32_t index)
{
	return map_get(&t->by_index, bytes_of(&index, sizeof(index)));
}

const char *symtab_flag_name(uint32_t flag)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} names[] = {
		{ SYMTAB_HAS_DWARF, "dwarf" },
		{ SYMTAB_HAS_LINES, "lines" },
		{ SYMTAB_HAS_SYMBOLS, "symbols" },
		{ SYMTAB_HAS_COLUMNS, "columns" },
		{ SYMTAB_RELOCATABLE, "relocatable" },
		{ SYMTAB_ALT_APPLIED, "alt-applied" },
		{ SYMTAB_ALT_MISSING, "alt-missing" },
		{ SYMTAB_SPLIT_MISSING, "split-missing" },
		{ SYMTAB_PARTIAL, "partial" },
		{ SYMTAB_HAS_GO, "go" },
		{ SYMTAB_HAS_DISCRIMINATORS, "discriminators" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].flag == flag)
			return names[i].name;
	return NULL;
}

static int head_read_sections(struct symtab *t, struct bytes head, struct err *err)
{
	uint32_t n = get32(head.p + 48);
	struct cursor c = cursor_at(head, false, 0);
	struct symtab_section *list;

	if (n > SECTIONS_MAX || !cursor_seek(&c, get32(head.p + 52)) || n > cursor_left(&c) / 24)
		return err_set(err, ERR_INVALID, "its list of sections is damaged");
	list = ARENA_NEW_N(&t->arena, struct symtab_section, (size_t)n + 1);
	for (uint32_t i = 0; i < n; i++) {
		struct bytes name;
		uint32_t size;

		list[i].index = cursor_u32(&c);
		size = cursor_u32(&c);
		list[i].base = cursor_u64(&c);
		list[i].size = cursor_u64(&c);
		name = cursor_bytes(&c, size);
		list[i].name = arena_str(&t->arena, (struct str){ (const char *)name.p, name.size });
		cursor_align(&c, 8);
	}
	if (!cursor_ok(&c))
		return cursor_err(&c, "sections", err);
	t->info.sections = list;
	t->info.n_sections = n;
	index_sections(t);
	return 0;
}

static int head_read_reasons(struct symtab *t, struct bytes head, struct err *err)
{
	uint32_t n = get32(head.p + 64);
	struct cursor c = cursor_at(head, false, 0);
	struct str *list;

	if (n > REASONS_MAX || !cursor_seek(&c, get32(head.p + 68)))
		return err_set(err, ERR_INVALID, "its list of skipped parts is damaged");
	list = ARENA_NEW_N(&t->arena, struct str, (size_t)n + 1);
	for (uint32_t i = 0; i < n; i++) {
		struct bytes text = cursor_bytes(&c, cursor_u32(&c));

		list[i] = arena_str(&t->arena, (struct str){ (const char *)text.p, text.size });
		cursor_align(&c, 4);
	}
	if (!cursor_ok(&c))
		return cursor_err(&c, "list of skipped parts", err);
	t->info.skipped = list;
	t->info.n_reasons = n;
	return 0;
}

static int table_head_read(struct symtab *t, struct bytes head, uint64_t size, struct err *err)
{
	uint32_t producer = get32(head.p + 72), producer_size = get32(head.p + 76),
		 index = get32(head.p + 44);

	if (get64(head.p + 16) != size)
		return err_set(err, ERR_INVALID, "has %llu bytes, not %llu as its head says",
			       (unsigned long long)size, (unsigned long long)get64(head.p + 16));
	if (head_hash(head) != get64(head.p + 24))
		return err_set(err, ERR_INVALID, "its head is damaged");
	t->info.flags = get32(head.p + 32);
	t->info.machine = (uint16_t)get32(head.p + 36);
	t->info.maker = get32(head.p + 168);
	t->info.size = size;
	/* The head has the checksums of all blocks. */
	t->info.hash = get64(head.p + 24);
	t->info.n_skipped = get64(head.p + 56);
	t->info.hidden = (struct symtab_hidden){ get32(head.p + 172), get64(head.p + 176),
						 get64(head.p + 184) };
	t->n_blocks = t->info.n_blocks = get32(head.p + 40);
	if (index > head.size || t->n_blocks > (head.size - index) / INDEX_SIZE || producer > head.size ||
	    producer_size > head.size - producer)
		return err_set(err, ERR_INVALID, "its head is damaged");
	t->index = head.p + index;
	t->info.producer = arena_str(&t->arena,
				     (struct str){ (const char *)head.p + producer, producer_size });
	if (get32(head.p + 80) &&
	    !build_id_set(&t->info.build_id,
			  bytes_of(head.p + 84, MIN(get32(head.p + 80), (uint32_t)BUILD_ID_MAX))))
		return err_set(err, ERR_INVALID, "its build ID is damaged");
	return head_read_sections(t, head, err) < 0 || head_read_reasons(t, head, err) < 0 ? -1 : 0;
}

/* *ret is the size of the whole head, by its fixed part @p. */
static int head_size(const uint8_t *p, uint64_t size, uint32_t *ret, struct err *err)
{
	if (size < HEAD_SIZE || memcmp(p, HEAD_MAGIC, 8) != 0)
		return err_set(err, ERR_INVALID, "not a symbol table");
	if (get32(p + 8) != SYMTAB_VERSION)
		return err_set(err, ERR_INVALID,
			       "symbol table of version %u; this program reads version %u: build it again",
			       get32(p + 8), SYMTAB_VERSION);
	*ret = get32(p + 12);
	if (*ret < HEAD_SIZE || *ret > size || *ret > SYMTAB_MAX_HEAD)
		return err_set(err, ERR_INVALID, "its head has %u bytes", *ret);
	return 0;
}

int symtab_open_mem(struct bytes b, struct symtab **ret, struct err *err)
{
	AUTO(symtab_closep) struct symtab *t = NULL;
	uint32_t size;

	if (head_size(b.p, b.size, &size, err) < 0)
		return -1;
	t = NEW(struct symtab);
	t->bytes = b;
	if (table_head_read(t, bytes_of(b.p, size), b.size, err) < 0)
		return -1;
	t->checked = mem_zalloc(t->n_blocks + 1);
	*ret = TAKE(t);
	return 0;
}

void symtab_close(struct symtab *t)
{
	if (!t)
		return;
	map_done(&t->by_name);
	map_done(&t->by_index);
	arena_done(&t->arena);
	free((void *)t->checked);
	free(t);
}

void symtab_closep(struct symtab **t)
{
	symtab_close(*t);
}

const struct symtab_info *symtab_info(const struct symtab *t)
{
	return &t->info;
}

size_t symtab_block_at(const struct symtab *t, uint64_t addr)
{
	size_t lo = SEARCH(0, t->n_blocks, i, get64(t->index + i * INDEX_SIZE) <= addr);
	return lo - 1;
}

static int block_damaged(size_t i, struct err *err)
{
	return err_set(err, ERR_INVALID, "block %zu is damaged", i);
}

int symtab_block(struct symtab *t, size_t i, struct block *ret, struct err *err)
{
	const uint8_t *row = t->index + i * INDEX_SIZE, *p;
	const struct block_index at = { get64(row), get64(row + 8), get64(row + 16), get32(row + 24),
					get32(row + 28) };
	uint32_t offs[6];

	if (at.size < BLOCK_HEAD || at.size > SYMTAB_MAX_BLOCK || at.off > t->info.size ||
	    at.size > t->info.size - at.off || t->info.size - at.off - at.size < TABLE_PAD)
		return err_set(err, ERR_INVALID, "block %zu ends past the table", i);
	p = t->bytes.p + at.off;
	if (!atomic_load_explicit(&t->checked[i], memory_order_relaxed)) {
		if ((uint32_t)hash64(p, at.size, 0) != at.check)
			return block_damaged(i, err);
		atomic_store_explicit(&t->checked[i], 1, memory_order_relaxed);
	}
	for (int k = 0; k < 6; k++)
		offs[k] = get32(p + 4 * k);
	if (!offs[0] || offs[0] > (at.size - BLOCK_HEAD) / 8 || offs[1] < BLOCK_HEAD + offs[0] * 8 ||
	    offs[2] < offs[1] || offs[3] < offs[2] || offs[4] < offs[3] || offs[4] > at.size ||
	    !block_strings_fit(offs[5], at.size - offs[4]))
		return block_damaged(i, err);
	*ret = (struct block){ .bytes = bytes_of(p, at.size),
			       .first = at.first,
			       .last = at.last,
			       .n_ranges = offs[0],
			       .records = offs[1],
			       .functions = offs[2],
			       .files = offs[3],
			       .strings = offs[4],
			       .n_files = (offs[4] - offs[3]) / 8,
			       .n_strings = offs[5] };
	return 0;
}

void symtab_path(struct str dir, struct str file, struct buf *out)
{
	buf_add_str(out, dir);
	if (dir.size && dir.p[dir.size - 1] != '/')
		buf_add_char(out, '/');
	buf_add_str(out, file);
}
