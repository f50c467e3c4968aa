/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting an ELF file into the file without debug sections and its debug file. The result is that of
 * `objcopy --only-keep-debug`, `strip -g` and `objcopy --add-gnu-debuglink`. A separate header, since only
 * one command writes ELF files.
 *
 * ET_EXEC, ET_DYN and ET_REL (kernel modules too), 32 and 64 bit, both byte orders. Sections are streamed;
 * only the tables are in memory.
 */
#pragma once

#include "elf/elf.h"

/* The limit of symbols, their names, the names of sections, one section group: more is ERR_LIMIT. */
#define ELF_SPLIT_MAX_TABLE MIB(1024)

enum { ELF_NOTHING_TO_SPLIT = 6 };

/*
 * Whether the file can be split. ELF_NOTHING_TO_SPLIT: it has no debug sections. ERR_INVALID, with the
 * reason, for a file that cannot be split or would lose bytes: a core dump, a debug file, bytes after its end
 * (an archive), a damaged table. *ret_signed: it is a signed kernel module. Its signature covers all of its
 * bytes, so the stripped file has none, as with binutils.
 */
int elf_split_check(const struct elf_image *img, bool *ret_signed, struct err *err);

/* The compression of debug sections in the debug file. A section that would become larger stays as it is. */
enum elf_split_packing {
	ELF_SPLIT_AS_THEY_ARE,
	ELF_SPLIT_UNPACKED,
	ELF_SPLIT_ZLIB,
	ELF_SPLIT_ZSTD,
};

/*
 * Write the debug file: every section under its number, allocated ones without their bytes (NOBITS), except
 * notes. A build ID that is in a segment of notes, but in no section of notes, is added as a section. @fd is open for
 * reading and writing, and empty. *ret_crc is the CRC-32 of the written file, for the link.
 */
int elf_split_debug(const struct elf_image *img, int fd, enum elf_split_packing packing, uint32_t *ret_crc,
		    struct err *err);

/*
 * Write the stripped file: without debug sections, their relocations, symbols of files and of sections that
 * nothing refers to, and with a debug link to @link_name (no directories). Loaded bytes stay at their offsets
 * in the file.
 */
int elf_split_strip(const struct elf_image *img, int fd, const char *link_name, uint32_t crc,
		    struct err *err);
