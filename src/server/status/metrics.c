/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of the server, and /metrics.
 *
 * There are two vocabularies. The families of elfutils' server come first and keep their names and labels,
 * because dashboards and scripts poll them. Those scripts search for a name anywhere in a line and take the
 * last word as the value. So `ready` must occur in one line only, without HELP and TYPE, and in no other
 * name or text. Our families are called lode_* and have the form that Prometheus documents.
 */
#include "base/metrics.h"
#include "s3/s3.h"
#include "server/artifact/artifact.h"
#include "server/intake/senders.h"
#include "server/push/push.h"
#include "server/scrape/scrape.h"
#include "server/status/status.h"

static const struct metric_family connections = { "lode_http_connections", "Open connections.", METRIC_GAUGE,
						  "", NULL };
static const struct metric_family waiting = { "lode_http_waiting",
					      "Requests that wait for a worker or for bytes.", METRIC_GAUGE,
					      "", NULL };
static const struct metric_family worker_queue = { "lode_worker_queue", "Tasks that wait for a worker.",
						   METRIC_GAUGE, "", NULL };
static const struct metric_family bucket_cache = { "lode_s3_cache_bytes",
						   "Bytes of objects that are kept, in memory and on disk.",
						   METRIC_GAUGE, "where", NULL };
static const struct metric_family workers_waiting = { "lode_workers_waiting",
						      "Tasks that wait for object storage, without a worker.",
						      METRIC_GAUGE, "", NULL };
static const struct metric_family workers_at_work = { "lode_workers_at_work", "Workers that run a task.",
						      METRIC_GAUGE, "", NULL };
static const struct metric_family decoded = { "lode_artifacts_decoded_total",
					      "Artifacts decoded from packages, by outcome.", METRIC_COUNTER,
					      "outcome", NULL };
static const struct metric_family decoded_bytes = { "lode_artifacts_decoded_bytes_total",
						    "Bytes of decoded artifacts.", METRIC_COUNTER, "", NULL };
static const struct metric_family cache_bytes = { "lode_cache_bytes",
						  "Bytes of disk that the artifact cache uses.", METRIC_GAUGE,
						  "", NULL };
static const struct metric_family cache_max = { "lode_cache_max_bytes",
						"Bytes of disk that the artifact cache may use.",
						METRIC_GAUGE, "", NULL };
static const struct metric_family cache_files = { "lode_cache_files", "Artifacts in the cache.", METRIC_GAUGE,
						  "", NULL };
static const struct metric_family store_bytes = { "lode_store_bytes",
						  "Bytes of disk that the store and unfinished uploads use.",
						  METRIC_GAUGE, "", NULL };
static const struct metric_family store_to_compress = {
	"lode_store_to_compress_bytes", "Bytes of pushed objects that are not compressed yet.", METRIC_GAUGE,
	"", NULL
};
static const struct metric_family uploads = { "lode_uploads", "Uploads in progress.", METRIC_GAUGE, "",
					      NULL };
static const struct metric_family cache_ops = { "lode_cache_operations",
						"Lookups and evictions of the artifact cache, by operation.",
						METRIC_GAUGE, "operation", NULL };

static const struct metric_family upstream_fetches = { "lode_upstream_fetches",
						       "Fetches from other servers, by outcome.",
						       METRIC_GAUGE, "outcome", NULL };
static const struct metric_family upstream_remembered = { "lode_upstream_remembered",
							  "Requests answered from the miss cache.",
							  METRIC_GAUGE, "", NULL };
static const struct metric_family upstream_over = {
	"lode_upstream_over_budget", "Requests above the budget of questions to other servers.", METRIC_GAUGE,
	"", NULL
};
static const struct metric_family upstream_stored = {
	"lode_upstream_stored", "Fetched files that were stored or not stored, by outcome.", METRIC_GAUGE,
	"outcome", NULL
};
static const struct metric_family upstream_bytes = { "lode_upstream_bytes",
						     "Bytes of files fetched from other servers.",
						     METRIC_GAUGE, "", NULL };
