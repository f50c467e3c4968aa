/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of other servers that are not the requested file, or not all of it.
 */
#include "servers.h"

static void a_file_of_another_build_id_is_not_believed(void **state)
{
	const struct buf *wrong[] = { &other, &other_module };
	const struct buf *right[] = { &program, &module };
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");

	for (unsigned i = 0; i < 2; i++) {
		struct servers h = servers_of(rule_of(wrong[i]), rule_of(right[i]), NULL);
		struct got g;

		servers_expect(&h, &req, buf_bytes(right[i]), RESOLVE_UPSTREAM);
		servers_done(&h);
		h = servers_of(rule_of(wrong[i]), rule_none, NULL);
		for (unsigned again = 0; again < 2; again++) {
			servers_ask(&h, &req, &g);
			assert_true(g.r < 0);
			assert_int_equal(g.err.kind, ERR_UPSTREAM);
			assert_non_null(strstr(g.err.text, "another build ID: " OTHER));
			got_done(&g);
		}
		/* It lies; asking again at once would not help. */
		assert_int_equal(fault_http_requests(h.a, NULL), 1);
		servers_done(&h);
	}
}

static void pages_and_cut_files_are_not_believed(void **state)
{
	static const char page[] = "<html>Log in, please</html>";
	const struct fault_rule bad[] = {
		{ .body = bytes_of(page, sizeof(page) - 1),
		  .headers = "Content-Type: text/html; charset=utf-8\r\n" },
		{ .body = bytes_of(page, sizeof(page) - 1) },
		/* of the announced size: its section table is missing */
		{ .body = bytes_of(program.p, 100000) },
		{ .body = bytes_of("", 0) },
		{ .status = 503 },
	};
	const struct net_patience once = { .retries = UINT32_MAX };
	struct resolve_request req = request_of(RESOLVE_EXECUTABLE, ID, "");

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct servers h = servers_of(bad[i], rule_none, &once);
		struct got g;

		servers_ask(&h, &req, &g);
		if (g.r >= 0) {
			/* Its first bytes were right, so they may have been given out; but it is not
			 * complete. */
			assert_int_equal(i, 2);
			assert_true(got_read(&g, UINT64_MAX) < 0);
		}
		got_done(&g);
		servers_done(&h);
	}
}

static void a_file_found_damaged_late_has_its_reason_as_a_value(void **state)
{
	/* Its section table is missing; its first bytes have been given out: the last 50 take a second. */
	const struct fault_rule cut = { .body = bytes_of(program.p, 100000),
					.fault = FAULT_DRIP,
					.at = 99950 };
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	struct servers h = servers_of(cut, rule_none, NULL);
	struct got g;

	servers_ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	assert_true(got_read(&g, UINT64_MAX) < 0);
	assert_int_equal(resolve_reason_of(&g.err), RESOLVE_UPSTREAM_UNUSABLE);
	got_done(&g);
	servers_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_another_build_id_is_not_believed),
		cmocka_unit_test(pages_and_cut_files_are_not_believed),
		cmocka_unit_test(a_file_found_damaged_late_has_its_reason_as_a_value),
	};

	return cmocka_run_group_tests(tests, servers_make_files, servers_free_files);
}
