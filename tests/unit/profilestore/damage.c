/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of the database: the store opens, and each answer is right, or the damage is reported. LODE_FLIPS=N for
 * more than some hundred.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "profilestore/salvage.h"
#include "damaged.h"

#define FLIPS 50

static char *right_text;
static uint64_t n_damaged;      /* of the latest answer */
static uint64_t n_lost, n_kept; /* as the figures had them before that */
static uint64_t n_stored;       /* in the store that is damaged; n_all of them are in an answer */
static uint64_t n_all;

static char *all_text(struct stored *t, uint64_t *ret_n)
{
	struct profilestore_merged m = stored_merge(t, CPU, 0, INT64_MAX);
	char *text = stored_text(m.profile, 0);

	*ret_n = m.n_profiles;
	n_damaged = m.n_damaged;
	profile_free(m.profile);
	return text;
}

/* A store of some pages, closed; its file in @damaged_file. */
static void make_store(struct stored *t)
{
	AUTO(mem_freep) char *path = NULL;
	struct profilestore_stats st;
	struct err err = { 0 };

	t->o.notice = damaged_note;
	stored_open(t);
	for (int i = 0; i < DAMAGED_PROFILES; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile((uint64_t)i % 7, NOW_MS - i * 60000);

		stored_add(t, p, i % 2 ? "web" : "db");
	}
	stored_groom(t);
	right_text = all_text(t, &n_all);
	profilestore_stats(t->s, &st);
	n_stored = st.n_profiles;
	profilestore_close(t->s);
	t->s = NULL;
	path = mem_printf("%s/profiles.db", t->dir);
	damaged_file.size = 0;
	assert_done(file_read(path, MIB(64), &damaged_file, &err));
}

/* The folder as it was, with @size bytes of the file. */
static void put_file(const struct stored *t, size_t size)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);
	AUTO(mem_freep) char *command = mem_printf("rm -rf %s/profiles.db*", t->dir);

	assert_int_equal(system(command), 0);
	test_file_write(path, damaged_file.p, size);
	damaged_n_notices = 0;
}

/* Open it and ask. Returns how many profiles there are. */
static uint64_t check_answers(struct stored *t, const char *what, size_t at)
{
	struct profilestore_stats st;
	struct err err = { 0 };
	char *text;
	uint64_t n;

	t->s = NULL;
	if (profilestore_open(&t->o, &t->s, &err) < 0)
		fail_msg("%s at %zu: not opened: %s", what, at, err.text);
	profilestore_stats(t->s, &st);
	text = all_text(t, &n);
	if (strcmp(text, right_text) != 0 && (!st.n_set_aside || !damaged_n_notices || !st.set_aside_why[0]))
		fail_msg("%s at %zu: a wrong answer, and no report", what, at);
	n_lost = st.n_lost;
	n_kept = st.n_profiles;
	free(text);
	/* It goes on: a new profile is stored, and found after another start. */
	if (st.n_set_aside) {
		AUTO(profile_freep) struct profile *p = stored_profile(3, NOW_MS);
		struct profilestore_merged m;
		uint64_t before = n;

		stored_add(t, p, "new");
		stored_again(t);
		m = stored_merge(t, CPU, 0, INT64_MAX);
		assert_true(m.n_profiles > before);
		profile_free(m.profile);
	}
	profilestore_close(t->s);
	t->s = NULL;
	return n;
}

