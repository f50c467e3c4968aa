/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair of a profile store whose database is damaged, and the files that were set aside: see salvage.c.
 */
#pragma once

#include "db/db.h"
#include "profilestore/damage.h"

/* profiles.db.damaged.<seconds since 1970>, with a file .txt beside it that has the reason. */
#define SALVAGE_ASIDE ".damaged."

#define SALVAGE_LEAVES ".leaves" /* after the path of the database, while it is repaired */

struct salvage_result {
	uint64_t n_profiles; /* that are kept */
	/* that are known to be lost, of which @lost (heap, also after an error) has some */
	uint64_t n_lost;
	struct lost_profile *lost;
	size_t n_listed;
	uint64_t n_filled; /* entries of the metadata store that are lost */
};
char *salvage_db_path(const char *dir); /* heap */
/*
 * Copy the sound rows of the database in @dir, which nobody has open, into a new one, and set it aside. @lost_more:
 * profiles may be lost that nothing tells of; they count as one.
 */
int salvage_repair(const char *dir, const struct db_options *o, int64_t now_ms, const char *reason,
		   bool lost_more, struct salvage_result *ret, struct err *err);
/* Set the database aside, with nothing in its place. */
int salvage_set_aside(const char *dir, int64_t now_ms, const char *reason, struct err *err);

struct salvage_list {
	unsigned n;       /* databases that were set aside */
	char reason[512]; /* of the latest */
};
void salvage_listed(const char *dir, struct salvage_list *ret);
void salvage_note_reason(const char *aside, const char *reason); /* the file .txt */
char *salvage_aside_name(const char *dir, int64_t now_ms);       /* heap */
