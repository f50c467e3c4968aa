/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP's messages by name, for requests in JSON (OTLP/HTTP, "JSON Protobuf Encoding": IDs of traces in hexadecimal,
 * which are not read, as the only difference from protobuf's own mapping). Fields that are not read are left out.
 */
#include "profile/otlp_fields.h"
#include "server/intake/otlp_json.h"

static const struct rpc_field value_fields[] = {
	{ OTLP_VALUE_TEXT, "string_value", RPC_STRING, RPC_PRESENT },
	{ OTLP_VALUE_BOOL, "bool_value", RPC_BOOL, RPC_PRESENT },
	{ OTLP_VALUE_INT, "int_value", RPC_INT64, RPC_PRESENT },
	{ OTLP_VALUE_STRING, "string_value_strindex", RPC_INT32, RPC_PRESENT },
};
static const struct rpc_message value = RPC_FIELDS("opentelemetry.proto.common.v1.AnyValue", value_fields);

static const struct rpc_field key_value_fields[] = {
	{ OTLP_KEY, "key", RPC_STRING },
	{ OTLP_VALUE, "value", RPC_MESSAGE, 0, &value },
	{ OTLP_KEY_STRING, "key_strindex", RPC_INT32 },
};
static const struct rpc_message key_value = RPC_FIELDS("opentelemetry.proto.common.v1.KeyValue",
						       key_value_fields);

static const struct rpc_field resource_fields[] = {
	{ OTLP_RESOURCE_ATTRIBUTES, "attributes", RPC_MESSAGE, RPC_REPEATED, &key_value },
};
static const struct rpc_message resource = RPC_FIELDS("opentelemetry.proto.resource.v1.Resource",
						      resource_fields);

/* ---- profiles ---- */

static const struct rpc_field type_fields[] = {
	{ OTLP_TYPE, "type_strindex", RPC_INT32 },
	{ OTLP_UNIT, "unit_strindex", RPC_INT32 },
};
static const struct rpc_message type = RPC_FIELDS("opentelemetry.proto.profiles.v1development.ValueType",
						  type_fields);

static const struct rpc_field sample_fields[] = {
	{ OTLP_SAMPLE_STACK, "stack_index", RPC_INT32 },
	{ OTLP_SAMPLE_ATTRIBUTES, "attribute_indices", RPC_INT32, RPC_REPEATED },
	{ OTLP_SAMPLE_VALUES, "values", RPC_INT64, RPC_REPEATED },
	{ OTLP_SAMPLE_TIMES, "timestamps_unix_nano", RPC_FIXED64, RPC_REPEATED },
};
static const struct rpc_message sample = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Sample",
						    sample_fields);

static const struct rpc_field profile_fields[] = {
	{ OTLP_SAMPLE_TYPE, "sample_type", RPC_MESSAGE, 0, &type },
	{ OTLP_SAMPLES, "samples", RPC_MESSAGE, RPC_REPEATED, &sample },
	{ OTLP_TIME, "time_unix_nano", RPC_FIXED64 },
	{ OTLP_DURATION, "duration_nano", RPC_UINT64 },
	{ OTLP_PERIOD_TYPE, "period_type", RPC_MESSAGE, 0, &type },
	{ OTLP_PERIOD, "period", RPC_INT64 },
};
static const struct rpc_message profile = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Profile",
						     profile_fields);

static const struct rpc_field scope_fields[] = {
	{ OTLP_PROFILES, "profiles", RPC_MESSAGE, RPC_REPEATED, &profile },
};
static const struct rpc_message scope = RPC_FIELDS("opentelemetry.proto.profiles.v1development.ScopeProfiles",
						   scope_fields);

static const struct rpc_field resource_profiles_fields[] = {
	{ OTLP_RESOURCE, "resource", RPC_MESSAGE, 0, &resource },
	{ OTLP_SCOPE_PROFILES, "scope_profiles", RPC_MESSAGE, RPC_REPEATED, &scope },
};
static const struct rpc_message resource_profiles = RPC_FIELDS(
	"opentelemetry.proto.profiles.v1development.ResourceProfiles", resource_profiles_fields);

/* ---- the dictionary ---- */

