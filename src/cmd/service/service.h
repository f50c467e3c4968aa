/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings and helpers of the commands around the service: serve, debuginfod, scan, stat, store, token.
 * The other commands see nothing of the server and the scan.
 *
 *   serve.c, debuginfod.c   two sets of options for the same service
 *   service.c               starts and stops its parts; internal.h lists the files for that
 *   console.c               its status on a terminal
 *   groom.c                 the thread that sums up old profiles
 *   upstream.c              the other servers that it asks
 *   data.c                  the data directory
 *   scan.c, stat.c, store.c, token.c   commands that work on a data directory
 *   store_copy.c            the action `copy` of lode store
 *   backup.c                a copy of all that has no other copy
 *   progress.c              the progress of a scan as a line
 *   failures.c              files whose last scan failed
 */
#pragma once

#include "cmd/internal.h"
#include "s3/s3.h"
#include "server/server.h"

/* The settings of these commands, in settings.own. One struct for all, since one configuration file serves
 * all. */
struct service_settings {
	struct setting_list listen, listen_grpc, public_urls;
	struct setting_list suffixes; /* of package files */
	struct setting_list scrape;   /* files of targets */
	struct setting_list sources;  /* folders whose files are served as sources, beside the PATHs */
	/* Without roots, package_suffixes and paths of files: service.c and scan.c fill those in. */
	struct scan_options scan;
	struct server_options server; /* without listen, resolver, scan */
	uint64_t span_cache, map_cache, sources_cache;
	uint64_t memory; /* of the budget; 0: budget_usual() */
	bool source_any, discriminators;
	uint64_t min_free; /* of the disk; 0: room_new() chooses */
	struct store_settings {
		const char *dir; /* NULL: in the data directory */
		uint64_t quota, cache_size, hold_size;
		const char *signed_for, *signed_endpoint; /* uploads of clients to the bucket; NULL: none */
		bool off, keep_pushed, remove;
		unsigned parallel; /* of copy */
	} store;
	struct profile_store_settings {
		const char *dir; /* NULL: in the data directory */
		int64_t max_age_ms;
		uint64_t max_size;
		unsigned sender_share;
		int64_t symbolize_ms; /* 0: addresses get no names */
		bool on;
	} profiles;
	struct s3_options s3;
	const char *tokens; /* the file; NULL: in the data directory */
	const char *scope;  /* of a new token */
	struct upstream_settings {
		struct setting_list servers;
		bool off;
		bool by_default; /* use the default server where no option and no variable names one */
		unsigned max_misses;
		bool redirects; /* also to other hosts */
	} upstream;
	struct debuginfod_settings {
		const char *database, *address;
		unsigned port, verbosity;
	} debuginfod;
};

static inline struct service_settings *service_settings(const struct settings *s)
{
	return s->own;
}

/* As OPT_ON() and the others, for a field of struct service_settings. */
#define SERVICE_AT(type, field) OPTION_OWN_AT(struct service_settings, type, field)
#define SERVICE_ON(field)       OPTION_ON, SERVICE_AT(bool, field)
#define SERVICE_OFF(field)      OPTION_OFF, SERVICE_AT(bool, field)
#define SERVICE_TEXT(field)     OPTION_TEXT, SERVICE_AT(const char *, field)
#define SERVICE_LIST(field)     OPTION_LIST, SERVICE_AT(struct setting_list, field)
#define SERVICE_NUMBER(field)   OPTION_NUMBER, SERVICE_AT(unsigned, field)
#define SERVICE_SIZE(field)     OPTION_SIZE, SERVICE_AT(uint64_t, field)
#define SERVICE_SECONDS(field)  OPTION_SECONDS, SERVICE_AT(int64_t, field)
#define SERVICE_MS(field)       OPTION_MS, SERVICE_AT(int64_t, field)

/* Shared by commands, so that one configuration file serves them all. */
extern const struct option_group group_state, group_scanning, group_upstream, group_bucket;

/* ---- data.c: the data directory ---- */

/* The data directory: @given (--data, $LODE_DATA), else /var/lib/lode for root, else $XDG_STATE_HOME/lode or
 * ~/.local/state/lode. Heap; NULL: there is none to choose. */
