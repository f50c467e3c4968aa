/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When an endpoint is pulled.
 *
 * Each has its own place within the interval, by a hash: a thousand targets are not asked in the same instant. It stays
 * there as long as its pulls succeed, however long they take.
 */
#include "server/scrape/internal.h"

#define JITTER_PART 5

int64_t schedule_first_ms(uint64_t hash, int64_t interval_ms, int64_t wall_ms)
{
	int64_t place = (int64_t)(hash % (uint64_t)interval_ms), at = wall_ms % interval_ms;

	return place >= at ? place - at : place + interval_ms - at;
}

int64_t schedule_next_ms(int64_t due_ms, int64_t interval_ms, int64_t now_ms)
{
	if (due_ms > now_ms)
		return due_ms;
	return due_ms + ((now_ms - due_ms) / interval_ms + 1) * interval_ms;
}

int64_t schedule_backoff_ms(unsigned n_failures, int64_t interval_ms, uint64_t random)
{
	int64_t wait = clock_backoff(interval_ms, n_failures ? n_failures - 1 : 0,
				     MAX(interval_ms, (int64_t)SCRAPE_BACKOFF_MS));

	return wait - (int64_t)(random % (uint64_t)(wait / JITTER_PART + 1));
}
