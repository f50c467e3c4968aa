/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of a page: which table or index it belongs to, and which rows it has (https://sqlite.org/fileformat.html,
 * sections 1.6 and 1.8).
 *
 * The page itself is damaged, so the pointer map says of what kind it is and where it hangs; the numbers of its rows are
 * taken from its cells all the same. All of it is read from the file, which may be older than the WAL: the answer is a
 * hint of where to look.
 */
#include "db/internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	MAP_ROOT = 1,
	MAP_FREE,
	MAP_OVERFLOW_FIRST,
	MAP_OVERFLOW,
	MAP_BTREE,
};
enum { INTERIOR_INDEX = 2, INTERIOR_TABLE = 5, LEAF_INDEX = 10, LEAF_TABLE = 13 };

#define MAP_ENTRY     5
#define PENDING_BYTE  0x40000000u
#define FREE_TRUNK_AT 32
#define LARGEST_ROOT  52 /* 0: the file has no pointer map */
#define LEAF_HEADER   8
#define MAX_DEPTH     40
#define MAX_CHAIN     (1u << 20) /* overflow pages of a row, pages of the list of free ones */

struct page_walk {
	struct db *db;
	struct db_pages pages;
	uint8_t *p; /* one page */
};

/* 1: w->p has the page, and it is sound. 0: it is not. */
static int walk_read(struct page_walk *w, uint64_t page, struct err *err)
{
	if (!page || page > w->pages.n)
		return 0;
	if (db_page_read(w->db, page, w->p, w->pages.size, err) < 0)
		return -1;
	return db_page_is_sound(w->p, w->pages.size, page);
}

/* The page of the pointer map that has the entry of @page. */
static uint64_t map_page(const struct page_walk *w, uint64_t page)
{
	uint64_t n = (w->pages.size - DIGEST_SIZE) / MAP_ENTRY + 1, at = (page - 2) / n * n + 2;

	return at == PENDING_BYTE / w->pages.size + 1 ? at + 1 : at;
}

/* 1: the kind and the parent of @page. 0: they are not known. */
static int map_entry(struct page_walk *w, uint64_t page, uint8_t *ret_kind, uint64_t *ret_parent,
		     struct err *err)
{
	uint64_t at;
	size_t off;
	int r;

	if (page < 3)
		return 0;
	at = map_page(w, page);
	if (at >= page)
		return 0;
	r = walk_read(w, at, err);
	if (r <= 0)
		return r;
	off = MAP_ENTRY * (page - at - 1);
	if (off + MAP_ENTRY > w->pages.size - DIGEST_SIZE)
		return 0;
	*ret_kind = w->p[off];
	*ret_parent = db_load_be(w->p + off + 1);
	return 1;
}

/* ---- rows ---- */

void db_page_rows(const uint8_t *page, size_t size, struct db_page_use *ret)
{
	size_t n = (size_t)page[3] << 8 | page[4];

	ret->n_rows = 0;
	for (size_t i = 0; i < n && LEAF_HEADER + 2 * i + 2 <= size && ret->n_rows < DB_PAGE_ROWS_MAX; i++) {
		const uint8_t *at = page + LEAF_HEADER + 2 * i;
		size_t off = (size_t)at[0] << 8 | at[1];
		struct cursor c;
		uint64_t id;

		if (off >= size)
			continue;
		c = cursor_of(bytes_of(page + off, size - off));
		(void)db_load_varint(&c);
		id = db_load_varint(&c);
		if (cursor_ok(&c))
			ret->rows[ret->n_rows++] = (int64_t)id;
	}
}

