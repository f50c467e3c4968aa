/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs for the scan and the index: they return values that a test sets.
 */
#pragma once

#include <stdatomic.h>
#include "scan/scan.h"

#define STUB_SCAN ((struct scan *)&stub_is_up) /* for server_options.scan */
extern atomic_bool stub_is_up;
extern atomic_bool stub_is_idle;
extern bool stub_index;       /* index_open() works */
extern unsigned stub_counted; /* calls of index_stats() */
extern char stub_failed[256]; /* the path of a file whose scan failed, with `stub_reason` */
extern char stub_reason[256];
extern unsigned stub_n_failed; /* so many failed files, named ".1", ".2", ...; 0: one, without a number */
