/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that a test can stop. Waits in the kernel (queues, poll) take real time all the same.
 */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#define NS_PER_S  1000000000LL
#define NS_PER_MS 1000000LL

static atomic_bool frozen;
static _Atomic int64_t frozen_wall_ms, frozen_mono_ns;

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts); /* these clocks cannot fail */
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t clock_mono_ns(void)
{
	if (atomic_load_explicit(&frozen, memory_order_acquire))
		return atomic_load(&frozen_mono_ns);
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void)
{
	return clock_mono_ns() / NS_PER_MS;
}

int64_t clock_wall_ms(void)
{
	if (atomic_load_explicit(&frozen, memory_order_acquire))
		return atomic_load(&frozen_wall_ms);
	return clock_ns(CLOCK_REALTIME) / NS_PER_MS;
}

int64_t clock_wall_s(void)
{
	return clock_wall_ms() / 1000;
}

int64_t clock_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_backoff(int64_t first, unsigned n, int64_t last)
{
	int64_t pause = first;

	for (; n && pause && pause < last; n--)
		pause *= 2;
	return pause < last ? pause : last;
}

void clock_test_freeze(int64_t wall_s)
{
	atomic_store(&frozen_wall_ms, wall_s * 1000);
	atomic_store(&frozen_mono_ns, clock_ns(CLOCK_MONOTONIC));
	atomic_store_explicit(&frozen, true, memory_order_release);
}

void clock_test_advance(int64_t ms)
{
	atomic_fetch_add(&frozen_wall_ms, ms);
	atomic_fetch_add(&frozen_mono_ns, ms * NS_PER_MS);
}

void clock_test_thaw(void)
{
	atomic_store_explicit(&frozen, false, memory_order_release);
}
