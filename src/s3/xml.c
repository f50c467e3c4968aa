/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML reader: one pass, without recursion; the depth, the names and the text of an element are bounded.
 */
#include "s3/xml.h"

void xml_init(struct xml *x, struct bytes in)
{
	memset(x, 0, sizeof(*x));
	x->in = (struct str){ (const char *)in.p, in.size };
}

void xml_done(struct xml *x)
{
	buf_done(&x->text);
}

static struct str xml_rest(const struct xml *x)
{
	return x->in.size ? (struct str){ x->in.p + x->at, x->in.size - x->at } : (struct str){ "", 0 };
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_name_end(char c)
{
	return is_space(c) || c == '>' || c == '/' || c == '=';
}

static int xml_fail(const struct xml *x, struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "XML, byte %zu: %s", x->at, what);
}

/* Skip until after @end. */
static int skip_past(struct xml *x, struct str end, struct err *err)
{
	struct str rest = xml_rest(x);
	const char *p = rest.size ? memmem(rest.p, rest.size, end.p, end.size) : NULL;

	if (!p)
		return xml_fail(x, err, "ends early");
	x->at += (size_t)(p - rest.p) + end.size;
	return 0;
}

/* ---- text ---- */

static int add_text(struct xml *x, struct str s, struct err *err)
{
	if (s.size > XML_TEXT_MAX - x->text.size)
		return xml_fail(x, err, "an element with too much text");
	buf_add_str(&x->text, s);
	return 0;
}

static int xml_add_code_point(struct xml *x, uint32_t c, struct err *err)
{
	char out[4];
	size_t n = 0;

	if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return xml_fail(x, err, "a reference to no character");
	if (c < 0x80) {
		out[n++] = (char)c;
	} else if (c < 0x800) {
		out[n++] = (char)(0xc0 | c >> 6);
		out[n++] = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		out[n++] = (char)(0xe0 | c >> 12);
		out[n++] = (char)(0x80 | (c >> 6 & 63));
		out[n++] = (char)(0x80 | (c & 63));
	} else {
		out[n++] = (char)(0xf0 | c >> 18);
		out[n++] = (char)(0x80 | (c >> 12 & 63));
		out[n++] = (char)(0x80 | (c >> 6 & 63));
		out[n++] = (char)(0x80 | (c & 63));
	}
	return add_text(x, (struct str){ out, n }, err);
}

/* The number of "&#10;" or "&#xA;", without "&#" and ";". */
static bool reference_number(struct str s, uint32_t *ret)
{
	unsigned base = s.size && (s.p[0] == 'x' || s.p[0] == 'X') ? 16 : 10;
	uint32_t v = 0;

	if (base == 16) {
		s.p++;
		s.size--;
	}
	if (!s.size || s.size > 7)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		int d = hex_digit(s.p[i], true);

		if (d < 0 || (unsigned)d >= base)
			return false;
		v = v * base + (unsigned)d;
	}
	*ret = v;
	return true;
}

static int add_reference(struct xml *x, struct err *err)
{
	static const struct {
		const char *name;
		char c;
	} known[] = { { "lt", '<' }, { "gt", '>' }, { "amp", '&' }, { "quot", '"' }, { "apos", '\'' } };
	struct str rest = xml_rest(x), name;
	const char *end = memchr(rest.p, ';', MIN(rest.size, (size_t)12));
	uint32_t c;

	if (!end)
		return xml_fail(x, err, "a reference without its end");
	name = (struct str){ rest.p + 1, (size_t)(end - rest.p) - 1 };
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(name, str_of(known[i].name))) {
			x->at += name.size + 2;
			return add_text(x, (struct str){ &known[i].c, 1 }, err);
		}
	if (name.size < 2 || name.p[0] != '#' ||
	    !reference_number((struct str){ name.p + 1, name.size - 1 }, &c))
		return xml_fail(x, err, "an unknown reference");
	x->at += name.size + 2;
	return xml_add_code_point(x, c, err);
}

/* Text up to the next '<'. */
static int xml_read_text(struct xml *x, struct err *err)
{
	while (x->at < x->in.size && x->in.p[x->at] != '<') {
		struct str rest = xml_rest(x);
		size_t n = 0;

		if (rest.p[0] == '&') {
			if (!x->depth)
				return xml_fail(x, err, "text outside of the root element");
			if (add_reference(x, err) < 0)
				return -1;
			continue;
		}
		while (n < rest.size && rest.p[n] != '<' && rest.p[n] != '&')
			n++;
		if (!x->depth) {
			/* White space, and a byte order mark at the start. */
			struct str around = str_trim((struct str){ rest.p, n });

			if (around.size && !(x->at == 0 && str_eq(around, STR("\xef\xbb\xbf"))))
				return xml_fail(x, err, "text outside of the root element");
		} else if (add_text(x, (struct str){ rest.p, n }, err) < 0) {
			return -1;
		}
		x->at += n;
	}
	return 0;
}

