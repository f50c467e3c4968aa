/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's QueryService. Queries are Parca's: TYPE{matchers}, the type with ":delta" as /api/types has it. */
#include "server/querier/parca.h"

#include <stdlib.h>
#include "wire/proto.h"

#define TYPE_PARTS  5u
#define DELTA       STR("delta")
#define PERCENT     0.01
#define MAX_TIME_MS INT64_C(253402300799999) /* the end of the year 9999 */

enum { MODE_SINGLE, MODE_DIFF, MODE_MERGE };
enum { REPORT_FLAMEGRAPH, REPORT_PPROF, REPORT_TOP };
enum { REPLY_FLAMEGRAPH = 5, REPLY_PPROF = 6, REPLY_TOP = 7, REPLY_TOTAL = 9 };

/* One selection: what, and from when to when. */
struct parca_range {
	struct str query, type;
	struct querier_texts matchers, names;
	int64_t from_ms, to_ms, step_ms;
	uint64_t limit;
	bool timed;
};

/* google.protobuf.Timestamp, and Duration. */
static int64_t parca_ms(struct bytes in)
{
	struct cursor c = cursor_of(in);
	int64_t seconds = 0, nanos = 0;
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number == 1)
			seconds = (int64_t)f.v;
		else if (f.number == 2)
			nanos = (int64_t)f.v;
	}
	seconds = MIN(MAX(seconds, INT64_C(0)), MAX_TIME_MS / 1000);
	return seconds * 1000 + MIN(MAX(nanos, INT64_C(0)), INT64_C(999999999)) / 1000000;
}

/* The selection as a range of the store; the request owns the selector. */
static int parca_select(struct api *a, const struct parca_range *q, unsigned side,
			struct profilestore_range *ret, struct err *err)
{
	struct selector **s = &a->selectors[side];

	*ret = (struct profilestore_range){ .to_ms = INT64_MAX, .deadline = &a->deadline };
	if (q->timed) {
		if (q->from_ms > q->to_ms)
			return err_set(err, ERR_INVALID, "'start' is later than 'end'");
		ret->from_ms = q->from_ms;
		ret->to_ms = q->to_ms + 1;
	}
	/* From a run before this one, which slept. */
	selector_free(*s);
	*s = NULL;
	if (selector_parse(q->type, s, err) < 0 ||
	    (q->query.size && selector_add_promql(*s, q->query, err) < 0))
		return -1;
	for (size_t i = 0; i < q->matchers.n; i++)
		if (selector_add_promql(*s, q->matchers.v[i], err) < 0)
			return -1;
	ret->sel = *s;
	return 0;
}

/* The same for a query that has to be of one type. */
static int parca_select_type(struct api *a, const struct parca_range *q, unsigned side,
			     struct profilestore_range *ret, struct err *err)
{
	if (parca_select(a, q, side, ret, err) < 0)
		return -1;
	if (!selector_type(ret->sel).size)
		return err_set(err, ERR_INVALID,
			       "the query must begin with a profile type: "
			       "<name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>(:delta)");
	return 0;
}

static int parca_cut_off(const struct cursor *c, struct err *err)
{
	return cursor_ok(c) ? 0 : cursor_err(c, "the message", err);
}

/* ---- lists ---- */

/* Numbers of the fields of LabelsRequest and ValuesRequest; 0: there is none. */
struct parca_list_fields {
	uint32_t name, match, start, end, type;
};

static int parca_read_list(struct bytes in, const struct parca_list_fields *n, struct str *ret_name,
			   struct parca_range *q, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	q->to_ms = MAX_TIME_MS;
	while (proto_next(&c, &f)) {
		if (f.wire != PROTO_LEN)
			continue;
		if (f.number == n->name)
			*ret_name = proto_text(&f);
		else if (f.number == n->match && querier_add_text(&q->matchers, proto_text(&f), err) < 0)
			return -1;
		else if (f.number == n->start)
			q->from_ms = parca_ms(f.b);
		else if (f.number == n->end)
			q->to_ms = parca_ms(f.b);
		else if (f.number == n->type)
			q->type = proto_text(&f);
		q->timed |= f.number == n->start || f.number == n->end;
	}
	return parca_cut_off(&c, err);
}

