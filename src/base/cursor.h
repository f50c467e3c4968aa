/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded reading of untrusted bytes.
 *
 * A read past the end does not happen: it returns zero (an empty view), the cursor stays at its end, and
 * `failed` is set, once and for good. So a parser reads a whole header and then calls cursor_ok() once,
 * before it uses the values. Byte order is the cursor's. Positions in messages are `base_off` + the offset in
 * the view.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/err.h"
#include "base/view.h"

struct cursor {
	const uint8_t *p, *end;
	const uint8_t *start;
	uint64_t base_off; /* offset of start in the file, for messages */
	bool big;          /* big endian */
	bool failed;
};

static inline struct cursor cursor_at(struct bytes b, bool big, uint64_t base_off)
{
	/* Pointer arithmetic needs an object where p is NULL (an empty view). */
	const uint8_t *p = b.p ? b.p : (const uint8_t *)"";

	return (struct cursor){ .p = p, .end = p + b.size, .start = p, .base_off = base_off, .big = big };
}
static inline struct cursor cursor_of(struct bytes b) /* little endian, base 0 */
{
	return cursor_at(b, false, 0);
}

static inline bool cursor_ok(const struct cursor *c)
{
	return !c->failed;
}
static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}
static inline uint64_t cursor_off(const struct cursor *c)
{
	return c->base_off + (uint64_t)(c->p - c->start);
}

/* Consume the next @n bytes; NULL when there are fewer. All reads come down to this one check. */
static inline const uint8_t *cursor_take(struct cursor *c, uint64_t n)
{
	const uint8_t *p = c->p;

	if (n > cursor_left(c)) {
		c->failed = true;
		c->p = c->end;
		return NULL;
	}
	c->p += n;
	return p;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 1);

	return p ? *p : 0;
}
static inline uint16_t cursor_u16(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 2);
	uint16_t v = 0;

	if (p)
		memcpy(&v, p, 2);
	return c->big ? be16toh(v) : le16toh(v);
}
static inline uint32_t cursor_u32(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, 4);
	return c->big ? be32toh(v) : le32toh(v);
}
static inline uint64_t cursor_u64(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 8);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, 8);
	return c->big ? be64toh(v) : le64toh(v);
}
uint32_t cursor_u24(struct cursor *c);
uint64_t cursor_uint(struct cursor *c, unsigned size); /* 1, 2, 3, 4 or 8 bytes; any other size fails */
uint64_t cursor_uleb_long(struct cursor *c);           /* cursor_uleb() without the short cut for one byte */
/* LEB128 of any length. It fails if bits that do not fit into 64 are neither zero nor copies of the sign. */
static inline uint64_t cursor_uleb(struct cursor *c)
{
	return cursor_left(c) && *c->p < 0x80 ? *c->p++ : cursor_uleb_long(c);
}
int64_t cursor_sleb(struct cursor *c);
static inline struct bytes cursor_bytes(struct cursor *c, uint64_t n) /* consumes n bytes */
{
	const uint8_t *p = cursor_take(c, n);

	return p ? (struct bytes){ p, (size_t)n } : (struct bytes){ c->end, 0 };
}
struct cursor cursor_sub(struct cursor *c, uint64_t n); /* the same as a cursor; a short one fails both */
struct str cursor_cstr(struct cursor *c); /* up to a NUL, which is consumed; without one it fails */
static inline void cursor_skip(struct cursor *c, uint64_t n)
{
	cursor_take(c, n);
}
/* Move to a multiple of @align from start; at the end of the view it stays there without failing. */
void cursor_align(struct cursor *c, unsigned align);
bool cursor_seek(struct cursor *c, uint64_t off); /* from start; false and failed when past the end */

/* "@what ends early at offset N": for use when !cursor_ok(). Returns -1 with ERR_INVALID. */
int cursor_err(const struct cursor *c, const char *what, struct err *err);
#define cursor_err(...)                        \
	({                                     \
		(void)cursor_err(__VA_ARGS__); \
		-1;                            \
	}) /* see err_set() */
