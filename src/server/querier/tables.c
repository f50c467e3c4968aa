/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of querier.v1, types.v1 and google.v1 as tables of fields, for their JSON; and the calls. Fields that lode
 * neither reads nor writes are left out.
 */
#include "server/querier/querier.h"

/* ---- types.v1 ---- */

static const struct rpc_field label_pair_fields[] = {
	{ 1, "name", RPC_STRING },
	{ 2, "value", RPC_STRING },
};
static const struct rpc_message label_pair = RPC_FIELDS("types.v1.LabelPair", label_pair_fields);

static const struct rpc_field labels_fields[] = {
	{ 1, "labels", RPC_MESSAGE, RPC_REPEATED, &label_pair },
};
static const struct rpc_message labels = RPC_FIELDS("types.v1.Labels", labels_fields);

static const struct rpc_field profile_type_fields[] = {
	{ 1, "ID", RPC_STRING },          { 2, "name", RPC_STRING },        { 4, "sample_type", RPC_STRING },
	{ 5, "sample_unit", RPC_STRING }, { 6, "period_type", RPC_STRING }, { 7, "period_unit", RPC_STRING },
};
static const struct rpc_message profile_type = RPC_FIELDS("types.v1.ProfileType", profile_type_fields);

static const struct rpc_field point_fields[] = {
	{ 1, "value", RPC_DOUBLE },
	{ 2, "timestamp", RPC_INT64 },
};
static const struct rpc_message point = RPC_FIELDS("types.v1.Point", point_fields);

static const struct rpc_field one_series_fields[] = {
	{ 1, "labels", RPC_MESSAGE, RPC_REPEATED, &label_pair },
	{ 2, "points", RPC_MESSAGE, RPC_REPEATED, &point },
};
static const struct rpc_message one_series = RPC_FIELDS("types.v1.Series", one_series_fields);

static const struct rpc_field frame_fields[] = { { 1, "name", RPC_STRING } };
static const struct rpc_message frame = RPC_FIELDS("types.v1.Location", frame_fields);

static const struct rpc_field stack_selector_fields[] = {
	{ 1, "call_site", RPC_MESSAGE, RPC_REPEATED, &frame },
};
static const struct rpc_message stack_selector = RPC_FIELDS("types.v1.StackTraceSelector",
							    stack_selector_fields);

static const struct rpc_enum_value aggregations_values[] = {
	{ 0, "TIME_SERIES_AGGREGATION_TYPE_SUM" },
	{ 1, "TIME_SERIES_AGGREGATION_TYPE_AVERAGE" },
	{ 0, NULL },
};
static const struct rpc_enum aggregations = { "types.v1.TimeSeriesAggregationType", aggregations_values };

/* ---- requests ---- */

static const struct rpc_field types_request_fields[] = {
	{ 1, "start", RPC_INT64 },
	{ 2, "end", RPC_INT64 },
};
static const struct rpc_message types_request = RPC_FIELDS("querier.v1.ProfileTypesRequest",
							   types_request_fields);

static const struct rpc_field names_request_fields[] = {
	{ 1, "matchers", RPC_STRING, RPC_REPEATED },
	{ 2, "start", RPC_INT64 },
	{ 3, "end", RPC_INT64 },
};
static const struct rpc_message names_request = RPC_FIELDS("types.v1.LabelNamesRequest",
							   names_request_fields);

static const struct rpc_field values_request_fields[] = {
	{ 1, "name", RPC_STRING },
	{ 2, "matchers", RPC_STRING, RPC_REPEATED },
	{ 3, "start", RPC_INT64 },
	{ 4, "end", RPC_INT64 },
};
static const struct rpc_message values_request = RPC_FIELDS("types.v1.LabelValuesRequest",
							    values_request_fields);

static const struct rpc_field sets_request_fields[] = {
	{ 1, "matchers", RPC_STRING, RPC_REPEATED },
	{ 2, "label_names", RPC_STRING, RPC_REPEATED },
	{ 3, "start", RPC_INT64 },
	{ 4, "end", RPC_INT64 },
};
static const struct rpc_message sets_request = RPC_FIELDS("querier.v1.SeriesRequest", sets_request_fields);

static const struct rpc_enum_value formats_values[] = {
	{ QUERIER_FLAMEGRAPH_USUAL, "PROFILE_FORMAT_UNSPECIFIED" },
	{ QUERIER_FLAMEGRAPH, "PROFILE_FORMAT_FLAMEGRAPH" },
	{ QUERIER_TREE, "PROFILE_FORMAT_TREE" },
	{ QUERIER_DOT, "PROFILE_FORMAT_DOT" },
	{ QUERIER_PPROF, "PROFILE_FORMAT_PPROF" },
	{ 0, NULL },
};
static const struct rpc_enum formats = { "querier.v1.ProfileFormat", formats_values };

