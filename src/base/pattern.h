/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX extended regular expressions from untrusted users, as the C library has them in the C locale (bytes; with
 * GNU's \w \W \s \S \b \B \< \> \` \'), but for back references. Only whether a text matches is found out.
 *
 * Compiling and matching are bounded for any pattern and text: a pattern is compiled into at most PATTERN_MAX_OPS
 * operations, a match takes at most so many steps for each byte of the text, usually one, and PATTERN_CACHE bytes
 * of memory. The C library's matcher is not used: for some patterns of 200 characters it takes a millisecond and
 * 40 KiB for each byte. See docs/decisions/0016-regular-expressions.md.
 */
#pragma once

#include <stdbool.h>
#include "base/deadline.h"
#include "base/err.h"
#include "base/view.h"

#define PATTERN_MAX_SIZE  4096u /* bytes */
#define PATTERN_MAX_DEPTH 64u   /* of parentheses */
#define PATTERN_MAX_OPS   2000u /* about the characters, a repeated one counted as often as it is */
/*
 * Bytes of a text that are looked at. Of a longer text a match is found in its beginning only, and '$' does not
 * match: no function has a name that long, but a planted one may.
 */
#define PATTERN_MAX_TEXT (64u << 10)
#define PATTERN_CACHE    (512u << 10)

struct pattern;

/* @whole: the pattern must match the whole text, else any part of it. ERR_INVALID, ERR_LIMIT: the text says
 * why it was refused. */
int pattern_new(struct str text, bool whole, struct pattern **ret, struct err *err);
void pattern_free(struct pattern *p); /* takes NULL */
/*
 * Used by one thread at a time. false also when @d (NULL: none) has passed, so the caller checks it some time
 * later.
 */
bool pattern_matches(struct pattern *p, struct str s, struct deadline *d);
/*
 * Rewrite an expression in the syntax of Go and Prometheus (RE2) for pattern_new(); appends. ERR_INVALID: it has a form
 * that has no equivalent here, such as (?i) or \pL; other mistakes are found by pattern_new(). Bytes, not characters,
 * are matched: characters beyond ASCII in brackets are refused, and a dot is one byte of them.
 */
struct buf;
int pattern_from_re2(struct str re2, struct buf *ret, struct err *err);
