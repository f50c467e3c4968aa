/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes. Each is made within the caller's transaction or, without one, in a transaction of its own. If one
 * fails half-way, the transaction can only be rolled back.
 */
#include "index/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

/* Begin a transaction unless the caller has one; change_end() ends it if it was begun here. */
static int change_begin(struct index *ix, bool *ret_own, struct err *err)
{
	*ret_own = !ix->open;
	return ix->open ? 0 : index_begin(ix, err);
}

static int change_end(struct index *ix, bool own, int r, struct err *err)
{
	if (r < 0)
		ix->broken = true;
	if (!own)
		return r;
	if (r) {
		index_rollback(ix);
		return r;
	}
	return index_commit(ix, err);
}

/* Run a statement without results. */
static int change_run(struct db_stmt *s, struct err *err)
{
	return db_step(s, err) < 0 ? -1 : 0;
}

/* Delete everything that depends on the content of the file. */
static int content_forget(struct index *ix, int64_t file, struct err *err)
{
	if (db_exec_i64(ix->db, "DELETE FROM artifact WHERE file = ?", file, err) < 0 ||
	    db_exec_i64(ix->db, "DELETE FROM alias WHERE file = ?", file, err) < 0 ||
	    db_exec_i64(ix->db, "DELETE FROM package_dir WHERE file = ?", file, err) < 0 ||
	    db_exec_i64(ix->db, "DELETE FROM map WHERE file = ?", file, err) < 0)
		return -1;
	return 0;
}

static int folder_id(struct index *ix, struct str dir, int64_t *ret, struct err *err)
{
	struct db_stmt *s;
	int r;

	if (db_prepare(ix->db, "SELECT id FROM dir WHERE path = ?", &s, err) < 0)
		return -1;
	db_bind_bytes(s, 1, bytes_of(dir.p, dir.size));
	r = db_step_i64(s, ret, err);
	if (r == DB_ROW)
		return 0;
	if (r < 0 || db_prepare(ix->db, "INSERT INTO dir (path) VALUES (?)", &s, err) < 0)
		return -1;
	db_bind_bytes(s, 1, bytes_of(dir.p, dir.size));
	if (change_run(s, err) < 0)
		return -1;
	*ret = db_last_id(ix->db);
	return 0;
}

/* Find the file at this path. INDEX_MISSING. */
static int index_file_find(struct index *ix, int64_t dir, struct str name, int64_t *ret_id,
			   enum index_state *ret_state, struct err *err)
{
	struct db_stmt *s;
	int r;

