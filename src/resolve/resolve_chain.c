/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolvers in a row.
 *
 * Metadata are given in the order of the links. A cursor is that of the first link, or "@N:" and that of link
 * number N; also of the first link, if its cursor begins with "@".
 */
#include "resolve/internal.h"

#include <assert.h>
#include <stdlib.h>

struct resolver_chain {
	struct resolver resolver;
	struct resolver *links[RESOLVE_MAX_LINKS];
	size_t n;
};

static struct resolver_chain *resolver_chain_of(struct resolver *base)
{
	return CONTAINER_OF(base, struct resolver_chain, resolver);
}

static int chain_resolve(struct resolver *base, const struct resolve_request *req, struct resolve_wake wake,
			 struct resolve_answer *ret, struct resolve_why *why, struct err *err)
{
	struct resolver_chain *c = resolver_chain_of(base);
	enum resolve_reason reason = RESOLVE_NOT_HERE;
	struct err first = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		struct err failed = { 0 };
		int r = resolve_by_key(c->links[i], req, wake, ret, why, &failed);

		if (r >= 0 && r != RESOLVE_MISSING)
			return r;
		if (r < 0 && first.kind == ERR_NONE)
			first = failed;
		reason = MAX(reason, why->reason);
	}
	why->reason = reason;
	if (first.kind == ERR_NONE)
		return RESOLVE_MISSING;
	if (err)
		*err = first;
	return -1;
}

static bool chain_unknown(struct resolver *base, const struct resolve_request *req)
{
	struct resolver_chain *c = resolver_chain_of(base);

	for (size_t i = 0; i < c->n; i++)
		if (!resolve_unknown(c->links[i], req))
			return false;
	return true;
}

static bool chain_owns(struct resolver *base, const struct build_id *id)
{
	struct resolver_chain *c = resolver_chain_of(base);

	for (size_t i = 0; i < c->n; i++)
		if (c->links[i]->ops->owns && c->links[i]->ops->owns(c->links[i], id))
			return true;
	return false;
}

/* An alias in one link may be the build ID of a file in another. */
static bool chain_alias(struct resolver *base, const struct build_id *alias, struct build_id *ret)
{
	struct resolver_chain *c = resolver_chain_of(base);
	struct build_id key;

	for (size_t i = 0; i < c->n; i++) {
		if (!resolve_alias(c->links[i], alias, &key))
			continue;
		if (chain_owns(base, alias))
			return false;
		*ret = key;
		return true;
	}
	return false;
}

static uint32_t chain_flags(struct resolver *base, const struct build_id *id)
{
	struct resolver_chain *c = resolver_chain_of(base);
	uint32_t flags = 0;

	for (size_t i = 0; i < c->n; i++)
		flags |= resolve_flags(c->links[i], id);
	return flags;
}

/* The results of a page so far, from all links. */
struct counted_results {
	const struct index_metadata_query *q;
	size_t n;
};

static int count_result(void *arg, const struct index_metadata *m)
{
	struct counted_results *c = arg;

	c->n++;
	return c->q->fn(c->q->arg, m);
}

/* "@2:rest" is the cursor "rest" of the third link. */
static int chain_cursor_read(const struct resolver_chain *c, struct str *cursor, size_t *ret_link,
			     struct err *err)
{
	struct str rest = *cursor, number;
	uint64_t link = 0;

	if (rest.size && rest.p[0] == '@') {
		number = str_cut(&rest, ':');
		number = (struct str){ number.p + 1, number.size - 1 };
		if (!str_to_u64(number, &link) || link >= c->n)
			return err_set(err, ERR_INVALID, "metadata: not a cursor of this server");
		*cursor = rest;
	}
	*ret_link = (size_t)link;
	return 0;
}

static void chain_cursor_write(size_t link, struct str cursor, struct buf *ret)
{
	ret->size = 0;
	if (link || (cursor.size && cursor.p[0] == '@'))
		buf_printf(ret, "@%zu:", link);
	buf_add_str(ret, cursor);
}

