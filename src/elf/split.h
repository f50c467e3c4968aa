/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting: of one ELF file, the file without debug sections and the debug file that belongs to it. The
 * result is what `objcopy --only-keep-debug`, `strip -g` and `objcopy --add-gnu-debuglink` make. A header of
 * its own, since nobody but the one command that writes ELF files needs it.
 *
 * ET_EXEC, ET_DYN and ET_REL (kernel modules too), 32 and 64 bit, both byte orders. Sections are streamed; in
 * memory are only the tables.
 */
#pragma once

#include "elf/elf.h"

/* Symbols, their names, the names of sections, one section group: more is ERR_LIMIT. */
#define ELF_SPLIT_MAX_TABLE MIB(1024)

enum { ELF_NOTHING_TO_SPLIT = 6 };

/*
 * Whether the file can be split. ELF_NOTHING_TO_SPLIT: it has no debug sections. ERR_INVALID: what it is, or
 * what there is in it that would be lost: a core dump, a debug file, bytes behind its end (an archive), a
 * damaged table. *ret_signed: it is a signed kernel module. Its signature is over all of its bytes, so the
 * stripped file goes without, as binutils' has none.
 */
int elf_split_check(const struct elf_image *img, bool *ret_signed, struct err *err);

/* How the debug sections are stored in the debug file. One that would become larger stays as it is. */
enum elf_split_packing {
	ELF_SPLIT_AS_THEY_ARE,
	ELF_SPLIT_UNPACKED,
	ELF_SPLIT_ZLIB,
	ELF_SPLIT_ZSTD,
};

/*
 * The debug file: every section under its number, allocated ones without their bytes (NOBITS), but for notes.
 * Into @fd, open for reading and writing, empty. *ret_crc is the CRC-32 of what was written, for the link.
 */
int elf_split_debug(const struct elf_image *img, int fd, enum elf_split_packing packing, uint32_t *ret_crc,
		    struct err *err);

/*
 * What is left: without debug sections, their relocations, symbols of files and of sections that nothing
 * refers to, and with a debug link to @link_name (no directories). What is loaded stays where it lies in the
 * file, byte by byte.
 */
int elf_split_strip(const struct elf_image *img, int fd, const char *link_name, uint32_t crc,
		    struct err *err);
