/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by index's own files.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "index/index.h"

#define INDEX_REMAKES_MAX 3u /* since the start: a disk that damages more is no place for an index */

struct index {
	struct db *_Atomic db;     /* index_mark() reads it on any thread */
	struct index_place *place; /* shared with the other connections to the same path */
	_Atomic uint32_t made;     /* place->made when `db` was opened */
	struct db *old[INDEX_REMAKES_MAX];
	unsigned n_old;
	bool read_only;
	bool open;   /* the caller has begun a transaction */
	bool broken; /* a call failed in it: it may contain half a change, and must not be committed */
	uint64_t
		n_gone; /* files removed or replaced in it, and build IDs that may have been aliases of others */
	struct index_stats stats; /* valid for the two numbers below */
	int64_t stats_version, stats_changes;
	bool stats_known;
};

/* ---- remake.c ---- */

struct index_place {
	struct index_place *next;
	char *path;
	unsigned n_refs;
	_Atomic uint32_t made; /* how often it was made anew */
	_Atomic bool damaged;
	void (*notify)(void *arg); /* NULL: none */
	void *notify_arg;
};
struct index_place *index_place_ref(const char *path);
void index_place_unref(struct index_place *x); /* takes NULL */
/* Open ix->db. */
int index_connect(struct index *ix, struct err *err);
/* As db_prepare(), of the index that is at the path now: all statements outside of a transaction pass it. */
int index_prepare(struct index *ix, const char *sql, struct db_stmt **ret, struct err *err);

/* ---- index.c ---- */
void index_all_gone(void); /* the epoch grows */

/* ---- schema.c ---- */
extern const struct db_migration index_migrations[];
extern const unsigned index_n_migrations;

/* ---- row.c: a row of `file` ---- */

/* For SELECT ... FROM file f JOIN dir d ON d.id = f.dir; these are columns 0 to INDEX_N_FILE_COLUMNS - 1. */
#define INDEX_FILE_COLUMNS                                                                                  \
	"f.id, d.path, f.name, f.kind, f.state, f.size, f.mtime, f.inode, f.dev, f.reason, f.reason_kind, " \
	"f.tries, f.next_try, f.scanned, f.inner, f.inner_size, f.points_size, f.generation"
#define INDEX_N_FILE_COLUMNS 18
/* Packages that wait for their first deep pass. It implies the condition of the index file_due, so only that is read. */
#define INDEX_IS_WAITING  "kind = 2 AND state <> 2 AND state <> 3"
#define INDEX_FILE_TABLES "file f JOIN dir d ON d.id = f.dir"
/* A file that was scanned more than this after now: the clock was set back. Small steps of it change nothing. */
#define INDEX_SET_BACK_S 60

/* Read the current row of @s; strings are copied to @a. Impossible values are ERR_INVALID: the database is
 * damaged. */
int index_row_file(struct db_stmt *s, struct arena *a, struct index_file *ret, struct err *err);
/* The same for columns @col (build ID), @col + 1 (member), @col + 2 (flags). */
int index_row_artifact(struct db_stmt *s, int col, struct index_artifact *ret, struct err *err);
int64_t index_member_value(uint32_t member);
/* A path is stored in two parts: the folder with its slash, which files share, and the name. */
void index_path_split(struct str path, struct str *ret_dir, struct str *ret_name);
/* All rows of @s, at most @max. */
int index_row_files(struct db_stmt *s, size_t max, struct arena *a, struct index_file **ret, size_t *ret_n,
		    struct err *err);

/* ---- glob.c ---- */

#define INDEX_GLOB_MAX 4096 /* bytes of a pattern */

/* The bytes before the first special one: every match starts with them. */
struct str index_glob_prefix(struct str pattern);
