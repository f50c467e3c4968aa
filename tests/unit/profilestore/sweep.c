/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeps of the metadata store: what no profile needs is gone, in memory and on disk, and every sum is the one of a
 * simple model, whatever was added, deleted and restarted meanwhile.
 */
#include <pthread.h>
#include "profilestore/sweep.h"
#include "stored.h"

#define SERVICES 3
#define TURNS    130

/* ---- the model: a list of profiles ---- */

struct model_profile {
	int64_t time_ms;
	unsigned service;
	uint64_t seed;
};
struct model {
	struct stored t;
	struct model_profile *v;
	size_t n, room;
	uint64_t random;
	int64_t next_ms;
};

static uint64_t draw(struct model *m, uint64_t n)
{
	return profile_maker_next(&m->random) % n;
}

static const char *const services[SERVICES] = { "a", "b", "c" };

/* Worlds differ: most of a profile is new. */
static struct profile *model_make(uint64_t seed, int64_t time_ms)
{
	const struct profile_maker maker = { seed, seed / 4, 20, 60, 8, seed % 3 == 0 };
	struct profile *p = profile_make(&maker);

	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	p->time_ns = time_ms * 1000000;
	p->duration_ns = 1000000000;
	return p;
}

static void model_add(struct model *m)
{
	struct model_profile x = { m->next_ms, (unsigned)draw(m, SERVICES), draw(m, 400) };
	AUTO(profile_freep) struct profile *p = NULL;

	/* Some come late. */
	if (draw(m, 5) == 0)
		x.time_ms -= (int64_t)draw(m, 8) * HOUR + (int64_t)draw(m, 1000);
	m->next_ms += 60001;
	p = model_make(x.seed, x.time_ms);
	assert_int_equal(stored_add(&m->t, p, services[x.service]).n_profiles, 2);
	if (m->n == m->room) {
		m->room = m->room ? 2 * m->room : 64;
		m->v = mem_realloc(m->v, m->room, sizeof(*m->v));
	}
	m->v[m->n++] = x;
}

static void model_delete(struct model *m, int64_t before_ms)
{
	struct err err = { 0 };
	size_t to = 0;
	uint64_t n;

	do {
		assert_done(expire_before(m->t.s, before_ms, false, &n, &err));
	} while (n);
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].time_ms >= before_ms)
			m->v[to++] = m->v[i];
	m->n = to;
}

static int by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_lines(struct map *sums, const struct profile *p)
{
	AUTO(mem_freep) char *text = stored_text(p, 1);

	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		char *value;
		struct bytes key;
		int64_t *sum;

		*end = '\0';
		value = strrchr(line, '=');
		assert_non_null(value);
		key = bytes_of(line, (size_t)(value - line));
		sum = map_get(sums, key);
		if (!sum) {
			sum = NEW(int64_t);
			map_put(sums, key, sum);
		}
		*sum += strtoll(value + 1, NULL, 10);
	}
}

static char *model_text(const struct model *m, int service, int64_t from_ms, int64_t to_ms, uint64_t *ret_n)
{
	struct map sums = { 0 };
	struct buf out = { 0 };
	struct bytes key;
	char **lines;
	size_t n = 0;
	void *v;

	*ret_n = 0;
	for (size_t i = 0; i < m->n; i++) {
		const struct model_profile *x = &m->v[i];
		AUTO(profile_freep) struct profile *p = NULL;

		if (x->time_ms < from_ms || x->time_ms >= to_ms ||
		    (service >= 0 && x->service != (unsigned)service))
			continue;
		p = model_make(x->seed, x->time_ms);
		add_lines(&sums, p);
		++*ret_n;
	}
	lines = NEW_N(char *, sums.n + 1);
	map_each (&sums, it, &key, &v) {
		int64_t *sum = v;

		if (*sum)
			lines[n++] = mem_printf("%.*s= %lld", (int)key.size, (const char *)key.p,
						(long long)*sum);
		free(sum);
	}
	map_done(&sums);
	qsort(lines, n, sizeof(*lines), by_line);
	for (size_t i = 0; i < n; i++) {
		buf_printf(&out, "%s\n", lines[i]);
		free(lines[i]);
	}
	free(lines);
	buf_add_char(&out, '\0');
	return (char *)out.p;
}

