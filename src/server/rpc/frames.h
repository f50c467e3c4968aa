/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a gRPC body, as its bytes come: for calls whose client sends many messages, or ones that are too large
 * to be collected. A handler with such a call has a body() of its own:
 *
 *	while ((r = rpc_frames_next(&f, &chunk, &piece, &err)) > 0) {
 *		size_t taken = ... piece.b ...;
 *
 *		if (taken < piece.b.size) { // it has suspended the request
 *			rpc_frames_return(&f, &chunk, piece.b.size - taken);
 *			break;
 *		}
 *	}
 *	return size - chunk.size;
 *
 * and replies by rpc_reply_message().
 */
#pragma once

#include "server/internal.h"

struct rpc_frames {
	uint64_t max;       /* bytes of one message */
	bool no_compressed; /* a compressed message is refused */
	/* rpc_frames_next()'s */
	uint8_t prefix[GRPC_PREFIX_SIZE];
	unsigned n_prefix;
	uint64_t left; /* of the message */
};

struct rpc_piece {
	bool first, last; /* of its message */
	bool compressed;
	uint64_t size; /* of the whole message */
	struct bytes b;
};

/*
 * The next bytes of a message, at the start of @in, which goes on after them. 1: *@ret; 0: all of @in was used. An
 * empty message has one empty piece. ERR_LIMIT: a message has more than @max bytes; it is known from its first bytes.
 */
int rpc_frames_next(struct rpc_frames *f, struct bytes *in, struct rpc_piece *ret, struct err *err);
/* The last @n bytes of the piece were not taken: they come again. */
void rpc_frames_return(struct rpc_frames *f, struct bytes *in, size_t n);
/* The body has ended: is a message cut? */
int rpc_frames_end(const struct rpc_frames *f, struct err *err);
