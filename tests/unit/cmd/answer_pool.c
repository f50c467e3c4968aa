/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many questions at once: the output is the same for any number of threads, and the same as for single
 * questions.
 */
#include "test.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "../symtab/answers.h"
#include "cmd/symbolize/answer_pool.h"

#define N_FUNCTIONS 60u
#define FUNCTION    0x40u
#define N_QUESTIONS 9000u /* enough for four threads */

/* Functions with an inlined g, with an inlined h in it; two of three have mangled names. */
static void make_functions(struct answers *a)
{
	static const char *const files[] = { "a.c", "b.h", NULL };
	uint64_t lines, g, h;
	char name[32];

	answers_init(a, ELF_WRITER_X86_64, ET_DYN);
	a->w.version = 4;
	lines = code_lines_begin(&a->w, files);
	for (unsigned i = 0; i < N_FUNCTIONS * FUNCTION / 8; i++)
		code_row(&a->w, 0x1000 + 8 * i, 1 + i % 3 % 2, 10 + i);
	code_sequence_end(&a->w, 0x1000 + N_FUNCTIONS * FUNCTION);
	code_lines_end(&a->w);
	code_unit_c(&a->w, lines);
	g = code_die(&a->w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("g"), A_INLINE, F_DATA1, U(1), A_LINKAGE,
		     F_STRING, S("_ZN3app1gEv"), 0u);
	h = code_die(&a->w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("h"), A_INLINE, F_DATA1, U(1), 0u);
	for (unsigned i = 0; i < N_FUNCTIONS; i++) {
		uint64_t at = 0x1000 + i * FUNCTION;

		snprintf(name, sizeof(name), i % 3 ? "_ZN3app4f%03uEv" : "f%u", i);
		code_die(&a->w, T_SUBPROGRAM, true, A_NAME, F_STRING, S("f"), A_LINKAGE, F_STRING, S(name),
			 A_LOW, F_ADDR, at, A_HIGH, F_DATA4, U(FUNCTION - i % 4), 0u);
		code_die(&a->w, T_INLINED, true, A_ORIGIN, F_REF4, g, A_LOW, F_ADDR, at + 0x10, A_HIGH,
			 F_DATA4, U(0x20), A_CALL_FILE, F_DATA1, U(1), A_CALL_LINE, F_DATA1, U(7), 0u);
		code_die(&a->w, T_INLINED, false, A_ORIGIN, F_REF4, h, A_LOW, F_ADDR, at + 0x18, A_HIGH,
			 F_DATA4, U(8), A_CALL_FILE, F_DATA1, U(2), A_CALL_LINE, F_DATA1, U(41), 0u);
		code_up(&a->w);
		code_up(&a->w);
	}
	code_up(&a->w);
	code_unit_end(&a->w);
	answers_open(a);
}

/* Addresses all over the code and beside it, and texts that are not addresses, if the style repeats them. */
static void make_questions(struct question *list, size_t n, const struct symbolize_style *style)
{
	uint32_t random[N_QUESTIONS];

	test_fill(random, sizeof(random), 4);
	for (size_t i = 0; i < n; i++) {
		list[i] = (struct question){ .addr = 0xff0 + random[i] % (N_FUNCTIONS * FUNCTION + 0x20) };
		if (style->echo && i % 1000 == 7)
			list[i] = (struct question){ .answer.head = STR("what?") };
	}
}

struct pool_fixture {
	struct settings s;
	const struct symbolize_style *style;
	struct lookup_file file;
	size_t limit; /* of the texts; 0: the usual one */
	struct err err;
};

static struct pool_fixture pool_fixture(struct answers *a, const char *style, unsigned threads)
{
	struct pool_fixture t = { .style = symbolize_style_find(str_of(style)),
				  .file = { .table = a->t, .finder = a->f } };

	assert_non_null(t.style);
	t.s.symbols.functions = t.s.symbols.inlines = true;
	t.s.symbols.demangling = FRAME_DEMANGLE_FULL;
	t.s.symbols.threads = threads;
	return t;
}

/* Answer with @fd as standard output, @at_once questions in a call. */
static int answer_to(int fd, struct pool_fixture *t, struct question *list, size_t n, size_t at_once,
		     struct answer_sums *ret)
{
	const struct answer_source from = { &t->s, t->style, &t->file, NULL, STR("x") };
	struct answer_pool *p = answer_pool_new(&from);
	int out = dup(STDOUT_FILENO), r = 0;

	if (t->limit)
		answer_pool_limit(p, t->limit);
	fflush(stdout);
	assert_true(out >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
	for (size_t i = 0; i < n && r == 0; i += at_once)
		r = answer_pool_write(p, list + i, MIN(at_once, n - i), &t->err);
	assert_true(dup2(out, STDOUT_FILENO) >= 0);
	close(out);
	*ret = answer_pool_sums(p);
	answer_pool_free(p);
	return r;
}

/* The output for @list, @at_once questions in a call. */
static int output_of(struct pool_fixture *t, struct question *list, size_t n, size_t at_once, struct buf *out,
		     struct answer_sums *ret)
{
	int fd = memfd_create("out", MFD_CLOEXEC), r;
	off_t size;

