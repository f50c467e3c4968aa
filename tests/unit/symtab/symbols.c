/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "answers.h"

/* A label without a size extends to the next symbol, but not over one with a size. */
static void a_symbol_without_a_size_extends_to_the_next(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "label", STT_NOTYPE, STB_LOCAL, 0x1000, 0);
	code_symbol(&a.w, "sized", STT_FUNC, STB_GLOBAL, 0x1010, 0x20);
	code_symbol(&a.w, "inside", STT_NOTYPE, STB_LOCAL, 0x1018, 0);
	code_symbol(&a.w, "last", STT_FUNC, STB_GLOBAL, 0x1040, 0);
	answers_open(&a);
	assert_answer(&a, 0x1000, "label");
	assert_answer(&a, 0x100f, "label");
	assert_answer(&a, 0x1018, "sized");
	assert_answer(&a, 0x1030, "inside");
	assert_answer(&a, 0x1fff, "last");
	assert_answer(&a, 0x2000, "-");
}

/* With or without a size. Addresses between two sections of code have no name. */
static void a_symbol_ends_with_its_section(void **state)
{
	for (unsigned size = 0; size <= 0x4000; size += 0x4000) {
		AUTO(answers_done) struct answers a;
		unsigned fini;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		fini = elf_writer_nobits(&a.w.elf, ".fini", SHF_ALLOC | SHF_EXECINSTR, 0x1000);
		elf_writer_at(&a.w.elf, fini)->addr = 0x3000;
		code_symbol(&a.w, "last", STT_FUNC, STB_GLOBAL, 0x1f00, size);
		code_symbol(&a.w, "next", STT_FUNC, STB_GLOBAL, 0x3800, 0x10);
		answers_open(&a);
		assert_answer(&a, 0x1fff, "last");
		assert_answer(&a, 0x2000, "-");
		assert_answer(&a, 0x3000, "-");
		assert_answer(&a, 0x3800, "next");
	}
}

/* Parts of a function next to one another, each with its symbol: clang -fbasic-block-sections=all. */
static void parts_of_a_function_have_their_own_names(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	add_plain(&a);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x20);
	code_symbol(&a.w, "f.__part.1", STT_FUNC, STB_LOCAL, 0x1020, 0x10);
	code_symbol(&a.w, "f.__part.2", STT_FUNC, STB_LOCAL, 0x1030, 0x28);
	code_symbol(&a.w, "label", STT_NOTYPE, STB_LOCAL, 0x1038, 0);
	code_symbol(&a.w, "f.__part.3", STT_NOTYPE, STB_LOCAL, 0x1068, 0);
	code_symbol(&a.w, "f.__part.4", STT_NOTYPE, STB_LOCAL, 0x1068, 0x18);
	code_symbol(&a.w, "f.cold", STT_FUNC, STB_LOCAL, 0x1080, 0);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f at /src/a.c:10");
	assert_answer(&a, 0x101f, "f at /src/a.c:11");
	assert_answer(&a, 0x1020, "f.__part.1 at /src/a.c:12");
	assert_answer(&a, 0x102f, "f.__part.1 at /src/a.c:12");
	assert_answer(&a, 0x1030, "f.__part.2 at /src/a.c:13");
	assert_answer(&a, 0x1057, "f.__part.2 at /src/a.c:15");
	assert_answer(&a, 0x1058, "f at /src/a.c:15");
	assert_answer(&a, 0x1067, "f at /src/a.c:16");
	assert_answer(&a, 0x1068, "f.__part.4 at /src/a.c:16");
	assert_answer(&a, 0x107f, "f.__part.4 at /src/a.c:17");
	assert_answer(&a, 0x1080, "f.cold at /src/a.c:18");
	assert_answer(&a, 0x10ff, "f.cold at /src/a.c:25");
}

/* The mark of a section's start has a shorter name, but no size. */
static void a_symbol_with_a_size_beats_a_shorter_name(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "handler_array", STT_NOTYPE, STB_GLOBAL, 0x1000, 0x20);
	code_symbol(&a.w, "_sinit", STT_NOTYPE, STB_GLOBAL, 0x1000, 0);
	code_symbol(&a.w, "_sinittext", STT_NOTYPE, STB_GLOBAL, 0x1000, 0);
	answers_open(&a);
	assert_answer(&a, 0x1000, "handler_array");
	assert_answer(&a, 0x101f, "handler_array");
	assert_answer(&a, 0x1020, "_sinit");
}

