/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write batch: names and outcomes, gathered and written together, since a transaction of many rows costs
 * hardly more than one of a single row.
 */
#include "base/vec.h"
#include "naming/internal.h"

#include <stdlib.h>

void naming_batch_init(struct naming_batch *p, struct profilestore *store)
{
	*p = (struct naming_batch){ .store = store };
	arena_init(&p->arena);
	p->names = NEW_N(struct profilestore_name, NAMING_BATCH);
	p->frames = profile_frame_texts_new(FRAME_DEMANGLE_TEMPLATES);
}

void naming_batch_done(struct naming_batch *p)
{
	profile_frame_texts_free(p->frames);
	arena_done(&p->arena);
	free(p->names);
	free(p->tried);
	*p = (struct naming_batch){ 0 };
}

void naming_batch_begin(struct naming_batch *p)
{
	p->failed = false;
}

size_t naming_batch_room(const struct naming_batch *p)
{
	return MAX(profile_frame_texts_size(p->frames), p->arena.size) < NAMING_TEXTS ? NAMING_BATCH - p->n
										      : 0;
}

void naming_batch_name(struct naming_batch *p, uint64_t location, const struct tables_answer *a)
{
	size_t n = a->frames ? a->frames->n : 0;
	struct profilestore_name_line *lines = n ? ARENA_NEW_N(&p->arena, struct profilestore_name_line, n)
						 : NULL;

	for (size_t i = 0; i < n; i++) {
		struct profile_frame_text f;

		profile_frame_text_of(p->frames, &a->frames->list[i], &f);
		lines[i] = (struct profilestore_name_line){ f.name, f.system_name, f.file,
							    f.line, f.column,      f.start_line };
	}
	p->names[p->n++] = (struct profilestore_name){ .location = location,
						       .n_lines = (uint32_t)n,
						       .reason = a->reason,
						       .elf_addr = a->addr,
						       .lines = lines };
}

void naming_batch_tried(struct naming_batch *p, const struct profilestore_tried *t)
{
	struct profilestore_tried *to;

	to = &VEC_PUSH(p->tried, p->n_tried, p->room_tried);
	*to = *t;
	if (!to->at_ms)
		to->at_ms = clock_wall_ms();
	to->why = arena_str(&p->arena, t->why);
	to->origin = arena_str(&p->arena, t->origin);
}

static void count_written(struct naming_batch *p)
{
	for (size_t i = 0; i < p->n; i++) {
		p->n_named += p->names[i].n_lines != 0;
		p->n_unnamed += !p->names[i].n_lines;
	}
}

static void renew_texts(struct naming_batch *p)
{
	profile_frame_texts_free(p->frames);
	p->frames = profile_frame_texts_new(FRAME_DEMANGLE_TEMPLATES);
}

bool naming_batch_flush(struct naming_batch *p)
{
	if ((p->n || p->n_tried) && !p->failed) {
		if (profilestore_name(p->store, p->names, p->n, p->tried, p->n_tried, &p->err) < 0)
			p->failed = true;
		else
			count_written(p);
	}
	p->n = p->n_tried = 0;
	p->n_flushes++;
	arena_reset(&p->arena);
	/* Names repeat, so their texts are kept from one batch to the next; but not for ever. */
	if (profile_frame_texts_size(p->frames) >= NAMING_TEXTS)
		renew_texts(p);
	return !p->failed;
}

void naming_batch_rest(struct naming_batch *p)
{
	arena_done(&p->arena);
	renew_texts(p);
}
