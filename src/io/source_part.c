/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of another source. It lends the parent's descriptor or memory, moved by its offset.
 */
#include "io/io.h"

#include <stdlib.h>

struct part_source {
	struct source base;
	struct source *parent;
	bool owns; /* the parent */
	uint64_t off;
};

static int part_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		     size_t *ret_got, struct err *err)
{
	struct part_source *s = CONTAINER_OF(base, struct part_source, base);

	return source_read(s->parent, s->off + off, buf, n, hint, ret_got, err);
}

static void part_close(struct source *base)
{
	struct part_source *s = CONTAINER_OF(base, struct part_source, base);

	if (s->owns)
		source_close(s->parent);
	source_fini(base);
	free(s);
}

static bool part_raw_fd(struct source *base, int *ret_fd, uint64_t *ret_off)
{
	struct part_source *s = CONTAINER_OF(base, struct part_source, base);

	if (!source_raw_fd(s->parent, ret_fd, ret_off))
		return false;
	*ret_off += s->off;
	return true;
}

static const uint8_t *part_raw_mem(struct source *base)
{
	struct part_source *s = CONTAINER_OF(base, struct part_source, base);
	const uint8_t *p = source_raw_mem(s->parent);

	return p ? p + s->off : NULL;
}

static void part_expect(struct source *base, struct byte_range range)
{
	struct part_source *s = CONTAINER_OF(base, struct part_source, base);

	source_expect(s->parent, range_of(s->off + range.off, range.size));
}

static void part_distrust(struct source *base)
{
	source_distrust(CONTAINER_OF(base, struct part_source, base)->parent);
}

static const struct source_ops part_ops = {
	.read = part_read,
	.close = part_close,
	.raw_fd = part_raw_fd,
	.raw_mem = part_raw_mem,
	.expect = part_expect,
	.distrust = part_distrust,
};

int source_open_part(struct source *parent, bool takes, struct byte_range range, const char *name,
		     struct source **ret, struct err *err)
{
	struct part_source *s;

	if (range.off > parent->size || range.size > parent->size - range.off) {
		err_set(err, ERR_INVALID, "ends at %llu, wanted %llu bytes at %llu",
			(unsigned long long)parent->size, (unsigned long long)range.size,
			(unsigned long long)range.off);
		if (takes)
			source_close(parent);
		return -1;
	}
	s = NEW(struct part_source);
	source_init(&s->base, &part_ops, range.size, parent->mtime, name ? name : parent->name);
	s->parent = parent;
	s->owns = takes;
	s->off = range.off;
	*ret = &s->base;
	return 0;
}
