/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While other servers do not answer, the files that are here name what they can.
 */
#include "test.h"

#include "tables_fixture.h"

static void wait_for_server(struct tables_fixture *p, enum resolve_kind kind, uint32_t n)
{
	struct build_id id = tables_fixture_id(n);

	resolve_mem_put_waiting(p->r, kind, &id, STR(""));
}

static void renew_one(struct tables_fixture *p, uint32_t n)
{
	struct build_id id = tables_fixture_id(n);

	tables_renew(p->s, &id, false, NULL, NULL);
}

/* The answer to a request with these flags, which waits for @ms at most. *ret: the state of its table. */
static const char *ask_with(struct tables_fixture *p, uint32_t n, unsigned flags, int64_t ms,
			    struct tables_module *ret)
{
	struct build_id id = tables_fixture_id(n);
	struct tables_query q = { .addr = 0x1000 };
	struct tables_request *req;
	struct tables_answer a;

	tables_request_new(p->s, &id, 1, flags, (struct tables_wait){ clock_mono_ms() + ms, NULL, NULL },
			   &req);
	tables_find(req, &q, &a);
	p->text.size = 0;
	tables_fixture_answer_text(&a, &p->text);
	tables_request_module(req, 0, ret);
	tables_request_free(req);
	return buf_cstr(&p->text);
}

#define LONG_MS  60000
#define LOCAL_MS 100

static void local_fixture_open(struct tables_fixture *p, bool store)
{
	tables_fixture_open(p, store);
	p->opts.local_ms = LOCAL_MS;
	tables_fixture_reopen(p);
}

static void an_early_request_has_the_symbols_and_a_later_one_the_debug_file(void **state)
{
	const int64_t from_ms = clock_mono_ms();
	struct tables_module m;
	struct tables_fixture p;

	local_fixture_open(&p, true);
	tables_fixture_put_program(&p, 1, true);
	wait_for_server(&p, RESOLVE_DEBUGINFO, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_EARLY | TABLES_FRESH | TABLES_LAYOUTS, LONG_MS, &m), "s1");
	assert_true(m.lacking && m.due && m.layout_known);
	/* A better table may come: an address outside of the symbols is not without debug information yet. */
	assert_int_equal(m.no_debug, FRAME_PENDING);
	/* It is there at once now, */
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x2000), "pending");
	/* but not for a request that found it there, and wants the best. */
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_EARLY | TABLES_FRESH | TABLES_LAYOUTS, LONG_MS, &m),
			    "f1 /src/a.c:10");
	assert_false(m.due);
	assert_true(clock_mono_ms() < from_ms + LONG_MS);
	tables_fixture_close(&p);
}

static void at_its_deadline_a_request_has_them_too(void **state)
{
	struct tables_module m;
	struct tables_fixture p;

	local_fixture_open(&p, false);
	tables_fixture_put_program(&p, 1, true);
	wait_for_server(&p, RESOLVE_DEBUGINFO, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_UNSCANNED, LOCAL_MS * 4, &m), "s1");
	/* The server has none: the table of the files here stays. */
	wait_for_server(&p, RESOLVE_DEBUGINFO, 2);
	assert_string_equal(ask_with(&p, 2, 0, 10, &m), "pending");
	tables_fixture_close(&p);
}

static void a_layout_waits_no_longer_for_the_program_than_a_table(void **state)
{
	struct tables_module m;
	struct tables_fixture p;

	local_fixture_open(&p, false);
	tables_fixture_put_debug(&p, 1);
	wait_for_server(&p, RESOLVE_EXECUTABLE, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_EARLY | TABLES_FRESH | TABLES_LAYOUTS, LONG_MS, &m),
			    "f1 /src/a.c:10");
	assert_true(m.layout && m.layout_due);
	tables_fixture_put_program(&p, 1, false);
	(void)ask_with(&p, 1, TABLES_EARLY | TABLES_FRESH | TABLES_LAYOUTS, LONG_MS, &m);
	assert_true(m.layout && !m.layout_due);
	tables_fixture_close(&p);
}

static void a_pushed_file_ends_the_wait(void **state)
{
	struct tables_module m;
	struct tables_fixture p;

	local_fixture_open(&p, true);
	wait_for_server(&p, RESOLVE_DEBUGINFO, 1);
	wait_for_server(&p, RESOLVE_EXECUTABLE, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_LAYOUTS, 10, &m), "pending");
	tables_fixture_put_debug(&p, 1);
	renew_one(&p, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_EARLY | TABLES_FRESH | TABLES_LAYOUTS, LONG_MS, &m),
			    "f1 /src/a.c:10");
	assert_true(m.layout != NULL);
	tables_fixture_close(&p);
}

static void an_end_while_servers_are_asked_leaves_nothing(void **state)
{
	struct tables_fixture p;
	struct tables_module m;

	local_fixture_open(&p, false);
	for (uint32_t n = 1; n < 20; n++) {
		tables_fixture_put_program(&p, n, true);
		wait_for_server(&p, RESOLVE_DEBUGINFO, n);
		assert_string_equal(ask_with(&p, n, 0, n == 19 ? LOCAL_MS - 5 : 0, &m), "pending");
	}
	tables_fixture_close(&p);
}

/* The server is not asked any more, since too many requests wait: what the files here name stays. */
static struct {
	struct resolver_ops ops;
	const struct resolver_ops *real;
	bool busy;
} crowded;

static int resolve_crowded(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
			   struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	if (crowded.busy && req->kind == RESOLVE_DEBUGINFO && !req->not_further)
		return RESOLVE_BUSY;
	return crowded.real->resolve(r, req, wake, ret, why, err);
}

static void a_build_that_ends_busy_keeps_the_table_of_the_files_here(void **state)
{
	struct tables_module m;
	struct tables_fixture p;

	local_fixture_open(&p, false);
	crowded.real = p.r->ops;
	crowded.ops = *p.r->ops;
	crowded.ops.resolve = resolve_crowded;
	p.r->ops = &crowded.ops;
	tables_fixture_put_program(&p, 1, true);
	wait_for_server(&p, RESOLVE_DEBUGINFO, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_EARLY | TABLES_FRESH, LONG_MS, &m), "s1");
	crowded.busy = true;
	tables_fixture_put_debug(&p, 1);
	assert_string_equal(ask_with(&p, 1, TABLES_FRESH, LONG_MS, &m), "s1");
	assert_true(m.lacking);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "s1");
	assert_string_equal(tables_fixture_ask(&p, 1, 0x2000), "pending");
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_early_request_has_the_symbols_and_a_later_one_the_debug_file),
		cmocka_unit_test(at_its_deadline_a_request_has_them_too),
		cmocka_unit_test(a_layout_waits_no_longer_for_the_program_than_a_table),
		cmocka_unit_test(a_pushed_file_ends_the_wait),
		cmocka_unit_test(an_end_while_servers_are_asked_leaves_nothing),
		cmocka_unit_test(a_build_that_ends_busy_keeps_the_table_of_the_files_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
