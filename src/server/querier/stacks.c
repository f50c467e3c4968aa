/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles merged: as a flame graph, as Pyroscope's tree, as pprof; compared. */
#include "server/querier/querier.h"

#include <assert.h>
#include <stdlib.h>
#include "profile/trie.h"
#include "wire/proto.h"

/* SelectMergeStacktracesResponse */
enum { REPLY_FLAMEGRAPH = 1, REPLY_TREE = 2, REPLY_PPROF = 5 };
enum { PPROF_PROFILE = 1 };
#define SITE_OTHER UINT8_MAX /* a stack that does not begin with the call site */
/* DiffRequest */
enum { DIFF_LEFT = 1, DIFF_RIGHT };

/* ---- the call site: outermost frames that all stacks have ---- */

/* How much of the call site the stacks of a location's callers have; after the location. */
static uint32_t site_after(const struct profile *p, uint32_t n_found, uint32_t location,
			   const struct querier_texts *site)
{
	const struct profile_location *l = &p->locations.p[location];

	if (n_found == site->n)
		return n_found;
	for (uint32_t i = l->n_lines; i-- > 0 && n_found < site->n;) {
		const struct profile_function *f = &p->functions.p[p->lines.p[l->first_line + i].function];

		if (!str_eq(profile_str(p, f->name ? f->name : f->system_name), site->v[n_found]))
			return UINT32_MAX;
		n_found++;
	}
	/* A location without a name is not in any call site. */
	return l->n_lines ? n_found : UINT32_MAX;
}

#define STEPS_OF_SITE 8u

/* Keep the samples whose stack begins with the call site. */
static int keep_call_site(struct profile *p, const struct querier_texts *site, struct deadline *d,
			  struct err *err)
{
	AUTO(mem_freep) uint32_t *found = NULL;
	uint32_t kept = 0;

	if (!site->n || !p->n_samples)
		return 0;
	found = calloc(p->stacks.n, sizeof(*found));
	if (!found)
		return err_set(err, ERR_LIMIT, "no memory for %u stacks", p->stacks.n);
	/* Callers come first. */
	for (uint32_t i = 1; i < p->stacks.n; i++) {
		uint32_t n = found[p->stacks.p[i].parent];

		if (deadline_check(d, STEPS_OF_SITE, err) < 0)
			return -1;
		found[i] = n == UINT32_MAX ? n : site_after(p, n, p->stacks.p[i].location, site);
	}
	for (uint32_t i = 0; i < p->n_samples; i++) {
		if (found[p->sample_stack[i]] != site->n)
			continue;
		p->sample_stack[kept] = p->sample_stack[i];
		p->sample_labels[kept] = p->sample_labels[i];
		memmove(&p->values[(size_t)kept * p->types.n], &p->values[(size_t)i * p->types.n],
			p->types.n * sizeof(*p->values));
		kept++;
	}
	p->n_samples = kept;
	return 0;
}

/* The same for stacks that the store lends: @values are those of one side. */
static int leave_call_site(const struct profile *p, const struct querier_texts *site, struct deadline *d,
			   const struct profile_trie *in, int64_t *values, struct err *err)
{
	AUTO(mem_freep) uint8_t *found = NULL;

	if (!site->n)
		return 0;
	static_assert(QUERIER_MAX_TEXTS < SITE_OTHER, "a byte has each number of frames");
	found = calloc((size_t)in->n + 64, 1);
	if (!found)
		return err_set(err, ERR_LIMIT, "no memory for %u stacks", in->n);
	trie_each(in, i)
	{
		struct profile_stack stack;
		uint32_t n;

		if (deadline_check(d, STEPS_OF_SITE, err) < 0)
			return -1;
		if (i) {
			stack = in->stack(in->arg, (uint32_t)i);
			n = found[stack.parent];
			n = n == SITE_OTHER ? UINT32_MAX : site_after(p, n, stack.location, site);
			found[i] = (uint8_t)MIN(n, SITE_OTHER);
		}
		if (found[i] != site->n)
			values[i] = 0;
	}
	return 0;
}

/* One request, or the two that are compared. */
struct site_filter {
	const struct querier_request *q;
	struct deadline *deadline;
};

static int lent_call_sites(const void *arg, const struct profile *p, struct profile_trie *in, struct err *err)
{
	const struct site_filter *x = arg;

	if (leave_call_site(p, &x->q[0].call_site, x->deadline, in, in->values, err) < 0)
		return -1;
	return in->base ? leave_call_site(p, &x->q[1].call_site, x->deadline, in, in->base, err) : 0;
}

static int drop_other_sites(const void *arg, unsigned side, struct profile *p, struct err *err)
{
	const struct site_filter *x = arg;

	return keep_call_site(p, &x->q[side].call_site, x->deadline, err);
}

/* @x lives as long as the filter. */
static struct api_filter site_filter_of(struct api *a, const struct querier_request *q, struct site_filter *x)
{
	*x = (struct site_filter){ q, &a->deadline };
	return (struct api_filter){ lent_call_sites, drop_other_sites, x, true };
}

/* ---- one query ---- */

