/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles over HTTP: what its files share. docs/profiles.md and openapi.json have the paths.
 *
 *   profiles.c     handlers: a request from its headers to its reply
 *   args.c         parameters
 *   write.c        JSON shared by several answers
 *   lists.c        types, labels, series, profiles
 *   view.c         the profiles of a query, merged; waiting for names
 *   tree.c         ... as a tree of calls
 *   pprof.c        ... as pprof
 *   flamegraph.c, top.c, lines.c, download.c   views of them
 *   binaries.c     which binaries have names, and why others have none
 *
 * server/intake/ takes profiles in.
 *
 * All of it runs on workers.
 */
#pragma once

#include "profile/filter.h"
#include "profilestore/profilestore.h"
#include "base/json.h"
#include "base/spool.h"
#include "server/internal.h"

#define API_MAX_ARGS       128u
#define API_MAX_VALUE      8192u               /* bytes of a parameter, decoded */
#define API_MAX_MEMORY     ((uint64_t)1 << 30) /* that one answer may use */
#define API_MAX_BODY       MIB(64)
#define API_MAX_BODIES     MIB(256)              /* of all bodies in memory */
#define API_MAX_DECODED    ((uint64_t)256 << 20) /* of one body */
#define API_MAX_QUERY      MIB(1)                /* of the body of a call that asks, compressed or not */
#define API_MAX_QUERIES    MIB(32)               /* of all such bodies in memory */
#define API_QUERY_TOO_LONG "the message of a call that sends no profile has 1 MiB at most"
#define API_USUAL_NODES    100000u /* of a flame graph, unless the request sets another */
#define API_MAX_NODES      1000000u
#define API_MAX_WAIT_MS    60000

struct api;

/* Results of api_route.run() beside 0 (a->out is the answer) and -1 (err says why not). */
enum {
	API_GOES_ON = 1, /* api_end() will be called */
	API_SLEEPS = 2,  /* run again in req->sleep_ms */
};

/* `arg` of a row of the table of routes. */
struct api_route {
	const char *args; /* names of the parameters, with blanks between; "*": any */
	int (*run)(struct api *a, struct err *err);
	bool storeless; /* it needs no profile store */
};

/* A query that is not in the parameters of the URL. */
struct api_query {
	struct profilestore_range range[PROFILE_COLUMNS];
	bool compares;
	int64_t wait_ms; /* the longest wait for names */
};

/*
 * How the messages of a request and its reply are wrapped: as of a call of a protobuf service (server/rpc/). Without it they
 * are the bodies themselves.
 */
struct api_form {
	/* Bring a->out and a->spool into the form of the reply. */
	int (*reply)(struct api *a, struct err *err);
	/* Headers and trailers of that reply. */
	void (*reply_headers)(struct api *a);
	/* It compresses messages by itself. */
	bool (*is_packed)(const struct api *a);
	/* Bytes that a compressed profile of the request may become. */
	uint64_t (*max_profile)(const struct api *a);
	/* The request's message has been read: free its memory. */
	void (*drop)(struct api *a);
};

struct api {
	struct request *req; /* NULL: in fuzzing */
	struct arena *arena;
	struct profilestore *store;
	const struct api_route *route;
	bool post;       /* else GET */
	struct str star; /* the variable part of the path */
	struct api_arg {
		struct str name, value;
	} * args;
	size_t n_args;
	int64_t now_ms; /* the time of "now" */
	struct bytes body;
	/* The answer: `out`, and then the bytes of `spool`, if that has a file; else it is empty (api_add_spool()). */
	struct buf out;
	struct spool spool;
	struct json_writer json;  /* writes to out */
	unsigned status;          /* 0: 200 */
	const char *type;         /* NULL: JSON */
	const char *filename;     /* NULL: not a download */
	const char *note;         /* of X-LODE-NOTE; NULL: none */
	struct deadline deadline; /* of one run */
	/* Of a request that waits for names. */
	int64_t wait_until_ms;  /* monotonic; 0: not set yet */
	int64_t merge_again_ms; /* not before */
	uint64_t n_namings;     /* at the last merge */
	bool looked;
	struct selector *selectors[2];
	const struct api_query *query;     /* during api_merge(); NULL: it is in the parameters */
	struct budget_hold memory;         /* of its profiles, or of its query and the reply */
	struct otlp_result *otlp;          /* of a request of OTLP */
	struct take *take;                 /* NULL: it sends no profiles. Guarded by its own lock */
	void (*take_free)(struct take *t); /* of `take` */
	const struct api_form *form;       /* NULL: none */
	struct rpc_call *call;             /* of the form */
};

