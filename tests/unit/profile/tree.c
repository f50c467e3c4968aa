/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "profile/filter.h"
#include "profile/input.h"
#include "profile/output.h"
#include "profile_maker.h"

static struct profile *folded(const char *text)
{
	struct profile *p = NULL;
	struct err err = { 0 };

	assert_done(profile_read(bytes_of(text, strlen(text)), PROFILE_FORMAT_FOLDED, NULL, &p, &err));
	return p;
}

static struct profile_tree *tree_of(const struct profile *p, const struct profile_view *view)
{
	struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	return t;
}

static void assert_folded(const char *in, const struct profile_view *view, const char *want)
{
	AUTO(profile_freep) struct profile *p = folded(in);
	AUTO(profile_tree_freep) struct profile_tree *t = tree_of(p, view);
	AUTO(buf_done) struct buf b = { 0 };

	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&b), want);
}

static const char example[] = "main;a;b 3\nmain;a;c 2\nmain;a 1\nmain;d;a;b 4\n";

static void a_tree_of_everything(void **state)
{
	assert_folded(example, &(struct profile_view){ 0 },
		      "main;a 1\nmain;a;b 3\nmain;a;c 2\nmain;d;a;b 4\n");
}

static void filters(void **state)
{
	assert_folded(example, &(struct profile_view){ .focus = "^d$" }, "main;d;a;b 4\n");
	assert_folded(example, &(struct profile_view){ .ignore = "^(c|d)$" }, "main;a 1\nmain;a;b 3\n");
	assert_folded(example, &(struct profile_view){ .hide = "^a$" },
		      "main 1\nmain;d;b 4\nmain;b 3\nmain;c 2\n");
	assert_folded(example, &(struct profile_view){ .show = "^[bc]$" }, "[no stack] 1\nb 7\nc 2\n");
	assert_folded(example, &(struct profile_view){ .invert = true },
		      "b;a;d;main 4\nb;a;main 3\nc;a;main 2\na;main 1\n");
}

/* a.c: main; b.c: f, and g that is inlined into f. Both are in /bin/app. */
static struct profile *filed(void)
{
	struct profile *p = profile_new(NULL);
	uint32_t names[3], stack = 0;
	struct profile_mapping m = { .start = 0x1000, .limit = 0x2000 };
	const int64_t one = 1, two = 2;

	profile_add_type(p, STR("samples"), STR("count"));
	m.file = profile_add_string(p, STR("/bin/app"));
	m.build_id = profile_add_string(p, STR("1dead5"));
	for (unsigned i = 0; i < 3; i++) {
		struct profile_function f = { .file = profile_add_string(p, i ? STR("b.c") : STR("a.c")) };

		f.name = profile_add_string(p, i == 0 ? STR("main") : i == 1 ? STR("f") : STR("g"));
		names[i] = profile_add_function(p, &f);
	}
	for (unsigned i = 0; i < 2; i++) {
		const struct profile_line lines[] = { { .function = names[i ? 2 : 0], .line = 7 },
						      { .function = names[1], .line = 8 } };
		const struct profile_location l = { .mapping = profile_add_mapping(p, &m),
						    .addr = 0x1010 + i };

		stack = profile_add_stack(p, stack, profile_add_location(p, &l, lines, i + 1));
		profile_add_sample(p, stack, 0, i ? &two : &one);
	}
	return p;
}

static void filters_select_the_same_samples_in_every_view(void **state)
{
	static const struct {
		const char *pattern;
		int64_t focus, ignore;
	} cases[] = {
		{ "^g$", 2, 1 },   { "^f$", 2, 1 }, { "^b[.]c$", 2, 1 }, { "^main$", 3, 0 },
		{ "/app$", 3, 0 }, { "x1", 0, 3 },  { "dead", 0, 3 },    { "c:7", 0, 3 },
	};
	AUTO(profile_freep) struct profile *p = filed();

	for (enum profile_group by = PROFILE_BY_FUNCTION; by <= PROFILE_BY_ADDRESS; by++)
		for (size_t i = 0; i < 8 * ARRAY_SIZE(cases); i++) {
			const char *pattern = cases[i / 8].pattern;
			bool focus = i % 2;
			AUTO(profile_tree_freep)
			struct profile_tree *t = tree_of(
				p, &(struct profile_view){ .by = by,
							   .invert = i / 2 % 2,
							   .no_inlines = i / 4 % 2,
							   .focus = focus ? pattern : NULL,
							   .ignore = focus ? NULL : pattern });
			struct profile_node root;

			profile_tree_node(t, 0, &root);
			assert_int_equal(root.total[0], focus ? cases[i / 8].focus : cases[i / 8].ignore);
		}
}

