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
	const char *first;                         /* the first function's name; NULL: main.main */
	uint64_t module_text;                      /* the start of the code in the module's description */
	bool relocated;                            /* that description is written by relocations */
	bool moved;                                /* its words are those of Go 1.27 */
	uint64_t trees;                            /* the start of the trees in it; 0: the right one */
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
	AUTO(buf_done) struct buf module = { 0 }, trees = { 0 }, relocs = { 0 };
	unsigned word = magic == 0xfffffff0 ? 38 : m->moved ? 43 : 40, at;
	/* Types, length of their descriptions, end of types, two lengths. */
	static const uint64_t moved[] = { 0x50000, 0x700, 0x51000, 0x800, 0x100 };

	/* A decoy: it starts like a module's description. */
	elf_writer_put(w, &module, TABLE, m->ptr);
	for (unsigned i = 0; i <= 43; i++) {
		uint64_t v = i == 0                          ? TABLE
			     : i == 1                        ? TABLE + m->names
			     : i < 4                         ? 24
			     : i == 22                       ? m->module_text
			     : i == word                     ? (m->trees ? m->trees : TREES)
			     : m->moved && i >= 37 && i < 42 ? moved[i - 37]
			     : i == 37                       ? 0x50000
			     : i == 38                       ? 0x51000
							     : 0x666;

		if (m->relocated && (i < 2 || i == 22 || i == word)) {
			elf_writer_put(w, &relocs, MODULE + (i + 1) * m->ptr, m->ptr);
			elf_writer_put(w, &relocs, R_X86_64_RELATIVE, m->ptr);
			elf_writer_put(w, &relocs, v, m->ptr);
			v = 0;
		}
		elf_writer_put(w, &module, v, m->ptr);
	}
	if (m->relocated)
		elf_writer_section(w, ".rela.dyn", SHT_RELA, SHF_ALLOC, buf_bytes(&relocs));
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
	if (m->first)
		memcpy(m->b.p + names, m->first, strlen(m->first) + 1);
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

static void check_functions(struct made *m, const char *first)
{
	assert_true(symtab_info(m->a->t)->flags & SYMTAB_HAS_GO);
	if (first)
		assert_answer(m->a, 0x1000, first);
	assert_answer(m->a, 0x1040, "main.(*T).add at /src/a.go:10");
	assert_answer(m->a, 0x1050, "main.(*T).add at /src/b.go:20");
	assert_answer(m->a, 0x1060, "main.(*T).add at /src/a.go:11");
	assert_answer(m->a, 0x107f, "main.(*T).add at /src/a.go:11");
	assert_answer(m->a, 0x1080, "-");
	buf_done(&m->b);
}

static void check(enum elf_writer_target target, uint32_t magic)
{
	AUTO(answers_done) struct answers a;
	struct made m = { .a = &a };

	answers_init(&a, target, ET_EXEC);
	m.ptr = elf_writer_word(&a.w.elf);
	if (magic == 0xfffffffb)
		make_old(&m, 0x1000);
	else
		make_new(&m, magic, 0x1000);
	elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
	answers_open(&a);
	check_functions(&m, magic == 0xfffffffb ? NULL : "main.main");
}

static void every_layout_of_gos_table(void **state)
{
	static const uint32_t magics[] = { 0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1 };

	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++)
			check(targets[k], magics[i]);
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

/* Go 1.27 has the same magic. */
static void calls_of_go_1_27(void **state)
{
	for (unsigned relocated = 0; relocated < 2; relocated++) {
		AUTO(answers_done) struct answers a;
		struct made m = { .a = &a, .calls = true, .moved = true, .relocated = relocated };
		unsigned at;

		answers_init(&a, ELF_WRITER_X86_64, relocated ? ET_DYN : ET_EXEC);
		m.ptr = elf_writer_word(&a.w.elf);
		make_new(&m, 0xfffffff1, 0x1000);
		add_module(&m, 0xfffffff1);
		at = elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
		elf_writer_at(&a.w.elf, at)->addr = TABLE;
		answers_open(&a);
		assert_answer(&a, 0x1050, "leaf at /src/b.go:20 in main.(*T).add at /src/a.go:10");
		assert_int_equal(symtab_info(a.t)->n_skipped, 0);
		buf_done(&m.b);
	}
}

