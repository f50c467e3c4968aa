/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: keeps files from elsewhere: pushed, fetched from other servers, or made here (symbol tables).
 *
 * An *object* has a key, a build ID and a kind ("debuginfo", "source" with its path, ...). Its *record* names
 * its origin and its *content*; contents are named by their SHA-256, so the same bytes are kept once, under
 * however many keys. Contents are stored as zstd in seekable frames (any zstd can unpack them; a read costs
 * one frame), or raw, to be mapped and sent by sendfile. A content that must not wait for the compressor is
 * first stored raw and compressed in the background. docs/formats/store.md has the layout.
 *
 * An object exists completely or not at all, at every instant and for every process; store_put_commit()
 * returns when it is on disk. Several processes may use one store at once (a server, `lode store gc`); a
 * reader of an object that is removed meanwhile reads on.
 *
 * All calls may come from any thread; a struct store_put belongs to one thread at a time. Calls wait for disks, and of
 * a store in a bucket for the network. If that cannot be reached: ERR_IO with os ENOTCONN; that says nothing of what is
 * there.
 */
#pragma once

#include "io/io.h"
#include "base/sha256.h"

enum store_kind {
	STORE_DEBUGINFO,
	STORE_EXECUTABLE,
	STORE_SOURCES, /* a tar of source files; members are named by their paths, without the leading slash */
	STORE_SOURCE,  /* one source file; arg: its path as requested */
	STORE_SECTION, /* one section of an ELF file; arg: its name */
	STORE_SYMTAB,  /* lode's symbol table; arg: the version of its format, or another text chosen by its
		          maker, or empty */
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
/* "<build id>/debuginfo", "<build id>/source/usr/src/x.c": for messages; in the arena. And parsing it: the
 * arg is a view into @s. */
struct str store_key_text(const struct store_key *key, struct arena *a);
bool store_key_parse(struct str s, struct store_key *ret);

/* The origin decides which objects are evicted first: made (can be made again), fetched (can be fetched
 * again), pushed. */
enum store_origin { STORE_MADE, STORE_FETCHED, STORE_PUSHED, STORE_N_ORIGINS };
const char *store_origin_name(enum store_origin origin); /* "fetched" */

/* How much information a file has; of two for the same key the better one is kept. */
/*
 * STORE_DYNSYM: a debug file of an agent that strips programs, with what these have at run time: dynamic symbols. It names
 * addresses if there is nothing else; it is no answer for clients, since other servers may have the debug information.
 */
enum store_quality { STORE_DYNSYM, STORE_STRIPPED, STORE_SYMBOLS, STORE_DWARF, STORE_N_QUALITIES };
const char *store_quality_name(enum store_quality quality); /* "dynsym", "stripped", "symtab", "dwarf" */
enum store_quality store_quality_of(uint32_t elf_flags);    /* by ELF_HAS_* of elf/elf.h */

#define STORE_SHA256_SIZE SHA256_SIZE

#define STORE_MAX_HASHES 4u

/* The fields of a record. The function that fills it in says where its strings are. */
struct store_meta {
	/* given at the commit */
	enum store_origin origin;
	/* of a file that is not ELF: STORE_DWARF; of a tar of split files alone: STORE_SYMBOLS */
	enum store_quality quality;
	int64_t mtime;      /* of the file, as in X-DEBUGINFOD-like headers and Last-Modified; 0: unknown */
	struct str from;    /* the name of the pusher's token, or the URL that it was fetched from */
	struct str owner;   /* of a pushed object; empty in older records: `from` is it */
	struct str address; /* of the pusher */
	/*
	 * Other identities of the file (docs/decisions/0031-identities.md); size 0: none. A program that was stripped in
	 * several ways has several hashes; the first ones of the list are set.
	 */
	struct build_id go, hashes[STORE_MAX_HASHES];
	struct str file, archive; /* path on the machine, or in the package, and the package's:
				     X-DEBUGINFOD-FILE and -ARCHIVE */
	struct str lacks;         /* of a made object: the file that it would be better with; empty: none */
	/* filled in by the store */
	uint8_t sha256[STORE_SHA256_SIZE]; /* of the content */
	uint64_t size;                     /* of the content */
	uint64_t stored_size;              /* on disk */
	bool raw;
	bool later;        /* raw for now: to be compressed in the background */
	int64_t created;   /* wall time of the commit */
	int64_t last_used; /* to within STORE_USED_EVERY_S */
	/* of an earlier version: when it was replaced or removed, by whom */
	int64_t replaced;
	struct str replaced_by;
};
#define STORE_USED_EVERY_S 60

/* Outcomes. */
enum {
	STORE_MISSING = 1, /* there is no object under that key */
	STORE_KEPT = 2,    /* a better object exists and stays: nothing was changed */
	/* These very bytes are stored under that key already; a commit is durable nevertheless. */
	STORE_SAME = 3,
	STORE_FULL = 4,  /* no room within the quota, and nothing that may be evicted */
	STORE_OWNED = 6, /* the object belongs to another owner: nothing was changed */
	STORE_HELD =
		7, /* the push is on this machine's disk, and will be put into the bucket when that is back */
	STORE_UNSURE = 5, /* not known to be on disk and undamaged: the bytes have to be put again */
};

struct store;

struct store_options {
	uint64_t quota;    /* limit of bytes of contents and of incomplete uploads together; 0: none */
	struct room *room; /* borrowed: disk space that incomplete uploads may use; NULL: all */
	bool keep_pushed;  /* never evict pushed objects: STORE_FULL instead */
	bool maintain; /* for servers: threads that evict, collect garbage once a day, and compress contents
		          put with `later` */
	bool object_list; /* keep all records in memory, for store_names(), store_latest(), store_figures():
			     about 200 bytes an object */
	bool create;      /* create it if it is missing; else that is an error */
	const char *local_dir; /* of a store in a bucket: a folder for staging files */
	/* ... bytes of contents that are kept in its folder "cache", for one process at a time; 0: none */
	uint64_t cache_size;
	/*
	 * ... and bytes of pushes that are held in a folder of it while the bucket is away, with `maintain`; 0: they are
	 * refused. Pushes that were held before are put in either case.
	 */
	uint64_t hold_size;
	int level; /* of zstd; 0: STORE_LEVEL */
	/*
	 * May be NULL. Called in the committing thread before the commit returns, and must be quick: an
	 * object was committed whose bytes are new, or in place of damaged ones; @replaced: in place of others.
	 */
	void (*committed)(void *arg, const struct store_key *key, const struct store_meta *meta,
			  bool replaced);
	void *committed_arg;
};
#define STORE_LEVEL 1

/*
 * The store in @dir: a folder, or "s3://BUCKET/PREFIX" (s3_shared()). A folder or prefix with other content is ERR_INVALID,
 * "not a store"; so is a store of a newer version.
 */
int store_open(const char *dir, const struct store_options *opts, struct store **ret, struct err *err);
/* The same in memory, for tests. */
struct store *store_open_memory(const struct store_options *opts);
void store_close(struct store *st); /* all objects and puts must be closed; takes NULL */

/* ---- reading ---- */

/* Read the record of @key; strings in @a. STORE_MISSING. Does not count as a use. */
int store_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret,
	       struct err *err);
