/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the files of store.
 *
 *   store.c       opening and closing; lists and figures
 *   put.c         writing
 *   partial.c     incomplete puts that were left
 *   list.c        listing, removal
 *   owner.c       owners; which of two objects stays
 *   held.c        pushes that are held on this machine while the bucket is away
 *   held_files.c  their files
 *   held_put.c    putting them into the bucket
 *   incoming.c    uploads that clients send to the bucket themselves
 *   maintain.c    the maintenance thread of a server
 *   verify.c      checking all contents
 *   check.c       checking one content
 *   scrub.c       checking all contents in the background
 *   known.c       facts that were made sure of: what is durable, whole, damaged
 *   evict.c       making room
 *   gc.c          removing contents that no record names
 *   copy.c        copying a store into another one
 *   past.c        earlier versions of pushed objects
 *   refs.c        the reference count: all records and contents
 *   pack.c        the thread that compresses contents that were kept raw at first
 *   object_list.c all records, in memory
 *   object.c      finding and reading
 *   record.c      a record as text
 *   key.c         kinds and keys: texts, and the names of records
 *   blob.h        the seam: named bytes, whole or not at all; blob_memory.c, blob_dir.c
 *                 (blob_dir.h: its files), blob_bucket.c
 *   blob_scan.c   reading all records
 *   bucket.h      the store in a bucket
 *   blob_cache.c  a cache in front of them; blob_files.c: its files
 *   staging*.c    files in which contents are gathered
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/age_clock.h"
#include "codec/codec.h"
#include "store/blob.h"
#include "store/store.h"

/* ---- key.c ---- */

/* Prefixes of the names of records and of contents. */
#define STORE_KEYS STR("keys/")
#define STORE_DATA STR("data/")
#define STORE_PAST STR("past/") /* records of earlier versions */

/* The name of the blob that holds the record of @key: "keys/ab/abcdef.debuginfo",
 * "keys/ab/abcdef.source-<SHA-256 of the arg>". */
void store_record_name(const struct store_key *key, struct buf *ret);
/* The name of the blob of a content: "data/01/0123...zst"; raw contents have no ending. */
#define STORE_CONTENT_NAME_SIZE BLOB_CONTENT_NAME_SIZE
char *store_content_name(const uint8_t sha256[STORE_SHA256_SIZE], bool raw,
			 char out[STORE_CONTENT_NAME_SIZE]);

/* ---- record.c ---- */

#define STORE_MAX_RECORD KIB(64)

/* docs/formats/store.md. last_used is not part of it. */
void store_record_write(const struct store_key *key, const struct store_meta *meta, struct buf *ret);
/* Strings are copied to @a. A damaged or incomplete record is ERR_INVALID. */
int store_record_read(struct bytes b, struct arena *a, struct store_key *ret_key, struct store_meta *ret,
		      struct err *err);
/* Are its bytes those that were written, by this or a newer version? That says nothing of its values. */
bool store_record_is_whole(struct str text);

/* ---- known.c ---- */

struct known {
	bool by_id; /* the id of a content's stamp is that of one version for ever; its time may be another by a touch */
	pthread_mutex_t lock;
	struct map durable, whole, damaged; /* under the lock */
};

struct store {
	struct blobs *blobs;
	struct known known;
	struct store_options opts; /* level filled in */
	int64_t settle_ns;
	_Atomic int64_t usage; /* see store_usage(); negative: not known yet */
	/* Bytes of the copy that pack.c writes: it takes the place of a larger content soon, so nothing is evicted for it. */
	_Atomic uint64_t packing;
	_Atomic uint64_t generation;
	pthread_mutex_t room; /* held by the one thread that makes room */
	/* work for the maintenance thread */
	pthread_mutex_t work_lock;
	pthread_cond_t work_changed;
	bool stop, crowded, garbage; /* under work_lock */
	int64_t opened_s;            /* the wall clock at the start */
	struct age_clock clock;      /* gc.c's; opened by the first collection */
	bool has_clock;
	uint64_t bad_said; /* hash of the damaged record in gc.c's last line about them; 0: none */
	int64_t bad_said_ms;
	struct maintain *maintain;   /* NULL: none */
	struct pack *pack;           /* NULL: none */
	struct background *scrub;    /* NULL: none */
	struct object_list *objects; /* NULL: none */
	struct hold *hold;           /* NULL: none */
	struct hold_putter *putter;  /* NULL: none */
};