/* A layout that is not known yet: there, these are bytes of something else, or none. */
static void calls_that_are_not_found_are_listed(void **state)
{
	static const uint64_t trees[] = { TREES + 1, 0x50000, TREES + 0x1000 };

	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		AUTO(answers_done) struct answers a;
		struct made m = { .a = &a, .calls = true, .trees = trees[i] };
		unsigned at;

		answers_init(&a, ELF_WRITER_X86_64, ET_EXEC);
		m.ptr = elf_writer_word(&a.w.elf);
		make_new(&m, 0xfffffff1, 0x1000);
		add_module(&m, 0xfffffff1);
		at = elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
		elf_writer_at(&a.w.elf, at)->addr = TABLE;
		answers_open(&a);
		check_functions(&m, "main.main");
		assert_int_equal(symtab_info(a.t)->n_skipped, 1);
		assert_non_null(strstr(symtab_info(a.t)->skipped[0].p,
				       "Go's table: the calls inlined into 1 functions are not found"));
	}
}

static void calls_before_go_1_16(void **state)
{
	for (unsigned version = GO_1_9; version <= GO_1_14; version++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++)
			check_calls(targets[k], 0xfffffffb, version);
}

/* A file of which only Go's table is left, or all but the code's section. */
static void functions_outside_of_any_section_of_code(void **state)
{
	static const uint32_t magics[] = { 0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1 };

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(magics); i++) {
		AUTO(answers_done) struct answers a;
		struct made m = { .a = &a };
		unsigned at;

		answers_init(&a, ELF_WRITER_X86_64, ET_EXEC);
		m.ptr = elf_writer_word(&a.w.elf);
		a.w.dwo = true; /* no .text */
		if (magics[i / 2] == 0xfffffffb)
			make_old(&m, 0x1000);
		else
			make_new(&m, magics[i / 2], 0x1000);
		elf_writer_section(&a.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
		if (i % 2) {
			at = elf_writer_nobits(&a.w.elf, ".plt", SHF_ALLOC | SHF_EXECINSTR, 0x100);
			elf_writer_at(&a.w.elf, at)->addr = 0x2000;
		}
		answers_open(&a);
		check_functions(&m, magics[i / 2] == 0xfffffffb ? NULL : "main.main");
	}
}

/* Since Go 1.26 the header does not have the start of the code; before, a relocation writes it in a
 * position-independent program. */
static void made_without_start(struct made *m, struct answers *a, uint16_t type, uint64_t text_size)
{
	*m = (struct made){ .a = a };
	answers_init(a, ELF_WRITER_X86_64, type);
	m->ptr = elf_writer_word(&a->w.elf);
	a->w.text_size = text_size;
}

static void made_open(struct made *m)
{
	unsigned at = elf_writer_section(&m->a->w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC,
					 buf_bytes(&m->b));

	elf_writer_at(&m->a->w.elf, at)->addr = TABLE;
	answers_open(m->a);
}

static void a_section_as_long_as_gos_code_starts_with_it(void **state)
{
	AUTO(answers_done) struct answers a;
	struct made m;

	made_without_start(&m, &a, ET_EXEC, 0x90);
	make_new(&m, 0xfffffff1, 0);
	made_open(&m);
	check_functions(&m, "main.main");
}

/* With C in the program, Go's code does not start where its section does. */
static void the_module_has_the_start_of_the_code(void **state)
{
	for (int relocated = 0; relocated < 2; relocated++) {
		AUTO(answers_done) struct answers a;
		struct made m;

		made_without_start(&m, &a, relocated ? ET_DYN : ET_EXEC, 0x1000);
		a.w.text = 0x800;
		m.module_text = 0x1000;
		m.relocated = relocated;
		make_new(&m, 0xfffffff1, 0);
		add_module(&m, 0xfffffff1);
		made_open(&m);
		check_functions(&m, "main.main");
		assert_answer(&a, 0x900, "-");
	}
}

