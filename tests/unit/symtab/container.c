/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of files: compressed, with a supplementary file, without sections.
 */
#include "test.h"

#include <time.h>
#include "answers.h"
#include "packed.h"

/* The reasons of skipped parts, one after the other. */
static const char *skipped_text(const struct answers *a, struct buf *room)
{
	room->size = 0;
	for (size_t i = 0; i < symtab_info(a->t)->n_reasons; i++)
		buf_printf(room, STR_FMT "; ", STR_ARG(symtab_info(a->t)->skipped[i]));
	buf_add_char(room, 0);
	return (const char *)room->p;
}

/* A section that is cut, or whose compression header lies, takes no other with it. */
static void damaged_debug_sections_leave_the_rest(void **state)
{
	static const struct {
		const char *name, *want;
	} damaged[] = {
		{ ".debug_info", "f" },
		{ ".debug_abbrev", "f" },
		{ ".debug_line", "f" },
		{ ".debug_str", "f at /src/a.c:10" },
		{ ".debug_ranges", "f at /src/a.c:10" },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(damaged); i++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf text = { 0 };
		const char *name = damaged[i / 2].name;
		struct bytes junk = bytes_of("\1\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\1\0\0\0\0\0\0\0zlib", 28);
		struct symtab_options o = { 0 };
		struct err err = { 0 };
		struct str first;
		unsigned at;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		/* The first section of a name counts. */
		at = elf_writer_section(&a.w.elf, name, SHT_PROGBITS, i % 2 ? SHF_COMPRESSED : 0, junk);
		if (i % 2 == 0) {
			elf_writer_at(&a.w.elf, at)->off = 1 << 30;
			elf_writer_at(&a.w.elf, at)->off_set = true;
		}
		code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
		code_symbol(&a.w, "g", STT_FUNC, STB_GLOBAL, 0x1200, 0x10);
		add_plain(&a);
		code_writer_finish(&a.w, &a.file);
		a.src = source_of_mem(buf_bytes(&a.file), "x");
		assert_done(elf_open(a.src, &a.img, &err));
		assert_done(symtab_build(a.img, &o, &a.table, &a.stats, &err));
		assert_done(symtab_open_mem(buf_bytes(&a.table), &a.t, &err));
		a.f = symtab_finder_new(a.t);
		assert_answer(&a, 0x1000, damaged[i / 2].want);
		assert_answer(&a, 0x1200, "g");
		/* First: it is the reason of what is missing of the units. */
		skipped_text(&a, &text);
		first = str_cut(&(struct str){ (const char *)text.p, text.size }, ';');
		assert_non_null(memmem(first.p, first.size, name, strlen(name)));
		assert_null(memmem(first.p, first.size, "unit at", 7));
		assert_null(strstr(skipped_text(&a, &text), "no abbreviations"));
		assert_null(strstr(skipped_text(&a, &text), "no line table"));
	}
}

/* One damaged table of symbols does not hide the other. */
static void a_damaged_symbol_table_leaves_the_other(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf text = { 0 };
	unsigned at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	at = elf_writer_section(&a.w.elf, ".symtab", SHT_SYMTAB, 0, bytes_of("x", 1));
	elf_writer_at(&a.w.elf, at)->link = 70000;
	a.w.dynamic = true;
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_non_null(strstr(skipped_text(&a, &text), "symbols: section 1"));
}

/* A name that has no end within its section, and one that is not in it. */
static void symbols_without_names_are_listed(void **state)
{
	static const char names[] = { 0, 'g', 0, 'f' };
	const Elf64_Sym table[] = {
		{ 0 },
		{ 1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1000, 0x10 },
		{ 3, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1010, 0x10 },
		{ 4, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1020, 0x10 },
		{ 4, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, 1, 0x1020, 0x10 },
		{ 4, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, SHN_UNDEF, 0, 0 },
	};
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf text = { 0 };
	unsigned names_at, at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	names_at = elf_writer_section(&a.w.elf, ".strtab", SHT_STRTAB, 0, bytes_of(names, sizeof(names)));
	at = elf_writer_section(&a.w.elf, ".symtab", SHT_SYMTAB, 0, bytes_of(table, sizeof(table)));
	elf_writer_at(&a.w.elf, at)->link = names_at;
	a.w.dynamic = true;
	code_symbol(&a.w, "other", STT_FUNC, STB_GLOBAL, 0x1040, 0x10);
	answers_open(&a);
	assert_answer(&a, 0x1000, "g");
	assert_answer(&a, 0x1040, "other");
	assert_non_null(strstr(skipped_text(&a, &text), "2 of the table's symbols have no name"));
}