char *data_dir(const char *given, struct err *err);
/* Add this machine's own folders of programs, libraries and debug files to s->paths, those that exist. */
void add_own_files(struct settings *s);
/* The path of the file of tokens: @given, or the one in @data. Heap. */
char *tokens_path(const char *given, const char *data);
/* Lock the data directory for this process, until exit. @option names it, for messages. */
int data_lock(const char *data, const char *option, struct err *err);
void data_remove(const char *data); /* with its content, by the process that has the lock */

/* ---- store.c ---- */

/* Print an object or content with its fault, after @outcome ("not copied: "; may be empty), and add it to the array @bad. */
void report_bad_object(struct json_writer *bad, const char *outcome, struct str what, const struct err *why);

/* ---- store_copy.c ---- */

/* From the store paths.items[1] to items[2]. Returns the exit status. */
int store_copy_command(const struct settings *s);
struct store_copy_names {
	const char *from, *to;
	const char *local; /* for a store in a bucket; NULL: none */
	bool backup;       /* store_copy_options.backup */
};
struct store_copied {
	bool begun; /* both stores were opened; else the rest is empty */
	bool whole;
	struct store_copy_result result;
	struct buf bad; /* a JSON array; the caller's to free, also after a failure */
};
/* With progress on a terminal, and a line for each object that is not copied, on stderr. */
int store_copy_all(const struct store_copy_names *names, unsigned parallel, struct store_copied *ret,
		   struct err *err);
void store_copied_print(const struct store_copy_result *r);
void store_copied_put(struct json_writer *j,
		      const struct store_copied *c); /* the members of an open object */
bool is_same_folder(const char *a, const char *b);

/* ---- failures.c ---- */

/* A selection of the index's failed files. */
struct failures_query {
	const struct str *roots; /* real paths: only files at or below one of them; n_roots 0: all */
	size_t n_roots;
	size_t max; /* that are listed; all are counted */
};
struct failures {
	struct failure {
		struct str path, reason; /* in the arena */
		enum err_kind kind;
		int64_t tries, next_try_s; /* wall time; 0: when the file changes */
	} * v;
	size_t n_listed, room;
	uint64_t n; /* all that match */
	struct arena arena;
};
/* The files of the index whose last scan failed, by the ids of their paths. */
int failures_collect(struct index *ix, const struct failures_query *q, struct failures *ret, struct err *err);
void failures_done(struct failures *f); /* takes the zeroed */
/* Add the array "failures" to the open object of @out. */
void failures_put(struct json_writer *out, const struct failures *f);

/* ---- progress.c ---- */

/* Append the progress of a scan, without a newline. */
void scan_progress_line(const struct scan_progress *p, struct buf *out);

/* ---- upstream.c ---- */

/* The servers to ask, by options, environment, default; in the settings' arena. Logs a warning for a text
 * that is not a URL. *ret_default: it is the default server, which nobody chose. */
void upstream_servers(struct settings *s, struct net_url_list *ret, bool *ret_default);
/* Load the breakers' states that an earlier process wrote to the file `servers` of @data. Returns the epoch
 * for upstream_save_states(), which writes the file if they have changed since. */
uint64_t upstream_load_states(struct net *net, const char *data);
void upstream_save_states(struct net *net, const char *data, uint64_t *epoch);

/* ---- service.c ---- */

/*
 * The defaults of both commands. server.cache_max_bytes: with CACHE_USUAL the server decides; 0 is no cache.
 */
#define CACHE_USUAL UINT64_MAX
void service_defaults(struct settings *s);

struct service_places {
	const char *data;       /* folder for lock, resume points, cache */
	const char *index;      /* NULL: in data */
	bool temporary;         /* the folder is removed when the service ends */
	bool tidy;              /* the same, unless it has points, objects or tokens */
	const char *command;    /* its name, for messages */
	const char *option;     /* that names the folder, likewise */
	const char *other_port; /* an example of the option for another port, likewise */
};
/* Start scan, resolver and server, print where the page is, run until a signal, stop. Returns the exit
 * status. */
int service_run(struct settings *s, const struct service_places *places);
