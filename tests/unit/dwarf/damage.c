/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged and hostile input: damaged parts are skipped and noted, the rest is read, in bounded time.
 */
#include "test.h"

#include "fault_source.h"
#include "input.h"

static const char *const dirs[] = { "/work", "sub", NULL };
static const struct dwarf_writer_file one[] = { { "one.c", 0 }, { NULL, 0 } };
static const struct dwarf_writer_file two[] = { { "two.c", 1 }, { NULL, 0 } };

static uint64_t add(struct input *in, unsigned version, enum dwarf_writer_form form,
		    const struct dwarf_writer_file *files)
{
	const struct dwarf_writer_table table = { .version = version,
						  .form = form,
						  .dirs = version >= 5 ? dirs : dirs + 1,
						  .files = files,
						  .program = 10 };
	const struct dwarf_writer_unit unit = { .version = version,
						.form = form,
						.comp_dir = "/work",
						.name = files[0].name,
						.stmt_list = dwarf_writer_table(&in->dwarf, &table) };

	dwarf_writer_unit(&in->dwarf, &unit);
	return unit.stmt_list;
}

static void set(struct buf *b, uint64_t at, uint64_t v, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		b->p[at + i] = (uint8_t)(v >> 8 * i);
}

/* Check that one unit was skipped for @reason, and that the names are @want. */
static void expect_skipped(struct input *in, const char *reason, const char *want)
{
	if (input_sources(in, NULL))
		fail_msg("%s", in->err.text);
	assert_true(in->note.n_units_skipped > 0);
	if (!strstr(in->note.reason, reason))
		fail_msg("\"%s\" is not \"%s\"", in->note.reason, reason);
	assert_str(buf_str(&in->names), want);
}

static void a_table_of_an_unknown_version(void **state)
{
	static const unsigned versions[] = { 0, 1, 6, 0xffff };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		AUTO(input_done) struct input in = { 0 };
		uint64_t at;

		input_init(&in, ELF_WRITER_X86_64, ET_DYN);
		at = add(&in, 5, DWARF_WRITER_STRING, one);
		set(&in.dwarf.line, at + 4, versions[i], 2);
		add(&in, 5, DWARF_WRITER_STRING, two);
		expect_skipped(&in, "unknown version", "/work/sub/two.c\n");
		assert_int_equal(in.note.n_units_skipped, 1);
		assert_non_null(strstr(in.note.reason, ".debug_line: table at 0"));
	}
}

static void a_header_that_ends_past_its_table(void **state)
{
	for (unsigned version = 2; version <= 5; version++) {
		AUTO(input_done) struct input in = { 0 };

		input_init(&in, ELF_WRITER_X86_64, ET_DYN);
		add(&in, version, DWARF_WRITER_STRING, one);
		set(&in.dwarf.line, version >= 5 ? 8 : 6, 10000, 4);
		add(&in, version, DWARF_WRITER_STRING, two);
		expect_skipped(&in, "ends past the table",
			       version >= 5 ? "/work/sub/two.c\n" : "/work/sub/two.c\n/work/two.c\n");
	}
}

static void after_a_wrong_length_the_next_unit_gives_the_next_table(void **state)
{
	static const uint32_t lengths[] = { 0xfffffff0, 0xfffffffe, 0x7fffffff };

	for (unsigned version = 4; version <= 5; version++)
		for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
			AUTO(input_done) struct input in = { 0 };

			input_init(&in, ELF_WRITER_X86_64, ET_DYN);
			add(&in, version, DWARF_WRITER_STRING, one);
			set(&in.dwarf.line, 0, lengths[i], 4);
			add(&in, version, DWARF_WRITER_STRING, two);
			expect_skipped(&in, "table at 0: ends past the section",
				       version >= 5 ? "/work/sub/two.c\n" : "/work/sub/two.c\n/work/two.c\n");
		}
}

