/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses in unusual forms, and descriptions that cannot be read: none is dropped without being counted.
 */
#include "test.h"

#include "answers.h"

#define BYTES(text) ((uint64_t)(uintptr_t) & (struct bytes){ (const uint8_t *)(text), sizeof(text) - 1 })

/* The first reason and the number of losses. */
static void assert_lost(struct answers *a, uint64_t n, const char *why)
{
	const struct symtab_info *info = symtab_info(a->t);
	AUTO(buf_done) struct buf all = { 0 };

	for (size_t i = 0; i < info->n_reasons; i++)
		buf_printf(&all, STR_FMT "\n", STR_ARG(info->skipped[i]));
	if (info->n_skipped != n || !strstr(buf_cstr(&all), why))
		fail_msg("%llu lost: %s", (unsigned long long)info->n_skipped, buf_cstr(&all));
	assert_int_equal(a->stats.n_skipped, n);
	assert_true(info->flags & SYMTAB_PARTIAL);
}

/* .debug_addr with one address, as clang's -minimize-addr-in-v5 makes it. */
static void begin_unit(struct answers *a, unsigned low_form, uint64_t low)
{
	a->w.version = 5;
	elf_writer_put(&a->w.elf, &a->w.addr, 12, 4);
	buf_add(&a->w.addr, "\x05\0\x08\0", 4);
	elf_writer_put(&a->w.elf, &a->w.addr, 0x1000, 8);
	code_unit_begin(&a->w);
	code_die(&a->w, T_COMPILE, true, A_NAME, F_STRING, S("a.c"), A_COMP_DIR, F_STRING, S("/src"), A_LOW,
		 low_form, low, A_STMT_LIST, F_SEC_OFFSET, add_lines(a), A_ADDR_BASE, F_SEC_OFFSET, U(8), 0u);
}

static void unit_done(struct answers *a)
{
	code_up(&a->w);
	code_unit_end(&a->w);
	answers_open(a);
}

static void addresses_by_index_and_offset(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	begin_unit(&a, F_LLVM_ADDRX_OFFSET, 0x10);
	g = add_abstract(&a, "g");
	code_die(&a.w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("f"), A_LOW, F_LLVM_ADDRX_OFFSET, U(0x20),
		 A_HIGH, F_DATA4, U(0x40), 0u);
	code_die(&a.w, T_BLOCK, true, A_LOW, F_LLVM_ADDRX_OFFSET, U(0x30), A_HIGH, F_DATA4, U(0x10), 0u);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, g, A_LOW, F_LLVM_ADDRX_OFFSET, U(0x30), A_HIGH,
		 F_LLVM_ADDRX_OFFSET, U(0x40), A_CALL_LINE, F_DATA1, U(7), 0u);
	code_up(&a.w);
	code_up(&a.w);
	/* Ranges count from the unit's own address. */
	buf_add(&a.w.rnglists, "\x10\0\0\0\x05\0\x08\0\0\0\0\0\x04\x70\x80\x01\0", 17);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("h"), A_RANGES, F_SEC_OFFSET, U(12), 0u);
	unit_done(&a);
	assert_answer(&a, 0x1020, "f at /src/a.c:12");
	assert_answer(&a, 0x1030, "g at /src/a.c:13 in f at /src/a.c:7");
	assert_answer(&a, 0x1040, "f at /src/a.c:14");
	assert_answer(&a, 0x1080, "h at /src/a.c:18");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

static void addresses_by_expression(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	begin_unit(&a, F_EXPRLOC, BYTES("\xa1\0"));
	g = add_abstract(&a, "g");
	/* addrx 0, const4u 0x20, plus; addr, lit16, minus; addrx, plus_uconst */
	code_die(&a.w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("f"), A_LOW, F_EXPRLOC,
		 BYTES("\xa1\0\x0c\x20\0\0\0\x22"), A_HIGH, F_DATA4, U(0x40), 0u);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, g, A_LOW, F_EXPRLOC,
		 BYTES("\x03\x40\x10\0\0\0\0\0\0\x40\x1c"), A_HIGH, F_EXPRLOC, BYTES("\xa1\0\x23\x40"),
		 A_CALL_LINE, F_DATA1, U(7), 0u);
	code_up(&a.w);
	unit_done(&a);
	assert_answer(&a, 0x1020, "f at /src/a.c:12");
	assert_answer(&a, 0x1030, "g at /src/a.c:13 in f at /src/a.c:7");
	assert_answer(&a, 0x1040, "f at /src/a.c:14");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

