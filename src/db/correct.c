/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Correcting a page with a wrong byte. Memory, cables and disks mostly fail by a bit, and the digest of a page has 64: of
 * all pages that differ from the damaged one in so little only the one that was written has it. So the damage is undone,
 * whatever the page is for, and nothing has to be repaired.
 */
#include "db/internal.h"

#include <stdlib.h>

#define WRONG_BYTES 2 /* at most, of 8 adjacent ones */

/* Nearly the right digest is that of the right page: it is damaged itself. */
static bool digest_is_wrong(uint64_t is, uint64_t right)
{
	uint64_t diff = is ^ right;
	unsigned n = 0;

	for (unsigned i = 0; i < DIGEST_SIZE; i++)
		n += (diff >> 8 * i & 0xff) != 0;
	return n <= WRONG_BYTES;
}

bool db_page_find(uint8_t *p, uint32_t size, uint64_t page)
{
	uint64_t digest;

	memcpy(&digest, p + size - DIGEST_SIZE, sizeof(digest));
	digest = le64toh(digest);
	return digest_is_wrong(digest, db_page_digest(p, size, page)) ||
	       (hash64_correct(p, size - DIGEST_SIZE, page, digest, WRONG_BYTES) &&
		db_page_is_sound(p, size, page));
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

int db_page_correct(struct db *db, uint64_t page, struct err *err)
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
	if (!db_page_find(p, x.size, page))
		return 0;
	return write_page(db, p, x.size, page, err) < 0 ? -1 : 1;
}