static void damaged_units_are_skipped(void **state)
{
	static const struct {
		uint64_t at;
		uint64_t value;
		unsigned size;
		const char *reason;
	} cases[] = {
		{ 4, 9, 2, "unknown version 9" },
		{ 6, 1000000, 4, "no abbreviation 1 in the table at 1000000" },
		{ 11, 99, 1, "no abbreviation 99" },
		{ 0, 3, 4, "unit header ends early" },
		{ 0, 8, 4, "ends early" },
		{ 0, 12, 4, "root DIE ends early" },
		{ 0, 0xfffffff1, 4, "ends past the section" },
		{ 0, 0x70000000, 4, "ends past the section" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(input_done) struct input in = { 0 };

		input_init(&in, ELF_WRITER_X86_64, ET_DYN);
		add(&in, 4, DWARF_WRITER_STRP, one);
		set(&in.dwarf.info, cases[i].at, cases[i].value, cases[i].size);
		if (input_sources(&in, NULL))
			fail_msg("%s", in.err.text);
		assert_true(in.note.n_units_skipped > 0);
		if (!strstr(in.note.reason, cases[i].reason))
			fail_msg("\"%s\" is not \"%s\"", in.note.reason, cases[i].reason);
		assert_str(buf_str(&in.names), "one.c\n"); /* no unit has its offset */
	}
}

/* Add a table of version 5 whose lists are these bytes. */
static void expect_lists(const char *p, size_t size, const char *reason)
{
	static const char start[] = "\5\0\10\0\0\0\0\0\1\1\1\xfb\16\1";
	AUTO(input_done) struct input in = { 0 };
	struct buf *b = &in.dwarf.line;

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_put(&in.elf, b, sizeof(start) - 1 + size, 4);
	buf_add(b, start, sizeof(start) - 1);
	set(b, 8, 6 + size, 4);
	buf_add(b, p, size);
	add(&in, 5, DWARF_WRITER_STRING, two);
	assert_int_equal(input_sources(&in, NULL), 0);
	assert_true(in.note.n_units_skipped > 0);
	if (!strstr(in.note.reason, reason))
		fail_msg("\"%s\" is not \"%s\"", in.note.reason, reason);
	assert_true(str_ends(buf_str(&in.names), STR("/work/sub/two.c\n")));
}
#define EXPECT_LISTS(literal, reason) expect_lists("" literal "", sizeof(literal) - 1, (reason))

static void lists_with_wrong_counts(void **state)
{
	EXPECT_LISTS("", "ends early");
	EXPECT_LISTS("\1", "ends early");
	EXPECT_LISTS("\1\1", "ends early");
	EXPECT_LISTS("\1\1\10", "ends early");
	EXPECT_LISTS("\1\1\10\1x", "ends early");
	EXPECT_LISTS("\0\5abcdef", "without a format");
	EXPECT_LISTS("\1\1\10\xff\xff\xff\xff\x0f", "4294967295 entries");
	EXPECT_LISTS("\1\1\10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "18446744073709551615 entries");
	EXPECT_LISTS("\1\1\31\3abc", "of no size"); /* flag_present */
	EXPECT_LISTS("\1\1\41\3abc", "of no size"); /* implicit_const */
	EXPECT_LISTS("\1\1\x7f\3abc", "unknown form 127");
	EXPECT_LISTS("\1\1\26\1\26\10x\0", "unknown form 22");       /* indirect of indirect */
	EXPECT_LISTS("\1\1\11\1\xff\xff\xff\xff\x0f", "ends early"); /* a block */
	EXPECT_LISTS("\0\0\1\1\10", "ends early");
	EXPECT_LISTS("\0\0\0\1a", "without a format");
	EXPECT_LISTS("\0\0\1\1\10\7a\0", "7 entries");
	EXPECT_LISTS("\0\0\1\1\10\2a\0b", "ends early");
	EXPECT_LISTS("\0\0\1\1\13\2ab", "not a string"); /* data1 */
	EXPECT_LISTS("\0\0\2\1\10\2\13\1a\0\5", "directory 5; there are 1");
	EXPECT_LISTS("\1\1\16\1\xff\xff\xff\0\0\0", "string at 16777215");
}

static void an_indirect_form_is_followed_once(void **state)
{
	static const char start[] = "\5\0\10\0\0\0\0\0\1\1\1\xfb\16\1";
	static const char lists[] = "\1\1\26\1\10/d\0\1\1\26\1\10f.c\0";
	AUTO(input_done) struct input in = { 0 };
	struct buf *b = &in.dwarf.line;

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_put(&in.elf, b, sizeof(start) - 1 + sizeof(lists) - 1, 4);
	buf_add(b, start, sizeof(start) - 1);
	set(b, 8, 6 + sizeof(lists) - 1, 4);
	buf_add(b, lists, sizeof(lists) - 1);
	assert_sources(&in, NULL, "/d/f.c\n");
}

static void old_tables_that_are_cut(void **state)
{
	for (unsigned version = 2; version <= 4; version++) {
		AUTO(input_done) struct input whole = { 0 };

		input_init(&whole, ELF_WRITER_X86_64, ET_DYN);
		add(&whole, version, DWARF_WRITER_STRING, two);
		/* header_length is one less each time, so that the lists end early at every place. */
		for (uint64_t n = whole.dwarf.line.p[6]; n-- > 0;) {
			AUTO(input_done) struct input in = { 0 };

			input_init(&in, ELF_WRITER_X86_64, ET_DYN);
			add(&in, version, DWARF_WRITER_STRING, two);
			set(&in.dwarf.line, 6, n, 4);
			assert_int_equal(input_sources(&in, NULL), 0);
			assert_int_equal(in.note.n_units_skipped, 1);
		}
	}
}

static void sections_cut_at_any_byte_and_any_byte_damaged(void **state)
{
	static const enum dwarf_writer_form forms[] = { DWARF_WRITER_STRP, DWARF_WRITER_LINE_STRP,
							DWARF_WRITER_STRX };

	for (unsigned version = 4; version <= 5; version++)
		for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
			AUTO(input_done) struct input in = { 0 };
			struct elf_section *sections;

			if (version == 4 && f > 0)
				continue;
			input_init(&in, ELF_WRITER_X86_64, ET_REL);
			add(&in, version, forms[f], one);
			add(&in, version, forms[f], two);
			input_open(&in);
			sections = in.img->sections;
			for (uint32_t i = 1; i < in.img->n_sections; i++) {
				uint64_t size = sections[i].size;

				for (uint64_t n = 0; n < size; n++) {
					sections[i].size = n;
					/* Damage of relocation or symbol tables may be an error. */
					input_sources(&in, NULL);
				}
				sections[i].size = size;
				for (uint64_t n = 0; n < size; n++) {
					in.file.p[sections[i].off + n] ^= 0xff;
					input_sources(&in, NULL);
					in.file.p[sections[i].off + n] ^= 0xff;
				}
			}
			assert_sources(&in, NULL,
				       version >= 5 ? "/work/one.c\n/work/sub/two.c\n"
						    : "/work/one.c\n/work/sub/two.c\n/work/two.c\n");
		}
}

static void names_without_end_or_too_long(void **state)
{
	AUTO(mem_freep) char *name = mem_alloc(DWARF_MAX_NAME + 10);
	struct dwarf_writer_file files[] = { { name, 0 }, { "ok.c", 0 }, { NULL, 0 } };
	static const size_t sizes[] = { DWARF_MAX_NAME + 5, DWARF_MAX_NAME, DWARF_MAX_NAME - 1,
					DWARF_MAX_NAME - 6 };

	memset(name, 'n', DWARF_MAX_NAME + 9);
	for (int form = DWARF_WRITER_STRING; form <= DWARF_WRITER_LINE_STRP; form++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			AUTO(input_done) struct input in = { 0 };

			name[sizes[i]] = '\0';
			input_init(&in, ELF_WRITER_X86_64, ET_DYN);
			dwarf_writer_table(&in.dwarf, &(struct dwarf_writer_table){ .version = 5,
										    .form = form,
										    .dirs = dirs,
										    .files = files });
			assert_int_equal(input_sources(&in, NULL), 0);
			name[sizes[i]] = 'n';
			assert_int_equal(in.note.n_units_skipped, sizes[i] > DWARF_MAX_NAME - 6);
			assert_true(str_ends(buf_str(&in.names), STR("/work/ok.c\n")));
		}
}

static void a_string_at_the_very_end_without_its_nul(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	add(&in, 5, DWARF_WRITER_LINE_STRP, one);
	in.dwarf.line_str.size -= 7; /* "one.c" and its NULs: the last string is the unit's comp_dir */
	assert_int_equal(input_sources(&in, NULL), 0);
}

/* A section of strings that is too large to be read as a whole. */
static void large_string_sections(void **state)
{
	for (int form = DWARF_WRITER_STRP; form <= DWARF_WRITER_STRX; form++)
		for (size_t at = 0; at < 40; at += 3) {
			AUTO(input_done) struct input in = { 0 };
			AUTO(source_closep) struct source *mem = NULL;
			struct buf *str = form == DWARF_WRITER_LINE_STRP ? &in.dwarf.line_str : &in.dwarf.str;

			input_init(&in, ELF_WRITER_X86_64, ET_DYN);
			/* Windows end within names, at each of their bytes. */
			memset(buf_reserve(str, MIB(3)), 'x', MIB(3));
			str->size = MIB(2) - 40 + at;
			str->p[str->size - 1] = '\0';
			add(&in, 5, form, one);
			add(&in, 5, form, two);
			memset(buf_reserve(str, MIB(1)), 'y', MIB(1));
			str->size += MIB(1);
			dwarf_writer_finish(&in.dwarf);
			elf_writer_finish(&in.elf, &in.file);
			mem = source_of_mem(buf_bytes(&in.file), "x");
			in.src = fault_source_new(mem, false);
			assert_int_equal(elf_open(in.src, &in.img, &in.err), 0);
			assert_sources(&in, NULL, "/work/one.c\n/work/sub/two.c\n");
			assert_true(fault_bytes(in.src) < MIB(1));
			elf_close(in.img);
			source_close(in.src);
			in.img = NULL;
			in.src = NULL;
		}
}

static void only_what_is_needed_is_read(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	AUTO(source_closep) struct source *mem = NULL;

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	for (int i = 0; i < 10; i++) {
		const struct dwarf_writer_table table = {
			.version = 4, .dirs = dirs, .files = one, .program = MIB(1)
		};
		const struct dwarf_writer_unit unit = { .version = 4,
							.comp_dir = "/work",
							.stmt_list = dwarf_writer_table(&in.dwarf, &table),
							.children = MIB(1) };

		dwarf_writer_unit(&in.dwarf, &unit);
	}
	dwarf_writer_finish(&in.dwarf);
	elf_writer_finish(&in.elf, &in.file);
	mem = source_of_mem(buf_bytes(&in.file), "x");
	in.src = fault_source_new(mem, false);
	assert_int_equal(elf_open(in.src, &in.img, &in.err), 0);
	assert_sources(&in, NULL, "/work/one.c\n");
	assert_true(fault_bytes(in.src) <
		    MIB(5)); /* of 20: the programs and the units' other DIEs are not read */
	elf_close(in.img);
	source_close(in.src);
	in.img = NULL;
	in.src = NULL;
}

static void joined_names_far_larger_than_the_file_are_a_limit(void **state)
{
	AUTO(mem_freep) struct dwarf_writer_file *files = NEW_N(struct dwarf_writer_file, 40001);
	AUTO(mem_freep) char *dir = mem_alloc(DWARF_MAX_NAME);
	const char *const long_dirs[] = { dir, NULL };
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(input_done) struct input in = { 0 };

	memset(dir, 'd', DWARF_MAX_NAME);
	dir[0] = '/';
	dir[DWARF_MAX_NAME - 100] = '\0';
	for (int i = 0; i < 40000; i++)
		files[i] = (struct dwarf_writer_file){ arena_printf(&a, "%d", i), 0 };
	files[40000].name = NULL;
	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&in.dwarf,
			   &(struct dwarf_writer_table){ .version = 5, .dirs = long_dirs, .files = files });
	assert_int_equal(input_sources(&in, NULL), -1);
	assert_int_equal(in.err.kind, ERR_LIMIT);
}

