/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store in a bucket: the interface between its files.
 *
 *   bucket_s3.c       objects in a bucket with S3's API
 *   bucket_memory.c   the same in memory, for tests
 *   bucket_names.c    the names in a bucket (pure functions)
 *   bucket_record.c   records: versions of a name
 *   bucket_scan.c     reading records, many at a time
 *   bucket_content.c  contents: generations of a name
 *   bucket_parts.c    large contents: uploads in parts
 *   bucket_look.c     listings that are made ahead, for one put
 *   bucket_collect.c  removing contents
 *   incoming.c        uploads that clients send to the bucket themselves
 *   blob_bucket.c     struct blobs over these
 *
 * A bucket has no locks, and no conditions that can be relied on. So each name is written once and never again, and
 * everything is decided by the order of writes and listings: a listing shows all that was put before it began.
 * docs/decisions/0060-store-in-a-bucket.md argues why nothing is lost.
 */
#pragma once

#include <pthread.h>
#include "base/sha256.h"
#include "store/blob.h"

/* ---- the seam: objects ---- */

enum { BUCKET_MISSING = 1 };

struct bucket_item {
	const char *name;
	uint64_t size;
	int64_t time_ns;  /* when it was put, by the server's clock; may be in whole seconds */
	const char *etag; /* "": none */
};
typedef int bucket_list_fn(void *arg, const struct bucket_item *item, struct err *err);

/* One of several listings. */
struct bucket_listing {
	const char *prefix;
	bucket_list_fn *fn; /* may be called in another thread, but not by two at once */
	void *arg;
	int r; /* set, as by list() */
	struct err err;
};

/* Of an upload in parts. */
#define BUCKET_UPLOAD_SIZE 1024u /* of its id, with the end */
struct bucket_part {
	unsigned number; /* from 1 */
	uint64_t size;
	char etag[128];
	uint64_t hash; /* of upload_part() only: part_hash() of its bytes */
};
/* A part is compared by the first 8 bytes of its SHA-256, which is known when it is sent. */
uint64_t part_hash(const uint8_t sha256[SHA256_SIZE]);

/* A URL by which a client puts an object, or a part of an upload. */
struct bucket_presigned {
	const char *name;
	uint64_t size; /* of the body: no other is taken */
	unsigned expires_s;
	const char *endpoint; /* by which the client reaches the bucket; NULL: as we do */
	const char *upload;   /* NULL: the object */
	unsigned part;        /* from 1 */
};

struct bucket;
struct bucket_ops {
	/* Durable, and in all listings that begin now, when this returns. After a failure the object may be there or not. */
	int (*put)(struct bucket *b, const char *name, struct bytes content, struct err *err);
	/* In one request: of at most BUCKET_PART_SIZE bytes. */
	int (*put_file)(struct bucket *b, const char *name, int fd, uint64_t size, struct err *err);
	/* The whole object, at most @max bytes (ERR_LIMIT), appended. BUCKET_MISSING. */
	int (*get)(struct bucket *b, const char *name, size_t max, struct buf *ret, struct err *err);
	int (*head)(struct bucket *b, const char *name, uint64_t *ret_size,
		    struct err *err); /* BUCKET_MISSING */
	/*
	 * Objects in the order of their names, whose names begin with @prefix and are greater than @after (may be empty).
	 * Non-zero of @fn, which may call these functions, ends it and is returned.
	 */
	int (*list)(struct bucket *b, const char *prefix, const char *after, bucket_list_fn *fn, void *arg,
		    struct err *err);
	/* All of them at once. Each begins after the call did, and they end in any order. */
	void (*list_all)(struct bucket *b, struct bucket_listing *v, size_t n);
	int (*remove)(struct bucket *b, const char *name, struct err *err); /* also if there is none */
	/* Nothing is read before the first read of the source. */
	int (*open)(struct bucket *b, const struct bucket_item *item, struct source **ret, struct err *err);
	/*
	 * Uploads in parts of at least BUCKET_PART_MIN bytes, but the last one. Another process may go on with one, by name
	 * and id. The object is there when the upload has ended, as after put_file(). An upload that is neither ended nor
	 * aborted stays.
	 */
	int (*upload_begin)(struct bucket *b, const char *name, char ret_id[BUCKET_UPLOAD_SIZE],
			    struct err *err);
	int (*upload_part)(struct bucket *b, const char *name, const char *id, unsigned number,
			   const struct file_range *content, struct bucket_part *ret, struct err *err);
	/* Those that are there, in order. Heap. BUCKET_MISSING: no such upload. */
	int (*upload_parts)(struct bucket *b, const char *name, const char *id, struct bucket_part **ret,
			    size_t *ret_n, struct err *err);
	int (*upload_end)(struct bucket *b, const char *name, const char *id, const struct bucket_part *parts,
			  size_t n, struct err *err);
	int (*upload_abort)(struct bucket *b, const char *name, const char *id,
			    struct err *err); /* also if there is none */
	/* Append it. Secret. Nothing is asked of the bucket. */
	int (*presign)(struct bucket *b, const struct bucket_presigned *p, struct buf *ret, struct err *err);
	int64_t (*now_ns)(struct bucket *b); /* the server's clock, as s3_time_s() has it; 0: not known yet */
	void (*pause)(struct bucket *b, unsigned ms);
	void (*close)(struct bucket *b);
};
/* Failures are blob_is_away(), but for an answer over a limit. So is this one: */
#define bucket_failed(err, ...) (err_set(err, ERR_IO, __VA_ARGS__), bucket_failed_away(err))
static inline int bucket_failed_away(struct err *err)
{
	if (err)
		err->os = ENOTCONN;
	return -1;
}
/* An answer with other bytes than the object that was listed: an error with status 200, or a length that is wrong. */
static inline int bucket_lies(struct err *err, const char *object, uint64_t got, uint64_t size)
{
	return bucket_failed(err, "%s: the bucket has sent %llu of %llu bytes", object,
			     (unsigned long long)got, (unsigned long long)size);
}
/*
 * A name has a few versions or generations; collectors remove old ones. A server that lists more is mistaken or hostile, and
 * would fill the memory of whoever asks for that name.
 */