static void a_relocation_writes_the_start_of_the_code(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf relocs = { 0 };
	struct made m;

	made_without_start(&m, &a, ET_DYN, 0x1000);
	a.w.text = 0x800;
	make_new(&m, 0xfffffff0, 0);
	elf_writer_put(&a.w.elf, &relocs, TABLE + 24, 8);
	elf_writer_put(&a.w.elf, &relocs, R_X86_64_RELATIVE, 8);
	elf_writer_put(&a.w.elf, &relocs, 0x1000, 8);
	/* Relocations before and after the table, and half in it, change nothing. */
	elf_writer_put(&a.w.elf, &relocs, TABLE - 4, 8);
	elf_writer_put(&a.w.elf, &relocs, R_X86_64_RELATIVE, 8);
	elf_writer_put(&a.w.elf, &relocs, UINT64_MAX, 8);
	elf_writer_put(&a.w.elf, &relocs, TABLE + m.b.size - 4, 8);
	elf_writer_put(&a.w.elf, &relocs, R_X86_64_RELATIVE, 8);
	elf_writer_put(&a.w.elf, &relocs, UINT64_MAX, 8);
	elf_writer_section(&a.w.elf, ".rela", SHT_RELA, SHF_ALLOC, buf_bytes(&relocs));
	made_open(&m);
	check_functions(&m, "main.main");
}

static void the_entry_point_tells_the_start_of_the_code(void **state)
{
	AUTO(answers_done) struct answers a;
	struct made m;

	made_without_start(&m, &a, ET_EXEC, 0x1000);
	a.w.text = 0x800;
	a.w.elf.entry = 0x1000;
	m.first = "_rt0_a_b";
	make_new(&m, 0xfffffff1, 0);
	made_open(&m);
	check_functions(&m, "_rt0_a_b");
}

/* Wrong names are worse than none. */
static void without_the_start_of_the_code_nothing_is_named(void **state)
{
	AUTO(answers_done) struct answers a;
	struct made m;

	made_without_start(&m, &a, ET_EXEC, 0x1000);
	a.w.text = 0x800;
	a.w.elf.entry = 0x810; /* C's */
	m.first = "_rt0_amd";  /* all systems' */
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
	make_new(&m, 0xfffffff1, 0);
	made_open(&m);
	assert_answer(&a, 0x1000, "f");
	assert_answer(&a, 0x1040, "-");
	assert_int_equal(symtab_info(a.t)->n_skipped, 1);
	assert_non_null(strstr(symtab_info(a.t)->skipped[0].p, "the address of Go's code"));
	buf_done(&m.b);
}

static void a_table_without_a_section_is_found_by_its_start(void **state)
{
	for (int sections = 0; sections < 2; sections++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf data = { 0 };
		struct made m;
		unsigned at;

		made_without_start(&m, &a, ET_DYN, 0x1000);
		make_new(&m, 0xfffffff1, 0x1000);
		/* Bytes before it that start like a table. */
		buf_add(&data, "\xf1\xff\xff\xff\0\0\x01\x08\xff\xff\xff\xff", 12);
		buf_add(&data, m.b.p, m.b.size);
		at = elf_writer_section(&a.w.elf, ".data.rel.ro", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE,
					buf_bytes(&data));
		elf_writer_at(&a.w.elf, at)->addr = TABLE;
		elf_writer_segment(&a.w.elf, PT_LOAD, PF_R | PF_W, at);
		a.w.elf.no_sections = !sections;
		if (sections)
			elf_writer_section(&a.w.elf, ".go.buildinfo", SHT_PROGBITS, SHF_ALLOC,
					   bytes_of("x", 1));
		answers_open(&a);
		check_functions(&m, "main.main");
	}
}

