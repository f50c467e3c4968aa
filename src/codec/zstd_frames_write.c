/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing zstd's seekable format: independent frames, then a skippable frame with their sizes.
 *
 * A writer holds the decoded bytes of one frame and no more, since many writers may wait for their next bytes
 * at the same time. The compressor belongs to the thread and serves all writers that the thread works for.
 */
#include "codec/zstd.h"

#include <pthread.h>
#include <stdlib.h>
#include <zstd.h>

struct codec_frames {
	int (*out)(void *arg, struct bytes b, struct err *err);
	void *arg;
	int level;
	struct buf frame; /* decoded bytes of the unfinished frame */
	struct buf sizes; /* the table's entries so far */
	uint32_t n_frames;
};

/* ---- the thread's compressor ---- */

struct press {
	ZSTD_CCtx *zstd;
	uint8_t *out;
	size_t out_size;
};

static pthread_key_t press_key;
static pthread_once_t press_once = PTHREAD_ONCE_INIT;

static void press_free(void *arg)
{
	struct press *p = arg;

	ZSTD_freeCCtx(p->zstd);
	free(p->out);
	free(p);
}

static void press_init(void)
{
	if (pthread_key_create(&press_key, press_free) != 0)
		abort();
}

static struct press *press_own(struct err *err)
{
	struct press *p;

	pthread_once(&press_once, press_init);
	p = pthread_getspecific(press_key);
	if (p)
		return p;
	p = NEW(struct press);
	p->zstd = ZSTD_createCCtx();
	p->out_size = ZSTD_compressBound(CODEC_FRAME_SIZE);
	p->out = mem_try(p->out_size);
	if (!p->zstd || !p->out || pthread_setspecific(press_key, p) != 0) {
		press_free(p);
		(void)err_set(err, ERR_LIMIT, "zstd: no memory to compress");
		return NULL;
	}
	return p;
}

/* ---- frames ---- */

int zstd_frames_add(struct codec_frames *f, size_t raw_size, size_t size, struct err *err)
{
	if (f->n_frames == ZSTD_SEEK_MAX_FRAMES)
		return err_set(err, ERR_LIMIT, "zstd: more than %u frames", ZSTD_SEEK_MAX_FRAMES);
	buf_add_u32(&f->sizes, (uint32_t)raw_size);
	buf_add_u32(&f->sizes, (uint32_t)size);
	f->n_frames++;
	return 0;
}

static int put_frame(struct codec_frames *f, struct bytes b, struct err *err)
{
	struct press *p = press_own(err);
	size_t n;

	if (!p)
		return -1;
	ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, f->level);
	ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1);
	n = ZSTD_compress2(p->zstd, p->out, p->out_size, b.p, b.size);
	if (ZSTD_isError(n))
		return zstd_err(err, n);
	if (zstd_frames_add(f, n, b.size, err) < 0)
		return -1;
	return f->out(f->arg, bytes_of(p->out, n), err);
}

struct codec_frames *codec_frames_new(int level, int (*out)(void *arg, struct bytes b, struct err *err),
				      void *arg)
{
	struct codec_frames *f = NEW(struct codec_frames);

	f->out = out;
	f->arg = arg;
	f->level = level;
	return f;
}

int codec_frames_write(struct codec_frames *f, struct bytes b, struct err *err)
{
	while (b.size) {
		size_t n = MIN(b.size, CODEC_FRAME_SIZE - f->frame.size);

		/* Whole frames are not copied. */
		if (n == CODEC_FRAME_SIZE) {
			if (put_frame(f, bytes_of(b.p, n), err) < 0)
				return -1;
		} else {
			buf_add(&f->frame, b.p, n);
			if (f->frame.size == CODEC_FRAME_SIZE) {
				if (put_frame(f, buf_bytes(&f->frame), err) < 0)
					return -1;
				f->frame.size = 0;
			}
		}
		b = bytes_of(b.p + n, b.size - n);
	}
	return 0;
}

int codec_frames_end(struct codec_frames *f, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };

	/* An empty content has an empty frame: otherwise a decoder would find nothing to unpack. */
	if ((f->frame.size || !f->n_frames) && put_frame(f, buf_bytes(&f->frame), err) < 0)
		return -1;
	buf_done(&f->frame);
	buf_add_u32(&b, ZSTD_SEEK_SKIPPABLE);
	buf_add_u32(&b, (uint32_t)(f->sizes.size + ZSTD_SEEK_FOOTER));
	buf_add(&b, f->sizes.p, f->sizes.size);
	buf_add_u32(&b, f->n_frames);
	buf_add_char(&b, 0);
	buf_add_u32(&b, ZSTD_SEEK_MAGIC);
	return f->out(f->arg, buf_bytes(&b), err);
}

void codec_frames_free(struct codec_frames *f)
{
	if (!f)
		return;
	buf_done(&f->frame);
	buf_done(&f->sizes);
	free(f);
}
