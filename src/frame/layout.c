/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run-time addresses of processes and kernels, and file offsets, to addresses in the ELF file, by its program
 * headers.
 */
#include <elf.h>
#include "frame/internal.h"

#define PAGE           UINT64_C(4096) /* the smallest page of all machines: mappings begin at a multiple of it */
#define UPPER_HALF     (UINT64_C(1) << 63)
#define MAX_BEGINNINGS 256u

static uint64_t page_start(uint64_t addr)
{
	return addr & ~(PAGE - 1);
}

static void find_kernel_text(const struct elf_image *img, struct frame_layout *l)
{
	const struct elf_section *text = elf_section_find(img, ".text"),
				 *head = elf_section_find(img, ".head.text");

	l->stext = text ? text->addr : l->segments[0].vaddr;
	l->text = head && head->addr < l->stext ? head->addr : l->stext;
}

void frame_layout_of(const struct elf_image *img, struct frame_layout *ret)
{
	struct frame_layout *l = ret;
	bool exec = false;

	memset(l, 0, sizeof(*l));
	l->type = img->h.type;
	l->machine = img->h.machine;
	l->offsets_known = true;
	for (uint32_t i = 0; i < img->n_segments && l->n_segments < FRAME_MAX_SEGMENTS; i++) {
		const struct elf_segment *s = &img->segments[i];

		/* A segment of nothing but zeros is not in the file. */
		if (s->type != PT_LOAD || !s->memsz || (!s->filesz && !(s->flags & PF_X)))
			continue;
		/* A debug file has only the addresses of its code. */
		if ((s->flags & PF_X) && !s->filesz)
			l->offsets_known = false;
		exec |= (s->flags & PF_X) != 0;
		l->segments[l->n_segments++] = (struct frame_segment){ s->off, s->filesz, s->vaddr, s->memsz,
								       (s->flags & PF_X) != 0 };
	}
	if (!exec)
		l->offsets_known = false;
	if (!l->n_segments)
		frame_layout_by_sections(img, l);
	/* A vDSO may be in the upper half too, but has no .init.text. */
	l->is_kernel = l->n_segments && l->segments[0].vaddr >= UPPER_HALF &&
		       (l->type == ET_EXEC || elf_section_find(img, ".init.text"));
	if (l->is_kernel)
		find_kernel_text(img, l);
}

static const struct elf_segment *code_segment(const struct elf_image *img)
{
	for (uint32_t i = 0; i < img->n_segments; i++)
		if (img->segments[i].type == PT_LOAD && (img->segments[i].flags & PF_X))
			return &img->segments[i];
	return NULL;
}

uint64_t frame_moved(const struct elf_image *img, const struct elf_image *debug)
{
	const struct elf_segment *here = code_segment(img), *there = code_segment(debug);

	/* prelink never moves programs that are not position-independent. */
	return here && there && img->h.type == ET_DYN && debug->h.type == ET_DYN ? here->vaddr - there->vaddr
										 : 0;
}

void frame_layout_move_back(struct frame_layout *l, uint64_t moved)
{
	for (size_t i = 0; i < l->n_segments; i++)
		l->segments[i].vaddr -= moved;
}

/* ---- file offsets ---- */

/*
 * The segment that has this byte, preferably one with code. @pages: also the bytes around it that are mapped
 * with it.
 */
static const struct frame_segment *segment_at_offset(const struct frame_layout *l, uint64_t off, bool pages)
{
	const struct frame_segment *found = NULL;

	for (size_t i = 0; i < l->n_segments; i++) {
		const struct frame_segment *s = &l->segments[i];
		uint64_t from = pages ? page_start(s->off) : s->off, to;

		if (add_overflows(s->off, s->filesz, &to))
			continue;
		if (pages)
			to = page_start(to + PAGE - 1) < to ? to : page_start(to + PAGE - 1);
		if (off < from || off >= to || (found && (found->exec || !s->exec)))
			continue;
		found = s;
	}
	return found;
}

static bool translate_offset(const struct frame_layout *l, uint64_t off, uint64_t *ret)
{
	const struct frame_segment *s = segment_at_offset(l, off, false);

	if (!s)
		s = segment_at_offset(l, off, true);
	if (s)
		*ret = off - s->off + s->vaddr;
	return s != NULL;
}

bool frame_layout_has_code(const struct frame_layout *l, uint64_t vaddr)
{
	for (size_t i = 0; i < l->n_segments; i++)
		if (l->segments[i].exec && vaddr - l->segments[i].vaddr < l->segments[i].memsz)
			return true;
	return false;
}

/* ---- run-time addresses ---- */

static const struct frame_mapping *mapping_at(const struct frame_maps *maps, uint64_t addr)
{
	const struct frame_mapping *open = NULL;

	if (maps->prepared)
		return frame_maps_at(maps, addr);
	for (size_t i = 0; i < maps->n; i++) {
		const struct frame_mapping *m = &maps->v[i];

		if (addr < m->start || (m->limit && addr >= m->limit))
			continue;
		if (m->limit)
			return m;
		if (!open || m->start > open->start)
			open = m;
	}
	return open;
}