/* Each in a function of its own, before a good one. */
static void a_function_whose_address_cannot_be_read_is_counted(void **state)
{
	const struct {
		unsigned form;
		uint64_t value;
		const char *why;
	} cases[] = {
		{ F_ADDRX, 9, ".debug_addr lacks its address" },
		{ F_LLVM_ADDRX_OFFSET, U(9) << 32, ".debug_addr lacks its address" },
		{ F_EXPRLOC, BYTES("\x9f"), "lacks its address" },     /* an unknown operation */
		{ F_EXPRLOC, BYTES("\x22"), "lacks its address" },     /* nothing to add */
		{ F_EXPRLOC, BYTES("\x0c\x20"), "lacks its address" }, /* a cut operand */
		{ F_EXPRLOC, BYTES(""), "lacks its address" },
		{ F_STRING, S("x"), "attribute 0x11 in form 0x8" },
		{ F_REF4, 5, "attribute 0x11 in form 0x13" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		begin_unit(&a, F_ADDRX, 0);
		for (int n = 0; n < 3; n++)
			code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("lost"), A_LOW, cases[i].form,
				 cases[i].value, A_HIGH, F_DATA4, U(0x10), 0u);
		add_function(&a, "f", 0x1020, 0x10);
		unit_done(&a);
		assert_answer(&a, 0x1000, " at /src/a.c:10");
		assert_answer(&a, 0x1020, "f at /src/a.c:12");
		assert_lost(&a, 3, cases[i].why);
		assert_lost(&a, 3, "; 2 more in this unit");
	}
}

static void an_address_without_an_end_is_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	begin_unit(&a, F_ADDRX, 0);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("lost"), A_LOW, F_ADDR, U(0x1000), 0u);
	/* Not one that the linker dropped. */
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("dead"), A_LOW, F_ADDR, U(0), 0u);
	unit_done(&a);
	assert_lost(&a, 1, "its code has no end");
}

/* A bad list costs its DIE, not the rest of the unit, and not the ranges before the damage. */
static void a_damaged_list_costs_its_function_alone(void **state)
{
	static const struct {
		const char *list, *why;
		size_t size;
		bool is_used;
	} cases[] = {
		{ "\x04\x00\x10\x09\0", "unknown entry 9", 5, true },
		{ "\x02\x07\x07\x04\x00\x10\0", ".debug_addr has no entry 7", 7, true },
		{ "\x03\x07\x07\x04\x00\x10\0", ".debug_addr has no entry 7", 7, true },
		{ "\x01\x07\x04\x00\x10\0", ".debug_addr has no entry 7", 6, false },
		{ "\x04\x00\x10\x07", "ends within the list", 4, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		begin_unit(&a, F_ADDRX, 0);
		buf_add(&a.w.rnglists, "\x10\0\0\0\x05\0\x08\0\0\0\0\0", 12);
		buf_add(&a.w.rnglists, cases[i].list, cases[i].size);
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_RANGES, F_SEC_OFFSET, U(12),
			 0u);
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("g"), A_RANGES, F_SEC_OFFSET, U(9999),
			 0u);
		add_function(&a, "h", 0x1020, 0x10);
		unit_done(&a);
		assert_answer(&a, 0x1000, cases[i].is_used ? "f at /src/a.c:10" : " at /src/a.c:10");
		assert_answer(&a, 0x1020, "h at /src/a.c:12");
		assert_lost(&a, 2, cases[i].why);
	}
}

static void a_list_of_version_4_without_an_end_is_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 4;
	code_unit_c(&a.w, add_lines(&a));
	elf_writer_put(&a.w.elf, &a.w.ranges, 0x1000, 8);
	elf_writer_put(&a.w.elf, &a.w.ranges, 0x1010, 8);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_RANGES, F_SEC_OFFSET, U(0), 0u);
	unit_done(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_lost(&a, 1, ".debug_ranges ends within the list at 0");
}

/* Its size is not known, so the unit cannot be read further; the functions before it and other units can, also with
 * the same table of abbreviations. */
