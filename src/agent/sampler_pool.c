/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First fit in the segments, oldest segment first.
 */
#include "agent/sampler_pool.h"

#include <stdlib.h>

static bool run_rested(const struct pool_run *r, int64_t now)
{
	return now - r->since_ns >= SAMPLER_POOL_REST_NS;
}

/* A run of @n elements, cut from the start of a free one. */
static bool take_run(struct pool_segment *s, uint32_t n, int64_t now, uint32_t *ret_first)
{
	for (size_t i = 0; i < s->n_runs; i++) {
		struct pool_run *r = &s->runs[i];

		if (r->n < n || !run_rested(r, now))
			continue;
		*ret_first = r->first;
		r->first += n;
		r->n -= n;
		if (r->n == 0)
			memmove(r, r + 1, (--s->n_runs - i) * sizeof(*r));
		s->n_taken += n;
		return true;
	}
	return false;
}

static void drop_segment(struct sampler_pool *p, uint32_t i)
{
	struct pool_segment *s = &p->segments[i];

	p->drop(p->arg, i, s->memory, s->n);
	p->reserved -= s->n * p->element;
	free(s->runs);
	*s = (struct pool_segment){ 0 };
}

static int make_segment(struct sampler_pool *p, uint32_t n, uint32_t *ret, struct err *err)
{
	struct pool_segment *s;
	void *memory;
	size_t i = 0;

	if (p->bytes_max && n > (p->bytes_max - MIN(p->reserved, p->bytes_max)) / p->element)
		return err_set(err, ERR_LIMIT, "%zu bytes are in use, the limit is %zu", p->reserved,
			       p->bytes_max);
	while (i < p->n_segments && p->segments[i].memory)
		i++;
	if (i == p->n_max)
		return err_set(err, ERR_LIMIT, "more than %u segments of memory", p->n_max);
	if (p->make(p->arg, (uint32_t)i, n, &memory, err))
		return -1;
	if (i == p->n_segments)
		VEC_PUSH(p->segments, p->n_segments, p->room_segments) = (struct pool_segment){ 0 };
	s = &p->segments[i];
	s->memory = memory;
	s->n = n;
	VEC_PUSH(s->runs, s->n_runs, s->room_runs) = (struct pool_run){ .n = n, .since_ns = INT64_MIN / 2 };
	p->reserved += n * p->element;
	*ret = (uint32_t)i;
	return 0;
}

int sampler_pool_take(struct sampler_pool *p, uint32_t n, struct sampler_range *ret, void **ret_memory,
		      struct err *err)
{
	int64_t now = clock_mono_ns();
	uint32_t segment, first = 0;
	bool own = n > p->normal / 4;

	for (segment = 0; segment < p->n_segments; segment++)
		if (p->segments[segment].memory && take_run(&p->segments[segment], n, now, &first))
			goto found;
	sampler_pool_tidy(p);
	if (make_segment(p, own ? n : p->normal, &segment, err))
		return -1;
	take_run(&p->segments[segment], n, now, &first);
found:
	*ret = (struct sampler_range){ segment, first, n };
	*ret_memory = p->segments[segment].memory + first * p->element;
	return 0;
}

/* Join free run @i with the one after it, if they are adjacent: both rest as long as the later one. */
static void join_next(struct pool_segment *s, size_t i)
{
	struct pool_run *a = &s->runs[i], *b = a + 1;

	if (i + 1 == s->n_runs || a->first + a->n != b->first)
		return;
	a->n += b->n;
	a->since_ns = MAX(a->since_ns, b->since_ns);
	memmove(b, b + 1, (--s->n_runs - i - 1) * sizeof(*b));
}

void sampler_pool_give(struct sampler_pool *p, struct sampler_range *range)
{
	struct pool_segment *s;
	size_t i = 0;

	if (range->n == 0)
		return;
	s = &p->segments[range->segment];
	while (i < s->n_runs && s->runs[i].first < range->first)
		i++;
	VEC_GROW(s->runs, s->n_runs, s->room_runs);
	memmove(&s->runs[i + 1], &s->runs[i], (s->n_runs++ - i) * sizeof(*s->runs));
	s->runs[i] = (struct pool_run){ range->first, range->n, clock_mono_ns() };
	s->n_taken -= range->n;
	join_next(s, i);
	if (i)
		join_next(s, i - 1);
	range->n = 0;
}

void sampler_pool_tidy(struct sampler_pool *p)
{
	int64_t now = clock_mono_ns();

	for (size_t i = 0; i < p->n_segments; i++)
		if (p->segments[i].memory && p->segments[i].n_taken == 0 &&
		    run_rested(&p->segments[i].runs[0], now))
			drop_segment(p, (uint32_t)i);
}

void sampler_pool_done(struct sampler_pool *p)
{
	for (size_t i = 0; i < p->n_segments; i++)
		if (p->segments[i].memory)
			drop_segment(p, (uint32_t)i);
	free(p->segments);
	p->segments = NULL;
	p->n_segments = p->room_segments = 0;
}
