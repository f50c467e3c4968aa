/* SPDX-License-Identifier: Apache-2.0 */
/* The streams in tests/data/arrow are pyarrow's, but for parca_agent.arrows, which is that of the agent's writer in Go. */
#include "test.h"

#include "arrow/arrow.h"
#include "base/file.h"

static const struct arrow_limits limits = { .max_size = 1 << 20 };

static void read_data(const char *name, struct buf *ret)
{
	char path[512];
	struct err err;

	snprintf(path, sizeof(path), "%s/arrow/%s", getenv("LODE_TEST_DATA"), name);
	assert_done(file_read(path, 1 << 20, ret, &err));
}

/* ---- a row as text ---- */

static void put_row(struct buf *out, struct arrow_array *a, uint64_t i)
{
	uint64_t first, n;
	struct arrow_array *child;
	struct bytes b;

	if (!arrow_follow(&a, &i)) {
		buf_add_str(out, STR("-"));
		return;
	}
	switch (a->field->kind) {
	case ARROW_BOOL:
	case ARROW_INT:
		buf_printf(out, "%lld", (long long)arrow_number(a, i));
		break;
	case ARROW_LIST:
	case ARROW_LIST_VIEW:
		child = arrow_list(a, i, &first, &n);
		buf_add_char(out, '[');
		for (uint64_t k = 0; k < n; k++) {
			if (k)
				buf_add_char(out, ' ');
			put_row(out, child, first + k);
		}
		buf_add_char(out, ']');
		break;
	case ARROW_STRUCT:
		child = a + 1;
		buf_add_char(out, '{');
		for (uint32_t k = 0; k < a->field->n_children; k++) {
			buf_printf(out, "%s" STR_FMT ":", k ? " " : "", STR_ARG(child->field->name));
			put_row(out, child, i);
			child += 1 + child->field->n_below;
		}
		buf_add_char(out, '}');
		break;
	case ARROW_OTHER:
		buf_add_char(out, '?');
		break;
	default:
		b = arrow_bytes(a, i);
		buf_printf(out, "'%.*s'", (int)b.size, (const char *)b.p);
	}
}

static void assert_column(struct arrow_stream *s, const char *name, const char *want)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct arrow_array *a = arrow_column(s, str_of(name));
	uint64_t indices[16];

	assert_non_null(a);
	assert_true(arrow_rows(s) <= ARRAY_SIZE(indices));
	arrow_indices(a, 0, arrow_rows(s), indices);
	for (uint64_t i = 0; i < arrow_rows(s); i++) {
		uint64_t index;

		assert_true(indices[i] == (arrow_index(a, i, &index) ? index : ARROW_NO_INDEX));
		if (i)
			buf_add_str(&out, STR(", "));
		put_row(&out, a, i);
	}
	if (!str_eq(buf_str(&out), str_of(want)))
		fail_msg("%s is %s, not %s", name, buf_cstr(&out), want);
}

static void values_of_all_types(void **state)
{
	static const char *const names[] = { "types_plain.arrows", "types_lz4.arrows", "types_zstd.arrows" };
	static const char *const columns[][2] = {
		{ "b", "1, -, 0" },
		{ "int8", "1, -, 100" },
		{ "uint16", "1, -, 100" },
		{ "int32", "1, -, 100" },
		{ "uint64", "1, -, 100" },
		{ "neg", "-1, -2, -" },
		{ "text", "'a', -, 'long text of more than twelve bytes'" },
		{ "large", "'x', '', -" },
		{ "view", "'short', -, 'long text of more than twelve bytes'" },
		{ "bview", "'twelve bytes', 'thirteen byte', ''" },
		{ "fixed", "'0123', -, '4567'" },
		{ "time", "1, 2, 3" },
		{ "f", "?, -, ?" },
		{ "null", "-, -, -" },
		{ "list", "[1 2], -, [3]" },
		{ "llist", "[1], [], [3 4]" },
		{ "lview", "['y' 'z'], ['x' 'y' 'z'], []" },
		{ "struct", "{p:1 q:'u'}, -, {p:3 q:'v'}" },
		{ "runs", "'one', 'two', 'two'" },
		{ "dict", "'one', -, 'zero'" },
		{ "map", "[{key:'k' value:1}], [], -" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO(buf_done) struct buf in = { 0 };
		struct arrow_stream *s;
		struct err err;

		read_data(names[i], &in);
		assert_done(arrow_open(buf_bytes(&in), &limits, &s, &err));
		assert_str(arrow_metadata(s, STR("key")), "value");
		assert_str(arrow_metadata(s, STR("other")), "");
		assert_done(arrow_next(s, &err));
		assert_int_equal(arrow_rows(s), 3);
		for (size_t k = 0; k < ARRAY_SIZE(columns); k++)
			assert_column(s, columns[k][0], columns[k][1]);
		assert_null(arrow_column(s, STR("none")));
		assert_int_equal(arrow_next(s, &err), ARROW_END);
		arrow_close(s);
	}
}

static void dictionaries_with_deltas_and_replacements(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct arrow_stream *s;
	uint64_t index;
	struct err err;

	read_data("deltas.arrows", &in);
	assert_done(arrow_open(buf_bytes(&in), &limits, &s, &err));
	assert_done(arrow_next(s, &err));
	assert_column(s, "d", "'a', 'b'");
	assert_done(arrow_next(s, &err));
	assert_column(s, "d", "'c', 'a'");
	assert_true(arrow_index(arrow_column(s, STR("d")), 0, &index) && index == 2);
	assert_done(arrow_next(s, &err));
	assert_column(s, "d", "'z'");
	assert_int_equal(arrow_next(s, &err), ARROW_END);
	arrow_close(s);
}

static void packed_rows(void **state)
{
	static const char *const names[] = { "rows_lz4.arrows", "rows_zstd.arrows" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO(buf_done) struct buf in = { 0 };
		struct arrow_stream *s;
		struct err err;

		read_data(names[i], &in);
		assert_done(arrow_open(buf_bytes(&in), &limits, &s, &err));
		assert_done(arrow_next(s, &err));
		assert_int_equal(arrow_rows(s), 600);
		for (uint64_t k = 0; k < 600; k++) {
			char text[32];

			snprintf(text, sizeof(text), "row %u", (unsigned)k / 10);
			assert_int_equal(arrow_value(arrow_column(s, STR("n")), k), k);
			assert_str(arrow_text(arrow_column(s, STR("t")), k), text);
		}
		arrow_close(s);
	}
}

static void a_sample_of_parcas_agent(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct arrow_stream *s;
	struct err err;

	read_data("parca_agent.arrows", &in);
	assert_done(arrow_open(buf_bytes(&in), &limits, &s, &err));
	assert_str(arrow_metadata(s, STR("parca_write_schema_version")), "v2");
	assert_done(arrow_next(s, &err));
	assert_int_equal(arrow_rows(s), 6);
	assert_column(s, "value", "1, 2, 1, 2, 1, 2");
	assert_column(s, "producer",
		      "'parca_agent', 'parca_agent', 'parca_agent', 'parca_agent', 'parca_agent', 'memory'");
	assert_column(s, "temporality", "'delta', 'delta', 'delta', 'delta', 'delta', -");
	arrow_close(s);
}

/* ---- damage ---- */

static void read_all(struct bytes in, const struct arrow_limits *l)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct arrow_stream *s = NULL;
	struct err err;

	if (arrow_open(in, l, &s, &err) < 0)
		return;
	while (arrow_next(s, &err) == 0)
		;
	arrow_close(s);
}

