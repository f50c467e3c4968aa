/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "input.h"

static const char *const dirs_v4[] = { "/usr/include", "sub", "../other//x/.", NULL };
static const char *const dirs_v5[] = { "/work/src", "/usr/include", "sub", "../other//x/.", NULL };
static const struct dwarf_writer_file files[] = {
	{ "main.c", 0 }, { "stdio.h", 1 }, { "part.c", 2 },     { "deep/part.h", 3 },
	{ "/abs.c", 2 }, { "main.c", 0 },  { "<built-in>", 0 }, { NULL, 0 },
};
static const char names[] = "/work/src/main.c\n"
			    "/usr/include/stdio.h\n"
			    "/work/src/sub/part.c\n"
			    "/work/other/x/deep/part.h\n"
			    "/abs.c\n";

/* Add a unit and its table, with the names above. */
static void add_usual(struct input *in, unsigned version, bool dwarf64, enum dwarf_writer_form form)
{
	const struct dwarf_writer_table table = {
		.version = version,
		.dwarf64 = dwarf64,
		.form = form,
		.dirs = version >= 5 ? dirs_v5 : dirs_v4,
		.files = files,
		.program = 100,
	};
	const struct dwarf_writer_unit unit = {
		.version = version,
		.dwarf64 = dwarf64,
		.form = form,
		.comp_dir = "/work/src",
		.name = "main.c",
		.stmt_list = dwarf_writer_table(&in->dwarf, &table),
		.children = 1000,
	};

	dwarf_writer_unit(&in->dwarf, &unit);
}

static void every_version_target_and_offset_size(void **state)
{
	for (unsigned version = 2; version <= 5; version++)
		for (int target = 0; target < ELF_WRITER_N_TARGETS; target++)
			for (int dwarf64 = 0; dwarf64 < 2; dwarf64++) {
				AUTO(input_done) struct input in = { 0 };

				input_init(&in, target, ET_DYN);
				add_usual(&in, version, dwarf64, DWARF_WRITER_STRING);
				assert_sources(&in, NULL, names);
			}
}

static void every_form_of_a_string(void **state)
{
	for (unsigned version = 4; version <= 5; version++)
		for (int form = DWARF_WRITER_STRING; form <= DWARF_WRITER_STRX4; form++)
			for (int dwarf64 = 0; dwarf64 < 2; dwarf64++) {
				AUTO(input_done) struct input in = { 0 };

				/* Indexed strings of DWARF 4 are GNU's and have no header. */
				if (version == 4 && form >= DWARF_WRITER_STRX)
					continue;
				input_init(&in, ELF_WRITER_S390X, ET_DYN);
				add_usual(&in, version, dwarf64, form);
				assert_sources(&in, NULL, names);
			}
}

static void relocations_of_every_target(void **state)
{
	for (unsigned version = 2; version <= 5; version++)
		for (int target = 0; target < ELF_WRITER_N_TARGETS; target++)
			for (int value = 0; value < 2; value++) {
				AUTO(input_done) struct input in = { 0 };

				input_init(&in, target, ET_REL);
				in.dwarf.symbol_value = value ? 0x1000 : 0;
				add_usual(&in, version, false,
					  version >= 5 ? DWARF_WRITER_LINE_STRP : DWARF_WRITER_STRP);
				assert_sources(&in, NULL, names);
				if (in.elf.is64) {
					AUTO(input_done) struct input in64 = { 0 };

					input_init(&in64, target, ET_REL);
					add_usual(&in64, version, true,
						  version >= 5 ? DWARF_WRITER_STRX : DWARF_WRITER_STRP);
					assert_sources(&in64, NULL, names);
				}
			}
}

