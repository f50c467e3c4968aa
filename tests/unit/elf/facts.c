/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"

static const uint8_t id20[20] = "abcdefghijklmnopqrs";

/* Finishes the file and reads its facts. */
static struct elf_facts facts_of(struct elf_writer *w)
{
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	struct elf_facts f = { 0 };
	struct err err = { 0 };

	elf_writer_finish(w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_facts_read(src, &f, &err));
	elf_writer_done(w);
	return f;
}

static void add(struct elf_writer *w, const char *name, uint32_t type, uint64_t flags)
{
	elf_writer_section(w, name, type, flags, bytes_of("0123456789abcdef", 16));
}

static void programs_and_shared_objects(void **state)
{
	static const uint16_t types[] = { ET_EXEC, ET_DYN };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct elf_writer w;
		struct elf_facts f;

		elf_writer_init(&w, ELF_WRITER_AARCH64, types[i]);
		elf_writer_build_id(&w, bytes_of(id20, 20));
		add(&w, ".text", SHT_PROGBITS, SHF_ALLOC);
		add(&w, ".gnu_debuglink", SHT_PROGBITS, 0);
		f = facts_of(&w);
		assert_int_equal(f.flags, ELF_IS_EXECUTABLE | ELF_HAS_DEBUG_LINK);
		assert_int_equal(f.type, types[i]);
		assert_int_equal(f.machine, EM_AARCH64);
		assert_int_equal(f.build_id.size, 20);
	}
}

static void an_unstripped_program_is_both(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	add(&w, ".text", SHT_PROGBITS, SHF_ALLOC);
	add(&w, ".debug_info", SHT_PROGBITS, 0);
	add(&w, ".zdebug_line", SHT_PROGBITS, 0);
	add(&w, ".symtab", SHT_SYMTAB, 0);
	assert_int_equal(facts_of(&w).flags,
			 ELF_IS_EXECUTABLE | ELF_IS_DEBUG | ELF_HAS_DWARF | ELF_HAS_LINES | ELF_HAS_SYMTAB);
}

static void a_program_with_a_symtab_only_is_no_debug_file(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	add(&w, ".text", SHT_PROGBITS, SHF_ALLOC);
	add(&w, ".symtab", SHT_SYMTAB, 0);
	assert_int_equal(facts_of(&w).flags, ELF_IS_EXECUTABLE | ELF_HAS_SYMTAB);
}

/* Rust's and Go's linkers put it there, and strip leaves it. */
static void a_stripped_program_with_scripts_for_gdb_is_no_debug_file(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	add(&w, ".text", SHT_PROGBITS, SHF_ALLOC);
	add(&w, ".debug_gdb_scripts", SHT_PROGBITS, SHF_ALLOC | SHF_MERGE | SHF_STRINGS);
	assert_int_equal(facts_of(&w).flags, ELF_IS_EXECUTABLE);
	/* Its debug file has the section without its contents. */
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_nobits(&w, ".text", SHF_ALLOC, 100);
	elf_writer_nobits(&w, ".debug_gdb_scripts", SHF_ALLOC, 100);
	add(&w, ".symtab", SHT_SYMTAB, 0);
	assert_int_equal(facts_of(&w).flags, ELF_IS_DEBUG | ELF_HAS_SYMTAB);
}

static void a_debug_file_is_no_program(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, bytes_of(id20, 20));
	elf_writer_nobits(&w, ".text", SHF_ALLOC, 100);
	elf_writer_nobits(&w, ".init_array", SHF_ALLOC, 100);
	add(&w, ".debug_info", SHT_PROGBITS, 0);
	add(&w, ".gnu_debugaltlink", SHT_PROGBITS, 0);
	assert_int_equal(facts_of(&w).flags, ELF_IS_DEBUG | ELF_HAS_DWARF | ELF_HAS_ALT_LINK);
}

static void a_debug_file_of_a_program_without_debug_information(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, bytes_of(id20, 20));
	elf_writer_nobits(&w, ".rodata", SHF_ALLOC, 100);
	add(&w, ".symtab", SHT_SYMTAB, 0);
	assert_int_equal(facts_of(&w).flags, ELF_IS_DEBUG | ELF_HAS_SYMTAB);
}

