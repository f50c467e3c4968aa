/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer, its bytes, and what jansson reads of them.
 */
#include "test.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include "base/json.h"

#define CHECK(b, text) assert_string_equal(buf_cstr(b), text)

static void commas_and_keys_are_the_writers(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b };

	json_open_object(&w, NULL);
	json_put_text(&w, "a", "x");
	json_put_text(&w, "none", NULL);
	json_open_array(&w, "list");
	json_put_int(&w, NULL, -1);
	json_open_array(&w, NULL);
	json_close(&w);
	json_open_object(&w, NULL);
	json_close(&w);
	json_put_bool(&w, NULL, true);
	json_close(&w);
	json_key(&w, STR("any\"key"));
	json_open_object(&w, NULL);
	json_put_raw(&w, "raw", STR("[1,2]"));
	json_put_printf(&w, "hex", "0x%x", 255u);
	json_close(&w);
	json_put_bool(&w, "last", false);
	json_close(&w);
	CHECK(&b, "{\"a\":\"x\",\"none\":null,\"list\":[-1,[],{},true],\"any\\\"key\":{\"raw\":[1,2],"
		  "\"hex\":\"0xff\"},\"last\":false}");
	assert_int_equal(w.depth, 0);
}

static void indents_raw_values_by_their_depth(void **state)
{
	AUTO(buf_done) struct buf part = { 0 }, b = { 0 };
	struct json_writer in = { .out = &part, .indent = 2 }, w = { .out = &b, .indent = 2 };

	json_open_array(&in, NULL);
	json_open_object(&in, NULL);
	json_put_text(&in, "a", "x\ny");
	json_close(&in);
	json_close(&in);
	json_open_object(&w, NULL);
	json_put_raw(&w, "raw", buf_str(&part));
	json_put_bool(&w, "last", true);
	json_close(&w);
	CHECK(&b, "{\n  \"raw\": [\n    {\n      \"a\": \"x\\ny\"\n    }\n  ],\n  \"last\": true\n}");
}

static void write_some(struct json_writer *w)
{
	json_open_object(w, NULL);
	json_put_int(w, "a", 1);
	json_open_array(w, "empty");
	json_close(w);
	json_open_array(w, "b");
	json_put_text(w, NULL, "x");
	json_open_object(w, NULL);
	json_put_null(w, "c");
	json_close(w);
	json_open_object(w, NULL);
	json_close(w);
	json_close(w);
	json_put_uint(w, "d", 2);
	json_close(w);
}

static void indents_as_jansson_does(void **state)
{
	for (uint8_t indent = 0; indent <= 4; indent += 2) {
		AUTO(buf_done) struct buf b = { 0 };
		struct json_writer w = { .out = &b, .indent = indent };
		json_t *j;
		char *want;

		write_some(&w);
		j = json_loadb((const char *)b.p, b.size, 0, NULL);
		assert_non_null(j);
		want = json_dumps(j, indent ? JSON_INDENT(indent) : JSON_COMPACT);
		CHECK(&b, want);
		free(want);
		json_decref(j);
	}
}

static void the_buffer_may_be_emptied_between_calls(void **state)
{
	AUTO(buf_done) struct buf b = { 0 }, all = { 0 };
	struct json_writer w = { .out = &b };

	json_open_array(&w, NULL);
	for (int i = 0; i < 3; i++) {
		json_put_int(&w, NULL, i);
		buf_add_str(&all, buf_str(&b));
		b.size = 0;
	}
	json_close(&w);
	buf_add_str(&all, buf_str(&b));
	CHECK(&all, "[0,1,2]");
}

static void levels_may_be_512_deep(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b };
	json_t *j;

	json_open_array(&w, NULL);
	for (unsigned i = 1; i < JSON_DEPTH_MAX; i++)
		if (i % 3)
			json_open_object(&w, json_in_object(&w) ? "k" : NULL);
		else
			json_open_array(&w, json_in_object(&w) ? "k" : NULL);
	for (unsigned i = 0; i < JSON_DEPTH_MAX; i++)
		json_close(&w);
	j = json_loadb((const char *)b.p, b.size, 0, NULL);
	assert_non_null(j);
	json_decref(j);
}

/* ---- strings ---- */

static void check_string(struct str s, bool for_html, const char *want)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b, .for_html = for_html };

	json_put_str(&w, NULL, s);
	CHECK(&b, want);
}