static void model_check(struct model *m, int service, int64_t from_ms, int64_t to_ms)
{
	AUTO(mem_freep) char *want = NULL, *got = NULL, *selector = NULL;
	struct profilestore_merged merged;
	uint64_t n;

	selector = service < 0 ? mem_strdup(CPU) : mem_printf(CPU "{service=\"%s\"}", services[service]);
	want = model_text(m, service, from_ms, to_ms, &n);
	merged = stored_merge(&m->t, selector, from_ms, to_ms);
	assert_int_equal(merged.n_profiles, n);
	if (n) {
		got = stored_text(merged.profile, 0);
		assert_string_equal(got, want);
	}
	profile_free(merged.profile);
}

static void groom_some(struct stored *t, uint64_t steps)
{
	struct err err = { 0 };
	bool more = true;

	while (steps-- && more)
		assert_done(profilestore_groom(t->s, &more, &err));
}

static void sums_stay_right(void **state)
{
	struct model m = { .random = 11, .next_ms = NOW_MS - 100 * HOUR };
	uint64_t n_sweeps = 0;

	stored_open(&m.t);
	for (int turn = 0; turn < TURNS; turn++) {
		int64_t from_ms = m.next_ms - (int64_t)draw(&m, 30) * HOUR;

		for (uint64_t k = draw(&m, 8); k; k--)
			model_add(&m);
		switch (draw(&m, 8)) {
		case 0:
			model_delete(&m, m.next_ms - (int64_t)draw(&m, 12) * HOUR / 4);
			break;
		case 1:
			n_sweeps += m.t.s->n_sweeps;
			stored_again(&m.t);
			break;
		case 2:
			stored_groom(&m.t);
			break;
		case 3:
			m.next_ms += HOUR;
			break;
		default:
			if (draw(&m, 2))
				sweep_ask(m.t.s->sweep);
			groom_some(&m.t, draw(&m, 12));
			break;
		}
		model_check(&m, (int)draw(&m, SERVICES + 1) - 1, from_ms,
			    from_ms + (int64_t)draw(&m, 40) * HOUR);
	}
	n_sweeps += m.t.s->n_sweeps;
	stored_again(&m.t);
	for (int service = -1; service < SERVICES; service++)
		model_check(&m, service, 0, INT64_MAX);
	assert_true(n_sweeps > 5);
	free(m.v);
	stored_done(&m.t);
}

/* ---- what is gone ---- */

static int64_t segment_bytes(struct stored *t)
{
	struct err err = { 0 };
	struct db *db = reader_take(t->s, &err);
	struct db_stmt *st;
	int64_t n;

	assert_non_null(db);
	assert_done(db_prepare(db, "SELECT sum(length(data)) FROM segment", &st, &err));
	assert_int_equal(db_step(st, &err), DB_ROW);
	n = db_i64(st, 0);
	db_reset(st);
	reader_give(t->s, db);
	return n;
}

static void sweep_all(struct stored *t)
{
	uint64_t was = t->s->n_sweeps;

	sweep_ask(t->s->sweep);
	stored_groom(t);
	assert_int_equal(t->s->n_sweeps, was + 1);
}

static void what_is_not_needed_goes(void **state)
{
	struct model m = { .random = 3, .next_ms = NOW_MS - 30 * HOUR };
	struct profilestore_stats full, swept, again, reused;
	int64_t bytes;

	stored_open(&m.t);
	for (int i = 0; i < 40; i++)
		model_add(&m);
	m.next_ms = NOW_MS - 10 * HOUR;
	for (int i = 0; i < 2; i++)
		model_add(&m);
	stored_groom(&m.t);
	profilestore_stats(m.t.s, &full);
	bytes = segment_bytes(&m.t);
	model_delete(&m, NOW_MS - 12 * HOUR);
	sweep_all(&m.t);
	profilestore_stats(m.t.s, &swept);
	assert_true(swept.n_locations < full.n_locations / 5);
	assert_true(swept.n_stacks < full.n_stacks / 5);
	assert_true(swept.n_strings < full.n_strings);
	assert_true(swept.metadata_size < full.metadata_size / 2);
	assert_true(segment_bytes(&m.t) < bytes / 4);
	model_check(&m, -1, 0, INT64_MAX);
	stored_again(&m.t);
	profilestore_stats(m.t.s, &again);
	assert_int_equal(again.n_locations, swept.n_locations);
	assert_int_equal(again.n_stacks, swept.n_stacks);
	assert_int_equal(again.n_strings, swept.n_strings);
	/* Free numbers are used again. */
	for (int i = 0; i < 10; i++)
		model_add(&m);
	profilestore_stats(m.t.s, &reused);
	assert_true(reused.n_stacks > again.n_stacks);
	assert_true(column_n(&m.t.s->meta->stacks) <= full.n_stacks + 1);
	model_check(&m, -1, 0, INT64_MAX);
	stored_again(&m.t);
	model_check(&m, -1, 0, INT64_MAX);
	profilestore_stats(m.t.s, &again);
	assert_int_equal(again.n_stacks, reused.n_stacks);
	free(m.v);
	stored_done(&m.t);
}

