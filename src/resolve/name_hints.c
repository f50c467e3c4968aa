/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of programs by build ID, from mappings of profiles and processes: a table of fixed size, in which a later name
 * replaces one whose build ID has the same slot, unless that is by a sender and the later one by a reader. A lost or wrong
 * name costs one question to a server, no more.
 */
#include "resolve/internal.h"

#include <stdlib.h>

#define N_HINTS       2048u /* a power of two */
#define NAME_MAX_SIZE 64u

struct name_hints {
	pthread_mutex_t lock;
	/* under the lock */
	struct name_hint {
		struct build_id id; /* size 0: free */
		enum resolve_hint by;
		uint8_t size;
		char name[NAME_MAX_SIZE];
	} slots[N_HINTS];
};

struct name_hints *name_hints_new(void)
{
	struct name_hints *h = NEW(struct name_hints);

	memset(h, 0, sizeof(*h));
	pthread_mutex_init(&h->lock, NULL);
	return h;
}

void name_hints_free(struct name_hints *h)
{
	if (h)
		pthread_mutex_destroy(&h->lock);
	free(h);
}

static struct name_hint *hint_slot(struct name_hints *h, const struct build_id *id)
{
	return &h->slots[hash64(id->b, id->size, 0) % N_HINTS];
}

/* "/usr/lib/libx.so.1 (deleted)" is libx.so.1; "[vdso]", "//anon" and the like are no files. */
static struct str name_of_mapping(struct str file)
{
	struct str name;

	if (str_ends(file, STR(" (deleted)")))
		file.size -= strlen(" (deleted)");
	name = path_basename(file);
	if (!name.size || name.size > NAME_MAX_SIZE || name.p[0] == '[' || str_starts(file, STR("//")) ||
	    str_eq(name, STR(".")) || str_eq(name, STR("..")))
		return (struct str){ 0 };
	for (size_t i = 0; i < name.size; i++)
		if ((unsigned char)name.p[i] < ' ' || name.p[i] == 127)
			return (struct str){ 0 };
	return name;
}

void name_hints_put(struct name_hints *h, const struct build_id *id, struct str file, enum resolve_hint by)
{
	struct str name = name_of_mapping(file);
	struct name_hint *hint = hint_slot(h, id);

	if (!name.size)
		return;
	pthread_mutex_lock(&h->lock);
	/* Also of another build ID with this slot: a reader could choose one. */
	if (!hint->id.size || by >= hint->by) {
		hint->id = *id;
		hint->by = by;
		hint->size = (uint8_t)name.size;
		memcpy(hint->name, name.p, name.size);
	}
	pthread_mutex_unlock(&h->lock);
}

struct str name_hints_get(struct name_hints *h, const struct build_id *id, struct arena *a)
{
	const struct name_hint *hint = hint_slot(h, id);
	struct str name = { 0 };

	pthread_mutex_lock(&h->lock);
	if (build_id_eq(&hint->id, id))
		name = arena_str(a, (struct str){ hint->name, hint->size });
	pthread_mutex_unlock(&h->lock);
	return name;
}
