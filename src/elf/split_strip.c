/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stripped file: the sections that stay, their new offsets, and the changes in sections that refer to
 * others by number.
 *
 * Loaded bytes, and all before their end, are copied to the same offsets; after them come the sections that
 * stay without being loaded.
 */
#include "elf/split_strip.h"

#include <elf.h>

#define SHT_LLVM_ADDRSIG_TYPE 0x6fff4c03 /* numbers of symbols, in its own encoding */

static void strip_done(struct elf_strip *t)
{
	elf_strings_done(&t->names);
	arena_done(&t->a);
}

/* ---- choosing sections ---- */

static void find_tables(struct elf_strip *t)
{
	const struct elf_image *img = t->img;

	for (uint32_t i = 1; i < img->n_sections; i++)
		if (img->sections[i].type == SHT_SYMTAB && !elf_is_alloc(&img->sections[i]))
			t->symtab = i;
	if (!t->symtab)
		return;
	/* The symbols' names can be made anew if no other section has names in the same table; the section
	 * names may, since they are made anew too. */
	t->strtab = img->sections[t->symtab].link;
	if (elf_is_alloc(&img->sections[t->strtab]) || img->sections[t->strtab].type != SHT_STRTAB)
		t->strtab = 0;
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		if (s->type == SHT_SYMTAB_SHNDX && s->link == t->symtab && !elf_is_alloc(s))
			t->shndx = i;
		else if (i != t->symtab && s->link && s->link == t->strtab)
			t->strtab = 0;
	}
}

/* Whether only the flags of a group are left. */
static int group_is_empty(const struct elf_strip *t, const struct elf_section *s, bool *ret, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct bytes b = { 0 };
	int r = elf_section_read(t->img, s, ELF_SPLIT_MAX_TABLE, &a, &b, err);

	if (r < 0)
		return -1;
	*ret = true;
	for (size_t at = 4; at + 4 <= b.size; at += 4) {
		uint64_t member = elf_get(t->img->h.big, b.p + at, 4);

		if (member >= t->img->n_sections)
			return err_set(err, ERR_INVALID, "a group with section %llu of %u",
				       (unsigned long long)member, t->img->n_sections);
		if (t->keep[member])
			*ret = false;
	}
	return 0;
}

static int choose_sections(struct elf_strip *t, struct err *err)
{
	const struct elf_image *img = t->img;

	for (uint32_t i = 0; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		t->keep[i] = !elf_section_is_stripped(s) && !str_eq(s->name, STR(".gnu_debuglink"));
	}
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		if (elf_is_reloc_type(s->type) && !elf_is_alloc(s) && s->info < img->n_sections &&
		    !t->keep[s->info])
			t->keep[i] = false;
	}
	for (uint32_t i = 1; i < img->n_sections; i++) {
		bool empty;

		if (img->sections[i].type != SHT_GROUP)
			continue;
		if (group_is_empty(t, &img->sections[i], &empty, err) < 0)
			return err_in(err, "section %u", i);
		t->keep[i] = !empty;
	}
	return 0;
}

/* Whether a section that stays needs the symbol table, even one without symbols. */
static bool symtab_is_needed(const struct elf_strip *t)
{
	for (uint32_t i = 1; i < t->img->n_sections; i++)
		if (t->keep[i] && t->img->sections[i].link == t->symtab && i != t->shndx &&
		    t->img->sections[i].type != SHT_LLVM_ADDRSIG_TYPE)
			return true;
	return false;
}

static void number_sections(struct elf_strip *t)
{
	const struct elf_image *img = t->img;
	size_t n = 1;

	for (uint32_t i = 1; i < img->n_sections; i++)
		n += t->keep[i];
	if (t->shndx && n < SHN_LORESERVE)
		t->keep[t->shndx] = false; /* all numbers fit the symbols again */
	if (t->symtab && t->n_new_symbols <= 1 && !symtab_is_needed(t)) {
		t->keep[t->symtab] = false;
		if (t->strtab && t->strtab != img->h.names_index)
			t->keep[t->strtab] = false;
		if (t->shndx)
			t->keep[t->shndx] = false;
	}
	t->n_kept = 1;
	for (uint32_t i = 1; i < img->n_sections; i++)
		t->new_index[i] = t->keep[i] ? (uint32_t)t->n_kept++ : 0;
}

/* ---- the file ---- */

struct strip_out {
	struct elf_strip t;
	struct elf_out o;
	struct elf_out_section *sections; /* new */
	size_t n;
	struct elf_strings names;
	uint32_t names_index; /* new */
	uint64_t loaded;      /* bytes before it are copied unchanged */
};

