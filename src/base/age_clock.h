/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time by which the age of stored data is counted: see age_clock.c.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define AGE_CLOCK_CONFIRM_MOST_MS INT64_C(86400000) /* after so long a steady clock is believed in any case */

struct age_clock {
	pthread_mutex_t lock;
	/* under the lock */
	int64_t wall_ms, mono_ms; /* at the last reading */
	int64_t time_ms;          /* the time then */
	int64_t steady_since_ms;  /* monotonic: the wall clock has not jumped since */
	bool doubted;
};

struct age_time {
	int64_t now_ms;
	int64_t least_ms; /* the earlier of this and the wall clock: by it nothing is deleted too early, also in doubt */
	bool doubted, changed; /* the wall clock is elsewhere; that has begun or ended with this reading */
	int64_t apart_ms;      /* how far it is ahead (negative: behind) while it is doubted */
	int64_t confirm_ms;    /* how long it still has to be steady */
	int64_t steady_ms;     /* how long it has been steady */
};

/*
 * @reached_ms: a time that was certainly reached, such as that of the newest data; INT64_MIN: none. @steady_ms: the wall
 * clock went on steadily for so long before, in processes that doubted it.
 */
void age_clock_open(struct age_clock *c, int64_t wall_ms, int64_t mono_ms, int64_t reached_ms,
		    int64_t steady_ms);
void age_clock_close(struct age_clock *c);
/* From any thread; it has to be read more often than once an hour to notice each jump. */
struct age_time age_clock_read(struct age_clock *c, int64_t wall_ms, int64_t mono_ms);
/* The least_ms of now, where the wall clock cannot be read: both clocks went on since the last reading. Confirms nothing. */
int64_t age_clock_least_ms(struct age_clock *c, int64_t mono_ms);
