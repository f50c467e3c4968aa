/* SPDX-License-Identifier: Apache-2.0 */
/* An upload, and what becomes of it by the server's answers. */
#include "test.h"

#include <sys/mman.h>
#include "agent/sender.h"
#include "agent/upload.h"
#include "fault_http.h"

#define RESULT "X-LODE-RESULT: "
#define PUTS   "/buildid/"

static const char content[] = "the debug file, which a slow rate sends in 48 s.";
static uint64_t rate = MIB(1); /* bytes a second */
static int64_t took_ms;        /* the last upload, by the test's clock */

/* The pauses between tries are those of the test's clock. */
static bool let_time_pass(void *arg)
{
	clock_test_advance(4000);
	return false;
}

static void count_sent(void *arg, uint64_t bytes)
{
	*(uint64_t *)arg += bytes;
}

/* The server answers /push/want with @want, and PUTs with these two rules. Returns agent_upload()'s result. */
static int upload_by(const char *want, const struct fault_rule puts[2], unsigned *ret_n_puts, struct err *err)
{
	const struct fault_rule rules[] = { { .path = "/push/want", .body = bytes_of(want, strlen(want)) },
					    puts[0],
					    puts[1] };
	struct upload_file f = { .size = sizeof(content) - 1, .key = { .id = { 2, { 0xab, 0xcd } } } };
	uint64_t sent = 0;
	struct upload_way w = { .rate = rate, .stopped = let_time_pass, .sent = count_sent, .arg = &sent };
	struct fault_http *s;
	int64_t began_ms;
	int r;

	s = fault_http_new(rules, ARRAY_SIZE(rules));
	f.fd = memfd_create("debug", MFD_CLOEXEC);
	assert_int_equal(write(f.fd, content, f.size), f.size);
	clock_test_freeze(1000);
	assert_int_equal(net_new(NULL, &w.net, err), 0);
	w.url = fault_http_url(s);
	began_ms = clock_mono_ms();
	r = agent_upload(&w, &f, err);
	took_ms = clock_mono_ms() - began_ms;
	net_free(w.net);
	clock_test_thaw();
	*ret_n_puts = fault_http_requests(s, PUTS);
	fault_http_free(s);
	close(f.fd);
	return r;
}

static int upload_to(const char *want, const struct fault_rule *put, unsigned *ret_n_puts, struct err *err)
{
	const struct fault_rule puts[] = { *put, *put };

	return upload_by(want, puts, ret_n_puts, err);
}

#define WANTED "{\"objects\":[{\"want\":true,\"offset\":0}]}"

static void a_page_does_not_say_that_the_file_is_stored(void **state)
{
	static const unsigned statuses[] = { 200, 201, 202 };
	static const char page[] = "<html>The requested URL was rejected.</html>";

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		const struct fault_rule put = { .path = PUTS,
						.status = statuses[i],
						.body = bytes_of(page, sizeof(page) - 1) };
		struct err err = { 0 };
		unsigned n;

		assert_fails(upload_to(WANTED, &put, &n, &err), ERR_UPSTREAM, "not of a lode server");
		assert_int_equal(n, 5);
	}
}

static void a_failure_that_may_pass_is_tried_again(void **state)
{
	static const struct fault_rule failures[] = {
		{ .path = PUTS, .status = 503 },
		{ .path = PUTS, .status = 429 },
		{ .path = PUTS, .status = 409, .headers = RESULT "busy\r\n" },
		{ .path = PUTS, .fault = FAULT_HANG_UP },
		{ .path = PUTS, .fault = FAULT_RESET },
	};

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
		struct fault_rule puts[] = {
			failures[i], { .path = PUTS, .status = 201, .headers = RESULT "stored\r\n" }
		};
		struct err err = { 0 };
		unsigned n;

		puts[0].times = 2;
		assert_done(upload_by(WANTED, puts, &n, &err));
		assert_int_equal(n, 3);
		/* Any of them is given up for now after five tries. */
		if (i > 0)
			continue;
		err = (struct err){ 0 };
		assert_int_equal(upload_to(WANTED, &failures[i], &n, &err), -1);
		assert_int_equal(err.kind, ERR_UPSTREAM);
		assert_int_equal(n, 5);
	}
}

