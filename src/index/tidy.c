/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freeing space. There is no ANALYZE: each statement has one index that it must use, and its plan must not
 * depend on the content of the tables. It works in small steps, between which others may write; only a full
 * VACUUM blocks them.
 */
#include "index/internal.h"

#include <assert.h>
#include <stdio.h>

#define VACUUM_PAGES 2000 /* a step: 8 MB */

static int tidy_count_free(struct index *ix, int64_t *ret, struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(ix->db, "PRAGMA freelist_count", &s, err) < 0)
		return -1;
	if (db_step(s, err) < 0)
		return -1;
	*ret = db_i64(s, 0);
	db_reset(s);
	return 0;
}

static int tidy_vacuum(struct index *ix, struct err *err)
{
	char sql[64];
	int64_t n_free, before;

	if (tidy_count_free(ix, &before, err) < 0)
		return -1;
	snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%d)", VACUUM_PAGES);
	while (before) {
		if (db_exec(ix->db, sql, err) < 0 || tidy_count_free(ix, &n_free, err) < 0)
			return -1;
		/* A database that another program created without auto-vacuum frees nothing. */
		if (n_free >= before)
			break;
		before = n_free;
	}
	return 0;
}

int index_tidy(struct index *ix, bool all, struct err *err)
{
	assert(!ix->open);
	if (db_exec(ix->db, "DELETE FROM dir WHERE id NOT IN (SELECT dir FROM file)", err) < 0 ||
	    (all ? db_exec(ix->db, "VACUUM", err) : tidy_vacuum(ix, err)) < 0 ||
	    /* An open read keeps part of the log. This is no failure: the rest is removed next time. */
	    db_exec(ix->db, "PRAGMA wal_checkpoint(TRUNCATE)", err) < 0)
		return err_in(err, "index");
	return 0;
}
