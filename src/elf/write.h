/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing ELF files, for the files that split: sequential output, numbers in the file's byte order, tables at
 * the end.
 */
#pragma once

#include "elf/internal.h"
#include "elf/split.h"

struct elf_out {
	int fd; /* borrowed */
	bool is64, big;
	uint64_t pos; /* offset of the next byte */
	struct buf pending;
};

/* A section header to write; its name is given as an offset. */
struct elf_out_section {
	struct elf_section s;
	uint32_t name_off;
};

void elf_out_init(struct elf_out *o, int fd, const struct elf_image *like);
void elf_out_done(struct elf_out *o);
int elf_out_add(struct elf_out *o, const void *p, size_t n, struct err *err);
int elf_out_zeros(struct elf_out *o, uint64_t n, struct err *err);
int elf_out_align(struct elf_out *o, uint64_t align, struct err *err); /* 0 and 1: no alignment */
int elf_out_copy(struct elf_out *o, struct source *src, uint64_t off, uint64_t n, struct err *err);
/* Truncate the output to @pos. */
int elf_out_back(struct elf_out *o, uint64_t pos, struct err *err);
int elf_out_flush(struct elf_out *o, struct err *err);

/* Store or load a number of 1 to 8 bytes, in the byte order of the file. */
void elf_put(bool big, void *at, uint64_t v, unsigned size);
uint64_t elf_get(bool big, const void *at, unsigned size);

/* The tables of a finished file. */
struct elf_out_tables {
	uint64_t phoff; /* of the program headers, which are written already; 0: none */
	const struct elf_out_section *sections;
	size_t n_sections;
	uint32_t names_index;
};

/*
 * Finish the file: write the section table here, then the header at the start. The header is that of @img
 * with new offsets and numbers.
 */
int elf_out_finish(struct elf_out *o, const struct elf_image *img, const struct elf_out_tables *t,
		   struct err *err);
/* Program headers in their stored form. */
int elf_out_segments(struct elf_out *o, const struct elf_segment *segments, size_t n, struct err *err);

static inline bool elf_is_alloc(const struct elf_section *s)
{
	return s->flags & 2; /* SHF_ALLOC */
}

/* Whether a section is one that binutils strips as debug information: by name, if it is not loaded. */
bool elf_section_is_stripped(const struct elf_section *s);

/* ---- string tables (write_strings.c) ---- */

/* A string table in which a string that ends another shares its bytes, as linkers write it. */
struct elf_strings {
	struct str *items; /* the texts are borrowed */
	uint32_t *offs;    /* offset of items[i]; set by elf_strings_layout() */
	size_t n, room;
	struct buf bytes;
};
void elf_strings_done(struct elf_strings *t);
size_t elf_strings_add(struct elf_strings *t, struct str s); /* returns its index */
int elf_strings_layout(struct elf_strings *t, struct err *err);

/* ---- compressed sections (write_packed.c) ---- */

/* The alignment of a section's content: a compressed section has it in its compression header. */
int elf_content_align(const struct elf_image *img, const struct elf_section *sec, uint64_t *ret,
		      struct err *err);
/*
 * Write the content of a section (decompressed if it was compressed) after a compression header, compressed
 * as @packing says. 0, or ELF_PACKED_LARGER: nothing was written, since it would not become smaller.
 */
enum { ELF_PACKED_LARGER = 7 };
int elf_out_packed(struct elf_out *o, const struct elf_image *img, const struct elf_section *sec,
		   enum elf_split_packing packing, struct err *err);
