/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting: refused files, the content of both files, symbols and relocations, compression, and failures.
 * Compilers' output is compared with binutils in tests/differential/test_split.py.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <zlib.h>
#include "elf/split.h"
#include "elf_writer.h"
#include "fault_source.h"

static const uint8_t id20[20] = "0123456789abcdefghi";
static const char debug_text[] =
	"debug debug debug debug debug debug debug debug debug debug debug debug debug debug debug";

/* A file to split, and the two results. */
struct split {
	struct elf_writer w;
	struct buf bytes;
	struct source *src, *debug_src, *out_src;
	struct elf_image *img, *debug, *out;
	uint32_t crc;
	struct arena arena;
};

static void split_done(struct split *s)
{
	elf_close(s->img);
	elf_close(s->debug);
	elf_close(s->out);
	source_close(s->src);
	source_close(s->debug_src);
	source_close(s->out_src);
	buf_done(&s->bytes);
	elf_writer_done(&s->w);
	arena_done(&s->arena);
}

/* Text, data, bss, a build ID, two debug sections. */
static void usual(struct split *s, enum elf_writer_target target, uint16_t type)
{
	struct elf_writer *w = &s->w;
	unsigned i;

	arena_init(&s->arena);
	elf_writer_init(w, target, type);
	elf_writer_build_id(w, bytes_of(id20, 20));
	i = elf_writer_section(w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of("code code", 9));
	elf_writer_at(w, i)->addr = 0x1000;
	if (type != ET_REL)
		elf_writer_segment(w, PT_LOAD, PF_R | PF_X, i);
	i = elf_writer_section(w, ".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, bytes_of("data", 4));
	elf_writer_at(w, i)->addr = 0x2000;
	if (type != ET_REL)
		elf_writer_segment(w, PT_LOAD, PF_R | PF_W, i);
	elf_writer_nobits(w, ".bss", SHF_ALLOC | SHF_WRITE, 100);
	elf_writer_section(w, ".comment", SHT_PROGBITS, 0, bytes_of("made by hand", 13));
	elf_writer_section(w, ".debug_info", SHT_PROGBITS, 0, bytes_of(debug_text, sizeof(debug_text)));
	elf_writer_section(w, ".debug_line", SHT_PROGBITS, 0, bytes_of("l", 1));
}

static void open_input(struct split *s)
{
	struct err err = { 0 };

	s->src = source_of_mem(buf_bytes(&s->bytes), "x");
	assert_done(elf_open(s->src, &s->img, &err));
}

static void finish_input(struct split *s)
{
	elf_writer_finish(&s->w, &s->bytes);
	open_input(s);
}

static int check(struct split *s, struct err *err)
{
	bool is_signed = false;

	return elf_split_check(s->img, &is_signed, err);
}

static struct elf_image *reopen(int fd, struct source **ret)
{
	struct elf_image *img;
	struct err err = { 0 };

	*ret = source_of_fd(fd, (uint64_t)lseek(fd, 0, SEEK_END), 0, "made");
	assert_done(elf_open(*ret, &img, &err));
	assert_int_equal(img->sections_err.kind, ERR_NONE);
	return img;
}

static void make_both(struct split *s, enum elf_split_packing packing)
{
	int debug = memfd_create("debug", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	struct err err = { 0 };

	assert_done(check(s, &err));
	assert_done(elf_split_debug(s->img, debug, packing, &s->crc, &err));
	assert_done(elf_split_strip(s->img, out, "x.debug", s->crc, &err));
	s->debug = reopen(debug, &s->debug_src);
	s->out = reopen(out, &s->out_src);
}

static struct bytes all_of(struct source *src, struct arena *a)
{
	struct bytes ret;
	struct err err = { 0 };

	assert_done(source_read_arena(src, range_of(0, src->size), SIZE_MAX, a, &ret, &err));
	return ret;
}

static struct bytes content(const struct elf_image *img, const char *name, struct arena *a)
{
	const struct elf_section *sec = elf_section_find(img, name);
	struct bytes ret;
	struct err err = { 0 };

	assert_non_null(sec);
	assert_done(elf_section_read(img, sec, MIB(1), a, &ret, &err));
	return ret;
}

/* ---- refused files ---- */

static void refused(struct split *s, const char *text)
{
	struct err err = { 0 };

	finish_input(s);
	assert_fails(check(s, &err), ERR_INVALID, text);
	split_done(s);
	*s = (struct split){ 0 };
}

static void unsplittable_files_are_refused_with_the_reason(void **state)
{
	struct split s = { 0 };
	struct elf_writer_section *sec;

	usual(&s, ELF_WRITER_X86_64, ET_CORE);
	refused(&s, "a core dump");
	usual(&s, ELF_WRITER_X86_64, 0x1234);
	refused(&s, "unknown type 4660");
	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_section(&s.w, ".symtab", SHT_SYMTAB, 0, bytes_of("", 0));
	elf_writer_section(&s.w, ".symtab2", SHT_SYMTAB, 0, bytes_of("", 0));
	refused(&s, "2 symbol tables");
	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_at(&s.w, 2)->link = 77;
	refused(&s, "section 2 links to section 77");
	usual(&s, ELF_WRITER_X86_64, ET_REL);
	elf_writer_section(&s.w, ".zdebug_x", SHT_STRTAB, 0, bytes_of("ZLIB", 4));
	refused(&s, "is compressed, or named as a debug section");
	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	sec = elf_writer_at(&s.w, 2);
	sec->size = 1 << 30;
	refused(&s, "");
	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	*elf_writer_segment_at(&s.w, elf_writer_segment(&s.w, PT_LOAD, PF_R, 0)) =
		(struct elf_writer_segment){ .type = PT_LOAD, .off = 1 << 30, .filesz = 5 };
	refused(&s, "ends past the file");
}

static void nothing_to_split_is_an_outcome(void **state)
{
	AUTO(split_done) struct split s = { 0 }, debug = { 0 };
	struct err err = { 0 };

	arena_init(&s.arena);
	elf_writer_program(&s.bytes, ET_DYN, "abcd", 1000);
	open_input(&s);
	assert_int_equal(check(&s, &err), ELF_NOTHING_TO_SPLIT);
	/* A debug file is refused: nothing would be left. */
	arena_init(&debug.arena);
	elf_writer_debug_file(&debug.bytes, ET_DYN, "abcd", 1000);
	open_input(&debug);
	assert_fails(check(&debug, &err), ERR_INVALID, "a debug file, without a program");
}

/* ---- bytes after the end ---- */

static void add_signature(struct buf *b, uint32_t said, size_t n)
{
	const uint8_t info[12] = { 0,
				   0,
				   2,
				   0,
				   0,
				   0,
				   0,
				   0,
				   (uint8_t)(said >> 24),
				   (uint8_t)(said >> 16),
				   (uint8_t)(said >> 8),
				   (uint8_t)said };

	for (size_t i = 0; i < n; i++)
		buf_add_char(b, 's');
	buf_add(b, info, sizeof(info));
	buf_add_str(b, STR("~Module signature appended~\n"));
}

static void padding_is_dropped_and_anything_else_is_refused(void **state)
{
	static const struct {
		size_t n;
		char what;
		bool fails;
	} cases[] = { { 1, 0, false },    { 4096, 0, false }, { 65536, 0, false },
		      { 65537, 0, true }, { 1, 'x', true },   { 5000, 'x', true } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(split_done) struct split s = { 0 };
		struct err err = { 0 };

		usual(&s, ELF_WRITER_X86_64, ET_DYN);
		elf_writer_finish(&s.w, &s.bytes);
		for (size_t k = 0; k < cases[i].n; k++)
			buf_add_char(&s.bytes, cases[i].what);
		open_input(&s);
		if (cases[i].fails)
			assert_fails(check(&s, &err), ERR_INVALID,
				     "bytes after the end of the ELF file would be lost");
		else
			make_both(&s, ELF_SPLIT_AS_THEY_ARE);
	}
}

static void a_signed_module_is_reported_and_loses_its_signature(void **state)
{
	static const struct {
		uint16_t type;
		uint32_t said;
		size_t n, zeros;
		bool fails;
	} cases[] = {
		{ ET_REL, 700, 700, 0, false },       { ET_REL, 700, 700, 3, false },
		{ ET_REL, 700, 699, 0, true },        { ET_REL, 0, 0, 0, false },
		{ ET_REL, UINT32_MAX, 700, 0, true }, { ET_DYN, 700, 700, 0, true },
		{ ET_REL, 10, 700, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(split_done) struct split s = { 0 };
		struct err err = { 0 };
		bool is_signed = false;

		usual(&s, ELF_WRITER_X86_64, cases[i].type);
		elf_writer_finish(&s.w, &s.bytes);
		for (size_t k = 0; k < cases[i].zeros; k++)
			buf_add_char(&s.bytes, 0);
		add_signature(&s.bytes, cases[i].said, cases[i].n);
		open_input(&s);
		if (cases[i].fails) {
			assert_fails(check(&s, &err), ERR_INVALID,
				     "bytes after the end of the ELF file would be lost");
			continue;
		}
		assert_done(elf_split_check(s.img, &is_signed, &err));
		assert_true(is_signed);
		make_both(&s, ELF_SPLIT_AS_THEY_ARE);
		assert_null(memmem(all_of(s.out_src, &s.arena).p, s.out_src->size, "~Module", 7));
	}
}

/* ---- both files ---- */

static void both_files_have_their_sections(void **state)
{
	for (enum elf_writer_target target = 0; target < ELF_WRITER_N_TARGETS; target++)
		for (uint16_t type = ET_REL; type <= ET_DYN; type++) {
			AUTO(split_done) struct split s = { 0 };
			struct err err = { 0 };
			struct build_id id;
			struct bytes whole;
			struct str name;
			uint32_t crc;

			usual(&s, target, type);
			finish_input(&s);
			make_both(&s, ELF_SPLIT_AS_THEY_ARE);
			/* The debug file: each section under its number, loaded ones without bytes. */
			assert_int_equal(s.debug->n_sections, s.img->n_sections);
			for (uint32_t i = 1; i < s.img->n_sections; i++) {
				const struct elf_section *a = &s.img->sections[i], *b = &s.debug->sections[i];

				assert_true(str_eq(a->name, b->name));
				assert_true(a->addr == b->addr && a->size == b->size);
				if ((a->flags & SHF_ALLOC) && a->type != SHT_NOTE)
					assert_int_equal(b->type, SHT_NOBITS);
			}
			assert_true(bytes_eq(content(s.debug, ".debug_info", &s.arena),
					     bytes_of(debug_text, sizeof(debug_text))));
			assert_done(elf_build_id(s.debug, &id, &err));
			assert_true(bytes_eq(build_id_bytes(&id), bytes_of(id20, 20)));
			/* The stripped file: no debug sections, a link with the debug file's CRC, all else as
			 * before. */
			assert_null(elf_section_find(s.out, ".debug_info"));
			assert_null(elf_section_find(s.out, ".debug_line"));
			assert_true(bytes_eq(content(s.out, ".text", &s.arena), bytes_of("code code", 9)));
			assert_true(
				bytes_eq(content(s.out, ".comment", &s.arena), bytes_of("made by hand", 13)));
			assert_int_equal(elf_section_find(s.out, ".bss")->size, 100);
			assert_done(elf_debug_link(s.out, &s.arena, &name, &crc, &err));
			assert_str(name, "x.debug");
			whole = all_of(s.debug_src, &s.arena);
			assert_int_equal(crc, crc32(0, whole.p, (uInt)whole.size));
			assert_int_equal(crc, s.crc);
			assert_done(elf_build_id(s.out, &id, &err));
			assert_true(bytes_eq(build_id_bytes(&id), bytes_of(id20, 20)));
			if (type != ET_REL)
				assert_int_equal(elf_section_find(s.out, ".text")->off,
						 elf_section_find(s.img, ".text")->off);
			/* The stripped file has nothing more to split, and the debug file is refused. */
			assert_int_equal(elf_split_check(s.out, &(bool){ false }, &err),
					 ELF_NOTHING_TO_SPLIT);
			assert_fails(elf_split_check(s.debug, &(bool){ false }, &err), ERR_INVALID,
				     "a debug file, without a program");
		}
}

static void check_id(const struct elf_image *img, struct bytes want)
{
	struct build_id id;
	struct err err = { 0 };

	assert_done(elf_build_id(img, &id, &err));
	assert_true(bytes_eq(build_id_bytes(&id), want));
}

/* As of a linker script that puts the notes into another section. */
static void a_build_id_in_a_segment_alone_is_in_both_files(void **state)
{
	static const char go[] =
		"F0oBaRbAz0123456789A/F0oBaRbAz0123456789A/F0oBaRbAz0123456789A/F0oBaRbAz0123456789A";

	for (unsigned i = 0; i < 2 * ELF_WRITER_N_TARGETS; i++) {
		AUTO(split_done) struct split s = { 0 };
		struct bytes id = i % 2 ? bytes_of(go, sizeof(go) - 1) : bytes_of(id20, 19);
		const struct elf_section *note;
		struct elf_writer_section *sec;

		usual(&s, i / 2, ET_DYN);
		sec = elf_writer_at(&s.w, 1);
		sec->type = SHT_PROGBITS;
		sec->data.size = 0;
		elf_writer_note(&s.w, &sec->data, 4, 1, "other", bytes_of("\1\0\0\0", 4));
		elf_writer_note(&s.w, &sec->data, 4, i % 2 ? 4 : 3, i % 2 ? "Go" : "GNU", id);
		sec->size = sec->data.size;
		finish_input(&s);
		check_id(s.img, id);
		make_both(&s, ELF_SPLIT_ZLIB);
		check_id(s.out, id);
		check_id(s.debug, id);
		assert_int_equal(s.debug->n_sections, s.img->n_sections + 1);
		note = &s.debug->sections[s.img->n_sections];
		assert_int_equal(note->type, SHT_NOTE);
		assert_str(note->name, ".note.gnu.build-id");
		assert_int_equal(s.debug->sections[1].type, SHT_NOBITS);
	}
}

static void compressed_sections_decode_to_the_same(void **state)
{
	static const enum elf_split_packing packings[] = { ELF_SPLIT_AS_THEY_ARE, ELF_SPLIT_UNPACKED,
							   ELF_SPLIT_ZLIB, ELF_SPLIT_ZSTD };
	static const uint32_t kinds[] = { UINT32_MAX, 0, ELFCOMPRESS_ZLIB,
					  ELFCOMPRESS_ZSTD }; /* compression in the original */
	AUTO(buf_done) struct buf text = { 0 };

	for (unsigned i = 0; i < 1000; i++)
		buf_printf(&text, "line %u of a text that packs well\n", i % 7);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		for (size_t p = 0; p < ARRAY_SIZE(packings); p++) {
			AUTO(split_done) struct split s = { 0 };
			const struct elf_section *sec;

			usual(&s, ELF_WRITER_X86_64, ET_DYN);
			if (kinds[k] == UINT32_MAX)
				elf_writer_section(&s.w, ".debug_str", SHT_PROGBITS, 0, buf_bytes(&text));
			else
				elf_writer_compressed(&s.w, ".debug_str", kinds[k], buf_bytes(&text));
			finish_input(&s);
			make_both(&s, packings[p]);
			sec = elf_debug_section(s.debug, ".debug_str");
			assert_non_null(sec);
			if (packings[p] == ELF_SPLIT_UNPACKED)
				assert_true(!(sec->flags & SHF_COMPRESSED) && sec->size == text.size);
			if (packings[p] == ELF_SPLIT_ZLIB || packings[p] == ELF_SPLIT_ZSTD)
				assert_true((sec->flags & SHF_COMPRESSED) && sec->size < text.size / 10);
			{
				struct err err = { 0 };
				struct bytes got;

				assert_done(elf_section_read(s.debug, sec, MIB(1), &s.arena, &got, &err));
				assert_true(bytes_eq(got, buf_bytes(&text)));
			}
			/* A content of one byte would become larger. */
			assert_false(elf_section_find(s.debug, ".debug_line")->flags & SHF_COMPRESSED);
		}
}

/* ---- symbols ---- */

struct symbol {
	const char *name;
	unsigned type, bind;
	const char *section; /* NULL: undefined */
	bool stays;
};

static unsigned index_of(const struct elf_writer *w, const char *name)
{
	for (size_t i = 1; name && i < w->n_sections; i++)
		if (strcmp(w->sections[i].name, name) == 0)
			return (unsigned)i;
	return SHN_UNDEF;
}

static void put_symbol(const struct elf_writer *w, struct buf *b, uint32_t name, const struct symbol *y)
{
	unsigned info = y->bind << 4 | y->type, at = y->type == STT_FILE ? SHN_ABS : index_of(w, y->section);

	elf_writer_put(w, b, name, 4);
	if (!w->is64) {
		elf_writer_put(w, b, 0, 4);
		elf_writer_put(w, b, 0, 4);
	}
	elf_writer_put(w, b, info, 1);
	elf_writer_put(w, b, 0, 1);
	elf_writer_put(w, b, at, 2);
	if (w->is64) {
		elf_writer_put(w, b, 0, 8);
		elf_writer_put(w, b, 0, 8);
	}
}

static void add_symbols(struct elf_writer *w, const struct symbol *list, size_t n)
{
	AUTO(buf_done) struct buf table = { 0 }, names = { 0 };
	uint32_t n_local = 1;
	unsigned symtab, strtab;

	buf_add_char(&names, 0);
	put_symbol(w, &table, 0, &(struct symbol){ 0 });
	for (size_t i = 0; i < n; i++) {
		put_symbol(w, &table, list[i].name ? (uint32_t)names.size : 0, &list[i]);
		if (list[i].name)
			buf_add(&names, list[i].name, strlen(list[i].name) + 1);
		n_local += list[i].bind == STB_LOCAL;
	}
	strtab = elf_writer_section(w, ".strtab", SHT_STRTAB, 0, buf_bytes(&names));
	symtab = elf_writer_section(w, ".symtab", SHT_SYMTAB, 0, buf_bytes(&table));
	elf_writer_at(w, symtab)->link = strtab;
	elf_writer_at(w, symtab)->info = n_local;
	elf_writer_at(w, symtab)->entsize = w->is64 ? 24 : 16;
	elf_writer_at(w, symtab)->align = 8;
}

static bool has_symbol(const struct elf_image *img, struct arena *a, const char *name)
{
	struct bytes names = content(img, ".strtab", a), table = content(img, ".symtab", a);
	size_t each = img->h.is64 ? 24 : 16;

	for (size_t i = 0; i + each <= table.size; i += each) {
		struct cursor c = cursor_at(bytes_of(table.p + i, each), img->h.big, 0);
		uint32_t off = (uint32_t)cursor_uint(&c, 4);

		assert_true(off < names.size);
		if (strcmp((const char *)names.p + off, name) == 0)
			return true;
	}
	return false;
}

static void symbols_for_debuggers_are_removed(void **state)
{
	static const struct symbol list[] = {
		{ "x.c", STT_FILE, STB_LOCAL, NULL, false },
		{ "section", STT_SECTION, STB_LOCAL, ".debug_info", false },
		{ "local", STT_FUNC, STB_LOCAL, ".text", true },
		{ "main", STT_FUNC, STB_GLOBAL, ".text", true },
		{ "weak", STT_OBJECT, STB_WEAK, ".data", true },
		{ "elsewhere", STT_NOTYPE, STB_GLOBAL, NULL, true },
	};
	static const enum elf_writer_target targets[] = { ELF_WRITER_X86_64, ELF_WRITER_I386,
							  ELF_WRITER_S390X, ELF_WRITER_PPC };

	for (size_t t = 0; t < ARRAY_SIZE(targets); t++) {
		AUTO(split_done) struct split s = { 0 };

		usual(&s, targets[t], ET_DYN);
		add_symbols(&s.w, list, ARRAY_SIZE(list));
		finish_input(&s);
		make_both(&s, ELF_SPLIT_AS_THEY_ARE);
		for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
			assert_true(has_symbol(s.debug, &s.arena, list[i].name));
			if (has_symbol(s.out, &s.arena, list[i].name) != list[i].stays)
				fail_msg("%s", list[i].name);
		}
	}
}

/*
 * Of the symbols null, x.c, local, unused section, main, elsewhere the second and fourth go, so 2, 4, 5 become 1, 2, 3.
 * LLVM 19 reads the same; tests/differential/test_split.py compares its objects.
 */
static void relocations_in_crel_are_renumbered(void **state)
{
	static const struct symbol list[] = {
		{ "x.c", STT_FILE, STB_LOCAL, NULL, false },
		{ "local", STT_FUNC, STB_LOCAL, ".text", true },
		{ "unused", STT_SECTION, STB_LOCAL, ".data", false },
		{ "main", STT_FUNC, STB_GLOBAL, ".text", true },
		{ "elsewhere", STT_NOTYPE, STB_GLOBAL, NULL, true },
	};
	/* 4 entries with addends: offset +1, symbol 5, type 2, addend -4; +1 and nothing else; +200, symbol -3 in a
	 * long form; +1, symbol +2, and bytes after the end. */
	static const char crel[] = "\x24\x0f\x05\x02\x7c\x08\xc1\x0c\xfd\x7f\x09\x02zz",
			  renumbered[] = "\x24\x0f\x03\x02\x7c\x08\xc1\x0c\x7e\x09\x01";
	AUTO(split_done) struct split s = { 0 };
	struct bytes got;
	unsigned at;

	usual(&s, ELF_WRITER_X86_64, ET_REL);
	at = elf_writer_section(&s.w, ".crel.text", ELF_SHT_CREL, 0, bytes_of(crel, sizeof(crel) - 1));
	elf_writer_at(&s.w, at)->info = index_of(&s.w, ".text");
	add_symbols(&s.w, list, ARRAY_SIZE(list));
	elf_writer_at(&s.w, at)->link = index_of(&s.w, ".symtab");
	finish_input(&s);
	make_both(&s, ELF_SPLIT_AS_THEY_ARE);
	got = content(s.out, ".crel.text", &s.arena);
	assert_int_equal(got.size, sizeof(renumbered) - 1);
	assert_memory_equal(got.p, renumbered, got.size);
	assert_str(elf_section_find(s.out, ".crel.text")->name, ".crel.text");
	assert_int_equal(elf_section_find(s.out, ".crel.text")->info,
			 elf_section_find(s.out, ".text")->index);
	assert_int_equal(content(s.debug, ".crel.text", &s.arena).size, sizeof(crel) - 1);
}

static void damaged_crel_is_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *text;
	} cases[] = {
		{ "\x0c\x01\x02\x01", 4, "a relocation by symbol 2 of 2" },
		{ "\x14\x01\x01", 3, "CREL ends early" },
		{ "\x14\x01", 2, "CREL ends early" },
		{ "\xff", 1, "CREL" },
		{ "\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 11, "CREL ends early" },
	};
	static const struct symbol local = { "local", STT_FUNC, STB_LOCAL, ".text", true };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(split_done) struct split s = { 0 };
		int out = memfd_create("out", MFD_CLOEXEC);
		struct err err = { 0 };
		unsigned at;

		usual(&s, ELF_WRITER_X86_64, ET_REL);
		at = elf_writer_section(&s.w, ".crel.text", ELF_SHT_CREL, 0,
					bytes_of(cases[i].bytes, cases[i].size));
		elf_writer_at(&s.w, at)->info = index_of(&s.w, ".text");
		add_symbols(&s.w, &local, 1);
		elf_writer_at(&s.w, at)->link = index_of(&s.w, ".symtab");
		finish_input(&s);
		assert_fails(elf_split_strip(s.img, out, "x.debug", 0, &err), ERR_INVALID, cases[i].text);
		close(out);
	}
}

