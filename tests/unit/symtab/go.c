/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own table in each of its layouts: two functions, the second with code of another file.
 */
#include "test.h"

#include "answers.h"

struct made {
	struct answers *a;
	struct buf b;
	unsigned ptr;
	bool calls;                                /* the second function has a tree of calls */
	enum { GO_1_9, GO_1_12, GO_1_14 } version; /* of calls before 1.16 */
	size_t names;                              /* the address of the first */
};

static const enum elf_writer_target targets[] = { ELF_WRITER_X86_64, ELF_WRITER_S390X, ELF_WRITER_I386 };

enum { TABLE = 0x20000, TREES = 0x30000, MODULE = 0x40000 };

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

/* A function's description, with the offsets of the layout. */
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
	put(m, 9, 4); /* the line of its start, from 1.20 on */
	put(m, 0, 8);
}

/* No call for 16 bytes, call 0, call 1 within it, no call. */
static const char call_steps[] = "\x00\x10\x02\x10\x02\x10\x03\x10";

/* The variable part of a function: its programs, of which the third is for calls, and its data, of which the
 * fourth is their tree. */
static void add_calls(struct made *m, uint32_t magic, uint64_t steps, uint64_t tree)
{
	bool small = magic != 0xfffffffa;

	buf_add(&m->b, "\0\0\0\x04", 4);
	put(m, 0, 8);
	put(m, steps, 4);
	while (!small && m->b.size % m->ptr)
		buf_add_char(&m->b, 0);
	for (int i = 0; i < 3; i++)
		put(m, small ? UINT32_MAX : 0, small ? 4 : m->ptr);
	put(m, small ? tree : TREES + tree, small ? 4 : m->ptr);
}

/* A module's description, of which the table's address and the start of all trees are read; and the trees. */
static void add_module(struct made *m, uint32_t magic)
{
	struct elf_writer *w = &m->a->w.elf;
	AUTO(buf_done) struct buf module = { 0 }, trees = { 0 };
	unsigned word = magic == 0xfffffff0 ? 38 : 40, at;

	/* A decoy: it starts like a module's description. */
	elf_writer_put(w, &module, TABLE, m->ptr);
	for (unsigned i = 0; i <= word; i++)
		elf_writer_put(w, &module,
			       i == 0      ? TABLE
			       : i == 1    ? TABLE + m->names
			       : i < 4     ? 24
			       : i == word ? TREES
					   : 0x666,
			       m->ptr);
	at = elf_writer_section(w, ".noptrdata", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, buf_bytes(&module));
	elf_writer_at(w, at)->addr = MODULE;
	buf_add(&trees, "whatever", 8);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t name = i ? 29 : 24, line = i ? 0x18 : 8;

		elf_writer_put(w, &trees, 0, 4);
		if (magic != 0xfffffff1)
			elf_writer_put(w, &trees, 0, 8);
		elf_writer_put(w, &trees, name, 4);
		elf_writer_put(w, &trees, line, 4);
		if (magic == 0xfffffff1)
			elf_writer_put(w, &trees, 3, 4);
	}
	at = elf_writer_section(w, ".rodata", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&trees));
	elf_writer_at(w, at)->addr = TREES;
}

/* Go 1.16, 1.18, 1.20. */
static void make_new(struct made *m, uint32_t magic, uint64_t text)
{
	bool small = magic != 0xfffffffa;
	unsigned row = small ? 4 : m->ptr;
	size_t head, names, units, files, steps, funcs;
	uint64_t f, l, c;

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
	names = m->names = m->b.size;
	buf_add(&m->b, "main.main\0main.(*T).add\0leaf\0deep", 34);
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
	c = m->b.size - steps;
	buf_add(&m->b, call_steps, sizeof(call_steps));
	while (m->b.size % 8)
		buf_add_char(&m->b, 0);
	funcs = m->b.size;
	for (unsigned i = 0; i < 2; i++) {
		put(m, (small ? 0 : text) + 0x40 * i, row);
		put(m, 5 * row + i * ((small ? 4 : m->ptr) + 44), row);
	}
	put(m, (small ? 0 : text) + 0x80, row);
	add_func(m, small, 0, 0, 0, 0, 1);
	add_func(m, small, 0x40, 10, f, l, 1);
	if (m->calls) {
		/* Replace the zero numbers of programs and data. */
		m->b.size -= magic == 0xfffffff1 ? 8 : 12;
		set(m, m->b.size - (magic == 0xfffffff1 ? 12 : 8), 3, 4);
		add_calls(m, magic, c, 8);
	}
	set(m, head, names, m->ptr);
	set(m, head + m->ptr, units, m->ptr);
	set(m, head + 2 * m->ptr, files, m->ptr);
	set(m, head + 3 * m->ptr, steps, m->ptr);
	set(m, head + 4 * m->ptr, funcs, m->ptr);
}

/*
 * The same before Go 1.16: calls use the second program and the third datum, from Go 1.14 on the third and
 * the fifth; up to Go 1.11 they have caller, file and line themselves. @names: "leaf", "deep".
 */
