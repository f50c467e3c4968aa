/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena: the memory of one piece of work (a request, a job, one parsed unit), dropped whole. Belongs to
 * one thread.
 */
#pragma once

#include <stddef.h>
#include "base/view.h"

struct arena_chunk;
struct arena_block;
struct budget_hold;
struct err;

struct arena {
	struct arena_chunk *head;
	struct arena_block *blocks;
	char *pos, *end;
	size_t size; /* bytes handed out so far */
	/*
	 * Its memory is granted by this one, which the owner sets after arena_init() and which lives longer; NULL:
	 * not counted. arena_try_err() fails if it refuses; the other functions charge it (base/budget.h).
	 */
	struct budget_hold *hold;
};

void arena_init(struct arena *a);
void arena_done(struct arena *a);  /* AUTO(arena_done) struct arena a; @a is initialised or zeroed */
void arena_reset(struct arena *a); /* drop all content, keep one chunk */

void *arena_alloc(struct arena *a, size_t size); /* aligned to 16, uninitialised; never NULL */
/* The same for large sizes. NULL: the hold refused (its error), or there is no memory (ERR_LIMIT). */
void *arena_try_err(struct arena *a, size_t size, struct err *err);
void *arena_try(struct arena *a, size_t size); /* without the error */
/* Takes @p, @size bytes from malloc() that a->hold has granted already: it is freed with the arena. */
void arena_adopt(struct arena *a, void *p, size_t size);
void *arena_zalloc(struct arena *a, size_t size);             /* zeroed */
void *arena_zalloc_n(struct arena *a, size_t n, size_t size); /* n elements; overflow ends the process */
char *arena_strdup(struct arena *a, struct str s);            /* a copy with a NUL after it */
struct str arena_str(struct arena *a, struct str s);
struct bytes arena_bytes(struct arena *a, struct bytes b);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ARENA_NEW(a, type)      ((type *)arena_zalloc((a), sizeof(type)))
#define ARENA_NEW_N(a, type, n) ((type *)arena_zalloc_n((a), (n), sizeof(type)))
