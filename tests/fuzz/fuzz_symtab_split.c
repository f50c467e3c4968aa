/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF: a file of skeletons, and a .dwp, or a .dwo that all skeletons get. The input is a byte of
 * flags, then for each of the sections below its size (2 bytes, little endian) and its bytes. The table must
 * be the same with several threads, and verify must find no difference from the DWARF.
 */
#include "symtab_check.h"

#include <string.h>

enum { BIG = 1, DWO = 2, IS_32 = 4 };

static const char *const skeletons[] = { ".debug_info", ".debug_abbrev", ".debug_line", ".debug_addr",
					 ".debug_ranges" };
static const char *const splits[] = { ".debug_cu_index", ".debug_info.dwo",        ".debug_abbrev.dwo",
				      ".debug_str.dwo",  ".debug_str_offsets.dwo", ".debug_rnglists.dwo" };

static void file_make(struct cursor *c, unsigned flags, const char *const *names, size_t n, struct buf *ret)
{
	enum elf_writer_target target = flags & BIG ? (flags & IS_32 ? ELF_WRITER_PPC : ELF_WRITER_S390X)
						    : (flags & IS_32 ? ELF_WRITER_I386 : ELF_WRITER_X86_64);
	struct elf_writer w;
	unsigned text;

	elf_writer_init(&w, target, ET_DYN);
	text = elf_writer_nobits(&w, ".text", SHF_ALLOC | SHF_EXECINSTR, 0x1000);
	elf_writer_at(&w, text)->addr = 0x1000;
	for (size_t i = 0; i < n; i++) {
		size_t size = cursor_u16(c);
		struct bytes b = cursor_bytes(c, MIN(size, cursor_left(c)));

		if (b.size)
			elf_writer_section(&w, names[i], SHT_PROGBITS, 0, b);
	}
	elf_writer_finish(&w, ret);
	elf_writer_done(&w);
}

static int open_dwo(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err)
{
	*ret = source_of_mem(buf_bytes(arg), "a.dwo");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf file = { 0 }, split_file = { 0 };
	AUTO(source_closep) struct source *src = NULL, *split_src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL, *dwp = NULL;
	struct cursor c = cursor_of(bytes_of(data, size));
	unsigned flags = cursor_u8(&c);
	struct dwarf_split split = { .open = open_dwo, .arg = &split_file };
	const struct symtab_options o = { .n_threads = 1, .split = &split };
	struct err err = { 0 };

	file_make(&c, flags, skeletons, ARRAY_SIZE(skeletons), &file);
	file_make(&c, flags, splits, ARRAY_SIZE(splits), &split_file);
	src = source_of_mem(buf_bytes(&file), "x");
	split_src = source_of_mem(buf_bytes(&split_file), "x.dwp");
	FUZZ_CHECK(elf_open(src, &img, &err) == 0 && elf_open(split_src, &dwp, &err) == 0);
	if (!(flags & DWO))
		split.dwp = dwp;
	check_image(img, &o);
	return 0;
}