/* "Focus" of the page: of a line or an address, too, but no part of their text. Another view selects the same. */
static void the_text_of_a_frame_selects_its_samples(void **state)
{
	static const struct {
		const char *pattern;
		int64_t focus;
	} cases[] = {
		{ "^main a\\.c:7$", 3 }, { "^f b\\.c:8$", 2 },  { "^f b.c:8$", 2 },
		{ "^f b\\.c:8\\$", 0 },  { "^f b\\.c:.*$", 0 }, { "^f b\\.c", 0 },
		{ "^app\\+0x10$", 3 },   { "^app\\+0x11$", 2 }, { "^app\\+0x1$", 0 },
	};
	AUTO(profile_freep) struct profile *p = filed();

	for (enum profile_group by = PROFILE_BY_FUNCTION; by <= PROFILE_BY_ADDRESS; by++)
		for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
			const char *pattern = cases[i / 2].pattern;
			bool focus = i % 2;
			AUTO(profile_tree_freep)
			struct profile_tree *t = tree_of(
				p, &(struct profile_view){ .by = by,
							   .focus = focus ? pattern : NULL,
							   .ignore = focus ? NULL : pattern });
			struct profile_node root;

			profile_tree_node(t, 0, &root);
			assert_int_equal(root.total[0], focus ? cases[i / 2].focus : 3 - cases[i / 2].focus);
		}
}

/* "Focus" on what a view shows for a function, a file or a binary that is not known. No part of these texts selects. */
static void what_is_not_known_selects_its_samples_in_every_view(void **state)
{
	static const struct {
		const char *pattern;
		int64_t focus;
	} cases[] = {
		{ "^unknown$", 2 }, { "^unknown file$", 6 }, { "^unknown binary$", 8 }, { "unknown", 0 },
		{ "^$", 0 },
	};
	AUTO(profile_freep) struct profile *p = profile_new(NULL);
	struct profile_mapping m = { .limit = 0x1000, .file = profile_add_string(p, STR("/bin/app")) };

	profile_add_type(p, STR("samples"), STR("count"));
	/* Without a name, 2; without a file, 2 and 4; without a binary, 8. */
	for (int64_t i = 1; i <= 8; i *= 2) {
		struct profile_function f = { .name = i == 2 ? 0 : profile_add_string(p, STR("f")),
					      .file = i == 2 || i == 4 ? 0
								       : profile_add_string(p, STR("f.c")) };
		const struct profile_line line = { .function = profile_add_function(p, &f), .line = i };
		const struct profile_location l = { .mapping = i == 8 ? PROFILE_NONE
								      : profile_add_mapping(p, &m),
						    .addr = (uint64_t)i };

		profile_add_sample(p, profile_add_stack(p, 0, profile_add_location(p, &l, &line, 1)), 0, &i);
	}
	for (enum profile_group by = PROFILE_BY_FUNCTION; by <= PROFILE_BY_ADDRESS; by++)
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			AUTO(profile_tree_freep)
			struct profile_tree *t = tree_of(
				p, &(struct profile_view){ .by = by, .focus = cases[i].pattern });
			struct profile_node root;

			profile_tree_node(t, 0, &root);
			assert_int_equal(root.total[0], cases[i].focus);
		}
}

/* One that stands for an inlined call and its caller is hidden if both are. */
static void frames_are_hidden_by_their_functions(void **state)
{
	static const struct {
		struct profile_view view;
		const char *want;
	} cases[] = {
		{ { .by = PROFILE_BY_LINE, .hide = "^f$" }, "main a.c:7 1\nmain a.c:7;g b.c:7 2\n" },
		{ { .by = PROFILE_BY_FILE, .hide = "^main$" }, "[no stack] 1\nb.c 2\n" },
		{ { .by = PROFILE_BY_BINARY, .hide = "^(main|f)$" }, "[no stack] 1\n/bin/app 2\n" },
		{ { .by = PROFILE_BY_BINARY, .hide = "^(main|f|g)$" }, "[no stack] 3\n" },
	};
	AUTO(profile_freep) struct profile *p = filed();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(profile_tree_freep) struct profile_tree *t = tree_of(p, &cases[i].view);
		AUTO(buf_done) struct buf b = { 0 };

		profile_write_folded(t, &(struct profile_output){ 0 }, &b);
		assert_string_equal(buf_cstr(&b), cases[i].want);
	}
}

