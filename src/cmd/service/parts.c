/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the service, each made of the settings.
 */
#include "cmd/service/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/service/groom.h"
#include "index/index.h"
#include "s3/s3.h"
#include "store/incoming.h"

#define MAX_FETCHES    64 /* from other servers, at once */
#define MAX_PER_SERVER 16
#define STORE_TRIES    4 /* of opening the profile store while the disk has I/O errors */
#define STORE_RETRY_US 500000

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

/* Uploads of clients to the store's bucket. */
static int open_incoming(struct service *v, const struct store_settings *o, const char *dir, struct err *err)
{
	static const struct {
		const char *name;
		unsigned clients;
	} words[] = { { "push", DIRECT_FOR_PUSH },
		      { "parca", DIRECT_FOR_PARCA },
		      { "all", DIRECT_FOR_PUSH | DIRECT_FOR_PARCA } };

	if (!o->signed_for && o->signed_endpoint)
		return err_set(err, ERR_INVALID, "--signed-endpoint is for --signed-uploads");
	if (!o->signed_for)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(o->signed_for, words[i].name) == 0)
			v->incoming_for = words[i].clients;
	if (!v->incoming_for)
		return err_set(err, ERR_INVALID, "--signed-uploads '%s': not one of push, parca, all",
			       o->signed_for);
	if (!s3_is_url(str_of(dir)))
		return err_set(err, ERR_INVALID, "--signed-uploads is for a store in a bucket: see --store");
	return incoming_open(dir, o->signed_endpoint, &v->incoming, err) < 0 ? err_in(err, "--signed-uploads")
									     : 0;
}

int parts_open_store(struct service *v, const struct settings *s, const char *data, struct err *err)
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
					    .hold_size = o->hold_size,
					    .maintain = true,
					    .object_list = true,
					    .committed = on_committed,
					    .committed_arg = v };

	if (o->hold_size && !o->off && !s3_is_url(str_of(dir)))
		return err_set(err, ERR_INVALID, "--keep-pushes is for a store in a bucket: see --store");
	if (o->off)
		return 0;
	return store_open(dir, &opts, &v->store, err) < 0 ? -1 : open_incoming(v, o, dir, err);
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

int parts_open_resolvers(struct service *v, const struct settings *s,
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

int parts_open_profiles(struct service *v, const struct settings *s, const char *data, struct err *err)
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

int parts_start_naming(struct service *v, const struct settings *s, struct err *err)
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

void parts_files_done(struct service_files *f)
{
	free(f->data);
	free(f->index);
	free(f->points);
	free(f->cache);
	free(f->tokens);
}

void parts_files_init(struct service_files *f, const struct settings *s, const struct service_places *places)
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

/* Only of buckets: facts of a node's own disk are of no use to others. */
static int take_facts(struct service *v, const struct settings *s, const struct service_files *files,
		      struct err *err)
{
	const struct service_settings *o = service_settings(s);
	const struct facts_options opts = { .store = o->store.dir,
					    .index_path = files->index,
					    .points_dir = files->points,
					    .temp_dir = files->data,
					    .roots = s->paths.items,
					    .n_roots = s->paths.n,
					    .room = v->room };

	if (o->scan.passive || o->store.off || !o->store.dir || !s3_is_url(str_of(o->store.dir)))
		return 0;
	if (facts_new(&opts, &v->facts, err) < 0)
		return -1;
	facts_take(v->facts);
	return 0;
}

int parts_start_scan(struct service *v, const struct settings *s, const struct service_files *files,
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
	if (take_facts(v, s, files, err) < 0)
		return -1;
	if (v->facts)
		opts.store = facts_store(v->facts);
	return scan_new(&opts, &v->scan, err) < 0 ? -1 : scan_start(v->scan, err);
}

int parts_start_server(struct service *v, const struct settings *s, const struct service_files *files,
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
	opts.incoming = v->incoming;
	opts.incoming_for = v->incoming_for;
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

const char **parts_source_roots(struct settings *s, size_t *ret_n)
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
