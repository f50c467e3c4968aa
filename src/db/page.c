/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of a database in memory: its digest, its mark, and the header that the first page begins with.
 */
#include "db/internal.h"

#include <stdlib.h>

#define PAGE_SIZE_AT 16
#define RESERVED_AT  20
#define N_PAGES_AT   28
#define MAGIC        "SQLite format 3"
#define FIRST_PAGE   1
#define DAMAGED_MARK UINT64_C(0x646567616d616421) /* instead of a digest, in a WAL */

uint64_t db_page_digest(const uint8_t *page, uint32_t size, uint64_t number)
{
	return hash64(page, size - DIGEST_SIZE, number);
}

bool db_page_is_sound(const uint8_t *page, uint32_t size, uint64_t number)
{
	uint64_t digest;

	memcpy(&digest, page + size - DIGEST_SIZE, sizeof(digest));
	return le64toh(digest) == db_page_digest(page, size, number);
}

void db_header_read(const uint8_t header[DB_HEADER_START], struct db_header *ret)
{
	uint32_t size = (uint32_t)header[PAGE_SIZE_AT] << 8 | header[PAGE_SIZE_AT + 1], n_pages;

	size = size == 1 ? DB_PAGE_MOST : size;
	memcpy(&n_pages, header + N_PAGES_AT, sizeof(n_pages));
	*ret = (struct db_header){
		.has_magic = memcmp(header, MAGIC, sizeof(MAGIC)) == 0,
		.page_size = db_is_page_size(size) ? size : 0,
		.n_pages = be32toh(n_pages),
		.has_digests = header[RESERVED_AT] == DIGEST_SIZE,
	};
}

bool db_page_lost_digests(const uint8_t *page, uint32_t size)
{
	uint8_t *copy = mem_alloc(size);
	bool lost;

	memcpy(copy, page, size);
	copy[RESERVED_AT] = DIGEST_SIZE;
	lost = db_page_is_sound(copy, size, FIRST_PAGE);
	free(copy);
	return lost;
}

void db_page_mark_damaged(uint8_t *page, uint32_t size)
{
	uint64_t mark = htole64(DAMAGED_MARK);

	memcpy(page + size - DIGEST_SIZE, &mark, sizeof(mark));
}

bool db_page_is_marked(const uint8_t *page, uint32_t size)
{
	uint64_t mark;

	memcpy(&mark, page + size - DIGEST_SIZE, sizeof(mark));
	return le64toh(mark) == DAMAGED_MARK;
}

void db_page_put_digest(uint8_t *page, uint32_t size, uint64_t number)
{
	uint64_t digest = htole64(db_page_digest(page, size, number));

	if (db_page_is_marked(page, size))
		digest = ~digest;
	memcpy(page + size - DIGEST_SIZE, &digest, sizeof(digest));
}
