/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that are refused, and errors of a damaged database. */
#include <fcntl.h>
#include "stored.h"

static int add(struct stored *t, const struct profile *p, const struct profilestore_label *l, size_t n,
	       struct err *err)
{
	struct profilestore_receipt r;

	return profilestore_add_wait(t->s, p, l, n, &r, err);
}

static void bad_labels_are_refused(void **state)
{
	static const struct {
		struct profilestore_label l;
		const char *why;
	} bad[] = {
		{ { STR(""), STR("x") }, "1 to 256 characters" },
		{ { STR("9a"), STR("x") }, "'9a' is not a label name" },
		{ { STR("a-b"), STR("x") }, "'a-b' is not a label name" },
		{ { STR("a"), STR("\xff") }, "not UTF-8" },
		{ { STR("a"), STR("b\nc") }, "byte 1" },
		{ { STR("a"), STR("\xed\xa0\x80") }, "not UTF-8" },
	};
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	const struct profilestore_label twice[] = { { STR("a"), STR("1") }, { STR("a"), STR("2") } };
	struct profilestore_label many[PROFILESTORE_MAX_LABELS + 1];
	struct stored t = { 0 };
	struct err err = { 0 };
	char long_value[PROFILESTORE_MAX_LABEL_VALUE + 1];
	struct profilestore_stats st;

	stored_open(&t);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_fails(add(&t, p, &bad[i].l, 1, &err), ERR_INVALID, bad[i].why);
	assert_fails(add(&t, p, twice, 2, &err), ERR_INVALID, "twice");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct profilestore_label){ STR("x"), STR("y") };
	assert_fails(add(&t, p, many, ARRAY_SIZE(many), &err), ERR_LIMIT, "65 labels, the limit is 64");
	memset(long_value, 'x', sizeof(long_value));
	many[0].value = (struct str){ long_value, sizeof(long_value) };
	assert_fails(add(&t, p, many, 1, &err), ERR_LIMIT, "4097 bytes");
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_profiles, 0);
	assert_int_equal(st.n_refused, ARRAY_SIZE(bad) + 3);
	stored_done(&t);
}

static void impossible_times_are_refused(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS + PROFILESTORE_MAX_AHEAD_MS + 1000);
	struct stored t = { .o.max_age_ms = HOUR };
	struct err err = { 0 };

	stored_open(&t);
	assert_fails(add(&t, p, NULL, 0, &err), ERR_INVALID, "check the clocks");
	p->time_ns = (NOW_MS - 2 * HOUR) * 1000000;
	assert_fails(add(&t, p, NULL, 0, &err), ERR_INVALID, "7200 s old, and profiles are kept for 3600 s");
	p->time_ns = -1;
	assert_fails(add(&t, p, NULL, 0, &err), ERR_INVALID, "before 1970");
	p->time_ns = (NOW_MS + PROFILESTORE_MAX_AHEAD_MS) * 1000000;
	assert_done(add(&t, p, NULL, 0, &err));
	stored_done(&t);
}

static void duplicates_are_taken_once(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(2, NOW_MS);
	struct profilestore_merged m;
	struct stored t = { 0 };
	struct profilestore_receipt r;

	stored_open(&t);
	for (int turn = 0; turn < 3; turn++) {
		r = stored_add(&t, p, "a");
		assert_int_equal(r.duplicate, turn > 0);
		if (turn)
			assert_int_equal(r.n_profiles, 0);
		if (turn == 1)
			stored_again(&t);
	}
	r = stored_add(&t, p, "b");
	assert_false(r.duplicate);
	p->values[1]++;
	r = stored_add(&t, p, "a");
	assert_false(r.duplicate);
	m = stored_merge(&t, CPU, 0, NOW_MS + 1);
	assert_int_equal(profile_total(m.profile, 0), 3 * profile_total(p, 1) - 2);
	profile_free(m.profile);
	stored_done(&t);
}

/* Idle processes of one program have equal profiles. When the request comes again, all of them are known. */
static void equal_profiles_of_one_request_add_up(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(2, NOW_MS);
	struct stored t = { 0 };

	stored_open(&t);
	for (int turn = 0; turn < 2; turn++) {
		struct profilestore_batch batch = { 0 };
		const struct profilestore_upload u = { .p = p, .batch = &batch };
		struct profilestore_merged m;

		for (int i = 0; i < 3; i++)
			assert_int_equal(stored_upload(&t, &u).duplicate, turn);
		m = stored_merge(&t, CPU, 0, NOW_MS + 1);
		assert_int_equal(profile_total(m.profile, 0), 3 * profile_total(p, 1));
		profile_free(m.profile);
		profilestore_batch_done(&batch);
		stored_again(&t);
	}
	stored_done(&t);
}