static void a_file_of_which_nothing_is_whole_says_why(void **state)
{
	AUTO(answers_done) struct answers a;
	struct symtab_options o = { 0 };
	struct err err = { 0 };
	unsigned at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	at = elf_writer_section(&a.w.elf, ".debug_info", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_at(&a.w.elf, at)->off = 1 << 30;
	elf_writer_at(&a.w.elf, at)->off_set = true;
	code_writer_finish(&a.w, &a.file);
	a.src = source_of_mem(buf_bytes(&a.file), "x");
	assert_done(elf_open(a.src, &a.img, &err));
	assert_int_equal(symtab_build(a.img, &o, &a.table, &a.stats, &err), -1);
	assert_int_equal(err.kind, ERR_INVALID);
	assert_non_null(strstr(err.text, ".debug_info"));
}

static void compressed_debug_sections(void **state)
{
	static const uint32_t kinds[] = { ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, UINT32_MAX };
	static const enum elf_writer_target targets[] = { ELF_WRITER_X86_64, ELF_WRITER_I386,
							  ELF_WRITER_S390X };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (size_t k = 0; k < ARRAY_SIZE(targets); k++) {
			AUTO(answers_done) struct answers a;

			answers_init(&a, targets[k], ET_DYN);
			a.w.compress = kinds[i];
			add_plain(&a);
			answers_open(&a);
			assert_answer(&a, 0x1010, "f at /src/a.c:11");
		}
}

/* Decompressed into a file, or into memory if there can be no file. */
static void large_compressed_sections(void **state)
{
	static const char *const places[] = { "/tmp", "/nowhere/at/all" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.compress = ELFCOMPRESS_ZLIB;
		a.temp_dir = places[i];
		add_plain(&a);
		memset(buf_reserve(&a.w.info, MIB(17)), 0, MIB(17)); /* units of no length */
		a.w.info.size += MIB(17);
		answers_open(&a);
		assert_answer(&a, 0x1010, "f at /src/a.c:11");
	}
}

/* SHT_MIPS_DWARF. */
static void debug_sections_of_a_type_of_their_own(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_PPC, ET_DYN);
	a.w.elf.machine = EM_MIPS;
	a.w.section_type = 0x7000001e;
	add_plain(&a);
	answers_open(&a);
	assert_answer(&a, 0x1010, "f at /src/a.c:11");
}

static void offsets_of_4_and_8_bytes_in_one_file(void **state)
{
	AUTO(answers_done) struct answers a;
	uint64_t lines;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	lines = add_lines(&a);
	for (unsigned i = 0; i < 4; i++) {
		a.w.dwarf64 = i & 1;
		code_unit_c(&a.w, lines);
		code_die(&a.w, T_SUBPROGRAM, false, A_NAME, F_STRP, S(i & 1 ? "long" : "short"), A_LOW,
			 F_ADDR, U(0x1000 + 0x10 * i), A_HIGH, F_DATA4, U(0x10), 0u);
		code_up(&a.w);
		code_unit_end(&a.w);
	}
	answers_open(&a);
	assert_answer(&a, 0x1000, "short at /src/a.c:10");
	assert_answer(&a, 0x1010, "long at /src/a.c:11");
	assert_answer(&a, 0x1020, "short at /src/a.c:12");
	assert_answer(&a, 0x1030, "long at /src/a.c:13");
}

/* ---- symbols of other tables ---- */

