/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request with many profiles, each judged by itself (docs/decisions/0035): one that is refused does not keep the
 * others from being stored. The reply then names the first that was refused, with a code that is final.
 */
#pragma once

#include "server/intake/intake.h"

#define BULK_MAX_PROFILES 10000u

struct bulk {
	struct api *a;
	size_t n, n_refused;
	struct err first; /* of n_refused */
};

/* Count one more profile. Negative: there are too many, or the request's time is over. */
int bulk_next(struct bulk *b, struct err *err);
/* This profile was refused for @why. Negative: not for itself, but since the server cannot take any now. */
int bulk_refused(struct bulk *b, const struct err *why, struct err *err);
/* All were passed on. Negative: some were refused, or there were none. */
int bulk_end(const struct bulk *b, struct err *err);
/* For take_end(): a reply without fields. */
void bulk_answer(struct api *a, const struct profilestore_receipt *r);
