/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units, functions and inlined calls, each with a trap that other symbolizers fell into.
 */
#include "test.h"

#include "answers.h"

static void assert_hidden(struct answers *a, uint64_t n_ranges, uint64_t size, uint64_t lines_size)
{
	const struct symtab_hidden *h = &symtab_info(a->t)->hidden;

	assert_int_equal(h->n_ranges, n_ranges);
	assert_int_equal(h->size, size);
	assert_int_equal(h->lines_size, lines_size);
	assert_memory_equal(&a->stats.hidden, h, sizeof(*h));
}

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

/* Nested calls, a call whose file is the caller's by default, one in a block without a range of its own. */
static void inlined_calls_have_their_callers_and_places(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		AUTO(answers_done) struct answers a;
		uint64_t g, h;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = version;
		code_unit_c(&a.w, add_lines(&a));
		g = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("g"), A_INLINE, F_DATA1, U(1),
			     A_DECL_LINE, F_DATA1, U(40), 0u);
		h = add_abstract(&a, "h");
		begin_function(&a, "f", 0x1000, 0x100);
		code_die(&a.w, T_BLOCK, true, 0u);
		code_die(&a.w, T_CALL_SITE, true, 0u);
		code_die(&a.w, T_INLINED, true, A_ORIGIN, F_REF4, g, A_LOW, F_ADDR, U(0x1010), A_HIGH,
			 F_DATA4, U(0x30), A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(77), 0u);
		code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, h, A_LOW, F_ADDR, U(0x1018), A_HIGH,
			 F_DATA4, U(8), A_CALL_LINE, F_DATA1, U(41), 0u);
		for (int i = 0; i < 4; i++)
			code_up(&a.w);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x100f, "f at /src/a.c:10");
		assert_answer(&a, 0x1010, "g at /src/a.c:11 in f at /src/a.c:77");
		assert_answer(&a, 0x101f, "h at /src/a.c:11 in g at /src/a.c:41 in f at /src/a.c:77");
		assert_answer(&a, 0x1020, "g at /src/a.c:12 in f at /src/a.c:77");
		assert_answer(&a, 0x1040, "f at /src/a.c:14");
		assert_answer(&a, 0x1018, "h at /src/a.c:11 in g at /src/a.c:41 in f at /src/a.c:77");
	}
}

/* GCC puts a nested function, or the body of an OpenMP loop, into the abstract function around it. */
static void a_function_in_an_abstract_one_has_its_calls(void **state)
{
	static const char *const files[] = { "a.c", NULL };

	for (int form = 0; form < 3; form++) {
		AUTO(answers_done) struct answers a;
		uint64_t lines, g;
		uint32_t to;
		size_t at;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		lines = code_lines_begin(&a.w, files);
		code_row(&a.w, 0x1000, 1, 10);
		code_row(&a.w, 0x1010, 1, 5);
		code_row(&a.w, 0x1020, 1, 11);
		code_sequence_end(&a.w, 0x1100);
		code_lines_end(&a.w);
		code_unit_c(&a.w, lines);
		g = add_abstract(&a, "g");
		/* The sibling is at a fixed offset, or after a string; or it is one of LTO, whose origin is elsewhere. */
		if (form == 2)
			code_die(&a.w, T_SUBPROGRAM, true, A_ORIGIN, F_REF4, g, A_SIBLING, F_REF4, U(0), 0u);
		else if (form)
			code_die(&a.w, T_SUBPROGRAM, true, A_SIBLING, F_REF4, U(0), A_INLINE, F_DATA1, U(3),
				 0u);
		else
			code_die(&a.w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("outer"), A_INLINE, F_DATA1,
				 U(3), A_SIBLING, F_REF4, U(0), 0u);
		at = a.w.info.size - (form == 1 ? 5 : 4);
		begin_function(&a, "outer._omp_fn.0", 0x1000, 0x100);
		add_inlined(&a, g, 0x1010, 0x10);
		code_up(&a.w);
		code_up(&a.w);
		to = htole32((uint32_t)a.w.info.size);
		memcpy(a.w.info.p + at, &to, 4);
		add_abstract(&a, "h");
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x1000, "outer._omp_fn.0 at /src/a.c:10");
		assert_answer(&a, 0x1010, "g at /src/a.c:5 in outer._omp_fn.0 at /src/a.c:0");
	}
}

