/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the repair of a profile store: a damaged database is made anew from its sound rows. When the store is opened
 * (salvage.c), all of them are those of the file; while it is in use (remake.c), all but profiles are in memory.
 *
 *   salvage.c           files: the database is copied, and the damaged one set aside
 *   salvage_profiles.c  profiles, for both
 *   salvage_copy.c      series and totals of the file
 *   salvage_segments.c  the metadata store of the file, with placeholders for lost entries
 *   salvage_leaves.c    rows of a file whose first page is lost
 *   salvage_rows.c      reading the rows of a damaged table
 */
#pragma once

#include "profilestore/internal.h"
#include "profilestore/salvage.h"

#define SALVAGE_MAX_ENTRIES ((uint64_t)COLUMN_MAX_ENTRIES)
/*
 * The digest of a row does not cover the number of its first entry. If that is damaged, all numbers before it look lost; so
 * there are not believed to be more entries than so many for each byte of the file. It may have been longer, and free numbers
 * of stacks take no bytes.
 */
#define SALVAGE_ENTRIES_A_BYTE UINT64_C(32)
#define SALVAGE_STACKS_A_BYTE  UINT64_C(1024)

/* Facts of the store besides the database that is copied. */
struct salvage_known {
	/* Profiles with this number and larger ones come after the damage. */
	int64_t (*next_id)(void *arg);
	/* The series from *@it on, which is 0 at first and then advances; 0: no more. */
	uint32_t (*next_series)(void *arg, uint32_t *it);
	/* Retention deletes the oldest profiles, and a deleted row may still be in a free page. */
	bool (*may_be_stored)(void *arg, uint32_t series, int64_t time_ms);
	void *arg;
};

enum salvage_phase {
	SALVAGE_ROWS,  /* profiles by the tree of the table */
	SALVAGE_INDEX, /* those that the index has besides */
	SALVAGE_PAGES, /* from the leaves of the file */
	SALVAGE_LAST,
};

struct salvage {
	struct db *from, *to;
	uint64_t file_size; /* of the damaged database; 0: unknown */
	bool damaged;       /* a row could not be read, or was wrong */
	bool lost_more;     /* profiles are lost that nothing tells of */

	/* ---- profiles ---- */
	const struct salvage_known *known; /* of the caller, before the first step */
	struct db *pages_db;               /* a connection that knows the pages of the file; NULL: from */
	enum salvage_phase phase;
	int64_t until_ms; /* monotonic: the end of this step; 0: none */
	int64_t next_id;
	uint32_t next_series; /* of salvage_known.next_series() */
	uint64_t n_entries;   /* of the index that were read */
	struct db_pages pages;
	uint64_t next_page;
	uint64_t n_known_stacks; /* a profile with others is of no use; 0: the file has the stacks */
	bool no_schema;          /* tables cannot be read, only pages */
	bool index_damaged;      /* in part */

	/* ---- the metadata store ---- */
	uint64_t n[SEGMENT_N_KINDS];    /* entries of each table, with those that are lost */
	uint64_t have[SEGMENT_N_KINDS]; /* entries that were copied, or got placeholders */
	uint64_t n_filled;
	bool gaps;
	/* entries that placeholders refer to; each stack has a location of its own */
	uint64_t string, function, line, location, n_locations;
	int64_t generation;
	uint8_t *stacks; /* salvage_segments.c's flags, by number; n_stacks of them */
	uint64_t n_stacks;
};

/* ---- salvage_rows.c ---- */

typedef int (*salvage_row_fn)(struct salvage *x, struct db_stmt *st, struct err *err);
/*
 * Call @row for each row of x->from that can be read. @sql selects rows with numbers from ?1 on, by number, the
 * number first. The error is that of @row.
 */
int salvage_each_row(struct salvage *x, const char *sql, salvage_row_fn row, struct err *err);
int salvage_rows_from(struct salvage *x, const char *sql, int64_t id, salvage_row_fn row, struct err *err);

/* ---- salvage_segments.c ---- */

/* A profile needs this stack. */
void salvage_need_stack(struct salvage *x, uint64_t stack);
/* @last is the largest number of a stack in a row that was taken. */
void salvage_need_stacks_to(struct salvage *x, uint64_t last);
/* After all profiles: copy the metadata store. */
int salvage_copy_segments(struct salvage *x, struct err *err);

/* ---- salvage_profiles.c ---- */

int salvage_profiles_begin(struct salvage *x, struct err *err);
/* As far as it gets until @until_ms (monotonic; 0: to the end). 1: there is more to do. */
int salvage_profiles_step(struct salvage *x, int64_t until_ms, struct err *err);
/* Profiles that the copy does not have. */
struct salvage_lost {
	struct lost_profile *v; /* heap */
	size_t n, room;
};
/*
 * After the last step: those that came meanwhile, and @ret, which the caller frees, also after an error. @n_before: how many
 * there were, to know how many are lost where the index is damaged.
 */
int salvage_profiles_end(struct salvage *x, uint64_t n_before, struct salvage_lost *ret, struct err *err);
/* The row is one of a profile, and its digest is right. */
bool salvage_is_profile(const struct db_raw_row *row);

/* ---- salvage_leaves.c ---- */

/* The row is one of a series, on a sound page that is in use; its key is in v[1]. */
bool salvage_is_series(const struct db_raw_row *row);
/* The rows of the leaves of @path, whose schema cannot be read, in a new database at @new_path. Its WAL is copied into it. */
int salvage_leaves(const char *path, const char *new_path, struct db **ret, struct err *err);

/* ---- salvage_copy.c ---- */

/* Copy all sound rows of x->from, in one transaction. */
int salvage_copy(struct salvage *x, struct salvage_result *ret, struct err *err);
