/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes, files and eviction, over the sampler in memory.
 */
#include "test.h"

#include <stdlib.h>
#include "agent/sampler.h"
#include "sampler_mem.h"

/* Valid until the next call. */
static struct bytes filled_table(size_t size, uint8_t fill)
{
	static uint8_t bytes[KIB(64)];

	memset(bytes, fill, size);
	return bytes_of(bytes, size);
}

static void options_have_defaults_and_limits(void **state)
{
	struct sampler_options o = { .ring_size = 100000 };
	struct err err;

	assert_int_equal(sampler_options_check(&o, &err), 0);
	assert_int_equal(o.frequency_hz, 19);
	assert_int_equal(o.ring_size, 131072);
	assert_int_equal(o.table_memory, MIB(64));
	o.frequency_hz = SAMPLER_MAX_HZ + 1;
	assert_int_equal(sampler_options_check(&o, &err), -1);
	assert_int_equal(err.kind, ERR_INVALID);
	o = (struct sampler_options){ .stack_copy = SAMPLER_MAX_STACK + 1 };
	assert_int_equal(sampler_options_check(&o, &err), -1);
}

static void every_end_has_a_name(void **state)
{
	for (int i = 0; i < SAMPLER_N_ENDS; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(sampler_end_name(i), sampler_end_name(k));
	assert_string_equal(sampler_end_name(SAMPLER_N_ENDS), "unknown");
}

static void numbers_of_dropped_files_rest(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	uint32_t a, b, c;

	clock_test_freeze(1000);
	assert_int_equal(sampler_file_new(s, &a, NULL), 0);
	sampler_file_drop(s, a);
	sampler_file_drop(s, a); /* nothing */
	assert_int_equal(sampler_file_new(s, &b, NULL), 0);
	assert_int_not_equal(sampler_file_index(a), sampler_file_index(b));
	clock_test_advance(11000);
	assert_int_equal(sampler_file_new(s, &c, NULL), 0);
	assert_int_equal(sampler_file_index(a), sampler_file_index(c));
	assert_int_not_equal(a, c);
	assert_null(sampler_file_get(s, a));
	assert_non_null(sampler_file_get(s, c));
	clock_test_thaw();
	sampler_close(s);
}

static void there_is_a_limit_of_files(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct err err;
	uint32_t file = 0;

	for (int i = 0; i < SAMPLER_MAX_FILES; i++)
		assert_int_equal(sampler_file_new(s, &file, NULL), 0);
	assert_int_equal(sampler_file_new(s, &file, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	sampler_close(s);
}

static void the_least_recently_sampled_table_is_evicted(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .table_memory = KIB(32) });
	struct sampler_stats stats;
	struct err err;
	uint32_t f[4];

	clock_test_freeze(1000);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(sampler_file_new(s, &f[i], NULL), 0);
		if (i < 3)
			assert_int_equal(sampler_file_table(s, f[i], filled_table(KIB(10), (uint8_t)i), NULL),
					 0);
		clock_test_advance(1000);
	}
	sampler_mem_used(s, f[0], clock_mono_ns());
	assert_int_equal(sampler_file_table(s, f[3], filled_table(KIB(10), 3), NULL), 0);
	assert_int_equal(sampler_file_get(s, f[0])->state, SAMPLER_TABLE_SET);
	assert_int_equal(sampler_file_get(s, f[1])->state, SAMPLER_TABLE_EVICTED);
	assert_int_equal(sampler_file_get(s, f[2])->state, SAMPLER_TABLE_SET);
	/* One that cannot fit evicts nothing. */
	assert_int_equal(sampler_file_table(s, f[1], filled_table(KIB(40), 1), &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_int_equal(sampler_file_get(s, f[1])->state, SAMPLER_TABLE_NEVER);
	/* A table in place of another. */
	assert_int_equal(sampler_file_table(s, f[0], filled_table(KIB(12), 0), NULL), 0);
	sampler_stats(s, &stats);
	assert_int_equal(stats.evicted, 1);
	assert_int_equal(stats.n_tables, 3);
	assert_int_equal(stats.table_bytes, KIB(32));
	clock_test_thaw();
	sampler_close(s);
}

/* Four files of three containers: two have the same library, and the fourth only claims to be it. */
static void equal_tables_are_kept_once(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .table_memory = KIB(24) });
	struct sampler_stats stats;
	uint32_t f[4];

	for (int i = 0; i < 4; i++) {
		assert_int_equal(sampler_file_new(s, &f[i], NULL), 0);
		assert_int_equal(sampler_file_table(s, f[i], filled_table(KIB(8), i == 3 ? 2 : 1), NULL), 0);
	}
	assert_int_equal(sampler_mem_n_tables(s), 2);
	assert_ptr_equal(sampler_file_get(s, f[0])->table, sampler_file_get(s, f[2])->table);
	assert_ptr_not_equal(sampler_file_get(s, f[0])->table, sampler_file_get(s, f[3])->table);
	assert_int_equal(sampler_file_get(s, f[3])->table->bytes.p[0], 2);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_tables, 2);
	assert_int_equal(stats.n_table_files, 4);
	assert_int_equal(stats.table_bytes, KIB(16));
	/* A prefix is another table. */
	assert_int_equal(sampler_file_table(s, f[2], filled_table(KIB(4), 1), NULL), 0);
	/* The table stays while a file has it, whichever was the first. */
	sampler_file_drop(s, f[0]);
	assert_int_equal(sampler_file_get(s, f[1])->table->bytes.p[KIB(8) - 1], 1);
	sampler_file_drop(s, f[1]);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_tables, 2);
	assert_int_equal(stats.n_table_files, 2);
	assert_int_equal(stats.table_bytes, KIB(12));
	sampler_close(s);
}

