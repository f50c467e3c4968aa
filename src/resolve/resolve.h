/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve: find the bytes of a build ID (a whole file, one section, one source file), or report why they
 * cannot be found.
 *
 * Resolvers are asked in a row: the local index (plain files, then packages), the store, other servers. Every
 * answer names its origin; every miss lists the steps of the search. The bytes are checked: an ELF file is
 * opened and its build ID compared; a package that was replaced since its scan is not read.
 *
 * The seam is `struct resolver` with its ops; tests/support/resolve_mem.h is another implementation. All functions
 * may be called from many threads.
 */
#pragma once

#include "dwarf/dwarf.h"
#include "net/net.h"
#include "scan/scan.h"
#include "store/store.h"

/* Clients of requests for symbol tables: the naming of profiles; all clients that ask for addresses. */
#define RESOLVE_FOR_NAMING    0u
#define RESOLVE_FOR_ADDRESSES 1u
#define RESOLVE_FIRST_CLIENT  2u /* values of other clients begin here */

enum resolve_kind { RESOLVE_DEBUGINFO, RESOLVE_EXECUTABLE, RESOLVE_SOURCE, RESOLVE_SECTION, RESOLVE_N_KINDS };
const char *resolve_kind_name(enum resolve_kind kind); /* "debuginfo" */

struct resolve_request {
	enum resolve_kind kind;
	struct build_id id;
	struct str arg;  /* source: the path from the URL, decoded; section: its name */
	struct str name; /* a program: the name of its file, if it is known; empty: not */
	/*
	 * Debuginfo: a file with the program's dynamic symbols alone will do (STORE_DYNSYM), and nothing else is searched:
	 * other resolvers than the store's have none.
	 */
	bool dynsym;
	/* For requests to other servers: */
	const char *not_further; /* not NULL: ask no other server, for this reason (static) */
	/* Servers that the request has passed through. A request that has come back to this server must not
	 * wait for itself. */
	unsigned n_hops;
	/* Whose budget of questions is used: equal for requests of one client. */
	uint32_t client;
	/* Headers to send; empty: none, and our own User-Agent. */
	struct str forwarded_for, via, user_agent;
};

struct resolve_answer {
	struct source *source; /* exactly these bytes; the caller closes it */
	struct str file;       /* path on disk, or path of the member with a leading slash; in the arena */
	struct str archive;    /* path of the package; empty: none */
	int64_t mtime;
	/* Identifies the content, for ETag and caches: the same bytes have the same tag, a changed file
	 * another. */
	uint64_t tag;
	/*
	 * 0; or identifies the bytes for caches on this machine: @tag of fetched content is made of its name, size and time,
	 * since its bytes are not known while they come. Another file of the same size may be fetched in its place later.
	 */
	uint64_t bytes_tag;
	bool plain;           /* stored uncompressed on disk: caching it gains nothing */
	bool sequential_only; /* no random access: a read decodes everything before it */
	enum resolve_origin { RESOLVE_HERE, RESOLVE_STORED, RESOLVE_UPSTREAM } origin;
	/*
	 * NULL: all bytes are there. Else they are still being fetched into a file, which is the raw
	 * descriptor of @source. Returns 0 when the bytes before *ret_have, which is above @off, can be read;
	 * RESOLVE_WAIT: not yet, and wake(arg) will be called once; negative: no more bytes will come. wake
	 * is called after RESOLVE_WAIT only.
	 */
	int (*arrived)(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		       struct err *err);
};

/* Why resolve() found nothing, as a value that callers act on. The steps of struct resolve_why are for people
 * only. */
enum resolve_reason {
	RESOLVE_NOT_HERE,           /* RESOLVE_MISSING: not here, and no other server was asked */
	RESOLVE_UPSTREAM_404,       /* RESOLVE_MISSING: not here; every other server reported 404 or 410 */
	RESOLVE_UPSTREAM_FAILED,    /* not here; another server could not be asked, or failed */
	RESOLVE_UPSTREAM_TIMED_OUT, /* not here; another server did not answer in time, or was cancelled */
	RESOLVE_UPSTREAM_UNUSABLE,  /* another server sent a file that is damaged or has another build ID */
	RESOLVE_UPSTREAM_NOT_ELF,   /* another server sent a file that is not an ELF file */
	RESOLVE_DAMAGED, /* it is here but cannot be read, or elsewhere but larger than may be fetched */
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
		struct str place, text;
		bool disk; /* about files that are not indexed: whether they exist must not be disclosed */
		struct resolve_step *next;
	} * first, **last;
	bool disk; /* for the steps that are added from now on */
};

enum {
	RESOLVE_MISSING = 1, /* it is not here: 404. The steps of @why list the search */
	/* a package must be scanned first: wake(arg) will be called once; call resolve() again then */
	RESOLVE_WAIT = 2,
	RESOLVE_BUSY = 3, /* too many requests wait: 503 */
};

