/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/status: the figures of the page, as JSON: index, scan, requests, cache, other servers, store.
 * failures.c has the failures.
 */
#include "base/json.h"
#include "s3/s3.h"
#include "server/artifact/artifact.h"
#include "server/push/push.h"
#include "server/status/status.h"

/*
 * Counting reads the whole index, and each open page asks every few seconds. So counting gets at most this
 * part of the time of one worker, for any size of index and any number of pages.
 */
#define COUNT_PART   20
#define COUNT_MIN_MS 500

#define LATEST_PUSHES 8

static void scan_figures(struct json_writer *j, struct server *s, struct arena *a)
{
	struct scan *scan = s->opts.scan;
	struct scan_progress p;
	int64_t now_ms = clock_mono_ms();
	struct str why;

	scan_progress(scan, &p);
	why = str_of(p.unlisted);
	json_open_object(j, "scan");
	json_put_bool(j, "passive", p.passive);
	json_put_bool(j, "walking", p.walking);
	json_put_bool(j, "grooming", p.grooming);
	json_put_bool(j, "ready", p.ready);
	json_put_bool(j, "idle", scan_wait_idle(scan, 0));
	json_put_uint(j, "seen", p.n_seen);
	json_put_uint(j, "files_done", p.n_files_done);
	json_put_uint(j, "packages", p.n_packages);
	json_put_uint(j, "packages_headers", p.n_packages_headers);
	json_put_uint(j, "packages_deep", p.n_packages_deep);
	json_put_uint(j, "bytes_total", p.bytes_total);
	json_put_uint(j, "bytes_done", p.bytes_done);
	json_put_uint(j, "failed", p.n_failed);
	json_put_uint(j, "unlisted", p.n_unlisted);
	if (p.n_unlisted)
		json_put_str(j, "unlisted_why", s->opts.hide_archive ? server_hide_paths(a, why) : why);
	json_put_int(j, "elapsed_ms", now_ms - p.started_mono_ms);
	/* Ages instead of times: the browser's clock is another. */
	if (p.walked_mono_ms)
		json_put_int(j, "walked_ms_ago", now_ms - p.walked_mono_ms);
	if (p.worked_mono_ms)
		json_put_int(j, "worked_ms_ago", now_ms - p.worked_mono_ms);
	json_close(j);
}

/* One connection for all requests. While one request counts, others take the last count. */
static void index_count(struct server *s)
{
	static const struct index_options read_only = { .read_only = true };
	int64_t from_ms = clock_mono_ms();
	struct index_stats stats;
	struct err err;
	bool known;

	if (pthread_mutex_trylock(&s->index_lock) != 0)
		return;
	if (!s->index && index_open(s->opts.index_path, &read_only, &s->index, &err) < 0) {
		log_warn("server", "status: %s", err.text);
		s->index = NULL;
	}
	known = s->index && index_stats(s->index, &stats, &err) == 0;
	pthread_mutex_unlock(&s->index_lock);
	pthread_mutex_lock(&s->counted.lock);
	if (known)
		s->counted.stats = stats;
	s->counted.known = known;
	s->counted.at_ms = clock_mono_ms();
	s->counted.took_ms = s->counted.at_ms - from_ms;
	pthread_mutex_unlock(&s->counted.lock);
}

static bool count_is_fresh(struct server *s)
{
	bool fresh;

	pthread_mutex_lock(&s->counted.lock);
	fresh = s->counted.known &&
		clock_mono_ms() - s->counted.at_ms < MAX(s->counted.took_ms * COUNT_PART, COUNT_MIN_MS);
	pthread_mutex_unlock(&s->counted.lock);
	return fresh;
}

