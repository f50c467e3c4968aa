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

#define GAUGE(name, help, labels)                      \
	{                                              \
		name, help, METRIC_GAUGE, labels, NULL \
	}
/* Counted elsewhere, since the start: metric_set() takes the count. */
#define COUNTER(name, help, labels)                      \
	{                                                \
		name, help, METRIC_COUNTER, labels, NULL \
	}

static const struct metric_family connections = GAUGE("lode_http_connections", "Open connections.", "");
static const struct metric_family waiting = GAUGE("lode_http_waiting",
						  "Requests that wait for a worker or for bytes.", "");
static const struct metric_family worker_queue = GAUGE("lode_worker_queue", "Tasks that wait for a worker.",
						       "");
static const struct metric_family bucket_cache = GAUGE(
	"lode_s3_cache_bytes", "Bytes of objects that are kept, in memory and on disk.", "where");
static const struct metric_family workers_waiting = GAUGE(
	"lode_workers_waiting", "Tasks that wait for object storage, without a worker.", "");
static const struct metric_family workers_at_work = GAUGE("lode_workers_at_work", "Workers that run a task.",
							  "");
static const struct metric_family decoded = { "lode_artifacts_decoded_total",
					      "Artifacts decoded from packages, by outcome.", METRIC_COUNTER,
					      "outcome", NULL };
static const struct metric_family decoded_bytes = { "lode_artifacts_decoded_bytes_total",
						    "Bytes of decoded artifacts.", METRIC_COUNTER, "", NULL };
static const struct metric_family cache_bytes = GAUGE("lode_cache_bytes",
						      "Bytes of disk that the artifact cache uses.", "");
static const struct metric_family cache_max = GAUGE("lode_cache_max_bytes",
						    "Bytes of disk that the artifact cache may use.", "");
static const struct metric_family cache_files = GAUGE("lode_cache_files", "Artifacts in the cache.", "");
static const struct metric_family store_bytes = GAUGE(
	"lode_store_bytes", "Bytes of disk that the store and unfinished uploads use.", "");
static const struct metric_family store_to_compress = GAUGE(
	"lode_store_to_compress_bytes", "Bytes of pushed objects that are not compressed yet.", "");
static const struct metric_family uploads = GAUGE("lode_uploads", "Uploads in progress.", "");
static const struct metric_family cache_ops = COUNTER(
	"lode_cache_operations", "Lookups and evictions of the artifact cache, by operation.", "operation");

static const struct metric_family upstream_fetches = COUNTER(
	"lode_upstream_fetches", "Fetches from other servers, by outcome.", "outcome");
static const struct metric_family upstream_remembered = COUNTER("lode_upstream_remembered",
								"Requests answered from the miss cache.", "");
static const struct metric_family upstream_over = COUNTER(
	"lode_upstream_over_budget", "Requests above the budget of questions to other servers.", "");
static const struct metric_family store_held = GAUGE(
	"lode_store_held",
	"Pushes on this machine's disk that are not in the bucket: that wait for it, or were refused.",
	"state");
static const struct metric_family store_held_bytes = GAUGE("lode_store_held_bytes", "Bytes of these pushes.",
							   "");
static const struct metric_family store_held_max = GAUGE("lode_store_held_max_bytes",
							 "Bytes that they may take: --keep-pushes.", "");
static const struct metric_family upstream_stored = COUNTER(
	"lode_upstream_stored", "Fetched files that were stored or not stored, by outcome.", "outcome");
static const struct metric_family upstream_bytes = COUNTER("lode_upstream_bytes",
							   "Bytes of files fetched from other servers.", "");
static const struct metric_family upstream_open = GAUGE(
	"lode_upstream_breaker_open", "1: the breaker of this server is open, it is not asked for a while.",
	"server");
static const struct metric_family upstream_asked = COUNTER(
	"lode_upstream_requests", "Requests to this server, by outcome.", "server,outcome");

static const struct metric_family symbolize_tables = COUNTER(
	"lode_symbolize_tables", "Symbol tables that were not mapped when they were needed, by origin.",
	"outcome");
static const struct metric_family symbolize_wanted = COUNTER(
	"lode_symbolize_wanted", "Symbol tables that requests needed: hit, it was mapped; miss, it was not.",
	"outcome");
static const struct metric_family symbolize_bytes = GAUGE("lode_symbolize_bytes",
							  "Bytes of mapped symbol tables.", "");
static const struct metric_family symbolize_flights = GAUGE(
	"lode_symbolize_flights", "Symbol tables that are being built or waited for.", "");

