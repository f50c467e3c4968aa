/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuing a file of frames after its writer has gone: its whole frames are decoded once more. That yields
 * their sizes, proves that they are sound, and gives their bytes to the caller (for a hash over the whole).
 */
#include "codec/zstd.h"

#include <stdlib.h>
#include <zstd.h>

struct resuming {
	ZSTD_DCtx *zstd;
	uint8_t *in, *out;
	size_t in_size;
};

static void resuming_done(struct resuming *r)
{
	ZSTD_freeDCtx(r->zstd);
	free(r->in);
	free(r->out);
}

/* Decode the frame at @at. *ret_raw is its size; 0: no whole, sound and full frame is there. */
static int next_frame(struct resuming *r, struct source *raw, uint64_t at, size_t *ret_raw, struct err *err)
{
	size_t got = (size_t)MIN((uint64_t)r->in_size, raw->size - at), n;

	*ret_raw = 0;
	if (source_read_full(raw, at, r->in, got, SOURCE_SEQUENTIAL, err) < 0)
		return -1;
	n = ZSTD_findFrameCompressedSize(r->in, got);
	if (ZSTD_isError(n) || ZSTD_getFrameContentSize(r->in, got) != CODEC_FRAME_SIZE)
		return 0;
	if (ZSTD_decompressDCtx(r->zstd, r->out, CODEC_FRAME_SIZE, r->in, n) == CODEC_FRAME_SIZE)
		*ret_raw = n;
	return 0;
}

int codec_frames_resume(struct codec_frames *f, struct source *raw,
			int (*fn)(void *arg, struct bytes b, struct err *err), void *arg, uint64_t *ret_raw,
			struct err *err)
{
	AUTO(resuming_done) struct resuming r = { .in_size = ZSTD_compressBound(CODEC_FRAME_SIZE) };
	uint64_t at = 0;

	r.zstd = ZSTD_createDCtx();
	r.in = mem_try(r.in_size);
	r.out = mem_try(CODEC_FRAME_SIZE);
	if (!r.zstd || !r.in || !r.out)
		return err_set(err, ERR_LIMIT, "zstd: no memory to go on with frames");
	while (at < raw->size) {
		size_t n = 0;

		if (next_frame(&r, raw, at, &n, err) < 0)
			return -1;
		if (!n)
			break;
		if (zstd_frames_add(f, n, CODEC_FRAME_SIZE, err) < 0 ||
		    fn(arg, bytes_of(r.out, CODEC_FRAME_SIZE), err) < 0)
			return -1;
		at += n;
	}
	*ret_raw = at;
	return 0;
}