static void abbreviations_that_are_searched_too_often_are_damage(void **state)
{
	static const uint8_t code[] = { 0xe1, 0xd4, 0x03 }; /* 60001 */
	AUTO(input_done) struct input in = { 0 };
	uint8_t *p;

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	for (int i = 0; i < 3000; i++) {
		const struct dwarf_writer_table table = { .version = 4, .files = one };
		const struct dwarf_writer_unit unit = { .version = 4,
							.comp_dir = "/work",
							.stmt_list = dwarf_writer_table(&in.dwarf, &table),
							.n_abbrevs_before = i ? 0 : 60000 };
		uint64_t at = dwarf_writer_unit(&in.dwarf, &unit);

		/* All use the first table, in turn its first abbreviation and its last. */
		set(&in.dwarf.info, at + 6, 0, 4);
		if (i % 2)
			set(&in.dwarf.info, at + 11, 2, 1);
	}
	/* Give the last one the number 1, in three bytes, and the first the number 2. */
	p = memmem(in.dwarf.abbrev.p, in.dwarf.abbrev.size, code, sizeof(code));
	assert_non_null(p);
	memcpy(p, "\x81\x80", 3);
	in.dwarf.abbrev.p[0] = 2;
	memcpy(memmem(in.dwarf.info.p, 20, code, sizeof(code)), "\x81\x80", 3);
	assert_int_equal(input_sources(&in, NULL), 0);
	assert_non_null(strstr(in.note.reason, "searched too often"));
	assert_true(in.note.n_units_skipped > 1000);
	assert_true(str_starts(buf_str(&in.names), STR("/work/one.c\n")));
}

