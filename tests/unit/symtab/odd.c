/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units and tables that are valid but unusual, and wrong hints.
 */
#include "test.h"

#include "answers.h"

static void type_units_have_no_code(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	lines = add_lines(&a);
	a.w.unit_type = 2;
	code_unit_begin(&a.w);
	code_die(&a.w, 0x41, true, A_LANGUAGE, F_DATA1, U(4), A_STMT_LIST, F_SEC_OFFSET, lines, 0u);
	add_function(&a, "declared", 0x1000, 0x100);
	code_up(&a.w);
	code_unit_end(&a.w);
	a.w.unit_type = 0;
	add_unit(&a, lines, "f", 0x1010, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1010, "f at /src/a.c:11");
	assert_answer(&a, 0x1000, " at /src/a.c:10");
}

/* clang and LTO write one table of abbreviations for many units. */
static void units_that_share_their_abbreviations(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf copy = { 0 };
	size_t start;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_unit(&a, add_lines(&a), "f", 0x1000, 0x10);
	buf_add_str(&copy, buf_str(&a.w.info));
	for (unsigned i = 1; i < 4; i++) {
		uint8_t *p;

		start = a.w.info.size;
		buf_add_str(&a.w.info, buf_str(&copy));
		p = memmem(a.w.info.p + start, copy.size, "f\0\0\x10\0\0\0\0\0\0", 10);
		assert_non_null(p);
		p[0] = (uint8_t)('f' + i);
		p[2] = (uint8_t)(0x10 * i);
	}
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1010, "g at /src/a.c:11");
	assert_answer(&a, 0x1030, "i at /src/a.c:13");
}

/* More bytes to skip than one instruction of a program can. */
static void a_die_of_very_many_attributes_is_skipped(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_BLOCK, false, A_LOW, F_ADDR, U(0x1000), 0u);
	a.w.abbrev.size -= 2; /* its end mark */
	for (unsigned i = 0; i < 1000; i++) {
		buf_add_uleb(&a.w.abbrev, 0x3000 + i);
		buf_add_uleb(&a.w.abbrev, F_DATA8);
		buf_add_u64(&a.w.info, i);
	}
	buf_add(&a.w.abbrev, "\0", 2);
	add_function(&a, "f", 0x1000, 0x20);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1010, "f at /src/a.c:11");
}

/* Types and call sites have DW_AT_sibling; with a wrong one their children are read. */
static void dies_without_code_are_skipped_by_their_siblings(void **state)
{
	enum { RIGHT, BACK, INTO_ITSELF, PAST_THE_END, N_WAYS };
	static const unsigned tags[] = { T_STRUCT, T_CALL_SITE };

	for (unsigned i = 0; i < ARRAY_SIZE(tags) * N_WAYS; i++) {
		unsigned way = i % N_WAYS;
		AUTO(answers_done) struct answers a;
		uint64_t die, child;
		uint32_t to;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		code_unit_c(&a.w, add_lines(&a));
		die = code_die(&a.w, tags[i / N_WAYS], true, A_DECL_LINE, F_DATA1, U(1), A_SIBLING, F_REF4,
			       U(0), 0u);
		child = code_die(&a.w, 0x0d, false, A_NAME, F_STRING, S("member"), 0u);
		code_up(&a.w);
		to = (uint32_t)(way == RIGHT         ? a.w.info.size
				: way == BACK        ? die
				: way == INTO_ITSELF ? die + 2
						     : 0xffffff);
		to = htole32(to);
		memcpy(a.w.info.p + die + 2, &to, 4);
		if (way == RIGHT)
			a.w.info.p[child] = 0x7f; /* a missing abbreviation */
		add_function(&a, "f", 0x1000, 0x10);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x1000, "f at /src/a.c:10");
	}
}