static void an_unknown_form_ends_the_unit_where_it_is(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = add_lines(&a);
	code_unit_c(&a.w, lines);
	add_function(&a, "f", 0x1000, 0x10);
	code_die(&a.w, 0x34, false, A_NAME, 0x2345u, U(0), 0u);
	add_function(&a, "lost", 0x1010, 0x10);
	code_up(&a.w);
	code_unit_end(&a.w);
	add_unit(&a, lines, "g", 0x1020, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1010, " at /src/a.c:11");
	assert_answer(&a, 0x1020, "g at /src/a.c:12");
	assert_lost(&a, 1, "unknown form 0x2345 of attribute 0x3");
}

static void a_unit_of_an_unknown_type_is_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	a.w.unit_type = 0x80;
	add_unit(&a, add_lines(&a), "f", 0x1000, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "-");
	assert_lost(&a, 1, "unit of unknown type 128");
}

static void calls_of_functions_that_cannot_be_found_are_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	begin_function(&a, "f", 0x1000, 0x40);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, U(0xffffff), A_LOW, F_ADDR, U(0x1010), A_HIGH,
		 F_DATA4, U(0x10), 0u);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_DATA4, U(1), A_LOW, F_ADDR, U(0x1020), A_HIGH, F_DATA4,
		 U(0x10), 0u);
	code_up(&a.w);
	unit_done(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_lost(&a, 2, "its function is past the unit");
}

static void calls_inlined_into_no_function_are_counted(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	g = add_abstract(&a, "g");
	add_inlined(&a, g, 0x1000, 0x10);
	code_die(&a.w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("declared"), 0u);
	add_inlined(&a, g, 0x1010, 0x10);
	/* One that the linker dropped, and one without addresses. */
	add_inlined(&a, g, 0, 0x10);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, g, 0u);
	code_up(&a.w);
	add_function(&a, "f", 0x1020, 0x10);
	unit_done(&a);
	assert_answer(&a, 0x1000, " at /src/a.c:10");
	assert_answer(&a, 0x1020, "f at /src/a.c:12");
	assert_lost(&a, 2, "a call that is inlined into no function");
}

static void names_that_cannot_be_read_are_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRX, S("f"), A_LOW, F_ADDR, U(0x1000), A_HIGH, F_DATA4,
		 U(0x10), 0u);
	a.w.str_offsets.size = 0;
	unit_done(&a);
	assert_answer(&a, 0x1000, " at /src/a.c:10");
	assert_lost(&a, 1, "its name cannot be read");
}

/* The plain name is used, but the linkage name would have said more. */
static void a_linkage_name_that_cannot_be_read_is_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LINKAGE, F_STRX, S("_Z1fv"), A_LOW,
		 F_ADDR, U(0x1000), A_HIGH, F_DATA4, U(0x10), 0u);
	a.w.str_offsets.size = 0;
	unit_done(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_lost(&a, 1, "its name cannot be read");
}

static void code_that_ends_before_it_starts_is_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, U(0x1020), A_HIGH,
		 F_ADDR, U(0x1010), 0u);
	/* Overflow; and the same of code that was dropped, which is no loss. */
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, U(0x1020), A_HIGH,
		 F_DATA8, UINT64_MAX - 0x100, 0u);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, UINT64_MAX, A_HIGH,
		 F_DATA4, U(0x10), 0u);
	unit_done(&a);
	assert_answer(&a, 0x1020, " at /src/a.c:12");
	assert_lost(&a, 2, "its code ends before it starts");
}

/* A linker writes -1 for the address of code that it drops: offsets from that are no addresses of other code. */
static void ranges_from_a_dropped_address_are_dropped(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	begin_unit(&a, F_ADDRX, 0);
	buf_add(&a.w.rnglists, "\x20\0\0\0\x05\0\x08\0\0\0\0\0", 12);
	buf_add(&a.w.rnglists, "\x05\xff\xff\xff\xff\xff\xff\xff\xff\x04\x81\x20\x91\x20\0", 15);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("dropped"), A_RANGES, F_SEC_OFFSET, U(12),
		 0u);
	unit_done(&a);
	assert_answer(&a, 0x1000, " at /src/a.c:10");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

/* ---- line programs ---- */

static void open_lines(struct answers *a, const char *program, size_t size)
{
	uint64_t lines;

	answers_init(a, ELF_WRITER_X86_64, ET_DYN);
	lines = code_lines_begin(&a->w, (const char *const[]){ "a.c", NULL });
	code_row(&a->w, 0x1000, 1, 1);
	code_row(&a->w, 0x1010, 1, 2);
	buf_add(&a->w.line, program, size);
	code_lines_end(&a->w);
	add_unit(a, lines, "f", 0x1000, 0x100);
	answers_open(a);
	assert_answer(a, 0x1000, "f at /src/a.c:1");
}