static const struct metric_family profiles_taken = COUNTER("lode_profiles_total",
							   "Received profiles, by outcome.", "outcome");
static const struct metric_family profile_labels = COUNTER(
	"lode_profile_labels_total", "Labels of received profiles that were made to fit, or left out.",
	"outcome");
static const struct metric_family profiles_kept = GAUGE("lode_profiles", "Stored profiles.", "");
static const struct metric_family profiles_samples = GAUGE("lode_profiles_samples",
							   "Samples of stored profiles.", "");
static const struct metric_family profiles_series = GAUGE(
	"lode_profiles_series", "Series: a type of profiles and a set of labels.", "");
static const struct metric_family profiles_locations = GAUGE(
	"lode_profiles_locations", "Addresses of binaries in profiles, with and without a name.", "names");
static const struct metric_family profiles_stacks = GAUGE("lode_profiles_stacks",
							  "Distinct stacks of stored profiles.", "");
static const struct metric_family profiles_bytes = GAUGE(
	"lode_profiles_bytes", "Bytes of stored profiles on disk, and of their tables in memory.", "where");
static const struct metric_family profiles_sweeps = COUNTER(
	"lode_profiles_sweeps_total", "Sweeps of stacks and names that no stored profile needs any more.",
	"");
static const struct metric_family profiles_damaged = GAUGE(
	"lode_profiles_damaged",
	"Damage of the profiles' database found since the start: profiles lost, pages repaired, pages that "
	"stay until the "
	"next start.",
	"what");
static const struct metric_family profiles_queue = GAUGE(
	"lode_profiles_queue_bytes",
	"Bytes of bodies that are being received, and of profiles that wait to be written.", "what");

static const struct metric_family memory_bytes = GAUGE(
	"lode_memory_bytes", "Bytes of the memory budget that are granted, by class.", "class");
static const struct metric_family memory_max = GAUGE(
	"lode_memory_max_bytes", "Bytes of the memory budget, of all classes together.", "");
static const struct metric_family memory_refused = {
	"lode_memory_refused_total", "Grants of the memory budget that were refused, by class.",
	METRIC_COUNTER, "class", NULL
};

static const struct metric_family scrape_targets = GAUGE("lode_scrape_targets", "Targets of all files.", "");
static const struct metric_family scrape_profiles = GAUGE(
	"lode_scrape_profiles", "Profiles of all targets: good, failing, or not pulled yet.", "state");
static const struct metric_family scrape_running = GAUGE("lode_scrape_running", "Pulls that run.", "");
static const struct metric_family scrape_broken = GAUGE(
	"lode_scrape_files_broken", "Files of targets whose last change could not be read.", "");
static const struct metric_family scrape_bases = GAUGE(
	"lode_scrape_base_bytes", "Bytes of memory of the counters that the next profiles are compared with.",
	"");

/* @label: of the family's one label; NULL: it has none. */
static void set_figure(const struct metric_family *family, const char *label, uint64_t value)
{
	metric_set(metric_get(family, label), (int64_t)value);
}

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
	set_figure(&store_to_compress, NULL, f.waiting);
	set_figure(&uploads, NULL, atomic_load(&s->push->n_uploads));
	if (store_usage(s->opts.store, &bytes))
		set_figure(&store_bytes, NULL, bytes);
	if (!f.hold_max && !f.n_held && !f.n_refused)
		return;
	set_figure(&store_held, "waiting", f.n_held);
	set_figure(&store_held, "refused", f.n_refused);
	set_figure(&store_held_bytes, NULL, f.hold_size);
	set_figure(&store_held_max, NULL, f.hold_max);
}

static void collect_symbolizer(struct server *s)
{
	struct tables_stats st;

	tables_stats(s->opts.tables, &st);
	set_figure(&symbolize_tables, "made", st.n_made);
	set_figure(&symbolize_tables, "stored", st.n_from_store);
	set_figure(&symbolize_tables, "replaced", st.n_replaced);
	set_figure(&symbolize_tables, "failed", st.n_failed);
	set_figure(&symbolize_wanted, "hit", st.n_hits);
	set_figure(&symbolize_wanted, "miss", st.n_wanted - MIN(st.n_hits, st.n_wanted));
	set_figure(&symbolize_bytes, NULL, st.tables_size);
	set_figure(&symbolize_flights, NULL, st.n_builds);
}