static void a_flipped_byte_is_no_wrong_answer(void **state)
{
	const char *more = getenv("LODE_FLIPS");
	struct stored t = { 0 };
	int n_flips = more ? atoi(more) : FLIPS;
	uint64_t kept = 0, all;

	make_store(&t);
	all = check_answers(&t, "nothing", 0);
	for (int i = 0; i < n_flips; i++) {
		uint64_t random[2];
		size_t at;

		test_fill(random, sizeof(random), (uint32_t)i);
		at = random[0] % (i % 8 ? damaged_file.size : 100);
		damaged_file.p[at] ^= (uint8_t)(1u << random[1] % 8);
		put_file(&t, damaged_file.size);
		damaged_file.p[at] ^= (uint8_t)(1u << random[1] % 8);
		kept += check_answers(&t, "flip", at);
	}
	/* Nearly everything is saved: one byte is a row or two. */
	if (kept < all * (uint64_t)n_flips * 9 / 10)
		fail_msg("kept %llu of %llu profiles", (unsigned long long)kept,
			 (unsigned long long)(all * (uint64_t)n_flips));
	free(right_text);
	stored_done(&t);
}

/* Three bytes of one page are too many to correct it. */
static void profiles_lost_in_the_repair_are_reported(void **state)
{
	static const size_t flips[] = { 900, 4000, 7000 };
	struct stored t = { 0 };
	uint64_t n, n_lost_all = 0;

	make_store(&t);
	for (size_t at = 8192; at < damaged_file.size; at += 8192) {
		for (size_t i = 0; i < ARRAY_SIZE(flips); i++)
			damaged_file.p[at + flips[i]] ^= 1;
		put_file(&t, damaged_file.size);
		for (size_t i = 0; i < ARRAY_SIZE(flips); i++)
			damaged_file.p[at + flips[i]] ^= 1;
		n = check_answers(&t, "three flips", at);
		if (n_kept + n_lost < n_stored || (n < n_all && !n_damaged))
			fail_msg("at %zu: %llu profiles are kept, %llu are said to be lost, %llu in the "
				 "answer of %llu of %llu",
				 at, (unsigned long long)n_kept, (unsigned long long)n_lost,
				 (unsigned long long)n_damaged, (unsigned long long)n,
				 (unsigned long long)n_all);
		/* A page that leads to others costs none of their rows. */
		assert_true(n_kept > 0);
		n_lost_all += n_stored - n_kept;
	}
	assert_true(n_lost_all > 0);
	free(right_text);
	stored_done(&t);
}

/* Series have no digest of their own. */
static void labels_of_a_damaged_page_are_no_wrong_answer(void **state)
{
	struct stored t = { 0 };
	struct profilestore_stats st;
	uint64_t n;

	make_store(&t);
	damaged_flip_labels();
	/* Also with the first page lost, where the rows of all leaves are read. */
	for (int first_page = 1; first_page >= 0; first_page--) {
		put_file(&t, damaged_file.size);
		stored_open_there(&t);
		damaged_check_labels(&t);
		profilestore_stats(t.s, &st);
		free(all_text(&t, &n));
		assert_true(st.n_lost > 0);
		assert_int_equal(st.n_profiles + st.n_lost, n_stored);
		assert_in_range(n + n_damaged, n_all, n_stored);
		profilestore_close(TAKE(t.s));
		memset(damaged_file.p, 0, 8192);
	}
	free(right_text);
	stored_done(&t);
}

/* A damaged header may say that pages have no digests. */
static void labels_beside_a_damaged_header_are_no_wrong_answer(void **state)
{
	struct stored t = { 0 };

	make_store(&t);
	damaged_flip_labels();
	for (int i = 0; i < 8; i++) {
		damaged_file.p[20] ^= 1 << i;
		put_file(&t, damaged_file.size);
		damaged_file.p[20] ^= 1 << i;
		stored_open_there(&t);
		damaged_check_labels(&t);
		profilestore_close(TAKE(t.s));
	}
	free(right_text);
	stored_done(&t);
}

