/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for build IDs that no server has: the budget of a client, and that of all.
 */
#include "servers.h"

#include <errno.h>

static int ask_made_up(struct servers *h, uint32_t client, unsigned n, struct got *g)
{
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");

	req.client = client;
	for (unsigned i = 0; i < 4; i++)
		req.id.b[i] = (uint8_t)(n >> 8 * i);
	req.id.b[4] = (uint8_t)client;
	servers_ask(h, &req, g);
	return g->r;
}

/* How many of @n made-up build IDs are asked for. */
static unsigned flood(struct servers *h, uint32_t client, unsigned first, unsigned n)
{
	unsigned before = fault_http_requests(h->a, NULL), n_refused = 0;

	for (unsigned i = 0; i < n; i++) {
		struct got g;

		if (ask_made_up(h, client, first + i, &g) < 0) {
			assert_int_equal(g.err.kind, ERR_UPSTREAM);
			assert_int_equal(g.err.os, EBUSY);
			assert_non_null(strstr(g.err.text, "--upstream-misses"));
			n_refused++;
		} else {
			assert_int_equal(g.r, RESOLVE_MISSING);
		}
		got_done(&g);
	}
	assert_int_equal(fault_http_requests(h->a, NULL) - before, n - n_refused);
	return n - n_refused;
}

static void made_up_build_ids_use_up_a_budget(void **state)
{
	struct resolve_upstream_stats st;
	struct servers h;
	struct got g;

	clock_test_freeze(1000);
	h = servers_of_budget(rule_of(&program), rule_none, 20);
	/* The files that are there cost nothing. */
	fault_http_rules(h.a, &rule_none, 1);
	assert_int_equal(flood(&h, 7, 0, 100), 20);
	/* One client's flood is not another's, nor that of the symbol tables, of which naming has its own share. */
	assert_int_equal(flood(&h, 8, 0, 10), 10);
	assert_int_equal(flood(&h, RESOLVE_FOR_ADDRESSES, 0, 100), 4);
	assert_int_equal(flood(&h, RESOLVE_FOR_NAMING, 0, 100), 4);
	/* Those that were asked for are answered from the cache, and a refusal is not kept. */
	assert_int_equal(ask_made_up(&h, 7, 0, &g), RESOLVE_MISSING);
	got_done(&g);
	clock_test_advance(30000);
	assert_int_equal(flood(&h, 7, 20, 100), 10);
	/* All together get what four get. */
	clock_test_advance(60000);
	assert_int_equal(flood(&h, 11, 0, 100) + flood(&h, 12, 0, 100) + flood(&h, 13, 0, 100) +
				 flood(&h, 14, 0, 100) + flood(&h, 15, 0, 100),
			 80);
	resolve_upstream_stats(h.upstream, &st);
	assert_int_equal(st.n_over, 80 + 96 + 96 + 90 + 420);
	/* Clients that use up the common budget leave symbol tables theirs. */
	assert_int_equal(flood(&h, RESOLVE_FOR_NAMING, 100, 100), 4);
	assert_int_equal(flood(&h, RESOLVE_FOR_ADDRESSES, 100, 100), 4);
	assert_false(resolve_upstream_question(h.upstream, 16));
	clock_test_advance(60000);
	assert_true(resolve_upstream_question(h.upstream, 16));
	clock_test_thaw();
	servers_done(&h);
}

/* A client that asks every millisecond does not stop the refill, of its own budget and of that of all. */
static void a_budget_fills_however_often_it_is_asked(void **state)
{
	unsigned n = 0, n_naming = 0;
	struct servers h;

	clock_test_freeze(1000);
	h = servers_of_budget(rule_none, rule_none, 10);
	for (uint32_t client = 11; client <= 15; client++)
		while (resolve_upstream_question(h.upstream, client))
			n++;
	assert_int_equal(n, 40);
	while (resolve_upstream_question(h.upstream, RESOLVE_FOR_NAMING))
		n_naming++;
	assert_int_equal(n_naming, 2);
	n = n_naming = 0;
	for (unsigned ms = 0; ms < 60000; ms++) {
		clock_test_advance(1);
		n += resolve_upstream_question(h.upstream, 16);
		n_naming += resolve_upstream_question(h.upstream, RESOLVE_FOR_NAMING);
	}
	/* It began with a full bucket of its own, which could not be filled until the other one had a question. */
	assert_in_range(n, 19, 20);
	assert_int_equal(n_naming, 2);
	/* The rest of the common budget is there for others. */
	for (uint32_t client = 17; client <= 18; client++)
		while (resolve_upstream_question(h.upstream, client))
			n++;
	assert_in_range(n, 39, 40);
	clock_test_thaw();
	servers_done(&h);
}

static void clients_of_one_place_do_not_share_a_budget(void **state)
{
	struct servers h;

	clock_test_freeze(1000);
	h = servers_of_budget(rule_none, rule_none, 5);
	assert_int_equal(flood(&h, 7, 0, 20), 5);
	assert_int_equal(flood(&h, 7 + 4096, 1000, 20), 5);
	clock_test_thaw();
	servers_done(&h);
}

static void files_that_exist_cost_nothing(void **state)
{
	static const struct fault_rule there = { .path = "/", .status = 200 };
	struct fault_rule rule = there;
	struct servers h;
	struct got g;

	rule.body = bytes_of("int x;", 6);
	clock_test_freeze(1000);
	h = servers_of_budget(rule, rule_none, 2);
	for (unsigned i = 0; i < 20; i++) {
		char path[32];
		struct resolve_request req;

		snprintf(path, sizeof(path), "/src/%u.c", i);
		req = request_of(RESOLVE_SOURCE, ID, path);
		req.client = 5;
		servers_ask(&h, &req, &g);
		assert_int_equal(g.r, 0);
		assert_int_equal(got_read(&g, UINT64_MAX), 0);
		got_done(&g);
	}
	clock_test_thaw();
	servers_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_up_build_ids_use_up_a_budget),
		cmocka_unit_test(a_budget_fills_however_often_it_is_asked),
		cmocka_unit_test(clients_of_one_place_do_not_share_a_budget),
		cmocka_unit_test(files_that_exist_cost_nothing),
	};

	return cmocka_run_group_tests(tests, servers_make_files, servers_free_files);
}
