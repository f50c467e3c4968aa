/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping, one step at a time.
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

int profilestore_groom(struct profilestore *s, bool *ret_more, struct err *err)
{
	/* In this order; each one begins when those before it have no more to do. */
	static int (*const parts[])(struct profilestore * s, bool *ret_more,
				    struct err *err) = { retain_groom, series_sweep,   room_groom,
							 sweep_groom,  segments_groom, groom_series };
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
	for (size_t i = 0; r == 0 && !*ret_more && i < ARRAY_SIZE(parts); i++)
		r = parts[i](s, ret_more, err);
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
