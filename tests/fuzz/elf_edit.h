/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing of ELF files for fuzz targets: fields of headers and tables of any class and byte order, sections
 * replaced and added. Nothing has to be valid: fields that lie outside of the file read as 0 and are not written.
 */
#pragma once

#include "base/base.h"

struct elf_field {
	uint8_t at64, size64, at32, size32;
};

enum {
	SH_NAME,
	SH_TYPE,
	SH_FLAGS,
	SH_ADDR,
	SH_OFFSET,
	SH_SIZE,
	SH_LINK,
	SH_INFO,
	SH_ALIGN,
	SH_ENTSIZE,
	SH_FIELDS
};
enum { PH_TYPE, PH_FLAGS, PH_OFFSET, PH_VADDR, PH_PADDR, PH_FILESZ, PH_MEMSZ, PH_ALIGN, PH_FIELDS };
enum {
	EH_TYPE,
	EH_MACHINE,
	EH_VERSION,
	EH_ENTRY,
	EH_PHOFF,
	EH_SHOFF,
	EH_FLAGS,
	EH_PHNUM,
	EH_SHNUM,
	EH_SHSTRNDX,
	EH_FIELDS
};

bool elf_edit_is64(const struct buf *f);
uint64_t elf_edit_get(const struct buf *f, uint64_t at, unsigned size);
void elf_edit_put(struct buf *f, uint64_t at, unsigned size, uint64_t value);

/* The position and size of a field; for headers @i is ignored. */
struct elf_place_of {
	uint64_t at;
	unsigned size;
};
struct elf_place_of elf_edit_eh(const struct buf *f, unsigned field);
struct elf_place_of elf_edit_sh(const struct buf *f, uint64_t i, unsigned field);
struct elf_place_of elf_edit_ph(const struct buf *f, uint64_t i, unsigned field);
static inline uint64_t elf_edit_at(const struct buf *f, struct elf_place_of p)
{
	return elf_edit_get(f, p.at, p.size);
}

uint64_t elf_edit_n_sections(const struct buf *f); /* at most 4096, that are in the file */
uint64_t elf_edit_n_segments(const struct buf *f);
/* The content in the file; size 0: none. */
struct bytes elf_edit_content(const struct buf *f, uint64_t section);
struct str elf_edit_name(const struct buf *f, uint64_t section);
/* The first section of that name, or 0. */
uint64_t elf_edit_find(const struct buf *f, const char *name);
/* Put new content at the end of the file, and point the section to it. */
void elf_edit_set_content(struct buf *f, uint64_t section, struct bytes content);
void elf_edit_rename(struct buf *f, uint64_t section, const char *name);
/* Add a section, by a new table of headers at the end: a copy of the header of @like in @from. Returns its index. */
uint64_t elf_edit_add(struct buf *f, const struct buf *from, uint64_t like, struct bytes content);
void elf_edit_remove(struct buf *f, uint64_t section);
