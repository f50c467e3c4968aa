/* SPDX-License-Identifier: Apache-2.0 */
/* Damage that is found while the store is in use: notes of damaged pages and rows, their results, and the log. */
#include "profilestore/damage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/search.h"
#include "base/vec.h"
#include "profilestore/internal.h"
#include "profilestore/remake.h"
#include "profilestore/salvage.h"

#define LOST_LISTED 65536u
#define LOOKS       4096u
#define MAX_FILES   20u /* set aside since the start; the log has the rest */
#define MAX_PAGE    65536u

void damage_init(struct damage *d)
{
	pthread_mutex_init(&d->lock, NULL);
}

void damage_done(struct damage *d)
{
	free(d->lost.v);
	pthread_mutex_destroy(&d->lock);
}

uint64_t damage_n_mended(struct profilestore *s)
{
	return atomic_load(&s->damage.n_mended);
}

/* ---- notes ---- */

void damage_note_page(struct profilestore *s, uint64_t page)
{
	struct damage *d = &s->damage;
	bool there = false;

	if (!page || remake_runs(s))
		return;
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n_pages; i++)
		there |= d->pages[i] == page;
	if (!there && d->n_pages < DAMAGE_MAX)
		d->pages[d->n_pages++] = page;
	pthread_mutex_unlock(&d->lock);
}

void damage_note_page_of(struct profilestore *s, struct db *db)
{
	if (db)
		damage_note_page(s, db_take_bad_page(db));
}

static void note_row(struct profilestore *s, int64_t id)
{
	struct damage *d = &s->damage;
	bool there = false;

	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n_rows; i++)
		there |= d->rows[i] == id;
	if (!there && d->n_rows < DAMAGE_MAX)
		d->rows[d->n_rows++] = id;
	pthread_mutex_unlock(&d->lock);
}

void damage_note_profile(struct profilestore *s, int64_t id)
{
	note_row(s, id);
}

void damage_note_rollup(struct profilestore *s, int64_t id)
{
	note_row(s, -id);
}

void damage_note_error(struct profilestore *s, uint64_t n_mended, const struct err *err)
{
	struct damage *d = &s->damage;

	pthread_mutex_lock(&d->lock);
	if (!d->n_pages && !d->n_rows && !d->malformed) {
		d->malformed = true;
		d->malformed_at = n_mended;
		snprintf(d->malformed_why, sizeof(d->malformed_why), "%.200s", err->text);
	}
	pthread_mutex_unlock(&d->lock);
}

/* ---- lost profiles ---- */

static void add_lost(struct damage *d, const struct lost_profile *lost, size_t n_listed, uint64_t n)
{
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < n_listed && d->lost.n < LOST_LISTED; i++)
		VEC_PUSH(d->lost.v, d->lost.n, d->lost.room) = lost[i];
	d->n_lost += n;
	pthread_mutex_unlock(&d->lock);
}

