/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of a function: addresses and sizes of each form, range lists, dropped code, several places.
 */
#include "test.h"

#include "answers.h"

/* Ranges of DWARF 4: a base selection, an empty one, one whose end is before its start, one of dead code. */
static void ranges_of_version_4(void **state)
{
	static const uint64_t list[] = { 0x1000, 0x1010, UINT64_MAX, 0x1000, 0x40,       0x60,
					 0x70,   0x70,   0x90,       0x80,   UINT64_MAX, 0,
					 1,      1,      1,          0x100,  0,          0 };
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		elf_writer_put(&a.w.elf, &a.w.ranges, list[i], 8);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, U(0x1000), A_RANGES,
		 F_SEC_OFFSET, U(0), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x100f, "f at /src/a.c:10");
	assert_answer(&a, 0x1040, "f at /src/a.c:14");
	assert_answer(&a, 0x105f, "f at /src/a.c:15");
	assert_answer(&a, 0x1070, " at /src/a.c:17");
	assert_answer(&a, 0, "-");
}

/* Linkers write 1, -2 or -1 for the base of code that they dropped: offsets from these are no addresses of other code. */
static void offsets_from_dropped_code_are_no_code(void **state)
{
	static const uint64_t bases[] = { 1, UINT64_MAX - 1, UINT64_MAX };

	for (size_t k = 0; k < 2 * ARRAY_SIZE(bases); k++) {
		uint64_t base = bases[k / 2];
		bool of_unit = k % 2; /* else it is selected within the list */
		const uint64_t list[] = { UINT64_MAX,
					  of_unit ? 0x1000 : base,
					  of_unit ? 0 : 0x1040 - base,
					  of_unit ? 0x10 : 0x1060 - base,
					  0,
					  0 };
		const uint64_t of_base[] = { 0x1040 - base, 0x1060 - base };
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		for (size_t i = 0; of_unit && i < ARRAY_SIZE(of_base); i++)
			elf_writer_put(&a.w.elf, &a.w.ranges, of_base[i], 8);
		for (size_t i = 0; i < ARRAY_SIZE(list); i++)
			elf_writer_put(&a.w.elf, &a.w.ranges, list[i], 8);
		code_unit_begin(&a.w);
		code_die(&a.w, T_COMPILE, true, A_NAME, F_STRING, S("a.c"), A_COMP_DIR, F_STRING, S("/src"),
			 A_LOW, F_ADDR, of_unit ? base : U(0), A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), 0u);
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_RANGES, F_SEC_OFFSET, U(0),
			 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x1040, " at /src/a.c:14");
		assert_answer(&a, 0x1000, of_unit ? "f at /src/a.c:10" : " at /src/a.c:10");
	}
}

/* All kinds of DWARF 5's lists, by .debug_addr and by index; the bases come after the attributes that need
 * them. */
static void ranges_of_version_5(void **state)
{
	static const uint64_t addrs[] = { 0x1000, 0x1010, 0x1080, UINT64_MAX };
	AUTO(answers_done) struct answers a;
	struct buf *r;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 5;
	r = &a.w.rnglists;
	elf_writer_put(&a.w.elf, &a.w.addr, 0x24, 4);
	buf_add(&a.w.addr, "\x05\0\x08\0", 4);
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++)
		elf_writer_put(&a.w.elf, &a.w.addr, addrs[i], 8);
	elf_writer_put(&a.w.elf, r, 100, 4);
	buf_add(r, "\x05\0\x08\0\x01\0\0\0", 8);
	elf_writer_put(&a.w.elf, r, 4, 4);
	buf_add(r, "\x02\x00\x01", 3);         /* startx_endx 0, 1 */
	buf_add(r, "\x03\x03\x10", 3);         /* startx_length of a tombstone */
	buf_add(r, "\x01\x02", 2);             /* base_addressx 2: 0x1080 */
	buf_add(r, "\x04\x00\x10", 3);         /* offset_pair */
	buf_add(r, "\x01\x03", 2);             /* base_addressx of a tombstone */
	buf_add(r, "\x04\xc1\x21\xe1\x21", 5); /* offset_pair: 0x10c1, 0x10e1 */
	buf_add(r, "\x07", 1);
	elf_writer_put(&a.w.elf, r, 0x10a0, 8);
	buf_add(r, "\x08\x00", 2); /* start_length, and the end */
	code_unit_begin(&a.w);
	code_die(&a.w, T_COMPILE, true, A_NAME, F_STRING, S("a.c"), A_COMP_DIR, F_STRING, S("/src"), A_LOW,
		 F_ADDRX, U(0), A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), A_RNGLISTS_BASE, F_SEC_OFFSET,
		 U(12), A_ADDR_BASE, F_SEC_OFFSET, U(8), 0u);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_RANGES, F_RNGLISTX, U(0), 0u);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("tiny"), A_LOW, F_ADDRX, U(1), A_HIGH,
		 F_DATA4, U(0x10), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1010, "tiny at /src/a.c:11");
	assert_answer(&a, 0x108f, "f at /src/a.c:18");
	assert_answer(&a, 0x10a7, "f at /src/a.c:20");
	assert_answer(&a, 0x10a8, " at /src/a.c:20");
	assert_answer(&a, 0x10c0, " at /src/a.c:22");
}

