/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a Go program as its loader makes it: the bytes of its sections or, in a file without sections,
 * of its segments, with the words set that relocations of a position-independent program set.
 */
#include "symtab/go.h"

#include <elf.h>
#include <stdlib.h>

#define RELOCS_MAX (8u << 20)

/* The number of the kind of relocation that sets a word to its addend and the program's base. */
static uint32_t relative_kind(uint16_t machine)
{
	switch (machine) {
	case EM_X86_64:
		return R_X86_64_RELATIVE;
	case EM_AARCH64:
		return R_AARCH64_RELATIVE;
	case EM_PPC64:
		return R_PPC64_RELATIVE;
	case EM_S390:
		return R_390_RELATIVE;
	case EM_RISCV:
		return R_RISCV_RELATIVE;
	case EM_LOONGARCH:
		return R_LARCH_RELATIVE;
	}
	return UINT32_MAX; /* others have the addend in the word itself */
}

static int reloc_section_read(struct go *g, const struct elf_section *sec, size_t *room, struct err *err)
{
	AUTO(arena_done) struct arena a = { .hold = g->memory };
	uint32_t kind = relative_kind(g->img->h.machine);
	struct bytes b;
	struct cursor c;
	int r = elf_section_read(g->img, sec, GO_DATA_MAX, &a, &b, err);

	if (r)
		return r < 0 ? -1 : 0;
	c = cursor_at(b, g->big, 0);
	while (cursor_left(&c) >= 24) {
		uint64_t addr = cursor_u64(&c), info = cursor_u64(&c), addend = cursor_u64(&c);

		if ((uint32_t)info != kind)
			continue;
		if (g->n_relocs == RELOCS_MAX)
			return err_set(err, ERR_LIMIT, "more than the %u relocations allowed", RELOCS_MAX);
		if (g->n_relocs == *room) {
			VEC_GROW(g->relocs, g->n_relocs, *room);
			budget_hold_track(g->memory, &g->held, *room * sizeof(*g->relocs));
			if (budget_hold_check(g->memory, err) < 0)
				return -1;
		}
		g->relocs[g->n_relocs++] = (struct sort_key){ addr, addend };
	}
	return 0;
}

int go_relocs_read(struct go *g, struct err *err)
{
	size_t room = 0;

	if (g->img->h.type != ET_DYN || !g->img->h.is64)
		return 0;
	for (uint32_t i = 1; i < g->img->n_sections; i++) {
		const struct elf_section *sec = &g->img->sections[i];

		if (sec->type == SHT_RELA && sec->flags & SHF_ALLOC &&
		    reloc_section_read(g, sec, &room, err) < 0)
			return err_in(err, "relocations");
	}
	if (g->n_relocs)
		sort_keys(g->relocs, g->n_relocs);
	return 0;
}

bool go_part_at(const struct go *g, uint32_t i, struct go_part *ret)
{
	*ret = (struct go_part){ 0 };
	if (g->img->n_sections > 1) {
		const struct elf_section *sec = &g->img->sections[i];

		if (i >= g->img->n_sections)
			return false;
		if (!i || !(sec->flags & SHF_ALLOC) || sec->type != SHT_PROGBITS)
			return true;
		*ret = (struct go_part){ sec->name,
					 sec,
					 sec->addr,
					 sec->size,
					 sec->off,
					 sec->flags & SHF_WRITE,
					 sec->flags & SHF_EXECINSTR };
		return true;
	}
	if (i >= g->img->n_segments)
		return false;
	const struct elf_segment *seg = &g->img->segments[i];

	if (seg->type == PT_LOAD && seg->off < g->img->src->size)
		*ret = (struct go_part){ .addr = seg->vaddr,
					 .size = MIN(seg->filesz, g->img->src->size - seg->off),
					 .off = seg->off,
					 .writable = seg->flags & PF_W,
					 .code = seg->flags & PF_X };
	return true;
}

static void relocs_apply(const struct go *g, uint64_t addr, uint8_t *p, size_t size)
{
	size_t i = SEARCH(0, g->n_relocs, k, g->relocs[k].key < addr);

	for (; i < g->n_relocs && g->relocs[i].key - addr + 8 <= size; i++) {
		uint64_t v = g->big ? htobe64(g->relocs[i].at) : htole64(g->relocs[i].at);

		memcpy(p + (g->relocs[i].key - addr), &v, 8);
	}
}

int go_part_read(const struct go *g, const struct go_part *part, struct arena *a, struct bytes *ret,
		 struct err *err)
{
	uint8_t *p;
	int r;

	if (part->section)
		r = elf_section_read(g->img, part->section, GO_DATA_MAX, a, ret, err);
	else
		r = source_read_arena(g->img->src, range_of(part->off, part->size), GO_DATA_MAX, a, ret, err);
	if (r)
		return r;
	if (g->n_relocs && ret->size) {
		/* The bytes may be lent. */
		p = arena_try_err(a, ret->size, err);
		if (!p)
			return -1;
		memcpy(p, ret->p, ret->size);
		relocs_apply(g, part->addr, p, ret->size);
		*ret = bytes_of(p, ret->size);
	}
	return 0;
}
