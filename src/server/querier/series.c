/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SelectSeries: values over time. As Pyroscope has it, points are at start, start + step, ... up to end; each is about
 * the time of one step that ends there, its end included, so the first one is about the time before start. A point
 * without a profile is left out.
 */
#include "server/querier/querier.h"

#include <math.h>
#include <stdlib.h>
#include "wire/proto.h"

#define AVERAGE     1                      /* types.v1.TimeSeriesAggregationType */
#define MAX_STEP_MS INT64_C(3155760000000) /* a hundred years */

static void put_point(struct buf *m, double value, int64_t time_ms)
{
	proto_put_double(m, 1, value);
	proto_put_number(m, 2, (uint64_t)time_ms);
}

static void put_series(struct buf *reply, const struct profilestore_series_list *l,
		       const struct profilestore_series *x, bool average)
{
	AUTO(buf_done) struct buf series = { 0 };
	AUTO(buf_done) struct buf m = { 0 };

	for (size_t i = 0; i < x->n_labels; i++) {
		proto_put_str(&m, 1, x->labels[i].name);
		proto_put_str(&m, 2, x->labels[i].value);
		proto_put_message(&series, 1, &m);
	}
	for (size_t i = 0; i < l->n_points; i++) {
		if (!x->counts[i])
			continue;
		put_point(&m, (double)x->points[i] / (average ? x->counts[i] : 1),
			  l->from_ms - 1 + (int64_t)(i + 1) * l->step_ms);
		proto_put_message(&series, 2, &m);
	}
	proto_put_message(reply, 1, &series);
}

static int series_step(const struct querier_request *q, int64_t *ret_ms, struct err *err)
{
	double ms = q->step * 1000;

	if (!isfinite(ms) || ms < 1 || ms > (double)MAX_STEP_MS)
		return err_set(err, ERR_INVALID, "'step' must be at least 0.001 seconds");
	*ret_ms = (int64_t)ms;
	return 0;
}

int querier_select_series(struct api *a, struct bytes request, struct buf *reply, struct err *err)
{
	struct querier_request q = { 0 };
	struct profilestore_series_options o = { .memory = &a->memory };
	struct profilestore_series_list *l;
	struct profilestore_range r;
	int64_t length_ms;

	if (querier_read(request, &querier_v1_select_series, &q, err) < 0 ||
	    querier_type_range(a, &q, 0, &r, err) < 0 || series_step(&q, &o.step_ms, err) < 0)
		return -1;
	if (q.call_site.n)
		return querier_unimplemented(a, "the stack_trace_selector of series", err);
	length_ms = r.to_ms - 1 - r.from_ms;
	o.origin_ms = r.from_ms + 1;
	r.to_ms = r.from_ms + length_ms - length_ms % o.step_ms + 1;
	r.from_ms = MAX(r.from_ms + 1 - o.step_ms, INT64_C(0));
	o.by = q.names.v;
	o.n_by = q.names.n;
	o.one = !q.names.n;
	o.limit = q.limit > 0 ? (uint32_t)MIN(q.limit, (int64_t)QUERIER_MAX_SERIES) : QUERIER_MAX_SERIES;
	if (profilestore_series(a->store, &r, &o, &l, err) < 0)
		return -1;
	if (l->n_left_out && q.limit <= 0) {
		free(l);
		return err_set(err, ERR_LIMIT, "more than %u series: set a limit, or group by fewer labels",
			       QUERIER_MAX_SERIES);
	}
	for (size_t i = 0; i < l->n && !buf_is_over(reply); i++)
		put_series(reply, l, &l->v[i], q.aggregation == AVERAGE);
	free(l);
	return 0;
}
