/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes. A path is decoded once and then matched against the table, so an escaped slash is a slash: that is
 * how elfutils' server reads it too.
 */
#include "server/route.h"

#include <strings.h>

bool route_unescape(struct str s, char *out, size_t *ret_size)
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

static const struct {
	struct str path;
	enum route_kind kind;
} fixed[] = {
	{ STR("/metadata"), ROUTE_METADATA },
	{ STR("/metrics"), ROUTE_METRICS },
	{ STR("/healthz"), ROUTE_HEALTHZ },
	{ STR("/readyz"), ROUTE_READYZ },
	{ STR("/api/status"), ROUTE_STATUS },
	{ STR("/api/failures"), ROUTE_FAILURES },
	{ STR("/symbolize"), ROUTE_SYMBOLIZE },
	{ STR("/symbolz"), ROUTE_SYMBOLZ },
	{ STR("/pprof/symbol"), ROUTE_SYMBOLZ },
	{ STR("/symbolicate/v5"), ROUTE_SYMBOLICATE_V5 },
	{ STR("/profiles"), ROUTE_API },
	{ STR("/ingest"), ROUTE_API },
	{ STR("/profilestore/writeraw"), ROUTE_API },
	{ STR("/"), ROUTE_PAGE },
};

/* What may stand behind a build ID for its addresses. */
static const struct {
	struct str path;
	enum route_kind kind;
} addresses[] = {
	{ STR("symbolize"), ROUTE_SYMBOLIZE },
	{ STR("symbolz"), ROUTE_SYMBOLZ },
	{ STR("pprof/symbol"), ROUTE_SYMBOLZ },
};

static const struct str buildid_prefix = STR("/buildid/"), page_prefix = STR("/web/"),
			api_prefix = STR("/api/");

static struct str skip_slashes(struct str s)
{
	while (s.size && s.p[0] == '/') {
		s.p++;
		s.size--;
	}
	return s;
}

/* @rest: what follows "ID/". */
static int parse_artifact(struct str rest, struct route *ret, const char **ret_why)
{
	struct str type = rest;

	for (size_t i = 0; i < rest.size; i++)
		if (rest.p[i] == '/') {
			type.size = i;
			break;
		}
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		if (str_eq(rest, addresses[i].path)) {
			ret->kind = addresses[i].kind;
			return 0;
		}
	rest = (struct str){ rest.p + type.size, rest.size - type.size }; /* from its slash on */
	for (unsigned kind = 0; kind < RESOLVE_N_KINDS; kind++) {
		if (!str_eq(type, str_of(resolve_kind_name(kind))))
			continue;
		ret->resolve.kind = kind;
		switch (ret->resolve.kind) {
		case RESOLVE_SOURCE:
			/* The slash belongs to the name: a client cannot say whether "./a.c" began with one.
			 */
			ret->resolve.arg = rest;
			break;
		case RESOLVE_SECTION:
			if (rest.size)
				ret->resolve.arg = (struct str){ rest.p + 1, rest.size - 1 };
			break;
		default:
			if (skip_slashes(rest).size) {
				*ret_why = "no such path: nothing may follow debuginfo or executable\n";
				return 404;
			}
			return 0;
		}
		if (!skip_slashes(ret->resolve.arg).size) {
			*ret_why = ret->resolve.kind == RESOLVE_SOURCE
					   ? "which source? /buildid/ID/source/PATH\n"
					   : "which section? /buildid/ID/section/NAME\n";
			return 400;
		}
		return 0;
	}
	*ret_why = "no such path: after the build ID comes debuginfo, executable, source/PATH, section/NAME "
		   "or symbolize\n";
	return 404;
}

static int parse_buildid(struct str rest, struct route *ret, const char **ret_why)
{
	struct str id;

	rest = skip_slashes(rest);
	id = str_cut(&rest, '/');
	if (!build_id_parse(&ret->resolve.id, id)) {
		*ret_why = id.size > 2 * BUILD_ID_MAX
				   ? "the build ID is too long\n"
				   : "bad build ID: wanted is an even number of the digits 0-9 a-f\n";
		return 400;
	}
	return parse_artifact(rest.p ? skip_slashes(rest) : STR(""), ret, ret_why);
}

/* "http://host/path", which a client may send as if to a proxy (RFC 9112, section 3.2.2): the path. */
static struct str without_authority(struct str url)
{
	static const struct str schemes[] = { STR("http://"), STR("https://") };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		const char *slash;

		if (url.size < schemes[i].size || strncasecmp(url.p, schemes[i].p, schemes[i].size) != 0)
			continue;
		url = (struct str){ url.p + schemes[i].size, url.size - schemes[i].size };
		slash = memchr(url.p, '/', url.size);
		return slash ? (struct str){ slash, (size_t)(url.p + url.size - slash) } : STR("/");
	}
	return url;
}

int route_parse(struct str url, char *room, struct route *ret, const char **ret_why)
{
	struct str path = { .p = room };

	*ret = (struct route){ 0 };
	if (url.size > ROUTE_URL_MAX) {
		*ret_why = "the path is too long\n";
		return 414;
	}
	url = without_authority(url);
	if (!route_unescape(url, room, &path.size)) {
		*ret_why = "the path has a broken %-escape\n";
		return 400;
	}
	room[path.size] = '\0';
	/* A base URL that ends in a slash makes two of them. */
	while (path.size > 1 && path.p[0] == '/' && path.p[1] == '/') {
		path.p++;
		path.size--;
	}
	if (str_starts(path, buildid_prefix)) {
		ret->kind = ROUTE_ARTIFACT;
		return parse_buildid(
			(struct str){ path.p + buildid_prefix.size, path.size - buildid_prefix.size }, ret,
			ret_why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (str_eq(path, fixed[i].path)) {
			ret->kind = fixed[i].kind;
			ret->file = ret->kind == ROUTE_API ? path : STR("");
			return 0;
		}
	if (str_starts(path, api_prefix)) {
		ret->kind = ROUTE_API;
		ret->file = path;
		return 0;
	}
	if (str_starts(path, page_prefix)) {
		ret->kind = ROUTE_PAGE;
		ret->file = (struct str){ path.p + page_prefix.size, path.size - page_prefix.size };
		return 0;
	}
	*ret_why = "no such path\n";
	return 404;
}
