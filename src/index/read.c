/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries. Each function is one statement, so it sees one state of the database.
 */
#include "index/internal.h"

#include <stdlib.h>

#define EACH_PAGE 1000u /* rows in memory */

/* Limit of files with one build ID, or packages with files in one directory. More are hostile, or mirrors of
 * mirrors: the newest are enough. */
#define MAX_HITS 1024

int index_find(struct index *ix, const struct build_id *id, struct arena *a, struct index_hit **ret,
	       size_t *ret_n, struct err *err)
{
	struct index_hit *list = NULL;
	struct db_stmt *s;
	size_t n = 0, room = 0;
	int r;

	if (index_prepare(
		    ix,
		    "SELECT " INDEX_FILE_COLUMNS
		    ", r.build_id, r.member, r.flags FROM artifact r JOIN file f ON f.id = r.file"
		    " JOIN dir d ON d.id = f.dir WHERE r.build_id = ?1 ORDER BY f.mtime DESC, f.id DESC, "
		    "r.member LIMIT ?2",
		    &s, err) < 0)
		return -1;
	db_bind_bytes(s, 1, build_id_bytes(id));
	db_bind_i64(s, 2, MAX_HITS);
	while ((r = db_step(s, err)) == DB_ROW) {
		VEC_GROW(list, n, room);
		if (index_row_file(s, a, &list[n].file, err) < 0 ||
		    index_row_artifact(s, INDEX_N_FILE_COLUMNS, &list[n].artifact, err) < 0) {
			r = -1;
			break;
		}
		n++;
	}
	db_reset(s);
	if (r == 0 && n) {
		*ret = ARENA_NEW_N(a, struct index_hit, n);
		memcpy(*ret, list, n * sizeof(*list));
		*ret_n = n;
	}
	free(list);
	return r < 0 ? r : n ? 0 : INDEX_MISSING;
}

bool index_owns(struct index *ix, const struct build_id *id)
{
	struct db_stmt *s;
	bool has;

	if (index_prepare(ix, "SELECT 1 FROM artifact WHERE build_id = ? LIMIT 1", &s, NULL) < 0)
		return true;
	db_bind_bytes(s, 1, build_id_bytes(id));
	has = db_step(s, NULL) != DB_DONE;
	db_reset(s);
	return has;
}

bool index_has(struct index *ix, const struct build_id *id)
{
	struct db_stmt *s;
	bool has = index_owns(ix, id);

	if (has || !build_id_may_be_alias(id))
		return has;
	/* If the query fails, absence is not certain. */
	if (index_prepare(ix, "SELECT 1 FROM alias WHERE alias = ? LIMIT 1", &s, NULL) < 0)
		return true;
	db_bind_bytes(s, 1, build_id_bytes(id));
	has = db_step(s, NULL) != DB_DONE;
	db_reset(s);
	return has;
}

int index_alias(struct index *ix, const struct build_id *alias, struct build_id *ret, struct err *err)
{
	struct db_stmt *s;
	int r;

	if (!build_id_may_be_alias(alias))
		return INDEX_MISSING;
	if (index_prepare(
		    ix,
		    "SELECT build_id FROM alias WHERE alias = ?1 AND NOT EXISTS (SELECT 1 FROM artifact "
		    "WHERE "
		    "build_id = ?1) ORDER BY file DESC LIMIT 1",
		    &s, err) < 0)
		return -1;
	db_bind_bytes(s, 1, build_id_bytes(alias));
	r = db_step(s, err);
	if (r == DB_ROW)
		r = build_id_set(ret, db_bytes(s, 0))
			    ? 0
			    : err_set(err, ERR_DAMAGED, "a row of alias is damaged");
	else if (r == DB_DONE)
		r = INDEX_MISSING;
	db_reset(s);
	return r;
}

int index_complete(struct index *ix, struct bytes prefix, struct build_id *ret, struct err *err)
{
	uint8_t last[BUILD_ID_MAX];
	struct build_id id;
	struct db_stmt *s;
	size_t n = 0;
	int r;

	if (!prefix.size || prefix.size > sizeof(last))
		return INDEX_MISSING;
	memset(last, 0xff, sizeof(last));
	memcpy(last, prefix.p, prefix.size);
	if (index_prepare(
		    ix,
		    "SELECT DISTINCT build_id FROM artifact WHERE build_id >= ?1 AND build_id <= ?2 LIMIT 2",
		    &s, err) < 0)
		return -1;
	db_bind_bytes(s, 1, prefix);
	db_bind_bytes(s, 2, bytes_of(last, sizeof(last)));
	while ((r = db_step(s, err)) == DB_ROW) {
		if (!build_id_set(&id, db_bytes(s, 0))) {
			r = err_set(err, ERR_DAMAGED, "a row of artifact is damaged");
			break;
		}
		n++;
	}
	db_reset(s);
	if (r < 0)
		return -1;
	if (n != 1)
		return INDEX_MISSING;
	*ret = id;
	return 0;
}

