/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding from start to end: the codec's own stream, by kind; and small inputs at once.
 */
#include "codec/internal.h"

#include "base/budget.h"

#define ALL_FIRST KIB(16)

int codec_stream_open(enum codec_kind kind, struct stream *raw, struct stream **ret, struct err *err)
{
	const struct codec_ops *ops = codec_ops_of(kind);

	if (!ops) {
		*ret = raw;
		return 0;
	}
	return ops->stream_open(raw, ret, err);
}

/* Append all of @s to @out, which grows by doubling. */
static int decode_rest(struct stream *s, size_t max, struct budget_hold *hold, uint64_t *held,
		       struct buf *out, struct err *err)
{
	for (;;) {
		size_t got, room = MIN(max - out->size, MAX(out->size, ALL_FIRST));
		uint8_t probe, *p = &probe;

		if (room && !(p = buf_try_reserve(out, room)))
			return err_set(err, ERR_LIMIT, "no memory for more than %zu bytes", out->size);
		budget_hold_track(hold, held, out->room);
		if (budget_hold_check(hold, err) < 0 || stream_read(s, p, MAX(room, 1), &got, err) < 0)
			return -1;
		if (!got)
			return 0;
		if (!room)
			return err_set(err, ERR_LIMIT, "decodes to more than the %zu bytes allowed", max);
		out->size += got;
	}
}

int codec_decode_all(enum codec_kind kind, struct bytes in, size_t max, struct buf *ret, struct err *err)
{
	return codec_decode_held(kind, in, max, NULL, ret, err);
}

int codec_decode_held(enum codec_kind kind, struct bytes in, size_t max, struct budget_hold *hold,
		      struct buf *ret, struct err *err)
{
	AUTO(stream_closep) struct stream *s = NULL;
	AUTO(buf_done) struct buf out = { 0 };
	uint64_t held = 0;
	struct stream *raw = stream_of_source(source_of_mem(in, codec_name(kind)), true, 0, in.size);

	if (codec_stream_open(kind, raw, &s, err) < 0 || decode_rest(s, max, hold, &held, &out, err) < 0) {
		budget_hold_track(hold, &held, 0);
		return err_in(err, "%s", codec_name(kind));
	}
	if (ret->size) {
		buf_add(ret, out.p, out.size);
	} else {
		buf_done(ret);
		*ret = out;
		out = (struct buf){ 0 };
	}
	return 0;
}
