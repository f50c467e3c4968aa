/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdlib.h>
#include "agent/sampler_pool.h"

struct made {
	size_t n_made, n_dropped;
	bool fail;
};

static int make_memory(void *arg, uint32_t segment, uint32_t n, void **ret_memory, struct err *err)
{
	struct made *m = arg;

	if (m->fail)
		return err_set(err, ERR_IO, "no segment");
	m->n_made++;
	*ret_memory = mem_zalloc(n * 8);
	return 0;
}

static void drop_memory(void *arg, uint32_t segment, void *memory, uint32_t n)
{
	((struct made *)arg)->n_dropped++;
	free(memory);
}

static struct sampler_pool make_pool(struct made *m)
{
	return (struct sampler_pool){
		.element = 8, .normal = 100, .n_max = 4, .make = make_memory, .drop = drop_memory, .arg = m
	};
}

static void small_ranges_share_a_segment(void **state)
{
	struct made m = { 0 };
	struct sampler_pool p = make_pool(&m);
	struct sampler_range r[5];
	void *at[5];

	clock_test_freeze(1000);
	for (int i = 0; i < 5; i++)
		assert_int_equal(sampler_pool_take(&p, 20, &r[i], &at[i], NULL), 0);
	assert_int_equal(m.n_made, 1);
	assert_int_equal(p.reserved, 800);
	assert_ptr_equal(at[4], p.segments[0].memory + 80 * 8);
	/* A returned range rests: the next one is elsewhere. */
	sampler_pool_give(&p, &r[1]);
	assert_int_equal(r[1].n, 0);
	sampler_pool_give(&p, &r[1]); /* nothing */
	assert_int_equal(sampler_pool_take(&p, 20, &r[1], &at[1], NULL), 0);
	assert_int_equal(r[1].segment, 1);
	clock_test_advance(200);
	assert_int_equal(sampler_pool_take(&p, 15, &r[0], &at[0], NULL), 0);
	assert_int_equal(r[0].segment, 0);
	assert_int_equal(r[0].first, 20);
	clock_test_thaw();
	sampler_pool_done(&p);
	assert_int_equal(m.n_dropped, m.n_made);
}

static void neighbours_join(void **state)
{
	struct made m = { 0 };
	struct sampler_pool p = make_pool(&m);
	static const int orders[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 0, 2, 1, 3 }, { 1, 3, 0, 2 } };
	void *at;

	clock_test_freeze(1000);
	for (size_t o = 0; o < ARRAY_SIZE(orders); o++) {
		struct sampler_range r[4], big;

		for (int i = 0; i < 4; i++)
			assert_int_equal(sampler_pool_take(&p, 25, &r[i], &at, NULL), 0);
		for (int i = 0; i < 4; i++)
			sampler_pool_give(&p, &r[orders[o][i]]);
		assert_int_equal(p.segments[0].n_runs, 1);
		clock_test_advance(200);
		assert_int_equal(sampler_pool_take(&p, 100, &big, &at, NULL), 0);
		assert_int_equal(big.segment, 0);
		sampler_pool_give(&p, &big);
		clock_test_advance(200);
	}
	assert_int_equal(m.n_made, 1);
	clock_test_thaw();
	sampler_pool_done(&p);
}

static void large_ranges_have_their_own_segment(void **state)
{
	struct made m = { 0 };
	struct sampler_pool p = make_pool(&m);
	struct sampler_range r;
	struct err err;
	void *at;

	clock_test_freeze(1000);
	assert_int_equal(sampler_pool_take(&p, 1000, &r, &at, NULL), 0);
	assert_int_equal(p.reserved, 8000);
	sampler_pool_give(&p, &r);
	sampler_pool_tidy(&p);
	assert_int_equal(p.reserved, 8000); /* it rests */
	clock_test_advance(200);
	sampler_pool_tidy(&p);
	assert_int_equal(p.reserved, 0);
	p.bytes_max = 16000;
	assert_int_equal(sampler_pool_take(&p, 1000, &r, &at, NULL), 0);
	assert_int_equal(sampler_pool_take(&p, 1001, &r, &at, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_int_equal(sampler_pool_take(&p, 1000, &r, &at, NULL), 0);
	clock_test_thaw();
	sampler_pool_done(&p);
}

static void a_segment_that_cannot_be_made(void **state)
{
	struct made m = { .fail = true };
	struct sampler_pool p = make_pool(&m);
	struct sampler_range r;
	struct err err;
	void *at;

	assert_int_equal(sampler_pool_take(&p, 10, &r, &at, &err), -1);
	assert_int_equal(err.kind, ERR_IO);
	m.fail = false;
	for (int i = 0; i < 4; i++)
		assert_int_equal(sampler_pool_take(&p, 100, &r, &at, NULL), 0);
	assert_int_equal(sampler_pool_take(&p, 100, &r, &at, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	sampler_pool_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_ranges_share_a_segment),
		cmocka_unit_test(neighbours_join),
		cmocka_unit_test(large_ranges_have_their_own_segment),
		cmocka_unit_test(a_segment_that_cannot_be_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