/* Its low bits count, whichever reader of the DIE meets it: one that fails there finds no name. */
static void a_number_of_over_64_bits_costs_no_name(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_LOW, F_ADDR, U(0x1000), A_HIGH, F_ADDR, U(0x1010), A_NAME,
		 F_STRP, S("f"), A_DECL_LINE, F_UDATA, U(1), 0u);
	a.w.info.size--;
	buf_add(&a.w.info, "\x81\x80\x80\x80\x80\x80\x80\x80\x80\xff\x7f", 11);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
}

/* Firmware starts at address 0, which in other files marks dead code. */
static void code_at_address_0(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_ARM, ET_EXEC);
	a.w.text = 0;
	lines = code_lines_begin(&a.w, (const char *const[]){ "a.c", NULL });
	code_address(&a.w, 0);
	code_row(&a.w, 0, 1, 10);
	code_row(&a.w, 0x10, 1, 11);
	code_sequence_end(&a.w, 0x20);
	code_lines_end(&a.w);
	add_unit(&a, lines, "reset", 0, 0x20);
	answers_open(&a);
	assert_answer(&a, 0, "reset at /src/a.c:10");
	assert_answer(&a, 0x1f, "reset at /src/a.c:11");
}

/* ---- .debug_aranges ---- */

static void put_set(struct answers *a, struct buf *b, uint64_t unit, uint64_t lo, uint64_t size)
{
	struct elf_writer *w = &a->w.elf;

	elf_writer_put(w, b, 12 + 4 + 3 * 16 - 4, 4);
	elf_writer_put(w, b, 2, 2);
	elf_writer_put(w, b, unit, 4);
	elf_writer_put(w, b, 8, 1);
	elf_writer_put(w, b, 0, 1);
	elf_writer_put(w, b, 0, 4);
	elf_writer_put(w, b, lo, 8);
	elf_writer_put(w, b, size, 8);
	elf_writer_put(w, b, lo, 8); /* of no size */
	elf_writer_put(w, b, 0, 8);
	elf_writer_put(w, b, 0, 8);
	elf_writer_put(w, b, 0, 8);
}

static void wrong_aranges_do_not_change_the_answer(void **state)
{
	/* The right hint; the other unit; one that covers everything; none. */
	for (int kind = 0; kind < 4; kind++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf aranges = { 0 }, table = { 0 };
		static const uint64_t only[] = { 0x1000 };
		struct symtab_options o = { .only = only, .n_only = 1 };
		struct symtab_stats stats;
		struct err err = { 0 };
		uint64_t units[2], lines;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		lines = add_lines(&a);
		for (unsigned i = 0; i < 2; i++) {
			units[i] = a.w.info.size;
			add_unit(&a, lines, i ? "g" : "f", 0x1000 + 0x80 * i, 0x80);
		}
		put_set(&a, &aranges, units[kind == 1], kind == 2 ? 0 : 0x1000,
			kind == 2 ? UINT64_MAX : 0x80);
		if (kind < 3)
			elf_writer_section(&a.w.elf, ".debug_aranges", SHT_PROGBITS, 0, buf_bytes(&aranges));
		answers_open(&a);
		assert_answer(&a, 0x1000, "f at /src/a.c:10");
		assert_answer(&a, 0x1080, "g at /src/a.c:18");
		/* Build a table that follows the hint. */
		assert_done(symtab_build(a.img, &o, &table, &stats, &err));
		symtab_finder_free(a.f);
		symtab_close(a.t);
		assert_done(symtab_open_mem(buf_bytes(&table), &a.t, &err));
		a.f = symtab_finder_new(a.t);
		assert_answer(&a, 0x1000, "f at /src/a.c:10");
		symtab_finder_free(a.f);
		symtab_close(a.t);
		a.f = NULL;
		a.t = NULL;
	}
}