/* ---- failures ---- */

static void every_failed_read_is_reported(void **state)
{
	AUTO(split_done) struct split s = { 0 };
	bool whole = false;

	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_finish(&s.w, &s.bytes);
	for (unsigned n = 0; !whole; n++) {
		AUTO(source_closep)
		struct source *src = fault_source_new(source_of_mem(buf_bytes(&s.bytes), "x"), true);
		AUTO(elf_closep) struct elf_image *img = NULL;
		AUTO(fd_close) int debug = memfd_create("debug", MFD_CLOEXEC);
		AUTO(fd_close) int out = memfd_create("out", MFD_CLOEXEC);
		struct err err = { 0 };
		bool is_signed;
		uint32_t crc;

		assert_true(n < 1000);
		fault_fail_at(src, n);
		whole = elf_open(src, &img, &err) == 0 && elf_split_check(img, &is_signed, &err) == 0 &&
			elf_split_debug(img, debug, ELF_SPLIT_ZSTD, &crc, &err) == 0 &&
			elf_split_strip(img, out, "x.debug", crc, &err) == 0;
		if (!whole)
			assert_true(err.kind == ERR_IO && strstr(err.text, "injected"));
	}
}

static void a_full_disk_is_reported(void **state)
{
	AUTO(split_done) struct split s = { 0 };
	AUTO(fd_close) int full = open("/dev/full", O_RDWR | O_CLOEXEC);
	AUTO(fd_close) int only_read = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct err err = { 0 };
	uint32_t crc;

	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	finish_input(&s);
	assert_done(check(&s, &err));
	if (full >= 0) {
		assert_fails(elf_split_debug(s.img, full, ELF_SPLIT_AS_THEY_ARE, &crc, &err), ERR_IO, "");
		assert_fails(elf_split_strip(s.img, full, "x.debug", 0, &err), ERR_IO, "");
	}
	assert_fails(elf_split_debug(s.img, only_read, ELF_SPLIT_AS_THEY_ARE, &crc, &err), ERR_IO, "");
}