static void parca_put_type(struct buf *m, struct str type)
{
	struct str rest = type;

	for (uint32_t i = 1; i <= TYPE_PARTS && rest.p; i++)
		proto_put_str(m, i, str_cut(&rest, ':'));
	proto_put_number(m, TYPE_PARTS + 1, str_eq(rest, DELTA));
}

int parca_types_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	static const struct parca_list_fields fields = { .start = 1, .end = 2 };
	AUTO(buf_done) struct buf m = { 0 };
	struct parca_range q = { .type = STR("") };
	struct profilestore_range r;
	struct profilestore_list *l;
	struct str none;

	if (parca_read_list(request, &fields, &none, &q, err) < 0 || parca_select(a, &q, 0, &r, err) < 0 ||
	    profilestore_types(a->store, &r, &l, err) < 0)
		return -1;
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++) {
		parca_put_type(&m, l->v[i]);
		proto_put_message(reply, 1, &m);
	}
	free(l);
	return 0;
}

static void parca_put_texts(struct profilestore_list *l, struct buf *reply)
{
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++)
		proto_put_bytes(reply, 1, l->v[i].p, l->v[i].size);
	free(l);
}

int parca_labels_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	static const struct parca_list_fields fields = { .match = 1, .start = 2, .end = 3, .type = 4 };
	struct parca_range q = { .type = STR("") };
	struct profilestore_range r;
	struct profilestore_list *l;
	struct str none;

	if (parca_read_list(request, &fields, &none, &q, err) < 0 || parca_select(a, &q, 0, &r, err) < 0 ||
	    profilestore_label_names(a->store, &r, &l, err) < 0)
		return -1;
	parca_put_texts(l, reply);
	return 0;
}

int parca_values_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	static const struct parca_list_fields fields = { 1, 2, 3, 4, 5 };
	struct parca_range q = { .type = STR("") };
	struct profilestore_range r;
	struct profilestore_list *l;
	struct str name = STR("");

	if (parca_read_list(request, &fields, &name, &q, err) < 0)
		return -1;
	if (!name.size)
		return err_set(err, ERR_INVALID, "'label_name' is missing");
	if (parca_select(a, &q, 0, &r, err) < 0 || profilestore_label_values(a->store, &r, name, &l, err) < 0)
		return -1;
	parca_put_texts(l, reply);
	return 0;
}

int parca_has_data_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct profilestore_stats st;

	profilestore_stats(a->store, &st);
	proto_put_number(reply, 1, st.n_profiles > 0);
	return 0;
}

/* ---- values over time ---- */

static int parca_read_range(struct bytes in, struct parca_range *q, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		switch (f.number) {
		case 1:
			q->query = proto_text(&f);
			break;
		case 2:
			q->from_ms = parca_ms(f.b);
			break;
		case 3:
			q->to_ms = parca_ms(f.b);
			break;
		case 4:
			q->limit = f.v;
			break;
		case 5:
			q->step_ms = parca_ms(f.b);
			break;
		case 6:
			if (querier_add_text(&q->names, proto_text(&f), err) < 0)
				return -1;
		}
	}
	q->timed = true;
	return parca_cut_off(&c, err);
}

static void put_parca_time(struct buf *m, int64_t ms)
{
	proto_put_number(m, 1, (uint64_t)(ms / 1000));
	proto_put_number(m, 2, (uint64_t)(ms % 1000) * 1000000);
}

/* Of what differences are, the value of a second; of the others the average. */
static double parca_rate(int64_t value, uint32_t count, int64_t step_ms, bool delta)
{
	return delta ? (double)value * 1000 / (double)step_ms : (double)value / count;
}

static void put_parca_points(struct buf *series, const struct profilestore_series_list *l,
			     const struct profilestore_series *x, bool delta)
{
	AUTO(buf_done) struct buf m = { 0 };
	AUTO(buf_done) struct buf time = { 0 };

	for (size_t i = 0; i < l->n_points; i++) {
		if (!x->counts[i])
			continue;
		put_parca_time(&time, l->from_ms + (int64_t)i * l->step_ms);
		proto_put_message(&m, 1, &time);
		proto_put_number(&m, 2, (uint64_t)x->points[i]);
		proto_put_double(&m, 3, parca_rate(x->points[i], x->counts[i], l->step_ms, delta));
		proto_put_number(&m, 4, (uint64_t)l->step_ms * 1000000);
		proto_put_number(&m, 5, x->counts[i]);
		proto_put_message(series, 2, &m);
	}
}