static void strip_out_done(struct strip_out *d)
{
	strip_done(&d->t);
	elf_strings_done(&d->names);
	elf_out_done(&d->o);
}

/* Files without segments have no bytes that must keep their offsets. */
static uint64_t end_of_loaded(const struct elf_image *img)
{
	uint64_t end = img->h.is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);

	if (!img->n_segments)
		return end;
	end = MAX(end, img->h.phoff + (uint64_t)img->n_segments * elf_segment_size(img->h.is64));
	for (uint32_t i = 0; i < img->n_segments; i++)
		if (img->segments[i].filesz)
			end = MAX(end, img->segments[i].off + img->segments[i].filesz);
	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		if (elf_is_alloc(s) && s->type != SHT_NOBITS && s->type != SHT_NULL)
			end = MAX(end, s->off + s->size);
	}
	return end;
}

static uint32_t section_remap(const struct elf_strip *t, uint32_t section)
{
	return section < t->img->n_sections ? t->new_index[section] : section;
}

/* Renumber the references in a section's header. */
static void fix_references(const struct elf_strip *t, const struct elf_section *old, struct elf_section *s)
{
	s->link = section_remap(t, old->link);
	if (elf_is_reloc_type(old->type) || (old->flags & SHF_INFO_LINK))
		s->info = section_remap(t, old->info);
	else if (old->type == SHT_GROUP && old->link == t->symtab && old->info < t->n_symbols)
		s->info = t->new_symbol[old->info];
	else if (old->index == t->symtab)
		s->info = t->n_locals;
	if (old->type == SHT_LLVM_ADDRSIG_TYPE)
		s->link = 0; /* linkers take 0 as a sign of stale numbers */
}

static int strip_add_group(struct strip_out *d, const struct elf_section *s, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct bytes b = { 0 };
	bool big = d->o.big;

	if (elf_section_read(d->t.img, s, ELF_SPLIT_MAX_TABLE, &a, &b, err) < 0)
		return -1;
	if (b.size >= 4 && elf_out_add(&d->o, b.p, 4, err) < 0)
		return -1;
	for (size_t at = 4; at + 4 <= b.size; at += 4) {
		uint32_t member = section_remap(&d->t, (uint32_t)elf_get(big, b.p + at, 4));
		uint8_t w[4];

		elf_put(big, w, member, 4);
		if (member && elf_out_add(&d->o, w, 4, err) < 0)
			return -1;
	}
	return 0;
}

/* Write a content that differs from the old file's, or copy it. */
static int strip_add_content(struct strip_out *d, const struct elf_section *old, struct err *err)
{
	struct elf_strip *t = &d->t;

	if (old->index == t->symtab)
		return elf_strip_add_symtab(t, &d->o, err);
	if (old->index == t->strtab)
		return elf_out_add(&d->o, t->names.bytes.p, t->names.bytes.size, err);
	if (old->index == t->shndx)
		return elf_strip_add_shndx(t, &d->o, err);
	if (old->type == SHT_GROUP)
		return strip_add_group(d, old, err);
	if (elf_strip_is_reloc(t, old->index))
		return elf_strip_add_relocs(t, &d->o, old, err);
	return elf_out_copy(&d->o, t->img->src, old->off, old->size, err);
}

/*
 * Whether the section with the names of sections also holds other names (LLVM's objects have one table for
 * all), or is loaded: then it stays as it is, and the names get their own section.
 */
static bool names_are_shared(const struct elf_strip *t)
{
	uint32_t names = t->img->h.names_index;

	if (elf_is_alloc(&t->img->sections[names]))
		return true;
	for (uint32_t i = 1; i < t->img->n_sections; i++)
		if (t->keep[i] && t->img->sections[i].link == names)
			return true;
	return false;
}

static int strip_add_section(struct strip_out *d, uint32_t i, struct err *err)
{
	const struct elf_section *old = &d->t.img->sections[i];
	struct elf_section *s = &d->sections[d->t.new_index[i]].s;
	bool made = i == d->t.symtab || i == d->t.strtab || i == d->t.shndx;

	*s = *old;
	fix_references(&d->t, old, s);
	if (i == d->t.img->h.names_index && !names_are_shared(&d->t))
		return 0; /* written last */
	/* In the copied part, and its bytes are still right. */
	if (!made && d->t.img->n_segments &&
	    (elf_is_alloc(old) || (old->off < d->loaded && old->size <= d->loaded - old->off)))
		return 0;
	if (old->type == SHT_NULL || (!old->size && !made)) {
		s->off = d->o.pos;
		return 0;
	}
	if (elf_out_align(&d->o, old->align, err) < 0)
		return -1;
	s->off = d->o.pos;
	if (old->type == SHT_NOBITS)
		return 0;
	if (strip_add_content(d, old, err) < 0)
		return -1;
	s->size = d->o.pos - s->off;
	return 0;
}

