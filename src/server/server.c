/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's beginning and end.
 */
#include "server/push/push.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* What is pushed: its threads wait for the disk most of the time. */
#define WRITERS 8u
/* What is queued is bounded before: by max_queued, and by the connections that stream. */
#define WORKERS_QUEUE   (1u << 20)
#define FILES_RESERVED  256   /* for all but connections */
#define CONNECTIONS_MAX 8192u /* without being told */
#define CONNECTIONS_MIN 64u
#define QUEUED_MAX      1024u
#define IDLE_S          60u
#define DEADLINE_MS     120000
#define METADATA_MS     5000
#define NOTHING_HERE    "not found: no such build ID here\n"

static const char *copied(struct server *s, const char *text)
{
	return text ? arena_strdup(&s->arena, str_of(text)) : NULL;
}

static unsigned connections_of_rlimit(void)
{
	struct rlimit rl;
	uint64_t n;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return CONNECTIONS_MIN;
	/* A reply may hold a descriptor beside its connection's. */
	n = rl.rlim_cur > FILES_RESERVED ? (rl.rlim_cur - FILES_RESERVED) / 2 : 0;
	return (unsigned)MIN(MAX(n, (uint64_t)CONNECTIONS_MIN), (uint64_t)CONNECTIONS_MAX);
}

static void set_options(struct server *s, const struct server_options *opts)
{
	struct server_options *o = &s->opts;

	*o = *opts;
	o->index_path = copied(s, opts->index_path);
	o->cache_dir = copied(s, opts->cache_dir);
	o->home_redirect = copied(s, opts->home_redirect);
	o->home_html = copied(s, opts->home_html);
	o->web_dir = copied(s, opts->web_dir);
	o->workers = opts->workers ? opts->workers : MAX(pool_cpus(), 2u);
	o->http_threads = opts->http_threads ? opts->http_threads : pool_cpus();
	o->max_connections = opts->max_connections ? opts->max_connections : connections_of_rlimit();
	o->idle_timeout_s = opts->idle_timeout_s ? opts->idle_timeout_s : IDLE_S;
	o->max_queued = opts->max_queued ? opts->max_queued : QUEUED_MAX;
	o->request_deadline_ms = opts->request_deadline_ms ? opts->request_deadline_ms : DEADLINE_MS;
	o->metadata_max_ms = opts->metadata_max_ms ? opts->metadata_max_ms : METADATA_MS;
	o->tokens_path = copied(s, opts->tokens_path);
	o->max_push = opts->max_push ? opts->max_push : PUSH_MAX_SIZE;
	s->resolver = opts->resolver;
	forward_make_id(s->id);
	atomic_init(&s->is_ready, opts->scan == NULL);
}

static struct made made_text(struct server *s, unsigned status, struct str text)
{
	return (struct made){ status, text.size, reply_text(s, status, text) };
}

static void make_replies(struct server *s)
{
	s->made.unknown = made_text(s, 404, STR(NOTHING_HERE));
	s->made.ok = made_text(s, 200, STR("ok\n"));
	s->made.not_up = made_text(s, 503, STR("the first scan still runs\n"));
	s->made.busy = made_text(s, 503, STR("busy\n"));
	s->made.too_many = made_text(s, 429, STR("too many requests from your address\n"));
	s->made.method = made_text(s, 405, STR("only GET and HEAD\n"));
	s->made.options = (struct made){ 204, 0, http_reply_copy("", 0) };
	if (s->opts.cors) {
		http_reply_header(s->made.options.reply, "Allow", "GET, HEAD, POST, OPTIONS");
		http_reply_header(s->made.options.reply, "Access-Control-Allow-Origin", "*");
		http_reply_header(s->made.options.reply, "Access-Control-Allow-Methods",
				  "GET, HEAD, POST, OPTIONS");
		http_reply_header(s->made.options.reply, "Access-Control-Allow-Headers",
				  "cache-control, content-type, range, x-debuginfod-maxsize");
		http_reply_header(s->made.options.reply, "Access-Control-Max-Age", "86400");
	}
}

