/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined calls: their names, files and lines, and which of them is visible where they overlap or leave their function.
 */
#include "test.h"

#include "answers.h"

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

#define NESTED 60

/* One function with calls nested in each other, and names of some KB that have nothing in common. */
static void add_long_names(struct answers *a)
{
	uint64_t origins[NESTED], lines;

	lines = add_lines(a);
	code_unit_c(&a->w, lines);
	for (unsigned i = 0; i < NESTED; i++) {
		AUTO(mem_freep) char *name = mem_alloc(4001);

		for (unsigned k = 0; k < 4000; k++)
			name[k] = (char)('a' + hash64(&k, sizeof(k), i) % 26);
		name[4000] = '\0';
		origins[i] = add_abstract(a, name);
	}
	begin_function(a, "f", 0x1000, 0x100);
	for (unsigned i = 0; i < NESTED; i++)
		begin_inlined(a, origins[i], 0x1010, 0x10);
	for (unsigned i = 0; i < NESTED + 2; i++)
		code_up(&a->w);
	code_unit_end(&a->w);
}

/* With too little memory there is no answer: never one without its names. */
static void names_have_a_limit_of_memory(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t need = UINT64_MAX;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_long_names(&a);
	answers_open(&a);
	for (uint64_t max = 0; max < MIB(1); max += max < KIB(8) ? 500 : KIB(7)) {
		struct symtab_finder *f = symtab_finder_new(a.t);
		struct symtab_frames got;
		struct budget_hold hold;
		struct err err = { 0 };
		int r;

		budget_hold_init(&hold, NULL, BUDGET_FILE);
		atomic_store(&hold.max, max);
		symtab_finder_set_memory(f, &hold);
		/* Again after a refusal, too. */
		for (int i = 0; i < 2; i++) {
			r = symtab_find(f, 0x1018, &got, &err);
			assert_true(r == 0 || err.kind == ERR_LIMIT || err.kind == ERR_BUSY);
			assert_true(atomic_load(&hold.used) <= max + KIB(4));
			if (r != 0)
				continue;
			need = MIN(need, max);
			assert_int_equal(got.n, NESTED + 1);
			for (size_t k = 0; k < NESTED; k++)
				assert_int_equal(got.list[k].name.size, 4000);
		}
		assert_true(need == UINT64_MAX || r == 0);
		symtab_finder_free(f);
		assert_int_equal(atomic_load(&hold.used), 0);
		budget_hold_done(&hold);
	}
	assert_in_range(need, NESTED * 4000, MIB(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inlined_calls_have_their_callers_and_places),
		cmocka_unit_test(a_function_in_an_abstract_one_has_its_calls),
		cmocka_unit_test(a_call_without_a_place_is_in_its_callers_file),
		cmocka_unit_test(nested_calls_without_a_place),
		cmocka_unit_test(a_child_past_its_parent_is_still_the_innermost),
		cmocka_unit_test(calls_outside_of_their_function),
		cmocka_unit_test(calls_of_a_function_whose_own_code_is_dead),
		cmocka_unit_test(many_overlapping_calls_in_any_order),
		cmocka_unit_test(an_inlined_call_of_no_size_is_ignored),
		cmocka_unit_test(names_have_a_limit_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
