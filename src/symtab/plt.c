/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of procedure linkage table entries: "puts@plt".
 *
 * Linkers lay these tables out in many ways, but each entry jumps through a slot of the global offset table,
 * and the relocation of the slot names the function. So the jump is decoded, whatever the layout. x86-64 and
 * aarch64.
 */
#include "symtab/build.h"

#include <elf.h>
#include <stdlib.h>

#define SECTION_MAX MIB(64)

struct got_slot {
	uint64_t addr;
	uint32_t symbol;
};

struct plt_reader {
	struct symbols *s;
	const struct elf_image *img;
	struct arena arena;
	uint64_t held;          /* of s->memory, by `slots` */
	struct got_slot *slots; /* sorted */
	size_t n_slots, room_slots;
	struct bytes symbols, names;
};

static int slot_by_addr(const void *a, const void *b)
{
	const struct got_slot *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int plt_read_slots(struct plt_reader *p, struct err *err)
{
	for (uint32_t i = 1; i < p->img->n_sections; i++) {
		const struct elf_section *sec = &p->img->sections[i], *dynsym;
		struct bytes b;
		struct cursor c;
		int r;

		if (sec->type != SHT_RELA || !(sec->flags & SHF_ALLOC) || !sec->link ||
		    sec->link >= p->img->n_sections)
			continue;
		dynsym = &p->img->sections[sec->link];
		if (dynsym->type != SHT_DYNSYM || !dynsym->link || dynsym->link >= p->img->n_sections)
			continue;
		r = elf_section_read(p->img, sec, SECTION_MAX, &p->arena, &b, err);
		if (r == 0 && !p->symbols.size) {
			r = elf_section_read(p->img, dynsym, SECTION_MAX, &p->arena, &p->symbols, err);
			if (r == 0)
				r = elf_section_read(p->img, &p->img->sections[dynsym->link], SECTION_MAX,
						     &p->arena, &p->names, err);
		}
		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		c = cursor_at(b, p->img->h.big, 0);
		while (cursor_left(&c) >= 24) {
			struct got_slot one = { .addr = cursor_u64(&c), .symbol = 0 };

			one.symbol = (uint32_t)(cursor_u64(&c) >> 32);
			cursor_skip(&c, 8);
			if (!one.symbol)
				continue;
			if (p->n_slots == p->room_slots) {
				VEC_GROW(p->slots, p->n_slots, p->room_slots);
				budget_hold_track(p->s->memory, &p->held, p->room_slots * sizeof(*p->slots));
				if (budget_hold_check(p->s->memory, err) < 0)
					return -1;
			}
			p->slots[p->n_slots++] = one;
		}
	}
	if (p->n_slots)
		qsort(p->slots, p->n_slots, sizeof(*p->slots), slot_by_addr);
	return 0;
}

static struct str plt_symbol_name(const struct plt_reader *p, uint32_t symbol)
{
	struct cursor c = cursor_at(p->symbols, p->img->h.big, 0);
	const uint8_t *nul;
	uint32_t off;

	if (!cursor_seek(&c, (uint64_t)symbol * 24))
		return (struct str){ 0 };
	off = cursor_u32(&c);
	if (!cursor_ok(&c) || off >= p->names.size)
		return (struct str){ 0 };
	nul = memchr(p->names.p + off, 0, MIN(p->names.size - off, DWARF_MAX_NAME));
	return nul ? (struct str){ (const char *)p->names.p + off, (size_t)(nul - (p->names.p + off)) }
		   : (struct str){ 0 };
}

/* The slot that the entry of @size bytes at @addr jumps through; 0: it has no such jump. */
static uint64_t slot_x86(const uint8_t *e, size_t size, uint64_t addr)
{
	for (size_t i = 0; i + 6 <= size && i < 8; i++)
		if (e[i] == 0xff && e[i + 1] == 0x25)
			return addr + i + 6 + (uint64_t)(int64_t)(int32_t)get32(e + i + 2);
	return 0;
}

/* Of the two instructions at @e: adrp x16, page; ldr x17, [x16, slot]. */
static uint64_t slot_aarch64(const uint8_t *e, uint64_t addr)
{
	uint32_t adrp = get32(e), ldr = get32(e + 4);
	int64_t pages;

	if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return 0;
	pages = (int64_t)(int32_t)((adrp >> 5 & 0x7ffff) << 13 | (adrp >> 29 & 3) << 11) >> 11;
	return (addr & ~(uint64_t)0xfff) + ((uint64_t)pages << 12) + (uint64_t)(ldr >> 10 & 0xfff) * 8;
}

static int plt_add(struct plt_reader *p, uint64_t slot, uint64_t addr, unsigned size, struct err *err)
{
	struct got_slot *at = slot ? bsearch(&(struct got_slot){ .addr = slot }, p->slots, p->n_slots,
					     sizeof(*p->slots), slot_by_addr)
				   : NULL;
	struct str name = at ? plt_symbol_name(p, at->symbol) : (struct str){ 0 };

	if (!name.size || p->s->n >= SYMTAB_MAX_SYMBOLS)
		return 0;
	/* Any number of entries may have the same long name. */
	if (symbols_grow(p->s, err) < 0 || budget_hold_check(p->s->memory, err) < 0)
		return -1;
	p->s->list[p->s->n++] = (struct symbol){
		.start = addr,
		.end = addr + size,
		.name = str_of(arena_printf(&p->s->arena, STR_FMT "@plt", STR_ARG(name))),
		.origin = SYMTAB_PLT,
		.rank = 32,
	};
	return 0;
}

static int plt_x86(struct plt_reader *p, const struct elf_section *sec, struct bytes b, struct err *err)
{
	/* .plt.got has entries of 8 bytes, unless they begin with endbr64. Old linkers gave it no entsize. */
	unsigned size = sec->entsize == 8 || (!sec->entsize && sec->align == 8) ? 8 : 16;

	for (size_t i = 0; i + size <= b.size; i += size) {
		uint64_t addr = sec->addr + i;

		if (plt_add(p, slot_x86(b.p + i, size, addr), addr, size, err) < 0)
			return -1;
	}
	return 0;
}

#define AARCH64_BTI_C  0xd503245fu
#define AARCH64_BR_X17 0xd61f0220u
#define AARCH64_NOP    0xd503201fu

/*
 * An entry has 16 bytes, or 24 if it marks a branch target (bti c) or checks a pointer (autia1716). It ends with
 * br x17 and nops.
 */
static int plt_aarch64(struct plt_reader *p, const struct elf_section *sec, struct bytes b, struct err *err)
{
	size_t start, end;

	for (size_t i = 0; i + 8 <= b.size; i = end) {
		uint64_t slot = slot_aarch64(b.p + i, sec->addr + i);

		end = i + 4;
		if (!slot)
			continue;
		start = i >= 4 && get32(b.p + i - 4) == AARCH64_BTI_C ? i - 4 : i;
		while (end + 4 <= b.size && get32(b.p + end - 4) != AARCH64_BR_X17)
			end += 4;
		while (end + 4 <= b.size && get32(b.p + end) == AARCH64_NOP)
			end += 4;
		if (plt_add(p, slot, sec->addr + start, (unsigned)(end - start), err) < 0)
			return -1;
	}
	return 0;
}

static int plt_read_entries(struct plt_reader *p, const struct elf_section *sec, struct err *err)
{
	struct bytes b;
	int r = elf_section_read(p->img, sec, SECTION_MAX, &p->arena, &b, err);

	if (r)
		return r < 0 ? -1 : 0;
	return (p->img->h.machine == EM_X86_64 ? plt_x86 : plt_aarch64)(p, sec, b, err);
}

int plt_read(struct symbols *s, const struct elf_image *img, struct err *err)
{
	struct plt_reader p = { .s = s, .img = img, .arena.hold = s->memory };
	int r = 0;

	if ((img->h.machine != EM_X86_64 && img->h.machine != EM_AARCH64) || img->h.big || !img->h.is64 ||
	    img->h.type == ET_REL)
		return 0;
	r = plt_read_slots(&p, err);
	for (uint32_t i = 1; r == 0 && p.n_slots && i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];

		if (sec->type == SHT_PROGBITS && sec->flags & SHF_EXECINSTR &&
		    (str_eq(sec->name, STR(".plt")) || str_starts(sec->name, STR(".plt."))))
			r = plt_read_entries(&p, sec, err);
	}
	free(p.slots);
	budget_hold_track(s->memory, &p.held, 0);
	arena_done(&p.arena);
	return r;
}
