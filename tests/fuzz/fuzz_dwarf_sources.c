/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source names of a debug file. The input is its debug sections: a byte for the target, a byte of flags,
 * then for each of the sections below its size (2 bytes, little endian) and its bytes; the remaining bytes
 * are the last section. They are put into an ELF file, as they are and compressed: the names must be the
 * same, canonical, reported once each, and all in the set.
 */
#include "elf_writer.h"
#include "fault_source.h"
#include "fuzz.h"

#include <string.h>
#include "dwarf/dwarf.h"

enum { REL = 1, DWO = 2, ALT = 4, ZSTD = 8 };

static const char *const names[] = {
	".debug_line", ".debug_info",        ".debug_abbrev",    ".debug_str",       ".debug_line_str",
	".symtab",     ".debug_str_offsets", ".rela.debug_line", ".rela.debug_info", ".alt",
};
enum { SYMTAB = 5, RELA_LINE = 7, RELA_INFO = 8, SUP_STR = 9, N_SECTIONS };

struct parts {
	enum elf_writer_target target;
	unsigned flags;
	struct bytes sections[N_SECTIONS];
};

static void parts_read(struct bytes input, struct parts *ret)
{
	struct cursor c = cursor_of(input);

	ret->target = cursor_u8(&c) % ELF_WRITER_N_TARGETS;
	ret->flags = cursor_u8(&c);
	for (unsigned i = 0; i < N_SECTIONS; i++) {
		size_t n = i + 1 < N_SECTIONS ? cursor_u16(&c) : cursor_left(&c);

		ret->sections[i] = cursor_bytes(&c, MIN(n, cursor_left(&c)));
	}
}

static void add_relocations(struct elf_writer *w, const struct parts *p, unsigned which, unsigned to,
			    unsigned symtab)
{
	bool rel = w->machine == EM_386 || w->machine == EM_ARM;
	unsigned at;

	if (!p->sections[which].size || !to)
		return;
	at = elf_writer_section(w, rel ? ".rel" : ".rela", rel ? SHT_REL : SHT_RELA, 0, p->sections[which]);
	elf_writer_at(w, at)->link = symtab;
	elf_writer_at(w, at)->info = to;
}

static void file_make(const struct parts *p, bool compressed, struct buf *ret)
{
	unsigned at[N_SECTIONS] = { 0 };
	struct elf_writer w;

	elf_writer_init(&w, p->target, p->flags & REL ? ET_REL : ET_DYN);
	for (unsigned i = 0; i < RELA_LINE; i++) {
		AUTO(mem_freep)
		char *name = mem_printf("%s%s", names[i], p->flags & DWO && i != SYMTAB ? ".dwo" : "");

		if (!p->sections[i].size)
			continue;
		if (i == SYMTAB)
			at[i] = elf_writer_section(&w, name, SHT_SYMTAB, 0, p->sections[i]);
		else if (compressed)
			at[i] = elf_writer_compressed(&w, name,
						      p->flags & ZSTD ? ELFCOMPRESS_ZSTD : ELFCOMPRESS_ZLIB,
						      p->sections[i]);
		else
			at[i] = elf_writer_section(&w, name, SHT_PROGBITS, 0, p->sections[i]);
	}
	add_relocations(&w, p, RELA_LINE, at[0], at[SYMTAB]);
	add_relocations(&w, p, RELA_INFO, at[1], at[SYMTAB]);
	elf_writer_finish(&w, ret);
	elf_writer_done(&w);
}

/* The supplementary file, which has only strings. */
static void alt_make(const struct parts *p, struct buf *ret)
{
	struct elf_writer w;

	elf_writer_init(&w, p->target, ET_DYN);
	elf_writer_section(&w, ".debug_str", SHT_PROGBITS, 0, p->sections[SUP_STR]);
	elf_writer_finish(&w, ret);
	elf_writer_done(&w);
}

struct found {
	struct buf names; /* each followed by a NUL */
	size_t n;
	struct dwarf_sources_note note;
};

