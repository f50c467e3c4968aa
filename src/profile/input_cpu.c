/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU profiles of gperftools: words of 32 or 64 bits in either byte order.
 *
 * A head of 0, 3, 0, the period in microseconds, 0; then records of a count, the number of addresses and
 * these, the leaf first; 0, 1, 0 ends them, followed by the text of /proc/self/maps.
 */
#include "profile/input.h"

#include <stdlib.h>
#include "profile/internal.h"
#include "profile/maps.h"

struct cpu_reader {
	struct profile *p;
	struct profile_maps maps;
	PROFILE_TABLE(uint32_t) stack; /* locations, leaf first */
	bool wide;                     /* words of 64 bits */
	struct cursor records;
	uint64_t period_us;
};

static uint64_t cpu_next_word(struct cursor *c, bool wide)
{
	return wide ? cursor_u64(c) : cursor_u32(c);
}

static bool cpu_read_head(struct bytes in, bool wide, bool big, struct cpu_reader *r)
{
	struct cursor c = cursor_at(in, big, 0);
	bool ok = cpu_next_word(&c, wide) == 0 && cpu_next_word(&c, wide) == 3 &&
		  cpu_next_word(&c, wide) == 0;

	r->period_us = cpu_next_word(&c, wide);
	if (!ok || !r->period_us || cpu_next_word(&c, wide) != 0 || !cursor_ok(&c))
		return false;
	r->wide = wide;
	r->records = c;
	return true;
}

static bool find_head(struct bytes in, struct cpu_reader *r)
{
	for (unsigned i = 0; i < 4; i++)
		if (cpu_read_head(in, i & 1, i & 2, r))
			return true;
	return false;
}

bool profile_is_cpu(struct bytes head)
{
	struct cpu_reader r;

	return find_head(head, &r);
}

/* The next record's head; its addresses come next in @c. 1: there is none. */
static int next_record(const struct cpu_reader *r, struct cursor *c, uint64_t *ret_count, uint64_t *ret_n,
		       struct err *err)
{
	uint64_t off = cursor_off(c), count, n;
	struct cursor at;

	if (!cursor_left(c))
		return 1;
	count = cpu_next_word(c, r->wide);
	n = cpu_next_word(c, r->wide);
	if (!cursor_ok(c) || n > cursor_left(c) / (r->wide ? 8 : 4))
		return err_set(err, ERR_INVALID, "ends within the record at offset %llu",
			       (unsigned long long)off);
	at = *c;
	if (count == 0 && n == 1 && cpu_next_word(&at, r->wide) == 0) {
		*c = at;
		return 1;
	}
	if (n > PROFILE_MAX_DEPTH)
		return err_set(err, ERR_LIMIT, "the stack at offset %llu is deeper than %u",
			       (unsigned long long)off, PROFILE_MAX_DEPTH);
	*ret_count = count;
	*ret_n = n;
	return 0;
}

/* The end of the records. */
static int find_end(const struct cpu_reader *r, struct cursor *c, struct err *err)
{
	uint64_t count, n;
	int done;

	while ((done = next_record(r, c, &count, &n, err)) == 0)
		cursor_skip(c, n * (r->wide ? 8 : 4));
	return done < 0 ? -1 : 0;
}

/*
 * The leaf comes from the signal. Often it is on the stack as well, in some profiles after the frame of the
 * signal handler: the number of addresses that are not of the program.
 */
static uint64_t behind_leaf(struct cursor at, bool wide, uint64_t n)
{
	uint64_t leaf = cpu_next_word(&at, wide);

	for (uint64_t i = 1; i < MIN(n, (uint64_t)3); i++)
		if (cpu_next_word(&at, wide) == leaf)
			return i + 1;
	return 1;
}

static int cpu_read_record(struct cpu_reader *r, struct cursor *c, uint64_t count, uint64_t n,
			   struct err *err)
{
	uint64_t max = (uint64_t)INT64_MAX / r->period_us / 1000, first = behind_leaf(*c, r->wide, n);
	int64_t values[2] = { (int64_t)MIN(count, max), (int64_t)(MIN(count, max) * r->period_us * 1000) };
	uint32_t stack = 0;

	r->stack.n = 0;
	for (uint64_t i = 0; i < n; i++) {
		struct profile_location l = { .addr = cpu_next_word(c, r->wide) };

		if (i && i < first)
			continue;
		/* Callers are given by their return addresses. */
		l.addr -= i && l.addr;
		l.mapping = profile_maps_find(&r->maps, l.addr);
		if (!profile_push(r->p, &r->stack, profile_add_location(r->p, &l, NULL, 0)))
			return profile_err_memory(r->p, err);
	}
	while (r->stack.n)
		stack = profile_add_stack(r->p, stack, r->stack.p[--r->stack.n]);
	profile_add_sample(r->p, stack, 0, values);
	return profile_build_end(r->p, err);
}

static int cpu_read_all(struct cpu_reader *r, struct bytes in, struct err *err)
{
	struct cursor c;
	uint64_t count, n;
	int done;

	if (!find_head(in, r))
		return err_set(err, ERR_INVALID, "is not a CPU profile of gperftools");
	if (r->period_us > (uint64_t)INT64_MAX / 1000)
		return err_set(err, ERR_INVALID, "has a period of %llu us", (unsigned long long)r->period_us);
	profile_add_type(r->p, STR("samples"), STR("count"));
	profile_add_type(r->p, STR("cpu"), STR("nanoseconds"));
	r->p->period_type = r->p->types.p[1];
	r->p->period = (int64_t)(r->period_us * 1000);
	c = r->records;
	if (find_end(r, &c, err) < 0)
		return -1;
	profile_maps_read(&r->maps, r->p, (struct str){ (const char *)c.p, cursor_left(&c) });
	c = r->records;
	while ((done = next_record(r, &c, &count, &n, err)) == 0)
		if (cpu_read_record(r, &c, count, n, err) < 0)
			return -1;
	if (done < 0)
		return -1;
	return r->p->n_samples ? 0 : err_set(err, ERR_INVALID, "has no samples");
}

int profile_read_cpu(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		     struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(limits);
	struct cpu_reader r = { .p = p };
	int done = cpu_read_all(&r, in, err);

	profile_maps_done(&r.maps);
	p->memory -= (uint64_t)r.stack.room * sizeof(*r.stack.p);
	free(r.stack.p);
	if (done == 0)
		*ret = TAKE(p);
	return done;
}