/* Takes @blobs. */
struct store *store_open_blobs(struct blobs *blobs, const struct store_options *opts);

/*
 * For this time after it was put or touched a content without a record is not garbage: its record is being
 * written. A commit that takes longer touches the content again after writing the record. Any number above
 * the clocks' resolution will do.
 */
#define STORE_SETTLE_NS INT64_C(2000000000)

struct store_record {
	struct store_key key;
	struct store_meta meta;
	struct blob_stamp stamp;
	uint64_t sum; /* of its bytes */
};
void known_init(struct known *k, bool by_id);
void known_done(struct known *k);
/* This version of the record is on disk, and so is its content, the file with this id. 0: there is none: never known. */
void known_durable_add(struct known *k, const char *name, const struct store_record *record,
		       uint64_t content);
bool known_durable(struct known *k, const char *name, const struct store_record *record, uint64_t content);
/* This version of the content was read whole: its SHA-256 is that of its name, or it is damaged. */
void known_content_add(struct known *k, const char *name, const struct blob_stamp *stamp, bool whole);
void known_content_forget(struct known *k, const char *name, const struct blob_stamp *stamp);
enum known_state { KNOWN_NOTHING, KNOWN_WHOLE, KNOWN_DAMAGED };
enum known_state known_content(struct known *k, const char *name, const struct blob_stamp *stamp);

/* ---- check.c ---- */

/* The SHA-256 of all of @s. @each (may be NULL) is called with the size of each piece: non-zero is
 * ERR_CANCELLED. */
int content_hash(struct source *s, int (*each)(void *arg, uint64_t n), void *arg,
		 uint8_t ret[STORE_SHA256_SIZE], struct err *err);
/*
 * Read all of @stored (taken), the bytes of a content as they are in the store. ERR_INVALID, among others: they are not
 * those of @sha256.
 */
int content_compare(struct source *stored, bool raw, const uint8_t sha256[STORE_SHA256_SIZE],
		    int (*each)(void *arg, uint64_t n), void *arg, struct err *err);
/* codec_frames_open() of a content: each fault of its table is ERR_INVALID; ERR_LIMIT is a lack of memory. Takes @raw. */
int content_frames(struct source *raw, struct source **ret, struct err *err);
/* Read the content and note the result. 0: whole. BLOB_MISSING. Damaged: an error. */
int content_check(struct store *st, const uint8_t sha256[STORE_SHA256_SIZE], bool raw,
		  int (*each)(void *arg, uint64_t n), void *arg, struct err *err);
/*
 * Whether @why, of reading a content, says that its bytes are damaged. A read that fails (an errno) says nothing of
 * them: the next one may be right, so nothing is noted or removed for it.
 */
bool content_is_damaged(const struct err *why);
/*
 * Note the damage, so that a push replaces it. In a bucket the bytes may have been damaged on their way: they are read
 * CONTENT_FAR_TRIES times, and nothing is noted but that the content is not known to be whole.
 */
void content_note_damage(struct store *st, const char *name, const struct blob_stamp *stamp);
#define CONTENT_FAR_TRIES 3u
static inline unsigned content_tries(const struct store *st)
{
	return st->blobs->remote ? CONTENT_FAR_TRIES : 1;
}
/*
 * Is the content of @meta there and whole? It is read unless that is known. CONTENT_UNREADABLE: the disk does not give
 * it now; *ret is false, since bytes that are at hand may replace it.
 */
