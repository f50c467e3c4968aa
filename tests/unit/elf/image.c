/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "elf/elf.h"
#include "elf_writer.h"
#include "fault_source.h"

static const uint8_t id20[20] = "abcdefghijklmnopqrs";

static void make_usual(struct elf_writer *w, enum elf_writer_target target, struct buf *out)
{
	unsigned text;

	elf_writer_init(w, target, ET_DYN);
	w->entry = 0x1234;
	elf_writer_build_id(w, bytes_of(id20, 20));
	text = elf_writer_section(w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of("code", 4));
	elf_writer_at(w, text)->addr = 0x1000;
	elf_writer_at(w, text)->align = 16;
	elf_writer_at(w, text)->entsize = 7;
	elf_writer_segment(w, PT_LOAD, PF_R | PF_X, text);
	elf_writer_nobits(w, ".bss", SHF_ALLOC | SHF_WRITE, UINT32_MAX);
	elf_writer_finish(w, out);
}

static void header_and_tables_of_every_target(void **state)
{
	for (int target = 0; target < ELF_WRITER_N_TARGETS; target++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		const struct elf_section *text, *bss;
		struct err err = { 0 };

		make_usual(&w, target, &file);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		assert_int_equal(img->h.is64, w.is64);
		assert_int_equal(img->h.big, w.big);
		assert_int_equal(img->h.type, ET_DYN);
		assert_int_equal(img->h.machine, w.machine);
		assert_int_equal(img->h.entry, 0x1234);
		assert_int_equal(img->n_sections, 5);
		assert_int_equal(img->n_segments, 2);
		assert_int_equal(img->sections_err.kind, ERR_NONE);
		text = elf_section_find(img, ".text");
		assert_non_null(text);
		assert_int_equal(text->index, 2);
		assert_int_equal(text->type, SHT_PROGBITS);
		assert_int_equal(text->flags, SHF_ALLOC | SHF_EXECINSTR);
		assert_int_equal(text->addr, 0x1000);
		assert_int_equal(text->size, 4);
		assert_int_equal(text->align, 16);
		assert_int_equal(text->entsize, 7);
		assert_int_equal(text->off, elf_writer_at(&w, 2)->off);
		bss = elf_section_find(img, ".bss");
		assert_int_equal(bss->size, UINT32_MAX);
		assert_null(elf_section_find(img, ".tex"));
		assert_null(elf_section_find(img, ""));
		assert_int_equal(img->segments[0].type, PT_NOTE);
		assert_int_equal(img->segments[1].type, PT_LOAD);
		assert_int_equal(img->segments[1].flags, PF_R | PF_X);
		assert_int_equal(img->segments[1].vaddr, 0x1000);
		assert_int_equal(img->segments[1].off, text->off);
		assert_int_equal(img->segments[1].filesz, 4);
	}
}

static void a_usual_file_takes_two_reads(void **state)
{
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *mem = NULL;
	AUTO(source_closep) struct source *src = NULL;
	struct elf_facts f;
	struct err err = { 0 };

	elf_writer_program(&file, ET_DYN, "0102030405060708", 100000);
	mem = source_of_mem(buf_bytes(&file), "x");
	src = fault_source_new(mem, false);
	assert_done(elf_facts_read(src, &f, &err));
	assert_int_equal(f.build_id.size, 8);
	assert_int_equal(fault_reads(src), 2);
	assert_true(fault_bytes(src) < 10000);
}

static void other_files_are_not_elf(void **state)
{
	static const char *const files[] = { "", "\x7f",
					     "\x7f"
					     "EL",
					     "#!/bin/sh\n",
					     "\x7f"
					     "ELG" };
	struct elf_image *img = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		AUTO(source_closep)
		struct source *src = source_of_mem(bytes_of(files[i], strlen(files[i])), "x");

		assert_int_equal(elf_open(src, &img, &err), ELF_NOT_ELF);
	}
	assert_null(img);
}

