/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: what came from elsewhere and is kept: pushed, fetched from other servers, or made here (symbol
 * tables).
 *
 * An *object* has a key, a build ID and a kind ("debuginfo", "source" with its path, ...). Its *record* says
 * where it came from and which *content* it has; contents are named by their SHA-256, so the same bytes are
 * kept once, under however many keys. Contents are kept as zstd in seekable frames (any zstd can unpack them;
 * a read costs one frame), or raw, to be mapped and sent by sendfile. What shall not wait for the compressor
 * is first kept raw and compressed in the background. docs/formats/store.md has the layout.
 *
 * An object is there whole or not at all, at every instant and for every process; store_put_commit() returns
 * when it is on disk. Several processes may use one store at once (a server, `lode store gc`); whoever reads
 * an object that is removed meanwhile reads on.
 *
 * All calls may come from any thread; a struct store_put belongs to one thread at a time. Nothing here waits
 * for the network, but all of it may wait for disks.
 */
#pragma once

#include "io/io.h"
#include "store/sha256.h"

enum store_kind {
	STORE_DEBUGINFO,
	STORE_EXECUTABLE,
	STORE_SOURCES, /* a tar of source files; members are named by their paths, without the leading slash
			*/
	STORE_SOURCE,  /* one source file; arg: its path as it is asked for */
	STORE_SECTION, /* one section of an ELF file; arg: its name */
	STORE_SYMTAB,  /* lode's symbol table; arg: what it must fit, as its maker sees fit (its format's
			  version), or empty */
	STORE_N_KINDS
};
const char *store_kind_name(enum store_kind kind); /* "debuginfo" */
bool store_kind_parse(struct str name, enum store_kind *ret);

#define STORE_MAX_ARG KIB(8)

struct store_key {
	struct build_id id;
	enum store_kind kind;
	struct str arg; /* at most STORE_MAX_ARG bytes */
};
/* "<build id>/debuginfo", "<build id>/source/usr/src/x.c": for messages; in the arena. And back: the arg is a
 * view into @s. */
struct str store_key_text(const struct store_key *key, struct arena *a);
bool store_key_parse(struct str s, struct store_key *ret);

/* Where it came from decides what is evicted first: made (it can be made again), fetched (it can be fetched
 * again), pushed. */
enum store_origin { STORE_MADE, STORE_FETCHED, STORE_PUSHED, STORE_N_ORIGINS };
const char *store_origin_name(enum store_origin origin); /* "fetched" */

/* How much a file tells; of two for the same key the better one is kept. */
enum store_quality { STORE_STRIPPED, STORE_SYMBOLS, STORE_DWARF, STORE_N_QUALITIES };
const char *store_quality_name(enum store_quality quality); /* "stripped", "symtab", "dwarf" */
enum store_quality store_quality_of(uint32_t elf_flags);    /* by ELF_HAS_* of elf/elf.h */

#define STORE_SHA256_SIZE SHA256_SIZE

/* What a record says. Its strings lie where the call that filled it in says. */
struct store_meta {
	/* given at the commit */
	enum store_origin origin;
	enum store_quality quality; /* of what is no ELF file: STORE_DWARF */
	int64_t mtime;   /* of the file, as X-DEBUGINFOD-like headers and Last-Modified tell it; 0: unknown */
	struct str from; /* who pushed it (the token's name), or the URL that it was fetched from */
	struct str address;       /* of the pusher */
	struct str file, archive; /* path on the machine, or in the package, and the package's:
				     X-DEBUGINFOD-FILE and -ARCHIVE */
	/* filled in by the store */
	uint8_t sha256[STORE_SHA256_SIZE]; /* of the content */
	uint64_t size;                     /* of the content */
	uint64_t stored_size;              /* as it lies there */
	bool raw;
	bool later;        /* raw for now: to be compressed when there is time */
	int64_t created;   /* wall time of the commit */
	int64_t last_used; /* to within STORE_USED_EVERY_S */
};
#define STORE_USED_EVERY_S 60

/* Outcomes. */
enum {
	STORE_MISSING = 1, /* nothing under that key */
	STORE_KEPT = 2,    /* a better one is there, and stays: nothing was changed */
	/* these very bytes are there already under that key; a commit is durable nevertheless */
	STORE_SAME = 3,
	STORE_FULL = 4, /* no room within the quota, and nothing that may be evicted */
};

struct store;

struct store_options {
	uint64_t quota; /* bytes that contents, and what has arrived of others, may take together; 0: no limit
			 */
	bool keep_pushed; /* never evict what was pushed: rather STORE_FULL */
	bool maintain; /* threads of its own evict, collect garbage once a day, and compress what was put for
			   later: for servers */
	bool object_list; /* what is in it is known by heart, for store_names(), store_latest(),
			   store_figures(): about 200 bytes an object */
	bool create;      /* make it if it is not there; else that is an error */
	int level;        /* of zstd; 0: STORE_LEVEL */
	/*
	 * NULL, or: an object was committed whose bytes were not there before; @replaced: others were. In the
	 * thread that commits, before that returns: it must be quick.
	 */
	void (*committed)(void *arg, const struct store_key *key, const struct store_meta *meta,
			  bool replaced);
	void *committed_arg;
};
#define STORE_LEVEL 1

