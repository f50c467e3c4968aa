/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of every kind: each must return the same bytes for the same ranges, and an error for a range that
 * it cannot read.
 */
#include "fault_source.h"
#include "test.h"

#include <fcntl.h>

static char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 16];
static uint8_t data[100000];

static int setup(void **state)
{
	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/x", dir);
	test_fill(data, sizeof(data), 1);
	test_file_write(path, data, sizeof(data));
	return 0;
}

static int teardown(void **state)
{
	test_dir_remove(dir);
	return 0;
}

/* Every kind of source must return the same bytes for the same ranges. */
static void check_reads(struct source *s, const uint8_t *want, size_t size)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct err err = { 0 };
	struct bytes b;
	size_t got;

	assert_int_equal(s->size, size);
	for (uint64_t i = 0; i < 300; i++) {
		uint64_t rnd = hash64(&i, 8, 3);
		uint64_t off = rnd % (size + 10);
		size_t n = (rnd >> 32) % (i % 4 ? 3000 : size + 1);
		uint8_t *out = mem_alloc(n);

		assert_done(
			source_read(s, off, out, n, i % 2 ? SOURCE_RANDOM : SOURCE_SEQUENTIAL, &got, &err));
		assert_int_equal(got, off < size ? MIN(n, size - off) : 0);
		if (got)
			assert_memory_equal(out, want + off, got);
		free(out);
	}
	assert_done(source_read(s, size, NULL, 0, SOURCE_RANDOM, &got, &err));
	assert_int_equal(got, 0);
	assert_done(source_read(s, UINT64_MAX, &got, 8, SOURCE_RANDOM, &got, &err));
	assert_int_equal(got, 0);
	assert_fails(source_read_full(s, size - 3, &b, 4, SOURCE_RANDOM, &err), ERR_INVALID,
		     "wanted 4 bytes at");
	assert_fails(source_read_full(s, UINT64_MAX, &b, 4, SOURCE_RANDOM, &err), ERR_INVALID, "ends at");
	assert_done(source_read_arena(s, range_of(1, size - 1), size, &a, &b, &err));
	assert_true(bytes_eq(b, bytes_of(want + 1, size - 1)));
	assert_done(source_read_arena(s, range_of(size, 0), 0, &a, &b, &err));
	assert_int_equal(b.size, 0);
	assert_fails(source_read_arena(s, range_of(0, 11), 10, &a, &b, &err), ERR_LIMIT,
		     "more than the 10 allowed");
	assert_fails(source_read_arena(s, range_of(5, UINT64_MAX), 10, &a, &b, &err), ERR_INVALID, "ends at");
}

static void files_read_back(void **state)
{
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };
	uint64_t off = 7;
	int fd = -1;

	assert_done(source_open_file(path, &s, &err));
	assert_string_equal(s->name, path);
	assert_true(s->mtime > 1700000000);
	assert_null(source_raw_mem(s));
	assert_true(source_raw_fd(s, &fd, &off));
	assert_true(fd >= 0);
	assert_int_equal(off, 0);
	check_reads(s, data, sizeof(data));
}

static void only_regular_files_are_opened(void **state)
{
	struct source *s = NULL;
	struct err err = { 0 };

	assert_int_equal(source_open_file("/none/of/this", &s, &err), FILE_MISSING);
	assert_fails(source_open_file(dir, &s, &err), ERR_INVALID, "not a regular file");
	assert_null(s);
	source_close(NULL);
}

static void a_file_that_shrinks_is_changed(void **state)
{
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };
	uint8_t b[100];

	assert_done(source_open_file(path, &s, &err));
	assert_int_equal(truncate(path, 5050), 0);
	assert_done(source_read_full(s, 4950, b, 100, SOURCE_RANDOM, &err));
	assert_fails(source_read_full(s, 5000, b, 100, SOURCE_RANDOM, &err), ERR_CHANGED,
		     "shrank while it was read");
	assert_fails(source_read_full(s, 9000, b, 100, SOURCE_RANDOM, &err), ERR_CHANGED,
		     "shrank while it was read");
}

static void a_failing_descriptor_is_an_io_error(void **state)
{
	AUTO(source_closep) struct source *s = source_of_fd(open(path, O_WRONLY | O_CLOEXEC), 1000, 0, "w");
	struct err err = { 0 };
	uint8_t b[10];

	assert_fails(source_read_full(s, 0, b, 10, SOURCE_RANDOM, &err), ERR_IO,
		     "read at 0: Bad file descriptor");
}

static void memory_reads_back(void **state)
{
	AUTO(source_closep) struct source *s = source_of_mem(bytes_of(data, sizeof(data)), "m");
	AUTO(source_closep) struct source *empty = source_of_mem((struct bytes){ 0 }, NULL);
	uint8_t *copy = mem_alloc(sizeof(data));
	AUTO(source_closep) struct source *heap = source_of_heap(copy, sizeof(data), "h");
	struct err err = { 0 };
	uint64_t off;
	size_t got;
	int fd;

	memcpy(copy, data, sizeof(data));
	check_reads(s, data, sizeof(data));
	check_reads(heap, data, sizeof(data));
	assert_ptr_equal(source_raw_mem(s), data);
	assert_ptr_equal(source_raw_mem(heap), copy);
	assert_false(source_raw_fd(s, &fd, &off));
	assert_non_null(source_raw_mem(empty));
	assert_done(source_read(empty, 0, &off, 8, SOURCE_RANDOM, &got, &err));
	assert_int_equal(got, 0);
}

