/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that were taken before their process was set. The stack is a chain of frame pointers in anonymous code, so that no
 * table is needed.
 */
#include "test.h"

#include <stdlib.h>
#include "agent/sampler.h"
#include "sampler_mem.h"

#define STACK UINT64_C(0x7000)
#define CODE  UINT64_C(0x100000)

static const struct sampler_mapping code = { CODE, CODE + 0x10000, 0, SAMPLER_NO_FILE };

/* Three frames: at CODE + 1, called from CODE + 0x100 and CODE + 0x200. */
static const uint64_t stack_words[] = { 0, STACK + 32, CODE + 0x100, 0, 0, CODE + 0x200 };

struct seen {
	size_t n, n_events, n_user;
	enum sampler_end end;
	bool held;
	enum sampler_event_kind event;
	uint64_t addr;
	uint64_t last;
};

static void note_sample(void *ctx, const struct sampler_sample *s)
{
	struct seen *seen = ctx;

	seen->n++;
	seen->n_user = s->n_user;
	seen->end = s->end;
	seen->held = s->held;
	seen->last = s->n_user ? s->user[s->n_user - 1].addr : 0;
	assert_null(s->raw);
}

static void note_told(void *ctx, const struct sampler_event *e)
{
	struct seen *seen = ctx;

	seen->n_events++;
	seen->event = e->kind;
	seen->addr = e->addr;
}

static struct seen poll_once(struct sampler *s)
{
	struct seen seen = { 0 };
	struct sampler_handler h = { note_sample, note_told, &seen };

	assert_int_equal(sampler_poll(s, 0, &h, NULL), 0);
	return seen;
}

static void put_sample(struct sampler *s, size_t stack_size, bool not_set)
{
	struct sampler_raw raw = { .ip = CODE + 1, .stack = bytes_of(stack_words, stack_size) };

	raw.regs[7] = STACK;
	raw.regs[6] = STACK + 8;
	sampler_mem_sample(s, &(struct sampler_sample){ .pid = 7,
							.time_ns = clock_mono_ns(),
							.end = SAMPLER_NO_PROCESS,
							.not_set = not_set,
							.raw = &raw });
}

static void put_raw_sample(struct sampler *s, size_t stack_size)
{
	put_sample(s, stack_size, false);
}

static void a_sample_waits_for_its_process(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_stats stats;
	struct seen seen;

	clock_test_freeze(1000);
	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	sampler_stats(s, &stats);
	assert_true(stats.held_bytes > sizeof(stack_words));
	clock_test_advance(1);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	assert_int_equal(seen.end, SAMPLER_FRAME_END);
	assert_int_equal(seen.last, CODE + 0x200 - 1);
	assert_true(seen.held);
	sampler_stats(s, &stats);
	assert_int_equal(stats.held_bytes, 0);
	/* The next one need not wait. */
	put_raw_sample(s, sizeof(stack_words));
	seen = poll_once(s);
	assert_int_equal(seen.n_user, 3);
	assert_false(seen.held);
	clock_test_thaw();
	sampler_close(s);
}

static void a_process_that_never_comes(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_ms = 500 });
	struct seen seen;

	clock_test_freeze(1000);
	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	clock_test_advance(499);
	assert_int_equal(poll_once(s).n, 0);
	clock_test_advance(1);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.end, SAMPLER_NO_PROCESS);
	clock_test_thaw();
	sampler_close(s);
}

static void a_process_that_ended_after_it_was_set(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct seen seen;

	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	sampler_process_drop(s, 7);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	sampler_close(s);
}

static void another_process_with_the_same_number(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_ms = 1 });
	struct sampler_raw raw = { .ip = CODE + 1 };
	struct seen seen;

	clock_test_freeze(1000);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 55, 0 }, &code, 1, NULL), 0);
	sampler_mem_sample(s, &(struct sampler_sample){
				      .pid = 7, .start_ticks = 66, .end = SAMPLER_NO_PROCESS, .raw = &raw });
	assert_int_equal(poll_once(s).n, 0);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 55, 0 }, &code, 1, NULL), 0);
	clock_test_advance(1);
	seen = poll_once(s);
	assert_int_equal(seen.end, SAMPLER_NO_PROCESS);
	clock_test_thaw();
	sampler_close(s);
}