/*
 * The same, before a client is told that it need not send the bytes. STORE_UNSURE: the bytes are to be put again.
 * STORE_HELD: a push is held; *ret is that one's. A record that can be read may have been renamed a moment ago, or before a
 * kill, and not be on disk yet.
 */
enum store_sureness {
	STORE_AS_KNOWN, /* only if this process knows already that it is on disk and whole: reads the record */
	STORE_ON_DISK,  /* synced, once in each process; its content is not known to be damaged */
	STORE_WHOLE,    /* and all of its content is read, once in each process */
};
int store_find_sure(struct store *st, const struct store_key *key, enum store_sureness how, struct arena *a,
		    struct store_meta *ret, struct err *err);
/*
 * This thread is about to ask for these objects, and, with @put (may be NULL; ended), to commit it: of a store in a bucket
 * all is asked for at once. Until store_look_end() its questions may be answered from that, so it is to be short. Nested
 * looks are one; one that begins with more than STORE_LOOK_MAX objects is of the first ones.
 */
#define STORE_LOOK_MAX 48u
struct store_put;
void store_look(struct store *st, const struct store_key *keys, size_t n, const struct store_put *put);
void store_look_end(struct store *st);
/* Whether objects are on another machine: each question may take long. */
bool store_is_remote(const struct store *st);
/* Ahead of STORE_ON_DISK for many objects: if many of them are not known to be on disk, one sync serves all. */
int store_settle(struct store *st, const struct store_key *keys, size_t n, struct err *err);
/*
 * Open its content for reading at random; @ret_meta may be NULL. STORE_MISSING. Counts as a use, for
 * eviction. A damaged frame is ERR_INVALID when it is read. A raw content has a descriptor (source_raw_fd()),
 * from which it can be mapped: contents never change, they are only unlinked.
 */