static int strip_add_link(struct strip_out *d, const char *name, uint32_t crc, struct err *err)
{
	struct elf_section *s = &d->sections[d->n].s;
	uint8_t word[4];

	if (elf_out_align(&d->o, 4, err) < 0)
		return -1;
	*s = (struct elf_section){
		.name = STR(".gnu_debuglink"), .type = SHT_PROGBITS, .align = 4, .off = d->o.pos
	};
	elf_put(d->o.big, word, crc, 4);
	if (elf_out_add(&d->o, name, strlen(name) + 1, err) < 0 || elf_out_align(&d->o, 4, err) < 0 ||
	    elf_out_add(&d->o, word, 4, err) < 0)
		return -1;
	s->size = d->o.pos - s->off;
	d->n++;
	return 0;
}

static int strip_add_names(struct strip_out *d, struct err *err)
{
	const struct elf_image *img = d->t.img;
	uint32_t old = img->h.names_index;
	struct elf_section *s;

	if (names_are_shared(&d->t) || !d->t.new_index[old]) {
		d->names_index = (uint32_t)d->n++;
		d->sections[d->names_index].s = (struct elf_section){ .name = STR(".shstrtab"),
								      .type = SHT_STRTAB,
								      .align = 1 };
	} else {
		d->names_index = d->t.new_index[old];
	}
	for (size_t i = 1; i < d->n; i++)
		elf_strings_add(&d->names, d->sections[i].s.name);
	if (elf_strings_layout(&d->names, err) < 0)
		return -1;
	for (size_t i = 1; i < d->n; i++)
		d->sections[i].name_off = d->names.offs[i - 1];
	s = &d->sections[d->names_index].s;
	s->off = d->o.pos;
	s->size = d->names.bytes.size;
	return elf_out_add(&d->o, d->names.bytes.p, d->names.bytes.size, err);
}

static int strip_add_all(struct strip_out *d, const char *link_name, uint32_t crc, struct err *err)
{
	const struct elf_image *img = d->t.img;
	struct elf_out_tables tables = { .phoff = img->n_segments ? img->h.phoff : 0 };

	d->n = d->t.n_kept;
	/* Two more: the link, and the names of sections. */
	d->sections = arena_try(&d->t.a, (d->n + 2) * sizeof(*d->sections));
	if (!d->sections)
		return err_set(err, ERR_LIMIT, "no memory for %zu sections", d->n);
	memset(d->sections, 0, (d->n + 2) * sizeof(*d->sections));
	d->loaded = end_of_loaded(img);
	if (elf_out_copy(&d->o, img->src, 0, d->loaded, err) < 0)
		return -1;
	for (uint32_t i = 1; i < img->n_sections; i++)
		if (d->t.keep[i] && strip_add_section(d, i, err) < 0)
			return err_in(err, "section %u " STR_FMT, i, STR_ARG(img->sections[i].name));
	if (strip_add_link(d, link_name, crc, err) < 0 || strip_add_names(d, err) < 0)
		return -1;
	tables.sections = d->sections;
	tables.n_sections = d->n;
	tables.names_index = d->names_index;
	return elf_out_finish(&d->o, img, &tables, err);
}

int elf_split_strip(const struct elf_image *img, int fd, const char *link_name, uint32_t crc, struct err *err)
{
	AUTO(strip_out_done) struct strip_out d = { .t = { .img = img } };
	struct elf_strip *t = &d.t;

	elf_out_init(&d.o, fd, img);
	t->keep = arena_try(&t->a, img->n_sections);
	t->new_index = arena_try(&t->a, img->n_sections * sizeof(*t->new_index));
	if (!t->keep || !t->new_index)
		return err_set(err, ERR_LIMIT, "no memory for %u sections", img->n_sections);
	t->new_index[0] = 0;
	find_tables(t);
	if (choose_sections(t, err) < 0)
		return -1;
	if (t->symtab && elf_strip_symbols(t, err) < 0)
		return err_in(err, "symbols");
	number_sections(t);
	return strip_add_all(&d, link_name, crc, err);
}
