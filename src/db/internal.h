/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by db's own files: the connection, and errors from SQLite.
 */
#pragma once

#include "db/db.h"
#include "db/sqlite_lazy.h"

struct db {
	sqlite3 *sq;
	char *path;            /* as given by the caller, for messages */
	struct map statements; /* by text; owned */
	int64_t deadline_ms;   /* monotonic; 0: none */
	bool read_only;
	int busy_timeout_ms;
	void (*damaged)(void *arg); /* NULL: none */
	void *damaged_arg;
	uint32_t number;           /* the caller's */
	const uint32_t *wal_index; /* its header, mapped by SQLite; NULL: none */
};

void db_find_wal_index(struct db *db);

/* Set @err to the connection's message for @code, after the first words of @sql (NULL: none). Returns -1. */
int db_fail(struct db *db, int code, const char *sql, struct err *err);
#define db_fail(...)                        \
	({                                  \
		(void)db_fail(__VA_ARGS__); \
		-1;                         \
	}) /* see err_set() */

void db_stmt_free(struct db_stmt *s);

/* What tells a new file, one of ours and one of another program apart. */
struct db_schema {
	int64_t application, version, n_tables;
};
/* All three of one snapshot: another process may be migrating the file. */
int db_read_schema(struct db *db, struct db_schema *ret, struct err *err);

/* sqlite_digest.c: the layer that writes and compares digests of pages. */
#define DB_VFS "lode"
void db_register_digests(void);
sqlite3_file *db_file(
	struct db *db); /* the file of the database itself, without the layer; NULL: in memory */
/* While a checkpoint runs: damaged frames are copied, too, marked, so that the WAL can begin anew. */
void db_set_copying(struct db *db, bool on);

/* A size that SQLite allows: a power of two from 512 to 65536. */
#define DB_PAGE_LEAST 512
#define DB_PAGE_MOST  65536
static inline bool db_is_page_size(uint32_t n)
{
	return n >= DB_PAGE_LEAST && n <= DB_PAGE_MOST && (n & (n - 1)) == 0;
}

/* The page, from 1, with the bytes of SQLite's locks on the file: it is never written, and has no digest. */
static inline uint32_t db_unused_page(uint32_t page_size)
{
	return (1u << 30) / page_size + 1;
}

/* page.c: a page in memory; @number from 1. */
#define DIGEST_SIZE 8 /* bytes at the end of a page */
uint64_t db_page_digest(const uint8_t *page, uint32_t size, uint64_t number);
bool db_page_is_sound(const uint8_t *page, uint32_t size, uint64_t number);
/* The first page, without reserved bytes, has a digest that says that there were some. */
bool db_page_lost_digests(const uint8_t *page, uint32_t size);
/* Mark a page of a WAL as damaged, in the bytes of its digest: it never gets a right one. */
void db_page_mark_damaged(uint8_t *page, uint32_t size);
bool db_page_is_marked(const uint8_t *page, uint32_t size);
/* As it is written into the file: a page that is marked gets a digest that is wrong. */
void db_page_put_digest(uint8_t *page, uint32_t size, uint64_t number);

/* The start of a database's file (https://sqlite.org/fileformat.html, section 1.3). */
#define DB_HEADER_START 32 /* bytes of it that have the fields below */
struct db_header {
	bool has_magic;
	uint32_t page_size; /* 0: none that SQLite allows */
	uint32_t n_pages;
	bool has_digests;
};
void db_header_read(const uint8_t header[DB_HEADER_START], struct db_header *ret);

/* The next VACUUM of this connection reserves @n bytes at the end of each page: DIGEST_SIZE, or 0. */
void db_reserve(struct db *db, int n);

/* A WAL, and the header of its index (https://sqlite.org/walformat.html). */
#define DB_WAL_HEADER   32
#define DB_FRAME_HEADER 24
enum { DB_INDEX_PAGE_SIZE = 3, DB_INDEX_LAST_FRAME = 4 }; /* words of the index header */
static inline uint32_t db_index_page_size(const uint32_t *header)
{
	uint16_t half[2];

	memcpy(half, &header[DB_INDEX_PAGE_SIZE], sizeof(half));
	/* 65536 does not fit, and is 1. */
	return half[1] == 1 ? 65536 : half[1];
}

/* The check sum of a frame continues that of the frame before. @big: the order of the bytes in its words. */
struct wal_sum {
	uint32_t s[2];
};
/* wal_file.c */
struct wal_sum wal_sum_of(struct wal_sum s, bool big, const uint8_t *p, size_t size);
static inline bool wal_same_sum(struct wal_sum a, struct wal_sum b)
{
	return a.s[0] == b.s[0] && a.s[1] == b.s[1];
}

/* A number in either file. */
static inline uint32_t db_load_be(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline void db_store_be(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

/* sqlite_rows.c: a variable-length integer of the format: at most 9 bytes, the first ones first. */
uint64_t db_load_varint(struct cursor *c);
/* correct.c: make a page right of which one or two adjacent bytes are wrong; these may be of its digest. false: more is wrong. */
bool db_page_find(uint8_t *p, uint32_t size, uint64_t page); /* @page from 1 */
/* check.c: one page of the file, sound or not. */
int db_page_read(struct db *db, uint64_t page, uint8_t *ret, uint32_t size, struct err *err);

/* sqlite_wal.c: a transaction in the WAL has written this page, and it is not in the file yet. */
bool db_wal_has(struct db *db, uint64_t page);

/* Set WAL mode. Waits, up to the busy time-out, while other processes open the same new file. */
int db_set_wal(struct db *db, struct err *err);
