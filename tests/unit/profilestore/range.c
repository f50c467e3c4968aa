/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For any range, and any rollups that were made or invalidated, the result is the sum of the profiles in the
 * range.
 */
#include <stdio.h>
#include "stored.h"

#define DAY      (24 * HOUR)
#define SERIES   3
#define FRAMES   5
#define PROFILES 400

struct one {
	int64_t time_ms;
	unsigned series;
	int64_t values[FRAMES];
};

/* A profile of FRAMES stacks, each of one function. */
static struct profile *small(const struct one *o)
{
	struct profile *p = profile_new(NULL);
	struct profile_type cpu;
	char name[16];

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	cpu = p->types.p[0];
	p->period_type = cpu;
	p->period = 1000;
	p->time_ns = o->time_ms * 1000000;
	p->duration_ns = INT64_C(1000000000);
	for (unsigned i = 0; i < FRAMES; i++) {
		struct profile_function f = { 0 };
		struct profile_line line = { .line = 1 };
		const struct profile_location l = { .mapping = PROFILE_NONE };

		snprintf(name, sizeof(name), "f%u", i);
		f.name = f.system_name = profile_add_string(p, str_of(name));
		line.function = profile_add_function(p, &f);
		profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &l, &line, 1)), 0,
				   &o->values[i]);
	}
	return p;
}

static void add(struct stored *t, const struct one *o)
{
	AUTO(profile_freep) struct profile *p = small(o);
	struct profilestore_receipt r = stored_add(t, p, (const char *[]){ "a", "b", "c" }[o->series]);

	assert_int_equal(r.n_profiles, 1);
}

static bool is_in(const struct one *o, int series, int64_t from_ms, int64_t to_ms)
{
	return o->time_ms >= from_ms && o->time_ms < to_ms && (series < 0 || o->series == (unsigned)series);
}

static const char *const selectors[] = { CPU, CPU "{service='a'}", CPU "{service='b'}", CPU "{service='c'}" };

static void check_merge(struct stored *t, const struct one *v, size_t n, int series, int64_t from_ms,
			int64_t to_ms)
{
	struct profilestore_merged m = stored_merge(t, selectors[series + 1], from_ms, to_ms);
	int64_t want[FRAMES] = { 0 }, first = INT64_MAX;
	uint64_t n_profiles = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_in(&v[i], series, from_ms, to_ms))
			continue;
		n_profiles++;
		first = MIN(first, v[i].time_ms);
		for (size_t k = 0; k < FRAMES; k++)
			want[k] += v[i].values[k];
	}
	assert_int_equal(m.n_profiles, n_profiles);
	for (uint32_t i = 0; i < m.profile->n_samples; i++) {
		uint32_t l = m.profile->stacks.p[m.profile->sample_stack[i]].location;
		uint32_t f = m.profile->lines.p[m.profile->locations.p[l].first_line].function;
		struct str name = profile_str(m.profile, m.profile->functions.p[f].name);

		assert_int_equal(profile_value(m.profile, i, 0), want[name.p[1] - '0']);
		want[name.p[1] - '0'] = 0;
	}
	for (size_t k = 0; k < FRAMES; k++)
		assert_int_equal(want[k], 0);
	if (n_profiles) {
		assert_int_equal(m.profile->time_ns, first * 1000000);
		assert_int_equal(m.profile->duration_ns, n_profiles * 1000000000);
	}
	profile_free(m.profile);
}

