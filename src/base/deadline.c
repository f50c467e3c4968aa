/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of work: the part that is not inline.
 */
#include "base/deadline.h"

#include <errno.h>
#include <stddef.h>
#include "base/clock.h"

struct deadline deadline_in(int64_t ms, const char *what, const char *remedy)
{
	int64_t now_ms = clock_mono_ms();

	return (struct deadline){
		.what = what,
		.remedy = remedy,
		.start_mono_ms = now_ms,
		.end_mono_ms = now_ms + ms,
	};
}

bool deadline_look(struct deadline *d)
{
	int64_t now_ms;

	if (d->state != DEADLINE_RUNS)
		return true;
	d->spent = 0;
	if (d->give_way)
		d->give_way(d->arg);
	now_ms = clock_mono_ms();
	if (d->end_mono_ms && now_ms >= d->end_mono_ms) {
		d->state = DEADLINE_PASSED;
	} else if (d->cancelled && now_ms >= d->poll_at_ms) {
		d->poll_at_ms = now_ms + DEADLINE_POLL_MS;
		if (d->cancelled(d->arg))
			d->state = DEADLINE_CANCELLED;
	}
	if (d->state == DEADLINE_RUNS)
		return false;
	/* Every later check comes here at once. */
	d->spent = DEADLINE_STEPS;
	return true;
}

int deadline_error(const struct deadline *d, struct err *err)
{
	const char *what = d->what ? d->what : "the work", *remedy = d->remedy ? d->remedy : "";

	if (d->state == DEADLINE_CANCELLED)
		err_set(err, ERR_CANCELLED, "%s was cancelled: nobody waits for it any more", what);
	else
		err_set(err, ERR_CANCELLED, "%s took longer than %lld ms%s%s", what,
			(long long)(d->end_mono_ms - d->start_mono_ms), *remedy ? ": " : "", remedy);
	if (err)
		err->os = d->state == DEADLINE_CANCELLED ? ECANCELED : ETIME;
	return -1;
}
