/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own table in each of its layouts: two functions, the second one with code of another file in it.
 */
#include "test.h"

#include "answers.h"

struct made {
	struct answers *a;
	struct buf b;
	unsigned ptr;
};

static void put(struct made *m, uint64_t v, unsigned size)
{
	elf_writer_put(&m->a->w.elf, &m->b, v, size);
}

static void set(struct made *m, size_t at, uint64_t v, unsigned size)
{
	AUTO(buf_done) struct buf b = { 0 };

	elf_writer_put(&m->a->w.elf, &b, v, size);
	memcpy(m->b.p + at, b.p, size);
}

/* Value 0 for 16 bytes, 1 for 16, 0 for the rest; lines 10, 20, 11. */
static const char file_steps[] = "\x02\x10\x02\x10\x01\x20";
static const char line_steps[] = "\x16\x10\x14\x10\x11\x20";

static uint64_t add_steps(struct made *m, const char *steps)
{
	uint64_t at = m->b.size;

	buf_add(&m->b, steps, 7);
	return at;
}

/* A function's description; offsets are those that the layout wants. */
static void add_func(struct made *m, bool small, uint64_t pc, uint64_t name, uint64_t files, uint64_t lines,
		     uint64_t unit)
{
	put(m, pc, small ? 4 : m->ptr);
	put(m, name, 4);
	put(m, 0, 8);
	put(m, 0, 4);
	put(m, files, 4);
	put(m, lines, 4);
	put(m, 0, 4);
	put(m, unit, 4);
	put(m, 9, 4); /* the line of its begin, from 1.20 on */
	put(m, 0, 8);
}

/* Go 1.16, 1.18, 1.20. */
static void make_new(struct made *m, uint32_t magic, uint64_t text)
{
	bool small = magic != 0xfffffffa;
	unsigned row = small ? 4 : m->ptr;
	size_t head, names, units, files, steps, funcs;
	uint64_t f, l;

	put(m, magic, 4);
	buf_add(&m->b, "\0\0\x01", 3);
	put(m, m->ptr, 1);
	put(m, 2, m->ptr);
	put(m, 2, m->ptr);
	if (small)
		put(m, text, m->ptr);
	head = m->b.size;
	for (int i = 0; i < 5; i++)
		put(m, 0, m->ptr);
	names = m->b.size;
	buf_add(&m->b, "main.main\0main.(*T).add", 24);
	units = m->b.size;
	put(m, 99999, 4);
	put(m, 0, 4);
	put(m, 10, 4);
	files = m->b.size;
	buf_add(&m->b, "/src/a.go\0/src/b.go", 20);
	steps = m->b.size;
	buf_add_char(&m->b, 0);
	f = add_steps(m, file_steps) - steps;
	l = add_steps(m, line_steps) - steps;
	funcs = m->b.size;
	for (unsigned i = 0; i < 2; i++) {
		put(m, (small ? 0 : text) + 0x40 * i, row);
		put(m, 5 * row + i * ((small ? 4 : m->ptr) + 44), row);
	}
	put(m, (small ? 0 : text) + 0x80, row);
	add_func(m, small, 0, 0, 0, 0, 1);
	add_func(m, small, 0x40, 10, f, l, 1);
	set(m, head, names, m->ptr);
	set(m, head + m->ptr, units, m->ptr);
	set(m, head + 2 * m->ptr, files, m->ptr);
	set(m, head + 3 * m->ptr, steps, m->ptr);
	set(m, head + 4 * m->ptr, funcs, m->ptr);
}

static void make_old(struct made *m, uint64_t text)
{
	size_t rows, files, name, path;
	uint64_t f, l;

	put(m, 0xfffffffb, 4);
	buf_add(&m->b, "\0\0\x01", 3);
	put(m, m->ptr, 1);
	put(m, 1, m->ptr);
	rows = m->b.size;
	put(m, text + 0x40, m->ptr);
	put(m, 0, m->ptr);
	put(m, text + 0x80, m->ptr);
	put(m, 0, 4);
	name = m->b.size;
	buf_add(&m->b, "main.(*T).add", 14);
	path = m->b.size;
	buf_add(&m->b, "/src/a.go\0/src/b.go", 20);
	f = add_steps(m, file_steps);
	l = add_steps(m, line_steps);
	files = m->b.size;
	put(m, path, 4);
	put(m, path + 10, 4);
	set(m, rows + m->ptr, m->b.size, m->ptr);
	set(m, rows + 3 * m->ptr, files, 4);
	add_func(m, false, text + 0x40, name, f, l, 0);
}

static void check(enum elf_writer_target target, uint32_t magic, bool told)
{
	AUTO(answers_done) struct answers a;
	struct made m = { .a = &a };

	answers_init(&a, target, ET_EXEC);
	m.ptr = elf_writer_word(&a.w.elf);
	if (magic == 0xfffffffb)
		make_old(&m, 0x1000);
	else
		make_new(&m, magic, told || magic == 0xfffffffa ? 0x1000 : 0);
	elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
	answers_open(&a);
	assert_true(symtab_info(a.t)->flags & SYMTAB_HAS_GO);
	if (magic != 0xfffffffb)
		assert_answer(&a, 0x1000, "main.main");
	assert_answer(&a, 0x1040, "main.(*T).add at /src/a.go:10");
	assert_answer(&a, 0x1050, "main.(*T).add at /src/b.go:20");
	assert_answer(&a, 0x1060, "main.(*T).add at /src/a.go:11");
	assert_answer(&a, 0x107f, "main.(*T).add at /src/a.go:11");
	assert_answer(&a, 0x1080, "-");
	buf_done(&m.b);
}

static void every_layout_of_gos_table(void **state)
{
	static const uint32_t magics[] = { 0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1 };
	static const enum elf_writer_target targets[] = { ELF_WRITER_X86_64, ELF_WRITER_S390X,
							  ELF_WRITER_I386 };

	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++)
			check(targets[k], magics[i], true);
}

/* In a position-independent program the begin of the text is written by a relocation. */
static void where_the_text_is_not_told(void **state)
{
	check(ELF_WRITER_X86_64, 0xfffffff1, false);
}

static void a_damaged_table_is_listed(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_EXEC);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
	elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC,
			   bytes_of("\xf1\xff\xff\xff\0\0\x01\x08nonsense", 16));
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_layout_of_gos_table),
		cmocka_unit_test(where_the_text_is_not_told),
		cmocka_unit_test(a_damaged_table_is_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
