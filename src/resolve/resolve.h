/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve: build ID (and section or path) -> bytes, or why not.
 *
 * One chain, one answer: the local index (plain files, then packages), the store, other servers. Every answer
 * says where it is from; every miss says, step by step, what was looked at. What is handed out is the thing
 * asked for: an ELF file is opened and its build ID compared; a package that is not the one that was mapped
 * is not read.
 *
 * The seam: `struct resolver` with its ops; resolve_mem.c is the one for tests. Safe for many threads.
 */
#pragma once

#include "dwarf/dwarf.h"
#include "net/net.h"
#include "scan/scan.h"
#include "store/store.h"

enum resolve_kind { RESOLVE_DEBUGINFO, RESOLVE_EXECUTABLE, RESOLVE_SOURCE, RESOLVE_SECTION, RESOLVE_N_KINDS };
const char *resolve_kind_name(enum resolve_kind kind); /* "debuginfo" */

struct resolve_request {
	enum resolve_kind kind;
	struct build_id id;
	struct str arg; /* source: the path as asked for, decoded; section: its name */
	/* For other servers, if it is not here. */
	const char *not_further; /* not NULL: ask none, for this reason (static) */
	/* servers that it came through: one that comes back to us must not wait for itself */
	unsigned n_hops;
	/* Headers to be sent; empty: none, and our own User-Agent. */
	struct str forwarded_for, via, user_agent;
};

struct resolve_answer {
	struct source *source; /* the bytes, exactly; the asker's to close */
	struct str file;       /* path on disk, or the member's with a leading slash; in the arena */
	struct str archive;    /* path of the package; empty: none */
	int64_t mtime;
	uint64_t tag; /* names this content: the same bytes give the same tag, a changed file another. For
			 ETag and caches */
	bool plain;   /* lies raw on disk: nothing is gained by caching it */
	bool sequential_only; /* no random access: a read at the end costs all before it */
	enum resolve_origin { RESOLVE_HERE, RESOLVE_STORED, RESOLVE_UPSTREAM } origin;
	/*
	 * NULL: all bytes are there. Else they are on their way, into a file that the source has as its raw
	 * descriptor: 0, and all before *ret_have can be read, @off at least; RESOLVE_WAIT: not yet,
	 * wake(arg) will be called once; negative: there will be no more. On any other return than
	 * RESOLVE_WAIT wake is not called.
	 */
	int (*arrived)(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		       struct err *err);
};

/*
 * Why resolve() found nothing, as a value for callers that act on it; the steps of struct resolve_why are for
 * people only.
 */
enum resolve_reason {
	RESOLVE_NOT_HERE,           /* RESOLVE_MISSING: not here, and no other server was asked */
	RESOLVE_UPSTREAM_404,       /* RESOLVE_MISSING: not here; every other server reported 404 or 410 */
	RESOLVE_UPSTREAM_FAILED,    /* not here; another server could not be asked, or failed */
	RESOLVE_UPSTREAM_TIMED_OUT, /* not here; another server did not answer in time, or was cancelled */
	RESOLVE_UPSTREAM_UNUSABLE,  /* another server sent a file that is damaged or has another build ID */
	RESOLVE_UPSTREAM_NOT_ELF,   /* another server sent a file that is not an ELF file */
	RESOLVE_DAMAGED, /* it is here but cannot be read, or elsewhere but too large to be taken */
};
/*
 * The reason for a failure of resolve(), or of an answer's arrived(), which may fail after resolve() was done.
 * Depends on err->kind and err->os, never on the text.
 */
enum resolve_reason resolve_reason_of(const struct err *err);

/* The steps of a search, in order, each with its result: "index: package a.deb: member x: ...". */
struct resolve_why {
	struct arena *arena;        /* borrowed: the steps' texts, and those of the answer */
	enum resolve_reason reason; /* set by resolve() when it returns RESOLVE_MISSING or negative */
	struct resolve_step {
		struct str place, said;
		bool disk; /* tells of files that are not indexed: whether they exist is no stranger's
			      business */
		struct resolve_step *next;
	} * first, **last;
	bool disk; /* of the steps that are added from now on */
};

enum {
	RESOLVE_MISSING = 1, /* it is not here: 404. @why says what was looked at */
	/* a package must be looked into first: wake(arg) will be called once; ask again then */
	RESOLVE_WAIT = 2,
	RESOLVE_BUSY = 3, /* too many wait: 503 */
};

/* A callback for a caller that has to wait: called once, from any thread. */
struct resolve_wake {
	void (*fn)(void *arg);
	void *arg;
};

struct resolver;
struct resolver_ops {
	/* See resolve(). */
	int (*resolve)(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
		       struct resolve_answer *ret, struct resolve_why *why, struct err *err);
	/* See resolve_unknown(). */
	bool (*unknown)(struct resolver *r, const struct resolve_request *req);
	/* See resolve_metadata(). */
	int (*metadata)(struct resolver *r, const struct index_metadata_query *q,
			struct index_metadata_page *ret, struct err *err);
	/* See resolve_epoch(). */
	uint64_t (*epoch)(struct resolver *r);
	void (*close)(struct resolver *r);
	/* See resolve_unfinished(). NULL: never. */
	bool (*unfinished)(struct resolver *r);
};
struct resolver {
	const struct resolver_ops *ops;
};

