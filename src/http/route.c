/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a target to its row. A path is decoded once and then matched, so an escaped slash is a slash: elfutils'
 * server reads it in the same way.
 */
#include "http/route.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GO_SEGMENT 16u

static const struct {
	const char *name;
	unsigned method;
} methods[] = { { "GET", HTTP_GET },
		{ "HEAD", HTTP_GET },
		{ "POST", HTTP_POST },
		{ "PUT", HTTP_PUT },
		{ "DELETE", HTTP_DELETE } };

bool http_unescape(struct str s, char *out, size_t *ret_size)
{
	size_t n;

	if (!hex_unescape(s, true, out, &n) || memchr(out, '\0', n))
		return false;
	*ret_size = n;
	return true;
}

/* The path of "http://host/path", which a client may send as if to a proxy (RFC 9112, section 3.2.2). */
static struct str target_path(struct str target)
{
	static const struct str schemes[] = { STR("http://"), STR("https://") };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		struct str rest;
		const char *slash;

		if (target.size < schemes[i].size ||
		    strncasecmp(target.p, schemes[i].p, schemes[i].size) != 0)
			continue;
		rest = (struct str){ target.p + schemes[i].size, target.size - schemes[i].size };
		slash = memchr(rest.p, '/', rest.size);
		return slash ? (struct str){ slash, (size_t)(rest.p + rest.size - slash) } : STR("/");
	}
	return target;
}

/* 0, or the status of the refusal. */
static unsigned path_decode(struct str target, char *room, struct str *ret)
{
	struct str path = { .p = room };

	if (target.size > HTTP_TARGET_MAX)
		return 414;
	if (!http_unescape(target_path(target), room, &path.size))
		return 400;
	room[path.size] = '\0';
	/* A base URL that ends in a slash makes two of them. */
	while (path.size > 1 && path.p[0] == '/' && path.p[1] == '/') {
		path.p++;
		path.size--;
	}
	*ret = path;
	return 0;
}

static struct str str_from(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.size - n };
}

static struct str segment_of(struct str s)
{
	const char *slash = s.size ? memchr(s.p, '/', s.size) : NULL;

	return (struct str){ s.p, slash ? (size_t)(slash - s.p) : s.size };
}

/*
 * Go's build ID as text at the start of @path, where the pattern has @pattern_rest after it: the segments of 16 characters
 * or more. Go's have 20, and no pattern has one as long, so the end is certain. Escaped slashes are slashes by now. Empty:
 * none.
 */
static struct str go_segments(struct str path, const char *pattern_rest, bool loose)
{
	struct str next = *pattern_rest ? segment_of(str_of(pattern_rest + 1)) : STR("");
	struct build_id id;
	size_t n = 0, end = 0;

	/* A source's path after a build ID in hexadecimal may look like a part of Go's. */
	if (build_id_parse(&id, segment_of(path)))
		return (struct str){ 0 };
	while (n <= BUILD_ID_MAX && n < path.size && segment_of(str_from(path, n)).size >= GO_SEGMENT) {
		end = n + segment_of(str_from(path, n)).size;
		n = end + 1;
	}
	while (loose && n < path.size && path.p[n] == '/')
		n++;
	if (!end || n >= path.size || !str_eq(segment_of(str_from(path, n)), next) ||
	    !build_id_set_go(&id, (struct str){ path.p, end }))
		return (struct str){ 0 };
	return (struct str){ path.p, end };
}

/* The segments of @path that stand for @want. */
static struct str segments_for(const struct http_route *r, struct str want, const char *pattern_rest,
			       struct str path)
{
	struct str got = r->flags & HTTP_FIRST_IS_BUILD_ID && str_starts(want, STR("{"))
				 ? go_segments(path, pattern_rest, r->flags & HTTP_LOOSE_SLASHES)
				 : (struct str){ 0 };

	return got.size ? got : segment_of(path);
}

static bool fixed_match(struct str want, struct str got, bool any_case)
{
	return any_case ? want.size == got.size && strncasecmp(want.p, got.p, want.size) == 0
			: str_eq(want, got);
}

/* @want may be "x-{b}.y". */
static bool segment_match(struct str want, struct str got, unsigned flags, struct str parts[HTTP_PARTS_MAX],
			  unsigned *n)
{
	bool any_case = flags & HTTP_ANY_CASE;
	const char *open = memchr(want.p, '{', want.size),
		   *close = open ? memchr(want.p, '}', want.size) : NULL;
	struct str before, after;

	if (!close)
		return fixed_match(want, got, any_case);
	before = (struct str){ want.p, (size_t)(open - want.p) };
	after = str_from(want, (size_t)(close + 1 - want.p));
	if (got.size < before.size + after.size ||
	    !fixed_match(before, (struct str){ got.p, before.size }, any_case) ||
	    !fixed_match(after, str_from(got, got.size - after.size), any_case))
		return false;
	got = (struct str){ got.p + before.size, got.size - before.size - after.size };
	if (!got.size && !(flags & HTTP_LOOSE_SLASHES))
		return false;
	parts[(*n)++] = got;
	return true;
}

