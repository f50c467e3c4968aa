/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Correcting a page with one wrong bit, or byte. Memory, cables and disks mostly fail by one bit, and the digest of a page
 * has 64: of the pages that differ from the damaged one in one byte (two million of 8 KiB) only the one that was written
 * has it. So the damage is undone, whatever the page is for, and nothing has to be repaired.
 */
#include "db/internal.h"

#include <stdlib.h>

/* The digest itself is wrong by no more than one byte, so the page is right: two pages with such digests do not meet. */
static bool digest_is_wrong(const uint8_t *p, uint32_t size, uint64_t page)
{
	uint64_t digest = htole64(db_page_digest(p, size, page));
	const uint8_t *is = p + size - DIGEST_SIZE;
	uint8_t right[DIGEST_SIZE];
	unsigned n = 0;

	memcpy(right, &digest, sizeof(right));
	for (size_t i = 0; i < sizeof(right); i++)
		n += right[i] != is[i];
	return n == 1;
}

static bool try_byte(uint8_t *p, uint32_t size, uint64_t page, uint32_t at, bool bytes)
{
	uint8_t is = p[at];

	for (unsigned k = 1; k < 256; k = bytes ? k + 1 : k * 2) {
		p[at] = is ^ (uint8_t)k;
		if (db_page_is_sound(p, size, page))
			return true;
	}
	p[at] = is;
	return false;
}

static bool find_page(uint8_t *p, uint32_t size, uint64_t page, bool bytes)
{
	if (digest_is_wrong(p, size, page))
		return true;
	for (uint32_t at = 0; at < size - DIGEST_SIZE; at++)
		if (try_byte(p, size, page, at, bytes))
			return true;
	return false;
}

/* Through the layer, which writes the digest. */
static int write_page(struct db *db, const uint8_t *p, uint32_t size, uint64_t page, struct err *err)
{
	sqlite3_file *f = NULL;
	int code = sqlite3_file_control(db->sq, "main", SQLITE_FCNTL_FILE_POINTER, &f);

	if (code == SQLITE_OK)
		code = f->pMethods->xWrite(f, p, (int)size, (sqlite3_int64)((page - 1) * size));
	if (code == SQLITE_OK)
		code = f->pMethods->xSync(f, SQLITE_SYNC_NORMAL);
	return code == SQLITE_OK ? 0 : db_fail(db, code, NULL, err);
}

int db_page_correct(struct db *db, uint64_t page, bool bytes, struct err *err)
{
	AUTO(mem_freep) uint8_t *p = NULL;
	struct db_pages x;

	db_pages_known(db, &x);
	if (!x.has_digests || !page || page > x.n)
		return 0;
	p = mem_alloc(x.size);
	if (db_page_read(db, page, p, x.size, err) < 0)
		return -1;
	if (db_page_is_sound(p, x.size, page))
		return 1;
	if (!find_page(p, x.size, page, bytes))
		return 0;
	return write_page(db, p, x.size, page, err) < 0 ? -1 : 1;
}
