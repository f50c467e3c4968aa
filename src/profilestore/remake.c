/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the database anew while the store is in use.
 *
 * Only profiles are nowhere but in the database: they are copied as at a start (salvage_profiles.c). New ones get higher
 * ids, so reading on finds them; grooming, which deletes some, does nothing else meanwhile. Rollups are made again.
 *
 * The last step copies the last few profiles, writes everything else from memory, and puts the new file in the place of
 * the old one. It needs a moment without a reader, so that the WAL of the old file is empty: then a crash at any time
 * leaves one file or the other, complete.
 */
#include "profilestore/remake.h"
#include "profilestore/names_internal.h"
#include "profilestore/salvage_internal.h"
#include "profilestore/sweep.h"

#include <stdlib.h>
#include <sys/statvfs.h>
#include "base/search.h"
#include "base/vec.h"

#define STEP_MS      40   /* of the writer's time for one step */
#define READERS_MS   1000 /* the longest wait for readers to end */
#define TRY_AGAIN_MS 5000

struct remake {
	struct profilestore *s;
	char *why; /* NULL: for the digests of pages */
	char *new_path;
	struct salvage_known known;
	struct salvage x;      /* from: the store's own connection; to: the new database, NULL: not begun */
	struct db *unchecked;  /* NULL: none; from, if the store's own connection cannot read the schema */
	int64_t wait_until_ms; /* monotonic: the next try to find a moment without a reader */
	/* The series by their ids, for one step; none: they were not asked for yet. */
	struct series **by_id;
	size_t n_by_id, room_by_id;
};

/* ---- tables in memory ---- */

static int64_t memory_next_id(void *arg)
{
	return ((const struct profilestore *)arg)->next_id;
}

static uint32_t memory_next_series(void *arg, uint32_t *it)
{
	const struct profilestore *s = arg;

	while (*it < column_n(&s->series)) {
		const struct series *x = series_at(&s->series, (*it)++);

		if (x && x->saved)
			return x->id;
	}
	return 0;
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = (*(struct series *const *)a)->id, y = (*(struct series *const *)b)->id;

	return x < y ? -1 : x > y;
}

static void list_by_id(struct profilestore *s, struct remake *m)
{
	for (uint32_t i = 0, n = column_n(&s->series); i < n; i++) {
		struct series *x = series_at(&s->series, i);

		if (x)
			VEC_PUSH(m->by_id, m->n_by_id, m->room_by_id) = x;
	}
	if (m->n_by_id)
		qsort(m->by_id, m->n_by_id, sizeof(*m->by_id), by_id);
}

/* Very many rows may ask. */
static const struct series *remake_series(struct profilestore *s, uint32_t id)
{
	struct remake *m = s->remake;
	size_t i;

	if (!m->n_by_id)
		list_by_id(s, m);
	i = SEARCH(0, m->n_by_id, k, m->by_id[k]->id < id);
	return i < m->n_by_id && m->by_id[i]->id == id ? m->by_id[i] : NULL;
}

static bool memory_may_store(void *arg, uint32_t series, int64_t time_ms)
{
	const struct series *x = remake_series(arg, series);

	return x && time_ms >= atomic_load(&x->first_ms) && time_ms <= atomic_load(&x->last_ms);
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
	m->x.no_schema = true;
	m->x.damaged = true;
	return 0;
}

static int begin_copy(struct profilestore *s, struct remake *m, struct err *err)
{
	db_files_remove(m->new_path);
	if (db_open(m->new_path, &store_db_options, &m->x.to, err) < 0 ||
	    db_migrate(m->x.to, profilestore_migrations, profilestore_n_migrations, err) < 0 ||
	    salvage_profiles_begin(&m->x, err) < 0)
		return -1;
	m->x.known = &m->known;
	/* It knows the pages, also if the first one is damaged. */
	m->x.pages_db = s->db;
	return find_schema(s, m, err);
}

/* ---- the last step ---- */

static int write_all_series(struct profilestore *s, struct err *err)
{
	for (uint32_t i = 0, n = column_n(&s->series); i < n; i++) {
		const struct series *x = series_at(&s->series, i);

		if (x && x->saved && series_insert(s, x, err) < 0)
			return -1;
	}
	return 0;
}

