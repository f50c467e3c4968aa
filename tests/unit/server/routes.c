/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of routes: the handlers of paths, and whether the documents have the same rows. DOCS is their
 * folder.
 */
#include "test.h"

#include <jansson.h>
#include <stdlib.h>
#include "server/artifact/artifact.h"
#include "server/profiles/profiles.h"
#include "server/push/push.h"
#include "server/status/status.h"
#include "server/symbolize/symbolize.h"

static char path_space[HTTP_TARGET_MAX + 1];

static struct http_match match(const char *method, const char *target)
{
	static struct http_routes routes;
	struct http_match m;

	if (!routes.rows)
		http_routes_init(&routes, server_routes, SERVER_PREFIX);
	http_match(&routes, NULL, method, str_of(target), path_space, &m);
	return m;
}

/* ---- answers that were given before there was one table ---- */

static void paths_lead_to_their_handlers(void **state)
{
	static const struct {
		const char *method, *target;
		const struct http_handler *handler;
	} cases[] = {
		{ "GET", "/", &page_get },
		{ "GET", "/metadata", &metadata_get },
		{ "GET", "/metrics", &metrics_get },
		{ "HEAD", "/metrics", &metrics_get },
		{ "GET", "/healthz", &health_get },
		{ "GET", "/readyz", &ready_get },
		{ "GET", "/api/status", &status_get },
		{ "GET", "/api/failures", &failures_get },
		{ "GET", "//metrics", &metrics_get },
		{ "GET", "/web/app.js", &page_get },
		{ "GET", "///", &page_get },
		{ "GET", "/%6detrics", &metrics_get },
		{ "GET", "http://example.com/metrics", &metrics_get },
		{ "GET", "HTTPS://[::1]:8002//metrics", &metrics_get },
		{ "GET", "http://example.com", &page_get },
		{ "GET", "http://", &page_get },
		{ "GET", "http:///", &page_get },
		{ "POST", "/symbolize", &symbolize_post },
		{ "POST", "/buildid/0aff/symbolize", &symbolize_post },
		{ "POST", "http://example.com/symbolize", &symbolize_post },
		{ "GET", "/buildid/0aff/symbolize", &symbolize_get },
		{ "GET", "/pprof/symbol", &symbolize_pprof_get },
		{ "GET", "/buildid/0aff/pprof/symbol", &symbolize_pprof_get },
		{ "POST", "/profiles", &profiles_post },
		{ "GET", "/api/labels/x/values", &profiles_get },
		{ "GET", "/api/nothing", &profiles_other },
		{ "DELETE", "/api/nothing", &profiles_other },
		{ "GET", "/api/nothing/debuginfo", &profiles_other },
		{ "GET", "/api/0aff/executable", &profiles_other },
		{ "POST", "/api/0aff/debuginfo", &profiles_other },
		{ "GET", "/0a/ff/debuginfo", &artifact_get },
		{ "GET", "/api/elf-buildid-0aff/api", &artifact_get },
		{ "GET", "/LIB.SO/ELF-BUILDID-0AFF/LIB.SO", &artifact_get },
		{ "GET", "/_.DEBUG/ELF-BUILDID-SYM-0AFF/_.Debug", &artifact_get },
		{ "PUT", "/buildid/0aff/debuginfo", &push_put },
		{ "DELETE", "/buildid/0aff/debuginfo", &push_remove },
		{ "DELETE", "/buildid/0aff/section/.text", &push_remove },
		{ "POST", "/push/want", &push_want },
		/* Refused before, by the only router that did not skip a host. */
		{ "PUT", "http://example.com/buildid/0aff/debuginfo", &push_put },
		{ "DELETE", "http://example.com/buildid/0aff/debuginfo", &push_remove },
		{ "POST", "http://example.com/push/want", &push_want },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_match m = match(cases[i].method, cases[i].target);

		if (m.status || m.route->handler != cases[i].handler)
			fail_msg("%s %s: %u", cases[i].method, cases[i].target, m.status);
	}
	assert_str(match("GET", "/web/app.js").parts[0], "/app.js");
	assert_str(match("GET", "/api/labels/a%20b/values").parts[0], "a b");
}