/* ---- handlers ---- */

/* The row's `arg`: the api_route. */
extern const struct http_handler profiles_get, profiles_post;
extern const struct http_handler
	profiles_other; /* other paths below /api/: refused, with a list of the paths there are */
extern const struct http_body profiles_body; /* of what takes profiles */
extern const struct http_body
	query_body; /* of calls that only ask: readers cannot use up the room of senders */

/* ---- replies ---- */

/*
 * After API_GOES_ON: make the reply of a->out, or of @err. The request may be gone when this returns. From
 * any thread.
 */
void api_end(struct api *a, const struct err *err);
/* The answer goes on with the bytes of a->spool, in memory or in its file; `out` has at most SPOOL_HEAD bytes so far. */
int api_add_spool(struct api *a, struct err *err);
int api_write_spool(void *arg, struct bytes b,
		    struct err *err); /* of a struct profile_writer; @arg: the spool */

/* The status that reports @err: of a request with a body (@post), or without. */
unsigned api_status_of(const struct err *err, bool post);
/* The same for a valid profile that could not be stored: 5xx, 507 for a full disk or store; but 422, which clients do not send
 * again, if its labels would make one series too many. */
unsigned api_status_of_store(const struct err *err);

/* ---- args.c ---- */

/* Add a parameter of the query, still escaped. ERR_INVALID: a broken escape. */
int api_arg_add(struct api *a, struct str name, struct str value, struct err *err);
/* 0: all parameters are among those of the route, each once. */
int api_args_check(const struct api *a, struct err *err);
struct str api_text(const struct api *a, const char *name);  /* empty: none */
const char *api_cstr(const struct api *a, const char *name); /* in the arena; NULL: none, or empty */
int api_number(const struct api *a, const char *name, uint64_t usual, uint64_t max, uint64_t *ret,
	       struct err *err);
/* 1, true, yes; 0, false, no. */
int api_flag(const struct api *a, const char *name, bool *ret, struct err *err);
/* Milliseconds since 1970, RFC 3339, "now", "now-1h30m". */
bool api_time_parse(struct str s, int64_t now_ms, int64_t *ret);
int api_time(const struct api *a, const char *name, int64_t usual_ms, int64_t *ret, struct err *err);
bool api_duration_parse(struct str s, int64_t *ret_ms); /* "2s", "500ms", "1h30m" */
int api_duration(const struct api *a, const char *name, int64_t usual_ms, int64_t max_ms, int64_t *ret,
		 struct err *err);
/* The range of query, from, to, profile; with @base, of base, base_from, base_to, base_profile. */
int api_range(struct api *a, bool base, struct profilestore_range *ret, struct err *err);
bool api_compares(const struct api *a);
int api_view(const struct api *a, struct profile_view *ret, struct err *err);

/* ---- write.c ---- */

void api_put_labels(struct api *a, const struct profilestore_label *labels, size_t n); /* "labels":{...} */

/* "damaged":N, if there are any: profiles of the range that were set aside while the service runs */
void api_put_damaged(struct api *a, uint64_t n);

/* ---- view.c ---- */

struct api_merged {
	struct profilestore_merged side[PROFILE_COLUMNS];
	bool compares;
	double scale; /* of side[1] */
	uint64_t n_pending, n_waiting;
};
void api_merged_done(struct api_merged *m);

/*
 * Makes an answer of the stacks that the store lends during a merge, which copies none then. The functions are those of
 * struct profilestore_shape; a pointer to this is their argument.
 */