int store_open_object(struct store *st, const struct store_key *key, struct arena *a,
		      struct store_meta *ret_meta, struct source **ret, struct err *err);

/*
 * With store_options.object_list: the build ID of the object that has this other identity, of several that of the oldest;
 * false: none is known, or it is the build ID of an object. Before the first walk over the records is done, some are not
 * known.
 */
bool store_alias(struct store *st, const struct build_id *alias, struct build_id *ret);

#define STORE_START_SIZE 16u
/*
 * With store_options.object_list: the build ID of a debug file or program that begins with these STORE_START_SIZE bytes; of no
 * object or of several: false. From memory: an object that another process has put is not known before the next walk.
 */
bool store_complete(struct store *st, struct bytes start, struct build_id *ret);

/* Add a hash, unless it is there, or STORE_MAX_HASHES are. Whether it was added. */
bool store_meta_add_hash(struct store_meta *m, const struct build_id *hash);

/* Whether a program or debug file has this build ID, not as an alias. Reads records. */
bool store_owns(struct store *st, const struct build_id *id);

/* Changes when this process replaced or removed an object: what was read before may be outdated. */
uint64_t store_generation(struct store *st);

/* ---- writing ---- */

struct store_put;

struct store_put_options {
	bool raw; /* stored without compression: for contents that are mapped, or cannot be compressed */
	/*
	 * Needs a known size: the content is stored raw for now, and compressed in the background, at low
	 * priority, by the process that has this store open with store_options.maintain, now or after a
	 * restart. Where quota or disk leave no room for that, it is compressed at once.
	 */
	bool later;
	uint64_t size; /* expected size; STORE_SIZE_UNKNOWN */
	/*
	 * With a name: the SHA-256 that the content will have, if its sender is right; NULL: unknown. To a store in a
	 * bucket a large content is then uploaded while it comes.
	 */
	const uint8_t *sha256;
	/*
	 * Not empty (then the content is not raw, and of known size): the progress is noted about every
	 * STORE_SAVE_EVERY bytes, and if the process ends without a commit or an abort, also by kill -9, the
	 * bytes up to there are kept for STORE_PARTIAL_S: a put with the same name and size goes on at
	 * store_put_size(). Any text up to STORE_MAX_PARTIAL bytes without line feeds. Of two puts with one
	 * name at once only the first is kept. A commit that fails since the store cannot be reached keeps them, too.
	 */
	struct str name;
};
#define STORE_SAVE_EVERY   MIB(1)
#define STORE_PARTIAL_S    7200
#define STORE_MAX_PARTIAL  1024u
#define STORE_SIZE_UNKNOWN UINT64_MAX

/*
 * Begin to write an object. It needs about half a MiB of memory whatever its size. STORE_FULL, at once if the
 * size is known, else at the commit. A put that is never committed vanishes when the process ends, however it
 * ends.
 *
 *   store_put_begin, store_put_write..., [store_put_end, check the source], store_put_commit or store_put_abort
 */
int store_put_begin(struct store *st, const struct store_put_options *opts, struct store_put **ret,
		    struct err *err);
