/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of elf share: the bytes of an image that are at hand, and the header on its own.
 */
#pragma once

#include "elf/elf.h"

/*
 * The first read of a file. Header and program headers lie in it, nearly always the notes too: they are
 * linked to the front so that a core dump has them in its first page.
 */
#define ELF_HEAD_SIZE KIB(4)

/* Linkers and strip put the section names right before the section headers: one read gets both. */
#define ELF_TAIL_SLACK KIB(4)

/* Where the tables are, from the header alone. */
struct elf_tables {
	uint16_t phentsize, shentsize;
	uint32_t phnum, shnum, shstrndx; /* as written: 0, PN_XNUM, SHN_XINDEX mean "see section 0" */
};

/* ELF_NOT_ELF, or @h and @ret. @head is the first bytes of the file, as many as there are up to
 * ELF_HEAD_SIZE. */
int elf_header_parse(struct bytes head, struct elf_header *h, struct elf_tables *ret, struct err *err);

/* An entry as the cursor finds it; the section's name is left empty, its offset in the names goes to
 * @ret_name. */
void elf_segment_parse(struct cursor *c, bool is64, struct elf_segment *ret);
void elf_section_parse(struct cursor *c, bool is64, struct elf_section *ret, uint32_t *ret_name);

static inline unsigned elf_segment_size(bool is64)
{
	return is64 ? 56 : 32;
}
static inline unsigned elf_section_size(bool is64)
{
	return is64 ? 64 : 40;
}

/* [off, off + n) lies in a file of @size bytes. */
static inline bool elf_range_fits(uint64_t off, uint64_t n, uint64_t size)
{
	return off <= size && n <= size - off;
}

/*
 * Bytes of the file: lent where they are at hand already, else read into @a. The caller has seen to it that
 * they lie in the file, and to the limit; so a failure is always the source's own, and never a property of
 * the file.
 */
int elf_view(const struct elf_image *img, uint64_t off, uint64_t n, struct arena *a, struct bytes *ret,
	     struct err *err);

/* Content of up to @n bytes of a section from its start, uncompressed ones only; as elf_view().
 * ELF_NO_SECTION as elf_section_range(). */
int elf_section_head(const struct elf_image *img, const struct elf_section *sec, uint64_t n, struct arena *a,
		     struct bytes *ret, struct err *err);

/* Whether section @sec is a .debug_* or .zdebug_* one; *ret_base is what follows ("info", "line.dwo"). */
bool elf_section_is_debug(const struct elf_section *sec, struct str *ret_base);