static void eviction_takes_a_table_from_all_its_files(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .table_memory = KIB(24) });
	struct sampler_stats stats;
	uint32_t f[4];

	clock_test_freeze(1000);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(sampler_file_new(s, &f[i], NULL), 0);
		if (i < 3)
			assert_int_equal(
				sampler_file_table(s, f[i], filled_table(KIB(10), i == 2 ? 2 : 1), NULL), 0);
	}
	clock_test_advance(1000);
	/* A sample of one of its files makes the table a recent one. */
	sampler_mem_used(s, f[1], clock_mono_ns());
	assert_int_equal(sampler_file_table(s, f[3], filled_table(KIB(10), 3), NULL), 0);
	assert_int_equal(sampler_file_get(s, f[2])->state, SAMPLER_TABLE_EVICTED);
	assert_int_equal(sampler_file_get(s, f[0])->state, SAMPLER_TABLE_SET);
	clock_test_advance(1000);
	sampler_mem_used(s, f[3], clock_mono_ns());
	assert_int_equal(sampler_file_table(s, f[2], filled_table(KIB(10), 2), NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sampler_file_get(s, f[i])->state, SAMPLER_TABLE_EVICTED);
		assert_null(sampler_file_get(s, f[i])->table);
	}
	sampler_stats(s, &stats);
	assert_int_equal(stats.evicted, 2);
	assert_int_equal(stats.table_bytes, KIB(20));
	/* One of them is built again; the other one's turn comes when a sample needs it. */
	assert_int_equal(sampler_file_table(s, f[0], filled_table(KIB(4), 1), NULL), 0);
	assert_int_equal(sampler_file_get(s, f[1])->state, SAMPLER_TABLE_EVICTED);
	clock_test_thaw();
	sampler_close(s);
}

static void mappings_are_checked(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_mapping m[2] = { { 0x1000, 0x3000, 0, SAMPLER_NO_FILE },
					{ 0x2000, 0x4000, 0, SAMPLER_NO_FILE } };
	struct sampler_stats stats;
	struct err err;

	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, m, 2, &err), -1);
	assert_int_equal(err.kind, ERR_INVALID);
	m[1].start = 0x3000;
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, m, 2, &err), 0);
	m[1].file = 5;
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, m, 2, &err), -1);
	/* The earlier ones stay. */
	assert_int_equal(sampler_process_get(s, 7)->n_mappings, 2);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, m, 1, &err), 0);
	assert_int_equal(sampler_process_get(s, 7)->n_mappings, 1);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_mappings, 1);
	assert_int_equal(stats.n_processes, 1);
	/* No room: it counts as not set. */
	sampler_mem_fail(s, true);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, m, 1, &err), -1);
	assert_null(sampler_process_get(s, 7));
	sampler_close(s);
}

static void note_event(void *ctx, const struct sampler_event *event)
{
	(*(int *)ctx)++;
}