	if (db_prepare(ix->db, "SELECT id, state FROM file WHERE dir = ? AND name = ?", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, dir);
	db_bind_bytes(s, 2, bytes_of(name.p, name.size));
	r = db_step(s, err);
	if (r < 0)
		return -1;
	if (r == DB_DONE)
		return INDEX_MISSING;
	*ret_id = db_i64(s, 0);
	*ret_state = (enum index_state)db_i64(s, 1);
	db_reset(s);
	return 0;
}

/*
 * Random, not a counter: files named by it (resume points, cached bytes) may outlive the database, and must
 * not be taken for those of the next one.
 */
static uint64_t new_generation(const struct index_file *f)
{
	struct {
		uint64_t random, size, inode;
		int64_t mtime, now;
	} seed = { .size = f->size, .inode = f->inode, .mtime = f->mtime_ns, .now = clock_mono_ns() };

	if (getrandom(&seed.random, sizeof(seed.random), GRND_NONBLOCK) != sizeof(seed.random))
		seed.random = hash64(f->path.p, f->path.size, (uint64_t)clock_wall_ms());
	return hash64(&seed, sizeof(seed), 0);
}

static const char insert_file[] = "INSERT INTO file (dir, name, kind, state, size, mtime, inode, dev, "
				  "reason, reason_kind, tries, next_try, scanned,"
				  " inner, inner_size, points_size, map_size, generation) VALUES (?1, ?2, "
				  "?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,"
				  " ?13, ?14, ?15, ?16, 0, ?17)";
static const char replace_file[] = "UPDATE file SET dir = ?1, name = ?2, kind = ?3, state = ?4, size = ?5, "
				   "mtime = ?6, inode = ?7, dev = ?8, reason = ?9,"
				   " reason_kind = ?10, tries = ?11, next_try = ?12, scanned = ?13, inner = "
				   "?14, inner_size = ?15, points_size = ?16,"
				   " map_size = 0, generation = ?17 WHERE id = ?18";

static int file_write(struct index *ix, int64_t id, int64_t dir, struct str name, const struct index_file *f,
		      struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(ix->db, id ? replace_file : insert_file, &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, dir);
	db_bind_bytes(s, 2, bytes_of(name.p, name.size));
	db_bind_i64(s, 3, f->kind);
	db_bind_i64(s, 4, f->state);
	db_bind_i64(s, 5, (int64_t)f->size);
	db_bind_i64(s, 6, f->mtime_ns);
	db_bind_i64(s, 7, (int64_t)f->inode);
	db_bind_i64(s, 8, (int64_t)f->dev);
	db_bind_bytes(s, 9, bytes_of(f->reason.p, f->reason.size));
	db_bind_i64(s, 10, f->reason_kind);
	db_bind_i64(s, 11, f->tries);
	db_bind_i64(s, 12, f->next_try_s);
	db_bind_i64(s, 13, f->scanned_s);
	db_bind_i64(s, 14, f->inner);
	db_bind_i64(s, 15, (int64_t)f->inner_size);
	db_bind_i64(s, 16, (int64_t)f->points_size);
	db_bind_i64(s, 17, (int64_t)f->generation);
	if (id)
		db_bind_i64(s, 18, id);
	return change_run(s, err);
}

static int file_put(struct index *ix, struct index_file *f, struct err *err)
{
	struct index_file row = *f;
	enum index_state state;
	struct str dir, name;
	int64_t dir_row, id = 0;
	int r;

	assert(f->kind && f->state);
	index_path_split(f->path, &dir, &name);
	if (folder_id(ix, dir, &dir_row, err) < 0)
		return -1;
	r = index_file_find(ix, dir_row, name, &id, &state, err);
	if (r < 0)
		return -1;
	if (r == 0) {
		if (content_forget(ix, id, err) < 0)
			return -1;
		if (state != INDEX_QUEUED)
			ix->n_gone++;
	}
	row.generation = new_generation(f);
	if (file_write(ix, id, dir_row, name, &row, err) < 0)
		return -1;
	f->id = id ? id : db_last_id(ix->db);
	f->generation = row.generation;
	return 0;
}

int index_put(struct index *ix, struct index_file *f, struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, file_put(ix, f, err), err);
}

static int artifact_compare(const void *a, const void *b)
{
	const struct index_artifact *x = *(const struct index_artifact *const *)a;
	const struct index_artifact *y = *(const struct index_artifact *const *)b;
	struct bytes bx = build_id_bytes(&x->build_id), by = build_id_bytes(&y->build_id);

	return str_cmp((struct str){ (const char *)bx.p, bx.size },
		       (struct str){ (const char *)by.p, by.size });
}

static int add_artifacts(struct index *ix, int64_t file, const struct index_artifact *list, size_t n,
			 struct err *err)
{
	AUTO(mem_freep) const struct index_artifact **sorted = NEW_N(const struct index_artifact *, n + 1);
	struct db_stmt *s;

