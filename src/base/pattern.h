/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX extended regular expressions that come from strangers.
 *
 * The C library copies what is repeated, so that "((a{99}){99}){99}" takes all memory there is, goes down a
 * level for each parenthesis, and tries all ways there are of references back ("\1"). So what a pattern costs
 * is reckoned before it is compiled, and what costs too much is refused; references back are too. Anchors,
 * and loops around what may be empty ("(a*)*"), make it copy what is beside them, each as much again as the
 * one before: so there are few anchors, and such loops, which say nothing, are refused.
 */
#pragma once

#include <stdbool.h>
#include "base/err.h"
#include "base/view.h"

#define PATTERN_MAX_SIZE    4096u /* bytes */
#define PATTERN_MAX_DEPTH   64u   /* of parentheses */
#define PATTERN_MAX_ANCHORS 8u
#define PATTERN_MAX_COST    1000u /* characters, those that are repeated as often as they are */

struct pattern;

/* @whole: it has to match all of a text, else it may be found anywhere. ERR_INVALID, ERR_LIMIT: what is wrong
 * with it. */
int pattern_new(struct str text, bool whole, struct pattern **ret, struct err *err);
void pattern_free(struct pattern *p);                        /* takes NULL */
bool pattern_matches(const struct pattern *p, struct str s); /* by any number of threads */
