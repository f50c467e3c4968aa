/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a folder of its own, or in memory, and keys, for tests.
 */
#pragma once

#include "test.h"

#include "store/store.h"

struct fixture {
	char dir[TEST_PATH_SIZE]; /* empty: in memory */
	struct store *st;
	struct arena arena;
};

/* For cmocka; *state is the fixture. */
int set_up(void **state);
int set_up_memory(void **state);
int set_up_frozen(void **state); /* the clock is the test's */
int tear_down(void **state);

/* The same folder again, by other options. */
void reopen(struct fixture *f, const struct store_options *opts);

/* "ab/source/x.c"; ends the test where it is none. It borrows from @text. */
struct store_key key_of(const char *text);
