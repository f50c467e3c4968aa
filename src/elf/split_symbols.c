/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a stripped file. Symbols of files, of sections that nothing refers to, and in removed
 * sections are removed; the others keep their order, and references to them are renumbered.
 */
#include "elf/split_strip.h"

#include <elf.h>

#define RELOC_CHUNK 4096 /* entries at a time */

unsigned elf_symbol_size(bool is64)
{
	return is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

unsigned elf_reloc_size(bool is64, uint32_t type)
{
	if (is64)
		return type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
	return type == SHT_RELA ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel);
}

bool elf_strip_is_reloc(const struct elf_strip *t, uint32_t i)
{
	const struct elf_section *s = &t->img->sections[i];

	return elf_is_reloc_type(s->type) && !elf_is_alloc(s) && t->symtab && s->link == t->symtab;
}

/* ---- fields whose layout depends on the class ---- */

struct split_symbol {
	uint32_t name, shndx; /* shndx: as stored, 16 bits */
	uint8_t info;
};

static struct split_symbol elf_symbol_at(const struct elf_strip *t, size_t i)
{
	const struct elf_header *h = &t->img->h;
	const uint8_t *p = t->symbols.p + i * elf_symbol_size(h->is64);

	return (struct split_symbol){
		.name = (uint32_t)elf_get(h->big, p, 4),
		.info = p[h->is64 ? offsetof(Elf64_Sym, st_info) : offsetof(Elf32_Sym, st_info)],
		.shndx = (uint32_t)elf_get(
			h->big, p + (h->is64 ? offsetof(Elf64_Sym, st_shndx) : offsetof(Elf32_Sym, st_shndx)),
			2),
	};
}

/* The section's number; SHN_UNDEF for the special ones, which are no sections. */
static uint32_t symbol_section(const struct elf_strip *t, size_t i, const struct split_symbol *s)
{
	if (s->shndx == SHN_XINDEX && (i + 1) * 4 <= t->old_shndx.size)
		return (uint32_t)elf_get(t->img->h.big, t->old_shndx.p + i * 4, 4);
	return s->shndx < SHN_LORESERVE ? s->shndx : SHN_UNDEF;
}

/* The symbol of a relocation. 64-bit little-endian MIPS stores it first, not in the upper half. */
static uint32_t reloc_symbol(const struct elf_header *h, const uint8_t *p)
{
	if (!h->is64)
		return (uint32_t)elf_get(h->big, p + 4, 4) >> 8;
	if (h->machine == EM_MIPS && !h->big)
		return (uint32_t)elf_get(false, p + 8, 4);
	return (uint32_t)(elf_get(h->big, p + 8, 8) >> 32);
}

static void set_reloc_symbol(const struct elf_header *h, uint8_t *p, uint32_t symbol)
{
	if (!h->is64)
		elf_put(h->big, p + 4, (uint64_t)symbol << 8 | (elf_get(h->big, p + 4, 4) & 0xff), 4);
	else if (h->machine == EM_MIPS && !h->big)
		elf_put(false, p + 8, symbol, 4);
	else
		elf_put(h->big, p + 8, (uint64_t)symbol << 32 | (elf_get(h->big, p + 8, 8) & 0xffffffff), 8);
}

/* ---- relocations, in chunks ---- */

static int relocs_each(struct elf_strip *t, const struct elf_section *s,
		       int (*fn)(struct elf_strip *t, uint8_t *p, size_t size, void *arg, struct err *err),
		       void *arg, struct err *err)
{
	const struct elf_header *h = &t->img->h;
	size_t size = elf_reloc_size(h->is64, s->type), chunk = size * RELOC_CHUNK;
	AUTO(mem_freep) uint8_t *p = mem_alloc(chunk);

	if (s->size % size || (s->entsize && s->entsize != size))
		return err_set(err, ERR_INVALID,
			       "relocations of %llu bytes, %llu each, are not a multiple of %zu",
			       (unsigned long long)s->size, (unsigned long long)s->entsize, size);
	for (uint64_t off = 0; off < s->size; off += chunk) {
		size_t n = (size_t)MIN((uint64_t)chunk, s->size - off);

		if (source_read_full(t->img->src, s->off + off, p, n, SOURCE_SEQUENTIAL, err) < 0 ||
		    fn(t, p, n, arg, err) < 0)
			return -1;
	}
	return 0;
}

static int relocs_mark_used(struct elf_strip *t, uint8_t *p, size_t n, void *arg, struct err *err)
{
	const struct elf_section *s = arg;
	size_t size = elf_reloc_size(t->img->h.is64, s->type);

	for (size_t at = 0; at < n; at += size) {
		uint32_t symbol = reloc_symbol(&t->img->h, p + at);

		if (symbol >= t->n_symbols)
			return err_set(err, ERR_INVALID, "a relocation by symbol %u of %zu", symbol,
				       t->n_symbols);
		t->symbol_used[symbol] = true;
	}
	return 0;
}