#define BUCKET_VERSIONS_MAX 10000u
static inline int bucket_too_many(struct err *err, const char *object)
{
	return bucket_failed(err, "%s: the bucket lists more than %u versions of this name", object,
			     BUCKET_VERSIONS_MAX);
}
#define BUCKET_WHERE_SIZE 1024u
struct bucket {
	const struct bucket_ops *ops;
	unsigned n_reads;              /* so many gets at once are useful; 0 or 1: one */
	char where[BUCKET_WHERE_SIZE]; /* server, bucket and prefix, for notes on this machine; "": unknown */
};

/* The objects of s3://BUCKET/PREFIX. */
int bucket_open_s3(const char *url, struct bucket **ret, struct err *err);

/*
 * Several struct bucket may show the same objects, which are freed by bucket_memory_free() after them. @before (may be
 * NULL) is called before each operation: it may make it fail; if it returns BUCKET_PRETEND, the operation is not carried
 * out, and answered as if there were nothing but the object that was put last (a listing), or all were well (the others).
 * With BUCKET_LATE a put or removal fails, and is carried out later, by bucket_memory_land().
 */
enum { BUCKET_PRETEND = 1, BUCKET_LATE = 2 };
struct bucket_memory;
typedef int bucket_before_fn(void *arg, const char *op, const char *name, struct err *err);
struct bucket_memory *bucket_memory_new(void);
void bucket_memory_free(struct bucket_memory *m);
size_t bucket_memory_uploads(struct bucket_memory *m); /* that were neither ended nor aborted */
/* Carry out one of the late operations, chosen by @random. false: there is none. */
bool bucket_memory_land(struct bucket_memory *m, uint64_t random);
struct bucket *bucket_open_memory(struct bucket_memory *m, bucket_before_fn *before, void *arg);

/*
 * Blobs in a bucket. @dir: a folder of this process for staging files; made if need be. Takes @bucket, also on failure. With
 * @create a missing marker is put, else it is ERR_IO. A prefix with other objects is ERR_INVALID. A bucket that is away
 * now is no failure: the marker is looked for later.
 */
int blobs_open_bucket(struct bucket *bucket, const char *dir, bool create, struct blobs **ret,
		      struct err *err);

/* ---- bucket_names.c ---- */

#define BUCKET_NAME_SIZE 1024u
#define GENERATION_SIZE  25u /* 11 hexadecimal digits: milliseconds; 13: random. With the end */

/* "keys/ab/abcdef.debuginfo!<seq>.<id>.<before>.<content>": one version of a record. Numbers have 16 digits. */
struct version_name {
	uint64_t seq;                         /* that of the version it replaced, plus 1 */
	uint64_t id;                          /* random, not 0 */
	uint64_t before;                      /* id of the version it replaced; 0: none */
	char content[BLOB_CONTENT_NAME_SIZE]; /* that it needs: "data/01/<SHA-256>.zst"; "": none */
	char generation[GENERATION_SIZE];     /* of that */
};
void version_name_write(const char *blob, const struct version_name *v, char out[BUCKET_NAME_SIZE]);
/* false: another name. *ret_blob: the length of the blob's name at its beginning. */
bool version_name_read(const char *name, struct version_name *ret, size_t *ret_blob);

/* "data/01/<SHA-256>.zst!<generation>" */
void generation_name_write(const char *content, const char *generation, char out[BUCKET_NAME_SIZE]);
bool generation_name_read(const char *name, char ret_content[BLOB_CONTENT_NAME_SIZE],
			  char ret_generation[GENERATION_SIZE]);
