/* SPDX-License-Identifier: Apache-2.0 */
/* Damage of a database's file: an answer is right, or there is an error. LODE_FLIPS=N for more than some hundred. */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/file.h"
#include "db/internal.h"

#define ROWS  400
#define FLIPS 400

struct digest_fixture {
	char dir[TEST_PATH_SIZE];
	char path[TEST_PATH_SIZE + 16];
	struct buf whole;
};

static void write_whole(const struct digest_fixture *f, size_t size)
{
	static const char *const beside[] = { "-wal", "-shm" };

	test_file_write(f->path, f->whole.p, size);
	for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
		AUTO(mem_freep) char *path = mem_printf("%s%s", f->path, beside[i]);

		unlink(path);
	}
}

static void fill(const struct digest_fixture *f, const struct db_options *o)
{
	static const struct db_migration one = { "CREATE TABLE a (x INTEGER PRIMARY KEY, y INTEGER, z BLOB);"
						 "CREATE INDEX b ON a (y, x)" };
	struct err err = { 0 };
	struct db_stmt *s;
	struct db *db;

	assert_done(db_open(f->path, o, &db, &err));
	assert_done(db_migrate(db, &one, 1, &err));
	assert_done(db_begin(db, &err));
	for (int i = 0; i < ROWS; i++) {
		uint8_t blob[300];

		test_fill(blob, sizeof(blob), (uint32_t)i);
		assert_done(db_prepare(db, "INSERT INTO a VALUES (?, ?, ?)", &s, &err));
		db_bind_i64(s, 1, i);
		db_bind_i64(s, 2, ROWS - i);
		db_bind_bytes(s, 3, bytes_of(blob, sizeof(blob)));
		assert_int_equal(db_step(s, &err), DB_DONE);
	}
	assert_done(db_commit(db, &err));
	db_close(db);
}

static int set_up(void **state)
{
	struct digest_fixture *f = NEW(struct digest_fixture);
	struct err err = { 0 };

	test_dir_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/x.db", f->dir);
	fill(f, &(struct db_options){ .create = true });
	assert_done(file_read(f->path, MIB(8), &f->whole, &err));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct digest_fixture *f = *state;

	test_dir_remove(f->dir);
	buf_done(&f->whole);
	free(f);
	return 0;
}

/* Sums that depend on every value, of the table and of the index. */
static int read_all(const struct digest_fixture *f, int64_t ret[2], struct err *err)
{
	static const char *const sql[] = { "SELECT x, y, z FROM a",
					   "SELECT x, y FROM a INDEXED BY b WHERE y > 0" };
	struct db_stmt *s;
	struct db *db = NULL;
	int r = db_open(f->path, &(struct db_options){ 0 }, &db, err);

	for (size_t k = 0; r == 0 && k < 2; k++) {
		uint64_t sum = 0;

		if (db_prepare(db, sql[k], &s, err) < 0) {
			r = -1;
			break;
		}
		while ((r = db_step(s, err)) == DB_ROW) {
			struct bytes z = k ? bytes_of(NULL, 0) : db_bytes(s, 2);

			sum += hash64(z.p ? z.p : (const uint8_t *)"", z.size,
				      (uint64_t)db_i64(s, 0) << 32 | (uint64_t)db_i64(s, 1));
		}
		db_reset(s);
		ret[k] = (int64_t)sum;
	}
	db_close(db);
	return r;
}