/* ---- tags ---- */

/* Read the name at @x->at, without its prefix. */
static int read_name(struct xml *x, char ret[XML_NAME_MAX], struct err *err)
{
	struct str rest = xml_rest(x), name;
	size_t n = 0, from = 0;

	while (n < rest.size && !is_name_end(rest.p[n])) {
		if (rest.p[n] == ':')
			from = n + 1;
		if (rest.p[n] == '<')
			return xml_fail(x, err, "a tag within a tag");
		if ((uint8_t)rest.p[n] < 0x20)
			return xml_fail(x, err, "a name with a control character");
		n++;
	}
	name = (struct str){ rest.p + from, n - from };
	if (!name.size || name.size >= XML_NAME_MAX)
		return xml_fail(x, err, "an element without a name, or with too long a one");
	memcpy(ret, name.p, name.size);
	ret[name.size] = '\0';
	x->at += n;
	return 0;
}

/* Skip attributes. *ret_empty: the tag ends with "/>". */
static int skip_attributes(struct xml *x, bool *ret_empty, struct err *err)
{
	char quote = '\0';

	for (; x->at < x->in.size; x->at++) {
		char c = x->in.p[x->at];

		if (quote) {
			if (c == quote)
				quote = '\0';
		} else if (c == '"' || c == '\'') {
			quote = c;
		} else if (c == '<') {
			return xml_fail(x, err, "a tag within a tag");
		} else if (c == '>') {
			*ret_empty = x->in.p[x->at - 1] == '/';
			x->at++;
			return 0;
		}
	}
	return xml_fail(x, err, "ends early");
}

static int open_element(struct xml *x, struct err *err)
{
	x->at++;
	if (x->depth == XML_DEPTH_MAX)
		return xml_fail(x, err, "elements too deep in each other");
	if (!x->depth && x->rooted)
		return xml_fail(x, err, "a second root element");
	if (read_name(x, x->names[x->depth], err) < 0 || skip_attributes(x, &x->closes, err) < 0)
		return -1;
	x->rooted = true;
	x->depth++;
	x->text.size = 0;
	return XML_OPEN;
}

static int close_element(struct xml *x, struct err *err)
{
	char name[XML_NAME_MAX];
	bool ignored;

	x->at += 2;
	if (read_name(x, name, err) < 0 || skip_attributes(x, &ignored, err) < 0)
		return -1;
	if (!x->depth || strcmp(name, x->names[x->depth - 1]) != 0)
		return xml_fail(x, err, "the end of an element that was not begun");
	x->depth--;
	x->stale = true;
	return XML_CLOSE;
}

int xml_next(struct xml *x, struct err *err)
{
	if (x->stale)
		x->text.size = 0;
	x->stale = false;
	for (;;) {
		struct str rest;

		if (x->closes) {
			x->closes = false;
			x->stale = true;
			x->depth--;
			return XML_CLOSE;
		}
		if (xml_read_text(x, err) < 0)
			return -1;
		rest = xml_rest(x);
		if (!rest.size)
			return x->depth || !x->rooted ? xml_fail(x, err, "ends early") : XML_END;
		if (str_starts(rest, STR("<![CDATA["))) {
			const char *end = memmem(rest.p, rest.size, "]]>", 3);

			if (!x->depth || !end)
				return xml_fail(x, err, "ends early");
			if (add_text(x, (struct str){ rest.p + 9, (size_t)(end - rest.p) - 9 }, err) < 0)
				return -1;
			x->at += (size_t)(end - rest.p) + 3;
		} else if (str_starts(rest, STR("<!--"))) {
			x->at += 4;
			if (skip_past(x, STR("-->"), err) < 0)
				return -1;
		} else if (str_starts(rest, STR("<?"))) {
			if (skip_past(x, STR("?>"), err) < 0)
				return -1;
		} else if (str_starts(rest, STR("<!"))) {
			return xml_fail(x, err, "a document type, which is not allowed");
		} else if (str_starts(rest, STR("</"))) {
			return close_element(x, err);
		} else {
			return open_element(x, err);
		}
	}
}

const char *xml_name(const struct xml *x, unsigned depth)
{
	return depth < XML_DEPTH_MAX ? x->names[depth] : "";
}

bool xml_is(const struct xml *x, const char *path)
{
	struct str rest = str_of(path);

	for (unsigned i = 0; i <= x->depth; i++) {
		struct str part = str_cut(&rest, '/');

		if (!part.size || !str_eq(part, str_of(xml_name(x, i))))
			return false;
	}
	return rest.size == 0;
}