/* What `objcopy --only-keep-debug` leaves of a program after `strip -g`; with external linking the table has no section. */
static void the_table_of_a_debug_file_is_read_from_its_program(void **state)
{
	for (int named = 0; named < 2; named++) {
		AUTO(answers_done) struct answers program, a;
		struct made m;
		unsigned at;

		made_without_start(&m, &program, ET_EXEC, 0x1000);
		make_new(&m, 0xfffffff1, 0x1000);
		at = elf_writer_section(&program.w.elf, named ? ".gopclntab" : ".data.rel.ro", SHT_PROGBITS,
					SHF_ALLOC, buf_bytes(&m.b));
		elf_writer_at(&program.w.elf, at)->addr = TABLE;
		elf_writer_section(&program.w.elf, ".go.buildinfo", SHT_PROGBITS, SHF_ALLOC,
				   bytes_of("x", 1));
		code_symbol(&program.w, "main.main", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
		answers_open(&program);
		assert_false(symtab_needs_program(program.img));
		buf_done(&m.b);
		made_without_start(&m, &a, ET_EXEC, 0x1000);
		code_symbol(&a.w, "main.main", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
		elf_writer_nobits(&a.w.elf, named ? ".gopclntab" : ".go.buildinfo", SHF_ALLOC, 0x100);
		a.program = program.img;
		answers_open(&a);
		assert_true(symtab_needs_program(a.img));
		make_new(&m, 0xfffffff1, 0x1000);
		check_functions(&m, "main.main");
	}
}

/* A debug file with DWARF of Go has all functions: its program is not fetched. */
static void a_debug_file_with_dwarf_of_go_needs_no_table(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_EXEC);
	add_plain(&a);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	elf_writer_nobits(&a.w.elf, ".gopclntab", SHF_ALLOC, 0x100);
	elf_writer_section(&a.w.elf, ".debug_gdb_scripts", SHT_PROGBITS, 0, bytes_of("\1x", 3));
	answers_open(&a);
	assert_false(symtab_needs_program(a.img));
}

/* C code beside a Go library that was linked with -ldflags=-w. */
static void dwarf_of_c_alone_leaves_gos_table_to_the_program(void **state)
{
	AUTO(answers_done) struct answers program, a;
	struct made m;
	unsigned at;

	made_without_start(&m, &program, ET_EXEC, 0x1000);
	make_new(&m, 0xfffffff1, 0x1000);
	at = elf_writer_section(&program.w.elf, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&m.b));
	elf_writer_at(&program.w.elf, at)->addr = TABLE;
	answers_open(&program);
	buf_done(&m.b);
	made_without_start(&m, &a, ET_EXEC, 0x1000);
	code_unit_begin(&a.w);
	code_die(&a.w, T_COMPILE, true, A_LANGUAGE, F_DATA1, U(0x1d), 0u);
	code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRING, S("c"), A_LOW, F_ADDR, U(0x1800), A_HIGH,
		 F_DATA4, U(0x100), 0u);
	code_up(&a.w);
	code_unit_end(&a.w);
	code_symbol(&a.w, "main.main", STT_FUNC, STB_GLOBAL, 0x1000, 0x40);
	elf_writer_nobits(&a.w.elf, ".gopclntab", SHF_ALLOC, 0x100);
	/* Rust's, of which a debug file has no bytes. */
	elf_writer_nobits(&a.w.elf, ".debug_gdb_scripts", SHF_ALLOC, 0x22);
	a.program = program.img;
	answers_open(&a);
	assert_true(symtab_needs_program(a.img));
	assert_answer(&a, 0x1800, "c");
	make_new(&m, 0xfffffff1, 0x1000);
	check_functions(&m, "main.main");
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
		cmocka_unit_test(calls_of_go_1_27),
		cmocka_unit_test(calls_that_are_not_found_are_listed),
		cmocka_unit_test(calls_before_go_1_16),
		cmocka_unit_test(functions_outside_of_any_section_of_code),
		cmocka_unit_test(a_section_as_long_as_gos_code_starts_with_it),
		cmocka_unit_test(the_module_has_the_start_of_the_code),
		cmocka_unit_test(a_relocation_writes_the_start_of_the_code),
		cmocka_unit_test(the_entry_point_tells_the_start_of_the_code),
		cmocka_unit_test(without_the_start_of_the_code_nothing_is_named),
		cmocka_unit_test(a_table_without_a_section_is_found_by_its_start),
		cmocka_unit_test(the_table_of_a_debug_file_is_read_from_its_program),
		cmocka_unit_test(a_debug_file_with_dwarf_of_go_needs_no_table),
		cmocka_unit_test(dwarf_of_c_alone_leaves_gos_table_to_the_program),
		cmocka_unit_test(a_damaged_table_is_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
