/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3: the interface between its files.
 *
 *   name.c         s3://BUCKET/KEY
 *   sign.c         signatures (pure functions)
 *   xml.c          the XML of answers (pure functions)
 *   secret.c       secrets in memory
 *   profile.c      the shared files, ~/.aws/config and credentials (pure functions)
 *   config.c       settings: options, environment, shared files
 *   credentials.c  which keys sign, and when they are renewed
 *   lender.c       keys lent by a service: of the instance, of the pod, of a role
 *   place.c        which server and region has a bucket
 *   call.c         one request: tries, hedges, the deadline
 *   reply.c        the meaning of a reply: done, missing, try again, failed
 *   object.c       head, get, put, delete; presigned URLs
 *   list.c         listings
 *   upload.c       uploads in parts
 *   disk.c         ranges of objects on disk
 *   span.c         ranges of objects in memory, each fetched once
 *   source.c       an object as a source
 *   client.c       the client: beginning and end
 *   time.c         the time of its server
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/age_clock.h"
#include "net/net.h"
#include "s3/s3.h"
#include "s3/secret.h"
#include "s3/sign.h"

/* ---- profile.c ---- */

/*
 * The value of @key in section @section of a shared file; @sub: of the indented lines below it, or NULL. false: none.
 * The last of several wins.
 */
bool profile_get(struct str text, const char *section, const char *key, const char *sub, struct str *ret);
bool profile_has(struct str text, const char *section);

/* ---- config.c ---- */

struct s3_config {
	char *endpoint; /* "https://host:port"; NULL: Amazon's. Owned, as all */
	char *region, *profile, *ca_file, *proxy;
	enum s3_style style;               /* not AUTO */
	bool anonymous, own_region;        /* own_region: it was given, not assumed */
	bool profile_by_option;            /* its keys go before those of the environment */
	struct secret config, credentials; /* the shared files */
};
int config_load(const struct s3_options *o, struct s3_config *ret, struct err *err);
void config_done(struct s3_config *c); /* takes the zeroed */
/* A value of the profile: of the file of credentials, else of config. */
bool config_value(const struct s3_config *c, const char *key, const char *sub, struct str *ret);
/* The same, of one file: id, secret and token of a key are in one place. */
enum config_file { CONFIG_CREDENTIALS, CONFIG_CONFIG };
bool config_value_in(const struct s3_config *c, enum config_file file, const char *key, const char *sub,
		     struct str *ret);
/* The endpoint that the profile has for @service, or for all services; else @other, which it takes. Heap. */
char *config_endpoint(const struct s3_config *c, const char *service, char *other);
/* A variable that is set, and not to nothing; else NULL. */
const char *config_env(const char *name);
/* Read the shared files again. */
void config_reload(struct s3_config *c);

/* ---- credentials.c ---- */

/* Keys, shared by the requests that use them. */
struct lent_keys {
	atomic_uint refs;
	struct secret id, secret, token;
	int64_t expires_s; /* wall time; INT64_MAX: never */
};
struct lent_keys *lent_keys_new(struct str id, struct str secret, struct str token, int64_t expires_s);
void lent_keys_unref(struct lent_keys *k); /* takes NULL */

struct credentials;
struct credentials *credentials_new(struct s3_config *config, struct net *net); /* both borrowed */
void credentials_free(struct credentials *c);                                   /* takes NULL */
/* Keys that are valid now; waits while they are fetched. The caller unrefs them. */
int credentials_get(struct credentials *c, struct lent_keys **ret, struct err *err);
/* A server has refused @bad: the next call gets others, if there are any. */
void credentials_refused(struct credentials *c, const struct lent_keys *bad);

/* ---- lender.c ---- */

/* LENDER_NONE: no such service is set up here. */
enum { LENDER_NONE = 1 };
int lender_ask(const struct s3_config *config, struct net *net, struct lent_keys **ret, struct err *err);
/* The answers of the services; for tests. */
int lender_read_json(struct bytes body, struct lent_keys **ret, struct err *err);
int lender_read_sts(struct bytes body, struct lent_keys **ret, struct err *err);
bool lender_time(struct str s, int64_t *ret); /* "2026-11-23T07:29:00Z" */

