/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulling profiles: what its files share. docs/scrape.md is the user's page.
 *
 *   file.c      a file of targets, parsed: groups, targets, labels
 *   settings.c  the settings of a group of targets
 *   schedule.c  when a profile is pulled next (pure functions)
 *   endpoints.c the table of pulled endpoints, kept when a file changes
 *   watch.c     the files: read again when they change
 *   request.c   the URL and the headers of a request
 *   pull.c      one pull: the request, its answer, the profile to the store
 *   scrape.c    the thread that begins pulls; start and stop
 *   show.c      /api/targets, figures
 *
 * An *endpoint* is one profile of one target. The thread lode-scrape begins the pull of each that is due; a `struct net`
 * of its own transfers; a worker parses and gives the profile to the store (intake/take.c), as those that clients send.
 */
#pragma once

#include "net/net.h"
#include "profile/profile.h"
#include "profilestore/profilestore.h"
#include "server/scrape/scrape.h"

#define SCRAPE_MAX_FILE      MIB(16)
#define SCRAPE_MAX_PROFILES  16u      /* of one target */
#define SCRAPE_MAX_ENDPOINTS 16384u   /* profiles of all targets */
#define SCRAPE_MAX_ANSWER    MIB(64)  /* of one pull, decompressed by HTTP: as of a body that is sent */
#define SCRAPE_MAX_ANSWERS   MIB(256) /* memory of all answers that are being received */
#define SCRAPE_MAX_BASES     MIB(256) /* memory of all bases of counters */
#define SCRAPE_MAX_SECRET    KIB(64)  /* a file with a password or a token */
#define SCRAPE_INTERVAL_MS   15000
#define SCRAPE_TIMEOUT_MS    10000
#define SCRAPE_BACKOFF_MS    (5 * 60 * 1000) /* the longest, if the interval is shorter */

/* ---- file.c, settings.c ---- */

/* A profile that a target has. */
struct scrape_profile {
	const char *name;      /* "process_cpu", "memory", ...: of the table, or the user's */
	const char *path;      /* below the target's prefix; may have a query */
	const char *type_name; /* NAME of its types (decision 34); NULL: by its sample types */
	bool timed;            /* the request says for how many seconds */
	bool counts;           /* its counters rise from the start of the process: differences are stored */
	int64_t seconds;       /* of a timed one */
};

struct scrape_group {
	int64_t interval_ms, timeout_ms;
	const char *scheme, *prefix;
	struct scrape_profile profiles[SCRAPE_MAX_PROFILES];
	size_t n_profiles;
	/* of the header Authorization; NULL: none */
	const char *auth_type, *auth_file;
	const char *user, *password_file;
	bool has_tls;
	struct net_tls tls;
};

struct scrape_target {
	const struct scrape_group *group;
	const char *address;                     /* as in the file */
	const char *base;                        /* the URL without the profile's path, for net */
	const char *shown;                       /* the same for people */
	const struct profilestore_label *labels; /* of its profiles, by name */
	size_t n_labels;
};

/* The targets of a file. Not changed once it is made; it has references, since pulls go on when the file changes. */
struct scrape_list {
	atomic_uint refs;
	struct arena arena; /* all of it */
	struct scrape_target *targets;
	size_t n, room;
};
/* @dir: of the file, for relative paths in it. ERR_INVALID: the text says which group, and what is wrong. */
int scrape_list_parse(struct bytes text, struct str dir, struct scrape_list **ret, struct err *err);
struct scrape_list *scrape_list_ref(struct scrape_list *l);
void scrape_list_unref(struct scrape_list *l); /* takes NULL */

struct json_t;
/* Settings of a group, with their defaults: from labels whose names begin with "__", then from the group's members. */
void scrape_group_init(struct scrape_group *g);
/* A label of the group that is a setting; others of that form are ignored. */
int scrape_group_label(struct scrape_group *g, struct arena *a, const char *name, const char *value,
		       struct err *err);
/* A member of the group other than targets and labels. ERR_INVALID: there is no such. */
int scrape_group_member(struct scrape_group *g, struct arena *a, struct str dir, const char *name,
			const struct json_t *value, struct err *err);
/* After all of these. */
int scrape_group_end(struct scrape_group *g, struct err *err);

/* ---- schedule.c ---- */

/* In how many milliseconds an endpoint is pulled first. By the wall clock: a restart does not change its place. */
int64_t schedule_first_ms(uint64_t hash, int64_t interval_ms, int64_t wall_ms);
/* The next time after @now_ms that is @due_ms and some intervals. */
int64_t schedule_next_ms(int64_t due_ms, int64_t interval_ms, int64_t now_ms);
/*
 * How long after its @n_failures-th failure in a row it is pulled again: one interval, two, four, up to
 * SCRAPE_BACKOFF_MS, less up to a fifth by @random.
 */
