/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of routes: everything that can be asked over HTTP is a row. docs/protocol.md has a line for each, and
 * docs/openapi.json a path for each of the API of profiles; tests/unit/server/routes.c compares them.
 */
#include "server/artifact/artifact.h"
#include "server/intake/intake.h"
#include "server/intake/senders.h"
#include "server/profiles/profiles.h"
#include "server/push/push.h"
#include "server/querier/parca.h"
#include "server/querier/querier.h"
#include "server/rpc/rpc.h"
#include "server/scrape/scrape.h"
#include "server/status/status.h"
#include "server/symbolize/symbolize.h"

#define READ  TOKEN_READ
#define PUSH  TOKEN_PUSH
#define ADMIN TOKEN_ADMIN
#define OPEN  0 /* needs no token */

#define BY_BUILD_ID (HTTP_LOOSE_SLASHES | HTTP_FIRST_IS_BUILD_ID)

/* GET of the artifacts of a build ID. */
#define ARTIFACT(path, what)                                                               \
	{                                                                                  \
		HTTP_GET, "/buildid/{id}/" path, READ, HTTP_ON_THREAD, what, BY_BUILD_ID,  \
			.handler = &artifact_get, .cls = HTTP_CLASS_ARTIFACT, .kind = what \
	}

/* The same under the path of a symbol server of another kind. */
#define LAYOUT(path, what, flags, layout)                                                                  \
	{                                                                                                  \
		HTTP_GET, path, READ, HTTP_ON_THREAD, what, flags,                                         \
			.handler = &artifact_get, .cls = HTTP_CLASS_ARTIFACT, .kind = what, .arg = &layout \
	}

#define UPLOAD(path, what)                                                                     \
	{                                                                                      \
		HTTP_PUT, "/buildid/{id}/" path, PUSH, HTTP_ON_THREAD, TYPE_PUSH, BY_BUILD_ID, \
			.handler = &push_put, .cls = HTTP_CLASS_PUSH, .kind = what             \
	}

#define REMOVAL(path, what)                                                                        \
	{                                                                                          \
		HTTP_DELETE, "/buildid/{id}/" path, ADMIN, HTTP_ON_WRITER, TYPE_PUSH, BY_BUILD_ID, \
			.handler = &push_remove, .cls = HTTP_CLASS_PUSH, .kind = what              \
	}

#define SYMBOLIZE(path, flags, form)                                                           \
	{                                                                                      \
		HTTP_POST, path, READ, HTTP_ON_WORKER, TYPE_SYMBOLIZE, flags, &symbolize_body, \
			&symbolize_post, .cls = HTTP_CLASS_SYMBOLIZE, .arg = form              \
	}

#define PPROF(path, flags)                                                           \
	{                                                                            \
		HTTP_GET, path, READ, HTTP_ON_WORKER, TYPE_SYMBOLIZE, flags,         \
			.handler = &symbolize_pprof_get, .cls = HTTP_CLASS_SYMBOLIZE \
	}

/* A view of profiles; @args: names of its parameters; @how_long: its class. */
#define VIEW_OF(path, args, run, how_long)                                                          \
	{                                                                                           \
		HTTP_GET, path, READ, HTTP_ON_WORKER, TYPE_VIEW, HTTP_JSON,                         \
			.handler = &profiles_get, .cls = how_long, .arg = &(const struct api_route) \
		{                                                                                   \
			args, run                                                                   \
		}                                                                                   \
	}

#define INTAKE(path, args, flags, run)                                                                   \
	{                                                                                                \
		HTTP_POST, path, PUSH, HTTP_ON_WORKER, TYPE_INGEST, HTTP_JSON | (flags), &profiles_body, \
			&profiles_post, .cls = HTTP_CLASS_INTAKE, .arg = &(const struct api_route)       \
		{                                                                                        \
			args, run                                                                        \
		}                                                                                        \
	}

#define CHANGE(path, args, run) INTAKE(path, args, 0, run)

/* A call of a protobuf service that takes profiles. */
#define RPC_INTAKE(path, method)                                                                             \
	{                                                                                                    \
		HTTP_POST, path, PUSH, HTTP_ON_WORKER, TYPE_INGEST, HTTP_CONNECT, &profiles_body, &rpc_post, \
			.cls = HTTP_CLASS_INTAKE, .arg = &method                                             \
	}