static void check_series(struct stored *t, const struct one *v, size_t n, int64_t from_ms, int64_t to_ms,
			 int64_t step_ms)
{
	struct profilestore_range r = stored_range(CPU, from_ms, to_ms);
	const struct profilestore_series_options o = { .step_ms = step_ms, .one = true, .limit = 1 };
	struct profilestore_series_list *l;
	struct err err = { 0 };
	int64_t total = 0;

	assert_done(profilestore_series(t->s, &r, &o, &l, &err));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; is_in(&v[i], -1, from_ms, to_ms) && k < FRAMES; k++)
			total += v[i].values[k];
	if (l->n)
		assert_int_equal(l->v[0].total, total);
	else
		assert_int_equal(total, 0);
	for (size_t p = 0; l->n && p < l->n_points; p++) {
		int64_t at = l->from_ms + (int64_t)p * l->step_ms, sum = 0;

		for (size_t i = 0; i < n; i++)
			for (size_t k = 0;
			     is_in(&v[i], -1, MAX(at, from_ms), MIN(at + l->step_ms, to_ms)) && k < FRAMES;
			     k++)
				sum += v[i].values[k];
		assert_int_equal(l->v[0].points[p], sum);
	}
	free(l);
	stored_range_done(&r);
}

static int64_t some_time(uint64_t *seed, int64_t from_ms)
{
	int64_t t = from_ms + (int64_t)(profile_maker_next(seed) % (uint64_t)(NOW_MS - from_ms));

	/* Ends are often those of a rollup. */
	switch (profile_maker_next(seed) % 4) {
	case 0:
		return t - t % HOUR;
	case 1:
		return t - t % DAY;
	case 2:
		return t - t % (5 * MINUTE);
	default:
		return t;
	}
}

static void check(struct stored *t, const struct one *v, size_t n, uint64_t *seed)
{
	int64_t begin = NOW_MS - 3 * DAY;

	check_merge(t, v, n, -1, 0, INT64_MAX);
	check_merge(t, v, n, -1, INT64_MIN, NOW_MS + 1);
	check_series(t, v, n, 0, NOW_MS + 1, 0);
	for (int i = 0; i < 30; i++) {
		int64_t from = some_time(seed, begin), to = some_time(seed, begin);

		check_merge(t, v, n, (int)(profile_maker_next(seed) % 4) - 1, MIN(from, to), MAX(from, to));
		check_series(t, v, n, MIN(from, to), MAX(from, to),
			     (int64_t[]){ 10 * MINUTE, HOUR, 7 * HOUR / 3, 0 }[i % 4]);
	}
	/* To the millisecond. */
	for (int i = 0; i < 10; i++) {
		const struct one *o = &v[profile_maker_next(seed) % n];

		check_merge(t, v, n, -1, o->time_ms, o->time_ms + 1);
		check_merge(t, v, n, -1, o->time_ms + 1, NOW_MS + 1);
		check_merge(t, v, n, -1, begin, o->time_ms);
		check_merge(t, v, n, -1, o->time_ms, o->time_ms);
	}
}

/* Two thirds are close together, so that rollups are worth it. */
static void draw(struct one *v, size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		v[i].series = (unsigned)(profile_maker_next(seed) % SERIES);
		v[i].time_ms = i % 3 ? NOW_MS - 2 * DAY +
					       (int64_t)(profile_maker_next(seed) % (uint64_t)(2 * HOUR))
				     : some_time(seed, NOW_MS - 3 * DAY);
		for (size_t k = 0; k < FRAMES; k++)
			v[i].values[k] = (int64_t)(profile_maker_next(seed) % 1000) * (k % 2 ? -10 : 1000);
		/* No profile is empty, or the same as another. */
		v[i].values[0] = (int64_t)i + 1;
	}
}

static void a_range_is_the_sum_of_its_profiles(void **state)
{
	for (uint64_t seed = 1; seed < 3; seed++) {
		struct one v[PROFILES];
		struct stored t = { 0 };
		uint64_t s = seed;

		stored_open(&t);
		draw(v, PROFILES, &s);
		for (size_t i = 0; i < PROFILES / 2; i++)
			add(&t, &v[i]);
		check(&t, v, PROFILES / 2, &s);
		stored_groom(&t);
		check(&t, v, PROFILES / 2, &s);
		/* Late ones, into existing rollups. */
		for (size_t i = PROFILES / 2; i < PROFILES * 3 / 4; i++)
			add(&t, &v[i]);
		check(&t, v, PROFILES * 3 / 4, &s);
		stored_again(&t);
		check(&t, v, PROFILES * 3 / 4, &s);
		stored_groom(&t);
		for (size_t i = PROFILES * 3 / 4; i < PROFILES; i++)
			add(&t, &v[i]);
		stored_groom(&t);
		check(&t, v, PROFILES, &s);
		stored_done(&t);
	}
}

