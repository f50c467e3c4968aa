/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <regex.h>
#include "base/base.h"

static bool matches(const char *pattern, bool whole, const char *text)
{
	struct err err = { 0 };
	struct pattern *p;
	bool yes;

	if (pattern_new(str_of(pattern), whole, &p, &err) < 0)
		fail_msg("%s: %s", pattern, err.text);
	yes = pattern_matches(p, str_of(text), NULL);
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
	assert_true(pattern_matches(p, (struct str){ "a\0b", 3 }, NULL));
	assert_false(pattern_matches(p, (struct str){ "a\0bc", 4 }, NULL));
	assert_true(pattern_matches(p, (struct str){ "a\0bc", 3 }, NULL));
	assert_false(pattern_matches(p, (struct str){ NULL, 0 }, NULL));
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
	refused("[[:no:]]", ERR_INVALID, "class");
	refused("[z-a]", ERR_INVALID, "empty");
	refused("[[.no.]]", ERR_INVALID, "character");
	refused("*a", ERR_INVALID, "nothing to repeat");
	refused("^*a", ERR_INVALID, "nothing to repeat");
	refused("(+a)", ERR_INVALID, "nothing to repeat");
	refused("a|{2}", ERR_INVALID, "nothing to repeat");
	refused("a{", ERR_INVALID, "{");
	refused("a{3,2}", ERR_INVALID, "{");
	refused("a{x}", ERR_INVALID, "{");
	assert_int_equal(pattern_new((struct str){ "a\0b", 3 }, true, &p, &err), -1);
}

/* With operations for each copy of a repeated part, any of these would take gigabytes. */
static void patterns_that_cost_too_much_are_refused(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };

	refused("((a{99}){99}){99}", ERR_LIMIT, "repetitions");
	refused("a{200}{200}{200}", ERR_LIMIT, "repetitions");
	refused("a{0,2000}", ERR_LIMIT, "repetitions");
	refused("a{1,40000}", ERR_LIMIT, "repetitions");
	refused("(a{0,30}){0,30}{0,30}", ERR_LIMIT, "repetitions");
	for (unsigned i = 0; i < 1000; i++)
		buf_add_char(&b, '(');
	refused(buf_cstr(&b), ERR_LIMIT, "parentheses");
	b.size = 0;
	for (unsigned i = 0; i < 5000; i++)
		buf_add_char(&b, 'a');
	refused(buf_cstr(&b), ERR_LIMIT, "bytes");
	assert_true(matches("(a{30}){30}b*", true, "") == false);
}

/* Parts that may be empty, repeated; anchors in any place. */
static void loops_around_nothing_end(void **state)
{
	assert_true(matches("(a*)*", true, "aaa"));
	assert_true(matches("a**", true, ""));
	assert_true(matches("(a|)+b", true, "aab"));
	assert_true(matches("(b?c*)+", true, "bccb"));
	assert_true(matches("((^a)|\\bb|(\\>))*", true, "a"));
	assert_false(matches("(b|(c?)){0,}", true, "bcx"));
	assert_true(matches("(a*|^|$)(a*|^|$)(a*|^|$)(a*|^|$)(a*|^|\\>)", true, ""));
}

/* So many states that none is met twice. */
static void patterns_with_many_states_take_bounded_memory(void **state)
{
	struct pattern *p;
	struct err err = { 0 };
	AUTO(mem_freep) char *text = mem_alloc(PATTERN_MAX_TEXT);
	struct deadline d = deadline_in(1000000, "a test", NULL);
	uint32_t x = 1;

	for (size_t i = 0; i < PATTERN_MAX_TEXT; i++) {
		x = x * 1664525 + 1013904223;
		text[i] = "ab"[x >> 31];
	}
	assert_done(pattern_new(STR("(a|b|aa|bb)*a((a|b)(a|b)){20}c"), false, &p, &err));
	assert_false(pattern_matches(p, (struct str){ text, PATTERN_MAX_TEXT }, &d));
	text[4095] = 'c';
	assert_true(pattern_matches(p, (struct str){ text, 4096 }, NULL) == (text[4095 - 41] == 'a'));
	/* Steps are counted: a deadline ends it. */
	d.end_mono_ms = 1;
	text[4095] = 'a';
	assert_false(pattern_matches(p, (struct str){ text, PATTERN_MAX_TEXT }, &d));
	assert_int_equal(d.state, DEADLINE_PASSED);
	pattern_free(p);
}

static void only_the_beginning_of_a_long_text_counts(void **state)
{
	size_t size = PATTERN_MAX_TEXT + 10;
	AUTO(mem_freep) char *text = mem_alloc(size);
	struct err err = { 0 };
	struct pattern *p;

	memset(text, 'a', size);
	text[size - 1] = 'z';
	assert_done(pattern_new(STR("^a+"), false, &p, &err));
	assert_true(pattern_matches(p, (struct str){ text, size }, NULL));
	pattern_free(p);
	assert_done(pattern_new(STR("z|a$"), false, &p, &err));
	assert_false(pattern_matches(p, (struct str){ text, size }, NULL));
	assert_true(pattern_matches(p, (struct str){ text, size - 10 }, NULL));
	pattern_free(p);
}

/* ---- beside the C library ---- */

static uint32_t seed = 1;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525 + 1013904223;
	return (unsigned)(((uint64_t)seed * n) >> 32);
}

/*
 * Anchors, the last five, not in parentheses: the C library (2.36) finds "([b-]{0,2}(\\<a{0,2})\\bb){2}\\W" in
 * "b.bb._b.--_", where no two words are beside each other.
 */