/* One that asks; @how_long: its class. */
#define RPC_QUERY(path, scope, type, method, how_long)                                              \
	{                                                                                           \
		HTTP_POST, path, scope, HTTP_ON_WORKER, type, HTTP_CONNECT, &query_body, &rpc_post, \
			.cls = how_long, .arg = &method                                             \
	}

/* A call of Parca's ProfileStoreService. */
#define PARCA_STORE(call, method) RPC_INTAKE("/parca.profilestore.v1alpha1.ProfileStoreService/" call, method)

/* A call of querier.v1. */
#define QUERIER(call, method, how_long) \
	RPC_QUERY("/querier.v1.QuerierService/" call, READ, TYPE_VIEW, method, how_long)

/* A call of Parca's QueryService. */
#define PARCA_QUERY(call, method, how_long) \
	RPC_QUERY("/parca.query.v1alpha1.QueryService/" call, READ, TYPE_VIEW, method, how_long)

/* Pyroscope's DebuginfoService. */
#define DEBUGINFO(call, scope, method)                                                                     \
	{                                                                                                  \
		HTTP_POST, "/debuginfo.v1alpha1.DebuginfoService/" call, scope, HTTP_ON_WRITER, TYPE_PUSH, \
			HTTP_CONNECT, &push_call_body, &rpc_post, .cls = HTTP_CLASS_PUSH, .arg = &method   \
	}

/* Parca's DebuginfoService. */
#define PARCA_DEBUGINFO(call, method)                                                                \
	{                                                                                            \
		HTTP_POST, "/parca.debuginfo.v1alpha1.DebuginfoService/" call, PUSH, HTTP_ON_WRITER, \
			TYPE_PUSH, HTTP_CONNECT, &push_call_body, &rpc_post, .cls = HTTP_CLASS_PUSH, \
									     .arg = &method          \
	}

/* gRPC's server reflection. */
#define REFLECTION(version, method)                                                                    \
	{                                                                                              \
		HTTP_POST, "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo", READ, \
			HTTP_ON_THREAD, TYPE_STATUS, HTTP_CONNECT, .handler = &reflection_post,        \
								   .arg = &method                      \
	}

#define RANGE "query from to profile"
#define VIEW                                                                                           \
	RANGE " base base_from base_to base_profile normalise by label focus ignore hide show invert " \
	      "no_inlines wait"

