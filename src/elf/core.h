/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core dumps: the files that a process had mapped, and the build IDs in their dumped parts. A separate
 * header, since only crash analysis needs it.
 */
#pragma once

#include "elf/elf.h"

#define ELF_CORE_MAX_FILES 65536u /* limit of mappings of one dump */
/* Bytes of a module that are read: its headers and notes are in its first page. */
#define ELF_CORE_MODULE_HEAD KIB(64)

enum { ELF_CORE_NO_FILES = 8 };

struct elf_core_module {
	struct str path;    /* in the arena; "[vdso]" for the kernel's own */
	uint64_t start;     /* address of its first byte */
	struct build_id id; /* size 0: its headers were not dumped, or it has none */
	bool is_elf;        /* the dumped part begins as an ELF file does; unknown if not dumped */
	bool dumped;
};

/*
 * The modules of a dump: each file that was mapped from its first byte, once, in the order of addresses; then
 * the vdso. ELF_CORE_NO_FILES: the dump has no list of files (NT_FILE), so it is no core dump of Linux, or an
 * old one. A damaged list is ERR_INVALID.
 */
int elf_core_modules(const struct elf_image *img, struct arena *a, const struct elf_core_module **ret,
		     size_t *ret_n, struct err *err);