static void damaged_idents(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		const char *text;
	} cases[] = { { EI_CLASS, 0, "class 0" },
		      { EI_CLASS, 3, "class 3" },
		      { EI_DATA, 0, "encoding 0" },
		      { EI_DATA, 7, "encoding 7" } };
	AUTO(buf_done) struct buf file = { 0 };
	struct elf_image *img = NULL;
	struct err err = { 0 };

	elf_writer_program(&file, ET_DYN, "0102", 100);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(&file), "x");
		uint8_t was = file.p[cases[i].at];

		file.p[cases[i].at] = cases[i].value;
		assert_fails(elf_open(src, &img, &err), ERR_INVALID, cases[i].text);
		file.p[cases[i].at] = was;
	}
}

static void extended_numbering(void **state)
{
	for (int target = 0; target < ELF_WRITER_N_TARGETS; target++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		struct err err = { 0 };

		elf_writer_init(&w, target, ET_DYN);
		w.extended = true;
		elf_writer_build_id(&w, bytes_of(id20, 20));
		elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4));
		elf_writer_finish(&w, &file);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		assert_int_equal(img->n_sections, 4);
		assert_int_equal(img->n_segments, 1);
		assert_int_equal(img->h.names_index, 3);
		assert_non_null(elf_section_find(img, ".text"));
	}
}

static void more_sections_than_the_header_can_count(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *mem = NULL;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	char name[32];

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	for (int i = 1; i < 66000; i++) {
		snprintf(name, sizeof(name), ".text.f%d", i);
		elf_writer_section(&w, name, SHT_PROGBITS, SHF_ALLOC, bytes_of("x", 1));
	}
	elf_writer_finish(&w, &file);
	mem = source_of_mem(buf_bytes(&file), "x");
	src = fault_source_new(mem, false); /* not lent as memory */
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->n_sections, 66001);
	assert_int_equal(img->h.names_index, 66000);
	assert_int_equal(elf_section_find(img, ".text.f65999")->index, 65999);
}

static void more_segments_than_the_header_can_count(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_CORE);
	for (int i = 0; i < 65535; i++)
		elf_writer_segment_at(&w, elf_writer_segment(&w, PT_LOAD, PF_R, 0))->vaddr = (uint64_t)i
											     << 12;
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->n_segments, 65535);
	assert_int_equal(img->segments[65534].vaddr, (uint64_t)65534 << 12);
}

static void set(struct buf *file, size_t at, unsigned size, uint64_t v)
{
	for (unsigned i = 0; i < size; i++)
		file->p[at + i] = (uint8_t)(v >> 8 * i);
}

/* Offsets in the 64-bit little-endian header, and in a section header. */
enum {
	E_PHOFF = 32,
	E_SHOFF = 40,
	E_PHENTSIZE = 54,
	E_PHNUM = 56,
	E_SHENTSIZE = 58,
	E_SHNUM = 60,
	E_SHSTRNDX = 62
};
enum { SH_NAME = 0, SH_TYPE = 4, SH_OFFSET = 24, SH_SIZE = 32, SH_LINK = 40, SH_INFO = 44 };

static void a_bad_section_table_leaves_the_segments(void **state)
{
	static const struct {
		size_t at;
		unsigned size;
		uint64_t value;
		const char *text;
	} cases[] = {
		{ E_SHOFF, 8, 1 << 30, "ends past the file" },
		{ E_SHOFF, 8, UINT64_MAX, "ends past the file" },
		{ E_SHOFF, 8, UINT64_MAX - 63, "ends past the file" },
		{ E_SHNUM, 2, 0xfeff, "ends past the file" },
		{ E_SHNUM, 2, 6, "ends past the file" },
		{ E_SHENTSIZE, 2, 63, "too small" },
		{ E_SHENTSIZE, 2, 0, "too small" },
		{ E_SHENTSIZE, 2, 0xffff, "ends past the file" },
		{ E_SHSTRNDX, 2, 5, "section 5 of 5" },
		{ E_SHSTRNDX, 2, 0xfffe, "section 65534 of 5" },
		{ E_SHSTRNDX, 2, 3, "are not in the file" }, /* .bss */
	};
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf good = { 0 };

	make_usual(&w, ELF_WRITER_X86_64, &good);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;
		AUTO(elf_closep) struct elf_image *img = NULL;
		struct build_id id;
		struct err err = { 0 };

		buf_add(&file, good.p, good.size);
		set(&file, cases[i].at, cases[i].size, cases[i].value);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_done(elf_open(src, &img, &err));
		assert_int_equal(img->n_sections, 0);
		assert_null(img->sections);
		assert_int_not_equal(img->sections_err.kind, ERR_NONE);
		if (!strstr(img->sections_err.text, cases[i].text))
			fail_msg("\"%s\" is not \"%s\"", img->sections_err.text, cases[i].text);
		assert_int_equal(img->n_segments, 2);
		assert_done(elf_build_id(img, &id, &err));
		assert_int_equal(id.size, 20);
	}
}

