/* SPDX-License-Identifier: Apache-2.0 */
/* A full store makes room by age, and refuses only what would replace the last hour. */
#include <pthread.h>
#include <unistd.h>
#include "stored.h"

/* ---- a grooming thread that starts when the store is full ---- */

struct groomer {
	struct stored t;
	pthread_t thread;
	atomic_bool full, stop;
};

static void on_full(void *arg)
{
	struct groomer *g = arg;

	atomic_store(&g->full, true);
}

static void *grooming(void *arg)
{
	struct groomer *g = arg;
	struct err err = { 0 };

	while (!atomic_load(&g->stop)) {
		bool more = atomic_exchange(&g->full, false);

		while (more)
			assert_done(profilestore_groom(g->t.s, &more, &err));
		usleep(1000);
	}
	return NULL;
}

static void groomer_start(struct groomer *g)
{
	atomic_store(&g->stop, false);
	profilestore_on_full(g->t.s, on_full, g);
	assert_int_equal(pthread_create(&g->thread, NULL, grooming, g), 0);
}

static void groomer_stop(struct groomer *g)
{
	atomic_store(&g->stop, true);
	pthread_join(g->thread, NULL);
}

static void groomer_open(struct groomer *g)
{
	stored_open(&g->t);
	groomer_start(g);
}

static void groomer_done(struct groomer *g)
{
	groomer_stop(g);
	stored_done(&g->t);
}

static void groomer_reopen(struct groomer *g)
{
	groomer_stop(g);
	stored_again(&g->t);
	groomer_start(g);
}

struct outcome {
	atomic_int done; /* 1: stored, -1: refused */
	struct err err;
};

static void told(void *arg, const struct profilestore_receipt *r, const struct err *err)
{
	struct outcome *o = arg;

	if (err)
		o->err = *err;
	atomic_store(&o->done, err ? -1 : 1);
}

/* As a service does it: without waiting in the store. */
static int add_from(struct groomer *g, const char *sender, const struct profile *p, const char *pod,
		    struct outcome *o)
{
	const struct profilestore_label l = { STR("pod"), str_of(pod) };
	struct err err = { 0 };

	*o = (struct outcome){ 0 };
	assert_done(profilestore_add(g->t.s, &(struct profilestore_upload){ p, &l, 1, str_of(sender) }, told,
				     o, &err));
	for (int64_t end = clock_mono_ms() + 30000; !atomic_load(&o->done) && clock_mono_ms() < end;)
		usleep(500);
	return atomic_load(&o->done);
}

/* Of a pod with the number @i, at the time of @p: it is stored. */
static void add_numbered(struct groomer *g, const char *sender, const struct profile *p, char pod, int i)
{
	struct outcome o;
	char name[16];

	snprintf(name, sizeof(name), "%c%d", pod, i);
	assert_int_equal(add_from(g, sender, p, name, &o), 1);
}

static struct profile *profile_of_world(uint64_t seed, int64_t time_ms)
{
	const struct profile_maker maker = { seed, seed, 30, 200, 12, false };
	struct profile *p = profile_make(&maker);

	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	p->time_ns = time_ms * 1000000;
	return p;
}

static void oldest_series_make_room(void **state)
{
	struct groomer g = { .t.o.max_series = 40 };
	struct profilestore_stats st;
	struct profile *p;

	groomer_open(&g);
	p = profile_of_world(1, NOW_MS);
	/* Two series each: five times as many as there may be. */
	for (int i = 0; i < 100; i++) {
		p->time_ns = (NOW_MS - (100 - i) * HOUR) * 1000000;
		add_numbered(&g, "agent", p, 'p', i);
	}
	profilestore_stats(g.t.s, &st);
	assert_in_range(st.n_series, 2, 40);
	assert_true(st.latest_ms == NOW_MS - HOUR);
	assert_int_equal(st.n_refused, 0);
	profile_free(p);
	groomer_done(&g);
}

