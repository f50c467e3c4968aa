/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a line, for the formats that are text.
 */
#include "profile/words.h"

static bool is_word_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_decimal_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct str skip_chars(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.size - n };
}

static struct str skip_word_blanks(struct str s)
{
	while (s.size && is_word_blank(s.p[0]))
		s = skip_chars(s, 1);
	return s;
}

struct str words_next(struct str *s)
{
	struct str w = { 0 };

	if (!s->size)
		return w;
	*s = skip_word_blanks(*s);
	w.p = s->p;
	while (w.size < s->size && !is_word_blank(s->p[w.size]))
		w.size++;
	*s = skip_chars(*s, w.size);
	return w;
}

/* The length of "W1220 15:07:15.201776    8272 logger.cc:12033] "; 0: it is another text. */
static size_t log_prefix(struct str line)
{
	const char *end = line.size && line.p[0] != '#' ? memchr(line.p, ']', line.size) : NULL;
	size_t n = end ? (size_t)(end - line.p) : 0, digits = n;

	if (!n || memchr(line.p, '[', n) || n + 1 == line.size || !is_word_blank(line.p[n + 1]))
		return 0;
	while (digits && is_decimal_digit(line.p[digits - 1]))
		digits--;
	return digits < n && digits > 1 && line.p[digits - 1] == ':' ? n + 2 : 0;
}

struct str words_line(struct str *text)
{
	struct str line = str_trim(str_cut(text, '\n'));

	return str_trim(skip_chars(line, log_prefix(line)));
}

bool words_hex(struct str s, uint64_t *ret)
{
	uint64_t v = 0;

	if (str_starts(s, STR("0x")))
		s = skip_chars(s, 2);
	if (!s.size || s.size > 16)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		int digit = hex_digit(s.p[i], true);

		if (digit < 0)
			return false;
		v = v << 4 | (uint64_t)digit;
	}
	*ret = v;
	return true;
}

bool words_int(struct str s, int64_t *ret)
{
	bool minus = s.size && s.p[0] == '-';
	uint64_t v;

	if (minus)
		s = skip_chars(s, 1);
	if (!str_to_u64(s, &v) || v > INT64_MAX)
		return false;
	*ret = minus ? -(int64_t)v : (int64_t)v;
	return true;
}

static bool scan_number(struct str *s, int64_t *v)
{
	size_t n = s->size && s->p[0] == '-';

	while (n < s->size && is_decimal_digit(s->p[n]))
		n++;
	if (!words_int((struct str){ s->p, n }, v))
		return false;
	*s = skip_chars(*s, n);
	return true;
}

bool words_scan(struct str *s, const char *form, int64_t *v)
{
	struct str at = *s;

	for (; *form; form++) {
		at = skip_word_blanks(at);
		if (*form == 'n') {
			if (!scan_number(&at, v++))
				return false;
		} else if (at.size && at.p[0] == *form) {
			at = skip_chars(at, 1);
		} else {
			return false;
		}
	}
	*s = at;
	return true;
}