static void put_parca_series(struct buf *reply, const struct profilestore_series_list *l,
			     const struct profilestore_series *x, struct str type)
{
	AUTO(buf_done) struct buf series = { 0 };
	AUTO(buf_done) struct buf set = { 0 };
	AUTO(buf_done) struct buf m = { 0 };
	struct str rest = type, parts[TYPE_PARTS] = { 0 };

	for (size_t i = 0; i < TYPE_PARTS && rest.p; i++)
		parts[i] = str_cut(&rest, ':');
	for (size_t i = 0; i < x->n_labels; i++) {
		proto_put_str(&m, 1, x->labels[i].name);
		proto_put_str(&m, 2, x->labels[i].value);
		proto_put_message(&set, 1, &m);
	}
	proto_put_message(&series, 1, &set);
	put_parca_points(&series, l, x, str_eq(rest, DELTA));
	proto_put_str(&m, 1, parts[3]);
	proto_put_str(&m, 2, parts[4]);
	proto_put_message(&series, 3, &m);
	proto_put_str(&m, 1, parts[1]);
	proto_put_str(&m, 2, parts[2]);
	proto_put_message(&series, 4, &m);
	proto_put_message(reply, 1, &series);
}

int parca_range_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct parca_range q = { .type = STR(""), .query = STR("") };
	struct profilestore_series_options o = { .memory = &a->memory };
	struct profilestore_series_list *l;
	struct profilestore_range r;

	if (parca_read_range(request, &q, err) < 0 || parca_select_type(a, &q, 0, &r, err) < 0)
		return -1;
	o.step_ms = MAX(q.step_ms, INT64_C(0));
	o.origin_ms = r.from_ms;
	o.by = q.names.v;
	o.n_by = q.names.n;
	o.limit = q.limit ? (uint32_t)MIN(q.limit, (uint64_t)QUERIER_MAX_SERIES) : QUERIER_MAX_SERIES;
	if (profilestore_series(a->store, &r, &o, &l, err) < 0)
		return -1;
	/* The reply cannot say that some are missing. */
	if (l->n_left_out && !q.limit) {
		free(l);
		return err_set(err, ERR_LIMIT, "more than %u series: set a limit, or sum by fewer labels",
			       QUERIER_MAX_SERIES);
	}
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++)
		put_parca_series(reply, l, &l->v[i], selector_type(r.sel));
	free(l);
	return 0;
}

/* ---- profiles ---- */

struct parca_query {
	uint64_t mode, report;
	struct parca_range side[PROFILE_COLUMNS]; /* [1]: what side 0 is compared with */
	unsigned n_sides;
	struct profile_view view;
	bool filters;
};

/* MergeProfile; SingleProfile, whose time is that of one profile. */
static int parca_read_selection(struct bytes in, bool single, struct parca_range *q, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	*q = (struct parca_range){ .type = STR(""), .query = STR(""), .timed = true };
	while (proto_next(&c, &f)) {
		if (f.wire != PROTO_LEN)
			continue;
		if (f.number == (single ? 2 : 1))
			q->query = proto_text(&f);
		else if (single && f.number == 1)
			q->from_ms = q->to_ms = parca_ms(f.b);
		else if (f.number == 2)
			q->from_ms = parca_ms(f.b);
		else if (f.number == 3)
			q->to_ms = parca_ms(f.b);
	}
	return parca_cut_off(&c, err);
}

/* ProfileDiffSelection */
static int parca_read_side(struct bytes in, struct parca_range *q, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f))
		if ((f.number == 2 || f.number == 3) && f.wire == PROTO_LEN &&
		    parca_read_selection(f.b, f.number == 3, q, err) < 0)
			return -1;
	return parca_cut_off(&c, err);
}

/* DiffProfile: @b minus @a. */
static int parca_read_diff(struct bytes in, struct parca_query *q, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	q->n_sides = 2;
	while (proto_next(&c, &f))
		if ((f.number == 1 || f.number == 2) && f.wire == PROTO_LEN &&
		    parca_read_side(f.b, &q->side[f.number == 1], err) < 0)
			return -1;
	return parca_cut_off(&c, err);
}

static double parca_float(uint64_t bits)
{
	uint32_t v = (uint32_t)bits;
	float f;

	memcpy(&f, &v, sizeof(f));
	return f > 0 && f < 100 ? (double)f : 0;
}