	assert_true(fd >= 0);
	r = answer_to(fd, t, list, n, at_once, ret);
	size = lseek(fd, 0, SEEK_END);
	out->size = 0;
	assert_true(size >= 0 && pread(fd, buf_reserve(out, (size_t)size), (size_t)size, 0) == size);
	out->size = (size_t)size;
	close(fd);
	return r;
}

static void text_of(struct answers *a, const char *style, unsigned threads, size_t limit, size_t n,
		    size_t at_once, struct buf *out, struct answer_sums *ret)
{
	AUTO(mem_freep) struct question *list = NEW_N(struct question, n);
	struct pool_fixture t = pool_fixture(a, style, threads);

	t.limit = limit;
	make_questions(list, n, t.style);
	if (output_of(&t, list, n, at_once, out, ret) < 0)
		fail_msg("%s", t.err.text);
}

static void output_is_the_same_for_any_number_of_threads(void **state)
{
	static const char *const styles[] = { "lode", "gnu", "llvm", "json" };
	AUTO(answers_done) struct answers a;

	make_functions(&a);
	for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
		AUTO(buf_done) struct buf one = { 0 }, more = { 0 }, alone = { 0 };
		struct answer_sums want, got;

		text_of(&a, styles[i], 1, 0, N_QUESTIONS, N_QUESTIONS, &one, &want);
		assert_int_equal(want.n, N_QUESTIONS);
		for (unsigned threads = 2; threads <= 4; threads += 2) {
			text_of(&a, styles[i], threads, 0, N_QUESTIONS, N_QUESTIONS, &more, &got);
			assert_true(bytes_eq(buf_bytes(&one), buf_bytes(&more)));
			assert_true(got.n == want.n && got.n_missing == want.n_missing);
		}
		/* Also in several calls. */
		text_of(&a, styles[i], 3, 0, N_QUESTIONS, 5000, &more, &got);
		assert_true(bytes_eq(buf_bytes(&one), buf_bytes(&more)));
		text_of(&a, styles[i], 1, 0, 500, 500, &more, &got);
		text_of(&a, styles[i], 1, 0, 500, 1, &alone, &got);
		assert_true(bytes_eq(buf_bytes(&alone), buf_bytes(&more)));
		assert_true(memmem(alone.p, alone.size, "app::f001", 9) && got.text_size > 0);
	}
}

/* The finder may reuse the memory of a block's strings for those of another block. */
static void reused_string_memory_is_noticed(void **state)
{
	char text[] = "_Z1av.c";
	struct symtab_frame f = { .linkage = { text, 5 }, .file = { text + 4, 3 }, .line = 1 };
	struct symtab_frames frames = { .list = &f, .n = 1, .start = 0x1000, .hi = 0x1010, .end = 0x1010 };
	struct settings s = { .symbols = { .functions = true, .inlines = true } };
	AUTO(symbolize_writer_done) struct symbolize_writer w;
	AUTO(buf_done) struct buf out = { 0 };
	struct answer_text first, second, third;

	s.symbols.demangling = FRAME_DEMANGLE_FULL;
	symbolize_writer_init(&w, &s, symbolize_style_find(STR("llvm")));
	first = symbolize_writer_make(&w, 0x1000, &frames);
	text[3] = 'b';
	second = symbolize_writer_make(&w, 0x1001, &frames);
	text[6] = 'h';
	third = symbolize_writer_make(&w, 0x1002, &frames);
	answer_text_add(&s, w.style, &first, &out);
	answer_text_add(&s, w.style, &second, &out);
	answer_text_add(&s, w.style, &third, &out);
	assert_string_equal(buf_cstr(&out), "a()\nv.c:1:0\n\nb()\nv.c:1:0\n\nb()\nv.h:1:0\n\n");
}

static void answers_beyond_the_limit_are_made_late(void **state)
{
	static const char *const styles[] = { "lode", "llvm" };
	AUTO(answers_done) struct answers a;

	make_functions(&a);
	for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
		AUTO(buf_done) struct buf all = { 0 }, few = { 0 };
		struct answer_sums want, got;

		text_of(&a, styles[i], 1, 0, N_QUESTIONS, N_QUESTIONS, &all, &want);
		for (unsigned threads = 1; threads <= 4; threads += 3) {
			text_of(&a, styles[i], threads, 4000, N_QUESTIONS, N_QUESTIONS, &few, &got);
			assert_true(bytes_eq(buf_bytes(&all), buf_bytes(&few)));
			assert_true(got.n_missing == want.n_missing && got.text_size < want.text_size / 4);
		}
	}
}