/* A callback for a caller that has to wait: called once, from any thread. */
struct resolve_wake {
	void (*fn)(void *arg);
	void *arg;
	/*
	 * Before fn(), from any thread: the caller still waits. A place that few may wait in is not kept for others. NULL:
	 * yes.
	 */
	bool (*wanted)(void *arg);
};

/* How long, and how many requests, may wait for files that are not read yet. */
struct resolve_patience {
	int64_t until_ms; /* monotonic; the caller ends the wait then */
	unsigned max;     /* requests */
	unsigned n_waits; /* how often this request has waited before */
};

/* By whom a file is called so: a name by a reader never replaces one by a sender. */
enum resolve_hint {
	RESOLVE_BY_READER, /* a question for addresses, which anyone may send */
	RESOLVE_BY_SENDER, /* a stored profile */
};

struct resolver;
struct resolver_ops {
	/* See resolve(). */
	int (*resolve)(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
		       struct resolve_answer *ret, struct resolve_why *why, struct err *err);
	/* See resolve_unknown(). NULL: never. */
	bool (*unknown)(struct resolver *r, const struct resolve_request *req);
	/* See resolve_metadata(). NULL: it has none. */
	int (*metadata)(struct resolver *r, const struct index_metadata_query *q,
			struct index_metadata_page *ret, struct err *err);
	/* See resolve_epoch(). NULL: results do not change. */
	uint64_t (*epoch)(struct resolver *r);
	void (*close)(struct resolver *r);
	/* See resolve_unfinished(). NULL: never. */
	bool (*unfinished)(struct resolver *r);
	/* See resolve_await(). NULL: nothing is unread. */
	int (*await)(struct resolver *r, const struct resolve_request *req, const struct resolve_patience *p,
		     struct resolve_wake wake, struct err *err);
	/* See resolve_name_hint(). NULL: not needed. */
	void (*name_hint)(struct resolver *r, const struct build_id *id, struct str file,
			  enum resolve_hint by);
	/* See resolve_alias(). NULL: it has none. */
	bool (*alias)(struct resolver *r, const struct build_id *alias, struct build_id *ret);
	/* Whether a file here has this build ID, not as an alias. May read the database. NULL: not known. */
	bool (*owns)(struct resolver *r, const struct build_id *id);
	/* See resolve_flags(). NULL: not known. */
	uint32_t (*flags)(struct resolver *r, const struct build_id *id);
	/* See resolve_reading(). NULL: nothing. */
	struct str (*reading)(struct resolver *r, const struct resolve_request *req, struct arena *a);
};
struct resolver {
	const struct resolver_ops *ops;
};

/*
 * Find the bytes. May decode and read disks, so it is for worker threads. After RESOLVE_WAIT the caller holds
 * nothing and @wake is called exactly once; after any other return it is not called. @wake may come from any
 * thread, even before this returns, so it must only put the request into a queue. A failure (unlike a miss)
 * means that something is here but cannot be read: 5xx, not 404.
 */
int resolve(struct resolver *r, const struct resolve_request *req, struct resolve_wake wake,
	    struct resolve_answer *ret, struct resolve_why *why, struct err *err);
/* Fast, reads no file: true when this build ID is certainly nowhere here. For HTTP threads. */
bool resolve_unknown(struct resolver *r, const struct resolve_request *req);
/*
 * Whether @alias is another identity of a file here whose build ID is *ret. The build ID of a file here is no alias, even
 * if another file has it as one. May read the database; cheap for build IDs that cannot be aliases. resolve() does it for
 * its request; resolve_metadata() does not.
 */
bool resolve_alias(struct resolver *r, const struct build_id *alias, struct build_id *ret);
/*
 * The ELF_* flags of elf/elf.h that the scanned files with this build ID have together, as far as they are read; 0: there
 * are none. May read the database. Objects of the store do not count.
 */
uint32_t resolve_flags(struct resolver *r, const struct build_id *id);
/* As index_metadata(). */
int resolve_metadata(struct resolver *r, const struct index_metadata_query *q,
		     struct index_metadata_page *ret, struct err *err);
/* Changes whenever something that was found earlier may be gone or replaced. */
uint64_t resolve_epoch(struct resolver *r);
/* Fast: a scan is still under way, so a missing file may turn up soon. To be called before resolve(): if it
 * returned false, a file missing then was in nothing that had been found by that time. */
bool resolve_unfinished(struct resolver *r);
/*
 * After resolve() was RESOLVE_MISSING, and resolve_unfinished() true before it: wait for files that are not read yet. The
 * package most likely to have it, by the names of packages and of other files of the build ID, is read first. If the rest
 * takes longer than @p permits, at the speed so far, only that package is waited for. RESOLVE_WAIT: as resolve().
 * RESOLVE_BUSY: it may be in something unread, but this request does not wait for it (any longer). RESOLVE_MISSING:
 * nothing that is unread can have it; files that were read meanwhile may.
 */
int resolve_await(struct resolver *r, const struct resolve_request *req, const struct resolve_patience *p,
		  struct resolve_wake wake, struct err *err);