static const struct rpc_field mapping_fields[] = {
	{ OTLP_MAPPING_START, "memory_start", RPC_UINT64 },
	{ OTLP_MAPPING_LIMIT, "memory_limit", RPC_UINT64 },
	{ OTLP_MAPPING_OFFSET, "file_offset", RPC_UINT64 },
	{ OTLP_MAPPING_FILE, "filename_strindex", RPC_INT32 },
	{ OTLP_MAPPING_ATTRIBUTES, "attribute_indices", RPC_INT32, RPC_REPEATED },
};
static const struct rpc_message mapping = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Mapping",
						     mapping_fields);

static const struct rpc_field line_fields[] = {
	{ OTLP_LINE_FUNCTION, "function_index", RPC_INT32 },
	{ OTLP_LINE_LINE, "line", RPC_INT64 },
	{ OTLP_LINE_COLUMN, "column", RPC_INT64 },
};
static const struct rpc_message line = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Line",
						  line_fields);

static const struct rpc_field location_fields[] = {
	{ OTLP_LOCATION_MAPPING, "mapping_index", RPC_INT32 },
	{ OTLP_LOCATION_ADDRESS, "address", RPC_UINT64 },
	{ OTLP_LOCATION_LINES, "lines", RPC_MESSAGE, RPC_REPEATED, &line },
};
static const struct rpc_message location = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Location",
						      location_fields);

static const struct rpc_field function_fields[] = {
	{ OTLP_FUNCTION_NAME, "name_strindex", RPC_INT32 },
	{ OTLP_FUNCTION_SYSTEM_NAME, "system_name_strindex", RPC_INT32 },
	{ OTLP_FUNCTION_FILE, "filename_strindex", RPC_INT32 },
	{ OTLP_FUNCTION_LINE, "start_line", RPC_INT64 },
};
static const struct rpc_message function = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Function",
						      function_fields);

static const struct rpc_field attribute_fields[] = {
	{ OTLP_ATTRIBUTE_KEY, "key_strindex", RPC_INT32 },
	{ OTLP_ATTRIBUTE_VALUE, "value", RPC_MESSAGE, 0, &value },
	{ OTLP_ATTRIBUTE_UNIT, "unit_strindex", RPC_INT32 },
};
static const struct rpc_message attribute = RPC_FIELDS(
	"opentelemetry.proto.profiles.v1development.KeyValueAndUnit", attribute_fields);

static const struct rpc_field stack_fields[] = {
	{ OTLP_STACK_LOCATIONS, "location_indices", RPC_INT32, RPC_REPEATED },
};
static const struct rpc_message stack = RPC_FIELDS("opentelemetry.proto.profiles.v1development.Stack",
						   stack_fields);

static const struct rpc_field dictionary_fields[] = {
	{ OTLP_MAPPINGS, "mapping_table", RPC_MESSAGE, RPC_REPEATED, &mapping },
	{ OTLP_LOCATIONS, "location_table", RPC_MESSAGE, RPC_REPEATED, &location },
	{ OTLP_FUNCTIONS, "function_table", RPC_MESSAGE, RPC_REPEATED, &function },
	{ OTLP_STRINGS, "string_table", RPC_STRING, RPC_REPEATED },
	{ OTLP_ATTRIBUTES, "attribute_table", RPC_MESSAGE, RPC_REPEATED, &attribute },
	{ OTLP_STACKS, "stack_table", RPC_MESSAGE, RPC_REPEATED, &stack },
};
static const struct rpc_message dictionary = RPC_FIELDS(
	"opentelemetry.proto.profiles.v1development.ProfilesDictionary", dictionary_fields);

/* ---- requests and replies ---- */

static const struct rpc_field request_fields[] = {
	{ OTLP_RESOURCE_PROFILES, "resource_profiles", RPC_MESSAGE, RPC_REPEATED, &resource_profiles },
	{ OTLP_DICTIONARY, "dictionary", RPC_MESSAGE, 0, &dictionary },
};
const struct rpc_message otlp_json_request = RPC_FIELDS(
	"opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest", request_fields);

static const struct rpc_field partial_fields[] = {
	{ OTLP_REJECTED_PROFILES, "rejected_profiles", RPC_INT64 },
	{ OTLP_ERROR_MESSAGE, "error_message", RPC_STRING },
};
static const struct rpc_message partial = RPC_FIELDS(
	"opentelemetry.proto.collector.profiles.v1development.ExportProfilesPartialSuccess", partial_fields);

static const struct rpc_field reply_fields[] = {
	{ OTLP_PARTIAL_SUCCESS, "partial_success", RPC_MESSAGE, 0, &partial },
};
const struct rpc_message otlp_json_reply = RPC_FIELDS(
	"opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceResponse", reply_fields);
