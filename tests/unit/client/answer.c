/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of lode servers and of receivers of OTLP, and those of other programs with the same statuses.
 */
#include "test.h"

#include "client/answer.h"

#define PAGE      "<html>Please log in</html>"
#define FILE_SIZE 100u
#define RESULT    "X-LODE-RESULT: "
#define OFFSET    "X-LODE-OFFSET: "
#define FOREIGN   -1

static struct bytes body_of(const char *text)
{
	return bytes_of(text, strlen(text));
}

static bool is_offset(int answer)
{
	return answer == CLIENT_UPLOAD_PARTIAL || answer == CLIENT_UPLOAD_OFFSET;
}

static void an_answer_to_a_file_has_lodes_headers(void **state)
{
	static const struct {
		unsigned status;
		const char *headers;
		int answer;
		uint64_t off;
	} rows[] = {
		{ 201, RESULT "stored\n", CLIENT_UPLOAD_STORED },
		{ 201, "content-type: text/plain\nx-lode-result: stored\n", CLIENT_UPLOAD_STORED },
		{ 200, RESULT "same\n", CLIENT_UPLOAD_SAME },
		{ 200, RESULT "kept\n", CLIENT_UPLOAD_BETTER },
		{ 202, RESULT "held\n", CLIENT_UPLOAD_HELD },
		{ 202, RESULT "partial\n" OFFSET "64\n", CLIENT_UPLOAD_PARTIAL, 64 },
		{ 409, RESULT "offset\n" OFFSET "0\n", CLIENT_UPLOAD_OFFSET, 0 },
		{ 409, RESULT "busy\n", CLIENT_UPLOAD_BUSY },
		{ 409, RESULT "owned\n", CLIENT_UPLOAD_OWNED },
		/* Of a program in between. */
		{ 200, "", FOREIGN },
		{ 200, "Content-Type: text/html\nLocation: " RESULT "\n", FOREIGN },
		{ 200, "X-LODE-RESULT:\n", FOREIGN },
		{ 200, OFFSET "64\n", FOREIGN },
		{ 201, "Content-Type: text/html\n", FOREIGN },
		{ 202, "", FOREIGN },
		{ 202, RESULT "partial\n", FOREIGN },
		{ 202, RESULT "partial\n" OFFSET "100\n", FOREIGN },
		{ 202, RESULT "partial\n" OFFSET "-1\n", FOREIGN },
		/* Refusals have no sign. */
		{ 204, RESULT "stored\n", CLIENT_UPLOAD_REFUSED },
		{ 302, "", CLIENT_UPLOAD_REFUSED },
		{ 403, "", CLIENT_UPLOAD_REFUSED },
		{ 409, "", CLIENT_UPLOAD_REFUSED },
		{ 409, OFFSET "100\n", CLIENT_UPLOAD_REFUSED },
		{ 503, OFFSET "1\n", CLIENT_UPLOAD_REFUSED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		uint64_t off = UINT64_MAX;
		int r = client_answer_upload(rows[i].status, str_of(rows[i].headers), FILE_SIZE, &off, &err);

		if (r != rows[i].answer || off != (is_offset(r) ? rows[i].off : UINT64_MAX))
			fail_msg("row %zu: %d, offset %llu", i, r, (unsigned long long)off);
		if (r < 0) {
			assert_int_equal(err.kind, ERR_UPSTREAM);
			assert_non_null(strstr(err.text, "not of a lode server"));
		}
	}
}

struct wants {
	size_t n;
	struct client_want v[8];
	char why[8][32], owner[8][32];
};

static void note_want(void *arg, size_t i, const struct client_want *w)
{
	struct wants *x = arg;

	assert_int_equal(i, x->n);
	x->v[x->n] = *w;
	snprintf(x->why[x->n], sizeof(x->why[0]), "%s", w->why);
	snprintf(x->owner[x->n++], sizeof(x->owner[0]), "%s", w->owner);
}

static void each_file_of_a_want_list_has_its_answer(void **state)
{
	static const char text[] = "{\"objects\":["
				   "{\"want\":true,\"offset\":7,\"signed\":true},"
				   "{\"want\":true,\"busy\":true},"
				   "{\"want\":false,\"why\":\"same\"},"
				   "{\"want\":false,\"why\":\"better\"},"
				   "{\"want\":false,\"why\":\"held\"},"
				   "{\"want\":false,\"why\":\"owned\",\"owner\":\"ci\"},"
				   "{\"want\":false,\"why\":\"too large\"},"
				   "{\"want\":false,\"why\":\"quota\"}]}";
	static const enum client_want_kind kinds[] = {
		CLIENT_WANT_YES,  CLIENT_WANT_BUSY,  CLIENT_WANT_SAME,      CLIENT_WANT_BETTER,
		CLIENT_WANT_HELD, CLIENT_WANT_OWNED, CLIENT_WANT_TOO_LARGE, CLIENT_WANT_NO,
	};
	struct wants x = { 0 };
	struct err err = { 0 };

	assert_done(client_answer_want(200, body_of(text), ARRAY_SIZE(kinds), note_want, &x, &err));
	assert_int_equal(x.n, ARRAY_SIZE(kinds));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(x.v[i].kind, kinds[i]);
	assert_int_equal(x.v[0].off, 7);
	assert_true(x.v[0].is_signed && !x.v[1].is_signed);
	assert_string_equal(x.owner[5], "ci");
	assert_string_equal(x.owner[2], "?");
	assert_string_equal(x.why[7], "quota");
}

static void a_reason_that_is_not_known_is_not_that_the_file_is_there(void **state)
{
	static const char *const texts[] = {
		"{\"objects\":[{\"want\":false}]}",
		"{\"objects\":[{\"want\":false,\"why\":5}]}",
		"{\"objects\":[{\"want\":false,\"why\":\"\"}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct wants x = { 0 };
		struct err err = { 0 };

		assert_done(client_answer_want(200, body_of(texts[i]), 1, note_want, &x, &err));
		assert_int_equal(x.v[0].kind, CLIENT_WANT_NO);
	}
}

static void an_answer_to_a_want_list_has_an_object_for_each_file(void **state)
{
	static const char *const texts[] = {
		"",
		PAGE,
		"{}",
		"[]",
		"{\"objects\":[]}",
		"{\"objects\":{\"want\":true}}",
		"{\"objects\":[{\"want\":true}]}",
		"{\"objects\":[{\"want\":true},{\"want\":true},{\"want\":true}]}",
		"{\"objects\":[{\"want\":true},null]}",
		"{\"objects\":[{\"want\":true},{}]}",
		"{\"objects\":[{\"want\":true},{\"want\":\"no\"}]}",
	};
	struct wants x = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_fails(client_answer_want(200, body_of(texts[i]), 2, note_want, &x, &err), ERR_UPSTREAM,
			     "not a lode server (200)");
	assert_int_equal(client_answer_want(404, body_of(PAGE), 2, note_want, &x, &err), CLIENT_REFUSED);
	assert_int_equal(client_answer_want(204, (struct bytes){ 0 }, 2, note_want, &x, &err),
			 CLIENT_REFUSED);
	assert_int_equal(x.n, 0);
}

static void count_wanted(void *arg, const struct build_id *id)
{
	assert_int_equal(id->size, 4);
	++*(unsigned *)arg;
}

static void a_receipt_counts_samples(void **state)
{
	static const char text[] = "{\"profiles\":2,\"samples\":30,\"id\":4,\"duplicate\":true,"
				   "\"wanted\":[\"aabbccdd\",\"no build ID\",5,\"00112233\"]}";
	struct client_receipt got = { 0 };
	struct err err = { 0 };
	unsigned n = 0;

	assert_done(client_answer_profiles(200, body_of(text), count_wanted, &n, &got, &err));
	assert_int_equal(n, 2);
	assert_int_equal(got.n_profiles, 2);
	assert_int_equal(got.n_samples, 30);
	assert_int_equal(got.id, 4);
	assert_true(got.duplicate);
	/* Of the first versions. */
	assert_done(client_answer_profiles(202, body_of("{\"samples\":0}"), NULL, NULL, &got, &err));
	assert_int_equal(got.n_samples + got.n_profiles, 0);
	assert_false(got.duplicate);
}

static void a_page_is_no_receipt(void **state)
{
	static const char *const texts[] = { "",
					     PAGE,
					     "{}",
					     "{\"error\":\"log in\"}",
					     "{\"samples\":\"30\"}",
					     "{\"samples\":null,\"wanted\":[\"aabbccdd\"]}" };
	struct client_receipt got = { .n_samples = 1 };
	struct err err = { 0 };
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_fails(client_answer_profiles(200, body_of(texts[i]), count_wanted, &n, &got, &err),
			     ERR_UPSTREAM, "not a lode server (200)");
	assert_int_equal(client_answer_profiles(302, body_of("{\"samples\":1}"), NULL, NULL, &got, &err),
			 CLIENT_REFUSED);
	assert_int_equal(client_answer_profiles(503, body_of(PAGE), NULL, NULL, &got, &err), CLIENT_REFUSED);
	assert_int_equal(n, 0);
	assert_int_equal(got.n_samples, 1);
}

static void an_answer_of_otlp_is_a_message(void **state)
{
	static const char *const good[] = { "", "{}", "{\"partialSuccess\":{}}",
					    "\x0a\x08\x08\x01\x12\x04"
					    "full" };
	static const char *const bad[] = { PAGE, "\r\n<!DOCTYPE html>" PAGE, "ok",
					   "\x0a\x08\x08\x01\x12\x04"
					   "ful" };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_done(client_answer_otlp(200, body_of(good[i]), &err));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_fails(client_answer_otlp(200, body_of(bad[i]), &err), ERR_UPSTREAM,
			     "not a receiver of OTLP (200)");
	assert_done(client_answer_otlp(202, (struct bytes){ 0 }, &err));
	assert_int_equal(client_answer_otlp(400, body_of("{}"), &err), CLIENT_REFUSED);
	assert_int_equal(client_answer_otlp(307, (struct bytes){ 0 }, &err), CLIENT_REFUSED);
}

static void a_refusal_has_one_line_for_people(void **state)
{
	static const struct {
		const char *body, *text;
	} rows[] = {
		{ "", "" },
		{ "no room \nmore", "no room" },
		{ "{\"error\":\"label \\u001b[31m\"}", "label ?[31m" },
		{ "{\"code\":5}", "{\"code\":5}" },
		{ "\r\n<html>\r\n<head><title>413 Request Entity Too Large</title></head>",
		  "a page of HTML, perhaps of a proxy before the server" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO(mem_freep) char *text = client_message(body_of(rows[i].body));

		assert_string_equal(text, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_to_a_file_has_lodes_headers),
		cmocka_unit_test(each_file_of_a_want_list_has_its_answer),
		cmocka_unit_test(a_reason_that_is_not_known_is_not_that_the_file_is_there),
		cmocka_unit_test(an_answer_to_a_want_list_has_an_object_for_each_file),
		cmocka_unit_test(a_receipt_counts_samples),
		cmocka_unit_test(a_page_is_no_receipt),
		cmocka_unit_test(an_answer_of_otlp_is_a_message),
		cmocka_unit_test(a_refusal_has_one_line_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