static void what_a_pattern_needs(void **state)
{
	static const struct {
		const char *pattern;
		unsigned needs;
	} cases[] = {
		{ NULL, 0 },
		{ "", 0 },
		{ "$", 0 },
		{ "^$", 0 },
		{ "f b.c:8", 0 },
		{ "^parse$", 0 },
		{ "^f (b|c):8$", 0 },
		{ "^f b\\.c:8$", PROFILE_FILTERS_LINES },
		{ "^f b\\.c:-8$", PROFILE_FILTERS_LINES },
		{ "^f b.c:.$", PROFILE_FILTERS_LINES },
		{ "^f\\sb.c:\\w\\>$", PROFILE_FILTERS_LINES },
		{ "^f b\\.c:\\.$", 0 },
		{ "^f b\\.c:$", 0 },
		{ "^f b\\.c:8\\$", 0 },
		{ "^ns::dead$", 0 },
		{ "^a ns::dead$", 0 },
		{ "^app\\+0x1f$", PROFILE_FILTERS_ADDRESSES },
		{ "^app.0x1.$", PROFILE_FILTERS_ADDRESSES },
		{ "^0x0$", PROFILE_FILTERS_ADDRESSES },
		{ "^0x$", 0 },
		{ "^app\\+0x1F$", 0 },
		{ "^Lambda/0x1f$", 0 },
		{ "^matrix1$", 0 },
		{ "^...$", PROFILE_FILTERS_LINES | PROFILE_FILTERS_ADDRESSES },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(profile_filter_needs(cases[i].pattern), cases[i].needs);
}

/* Bytes of the text of a line or an address, some of them escaped, or any byte. */
static void whole_patterns_need_what_they_match(void **state)
{
	static const char *const texts[] = {
		"f b.c:8",  "f b.c:-120",          " :0",       "a b:c::d e.c:99", "0x0",
		"app+0x1f", "+0xdeadbeef00112233", "a+0x1+0x2", "unknown+0xa"
	};
	uint64_t seed = 1;

	for (unsigned i = 0; i < 2000; i++) {
		const char *text = texts[i % ARRAY_SIZE(texts)];
		AUTO(buf_done) struct buf b = { 0 };
		struct pattern *p = NULL;
		struct err err = { 0 };

		buf_add_char(&b, '^');
		for (const char *c = text; *c; c++) {
			uint64_t way = profile_maker_next(&seed) % 4;

			if (way && strchr("+.", *c))
				buf_add_char(&b, '\\');
			buf_add_char(&b, way ? *c : '.');
		}
		buf_add_char(&b, '$');
		assert_done(pattern_new(str_of(buf_cstr(&b)), false, &p, &err));
		assert_true(pattern_matches(p, str_of(text), NULL));
		assert_true(profile_filter_needs(buf_cstr(&b)) &
			    (strstr(text, "0x") ? PROFILE_FILTERS_ADDRESSES : PROFILE_FILTERS_LINES));
		pattern_free(p);
	}
}

static void a_bad_pattern_is_an_error(void **state)
{
	struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_fails(profile_tree_new(&(struct profile_view){ .hide = "(" }, NULL, &t, &err), ERR_INVALID,
		     "hide: '('");
}

static uint32_t frame_named(const struct profile_tree *t, const char *name)
{
	for (uint32_t i = 0; i < profile_tree_n_frames(t); i++) {
		struct profile_frame f;

		profile_tree_frame(t, i, &f);
		if (str_eq(f.name, str_of(name)))
			return i;
	}
	fail_msg("there is no %s", name);
	return 0;
}

static int64_t cum_of(struct profile_top *top, uint32_t n, uint32_t frame)
{
	for (uint32_t i = 0; i < n; i++)
		if (top[i].frame == frame)
			return top[i].cum[0];
	return 0;
}

static void recursion_counts_once(void **state)
{
	AUTO(profile_freep) struct profile *p = folded("main;f;f;g;f 5\nmain;f;g 2\nmain 1\n");
	AUTO(profile_tree_freep) struct profile_tree *t = tree_of(p, &(struct profile_view){ 0 });
	uint32_t f = frame_named(t, "f"), g = frame_named(t, "g"), n;
	struct profile_top *top = profile_tree_top(t, true, &n);

	assert_int_equal(n, 3);
	assert_int_equal(top[0].frame, frame_named(t, "main"));
	assert_int_equal(top[0].cum[0], 8);
	assert_int_equal(cum_of(top, n, f), 7);
	assert_int_equal(cum_of(top, n, g), 7);
	free(top);
	top = profile_tree_callers(t, g, &n);
	assert_int_equal(n, 1);
	assert_int_equal(cum_of(top, n, f), 7);
	free(top);
	top = profile_tree_callees(t, f, &n);
	assert_int_equal(cum_of(top, n, f), 5);
	assert_int_equal(cum_of(top, n, g), 7);
	free(top);
	top = profile_tree_callers(t, f, &n);
	assert_int_equal(cum_of(top, n, frame_named(t, "main")), 7);
	assert_int_equal(cum_of(top, n, g), 5);
	free(top);
}

static void totals_are_sums(void **state)
{
	for (uint64_t seed = 0; seed < 6; seed++) {
		const struct profile_maker m = { seed, 1, 300, 100, 25, seed == 5 };
		AUTO(profile_freep) struct profile *p = profile_make(&m);

		for (enum profile_group by = PROFILE_BY_FUNCTION; by <= PROFILE_BY_ADDRESS; by++) {
			const struct profile_view views[] = { { .by = by },
							      { .by = by, .invert = true },
							      { .by = by, .label = "key 0" },
							      { .by = by, .no_inlines = true } };

			for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
				AUTO(profile_tree_freep) struct profile_tree *t = tree_of(p, &views[i]);
				struct profile_node root, node;
				int64_t self = 0;

				profile_tree_node(t, 0, &root);
				for (uint32_t k = 0; k < profile_tree_n(t); k++) {
					profile_tree_node(t, k, &node);
					self += node.self[0];
					assert_true(k == 0 || node.parent < k);
				}
				assert_int_equal(root.total[0], profile_total(p, 0));
				assert_int_equal(self, profile_total(p, 0));
			}
		}
	}
}