/* A cache that cannot be had is told and done without. */
static void open_cache(struct server *s)
{
	struct err err = { 0 };

	if (s->opts.cache_dir && cache_open(s->opts.cache_dir, s->opts.cache_max_bytes, &s->cache, &err) < 0)
		log_warn("server", "%s: going on without", err.text);
}

static int start_http(struct server *s, const struct server_options *opts, struct err *err)
{
	struct http_options http = {
		.listen = opts->listen,
		.n_listen = opts->n_listen,
		.threads = s->opts.http_threads,
		.max_connections = s->opts.max_connections,
		.max_connections_per_ip = s->opts.max_connections_per_ip,
		.idle_timeout_s = s->opts.idle_timeout_s,
		.tls_cert = opts->tls_cert,
		.tls_key = opts->tls_key,
		.handler = { s, request_handle, request_begin, request_body, request_done },
	};

	if (!!opts->tls_cert != !!opts->tls_key)
		return err_set(err, ERR_INVALID, "TLS needs both, a certificate and its key");
	return http_start(&http, &s->http, err);
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
	wait_init(&s->wait);
	pthread_mutex_init(&s->index_lock, NULL);
	pthread_mutex_init(&s->counted.lock, NULL);
	set_options(s, opts);
	s->flights = flight_new();
	s->hot = hot_new();
	s->workers = pool_new("lode-work", s->opts.workers, WORKERS_QUEUE);
	if (s->opts.rate_per_ip)
		s->limit = limit_new(s->opts.rate_per_ip);
	if (s->opts.access_log)
		s->access = access_new(STDERR_FILENO);
	if (s->opts.store || s->opts.profiles || s->opts.require_read_token) {
		s->writers = pool_new("lode-write", WRITERS, WORKERS_QUEUE);
		s->push = push_new(s);
	}
	make_replies(s);
	r = page_new(s, &s->page, err);
	if (r == 0) {
		open_cache(s);
		r = wait_start(&s->wait, err);
	}
	/* Last: from here on requests come. */
	if (r == 0)
		r = start_http(s, opts, err);
	if (r < 0) {
		server_stop(s, 0);
		return -1;
	}
	metrics_start(s);
	*ret = s;
	return 0;
}

const char *const *server_urls(const struct server *s)
{
	return http_urls(s->http);
}

static void let_replies_end(struct server *s, int64_t grace_ms)
{
	int64_t end_ms = clock_mono_ms() + grace_ms;

	while (clock_mono_ms() < end_ms && atomic_load(&s->n_open) > 0)
		usleep(10000);
}

void server_stop(struct server *s, int64_t grace_ms)
{
	if (!s)
		return;
	if (s->http) {
		metrics_stop(s);
		http_quiesce(s->http);
	}
	/* Who waits for a table is told that it is pending, and to ask the next process. */
	tables_stop(s->opts.tables);
	if (s->http)
		let_replies_end(s, grace_ms);
	/* First nobody may be suspended, then connections can be closed, then nobody asks for artifacts any
	 * more. */
	wait_stop(&s->wait);
	http_stop(s->http);
	wait_artifacts_gone(&s->wait);
	pool_free(s->workers);
	pool_free(s->writers);
	push_free(s->push);
	cache_close(s->cache);
	hot_free(s->hot);
	flight_free(s->flights);
	page_free(s->page);
	access_free(s->access);
	limit_free(s->limit);
	for (struct made *m = (struct made *)&s->made; m < (struct made *)(&s->made + 1); m++)
		http_reply_unref(m->reply);
	index_close(s->index);
	pthread_mutex_destroy(&s->index_lock);
	pthread_mutex_destroy(&s->counted.lock);
	wait_done(&s->wait);
	arena_done(&s->arena);
	free(s);
}
