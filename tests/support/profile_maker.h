/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles for tests: random ones that use every field, the same for the same seed; and protobuf messages by
 * hand.
 */
#pragma once

#include "profile/profile.h"

/* The next number of the series of @state. */
uint64_t profile_maker_next(uint64_t *state);

struct profile_maker {
	uint64_t seed;  /* seed of one profile: samples and addresses' base */
	uint64_t world; /* shared seed: the functions and their programs */
	unsigned n_samples, n_locations, depth;
	bool unnamed; /* locations without lines */
};
/* The one of number @i of many, by the next numbers of @seed: up to @most samples, 30 locations, a depth of 12. */
struct profile_maker profile_maker_of(unsigned i, uint64_t *seed, unsigned most);
struct profile *profile_make(const struct profile_maker *m);

/* The whole content of a profile as text, in a canonical order: profiles with the same content have the same
 * text. */
void profile_canonical(const struct profile *p, struct buf *out);
/* A location without its position: its lines, and whether others are folded into it. */
void profile_lines_text(const struct profile *p, const struct profile_location *l, struct buf *b);

/* A field with a number, and one with bytes. */
void proto_number(struct buf *b, unsigned field, uint64_t v);
void proto_bytes(struct buf *b, unsigned field, const void *p, size_t size);