/*
 * Find the bytes. May decode and read disks: for worker threads. On RESOLVE_WAIT nothing is held and @wake
 * will be called exactly once; on any other return it will not. @wake may come from any thread and even
 * before this returns: it must only hand the request to a queue. An error (not a miss) means that something
 * is here but cannot be read: 5xx, not 404.
 */
int resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
	    struct resolve_answer *ret, struct resolve_why *why, struct err *err);
/* Quick and without reading any file: true when it is certain that this build ID is nowhere here. For HTTP
 * threads. */
bool resolve_unknown(struct resolver *r, const struct resolve_request *req);
/* As index_metadata(). */
int resolve_metadata(struct resolver *r, const struct index_metadata_query *q,
		     struct index_metadata_page *ret, struct err *err);
/* Something that was known before may be gone or other since this changed. */
uint64_t resolve_epoch(struct resolver *r);
/*
 * Quick: something here is still being looked into, so what is missing may turn up soon. To be asked before
 * resolve(): what is missing then, when this was false, was in nothing that had been found.
 */
bool resolve_unfinished(struct resolver *r);
void resolve_close(struct resolver *r); /* takes NULL */

void resolve_why_init(struct resolve_why *w, struct arena *a);
void resolve_why_add(struct resolve_why *w, struct str place, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct resolve_index_options {
	const char *index_path, *points_dir;
	struct scan *scan;         /* borrowed; NULL: what only the header pass has seen is RESOLVE_MISSING */
	struct pool *helpers;      /* borrowed: decodes ahead for large members; NULL: none */
	size_t map_cache_size;     /* bytes of decoded package maps kept; 0: 64 MiB */
	size_t span_cache_size;    /* bytes of decoded spans and parked decoders; 0: 256 MiB */
	size_t sources_cache_size; /* bytes of debug files' source name sets; 0: 64 MiB */
	bool source_any; /* plain source files need not be named by the debug file (never on a public server)
			  */
};
int resolve_index_open(const struct resolve_index_options *opts, struct resolver **ret, struct err *err);

/*
 * What is in the store: debug files (also unstripped programs), programs, sections of them, sources, also out
 * of a tar of sources. @st is borrowed.
 */
struct resolver *resolve_store_new(struct store *st);

/*
 * One after the other, until one has it. Takes all of @links. One that fails is passed over; its failure
 * counts if no other has it. The metadata are those of all, in their order; the same may be told by several.
 */
#define RESOLVE_MAX_LINKS 8
struct resolver *resolve_chain_new(struct resolver *const *links, size_t n);

struct resolve_upstream_options {
	struct net *net; /* borrowed, with a thread of its own; to be freed before the resolver is closed */
	const char *const *urls; /* other servers, in order; copied */
	size_t n_urls;
	struct store *store;     /* borrowed: what they have is kept there. NULL: it is not kept */
	struct resolver *before; /* borrowed; NULL, or: they are not asked for sections of a debug file that
				    this one has */
	const char *spool_dir;   /* where bytes on their way lie, in files without names */
	struct net_patience patience;
	uint64_t max_size; /* of what is taken from others; 0: no limit */
	int64_t miss_ms;   /* a miss of all of them is remembered for so long. 0: 10 min */
	int64_t error_ms;  /* a failure. 0: 5 s */
};
/*
 * What other servers have: streamed while it is taken, and kept in the store when it has proved to be what
 * was asked for. A miss of all of them is remembered; a failure, shortly, is ERR_UPSTREAM. It is to be the
 * last of a chain.
 */
int resolve_upstream_open(const struct resolve_upstream_options *opts, struct resolver **ret,
			  struct err *err);
/* What it does, for the metrics. */
struct resolve_upstream_stats {
	uint64_t n_asked, n_found, n_missing, n_failed; /* fetches */
	uint64_t n_remembered; /* requests that were answered by what was remembered */
	uint64_t n_stored, n_not_stored;
	uint64_t bytes;
};
void resolve_upstream_stats(struct resolver *r, struct resolve_upstream_stats *ret);
/* That they had no debug file and no program of this build ID is not remembered any more: somebody wants them
 * asked. */
void resolve_upstream_forget(struct resolver *r, const struct build_id *id);

/* Tests: put things in by hand; each is found under its kind, id and arg. Takes nothing; @content is copied.
 */
struct resolver *resolve_mem_new(void);
void resolve_mem_put(struct resolver *r, enum resolve_kind kind, const struct build_id *id, struct str arg,
		     struct bytes content, struct str file, struct str archive, int64_t mtime);
void resolve_mem_put_waiting(struct resolver *r, enum resolve_kind kind, const struct build_id *id,
			     struct str arg); /* RESOLVE_WAIT until put */
void resolve_mem_set_unfinished(struct resolver *r, bool unfinished);
void resolve_mem_fail(struct resolver *r, enum resolve_kind kind, const struct build_id *id, struct str arg,
		      const struct err *why);
