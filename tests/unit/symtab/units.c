/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units of each version, target and layout; units that cannot be read, and units whose other file is missing.
 */
#include "test.h"

#include "answers.h"

static void every_version_target_and_offset_size(void **state)
{
	for (unsigned version = 2; version <= 5; version++)
		for (int target = 0; target < ELF_WRITER_N_TARGETS; target++)
			for (int dwarf64 = 0; dwarf64 < 2; dwarf64++) {
				AUTO(answers_done) struct answers a;

				answers_init(&a, target, ET_DYN);
				a.w.version = version;
				a.w.dwarf64 = dwarf64;
				/* DWARF 2 and 3 have no constant class of high_pc. */
				code_unit_c(&a.w, add_lines(&a));
				code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRP, S("f"), A_LOW, F_ADDR,
					 U(0x1000), A_HIGH, F_ADDR, U(0x1100), 0u);
				code_up(&a.w);
				code_unit_end(&a.w);
				answers_open(&a);
				assert_answer(&a, 0xfff, "-");
				assert_answer(&a, 0x1000, "f at /src/a.c:10");
				assert_answer(&a, 0x10ff, "f at /src/a.c:25");
				assert_answer(&a, 0x1100, "-");
			}
}

static void abbreviations_in_any_order_and_without_an_end(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.abbrev_step = 1000000007;
	a.w.no_terminator = true;
	add_plain(&a);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
}

/* The unit's root and its other DIEs have different readers, and both have to find the abbreviations after this one. */
static void an_abbreviation_with_a_number_of_over_64_bits_ends_no_table(void **state)
{
	/* Code 127, a variable without children, its value an implicit constant of 71 bits. */
	static const uint8_t unused[] = { 0x7f, 0x34, 0,    0x1c, 0x21, 0x80, 0x80, 0x80, 0x80,
					  0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0,    0 };
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf table = { 0 };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	buf_add_str(&table, buf_str(&a.w.abbrev));
	a.w.abbrev.size = 0;
	buf_add(&a.w.abbrev, unused, sizeof(unused));
	buf_add_str(&a.w.abbrev, buf_str(&table));
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

static void a_missing_supplementary_file_is_reported(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_ORIGIN, F_GNU_REF_ALT, U(0x55), A_LOW, F_ADDR, U(0x1000),
		 A_HIGH, F_DATA4, U(0x20), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, " at /src/a.c:10");
	assert_true(symtab_info(a.t)->flags & SYMTAB_ALT_MISSING);
}

static void a_missing_split_file_leaves_lines_and_symbols(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
	code_unit_begin(&a.w);
	code_die(&a.w, T_COMPILE, false, A_DWO_NAME, F_STRING, S("a.dwo"), A_COMP_DIR, F_STRING, S("/src"),
		 A_LOW, F_ADDR, U(0x1000), A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), 0u);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1040, " at /src/a.c:14");
	assert_true(symtab_info(a.t)->flags & SYMTAB_SPLIT_MISSING);
}

/* The rest of the file is used, and the skipped unit is listed. */
static void damage_in_one_unit_loses_only_that_unit(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, UINT32_MAX);
	add_function(&a, "before", 0x1200, 0x10);
	buf_add_uleb(&a.w.info, 9999); /* a missing abbreviation */
	code_unit_end(&a.w);
	add_plain(&a);
	answers_open(&a);
	assert_answer(&a, 0x1200, "before");
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_int_equal(symtab_info(a.t)->n_skipped, 2);
	assert_true(symtab_info(a.t)->flags & SYMTAB_PARTIAL);
	assert_non_null(memmem(symtab_info(a.t)->skipped[1].p, symtab_info(a.t)->skipped[1].size,
			       "abbreviation", 12));
}

static void a_unit_of_too_deep_dies_is_skipped(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	add_function(&a, "f", 0x1000, 0x10);
	for (unsigned i = 0; i < DWARF_MAX_DEPTH + 10; i++)
		code_die(&a.w, T_BLOCK, true, 0u);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_target_and_offset_size),
		cmocka_unit_test(abbreviations_in_any_order_and_without_an_end),
		cmocka_unit_test(an_abbreviation_with_a_number_of_over_64_bits_ends_no_table),
		cmocka_unit_test(a_missing_supplementary_file_is_reported),
		cmocka_unit_test(a_missing_split_file_leaves_lines_and_symbols),
		cmocka_unit_test(damage_in_one_unit_loses_only_that_unit),
		cmocka_unit_test(a_unit_of_too_deep_dies_is_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