static void exec_and_exit_forget_the_process(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_mapping m = { 0x1000, 0x3000, 0, SAMPLER_NO_FILE };
	int n = 0;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &m, 1, NULL), 0);
		sampler_mem_event(s, &(struct sampler_event){ .kind = i ? SAMPLER_EXEC : SAMPLER_EXIT,
							      .pid = 7,
							      .time_ns = INT64_MAX });
		assert_int_equal(
			sampler_poll(s, 0, &(struct sampler_handler){ .event = note_event, .ctx = &n }, NULL),
			0);
		assert_null(sampler_process_get(s, 7));
	}
	assert_int_equal(n, 2);
	sampler_close(s);
}

struct kinds {
	enum sampler_event_kind list[4];
	size_t n;
};

static void note_kind(void *ctx, const struct sampler_event *event)
{
	struct kinds *k = ctx;

	assert_true(k->n < ARRAY_SIZE(k->list));
	k->list[k->n++] = event->kind;
}

/* The event of an exec may arrive after the mappings were read and set: of the old program, or of the new one. */
static void a_process_that_was_set_after_its_exec_is_read_again(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_mapping m = { 0x1000, 0x3000, 0, SAMPLER_NO_FILE };
	struct kinds k = { 0 };
	struct sampler_handler h = { .event = note_kind, .ctx = &k };

	clock_test_freeze(1000);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &m, 1, NULL), 0);
	sampler_mem_event(
		s, &(struct sampler_event){ .kind = SAMPLER_EXEC, .pid = 7, .time_ns = clock_mono_ns() - 1 });
	assert_int_equal(sampler_poll(s, 0, &h, NULL), 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(k.list[0], SAMPLER_EXEC);
	assert_int_equal(k.list[1], SAMPLER_NEW);
	clock_test_thaw();
	sampler_close(s);
}

static void samples_are_counted_by_end(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_stats stats;

	sampler_mem_sample(s, &(struct sampler_sample){ .pid = 1, .end = SAMPLER_TOO_DEEP });
	sampler_mem_sample(s, &(struct sampler_sample){ .pid = 1, .end = SAMPLER_COMPLETE });
	assert_int_equal(sampler_poll(s, 0, &(struct sampler_handler){ 0 }, NULL), 0);
	sampler_stats(s, &stats);
	assert_int_equal(stats.samples, 2);
	assert_int_equal(stats.ends[SAMPLER_TOO_DEEP], 1);
	sampler_close(s);
}

/* It has rows; that they are not there is for want of memory, as with a table that was evicted. */
static void a_table_over_the_limit_is_the_reason_of_a_cut_stack(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .table_memory = KIB(32) });
	struct sampler_frame frames[2] = { { .addr = 1 }, { .addr = 2 } };
	struct sampler_sample sample = { .pid = 1, .end = SAMPLER_NO_ROW, .user = frames, .n_user = 2 };
	struct sampler_stats stats;
	struct err err;

	assert_int_equal(sampler_file_new(s, &frames[0].file, NULL), 0);
	assert_int_equal(sampler_file_new(s, &frames[1].file, NULL), 0);
	assert_int_equal(sampler_file_table(s, frames[1].file, filled_table(KIB(40), 1), &err), -1);
	sampler_mem_sample(s, &sample);
	sample.n_user = 1;
	sampler_mem_sample(s, &sample);
	assert_int_equal(sampler_poll(s, 0, &(struct sampler_handler){ 0 }, NULL), 0);
	sampler_stats(s, &stats);
	assert_int_equal(stats.ends[SAMPLER_EVICTED], 1);
	assert_int_equal(stats.ends[SAMPLER_NO_ROW], 1);
	sampler_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_have_defaults_and_limits),
		cmocka_unit_test(every_end_has_a_name),
		cmocka_unit_test(numbers_of_dropped_files_rest),
		cmocka_unit_test(there_is_a_limit_of_files),
		cmocka_unit_test(the_least_recently_sampled_table_is_evicted),
		cmocka_unit_test(equal_tables_are_kept_once),
		cmocka_unit_test(eviction_takes_a_table_from_all_its_files),
		cmocka_unit_test(mappings_are_checked),
		cmocka_unit_test(exec_and_exit_forget_the_process),
		cmocka_unit_test(a_process_that_was_set_after_its_exec_is_read_again),
		cmocka_unit_test(samples_are_counted_by_end),
		cmocka_unit_test(a_table_over_the_limit_is_the_reason_of_a_cut_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
