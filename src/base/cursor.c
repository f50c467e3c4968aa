/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded reading of untrusted bytes.
 *
 * A failed cursor is at its end: no bytes are left, so every later read fails by the check in cursor_take().
 */
#include "base/cursor.h"

#undef cursor_err

#define ULEB_WHOLE 9u /* groups of 7 bits, all of whose bits fit into 64 */

static void cursor_fail(struct cursor *c)
{
	c->failed = true;
	c->p = c->end;
}

uint32_t cursor_u24(struct cursor *c)
{
	const uint8_t *p = cursor_take(c, 3);

	if (!p)
		return 0;
	if (c->big)
		return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
	return (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

uint64_t cursor_uint(struct cursor *c, unsigned size)
{
	switch (size) {
	case 1:
		return cursor_u8(c);
	case 2:
		return cursor_u16(c);
	case 3:
		return cursor_u24(c);
	case 4:
		return cursor_u32(c);
	case 8:
		return cursor_u64(c);
	default:
		cursor_fail(c);
		return 0;
	}
}

uint64_t cursor_uleb_long(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	const uint8_t *whole = c->p + (cursor_left(c) < ULEB_WHOLE ? cursor_left(c) : ULEB_WHOLE);

	/* Nearly all numbers: one check of the bounds is enough for all groups that fit whole into 64 bits. */
	for (const uint8_t *p = c->p; p < whole; shift += 7) {
		v |= (uint64_t)(*p & 0x7f) << shift;
		if (*p++ < 0x80) {
			c->p = p;
			return v;
		}
	}
	v = 0;
	shift = 0;
	for (;;) {
		const uint8_t *p = cursor_take(c, 1);
		uint64_t bits;

		if (!p)
			return 0;
		bits = *p & 0x7f;
		if (shift < 64)
			v |= bits << shift;
		/* Writers pad with empty groups, so length alone is no error; lost bits are. */
		if (shift >= 64 ? bits != 0 : shift == 63 && bits > 1) {
			cursor_fail(c);
			return 0;
		}
		if (!(*p & 0x80))
			return v;
		if (shift < 64)
			shift += 7;
	}
}

int64_t cursor_sleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;

	for (;;) {
		const uint8_t *p = cursor_take(c, 1);
		uint64_t bits;

		if (!p)
			return 0;
		bits = *p & 0x7f;
		if (shift < 63) {
			v |= bits << shift;
		} else {
			/* From bit 63 on only copies of the sign may follow. In the group at bit 63 the
			 * lowest bit is the sign. */
			uint64_t sign = shift == 63 ? bits & 1 : v >> 63;

			if (bits != (sign ? 0x7f : 0)) {
				cursor_fail(c);
				return 0;
			}
			v |= sign << 63;
		}
		shift = shift < 64 ? shift + 7 : shift;
		if (!(*p & 0x80)) {
			if (shift < 64 && (bits & 0x40))
				v |= ~(uint64_t)0 << shift;
			return (int64_t)v;
		}
	}
}

struct cursor cursor_sub(struct cursor *c, uint64_t n)
{
	uint64_t off = cursor_off(c);
	struct bytes b = cursor_bytes(c, n);
	struct cursor sub = cursor_at(b, c->big, c->failed ? cursor_off(c) : off);

	sub.failed = c->failed;
	return sub;
}

struct str cursor_cstr(struct cursor *c)
{
	const uint8_t *p = c->p, *nul = cursor_left(c) ? memchr(p, 0, cursor_left(c)) : NULL;

	if (!nul) {
		cursor_fail(c);
		return (struct str){ (const char *)c->end, 0 };
	}
	c->p = nul + 1;
	return (struct str){ (const char *)p, (size_t)(nul - p) };
}

void cursor_align(struct cursor *c, unsigned align)
{
	size_t over = align ? (size_t)(c->p - c->start) % align : 0;

	if (over)
		c->p += align - over < cursor_left(c) ? align - over : cursor_left(c);
}

bool cursor_seek(struct cursor *c, uint64_t off)
{
	if (c->failed || off > (uint64_t)(c->end - c->start)) {
		cursor_fail(c);
		return false;
	}
	c->p = c->start + off;
	return true;
}

int cursor_err(const struct cursor *c, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s ends early at offset %llu", what,
		       (unsigned long long)cursor_off(c));
}
