/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting on a condition for some time.
 */
#include "base/condition.h"

#include <errno.h>
#include "base/mem.h"

#define NS_PER_S 1000000000L
#define MS_MAX   ((int64_t)INT32_MAX * 1000) /* 68 years are for ever */

void condition_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

struct timespec condition_deadline(int64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ms = MIN(MAX(ms, (int64_t)0), MS_MAX);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000;
	ts.tv_sec += ts.tv_nsec / NS_PER_S;
	ts.tv_nsec %= NS_PER_S;
	return ts;
}

bool condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ms)
{
	const struct timespec until = condition_deadline(ms);

	return pthread_cond_timedwait(c, lock, &until) != ETIMEDOUT;
}

bool condition_pause(pthread_cond_t *c, pthread_mutex_t *lock, const bool *stop, int64_t ms)
{
	const struct timespec until = condition_deadline(ms);
	bool stopped;

	pthread_mutex_lock(lock);
	while (!*stop && pthread_cond_timedwait(c, lock, &until) == 0)
		;
	stopped = *stop;
	pthread_mutex_unlock(lock);
	return stopped;
}