/* Two profiles need most of the tables, and hundreds of small ones stay when they go. */
static void few_large_profiles_that_went_make_a_sweep_due(void **state)
{
	const struct profile_maker large = { 1, 1, 60000, 60000, 12, false },
				   small = { 2, 2, 5, 50, 4, false };
	struct stored t = { .o.max_age_ms = 20 * HOUR };
	struct profile *p = profile_make(&large), *q = profile_make(&small);

	stored_open(&t);
	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	memset(q->sample_labels, 0, q->n_samples * sizeof(uint32_t));
	p->time_ns = (NOW_MS - 15 * HOUR) * 1000000;
	assert_int_equal(stored_add(&t, p, "web").n_profiles, 2);
	for (int i = 0; i < 300; i++) {
		q->time_ns = (NOW_MS - i * 1000) * 1000000;
		stored_add(&t, q, "web");
	}
	assert_true(t.s->meta->memory > MIB(4));
	stored_now_ms = NOW_MS + 10 * HOUR;
	stored_groom(&t);
	assert_int_equal(t.s->n_expired, 2);
	assert_int_equal(t.s->n_sweeps, 1);
	assert_true(t.s->meta->memory < MIB(2));
	stored_now_ms = NOW_MS;
	profile_free(p);
	profile_free(q);
	stored_done(&t);
}

static void a_sweep_waits_for_memory(void **state)
{
	struct model m = { .random = 3, .next_ms = NOW_MS - 30 * HOUR };
	struct budget *b = budget_new_undivided(MIB(64));
	struct budget_stats stats;

	m.t.o.memory = b;
	stored_open(&m.t);
	for (int i = 0; i < 10; i++)
		model_add(&m);
	stored_groom(&m.t);
	model_delete(&m, NOW_MS - 12 * HOUR);
	assert_true(budget_try(b, BUDGET_TABLE, MIB(64)));
	sweep_ask(m.t.s->sweep);
	stored_groom(&m.t);
	assert_int_equal(m.t.s->n_sweeps, 0);
	assert_true(sweep_runs(m.t.s->sweep));
	budget_return(b, BUDGET_TABLE, MIB(64));
	stored_groom(&m.t);
	assert_int_equal(m.t.s->n_sweeps, 1);
	budget_stats(b, &stats);
	assert_int_equal(stats.classes[BUDGET_SWEEP].used, 0);
	assert_true(stats.classes[BUDGET_SWEEP].peak > 0);
	/* It does not wait for ever. */
	assert_true(budget_try(b, BUDGET_TABLE, MIB(64)));
	sweep_ask(m.t.s->sweep);
	stored_groom(&m.t);
	assert_int_equal(m.t.s->n_sweeps, 1);
	stored_now_ms += 11 * MINUTE;
	stored_groom(&m.t);
	assert_int_equal(m.t.s->n_sweeps, 2);
	budget_return(b, BUDGET_TABLE, MIB(64));
	stored_now_ms = NOW_MS;
	free(m.v);
	stored_done(&m.t);
	budget_free(b);
}

/* ---- queries meanwhile ---- */

struct asker {
	struct stored *t;
	atomic_bool stop;
	atomic_uint_fast64_t n;
};

/* Profiles of one seed: the sum is known by their number. */
static void *asking(void *arg)
{
	struct asker *a = arg;
	AUTO(profile_freep) struct profile *p = model_make(1, NOW_MS);
	int64_t total = profile_total(p, 1);

	while (!atomic_load(&a->stop)) {
		struct profilestore_merged x = stored_merge(a->t, CPU "{service=\"a\"}", 0, INT64_MAX);
		AUTO(mem_freep) char *got = NULL;

		assert_int_equal(x.n_profiles ? profile_total(x.profile, 0) : 0,
				 (int64_t)x.n_profiles * total);
		got = x.n_profiles ? stored_text(x.profile, 0) : NULL;
		profile_free(x.profile);
		a->n++;
	}
	return NULL;
}