/* Calls as GCC 3 and 4 write them: without file and line. The called code is of another file. */
static void a_call_without_a_place_is_in_its_callers_file(void **state)
{
	static const char *const files[] = { "a.c", "b.h", NULL };
	AUTO(answers_done) struct answers a;
	uint64_t lines, g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 4;
	lines = code_lines_begin(&a.w, files);
	code_row(&a.w, 0x1000, 1, 10);
	code_row(&a.w, 0x1010, 2, 5);
	code_row(&a.w, 0x1020, 1, 11);
	code_sequence_end(&a.w, 0x1100);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	g = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("g"), A_DECL_FILE, F_DATA1, U(2),
		     A_INLINE, F_DATA1, U(1), 0u);
	code_die(&a.w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("f"), A_DECL_FILE, F_DATA1, U(1), A_LOW,
		 F_ADDR, U(0x1000), A_HIGH, F_DATA4, U(0x100), 0u);
	add_inlined(&a, g, 0x1010, 0x10);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x100f, "f at /src/a.c:10");
	assert_answer(&a, 0x1010, "g at /src/b.h:5 in f at /src/a.c:0");
}

/* TASKING's compiler nests such calls, each of another file. */
static void nested_calls_without_a_place(void **state)
{
	for (unsigned version = 2; version <= 5; version++)
		for (unsigned files = 0; files < 8; files++) {
			static const char *const names[] = { "a.c", "b.h", "c.h", NULL };
			AUTO(answers_done) struct answers a;
			uint64_t lines, origins[3];

			answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
			a.w.version = version;
			lines = code_lines_begin(&a.w, names);
			code_row(&a.w, 0x1000, 1, 10);
			for (uint64_t i = 0; i < 6; i++)
				code_row(&a.w, 0x1010 + i * 8, (uint32_t)(i % 3) + 1, (uint32_t)(20 + i));
			code_sequence_end(&a.w, 0x1100);
			code_lines_end(&a.w);
			code_unit_c(&a.w, lines);
			for (unsigned i = 0; i < 3; i++)
				if (files >> i & 1)
					origins[i] = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING,
							      S(i ? "h" : "g"), A_DECL_FILE, F_DATA1,
							      U(i + 1), A_INLINE, F_DATA1, U(1), 0u);
				else
					origins[i] = add_abstract(&a, i ? "h" : "g");
			begin_function(&a, "f", 0x1000, 0x100);
			begin_inlined(&a, origins[0], 0x1010, 0x30);
			begin_inlined(&a, origins[1], 0x1010, 0x18);
			add_inlined(&a, origins[2], 0x1014, 0x8);
			/* A file that the table lacks says nothing, either. */
			code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, origins[2], A_LOW, F_ADDR,
				 U(0x1020), A_HIGH, version < 4 ? F_ADDR : F_DATA4,
				 version < 4 ? U(0x1028) : U(8), A_CALL_FILE, F_DATA1,
				 version < 5 ? U(0) : U(77), 0u);
			code_up(&a.w);
			add_inlined(&a, origins[2], 0x1030, 0x8);
			code_up(&a.w);
			code_up(&a.w);
			code_up(&a.w);
			code_unit_end(&a.w);
			answers_open(&a);
		}
}

static void a_child_past_its_parent_is_still_the_innermost(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g, h;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	g = add_abstract(&a, "g");
	h = add_abstract(&a, "h");
	begin_function(&a, "f", 0x1000, 0x40);
	begin_inlined(&a, g, 0x1010, 0x10);
	add_inlined(&a, h, 0x1018, 0x100);
	code_up(&a.w);
	/* Siblings overlap: the later one is visible. */
	add_inlined(&a, g, 0x1028, 8);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1018, "h at /src/a.c:11 in g at /src/a.c:0 in f at /src/a.c:0");
	assert_answer(&a, 0x1020, "h at /src/a.c:12 in g at /src/a.c:0 in f at /src/a.c:0");
	assert_answer(&a, 0x1028, "g at /src/a.c:12 in f at /src/a.c:0");
	assert_answer(&a, 0x103f, "h at /src/a.c:13 in g at /src/a.c:0 in f at /src/a.c:0");
	/* Its code continues where no function has any. */
	assert_answer(&a, 0x1040, "h at /src/a.c:14 in g in f");
	assert_answer(&a, 0x10ff, "h at /src/a.c:25 in g in f");
}

/*
 * BOLT writes the first part of a function that it splits into three, and calls in all of them. Code of another function
 * is that function's; the rest of a part has its symbol.
 */