static int chain_pages(struct resolver_chain *c, const struct index_metadata_query *q,
		       struct index_metadata_page *link, struct index_metadata_page *ret, struct err *err)
{
	struct counted_results counted = { q, 0 };
	struct index_metadata_query part = *q;
	bool complete = true;
	size_t i = 0;

	part.fn = count_result;
	part.arg = &counted;
	if (chain_cursor_read(c, &part.cursor, &i, err) < 0)
		return -1;
	for (; i < c->n && counted.n < q->max && !link->next.size; i++, part.cursor = (struct str){ 0 }) {
		int r;

		part.max = q->max - counted.n;
		r = resolve_metadata(c->links[i], &part, link, err);
		if (r)
			return r;
		complete = complete && link->complete;
	}
	ret->next.size = 0;
	if (link->next.size)
		chain_cursor_write(i - 1, buf_str(&link->next), &ret->next);
	else if (i < c->n)
		chain_cursor_write(i, (struct str){ 0 }, &ret->next);
	ret->complete = complete;
	return 0;
}

static int chain_metadata(struct resolver *base, const struct index_metadata_query *q,
			  struct index_metadata_page *ret, struct err *err)
{
	struct index_metadata_page link = { 0 };
	int r = chain_pages(resolver_chain_of(base), q, &link, ret, err);

	buf_done(&link.next);
	return r;
}

static uint64_t chain_epoch(struct resolver *base)
{
	struct resolver_chain *c = resolver_chain_of(base);
	uint64_t epoch = 0;

	for (size_t i = 0; i < c->n; i++)
		epoch += resolve_epoch(c->links[i]);
	return epoch;
}

static bool chain_unfinished(struct resolver *base)
{
	struct resolver_chain *c = resolver_chain_of(base);

	for (size_t i = 0; i < c->n; i++)
		if (resolve_unfinished(c->links[i]))
			return true;
	return false;
}

static int chain_await(struct resolver *base, const struct resolve_request *req,
		       const struct resolve_patience *p, struct resolve_wake wake, struct err *err)
{
	struct resolver_chain *c = resolver_chain_of(base);
	int r = RESOLVE_MISSING;

	for (size_t i = 0; i < c->n && r == RESOLVE_MISSING; i++)
		r = resolve_await(c->links[i], req, p, wake, err);
	return r;
}

static struct str chain_reading(struct resolver *base, const struct resolve_request *req, struct arena *a)
{
	struct resolver_chain *c = resolver_chain_of(base);
	struct str text = { 0 };

	for (size_t i = 0; i < c->n && !text.size; i++)
		text = resolve_reading(c->links[i], req, a);
	return text;
}

static void chain_name_hint(struct resolver *base, const struct build_id *id, struct str file,
			    enum resolve_hint by)
{
	struct resolver_chain *c = resolver_chain_of(base);

	for (size_t i = 0; i < c->n; i++)
		resolve_name_hint(c->links[i], id, file, by);
}

static void chain_close(struct resolver *base)
{
	struct resolver_chain *c = resolver_chain_of(base);

	for (size_t i = 0; i < c->n; i++)
		resolve_close(c->links[i]);
	free(c);
}

struct resolver *resolve_chain_new(struct resolver *const *links, size_t n)
{
	static const struct resolver_ops ops = { .resolve = chain_resolve,
						 .unknown = chain_unknown,
						 .alias = chain_alias,
						 .owns = chain_owns,
						 .flags = chain_flags,
						 .metadata = chain_metadata,
						 .epoch = chain_epoch,
						 .close = chain_close,
						 .unfinished = chain_unfinished,
						 .await = chain_await,
						 .reading = chain_reading,
						 .name_hint = chain_name_hint };
	struct resolver_chain *c = NEW(struct resolver_chain);

	assert(n > 0 && n <= RESOLVE_MAX_LINKS);
	c->resolver.ops = &ops;
	memcpy(c->links, links, n * sizeof(*links));
	c->n = n;
	return &c->resolver;
}