/* A file whose end was never written: after a crash, or of a transfer that allocated the file first. */
static void a_section_table_of_zeros_is_damaged(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	uint64_t shoff;

	make_usual(&w, ELF_WRITER_X86_64, &file);
	memcpy(&shoff, file.p + E_SHOFF, sizeof(shoff));
	memset(file.p + shoff, 0, file.size - shoff);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->n_sections, 0);
	assert_int_equal(img->sections_err.kind, ERR_INVALID);
	assert_non_null(strstr(img->sections_err.text, "which is empty"));
}

static void a_wrong_number_of_sections_in_section_zero(void **state)
{
	static const uint64_t numbers[] = { 6, ELF_MAX_SECTIONS + 1, UINT32_MAX, UINT64_MAX,
					    (uint64_t)1 << 32 };
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	struct err err = { 0 };

	make_usual(&w, ELF_WRITER_X86_64, &file);
	set(&file, E_SHNUM, 2, 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(&file), "x");
		AUTO(elf_closep) struct elf_image *img = NULL;

		set(&file, (size_t)w.shoff + SH_SIZE, 8, numbers[i]);
		assert_done(elf_open(src, &img, &err));
		assert_int_equal(img->n_sections, 0);
		assert_int_not_equal(img->sections_err.kind, ERR_NONE);
	}
}

static void a_bad_program_header_table_is_an_error(void **state)
{
	static const struct {
		size_t at;
		unsigned size;
		uint64_t value;
		const char *text;
	} cases[] = {
		{ E_PHOFF, 8, UINT64_MAX - 10, "end past the file" },
		{ E_PHNUM, 2, 0xfffe, "end past the file" },
		{ E_PHENTSIZE, 2, 55, "too small" },
		{ E_PHENTSIZE, 2, 0xfff0, "end past the file" },
	};
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf good = { 0 };
	struct elf_image *img = NULL;
	struct err err = { 0 };

	make_usual(&w, ELF_WRITER_X86_64, &good);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(buf_done) struct buf file = { 0 };
		AUTO(source_closep) struct source *src = NULL;

		buf_add(&file, good.p, good.size);
		set(&file, cases[i].at, cases[i].size, cases[i].value);
		src = source_of_mem(buf_bytes(&file), "x");
		assert_fails(elf_open(src, &img, &err), ERR_INVALID, cases[i].text);
	}
	/* The number is in a section 0 that is not in the file; or it is over the limit. */
	set(&good, E_PHNUM, 2, PN_XNUM);
	set(&good, (size_t)w.shoff + SH_INFO, 4, UINT32_MAX);
	{
		AUTO(source_closep) struct source *src = source_of_mem(buf_bytes(&good), "x");

		assert_fails(elf_open(src, &img, &err), ERR_LIMIT, "segments are more");
		set(&good, E_SHOFF, 8, good.size);
		assert_fails(elf_open(src, &img, &err), ERR_INVALID, "section header 0");
	}
}

static void larger_table_entries_are_stepped_over(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	size_t shoff;

	make_usual(&w, ELF_WRITER_X86_64, &file);
	/* The same table again, with 80 bytes an entry. */
	shoff = file.size;
	for (int i = 0; i < 5; i++) {
		buf_reserve(&file, 80);
		buf_add(&file, file.p + w.shoff + i * 64, 64);
		buf_add(&file, "0123456789abcdef", 16);
	}
	set(&file, E_SHOFF, 8, shoff);
	set(&file, E_SHENTSIZE, 2, 80);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->n_sections, 5);
	assert_non_null(elf_section_find(img, ".bss"));
}