static void another_program_at_the_same_addresses(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_ms = 500 });
	struct sampler_event exec = { .kind = SAMPLER_EXEC, .pid = 7 };
	struct seen seen;

	clock_test_freeze(1000);
	put_raw_sample(s, sizeof(stack_words));
	clock_test_advance(1);
	exec.time_ns = clock_mono_ns();
	sampler_mem_event(s, &exec);
	poll_once(s);
	clock_test_advance(1);
	put_raw_sample(s, sizeof(stack_words));
	/* The mappings are of the second program: only its sample is walked with them. */
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	clock_test_advance(500);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.end, SAMPLER_NO_PROCESS);
	clock_test_thaw();
	sampler_close(s);
}

/* The kernel has dropped the mappings that were set, and its event of that has not come yet. */
static void another_program_whose_event_is_under_way(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_ms = 500 });
	struct seen seen;

	clock_test_freeze(1000);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	clock_test_advance(1);
	put_sample(s, sizeof(stack_words), true);
	assert_int_equal(poll_once(s).n, 0);
	clock_test_advance(1);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	clock_test_thaw();
	sampler_close(s);
}

/* Before its first exec it was a copy of the process that started it. */
static void a_sample_of_before_the_first_exec(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_ms = 500 });
	struct sampler_owner of = { .pid = 7, .has_ended = true, .copy_of = 6 }, starter = { .pid = 6 };
	struct seen seen;

	clock_test_freeze(1000);
	assert_int_equal(sampler_process_set(s, &starter, &code, 1, NULL), 0);
	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	clock_test_advance(1);
	of.from_ns = clock_mono_ns();
	assert_int_equal(sampler_process_set(s, &of, NULL, 0, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	/* One that has run another program since has no mappings of then. */
	sampler_process_drop(s, 7);
	put_raw_sample(s, sizeof(stack_words));
	clock_test_advance(1);
	sampler_mem_event(
		s, &(struct sampler_event){ .kind = SAMPLER_EXEC, .pid = 6, .time_ns = clock_mono_ns() });
	assert_int_equal(poll_once(s).n, 0);
	assert_int_equal(sampler_process_set(s, &starter, &code, 1, NULL), 0);
	of.from_ns = clock_mono_ns();
	assert_int_equal(sampler_process_set(s, &of, NULL, 0, NULL), 0);
	assert_int_equal(poll_once(s).n, 0);
	clock_test_thaw();
	sampler_close(s);
}

static void an_ended_process_between_two_programs(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_ms = 500 });
	struct sampler_owner of = { .pid = 7, .has_ended = true, .copy_of = 6 }, starter = { .pid = 6 };
	struct seen seen;

	clock_test_freeze(1000);
	/* Only before the first exec its mappings were those of the process that started it. */
	assert_int_equal(sampler_process_set(s, &starter, &code, 1, NULL), 0);
	of.from_ns = clock_mono_ns();
	put_raw_sample(s, sizeof(stack_words));
	clock_test_advance(1);
	of.until_ns = clock_mono_ns();
	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	assert_int_equal(sampler_process_set(s, &of, &code, 1, NULL), 0);
	/* The mappings of the other program are asked for. */
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	assert_int_equal(seen.n_events, 1);
	assert_int_equal(seen.event, SAMPLER_NEW);
	clock_test_thaw();
	sampler_close(s);
}

static void unmapped_before_and_after_the_maps_were_read(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_mapping other = { CODE + 0x10000, CODE + 0x20000, 0, SAMPLER_NO_FILE };
	struct seen seen;

	s->tells_unknown = true;
	clock_test_freeze(1000);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &other, 1, NULL), 0);
	clock_test_advance(1);
	put_raw_sample(s, sizeof(stack_words));
	seen = poll_once(s);
	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.n_events, 1);
	assert_int_equal(seen.event, SAMPLER_UNMAPPED);
	assert_int_equal(seen.addr, CODE + 1);
	/* Mappings that are set later, but were read before, do not decide. */
	clock_test_advance(1);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 1000 * INT64_C(1000000) },
					     &other, 1, NULL),
			 0);
	assert_int_equal(poll_once(s).n, 0);
	/* They are asked for again: it was mapped after the first event had been answered. */
	assert_int_equal(poll_once(s).n_events, 0);
	clock_test_advance(20);
	put_raw_sample(s, sizeof(stack_words));
	seen = poll_once(s);
	assert_int_equal(seen.n_events, 1);
	assert_int_equal(seen.event, SAMPLER_UNMAPPED);
	/* Mappings that were read later do not have it either: it waits no longer. */
	clock_test_advance(1);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &other, 1, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.end, SAMPLER_NO_MAPPING);
	assert_int_equal(seen.n_user, 1);
	clock_test_thaw();
	sampler_close(s);
}

