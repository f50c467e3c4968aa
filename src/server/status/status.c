/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/status: the figures that the page shows, as JSON: the index, how far the scan is, requests, the cache,
 * other servers, the store. What failed is in failures.c.
 */
#include "server/json.h"
#include "server/push/push.h"

/*
 * Counting walks over the whole index, and whoever looks at the page asks every few seconds. So counting gets
 * this part of one worker's time at most, however large the index is and however many look.
 */
#define COUNT_PART   20
#define COUNT_MIN_MS 500

#define LATEST_PUSHES 8

static json_t *scan_figures(struct scan *scan)
{
	struct scan_progress p;
	json_t *j = json_object();
	int64_t now_ms = clock_mono_ms();

	scan_progress(scan, &p);
	json_object_set_new(j, "passive", json_boolean(p.passive));
	json_object_set_new(j, "walking", json_boolean(p.walking));
	json_object_set_new(j, "grooming", json_boolean(p.grooming));
	json_object_set_new(j, "ready", json_boolean(p.ready));
	json_object_set_new(j, "idle", json_boolean(scan_wait_idle(scan, 0)));
	json_object_set_new(j, "seen", json_number(p.n_seen));
	json_object_set_new(j, "files_done", json_number(p.n_files_done));
	json_object_set_new(j, "packages", json_number(p.n_packages));
	json_object_set_new(j, "packages_headers", json_number(p.n_packages_headers));
	json_object_set_new(j, "packages_deep", json_number(p.n_packages_deep));
	json_object_set_new(j, "bytes_total", json_number(p.bytes_total));
	json_object_set_new(j, "bytes_done", json_number(p.bytes_done));
	json_object_set_new(j, "failed", json_number(p.n_failed));
	json_object_set_new(j, "elapsed_ms", json_integer(now_ms - p.started_mono_ms));
	/* Ages instead of times: the browser's clock is another. */
	if (p.walked_mono_ms)
		json_object_set_new(j, "walked_ms_ago", json_integer(now_ms - p.walked_mono_ms));
	if (p.worked_mono_ms)
		json_object_set_new(j, "worked_ms_ago", json_integer(now_ms - p.worked_mono_ms));
	return j;
}

/* One connection for all who ask. Who comes while another counts takes what was counted before. */
static void count(struct server *s)
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

static bool is_fresh(struct server *s)
{
	bool fresh;

	pthread_mutex_lock(&s->counted.lock);
	fresh = s->counted.known &&
		clock_mono_ms() - s->counted.at_ms < MAX(s->counted.took_ms * COUNT_PART, COUNT_MIN_MS);
	pthread_mutex_unlock(&s->counted.lock);
	return fresh;
}

static json_t *index_figures(struct server *s)
{
	struct index_stats st;
	bool known;
	json_t *j;

	if (!is_fresh(s))
		count(s);
	pthread_mutex_lock(&s->counted.lock);
	known = s->counted.known;
	st = s->counted.stats;
	pthread_mutex_unlock(&s->counted.lock);
	if (!known)
		return json_null();
	j = json_object();
	json_object_set_new(j, "files", json_number(st.n_files));
	json_object_set_new(j, "packages", json_number(st.n_packages));
	json_object_set_new(j, "header_only", json_number(st.n_header_only));
	json_object_set_new(j, "scanned", json_number(st.n_scanned));
	json_object_set_new(j, "failed", json_number(st.n_failed));
	json_object_set_new(j, "build_ids", json_number(st.n_build_ids));
	json_object_set_new(j, "executables", json_number(st.n_executables));
	json_object_set_new(j, "debug_files", json_number(st.n_debug));
	json_object_set_new(j, "package_bytes", json_number(st.package_bytes));
	json_object_set_new(j, "map_bytes", json_number(st.map_bytes));
	json_object_set_new(j, "points_bytes", json_number(st.points_bytes));
	json_object_set_new(j, "db_bytes", json_number(st.db_bytes));
	return j;
}

