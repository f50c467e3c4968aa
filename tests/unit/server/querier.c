/* SPDX-License-Identifier: Apache-2.0 */
/* querier.v1 without a server: messages of requests, and trees as levels of bars. */
#include "test.h"

#include "server/querier/querier.h"
#include "wire/proto.h"

/* ---- messages ---- */

static void put_site(struct buf *out, uint32_t field, const char *const *names, size_t n)
{
	AUTO(buf_done) struct buf selector = { 0 };
	AUTO(buf_done) struct buf location = { 0 };

	for (size_t i = 0; i < n; i++) {
		proto_put_str(&location, 1, str_of(names[i]));
		proto_put_message(&selector, 1, &location);
	}
	proto_put_message(out, field, &selector);
}

static void fields_are_read_by_their_table(void **state)
{
	static const char *const site[] = { "main", "run" };
	AUTO(buf_done) struct buf b = { 0 };
	struct querier_request q = { 0 };
	struct err err = { 0 };

	proto_put_str(&b, 1, STR("a:b:c:d:e"));
	proto_put_str(&b, 2, STR("{x=\"y\"}"));
	proto_put_number(&b, 3, (uint64_t)-5);
	proto_put_number(&b, 4, UINT64_C(1795000000000));
	put_site(&b, 7, site, 2);
	proto_put_str(&b, 8, STR("17"));
	proto_put_str(&b, 99, STR("of a later version"));
	proto_put_double(&b, 5, 1.5); /* of another wire type */
	assert_done(querier_read(buf_bytes(&b), &querier_v1_select_merge_stacktraces, &q, &err));
	assert_true(str_eq(q.type_id, STR("a:b:c:d:e")) && q.matchers.n == 1 && q.profile_ids.n == 1);
	assert_true(q.start_ms == -5 && q.end_ms == INT64_C(1795000000000) && !q.max_nodes);
	assert_true(q.call_site.n == 2 && str_eq(q.call_site.v[1], STR("run")));
	q = (struct querier_request){ 0 };
	b.size = 0;
	proto_put_double(&b, 6, 1.5);
	proto_put_str(&b, 5, STR("host"));
	proto_put_str(&b, 5, STR(""));
	proto_put_bytes(&b, 5, "", 0);
	assert_done(querier_read(buf_bytes(&b), &querier_v1_select_series, &q, &err));
	assert_true(q.step > 1.4 && q.step < 1.6 && q.names.n == 2 && !q.names.v[1].size);
}

/* A message with this field alone, of a value that is not zero. */
static void put_one(const struct rpc_field *f, struct buf *out)
{
	AUTO(buf_done) struct buf inner = { 0 };

	switch (f->kind) {
	case RPC_STRING:
		proto_put_str(out, f->number, STR("value"));
		break;
	case RPC_DOUBLE:
		proto_put_double(out, f->number, 1.5);
		break;
	case RPC_MESSAGE:
		assert_int_equal(f->message->n, 1);
		put_one(&f->message->fields[0], &inner);
		proto_put_message(out, f->number, &inner);
		break;
	default:
		proto_put_number(out, f->number, 7);
	}
}

/* A field that JSON and reflection know, and that the reader drops, would be a setting without an effect. */
static void each_field_of_a_request_is_kept(void **state)
{
	static const struct rpc_method *const calls[] = {
		&querier_v1_profile_types,        &querier_v1_label_names,
		&querier_v1_label_values,         &querier_v1_series,
		&querier_v1_select_series,        &querier_v1_select_merge_stacktraces,
		&querier_v1_select_merge_profile, &querier_v1_analyze_query,
	};
	static const struct querier_request none;
	static struct querier_request q;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		for (size_t k = 0; k < calls[i]->request->n; k++) {
			const struct rpc_field *f = &calls[i]->request->fields[k];
			AUTO(buf_done) struct buf b = { 0 };
			struct err err = { 0 };

			memset(&q, 0, sizeof(q));
			put_one(f, &b);
			assert_done(querier_read(buf_bytes(&b), calls[i], &q, &err));
			if (memcmp(&q, &none, sizeof(q)) == 0)
				fail_msg("%s: %s is dropped", calls[i]->request->name, f->name);
		}
}