static void artifacts_are_named_by_build_id(void **state)
{
	static const struct {
		const char *path;
		enum resolve_kind kind;
		const char *arg;
	} cases[] = {
		{ "/buildid/0aff/debuginfo", RESOLVE_DEBUGINFO, "" },
		{ "/buildid/0aff/debuginfo/", RESOLVE_DEBUGINFO, "" },
		{ "/buildid/0aff/executable", RESOLVE_EXECUTABLE, "" },
		{ "//buildid//0aff//executable", RESOLVE_EXECUTABLE, "" },
		{ "/buildid/0aff%2Fdebuginfo", RESOLVE_DEBUGINFO, "" },
		{ "/buildid/0aff/source/usr/src/a.c", RESOLVE_SOURCE, "/usr/src/a.c" },
		{ "/buildid/0aff/source//usr/src/a.c", RESOLVE_SOURCE, "//usr/src/a.c" },
		{ "/buildid/0aff/source/./a%20b%2Bc.c", RESOLVE_SOURCE, "/./a b+c.c" },
		{ "/buildid/0aff/source%2Fusr%2fa.c", RESOLVE_SOURCE, "/usr/a.c" },
		{ "/buildid/0aff/source/%ff%c3", RESOLVE_SOURCE, "/\xff\xc3" },
		{ "/buildid/0aff/section/.debug_line", RESOLVE_SECTION, ".debug_line" },
		{ "/buildid/0aff/section/%2Etext", RESOLVE_SECTION, ".text" },
		{ "/buildid/0aff/section/a/b", RESOLVE_SECTION, "a/b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_match m = match("GET", cases[i].path);
		struct resolve_request what;
		const char *why;

		if (m.status || m.route->handler != &artifact_get ||
		    artifact_of_path(m.route, m.parts, &what, &why))
			fail_msg("%s: %u", cases[i].path, m.status);
		assert_int_equal(what.kind, cases[i].kind);
		assert_int_equal(what.id.size, 2);
		assert_str(what.arg, cases[i].arg);
	}
}

/* Go's text, which has slashes itself, ends where the word of the route begins, however many slashes are between. */
static void slashes_after_go_text_are_one(void **state)
{
	static const char *const targets[] = {
		"/buildid/abcdefghij0123456789/klmnopqrst0123456789/debuginfo",
		"/buildid/abcdefghij0123456789/klmnopqrst0123456789//debuginfo",
		"//buildid//abcdefghij0123456789/klmnopqrst0123456789///debuginfo/"
	};

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		struct http_match m = match("GET", targets[i]);
		struct resolve_request what;
		const char *why;

		if (m.status || m.route->handler != &artifact_get ||
		    artifact_of_path(m.route, m.parts, &what, &why))
			fail_msg("%s: %u", targets[i], m.status);
		assert_int_equal(what.kind, RESOLVE_DEBUGINFO);
		assert_int_equal(what.id.size, 41);
	}
}

static void wrong_paths_are_not_found(void **state)
{
	static const char *const targets[] = { "",
					       "nothing",
					       "/nothing",
					       "http:/metrics",
					       "ftp://example.com/metrics",
					       "http%3A//example.com/metrics",
					       "/buildid",
					       "/metrics/",
					       "/api",
					       "/push" };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		assert_int_equal(match("GET", targets[i]).status, 404);
		assert_int_equal(match("POST", targets[i]).status, 404);
	}
}

static void wrong_build_ids_are_refused(void **state)
{
	static const char *const refused[] = { "/buildid/0AFF/debuginfo", "/buildid/0af/debuginfo",
					       "/buildid/xyzw/debuginfo", "/buildid/0aff/source",
					       "/buildid/0aff/source/",   "/buildid/0aff/section/" };
	/* Refused by the handler of all other paths. */
	static const char *const others[] = { "/buildid/",           "/buildid/../etc/passwd",
					      "/buildid/0aff",       "/buildid/0aff/",
					      "/buildid/0aff/debug", "/buildid/0aff/debuginfo/x" };
	struct resolve_request what;
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct http_match m = match("GET", refused[i]);

		assert_int_equal(m.status, 0);
		assert_int_equal(artifact_of_path(m.route, m.parts, &what, &why), 400);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_ptr_equal(match("GET", others[i]).route->handler, &artifact_other);
}

/* ---- the documents ---- */

struct lines {
	char *v[128];
	size_t n;
};

/* "GET /buildid/{id}/debuginfo" and "GET /buildid/ID/debuginfo" become "GET /buildid/?/debuginfo". */
static void add_line(struct lines *l, struct str method, struct str path)
{
	struct buf b = { 0 };

	buf_add_str(&b, method);
	buf_add_char(&b, ' ');
	for (size_t i = 0; i < path.size; i++) {
		size_t from = i;

		while (i < path.size && path.p[i] >= 'A' && path.p[i] <= 'Z')
			i++;
		if (i > from + 1) {
			buf_add_char(&b, '?');
			i--;
		} else if (path.p[i = from] == '{') {
			while (path.p[i] != '}')
				i++;
			buf_add_char(&b, '?');
		} else {
			buf_add_char(&b, path.p[i]);
		}
	}
	assert_true(l->n < ARRAY_SIZE(l->v));
	l->v[l->n++] = mem_strdup(buf_cstr(&b));
	buf_done(&b);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Frees both. */
static void assert_same_lines(struct lines *table, struct lines *document)
{
	size_t n = MIN(table->n, document->n);

	qsort(table->v, table->n, sizeof(char *), by_text);
	qsort(document->v, document->n, sizeof(char *), by_text);
	for (size_t i = 0; i < n; i++)
		if (strcmp(table->v[i], document->v[i]) != 0)
			fail_msg("the table has %s, the document %s", table->v[i], document->v[i]);
	if (table->n != document->n)
		fail_msg("only one of them has %s", table->n > n ? table->v[n] : document->v[n]);
	for (size_t i = 0; i < n; i++) {
		free(table->v[i]);
		free(document->v[i]);
	}
}

static struct str method_name(const struct http_route *r)
{
	return r->method == HTTP_GET    ? STR("GET")
	       : r->method == HTTP_POST ? STR("POST")
	       : r->method == HTTP_PUT  ? STR("PUT")
					: STR("DELETE");
}

/* The rows of the table with this head. */
static struct str table_of(const struct buf *text, const char *head)
{
	const char *at = strstr((const char *)text->p, head), *end;

	assert_non_null(at);
	at = strchr(strchr(at, '\n') + 1, '\n') + 1;
	end = strstr(at, "\n\n");
	assert_non_null(end);
	return (struct str){ at, (size_t)(end - at) };
}

static void read_document(const char *name, struct buf *ret)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", DOCS, name);
	struct err err = { 0 };

	assert_done(file_read(path, MIB(1), ret, &err));
	buf_cstr(ret);
}

