/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source names of one debug file as a set. The names are stored one after another, and a hash index of
 * their places finds them. It does not change once it is built.
 */
#include "base/hash_index.h"
#include "dwarf/internal.h"

#include <stdlib.h>

struct dwarf_sources {
	struct buf names; /* each: size in 4 bytes, then as many */
	size_t n;
	struct hash_index places; /* of each name in `names` */
	uint64_t seed;
	struct dwarf_sources_note note;
};

static struct str set_name(const struct dwarf_sources *s, uint32_t place)
{
	uint32_t size;

	memcpy(&size, s->names.p + place, sizeof(size));
	return (struct str){ (const char *)s->names.p + place + sizeof(size), size };
}

/* Each name comes once, so there is nothing to look up. */
static int set_collect(void *arg, struct str name)
{
	struct dwarf_sources *s = arg;
	uint32_t size = (uint32_t)name.size;

	/* DWARF_MAX_FILES names need less, unless they are crafted to be long. */
	if (s->names.size + sizeof(size) + name.size >= UINT32_MAX || buf_is_over(&s->names))
		return 1;
	buf_add(&s->names, &size, sizeof(size));
	buf_add(&s->names, name.p, name.size);
	s->n++;
	return 0;
}

static void set_index(struct dwarf_sources *s)
{
	uint64_t room = 16;
	size_t place = 0;

	while (room < s->n * 2)
		room *= 2;
	if (!hash_index_start(&s->places, room))
		mem_none(room, sizeof(*s->places.slots));
	while (place < s->names.size) {
		struct str name = set_name(s, (uint32_t)place);

		hash_index_add(&s->places, hash64(name.p, name.size, s->seed), (uint32_t)place);
		place += sizeof(uint32_t) + name.size;
	}
}

int dwarf_sources_build(const struct elf_image *img, const struct elf_image *alt, struct dwarf_sources **ret,
			struct err *err)
{
	struct dwarf_sources *s = NEW(struct dwarf_sources);
	int r;

	s->seed = dwarf_secret();
	buf_meter(&s->names, img->memory);
	r = dwarf_sources_each(img, alt, set_collect, s, &s->note, err);
	if (r > 0 && buf_check(&s->names, err) < 0)
		r = -1;
	/* The set outlives the image. */
	buf_meter(&s->names, NULL);
	if (r > 0)
		r = err_set(err, ERR_LIMIT, "source names of more than 4 GiB together");
	if (r < 0) {
		dwarf_sources_free(s);
		return -1;
	}
	/* The set may be kept for long: free the room to grow. */
	if (s->names.size)
		s->names.p = mem_realloc(s->names.p, s->names.size, 1);
	s->names.room = s->names.size;
	set_index(s);
	*ret = s;
	return 0;
}

bool dwarf_sources_has(const struct dwarf_sources *s, struct str canonical)
{
	uint32_t at, i;

	return HASH_INDEX_FIND(&s->places, hash64(canonical.p, canonical.size, s->seed), at, i,
			       str_eq(set_name(s, i), canonical));
}

size_t dwarf_sources_n(const struct dwarf_sources *s)
{
	return s->n;
}

size_t dwarf_sources_weight(const struct dwarf_sources *s)
{
	return sizeof(*s) + s->names.room + hash_index_room(&s->places) * sizeof(*s->places.slots);
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
	free(s->places.slots);
	free(s);
}
