/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included by every unit test: cmocka with the headers that it requires before it, and a few checks.
 */
#pragma once

/* clang-format off: cmocka.h needs these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
/* clang-format on */
#include "base/base.h"

#define assert_done(call)                                                           \
	({                                                                          \
		int assert_r_ = (call);                                             \
		if (assert_r_)                                                      \
			fail_msg("%s returned %d: %s", #call, assert_r_, err.text); \
	})

/* @call fails, with an `err` of @want_kind and @part in its text. */
#define assert_fails(call, want_kind, part)                                                          \
	({                                                                                           \
		err.kind = ERR_NONE;                                                                 \
		err.text[0] = '\0';                                                                  \
		assert_true((call) < 0);                                                             \
		if (err.kind != (want_kind) || !strstr(err.text, (part)))                            \
			fail_msg("%s: %s: \"%s\" is not %s: \"%s\"", #call, err_kind_name(err.kind), \
				 err.text, err_kind_name(want_kind), (part));                        \
	})

#define assert_str(s, want)                                                                            \
	({                                                                                             \
		struct str assert_s_ = (s);                                                            \
		if (!str_eq(assert_s_, str_of(want)))                                                  \
			fail_msg("%s is \"" STR_FMT "\", not \"%s\"", #s, STR_ARG(assert_s_), (want)); \
	})

/* A new empty folder; test_dir_remove() removes it with its content. @path has room for TEST_PATH_SIZE. */
#define TEST_PATH_SIZE 512
char *test_dir_make(char *path);
/* From now on it is in memory, if there is room: for a program that syncs so often that a slow disk takes minutes. */
void test_dirs_in_memory(void);
void test_dir_remove(const char *path);
void test_file_write(const char *path, const void *p, size_t n);
/* Bytes that look random and are the same in each run. */
void test_fill(void *p, size_t n, uint64_t seed);
