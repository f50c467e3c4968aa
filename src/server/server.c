/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and stop of the server.
 */
#include "server/artifact/artifact.h"
#include "server/intake/senders.h"
#include "server/push/push.h"
#include "server/scrape/scrape.h"
#include "server/status/status.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Threads for uploads: most of the time they wait for the disk. */
#define WRITERS         8u
#define WAITING_MAX     320u  /* requests that wait for object storage: 64 clients have one of their own */
#define FILES_RESERVED  256   /* descriptors for other things than connections */
#define CONNECTIONS_MAX 8192u /* where no option says so */
#define CONNECTIONS_MIN 64u
#define REMOTE_MAX      256u /* connections of one address of another machine */
#define QUEUED_MAX      1024u
#define QUERIES_NICE    10 /* of the threads of long queries: after all other threads of the service */
#define IDLE_S          60u
#define DEADLINE_MS     120000
#define METADATA_MS     5000
#define UNREAD_MAX      256u

static const char *option_copy(struct server *s, const char *text)
{
	return text ? arena_strdup(&s->arena, str_of(text)) : NULL;
}

/* @scrapes: some descriptors are for connections to targets. */
static unsigned connections_of_rlimit(bool scrapes)
{
	uint64_t reserved = FILES_RESERVED + (scrapes ? scrape_max_at_once() : 0), n;
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return CONNECTIONS_MIN;
	/* Each connection may need a second descriptor for its reply. */
	n = rl.rlim_cur > reserved ? (rl.rlim_cur - reserved) / 2 : 0;
	return (unsigned)MIN(MAX(n, (uint64_t)CONNECTIONS_MIN), (uint64_t)CONNECTIONS_MAX);
}

static void set_options(struct server *s, const struct server_options *opts)
{
	struct server_options *o = &s->opts;

	*o = *opts;
	o->index_path = option_copy(s, opts->index_path);
	o->cache_dir = option_copy(s, opts->cache_dir);
	o->temp_dir = option_copy(s, opts->temp_dir);
	o->home_redirect = option_copy(s, opts->home_redirect);
	o->home_html = option_copy(s, opts->home_html);
	o->web_dir = option_copy(s, opts->web_dir);
	o->workers = opts->workers ? opts->workers : MAX(pool_cpus(), 2u);
	o->http_threads = opts->http_threads ? opts->http_threads : pool_cpus();
	o->max_connections = opts->max_connections ? opts->max_connections
						   : connections_of_rlimit(opts->n_scrape_files);
	o->idle_timeout_s = opts->idle_timeout_s ? opts->idle_timeout_s : IDLE_S;
	o->max_queued = opts->max_queued ? opts->max_queued : QUEUED_MAX;
	o->request_deadline_ms = opts->request_deadline_ms ? opts->request_deadline_ms : DEADLINE_MS;
	o->max_unread = opts->max_unread ? opts->max_unread : UNREAD_MAX;
	o->metadata_max_ms = opts->metadata_max_ms ? opts->metadata_max_ms : METADATA_MS;
	o->tokens_path = option_copy(s, opts->tokens_path);
	o->max_push = opts->max_push ? opts->max_push : PUSH_MAX_SIZE;
	s->resolver = opts->resolver;
	forward_make_id(s->id);
	atomic_init(&s->is_ready, opts->scan == NULL);
}

#define TIDY_MS 5000

/* Called by the wait thread at intervals. */
static void on_request_ended(struct server *s, const struct request *req, unsigned status)
{
	senders_note(s->senders, req, status);
}

static bool on_tick(struct server *s)
{
	struct scan_progress p;
	bool kept;

	kept = patience_tick(s, clock_mono_ms());
	push_tick(s->push);
	if (clock_mono_ms() >= s->tidied_ms + TIDY_MS) {
		s->tidied_ms = clock_mono_ms();
		hot_tidy(s->hot, resolve_epoch(s->resolver));
	}
	if (atomic_load(&s->is_ready))
		return kept;
	scan_progress(s->opts.scan, &p);
	atomic_store(&s->is_ready, p.ready);
	return kept || !p.ready;
}

#define PROFILES_ASIDE \
	"profiles: a damaged database, or a page of it, was set aside; /api/status has the reason\n"

/* Artifacts are served all the same, so it is still "ok". */
static const char *ok_text(const struct server *s)
{
	if (s->opts.profiles_why)
		return "ok\nprofiles: the store cannot be opened; the log has the reason\n";
	return s->opts.profiles && profilestore_n_set_aside(s->opts.profiles) ? "ok\n" PROFILES_ASIDE
									      : "ok\n";
}