/* Merging profiles first, or adding them to the tree one after the other, gives the same. */
static void trees_merge(void **state)
{
	AUTO(profile_freep) struct profile *both = profile_new(NULL);
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(profile_tree_freep) struct profile_tree *of_both = NULL;
	AUTO(buf_done) struct buf a = { 0 };
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err));
	for (uint64_t seed = 0; seed < 4; seed++) {
		const struct profile_maker m = { seed, 1, 100, 50, 10, false };
		AUTO(profile_freep) struct profile *p = profile_make(&m);

		assert_done(profile_merge(both, p, 1, &err));
		assert_done(profile_tree_add(t, p, 1, 0, 1, &err));
	}
	assert_done(profile_tree_end(t, &err));
	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &of_both, &err));
	assert_done(profile_tree_add(of_both, both, 1, 0, 1, &err));
	assert_done(profile_tree_end(of_both, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, &a);
	profile_write_folded(of_both, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&a), buf_cstr(&b));
}

static void values_of_other_units_are_not_added(void **state)
{
	const struct profile_maker m = { 1, 1, 100, 50, 10, false };
	AUTO(profile_freep) struct profile *p = profile_make(&m);
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct err err = { 0 };

	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_fails(profile_tree_add(t, p, 1, 0, 1, &err), ERR_INVALID, "has the unit nanoseconds");
	assert_fails(profile_tree_add(t, p, 2, 0, 1, &err), ERR_INVALID, "no such sample type");
}

static void labels_are_roots(void **state)
{
	AUTO(profile_freep) struct profile *p = folded("main;f 1\n");
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	const struct profile_label l[] = {
		{ .key = profile_add_string(p, STR("thread")), .str = profile_add_string(p, STR("io;1")) },
		{ .key = profile_add_string(p, STR("size")),
		  .num = 64,
		  .unit = profile_add_string(p, STR("bytes")) },
	};

	profile_add_sample(p, p->sample_stack[0], profile_add_labels(p, l, 2), (int64_t[]){ 5 });
	t = tree_of(p, &(struct profile_view){ .label = "thread" });
	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&b), "io:1;main;f 5\n(no label);main;f 1\n");
	profile_tree_freep(&t);
	b.size = 0;
	t = tree_of(p, &(struct profile_view){ .label = "size" });
	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&b), "64 bytes;main;f 5\n(no label);main;f 1\n");
}