static void name_offsets_outside_of_the_table_give_no_name(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	make_usual(&w, ELF_WRITER_X86_64, &file);
	set(&file, (size_t)w.shoff + 2 * 64 + SH_NAME, 4, UINT32_MAX);
	set(&file, (size_t)w.shoff + 3 * 64 + SH_NAME, 4, 2); /* within another name */
	/* The last name without its NUL. */
	set(&file, (size_t)w.shoff + 4 * 64 + SH_SIZE, 8, elf_writer_at(&w, 4)->size - 1);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->sections[2].name.size, 0);
	assert_str(img->sections[3].name, "note.gnu.build-id");
	assert_str(img->sections[4].name, ".shstrtab");
}

static void names_that_overlap_without_end_are_refused(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 }, names = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };
	unsigned strtab;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	memset(buf_reserve(&names, 1 << 20), 'n', 1 << 20);
	names.size = 1 << 20;
	strtab = elf_writer_section(&w, "a", SHT_STRTAB, 0, buf_bytes(&names));
	for (int i = 0; i < 100; i++)
		elf_writer_section(&w, "b", SHT_PROGBITS, 0, bytes_of("x", 1));
	elf_writer_finish(&w, &file);
	set(&file, E_SHSTRNDX, 2, strtab);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->sections_err.kind, ERR_LIMIT);
	assert_int_equal(img->n_sections, 0);
}

static void gigantic_names_are_a_limit(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *mem = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	make_usual(&w, ELF_WRITER_X86_64, &file);
	set(&file, (size_t)w.shoff + 4 * 64 + SH_OFFSET, 8, 0);
	set(&file, (size_t)w.shoff + 4 * 64 + SH_SIZE, 8, ELF_MAX_NAMES_SIZE + 1);
	/* A large file of which only a few bytes are requested. */
	mem = source_sparse_new(MIB(100), "x");
	source_sparse_add(mem, 0, file.p, file.size);
	source_sparse_add(mem, file.size, (const uint8_t[KIB(4)]){ 0 }, KIB(4));
	assert_done(elf_open(mem, &img, &err));
	assert_int_equal(img->sections_err.kind, ERR_LIMIT);
	assert_non_null(strstr(img->sections_err.text, "section names"));
}

static void a_file_without_sections(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct build_id id;
	struct err err = { 0 };

	elf_writer_init(&w, ELF_WRITER_S390X, ET_EXEC);
	w.no_sections = true;
	elf_writer_build_id(&w, bytes_of(id20, 20));
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	assert_done(elf_open(src, &img, &err));
	assert_int_equal(img->n_sections, 0);
	assert_int_equal(img->sections_err.kind, ERR_NONE);
	assert_done(elf_build_id(img, &id, &err));
}

/* Call every function of an image; nothing may crash, whatever the result. */
static void ask_everything(struct source *src)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id id;
	struct elf_facts f;
	struct err err = { 0 };
	struct bytes b;
	struct str s;
	uint32_t crc;

	elf_facts_read(src, &f, &err);
	if (elf_open(src, &img, &err))
		return;
	elf_build_id(img, &id, &err);
	elf_go_build_id(img, &a, &s, &err);
	elf_debug_link(img, &a, &s, &crc, &err);
	elf_alt_link(img, &a, &s, &id, &err);
	for (uint32_t i = 0; i < img->n_sections; i++)
		elf_section_read(img, &img->sections[i], MIB(1), &a, &b, &err);
}

static void truncated_at_any_byte(void **state)
{
	for (int target = 0; target < ELF_WRITER_N_TARGETS; target++) {
		AUTO(elf_writer_done) struct elf_writer w = { 0 };
		AUTO(buf_done) struct buf file = { 0 };
		struct err err = { 0 };

		elf_writer_init(&w, target, ET_DYN);
		elf_writer_build_id(&w, bytes_of(id20, 20));
		elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("code", 4));
		elf_writer_compressed(&w, ".debug_info", ELFCOMPRESS_ZLIB, bytes_of(id20, 20));
		elf_writer_compressed(&w, ".debug_str", ELFCOMPRESS_ZSTD, bytes_of(id20, 20));
		elf_writer_compressed(&w, ".debug_line", 0, bytes_of(id20, 20));
		elf_writer_debug_link(&w, "x.debug", 7);
		elf_writer_alt_link(&w, "x.dwz", bytes_of(id20, 20));
		elf_writer_debug_sup(&w, false, "x.dwz", bytes_of(id20, 20));
		elf_writer_finish(&w, &file);
		for (size_t n = 0; n < file.size; n++) {
			/* On the heap without slack, so that an overread by one byte is noticed. */
			uint8_t *cut = malloc(n ? n : 1);
			AUTO(source_closep) struct source *src = source_of_heap(cut, n, "x");
			struct elf_facts f = { 0 };
			int r;

			memcpy(cut, file.p, n);
			ask_everything(src);
			r = elf_facts_read(src, &f, &err);
			if (n < 4)
				assert_int_equal(r, ELF_NOT_ELF);
			else
				assert_true(r < 0);
		}
	}
}