static int start_service(struct server *s, struct err *err)
{
	const struct server_options *o = &s->opts;
	const struct http_service_options opts = {
		.server = s,
		.routes = server_routes,
		.prefix = SERVER_PREFIX,
		.types = server_types,
		.other_type = TYPE_OTHER,
		.internal_types = 1u << TYPE_METRICS | 1u << TYPE_HEALTH | 1u << TYPE_STATUS |
				  1u << TYPE_PAGE,
		.results = server_results,
		.workers = s->workers,
		.memory = o->memory,
		.queries = s->queries,
		.writers = s->writers,
		.hot = artifact_hot,
		.tick = on_tick,
		.ended = on_request_ended,
		.rate_per_ip = o->rate_per_ip,
		.max_queued = o->max_queued,
		.request_deadline_ms = o->request_deadline_ms,
		.tokens_path = o->tokens_path,
		.listen = o->listen,
		.n_listen = o->n_listen,
		.public_urls = o->public_urls,
		.n_public_urls = o->n_public_urls,
		.require_read_token = o->require_read_token,
		.cors = o->cors,
		.access_log = o->access_log,
		.secret_below = SERVER_UPLOAD,
		.cors_headers = "authorization, cache-control, connect-protocol-version, connect-timeout-ms, "
				"content-type, grpc-timeout, "
				"range, x-debuginfod-maxsize, x-grpc-web, x-scope-orgid, x-user-agent",
		.cors_expose =
			"X-DEBUGINFOD-SIZE, X-DEBUGINFOD-FILE, X-DEBUGINFOD-ARCHIVE, Content-Range, ETag, "
			"grpc-status, grpc-message",
	};

	if (http_service_new(&opts, &s->http_service, err) < 0)
		return -1;
	s->unknown = reply_canned(s->http_service, 404, "not found: no such build ID here\n");
	s->ok = reply_canned(s->http_service, 200, ok_text(s));
	s->ok_damaged = reply_canned(s->http_service, 200, "ok\n" PROFILES_ASIDE);
	s->ok_unread = reply_canned(
		s->http_service, 200,
		"ok\nunread: packages are still being read; a build ID that is not known waits for "
		"them (--unread-wait)\n");
	s->ok_unlisted = reply_canned(s->http_service, 200,
				      "ok\nunread: a folder or bucket cannot be listed, so a build ID that "
				      "is not known is not reported as "
				      "missing; the log and /api/status name it\n");
	s->not_up = reply_canned(s->http_service, 503, "the first scan is not finished\n");
	return 0;
}

/* The server runs without a cache that cannot be opened, after a warning. */
static void open_cache(struct server *s)
{
	struct err err = { 0 };

	if (s->opts.cache_dir &&
	    cache_open(s->opts.cache_dir, s->opts.cache_max_bytes, s->opts.room, &s->cache, &err) < 0)
		log_warn("server", "%s: the server runs without it", err.text);
}

static int start_http(struct server *s, const struct server_options *opts, struct err *err)
{
	bool usual = opts->max_connections_per_ip == CONNECTIONS_USUAL;
	struct http_options http = {
		.listen = opts->listen,
		.n_listen = opts->n_listen,
		.listen_grpc = opts->listen_grpc,
		.n_listen_grpc = opts->n_listen_grpc,
		.memory = opts->memory,
		.threads = s->opts.http_threads,
		.max_connections = s->opts.max_connections,
		.max_connections_per_ip = usual ? REMOTE_MAX : opts->max_connections_per_ip,
		/* A proxy on this machine has the connections of all its clients. */
		.max_connections_local = usual ? 0 : opts->max_connections_per_ip,
		.min_rate = opts->min_rate,
		.body_deadline_ms = opts->body_deadline_ms,
		.idle_timeout_s = s->opts.idle_timeout_s,
		.tls_cert = opts->tls_cert,
		.tls_key = opts->tls_key,
		.receiver = http_service_receiver(s->http_service),
	};

	if (!!opts->tls_cert != !!opts->tls_key)
		return err_set(err, ERR_INVALID, "TLS needs both a certificate and its key");
	return http_start(&http, &s->http, err);
}

/*
 * Short work of all classes but long queries. One client may have all but one of the workers that a class can get,
 * so another client's request does not wait for its.
 */
static struct pool *workers_new(unsigned n)
{
	static const unsigned shares[HTTP_WORKER_CLASSES] = {
		[HTTP_CLASS_STATUS] = 1,    [HTTP_CLASS_METADATA] = 1, [HTTP_CLASS_ARTIFACT] = 2,
		[HTTP_CLASS_SYMBOLIZE] = 2, [HTTP_CLASS_INTAKE] = 4,   [HTTP_CLASS_QUERY] = 2,
	};

	return pool_new_fair(&(struct pool_options){ .name = "lode-work",
						     .n_threads = n,
						     .max_queued = 1,
						     .nice = POOL_NICE,
						     .n_classes = HTTP_WORKER_CLASSES,
						     .shares = shares,
						     .max_per_client = n });
}