static void bad_messages_are_refused(void **state)
{
	static const uint8_t early[] = { 0x0a, 5, 'a' }, group[] = { 0x0b }, inner[] = { 0x3a, 2, 0x0a, 7 };
	AUTO(buf_done) struct buf b = { 0 };
	struct querier_request q = { 0 };
	struct err err = { 0 };

	assert_fails(
		querier_read(bytes_of(early, sizeof(early)), &querier_v1_select_merge_stacktraces, &q, &err),
		ERR_INVALID, "message");
	assert_fails(
		querier_read(bytes_of(group, sizeof(group)), &querier_v1_select_merge_stacktraces, &q, &err),
		ERR_INVALID, "message");
	assert_fails(
		querier_read(bytes_of(inner, sizeof(inner)), &querier_v1_select_merge_stacktraces, &q, &err),
		ERR_INVALID, "message");
	for (unsigned i = 0; i <= QUERIER_MAX_TEXTS; i++)
		proto_put_str(&b, 1, STR("{}"));
	assert_fails(querier_read(buf_bytes(&b), &querier_v1_label_names, &q, &err), ERR_LIMIT,
		     "more than 64");
}

/* ---- levels ---- */

static struct profile *profile_of_values(void)
{
	struct profile *p = profile_new(NULL);

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	return p;
}

static void add_stack(struct profile *p, const char *const *names, size_t n, int64_t value)
{
	uint32_t stack = 0;

	for (size_t i = 0; i < n; i++) {
		struct profile_function f = { .name = profile_add_string(p, str_of(names[i])) };
		struct profile_line line = { .function = profile_add_function(p, &f) };
		struct profile_location l = { .mapping = PROFILE_NONE };

		stack = profile_add_stack(p, stack, profile_add_location(p, &l, &line, 1));
	}
	profile_add_sample(p, stack, 0, &value);
}

static void put_varints(struct buf *text, struct bytes b)
{
	struct cursor c = cursor_of(b);

	while (cursor_left(&c))
		buf_printf(text, " %lld", (long long)cursor_uleb(&c));
}

/* "total f g|0 9 0 0|0 9 4 1|..."; then the numbers. */
static void assert_graph(struct profile_tree *t, const char *want)
{
	AUTO(buf_done) struct buf message = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct budget_hold hold = { 0 };
	struct proto_field f = { 0 }, values = { 0 };
	struct err err = { 0 };
	struct cursor c;

	budget_hold_init(&hold, NULL, BUDGET_QUERY);
	assert_done(querier_put_levels(t, &hold, &message, &err));
	budget_hold_done(&hold);
	for (c = cursor_of(buf_bytes(&message)); proto_next(&c, &f);) {
		if (f.number == 1)
			buf_printf(&text, " " STR_FMT, STR_ARG(proto_text(&f)));
		if (f.number == 2) {
			struct cursor level = cursor_of(f.b);

			assert_true(proto_next(&level, &values));
			buf_add_str(&text, STR(" |"));
			put_varints(&text, values.b);
		}
		if (f.number > 2)
			buf_printf(&text, " %u=%lld", f.number, (long long)f.v);
	}
	assert_true(cursor_ok(&c));
	assert_string_equal(buf_cstr(&text), want);
}

static struct profile_tree *tree_of(struct profile *p, struct profile *base, uint32_t max_nodes)
{
	const struct profile_view view = { .max_nodes = max_nodes };
	struct profile_tree *t;
	struct err err = { 0 };

	assert_done(profile_build_end(p, &err));
	assert_done(profile_tree_new(&view, NULL, &t, &err));
	assert_done(profile_tree_add(t, p, 0, 0, 1, &err));
	if (base)
		assert_done(profile_tree_add(t, base, 0, 1, 1, &err));
	assert_done(profile_tree_end(t, &err));
	return t;
}

static void bars_are_below_their_callers(void **state)
{
	static const char *const f[] = { "f" }, *const fg[] = { "f", "g" }, *const h[] = { "h" },
				 *const hg[] = { "h", "g" };
	AUTO(profile_freep) struct profile *p = profile_of_values();
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;

	add_stack(p, f, 1, 4);
	add_stack(p, fg, 2, 6);
	add_stack(p, h, 1, 2);
	add_stack(p, hg, 2, 1);
	t = tree_of(p, NULL, 0);
	/* g of h begins 2 after the end of g of f. */
	assert_graph(t, " total f g h | 0 13 0 0 | 0 10 4 1 0 3 2 3 | 4 6 6 2 2 1 1 2 3=13 4=6");
}

static void negative_values_make_no_bars(void **state)
{
	static const char *const f[] = { "f" }, *const fg[] = { "f", "g" }, *const h[] = { "h" };
	AUTO(profile_freep) struct profile *p = profile_of_values();
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;

	add_stack(p, f, 1, -4);
	add_stack(p, fg, 2, 10);
	add_stack(p, h, 1, -3);
	t = tree_of(p, NULL, 0);
	assert_graph(t, " total f g | 0 3 0 0 | 0 3 0 1 | 0 3 3 2 3=3 4=3");
}

