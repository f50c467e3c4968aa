/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of facts.
 *
 *   facts.c     names, listings, beginning and end
 *   manifest.c  the text of a manifest (pure functions)
 *   give.c      the thread that gives snapshots
 *   take.c      taking one
 *   points.c    sets of resume points
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/sha256.h"
#include "facts/facts.h"
#include "s3/s3.h"

/* ---- manifest.c ---- */

#define PIECE_SIZE   MIB(4)
#define PIECES_MAX   16384u
#define PACKED_MAX   (2 * PIECE_SIZE) /* of a piece; more is not zstd's */
#define MANIFEST_MAX MIB(2)
/* Servers that keep objects as files have no object with the name of a folder of others. */
#define MANIFEST_END  ".manifest"
#define SNAPSHOT_NAME 25u /* 11 hexadecimal digits: milliseconds; 13: random. With the end */

struct piece {
	uint32_t packed; /* bytes of the object */
	uint8_t sha256[SHA256_SIZE];
};
struct manifest {
	uint64_t size; /* of the database. Each piece has PIECE_SIZE bytes of it, the last one the rest */
	uint64_t fingerprint; /* of the rows: equal ones say the same of the same objects */
	uint64_t n_rows;
	struct piece *pieces; /* heap */
	size_t n_pieces;
};
void manifest_write(const struct manifest *m, struct buf *ret);
int manifest_read(struct bytes text, struct manifest *ret, struct err *err); /* zeroed on failure */
void manifest_done(struct manifest *m);

/* ---- facts.c ---- */

struct facts {
	struct s3 *s3; /* s3_shared() */
	char *store;   /* with a slash at its end */
	struct s3_name place;
	char *index_path, *points_dir, *temp_dir;
	const struct str *roots;
	size_t n_roots;
	struct room *room;
	/* giving */
	struct scan *scan;
	pthread_t thread;
	bool has_thread;
	atomic_bool stopping;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t fingerprint; /* of the last snapshot that was given, taken, or seen to be equal; 0: none */
};

/* "<prefix><a><b>": a key in the store's bucket; *key is freed by the caller. */
struct s3_name facts_name(const struct facts *f, char **key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The manifests in the bucket, the newest first. Heap, also the names. */
struct snapshot {
	char name[SNAPSHOT_NAME];
	int64_t time_s;
};
int facts_list(struct facts *f, struct snapshot **ret, size_t *ret_n, struct err *err);
/* S3_MISSING. */
int facts_manifest(struct facts *f, const char *name, struct manifest *ret, struct err *err);

/* ---- points.c ---- */

/* Put those that the bucket does not have, and remove those that nobody has used for long. */
int facts_give_points(struct facts *f, struct index *ix, struct err *err);