static void parts_of_line_programs_are_counted(void **state)
{
#define END "\x02\x10\0\x01\x01" /* 16 bytes on, end_sequence */
	static const struct {
		const char *program, *why;
		size_t size;
	} cases[] = {
#define CASE(text, why) { text, why, sizeof(text) - 1 }
		CASE("\0\x02\x85x" END, "unknown extended opcode 133"),
		CASE("\0\x04\x02xxx" END, "an address of bytes: 3"),
		CASE("\0\0" END, "an extended opcode of bytes: 0"),
		CASE("\x01", "the last row has no end, after rows: 2"),
#undef CASE
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(answers_done) struct answers a;

		open_lines(&a, cases[i].program, cases[i].size);
		assert_lost(&a, 1, cases[i].why);
		assert_lost(&a, 1, "line table at ");
	}
}

static void zeros_after_a_sequence_are_padding(void **state)
{
	AUTO(answers_done) struct answers a;

	open_lines(&a, END "\0\0\0\0", 9);
	assert_answer(&a, 0x101f, "f at /src/a.c:2");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

/* Zig leaves room for more rows in it. */
static void opcodes_of_padding_are_no_loss(void **state)
{
	AUTO(answers_done) struct answers a;

	open_lines(&a, "\0\x05\0xxxx" END, 12);
	assert_answer(&a, 0x1010, "f at /src/a.c:2");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

static void a_row_of_a_file_that_the_table_lacks_is_counted(void **state)
{
	AUTO(answers_done) struct answers a;

	open_lines(&a, "\x04\x4d\x02\x10\x01" END, 10); /* file 77 */
	assert_answer(&a, 0x1020, "f");
	assert_lost(&a, 1, "no file 77");
}

/* A function whose code others cut into thousands of parts: each part needs the rows again. */
static void rows_repeated_too_often_are_counted(void **state)
{
	static const char *const files[] = { "a.c", NULL };
	enum { N_HOLES = 12000, N_ROWS = 300, STEP = 2 * N_HOLES / N_ROWS };
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 4;
	a.w.text_size = 0x10000;
	a.lossy = true;
	lines = code_lines_begin(&a.w, files);
	for (unsigned i = 0; i < N_ROWS; i++)
		code_row(&a.w, 0x1000 + STEP * i, 1, 10 + i * 37 % 1000);
	code_sequence_end(&a.w, 0x1000 + 2 * N_HOLES);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	add_function(&a, "f", 0x1000, 2 * N_HOLES);
	for (unsigned i = 0; i < N_HOLES; i++)
		add_function(&a, "g", 0x1001 + 2 * i, 1);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1000 + 2 * N_HOLES - 2, "f");
	assert_lost(&a, a.stats.n_skipped, "no lines: they are repeated");
	assert_true(a.stats.n_skipped > 100 && a.stats.n_skipped < N_HOLES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_by_index_and_offset),
		cmocka_unit_test(addresses_by_expression),
		cmocka_unit_test(a_function_whose_address_cannot_be_read_is_counted),
		cmocka_unit_test(an_address_without_an_end_is_counted),
		cmocka_unit_test(a_damaged_list_costs_its_function_alone),
		cmocka_unit_test(a_list_of_version_4_without_an_end_is_counted),
		cmocka_unit_test(an_unknown_form_ends_the_unit_where_it_is),
		cmocka_unit_test(a_unit_of_an_unknown_type_is_counted),
		cmocka_unit_test(calls_of_functions_that_cannot_be_found_are_counted),
		cmocka_unit_test(calls_inlined_into_no_function_are_counted),
		cmocka_unit_test(names_that_cannot_be_read_are_counted),
		cmocka_unit_test(a_linkage_name_that_cannot_be_read_is_counted),
		cmocka_unit_test(code_that_ends_before_it_starts_is_counted),
		cmocka_unit_test(ranges_from_a_dropped_address_are_dropped),
		cmocka_unit_test(parts_of_line_programs_are_counted),
		cmocka_unit_test(zeros_after_a_sequence_are_padding),
		cmocka_unit_test(opcodes_of_padding_are_no_loss),
		cmocka_unit_test(a_row_of_a_file_that_the_table_lacks_is_counted),
		cmocka_unit_test(rows_repeated_too_often_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
