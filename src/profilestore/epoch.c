/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of the tables in memory, and the memory that they may still see.
 *
 * A reader registers itself before it looks at a table. An object that is taken out of the tables is *retired*:
 * its memory is freed when every reader that registered before has ended. Nobody waits for anybody.
 */
#include "profilestore/internal.h"
#include "profilestore/remake.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/vec.h"

#define TAKE_OVER_US 200

void reader_hold(struct profilestore *s, struct reader *r)
{
	*r = (struct reader){ .s = s };
	pthread_mutex_lock(&s->readers_lock);
	r->meta = s->meta;
	r->n_mended = damage_n_mended(s);
	r->epoch = s->epoch;
	r->next = s->active;
	r->at = &s->active;
	if (r->next)
		r->next->at = &r->next;
	s->active = r;
	pthread_mutex_unlock(&s->readers_lock);
}

/* Begins the snapshot, too: BEGIN alone does not. */
static int read_generation(struct profilestore *s, struct db *db, int64_t *ret, struct err *err)
{
	int r = db_get_i64(db, "SELECT generation FROM counter WHERE id = 1", ret, err);

	/* The entries that rows of this snapshot refer to were written before. */
	(void)atomic_load_explicit(&s->n_published, memory_order_acquire);
	return r < 0 ? -1 : 0;
}

int reader_begin(struct profilestore *s, struct reader *r, struct err *err)
{
	int64_t generation = 0;

	for (;;) {
		reader_hold(s, r);
		r->n_renewals = atomic_load(&s->wal.n_renewals);
		r->db = reader_take(s, err);
		if (!r->db || read_generation(r->s, r->db, &generation, err) < 0) {
			uint64_t n_mended = r->n_mended;

			reader_end(r);
			r->n_mended = n_mended;
			return -1;
		}
		if (generation == r->meta->generation)
			return 0;
		/* A sweep was committed, and its tables are about to be taken over. */
		reader_end(r);
		usleep(TAKE_OVER_US);
	}
}

/* The snapshot that has begun: its numbers must be those of the tables. */
static int same_generation(struct reader *r, struct err *err)
{
	int64_t generation = 0;

	if (read_generation(r->s, r->db, &generation, err) < 0)
		return -1;
	if (generation == r->meta->generation)
		return 0;
	r->stale = true;
	return err_set(err, ERR_CANCELLED, "the tables were swept during the query; send it again");
}

static int begin_again(struct reader *r, struct err *err)
{
	db_rollback(r->db);
	wal_leave(r->s);
	wal_enter(r->s);
	if (store_is_replaced(r->s, r->db)) {
		r->stale = true;
		return err_set(err, ERR_CANCELLED,
			       "the database was made anew during the query; send it again");
	}
	return db_exec(r->db, "BEGIN", err) < 0 ? -1 : same_generation(r, err);
}

int reader_renew(struct reader *r, struct err *err)
{
	uint32_t n = r ? atomic_load_explicit(&r->s->wal.n_renewals, memory_order_relaxed) : 0;

	if (!r || (r->db && r->n_renewals == n))
		return 0;
	r->n_renewals = n;
	if (r->db)
		return begin_again(r, err);
	r->db = reader_take(r->s, err);
	return r->db ? same_generation(r, err) : -1;
}

void reader_rest(struct reader *r)
{
	reader_give(r->s, TAKE(r->db));
}

bool reader_end(struct reader *r)
{
	struct profilestore *s = r->s;
	bool stale = r->stale;

	if (!s)
		return false;
	reader_give(s, r->db);
	pthread_mutex_lock(&s->readers_lock);
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	pthread_mutex_unlock(&s->readers_lock);
	*r = (struct reader){ 0 };
	return stale;
}

bool reader_again(struct profilestore *s, struct reader *r, int res, struct err *err)
{
	uint64_t n_mended = r->n_mended;
	bool stale = reader_end(r);

	if (res >= 0)
		return false;
	if (!err || err->kind != ERR_DAMAGED)
		return stale;
	damage_note_error(s, n_mended, err);
	if (damage_mend(s, n_mended))
		return true;
	if (remake_runs(s))
		(void)err_set(
			err, ERR_IO,
			"%.300s: the database is damaged, and is being repaired in the background; send it "
			"again in a while",
			err->text);
	else
		(void)err_set(
			err, ERR_DAMAGED,
			"%.300s: what needs this part of the database fails until the service is started "
			"again, which "
			"repairs it",
			err->text);
	return stale;
}

/* ---- retired objects ---- */

void epoch_retire(struct profilestore *s, void *object, void (*release)(void *object))
{
	pthread_mutex_lock(&s->readers_lock);
	VEC_PUSH(s->retired.v, s->retired.n, s->retired.room) = (struct retired){ object, release,
										  s->epoch++ };
	pthread_mutex_unlock(&s->readers_lock);
}

/* Those that no reader sees are first: they are sorted by epoch. */
static size_t take_released(struct profilestore *s, struct retired *ret, size_t room)
{
	uint64_t oldest = UINT64_MAX;
	size_t n = 0;

	pthread_mutex_lock(&s->readers_lock);
	for (const struct reader *r = s->active; r; r = r->next)
		oldest = MIN(oldest, r->epoch);
	while (n < room && n < s->retired.n && s->retired.v[n].epoch < oldest) {
		ret[n] = s->retired.v[n];
		n++;
	}
	s->retired.n -= n;
	if (n)
		memmove(s->retired.v, s->retired.v + n, s->retired.n * sizeof(*s->retired.v));
	pthread_mutex_unlock(&s->readers_lock);
	return n;
}

void epoch_release(struct profilestore *s)
{
	struct retired v[256];

	for (size_t n; (n = take_released(s, v, ARRAY_SIZE(v)));)
		for (size_t i = 0; i < n; i++)
			v[i].release(v[i].object);
}
