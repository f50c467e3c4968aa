/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of parca.query.v1alpha1 as tables of fields, for their JSON; and the calls. Only fields that are used. */
#include "server/querier/parca.h"

static const struct rpc_field duration_fields[] = { { 1, "seconds", RPC_INT64 }, { 2, "nanos", RPC_INT32 } };
static const struct rpc_message duration = RPC_FIELDS("google.protobuf.Duration", duration_fields);

/* ---- lists ---- */

static const struct rpc_field types_request_fields[] = { { 1, "start", RPC_TIMESTAMP },
							 { 2, "end", RPC_TIMESTAMP } };
static const struct rpc_message types_request = RPC_FIELDS("parca.query.v1alpha1.ProfileTypesRequest",
							   types_request_fields);
static const struct rpc_field type_fields[] = {
	{ 1, "name", RPC_STRING },        { 2, "sample_type", RPC_STRING }, { 3, "sample_unit", RPC_STRING },
	{ 4, "period_type", RPC_STRING }, { 5, "period_unit", RPC_STRING }, { 6, "delta", RPC_BOOL },
};
static const struct rpc_message type_message = RPC_FIELDS("parca.query.v1alpha1.ProfileType", type_fields);
static const struct rpc_field types_reply_fields[] = { { 1, "types", RPC_MESSAGE, RPC_REPEATED,
							 &type_message } };
static const struct rpc_message types_reply = RPC_FIELDS("parca.query.v1alpha1.ProfileTypesResponse",
							 types_reply_fields);

static const struct rpc_field labels_request_fields[] = {
	{ 1, "match", RPC_STRING, RPC_REPEATED },
	{ 2, "start", RPC_TIMESTAMP },
	{ 3, "end", RPC_TIMESTAMP },
	{ 4, "profile_type", RPC_STRING },
};
static const struct rpc_message labels_request = RPC_FIELDS("parca.query.v1alpha1.LabelsRequest",
							    labels_request_fields);
static const struct rpc_field labels_reply_fields[] = { { 1, "label_names", RPC_STRING, RPC_REPEATED } };
static const struct rpc_message labels_reply = RPC_FIELDS("parca.query.v1alpha1.LabelsResponse",
							  labels_reply_fields);

static const struct rpc_field values_request_fields[] = {
	{ 1, "label_name", RPC_STRING },   { 2, "match", RPC_STRING, RPC_REPEATED },
	{ 3, "start", RPC_TIMESTAMP },     { 4, "end", RPC_TIMESTAMP },
	{ 5, "profile_type", RPC_STRING },
};
static const struct rpc_message values_request = RPC_FIELDS("parca.query.v1alpha1.ValuesRequest",
							    values_request_fields);
static const struct rpc_field values_reply_fields[] = { { 1, "label_values", RPC_STRING, RPC_REPEATED } };
static const struct rpc_message values_reply = RPC_FIELDS("parca.query.v1alpha1.ValuesResponse",
							  values_reply_fields);

static const struct rpc_field has_data_fields[] = { { 1, "has_data", RPC_BOOL } };
static const struct rpc_message has_data_reply = RPC_FIELDS("parca.query.v1alpha1.HasProfileDataResponse",
							    has_data_fields);

/* ---- values over time ---- */

static const struct rpc_field range_request_fields[] = {
	{ 1, "query", RPC_STRING },
	{ 2, "start", RPC_TIMESTAMP },
	{ 3, "end", RPC_TIMESTAMP },
	{ 4, "limit", RPC_UINT32 },
	{ 5, "step", RPC_MESSAGE, .message = &duration },
	{ 6, "sum_by", RPC_STRING, RPC_REPEATED },
};
static const struct rpc_message range_request = RPC_FIELDS("parca.query.v1alpha1.QueryRangeRequest",
							   range_request_fields);