	/* In the order of the table: thousands of random places in a large table would each touch another
	 * page. */
	for (size_t i = 0; i < n; i++)
		sorted[i] = &list[i];
	qsort(sorted, n, sizeof(*sorted), artifact_compare);
	for (size_t i = 0; i < n; i++) {
		assert(sorted[i]->build_id.size);
		if (db_prepare(ix->db,
			       "INSERT OR REPLACE INTO artifact (build_id, file, member, flags) VALUES (?, "
			       "?, ?, ?)",
			       &s, err) < 0)
			return -1;
		db_bind_bytes(s, 1, build_id_bytes(&sorted[i]->build_id));
		db_bind_i64(s, 2, file);
		db_bind_i64(s, 3, index_member_value(sorted[i]->member));
		db_bind_i64(s, 4, sorted[i]->flags);
		if (change_run(s, err) < 0)
			return -1;
		/* Another file may have been found by it, as its alias. */
		ix->n_gone += build_id_may_be_alias(&sorted[i]->build_id);
	}
	return 0;
}

int index_add_artifacts(struct index *ix, int64_t file, const struct index_artifact *list, size_t n,
			struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, add_artifacts(ix, file, list, n, err), err);
}

static int add_aliases(struct index *ix, int64_t file, const struct index_alias *list, size_t n,
		       struct err *err)
{
	struct db_stmt *s;

	for (size_t i = 0; i < n; i++) {
		assert(list[i].alias.size && list[i].build_id.size);
		if (db_prepare(ix->db, "INSERT OR IGNORE INTO alias (alias, file, build_id) VALUES (?, ?, ?)",
			       &s, err) < 0)
			return -1;
		db_bind_bytes(s, 1, build_id_bytes(&list[i].alias));
		db_bind_i64(s, 2, file);
		db_bind_bytes(s, 3, build_id_bytes(&list[i].build_id));
		if (change_run(s, err) < 0)
			return -1;
	}
	return 0;
}

int index_add_aliases(struct index *ix, int64_t file, const struct index_alias *list, size_t n,
		      struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, add_aliases(ix, file, list, n, err), err);
}

/* Answers from the content of the file end with this change. INDEX_MISSING: there is no such file. */
static int file_retract(struct index *ix, int64_t file, struct err *err)
{
	struct db_stmt *s;
	int64_t state;
	int r;

	if (db_prepare(ix->db, "SELECT state FROM file WHERE id = ?", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, file);
	r = db_step_i64(s, &state, err);
	if (r < 0)
		return -1;
	if (r == DB_DONE)
		return INDEX_MISSING;
	/* Rows of the header pass alone are never an answer, so no cached answer becomes wrong. */
	if (state == INDEX_SCANNED)
		ix->n_gone++;
	return 0;
}

static int content_put_map(struct index *ix, int64_t file, struct bytes map, uint64_t points_size,
			   struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(ix->db, "INSERT INTO map (file, blob) VALUES (?, ?)", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, file);
	db_bind_bytes(s, 2, map);
	if (change_run(s, err) < 0 ||
	    db_prepare(ix->db,
		       "UPDATE file SET state = 2, reason = x'', reason_kind = 0, tries = "
		       "0, next_try = 0, scanned = ?,"
		       " points_size = ?, map_size = ? WHERE id = ?",
		       &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, clock_wall_s());
	db_bind_i64(s, 2, (int64_t)points_size);
	db_bind_i64(s, 3, (int64_t)map.size);
	db_bind_i64(s, 4, file);
	return change_run(s, err);
}

static int content_put_dirs(struct index *ix, int64_t file, const uint64_t *dirs, size_t n, struct err *err)
{
	struct db_stmt *s;

	for (size_t i = 0; i < n; i++) {
		if (db_prepare(ix->db, "INSERT OR IGNORE INTO package_dir (hash, file) VALUES (?, ?)", &s,
			       err) < 0)
			return -1;
		db_bind_i64(s, 1, (int32_t)(uint32_t)dirs[i]);
		db_bind_i64(s, 2, file);
		if (change_run(s, err) < 0)
			return -1;
	}
	return 0;
}

static int content_set(struct index *ix, int64_t file, const struct index_content *c, struct err *err)
{
	int r = file_retract(ix, file, err);

	if (r)
		return r;
	if (content_forget(ix, file, err) < 0 ||
	    add_artifacts(ix, file, c->artifacts, c->n_artifacts, err) < 0 ||
	    add_aliases(ix, file, c->aliases, c->n_aliases, err) < 0 ||
	    content_put_dirs(ix, file, c->dirs, c->n_dirs, err) < 0)
		return -1;
	return content_put_map(ix, file, c->map, c->points_size, err);
}

int index_set_map(struct index *ix, int64_t file, const struct index_content *c, struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, content_set(ix, file, c, err), err);
}

static int file_fail(struct index *ix, int64_t file, const struct err *why, int64_t next_try_s,
		     struct err *err)
{
	int r = file_retract(ix, file, err);
	struct db_stmt *s;

	if (r)
		return r;
	if (db_prepare(ix->db,
		       "UPDATE file SET state = 3, reason = ?, reason_kind = ?, tries = min(tries + 1, "
		       "1000000), next_try = ?,"
		       " scanned = ? WHERE id = ?",
		       &s, err) < 0)
		return -1;
	db_bind_bytes(s, 1, bytes_of(why->text, strlen(why->text)));
	db_bind_i64(s, 2, why->kind);
	db_bind_i64(s, 3, next_try_s);
	db_bind_i64(s, 4, clock_wall_s());
	db_bind_i64(s, 5, file);
	return change_run(s, err);
}

int index_fail(struct index *ix, int64_t file, const struct err *why, int64_t next_try_s, struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, file_fail(ix, file, why, next_try_s, err), err);
}