enum { CONTENT_UNREADABLE = 1 };
int content_is_whole(struct store *st, const struct store_meta *meta, bool *ret, struct err *err);
/* This process has just put it. */
void content_note_whole(struct store *st, const struct store_meta *meta);

/* ---- object.c ---- */

/* Read the record of that name. BLOB_MISSING. Strings in @a. */
int store_record_get(struct store *st, const char *name, struct arena *a, struct store_record *ret,
		     struct err *err);
/* The record in @text, which was read from the blob of that name. */
int store_record_of(const char *name, struct bytes text, const struct blob_stamp *stamp, struct arena *a,
		    struct store_record *ret, struct err *err);
/* The record that a scan has read. BLOB_MISSING. */
int store_record_scanned(struct store *st, const struct blob_scanned *s, struct arena *a,
			 struct store_record *ret, struct err *err);
/* The same as store_record_get(), and its text. */
int store_record_text(struct store *st, const char *name, struct arena *a, struct store_record *ret,
		      struct buf *ret_text, struct err *err);
/* Make the record and its content durable, unless they are known to be. BLOB_MISSING. */
int record_settle(struct store *st, const char *name, const struct store_record *record, struct err *err);
/* This process has put the record @text of @meta, and its content: a client with these bytes need not send them. */
void record_note_durable(struct store *st, const char *name, struct bytes text,
			 const struct store_meta *meta);
/*
 * Put the record @text, of an object with the content of @meta, which was put or touched at @from_ns. BLOB_CHANGED.
 * BLOB_UNMET: the content is gone; nothing was put, put it again and then the record. BLOB_MISSING: the record was put, but
 * the content is gone: put it again.
 */
int record_put(struct store *st, const char *name, struct bytes text, const struct store_meta *meta,
	       const struct blob_stamp *expect, int64_t from_ns, struct err *err);
/*
 * The content of the record of that name is damaged. A fetched or made object is removed, so that it is fetched or
 * made again: true. A pushed one stays, for a push of the same bytes. Logs the damage.
 */
bool object_condemn(struct store *st, const char *name, const struct err *why);
/*
 * Has the file of @meta's content another size than its record says? The same bytes were put under another key since, and
 * compressed by another version of libzstd or at another level. Or it is damaged.
 */
static inline bool content_has_other_size(const struct store_meta *meta, const struct blob_stamp *there)
{
	return !meta->raw && there->size != meta->stored_size;
}
/*
 * Does the content of @meta exist, with the size noted there? One of another size is read, unless it is known to be whole.
 * CONTENT_UNREADABLE, with *ret: it is there, and the disk does not give its bytes.
 */
int store_content_there(struct store *st, const struct store_meta *meta, bool *ret, struct err *err);
static inline int64_t store_now_ns(void)
{
	return clock_wall_ms() * 1000000;
}
void store_usage_add(struct store *st, int64_t n);
/* Wake the maintenance thread, if there is one: the store is crowded or, with @garbage, something was
 * removed. */
void store_wake(struct store *st, bool garbage);

/* store_find() without pushes that are held. */
typedef int object_find_fn(struct store *st, const struct store_key *key, struct arena *a,
			   struct store_meta *ret, struct err *err);
object_find_fn object_find;

/* ---- owner.c ---- */

/* 0: @meta takes the place of @old. STORE_KEPT, STORE_SAME, STORE_OWNED. */
int object_judge(const struct store_meta *old, const struct store_meta *meta, enum store_policy policy);
/* store_other_owner(), among the objects that @find finds. */
struct str object_other_owner(struct store *st, const struct store_key *key, struct str owner,
			      const uint8_t *sha256, object_find_fn *find, struct arena *a, struct err *err);

/* ---- put.c ---- */

/* The name of its content; it has ended. */
char *put_content_name(const struct store_put *p, char out[STORE_CONTENT_NAME_SIZE]);
/*
 * Commit a push that was held, whose content is the file @fd (taken), as it is stored. store_put_commit(), except that a
 * later push of equal quality stays (STORE_KEPT), and that nobody is told.
 */
