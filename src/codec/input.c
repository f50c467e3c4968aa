/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compressed bytes of a span, read through a small buffer that belongs to the decoder, so that a decoder
 * can be parked and continue over another source.
 */
#include "codec/internal.h"

#include <assert.h>

int span_input_fetch(struct span_input *in, struct source *raw, size_t n, struct err *err)
{
	size_t have = in->b.size, more;

	assert(n <= SPAN_INPUT_SIZE);
	if (have && have >= n)
		return 0;
	more = (size_t)MIN(in->end - in->at, SPAN_INPUT_SIZE - have);
	if (have < n && more < n - have)
		return err_set(err, ERR_INVALID, "ends early, at %llu", (unsigned long long)in->end);
	if (have)
		memmove(in->buf, in->b.p, have);
	/* Valid also if the read fails. */
	in->b = bytes_of(in->buf, have);
	if (source_read_full(raw, in->at, in->buf + have, more, SOURCE_RANDOM, err) < 0)
		return -1;
	in->at += more;
	in->b.size += more;
	return 0;
}