static int file_reset(struct index *ix, int64_t file, struct err *err)
{
	int r = file_retract(ix, file, err);
	struct db_stmt *s;

	if (r)
		return r;
	if (db_prepare(ix->db,
		       "UPDATE file SET state = ?, generation = generation + 1, points_size = 0 WHERE id = ?",
		       &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, INDEX_HEADER);
	db_bind_i64(s, 2, file);
	return change_run(s, err);
}

int index_reset(struct index *ix, int64_t file, struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, file_reset(ix, file, err), err);
}

static int file_touch(struct index *ix, int64_t file, int64_t mtime_ns, uint64_t inode, uint64_t dev,
		      struct err *err)
{
	struct db_stmt *s;

	if (db_prepare(ix->db, "UPDATE file SET mtime = ?, inode = ?, dev = ? WHERE id = ?", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, mtime_ns);
	db_bind_i64(s, 2, (int64_t)inode);
	db_bind_i64(s, 3, (int64_t)dev);
	db_bind_i64(s, 4, file);
	if (change_run(s, err) < 0)
		return -1;
	/* Another file may be the newest now. */
	ix->n_gone++;
	return db_changes(ix->db) ? 0 : INDEX_MISSING;
}

int index_touch(struct index *ix, int64_t file, int64_t mtime_ns, uint64_t inode, uint64_t dev,
		struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, file_touch(ix, file, mtime_ns, inode, dev, err), err);
}

static int file_delete(struct index *ix, int64_t file, struct err *err)
{
	if (content_forget(ix, file, err) < 0 ||
	    db_exec_i64(ix->db, "DELETE FROM file WHERE id = ?", file, err) < 0)
		return -1;
	if (!db_changes(ix->db))
		return INDEX_MISSING;
	ix->n_gone++;
	return 0;
}

int index_del(struct index *ix, int64_t file, struct err *err)
{
	bool own;

	if (change_begin(ix, &own, err) < 0)
		return -1;
	return change_end(ix, own, file_delete(ix, file, err), err);
}

int index_del_damaged(struct index *ix, int64_t file, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file f;
	struct err why = { 0 };

	arena_init(&a);
	if (index_file_by_id(ix, file, &a, &f, &why) >= 0)
		return 0;
	if (why.kind == ERR_DAMAGED)
		return index_del(ix, file, err);
	*err = why;
	return -1;
}
