/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a fetch: heads of replies, and breakers, with their own clock.
 */
#include "test.h"
#include "net/internal.h"

#define NOW 1000000000

static void feed(struct head *h, const char *const *lines)
{
	struct err err = { 0 };

	for (; *lines; lines++)
		assert_done(head_line(h, str_of(*lines), NOW, &err));
}

static void a_head_is_read_and_only_the_last_one_counts(void **state)
{
	struct head h;

	head_init(&h);
	feed(&h, (const char *const[]){ "HTTP/1.1 302 There\r\n", "Content-Length: 7\r\n",
					"X-DEBUGINFOD-FILE: no\r\n", "\r\n", "HTTP/1.1 206 Part\r\n",
					"content-range: bytes 5-14/300\r\n", "ETag:  \"a\" \r\n",
					"X-Debuginfod-Size: 300\r\n", "X-DEBUGINFOD-ARCHIVE: a\tb.deb\r\n",
					"X-Other: 1\r\n", "\r\n", NULL });
	assert_int_equal(h.status, 206);
	assert_false(h.has_length);
	assert_true(h.has_range && h.has_total && h.has_file_size);
	assert_int_equal(h.from, 5);
	assert_int_equal(h.total, 300);
	assert_int_equal(h.file_size, 300);
	assert_str(buf_str(&h.etag), "\"a\"");
	assert_str(buf_str(&h.lines), "X-Debuginfod-Size: 300\nX-DEBUGINFOD-ARCHIVE: a?b.deb\n");
	head_done(&h);
}

static void a_header_that_is_not_a_number_counts_as_absent(void **state)
{
	static const char *const ranges[] = { "bytes 5-4/10", "bytes 5-14/10", "bytes */10",
					      "items 0-1/2",  "bytes -5-6/10", "" };
	struct head h;

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		AUTO(mem_freep) char *line = mem_printf("Content-Range: %s\r\n", ranges[i]);

		head_init(&h);
		feed(&h, (const char *const[]){ "HTTP/1.1 206 x\r\n", line, "Content-Length: 5x\r\n",
						"Retry-After: soon\r\n", NULL });
		assert_false(h.has_total || h.has_length);
		assert_int_equal(h.retry_after_s, -1);
		head_done(&h);
	}
}

static void a_time_to_come_back_is_a_number_or_a_date(void **state)
{
	static const struct {
		const char *line;
		int64_t want;
	} rows[] = {
		{ "Retry-After: 5\r\n", 5 },
		{ "Retry-After: 0\r\n", 0 },
		{ "Retry-After: 99999999\r\n", 86400 },
		{ "Retry-After: Sun, 09 Sep 2001 01:47:40 GMT\r\n", 60 },
		{ "Retry-After: Sun, 09 Sep 2001 01:46:30 GMT\r\n", 0 },
		{ "Retry-After: Sun, 09 Xxx 2001 01:46:30 GMT\r\n", -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct head h;

		head_init(&h);
		feed(&h, (const char *const[]){ rows[i].line, NULL });
		assert_int_equal(h.retry_after_s, rows[i].want);
		head_done(&h);
	}
}

static void endless_heads_have_an_end(void **state)
{
	struct err err = { 0 };
	struct head h;
	int r = 0;

	head_init(&h);
	h.keep_all = true;
	for (unsigned i = 0; i < 10000 && r == 0; i++)
		r = head_line(&h, STR("X-Debuginfod-More: 0123456789012345678901234567890123456789\r\n"), NOW,
			      &err);
	assert_true(r < 0);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_true(h.lines.size <= NET_MAX_KEPT_HEAD);
	head_done(&h);
}

/* ---- breakers ---- */

static void fails(struct breakers *b, struct server *s)
{
	assert_true(breaker_take(b, s, 1));
	breaker_report(b, s, BREAKER_FAILED, "no connection");
	breaker_give(b, s);
}

static void each_failure_in_a_row_closes_a_server_for_longer(void **state)
{
	static const int64_t want[] = { 10, 20, 40, 80, 160, 300, 300 };
	struct breakers b;
	struct server *s;
	int64_t again_s;
	char message[200];

	clock_test_freeze(NOW);
	breakers_init(&b, 10000, 300000);
	s = breaker_server(&b, "http://a");
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(breaker_check(&b, s, NULL, NULL), BREAKER_CLOSED);
		fails(&b, s);
		assert_int_equal(breaker_check(&b, s, &again_s, message), BREAKER_OPEN);
		assert_int_equal(again_s, want[i]);
		assert_string_equal(message, "no connection");
		clock_test_advance(want[i] * 1000);
	}
	/* It answers: its failures are forgotten. */
	assert_true(breaker_take(&b, s, 1));
	breaker_report(&b, s, BREAKER_ANSWERED, "");
	breaker_give(&b, s);
	fails(&b, s);
	breaker_check(&b, s, &again_s, NULL);
	assert_int_equal(again_s, 10);
	breakers_done(&b);
	clock_test_thaw();
}

