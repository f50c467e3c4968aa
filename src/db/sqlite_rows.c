/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of one leaf page of a table, without the tree that leads to it (https://sqlite.org/fileformat.html, sections
 * 1.6, 1.8 and 2.1): when a page that holds others together is damaged, these are still there.
 *
 * Nothing in the page is trusted. Each cell is read by itself, so a damaged one costs its own row at most; whether a row
 * is right, and still of the table, is for the caller to check.
 */
#include "db/internal.h"

#include <stdlib.h>

/* Of the pointer map, which has an entry for each page. */
enum { MAP_ENTRY = 5, MAP_FREE = 2 };
enum { LEAF_TABLE = 13, LEAF_HEADER = 8, VARINT_MOST = 9, CHAIN_LINK = 4 };
/* Types of values in a record. */
enum { TYPE_NULL = 0, TYPE_REAL = 7, TYPE_ZERO = 8, TYPE_ONE = 9, TYPE_BYTES = 12 };

struct raw_leaf {
	struct db *db;
	const struct db_pages *pages;
	uint32_t usable; /* bytes of a page without its digest */
	uint64_t left;   /* bytes that its rows may still have on other pages: rows do not share pages */
	bool is_sound;   /* the leaf */
	bool is_free;    /* likewise */
	uint8_t *page, *other;
	struct buf payload;
};

uint64_t db_load_varint(struct cursor *c)
{
	uint64_t v = 0;

	for (int i = 1; i < VARINT_MOST; i++) {
		uint8_t b = cursor_u8(c);

		v = v << 7 | (b & 0x7f);
		if (!(b & 0x80))
			return v;
	}
	return v << 8 | cursor_u8(c);
}

static int64_t raw_integer(struct bytes b)
{
	uint64_t v = b.size && b.p[0] & 0x80 ? UINT64_MAX : 0;

	for (size_t i = 0; i < b.size; i++)
		v = v << 8 | b.p[i];
	return (int64_t)v;
}

static struct db_raw_value raw_value(uint64_t type, struct cursor *body)
{
	static const uint8_t sizes[TYPE_REAL + 1] = { 0, 1, 2, 3, 4, 6, 8, 8 };

	if (type >= TYPE_BYTES)
		return (struct db_raw_value){ DB_RAW_BYTES, 0, cursor_bytes(body, (type - TYPE_BYTES) / 2) };
	if (type == TYPE_NULL || type == TYPE_REAL || type > TYPE_ONE) {
		(void)cursor_bytes(body, type == TYPE_REAL ? sizes[TYPE_REAL] : 0);
		return (struct db_raw_value){ .kind = DB_RAW_OTHER };
	}
	if (type >= TYPE_ZERO)
		return (struct db_raw_value){ .kind = DB_RAW_INTEGER, .i = type == TYPE_ONE };
	return (struct db_raw_value){ .kind = DB_RAW_INTEGER,
				      .i = raw_integer(cursor_bytes(body, sizes[type])) };
}

/* false: it is no record, or has more columns than a row has room for. */
static bool read_record(struct bytes payload, struct db_raw_row *ret)
{
	struct cursor head = cursor_of(payload), body;
	uint64_t size = db_load_varint(&head), n_read = payload.size - cursor_left(&head);

	if (!cursor_ok(&head) || size < n_read || size > payload.size)
		return false;
	head = cursor_of(bytes_of(payload.p + n_read, size - n_read));
	body = cursor_of(bytes_of(payload.p + size, payload.size - size));
	for (ret->n = 0; cursor_left(&head); ret->n++) {
		if (ret->n == ARRAY_SIZE(ret->v))
			return false;
		ret->v[ret->n] = raw_value(db_load_varint(&head), &body);
		if (!cursor_ok(&head) || !cursor_ok(&body))
			return false;
	}
	return true;
}

/* The part of a payload of @size bytes that is in the leaf itself. */
static uint64_t local_size(uint64_t size, uint32_t usable)
{
	uint64_t most = usable - 35, least = (usable - 12) * 32u / 255 - 23, part;

	if (size <= most)
		return size;
	part = least + (size - least) % (usable - CHAIN_LINK);
	return part <= most ? part : least;
}

/* One with a wrong byte is corrected, and sound. */
static int read_raw_page(const struct raw_leaf *l, uint64_t page, uint8_t *ret, bool *ret_sound,
			 struct err *err)
{
	uint32_t size = l->pages->size;

