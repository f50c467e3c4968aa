/* SPDX-License-Identifier: Apache-2.0 */
/* A WAL that a killed process has left, with damage: committed rows are read all the same, or their loss is reported. */
#include "test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "db/db.h"

#define ROWS  40
#define PAGE  4096
#define FRAME (PAGE + 24)

struct wal_fixture {
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 16], wal[TEST_PATH_SIZE + 24],
		shm[TEST_PATH_SIZE + 24], aside[TEST_PATH_SIZE + 24];
	struct buf db_is, wal_is, shm_is; /* as they were left */
};

static _Noreturn void write_and_die(const struct wal_fixture *f)
{
	static const struct db_migration one = { "CREATE TABLE a (x INTEGER PRIMARY KEY, z BLOB)" };
	struct err err = { 0 };
	struct db_stmt *s;
	struct db *db;

	if (db_open(f->path, &(struct db_options){ .create = true, .sync = true, .page_size = PAGE }, &db,
		    &err) < 0 ||
	    db_migrate(db, &one, 1, &err) < 0)
		_exit(1);
	for (int i = 1; i <= ROWS; i++) {
		uint8_t blob[3000];

		test_fill(blob, sizeof(blob), (uint32_t)i);
		if (db_prepare(db, "INSERT INTO a VALUES (?, ?)", &s, &err) < 0)
			_exit(2);
		db_bind_i64(s, 1, i);
		db_bind_bytes(s, 2, bytes_of(blob, sizeof(blob)));
		if (db_step(s, &err) < 0)
			_exit(3);
	}
	_exit(0);
}

static int set_up(void **state)
{
	struct wal_fixture *f = NEW(struct wal_fixture);
	struct err err = { 0 };
	int status;
	pid_t child;

	test_dir_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/x.db", f->dir);
	snprintf(f->wal, sizeof(f->wal), "%s/x.db-wal", f->dir);
	snprintf(f->shm, sizeof(f->shm), "%s/x.db-shm", f->dir);
	snprintf(f->aside, sizeof(f->aside), "%s/aside", f->dir);
	child = fork();
	if (!child)
		write_and_die(f);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_done(file_read(f->path, MIB(8), &f->db_is, &err));
	assert_done(file_read(f->wal, MIB(8), &f->wal_is, &err));
	assert_done(file_read(f->shm, MIB(8), &f->shm_is, &err));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct wal_fixture *f = *state;

	test_dir_remove(f->dir);
	buf_done(&f->db_is);
	buf_done(&f->wal_is);
	buf_done(&f->shm_is);
	free(f);
	return 0;
}

static void put_back(const struct wal_fixture *f, size_t wal_size, bool index)
{
	test_file_write(f->path, f->db_is.p, f->db_is.size);
	test_file_write(f->wal, f->wal_is.p, wal_size);
	unlink(f->shm);
	unlink(f->aside);
	if (index)
		test_file_write(f->shm, f->shm_is.p, f->shm_is.size);
}

static int64_t rows(const struct wal_fixture *f)
{
	struct err err = { 0 };
	int64_t n = 0;
	struct db *db;

	assert_done(db_open(f->path, &(struct db_options){ .unchecked = true }, &db, &err));
	if (db_get_i64(db, "SELECT count(*) FROM a", &n, &err) < 0)
		n = -1;
	db_close(db);
	return n;
}

