/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of blocks: the bytes are the same, with fewer reads.
 */
#include "fault_source.h"
#include "test.h"

static uint8_t data[100000];

static int setup(void **state)
{
	test_fill(data, sizeof(data), 5);
	return 0;
}

static void read_at(struct source *s, uint64_t off, size_t n, enum source_hint hint)
{
	uint8_t *out = mem_alloc(n);
	struct err err = { 0 };

	assert_done(source_read_full(s, off, out, n, hint, &err));
	assert_memory_equal(out, data + off, n);
	free(out);
}

/* A source without descriptor and memory, so that all reads are counted. */
static struct source *counted(void)
{
	return fault_source_new(source_of_mem(bytes_of(data, sizeof(data)), "m"), true);
}

static void the_same_bytes_for_any_blocks(void **state)
{
	static const size_t block_sizes[] = { 1, 2, 64, 4096, 65536, 131072 };

	for (size_t k = 0; k < ARRAY_SIZE(block_sizes); k++) {
		for (unsigned n_blocks = 1; n_blocks < 10; n_blocks += 4) {
			struct source *parent = counted();
			AUTO(source_closep)
			struct source *s = source_cached(parent, true, block_sizes[k], n_blocks);

			assert_int_equal(s->size, sizeof(data));
			assert_string_equal(s->name, "m");
			fault_short(parent, 777);
			for (uint64_t i = 0; i < 300; i++) {
				uint64_t rnd = hash64(&i, 8, k), off = rnd % sizeof(data);
				size_t n = (rnd >> 32) % (i % 8 ? 100 : 30000);

				read_at(s, off, MIN(n, sizeof(data) - off), rnd >> 60 & 1);
			}
			read_at(s, sizeof(data) - 1, 1, SOURCE_RANDOM);
		}
	}
}

static void many_small_reads_become_few_large_ones(void **state)
{
	struct source *parent = counted();
	AUTO(source_closep) struct source *s = source_cached(parent, true, 4096, 4);

	for (uint64_t off = 0; off < 4 * 4096; off += 16)
		read_at(s, off, 16, SOURCE_RANDOM);
	assert_int_equal(fault_reads(parent), 4);
	/* Also when reads alternate between four blocks. */
	for (uint64_t i = 0; i < 1000; i++)
		read_at(s, i % 4 * 4096 + i, 16, SOURCE_RANDOM);
	assert_int_equal(fault_reads(parent), 4);
}

static void the_least_recently_used_block_is_evicted(void **state)
{
	struct source *parent = counted();
	AUTO(source_closep) struct source *s = source_cached(parent, true, 1024, 3);
	static const unsigned blocks[] = { 0, 1, 2, 0, 3, 0, 2, 1 };
	static const unsigned reads[] = { 1, 2, 3, 3, 4, 4, 4, 5 };

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		read_at(s, blocks[i] * 1024 + 5, 10, SOURCE_RANDOM);
		assert_int_equal(fault_reads(parent), reads[i]);
	}
}

static void large_reads_bypass_the_cache(void **state)
{
	struct source *parent = counted();
	AUTO(source_closep) struct source *s = source_cached(parent, true, 1024, 4);

	read_at(s, 100, 10, SOURCE_RANDOM);
	read_at(s, 5, 50000, SOURCE_SEQUENTIAL);
	read_at(s, 5, 50000, SOURCE_RANDOM);
	assert_int_equal(fault_reads(parent), 3);
	assert_int_equal(fault_sequential(parent), 1);
	read_at(s, 200, 10, SOURCE_RANDOM); /* and evicted no block */
	assert_int_equal(fault_reads(parent), 3);
}

static void a_failed_read_is_not_cached(void **state)
{
	struct source *parent = counted();
	AUTO(source_closep) struct source *s = source_cached(parent, true, 1024, 1);
	struct err err = { 0 };
	uint8_t b[10];

	read_at(s, 100, 10, SOURCE_RANDOM);
	fault_short(parent, 500);
	fault_fail_at(parent, 1); /* in the middle of a block */
	assert_fails(source_read_full(s, 3000, b, 10, SOURCE_RANDOM, &err), ERR_IO, "injected");
	read_at(s, 3000, 10, SOURCE_RANDOM);
	fault_fail_at(parent, 1);
	assert_fails(source_read_full(s, 100, b, 10, SOURCE_RANDOM, &err), ERR_IO, "injected");
	read_at(s, 100, 10, SOURCE_RANDOM);
}

static void descriptor_and_memory_of_the_parent_are_lent(void **state)
{
	AUTO(source_closep) struct source *parent = source_of_mem(bytes_of(data, sizeof(data)), "m");
	AUTO(source_closep) struct source *s = source_cached(parent, false, 1024, 2);
	uint64_t off;
	int fd;

	assert_ptr_equal(source_raw_mem(s), data);
	assert_false(source_raw_fd(s, &fd, &off));
	read_at(s, 99000, 1000, SOURCE_RANDOM);
}

static void a_block_without_memory_is_a_limit(void **state)
{
	AUTO(source_closep) struct source *parent = source_sparse_new(1ull << 62, "huge");
	AUTO(source_closep) struct source *s = source_cached(parent, false, (size_t)1 << 61, 1);
	struct err err = { 0 };
	uint8_t b[10];

	assert_fails(source_read_full(s, 0, b, 10, SOURCE_RANDOM, &err), ERR_LIMIT, "no memory for a block");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes_for_any_blocks),
		cmocka_unit_test(many_small_reads_become_few_large_ones),
		cmocka_unit_test(the_least_recently_used_block_is_evicted),
		cmocka_unit_test(large_reads_bypass_the_cache),
		cmocka_unit_test(a_failed_read_is_not_cached),
		cmocka_unit_test(a_block_without_memory_is_a_limit),
		cmocka_unit_test(descriptor_and_memory_of_the_parent_are_lent),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
