/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of elf: views of an image's bytes, and parsing of the header alone.
 */
#pragma once

#include "elf/elf.h"

/*
 * The first read of a file. It holds header and program headers, nearly always the notes too: linkers place
 * them at the front so that a core dump has them in its first page.
 */
#define ELF_HEAD_SIZE KIB(4)

/* Linkers and strip put the section names right before the section headers: one read gets both. */
#define ELF_TAIL_SLACK KIB(4)

/* The offsets of the tables, from the header alone. */
struct elf_tables {
	uint16_t phentsize, shentsize;
	uint32_t phnum, shnum, shstrndx; /* as written: 0, PN_XNUM, SHN_XINDEX mean "see section 0" */
};

/* ELF_NOT_ELF, or @h and @ret. @head is the first ELF_HEAD_SIZE bytes of the file, or all of them. */
int elf_header_parse(struct bytes head, struct elf_header *h, struct elf_tables *ret, struct err *err);

/* Parse an entry at the cursor; the section's name is left empty, its offset in the names goes to
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

/* Whether [off, off + n) is within a file of @size bytes. */
static inline bool elf_range_fits(uint64_t off, uint64_t n, uint64_t size)
{
	return off <= size && n <= size - off;
}

/*
 * Bytes of the file: lent if they are in memory already, else read into @a. The caller has checked that they
 * are within the file and the limits; so a failure is always the source's, never a property of the file.
 */
int elf_view(const struct elf_image *img, uint64_t off, uint64_t n, struct arena *a, struct bytes *ret,
	     struct err *err);

/* Up to @n bytes from the start of an uncompressed section's content; as elf_view(). ELF_NO_SECTION as
 * elf_section_range(). */
int elf_section_head(const struct elf_image *img, const struct elf_section *sec, uint64_t n, struct arena *a,
		     struct bytes *ret, struct err *err);

/* Whether @sec is a .debug_* or .zdebug_* section; *ret_base is the rest of the name ("info", "line.dwo"). */
bool elf_section_is_debug(const struct elf_section *sec, struct str *ret_base);

/* The GNU build ID and Go's, as elf_build_id(); size 0: none. */
int elf_note_identities(const struct elf_image *img, struct build_id *ret_gnu, struct build_id *ret_go,
			struct err *err);
/* facts.c: as elf_facts_read(), of an open image. */
int elf_facts_of(const struct elf_image *img, struct elf_facts *ret, struct err *err);

/* Which identity of a file the note is; 0: none. */
enum { ELF_NOTE_GNU_ID = 1, ELF_NOTE_GO_ID = 2 };
unsigned elf_note_identifies(const struct elf_note *note);
/* elf_notes_each() of sections alone. */
int elf_notes_each_in_sections(const struct elf_image *img, int (*fn)(void *arg, const struct elf_note *note),
			       void *arg, struct err *err);
/* elf_notes_each() with another limit than ELF_MAX_NOTE_SIZE of the bytes of one segment or section. */
int elf_notes_each_within(const struct elf_image *img, uint64_t max,
			  int (*fn)(void *arg, const struct elf_note *note), void *arg, struct err *err);
