/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata query: the build IDs of a path, or the paths of a build ID.
 *
 * Results have an order that does not depend on time: plain files by folder and id, then packages by id,
 * within a file by position. A cursor is a place in this order, "phase-folder-file-skip": @skip results of
 * that file are skipped, so pages need no state between them.
 *
 * Plain files and exact paths are looked up; a pattern over packages reads their maps one after the other,
 * hence the deadline.
 */
#include "index/internal.h"

#include <assert.h>
#include <stdlib.h>

#define PACKAGES_AT_ONCE 64
/* Comparisons of bytes, at most, between two looks at the clock: about a millisecond. */
#define MATCHES_PER_LOOK (UINT64_C(1) << 20)

enum { PAGE_FULL = 1 << 20 }; /* larger than the outcomes of callbacks */

enum phase { PHASE_PLAIN = 1, PHASE_PACKAGES = 2 };

struct place {
	uint64_t phase, dir, file, skip;
};

struct query {
	struct index *ix;
	struct place from; /* the place of the cursor */
	struct place at;   /* skip: results of this file that were given or skipped */
	const struct index_metadata_query *asked;
	size_t n_told;
	uint64_t spent; /* comparisons since the last look at the clock */
	bool late;
	bool complete;
};

/* ---- the cursor ---- */

static int place_parse(struct str cursor, struct place *ret, struct err *err)
{
	struct place p = { PHASE_PLAIN, 0, 0, 0 };
	struct str rest = cursor, phase, dir, file;

	if (cursor.size) {
		phase = str_cut(&rest, '-');
		dir = str_cut(&rest, '-');
		file = str_cut(&rest, '-');
		if (!str_to_u64(phase, &p.phase) || !str_to_u64(dir, &p.dir) || !str_to_u64(file, &p.file) ||
		    !str_to_u64(rest, &p.skip) || p.phase < PHASE_PLAIN || p.phase > PHASE_PACKAGES ||
		    p.dir > INT64_MAX || p.file > INT64_MAX)
			return err_set(err, ERR_INVALID, "metadata: not a cursor of this server");
	}
	*ret = p;
	return 0;
}

static void place_print(const struct place *p, struct buf *ret)
{
	buf_printf(ret, "%llu-%llu-%llu-%llu", (unsigned long long)p->phase, (unsigned long long)p->dir,
		   (unsigned long long)p->file, (unsigned long long)p->skip);
}

/* ---- giving results ---- */

static bool query_is_late(struct query *q)
{
	q->late = q->late || (q->asked->deadline_mono_ms && clock_mono_ms() > q->asked->deadline_mono_ms);
	return q->late;
}

/* A path is about to be compared with a pattern: a star may compare the rest of the pattern with each byte of the path. */
static bool query_spend(struct query *q, struct str pattern, struct str path)
{
	q->spent += 1024 + (uint64_t)pattern.size * path.size;
	if (q->spent < MATCHES_PER_LOOK)
		return false;
	q->spent = 0;
	return query_is_late(q);
}

/* Go on to this file. PAGE_FULL if the deadline has passed. */
static int query_enter(struct query *q, enum phase phase, int64_t dir, int64_t file)
{
	q->at = (struct place){ phase, (uint64_t)dir, (uint64_t)file, 0 };
	return query_is_late(q) ? PAGE_FULL : 0;
}

static bool query_is_at_cursor(const struct query *q)
{
	return q->at.phase == q->from.phase && q->at.dir == q->from.dir && q->at.file == q->from.file;
}

static int query_give_one(struct query *q, const struct index_metadata *m)
{
	if (query_is_at_cursor(q) && q->at.skip < q->from.skip) {
		q->at.skip++;
		return 0;
	}
	if (q->n_told == q->asked->max)
		return PAGE_FULL;
	q->n_told++;
	q->at.skip++;
	return q->asked->fn(q->asked->arg, m);
}

/* Aliases are an addition to a result: a failure leaves them out. */
static void query_add_aliases(struct query *q, struct index_metadata *m)
{
	struct build_id alias;
	struct db_stmt *s;

	if (index_prepare(q->ix, "SELECT alias FROM alias WHERE file = ?1 AND build_id = ?2 LIMIT 2", &s,
			  NULL) < 0)
		return;
	db_bind_i64(s, 1, (int64_t)q->at.file);
	db_bind_bytes(s, 2, build_id_bytes(&m->build_id));
	while (db_step(s, NULL) == DB_ROW) {
		if (!build_id_set(&alias, db_bytes(s, 0)))
			continue;
		if (build_id_kind_of(&alias) == BUILD_ID_GO)
			m->go = alias;
		else
			m->hash = alias;
	}
	db_reset(s);
}

