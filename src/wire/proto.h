/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol Buffers' binary form (protobuf.dev/programming-guides/encoding), without a schema: fields out of bytes that
 * nobody has checked, and fields into a buffer. The meaning of a number is its reader's knowledge.
 *
 * A message of a message is a view into it, so nothing is allocated and the reader decides on the depth. Groups
 * (wire types 3 and 4) fail: proto3 has none.
 */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"

enum proto_wire { PROTO_VARINT = 0, PROTO_64 = 1, PROTO_LEN = 2, PROTO_32 = 5 };

/* A field: the bytes @b if it is PROTO_LEN, else the number @v; that of PROTO_64 and PROTO_32 as it is stored. */
struct proto_field {
	uint32_t number, wire;
	uint64_t v;
	struct bytes b;
};

/* ---- reading ---- */

/*
 * A number of at most eight bytes at @p, of the bytes from @start to @end: how many it has; 0: it is longer, or has more
 * than two and all these bytes are fewer than eight. The groups of seven bits are pushed together all at once: to branch by
 * the length costs more, as lengths are mixed.
 */
static inline size_t proto_varint_at(const uint8_t *start, const uint8_t *p, const uint8_t *end,
				     uint64_t *ret)
{
	size_t left = (size_t)(end - p), used;
	uint64_t word, ends;

	if (left && *p < 0x80) {
		*ret = *p;
		return 1;
	}
	if ((size_t)(end - start) < sizeof(word)) {
		if (left < 2 || p[1] >= 0x80)
			return 0;
		*ret = (*p & 0x7f) | (uint64_t)p[1] << 7;
		return 2;
	}
	if (!left)
		return 0;
	/* Never past the end: near it, those before @p are loaded as well, and shifted out. */
	memcpy(&word, left < sizeof(word) ? end - sizeof(word) : p, sizeof(word));
	word = le64toh(word) >> (left < sizeof(word) ? 8 * (sizeof(word) - left) : 0);
	ends = ~word & 0x8080808080808080;
	used = ends ? (size_t)__builtin_ctzll(ends) / 8 + 1 : SIZE_MAX;
	if (used > left)
		return 0;
	word &= (ends ^ (ends - 1)) & 0x7f7f7f7f7f7f7f7f;
	word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
	word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
	*ret = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
	return used;
}

/* cursor_uleb(), faster for numbers of several bytes. Others are read through a copy, so that @c can stay in registers. */
static inline uint64_t proto_varint(struct cursor *c)
{
	struct cursor any;
	uint64_t v;
	size_t used = proto_varint_at(c->start, c->p, c->end, &v);

	if (used) {
		c->p += used;
		return v;
	}
	any = *c;
	v = cursor_uleb(&any);
	*c = any;
	return v;
}

/* proto_next() for any field; there are bytes left. */
bool proto_next_any(struct cursor *c, struct proto_field *f);

/*
 * The next field of the message. false: at its end, or there is no valid field, and @c has failed.
 *
 * Inline is the way of nearly all fields: a key of one byte, then a number or bytes.
 */
static inline bool proto_next(struct cursor *c, struct proto_field *f)
{
	const uint8_t *p = c->p;
	size_t left = cursor_left(c), used;
	struct proto_field got = { 0 };
	struct cursor any;
	uint64_t v;
	bool there;

	if (!left || !cursor_ok(c))
		return false;
	used = *p >= 1 << 3 && *p < 0x80 ? proto_varint_at(c->start, p + 1, c->end, &v) : 0;
	if (used && (*p & 7) == PROTO_VARINT) {
		*f = (struct proto_field){ .number = *p >> 3, .wire = PROTO_VARINT, .v = v };
		c->p = p + 1 + used;
		return true;
	}
	if (used && (*p & 7) == PROTO_LEN && v <= left - 1 - used) {
		*f = (struct proto_field){ .number = *p >> 3,
					   .wire = PROTO_LEN,
					   .b = bytes_of(p + 1 + used, v) };
		c->p = p + 1 + used + v;
		return true;
	}
	any = *c;
	there = proto_next_any(&any, &got);
	*c = any;
	*f = got;
	return there;
}

/* The text of a PROTO_LEN field, a view; of another wire type it is empty. Not checked for UTF-8. */
static inline struct str proto_text(const struct proto_field *f)
{
	return (struct str){ (const char *)f->b.p, f->b.size };
}

/* A `double` of a PROTO_64 field. */
static inline double proto_double(const struct proto_field *f)
{
	double d;

	memcpy(&d, &f->v, sizeof(d));
	return d;
}

/* ---- writing ---- */

/* Appends. A field that is zero, or empty, is left out, as in proto3. */
void proto_put_number(struct buf *b, uint32_t field, uint64_t v);
void proto_put_double(struct buf *b, uint32_t field, double v);
void proto_put_str(struct buf *b, uint32_t field, struct str s);
/* Appends; the empty ones too, as elements of a repeated field are. */
void proto_put_bytes(struct buf *b, uint32_t field, const void *p, size_t size);
/* The tag and length before the bytes of such a field: the caller adds @size bytes. */
void proto_put_head(struct buf *b, uint32_t field, uint64_t size);
/* The message that was made in @m, which is emptied for the next. */
void proto_put_message(struct buf *b, uint32_t field, struct buf *m);
