/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes ELF files for tests: 32 and 64 bit, both byte orders, any sections and segments, and lies on request.
 *
 *	AUTO(elf_writer_done) struct elf_writer w = { 0 };
 *	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
 *	elf_writer_build_id(&w, bytes_of(id, 20));
 *	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, bytes_of(code, n));
 *	elf_writer_finish(&w, &out);
 *
 * For those who just need some file with this build ID: elf_writer_program() and elf_writer_debug_file().
 * Links with base; zlib and zstd for elf_writer_compressed().
 */
#pragma once

#include <elf.h>
#include "base/base.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

enum elf_writer_target {
	ELF_WRITER_X86_64,
	ELF_WRITER_I386,
	ELF_WRITER_S390X, /* 64 bit, big endian */
	ELF_WRITER_PPC,   /* 32 bit, big endian */
	ELF_WRITER_AARCH64,
	ELF_WRITER_ARM,
	ELF_WRITER_RISCV64,
	ELF_WRITER_PPC64LE,
	ELF_WRITER_N_TARGETS
};

struct elf_writer_section {
	char *name;
	struct buf data;
	uint32_t type, link, info;
	uint64_t flags, addr, align, entsize;
	uint64_t size; /* size in the header; the data's unless changed (or of NOBITS) */
	uint64_t off;  /* set by finish(); a value set before is kept, even a wrong one */
	bool off_set;
};

struct elf_writer_segment {
	uint32_t type, flags;
	unsigned section; /* covers this section; 0: the range is given by the numbers below */
	uint64_t off, vaddr, filesz, memsz, align;
};

#define ELF_WRITER_MAX_SECTIONS 70000
#define ELF_WRITER_MAX_SEGMENTS 70000

struct elf_writer {
	bool is64, big;
	uint16_t type, machine;
	uint64_t entry;
	struct elf_writer_section *sections; /* [0] is the null section */
	struct elf_writer_segment *segments;
	size_t n_sections, room_sections, n_segments, room_segments;
	bool no_sections;  /* leave out the section table */
	bool tables_first; /* the section table after the program headers, as Go's linker places it */
	bool extended;     /* numbers in section 0 even if they are small */
	uint64_t gap;      /* bytes between the section names and the section table, as lld places it */
	/* Results of finish(), for tests that damage the file. */
	uint64_t shoff, phoff;
	unsigned names_index;
};

void elf_writer_init(struct elf_writer *w, enum elf_writer_target target, uint16_t type);
void elf_writer_done(struct elf_writer *w);

/* A section with a copy of these bytes; its index. elf_writer_at() is valid until the next one is added. */
unsigned elf_writer_section(struct elf_writer *w, const char *name, uint32_t type, uint64_t flags,
			    struct bytes data);
unsigned elf_writer_nobits(struct elf_writer *w, const char *name, uint64_t flags, uint64_t size);
struct elf_writer_section *elf_writer_at(struct elf_writer *w, unsigned index);
/* With SHF_COMPRESSED and ELFCOMPRESS_ZLIB or ELFCOMPRESS_ZSTD; or, kind 0, as ".zdebug_*" (name is
 * ".debug_*" all the same). */
unsigned elf_writer_compressed(struct elf_writer *w, const char *name, uint32_t kind, struct bytes data);

/* Append a note to @b in its stored form for a section with this alignment (4 or 8). */
void elf_writer_note(const struct elf_writer *w, struct buf *b, unsigned align, uint32_t type,
		     const char *owner, struct bytes desc);
/* ".note.gnu.build-id", with a PT_NOTE segment unless the type is ET_REL. */
unsigned elf_writer_build_id(struct elf_writer *w, struct bytes id);
/* ".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup". */
void elf_writer_debug_link(struct elf_writer *w, const char *name, uint32_t crc);
void elf_writer_alt_link(struct elf_writer *w, const char *path, struct bytes id);
void elf_writer_debug_sup(struct elf_writer *w, bool is_supplementary, const char *path, struct bytes id);

/* A segment over a section, or (section 0) over a range of the file. */
unsigned elf_writer_segment(struct elf_writer *w, uint32_t type, uint32_t flags, unsigned section);
struct elf_writer_segment *elf_writer_segment_at(struct elf_writer *w, unsigned index);

/* Numbers in the target's byte order. */
void elf_writer_put(const struct elf_writer *w, struct buf *b, uint64_t v, unsigned size);
static inline unsigned elf_writer_word(const struct elf_writer *w)
{
	return w->is64 ? 8 : 4;
}

/* The file. */
void elf_writer_finish(struct elf_writer *w, struct buf *out);

/* A program (or, with ET_REL, a kernel module) of about @size bytes whose content depends on its ID. @id is
 * hex. */
void elf_writer_program(struct buf *out, uint16_t type, const char *id, size_t size);
/* The debug file of that program: its sections without contents, and debug sections of about @size bytes. */
void elf_writer_debug_file(struct buf *out, uint16_t type, const char *id, size_t size);