static void no_answer_comes_from_a_damaged_page(void **state)
{
	struct digest_fixture *f = *state;
	const char *more = getenv("LODE_FLIPS");
	int64_t right[2], got[2];
	struct err err = { 0 };
	int n_right = 0, n_flips = more ? atoi(more) : FLIPS;

	assert_done(read_all(f, right, &err));
	for (int i = 0; i < n_flips; i++) {
		uint64_t random[2];
		size_t at;

		test_fill(random, sizeof(random), (uint32_t)i);
		/* The header of the file more often than by chance. */
		at = random[0] % (i % 8 ? f->whole.size : 100);
		f->whole.p[at] ^= (uint8_t)(1u << random[1] % 8);
		write_whole(f, f->whole.size);
		if (read_all(f, got, &err) == 0) {
			if (got[0] != right[0] || got[1] != right[1])
				fail_msg("byte %zu, bit %u: a wrong answer", at, (unsigned)(random[1] % 8));
			n_right++;
		} else {
			assert_int_equal(err.kind, ERR_DAMAGED);
		}
		f->whole.p[at] ^= (uint8_t)(1u << random[1] % 8);
	}
	/* Some flips are in pages that no query reads. */
	assert_true(n_right < n_flips / 4);
}

static void no_answer_comes_from_a_file_that_was_cut_or_zeroed(void **state)
{
	struct digest_fixture *f = *state;
	int64_t right[2], got[2];
	struct err err = { 0 };

	assert_done(read_all(f, right, &err));
	for (size_t size = 1; size < f->whole.size; size += size < 8192 ? 500 : 3001) {
		write_whole(f, size);
		if (read_all(f, got, &err) == 0)
			fail_msg("cut to %zu of %zu bytes: no error", size, f->whole.size);
		assert_int_equal(err.kind, ERR_DAMAGED);
	}
	for (size_t at = 0; at < f->whole.size; at += 4096) {
		uint8_t page[4096];
		int r;

		memcpy(page, f->whole.p + at, sizeof(page));
		memset(f->whole.p + at, 0, sizeof(page));
		write_whole(f, f->whole.size);
		r = read_all(f, got, &err);
		assert_true(r < 0 || (got[0] == right[0] && got[1] == right[1]));
		memcpy(f->whole.p + at, page, sizeof(page));
	}
}

static void insert_rows(struct db *db, int from, int n)
{
	struct err err = { 0 };
	struct db_stmt *s;

	for (int i = from; i < from + n; i++) {
		assert_done(db_prepare(db, "INSERT INTO a VALUES (?, ?, zeroblob(300))", &s, &err));
		db_bind_i64(s, 1, i);
		db_bind_i64(s, 2, i);
		assert_int_equal(db_step(s, &err), DB_DONE);
	}
}

/* The root of a new table takes the place of a page that the same transaction has added, which is in no file yet. */
static void a_table_is_made_after_inserts_in_one_transaction(void **state)
{
	struct digest_fixture *f = *state;
	struct err err = { 0 };
	struct db *db;
	int64_t n;

	for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
		AUTO(mem_freep)
		char *sql = mem_printf("CREATE TABLE c%d (x INTEGER PRIMARY KEY, y)", checkpoint);

		write_whole(f, f->whole.size);
		unlink(f->path);
		assert_done(db_open(f->path, &(struct db_options){ .create = true }, &db, &err));
		assert_done(db_exec(db, "CREATE TABLE a (x INTEGER PRIMARY KEY, y INTEGER, z BLOB)", &err));
		if (checkpoint)
			assert_done(db_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", &err));
		assert_done(db_begin(db, &err));
		insert_rows(db, 0, ROWS);
		assert_done(db_exec(db, sql, &err));
		assert_done(db_commit(db, &err));
		assert_done(db_check(db, MIB(64), NULL, &err));
		assert_done(db_get_i64(db, "SELECT count(*) FROM a", &n, &err));
		assert_int_equal(n, ROWS);
		db_close(db);
	}
}

/* Pages that are in the WAL are no reason to take the others, which are gone, for zeros. */
static void a_cut_beside_a_wal_is_damage(void **state)
{
	struct digest_fixture *f = *state;
	struct err err = { 0 };
	struct db *writer, *db;
	int64_t n;

	assert_done(db_open(f->path, &(struct db_options){ 0 }, &writer, &err));
	assert_done(db_begin(writer, &err));
	insert_rows(writer, ROWS, ROWS);
	assert_done(db_commit(writer, &err));
	assert_int_equal(truncate(f->path, (off_t)f->whole.size / 4), 0);
	assert_done(db_open(f->path, &(struct db_options){ 0 }, &db, &err));
	assert_fails(db_get_i64(db, "SELECT sum(length(z)) FROM a", &n, &err), ERR_DAMAGED, "damaged");
	db_abandon(db);
	db_abandon(writer);
	db_close(db);
	db_close(writer);
}

