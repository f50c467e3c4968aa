/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a target to its row. A path is decoded once and then matched, so an escaped slash is a slash: elfutils'
 * server reads it in the same way.
 */
#include "http/route.h"

#include <string.h>
#include <strings.h>

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
	size_t n = 0;

	for (size_t i = 0; i < s.size; i++) {
		char c = s.p[i];

		if (c == '%') {
			int hi = s.size - i > 2 ? hex_digit(s.p[i + 1], true) : -1,
			    lo = hi >= 0 ? hex_digit(s.p[i + 2], true) : -1;

			if (lo < 0)
				return false;
			c = (char)(hi << 4 | lo);
			i += 2;
		}
		if (!c)
			return false;
		out[n++] = c;
	}
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

static bool pattern_match(const struct http_route *r, struct str path, struct str parts[HTTP_PARTS_MAX])
{
	bool loose = r->flags & HTTP_LOOSE_SLASHES;
	const char *p = r->pattern;
	unsigned n = 0;

	/* Most rows differ from the path in the first character. */
	if (path.size > 1 && path.p[1] != '/' && p[1] != '{' && p[1] != path.p[1])
		return false;
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
		got = segment_of(path);
		if (*p == '{') {
			if (!got.size && !loose)
				return false;
			parts[n++] = got;
		} else if (!str_eq(want, got)) {
			return false;
		}
		path = str_from(path, got.size);
		p += want.size;
	}
	while (loose && path.size && path.p[0] == '/')
		path = str_from(path, 1);
	return !path.size;
}

static bool route_exists(const struct http_route *r, const struct server *s)
{
	return !s || !r->handler->exists || r->handler->exists(s);
}

void http_match(const struct http_route *table, const struct server *s, const char *method, struct str target,
		char *room, struct http_match *ret)
{
	struct str parts[HTTP_PARTS_MAX] = { { 0 } };
	unsigned wanted = 0;

	*ret = (struct http_match){ 0 };
	ret->status = path_decode(target, room, &ret->path);
	if (ret->status)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (strcmp(method, methods[i].name) == 0)
			wanted = methods[i].method;
	ret->status = 404;
	for (const struct http_route *r = table; r->pattern; r++) {
		/* The row for all other paths of this form stands after those of the paths. */
		if (!r->method && ret->allow)
			break;
		if (!pattern_match(r, ret->path, parts) || !route_exists(r, s))
			continue;
		ret->allow |= r->method;
		ret->status = 405;
		if (!ret->route)
			ret->route = r;
		if (r->method && !(r->method & wanted))
			continue;
		ret->route = r;
		ret->status = 0;
		memcpy(ret->parts, parts, sizeof(parts));
		return;
	}
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
