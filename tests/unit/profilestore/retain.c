/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
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

/* The disk is full, say. */
static void profiles_whose_deletion_failed_are_still_found(void **state)
{
	struct rlimit usual, none;
	struct stored t = { 0 };
	struct err err = { 0 };
	struct profile *p;
	uint64_t n;
	int r;

	stored_open(&t);
	p = fill(&t);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
	none = (struct rlimit){ 1, usual.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	r = expire_before(t.s, NOW_MS + HOUR, false, &n, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
	assert_int_equal(r, -1);
	check(&t, p, 2 * HOURS);
	assert_done(expire_before(t.s, NOW_MS + HOUR, false, &n, &err));
	check(&t, p, 0);
	profile_free(p);
	stored_done(&t);
}

static void the_oldest_go_when_there_are_too_many(void **state)
{
	struct stored t = { 0 };
	struct profilestore_stats before, after;
	struct profilestore_receipt r;
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
	/* One step is of the oldest hour, and no more: two profiles of two types. */
	assert_int_equal(before.n_profiles - after.n_profiles, 2 * 2);
	assert_true(after.oldest_ms == before.oldest_ms + HOUR);
	stored_groom(&t);
	/* The last hour is not deleted to make room; new profiles are refused. */
	check(&t, p, 2);
	p->time_ns = NOW_MS * 1000000;
	assert_fails(profilestore_add_wait(t.s, p, NULL, 0, &r, &err), ERR_LIMIT,
		     "raise --profiles-max-size");
	/* It ends, although no newer profile could come. */
	stored_now_ms += HOUR;
	stored_groom(&t);
	p->time_ns = stored_now_ms * 1000000;
	assert_done(profilestore_add_wait(t.s, p, NULL, 0, &r, &err));
	profile_free(p);
	stored_done(&t);
}

/* Profiles are kept for half an hour, so those that fill the store are too old before they are of another hour. */
static void a_full_store_whose_profiles_are_too_old_takes_new_ones(void **state)
{
	struct stored t = { .o = { .max_size = 1, .max_age_ms = HOUR / 2 } };
	const int64_t hour_ms = NOW_MS - NOW_MS % HOUR;
	struct profilestore_receipt r;
	struct err err = { 0 };
	struct profile *p;

	stored_open(&t);
	p = stored_profile(1, hour_ms + 45 * MINUTE);
	stored_now_ms = hour_ms + 45 * MINUTE;
	stored_add(&t, p, "web");
	for (; stored_now_ms < hour_ms + 90 * MINUTE; stored_now_ms += 5 * MINUTE) {
		stored_groom(&t);
		p->time_ns = stored_now_ms * 1000000;
		assert_fails(profilestore_add_wait(t.s, p, NULL, 0, &r, &err), ERR_LIMIT,
			     "raise --profiles-max-size");
	}
	stored_groom(&t);
	assert_int_equal(series_span(t.s).first_ms, INT64_MAX);
	assert_done(profilestore_add_wait(t.s, p, NULL, 0, &r, &err));
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

/* ---- clocks ---- */

#define DAY  (24 * HOUR)
#define YEAR (365 * DAY)

static int64_t mono_now_ms;
static char notices[4096];

static int64_t mono_ms(void)
{
	return mono_now_ms;
}

static void pass(int64_t ms)
{
	stored_now_ms += ms;
	mono_now_ms += ms;
}

static void note(void *arg, enum log_level level, const char *text)
{
	size_t n = strlen(notices);

	snprintf(notices + n, sizeof(notices) - n, "%s\n", text);
}

static const struct profilestore_options clocked = { .max_age_ms = 2 * DAY,
						     .mono_ms = mono_ms,
						     .notice = note };

static void assert_told(const char *text)
{
	if (!strstr(notices, text))
		fail_msg("'%s' is not in: %s", text, notices);
	notices[0] = '\0';
}

static void a_clock_that_is_ahead_for_a_moment_deletes_nothing(void **state)
{
	static const int64_t jumps[] = { 3 * DAY, YEAR, 50 * YEAR, -YEAR };

	for (size_t i = 0; i < ARRAY_SIZE(jumps); i++) {
		struct stored t = { .o = clocked };
		struct profile *p;

		notices[0] = '\0';
		stored_open(&t);
		p = fill(&t);
		stored_groom(&t);
		stored_now_ms += jumps[i];
		for (int k = 0; k < 5; k++, pass(1000))
			stored_groom(&t);
		check(&t, p, 2 * HOURS);
		assert_told("no profile is deleted for its age");
		/* Profiles of senders with the right time are accepted meanwhile, and stay. */
		p->time_ns = NOW_MS * 1000000;
		stored_add(&t, p, "web");
		stored_now_ms -= jumps[i];
		stored_groom(&t);
		check(&t, p, 2 * HOURS + 1);
		assert_told("believed again");
		profile_free(p);
		stored_done(&t);
	}
}

static void a_store_that_is_opened_with_a_wrong_clock_deletes_nothing_at_once(void **state)
{
	struct stored t = { .o = clocked };
	struct profile *p;

	stored_open(&t);
	p = fill(&t);
	stored_now_ms += YEAR;
	stored_again(&t);
	for (int i = 0; i < 20; i++, pass(HOUR / 2))
		stored_groom(&t);
	check(&t, p, 2 * HOURS);
	notices[0] = '\0';
	/* A clock that goes on so for a day is right: the store was closed for a year. */
	for (int i = 0; i < 40; i++, pass(HOUR / 2))
		stored_groom(&t);
	check(&t, p, 0);
	assert_told("believed again");
	profile_free(p);
	stored_done(&t);
}

/* A sender has the same wrong time, and its profile agrees with the clock when the store is opened. */
static void a_profile_from_the_future_does_not_confirm_the_clock_of_a_restart(void **state)
{
	for (int again = 0; again < 2; again++) {
		struct stored t = { .o = clocked };
		struct profile *p;

		stored_open(&t);
		p = fill(&t);
		stored_groom(&t);
		stored_now_ms += YEAR;
		p->time_ns = stored_now_ms * 1000000;
		stored_add(&t, p, "web");
		stored_groom(&t);
		if (again) {
			/* It was corrected, and is as wrong when the machine starts the next time. */
			stored_now_ms -= YEAR;
			stored_again(&t);
			stored_groom(&t);
			check(&t, p, 2 * HOURS + 1);
			stored_now_ms += YEAR;
		}
		notices[0] = '\0';
		stored_again(&t);
		for (int i = 0; i < 20; i++, pass(HOUR / 2))
			stored_groom(&t);
		check(&t, p, 2 * HOURS + 1);
		assert_told("no profile is deleted for its age");
		/* It goes on so for a day. */
		for (int i = 0; i < 40; i++, pass(HOUR / 2))
			stored_groom(&t);
		check(&t, p, 1);
		profile_free(p);
		stored_done(&t);
	}
}

/*
 * A machine that is on for a few hours a day, after a pause: the clock is right, and is believed once it has gone on for
 * long enough in all. Profiles come each day.
 */
static void a_clock_is_confirmed_in_several_runs(void **state)
{
	struct stored t = { .o = clocked };
	struct profile *p;

	stored_open(&t);
	p = fill(&t);
	stored_groom(&t);
	notices[0] = '\0';
	for (int day = 0; day < 5; day++) {
		profilestore_close(t.s);
		pass(day ? 15 * HOUR : 10 * DAY);
		stored_open_there(&t);
		p->time_ns = stored_now_ms * 1000000;
		stored_add(&t, p, "web");
		for (int i = 0; i < 2 * 9; i++, pass(HOUR / 2))
			stored_groom(&t);
		/* 18 hours are too few. */
		if (day == 1)
			check(&t, p, 2 * HOURS + 2);
	}
	assert_told("believed again");
	/* Those of the last two days. */
	check(&t, p, 2);
	profile_free(p);
	stored_done(&t);
}

/* No profile has come for days, and the clock was right all the time: it is not doubted after a restart. */
static void a_restart_after_days_without_profiles_deletes_by_age(void **state)
{
	for (int killed = 0; killed < 2; killed++) {
		struct stored t = { .o = clocked };
		struct profile *p;

		t.o.max_age_ms = 0;
		stored_open(&t);
		p = fill(&t);
		for (int i = 0; i < 5 * 24; i++, pass(HOUR))
			stored_groom(&t);
		if (killed) {
			AUTO(buf_done) struct buf text = { 0 };
			struct err err = { 0 };
			char path[PATH_MAX];

			/* The file is that of the last grooming. */
			stored_groom(&t);
			snprintf(path, sizeof(path), "%s/clock", t.dir);
			assert_done(file_read(path, 64, &text, &err));
			pass(2 * 60000);
			profilestore_close(t.s);
			assert_done(file_write_durable(path, text.p, text.size, 0640, &err));
			stored_open_there(&t);
		}
		t.o.max_age_ms = 2 * DAY;
		notices[0] = '\0';
		stored_again(&t);
		stored_groom(&t);
		check(&t, p, 0);
		assert_true(!strstr(notices, "no profile is deleted"));
		profile_free(p);
		stored_done(&t);
	}
}

/* The store was closed for a while: its clock goes on from before, but a profile that comes now is of now. */
static void a_profile_without_a_time_is_of_now_after_a_pause(void **state)
{
	const struct profilestore_range all = { .to_ms = INT64_MAX };
	AUTO(profile_freep) struct profile *p = stored_profile(1, 0);
	struct stored t = { .o = clocked };
	struct profilestore_entries *e;
	struct err err = { 0 };

	stored_open(&t);
	stored_add(&t, p, "web");
	profilestore_close(t.s);
	pass(20 * 60000);
	stored_open_there(&t);
	stored_add(&t, p, "web");
	assert_done(profilestore_profiles(t.s, &all, 100, &e, &err));
	assert_true(e->v[0].time_ms == stored_now_ms);
	free(e);
	stored_done(&t);
}

/* When the clock is right again, the profile would be too old. */
static void a_profile_without_a_time_is_kept_while_the_clock_is_set_back(void **state)
{
	AUTO(profile_freep) struct profile *p = stored_profile(1, 0);
	struct stored t = { .o = clocked };

	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	stored_open(&t);
	stored_add(&t, p, "web");
	stored_now_ms -= YEAR;
	pass(60000);
	stored_add(&t, p, "web");
	stored_now_ms += YEAR;
	for (int i = 0; i < 3; i++, pass(HOUR))
		stored_groom(&t);
	check(&t, p, 2);
	stored_done(&t);
}

/* A computer's clock is often hours ahead until it has asked for the time. */
static void a_profile_without_a_time_is_of_a_clock_that_was_corrected(void **state)
{
	const struct profilestore_range all = { .to_ms = INT64_MAX };
	AUTO(profile_freep) struct profile *p = stored_profile(1, 0);
	struct stored t = { .o = clocked };
	struct profilestore_entries *e;
	int64_t first_ms = INT64_MAX;
	struct err err = { 0 };

	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	stored_open(&t);
	stored_add(&t, p, "web");
	stored_now_ms -= 8 * HOUR;
	pass(60000);
	stored_add(&t, p, "web");
	assert_done(profilestore_profiles(t.s, &all, 100, &e, &err));
	/* Each is one of two types. */
	assert_int_equal(e->n, 4);
	for (size_t i = 0; i < e->n; i++)
		first_ms = MIN(first_ms, e->v[i].time_ms);
	assert_true(first_ms == stored_now_ms);
	free(e);
	stored_done(&t);
}

static void a_damaged_file_of_the_clock_says_nothing(void **state)
{
	static const char *const texts[] = { "", "x", "-5", "99999999999999999999", "9000000000000000000" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct stored t = { .o = clocked };
		struct err err = { 0 };
		char path[PATH_MAX];
		struct profile *p;

		stored_open(&t);
		p = fill(&t);
		profilestore_close(t.s);
		snprintf(path, sizeof(path), "%s/clock", t.dir);
		assert_done(file_write_durable(path, texts[i], strlen(texts[i]), 0640, &err));
		stored_now_ms += YEAR;
		stored_open_there(&t);
		stored_groom(&t);
		check(&t, p, 2 * HOURS);
		profile_free(p);
		stored_done(&t);
	}
}

static void a_clock_that_jumps_again_and_again_is_not_believed(void **state)
{
	struct stored t = { .o = clocked };
	struct profile *p;

	stored_open(&t);
	p = fill(&t);
	for (int i = 0; i < 50; i++) {
		stored_now_ms += i % 2 ? -YEAR : YEAR;
		pass(HOUR / 2);
		stored_groom(&t);
	}
	check(&t, p, 2 * HOURS);
	profile_free(p);
	stored_done(&t);
}

static void deletions_are_told(void **state)
{
	struct stored t = { .o = clocked };
	struct profile *p;

	notices[0] = '\0';
	stored_open(&t);
	p = fill(&t);
	for (int i = 0; i < 96; i++, pass(HOUR))
		stored_groom(&t);
	check(&t, p, 0);
	/* 1790000000 s are 2026-09-21T14:13:20Z; the first profiles are 12 hours older. */
	assert_told("profiles from 2026-09-21T02:13:20Z to ");
	profile_free(p);
	stored_done(&t);
}

static void profiles_from_the_future_go_with_those_that_came_with_them(void **state)
{
	struct stored t = { .o = clocked };
	struct profilestore_stats st;
	struct profile *p;

	stored_open(&t);
	p = fill(&t);
	/* The clock is wrong for a moment, and a sender has the same time. */
	stored_now_ms += YEAR;
	p->time_ns = stored_now_ms * 1000000;
	stored_add(&t, p, "web");
	stored_add(&t, p, "other");
	stored_now_ms -= YEAR;
	stored_groom(&t);
	check(&t, p, 2 * HOURS + 2);
	/* After a restart, too, the profiles of the future make no others old. */
	stored_again(&t);
	stored_groom(&t);
	check(&t, p, 2 * HOURS + 2);
	pass(DAY);
	p->time_ns = stored_now_ms * 1000000;
	stored_add(&t, p, "web");
	for (int i = 0; i < 26; i++, pass(HOUR))
		stored_groom(&t);
	check(&t, p, 3);
	/* The profile that came after them is too old: so are they. */
	for (int i = 0; i < 26; i++, pass(HOUR))
		stored_groom(&t);
	check(&t, p, 0);
	profilestore_stats(t.s, &st);
	assert_true(st.latest_ms < stored_now_ms);
	profile_free(p);
	stored_done(&t);
}

/* ---- the turns of grooming ---- */

static int64_t count_rows_of(struct stored *t, const char *table)
{
	AUTO(mem_freep) char *sql = mem_printf("SELECT count(*) FROM %s", table);
	struct err err = { 0 };
	struct db *db = reader_take(t->s, &err);
	int64_t n = 0;

	assert_non_null(db);
	assert_done(db_get_i64(db, sql, &n, &err));
	reader_give(t->s, db);
	return n;
}

/* A profile of now with functions of its own: a row in most tables. */
static void add_other(struct stored *t, uint64_t i)
{
	const struct profile_maker maker = { i, i, 10, 20, 6, false };
	AUTO(profile_freep) struct profile *p = profile_make(&maker);

	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	p->time_ns = stored_now_ms * 1000000;
	stored_add(t, p, "web");
}

#define AFTER_HOUR 70  /* profiles, one a minute */
#define INTAKE     300 /* likewise */
#define SMALL_ROWS ((int64_t)SEGMENT_N_KINDS * 80)

/* The size is reached, and a profile comes before each call: another one is older than the hour that is kept. */
static void segments_are_joined_while_retention_has_more_to_do(void **state)
{
	struct stored t = { .o.max_size = 1 };
	struct err err = { 0 };
	struct profilestore_stats st;
	bool more = false;
	int n_calls = 0;

	stored_open(&t);
	for (uint64_t i = 0; i < AFTER_HOUR; i++, stored_now_ms += MINUTE)
		add_other(&t, i);
	for (uint64_t i = AFTER_HOUR; i < AFTER_HOUR + INTAKE; i++, stored_now_ms += MINUTE) {
		add_other(&t, i);
		assert_done(profilestore_groom(t.s, &more, &err));
		assert_true(more);
		profilestore_stats(t.s, &st);
		/* Retention is not late: it deletes whole hours, and has every second call. */
		if (i > AFTER_HOUR + 10)
			assert_true(st.oldest_ms >= stored_now_ms - HOUR - 2 * MINUTE);
		assert_in_range(count_rows_of(&t, "segment"), 1, SMALL_ROWS);
	}
	assert_in_range(count_rows_of(&t, "rollup"), 1, INTAKE);
	/* It ends when no profile comes. */
	for (more = true; more && n_calls < 100; n_calls++)
		assert_done(profilestore_groom(t.s, &more, &err));
	assert_false(more);
	stored_done(&t);
}

/* 50 rows of stacks have the size of a joined one, fewer than the number of small ones that are joined. */
static void rows_of_20_kib_are_joined(void **state)
{
	static const char stacks[] = "segment WHERE id >> 40 & 15 = 7";
	struct stored t = { 0 };

	stored_open(&t);
	for (uint64_t i = 0; i < 120; i++) {
		const struct profile_maker maker = { i, i, 750, 900, 14, false };
		AUTO(profile_freep) struct profile *p = profile_make(&maker);

		memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
		p->time_ns = NOW_MS * 1000000;
		stored_add(&t, p, "web");
	}
	assert_int_equal(count_rows_of(&t, stacks), 120);
	stored_groom(&t);
	assert_in_range(count_rows_of(&t, stacks), 1, 60);
	stored_again(&t);
	stored_done(&t);
}

/* There are as many series as there may be, and a profile meets that limit before each call. */
static void rollups_are_made_while_profiles_are_refused(void **state)
{
	struct stored t = { .o.max_series = 2 };
	struct err err = { 0 };
	int64_t n_segments;
	bool more;

	stored_open(&t);
	for (uint64_t i = 0; i < AFTER_HOUR; i++, stored_now_ms += MINUTE / 2)
		add_other(&t, i);
	n_segments = count_rows_of(&t, "segment");
	for (int i = 0; i < 50; i++) {
		room_wait(t.s);
		assert_done(profilestore_groom(t.s, &more, &err));
	}
	assert_true(count_rows_of(&t, "rollup") > 0);
	assert_true(count_rows_of(&t, "segment") < n_segments / 2);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_profiles_are_deleted),
		cmocka_unit_test(profiles_whose_deletion_failed_are_still_found),
		cmocka_unit_test(the_oldest_go_when_there_are_too_many),
		cmocka_unit_test(a_full_store_whose_profiles_are_too_old_takes_new_ones),
		cmocka_unit_test(series_without_profiles_make_room),
		cmocka_unit_test(a_clock_that_is_ahead_for_a_moment_deletes_nothing),
		cmocka_unit_test(a_store_that_is_opened_with_a_wrong_clock_deletes_nothing_at_once),
		cmocka_unit_test(a_profile_from_the_future_does_not_confirm_the_clock_of_a_restart),
		cmocka_unit_test(a_clock_is_confirmed_in_several_runs),
		cmocka_unit_test(a_restart_after_days_without_profiles_deletes_by_age),
		cmocka_unit_test(a_profile_without_a_time_is_of_now_after_a_pause),
		cmocka_unit_test(a_profile_without_a_time_is_kept_while_the_clock_is_set_back),
		cmocka_unit_test(a_profile_without_a_time_is_of_a_clock_that_was_corrected),
		cmocka_unit_test(a_damaged_file_of_the_clock_says_nothing),
		cmocka_unit_test(a_clock_that_jumps_again_and_again_is_not_believed),
		cmocka_unit_test(deletions_are_told),
		cmocka_unit_test(profiles_from_the_future_go_with_those_that_came_with_them),
		cmocka_unit_test(segments_are_joined_while_retention_has_more_to_do),
		cmocka_unit_test(rows_of_20_kib_are_joined),
		cmocka_unit_test(rollups_are_made_while_profiles_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
