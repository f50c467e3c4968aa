/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash map, also compared with a plain array.
 */
#include "test.h"

static void put_get_del(void **state)
{
	AUTO(map_done) struct map m = { 0 };
	int a, b;

	assert_null(map_get(&m, bytes_of("x", 1)));
	assert_null(map_del(&m, bytes_of("x", 1)));
	assert_null(map_put(&m, bytes_of("x", 1), &a));
	assert_ptr_equal(map_get(&m, bytes_of("x", 1)), &a);
	assert_ptr_equal(map_put(&m, bytes_of("x", 1), &b), &a);
	assert_int_equal(m.n, 1);
	assert_ptr_equal(map_del(&m, bytes_of("x", 1)), &b);
	assert_null(map_get(&m, bytes_of("x", 1)));
	assert_int_equal(m.n, 0);
	/* The empty key is a key, too. */
	assert_null(map_put(&m, (struct bytes){ 0 }, &a));
	assert_ptr_equal(map_get(&m, bytes_of("", 0)), &a);
}

static void keys_are_copied_whatever_their_size(void **state)
{
	AUTO(map_done) struct map m = { 0 };
	char key[200];
	int values[200];

	for (size_t n = 0; n < 200; n++) {
		memset(key, 'k', n);
		map_put(&m, bytes_of(key, n), &values[n]);
		memset(key, 'z', sizeof(key));
	}
	assert_int_equal(m.n, 200);
	memset(key, 'k', sizeof(key));
	for (size_t n = 0; n < 200; n++)
		assert_ptr_equal(map_get(&m, bytes_of(key, n)), &values[n]);
}

static void many_keys_and_a_walk_over_them(void **state)
{
	AUTO(map_done) struct map m = { 0 };
	static char seen[20000];
	struct bytes key;
	size_t n = 0;
	void *value;

	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < 20000; i++)
		map_put(&m, bytes_of(&i, 4), &seen[i]);
	for (uint32_t i = 0; i < 20000; i += 2)
		assert_ptr_equal(map_del(&m, bytes_of(&i, 4)), &seen[i]);
	map_each (&m, it, &key, &value) {
		uint32_t i;

		assert_int_equal(key.size, 4);
		memcpy(&i, key.p, 4);
		assert_ptr_equal(value, &seen[i]);
		assert_int_equal(i % 2, 1);
		assert_int_equal(seen[i]++, 0);
		n++;
	}
	assert_int_equal(n, 10000);
	assert_int_equal(m.n, 10000);
}

static void churn_does_not_make_it_grow(void **state)
{
	AUTO(map_done) struct map m = { 0 };
	int v;

	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t old = i - 10;

		map_put(&m, bytes_of(&i, 4), &v);
		if (i >= 10)
			assert_non_null(map_del(&m, bytes_of(&old, 4)));
	}
	assert_int_equal(m.n, 10);
	assert_true(m.n_slots <= 64);
}

static void does_what_a_plain_array_does(void **state)
{
	AUTO(map_done) struct map m = { 0 };
	void *model[512] = { 0 };
	int values[16];
	size_t n = 0;

	for (uint64_t step = 0; step < 200000; step++) {
		uint64_t rnd = hash64(&step, 8, 1);
		unsigned k = rnd % 512;
		char key[80];
		/* Half of the keys do not fit into the slot. */
		size_t size = (size_t)snprintf(key, sizeof(key), "%0*u", k % 2 ? 60 : 4, k);
		void *v = &values[rnd >> 32 & 15];

		switch (rnd >> 16 & 3) {
		case 0:
			assert_ptr_equal(map_get(&m, bytes_of(key, size)), model[k]);
			break;
		case 1:
			assert_ptr_equal(map_del(&m, bytes_of(key, size)), model[k]);
			n -= model[k] != NULL;
			model[k] = NULL;
			break;
		default:
			assert_ptr_equal(map_put(&m, bytes_of(key, size), v), model[k]);
			n += model[k] == NULL;
			model[k] = v;
		}
		assert_int_equal(m.n, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get_del),
		cmocka_unit_test(keys_are_copied_whatever_their_size),
		cmocka_unit_test(many_keys_and_a_walk_over_them),
		cmocka_unit_test(churn_does_not_make_it_grow),
		cmocka_unit_test(does_what_a_plain_array_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