int put_commit_held(struct store *st, int fd, const struct store_key *key, const struct store_meta *meta,
		    enum store_policy policy, struct err *err);

/* ---- held.c: all take NULL ---- */

struct hold;
struct held_push {
	uint64_t number;
	struct store_key key;
	struct store_meta meta; /* strings in the caller's arena */
	enum store_policy policy;
};

/*
 * The folder of the store at @url below @local. With @max 0 no push is added; if none was left there, *ret is NULL. A
 * folder that another process serves from: ERR_BUSY. @each is called for each push that was left there; its return is not
 * looked at.
 */
int hold_open(const char *local, const char *url, uint64_t max, store_held_fn *each, void *arg,
	      struct hold **ret, struct err *err);
void hold_close(struct hold *h);
/* The latest push of that key; strings in @a. */
bool hold_find(struct hold *h, const struct store_key *key, struct arena *a, struct store_meta *ret);
/* Its content. Fails if it was put meanwhile. */
int hold_open_content(struct hold *h, const struct store_key *key, const struct store_meta *meta,
		      struct source **ret, struct err *err);
bool hold_takes(struct hold *h); /* pushes can be added */
/* The bucket was away a moment ago. */
bool hold_is_away(struct hold *h);
void hold_note_away(struct hold *h, bool away);
/* Are pushes of that build ID waiting? Another one must not overtake them. */
bool hold_waits(struct hold *h, const struct build_id *id);
/*
 * Add the push whose content is in the staging file. It is on disk when this returns STORE_HELD. STORE_OWNED. ERR_IO with
 * ENOTCONN: the folder is full.
 */
int hold_add(struct hold *h, const struct store_key *key, const struct store_meta *meta,
	     enum store_policy policy, struct staging *s, struct err *err);
/*
 * The first push that is to be put now, with its content; the build ID is blocked until hold_end(). *ret_wait_ms otherwise:
 * how long to wait. The strings are in @a. *ret_fd -1: its files cannot be opened, and *why says why: content_is_damaged(), or
 * not now (a lack of descriptors).
 */
bool hold_next(struct hold *h, struct arena *a, struct held_push *ret, int *ret_fd, int64_t *ret_wait_ms,
	       struct err *why);
enum held_outcome {
	HELD_PUT,
	HELD_SAME,
	HELD_BETTER,  /* a better or later object is there */
	HELD_REFUSED, /* the object has another owner */
	HELD_DAMAGED, /* its file */
	HELD_LATER,   /* try again */
	HELD_N_OUTCOMES,
};
/* @owner: of HELD_REFUSED. */
void hold_end(struct hold *h, const struct held_push *p, enum held_outcome outcome, struct str owner);
/* No push of that key is being put until hold_thaw(), which removes them with @drop. Returns whether there are any. */
bool hold_freeze(struct hold *h, const struct store_key *key);
void hold_thaw(struct hold *h, const struct store_key *key, bool drop);
/* Wait until there may be something to put. */
void hold_wait(struct hold *h, int64_t ms);
void hold_wake(struct hold *h);
void hold_figures(struct hold *h, struct store_figures *ret);
size_t hold_refused(struct hold *h, struct arena *a, struct store_object *ret, size_t max);

/* ---- held_put.c ---- */

/* hold_add(), for the process's lists and callbacks too. */
int hold_push(struct store *st, const struct store_key *key, const struct store_meta *meta,
	      enum store_policy policy, struct staging *s, struct err *err);
struct hold_putter *hold_putter_start(struct store *st);
void hold_putter_stop(struct hold_putter *p); /* takes NULL */

/* ---- refs.c ---- */

