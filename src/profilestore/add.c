/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding a profile: it is checked in the caller's thread, then interned and written by the writer, as one row
 * for each type and set of labels.
 */
#include "base/vec.h"
#include "profilestore/add.h"

#include <errno.h>
#include <stdlib.h>
#include "base/sort.h"

/* A row to be written. */
struct row {
	struct series *series;
	size_t off, size; /* of its samples in struct rows' buffer */
	int64_t total;
	uint64_t n_samples, digest;
};

/* ---- rows ---- */

static struct series *series_for(struct profilestore *s, const struct add *a, uint32_t group, uint32_t type,
				 struct buf *key, struct err *err)
{
	const struct profile *p = a->p;
	const struct profile_type *t = &p->types.p[type];
	const struct add_group *g = &a->groups[group];
	const struct str texts[SERIES_N_TEXTS] = {
		[SERIES_NAME] = a->name,
		[SERIES_TYPE] = profile_str(p, t->type),
		[SERIES_UNIT] = profile_str(p, t->unit),
		[SERIES_PERIOD_TYPE] = profile_str(p, p->period_type.type),
		[SERIES_PERIOD_UNIT] = profile_str(p, p->period_type.unit),
	};

	series_key(key, texts, a->is_delta, g->labels, g->n_labels);
	return series_get(s, bytes_of(key->p, key->size), err);
}

struct rows {
	struct row *v;
	size_t n, room;
	struct buf data, key;
	struct sample *samples;
};

/* The samples v[0..n) of one group, of each type. Keys are group << 32 | stack. */
static int rows_of_group(struct profilestore *s, struct add *a, const struct sort_key *v, size_t n,
			 struct rows *rows, struct err *err)
{
	const struct profile *p = a->p;
	uint32_t group = (uint32_t)(v[0].key >> 32);

	for (uint32_t t = 0; t < p->types.n; t++) {
		struct row row = { .off = rows->data.size };

		for (size_t i = 0; i < n;) {
			struct sample x = { (uint32_t)v[i].key, 0 };

			for (; i < n && (uint32_t)v[i].key == x.stack; i++)
				x.value = add_saturating(x.value, profile_value(p, (uint32_t)v[i].at, t));
			if (!x.value)
				continue;
			rows->samples[row.n_samples++] = x;
			row.total = add_saturating(row.total, x.value);
		}
		if (!row.n_samples)
			continue;
		row.series = series_for(s, a, group, t, &rows->key, err);
		if (!row.series)
			return -1;
		samples_write(rows->samples, row.n_samples, &rows->data);
		row.size = rows->data.size - row.off;
		VEC_PUSH(rows->v, rows->n, rows->room) = row;
	}
	return 0;
}

static int make_rows(struct profilestore *s, struct add *a, const uint32_t *stacks, struct rows *rows,
		     struct err *err)
{
	const struct profile *p = a->p;
	AUTO(mem_freep) struct sort_key *v = mem_try((size_t)p->n_samples * sizeof(*v) + 1);