static int relocs_find_used(struct elf_strip *t, const struct elf_section *s, struct err *err)
{
	return s->type == ELF_SHT_CREL ? elf_strip_crel_used(t, s, err)
				       : relocs_each(t, s, relocs_mark_used, (void *)s, err);
}

struct renumber {
	struct elf_out *o;
	size_t size;
};

static int relocs_renumber(struct elf_strip *t, uint8_t *p, size_t n, void *arg, struct err *err)
{
	const struct renumber *r = arg;

	for (size_t at = 0; at < n; at += r->size) {
		uint32_t symbol = reloc_symbol(&t->img->h, p + at);

		/* Checked again: the file may have changed since. */
		if (symbol >= t->n_symbols || (symbol && !t->new_symbol[symbol]))
			return err_set(err, ERR_CHANGED, "the file changed while it was split");
		set_reloc_symbol(&t->img->h, p + at, t->new_symbol[symbol]);
	}
	return elf_out_add(r->o, p, n, err);
}

int elf_strip_add_relocs(struct elf_strip *t, struct elf_out *o, const struct elf_section *s, struct err *err)
{
	struct renumber r = { o, elf_reloc_size(t->img->h.is64, s->type) };

	return s->type == ELF_SHT_CREL ? elf_strip_add_crel(t, o, s, err)
				       : relocs_each(t, s, relocs_renumber, &r, err);
}

/* ---- choosing symbols ---- */

static int symbols_read(struct elf_strip *t, struct err *err)
{
	const struct elf_section *s = &t->img->sections[t->symtab];
	size_t size = elf_symbol_size(t->img->h.is64);
	int r = elf_section_read(t->img, s, ELF_SPLIT_MAX_TABLE, &t->a, &t->symbols, err);

	if (r < 0)
		return -1;
	if (t->symbols.size % size || (s->entsize && s->entsize != size))
		return err_set(err, ERR_INVALID, "symbols of %zu bytes, %llu each, are not a multiple of %zu",
			       t->symbols.size, (unsigned long long)s->entsize, size);
	t->n_symbols = t->symbols.size / size;
	if (t->shndx && elf_section_read(t->img, &t->img->sections[t->shndx], ELF_SPLIT_MAX_TABLE, &t->a,
					 &t->old_shndx, err) < 0)
		return -1;
	t->new_symbol = arena_try(&t->a, (t->n_symbols + 1) * sizeof(*t->new_symbol));
	t->symbol_used = arena_try(&t->a, t->n_symbols + 1);
	t->name_of = arena_try(&t->a, (t->n_symbols + 1) * sizeof(*t->name_of));
	if (!t->new_symbol || !t->symbol_used || !t->name_of)
		return err_set(err, ERR_LIMIT, "no memory for %zu symbols", t->n_symbols);
	memset(t->new_symbol, 0, (t->n_symbols + 1) * sizeof(*t->new_symbol));
	memset(t->symbol_used, 0, t->n_symbols + 1);
	return 0;
}

static int symbols_find_used(struct elf_strip *t, struct err *err)
{
	for (uint32_t i = 1; i < t->img->n_sections; i++) {
		const struct elf_section *s = &t->img->sections[i];

		if (!t->keep[i])
			continue;
		if (elf_strip_is_reloc(t, i) && relocs_find_used(t, s, err) < 0)
			return err_in(err, "section %u " STR_FMT, i, STR_ARG(s->name));
		if (s->type == SHT_GROUP && s->link == t->symtab) {
			if (s->info >= t->n_symbols)
				return err_set(err, ERR_INVALID, "group %u is named by symbol %u of %zu", i,
					       s->info, t->n_symbols);
			t->symbol_used[s->info] = true;
		}
	}
	return 0;
}

/* 0: the symbol is removed, 1: it stays. */
static int symbol_stays(const struct elf_strip *t, size_t i, const struct split_symbol *s, struct err *err)
{
	unsigned type = ELF64_ST_TYPE(s->info);
	uint32_t section = symbol_section(t, i, s);

	if (section >= t->img->n_sections)
		return err_set(err, ERR_INVALID, "symbol %zu is in section %u of %u", i, section,
			       t->img->n_sections);
	if (section && !t->keep[section]) {
		if (t->symbol_used[i])
			return err_set(err, ERR_INVALID,
				       "a relocation refers to symbol %zu in the removed section " STR_FMT, i,
				       STR_ARG(t->img->sections[section].name));
		return 0;
	}
	return t->symbol_used[i] || (type != STT_FILE && type != STT_SECTION);
}

