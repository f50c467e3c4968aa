/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading zstd's seekable format by its table: whole frames, so that a frame's checksum is verified before
 * any of its bytes is delivered.
 *
 * A few decoded frames are cached: a reader of an ELF file seeks back and forth between its tables and its
 * sections.
 */
#include "codec/zstd.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>
#include "base/search.h"

#define N_KEPT 4

#define SKIPPABLE_HEADER 8
#define HAS_SUMS         0x80
#define RESERVED         0x7c

struct frame_place {
	uint64_t in, out;
};

struct kept_frame {
	uint8_t *p; /* owned; NULL: none yet */
	size_t room;
	uint32_t frame;
	bool good;
	uint64_t used;
};

struct frames_source {
	struct source base;
	struct source *raw; /* owned */
	ZSTD_DCtx *zstd;
	struct frame_place *places; /* n_frames + 1 */
	uint32_t n_frames;
	uint8_t *in;
	size_t in_room;
	struct kept_frame kept[N_KEPT];
	uint64_t n_uses;
};

static void *frame_room(void *p, size_t *room, size_t need)
{
	if (*room >= need)
		return p;
	free(p);
	p = mem_try(need);
	*room = p ? need : 0;
	return p;
}

static uint32_t frame_find(const struct frames_source *s, uint64_t off)
{
	/* The last one that begins at the offset or before; the first one begins at 0. */
	return (uint32_t)SEARCH(1, s->n_frames, i, s->places[i].out <= off) - 1;
}

static int frame_decode(struct frames_source *s, uint32_t frame, uint8_t *out, enum source_hint hint,
			struct err *err)
{
	const struct frame_place *at = &s->places[frame];
	size_t n_in = (size_t)(at[1].in - at->in), n_out = (size_t)(at[1].out - at->out), n;
	const uint8_t *in = source_raw_mem(s->raw);

	if (in) {
		in += at->in;
	} else {
		in = s->in = frame_room(s->in, &s->in_room, n_in);
		if (!in)
			return err_set(err, ERR_LIMIT, "zstd: no memory for a frame of %zu bytes", n_in);
		if (source_read_full(s->raw, at->in, s->in, n_in, hint, err) < 0)
			return -1;
	}
	n = ZSTD_decompressDCtx(s->zstd, out, n_out, in, n_in);
	if (ZSTD_isError(n)) {
		zstd_err(err, n);
		/* Whole frames are decoded without a window, so no memory is wanted for it: its size is damaged. */
		if (err && ZSTD_getErrorCode(n) == ZSTD_error_frameParameter_windowTooLarge)
			err->kind = ERR_INVALID;
		return err_in(err, "frame at %llu", (unsigned long long)at->in);
	}
	if (n != n_out)
		return err_set(err, ERR_INVALID,
			       "frame at %llu: decodes to %zu bytes, not the %zu of the table",
			       (unsigned long long)at->in, n, n_out);
	return 0;
}

static int have_frame(struct frames_source *s, uint32_t frame, enum source_hint hint, const uint8_t **ret,
		      struct err *err)
{
	struct kept_frame *oldest = &s->kept[0];

	for (struct kept_frame *k = s->kept; k < s->kept + N_KEPT; k++) {
		if (k->good && k->frame == frame) {
			k->used = ++s->n_uses;
			*ret = k->p;
			return 0;
		}
		if (k->used < oldest->used)
			oldest = k;
	}
	oldest->good = false;
	oldest->p = frame_room(oldest->p, &oldest->room,
			       MAX((size_t)(s->places[frame + 1].out - s->places[frame].out), (size_t)1));
	if (!oldest->p)
		return err_set(err, ERR_LIMIT, "zstd: no memory for a frame");
	if (frame_decode(s, frame, oldest->p, hint, err) < 0)
		return -1;
	oldest->good = true;
	oldest->frame = frame;
	oldest->used = ++s->n_uses;
	*ret = oldest->p;
	return 0;
}

static int frames_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		       size_t *ret_got, struct err *err)
{
	struct frames_source *s = CONTAINER_OF(base, struct frames_source, base);
	uint32_t frame = frame_find(s, off);
	uint64_t start = s->places[frame].out, size = s->places[frame + 1].out - start;
	const uint8_t *p;

	if (off == start && n >= size && hint == SOURCE_SEQUENTIAL) {
		if (frame_decode(s, frame, buf, hint, err) < 0)
			return -1;
		*ret_got = (size_t)size;
		return 0;
	}
	if (have_frame(s, frame, hint, &p, err) < 0)
		return -1;
	*ret_got = (size_t)MIN(n, start + size - off);
	memcpy(buf, p + (off - start), *ret_got);
	return 0;
}

static void frames_close(struct source *base)
{
	struct frames_source *s = CONTAINER_OF(base, struct frames_source, base);

	for (size_t i = 0; i < N_KEPT; i++)
		free(s->kept[i].p);
	ZSTD_freeDCtx(s->zstd);
	free(s->places);
	free(s->in);
	source_close(s->raw);
	source_fini(base);
	free(s);
}

