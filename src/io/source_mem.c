/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source over memory, borrowed or owned.
 */
#include "io/io.h"

#include <stdlib.h>

struct mem_source {
	struct source base;
	const uint8_t *p;
	void *heap; /* owned; NULL when the memory is borrowed */
};

static int mem_source_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
			   size_t *ret_got, struct err *err)
{
	struct mem_source *s = CONTAINER_OF(base, struct mem_source, base);

	memcpy(buf, s->p + off, n);
	*ret_got = n;
	return 0;
}

static void mem_source_close(struct source *base)
{
	struct mem_source *s = CONTAINER_OF(base, struct mem_source, base);

	free(s->heap);
	source_fini(base);
	free(s);
}

static const uint8_t *mem_source_raw(struct source *base)
{
	return CONTAINER_OF(base, struct mem_source, base)->p;
}

static const struct source_ops mem_source_ops = {
	.read = mem_source_read,
	.close = mem_source_close,
	.raw_mem = mem_source_raw,
};

static struct source *mem_source_new(struct bytes b, void *heap, const char *name)
{
	struct mem_source *s = NEW(struct mem_source);

	source_init(&s->base, &mem_source_ops, b.size, 0, name);
	/* Empty memory needs an address too: NULL would mean "not in memory". */
	s->p = b.p ? b.p : (const uint8_t *)"";
	s->heap = heap;
	return &s->base;
}

struct source *source_of_mem(struct bytes b, const char *name)
{
	return mem_source_new(b, NULL, name);
}

struct source *source_of_heap(void *p, size_t size, const char *name)
{
	return mem_source_new(bytes_of(p, size), p, name);
}
