/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of a request to what it asks for: route_parse() beside a slow reader of the same rules, and what
 * must hold of any answer, so that nothing behind it ever sees a NUL, a folder above, or a build ID that is
 * none.
 */
#include "fuzz.h"

#include <ctype.h>
#include <string.h>
#include "server/route.h"

/* What a path says, by the rules as docs/protocol.md has them. */
struct model {
	int status; /* 0, 400, 404 */
	enum route_kind kind;
	enum resolve_kind what;
	char id[2 * BUILD_ID_MAX + 1];
	const char *arg; /* in the decoded path */
};

static int hex_of(uint8_t c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)((at - digits) % 16) : -1;
}

/* Into @out, which ends in a NUL; false: 400. */
static bool model_unescape(const uint8_t *p, size_t n, char *out)
{
	while (n) {
		unsigned c = p[0];

		if (c == '%') {
			if (n < 3 || hex_of(p[1]) < 0 || hex_of(p[2]) < 0)
				return false;
			c = (unsigned)hex_of(p[1]) * 16 + (unsigned)hex_of(p[2]);
			p += 2;
			n -= 2;
		}
		if (!c)
			return false;
		*out++ = (char)c;
		p++;
		n--;
	}
	*out = '\0';
	return true;
}

static const char *past_slashes(const char *p)
{
	return p + strspn(p, "/");
}

static void model_artifact(const char *p, struct model *m)
{
	static const char *const kinds[] = { "debuginfo", "executable", "source", "section" };
	static const struct {
		const char *path;
		enum route_kind kind;
	} addresses[] = { { "symbolize", ROUTE_SYMBOLIZE },
			  { "symbolz", ROUTE_SYMBOLZ },
			  { "pprof/symbol", ROUTE_SYMBOLZ } };
	size_t n;

	p = past_slashes(p);
	n = strcspn(p, "/");
	if (!n || n % 2 || n > 2 * BUILD_ID_MAX || strspn(p, "0123456789abcdef") < n) {
		m->status = 400;
		return;
	}
	memcpy(m->id, p, n);
	p = past_slashes(p + n);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		if (strcmp(p, addresses[i].path) == 0) {
			m->kind = addresses[i].kind;
			m->status = 0;
			return;
		}
	n = strcspn(p, "/");
	m->status = 404;
	for (unsigned i = 0; i < 4; i++) {
		if (strlen(kinds[i]) != n || memcmp(kinds[i], p, n) != 0)
			continue;
		m->what = (enum resolve_kind)i;
		m->arg = p + n;
		if (i < 2) {
			m->status = *past_slashes(m->arg) ? 404 : 0;
			m->arg = "";
		} else {
			m->status = *past_slashes(m->arg) ? 0 : 400;
			m->arg += i == 3 && *m->arg;
		}
	}
}

/* A scheme and a host in front are as if they were not there. */
static void absolute_form(const uint8_t **p, size_t *n)
{
	static const char form[] = "http://";
	size_t i = 0, k = 0;

	while (form[k] && i < *n && tolower((*p)[i]) == form[k]) {
		/* The "s" of https. */
		i += k == 3 && i + 1 < *n && tolower((*p)[i + 1]) == 's' ? 2 : 1;
		k++;
	}
	if (form[k])
		return;
	while (i < *n && (*p)[i] != '/')
		i++;
	if (i == *n) {
		*p = (const uint8_t *)"/";
		*n = 1;
	} else {
		*p += i;
		*n -= i;
	}
}

