/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own table with its trees of calls. The input is a byte for the target, then the table, the data that
 * describes the module, and the trees: for each its size (2 bytes, little endian) and its bytes, which are at
 * 0x20000, 0x40000 and 0x30000. All addresses of an answer's range must have that answer.
 */
#include "symtab_check.h"

static void file_make(struct cursor *c, enum elf_writer_target target, struct buf *ret)
{
	static const struct {
		const char *name;
		uint64_t flags, addr;
	} parts[] = {
		{ ".gopclntab", SHF_ALLOC, 0x20000 },
		{ ".noptrdata", SHF_ALLOC | SHF_WRITE, 0x40000 },
		{ ".rodata", SHF_ALLOC, 0x30000 },
	};
	struct elf_writer w;
	unsigned at;

	elf_writer_init(&w, target, ET_EXEC);
	at = elf_writer_nobits(&w, ".text", SHF_ALLOC | SHF_EXECINSTR, 0x1000);
	elf_writer_at(&w, at)->addr = 0x1000;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t size = cursor_u16(c);
		struct bytes b = cursor_bytes(c, MIN(size, cursor_left(c)));

		if (!b.size)
			continue;
		at = elf_writer_section(&w, parts[i].name, SHT_PROGBITS, parts[i].flags, b);
		elf_writer_at(&w, at)->addr = parts[i].addr;
	}
	elf_writer_finish(&w, ret);
	elf_writer_done(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf file = { 0 };
	struct cursor c = cursor_of(bytes_of(data, size));
	const struct symtab_options o = { 0 };

	file_make(&c, cursor_u8(&c) % ELF_WRITER_N_TARGETS, &file);
	check_bytes(buf_bytes(&file), &o);
	return 0;
}