#define N_ANCHORS 5
static void random_pattern(struct buf *b, unsigned depth)
{
	static const char *const atoms[] = { "a",    "b",      "ab",    "_",           ".",    "[ab]",
					     "[^a]", "[a-c_]", "[]a]",  "[[:alpha:]]", "\\w",  "\\W",
					     "\\s",  "\\.",    "[^]-]", " ",           "[b-]", "\\bb",
					     "a\\>", "\\<a",   "^a",    "b$" };
	static const char *const more[] = { "*", "+", "?", "{2}", "{0,2}", "{1,}", "{,2}", "*?" };

	for (unsigned n = 1 + dice(3); n--;) {
		if (depth < 3 && dice(4) == 0) {
			buf_add_char(b, '(');
			random_pattern(b, depth + 1);
			buf_add_char(b, ')');
		} else {
			buf_add_str(
				b,
				str_of(atoms[dice((unsigned)ARRAY_SIZE(atoms) - (depth ? N_ANCHORS : 0))]));
			if (b->p[b->size - 1] == '$' || b->p[b->size - 1] == '>')
				continue;
		}
		if (dice(3) == 0)
			buf_add_str(b, str_of(more[dice(ARRAY_SIZE(more))]));
		if (n && dice(5) == 0)
			buf_add_char(b, '|');
	}
}

static void the_c_library_agrees(void **state)
{
	unsigned n_matched = 0, n = 0;

	for (unsigned i = 0; i < 4000; i++) {
		AUTO(buf_done) struct buf b = { 0 };
		struct err err = { 0 };
		struct pattern *p;
		regex_t re;

		random_pattern(&b, 0);
		assert_int_equal(regcomp(&re, buf_cstr(&b), REG_EXTENDED | REG_NOSUB), 0);
		if (pattern_new(buf_str(&b), false, &p, &err) < 0)
			fail_msg("%s: %s", buf_cstr(&b), err.text);
		for (unsigned k = 0; k < 12; k++) {
			char text[12];
			unsigned size = dice(sizeof(text));
			bool ours, theirs;

			for (unsigned at = 0; at < size; at++)
				text[at] = "aab bc_.]-"[dice(10)];
			text[size] = '\0';
			ours = pattern_matches(p, (struct str){ text, size }, NULL);
			theirs = regexec(&re, text, 0, NULL, 0) == 0;
			if (ours != theirs)
				fail_msg("%s matches '%s': %d here, %d there", buf_cstr(&b), text, ours,
					 theirs);
			n_matched += ours;
			n++;
		}
		pattern_free(p);
		regfree(&re);
	}
	assert_in_range(n_matched, n / 5, n - n / 5);
}

static void patterns_of_go_are_rewritten(void **state)
{
	static const struct {
		const char *re2, *yes, *no;
	} all[] = {
		{ "web-\\d+", "web-17", "web-d" },
		{ "(?:a|b)c", "bc", "b" },
		{ "(?P<x>a)(?<y>b)", "ab", "a" },
		{ "a.*?b+?c??d{2,3}?", "axxbdd", "abd" },
		{ "[\\d_]+", "1_2", "d" },
		{ "[a\\-c]", "-", "b" },
		{ "[a-c]", "b", "-" },
		{ "[]x]", "]", "y" },
		{ "[^\\]\\\\]", "x", "\\" },
		{ "[\\w.]+", "a_9.", "-" },
		{ "[[:digit:]\\s]+", "1 2", "a" },
		{ "[-a]|[b-]", "-", "c" },
		{ "\\Qa.b\\E.", "a.bc", "axbc" },
		{ "a{x}", "a{x}", "a" },
		{ "a{x}?", "a{x", "a" },
		{ "a\\.b\\x2e", "a.b.", "axb." },
		{ "\\Aa\\z", "a", "aa" },
		{ "(?s).", "\n", "" },
		{ "a|", "", "b" },
		{ "\\D\\W\\S", "a-b", "1-b" },
		{ "a/b\\/c\\-\\_", "a/b/c-_", "a" },
	};
	static const char *const refused[] = { "(?i)a", "\\pL", "\\x{41}", "[\xc3\xa4]", "\\",
					       "[\\D]", "[a",   "(?=a)",   "\\1" };
	AUTO(buf_done) struct buf b = { 0 };
	struct pattern *p;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		b.size = 0;
		if (pattern_from_re2(str_of(all[i].re2), &b, &err) < 0 ||
		    pattern_new(buf_str(&b), true, &p, &err) < 0)
			fail_msg("%s: %s", all[i].re2, err.text);
		if (!pattern_matches(p, str_of(all[i].yes), NULL) ||
		    pattern_matches(p, str_of(all[i].no), NULL))
			fail_msg("%s became %s", all[i].re2, buf_cstr(&b));
		pattern_free(p);
	}
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_fails(pattern_from_re2(str_of(refused[i]), &b, &err), ERR_INVALID, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_anywhere_or_the_whole_text),
		cmocka_unit_test(a_text_may_have_any_bytes),
		cmocka_unit_test(invalid_patterns_are_refused),
		cmocka_unit_test(patterns_that_cost_too_much_are_refused),
		cmocka_unit_test(loops_around_nothing_end),
		cmocka_unit_test(patterns_with_many_states_take_bounded_memory),
		cmocka_unit_test(only_the_beginning_of_a_long_text_counts),
		cmocka_unit_test(the_c_library_agrees),
		cmocka_unit_test(patterns_of_go_are_rewritten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
