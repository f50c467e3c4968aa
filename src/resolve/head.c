/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build ID of an ELF file from its first bytes alone, if they have it.
 */
#include "resolve/internal.h"

#include <elf.h>

#define MAX_NOTE_SIZE KIB(2)

bool head_build_id(struct bytes head, struct build_id *ret)
{
	struct cursor c = cursor_of(head), phs;
	bool is64;
	uint64_t phoff;
	uint16_t phentsize, phnum;

	if (head.size < EI_NIDENT)
		return false;
	is64 = head.p[EI_CLASS] == ELFCLASS64;
	c.big = head.p[EI_DATA] == ELFDATA2MSB;
	cursor_seek(&c, is64 ? offsetof(Elf64_Ehdr, e_phoff) : offsetof(Elf32_Ehdr, e_phoff));
	phoff = cursor_uint(&c, is64 ? 8 : 4);
	cursor_seek(&c, is64 ? offsetof(Elf64_Ehdr, e_phentsize) : offsetof(Elf32_Ehdr, e_phentsize));
	phentsize = cursor_u16(&c);
	phnum = cursor_u16(&c);
	if (!cursor_ok(&c) || phentsize < (is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)) ||
	    !cursor_seek(&c, phoff))
		return false;
	for (unsigned i = 0; i < phnum; i++) {
		uint64_t off, size;
		struct cursor notes;

		phs = cursor_sub(&c, phentsize);
		if (!cursor_ok(&c))
			return false;
		if (cursor_u32(&phs) != PT_NOTE)
			continue;
		cursor_seek(&phs, is64 ? offsetof(Elf64_Phdr, p_offset) : offsetof(Elf32_Phdr, p_offset));
		off = cursor_uint(&phs, is64 ? 8 : 4);
		cursor_seek(&phs, is64 ? offsetof(Elf64_Phdr, p_filesz) : offsetof(Elf32_Phdr, p_filesz));
		size = cursor_uint(&phs, is64 ? 8 : 4);
		if (off > head.size || size > MAX_NOTE_SIZE || size > head.size - off)
			continue;
		notes = cursor_at(bytes_of(head.p + off, (size_t)size), c.big, off);
		while (cursor_left(&notes) >= 12) {
			uint32_t n_name = cursor_u32(&notes), n_desc = cursor_u32(&notes),
				 type = cursor_u32(&notes);
			struct bytes name = cursor_bytes(&notes, n_name), desc;

			cursor_align(&notes, 4);
			desc = cursor_bytes(&notes, n_desc);
			cursor_align(&notes, 4);
			if (!cursor_ok(&notes))
				break;
			if (type == NT_GNU_BUILD_ID && bytes_eq(name, bytes_of("GNU", 4)) &&
			    build_id_set(ret, desc))
				return true;
		}
	}
	return false;
}
