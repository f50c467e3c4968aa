/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's frames.
 */
#include "server/rpc/frames.h"

static uint32_t frame_size(const struct rpc_frames *f)
{
	return (uint32_t)f->prefix[1] << 24 | (uint32_t)f->prefix[2] << 16 | (uint32_t)f->prefix[3] << 8 |
	       f->prefix[4];
}

static int frame_judge(const struct rpc_frames *f, struct err *err)
{
	if (f->prefix[0] > GRPC_COMPRESSED)
		return err_set(err, ERR_INVALID, "a frame of the body has the unknown flags 0x%02x",
			       f->prefix[0]);
	if (f->prefix[0] && f->no_compressed)
		return err_set(err, ERR_INVALID, "messages of this call must not be compressed");
	if (frame_size(f) > f->max)
		return err_set(err, ERR_LIMIT, "a message has %u bytes, and may have %llu", frame_size(f),
			       (unsigned long long)f->max);
	return 0;
}

int rpc_frames_next(struct rpc_frames *f, struct bytes *in, struct rpc_piece *ret, struct err *err)
{
	bool first = f->n_prefix < sizeof(f->prefix);
	size_t n;

	if (first) {
		n = MIN(sizeof(f->prefix) - f->n_prefix, in->size);
		if (n)
			memcpy(f->prefix + f->n_prefix, in->p, n);
		f->n_prefix += (unsigned)n;
		*in = (struct bytes){ n ? in->p + n : in->p, in->size - n };
		if (f->n_prefix < sizeof(f->prefix))
			return 0;
		if (frame_judge(f, err) < 0)
			return -1;
		f->left = frame_size(f);
	}
	if (!in->size && f->left)
		return 0;
	n = (size_t)MIN(f->left, in->size);
	f->left -= n;
	*ret = (struct rpc_piece){ .first = f->left + n == frame_size(f),
				   .last = !f->left,
				   .compressed = f->prefix[0],
				   .size = frame_size(f),
				   .b = { in->p, n } };
	*in = (struct bytes){ n ? in->p + n : in->p, in->size - n };
	if (!f->left)
		f->n_prefix = 0;
	return 1;
}

void rpc_frames_return(struct rpc_frames *f, struct bytes *in, size_t n)
{
	if (!n)
		return;
	f->left += n;
	f->n_prefix = sizeof(f->prefix);
	*in = (struct bytes){ in->p - n, in->size + n };
}

int rpc_frames_end(const struct rpc_frames *f, struct err *err)
{
	if (f->n_prefix)
		return err_set(err, ERR_INVALID, "the body ends within a message");
	return 0;
}
