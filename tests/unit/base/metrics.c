/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics, by their written output.
 */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* The registry is the process's: each test here has names of its own, and they add up in the output. */
static const struct metric_family requests = {
	.name = "test_requests_total",
	.help = "Requests \\ by code.\nSecond line.",
	.type = METRIC_COUNTER,
	.labels = "code,type",
};
static const struct metric_family depth = { "test_depth", "Depth.", METRIC_GAUGE, "", NULL };
static const double bounds[] = { 0.005, 0.1, 2.5, 1000000, 0 };
static const struct metric_family seconds = { "test_seconds", "Seconds.", METRIC_HISTOGRAM, "route", bounds };
static const struct metric_family plain = { "test_plain_seconds", "Plain.", METRIC_HISTOGRAM, "", bounds };
static const struct metric_family unused = { "test_unused", "Never asked for.", METRIC_GAUGE, "", NULL };

static void assert_written(const char *want)
{
	AUTO(buf_done) struct buf b = { 0 };

	metrics_write(&b);
	if (!strstr(buf_cstr(&b), want))
		fail_msg("not there: <<%s>> in <<%s>>", want, buf_cstr(&b));
}

static void counters_by_label_values(void **state)
{
	struct metric *ok = metric_get(&requests, "200", "debuginfo");

	assert_ptr_equal(ok, metric_get(&requests, "200", "debuginfo"));
	assert_ptr_not_equal(ok, metric_get(&requests, "200", "executable"));
	/* Values that would be one string if they were joined without a separator. */
	assert_ptr_not_equal(metric_get(&requests, "ab", "c"), metric_get(&requests, "a", "bc"));
	metric_add(ok, 5);
	metric_count(&requests, "200", "debuginfo");
	metric_count(&requests, "404", "a\"b\\c\nd");
	assert_int_equal(metric_value(ok), 6);
	assert_written("# HELP test_requests_total Requests \\\\ by code.\\nSecond line.\n"
		       "# TYPE test_requests_total counter\n"
		       "test_requests_total{code=\"200\",type=\"debuginfo\"} 6\n"
		       "test_requests_total{code=\"200\",type=\"executable\"} 0\n"
		       "test_requests_total{code=\"404\",type=\"a\\\"b\\\\c\\nd\"} 1\n"
		       "test_requests_total{code=\"a\",type=\"bc\"} 0\n"
		       "test_requests_total{code=\"ab\",type=\"c\"} 0\n");
}

static void gauges_go_both_ways(void **state)
{
	struct metric *m = metric_get(&depth);

	metric_set(m, 7);
	metric_add(m, -9);
	assert_written("# HELP test_depth Depth.\n# TYPE test_depth gauge\ntest_depth -2\n");
	metric_count(&depth);
	assert_int_equal(metric_value(m), -1);
}

static void histograms_count_up_to_each_bound(void **state)
{
	struct metric *m = metric_get(&seconds, "x");

	metric_observe(m, 0.005); /* a bound belongs to its bucket */
	metric_observe(m, 0.05);
	metric_observe(m, 0.06);
	metric_observe(m, 1e9);
	metric_observe(m, 0);
	assert_written("# TYPE test_seconds histogram\n"
		       "test_seconds_bucket{route=\"x\",le=\"0.005\"} 2\n"
		       "test_seconds_bucket{route=\"x\",le=\"0.1\"} 4\n"
		       "test_seconds_bucket{route=\"x\",le=\"2.5\"} 4\n"
		       "test_seconds_bucket{route=\"x\",le=\"1000000\"} 4\n"
		       "test_seconds_bucket{route=\"x\",le=\"+Inf\"} 5\n"
		       "test_seconds_sum{route=\"x\"} 1000000000.115\n"
		       "test_seconds_count{route=\"x\"} 5\n");
	/* A sum that needs more than fifteen digits. */
	metric_observe(metric_get(&seconds, "sum"), 0.1);
	metric_observe(metric_get(&seconds, "sum"), 0.2);
	assert_written("test_seconds_sum{route=\"sum\"} 0.30000000000000004\n");
	metric_get(&plain);
	assert_written("test_plain_seconds_bucket{le=\"+Inf\"} 0\n"
		       "test_plain_seconds_sum 0\n"
		       "test_plain_seconds_count 0\n");
}

