/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of the WAL that a killed process has left: what was stored is kept, or its loss is reported.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "damaged.h"

static void add_profiles(struct stored *t, int n, int64_t last_ms, const char *service)
{
	for (int i = 0; i < n; i++) {
		AUTO(profile_freep) struct profile *p = stored_profile((uint64_t)i % 7, last_ms - i * 60000);

		stored_add(t, p, service);
	}
}

/*
 * A process that is killed after it has added @n profiles to the closed store and, if @copy, has copied the WAL. Returns how
 * many are stored.
 */
static uint64_t add_and_die(struct stored *t, int n, const char *service, bool copy)
{
	struct profilestore_stats *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
						 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t n_stored;
	int status;
	pid_t child = fork();

	if (!child) {
		stored_open_there(t);
		add_profiles(t, n, NOW_MS, service);
		profilestore_stats(t->s, shared);
		_exit(copy && db_checkpoint(t->s->db, NULL) != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	n_stored = shared->n_profiles;
	munmap(shared, sizeof(*shared));
	damaged_n_notices = 0;
	return n_stored;
}

/* The store, closed, with @n profiles added before the process that will be killed. Returns how many are stored. */
static uint64_t make_store(struct stored *t, int n, const char *service)
{
	struct profilestore_stats st;

	t->o.notice = damaged_note;
	stored_open(t);
	add_profiles(t, n, NOW_MS - 7, service);
	profilestore_stats(t->s, &st);
	profilestore_close(TAKE(t->s));
	return st.n_profiles;
}

static void load_file(const struct stored *t, const char *name)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", t->dir, name);
	struct err err = { 0 };

	damaged_file.size = 0;
	assert_done(file_read(path, MIB(64), &damaged_file, &err));
}

static void save_file(const struct stored *t, const char *name)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", t->dir, name);

	test_file_write(path, damaged_file.p, damaged_file.size);
}

static void flip_byte_of_wal(const struct stored *t)
{
	load_file(t, "profiles.db-wal");
	damaged_file.p[damaged_file.size / 2] ^= 1;
	save_file(t, "profiles.db-wal");
}

static void profiles_in_a_damaged_wal_are_kept(void **state)
{
	struct stored t = { 0 };
	struct profilestore_merged m;
	struct profilestore_stats st;

	make_store(&t, 0, "");
	add_and_die(&t, DAMAGED_PROFILES, "a", false);
	flip_byte_of_wal(&t);
	stored_open_there(&t);
	assert_true(damaged_n_notices > 0);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_set_aside, 1);
	assert_non_null(strstr(st.set_aside_why, "profiles.db-wal"));
	m = stored_merge(&t, CPU, 0, INT64_MAX);
	/* A page of small rows at most. */
	print_message("%llu of them are kept\n", (unsigned long long)st.n_profiles);
	assert_true(st.n_profiles > 0 && m.n_profiles > 0);
	profile_free(m.profile);
	stored_done(&t);
}

/* A checkpoint has copied all of it: its first frames are older than the database. */
static void a_damaged_wal_that_was_copied_costs_nothing(void **state)
{
	for (int index = 0; index < 2; index++) {
		struct stored t = { 0 };
		struct profilestore_stats st;
		uint64_t n;

		make_store(&t, 0, "");
		n = add_and_die(&t, DAMAGED_PROFILES, "a", true);
		flip_byte_of_wal(&t);
		if (!index)
			damaged_remove(&t, "profiles.db-shm");
		stored_open_there(&t);
		assert_int_equal(damaged_n_notices, 1);
		profilestore_stats(t.s, &st);
		assert_int_equal(st.n_profiles, n);
		assert_int_equal(st.n_lost, 0);
		assert_int_equal(st.n_set_aside, 1);
		stored_done(&t);
	}
}

/* Nothing tells how many. */
static void profiles_in_a_wal_that_is_gone_are_lost(void **state)
{
	struct stored t = { 0 };
	struct profilestore_stats st;
	struct profilestore_merged m;
	uint64_t n;

	make_store(&t, 0, "");
	n = add_and_die(&t, DAMAGED_PROFILES, "a", false);
	damaged_remove(&t, "profiles.db-wal");
	stored_open_there(&t);
	assert_true(damaged_n_notices > 0);
	profilestore_stats(t.s, &st);
	assert_true(st.n_profiles < n);
	assert_true(st.n_lost > 0);
	m = stored_merge(&t, CPU, 0, INT64_MAX);
	assert_true(m.n_damaged > 0);
	profile_free(m.profile);
	stored_done(&t);
}

/* All of the first page is damaged (0), or some bytes of it; a crash has left the latest profile in a WAL that lacks it. */
static void profiles_in_a_wal_beside_a_damaged_first_page_are_kept(void **state)
{
	for (size_t flips = 0; flips < 4; flips++) {
		struct stored t = { 0 };
		struct profilestore_stats st;
		uint64_t before, n;

		before = make_store(&t, DAMAGED_PROFILES, "a");
		n = add_and_die(&t, 1, "a", false);
		load_file(&t, "profiles.db");
		for (size_t i = 0; i < flips; i++)
			damaged_file.p[18 + 300 * i] ^= 1;
		if (!flips)
			memset(damaged_file.p, 0, 8192);
		save_file(&t, "profiles.db");
		stored_open_there(&t);
		assert_true(damaged_n_notices > 0);
		profilestore_stats(t.s, &st);
		assert_true(n > before);
		assert_int_equal(st.n_profiles, n);
		assert_int_equal(st.n_lost, 0);
		stored_done(&t);
	}
}

/*
 * A crash has left a WAL. The header of the file says that pages have no digests, and bits of labels have flipped: in the WAL
 * (then it lacks the first page), or (@in_file) in the file, and the WAL has the first page.
 */
static void damage_header_and_labels(bool in_file)
{
	const char *name = in_file ? "profiles.db" : "profiles.db-wal";
	struct stored t = { 0 };

	make_store(&t, DAMAGED_PROFILES, in_file ? "web" : "db");
	add_and_die(&t, in_file ? 8 * DAMAGED_PROFILES : 1, in_file ? "db" : "web", false);
	load_file(&t, name);
	damaged_flip_labels();
	save_file(&t, name);
	load_file(&t, "profiles.db");
	assert_int_equal(damaged_file.p[20], 8);
	damaged_file.p[20] = 0;
	save_file(&t, "profiles.db");
	stored_open_there(&t);
	damaged_check_labels(&t);
	stored_done(&t);
}

static void labels_in_a_wal_beside_a_damaged_header_are_no_wrong_answer(void **state)
{
	damage_header_and_labels(false);
}

static void labels_in_a_file_whose_first_page_is_in_the_wal_are_no_wrong_answer(void **state)
{
	damage_header_and_labels(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_in_a_damaged_wal_are_kept),
		cmocka_unit_test(a_damaged_wal_that_was_copied_costs_nothing),
		cmocka_unit_test(profiles_in_a_wal_that_is_gone_are_lost),
		cmocka_unit_test(profiles_in_a_wal_beside_a_damaged_first_page_are_kept),
		cmocka_unit_test(labels_in_a_wal_beside_a_damaged_header_are_no_wrong_answer),
		cmocka_unit_test(labels_in_a_file_whose_first_page_is_in_the_wal_are_no_wrong_answer),
	};

	test_dirs_in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