static const struct rpc_field stacktraces_request_fields[] = {
	{ 1, "profile_typeID", RPC_STRING },
	{ 2, "label_selector", RPC_STRING },
	{ 3, "start", RPC_INT64 },
	{ 4, "end", RPC_INT64 },
	{ 5, "max_nodes", RPC_INT64, RPC_PRESENT },
	{ 6, "format", RPC_ENUM, .names = &formats },
	{ 7, "stack_trace_selector", RPC_MESSAGE, RPC_PRESENT, &stack_selector },
	{ 8, "profile_id_selector", RPC_STRING, RPC_REPEATED },
	{ 10, "trace_id_selector", RPC_STRING, RPC_REPEATED },
	{ 11, "span_selector", RPC_STRING, RPC_REPEATED },
};
static const struct rpc_message stacktraces_request = RPC_FIELDS("querier.v1.SelectMergeStacktracesRequest",
								 stacktraces_request_fields);

static const struct rpc_field profile_request_fields[] = {
	{ 1, "profile_typeID", RPC_STRING },
	{ 2, "label_selector", RPC_STRING },
	{ 3, "start", RPC_INT64 },
	{ 4, "end", RPC_INT64 },
	{ 5, "max_nodes", RPC_INT64, RPC_PRESENT },
	{ 6, "stack_trace_selector", RPC_MESSAGE, RPC_PRESENT, &stack_selector },
	{ 7, "profile_id_selector", RPC_STRING, RPC_REPEATED },
	{ 8, "trace_id_selector", RPC_STRING, RPC_REPEATED },
};
static const struct rpc_message profile_request = RPC_FIELDS("querier.v1.SelectMergeProfileRequest",
							     profile_request_fields);

static const struct rpc_field series_request_fields[] = {
	{ 1, "profile_typeID", RPC_STRING },
	{ 2, "label_selector", RPC_STRING },
	{ 3, "start", RPC_INT64 },
	{ 4, "end", RPC_INT64 },
	{ 5, "group_by", RPC_STRING, RPC_REPEATED },
	{ 6, "step", RPC_DOUBLE },
	{ 7, "aggregation", RPC_ENUM, RPC_PRESENT, .names = &aggregations },
	{ 8, "stack_trace_selector", RPC_MESSAGE, RPC_PRESENT, &stack_selector },
	{ 9, "limit", RPC_INT64, RPC_PRESENT },
};
static const struct rpc_message series_request = RPC_FIELDS("querier.v1.SelectSeriesRequest",
							    series_request_fields);

static const struct rpc_field diff_request_fields[] = {
	{ 1, "left", RPC_MESSAGE, 0, &stacktraces_request },
	{ 2, "right", RPC_MESSAGE, 0, &stacktraces_request },
};
static const struct rpc_message diff_request = RPC_FIELDS("querier.v1.DiffRequest", diff_request_fields);

static const struct rpc_field analyze_request_fields[] = {
	{ 2, "start", RPC_INT64 },
	{ 3, "end", RPC_INT64 },
	{ 4, "query", RPC_STRING },
};
static const struct rpc_message analyze_request = RPC_FIELDS("querier.v1.AnalyzeQueryRequest",
							     analyze_request_fields);

/* ---- replies ---- */

static const struct rpc_field types_reply_fields[] = {
	{ 1, "profile_types", RPC_MESSAGE, RPC_REPEATED, &profile_type },
};
static const struct rpc_message types_reply = RPC_FIELDS("querier.v1.ProfileTypesResponse",
							 types_reply_fields);

static const struct rpc_field names_reply_fields[] = { { 1, "names", RPC_STRING, RPC_REPEATED } };
static const struct rpc_message names_reply = RPC_FIELDS("types.v1.LabelNamesResponse", names_reply_fields),
				values_reply = RPC_FIELDS("types.v1.LabelValuesResponse", names_reply_fields);

static const struct rpc_field sets_reply_fields[] = {
	{ 2, "labels_set", RPC_MESSAGE, RPC_REPEATED, &labels },
};
static const struct rpc_message sets_reply = RPC_FIELDS("querier.v1.SeriesResponse", sets_reply_fields);