static void left_out_nodes_and_deep_ones_are_other(void **state)
{
	static const char *names[QUERIER_MAX_LEVELS + 10];
	static const char *const a[] = { "a" }, *const b[] = { "b" };
	AUTO(profile_freep) struct profile *p = profile_of_values(), *deep = profile_of_values();
	AUTO(profile_tree_freep) struct profile_tree *t = NULL, *t2 = NULL;
	AUTO(buf_done) struct buf message = { 0 };
	struct budget_hold hold;
	struct proto_field f;
	struct err err = { 0 };
	unsigned n_levels = 0;
	struct cursor c;

	add_stack(p, a, 1, 9);
	add_stack(p, b, 1, 3);
	t = tree_of(p, NULL, 1);
	assert_graph(t, " total other | 0 12 0 0 | 0 12 12 1 3=12 4=12");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		names[i] = "f";
	add_stack(deep, names, ARRAY_SIZE(names), 5);
	t2 = tree_of(deep, NULL, 0);
	budget_hold_init(&hold, NULL, BUDGET_QUERY);
	assert_done(querier_put_levels(t2, &hold, &message, &err));
	budget_hold_done(&hold);
	for (c = cursor_of(buf_bytes(&message)); proto_next(&c, &f);)
		n_levels += f.number == 2;
	assert_int_equal(n_levels, QUERIER_MAX_LEVELS + 1);
}

static void a_comparison_has_two_sides(void **state)
{
	static const char *const f[] = { "f" }, *const g[] = { "g" };
	AUTO(profile_freep) struct profile *p = profile_of_values(), *base = profile_of_values();
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct err err = { 0 };

	add_stack(p, f, 1, 4);
	add_stack(base, f, 1, 1);
	add_stack(base, g, 1, 2);
	assert_done(profile_build_end(base, &err));
	t = tree_of(p, base, 0);
	assert_graph(t, " total f g | 0 4 0 0 3 0 0 | 0 4 4 0 1 1 1 0 0 0 0 2 2 2 3=7 4=4 5=4 6=3");
}

static void all_nodes_are_in_a_tree(void **state)
{
	static const char *const f[] = { "f" }, *const fg[] = { "f", "g" };
	static const uint8_t want[] = { 0, 0, 1, 1, 'f', 4, 1, 1, 'g', 6, 0 };
	AUTO(profile_freep) struct profile *p = profile_of_values();
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf b = { 0 };

	add_stack(p, f, 1, 4);
	add_stack(p, fg, 2, 6);
	t = tree_of(p, NULL, 0);
	querier_put_tree(t, &b);
	assert_int_equal(b.size, sizeof(want));
	assert_memory_equal(b.p, want, sizeof(want));
}

/* Their callees have more than they have. */
static void sums_that_are_cut_off_have_no_rest(void **state)
{
	static const char *const f[] = { "f" }, *const g[] = { "g" }, *const h[] = { "h" };
	AUTO(profile_freep) struct profile *p = profile_of_values();
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct cursor c;

	add_stack(p, f, 1, INT64_MAX);
	add_stack(p, g, 1, INT64_MAX);
	add_stack(p, h, 1, INT64_MAX);
	t = tree_of(p, NULL, 0);
	querier_put_tree(t, &b);
	for (c = cursor_of(buf_bytes(&b)); cursor_left(&c);) {
		struct bytes name = cursor_bytes(&c, cursor_uleb(&c));
		uint64_t self = cursor_uleb(&c), n_callees = cursor_uleb(&c);

		buf_printf(&text, "%.*s %lld %llu|", (int)name.size, (const char *)name.p, (long long)self,
			   (unsigned long long)n_callees);
	}
	assert_true(cursor_ok(&c));
	assert_string_equal(buf_cstr(&text),
			    " 0 3|f 9223372036854775807 0|g 9223372036854775807 0|h 9223372036854775807 0|");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_read_by_their_table),
		cmocka_unit_test(each_field_of_a_request_is_kept),
		cmocka_unit_test(bad_messages_are_refused),
		cmocka_unit_test(bars_are_below_their_callers),
		cmocka_unit_test(negative_values_make_no_bars),
		cmocka_unit_test(left_out_nodes_and_deep_ones_are_other),
		cmocka_unit_test(a_comparison_has_two_sides),
		cmocka_unit_test(all_nodes_are_in_a_tree),
		cmocka_unit_test(sums_that_are_cut_off_have_no_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