/* A free page of the file has a row for each series, with its number, in which "web" is "old". */
static void leave_old_labels(struct stored *t)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);
	struct err err = { 0 };
	struct db_stmt *in, *out;
	struct db *db;

	assert_done(db_open(path, &(struct db_options){ .sync = true }, &db, &err));
	/* Debian's SQLite overwrites free pages. The first one tells of the others, and loses its rows. */
	assert_done(db_exec(db, "PRAGMA secure_delete = OFF", &err));
	assert_done(db_exec(
		db, "CREATE TABLE a (x); CREATE TABLE b (id INTEGER PRIMARY KEY, key BLOB, sender INTEGER)",
		&err));
	assert_done(db_prepare(db, "SELECT id, key FROM series", &out, &err));
	assert_done(db_prepare(db, "INSERT INTO b VALUES (?, ?, 0)", &in, &err));
	while (db_step(out, &err) == DB_ROW) {
		char key[256];
		size_t size = MIN(db_bytes(out, 1).size, sizeof(key));
		char *web;

		memcpy(key, db_bytes(out, 1).p, size);
		web = memmem(key, size, "web", 3);
		if (web)
			memcpy(web, "old", 3);
		db_bind_i64(in, 1, db_i64(out, 0));
		db_bind_bytes(in, 2, bytes_of(key, size));
		assert_int_equal(db_step(in, &err), DB_DONE);
	}
	assert_done(db_exec(db,
			    "PRAGMA wal_checkpoint(TRUNCATE); DROP TABLE a; DROP TABLE b;"
			    "PRAGMA wal_checkpoint(TRUNCATE)",
			    &err));
	db_close(db);
	damaged_file.size = 0;
	assert_done(file_read(path, MIB(64), &damaged_file, &err));
	assert_non_null(memmem(damaged_file.p, damaged_file.size, "\x07service\x03old", 12));
}

static void labels_of_free_pages_are_no_answer(void **state)
{
	struct stored t = { 0 };
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	struct profilestore_list *list;
	struct err err = { 0 };

	make_store(&t);
	leave_old_labels(&t);
	damaged_flip_labels();
	for (int first_page = 1; first_page >= 0; first_page--) {
		put_file(&t, damaged_file.size);
		stored_open_there(&t);
		assert_done(profilestore_label_values(t.s, &all, STR("service"), &list, &err));
		for (size_t i = 0; i < list->n; i++)
			assert_false(str_eq(list->v[i], STR("old")));
		free(list);
		profilestore_close(TAKE(t.s));
		memset(damaged_file.p, 0, 8192);
	}
	free(right_text);
	stored_done(&t);
}

static void a_cut_or_zeroed_file_is_no_wrong_answer(void **state)
{
	struct stored t = { 0 };

	make_store(&t);
	for (size_t size = 0; size < damaged_file.size; size += size < 8192 ? 3000 : 40001) {
		put_file(&t, size);
		/* Also without the page that has the number of profiles. An empty file is reported as a missing one. */
		if (check_answers(&t, "cut", size) < n_all && size)
			assert_true(n_damaged > 0 && n_lost > 0);
	}
	for (size_t at = 0; at < damaged_file.size; at += 8192) {
		uint8_t page[8192];

		memcpy(page, damaged_file.p + at, sizeof(page));
		memset(damaged_file.p + at, 0, sizeof(page));
		put_file(&t, damaged_file.size);
		memcpy(damaged_file.p + at, page, sizeof(page));
		check_answers(&t, "zeros", at);
	}
	free(right_text);
	stored_done(&t);
}

/* Another damaged page does not keep it from being corrected, whatever is damaged. */
static void a_wrong_byte_beside_a_damaged_page_costs_nothing(void **state)
{
	static const char label[] = "\x07service\x03web";
	struct stored t = { 0 };
	size_t series;

	make_store(&t);
	series = (size_t)((uint8_t *)memmem(damaged_file.p, damaged_file.size, label, sizeof(label) - 1) -
			  damaged_file.p);
	for (size_t at = 0; at < damaged_file.size; at += 8192) {
		uint8_t page[8192];
		uint64_t lost[2];

		if (at == series - series % 8192)
			continue;
		memcpy(page, damaged_file.p + at, sizeof(page));
		memset(damaged_file.p + at, 0, sizeof(page));
		for (int wrong = 0; wrong < 2; wrong++) {
			damaged_file.p[series] ^= wrong ? 1 : 0;
			put_file(&t, damaged_file.size);
			check_answers(&t, "zeros", at);
			lost[wrong] = n_lost;
			assert_int_equal(n_kept + n_lost, n_stored);
		}
		assert_int_equal(lost[1], lost[0]);
		damaged_file.p[series] ^= 1;
		memcpy(damaged_file.p + at, page, sizeof(page));
	}
	free(right_text);
	stored_done(&t);
}