static void calls_outside_of_their_function(void **state)
{
	static const uint64_t list[] = { 0x1008, 0x1010, 0x1044, 0x1058, 0x1078, 0x109c, 0, 0 };
	AUTO(answers_done) struct answers a;
	uint64_t g, h;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		elf_writer_put(&a.w.elf, &a.w.ranges, list[i], 8);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x20);
	code_symbol(&a.w, "f.cold.0", STT_FUNC, STB_LOCAL, 0x1040, 0x20);
	code_symbol(&a.w, "f.cold.1", STT_FUNC, STB_LOCAL, 0x1070, 0x20);
	code_unit_c(&a.w, add_lines(&a));
	g = add_abstract(&a, "g");
	h = add_abstract(&a, "h");
	begin_function(&a, "f", 0x1000, 0x20);
	code_die(&a.w, T_INLINED, true, A_ORIGIN, F_REF4, g, A_RANGES, F_SEC_OFFSET, U(0), A_CALL_FILE,
		 F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(7), 0u);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, h, A_LOW, F_ADDR, U(0x104c), A_HIGH, F_DATA4, U(8),
		 A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(8), 0u);
	code_up(&a.w);
	code_up(&a.w);
	add_function(&a, "other", 0x1090, 0x10);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1007, "f at /src/a.c:10");
	assert_answer(&a, 0x1008, "g at /src/a.c:10 in f at /src/a.c:7");
	assert_answer(&a, 0x1043, "f.cold.0 at /src/a.c:14");
	assert_answer(&a, 0x1044, "g at /src/a.c:14 in f.cold.0 at /src/a.c:7");
	assert_answer(&a, 0x104c, "h at /src/a.c:14 in g at /src/a.c:8 in f.cold.0 at /src/a.c:7");
	assert_answer(&a, 0x1057, "g at /src/a.c:15 in f.cold.0 at /src/a.c:7");
	assert_answer(&a, 0x1058, "f.cold.0 at /src/a.c:15");
	assert_answer(&a, 0x1068, " at /src/a.c:16");
	assert_answer(&a, 0x1078, "g at /src/a.c:17 in f.cold.1 at /src/a.c:7");
	assert_answer(&a, 0x1090, "other at /src/a.c:19");
	assert_answer(&a, 0x109f, "other at /src/a.c:19");
	assert_int_equal(symtab_info(a.t)->n_skipped, 0);
	/* The call's code in "other". */
	assert_hidden(&a, 1, 0xc, 0);
}

static void calls_of_a_function_whose_own_code_is_dead(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	g = add_abstract(&a, "g");
	begin_function(&a, "f", 0, 0x20);
	add_inlined(&a, g, 0x1010, 0x10);
	add_inlined(&a, g, 0x10, 0x8);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x100f, " at /src/a.c:10");
	assert_answer(&a, 0x1010, "g at /src/a.c:11 in f");
	assert_answer(&a, 0x1020, " at /src/a.c:12");
}

/* Each call starts before the DIE before it, and hides the part of it that they share. */
static void many_overlapping_calls_in_any_order(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t callees[2];

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	callees[0] = add_abstract(&a, "g");
	callees[1] = add_abstract(&a, "h");
	begin_function(&a, "f", 0x1000, 0x100);
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t lo = 0x1000 + 99 - i, hi = 0x1100 - i;

		code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, callees[i % 2], A_LOW, F_ADDR, U(lo),
			 A_HIGH, F_DATA4, U(hi - lo), A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_UDATA,
			 U(1000 + i), 0u);
	}
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	for (uint64_t at = 0x1000; at < 0x1100; at++) {
		uint64_t i = MIN(0x10ff - at, (uint64_t)99);
		char want[64];

		snprintf(want, sizeof(want), "%s at /src/a.c:%u in f at /src/a.c:%u", i % 2 ? "h" : "g",
			 (unsigned)(10 + (at - 0x1000) / 16), (unsigned)(1000 + i));
		assert_answer(&a, at, want);
	}
}

static void an_inlined_call_of_no_size_is_ignored(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t g;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	g = add_abstract(&a, "g");
	begin_function(&a, "f", 0x1000, 0x40);
	add_inlined(&a, g, 0x1010, 0);
	code_die(&a.w, T_INLINED, false, A_ORIGIN, F_REF4, g, A_ENTRY, F_ADDR, U(0x1010), 0u);
	code_up(&a.w);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1010, "f at /src/a.c:11");
}

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

