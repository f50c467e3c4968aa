/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "profilestore/profilestore.h"

#define CPU "profile:cpu:nanoseconds:cpu:nanoseconds:delta"

static const struct profilestore_label labels[] = {
	{ STR("host"), STR("a1") },
	{ STR("job"), STR("say \"hi\"\n\xc3\xa4") },
	{ STR("service"), STR("web") },
};

static bool matches(const char *text)
{
	struct err err = { 0 };
	struct selector *s;
	bool yes;

	if (selector_parse(str_of(text), &s, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	yes = selector_matches(s, STR(CPU), labels, ARRAY_SIZE(labels));
	selector_free(s);
	return yes;
}

static void types_and_labels(void **state)
{
	assert_true(matches(""));
	assert_true(matches(" {} "));
	assert_true(matches(CPU));
	assert_true(matches(CPU "{}"));
	assert_false(matches(CPU "x"));
	assert_false(matches("cpu"));
	assert_true(matches(CPU " { service = \"web\" , host=~\"a.*\", } "));
	assert_false(matches("{service=\"we\"}"));
	assert_false(matches("{service=~\"we\"}"));
	assert_true(matches("{service=~\"we|web\"}"));
	assert_true(matches("{service!~\"we\"}"));
	assert_true(matches("{service!=\"x\",host!=\"b\"}"));
	assert_false(matches("{service!=\"web\"}"));
}

static void a_label_that_is_not_there_is_empty(void **state)
{
	assert_true(matches("{none=\"\"}"));
	assert_true(matches("{none!=\"x\"}"));
	assert_true(matches("{none=~\".*\"}"));
	assert_false(matches("{none=~\".+\"}"));
	assert_false(matches("{none!=\"\"}"));
}

static void selectors_can_be_added(void **state)
{
	struct err err = { 0 };
	struct selector *s, *promql;

	assert_done(selector_parse(STR("{service=\"web\",}"), &s, &err));
	assert_done(selector_add_promql(s, STR(""), &err));
	assert_done(selector_add_promql(s, STR("{}"), &err));
	assert_done(selector_add_promql(s, STR(CPU "{host=~\"a.\"}"), &err));
	assert_true(selector_matches(s, STR(CPU), labels, ARRAY_SIZE(labels)));
	assert_false(selector_matches(s, STR("cpu"), labels, ARRAY_SIZE(labels)));
	assert_done(selector_add_promql(s, STR("{host=\"b\"}"), &err));
	assert_false(selector_matches(s, STR(CPU), labels, ARRAY_SIZE(labels)));
	assert_done(selector_parse(STR(""), &promql, &err));
	assert_done(selector_add_promql(promql, STR("{\"host\"=~`a\\d`,service=~\"(?:w|d)eb?\"}"), &err));
	assert_true(selector_matches(promql, STR(CPU), labels, ARRAY_SIZE(labels)));
	assert_fails(selector_add_promql(promql, STR("{a=~\"(?i)x\"}"), &err), ERR_INVALID,
		     "(?i)x is not supported");
	selector_free(promql);
	assert_fails(selector_add_promql(s, STR("cpu{}"), &err), ERR_INVALID, "a second profile type");
	assert_fails(selector_add_promql(s, STR("{a}"), &err), ERR_INVALID, "at character 3");
	selector_free(s);
}

static void strings_have_the_escapes_of_go(void **state)
{
	assert_true(matches("{job=\"say \\\"hi\\\"\\n\\u00e4\"}"));
	assert_true(matches("{job='say \"hi\"\\x0a\\303\\244'}"));
	assert_true(matches("{job=`say \"hi\"\n\xc3\xa4`}"));
	assert_true(matches("{service=`web`}"));
	assert_false(matches("{service=`\\x77eb`}"));
}

static void refused(const char *text, const char *why)
{
	struct err err = { 0 };
	struct selector *s;

	assert_int_equal(selector_parse(str_of(text), &s, &err), -1);
	assert_int_equal(err.kind, ERR_INVALID);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", text, err.text);
}

static void a_bad_selector_is_refused_with_its_place(void **state)
{
	refused("cpu{", "at its end: the name of a label or } is missing");
	refused("cpu}", "at character 4: { was expected");
	refused("+", "at character 1: a profile type or { was expected");
	refused("{a}", "at character 3: =, !=, =~ or !~ was expected");
	refused("{a=b}", "at character 4: a string in quotes was expected");
	refused("{a=\"b}", "no closing \"");
	refused("{a=\"b\\", "no closing \"");
	refused("{a=\"b\" c=\"d\"}", "at character 8: , or } was expected");
	refused("{a=\"b\"} or x", "at character 9: nothing more was expected");
	refused("{a=~\"(\"}", "at character 5: the pattern: unmatched (");
	refused("{1a=\"b\"}", "at character 2");
	refused("{a=\"\\q\"}", "an escape such as");
	refused("{a=\"\\ud800\"}", "an escape such as");
	refused("{a=\"\\777\"}", "an escape such as");
	refused("{,}", "at character 2");
	refused("x{a=\"1\"};drop table series", "nothing more");
}

static void limits(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };
	struct selector *s;

	buf_add_char(&b, '{');
	for (unsigned i = 0; i <= SELECTOR_MAX_MATCHERS; i++)
		buf_add_str(&b, STR("a=~\"b\","));
	buf_add_char(&b, '}');
	assert_int_equal(selector_parse(buf_str(&b), &s, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	while (b.size <= SELECTOR_MAX_SIZE)
		buf_add_str(&b, STR("        "));
	assert_int_equal(selector_parse(buf_str(&b), &s, &err), -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	selector_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_and_labels),
		cmocka_unit_test(a_label_that_is_not_there_is_empty),
		cmocka_unit_test(selectors_can_be_added),
		cmocka_unit_test(strings_have_the_escapes_of_go),
		cmocka_unit_test(a_bad_selector_is_refused_with_its_place),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
