/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service: what `lode serve` and `lode debuginfod` run. Scan, resolver and server are started in that
 * order and stopped in the other; signals are taken by one thread, this one.
 */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "cmd/service/groom.h"
#include "cmd/internal.h"
#include "naming/naming.h"

#define STOP_GRACE_MS  5000
#define LOOK_EVERY_MS  100  /* whether it is ready yet */
#define SAVE_EVERY_MS  1000 /* which other servers are passed over, if that has changed */
#define HELPERS_QUEUED 64
#define MAX_FETCHES    64 /* from other servers, at once */
#define MAX_PER_SERVER 16

struct service {
	struct scan *scan;
	struct store *store;       /* NULL: none */
	struct net *net;           /* NULL: no other server is asked */
	struct resolver *upstream; /* belongs to the resolver; NULL: none */
	struct resolver *resolver;
	struct tables *tables;
	struct profilestore *profiles; /* NULL: none are taken */
	struct groomer *groomer;
	_Atomic(struct naming *) naming; /* told of what is new, as soon as it is there */
	struct server *server;
	struct pool *helpers; /* decode ahead */
	const char *data;
	uint64_t states_epoch; /* of what is known of other servers, when it was saved */
	sigset_t signals;
};

void service_defaults(struct settings *s)
{
	s->scan.rescan_s = 300;
	s->scan.groom_s = 86400;
	s->server.access_log = true;
	s->server.cache_max_bytes = CACHE_USUAL;
	s->server.forwarded_ttl_limit = 8;
}

/* sd_notify(3): one datagram to the socket that systemd names. */
static void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	AUTO(fd_close) int fd = -1;

	if (!path || !*path || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path));
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		log_warn("serve", "$NOTIFY_SOCKET: %s", strerror(errno));
}

static void raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= r.rlim_max)
		return;
	r.rlim_cur = MIN(r.rlim_max, (rlim_t)1 << 20);
	if (setrlimit(RLIMIT_NOFILE, &r) != 0)
		log_warn("serve", "the limit of open files stays low: %s", strerror(errno));
}

/*
 * Before any thread is made: they inherit that these are blocked. SIGINT stops even where it was ignored, as
 * it is for a script's background jobs; SIGHUP does not, for nohup.
 */
static void block_signals(sigset_t *set)
{
	static const int ours[] = { SIGINT, SIGTERM, SIGUSR1, SIGUSR2 };
	struct sigaction was;

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		sigaddset(set, ours[i]);
	if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Whoever cannot wait for an orderly end asks twice. */
static void let_signals_end_us(const sigset_t *set)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, set, NULL);
}

static bool is_ready(struct service *v)
{
	struct scan_progress p;

	scan_progress(v->scan, &p);
	if (!p.ready)
		return false;
	notify("STATUS=ready");
	return true;
}

static void wait_for_the_end(struct service *v)
{
	const struct timespec soon = { .tv_nsec = LOOK_EVERY_MS * 1000000L };
	const struct timespec later = { .tv_sec = SAVE_EVERY_MS / 1000 };
	bool ready = false;

	for (;;) {
		int sig = sigtimedwait(&v->signals, NULL, !ready ? &soon : v->net ? &later : NULL);

		if (!ready)
			ready = is_ready(v);
		if (v->net)
			upstream_save_states(v->net, v->data, &v->states_epoch);
		if (sig == SIGUSR1)
			scan_rescan(v->scan);
		else if (sig == SIGUSR2)
			scan_groom(v->scan);
		else if (sig > 0)
			return;
	}
}

static void greet(const struct server *server)
{
	const char *const *urls = server_urls(server);

	for (size_t i = 0; urls[i]; i++)
		printf("lode: listening at %s/\n", urls[i]);
	if (urls[0])
		printf("lode: for gdb, perf and others: export DEBUGINFOD_URLS=%s\n", urls[0]);
	fflush(stdout);
}

/* ---- what is new ---- */

static void on_indexed(void *arg, const struct build_id *id, struct str path)
{
	struct naming *n = atomic_load(&((struct service *)arg)->naming);

	if (n)
		naming_wake(n, id, path, false);
}

static void on_committed(void *arg, const struct store_key *key, const struct store_meta *meta, bool replaced)
{
	struct naming *n = atomic_load(&((struct service *)arg)->naming);

	if (n && (key->kind == STORE_DEBUGINFO || key->kind == STORE_EXECUTABLE))
		naming_wake(n, &key->id, meta->file, replaced);
}