static void relocations_of_a_linked_file_are_not_applied_again(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	/* A kernel linked with --emit-relocs keeps them; applied, they would write nonsense. */
	input_init(&in, ELF_WRITER_X86_64, ET_EXEC);
	add_usual(&in, 5, false, DWARF_WRITER_LINE_STRP);
	in.elf.type = ET_EXEC;
	dwarf_writer_finish(&in.dwarf);
	for (unsigned i = 1; i < in.elf.n_sections; i++)
		if (strcmp(elf_writer_at(&in.elf, i)->name, ".debug_line") == 0) {
			AUTO(buf_done) struct buf b = { 0 };
			unsigned at;

			for (uint64_t off = 0; off < 100; off += 4) {
				elf_writer_put(&in.elf, &b, off, 8);
				elf_writer_put(&in.elf, &b, 10, 8);
				elf_writer_put(&in.elf, &b, 0xdead, 8);
			}
			at = elf_writer_section(&in.elf, ".rela.debug_line", SHT_RELA, 0, buf_bytes(&b));
			elf_writer_at(&in.elf, at)->info = i;
		}
	elf_writer_finish(&in.elf, &in.file);
	in.src = source_of_mem(buf_bytes(&in.file), "x");
	assert_int_equal(elf_open(in.src, &in.img, &in.err), 0);
	assert_sources(&in, NULL, names);
}

static void compressed_sections(void **state)
{
	static const uint32_t kinds[] = { ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, UINT32_MAX };

	for (unsigned version = 2; version <= 5; version++)
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			for (int rel = 0; rel < 2; rel++) {
				AUTO(input_done) struct input in = { 0 };

				input_init(&in, ELF_WRITER_PPC64LE, rel ? ET_REL : ET_DYN);
				in.dwarf.compress = kinds[i];
				add_usual(&in, version, false, DWARF_WRITER_STRP);
				assert_sources(&in, NULL, names);
			}
}

static void split_units_and_their_skeletons(void **state)
{
	/* A skeleton, with its comp_dir by an index whose base comes later; and the .dwo with the table of
	 * type units. */
	AUTO(input_done) struct input in = { 0 }, dwo = { 0 };
	struct dwarf_writer_table table = { .version = 4, .dirs = dirs_v4, .files = files };
	struct dwarf_writer_unit unit = { .version = 5,
					  .type = 4,
					  .form = DWARF_WRITER_STRX1,
					  .comp_dir = "/work/src",
					  .base_last = true };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	unit.stmt_list = dwarf_writer_table(&in.dwarf, &table);
	dwarf_writer_unit(&in.dwarf, &unit);
	assert_sources(&in, NULL, names);

	input_init(&dwo, ELF_WRITER_X86_64, ET_EXEC);
	dwo.dwarf.dwo = true;
	table = (struct dwarf_writer_table){ .version = 5, .dirs = dirs_v5, .files = files };
	dwarf_writer_table(&dwo.dwarf, &table);
	assert_sources(&dwo, NULL, names);
}

static void type_units_are_skipped_and_partial_ones_read(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	struct dwarf_writer_table table = { .version = 3, .dirs = dirs_v4, .files = files };
	struct dwarf_writer_unit unit = { .version = 5, .type = 2, .comp_dir = "/wrong", .name = "wrong.c" };

	input_init(&in, ELF_WRITER_I386, ET_DYN);
	unit.stmt_list = dwarf_writer_table(&in.dwarf, &table);
	dwarf_writer_unit(&in.dwarf, &unit);
	unit.type = 6;
	dwarf_writer_unit(&in.dwarf, &unit);
	unit.type = 3;
	unit.comp_dir = "/work/src";
	unit.name = NULL;
	dwarf_writer_unit(&in.dwarf, &unit);
	assert_sources(&in, NULL, names);
}

static void units_of_any_shape(void **state)
{
	for (unsigned version = 2; version <= 5; version++) {
		AUTO(input_done) struct input in = { 0 };
		const struct dwarf_writer_table table = { .version = 2, .dirs = dirs_v4, .files = files };

		input_init(&in, ELF_WRITER_AARCH64, ET_DYN);
		for (unsigned i = 0; i < 3; i++) {
			const struct dwarf_writer_unit before = {
				.version = version, .comp_dir = "/no", .name = "no.c", .stmt_list = UINT64_MAX
			};
			const struct dwarf_writer_unit unit = {
				.version = version,
				.form = DWARF_WRITER_STRP,
				.comp_dir = "/work/src",
				.name = "main.c",
				.stmt_list = dwarf_writer_table(&in.dwarf, &table),
				.n_abbrevs_before = i * 200,
				/* Far more than the bytes of a unit that are read at first. */
				.padding = i * 20000,
				.children = i * 100000,
			};

			dwarf_writer_unit(&in.dwarf, &before);
			dwarf_writer_unit(&in.dwarf, &unit);
		}
		assert_sources(&in, NULL, names);
	}
}