/* Write the next bytes. After a failure (a full disk) or STORE_FULL the put must be aborted. */
int store_put_write(struct store_put *p, struct bytes b, struct err *err);
uint64_t store_put_size(const struct store_put *p); /* bytes written so far */
/*
 * All bytes are written. *ret, if not NULL, reads the content at random, so that it can be checked before it
 * is kept; close it before the commit (or abort). Fewer or more bytes than announced are ERR_INVALID.
 * *ret_sha256 may be NULL.
 */
int store_put_end(struct store_put *p, struct source **ret, uint8_t ret_sha256[STORE_SHA256_SIZE],
		  struct err *err);
/*
 * Make it the object of @key, on disk when this returns. Takes @p, also on failure and other outcomes.
 *
 * With STORE_IF_BETTER, an existing object stays if its quality is better (STORE_KEPT). With equal quality
 * the new one replaces it, unless the existing one was pushed and this one was not (STORE_KEPT). STORE_SAME:
 * the bytes are the same; the record stays, except that a push takes over a fetched object. STORE_FULL.
 *
 * STORE_IF_OWNED is STORE_IF_BETTER for a push by meta->owner: if it would replace a pushed object of another
 * owner: STORE_OWNED. An object that is replaced keeps its owner.
 *
 * A pushed object that is replaced stays as an earlier version: STORE_PAST_MAX of each object, for STORE_PAST_S, and
 * as long as the quota has room.
 */
enum store_policy { STORE_ALWAYS, STORE_IF_BETTER, STORE_IF_OWNED };
#define STORE_PAST_MAX 3u
#define STORE_PAST_S   (30 * INT64_C(86400))
/* The owner of an object; empty: it has none, and every push may replace it. */
struct str store_owner(const struct store_meta *meta);
/*
 * With store_options.hold_size a push that cannot be put, since the bucket is away, is held: STORE_HELD. It is found by
 * this process at once, and survives a kill. A thread puts it when the bucket is back, in the order in which the pushes of
 * a build ID came, by the same rules.
 */
int store_put_commit(struct store_put *p, const struct store_key *key, const struct store_meta *meta,
		     enum store_policy policy, struct err *err);
/* Would store_put_commit() hold a push without asking the bucket, since that was away a moment ago? */
bool store_holds_now(struct store *st);
/* Can pushes be held? With @away: the bucket is away, so hold the next one at once. */
bool store_may_hold(struct store *st, bool away);
/* Can it take the place of another owner's object? Not a debug file of dynamic symbols alone: all others are better. */
bool store_takes_place(const struct store_key *key, const struct store_meta *meta);
/*
 * Would a push of @owner change what another owner's object answers? Then the owner's name, in @a; else empty. A debug file
 * would also take the place of a program of another owner that has the debug information itself. @sha256 may be NULL. @err
 * (may be NULL) is set if the store could not be asked.
 */
struct str store_other_owner(struct store *st, const struct store_key *key, struct str owner,
			     const uint8_t *sha256, struct arena *a, struct err *err);
void store_put_abort(struct store_put *p); /* takes NULL */
/* The same, but the progress of a put with a name stays, if it can be put on disk. */
void store_put_leave(struct store_put *p);

/* Incomplete puts with a name, left or being written. */
struct store_partial {
	struct str name;
	uint64_t size, all; /* bytes that are saved, and of the whole */
	int64_t saved;      /* wall time */
};
int store_partials(struct store *st, int (*fn)(void *arg, const struct store_partial *p), void *arg,
		   struct err *err);
/* Of one of these; 0: none is left. */
uint64_t store_partial_size(struct store *st, struct str name);
/* Remove it: no put will go on with it. false: it is being written, and stays. */
bool store_forget_partial(struct store *st, struct str name);

/* Put a content that is in memory. */
int store_put_bytes(struct store *st, const struct store_key *key, const struct store_meta *meta, bool raw,
		    struct bytes b, enum store_policy policy, struct err *err);

/* ---- the object list ---- */

/* With store_options.object_list; else it is empty. The first walk over all records fills it, and changes by
 * this process are added; changes by other processes appear with the next walk. */