const struct http_route server_routes[] = {
	ARTIFACT("debuginfo", RESOLVE_DEBUGINFO),
	ARTIFACT("executable", RESOLVE_EXECUTABLE),
	ARTIFACT("source/{path...}", RESOLVE_SOURCE),
	ARTIFACT("section/{name...}", RESOLVE_SECTION),
	{ HTTP_GET, "/metadata", READ, HTTP_ON_WORKER, TYPE_METADATA, .handler = &metadata_get,
	  .cls = HTTP_CLASS_METADATA },

	UPLOAD("debuginfo", STORE_DEBUGINFO),
	UPLOAD("executable", STORE_EXECUTABLE),
	UPLOAD("sources", STORE_SOURCES),
	REMOVAL("debuginfo", STORE_DEBUGINFO),
	REMOVAL("executable", STORE_EXECUTABLE),
	REMOVAL("sources", STORE_SOURCES),
	REMOVAL("source/{path...}", STORE_SOURCE),
	REMOVAL("section/{name...}", STORE_SECTION),
	REMOVAL("symtab", STORE_SYMTAB),
	DEBUGINFO("ShouldInitiateUpload", PUSH, debuginfo_should),
	DEBUGINFO("UploadFinished", PUSH, debuginfo_finished),
	/* Not on the threads of pushes, which readers could hold then. */
	RPC_QUERY("/debuginfo.v1alpha1.DebuginfoService/ListDebuginfo", READ, TYPE_PUSH, debuginfo_list,
		  HTTP_CLASS_METADATA),
	DEBUGINFO("DeleteDebuginfo", ADMIN, debuginfo_delete),
	{ HTTP_POST, "/debuginfo.v1alpha1.DebuginfoService/Upload/{id}", PUSH, HTTP_ON_THREAD, TYPE_PUSH,
	  HTTP_PREFIXED, .handler = &push_post, .cls = HTTP_CLASS_PUSH, .kind = STORE_DEBUGINFO },
	PARCA_DEBUGINFO("ShouldInitiateUpload", parca_should),
	PARCA_DEBUGINFO("InitiateUpload", parca_initiate),
	PARCA_DEBUGINFO("MarkUploadFinished", parca_finished),
	{ HTTP_POST, "/parca.debuginfo.v1alpha1.DebuginfoService/Upload", PUSH, HTTP_ON_THREAD, TYPE_PUSH,
	  HTTP_CONNECT, .handler = &parca_upload_post, .cls = HTTP_CLASS_PUSH, .kind = STORE_DEBUGINFO,
	  .arg = &parca_upload },
	/* The path has the secret that was given to a client with a token. */
	{ HTTP_PUT, SERVER_UPLOAD "{pass}", OPEN, HTTP_ON_THREAD, TYPE_PUSH, 0, .handler = &push_by_pass,
	  .cls = HTTP_CLASS_PUSH, .kind = STORE_DEBUGINFO },
	{ HTTP_POST, "/push/want", PUSH, HTTP_ON_WRITER, TYPE_PUSH, 0, &push_want_body, &push_want,
	  .cls = HTTP_CLASS_PUSH },
	{ HTTP_POST, "/push/signed", PUSH, HTTP_ON_WRITER, TYPE_PUSH, 0, &push_signed_body, &push_signed,
	  .cls = HTTP_CLASS_PUSH },
	{ HTTP_POST, "/push/signed/{upload}", PUSH, HTTP_ON_WRITER, TYPE_PUSH, 0, .handler = &push_signed_end,
	  .cls = HTTP_CLASS_PUSH },
	{ HTTP_POST, "/push/signed/{upload}/urls", PUSH, HTTP_ON_WRITER, TYPE_PUSH, 0,
	  .handler = &push_signed_urls, .cls = HTTP_CLASS_PUSH },
	{ HTTP_DELETE, "/push/signed/{upload}", PUSH, HTTP_ON_WRITER, TYPE_PUSH, 0,
	  .handler = &push_signed_drop, .cls = HTTP_CLASS_PUSH },

	{ HTTP_GET, "/buildid/{id}/symbolize", READ, HTTP_ON_WORKER, TYPE_SYMBOLIZE, BY_BUILD_ID,
	  .handler = &symbolize_get, .cls = HTTP_CLASS_SYMBOLIZE },
	PPROF("/buildid/{id}/symbolz", BY_BUILD_ID),
	PPROF("/buildid/{id}/pprof/symbol", BY_BUILD_ID),
	PPROF("/symbolz", 0),
	PPROF("/pprof/symbol", 0),
	SYMBOLIZE("/symbolize", 0, NULL),
	SYMBOLIZE("/buildid/{id}/symbolize", BY_BUILD_ID, NULL),
	SYMBOLIZE("/symbolicate/v5", 0, &ask_v5),
	SYMBOLIZE("/symbolz", 0, &ask_pprof),
	SYMBOLIZE("/pprof/symbol", 0, &ask_pprof),
	SYMBOLIZE("/buildid/{id}/symbolz", BY_BUILD_ID, &ask_pprof),
	SYMBOLIZE("/buildid/{id}/pprof/symbol", BY_BUILD_ID, &ask_pprof),

	CHANGE("/profiles", "*", api_post_profiles),
	CHANGE("/api/profiles/writeraw", "", api_post_parca),
	CHANGE("/profilestore/writeraw", "", api_post_parca),
	INTAKE("/ingest", "*", HTTP_PREFIXED, api_post_pyroscope),
	INTAKE("/v1development/profiles", "", HTTP_RPC_STATUS, api_post_otlp),
	RPC_INTAKE("/push.v1.PusherService/Push", push_v1_push),
	PARCA_STORE("WriteRaw", parca_write_raw),
	RPC_INTAKE("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
		   otlp_export),
	PARCA_STORE("WriteArrow", parca_write_arrow),
	VIEW_OF("/api/types", RANGE, api_types, HTTP_CLASS_QUERY),
	VIEW_OF("/api/labels", RANGE, api_labels, HTTP_CLASS_QUERY),
	VIEW_OF("/api/labels/{name}/values", RANGE, api_label_values, HTTP_CLASS_QUERY),
	VIEW_OF("/api/series", RANGE " step by one limit", api_series, HTTP_CLASS_QUERY),
	VIEW_OF("/api/profiles", RANGE " limit", api_profiles, HTTP_CLASS_QUERY),
	VIEW_OF("/api/flamegraph", VIEW " min_share", api_flamegraph, HTTP_CLASS_LONG_QUERY),
	VIEW_OF("/api/top", VIEW " sort limit", api_top, HTTP_CLASS_LONG_QUERY),
	VIEW_OF("/api/callers", VIEW " function binary file limit", api_callers, HTTP_CLASS_LONG_QUERY),
	VIEW_OF("/api/lines", VIEW " file function", api_lines, HTTP_CLASS_LONG_QUERY),
	VIEW_OF("/api/download", VIEW " format", api_download, HTTP_CLASS_LONG_QUERY),
	VIEW_OF("/api/binaries", RANGE " limit", api_binaries, HTTP_CLASS_QUERY),
	CHANGE("/api/binaries/{build_id}/retry", "", api_retry),
	{ HTTP_GET, "/api/openapi.json", READ, HTTP_ON_WORKER, TYPE_VIEW, HTTP_JSON, .handler = &profiles_get,
	  .cls = HTTP_CLASS_QUERY, .arg = &(const struct api_route){ "", api_openapi, .storeless = true } },
	{ HTTP_GET, "/api/targets", READ, HTTP_ON_WORKER, TYPE_VIEW, HTTP_JSON, .handler = &profiles_get,
	  .cls = HTTP_CLASS_QUERY, .arg = &(const struct api_route){ "", api_targets, .storeless = true } },

	QUERIER("ProfileTypes", querier_v1_profile_types, HTTP_CLASS_QUERY),
	QUERIER("LabelNames", querier_v1_label_names, HTTP_CLASS_QUERY),
	QUERIER("LabelValues", querier_v1_label_values, HTTP_CLASS_QUERY),
	QUERIER("Series", querier_v1_series, HTTP_CLASS_QUERY),
	QUERIER("SelectSeries", querier_v1_select_series, HTTP_CLASS_QUERY),
	QUERIER("SelectMergeStacktraces", querier_v1_select_merge_stacktraces, HTTP_CLASS_LONG_QUERY),
	QUERIER("SelectMergeProfile", querier_v1_select_merge_profile, HTTP_CLASS_LONG_QUERY),
	QUERIER("Diff", querier_v1_diff, HTTP_CLASS_LONG_QUERY),
	QUERIER("GetProfileStats", querier_v1_get_profile_stats, HTTP_CLASS_QUERY),
	QUERIER("AnalyzeQuery", querier_v1_analyze_query, HTTP_CLASS_QUERY),
	PARCA_QUERY("ProfileTypes", parca_v1_types, HTTP_CLASS_QUERY),
	PARCA_QUERY("Labels", parca_v1_labels, HTTP_CLASS_QUERY),
	PARCA_QUERY("Values", parca_v1_values, HTTP_CLASS_QUERY),
	PARCA_QUERY("QueryRange", parca_v1_range, HTTP_CLASS_QUERY),
	PARCA_QUERY("Query", parca_v1_query, HTTP_CLASS_LONG_QUERY),
	PARCA_QUERY("HasProfileData", parca_v1_has_data, HTTP_CLASS_QUERY),
	RPC_QUERY("/settings.v1.SettingsService/Get", READ, TYPE_VIEW, settings_v1_get, HTTP_CLASS_QUERY),
	RPC_QUERY("/capabilities.v1.FeatureFlagsService/GetFeatureFlags", READ, TYPE_VIEW,
		  capabilities_v1_get, HTTP_CLASS_QUERY),

	{ HTTP_GET, "/metrics", READ, HTTP_ON_WORKER, TYPE_METRICS, .handler = &metrics_get },
	{ HTTP_GET, "/healthz", OPEN, HTTP_ON_THREAD, TYPE_HEALTH, .handler = &health_get },
	{ HTTP_POST, "/grpc.health.v1.Health/Check", OPEN, HTTP_ON_WORKER, TYPE_HEALTH, HTTP_CONNECT,
	  &grpc_health_body, &rpc_post, .cls = HTTP_CLASS_STATUS, .arg = &grpc_health_check },
	REFLECTION("v1", reflection_v1),
	REFLECTION("v1alpha", reflection_v1alpha),
	{ HTTP_GET, "/readyz", OPEN, HTTP_ON_THREAD, TYPE_HEALTH, .handler = &ready_get },
	{ HTTP_GET, "/ready", OPEN, HTTP_ON_THREAD, TYPE_HEALTH, .handler = &ready_get },
	{ HTTP_GET, "/api/status", READ, HTTP_ON_WORKER, TYPE_STATUS, .handler = &status_get },
	{ HTTP_GET, "/api/senders", READ, HTTP_ON_WORKER, TYPE_STATUS, .handler = &senders_get },
	{ HTTP_GET, "/api/failures", READ, HTTP_ON_WORKER, TYPE_STATUS, .handler = &failures_get },
	{ HTTP_GET, "/", READ, HTTP_ON_THREAD, TYPE_PAGE, .handler = &page_get },
	{ HTTP_GET, "/web/{file...}", READ, HTTP_ON_THREAD, TYPE_PAGE, .handler = &page_get },

	/* After all others: the first segment of some is any. */
	LAYOUT("/_.debug/elf-buildid-sym-{id}/_.debug", RESOLVE_DEBUGINFO, HTTP_ANY_CASE, artifact_ssqp),
	LAYOUT("/{name}/elf-buildid-{id}/{file}", RESOLVE_EXECUTABLE, HTTP_ANY_CASE, artifact_ssqp),
	LAYOUT("/.build-id/{xx}/{rest}.debug", RESOLVE_DEBUGINFO, 0, artifact_tree),
	LAYOUT("/.build-id/{xx}/{rest}", RESOLVE_EXECUTABLE, 0, artifact_tree),
	LAYOUT("/{xx}/{rest}/debuginfo", RESOLVE_DEBUGINFO, HTTP_FIRST_IS_TWO, artifact_unified),
	LAYOUT("/{xx}/{rest}/executable", RESOLVE_EXECUTABLE, HTTP_FIRST_IS_TWO, artifact_unified),

	/* All other paths below these are refused with the paths there are. */
	{ 0, "/buildid/{rest...}", READ, HTTP_ON_THREAD, TYPE_OTHER, .handler = &artifact_other,
	  .cls = HTTP_CLASS_ARTIFACT },
	{ 0, "/api/{rest...}", READ, HTTP_ON_THREAD, TYPE_VIEW, HTTP_JSON, .handler = &profiles_other },
	{ 0, "/{service}/{call...}", READ, HTTP_ON_THREAD, TYPE_OTHER, HTTP_CONNECT | HTTP_FIRST_IS_SERVICE,
	  .handler = &connect_other },
	{ 0 },
};

const char *const server_types[N_TYPES + 1] = {
	[RESOLVE_DEBUGINFO] = "debuginfo",
	[RESOLVE_EXECUTABLE] = "executable",
	[RESOLVE_SOURCE] = "source",
	[RESOLVE_SECTION] = "section",
	[TYPE_METADATA] = "metadata",
	[TYPE_METRICS] = "metrics",
	[TYPE_HEALTH] = "health",
	[TYPE_STATUS] = "status",
	[TYPE_PAGE] = "page",
	[TYPE_PUSH] = "push",
	[TYPE_SYMBOLIZE] = "symbolize",
	[TYPE_INGEST] = "ingest",
	[TYPE_VIEW] = "view",
	[TYPE_OTHER] = "other",
};

/* The labels that elfutils' server has, and "store". */
const char *const server_results[] = { "file",         ".rpm archive", ".deb archive", ".ddeb archive",
				       ".ipk archive", "archive",      "made",         "archive fdcache",
				       "upstream",     "store",        "error",        NULL };