static void high_pc_of_any_form(void **state)
{
	static const unsigned forms[] = { F_DATA1, F_DATA2, F_DATA4,    F_DATA8,
					  F_UDATA, F_SDATA, F_IMPLICIT, F_INDIRECT };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = 5;
		code_unit_c(&a.w, add_lines(&a));
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_LOW, F_ADDR, U(0x1000),
			 A_HIGH, forms[i], U(0x20), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x101f, "f at /src/a.c:11");
		assert_answer(&a, 0x1020, " at /src/a.c:12");
	}
}

static void dead_code_has_no_address(void **state)
{
	static const uint64_t lows[] = { 0, 1, UINT64_MAX, UINT64_MAX - 1, 0x3000 };
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	for (size_t i = 0; i < ARRAY_SIZE(lows); i++)
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("dead"), A_LOW, F_ADDR, lows[i],
			 A_HIGH, F_DATA8, U(0x2000), 0u);
	add_function(&a, "f", 0x1000, 0x20);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_int_equal(a.stats.n_functions, 1);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0, "-");
	assert_answer(&a, UINT64_MAX, "-");
}

static void code_of_one_function_in_two_places(void **state)
{
	static const uint64_t list[] = { 0x1080, 0x1090, 0x1000, 0x1010, 0, 0 };
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		elf_writer_put(&a.w.elf, &a.w.ranges, list[i], 8);
	code_symbol(&a.w, "f.cold", STT_FUNC, STB_LOCAL, 0x1000, 0x10);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1080, 0x10);
	code_unit_c(&a.w, add_lines(&a));
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("f"), A_RANGES, F_SEC_OFFSET, U(0), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	/* The symbol gives the linkage name. */
	assert_answer(&a, 0x1000, "f.cold at /src/a.c:10");
	assert_answer(&a, 0x1080, "f at /src/a.c:18");
}

/* Check that a function in several parts is reported as one, and check one of its rows. */
static void assert_part(struct answers *a, uint64_t addr, uint64_t start, uint64_t end)
{
	struct symtab_frames f;
	struct err err = { 0 };

	assert_int_equal(symtab_find(a->f, addr, &f, &err), 0);
	assert_int_equal(f.lo, addr & ~UINT64_C(7));
	assert_int_equal(f.hi, (addr & ~UINT64_C(7)) + 8);
	assert_int_equal(f.start, start);
	assert_int_equal(f.end, end);
}

/*
 * A function with thousands of inlined calls is stored in parts, but answers show one function: also where
 * another function overlaps its middle, and padding follows.
 */
static void a_large_function_answers_as_one(void **state)
{
	static const char *const files[] = { "a.c", NULL };
	enum { N = 2000, OVER = 901 };
	const uint64_t base = 0x1000, end = base + 8 * N, over = base + 8 * OVER;
	AUTO(answers_done) struct answers a;
	AUTO(arena_done) struct arena texts = { 0 };
	uint64_t lines, g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 4;
	a.w.text_size = 8 * N + 0x100;
	lines = code_lines_begin(&a.w, files);
	for (unsigned i = 0; i < N; i++)
		code_row(&a.w, base + 8 * i, 1, 10 + i * 37 % 1000);
	code_sequence_end(&a.w, end + 8); /* 8 bytes of padding */
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	g = add_abstract(&a, "g");
	begin_function(&a, "f", base, 8 * N);
	for (unsigned i = 0; i < N; i += 4)
		add_inlined(&a, g, base + 8 * i, 8);
	code_up(&a.w);
	add_function(&a, "over", over, 8);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	/* From both ends in turn, so that parts are read in any order. */
	for (unsigned k = 0; k < N; k++) {
		unsigned i = k % 2 ? k : N - 1 - k + N % 2, line = 10 + i * 37 % 1000;

		if (i == OVER)
			continue;
		assert_answer(&a, base + 8 * i + k % 8,
			      arena_printf(&texts, "%sf at /src/a.c:%u",
					   i % 4 ? "" : arena_printf(&texts, "g at /src/a.c:%u in ", line),
					   i % 4 ? line : 0));
		assert_part(&a, base + 8 * i + k % 8, i < OVER ? base : over + 8, i < OVER ? over : end);
	}
	assert_answer(&a, over + 4, arena_printf(&texts, "over at /src/a.c:%u", 10 + OVER * 37 % 1000));
	assert_answer(&a, end + 4, arena_printf(&texts, " at /src/a.c:%u", 10 + (N - 1) * 37 % 1000));
	assert_answer(&a, end + 8, "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_of_version_4),
		cmocka_unit_test(offsets_from_dropped_code_are_no_code),
		cmocka_unit_test(ranges_of_version_5),
		cmocka_unit_test(high_pc_of_any_form),
		cmocka_unit_test(dead_code_has_no_address),
		cmocka_unit_test(code_of_one_function_in_two_places),
		cmocka_unit_test(a_large_function_answers_as_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