static void queries_go_on(void **state)
{
	struct stored t = { 0 };
	struct asker a = { .t = &t };
	struct err err = { 0 };
	pthread_t threads[2];

	stored_open(&t);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, asking, &a), 0);
	for (int turn = 0; turn < 6; turn++) {
		int64_t now = NOW_MS + turn * 10000;
		bool more = true;
		uint64_t n;

		for (int i = 0; i < 6; i++) {
			struct profile *p = model_make((uint64_t)(turn * 100 + i), now - HOUR),
				       *one = model_make(1, now + i);

			stored_add(&t, p, "garbage");
			stored_add(&t, one, "a");
			profile_free(one);
			profile_free(p);
		}
		assert_done(expire_before(t.s, now - HOUR + 5000, false, &n, &err));
		sweep_ask(t.s->sweep);
		while (more) {
			struct profile *one = model_make(1, now + 100 + (int64_t)t.s->next_id);

			assert_done(profilestore_groom(t.s, &more, &err));
			stored_add(&t, one, "a");
			profile_free(one);
		}
	}
	assert_int_equal(t.s->n_sweeps, 6);
	atomic_store(&a.stop, true);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	/* All old tables are freed, but for those retired last. */
	epoch_release(t.s);
	assert_int_equal(t.s->retired.n, 0);
	stored_done(&t);
}

/* A step ends by the bytes of its rows, too: the rows after it are read all the same. */
static void profiles_after_many_large_ones_stay(void **state)
{
	const struct profile_maker gone = { 3, 3, 60000, 60000, 12, false },
				   large = { 1, 1, 60000, 20000, 12, false },
				   last = { 2, 2, 50, 50, 4, false };
	struct profile *p = profile_make(&large), *q = profile_make(&gone), *x = profile_make(&last);
	AUTO(mem_freep) char *want = NULL, *got = NULL;
	struct profilestore_merged before, after;
	struct stored t = { 0 };
	struct err err = { 0 };
	uint64_t n;

	stored_open(&t);
	memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
	memset(q->sample_labels, 0, q->n_samples * sizeof(uint32_t));
	memset(x->sample_labels, 0, x->n_samples * sizeof(uint32_t));
	q->time_ns = (NOW_MS - 200 * HOUR) * 1000000;
	stored_add(&t, q, "gone");
	for (int i = 0; i < 50; i++) {
		p->time_ns = (NOW_MS - 100 * HOUR + i) * 1000000;
		stored_add(&t, p, "large");
	}
	x->time_ns = NOW_MS * 1000000;
	x->duration_ns = 1000000000;
	stored_add(&t, x, "last");
	before = stored_merge(&t, CPU "{service=\"last\"}", 0, INT64_MAX);
	want = stored_text(before.profile, 0);
	assert_done(expire_before(t.s, NOW_MS - 150 * HOUR, false, &n, &err));
	sweep_all(&t);
	after = stored_merge(&t, CPU "{service=\"last\"}", 0, INT64_MAX);
	got = stored_text(after.profile, 0);
	assert_string_equal(got, want);
	profile_free(before.profile);
	profile_free(after.profile);
	profile_free(p);
	profile_free(q);
	profile_free(x);
	stored_done(&t);
}

/* ---- after a repair ---- */

/* Close the store, delete a row of segment, and open it, which repairs it. */
static void lose_row(struct stored *t, enum segment_kind kind, int nth)
{
	AUTO(mem_freep) char *path = mem_printf("%s/profiles.db", t->dir);
	AUTO(mem_freep)
	char *sql = mem_printf(
		"DELETE FROM segment WHERE id = (SELECT id FROM segment WHERE id >> %d & 15 = %d "
		"ORDER BY id LIMIT 1 OFFSET %d)",
		SEGMENT_FIRST_BITS, kind, nth);
	struct profilestore_stats st;
	struct err err = { 0 };
	struct db *db;

	profilestore_close(t->s);
	assert_done(db_open(path, &(struct db_options){ 0 }, &db, &err));
	assert_done(db_exec(db, sql, &err));
	db_close(db);
	stored_open_there(t);
	profilestore_stats(t->s, &st);
	assert_int_equal(st.n_set_aside, 1);
}

static char *text_of_all(struct stored *t)
{
	struct profilestore_merged m = stored_merge(t, CPU, 0, INT64_MAX);
	char *text = stored_text(m.profile, 0);

	profile_free(m.profile);
	return text;
}

/* A sweep, and another start, change no answer. */
static void sweep_changes_nothing(struct stored *t)
{
	AUTO(mem_freep) char *want = text_of_all(t), *swept = NULL, *again = NULL;

	sweep_all(t);
	swept = text_of_all(t);
	assert_string_equal(swept, want);
	stored_again(t);
	again = text_of_all(t);
	assert_string_equal(again, want);
}

