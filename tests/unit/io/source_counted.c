/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counting source: the bytes that were really read, and everything else as the source below.
 */
#include "test.h"

#include <pthread.h>
#include "io/io.h"

#define SIZE    1000
#define THREADS 4u
#define ROUNDS  1000u

/* A source that gives at most 100 bytes at once, and fails from its middle on. */
struct below {
	struct source base;
	bool closed, distrusted;
	struct byte_range expected;
};

static int below_read(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		      size_t *ret_got, struct err *err)
{
	if (off >= SIZE / 2)
		return err_set(err, ERR_IO, "broken");
	*ret_got = MIN(n, (size_t)100);
	memset(buf, (int)off, *ret_got);
	return 0;
}

static void below_close(struct source *s)
{
	CONTAINER_OF(s, struct below, base)->closed = true;
}

static bool below_raw_fd(struct source *s, int *ret_fd, uint64_t *ret_off)
{
	return true;
}

static void below_expect(struct source *s, struct byte_range range)
{
	CONTAINER_OF(s, struct below, base)->expected = range;
}

static void below_distrust(struct source *s)
{
	CONTAINER_OF(s, struct below, base)->distrusted = true;
}

static const struct source_ops below_ops = {
	.read = below_read,
	.close = below_close,
	.raw_fd = below_raw_fd,
	.expect = below_expect,
	.distrust = below_distrust,
};

static int set_up(void **state)
{
	struct below *b = NEW(struct below);

	source_init(&b->base, &below_ops, SIZE, 17, "below");
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct below *b = *state;

	source_fini(&b->base);
	free(b);
	return 0;
}

static uint64_t count(struct source_counted *c)
{
	return atomic_load(&c->n_read);
}

static void bytes_that_were_read_are_counted(void **state)
{
	struct below *b = *state;
	struct source_counted *c = source_counted_new(&b->base);
	struct err err = { 0 };
	uint8_t buf[SIZE];
	size_t got;

	assert_int_equal(count(c), 0);
	assert_int_equal(source_read(&c->base, 3, buf, 10, SOURCE_RANDOM, &got, &err), 0);
	assert_int_equal(got, 10);
	assert_int_equal(buf[9], 3);
	assert_int_equal(count(c), 10);
	/* At the end of the source what there was. */
	b->base.size = c->base.size = 250;
	assert_int_equal(source_read(&c->base, 150, buf, SIZE, SOURCE_SEQUENTIAL, &got, &err), 0);
	assert_int_equal(got, 100);
	assert_int_equal(count(c), 110);
	b->base.size = c->base.size = SIZE;
	/* The same bytes again count again, failed reads do not. */
	assert_int_equal(source_read_full(&c->base, 0, buf, 250, SOURCE_SEQUENTIAL, &err), 0);
	assert_int_equal(count(c), 360);
	assert_fails(source_read(&c->base, 500, buf, 10, SOURCE_RANDOM, &got, &err), ERR_IO, "broken");
	assert_int_equal(count(c), 360);
	source_close(&c->base);
}

static void the_rest_is_that_of_the_source_below(void **state)
{
	struct below *b = *state;
	struct source_counted *c = source_counted_new(&b->base);
	uint64_t off;
	int fd;

	assert_int_equal(c->base.size, SIZE);
	assert_int_equal(c->base.mtime, 17);
	assert_string_equal(c->base.name, "below");
	source_expect(&c->base, range_of(7, 9));
	assert_int_equal(b->expected.off, 7);
	assert_int_equal(b->expected.size, 9);
	source_distrust(&c->base);
	assert_true(b->distrusted);
	/* Nobody reads past the count. */
	assert_false(source_raw_fd(&c->base, &fd, &off));
	assert_null(source_raw_mem(&c->base));
	/* It is borrowed. */
	source_close(&c->base);
	assert_false(b->closed);
}

static void *read_much(void *arg)
{
	struct source_counted *c = arg;
	uint8_t buf[7];
	size_t got;

	for (unsigned i = 0; i < ROUNDS; i++)
		if (source_read(&c->base, i % 100, buf, sizeof(buf), SOURCE_RANDOM, &got, NULL) < 0)
			return arg;
	return NULL;
}

static void several_threads_are_counted(void **state)
{
	struct below *b = *state;
	struct source_counted *c = source_counted_new(&b->base);
	pthread_t threads[THREADS];
	void *failed;

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_much, c), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(count(c), 7 * THREADS * ROUNDS);
	source_close(&c->base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_that_were_read_are_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_rest_is_that_of_the_source_below, set_up, tear_down),
		cmocka_unit_test_setup_teardown(several_threads_are_counted, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
