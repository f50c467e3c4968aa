/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of bench-profilestore. */
#pragma once

#include "profilestore/profilestore.h"

#define NOW_MS       INT64_C(1790000000000) /* the stores' own clock begins here */
#define CPU_SELECTOR "profile:cpu:nanoseconds:::delta"

/* ---- profilestore.c ---- */

struct profilestore *open_store(const char *dir);
void must(int r, const struct err *err); /* a failure ends the program */
double seconds(int64_t since_ns);        /* of CPU */
long status_kb(const char *name);        /* the kilobytes in a line of /proc/self/status */

/* ---- profilestore_large.c ---- */

/* @only: the name of a query; NULL: all. */
int bench_large(const char *dir, const char *only);