/* The ranges of one request, or of two that are compared, as a->query. */
static int querier_ranges(struct api *a, const struct querier_request *q, unsigned n, struct api_query *query,
			  struct err *err)
{
	*query = (struct api_query){ .compares = n > 1, .wait_ms = QUERIER_NAMES_MS };
	for (unsigned i = 0; i < n; i++)
		if (querier_type_range(a, &q[i], i, &query->range[i], err) < 0)
			return -1;
	a->query = query;
	return 0;
}

/* pprof into a->spool; the results are those of api_merge(). */
static int querier_merge_pprof(struct api *a, const struct querier_request *q, struct err *err)
{
	struct site_filter site;
	const struct api_filter filter = site_filter_of(a, q, &site);
	struct api_query query;
	int r = querier_ranges(a, q, 1, &query, err);

	if (r == 0)
		r = api_merge_pprof(a, false, q->call_site.n ? &filter : NULL, err);
	a->query = NULL;
	return r;
}

static uint32_t querier_nodes(int64_t max_nodes)
{
	return max_nodes <= 0 ? QUERIER_USUAL_NODES : (uint32_t)MIN(max_nodes, (int64_t)API_MAX_NODES);
}

/* The profile in a->spool, in two messages: a head, and then its bytes. */
static int put_pprof(struct api *a, struct err *err)
{
	AUTO(buf_done) struct buf head = { 0 };
	uint64_t size = spool_size(&a->spool);

	proto_put_head(&head, PPROF_PROFILE, size);
	proto_put_head(&a->out, REPLY_PPROF, head.size + size);
	buf_add(&a->out, head.p, head.size);
	return api_add_spool(a, err);
}

static int put_graph(struct api *a, const struct profile_tree *t, uint64_t format, struct buf *reply,
		     struct err *err)
{
	AUTO(buf_done) struct buf m = { .hold = &a->memory };
	struct profile_node root;

	profile_tree_node(t, 0, &root);
	/* Clients take a graph of one bar without a width for data. */
	if (root.total[0] <= 0)
		return 0;
	if (format == QUERIER_TREE)
		querier_put_tree(t, &m);
	else if (querier_put_levels(t, &a->memory, &m, err) < 0)
		return -1;
	proto_put_message(reply, format == QUERIER_TREE ? REPLY_TREE : REPLY_FLAMEGRAPH, &m);
	return 0;
}

static int querier_graph(struct api *a, const struct querier_request *q, struct buf *reply, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct site_filter site;
	const struct api_filter filter = site_filter_of(a, q, &site);
	const struct api_tree tree = { .view.max_nodes = querier_nodes(q->max_nodes),
				       .filter = q->call_site.n ? &filter : NULL };
	struct api_query query;
	int r = querier_ranges(a, q, 1, &query, err);

	if (r == 0)
		r = api_merge_tree(a, &tree, &m, &t, err);
	a->query = NULL;
	return r ? r : put_graph(a, t, q->format, reply, err);
}

int querier_stacktraces(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct querier_request q = { 0 };
	int r;

	if (querier_read(request, &querier_v1_select_merge_stacktraces, &q, err) < 0)
		return -1;
	if (q.format == QUERIER_DOT)
		return querier_unimplemented(a, "the format DOT", err);
	if (q.format > QUERIER_PPROF)
		return err_set(err, ERR_INVALID, "'format' is not one of querier.v1.ProfileFormat");
	if (q.format != QUERIER_PPROF)
		return querier_graph(a, &q, reply, err);
	r = querier_merge_pprof(a, &q, err);
	return r ? r : put_pprof(a, err);
}

int querier_merge_profile(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct querier_request q = { 0 };
	int r;

	if (querier_read(request, &querier_v1_select_merge_profile, &q, err) < 0)
		return -1;
	r = querier_merge_pprof(a, &q, err);
	return r ? r : api_add_spool(a, err);
}

/* ---- comparing ---- */

static int read_diff(struct bytes request, struct querier_request q[2], struct err *err)
{
	struct cursor c = cursor_of(request);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.wire != PROTO_LEN || (f.number != DIFF_LEFT && f.number != DIFF_RIGHT))
			continue;
		if (querier_read(f.b, &querier_v1_select_merge_stacktraces, &q[f.number - DIFF_LEFT], err) <
		    0)
			return err_in(err, f.number == DIFF_LEFT ? "'left'" : "'right'");
	}
	return cursor_ok(&c) ? 0 : cursor_err(&c, "the message", err);
}

int querier_diff(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	AUTO(buf_done) struct buf graph = { .hold = &a->memory };
	struct querier_request q[2] = { 0 };
	struct site_filter site;
	const struct api_filter filter = site_filter_of(a, q, &site);
	struct api_tree tree = { .filter = &filter };
	struct api_query query;
	int r;

	if (read_diff(request, q, err) < 0)
		return -1;
	tree.view.max_nodes = querier_nodes(MAX(q[0].max_nodes, q[1].max_nodes));
	r = querier_ranges(a, q, 2, &query, err);
	if (r == 0)
		r = api_merge_tree(a, &tree, &m, &t, err);
	a->query = NULL;
	if (r)
		return r;
	if (querier_put_levels(t, &a->memory, &graph, err) < 0)
		return -1;
	proto_put_message(reply, 1, &graph);
	return 0;
}
