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

/* A test in a folder with a frozen clock; a test in memory, in a bucket and in a folder. */
#define FROZEN(test) cmocka_unit_test_setup_teardown(test, set_up_frozen, tear_down)
#define IN_EACH(test)                                                            \
	cmocka_unit_test_setup_teardown(test, set_up_memory, tear_down),         \
		cmocka_unit_test_setup_teardown(test, set_up_bucket, tear_down), \
		cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* Close the store and open the same folder with other options. */
void reopen(struct store_fixture *f, const struct store_options *opts);

/* Parse a key such as "ab/source/x.c"; the test fails if it is invalid. The key borrows from @text. */
struct store_key key_of(const char *text);

/* ---- objects with a text as their content; an error fails the test ---- */

/* Put it if it is better. Returns the outcome of store_put_bytes(). */
int text_put(struct store_fixture *f, const char *key_text, enum store_origin origin,
	     enum store_quality quality, const char *content);
/* The content, or "" if the object is missing. */
const char *text_get(struct store_fixture *f, const char *key_text, struct store_meta *ret_meta);

/* Put "ab/debuginfo", pushed by @owner. */
int text_put_as(struct store_fixture *f, const char *owner, const char *content, enum store_policy policy);
/* The earlier versions of "ab/debuginfo" as "pusher>replacer ", the oldest first. */
void assert_versions(struct store_fixture *f, const char *want);
