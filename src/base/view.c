/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of text: comparing, cutting, numbers. Path text is in path.c.
 */
#include "base/view.h"

bool str_starts(struct str s, struct str prefix)
{
	return s.size >= prefix.size && str_eq((struct str){ s.p, prefix.size }, prefix);
}

bool str_ends(struct str s, struct str suffix)
{
	return !suffix.size ||
	       (s.size >= suffix.size && memcmp(s.p + (s.size - suffix.size), suffix.p, suffix.size) == 0);
}

int str_cmp(struct str a, struct str b)
{
	size_t n = a.size < b.size ? a.size : b.size;
	int r = n ? memcmp(a.p, b.p, n) : 0;

	if (r)
		return r;
	return (a.size > b.size) - (a.size < b.size);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
	while (s.size && is_blank(s.p[0])) {
		s.p++;
		s.size--;
	}
	while (s.size && is_blank(s.p[s.size - 1]))
		s.size--;
	return s;
}

struct str str_cut(struct str *s, char c)
{
	const char *at = s->size ? memchr(s->p, c, s->size) : NULL;
	struct str head = *s;

	if (!at) {
		*s = (struct str){ NULL, 0 };
		return head;
	}
	head.size = (size_t)(at - s->p);
	s->p = at + 1;
	s->size -= head.size + 1;
	return head;
}

bool str_to_u64(struct str s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!s.size)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
			return false;
	}
	*ret = v;
	return true;
}
