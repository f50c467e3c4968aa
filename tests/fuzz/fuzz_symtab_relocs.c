/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations: the input is those of .debug_info. Bits 3 and 4 of the second byte say whether they are REL,
 * CREL, or RELA.
 * The symbols are of two functions.
 */
#include "symtab_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(code_writer_done) struct code_writer w;
	AUTO(buf_done) struct buf relocs = { 0 };
	struct cursor c = cursor_of(bytes_of(data, size));
	bool rel = size > 1 && data[1] & 8, crel = size > 1 && data[1] & 16;
	unsigned at;

	writer_of(&w, &c, ET_REL);
	w.text = 0;
	rest_add(&relocs, &c);
	code_symbol(&w, "a", STT_FUNC, STB_GLOBAL, 0x10, 0x10);
	code_symbol(&w, "b", STT_FUNC, STB_GLOBAL, 0x20, 0x10);
	code_unit_begin(&w);
	code_die(&w, T_COMPILE, true, A_LANGUAGE, F_DATA1, (uint64_t)0x1d, 0u);
	for (unsigned i = 0; i < 2; i++)
		code_die(&w, T_SUBPROGRAM, false, A_LOW, F_ADDR, (uint64_t)(0x10 + 0x10 * i), A_HIGH, F_ADDR,
			 (uint64_t)(0x20 + 0x10 * i), A_NAME, F_STRP, (uint64_t)(uintptr_t) "f", A_DECL_LINE,
			 F_UDATA, (uint64_t)300, 0u);
	code_up(&w);
	code_unit_end(&w);
	at = elf_writer_section(&w.elf, ".relocs",
				crel  ? ELF_SHT_CREL
				: rel ? SHT_REL
				      : SHT_RELA,
				0, buf_bytes(&relocs));
	/* Sections: .text is 2, .debug_info 3, .debug_abbrev 4, .debug_str 5, then the symbols. */
	elf_writer_at(&w.elf, at)->info = 3;
	elf_writer_at(&w.elf, at)->link = 6;
	check_file(&w);
	return 0;
}