static const struct rpc_field label_fields[] = { { 1, "name", RPC_STRING }, { 2, "value", RPC_STRING } };
static const struct rpc_message label = RPC_FIELDS("parca.profilestore.v1alpha1.Label", label_fields);
static const struct rpc_field set_fields[] = { { 1, "labels", RPC_MESSAGE, RPC_REPEATED, &label } };
static const struct rpc_message set = RPC_FIELDS("parca.profilestore.v1alpha1.LabelSet", set_fields);
static const struct rpc_field point_fields[] = {
	{ 1, "timestamp", RPC_TIMESTAMP }, { 2, "value", RPC_INT64 }, { 3, "value_per_second", RPC_DOUBLE },
	{ 4, "duration", RPC_INT64 },      { 5, "count", RPC_INT32 },
};
static const struct rpc_message point = RPC_FIELDS("parca.query.v1alpha1.MetricsSample", point_fields);
static const struct rpc_field value_type_fields[] = { { 1, "type", RPC_STRING }, { 2, "unit", RPC_STRING } };
static const struct rpc_message value_type = RPC_FIELDS("parca.query.v1alpha1.ValueType", value_type_fields);
static const struct rpc_field series_fields[] = {
	{ 1, "labelset", RPC_MESSAGE, .message = &set },
	{ 2, "samples", RPC_MESSAGE, RPC_REPEATED, &point },
	{ 3, "period_type", RPC_MESSAGE, .message = &value_type },
	{ 4, "sample_type", RPC_MESSAGE, .message = &value_type },
};
static const struct rpc_message series = RPC_FIELDS("parca.query.v1alpha1.MetricsSeries", series_fields);
static const struct rpc_field range_reply_fields[] = { { 1, "series", RPC_MESSAGE, RPC_REPEATED, &series } };
static const struct rpc_message range_reply = RPC_FIELDS("parca.query.v1alpha1.QueryRangeResponse",
							 range_reply_fields);

/* ---- profiles ---- */

static const struct rpc_enum_value modes_values[] = {
	{ 0, "MODE_SINGLE_UNSPECIFIED" }, { 1, "MODE_DIFF" }, { 2, "MODE_MERGE" }, { 0 }
};
static const struct rpc_enum modes = { "parca.query.v1alpha1.QueryRequest.Mode", modes_values };
static const struct rpc_enum_value side_modes_values[] = { { 0, "MODE_SINGLE_UNSPECIFIED" },
							   { 1, "MODE_MERGE" },
							   { 0 } };
static const struct rpc_enum side_modes = { "parca.query.v1alpha1.ProfileDiffSelection.Mode",
					    side_modes_values };
static const struct rpc_enum_value report_types_values[] = { { 0, "REPORT_TYPE_FLAMEGRAPH_UNSPECIFIED" },
							     { 1, "REPORT_TYPE_PPROF" },
							     { 2, "REPORT_TYPE_TOP" },
							     { 3, "REPORT_TYPE_CALLGRAPH" },
							     { 4, "REPORT_TYPE_FLAMEGRAPH_TABLE" },
							     { 5, "REPORT_TYPE_FLAMEGRAPH_ARROW" },
							     { 6, "REPORT_TYPE_SOURCE" },
							     { 7, "REPORT_TYPE_TABLE_ARROW" },
							     { 8, "REPORT_TYPE_PROFILE_METADATA" },
							     { 9, "REPORT_TYPE_FLAMECHART" },
							     { 0 } };
static const struct rpc_enum report_types = { "parca.query.v1alpha1.QueryRequest.ReportType",
					      report_types_values };
static const struct rpc_field merge_fields[] = {
	{ 1, "query", RPC_STRING },
	{ 2, "start", RPC_TIMESTAMP },
	{ 3, "end", RPC_TIMESTAMP },
};
static const struct rpc_message merge = RPC_FIELDS("parca.query.v1alpha1.MergeProfile", merge_fields);
static const struct rpc_field single_fields[] = { { 1, "time", RPC_TIMESTAMP }, { 2, "query", RPC_STRING } };
static const struct rpc_message single = RPC_FIELDS("parca.query.v1alpha1.SingleProfile", single_fields);
static const struct rpc_field side_fields[] = {
	{ 1, "mode", RPC_ENUM, .names = &side_modes },
	{ 2, "merge", RPC_MESSAGE, .message = &merge },
	{ 3, "single", RPC_MESSAGE, .message = &single },
};
static const struct rpc_message side = RPC_FIELDS("parca.query.v1alpha1.ProfileDiffSelection", side_fields);
static const struct rpc_field diff_fields[] = {
	{ 1, "a", RPC_MESSAGE, .message = &side },
	{ 2, "b", RPC_MESSAGE, .message = &side },
};
static const struct rpc_message diff = RPC_FIELDS("parca.query.v1alpha1.DiffProfile", diff_fields);
/* node_trim_threshold is a float, which only the binary form has here. */
static const struct rpc_field query_fields[] = {
	{ 1, "mode", RPC_ENUM, .names = &modes },
	{ 2, "diff", RPC_MESSAGE, .message = &diff },
	{ 3, "merge", RPC_MESSAGE, .message = &merge },
	{ 4, "single", RPC_MESSAGE, .message = &single },
	{ 5, "report_type", RPC_ENUM, .names = &report_types },
	{ 11, "invert_call_stack", RPC_BOOL },
};
static const struct rpc_message query_request = RPC_FIELDS("parca.query.v1alpha1.QueryRequest", query_fields);