/* A table for one address in the padding after a function, where a thunk of C++ may be, has its name. */
static void one_address_after_a_function_has_its_symbols_name(void **state)
{
	static const uint64_t only[] = { 0x1038 };
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf aranges = { 0 }, table = { 0 };
	struct symtab_options o = { .only = only, .n_only = 1 };
	struct symtab_stats stats;
	struct err err = { 0 };
	uint64_t unit, lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x38);
	code_symbol(&a.w, "thunk", STT_FUNC, STB_GLOBAL, 0x1038, 0x20);
	lines = code_lines_begin(&a.w, (const char *const[]){ "a.c", NULL });
	code_row(&a.w, 0x1000, 1, 10);
	code_row(&a.w, 0x1008, 1, 11);
	code_sequence_end(&a.w, 0x1100);
	code_lines_end(&a.w);
	unit = a.w.info.size;
	add_unit(&a, lines, "f", 0x1000, 0x38);
	put_set(&a, &aranges, unit, 0x1000, 0x100);
	elf_writer_section(&a.w.elf, ".debug_aranges", SHT_PROGBITS, 0, buf_bytes(&aranges));
	answers_open(&a);
	assert_answer(&a, 0x1038, "thunk at /src/a.c:11");
	assert_done(symtab_build(a.img, &o, &table, &stats, &err));
	symtab_finder_free(a.f);
	symtab_close(a.t);
	assert_done(symtab_open_mem(buf_bytes(&table), &a.t, &err));
	a.f = symtab_finder_new(a.t);
	assert_answer(&a, 0x1038, "thunk at /src/a.c:11");
	symtab_finder_free(a.f);
	symtab_close(a.t);
	a.f = NULL;
	a.t = NULL;
}

/* ---- line tables ---- */

static void open_lines(struct answers *a, uint64_t lines)
{
	code_lines_end(&a->w);
	add_unit(a, lines, "f", 0x1000, 0x100);
	answers_open(a);
}

static void tables_with_fewer_and_more_opcodes(void **state)
{
	static const char *const files[] = { "a.c", NULL };

	for (unsigned base = 10; base <= 16; base += 6) {
		AUTO(answers_done) struct answers a;
		uint64_t lines;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.opcode_base = base;
		lines = code_lines_begin(&a.w, files);
		code_row(&a.w, 0x1000, 1, 5);
		if (base == 10)
			/* The opcode of set_prologue_end makes a row here: the same address, line - 5 + 0. */
			buf_add(&a.w.line, "\x02\x10\x0a", 3);
		else
			/* An unknown opcode with three numbers. */
			buf_add(&a.w.line, "\x0f\x80\x01\x02\x03\x02\x10\x03\x7b\x01", 10);
		a.w.addr_now = 0x1010;
		a.w.line_now = 0;
		code_row(&a.w, 0x1020, 1, 7);
		code_sequence_end(&a.w, 0x1030);
		open_lines(&a, lines);
		assert_answer(&a, 0x1000, "f at /src/a.c:5");
		assert_answer(&a, 0x1010, "f at /src/a.c:0");
		assert_answer(&a, 0x1020, "f at /src/a.c:7");
	}
}

/* An advance counts instructions, an address counts bundles. */
static void instructions_in_bundles(void **state)
{
	static const char *const files[] = { "a.c", NULL };
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.min_length = 16;
	a.w.max_ops = 3;
	lines = code_lines_begin(&a.w, files);
	code_row(&a.w, 0x1000, 1, 1);
	buf_add(&a.w.line, "\x02\x04\x03\x01\x01",
		5); /* advance by 4: the second of the next bundle; line 2 */
	buf_add(&a.w.line, "\x02\x02\x03\x01\x01", 5); /* advance by 2: the first of the bundle after it */
	buf_add(&a.w.line, "\x02\x03\0\x01\x01", 5);   /* advance by 3, the end */
	a.w.addr_now = 0;
	open_lines(&a, lines);
	assert_answer(&a, 0x100f, "f at /src/a.c:1");
	assert_answer(&a, 0x1010, "f at /src/a.c:2");
	assert_answer(&a, 0x1020, "f at /src/a.c:3");
	assert_answer(&a, 0x1030, "f");
}

