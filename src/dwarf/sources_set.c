/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source names of one debug file as a set. Names lie one behind the other, and a table of their places
 * finds them; once built, nothing of it changes.
 */
#include "dwarf/internal.h"

#include <stdlib.h>

#define NO_NAME UINT32_MAX

struct dwarf_sources {
	struct buf names; /* each: size in 4 bytes, then as many */
	uint32_t *slots;  /* places in names, or NO_NAME */
	size_t n, n_slots;
	uint64_t seed;
	struct dwarf_sources_note note;
};

static struct str set_name(const struct dwarf_sources *s, uint32_t place)
{
	uint32_t size;

	memcpy(&size, s->names.p + place, sizeof(size));
	return (struct str){ (const char *)s->names.p + place + sizeof(size), size };
}

/* Each is told once, so that there is nothing to look up. */
static int set_collect(void *arg, struct str name)
{
	struct dwarf_sources *s = arg;
	uint32_t size = (uint32_t)name.size;

	/* More than the names of DWARF_MAX_FILES files can be, unless they are made to be long. */
	if (s->names.size + sizeof(size) + name.size >= NO_NAME)
		return 1;
	buf_add(&s->names, &size, sizeof(size));
	buf_add(&s->names, name.p, name.size);
	s->n++;
	return 0;
}

static void set_index(struct dwarf_sources *s)
{
	size_t place = 0;

	s->n_slots = 16;
	while (s->n_slots < s->n * 2)
		s->n_slots *= 2;
	s->slots = mem_realloc(NULL, s->n_slots, sizeof(*s->slots));
	memset(s->slots, 0xff, s->n_slots * sizeof(*s->slots));
	while (place < s->names.size) {
		struct str name = set_name(s, (uint32_t)place);
		size_t i = hash64(name.p, name.size, s->seed) & (s->n_slots - 1);

		while (s->slots[i] != NO_NAME)
			i = (i + 1) & (s->n_slots - 1);
		s->slots[i] = (uint32_t)place;
		place += sizeof(uint32_t) + name.size;
	}
}

int dwarf_sources_build(const struct elf_image *img, const struct elf_image *alt, struct dwarf_sources **ret,
			struct err *err)
{
	struct dwarf_sources *s = NEW(struct dwarf_sources);
	int r;

	s->seed = dwarf_secret();
	r = dwarf_sources_each(img, alt, set_collect, s, &s->note, err);
	if (r > 0)
		r = err_set(err, ERR_LIMIT, "source names of more than 4 GiB together");
	if (r < 0) {
		dwarf_sources_free(s);
		return -1;
	}
	/* It may be kept for long: without the room to grow. */
	if (s->names.size)
		s->names.p = mem_realloc(s->names.p, s->names.size, 1);
	s->names.room = s->names.size;
	set_index(s);
	*ret = s;
	return 0;
}

bool dwarf_sources_has(const struct dwarf_sources *s, struct str canonical)
{
	size_t i = hash64(canonical.p, canonical.size, s->seed) & (s->n_slots - 1);

	for (; s->slots[i] != NO_NAME; i = (i + 1) & (s->n_slots - 1))
		if (str_eq(set_name(s, s->slots[i]), canonical))
			return true;
	return false;
}

size_t dwarf_sources_n(const struct dwarf_sources *s)
{
	return s->n;
}

size_t dwarf_sources_weight(const struct dwarf_sources *s)
{
	return sizeof(*s) + s->names.room + s->n_slots * sizeof(*s->slots);
}

const struct dwarf_sources_note *dwarf_sources_note(const struct dwarf_sources *s)
{
	return &s->note;
}

void dwarf_sources_free(struct dwarf_sources *s)
{
	if (!s)
		return;
	buf_done(&s->names);
	free(s->slots);
	free(s);
}
