/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena: chunks that double in size up to a bound, cut from the front. A request that is large compared
 * with a chunk gets a chunk of its own, listed after the current one, so that the rest of the current one is
 * not lost.
 *
 * Under AddressSanitizer unused bytes are poisoned, with a gap after each allocation, so that an overrun is
 * detected as with malloc().
 */
#include "base/arena.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#include "base/budget.h"
#include "base/err.h"
#include "base/mem.h"

#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(p, size)   ((void)(p), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(p, size) ((void)(p), (void)(size))
#endif

#if defined(__SANITIZE_ADDRESS__)
#define GAP 16
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GAP 16
#endif
#endif
#ifndef GAP
#define GAP 0
#endif

#define ALIGN     16
#define CHUNK_MIN KIB(4)
#define CHUNK_MAX MIB(1)

struct arena_chunk {
	struct arena_chunk *next;
	size_t size; /* of data */
	_Alignas(ALIGN) char data[];
};

/* Memory from elsewhere that is freed with the arena. In the arena itself. */
struct arena_block {
	struct arena_block *next;
	void *p;
	size_t size;
};

static void *arena_refuse(size_t size, struct err *err)
{
	(void)err_os(err, ENOMEM, "%zu bytes", size);
	return NULL;
}

/* @must: the allocation cannot be refused. */
static struct arena_chunk *chunk_try(struct budget_hold *hold, size_t size, bool must, struct err *err)
{
	struct arena_chunk *c;
	size_t all;

	if (__builtin_add_overflow(size, sizeof(*c), &all))
		return arena_refuse(size, err);
	if (must)
		budget_hold_charge(hold, all);
	else if (budget_hold_add(hold, all, err) < 0)
		return NULL;
	c = mem_try(all);
	if (!c) {
		budget_hold_sub(hold, all);
		return arena_refuse(size, err);
	}
	c->next = NULL;
	c->size = size;
	ASAN_POISON_MEMORY_REGION(c->data, size);
	return c;
}

static void chunk_free(struct budget_hold *hold, struct arena_chunk *c)
{
	budget_hold_sub(hold, sizeof(*c) + c->size);
	ASAN_UNPOISON_MEMORY_REGION(c->data, c->size);
	free(c);
}

void arena_init(struct arena *a)
{
	*a = (struct arena){ 0 };
}

static void blocks_free(struct arena *a)
{
	for (struct arena_block *b = a->blocks; b; b = b->next) {
		budget_hold_sub(a->hold, b->size);
		free(b->p);
	}
	a->blocks = NULL;
}

void arena_done(struct arena *a)
{
	struct arena_chunk *next;

	blocks_free(a);
	for (struct arena_chunk *c = a->head; c; c = next) {
		next = c->next;
		chunk_free(a->hold, c);
	}
	*a = (struct arena){ .hold = a->hold };
}

void arena_reset(struct arena *a)
{
	struct arena_chunk *keep = a->head;

	blocks_free(a);
	if (!keep || keep->size > CHUNK_MAX) { /* it was made for a single large allocation */
		arena_done(a);
		return;
	}
	a->head = keep->next;
	arena_done(a);
	keep->next = NULL;
	ASAN_POISON_MEMORY_REGION(keep->data, keep->size);
	a->head = keep;
	a->pos = keep->data;
	a->end = keep->data + keep->size;
}

/* A place for @room bytes, more than the current chunk has; NULL when there is no memory. */
static char *arena_grow(struct arena *a, size_t room, bool must, struct err *err)
{
	size_t size = a->head ? MIN(a->head->size * 2, CHUNK_MAX) : CHUNK_MIN;
	struct arena_chunk *c;

	if (room > size / 4 && a->head) {
		c = chunk_try(a->hold, room, must, err);
		if (!c)
			return NULL;
		c->next = a->head->next;
		a->head->next = c;
		return c->data;
	}
	c = chunk_try(a->hold, MAX(size, room), must, err);
	if (!c)
		return NULL;
	c->next = a->head;
	a->head = c;
	a->pos = c->data + room;
	a->end = c->data + c->size;
	return c->data;
}

static void *arena_take(struct arena *a, size_t size, bool must, struct err *err)
{
	size_t room;
	char *p;

	if (__builtin_add_overflow(size, ALIGN - 1 + GAP, &room))
		return arena_refuse(size, err);
	room &= ~(size_t)(ALIGN - 1);
	if (!room)
		room = ALIGN;
	if (room <= (size_t)(a->end - a->pos)) {
		p = a->pos;
		a->pos += room;
	} else {
		p = arena_grow(a, room, must, err);
		if (!p)
			return NULL;
	}
	ASAN_UNPOISON_MEMORY_REGION(p, size);
	a->size += size;
	return p;
}

void *arena_try_err(struct arena *a, size_t size, struct err *err)
{
	return arena_take(a, size, false, err);
}

void *arena_try(struct arena *a, size_t size)
{
	return arena_try_err(a, size, NULL);
}

void *arena_alloc(struct arena *a, size_t size)
{
	void *p = arena_take(a, size, true, NULL);

	if (!p)
		mem_none(1, size);
	return p;
}

void arena_adopt(struct arena *a, void *p, size_t size)
{
	struct arena_block *b = arena_alloc(a, sizeof(*b));

	*b = (struct arena_block){ a->blocks, p, size };
	a->blocks = b;
	a->size += size;
}

void *arena_zalloc(struct arena *a, size_t size)
{
	return memset(arena_alloc(a, size), 0, size);
}

void *arena_zalloc_n(struct arena *a, size_t n, size_t size)
{
	size_t all;

	if (__builtin_mul_overflow(n, size, &all))
		mem_none(n, size);
	return arena_zalloc(a, all);
}

char *arena_strdup(struct arena *a, struct str s)
{
	char *p = arena_alloc(a, s.size + 1);

	if (s.size)
		memcpy(p, s.p, s.size);
	p[s.size] = '\0';
	return p;
}

struct str arena_str(struct arena *a, struct str s)
{
	return (struct str){ arena_strdup(a, s), s.size };
}

struct bytes arena_bytes(struct arena *a, struct bytes b)
{
	uint8_t *p = arena_alloc(a, b.size);

	if (b.size)
		memcpy(p, b.p, b.size);
	return (struct bytes){ p, b.size };
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *p;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	p = arena_alloc(a, (size_t)n + 1);
	p[0] = '\0';
	vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}