static int query_give(struct query *q, const struct build_id *id, uint32_t flags, struct str file,
		      struct str archive)
{
	struct index_metadata m = { .build_id = *id, .file = file, .archive = archive };
	int r = 0;

	query_add_aliases(q, &m);
	if (flags & ELF_IS_EXECUTABLE)
		r = query_give_one(q, &m);
	if (r == 0 && (flags & ELF_IS_DEBUG)) {
		m.debuginfo = true;
		r = query_give_one(q, &m);
	}
	return r;
}

static int query_give_entry(struct query *q, const struct pkg_entry *e, struct str archive)
{
	AUTO(buf_done) struct buf path = { 0 };

	if (!e->is_elf || !e->elf.build_id.size)
		return 0;
	buf_add_char(&path, '/');
	buf_add_str(&path, e->path);
	return query_give(q, &e->elf.build_id, e->elf.flags, buf_str(&path), archive);
}

static int query_give_plain(struct query *q, int64_t file, struct str path, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_artifact *list;
	size_t n;
	int r;

	arena_init(&a);
	r = index_artifacts_of(q->ix, file, &a, &list, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = query_give(q, &list[i].build_id, list[i].flags, path, (struct str){ 0 });
	return r;
}

/* ---- maps ---- */

/* The entries whose path starts with @prefix: [*ret_first, *ret_end). */
static void entries_with_prefix(const struct pkg_map *m, struct str prefix, uint32_t *ret_first,
				uint32_t *ret_end)
{
	uint32_t low = (uint32_t)SEARCH(0, m->n_entries, i, str_cmp(m->entries[i].path, prefix) < 0);
	*ret_first = low;
	while (low < m->n_entries && str_starts(m->entries[low].path, prefix))
		low++;
	*ret_end = low;
}

/*
 * @pattern without its leading slash, or an exact path if @exact. An unreadable map is skipped, so that one
 * damaged package does not hide all others; the answer is then incomplete.
 */
static int query_give_package(struct query *q, const struct index_file *f, struct str pattern, bool exact,
			      struct err *err)
{
	struct pkg_map *m;
	uint32_t first, end;
	int r = query_enter(q, PHASE_PACKAGES, 0, f->id);

	if (r)
		return r;
	r = index_map(q->ix, f->id, &m, err);
	if (r < 0 && err->kind == ERR_CANCELLED)
		return r;
	if (r) {
		q->complete = q->complete && r == INDEX_MISSING;
		return 0;
	}
	entries_with_prefix(m, exact ? pattern : index_glob_prefix(pattern), &first, &end);
	for (uint32_t i = first; r == 0 && i < end; i++) {
		const struct pkg_entry *e = &m->entries[i];

		if (query_spend(q, pattern, e->path))
			r = PAGE_FULL;
		else if (exact ? str_eq(e->path, pattern) : index_glob_match(pattern, e->path))
			r = query_give_entry(q, e, f->path);
	}
	pkg_map_free(m);
	return r;
}

/* ---- an exact path ---- */

/* Packages from the cursor on. */
static int packages_with_dir(struct query *q, struct str dir, struct arena *a, int64_t **ret, size_t *ret_n,
			     struct err *err)
{
	int64_t from = q->from.phase == PHASE_PACKAGES ? (int64_t)q->from.file : 0;
	int64_t *list = NULL;
	size_t n = 0, room = 0;
	struct db_stmt *s;
	int r;

	if (db_prepare(q->ix->db, "SELECT file FROM package_dir WHERE hash = ? AND file >= ? ORDER BY file",
		       &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, (int32_t)(uint32_t)index_dir_hash(dir));
	db_bind_i64(s, 2, from);
	while ((r = db_step(s, err)) == DB_ROW) {
		VEC_PUSH(list, n, room) = db_i64(s, 0);
	}
	db_reset(s);
	*ret = ARENA_NEW_N(a, int64_t, n + 1);
	if (n)
		memcpy(*ret, list, n * sizeof(*list));
	*ret_n = n;
	free(list);
	return r;
}

static int exact_in_packages(struct query *q, struct str path, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	int64_t *ids;
	size_t n;
	int r;

	arena_init(&a);
	path = (struct str){ path.p + 1, path.size - 1 };
	r = packages_with_dir(q, path_dirname(path), &a, &ids, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct index_file f;

		r = index_file_by_id(q->ix, ids[i], &a, &f, err);
		if (r == 0)
			r = query_give_package(q, &f, path, true, err);
		else if (r == INDEX_MISSING)
			r = 0;
	}
	return r;
}

static int query_by_path(struct query *q, struct str value, struct err *err)
{
	AUTO(mem_freep) char *canonical = mem_alloc(value.size + 2);
	AUTO(arena_done) struct arena a = { 0 };
	struct str path = { canonical, path_canonical(value, canonical) };
	struct index_file f;
	int r = INDEX_MISSING;

	arena_init(&a);
	if (!path.size || path.p[0] != '/')
		return 0;
	if (q->from.phase == PHASE_PLAIN)
		r = index_file_by_path(q->ix, path, &a, &f, err);
	if (r == 0 && f.kind == INDEX_PLAIN) {
		r = query_enter(q, PHASE_PLAIN, 0, f.id);
		if (r == 0)
			r = query_give_plain(q, f.id, path, err);
	} else if (r == INDEX_MISSING) {
		r = 0;
	}
	return r ? r : exact_in_packages(q, path, err);
}

/* ---- a pattern ---- */

struct dir_row {
	int64_t id;
	struct str path;
};

struct dir_rows {
	struct dir_row *list;
	size_t n, room;
};

static void dir_rows_done(struct dir_rows *d)
{
	free(d->list);
}

/* All rows are collected before results are given, so that no statement stays open meanwhile. */
static int glob_folders(struct query *q, struct str pattern, struct arena *a, struct dir_rows *ret,
			struct err *err)
{
	int64_t from = q->from.phase == PHASE_PLAIN ? (int64_t)q->from.dir : INT64_MAX;
	struct db_stmt *s;
	int r;

	if (db_prepare(q->ix->db, "SELECT id, path FROM dir WHERE id >= ? ORDER BY id", &s, err) < 0)
		return -1;
	db_bind_i64(s, 1, from);
	while ((r = db_step(s, err)) == DB_ROW) {
		struct bytes p = db_bytes(s, 1);
		struct str path = { (const char *)p.p, p.size };

		if (!index_glob_match(pattern, path))
			continue;
		VEC_PUSH(ret->list, ret->n, ret->room) = (struct dir_row){ db_i64(s, 0), arena_str(a, path) };
	}
	db_reset(s);
	return r;
}

static int glob_in_folder(struct query *q, const struct dir_row *dir, struct str pattern, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(dir_rows_done) struct dir_rows files = { 0 };
	bool again = q->from.phase == PHASE_PLAIN && (int64_t)q->from.dir == dir->id;
	struct db_stmt *s;
	int r;

	arena_init(&a);
	if (db_prepare(q->ix->db,
		       "SELECT id, name FROM file WHERE dir = ? AND kind = 1 AND id >= ? ORDER BY id", &s,
		       err) < 0)
		return -1;
	db_bind_i64(s, 1, dir->id);
	db_bind_i64(s, 2, again ? (int64_t)q->from.file : 0);
	while ((r = db_step(s, err)) == DB_ROW) {
		struct bytes p = db_bytes(s, 1);
		struct str name = { (const char *)p.p, p.size };

		if (!index_glob_match(pattern, name))
			continue;
		VEC_PUSH(files.list, files.n, files.room) = (struct dir_row){
			db_i64(s, 0),
			str_of(arena_printf(&a, STR_FMT STR_FMT, STR_ARG(dir->path), STR_ARG(name))),
		};
	}
	db_reset(s);
	for (size_t i = 0; r == 0 && i < files.n; i++) {
		r = query_enter(q, PHASE_PLAIN, dir->id, files.list[i].id);
		if (r == 0)
			r = query_give_plain(q, files.list[i].id, files.list[i].path, err);
	}
	return r;
}

static int glob_in_folders(struct query *q, struct str pattern, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	AUTO(dir_rows_done) struct dir_rows dirs = { 0 };
	struct str dir_pattern, name_pattern;
	int r;

	arena_init(&a);
	index_path_split(pattern, &dir_pattern, &name_pattern);
	r = glob_folders(q, dir_pattern, &a, &dirs, err);
	for (size_t i = 0; r == 0 && i < dirs.n; i++)
		r = glob_in_folder(q, &dirs.list[i], name_pattern, err);
	return r;
}

static int glob_in_packages(struct query *q, struct str pattern, struct err *err)
{
	int64_t after = q->from.phase == PHASE_PACKAGES ? (int64_t)q->from.file - 1 : 0;
	int r = 0;

	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *list;
		size_t n;

		arena_init(&a);
		r = index_list(q->ix,
			       &(struct index_range){ INDEX_PACKAGE, INDEX_SCANNED, after, PACKAGES_AT_ONCE },
			       &a, &list, &n, err);
		for (size_t i = 0; r == 0 && i < n; i++) {
			r = query_give_package(q, &list[i], pattern, false, err);
			after = list[i].id;
		}
		if (r || n < PACKAGES_AT_ONCE)
			return r;
	}
}

static int query_by_glob(struct query *q, struct str value, struct err *err)
{
	int r;

	if (value.size > INDEX_GLOB_MAX)
		return err_set(err, ERR_INVALID, "metadata: a pattern of more than %d bytes", INDEX_GLOB_MAX);
	/* All paths are absolute, and no wildcard matches a slash. */
	if (!value.size || value.p[0] != '/')
		return 0;
	q->at = q->from;
	r = q->from.phase == PHASE_PLAIN ? glob_in_folders(q, value, err) : 0;
	return r ? r : glob_in_packages(q, (struct str){ value.p + 1, value.size - 1 }, err);
}

/* ---- a build ID ---- */

static int query_give_hit(struct query *q, const struct index_hit *h, struct err *err)
{
	const struct pkg_entry *e;
	struct pkg_map *m;
	int r;

	if (h->file.kind == INDEX_PLAIN)
		return query_give(q, &h->artifact.build_id, h->artifact.flags, h->file.path,
				  (struct str){ 0 });
	/* Known by the header pass only, or by an unreadable map: it exists, under an unknown name. */
	r = h->artifact.member == INDEX_NO_MEMBER ? INDEX_MISSING : index_map(q->ix, h->file.id, &m, err);
	if (r < 0 && err->kind == ERR_CANCELLED)
		return r;
	if (r) {
		q->complete = false;
		return 0;
	}
	e = pkg_map_by_number(m, h->artifact.member);
	if (e)
		r = query_give_entry(q, e, h->file.path);
	pkg_map_free(m);
	return r;
}

static int hit_compare(const void *a, const void *b)
{
	const struct index_hit *x = a, *y = b;

	if (x->file.id != y->file.id)
		return x->file.id < y->file.id ? -1 : 1;
	return (x->artifact.member > y->artifact.member) - (x->artifact.member < y->artifact.member);
}

static int query_by_build_id(struct query *q, struct str value, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_hit *hits;
	struct build_id id;
	size_t n;
	int r;

	arena_init(&a);
	if (!build_id_parse(&id, value))
		return err_set(err, ERR_INVALID, "metadata: the value is not a build ID");
	r = index_find(q->ix, &id, &a, &hits, &n, err);
	if (r)
		return r == INDEX_MISSING ? 0 : r;
	/* In the order of the cursor, not by time. */
	qsort(hits, n, sizeof(*hits), hit_compare);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if ((uint64_t)hits[i].file.id < q->from.file)
			continue;
		if (i == 0 || hits[i].file.id != hits[i - 1].file.id)
			r = query_enter(q, PHASE_PLAIN, 0, hits[i].file.id);
		if (r == 0)
			r = query_give_hit(q, &hits[i], err);
	}
	return r;
}