int index_build_ids(struct index *ix, int (*fn)(void *arg, const struct build_id *id), void *arg,
		    struct err *err)
{
	struct build_id id;
	struct db_stmt *s;
	int r;

	if (index_prepare(ix, "SELECT build_id FROM artifact UNION SELECT alias FROM alias ORDER BY 1", &s,
			  err) < 0)
		return -1;
	while ((r = db_step(s, err)) == DB_ROW) {
		r = build_id_set(&id, db_bytes(s, 0))
			    ? fn(arg, &id)
			    : err_set(err, ERR_DAMAGED, "a row of artifact or alias is damaged");
		if (r)
			break;
	}
	db_reset(s);
	return r;
}

static int one_file(struct db_stmt *s, struct arena *a, struct index_file *ret, struct err *err)
{
	int r = db_step(s, err);

	if (r == DB_ROW)
		r = index_row_file(s, a, ret, err);
	else if (r == DB_DONE)
		r = INDEX_MISSING;
	db_reset(s);
	return r;
}

int index_file_by_path(struct index *ix, struct str path, struct arena *a, struct index_file *ret,
		       struct err *err)
{
	struct str dir, name;
	struct db_stmt *s;

	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS " FROM " INDEX_FILE_TABLES
			  " WHERE d.path = ? AND f.name = ?",
			  &s, err) < 0)
		return -1;
	index_path_split(path, &dir, &name);
	db_bind_bytes(s, 1, bytes_of(dir.p, dir.size));
	db_bind_bytes(s, 2, bytes_of(name.p, name.size));
	return one_file(s, a, ret, err);
}

int index_file_by_id(struct index *ix, int64_t id, struct arena *a, struct index_file *ret, struct err *err)
{
	struct db_stmt *s;

	if (index_prepare(ix, "SELECT " INDEX_FILE_COLUMNS " FROM " INDEX_FILE_TABLES " WHERE f.id = ?", &s,
			  err) < 0)
		return -1;
	db_bind_i64(s, 1, id);
	return one_file(s, a, ret, err);
}

int index_artifacts_of(struct index *ix, int64_t file, struct arena *a, struct index_artifact **ret,
		       size_t *ret_n, struct err *err)
{
	struct index_artifact *list = NULL;
	struct db_stmt *s;
	size_t n = 0, room = 0;
	int r;

	if (index_prepare(
		    ix,
		    "SELECT build_id, member, flags FROM artifact WHERE file = ? ORDER BY member, build_id",
		    &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, file);
	while ((r = db_step(s, err)) == DB_ROW) {
		VEC_GROW(list, n, room);
		r = index_row_artifact(s, 0, &list[n], err);
		if (r < 0)
			break;
		n++;
	}
	db_reset(s);
	if (r == 0) {
		*ret = ARENA_NEW_N(a, struct index_artifact, n + 1);
		if (n)
			memcpy(*ret, list, n * sizeof(*list));
		*ret_n = n;
	}
	free(list);
	return r;
}

int index_map(struct index *ix, int64_t file, struct pkg_map **ret, struct err *err)
{
	struct db_stmt *s;
	int r;

	if (index_prepare(ix, "SELECT blob FROM map WHERE file = ?", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, file);
	r = db_step(s, err);
	if (r == DB_ROW) {
		r = pkg_map_decode(db_bytes(s, 0), ret, err);
		if (r < 0)
			err_in(err, "package map of file %lld", (long long)file);
	} else if (r == DB_DONE) {
		r = INDEX_MISSING;
	}
	db_reset(s);
	return r;
}

int index_find_dir(struct index *ix, uint64_t hash, struct arena *a, struct index_file **ret, size_t *ret_n,
		   struct err *err)
{
	struct db_stmt *s;

	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS
			  " FROM package_dir p JOIN file f ON f.id = p.file JOIN dir d ON d.id = f.dir"
			  " WHERE p.hash = ?1 ORDER BY f.mtime DESC, f.id DESC LIMIT ?2",
			  &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, (int32_t)(uint32_t)hash);
	db_bind_i64(s, 2, MAX_HITS);
	return index_row_files(s, MAX_HITS, a, ret, ret_n, err);
}

int index_list(struct index *ix, const struct index_range *range, struct arena *a, struct index_file **ret,
	       size_t *ret_n, struct err *err)
{
	struct db_stmt *s;

	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS " FROM " INDEX_FILE_TABLES
			  " WHERE f.id > ?1 AND (?2 = 0 OR f.kind = ?2)"
			  " AND (?3 = 0 OR f.state = ?3) ORDER BY f.id LIMIT ?4",
			  &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, range->after);
	db_bind_i64(s, 2, range->kind);
	db_bind_i64(s, 3, range->state);
	db_bind_i64(s, 4, (int64_t)MIN(range->max, (size_t)INT64_MAX));
	return index_row_files(s, range->max, a, ret, ret_n, err);
}

