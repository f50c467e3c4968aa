/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: a place and a length, owning nothing. Whoever returns one says what keeps it alive. A str need not
 * end in NUL and need not be UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
	const char *p;
	size_t size;
};

struct bytes {
	const uint8_t *p;
	size_t size;
};

#define STR(literal) ((struct str){ "" literal "", sizeof(literal) - 1 })
#define STR_FMT      "%.*s"
#define STR_ARG(s)   (int)(s).size, (s).p

static inline struct str str_of(const char *z)
{
	return (struct str){ z, z ? strlen(z) : 0 };
}
static inline struct bytes bytes_of(const void *p, size_t size)
{
	return (struct bytes){ p, size };
}
static inline bool str_eq(struct str a, struct str b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.p, b.p, a.size) == 0);
}
static inline bool bytes_eq(struct bytes a, struct bytes b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.p, b.p, a.size) == 0);
}

/*
 * The length of the UTF-8 character that @s, not empty, begins with, and its code point (@ret may be NULL).
 * 0: it is none: RFC 3629 has no surrogates, nothing overlong, nothing above U+10FFFF.
 */
size_t str_utf8(struct str s, uint32_t *ret);
/*
 * Cut the first character off @s, not empty. Where none begins, U+FFFD is returned in place of the bytes cut
 * off, a constant of the program: one for each maximal subpart, as the Unicode Standard (section 3.9) recommends and
 * WHATWG's decoder does, so that what browsers show of the bytes and of the repaired text is the same.
 */
struct str str_utf8_next(struct str *s);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_cmp(struct str a, struct str b); /* as memcmp, the shorter first */
struct str str_trim(struct str s);       /* without leading and trailing blanks, tabs, CR, LF */
/* Cut @s at the first @c: returns what is before, leaves in *s what is after. Without @c: all, and *s is
 * empty with p NULL. */
struct str str_cut(struct str *s, char c);
struct str str_word(struct str *s); /* the same at a blank, once blanks before it are gone */
/* The whole of @s as a decimal number: false when it is not one or does not fit. */
bool str_to_u64(struct str s, uint64_t *ret);

/*
 * Path text, without looking at any disk.
 *
 * path_canonical(): RFC 3986 remove-dot-segments, and "//" becomes "/". A relative path stays relative; ".."
 * never climbs above the start. Returns the size written without the NUL; @out has room for s.size + 2 bytes.
 */
size_t path_canonical(struct str s, char *out);
bool path_is_absolute(struct str s); /* also "C:\\dir", "C:/dir" and "\\\\host\\dir": files may name what
					another system has */
struct str path_basename(struct str s);
struct str path_dirname(struct str s); /* without trailing slash; empty when there is none; "/" for "/x" */
