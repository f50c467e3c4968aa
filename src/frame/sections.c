/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a file that has no program headers of loaded segments: profilers strip so for an upload. The headers of
 * its sections are left, with their addresses, but those of removed sections have no size. So code goes as far as the
 * next section of another kind, and nothing is known of file offsets.
 */
#include <elf.h>
#include <stdlib.h>
#include "frame/internal.h"

/* Programs have some 30, Linux about 100. */
#define MAX_SECTIONS 1024u

struct loaded_section {
	uint64_t addr, end;
	bool exec;
};

/* A section of thread-local zeros has an address, but no place in memory. */
static bool section_is_loaded(const struct elf_section *sec)
{
	return sec->flags & SHF_ALLOC && !(sec->flags & SHF_TLS && sec->type == SHT_NOBITS);
}

static int by_section_address(const void *a, const void *b)
{
	const struct loaded_section *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->exec - y->exec;
}

static size_t list_loaded_sections(const struct elf_image *img, struct loaded_section *list)
{
	size_t n = 0;

	for (uint32_t i = 1; i < img->n_sections; i++) {
		const struct elf_section *sec = &img->sections[i];
		struct loaded_section *one = &list[n];

		if (!section_is_loaded(sec))
			continue;
		*one = (struct loaded_section){ sec->addr, 0, (sec->flags & SHF_EXECINSTR) != 0 };
		if (add_overflows(sec->addr, sec->size, &one->end))
			one->end = UINT64_MAX;
		n++;
	}
	qsort(list, n, sizeof(*list), by_section_address);
	return n;
}

/* The end of the last run of sections; it has none that follows. */
static uint64_t end_of_last(const struct loaded_section *list, size_t n)
{
	uint64_t end = 0;

	for (size_t i = 0; i < n; i++)
		end = MAX(end, list[i].end);
	return end > list[n - 1].addr ? end : UINT64_MAX;
}

void frame_layout_by_sections(const struct elf_image *img, struct frame_layout *l)
{
	struct loaded_section list[MAX_SECTIONS];
	struct frame_segment *s = NULL;
	size_t n;

	if (img->h.type == ET_REL || !img->sections || img->n_sections > MAX_SECTIONS)
		return;
	n = list_loaded_sections(img, list);
	for (size_t i = 0; i < n; i++) {
		if (s && s->exec == list[i].exec)
			continue;
		if (s)
			s->memsz = list[i].addr - s->vaddr;
		if (l->n_segments == FRAME_MAX_SEGMENTS) {
			l->n_segments = 0;
			return;
		}
		s = &l->segments[l->n_segments++];
		*s = (struct frame_segment){ .vaddr = list[i].addr, .exec = list[i].exec };
	}
	if (s)
		s->memsz = end_of_last(list, n) - s->vaddr;
	l->by_sections = l->n_segments != 0;
}
