/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables, and their history: each entry migrates an older database by one version. A released entry never
 * changes. docs/formats/index.md describes the tables.
 */
#include "index/internal.h"

/*
 * Paths and names are BLOBs, since they are bytes and not text. Maps have a table of their own, so that a
 * scan of `file` does not read them. Rows of `artifact` and `package_dir` are stored in the order of their
 * lookups, with a second index by file.
 */
static const char first[] = "CREATE TABLE dir ("
			    "  id INTEGER PRIMARY KEY,"
			    "  path BLOB NOT NULL UNIQUE" /* with its last slash */
			    ") STRICT;"
			    "CREATE TABLE file ("
			    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
			    "  dir INTEGER NOT NULL,"
			    "  name BLOB NOT NULL,"
			    "  kind INTEGER NOT NULL,"
			    "  state INTEGER NOT NULL,"
			    "  size INTEGER NOT NULL,"
			    "  mtime INTEGER NOT NULL," /* nanoseconds */
			    "  inode INTEGER NOT NULL,"
			    "  dev INTEGER NOT NULL,"
			    "  reason BLOB NOT NULL,"
			    "  reason_kind INTEGER NOT NULL,"
			    "  tries INTEGER NOT NULL,"
			    "  next_try INTEGER NOT NULL,"
			    "  scanned INTEGER NOT NULL,"
			    "  inner INTEGER NOT NULL,"
			    "  inner_size INTEGER NOT NULL,"
			    "  points_size INTEGER NOT NULL,"
			    "  map_size INTEGER NOT NULL,"
			    "  generation INTEGER NOT NULL,"
			    "  UNIQUE (dir, name)"
			    ") STRICT;"
			    /* Packages that are due: few, once the scan is done. */
			    "CREATE INDEX file_due ON file (mtime) WHERE kind = 2 AND state <> 2;"
			    "CREATE TABLE artifact ("
			    "  build_id BLOB NOT NULL,"
			    "  file INTEGER NOT NULL,"
			    "  member INTEGER NOT NULL," /* -1: none */
			    "  flags INTEGER NOT NULL,"
			    "  PRIMARY KEY (build_id, file, member)"
			    ") STRICT, WITHOUT ROWID;"
			    "CREATE INDEX artifact_file ON artifact (file);"
			    "CREATE TABLE map ("
			    "  file INTEGER PRIMARY KEY,"
			    "  blob BLOB NOT NULL"
			    ") STRICT;"
			    "CREATE TABLE package_dir ("
			    "  hash INTEGER NOT NULL," /* the low 32 bits of index_dir_hash(), signed: four
							  bytes a row instead of eight */
			    "  file INTEGER NOT NULL,"
			    "  PRIMARY KEY (hash, file)"
			    ") STRICT, WITHOUT ROWID;"
			    "CREATE INDEX package_dir_file ON package_dir (file);";

/*
 * Other identities of files that have a build ID. Files on disk that were scanned before are probed again by the next
 * walk, which finds another inode; packages get their aliases with their next deep pass.
 */
static const char aliases[] = "CREATE TABLE alias ("
			      "  alias BLOB NOT NULL,"
			      "  file INTEGER NOT NULL,"
			      "  build_id BLOB NOT NULL,"
			      "  PRIMARY KEY (alias, file, build_id)"
			      ") STRICT, WITHOUT ROWID;"
			      "CREATE INDEX alias_file ON alias (file);"
			      "UPDATE file SET inode = 0 WHERE kind = 1;";

/* Aliases are looked up by file and build ID, too: a package may have thousands. */
static const char alias_of[] = "DROP INDEX IF EXISTS alias_file;"
			       "CREATE INDEX IF NOT EXISTS alias_of ON alias (file, build_id);";

/* Stripped programs with .debug_gdb_scripts were taken for debug files: those on disk are probed again. */
static const char no_scripts[] = "UPDATE file SET inode = 0 WHERE kind = 1;";

/*
 * The same in packages: a stripped program there has both flags and nothing that a debug file has. Only the packages with
 * such a member are read again.
 */
#define FLAGS_EXE_AND_DEBUG "3"
#define FLAGS_OF_CONTENTS   "1792" /* ELF_HAS_DWARF, ELF_HAS_LINES, ELF_HAS_SYMTAB */
static const char no_scripts_packed[] = "UPDATE file SET state = 1, tries = 0, next_try = 0 WHERE kind = 2 "
					"AND state = 2 AND id IN (SELECT file FROM "
					"artifact WHERE member >= 0 AND flags & " FLAGS_EXE_AND_DEBUG
					" = " FLAGS_EXE_AND_DEBUG " AND flags & " FLAGS_OF_CONTENTS " = 0);";

const struct db_migration index_migrations[] = {
	{ first }, { aliases }, { alias_of }, { no_scripts }, { no_scripts_packed },
};
const unsigned index_n_migrations = ARRAY_SIZE(index_migrations);
