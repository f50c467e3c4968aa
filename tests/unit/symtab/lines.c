/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line programs, each with a trap that other symbolizers fell into.
 */
#include "test.h"

#include "answers.h"

static const char *const files[] = { "a.c", "b.h", NULL };

/* One function for all of the code, and the lines that add() writes. */
static void open_with(struct answers *a, void (*add)(struct code_writer *w))
{
	uint64_t lines = code_lines_begin(&a->w, files);

	add(&a->w);
	code_lines_end(&a->w);
	add_unit(a, lines, "f", 0x1000, 0x100);
	answers_open(a);
}

static void add_same_address(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 5);
	code_row(w, 0x1000, 2, 6);
	code_row(w, 0x1000, 1, 7);
	code_row(w, 0x1008, 1, 0);
	code_row(w, 0x1010, 2, 9);
	code_sequence_end(w, 0x1020);
}

static void of_rows_at_one_address_the_last_counts(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	open_with(&a, add_same_address);
	assert_answer(&a, 0x1000, "f at /src/a.c:7");
	/* Line 0 is no line of the file. */
	assert_answer(&a, 0x1008, "f at /src/a.c:0");
	assert_answer(&a, 0x1010, "f at /src/b.h:9");
	/* Code after a sequence's end has no line. */
	assert_answer(&a, 0x1020, "f");
}

static void add_nested(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 1);
	code_row(w, 0x1030, 1, 3);
	code_sequence_end(w, 0x1040);
	code_address(w, 0x1010);
	code_row(w, 0x1010, 2, 50);
	code_row(w, 0x1018, 2, 51);
	code_sequence_end(w, 0x1020);
}

/* The outer one goes on after it. */
static void a_sequence_within_another_has_its_rows(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	open_with(&a, add_nested);
	assert_answer(&a, 0x100f, "f at /src/a.c:1");
	assert_answer(&a, 0x1010, "f at /src/b.h:50");
	assert_answer(&a, 0x101f, "f at /src/b.h:51");
	assert_answer(&a, 0x1020, "f at /src/a.c:1");
	assert_answer(&a, 0x1030, "f at /src/a.c:3");
	assert_answer(&a, 0x1040, "f");
}

static void add_many_nested(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 10);
	code_sequence_end(w, 0x1100);
	for (uint64_t i = 0; i < 6; i++) {
		code_address(w, 0x1010 + 0x20 * i);
		code_row(w, 0x1010 + 0x20 * i, 1, (uint32_t)(20 + i));
		code_sequence_end(w, 0x1020 + 0x20 * i);
	}
}

static void a_sequence_goes_on_after_many_within_it(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	open_with(&a, add_many_nested);
	assert_answer(&a, 0x1008, "f at /src/a.c:10");
	assert_answer(&a, 0x10b8, "f at /src/a.c:25");
	assert_answer(&a, 0x10f0, "f at /src/a.c:10");
}

static void add_unsorted(struct code_writer *w)
{
	code_row(w, 0x1080, 1, 80);
	code_sequence_end(w, 0x1090);
	code_row(w, 0x1000, 1, 1);
	code_row(w, 0x1010, 1, 2);
	code_sequence_end(w, 0x1020);
	/* The address falls within a sequence. */
	code_row(w, 0x1040, 1, 40);
	code_row(w, 0x1050, 1, 50);
	code_address(w, 0x1030);
	code_row(w, 0x1030, 1, 30);
	code_sequence_end(w, 0x1038);
	/* Dead sequences. */
	code_address(w, 0);
	code_row(w, 0x10, 1, 1000);
	code_sequence_end(w, 0x2000);
	code_address(w, UINT64_MAX - 1);
	code_row(w, UINT64_MAX - 1, 1, 1001);
	code_sequence_end(w, UINT64_MAX);
}