static void kernel_modules_and_their_debug_files(void **state)
{
	static const char *const marks[] = { ".modinfo", ".gnu.linkonce.this_module" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		struct elf_writer w;

		elf_writer_init(&w, ELF_WRITER_RISCV64, ET_REL);
		elf_writer_build_id(&w, bytes_of(id20, 20));
		add(&w, ".text", SHT_PROGBITS, SHF_ALLOC);
		add(&w, marks[i], SHT_PROGBITS, SHF_ALLOC);
		assert_int_equal(facts_of(&w).flags,
				 ELF_IS_EXECUTABLE | ELF_IS_RELOCATABLE | ELF_IS_KERNEL_MODULE);

		elf_writer_init(&w, ELF_WRITER_RISCV64, ET_REL);
		elf_writer_build_id(&w, bytes_of(id20, 20));
		elf_writer_nobits(&w, ".text", SHF_ALLOC, 100);
		elf_writer_nobits(&w, marks[i], SHF_ALLOC, 100);
		add(&w, ".debug_info", SHT_PROGBITS, 0);
		assert_int_equal(facts_of(&w).flags,
				 ELF_IS_DEBUG | ELF_IS_RELOCATABLE | ELF_IS_KERNEL_MODULE | ELF_HAS_DWARF);
	}
}

static void an_object_file_is_neither(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	add(&w, ".text", SHT_PROGBITS, SHF_ALLOC);
	add(&w, ".symtab", SHT_SYMTAB, 0);
	assert_int_equal(facts_of(&w).flags, ELF_IS_RELOCATABLE | ELF_HAS_SYMTAB);
}

static void supplementary_files(void **state)
{
	struct elf_writer w;

	/* As dwz -m makes them. */
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	elf_writer_at(&w, elf_writer_build_id(&w, bytes_of(id20, 20)))->flags = 0;
	add(&w, ".debug_info", SHT_PROGBITS, 0);
	add(&w, ".debug_str", SHT_PROGBITS, 0);
	assert_int_equal(facts_of(&w).flags, ELF_IS_DWZ | ELF_IS_DEBUG | ELF_IS_RELOCATABLE | ELF_HAS_DWARF);

	elf_writer_init(&w, ELF_WRITER_PPC, ET_EXEC);
	elf_writer_debug_sup(&w, true, "", bytes_of(id20, 20));
	assert_int_equal(facts_of(&w).flags, ELF_IS_DWZ | ELF_IS_DEBUG);

	elf_writer_init(&w, ELF_WRITER_PPC, ET_EXEC);
	elf_writer_debug_sup(&w, false, "x", bytes_of(id20, 20));
	assert_int_equal(facts_of(&w).flags, ELF_HAS_ALT_LINK | ELF_IS_DEBUG);
}

static void split_files_are_no_supplementary_files(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	add(&w, ".debug_info.dwo", SHT_PROGBITS, 0);
	add(&w, ".debug_line.dwo", SHT_PROGBITS, 0);
	assert_int_equal(facts_of(&w).flags,
			 ELF_IS_DEBUG | ELF_IS_RELOCATABLE | ELF_HAS_DWARF | ELF_HAS_LINES);
}

static void core_dumps(void **state)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct elf_writer w;
	struct elf_facts f;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_CORE);
	w.no_sections = true;
	elf_writer_note(&w, &b, 4, 3, "CORE", bytes_of(id20, 20));
	elf_writer_segment(&w, PT_NOTE, 0, elf_writer_section(&w, "x", SHT_PROGBITS, 0, buf_bytes(&b)));
	elf_writer_segment(&w, PT_LOAD, PF_R | PF_X, 1);
	f = facts_of(&w);
	assert_int_equal(f.flags, ELF_IS_CORE);
	assert_int_equal(f.build_id.size, 0);
}