static void index_figures(struct json_writer *j, struct server *s)
{
	struct index_stats st;
	bool known;

	if (!count_is_fresh(s))
		index_count(s);
	pthread_mutex_lock(&s->counted.lock);
	known = s->counted.known;
	st = s->counted.stats;
	pthread_mutex_unlock(&s->counted.lock);
	if (!known) {
		json_put_null(j, "index");
		return;
	}
	json_open_object(j, "index");
	json_put_uint(j, "files", st.n_files);
	json_put_uint(j, "packages", st.n_packages);
	json_put_uint(j, "header_only", st.n_header_only);
	json_put_uint(j, "scanned", st.n_scanned);
	json_put_uint(j, "failed", st.n_failed);
	json_put_uint(j, "build_ids", st.n_build_ids);
	json_put_uint(j, "executables", st.n_executables);
	json_put_uint(j, "debug_files", st.n_debug);
	json_put_uint(j, "package_bytes", st.package_bytes);
	json_put_uint(j, "map_bytes", st.map_bytes);
	json_put_uint(j, "points_bytes", st.points_bytes);
	json_put_uint(j, "db_bytes", st.db_bytes);
	json_close(j);
}

static void request_figures(struct json_writer *j, struct server *s)
{
	struct http_outcomes o;

	http_outcomes(s->http_service, &o);
	json_open_object(j, "requests");
	for (unsigned i = 0; i < N_OUTCOMES; i++)
		json_put_uint(j, http_outcome_names[i], o.n[i]);
	json_put_uint(j, "bytes", o.bytes);
	json_put_uint(j, "waiting", wait_count(s->http_service));
	json_put_uint(j, "workers", pool_threads(s->workers) + pool_threads(s->queries));
	json_put_uint(j, "workers_at_work", pool_busy(s->workers) + pool_busy(s->queries));
	json_close(j);
}

static void memory_figures(struct json_writer *j, struct budget *memory)
{
	struct budget_stats st;

	budget_stats(memory, &st);
	json_open_object(j, "memory");
	json_put_uint(j, "total", st.total);
	json_open_object(j, "classes");
	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++) {
		const struct budget_class_stats *c = &st.classes[i];

		json_open_object(j, c->name);
		json_put_uint(j, "bytes", c->used);
		json_put_uint(j, "peak", c->peak);
		json_put_uint(j, "max", c->most);
		json_put_uint(j, "refused", c->n_refused);
		json_close(j);
	}
	json_close(j);
	json_close(j);
}

static void cache_figures(struct json_writer *j, struct cache *cache)
{
	struct cache_stats c;

	cache_stats(cache, &c);
	json_open_object(j, "cache");
	json_put_uint(j, "bytes", c.bytes);
	json_put_uint(j, "max_bytes", c.max_bytes);
	json_put_uint(j, "files", c.n_files);
	json_put_uint(j, "hits", c.n_hits);
	json_put_uint(j, "misses", c.n_misses);
	json_put_uint(j, "evicted", c.n_evicted);
	json_close(j);
}

static void upstream_figure(struct json_writer *one, const struct net_server_state *s, struct arena *a)
{
	json_open_object(one, NULL);
	json_put_str(one, "url", net_url_shown(str_of(s->url), a));
	json_put_bool(one, "open", s->open);
	if (s->open)
		json_put_int(one, "again_s", s->again_s);
	json_put_bool(one, "slow", s->slow);
	json_put_uint(one, "failures_in_a_row", s->n_failures);
	if (*s->message)
		json_put_str(one, "said", str_of(s->message));
	json_put_uint(one, "asked", s->n_asked);
	json_put_uint(one, "found", s->n_found);
	json_put_uint(one, "missing", s->n_missing);
	json_put_uint(one, "failed", s->n_failed);
	json_put_uint(one, "bytes", s->n_bytes);
	json_close(one);
}

struct seeking {
	struct json_writer *json;
	const char *url;
	struct arena *arena;
	bool found;
};

static void seek_server(void *arg, const struct net_server_state *s)
{
	struct seeking *k = arg;

	if (k->found || strcmp(s->url, k->url) != 0)
		return;
	upstream_figure(k->json, s, k->arena);
	k->found = true;
}

/* All configured servers, in their order, also those that were not asked yet. */
static void upstream_servers(struct json_writer *j, struct server *s, struct arena *a)
{
	json_open_array(j, "servers");
	for (size_t i = 0; i < s->opts.n_upstreams; i++) {
		const struct net_server_state none = { .url = s->opts.upstreams[i], .message = "" };
		struct seeking k = { .json = j, .url = none.url, .arena = a };

		net_each_server(s->opts.net, seek_server, &k);
		if (!k.found)
			upstream_figure(j, &none, a);
	}
	json_close(j);
}

