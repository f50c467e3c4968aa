/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the repair of a profile store.
 *
 *   salvage.c           files: the database is copied, and the damaged one set aside
 *   salvage_copy.c      profiles, series and totals
 *   salvage_segments.c  the metadata store, with placeholders for lost entries
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

struct salvage {
	struct db *from, *to;
	uint64_t file_size;             /* of the damaged database; 0: unknown */
	uint64_t n[SEGMENT_N_KINDS];    /* entries of each table, with those that are lost */
	uint64_t have[SEGMENT_N_KINDS]; /* entries that were copied, or got placeholders */
	uint64_t n_filled;
	bool gaps;
	/* entries that placeholders refer to; each stack has a location of its own */
	uint64_t string, function, line, location, n_locations;
	int64_t generation;
	uint8_t *stacks; /* salvage_segments.c's flags, by number; n_stacks of them */
	uint64_t n_stacks;
	uint64_t n_profiles, n_lost;
	int64_t last_id;
	bool damaged; /* a row could not be read, or was wrong */
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

/* ---- salvage_copy.c ---- */

#define SALVAGE_PROFILES_SQL                                                                                 \
	"SELECT id, series, time_ms, duration_ms, period, digest, data FROM profile WHERE id >= ? ORDER BY " \
	"id"
struct salvage_profile {
	int64_t id, series, time_ms, duration_ms, period, digest;
	struct bytes data;
};
/* Copy the row of SALVAGE_PROFILES_SQL, unless it is damaged. */
int salvage_copy_profile(struct salvage *x, struct db_stmt *st, struct err *err);
int salvage_put_profile(struct salvage *x, const struct salvage_profile *p, struct err *err); /* the same */
/* false: the row is not one of a profile. */
bool salvage_raw_profile(const struct db_raw_row *row, struct salvage_profile *ret);
/* Copy all sound rows of x->from (NULL: it could not be opened), in one transaction. */
int salvage_copy(struct salvage *x, struct err *err);
