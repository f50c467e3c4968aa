/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of protobuf's binary form. */
#include "wire/proto.h"

#include <endian.h>
#include "base/base.h"

bool proto_next_any(struct cursor *c, struct proto_field *f)
{
	uint64_t key;

	*f = (struct proto_field){ 0 };
	key = cursor_uleb(c);
	f->number = (uint32_t)MIN(key >> 3, (uint64_t)UINT32_MAX);
	f->wire = key & 7;
	switch (f->wire) {
	case PROTO_VARINT:
		f->v = cursor_uleb(c);
		break;
	case PROTO_LEN:
		f->b = cursor_bytes(c, cursor_uleb(c));
		break;
	case PROTO_64:
		f->v = cursor_u64(c);
		break;
	case PROTO_32:
		f->v = cursor_u32(c);
		break;
	default:
		c->failed = true;
	}
	if (!f->number)
		c->failed = true;
	return cursor_ok(c);
}

/* ---- writing ---- */

static void proto_put_key(struct buf *b, uint32_t field, enum proto_wire wire)
{
	buf_add_uleb(b, (uint64_t)field << 3 | wire);
}

void proto_put_number(struct buf *b, uint32_t field, uint64_t v)
{
	if (!v)
		return;
	proto_put_key(b, field, PROTO_VARINT);
	buf_add_uleb(b, v);
}

void proto_put_double(struct buf *b, uint32_t field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	if (!bits)
		return;
	proto_put_key(b, field, PROTO_64);
	bits = htole64(bits);
	buf_add(b, &bits, sizeof(bits));
}

void proto_put_head(struct buf *b, uint32_t field, uint64_t size)
{
	proto_put_key(b, field, PROTO_LEN);
	buf_add_uleb(b, size);
}

void proto_put_bytes(struct buf *b, uint32_t field, const void *p, size_t size)
{
	proto_put_head(b, field, size);
	buf_add(b, p, size);
}

void proto_put_str(struct buf *b, uint32_t field, struct str s)
{
	if (s.size)
		proto_put_bytes(b, field, s.p, s.size);
}

void proto_put_message(struct buf *b, uint32_t field, struct buf *m)
{
	proto_put_bytes(b, field, m->p, m->size);
	m->size = 0;
}
