/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the index for another node: its rows of files in buckets. Files of this machine are not there.
 */
#include "index/internal.h"

#include <stdlib.h>
#include <unistd.h>

/* Rows of other tables that a file has. */
static const char *const delete_of[] = {
	"DELETE FROM artifact WHERE file = ?", "DELETE FROM alias WHERE file = ?",
	"DELETE FROM map WHERE file = ?",      "DELETE FROM package_dir WHERE file = ?",
	"DELETE FROM file WHERE id = ?",
};

static int delete_file(struct index *ix, int64_t id, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(delete_of); i++)
		if (db_exec_i64(ix->db, delete_of[i], id, err) < 0)
			return -1;
	return 0;
}

struct keeping {
	struct index *ix;
	index_keep_fn *keep;
	void *arg;
	size_t n_deleted;
};

static int keep_or_delete(void *arg, const struct index_file *f, struct err *err)
{
	struct keeping *k = arg;

	if (k->keep(k->arg, f))
		return 0;
	k->n_deleted++;
	return delete_file(k->ix, f->id, err);
}

static int keep_rows(struct index *ix, index_keep_fn *keep, void *arg, struct err *err)
{
	struct keeping k = { .ix = ix, .keep = keep, .arg = arg };

	if (index_begin(ix, err) < 0)
		return -1;
	if (index_each(ix, 0, 0, keep_or_delete, &k, err) < 0) {
		index_rollback(ix);
		return -1;
	}
	if (index_commit(ix, err) < 0)
		return -1;
	/* With the WAL in the file, which is then all of the database. */
	return index_tidy(ix, k.n_deleted > 0, err);
}

static int keep_in_file(const char *path, index_keep_fn *keep, void *arg, struct err *err)
{
	struct index *ix;
	int r;

	if (index_open(path, &(struct index_options){ 0 }, &ix, err) < 0)
		return -1;
	r = keep_rows(ix, keep, arg, err);
	index_close(ix);
	return r;
}

/*
 * Into a new database, table by table, in the order of their keys. VACUUM INTO would write pages before the first one, which
 * says that pages have digests.
 */
#define OF_BUCKETS "SELECT id FROM whole.dir WHERE substr(path, 1, 5) = CAST('s3://' AS BLOB)"
static const char copy_rows[] = "INSERT INTO dir SELECT * FROM whole.dir WHERE id IN (" OF_BUCKETS ");"
				"INSERT INTO file SELECT * FROM whole.file WHERE dir IN (" OF_BUCKETS ");"
				"INSERT INTO artifact SELECT * FROM whole.artifact WHERE file IN (SELECT "
				"id FROM file);"
				"INSERT INTO alias SELECT * FROM whole.alias WHERE file IN (SELECT id FROM "
				"file);"
				"INSERT INTO map SELECT * FROM whole.map WHERE file IN (SELECT id FROM file);"
				"INSERT INTO package_dir SELECT * FROM whole.package_dir WHERE file IN "
				"(SELECT id FROM file);";

static int copy_into(struct index *to, const char *path, struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(to->db, "ATTACH ? AS whole", &s, err) < 0)
		return -1;
	db_bind_str(s, 1, str_of(path));
	if (db_step(s, err) < 0)
		return -1;
	db_reset(s);
	/* One transaction reads one state of the whole. */
	if (index_begin(to, err) < 0)
		return -1;
	if (db_exec(to->db, copy_rows, err) < 0) {
		index_rollback(to);
		return -1;
	}
	if (index_commit(to, err) < 0 || db_exec(to->db, "DETACH whole", err) < 0)
		return -1;
	/* With the WAL in the file, which is then all of the copy. */
	return index_tidy(to, false, err);
}

int index_export(const char *path, const char *to, struct err *err)
{
	struct index *ix;
	int r;

	db_files_remove(to);
	if (index_open(to, &(struct index_options){ 0 }, &ix, err) < 0)
		return -1;
	r = copy_into(ix, path, err);
	index_close(ix);
	if (r < 0)
		db_files_remove(to);
	return r;
}

/* Something in a database of strangers that would run within statements of ours. */
static int refuse_code(struct index *ix, struct err *err)
{
	int64_t n;

	if (db_get_i64(ix->db, "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')", &n,
		       err) < 0)
		return -1;
	return n ? err_set(err, ERR_INVALID, "it has triggers or views, which no index has") : 0;
}

static int check_copy(const char *path, struct err *err)
{
	struct index *ix;
	struct db_pages pages;
	int r;

	if (index_open(path, &(struct index_options){ 0 }, &ix, err) < 0)
		return -1;
	r = db_pages(ix->db, &pages, err);
	if (r == 0 && !pages.has_digests)
		r = err_set(err, ERR_INVALID, "its pages have no digests");
	if (r == 0)
		r = db_check(ix->db, UINT64_MAX, NULL, err);
	if (r == 0)
		r = refuse_code(ix, err);
	index_close(ix);
	return r;
}

int index_import(const char *from, const char *path, index_keep_fn *keep, void *arg, struct err *err)
{
	if (access(path, F_OK) == 0)
		return err_set(err, ERR_INVALID, "%s: there is an index", path);
	if (check_copy(from, err) < 0 || keep_in_file(from, keep, arg, err) < 0)
		return -1;
	return db_files_move(from, path, false, err) < 0 ? -1 : dir_sync_of(path, err);
}