static void oldest_stacks_make_room(void **state)
{
	struct groomer g = { .t.o.max_metadata = MIB(1) };
	struct profilestore_stats st;
	struct outcome o;

	groomer_open(&g);
	for (int i = 0; i < 150; i++) {
		AUTO(profile_freep)
		struct profile *p = profile_of_world((uint64_t)i, NOW_MS - (150 - i) * HOUR);

		assert_int_equal(add_from(&g, "agent", p, "a", &o), 1);
	}
	profilestore_stats(g.t.s, &st);
	assert_true(g.t.s->n_sweeps > 0);
	assert_true(st.n_expired > 0);
	assert_int_equal(st.n_refused, 0);
	assert_in_range(st.metadata_size, 1, MIB(1));
	groomer_done(&g);
}

static void last_hour_is_kept(void **state)
{
	struct groomer g = { .t.o.max_series = 10 };
	struct profilestore_stats st;
	struct outcome o;
	struct profile *p;

	groomer_open(&g);
	p = profile_of_world(1, NOW_MS);
	for (int i = 0; i < 5; i++) {
		p->time_ns = (NOW_MS - (5 - i) * MINUTE) * 1000000;
		add_numbered(&g, "", p, 'p', i);
	}
	for (int i = 0; i < 3; i++) {
		int64_t began = clock_mono_ms();

		p->time_ns = (NOW_MS - i * 1000) * 1000000;
		assert_int_equal(add_from(&g, "", p, "new", &o), -1);
		assert_int_equal(o.err.kind, ERR_LIMIT);
		assert_non_null(strstr(o.err.text, "there are 10 series"));
		/* It is held for as long as room is looked for. */
		assert_true(clock_mono_ms() - began < 5000);
	}
	/* Known labels go on. */
	assert_int_equal(add_from(&g, "", p, "p1", &o), 1);
	profilestore_stats(g.t.s, &st);
	assert_int_equal(st.n_series, 10);
	assert_int_equal(st.n_expired, 0);
	profile_free(p);
	groomer_done(&g);
}

static void make_no_room(void *arg)
{
	(void)arg;
}

/* Its caller waits for a result, also if the store is closed while the profile waits for room. */
static void a_profile_that_is_held_is_refused_when_the_store_is_closed(void **state)
{
	const struct profilestore_label l = { STR("service"), STR("b") };
	AUTO(profile_freep) struct profile *p = profile_of_world(1, NOW_MS);
	struct stored t = { .o.max_series = 2 };
	struct outcome o = { 0 };
	struct err err = { 0 };

	stored_open(&t);
	profilestore_on_full(t.s, make_no_room, NULL);
	stored_add(&t, p, "a");
	assert_done(profilestore_add(t.s, &(struct profilestore_upload){ p, &l, 1 }, told, &o, &err));
	/* The writer has taken the one before when it has done this one. */
	stored_add(&t, p, "a");
	assert_int_equal(atomic_load(&o.done), 0);
	stored_done(&t);
	assert_int_equal(atomic_load(&o.done), -1);
	assert_int_equal(o.err.kind, ERR_LIMIT);
}

/* A series that came with a refused profile is not on disk until one of its profiles is. */
static void series_of_a_refused_profile_is_written_later(void **state)
{
	struct stored t = { .o.max_series = 3 };
	struct profilestore_receipt r;
	struct profilestore_stats st;
	struct err err = { 0 };
	struct profile *p;
	const struct profilestore_label l = { STR("service"), STR("b") };

	stored_open(&t);
	p = profile_of_world(1, NOW_MS);
	stored_add(&t, p, "a");
	assert_fails(
		profilestore_add_wait(t.s, p, &l, 1, &r, &err), ERR_LIMIT,
		"there are 3 series, the limit: the label 'service' has 2 values in the newest 3 of them");
	assert_int_equal(err.os, PROFILESTORE_TOO_MANY_SERIES);
	/* Only the first type has values now: its series exists. */
	for (uint32_t i = 0; i < p->n_samples; i++)
		p->values[2 * i + 1] = 0;
	assert_done(profilestore_add_wait(t.s, p, &l, 1, &r, &err));
	assert_int_equal(r.n_profiles, 1);
	stored_again(&t);
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_series, 3);
	assert_int_equal(st.n_profiles, 3);
	profile_free(p);
	stored_done(&t);
}

