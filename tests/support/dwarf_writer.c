/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes debug sections for tests.
 */
#include "dwarf_writer.h"

#include <assert.h>
#include <stdlib.h>

enum { LINE, INFO, ABBREV, STR, LINE_STR, STR_OFFSETS, N_SECTIONS };

static const char *const section_names[N_SECTIONS] = {
	".debug_line", ".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets"
};

/* The relocation that writes 4 or 8 bytes, and whether the addend is in the section (REL) or in the entry. */
static const struct {
	uint16_t machine, type4, type8;
	bool rel;
} machines[] = {
	{ EM_X86_64, 10, 1, false }, { EM_386, 1, 0, true },     { EM_S390, 4, 22, false },
	{ EM_PPC, 1, 0, false },     { EM_ARM, 2, 0, true },     { EM_AARCH64, 258, 257, false },
	{ EM_RISCV, 1, 2, false },   { EM_PPC64, 1, 38, false },
};

static struct buf *section_buf(struct dwarf_writer *d, unsigned section)
{
	struct buf *bufs[N_SECTIONS] = { &d->line, &d->info,     &d->abbrev,
					 &d->str,  &d->line_str, &d->str_offsets };

	return bufs[section];
}

void dwarf_writer_init(struct dwarf_writer *d, struct elf_writer *elf)
{
	*d = (struct dwarf_writer){ .elf = elf, .relocate = elf->type == ET_REL };
	/* So that offset 0 is not the name of any entry. */
	buf_add(&d->str, "wrong", 6);
	buf_add(&d->line_str, "wrong too", 10);
	buf_add(&d->sup_str, "wrong as well", 14);
}

void dwarf_writer_done(struct dwarf_writer *d)
{
	for (unsigned i = 0; i < N_SECTIONS; i++)
		buf_done(section_buf(d, i));
	buf_done(&d->sup_str);
	free(d->relocs);
}

static void put(struct dwarf_writer *d, struct buf *b, uint64_t v, unsigned size)
{
	elf_writer_put(d->elf, b, v, size);
}

static bool is_rel(const struct dwarf_writer *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == d->elf->machine)
			return machines[i].rel;
	return false;
}

/* An offset into @target, written into @section: directly, or by a relocation. */
static void put_offset(struct dwarf_writer *d, unsigned section, unsigned target, uint64_t v, unsigned size)
{
	struct buf *b = section_buf(d, section);

	if (!d->relocate) {
		put(d, b, v, size);
		return;
	}
	if (d->n_relocs == d->room_relocs) {
		d->room_relocs = d->room_relocs ? d->room_relocs * 2 : 64;
		d->relocs = mem_realloc(d->relocs, d->room_relocs, sizeof(*d->relocs));
	}
	d->relocs[d->n_relocs++] = (struct dwarf_writer_reloc){ section, b->size, size, target,
								v - d->symbol_value };
	/* With RELA the bytes in the section do not matter, and are wrong on purpose. */
	put(d, b, is_rel(d) ? v - d->symbol_value : 1, size);
}

static uint64_t add_string(struct buf *b, const char *s)
{
	uint64_t off = b->size;

	buf_add(b, s, strlen(s) + 1);
	return off;
}

/* The index of a string in .debug_str_offsets, which has one part with a header of 8 or 16 bytes. */
static uint64_t add_indexed(struct dwarf_writer *d, const char *s, unsigned offset_size)
{
	uint64_t header = offset_size == 8 ? 16 : 8;

	if (!d->str_offsets.size)
		for (uint64_t i = 0; i < header; i++)
			buf_add_char(&d->str_offsets, 'h');
	put_offset(d, STR_OFFSETS, STR, add_string(&d->str, s), offset_size);
	return (d->str_offsets.size - header) / offset_size - 1;
}