static void mini_debug_information_adds_to_dynamic_symbols(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(code_writer_done) struct code_writer mini;
	AUTO(buf_done) struct buf file = { 0 }, xz = { 0 };

	code_writer_init(&mini, ELF_WRITER_X86_64, ET_DYN);
	code_symbol(&mini, "hidden", STT_FUNC, STB_LOCAL, 0x1020, 0x10);
	code_writer_finish(&mini, &file);
	packed_xz(&xz, buf_bytes(&file), 6, 0, 4);
	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.dynamic = true;
	code_symbol(&a.w, "exported", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
	elf_writer_section(&a.w.elf, ".gnu_debugdata", SHT_PROGBITS, 0, buf_bytes(&xz));
	answers_open(&a);
	assert_answer(&a, 0x1000, "exported");
	assert_answer(&a, 0x1020, "hidden");
	assert_answer(&a, 0x1010, "-");
}

/*
 * The outer file has more sections of code than the relocatable file in .gnu_debugdata has sections: section
 * indices of one must not be used for the other. The inner symbols are damage, the outer ones are kept.
 */
static void a_relocatable_file_as_mini_debug_information_is_refused(void **state)
{
	AUTO(answers_done) struct answers a;
	AUTO(code_writer_done) struct code_writer mini;
	AUTO(buf_done) struct buf file = { 0 }, xz = { 0 };

	code_writer_init(&mini, ELF_WRITER_X86_64, ET_REL);
	code_symbol(&mini, "hidden", STT_FUNC, STB_LOCAL, 0x20, 0x10);
	code_writer_finish(&mini, &file);
	packed_xz(&xz, buf_bytes(&file), 6, 0, 4);
	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.dynamic = true;
	code_symbol(&a.w, "exported", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
	elf_writer_section(&a.w.elf, ".gnu_debugdata", SHT_PROGBITS, 0, buf_bytes(&xz));
	for (unsigned i = 0; i < 2000; i++) {
		unsigned at = elf_writer_nobits(&a.w.elf, ".text.more", SHF_ALLOC | SHF_EXECINSTR, 0x10);

		elf_writer_at(&a.w.elf, at)->addr = 0x100000 + 0x10 * i;
	}
	answers_open(&a);
	assert_answer(&a, 0x1000, "exported");
	assert_answer(&a, 0x20, "-");
	assert_true(symtab_info(a.t)->flags & SYMTAB_PARTIAL);
}

/* Its code is in segments, which have no section index. */
static void a_relocatable_file_without_sections_has_no_table(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 }, table = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	const struct symtab_options o = { .n_threads = 1 };
	struct symtab_stats st;
	struct err err = { 0 };
	unsigned at;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	w.no_sections = true;
	at = elf_writer_segment(&w, PT_LOAD, PF_R | PF_X, 0);
	elf_writer_segment_at(&w, at)->vaddr = 0x1000;
	elf_writer_segment_at(&w, at)->memsz = 0x1000;
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_int_equal(elf_open(src, &img, &err), 0);
	assert_int_equal(img->n_sections, 0);
	assert_int_equal(symtab_build(img, &o, &table, &st, &err), SYMTAB_NOTHING);
}

/* Addresses of functions in a file of which only debug sections and symbols are left. */
static void code_whose_sections_were_removed(void **state)
{
	enum { NOTHING, SEGMENT, CUT_SEGMENT, OTHER_SECTION, N };

	for (int what = 0; what < N; what++) {
		AUTO(answers_done) struct answers a;
		unsigned at;

		answers_init(&a, ELF_WRITER_X86_64, ET_EXEC);
		add_plain(&a);
		code_symbol(&a.w, "label", STT_NOTYPE, STB_GLOBAL, 0x1300, 0x10);
		code_symbol(&a.w, "dead", STT_FUNC, STB_GLOBAL, 0, 0x10);
		code_symbol(&a.w, "g", STT_FUNC, STB_GLOBAL, 0x1200, 0x10);
		code_symbol(&a.w, "last", STT_FUNC, STB_GLOBAL, 0x1400, 0);
		a.w.text_size = 0;
		if (what) {
			at = elf_writer_segment(&a.w.elf, PT_LOAD, PF_R | PF_X, 0);
			elf_writer_segment_at(&a.w.elf, at)->vaddr = 0;
			elf_writer_segment_at(&a.w.elf, at)->memsz = what == CUT_SEGMENT ? 0x200 : 0x3000;
		}
		if (what == OTHER_SECTION) {
			at = elf_writer_nobits(&a.w.elf, ".fini", SHF_ALLOC | SHF_EXECINSTR, 0x100);
			elf_writer_at(&a.w.elf, at)->addr = 0x3000;
		}
		answers_open(&a);
		assert_answer(&a, 0x1000, "f at /src/a.c:10");
		assert_answer(&a, 0x1200, "g");
		assert_answer(&a, 0x1210, "-");
		assert_answer(&a, 0x1300, what == NOTHING || what == CUT_SEGMENT ? "-" : "label");
		assert_answer(&a, 0x1400, "last");
		assert_answer(&a, 0, "-");
		if (what == NOTHING || what == CUT_SEGMENT)
			assert_answer(&a, 0x1401, "-");
	}
}

/* A dynamic symbol without a size covers only its address. */
static void a_dynamic_symbol_without_a_size_is_one_address(void **state)
{
	AUTO(answers_done) struct answers a;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	a.w.dynamic = true;
	code_symbol(&a.w, "f", STT_FUNC, STB_GLOBAL, 0x1000, 0);
	answers_open(&a);
	assert_answer(&a, 0x1000, "f");
	assert_answer(&a, 0x1001, "-");
}

/* A file whose section table was stripped: symbols are found as a dynamic linker finds them. */
static void dynamic_symbols_without_sections(void **state)
{
	for (int gnu = 0; gnu < 2; gnu++) {
		AUTO(answers_done) struct answers a;
		AUTO(buf_done) struct buf b = { 0 };
		struct elf_writer *w = &a.w.elf;
		unsigned at;
		size_t dynamic;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		a.w.dynamic = true;
		code_symbol(&a.w, "one", STT_FUNC, STB_GLOBAL, 0x1000, 0x10);
		code_symbol(&a.w, "two", STT_FUNC, STB_GLOBAL, 0x1010, 0x10);
		/* One segment of data at 0x5000: symbols, names, hash table, dynamic section. */
		buf_add_str(&b, buf_str(&a.w.symbols));
		buf_add_str(&b, buf_str(&a.w.names));
		while (b.size % 8)
			buf_add_char(&b, 0);
		dynamic = b.size;
		if (gnu) {
			elf_writer_put(w, &b, 1, 4); /* buckets, first symbol, bloom words, shift */
			elf_writer_put(w, &b, 1, 4);
			elf_writer_put(w, &b, 1, 4);
			elf_writer_put(w, &b, 0, 4);
			elf_writer_put(w, &b, 0, 8);
			elf_writer_put(w, &b, 1, 4);
			elf_writer_put(w, &b, 0x10, 4); /* chain: one more, the last */
			elf_writer_put(w, &b, 0x11, 4);
		} else {
			elf_writer_put(w, &b, 1, 4);
			elf_writer_put(w, &b, 3, 4);
			elf_writer_put(w, &b, 0, 4);
		}
		while (b.size % 8)
			buf_add_char(&b, 0);
		at = elf_writer_section(w, ".data", SHT_PROGBITS, SHF_ALLOC, buf_bytes(&b));
		elf_writer_at(w, at)->addr = 0x5000;
		elf_writer_segment(w, PT_LOAD, PF_R, at);
		buf_done(&b);
		elf_writer_put(w, &b, 5, 8);
		elf_writer_put(w, &b, 0x5000 + a.w.symbols.size, 8);
		elf_writer_put(w, &b, 6, 8);
		elf_writer_put(w, &b, 0x5000, 8);
		elf_writer_put(w, &b, 10, 8);
		elf_writer_put(w, &b, a.w.names.size, 8);
		elf_writer_put(w, &b, gnu ? 0x6ffffef5 : 4, 8);
		elf_writer_put(w, &b, 0x5000 + dynamic, 8);
		elf_writer_put(w, &b, 0, 8);
		elf_writer_put(w, &b, 0, 8);
		at = elf_writer_section(w, ".dynamic", SHT_DYNAMIC, SHF_ALLOC, buf_bytes(&b));
		elf_writer_at(w, at)->addr = 0x6000;
		elf_writer_segment(w, PT_DYNAMIC, PF_R, at);
		elf_writer_segment(w, PT_LOAD, PF_R, at);
		at = elf_writer_segment(w, PT_LOAD, PF_R | PF_X, 0);
		elf_writer_segment_at(w, at)->vaddr = 0x1000;
		elf_writer_segment_at(w, at)->memsz = 0x1000;
		w->no_sections = true;
		answers_open(&a);
		assert_answer(&a, 0x1000, "one");
		assert_answer(&a, 0x101f, "two");
		assert_answer(&a, 0x1020, "-");
		assert_true(symtab_info(a.t)->flags & SYMTAB_HAS_SYMBOLS);
	}
}

/* With a walk over all segments for each of them it takes seconds of CPU time. */
static void few_dynamic_segments_are_tried(void **state)
{
	enum { SEGMENTS = 65000 };
	AUTO(answers_done) struct answers a;
	struct elf_writer *w = &a.w.elf;
	const struct symtab_options o = { .n_threads = 1 };
	struct err err = { 0 };
	clock_t start;
	unsigned at;

	answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		at = elf_writer_segment(w, i % 2 ? PT_LOAD : PT_DYNAMIC, PF_R, 0);
		elf_writer_segment_at(w, at)->vaddr = 0x10000 + i * 16;
		elf_writer_segment_at(w, at)->filesz = 16;
	}
	at = elf_writer_segment(w, PT_LOAD, PF_R | PF_X, 0);
	elf_writer_segment_at(w, at)->vaddr = 0x1000;
	elf_writer_segment_at(w, at)->memsz = 0x1000;
	w->no_sections = true;
	code_writer_finish(&a.w, &a.file);
	a.src = source_of_mem(buf_bytes(&a.file), "x");
	assert_done(elf_open(a.src, &a.img, &err));
	start = clock();
	assert_int_equal(symtab_build(a.img, &o, &a.table, &a.stats, &err), SYMTAB_NOTHING);
	assert_true(clock() - start < CLOCKS_PER_SEC);
}