static json_t *request_figures(struct server *s)
{
	struct metrics_outcomes o;
	json_t *j = json_object();

	metrics_outcomes(&o);
	for (unsigned i = 0; i < N_OUTCOMES; i++)
		json_object_set_new(j, metrics_outcome_names[i], json_number(o.n[i]));
	json_object_set_new(j, "bytes", json_number(o.bytes));
	json_object_set_new(j, "waiting", json_number(wait_count(&s->wait)));
	json_object_set_new(j, "workers", json_number(s->opts.workers));
	json_object_set_new(j, "workers_at_work", json_number(pool_busy(s->workers)));
	return j;
}

static json_t *cache_figures(struct cache *cache)
{
	struct cache_stats c;
	json_t *j = json_object();

	cache_stats(cache, &c);
	json_object_set_new(j, "bytes", json_number(c.bytes));
	json_object_set_new(j, "max_bytes", json_number(c.max_bytes));
	json_object_set_new(j, "files", json_number(c.n_files));
	json_object_set_new(j, "hits", json_number(c.n_hits));
	json_object_set_new(j, "misses", json_number(c.n_misses));
	json_object_set_new(j, "evicted", json_number(c.n_evicted));
	return j;
}

static json_t *upstream_figure(const struct net_server_state *s, struct arena *a)
{
	json_t *one = json_object();

	json_object_set_new(one, "url", json_lossy(net_url_shown(str_of(s->url), a)));
	json_object_set_new(one, "open", json_boolean(s->open));
	if (s->open)
		json_object_set_new(one, "again_s", json_integer(s->again_s));
	json_object_set_new(one, "slow", json_boolean(s->slow));
	json_object_set_new(one, "failures_in_a_row", json_number(s->n_failures));
	if (*s->message)
		json_object_set_new(one, "said", json_lossy(str_of(s->message)));
	json_object_set_new(one, "asked", json_number(s->n_asked));
	json_object_set_new(one, "found", json_number(s->n_found));
	json_object_set_new(one, "missing", json_number(s->n_missing));
	json_object_set_new(one, "failed", json_number(s->n_failed));
	json_object_set_new(one, "bytes", json_number(s->n_bytes));
	return one;
}

struct seeking {
	const char *url;
	struct arena *arena;
	json_t *found;
};

static void seek(void *arg, const struct net_server_state *s)
{
	struct seeking *k = arg;

	if (!k->found && strcmp(s->url, k->url) == 0)
		k->found = upstream_figure(s, k->arena);
}

/* Those that are to be asked, in their order, also before they were. */
static json_t *upstream_servers(struct server *s, struct arena *a)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->opts.n_upstreams; i++) {
		const struct net_server_state none = { .url = s->opts.upstreams[i], .message = "" };
		struct seeking k = { .url = none.url, .arena = a };

		net_each_server(s->opts.net, seek, &k);
		json_array_append_new(all, k.found ? k.found : upstream_figure(&none, a));
	}
	return all;
}

static json_t *upstream_figures(struct server *s, struct arena *a)
{
	struct resolve_upstream_stats st;
	json_t *j = json_object();

	resolve_upstream_stats(s->opts.upstream, &st);
	json_object_set_new(j, "asked", json_number(st.n_asked));
	json_object_set_new(j, "found", json_number(st.n_found));
	json_object_set_new(j, "missing", json_number(st.n_missing));
	json_object_set_new(j, "failed", json_number(st.n_failed));
	json_object_set_new(j, "remembered", json_number(st.n_remembered));
	json_object_set_new(j, "stored", json_number(st.n_stored));
	json_object_set_new(j, "not_stored", json_number(st.n_not_stored));
	json_object_set_new(j, "bytes", json_number(st.bytes));
	json_object_set_new(j, "servers", upstream_servers(s, a));
	return j;
}

static json_t *pushed_figure(const struct store_known *k)
{
	char hex[BUILD_ID_HEX_SIZE];
	json_t *one = json_object();

	json_object_set_new(one, "build_id", json_string(build_id_hex(&k->key.id, hex)));
	json_object_set_new(one, "kind", json_string(store_kind_name(k->key.kind)));
	json_object_set_new(one, "quality", json_string(store_quality_name(k->quality)));
	json_object_set_new(one, "file", json_lossy(k->file));
	json_object_set_new(one, "from", json_lossy(k->from));
	json_object_set_new(one, "size", json_number(k->size));
	json_object_set_new(one, "ms_ago", json_integer(MAX(clock_wall_s() - k->created, INT64_C(0)) * 1000));
	return one;
}

