/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON into a buffer.
 */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

/* Classes of bytes that cannot be copied as they are. */
enum { ESCAPE = 1, MULTIBYTE = 2, HTML = 4, SLASH = 8 };
static const uint8_t byte_class[256] = {
	[0 ... 0x1f] = ESCAPE, ['"'] = ESCAPE, ['\\'] = ESCAPE,
	[0x7f] = ESCAPE,       ['<'] = HTML,   ['>'] = HTML,
	['&'] = HTML,          ['/'] = SLASH,  [0x80 ... 0xff] = MULTIBYTE,
};

bool json_in_object(const struct json_writer *w)
{
	unsigned level = w->depth - 1u;

	return w->depth && w->objects[level / 64] >> (level % 64) & 1;
}

static void line_begin(struct json_writer *w)
{
	size_t n = (size_t)w->indent * w->depth;
	uint8_t *p = buf_reserve(w->out, n + 1);

	p[0] = '\n';
	memset(p + 1, ' ', n);
	w->out->size += n + 1;
}

/* ---- strings ---- */

static void escape_add(struct buf *b, uint8_t c)
{
	static const char letters[256] = { ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['\b'] = 'b',
					   ['\f'] = 'f', ['\n'] = 'n',  ['\r'] = 'r', ['\t'] = 't' };

	if (letters[c]) {
		buf_add_char(b, '\\');
		buf_add_char(b, letters[c]);
	} else {
		buf_printf(b, "\\u%04x", c);
	}
}

/* JavaScript before 2019 ends a line at these. */
static bool is_line_separator(struct str s)
{
	return s.size == 3 && (memcmp(s.p, "\xe2\x80\xa8", 3) == 0 || memcmp(s.p, "\xe2\x80\xa9", 3) == 0);
}

static unsigned special_classes(const struct json_writer *w)
{
	return ESCAPE | MULTIBYTE | (w->for_html ? HTML : 0u) | (w->escape_slash ? SLASH : 0u);
}

/* The length of the prefix of @s in which no byte is of a class in @special. */
static inline size_t plain_size(struct str s, unsigned special)
{
	size_t i = 0;

	while (i < s.size && !(byte_class[(uint8_t)s.p[i]] & special))
		i++;
	return i;
}

/* The part of a string from the first byte on that is not plain. */
static __attribute__((noinline)) void special_add(struct json_writer *w, struct str s)
{
	unsigned special = special_classes(w);
	struct buf *b = w->out;

	while (s.size) {
		struct str one = str_utf8_next(&s);
		size_t n;

		if (is_line_separator(one) && w->for_html)
			buf_printf(b, "\\u202%c", one.p[2] == '\xa8' ? '8' : '9');
		else if (one.size == 1 && byte_class[(uint8_t)*one.p] & special)
			escape_add(b, (uint8_t)*one.p);
		else
			buf_add_str(b, one);
		n = plain_size(s, special);
		buf_add(b, s.p, n);
		s = (struct str){ s.p + n, s.size - n };
	}
}

/* Between quotes. Nearly all text is plain. */
static void string_add(struct json_writer *w, struct str s)
{
	size_t n = plain_size(s, special_classes(w));
	struct buf *b = w->out;
	uint8_t *p = buf_reserve(b, s.size + 2);

	*p = '"';
	if (n)
		memcpy(p + 1, s.p, n);
	b->size += n + 1;
	if (n < s.size)
		special_add(w, (struct str){ s.p + n, s.size - n });
	buf_add_char(b, '"');
}

/* ---- between values ---- */

static inline void separator_add(struct json_writer *w)
{
	if (w->has_value)
		buf_add_char(w->out, ',');
	if (w->indent && w->depth)
		line_begin(w);
}

void json_key(struct json_writer *w, struct str key)
{
	assert(json_in_object(w) && !w->has_key);
	separator_add(w);
	string_add(w, key);
	if (w->indent)
		buf_add_str(w->out, STR(": "));
	else
		buf_add_char(w->out, ':');
	w->has_key = true;
}

