/* SPDX-License-Identifier: Apache-2.0 */
#include "stored.h"

#define HOURS 12

/* Two profiles an hour, the first @HOURS hours ago. */
static struct profile *fill(struct stored *t)
{
	struct profile *p = stored_profile(1, NOW_MS);

	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	for (int i = 0; i < 2 * HOURS; i++) {
		p->time_ns = (NOW_MS - HOURS * HOUR + i * HOUR / 2) * 1000000;
		stored_add(t, p, "web");
	}
	return p;
}

static void check(struct stored *t, const struct profile *p, uint64_t n)
{
	struct profilestore_merged m = stored_merge(t, CPU, 0, INT64_MAX);
	struct profilestore_stats st;

	assert_int_equal(m.n_profiles, n);
	if (n)
		assert_int_equal(profile_total(m.profile, 0), (int64_t)n * profile_total(p, 1));
	profile_free(m.profile);
	profilestore_stats(t->s, &st);
	assert_int_equal(st.n_profiles, 2 * n);
}

static void old_profiles_are_deleted(void **state)
{
	struct stored t = { .o.max_age_ms = 20 * HOUR };
	struct profilestore_stats st;
	struct profile *p;

	stored_open(&t);
	p = fill(&t);
	stored_groom(&t);
	check(&t, p, 2 * HOURS);
	stored_now_ms = NOW_MS + 14 * HOUR;
	stored_groom(&t);
	profilestore_stats(t.s, &st);
	/* Whole hours: some older profiles may stay. */
	assert_true(st.oldest_ms >= stored_now_ms - 21 * HOUR && st.oldest_ms <= stored_now_ms - 19 * HOUR);
	assert_int_equal(st.n_expired, 2 * 2 * HOURS - st.n_profiles);
	check(&t, p, st.n_profiles / 2);
	stored_again(&t);
	check(&t, p, st.n_profiles / 2);
	stored_now_ms = NOW_MS + 40 * HOUR;
	stored_groom(&t);
	check(&t, p, 0);
	stored_again(&t);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_series, 0);
	assert_int_equal(st.n_locations, 0);
	assert_int_equal(st.n_stacks, 0);
	/* The store can be filled again. */
	p->time_ns = stored_now_ms * 1000000;
	assert_int_equal(stored_add(&t, p, "web").n_profiles, 2);
	check(&t, p, 1);
	profile_free(p);
	stored_done(&t);
}

static void the_oldest_go_when_there_are_too_many(void **state)
{
	struct stored t = { 0 };
	struct profilestore_stats before, after;
	struct err err = { 0 };
	struct profile *p;
	bool more;

	stored_open(&t);
	p = fill(&t);
	stored_groom(&t);
	profilestore_stats(t.s, &before);
	t.o.max_size = 1;
	stored_again(&t);
	assert_done(profilestore_groom(t.s, &more, &err));
	assert_true(more);
	profilestore_stats(t.s, &after);
	assert_true(after.n_profiles < before.n_profiles && after.n_profiles > 0);
	assert_true(after.oldest_ms >= before.oldest_ms);
	stored_groom(&t);
	check(&t, p, 0);
	profile_free(p);
	stored_done(&t);
}

/* A label with a new value for each profile: the number of series is reached, and comes free with age. */
static void series_without_profiles_make_room(void **state)
{
	struct stored t = { .o = { .max_series = 20, .max_age_ms = 10 * HOUR } };
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	struct profilestore_receipt r;
	struct profilestore_list *l;
	struct profilestore_stats st;
	struct err err = { 0 };
	struct profile *p;
	struct reader rd;

	stored_open(&t);
	p = stored_profile(1, NOW_MS);
	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	for (int turn = 0; turn < 3; turn++) {
		p->time_ns = stored_now_ms * 1000000;
		for (int i = 0; i < 10; i++) {
			char value[16];
			const struct profilestore_label label = { STR("pod"), { value, 4 } };

			snprintf(value, sizeof(value), "%d%03d", turn, i);
			assert_done(profilestore_add_wait(t.s, p, &label, 1, &r, &err));
		}
		assert_fails(profilestore_add_wait(t.s, p,
						   &(struct profilestore_label){ STR("pod"), STR("x") }, 1,
						   &r, &err),
			     ERR_LIMIT, "there are 20 series");
		reader_hold(t.s, &rd);
		stored_now_ms += 12 * HOUR;
		stored_groom(&t);
		profilestore_stats(t.s, &st);
		assert_int_equal(st.n_series, 0);
		assert_int_equal(column_n(&t.s->series), 20);
		reader_end(&rd);
		assert_done(profilestore_label_values(t.s, &all, STR("pod"), &l, &err));
		assert_int_equal(l->n, 0);
		free(l);
	}
	p->time_ns = stored_now_ms * 1000000;
	assert_int_equal(stored_add(&t, p, "web").n_profiles, 2);
	stored_again(&t);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_series, 2);
	profile_free(p);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_profiles_are_deleted),
		cmocka_unit_test(the_oldest_go_when_there_are_too_many),
		cmocka_unit_test(series_without_profiles_make_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