/* As if the pages of the table and of the index had been older than that of the counter. */
static void profiles_that_only_the_counter_has_are_lost(void **state)
{
	AUTO(mem_freep) char *path = NULL;
	struct stored t = { 0 };
	struct err err = { 0 };
	struct db *db;

	make_store(&t);
	path = mem_printf("%s/profiles.db", t.dir);
	assert_done(db_open(path, &(struct db_options){ .sync = true }, &db, &err));
	assert_done(db_exec(
		db, "DELETE FROM profile WHERE id IN (SELECT id FROM profile ORDER BY id DESC LIMIT 3)",
		&err));
	db_close(db);
	damaged_file.size = 0;
	assert_done(file_read(path, MIB(64), &damaged_file, &err));
	memset(damaged_file.p + 8192, 0, 8192);
	put_file(&t, damaged_file.size);
	check_answers(&t, "zeros", 8192);
	assert_int_equal(n_lost, 3);
	assert_int_equal(n_kept, n_stored - 3);
	free(right_text);
	stored_done(&t);
}

/* A row whose digest is right, of a stack that the metadata store does not have. */
static void a_profile_with_an_unknown_stack_is_lost(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct profilestore_merged m;
	struct stored t = { 0 };
	struct sample x = { .value = 1 };
	struct db_stmt *st;
	struct err err = { 0 };
	int64_t digest;
	uint64_t n;

	make_store(&t);
	stored_open_there(&t);
	x.stack = column_n(&t.s->meta->stacks);
	samples_write(&x, 1, &b);
	digest = (int64_t)samples_digest(1, NOW_MS, 1, buf_bytes(&b));
	assert_done(db_prepare(t.s->db, "INSERT INTO profile VALUES (100000, 1, ?, 1, 1, 1, 1, ?, ?)", &st,
			       &err));
	db_bind_i64(st, 1, NOW_MS);
	db_bind_i64(st, 2, digest);
	db_bind_bytes(st, 3, buf_bytes(&b));
	assert_done(db_step(st, &err));
	t.s->next_id = 100001;
	m = stored_merge(&t, "profile:samples:count:cpu:nanoseconds:delta", 0, INT64_MAX);
	n = m.n_profiles;
	assert_int_equal(m.n_damaged, 1);
	profile_free(m.profile);
	stored_again(&t);
	m = stored_merge(&t, "profile:samples:count:cpu:nanoseconds:delta", 0, INT64_MAX);
	assert_int_equal(m.n_profiles, n);
	profile_free(m.profile);
	free(right_text);
	stored_done(&t);
}

/* Its digest is right, since it does not cover the number: no placeholders are made for a billion numbers before it. */
static void a_row_with_a_wrong_number_is_lost(void **state)
{
	const struct db_options unchecked = { .unchecked = true };
	AUTO(mem_freep) char *path = NULL, *sql = NULL;
	struct stored t = { 0 };
	struct stat st;
	struct err err = { 0 };
	struct db *db;

	make_store(&t);
	path = mem_printf("%s/profiles.db", t.dir);
	for (int kind = SEGMENT_STRINGS; kind < SEGMENT_NAMES; kind++) {
		put_file(&t, damaged_file.size);
		assert_done(db_open(path, &unchecked, &db, &err));
		sql = mem_printf(
			"UPDATE segment SET id = id + (1 << 30) WHERE id = (SELECT max(id) FROM segment"
			" WHERE id >> 40 & 15 = %d)",
			kind);
		assert_done(db_exec(db, sql, &err));
		db_close(db);
		free(TAKE(sql));
		(void)check_answers(&t, "kind", (size_t)kind);
		assert_int_equal(stat(path, &st), 0);
		assert_true(st.st_size < (off_t)MIB(64));
	}
	free(right_text);
	stored_done(&t);
}