static void rollups_are_made_and_made_again(void **state)
{
	struct one v[30] = { 0 };
	struct stored t = { 0 };
	struct db *db = NULL;
	struct db_stmt *st;
	struct err err = { 0 };
	int64_t n[3];

	stored_open(&t);
	for (size_t i = 0; i < 30; i++) {
		v[i].time_ms = NOW_MS - 30 * HOUR + (int64_t)i * MINUTE;
		v[i].values[0] = 1;
		add(&t, &v[i]);
	}
	for (int turn = 0; turn < 3; turn++) {
		if (turn != 1)
			stored_groom(&t);
		db = reader_take(t.s, &err);
		assert_non_null(db);
		assert_done(db_prepare(db, "SELECT count(*) FROM rollup", &st, &err));
		assert_int_equal(db_step(st, &err), DB_ROW);
		n[turn] = db_i64(st, 0);
		db_reset(st);
		reader_give(t.s, db);
		if (turn == 0) {
			v[29].time_ms++;
			add(&t, &v[29]);
		}
	}
	assert_true(n[0] >= 6);
	assert_true(n[1] < n[0]);
	assert_int_equal(n[2], n[0]);
	stored_done(&t);
}

/*
 * The times of the first and last profile of a series are newer than the snapshot: deleted profiles are still
 * in it, and old ones may have come. It has rollups of them, too.
 */
static void times_of_a_series_may_be_newer_than_the_snapshot(void **state)
{
	const int64_t day = NOW_MS - NOW_MS % DAY - DAY;
	struct one v[40] = { 0 };
	struct stored t = { 0 };
	struct series *x;

	stored_open(&t);
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		v[i].time_ms = day + (int64_t)i * HOUR / 2;
		v[i].values[0] = (int64_t)i + 1;
		add(&t, &v[i]);
	}
	stored_groom(&t);
	x = series_of_id(t.s, 1);
	assert_non_null(x);
	assert_int_equal(atomic_load(&x->first_ms), v[0].time_ms);
	for (size_t i = 1; i + 1 < ARRAY_SIZE(v); i++) {
		int64_t from = v[i].time_ms - MINUTE, to = v[i].time_ms + MINUTE;

		atomic_store(&x->first_ms, v[i].time_ms);
		check_merge(&t, v, ARRAY_SIZE(v), -1, from, NOW_MS);
		check_series(&t, v, ARRAY_SIZE(v), from, NOW_MS, DAY);
		atomic_store(&x->first_ms, v[0].time_ms);
		atomic_store(&x->last_ms, v[i].time_ms);
		check_merge(&t, v, ARRAY_SIZE(v), -1, 0, to);
		check_series(&t, v, ARRAY_SIZE(v), day, to, DAY);
		atomic_store(&x->last_ms, v[ARRAY_SIZE(v) - 1].time_ms);
	}
	stored_done(&t);
}

/* Names of perf's events have colons in them. */
static void a_series_has_its_type_and_unit(void **state)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	const struct profilestore_range all = { NULL, 0, INT64_MAX, 0 };
	const struct profilestore_series_options o = { .limit = 100 };
	struct profilestore_series_list *l;
	struct profile_location at = { .addr = 1, .mapping = PROFILE_NONE };
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	assert_done(profilestore_series(t.s, &all, &o, &l, &err));
	assert_str(l->type, "");
	assert_str(l->unit, "");
	free(l);
	profile_add_type(p, STR("cycles:u"), STR("count"));
	profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &at, NULL, 0)), 0,
			   (int64_t[]){ 1 });
	stored_add(&t, p, "a");
	assert_done(profilestore_series(t.s, &all, &o, &l, &err));
	assert_str(l->type, "cycles:u");
	assert_str(l->unit, "count");
	free(l);
	stored_done(&t);
}

