/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store's own: what its files ask of each other.
 *
 *   key.c         kinds and keys: texts, and the names of records
 *   record.c      what a record says, as text
 *   blob.h        the seam: named bytes, whole or not at all; blob_memory.c, blob_dir.c
 *   store.c       opening, finding, reading
 *   put.c         writing
 *   list.c        listing, removal
 *   catalogue.c   what all records say, in memory
 *   census.c      all records and contents, and who names what
 *   gc.c          contents that no record names
 *   evict.c       making room
 *   verify.c      computing it all again
 *   maintain.c    the thread that keeps house in a server
 *   pack.c        the thread that compresses what was kept as it came
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "codec/codec.h"
#include "store/blob.h"
#include "store/store.h"

/* ---- key.c ---- */

/* Names of records begin so, those of contents so. */
#define STORE_KEYS STR("keys/")
#define STORE_DATA STR("data/")

/* The name of the blob that holds the record of @key: "keys/ab/abcdef.debuginfo",
 * "keys/ab/abcdef.source-<SHA-256 of the arg>". */
void store_record_name(const struct store_key *key, struct buf *ret);
/* That of the blob that holds a content: "data/01/0123...zst", raw ones without the ending. */
#define STORE_CONTENT_NAME_SIZE (5 + 3 + 2 * STORE_SHA256_SIZE + 4 + 1)
char *store_content_name(const uint8_t sha256[STORE_SHA256_SIZE], bool raw,
			 char out[STORE_CONTENT_NAME_SIZE]);

/* ---- record.c ---- */

#define STORE_MAX_RECORD KIB(64)

/* docs/formats/store.md. last_used is not part of it. */
void store_record_write(const struct store_key *key, const struct store_meta *meta, struct buf *ret);
/* Strings are copied to @a. Anything but a whole and sound record is ERR_INVALID. */
int store_record_read(struct bytes b, struct arena *a, struct store_key *ret_key, struct store_meta *ret,
		      struct err *err);

/* ---- store.c ---- */

struct store {
	struct blobs *blobs;
	struct store_options opts; /* level filled in */
	int64_t settle_ns;
	_Atomic int64_t usage; /* see store_usage(); negative: not known yet */
	_Atomic uint64_t generation;
	pthread_mutex_t room;        /* one makes room at a time */
	struct maintain *maintain;   /* NULL: none */
	struct pack *pack;           /* NULL: none */
	struct catalogue *catalogue; /* NULL: none */
};

/*
 * How long a content that was put or touched is safe from whoever finds that no record names it: its record
 * is on its way. A commit that takes longer touches it again, when its record is there. Any number above the
 * clocks' grain will do.
 */
#define STORE_SETTLE_NS INT64_C(2000000000)

/* The record of that name. BLOB_MISSING. Strings in @a. */
int store_record_get(struct store *st, const char *name, struct arena *a, struct store_key *ret_key,
		     struct store_meta *ret, struct blob_stamp *ret_stamp, struct err *err);
/* Is what the record names there, and as long as it says? */
int store_content_there(struct store *st, const struct store_meta *meta, bool *ret, struct err *err);
static inline int64_t store_now_ns(void)
{
	return clock_wall_ms() * 1000000;
}
void store_usage_add(struct store *st, int64_t n);

/* ---- census.c ---- */

struct census_record {
	char *name; /* in the arena */
	uint32_t content;
	uint8_t origin;
	bool gone;
	int64_t time_ns;
};
struct census_content {
	uint8_t sha256[STORE_SHA256_SIZE];
	uint64_t stored_size; /* 0 and !there: a record names it, that is all */
	uint32_t n_records;
	bool raw, there;
};
/*
 * All that was there from the beginning of the walk on, and some of what came meanwhile. A content that no
 * record named although it was put before @from_ns - settle_ns is garbage: remove it if it is not younger.
 */
struct census {
	struct arena arena;
	int64_t from_ns;
	struct census_record *records;
	struct census_content *contents;
	size_t n_records, n_contents, room_records, room_contents;
	uint64_t bytes, content_size;
	uint64_t spooled; /* bytes of what is being written, or was cut */
	uint64_t by_origin[STORE_N_ORIGINS];
	struct map by_name; /* of contents: index + 1 */
	uint64_t n_bad;     /* records that cannot be read */
};
/* @bad may be NULL: told of records that cannot be read. */
int census_take(struct store *st, struct census *ret,
		void (*bad)(void *arg, struct str what, const struct err *why), void *arg, struct err *err);
void census_done(struct census *c);
/* Remove a content that no record names any more. 0, or BLOB_MISSING, BLOB_YOUNGER. */
int census_remove(struct store *st, const struct census *c, const struct census_content *content,
		  struct err *err);

/* ---- catalogue.c: all take NULL ---- */

struct catalogue *catalogue_new(void);
void catalogue_free(struct catalogue *c);
/* The record of that name is this one. */
void catalogue_put(struct catalogue *c, const char *name, const struct store_key *key,
		   const struct store_meta *meta);
void catalogue_del(struct catalogue *c, const char *name);
/* A walk begins, and puts all records; at its end those that it has not met, and that were not put meanwhile,
 * go. */
uint64_t catalogue_walk(struct catalogue *c);
void catalogue_walked(struct catalogue *c, uint64_t walk);

/* ---- evict.c ---- */

/* Is there room for @more bytes, without making any, and some is left? */
bool store_has_room(struct store *st, uint64_t more);
/* Is there room for @more bytes within the quota, or can it be made? STORE_FULL. */
int store_make_room(struct store *st, uint64_t more, struct err *err);
bool store_is_crowded(struct store *st); /* it is time to make room ahead */

/* ---- maintain.c ---- */

struct maintain *maintain_start(struct store *st);
void maintain_stop(struct maintain *m); /* takes NULL */
/* It is crowded; or, with @garbage, something was removed. Takes NULL. */
void maintain_wake(struct maintain *m, bool garbage);

/* ---- pack.c ---- */

/* The thread runs from start to stop. It and maintain.c's tell each other of their work: neither goes while
 * the other runs. */
struct pack *pack_new(struct store *st);
void pack_start(struct pack *p);
void pack_stop(struct pack *p); /* takes NULL */
void pack_free(struct pack *p); /* takes NULL */
/* The record of that name wants it. Takes NULL. */
void pack_add(struct pack *p, const char *name, uint64_t size);
void pack_figures(struct pack *p, uint64_t *ret_n, uint64_t *ret_bytes); /* takes NULL */
/*
 * Compress what the record of that name has, and let it name that. *ret_freed: so many bytes have become
 * garbage, unless something else names them.
 * @stopped (may be NULL) is asked now and then: true ends the work with ERR_CANCELLED.
 */
enum { PACK_NOTHING = 1 }; /* there is no such record, or it does not want it */
int pack_record(struct store *st, const char *name, bool (*stopped)(void *arg), void *arg,
		uint64_t *ret_freed, struct err *err);
