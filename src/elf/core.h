/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core dumps: which files a process had mapped, and the build IDs in what was dumped of them. A header of its
 * own, since only those who look at crashes need it.
 */
#pragma once

#include "elf/elf.h"

#define ELF_CORE_MAX_FILES 65536u /* mappings of one dump that are looked at */
/* Of what was dumped of a module: its headers and notes lie in its first page. */
#define ELF_CORE_MODULE_HEAD KIB(64)

enum { ELF_CORE_NO_FILES = 8 };

struct elf_core_module {
	struct str path;    /* in the arena; "[vdso]" of what the kernel maps itself */
	uint64_t start;     /* address of its first byte */
	struct build_id id; /* size 0: its headers were not dumped, or it has none */
	bool is_elf;        /* what was dumped begins as an ELF file does; unknown when it was not dumped */
	bool dumped;
};

/*
 * The modules of a dump: each file that was mapped from its first byte on, once, in the order of addresses;
 * then the vdso. ELF_CORE_NO_FILES: there is no list of files in it (NT_FILE), so it is no core dump of
 * Linux, or an old one. A damaged list is ERR_INVALID.
 */
int elf_core_modules(const struct elf_image *img, struct arena *a, const struct elf_core_module **ret,
		     size_t *ret_n, struct err *err);