static const struct metric_family upstream_open = {
	"lode_upstream_breaker_open", "1: the breaker of this server is open, it is not asked for a while.",
	METRIC_GAUGE, "server", NULL
};
static const struct metric_family upstream_asked = { "lode_upstream_requests",
						     "Requests to this server, by outcome.", METRIC_GAUGE,
						     "server,outcome", NULL };

static const struct metric_family symbolize_tables = {
	"lode_symbolize_tables", "Symbol tables that were not mapped when they were needed, by origin.",
	METRIC_GAUGE, "outcome", NULL
};
static const struct metric_family symbolize_wanted = {
	"lode_symbolize_wanted", "Symbol tables that requests needed: hit, it was mapped; miss, it was not.",
	METRIC_GAUGE, "outcome", NULL
};
static const struct metric_family symbolize_bytes = { "lode_symbolize_bytes",
						      "Bytes of mapped symbol tables.", METRIC_GAUGE, "",
						      NULL };
static const struct metric_family symbolize_flights = { "lode_symbolize_flights",
							"Symbol tables that are being built or waited for.",
							METRIC_GAUGE, "", NULL };

static const struct metric_family profiles_taken = { "lode_profiles_total", "Received profiles, by outcome.",
						     METRIC_GAUGE, "outcome", NULL };
static const struct metric_family profile_labels = {
	"lode_profile_labels_total", "Labels of received profiles that were made to fit, or left out.",
	METRIC_GAUGE, "outcome", NULL
};
static const struct metric_family profiles_kept = { "lode_profiles", "Stored profiles.", METRIC_GAUGE, "",
						    NULL };
static const struct metric_family profiles_samples = { "lode_profiles_samples", "Samples of stored profiles.",
						       METRIC_GAUGE, "", NULL };
static const struct metric_family profiles_series = { "lode_profiles_series",
						      "Series: a type of profiles and a set of labels.",
						      METRIC_GAUGE, "", NULL };
static const struct metric_family profiles_locations = {
	"lode_profiles_locations", "Addresses of binaries in profiles, with and without a name.",
	METRIC_GAUGE, "names", NULL
};
static const struct metric_family profiles_stacks = { "lode_profiles_stacks",
						      "Distinct stacks of stored profiles.", METRIC_GAUGE, "",
						      NULL };
static const struct metric_family profiles_bytes = {
	"lode_profiles_bytes", "Bytes of stored profiles on disk, and of their tables in memory.",
	METRIC_GAUGE, "where", NULL
};
static const struct metric_family profiles_damaged = {
	"lode_profiles_damaged",
	"Damage of the profiles' database found since the start: profiles lost, pages repaired, pages that "
	"stay until the "
	"next start.",
	METRIC_GAUGE, "what", NULL
};
static const struct metric_family profiles_queue = {
	"lode_profiles_queue_bytes",
	"Bytes of bodies that are being received, and of profiles that wait to be written.", METRIC_GAUGE,
	"what", NULL
};

static const struct metric_family memory_bytes = { "lode_memory_bytes",
						   "Bytes of the memory budget that are granted, by class.",
						   METRIC_GAUGE, "class", NULL };
static const struct metric_family memory_max = { "lode_memory_max_bytes",
						 "Bytes of the memory budget, of all classes together.",
						 METRIC_GAUGE, "", NULL };
static const struct metric_family memory_refused = {
	"lode_memory_refused_total", "Grants of the memory budget that were refused, by class.",
	METRIC_COUNTER, "class", NULL
};

void metrics_artifact_decoded(uint64_t bytes, bool failed)
{
	metric_count(&decoded, failed ? "failed" : "whole");
	metric_add(metric_get(&decoded_bytes), (int64_t)bytes);
}

static void collect_upstream_server(void *arg, const struct net_server_state *s)
{
	struct arena a;
	const char *url;

	arena_init(&a);
	url = net_url_shown(str_of(s->url), &a).p;
	metric_set(metric_get(&upstream_open, url), s->open);
	metric_set(metric_get(&upstream_asked, url, "found"), (int64_t)s->n_found);
	metric_set(metric_get(&upstream_asked, url, "missing"), (int64_t)s->n_missing);
	metric_set(metric_get(&upstream_asked, url, "failed"), (int64_t)s->n_failed);
	arena_done(&a);
}

