/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the scan and the index: what they say is what a test set.
 */
#pragma once

#include <stdatomic.h>
#include "scan/scan.h"

#define BELOW_SCAN ((struct scan *)&below_is_up) /* for server_options.scan */
extern atomic_bool below_is_up;
extern atomic_bool below_is_idle;
extern bool below_index;       /* index_open() works */
extern unsigned below_counted; /* calls of index_stats() */
extern char below_failed[256]; /* the path of a file whose scan failed, with `below_reason` */
extern char below_reason[256];
extern unsigned below_n_failed; /* so many of them, with ".1", ".2", ... behind; 0: just one, without */
