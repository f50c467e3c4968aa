/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned source: keeps another object until it is closed, and caches its first bytes.
 */
#include "resolve/internal.h"

#include <stdlib.h>

struct pinned_source {
	struct source base;
	struct source *inner;
	struct pin pin;
	uint8_t *head; /* NULL: not read yet */
	size_t n_head;
};

static int pinned_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		       size_t *ret_got, struct err *err)
{
	struct pinned_source *s = CONTAINER_OF(base, struct pinned_source, base);

	if (off >= s->n_head)
		return source_read(s->inner, off, buf, n, hint, ret_got, err);
	n = MIN(n, (size_t)(s->n_head - off));
	memcpy(buf, s->head + off, n);
	*ret_got = n;
	return 0;
}

static void pinned_close(struct source *base)
{
	struct pinned_source *s = CONTAINER_OF(base, struct pinned_source, base);

	/* @inner may read by the pinned object, so it is closed first. */
	source_close(s->inner);
	pin_release(&s->pin);
	free(s->head);
	source_fini(base);
	free(s);
}

static bool pinned_raw_fd(struct source *base, int *ret_fd, uint64_t *ret_off)
{
	return source_raw_fd(CONTAINER_OF(base, struct pinned_source, base)->inner, ret_fd, ret_off);
}

static const uint8_t *pinned_raw_mem(struct source *base)
{
	return source_raw_mem(CONTAINER_OF(base, struct pinned_source, base)->inner);
}

static const struct source_ops pinned_ops = { pinned_read, pinned_close, pinned_raw_fd, pinned_raw_mem };

void pin_release(struct pin *h)
{
	if (h->release)
		h->release(h->arg, h->thing);
	*h = (struct pin){ 0 };
}

struct source *pinned_source_new(struct source *inner, struct pin *pin)
{
	struct pinned_source *s = NEW(struct pinned_source);

	source_init(&s->base, &pinned_ops, inner->size, inner->mtime, inner->name);
	s->inner = inner;
	s->pin = *pin;
	*pin = (struct pin){ 0 };
	return &s->base;
}

int pinned_source_head(struct source *base, struct bytes *ret, struct err *err)
{
	struct pinned_source *s = CONTAINER_OF(base, struct pinned_source, base);
	size_t n = (size_t)MIN(base->size, (uint64_t)PINNED_HEAD);

	if (!s->head) {
		AUTO(mem_freep) uint8_t *head = mem_alloc(PINNED_HEAD);

		/* Most callers that read the head go on to read the bytes after it. */
		if (source_read_full(s->inner, 0, head, n, SOURCE_RANDOM, err) < 0)
			return -1;
		s->head = TAKE(head);
		s->n_head = n;
	}
	*ret = bytes_of(s->head, s->n_head);
	return 0;
}