static int write_tables(struct profilestore *s, struct err *err)
{
	senders_unsave(s);
	if (write_all_series(s, err) < 0 || senders_write(s, err) < 0 || segments_rewrite(s, err) < 0 ||
	    names_write_all(s, s->meta, NULL, err) < 0 ||
	    db_exec_i64(s->db, "UPDATE counter SET generation = ?", s->meta->generation, err) < 0)
		return -1;
	return totals_write(s, err);
}

/* Everything that is not a profile: the writer's functions write to s->db. */
static int write_rest(struct profilestore *s, struct remake *m, struct err *err)
{
	struct db *db = s->db;
	int r;

	s->db = m->x.to;
	r = write_tables(s, err);
	s->db = db;
	return r;
}

static int end_remake_copy(struct profilestore *s, struct remake *m, struct salvage_lost *ret,
			   struct err *err)
{
	int64_t n = 0, n_samples = 0;

	if (db_begin(m->x.to, err) < 0 ||
	    salvage_profiles_end(&m->x, atomic_load(&s->n_profiles), ret, err) < 0 ||
	    db_get_i64(m->x.to, "SELECT count(*) FROM profile", &n, err) < 0 ||
	    db_get_i64(m->x.to, "SELECT ifnull(sum(n_samples), 0) FROM profile", &n_samples, err) < 0)
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

static void report_remake(struct profilestore *s, const struct remake *m, size_t n_lost, const char *aside)
{
	AUTO(mem_freep) char *text = NULL;

	if (!m->why) {
		store_notice(s, LOG_INFO, "the pages of the database have digests now");
		return;
	}
	text = mem_printf(
		"the database was made anew in use, since %.300s: %llu profiles are kept, %llu are lost; the "
		"damaged database is kept as %s",
		m->why, (unsigned long long)atomic_load(&s->n_profiles), (unsigned long long)n_lost, aside);
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
	struct salvage_lost lost = { 0 };
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
	if (r == 0)
		r = replace_file(s, m, aside, err);
	if (r == 0) {
		damage_remade(s, lost.v, lost.n);
		forget_rollups(s);
		report_remake(s, m, lost.n, aside);
	} else {
		atomic_store(&s->n_profiles, k.n_profiles);
		atomic_store(&s->n_samples, k.n_samples);
		memcpy(s->segments.saved, k.saved, sizeof(k.saved));
		s->meta->reused.n = k.n_reused;
	}
	free(lost.v);
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
	free(m->by_id);
	free(m->new_path);
	free(m->why);
	free(m);
	s->remake = NULL;
	atomic_store(&s->remake_runs, false);
}

/* 0: done. 1: there is more to do. */
static int remake_step(struct profilestore *s, int64_t step_ms, struct err *err)
{
	struct remake *m = s->remake;
	int r = 0;

	/* Some may be gone since the last step. */
	m->n_by_id = 0;
	m->x.n_known_stacks = column_n(&s->meta->stacks);
	if (!m->x.to)
		r = begin_copy(s, m, err);
	if (r == 0 && m->x.phase < SALVAGE_LAST) {
		m->x.from = m->unchecked ? m->unchecked : s->db;
		r = db_begin(m->x.to, err);
		if (r == 0)
			r = salvage_profiles_step(&m->x, step_ms ? clock_mono_ms() + step_ms : 0, err);
		if (r >= 0 && db_commit(m->x.to, err) < 0)
			r = -1;
	}
	if (r == 0) {
		r = take_over_file(s, m, err);
		m->wait_until_ms = clock_mono_ms() + TRY_AGAIN_MS;
	}
	/* Rows of damaged pages are of no use. */
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
	m->known = (struct salvage_known){ memory_next_id, memory_next_series, memory_may_store, s };
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
	AUTO(mem_freep) char *leaves = mem_printf("%s" SALVAGE_LEAVES, path);

	db_files_remove(new_path);
	db_files_remove(leaves);
	db_files_remove(old);
}
