/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: what scans have learned of packages in buckets, kept beside the store in a bucket, so that a new node needs no scan.
 *
 * A *snapshot* is a copy of the index with the rows of files in buckets (index_export()). A node gives one when everything is
 * read, and later when it knows more. A node without an index takes the newest one before its scan begins. Then its rows
 * are compared with the listing, as at each start: objects that have changed since are scanned, and an object that is
 * another one now is not served by the old row. Sets of resume points are objects of their own, fetched when they are needed.
 *
 *   <store>/index/<id>.manifest  digests of the pieces. Its name sorts by time
 *   <store>/index/<id>/<number>  pieces, each zstd
 *   <store>/points/<generation>  resume points of a row of the index
 *
 * Each name is written once, pieces before their manifest. Nothing here is a promise: a snapshot or a set of
 * points that is missing or damaged costs a scan. docs/formats/facts.md has the layout,
 * docs/decisions/0070-snapshots-of-the-index.md the reasons.
 */
#pragma once

#include "scan/scan.h"

struct facts_options {
	const char *store;      /* "s3://BUCKET/PREFIX" of the store in a bucket; of s3_shared() */
	const char *index_path; /* of the index, which may not exist yet */
	const char *points_dir; /* as scan_options has it */
	const char *temp_dir;   /* of copies of the index, for as long as they are given or taken */
	const struct str *roots;
	size_t n_roots;    /* borrowed: rows of other files are not taken */
	struct room *room; /* borrowed: disk space for copies and points; may be NULL */
};

struct facts;
int facts_new(const struct facts_options *opts, struct facts **ret, struct err *err);
void facts_free(struct facts *f); /* ends the thread; takes NULL */

const char *facts_store(const struct facts *f); /* "s3://BUCKET/PREFIX/" */

/* Before the scan begins: if there is no index, take the newest snapshot that is whole. What happens is logged. */
void facts_take(struct facts *f);
/* A thread gives snapshots from now on. @scan is borrowed until facts_stop(). */
int facts_start(struct facts *f, struct scan *scan, struct err *err);
void facts_stop(struct facts *f); /* takes NULL */

/*
 * Fetch the resume points of this row into the folder of points. false: it is no row of a bucket, or nobody has given
 * them, or they cannot be had now. Any thread; waits for the bucket. scan_options.fetch_points.
 */
bool facts_points(void *facts, const struct index_file *f);