int64_t schedule_backoff_ms(unsigned n_failures, int64_t interval_ms, uint64_t random);

/* ---- request.c ---- */

/* The URL of a profile, for net; @shown: for people. */
void scrape_url(const struct scrape_target *t, const struct scrape_profile *p, bool shown, struct buf *out);
/* The header Authorization, or nothing. Reads its file anew each time. The error has no secret in it. */
int scrape_authorization(const struct scrape_group *g, struct buf *out, struct err *err);

/* ---- endpoints.c ---- */

enum scrape_result {
	SCRAPE_NONE, /* not pulled yet */
	SCRAPE_STORED,
	SCRAPE_BASE,        /* the first one of counters: the base of the next ones */
	SCRAPE_UNREACHABLE, /* no connection, TLS, broken off */
	SCRAPE_TIMEOUT,
	SCRAPE_STATUS, /* a status other than 200 */
	SCRAPE_TOO_LARGE,
	SCRAPE_INVALID, /* not a profile, or one that the store refuses */
	SCRAPE_SECRET,  /* the file with the password or token cannot be read */
	SCRAPE_BUSY,    /* this server is short of memory, or its store failed */
	SCRAPE_CANCELLED,
	SCRAPE_N_RESULTS
};
extern const char *const scrape_results[SCRAPE_N_RESULTS];

#define SCRAPE_ERROR_SIZE 240u

struct pull;

struct endpoint {
	/* under the lock of struct scrape */
	unsigned refs;
	struct scrape_list *list; /* referenced; the next two are in it */
	const struct scrape_target *target;
	const struct scrape_profile *profile;
	uint64_t hash;
	int64_t due_ms;    /* monotonic */
	struct pull *pull; /* that is running; NULL: none */
	bool gone;         /* it is in no file any more */
	struct {
		enum scrape_result result;                       /* of the last pull */
		int64_t start_ms, duration_ms, stored_ms;        /* wall time */
		uint64_t n_stored, n_failed, n_samples, n_bytes; /* samples and bytes of the last profile */
		uint64_t n_bases;              /* since the process of the target seemed to be another one */
		unsigned failures;             /* in a row */
		char error[SCRAPE_ERROR_SIZE]; /* of the last pull; "": none */
	} seen;
	/* of the pull that is running, or of nobody */
	struct profile_counters *base;
	int64_t base_ms;      /* monotonic */
	int64_t base_time_ns; /* of its profile, by the target's clock */
};

struct endpoints {
	struct map by_key;
	struct endpoint **v; /* in the order of the files: those of one target are neighbours */
	size_t n, room;
	uint64_t n_twice; /* that were left out, since another one is the same */
	uint64_t n_over;  /* that were left out, since there are too many */
	size_t n_targets;
};
void endpoints_done(struct endpoints *e);
/*
 * Those of @lists become all there are. Those that were there before are kept with their state; for others, first() sets
 * the time of the first pull, and for those that are not there any more gone() is called.
 */
struct endpoints_events {
	void (*first)(void *arg, struct endpoint *e);
	void (*gone)(void *arg, struct endpoint *e);
	void *arg;
};
void endpoints_replace(struct endpoints *e, struct scrape_list *const *lists, size_t n_lists,
		       const struct endpoints_events *events);
void endpoint_unref(struct endpoint *e);

/* ---- watch.c ---- */

struct scrape_file {
	const char *path;
	/* of lode-scrape */
	struct stat st;
	bool known; /* st is of a file that was read, or tried */
	bool missing;
	bool unread; /* it could not be read, which may pass: it is read again also if it stays as it is */
	/* under the lock */
	struct scrape_list *list; /* of the last good content; NULL: none yet */
	int64_t read_ms;          /* of that one, wall time; 0: never */
	bool broken;
	struct err err; /* of a broken one */
};
/* Has the file changed? Then parse it, outside of the lock: *ret_list NULL: it is broken, and @err says why. */
bool scrape_file_changed(struct scrape_file *f, struct scrape_list **ret_list, struct err *err);

/* ---- scrape.c ---- */

struct scrape {
	struct server *server;
	struct net *net;
	pthread_t thread;
	bool has_thread;
	struct scrape_file *files;
	size_t n_files;
	unsigned max_at_once;
	struct budget_hold answers, bases; /* of all pulls, of all endpoints */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	bool stop;
	struct endpoints endpoints;
	unsigned n_running; /* pulls */
	size_t turn;        /* the endpoint that is looked at first, where not all could begin */
};

/* ---- pull.c ---- */

/* Under the lock: make the pull of @e. */
struct pull *pull_new(struct scrape *s, struct endpoint *e);
void pull_start(struct pull *p);  /* it may be gone when this returns */
void pull_cancel(struct pull *p); /* under the lock */
