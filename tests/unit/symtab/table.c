/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that are damaged, of another version, of many blocks.
 */
#include "test.h"

#include "answers.h"

static void a_cancelled_build_fails_with_err_cancelled(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf out = { 0 };
	atomic_bool cancel = true;
	const struct symtab_options o = { .cancel = &cancel };
	struct symtab_stats st;
	struct err err = { 0 };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	answers_open(&a);
	assert_fails(symtab_build(a.img, &o, &out, &st, &err), ERR_CANCELLED, "cancelled");
	cancel = false;
	assert_done(symtab_build(a.img, &o, &out, &st, &err));
}

static void every_damaged_byte_is_noticed_or_harmless(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	answers_open(&a);
	/* Padding follows the blocks. */
	for (size_t i = 0; i + 32 < a.table.size; i++) {
		struct symtab_frames frames;
		struct symtab *t = NULL;
		struct err err = { 0 };
		int r;

		a.table.p[i] ^= 0x10;
		r = symtab_open_mem(buf_bytes(&a.table), &t, &err);
		if (r == 0) {
			struct symtab_finder *f = symtab_finder_new(t);

			assert_fails(symtab_find(f, 0x1010, &frames, &err), ERR_INVALID, "damaged");
			symtab_finder_free(f);
			symtab_close(t);
		}
		a.table.p[i] ^= 0x10;
	}
}

static void another_version_and_a_cut_table_are_refused(void **state)
{
	AUTO(answers_done) struct answers a;
	struct symtab *t;
	struct err err = { 0 };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	answers_open(&a);
	assert_fails(symtab_open_mem(bytes_of(a.table.p, a.table.size - 1), &t, &err), ERR_INVALID, "bytes");
	assert_fails(symtab_open_mem(bytes_of(a.table.p, 100), &t, &err), ERR_INVALID, "not a symbol table");
	a.table.p[8]++;
	assert_fails(symtab_open_mem(buf_bytes(&a.table), &t, &err), ERR_INVALID, "version 3");
	a.table.p[8]--;
	assert_fails(symtab_open_mem(bytes_of("\x7f"
					      "ELF",
					      4),
				     &t, &err),
		     ERR_INVALID, "not a symbol table");
}

static void symtab_next_visits_all_code(void **state)
{
	AUTO(answers_done) struct answers a;
	struct symtab_frames frames;
	struct err err = { 0 };
	uint64_t at = 0;
	unsigned n = 0;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "far", STT_FUNC, STB_GLOBAL, 0x1f00, 0x10);
	add_plain(&a);
	answers_open(&a);
	for (; symtab_next(a.f, at, &frames, &err) == 0; at = frames.hi, n++)
		assert_true(frames.lo >= at && frames.hi > frames.lo);
	assert_int_equal(n, 17);
	assert_int_equal(at, 0x1f10);
}

/* Many functions in several blocks, looked up in both directions. */
static void many_blocks(void **state)
{
	AUTO(answers_done) struct answers a;
	const unsigned n = 20000;
	char name[64];

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.text_size = n * 16;
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "function_with_a_name_of_some_length_%u", i);
		code_symbol(&a.w, name, STT_FUNC, STB_GLOBAL, 0x1000 + i * 16, 12);
	}
	answers_open(&a);
	assert_true(symtab_info(a.t)->n_blocks >= 2);
	for (unsigned i = 0; i < n; i += 7) {
		unsigned k = i % 2 ? i : n - 1 - i;

		snprintf(name, sizeof(name), "function_with_a_name_of_some_length_%u", k);
		assert_answer(&a, 0x1000 + k * 16 + 11, name);
		assert_answer(&a, 0x1000 + k * 16 + 12, "-");
	}
}

static const char *random_name(char name[64], uint64_t i)
{
	snprintf(name, 64, "%016llx%016llx", (unsigned long long)(i * 0x9e3779b97f4a7c15),
		 (unsigned long long)hash64(&i, sizeof(i), 1));
	return name;
}

/* Incompressible names are stored in a block as they are. A look-up that comes back to a block asks for other
 * names than the first time. */
static void uncompressed_names_of_several_blocks(void **state)
{
	AUTO(answers_done) struct answers a;
	const unsigned n = 11500;
	struct symtab_frames frames;
	struct err err = { 0 };
	char name[64];

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.text_size = n * 16;
	for (unsigned i = 0; i < n; i++)
		code_symbol(&a.w, random_name(name, i), STT_FUNC, STB_GLOBAL, 0x1000 + i * 16, 12);
	answers_open(&a);
	assert_true(symtab_info(a.t)->n_blocks >= 2);
	/* The last block, which is small, then the others, and again. */
	for (unsigned round = 0; round < 5; round++)
		for (unsigned i = n - 1 - round * 7; i > 1000; i -= 1000) {
			assert_int_equal(symtab_find(a.f, 0x1000 + i * 16, &frames, &err), 0);
			assert_str(frames.list[0].name, random_name(name, i));
		}
}

/* Another function covers each fourth byte of it: copies of its rows are limited to as many again. */
static void a_function_cut_by_thousands_of_others_is_bounded(void **state)
{
	static const char *const files[] = { "a.c", NULL };
	enum { N = 200000 };
	AUTO(answers_done) struct answers a;
	struct symtab_options o = { .n_threads = 1 };
	struct err err = { 0 };
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.version = 4;
	a.w.text_size = N;
	lines = code_lines_begin(&a.w, files);
	for (unsigned i = 0; i < N; i++)
		code_row(&a.w, 0x1000 + i, 1, 10 + i * 37 % 1000);
	code_sequence_end(&a.w, 0x1000 + N);
	code_lines_end(&a.w);
	code_unit_c(&a.w, lines);
	add_function(&a, "f", 0x1000, N);
	for (unsigned i = 1; i < N; i += 4)
		add_function(&a, "g", 0x1000 + i, 1);
	code_up(&a.w);
	code_unit_end(&a.w);
	code_writer_finish(&a.w, &a.file);
	a.src = source_of_mem(buf_bytes(&a.file), "x");
	assert_done(elf_open(a.src, &a.img, &err));
	assert_done(symtab_build(a.img, &o, &a.table, &a.stats, &err));
	assert_true(a.table.size < MIB(10));
	assert_done(symtab_open_mem(buf_bytes(&a.table), &a.t, &err));
	a.f = symtab_finder_new(a.t);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x1005, "g at /src/a.c:195");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cancelled_build_fails_with_err_cancelled),
		cmocka_unit_test(every_damaged_byte_is_noticed_or_harmless),
		cmocka_unit_test(another_version_and_a_cut_table_are_refused),
		cmocka_unit_test(symtab_next_visits_all_code),
		cmocka_unit_test(many_blocks),
		cmocka_unit_test(uncompressed_names_of_several_blocks),
		cmocka_unit_test(a_function_cut_by_thousands_of_others_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