/* The sections of a file of 1 MB could have 60 GB together. */
static void sections_that_share_bytes_are_refused(void **state)
{
	AUTO(split_done) struct split s = { 0 };
	struct err err = { 0 };
	unsigned first;

	usual(&s, ELF_WRITER_X86_64, ET_DYN);
	finish_input(&s);
	for (first = 1; !str_eq(s.img->sections[first].name, STR(".debug_info")); first++)
		;
	for (uint32_t i = first + 1; i < s.img->n_sections; i++) {
		struct elf_section *to = (struct elf_section *)&s.img->sections[i];

		if (to->type == SHT_PROGBITS) {
			to->off = 0;
			to->size = s.src->size;
		}
	}
	((struct elf_section *)&s.img->sections[first])->size = s.src->size - s.img->sections[first].off;
	assert_fails(check(&s, &err), ERR_INVALID, "its sections overlap");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_that_share_bytes_are_refused),
		cmocka_unit_test(unsplittable_files_are_refused_with_the_reason),
		cmocka_unit_test(nothing_to_split_is_an_outcome),
		cmocka_unit_test(padding_is_dropped_and_anything_else_is_refused),
		cmocka_unit_test(a_signed_module_is_reported_and_loses_its_signature),
		cmocka_unit_test(both_files_have_their_sections),
		cmocka_unit_test(a_build_id_in_a_segment_alone_is_in_both_files),
		cmocka_unit_test(compressed_sections_decode_to_the_same),
		cmocka_unit_test(symbols_for_debuggers_are_removed),
		cmocka_unit_test(relocations_in_crel_are_renumbered),
		cmocka_unit_test(damaged_crel_is_refused),
		cmocka_unit_test(every_failed_read_is_reported),
		cmocka_unit_test(a_full_disk_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
