/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service that `lode serve` and `lode debuginfod` run. Scan, resolver and server are started in that
 * order and stopped in the reverse one; the main thread takes the signals.
 */
#include "cmd/service/service.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "cmd/service/console.h"
#include "cmd/service/groom.h"
#include "index/index.h"
#include "naming/naming.h"
#include "s3/s3.h"

#define STOP_GRACE_MS   5000
#define TICK_MS         100  /* until the first scan is over, and with a console */
#define SAVE_EVERY_MS   1000 /* the states of other servers, if they have changed */
#define HELPERS_QUEUED  64
#define HELPERS_WAITING 64 /* for object storage */
#define MAX_FETCHES     64 /* from other servers, at once */
#define MAX_PER_SERVER  16
#define STORE_TRIES     4 /* of opening the profile store while the disk has I/O errors */
#define STORE_RETRY_US  500000

struct service {
	struct console *console; /* NULL: none */
	char *url;               /* for this machine, without the slash at its end; NULL: none */
	struct scan *scan;
	struct store *store; /* NULL: none */
	struct room *room;
	struct net *net; /* NULL: no other server is asked */
	struct net_url_list upstreams;
	bool upstreams_default;    /* the default server, which nobody chose */
	struct resolver *upstream; /* belongs to the resolver; NULL: none */
	struct resolver *resolver;
	struct tables *tables;
	struct profilestore *profiles; /* NULL: no profiles are accepted */
	char *profiles_why;            /* the store could not be opened; NULL: it was not to be */
	struct groomer *groomer;
	_Atomic(struct naming *) naming; /* notified of new files; NULL until it is made */
	struct server *server;
	struct pool *helpers; /* decode ahead */
	struct budget *memory;
	const char *data;
	uint64_t states_epoch; /* of the other servers' states, when they were saved */
	sigset_t signals;
};

void service_defaults(struct settings *s)
{
	struct service_settings *o = service_settings(s);

	o->scan.rescan_s = 300;
	o->scan.groom_s = 86400;
	o->server.access_log = true;
	o->server.max_connections_per_ip = CONNECTIONS_USUAL;
	o->server.min_rate = 1024;
	o->server.max_uploads_per_token = 32;
	o->server.body_deadline_ms = 600000;
	o->server.unread_wait_s = 750;
	o->server.redirect_ms = 25000;
	o->server.cache_max_bytes = CACHE_USUAL;
	o->server.forwarded_ttl_limit = 8;
	o->upstream.max_misses = 300;
	o->store.cache_size = UINT64_C(10) << 30;
}

/* sd_notify(3): one datagram to the socket that systemd names. */
static void notify_systemd(const char *state)
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

static void raise_file_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= r.rlim_max)
		return;
	r.rlim_cur = MIN(r.rlim_max, (rlim_t)1 << 20);
	if (setrlimit(RLIMIT_NOFILE, &r) != 0)
		log_warn("serve", "the limit of open files could not be raised: %s", strerror(errno));
}

/*
 * Called before any thread is made, since threads inherit the mask. SIGINT stops the service even if it was
 * ignored at the start, as it is for a script's background jobs; SIGHUP does not, for nohup.
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
	/* At a limit of file size a write fails with EFBIG, like one to a full disk. */
	signal(SIGXFSZ, SIG_IGN);
}

/* While the service stops in order, a second signal ends the process at once. */
static void unblock_signals(const sigset_t *set)
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
	notify_systemd("STATUS=ready");
	return true;
}