/* The name, NUL excluded. */
static int symbol_name(const struct elf_strip *t, struct bytes names, size_t i, uint32_t off, struct str *ret,
		       struct err *err)
{
	const char *p, *end = NULL;

	*ret = (struct str){ 0 };
	if (!off)
		return 0;
	p = off < names.size ? (const char *)names.p + off : NULL;
	if (p)
		end = memchr(p, 0, names.size - off);
	if (!end)
		return err_set(err, ERR_INVALID,
			       "the name of symbol %zu is at %u, which is not in the %zu bytes of names", i,
			       off, names.size);
	*ret = (struct str){ p, (size_t)(end - p) };
	return 0;
}

/* Names may overlap in the input, within limits: the new table has each of them once. */
static int symbols_choose(struct elf_strip *t, struct bytes names, struct err *err)
{
	uint64_t budget = 16 * (uint64_t)names.size + MIB(1);

	t->n_new_symbols = 1;
	t->n_locals = 1;
	for (size_t i = 1; i < t->n_symbols; i++) {
		struct split_symbol s = elf_symbol_at(t, i);
		struct str name;
		int r = symbol_stays(t, i, &s, err);

		if (r < 0)
			return -1;
		if (!r)
			continue;
		if (t->strtab) {
			if (symbol_name(t, names, i, s.name, &name, err) < 0)
				return -1;
			if (name.size > budget)
				return err_set(err, ERR_LIMIT,
					       "names of symbols overlap each other too much");
			budget -= name.size;
			t->name_of[t->n_new_symbols] = elf_strings_add(&t->names, name);
		}
		if (ELF64_ST_BIND(s.info) == STB_LOCAL)
			t->n_locals = (uint32_t)t->n_new_symbols + 1;
		t->new_symbol[i] = (uint32_t)t->n_new_symbols++;
	}
	return t->strtab ? elf_strings_layout(&t->names, err) : 0;
}

int elf_strip_symbols(struct elf_strip *t, struct err *err)
{
	struct bytes names = { 0 };

	if (symbols_read(t, err) < 0 || symbols_find_used(t, err) < 0)
		return -1;
	if (t->strtab && elf_section_read(t->img, &t->img->sections[t->strtab], ELF_SPLIT_MAX_TABLE, &t->a,
					  &names, err) < 0)
		return -1;
	return symbols_choose(t, names, err);
}

/* ---- writing ---- */

static uint32_t symbol_new_section(const struct elf_strip *t, size_t i, const struct split_symbol *s)
{
	uint32_t section = symbol_section(t, i, s);

	return section ? t->new_index[section] : 0;
}

int elf_strip_add_symtab(struct elf_strip *t, struct elf_out *o, struct err *err)
{
	const struct elf_header *h = &t->img->h;
	size_t size = elf_symbol_size(h->is64);
	uint8_t null[sizeof(Elf64_Sym)] = { 0 };

	if (elf_out_add(o, null, size, err) < 0)
		return -1;
	for (size_t i = 1; i < t->n_symbols; i++) {
		struct split_symbol s = elf_symbol_at(t, i);
		uint8_t b[sizeof(Elf64_Sym)];
		uint32_t section;

		if (!t->new_symbol[i])
			continue;
		memcpy(b, t->symbols.p + i * size, size);
		if (t->strtab)
			elf_put(h->big, b, t->names.offs[t->name_of[t->new_symbol[i]]], 4);
		section = symbol_new_section(t, i, &s);
		if (section)
			elf_put(h->big,
				b + (h->is64 ? offsetof(Elf64_Sym, st_shndx) : offsetof(Elf32_Sym, st_shndx)),
				section >= SHN_LORESERVE ? SHN_XINDEX : section, 2);
		if (elf_out_add(o, b, size, err) < 0)
			return -1;
	}
	return 0;
}

int elf_strip_add_shndx(struct elf_strip *t, struct elf_out *o, struct err *err)
{
	uint8_t b[4] = { 0 };

	if (elf_out_add(o, b, 4, err) < 0)
		return -1;
	for (size_t i = 1; i < t->n_symbols; i++) {
		struct split_symbol s = elf_symbol_at(t, i);
		uint32_t section;

		if (!t->new_symbol[i])
			continue;
		section = symbol_new_section(t, i, &s);
		elf_put(t->img->h.big, b, section >= SHN_LORESERVE ? section : 0, 4);
		if (elf_out_add(o, b, 4, err) < 0)
			return -1;
	}
	return 0;
}
