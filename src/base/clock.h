/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. Code that decides by time (back-off, intervals, expiry) uses these clocks, so that a test can move
 * them.
 */
#pragma once

#include <stdint.h>

int64_t clock_mono_ms(void); /* never goes back; for durations and deadlines */
int64_t clock_mono_ns(void);
int64_t clock_wall_s(void); /* seconds since 1970, for times that are stored or shown */
int64_t clock_wall_ms(void);
int64_t clock_cpu_ns(void); /* CPU time of this process */

/* The pause after @n earlier failures, in any unit: @first, doubled with each of them, at most @last. */
int64_t clock_backoff(int64_t first, unsigned n, int64_t last);

/* For tests: both clocks stop at these values and move only by clock_test_advance(). */
void clock_test_freeze(int64_t wall_s);
void clock_test_advance(int64_t ms);
void clock_test_thaw(void);