static void put_string(struct dwarf_writer *d, unsigned section, enum dwarf_writer_form form, const char *s,
		       unsigned offset_size)
{
	static const unsigned sizes[] = { 1, 2, 3, 4 };
	struct buf *b = section_buf(d, section);

	switch (form) {
	case DWARF_WRITER_STRING:
		buf_add(b, s, strlen(s) + 1);
		break;
	case DWARF_WRITER_STRP:
		put_offset(d, section, STR, add_string(&d->str, s), offset_size);
		break;
	case DWARF_WRITER_LINE_STRP:
		put_offset(d, section, LINE_STR, add_string(&d->line_str, s), offset_size);
		break;
	case DWARF_WRITER_STRX:
		buf_add_uleb(b, add_indexed(d, s, offset_size));
		break;
	case DWARF_WRITER_STRX1:
	case DWARF_WRITER_STRX2:
	case DWARF_WRITER_STRX3:
	case DWARF_WRITER_STRX4:
		put(d, b, add_indexed(d, s, offset_size), sizes[form - DWARF_WRITER_STRX1]);
		break;
	case DWARF_WRITER_STRP_SUP:
	case DWARF_WRITER_GNU_STRP_ALT:
		put(d, b, add_string(&d->sup_str, s), offset_size);
		break;
	}
}

static uint64_t form_number(enum dwarf_writer_form form)
{
	static const uint64_t numbers[] = { 0x08, 0x0e, 0x1f, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x1d, 0x1f21 };

	return numbers[form];
}

/* unit_length, set when the end is known. */
static size_t begin(struct dwarf_writer *d, struct buf *b, bool dwarf64)
{
	if (dwarf64)
		put(d, b, 0xffffffff, 4);
	put(d, b, 0, dwarf64 ? 8 : 4);
	return b->size;
}

static void end(struct dwarf_writer *d, struct buf *b, size_t start, bool dwarf64)
{
	AUTO(buf_done) struct buf length = { 0 };
	unsigned size = dwarf64 ? 8 : 4;

	put(d, &length, b->size - start, size);
	memcpy(b->p + start - size, length.p, size);
}

/* ---- line tables ---- */

static void put_lists_v2(struct dwarf_writer *d, const struct dwarf_writer_table *t)
{
	struct buf *b = &d->line;

	for (size_t i = 0; t->dirs && t->dirs[i]; i++)
		buf_add(b, t->dirs[i], strlen(t->dirs[i]) + 1);
	buf_add_char(b, '\0');
	for (const struct dwarf_writer_file *f = t->files; f && f->name; f++) {
		buf_add(b, f->name, strlen(f->name) + 1);
		buf_add_uleb(b, f->dir);
		buf_add_uleb(b, 123456789);
		buf_add_uleb(b, 1000);
	}
	buf_add_char(b, '\0');
}

static void put_format(struct buf *b, uint64_t content, uint64_t form)
{
	buf_add_uleb(b, content);
	buf_add_uleb(b, form);
}

static void put_lists_v5(struct dwarf_writer *d, const struct dwarf_writer_table *t)
{
	unsigned offset_size = t->dwarf64 ? 8 : 4;
	struct buf *b = &d->line;
	size_t n = 0;

	while (t->dirs && t->dirs[n])
		n++;
	buf_add_char(b, 1);
	put_format(b, 1, form_number(t->form));
	buf_add_uleb(b, n);
	for (size_t i = 0; i < n; i++)
		put_string(d, LINE, t->form, t->dirs[i], offset_size);
	n = 0;
	while (t->files && t->files[n].name)
		n++;
	buf_add_char(b, t->rich ? 6 : 2);
	if (t->rich)
		put_format(b, 5, 0x1e); /* MD5, data16 */
	put_format(b, 1, form_number(t->form));
	put_format(b, 2, t->rich ? 0x05 : 0x0f); /* directory: data2, udata */
	if (t->rich) {
		put_format(b, 3, 0x09);      /* time: block */
		put_format(b, 4, 0x06);      /* size: data4 */
		put_format(b, 0x2001, 0x08); /* LLVM's source: string */
	}
	buf_add_uleb(b, n);
	for (size_t i = 0; i < n; i++) {
		if (t->rich)
			buf_add(b, "0123456789abcdef", 16);
		put_string(d, LINE, t->form, t->files[i].name, offset_size);
		if (!t->rich) {
			buf_add_uleb(b, t->files[i].dir);
			continue;
		}
		put(d, b, t->files[i].dir, 2);
		buf_add_uleb(b, 3);
		buf_add(b, "abc", 3);
		put(d, b, 77, 4);
		buf_add(b, "int main;", 10);
	}
}

