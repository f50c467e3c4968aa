/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compressed bytes of a scan, in a ring, so that the marker can read blocks long after libzstd has
 * decoded them, without a copy. Each block is contiguous: if it would cross the ring's end, the part that was
 * read moves to the ring's start.
 */
#include "codec/zstd.h"

#define RING_SIZE MIB(4)
#define READ_SIZE KIB(128)

int zstd_input_init(struct zstd_input *in, struct source *raw, struct byte_range range,
		    struct zstd_lane *lane, struct err *err)
{
	uint8_t *p = zstd_map(RING_SIZE + 2 * ZSTD_SEQ_PAD);

	if (!p)
		return err_set(err, ERR_LIMIT, "zstd: no memory to read into");
	*in = (struct zstd_input){
		.raw = raw, .off = range.off, .size = range.size, .ring = p + ZSTD_SEQ_PAD, .lane = lane
	};
	return 0;
}

void zstd_input_done(struct zstd_input *in)
{
	if (in->ring)
		zstd_unmap(in->ring - ZSTD_SEQ_PAD, RING_SIZE + 2 * ZSTD_SEQ_PAD);
	in->ring = NULL;
}

/* Continue at the start of the ring, with the bytes that were read. */
static void input_ring_wrap(struct zstd_input *in)
{
	uint8_t *from = in->ring + in->pos % RING_SIZE;

	in->pos += RING_SIZE - in->pos % RING_SIZE;
	if (in->pos + in->have > RING_SIZE)
		zstd_lane_wait_in(in->lane, in->pos + in->have - RING_SIZE);
	memmove(in->ring, from, in->have);
}

int zstd_input_peek(struct zstd_input *in, size_t n, struct bytes *ret, struct err *err)
{
	uint64_t left = in->size - in->at;

	n = MIN(n, left);
	if (in->pos % RING_SIZE + n > RING_SIZE)
		input_ring_wrap(in);
	while (in->have < n) {
		uint64_t end = in->pos + in->have;
		size_t start = in->pos % RING_SIZE + in->have;
		size_t want = MIN(READ_SIZE, MIN(left - in->have, RING_SIZE - start)), got;

		if (end + want > RING_SIZE)
			zstd_lane_wait_in(in->lane, end + want - RING_SIZE);
		if (source_read(in->raw, in->off + in->at + in->have, in->ring + start, want,
				SOURCE_SEQUENTIAL, &got, err) < 0)
			return -1;
		if (!got)
			return err_set(err, ERR_CHANGED, "ends at %llu, where %llu bytes were expected",
				       (unsigned long long)(in->off + in->at + in->have),
				       (unsigned long long)(in->off + in->size));
		in->have += got;
	}
	*ret = bytes_of(in->ring + in->pos % RING_SIZE, in->have);
	return 0;
}

void zstd_input_take(struct zstd_input *in, size_t n)
{
	in->at += n;
	in->pos += n;
	in->have -= n;
}

void zstd_input_skip(struct zstd_input *in, uint64_t n)
{
	n = MIN(n, in->size - in->at);
	if (n <= in->have) {
		zstd_input_take(in, n);
		return;
	}
	in->at += n;
	in->pos += in->have;
	in->have = 0;
}