static void two_profiles_are_compared(void **state)
{
	AUTO(profile_freep) struct profile *p = folded("main;f 3\nmain;g 2\n");
	AUTO(profile_freep) struct profile *base = folded("main;f 1\nmain;h 4\n");
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_add(t, base, 0, 1, 1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_folded(t, &(struct profile_output){ 0 }, &b);
	assert_string_equal(buf_cstr(&b), "main;f 1 3\nmain;g 0 2\nmain;h 4 0\n");
}

static void names_are_escaped(void **state)
{
	AUTO(profile_freep) struct profile *p = folded("</script><b>\"&'\xff;x\x01\xe2\x80\xa8 7\n");
	AUTO(profile_tree_freep) struct profile_tree *t = tree_of(p, &(struct profile_view){ 0 });
	AUTO(buf_done) struct buf b = { 0 };
	const struct profile_output o = { .title = "<i>" };

	profile_write_svg(t, &o, &b);
	assert_null(strstr(buf_cstr(&b), "<b>"));
	assert_null(strstr(buf_cstr(&b), "<i>"));
	assert_non_null(strstr(buf_cstr(&b), "&lt;/script&gt;&lt;b&gt;&quot;&amp;&#39;\xef\xbf\xbd"));
	b.size = 0;
	profile_write_html(t, &o, &b);
	assert_null(strstr(buf_cstr(&b), "<b>"));
	assert_non_null(strstr(buf_cstr(&b), "\\u003c/script\\u003e\\u003cb\\u003e\\\"\\u0026'\xef\xbf\xbd"));
	assert_non_null(strstr(buf_cstr(&b), "x\\u0001\\u2028"));
	b.size = 0;
	profile_write_speedscope(t, &o, &b);
	assert_non_null(strstr(buf_cstr(&b), "\"samples\":[[0,1]],\"weights\":[7]"));
	b.size = 0;
	profile_write_top(t, &o, &b);
	assert_null(strchr(buf_cstr(&b), '\x01'));
}

/* As those of a difference: "a" has 60 in all. */
static void callees_larger_than_their_caller_are_drawn_within_it(void **state)
{
	AUTO(profile_freep)
	struct profile *p = folded("a;x 100\na;y 80\nb;z 50\n"), *less = folded("a;w 120\n");
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	struct err err = { 0 };

	assert_done(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_add(t, less, 0, 0, -1, &err));
	assert_done(profile_tree_end(t, &err));
	profile_write_svg(t, &(struct profile_output){ 0 }, &b);
	assert_non_null(
		strstr(buf_cstr(&b), "data-x=\"0.000000\" data-w=\"0.545455\" data-d=\"1\"><title>a (60"));
	assert_non_null(
		strstr(buf_cstr(&b), "data-x=\"0.000000\" data-w=\"0.303030\" data-d=\"2\"><title>x (100"));
	assert_non_null(
		strstr(buf_cstr(&b), "data-x=\"0.303030\" data-w=\"0.242424\" data-d=\"2\"><title>y (80"));
	assert_non_null(
		strstr(buf_cstr(&b), "data-x=\"0.545455\" data-w=\"0.454545\" data-d=\"2\"><title>z (50"));
}

static void deep_trees_need_no_stack(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };

	for (unsigned i = 0; i < PROFILE_MAX_DEPTH; i++)
		buf_printf(&text, "%sf%u", i ? ";" : "", i % 10);
	buf_add_str(&text, STR(" 1\n"));
	p = folded(buf_cstr(&text));
	t = tree_of(p, &(struct profile_view){ 0 });
	profile_write_svg(t, &(struct profile_output){ 0 }, &out);
	out.size = 0;
	profile_write_html(t, &(struct profile_output){ 0 }, &out);
	text.size -= 3;
	buf_add_str(&text, STR(";x 1\n"));
	profile_freep(&p);
	p = NULL;
	assert_fails(profile_read_folded(buf_str(&text), NULL, &p, &err), ERR_LIMIT, "deeper than 65536");
}

static void values_have_units(void **state)
{
	static const struct {
		int64_t v;
		const char *unit, *text;
	} cases[] = { { 12, "count", "12" },
		      { 999, "nanoseconds", "999ns" },
		      { 1500000, "nanoseconds", "1.50ms" },
		      { 90000000000, "nanoseconds", "1.50min" },
		      { -2048, "bytes", "-2.00kB" },
		      { 5, "", "5" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf b = { 0 };

		profile_value_text(cases[i].v, str_of(cases[i].unit), &b);
		assert_string_equal(buf_cstr(&b), cases[i].text);
	}
}

/* ---- deadlines ---- */

/* 200 samples with stacks of 1000 frames each. */
static struct profile *deep_profile(void)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (unsigned i = 0; i < 200; i++) {
		buf_printf(&b, "root%u", i);
		for (unsigned k = 0; k < 1000; k++)
			buf_printf(&b, ";f%u", k);
		buf_printf(&b, " 1\n");
	}
	return folded(buf_cstr(&b));
}