/* The root's abbreviation is after one with an implicit constant of 77 bits. */
static void a_number_of_over_64_bits_ends_no_table_of_abbreviations(void **state)
{
	static const uint8_t unused[] = { 0x7f, 0x34, 0,    0x1c, 0x21, 0x80, 0x80, 0x80, 0x80,
					  0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0,    0 };
	AUTO(input_done) struct input in = { 0 };
	AUTO(buf_done) struct buf table = { 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	add_usual(&in, 4, false, DWARF_WRITER_STRING);
	buf_add_str(&table, buf_str(&in.dwarf.abbrev));
	in.dwarf.abbrev.size = 0;
	buf_add(&in.dwarf.abbrev, unused, sizeof(unused));
	buf_add_str(&in.dwarf.abbrev, buf_str(&table));
	assert_sources(&in, NULL, names);
}

static void entries_with_every_kind_of_content(void **state)
{
	for (int form = DWARF_WRITER_STRING; form <= DWARF_WRITER_STRX4; form++) {
		AUTO(input_done) struct input in = { 0 };
		const struct dwarf_writer_table table = {
			.version = 5, .form = form, .dirs = dirs_v5, .files = files, .rich = true
		};

		input_init(&in, ELF_WRITER_ARM, ET_DYN);
		dwarf_writer_table(&in.dwarf, &table);
		assert_sources(&in, NULL, names);
	}
}

static void before_dwarf_5_the_primary_file_is_the_units_name(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	const struct dwarf_writer_table table = { .version = 4 };
	struct dwarf_writer_unit unit = { .version = 4, .comp_dir = "/work", .name = "x/main.c" };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	unit.stmt_list = dwarf_writer_table(&in.dwarf, &table);
	dwarf_writer_unit(&in.dwarf, &unit);
	assert_sources(&in, NULL, "/work/x/main.c\n");
}

static void names_that_stay_relative_are_kept(void **state)
{
	static const char *const dirs[] = { "./build/dir", "../inc", NULL };
	static const struct dwarf_writer_file some[] = {
		{ "a.c", 0 }, { "a.h", 1 }, { "b/../c.h", 0 }, { NULL, 0 }
	};
	AUTO(input_done) struct input in = { 0 }, old = { 0 };
	const struct dwarf_writer_table table = { .version = 5, .dirs = dirs, .files = some };
	const struct dwarf_writer_table old_table = { .version = 3, .dirs = dirs + 1, .files = some };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&in.dwarf, &table);
	assert_sources(&in, NULL, "build/dir/a.c\nbuild/inc/a.h\nbuild/dir/c.h\n");

	/* A table that no unit refers to. */
	input_init(&old, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&old.dwarf, &old_table);
	assert_sources(&old, NULL, "a.c\ninc/a.h\nc.h\n");
}

static void a_name_that_cancels_itself_out_is_dropped(void **state)
{
	static const char *const dirs[] = { "sub", NULL };
	static const struct dwarf_writer_file some[] = {
		{ "..", 0 }, { "../..", 0 }, { "a.c", 0 }, { NULL, 0 }
	};
	AUTO(input_done) struct input in = { 0 };
	const struct dwarf_writer_table table = { .version = 5, .dirs = dirs, .files = some };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&in.dwarf, &table);
	assert_sources(&in, NULL, "sub/a.c\n");
}

static void a_table_without_a_directory_uses_the_units(void **state)
{
	static const char *const empty[] = { "", "sub", NULL };
	static const struct dwarf_writer_file some[] = { { "a.c", 0 }, { NULL, 0 } };

	for (int none = 0; none < 2; none++) {
		AUTO(input_done) struct input in = { 0 };
		const struct dwarf_writer_table table = { .version = 5,
							  .dirs = none ? NULL : empty,
							  .files = some };
		struct dwarf_writer_unit unit = { .version = 5, .comp_dir = "/work", .name = "a.c" };

		input_init(&in, ELF_WRITER_X86_64, ET_DYN);
		unit.stmt_list = dwarf_writer_table(&in.dwarf, &table);
		dwarf_writer_unit(&in.dwarf, &unit);
		assert_sources(&in, NULL, "/work/a.c\n");
	}
}

