/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf: so far, the source files that a debug file names.
 *
 * Read from the line tables' file lists (DWARF 2 to 5, 32 and 64 bit, both byte orders) and, for DWARF before 5 or where the
 * table has no directory of its own, the unit's DW_AT_comp_dir and DW_AT_name. A name is made absolute by its directory and
 * that by comp_dir, and canonical by path_canonical(); a name that stays relative is kept as it is; "<built-in>" and the like
 * are dropped. Names in a supplementary (dwz) file's strings (DW_FORM_GNU_strp_alt, DW_FORM_strp_sup, DW_FORM_line_strp)
 * need that file.
 */
#pragma once

#include "elf/elf.h"

#define DWARF_MAX_SECTION MIB(2048)  /* decompressed, of one section; more is ERR_LIMIT */
#define DWARF_MAX_FILES   (8u << 20) /* names of one debug file */
#define DWARF_MAX_NAME    KIB(64)    /* one name, joined */

struct dwarf_sources_note {
	uint32_t n_units_skipped; /* damaged or of an unknown version */
	bool alt_missing;         /* some names are in a supplementary file that was not given */
	char reason[160];         /* of the first that was skipped; empty: none */
};

/*
 * Every source name of @img, once each, canonical; @alt is the supplementary file or NULL. fn's non-zero return ends it and is
 * returned. A damaged unit is skipped and noted; the rest is still read. Time and memory are linear in the sections' sizes.
 */
int dwarf_sources_each(const struct elf_image *img, const struct elf_image *alt, int (*fn)(void *arg, struct str name),
		       void *arg, struct dwarf_sources_note *ret_note, struct err *err);

/* The same as a set that answers "does this debug file name this path?" in constant time; built once, then read by many threads. */
struct dwarf_sources;
int dwarf_sources_build(const struct elf_image *img, const struct elf_image *alt, struct dwarf_sources **ret, struct err *err);
bool dwarf_sources_has(const struct dwarf_sources *s, struct str canonical);
size_t dwarf_sources_n(const struct dwarf_sources *s);
size_t dwarf_sources_weight(const struct dwarf_sources *s); /* bytes of memory */
const struct dwarf_sources_note *dwarf_sources_note(const struct dwarf_sources *s);
void dwarf_sources_free(struct dwarf_sources *s);
