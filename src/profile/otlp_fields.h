/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of OTLP's fields and names of its attributes: opentelemetry-proto 1.10 and 1.11, profiles/v1development and
 * common/v1; the semantic conventions for resources and profiles. Only those that are read or written.
 */
#pragma once

/* ExportProfilesServiceRequest and ProfilesData */
enum { OTLP_RESOURCE_PROFILES = 1, OTLP_DICTIONARY = 2 };
/* ExportProfilesServiceResponse, ExportProfilesPartialSuccess */
enum { OTLP_PARTIAL_SUCCESS = 1 };
enum { OTLP_REJECTED_PROFILES = 1, OTLP_ERROR_MESSAGE = 2 };
/* ResourceProfiles; Resource; ScopeProfiles */
enum { OTLP_RESOURCE = 1, OTLP_SCOPE_PROFILES = 2 };
enum { OTLP_RESOURCE_ATTRIBUTES = 1 };
enum { OTLP_SCOPE = 1, OTLP_PROFILES = 2 };
/* InstrumentationScope */
enum { OTLP_SCOPE_NAME = 1, OTLP_SCOPE_VERSION = 2 };

/* ProfilesDictionary. Entry 0 of each table is "nothing". */
enum otlp_table {
	OTLP_MAPPINGS = 1,
	OTLP_LOCATIONS,
	OTLP_FUNCTIONS,
	OTLP_LINKS,
	OTLP_STRINGS,
	OTLP_ATTRIBUTES,
	OTLP_STACKS,
	OTLP_N_TABLES
};

/* Profile. A time of another wire type is a list of an older revision. */
enum {
	OTLP_SAMPLE_TYPE = 1,
	OTLP_SAMPLES = 2,
	OTLP_TIME = 3, /* fixed64 */
	OTLP_DURATION = 4,
	OTLP_PERIOD_TYPE = 5,
	OTLP_PERIOD = 6,
	OTLP_PROFILE_ID = 7, /* 16 bytes */
};
/* ValueType */
enum { OTLP_TYPE = 1, OTLP_UNIT = 2 };
enum {
	OTLP_SAMPLE_STACK = 1,
	OTLP_SAMPLE_ATTRIBUTES = 2,
	OTLP_SAMPLE_VALUES = 4,
	OTLP_SAMPLE_TIMES = 5, /* fixed64 each */
};
enum {
	OTLP_MAPPING_START = 1,
	OTLP_MAPPING_LIMIT = 2,
	OTLP_MAPPING_OFFSET = 3,
	OTLP_MAPPING_FILE = 4,
	OTLP_MAPPING_ATTRIBUTES = 5,
};
enum { OTLP_STACK_LOCATIONS = 1 };
enum {
	OTLP_LOCATION_MAPPING = 1,
	OTLP_LOCATION_ADDRESS = 2,
	OTLP_LOCATION_LINES = 3,
	OTLP_LOCATION_ATTRIBUTES = 4
};
enum { OTLP_LINE_FUNCTION = 1, OTLP_LINE_LINE = 2, OTLP_LINE_COLUMN = 3 };
enum {
	OTLP_FUNCTION_NAME = 1,
	OTLP_FUNCTION_SYSTEM_NAME = 2,
	OTLP_FUNCTION_FILE = 3,
	OTLP_FUNCTION_LINE = 4
};

/* KeyValue, of resources; KeyValueAndUnit, of the dictionary */
enum { OTLP_KEY = 1, OTLP_VALUE = 2, OTLP_KEY_STRING = 3 };
enum { OTLP_ATTRIBUTE_KEY = 1, OTLP_ATTRIBUTE_VALUE = 2, OTLP_ATTRIBUTE_UNIT = 3 };
/* AnyValue */
enum { OTLP_VALUE_TEXT = 1, OTLP_VALUE_BOOL = 2, OTLP_VALUE_INT = 3, OTLP_VALUE_STRING = 8 };

/* Of mappings: the identity of their file, the best first. */
#define OTLP_BUILD_ID_GNU  STR("process.executable.build_id.gnu")
#define OTLP_BUILD_ID_GO   STR("process.executable.build_id.go")
#define OTLP_BUILD_ID_HASH STR("process.executable.build_id.htlhash")
/* Of locations, and its values: the code that a frame is of. */
#define OTLP_FRAME_TYPE   STR("profile.frame.type")
#define OTLP_FRAME_NATIVE STR("native")
#define OTLP_FRAME_KERNEL STR("kernel")
