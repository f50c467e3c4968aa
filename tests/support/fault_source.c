/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that fails on purpose.
 */
#include "fault_source.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

#define NEVER UINT_MAX

struct fault_source {
	struct source base;
	struct source *parent;
	bool owns;
	unsigned n_reads, n_sequential, fail_at;
	uint64_t n_bytes;
	uint64_t fail_off, fail_size;
	uint64_t flip_off;
	uint8_t flip_mask;
	size_t max_read;
};

static bool overlaps(uint64_t off, uint64_t size, uint64_t fault_off, uint64_t fault_size)
{
	return fault_size && size && off < fault_off + fault_size && fault_off < off + size;
}

static int fault_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		      size_t *ret_got, struct err *err)
{
	struct fault_source *s = CONTAINER_OF(base, struct fault_source, base);

	s->n_sequential += hint == SOURCE_SEQUENTIAL;
	if (s->max_read)
		n = MIN(n, s->max_read);
	if (s->n_reads++ == s->fail_at || overlaps(off, n, s->fail_off, s->fail_size))
		return err_set(err, ERR_IO, "injected failure of the read at %llu", (unsigned long long)off);
	if (source_read_full(s->parent, off, buf, n, hint, err) < 0)
		return -1;
	if (s->flip_mask && overlaps(off, n, s->flip_off, 1))
		((uint8_t *)buf)[s->flip_off - off] ^= s->flip_mask;
	s->n_bytes += n;
	*ret_got = n;
	return 0;
}

static void fault_close(struct source *base)
{
	struct fault_source *s = CONTAINER_OF(base, struct fault_source, base);

	if (s->owns)
		source_close(s->parent);
	source_fini(base);
	free(s);
}

static const struct source_ops fault_ops = {
	.read = fault_read,
	.close = fault_close,
};

static struct fault_source *fault_of(struct source *s)
{
	assert(s->ops == &fault_ops);
	return CONTAINER_OF(s, struct fault_source, base);
}

struct source *fault_source_new(struct source *parent, bool takes)
{
	struct fault_source *s = NEW(struct fault_source);

	source_init(&s->base, &fault_ops, parent->size, parent->mtime, parent->name);
	s->parent = parent;
	s->owns = takes;
	s->fail_at = NEVER;
	return &s->base;
}

void fault_fail_at(struct source *s, unsigned n)
{
	fault_of(s)->fail_at = fault_of(s)->n_reads + n;
}

void fault_fail_range(struct source *s, uint64_t off, uint64_t size)
{
	fault_of(s)->fail_off = off;
	fault_of(s)->fail_size = size;
}

void fault_flip(struct source *s, uint64_t off, uint8_t mask)
{
	fault_of(s)->flip_off = off;
	fault_of(s)->flip_mask = mask;
}

void fault_short(struct source *s, size_t n)
{
	fault_of(s)->max_read = n;
}

void fault_clear(struct source *s)
{
	struct fault_source *f = fault_of(s);

	f->fail_at = NEVER;
	f->fail_size = 0;
	f->flip_mask = 0;
	f->max_read = 0;
}

unsigned fault_reads(struct source *s)
{
	return fault_of(s)->n_reads;
}

uint64_t fault_bytes(struct source *s)
{
	return fault_of(s)->n_bytes;
}

unsigned fault_sequential(struct source *s)
{
	return fault_of(s)->n_sequential;
}