static void sequences_in_any_order(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	open_with(&a, add_unsorted);
	assert_answer(&a, 0x1000, "f at /src/a.c:1");
	assert_answer(&a, 0x101f, "f at /src/a.c:2");
	assert_answer(&a, 0x1020, "f");
	assert_answer(&a, 0x1030, "f at /src/a.c:30");
	assert_answer(&a, 0x1045, "f at /src/a.c:40");
	assert_answer(&a, 0x108f, "f at /src/a.c:80");
}

static void add_long_instructions(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 1);
	code_row(w, 0x1010, 1, 2);    /* advance_pc by 4 */
	buf_add(&w->line, "\x08", 1); /* const_add_pc: 17 instructions */
	code_row(w, w->addr_now, 1, 3);
	w->addr_now += 17 * 4;
	buf_add(&w->line, "\x09\x03\0", 3); /* fixed_advance_pc: 3 bytes */
	w->addr_now += 3;
	code_row(w, w->addr_now, 1, 4);
	code_sequence_end(w, w->addr_now + 8);
}

static void instructions_of_four_bytes(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_AARCH64, ET_DYN);
	a.w.min_length = 4;
	open_with(&a, add_long_instructions);
	assert_answer(&a, 0x1053, "f at /src/a.c:2");
	assert_answer(&a, 0x1054, "f at /src/a.c:3");
	assert_answer(&a, 0x1056, "f at /src/a.c:3");
	assert_answer(&a, 0x1057, "f at /src/a.c:4");
}

/* Special opcodes mean something else in each table of a file: those of the unit before are no use. */
static void tables_of_other_parameters_in_one_file(void **state)
{
	for (unsigned first = 1; first <= 4; first += 3) {
		AUTO(answers_done) struct answers a;
		uint64_t lines[2];

		answers_init(&a, ELF_WRITER_AARCH64, ET_DYN);
		for (unsigned i = 0; i < 2; i++) {
			a.w.min_length = i ? 5 - first : first;
			lines[i] = code_lines_begin(&a.w, (const char *const[]){ "a.c", NULL });
			code_row(&a.w, 0x1000 + 0x100 * i, 1, 10);
			buf_add_char(&a.w.line, 13 + 14 * 8 + 7); /* 8 instructions, 2 lines */
			a.w.addr_now += 8 * a.w.min_length;
			code_sequence_end(&a.w, 0x1100 + 0x100 * i);
			code_lines_end(&a.w);
		}
		add_unit(&a, lines[0], "f", 0x1000, 0x100);
		add_unit(&a, lines[1], "g", 0x1100, 0x100);
		answers_open(&a);
		assert_answer(&a, 0x1000 + 8 * first - 1, "f at /src/a.c:10");
		assert_answer(&a, 0x1000 + 8 * first, "f at /src/a.c:12");
		assert_answer(&a, 0x1100 + 8 * (5 - first) - 1, "g at /src/a.c:10");
		assert_answer(&a, 0x1100 + 8 * (5 - first), "g at /src/a.c:12");
	}
}

/* Old compilers know fewer standard opcodes, so all special ones have other numbers. */
static void tables_of_other_first_opcodes_in_one_file(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines[2];

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	for (unsigned i = 0; i < 2; i++) {
		a.w.opcode_base = i ? 10 : 13;
		lines[i] = code_lines_begin(&a.w, (const char *const[]){ "a.c", NULL });
		code_row(&a.w, 0x1000 + 0x100 * i, 1, 10);
		buf_add_char(&a.w.line, (char)(a.w.opcode_base + 14 * 8 + 7)); /* 8 bytes, 2 lines */
		a.w.addr_now += 8;
		code_sequence_end(&a.w, 0x1100 + 0x100 * i);
		code_lines_end(&a.w);
	}
	add_unit(&a, lines[0], "f", 0x1000, 0x100);
	add_unit(&a, lines[1], "g", 0x1100, 0x100);
	answers_open(&a);
	assert_answer(&a, 0x1007, "f at /src/a.c:10");
	assert_answer(&a, 0x1008, "f at /src/a.c:12");
	assert_answer(&a, 0x1107, "g at /src/a.c:10");
	assert_answer(&a, 0x1108, "g at /src/a.c:12");
}