static json_t *store_json(struct server *s, struct arena *a)
{
	struct store_known *latest;
	struct store_figures f;
	json_t *j = json_object(), *list = json_array();
	size_t n;

	store_figures(s->opts.store, &f);
	json_object_set_new(j, "counted", json_boolean(f.all && f.used_known));
	json_object_set_new(j, "bytes", json_number(f.used));
	json_object_set_new(j, "quota", json_number(f.quota));
	json_object_set_new(
		j, "to_compress",
		json_pack("{s:I, s:I}", "objects", (json_int_t)f.n_waiting, "bytes", (json_int_t)f.waiting));
	for (unsigned i = 0; i < STORE_N_ORIGINS; i++) {
		json_t *one = json_object();

		json_object_set_new(one, "objects", json_number(f.n[i]));
		json_object_set_new(one, "bytes", json_number(f.bytes[i]));
		json_object_set_new(j, store_origin_name((enum store_origin)i), one);
	}
	store_latest(s->opts.store, STORE_PUSHED, LATEST_PUSHES, a, &latest, &n);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, pushed_figure(&latest[i]));
	json_object_set_new(j, "latest", list);
	json_object_set_new(j, "uploads", json_number(atomic_load(&s->push->n_uploads)));
	return j;
}

static json_t *profile_figures(struct profilestore *profiles)
{
	struct profilestore_stats st;
	json_t *j = json_object();

	profilestore_stats(profiles, &st);
	json_object_set_new(j, "profiles", json_number(st.n_profiles));
	json_object_set_new(j, "samples", json_number(st.n_samples));
	json_object_set_new(j, "series", json_number(st.n_series));
	json_object_set_new(j, "locations", json_number(st.n_locations));
	json_object_set_new(j, "unnamed", json_number(st.n_unnamed));
	json_object_set_new(j, "stacks", json_number(st.n_stacks));
	json_object_set_new(j, "functions", json_number(st.n_functions));
	json_object_set_new(j, "binaries", json_number(st.n_binaries));
	json_object_set_new(j, "bytes", json_number(st.data_size));
	json_object_set_new(j, "memory", json_number(st.metadata_size));
	json_object_set_new(j, "added", json_number(st.n_added));
	json_object_set_new(j, "duplicates", json_number(st.n_duplicates));
	json_object_set_new(j, "refused", json_number(st.n_refused));
	json_object_set_new(j, "expired", json_number(st.n_expired));
	json_object_set_new(j, "oldest", json_integer(st.oldest_ms));
	json_object_set_new(j, "latest", json_integer(st.latest_ms));
	return j;
}

void status_job(struct request *req)
{
	struct server *s = req->s;
	json_t *all = json_object();

	json_object_set_new(all, "version", json_string(LODE_VERSION));
	json_object_set_new(all, "uptime_ms", json_integer(clock_mono_ms() - s->started_mono_ms));
	json_object_set_new(all, "ready", json_boolean(atomic_load(&s->is_ready)));
	json_object_set_new(all, "connections", json_number(http_connections(s->http)));
	json_object_set_new(all, "requests", request_figures(s));
	if (s->opts.scan)
		json_object_set_new(all, "scan", scan_figures(s->opts.scan));
	if (s->opts.index_path)
		json_object_set_new(all, "index", index_figures(s));
	if (s->opts.upstream)
		json_object_set_new(all, "upstream", upstream_figures(s, &req->arena));
	if (s->opts.store)
		json_object_set_new(all, "store", store_json(s, &req->arena));
	if (s->opts.profiles)
		json_object_set_new(all, "profiles", profile_figures(s->opts.profiles));
	if (s->cache)
		json_object_set_new(all, "cache", cache_figures(s->cache));
	json_reply(req, all);
}