static void files_that_the_program_defines(void **state)
{
	static const char *const files[] = { "a.c", NULL };
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 3;
	lines = code_lines_begin(&a.w, files);
	buf_add(&a.w.line, "\0\x08\x03g.y\0\0\0\0", 10);
	code_row(&a.w, 0x1000, 2, 5);
	code_row(&a.w, 0x1010, 1, 6);
	code_sequence_end(&a.w, 0x1020);
	open_lines(&a, lines);
	assert_answer(&a, 0x1000, "f at /src/g.y:5");
	assert_answer(&a, 0x1010, "f at /src/a.c:6");
}

static void addresses_of_another_size_and_steps_around_the_end(void **state)
{
	static const char *const files[] = { "a.c", NULL };
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = code_lines_begin(&a.w, files);
	buf_add(&a.w.line, "\0\x05\x02\0\x10\0\0", 7); /* 4 bytes where addresses have 8 */
	a.w.addr_now = 0x1000;
	code_row(&a.w, 0x1000, 1, 5);
	code_row(&a.w, 0x1010, 1, 6);
	buf_add(&a.w.line, "\x02\xe0\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 12); /* -32 */
	a.w.addr_now = 0x10000;
	code_address(&a.w, 0x1040);
	code_row(&a.w, 0x1040, 1, 8);
	code_sequence_end(&a.w, 0x1050);
	open_lines(&a, lines);
	assert_answer(&a, 0x1000, "f at /src/a.c:5");
	/* The end of the row before the step back is not known; the code after it is dead. */
	assert_answer(&a, 0x1010, "f");
	assert_answer(&a, 0x1040, "f");
}

static void paths_of_windows(void **state)
{
	static const char *const files[] = { "C:\\sdk\\b.h", "sub\\c.c", "d:/e.h", "\\\\host\\share\\f.h",
					     NULL };
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = code_lines_begin(&a.w, files);
	for (unsigned i = 0; i < 4; i++)
		code_row(&a.w, 0x1000 + 16 * i, i + 1, 10 + i);
	code_sequence_end(&a.w, 0x1100);
	open_lines(&a, lines);
	assert_answer(&a, 0x1000, "f at C:\\sdk\\b.h:10");
	assert_answer(&a, 0x1010, "f at /src/sub\\c.c:11");
	assert_answer(&a, 0x1020, "f at d:/e.h:12");
	assert_answer(&a, 0x1030, "f at \\\\host\\share\\f.h:13");
}

/* -ffile-prefix-map=$PWD=src: directory 0 of DWARF 5 is the unit's own, not below it. */
static void a_relative_folder_of_the_compilation_is_named_once(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = version;
		a.w.comp_dir = "src";
		add_plain(&a);
		answers_open(&a);
		assert_answer(&a, 0x1000, "f at src/a.c:10");
	}
}

/* ---- symbols ---- */

static void versions_are_no_part_of_a_name(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "f@@LIB_2", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
	code_symbol(&a.w, "g@LIB_1", STT_FUNC, STB_GLOBAL, 0x1010, 0x10);
	code_symbol(&a.w, "@", STT_FUNC, STB_GLOBAL, 0x1020, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_answer(&a, 0x1010, "g");
	assert_answer(&a, 0x1020, "@");
}

/* The linker's resolver and its target are two functions. Kernels reserve bytes before functions. */
static void resolvers_and_prefixes_are_functions_of_their_own(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "memcpy", STT_GNU_IFUNC, STB_GLOBAL, 0x1000, 0x10);
	code_symbol(&a.w, "memcpy_avx", STT_FUNC, STB_LOCAL, 0x1010, 0x10);
	code_symbol(&a.w, "__pfx_f", STT_FUNC, STB_LOCAL, 0x1020, 0x10);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1030, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "memcpy");
	assert_answer(&a, 0x1010, "memcpy_avx");
	assert_answer(&a, 0x102f, "__pfx_f");
	assert_answer(&a, 0x1030, "f");
}

