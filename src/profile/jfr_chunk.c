/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of a recording: a header of 68 bytes, then events one after the other. Among them are the checkpoints with the
 * constants, and the metadata, which are found by their type as a walk passes them. The header has places of both, and
 * checkpoints are a chain; but these are missing in a chunk that was not completed, and a walk is needed anyway.
 */
#include "profile/jfr_read.h"

#define MAX_CHUNK        UINT32_MAX
#define TYPE_METADATA    0u
#define TYPE_CHECKPOINT  1u
#define FLAG_COMPRESSED  1u
#define MAX_TICKS_PER_S  INT64_C(1000000000000)
#define VARINT_LONG_BITS 56u /* the ninth byte has eight bits */

bool profile_is_jfr(struct bytes head)
{
	return head.size >= 4 && memcmp(head.p, "FLR\0", 4) == 0;
}

int jfr_err_cut(struct err *err)
{
	return err_set(err, ERR_INVALID, "it ends within a field");
}

int jfr_err_memory(struct jfr_reader *r, struct err *err)
{
	return profile_err_memory(r->room, err);
}

struct cursor jfr_cursor(const struct jfr_reader *r, uint32_t off)
{
	struct cursor c = cursor_at(r->chunk, true, 0);

	cursor_skip(&c, off);
	return c;
}

uint64_t jfr_varint_long(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < VARINT_LONG_BITS; shift += 7) {
		uint8_t b = cursor_u8(c);

		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	return v | (uint64_t)cursor_u8(c) << VARINT_LONG_BITS;
}

int jfr_event_next(const struct jfr_reader *r, uint32_t *off, struct jfr_event *ret, struct err *err)
{
	struct cursor c = jfr_cursor(r, *off);
	uint64_t size;

	if (*off >= r->chunk.size)
		return 1;
	size = jfr_int(r, &c, 4);
	ret->type_id = jfr_int(r, &c, 8);
	ret->body = (uint32_t)cursor_off(&c);
	if (!cursor_ok(&c) || size < ret->body - *off || size > r->chunk.size - *off) {
		/* The writer was interrupted here. */
		if (r->unfinished)
			return 1;
		return err_set(err, ERR_INVALID,
			       "the event at byte %u has the size %llu, of %zu bytes that are left", *off,
			       (unsigned long long)size, r->chunk.size - *off);
	}
	ret->off = *off;
	ret->size = (uint32_t)size;
	*off += (uint32_t)size;
	return 0;
}

/* The checkpoints, and the last metadata unless the header has it. */
static int walk_chunk(struct jfr_reader *r, uint64_t metadata, struct err *err)
{
	struct jfr_event e;
	uint32_t off = JFR_HEADER_SIZE;
	int done;

	r->metadata = 0;
	r->checkpoints.n = 0;
	while ((done = jfr_event_next(r, &off, &e, err)) == 0) {
		if (e.type_id == TYPE_METADATA && (!metadata || r->metadata != metadata))
			r->metadata = e.off;
		else if (e.type_id == TYPE_CHECKPOINT && !profile_push(r->room, &r->checkpoints, e.off))
			return jfr_err_memory(r, err);
	}
	return done < 0 ? -1 : 0;
}

/* The bytes of the chunk at the start of @in: as its header says, or all, if it was not completed. */
static uint64_t chunk_extent(struct jfr_reader *r, struct bytes in, uint64_t size)
{
	struct bytes rest;

	r->unfinished = size < JFR_HEADER_SIZE || size > in.size;
	if (r->unfinished)
		return in.size;
	rest = bytes_of(in.p + size, in.size - size);
	/* A recording that is being written: the size is that of the last flush. */
	r->unfinished = rest.size && !profile_is_jfr(rest);
	return r->unfinished ? in.size : size;
}

static void note_chunk_times(struct jfr_reader *r, int64_t duration_ns)
{
	int64_t end = 0;

	r->first_ns = r->first_ns ? MIN(r->first_ns, r->start_ns) : r->start_ns;
	if (duration_ns > 0 && !__builtin_add_overflow(r->start_ns, duration_ns, &end))
		r->last_ns = MAX(r->last_ns, end);
}

int jfr_chunk_open(struct jfr_reader *r, struct bytes in, uint64_t *ret_size, struct err *err)
{
	struct cursor c = cursor_at(in, true, 0);
	uint64_t size, metadata;
	uint16_t major, minor;
	int64_t duration_ns;

	r->number++;
	if (!profile_is_jfr(in))
		return err_set(err, ERR_INVALID, "it does not begin with FLR");
	cursor_skip(&c, 4);
	major = cursor_u16(&c);
	minor = cursor_u16(&c);
	size = cursor_u64(&c);
	cursor_skip(&c, 8); /* the last checkpoint */
	metadata = cursor_u64(&c);
	r->start_ns = (int64_t)cursor_u64(&c);
	duration_ns = (int64_t)cursor_u64(&c);
	r->start_ticks = (int64_t)cursor_u64(&c);
	r->ticks_per_s = (int64_t)cursor_u64(&c);
	r->plain = !(cursor_u32(&c) & FLAG_COMPRESSED);
	if (!cursor_ok(&c))
		return err_set(err, ERR_INVALID, "its header is cut off");
	if (major != 2)
		return err_set(
			err, ERR_INVALID,
			"it is of version %u.%u, and only 2.x is read, which all JDKs since 8u262 write: "
			"record with one of these",
			major, minor);
	if (r->ticks_per_s <= 0 || r->ticks_per_s > MAX_TICKS_PER_S)
		return err_set(err, ERR_INVALID, "its clock has %lld ticks per second",
			       (long long)r->ticks_per_s);
	size = chunk_extent(r, in, size);
	if (size > MAX_CHUNK)
		return err_set(err, ERR_LIMIT, "it is larger than 4 GiB");
	r->chunk = bytes_of(in.p, size);
	note_chunk_times(r, duration_ns);
	*ret_size = size;
	return walk_chunk(r, metadata, err);
}
