/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolvers in a row.
 */
#include "resolve/resolve.h"

#include <assert.h>
#include <stdlib.h>

struct resolver_chain {
	struct resolver resolver;
	struct resolver *links[RESOLVE_MAX_LINKS];
	size_t n;
};

static struct resolver_chain *of(struct resolver *base)
{
	return CONTAINER_OF(base, struct resolver_chain, resolver);
}

static int chain_resolve(struct resolver *base, const struct resolve_request *req, void (*wake)(void *arg),
			 void *arg, struct arena *a, struct resolve_answer *ret, struct resolve_why *why,
			 struct err *err)
{
	struct resolver_chain *c = of(base);
	struct err first = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		struct err failed = { 0 };
		int r = resolve(c->links[i], req, wake, arg, a, ret, why, &failed);

		if (r >= 0 && r != RESOLVE_MISSING)
			return r;
		if (r < 0 && first.kind == ERR_NONE)
			first = failed;
	}
	if (first.kind == ERR_NONE)
		return RESOLVE_MISSING;
	if (err)
		*err = first;
	return -1;
}

static bool chain_unknown(struct resolver *base, const struct resolve_request *req)
{
	struct resolver_chain *c = of(base);

	for (size_t i = 0; i < c->n; i++)
		if (!resolve_unknown(c->links[i], req))
			return false;
	return true;
}

static int chain_metadata(struct resolver *base, struct str key, struct str value, struct str cursor,
			  size_t max, int64_t deadline_mono_ms,
			  int (*fn)(void *arg, const struct index_metadata *m), void *arg,
			  struct buf *ret_next, bool *ret_complete, struct err *err)
{
	return resolve_metadata(of(base)->links[0], key, value, cursor, max, deadline_mono_ms, fn, arg,
				ret_next, ret_complete, err);
}

static uint64_t chain_epoch(struct resolver *base)
{
	struct resolver_chain *c = of(base);
	uint64_t epoch = 0;

	for (size_t i = 0; i < c->n; i++)
		epoch += resolve_epoch(c->links[i]);
	return epoch;
}

static void chain_close(struct resolver *base)
{
	struct resolver_chain *c = of(base);

	for (size_t i = 0; i < c->n; i++)
		resolve_close(c->links[i]);
	free(c);
}

struct resolver *resolve_chain_new(struct resolver *const *links, size_t n)
{
	static const struct resolver_ops ops = { chain_resolve, chain_unknown, chain_metadata, chain_epoch,
						 chain_close };
	struct resolver_chain *c = NEW(struct resolver_chain);

	assert(n > 0 && n <= RESOLVE_MAX_LINKS);
	c->resolver.ops = &ops;
	memcpy(c->links, links, n * sizeof(*links));
	c->n = n;
	return &c->resolver;
}
