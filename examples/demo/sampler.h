/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that samples itself: each thread by a timer of its own CPU time, its stack by frame pointers.
 * This needs no privileges, and works in containers where perf does not.
 */
#pragma once

#include <stdio.h>

#define SAMPLER_PERIOD_US 2000

struct samples;

struct samples *samples_new(void); /* NULL: no memory */
void samples_free(struct samples *s);
/* Sample the calling thread into @s until sampler_end(). */
int sampler_begin(struct samples *s);
void sampler_end(struct samples *s);
/* Write the format of gperftools' CPU profiles, with the maps after them. Negative: that failed. */
int samples_write(const struct samples *s, FILE *out);