/* Two requests with the same profiles at once, as of a proxy that sends one again. */
static void profiles_of_requests_that_overlap_are_taken_once(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(2, NOW_MS);
	AUTO(profile_freep) struct profile *q = stored_profile(2, NOW_MS + 1000);
	struct profilestore_batch one = { 0 }, two = { 0 };
	struct stored t = { 0 };

	stored_open(&t);
	assert_false(stored_upload(&t, &(struct profilestore_upload){ .p = p, .batch = &one }).duplicate);
	assert_true(stored_upload(&t, &(struct profilestore_upload){ .p = p, .batch = &two }).duplicate);
	assert_false(stored_upload(&t, &(struct profilestore_upload){ .p = q, .batch = &two }).duplicate);
	assert_true(stored_upload(&t, &(struct profilestore_upload){ .p = q, .batch = &one }).duplicate);
	profilestore_batch_done(&one);
	profilestore_batch_done(&two);
	stored_done(&t);
}

static void without_a_time_it_is_now(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(2, 0);
	struct profilestore_entries *e;
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	for (int i = 0; i < 2; i++)
		assert_false(stored_add(&t, p, "a").duplicate);
	assert_done(profilestore_profiles(t.s, &all, 100, &e, &err));
	assert_true(e->n >= 4);
	assert_int_equal(e->v[0].time_ms, NOW_MS);
	free(e);
	stored_done(&t);
}

static void too_many_series_are_refused(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	struct stored t = { .o.max_series = 300 };
	struct profilestore_label l = { STR("pod"), { 0 } };
	struct err err = { 0 };
	char text[16];
	int n = 0;

	stored_open(&t);
	for (; n < 30; n++) {
		snprintf(text, sizeof(text), "p%d", n);
		l.value = str_of(text);
		if (add(&t, p, &l, 1, &err) < 0)
			break;
	}
	assert_true(n > 0 && n < 30);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_non_null(strstr(err.text, "there are 300 series"));
	stored_again(&t);
	assert_fails(add(&t, p, &l, 1, &err), ERR_LIMIT, "300 series");
	stored_done(&t);
}

static void too_much_metadata_is_refused_and_the_store_goes_on(void **state)
{
	struct stored t = { .o.max_metadata = 1 };
	struct err err = { 0 };
	struct profilestore_merged m;
	int64_t total = 0;
	uint64_t world = 0;
	int r;

	stored_open(&t);
	do {
		const struct profile_maker pm = { world, world * 1000, 2000, 2000, 20, false };
		AUTO(profile_freep) struct profile *p = profile_make(&pm);

		p->time_ns = (NOW_MS - (int64_t)world++) * 1000000;
		r = add(&t, p, NULL, 0, &err);
		if (r == 0)
			total += profile_total(p, 1);
	} while (r == 0 && world < 200);
	assert_true(r < 0 && world > 1);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_non_null(strstr(err.text, "MiB of memory"));
	stored_again(&t);
	m = stored_merge(&t, "profile:cpu:nanoseconds:cpu:nanoseconds:delta", 0, NOW_MS + 1);
	assert_int_equal(profile_total(m.profile, 0), total);
	profile_free(m.profile);
	stored_done(&t);
}