	rows->samples = mem_try((size_t)p->n_samples * sizeof(*rows->samples) + 1);
	if (!v || !rows->samples)
		return err_os(err, ENOMEM, "%u samples", p->n_samples);
	for (uint32_t i = 0; i < p->n_samples; i++)
		v[i] = (struct sort_key){
			(uint64_t)a->group_of[p->sample_labels[i]] << 32 | stacks[p->sample_stack[i]], i
		};
	sort_keys(v, p->n_samples);
	for (size_t from = 0, to; from < p->n_samples; from = to) {
		for (to = from; to < p->n_samples && v[to].key >> 32 == v[from].key >> 32; to++)
			a->receipt.n_samples += to == from || v[to].key != v[to - 1].key;
		if (rows_of_group(s, a, v + from, to - from, rows, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- writing ---- */

void profilestore_batch_done(struct profilestore_batch *b)
{
	map_done(&b->own);
}

static struct bytes row_digest(const struct row *row)
{
	return bytes_of(&row->digest, sizeof(row->digest));
}

/*
 * DB_ROW: it is. One that this request has stored does not count, so those after its first profile are passed over if it has
 * stored such a profile. Only a profile with a time of its own can be recognized.
 */
static int profile_is_there(struct db *db, const struct add *a, const struct row *row, struct err *err)
{
	bool own = a->batch && map_get(&a->batch->own, row_digest(row));
	int64_t end = own ? a->batch->first_id : INT64_MAX;
	struct db_stmt *st;
	int r;

	if (db_prepare(db,
		       "SELECT 1 FROM profile WHERE series = ? AND time_ms = ? AND total = ? AND digest = ? "
		       "AND id < ? LIMIT 1",
		       &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, row->series->id);
	db_bind_i64(st, 2, a->time_ms);
	db_bind_i64(st, 3, row->total);
	db_bind_i64(st, 4, (int64_t)row->digest);
	db_bind_i64(st, 5, end);
	r = db_step(st, err);
	db_reset(st);
	return r;
}

static int insert_profile(struct profilestore *s, const struct add *a, const struct row *row,
			  struct bytes data, struct err *err)
{
	struct db_stmt *st;

	if (db_prepare(s->db, "INSERT INTO profile VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", &st, err) < 0)
		return -1;
	db_bind_i64(st, 1, s->next_id);
	db_bind_i64(st, 2, row->series->id);
	db_bind_i64(st, 3, a->time_ms);
	db_bind_i64(st, 4, a->duration_ms);
	db_bind_i64(st, 5, row->total);
	db_bind_i64(st, 6, (int64_t)row->n_samples);
	db_bind_i64(st, 7, a->p->period);
	db_bind_i64(st, 8, (int64_t)row->digest);
	db_bind_bytes(st, 9, data);
	return db_step(st, err);
}

/* Rollups that would have to contain it are made again. */
static int drop_rollups(struct profilestore *s, struct series *x, int64_t time_ms, struct err *err)
{
	series_groom_from(x, time_ms);
	if (time_ms >= atomic_load(&x->rolled_ms))
		return 0;
	for (int level = 0; level < ROLLUP_LEVELS; level++) {
		struct db_stmt *st;

		if (db_prepare(s->db, "DELETE FROM rollup WHERE series = ? AND level = ? AND start_ms = ?",
			       &st, err) < 0)
			return -1;
		db_bind_i64(st, 1, x->id);
		db_bind_i64(st, 2, level);
		db_bind_i64(st, 3, time_ms - time_ms % rollup_ms[level]);
		if (db_step(st, err) < 0)
			return -1;
	}
	return 0;
}

static int write_profile_row(struct profilestore *s, struct add *a, const struct row *row, struct bytes data,
			     struct err *err)
{
	struct series *x = row->series;

	if (insert_profile(s, a, row, data, err) < 0 || drop_rollups(s, x, a->time_ms, err) < 0)
		return -1;
	if (a->time_ms < atomic_load(&x->first_ms))
		atomic_store(&x->first_ms, a->time_ms);
	if (a->time_ms > atomic_load(&x->last_ms))
		atomic_store(&x->last_ms, a->time_ms);
	if (!a->receipt.first_id)
		a->receipt.first_id = s->next_id;
	a->receipt.n_profiles++;
	s->next_id++;
	atomic_fetch_add(&s->n_profiles, 1);
	atomic_fetch_add(&s->n_samples, row->n_samples);
	return 0;
}

static int write_profile_rows(struct profilestore *s, struct add *a, struct rows *rows, struct err *err)
{
	size_t n_there = 0;

	for (size_t i = 0; i < rows->n; i++) {
		struct row *row = &rows->v[i];
		int r;

		row->digest = samples_digest(row->series->id, a->time_ms, a->duration_ms,
					     bytes_of(rows->data.p + row->off, row->size));
		r = a->has_time && n_there == i ? profile_is_there(s->db, a, row, err) : 0;
		if (r < 0)
			return -1;
		n_there += r == DB_ROW;
	}
	a->receipt.duplicate = rows->n && n_there == rows->n;
	/* After a transaction that failed, numbers may begin earlier. */
	if (a->batch && !a->receipt.duplicate && (!a->batch->first_id || a->batch->first_id > s->next_id))
		a->batch->first_id = s->next_id;
	for (size_t i = 0; i < rows->n && a->batch && !a->receipt.duplicate; i++)
		(void)map_put(&a->batch->own, row_digest(&rows->v[i]), a->batch);
	for (size_t i = 0; i < rows->n && !a->receipt.duplicate; i++)
		if (write_profile_row(s, a, &rows->v[i],
				      bytes_of(rows->data.p + rows->v[i].off, rows->v[i].size), err) < 0)
			return -1;
	return 0;
}

static int add_apply(struct profilestore *s, struct job *j, struct err *err)
{
	struct add *a = CONTAINER_OF(j, struct add, job);
	AUTO(mem_freep) uint32_t *stacks = NULL;
	struct rows rows = { 0 };
	int r;

	if (atomic_load(&s->room.over_size)) {
		j->may_wait = false;
		(void)err_set(err, ERR_LIMIT,
			      "the profiles of the last hour fill the %llu MiB that profiles may have: send "
			      "fewer, or "
			      "raise --profiles-max-size",
			      (unsigned long long)(s->max_size >> 20));
		return JOB_REFUSED;
	}
	/* It may have been held. */
	a->receipt = (struct profilestore_receipt){ .n_mended = a->n_mended, .n_dropped = a->n_dropped };
	/* Everything that can be refused is refused before the first row is written. */
	sender_begin(s, a->sender);
	stacks = add_stacks(s, a->p, err);
	if (!stacks && sender_is_limited(s))
		sender_err(s, err);
	r = stacks && make_rows(s, a, stacks, &rows, err) == 0 ? 0 : JOB_REFUSED;
	/* Room would be made at the cost of other senders. */
	j->may_wait &= !s->share_met;
	sender_end(s);
	if (r == 0)
		r = write_profile_rows(s, a, &rows, err);
	free(rows.v);
	free(rows.samples);
	buf_done(&rows.data);
	buf_done(&rows.key);
	return r;
}

static void count_rows(struct profilestore *s, struct job *j, const struct err *err)
{
	const struct add *a = CONTAINER_OF(j, struct add, job);

	if (!err && !a->receipt.duplicate) {
		atomic_fetch_add(&s->n_labels_mended, a->n_mended);
		atomic_fetch_add(&s->n_labels_dropped, a->n_dropped);
	}
	atomic_fetch_add(err ? &s->n_refused : a->receipt.duplicate ? &s->n_duplicates : &s->n_added, 1);
}

static void added_free(struct add *a)
{
	arena_done(&a->arena);
	free(a);
}

static void add_completed(struct profilestore *s, struct job *j, const struct err *err)
{
	struct add *a = CONTAINER_OF(j, struct add, job);

	count_rows(s, j, err);
	a->done(a->arg, &a->receipt, err);
	added_free(a);
}

/* ---- coming in ---- */

static int check_time(struct profilestore *s, struct add *a, struct err *err)
{
	const struct age_time t = store_time(s);
	int64_t wall_ms = t.now_ms + t.apart_ms, ns = a->p->time_ns;
	/* While the clock is doubted, either of the two may be right. */
	int64_t latest_ms = MAX(t.now_ms, wall_ms), earliest_ms = MIN(t.now_ms, wall_ms);

	a->has_time = ns != 0;
	/*
	 * Of one without a time that of the wall clock: queries go by it, and a store that was closed for a while doubts it. But
	 * if that clock was set back so far that by its time the profile would be deleted soon, it is not believed. Set back
	 * less, it may have been corrected.
	 */
	a->time_ms = ns                                                        ? ns / 1000000
		     : s->max_age_ms && wall_ms < t.now_ms - s->max_age_ms / 2 ? t.now_ms
									       : MAX(wall_ms, INT64_C(0));
	a->duration_ms = MAX(a->p->duration_ns / 1000000, (int64_t)0);
	if (ns < 0)
		return err_set(err, ERR_INVALID, "is from before 1970");
	if (a->time_ms > latest_ms + PROFILESTORE_MAX_AHEAD_MS)
		return err_set(
			err, ERR_INVALID, "is %lld s in the future, the limit is %d s: check the clocks",
			(long long)((a->time_ms - latest_ms) / 1000), PROFILESTORE_MAX_AHEAD_MS / 1000);
	if (s->max_age_ms && a->time_ms < earliest_ms - s->max_age_ms)
		return err_set(err, ERR_INVALID, "is %lld s old, and profiles are kept for %lld s",
			       (long long)((earliest_ms - a->time_ms) / 1000),
			       (long long)(s->max_age_ms / 1000));
	return 0;
}

/* A job without its done(); NULL: the profile is refused. */
static struct add *add_new(struct profilestore *s, const struct profilestore_upload *u, struct err *err)
{
	struct add *a = NEW(struct add);

	arena_init(&a->arena);
	a->p = u->p;
	a->name = arena_str(&a->arena, u->name);
	a->is_delta = u->p->duration_ns && !u->no_delta;
	a->job.apply = add_apply;
	a->job.again = true;
	if (check_time(s, a, err) == 0 && add_labels(a, u, err) == 0)
		return a;
	atomic_fetch_add(&s->n_refused, 1);
	added_free(a);
	return NULL;
}

int profilestore_add(struct profilestore *s, const struct profilestore_upload *u,
		     void (*done)(void *arg, const struct profilestore_receipt *r, const struct err *err),
		     void *arg, struct err *err)
{
	struct add *a = add_new(s, u, err);

	if (!a)
		return -1;
	a->sender = arena_str(&a->arena, u->sender);
	a->batch = u->batch;
	a->done = done;
	a->arg = arg;
	a->job.done = add_completed;
	a->job.may_wait = true;
	profilestore_writer_submit(s, &a->job);
	return 0;
}

int profilestore_add_wait(struct profilestore *s, const struct profile *p,
			  const struct profilestore_label *labels, size_t n_labels,
			  struct profilestore_receipt *ret, struct err *err)
{
	const struct profilestore_upload u = { .p = p, .labels = labels, .n_labels = n_labels };
	struct add *a = add_new(s, &u, err);
	int r;

	if (!a)
		return -1;
	a->job.done = count_rows;
	r = profilestore_writer_run(s, &a->job, err);
	if (r == 0)
		*ret = a->receipt;
	added_free(a);
	return r;
}