/* ---- starting ---- */

static int open_store(struct service *v, const struct settings *s, const char *data, struct err *err)
{
	AUTO(mem_freep) char *dir = s->store.dir ? mem_strdup(s->store.dir) : mem_printf("%s/store", data);
	const struct store_options opts = { .quota = s->store.quota,
					    .keep_pushed = s->store.keep_pushed,
					    .create = true,
					    .maintain = true,
					    .catalogue = true,
					    .committed = on_committed,
					    .committed_arg = v };

	return s->store.off ? 0 : store_open(dir, &opts, &v->store, err);
}

static int open_upstream(struct service *v, const struct net_url_list *servers, const char *data,
			 struct resolver *before, struct err *err)
{
	static const struct net_options net = { .max_fetches = MAX_FETCHES,
						.max_per_server = MAX_PER_SERVER };
	AUTO(mem_freep) char *spool = mem_printf("%s/spool", data);
	struct resolve_upstream_options opts = {
		.urls = servers->urls,
		.n_urls = servers->n,
		.store = v->store,
		.spool_dir = spool,
		.before = before,
	};

	if (net_new(&net, &v->net, err) < 0 || net_start_thread(v->net, err) < 0)
		return -1;
	v->states_epoch = upstream_load_states(v->net, data);
	opts.net = v->net;
	return resolve_upstream_open(&opts, &v->upstream, err);
}

/* Where is it? Here; in the store; elsewhere. */
static int open_resolvers(struct service *v, const struct resolve_index_options *index,
			  const struct net_url_list *servers, const char *data, struct err *err)
{
	struct resolver *links[RESOLVE_MAX_LINKS];
	size_t n = 0;

	if (resolve_index_open(index, &links[n], err) < 0)
		return -1;
	n++;
	if (v->store)
		links[n++] = resolve_store_new(v->store);
	v->resolver = n > 1 ? resolve_chain_new(links, n) : links[0];
	if (!servers->n)
		return 0;
	if (open_upstream(v, servers, data, v->resolver, err) < 0)
		return -1;
	v->resolver = resolve_chain_new((struct resolver *const[]){ v->resolver, v->upstream }, 2);
	return 0;
}

static int open_profiles(struct service *v, const struct settings *s, const char *data, struct err *err)
{
	AUTO(mem_freep)
	char *dir = s->profiles.dir ? mem_strdup(s->profiles.dir) : mem_printf("%s/profiles", data);
	const struct profilestore_options opts = { .dir = dir,
						   .max_age_ms = s->profiles.max_age_ms,
						   .max_size = s->profiles.max_size };

	/* A passive one is a guest in another's folder. */
	if (!s->profiles.on || s->scan.passive)
		return 0;
	if (profilestore_open(&opts, &v->profiles, err) < 0)
		return err_in(err, "profiles");
	return groomer_start(v->profiles, &v->groomer, err);
}

/* Without profiles it still tells the symbolizer of what is new. */
static int start_naming(struct service *v, const struct settings *s, struct err *err)
{
	bool names = v->profiles && s->profiles.symbolize_ms;
	const struct naming_options opts = { .store = names ? v->profiles : NULL,
					     .tables = v->tables,
					     .resolver = v->resolver,
					     .interval_ms = s->profiles.symbolize_ms };
	struct naming *n = naming_new(&opts);

	/* What is indexed from here on it hears of; what was before, it finds. */
	atomic_store(&v->naming, n);
	return naming_start(n, err);
}

/* Where its files lie. */
struct service_files {
	char *index, *points, *cache, *tokens;
};

static void files_done(struct service_files *f)
{
	free(f->index);
	free(f->points);
	free(f->cache);
	free(f->tokens);
}

static void files_init(struct service_files *f, const struct settings *s, const struct service_places *places)
{
	f->index = places->index ? mem_strdup(places->index) : mem_printf("%s/index.sqlite", places->data);
	f->points = mem_printf("%s/points", places->data);
	f->cache = mem_printf("%s/cache", places->data);
	f->tokens = tokens_path(s->tokens, places->data);
}

static int start_scan(struct service *v, const struct settings *s, const struct service_files *files,
		      struct err *err)
{
	struct scan_options opts = s->scan;

