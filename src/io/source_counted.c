/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source over another one that counts the bytes read, for the progress of a scan.
 */
#include "io/io.h"

#include <stdlib.h>

static int counted_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
			size_t *ret_got, struct err *err)
{
	struct source_counted *c = CONTAINER_OF(base, struct source_counted, base);

	if (source_read(c->src, off, buf, n, hint, ret_got, err) < 0)
		return -1;
	atomic_fetch_add_explicit(&c->n_read, *ret_got, memory_order_relaxed);
	return 0;
}

static void counted_close(struct source *base)
{
	source_fini(base);
	free(CONTAINER_OF(base, struct source_counted, base));
}

static void counted_expect(struct source *base, struct byte_range range)
{
	source_expect(CONTAINER_OF(base, struct source_counted, base)->src, range);
}

static void counted_distrust(struct source *base)
{
	source_distrust(CONTAINER_OF(base, struct source_counted, base)->src);
}

static const struct source_ops counted_ops = {
	.read = counted_read,
	.close = counted_close,
	.expect = counted_expect,
	.distrust = counted_distrust,
};

struct source_counted *source_counted_new(struct source *src)
{
	struct source_counted *c = NEW(struct source_counted);

	source_init(&c->base, &counted_ops, src->size, src->mtime, src->name);
	c->src = src;
	return c;
}