static void strings_are_escaped(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b, .escape_slash = true };

	check_string((struct str){ NULL, 0 }, false, "\"\"");
	check_string(STR("a\"b\\c/d"), false, "\"a\\\"b\\\\c/d\"");
	check_string(STR("\b\f\n\r\t\1\0\x1f\x7f"), false, "\"\\b\\f\\n\\r\\t\\u0001\\u0000\\u001f\\u007f\"");
	check_string(STR("<a>&\xe2\x80\xa8"), false, "\"<a>&\xe2\x80\xa8\"");
	check_string(STR("<a>&\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"), true,
		     "\"\\u003ca\\u003e\\u0026\\u2028\\u2029\xe2\x80\xaa\"");
	json_put_text(&w, NULL, "/usr/lib");
	CHECK(&b, "\"\\/usr\\/lib\"");
}

/* The examples are the Unicode Standard's, tables 3-8 to 3-11, version 15, section 3.9. */
static void each_maximal_subpart_becomes_one_replacement(void **state)
{
#define R "\xef\xbf\xbd"
	check_string(STR("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), false,
		     "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	check_string(STR("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), false, "\"" R R R R R R R R "A\"");
	check_string(STR("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), false, "\"" R R R R R R R R "A\"");
	check_string(STR("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), false, "\"" R R R R R "A" R R "B\"");
	check_string(STR("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), false, "\"" R R R R "A\"");
	check_string(STR("a\xff\xc3z\xe2\x82"), false, "\"a" R R "z" R "\"");
#undef R
}

static void formatted_text_is_escaped_too(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b };

	json_open_array(&w, NULL);
	json_put_printf(&w, NULL, "%s", "");
	json_put_printf(&w, NULL, "say \"%s\"\n", "\xff");
	json_put_printf(&w, NULL, "%0300d", 0);
	json_close(&w);
	assert_true(str_starts(buf_str(&b), STR("[\"\",\"say \\\"\xef\xbf\xbd\\\"\\n\",\"0000")));
	assert_int_equal(b.size, 1 + 3 + strlen("\"say \\\"xxx\\\"\\n\",") + 302 + 1);
}

/* ---- numbers ---- */

static void whole_numbers_are_complete(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct json_writer w = { .out = &b };

	json_open_array(&w, NULL);
	json_put_int(&w, NULL, INT64_MIN);
	json_put_int(&w, NULL, INT64_MAX);
	json_put_int(&w, NULL, 0);
	json_put_uint(&w, NULL, UINT64_MAX);
	json_close(&w);
	CHECK(&b, "[-9223372036854775808,9223372036854775807,0,18446744073709551615]");
}

static void doubles_are_short_and_read_back(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = { { 0, "0.0" },          { -0.0, "-0.0" },
		      { 0.1, "0.1" },        { 1, "1.0" },
		      { 1e20, "1e+20" },     { 123456789, "123456789.0" },
		      { 1.5e-7, "1.5e-07" }, { NAN, "null" },
		      { -INFINITY, "null" }, { 1.0 / 3, "0.3333333333333333" } };
	static const double others[] = { DBL_MAX, DBL_MIN,        DBL_TRUE_MIN, 4503599627370497.5,
					 5e-324,  1 - DBL_EPSILON };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct json_writer w = { .out = &b };

		json_put_double(&w, NULL, cases[i].v);
		CHECK(&b, cases[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct json_writer w = { .out = &b };
		json_t *j;

		json_put_double(&w, NULL, others[i]);
		j = json_loadb((const char *)b.p, b.size, JSON_DECODE_ANY, NULL);
		assert_true(json_is_real(j) && json_real_value(j) == others[i]);
		json_decref(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_and_keys_are_the_writers),
		cmocka_unit_test(indents_as_jansson_does),
		cmocka_unit_test(indents_raw_values_by_their_depth),
		cmocka_unit_test(the_buffer_may_be_emptied_between_calls),
		cmocka_unit_test(levels_may_be_512_deep),
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(each_maximal_subpart_becomes_one_replacement),
		cmocka_unit_test(formatted_text_is_escaped_too),
		cmocka_unit_test(whole_numbers_are_complete),
		cmocka_unit_test(doubles_are_short_and_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