/* ---- place.c ---- */

struct place {
	char *scheme, *host, *region; /* host with the port, unless it is the usual one. Owned */
	bool in_host;                 /* the bucket is part of the host name */
};
void place_done(struct place *p);
/* Where requests for @bucket go. */
void place_of(struct s3 *s, struct str bucket, struct place *ret);
/*
 * A server has said that @bucket is elsewhere: in @region (empty: it did not say), at @host (empty: by the region). false: that
 * is no news, or not to be followed.
 */
bool place_learn(struct s3 *s, struct str bucket, struct str region, struct str host);
/* Scheme and host of a URL without a path. ERR_INVALID. */
int place_parse(const char *url, struct place *ret, struct err *err);

/* ---- call.c ---- */

/* The receiver of the bytes of an answer, on net's thread. */
struct call_sink {
	struct byte_range range;
	uint64_t have; /* bytes of the range that were taken */
	/* The head of an answer of status 2xx, of each try. */
	int (*begin)(void *arg, const struct net_call_answer *a, struct err *err);
	int (*take)(void *arg, uint64_t off, struct bytes piece, struct err *err); /* @off: in the object */
	void *arg;
};

struct call_request {
	const char *method; /* static */
	const char *what;   /* for metrics: "get"; static */
	struct s3_name name;
	const struct sign_field *query;
	size_t n_query;
	const struct sign_field *headers; /* that are signed; names in lower case */
	size_t n_headers;
	const struct bytes *body; /* NULL: none */
	/* Or a body out of a file, with its SHA-256; the net thread reads it. NULL: none */
	const struct file_range *file;
	const uint8_t *file_sha256;
	size_t max_answer;      /* 0: 64 KiB */
	struct call_sink *sink; /* NULL: the answer is gathered */
	const char *root;       /* of the XML that an answer of status 200 must be; NULL: any body */
	unsigned work_ms; /* the server may work for so long before its answer, beside the usual silence */
	bool bodyless;    /* a right answer has no body */
	bool hedged;
	int64_t from_ms; /* monotonic: when the request began that this one continues; 0: none */
};
struct call_answer {
	unsigned status;
	struct buf headers, body;
};
void call_answer_done(struct call_answer *a);
/* Status 2xx; S3_MISSING; or negative, with the name in the text. */
int call_run(struct s3 *s, const struct call_request *req, struct call_answer *ret, struct err *err);

/* ---- reply.c ---- */

enum verdict {
	VERDICT_DONE,
	VERDICT_MISSING, /* of HEAD: status 404, for whatever reason */
	VERDICT_AGAIN,   /* at once: something was learned. Counts as a try */
	VERDICT_LATER,   /* after a while */
	VERDICT_FAILED,
};
/* The <Error> of an answer; views into @text. false: the body is none. */
struct reply_error {
	struct str code, message, region, endpoint;
	struct arena arena;
};
bool reply_error_read(struct bytes body, struct reply_error *ret);
void reply_error_done(struct reply_error *e);
/* Judge an answer of any status. @keys: that signed it, NULL: none. @err is set unless it is DONE or MISSING. */
enum verdict reply_judge(struct s3 *s, const struct call_request *req, const struct call_answer *a,
			 const struct lent_keys *keys, struct err *err);
/* A status by which the same request may succeed later. */
bool reply_may_pass(unsigned status);

/* ---- object.c ---- */

/* Size, time and ETag, from the headers of an answer; the size of the whole object, also from a range. */
void object_info(struct str headers, struct s3_info *ret);
void object_etag(struct str value, char ret[S3_ETAG_MAX]);

/* ---- disk.c ---- */