static void any_byte_may_be_damaged(void **state)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *src = NULL;

	elf_writer_init(&w, ELF_WRITER_AARCH64, ET_DYN);
	elf_writer_build_id(&w, bytes_of(id20, 20));
	elf_writer_compressed(&w, ".debug_info", ELFCOMPRESS_ZLIB, bytes_of(id20, 20));
	elf_writer_compressed(&w, ".debug_line", 0, bytes_of(id20, 20));
	elf_writer_alt_link(&w, "x.dwz", bytes_of(id20, 20));
	elf_writer_finish(&w, &file);
	src = source_of_mem(buf_bytes(&file), "x");
	for (size_t i = 0; i < file.size; i++)
		for (size_t k = 0; k < ARRAY_SIZE(masks); k++) {
			file.p[i] ^= masks[k];
			ask_everything(src);
			file.p[i] ^= masks[k];
		}
}

static void a_read_error_is_never_taken_for_a_property_of_the_file(void **state)
{
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	AUTO(buf_done) struct buf file = { 0 };
	AUTO(source_closep) struct source *mem = NULL;
	AUTO(source_closep) struct source *src = NULL;
	struct elf_facts f;
	struct err err = { 0 };
	unsigned n = 0;
	int r;

	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	/* Far apart, so that each needs its own read. */
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC, bytes_of("", 0));
	{
		AUTO(mem_freep) char *much = mem_zalloc(20000);

		elf_writer_section(&w, ".data", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 20000));
		elf_writer_build_id(&w, bytes_of(id20, 20));
		elf_writer_debug_sup(&w, true, "", bytes_of(id20, 20));
		elf_writer_section(&w, ".more", SHT_PROGBITS, SHF_ALLOC, bytes_of(much, 20000));
	}
	w.gap = 20000;
	elf_writer_finish(&w, &file);
	mem = source_of_mem(buf_bytes(&file), "x");
	src = fault_source_new(mem, false);
	for (;; n++) {
		fault_clear(src);
		fault_fail_at(src, n);
		r = elf_facts_read(src, &f, &err);
		if (r == 0)
			break;
		assert_int_equal(r, -1);
		assert_int_equal(err.kind, ERR_IO);
	}
	assert_true(n >= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_and_tables_of_every_target),
		cmocka_unit_test(a_usual_file_takes_two_reads),
		cmocka_unit_test(other_files_are_not_elf),
		cmocka_unit_test(damaged_idents),
		cmocka_unit_test(extended_numbering),
		cmocka_unit_test(more_sections_than_the_header_can_count),
		cmocka_unit_test(more_segments_than_the_header_can_count),
		cmocka_unit_test(a_bad_section_table_leaves_the_segments),
		cmocka_unit_test(a_section_table_of_zeros_is_damaged),
		cmocka_unit_test(a_wrong_number_of_sections_in_section_zero),
		cmocka_unit_test(a_bad_program_header_table_is_an_error),
		cmocka_unit_test(larger_table_entries_are_stepped_over),
		cmocka_unit_test(name_offsets_outside_of_the_table_give_no_name),
		cmocka_unit_test(names_that_overlap_without_end_are_refused),
		cmocka_unit_test(gigantic_names_are_a_limit),
		cmocka_unit_test(a_file_without_sections),
		cmocka_unit_test(truncated_at_any_byte),
		cmocka_unit_test(any_byte_may_be_damaged),
		cmocka_unit_test(a_read_error_is_never_taken_for_a_property_of_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