static void a_part_of_a_part_lends_what_its_parent_lends(void **state)
{
	AUTO(source_closep) struct source *part = NULL;
	AUTO(source_closep) struct source *inner = NULL;
	struct source *s;
	struct err err = { 0 };
	uint64_t off;
	int fd, fd2;

	assert_done(source_open_file(path, &s, &err));
	assert_true(source_raw_fd(s, &fd, &off));
	assert_done(source_open_part(s, true, range_of(1000, 50000), "member", &part, &err));
	assert_done(source_open_part(part, false, range_of(100, 20000), NULL, &inner, &err));
	assert_string_equal(part->name, "member");
	assert_string_equal(inner->name, "member");
	assert_int_equal(inner->mtime, s->mtime);
	check_reads(part, data + 1000, 50000);
	check_reads(inner, data + 1100, 20000);
	assert_true(source_raw_fd(inner, &fd2, &off));
	assert_int_equal(fd2, fd);
	assert_int_equal(off, 1100);
	assert_null(source_raw_mem(inner));
}

static void a_part_of_memory_is_memory(void **state)
{
	AUTO(source_closep) struct source *part = NULL;
	struct err err = { 0 };

	assert_done(source_open_part(source_of_mem(bytes_of(data, 100), "m"), true, range_of(10, 90), NULL,
				     &part, &err));
	assert_ptr_equal(source_raw_mem(part), data + 10);
	check_reads(part, data + 10, 90);
}

static void a_part_past_its_parent_is_invalid(void **state)
{
	struct source *part = NULL;
	struct err err = { 0 };

	for (int takes = 0; takes < 2; takes++) {
		static const uint64_t ranges[][2] = {
			{ 0, 101 },         { 101, 0 },        { 100, 1 },
			{ 50, UINT64_MAX }, { UINT64_MAX, 1 }, { UINT64_MAX, UINT64_MAX },
		};

		for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
			struct source *s = source_of_mem(bytes_of(data, 100), "m");

			assert_fails(source_open_part(s, takes, range_of(ranges[i][0], ranges[i][1]), NULL,
						      &part, &err),
				     ERR_INVALID, "ends at 100");
			if (!takes)
				source_close(s);
		}
	}
	assert_done(source_open_part(source_of_mem(bytes_of(data, 100), "m"), true, range_of(100, 0), NULL,
				     &part, &err));
	assert_int_equal(part->size, 0);
	source_close(part);
}

static void short_reads_are_put_together(void **state)
{
	AUTO(source_closep)
	struct source *s = fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true);
	AUTO(source_closep) struct source *part = NULL;
	struct err err = { 0 };

	fault_short(s, 7);
	check_reads(s, data, sizeof(data));
	assert_done(source_open_part(s, false, range_of(1, 3000), NULL, &part, &err));
	check_reads(part, data + 1, 3000);
}

static void faults_occur_at_the_chosen_reads(void **state)
{
	AUTO(source_closep)
	struct source *s = fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true);
	struct err err = { 0 };
	uint8_t b[100];

	fault_fail_at(s, 1);
	assert_done(source_read_full(s, 0, b, 100, SOURCE_RANDOM, &err));
	assert_fails(source_read_full(s, 5, b, 100, SOURCE_RANDOM, &err), ERR_IO,
		     "injected failure of the read at 5");
	assert_done(source_read_full(s, 5, b, 100, SOURCE_SEQUENTIAL, &err));
	assert_int_equal(fault_reads(s), 3);
	assert_int_equal(fault_sequential(s), 1);
	assert_int_equal(fault_bytes(s), 200);

	fault_fail_range(s, 500, 10);
	assert_done(source_read_full(s, 400, b, 100, SOURCE_RANDOM, &err));
	assert_done(source_read_full(s, 510, b, 100, SOURCE_RANDOM, &err));
	assert_fails(source_read_full(s, 509, b, 100, SOURCE_RANDOM, &err), ERR_IO, "injected");
	fault_clear(s);
	fault_flip(s, 520, 0x81);
	assert_done(source_read_full(s, 509, b, 100, SOURCE_RANDOM, &err));
	assert_int_equal(b[11], data[520] ^ 0x81);
	b[11] ^= 0x81;
	assert_memory_equal(b, data + 509, 100);
}

static int read_nothing(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
			size_t *ret_got, struct err *err)
{
	*ret_got = 0;
	return 0;
}

static void a_source_that_returns_nothing_is_an_error(void **state)
{
	static const struct source_ops ops = { .read = read_nothing };
	struct err err = { 0 };
	struct source s;
	uint8_t b[10];

	source_init(&s, &ops, 100, 0, "broken");
	assert_fails(source_read_full(&s, 0, b, 10, SOURCE_RANDOM, &err), ERR_INTERNAL, "gave nothing");
	source_fini(&s);
}

static void more_than_memory_is_a_limit(void **state)
{
	AUTO(source_closep) struct source *s = source_sparse_new(1ull << 62, "huge");
	AUTO(arena_done) struct arena a = { 0 };
	struct err err = { 0 };
	struct bytes b;

	assert_fails(source_read_arena(s, range_of(0, s->size), SIZE_MAX, &a, &b, &err), ERR_LIMIT,
		     " bytes: Cannot allocate memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_read_back, setup, teardown),
		cmocka_unit_test_setup_teardown(only_regular_files_are_opened, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_shrinks_is_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failing_descriptor_is_an_io_error, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_reads_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_of_a_part_lends_what_its_parent_lends, setup,
						teardown),
		cmocka_unit_test(a_part_of_memory_is_memory),
		cmocka_unit_test(a_part_past_its_parent_is_invalid),
		cmocka_unit_test(short_reads_are_put_together),
		cmocka_unit_test(faults_occur_at_the_chosen_reads),
		cmocka_unit_test(more_than_memory_is_a_limit),
		cmocka_unit_test(a_source_that_returns_nothing_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