/* Descriptors of functions at 0x1000 and 0x1040, at 0x8000; of a debug file, without their bytes. */
static void add_descriptors(struct answers *a, bool debug)
{
	AUTO(buf_done) struct buf opd = { 0 };
	unsigned at;

	answers_init(a, ELF_WRITER_S390X, ET_DYN);
	a->w.elf.machine = EM_PPC64;
	for (unsigned i = 0; i < 2; i++) {
		elf_writer_put(&a->w.elf, &opd, 0x1000 + 0x40 * i, 8);
		elf_writer_put(&a->w.elf, &opd, 0, 8);
		elf_writer_put(&a->w.elf, &opd, 0, 8);
	}
	at = debug ? elf_writer_nobits(&a->w.elf, ".opd", SHF_ALLOC | SHF_WRITE, opd.size)
		   : elf_writer_section(&a->w.elf, ".opd", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE,
					buf_bytes(&opd));
	elf_writer_at(&a->w.elf, at)->addr = 0x8000;
}

static void add_descriptors_symbols(struct answers *a)
{
	code_symbol(&a->w, "one", STT_FUNC, STB_GLOBAL, 0x8000, 0x20);
	code_symbol(&a->w, "two", STT_FUNC, STB_GLOBAL, 0x8018, 0x20);
}