static int start_scrape(struct server *s, struct err *err)
{
	const struct server_options *o = &s->opts;

	if (!o->n_scrape_files || (!o->profiles && o->profiles_why))
		return 0;
	if (!o->profiles)
		return err_set(
			err, ERR_INVALID,
			"--scrape needs a profile store: leave out --no-profiles and --passive, or --scrape");
	return scrape_start(s, o->scrape_files, o->n_scrape_files, &s->scrape, err);
}

int server_start(const struct server_options *opts, struct server **ret, struct err *err)
{
	struct server *s;
	int r;

	if (http_load(err) < 0 || sha256_load(err) < 0)
		return -1;
	s = NEW(struct server);
	s->started_mono_ms = clock_mono_ms();
	arena_init(&s->arena);
	pthread_mutex_init(&s->index_lock, NULL);
	pthread_mutex_init(&s->counted.lock, NULL);
	pthread_mutex_init(&s->artifacts.lock, NULL);
	pthread_cond_init(&s->artifacts.gone, NULL);
	pthread_mutex_init(&s->unread.lock, NULL);
	pthread_mutex_init(&s->kept.lock, NULL);
	set_options(s, opts);
	s->flights = flight_new();
	s->hot = hot_new();
	s->workers = workers_new(s->opts.workers);
	pool_permit_waiting(s->workers, WAITING_MAX);
	s->queries = pool_new_fair(&(struct pool_options){ .name = "lode-query",
							   .n_threads = s->opts.workers,
							   .max_queued = 1,
							   .nice = QUERIES_NICE,
							   .n_classes = 1,
							   .max_per_client = s->opts.workers });
	s->senders = senders_new();
	if (s->opts.store) {
		s->writers = pool_new("lode-write", WRITERS, 1);
		s->push = push_new(s);
	}
	r = start_service(s, err);
	if (r == 0)
		r = page_new(s, &s->page, err);
	if (r == 0)
		open_cache(s);
	if (r == 0)
		r = start_scrape(s, err);
	if (r == 0) {
		metrics_start(s);
		/* Last: requests come from here on, before it returns. */
		r = start_http(s, opts, err);
	}
	if (r < 0) {
		server_stop(s, 0);
		return -1;
	}
	*ret = s;
	return 0;
}

const char *const *server_urls(const struct server *s)
{
	return http_urls(s->http);
}

const char *const *server_grpc_urls(const struct server *s)
{
	return http_grpc_urls(s->http);
}

static void let_replies_end(struct server *s, int64_t grace_ms)
{
	int64_t end_ms = clock_mono_ms() + grace_ms;

	/* In this order: a connection counts as unsent before the last bytes of a reply end its request. */
	while (clock_mono_ms() < end_ms &&
	       (atomic_load(&s->http_service->n_open) > 0 || http_unsent(s->http) > 0))
		usleep(10000);
}

void server_stop(struct server *s, int64_t grace_ms)
{
	if (!s)
		return;
	metrics_stop(s);
	if (s->http)
		http_quiesce(s->http);
	scrape_stop(s->scrape);
	/* Requests that wait for a table are answered "pending", so that clients ask the next process. */
	tables_stop(s->opts.tables);
	if (s->http)
		let_replies_end(s, grace_ms);
	/*
	 * First no request may be suspended any more, then connections can be closed, then no request needs an
	 * artifact.
	 */
	if (s->http_service)
		wait_stop(s->http_service);
	http_stop(s->http);
	(void)patience_tick(s, INT64_MAX);
	artifacts_wait_gone(s);
	pool_free(s->workers);
	pool_free(s->queries);
	pool_free(s->writers);
	push_free(s->push);
	senders_free(s->senders);
	scrape_free(s->scrape);
	cache_close(s->cache);
	hot_free(s->hot);
	flight_free(s->flights);
	page_free(s->page);
	http_reply_unref(s->unknown.reply);
	http_reply_unref(s->ok.reply);
	http_reply_unref(s->ok_damaged.reply);
	http_reply_unref(s->ok_unread.reply);
	http_reply_unref(s->ok_unlisted.reply);
	http_reply_unref(s->not_up.reply);
	http_service_free(s->http_service);
	index_close(s->index);
	pthread_mutex_destroy(&s->index_lock);
	pthread_mutex_destroy(&s->counted.lock);
	pthread_mutex_destroy(&s->artifacts.lock);
	pthread_cond_destroy(&s->artifacts.gone);
	pthread_mutex_destroy(&s->unread.lock);
	pthread_mutex_destroy(&s->kept.lock);
	arena_done(&s->arena);
	free(s);
}