static void add_unknown(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 1);
	buf_add(&w->line, "\0\x05\x80xxxx", 7); /* an unknown extended opcode */
	code_discriminator(w, 7);               /* ignored */
	code_row(w, 0x1008, 77, 2);             /* no such file */
	code_row(w, 0x1010, 1, 3);
	code_sequence_end(w, 0x1020);
}

static void unknown_opcodes_are_skipped(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	open_with(&a, add_unknown);
	assert_answer(&a, 0x1000, "f at /src/a.c:1");
	assert_answer(&a, 0x1008, "f");
	assert_answer(&a, 0x1010, "f at /src/a.c:3");
}

static void add_discriminators(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 1);
	code_discriminator(w, 3);
	code_row(w, 0x1008, 1, 1);
	code_row(w, 0x1010, 1, 1); /* it applied to the row before only */
	code_discriminator(w, 3);
	code_row(w, 0x1018, 1, 1);
	code_discriminator(w, 3);
	code_row(w, 0x1020, 1, 1); /* the same again */
	code_discriminator(w, UINT32_MAX);
	code_row(w, 0x1028, 2, 5);
	code_discriminator(w, 8);
	code_row(w, 0x1030, 2, 6);
	code_discriminator(w, 9);
	code_row(w, 0x1030, 2, 6); /* the last of several rows at one address counts */
	code_sequence_end(w, 0x1038);
}

static void discriminators_are_in_a_table_built_with_them(void **state)
{
	AUTO(answers_done) struct answers a, without;
	struct symtab_frames frames;
	struct err err = { 0 };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.discriminators = true;
	open_with(&a, add_discriminators);
	assert_true(symtab_info(a.t)->flags & SYMTAB_HAS_DISCRIMINATORS);
	assert_answer(&a, 0x1000, "f at /src/a.c:1");
	assert_answer(&a, 0x1008, "f at /src/a.c:1 (discriminator 3)");
	assert_answer(&a, 0x1010, "f at /src/a.c:1");
	assert_answer(&a, 0x1018, "f at /src/a.c:1 (discriminator 3)");
	assert_answer(&a, 0x1020, "f at /src/a.c:1 (discriminator 3)");
	assert_done(symtab_find(a.f, 0x1018, &frames, &err));
	assert_int_equal(frames.hi, 0x1028);
	assert_answer(&a, 0x1028, "f at /src/b.h:5 (discriminator 4294967295)");
	assert_answer(&a, 0x1030, "f at /src/b.h:6 (discriminator 9)");
	answers_init(&without, ELF_WRITER_X86_64, ET_DYN);
	open_with(&without, add_discriminators);
	assert_false(symtab_info(without.t)->flags & SYMTAB_HAS_DISCRIMINATORS);
	assert_answer(&without, 0x1008, "f at /src/a.c:1");
	assert_done(symtab_find(without.f, 0x1008, &frames, &err));
	assert_int_equal(frames.hi, 0x1028);
}

