/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a line, for the formats that are text.
 */
#pragma once

#include "base/base.h"

/* Cut off the first word; empty: there is none. Words are separated by blanks and tabs. */
struct str words_next(struct str *s);
/*
 * Cut off the first line, trimmed. In front of it there may be the prefix of a log, "W1220 15:07:15.2 8272 log.cc:12] ", which
 * is left out; comments ("#") are taken literally.
 */
struct str words_line(struct str *text);
/* All of @s, with or without 0x: at most 16 digits. */
bool words_hex(struct str s, uint64_t *ret);
/* All of @s, decimal, with or without a minus. */
bool words_int(struct str s, int64_t *ret);
/*
 * The beginning of *s must match @form, in which 'n' is a number (into *v, which advances), and other
 * characters are themselves; each may be preceded by blanks. It is cut off only if all of it matches.
 */
bool words_scan(struct str *s, const char *form, int64_t *v);