static void the_longest_step_has_all_in_one_point(void **state)
{
	const struct profilestore_range r = { NULL, NOW_MS - HOUR, NOW_MS, 0 };
	const struct profilestore_series_options o = { .step_ms = INT64_MAX, .one = true, .limit = 1 };
	struct profilestore_series_list *l;
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	add(&t, &(const struct one){ NOW_MS - 1000, 0, { 1, 2, 3, 4, 5 } });
	assert_done(profilestore_series(t.s, &r, &o, &l, &err));
	assert_int_equal(l->n_points, 1);
	assert_int_equal(l->v[0].n_profiles, 1);
	assert_true(l->v[0].points[0] == l->v[0].total);
	free(l);
	stored_done(&t);
}

/* 10 000 points of 12 bytes, of which 64 KiB are granted; then all that is needed. */
static void points_of_series_are_granted(void **state)
{
	const struct profilestore_range r = { NULL, NOW_MS - 10000 * 1000, NOW_MS, 0 };
	struct profilestore_series_options o = { .step_ms = 1000, .limit = 100 };
	struct profilestore_series_list *l;
	struct budget_hold hold = { 0 };
	struct stored t = { 0 };
	struct budget *b;
	struct err err;

	stored_open(&t);
	add(&t, &(const struct one){ NOW_MS - 10000 * 1000, 0, { 1, 2, 3, 4, 5 } });
	add(&t, &(const struct one){ NOW_MS - 1000, 0, { 1, 2, 3, 4, 5 } });
	o.memory = &hold;
	b = budget_new_undivided(KIB(64));
	budget_hold_init(&hold, b, BUDGET_QUERY);
	assert_fails(profilestore_series(t.s, &r, &o, &l, &err), ERR_LIMIT, "series");
	budget_hold_done(&hold);
	budget_free(b);
	b = budget_new_undivided(MIB(2));
	budget_hold_init(&hold, b, BUDGET_QUERY);
	assert_done(profilestore_series(t.s, &r, &o, &l, &err));
	assert_true(l->n_points >= 10000);
	free(l);
	budget_hold_done(&hold);
	budget_free(b);
	stored_done(&t);
}

/* Series that have profiles only before and after the range are not listed, and no points are granted for them. */
static void series_without_a_profile_in_the_range_are_left_out(void **state)
{
	const int64_t from_ms = NOW_MS - 11000 * 1000, to_ms = NOW_MS - 1000 * 1000;
	const struct profilestore_range r = { NULL, from_ms, to_ms, 0 };
	struct profilestore_series_options o = { .step_ms = 1000, .limit = 10 };
	struct profilestore_series_list *l;
	struct budget_hold hold = { 0 };
	struct stored t = { 0 };
	struct budget *b = budget_new_undivided(KIB(352));
	struct err err = { 0 };

	stored_open(&t);
	for (unsigned i = 0; i < 3; i++) {
		add(&t, &(const struct one){ from_ms - 1, i, { 1, 2, 3, 4, 5 } });
		add(&t, &(const struct one){ to_ms, i, { 1, 2, 3, 4, 5 } });
	}
	add(&t, &(const struct one){ from_ms, 1, { 7 } });
	o.memory = &hold;
	budget_hold_init(&hold, b, BUDGET_QUERY);
	for (unsigned by = 0; by < 2; by++) {
		o.by = &(const struct str){ "service", 7 };
		o.n_by = by;
		assert_done(profilestore_series(t.s, &r, &o, &l, &err));
		assert_int_equal(l->n_points, 10000);
		assert_int_equal(l->n, 1);
		assert_int_equal(l->n_left_out, 0);
		assert_str(l->v[0].labels[0].value, "b");
		assert_int_equal(l->v[0].n_profiles, 1);
		assert_true(l->total == 7 && l->v[0].points[0] == 7);
		free(l);
		budget_hold_done(&hold);
		budget_hold_init(&hold, b, BUDGET_QUERY);
	}
	budget_hold_done(&hold);
	budget_free(b);
	stored_done(&t);
}

