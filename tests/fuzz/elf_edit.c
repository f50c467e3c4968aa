/* SPDX-License-Identifier: Apache-2.0 */
#include "elf_edit.h"

#include <elf.h>

#define MAX_SECTIONS 4096u

static const struct elf_field eh[EH_FIELDS] = {
	[EH_TYPE] = { 16, 2, 16, 2 },     [EH_MACHINE] = { 18, 2, 18, 2 }, [EH_VERSION] = { 20, 4, 20, 4 },
	[EH_ENTRY] = { 24, 8, 24, 4 },    [EH_PHOFF] = { 32, 8, 28, 4 },   [EH_SHOFF] = { 40, 8, 32, 4 },
	[EH_FLAGS] = { 48, 4, 36, 4 },    [EH_PHNUM] = { 56, 2, 44, 2 },   [EH_SHNUM] = { 60, 2, 48, 2 },
	[EH_SHSTRNDX] = { 62, 2, 50, 2 },
};
static const struct elf_field sh[SH_FIELDS] = {
	[SH_NAME] = { 0, 4, 0, 4 },      [SH_TYPE] = { 4, 4, 4, 4 },     [SH_FLAGS] = { 8, 8, 8, 4 },
	[SH_ADDR] = { 16, 8, 12, 4 },    [SH_OFFSET] = { 24, 8, 16, 4 }, [SH_SIZE] = { 32, 8, 20, 4 },
	[SH_LINK] = { 40, 4, 24, 4 },    [SH_INFO] = { 44, 4, 28, 4 },   [SH_ALIGN] = { 48, 8, 32, 4 },
	[SH_ENTSIZE] = { 56, 8, 36, 4 },
};
static const struct elf_field ph[PH_FIELDS] = {
	[PH_TYPE] = { 0, 4, 0, 4 },    [PH_FLAGS] = { 4, 4, 24, 4 },  [PH_OFFSET] = { 8, 8, 4, 4 },
	[PH_VADDR] = { 16, 8, 8, 4 },  [PH_PADDR] = { 24, 8, 12, 4 }, [PH_FILESZ] = { 32, 8, 16, 4 },
	[PH_MEMSZ] = { 40, 8, 20, 4 }, [PH_ALIGN] = { 48, 8, 28, 4 },
};

bool elf_edit_is64(const struct buf *f)
{
	return f->size > EI_DATA && f->p[EI_CLASS] != ELFCLASS32;
}

static bool is_big(const struct buf *f)
{
	return f->size > EI_DATA && f->p[EI_DATA] == ELFDATA2MSB;
}

uint64_t elf_edit_get(const struct buf *f, uint64_t at, unsigned size)
{
	uint64_t value = 0;

	if (at > f->size || f->size - at < size)
		return 0;
	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)f->p[at + i] << 8 * (is_big(f) ? size - 1 - i : i);
	return value;
}

void elf_edit_put(struct buf *f, uint64_t at, unsigned size, uint64_t value)
{
	bool big = is_big(f);

	if (at > f->size || f->size - at < size)
		return;
	for (unsigned i = 0; i < size; i++)
		f->p[at + i] = (uint8_t)(value >> 8 * (big ? size - 1 - i : i));
}

static struct elf_place_of place(const struct buf *f, uint64_t base, const struct elf_field *field)
{
	if (elf_edit_is64(f))
		return (struct elf_place_of){ base + field->at64, field->size64 };
	return (struct elf_place_of){ base + field->at32, field->size32 };
}

static unsigned sh_size(const struct buf *f)
{
	return elf_edit_is64(f) ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
}

static unsigned ph_size(const struct buf *f)
{
	return elf_edit_is64(f) ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
}

struct elf_place_of elf_edit_eh(const struct buf *f, unsigned field)
{
	return place(f, 0, &eh[field]);
}

struct elf_place_of elf_edit_sh(const struct buf *f, uint64_t i, unsigned field)
{
	return place(f, elf_edit_at(f, elf_edit_eh(f, EH_SHOFF)) + i * sh_size(f), &sh[field]);
}

struct elf_place_of elf_edit_ph(const struct buf *f, uint64_t i, unsigned field)
{
	return place(f, elf_edit_at(f, elf_edit_eh(f, EH_PHOFF)) + i * ph_size(f), &ph[field]);
}

static uint64_t table_count(const struct buf *f, uint64_t off, uint64_t n, unsigned size)
{
	uint64_t room = off && off < f->size ? (f->size - off) / size : 0;

	return MIN(MIN(n, room), (uint64_t)MAX_SECTIONS);
}

uint64_t elf_edit_n_sections(const struct buf *f)
{
	return table_count(f, elf_edit_at(f, elf_edit_eh(f, EH_SHOFF)),
			   elf_edit_at(f, elf_edit_eh(f, EH_SHNUM)), sh_size(f));
}

