/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers of pprof's older formats. */
#pragma once

#include "base/base.h"

/*
 * Estimate the totals of a sample of one in about @rate bytes: an allocation is sampled with a probability by
 * its size.
 */
void legacy_scale_heap(int64_t *n, int64_t *size, uint64_t rate);
int64_t legacy_round(double v); /* saturated */
/* The product, saturated. */
int64_t legacy_multiply(int64_t a, int64_t b);
/* Cut off the lines after the first one that announces the text of /proc/self/maps; empty: there is none. */
struct str legacy_cut_maps(struct str *text);
/* Cut off lines up to the first one that is neither empty nor a comment, which is returned. *n counts them. */
struct str legacy_first_line(struct str *text, uint64_t *n);