struct store_known {
	struct str name;      /* the sort key, for a cursor */
	struct store_key key; /* without its arg */
	enum store_origin origin;
	enum store_quality quality;
	int64_t created;
	uint64_t size;
	struct str file, archive, from;
};
/* Debug files and programs, in the order of their names. They may have been removed meanwhile. Strings in
 * @a. */
struct store_names_query {
	/* does the object's `file` match? Called under a lock: it must look at the text and do nothing
	 * else */
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
/* The objects of @origin that came last, the last first. */
void store_latest(struct store *st, enum store_origin origin, size_t max, struct arena *a,
		  struct store_known **ret, size_t *ret_n);
struct store_figures {
	bool all;                                            /* of all objects */
	uint64_t n[STORE_N_ORIGINS], bytes[STORE_N_ORIGINS]; /* on disk, each object counted */
	bool used_known;
	uint64_t used, quota;        /* store_usage(); 0: no limit */
	uint64_t n_waiting, waiting; /* objects that wait to be compressed, and their bytes */
	bool remote;                 /* in a bucket */
	/* The cache of contents in front of that; 0 without one. Contents that were opened: from the cache, at all. */
	uint64_t cache_size, cache_max, n_cached, n_opened;
	/* Pushes that are held, and those that were refused; hold_max 0: none can be added. */
	uint64_t n_held, n_refused, hold_size, hold_max;
};
/* Fields from used_known on are also set without an object list. */
void store_figures(struct store *st, struct store_figures *ret);

/* ---- maintenance ---- */

struct store_object {
	struct store_key key;
	struct store_meta meta;
};
/*
 * Report up to range->max objects in the order of their build IDs, from range->cursor on (empty: the first;
 * else *ret_next of the call before), only those whose build ID begins with range->prefix (hexadecimal;
 * empty: all). A non-zero return of @fn ends it and is returned; views are valid for the call. *ret_next is
 * empty at the end. Unreadable records are skipped; `lode store verify` reports them. With range->past: the earlier
 * versions instead, of each object the oldest first.
 */
typedef int store_object_fn(void *arg, const struct store_object *o);
struct store_range {
	struct str prefix, cursor;
	size_t max;
	bool past;
};
int store_list(struct store *st, const struct store_range *range, store_object_fn *fn, void *arg,
	       struct buf *ret_next, struct err *err);
/*
 * STORE_MISSING. @by not empty: a pushed object stays as an earlier version, removed by @by. Empty: all earlier
 * versions are removed, too, and the room becomes free with the next store_gc().
 */
int store_remove(struct store *st, const struct store_key *key, struct str by, struct err *err);
/*
 * Make an earlier version the object again: that whose SHA-256 begins with @sha256 (hexadecimal; empty: the one that was
 * replaced last). The present one becomes an earlier version, replaced by @by. STORE_MISSING.
 */
int store_restore(struct store *st, const struct store_key *key, struct str sha256, struct str by,
		  struct err *err);

/*
 * Pushes that are held in the folder @local of the store at @url, in order, also if another process serves them. Those that
 * were refused, since the object in the bucket has another owner (meta.replaced_by; empty: the file is damaged), stay for
 * STORE_PAST_S, or until their room is needed. A non-zero return of @fn ends it and is returned.
 */
struct store_held {
	struct store_object object;
	bool refused;
};
typedef int store_held_fn(void *arg, const struct store_held *h);
int store_held_list(const char *local, const char *url, store_held_fn *fn, void *arg, struct err *err);
/*
 * Copy those that are held at this moment into the folder @to_local, also while another process adds and puts them, so that it
 * has the place of @local after a restore. What it had before is replaced at the end as a whole, but for pushes of another
 * folder than this one: those were not put, as far as is known (ERR_INVALID). @stop: true ends it with ERR_CANCELLED. *ret_n:
 * those that wait; one that was put meanwhile is not among them. A push that is put again after a restore is judged by the
 * rules of every push.
 */
int store_held_copy(const char *local, const char *url, const char *to_local, bool (*stop)(void),
		    uint64_t *ret_n, struct err *err);
/* The last ones of this process that were refused; strings in @a. Returns their number. */
size_t store_refused(struct store *st, struct arena *a, struct store_object *ret, size_t max);

struct store_stats {
	uint64_t n_objects, n_contents;
	uint64_t n_past;                     /* earlier versions */
	uint64_t bytes;                      /* on disk */
	uint64_t content_size;               /* of all objects, unpacked, each counted */
	uint64_t by_origin[STORE_N_ORIGINS]; /* objects */
};
int store_stats(struct store *st, struct store_stats *ret, struct err *err); /* walks over everything */
/*
 * Bytes on disk: contents, each counted once, and staging files. It needs no walk: it is the result of the
 * last one, plus later changes. false: not known yet.
 */
bool store_usage(struct store *st, uint64_t *ret_bytes);

/* Called at intervals by the functions below: a non-zero return ends the work with ERR_CANCELLED. */
typedef int store_progress_fn(void *arg, uint64_t n_done, uint64_t n_all, uint64_t bytes_done,
			      uint64_t bytes_all);

struct store_gc_result {
	uint64_t n_contents, bytes; /* removed contents without a record */
	uint64_t n_young;           /* ... and those left, since a record may be being written */
	uint64_t n_temporary;       /* files left by processes that have ended */
	uint64_t n_past;            /* earlier versions that were too old */
};
/*
 * Remove contents that no record names, and files left by processes that have ended. Safe at any time. Contents that damaged
 * records may need stay; the log names such a record, once a day. ERR_IO: a record cannot be read now; nothing was removed.
 */
int store_gc(struct store *st, store_progress_fn *progress, void *arg, struct store_gc_result *ret,
	     struct err *err);

struct store_evict_result {
	uint64_t n_objects, bytes;
};
/*
 * Remove the least recently used objects until the store takes at most @target bytes: made and fetched ones
 * first, and pushed ones only when none of those is left. Before pushed ones go contents that were kept for
 * damaged records.
 */
int store_evict(struct store *st, uint64_t target, struct store_evict_result *ret, struct err *err);

struct store_verify_result {
	uint64_t n_objects, n_contents, bytes;
	uint64_t n_bad, n_removed;
};
/*
 * Read and check all contents. @bad is called for each object (or record: key empty) that is damaged, with
 * the reason, or cannot be read now, which removes nothing. With `remove` damaged records and those of damaged contents are
 * removed, so that the objects can be fetched or pushed again.
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

/* ---- copying ---- */

/* Of records: objects and earlier versions. */
struct store_copy_result {
	uint64_t n_all, n_done;
	uint64_t n_copied;
	uint64_t n_past;  /* earlier versions among these */
	uint64_t n_there; /* the other store had them already */
	uint64_t n_kept;  /* it has a better or a later object, which stays */
	uint64_t n_gone;  /* removed from the source meanwhile */
	uint64_t n_bad;
	uint64_t n_contents, bytes; /* copied */
	uint64_t bytes_there;       /* stored bytes of n_there, each record counted */
};
/*
 * Both are called in the calling thread. @bad: a record or its content is damaged or missing, and was not copied. @progress
 * at intervals: a non-zero return ends the copy with ERR_CANCELLED.
 */
struct store_copy_options {
	unsigned parallel; /* records at once; 0: 8 */
	/*
	 * @to is a backup of @from: a pushed object of @from takes the place of any other one. It may be of less quality, or
	 * older, if the one that @to has was removed from @from, or an earlier version was restored there.
	 */
	bool backup;
	store_bad_fn *bad; /* may be NULL, as progress */
	void *arg_bad;
	int (*progress)(void *arg, const struct store_copy_result *so_far);
	void *arg;
};
/*
 * Copy all objects and earlier versions of @from that @to lacks, with all their fields; the times of their last use become
 * the present. A content is copied as it is stored, and its SHA-256 is checked. Where @to has other bytes under a key, the
 * object of better quality stays, of equal quality a pushed one, else the later one (but see @backup); a pushed object that is
 * replaced becomes an earlier version. Both stores may be in use. If this fails or is killed, another call goes on. *ret is set also on
 * failure.
 */
int store_copy(struct store *from, struct store *to, const struct store_copy_options *opts,
	       struct store_copy_result *ret, struct err *err);