/* A new one, that sorts after @last (may be NULL). */
void generation_make(const char *last, char out[GENERATION_SIZE]);
uint64_t random_id(void);           /* not 0 */
void random_id_test(uint64_t seed); /* for tests: the same numbers each time. 0: random ones again */

/* "dying/01/<SHA-256>.zst!<generation>!<16 digits>": that generation may be removed soon. */
void mark_name_write(const char *content, const char *generation, uint64_t id, char out[BUCKET_NAME_SIZE]);

/* ---- shared state ---- */

/* Parts that are being put, of all uploads: the client's other requests are for readers. */
#define BUCKET_PARTS_AT_ONCE 16u

struct blob_bucket {
	struct blobs blobs;
	struct bucket *bucket;
	char *dir;
	bool create;
	pthread_mutex_t lock;
	/* under the lock */
	bool checked; /* the marker is there */
	/* of the first look at it */
	bool looked, look_is_late;
	struct err look_err;
	struct map used;             /* names -> when they were touched (heap) */
	unsigned n_parts, n_threads; /* parts that are being put; threads of uploads */
	bool told_other;             /* of uploads into another bucket */
	pthread_cond_t changed;
};

/* Before a bucket that was away at the start is used: is it a store? */
int bucket_ready(struct blob_bucket *s, struct err *err);

/* The present time of a blob: it was touched, or put. */
int64_t bucket_used_ns(struct blob_bucket *s, const char *name, int64_t put_ns);
void bucket_note_used(struct blob_bucket *s, const char *name);

/* A process that writes a version or removes contents gives up after this time, and leaves the rest to others: */
#define BUCKET_RUN_MS (INT64_C(300) * 1000)
/* Older than this nothing of such a run is going on any more: a version is not taken back, a mark is left over. */
#define BUCKET_OLD_NS (INT64_C(1800) * 1000000000)

/* ---- bucket_look.c ---- */

/*
 * This thread begins to look at these blobs, at most some 60, and ends. Looks may be nested: then the outermost one counts.
 */
void bucket_look_begin(struct blob_bucket *s, const char *const *names, size_t n);
void bucket_look_end(void);
/* All versions or generations of a blob: as this thread has looked at them, or listed. */
int bucket_look_list(struct blob_bucket *s, const char *name, bucket_list_fn *fn, void *arg, struct err *err);
/* So long ago it was listed; 0: it will be. */
int64_t bucket_look_age_ns(const struct blob_bucket *s, const char *name);
/* This thread has put @object, or chosen it: it is the only one that it looks at from now on. */
void bucket_look_put(struct blob_bucket *s, const char *name, const char *object, uint64_t size);
bool bucket_look_is_own(const struct blob_bucket *s, const char *name);
/* From now on they are listed: others are writing. */
void bucket_look_forget(struct blob_bucket *s, const char *name);

/* ---- bucket_record.c: records, by the seam's names ---- */

int bucket_record_put(struct blob_bucket *s, const char *name, struct bytes content, const char *needs,
		      const struct blob_stamp *expect, struct err *err);
int bucket_record_get(struct blob_bucket *s, const char *name, size_t max, struct buf *ret,
		      struct blob_stamp *ret_stamp, struct err *err);
int bucket_record_stat(struct blob_bucket *s, const char *name, struct blob_stamp *ret, struct err *err);
int bucket_record_remove(struct blob_bucket *s, const char *name, const struct blob_stamp *seen,
			 struct err *err);
int bucket_record_get_beside(struct blob_bucket *s, const char *name, const struct blob_stamp *seen,
			     size_t max, struct buf *ret, struct err *err);
int bucket_record_remove_beside(struct blob_bucket *s, const char *name, const struct blob_stamp *seen,
				struct err *err);
int bucket_record_list(struct blob_bucket *s, const char *prefix, const char *after, blob_list_fn *fn,
		       void *arg, struct err *err);

/* All versions, in the order of the records' names, of each the present one first. */
struct bucket_version {
	const char *name;   /* of the record */
	const char *object; /* of the version */
	struct blob_stamp stamp;
	enum blob_place place;
};
typedef int bucket_version_fn(void *arg, const struct bucket_version *v, struct err *err);
int bucket_version_list(struct blob_bucket *s, const char *prefix, const char *after, bucket_version_fn *fn,
			void *arg, struct err *err);

/* ---- bucket_scan.c ---- */

int bucket_record_scan(struct blob_bucket *s, const char *prefix, const char *after, size_t max,
		       blob_scan_fn *fn, void *arg, struct err *err);

/* ---- bucket_content.c: contents, by the seam's names ---- */