uint64_t dwarf_writer_table(struct dwarf_writer *d, const struct dwarf_writer_table *t)
{
	static const uint8_t lengths[12] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };
	uint64_t at = d->line.size;
	struct buf *b = &d->line;
	size_t start = begin(d, b, t->dwarf64), header;

	put(d, b, t->version, 2);
	if (t->version >= 5) {
		buf_add_char(b, (char)elf_writer_word(d->elf));
		buf_add_char(b, 0);
	}
	put(d, b, 0, t->dwarf64 ? 8 : 4);
	header = b->size;
	buf_add_char(b, 1);
	if (t->version >= 4)
		buf_add_char(b, 1);
	buf_add_char(b, 1);
	buf_add_char(b, -5);
	buf_add_char(b, 14);
	buf_add_char(b, 13);
	buf_add(b, lengths, sizeof(lengths));
	if (t->version >= 5)
		put_lists_v5(d, t);
	else
		put_lists_v2(d, t);
	end(d, b, header, t->dwarf64);
	for (unsigned i = 0; i < t->program; i++)
		buf_add_char(b, 1); /* DW_LNS_copy */
	end(d, b, start, t->dwarf64);
	return at;
}

/* ---- units ---- */

static void put_attr(struct buf *b, uint64_t name, uint64_t form)
{
	buf_add_uleb(b, name);
	buf_add_uleb(b, form);
}

static bool is_indexed(enum dwarf_writer_form form)
{
	return form >= DWARF_WRITER_STRX && form <= DWARF_WRITER_STRX4;
}

/* The abbreviation table of one unit: further entries first, if requested, then the root's. */
static void put_abbrevs(struct dwarf_writer *d, const struct dwarf_writer_unit *u)
{
	struct buf *b = &d->abbrev;
	bool base = is_indexed(u->form) && u->version >= 5;

	for (unsigned i = 0; i < u->n_abbrevs_before; i++) {
		buf_add_uleb(b, i + 1);
		buf_add_uleb(b, 0x34);
		buf_add_char(b, 0);
		put_attr(b, 0x03, 0x08);
		put_attr(b, 0x3b, 0x21); /* implicit_const: its value is stored here */
		buf_add_char(b, 0x7f);
		put_attr(b, 0, 0);
	}
	buf_add_uleb(b, u->n_abbrevs_before + 1);
	buf_add_uleb(b, 0x11);
	buf_add_char(b, 1);
	if (u->padding)
		put_attr(b, 0x2000, 0x09); /* of an unknown vendor, a block */
	put_attr(b, 0x13, 0x21);           /* language, implicit_const */
	buf_add_char(b, 12);
	if (base && !u->base_last)
		put_attr(b, 0x72, 0x17);
	if (u->name)
		put_attr(b, 0x03, form_number(u->form));
	if (u->comp_dir)
		put_attr(b, 0x1b, form_number(u->form));
	if (u->stmt_list != UINT64_MAX)
		put_attr(b, 0x10, u->version >= 4 ? 0x17 : u->dwarf64 ? 0x07 : 0x06);
	if (base && u->base_last)
		put_attr(b, 0x72, 0x17);
	put_attr(b, 0x11, 0x01); /* low_pc */
	put_attr(b, 0, 0);
	buf_add_char(b, 0);
}

static void put_root(struct dwarf_writer *d, const struct dwarf_writer_unit *u)
{
	unsigned offset_size = u->dwarf64 ? 8 : 4;
	bool base = is_indexed(u->form) && u->version >= 5;
	struct buf *b = &d->info;

	buf_add_uleb(b, u->n_abbrevs_before + 1);
	if (u->padding)
		buf_add_uleb(b, u->padding);
	for (unsigned i = 0; i < u->padding; i++)
		buf_add_char(b, 'p');
	if (base && !u->base_last)
		put_offset(d, INFO, STR_OFFSETS, offset_size == 8 ? 16 : 8, offset_size);
	if (u->name)
		put_string(d, INFO, u->form, u->name, offset_size);
	if (u->comp_dir)
		put_string(d, INFO, u->form, u->comp_dir, offset_size);
	if (u->stmt_list != UINT64_MAX)
		put_offset(d, INFO, LINE, u->stmt_list, offset_size);
	if (base && u->base_last)
		put_offset(d, INFO, STR_OFFSETS, offset_size == 8 ? 16 : 8, offset_size);
	put(d, b, 0, elf_writer_word(d->elf));
	for (unsigned i = 0; i < u->children; i++)
		buf_add_char(b, 'c');
}

