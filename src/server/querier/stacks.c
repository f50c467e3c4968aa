/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles merged: as a flame graph, as Pyroscope's tree, as pprof; compared. */
#include "server/querier/querier.h"

#include <stdlib.h>
#include "wire/proto.h"

/* SelectMergeStacktracesResponse */
enum { REPLY_FLAMEGRAPH = 1, REPLY_TREE = 2, REPLY_PPROF = 5 };
enum { PPROF_PROFILE = 1 };
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

/* Keep the samples whose stack begins with the call site. */
static int keep_call_site(struct profile *p, const struct querier_texts *site, struct err *err)
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

/* ---- one query ---- */

/* Merge the profiles of one request, or of two; the results are those of api_merge(). */
static int querier_merge(struct api *a, const struct querier_request *q, unsigned n,
			 enum profilestore_detail detail, struct api_merged *ret, struct err *err)
{
	struct api_query query = { .compares = n > 1, .wait_ms = QUERIER_NAMES_MS };
	int r = 0;

	for (unsigned i = 0; i < n; i++)
		if (querier_type_range(a, &q[i], i, &query.range[i], err) < 0)
			return -1;
	a->query = &query;
	r = api_merge(a, detail, ret, err);
	a->query = NULL;
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = keep_call_site(ret->side[i].profile, &q[i].call_site, err);
	return r;
}

static uint32_t querier_nodes(int64_t max_nodes)
{
	return max_nodes <= 0 ? QUERIER_USUAL_NODES : (uint32_t)MIN(max_nodes, (int64_t)API_MAX_NODES);
}

static int put_pprof(struct api *a, const struct profile *p, struct buf *reply, struct err *err)
{
	AUTO(buf_done) struct buf profile = { .hold = &a->memory };
	AUTO(buf_done) struct buf m = { .hold = &a->memory };

	if (profile_write_pprof(p, false, &profile, err) < 0 || buf_check(&profile, err) < 0)
		return -1;
	proto_put_message(&m, PPROF_PROFILE, &profile);
	buf_done(&profile);
	proto_put_message(reply, REPLY_PPROF, &m);
	return 0;
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

int querier_stacktraces(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct querier_request q = { 0 };
	struct profile_view view = { 0 };
	bool pprof;
	int r;

	if (querier_read(request, &querier_v1_select_merge_stacktraces, &q, err) < 0)
		return -1;
	if (q.format == QUERIER_DOT)
		return querier_unimplemented(a, "the format DOT", err);
	if (q.format > QUERIER_PPROF)
		return err_set(err, ERR_INVALID, "'format' is not one of querier.v1.ProfileFormat");
	pprof = q.format == QUERIER_PPROF;
	r = querier_merge(a, &q, 1, pprof ? PROFILESTORE_ADDRESSES : PROFILESTORE_FUNCTIONS, &m, err);
	if (r)
		return r;
	if (pprof)
		return put_pprof(a, m.side[0].profile, reply, err);
	view.max_nodes = querier_nodes(q.max_nodes);
	if (api_tree(a, &view, &m, &t, err) < 0)
		return -1;
	return put_graph(a, t, q.format, reply, err);
}

int querier_merge_profile(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	struct querier_request q = { 0 };
	int r;

	if (querier_read(request, &querier_v1_select_merge_profile, &q, err) < 0)
		return -1;
	r = querier_merge(a, &q, 1, PROFILESTORE_ADDRESSES, &m, err);
	return r ? r : profile_write_pprof(m.side[0].profile, false, reply, err);
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
	struct profile_view view = { 0 };
	int r;

	if (read_diff(request, q, err) < 0)
		return -1;
	r = querier_merge(a, q, 2, PROFILESTORE_FUNCTIONS, &m, err);
	if (r)
		return r;
	view.max_nodes = querier_nodes(MAX(q[0].max_nodes, q[1].max_nodes));
	if (api_tree(a, &view, &m, &t, err) < 0 || querier_put_levels(t, &a->memory, &graph, err) < 0)
		return -1;
	proto_put_message(reply, 1, &graph);
	return 0;
}
