/* SPDX-License-Identifier: Apache-2.0 */
/* tests/data/python/lines.txt has tables of real interpreters, with the lines that they read out of them. */
#include "test.h"

#include "agent/python_lines.h"
#include "base/file.h"

static size_t check_ranges(enum python_lines_kind kind, struct bytes table, uint32_t first, struct str ranges)
{
	uint64_t at = 0, end, line;
	size_t n = 0;

	while (ranges.size) {
		struct str range = str_cut(&ranges, ',');

		assert_true(str_to_u64(str_cut(&range, ':'), &end));
		assert_true(str_to_u64(range, &line));
		for (; at < end; at += 2, n++)
			assert_int_equal(python_line(kind, table, first, (int64_t)at), line ? line : first);
	}
	return n;
}

static void lines_are_those_of_the_interpreter(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct str rest;
	struct err err;
	size_t n = 0;

	char path[512];

	snprintf(path, sizeof(path), "%s/python/lines.txt", getenv("LODE_TEST_DATA"));
	assert_done(file_read(path, MIB(1), &text, &err));
	rest = buf_str(&text);
	while (rest.size) {
		struct str line = str_cut(&rest, '\n');
		struct str version = str_word(&line), first = str_word(&line), hex = str_word(&line);
		AUTO(buf_done) struct buf table = { 0 };
		uint64_t number;

		assert_true(str_to_u64(first, &number));
		for (size_t i = 0; i + 1 < hex.size; i += 2) {
			char digits[3] = { hex.p[i], hex.p[i + 1], '\0' };

			buf_add_char(&table, (char)strtoul(digits, NULL, 16));
		}
		n += check_ranges(str_eq(version, STR("3.9"))    ? PYTHON_LNOTAB
				  : str_eq(version, STR("3.10")) ? PYTHON_RANGES
								 : PYTHON_LOCATIONS,
				  buf_bytes(&table), (uint32_t)number, str_word(&line));
	}
	assert_true(n > 1000);
}

static void tables_that_end_early_have_the_first_line(void **state)
{
	static const uint8_t bytes[][4] = { { 0xf0 },
					    { 0xe8, 0x7f, 0x7f, 0x7f },
					    { 0xff, 0xff, 0xff, 0xff } };

	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++)
		assert_int_equal(python_line(PYTHON_LOCATIONS, bytes_of(bytes[i], 4), 7, 1000), 7);
	for (unsigned kind = PYTHON_LNOTAB; kind <= PYTHON_LOCATIONS; kind++) {
		assert_int_equal(python_line(kind, bytes_of(NULL, 0), 7, 0), 7);
		assert_int_equal(python_line(kind, bytes_of(bytes[2], 4), 7, -2), 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_those_of_the_interpreter),
		cmocka_unit_test(tables_that_end_early_have_the_first_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
