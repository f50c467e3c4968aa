/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the service: what its files share.
 *
 *   service.c   starts the parts in order, waits for signals, stops the parts
 *   parts.c     each part, made of the settings
 *   greeting.c  the lines at the start
 *   system.c    signals, limits, systemd
 */
#pragma once

#include <signal.h>
#include "cmd/service/console.h"
#include "cmd/service/service.h"
#include "facts/facts.h"
#include "naming/naming.h"

struct service {
	struct console *console; /* NULL: none */
	char *url;               /* for this machine, without the slash at its end; NULL: none */
	struct scan *scan;
	struct store *store;       /* NULL: none */
	struct incoming *incoming; /* uploads of clients to its bucket; NULL: none */
	unsigned incoming_for;     /* of DIRECT_FOR_... */
	struct facts *facts;       /* NULL: the store is not in a bucket */
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

/* Paths of its files. */
struct service_files {
	char *data, *index, *points, *cache, *tokens;
};

/* ---- parts.c ---- */

void parts_files_init(struct service_files *f, const struct settings *s, const struct service_places *places);
void parts_files_done(struct service_files *f);
int parts_start_scan(struct service *v, const struct settings *s, const struct service_files *files,
		     struct err *err);
int parts_open_store(struct service *v, const struct settings *s, const char *data, struct err *err);
/* The resolvers in the order in which they are asked: the index, the store, other servers. */
int parts_open_resolvers(struct service *v, const struct settings *s,
			 const struct resolve_index_options *index, const char *data, struct err *err);
int parts_open_profiles(struct service *v, const struct settings *s, const char *data, struct err *err);
/* Without profiles, too: naming also notifies the tables of new files. */
int parts_start_naming(struct service *v, const struct settings *s, struct err *err);
int parts_start_server(struct service *v, const struct settings *s, const struct service_files *files,
		       struct err *err);
/* The folders whose files are served as sources; in the settings' arena. */
const char **parts_source_roots(struct settings *s, size_t *ret_n);

/* ---- greeting.c ---- */

/* Print the addresses of the service, and the data that leaves this machine. */
void greeting_print(struct service *v);

/* ---- system.c ---- */

/* sd_notify(3): one datagram to the socket that systemd names. */
void system_notify(const char *state);
void system_raise_file_limit(void);
/*
 * Called before any thread is made, since threads inherit the mask. SIGINT stops the service even if it was
 * ignored at the start, as it is for a script's background jobs; SIGHUP does not, for nohup.
 */
void system_block_signals(sigset_t *set);
/* While the service stops in order, a second signal ends the process at once. */
void system_unblock_signals(const sigset_t *set);