static void collect_store(struct server *s)
{
	struct store_figures f;
	uint64_t bytes;

	store_figures(s->opts.store, &f);
	metric_set(metric_get(&store_to_compress), (int64_t)f.waiting);
	metric_set(metric_get(&uploads), atomic_load(&s->push->n_uploads));
	if (store_usage(s->opts.store, &bytes))
		metric_set(metric_get(&store_bytes), (int64_t)bytes);
}

static void collect_symbolizer(struct server *s)
{
	struct tables_stats st;

	tables_stats(s->opts.tables, &st);
	metric_set(metric_get(&symbolize_tables, "made"), (int64_t)st.n_made);
	metric_set(metric_get(&symbolize_tables, "stored"), (int64_t)st.n_from_store);
	metric_set(metric_get(&symbolize_tables, "replaced"), (int64_t)st.n_replaced);
	metric_set(metric_get(&symbolize_tables, "failed"), (int64_t)st.n_failed);
	metric_set(metric_get(&symbolize_wanted, "hit"), (int64_t)st.n_hits);
	metric_set(metric_get(&symbolize_wanted, "miss"),
		   (int64_t)(st.n_wanted - MIN(st.n_hits, st.n_wanted)));
	metric_set(metric_get(&symbolize_bytes), (int64_t)st.tables_size);
	metric_set(metric_get(&symbolize_flights), st.n_builds);
}

static void collect_upstream(struct server *s)
{
	struct resolve_upstream_stats st;

	resolve_upstream_stats(s->opts.upstream, &st);
	metric_set(metric_get(&upstream_fetches, "found"), (int64_t)st.n_found);
	metric_set(metric_get(&upstream_fetches, "missing"), (int64_t)st.n_missing);
	metric_set(metric_get(&upstream_fetches, "failed"), (int64_t)st.n_failed);
	metric_set(metric_get(&upstream_remembered), (int64_t)st.n_remembered);
	metric_set(metric_get(&upstream_over), (int64_t)st.n_over);
	metric_set(metric_get(&upstream_stored, "stored"), (int64_t)st.n_stored);
	metric_set(metric_get(&upstream_stored, "not_stored"), (int64_t)st.n_not_stored);
	metric_set(metric_get(&upstream_bytes), (int64_t)st.bytes);
	net_each_server(s->opts.net, collect_upstream_server, NULL);
}

static void collect_profiles(struct server *s)
{
	struct profilestore_stats st;
	struct budget_stats memory;

	budget_stats(s->opts.memory, &memory);
	profilestore_stats(s->opts.profiles, &st);
	metric_set(metric_get(&profiles_taken, "added"), (int64_t)st.n_added);
	metric_set(metric_get(&profiles_taken, "duplicate"), (int64_t)st.n_duplicates);
	metric_set(metric_get(&profiles_taken, "refused"), (int64_t)st.n_refused);
	metric_set(metric_get(&profiles_taken, "expired"), (int64_t)st.n_expired);
	metric_set(metric_get(&profile_labels, "mended"), (int64_t)st.n_labels_mended);
	metric_set(metric_get(&profile_labels, "dropped"), (int64_t)st.n_labels_dropped);
	metric_set(metric_get(&profiles_kept), (int64_t)st.n_profiles);
	metric_set(metric_get(&profiles_samples), (int64_t)st.n_samples);
	metric_set(metric_get(&profiles_series), (int64_t)st.n_series);
	metric_set(metric_get(&profiles_locations, "named"),
		   (int64_t)(st.n_locations - MIN(st.n_unnamed, st.n_locations)));
	metric_set(metric_get(&profiles_locations, "unnamed"), (int64_t)st.n_unnamed);
	metric_set(metric_get(&profiles_stacks), (int64_t)st.n_stacks);
	metric_set(metric_get(&profiles_damaged, "lost"), (int64_t)st.n_lost);
	metric_set(metric_get(&profiles_damaged, "repaired"), (int64_t)st.n_mended);
	metric_set(metric_get(&profiles_damaged, "damaged"), (int64_t)st.n_unmended);
	metric_set(metric_get(&profiles_bytes, "disk"), (int64_t)st.data_size);
	metric_set(metric_get(&profiles_bytes, "memory"), (int64_t)st.metadata_size);
	metric_set(metric_get(&profiles_queue, "bodies"),
		   (int64_t)atomic_load(&s->http_service->body_bytes[BODY_PROFILES]));
	metric_set(metric_get(&profiles_queue, "profiles"), (int64_t)memory.classes[BUDGET_PROFILE].used);
}

