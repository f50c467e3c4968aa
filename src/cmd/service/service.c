/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service that `lode serve` and `lode debuginfod` run. Scan, resolver and server are started in that
 * order and stopped in the reverse one; the main thread takes the signals.
 */
#include "cmd/service/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/folder.h"
#include "cmd/service/groom.h"
#include "s3/s3.h"
#include "store/incoming.h"

#define STOP_GRACE_MS   5000
#define TICK_MS         100  /* until the first scan is over, and with a console */
#define SAVE_EVERY_MS   1000 /* the states of other servers, if they have changed */
#define HELPERS_QUEUED  64
#define HELPERS_WAITING 64 /* for object storage */

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

static bool is_ready(struct service *v)
{
	struct scan_progress p;

	scan_progress(v->scan, &p);
	if (!p.ready)
		return false;
	system_notify("STATUS=ready");
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

static int service_start(struct service *v, struct settings *s, const struct service_places *places,
			 struct err *err)
{
	AUTO(parts_files_done) struct service_files files = { 0 };
	const struct service_settings *o = service_settings(s);
	struct resolve_index_options resolve = {
		.span_cache_size = o->span_cache,
		.map_cache_size = o->map_cache,
		.sources_cache_size = o->sources_cache,
		.source_any = o->source_any,
	};
	struct tables_options tables = { .temp_dir = places->data };

	resolve.source_roots = parts_source_roots(s, &resolve.n_source_roots);
	parts_files_init(&files, s, places);
	resolve.memory = v->memory = budget_new(o->memory);
	v->room = room_new(o->min_free);
	upstream_servers(s, &v->upstreams, &v->upstreams_default);
	if (parts_start_scan(v, s, &files, err) < 0)
		return -1;

	v->helpers = pool_new("decode", pool_cpus(), HELPERS_QUEUED);
	pool_permit_waiting(v->helpers, HELPERS_WAITING);
	resolve.index_path = files.index;
	resolve.points_dir = files.points;
	if (v->facts) {
		resolve.fetch_points = facts_points;
		resolve.fetch_points_arg = v->facts;
	}
	resolve.scan = o->scan.passive ? NULL : v->scan;
	resolve.helpers = v->helpers;
	if (parts_open_store(v, s, places->data, err) < 0 ||
	    parts_open_resolvers(v, s, &resolve, places->data, err) < 0 ||
	    parts_open_profiles(v, s, places->data, err) < 0)
		return -1;

	tables.memory = v->memory;
	tables.resolver = v->resolver;
	tables.store = v->store;
	tables.room = v->room;
	tables.discriminators = o->discriminators;
	v->tables = tables_new(&tables);
	if (parts_start_naming(v, s, err) < 0 || parts_start_server(v, s, &files, err) < 0)
		return -1;
	return v->facts ? facts_start(v->facts, v->scan, err) : 0;
}

static void service_stop(struct service *v)
{
	s3_shared_stop(STOP_GRACE_MS);
	facts_stop(v->facts);
	server_stop(v->server, STOP_GRACE_MS);
	tables_stop(v->tables);
	naming_stop(v->naming);
	groomer_stop(v->groomer);
	profilestore_close(v->profiles);
	tables_free(v->tables);
	/* Ends all fetches; after that nothing refers to the resolver. */
	net_free(v->net);
	resolve_close(v->resolver);
	facts_free(v->facts);
	incoming_close(v->incoming);
	store_close(v->store);
	room_free(v->room);
	if (v->helpers)
		pool_free(v->helpers);
	scan_free(v->scan);
	/* Scan and store may have notified it until now. */
	naming_free(v->naming);
	budget_free(v->memory);
}

/* A folder that cannot be read counts as one with entries. */
static bool has_entries(const char *data, const char *name)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", data, name);

	return (access(path, F_OK) == 0 || errno != ENOENT) && !folder_is_empty(path);
}

/*
 * All files of the folder are cheap to make again: no pushed or fetched files, no tokens, and no resume points. If no
 * package needed these, the content of the cache was cheap to make, too.
 */
static bool is_worth_nothing(const char *data)
{
	AUTO(mem_freep) char *tokens = tokens_path(NULL, data);

	return !has_entries(data, "points") && !has_entries(data, "store/data") && access(tokens, F_OK) < 0 &&
	       errno == ENOENT;
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
	return tell_error(places->command, &e);
}

int service_run(struct settings *s, const struct service_places *places)
{
	bool passive = service_settings(s)->scan.passive;
	struct service v = { .data = places->data, .console = console_new(s->verbose) };
	struct err err = { 0 };
	int status = EXIT_DONE;
	bool locked;

	mem_return_early();
	system_raise_file_limit();
	system_block_signals(&v.signals);
	/* A passive service shares the folder with the process that scans. */
	locked = !passive && data_lock(places->data, places->option, &err) == 0;
	if ((passive || locked) && service_start(&v, s, places, &err) == 0) {
		greeting_print(&v);
		system_notify("READY=1\nSTATUS=first walk");
		wait_for_signal(&v);
		log_info("serve", "stopping");
		console_stopping(v.console);
		system_notify("STOPPING=1");
	} else {
		status = tell_start_error(&err, places);
	}
	system_unblock_signals(&v.signals);
	service_stop(&v);
	console_free(v.console);
	free(v.url);
	free(v.profiles_why);
	/* Without the lock it is another process's. */
	if (places->temporary || (places->tidy && locked && is_worth_nothing(places->data)))
		data_remove(places->data);
	return status;
}