static void a_clock_that_is_set_back_makes_no_pause_longer(void **state)
{
	struct breakers b;
	struct server *s;
	int64_t again_s;

	clock_test_freeze(NOW);
	breakers_init(&b, 10000, 300000);
	s = breaker_server(&b, "http://a");
	fails(&b, s);
	clock_test_freeze(NOW - 86400);
	assert_int_equal(breaker_check(&b, s, &again_s, NULL), BREAKER_OPEN);
	assert_in_range(again_s, 9, 10);
	clock_test_advance(10000);
	assert_int_equal(breaker_check(&b, s, NULL, NULL), BREAKER_CLOSED);
	breakers_done(&b);
	clock_test_thaw();
}

static void only_one_request_probes_a_server_that_failed(void **state)
{
	struct breakers b;
	struct server *s;

	clock_test_freeze(NOW);
	breakers_init(&b, 10000, 300000);
	s = breaker_server(&b, "http://a");
	fails(&b, s);
	clock_test_advance(10000);
	assert_true(breaker_take(&b, s, 8));
	assert_int_equal(breaker_check(&b, s, NULL, NULL), BREAKER_TRYING);
	breaker_report(&b, s, BREAKER_DROPPED, "");
	breaker_give(&b, s);
	/* No result: the next request probes it. */
	assert_int_equal(breaker_check(&b, s, NULL, NULL), BREAKER_CLOSED);
	breakers_done(&b);
	clock_test_thaw();
}

static void a_slower_server_is_asked_last(void **state)
{
	struct breakers b;
	struct server *s, *t;

	clock_test_freeze(NOW);
	breakers_init(&b, 10000, 300000);
	s = breaker_server(&b, "http://a");
	t = breaker_server(&b, "http://b");
	breaker_report(&b, s, BREAKER_UNHEARD, "no connection yet");
	assert_int_equal(breaker_check(&b, s, NULL, NULL), BREAKER_SLOW);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(breaker_check(&b, t, NULL, NULL), BREAKER_CLOSED);
		breaker_report(&b, t, BREAKER_OUTRUN, "no answer yet");
	}
	assert_int_equal(breaker_check(&b, t, NULL, NULL), BREAKER_SLOW);
	clock_test_advance(10000);
	assert_int_equal(breaker_check(&b, s, NULL, NULL), BREAKER_CLOSED);
	breakers_done(&b);
	clock_test_thaw();
}

static void connections_to_one_server_are_counted(void **state)
{
	struct breakers b;
	struct server *s;

	breakers_init(&b, 10000, 300000);
	s = breaker_server(&b, "http://a");
	assert_ptr_equal(breaker_server(&b, "http://a"), s);
	assert_true(breaker_take(&b, s, 2));
	assert_true(breaker_take(&b, s, 2));
	assert_false(breaker_take(&b, s, 2));
	breaker_give(&b, s);
	assert_true(breaker_take(&b, s, 2));
	breakers_done(&b);
}

static void server_states_pass_from_process_to_process(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct net one = { 0 }, two = { 0 };
	struct server *s;
	int64_t again_s;
	char message[200];

	clock_test_freeze(NOW);
	breakers_init(&one.breakers, 10000, 300000);
	breakers_init(&two.breakers, 10000, 300000);
	breaker_server(&one.breakers, "http://rest");
	s = breaker_server(&one.breakers, "http://a");
	fails(&one.breakers, s);
	clock_test_advance(10000);
	fails(&one.breakers, s);
	net_breakers_save(&one, &text);
	net_breakers_load(&two, buf_str(&text));
	assert_null(memmem(text.p, text.size, "rest", 4));
	s = breaker_server(&two.breakers, "http://a");
	assert_int_equal(breaker_check(&two.breakers, s, &again_s, message), BREAKER_OPEN);
	assert_int_equal(again_s, 20);
	assert_string_equal(message, "no connection");
	/* Text that another user may have written there. */
	net_breakers_load(
		&two, STR("http://b 2000000000 0 1 far away\nhttp://c\nhttp://d x y z\n\n\n ftp://e 1 1 1\n"
			  "http://f 1000000020 0 99999999 much\nhttp://g 1000000021 0 1"));
	s = breaker_server(&two.breakers, "http://b");
	assert_int_equal(breaker_check(&two.breakers, s, NULL, NULL), BREAKER_CLOSED);
	s = breaker_server(&two.breakers, "http://f");
	assert_int_equal(breaker_check(&two.breakers, s, NULL, NULL), BREAKER_CLOSED);
	s = breaker_server(&two.breakers, "http://g");
	assert_int_equal(breaker_check(&two.breakers, s, NULL, NULL), BREAKER_OPEN);
	breakers_done(&one.breakers);
	breakers_done(&two.breakers);
	clock_test_thaw();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_is_read_and_only_the_last_one_counts),
		cmocka_unit_test(a_header_that_is_not_a_number_counts_as_absent),
		cmocka_unit_test(a_time_to_come_back_is_a_number_or_a_date),
		cmocka_unit_test(endless_heads_have_an_end),
		cmocka_unit_test(each_failure_in_a_row_closes_a_server_for_longer),
		cmocka_unit_test(a_clock_that_is_set_back_makes_no_pause_longer),
		cmocka_unit_test(only_one_request_probes_a_server_that_failed),
		cmocka_unit_test(a_slower_server_is_asked_last),
		cmocka_unit_test(connections_to_one_server_are_counted),
		cmocka_unit_test(server_states_pass_from_process_to_process),
	};

	return cmocka_run_group_tests_name("net-parts", tests, NULL, NULL);
}
