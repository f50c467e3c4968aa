/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: a pointer and a length, owning nothing. A function that returns one says what keeps it alive. A str
 * need not end in NUL and need not be UTF-8.
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
 * The length of the UTF-8 character at the start of @s, which is not empty, and its code point (@ret may be
 * NULL). 0: there is no valid one: RFC 3629 excludes surrogates, overlong forms, and code points above
 * U+10FFFF.
 */
size_t str_utf8(struct str s, uint32_t *ret);
/*
 * Cut the first character off @s, which is not empty. If it is invalid, a constant with U+FFFD is returned in
 * place of the bytes cut off: one for each maximal subpart, as the Unicode Standard (section 3.9) recommends
 * and WHATWG's decoder does, so that browsers show the bytes and the repaired text alike.
 */
struct str str_utf8_next(struct str *s);
/*
 * Whether a character makes a terminal or a page show another line than the text is: control characters, in C1 too
 * (U+009B is an escape sequence's start), line separators and direction marks.
 */
static inline bool utf8_is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_cmp(struct str a, struct str b); /* as memcmp; a prefix comes first */
struct str str_trim(struct str s);       /* without leading and trailing blanks, tabs, CR, LF */
/* Cut @s at the first @c: returns the part before, leaves the part after in *s. Without @c it returns all,
 * and *s is empty with p NULL. */
struct str str_cut(struct str *s, char c);
struct str str_word(struct str *s); /* the same at a blank, after skipping leading blanks */
/* The whole of @s as a decimal number; false: it is none, or does not fit. */
bool str_to_u64(struct str s, uint64_t *ret);

/*
 * Path text, without access to any disk.
 *
 * path_canonical(): RFC 3986 remove-dot-segments, and "//" becomes "/". A relative path stays relative; ".."
 * never climbs above the start. Returns the size written without the NUL; @out has room for s.size + 2 bytes.
 */
size_t path_canonical(struct str s, char *out);
size_t path_rooted(struct str s, char *out); /* the same, and a relative path gets a leading slash */
bool path_is_absolute(struct str s); /* also "C:\\dir", "C:/dir" and "\\\\host\\dir": files may name what
					another system has */
struct str path_basename(struct str s);
struct str path_dirname(struct str s); /* without trailing slash; empty when there is none; "/" for "/x" */
