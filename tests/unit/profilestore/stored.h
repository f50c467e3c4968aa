/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of profilestore: a store in a fresh folder with a clock that stands still, and the text
 * of a profile in an order of its own.
 */
#pragma once

#include "profile_maker.h"
#include "profilestore/internal.h"
#include "test.h"

#define NOW_MS INT64_C(1790000000000)
#define MINUTE INT64_C(60000)
#define HOUR   (60 * MINUTE)

extern int64_t stored_now_ms;

struct stored {
	char dir[TEST_PATH_SIZE];
	struct profilestore *s;
	struct profilestore_options o;
};
void stored_open(struct stored *t);       /* a fresh folder */
void stored_open_there(struct stored *t); /* the folder that it has */
void stored_again(struct stored *t);      /* closed and opened */
void stored_done(struct stored *t);

/* A profile of the maker's, at @time_ms. */
struct profile *stored_profile(uint64_t seed, int64_t time_ms);
/* With one label, "service". */
struct profilestore_receipt stored_add(struct stored *t, const struct profile *p, const char *service);

/* A fresh folder with @n profiles, each a minute before the next: of "shop" and "web" in turn. */
void stored_two_services(struct stored *t, unsigned n);

/* As its fields say, waiting for the result. */
struct profilestore_receipt stored_upload(struct stored *t, const struct profilestore_upload *u);

#define CPU "profile:cpu:nanoseconds:cpu:nanoseconds:delta"
struct profilestore_range stored_range(const char *selector, int64_t from_ms, int64_t to_ms);
void stored_range_done(struct profilestore_range *r);
struct profilestore_merged stored_merge(struct stored *t, const char *selector, int64_t from_ms,
					int64_t to_ms);

/*
 * Stacks and their sums, one per line, sorted: of one type, without labels. Addresses are those in the file.
 */
char *stored_text(const struct profile *p, uint32_t type);
void stored_groom(struct stored *t); /* until there is no more to do */
