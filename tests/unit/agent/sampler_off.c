/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps: one sample from the stack at the start and the time of the end, in parts if windows end meanwhile.
 */
#include "test.h"

#include <stdlib.h>
#include "agent/sampler.h"
#include "sampler_mem.h"

#define CODE     UINT64_C(0x100000)
#define START_NS start_ns

static int64_t start_ns; /* of the sleeps of a test */

struct seen_sleep {
	size_t n, n_user, n_kernel;
	int64_t off_ns, sum_ns;
	enum sampler_end end;
	bool preempted;
};

static void note_sleep(void *ctx, const struct sampler_sample *s)
{
	struct seen_sleep *seen = ctx;

	seen->n++;
	seen->n_user = s->n_user;
	seen->n_kernel = s->n_kernel;
	seen->off_ns = s->off_ns;
	seen->sum_ns += s->off_ns;
	seen->end = s->end;
	seen->preempted = s->preempted;
	assert_null(s->raw);
}

static struct seen_sleep poll_sleeps(struct sampler *s)
{
	struct seen_sleep seen = { 0 };
	struct sampler_handler h = { note_sleep, NULL, &seen };

	assert_int_equal(sampler_poll(s, 0, &h, NULL), 0);
	return seen;
}

static struct seen_sleep end_window(struct sampler *s)
{
	struct seen_sleep seen = { 0 };
	struct sampler_handler h = { note_sleep, NULL, &seen };

	sampler_asleep(s, &h);
	return seen;
}

static struct sampler *new_sampler(void)
{
	start_ns = clock_mono_ns();
	return sampler_mem_new(&(struct sampler_options){ .off_cpu = true, .hold_ms = 500 });
}

static void put_sleep(struct sampler *s, uint32_t task, uint32_t weight, const struct sampler_raw *raw)
{
	static const struct sampler_frame user[] = { { CODE, 1, true }, { CODE + 9, 1, false } };
	static const uint64_t kernel[] = { UINT64_MAX - 9 };

	sampler_mem_sample(s, &(struct sampler_sample){ .pid = 7,
							.tid = 8,
							.time_ns = START_NS,
							.sleeper = task,
							.weight = weight,
							.user = user,
							.n_user = raw ? 0 : 2,
							.kernel = kernel,
							.n_kernel = 1,
							.preempted = true,
							.end = raw ? SAMPLER_NO_PROCESS : SAMPLER_COMPLETE,
							.raw = raw });
}

static void a_sleep_is_one_sample_at_its_end(void **state)
{
	struct sampler *s = new_sampler();
	struct seen_sleep seen;
	struct sampler_handler h = { note_sleep, NULL, &seen };
	struct sampler_stats stats;

	put_sleep(s, 8, 4, NULL);
	assert_int_equal(poll_sleeps(s).n, 0);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 1);
	assert_int_equal(stats.samples, 0);
	seen = (struct seen_sleep){ 0 };
	s->handler = &h;
	/* The end of another sleep of the thread. */
	sampler_sleep_ended(s, 8, START_NS + 1, START_NS + 300);
	assert_int_equal(seen.n, 0);
	sampler_sleep_ended(s, 8, START_NS, START_NS + 300);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.off_ns, 4 * 300);
	assert_int_equal(seen.n_user, 2);
	assert_int_equal(seen.n_kernel, 1);
	assert_true(seen.preempted);
	sampler_sleep_ended(s, 8, START_NS, START_NS + 300);
	assert_int_equal(seen.n, 1);
	s->handler = NULL;
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 0);
	assert_int_equal(stats.samples, 1);
	sampler_close(s);
}

static void windows_have_the_parts_of_a_long_sleep(void **state)
{
	struct seen_sleep seen = { 0 };
	struct sampler_handler h = { note_sleep, NULL, &seen };
	struct sampler *s;

	clock_test_freeze(1000);
	s = new_sampler();
	put_sleep(s, 8, 1, NULL);
	poll_sleeps(s);
	clock_test_advance(10000);
	assert_int_equal(end_window(s).off_ns, INT64_C(10000000000));
	clock_test_advance(10000);
	assert_int_equal(end_window(s).off_ns, INT64_C(10000000000));
	s->handler = &h;
	sampler_sleep_ended(s, 8, START_NS, START_NS + INT64_C(20000000005));
	assert_int_equal(seen.off_ns, 5);
	s->handler = NULL;
	assert_int_equal(end_window(s).n, 0);
	clock_test_thaw();
	sampler_close(s);
}

