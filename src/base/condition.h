/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on a condition for a limited time. The time is real, not base/clock.h's, since the kernel waits. A
 * thread that waits for a time of clock_mono_ms() must check that clock again at intervals.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Waits by the monotonic clock, as the functions below need it. pthread_cond_destroy() undoes it. */
void condition_init(pthread_cond_t *c);

/* Under @lock: wait for a signal, at most @ms. false: the time is over. */
bool condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ms);

/* Takes @lock, which guards *@stop: wait until *@stop, at most @ms. Returns *@stop. */
bool condition_pause(pthread_cond_t *c, pthread_mutex_t *lock, const bool *stop, int64_t ms);

/* @ms from now, for pthread_cond_timedwait(), where a wait goes on after a signal meant for another
 * thread. */
struct timespec condition_deadline(int64_t ms);