static int name_of_root(struct page_walk *w, uint64_t root, struct db_page_use *ret, struct err *err)
{
	struct db_stmt *st;
	struct str name;
	int r;

	if (db_prepare(w->db, "SELECT tbl_name FROM sqlite_schema WHERE rootpage = ?", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, (int64_t)root);
	r = db_step(st, err);
	if (r == DB_ROW) {
		name = db_str(st, 0);
		snprintf(ret->table, sizeof(ret->table), STR_FMT, STR_ARG(name));
	}
	db_reset(st);
	return r;
}

/* From a page of a tree up to its root. */
static int find_root(struct page_walk *w, uint64_t page, uint64_t *ret, struct err *err)
{
	*ret = 0;
	for (int i = 0; i < MAX_DEPTH; i++) {
		uint64_t parent;
		uint8_t kind;
		int r = map_entry(w, page, &kind, &parent, err);

		if (r <= 0)
			return r;
		if (kind == MAP_ROOT) {
			*ret = page;
			return 1;
		}
		if (kind != MAP_BTREE)
			return 0;
		page = parent;
	}
	return 0;
}

/* From an overflow page to the page of the tree that has its row. */
static int find_owner(struct page_walk *w, uint64_t *page, struct err *err)
{
	for (uint32_t i = 0; i < MAX_CHAIN; i++) {
		uint64_t parent;
		uint8_t kind;
		int r = map_entry(w, *page, &kind, &parent, err);

		if (r <= 0)
			return r;
		if (kind != MAP_OVERFLOW && kind != MAP_OVERFLOW_FIRST)
			return 0;
		*page = parent;
		if (kind == MAP_OVERFLOW_FIRST)
			return 1;
	}
	return 0;
}

/* Whether a free page has the numbers of other ones; then it is read when a page is taken. -1: not known. */
static int is_trunk(struct page_walk *w, uint64_t page, struct err *err)
{
	uint64_t at = 1;

	for (uint32_t i = 0; i < MAX_CHAIN; i++) {
		int r = walk_read(w, at, err);

		if (r <= 0)
			return -1;
		at = db_load_be(w->p + (i ? 0 : FREE_TRUNK_AT));
		if (at == page || !at)
			return at != 0;
	}
	return -1;
}

static int find_use(struct page_walk *w, uint64_t page, struct db_page_use *ret, struct err *err)
{
	uint64_t leaf = page, parent, root;
	uint8_t kind, type;
	int r = walk_read(w, 1, err);

	if (r <= 0 || !db_load_be(w->p + LARGEST_ROOT))
		return r;
	r = map_entry(w, page, &kind, &parent, err);
	if (r <= 0)
		return r;
	if (kind == MAP_FREE) {
		ret->kind = is_trunk(w, page, err) == 0 ? DB_PAGE_FREE : DB_PAGE_OTHER;
		return 0;
	}
	if (kind == MAP_OVERFLOW || kind == MAP_OVERFLOW_FIRST) {
		r = find_owner(w, &leaf, err);
		if (r <= 0)
			return r;
	}
	r = find_root(w, leaf, &root, err);
	if (r <= 0)
		return r;
	r = name_of_root(w, root, ret, err);
	if (r != DB_ROW)
		return r;
	if (db_page_read(w->db, leaf, w->p, w->pages.size, err) < 0)
		return -1;
	type = w->p[0];
	if (type == LEAF_INDEX || type == INTERIOR_INDEX)
		ret->kind = DB_PAGE_INDEX;
	if (type == LEAF_TABLE) {
		ret->kind = leaf == page ? DB_PAGE_ROWS : DB_PAGE_OVERFLOW;
		db_page_rows(w->p, w->pages.size - DIGEST_SIZE, ret);
	}
	return 0;
}

int db_page_use(struct db *db, uint64_t page, struct db_page_use *ret, struct err *err)
{
	struct page_walk w = { .db = db };
	int r;

	memset(ret, 0, sizeof(*ret));
	if (db_pages(db, &w.pages, err) < 0)
		return -1;
	if (!w.pages.has_digests || page > w.pages.n)
		return 0;
	w.p = mem_alloc(w.pages.size);
	r = find_use(&w, page, ret, err);
	free(w.p);
	return r < 0 ? -1 : 0;
}