static int parca_read_query(struct bytes in, struct parca_query *q, struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;
	int r = 0;

	while (r == 0 && proto_next(&c, &f)) {
		switch (f.number) {
		case 1:
			q->mode = f.v;
			break;
		case 2:
			r = parca_read_diff(f.b, q, err);
			break;
		case 3:
		case 4:
			r = parca_read_selection(f.b, f.number == 4, &q->side[0], err);
			break;
		case 5:
			q->report = f.v;
			break;
		case 7:
			q->view.min_share = parca_float(f.v) * PERCENT;
			break;
		case 11:
			q->view.invert = f.v;
			break;
		case 6:
		case 12:
		case 13:
			q->filters |= f.wire == PROTO_LEN && f.b.size;
			break;
		}
	}
	return r < 0 ? r : parca_cut_off(&c, err);
}

static int parca_check_query(struct api *a, struct parca_query *q, struct err *err)
{
	if (q->mode > MODE_MERGE)
		return err_set(err, ERR_INVALID, "'mode' is none of QueryRequest.Mode");
	if ((q->mode == MODE_DIFF) != (q->n_sides == 2))
		return err_set(err, ERR_INVALID, "'mode' does not fit to the profiles of the request");
	if (q->filters)
		return querier_unimplemented(a, "filters of stacks and frames; lode's own page has them",
					     err);
	if (q->report > REPORT_TOP)
		return querier_unimplemented(
			a,
			"this report type: those in Arrow, call graphs and sources; use the flame graph, "
			"pprof or top",
			err);
	if (q->report == REPORT_PPROF && q->n_sides == 2)
		return querier_unimplemented(a, "pprof of a comparison", err);
	q->n_sides = q->n_sides == 2 ? 2 : 1;
	return 0;
}

static int parca_ranges(struct api *a, const struct parca_query *q, struct api_query *query, struct err *err)
{
	*query = (struct api_query){ .compares = q->n_sides == 2, .wait_ms = QUERIER_NAMES_MS };
	for (unsigned i = 0; i < q->n_sides; i++)
		if (parca_select_type(a, &q->side[i], i, &query->range[i], err) < 0)
			return -1;
	a->query = query;
	return 0;
}

static int parca_pprof(struct api *a, const struct parca_query *q, struct err *err)
{
	struct api_query query;
	int r = parca_ranges(a, q, &query, err);

	if (r == 0)
		r = api_merge_pprof(a, true, NULL, err);
	a->query = NULL;
	if (r)
		return r;
	proto_put_head(&a->out, REPLY_PPROF, spool_size(&a->spool));
	return api_add_spool(a, err);
}

static int parca_put_tree(struct api *a, const struct profile_tree *t, bool top, struct buf *reply,
			  struct err *err)
{
	AUTO(buf_done) struct buf report = { .hold = &a->memory };
	struct profile_node root;

	profile_tree_node(t, 0, &root);
	if (top)
		parca_put_top(t, &report);
	else if (parca_put_flamegraph(t, &a->memory, &report, err) < 0)
		return -1;
	proto_put_message(reply, top ? REPLY_TOP : REPLY_FLAMEGRAPH, &report);
	proto_put_number(reply, REPLY_TOTAL, (uint64_t)root.total[0]);
	return 0;
}

static int parca_tree(struct api *a, const struct parca_query *q, struct buf *reply, struct err *err)
{
	AUTO(api_merged_done) struct api_merged m = { 0 };
	AUTO(profile_tree_freep) struct profile_tree *t = NULL;
	struct api_tree tree = { .view = q->view, .top = q->report == REPORT_TOP };
	struct api_query query;
	int r = parca_ranges(a, q, &query, err);

	tree.view.max_nodes = tree.top ? 0 : QUERIER_USUAL_NODES;
	/* Of a function, not of a node. */
	tree.view.min_share = tree.top ? 0 : tree.view.min_share;
	if (r == 0)
		r = api_merge_tree(a, &tree, &m, &t, err);
	a->query = NULL;
	return r ? r : parca_put_tree(a, t, tree.top, reply, err);
}

int parca_query_run(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct parca_query *q = ARENA_NEW(a->arena, struct parca_query);

	if (parca_read_query(request, q, err) < 0 || parca_check_query(a, q, err) < 0)
		return -1;
	return q->report == REPORT_PPROF ? parca_pprof(a, q, err) : parca_tree(a, q, reply, err);
}
