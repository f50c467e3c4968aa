/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is missing may be in a package that is still being scanned: a request that asks for it waits
 * for the scan, others do not.
 */
#include "test.h"

#include <semaphore.h>
#include <time.h>
#include "tables_fixture.h"

struct patient {
	struct tables_request *request;
	sem_t ready;
	bool waits, has_layout;
};

static void on_ready(void *arg)
{
	sem_post(&((struct patient *)arg)->ready);
}

static void wait_begin(struct patient *t, struct tables_fixture *p, uint32_t n, unsigned flags,
		       int64_t deadline_ms)
{
	/* Twice: both waiters must be completed. */
	struct build_id ids[2] = { tables_fixture_id(n), tables_fixture_id(n) };

	sem_init(&t->ready, 0, 0);
	t->waits = tables_request_new(p->s, ids, 2, TABLES_UNSCANNED | flags,
				      (struct tables_wait){ deadline_ms, on_ready, t },
				      &t->request) == TABLES_WAITS;
}

static const char *wait_end(struct patient *t, struct tables_fixture *p)
{
	struct tables_module m;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 60;
	if (t->waits)
		assert_int_equal(sem_timedwait(&t->ready, &end), 0);
	p->text.size = 0;
	for (size_t i = 0; i < 2; i++) {
		struct tables_query q = { .module = i, .addr = 0x1000 };
		struct tables_answer a;

		tables_find(t->request, &q, &a);
		buf_add_str(&p->text, i ? STR(", ") : STR(""));
		tables_fixture_answer_text(&a, &p->text);
	}
	tables_request_module(t->request, 0, &m);
	t->has_layout = m.layout != NULL;
	tables_request_free(t->request);
	sem_destroy(&t->ready);
	return buf_cstr(&p->text);
}

static void renew(struct tables_fixture *p, uint32_t n)
{
	struct build_id id = tables_fixture_id(n);

	tables_renew(p->s, &id, false, NULL, NULL);
}

#define FAR (clock_mono_ms() + 60000)

static void a_file_scanned_before_the_deadline_is_in_the_answer(void **state)
{
	struct patient t;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	resolve_mem_set_unfinished(p.r, true);
	wait_begin(&t, &p, 1, 0, FAR);
	assert_true(t.waits);
	tables_fixture_put_debug(&p, 1);
	renew(&p, 1);
	assert_string_equal(wait_end(&t, &p), "f1 /src/a.c:10, f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void so_is_how_it_lies_in_memory(void **state)
{
	struct patient t;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	resolve_mem_set_unfinished(p.r, true);
	wait_begin(&t, &p, 1, TABLES_LAYOUTS, FAR);
	/* Known to be missing, for a moment. */
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	tables_fixture_put_debug(&p, 1);
	renew(&p, 1);
	assert_string_equal(wait_end(&t, &p), "f1 /src/a.c:10, f1 /src/a.c:10");
	assert_true(t.has_layout);
	tables_fixture_close(&p);
}

static void until_the_deadline_it_is_pending(void **state)
{
	struct patient t;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	resolve_mem_set_unfinished(p.r, true);
	wait_begin(&t, &p, 1, 0, 0);
	assert_false(t.waits);
	assert_string_equal(wait_end(&t, &p), "pending, pending");
	wait_begin(&t, &p, 1, 0, clock_mono_ms() + 50);
	assert_string_equal(wait_end(&t, &p), "pending, pending");
	/* No request waits for it any more; the build ends, or finds the file. */
	wait_begin(&t, &p, 1, 0, FAR);
	tables_fixture_put_debug(&p, 1);
	renew(&p, 1);
	assert_string_equal(wait_end(&t, &p), "f1 /src/a.c:10, f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void wait_for_no_flights(struct tables_fixture *p)
{
	struct tables_stats stats;
	int64_t end = FAR;

	for (;;) {
		tables_stats(p->s, &stats);
		if (!stats.n_builds)
			break;
		assert_true(clock_mono_ms() < end);
		usleep(1000);
	}
}

static void when_all_is_scanned_nobody_waits_on(void **state)
{
	struct patient a, b;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	resolve_mem_set_unfinished(p.r, true);
	wait_begin(&a, &p, 1, 0, FAR);
	wait_begin(&b, &p, 2, 0, FAR);
	/* Without a renewal, but the build looks once more at the end of the scan. */
	tables_fixture_put_debug(&p, 2);
	resolve_mem_set_unfinished(p.r, false);
	assert_string_equal(wait_end(&a, &p), "unknown, unknown");
	assert_string_equal(wait_end(&b, &p), "f2 /src/a.c:10, f2 /src/a.c:10");
	wait_begin(&a, &p, 3, 0, FAR);
	assert_string_equal(wait_end(&a, &p), "unknown, unknown");
	wait_for_no_flights(&p);
	tables_fixture_close(&p);
}

static void a_request_without_the_flag_does_not_wait_for_the_scan(void **state)
{
	struct patient t;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	resolve_mem_set_unfinished(p.r, true);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	wait_begin(&t, &p, 1, 0, FAR);
	assert_true(t.waits);
	/* Beside a request that waits. */
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "unknown");
	resolve_mem_set_unfinished(p.r, false);
	assert_string_equal(wait_end(&t, &p), "unknown, unknown");
	tables_fixture_close(&p);
}

/* They end when no request waits: a file known to be missing has no build for as long as a scan runs. */
static void a_search_ends_with_its_last_request(void **state)
{
	struct patient t;
	struct tables_fixture p;

	tables_fixture_open(&p, false);
	resolve_mem_set_unfinished(p.r, true);
	wait_begin(&t, &p, 1, TABLES_LAYOUTS, clock_mono_ms() + 20);
	assert_string_equal(wait_end(&t, &p), "pending, pending");
	wait_for_no_flights(&p);
	/* Also by the end of the service. */
	wait_begin(&t, &p, 2, 0, FAR);
	tables_stop(p.s);
	assert_string_equal(wait_end(&t, &p), "pending, pending");
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_scanned_before_the_deadline_is_in_the_answer),
		cmocka_unit_test(so_is_how_it_lies_in_memory),
		cmocka_unit_test(until_the_deadline_it_is_pending),
		cmocka_unit_test(when_all_is_scanned_nobody_waits_on),
		cmocka_unit_test(a_request_without_the_flag_does_not_wait_for_the_scan),
		cmocka_unit_test(a_search_ends_with_its_last_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
