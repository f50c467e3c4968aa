/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of a message's body. A packed one begins with the number of its bytes when unpacked, 64 bits, or -1 if it is
 * not packed after all. All of a message are unpacked into one block of memory, whose size is known, limited and granted
 * before any is.
 */
#include "arrow/internal.h"

#include <lz4frame.h>
#include <stdlib.h>
#include <zstd.h>
#include "base/cursor.h"

#define LENGTH_SIZE  8u
#define ALIGNMENT    64u
#define LZ4_EXPANDS  256u /* bytes that one byte of LZ4 can become, at most */
#define MAX_BUFFERS  (UINT64_C(1) << 16)
#define UNPACKER_MEM (UINT64_C(8) << 20) /* memory of the decoders, at most: LZ4's largest block, twice */

struct arrow_unpacker {
	LZ4F_dctx *lz4;
	ZSTD_DCtx *zstd;
};

static int unpacker_new(const struct arrow_limits *limits, struct arrow_unpacker **ret, struct err *err)
{
	if (budget_hold_add(limits->hold, UNPACKER_MEM, err) < 0)
		return -1;
	*ret = NEW(struct arrow_unpacker);
	return 0;
}

void arrow_unpacker_free(struct arrow_unpacker *u, const struct arrow_limits *limits)
{
	if (!u)
		return;
	budget_hold_sub(limits->hold, UNPACKER_MEM);
	LZ4F_freeDecompressionContext(u->lz4);
	ZSTD_freeDCtx(u->zstd);
	free(u);
}

static int buffer_from_lz4(struct arrow_unpacker *u, struct bytes in, uint8_t *out, size_t size,
			   struct err *err)
{
	const LZ4F_decompressOptions_t stable = { .stableDst = 1 };
	size_t left = 1;

	if (!u->lz4 && LZ4F_isError(LZ4F_createDecompressionContext(&u->lz4, LZ4F_VERSION)))
		return err_set(err, ERR_LIMIT, "no memory to unpack");
	while (left) {
		size_t n_in = in.size, n_out = size;

		left = LZ4F_decompress(u->lz4, out, &n_out, in.p, &n_in, &stable);
		if (LZ4F_isError(left) || (left && !n_in && !n_out)) {
			LZ4F_resetDecompressionContext(u->lz4);
			return err_set(err, ERR_INVALID, "a buffer is no whole frame of LZ4");
		}
		in = bytes_of(in.p + n_in, in.size - n_in);
		out += n_out;
		size -= n_out;
	}
	return size ? err_set(err, ERR_INVALID, "a buffer unpacks to fewer bytes than it says") : 0;
}

static int buffer_from_zstd(struct arrow_unpacker *u, struct bytes in, uint8_t *out, size_t size,
			    struct err *err)
{
	size_t n;

	if (!u->zstd && !(u->zstd = ZSTD_createDCtx()))
		return err_set(err, ERR_LIMIT, "no memory to unpack");
	n = ZSTD_decompressDCtx(u->zstd, out, size, in.p, in.size);
	if (ZSTD_isError(n))
		return err_set(err, ERR_INVALID, "a buffer is no zstd: %s", ZSTD_getErrorName(n));
	return n == size ? 0 : err_set(err, ERR_INVALID, "a buffer unpacks to fewer bytes than it says");
}

/* ---- sizes ---- */

static int buffer_place(struct bytes places, uint64_t i, struct bytes body, struct bytes *ret,
			struct err *err)
{
	uint64_t off = load_uint(places.p + 16 * i, 8), size = load_uint(places.p + 16 * i + 8, 8);

	if (size > body.size || off > body.size - size)
		return err_set(err, ERR_INVALID, "buffer %llu is outside of the body", (unsigned long long)i);
	*ret = size ? bytes_of(body.p + off, size) : (struct bytes){ 0 };
	return 0;
}