/* The first ABI of 64-bit PowerPC: a function's symbol is the address of its descriptor. */
static void symbols_that_name_descriptors(void **state)
{
	AUTO(answers_done) struct answers a;

	add_descriptors(&a, false);
	add_descriptors_symbols(&a);
	answers_open(&a);
	assert_answer(&a, 0x1000, "one");
	assert_answer(&a, 0x1020, "-");
	assert_answer(&a, 0x1040, "two");
}

static void descriptors_of_a_debug_file_are_read_from_its_program(void **state)
{
	AUTO(answers_done) struct answers program, a;

	add_descriptors(&program, false);
	code_symbol(&program.w, "dynamic", STT_FUNC, STB_GLOBAL, 0x8000, 0x20);
	answers_open(&program);
	assert_false(symtab_needs_program(program.img));
	add_descriptors(&a, true);
	add_descriptors_symbols(&a);
	a.program = program.img;
	answers_open(&a);
	assert_true(symtab_needs_program(a.img));
	assert_answer(&a, 0x1000, "one");
	assert_answer(&a, 0x1050, "two");
	assert_answer(&a, 0x1020, "-");
}

/* A stub that the linker named, without a size, would else extend over functions whose starts are not known. */
static void without_descriptors_a_label_is_one_address(void **state)
{
	AUTO(answers_done) struct answers a;

	add_descriptors(&a, true);
	add_descriptors_symbols(&a);
	code_symbol(&a.w, "00000010.plt_call.puts", STT_NOTYPE, STB_LOCAL, 0x1010, 0);
	answers_open(&a);
	assert_answer(&a, 0x1010, "00000010.plt_call.puts");
	assert_answer(&a, 0x1014, "-");
	assert_answer(&a, 0x1050, "-");
}

