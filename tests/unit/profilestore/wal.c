/* SPDX-License-Identifier: Apache-2.0 */
/* The WAL stays short, also while readers overlap each other all the time. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include "stored.h"

#define READERS       3
#define PROFILES      120
#define MANY_PROFILES 400
#define MAX_WAL       KIB(256)

struct shared {
	struct stored t;
	atomic_bool stop;
};

static void *asking(void *arg)
{
	struct shared *x = arg;

	while (!atomic_load(&x->stop)) {
		struct profilestore_merged m = stored_merge(&x->t, CPU, 0, NOW_MS + 1);

		profile_free(m.profile);
	}
	return NULL;
}

static uint64_t wal_size(const struct stored *t)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db-wal", t->dir);
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void wal_is_bounded(void **state)
{
	struct shared x = { 0 };
	uint64_t longest = 0;
	pthread_t threads[READERS];
	struct profile *p;

	stored_open(&x.t);
	atomic_store(&x.t.s->wal.max, MAX_WAL);
	p = stored_profile(1, NOW_MS);
	stored_add(&x.t, p, "a");
	for (size_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, asking, &x), 0);
	for (int i = 1; i <= MANY_PROFILES; i++) {
		char service[16];

		/* Series of their own, so that readers reach many points where they may renew their snapshot. */
		snprintf(service, sizeof(service), "s%d", i % 40);
		p->time_ns = (NOW_MS - i * 1000) * 1000000;
		stored_add(&x.t, p, service);
		longest = MAX(longest, wal_size(&x.t));
	}
	atomic_store(&x.stop, true);
	for (size_t i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	print_message("longest WAL: %llu KiB\n", (unsigned long long)longest / 1024);
	/* A reader that the machine does not run keeps its snapshot; without a limit it is three times as long. */
	assert_in_range(longest, MAX_WAL, 32 * MAX_WAL);
	profile_free(p);
	stored_done(&x.t);
}

struct slow_answer {
	struct stored *t;
	uint64_t longest;
	int n_profiles, n_calls;
};

/* Profiles come while the answer is made. */
static int make_slowly(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
		       struct err *err)
{
	struct slow_answer *x = arg;
	struct profile *p = stored_profile(1, NOW_MS);

	x->n_calls++;
	for (int i = 1; i <= PROFILES; i++) {
		p->time_ns = (NOW_MS - ++x->n_profiles * 1000) * 1000000;
		stored_add(x->t, p, i % 2 ? "a" : "b");
		x->longest = MAX(x->longest, wal_size(x->t));
	}
	profile_free(p);
	return 0;
}

static void an_answer_in_the_making_has_no_snapshot(void **state)
{
	for (int by_label = 0; by_label < 2; by_label++) {
		struct stored t = { 0 };
		struct slow_answer x = { .t = &t };
		const struct profilestore_shape shape = { .label = by_label ? STR("service") : STR(""),
							  .stacks = make_slowly,
							  .arg = &x };
		struct profilestore_range r = { .to_ms = NOW_MS + 1 };
		struct profilestore_merged m;
		struct selector *sel = NULL;
		struct profile *p;
		struct err err = { 0 };

		stored_open(&t);
		atomic_store(&t.s->wal.max, MAX_WAL);
		p = stored_profile(1, NOW_MS);
		stored_add(&t, p, "a");
		stored_add(&t, p, "b");
		assert_done(selector_parse(STR(CPU), &sel, &err));
		r.sel = sel;
		assert_done(profilestore_merge(t.s, &r, &shape, NULL, &m, &err));
		assert_int_equal(x.n_calls, by_label ? 2 : 1);
		print_message("longest WAL: %llu KiB\n", (unsigned long long)x.longest / 1024);
		assert_in_range(x.longest, MAX_WAL, 3 * MAX_WAL);
		profile_free(m.profile);
		selector_free(sel);
		profile_free(p);
		stored_done(&t);
	}
}

/* The grooming thread copies it: closing has nothing left to do. */
static void an_idle_store_is_copied(void **state)
{
	struct stored t = { 0 };
	struct err err = { 0 };
	struct profile *p;
	struct db_stmt *st;
	struct db *db;

	stored_open(&t);
	p = stored_profile(1, NOW_MS);
	stored_add(&t, p, "a");
	assert_true(db_wal_size(t.s->db) > 0);
	stored_groom(&t);
	db = reader_take(t.s, &err);
	assert_non_null(db);
	reader_give(t.s, db);
	assert_done(db_prepare(t.s->copier, "PRAGMA wal_checkpoint(PASSIVE)", &st, &err));
	assert_int_equal(db_step(st, &err), DB_ROW);
	assert_int_equal(db_i64(st, 1), db_i64(st, 2));
	db_reset(st);
	profile_free(p);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wal_is_bounded),
		cmocka_unit_test(an_answer_in_the_making_has_no_snapshot),
		cmocka_unit_test(an_idle_store_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
