/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that ages of profiles are counted by: see clock.c.
 */
#pragma once

#include <pthread.h>
#include "base/base.h"

#define CLOCK_SAVE_EVERY_MS \
	INT64_C(120000) /* the time is in the file so often, unless the clock is doubted */

struct store_clock {
	pthread_mutex_t lock;
	/* under the lock */
	int64_t wall_ms, mono_ms; /* at the last reading */
	int64_t time_ms;          /* the time then */
	int64_t steady_since_ms;  /* monotonic: the wall clock has not jumped since */
	bool doubted;
};

struct store_time {
	int64_t now_ms;
	bool doubted, changed; /* the wall clock is elsewhere; that has begun or ended with this reading */
	int64_t apart_ms;      /* how far it is ahead (negative: behind) while it is doubted */
	int64_t confirm_ms;    /* how long it still has to be steady */
	int64_t steady_ms;     /* how long it has been steady */
};

/*
 * @newest_ms: a time that was certainly reached, that of the newest profile; INT64_MIN: none. @steady_ms: the wall clock
 * went on steadily for so long before, in processes that doubted it.
 */
void store_clock_open(struct store_clock *c, int64_t wall_ms, int64_t mono_ms, int64_t newest_ms,
		      int64_t steady_ms);
void store_clock_close(struct store_clock *c);
/* From any thread; it has to be read more often than once an hour to notice each jump. */
struct store_time store_clock_read(struct store_clock *c, int64_t wall_ms, int64_t mono_ms);