static void write_byte(const char *path, size_t at, uint8_t byte)
{
	AUTO(fd_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
	struct err err = { 0 };

	assert_true(fd >= 0);
	assert_done(fd_pwrite(fd, &byte, 1, at, &err));
}

/* A checkpoint takes the damage to the file, where it is found, too. */
static void no_answer_comes_from_a_damaged_frame(void **state)
{
	struct digest_fixture *f = *state;
	AUTO(mem_freep) char *path = mem_printf("%s-wal", f->path);
	AUTO(buf_done) struct buf wal = { 0 };
	struct db_pages pages;
	struct err err = { 0 };
	struct db *writer;
	int64_t right[2], is[2];
	uint64_t n_failed = 0, bad, last = 0;
	size_t frame;

	assert_done(db_open(f->path, &(struct db_options){ 0 }, &writer, &err));
	for (int i = 0; i < 10; i++) {
		assert_done(db_begin(writer, &err));
		insert_rows(writer, ROWS * (i + 1), 20);
		assert_done(db_commit(writer, &err));
	}
	assert_done(read_all(f, right, &err));
	assert_done(db_pages(writer, &pages, &err));
	frame = pages.size + DB_FRAME_HEADER;
	assert_done(file_read(path, MIB(16), &wal, &err));
	for (size_t i = 0; DB_WAL_HEADER + (i + 1) * frame <= wal.size; i++)
		for (size_t at = DB_FRAME_HEADER + i % 7; at < frame - DIGEST_SIZE; at += 501) {
			size_t off = DB_WAL_HEADER + i * frame + at;

			write_byte(path, off, wal.p[off] ^ 1);
			memset(&err, 0, sizeof(err));
			if (read_all(f, is, &err) == 0) {
				assert_memory_equal(is, right, sizeof(is));
			} else {
				assert_int_equal(err.kind, ERR_DAMAGED);
				n_failed++;
				last = off;
			}
			write_byte(path, off, wal.p[off]);
		}
	assert_true(n_failed > 0);
	memset(&err, 0, sizeof(err));
	assert_done(read_all(f, is, &err));
	assert_memory_equal(is, right, sizeof(is));
	write_byte(path, last, wal.p[last] ^ 1);
	assert_done(db_checkpoint(writer, &err));
	assert_done(db_pages(writer, &pages, &err));
	assert_done(db_pages_check(writer, 1, pages.n, &bad, &err));
	assert_true(bad != 0);
	assert_fails(read_all(f, is, &err), ERR_DAMAGED, "damaged");
	db_close(writer);
}

/* It writes over its own frames, whose check sums are computed when it commits. */
static void a_transaction_that_is_larger_than_the_cache_is_no_damage(void **state)
{
	struct digest_fixture *f = *state;
	struct err err = { 0 };
	int64_t sums[2], n;
	struct db *db;

	assert_done(db_open(f->path, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, "PRAGMA cache_size = 5", &err));
	for (int i = 0; i < 4; i++) {
		assert_done(db_begin(db, &err));
		insert_rows(db, ROWS, ROWS);
		for (int k = 0; k < 3; k++) {
			assert_done(db_exec(db, "SAVEPOINT one; UPDATE a SET y = y + 1, z = zeroblob(200)",
					    &err));
			assert_done(db_get_i64(db, "SELECT sum(length(z)) FROM a", &n, &err));
			assert_int_equal(n, 200 * 2 * ROWS);
			assert_done(
				db_exec(db, k == 1 ? "ROLLBACK TO one; RELEASE one" : "RELEASE one", &err));
			assert_done(db_exec(db, "UPDATE a SET z = zeroblob(100 + x % 50)", &err));
			assert_done(db_get_i64(db, "SELECT sum(y + length(z)) FROM a", &n, &err));
		}
		assert_done(db_exec(db, "DELETE FROM a WHERE x >= 400", &err));
		if (i % 2)
			assert_done(db_commit(db, &err));
		else
			db_rollback(db);
		assert_done(read_all(f, sums, &err));
	}
	assert_done(db_check(db, MIB(64), NULL, &err));
	db_close(db);
}

/* As many as one check corrects, and the rest is sound. */
static void the_last_page_that_is_corrected_is_no_damage(void **state)
{
	struct digest_fixture *f = *state;
	const size_t size = 512, n_pages = 1024;
	struct err err = { 0 };
	unsigned n = 0;
	struct db *db;

	unlink(f->path);
	fill(f, &(struct db_options){ .create = true, .page_size = size });
	assert_done(db_open(f->path, &(struct db_options){ 0 }, &db, &err));
	insert_rows(db, ROWS, 2000);
	db_close(db);
	f->whole.size = 0;
	assert_done(file_read(f->path, MIB(8), &f->whole, &err));
	assert_true(f->whole.size > (n_pages + 2) * size);
	for (size_t i = 1; i <= n_pages; i++)
		f->whole.p[i * size + 100] ^= 4;
	write_whole(f, f->whole.size);
	assert_done(db_open(f->path, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_check(db, MIB(64), &n, &err));
	assert_int_equal(n, n_pages);
	assert_done(db_check(db, MIB(64), &n, &err));
	assert_int_equal(n, 0);
	db_close(db);
}

/* One process may have the file open when another makes the database in it. */
static void all_connections_write_digests(void **state)
{
	struct digest_fixture *f = *state;
	struct err err = { 0 };
	struct db *a, *b;
	int64_t got[2];

	unlink(f->path);
	assert_done(db_open(f->path, &(struct db_options){ .create = true }, &a, &err));
	fill(f, &(struct db_options){ .create = true });
	assert_done(db_open(f->path, &(struct db_options){ 0 }, &b, &err));
	for (int i = 0; i < 50; i++)
		assert_done(db_exec(i % 2 ? a : b,
				    "UPDATE a SET y = y + 1 WHERE x % 7 = 0; PRAGMA wal_checkpoint(TRUNCATE)",
				    &err));
	db_close(a);
	db_close(b);
	assert_done(read_all(f, got, &err));
}

/* As an older version made it. */
static void make_older(const struct digest_fixture *f)
{
	sqlite3 *sq = NULL;

	unlink(f->path);
	assert_int_equal(sqlite3_open_v2(f->path, &sq, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
			 SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(sq,
			     "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
			     "CREATE TABLE a (x INTEGER PRIMARY KEY, y INTEGER, z BLOB); CREATE INDEX b ON a "
			     "(y, x);"
			     "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
			     "INSERT INTO a SELECT i, 1000 - i, randomblob(300) FROM n",
			     NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(sq);
}

/* All connections that are open write and compare them from then on. */
static void a_database_without_digests_gets_them(void **state)
{
	struct digest_fixture *f = *state;
	struct err err = { 0 };
	int64_t right[2], got[2];
	struct db_pages x;
	struct db *a, *b;

	make_older(f);
	assert_done(read_all(f, right, &err));
	assert_done(db_open(f->path, &(struct db_options){ 0 }, &a, &err));
	assert_done(db_open(f->path, &(struct db_options){ 0 }, &b, &err));
	assert_done(db_pages(a, &x, &err));
	assert_false(x.has_digests);
	assert_done(db_exec(b, "UPDATE a SET y = y WHERE x = 1", &err));
	db_reserve(a, DIGEST_SIZE);
	assert_done(db_exec(a, "VACUUM", &err));
	for (int i = 0; i < 20; i++)
		assert_done(db_exec(
			i % 2 ? a : b,
			i % 3 ? "UPDATE a SET z = z WHERE x = 77; UPDATE a SET y = y + 1 WHERE x = 3; "
				"UPDATE a SET y = y - 1 WHERE x = 3"
			      : "PRAGMA wal_checkpoint(TRUNCATE)",
			&err));
	assert_done(db_exec(b, "PRAGMA wal_checkpoint(TRUNCATE)", &err));
	assert_done(db_pages(b, &x, &err));
	assert_true(x.has_digests);
	assert_done(db_check(b, MIB(64), NULL, &err));
	db_close(a);
	db_close(b);
	assert_done(read_all(f, got, &err));
	assert_memory_equal(got, right, sizeof(right));
}

struct raw_count {
	uint64_t n_used, n_free;
};

static int count_raw(void *arg, const struct db_raw_row *row, struct err *err)
{
	struct raw_count *n = arg;

	(void)err;
	assert_true(row->is_sound);
	n->n_used += !row->is_free;
	n->n_free += row->is_free;
	return 0;
}

static struct raw_count raw_rows(const struct digest_fixture *f)
{
	struct raw_count n = { 0 };
	struct err err = { 0 };
	struct db_pages x;
	struct db *db;

	assert_done(
		db_open(f->path, &(struct db_options){ .read_only = true, .pages_only = true }, &db, &err));
	db_pages_guess(db, &x);
	assert_true(x.has_digests);
	for (uint64_t page = 2; page <= x.n; page++)
		assert_done(db_raw_rows(db, &x, page, count_raw, &n, &err));
	db_close(db);
	return n;
}

static void rows_of_free_pages_are_known(void **state)
{
	/* So that there are several pages of the map. */
	const struct db_options o = { .create = true, .page_size = 512 };
	enum { MAP_PAGE = 2, PAGES_OF_MAP = 101, ROWS_OF_PAGE = 4 };
	struct digest_fixture *f = *state;
	struct raw_count n, without;
	struct err err = { 0 };
	struct db *db;
	int64_t rows;

	unlink(f->path);
	assert_done(db_open(f->path, &o, &db, &err));
	/* Debian's SQLite overwrites free pages. */
	assert_done(db_exec(db, "PRAGMA secure_delete = OFF", &err));
	assert_done(
		db_exec(db,
			"CREATE TABLE t (x INTEGER PRIMARY KEY, y BLOB);"
			"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
			"INSERT INTO t SELECT i, randomblob(90) FROM n;"
			"CREATE TABLE gone (x INTEGER PRIMARY KEY, y BLOB); INSERT INTO gone SELECT * FROM t;"
			"PRAGMA wal_checkpoint(TRUNCATE);"
			"DELETE FROM gone; DELETE FROM t WHERE x BETWEEN 100 AND 1300 OR x % 9 = 0;"
			"PRAGMA wal_checkpoint(TRUNCATE)",
			&err));
	assert_done(db_get_i64(db, "SELECT count(*) FROM t", &rows, &err));
	db_close(db);
	n = raw_rows(f);
	assert_int_equal(n.n_used, rows);
	assert_true(n.n_free > 1000);
	/* Those of the first page of the map are not known if it is damaged. */
	f->whole.size = 0;
	assert_done(file_read(f->path, MIB(16), &f->whole, &err));
	f->whole.p[(MAP_PAGE - 1) * o.page_size + 300] ^= 0x11;
	write_whole(f, f->whole.size);
	without = raw_rows(f);
	/* One wrong byte is corrected. */
	assert_int_equal(without.n_used, n.n_used);
	f->whole.p[(MAP_PAGE - 1) * o.page_size + 200] ^= 0x11;
	write_whole(f, f->whole.size);
	without = raw_rows(f);
	assert_int_equal(without.n_used + without.n_free, n.n_used + n.n_free);
	assert_in_range(without.n_used - n.n_used, 1, ROWS_OF_PAGE * PAGES_OF_MAP);
}

/* Otherwise a row that was moved would be there twice, once as it was before. */
static void a_file_that_a_wal_makes_shorter_is_cut(void **state)
{
	const struct db_options o = { .create = true, .page_size = 512 };
	const struct db_options pages_only = { .read_only = true, .pages_only = true };
	struct digest_fixture *f = *state;
	struct raw_count n;
	struct err err = { 0 };
	struct db_pages x;
	int64_t n_rows, n_pages;
	struct db *db;

	unlink(f->path);
	assert_done(db_open(f->path, &o, &db, &err));
	assert_done(
		db_exec(db,
			"CREATE TABLE gone (x INTEGER PRIMARY KEY, y BLOB);"
			"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
			"INSERT INTO gone SELECT i, randomblob(90) FROM n;"
			"CREATE TABLE t (x INTEGER PRIMARY KEY, y BLOB); INSERT INTO t SELECT * FROM gone;"
			"DELETE FROM gone; PRAGMA wal_checkpoint(TRUNCATE);"
			"PRAGMA incremental_vacuum; UPDATE t SET y = randomblob(90)",
			&err));
	assert_done(db_get_i64(db, "SELECT count(*) FROM t", &n_rows, &err));
	assert_done(db_get_i64(db, "PRAGMA page_count", &n_pages, &err));
	db_abandon(db);
	db_close(db);
	assert_done(db_open(f->path, &pages_only, &db, &err));
	db_pages_guess(db, &x);
	assert_true(x.n > (uint64_t)n_pages);
	assert_done(db_wal_write_back(f->path, &x, &err));
	db_pages_guess(db, &x);
	db_close(db);
	assert_int_equal(x.n, n_pages);
	n = raw_rows(f);
	assert_int_equal(n.n_used, n_rows);
}

static void put_page(const struct digest_fixture *f, uint8_t *page, uint32_t size, uint64_t number)
{
	AUTO(fd_close) int fd = open(f->path, O_WRONLY | O_CLOEXEC);
	struct err err = { 0 };

	db_page_put_digest(page, size, number);
	assert_done(fd_pwrite(fd, page, size, (number - 1) * size, &err));
}

static uint64_t bad_page_of(const struct digest_fixture *f, uint64_t from, uint64_t n)
{
	struct err err = { 0 };
	struct db *db;
	uint64_t bad;

	assert_done(
		db_open(f->path, &(struct db_options){ .read_only = true, .pages_only = true }, &db, &err));
	assert_done(db_pages_check(db, from, n, &bad, &err));
	db_close(db);
	return bad;
}

/* A file of more than 1 GiB, most of it a hole. */
static void the_page_that_sqlite_leaves_out_is_no_damage(void **state)
{
	struct digest_fixture *f = *state;
	const uint32_t size = 4096, unused = (1u << 30) / size + 1;
	AUTO(mem_freep) uint8_t *page = mem_alloc(size);

	memcpy(page, f->whole.p, size);
	db_store_be(page + 28, unused + 1); /* pages in the header */
	put_page(f, page, size, 1);
	memset(page, 7, size);
	put_page(f, page, size, unused + 1);
	assert_int_equal(bad_page_of(f, unused, 2), 0);
	assert_int_equal(bad_page_of(f, unused - 1, 1), unused - 1);
	assert_int_equal(truncate(f->path, (off_t)unused * size), 0);
	assert_int_equal(bad_page_of(f, unused, 2), unused + 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(no_answer_comes_from_a_damaged_page),
		T(no_answer_comes_from_a_file_that_was_cut_or_zeroed),
		T(a_table_is_made_after_inserts_in_one_transaction),
		T(a_cut_beside_a_wal_is_damage),
		T(no_answer_comes_from_a_damaged_frame),
		T(a_transaction_that_is_larger_than_the_cache_is_no_damage),
		T(the_last_page_that_is_corrected_is_no_damage),
		T(all_connections_write_digests),
		T(a_database_without_digests_gets_them),
		T(a_file_that_a_wal_makes_shorter_is_cut),
		T(rows_of_free_pages_are_known),
		T(the_page_that_sqlite_leaves_out_is_no_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
