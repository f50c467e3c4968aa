/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of a service, for benches: 12 000 places in 4 000 functions, and 8 000 paths through them of which
 * few take most of the time.
 */
#pragma once

#include "profile/profile.h"

uint64_t service_next(uint64_t *s); /* a next number of a series that looks random */
/*
 * @n_samples of them, with the number of a thread each. @distinct: without threads, and so that no two have
 * the same stack.
 */
struct profile *service_profile(uint32_t seed, uint32_t n_samples, bool distinct);