static void names_through_origin_and_specification_of_another_unit(void **state)
{
	for (unsigned version = 2; version <= 5; version++) {
		AUTO(answers_done) struct answers a;
		uint64_t declared, abstract, lines;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.version = version;
		lines = add_lines(&a);
		code_unit_begin(&a.w);
		code_die(&a.w, T_PARTIAL, true, A_NAME, F_STRING, S("other.c"), A_LANGUAGE, F_DATA1, U(4),
			 0u);
		declared = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRP, S("m"), A_MIPS_LINKAGE,
				    F_STRING, S("_ZN1S1mEv"), 0u);
		abstract = code_die(&a.w, T_SUBPROGRAM, false, A_SPECIFICATION, F_REF_ADDR, declared,
				    A_INLINE, F_DATA1, U(1), A_DECL_LINE, F_DATA2, U(500), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		code_unit_c(&a.w, lines);
		code_die(&a.w, T_SUBPROGRAM, false, A_ORIGIN, F_REF_ADDR, abstract, A_LOW, F_ADDR, U(0x1000),
			 A_HIGH, F_ADDR, U(0x1020), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
		answers_open(&a);
		assert_answer(&a, 0x1000, "_ZN1S1mEv at /src/a.c:10");
	}
}

static void origins_in_a_circle_end(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_c(&a.w, add_lines(&a));
	at = a.w.info.size;
	code_die(&a.w, T_SUBPROGRAM, false, A_ORIGIN, F_REF4, at, A_LOW, F_ADDR, U(0x1000), A_HIGH, F_DATA4,
		 U(0x20), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	answers_open(&a);
	assert_answer(&a, 0x1000, " at /src/a.c:10");
}

static void names_without_linkage_name_are_qualified_by_scopes(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t declared, at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_unit_begin(&a.w);
	code_die(&a.w, T_COMPILE, true, A_NAME, F_STRING, S("a.cc"), A_COMP_DIR, F_STRING, S("/src"),
		 A_LANGUAGE, F_DATA1, U(4), A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), 0u);
	/* The definition comes before the declaration. */
	at = a.w.info.size;
	code_die(&a.w, T_SUBPROGRAM, false, A_SPECIFICATION, F_REF4, U(0), A_LOW, F_ADDR, U(0x1000), A_HIGH,
		 F_DATA4, U(0x20), 0u);
	code_die(&a.w, T_NAMESPACE, true, A_NAME, F_STRING, S("ns"), 0u);
	code_die(&a.w, T_NAMESPACE, true, 0u);
	code_die(&a.w, T_STRUCT, true, A_NAME, F_STRING, S("Type"), 0u);
	declared = code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("method"), 0u);
	for (int i = 0; i < 4; i++)
		code_up(&a.w);
	code_unit_end(&a.w);
	memcpy(a.w.info.p + at + 1, &(uint32_t){ (uint32_t)declared }, 4);
	answers_open(&a);
	assert_answer(&a, 0x1000, "ns::(anonymous namespace)::Type::method at /src/a.c:10");
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
		 A_STMT_LIST, F_SEC_OFFSET, add_lines(&a), 0u);
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
	uint64_t bad;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	bad = code_unit_c(&a.w, UINT32_MAX);
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
	(void)bad;
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
		cmocka_unit_test(every_version_target_and_offset_size),
		cmocka_unit_test(inlined_calls_have_their_callers_and_places),
		cmocka_unit_test(a_function_in_an_abstract_one_has_its_calls),
		cmocka_unit_test(a_call_without_a_place_is_in_its_callers_file),
		cmocka_unit_test(nested_calls_without_a_place),
		cmocka_unit_test(a_child_past_its_parent_is_still_the_innermost),
		cmocka_unit_test(calls_outside_of_their_function),
		cmocka_unit_test(calls_of_a_function_whose_own_code_is_dead),
		cmocka_unit_test(many_overlapping_calls_in_any_order),
		cmocka_unit_test(an_inlined_call_of_no_size_is_ignored),
		cmocka_unit_test(ranges_of_version_4),
		cmocka_unit_test(offsets_from_dropped_code_are_no_code),
		cmocka_unit_test(ranges_of_version_5),
		cmocka_unit_test(high_pc_of_any_form),
		cmocka_unit_test(dead_code_has_no_address),
		cmocka_unit_test(abbreviations_in_any_order_and_without_an_end),
		cmocka_unit_test(names_through_origin_and_specification_of_another_unit),
		cmocka_unit_test(origins_in_a_circle_end),
		cmocka_unit_test(names_without_linkage_name_are_qualified_by_scopes),
		cmocka_unit_test(code_of_one_function_in_two_places),
		cmocka_unit_test(of_functions_at_one_address_always_the_same_is_visible),
		cmocka_unit_test(of_folded_functions_the_one_with_calls_is_visible),
		cmocka_unit_test(of_folded_functions_the_one_with_lines_is_visible),
		cmocka_unit_test(hidden_lines_are_counted),
		cmocka_unit_test(a_missing_supplementary_file_is_reported),
		cmocka_unit_test(a_missing_split_file_leaves_lines_and_symbols),
		cmocka_unit_test(damage_in_one_unit_loses_only_that_unit),
		cmocka_unit_test(a_unit_of_too_deep_dies_is_skipped),
		cmocka_unit_test(a_large_function_answers_as_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