/* Check a call in the middle of f: the discriminator of its rows and that of its place. */
static void calls_have_discriminators_of_their_own(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines, inner;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.discriminators = true;
	lines = code_lines_begin(&a.w, files);
	code_row(&a.w, 0x1000, 1, 10);
	code_discriminator(&a.w, 2);
	code_row(&a.w, 0x1010, 2, 5);
	code_discriminator(&a.w, 4);
	code_row(&a.w, 0x1018, 1, 6);
	code_row(&a.w, 0x1020, 1, 11);
	code_sequence_end(&a.w, 0x1040);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	inner = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("inner"), A_DECL_FILE, F_DATA1, U(2),
			 A_DECL_LINE, F_DATA1, U(4), 0u);
	begin_function(&a, "f", 0x1000, 0x40);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, inner, A_LOW, F_ADDR, U(0x1010), A_HIGH, F_DATA4,
		 U(0x10), A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(10), A_GNU_DISCRIMINATOR,
		 F_UDATA, U(70000), 0u);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1010,
		      "inner at /src/b.h:5 (discriminator 2) in f at /src/a.c:10 (discriminator 70000)");
	assert_answer(&a, 0x1018,
		      "inner at /src/a.c:6 (discriminator 4) in f at /src/a.c:10 (discriminator 70000)");
	assert_answer(&a, 0x1020, "f at /src/a.c:11");
}

static void add_cut(struct code_writer *w)
{
	code_row(w, 0x1000, 1, 1);
	code_sequence_end(w, 0x1010);
	code_row(w, 0x1010, 1, 2);
	buf_add(&w->line, "\x02\xff\xff", 3);
}

static void rows_before_a_cut_are_used(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	open_with(&a, add_cut);
	assert_answer(&a, 0x1000, "f at /src/a.c:1");
	assert_answer(&a, 0x1010, "f");
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
}

static void a_line_range_of_zero_is_not_divided_by(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = add_lines(&a);
	a.w.line.p[lines + 14] = 0;
	add_unit(&a, lines, "f", 0x1000, 0x100);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
}

/* GCC's wrappers of identical code, and assembler, have lines and a symbol but no function in DWARF. */
static void lines_without_a_function_have_the_symbols_name(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "one", STT_FUNC, STB_GLOBAL, 0x1000, 0x20);
	code_symbol(&a.w, "two", STT_FUNC, STB_GLOBAL, 0x1028, 0x20);
	code_unit_c(&a.w, add_lines(&a));
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "one at /src/a.c:10");
	assert_answer(&a, 0x101f, "one at /src/a.c:11");
	assert_answer(&a, 0x1020, " at /src/a.c:12");
	assert_answer(&a, 0x1028, "two at /src/a.c:12");
	assert_answer(&a, 0x1030, "two at /src/a.c:13");
	assert_answer(&a, 0x1048, " at /src/a.c:14");
}

/*
 * After dwz a unit has its lines, and the functions of all of them are in others: its lines are visible between
 * functions only, in thousands of places. All rows were repeated for each of them, up to a limit.
 */
static void lines_between_functions_of_other_units(void **state)
{
	AUTO(answers_done) struct answers a;
	const unsigned n = 4000; /* functions, with 48 bytes of code and 16 of padding */
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.text_size = 64 * n;
	lines = code_lines_begin(&a.w, files);
	for (unsigned i = 0; i < 4 * n; i++)
		code_row(&a.w, 0x1000 + 16 * i, 1, 1 + i * 7 % 1000);
	code_sequence_end(&a.w, 0x1000 + 64 * n);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	code_up(&a.w);
	code_unit_end(&a.w);
	code_unit_c(&a.w, add_lines(&a));
	for (unsigned i = 0; i < n; i++)
		add_function(&a, "f", 0x1000 + 64 * i, 48);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
	assert_in_range(a.table.size, 1, 1 << 20);
	for (unsigned i = 4; i < n; i += 99) {
		char want[64];

		snprintf(want, sizeof(want), " at /src/a.c:%u", 1 + (4 * i + 3) * 7 % 1000);
		assert_answer(&a, 0x1000 + 64 * i + 48, want);
		assert_answer(&a, 0x1000 + 64 * i + 63, want);
	}
}

static const char *const thunk_files[] = { "a.c", "a.c", NULL };

/* C++'s thunks have no function in DWARF, and no row of their own if their line is that of the function
 * before. */