static void collect_memory(struct server *s)
{
	struct budget_stats st;

	budget_stats(s->opts.memory, &st);
	metric_set(metric_get(&memory_max), (int64_t)st.total);
	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++) {
		const struct budget_class_stats *c = &st.classes[i];

		metric_set(metric_get(&memory_bytes, c->name), (int64_t)c->used);
		metric_set(metric_get(&memory_refused, c->name), (int64_t)c->n_refused);
	}
}

static void collect_all(void *arg)
{
	struct s3_status bucket;
	struct server *s = arg;
	struct cache_stats c = { 0 };

	metric_set(metric_get(&connections), http_connections(s->http));
	metric_set(metric_get(&waiting), wait_count(s->http_service));
	metric_set(metric_get(&worker_queue), (int64_t)(pool_queued(s->workers) + pool_queued(s->queries)));
	if (s3_shared_status(&bucket)) {
		metric_set(metric_get(&bucket_cache, "memory"), (int64_t)bucket.memory_size);
		metric_set(metric_get(&bucket_cache, "disk"), (int64_t)bucket.disk_size);
	}
	metric_set(metric_get(&workers_waiting), (int64_t)pool_waiting(s->workers));
	metric_set(metric_get(&workers_at_work), (int64_t)(pool_busy(s->workers) + pool_busy(s->queries)));
	collect_memory(s);
	scrape_collect(s->scrape);
	if (s->opts.upstream)
		collect_upstream(s);
	if (s->opts.store)
		collect_store(s);
	if (s->opts.tables)
		collect_symbolizer(s);
	if (s->opts.profiles)
		collect_profiles(s);
	if (!s->cache)
		return;
	cache_stats(s->cache, &c);
	metric_set(metric_get(&cache_bytes), (int64_t)c.bytes);
	metric_set(metric_get(&cache_max), (int64_t)c.max_bytes);
	metric_set(metric_get(&cache_files), (int64_t)c.n_files);
	metric_set(metric_get(&cache_ops, "hit"), (int64_t)c.n_hits);
	metric_set(metric_get(&cache_ops, "miss"), (int64_t)c.n_misses);
	metric_set(metric_get(&cache_ops, "evict"), (int64_t)c.n_evicted);
}

static void write_customary(struct server *s, struct buf *out)
{
	const struct counters *c = s->http_service->counters;
	long long artifacts = 0;

	buf_printf(out, "ready %d\n", atomic_load(&s->is_ready));
	counters_write(c, out);
	for (unsigned type = 0; type < RESOLVE_N_KINDS; type++)
		artifacts += counters_open(c, type);
	buf_printf(out, "thread_busy{role=\"http-buildid\"} %lld\n", artifacts);
	buf_printf(out, "thread_busy{role=\"http-metadata\"} %lld\n",
		   (long long)counters_open(c, TYPE_METADATA));
	buf_printf(out, "thread_busy{role=\"http-metrics\"} %lld\n",
		   (long long)counters_open(c, TYPE_METRICS));
}

static enum http_next metrics_run(struct request *req)
{
	struct buf out = { 0 };

	metrics_write(&out);
	write_customary(req->s, &out);
	senders_write_metrics(req->s->senders, &out);
	request_reply_body(req, 200, &out, "text/plain; version=0.0.4; charset=utf-8", true);
	return HTTP_REPLY;
}

const struct http_handler metrics_get = { .run = metrics_run };

void metrics_start(struct server *s)
{
	metrics_on_collect(collect_all, s);
}

void metrics_stop(struct server *s)
{
	metrics_off_collect(collect_all, s);
}