static const struct rpc_field series_reply_fields[] = {
	{ 1, "series", RPC_MESSAGE, RPC_REPEATED, &one_series },
};
static const struct rpc_message series_reply = RPC_FIELDS("querier.v1.SelectSeriesResponse",
							  series_reply_fields);

static const struct rpc_field level_fields[] = { { 1, "values", RPC_INT64, RPC_REPEATED } };
static const struct rpc_message level = RPC_FIELDS("querier.v1.Level", level_fields);

static const struct rpc_field graph_fields[] = {
	{ 1, "names", RPC_STRING, RPC_REPEATED },
	{ 2, "levels", RPC_MESSAGE, RPC_REPEATED, &level },
	{ 3, "total", RPC_INT64 },
	{ 4, "max_self", RPC_INT64 },
	{ 5, "leftTicks", RPC_INT64 },
	{ 6, "rightTicks", RPC_INT64 },
};
static const struct rpc_message graph = { "querier.v1.FlameGraph", graph_fields, 4 },
				diff_graph = RPC_FIELDS("querier.v1.FlameGraphDiff", graph_fields);

static const struct rpc_field diff_reply_fields[] = { { 1, "flamegraph", RPC_MESSAGE, 0, &diff_graph } };
static const struct rpc_message diff_reply = RPC_FIELDS("querier.v1.DiffResponse", diff_reply_fields);

static const struct rpc_field stats_reply_fields[] = {
	{ 1, "data_ingested", RPC_BOOL },
	{ 2, "oldest_profile_time", RPC_INT64 },
	{ 3, "newest_profile_time", RPC_INT64 },
};
static const struct rpc_message stats_reply = RPC_FIELDS("types.v1.GetProfileStatsResponse",
							 stats_reply_fields);

static const struct rpc_field scope_fields[] = {
	{ 1, "component_type", RPC_STRING },
	{ 2, "component_count", RPC_UINT64 },
	{ 4, "series_count", RPC_UINT64 },
};
static const struct rpc_message scope = RPC_FIELDS("querier.v1.QueryScope", scope_fields);

static const struct rpc_field impact_fields[] = { { 3, "total_queried_series", RPC_UINT64 } };
static const struct rpc_message impact = RPC_FIELDS("querier.v1.QueryImpact", impact_fields);

static const struct rpc_field analyze_reply_fields[] = {
	{ 1, "query_scopes", RPC_MESSAGE, RPC_REPEATED, &scope },
	{ 2, "query_impact", RPC_MESSAGE, 0, &impact },
};
static const struct rpc_message analyze_reply = RPC_FIELDS("querier.v1.AnalyzeQueryResponse",
							   analyze_reply_fields);

/* ---- google.v1.Profile ---- */

static const struct rpc_field value_type_fields[] = {
	{ 1, "type", RPC_INT64 },
	{ 2, "unit", RPC_INT64 },
};
static const struct rpc_message value_type = RPC_FIELDS("google.v1.ValueType", value_type_fields);

static const struct rpc_field sample_label_fields[] = {
	{ 1, "key", RPC_INT64 },
	{ 2, "str", RPC_INT64 },
	{ 3, "num", RPC_INT64 },
	{ 4, "num_unit", RPC_INT64 },
};
static const struct rpc_message sample_label = RPC_FIELDS("google.v1.Label", sample_label_fields);

static const struct rpc_field sample_fields[] = {
	{ 1, "location_id", RPC_UINT64, RPC_REPEATED },
	{ 2, "value", RPC_INT64, RPC_REPEATED },
	{ 3, "label", RPC_MESSAGE, RPC_REPEATED, &sample_label },
};
static const struct rpc_message sample = RPC_FIELDS("google.v1.Sample", sample_fields);

static const struct rpc_field mapping_fields[] = {
	{ 1, "id", RPC_UINT64 },
	{ 2, "memory_start", RPC_UINT64 },
	{ 3, "memory_limit", RPC_UINT64 },
	{ 4, "file_offset", RPC_UINT64 },
	{ 5, "filename", RPC_INT64 },
	{ 6, "build_id", RPC_INT64 },
	{ 7, "has_functions", RPC_BOOL },
	{ 8, "has_filenames", RPC_BOOL },
	{ 9, "has_line_numbers", RPC_BOOL },
	{ 10, "has_inline_frames", RPC_BOOL },
};
static const struct rpc_message mapping = RPC_FIELDS("google.v1.Mapping", mapping_fields);

static const struct rpc_field line_fields[] = {
	{ 1, "function_id", RPC_UINT64 },
	{ 2, "line", RPC_INT64 },
};
static const struct rpc_message line = RPC_FIELDS("google.v1.Line", line_fields);