static void a_cut_core_dump_is_a_core_dump(void **state)
{
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	struct elf_facts f;
	struct err err = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_CORE);
	add(&w, "load", SHT_PROGBITS, SHF_ALLOC);
	elf_writer_finish(&w, &file);
	src = source_of_mem(bytes_of(file.p, file.size - 1), "x");
	assert_done(elf_facts_read(src, &f, &err));
	assert_int_equal(f.flags, ELF_IS_CORE);
}

static void a_program_without_section_headers(void **state)
{
	struct elf_writer w;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	w.no_sections = true;
	elf_writer_segment(&w, PT_LOAD, PF_R | PF_X,
			   elf_writer_section(&w, "x", SHT_PROGBITS, 0, bytes_of("code", 4)));
	elf_writer_build_id(&w, bytes_of(id20, 20));
	assert_int_equal(facts_of(&w).flags, ELF_IS_EXECUTABLE);
}

static void a_cut_file_is_classified_by_its_segments(void **state)
{
	static const struct {
		bool code, debug;
	} cases[] = { { true, false }, { false, true } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		struct elf_facts f = { 0 };
		struct err err = { 0 };
		unsigned text;

		elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
		elf_writer_build_id(&w, bytes_of(id20, 20));
		text = cases[i].code
			       ? elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4))
			       : elf_writer_nobits(&w, ".text", SHF_ALLOC, 4);
		elf_writer_segment(&w, PT_LOAD, PF_R | PF_X, text);
		add(&w, ".debug_info", SHT_PROGBITS, 0);
		elf_writer_finish(&w, &file);
		src = source_of_mem(bytes_of(file.p, file.size - 1), "x");
		if (cases[i].code) {
			assert_done(elf_facts_read(src, &f, &err));
			assert_int_equal(f.flags, ELF_IS_EXECUTABLE);
			assert_int_equal(f.build_id.size, 20);
		} else {
			assert_fails(elf_facts_read(src, &f, &err), ERR_INVALID, "section table");
		}
	}
}

static void facts_are_printed_in_words(void **state)
{
	static const struct {
		struct elf_facts f;
		const char *text;
	} cases[] = {
		{ { ELF_IS_EXECUTABLE | ELF_IS_DEBUG | ELF_HAS_DWARF | ELF_HAS_LINES, ET_EXEC, EM_X86_64 },
		  "executable, debug (DWARF, lines), x86-64" },
		{ { ELF_IS_DEBUG, ET_DYN, EM_386 }, "debug, i386" },
		{ { ELF_IS_DEBUG | ELF_HAS_SYMTAB | ELF_HAS_ALT_LINK, ET_DYN, EM_S390 },
		  "debug (symtab), needs a supplementary file, s390" },
		{ { ELF_IS_EXECUTABLE | ELF_IS_KERNEL_MODULE | ELF_IS_RELOCATABLE, ET_REL, EM_RISCV },
		  "kernel module, riscv" },
		{ { ELF_IS_CORE, ET_CORE, 0xfff0 }, "core dump, unknown machine" },
		{ { ELF_IS_DWZ | ELF_IS_DEBUG | ELF_HAS_DWARF, ET_REL, EM_AARCH64 },
		  "supplementary (dwz), debug (DWARF), aarch64" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf b = { 0 };

		elf_facts_print(&cases[i].f, &b);
		assert_str(buf_str(&b), cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_and_shared_objects),
		cmocka_unit_test(an_unstripped_program_is_both),
		cmocka_unit_test(a_program_with_a_symtab_only_is_no_debug_file),
		cmocka_unit_test(a_stripped_program_with_scripts_for_gdb_is_no_debug_file),
		cmocka_unit_test(a_debug_file_is_no_program),
		cmocka_unit_test(a_debug_file_of_a_program_without_debug_information),
		cmocka_unit_test(kernel_modules_and_their_debug_files),
		cmocka_unit_test(an_object_file_is_neither),
		cmocka_unit_test(supplementary_files),
		cmocka_unit_test(split_files_are_no_supplementary_files),
		cmocka_unit_test(core_dumps),
		cmocka_unit_test(a_cut_core_dump_is_a_core_dump),
		cmocka_unit_test(a_program_without_section_headers),
		cmocka_unit_test(a_cut_file_is_classified_by_its_segments),
		cmocka_unit_test(facts_are_printed_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