/* Their placeholders are equal, and keep numbers of their own. */
static void stacks_that_were_lost_are_swept(void **state)
{
	const unsigned sizes[] = { 3000, 100, 100 };
	struct profilestore_stats full, swept;
	struct stored t = { 0 };
	struct err err = { 0 };
	uint64_t n;

	stored_open(&t);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct profile_maker maker = { i, i, sizes[i], 2 * sizes[i], 12, false };
		AUTO(profile_freep) struct profile *p = profile_make(&maker);

		memset(p->sample_labels, 0, p->n_samples * sizeof(uint32_t));
		p->time_ns = (NOW_MS - (i ? HOUR : 200 * HOUR)) * 1000000;
		p->duration_ns = 1000000000;
		stored_add(&t, p, "a");
	}
	lose_row(&t, SEGMENT_STACKS, 1);
	profilestore_stats(t.s, &full);
	assert_done(expire_before(t.s, NOW_MS - 150 * HOUR, false, &n, &err));
	sweep_changes_nothing(&t);
	profilestore_stats(t.s, &swept);
	assert_true(swept.n_stacks < full.n_stacks / 5);
	stored_done(&t);
}

/* A store with two binaries, and an address without a name in each, at the same offset. */
static void open_with_two_binaries(struct stored *t)
{
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	uint32_t stack = 0;

	stored_open(t);
	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	p->period_type.type = profile_add_string(p, STR("cpu"));
	p->period_type.unit = profile_add_string(p, STR("nanoseconds"));
	p->time_ns = NOW_MS * 1000000;
	p->duration_ns = 1000000000;
	for (int i = 0; i < 2; i++) {
		struct profile_mapping m = { 0x550000001000, 0x550000009000, 0x1000 };
		struct profile_location l = { .addr = 0x550000002345 };

		m.file = profile_add_string(p, i ? STR("/usr/bin/b") : STR("/usr/bin/a"));
		m.build_id = profile_add_string(p, i ? STR("00ffbb") : STR("00ffaa"));
		l.mapping = profile_add_mapping(p, &m);
		stack = profile_add_stack(p, stack, profile_add_location(p, &l, NULL, 0));
		profile_add_sample(p, stack, 0, (int64_t[]){ 1 + i });
	}
	stored_add(t, p, "a");
}

static void name_both(struct stored *t)
{
	const struct profilestore_name_line f = { STR("f"), STR("f"), STR("a.c"), 1 },
					    g = { STR("g"), STR("g"), STR("b.c"), 2 };
	const struct profilestore_name names[] = { { .location = 0, .n_lines = 1, .lines = &f },
						   { .location = 1, .n_lines = 1, .lines = &g } };
	struct err err = { 0 };

	assert_done(profilestore_name(t->s, names, ARRAY_SIZE(names), NULL, 0, &err));
}

static void names_of_binaries_that_were_lost_stay(void **state)
{
	struct stored t = { 0 };

	open_with_two_binaries(&t);
	name_both(&t);
	lose_row(&t, SEGMENT_BINARIES, 0);
	sweep_changes_nothing(&t);
	stored_done(&t);
}

/* After each step of a sweep: also those of locations that are copied already. */
static void names_that_come_during_a_sweep_stay(void **state)
{
	AUTO(mem_freep) char *want = NULL;
	unsigned n_steps = 0;

	for (bool sweeps = true; sweeps; n_steps++) {
		AUTO(mem_freep) char *got = NULL, *again = NULL;
		struct stored t = { 0 };
		struct err err = { 0 };
		bool more;

		open_with_two_binaries(&t);
		if (!want) {
			name_both(&t);
			want = text_of_all(&t);
			stored_done(&t);
			continue;
		}
		stored_groom(&t);
		sweep_ask(t.s->sweep);
		for (unsigned i = 0; i < n_steps; i++)
			assert_done(profilestore_groom(t.s, &more, &err));
		sweeps = sweep_runs(t.s->sweep);
		if (sweeps) {
			name_both(&t);
			stored_groom(&t);
			assert_int_equal(t.s->n_sweeps, 1);
			got = text_of_all(&t);
			assert_string_equal(got, want);
			stored_again(&t);
			again = text_of_all(&t);
			assert_string_equal(again, want);
		}
		stored_done(&t);
	}
	assert_true(n_steps > 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_stay_right),
		cmocka_unit_test(what_is_not_needed_goes),
		cmocka_unit_test(few_large_profiles_that_went_make_a_sweep_due),
		cmocka_unit_test(a_sweep_waits_for_memory),
		cmocka_unit_test(queries_go_on),
		cmocka_unit_test(profiles_after_many_large_ones_stay),
		cmocka_unit_test(stacks_that_were_lost_are_swept),
		cmocka_unit_test(names_of_binaries_that_were_lost_stay),
		cmocka_unit_test(names_that_come_during_a_sweep_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
