/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with a small, a large and a broken artifact ("beef"). Each test has a server of its own.
 */
#pragma once

#include "fixture.h"

#define SAMPLE_ID    "0123456789abcdef"
#define SAMPLE_PATH  "/buildid/" SAMPLE_ID "/debuginfo"
#define SAMPLE_SMALL 1000u
#define SAMPLE_LARGE (MIB(1) + 123)

extern struct server_fixture sample;
extern struct bytes sample_small, sample_large; /* debug file and program of SAMPLE_ID */

int sample_setup_with(void (*change)(struct server_options *o));
int sample_setup(void **state);
int sample_setup_impatient(void **state);
int sample_teardown(void **state);
#define sample_test(test, setup) cmocka_unit_test_setup_teardown(test, setup, sample_teardown)

struct http_answer sample_get(const char *path, const char *headers);
