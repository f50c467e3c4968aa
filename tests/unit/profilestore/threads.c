/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several writers, readers and a grooming thread: at the end everything is stored, and until then no reader
 * saw a part of a profile.
 */
#include <pthread.h>
#include <stdatomic.h>
#include "stored.h"

#define ADDERS  6
#define EACH    40
#define READERS 2

struct shared {
	struct stored t;
	struct profile *list[ADDERS];
	int64_t total; /* of each profile: they are the same but for their time */
	atomic_bool stop;
};

struct adder {
	struct shared *x;
	unsigned number;
};

static void told(void *arg, const struct profilestore_receipt *r, const struct err *err)
{
	atomic_int *n = arg;

	assert_null(err);
	assert_false(r->duplicate);
	atomic_fetch_sub(n, 1);
}

static void *adding(void *arg)
{
	struct adder *a = arg;
	struct shared *x = a->x;
	atomic_int n_open = EACH;
	struct profile copies[EACH];
	const struct profilestore_label l = { STR("service"), STR("web") };
	struct err err = { 0 };

	/* Tables are shared: no thread changes them. */
	for (unsigned i = 0; i < EACH; i++) {
		copies[i] = *x->list[a->number];
		copies[i].time_ns = (NOW_MS - (int64_t)(a->number * EACH + i) * 20000) * 1000000;
		assert_int_equal(profilestore_add(x->t.s,
						  &(struct profilestore_upload){ &copies[i], &l, 1, STR("") },
						  told, &n_open, &err),
				 0);
	}
	for (int64_t end = clock_mono_ms() + 30000; atomic_load(&n_open) && clock_mono_ms() < end;)
		usleep(1000);
	assert_int_equal(atomic_load(&n_open), 0);
	return NULL;
}

static void *asking(void *arg)
{
	struct shared *x = arg;
	const struct profilestore_range all = { NULL, 0, NOW_MS + 1, 0 };
	struct profilestore_range of_cpu = stored_range(CPU, 0, NOW_MS + 1);
	struct err err = { 0 };

	while (!atomic_load(&x->stop)) {
		struct profilestore_merged m = stored_merge(&x->t, CPU, 0, NOW_MS + 1);
		struct profilestore_series_options o = { .limit = 100 };
		struct profilestore_series_list *l;
		struct profilestore_list *types;
		struct profilestore_stats st;

		assert_int_equal(m.n_profiles ? profile_total(m.profile, 0) : 0,
				 (int64_t)m.n_profiles * x->total);
		profile_free(m.profile);
		assert_done(profilestore_series(x->t.s, &of_cpu, &o, &l, &err));
		free(l);
		assert_done(profilestore_types(x->t.s, &all, &types, &err));
		free(types);
		profilestore_stats(x->t.s, &st);
	}
	stored_range_done(&of_cpu);
	return NULL;
}

static void *grooming(void *arg)
{
	struct shared *x = arg;
	struct err err = { 0 };
	bool more;

	while (!atomic_load(&x->stop)) {
		assert_done(profilestore_groom(x->t.s, &more, &err));
		usleep(1000);
	}
	return NULL;
}

static void readers_do_not_wait_and_nothing_is_lost(void **state)
{
	struct shared x = { 0 };
	pthread_t adders[ADDERS], readers[READERS], groomer;
	struct adder args[ADDERS];
	struct profilestore_merged m;

	stored_open(&x.t);
	for (unsigned i = 0; i < ADDERS; i++) {
		x.list[i] = stored_profile(1, NOW_MS);
		/* One profile each, not one for each set of labels. */
		memset(x.list[i]->sample_labels, 0, x.list[i]->n_samples * sizeof(uint32_t));
	}
	x.total = profile_total(x.list[0], 1);
	for (unsigned i = 0; i < READERS; i++)
		pthread_create(&readers[i], NULL, asking, &x);
	pthread_create(&groomer, NULL, grooming, &x);
	for (unsigned i = 0; i < ADDERS; i++) {
		args[i] = (struct adder){ &x, i };
		pthread_create(&adders[i], NULL, adding, &args[i]);
	}
	for (unsigned i = 0; i < ADDERS; i++)
		pthread_join(adders[i], NULL);
	atomic_store(&x.stop, true);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	pthread_join(groomer, NULL);
	for (int turn = 0; turn < 2; turn++) {
		m = stored_merge(&x.t, CPU, 0, NOW_MS + 1);
		assert_int_equal(profile_total(m.profile, 0), x.total * ADDERS * EACH);
		profile_free(m.profile);
		stored_again(&x.t);
	}
	for (unsigned i = 0; i < ADDERS; i++)
		profile_free(x.list[i]);
	stored_done(&x.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_do_not_wait_and_nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