/* How many bytes of memory a buffer needs; those that are not packed need none, and *in is without the length. */
static int unpacked_size(enum arrow_packing packing, struct bytes *in, uint64_t *ret, struct err *err)
{
	uint64_t size;

	*ret = 0;
	if (packing == ARROW_PLAIN || !in->size)
		return 0;
	if (in->size < LENGTH_SIZE)
		return err_set(err, ERR_INVALID, "a packed buffer has %zu bytes", in->size);
	size = load_uint(in->p, LENGTH_SIZE);
	*in = bytes_of(in->p + LENGTH_SIZE, in->size - LENGTH_SIZE);
	if (size == UINT64_MAX)
		return 0;
	if (!size)
		*in = (struct bytes){ 0 };
	/* It cannot be true: nothing is taken for it. */
	if (size > INT64_MAX || (packing == ARROW_LZ4 && size / LZ4_EXPANDS > in->size))
		return err_set(err, ERR_INVALID, "a buffer of %zu bytes says that it unpacks to %llu",
			       in->size, (unsigned long long)size);
	*ret = size;
	return 0;
}

/* ret->buffers are the packed ones then, and @sizes the sizes of the unpacked ones. */
static int buffers_measure(enum arrow_packing packing, struct bytes places, struct bytes body,
			   struct arrow_body *ret, uint64_t *sizes, uint64_t left, struct err *err)
{
	for (uint64_t i = 0; i < ret->n; i++) {
		uint64_t padded;

		if (buffer_place(places, i, body, &ret->buffers[i], err) < 0 ||
		    unpacked_size(packing, &ret->buffers[i], &sizes[i], err) < 0)
			return -1;
		padded = sizes[i] > left ? UINT64_MAX
					 : (sizes[i] + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
		if (padded > left - MIN(ret->size, left))
			return err_set(err, ERR_LIMIT, "its buffers have more than %llu bytes, unpacked",
				       (unsigned long long)left);
		ret->size += padded;
	}
	return 0;
}

static int buffers_unpack(struct arrow_unpacker *u, enum arrow_packing packing, struct arrow_body *b,
			  const uint64_t *sizes, struct err *err)
{
	uint8_t *at = b->memory;

	for (uint64_t i = 0; i < b->n; i++) {
		if (!sizes[i])
			continue;
		if ((packing == ARROW_LZ4 ? buffer_from_lz4 : buffer_from_zstd)(u, b->buffers[i], at,
										sizes[i], err) < 0)
			return -1;
		b->buffers[i] = bytes_of(at, sizes[i]);
		at += (sizes[i] + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
	}
	return 0;
}

int arrow_unpack(struct arrow_unpacker **u, enum arrow_packing packing, struct bytes places,
		 struct bytes body, struct arrow_limits *limits, struct arrow_body *ret, struct err *err)
{
	AUTO(mem_freep) uint64_t *sizes = NULL;
	uint64_t need;

	*ret = (struct arrow_body){ .n = places.size / 16 };
	if (ret->n > MAX_BUFFERS)
		return err_set(err, ERR_LIMIT, "it has more than %llu buffers",
			       (unsigned long long)MAX_BUFFERS);
	ret->buffers = NEW_N(struct bytes, ret->n + 1);
	sizes = NEW_N(uint64_t, ret->n + 1);
	if (buffers_measure(packing, places, body, ret, sizes, limits->max_size, err) < 0)
		return -1;
	need = ret->size + (ret->n + 1) * sizeof(struct bytes);
	if (budget_hold_add(limits->hold, need, err) < 0)
		return -1;
	ret->held = need;
	limits->max_size -= ret->size;
	if (!ret->size)
		return 0;
	ret->memory = mem_try(ret->size);
	if (!ret->memory)
		return err_set(err, ERR_LIMIT, "no memory for %llu bytes", (unsigned long long)ret->size);
	if (!*u && unpacker_new(limits, u, err) < 0)
		return -1;
	return buffers_unpack(*u, packing, ret, sizes, err);
}

void arrow_body_done(struct arrow_body *b, const struct arrow_limits *limits)
{
	budget_hold_sub(limits->hold, b->held);
	free(b->buffers);
	free(b->memory);
	*b = (struct arrow_body){ 0 };
}