static const struct rpc_field location_fields[] = { { 2, "address", RPC_UINT64 } };
static const struct rpc_message location = RPC_FIELDS("parca.metastore.v1alpha1.Location", location_fields);
static const struct rpc_field mapping_fields[] = { { 5, "file", RPC_STRING }, { 6, "build_id", RPC_STRING } };
static const struct rpc_message mapping = RPC_FIELDS("parca.metastore.v1alpha1.Mapping", mapping_fields);
static const struct rpc_field function_fields[] = {
	{ 2, "start_line", RPC_INT64 },
	{ 3, "name", RPC_STRING },
	{ 4, "system_name", RPC_STRING },
	{ 5, "filename", RPC_STRING },
};
static const struct rpc_message function = RPC_FIELDS("parca.metastore.v1alpha1.Function", function_fields);
static const struct rpc_field line_fields[] = { { 2, "line", RPC_INT64 } };
static const struct rpc_message line = RPC_FIELDS("parca.metastore.v1alpha1.Line", line_fields);
static const struct rpc_field meta_fields[] = {
	{ 1, "location", RPC_MESSAGE, .message = &location },
	{ 2, "mapping", RPC_MESSAGE, .message = &mapping },
	{ 3, "function", RPC_MESSAGE, .message = &function },
	{ 4, "line", RPC_MESSAGE, .message = &line },
};
static const struct rpc_message meta = RPC_FIELDS("parca.query.v1alpha1.FlamegraphNodeMeta", meta_fields),
				top_meta = RPC_FIELDS("parca.query.v1alpha1.TopNodeMeta", meta_fields);

static const struct rpc_message node;
static const struct rpc_field node_fields[] = {
	{ 1, "meta", RPC_MESSAGE, .message = &meta },
	{ 2, "cumulative", RPC_INT64 },
	{ 3, "diff", RPC_INT64 },
	{ 4, "children", RPC_MESSAGE, RPC_REPEATED, &node },
};
static const struct rpc_message node = RPC_FIELDS("parca.query.v1alpha1.FlamegraphNode", node_fields);
static const struct rpc_field root_fields[] = {
	{ 1, "cumulative", RPC_INT64 },
	{ 2, "diff", RPC_INT64 },
	{ 3, "children", RPC_MESSAGE, RPC_REPEATED, &node },
};
static const struct rpc_message root = RPC_FIELDS("parca.query.v1alpha1.FlamegraphRootNode", root_fields);
static const struct rpc_field graph_fields[] = {
	{ 1, "root", RPC_MESSAGE, .message = &root },
	{ 2, "total", RPC_INT64 },
	{ 3, "unit", RPC_STRING },
	{ 4, "height", RPC_INT32 },
	{ 9, "untrimmed_total", RPC_INT64 },
};
static const struct rpc_message graph = RPC_FIELDS("parca.query.v1alpha1.Flamegraph", graph_fields);
static const struct rpc_field top_node_fields[] = {
	{ 1, "meta", RPC_MESSAGE, .message = &top_meta },
	{ 2, "cumulative", RPC_INT64 },
	{ 3, "flat", RPC_INT64 },
	{ 4, "diff", RPC_INT64 },
};
static const struct rpc_message top_node = RPC_FIELDS("parca.query.v1alpha1.TopNode", top_node_fields);
static const struct rpc_field top_fields[] = {
	{ 1, "list", RPC_MESSAGE, RPC_REPEATED, &top_node },
	{ 2, "reported", RPC_INT32 },
	{ 3, "total", RPC_INT32 },
	{ 4, "unit", RPC_STRING },
};
static const struct rpc_message top = RPC_FIELDS("parca.query.v1alpha1.Top", top_fields);
static const struct rpc_field query_reply_fields[] = {
	{ 5, "flamegraph", RPC_MESSAGE, .message = &graph },
	{ 6, "pprof", RPC_BYTES },
	{ 7, "top", RPC_MESSAGE, .message = &top },
	{ 9, "total", RPC_INT64 },
};
static const struct rpc_message query_reply = RPC_FIELDS("parca.query.v1alpha1.QueryResponse",
							 query_reply_fields);

const struct rpc_method parca_v1_types = RPC_METHOD(parca_types_run, types_request, types_reply),
			parca_v1_labels = RPC_METHOD(parca_labels_run, labels_request, labels_reply),
			parca_v1_values = RPC_METHOD(parca_values_run, values_request, values_reply),
			parca_v1_range = RPC_METHOD(parca_range_run, range_request, range_reply),
			parca_v1_query = RPC_METHOD(parca_query_run, query_request, query_reply),
			parca_v1_has_data = RPC_METHOD(
				parca_has_data_run, RPC_EMPTY("parca.query.v1alpha1.HasProfileDataRequest"),
				has_data_reply);
