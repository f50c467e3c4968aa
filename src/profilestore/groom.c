/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping, one step at a time.
 *
 * The parts have an order: a part begins when those before it have no more to do, since their work makes its own smaller, or
 * of no use. But retention has more to do at every call while profiles come into a store that has reached its size, as has
 * room.c while profiles are refused. So if a part had more to do, or has failed, the next call is for the parts after it,
 * which take turns: the first part has every second call at least, and of n parts each one begins within 2n calls.
 */
#include <pthread.h>
#include "profilestore/internal.h"
#include "profilestore/remake.h"
#include "profilestore/sweep.h"

#define STEP_SERIES 16u /* series groomed in one step */

static int groom_series(struct profilestore *s, bool *ret_more, struct err *err)
{
	uint32_t n = column_n(&s->series);
	struct sums sums;
	bool more;
	int r = 0;

	*ret_more = false;
	if (s->groom_series >= n)
		s->groom_series = 0;
	if (!n)
		return 0;
	if (sums_init(&sums, s->meta, NULL, err) < 0)
		return -1;
	for (uint32_t i = 0; r == 0 && i < STEP_SERIES && s->groom_series < n; i++) {
		struct series *x = series_at(&s->series, s->groom_series);

		more = false;
		r = x ? rollup_groom(s, x, &sums, &more, err) : 0;
		if (r == 0 && more)
			*ret_more = true;
		else
			s->groom_series++;
	}
	sums_done(&sums);
	if (s->groom_series < n)
		*ret_more = true;
	else
		s->groom_series = 0;
	return r;
}

/* Copy the WAL into the database file in this thread, so that a commit, or the end, need not do it. */
static int copy_wal(struct profilestore *s, struct err *err)
{
	if (s->copier && store_is_replaced(s, s->copier))
		store_disconnect(s, TAKE(s->copier));
	if (!s->copier && store_connect(s, &(struct db_options){ .sync = true }, &s->copier, err) < 0)
		return -1;
	return db_checkpoint(s->copier, err) < 0 ? -1 : 0;
}

/* Rows of series that are still counted would be a reason to delete more profiles than necessary. */
static int groom_room(struct profilestore *s, bool *ret_more, struct err *err)
{
	int r = series_sweep(s, ret_more, err);

	return r == 0 && !*ret_more ? room_groom(s, ret_more, err) : r;
}

static int (*const groom_parts[])(struct profilestore *s, bool *ret_more,
				  struct err *err) = { retain_groom, groom_room, sweep_groom, segments_groom,
						       groom_series };

/* The parts up to the sweep: those after it wait for its end, so that it alone has memory for all stacks. */
#define PARTS_OF_SWEEP 3u

static size_t groom_n_parts(const struct profilestore *s)
{
	return sweep_is_under_way(s->sweep) ? PARTS_OF_SWEEP : ARRAY_SIZE(groom_parts);
}

/* Parts from @i on, until one has more to do. *ret_end: the part after the last one that ran. */
static int run_groom_parts(struct profilestore *s, size_t i, size_t *ret_end, bool *ret_more, struct err *err)
{
	int r = 0;

	for (; r == 0 && !*ret_more && i < ARRAY_SIZE(groom_parts); i++)
		r = groom_parts[i](s, ret_more, err);
	*ret_end = i;
	return r;
}

/* *ret_more: also if the next call is for the parts that this one has not reached. */
static int groom_next_parts(struct profilestore *s, bool *ret_more, struct err *err)
{
	size_t n = groom_n_parts(s), first = s->groom_waiting, end;
	int r;

	s->groom_waiting = 0;
	if (!first || first >= n) {
		r = run_groom_parts(s, 0, &end, ret_more, err);
		if ((r < 0 || *ret_more) && end < groom_n_parts(s))
			s->groom_waiting = end;
		return r;
	}
	if (s->groom_turn > first && s->groom_turn < n)
		first = s->groom_turn;
	r = run_groom_parts(s, first, &end, ret_more, err);
	s->groom_turn = end;
	*ret_more = true;
	return r;
}

int profilestore_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	uint64_t n_mended = damage_n_mended(s);
	int r = 0;

	*ret_more = false;
	pthread_mutex_lock(&s->groom_lock);
	epoch_release(s);
	r = remake_groom(s, ret_more, err);
	/* Nothing is deleted while profiles are copied. */
	if (remake_runs(s)) {
		pthread_mutex_unlock(&s->groom_lock);
		return r;
	}
	if (r == 0 && !*ret_more)
		r = groom_next_parts(s, ret_more, err);
	if (r == 0)
		r = copy_wal(s, err);
	clock_save(s, false);
	pthread_mutex_unlock(&s->groom_lock);
	if (r == 0 || !err || err->kind != ERR_DAMAGED)
		return r;
	damage_note_error(s, n_mended, err);
	if (!damage_mend(s, n_mended))
		return r;
	*ret_more = true;
	return 0;
}