uint64_t dwarf_writer_unit(struct dwarf_writer *d, const struct dwarf_writer_unit *u)
{
	unsigned offset_size = u->dwarf64 ? 8 : 4, type = u->type ? u->type : 1;
	uint64_t at = d->info.size, abbrevs = d->abbrev.size;
	struct buf *b = &d->info;
	size_t start;

	put_abbrevs(d, u);
	start = begin(d, b, u->dwarf64);
	put(d, b, u->version, 2);
	if (u->version >= 5) {
		buf_add_char(b, (char)type);
		buf_add_char(b, (char)elf_writer_word(d->elf));
	}
	put_offset(d, INFO, ABBREV, abbrevs, offset_size);
	if (u->version < 5)
		buf_add_char(b, (char)elf_writer_word(d->elf));
	if (u->version >= 5 && (type == 4 || type == 5))
		put(d, b, 0x1122334455667788, 8);
	if (u->version >= 5 && (type == 2 || type == 6)) {
		put(d, b, 0x1122334455667788, 8);
		put(d, b, 0, offset_size);
	}
	put_root(d, u);
	end(d, b, start, u->dwarf64);
	return at;
}

/* ---- the sections ---- */

static unsigned reloc_type(const struct dwarf_writer *d, unsigned size)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == d->elf->machine)
			return size == 8 ? machines[i].type8 : machines[i].type4;
	assert(false);
	return 0;
}

/* Section symbols 1 to N_SECTIONS. */
static unsigned add_symtab(struct dwarf_writer *d)
{
	AUTO(buf_done) struct buf b = { 0 };
	unsigned i;

	for (i = 0; i <= N_SECTIONS; i++) {
		uint64_t value = i ? d->symbol_value : 0;

		elf_writer_put(d->elf, &b, 0, 4);
		if (d->elf->is64) {
			elf_writer_put(d->elf, &b, STT_SECTION, 1);
			elf_writer_put(d->elf, &b, 0, 1);
			elf_writer_put(d->elf, &b, 1, 2);
			elf_writer_put(d->elf, &b, value, 8);
			elf_writer_put(d->elf, &b, 0, 8);
		} else {
			elf_writer_put(d->elf, &b, value, 4);
			elf_writer_put(d->elf, &b, 0, 4);
			elf_writer_put(d->elf, &b, STT_SECTION, 1);
			elf_writer_put(d->elf, &b, 0, 1);
			elf_writer_put(d->elf, &b, 1, 2);
		}
	}
	return elf_writer_section(d->elf, ".symtab", SHT_SYMTAB, 0, buf_bytes(&b));
}

static void add_relocs(struct dwarf_writer *d, unsigned section, unsigned index, unsigned symtab)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *name = mem_printf("%s%s", is_rel(d) ? ".rel" : ".rela", section_names[section]);
	unsigned word = elf_writer_word(d->elf), at;

	for (size_t i = 0; i < d->n_relocs; i++) {
		const struct dwarf_writer_reloc *r = &d->relocs[i];
		uint64_t symbol = r->target + 1, type = reloc_type(d, r->size);

		if (r->section != section)
			continue;
		elf_writer_put(d->elf, &b, r->off, word);
		elf_writer_put(d->elf, &b, d->elf->is64 ? symbol << 32 | type : symbol << 8 | type, word);
		if (!is_rel(d))
			elf_writer_put(d->elf, &b, r->addend, word);
	}
	if (!b.size)
		return;
	at = elf_writer_section(d->elf, name, is_rel(d) ? SHT_REL : SHT_RELA, SHF_INFO_LINK, buf_bytes(&b));
	elf_writer_at(d->elf, at)->link = symtab;
	elf_writer_at(d->elf, at)->info = index;
}

void dwarf_writer_finish(struct dwarf_writer *d)
{
	unsigned symtab = d->relocate ? add_symtab(d) : 0;

	for (unsigned i = 0; i < N_SECTIONS; i++) {
		AUTO(mem_freep) char *name = mem_printf("%s%s", section_names[i], d->dwo ? ".dwo" : "");
		struct bytes data = buf_bytes(section_buf(d, i));
		unsigned at;

		if (!data.size)
			continue;
		at = d->compress ? elf_writer_compressed(d->elf, name,
							 d->compress == UINT32_MAX ? 0 : d->compress, data)
				 : elf_writer_section(d->elf, name, SHT_PROGBITS, 0, data);
		if (d->relocate)
			add_relocs(d, i, at, symtab);
	}
}