static void of_aliases_a_global_function_with_a_short_name_is_chosen(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&a.w, "__f", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
	code_symbol(&a.w, "f_local", STT_FUNC, STB_LOCAL, 0x1000, 0x10);
	code_symbol(&a.w, "f_weak", STT_FUNC, STB_WEAK, 0x1000, 0x10);
	code_symbol(&a.w, "f_long_name", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
	code_symbol(&a.w, "a", STT_NOTYPE, STB_GLOBAL, 0x1000, 0x10);
	code_symbol(&a.w, "local", STT_FUNC, STB_LOCAL, 0x1020, 0x10);
	code_symbol(&a.w, "weak_with_a_long_name", STT_FUNC, STB_WEAK, 0x1020, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_answer(&a, 0x1020, "weak_with_a_long_name");
}

static void mapping_symbols_and_labels_are_no_names(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_ARM, ET_DYN);
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1001, 0x10); /* Thumb */
	code_symbol(&a.w, "$a", STT_NOTYPE, STB_LOCAL, 0x1004, 0);
	code_symbol(&a.w, "$t.1", STT_NOTYPE, STB_LOCAL, 0x1040, 0);
	code_symbol(&a.w, ".Ltmp", STT_NOTYPE, STB_LOCAL, 0x1044, 0);
	code_symbol(&a.w, ".annobin_x.c.hot", STT_NOTYPE, STB_LOCAL, 0x1050, 0);
	code_symbol(&a.w, "gcc2_compiled.", STT_NOTYPE, STB_LOCAL, 0x1054, 0);
	code_symbol(&a.w, "data", STT_OBJECT, STB_GLOBAL, 0x1048, 8);
	code_symbol(&a.w, "file.c", STT_FILE, STB_LOCAL, 0x1050, 0);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_answer(&a, 0x100f, "f");
	assert_answer(&a, 0x1044, "-");
	assert_answer(&a, 0x1048, "-");
	assert_answer(&a, 0x1058, "-");
}

/* The first ABI's name of a function's code is .f; f is a descriptor in another section. */
static void the_dot_before_powerpc_functions_is_dropped(void **state)
{
	static const struct {
		enum elf_writer_target target;
		const char *want;
	} machines[] = { { ELF_WRITER_PPC64LE, "f" }, { ELF_WRITER_X86_64, ".f" } };

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, machines[i].target, ET_DYN);
		code_symbol(&a.w, ".f", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
		answers_open(&a);
		assert_answer(&a, 0x1000, machines[i].want);
	}
}

/* All sections of a relocatable file start at 0: they are laid out one after another. */
static void sections_of_a_relocatable_file_get_their_own_addresses(void **state)
{
	AUTO(answers_done) struct answers a;
	const struct symtab_info *info;
	unsigned init;

	answers_init(&a, ELF_WRITER_X86_64, ET_REL);
	a.w.text = 0;
	init = elf_writer_nobits(&a.w.elf, ".init.text", SHF_ALLOC | SHF_EXECINSTR, 0x30);
	elf_writer_at(&a.w.elf, init)->align = 16;
	code_symbol(&a.w, "start", STT_FUNC, STB_GLOBAL, 0x8, 0x10);
	answers_open(&a);
	info = symtab_info(a.t);
	assert_true(info->flags & SYMTAB_RELOCATABLE);
	assert_int_equal(info->n_sections, 2);
	assert_str(info->sections[0].name, ".init.text");
	assert_int_equal(info->sections[1].base, 0x30);
	assert_answer(&a, 0x8, "start");
	assert_answer(&a, 0x30, "-");
}

static void a_file_without_code_gives_symtab_nothing(void **state)
{
	AUTO(answers_done) struct answers a;
	struct symtab_options o = { 0 };
	struct err err = { 0 };

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	code_writer_finish(&a.w, &a.file);
	a.src = source_of_mem(buf_bytes(&a.file), "x");
	assert_done(elf_open(a.src, &a.img, &err));
	assert_int_equal(symtab_build(a.img, &o, &a.table, &a.stats, &err), SYMTAB_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_symbol_without_a_size_extends_to_the_next),
		cmocka_unit_test(a_symbol_ends_with_its_section),
		cmocka_unit_test(parts_of_a_function_have_their_own_names),
		cmocka_unit_test(a_symbol_with_a_size_beats_a_shorter_name),
		cmocka_unit_test(of_aliases_a_global_function_with_a_short_name_is_chosen),
		cmocka_unit_test(mapping_symbols_and_labels_are_no_names),
		cmocka_unit_test(the_dot_before_powerpc_functions_is_dropped),
		cmocka_unit_test(sections_of_a_relocatable_file_get_their_own_addresses),
		cmocka_unit_test(a_file_without_code_gives_symtab_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
