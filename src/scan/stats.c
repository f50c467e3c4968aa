/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan's metrics. The first families have the names that dashboards and scripts for elfutils' debuginfod
 * poll; docs/protocol.md has the meaning of each here.
 */
#include "scan/internal.h"

static const struct metric_family work_total = { "thread_work_total",
						 "Work items done, by the role of the thread.",
						 METRIC_COUNTER, "role", NULL };
static const struct metric_family work_pending = { "thread_work_pending", "Work items queued, by role.",
						   METRIC_GAUGE, "role", NULL };
static const struct metric_family busy = { "thread_busy", "Busy threads, by role.", METRIC_GAUGE, "role",
					   NULL };
static const struct metric_family scanned_files = { "scanned_files_total", "Files scanned, by kind.",
						    METRIC_COUNTER, "source", NULL };
static const struct metric_family scanned_bytes = { "scanned_bytes_total",
						    "Bytes of the files scanned, by kind.", METRIC_COUNTER,
						    "source", NULL };
static const struct metric_family found_debug = { "found_debuginfo_total", "Debug files found.",
						  METRIC_COUNTER, "source", NULL };
static const struct metric_family found_executable = { "found_executable_total", "Executables found.",
						       METRIC_COUNTER, "source", NULL };
static const struct metric_family groomed = { "groomed_total", "Files compared with the disk while grooming.",
					      METRIC_COUNTER, "decision", NULL };
static const struct metric_family errors = {
	"lode_scan_failures_total", "Files and packages that could not be scanned, each try counted.",
	METRIC_COUNTER, "", NULL
};
static const struct metric_family idle = { "lode_scan_idle", "1: all files that were found are scanned.",
					   METRIC_GAUGE, "", NULL };

static const struct metric_family unlisted = {
	"lode_scan_unlisted", "Folders and buckets that could not be listed; 1 more: the index lacks files.",
	METRIC_GAUGE, "", NULL
};

static const char *const role_names[] = {
	[SCAN_ROLE_SCAN] = "scan", [SCAN_ROLE_WALK] = "traverse", [SCAN_ROLE_GROOM] = "groom"
};

void stats_busy(enum scan_role role, bool on)
{
	metric_add(metric_get(&busy, role_names[role]), on ? 1 : -1);
	if (!on)
		metric_count(&work_total, role_names[role]);
}

/* elfutils' words: "file", ".deb archive". @source comes from file names, so only known endings are used, and
 * "other archive". */
static const char *source_name(const struct change *c)
{
	static const struct {
		struct str suffix;
		const char *name;
	} kinds[] = {
		{ STR(".rpm"), ".rpm archive" },       { STR(".deb"), ".deb archive" },
		{ STR(".ddeb"), ".ddeb archive" },     { STR(".ipk"), ".ipk archive" },
		{ STR(".tar.xz"), ".tar.xz archive" }, { STR(".tar.zst"), ".tar.zst archive" },
		{ STR(".tar.gz"), ".tar.gz archive" }, { STR(".tar.bz2"), ".tar.bz2 archive" },
		{ STR(".tar"), ".tar archive" },       { STR(".cpio"), ".cpio archive" },
		{ STR(".zip"), ".zip archive" },
	};

	if (c->file.kind == INDEX_PLAIN)
		return "file";
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_ends(c->file.path, kinds[i].suffix))
			return kinds[i].name;
	return "other archive";
}

void stats_committed(const struct change *c)
{
	const char *source = source_name(c);
	const struct index_artifact *list = c->kind == CHANGE_MAP ? c->deep->artifacts : c->artifacts;
	size_t n = c->kind == CHANGE_MAP ? c->deep->n_artifacts : c->n_artifacts;

	switch (c->kind) {
	case CHANGE_FAIL:
		metric_count(&errors);
		break;
	case CHANGE_PUT:
		/* A package counts after its deep pass. */
		if (c->file.kind == INDEX_PACKAGE)
			break;
		__attribute__((fallthrough));
	case CHANGE_MAP:
		metric_count(&scanned_files, source);
		metric_add(metric_get(&scanned_bytes, source), (int64_t)c->file.size);
		for (size_t i = 0; i < n; i++) {
			if (list[i].flags & ELF_IS_DEBUG)
				metric_count(&found_debug, source);
			if (list[i].flags & ELF_IS_EXECUTABLE)
				metric_count(&found_executable, source);
		}
		break;
	default:
		break;
	}
}

void stats_groomed(bool stale)
{
	metric_count(&groomed, stale ? "stale" : "fresh");
}

void stats_set(size_t n_pending, bool is_idle, unsigned n_unlisted)
{
	metric_set(metric_get(&work_pending, "scan"), (int64_t)n_pending);
	metric_set(metric_get(&idle), is_idle);
	metric_set(metric_get(&unlisted), n_unlisted);
	for (unsigned role = 0; role < ARRAY_SIZE(role_names); role++) {
		metric_add(metric_get(&busy, role_names[role]), 0);
		metric_add(metric_get(&work_total, role_names[role]), 0);
	}
}