static void protocol_md_has_a_line_for_each_row(void **state)
{
	struct lines table = { 0 }, document = { 0 };
	struct buf text = { 0 };
	struct str rest;

	read_document("protocol.md", &text);
	rest = table_of(&text, "| method | path |");
	while (rest.size) {
		struct str line = str_cut(&rest, '\n'), methods, paths;

		(void)str_cut(&line, '|');
		methods = str_cut(&line, '|');
		paths = str_cut(&line, '|');
		while (methods.size) {
			struct str method = str_trim(str_cut(&methods, ',')), list = paths;

			while (list.size) {
				struct str path;

				(void)str_cut(&list, '`');
				path = str_cut(&list, '`');
				if (path.size)
					add_line(&document, method, str_cut(&path, '?'));
			}
		}
	}
	for (const struct http_route *r = server_routes; r->pattern; r++)
		if (r->method)
			add_line(&table, method_name(r), str_of(r->pattern));
	assert_same_lines(&table, &document);
	buf_done(&text);
}

static void openapi_json_has_each_row_of_the_api_of_profiles(void **state)
{
	struct lines table = { 0 }, document = { 0 };
	json_t *all, *methods, *operation;
	struct buf text = { 0 };
	const char *path, *name;

	read_document("openapi.json", &text);
	all = json_loadb((const char *)text.p, text.size, 0, NULL);
	assert_non_null(all);
	json_object_foreach(json_object_get(all, "paths"), path, methods)
	{
		json_object_foreach(methods, name, operation) add_line(
			&document, strcmp(name, "get") == 0 ? STR("GET") : STR("POST"), str_of(path));
	}
	for (const struct http_route *r = server_routes; r->pattern; r++)
		if (r->handler == &profiles_get || r->handler == &profiles_post)
			add_line(&table, method_name(r), str_of(r->pattern));
	assert_same_lines(&table, &document);
	json_decref(all);
	buf_done(&text);
}

static void protocol_md_has_the_types_of_requests_in_the_metrics(void **state)
{
	AUTO(buf_done) struct buf types = { 0 };
	struct buf text = { 0 };
	const char *at;

	for (unsigned i = 0; server_types[i]; i++)
		buf_printf(&types, "%s`%s`", i ? ", " : "| ", server_types[i]);
	buf_add_str(&types, STR(" |"));
	read_document("protocol.md", &text);
	at = strstr((const char *)text.p, "| `http_requests_total{type}` ");
	assert_non_null(at);
	at += strlen("| `http_requests_total{type}` ");
	if (strncmp(at, buf_cstr(&types), types.size) != 0)
		fail_msg("the line of http_requests_total should have: %s", buf_cstr(&types));
	buf_done(&text);
}

static void rows_are_whole(void **state)
{
	for (const struct http_route *r = server_routes; r->pattern; r++) {
		assert_true(r->type < N_TYPES && r->handler);
		assert_true(r->handler->run || r->handler->canned || !r->method);
		assert_true(!r->body || (r->method == HTTP_POST && r->body->slot < HTTP_BODY_SLOTS));
		/* A change needs a token, or a client on this machine; or the path has a secret. Probes change nothing. */
		assert_true(r->method == HTTP_GET || r->scope != 0 || r->handler == &push_by_pass ||
			    r->type == TYPE_HEALTH);
		assert_true(!(r->method & (HTTP_PUT | HTTP_DELETE)) || r->scope != TOKEN_READ);
		/* The rows of all other paths come last. */
		assert_true(r->method || !r[1].pattern || !r[1].method);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_lead_to_their_handlers),
		cmocka_unit_test(artifacts_are_named_by_build_id),
		cmocka_unit_test(slashes_after_go_text_are_one),
		cmocka_unit_test(wrong_paths_are_not_found),
		cmocka_unit_test(wrong_build_ids_are_refused),
		cmocka_unit_test(protocol_md_has_a_line_for_each_row),
		cmocka_unit_test(openapi_json_has_each_row_of_the_api_of_profiles),
		cmocka_unit_test(protocol_md_has_the_types_of_requests_in_the_metrics),
		cmocka_unit_test(rows_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