/* ---- */

static int packages_are_pending(struct index *ix, bool *ret, struct err *err)
{
	struct db_stmt *s;
	int r;

	if (index_prepare(ix, "SELECT 1 FROM file WHERE " INDEX_IS_WAITING " LIMIT 1", &s, err) < 0)
		return -1;
	r = db_step(s, err);
	if (r < 0)
		return -1;
	*ret = r == DB_ROW;
	db_reset(s);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct query *q, struct str value, struct err *err);
	bool by_name; /* the members of packages must be known */
} keys[] = {
	{ "file", query_by_path, true },
	{ "glob", query_by_glob, true },
	{ "buildid", query_by_build_id, false },
};

int index_metadata(struct index *ix, const struct index_metadata_query *asked,
		   struct index_metadata_page *ret, struct err *err)
{
	struct query q = { .ix = ix, .asked = asked, .complete = true };
	struct err why = { 0 };
	bool wait = false;
	size_t k = 0;
	int r;

	assert(asked->max > 0);
	while (k < ARRAY_SIZE(keys) && !str_eq(asked->key, str_of(keys[k].name)))
		k++;
	if (k == ARRAY_SIZE(keys))
		return err_set(err, ERR_INVALID, "metadata: the key is none of file, glob, buildid");
	if (place_parse(asked->cursor, &q.from, err) < 0)
		return -1;
	q.at = q.from;

	db_set_deadline(ix->db, asked->deadline_mono_ms);
	r = keys[k].by_name ? packages_are_pending(ix, &wait, &why) : 0;
	if (r == 0)
		r = keys[k].run(&q, asked->value, &why);
	db_set_deadline(ix->db, 0);

	if (r < 0 && why.kind == ERR_CANCELLED) {
		q.late = true;
		r = PAGE_FULL;
	}
	if (r && r != PAGE_FULL) {
		/* The callback reports its own failures. */
		if (r < 0 && why.kind && err)
			*err = why;
		return r;
	}
	ret->next.size = 0;
	if (r == PAGE_FULL) {
		if (query_is_at_cursor(&q))
			q.at.skip = MAX(q.at.skip, q.from.skip);
		place_print(&q.at, &ret->next);
	}
	ret->complete = q.complete && !q.late && !wait;
	return 0;
}