static void upstream_figures(struct json_writer *j, struct server *s, struct arena *a)
{
	struct resolve_upstream_stats st;

	resolve_upstream_stats(s->opts.upstream, &st);
	json_open_object(j, "upstream");
	json_put_uint(j, "asked", st.n_asked);
	json_put_uint(j, "found", st.n_found);
	json_put_uint(j, "missing", st.n_missing);
	json_put_uint(j, "failed", st.n_failed);
	json_put_uint(j, "remembered", st.n_remembered);
	json_put_uint(j, "over_budget", st.n_over);
	json_put_uint(j, "stored", st.n_stored);
	json_put_uint(j, "not_stored", st.n_not_stored);
	json_put_uint(j, "bytes", st.bytes);
	upstream_servers(j, s, a);
	json_close(j);
}

static void bucket_figures(struct json_writer *j)
{
	struct s3_status st;

	if (!s3_shared_status(&st))
		return;
	json_open_object(j, "bucket");
	json_put_text(j, "endpoint", st.endpoint);
	json_put_uint(j, "done", st.n_done);
	json_put_uint(j, "missing", st.n_missing);
	json_put_uint(j, "failed", st.n_failed);
	json_put_uint(j, "received", st.received);
	json_put_uint(j, "memory", st.memory_size);
	json_put_uint(j, "disk", st.disk_size);
	json_put_bool(j, "failing", st.failing);
	if (st.failing) {
		json_put_int(j, "failing_s", MAX(clock_wall_s() - st.since_s, (int64_t)0));
		json_put_text(j, "said", st.message);
	}
	json_close(j);
}

static void pushed_figure(struct json_writer *one, const struct store_known *k)
{
	char hex[BUILD_ID_HEX_SIZE];

	json_open_object(one, NULL);
	json_put_text(one, "build_id", build_id_hex(&k->key.id, hex));
	json_put_text(one, "kind", store_kind_name(k->key.kind));
	json_put_text(one, "quality", store_quality_name(k->quality));
	json_put_str(one, "file", k->file);
	json_put_str(one, "from", k->from);
	json_put_uint(one, "size", k->size);
	json_put_int(one, "ms_ago", MAX(clock_wall_s() - k->created, INT64_C(0)) * 1000);
	json_close(one);
}

#define LATEST_REFUSED 20u

/* Pushes that wait for the bucket, and those that it did not take. */
static void held_json(struct json_writer *j, struct store *st, const struct store_figures *f, struct arena *a)
{
	struct store_object refused[LATEST_REFUSED];
	size_t n = store_refused(st, a, refused, LATEST_REFUSED);

	json_open_object(j, "held");
	json_put_uint(j, "pushes", f->n_held);
	json_put_uint(j, "bytes", f->hold_size);
	json_put_uint(j, "max", f->hold_max);
	json_put_uint(j, "refused", f->n_refused);
	json_open_array(j, "latest_refused");
	for (size_t i = 0; i < n; i++) {
		const struct store_meta *m = &refused[i].meta;

		json_open_object(j, NULL);
		json_put_str(j, "key", store_key_text(&refused[i].key, a));
		json_put_str(j, "by", store_owner(m));
		json_put_str(j, "owner", m->replaced_by);
		json_put_uint(j, "size", m->size);
		json_put_int(j, "ms_ago", MAX(clock_wall_s() - m->created, INT64_C(0)) * 1000);
		json_close(j);
	}
	json_close(j);
	json_close(j);
}

