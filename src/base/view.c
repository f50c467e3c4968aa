/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of text: comparing, cutting, numbers. Path text is in path.c.
 */
#include "base/view.h"

size_t str_utf8(struct str s, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *p = (const uint8_t *)s.p;
	size_t size = *p < 0x80 ? 1 : *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
	uint32_t c = size == 1 ? *p : *p & (0xffu >> (size + 1));

	if (*p >= 0xf8 || (*p >= 0x80 && *p < 0xc0) || size > s.size)
		return 0;
	for (size_t i = 1; i < size; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	if (ret)
		*ret = c;
	return size;
}

/*
 * A maximal subpart is the longest prefix of a valid character at @p, or one byte. The valid range of the
 * second byte depends on the first (Unicode Standard, table 3-7).
 */
static size_t utf8_subpart_size(const uint8_t *p, size_t size)
{
	uint8_t low = *p == 0xe0   ? 0xa0
		      : *p == 0xf0 ? 0x90
				   : 0x80,
		high = *p == 0xed   ? 0x9f
		       : *p == 0xf4 ? 0x8f
				    : 0xbf;
	size_t whole = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2, n;

	if (*p < 0xc2 || *p > 0xf4 || size < 2 || p[1] < low || p[1] > high)
		return 1;
	for (n = 2; n < whole && n < size && (p[n] & 0xc0) == 0x80; n++)
		;
	return n;
}

struct str str_utf8_next(struct str *s)
{
	size_t n = str_utf8(*s, NULL);
	struct str one = { s->p, n };

	if (!n) {
		n = utf8_subpart_size((const uint8_t *)s->p, s->size);
		one = STR("\xef\xbf\xbd");
	}
	*s = (struct str){ s->p + n, s->size - n };
	return one;
}

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

struct str str_word(struct str *s)
{
	while (s->size && *s->p == ' ')
		*s = (struct str){ s->p + 1, s->size - 1 };
	return str_cut(s, ' ');
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