static void wait_for_signal(struct service *v)
{
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
	const struct timespec second = { .tv_sec = SAVE_EVERY_MS / 1000 };
	bool ready = false;

	for (;;) {
		int sig = sigtimedwait(&v->signals, NULL,
				       !ready || v->console ? &tick
				       : v->net             ? &second
							    : NULL);

		if (!ready)
			ready = is_ready(v);
		console_tick(v->console);
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

/* A URL of the service for this machine: "all addresses" is not one that a browser can open. Heap. */
static char *local_url(const char *url)
{
	static const char *const all[] = { "//[::]:", "//0.0.0.0:" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const char *at = strstr(url, all[i]);

		if (at)
			return mem_printf("%.*s//localhost:%s", (int)(at - url), url, at + strlen(all[i]));
	}
	return mem_strdup(url);
}

/* Say which data leaves this machine, and how to stop that. */
static void greet_upstreams(const struct service *v)
{
	AUTO(buf_done) struct buf names = { 0 };
	struct arena a;

	if (!v->upstreams.n)
		return;
	arena_init(&a);
	for (size_t i = 0; i < v->upstreams.n; i++) {
		struct str shown = net_url_shown(str_of(v->upstreams.urls[i]), &a);

		buf_printf(&names, "%s" STR_FMT, i ? ", " : "", STR_ARG(shown));
	}
	arena_done(&a);
	printf("lode: files that are not here are requested from %s: build IDs and names of sources and "
	       "sections are "
	       "sent there%s; --no-upstream turns that off\n",
	       buf_cstr(&names),
	       v->upstreams_default ? ", no addresses of clients" : ", and addresses of clients");
}

static void greet(struct service *v)
{
	const char *const *urls = server_urls(v->server);
	struct console_sources from = { .scan = v->scan, .net = v->net, .profiles = v->profiles };

	for (size_t i = 0; urls[i]; i++) {
		bool is_unix = str_starts(str_of(urls[i]), STR("unix:"));

		if (!is_unix && !v->url)
			from.url = v->url = local_url(urls[i]);
		printf("lode: listening at %s%s\n", urls[i], is_unix ? "" : "/");
	}
	urls = server_grpc_urls(v->server);
	for (size_t i = 0; urls[i]; i++)
		printf("lode: listening for gRPC at %s\n", urls[i]);
	if (v->url)
		printf("lode: for gdb, perf and others: export DEBUGINFOD_URLS=%s\n", v->url);
	greet_upstreams(v);
	fflush(stdout);
	console_started(v->console, &from);
}

/* ---- new files ---- */

static void on_indexed(void *arg, const struct build_id *id, struct str path)
{
	struct service *v = arg;
	struct naming *n = atomic_load(&v->naming);

	if (n)
		naming_wake(n, id, path, false);
}

/* Profiles may know the file by its aliases alone. */
static void wake_names(struct naming *n, const struct store_key *key, const struct store_meta *meta,
		       bool replaced)
{
	naming_wake(n, &key->id, meta->file, replaced);
	if (meta->go.size)
		naming_wake(n, &meta->go, meta->file, replaced);
	for (size_t i = 0; i < STORE_MAX_HASHES && meta->hashes[i].size; i++)
		naming_wake(n, &meta->hashes[i], meta->file, replaced);
}

static void on_committed(void *arg, const struct store_key *key, const struct store_meta *meta, bool replaced)
{
	struct service *v = arg;
	struct naming *n = atomic_load(&v->naming);

	if (meta->origin == STORE_PUSHED)
		console_pushed(v->console, key, meta);
	/* Sources may have split files with them. */
	if (n &&
	    (key->kind == STORE_DEBUGINFO || key->kind == STORE_EXECUTABLE || key->kind == STORE_SOURCES))
		wake_names(n, key, meta, replaced && key->kind != STORE_SOURCES);
}

/* ---- starting ---- */

static int open_store(struct service *v, const struct settings *s, const char *data, struct err *err)
{
	const struct store_settings *o = &service_settings(s)->store;
	AUTO(mem_freep) char *dir = o->dir ? mem_strdup(o->dir) : mem_printf("%s/store", data);
	AUTO(mem_freep) char *local = mem_printf("%s/bucket", data);
	const struct store_options opts = { .quota = o->quota,
					    .room = v->room,
					    .keep_pushed = o->keep_pushed,
					    .create = true,
					    .local_dir = local,
					    .cache_size = o->cache_size,
					    .maintain = true,
					    .object_list = true,
					    .committed = on_committed,
					    .committed_arg = v };

	return o->off ? 0 : store_open(dir, &opts, &v->store, err);
}

static int open_upstream(struct service *v, const struct settings *s, const char *data,
			 struct resolver *before, struct err *err)
{
	const struct upstream_settings *o = &service_settings(s)->upstream;
	const int64_t unread_s = MIN(service_settings(s)->server.unread_wait_s, (int64_t)86400);
	const struct net_options net = { .max_fetches = MAX_FETCHES,
					 .max_per_server = MAX_PER_SERVER,
					 .redirects = o->redirects ? NET_REDIRECT_ANY_HOST
								   : NET_REDIRECT_SAME_HOST };
	AUTO(mem_freep) char *spool = mem_printf("%s/spool", data);
	struct resolve_upstream_options opts = {
		.urls = v->upstreams.urls,
		.n_urls = v->upstreams.n,
		.store = v->store,
		.spool_dir = spool,
		.room = v->room,
		.before = before,
		.max_misses = o->max_misses,
		.patience.unread_ms = unread_s ? (unsigned)unread_s * 1000 : UINT32_MAX,
	};

	if (net_new(&net, &v->net, err) < 0 || net_start_thread(v->net, err) < 0)
		return -1;
	v->states_epoch = upstream_load_states(v->net, data);
	opts.net = v->net;
	return resolve_upstream_open(&opts, &v->upstream, err);
}

/* The resolvers in the order in which they are asked: the index, the store, other servers. */
static int open_resolvers(struct service *v, const struct settings *s,
			  const struct resolve_index_options *index, const char *data, struct err *err)
{
	struct resolver *links[RESOLVE_MAX_LINKS];
	size_t n = 0;

	if (resolve_index_open(index, &links[n], err) < 0)
		return -1;
	n++;
	if (v->store)
		links[n++] = resolve_store_new(v->store);
	v->resolver = n > 1 ? resolve_chain_new(links, n) : links[0];
	if (!v->upstreams.n)
		return 0;
	if (open_upstream(v, s, data, v->resolver, err) < 0)
		return -1;
	v->resolver = resolve_chain_new((struct resolver *const[]){ v->resolver, v->upstream }, 2);
	return 0;
}

static void on_profile_notice(void *arg, enum log_level level, const char *text)
{
	log_at(level, "profiles", "%s", text);
}

/* Try again if the disk does not give the data now: without a store there are no profiles until the next start. */
static int open_profile_store(const struct profilestore_options *o, struct profilestore **ret,
			      struct err *err)
{
	for (int i = 1;; i++) {
		int r = profilestore_open(o, ret, err);

		if (r == 0 || err->os != EIO || i == STORE_TRIES)
			return r;
		log_warn("profiles", "%s: trying again", err->text);
		usleep(STORE_RETRY_US);
	}
}

static int open_profiles(struct service *v, const struct settings *s, const char *data, struct err *err)
{
	const struct profile_store_settings *o = &service_settings(s)->profiles;
	AUTO(mem_freep) char *dir = o->dir ? mem_strdup(o->dir) : mem_printf("%s/profiles", data);
	const struct profilestore_options opts = { .dir = dir,
						   .max_age_ms = o->max_age_ms,
						   .max_size = o->max_size,
						   .sender_share = o->sender_share,
						   .no_names = !o->symbolize_ms,
						   .memory = v->memory,
						   .notice = on_profile_notice };

	/* A passive service only reads: the folder belongs to another process. */
	if (!o->on || service_settings(s)->scan.passive)
		return 0;
	if (open_profile_store(&opts, &v->profiles, err) < 0) {
		v->profiles = NULL;
		/* A folder of another program or of a newer version is a mistake in the configuration. */
		if (err->kind == ERR_INVALID)
			return err_in(err, "profiles");
		/* Debug files are served all the same. */
		v->profiles_why = mem_strdup(err->text);
		log_error("profiles", "%s: no profiles are accepted or shown until the next start",
			  err->text);
		return 0;
	}
	profilestore_check_start(v->profiles);
	return groomer_start(v->profiles, &v->groomer, err);
}

/* Without profiles, too: naming also notifies the tables of new files. */
static int start_naming(struct service *v, const struct settings *s, struct err *err)
{
	bool names = v->profiles && service_settings(s)->profiles.symbolize_ms;
	const struct naming_options opts = { .store = names ? v->profiles : NULL,
					     .tables = v->tables,
					     .resolver = v->resolver,
					     .interval_ms = service_settings(s)->profiles.symbolize_ms };
	struct naming *n = naming_new(&opts);

	/* From here on it is notified of new files; those indexed before, it finds by itself. */
	atomic_store(&v->naming, n);
	return naming_start(n, err);
}

/* Paths of its files. */
struct service_files {
	char *data, *index, *points, *cache, *tokens;
};

static void files_done(struct service_files *f)
{
	free(f->data);
	free(f->index);
	free(f->points);
	free(f->cache);
	free(f->tokens);
}

static void files_init(struct service_files *f, const struct settings *s, const struct service_places *places)
{
	f->data = mem_strdup(places->data);
	f->index = places->index ? mem_strdup(places->index) : mem_printf("%s/index.sqlite", places->data);
	f->points = mem_printf("%s/points", places->data);
	f->cache = mem_printf("%s/cache", places->data);
	f->tokens = tokens_path(service_settings(s)->tokens, places->data);
}

/* A damaged index stops nothing: the scan makes it anew. */
static int mend_index(const char *path, struct err *err)
{
	AUTO(mem_freep) char *aside = NULL;
	struct err why = { 0 };

	if (index_mend(path, &aside, &why) < 0) {
		*err = why;
		return -1;
	}
	if (aside)
		log_error("index", "%s: set aside as %s; the folders are scanned again", why.text, aside);
	return 0;
}

static int start_scan(struct service *v, const struct settings *s, const struct service_files *files,
		      struct err *err)
{
	const struct service_settings *o = service_settings(s);
	struct scan_options opts = o->scan;

	opts.index_path = files->index;
	opts.points_dir = files->points;
	opts.roots = s->paths.items;
	opts.n_roots = s->paths.n;
	opts.package_suffixes = o->suffixes.items;
	opts.n_package_suffixes = o->suffixes.n;
	opts.indexed = on_indexed;
	opts.indexed_arg = v;
	if (!o->scan.passive && mend_index(files->index, err) < 0)
		return -1;
	return scan_new(&opts, &v->scan, err) < 0 ? -1 : scan_start(v->scan, err);
}

static int start_server(struct service *v, const struct settings *s, const struct service_files *files,
			struct err *err)
{
	const struct service_settings *o = service_settings(s);
	struct server_options opts = o->server;

	opts.naming = v->profiles && o->profiles.symbolize_ms ? v->naming : NULL;
	opts.memory = v->memory;
	opts.tables = v->tables;
	opts.profiles = v->profiles;
	opts.profiles_why = v->profiles_why;
	opts.resolver = v->resolver;
	opts.store = v->store;
	opts.room = v->room;
	opts.temp_dir = files->data;
	opts.tokens_path = files->tokens;
	opts.scan = v->scan;
	opts.net = v->net;
	opts.upstream = v->upstream;
	opts.upstreams = v->upstreams.urls;
	opts.n_upstreams = v->upstreams.n;
	opts.hide_clients = v->upstreams_default;
	opts.index_path = files->index;
	opts.listen = o->listen.items;
	opts.n_listen = o->listen.n;
	opts.scrape_files = o->scrape.items;
	opts.n_scrape_files = o->scrape.n;
	opts.listen_grpc = o->listen_grpc.items;
	opts.n_listen_grpc = o->listen_grpc.n;
	opts.public_urls = o->public_urls.items;
	opts.n_public_urls = o->public_urls.n;
	/* The console has no room for a line a request. */
	opts.access_log = opts.access_log && !v->console;
	/* A passive service only reads: the folder belongs to another process. */
	if (!opts.cache_dir && !o->scan.passive)
		opts.cache_dir = files->cache;
	if (!opts.cache_max_bytes)
		opts.cache_dir = NULL;
	if (opts.cache_max_bytes == CACHE_USUAL)
		opts.cache_max_bytes = 0;
	return server_start(&opts, &v->server, err);
}

/* The folders whose files are served as sources; in the settings' arena. */
static const char **source_roots(struct settings *s, size_t *ret_n)
{
	const struct setting_list *more = &service_settings(s)->sources;
	const char **list = ARENA_NEW_N(&s->arena, const char *, s->paths.n + more->n + 1);
	size_t n = 0;

	for (size_t i = 0; i < s->paths.n; i++)
		if (!s3_is_url(s->paths.items[i]))
			list[n++] = s->paths.items[i].p;
	for (size_t i = 0; i < more->n; i++)
		list[n++] = more->items[i].p;
	list[n++] = "/usr/include";
	*ret_n = n;
	return list;
}

static int service_start(struct service *v, struct settings *s, const struct service_places *places,
			 struct err *err)
{
	AUTO(files_done) struct service_files files = { 0 };
	const struct service_settings *o = service_settings(s);
	struct resolve_index_options resolve = {
		.span_cache_size = o->span_cache,
		.map_cache_size = o->map_cache,
		.sources_cache_size = o->sources_cache,
		.source_any = o->source_any,
	};
	struct tables_options tables = { .temp_dir = places->data };

	resolve.source_roots = source_roots(s, &resolve.n_source_roots);
	files_init(&files, s, places);
	resolve.memory = v->memory = budget_new(o->memory);
	v->room = room_new(o->min_free);
	upstream_servers(s, &v->upstreams, &v->upstreams_default);
	if (start_scan(v, s, &files, err) < 0)
		return -1;

	v->helpers = pool_new("decode", pool_cpus(), HELPERS_QUEUED);
	pool_permit_waiting(v->helpers, HELPERS_WAITING);
	resolve.index_path = files.index;
	resolve.points_dir = files.points;
	resolve.scan = o->scan.passive ? NULL : v->scan;
	resolve.helpers = v->helpers;
	if (open_store(v, s, places->data, err) < 0 ||
	    open_resolvers(v, s, &resolve, places->data, err) < 0 ||
	    open_profiles(v, s, places->data, err) < 0)
		return -1;

	tables.memory = v->memory;
	tables.resolver = v->resolver;
	tables.store = v->store;
	tables.room = v->room;
	tables.discriminators = o->discriminators;
	v->tables = tables_new(&tables);
	return start_naming(v, s, err) < 0 ? -1 : start_server(v, s, &files, err);
}

static void service_stop(struct service *v)
{
	s3_shared_stop(STOP_GRACE_MS);
	server_stop(v->server, STOP_GRACE_MS);
	tables_stop(v->tables);
	naming_stop(v->naming);
	groomer_stop(v->groomer);
	profilestore_close(v->profiles);
	tables_free(v->tables);
	/* Ends all fetches; after that nothing refers to the resolver. */
	net_free(v->net);
	resolve_close(v->resolver);
	store_close(v->store);
	room_free(v->room);
	if (v->helpers)
		pool_free(v->helpers);
	scan_free(v->scan);
	/* Scan and store may have notified it until now. */
	naming_free(v->naming);
	budget_free(v->memory);
}

static int remove_service_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* No package needed resume points: then the content of the cache was cheap to make, too. */
static bool has_no_points(const char *data)
{
	AUTO(mem_freep) char *points = mem_printf("%s/points", data);

	return rmdir(points) == 0 || errno == ENOENT;
}

static int tell_start_error(const struct err *err, const struct service_places *places)
{
	struct err e = *err;

	if (err->os == EADDRINUSE)
		(void)err_set(&e, ERR_IO,
			      "%s: another program listens there; stop it, or choose another port, as %s",
			      err->text, places->other_port);
	else if (err->os == EADDRNOTAVAIL)
		(void)err_set(&e, ERR_IO,
			      "%s: this machine does not have it; ip addr lists those that it has",
			      err->text);
	return tell_error("serve", &e);
}

int service_run(struct settings *s, const struct service_places *places)
{
	bool passive = service_settings(s)->scan.passive;
	struct service v = { .data = places->data, .console = console_new(s->verbose) };
	struct err err = { 0 };
	int status = EXIT_DONE;

	mem_return_early();
	raise_file_limit();
	block_signals(&v.signals);
	/* A passive service shares the folder with the process that scans. */
	if ((passive || data_lock(places->data, &err) == 0) && service_start(&v, s, places, &err) == 0) {
		greet(&v);
		notify_systemd("READY=1\nSTATUS=first walk");
		wait_for_signal(&v);
		log_info("serve", "stopping");
		console_stopping(v.console);
		notify_systemd("STOPPING=1");
	} else {
		status = tell_start_error(&err, places);
	}
	unblock_signals(&v.signals);
	service_stop(&v);
	console_free(v.console);
	free(v.url);
	free(v.profiles_why);
	if (places->temporary || (places->tidy && !passive && has_no_points(places->data)))
		nftw(places->data, remove_service_file, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return status;
}
