/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of damaged DWARF: units, abbreviations, ranges, line programs, relocations, symbols, Go's table. The
 * input is a byte for the target, a byte of flags, then for each of the sections below its size (2 bytes,
 * little endian) and its bytes. symtab_check.h says what must hold of the table.
 */
#include "symtab_check.h"

#include <string.h>

enum { REL = 1, COMPRESSED = 2, NO_COLUMNS = 4 };

static const char *const names[] = { ".debug_info",     ".debug_abbrev",   ".debug_line",
				     ".debug_str",      ".debug_line_str", ".debug_ranges",
				     ".debug_rnglists", ".debug_addr",     ".debug_str_offsets",
				     ".symtab",         ".strtab",         ".rela.debug_info",
				     ".gopclntab" };
enum { SYMTAB = 9, STRTAB = 10, RELA = 11, GO = 12, N_SECTIONS };

static void file_make(struct cursor *c, unsigned flags, enum elf_writer_target target, struct buf *ret)
{
	unsigned at[N_SECTIONS] = { 0 }, text;
	struct elf_writer w;

	elf_writer_init(&w, target, flags & REL ? ET_REL : ET_DYN);
	text = elf_writer_nobits(&w, ".text", SHF_ALLOC | SHF_EXECINSTR, 0x1000);
	elf_writer_at(&w, text)->addr = flags & REL ? 0 : 0x1000;
	for (unsigned i = 0; i < N_SECTIONS; i++) {
		size_t n = cursor_u16(c);
		struct bytes b = cursor_bytes(c, MIN(n, cursor_left(c)));

		if (!b.size)
			continue;
		if (i == GO)
			elf_writer_section(&w, names[i], SHT_PROGBITS, SHF_ALLOC, b);
		else if (i >= SYMTAB)
			at[i] = elf_writer_section(&w, names[i],
						   i == SYMTAB   ? SHT_SYMTAB
						   : i == STRTAB ? SHT_STRTAB
								 : SHT_RELA,
						   0, b);
		else if (flags & COMPRESSED)
			at[i] = elf_writer_compressed(&w, names[i], ELFCOMPRESS_ZLIB, b);
		else
			at[i] = elf_writer_section(&w, names[i], SHT_PROGBITS, 0, b);
	}
	if (at[SYMTAB])
		elf_writer_at(&w, at[SYMTAB])->link = at[STRTAB];
	if (at[RELA]) {
		elf_writer_at(&w, at[RELA])->link = at[SYMTAB];
		elf_writer_at(&w, at[RELA])->info = at[0];
	}
	elf_writer_finish(&w, ret);
	elf_writer_done(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf file = { 0 };
	struct cursor c = cursor_of(bytes_of(data, size));
	enum elf_writer_target target = cursor_u8(&c) % ELF_WRITER_N_TARGETS;
	unsigned flags = cursor_u8(&c);
	const struct symtab_options o = { .n_threads = 1, .no_columns = flags & NO_COLUMNS };

	file_make(&c, flags, target, &file);
	check_bytes(buf_bytes(&file), &o);
	return 0;
}