static void a_failed_write_is_returned(void **state)
{
	AUTO(answers_done) struct answers a;

	make_functions(&a);
	for (unsigned threads = 1; threads <= 4; threads += 3) {
		AUTO(mem_freep) struct question *list = NEW_N(struct question, N_QUESTIONS);
		struct pool_fixture t = pool_fixture(&a, "llvm", threads);
		int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
		struct answer_sums sums;

		assert_true(full >= 0);
		make_questions(list, N_QUESTIONS, t.style);
		assert_true(answer_to(full, &t, list, N_QUESTIONS, N_QUESTIONS, &sums) < 0);
		assert_true(t.err.kind == ERR_IO && strstr(t.err.text, "No space left"));
		close(full);
	}
}

/* Enough functions for several blocks in the table; see docs/formats/symtab.md. */
#define N_SYMBOLS 20000u

static void make_blocks(struct answers *a)
{
	char name[64];

	answers_init(a, ELF_WRITER_X86_64, ET_DYN);
	a->w.text_size = N_SYMBOLS * 16;
	for (unsigned i = 0; i < N_SYMBOLS; i++) {
		snprintf(name, sizeof(name), "function_with_a_name_of_some_length_%u", i);
		code_symbol(&a->w, name, STT_FUNC, STB_GLOBAL, 0x1000 + i * 16, 16);
	}
	answers_open(a);
	assert_true(symtab_info(a->t)->n_blocks >= 3);
}

static uint64_t number(const struct buf *table, size_t at)
{
	uint64_t v;

	memcpy(&v, table->p + at, sizeof(v));
	return le64toh(v);
}

/* Damage a block. Returns its first address. */
static uint64_t damage(struct buf *table, size_t block)
{
	size_t row = (size_t)(number(table, 40) >> 32) + 32 * block;

	table->p[number(table, row + 16) + 100] ^= 1;
	return number(table, row);
}

/* Of two errors the one of the earlier question is returned, after the answers to all questions before it. */
static void the_first_error_in_the_order_of_questions_is_returned(void **state)
{
	/* The first questions for addresses of blocks 1 and 2. */
	static const size_t places[][2] = { { 3001, 3002 }, { 3001, 8000 }, { 8000, 3001 },
					    { 0, 8999 },    { 8448, 8447 }, { 512, 511 } };
	static const size_t limits[] = { 0, 20000, 1 };
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf table = { 0 }, want = { 0 }, got = { 0 };
	AUTO(mem_freep) struct question *list = NEW_N(struct question, N_QUESTIONS);
	uint64_t bad[2], n_good;

	make_blocks(&a);
	buf_add(&table, a.table.p, a.table.size);
	for (size_t k = 0; k < 2; k++)
		bad[k] = damage(&table, k + 1);
	n_good = bad[0] - 0x1000;
	for (size_t i = 0; i < ARRAY_SIZE(places) * ARRAY_SIZE(limits) * 3; i++) {
		const size_t *at = places[i % ARRAY_SIZE(places)];
		size_t first = MIN(at[0], at[1]);
		struct pool_fixture t = pool_fixture(&a, "llvm", 1 << i / ARRAY_SIZE(places) % 3);
		struct answer_sums sums;
		struct err err = { 0 };

		for (size_t k = 0; k < N_QUESTIONS; k++)
			list[k] = (struct question){ .addr = 0x1000 + k * 7919 % n_good };
		assert_int_equal(output_of(&t, list, first, N_QUESTIONS, &want, &sums), 0);
		for (size_t k = 0; k < N_QUESTIONS; k++)
			list[k] = (struct question){ .addr = 0x1000 + k * 7919 % n_good };
		for (size_t j = 0; j < 2; j++)
			for (size_t k = at[j]; k < N_QUESTIONS; k += 3)
				list[k] = (struct question){ .addr = bad[j] + k };
		t.limit = limits[i / ARRAY_SIZE(places) / 3];
		assert_done(symtab_open_mem(buf_bytes(&table), &t.file.table, &err));
		t.file.finder = symtab_finder_new(t.file.table);
		assert_true(output_of(&t, list, N_QUESTIONS, N_QUESTIONS, &got, &sums) < 0);
		assert_int_equal(t.err.kind, ERR_INVALID);
		assert_string_equal(t.err.text, at[0] < at[1] ? "block 1 is damaged" : "block 2 is damaged");
		assert_true(bytes_eq(buf_bytes(&want), buf_bytes(&got)));
		symtab_finder_free(t.file.finder);
		symtab_close(t.file.table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_is_the_same_for_any_number_of_threads),
		cmocka_unit_test(reused_string_memory_is_noticed),
		cmocka_unit_test(answers_beyond_the_limit_are_made_late),
		cmocka_unit_test(a_failed_write_is_returned),
		cmocka_unit_test(the_first_error_in_the_order_of_questions_is_returned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