	if (db_page_read(l->db, page, ret, size, err) < 0)
		return -1;
	*ret_sound = !l->pages->has_digests || db_page_is_sound(ret, size, page) ||
		     db_page_find(ret, size, page);
	return 0;
}

/* Add the @size bytes on the pages from @page on. 1: done; 0: the chain is broken. */
static int read_chain(struct raw_leaf *l, uint64_t page, uint64_t size, bool *ret_sound, struct err *err)
{
	while (size) {
		uint64_t some = MIN(size, (uint64_t)l->usable - CHAIN_LINK);
		bool sound;

		if (!page || page > l->pages->n)
			return 0;
		if (read_raw_page(l, page, l->other, &sound, err) < 0)
			return -1;
		*ret_sound &= sound;
		buf_add(&l->payload, l->other + CHAIN_LINK, some);
		page = db_load_be(l->other);
		size -= some;
	}
	return 1;
}

/* 1: l->payload and @ret have the row; 0: there is none. */
static int read_cell(struct raw_leaf *l, size_t off, struct db_raw_row *ret, struct err *err)
{
	struct cursor c = cursor_of(bytes_of(l->page + off, l->usable - off));
	uint64_t size = db_load_varint(&c), local = local_size(size, l->usable);
	struct bytes here;
	int r;

	ret->id = (int64_t)db_load_varint(&c);
	ret->is_sound = l->is_sound;
	ret->is_free = l->is_free;
	here = cursor_bytes(&c, local);
	if (!cursor_ok(&c) || size - local > l->left)
		return 0;
	l->payload.size = 0;
	buf_add(&l->payload, here.p, here.size);
	if (size > local) {
		struct bytes link = cursor_bytes(&c, CHAIN_LINK);

		if (!cursor_ok(&c))
			return 0;
		l->left -= size - local;
		r = read_chain(l, db_load_be(link.p), size - local, &ret->is_sound, err);
		if (r <= 0)
			return r;
	}
	return read_record(buf_bytes(&l->payload), ret);
}

static int each_cell(struct raw_leaf *l, int (*fn)(void *arg, const struct db_raw_row *row, struct err *err),
		     void *arg, struct err *err)
{
	size_t n = (size_t)l->page[3] << 8 | l->page[4];

	for (size_t i = 0; i < n && LEAF_HEADER + 2 * i + 2 <= l->usable; i++) {
		const uint8_t *at = l->page + LEAF_HEADER + 2 * i;
		size_t off = (size_t)at[0] << 8 | at[1];
		struct db_raw_row row;
		int r = off >= LEAF_HEADER && off < l->usable ? read_cell(l, off, &row, err) : 0;

		if (r < 0 || (r && fn(arg, &row, err) < 0))
			return -1;
	}
	return 0;
}

/* SQLite leaves the rows in a page that is not used any more, and in a leaf that was moved the old ones. */
static int find_free(struct raw_leaf *l, uint64_t page, struct err *err)
{
	uint64_t each = l->usable / MAP_ENTRY + 1, map = (page - 2) / each * each + 2;
	bool sound;

	map += map == db_unused_page(l->pages->size);
	if (map >= page)
		return 0;
	if (read_raw_page(l, map, l->other, &sound, err) < 0)
		return -1;
	l->is_free = sound && l->other[MAP_ENTRY * (page - map - 1)] == MAP_FREE;
	return 0;
}

int db_raw_rows(struct db *db, const struct db_pages *pages, uint64_t page,
		int (*fn)(void *arg, const struct db_raw_row *row, struct err *err), void *arg,
		struct err *err)
{
	struct raw_leaf l = { .db = db, .pages = pages, .left = pages->n * pages->size };
	int r;

	/* The first page has the schema. */
	if (!db_is_page_size(pages->size) || page < 2 || page > pages->n)
		return 0;
	l.usable = pages->size - (pages->has_digests ? DIGEST_SIZE : 0);
	l.page = mem_alloc(pages->size);
	l.other = mem_alloc(pages->size);
	r = read_raw_page(&l, page, l.page, &l.is_sound, err);
	if (r == 0 && l.page[0] == LEAF_TABLE) {
		r = find_free(&l, page, err);
		if (r == 0)
			r = each_cell(&l, fn, arg, err);
	}
	buf_done(&l.payload);
	free(l.other);
	free(l.page);
	return r < 0 ? -1 : 0;
}
