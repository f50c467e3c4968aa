/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage that is found while the store is in use.
 *
 * A reader or the writer notes the damaged page, or row; the writer's thread corrects a page with one wrong byte, and makes
 * the database anew otherwise (remake.c). Then the query, or the transaction, is tried once more. If that cannot be done,
 * since the disk has no room, the damage stays: a query or a transaction that needs that page asks again, and fails with
 * ERR_DAMAGED. The next start repairs the database in the same way (salvage.c).
 */
#pragma once

#include <pthread.h>
#include "db/db.h"

struct profilestore;
struct profilestore_range;

#define DAMAGE_MAX 256u

/* A profile that was set aside. */
struct lost_profile {
	uint32_t series; /* 0: not known */
	int64_t time_ms; /* INT64_MIN: not known */
};

struct damage {
	pthread_mutex_t lock;
	/* under the lock, as all to the next comment: pages and rows to mend */
	uint64_t pages[DAMAGE_MAX];
	size_t n_pages;
	int64_t rows[DAMAGE_MAX]; /* numbers of profiles; negative: of rollups */
	size_t n_rows;
	struct {
		struct lost_profile *v;
		size_t n, room;
	} lost;
	uint64_t n_lost; /* with those that are not in the list */
	char why[512];   /* of the damage that stays */
	/* a statement has failed for damage, although all pages that it read are as they were written */
	bool malformed;
	uint64_t malformed_at; /* n_mended, before it began */
	char malformed_why[256];
	_Atomic bool kept;               /* there is damage that stays */
	_Atomic uint64_t n_mended;       /* pages and rows, with those that were found sound */
	_Atomic uint64_t n_pages_mended; /* that were damaged */
	/* of the writer's thread */
	unsigned n_files; /* that were written since the start */
	unsigned n_looks; /* at pages and rows that were not damaged any more */
};
void damage_init(struct damage *d);
void damage_done(struct damage *d);

/* Note the page of which a read of @db has failed, if any. */
void damage_note_page_of(struct profilestore *s, struct db *db);
void damage_note_page(struct profilestore *s, uint64_t page);
void damage_note_profile(struct profilestore *s, int64_t id);
void damage_note_rollup(struct profilestore *s, int64_t id);
/*
 * A query, or a transaction, that began when damage_n_mended() was @n_mended has failed with @err. If no page or row was
 * noted for it, the tree of a table is damaged.
 */
void damage_note_error(struct profilestore *s, uint64_t n_mended, const struct err *err);
/* remake.c: the database was made anew, without @lost; or this has failed, and the damage stays. */
void damage_remade(struct profilestore *s, const struct lost_profile *lost, size_t n_lost);
/* The repair before the store was opened has set @n_lost profiles aside, of which @n_listed are in @lost. */
void damage_note_repair(struct profilestore *s, const struct lost_profile *lost, size_t n_listed,
			uint64_t n_lost);
void damage_keep_all(struct profilestore *s, const struct err *why);
/*
 * Mend all that was noted. true: something was mended since damage_n_mended() was @n_mended, so it is worth another
 * try.
 */
bool damage_mend(struct profilestore *s, uint64_t n_mended);
bool damage_mend_here(struct profilestore *s,
		      uint64_t n_mended); /* in the writer's thread, between transactions */
uint64_t damage_n_mended(struct profilestore *s);
/* How many of the profiles of @r were set aside when the store was opened, and since: at most, if their times are not known. */
uint64_t damage_lost_in(struct profilestore *s, const struct profilestore_range *r);

struct profilestore_stats;
void damage_stats(struct profilestore *s, struct profilestore_stats *ret);