static void families_are_sorted_and_described_once(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	char last[256] = "";
	struct str rest;

	metric_get(&seconds, "a");
	metrics_write(&b);
	rest = buf_str(&b);
	while (rest.size) {
		struct str line = str_cut(&rest, '\n');
		char name[256];

		if (!str_starts(line, STR("# TYPE ")))
			continue;
		assert_int_equal(sscanf(line.p, "# TYPE %255s", name), 1);
		assert_true(strcmp(last, name) < 0);
		strcpy(last, name);
	}
	assert_null(strstr(buf_cstr(&b), unused.name));
	assert_int_equal(b.p[b.size - 1], '\n');
}

static void set_depth(void *arg)
{
	/* The registry's lock is not held: looking up and creating series is allowed here. */
	metric_set(metric_get(&depth), *(int *)arg);
}

static void callbacks_run_before_writing(void **state)
{
	int value = 42;

	metrics_on_collect(set_depth, &value);
	assert_written("test_depth 42\n");
	metrics_off_collect(set_depth, &value);
	value = 43;
	assert_written("test_depth 42\n");
	metrics_off_collect(set_depth, &value); /* not registered: no effect */
}

static void *count_a_lot(void *arg)
{
	struct metric *h = metric_get(&seconds, "threads");

	for (int i = 0; i < 5000; i++) {
		metric_count(&requests, "200", "threads");
		metric_observe(h, 0.5);
		if (i % 1000 == 0) {
			AUTO(buf_done) struct buf b = { 0 };

			metrics_write(&b);
		}
	}
	return NULL;
}

static atomic_bool stop;

static void *write_until_stopped(void *arg)
{
	while (!stop) {
		AUTO(buf_done) struct buf b = { 0 };

		metrics_write(&b);
	}
	return NULL;
}

static void nothing_is_lost_among_threads(void **state)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count_a_lot, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(metric_value(metric_get(&requests, "200", "threads")), 20000);
	assert_written("test_seconds_sum{route=\"threads\"} 10000\n"
		       "test_seconds_count{route=\"threads\"} 20000\n");
}

static void a_removed_callback_does_not_run(void **state)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, write_until_stopped, NULL), 0);
	for (int i = 0; i < 100; i++) {
		int *value = mem_alloc(sizeof(*value));

		*value = i;
		metrics_on_collect(set_depth, value);
		sched_yield();
		metrics_off_collect(set_depth, value);
		free(value); /* the sanitizers would notice a callback that still runs */
	}
	stop = true;
	pthread_join(t, NULL);
}

static struct queue *callback_runs, *callback_may_end;
static atomic_bool callback_ended;

static void run_until_told(void *arg)
{
	void *item;

	queue_push(callback_runs, arg);
	queue_pop(callback_may_end, -1, &item);
	sched_yield();
	callback_ended = true;
}

static void *write_once(void *arg)
{
	AUTO(buf_done) struct buf b = { 0 };

	metrics_write(&b);
	return NULL;
}

static void *let_it_end(void *arg)
{
	queue_push(callback_may_end, arg);
	return NULL;
}

static void removing_a_callback_waits_for_it(void **state)
{
	pthread_t writer, opener;
	int value = 0;
	void *item;

	callback_runs = queue_new(1);
	callback_may_end = queue_new(1);
	metrics_on_collect(run_until_told, &value);
	assert_int_equal(pthread_create(&writer, NULL, write_once, NULL), 0);
	assert_int_equal(queue_pop(callback_runs, -1, &item), 0);
	assert_int_equal(pthread_create(&opener, NULL, let_it_end, &value), 0);
	metrics_off_collect(run_until_told, &value);
	assert_true(callback_ended);
	pthread_join(writer, NULL);
	pthread_join(opener, NULL);
	queue_free(callback_runs);
	queue_free(callback_may_end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_by_label_values),
		cmocka_unit_test(gauges_go_both_ways),
		cmocka_unit_test(histograms_count_up_to_each_bound),
		cmocka_unit_test(families_are_sorted_and_described_once),
		cmocka_unit_test(callbacks_run_before_writing),
		cmocka_unit_test(nothing_is_lost_among_threads),
		cmocka_unit_test(removing_a_callback_waits_for_it),
		cmocka_unit_test(a_removed_callback_does_not_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
