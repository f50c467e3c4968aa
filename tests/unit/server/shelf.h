/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that has a small and a large artifact, and a broken one ("beef"). Each test has a server of its
 * own.
 */
#pragma once

#include "fixture.h"

#define SHELF_ID    "0123456789abcdef"
#define SHELF_PATH  "/buildid/" SHELF_ID "/debuginfo"
#define SHELF_SMALL 1000u
#define SHELF_LARGE (MIB(1) + 123)

extern struct fixture shelf;
extern struct bytes shelf_small, shelf_large; /* debug file and program of SHELF_ID */

int shelf_setup_with(void (*change)(struct server_options *o));
int shelf_setup(void **state);
int shelf_setup_impatient(void **state);
int shelf_teardown(void **state);
#define shelf_test(test, setup) cmocka_unit_test_setup_teardown(test, setup, shelf_teardown)

struct http_answer shelf_get(const char *path, const char *headers);