static void a_missing_database_is_not_begun_anew_silently(void **state)
{
	struct stored t = { 0 };
	struct profilestore_stats st;

	make_store(&t);
	damaged_remove(&t, "profiles.db");
	damaged_n_notices = 0;
	stored_again(&t);
	profilestore_stats(t.s, &st);
	assert_true(damaged_n_notices > 0);
	assert_int_equal(st.n_set_aside, 1);
	assert_non_null(strstr(st.set_aside_why, "is missing"));
	/* Told once. */
	damaged_n_notices = 0;
	stored_again(&t);
	assert_int_equal(damaged_n_notices, 0);
	free(right_text);
	stored_done(&t);
}

/* ---- jobs of one transaction ---- */

struct counted_job {
	struct job job;
	atomic_bool *gate; /* NULL: none; else it waits for that */
	unsigned n_failures;
	atomic_uint n_applied, n_done;
	bool failed;
};

static int counted_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct counted_job *c = CONTAINER_OF(j, struct counted_job, job);

	atomic_fetch_add(&c->n_applied, 1);
	while (c->gate && !atomic_load(c->gate))
		usleep(1000);
	if (atomic_load(&c->n_applied) <= c->n_failures)
		return err_set(err, ERR_DAMAGED, "a page is damaged");
	return 0;
}

static void counted_done(struct profilestore *s, struct job *j, const struct err *err)
{
	struct counted_job *c = CONTAINER_OF(j, struct counted_job, job);

	c->failed = err != NULL;
	atomic_fetch_add(&c->n_done, 1);
}

/* One that may be applied again is, also after one that may not. */
static void damage_fails_only_jobs_that_cannot_be_repeated(void **state)
{
	atomic_bool open = false;
	struct counted_job first = { .gate = &open }, once = { 0 }, again = { .n_failures = 1 };
	struct counted_job *all[] = { &first, &once, &again };
	struct stored t = { .o.notice = damaged_note };

	stored_open(&t);
	again.job.again = true;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		all[i]->job.apply = counted_apply;
		all[i]->job.done = counted_done;
		profilestore_writer_submit(t.s, &all[i]->job);
		while (!atomic_load(&first.n_applied))
			usleep(1000);
	}
	atomic_store(&open, true);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		while (!atomic_load(&all[i]->n_done))
			usleep(1000);
	assert_false(first.failed);
	assert_true(once.failed);
	assert_int_equal(once.n_applied, 1);
	assert_false(again.failed);
	assert_int_equal(again.n_applied, 2);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flipped_byte_is_no_wrong_answer),
		cmocka_unit_test(profiles_lost_in_the_repair_are_reported),
		cmocka_unit_test(labels_of_a_damaged_page_are_no_wrong_answer),
		cmocka_unit_test(labels_beside_a_damaged_header_are_no_wrong_answer),
		cmocka_unit_test(labels_of_free_pages_are_no_answer),
		cmocka_unit_test(a_cut_or_zeroed_file_is_no_wrong_answer),
		cmocka_unit_test(a_wrong_byte_beside_a_damaged_page_costs_nothing),
		cmocka_unit_test(profiles_that_only_the_counter_has_are_lost),
		cmocka_unit_test(a_profile_with_an_unknown_stack_is_lost),
		cmocka_unit_test(a_row_with_a_wrong_number_is_lost),
		cmocka_unit_test(a_missing_database_is_not_begun_anew_silently),
		cmocka_unit_test(damage_fails_only_jobs_that_cannot_be_repeated),
	};

	test_dirs_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