/* The latest generation. BLOB_MISSING. */
struct generation {
	char id[GENERATION_SIZE];
	uint64_t size;
	int64_t time_ns;
	char etag[128];
};
int bucket_content_stat(struct blob_bucket *s, const char *name, struct blob_stamp *ret, struct err *err);
int bucket_content_open(struct blob_bucket *s, const char *name, struct source **ret, struct err *err);
int bucket_content_put(struct blob_bucket *s, const char *name, struct staging *staging, bool keep,
		       struct err *err);
/* Is that generation there? BLOB_MISSING. */
int bucket_content_there(struct blob_bucket *s, const char *name, const char *generation, struct err *err);
/* A generation that nobody is about to remove, as far as that can be known ahead. BLOB_MISSING. */
int bucket_content_pick(struct blob_bucket *s, const char *name, struct generation *ret, struct err *err);
/*
 * After its record was put: does this generation stay? First its marks are listed, with these functions, then it is looked for.
 * BLOB_UNMET.
 */
struct mark_search {
	const char *generation;
	bool found;
};
void bucket_marks_listing(const char *name, struct mark_search *m, char prefix[BUCKET_NAME_SIZE],
			  struct bucket_listing *ret);
int bucket_content_stays(struct blob_bucket *s, const char *name, const struct mark_search *m,
			 struct err *err);
int bucket_content_list(struct blob_bucket *s, const char *prefix, const char *after, blob_list_fn *fn,
			void *arg, struct err *err);

/*
 * As bucket_content_pick(). BLOB_MISSING: @ret_next is the name of the next generation.
 */
int bucket_content_next(struct blob_bucket *s, const char *name, struct generation *ret,
			char ret_next[GENERATION_SIZE], struct err *err);

/* ---- bucket_parts.c: uploads in parts ---- */

#define BUCKET_PART_MIN  MIB(5)
#define BUCKET_PART_SIZE MIB(8)

/*
 * An upload of a staging file, of which @all bytes are expected, under the name of its content. It begins when the file has
 * more than two parts, and goes on as the file grows. Of a file with a note it outlives the process: another one with the
 * same file goes on. @generation: to be written; NULL: found out, if the content is not there.
 */
struct bucket_parts;
struct bucket_parts *bucket_parts_new(struct blob_bucket *s, const struct staging *staging,
				      const char *content, const char *generation, uint64_t all);
void bucket_parts_grow(struct bucket_parts *p, uint64_t size); /* these bytes will not change */
/*
 * The file has @size bytes: all were put under *ret_object. BLOB_CHANGED: this upload will not do, since it is of another
 * content, the content was there, or not of a generation after @last ("": of any).
 */
int bucket_parts_finish(struct bucket_parts *p, const char *content, const char *last, uint64_t size,
			char ret_object[BUCKET_NAME_SIZE], struct err *err);
/*
 * Takes @p, may be NULL. @keep: for the next one with this staging file; else an upload that has not ended is aborted,
 * later.
 */
void bucket_parts_drop(struct bucket_parts *p, bool keep);
/* Abort uploads whose staging file is gone, or whose process, if they have none. Those into another bucket stay. */
void bucket_parts_sweep(struct blob_bucket *s);

/* ---- bucket_parts_note.c: failures are logged, and cost another upload ---- */

#define PARTS_NOTE "parts-" /* beginning of their names; staging_dir.c leaves them alone */

struct parts_note_part {
	unsigned number;
	uint64_t hash; /* part_hash() */
};
struct parts_note {
	char object[BUCKET_NAME_SIZE], id[BUCKET_UPLOAD_SIZE];
	uint64_t part_size;
	char where[BUCKET_WHERE_SIZE]; /* the bucket's; "": unknown, as in older notes */
	/* read only */
	bool is_unread; /* there may be a note, but the file cannot be read now */
	struct parts_note_part *v;
	size_t n;
};
char *parts_note_path(const struct staging *s); /* heap; NULL: the staging file has no path */
void parts_note_begin(const char *path, const struct parts_note *n);
void parts_note_add(const char *path, const char *id, unsigned number, uint64_t hash);
bool parts_note_read(const char *path, struct parts_note *ret); /* false: none */
void parts_note_done(struct parts_note *n);

/* ---- bucket_collect.c ---- */

int bucket_collect(struct blob_bucket *s, struct blob_garbage *v, size_t n, int64_t not_after_ns,
		   struct err *err);
/* Remove generations that a later one has replaced, and marks whose makers have ended. */
int bucket_sweep(struct blob_bucket *s, struct err *err);

/* ---- incoming.c (store/incoming.h): objects below this are read once ---- */

#define BUCKET_INCOMING "incoming/"
/*
 * Remove uploads that were announced a day ago, and data that were sent after the end of their upload. *ret_left: bytes of the
 * other data.
 */
int bucket_incoming_sweep(struct bucket *b, uint64_t *ret_left, struct err *err);
