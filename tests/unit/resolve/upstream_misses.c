/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misses and failures of other servers: their reasons, and how long they are cached.
 */
#include "servers.h"

static void a_miss_of_all_is_remembered_with_its_reasons(void **state)
{
	struct resolve_request req = request_of(RESOLVE_SECTION, ID, ".debug_line");
	struct servers h = servers_of(rule_none, (struct fault_rule){ .status = 410 }, NULL);

	for (unsigned i = 0; i < 3; i++) {
		struct got g;

		servers_ask(&h, &req, &g);
		assert_int_equal(g.r, RESOLVE_MISSING);
		assert_string_equal(got_why(&g, fault_http_url(h.a)), "404");
		assert_string_equal(got_why(&g, fault_http_url(h.b)), "410");
		got_done(&g);
	}
	assert_int_equal(fault_http_requests(h.a, "/buildid/" ID "/section/.debug_line"), 1);
	servers_done(&h);
}

/* A miss is remembered for ten minutes, a failure for error_ms; then the servers may have it, or answer again. */
static void what_was_asked_in_vain_is_asked_again_later(void **state)
{
	const struct {
		struct fault_rule rule;
		int outcome;
		int64_t ms;
	} cases[] = { { rule_none, RESOLVE_MISSING, 600000 }, { { .status = 500 }, -1, LONG_MS } };
	const struct net_patience once = { .retries = UINT32_MAX };
	struct resolve_request req = request_of(RESOLVE_SECTION, ID, ".debug_line");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct servers h = servers_of(cases[i].rule, rule_none, &once);

		clock_test_freeze(1000);
		for (unsigned n = 1; n <= 3; n++) {
			/* The second answer is from the miss cache. */
			for (unsigned again = 0; again < 2; again++) {
				struct got g;

				servers_ask(&h, &req, &g);
				assert_int_equal(g.r, cases[i].outcome);
				got_done(&g);
				assert_int_equal(
					fault_http_requests(h.b, "/buildid/" ID "/section/.debug_line"), n);
				clock_test_advance(cases[i].ms / 2);
			}
		}
		clock_test_thaw();
		servers_done(&h);
	}
}

static void the_reason_for_a_miss_or_a_failure_is_a_value(void **state)
{
	static const char text[] = "plain text";
	const struct fault_rule text_file = { .body = bytes_of(text, sizeof(text) - 1) };
	const struct fault_rule bad = { .status = 500 }, silent = { .fault = FAULT_SILENT };
	const struct net_patience once = { .retries = UINT32_MAX, .silent_ms = 200 };
	const struct {
		const struct fault_rule *first;
		int outcome;
		enum resolve_reason reason;
	} cases[] = {
		{ &rule_none, RESOLVE_MISSING, RESOLVE_UPSTREAM_404 },
		{ &(struct fault_rule){ .status = 410 }, RESOLVE_MISSING, RESOLVE_UPSTREAM_404 },
		{ &bad, -1, RESOLVE_UPSTREAM_FAILED },
		{ &silent, -1, RESOLVE_UPSTREAM_TIMED_OUT },
		{ &text_file, -1, RESOLVE_UPSTREAM_NOT_ELF },
		{ &(struct fault_rule){ .body = buf_bytes(&other) }, -1, RESOLVE_UPSTREAM_UNUSABLE },
	};
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct servers h = servers_of(*cases[i].first, rule_none, &once);

		/* The second answer is from the miss cache. */
		for (unsigned again = 0; again < 2; again++) {
			struct got g;

			servers_ask(&h, &req, &g);
			assert_int_equal(g.r, cases[i].outcome);
			assert_int_equal(g.why.reason, cases[i].reason);
			if (g.r < 0)
				assert_int_equal(resolve_reason_of(&g.err), cases[i].reason);
			got_done(&g);
		}
		servers_done(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_miss_of_all_is_remembered_with_its_reasons),
		cmocka_unit_test(what_was_asked_in_vain_is_asked_again_later),
		cmocka_unit_test(the_reason_for_a_miss_or_a_failure_is_a_value),
	};

	return cmocka_run_group_tests(tests, servers_make_files, servers_free_files);
}
