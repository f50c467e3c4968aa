/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the database anew while the store is in use.
 *
 * Only profiles are nowhere but in the database: they are copied, each compared with its own digest, in the order of
 * their ids. New ones get higher ids, so reading on finds them; grooming, which deletes some, does nothing else meanwhile.
 * If the tree of the table is damaged, the profiles that it does not lead to are taken from the leaves of the file: the
 * index of profiles tells which of these rows are still in use. Rollups are made again.
 *
 * The last step copies the last few profiles, writes everything else from memory, and puts the new file in the place of
 * the old one. It needs a moment without a reader, so that the WAL of the old file is empty: then a crash at any time
 * leaves one file or the other, complete.
 */
#include "profilestore/remake.h"
#include "profilestore/names_internal.h"
#include "profilestore/salvage_internal.h"

#include <stdlib.h>
#include <sys/statvfs.h>
#include "base/vec.h"

#define STEP_MS      40   /* of the writer's time for one step */
#define READERS_MS   1000 /* the longest wait for readers to end */
#define PAGES_STEP   256u /* between two looks at the clock */
#define ROWS_STEP    16u  /* likewise */
#define TRY_AGAIN_MS 5000

/* Profiles of the index that were not copied yet. Series 0 - id: the index of that series could not be read. */
static const char missing_table_sql[] =
	"CREATE TABLE missing (id INTEGER PRIMARY KEY, series INTEGER NOT NULL, "
	"time_ms INTEGER NOT NULL) STRICT";

enum remake_phase {
	REMAKE_BEGIN,
	REMAKE_ROWS,  /* by the tree of the table */
	REMAKE_INDEX, /* those that the index has besides */
	REMAKE_PAGES, /* from the leaves of the file */
	REMAKE_LAST,
};

struct remake {
	const struct profilestore *s;
	char *why; /* NULL: for the digests of pages */
	char *new_path;
	enum remake_phase phase;
	struct salvage x; /* from: the store's own connection; to: the new database */
	int64_t until_ms; /* monotonic: the end of this step; 0: none */
	int64_t next_id;
	uint32_t next_series; /* the slot */
	struct db_pages pages;
	uint64_t next_page;
	struct db *unchecked;  /* NULL: none; from, if the store's own connection cannot read the schema */
	bool no_schema;        /* nothing can */
	bool index_damaged;    /* in part */
	int64_t wait_until_ms; /* monotonic: the next try to find a moment without a reader */
};

static bool step_is_over(const struct remake *m)
{
	return m->until_ms && clock_mono_ms() >= m->until_ms;
}

/* ---- the new file ---- */

static bool disk_has_room(const struct profilestore *s)
{
	struct statvfs st;

	return statvfs(s->dir, &st) != 0 ||
	       (uint64_t)st.f_bavail * st.f_frsize > db_files_size(s->path) / 8 * 9 + MIB(16);
}

/* The first page may be damaged, and yet lead to the rows. */
static int find_schema(struct profilestore *s, struct remake *m, struct err *err)
{
	static const char sql[] = "SELECT max(id) FROM profile";
	const struct db_options o = { .read_only = true, .unchecked = true };
	struct err why = { 0 };
	int64_t n;

	if (db_get_i64(s->db, "SELECT count(*) FROM sqlite_schema", &n, &why) == 0)
		return 0;
	if (why.kind != ERR_IO && store_connect(s, &o, &m->unchecked, &why) == 0 &&
	    db_get_i64(m->unchecked, sql, &n, &why) == 0)
		return 0;
	if (why.kind == ERR_IO) {
		*err = why;
		return -1;
	}
	m->no_schema = true;
	m->x.damaged = true;
	m->next_id = s->next_id;
	return 0;
}

static int begin_copy(struct profilestore *s, struct remake *m, struct err *err)
{
	db_files_remove(m->new_path);
	if (db_open(m->new_path, &store_db_options, &m->x.to, err) < 0 ||
	    db_migrate(m->x.to, profilestore_migrations, profilestore_n_migrations, err) < 0 ||
	    db_exec(m->x.to, missing_table_sql, err) < 0)
		return -1;
	m->next_id = 1;
	m->phase = REMAKE_ROWS;
	return find_schema(s, m, err);
}