/* A program that is cut costs the names that need its descriptors, and no others. */
static void damaged_descriptors_of_the_program_cost_no_other_symbols(void **state)
{
	AUTO(answers_done) struct answers program, a;
	struct elf_writer *w = &program.w.elf;
	struct err err = { 0 };

	add_descriptors(&program, false);
	for (unsigned i = 1; i < w->n_sections; i++)
		if (strcmp(elf_writer_at(w, i)->name, ".opd") == 0) {
			elf_writer_at(w, i)->off = MIB(1);
			elf_writer_at(w, i)->off_set = true;
		}
	code_writer_finish(&program.w, &program.file);
	program.src = source_of_mem(buf_bytes(&program.file), "x");
	assert_done(elf_open(program.src, &program.img, &err));
	add_descriptors(&a, true);
	add_descriptors_symbols(&a);
	code_symbol(&a.w, "00000010.plt_call.puts", STT_NOTYPE, STB_LOCAL, 0x1010, 0);
	a.program = program.img;
	answers_open(&a);
	assert_answer(&a, 0x1010, "00000010.plt_call.puts");
	assert_answer(&a, 0x1014, "-");
	assert_int_equal(symtab_info(a.t)->n_reasons, 1);
}

/* A linkage table at 0x1800 whose entries jump through the slots of puts and exit. */
static void open_linkage_table(struct answers *a, unsigned section, const uint64_t slots[2])
{
	AUTO(buf_done) struct buf rela = { 0 };
	struct elf_writer *w = &a->w.elf;
	unsigned names, symbols, at;

	a->w.text_size = 0x800;
	a->w.dynamic = true;
	elf_writer_at(w, section)->addr = 0x1800;
	names = elf_writer_section(w, ".dynstr", SHT_STRTAB, SHF_ALLOC, bytes_of("\0puts\0exit", 11));
	symbols = elf_writer_section(w, ".dynsym", SHT_DYNSYM, SHF_ALLOC, (struct bytes){ 0 });
	elf_writer_at(w, symbols)->link = names;
	for (unsigned i = 0; i < 3; i++) {
		elf_writer_put(w, &elf_writer_at(w, symbols)->data, i == 1 ? 1 : i == 2 ? 6 : 0, 4);
		elf_writer_put(w, &elf_writer_at(w, symbols)->data, i ? 0x12 : 0, 4);
		elf_writer_put(w, &elf_writer_at(w, symbols)->data, 0, 8);
		elf_writer_put(w, &elf_writer_at(w, symbols)->data, 0, 8);
	}
	elf_writer_at(w, symbols)->size = elf_writer_at(w, symbols)->data.size;
	for (unsigned i = 0; i < 2; i++) {
		elf_writer_put(w, &rela, slots[i], 8);
		elf_writer_put(w, &rela, (uint64_t)(i + 1) << 32 | 7, 8);
		elf_writer_put(w, &rela, 0, 8);
	}
	at = elf_writer_section(w, ".rela.plt", SHT_RELA, SHF_ALLOC, buf_bytes(&rela));
	elf_writer_at(w, at)->link = symbols;
	answers_open(a);
}

