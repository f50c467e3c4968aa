/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing a schema up to date, one migration after the other, each in a transaction that also sets the
 * version number. A file of another program is left alone: PRAGMA application_id identifies it.
 */
#include "db/internal.h"

#include <stdio.h>

#define APPLICATION_ID  1819239525 /* "lode" */
#define SET_APPLICATION "PRAGMA application_id = 1819239525"

static int schema_version(struct db *db, int64_t *ret_version, struct err *err)
{
	struct db_schema x;

	if (db_read_schema(db, &x, err) < 0)
		return -1;
	*ret_version = x.version;
	if (x.application != APPLICATION_ID && (x.application || x.version || x.n_tables))
		return err_set(err, ERR_INVALID,
			       "belongs to another program (application id %lld, schema %lld)",
			       (long long)x.application, (long long)x.version);
	return 0;
}

static int migrate_one(struct db *db, const struct db_migration *m, unsigned to, struct err *err)
{
	char set[64];
	int r;

	snprintf(set, sizeof(set), "PRAGMA user_version = %u", to);
	r = db_exec(db, SET_APPLICATION, err);
	if (r == 0)
		r = db_exec(db, m->sql, err);
	return r ? r : db_exec(db, set, err);
}

static int schema_migrate(struct db *db, const struct db_migration *migrations, unsigned n, struct err *err)
{
	int64_t version;

	for (;;) {
		if (schema_version(db, &version, err) < 0)
			return -1;
		if (version < 0 || version > n)
			return err_set(err, ERR_INVALID,
				       "made by a newer lode (schema %lld, this one knows %u)",
				       (long long)version, n);
		/* The file is ours: set WAL mode again, in case another program has changed it. */
		if (version == n)
			return db->read_only ? 0 : db_set_wal(db, err);
		if (db->read_only)
			return err_set(err, ERR_INVALID,
				       "made by an older lode (schema %lld, this one needs %u), and opened "
				       "for reading only",
				       (long long)version, n);
		if (db_begin(db, err) < 0)
			return -1;
		/* Another process may have done it during the wait for the lock. */
		if (schema_version(db, &version, err) < 0 ||
		    (version >= 0 && version < n &&
		     migrate_one(db, &migrations[version], (unsigned)version + 1, err) < 0)) {
			db_rollback(db);
			return err_in(err, "schema %lld", (long long)version + 1);
		}
		if (db_commit(db, err) < 0)
			return -1;
	}
}

int db_migrate(struct db *db, const struct db_migration *migrations, unsigned n, struct err *err)
{
	if (schema_migrate(db, migrations, n, err) < 0)
		return err_in(err, "database %s", db->path);
	/* The database was empty until now. */
	db_find_wal_index(db);
	return 0;
}
