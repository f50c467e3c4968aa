/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer, on the heap. Zeroed is empty. What p points to moves when it grows.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "base/budget.h"
#include "base/view.h"

struct buf {
	uint8_t *p;
	size_t size, room;
	struct budget_hold *hold; /* of buf_meter() */
	bool cut;                 /* buf_is_over() has ended a loop */
};

/*
 * Count the memory of the buffer in @hold from now on, as it grows, until buf_done() or a @hold of NULL. Growing is never
 * refused, since it may happen anywhere. A loop that writes much ends when buf_is_over(); the content is cut then, and
 * buf_check() is the error, also if memory has become free again.
 */
void buf_meter(struct buf *b, struct budget_hold *hold);
static inline bool buf_is_over(struct buf *b)
{
	if (!b->hold || !atomic_load_explicit(&b->hold->over, memory_order_relaxed))
		return false;
	b->cut = true;
	return true;
}
int buf_check(const struct buf *b, struct err *err); /* as budget_hold_check() */
void buf_done(struct buf *b);                        /* AUTO(buf_done) struct buf b = { 0 }; */
/* Room for @n more bytes at b->p + b->size; returns that place. */
uint8_t *buf_reserve_more(struct buf *b, size_t n); /* of buf_reserve() */
static inline uint8_t *buf_reserve(struct buf *b, size_t n)
{
	return b->p && n <= b->room - b->size ? b->p + b->size : buf_reserve_more(b, n);
}
/* The same for large sizes (megabytes). NULL: there is no memory, and nothing has changed. */
uint8_t *buf_try_reserve(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, struct str s);
static inline void buf_add_char(struct buf *b, char c)
{
	*buf_reserve(b, 1) = (uint8_t)c;
	b->size++;
}
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_add_decimal(struct buf *b, uint64_t v);
/* Little endian, and LEB128 (unsigned; signed ones zigzag first). */
void buf_add_u16(struct buf *b, uint16_t v);
void buf_add_u32(struct buf *b, uint32_t v);
void buf_add_u64(struct buf *b, uint64_t v);
void buf_add_uleb_long(struct buf *b, uint64_t v); /* of buf_add_uleb() */
static inline void buf_add_uleb(struct buf *b, uint64_t v)
{
	/* Nearly all numbers take one byte. */
	if (v < 0x80)
		buf_add_char(b, (char)v);
	else
		buf_add_uleb_long(b, v);
}
static inline struct bytes buf_bytes(const struct buf *b)
{
	return (struct bytes){ b->p, b->size };
}
static inline struct str buf_str(const struct buf *b)
{
	return (struct str){ (const char *)b->p, b->size };
}
/* Append what @s is the base64 of (RFC 4648, either alphabet, padded or not). false: malformed. */
bool base64_decode(struct str s, struct buf *out);
/* The standard alphabet, padded; appends. */
void base64_encode(struct bytes b, struct buf *out);
/* A NUL after the content, not counted in size; for %s. */
const char *buf_cstr(struct buf *b);