static void model_route(const uint8_t *data, size_t size, char *room, struct model *m)
{
	static const struct {
		const char *path;
		enum route_kind kind;
	} fixed[] = { { "/metadata", ROUTE_METADATA },
		      { "/metrics", ROUTE_METRICS },
		      { "/healthz", ROUTE_HEALTHZ },
		      { "/readyz", ROUTE_READYZ },
		      { "/api/status", ROUTE_STATUS },
		      { "/api/failures", ROUTE_FAILURES },
		      { "/symbolize", ROUTE_SYMBOLIZE },
		      { "/symbolz", ROUTE_SYMBOLZ },
		      { "/pprof/symbol", ROUTE_SYMBOLZ },
		      { "/symbolicate/v5", ROUTE_SYMBOLICATE_V5 },
		      { "/profiles", ROUTE_API },
		      { "/ingest", ROUTE_API },
		      { "/profilestore/writeraw", ROUTE_API },
		      { "/", ROUTE_PAGE } };
	const char *p = room;

	*m = (struct model){ .status = 400 };
	absolute_form(&data, &size);
	if (!model_unescape(data, size, room))
		return;
	m->status = 404;
	while (p[0] == '/' && p[1] == '/')
		p++;
	if (strncmp(p, "/buildid/", 9) == 0) {
		m->kind = ROUTE_ARTIFACT;
		model_artifact(p + 9, m);
		return;
	}
	if (strncmp(p, "/web/", 5) == 0) {
		m->status = 0;
		m->kind = ROUTE_PAGE;
		m->arg = p + 5;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (strcmp(p, fixed[i].path) == 0) {
			m->status = 0;
			m->kind = fixed[i].kind;
		}
	if (m->status && strncmp(p, "/api/", 5) == 0) {
		m->status = 0;
		m->kind = ROUTE_API;
	}
	if (m->kind == ROUTE_API)
		m->arg = p;
}

static bool climbs(struct str path)
{
	while (path.p)
		if (str_eq(str_cut(&path, '/'), STR("..")))
			return true;
	return false;
}

static void check_source(struct str path)
{
	char *once = mem_alloc(path.size + 2), *twice = mem_alloc(path.size + 2);
	struct str canonical = { once, path_canonical(path, once) };

	FUZZ_CHECK(path.size && path.p[0] == '/' && once[0] == '/');
	FUZZ_CHECK(!climbs(canonical));
	FUZZ_CHECK(path_canonical(canonical, twice) == canonical.size &&
		   memcmp(once, twice, canonical.size) == 0);
	free(once);
	free(twice);
}

static void check_same(const struct route *route, const struct model *m)
{
	const struct resolve_request *what = &route->resolve;
	char hex[BUILD_ID_HEX_SIZE];

	FUZZ_CHECK(route->kind == m->kind);
	if (route->kind == ROUTE_PAGE || route->kind == ROUTE_API)
		FUZZ_CHECK(str_eq(route->file, str_of(m->arg)));
	FUZZ_CHECK(strcmp(build_id_hex(&what->id, hex), m->id) == 0);
	if (route->kind != ROUTE_ARTIFACT)
		return;
	FUZZ_CHECK(what->kind == m->what && str_eq(what->arg, str_of(m->arg)));
	FUZZ_CHECK(!memchr(what->arg.size ? what->arg.p : "x", 0, what->arg.size));
	if (what->kind == RESOLVE_SOURCE)
		check_source(what->arg);
}

/* Every byte escaped: the same route. */
static void check_escaped(struct str decoded, const struct route *want, int want_status)
{
	static char room[ROUTE_URL_MAX + 1];
	AUTO(buf_done) struct buf b = { 0 };
	struct route got;
	const char *why;

	if (decoded.size > ROUTE_URL_MAX / 3)
		return;
	for (size_t i = 0; i < decoded.size; i++)
		buf_printf(&b, i % 2 ? "%%%02x" : "%%%02X", (uint8_t)decoded.p[i]);
	FUZZ_CHECK(route_parse(buf_str(&b), room, &got, &why) == want_status);
	FUZZ_CHECK(want_status ||
		   (got.kind == want->kind && got.resolve.kind == want->resolve.kind &&
		    str_eq(got.resolve.arg, want->resolve.arg) &&
		    build_id_eq(&got.resolve.id, &want->resolve.id) && str_eq(got.file, want->file)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *room = mem_alloc(ROUTE_URL_MAX + 1), *model_room = mem_alloc(size + 1);
	struct str url = { (const char *)data, size };
	struct route route;
	struct model m;
	const char *why = NULL;
	int status = route_parse(url, room, &route, &why);

	model_route(data, size, model_room, &m);
	if (size > ROUTE_URL_MAX) {
		FUZZ_CHECK(status == 414);
	} else {
		FUZZ_CHECK(status == m.status);
		if (!status)
			check_same(&route, &m);
		if (size && data[0] == '/' && model_unescape(data, size, model_room))
			check_escaped(str_of(model_room), &route, status);
	}
	FUZZ_CHECK(!status || (why && why[0] && why[strlen(why) - 1] == '\n'));
	free(room);
	free(model_room);
	return 0;
}
