/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of which only some ranges are present. The ranges are sorted and do not touch (touching ones are
 * joined), so a read is one binary search: it is within one range, or it misses.
 */
#include "base/vec.h"
#include "io/io.h"

#include <assert.h>
#include <stdlib.h>

struct sparse_range {
	uint64_t off;
	struct buf data;
};

struct sparse_source {
	struct source base;
	struct sparse_range *ranges;
	size_t n, room;
	size_t held;
	bool missed;
	uint64_t missed_off, missed_n;
};

static uint64_t range_end(const struct sparse_range *r)
{
	return r->off + r->data.size;
}

/* The first range that ends at or after @off, or n. */
static size_t range_find(const struct sparse_source *s, uint64_t off)
{
	return SEARCH(0, s->n, i, range_end(&s->ranges[i]) < off);
}

static int sparse_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		       size_t *ret_got, struct err *err)
{
	struct sparse_source *s = CONTAINER_OF(base, struct sparse_source, base);
	size_t i = range_find(s, off + 1);
	const struct sparse_range *r = i < s->n ? &s->ranges[i] : NULL;

	/* All or nothing: after a partial read, the recorded miss would be smaller than the read that the
	 * caller needs. */
	if (!r || r->off > off || range_end(r) < off + n) {
		s->missed = true;
		s->missed_off = off;
		s->missed_n = n;
		return err_set(err, ERR_LIMIT, "%zu bytes at %llu were not kept", n, (unsigned long long)off);
	}
	memcpy(buf, r->data.p + (off - r->off), n);
	*ret_got = n;
	return 0;
}

static void sparse_close(struct source *base)
{
	struct sparse_source *s = CONTAINER_OF(base, struct sparse_source, base);

	for (size_t i = 0; i < s->n; i++)
		buf_done(&s->ranges[i].data);
	free(s->ranges);
	source_fini(base);
	free(s);
}

static const struct source_ops sparse_ops = {
	.read = sparse_read,
	.close = sparse_close,
};

static struct sparse_source *sparse_of(struct source *s)
{
	assert(s->ops == &sparse_ops);
	return CONTAINER_OF(s, struct sparse_source, base);
}

struct source *source_sparse_new(uint64_t size, const char *name)
{
	struct sparse_source *s = NEW(struct sparse_source);

	source_init(&s->base, &sparse_ops, size, 0, name);
	return &s->base;
}

static void range_insert(struct sparse_source *s, size_t i, uint64_t off)
{
	VEC_GROW(s->ranges, s->n, s->room);
	memmove(&s->ranges[i + 1], &s->ranges[i], (s->n - i) * sizeof(*s->ranges));
	s->ranges[i] = (struct sparse_range){ .off = off };
	s->n++;
}

/* Append the bytes of ranges [from, end), which follow range @to, to it, and remove them. */
static void range_absorb(struct sparse_source *s, size_t to, size_t from, size_t end)
{
	struct sparse_range *r = &s->ranges[to];

	for (size_t i = from; i < end; i++) {
		struct sparse_range *other = &s->ranges[i];
		uint64_t skip = range_end(r) - other->off; /* bytes that both have */

		if (skip < other->data.size)
			buf_add(&r->data, other->data.p + skip, other->data.size - (size_t)skip);
		buf_done(&other->data);
	}
	memmove(&s->ranges[from], &s->ranges[end], (s->n - end) * sizeof(*s->ranges));
	s->n -= end - from;
}

void source_sparse_add(struct source *base, uint64_t off, const void *p, size_t n)
{
	struct sparse_source *s = sparse_of(base);
	uint64_t end = off + n;
	struct sparse_range *r;
	size_t i, last, common;

	assert(off <= base->size && n <= base->size - off);
	if (!n)
		return;
	i = range_find(s, off);
	for (last = i; last < s->n && s->ranges[last].off <= end; last++)
		s->held -= s->ranges[last].data.size;
	/* Ranges [i, last) touch the new one. If the first of them starts before it, the new one is merged
	 * into that range, else it gets a range of its own. */
	if (i == last || s->ranges[i].off > off) {
		range_insert(s, i, off);
		last++;
	}
	r = &s->ranges[i];
	common = (size_t)MIN((uint64_t)n, range_end(r) - off);
	if (common)
		memcpy(r->data.p + (off - r->off), p, common);
	buf_add(&r->data, (const uint8_t *)p + common, n - common);
	range_absorb(s, i, i + 1, last);
	s->held += s->ranges[i].data.size;
}

bool source_sparse_missed(struct source *base, uint64_t *ret_off, uint64_t *ret_n)
{
	struct sparse_source *s = sparse_of(base);

	if (!s->missed)
		return false;
	*ret_off = s->missed_off;
	*ret_n = s->missed_n;
	return true;
}

size_t source_sparse_held(struct source *base)
{
	return sparse_of(base)->held;
}
