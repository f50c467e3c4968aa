/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of a service, for benchmarks: 12 000 locations in 4 000 functions, and 8 000 stacks, a few of which have
 * most of the time.
 */
#pragma once

#include "profile/profile.h"

uint64_t service_next(uint64_t *s); /* the next number of a pseudorandom series */
/*
 * A profile with @n_samples samples, each with a thread number as its label. @distinct: without labels, and no
 * two samples have the same stack.
 */
struct profile *service_profile(uint32_t seed, uint32_t n_samples, bool distinct);
