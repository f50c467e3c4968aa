/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors, parsed once from left to right: a type, then matchers in braces. */
#include "profilestore/profilestore.h"
#include "profilestore/type.h"

#include <stdlib.h>

enum how { IS, IS_NOT, MATCHES, MATCHES_NOT };

struct matcher {
	struct str name, value;
	struct pattern *pattern; /* of MATCHES and MATCHES_NOT */
	enum how how;
};

struct selector {
	struct arena arena; /* texts */
	struct str type;
	bool by_id; /* it is Pyroscope's ID */
	struct matcher matchers[SELECTOR_MAX_MATCHERS];
	size_t n;
	bool re2; /* patterns that are read now are in RE2's syntax */
};

struct selector_reader {
	const char *start, *p, *end;
};

/* ---- words ---- */

static int selector_expected(const struct selector_reader *r, struct err *err, const char *what)
{
	size_t at = (size_t)(r->p - r->start) + 1;

	if (r->p == r->end)
		return err_set(err, ERR_INVALID, "at its end: %s is missing", what);
	return err_set(err, ERR_INVALID, "at character %zu: %s was expected", at, what);
}

static void skip_selector_blanks(struct selector_reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

/* Accept one character, after blanks. */
static bool accept_text(struct selector_reader *r, char c)
{
	skip_selector_blanks(r);
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static bool begins_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool in_name(char c)
{
	return begins_name(c) || (c >= '0' && c <= '9') || c == '.';
}

/* Types have colons, and any other characters that programs use for their values. */
static bool in_type(char c)
{
	return in_name(c) || c == ':' || c == '-' || c == '/' || (unsigned char)c >= 0x80;
}

static int read_selector_type(struct selector_reader *r, struct selector *s, struct err *err)
{
	const char *from;

	skip_selector_blanks(r);
	from = r->p;
	while (r->p < r->end && in_type(*r->p))
		r->p++;
	if (r->p > from && s->type.size)
		return err_set(err, ERR_INVALID, "it has a second profile type");
	if (r->p > from)
		s->type = arena_str(&s->arena, (struct str){ from, (size_t)(r->p - from) });
	skip_selector_blanks(r);
	if (r->p < r->end && *r->p != '{')
		return selector_expected(r, err, r->p > from ? "{" : "a profile type or {");
	return 0;
}

/* ---- strings, as Go has them ---- */

static size_t add_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* @n digits of @base bits; false: they are not there. */
static bool read_digits(struct selector_reader *r, unsigned n, unsigned bits, uint32_t *ret)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++, r->p++) {
		int d = r->p < r->end ? hex_digit(*r->p, true) : -1;

		if (d < 0 || d >= 1 << bits)
			return false;
		v = v << bits | (uint32_t)d;
	}
	*ret = v;
	return true;
}

