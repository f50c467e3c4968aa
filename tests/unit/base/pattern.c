/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/base.h"

static bool matches(const char *pattern, bool whole, const char *text)
{
	struct err err = { 0 };
	struct pattern *p;
	bool yes;

	if (pattern_new(str_of(pattern), whole, &p, &err) < 0)
		fail_msg("%s: %s", pattern, err.text);
	yes = pattern_matches(p, str_of(text));
	pattern_free(p);
	return yes;
}

static void matches_anywhere_or_the_whole_text(void **state)
{
	assert_true(matches("b+", false, "abbc"));
	assert_false(matches("b+", true, "abbc"));
	assert_true(matches("a|abbc", true, "abbc"));
	assert_false(matches("a|c", true, "abbc"));
	assert_true(matches("", true, ""));
	assert_false(matches("", true, "a"));
	assert_true(matches("", false, "a"));
	assert_true(matches("[])]+[[:digit:]]{2,3}\\)", true, "])12)"));
	assert_true(matches("x{2,}", true, "xxxxx"));
	assert_true(matches(".*?a(b?c*)?", true, "xxabcc"));
	assert_true(matches("(a|b*c)*", true, "abbca"));
	assert_true(matches("^a$|^b*$", true, "bb"));
	assert_true(matches("([0-9]?[a-z]?){2}", true, "1ab"));
}

static void a_text_may_have_any_bytes(void **state)
{
	struct pattern *p;

	assert_int_equal(pattern_new(STR("b$"), false, &p, NULL), 0);
	assert_true(pattern_matches(p, (struct str){ "a\0b", 3 }));
	assert_false(pattern_matches(p, (struct str){ "a\0bc", 4 }));
	assert_true(pattern_matches(p, (struct str){ "a\0bc", 3 }));
	assert_false(pattern_matches(p, (struct str){ NULL, 0 }));
	pattern_free(p);
	pattern_free(NULL);
}

static void refused(const char *pattern, enum err_kind kind, const char *why)
{
	struct err err = { 0 };
	struct pattern *p;

	assert_int_equal(pattern_new(str_of(pattern), true, &p, &err), -1);
	assert_int_equal(err.kind, kind);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", pattern, err.text);
}

static void invalid_patterns_are_refused(void **state)
{
	struct err err = { 0 };
	struct pattern *p;

	refused("a)|(b", ERR_INVALID, "unmatched )");
	refused("(a", ERR_INVALID, "unmatched (");
	refused("a\\", ERR_INVALID, "backslash");
	refused("[a", ERR_INVALID, "");
	refused("(a)\\1", ERR_INVALID, "references");
	refused("(a*)*", ERR_INVALID, "may be empty");
	refused("a**", ERR_INVALID, "may be empty");
	refused("(a|)+", ERR_INVALID, "may be empty");
	refused("(b?c*)+", ERR_INVALID, "may be empty");
	refused("(b|(c?)){0,}", ERR_INVALID, "may be empty");
	refused("*a", ERR_INVALID, "may be empty");
	refused("^*a", ERR_INVALID, "may be empty");
	refused("(a*|^|$)(a*|^|$)(a*|^|$)(a*|^|$)(a*|^|\\>)", ERR_LIMIT, "anchors");
	refused("((\\b){3}|a){3}", ERR_LIMIT, "anchors");
	assert_int_equal(pattern_new((struct str){ "a\0b", 3 }, true, &p, &err), -1);
}

/* Compiling any of these takes gigabytes or minutes. */
static void patterns_that_cost_too_much_are_refused(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	refused("((a{99}){99}){99}", ERR_LIMIT, "repetitions");
	refused("a{200}{200}{200}", ERR_LIMIT, "repetitions");
	refused("a{0,2000}", ERR_LIMIT, "repetitions");
	for (unsigned i = 0; i < 30; i++)
		buf_add_char(&b, '(');
	buf_add_char(&b, 'a');
	for (unsigned i = 0; i < 30; i++)
		buf_add_str(&b, STR("+)"));
	refused(buf_cstr(&b), ERR_LIMIT, "repetitions");
	b.size = 0;
	for (unsigned i = 0; i < 1000; i++)
		buf_add_char(&b, '(');
	refused(buf_cstr(&b), ERR_LIMIT, "parentheses");
	b.size = 0;
	for (unsigned i = 0; i < 5000; i++)
		buf_add_char(&b, 'a');
	refused(buf_cstr(&b), ERR_LIMIT, "bytes");
	assert_true(matches("(a{30}){30}b*", true, "") == false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_anywhere_or_the_whole_text),
		cmocka_unit_test(a_text_may_have_any_bytes),
		cmocka_unit_test(invalid_patterns_are_refused),
		cmocka_unit_test(patterns_that_cost_too_much_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
