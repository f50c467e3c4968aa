/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops that the streams of all scans share. They are not in scan.c, which knows the table of codecs, since the
 * codecs call them.
 */
#include "codec/internal.h"

int codec_scan_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct bytes b = { 0 };

	if (s->ops->next(s, n, &b, err) < 0)
		return -1;
	if (b.size)
		memcpy(buf, b.p, b.size);
	*ret_got = b.size;
	return 0;
}

void codec_scan_stays(struct stream *s)
{
}