static void names_of_windows_stay_unchanged(void **state)
{
	static const char *const dirs[] = { "C:\\work", "D:/inc", NULL };
	static const struct dwarf_writer_file some[] = { { "C:\\work\\a.c", 0 }, { "x.h", 1 }, { NULL, 0 } };
	AUTO(input_done) struct input in = { 0 };
	const struct dwarf_writer_table table = { .version = 5, .dirs = dirs, .files = some };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&in.dwarf, &table);
	assert_sources(&in, NULL, "C:\\work\\a.c\nD:/inc/x.h\n");
}

static void pseudo_files_are_dropped(void **state)
{
	static const char *const dirs[] = { "/work", NULL };
	static const struct dwarf_writer_file some[] = { { "<built-in>", 0 }, { "<command-line>", 0 },
							 { "<stdin>", 0 },    { "", 0 },
							 { "<x>.c", 0 },      { "<", 0 },
							 { NULL, 0 } };
	AUTO(input_done) struct input in = { 0 };
	const struct dwarf_writer_table table = { .version = 5, .dirs = dirs, .files = some };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&in.dwarf, &table);
	assert_sources(&in, NULL, "/work/<x>.c\n/work/<\n");
}

static void several_tables_one_of_each_kind_in_one_file(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	for (int round = 0; round < 3; round++)
		for (unsigned version = 2; version <= 5; version++)
			for (int dwarf64 = 0; dwarf64 < 2; dwarf64++)
				add_usual(&in, version, dwarf64, DWARF_WRITER_STRING);
	assert_sources(&in, NULL, names);
}

static void padding_between_tables_is_skipped(void **state)
{
	AUTO(input_done) struct input in = { 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	buf_add(&in.dwarf.line, "\0\0\0\0\0\0\0\0", 8);
	add_usual(&in, 4, false, DWARF_WRITER_STRING);
	buf_add(&in.dwarf.line, "\0\0\0\0", 4);
	add_usual(&in, 5, false, DWARF_WRITER_STRING);
	assert_sources(&in, NULL, names);
}

static void strings_of_the_supplementary_file(void **state)
{
	static const enum dwarf_writer_form forms[] = { DWARF_WRITER_STRP_SUP, DWARF_WRITER_GNU_STRP_ALT };

	for (unsigned version = 4; version <= 5; version++)
		for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
			AUTO(input_done) struct input in = { 0 }, sup = { 0 };

			input_init(&in, ELF_WRITER_X86_64, ET_DYN);
			add_usual(&in, version, false, forms[i]);
			input_init(&sup, ELF_WRITER_X86_64, ET_EXEC);
			buf_add(&sup.dwarf.str, in.dwarf.sup_str.p, in.dwarf.sup_str.size);
			/* Used as another file's .debug_str, without our own first string. */
			memmove(sup.dwarf.str.p, sup.dwarf.str.p + 6, sup.dwarf.str.size -= 6);
			input_open(&sup);
			assert_sources(&in, sup.img, names);
			assert_false(in.note.alt_missing);
			/* Without it: the other names, and a note that some are missing. */
			assert_int_equal(input_sources(&in, NULL), 0);
			assert_true(in.note.alt_missing);
			assert_int_equal(in.note.n_units_skipped, 0);
			if (version == 5)
				assert_int_equal(in.names.size, 0);
		}
}