static void a_sleep_whose_end_was_lost_does_not_grow(void **state)
{
	struct sampler *s = new_sampler();
	struct sampler_stats stats;

	clock_test_freeze(1000);
	put_sleep(s, 8, 1, NULL);
	poll_sleeps(s);
	clock_test_advance(10);
	sampler_mem_awake(s);
	/* Its record may be under way; a window later it is not. */
	assert_int_equal(end_window(s).n, 0);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 1);
	assert_int_equal(end_window(s).n, 0);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 0);
	assert_int_equal(stats.lost_sleeps, 1);
	/* The thread sleeps again, and the sleep before had no end either. */
	put_sleep(s, 9, 1, NULL);
	put_sleep(s, 9, 1, NULL);
	poll_sleeps(s);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 1);
	assert_int_equal(stats.lost_sleeps, 2);
	clock_test_thaw();
	sampler_close(s);
}

static void a_sleep_waits_for_its_process(void **state)
{
	const struct sampler_mapping code = { CODE, CODE + 0x10000, 0, SAMPLER_NO_FILE };
	const struct sampler_raw raw = { .ip = CODE + 1 };
	struct sampler *s = new_sampler();
	struct seen_sleep seen;

	clock_test_freeze(1000);
	put_sleep(s, 8, 2, &raw);
	assert_int_equal(poll_sleeps(s).n, 0);
	/* Its stack is not known: it has no part yet. */
	assert_int_equal(end_window(s).n, 0);
	clock_test_advance(1);
	sampler_sleep_ended(s, 8, START_NS, START_NS + 50);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	seen = poll_sleeps(s);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.n_user, 1);
	assert_int_equal(seen.off_ns, 100);
	assert_int_equal(seen.end, SAMPLER_FRAME_END);
	clock_test_thaw();
	sampler_close(s);
}

static void sleeps_that_wait_for_their_process_are_not_lost_to_later_ones(void **state)
{
	const struct sampler_mapping code = { CODE, CODE + 0x10000, 0, SAMPLER_NO_FILE };
	const struct sampler_raw raw = { .ip = CODE + 1 };
	struct sampler *s = new_sampler();
	struct sampler_stats stats;
	struct seen_sleep seen;

	clock_test_freeze(1000);
	for (unsigned i = 0; i < 5; i++) {
		put_sleep(s, 8, 1, &raw);
		assert_int_equal(poll_sleeps(s).n, 0);
		sampler_sleep_ended(s, 8, START_NS, START_NS + 100);
		start_ns += 1000;
	}
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 5);
	clock_test_advance(1);
	assert_int_equal(sampler_process_set(s, &(struct sampler_owner){ 7, 0, 0 }, &code, 1, NULL), 0);
	seen = poll_sleeps(s);
	assert_int_equal(seen.n, 5);
	assert_int_equal(seen.sum_ns, 500);
	sampler_stats(s, &stats);
	assert_int_equal(stats.n_asleep, 0);
	assert_int_equal(stats.lost_sleeps, 0);
	/* One is over, and waits, at the end. */
	put_sleep(s, 8, 1, &(struct sampler_raw){ .ip = 1 });
	poll_sleeps(s);
	sampler_sleep_ended(s, 8, START_NS, START_NS + 100);
	clock_test_thaw();
	sampler_close(s);
}

static void closing_drops_sleeps(void **state)
{
	const struct sampler_raw raw = { .ip = CODE + 1 };
	struct sampler *s = new_sampler();

	put_sleep(s, 8, 1, NULL);
	put_sleep(s, 9, 1, &raw);
	poll_sleeps(s);
	sampler_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sleep_is_one_sample_at_its_end),
		cmocka_unit_test(windows_have_the_parts_of_a_long_sleep),
		cmocka_unit_test(a_sleep_whose_end_was_lost_does_not_grow),
		cmocka_unit_test(a_sleep_waits_for_its_process),
		cmocka_unit_test(sleeps_that_wait_for_their_process_are_not_lost_to_later_ones),
		cmocka_unit_test(closing_drops_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