static void a_failed_read_is_a_failure(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		AUTO(input_done) struct input in = { 0 };
		AUTO(source_closep) struct source *mem = NULL;
		unsigned n = 0;
		int r;

		input_init(&in, ELF_WRITER_X86_64, ET_REL);
		add(&in, version, DWARF_WRITER_STRP, one);
		dwarf_writer_finish(&in.dwarf);
		elf_writer_finish(&in.elf, &in.file);
		mem = source_of_mem(buf_bytes(&in.file), "x");
		in.src = fault_source_new(mem, false);
		assert_int_equal(elf_open(in.src, &in.img, &in.err), 0);
		for (;; n++) {
			fault_clear(in.src);
			fault_fail_at(in.src, n);
			in.err.kind = ERR_NONE;
			r = input_sources(&in, NULL);
			if (r == 0)
				break;
			assert_int_equal(r, -1);
			assert_int_equal(in.err.kind, ERR_IO);
		}
		assert_true(n >= 4);
		assert_int_equal(in.note.n_units_skipped, 0);
		elf_close(in.img);
		source_close(in.src);
		in.img = NULL;
		in.src = NULL;
	}
}

static void damage_in_a_compressed_section_keeps_earlier_names(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	const struct elf_section *line;
	struct dwarf_writer_table table = { .version = 5, .dirs = dirs, .files = one, .program = 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	in.dwarf.compress = ELFCOMPRESS_ZLIB;
	dwarf_writer_table(&in.dwarf, &table);
	test_fill(buf_reserve(&in.dwarf.line, 300000), 300000, 1); /* incompressible */
	set(&in.dwarf.line, in.dwarf.line.size, 200000, 4);
	in.dwarf.line.size += 200004;
	table.files = two;
	dwarf_writer_table(&in.dwarf, &table);
	input_open(&in);
	line = elf_section_find(in.img, ".debug_line");
	in.file.p[line->off + 150000] ^= 0xff;
	assert_int_equal(input_sources(&in, NULL), 0);
	assert_true(in.note.n_units_skipped > 0);
	assert_true(str_starts(buf_str(&in.names), STR("/work/one.c\n")));
}

static void a_section_that_ends_past_the_file_is_an_error(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	add(&in, 5, DWARF_WRITER_STRING, one);
	input_open(&in);
	in.img->sections[1].size = 1000000;
	assert_int_equal(input_sources(&in, NULL), -1);
	assert_int_equal(in.err.kind, ERR_INVALID);
}

static void relocations_that_point_outside_change_nothing(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	struct dwarf_writer_reloc *r;
	static const uint64_t offs[] = { UINT64_MAX, UINT64_MAX - 3, 1 << 20 };

	input_init(&in, ELF_WRITER_X86_64, ET_REL);
	add(&in, 5, DWARF_WRITER_LINE_STRP, one);
	for (size_t i = 0; i < ARRAY_SIZE(offs); i++) {
		in.dwarf.relocs = mem_realloc(in.dwarf.relocs, in.dwarf.n_relocs + 1, sizeof(*r));
		r = &in.dwarf.relocs[in.dwarf.n_relocs++];
		*r = in.dwarf.relocs[0];
		r->off = offs[i];
	}
	assert_sources(&in, NULL, "/work/one.c\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_of_an_unknown_version),
		cmocka_unit_test(a_header_that_ends_past_its_table),
		cmocka_unit_test(after_a_wrong_length_the_next_unit_gives_the_next_table),
		cmocka_unit_test(damaged_units_are_skipped),
		cmocka_unit_test(lists_with_wrong_counts),
		cmocka_unit_test(an_indirect_form_is_followed_once),
		cmocka_unit_test(old_tables_that_are_cut),
		cmocka_unit_test(sections_cut_at_any_byte_and_any_byte_damaged),
		cmocka_unit_test(names_without_end_or_too_long),
		cmocka_unit_test(a_string_at_the_very_end_without_its_nul),
		cmocka_unit_test(large_string_sections),
		cmocka_unit_test(only_what_is_needed_is_read),
		cmocka_unit_test(joined_names_far_larger_than_the_file_are_a_limit),
		cmocka_unit_test(abbreviations_that_are_searched_too_often_are_damage),
		cmocka_unit_test(a_failed_read_is_a_failure),
		cmocka_unit_test(damage_in_a_compressed_section_keeps_earlier_names),
		cmocka_unit_test(a_section_that_ends_past_the_file_is_an_error),
		cmocka_unit_test(relocations_that_point_outside_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
