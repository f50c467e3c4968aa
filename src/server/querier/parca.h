/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parca.query.v1alpha1.QueryService, which Grafana's Parca data source and Parca's own page ask, over gRPC-Web: lists,
 * values over time, profiles merged, compared, as a flame graph, as a table, as pprof. Not the forms in Arrow.
 *
 *   parca.c          requests, lists, values over time, profiles
 *   parca_report.c   a tree of calls in Parca's messages
 *   parca_tables.c   fields of the messages, and the calls
 */
#pragma once

#include "server/querier/querier.h"

int parca_types_run(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int parca_labels_run(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int parca_values_run(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int parca_range_run(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int parca_query_run(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int parca_has_data_run(struct api *a, struct bytes request, struct buf *reply, struct err *err);

/* The messages Flamegraph and Top; append. */
int parca_put_flamegraph(const struct profile_tree *t, struct budget_hold *hold, struct buf *out,
			 struct err *err);
void parca_put_top(const struct profile_tree *t, struct buf *out);

extern const struct rpc_method parca_v1_types, parca_v1_labels, parca_v1_values, parca_v1_range,
	parca_v1_query, parca_v1_has_data;