static void store_json(struct json_writer *j, struct server *s, struct arena *a)
{
	struct store_known *latest;
	struct store_figures f;
	size_t n;

	store_figures(s->opts.store, &f);
	json_open_object(j, "store");
	json_put_bool(j, "counted", f.all && f.used_known);
	json_put_uint(j, "bytes", f.used);
	json_put_uint(j, "quota", f.quota);
	json_put_text(j, "where", f.remote ? "bucket" : "folder");
	if (f.cache_max) {
		json_open_object(j, "cache");
		json_put_uint(j, "bytes", f.cache_size);
		json_put_uint(j, "max", f.cache_max);
		json_put_uint(j, "hits", f.n_cached);
		json_put_uint(j, "opened", f.n_opened);
		json_close(j);
	}
	if (f.hold_max || f.n_held || f.n_refused)
		held_json(j, s->opts.store, &f, a);
	json_open_object(j, "to_compress");
	json_put_uint(j, "objects", f.n_waiting);
	json_put_uint(j, "bytes", f.waiting);
	json_close(j);
	for (unsigned i = 0; i < STORE_N_ORIGINS; i++) {
		json_open_object(j, store_origin_name((enum store_origin)i));
		json_put_uint(j, "objects", f.n[i]);
		json_put_uint(j, "bytes", f.bytes[i]);
		json_close(j);
	}
	store_latest(s->opts.store, STORE_PUSHED, LATEST_PUSHES, a, &latest, &n);
	json_open_array(j, "latest");
	for (size_t i = 0; i < n; i++)
		pushed_figure(j, &latest[i]);
	json_close(j);
	json_put_uint(j, "uploads", atomic_load(&s->push->n_uploads));
	json_close(j);
}

static void profile_figures(struct json_writer *j, struct profilestore *profiles)
{
	struct profilestore_stats st;

	profilestore_stats(profiles, &st);
	json_open_object(j, "profiles");
	json_put_uint(j, "profiles", st.n_profiles);
	json_put_uint(j, "samples", st.n_samples);
	json_put_uint(j, "series", st.n_series);
	json_put_uint(j, "locations", st.n_locations);
	json_put_uint(j, "unnamed", st.n_unnamed);
	json_put_uint(j, "stacks", st.n_stacks);
	json_put_uint(j, "functions", st.n_functions);
	json_put_uint(j, "binaries", st.n_binaries);
	json_put_uint(j, "bytes", st.data_size);
	json_put_uint(j, "memory", st.metadata_size);
	json_put_uint(j, "added", st.n_added);
	json_put_uint(j, "duplicates", st.n_duplicates);
	json_put_uint(j, "refused", st.n_refused);
	json_put_uint(j, "expired", st.n_expired);
	json_put_int(j, "oldest", st.oldest_ms);
	json_put_int(j, "latest", st.latest_ms);
	json_put_uint(j, "set_aside", st.n_set_aside);
	if (st.n_set_aside)
		json_put_text(j, "damage", st.set_aside_why);
	json_put_uint(j, "lost", st.n_lost);
	json_put_uint(j, "repaired_pages", st.n_mended);
	json_put_uint(j, "damaged_pages", st.n_unmended);
	if (st.n_unmended)
		json_put_text(j, "damaged_why", st.unmended_why);
	json_close(j);
}

static enum http_next status_run(struct request *req)
{
	struct server *s = req->s;
	struct buf out = { 0 };
	struct json_writer json = { .out = &out, .escape_slash = true }, *j = &json;

	json_open_object(j, NULL);
	json_put_text(j, "version", LODE_VERSION);
	json_put_int(j, "uptime_ms", clock_mono_ms() - s->started_mono_ms);
	json_put_bool(j, "ready", atomic_load(&s->is_ready));
	json_put_uint(j, "connections", http_connections(s->http));
	request_figures(j, s);
	if (s->opts.memory)
		memory_figures(j, s->opts.memory);
	if (s->opts.scan)
		scan_figures(j, s, &req->arena);
	if (s->opts.index_path)
		index_figures(j, s);
	if (s->opts.upstream)
		upstream_figures(j, s, &req->arena);
	bucket_figures(j);
	if (s->opts.store)
		store_json(j, s, &req->arena);
	if (s->opts.profiles)
		profile_figures(j, s->opts.profiles);
	else if (s->opts.profiles_why)
		json_put_text(j, "profiles_failed", s->opts.profiles_why);
	if (s->cache)
		cache_figures(j, s->cache);
	json_close(j);
	request_reply_body(req, 200, &out, "application/json", true);
	return HTTP_REPLY;
}

const struct http_handler status_get = { .run = status_run };
