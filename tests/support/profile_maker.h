/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles for tests: random ones that use every field, the same for the same seed; and protobuf messages by
 * hand.
 */
#pragma once

#include "profile/profile.h"

/* A next number of a series that @state stands for. */
uint64_t profile_maker_next(uint64_t *state);

struct profile_maker {
	uint64_t seed;  /* what differs from profile to profile: samples and addresses' base */
	uint64_t world; /* what is shared: the functions and the programs that they are in */
	unsigned n_samples, n_locations, depth;
	bool unnamed; /* locations without lines */
};
struct profile *profile_make(const struct profile_maker *m);

/* All that a profile says, in an order that is its own: profiles that say the same have the same text. */
void profile_canonical(const struct profile *p, struct buf *out);
/* What it says of a location besides where that is: its lines, and whether others are folded into it. */
void profile_lines_text(const struct profile *p, const struct profile_location *l, struct buf *b);

/* A field with a number, and one with bytes. */
void proto_number(struct buf *b, unsigned field, uint64_t v);
void proto_bytes(struct buf *b, unsigned field, const void *p, size_t size);
