/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sweep: the metadata store without the entries that no kept profile needs. Of the thread of grooming, unless
 * something else is said.
 */
#pragma once

#include "base/base.h"

struct profilestore;
struct meta;
struct sweep;

struct sweep *sweep_new(void);
void sweep_free(struct profilestore *s); /* the sweep of @s */
/* Begin one with the next step, unless one is under way. */
void sweep_ask(struct sweep *w);
bool sweep_runs(const struct sweep *w);         /* or is about to */
bool sweep_is_under_way(const struct sweep *w); /* it has memory */
/* One step. *ret_more: a sweep is under way. */
int sweep_groom(struct profilestore *s, bool *ret_more, struct err *err);

/* names_sweep.c: the state of naming for new tables. */
struct sweep_numbers {
	uint32_t *v; /* new number + 1, by old number; 0: gone */
	uint32_t n;
};
/* In the writer's thread, under the lock of names, s->meta is the new one. @binaries: the new numbers. */
void names_take_over(struct profilestore *s, const struct meta *old, const struct sweep_numbers *binaries);
/* In the writer's thread: the rows of the new generation. */
int names_write_all(struct profilestore *s, const struct meta *new, const struct sweep_numbers *binaries,
		    struct err *err);
/* Note the locations that get other names from now on, or stop that. */
void names_note_changes(struct profilestore *s, bool on);
/* The locations that were noted since the last call, at most @room; 0: none. */
size_t names_changes(struct profilestore *s, uint32_t *ret, size_t room);
