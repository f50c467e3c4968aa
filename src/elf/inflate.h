/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding zlib's format (RFC 1950): by ISA-L, which is twice as fast and verifies the same checksum, if it
 * is installed and the content is large enough to repay loading it; else by zlib.
 */
#pragma once

#include "base/view.h"
#include "base/err.h"

struct inflate;
/* @content is the decoded size. ERR_LIMIT: no memory. */
int inflate_open(uint64_t content, struct inflate **ret, struct err *err);
void inflate_close(struct inflate *z); /* takes NULL */
/* One call of the decoder. Neither input taken nor output produced: it needs more input. */
struct inflate_call {
	struct bytes in;
	void *out;
	size_t room; /* at out */
	/* the results */
	size_t taken, got;
	bool ended; /* the content is complete, and its checksum is right */
};
int inflate_step(struct inflate *z, struct inflate_call *c, struct err *err);