/* ---- profiles ---- */

static int copy_row(struct salvage *x, struct db_stmt *st, struct err *err)
{
	struct remake *m = CONTAINER_OF(x, struct remake, x);

	if (salvage_copy_profile(x, st, err) < 0)
		return -1;
	m->next_id = db_i64(st, 0) + 1;
	return m->next_id % ROWS_STEP == 0 && step_is_over(m)
		       ? err_set(err, ERR_CANCELLED, "the step is over")
		       : 0;
}

/* 1: there may be more. */
static int copy_rows(struct remake *m, struct err *err)
{
	struct err why = { 0 };
	int r = m->no_schema ? 0 : salvage_rows_from(&m->x, SALVAGE_PROFILES_SQL, m->next_id, copy_row, &why);

	if (r < 0 && why.kind == ERR_CANCELLED)
		return 1;
	if (r < 0 && err)
		*err = why;
	return r;
}

static int note_missing_profile(struct remake *m, int64_t id, int64_t series, int64_t time_ms,
				struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(m->x.to,
		       "INSERT INTO missing SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM profile WHERE "
		       "id = ?1)",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, series);
	db_bind_i64(st, 3, time_ms);
	return db_step(st, err);
}

/* The profiles of a series, as the index has them. */
static int read_index_of(struct remake *m, uint32_t series, struct err *err)
{
	struct err why = { 0 };
	struct db_stmt *st;
	int r = m->no_schema
			? -1
			: db_prepare(m->x.from,
				     "SELECT id, time_ms FROM profile INDEXED BY profile_at WHERE series = ?",
				     &st, &why);

	if (r == 0) {
		db_bind_i64(st, 1, series);
		while ((r = db_step(st, &why)) == DB_ROW)
			if (db_i64(st, 0) < m->next_id &&
			    note_missing_profile(m, db_i64(st, 0), series, db_i64(st, 1), err) < 0) {
				db_reset(st);
				return -1;
			}
		db_reset(st);
	}
	if (r == 0)
		return 0;
	if (why.kind == ERR_IO) {
		*err = why;
		return -1;
	}
	m->x.damaged = true;
	m->index_damaged = true;
	return note_missing_profile(m, -(int64_t)series, series, 0, err);
}

static int read_index(struct profilestore *s, struct remake *m, struct err *err)
{
	for (uint32_t n = column_n(&s->series); m->next_series < n; m->next_series++) {
		const struct series *x = series_at(&s->series, m->next_series);

		if (step_is_over(m))
			return 1;
		if (x && x->saved && read_index_of(m, x->id, err) < 0)
			return -1;
	}
	return 0;
}

/* Retention deletes the oldest profiles of a series. A deleted row may still be in a free page. */
static bool is_within_series(const struct profilestore *s, const struct salvage_profile *p)
{
	const struct series *x = series_of_id(s, (uint32_t)p->series);

	return x && p->time_ms >= atomic_load(&x->first_ms) && p->time_ms <= atomic_load(&x->last_ms);
}

