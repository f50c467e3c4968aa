/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a line, for the formats that are text.
 */
#pragma once

#include "base/base.h"

/* The next word, which is taken off; empty: there is none. Blanks and tabs are between words. */
struct str words_next(struct str *s);
/* All of @s, with or without 0x: at most 16 digits. */
bool words_hex(struct str s, uint64_t *ret);
/* All of @s, decimal, with or without a minus. */
bool words_int(struct str s, int64_t *ret);
/*
 * The beginning of *s after @form, in which 'n' is a number (into *v, which goes on), and all else is itself;
 * blanks may be before each. It is taken off only if all of it is there.
 */
bool words_scan(struct str *s, const char *form, int64_t *v);
