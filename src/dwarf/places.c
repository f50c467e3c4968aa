/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a file's code: its sections of code and, where these were removed, as from a file that a
 * profiler has stripped for an upload, its executable segments.
 */
#include "dwarf/code.h"

#include <elf.h>
#include <stdlib.h>

/* Linkers leave less than this between two sections of a segment. */
#define GAP_MIN KIB(4)
/* Each segment is compared with all sections in it; real files have up to ten executable segments. */
#define GAP_SEGMENTS 64u
#define GAPS_MAX     256u
/* No code has a lower address: the ELF header has these, or a linker has dropped the code. */
#define ANYWHERE_BASE 0x40u

struct place_list {
	struct dwarf_section_place *list;
	size_t n;
};

static void place_add(struct place_list *p, uint32_t index, uint64_t base, uint64_t size)
{
	p->list[p->n++] = (struct dwarf_section_place){ index, base, size };
}

static int place_by_base(const void *a, const void *b)
{
	const struct dwarf_section_place *x = a, *y = b;

	if (x->base != y->base)
		return x->base < y->base ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static bool segment_has_code(const struct elf_segment *seg)
{
	return seg->type == PT_LOAD && seg->flags & PF_X && seg->memsz &&
	       seg->memsz <= UINT64_MAX - seg->vaddr;
}

static void code_of_sections(const struct elf_image *img, struct place_list *p)
{
	uint64_t base = 0;

	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];
		uint64_t at = sec->addr, align = sec->align;

		if (!(sec->flags & SHF_ALLOC) || !(sec->flags & SHF_EXECINSTR) || !sec->size)
			continue;
		if (img->h.type == ET_REL) {
			if (!align || align & (align - 1) || align > MIB(2))
				align = 16;
			at = (base + align - 1) & ~(align - 1);
			if (at < base)
				break;
		}
		if (sec->size > UINT64_MAX - at)
			continue;
		base = at + sec->size;
		place_add(p, i, at, sec->size);
	}
}

static void code_of_segments(const struct elf_image *img, struct place_list *p)
{
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *seg = &img->segments[i];

		if (segment_has_code(seg))
			place_add(p, 0, seg->vaddr, seg->memsz);
	}
}

/* The sections that are loaded, of code or not, sorted by base; the caller frees them. */
static struct place_list loaded_sections(const struct elf_image *img)
{
	struct place_list p = { .list = NEW_N(struct dwarf_section_place, (size_t)img->n_sections + 1) };

	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];

		/* .tbss has an address, but no memory there. */
		if (sec->flags & SHF_ALLOC && sec->size && sec->size <= UINT64_MAX - sec->addr &&
		    !(sec->flags & SHF_TLS && sec->type == SHT_NOBITS))
			place_add(&p, i, sec->addr, sec->size);
	}
	if (p.n)
		qsort(p.list, p.n, sizeof(*p.list), place_by_base);
	return p;
}

/* Add the parts of executable segments that no section describes any more. */
static void code_of_gaps(const struct elf_image *img, struct place_list *p)
{
	struct place_list loaded = loaded_sections(img);
	uint64_t headers = (img->h.is64 ? 64 : 52) + (uint64_t)img->n_segments * (img->h.is64 ? 56 : 32);
	size_t first = p->n;
	unsigned n = 0;

	for (uint32_t i = 0; i < img->n_segments && n < GAP_SEGMENTS; i++) {
		const struct elf_segment *seg = &img->segments[i];
		uint64_t at = seg->vaddr, end = seg->vaddr + seg->memsz;

		if (!segment_has_code(seg))
			continue;
		n++;
		/* Where a segment starts with the file's headers, dead code at address 0 would be in it. */
		if (!seg->off)
			at += MIN(headers, seg->memsz);
		for (size_t k = SEARCH(0, loaded.n, x, loaded.list[x].base + loaded.list[x].size <= at);
		     at < end && p->n - first < GAPS_MAX; k++) {
			uint64_t to = k < loaded.n ? MIN(loaded.list[k].base, end) : end;

			if (to > at && to - at >= GAP_MIN)
				place_add(p, 0, at, to - at);
			if (k >= loaded.n)
				break;
			at = MAX(at, loaded.list[k].base + loaded.list[k].size);
		}
	}
	free(loaded.list);
}