static void every_cut_and_changed_byte_is_survived(void **state)
{
	static const char *const names[] = { "types_zstd.arrows", "deltas.arrows" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO(buf_done) struct buf in = { 0 };

		read_data(names[i], &in);
		for (size_t k = 0; k < in.size; k += 3) {
			AUTO(mem_freep) uint8_t *copy = mem_alloc(in.size);

			memcpy(copy, in.p, in.size);
			read_all(bytes_of(copy, k), &limits);
			copy[k] ^= (uint8_t)(1 + k % 255);
			read_all(bytes_of(copy, in.size), &limits);
		}
	}
}

static void memory_is_granted_and_returned(void **state)
{
	AUTO(buf_done) struct buf in = { 0 };
	struct budget_hold hold;
	struct arrow_limits l = { .hold = &hold, .max_size = 1 << 20 };
	struct arrow_stream *s;
	struct err err;

	read_data("rows_lz4.arrows", &in);
	budget_hold_init(&hold, NULL, BUDGET_PROFILE);
	assert_done(arrow_open(buf_bytes(&in), &l, &s, &err));
	assert_done(arrow_next(s, &err));
	assert_true(hold.used > 600 * 8);
	arrow_close(s);
	assert_int_equal(hold.used, 0);
	hold.max = 1000;
	assert_done(arrow_open(buf_bytes(&in), &l, &s, &err));
	assert_fails(arrow_next(s, &err), ERR_LIMIT, "message 2");
	arrow_close(s);
	assert_int_equal(hold.used, 0);
	budget_hold_done(&hold);
	l = (struct arrow_limits){ .max_size = 1000 };
	assert_done(arrow_open(buf_bytes(&in), &l, &s, &err));
	assert_fails(arrow_next(s, &err), ERR_LIMIT, "message 2: its buffers have more than 1000 bytes");
	arrow_close(s);
}

static void no_stream(void **state)
{
	struct arrow_stream *s;
	struct err err;

	assert_fails(arrow_open(bytes_of("", 0), &limits, &s, &err), ERR_INVALID, "no stream of Arrow");
	assert_fails(arrow_open(bytes_of("ARROW1\0\0", 8), &limits, &s, &err), ERR_INVALID,
		     "does not begin as a message");
	assert_fails(arrow_open(bytes_of("\xff\xff\xff\xff\x08\0\0\0", 8), &limits, &s, &err), ERR_INVALID,
		     "cut off");
	assert_fails(
		arrow_open(bytes_of("\xff\xff\xff\xff\x04\0\0\0\xff\xff\xff\xff", 12), &limits, &s, &err),
		ERR_INVALID, "damaged");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_all_types),
		cmocka_unit_test(dictionaries_with_deltas_and_replacements),
		cmocka_unit_test(packed_rows),
		cmocka_unit_test(a_sample_of_parcas_agent),
		cmocka_unit_test(every_cut_and_changed_byte_is_survived),
		cmocka_unit_test(memory_is_granted_and_returned),
		cmocka_unit_test(no_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
