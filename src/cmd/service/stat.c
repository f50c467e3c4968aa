/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode stat: the size of the index, and the files whose last scan failed.
 */
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include "cmd/service/service.h"
#include "profilestore/salvage.h"

/* With less room SQLite's next batch may not fit. The index cannot record a full disk, so this command checks
 * for one. */
#define DISK_FULL MIB(16)

/* Bytes that the service can still write to its data directory; UINT64_MAX: not known. */
static uint64_t room_left(const char *data)
{
	struct statvfs vfs;

	return statvfs(data, &vfs) == 0 ? (uint64_t)vfs.f_bavail * vfs.f_frsize : UINT64_MAX;
}

static void print_room(uint64_t left)
{
	char a[32];

	if (left == UINT64_MAX)
		return;
	printf("room on disk   %s", size_text(left, a));
	if (left < DISK_FULL)
		printf(": the disk is full; new files cannot be indexed until there is room, and are scanned "
		       "again then");
	printf("\n");
}

static void print_set_aside(const char *data)
{
	AUTO(mem_freep) char *dir = mem_printf("%s/profiles", data);
	struct salvage_list l;

	salvage_listed(dir, &l);
	if (!l.n)
		return;
	printf("set aside      %u damaged database%s of profiles, or pages of one, in ", l.n,
	       l.n == 1 ? "" : "s");
	print_text(stdout, str_of(dir));
	printf(": ");
	print_text(stdout, str_of(l.reason));
	printf("\n");
}

static void print_scan_failure(const struct failure *f)
{
	time_t next = (time_t)f->next_try_s;
	char when[64] = "when the file changes";
	struct tm tm;

	if (next && localtime_r(&next, &tm))
		strftime(when, sizeof(when), "at %Y-%m-%d %H:%M:%S", &tm);
	printf("  ");
	print_text(stdout, f->path);
	printf("\n    ");
	print_text(stdout, f->reason);
	printf("\n    tried %lld times; the next try is %s\n", (long long)f->tries, when);
}

static void print_stat_text(const char *data, const struct index_stats *st, uint64_t left,
			    const struct failures *failures)
{
	char a[32], b[32];

	printf("state          ");
	print_text(stdout, str_of(data));
	printf("\nfiles          %llu\n", (unsigned long long)st->n_files);
	printf("packages       %llu, %s: %llu decoded, %llu by their headers alone, %llu failed\n",
	       (unsigned long long)st->n_packages, size_text(st->package_bytes, a),
	       (unsigned long long)st->n_scanned, (unsigned long long)st->n_header_only,
	       (unsigned long long)st->n_failed);
	printf("build IDs      %llu: %llu executables, %llu debug files\n",
	       (unsigned long long)st->n_build_ids, (unsigned long long)st->n_executables,
	       (unsigned long long)st->n_debug);
	printf("index          %s, of this package maps %s\n", size_text(st->db_bytes, a),
	       size_text(st->map_bytes, b));
	printf("resume points  %s", size_text(st->points_bytes, a));
	if (st->package_bytes)
		printf(", %.2f %% of the packages",
		       100.0 * (double)st->points_bytes / (double)st->package_bytes);
	printf("\n");
	print_set_aside(data);
	print_room(left);
	printf("failures       %llu\n", (unsigned long long)failures->n);
	for (size_t i = 0; i < failures->n_listed; i++)
		print_scan_failure(&failures->v[i]);
}

static int print_stat_json(const char *data, const struct index_stats *st, uint64_t left,
			   const struct failures *failures)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_text(&j, "data", data);
	json_put_uint(&j, "files", st->n_files);
	json_put_uint(&j, "packages", st->n_packages);
	json_put_uint(&j, "packages_scanned", st->n_scanned);
	json_put_uint(&j, "packages_header_only", st->n_header_only);
	json_put_uint(&j, "failed", st->n_failed);
	json_put_uint(&j, "build_ids", st->n_build_ids);
	json_put_uint(&j, "executables", st->n_executables);
	json_put_uint(&j, "debug_files", st->n_debug);
	json_put_uint(&j, "package_bytes", st->package_bytes);
	json_put_uint(&j, "index_bytes", st->db_bytes);
	json_put_uint(&j, "map_bytes", st->map_bytes);
	json_put_uint(&j, "points_bytes", st->points_bytes);
	json_put_int(&j, "free_bytes", left == UINT64_MAX ? -1 : (int64_t)left);
	json_put_bool(&j, "disk_full", left < DISK_FULL);
	failures_put(&j, failures);
	json_close(&j);
	return json_print_end(&text);
}

static int stat_data(const struct settings *s, const char *data)
{
	AUTO(mem_freep) char *path = mem_printf("%s/index.sqlite", data);
	const struct index_options opts = { .read_only = true };
	const struct failures_query all = { .max = SIZE_MAX };
	struct index_stats st = { 0 };
	struct index *ix = NULL;
	AUTO(failures_done) struct failures failures = { 0 };
	struct err err = { 0 };
	uint64_t left = room_left(data);
	int r, status = EXIT_DONE;

	if (access(path, F_OK) != 0) {
		err_set(&err, ERR_IO,
			"%s: there is no index; lode scan or lode serve makes one, or give --data DIR", data);
		return tell_error("stat", &err);
	}
	r = index_open(path, &opts, &ix, &err);
	if (r == 0)
		r = index_stats(ix, &st, &err);
	if (r == 0)
		r = failures_collect(ix, &all, &failures, &err);
	index_close(ix);
	if (r < 0)
		return tell_error("stat", &err);
	if (s->json)
		status = print_stat_json(data, &st, left, &failures);
	else
		print_stat_text(data, &st, left, &failures);
	return status;
}

static int run_stat(struct settings *s)
{
	AUTO(mem_freep) char *data = NULL;
	struct err err = { 0 };

	data = data_dir(s->data, &err);
	return data ? stat_data(s, data) : tell_error("stat", &err);
}

const struct command command_stat = {
	.name = "stat",
	.args = "",
	.summary = "print the size of the index, and the files that failed, with reasons",
	.examples = "  lode stat\n  lode stat --json --data /var/lib/lode\n",
	.groups = { &group_state, &group_output },
	.configured = true,
	.own_size = sizeof(struct service_settings),
	.run = run_stat,
};