static int by_series_id(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The series of the listed profiles that are in the range of time, sorted; heap. */
static uint32_t *series_of_lost(const struct damage *d, const struct profilestore_range *r, size_t *ret_n)
{
	uint32_t *ids = NULL;
	size_t room = 0;

	*ret_n = 0;
	for (size_t i = 0; i < d->lost.n; i++) {
		const struct lost_profile *x = &d->lost.v[i];

		if (x->time_ms == INT64_MIN || (x->time_ms >= r->from_ms && x->time_ms < r->to_ms))
			VEC_PUSH(ids, *ret_n, room) = x->series;
	}
	if (*ret_n)
		qsort(ids, *ret_n, sizeof(*ids), by_series_id);
	return ids;
}

uint64_t damage_lost_in(struct profilestore *s, const struct profilestore_range *r)
{
	AUTO(mem_freep) uint32_t *ids = NULL;
	struct damage *d = &s->damage;
	size_t n_ids;
	uint64_t n;

	if (r->profile_id)
		return 0;
	pthread_mutex_lock(&d->lock);
	ids = series_of_lost(d, r, &n_ids);
	n = n_ids + d->n_lost - d->lost.n;
	pthread_mutex_unlock(&d->lock);
	/* Once for all of them: there may be as many as there are series. Those of unknown series count. */
	for (uint32_t i = 0, end = n_ids ? column_n(&s->series) : 0; i < end; i++) {
		const struct series *x = series_at(&s->series, i);
		size_t at = x ? SEARCH(0, n_ids, k, ids[k] < x->id) : n_ids;

		if (at == n_ids || ids[at] != x->id || series_matches(x, r))
			continue;
		for (; at < n_ids && ids[at] == x->id; at++)
			n--;
	}
	return n;
}

void damage_stats(struct profilestore *s, struct profilestore_stats *ret)
{
	struct damage *d = &s->damage;

	ret->n_mended = atomic_load(&d->n_pages_mended);
	pthread_mutex_lock(&d->lock);
	ret->n_lost = d->n_lost;
	ret->n_unmended = atomic_load(&d->kept);
	memcpy(ret->unmended_why, d->why, sizeof(ret->unmended_why));
	pthread_mutex_unlock(&d->lock);
}

/* ---- mending ---- */

/* Log @text. The damaged page as it is (@size 0: none) is kept with it beside the database. */
static void report_damage(struct profilestore *s, const char *text, const uint8_t *data, size_t size)
{
	AUTO(mem_freep) char *aside = NULL;

	store_notice(s, LOG_ERROR, "%s; check the disk", text);
	if (s->damage.n_files >= MAX_FILES || !size)
		return;
	s->damage.n_files++;
	aside = salvage_aside_name(s->dir, s->now_ms());
	if (file_write_durable(aside, data, size, 0640, NULL) == 0)
		salvage_note_reason(aside, text);
}

void damage_keep_all(struct profilestore *s, const struct err *why)
{
	struct damage *d = &s->damage;
	bool again;

	pthread_mutex_lock(&d->lock);
	again = atomic_exchange(&d->kept, true);
	snprintf(d->why, sizeof(d->why),
		 "the database is damaged and cannot be repaired now (%.200s): what needs the damaged part "
		 "fails "
		 "until that has changed, or until the service is started again, which repairs the database",
		 why->text);
	pthread_mutex_unlock(&d->lock);
	if (!again)
		report_damage(s, d->why, NULL, 0);
}

void damage_remade(struct profilestore *s, const struct lost_profile *lost, size_t n_lost)
{
	struct damage *d = &s->damage;

	pthread_mutex_lock(&d->lock);
	d->n_pages = d->n_rows = 0;
	d->malformed = false;
	d->why[0] = '\0';
	atomic_store(&d->kept, false);
	pthread_mutex_unlock(&d->lock);
	add_lost(d, lost, n_lost, n_lost);
	atomic_fetch_add(&d->n_mended, 1);
	atomic_fetch_add(&d->n_pages_mended, 1);
}

void damage_note_repair(struct profilestore *s, const struct lost_profile *lost, size_t n_listed,
			uint64_t n_lost)
{
	add_lost(&s->damage, lost, n_listed, n_lost);
}

/* If there is no room for a copy, it is asked for again when the damage is met again. */
static void ask_for_remake(struct profilestore *s, const char *why)
{
	struct err err = { 0 };

	if (!remake_ask(s, why, &err) && err.kind != ERR_NONE)
		damage_keep_all(s, &err);
}

static void report_corrected(struct profilestore *s, uint64_t page, const uint8_t *data, size_t size)
{
	AUTO(mem_freep)
	char *text = mem_printf("page %" PRIu64
				" of the database had one wrong byte, which is corrected: nothing is lost",
				page);

	atomic_fetch_add(&s->damage.n_mended, 1);
	atomic_fetch_add(&s->damage.n_pages_mended, 1);
	report_damage(s, text, data, size);
}

static void mend_noted_page(struct profilestore *s, uint64_t page)
{
	AUTO(mem_freep) uint8_t *data = NULL;
	AUTO(mem_freep) char *why = NULL;
	size_t size = 0;

	if (remake_runs(s))
		return;
	/* The page is looked at in the file. It may have been mended, or written, since it was noted. */
	if (!db_page_is_damaged(s->db, page)) {
		if (s->damage.n_looks++ < LOOKS)
			atomic_fetch_add(&s->damage.n_mended, 1);
		return;
	}
	data = mem_alloc(MAX_PAGE);
	db_page_copy(s->db, page, data, MAX_PAGE, &size);
	if (db_page_correct(s->db, page, NULL) == 1) {
		report_corrected(s, page, data, size);
		return;
	}
	why = mem_printf("page %" PRIu64 " is damaged", page);
	ask_for_remake(s, why);
}

/* The row differs from its digest, although its page does not: it is of an older version, or was damaged in memory. */
static bool row_is_wrong(struct profilestore *s, int64_t id)
{
	struct db_stmt *st;
	bool wrong = false;

	if (db_prepare(s->db,
		       id < 0 ? "SELECT series, start_ms, duration_ms, digest, data FROM rollup WHERE id = ?"
			      : "SELECT series, time_ms, duration_ms, digest, data FROM profile WHERE id = ?",
		       &st, NULL) < 0)
		return false;
	db_bind_i64(st, 1, id < 0 ? -id : id);
	if (db_step(st, NULL) == DB_ROW)
		wrong = (uint64_t)db_i64(st, 3) != samples_digest((uint32_t)db_i64(st, 0), db_i64(st, 1),
								  db_i64(st, 2), db_bytes(st, 4));
	db_reset(st);
	return wrong;
}

static void mend_noted_row(struct profilestore *s, int64_t id)
{
	AUTO(mem_freep) char *why = NULL;

	if (remake_runs(s))
		return;
	if (!row_is_wrong(s, id)) {
		if (s->damage.n_looks++ < LOOKS)
			atomic_fetch_add(&s->damage.n_mended, 1);
		return;
	}
	why = mem_printf("%s %" PRId64 " differs from its digest", id < 0 ? "rollup" : "profile",
			 id < 0 ? -id : id);
	ask_for_remake(s, why);
}

bool damage_mend_here(struct profilestore *s, uint64_t n_mended)
{
	struct damage *d = &s->damage;
	uint64_t pages[DAMAGE_MAX];
	int64_t rows[DAMAGE_MAX];
	char why[sizeof(d->malformed_why)];
	size_t n_pages, n_rows;
	bool malformed;

	pthread_mutex_lock(&d->lock);
	/* A repair since then may be the reason. */
	malformed = d->malformed && d->malformed_at == damage_n_mended(s);
	d->malformed = false;
	memcpy(why, d->malformed_why, sizeof(why));
	n_pages = d->n_pages;
	n_rows = d->n_rows;
	memcpy(pages, d->pages, n_pages * sizeof(*pages));
	memcpy(rows, d->rows, n_rows * sizeof(*rows));
	d->n_pages = d->n_rows = 0;
	pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < n_pages; i++)
		mend_noted_page(s, pages[i]);
	for (size_t i = 0; i < n_rows; i++)
		mend_noted_row(s, rows[i]);
	if (malformed && !n_pages && !n_rows)
		ask_for_remake(s, why);
	return damage_n_mended(s) != n_mended;
}

static int apply_mending(struct profilestore *s, struct job *j, struct err *err)
{
	(void)j;
	(void)err;
	damage_mend_here(s, 0);
	return 0;
}

bool damage_mend(struct profilestore *s, uint64_t n_mended)
{
	struct job j = { .apply = apply_mending, .alone = true, .outside = true };
	bool any;

	pthread_mutex_lock(&s->damage.lock);
	any = s->damage.n_pages || s->damage.n_rows || s->damage.malformed;
	pthread_mutex_unlock(&s->damage.lock);
	if (any)
		(void)profilestore_writer_run(s, &j, NULL);
	return damage_n_mended(s) != n_mended;
}