/* 8000 short stacks of 60 functions: the stacks take nearly all of the time. */
static struct profile *wide_profile(void)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (unsigned i = 0; i < 8000; i++)
		buf_printf(&b, "a%u;b%u;c%u 1\n", i / 400, i / 20 % 20, i % 20);
	return folded(buf_cstr(&b));
}

static void a_passed_deadline_ends_every_view(void **state)
{
	static const struct profile_view views[] = { { 0 },
						     { .invert = true },
						     { .label = "service" },
						     { .focus = "^f99" },
						     { .by = PROFILE_BY_LINE } };
	AUTO(profile_freep) struct profile *deep = deep_profile();
	AUTO(profile_freep) struct profile *wide = wide_profile();

	for (size_t i = 0; i < 2 * ARRAY_SIZE(views); i++) {
		const struct profile_view *view = &views[i / 2];
		struct deadline d = deadline_in(0, "the query", NULL);
		const struct profile_limits limits = { .deadline = &d };
		AUTO(profile_tree_freep) struct profile_tree *t = NULL;
		struct err err = { 0 };

		assert_done(profile_tree_new(view, &limits, &t, &err));
		assert_fails(profile_tree_add(t, i % 2 ? wide : deep, 0, 0, 1, &err), ERR_CANCELLED,
			     "took longer than");
	}
}

static void a_deadline_ends_the_walk_of_a_tree(void **state)
{
	AUTO(profile_freep) struct profile *p = deep_profile();
	struct deadline d = deadline_in(1000000, "the query", NULL);
	const struct profile_limits limits = { .deadline = &d };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(mem_freep) struct profile_top *top = NULL;
	struct err err = { 0 };
	uint32_t n;

	assert_done(profile_tree_new(&(struct profile_view){ 0 }, &limits, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	assert_done(profile_tree_end(t, &err));
	d.end_mono_ms = 1;
	top = profile_tree_top(t, false, &n);
	assert_true(n < 1200);
	assert_fails(deadline_check(&d, 0, &err), ERR_CANCELLED, "took longer than");
}

static void order_of_long_names_is_found_by_their_beginnings(void **state)
{
	AUTO(mem_freep) char *same = mem_alloc(1 << 20);
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct profile_node root;

	/* Rows with equal values whose names differ in the last byte only: in the order of their first use. */
	memset(same, 'x', 1 << 20);
	for (unsigned i = 3; i-- > 0;)
		buf_printf(&b, "%.*s%u 1\n", 1 << 20, same, i);
	p = folded(buf_cstr(&b));
	t = tree_of(p, &(struct profile_view){ 0 });
	profile_tree_node(t, 0, &root);
	assert_int_equal(root.n_children, 3);
	for (unsigned i = 0; i < 3; i++) {
		struct profile_node n;
		struct profile_frame f;

		profile_tree_node(t, root.children[i], &n);
		profile_tree_frame(t, n.frame, &f);
		assert_int_equal(f.name.p[f.name.size - 1], '2' - (int)i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_passed_deadline_ends_every_view),
		cmocka_unit_test(a_deadline_ends_the_walk_of_a_tree),
		cmocka_unit_test(order_of_long_names_is_found_by_their_beginnings),
		cmocka_unit_test(a_tree_of_everything),
		cmocka_unit_test(filters),
		cmocka_unit_test(filters_select_the_same_samples_in_every_view),
		cmocka_unit_test(the_text_of_a_frame_selects_its_samples),
		cmocka_unit_test(what_is_not_known_selects_its_samples_in_every_view),
		cmocka_unit_test(frames_are_hidden_by_their_functions),
		cmocka_unit_test(what_a_pattern_needs),
		cmocka_unit_test(whole_patterns_need_what_they_match),
		cmocka_unit_test(a_bad_pattern_is_an_error),
		cmocka_unit_test(recursion_counts_once),
		cmocka_unit_test(totals_are_sums),
		cmocka_unit_test(trees_merge),
		cmocka_unit_test(values_of_other_units_are_not_added),
		cmocka_unit_test(labels_are_roots),
		cmocka_unit_test(two_profiles_are_compared),
		cmocka_unit_test(names_are_escaped),
		cmocka_unit_test(callees_larger_than_their_caller_are_drawn_within_it),
		cmocka_unit_test(deep_trees_need_no_stack),
		cmocka_unit_test(values_have_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