uint64_t elf_edit_n_segments(const struct buf *f)
{
	return table_count(f, elf_edit_at(f, elf_edit_eh(f, EH_PHOFF)),
			   elf_edit_at(f, elf_edit_eh(f, EH_PHNUM)), ph_size(f));
}

struct bytes elf_edit_content(const struct buf *f, uint64_t section)
{
	uint64_t off = elf_edit_at(f, elf_edit_sh(f, section, SH_OFFSET)),
		 size = elf_edit_at(f, elf_edit_sh(f, section, SH_SIZE));

	if (elf_edit_at(f, elf_edit_sh(f, section, SH_TYPE)) == SHT_NOBITS || off > f->size)
		return (struct bytes){ 0 };
	return bytes_of(f->p + off, (size_t)MIN(size, f->size - off));
}

struct str elf_edit_name(const struct buf *f, uint64_t section)
{
	struct bytes names = elf_edit_content(f, elf_edit_at(f, elf_edit_eh(f, EH_SHSTRNDX)));
	uint64_t at = elf_edit_at(f, elf_edit_sh(f, section, SH_NAME));

	if (at >= names.size)
		return (struct str){ 0 };
	return (struct str){ (const char *)names.p + at,
			     strnlen((const char *)names.p + at, names.size - at) };
}

uint64_t elf_edit_find(const struct buf *f, const char *name)
{
	for (uint64_t i = 1; i < elf_edit_n_sections(f); i++)
		if (str_eq(elf_edit_name(f, i), str_of(name)))
			return i;
	return 0;
}

static void align_end(struct buf *f)
{
	while (f->size % 8)
		buf_add_char(f, 0);
}

void elf_edit_set_content(struct buf *f, uint64_t section, struct bytes content)
{
	struct elf_place_of off = elf_edit_sh(f, section, SH_OFFSET), size = elf_edit_sh(f, section, SH_SIZE);
	AUTO(buf_done) struct buf copy = { 0 }; /* it may be a part of @f */

	if (content.size)
		buf_add(&copy, content.p, content.size);
	align_end(f);
	elf_edit_put(f, off.at, off.size, f->size);
	elf_edit_put(f, size.at, size.size, copy.size);
	if (copy.size)
		buf_add(f, copy.p, copy.size);
}

void elf_edit_rename(struct buf *f, uint64_t section, const char *name)
{
	uint64_t table = elf_edit_at(f, elf_edit_eh(f, EH_SHSTRNDX));
	struct bytes old = elf_edit_content(f, table);
	struct elf_place_of at = elf_edit_sh(f, section, SH_NAME);
	AUTO(buf_done) struct buf names = { 0 };

	if (old.size)
		buf_add(&names, old.p, old.size);
	elf_edit_put(f, at.at, at.size, names.size);
	buf_add(&names, name, strlen(name) + 1);
	elf_edit_set_content(f, table, buf_bytes(&names));
}

uint64_t elf_edit_add(struct buf *f, const struct buf *from, uint64_t like, struct bytes content)
{
	AUTO(buf_done) struct buf table = { 0 }, copy = { 0 };
	uint64_t n = elf_edit_n_sections(f), old = elf_edit_at(f, elf_edit_eh(f, EH_SHOFF));
	struct elf_place_of shoff = elf_edit_eh(f, EH_SHOFF), shnum = elf_edit_eh(f, EH_SHNUM);
	uint64_t fields[SH_FIELDS];

	if (content.size)
		buf_add(&copy, content.p, content.size);
	for (unsigned i = 0; i < SH_FIELDS; i++)
		fields[i] = elf_edit_at(from, elf_edit_sh(from, like, i));
	if (n)
		buf_add(&table, f->p + old, (size_t)(n * sh_size(f)));
	align_end(f);
	elf_edit_put(f, shoff.at, shoff.size, f->size);
	elf_edit_put(f, shnum.at, shnum.size, n + 1);
	if (table.size)
		buf_add(f, table.p, table.size);
	for (unsigned i = 0; i < sh_size(f); i++)
		buf_add_char(f, 0);
	for (unsigned i = 0; i < SH_FIELDS; i++) {
		struct elf_place_of at = elf_edit_sh(f, n, i);

		elf_edit_put(f, at.at, at.size, fields[i]);
	}
	elf_edit_set_content(f, n, buf_bytes(&copy));
	return n;
}

void elf_edit_remove(struct buf *f, uint64_t section)
{
	uint64_t n = elf_edit_n_sections(f), off = elf_edit_at(f, elf_edit_eh(f, EH_SHOFF));
	struct elf_place_of shnum = elf_edit_eh(f, EH_SHNUM);
	unsigned size = sh_size(f);

	if (section >= n)
		return;
	memmove(f->p + off + section * size, f->p + off + (section + 1) * size,
		(size_t)((n - section - 1) * size));
	elf_edit_put(f, shnum.at, shnum.size, n - 1);
}
