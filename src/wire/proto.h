/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol Buffers' binary form (protobuf.dev/programming-guides/encoding), without a schema: fields out of bytes that
 * nobody has checked, and fields into a buffer. What a number means is its reader's knowledge.
 *
 * A message of a message is a view into it, so nothing is allocated and depth is what the reader makes of it. Groups
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

/* The next field of the message. false: at its end, or there is no valid field, and @c has failed. */
bool proto_next(struct cursor *c, struct proto_field *f);

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
/* The message that was made in @m, which is emptied for the next. */
void proto_put_message(struct buf *b, uint32_t field, struct buf *m);