static const struct frame_mapping *lowest_mapping(const struct frame_maps *maps,
						  const struct frame_mapping *but)
{
	const struct frame_mapping *lowest = NULL;

	if (maps->prepared)
		return maps->lowest == but ? maps->second : maps->lowest;
	for (size_t i = 0; i < maps->n; i++)
		if (&maps->v[i] != but && (!lowest || maps->v[i].start < lowest->start))
			lowest = &maps->v[i];
	return lowest;
}

/* The bias: the difference between run-time addresses and those of the file, by the lowest mapping. */
static bool bias_by_lowest(const struct frame_layout *l, const struct frame_maps *maps,
			   const struct frame_mapping *but, uint64_t *ret)
{
	const struct frame_mapping *lowest = lowest_mapping(maps, but);
	uint64_t vaddr;

	if (!lowest || !translate_offset(l, lowest->offset, &vaddr))
		return false;
	*ret = lowest->start - vaddr;
	return true;
}

/*
 * For a file whose offsets of code are not known. By the mapping of the file's beginning, if there is one;
 * else the mapping is assumed to begin where the code does. Only the first MAX_BEGINNINGS mappings are looked at.
 */
static bool translate_without_offsets(const struct frame_layout *l, const struct frame_maps *maps,
				      const struct frame_mapping *m, uint64_t addr, uint64_t *ret)
{
	const struct frame_segment *code = NULL;
	size_t n_code = 0;

	for (size_t i = 0; i < MIN(maps->n, (size_t)MAX_BEGINNINGS); i++) {
		if (maps->v[i].offset || maps->v[i].start > m->start || !l->n_segments)
			continue;
		*ret = addr - maps->v[i].start + page_start(l->segments[0].vaddr);
		if (frame_layout_has_code(l, *ret))
			return true;
	}
	for (size_t i = 0; i < l->n_segments; i++)
		if (l->segments[i].exec) {
			code = &l->segments[i];
			n_code++;
		}
	if (n_code != 1)
		return false;
	*ret = addr - m->start + page_start(code->vaddr);
	return true;
}

static bool translate_in_kernel(const struct frame_layout *l, const struct frame_mapping *m, uint64_t addr,
				uint64_t *ret)
{
	/* One mapping of all addresses: the profiler has translated them already. */
	if (m->start < UPPER_HALF && !m->symbol.size)
		*ret = addr;
	else
		*ret = addr - m->start + (str_eq(m->symbol, STR("_stext")) ? l->stext : page_start(l->text));
	return true;
}

static bool translate_in_process(const struct frame_layout *l, const struct frame_maps *maps,
				 const struct frame_mapping *m, uint64_t addr, uint64_t *ret)
{
	uint64_t bias;

	if (l->is_kernel)
		return translate_in_kernel(l, m, addr, ret);
	/* It is mapped where it was linked to be. */
	if (l->type == ET_EXEC && frame_layout_has_code(l, addr)) {
		*ret = addr;
		return true;
	}
	if (!l->offsets_known)
		return translate_without_offsets(l, maps, m, addr, ret);
	/* Code that was moved to huge pages: the mapping has lost its file, and so has offset 0. */
	if (!m->offset && bias_by_lowest(l, maps, m, &bias) && maps->v[0].start != m->start &&
	    frame_layout_has_code(l, addr - bias)) {
		*ret = addr - bias;
		return true;
	}
	return translate_offset(l, addr - m->start + m->offset, ret);
}

enum frame_reason frame_translate_prepared(const struct frame_layout *l, enum frame_address_kind kind,
					   const struct frame_maps *maps, uint64_t addr, uint64_t *ret)
{
	const struct frame_mapping *m;

	switch (kind) {
	case FRAME_OFFSET:
		if (!l || !l->offsets_known)
			return FRAME_NO_LAYOUT;
		return translate_offset(l, addr, ret) ? FRAME_FOUND : FRAME_OUTSIDE;
	case FRAME_RUNTIME:
		m = mapping_at(maps, addr);
		if (!m)
			return FRAME_NO_MAPPING;
		if (!l || !l->n_segments)
			return FRAME_NO_LAYOUT;
		return translate_in_process(l, maps, m, addr, ret) ? FRAME_FOUND : FRAME_NO_LAYOUT;
	case FRAME_RELATIVE:
		*ret = addr + (l && l->n_segments ? page_start(l->segments[0].vaddr) : 0);
		return FRAME_FOUND;
	case FRAME_VADDR:
	case FRAME_SECTION:
		break;
	}
	*ret = addr;
	return FRAME_FOUND;
}

enum frame_reason frame_translate(const struct frame_layout *l, enum frame_address_kind kind,
				  const struct frame_mapping *maps, size_t n_maps, uint64_t addr,
				  uint64_t *ret)
{
	const struct frame_maps m = { .v = maps, .n = n_maps };

	return frame_translate_prepared(l, kind, &m, addr, ret);
}