/* A checkpoint has copied all of the WAL, and the process was killed then. */
static void copy_wal(struct wal_fixture *f)
{
	struct err err = { 0 };
	int status;
	pid_t child;

	test_file_write(f->path, f->db_is.p, f->db_is.size);
	test_file_write(f->wal, f->wal_is.p, f->wal_is.size);
	unlink(f->shm);
	child = fork();
	if (!child) {
		struct db *db;

		if (db_open(f->path, &(struct db_options){ .sync = true }, &db, &err) < 0 ||
		    db_checkpoint(db, &err) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	f->db_is.size = f->wal_is.size = f->shm_is.size = 0;
	assert_done(file_read(f->path, MIB(8), &f->db_is, &err));
	assert_done(file_read(f->wal, MIB(8), &f->wal_is, &err));
	assert_done(file_read(f->shm, MIB(8), &f->shm_is, &err));
}

static int mend(const struct wal_fixture *f, struct db_wal_damage *ret)
{
	struct err err = { 0 };
	int r = db_wal_mend(f->path, f->aside, ret, &err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

static void a_sound_wal_stays(void **state)
{
	struct wal_fixture *f = *state;
	struct db_wal_damage d;

	for (int index = 0; index < 2; index++) {
		put_back(f, f->wal_is.size, index);
		assert_int_equal(mend(f, &d), DB_WAL_SOUND);
		assert_int_equal(rows(f), ROWS);
		assert_int_not_equal(access(f->aside, F_OK), 0);
	}
	unlink(f->wal);
	unlink(f->shm);
	assert_int_equal(mend(f, &d), DB_WAL_SOUND);
}

static void no_commit_is_lost_to_a_flipped_byte(void **state)
{
	struct wal_fixture *f = *state;
	size_t n = (f->wal_is.size - 32) / FRAME;

	for (size_t i = 0; i < n; i++)
		for (int index = 0; index < 2; index++) {
			size_t at = 32 + i * FRAME + (i % 3 == 2 ? i % 24 : 200 + i);
			struct db_wal_damage d;
			int r;

			f->wal_is.p[at] ^= 4;
			put_back(f, f->wal_is.size, index);
			f->wal_is.p[at] ^= 4;
			r = mend(f, &d);
			/* Without the index the last commit may be one that was not synced. */
			if (r == DB_WAL_UNSURE && !index && i + 6 > n)
				continue;
			if (r == DB_WAL_SOUND && !index && i + 6 > n)
				continue;
			if (r != DB_WAL_DAMAGED || d.frame != i + 1 || d.n_there != n)
				fail_msg("frame %zu of %zu, index %d: %d, frame %llu", i + 1, n, index, r,
					 (unsigned long long)d.frame);
			assert_int_equal(access(f->aside, F_OK), 0);
			/* The page itself may be damaged; others are read. */
			if (i % 3 != 2)
				assert_true(rows(f) >= ROWS - 1 || rows(f) == -1);
			put_back(f, f->wal_is.size, index);
		}
}

/* Frames between two damaged ones, and after the last one, continue each other. */
static void no_commit_is_lost_to_bytes_flipped_in_several_places(void **state)
{
	struct wal_fixture *f = *state;
	size_t n = (f->wal_is.size - 32) / FRAME;

	assert_true(n > 60);
	for (size_t first = 5; first < 20; first++) {
		const size_t frames[] = { first, first + 1, first + 15, n - 12 };
		struct db_wal_damage d;
		int r;

		for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
			f->wal_is.p[32 + frames[i] * FRAME + 300] ^= 4;
		put_back(f, f->wal_is.size, false);
		for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
			f->wal_is.p[32 + frames[i] * FRAME + 300] ^= 4;
		r = mend(f, &d);
		if (r != DB_WAL_DAMAGED || d.frame != first + 1 || d.n_there != n)
			fail_msg("frame %zu of %zu: %d, frame %llu of %llu", first + 1, n, r,
				 (unsigned long long)d.frame, (unsigned long long)d.n_there);
	}
}

static void a_damaged_header_hides_nothing(void **state)
{
	struct wal_fixture *f = *state;

	/* Also after a power cut, without the index. */
	for (size_t i = 0; i < 64; i++) {
		struct db_wal_damage d;
		size_t at = i / 2;

		f->wal_is.p[at] ^= 1;
		put_back(f, f->wal_is.size, i % 2);
		f->wal_is.p[at] ^= 1;
		assert_int_equal(mend(f, &d), DB_WAL_DAMAGED);
		assert_int_equal(rows(f), ROWS);
	}
}

/* SQLite would read the frames before the damaged one, which are older than the database. */
static void a_damaged_wal_that_was_copied_costs_nothing(void **state)
{
	struct wal_fixture *f = *state;
	size_t n = (f->wal_is.size - 32) / FRAME;
	struct db_wal_damage d;

	copy_wal(f);
	for (size_t i = 0; i < n; i++)
		for (int index = 0; index < 2; index++) {
			size_t at = 32 + i * FRAME + (i % 3 == 2 ? i % 24 : 200 + i);
			int r;

			f->wal_is.p[at] ^= 4;
			put_back(f, f->wal_is.size, index);
			f->wal_is.p[at] ^= 4;
			r = mend(f, &d);
			/* Without the index, nothing is known of the last frame. The header has the number of the page. */
			if (r != DB_WAL_COPIED && (i % 3 != 2 || i % 24 > 3) && (index || i + 1 < n))
				fail_msg("frame %zu of %zu, index %d: %d", i + 1, n, index, r);
			if (r == DB_WAL_COPIED)
				assert_int_equal(rows(f), ROWS);
		}
	for (size_t size = 0; size < f->wal_is.size; size += FRAME / 2 + 1) {
		put_back(f, size, true);
		assert_int_equal(mend(f, &d), DB_WAL_COPIED);
		assert_int_equal(rows(f), ROWS);
	}
}

static uint32_t page_of(const struct wal_fixture *f, size_t frame)
{
	const uint8_t *p = f->wal_is.p + 32 + frame * FRAME;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* A power cut has ended a checkpoint: one page is not written, the index is gone, and the frame of this page is damaged. */
static void a_page_that_was_not_copied_is_not_given_up(void **state)
{
	struct wal_fixture *f = *state;
	size_t n = (f->wal_is.size - 32) / FRAME, n_tried = 0;
	struct db_wal_damage d;

	copy_wal(f);
	for (size_t i = 0; i < 2 * n; i++) {
		size_t at = i / 2, later = at + 1;
		uint8_t *frame = f->wal_is.p + 32 + at * FRAME, kept[FRAME];
		uint32_t page = page_of(f, at);

		while (later < n && page_of(f, later) != page)
			later++;
		if (later < n)
			continue;
		memcpy(kept, frame, FRAME);
		if (i % 2)
			memset(frame, 0, FRAME);
		else
			frame[24 + 300] ^= 4;
		put_back(f, f->wal_is.size, false);
		memcpy(frame, kept, FRAME);
		f->db_is.p[(page - 1) * PAGE + 500] ^= 1;
		test_file_write(f->path, f->db_is.p, f->db_is.size);
		f->db_is.p[(page - 1) * PAGE + 500] ^= 1;
		if (mend(f, &d) == DB_WAL_COPIED)
			fail_msg("frame %zu of %zu, page %u, %zu", at + 1, n, page, i % 2);
		n_tried++;
	}
	assert_true(n_tried > 10);
}

/* The process that was killed had begun the WAL anew; after a power cut the index may be the one from before. */
static void an_index_from_before_the_wal_began_anew_hides_nothing(void **state)
{
	struct wal_fixture *f = *state;
	struct err err = { 0 };
	struct db_wal_damage d;
	int status;
	pid_t child;

	copy_wal(f);
	put_back(f, f->wal_is.size, true);
	child = fork();
	if (!child) {
		struct db *db;

		if (db_open(f->path, &(struct db_options){ .sync = true }, &db, &err) < 0 ||
		    db_checkpoint(db, &err) < 0 ||
		    db_exec(db, "INSERT INTO a VALUES (1000, NULL)", &err) < 0 ||
		    db_exec(db, "INSERT INTO a VALUES (1001, NULL)", &err) < 0 ||
		    db_exec(db, "INSERT INTO a VALUES (1002, NULL)", &err) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	f->wal_is.size = 0;
	assert_done(file_read(f->wal, MIB(8), &f->wal_is, &err));
	for (size_t at = 0; at < 32; at++) {
		f->wal_is.p[at] ^= 1;
		put_back(f, f->wal_is.size, true);
		f->wal_is.p[at] ^= 1;
		assert_int_equal(mend(f, &d), DB_WAL_DAMAGED);
		assert_int_equal(rows(f), ROWS + 3);
	}
}

/* Nothing of the header and the first frame is left to be compared with the index. */
static void a_wal_whose_start_is_overwritten_is_known_by_the_index(void **state)
{
	struct wal_fixture *f = *state;
	struct db_wal_damage d;

	for (int i = 0; i < 4; i++) {
		size_t size = i / 2 ? f->wal_is.size : 512;
		uint8_t *kept = mem_alloc(size);

		memcpy(kept, f->wal_is.p, size);
		memset(f->wal_is.p, i % 2 ? 0xff : 0, size);
		put_back(f, f->wal_is.size, true);
		memcpy(f->wal_is.p, kept, size);
		free(kept);
		assert_int_equal(mend(f, &d), DB_WAL_DAMAGED);
	}
}

/* The number of copied frames has no check sum. */
static void an_index_with_a_wrong_number_of_copied_frames_hides_nothing(void **state)
{
	static const uint32_t wrong[] = { 1, 1000, UINT32_MAX };
	struct wal_fixture *f = *state;
	size_t n = (f->wal_is.size - 32) / FRAME;
	struct db_wal_damage d;

	for (size_t i = 0; i <= ARRAY_SIZE(wrong); i++) {
		uint32_t copied = i < ARRAY_SIZE(wrong) ? wrong[i] : (uint32_t)n;

		memcpy(f->shm_is.p + 96, &copied, sizeof(copied));
		f->wal_is.p[32 + n / 2 * FRAME + 300] ^= 4;
		put_back(f, f->wal_is.size, true);
		f->wal_is.p[32 + n / 2 * FRAME + 300] ^= 4;
		assert_int_equal(mend(f, &d), DB_WAL_DAMAGED);
		assert_int_equal(d.n_there, n);
	}
}

static void a_cut_is_told_from_a_commit_that_was_cut_off(void **state)
{
	struct wal_fixture *f = *state;

	for (size_t size = 0; size < f->wal_is.size; size += FRAME / 2 + 1) {
		struct db_wal_damage d;

		put_back(f, size, false);
		assert_int_equal(mend(f, &d), DB_WAL_SOUND);
		put_back(f, size, true);
		assert_int_equal(mend(f, &d), DB_WAL_DAMAGED);
		assert_true(d.n_there < d.n_committed);
	}
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_sound_wal_stays),
		T(no_commit_is_lost_to_a_flipped_byte),
		T(no_commit_is_lost_to_bytes_flipped_in_several_places),
		T(a_damaged_header_hides_nothing),
		T(a_damaged_wal_that_was_copied_costs_nothing),
		T(a_page_that_was_not_copied_is_not_given_up),
		T(an_index_from_before_the_wal_began_anew_hides_nothing),
		T(a_wal_whose_start_is_overwritten_is_known_by_the_index),
		T(an_index_with_a_wrong_number_of_copied_frames_hides_nothing),
		T(a_cut_is_told_from_a_commit_that_was_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
