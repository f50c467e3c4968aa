/* SPDX-License-Identifier: Apache-2.0 */
/* Decompressing profiles: any format of codec, one layer of it. */
#include "profile/internal.h"

#include "base/budget.h"
#include "codec/codec.h"

int profile_unpack(struct bytes *in, const struct profile_limits *limits, struct buf *room, struct err *err)
{
	uint64_t max = limits && limits->max_size ? limits->max_size : PROFILE_MAX_SIZE;
	enum codec_kind kind = codec_detect_magic(*in);

	if (kind != CODEC_NONE) {
		if (codec_decode_held(kind, *in, max, limits ? limits->memory : NULL, room, err) < 0)
			return -1;
		*in = buf_bytes(room);
		/* No sender does that, and by two layers 1 KiB reaches the limit of decoded bytes. */
		if (codec_detect_magic(*in) != CODEC_NONE)
			return err_set(err, ERR_INVALID, "is compressed twice: compress it once");
	}
	if (in->size > max)
		return err_set(err, ERR_LIMIT, "is larger than the limit of %llu MiB",
			       (unsigned long long)(max >> 20));
	return in->size ? 0 : err_set(err, ERR_INVALID, "is empty");
}

void profile_unpack_done(const struct profile_limits *limits, struct buf *room)
{
	budget_hold_sub(limits ? limits->memory : NULL, room->room);
	buf_done(room);
}
