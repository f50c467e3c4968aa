/* SPDX-License-Identifier: Apache-2.0 */
/* The build IDs whose debug information is wanted. */
#include "test.h"

#include "agent/home.h"

static struct build_id id_of(uint32_t n)
{
	struct build_id id = { .size = 20 };

	memcpy(id.b, &n, sizeof(n));
	return id;
}

static uint64_t wanted(struct home *h)
{
	struct home_stats st;

	home_stats(h, &st);
	return st.n_wanted;
}

static void build_ids_that_are_done_make_room_for_others(void **state)
{
	const struct home_options o = { .url = "http://127.0.0.1:1", .dir = "/nonexistent" };
	struct build_id id, late = id_of(HOME_MAX_QUEUE);
	struct home *h = NULL;
	struct err err = { 0 };

	assert_done(home_new(&o, &h, &err));
	for (uint32_t i = 0; i < HOME_MAX_QUEUE; i++) {
		id = id_of(i);
		home_want(h, &id);
	}
	/* All of them wait. */
	home_want(h, &late);
	assert_int_equal(wanted(h), HOME_MAX_QUEUE);
	/* Nobody has the first one. */
	assert_true(home_next(h, &id));
	home_give(h, &id, -1, 0, "");
	home_want(h, &late);
	assert_int_equal(wanted(h), HOME_MAX_QUEUE + 1);
	/* The others are still in their order, the new one is the last. */
	for (uint32_t i = 1; i <= HOME_MAX_QUEUE; i++) {
		struct build_id expected = id_of(i);

		assert_true(home_next(h, &id));
		assert_true(build_id_eq(&id, &expected));
		home_give(h, &id, -1, 0, "");
	}
	assert_false(home_next(h, &id));
	home_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build_ids_that_are_done_make_room_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