/* As a server that starts, or sheds load; but a file does not wait for a day. */
static void the_pause_is_as_long_as_the_server_asks_for(void **state)
{
	static const struct {
		const char *headers;
		int64_t least_ms;
	} rows[] = {
		{ "Retry-After: 100\r\n", 100000 },
		{ "Retry-After: 86400\r\n", SENDER_LAST_MS },
		{ NULL, 500 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct fault_rule puts[] = {
			{ .path = PUTS, .status = 503, .headers = rows[i].headers, .times = 1 },
			{ .path = PUTS, .status = 201, .headers = RESULT "stored\r\n" },
		};
		struct err err = { 0 };
		unsigned n;

		assert_done(upload_by(WANTED, puts, &n, &err));
		assert_int_equal(n, 2);
		assert_true(took_ms >= rows[i].least_ms);
		assert_true(took_ms < rows[i].least_ms + 60000);
	}
}

static void a_file_of_another_owner_is_not_sent_again(void **state)
{
	const struct fault_rule put = { .path = PUTS, .status = 409, .headers = RESULT "owned\r\n" };
	struct err err = { 0 };
	unsigned n;

	assert_int_equal(upload_to(WANTED, &put, &n, &err), UPLOAD_REFUSED);
	assert_int_equal(n, 1);
	assert_non_null(strstr(err.text, "409"));
}

static void the_outcome_is_that_of_the_answer(void **state)
{
	static const struct {
		unsigned status;
		const char *headers;
		int outcome;
	} rows[] = {
		{ 201, RESULT "stored\r\n", 0 },
		{ 202, RESULT "held\r\n", 0 },
		{ 200, RESULT "same\r\n", UPLOAD_HERE },
		{ 200, RESULT "kept\r\n", UPLOAD_HERE },
		{ 401, NULL, UPLOAD_DENIED },
		{ 403, NULL, UPLOAD_DENIED },
		{ 404, NULL, UPLOAD_DENIED },
		{ 407, NULL, UPLOAD_DENIED },
		{ 421, NULL, UPLOAD_DENIED },
		{ 413, NULL, UPLOAD_REFUSED },
		{ 422, NULL, UPLOAD_REFUSED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct fault_rule put = { .path = PUTS,
						.status = rows[i].status,
						.headers = rows[i].headers };
		struct err err = { 0 };
		unsigned n;

		assert_int_equal(upload_to(WANTED, &put, &n, &err), rows[i].outcome);
		assert_int_equal(n, 1);
	}
}

static void a_file_that_is_not_wanted_is_not_sent(void **state)
{
	static const struct {
		const char *want;
		int outcome;
	} rows[] = {
		{ "{\"objects\":[{\"want\":false,\"why\":\"same\"}]}", UPLOAD_HERE },
		{ "{\"objects\":[{\"want\":false,\"why\":\"better\"}]}", UPLOAD_HERE },
		{ "{\"objects\":[{\"want\":false,\"why\":\"held\"}]}", UPLOAD_HERE },
		{ "{\"objects\":[{\"want\":false,\"why\":\"owned\"}]}", UPLOAD_REFUSED },
		{ "{\"objects\":[{\"want\":false,\"why\":\"a new reason\"}]}", UPLOAD_REFUSED },
		{ "{\"objects\":[{\"want\":true,\"busy\":true}]}", -1 },
		{ "<html>Please log in</html>", -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct fault_rule put = { .path = PUTS, .status = 201, .headers = RESULT "stored\r\n" };
		struct err err = { 0 };
		unsigned n;

		assert_int_equal(upload_to(rows[i].want, &put, &n, &err), rows[i].outcome);
		assert_int_equal(n, 0);
	}
}

/* Also for the last part of a file: another file may be next. */
static void the_rate_counts_the_last_part_of_a_file(void **state)
{
	static const struct fault_rule puts[] = {
		{ .path = PUTS, .status = 201, .headers = RESULT "stored\r\n" },
		{ .path = PUTS, .status = 422 },
	};

	rate = 1;
	for (size_t i = 0; i < ARRAY_SIZE(puts); i++) {
		struct err err = { 0 };
		unsigned n;

		assert_int_equal(upload_to(WANTED, &puts[i], &n, &err), i ? UPLOAD_REFUSED : 0);
		assert_int_equal(n, 1);
		assert_true(took_ms >= (int64_t)(sizeof(content) - 1) * 1000);
	}
	rate = MIB(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_does_not_say_that_the_file_is_stored),
		cmocka_unit_test(a_failure_that_may_pass_is_tried_again),
		cmocka_unit_test(the_pause_is_as_long_as_the_server_asks_for),
		cmocka_unit_test(a_file_of_another_owner_is_not_sent_again),
		cmocka_unit_test(the_outcome_is_that_of_the_answer),
		cmocka_unit_test(a_file_that_is_not_wanted_is_not_sent),
		cmocka_unit_test(the_rate_counts_the_last_part_of_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
