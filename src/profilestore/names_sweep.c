/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming when a sweep replaces the tables: binaries and locations get other numbers. The state of a binary that
 * still has locations stays, and so does its id; its list of wanted locations is made anew.
 */
#include "profilestore/names_internal.h"
#include "profilestore/sweep.h"

#include <stdlib.h>
#include "base/vec.h"

static uint32_t new_number(const struct sweep_numbers *x, uint32_t i)
{
	return i < x->n ? x->v[i] : 0;
}

void names_note_changes(struct profilestore *s, bool on)
{
	struct names *n = s->names;

	pthread_mutex_lock(&n->lock);
	n->renamed.on = on;
	n->renamed.n = 0;
	if (!on) {
		free(TAKE(n->renamed.v));
		n->renamed.room = 0;
	}
	pthread_mutex_unlock(&n->lock);
}

size_t names_changes(struct profilestore *s, uint32_t *ret, size_t room)
{
	struct names *n = s->names;
	size_t taken;

	pthread_mutex_lock(&n->lock);
	taken = MIN(n->renamed.n, room);
	n->renamed.n -= taken;
	if (taken)
		memcpy(ret, n->renamed.v + n->renamed.n, taken * sizeof(*ret));
	pthread_mutex_unlock(&n->lock);
	return taken;
}

static void drop_binary(struct profilestore *s, const struct meta *old, struct named_binary *t)
{
	const struct meta_binary *b = meta_binary_at(old, t->binary);
	AUTO(buf_done) struct buf key = { 0 };

	names_key(meta_str(old, b->file), meta_str(old, b->build_id), &key);
	map_del(&s->names->by_key, buf_bytes(&key));
	__atomic_store_n((struct named_binary **)column_at(&s->names->tracked, t->slot), NULL,
			 __ATOMIC_RELEASE);
	epoch_retire(s, t, named_binary_free);
}

/* All lists anew: locations have other numbers. */
static void list_binary(struct profilestore *s, uint32_t binary)
{
	struct named_binary *t = names_binary(s, s->meta, binary);

	if (!t && atomic_load_explicit(&meta_binary_at(s->meta, binary)->n_bare, memory_order_relaxed))
		t = names_track(s, binary);
	if (!t)
		return;
	wanted_add_all(s, t);
	if (!wanted_count(t))
		return;
	/* Names that come for numbers of before are passed over. */
	names_due_look(s->names, t);
	if (t->state == NAMING_NONE) {
		atomic_store(&t->state, NAMING_WANTED);
		t->next_try_ms = 0;
	}
}

void names_take_over(struct profilestore *s, const struct meta *old, const struct sweep_numbers *binaries)
{
	struct names *n = s->names;

	for (uint32_t i = 0; i < column_n(&n->tracked); i++) {
		struct named_binary *t = names_at(s->names, i);
		uint32_t binary = t ? new_number(binaries, t->binary) : 0;

		if (t && !binary)
			drop_binary(s, old, t);
		if (!binary)
			continue;
		t->binary = binary - 1;
		atomic_store_explicit(&meta_binary_at(s->meta, t->binary)->state, i + 1,
				      memory_order_release);
	}
	for (uint32_t i = 0; i < column_n(&s->meta->binaries); i++)
		list_binary(s, i);
	n->n_added = 0;
}

int names_write_all(struct profilestore *s, const struct meta *new, const struct sweep_numbers *binaries,
		    struct err *err)
{
	int64_t from = generation_keys(new->generation, NAMING_KEY_BITS).from;

	for (uint32_t i = 0; i < column_n(&s->names->tracked); i++) {
		struct named_binary *t = names_at(s->names, i);
		uint32_t same = t ? t->binary + 1 : 0,
			 binary = t && binaries ? new_number(binaries, t->binary) : same;

		if (binary && names_write_binary(s, t, from + binary - 1, NULL, err) < 0)
			return -1;
	}
	return 0;
}