/* RISC-V's marks name the instruction set, and may be followed by any letters. */
static void marks_of_instruction_sets_are_no_names(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_RISCV64, ET_DYN);
	code_symbol(&a.w, "$xrv64i2p1_m2p0", STT_NOTYPE, STB_LOCAL, 0x1000, 0);
	code_symbol(&a.w, "$d", STT_NOTYPE, STB_LOCAL, 0x1010, 0);
	code_symbol(&a.w, "__cfi_f", STT_FUNC, STB_GLOBAL, 0x1020, 0x10);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1030, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "-");
	assert_answer(&a, 0x1020, "-");
	assert_answer(&a, 0x1030, "f");
}

/* Functions may have names like those of marks: they would have the name of the label before them. */
static void functions_with_names_of_marks_have_these(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "frame_dummy", STT_FUNC, STB_LOCAL, 0x1000, 0);
	code_symbol(&a.w, "__cfi_slowpath", STT_FUNC, STB_GLOBAL, 0x1010, 0x10);
	code_symbol(&a.w, "$d", STT_FUNC, STB_GLOBAL, 0x1020, 0x10);
	code_symbol(&a.w, "__cfi_f", STT_FUNC, STB_GLOBAL, 0x1030, 0x10);
	code_symbol(&a.w, "alias_of_f", STT_FUNC, STB_GLOBAL, 0x1040, 0x10);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1040, 0x10);
	/* With padding before the function (-fpatchable-function-entry=11,11). */
	code_symbol(&a.w, "__cfi_padded", STT_FUNC, STB_GLOBAL, 0x1050, 5);
	code_symbol(&a.w, "padded", STT_FUNC, STB_GLOBAL, 0x1060, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1050, "-");
	assert_answer(&a, 0x1060, "padded");
	assert_answer(&a, 0x100f, "frame_dummy");
	assert_answer(&a, 0x1010, "__cfi_slowpath");
	assert_answer(&a, 0x1020, "$d");
	assert_answer(&a, 0x1030, "-");
	assert_answer(&a, 0x1040, "f");
}

/* The compiler's clones have a suffix that DWARF does not have: both names are kept. */
static void clones_have_both_names(void **state)
{
	static const char *const suffixes[] = { ".isra.0", ".constprop.1", ".part.2", ".lto_priv.0" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		AUTO(answers_done) struct answers a;
		struct symtab_frames frames;
		struct err err = { 0 };
		char name[32];

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		snprintf(name, sizeof(name), "f%s", suffixes[i]);
		code_symbol(&a.w, "alias", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
		code_symbol(&a.w, name, STT_FUNC, STB_LOCAL, 0x1000, 0x100);
		add_plain(&a);
		answers_open(&a);
		assert_done(symtab_find(a.f, 0x1000, &frames, &err));
		assert_str(frames.list[0].name, "f");
		assert_str(frames.list[0].linkage, name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(type_units_have_no_code),
		cmocka_unit_test(units_that_share_their_abbreviations),
		cmocka_unit_test(a_die_of_very_many_attributes_is_skipped),
		cmocka_unit_test(dies_without_code_are_skipped_by_their_siblings),
		cmocka_unit_test(a_number_of_over_64_bits_costs_no_name),
		cmocka_unit_test(code_at_address_0),
		cmocka_unit_test(wrong_aranges_do_not_change_the_answer),
		cmocka_unit_test(one_address_after_a_function_has_its_symbols_name),
		cmocka_unit_test(tables_with_fewer_and_more_opcodes),
		cmocka_unit_test(instructions_in_bundles),
		cmocka_unit_test(files_that_the_program_defines),
		cmocka_unit_test(addresses_of_another_size_and_steps_around_the_end),
		cmocka_unit_test(paths_of_windows),
		cmocka_unit_test(a_relative_folder_of_the_compilation_is_named_once),
		cmocka_unit_test(versions_are_no_part_of_a_name),
		cmocka_unit_test(resolvers_and_prefixes_are_functions_of_their_own),
		cmocka_unit_test(marks_of_instruction_sets_are_no_names),
		cmocka_unit_test(functions_with_names_of_marks_have_these),
		cmocka_unit_test(clones_have_both_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