static void labels_of_samples_become_series(void **state)
{
	struct stored t = { 0 };
	struct profile *p = profile_new(NULL);
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	struct profilestore_list *l;
	struct profilestore_merged m;
	struct err err = { 0 };
	struct profile_label labels[3] = { 0 };

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	labels[0] = (struct profile_label){ .key = profile_add_string(p, STR("service")),
					    .str = profile_add_string(p, STR("inner")) };
	labels[1] = (struct profile_label){ .key = profile_add_string(p, STR("9 thread-id")),
					    .str = profile_add_string(p, STR("a\x01\xff")) };
	labels[2] = (struct profile_label){ .key = profile_add_string(p, STR("bytes")), .num = 4096 };
	profile_add_sample(p, 0, profile_add_labels(p, labels, 3), (int64_t[]){ 5 });
	profile_add_sample(p, 0, profile_add_labels(p, &labels[2], 1), (int64_t[]){ 7 });
	profile_add_sample(p, 0, 0, (int64_t[]){ 0 });
	stored_open(&t);
	assert_int_equal(stored_add(&t, p, "outer").n_profiles, 2);
	assert_done(profilestore_label_names(t.s, &all, &l, &err));
	assert_int_equal(l->n, 3);
	assert_str(l->v[0], "_9_thread_id");
	assert_str(l->v[1], "exported_service");
	assert_str(l->v[2], "service");
	free(l);
	assert_done(profilestore_label_values(t.s, &all, STR("_9_thread_id"), &l, &err));
	assert_int_equal(l->n, 1);
	assert_str(l->v[0], "a??");
	free(l);
	assert_done(profilestore_merge(
		t.s, &all, &(struct profilestore_shape){ .label = STR("exported_service") }, NULL, &m, &err));
	assert_int_equal(m.profile->n_samples, 2);
	assert_int_equal(profile_total(m.profile, 0), 12);
	assert_int_equal(m.profile->label_sets.n, 2);
	profile_free(m.profile);
	profile_free(p);
	stored_done(&t);
}

/* ---- damage ---- */

static void spoil(const struct stored *t, const char *sql)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);
	struct err err = { 0 };
	struct db *db;

	assert_done(db_open(path, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, sql, &err));
	db_close(db);
}

/* Rows that lode never writes: what is sound is copied into a new database, and new profiles are accepted. */
static void a_damaged_database_is_repaired(void **state)
{
	static const struct {
		const char *sql, *why;
		bool keeps;
	} bad[] = {
		{ "UPDATE segment SET data = x'0102' WHERE id = (SELECT max(id) FROM segment)", "is damaged",
		  true },
		{ "DELETE FROM segment WHERE id = (SELECT min(id) FROM segment)", "is damaged", true },
		{ "UPDATE segment SET n = n + 1", "damaged", true },
		{ "UPDATE series SET key = x'ffff'", "series 1 is damaged", false },
		{ "DELETE FROM counter", "counter", true },
		{ "DROP TABLE profile", "no such table", false },
	};
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS), *q = stored_profile(2, NOW_MS);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct profilestore_stats st;
		struct profilestore_merged m;
		struct stored t = { 0 };

		stored_open(&t);
		stored_add(&t, p, "a");
		profilestore_close(t.s);
		t.s = NULL;
		spoil(&t, bad[i].sql);
		stored_open_there(&t);
		profilestore_stats(t.s, &st);
		assert_int_equal(st.n_set_aside, 1);
		if (!strstr(st.set_aside_why, bad[i].why))
			fail_msg("%s: %s", bad[i].sql, st.set_aside_why);
		stored_add(&t, q, "a");
		stored_again(&t);
		m = stored_merge(&t, CPU, 0, INT64_MAX);
		assert_int_equal(profile_total(m.profile, 0),
				 profile_total(q, 1) + (bad[i].keeps ? profile_total(p, 1) : 0));
		profile_free(m.profile);
		stored_done(&t);
	}
}

static void damaged_samples_are_set_aside_and_the_answer_says_so(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	struct profilestore_stats before, after;
	struct profilestore_merged m;
	struct stored t = { 0 };

	stored_open(&t);
	stored_add(&t, p, "a");
	profilestore_stats(t.s, &before);
	spoil(&t, "UPDATE profile SET data = substr(data, 1, length(data) - 1)");
	m = stored_merge(&t, CPU, 0, INT64_MAX);
	assert_int_equal(m.n_profiles, 0);
	assert_true(m.n_damaged > 0);
	profilestore_stats(t.s, &after);
	/* Those of all types, at once. */
	assert_true(after.n_lost > m.n_damaged);
	assert_int_equal(after.n_profiles, before.n_profiles - after.n_lost);
	profile_free(m.profile);
	m = stored_merge(&t, CPU, 0, NOW_MS);
	assert_int_equal(m.n_damaged, 0);
	profile_free(m.profile);
	stored_done(&t);
}

