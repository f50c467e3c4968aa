/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX extended regular expressions from untrusted users.
 *
 * The C library copies a repeated part, so that "((a{99}){99}){99}" takes all memory; it recurses once for
 * each parenthesis; and it tries all ways to match back references ("\1"). So the cost of a pattern is
 * computed before it is compiled, and a pattern that costs too much is refused, as are back references.
 * Anchors, and loops around parts that may be empty ("(a*)*"), make the library copy the parts beside them,
 * each as much again as the one before: so anchors are limited, and such loops, which mean nothing more than
 * a*, are refused.
 */
#pragma once

#include <stdbool.h>
#include "base/err.h"
#include "base/view.h"

#define PATTERN_MAX_SIZE    4096u /* bytes */
#define PATTERN_MAX_DEPTH   64u   /* of parentheses */
#define PATTERN_MAX_ANCHORS 8u
#define PATTERN_MAX_COST    1000u /* characters, a repeated one counted as often as it is */

struct pattern;

/* @whole: the pattern must match the whole text, else any part of it. ERR_INVALID, ERR_LIMIT: the text says
 * why it was refused. */
int pattern_new(struct str text, bool whole, struct pattern **ret, struct err *err);
void pattern_free(struct pattern *p);                        /* takes NULL */
bool pattern_matches(const struct pattern *p, struct str s); /* safe for any number of threads */