int index_first_damaged(struct index *ix, int64_t after, int64_t *ret, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct db_stmt *s;
	int r;

	arena_init(&a);
	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS " FROM " INDEX_FILE_TABLES
			  " WHERE f.id > ?1 ORDER BY f.id",
			  &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, after);
	while ((r = db_step(s, err)) == DB_ROW) {
		arena_reset(&a);
		if (index_row_file(s, &a, &f, NULL) < 0)
			break;
	}
	if (r == DB_ROW)
		*ret = db_i64(s, 0);
	db_reset(s);
	return r < 0 ? -1 : r == DB_ROW ? 0 : INDEX_MISSING;
}

int index_each(struct index *ix, enum index_kind kind, enum index_state state, index_each_fn *fn, void *arg,
	       struct err *err)
{
	int64_t after = 0;
	size_t n;

	do {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;

		arena_init(&a);
		if (index_list(ix, &(struct index_range){ kind, state, after, EACH_PAGE }, &a, &files, &n,
			       err) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			int r = fn(arg, &files[i], err);

			if (r)
				return r;
			after = files[i].id;
		}
	} while (n);
	return 0;
}

int index_each_below(struct index *ix, struct str path, index_each_fn *fn, void *arg, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(buf_done) struct buf from = { 0 };
	AUTO(buf_done) struct buf to = { 0 };
	struct index_file f;
	struct db_stmt *s;
	int r;

	arena_init(&a);
	r = index_file_by_path(ix, path, &a, &f, err);
	if (r < 0)
		return -1;
	if (r == 0 && (r = fn(arg, &f, err)) != 0)
		return r;
	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS " FROM " INDEX_FILE_TABLES
			  " WHERE d.path >= ?1 AND d.path < ?2",
			  &s, err) < 0)
		return -1;
	/* All folders whose paths begin with this one and a slash. */
	buf_add_str(&from, path);
	buf_add_char(&from, '/');
	buf_add_str(&to, path);
	buf_add_char(&to, '/' + 1);
	db_bind_bytes(s, 1, buf_bytes(&from));
	db_bind_bytes(s, 2, buf_bytes(&to));
	while ((r = db_step(s, err)) == DB_ROW) {
		arena_reset(&a);
		r = index_row_file(s, &a, &f, err);
		if (r == 0)
			r = fn(arg, &f, err);
		if (r)
			break;
	}
	db_reset(s);
	return r;
}

int index_due(struct index *ix, int64_t now_s, size_t max, struct arena *a, struct index_file **ret,
	      size_t *ret_n, struct err *err)
{
	struct db_stmt *s;

	/* The newest first: they are requested most. As index_is_retried(). */
	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS " FROM " INDEX_FILE_TABLES
			  " WHERE f.kind = 2 AND f.state <> 2 AND (f.state <> 3 OR (f.next_try > 0 AND "
			  "(f.next_try <= ?1 OR f.scanned > ?3))) ORDER BY f.mtime DESC, f.id DESC LIMIT ?2",
			  &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, now_s);
	db_bind_i64(s, 2, (int64_t)MIN(max, (size_t)INT64_MAX));
	db_bind_i64(s, 3, now_s + INDEX_SET_BACK_S);
	return index_row_files(s, max, a, ret, ret_n, err);
}

/* The number of packages that wait, counted up to @max. */
static int count_waiting(struct index *ix, size_t max, int64_t *ret, struct err *err)
{
	struct db_stmt *s;

	if (index_prepare(ix, "SELECT COUNT(*) FROM (SELECT 1 FROM file WHERE " INDEX_IS_WAITING " LIMIT ?1)",
			  &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, (int64_t)max);
	return db_step_i64(s, ret, err) < 0 ? -1 : 0;
}

int index_unlisted(struct index *ix, size_t max, struct arena *a, struct index_file **ret, size_t *ret_n,
		   bool *ret_all, struct err *err)
{
	int64_t n_waiting = 0;
	struct db_stmt *s;

	if (count_waiting(ix, max + 1, &n_waiting, err) < 0)
		return -1;
	*ret_all = n_waiting <= (int64_t)max;
	*ret_n = 0;
	if (!n_waiting)
		return 0;
	/* Bounded before the artifacts are looked up: a million packages may wait. */
	if (index_prepare(ix,
			  "SELECT " INDEX_FILE_COLUMNS " FROM (SELECT * FROM file WHERE " INDEX_IS_WAITING
			  " ORDER BY mtime DESC LIMIT ?1) f JOIN dir d ON d.id = f.dir"
			  " WHERE NOT EXISTS (SELECT 1 FROM artifact WHERE file = f.id)",
			  &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, (int64_t)max);
	return index_row_files(s, max, a, ret, ret_n, err);
}