static void code_after_a_function_has_its_symbols_name_and_the_last_line(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x38);
	code_symbol(&a.w, "thunk", STT_FUNC, STB_GLOBAL, 0x1040, 0x20);
	lines = code_lines_begin(&a.w, thunk_files);
	code_row(&a.w, 0x1000, 1, 10);
	code_row(&a.w, 0x1008, 1, 11);
	code_sequence_end(&a.w, 0x1100);
	code_lines_end(&a.w);
	add_unit(&a, lines, "f", 0x1000, 0x38);
	answers_open(&a);
	assert_answer(&a, 0x1037, "f at /src/a.c:11");
	assert_answer(&a, 0x1038, " at /src/a.c:11");
	assert_answer(&a, 0x103f, " at /src/a.c:11");
	assert_answer(&a, 0x1040, "thunk at /src/a.c:11");
	assert_answer(&a, 0x105f, "thunk at /src/a.c:11");
	assert_answer(&a, 0x1060, " at /src/a.c:11");
	assert_answer(&a, 0x10ff, " at /src/a.c:11");
	assert_answer(&a, 0x1100, "-");
}

/* With -Os functions follow one another without padding, and a thunk is shorter than the longest padding. */
static void short_code_after_a_function_has_its_symbols_name_and_the_last_line(void **state)
{
	/* The second ends at a multiple of 16, as padding does. */
	static const uint64_t ends[] = { 0x103e, 0x1040 };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		AUTO(answers_done) struct answers a;
		uint64_t lines, g = ends[i];

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x35);
		code_symbol(&a.w, "thunk", STT_FUNC, STB_GLOBAL, 0x1035, g - 0x1035);
		code_symbol(&a.w, "g", STT_FUNC, STB_GLOBAL, g, 0x20);
		lines = code_lines_begin(&a.w, thunk_files);
		code_row(&a.w, 0x1000, 1, 10);
		code_row(&a.w, 0x1008, 1, 11);
		code_row(&a.w, g, 1, 12);
		code_sequence_end(&a.w, g + 0x20);
		code_lines_end(&a.w);
		code_unit_c(&a.w, lines);
		add_function(&a, "f", 0x1000, 0x35);
		add_function(&a, "g", g, 0x20);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x1034, "f at /src/a.c:11");
		assert_answer(&a, 0x1035, "thunk at /src/a.c:11");
		assert_answer(&a, g - 1, "thunk at /src/a.c:11");
		assert_answer(&a, g, "g at /src/a.c:12");
	}
}

static void padding_between_functions_has_no_function(void **state)
{
	AUTO(answers_done) struct answers a;
	struct symtab_frames padding;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x18);
	code_unit_c(&a.w, add_lines(&a));
	add_function(&a, "f", 0x1000, 0x18);
	add_function(&a, "g", 0x1020, 0xe0);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1017, "f at /src/a.c:11");
	assert_answer(&a, 0x1018, " at /src/a.c:11");
	assert_answer(&a, 0x101f, " at /src/a.c:11");
	assert_int_equal(symtab_find(a.f, 0x101f, &padding, NULL), 0);
	assert_int_equal(padding.start, 0x1018);
	assert_int_equal(padding.end, 0x1020);
	assert_answer(&a, 0x1010, "f at /src/a.c:11");
	assert_answer(&a, 0x1020, "g at /src/a.c:12");
}

/* clang ends many functions with a row of line 0: it says nothing of the padding. */
static void padding_after_a_row_without_a_line_has_none(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = code_lines_begin(&a.w, files);
	code_row(&a.w, 0x1000, 1, 10);
	code_row(&a.w, 0x1010, 1, 0);
	code_row(&a.w, 0x1020, 1, 12);
	code_sequence_end(&a.w, 0x1040);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	add_function(&a, "f", 0x1000, 0x18);
	add_function(&a, "g", 0x1020, 0x20);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1017, "f at /src/a.c:0");
	assert_answer(&a, 0x1018, "-");
	assert_answer(&a, 0x101f, "-");
	assert_answer(&a, 0x1020, "g at /src/a.c:12");
}

