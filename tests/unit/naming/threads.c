/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles come in, debug files turn up, a reader asks, and the store ends: all at once. */
#include "naming_fixture.h"

#include <pthread.h>

#define N_IDS    6u
#define N_ROUNDS 12u

struct adder {
	struct naming_fixture *t;
	uint32_t n;
	pthread_t thread;
};

static void *add(void *arg)
{
	struct adder *a = arg;

	for (uint32_t i = 0; i < N_ROUNDS; i++) {
		struct naming_fixture own = *a->t;

		own.time_ms += 1000 * a->n + i;
		for (uint32_t n = 1; n <= N_IDS; n++)
			naming_fixture_add_one(&own, n, 0x1000 + (a->n * N_ROUNDS + i) % 0x100);
	}
	return NULL;
}

static void *put(void *arg)
{
	struct naming_fixture *t = arg;

	for (uint32_t n = 1; n <= N_IDS; n++) {
		tables_fixture_put_program(&t->tables, n, true);
		naming_fixture_wake(t, n, false);
		tables_fixture_put_debug(&t->tables, n);
		naming_fixture_wake(t, n, true);
		naming_kick(t->naming);
	}
	return NULL;
}

static void run(struct naming_fixture *t)
{
	struct adder adders[2];
	struct profilestore_binaries *list;
	struct err err = { 0 };
	pthread_t putter;

	for (uint32_t i = 0; i < ARRAY_SIZE(adders); i++) {
		adders[i] = (struct adder){ .t = t, .n = i };
		assert_int_equal(pthread_create(&adders[i].thread, NULL, add, &adders[i]), 0);
	}
	assert_int_equal(pthread_create(&putter, NULL, put, t), 0);
	for (uint32_t i = 0; i < 20; i++) {
		struct naming_stats stats;

		assert_done(profilestore_binaries(t->store, NULL, NULL, &list, &err));
		free(list);
		naming_stats(t->naming, &stats);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(adders); i++)
		pthread_join(adders[i].thread, NULL);
	pthread_join(putter, NULL);
}

static void all_is_named_in_the_end(void **state)
{
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	naming_fixture_start(&t);
	run(&t);
	for (uint32_t n = 1; n <= N_IDS; n++) {
		char file[32], want[32];

		snprintf(file, sizeof(file), "/bin/p%u", n);
		snprintf(want, sizeof(want), "f%u /src/a.c:11", n);
		naming_fixture_expect(&t, n, 0x1010, want);
		naming_fixture_expect_state(&t, file, NAMING_DONE, FRAME_FOUND, 0);
		assert_int_equal(naming_fixture_binary(&t, file).n_named,
				 naming_fixture_binary(&t, file).n_locations);
	}
	naming_fixture_close(&t);
}

static void an_end_in_the_midst_of_it(void **state)
{
	struct adder adder;
	struct naming_fixture t;

	naming_fixture_open(&t, true);
	naming_fixture_start(&t);
	adder = (struct adder){ .t = &t, .n = 1 };
	assert_int_equal(pthread_create(&adder.thread, NULL, add, &adder), 0);
	put(&t);
	tables_stop(t.tables.s);
	naming_stop(t.naming);
	/* A wake that comes after the stop. */
	naming_fixture_wake(&t, 1, true);
	naming_kick(t.naming);
	pthread_join(adder.thread, NULL);
	naming_fixture_again(&t);
	for (uint32_t n = 1; n <= N_IDS; n++) {
		char want[32];

		snprintf(want, sizeof(want), "f%u /src/a.c:11", n);
		naming_fixture_expect(&t, n, 0x1010, want);
	}
	naming_fixture_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_named_in_the_end),
		cmocka_unit_test(an_end_in_the_midst_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
