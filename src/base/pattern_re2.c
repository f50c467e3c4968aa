/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions in the syntax of Go and Prometheus (RE2), rewritten in that of pattern.c. A form without an
 * equivalent is refused: it would match other texts in silence.
 */
#include "base/pattern.h"

#include "base/base.h"
#include "base/buf.h"

#define SPECIAL "\\.[](){}*+?|^$"

struct re2_reader {
	const char *p, *end;
	struct buf *out;
};

static int re2_refused(const struct re2_reader *r, const char *from, struct err *err)
{
	return err_set(err, ERR_INVALID, "%.*s is not supported", (int)MIN(r->end - from, 12), from);
}

static bool re2_takes(struct re2_reader *r, const char *text)
{
	struct str rest = { r->p, (size_t)(r->end - r->p) };

	if (!str_starts(rest, str_of(text)))
		return false;
	r->p += strlen(text);
	return true;
}

static void re2_byte(struct re2_reader *r, char c)
{
	if (c && strchr(SPECIAL, c))
		buf_add_char(r->out, '\\');
	buf_add_char(r->out, c);
}

/* The byte of an escape such as \n, \x41 or \. after the backslash. false: it is no byte. */
static bool re2_escaped_byte(struct re2_reader *r, char *ret)
{
	static const char letters[] = "afnrtv", bytes[] = "\a\f\n\r\t\v";
	char c = r->p < r->end ? *r->p : 0;
	const char *at = c ? strchr(letters, c) : NULL;
	int high, low;

	if (c == 'x') {
		high = r->end - r->p > 2 ? hex_digit(r->p[1], true) : -1;
		low = high >= 0 ? hex_digit(r->p[2], true) : -1;
		/* Above 127 it is a character of two bytes. */
		if (low < 0 || high > 7)
			return false;
		r->p += 3;
		*ret = (char)(high << 4 | low);
		return *ret != 0;
	}
	if (!at && (!c || (unsigned char)c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    (c >= '0' && c <= '9')))
		return false;
	r->p++;
	*ret = at ? bytes[at - letters] : c;
	return true;
}

/* After the backslash, outside of brackets. */
static int re2_escape(struct re2_reader *r, struct err *err)
{
	static const struct {
		char letter;
		const char *is;
	} classes[] = { { 'd', "[0-9]" }, { 'D', "[^0-9]" }, { 'w', "\\w" }, { 'W', "\\W" }, { 's', "\\s" },
			{ 'S', "\\S" },   { 'b', "\\b" },    { 'B', "\\B" }, { 'A', "\\`" }, { 'z', "\\'" } };
	const char *from = r->p - 1;
	char c;

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (r->p < r->end && *r->p == classes[i].letter) {
			buf_add_str(r->out, str_of(classes[i].is));
			r->p++;
			return 0;
		}
	if (re2_takes(r, "Q")) {
		while (r->p < r->end && !re2_takes(r, "\\E"))
			re2_byte(r, *r->p++);
		return 0;
	}
	if (!re2_escaped_byte(r, &c))
		return re2_refused(r, from, err);
	re2_byte(r, c);
	return 0;
}

static void re2_set_byte(struct re2_reader *r, char c)
{
	if (c && strchr("]^-[\\", c))
		buf_printf(r->out, "[.%c.]", c);
	else
		buf_add_char(r->out, c);
}

static int re2_set_escape(struct re2_reader *r, struct err *err)
{
	const char *from = r->p - 1;
	char c;

	if (re2_takes(r, "d"))
		buf_add_str(r->out, STR("0-9"));
	else if (re2_takes(r, "w"))
		buf_add_str(r->out, STR("[:alnum:]_"));
	else if (re2_takes(r, "s"))
		buf_add_str(r->out, STR("[:space:]"));
	else if (re2_escaped_byte(r, &c))
		re2_set_byte(r, c);
	else
		return re2_refused(r, from, err);
	return 0;
}

/* After "[", up to "]". */
static int re2_set(struct re2_reader *r, struct err *err)
{
	const char *from = r->p - 1, *first;

	buf_add_char(r->out, '[');
	if (re2_takes(r, "^"))
		buf_add_char(r->out, '^');
	for (first = r->p; r->p < r->end && (*r->p != ']' || r->p == first);) {
		char c = *r->p++;

		if ((unsigned char)c >= 0x80)
			return re2_refused(r, from, err);
		if (c == '\\') {
			if (re2_set_escape(r, err) < 0)
				return -1;
		} else if (c == '[' && re2_takes(r, ":")) {
			buf_add_str(r->out, STR("[:"));
			while (r->p < r->end && !re2_takes(r, ":]"))
				buf_add_char(r->out, *r->p++);
			buf_add_str(r->out, STR(":]"));
		} else if (c == '-' && r->p - 1 > first && r->p < r->end && *r->p != ']') {
			buf_add_char(r->out, '-');
		} else {
			re2_set_byte(r, c);
		}
	}
	if (r->p == r->end)
		return err_set(err, ERR_INVALID, "unmatched [");
	r->p++;
	buf_add_char(r->out, ']');
	return 0;
}

/* After "(". */
static int re2_group(struct re2_reader *r, struct err *err)
{
	const char *from = r->p - 1;

	buf_add_char(r->out, '(');
	if (!re2_takes(r, "?") || re2_takes(r, ":") || re2_takes(r, "s:"))
		return 0;
	/* A dot matches a line end in any case. */
	if (re2_takes(r, "s)")) {
		buf_add_char(r->out, ')');
		return 0;
	}
	if (!re2_takes(r, "P<") && !re2_takes(r, "<"))
		return re2_refused(r, from, err);
	while (r->p < r->end && *r->p != '>')
		r->p++;
	r->p += r->p < r->end;
	return 0;
}

/* After "{" of "{3}", "{3,}", "{3,5}"; any other "{" is a character. */
static bool re2_repeats(struct re2_reader *r)
{
	const char *p = r->p;
	bool digits = false;

	for (; p < r->end && *p >= '0' && *p <= '9'; p++)
		digits = true;
	if (p < r->end && *p == ',')
		for (p++; p < r->end && *p >= '0' && *p <= '9';)
			p++;
	if (!digits || p == r->end || *p != '}')
		return false;
	buf_add(r->out, r->p - 1, (size_t)(p - r->p) + 2);
	r->p = p + 1;
	return true;
}

int pattern_from_re2(struct str re2, struct buf *ret, struct err *err)
{
	struct re2_reader r = { re2.p, re2.p + re2.size, ret };

	while (r.p < r.end) {
		char c = *r.p++;
		bool repeats = c == '*' || c == '+' || c == '?' || (c == '{' && re2_repeats(&r));
		int res = 0;

		if (c == '\\')
			res = re2_escape(&r, err);
		else if (c == '[')
			res = re2_set(&r, err);
		else if (c == '(')
			res = re2_group(&r, err);
		else if (c == '{' && !repeats)
			re2_byte(&r, c);
		else if (c != '{')
			buf_add_char(ret, c);
		if (res < 0)
			return -1;
		/* Lazy or not, the same texts match. */
		if (repeats)
			re2_takes(&r, "?");
	}
	return 0;
}