static bool has_code_segment(const struct elf_image *img)
{
	for (uint32_t i = 0; i < img->n_segments; i++)
		if (segment_has_code(&img->segments[i]))
			return true;
	return false;
}

/*
 * parca-agent (0.49) strips a file to sections of code that have an address and the size 0, and leaves out all loaded
 * segments. Such a section extends to the next one.
 */
static void code_of_emptied_sections(const struct elf_image *img, struct place_list *p)
{
	struct place_list all = { .list = NEW_N(struct dwarf_section_place, (size_t)img->n_sections + 1) };

	for (uint32_t i = 1; i < img->n_sections; i++)
		if (img->sections[i].flags & SHF_ALLOC)
			place_add(&all, i, img->sections[i].addr, 0);
	if (all.n)
		qsort(all.list, all.n, sizeof(*all.list), place_by_base);
	for (size_t k = 0, next = 0; k < all.n; k++) {
		const struct elf_section *sec = &img->sections[all.list[k].index];

		while (next < all.n && all.list[next].base <= sec->addr)
			next++;
		if (next < all.n && sec->flags & SHF_EXECINSTR && sec->type == SHT_NOBITS && !sec->size)
			place_add(p, all.list[k].index, sec->addr, all.list[next].base - sec->addr);
	}
	free(all.list);
}

size_t dwarf_code(const struct elf_image *img, struct arena *a, const struct dwarf_section_place **ret)
{
	struct place_list p = { .list = ARENA_NEW_N(a, struct dwarf_section_place,
						    (size_t)img->n_sections + img->n_segments + GAPS_MAX +
							    1) };
	size_t kept = 0;

	code_of_sections(img, &p);
	if (img->h.type != ET_REL && img->n_sections > 1)
		code_of_gaps(img, &p);
	else if (img->h.type != ET_REL)
		code_of_segments(img, &p);
	if (img->h.type != ET_REL && !has_code_segment(img))
		code_of_emptied_sections(img, &p);
	/* binutils' objcopy also cuts a segment to the sections that are left. */
	if (img->h.type != ET_REL && !p.n)
		place_add(&p, 0, ANYWHERE_BASE, DWARF_CODE_ANYWHERE);
	if (p.n)
		qsort(p.list, p.n, sizeof(*p.list), place_by_base);
	/* Of overlapping ones the first is kept: in a sound file none overlap. */
	for (size_t i = 0; i < p.n; i++)
		if (!kept || p.list[i].base - p.list[kept - 1].base >= p.list[kept - 1].size)
			p.list[kept++] = p.list[i];
	*ret = p.list;
	return kept;
}

uint64_t *dwarf_code_bases(const struct elf_image *img, const struct dwarf_section_place *list, size_t n)
{
	uint64_t *bases = mem_zalloc(((size_t)img->n_sections + 1) * sizeof(*bases));

	if (img->h.type != ET_REL)
		return bases;
	for (size_t i = 0; i < n; i++)
		if (list[i].index < img->n_sections)
			bases[list[i].index] = list[i].base;
	return bases;
}

const struct dwarf_section_place *dwarf_place_at(const struct dwarf_section_place *list, size_t n,
						 uint64_t addr)
{
	size_t lo = SEARCH(0, n, i, list[i].base <= addr);
	return lo && addr - list[lo - 1].base < list[lo - 1].size ? &list[lo - 1] : NULL;
}

uint64_t dwarf_code_end(const struct dwarf *d, uint64_t addr)
{
	const struct dwarf_section_place *p = dwarf_place_at(d->code, d->n_code, addr);

	return p ? p->base + p->size : 0;
}
