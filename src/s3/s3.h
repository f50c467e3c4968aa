/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3: files in buckets of Amazon S3 and of servers with its API.
 *
 * A `struct s3` is a client: settings, credentials, connections (with a thread of its own), and a cache of byte ranges. All
 * functions may be called from any thread, and wait for their answer; each has a deadline. A request that fails in a way
 * that may pass (no connection, silence, 500, 503 SlowDown) is repeated after a random, growing time. A server that cannot
 * be reached is passed over for a while, so that requests fail at once.
 *
 * No condition (If-Match, If-None-Match) is ever asked of a bucket: many servers ignore them. A name that lode
 * writes is written once. A reader compares the ETag of each answer with that of the first, or, where the listing has none,
 * size and time with the listing's: an object that was replaced while it is read is ERR_CHANGED, never a mix of two.
 *
 * Errors: ERR_IO (the bucket cannot be reached, or refuses; os ETIME, EHOSTUNREACH, EACCES, ...; trying again may help),
 * ERR_CHANGED (replaced, with os ENOENT: removed), ERR_INVALID (a name, a setting, or an answer that makes no sense). No
 * text has a key, a token, or the query of a URL.
 */
#pragma once

#include "io/io.h"

/* ---- names ---- */

#define S3_BUCKET_MAX 255u
#define S3_KEY_MAX    1024u

struct s3_name {
	struct str bucket, key; /* the key may be empty: the whole bucket */
};
bool s3_is_url(struct str s); /* begins with s3:// */
/* "s3://BUCKET/KEY", the key as it is, not escaped. Views into @url. */
int s3_name_parse(struct str url, struct s3_name *ret, struct err *err);

/* ---- the client ---- */

struct s3;

enum s3_style {
	S3_STYLE_AUTO, /* the profile's; else the bucket is in the path where an endpoint is given, in the host at Amazon */
	S3_STYLE_PATH,
	S3_STYLE_HOST,
};

/*
 * Settings that are not given come from the environment (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION,
 * AWS_PROFILE, AWS_CA_BUNDLE, AWS_NO_SIGN_REQUEST) and the shared files (AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE, in
 * ~/.aws). docs/object-storage.md has the order.
 */
struct s3_options {
	const char *endpoint, *region, *profile, *ca_file, *proxy;
	enum s3_style style;
	bool anonymous;      /* requests are not signed */
	uint64_t cache_size; /* bytes of objects in memory; 0: 64 MiB */
	const char
		*disk_dir;  /* a folder for ranges of objects; made if need be. NULL: none is kept on disk */
	uint64_t disk_size; /* bytes of these; 0: none */
	uint64_t min_free;  /* disk space to leave free, as for room_new() (base/room.h) */
	unsigned max_requests; /* at once; 0: 64 */
	unsigned deadline_ms;  /* of one request with its repetitions; 0: 30 s */
	unsigned silent_ms;    /* a server that is silent for so long has failed; 0: 10 s */
	unsigned hedge_min_ms; /* no hedge is sent before; for tests; 0: HEDGE_MIN_MS (call.c) */
};
int s3_new(const struct s3_options *opts, struct s3 **ret, struct err *err); /* @opts may be NULL */
/* All sources are closed. Takes NULL. */
void s3_free(struct s3 *s);
/*
 * The time of the bucket's server, by which the ages of objects are counted: the Date of its answers, carried on by the
 * monotonic clock. This machine's wall clock does not move it. A Date that is far from the time that has passed, or a first
 * one that is far ahead of this machine, is doubted (base/age_clock.h): until it is believed this is the earlier of the two
 * times. 0, by which nothing is old: no request was carried out yet, or no answer had a Date.
 */
int64_t s3_time_s(struct s3 *s);
/*
 * The client of this process, for commands: made by the first call, with the options of s3_shared_options() if that was
 * called before. It lives until s3_shared_done().
 */
int s3_shared(struct s3 **ret, struct err *err);
void s3_shared_options(const struct s3_options *opts); /* borrowed */
/* What users see of the shared client. */
struct s3_status {
	char endpoint[256]; /* the server of the settings */
	uint64_t n_done, n_missing, n_failed, received;
	/* The last request failed: the bucket is away, or refuses. With its reason, and since when (wall time) */
	bool failing;
	int64_t since_s;
	char message[ERR_TEXT_SIZE];
	uint64_t memory_size, disk_size; /* of the caches */
};
bool s3_shared_status(struct s3_status *ret); /* false: no bucket is used */
/*
 * The process will end: after @grace_ms reads that wait for the shared client's servers fail, and so do new ones. Writes go
 * on.
 */
void s3_shared_stop(int64_t grace_ms);
/* At the end of the process, when no other thread uses it: end its threads. */
void s3_shared_done(void);

/*
 * As pkg_open_path(), for a name on a command line: a file, a member of an archive, or either of them as
 * s3://BUCKET/KEY, of s3_shared(). Outcome FILE_MISSING (base/file.h).
 */
int s3_open_path(const char *path, struct source **ret, struct err *err);

/* ---- objects ---- */

enum { S3_MISSING = 1 };

#define S3_ETAG_MAX 128u

