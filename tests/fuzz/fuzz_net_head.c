/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a reply, with any bytes: line by line, as libcurl hands them on.
 */
#include "fuzz.h"
#include "net/internal.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size };
	struct head h;
	int64_t at;

	head_init(&h);
	h.keep_all = size & 1;
	while (rest.size) {
		const char *end = memchr(rest.p, '\n', rest.size);
		struct str line = { rest.p, end ? (size_t)(end - rest.p) + 1 : rest.size };

		if (head_line(&h, line, 1000000000, NULL) < 0)
			break;
		rest = (struct str){ rest.p + line.size, rest.size - line.size };
	}
	assert(h.n_read <= NET_MAX_REPLY_HEAD + size && h.lines.size <= NET_MAX_KEPT_HEAD);
	assert(h.retry_after_s >= -1 && h.retry_after_s <= 86400);
	assert(!h.has_total || h.total > h.from);
	/* One line each, without bytes that a terminal or a header would interpret. */
	for (size_t i = 0; i < h.lines.size; i++)
		assert(h.lines.p[i] == '\n' || (h.lines.p[i] >= 0x20 && h.lines.p[i] != 0x7f));
	for (size_t i = 0; i < h.reading.size; i++)
		assert(h.reading.p[i] >= 0x20 && h.reading.p[i] < 0x7f);
	assert(!h.waits || h.unread);
	assert(!h.lines.size || h.lines.p[h.lines.size - 1] == '\n');
	if (net_date((struct str){ (const char *)data, size }, &at))
		assert(at >= 0 && at < INT64_C(253402300861));
	head_done(&h);
	return 0;
}
