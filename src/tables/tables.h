/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables: symbol tables (symtab) by build ID for a service that serves many clients at once.
 *
 * `struct tables` has a table for each build ID asked for: one from the store, or one built in the background
 * of the file that the resolver has: the debug file with its supplementary (dwz) file, or, without one, the
 * symbols of the program itself. Tables are mapped and kept in an LRU; each is built once, however many
 * requests wait for it. One that lacks something (its supplementary file, a debug file) is used, and replaced
 * when that has turned up. A build that waits for other servers longer than a second makes a table of the files
 * that are here meanwhile: no address that can be named by them waits for a server that does not answer.
 *
 * A *request* holds the tables of some build IDs. It is ready by its deadline at the latest, with the tables that
 * are there by then, also those made of the files here; one that is not there is FRAME_PENDING. A ready request is asked
 * for addresses, one by one or all at once, and each answer has frames or a reason.
 *
 *	tables_request_new(t, ids, n, 0, (struct tables_wait){ deadline_ms, ready, arg }, &req)
 *	... ready(arg) is called
 *	tables_find_all(req, queries, n_queries, fn, arg)
 *	tables_request_free(req)
 *
 * Many threads may use one struct tables; a request belongs to one thread at a time.
 */
#pragma once

#include "frame/frame.h"
#include "resolve/resolve.h"
#include "symtab/symtab.h"

struct tables;

struct tables_options {
	struct resolver *resolver; /* borrowed */
	struct store *store;       /* borrowed: tables are kept there; NULL: they are not kept */
	struct budget *memory;     /* borrowed: of which tables are built; NULL: no limit */
	const char *temp_dir;      /* for copies of files that cannot be read at random; NULL: /var/tmp */
	struct room *room;         /* borrowed: the disk space that these may use; NULL: all */
	size_t tables_size;        /* bytes of tables that stay mapped; 0: 512 MiB */
	unsigned n_threads;        /* that build tables; 0: as many as CPUs, at most 4 */
	unsigned max_builds;       /* tables waiting to be built; more are FRAME_BUSY. 0: 4096 */
	int64_t miss_ms;           /* how long a missing table is remembered. 0: 15 s */
	int64_t error_ms;          /* and a failure. 0: 5 s */
	int64_t local_ms; /* how long other servers are waited for before the files here are used. 0: 1 s */
	bool discriminators; /* tables have discriminators; one in the store without them is built again */
};
struct tables *tables_new(const struct tables_options *o);
/*
 * All requests become ready now, later ones do not wait, and builds are given up. For a service that ends.
 * Takes NULL.
 */
void tables_stop(struct tables *t);
/* All requests must be freed before; the resolver and the store after. Takes NULL. */
void tables_free(struct tables *t);

bool tables_has_discriminators(const struct tables *t);

struct tables_stats {
	uint64_t n_made, n_from_store, n_failed, n_replaced;
	uint64_t n_wanted, n_hits; /* tables asked for; of them those that were mapped already */
	uint64_t tables_size;      /* bytes mapped */
	unsigned n_builds;         /* running or waiting */
};
void tables_stats(struct tables *t, struct tables_stats *ret);

/*
 * Something new is here for this build ID: the next request looks again for a table that is missing or lacks
 * something, and a build that runs or waits takes the new file in. @replaced: the file has become another, so
 * its table is built again in any case. So are the tables that lack it as their supplementary file: @also, if not
 * NULL, is called for the build ID of each. May wait for disks.
 */
void tables_renew(struct tables *t, const struct build_id *id, bool replaced,
		  void (*also)(void *arg, const struct build_id *id), void *arg);

/* ---- requests ---- */

struct tables_request;

