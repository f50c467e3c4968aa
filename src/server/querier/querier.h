/* SPDX-License-Identifier: Apache-2.0 */
/*
 * querier.v1.QuerierService, the API that Grafana's data source, profilecli and Pyroscope's page ask; by the .proto files
 * of grafana/pyroscope. docs/grafana.md is for users, docs/decisions/0036-querier.md says what is left out.
 *
 *   tables.c   fields of the messages, and the calls
 *   read.c     a request's message, by these tables
 *   range.c    its types, selectors and times as a query of server/profiles/
 *   lists.c    types, labels, series without values, statistics
 *   series.c   values over time
 *   stacks.c   profiles merged, compared, as pprof
 *   flame.c    a tree of calls as levels of bars, or as Pyroscope's tree
 *
 * parca.h has Parca's API of the same.
 *
 * The answers are those of /api/..., by the same functions: same limits, deadlines and names.
 */
#pragma once

#include "server/rpc/rpc.h"

#define QUERIER_MAX_TEXTS   64u     /* matchers, names of labels, frames of a call site: of a request */
#define QUERIER_USUAL_NODES 8192u   /* of a flame graph, unless the request sets max_nodes */
#define QUERIER_MAX_LEVELS  1000u   /* of a flame graph; what is below is one bar "other" */
#define QUERIER_MAX_SERIES  10000u  /* of SelectSeries */
#define QUERIER_MAX_SETS    100000u /* sets of labels */
#define QUERIER_NAMES_MS    1000    /* longest wait for names that are on their way */

/* ---- read.c ---- */

enum querier_format { /* querier.v1.ProfileFormat */
		      QUERIER_FLAMEGRAPH_USUAL,
		      QUERIER_FLAMEGRAPH,
		      QUERIER_TREE,
		      QUERIER_DOT,
		      QUERIER_PPROF
};

struct querier_texts {
	struct str v[QUERIER_MAX_TEXTS];
	size_t n;
};

/* All fields of all requests. Texts are views into the message. */
struct querier_request {
	struct str type_id, name;
	struct querier_texts matchers; /* label_selector, too */
	struct querier_texts names;    /* label_names, group_by */
	struct querier_texts profile_ids;
	struct querier_texts
		call_site;          /* of the stack_trace_selector: names of functions, the outermost first */
	struct querier_texts spans; /* and traces */
	int64_t start_ms, end_ms, max_nodes, limit;
	uint64_t format, aggregation;
	double step; /* seconds */
};

/*
 * Read a request of the call @of; fields that its table does not have are ignored. ERR_INVALID: no message; ERR_LIMIT: too
 * many texts.
 */
int querier_read(struct bytes request, const struct rpc_method *of, struct querier_request *ret,
		 struct err *err);
/* ERR_LIMIT: the list is full. */
int querier_add_text(struct querier_texts *t, struct str s, struct err *err);

/* ---- range.c ---- */

/* The reply is "unimplemented". Returns -1. */
int querier_unimplemented(struct api *a, const char *what, struct err *err);

/* The range of a list; without start and end: all times. */
int querier_list_range(struct api *a, const struct querier_request *q, struct profilestore_range *ret,
		       struct err *err);
/* One type over a time; @side: 0, or 1 for the base of a comparison. */
int querier_type_range(struct api *a, const struct querier_request *q, unsigned side,
		       struct profilestore_range *ret, struct err *err);

/* ---- flame.c ---- */

/* The message FlameGraph, or FlameGraphDiff if @t compares; appends. @hold grants its memory. */
int querier_put_levels(const struct profile_tree *t, struct budget_hold *hold, struct buf *out,
		       struct err *err);
/* Pyroscope's own form of a tree. */
void querier_put_tree(const struct profile_tree *t, struct buf *out);

/* ---- calls ---- */

int querier_profile_types(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_label_names(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_label_values(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_label_sets(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_stats(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_analyze(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_select_series(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_stacktraces(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_merge_profile(struct api *a, struct bytes request, struct buf *reply, struct err *err);
int querier_diff(struct api *a, struct bytes request, struct buf *reply, struct err *err);
/* Settings, feature flags: an empty reply. */
int querier_nothing(struct api *a, struct bytes request, struct buf *reply, struct err *err);

/* Rows of the table of routes. */
extern const struct rpc_method querier_v1_profile_types, querier_v1_label_names, querier_v1_label_values,
	querier_v1_series, querier_v1_select_series, querier_v1_select_merge_stacktraces,
	querier_v1_select_merge_profile, querier_v1_diff, querier_v1_get_profile_stats,
	querier_v1_analyze_query, settings_v1_get, capabilities_v1_get;
