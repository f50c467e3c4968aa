/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of the metadata query. Not fnmatch(3), which uses the locale of the process, needs NUL-terminated
 * strings, and may backtrack to every star. Here only the last star of a path component is tried again, which
 * is enough: a slash of the pattern matches exactly one slash of the string.
 */
#include "index/internal.h"

#include <ctype.h>

struct pat {
	const unsigned char *p, *end;
};

static bool glob_class_has(struct str name, unsigned char c)
{
	static const struct {
		const char *name;
		int (*is)(int c);
	} classes[] = {
		{ "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank }, { "cntrl", iscntrl },
		{ "digit", isdigit }, { "graph", isgraph }, { "lower", islower }, { "print", isprint },
		{ "punct", ispunct }, { "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
	};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (str_eq(name, str_of(classes[i].name)))
			return c < 0x80 && classes[i].is(c);
	return false;
}

/* "[:name:]", "[=x=]" or "[.x.]" at p: returns its kind and inner text, and moves p after it. 0: none. */
static char glob_special(struct pat *pt, struct str *ret_inside)
{
	const unsigned char *p = pt->p;
	char kind;

	if (pt->end - p < 4 || p[0] != '[' || (p[1] != ':' && p[1] != '=' && p[1] != '.'))
		return 0;
	kind = (char)p[1];
	for (const unsigned char *q = p + 2; q + 1 < pt->end && *q != '/'; q++)
		if (*q == (unsigned char)kind && q[1] == ']') {
			*ret_inside = (struct str){ (const char *)p + 2, (size_t)(q - p - 2) };
			pt->p = q + 2;
			return kind;
		}
	return 0;
}

/* One end of a range. false: the pattern ends, or a slash follows. */
static bool glob_range_end(struct pat *pt, unsigned char *ret)
{
	struct str inside;
	char kind = glob_special(pt, &inside);

	if (kind) {
		*ret = inside.size == 1 ? (unsigned char)inside.p[0] : 0;
		return true;
	}
	if (pt->p < pt->end && *pt->p == '\\')
		pt->p++;
	if (pt->p >= pt->end || *pt->p == '/')
		return false;
	*ret = *pt->p++;
	return true;
}

/*
 * Match @c with the bracket expression after a "[". false: it is not one (never closed, or a slash comes
 * first), so "[" stands for itself; *ret_is is not set and @pt stays.
 */
static bool glob_bracket(struct pat *pt, unsigned char c, bool *ret_is)
{
	struct pat at = *pt;
	bool is = false, not = false;

	if (at.p < at.end && (*at.p == '!' || *at.p == '^')) {
		not = true;
		at.p++;
	}
	for (bool first = true; at.p < at.end; first = false) {
		unsigned char low, high;
		struct str name;
		struct pat class = at;

		if (*at.p == ']' && !first) {
			pt->p = at.p + 1;
			*ret_is = is != not ;
			return true;
		}
		if (glob_special(&class, &name) == ':') {
			at = class;
			is = is || glob_class_has(name, c);
			continue;
		}
		if (!glob_range_end(&at, &low))
			return false;
		high = low;
		if (at.end - at.p >= 2 && at.p[0] == '-' && at.p[1] != ']') {
			at.p++;
			if (!glob_range_end(&at, &high))
				return false;
		}
		is = is || (c >= low && c <= high);
	}
	return false;
}

/* Match one byte with the next element of the pattern, which is no star. */
static bool glob_element(struct pat *pt, unsigned char c)
{
	unsigned char e = *pt->p++;
	bool is;

	switch (e) {
	case '?':
		return c != '/';
	case '[':
		if (glob_bracket(pt, c, &is))
			return is && c != '/';
		break;
	case '\\':
		/* A backslash at the end of the pattern matches nothing. */
		if (pt->p == pt->end)
			return false;
		e = *pt->p++;
		break;
	default:
		break;
	}
	return c == e;
}

bool index_glob_match(struct str pattern, struct str s)
{
	struct pat pt = { (const unsigned char *)pattern.p, (const unsigned char *)pattern.p + pattern.size };
	const unsigned char *p = (const unsigned char *)s.p, *end = p + s.size;
	const unsigned char *star_pattern = NULL,
			    *star = NULL; /* the last star of this component, and where to continue */

	while (p < end || pt.p < pt.end) {
		if (pt.p < pt.end && *pt.p == '*') {
			star_pattern = ++pt.p;
			star = p;
			continue;
		}
		if (p < end && pt.p < pt.end && glob_element(&pt, *p)) {
			if (*p++ == '/')
				star_pattern = NULL;
			continue;
		}
		if (!star_pattern || star == end || *star == '/')
			return false;
		pt.p = star_pattern;
		p = ++star;
	}
	return true;
}

struct str index_glob_prefix(struct str pattern)
{
	size_t n = 0;

	while (n < pattern.size && !memchr("*?[\\", pattern.p[n], 4))
		n++;
	return (struct str){ pattern.p, n };
}