/* NULL without a path or a limit, or with a warning; the functions below take that. Any thread. */
struct disk_cache *disk_cache_open(const char *path, uint64_t max, uint64_t min_free);
void disk_cache_close(struct disk_cache *d);
/* Of one object in one version. */
uint64_t disk_cache_key(const char *url, uint64_t inode);
/* A range that contains @off and is on disk. */
bool disk_cache_find(struct disk_cache *d, uint64_t key, uint64_t off, struct byte_range *ret);
/* All bytes of a range that was found. false: it is gone, or damaged and removed. */
bool disk_cache_read(struct disk_cache *d, uint64_t key, struct byte_range range, uint8_t *p);
void disk_cache_put(struct disk_cache *d, uint64_t key, struct byte_range range, const uint8_t *p);
void disk_cache_forget_all(struct disk_cache *d, uint64_t key);
uint64_t disk_cache_size(struct disk_cache *d);

/* ---- list.c, upload.c: for tests ---- */

/* One answer, as s3_list() reads it. */
int list_read_page(const struct s3_listing *l, struct bytes body, struct err *err);
/*
 * There may be keys in it that XML cannot hold: it has such characters, references to them, or the character for those
 * replaced.
 */
bool list_wants_escapes(struct str body);
/* *ret: heap, also after an error. */
int upload_read_parts(struct bytes body, struct s3_part **ret, size_t *ret_n, struct err *err);

/* ---- span.c ---- */

/*
 * One object in one version, with the ranges of it that are in memory or being fetched. All sources of the same version share
 * it.
 */
struct span_object;
struct span_table;
struct span_table *span_table_new(struct s3 *s, const struct s3_options *o);
void span_table_free(struct span_table *t); /* takes NULL. Waits for what runs */
/* Its bytes may be damaged: forget those in memory and on disk. */
void span_object_distrust(struct span_object *o);
/* @known: as s3_stat() has it. */
struct span_object *span_object_get(struct span_table *t, const char *url, const struct stat *known);
void span_object_put(struct span_object *o); /* takes NULL */
/*
 * Copy bytes at @off, at least one, at most @n; wait for them. Missing bytes are fetched as @fetch, which contains @off.
 * @ahead_to: begin to fetch the bytes after these, for later reads, up to here; 0: none.
 */
struct span_read {
	uint64_t off;
	void *buf;
	size_t n;
	struct byte_range fetch;
	uint64_t ahead_to;
	bool passing; /* the range is not kept on disk */
	bool once;    /* the bytes are not kept after they were read to their end */
};
/* Bytes in memory and on disk. */
void span_table_sizes(struct span_table *t, uint64_t *ret_memory, uint64_t *ret_disk);
int span_read(struct span_object *o, const struct span_read *r, size_t *ret_got, struct err *err);
/* The hash that s3_stat() has as the inode. */
uint64_t span_inode(const struct s3_info *info);

/* ---- client.c ---- */

struct s3 {
	struct s3_options opts; /* numbers only; texts are in config */
	struct s3_config config;
	struct net *net;
	struct credentials *credentials;
	struct span_table *spans;
	struct place home;        /* of the settings */
	_Atomic int64_t skew_s;   /* for signatures: the clock of a server that has refused us less ours */
	_Atomic int64_t first_ms; /* a moving average: from a request to the first byte of its answer */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	unsigned n_running; /* requests */
	struct map places;  /* bucket -> struct place, where it is not at home */
	uint64_t n_done, n_missing, n_failed;
	bool failing; /* the last request failed, with `why`, since */
	int64_t failing_s;
	struct err why;
	bool has_clock;         /* an answer had a Date */
	bool was_behind;        /* this machine's clock was, far, when `clock` was opened */
	struct age_clock clock; /* the server's */
	_Atomic uint64_t received;
	_Atomic int64_t quiet_ms; /* monotonic: until then no other doubt is logged */
	atomic_bool told_no_date;
	_Atomic int64_t stop_ms; /* from then on reads are given up; 0: never */
};

/* ---- time.c ---- */

/* A server has carried out a request: its Date, if it has one, is the time of s3_time_s(). Any thread. */
void time_note_date(struct s3 *s, struct str headers);
/* The time to sign with: this machine's, corrected after a refusal. */
int64_t time_to_sign_s(struct s3 *s);
