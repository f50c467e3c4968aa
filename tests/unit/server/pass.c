/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: uploads that were announced. */
#include "test.h"

#include "server/push/pass.h"

static int give(struct passes *t, const char *owner, uint64_t i, struct pass *ret, struct err *err)
{
	char secret[PASS_SECRET_SIZE];

	*ret = (struct pass){ .size = 1 };
	build_id_set(&ret->id, bytes_of(&i, sizeof(i)));
	snprintf(ret->owner, sizeof(ret->owner), "%s", owner);
	return pass_give(t, ret, secret, err);
}

static void one_owner_leaves_room_for_others(void **state)
{
	struct passes *t = passes_new(0);
	struct err err = { 0 };
	struct pass p;
	unsigned n = 0;

	while (give(t, "ci", n, &p, &err) == 0)
		n++;
	assert_int_equal(n, PASSES_OF_ONE);
	assert_int_equal(err.kind, ERR_BUSY);
	for (unsigned i = 0; i < PASSES_MAX - PASSES_OF_ONE; i++)
		assert_done(give(t, i % 2 ? "b" : "c", 10000 + i, &p, &err));
	assert_fails(give(t, "b", 1, &p, &err), ERR_BUSY, "4096 uploads");
	/* When they have expired, all begins anew. */
	clock_test_freeze(1000);
	clock_test_advance(2 * PASS_KEEP_MS);
	assert_done(give(t, "ci", 1, &p, &err));
	clock_test_thaw();
	passes_free(t);
}

static void finished_uploads_make_room(void **state)
{
	struct passes *t = passes_new(0);
	struct err err = { 0 };
	struct pass p = { 0 }, first;

	assert_done(give(t, "ci", 0, &first, &err));
	for (unsigned i = 1; i < 3 * PASSES_MAX; i++) {
		assert_done(give(t, "ci", i, &p, &err));
		pass_finish(t, p.number);
	}
	assert_int_equal(pass_state(t, p.number, &p.id), PASS_DONE);
	assert_int_equal(pass_state(t, first.number, &first.id), PASS_OPEN);
	passes_free(t);
}

static void uploads_to_the_bucket_are_counted_by_their_bytes(void **state)
{
	struct passes *t = passes_new(100);
	struct err err = { 0 };
	struct pass p = { .number = 7, .size = 500, .owner = "ci", .direct_ms = 2 * PASS_USE_MS }, got;
	char secret[PASS_SECRET_SIZE];

	clock_test_freeze(1000);
	assert_done(pass_give(t, &p, secret, &err)); /* one may be larger */
	assert_int_equal(p.number, 7);
	assert_false(pass_take(t, str_of(secret), &got));
	assert_false(pass_take_number(t, 7, &p.id, "ci", &got));
	p.number = 8;
	p.size = 1;
	assert_fails(pass_give(t, &p, secret, &err), ERR_BUSY, "500 bytes");
	pass_cancel(t, 7);
	assert_int_equal(pass_state(t, 7, &p.id), PASS_NONE);
	p.size = 60;
	assert_done(pass_give(t, &p, secret, &err));
	p.number = 9;
	assert_fails(pass_give(t, &p, secret, &err), ERR_BUSY, "60 bytes");
	/* It counts as long as its URL is good. */
	clock_test_advance(PASS_USE_MS + 1000);
	assert_fails(pass_give(t, &p, secret, &err), ERR_BUSY, "60 bytes");
	pass_refuse(t, 8);
	assert_int_equal(pass_state(t, 8, &p.id), PASS_USED);
	/* Its bytes, or those of other nodes, may be in the bucket for longer. */
	passes_sent(t, 70);
	assert_fails(pass_give(t, &p, secret, &err), ERR_BUSY, "70 bytes");
	passes_sent(t, 40);
	assert_done(pass_give(t, &p, secret, &err));
	clock_test_thaw();
	passes_free(t);
}

/* A pass is a secret of one client, for one file. */
static void a_pass_is_used_once_and_by_its_owner_alone(void **state)
{
	struct passes *t = passes_new(0);
	struct err err = { 0 };
	struct pass p = { .size = 5, .owner = "ci" }, got;
	char secret[PASS_SECRET_SIZE];
	struct build_id other;

	build_id_set(&p.id, bytes_of("1234", 4));
	build_id_set(&other, bytes_of("1235", 4));
	assert_done(pass_give(t, &p, secret, &err));
	assert_false(pass_take_number(t, p.number + 1, &p.id, "ci", &got));
	assert_false(pass_take_number(t, p.number, &other, "ci", &got));
	assert_false(pass_take_number(t, p.number, &p.id, "other", &got));
	assert_int_equal(pass_state(t, p.number, &other), PASS_NONE);
	assert_true(pass_take_number(t, p.number, &p.id, "ci", &got));
	assert_false(pass_take_number(t, p.number, &p.id, "ci", &got));
	assert_false(pass_take(t, str_of(secret), &got));
	assert_done(pass_give(t, &p, secret, &err));
	secret[0] ^= 1;
	assert_false(pass_take(t, str_of(secret), &got));
	secret[0] ^= 1;
	assert_true(pass_take(t, str_of(secret), &got));
	assert_int_equal(got.number, p.number);
	assert_int_equal(got.size, 5);
	assert_string_equal(got.owner, "ci");
	assert_false(pass_take(t, str_of(secret), &got));
	assert_int_equal(pass_state(t, p.number, &p.id), PASS_USED);
	passes_free(t);
}

/* An URL that nobody has used is good for PASS_USE_MS. */
static void a_pass_that_is_not_used_ends(void **state)
{
	struct passes *t = passes_new(0);
	struct err err = { 0 };
	struct pass p = { .size = 5, .owner = "ci" }, got;
	char secret[PASS_SECRET_SIZE];

	clock_test_freeze(1000);
	assert_done(pass_give(t, &p, secret, &err));
	clock_test_advance(PASS_USE_MS + 1);
	assert_false(pass_take(t, str_of(secret), &got));
	assert_int_equal(pass_state(t, p.number, &p.id), PASS_NONE);
	clock_test_thaw();
	passes_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_owner_leaves_room_for_others),
		cmocka_unit_test(finished_uploads_make_room),
		cmocka_unit_test(uploads_to_the_bucket_are_counted_by_their_bytes),
		cmocka_unit_test(a_pass_is_used_once_and_by_its_owner_alone),
		cmocka_unit_test(a_pass_that_is_not_used_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
