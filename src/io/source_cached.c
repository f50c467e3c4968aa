/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that caches the last few blocks of its parent, for readers that seek in small steps. Large reads
 * gain nothing from the cache and go straight to the parent.
 */
#include "io/io.h"

#include <assert.h>
#include <stdlib.h>

#define NO_BLOCK UINT64_MAX

struct block {
	uint64_t no; /* NO_BLOCK: none */
	uint64_t used_at;
	uint8_t *p; /* block_size bytes; NULL until first used */
};

struct cached_source {
	struct source base;
	struct source *parent;
	bool owns; /* the parent */
	size_t block_size;
	uint64_t clock; /* counts uses */
	unsigned last;  /* index of the block of the last read */
	unsigned n_blocks;
	struct block blocks[];
};

/*
 * Return block @no, reading it into the least recently used slot if it is not cached. A linear search over
 * the few blocks costs less than any read that it saves.
 */
static int block_get(struct cached_source *s, uint64_t no, enum source_hint hint, struct block **ret,
		     struct err *err)
{
	uint64_t off = no * s->block_size;
	struct block *b = &s->blocks[s->last];

	if (b->no != no) {
		b = &s->blocks[0];
		for (unsigned i = 0; i < s->n_blocks && b->no != no; i++)
			if (s->blocks[i].no == no || s->blocks[i].used_at < b->used_at)
				b = &s->blocks[i];
	}
	if (b->no != no) {
		b->no = NO_BLOCK; /* a failed read may have changed the bytes */
		if (!b->p)
			b->p = mem_try(s->block_size);
		if (!b->p)
			return err_set(err, ERR_LIMIT, "no memory for a block of %zu bytes", s->block_size);
		if (source_read_full(s->parent, off, b->p,
				     (size_t)MIN((uint64_t)s->block_size, s->base.size - off), hint, err) < 0)
			return -1;
		b->no = no;
	}
	b->used_at = ++s->clock;
	s->last = (unsigned)(b - s->blocks);
	*ret = b;
	return 0;
}

static int cached_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		       size_t *ret_got, struct err *err)
{
	struct cached_source *s = CONTAINER_OF(base, struct cached_source, base);
	size_t at = (size_t)(off % s->block_size);
	struct block *b;

	if (source_raw_mem(s->parent) || (hint == SOURCE_SEQUENTIAL && n >= s->block_size) ||
	    n / s->block_size >= s->n_blocks)
		return source_read(s->parent, off, buf, n, hint, ret_got, err);
	if (block_get(s, off / s->block_size, hint, &b, err) < 0)
		return -1;
	n = MIN(n, s->block_size - at);
	memcpy(buf, b->p + at, n);
	*ret_got = n;
	return 0;
}

static void cached_close(struct source *base)
{
	struct cached_source *s = CONTAINER_OF(base, struct cached_source, base);

	if (s->owns)
		source_close(s->parent);
	for (unsigned i = 0; i < s->n_blocks; i++)
		free(s->blocks[i].p);
	source_fini(base);
	free(s);
}

static bool cached_raw_fd(struct source *base, int *ret_fd, uint64_t *ret_off)
{
	return source_raw_fd(CONTAINER_OF(base, struct cached_source, base)->parent, ret_fd, ret_off);
}

static const uint8_t *cached_raw_mem(struct source *base)
{
	return source_raw_mem(CONTAINER_OF(base, struct cached_source, base)->parent);
}

static const struct source_ops cached_ops = {
	.read = cached_read,
	.close = cached_close,
	.raw_fd = cached_raw_fd,
	.raw_mem = cached_raw_mem,
};

struct source *source_cached(struct source *parent, bool takes, size_t block_size, unsigned n_blocks)
{
	struct cached_source *s = mem_zalloc(sizeof(*s) + n_blocks * sizeof(s->blocks[0]));

	assert(block_size && !(block_size & (block_size - 1)) && n_blocks);
	source_init(&s->base, &cached_ops, parent->size, parent->mtime, parent->name);
	s->parent = parent;
	s->owns = takes;
	s->block_size = block_size;
	s->n_blocks = n_blocks;
	for (unsigned i = 0; i < n_blocks; i++)
		s->blocks[i].no = NO_BLOCK;
	return &s->base;
}
