/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a database's file, compared with their digests (sqlite_digest.c).
 *
 * They are read through SQLite's own file object. Opening the file once more would be a mistake: closing it would
 * release the locks that this process' connections have on it.
 */
#include "db/internal.h"

#include <stdlib.h>

#define VERIFY_PAGES   64    /* read at once */
#define CORRECTED_MOST 1024u /* pages of one check */
#define GUESS_PAGES    64u   /* looked at to know the size of a page */

/* @size bytes at @off; bytes after the end of the file are zeros, which no digest fits. */
static int read_raw(struct db *db, void *p, int size, uint64_t off, struct err *err)
{
	sqlite3_file *f = db_file(db);
	int code = f ? f->pMethods->xRead(f, p, size, (sqlite3_int64)off) : SQLITE_NOTFOUND;

	return code == SQLITE_OK || code == SQLITE_IOERR_SHORT_READ ? 0 : db_fail(db, code, NULL, err);
}

int db_page_read(struct db *db, uint64_t page, uint8_t *ret, uint32_t size, struct err *err)
{
	return read_raw(db, ret, (int)size, (page - 1) * size, err);
}

int db_pages(struct db *db, struct db_pages *ret, struct err *err)
{
	uint8_t start[DB_HEADER_START];
	struct db_header h;

	*ret = (struct db_pages){ 0 };
	if (!db_file(db))
		return 0;
	if (read_raw(db, start, sizeof(start), 0, err) < 0)
		return -1;
	db_header_read(start, &h);
	if (h.has_magic && h.page_size)
		*ret = (struct db_pages){ h.page_size, h.n_pages, h.has_digests };
	return 0;
}

int db_pages_check(struct db *db, uint64_t from, uint64_t n, uint64_t *ret_page, struct err *err)
{
	AUTO(mem_freep) uint8_t *pages = NULL;
	struct db_pages x;

	*ret_page = 0;
	if (db_pages(db, &x, err) < 0)
		return -1;
	if (!x.has_digests || from > x.n)
		return 0;
	n = MIN(n, x.n - from + 1);
	pages = mem_alloc((size_t)VERIFY_PAGES * x.size);
	for (uint64_t done = 0; done < n; done += VERIFY_PAGES) {
		uint64_t some = MIN(n - done, (uint64_t)VERIFY_PAGES);

		if (read_raw(db, pages, (int)(some * x.size), (from + done - 1) * x.size, err) < 0)
			return -1;
		for (uint64_t i = 0; i < some; i++)
			if (!db_page_is_sound(pages + i * x.size, x.size, from + done + i) &&
			    from + done + i != db_unused_page(x.size)) {
				*ret_page = from + done + i;
				return 0;
			}
	}
	return 0;
}

/* How many of the first pages of @size bytes fit their digests. */
static unsigned count_sound_pages(struct db *db, uint8_t *p, uint32_t size, uint64_t n)
{
	unsigned n_sound = 0;

	for (uint64_t page = 2; page <= MIN(n, (uint64_t)GUESS_PAGES); page++)
		n_sound += db_page_read(db, page, p, size, NULL) == 0 && db_page_is_sound(p, size, page);
	return n_sound;
}

void db_pages_guess(struct db *db, struct db_pages *ret)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(DB_PAGE_MOST);
	sqlite3_file *f = db_file(db);
	sqlite3_int64 size = 0;
	unsigned most = 0;

	/* Without digests the first page tells. */
	if (db_pages(db, ret, NULL) < 0)
		*ret = (struct db_pages){ 0 };
	if (!f || f->pMethods->xFileSize(f, &size) != SQLITE_OK)
		return;
	if (ret->size)
		ret->n = (uint64_t)size / ret->size;
	for (uint32_t n = DB_PAGE_LEAST; n <= DB_PAGE_MOST; n *= 2) {
		unsigned n_sound = count_sound_pages(db, p, n, (uint64_t)size / n);

		if (n_sound > most) {
			most = n_sound;
			*ret = (struct db_pages){ n, (uint64_t)size / n, true };
		}
	}
}

/* A damaged header may not say that pages have digests. */
static int check_first_page(struct db *db, uint64_t *ret_bad)
{
	AUTO(mem_freep) uint8_t *p = NULL;
	struct db_pages x;

	db_pages_known(db, &x);
	if (!x.has_digests)
		return 0;
	p = mem_alloc(x.size);
	if (db_page_read(db, 1, p, x.size, NULL) < 0)
		return -1;
	*ret_bad = !db_page_is_sound(p, x.size, 1);
	return 0;
}

static bool page_differs(struct db *db, uint64_t page)
{
	uint64_t bad = 0;
	int r = page == 1 ? check_first_page(db, &bad) : db_pages_check(db, page, 1, &bad, NULL);

	return r == 0 && bad;
}

/*
 * db_wal_has() copies the WAL if it can: then the page may be right, or have the mark of a damaged frame. Without it, the
 * first page in a damaged frame would look sound, and yet keep everybody from opening the database.
 */
bool db_page_is_damaged(struct db *db, uint64_t page)
{
	return !db_wal_has(db, page) && page_differs(db, page);
}

void db_page_copy(struct db *db, uint64_t page, uint8_t *ret, size_t room, size_t *ret_size)
{
	struct db_pages x;

	*ret_size = 0;
	if (db_pages(db, &x, NULL) == 0 && x.size && x.size <= room && page && page <= x.n &&
	    db_page_read(db, page, ret, x.size, NULL) == 0)
		*ret_size = x.size;
}

int db_check(struct db *db, uint64_t max_size, unsigned *ret_n_corrected, struct err *err)
{
	struct err local = { 0 };
	uint64_t from = 1, page = 0, bad = 0;
	struct db_pages x;
	unsigned none;
	int r = 0;

	ret_n_corrected = ret_n_corrected ? ret_n_corrected : &none;
	*ret_n_corrected = 0;
	err = err ? err : &local;
	err->kind = ERR_NONE;
	/*
	 * Pages of a transaction that was cut off may be half written; the WAL has them. If it has the first page, SQLite does
	 * not read that of the file, whose header may be damaged and say that pages have no digests.
	 */
	if (db_wal_truncate(db, 0, err) != 0)
		return err->kind == ERR_DAMAGED ? -1 : 0;
	if (db_pages(db, &x, err) < 0 || !x.has_digests || x.n * x.size > max_size)
		return 0;
	/* Also after a page that cannot be corrected: the repair has less to give up. */
	while (r >= 0) {
		page = 0;
		if (db_pages(db, &x, err) < 0 || db_pages_check(db, from, x.n, &page, err) < 0 || !page ||
		    *ret_n_corrected == CORRECTED_MOST)
			break;
		r = db_page_correct(db, page, err);
		*ret_n_corrected += r == 1;
		bad = r != 1 && !bad ? page : bad;
		from = r == 1 ? page : page + 1;
	}
	bad = bad ? bad : page;
	return bad ? err_set(err, ERR_DAMAGED, "page %llu is damaged", (unsigned long long)bad) : 0;
}
