/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a method and a target to a row of the table of routes. The input is "METHOD TARGET", or a target of
 * GET. http_match() is compared with a slow reader of the same rules; and no handler may ever get a NUL, a
 * path upward, or an invalid build ID.
 */
#include "fuzz.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "server/artifact/artifact.h"

enum route_kind {
	ROUTE_ARTIFACT, /* `what` says which */
	ROUTE_METADATA,
	ROUTE_METRICS,
	ROUTE_HEALTHZ,
	ROUTE_READYZ,
	ROUTE_STATUS,
	ROUTE_FAILURES,
	ROUTE_SYMBOLIZE,
	ROUTE_SYMBOLZ,
	ROUTE_SYMBOLICATE_V5,
	ROUTE_API,
	ROUTE_PAGE,
};

/* The meaning of a path by the rules of docs/protocol.md. */
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

/* Several slashes count as one, and last ones as none. */
static bool same_but_slashes(const char *p, const char *want)
{
	for (; *want; want++) {
		if (*p++ != *want)
			return false;
		if (*want == '/')
			p = past_slashes(p);
	}
	return !*past_slashes(p);
}

/* Go's build ID as text: segments of 16 characters or more of base64 for URLs, 32 to 84 with their slashes. */
static size_t model_go(const char *p)
{
	size_t n = 0, end = 0, parts = 0;

	while (strcspn(p + n, "/") >= 16) {
		end = n + strcspn(p + n, "/");
		n = end + (p[end] == '/');
		parts++;
		if (end == n)
			break;
	}
	return parts >= 2 && end >= 32 && end <= BUILD_ID_MAX && p[end] == '/' &&
			       strspn(p,
				      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/") >=
				       end
		       ? end
		       : 0;
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
		n = model_go(p);
		m->status = 400;
		if (!n)
			return;
		for (size_t i = 0; i < n; i++)
			snprintf(m->id + 2 * i, 3, "%02x", (unsigned)(unsigned char)p[i]);
	} else {
		memcpy(m->id, p, n);
	}
	p = past_slashes(p + n);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		if (same_but_slashes(p, addresses[i].path)) {
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

/* Skip a scheme and a host. */
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
		      { "/ready", ROUTE_READYZ },
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

static bool starts(const struct http_match *m, const char *prefix)
{
	return strncasecmp(m->path.p, prefix, strlen(prefix)) == 0;
}

static void check_artifact(const struct http_match *got, const struct model *m)
{
	struct resolve_request what;
	char hex[BUILD_ID_HEX_SIZE];
	const char *why = NULL;
	unsigned status = artifact_of_path(got->route, got->parts, &what, &why);

	FUZZ_CHECK(!status || (why && *why));
	/* Paths of symbol servers of other kinds, which the model does not know: a program may be called "api". SSQP's have
	 * no case. */
	if (got->route->arg) {
		FUZZ_CHECK(m->status == 404 || starts(got, "/api/elf-buildid-") ||
			   starts(got, "/buildid/elf-buildid-"));
		FUZZ_CHECK(status || what.id.size);
		return;
	}
	FUZZ_CHECK((int)status == m->status);
	if (status)
		return;
	FUZZ_CHECK(m->kind == ROUTE_ARTIFACT && what.kind == m->what && str_eq(what.arg, str_of(m->arg)));
	FUZZ_CHECK(strcmp(build_id_hex(&what.id, hex), m->id) == 0);
	FUZZ_CHECK(!memchr(what.arg.size ? what.arg.p : "x", 0, what.arg.size));
	if (what.kind == RESOLVE_SOURCE)
		check_source(what.arg);
}

static bool is_model_id(struct str part, const struct model *m)
{
	char hex[BUILD_ID_HEX_SIZE];
	struct build_id id;

	return server_build_id(&id, part) && strcmp(build_id_hex(&id, hex), m->id) == 0;
}

static void check_get(const struct http_match *got, const struct model *m)
{
	const char *pattern = got->route ? got->route->pattern : "";

	if (got->status == 405) {
		/* A path of POST, PUT or DELETE only. */
		FUZZ_CHECK(m->kind == ROUTE_API || m->kind == ROUTE_SYMBOLIZE ||
			   m->kind == ROUTE_SYMBOLICATE_V5 || m->status);
	} else if (got->status) {
		FUZZ_CHECK((int)got->status == m->status);
	} else if (!got->route->method) {
		FUZZ_CHECK(starts(got, "/api/") ? m->kind == ROUTE_API
						: m->status == 400 || m->status == 404);
	} else if (got->route->handler == &artifact_get) {
		check_artifact(got, m);
	} else if (strncmp(pattern, "/buildid/", 9) == 0) {
		FUZZ_CHECK(m->status == 400 || m->kind == ROUTE_SYMBOLIZE || m->kind == ROUTE_SYMBOLZ);
		FUZZ_CHECK(m->status == 400 || is_model_id(got->parts[0], m));
	} else {
		FUZZ_CHECK(!m->status);
		FUZZ_CHECK(strcmp(pattern, "/web/{file...}") != 0 ||
			   (m->kind == ROUTE_PAGE && m->arg && str_eq(got->parts[0], str_of(m->arg - 1))));
		FUZZ_CHECK(strchr(pattern, '{') || str_eq(got->path, str_of(pattern)));
	}
}

static struct http_routes routes;

/* The answers for all methods of one path agree. */
static void check_methods(struct str target, const struct http_match *got, const char *method)
{
	static const char *const names[] = { "GET", "POST", "PUT", "DELETE" };
	static char room[HTTP_TARGET_MAX + 1];
	struct http_match m;

	FUZZ_CHECK(got->status == 0 || got->status == 400 || got->status == 404 || got->status == 405 ||
		   got->status == 414);
	FUZZ_CHECK((got->status == 405) == (got->status && got->allow));
	FUZZ_CHECK(got->status || got->route);
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		http_match(&routes, NULL, names[i], target, room, &m);
		if (got->status == 400 || got->status == 404 || got->status == 414)
			FUZZ_CHECK(m.status == got->status && !m.route);
		else if (got->status == 405)
			FUZZ_CHECK(m.status == ((got->allow & 1u << i) ? 0 : 405));
		else if (!got->route->method)
			FUZZ_CHECK(!m.status && m.route == got->route);
		else
			FUZZ_CHECK((m.status == 0 || m.status == 405) && m.allow);
		FUZZ_CHECK(!m.route || !m.route->method || m.status || m.route->method == 1u << i);
	}
	http_match(&routes, NULL, method, target, room, &m);
	FUZZ_CHECK(m.status == got->status && m.route == got->route && m.allow == got->allow);
}

/* With every byte escaped, the row is the same. */
static void check_escaped(struct str decoded, const struct http_match *want)
{
	static char room[HTTP_TARGET_MAX + 1];
	AUTO(buf_done) struct buf b = { 0 };
	struct http_match got;

	if (decoded.size > HTTP_TARGET_MAX / 3)
		return;
	for (size_t i = 0; i < decoded.size; i++)
		buf_printf(&b, i % 2 ? "%%%02x" : "%%%02X", (uint8_t)decoded.p[i]);
	http_match(&routes, NULL, "GET", buf_str(&b), room, &got);
	FUZZ_CHECK(got.status == want->status && got.route == want->route);
	for (unsigned i = 0; i < HTTP_PARTS_MAX; i++)
		FUZZ_CHECK(str_eq(got.parts[i], want->parts[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *room = mem_alloc(HTTP_TARGET_MAX + 1), *model_room = mem_alloc(size + 1);
	struct str target = { (const char *)data, size }, method = STR("GET");
	char name[32];
	struct http_match got;
	struct model m;

	if (!routes.rows)
		http_routes_init(&routes, server_routes, SERVER_PREFIX);
	if (size && memchr(data, ' ', MIN(size, sizeof(name) - 1)))
		method = str_cut(&target, ' ');
	memcpy(name, method.p, method.size);
	name[method.size] = '\0';
	if (!target.p)
		target = STR("");
	http_match(&routes, NULL, name, target, room, &got);
	if (target.size > HTTP_TARGET_MAX) {
		FUZZ_CHECK(got.status == 414 && !got.route);
	} else {
		check_methods(target, &got, name);
		model_route((const uint8_t *)target.p, target.size, model_room, &m);
		http_match(&routes, NULL, "GET", target, room, &got);
		check_get(&got, &m);
		if (target.size && target.p[0] == '/' &&
		    model_unescape((const uint8_t *)target.p, target.size, model_room))
			check_escaped(str_of(model_room), &got);
	}
	free(room);
	free(model_room);
	return 0;
}