enum {
	TABLES_LAYOUTS = 1 << 0, /* file offsets and run-time addresses will be asked for */
	/* Do not use a table that might have a better one by now: wait until that was looked for. */
	TABLES_FRESH = 1 << 1,
	/*
	 * A missing file may be in a package that is still being scanned: wait for the scan, and report
	 * FRAME_PENDING if the file is not there by the deadline. Without this flag it is unknown at once.
	 */
	TABLES_UNSCANNED = 1 << 2,
	/*
	 * Only tables at hand: those in memory, also if there might be a better one by now, and those in the
	 * store. Nothing is searched for, built or waited for; all else is FRAME_PENDING. For a caller whose
	 * search for something better is due at another time.
	 */
	TABLES_AT_HAND = 1 << 3,
	/*
	 * While other servers are asked for a file, be ready with that which can be made of the files here, once it is
	 * made. It is `due`: a request that finds it there already waits for the other servers.
	 */
	TABLES_EARLY = 1 << 4,
};
/* How long a request may wait for its tables. */
struct tables_wait {
	int64_t deadline_mono_ms; /* in the past: do not wait */
	/*
	 * Called once when the request is ready, from any thread; it must only hand on. NULL: wait in the
	 * caller's thread.
	 */
	void (*ready)(void *arg);
	void *arg;
};
enum { TABLES_WAITS = 1 };
/*
 * Request the tables of @n build IDs (one of size 0 is FRAME_NO_BUILD_ID). 0: *ret can be used now, and
 * ready() will not be called. TABLES_WAITS: ready() will be called, at the deadline at the latest, and
 * perhaps before this returns (*ret is set before); until then the request must not be touched.
 */
int tables_request_new(struct tables *t, const struct build_id *ids, size_t n, unsigned flags,
		       struct tables_wait wait, struct tables_request **ret);
void tables_request_free(struct tables_request *req); /* takes NULL */

struct tables_module {
	enum frame_reason reason; /* FRAME_FOUND: there is a table */
	const char *why;          /* more about the reason; "": nothing */
	const char *origin;       /* of a table: the file it was made of, "PACKAGE: FILE", or "" */
	const char *missing;      /* of a table: a file with some of its names; "": none, or not known */
	bool lacking;             /* a better table may turn up */
	bool incomplete;          /* of a table: parts were left out, since memory was not granted */
	bool due;                 /* it may have by now: TABLES_FRESH looks for it */
	/* of a table without a debug file: why none was found; FRAME_FOUND: not known */
	enum frame_reason no_debug;
	const struct symtab_info *info;    /* of a table */
	const struct frame_layout *layout; /* NULL: there is none, or it is not known yet */
	bool layout_known;                 /* with TABLES_LAYOUTS: `layout` is as good as it can be now */
	bool layout_due; /* a better layout may be there by now: TABLES_FRESH looks for it */
};
/* The state of the @i-th build ID's table; valid as long as the request. */
void tables_request_module(const struct tables_request *req, size_t i, struct tables_module *ret);

/* ---- addresses ---- */

#define TABLES_NO_MODULE SIZE_MAX
struct tables_query {
	size_t module; /* index of the build ID */
	enum frame_address_kind kind;
	uint64_t addr;
	/*
	 * It is a return address (of every frame but the innermost of a stack): the call is wanted, so the
	 * byte before it is looked up.
	 */
	bool is_return;
	struct str section;               /* FRAME_SECTION; empty: .text */
	const struct frame_mapping *maps; /* FRAME_RUNTIME: of this module; borrowed */
	size_t n_maps;
	const struct frame_maps *prepared; /* the same; NULL: they are few. Borrowed */
};
struct tables_answer {
	enum frame_reason reason;
	uint64_t addr;                      /* in the ELF file; 0 where it is not known */
	const struct symtab_frames *frames; /* NULL: none. Valid until the next query */
};
/* Let tables_find_all() end early when @d has passed; the caller checks it. Borrowed. */
void tables_request_set_deadline(struct tables_request *req, struct deadline *d);
/* Answer one query. Fastest when addresses of a module rise. */
void tables_find(struct tables_request *req, const struct tables_query *q, struct tables_answer *ret);
/* Answer all queries, each once, in the fastest order; @i is the index in @q. */
void tables_find_all(struct tables_request *req, const struct tables_query *q, size_t n,
		     void (*fn)(void *arg, size_t i, const struct tables_answer *a), void *arg);
