/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other servers: their bytes on the way to requests, and into the store.
 */
#include "servers.h"

#include <pthread.h>

static void a_file_of_another_server_is_found_and_stored(void **state)
{
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	struct fault_rule rule = rule_of(&program);
	struct servers h;
	struct got first, g;

	rule.headers = "X-DEBUGINFOD-FILE: a.debug\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
	h = servers_of(rule_none, rule, NULL);
	servers_ask(&h, &req, &first);
	assert_int_equal(first.r, 0);
	assert_int_equal(got_read(&first, UINT64_MAX), 0);
	assert_true(bytes_eq(buf_bytes(&first.bytes), buf_bytes(&program)));
	assert_str(first.answer.file, "a.debug");
	assert_int_equal(first.answer.mtime, 784111777);
	servers_wait_stored(&h, 1);
	fault_http_rules(h.b, &rule_none, 1);
	servers_expect(&h, &req, buf_bytes(&program), RESOLVE_STORED);
	servers_ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	assert_true(g.answer.tag == first.answer.tag);
	assert_str(g.answer.file, "a.debug");
	got_done(&g);
	got_done(&first);
	assert_int_equal(fault_http_requests(h.a, NULL), 1);
	assert_int_equal(fault_http_requests(h.b, NULL), 1);
	servers_done(&h);
}

static void bytes_go_out_while_they_come_and_another_server_goes_on(void **state)
{
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	const struct net_patience patience = { .stall_ms = 50 };
	struct fault_rule stalls = rule_of(&program), silent = { .fault = FAULT_SILENT };
	struct servers h;
	struct got g;

	stalls.fault = FAULT_STALL;
	stalls.at = 200000;
	h = servers_of(stalls, silent, &patience);
	servers_ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	/* The first server has sent this much, and sends no more. */
	assert_int_equal(got_read(&g, 200000), 0);
	net_free(h.net);
	h.net = NULL;
	assert_true(got_read(&g, UINT64_MAX) < 0);
	got_done(&g);
	servers_done(&h);

	h = servers_of(stalls, rule_of(&program), &patience);
	servers_expect(&h, &req, buf_bytes(&program), RESOLVE_UPSTREAM);
	assert_int_equal(fault_http_requests(h.b, NULL), 1);
	servers_done(&h);
}

/* Bytes were given out when the second server is asked, and its file is another one. */
static void a_server_that_went_on_continues_after_another_file_was_refused(void **state)
{
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	/* Shorter than the time between two bytes of the first server. */
	const struct net_patience patience = { .stall_ms = 5 };
	struct fault_rule slow = rule_of(&program), next = rule_of(&longer);
	struct servers h;

	slow.fault = FAULT_DRIP;
	slow.at = program.size - 50;
	next.no_range = true;
	h = servers_of(slow, next, &patience);
	servers_expect(&h, &req, buf_bytes(&program), RESOLVE_UPSTREAM);
	assert_true(fault_http_requests(h.b, NULL) > 0);
	servers_done(&h);
}

struct asker {
	pthread_t thread;
	struct servers *h;
	bool right;
};

static void *one_asker(void *arg)
{
	struct asker *k = arg;
	struct resolve_request req = { .kind = RESOLVE_DEBUGINFO };
	struct got g;

	build_id_parse(&req.id, STR(ID));
	servers_ask(k->h, &req, &g);
	k->right = g.r == 0 && got_read(&g, UINT64_MAX) == 0 &&
		   bytes_eq(buf_bytes(&g.bytes), buf_bytes(&program));
	got_done(&g);
	return NULL;
}

static void many_requests_for_one_file_share_one_fetch(void **state)
{
	struct fault_rule slow = rule_of(&program);
	struct asker askers[16];
	struct servers h;

	slow.delay_ms = 100;
	h = servers_of(slow, rule_none, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(askers); i++) {
		askers[i] = (struct asker){ .h = &h };
		assert_int_equal(pthread_create(&askers[i].thread, NULL, one_asker, &askers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(askers); i++) {
		pthread_join(askers[i].thread, NULL);
		assert_true(askers[i].right);
	}
	assert_int_equal(fault_http_requests(h.a, NULL), 1);
	servers_done(&h);
}

static void a_fetch_without_followers_is_cancelled(void **state)
{
	static struct buf large;
	struct resolve_request req = request_of(RESOLVE_DEBUGINFO, ID, "");
	struct resolve_upstream_stats st = { 0 };
	struct fault_rule stalls;
	struct servers h;
	struct got g;
	struct fault_rule whole;

	elf_writer_program(&large, ET_DYN, ID, 40 << 20);
	whole = stalls = rule_of(&large);
	stalls.fault = FAULT_STALL;
	stalls.at = 200000;
	h = servers_of(stalls, rule_none, NULL);
	servers_ask(&h, &req, &g);
	assert_int_equal(g.r, 0);
	assert_int_equal(got_read(&g, 100000), 0);
	fault_http_rules(h.a, &whole, 1);
	got_done(&g);
	/* A new request gets it from the beginning. */
	servers_expect(&h, &req, buf_bytes(&large), RESOLVE_UPSTREAM);
	resolve_upstream_stats(h.upstream, &st);
	assert_int_equal(st.n_asked, 2);
	servers_done(&h);
	buf_done(&large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_another_server_is_found_and_stored),
		cmocka_unit_test(bytes_go_out_while_they_come_and_another_server_goes_on),
		cmocka_unit_test(a_server_that_went_on_continues_after_another_file_was_refused),
		cmocka_unit_test(many_requests_for_one_file_share_one_fetch),
		cmocka_unit_test(a_fetch_without_followers_is_cancelled),
	};

	return cmocka_run_group_tests(tests, servers_make_files, servers_free_files);
}