/* A row that looks like a profile: it is copied if the index has it, but not the tree. */
static int take_raw_row(void *arg, const struct db_raw_row *row, struct err *err)
{
	struct remake *m = arg;
	struct salvage_profile p;
	struct db_stmt *st;
	uint64_t n_lost;
	int r;

	if (!salvage_raw_profile(row, &p) || p.id >= m->next_id)
		return 0;
	if (db_prepare(m->x.to,
		       "SELECT 1 FROM missing WHERE (id = ?1 AND series = ?2 AND time_ms = ?3) OR id = -?2",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, p.id);
	db_bind_i64(st, 2, p.series);
	db_bind_i64(st, 3, p.time_ms);
	r = db_step(st, err);
	db_reset(st);
	if (r != DB_ROW || !is_within_series(m->s, &p))
		return r < 0 ? -1 : 0;
	n_lost = m->x.n_lost;
	r = salvage_put_profile(&m->x, &p, err);
	/* A damaged one stays missing. */
	if (r == 0 && m->x.n_lost == n_lost)
		r = db_exec_i64(m->x.to, "DELETE FROM missing WHERE id = ?", p.id, err);
	return r;
}

static int read_pages(struct remake *m, struct err *err)
{
	for (; m->next_page <= m->pages.n; m->next_page++) {
		if (m->next_page % PAGES_STEP == 0 && step_is_over(m)) {
			m->next_page++;
			return 1;
		}
		if (db_raw_rows(m->x.from, &m->pages, m->next_page, take_raw_row, m, err) < 0)
			return -1;
	}
	return 0;
}

/* The pages of the file, also if its header is damaged. */
static void find_pages(const struct profilestore *s, struct remake *m)
{
	db_pages_known(s->db, &m->pages);
	m->next_page = 2;
}

/* ---- the last step ---- */

/* A row may have been moved to a page that was read before; or damage was met only now. */
static int find_late(struct profilestore *s, struct remake *m, struct err *err)
{
	int64_t n = 0;

	if (!m->x.damaged)
		return 0;
	if (!m->pages.n) {
		m->next_id = s->next_id;
		if (read_index(s, m, err) < 0)
			return -1;
	}
	if (db_get_i64(m->x.to, "SELECT count(*) FROM missing", &n, err) < 0)
		return -1;
	if (n)
		find_pages(s, m);
	return n ? read_pages(m, err) : 0;
}

/*
 * What is in `missing` at the end is lost. With a part of the index damaged, the number of lost profiles is known, but not
 * which they are. @n were copied.
 */
static int count_lost(struct profilestore *s, struct remake *m, uint64_t n, struct mended *ret,
		      struct err *err)
{
	uint64_t n_before = atomic_load(&s->n_profiles);
	struct db_stmt *st;
	size_t room = 0;
	int r;

	if (db_prepare(m->x.to, "SELECT series, time_ms FROM missing WHERE id > 0", &st, err) < 0)
		return -1;
	while ((r = db_step(st, err)) == DB_ROW)
		VEC_PUSH(ret->lost, ret->n_lost, room) = (struct lost_profile){ (uint32_t)db_i64(st, 0),
										db_i64(st, 1) };
	while (m->index_damaged && n + ret->n_lost < n_before)
		VEC_PUSH(ret->lost, ret->n_lost, room) = (struct lost_profile){ 0, INT64_MIN };
	return r;
}

/* Everything that is not a profile: the writer's functions write to s->db. */
static int write_rest(struct profilestore *s, struct remake *m, struct err *err)
{
	struct db *db = s->db;
	int r;

	s->db = m->x.to;
	r = mend_write_tables(s, err);
	s->db = db;
	return r;
}

static int end_remake_copy(struct profilestore *s, struct remake *m, struct mended *ret, struct err *err)
{
	int64_t n = 0, n_samples = 0;
	int r;

	m->until_ms = 0;
	r = db_begin(m->x.to, err);
	if (r == 0)
		r = copy_rows(m, err);
	if (r == 0)
		r = find_late(s, m, err);
	if (r == 0)
		r = db_get_i64(m->x.to, "SELECT count(*) FROM profile", &n, err);
	if (r == 0)
		r = count_lost(s, m, (uint64_t)n, ret, err);
	if (r == 0)
		r = db_exec(m->x.to, "DROP TABLE missing", err);
	if (r == 0)
		r = db_get_i64(m->x.to, "SELECT ifnull(sum(n_samples), 0) FROM profile", &n_samples, err);
	if (r < 0)
		return -1;
	atomic_store(&s->n_profiles, (uint64_t)n);
	atomic_store(&s->n_samples, (uint64_t)n_samples);
	return write_rest(s, m, err) < 0 || db_commit(m->x.to, err) < 0 ? -1 : 0;
}

/* Rollups are made again. */
static void forget_rollups(struct profilestore *s)
{
	for (uint32_t i = 0, n = column_n(&s->series); i < n; i++) {
		struct series *x = series_at(&s->series, i);

		if (!x)
			continue;
		atomic_store(&x->rolled_ms, INT64_MIN);
		series_groom_from(x, atomic_load(&x->first_ms));
	}
}

static void report_remake(struct profilestore *s, const struct remake *m, const struct mended *lost,
			  const char *aside)
{
	AUTO(mem_freep) char *text = NULL;

	if (!m->why) {
		store_notice(s, LOG_INFO, "the pages of the database have digests now");
		return;
	}
	text = mem_printf(
		"the database was made anew in use, since %.300s: %llu profiles are kept, %llu are lost; the "
		"damaged database is kept as %s",
		m->why, (unsigned long long)m->x.n_profiles, (unsigned long long)lost->n_lost, aside);
	salvage_note_reason(aside, text);
	store_notice(s, LOG_ERROR, "%s; check the disk", text);
}

/* In memory as it was, if the new file does not take over. */
struct kept {
	uint64_t n_profiles, n_samples;
	uint32_t saved[SEGMENT_N_KINDS];
	size_t n_reused;
};

static int replace_file(struct profilestore *s, struct remake *m, const char *aside, struct err *err)
{
	/* Closing the copy must not be what writes it: it would not report a full disk. */
	if (db_wal_truncate(m->x.to, 0, err) != 0)
		return err && err->kind ? -1 : err_set(err, ERR_IO, "the copy is not written");
	db_close(TAKE(m->x.to));
	return store_replace(s, m->new_path, aside, err);
}

/* 1: there are readers; try again later. */
static int take_over_file(struct profilestore *s, struct remake *m, struct err *err)
{
	AUTO(mem_freep) char *aside = m->why ? salvage_aside_name(s->dir, s->now_ms()) : NULL;
	struct kept k = { .n_profiles = atomic_load(&s->n_profiles),
			  .n_samples = atomic_load(&s->n_samples),
			  .n_reused = s->meta->reused.n };
	struct mended lost = { 0 };
	int r;

	if (!wal_shut(s, READERS_MS)) {
		wal_open(s);
		return 1;
	}
	/* Rows are looked for in the file alone, and the file is renamed without its WAL. */
	r = db_wal_truncate(s->db, 0, err);
	if (r != 0) {
		wal_open(s);
		return r;
	}
	memcpy(k.saved, s->segments.saved, sizeof(k.saved));
	r = end_remake_copy(s, m, &lost, err);
	m->x.n_profiles = atomic_load(&s->n_profiles);
	if (r == 0)
		r = replace_file(s, m, aside, err);
	if (r == 0) {
		damage_remade(s, &lost);
		forget_rollups(s);
		report_remake(s, m, &lost, aside);
	} else {
		atomic_store(&s->n_profiles, k.n_profiles);
		atomic_store(&s->n_samples, k.n_samples);
		memcpy(s->segments.saved, k.saved, sizeof(k.saved));
		s->meta->reused.n = k.n_reused;
	}
	free(lost.lost);
	wal_open(s);
	return r;
}

/* ---- steps ---- */

static void remake_end(struct profilestore *s)
{
	struct remake *m = s->remake;

	if (!m)
		return;
	db_close(m->x.to);
	store_disconnect(s, m->unchecked);
	db_files_remove(m->new_path);
	free(m->x.stacks);
	free(m->new_path);
	free(m->why);
	free(m);
	s->remake = NULL;
	atomic_store(&s->remake_runs, false);
}

/* One phase, as far as it gets. 1: it is not over. */
static int run_phase(struct profilestore *s, struct remake *m, struct err *err)
{
	int r = 0;

	m->x.from = m->unchecked ? m->unchecked : s->db;
	switch (m->phase) {
	case REMAKE_BEGIN:
		return begin_copy(s, m, err);
	case REMAKE_ROWS:
		r = copy_rows(m, err);
		if (r != 0)
			return r;
		m->phase = m->x.damaged ? REMAKE_INDEX : REMAKE_LAST;
		/* The tree did not lead to those that are missing until here, also at its end. */
		if (m->x.damaged)
			m->next_id = s->next_id;
		return 0;
	case REMAKE_INDEX:
		r = read_index(s, m, err);
		if (r == 0) {
			find_pages(s, m);
			m->phase = REMAKE_PAGES;
		}
		return r;
	case REMAKE_PAGES:
		r = read_pages(m, err);
		if (r == 0)
			m->phase = REMAKE_LAST;
		return r;
	case REMAKE_LAST:
		break;
	}
	return 0;
}

/* 0: done. 1: there is more to do. */
static int remake_step(struct profilestore *s, int64_t step_ms, struct err *err)
{
	struct remake *m = s->remake;
	int r = 0;

	m->until_ms = step_ms ? clock_mono_ms() + step_ms : 0;
	if (m->phase == REMAKE_BEGIN)
		r = run_phase(s, m, err);
	if (r == 0 && m->phase < REMAKE_LAST) {
		r = db_begin(m->x.to, err);
		while (r == 0 && m->phase < REMAKE_LAST)
			r = run_phase(s, m, err);
		if (r >= 0 && db_commit(m->x.to, err) < 0)
			r = -1;
	}
	if (r == 0) {
		r = take_over_file(s, m, err);
		m->wait_until_ms = clock_mono_ms() + TRY_AGAIN_MS;
	}
	/* What was read of damaged pages is of no use. */
	(void)db_take_bad_page(s->db);
	return r;
}

static void kick_grooming(struct profilestore *s)
{
	pthread_mutex_lock(&s->readers_lock);
	if (s->room.fn)
		s->room.fn(s->room.arg);
	pthread_mutex_unlock(&s->readers_lock);
}

bool remake_ask(struct profilestore *s, const char *why, struct err *err)
{
	struct remake *m = s->remake;
	int r = 1;

	if (m) {
		if (why && !m->why)
			m->why = mem_strdup(why);
		return false;
	}
	if (why && s->n_remakes >= REMAKES_MAX) {
		(void)err_set(err, ERR_DAMAGED, "the database was made anew %u times since the start",
			      REMAKES_MAX);
		return false;
	}
	if (!disk_has_room(s)) {
		(void)err_set(err, ERR_LIMIT, "there is no room on the disk for a copy of the database");
		return false;
	}
	s->n_remakes += why != NULL;
	m = s->remake = NEW(struct remake);
	m->s = s;
	m->why = why ? mem_strdup(why) : NULL;
	m->new_path = mem_printf("%s" REMAKE_NEW, s->path);
	atomic_store(&s->remake_runs, true);
	if (db_files_size(s->path) <= s->remake_at_once)
		r = remake_step(s, 0, err);
	if (r <= 0)
		remake_end(s);
	else
		kick_grooming(s);
	return r == 0;
}

bool remake_runs(struct profilestore *s)
{
	return atomic_load(&s->remake_runs);
}

struct remake_job {
	struct job job;
	bool *more;
};

static int apply_step(struct profilestore *s, struct job *j, struct err *err)
{
	struct remake_job *x = CONTAINER_OF(j, struct remake_job, job);
	int r = 0;

	if (s->remake && clock_mono_ms() < s->remake->wait_until_ms)
		return 0;
	if (s->remake)
		r = remake_step(s, STEP_MS, err);
	*x->more = true;
	if (r == 1) {
		*x->more = clock_mono_ms() >= s->remake->wait_until_ms;
		return 0;
	}
	if (r < 0 && s->remake->why)
		damage_keep_all(s, err);
	remake_end(s);
	return r;
}

int remake_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	struct remake_job x = { .job = { .apply = apply_step, .alone = true, .outside = true },
				.more = ret_more };

	*ret_more = false;
	return remake_runs(s) ? profilestore_writer_run(s, &x.job, err) : 0;
}

void remake_free(struct profilestore *s)
{
	remake_end(s);
}

void remake_clean(const char *dir)
{
	AUTO(mem_freep) char *path = salvage_db_path(dir);
	AUTO(mem_freep) char *new_path = mem_printf("%s" REMAKE_NEW, path);
	AUTO(mem_freep) char *old = mem_printf("%s" STORE_OLD, path);

	db_files_remove(new_path);
	db_files_remove(old);
}