static void two_units_share_one_table(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = add_lines(&a);
	for (unsigned i = 0; i < 2; i++)
		add_unit(&a, lines, i ? "g" : "f", 0x1000 + 0x80 * i, 0x80);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1080, "g at /src/a.c:18");
}

/* The report must not depend on which thread reads which unit. */
static void damage_of_a_shared_table_is_reported_once(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = add_lines(&a);
	a.w.line.p[lines + 14] = 0;
	for (unsigned i = 0; i < 6; i++)
		add_unit(&a, lines, "f", 0x1000 + 16 * i, 16);
	answers_open(&a);
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
}

static void add_columns(struct code_writer *w, uint64_t at, unsigned column)
{
	for (unsigned i = 0; i < 4; i++) {
		if (column) {
			buf_add_char(&w->line, 5); /* DW_LNS_set_column */
			buf_add_uleb(&w->line, column + i);
		}
		code_row(w, at + 4 * i, 1, 10 + i % 2);
	}
	code_sequence_end(w, at + 16);
}

static void assert_column(struct answers *a, uint64_t addr, uint32_t line, uint16_t column)
{
	struct symtab_frames frames;
	struct err err = { 0 };

	assert_int_equal(symtab_find(a->f, addr, &frames, &err), 0);
	assert_int_equal(frames.list[0].line, line);
	assert_int_equal(frames.list[0].column, column);
}

/* One table has units with columns and units without; the latter take no room for columns. */
static void only_units_with_columns_take_room_for_them(void **state)
{
	size_t sizes[2];

	for (unsigned k = 0; k < 2; k++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		for (unsigned i = 0; i < 3; i++) {
			uint64_t lines = code_lines_begin(&a.w, files);

			add_columns(&a.w, 0x1000 + 16 * i, i == 1 || k ? 7 : 0);
			code_lines_end(&a.w);
			add_unit(&a, lines, "f", 0x1000 + 16 * i, 16);
		}
		answers_open(&a);
		for (unsigned i = 0; i < 12; i++)
			assert_column(&a, 0x1000 + 4 * i, 10 + i % 2, i / 4 == 1 || k ? 7 + i % 4 : 0);
		sizes[k] = a.table.size;
	}
	assert_true(sizes[0] + 8 <= sizes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_rows_at_one_address_the_last_counts),
		cmocka_unit_test(a_sequence_within_another_has_its_rows),
		cmocka_unit_test(a_sequence_goes_on_after_many_within_it),
		cmocka_unit_test(sequences_in_any_order),
		cmocka_unit_test(instructions_of_four_bytes),
		cmocka_unit_test(tables_of_other_parameters_in_one_file),
		cmocka_unit_test(tables_of_other_first_opcodes_in_one_file),
		cmocka_unit_test(unknown_opcodes_are_skipped),
		cmocka_unit_test(discriminators_are_in_a_table_built_with_them),
		cmocka_unit_test(calls_have_discriminators_of_their_own),
		cmocka_unit_test(rows_before_a_cut_are_used),
		cmocka_unit_test(a_line_range_of_zero_is_not_divided_by),
		cmocka_unit_test(lines_without_a_function_have_the_symbols_name),
		cmocka_unit_test(lines_between_functions_of_other_units),
		cmocka_unit_test(code_after_a_function_has_its_symbols_name_and_the_last_line),
		cmocka_unit_test(short_code_after_a_function_has_its_symbols_name_and_the_last_line),
		cmocka_unit_test(padding_between_functions_has_no_function),
		cmocka_unit_test(padding_after_a_row_without_a_line_has_none),
		cmocka_unit_test(two_units_share_one_table),
		cmocka_unit_test(damage_of_a_shared_table_is_reported_once),
		cmocka_unit_test(only_units_with_columns_take_room_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