struct api_lender {
	/* API_NEEDS_PROFILE: the merge is made again, and copies the stacks. */
	int (*stacks)(struct api_lender *x, const struct profilestore_merged *m, struct profile_trie *in,
		      struct err *err);
	int (*locations)(struct api_lender *x, const struct profilestore_merged *m,
			 const struct profile_lent_locations *l, struct err *err);
	/* after stacks(), with its results; NULL: nothing to do */
	int (*end)(struct api_lender *x, struct err *err);
	void (*begin)(struct api_lender *x); /* forget all; also before a merge that copies */
	uint32_t from;                       /* stacks: fewer are copied */
	bool alone;                          /* the base of a comparison does not matter */
	bool compares;                       /* it takes both sides of a comparison; else they are copied */
	bool values; /* without locations(): it takes the stacks of each value of the label by themselves */
	/* view.c's */
	struct api *a;
	bool may_sleep, sleeps, needs_profile;
};
#define API_NEEDS_PROFILE 1

/*
 * Merge the profiles of the query; API_SLEEPS: more names will come soon, and the request may wait for
 * them. @lender NULL, or the query compares and it does not: the profiles have their stacks.
 */
int api_merge(struct api *a, enum profilestore_detail detail, struct api_lender *lender,
	      struct api_merged *ret, struct err *err);
struct profile_limits api_limits(struct api *a); /* of what an answer is made of */

/* ---- tree.c ---- */

/* Takes the values of some stacks away: of those that the store lends, or of a profile's. @side: 1 for the base. */
struct api_filter {
	int (*lent)(const void *arg, const struct profile *p, struct profile_trie *in, struct err *err);
	int (*copied)(const void *arg, unsigned side, struct profile *p, struct err *err);
	const void *arg;
	bool compares; /* it knows both sides of a comparison */
};
/* A tree, and which of its parts are looked at. */
struct api_tree {
	struct profile_view view;
	bool top;                        /* only profile_tree_top() */
	struct str function, binary;     /* and callers and callees of this function; empty: none */
	struct str file;                 /* where it is; empty: any */
	const struct api_filter *filter; /* NULL: none */
};
/* The least that the view shows and selects samples by (profile/filter.h). */
enum profilestore_detail api_detail(const struct profile_view *view);
/* Merge the profiles of the query, and make the tree; the results are those of api_merge(). The profiles are freed. */
#define API_LEND_FROM \
	1500000u /* stacks of a range: with fewer, a tree with all nodes takes less time, and less than 100 MB */
int api_merge_tree(struct api *a, const struct api_tree *tree, struct api_merged *ret,
		   struct profile_tree **ret_tree, struct err *err);
/* The tree of profiles that were merged without a lender; frees them. */
int api_tree_of(struct api *a, const struct profile_view *view, struct api_merged *m,
		struct profile_tree **ret, struct err *err);
/* Scale the base to the sum of the other side, if the request wants that. */
int api_normalise_lent(const struct api *a, struct profile_trie *in, struct err *err);
/* "type":...,"unit":...,"total":...,"base_total":...,"pending":{...} */
void api_put_head(struct api *a, const struct api_merged *m, const struct profile_tree *t);

/* ---- pprof.c ---- */

/* Merge the profiles of the query into a->spool, as pprof; the results are those of api_merge(). */
int api_merge_pprof(struct api *a, bool gzip, const struct api_filter *filter, struct err *err);

/* ---- routes ---- */

int api_types(struct api *a, struct err *err);
int api_labels(struct api *a, struct err *err);
int api_label_values(struct api *a, struct err *err);
int api_series(struct api *a, struct err *err);
int api_profiles(struct api *a, struct err *err);
int api_flamegraph(struct api *a, struct err *err);
int api_top(struct api *a, struct err *err);
int api_callers(struct api *a, struct err *err);
int api_lines(struct api *a, struct err *err);
int api_download(struct api *a, struct err *err);
int api_binaries(struct api *a, struct err *err);
int api_retry(struct api *a, struct err *err);
int api_openapi(struct api *a, struct err *err);