/* After the backslash. */
static int read_escape(struct selector_reader *r, char quote, char *out, size_t *n, struct err *err)
{
	static const char letters[] = "abfnrtv\\", meanings[] = "\a\b\f\n\r\t\v\\";
	char c = *r->p++;
	const char *at = c ? strchr(letters, c) : NULL;
	uint32_t v = 0;
	bool ok;

	if (at || c == quote) {
		out[(*n)++] = at ? meanings[at - letters] : quote;
		return 0;
	}
	switch (c) {
	case 'x':
		ok = read_digits(r, 2, 4, &v);
		break;
	case 'u':
		ok = read_digits(r, 4, 4, &v);
		break;
	case 'U':
		ok = read_digits(r, 8, 4, &v);
		break;
	default:
		r->p--;
		ok = read_digits(r, 3, 3, &v) && v < 0x100;
	}
	if (!ok || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return selector_expected(r, err, "an escape such as \\n, \\x41, \\u00e4");
	if (c == 'u' || c == 'U')
		*n += add_utf8(out + *n, v);
	else
		out[(*n)++] = (char)v;
	return 0;
}

static int read_quoted(struct selector_reader *r, struct arena *a, struct str *ret, struct err *err)
{
	char quote, *out;
	size_t n = 0;

	skip_selector_blanks(r);
	if (r->p == r->end || !strchr("\"'`", *r->p) || !*r->p)
		return selector_expected(r, err, "a string in quotes");
	quote = *r->p++;
	/* Decoded text is never longer. */
	out = arena_alloc(a, (size_t)(r->end - r->p) + 1);
	while (r->p < r->end && *r->p != quote) {
		char c = *r->p++;

		if (c == '\\' && quote != '`') {
			if (r->p == r->end)
				break;
			if (read_escape(r, quote, out, &n, err) < 0)
				return -1;
		} else {
			out[n++] = c;
		}
	}
	if (r->p == r->end)
		return err_set(err, ERR_INVALID, "at its end: the string has no closing %c", quote);
	r->p++;
	*ret = (struct str){ out, n };
	return 0;
}

/* ---- matchers ---- */

static int read_how(struct selector_reader *r, enum how *ret, struct err *err)
{
	skip_selector_blanks(r);
	if (r->end - r->p >= 2 && r->p[0] == '=' && r->p[1] == '~')
		*ret = MATCHES;
	else if (r->end - r->p >= 2 && r->p[0] == '!' && r->p[1] == '~')
		*ret = MATCHES_NOT;
	else if (r->end - r->p >= 2 && r->p[0] == '!' && r->p[1] == '=')
		*ret = IS_NOT;
	else if (r->p < r->end && *r->p == '=')
		*ret = IS;
	else
		return selector_expected(r, err, "=, !=, =~ or !~");
	r->p += *ret == IS ? 1 : 2;
	return 0;
}

static int read_selector_pattern(const struct selector *s, struct matcher *m, struct err *err)
{
	AUTO(buf_done) struct buf posix = { 0 };

	if (!s->re2)
		return pattern_new(m->value, true, &m->pattern, err);
	if (pattern_from_re2(m->value, &posix, err) < 0)
		return -1;
	/* An empty pattern is a view of something, too. */
	buf_cstr(&posix);
	return pattern_new(buf_str(&posix), true, &m->pattern, err);
}

/* Of a label; in quotes it may be any text, as in Prometheus 3. */
static int read_label_name(struct selector_reader *r, struct selector *s, struct str *ret, struct err *err)
{
	const char *from = r->p;

	if (r->p < r->end && *r->p == '"')
		return read_quoted(r, &s->arena, ret, err);
	if (r->p == r->end || !begins_name(*r->p))
		return selector_expected(r, err, s->n ? "the name of a label" : "the name of a label or }");
	while (r->p < r->end && in_name(*r->p))
		r->p++;
	*ret = arena_str(&s->arena, (struct str){ from, (size_t)(r->p - from) });
	return 0;
}

static int read_matcher(struct selector_reader *r, struct selector *s, struct err *err)
{
	struct matcher *m = &s->matchers[s->n];
	const char *from;

	skip_selector_blanks(r);
	if (s->n == SELECTOR_MAX_MATCHERS)
		return err_set(err, ERR_LIMIT, "more than %u matchers", SELECTOR_MAX_MATCHERS);
	*m = (struct matcher){ 0 };
	if (read_label_name(r, s, &m->name, err) < 0)
		return -1;
	if (read_how(r, &m->how, err) < 0)
		return -1;
	skip_selector_blanks(r);
	from = r->p;
	if (read_quoted(r, &s->arena, &m->value, err) < 0)
		return -1;
	if (m->how >= MATCHES && read_selector_pattern(s, m, err) < 0)
		return err_in(err, "at character %zu: the pattern", (size_t)(from - r->start) + 1);
	s->n++;
	return 0;
}

static int read_matchers(struct selector_reader *r, struct selector *s, struct err *err)
{
	if (!accept_text(r, '{'))
		return 0;
	/* As in PromQL, a comma may follow the last matcher. */
	while (!accept_text(r, '}')) {
		if (read_matcher(r, s, err) < 0)
			return -1;
		if (!accept_text(r, ',')) {
			if (!accept_text(r, '}'))
				return selector_expected(r, err, ", or }");
			break;
		}
	}
	skip_selector_blanks(r);
	return r->p < r->end ? selector_expected(r, err, "nothing more") : 0;
}

static int selector_read(struct selector *s, struct str text, struct err *err)
{
	struct selector_reader r;

	if (text.size > SELECTOR_MAX_SIZE)
		return err_set(err, ERR_LIMIT, "the selector has more than %u bytes", SELECTOR_MAX_SIZE);
	if (!text.p)
		text = STR("");
	r = (struct selector_reader){ text.p, text.p, text.p + text.size };
	if (read_selector_type(&r, s, err) < 0 || read_matchers(&r, s, err) < 0)
		return err_in(err, "the selector");
	return 0;
}

int selector_add_promql(struct selector *s, struct str text, struct err *err)
{
	s->re2 = true;
	return selector_read(s, text, err);
}

int selector_parse(struct str text, struct selector **ret, struct err *err)
{
	AUTO(selector_freep) struct selector *s = NEW(struct selector);

	arena_init(&s->arena);
	if (selector_read(s, text, err) < 0)
		return -1;
	*ret = TAKE(s);
	return 0;
}

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		pattern_free(s->matchers[i].pattern);
	arena_done(&s->arena);
	free(s);
}

void selector_freep(struct selector **s)
{
	selector_free(*s);
}

/* ---- matching ---- */

struct str selector_type(const struct selector *s)
{
	return s->type;
}

void selector_set_type_id(struct selector *s, struct str id)
{
	s->type = arena_str(&s->arena, id);
	s->by_id = true;
}

static bool has_wanted_type(const struct selector *s, struct str type)
{
	if (!s->type.size)
		return true;
	return s->by_id ? type_has_id(type, s->type) : str_eq(type, s->type);
}

static bool matcher_holds(const struct matcher *m, struct str value, struct deadline *d)
{
	switch (m->how) {
	case IS:
		return str_eq(value, m->value);
	case IS_NOT:
		return !str_eq(value, m->value);
	case MATCHES:
		return pattern_matches(m->pattern, value, d);
	case MATCHES_NOT:
		return !pattern_matches(m->pattern, value, d);
	}
	return false;
}

bool selector_holds(const struct selector *s, struct str type,
		    struct str (*value)(const void *arg, struct str name), const void *arg,
		    struct deadline *d)
{
	if (!has_wanted_type(s, type))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (!matcher_holds(&s->matchers[i], value(arg, s->matchers[i].name), d))
			return false;
	return true;
}

struct label_list {
	const struct profilestore_label *v;
	size_t n;
};

static struct str value_in_list(const void *arg, struct str name)
{
	const struct label_list *l = arg;
	size_t i = SEARCH(0, l->n, k, str_cmp(l->v[k].name, name) < 0);

	return i < l->n && str_eq(l->v[i].name, name) ? l->v[i].value : STR("");
}

bool selector_matches(const struct selector *s, struct str type, const struct profilestore_label *labels,
		      size_t n)
{
	const struct label_list l = { labels, n };

	return selector_holds(s, type, value_in_list, &l, NULL);
}
