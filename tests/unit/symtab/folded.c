/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several functions with the same code, as linkers fold them: one is visible, and the hidden ones are counted.
 */
#include "test.h"

#include "answers.h"

static void of_functions_at_one_address_always_the_same_is_visible(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	code_unit_c(&a.w, 0);
	add_function(&a, "folded", 0x1000, 0x100);
	add_function(&a, "within", 0x1040, 0x10);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1040, "within at /src/a.c:14");
	assert_answer(&a, 0x1050, "f at /src/a.c:15");
	assert_answer(&a, 0x10ff, "f at /src/a.c:25");
	/* All of "folded", and the part of f that "within" has. */
	assert_hidden(&a, 2, 0x110, 0);
}

/*
 * BOLT folds identical functions: the DIEs of all have the code, but only those of the kept one have calls with live
 * addresses, and its unit has the lines.
 */
static void of_folded_functions_the_one_with_calls_is_visible(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, 0);
	add_function(&a, "elsewhere", 0x1000, 0x100);
	code_up(&a.w);
	code_unit_end(&a.w);
	code_unit_c(&a.w, add_lines(&a));
	g = add_abstract(&a, "g");
	begin_function(&a, "folded", 0x1000, 0x100);
	add_inlined(&a, g, 0, 0x10);
	code_up(&a.w);
	begin_function(&a, "kept", 0x1000, 0x100);
	add_inlined(&a, g, 0x1010, 0x10);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "kept at /src/a.c:10");
	assert_answer(&a, 0x1010, "g at /src/a.c:11 in kept at /src/a.c:0");
	assert_hidden(&a, 2, 0x200, 0);
}

static void of_folded_functions_the_one_with_lines_is_visible(void **state)
{
	static const char *const files[] = { "b.c", NULL };
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 4;
	lines = code_lines_begin(&a.w, files);
	code_row(&a.w, 0x1800, 1, 3);
	code_sequence_end(&a.w, 0x1810);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	add_function(&a, "elsewhere", 0x1000, 0x100);
	code_up(&a.w);
	code_unit_end(&a.w);
	add_plain(&a);
	answers_open(&a);
	assert_answer(&a, 0x1010, "f at /src/a.c:11");
	assert_hidden(&a, 1, 0x100, 0);
}

static void hidden_lines_are_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	/* The lines of a function that a linker folded into f: its own description has no live address. */
	code_unit_c(&a.w, add_lines(&a));
	add_function(&a, "folded", 0, 0x100);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_hidden(&a, 0, 0, 0x100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_functions_at_one_address_always_the_same_is_visible),
		cmocka_unit_test(of_folded_functions_the_one_with_calls_is_visible),
		cmocka_unit_test(of_folded_functions_the_one_with_lines_is_visible),
		cmocka_unit_test(hidden_lines_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
