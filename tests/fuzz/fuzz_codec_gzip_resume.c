/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gzip span with any payload over any bytes. Input: a byte with the payload's size, the payload, the bytes.
 */
#include "fuzz.h"

#include "codec/gzip.h"

#define OUT_MAX KIB(256)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct codec_span span = { .out = 1, .out_end = 1 + OUT_MAX };
	struct span_decoder *d;
	struct source *raw;
	struct err err = { 0 };
	size_t n, total = 0;

	if (!size)
		return 0;
	n = MIN((size_t)data[0], size - 1);
	span.payload = bytes_of(data + 1, n);
	span.in_end = size - 1 - n;
	raw = source_of_mem(bytes_of(data + 1 + n, size - 1 - n), "fuzz");
	if (codec_gzip.span_open(raw, &span, &d, &err) == 0) {
		while (total < OUT_MAX) {
			uint8_t out[3000];
			size_t want = MIN(sizeof(out), OUT_MAX - total), got = 0;

			if (d->ops->span_read(d, total % 2 ? NULL : out, want, &got, &err) < 0)
				break;
			FUZZ_CHECK(got > 0 && got <= want);
			total += got;
		}
		d->ops->span_close(d);
	}
	source_close(raw);
	return 0;
}
