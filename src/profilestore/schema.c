/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables, and their versions: each entry upgrades an older database by one version. An entry that was
 * released is never changed. docs/formats/profilestore.md describes the content.
 */
#include "profilestore/internal.h"

/*
 * The indexes have the totals, so that sums over time need not read the rows. `data` is the last column: a
 * long value is on overflow pages, which are not read if only the columns before it are needed.
 */
static const char first[] = "CREATE TABLE segment ("
			    "  id INTEGER PRIMARY KEY," /* kind << 40 | number of its first entry */
			    "  n INTEGER NOT NULL,"
			    "  digest INTEGER NOT NULL,"
			    "  data BLOB NOT NULL"
			    ") STRICT;"
			    "CREATE TABLE series ("
			    "  id INTEGER PRIMARY KEY,"
			    "  key BLOB NOT NULL"
			    ") STRICT;"
			    "CREATE TABLE profile ("
			    "  id INTEGER PRIMARY KEY,"
			    "  series INTEGER NOT NULL,"
			    "  time_ms INTEGER NOT NULL,"
			    "  duration_ms INTEGER NOT NULL,"
			    "  total INTEGER NOT NULL,"
			    "  n_samples INTEGER NOT NULL,"
			    "  period INTEGER NOT NULL,"
			    "  digest INTEGER NOT NULL,"
			    "  data BLOB NOT NULL"
			    ") STRICT;"
			    "CREATE INDEX profile_at ON profile (series, time_ms, total);"
			    "CREATE TABLE rollup ("
			    "  id INTEGER PRIMARY KEY,"
			    "  series INTEGER NOT NULL,"
			    "  level INTEGER NOT NULL,"
			    "  start_ms INTEGER NOT NULL,"
			    "  n_profiles INTEGER NOT NULL,"
			    "  total INTEGER NOT NULL,"
			    "  n_samples INTEGER NOT NULL,"
			    "  duration_ms INTEGER NOT NULL,"
			    "  period INTEGER NOT NULL,"
			    "  first_ms INTEGER NOT NULL,"
			    "  digest INTEGER NOT NULL,"
			    "  data BLOB NOT NULL"
			    ") STRICT;"
			    "CREATE INDEX rollup_at ON rollup (series, level, start_ms, n_profiles, total);"
			    "CREATE TABLE counter ("
			    "  id INTEGER PRIMARY KEY," /* 1 */
			    "  next_profile INTEGER NOT NULL,"
			    "  n_profiles INTEGER NOT NULL,"
			    "  n_samples INTEGER NOT NULL"
			    ") STRICT;"
			    "INSERT INTO counter VALUES (1, 1, 0, 0);"
			    /* The state of naming a binary. */
			    "CREATE TABLE naming ("
			    "  binary INTEGER PRIMARY KEY,"
			    "  state INTEGER NOT NULL,"
			    "  reason INTEGER NOT NULL,"
			    "  why BLOB NOT NULL,"
			    "  origin BLOB NOT NULL,"
			    "  named_by BLOB NOT NULL,"
			    "  named_by_number INTEGER NOT NULL,"
			    "  n_tries INTEGER NOT NULL,"
			    "  last_try_ms INTEGER NOT NULL,"
			    "  next_try_ms INTEGER NOT NULL"
			    ") STRICT;";

/* Sweeps replace the tables of the metadata store: the keys of segment and naming have a generation. */
static const char generations[] = "ALTER TABLE counter ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;";

/* Whose profile a series began with, and how much memory of metadata each sender has brought. */
static const char senders[] = "ALTER TABLE series ADD COLUMN sender BLOB NOT NULL DEFAULT x'';"
			      "CREATE TABLE sender ("
			      "  name BLOB PRIMARY KEY NOT NULL,"
			      "  metadata INTEGER NOT NULL"
			      ") STRICT;";

/*
 * A profile that comes in again is found by its digest: without it in the index, each new profile would read all of its
 * series with its time and total.
 */
static const char digests[] = "DROP INDEX profile_at;"
			      "CREATE INDEX profile_at ON profile (series, time_ms, total, digest);";

const struct db_migration profilestore_migrations[] = {
	{ first },
	{ generations },
	{ senders },
	{ digests },
};
const unsigned profilestore_n_migrations = ARRAY_SIZE(profilestore_migrations);
