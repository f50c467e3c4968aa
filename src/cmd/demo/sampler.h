/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that samples itself: each thread by a timer of its own CPU time, its stack by frame pointers.
 * Needs no privileges, and works in containers where perf does not.
 */
#pragma once

#include <stdio.h>

#define SAMPLER_PERIOD_US 2000

struct samples;

struct samples *samples_new(void); /* NULL: no memory */
void samples_free(struct samples *s);
/* From here to the end of it, the calling thread is sampled into @s. */
int sampler_begin(struct samples *s);
void sampler_end(struct samples *s);
/* As gperftools writes CPU profiles, with the maps behind them. Negative: it could not be written. */
int samples_write(const struct samples *s, FILE *out);