static void one_sender_leaves_room_for_others(void **state)
{
	struct groomer g = { .t.o.max_series = 400 };
	struct profilestore_stats st;
	struct outcome o;
	struct profile *p;
	char pod[16];
	int n = 0;

	groomer_open(&g);
	p = profile_of_world(1, NOW_MS);
	for (int i = 0; i < 20; i++)
		add_numbered(&g, "b", p, 'b', i);
	for (int r = 1; r == 1; n++) {
		snprintf(pod, sizeof(pod), "a%d", n);
		r = add_from(&g, "a", p, pod, &o);
	}
	assert_int_equal(o.err.kind, ERR_LIMIT);
	assert_non_null(strstr(o.err.text, "the sender 'a' has 160 series"));
	assert_non_null(strstr(o.err.text, "the label 'pod' has 80 values in the newest 160 of them"));
	assert_non_null(strstr(o.err.text, "--profiles-sender-share"));
	assert_int_equal(o.err.os, PROFILESTORE_TOO_MANY_SERIES);
	/* Others have theirs, after a restart too. */
	groomer_reopen(&g);
	for (int i = 20; i < 50; i++)
		add_numbered(&g, "b", p, 'b', i);
	assert_int_equal(add_from(&g, "a", p, "more", &o), -1);
	assert_int_equal(add_from(&g, "c", p, "c", &o), 1);
	profilestore_stats(g.t.s, &st);
	assert_int_equal(st.n_expired, 0);
	profile_free(p);
	groomer_done(&g);
}

/* The name of a pod that is as long as the value of a label may be. */
static const char *long_pod(char kind, int i)
{
	static char pod[PROFILESTORE_MAX_LABEL_VALUE + 1];

	snprintf(pod, sizeof(pod), "%c%04095d", kind, i);
	return pod;
}

static void long_labels_of_one_sender_leave_room_for_others(void **state)
{
	struct groomer g = { 0 };
	struct profilestore_stats st;
	struct outcome o;
	struct profile *p;

	groomer_open(&g);
	g.t.s->max_series_size = KIB(512);
	p = profile_of_world(1, NOW_MS);
	/* Two series each, of two copies of the label. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(add_from(&g, "b", p, long_pod('b', i), &o), 1);
	for (int i = 0; add_from(&g, "a", p, long_pod('a', i), &o) == 1; i++)
		assert_in_range(i, 0, 15);
	assert_int_equal(o.err.kind, ERR_LIMIT);
	assert_non_null(strstr(o.err.text, "the names and labels of the sender 'a' have"));
	assert_non_null(strstr(o.err.text, "--profiles-sender-share"));
	assert_int_equal(o.err.os, PROFILESTORE_TOO_MANY_SERIES);
	groomer_reopen(&g);
	g.t.s->max_series_size = KIB(512);
	for (int i = 3; i < 7; i++)
		assert_int_equal(add_from(&g, "b", p, long_pod('b', i), &o), 1);
	assert_int_equal(add_from(&g, "a", p, long_pod('a', 1000), &o), -1);
	assert_int_equal(add_from(&g, "c", p, long_pod('c', 0), &o), 1);
	profilestore_stats(g.t.s, &st);
	assert_int_equal(st.n_expired, 0);
	profile_free(p);
	groomer_done(&g);
}

static void oldest_series_with_long_labels_make_room(void **state)
{
	struct groomer g = { 0 };
	struct profilestore_stats st;
	struct outcome o;
	struct profile *p;

	groomer_open(&g);
	g.t.s->max_series_size = KIB(512);
	p = profile_of_world(1, NOW_MS);
	/* More than there may be. */
	for (int i = 0; i < 45; i++) {
		p->time_ns = (NOW_MS - (45 - i) * HOUR) * 1000000;
		assert_int_equal(add_from(&g, "agent", p, long_pod('p', i), &o), 1);
	}
	profilestore_stats(g.t.s, &st);
	assert_in_range(atomic_load(&g.t.s->series_size), 1, KIB(512));
	assert_true(st.latest_ms == NOW_MS - HOUR);
	assert_int_equal(st.n_refused, 0);
	profile_free(p);
	groomer_done(&g);
}

/* Each of its 150 samples has a label of its own. */
static struct profile *profile_of_long_labels(void)
{
	const struct profile_maker maker = { 1, 1, 150, 200, 12, false };
	struct profile *p = profile_make(&maker);

	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_label l = { .key = profile_add_string(p, STR("pod")),
						 .str = profile_add_string(p,
									   str_of(long_pod('s', (int)i))) };