/*
 * The package that a request waits for after RESOLVE_WAIT, here or on another server: "NAME (41 %)", printable ASCII, in @a.
 * Empty: not known.
 */
struct str resolve_reading(struct resolver *r, const struct resolve_request *req, struct arena *a);
/*
 * Note that a process calls the file of @id @file, a path or a name. A server that finds programs by their names (SSQP) is
 * then asked with that name, unless the request has one, or a file of that build ID is here and has one. Names are kept for
 * some thousand build IDs; of names by equal sources the last one counts. They need not be true, since the build ID of the
 * file is checked: a wrong name hides a file from clients that ask without a name, no more.
 */
void resolve_name_hint(struct resolver *r, const struct build_id *id, struct str file, enum resolve_hint by);
void resolve_close(struct resolver *r); /* takes NULL */

void resolve_why_init(struct resolve_why *w, struct arena *a);
void resolve_why_add(struct resolve_why *w, struct str place, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct resolve_index_options {
	const char *index_path, *points_dir;
	/*
	 * May be NULL. Resume points that are missing in points_dir: put them there. false: they cannot be had. Called by
	 * any thread; may wait for a network.
	 */
	bool (*fetch_points)(void *arg, const struct index_file *f);
	void *fetch_points_arg;
	/* borrowed; NULL: files of which only the header pass is done are RESOLVE_MISSING */
	struct scan *scan;
	struct pool *helpers;      /* borrowed: decodes large members ahead of the reader; NULL: none */
	size_t map_cache_size;     /* bytes of decoded package maps in the cache; 0: 64 MiB */
	size_t span_cache_size;    /* bytes of decoded spans and parked decoders in the cache; 0: 256 MiB */
	struct budget *memory;     /* borrowed: of which names of sources are read; NULL: no limit */
	size_t sources_cache_size; /* bytes of source name sets of debug files in the cache; 0: 64 MiB */
	/* Folders: plain source files are served from these, symbolic links resolved; copied. */
	const char *const *source_roots;
	size_t n_source_roots;
	/* serve all plain source files, also those that no debug file names (never on a public server) */
	bool source_any;
};
int resolve_index_open(const struct resolve_index_options *opts, struct resolver **ret, struct err *err);

/* The store: debug files (also unstripped programs), programs, their sections, sources, also those in a tar
 * of sources. @st is borrowed. */
struct resolver *resolve_store_new(struct store *st);

/*
 * Ask @links in order until one has an answer. Takes all of @links. A link that fails is passed over; its
 * failure is returned if no other link has an answer. Metadata are those of all links, in order; several
 * links may give the same result.
 */
#define RESOLVE_MAX_LINKS 8
struct resolver *resolve_chain_new(struct resolver *const *links, size_t n);

struct resolve_upstream_options {
	/* borrowed, runs in a thread of its own; must be freed before the resolver is closed */
	struct net *net;
	const char *const *urls; /* other servers, in order; copied */
	size_t n_urls;
	struct store *store; /* borrowed: fetched files are kept there. NULL: they are not kept */
	/* borrowed: no section is fetched of a debug file that this one has. NULL: none */
	struct resolver *before;
	const char *spool_dir; /* for files that are being fetched; they have no names */
	struct room *room;     /* borrowed: the disk space that these may use; NULL: all */
	struct net_patience patience;
	uint64_t max_size; /* of a fetched file; 0: no limit */
	int64_t miss_ms;   /* how long a miss of all servers is cached. 0: 10 min */
	int64_t error_ms;  /* how long a failure is cached. 0: 5 s */
	/*
	 * How many files that they do not have one client may ask for in a minute: see questions.c. Above it a request
	 * fails with ERR_UPSTREAM and os EBUSY, which is not cached. 0: no limit.
	 */
	unsigned max_misses;
};
/*
 * Other servers. Their files are streamed while they are fetched, and put into the store after they are
 * checked. A miss of all servers is cached; so is a failure, ERR_UPSTREAM, for a shorter time. Must be the
 * last link of a chain.
 */
int resolve_upstream_open(const struct resolve_upstream_options *opts, struct resolver **ret,
			  struct err *err);
/* Counters for the metrics. */
struct resolve_upstream_stats {
	uint64_t n_asked, n_found, n_missing, n_failed; /* fetches */
	uint64_t n_remembered;                          /* requests answered from the miss cache */
	uint64_t n_over;                                /* requests above the budget of questions */
	uint64_t n_stored, n_not_stored;
	uint64_t bytes;
};
void resolve_upstream_stats(struct resolver *r, struct resolve_upstream_stats *ret);
/* A question to other servers that the caller asks by itself: true if the client's budget permits it, which it uses. */
bool resolve_upstream_question(struct resolver *r, uint32_t client);
/* Forget that the other servers have no debug file and no program of this build ID, so that the next request
 * asks them again. */
void resolve_upstream_forget(struct resolver *r, const struct build_id *id);
