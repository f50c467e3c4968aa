/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixture: a store in its own folder, in memory, or in a bucket.
 */
#pragma once

#include "test.h"

#include "store/store.h"

struct store_fixture {
	char dir[TEST_PATH_SIZE];     /* empty: in memory */
	struct bucket_memory *bucket; /* NULL: none; the folder has the staging files */
	struct store *st;
	struct arena arena;
};

/* For cmocka; *state is a struct store_fixture. */
int set_up(void **state);
int set_up_memory(void **state);
int set_up_bucket(void **state);
int set_up_frozen(void **state); /* with a frozen clock */
int tear_down(void **state);

/* Close the store and open the same folder with other options. */
void reopen(struct store_fixture *f, const struct store_options *opts);

/* Parse a key such as "ab/source/x.c"; the test fails if it is invalid. The key borrows from @text. */
struct store_key key_of(const char *text);