struct s3_info {
	uint64_t size;
	int64_t mtime;          /* seconds; 0: unknown */
	char etag[S3_ETAG_MAX]; /* without quotes; "": the server has none */
};

int s3_head(struct s3 *s, struct s3_name name, struct s3_info *ret, struct err *err);
/* The whole object, at most @max bytes (more: ERR_LIMIT), appended. @ret_info may be NULL. */
int s3_get(struct s3 *s, struct s3_name name, size_t max, struct buf *ret, struct s3_info *ret_info,
	   struct err *err);
/* In one request. The server compares the bytes with their SHA-256. */
int s3_put(struct s3 *s, struct s3_name name, struct bytes body, struct s3_info *ret, struct err *err);
/* An object that is not there counts as deleted. */
int s3_delete(struct s3 *s, struct s3_name name, struct err *err);

struct s3_listed {
	struct str key; /* valid during the call */
	struct s3_info info;
};
struct s3_listing {
	struct str bucket, prefix;
	struct str after; /* only keys greater than this one; empty: all */
	/* Called for each object, in the order of the server. Non-zero ends the listing and is returned. */
	int (*fn)(void *arg, const struct s3_listed *o, struct err *err);
	bool (*stopped)(
		void *arg); /* asked before each page: true ends the listing with ERR_CANCELLED; NULL: never */
	void *arg;
	size_t page; /* objects of one answer; 0: 1000 */
};
/* All objects whose keys begin with the prefix. A listing that does not advance is ERR_INVALID. */
int s3_list(struct s3 *s, const struct s3_listing *l, struct err *err);

/*
 * ---- uploads in parts, for large objects ----
 *
 * An upload that is neither completed nor aborted stays in the bucket, and is paid for, until s3_upload_abort() or a rule
 * of the bucket removes it. Another process may continue it, by name and id.
 */
#define S3_PART_MIN      MIB(5) /* of all parts but the last */
#define S3_PARTS_MAX     10000u
#define S3_UPLOAD_ID_MAX 1024u

struct s3_upload {
	struct s3_name name; /* borrowed */
	char id[S3_UPLOAD_ID_MAX];
};
struct s3_part {
	unsigned number; /* from 1 */
	uint64_t size;
	char etag[S3_ETAG_MAX];
	uint8_t sha256[32]; /* of s3_upload_part() only */
};
int s3_upload_begin(struct s3 *s, struct s3_name name, struct s3_upload *ret, struct err *err);
/*
 * A part, of bytes that do not change until this returns. They are read twice, for their SHA-256 and to be sent, and never
 * in memory as a whole.
 */
int s3_upload_part(struct s3 *s, const struct s3_upload *u, unsigned number, const struct file_range *body,
		   struct s3_part *ret, struct err *err);
/* The parts that the bucket has, in order. Heap. S3_MISSING: there is no such upload. */
int s3_upload_parts(struct s3 *s, const struct s3_upload *u, struct s3_part **ret, size_t *ret_n,
		    struct err *err);
int s3_upload_complete(struct s3 *s, const struct s3_upload *u, const struct s3_part *parts, size_t n,
		       struct s3_info *ret, struct err *err);
int s3_upload_abort(struct s3 *s, const struct s3_upload *u, struct err *err); /* also when there is none */

/* ---- presigned URLs ---- */

struct s3_presigned {
	const char *method;
	struct s3_name name;
	unsigned expires_s;   /* at most a week; with temporary keys it ends with these, too */
	const char *endpoint; /* by which its user reaches the server: as in the options. NULL: as we do */
	uint64_t size;        /* the body must have this Content-Length; 0: any */
	/* Of a PUT: part @part of this upload, not the object. NULL: the object */
	const struct s3_upload *upload;
	unsigned part;
};
/* Append a URL by which anyone may do that. Secret: not to be logged. */
int s3_presign(struct s3 *s, const struct s3_presigned *p, struct buf *ret, struct err *err);
/* Can that be its endpoint? */
int s3_endpoint_check(const char *endpoint, struct err *err);

/* ---- an object as a source ---- */

/*
 * The object as the index knows it, for struct index_file and struct stat: its inode is a hash of ETag and size, and its
 * device S3_DEV. So an object that was replaced is another file. Without an ETag, as in the listings of some servers, it is
 * a hash of time and size; then another object of the same size that was put within the same second is not told apart.
 */
#define S3_DEV UINT64_C(0x5333) /* "S3": no device of a kernel */
void s3_stat(const struct s3_info *info, struct stat *ret);

/*
 * An object as a source. Its reads are ranges, cached in memory; a reader that goes on in order, or that calls
 * source_expect(), gets the bytes after them read ahead. After source_pass() its ranges are not kept on disk, and long runs and
 * expected ranges not in memory either once they were read to their end. May be read by many threads. @known: as s3_stat()
 * has it from an earlier listing or answer: then nothing is requested before the first read, which fails with ERR_CHANGED
 * if the object is another one now. NULL: it is asked for, S3_MISSING. @ret_st may be NULL.
 */
int s3_open(struct s3 *s, const char *url, const struct stat *known, struct source **ret, struct stat *ret_st,
	    struct err *err);