/* Frames that were decoded are right: they have check sums. */
static void frames_distrust(struct source *base)
{
	source_distrust(CONTAINER_OF(base, struct frames_source, base)->raw);
}

static const struct source_ops frames_ops = {
	.read = frames_read,
	.close = frames_close,
	.distrust = frames_distrust,
};

/* ---- the table ---- */

static int seek_footer_read(struct frames_source *s, uint64_t *ret_table, unsigned *ret_entry,
			    struct err *err)
{
	uint8_t tail[ZSTD_SEEK_FOOTER], head[SKIPPABLE_HEADER];
	struct cursor c;
	uint64_t size;
	uint8_t desc;

	if (s->raw->size < SKIPPABLE_HEADER + ZSTD_SEEK_FOOTER)
		return err_set(err, ERR_INVALID, "too short for a seek table");
	if (source_read_full(s->raw, s->raw->size - sizeof(tail), tail, sizeof(tail), SOURCE_RANDOM, err) < 0)
		return -1;
	c = cursor_of(bytes_of(tail, sizeof(tail)));
	s->n_frames = cursor_u32(&c);
	desc = cursor_u8(&c);
	if (cursor_u32(&c) != ZSTD_SEEK_MAGIC)
		return err_set(err, ERR_INVALID, "no seek table at its end");
	if (desc & RESERVED)
		return err_set(err, ERR_INVALID, "seek table: a reserved bit is set");
	if (!s->n_frames || s->n_frames > ZSTD_SEEK_MAX_FRAMES)
		return err_set(err, s->n_frames ? ERR_LIMIT : ERR_INVALID, "seek table: %u frames",
			       s->n_frames);
	*ret_entry = desc & HAS_SUMS ? 12 : 8;
	size = (uint64_t)s->n_frames * *ret_entry + ZSTD_SEEK_FOOTER;
	if (size + SKIPPABLE_HEADER > s->raw->size)
		return err_set(err, ERR_INVALID, "seek table: longer than the file");
	*ret_table = s->raw->size - size - SKIPPABLE_HEADER;
	if (source_read_full(s->raw, *ret_table, head, sizeof(head), SOURCE_RANDOM, err) < 0)
		return -1;
	c = cursor_of(bytes_of(head, sizeof(head)));
	if (cursor_u32(&c) != ZSTD_SEEK_SKIPPABLE || cursor_u32(&c) != size)
		return err_set(err, ERR_INVALID, "seek table: its frame does not start where its size says");
	return 0;
}

static int seek_table_read(struct frames_source *s, struct err *err)
{
	AUTO(mem_freep) uint8_t *table = NULL;
	struct frame_place at = { 0 };
	unsigned entry = 0;
	uint64_t end = 0;
	struct cursor c;

	if (seek_footer_read(s, &end, &entry, err) < 0)
		return -1;
	table = mem_try((size_t)s->n_frames * entry);
	s->places = mem_try(((size_t)s->n_frames + 1) * sizeof(*s->places));
	if (!table || !s->places)
		return err_set(err, ERR_LIMIT, "seek table: no memory for %u frames", s->n_frames);
	if (source_read_full(s->raw, end + SKIPPABLE_HEADER, table, (size_t)s->n_frames * entry,
			     SOURCE_RANDOM, err) < 0)
		return -1;
	c = cursor_of(bytes_of(table, (size_t)s->n_frames * entry));
	for (uint32_t i = 0; i < s->n_frames; i++) {
		uint32_t in = cursor_u32(&c), out = cursor_u32(&c);

		cursor_skip(&c, entry - 8);
		if (out > CODEC_FRAME_MAX || in > 2 * CODEC_FRAME_MAX)
			return err_set(err, ERR_LIMIT, "seek table: frame %u has %u bytes, over %zu", i, out,
				       CODEC_FRAME_MAX);
		s->places[i] = at;
		at.in += in;
		at.out += out;
	}
	s->places[s->n_frames] = at;
	if (at.in != end)
		return err_set(err, ERR_INVALID, "seek table: its frames end at %llu, it begins at %llu",
			       (unsigned long long)at.in, (unsigned long long)end);
	s->base.size = at.out;
	return 0;
}

int codec_frames_open(struct source *raw, struct source **ret, struct err *err)
{
	struct frames_source *s = NEW(struct frames_source);

	source_init(&s->base, &frames_ops, 0, raw->mtime, raw->name);
	s->raw = raw;
	s->zstd = ZSTD_createDCtx();
	if (!s->zstd) {
		frames_close(&s->base);
		return err_set(err, ERR_LIMIT, "zstd: no memory for a decoder");
	}
	if (seek_table_read(s, err) < 0) {
		frames_close(&s->base);
		return err_in(err, "zstd");
	}
	*ret = &s->base;
	return 0;
}
