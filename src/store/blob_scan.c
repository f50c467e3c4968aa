/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading all records: by the implementation's own scan, or one after the other as they are listed.
 */
#include "store/blob.h"

struct one_by_one {
	struct blobs *b;
	size_t max;
	blob_scan_fn *fn;
	void *arg;
	struct buf content;
};

static int listed_read(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	struct one_by_one *o = arg;
	struct err why = { 0 };
	struct blob_scanned s = { .name = name, .stamp = *stamp, .why = &why };

	o->content.size = 0;
	s.outcome = o->b->ops->get(o->b, name, o->max, &o->content, &s.stamp, &why);
	s.content = buf_bytes(&o->content);
	return o->fn(o->arg, &s, err);
}

int blobs_scan(struct blobs *b, struct str prefix, struct str after, size_t max, blob_scan_fn *fn, void *arg,
	       struct err *err)
{
	struct one_by_one o = { b, max, fn, arg, { 0 } };
	int r;

	if (b->ops->scan)
		return b->ops->scan(b, prefix, after, max, fn, arg, err);
	r = b->ops->list(b, prefix, after, listed_read, &o, err);
	buf_done(&o.content);
	return r;
}
