/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/status: what the page shows, as JSON: the index' figures, the scan's progress, the cache, what failed
 * and why.
 */
#include "server/internal.h"

#include <jansson.h>
#include <stdlib.h>

#define MAX_FAILURES 100u

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* File names are bytes; what is not UTF-8 in them is shown as "?". */
static json_t *text(struct arena *a, struct str s)
{
	json_t *j = json_stringn(s.p, s.size);
	char *clean;

	if (j)
		return j;
	clean = arena_strdup(a, s);
	for (size_t i = 0; i < s.size; i++)
		if ((unsigned char)clean[i] >= 0x80)
			clean[i] = '?';
	return json_stringn(clean, s.size);
}

static json_t *scan_figures(struct scan *scan)
{
	struct scan_progress p;
	json_t *j = json_object();

	scan_progress(scan, &p);
	json_object_set_new(j, "walking", json_boolean(p.walking));
	json_object_set_new(j, "grooming", json_boolean(p.grooming));
	json_object_set_new(j, "ready", json_boolean(p.ready));
	json_object_set_new(j, "seen", number(p.n_seen));
	json_object_set_new(j, "files_done", number(p.n_files_done));
	json_object_set_new(j, "packages", number(p.n_packages));
	json_object_set_new(j, "packages_headers", number(p.n_packages_headers));
	json_object_set_new(j, "packages_deep", number(p.n_packages_deep));
	json_object_set_new(j, "bytes_total", number(p.bytes_total));
	json_object_set_new(j, "bytes_done", number(p.bytes_done));
	json_object_set_new(j, "failed", number(p.n_failed));
	json_object_set_new(j, "elapsed_ms", json_integer(clock_mono_ms() - p.started_mono_ms));
	return j;
}

static json_t *index_figures(struct index *ix)
{
	struct index_stats st;
	struct err err;
	json_t *j;

	if (index_stats(ix, &st, &err) < 0)
		return json_null();
	j = json_object();
	json_object_set_new(j, "files", number(st.n_files));
	json_object_set_new(j, "packages", number(st.n_packages));
	json_object_set_new(j, "header_only", number(st.n_header_only));
	json_object_set_new(j, "scanned", number(st.n_scanned));
	json_object_set_new(j, "failed", number(st.n_failed));
	json_object_set_new(j, "build_ids", number(st.n_build_ids));
	json_object_set_new(j, "executables", number(st.n_executables));
	json_object_set_new(j, "debug_files", number(st.n_debug));
	json_object_set_new(j, "package_bytes", number(st.package_bytes));
	json_object_set_new(j, "map_bytes", number(st.map_bytes));
	json_object_set_new(j, "points_bytes", number(st.points_bytes));
	json_object_set_new(j, "db_bytes", number(st.db_bytes));
	return j;
}

static void add_failures(struct request *req, struct index *ix, enum index_kind kind, json_t *list)
{
	struct index_file *files;
	struct err err;
	size_t n;

	if (index_list(ix, kind, INDEX_FAILED, 0, MAX_FAILURES, &req->arena, &files, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n && json_array_size(list) < MAX_FAILURES; i++) {
		bool hide = req->s->opts.hide_archive;
		struct str path = hide ? path_basename(files[i].path) : files[i].path;
		struct str reason = hide ? reply_hide_paths(&req->arena, files[i].reason) : files[i].reason;
		json_t *one = json_object();

		json_object_set_new(one, "path", text(&req->arena, path));
		json_object_set_new(one, "reason", text(&req->arena, reason));
		json_object_set_new(one, "tries", number(files[i].tries));
		json_object_set_new(one, "next_try", json_integer(files[i].next_try_s));
		json_array_append_new(list, one);
	}
}

/* One connection for all status requests; they are few. */
static void add_index(struct request *req, json_t *all)
{
	static const struct index_options read_only = { .read_only = true };
	struct server *s = req->s;
	json_t *failures = json_array();
	struct err err;

	pthread_mutex_lock(&s->index_lock);
	if (!s->index && index_open(s->opts.index_path, &read_only, &s->index, &err) < 0) {
		log_warn("server", "status: %s", err.text);
		s->index = NULL;
	}
	if (s->index) {
		json_object_set_new(all, "index", index_figures(s->index));
		add_failures(req, s->index, INDEX_PACKAGE, failures);
		add_failures(req, s->index, INDEX_PLAIN, failures);
	}
	pthread_mutex_unlock(&s->index_lock);
	json_object_set_new(all, "failures", failures);
}

static json_t *cache_figures(struct cache *cache)
{
	struct cache_stats c;
	json_t *j = json_object();

	cache_stats(cache, &c);
	json_object_set_new(j, "bytes", number(c.bytes));
	json_object_set_new(j, "max_bytes", number(c.max_bytes));
	json_object_set_new(j, "files", number(c.n_files));
	json_object_set_new(j, "hits", number(c.n_hits));
	json_object_set_new(j, "misses", number(c.n_misses));
	return j;
}

void status_job(struct request *req)
{
	struct server *s = req->s;
	json_t *all = json_object();
	struct buf body = { 0 };
	char *dumped;

	json_object_set_new(all, "version", json_string(LODE_VERSION));
	json_object_set_new(all, "uptime_ms", json_integer(clock_mono_ms() - s->started_mono_ms));
	json_object_set_new(all, "ready", json_boolean(atomic_load(&s->is_ready)));
	json_object_set_new(all, "connections", number(http_connections(s->http)));
	if (s->opts.scan)
		json_object_set_new(all, "scan", scan_figures(s->opts.scan));
	if (s->opts.index_path)
		add_index(req, all);
	if (s->cache)
		json_object_set_new(all, "cache", cache_figures(s->cache));
	dumped = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	body.p = (uint8_t *)dumped;
	body.size = body.room = strlen(dumped);
	req->bytes = body.size;
	req->status = 200;
	req->result = "made";
	req->reply = reply_body(s, &body, "application/json", true);
}