static bool pattern_match(const struct http_route *r, struct str path, struct str parts[HTTP_PARTS_MAX])
{
	bool loose = r->flags & HTTP_LOOSE_SLASHES;
	const char *p = r->pattern;
	unsigned n = 0;

	while (*p) {
		struct str want, got;

		want = segment_of(str_of(++p)); /* p was at a slash */
		if (str_ends(want, STR("...}"))) {
			parts[n] = path;
			return path.size ? path.p[0] == '/' : loose;
		}
		if (!path.size || path.p[0] != '/')
			return false;
		do
			path = str_from(path, 1);
		while (loose && path.size && path.p[0] == '/');
		got = segments_for(r, want, p + want.size, path);
		if (!segment_match(want, got, r->flags, parts, &n))
			return false;
		path = str_from(path, got.size);
		p += want.size;
	}
	while (loose && path.size && path.p[0] == '/')
		path = str_from(path, 1);
	return !path.size;
}

/* "push.v1.PusherService": a package and a name in upper case, so that "libc.so" is none. */
static bool is_service_name(struct str s)
{
	const char *dot = s.size ? memrchr(s.p, '.', s.size) : NULL;

	if (!dot || dot == s.p || dot + 1 == s.p + s.size || dot[1] < 'A' || dot[1] > 'Z')
		return false;
	for (size_t i = 0; i < s.size; i++)
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

static bool first_part_match(const struct http_route *r, struct str first)
{
	if (r->flags & HTTP_FIRST_IS_SERVICE)
		return is_service_name(first);
	return !(r->flags & HTTP_FIRST_IS_TWO) || first.size == 2;
}

void http_routes_init(struct http_routes *t, const struct http_route *rows, const char *prefix)
{
	*t = (struct http_routes){ .rows = rows, .prefix = str_of(prefix ? prefix : "") };
	for (unsigned i = 0; rows[i].pattern; i++) {
		unsigned char first = (unsigned char)rows[i].pattern[1];
		uint64_t bit = UINT64_C(1) << i % 64;

		if (i == HTTP_ROUTES_MAX || first >= ARRAY_SIZE(t->by_first))
			abort();
		t->all[i / 64] |= bit;
		if (rows[i].flags & (HTTP_PREFIXED | HTTP_CONNECT))
			t->prefixed[i / 64] |= bit;
		if (first != '{')
			t->by_first[first][i / 64] |= bit;
		for (unsigned c = 0; first == '{' && c < ARRAY_SIZE(t->by_first); c++)
			t->by_first[c][i / 64] |= bit;
	}
}

/* A row that none of the bits stands for cannot have @path. */
static const uint64_t *rows_for(const struct http_routes *t, struct str path)
{
	unsigned char first = path.size > 1 ? (unsigned char)path.p[1] : '/';

	/* More slashes may follow the first one. */
	return first == '/' || first >= ARRAY_SIZE(t->by_first) ? t->all : t->by_first[first];
}

static bool route_exists(const struct http_route *r, const struct server *s)
{
	return !s || !r->handler->exists || r->handler->exists(s);
}

/* true: no later row can be a better one. */
static bool row_match(const struct http_route *r, const struct server *s, unsigned wanted,
		      struct http_match *ret)
{
	struct str parts[HTTP_PARTS_MAX] = { { 0 } };

	/* The row for all other paths of this form stands after those of the paths. */
	if (!r->method && ret->allow)
		return true;
	if (!pattern_match(r, ret->path, parts) || !first_part_match(r, parts[0]) || !route_exists(r, s))
		return false;
	ret->allow |= r->method;
	ret->status = 405;
	if (!ret->route)
		ret->route = r;
	if (r->method && !(r->method & wanted))
		return false;
	ret->route = r;
	ret->status = 0;
	memcpy(ret->parts, parts, sizeof(parts));
	return true;
}

static bool has_prefix(const struct http_routes *t, struct str path)
{
	return t->prefix.size && str_starts(path, t->prefix) && path.size > t->prefix.size &&
	       path.p[t->prefix.size] == '/';
}

/* Try the rows of @bits with ret->path. true: there is a row with this path. */
static bool match_rows(const struct http_routes *t, const struct server *s, unsigned wanted,
		       const uint64_t *bits, struct http_match *ret)
{
	ret->status = 404;
	for (unsigned i = 0; i < HTTP_ROUTES_MAX; i += 64)
		for (uint64_t left = bits[i / 64]; left; left &= left - 1)
			if (row_match(&t->rows[i + (unsigned)__builtin_ctzll(left)], s, wanted, ret))
				return true;
	return ret->route;
}

void http_match(const struct http_routes *table, const struct server *s, const char *method,
		struct str target, char *room, struct http_match *ret)
{
	unsigned wanted = 0;
	struct str path;

	*ret = (struct http_match){ 0 };
	ret->status = path_decode(target, room, &ret->path);
	if (ret->status)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (strcmp(method, methods[i].name) == 0)
			wanted = methods[i].method;
	path = ret->path;
	if (match_rows(table, s, wanted, rows_for(table, path), ret) || !has_prefix(table, path))
		return;
	ret->path = str_from(path, table->prefix.size);
	if (!match_rows(table, s, wanted, table->prefixed, ret))
		ret->path = path;
}

void http_methods_print(unsigned allowed, bool options, struct buf *out)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (!(allowed & methods[i].method))
			continue;
		buf_printf(out, "%s%s", comma, methods[i].name);
		comma = ", ";
	}
	if (options)
		buf_printf(out, "%sOPTIONS", comma);
}