/* As json_key(), for a constant of the program, which needs no escape. */
static void key_add(struct json_writer *w, const char *key)
{
	size_t n = strlen(key);
	uint8_t *p;

	assert(json_in_object(w) && !w->has_key);
	if (w->has_value || w->indent)
		separator_add(w);
	p = buf_reserve(w->out, n + 4);
	*p++ = '"';
	memcpy(p, key, n);
	p += n;
	*p++ = '"';
	*p++ = ':';
	if (w->indent)
		*p++ = ' ';
	w->out->size = (size_t)(p - w->out->p);
	w->has_key = true;
}

/* Write everything that comes before a value. */
static inline void value_begin(struct json_writer *w, const char *key)
{
	if (key)
		key_add(w, key);
	assert(w->has_key == json_in_object(w));
	if (!w->has_key)
		separator_add(w);
	w->has_key = false;
	w->has_value = true;
}

static void level_open(struct json_writer *w, const char *key, bool object)
{
	uint64_t *bits;

	value_begin(w, key);
	assert(w->depth < JSON_DEPTH_MAX);
	bits = &w->objects[w->depth / 64];
	*bits = (*bits & ~(UINT64_C(1) << w->depth % 64)) | (uint64_t)object << w->depth % 64;
	w->depth++;
	w->has_value = false;
	buf_add_char(w->out, object ? '{' : '[');
}

void json_open_object(struct json_writer *w, const char *key)
{
	level_open(w, key, true);
}

void json_open_array(struct json_writer *w, const char *key)
{
	level_open(w, key, false);
}

void json_close(struct json_writer *w)
{
	bool object = json_in_object(w);

	assert(w->depth && !w->has_key);
	w->depth--;
	if (w->indent && w->has_value)
		line_begin(w);
	buf_add_char(w->out, object ? '}' : ']');
	w->has_value = true;
}

/* ---- values ---- */

void json_put_str(struct json_writer *w, const char *key, struct str s)
{
	value_begin(w, key);
	string_add(w, s);
}

void json_put_text(struct json_writer *w, const char *key, const char *z)
{
	if (z)
		json_put_str(w, key, str_of(z));
	else
		json_put_null(w, key);
}

void json_put_printf(struct json_writer *w, const char *key, const char *fmt, ...)
{
	struct buf *b = w->out;
	AUTO(buf_done) struct buf copy = { 0 };
	struct str text;
	size_t start;
	va_list ap;

	value_begin(w, key);
	start = b->size;
	buf_add_char(b, '"');
	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
	text = (struct str){ (const char *)b->p + start + 1, b->size - start - 1 };
	if (plain_size(text, special_classes(w)) == text.size) {
		buf_add_char(b, '"');
		return;
	}
	buf_add_str(&copy, text);
	b->size = start;
	string_add(w, buf_str(&copy));
}

void json_put_uint(struct json_writer *w, const char *key, uint64_t v)
{
	value_begin(w, key);
	buf_add_decimal(w->out, v);
}

void json_put_int(struct json_writer *w, const char *key, int64_t v)
{
	value_begin(w, key);
	if (v < 0)
		buf_add_char(w->out, '-');
	buf_add_decimal(w->out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void json_put_double(struct json_writer *w, const char *key, double v)
{
	char text[32];
	char *p;

	if (!isfinite(v)) {
		json_put_null(w, key);
		return;
	}
	value_begin(w, key);
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	/* The decimal point follows the locale. */
	p = text + strcspn(text, ",");
	if (*p)
		*p = '.';
	buf_add_str(w->out, str_of(text));
	/* Readers distinguish integers from reals: the kind must not depend on the value. */
	if (!strpbrk(text, ".e"))
		buf_add_str(w->out, STR(".0"));
}

void json_put_bool(struct json_writer *w, const char *key, bool v)
{
	json_put_raw(w, key, v ? STR("true") : STR("false"));
}

void json_put_null(struct json_writer *w, const char *key)
{
	json_put_raw(w, key, STR("null"));
}

void json_put_raw(struct json_writer *w, const char *key, struct str json)
{
	const char *end;

	value_begin(w, key);
	/* Every line of @json begins deeper by this depth. Strings have no line ends: they are escaped. */
	while (w->indent && (end = memchr(json.p, '\n', json.size))) {
		size_t n = (size_t)(end - json.p);

		buf_add(w->out, json.p, n);
		line_begin(w);
		json = (struct str){ end + 1, json.size - n - 1 };
	}
	buf_add_str(w->out, json);
}