/*
 * The store in @dir. A folder that holds something else is ERR_INVALID, "not a store"; one of a newer version
 * too.
 */
int store_open(const char *dir, const struct store_options *opts, struct store **ret, struct err *err);
/* The same in memory, for tests. */
struct store *store_open_memory(const struct store_options *opts);
void store_close(struct store *st); /* all objects and puts must be closed; takes NULL */

/* ---- reading ---- */

/* What the record of @key says; strings in @a. STORE_MISSING. Does not count as a use. */
int store_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret,
	       struct err *err);
/*
 * Its bytes, at random; @ret_meta may be NULL. STORE_MISSING. A use, for eviction. A frame that is damaged is
 * ERR_INVALID when it is read. A raw one has its descriptor (source_raw_fd()), from which it can be mapped:
 * contents never change, only their names go.
 */
int store_open_object(struct store *st, const struct store_key *key, struct arena *a,
		      struct store_meta *ret_meta, struct source **ret, struct err *err);

/* Changes when an object was replaced or removed by this process: what was read before may be other now. */
uint64_t store_generation(struct store *st);

/* ---- writing ---- */

struct store_put;

struct store_put_options {
	bool raw; /* kept as it is, not compressed: what is mapped, or cannot be compressed */
	/*
	 * Of known size: kept as it comes for now, and compressed in the background, at low priority, by
	 * whoever has this store open with store_options.maintain, now or after a restart. Where quota or
	 * disk leave no room for that, it is compressed at once.
	 */
	bool later;
	uint64_t size; /* what to expect; STORE_SIZE_UNKNOWN */
	/*
	 * Not empty (and then not raw, and of known size): every STORE_SAVE_EVERY bytes or so that are
	 * written it is noted how far it is, and when the process ends without a commit or an abort, also by
	 * kill -9, that much is kept for STORE_PARTIAL_S: who begins with the same name and size goes on at
	 * store_put_size(). Any text up to STORE_MAX_PARTIAL bytes without line feeds. What two begin by one
	 * name at once is only kept for the first.
	 */
	struct str name;
};
#define STORE_SAVE_EVERY   MIB(1)
#define STORE_PARTIAL_S    7200
#define STORE_MAX_PARTIAL  1024u
#define STORE_SIZE_UNKNOWN UINT64_MAX

/*
 * Begin to write an object. It needs about half a MiB of memory however long it gets. STORE_FULL, at once
 * where the size is known, else at the commit. What is never committed is gone when the process ends, however
 * it ends.
 *
 *   store_put_begin, store_put_write..., [store_put_end, look at the source], store_put_commit or
 * store_put_abort
 */
int store_put_begin(struct store *st, const struct store_put_options *opts, struct store_put **ret,
		    struct err *err);
/* Bytes in their order. A failure (a full disk), or STORE_FULL, is one of the put: abort it. */
int store_put_write(struct store_put *p, struct bytes b, struct err *err);
uint64_t store_put_size(const struct store_put *p); /* bytes written so far */
/*
 * All is written. *ret, if not NULL, reads it at random, to be checked before it is kept; to be closed before
 * the commit (or abort). Fewer or more bytes than were announced are ERR_INVALID. *ret_sha256 may be NULL.
 */
int store_put_end(struct store_put *p, struct source **ret, uint8_t ret_sha256[STORE_SHA256_SIZE],
		  struct err *err);
/*
 * Make it the object of @key, on disk when this returns. Takes @p, also on failure and other outcomes.
 *
 * With STORE_IF_BETTER, one that is there stays if its quality is better (STORE_KEPT). Equal quality: the new
 * one takes its place, but if what is there was pushed and this was not (STORE_KEPT). STORE_SAME: the bytes
 * are the same; the record stays, except that a push takes over what was fetched. STORE_FULL.
 */
enum store_policy { STORE_ALWAYS, STORE_IF_BETTER };
int store_put_commit(struct store_put *p, const struct store_key *key, const struct store_meta *meta,
		     enum store_policy policy, struct err *err);
void store_put_abort(struct store_put *p); /* takes NULL */
/* The same, but what was saved of one with a name stays, and is on disk. */
void store_put_leave(struct store_put *p);

/* Those that were left, or are being written. */
struct store_partial {
	struct str name;
	uint64_t size, all; /* so much is saved, of so much */
	int64_t saved;      /* wall time */
};
int store_partials(struct store *st, int (*fn)(void *arg, const struct store_partial *p), void *arg,
		   struct err *err);
/* Nobody will go on with it. */
void store_forget_partial(struct store *st, struct str name);