/* A label that was asked for twice is once in the answer: the keys of a JSON object are different. */
static void a_label_named_twice_counts_once(void **state)
{
	const struct profilestore_range r = { NULL, NOW_MS, INT64_MAX, 0 };
	static const struct str by[] = { { "service", 7 }, { "missing", 7 }, { "service", 7 } };
	const struct profilestore_series_options o = { .limit = 10, .by = by, .n_by = ARRAY_SIZE(by) };
	struct profilestore_series_list *l;
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	for (unsigned i = 0; i < 2; i++)
		add(&t, &(const struct one){ NOW_MS, i, { 7 } });
	assert_done(profilestore_series(t.s, &r, &o, &l, &err));
	assert_int_equal(l->n, 2);
	for (size_t i = 0; i < l->n; i++) {
		assert_int_equal(l->v[i].n_labels, 1);
		assert_str(l->v[i].labels[0].name, "service");
	}
	free(l);
	stored_done(&t);
}

/* A deadline that has passed, and that the next check sees. */
static struct deadline passed(void)
{
	struct deadline d = deadline_in(0, "the query", "ask for less");

	d.spent = DEADLINE_STEPS;
	return d;
}

static void queries_end_at_their_deadline(void **state)
{
	const struct profilestore_series_options o = { .limit = 100 };
	struct deadline d;
	struct profilestore_range all = { NULL, 0, INT64_MAX, 0, &d };
	struct profilestore_series_list *series;
	struct profilestore_binaries *binaries;
	struct profilestore_entries *entries;
	struct profilestore_list *list;
	struct profilestore_merged m;
	struct stored t = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	add(&t, &(const struct one){ NOW_MS - HOUR, 0, { 1, 2, 3, 4, 5 } });
	d = passed();
	assert_fails(profilestore_types(t.s, &all, &list, &err), ERR_CANCELLED, "ask for less");
	d = passed();
	assert_fails(profilestore_label_names(t.s, &all, &list, &err), ERR_CANCELLED, "ask for less");
	d = passed();
	assert_fails(profilestore_label_values(t.s, &all, STR("service"), &list, &err), ERR_CANCELLED,
		     "ask for less");
	d = passed();
	assert_fails(profilestore_series(t.s, &all, &o, &series, &err), ERR_CANCELLED, "ask for less");
	d = passed();
	assert_fails(profilestore_profiles(t.s, &all, 10, &entries, &err), ERR_CANCELLED, "ask for less");
	d = passed();
	assert_fails(profilestore_binaries(t.s, &all, NULL, &binaries, &err), ERR_CANCELLED, "ask for less");
	d = passed();
	assert_fails(profilestore_merge(t.s, &all, NULL, NULL, &m, &err), ERR_CANCELLED, "ask for less");
	stored_done(&t);
}

/* However they are read: row by row, or by look-ups. */
static void the_times_of_series_are_the_same_after_a_restart(void **state)
{
	struct stored t = { 0 };

	stored_open(&t);
	for (int i = 0; i < 60; i++) {
		AUTO(profile_freep)
		struct profile *p = stored_profile((uint64_t)i % 5, NOW_MS - i * 7 * MINUTE);

		stored_add(&t, p, "many");
	}
	for (int round = 0; round < 2; round++) {
		static int64_t was[4096][3];
		uint32_t n;

		stored_groom(&t);
		n = column_n(&t.s->series);
		assert_true(n > 0 && n <= ARRAY_SIZE(was));
		for (uint32_t i = 0; i < n; i++) {
			const struct series *x = series_at(&t.s->series, i);

			was[i][0] = atomic_load(&x->first_ms);
			was[i][1] = atomic_load(&x->last_ms);
			was[i][2] = atomic_load(&x->rolled_ms);
		}
		stored_again(&t);
		assert_int_equal(column_n(&t.s->series), n);
		for (uint32_t i = 0; i < n; i++) {
			const struct series *x = series_at(&t.s->series, i);

			assert_int_equal(atomic_load(&x->first_ms), was[i][0]);
			assert_int_equal(atomic_load(&x->last_ms), was[i][1]);
			assert_int_equal(atomic_load(&x->rolled_ms), was[i][2]);
		}
		for (int i = 0; i < 8; i++) {
			AUTO(profile_freep) struct profile *p = stored_profile(1, NOW_MS - i * HOUR);
			char service[16];

			snprintf(service, sizeof(service), "few%d", i);
			stored_add(&t, p, service);
		}
	}
	stored_done(&t);
}

