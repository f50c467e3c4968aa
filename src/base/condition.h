/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that are waited on for some time. It is real time, not base/clock.h's: it is the kernel that
 * waits. Who waits for a time of clock_mono_ms() looks at that clock again every now and then.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* By the monotonic clock, as all below want it. pthread_cond_destroy() undoes it. */
void condition_init(pthread_cond_t *c);

/* Under @lock: until somebody signals, or for @ms. false: nobody did in all that time. */
bool condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ms);

/* Takes @lock: until *@stop, which is under it, or for @ms. Returns *@stop. */
bool condition_pause(pthread_cond_t *c, pthread_mutex_t *lock, const bool *stop, int64_t ms);

/* @ms from now, for pthread_cond_timedwait(): for who goes on waiting when it was for another. */
struct timespec condition_deadline(int64_t ms);