static void add_old_calls(struct made *m, uint64_t steps, uint64_t names)
{
	static const uint8_t others[] = { 3, 0, 0, 0, 0xff, 0xff };
	struct elf_writer *w = &m->a->w.elf;
	AUTO(buf_done) struct buf b = { 0 };
	unsigned n_programs = m->version == GO_1_14 ? 3 : 2, n_data = m->version == GO_1_14 ? 5 : 3, at;

	/* Fields after the number of programs that only other layouts have. */
	m->b.size -= 16;
	set(m, m->b.size - 4, n_programs, 4);
	if (m->version == GO_1_9)
		put(m, n_data, 4);
	else
		buf_add(&m->b, m->version == GO_1_14 ? "\x04\0\0\x05" : "\x04\0\0\x03", 4);
	for (unsigned i = 0; i < n_programs; i++)
		put(m, steps, 4);
	while (m->b.size % m->ptr)
		buf_add_char(&m->b, 0);
	/* All others point to bytes that are no tree. */
	for (unsigned i = 0; i + 1 < n_data; i++)
		put(m, TREES, m->ptr);
	put(m, TREES + 8, m->ptr);
	buf_add(&b, others, sizeof(others));
	buf_add(&b, "\0", 2);
	for (unsigned i = 0; i < 2; i++) {
		if (m->version == GO_1_9) {
			elf_writer_put(w, &b, i ? 0 : UINT32_MAX, 4);
		} else {
			elf_writer_put(w, &b, i ? 0 : UINT16_MAX, 2);
			buf_add(&b, "\x02", 2);
		}
		elf_writer_put(w, &b, i, 4); /* the file; from 1.12 on it comes with the call's instruction */
		elf_writer_put(w, &b, i ? 20 : 10, 4);
		elf_writer_put(w, &b, names + i * 5, 4);
		if (m->version != GO_1_9)
			elf_writer_put(w, &b, i ? 0x18 : 8, 4);
	}
	at = elf_writer_section(w, ".rodata", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&b));
	elf_writer_at(w, at)->addr = TREES;
}

static void make_old(struct made *m, uint64_t text)
{
	size_t rows, files, name, path;
	uint64_t f, l, c;

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
	buf_add(&m->b, "main.(*T).add\0leaf\0deep", 24);
	path = m->b.size;
	buf_add(&m->b, "/src/a.go\0/src/b.go", 20);
	f = add_steps(m, file_steps);
	l = add_steps(m, line_steps);
	c = m->b.size;
	buf_add(&m->b, call_steps, sizeof(call_steps));
	files = m->b.size;
	put(m, path, 4);
	put(m, path + 10, 4);
	while (m->b.size % 8)
		buf_add_char(&m->b, 0);
	set(m, rows + m->ptr, m->b.size, m->ptr);
	set(m, rows + 3 * m->ptr, files, 4);
	add_func(m, false, text + 0x40, name, f, l, 0);
	if (m->calls)
		add_old_calls(m, c, name + 14);
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

	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++)
			check(targets[k], magics[i], true);
}

static void check_calls(enum elf_writer_target target, uint32_t magic, unsigned version)
{
	AUTO(answers_done) struct answers a;
	struct made m = { .a = &a, .calls = true, .version = version };
	unsigned at;

	answers_init(&a, target, ET_EXEC);
	m.ptr = elf_writer_word(&a.w.elf);
	if (magic == 0xfffffffb) {
		make_old(&m, 0x1000);
	} else {
		make_new(&m, magic, 0x1000);
		add_module(&m, magic);
	}
	at = elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
	elf_writer_at(&a.w.elf, at)->addr = TABLE;
	answers_open(&a);
	assert_answer(&a, 0x1040, "main.(*T).add at /src/a.go:10");
	assert_answer(&a, 0x1050, "leaf at /src/b.go:20 in main.(*T).add at /src/a.go:10");
	assert_answer(&a, 0x106f,
		      "deep at /src/a.go:11 in leaf at /src/b.go:20 in main.(*T).add at /src/a.go:10");
	assert_answer(&a, 0x1070, "main.(*T).add at /src/a.go:11");
	buf_done(&m.b);
}

static void calls_that_were_inlined(void **state)
{
	static const uint32_t magics[] = { 0xfffffffa, 0xfffffff0, 0xfffffff1 };

	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++)
			check_calls(targets[k], magics[i], 0);
}

static void calls_before_go_1_16(void **state)
{
	for (unsigned version = GO_1_9; version <= GO_1_14; version++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++)
			check_calls(targets[k], 0xfffffffb, version);
}

/* In a position-independent program a relocation writes the start of the text. */
static void a_header_without_the_start_of_text_uses_the_section(void **state)
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
		cmocka_unit_test(calls_that_were_inlined),
		cmocka_unit_test(calls_before_go_1_16),
		cmocka_unit_test(a_header_without_the_start_of_text_uses_the_section),
		cmocka_unit_test(a_damaged_table_is_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