		p->sample_labels[i] = profile_add_labels(p, &l, 1);
	}
	p->time_ns = NOW_MS * 1000000;
	return p;
}

/* Its series go before any profile, since they have none. */
static void a_profile_that_fits_into_no_room_deletes_nothing(void **state)
{
	const struct profilestore_label l = { STR("service"), STR("b") };
	AUTO(profile_freep) struct profile *p = profile_of_world(1, NOW_MS);
	AUTO(profile_freep) struct profile *large = profile_of_long_labels();
	struct profilestore_stats st;
	struct outcome o = { 0 };
	struct stored t = { 0 };
	struct err err = { 0 };
	bool more;

	stored_open(&t);
	t.s->max_series_size = MIB(1);
	profilestore_on_full(t.s, make_no_room, NULL);
	for (int i = 20; i > 0; i--) {
		p->time_ns = (NOW_MS - i * HOUR) * 1000000;
		stored_add(&t, p, "a");
	}
	assert_done(profilestore_add(t.s, &(struct profilestore_upload){ large, &l, 1 }, told, &o, &err));
	for (int i = 0; i < 5; i++) {
		/* The writer has tried it once more, and has written nothing. */
		for (int ms = 0; !atomic_load(&t.s->room.wanted) && ms < 5000; ms++)
			usleep(1000);
		assert_true(atomic_load(&t.s->room.wanted));
		for (more = true; more && atomic_load(&t.s->room.wanted);)
			assert_done(profilestore_groom(t.s, &more, &err));
	}
	profilestore_stats(t.s, &st);
	assert_int_equal(st.n_expired, 0);
	stored_done(&t);
	assert_int_equal(atomic_load(&o.done), -1);
	assert_non_null(strstr(o.err.text, "the names and labels of all series have 1 MiB, the limit"));
}

/* Rows of new tables cannot be written, as on a full disk: no profiles are deleted in vain meanwhile. */
static void a_sweep_that_fails_is_tried_again(void **state)
{
	AUTO(mem_freep) char *path = NULL, *sql = NULL;
	struct stored t = { .o.max_metadata = MIB(3) };
	struct profilestore_stats once, now;
	struct err err = { 0 };
	int64_t n_rollups = 0;
	struct db *db;
	bool more;

	stored_open(&t);
	for (int i = 0; i < 120; i++) {
		const struct profile_maker maker = { (uint64_t)i, (uint64_t)i, 150, 300, 12, false };
		AUTO(profile_freep) struct profile *p = profile_make(&maker);

		memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
		p->time_ns = (NOW_MS - (120 - i) * HOUR) * 1000000;
		stored_add(&t, p, "a");
	}
	path = mem_printf("%s/profiles.db", t.dir);
	sql = mem_printf("CREATE UNIQUE INDEX x ON segment (n > 0) WHERE id >= 1 << %d", SEGMENT_KEY_BITS);
	assert_done(db_open(path, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, sql, &err));
	room_wait(t.s);
	for (int i = 0; i < 5; i++) {
		for (more = true; more;)
			if (profilestore_groom(t.s, &more, &err) < 0)
				break;
		assert_true(more);
		profilestore_stats(t.s, i ? &now : &once);
	}
	assert_int_equal(now.n_profiles, once.n_profiles);
	/* The parts after the sweep have their turns. */
	assert_done(db_get_i64(db, "SELECT count(*) FROM rollup", &n_rollups, &err));
	assert_true(n_rollups > 0);
	assert_done(db_exec(db, "DROP INDEX x", &err));
	db_close(db);
	stored_groom(&t);
	assert_int_equal(t.s->n_sweeps, 1);
	stored_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(oldest_series_make_room),
		cmocka_unit_test(oldest_stacks_make_room),
		cmocka_unit_test(last_hour_is_kept),
		cmocka_unit_test(series_of_a_refused_profile_is_written_later),
		cmocka_unit_test(a_profile_that_is_held_is_refused_when_the_store_is_closed),
		cmocka_unit_test(one_sender_leaves_room_for_others),
		cmocka_unit_test(long_labels_of_one_sender_leave_room_for_others),
		cmocka_unit_test(oldest_series_with_long_labels_make_room),
		cmocka_unit_test(a_profile_that_fits_into_no_room_deletes_nothing),
		cmocka_unit_test(a_sweep_that_fails_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