static void set_on_event(void *ctx, const struct sampler_event *e)
{
	if (e->kind == SAMPLER_UNMAPPED)
		assert_int_equal(
			sampler_process_set(ctx, &(struct sampler_owner){ e->pid, 0, 0 }, &code, 1, NULL), 0);
}

/* As of a process that may be read at once when a sample that waits is not in the mappings that were read last. */
static void a_process_that_is_set_while_a_sample_is_tried(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_handler sets = { .event = set_on_event, .ctx = s };
	struct sampler_mapping other = { CODE + 0x10000, CODE + 0x20000, 0, SAMPLER_NO_FILE };
	struct seen seen;

	clock_test_freeze(1000);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &other, 1, NULL), 0);
	clock_test_advance(1);
	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(sampler_poll(s, 0, &sets, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	assert_int_equal(seen.end, SAMPLER_FRAME_END);
	clock_test_thaw();
	sampler_close(s);
}

static void a_table_that_comes_late(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct sampler_mapping m = code;
	struct seen seen;

	s->tells_unknown = true;
	assert_int_equal(sampler_file_new(s, &m.file, NULL), 0);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &m, 1, NULL), 0);
	put_raw_sample(s, sizeof(stack_words));
	seen = poll_once(s);
	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.event, SAMPLER_WANTED);
	assert_int_equal(sampler_file_table(s, m.file, (struct bytes){ 0 }, NULL), 0);
	seen = poll_once(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 3);
	sampler_close(s);
}

static void a_full_store_delivers_at_once(void **state)
{
	struct sampler *s = sampler_mem_new(&(struct sampler_options){ .hold_memory = 1 });
	struct sampler_stats stats;

	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 1);
	sampler_stats(s, &stats);
	assert_int_equal(stats.hold_full, 1);
	sampler_close(s);
}

static void a_copy_that_ends_too_early_says_so(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct seen seen;

	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	put_raw_sample(s, 24);
	seen = poll_once(s);
	assert_int_equal(seen.end, SAMPLER_TRUNCATED);
	assert_int_equal(seen.n_user, 2);
	sampler_close(s);
}

static void the_end_of_a_run_delivers_samples_that_wait(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);
	struct seen seen = { 0 };
	struct sampler_handler h = { note_sample, note_told, &seen };
	struct sampler_stats stats;

	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	sampler_flush(s, &h);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.end, SAMPLER_NO_PROCESS);
	sampler_stats(s, &stats);
	assert_int_equal(stats.samples, 1);
	assert_int_equal(stats.held_bytes, 0);
	sampler_close(s);
}

static void closing_drops_samples_that_wait(void **state)
{
	struct sampler *s = sampler_mem_new(NULL);

	put_raw_sample(s, sizeof(stack_words));
	assert_int_equal(poll_once(s).n, 0);
	sampler_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample_waits_for_its_process),
		cmocka_unit_test(a_process_that_never_comes),
		cmocka_unit_test(a_process_that_ended_after_it_was_set),
		cmocka_unit_test(another_process_with_the_same_number),
		cmocka_unit_test(another_program_at_the_same_addresses),
		cmocka_unit_test(another_program_whose_event_is_under_way),
		cmocka_unit_test(a_sample_of_before_the_first_exec),
		cmocka_unit_test(an_ended_process_between_two_programs),
		cmocka_unit_test(unmapped_before_and_after_the_maps_were_read),
		cmocka_unit_test(a_process_that_is_set_while_a_sample_is_tried),
		cmocka_unit_test(a_table_that_comes_late),
		cmocka_unit_test(a_full_store_delivers_at_once),
		cmocka_unit_test(a_copy_that_ends_too_early_says_so),
		cmocka_unit_test(the_end_of_a_run_delivers_samples_that_wait),
		cmocka_unit_test(closing_drops_samples_that_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