/* For what is at hand whole. */
int store_put_bytes(struct store *st, const struct store_key *key, const struct store_meta *meta, bool raw,
		    struct bytes b, enum store_policy policy, struct err *err);

/* ---- the object_list ---- */

/* With store_options.object_list; else it is empty. It is made by the first walk over all records, and follows
 * what this process does; what others did meanwhile, it learns by the next one. */
struct store_known {
	struct str name;      /* what it is sorted by, for a cursor */
	struct store_key key; /* without its arg */
	enum store_origin origin;
	enum store_quality quality;
	int64_t created;
	uint64_t size;
	struct str file, archive, from;
};
/* Debug files and programs, in the order of their names. They may have been removed meanwhile. Strings in @a. */
struct store_names_query {
	/* does the object's `file` match? Called under a lock: it must look at the text and do nothing else */
	bool (*match)(void *arg, struct str file);
	void *arg;
	struct str after; /* a name: objects after it */
	size_t max;
};
struct store_names {
	struct store_known *list;
	size_t n;
	bool all; /* all objects of the store were known */
};
int store_names(struct store *st, const struct store_names_query *q, struct arena *a, struct store_names *ret,
		struct err *err);
/* Those that came last by that origin, the last first. */
void store_latest(struct store *st, enum store_origin origin, size_t max, struct arena *a,
		  struct store_known **ret, size_t *ret_n);
struct store_figures {
	bool all;                                            /* of all objects */
	uint64_t n[STORE_N_ORIGINS], bytes[STORE_N_ORIGINS]; /* as they lie there, each object counted */
	bool used_known;
	uint64_t used, quota;        /* store_usage(); 0: no limit */
	uint64_t n_waiting, waiting; /* objects that are to be compressed yet, and their bytes */
};
/* The latter half also without a object_list. */
void store_figures(struct store *st, struct store_figures *ret);

/* ---- keeping house ---- */

struct store_object {
	struct store_key key;
	struct store_meta meta;
};
/*
 * Up to @max objects in the order of their build IDs, from @cursor on (empty: the first; else what *ret_next
 * said), only those whose build ID begins with @prefix (hexadecimal; empty: all). fn's non-zero return ends
 * it and is returned; views are good for the call. *ret_next is empty at the end. A record that cannot be
 * read is passed over; `lode store verify` names it.
 */
typedef int store_object_fn(void *arg, const struct store_object *o);
struct store_range {
	struct str prefix, cursor;
	size_t max;
};
int store_list(struct store *st, const struct store_range *range, store_object_fn *fn, void *arg,
	       struct buf *ret_next, struct err *err);
/* STORE_MISSING. Room comes back with the next store_gc(). */
int store_remove(struct store *st, const struct store_key *key, struct err *err);

struct store_stats {
	uint64_t n_objects, n_contents;
	uint64_t bytes;                      /* as they lie there */
	uint64_t content_size;               /* of all objects, unpacked, each counted */
	uint64_t by_origin[STORE_N_ORIGINS]; /* objects */
};
int store_stats(struct store *st, struct store_stats *ret, struct err *err); /* walks over all of it */
/*
 * Bytes on disk: contents, each once, and what has arrived of those that are being put or were cut. Without a
 * walk: what the last one found, and what came and went since. false: not known yet.
 */
bool store_usage(struct store *st, uint64_t *ret_bytes);

/* Progress of the calls below, now and then: non-zero ends the work with ERR_CANCELLED. */
typedef int store_progress_fn(void *arg, uint64_t n_done, uint64_t n_all, uint64_t bytes_done,
			      uint64_t bytes_all);

struct store_gc_result {
	uint64_t n_contents, bytes; /* that no record named */
	uint64_t n_young;     /* ... but that were left, as a record may be on its way: for another time */
	uint64_t n_temporary; /* left behind by processes that are gone */
};
/* Remove contents that no record names, and what dead processes left. Safe beside any others. */
int store_gc(struct store *st, store_progress_fn *progress, void *arg, struct store_gc_result *ret,
	     struct err *err);

struct store_evict_result {
	uint64_t n_objects, bytes;
};
/*
 * Remove what was not used for longest until all takes no more than @target bytes: what was made or fetched
 * first, and only when nothing of that is left, what was pushed.
 */
int store_evict(struct store *st, uint64_t target, struct store_evict_result *ret, struct err *err);

struct store_verify_result {
	uint64_t n_objects, n_contents, bytes;
	uint64_t n_bad, n_removed;
};
/*
 * Read everything and compute it again. @bad is told of each object (or record: key empty) that cannot be
 * given out as it was taken, with its reason. With @remove their records go, so that they can be had again.
 */
typedef void store_bad_fn(void *arg, struct str what, const struct err *why);
struct store_verify_options {
	bool remove;
	store_bad_fn *bad; /* may be NULL, as progress */
	void *arg_bad;
	store_progress_fn *progress;
	void *arg;
};
int store_verify(struct store *st, const struct store_verify_options *o, struct store_verify_result *ret,
		 struct err *err);