static const struct rpc_field location_fields[] = {
	{ 1, "id", RPC_UINT64 },      { 2, "mapping_id", RPC_UINT64 },
	{ 3, "address", RPC_UINT64 }, { 4, "line", RPC_MESSAGE, RPC_REPEATED, &line },
	{ 5, "is_folded", RPC_BOOL },
};
static const struct rpc_message location = RPC_FIELDS("google.v1.Location", location_fields);

static const struct rpc_field function_fields[] = {
	{ 1, "id", RPC_UINT64 },      { 2, "name", RPC_INT64 },       { 3, "system_name", RPC_INT64 },
	{ 4, "filename", RPC_INT64 }, { 5, "start_line", RPC_INT64 },
};
static const struct rpc_message function = RPC_FIELDS("google.v1.Function", function_fields);

static const struct rpc_field google_profile_fields[] = {
	{ 1, "sample_type", RPC_MESSAGE, RPC_REPEATED, &value_type },
	{ 2, "sample", RPC_MESSAGE, RPC_REPEATED, &sample },
	{ 3, "mapping", RPC_MESSAGE, RPC_REPEATED, &mapping },
	{ 4, "location", RPC_MESSAGE, RPC_REPEATED, &location },
	{ 5, "function", RPC_MESSAGE, RPC_REPEATED, &function },
	{ 6, "string_table", RPC_STRING, RPC_REPEATED },
	{ 7, "drop_frames", RPC_INT64 },
	{ 8, "keep_frames", RPC_INT64 },
	{ 9, "time_nanos", RPC_INT64 },
	{ 10, "duration_nanos", RPC_INT64 },
	{ 11, "period_type", RPC_MESSAGE, 0, &value_type },
	{ 12, "period", RPC_INT64 },
	{ 13, "comment", RPC_INT64, RPC_REPEATED },
	{ 14, "default_sample_type", RPC_INT64 },
};
static const struct rpc_message google_profile = RPC_FIELDS("google.v1.Profile", google_profile_fields);

static const struct rpc_field pprof_fields[] = { { 1, "profile", RPC_MESSAGE, 0, &google_profile } };
static const struct rpc_message pprof = RPC_FIELDS("querier.v1.PprofProfile", pprof_fields);

static const struct rpc_field stacktraces_reply_fields[] = {
	{ 1, "flamegraph", RPC_MESSAGE, 0, &graph },
	{ 2, "tree", RPC_BYTES },
	{ 5, "pprof", RPC_MESSAGE, 0, &pprof },
};
static const struct rpc_message stacktraces_reply = RPC_FIELDS("querier.v1.SelectMergeStacktracesResponse",
							       stacktraces_reply_fields);

/* ---- calls ---- */

const struct rpc_method querier_v1_profile_types = RPC_METHOD(querier_profile_types, types_request,
							      types_reply);
const struct rpc_method querier_v1_label_names = RPC_METHOD(querier_label_names, names_request, names_reply);
const struct rpc_method querier_v1_label_values = RPC_METHOD(querier_label_values, values_request,
							     values_reply);
const struct rpc_method querier_v1_series = RPC_METHOD(querier_label_sets, sets_request, sets_reply);
const struct rpc_method querier_v1_select_series = RPC_METHOD(querier_select_series, series_request,
							      series_reply);
const struct rpc_method querier_v1_select_merge_stacktraces = RPC_METHOD(
	querier_stacktraces, stacktraces_request, stacktraces_reply);
const struct rpc_method querier_v1_select_merge_profile = RPC_METHOD(querier_merge_profile, profile_request,
								     google_profile);
const struct rpc_method querier_v1_diff = RPC_METHOD(querier_diff, diff_request, diff_reply);
const struct rpc_method querier_v1_get_profile_stats = RPC_METHOD(
	querier_stats, RPC_EMPTY("types.v1.GetProfileStatsRequest"), stats_reply);
const struct rpc_method querier_v1_analyze_query = RPC_METHOD(querier_analyze, analyze_request,
							      analyze_reply);
const struct rpc_method settings_v1_get = RPC_METHOD(querier_nothing,
						     RPC_EMPTY("settings.v1.GetSettingsRequest"),
						     RPC_EMPTY("settings.v1.GetSettingsResponse"));
const struct rpc_method capabilities_v1_get = RPC_METHOD(
	querier_nothing, RPC_EMPTY("capabilities.v1.GetFeatureFlagsRequest"),
	RPC_EMPTY("capabilities.v1.GetFeatureFlagsResponse"));