static int take(void *arg, struct str name)
{
	struct found *f = arg;
	char *again = mem_alloc(name.size + 2);

	FUZZ_CHECK(name.size && name.size <= DWARF_MAX_NAME && !memchr(name.p, 0, name.size));
	FUZZ_CHECK(path_canonical(name, again) == name.size && memcmp(again, name.p, name.size) == 0);
	free(again);
	buf_add_str(&f->names, name);
	buf_add_char(&f->names, '\0');
	f->n++;
	return 0;
}

static int stop_at_second(void *arg, struct str name)
{
	unsigned *n = arg;

	return ++*n == 2 ? 77 : 0;
}

static void check_set(const struct elf_image *img, const struct elf_image *alt, const struct found *f)
{
	struct dwarf_sources *s;
	struct err err = { 0 };
	const char *at = (const char *)f->names.p;

	FUZZ_CHECK(dwarf_sources_build(img, alt, &s, &err) == 0);
	FUZZ_CHECK(dwarf_sources_n(s) == f->n);
	FUZZ_CHECK(dwarf_sources_note(s)->n_units_skipped == f->note.n_units_skipped);
	for (size_t i = 0; i < f->n; i++) {
		FUZZ_CHECK(dwarf_sources_has(s, str_of(at)));
		at += strlen(at) + 1;
	}
	FUZZ_CHECK(!dwarf_sources_has(s, STR("/not//canonical")));
	dwarf_sources_free(s);
}

static void check_file(struct bytes file, const struct elf_image *alt, bool whole, struct found *ret)
{
	struct source *src = source_of_mem(file, "x");
	struct elf_image *img;
	struct err err = { 0 };
	unsigned n = 0;
	int r;

	if (!whole) {
		src = fault_source_new(src, true);
		fault_short(src, 100);
	}
	FUZZ_CHECK(elf_open(src, &img, &err) == 0 && img->sections_err.kind == ERR_NONE);
	r = dwarf_sources_each(img, alt, take, ret, &ret->note, &err);
	/* Damage in units is noted; small sections meet no limit. Without its relocations a section is not read at all. */
	FUZZ_CHECK(r == 0 || (err.kind == ERR_INVALID && strstr(err.text, "relocations")));
	FUZZ_CHECK(r < 0 || (ret->note.n_units_skipped == 0) == (ret->note.reason[0] == '\0'));
	if (r == 0 && whole) {
		check_set(img, alt, ret);
		r = dwarf_sources_each(img, alt, stop_at_second, &n, &ret->note, &err);
		FUZZ_CHECK(r == (ret->n > 1 ? 77 : 0));
	}
	elf_close(img);
	source_close(src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf plain = { 0 }, compressed = { 0 }, alt_file = { 0 };
	struct found whole = { 0 }, windows = { 0 }, decoded = { 0 };
	struct elf_image *alt = NULL;
	struct source *alt_src;
	struct err err = { 0 };
	struct parts p;

	parts_read(bytes_of(data, size), &p);
	file_make(&p, false, &plain);
	file_make(&p, true, &compressed);
	alt_make(&p, &alt_file);
	alt_src = source_of_mem(buf_bytes(&alt_file), "alt");
	if (p.flags & ALT)
		FUZZ_CHECK(elf_open(alt_src, &alt, &err) == 0);
	check_file(buf_bytes(&plain), alt, true, &whole);
	check_file(buf_bytes(&plain), alt, false, &windows);
	check_file(buf_bytes(&compressed), alt, false, &decoded);
	FUZZ_CHECK(bytes_eq(buf_bytes(&whole.names), buf_bytes(&windows.names)));
	FUZZ_CHECK(bytes_eq(buf_bytes(&whole.names), buf_bytes(&decoded.names)));
	buf_done(&whole.names);
	buf_done(&windows.names);
	buf_done(&decoded.names);
	elf_close(alt);
	source_close(alt_src);
	return 0;
}