static void files_without_line_tables(void **state)
{
	AUTO(input_done) struct input none = { 0 }, nobits = { 0 };

	input_init(&none, ELF_WRITER_X86_64, ET_DYN);
	assert_sources(&none, NULL, "");
	input_init(&nobits, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_nobits(&nobits.elf, ".debug_line", 0, 1000);
	assert_sources(&nobits, NULL, "");
}

static int stop(void *arg, struct str name)
{
	++*(int *)arg;
	return *(int *)arg == 2 ? -77 : 0;
}

static int stop_positive(void *arg, struct str name)
{
	return 1;
}

static void the_callback_ends_the_walk(void **state)
{
	for (unsigned version = 4; version <= 5; version++) {
		AUTO(input_done) struct input in = { 0 };
		struct err err = { 0 };
		int n = 0;

		input_init(&in, ELF_WRITER_X86_64, ET_DYN);
		add_usual(&in, version, false, DWARF_WRITER_STRING);
		input_open(&in);
		assert_int_equal(dwarf_sources_each(in.img, NULL, stop, &n, &in.note, &err), -77);
		assert_int_equal(n, 2);
		assert_int_equal(dwarf_sources_each(in.img, NULL, stop_positive, &n, &in.note, &err), 1);
		assert_int_equal(in.note.n_units_skipped, 0);
	}
}

static void a_set_has_exactly_the_names(void **state)
{
	AUTO(input_done) struct input in = { 0 };
	struct dwarf_sources *s = NULL;
	struct err err = { 0 };

	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	add_usual(&in, 5, false, DWARF_WRITER_LINE_STRP);
	input_open(&in);
	assert_done(dwarf_sources_build(in.img, NULL, &s, &err));
	assert_int_equal(dwarf_sources_n(s), 5);
	assert_true(dwarf_sources_weight(s) > 100 && dwarf_sources_weight(s) < 1000);
	assert_int_equal(dwarf_sources_note(s)->n_units_skipped, 0);
	assert_true(dwarf_sources_has(s, STR("/work/src/main.c")));
	assert_true(dwarf_sources_has(s, STR("/work/other/x/deep/part.h")));
	assert_false(dwarf_sources_has(s, STR("/work/src/main")));
	assert_false(dwarf_sources_has(s, STR("main.c")));
	assert_false(dwarf_sources_has(s, STR("")));
	dwarf_sources_free(s);
	dwarf_sources_free(NULL);
}

static void a_set_of_many_and_of_none(void **state)
{
	static const char *const dirs[] = { "/work", NULL };
	AUTO(mem_freep) struct dwarf_writer_file *many = NEW_N(struct dwarf_writer_file, 10001);
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(input_done) struct input in = { 0 }, none = { 0 };
	const struct dwarf_writer_table table = { .version = 5, .dirs = dirs, .files = many };
	struct dwarf_sources *s = NULL;
	struct err err = { 0 };

	for (int i = 0; i < 10000; i++)
		many[i] = (struct dwarf_writer_file){ arena_printf(&a, "f%d.c", i), 0 };
	many[10000].name = NULL;
	input_init(&in, ELF_WRITER_X86_64, ET_DYN);
	dwarf_writer_table(&in.dwarf, &table);
	input_open(&in);
	assert_done(dwarf_sources_build(in.img, NULL, &s, &err));
	assert_int_equal(dwarf_sources_n(s), 10000);
	for (int i = 0; i < 10000; i++)
		assert_true(dwarf_sources_has(s, str_of(arena_printf(&a, "/work/f%d.c", i))));
	assert_false(dwarf_sources_has(s, STR("/work/f10000.c")));
	dwarf_sources_free(s);

	input_init(&none, ELF_WRITER_X86_64, ET_DYN);
	input_open(&none);
	assert_done(dwarf_sources_build(none.img, NULL, &s, &err));
	assert_int_equal(dwarf_sources_n(s), 0);
	assert_false(dwarf_sources_has(s, STR("/work/f1.c")));
	dwarf_sources_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_target_and_offset_size),
		cmocka_unit_test(every_form_of_a_string),
		cmocka_unit_test(relocations_of_every_target),
		cmocka_unit_test(relocations_of_a_linked_file_are_not_applied_again),
		cmocka_unit_test(compressed_sections),
		cmocka_unit_test(split_units_and_their_skeletons),
		cmocka_unit_test(type_units_are_skipped_and_partial_ones_read),
		cmocka_unit_test(units_of_any_shape),
		cmocka_unit_test(a_number_of_over_64_bits_ends_no_table_of_abbreviations),
		cmocka_unit_test(entries_with_every_kind_of_content),
		cmocka_unit_test(before_dwarf_5_the_primary_file_is_the_units_name),
		cmocka_unit_test(names_that_stay_relative_are_kept),
		cmocka_unit_test(a_name_that_cancels_itself_out_is_dropped),
		cmocka_unit_test(a_table_without_a_directory_uses_the_units),
		cmocka_unit_test(names_of_windows_stay_unchanged),
		cmocka_unit_test(pseudo_files_are_dropped),
		cmocka_unit_test(several_tables_one_of_each_kind_in_one_file),
		cmocka_unit_test(padding_between_tables_is_skipped),
		cmocka_unit_test(strings_of_the_supplementary_file),
		cmocka_unit_test(files_without_line_tables),
		cmocka_unit_test(the_callback_ends_the_walk),
		cmocka_unit_test(a_set_has_exactly_the_names),
		cmocka_unit_test(a_set_of_many_and_of_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