static void a_full_disk_is_an_error_and_the_store_goes_on(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	const struct profile_maker large = { 2, 2, 5000, 5000, 20, false };
	AUTO(profile_freep) struct profile *q = profile_make(&large);
	struct profilestore_merged m;
	struct profilestore_stats st;
	struct stored t = { 0 };
	struct err err = { 0 };
	uint64_t n_profiles;

	q->time_ns = NOW_MS * 1000000;
	stored_open(&t);
	stored_add(&t, p, "a");
	profilestore_stats(t.s, &st);
	n_profiles = st.n_profiles;
	/* No read is under way, so the connection is free. */
	assert_done(db_exec(t.s->db, "PRAGMA max_page_count = 1", &err));
	for (int i = 0; i < 3; i++)
		assert_fails(add(&t, q, NULL, 0, &err), ERR_IO, "full");
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_profiles, n_profiles);
	assert_done(db_exec(t.s->db, "PRAGMA max_page_count = 1000000", &err));
	/* The entries that it had added in memory are written with the next one. */
	assert_done(add(&t, q, NULL, 0, &err));
	for (int turn = 0; turn < 2; turn++) {
		m = stored_merge(&t, CPU, 0, INT64_MAX);
		assert_int_equal(profile_total(m.profile, 0), profile_total(p, 1) + profile_total(q, 1));
		profile_free(m.profile);
		stored_again(&t);
	}
	stored_done(&t);
}

static void a_file_that_is_no_database_is_set_aside(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	struct profilestore_stats st;
	struct stored t = { 0 };
	AUTO(mem_freep) char *path = NULL;

	stored_open(&t);
	profilestore_close(t.s);
	t.s = NULL;
	path = mem_printf("%s/profiles.db", t.dir);
	test_file_write(path, "this is no database, but text of some length", 44);
	stored_open_there(&t);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_set_aside, 1);
	assert_non_null(strstr(st.set_aside_why, "not a database"));
	stored_add(&t, p, "a");
	stored_done(&t);
}

static void types_that_differ_are_not_added_up(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS);
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	const struct profilestore_series_options o = { .limit = 100 };
	struct profilestore_series_list *l;
	struct profilestore_merged m;
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	stored_add(&t, p, "a");
	assert_fails(profilestore_merge(t.s, &all, NULL, NULL, &m, &err), ERR_INVALID, "different types");
	assert_fails(profilestore_series(t.s, &all, &o, &l, &err), ERR_INVALID, "different types");
	stored_done(&t);
}

/* Go's profiles of mutexes and of blocking have the same sample types. */
static void equal_sample_types_of_different_profiles_are_not_added_up(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	struct profilestore_merged m;
	struct stored t = { 0 };
	struct err err = { 0 };

	profile_add_type(p, STR("delay"), STR("nanoseconds"));
	profile_add_sample(p, 0, 0, (int64_t[]){ 5 });
	p->time_ns = NOW_MS * 1000000;
	stored_open(&t);
	stored_upload(&t, &(struct profilestore_upload){ .p = p, .name = STR("mutex") });
	assert_done(profilestore_merge(t.s, &all, NULL, NULL, &m, &err));
	profile_free(m.profile);
	stored_upload(&t, &(struct profilestore_upload){ .p = p, .name = STR("block") });
	assert_fails(profilestore_merge(t.s, &all, NULL, NULL, &m, &err), ERR_INVALID, "different types");
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_labels_are_refused),
		cmocka_unit_test(impossible_times_are_refused),
		cmocka_unit_test(duplicates_are_taken_once),
		cmocka_unit_test(equal_profiles_of_one_request_add_up),
		cmocka_unit_test(profiles_of_requests_that_overlap_are_taken_once),
		cmocka_unit_test(without_a_time_it_is_now),
		cmocka_unit_test(too_many_series_are_refused),
		cmocka_unit_test(too_much_metadata_is_refused_and_the_store_goes_on),
		cmocka_unit_test(labels_of_samples_become_series),
		cmocka_unit_test(a_damaged_database_is_repaired),
		cmocka_unit_test(damaged_samples_are_set_aside_and_the_answer_says_so),
		cmocka_unit_test(a_full_disk_is_an_error_and_the_store_goes_on),
		cmocka_unit_test(a_file_that_is_no_database_is_set_aside),
		cmocka_unit_test(types_that_differ_are_not_added_up),
		cmocka_unit_test(equal_sample_types_of_different_profiles_are_not_added_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
