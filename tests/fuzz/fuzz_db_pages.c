/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database's file, its WAL and the index of the WAL from any bytes, [size of the first, four bytes][size of the second,
 * four bytes] before them: checking, the rows of pages and repair of the WAL end, and a repaired WAL is sound.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "db/db.h"

#define MAX_INPUT MIB(1)
#define MAX_PAGES 64

static char dir[64], path[96], wal[128], shm[128], aside[128];

static void remove_all(void)
{
	db_files_remove(path);
	unlink(aside);
}

static void remove_folder(void)
{
	remove_all();
	rmdir(dir);
}

static void make_folder(void)
{
	if (*dir)
		return;
	snprintf(dir, sizeof(dir), "%s/lode-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	FUZZ_CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/x.db", dir);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	snprintf(shm, sizeof(shm), "%s-shm", path);
	snprintf(aside, sizeof(aside), "%s/aside", dir);
	atexit(remove_folder);
}

static int take_row(void *arg, const struct db_raw_row *row, struct err *err)
{
	FUZZ_CHECK(row->n <= DB_RAW_COLUMNS);
	for (size_t i = 0; i < row->n; i++)
		if (row->v[i].kind == DB_RAW_BYTES)
			*(uint64_t *)arg += hash64(row->v[i].b.p, row->v[i].b.size, 0);
	return 0;
}

static void check_pages(void)
{
	struct err err = { 0 };
	uint64_t sum = 0;
	struct db_pages x;
	struct db *db;
	int64_t n;

	if (db_open(path, &(struct db_options){ .read_only = true, .pages_only = true }, &db, &err) == 0) {
		db_pages_guess(db, &x);
		for (uint64_t i = 1; i <= MIN(x.n, (uint64_t)MAX_PAGES); i++)
			(void)db_raw_rows(db, &x, i, take_row, &sum, &err);
		db_close(db);
	}
	if (db_open(path, &(struct db_options){ .busy_timeout_ms = 1 }, &db, &err) == 0) {
		if (db_pages(db, &x, &err) == 0)
			for (uint64_t i = 1; i <= MIN(x.n, (uint64_t)MAX_PAGES); i++)
				(void)db_raw_rows(db, &x, i, take_row, &sum, &err);
		(void)db_get_i64(db, "SELECT count(*) FROM sqlite_schema", &n, &err);
		(void)db_check(db, MIB(1), NULL, &err);
		(void)db_take_bad_page(db);
		db_close(db);
	}
}

/* The file grows by the frames of the WAL at most. */
static void check_write_back(size_t size)
{
	struct err err = { 0 };
	struct db_pages x;
	struct stat st;
	struct db *db;

	if (db_open(path, &(struct db_options){ .read_only = true, .pages_only = true }, &db, &err) < 0)
		return;
	db_pages_guess(db, &x);
	db_close(db);
	(void)db_wal_write_back(path, &x, &err);
	FUZZ_CHECK(stat(path, &st) == 0 && (uint64_t)st.st_size <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
	struct db_wal_damage d;
	struct err err = { 0 };
	uint32_t sizes[2];
	int r;

	if (size < sizeof(sizes) || size > MAX_INPUT)
		return 0;
	make_folder();
	memcpy(sizes, p, sizeof(sizes));
	p += sizeof(sizes);
	size -= sizeof(sizes);
	sizes[0] = (uint32_t)MIN(le32toh(sizes[0]), size);
	sizes[1] = (uint32_t)MIN(le32toh(sizes[1]), size - sizes[0]);
	remove_all();
	FUZZ_CHECK(file_write_durable(path, p, sizes[0], 0600, &err) == 0);
	FUZZ_CHECK(file_write_durable(wal, p + sizes[0], sizes[1], 0600, &err) == 0);
	if (size > sizes[0] + sizes[1])
		FUZZ_CHECK(file_write_durable(shm, p + sizes[0] + sizes[1], size - sizes[0] - sizes[1], 0600,
					      &err) == 0);
	r = db_wal_mend(path, aside, &d, &err);
	FUZZ_CHECK(r >= 0 || err.kind != ERR_NONE);
	if (r == DB_WAL_DAMAGED && d.n_there >= d.frame)
		FUZZ_CHECK(db_wal_mend(path, aside, &d, &err) == DB_WAL_SOUND);
	check_write_back((size_t)sizes[0] + sizes[1]);
	check_pages();
	return 0;
}