static void collect_upstream(struct server *s)
{
	struct resolve_upstream_stats st;

	resolve_upstream_stats(s->opts.upstream, &st);
	set_figure(&upstream_fetches, "found", st.n_found);
	set_figure(&upstream_fetches, "missing", st.n_missing);
	set_figure(&upstream_fetches, "failed", st.n_failed);
	set_figure(&upstream_remembered, NULL, st.n_remembered);
	set_figure(&upstream_over, NULL, st.n_over);
	set_figure(&upstream_stored, "stored", st.n_stored);
	set_figure(&upstream_stored, "not_stored", st.n_not_stored);
	set_figure(&upstream_bytes, NULL, st.bytes);
	net_each_server(s->opts.net, collect_upstream_server, NULL);
}

static void collect_profiles(struct server *s)
{
	struct profilestore_stats st;
	struct budget_stats memory;

	budget_stats(s->opts.memory, &memory);
	profilestore_stats(s->opts.profiles, &st);
	set_figure(&profiles_taken, "added", st.n_added);
	set_figure(&profiles_taken, "duplicate", st.n_duplicates);
	set_figure(&profiles_taken, "refused", st.n_refused);
	set_figure(&profiles_taken, "expired", st.n_expired);
	set_figure(&profile_labels, "mended", st.n_labels_mended);
	set_figure(&profile_labels, "dropped", st.n_labels_dropped);
	set_figure(&profiles_kept, NULL, st.n_profiles);
	set_figure(&profiles_samples, NULL, st.n_samples);
	set_figure(&profiles_series, NULL, st.n_series);
	set_figure(&profiles_locations, "named", st.n_locations - MIN(st.n_unnamed, st.n_locations));
	set_figure(&profiles_locations, "unnamed", st.n_unnamed);
	set_figure(&profiles_stacks, NULL, st.n_stacks);
	set_figure(&profiles_sweeps, NULL, st.n_sweeps);
	set_figure(&profiles_damaged, "lost", st.n_lost);
	set_figure(&profiles_damaged, "repaired", st.n_mended);
	set_figure(&profiles_damaged, "damaged", st.n_unmended);
	set_figure(&profiles_bytes, "disk", st.data_size);
	set_figure(&profiles_bytes, "memory", st.metadata_size);
	set_figure(&profiles_queue, "bodies", atomic_load(&s->http_service->body_bytes[BODY_PROFILES]));
	set_figure(&profiles_queue, "profiles", memory.classes[BUDGET_PROFILE].used);
}

static void collect_memory(struct server *s)
{
	struct budget_stats st;

	budget_stats(s->opts.memory, &st);
	set_figure(&memory_max, NULL, st.total);
	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++) {
		const struct budget_class_stats *c = &st.classes[i];

		set_figure(&memory_bytes, c->name, c->used);
		set_figure(&memory_refused, c->name, c->n_refused);
	}
}

static void collect_scrape(struct server *s)
{
	struct scrape_stats st;

	scrape_stats(s->scrape, &st);
	set_figure(&scrape_targets, NULL, st.n_targets);
	set_figure(&scrape_profiles, "good", st.n_good);
	set_figure(&scrape_profiles, "failing", st.n_failing);
	set_figure(&scrape_profiles, "new", st.n_new);
	set_figure(&scrape_running, NULL, st.n_running);
	set_figure(&scrape_broken, NULL, st.n_broken);
	set_figure(&scrape_bases, NULL, st.base_bytes);
}

static void collect_all(void *arg)
{
	struct s3_status bucket;
	struct server *s = arg;
	struct cache_stats c = { 0 };

	set_figure(&connections, NULL, http_connections(s->http));
	set_figure(&waiting, NULL, wait_count(s->http_service));
	set_figure(&worker_queue, NULL, pool_queued(s->workers) + pool_queued(s->queries));
	if (s3_shared_status(&bucket)) {
		set_figure(&bucket_cache, "memory", bucket.memory_size);
		set_figure(&bucket_cache, "disk", bucket.disk_size);
	}
	set_figure(&workers_waiting, NULL, pool_waiting(s->workers));
	set_figure(&workers_at_work, NULL, pool_busy(s->workers) + pool_busy(s->queries));
	collect_memory(s);
	if (s->scrape)
		collect_scrape(s);
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
	set_figure(&cache_bytes, NULL, c.bytes);
	set_figure(&cache_max, NULL, c.max_bytes);
	set_figure(&cache_files, NULL, c.n_files);
	set_figure(&cache_ops, "hit", c.n_hits);
	set_figure(&cache_ops, "miss", c.n_misses);
	set_figure(&cache_ops, "evict", c.n_evicted);
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