/* An entry of the linkage table has the name of its target. */
static void entries_of_the_linkage_table(void **state)
{
	static const struct {
		const char *section, *code; /* of two entries, at 0x1800 */
		unsigned size;              /* of one */
		bool by_alignment;
		uint64_t slots[2];
	} tables[] = {
		/* endbr64; jmp *0x3000(%rip), and jmp *0x3002(%rip). */
		{ ".plt.sec",
		  "\xf3\x0f\x1e\xfa\xf2\xff\x25\x00\x30\x00\x00\x0f\x1f\x44\0\0"
		  "\xff\x25\x02\x30\x00\x00\x68\0\0\0\0\xe9\0\0\0\0",
		  16,
		  false,
		  { 0x480b, 0x4818 } },
		/* Old binutils wrote short entries without their size, but with their alignment: jmp *0x3002(%rip). */
		{ ".plt.got",
		  "\xff\x25\x02\x30\x00\x00\x66\x90"
		  "\xff\x25\x02\x30\x00\x00\x66\x90",
		  8,
		  true,
		  { 0x4808, 0x4810 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		unsigned size = tables[i].size, at;
		AUTO(answers_done) struct answers a;

		answers_init(&a, ELF_WRITER_X86_64, ET_DYN);
		at = elf_writer_section(&a.w.elf, tables[i].section, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR,
					bytes_of(tables[i].code, 2 * size));
		if (tables[i].by_alignment)
			elf_writer_at(&a.w.elf, at)->align = size;
		else
			elf_writer_at(&a.w.elf, at)->entsize = size;
		open_linkage_table(&a, at, tables[i].slots);
		assert_answer(&a, 0x1800, "puts@plt");
		assert_answer(&a, 0x1800 + size - 1, "puts@plt");
		assert_answer(&a, 0x1800 + size, "exit@plt");
		assert_answer(&a, 0x1800 + 2 * size - 1, "exit@plt");
	}
}

/* Entries of aarch64 with bti and without, one of 24 bytes and one of 16. */
static void entries_of_the_linkage_table_of_aarch64(void **state)
{
	/* bti c; adrp x16, 0x4000; ldr x17, [x16, 0x18]; add x16, x16, 0x18; br x17; nop. Then the same of 0x4020. */
	static const uint32_t code[] = { 0xd503245f, 0xf0000010, 0xf9400e11, 0x91006210, 0xd61f0220,
					 0xd503201f, 0xf0000010, 0xf9401211, 0x91008210, 0xd61f0220 };
	AUTO(answers_done) struct answers a;
	AUTO(buf_done) struct buf b = { 0 };
	unsigned at;

	answers_init(&a, ELF_WRITER_AARCH64, ET_DYN);
	for (size_t i = 0; i < ARRAY_SIZE(code); i++)
		elf_writer_put(&a.w.elf, &b, code[i], 4);
	at = elf_writer_section(&a.w.elf, ".plt", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, buf_bytes(&b));
	open_linkage_table(&a, at, (const uint64_t[]){ 0x4018, 0x4020 });
	assert_answer(&a, 0x1800, "puts@plt");
	assert_answer(&a, 0x1817, "puts@plt");
	assert_answer(&a, 0x1818, "exit@plt");
	assert_answer(&a, 0x1827, "exit@plt");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_debug_sections_leave_the_rest),
		cmocka_unit_test(a_damaged_symbol_table_leaves_the_other),
		cmocka_unit_test(symbols_without_names_are_listed),
		cmocka_unit_test(a_file_of_which_nothing_is_whole_says_why),
		cmocka_unit_test(compressed_debug_sections),
		cmocka_unit_test(large_compressed_sections),
		cmocka_unit_test(debug_sections_of_a_type_of_their_own),
		cmocka_unit_test(offsets_of_4_and_8_bytes_in_one_file),
		cmocka_unit_test(mini_debug_information_adds_to_dynamic_symbols),
		cmocka_unit_test(a_relocatable_file_as_mini_debug_information_is_refused),
		cmocka_unit_test(a_relocatable_file_without_sections_has_no_table),
		cmocka_unit_test(code_whose_sections_were_removed),
		cmocka_unit_test(a_dynamic_symbol_without_a_size_is_one_address),
		cmocka_unit_test(dynamic_symbols_without_sections),
		cmocka_unit_test(few_dynamic_segments_are_tried),
		cmocka_unit_test(symbols_that_name_descriptors),
		cmocka_unit_test(descriptors_of_a_debug_file_are_read_from_its_program),
		cmocka_unit_test(without_descriptors_a_label_is_one_address),
		cmocka_unit_test(damaged_descriptors_of_the_program_cost_no_other_symbols),
		cmocka_unit_test(entries_of_the_linkage_table),
		cmocka_unit_test(entries_of_the_linkage_table_of_aarch64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