/* One profile, whatever else is in its series, also at its time. */
static void one_profile_has_its_own_series_and_labels(void **state)
{
	const struct profilestore_series_options o = { .limit = 10 };
	struct profilestore_range one = { .sel = NULL, .from_ms = 1, .to_ms = 2 };
	struct profilestore_entries *e;
	struct profilestore_series_list *l;
	struct profilestore_list *list;
	struct err err = { 0 };
	struct stored t = { 0 };

	stored_open(&t);
	for (uint64_t i = 0; i < 3; i++) {
		struct profile *p = stored_profile(i + 1, NOW_MS - HOUR);
		struct profilestore_receipt got = stored_add(&t, p, i < 2 ? "web" : "shop");

		profile_free(p);
		if (i == 1)
			one.profile_id = got.first_id;
	}
	assert_true(one.profile_id > 0);
	assert_done(profilestore_profiles(t.s, &one, 10, &e, &err));
	assert_int_equal(e->n, 1);
	assert_done(profilestore_series(t.s, &one, &o, &l, &err));
	assert_int_equal(l->n, 1);
	assert_int_equal(l->total, e->v[0].total);
	assert_int_equal(l->v[0].n_profiles, 1);
	assert_int_equal(l->n_points, 1);
	assert_int_equal(l->v[0].points[0], e->v[0].total);
	assert_true(l->from_ms <= NOW_MS - HOUR && NOW_MS - HOUR < l->from_ms + l->step_ms);
	free(l);
	free(e);
	assert_done(profilestore_label_values(t.s, &one, STR("service"), &list, &err));
	assert_int_equal(list->n, 1);
	assert_true(str_eq(list->v[0], STR("web")));
	free(list);
	assert_done(profilestore_types(t.s, &one, &list, &err));
	assert_int_equal(list->n, 1);
	free(list);
	assert_done(profilestore_label_names(t.s, &one, &list, &err));
	assert_int_equal(list->n, 1);
	free(list);
	/* One that is not there has none. */
	one.profile_id = 1 << 30;
	assert_done(profilestore_series(t.s, &one, &o, &l, &err));
	assert_int_equal(l->n, 0);
	assert_int_equal(l->total, 0);
	free(l);
	assert_done(profilestore_types(t.s, &one, &list, &err));
	assert_int_equal(list->n, 0);
	free(list);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_range_is_the_sum_of_its_profiles),
		cmocka_unit_test(rollups_are_made_and_made_again),
		cmocka_unit_test(times_of_a_series_may_be_newer_than_the_snapshot),
		cmocka_unit_test(a_series_has_its_type_and_unit),
		cmocka_unit_test(the_longest_step_has_all_in_one_point),
		cmocka_unit_test(points_of_series_are_granted),
		cmocka_unit_test(series_without_a_profile_in_the_range_are_left_out),
		cmocka_unit_test(a_label_named_twice_counts_once),
		cmocka_unit_test(queries_end_at_their_deadline),
		cmocka_unit_test(the_times_of_series_are_the_same_after_a_restart),
		cmocka_unit_test(one_profile_has_its_own_series_and_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