struct refs_record {
	char *name; /* in the arena */
	uint32_t content;
	uint8_t origin;
	bool past; /* of an earlier version */
	/* Index + 1 of the record before it of the same content; 0: none. Valid while the records keep their order. */
	uint32_t before;
	enum blob_place place;
	int64_t replaced;
	struct blob_stamp stamp;
};
struct refs_content {
	uint8_t sha256[STORE_SHA256_SIZE];
	uint64_t stored_size; /* 0 and !there: a record names it, and it does not exist */
	uint32_t n_records;
	uint32_t last; /* index + 1 of the last of its records; 0: none */
	bool raw, there;
	uint32_t bad_names; /* so many records that are damaged name it */
};
/* A record that is damaged or of a newer version, or (only if refs_count() has a @bad) cannot be read now. */
struct refs_bad {
	char *name, *why; /* in the arena */
	enum blob_place place;
	struct blob_stamp stamp;
	bool is_damaged;
	bool is_newer;    /* its sum is right, but a value is unknown: a newer version may have written it */
	bool has_content; /* it names the content with this SHA-256: */
	bool is_sure;     /* ... which is not from its bytes */
	bool is_vague;    /* nobody knows its content */
	bool is_gone;     /* refs_forget_bad() */
	uint8_t sha256[STORE_SHA256_SIZE];
};
/*
 * The reference count: all records and contents that existed when the walk began, and some that were added
 * meanwhile. A content without a record, and last put or touched before @from_ns - settle_ns, is garbage:
 * remove it unless it is younger by now.
 */
struct refs {
	struct arena arena;
	int64_t from_ns;
	struct refs_record *records;
	struct refs_content *contents;
	size_t n_past, n_beside; /* among the records */
	size_t n_records, n_contents, room_records, room_contents;
	uint64_t bytes, content_size;
	uint64_t staged; /* bytes in staging files, also of uploads that were cut */
	uint64_t by_origin[STORE_N_ORIGINS];
	struct map by_name; /* of contents: index + 1 */
	struct refs_bad *bad;
	size_t n_bad, room_bad;
	size_t n_vague; /* records among these of which nobody knows the content */
	/*
	 * The latest time before store.opened_s in the records or, without any, in the notes of interrupted uploads: it was
	 * certainly reached. 0: none
	 */
	int64_t reached_s;
};
/*
 * @bad may be NULL; it is called for records that are damaged or cannot be read now. Without it the latter are a failure:
 * without such a record its content would be taken for garbage.
 */
int refs_count(struct store *st, struct refs *ret, store_bad_fn *bad, void *arg, struct err *err);
void refs_done(struct refs *c);
/*
 * Has content @i no record, and is it needed by none? The content of a damaged record is kept, for a push or a person that
 * mends the record; where the record does not say which one that is, so are all whose bytes no other record has.
 */
bool refs_is_garbage(const struct refs *c, size_t i);
/* ... or is it kept for damaged records? */
bool refs_is_kept(const struct refs *c, size_t i);
/* It was removed: its content is not kept for it any more. */
void refs_forget_bad(struct refs *c, struct refs_bad *bad);
/*
 * A damaged record of an earlier version: no command can restore that. Only the present one, and no BLOB_RIVAL. When it was
 * replaced says its name.
 */
bool refs_bad_is_past(const struct refs_bad *bad, int64_t *ret_replaced_s);
/*
 * Remove those of the @n contents (indices) that no record names. *ret_n and *ret_bytes: what was removed, which is not
 * `there` any more; *ret_young: those that stay for now. These three are added to.
 */
struct refs_removed {
	uint64_t n, bytes, n_young;
};
int refs_collect(struct store *st, struct refs *c, const uint32_t *contents, size_t n,
		 struct refs_removed *ret, struct err *err);

/* ---- past.c ---- */

/*
 * Keep the record of that name, which is about to be replaced or removed by @by, as an earlier version. Only of a
 * pushed object with a whole content. It is durable when this returns. BLOB_CHANGED: its content is being collected; read
 * the record again.
 */
int past_add(struct store *st, const char *name, const struct store_record *record, struct str by,
	     struct err *err);
/*
 * past_add() of a record of @st that a copy of the one in @from replaces. If @from has it as an earlier version, it gets the
 * name and the record of that: another name would be another version, and take the place of one more.
 */