	opts.index_path = files->index;
	opts.points_dir = files->points;
	opts.roots = s->paths.items;
	opts.n_roots = s->paths.n;
	opts.package_suffixes = s->suffixes.items;
	opts.n_package_suffixes = s->suffixes.n;
	opts.indexed = on_indexed;
	opts.indexed_arg = v;
	return scan_new(&opts, &v->scan, err) < 0 ? -1 : scan_start(v->scan, err);
}

static int start_server(struct service *v, const struct settings *s, const struct service_files *files,
			const struct net_url_list *upstreams, struct err *err)
{
	struct server_options opts = s->server;

	opts.naming = v->profiles && s->profiles.symbolize_ms ? v->naming : NULL;
	opts.tables = v->tables;
	opts.profiles = v->profiles;
	opts.resolver = v->resolver;
	opts.store = v->store;
	opts.tokens_path = files->tokens;
	opts.scan = v->scan;
	opts.net = v->net;
	opts.upstream = v->upstream;
	opts.upstreams = upstreams->urls;
	opts.n_upstreams = upstreams->n;
	opts.index_path = files->index;
	opts.listen = s->listen.items;
	opts.n_listen = s->listen.n;
	/* A passive one is a guest in another's folder. */
	if (!opts.cache_dir && !s->scan.passive)
		opts.cache_dir = files->cache;
	if (!opts.cache_max_bytes)
		opts.cache_dir = NULL;
	if (opts.cache_max_bytes == CACHE_USUAL)
		opts.cache_max_bytes = 0;
	return server_start(&opts, &v->server, err);
}

static int start(struct service *v, struct settings *s, const struct service_places *places, struct err *err)
{
	AUTO(files_done) struct service_files files = { 0 };
	struct resolve_index_options resolve = {
		.span_cache_size = s->span_cache,
		.map_cache_size = s->map_cache,
		.sources_cache_size = s->sources_cache,
		.source_any = s->source_any,
	};
	struct tables_options symbolize = { .temp_dir = places->data };
	struct net_url_list upstreams;

	files_init(&files, s, places);
	upstream_servers(s, &upstreams);
	if (start_scan(v, s, &files, err) < 0)
		return -1;

	v->helpers = pool_new("decode", pool_cpus(), HELPERS_QUEUED);
	resolve.index_path = files.index;
	resolve.points_dir = files.points;
	resolve.scan = s->scan.passive ? NULL : v->scan;
	resolve.helpers = v->helpers;
	if (open_store(v, s, places->data, err) < 0 ||
	    open_resolvers(v, &resolve, &upstreams, places->data, err) < 0 ||
	    open_profiles(v, s, places->data, err) < 0)
		return -1;

	symbolize.resolver = v->resolver;
	symbolize.store = v->store;
	symbolize.discriminators = s->symbols.discriminators;
	v->tables = tables_new(&symbolize);
	return start_naming(v, s, err) < 0 ? -1 : start_server(v, s, &files, &upstreams, err);
}

static void stop(struct service *v)
{
	server_stop(v->server, STOP_GRACE_MS);
	tables_stop(v->tables);
	naming_stop(v->naming);
	groomer_stop(v->groomer);
	profilestore_close(v->profiles);
	tables_free(v->tables);
	/* With it all that is on its way ends; then nobody holds the resolver any more. */
	net_free(v->net);
	resolve_close(v->resolver);
	store_close(v->store);
	if (v->helpers)
		pool_free(v->helpers);
	scan_free(v->scan);
	/* Who scans and stores may have told it until now. */
	naming_free(v->naming);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* No resume points were worth making: then what is in the cache did not take long either. */
static bool nothing_to_keep(const char *data)
{
	AUTO(mem_freep) char *points = mem_printf("%s/points", data);

	return rmdir(points) == 0 || errno == ENOENT;
}

int service_run(struct settings *s, const struct service_places *places)
{
	struct service v = { .data = places->data };
	struct err err = { 0 };
	int status = EXIT_DONE;

	raise_limits();
	block_signals(&v.signals);
	/* Who only looks on shares the folder with the process that scans. */
	if ((s->scan.passive || data_lock(places->data, &err) == 0) && start(&v, s, places, &err) == 0) {
		greet(v.server);
		notify("READY=1\nSTATUS=first walk");
		wait_for_the_end(&v);
		log_info("serve", "stopping");
		notify("STOPPING=1");
	} else {
		status = tell_error("serve", &err);
	}
	let_signals_end_us(&v.signals);
	stop(&v);
	if (places->temporary || (places->tidy && !s->scan.passive && nothing_to_keep(places->data)))
		nftw(places->data, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return status;
}
