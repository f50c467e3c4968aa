/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the two halves of stripping: choosing sections (split_strip.c) and symbols (split_symbols.c).
 */
#pragma once

#include "elf/write.h"

struct elf_strip {
	const struct elf_image *img;
	struct arena a;
	bool *keep;                     /* of each section */
	uint32_t *new_index;            /* per section: the new number; 0: removed */
	size_t n_kept;                  /* with section 0 */
	uint32_t symtab, strtab, shndx; /* their old numbers; 0: none, or not to be changed */

	/* Symbols: entry 0 is the null symbol. */
	struct bytes symbols, old_shndx;
	size_t n_symbols;
	uint32_t *new_symbol; /* per symbol: the new number; 0: removed */
	bool *symbol_used;    /* a relocation or a group refers to it */
	size_t n_new_symbols;
	uint32_t n_locals; /* of the new symbols */
	struct elf_strings names;
	size_t *name_of; /* new symbol -> number in names */
};

unsigned elf_symbol_size(bool is64);
unsigned elf_reloc_size(bool is64, uint32_t type);

/* Whether section @i holds relocations by symbols of the symbol table. */
bool elf_strip_is_reloc(const struct elf_strip *t, uint32_t i);

/* Of a section in CREL: mark the symbols that it refers to; write it with their new numbers. */
int elf_strip_crel_used(struct elf_strip *t, const struct elf_section *s, struct err *err);
int elf_strip_add_crel(struct elf_strip *t, struct elf_out *o, const struct elf_section *s, struct err *err);

/* Read the symbols; find those that are used and those that stay. */
int elf_strip_symbols(struct elf_strip *t, struct err *err);

/* The new contents. */
int elf_strip_add_symtab(struct elf_strip *t, struct elf_out *o, struct err *err);
int elf_strip_add_shndx(struct elf_strip *t, struct elf_out *o, struct err *err);
int elf_strip_add_relocs(struct elf_strip *t, struct elf_out *o, const struct elf_section *s,
			 struct err *err);