int past_add_copied(struct store *st, struct store *from, const char *name, const struct store_record *record,
		    struct err *err);
/*
 * Of two versions that met either may be acknowledged, so the one that readers do not take, a BLOB_RIVAL, becomes an earlier
 * version. One without its content was not acknowledged. BLOB_MISSING. BLOB_CHANGED: its content is being collected.
 */
int past_add_rival(struct store *st, const struct refs_record *rival, struct err *err);
/* Remove the versions of that record after the first STORE_PAST_MAX; with @all, all. */
int past_trim(struct store *st, const char *name, bool all, struct err *err);
/*
 * Append the name of the record of which the one with this name is an earlier version: "keys/..." for "past/...". false: it is
 * the name of none.
 */
bool past_key_name(const char *name, struct buf *ret);
/* When the earlier version with that name was replaced, in milliseconds since 1970. false: it is the name of none. */
bool past_name_ms(const char *name, int64_t *ret);

/* ---- object_list.c: all take NULL ---- */

struct object_list *object_list_new(void);
void object_list_free(struct object_list *c);
/* Add or replace the record of that name. */
void object_list_put(struct object_list *c, const char *name, const struct store_key *key,
		     const struct store_meta *meta);
void object_list_del(struct object_list *c, const char *name);
/* A walk begins, and puts all records. At its end records are dropped that were put neither by it nor
 * meanwhile. */
uint64_t object_list_walk(struct object_list *c);
void object_list_walked(struct object_list *c, uint64_t walk);
bool object_list_is_complete(struct object_list *c); /* a walk has ended */
void object_list_names(struct object_list *c, const struct store_names_query *q, struct arena *a,
		       struct store_names *ret);
void object_list_latest(struct object_list *c, enum store_origin origin, size_t max, struct arena *a,
			struct store_known **ret, size_t *ret_n);
void object_list_figures(struct object_list *c, struct store_figures *ret);
bool object_list_alias(struct object_list *c, const struct build_id *alias, struct build_id *ret);
bool object_list_complete(struct object_list *c, struct bytes start, struct build_id *ret);

/* ---- evict.c ---- */

/* Is there room for @more bytes and some reserve, without evicting? */
bool store_has_room(struct store *st, uint64_t more);
/* Is there room for @more bytes within the quota, or can it be made? STORE_FULL. */
int store_make_room(struct store *st, uint64_t more, struct err *err);
bool store_is_crowded(struct store *st); /* it is time to make room ahead */

/* ---- maintain.c ---- */

struct maintain *maintain_start(struct store *st);
void maintain_stop(struct maintain *m); /* takes NULL */

/* ---- scrub.c ---- */

struct background *scrub_start(struct store *st);
/* Read all contents once. @each as for content_hash(). */
int scrub_pass(struct store *st, int (*each)(void *arg, uint64_t n), void *arg, uint64_t *ret_n_bad,
	       struct err *err);

/* ---- pack.c ---- */

/* The thread runs from start to stop. */
struct pack *pack_new(struct store *st);
void pack_start(struct pack *p);
void pack_stop(struct pack *p); /* takes NULL */
void pack_free(struct pack *p); /* takes NULL */
/* The content of the record of that name is to be compressed. Takes NULL. */
void pack_add(struct pack *p, const char *name, uint64_t size);
void pack_figures(struct pack *p, uint64_t *ret_n, uint64_t *ret_bytes); /* takes NULL */
/*
 * Compress the content of the record of that name, and make the record name the result. *ret_freed: bytes
 * that have become garbage, unless another record names them. @stopped (may be NULL) is called at intervals:
 * true ends the work with ERR_CANCELLED.
 */
enum { PACK_NOTHING = 1 }; /* the record does not exist, or need not be compressed */
int pack_record(struct store *st, const char *name, bool (*stopped)(void *arg), void *arg,
		uint64_t *ret_freed, struct err *err);
