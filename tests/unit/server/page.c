/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: its files, its figures, the list of failures.
 */
#include "fixture.h"
#include "http/route.h"

#include <jansson.h>
#include <unistd.h>
#include "stubs.h"

#define ID "0123456789abcdef"

static struct server_fixture f;

static int setup_with(void (*change)(struct server_options *o))
{
	fixture_init(&f);
	atomic_store(&stub_is_up, true);
	atomic_store(&stub_is_idle, true);
	stub_index = true;
	stub_counted = stub_n_failed = 0;
	strcpy(stub_failed, "/srv/pool/secret/bad.deb");
	strcpy(stub_reason, "/srv/pool/secret/bad.deb: data.tar.xz: ends early");
	f.opts.index_path = "/nowhere/index";
	f.opts.scan = STUB_SCAN;
	if (change)
		change(&f.opts);
	fixture_start(&f);
	return 0;
}

static int setup(void **state)
{
	return setup_with(NULL);
}

static void hide(struct server_options *o)
{
	o->hide_archive = true;
}

static int setup_hidden(void **state)
{
	return setup_with(hide);
}

static int teardown(void **state)
{
	fixture_done(&f);
	return 0;
}

static json_t *get_json(const char *path)
{
	struct http_answer a = http_fetch(f.url, "GET", path, NULL);
	json_t *j;

	assert_int_equal(a.status, 200);
	assert_header(&a, "Content-Type", "application/json");
	assert_header(&a, "Cache-Control", "no-store");
	j = json_loadb((const char *)a.body.p, a.body.size, 0, NULL);
	assert_non_null(j);
	http_answer_done(&a);
	return j;
}

static long long number(json_t *j, const char *object, const char *name)
{
	json_t *n = json_object_get(json_object_get(j, object), name);

	if (!json_is_integer(n))
		fail_msg("%s.%s is no number", object, name);
	return json_integer_value(n);
}

static bool truth(json_t *j, const char *object, const char *name)
{
	json_t *b = json_object_get(json_object_get(j, object), name);

	assert_true(json_is_boolean(b));
	return json_is_true(b);
}

/* ---- figures ---- */

static void the_status_has_figures_of_each_part(void **state)
{
	json_t *j = get_json("/api/status");

	assert_int_equal(number(j, "index", "build_ids"), 42);
	assert_true(truth(j, "scan", "ready"));
	assert_true(truth(j, "scan", "idle"));
	assert_int_equal(number(j, "cache", "bytes"), 0);
	/* Two shared ones and one of each class; and those of long queries. */
	assert_int_equal(number(j, "requests", "workers"), 2 + HTTP_WORKER_CLASSES + 2 + 1);
	json_decref(j);
	atomic_store(&stub_is_idle, false);
	j = get_json("/api/status");
	assert_false(truth(j, "scan", "idle"));
	json_decref(j);
}

/* For any number of pages: the index is large. */
static void the_index_is_not_counted_for_each_request(void **state)
{
	for (int i = 0; i < 20; i++)
		json_decref(get_json("/api/status"));
	assert_in_range(stub_counted, 1, 5);
}

static void an_index_that_cannot_be_read_is_null(void **state)
{
	json_t *j;

	stub_index = false;
	j = get_json("/api/status");
	assert_true(json_is_null(json_object_get(j, "index")));
	json_decref(j);
	assert_status(&f, "/api/failures", 503);
	stub_index = true;
	j = get_json("/api/status");
	assert_int_equal(number(j, "index", "build_ids"), 42);
	json_decref(j);
}

/* Compares counters before and after. */
static void requests_are_counted_by_how_they_ended(void **state)
{
	struct bytes body = fixture_put(&f, RESOLVE_DEBUGINFO, ID, "", 1000, "/x", "");
	json_t *before = get_json("/api/status"), *after;

	assert_status(&f, "/buildid/" ID "/debuginfo", 200);
	assert_status(&f, "/buildid/" ID "/debuginfo", 200);
	assert_status(&f, "/buildid/ffff/debuginfo", 404);
	assert_status(&f, "/buildid/fff/debuginfo", 400);
	assert_status(&f, "/metadata", 400);
	assert_status(&f, "/healthz", 200);
	assert_status(&f, "/metrics", 200);
	assert_status(&f, "/", 200);
	/* A request is counted when its reply has been sent, perhaps after the client has received it. */
	for (int i = 0;; i++) {
		after = get_json("/api/status");
		if (i == 500 ||
		    number(after, "requests", "refused") - number(before, "requests", "refused") == 2)
			break;
		json_decref(after);
		usleep(10000);
	}
	assert_int_equal(number(after, "requests", "served") - number(before, "requests", "served"), 2);
	assert_int_equal(number(after, "requests", "missing") - number(before, "requests", "missing"), 1);
	assert_int_equal(number(after, "requests", "refused") - number(before, "requests", "refused"), 2);
	assert_int_equal(number(after, "requests", "failed") - number(before, "requests", "failed"), 0);
	assert_true(number(after, "requests", "bytes") - number(before, "requests", "bytes") >= 2000);
	json_decref(before);
	json_decref(after);
	free((void *)body.p);
}

/* ---- failures ---- */

static json_t *first_of(json_t *j)
{
	return json_array_get(json_object_get(j, "failures"), 0);
}

static const char *text(json_t *one, const char *name)
{
	return json_string_value(json_object_get(one, name));
}

static size_t n_of(json_t *j)
{
	return json_array_size(json_object_get(j, "failures"));
}

static void a_failure_is_listed_with_its_reason(void **state)
{
	json_t *j = get_json("/api/failures"), *one = first_of(j);

	assert_int_equal(n_of(j), 1);
	assert_string_equal(text(one, "path"), "/srv/pool/secret/bad.deb");
	assert_string_equal(text(one, "reason"), "/srv/pool/secret/bad.deb: data.tar.xz: ends early");
	assert_string_equal(text(one, "kind"), "invalid");
	assert_int_equal(json_integer_value(json_object_get(one, "tries")), 3);
	assert_in_range(json_integer_value(json_object_get(one, "next_try_in")), 490, 500);
	assert_null(json_object_get(j, "next"));
	json_decref(j);
}

static void hidden_paths_are_neither_shown_nor_searched(void **state)
{
	json_t *j = get_json("/api/failures"), *one = first_of(j);

	assert_string_equal(text(one, "path"), "bad.deb");
	assert_string_equal(text(one, "reason"), "bad.deb: data.tar.xz: ends early");
	json_decref(j);
	j = get_json("/api/failures?match=secret");
	assert_int_equal(n_of(j), 0);
	json_decref(j);
	j = get_json("/api/failures?match=bad.deb");
	assert_int_equal(n_of(j), 1);
	json_decref(j);
}

static void names_that_are_not_text_become_text(void **state)
{
	json_t *j;

	strcpy(stub_failed, "/srv/\xff\xc3\xa4<img>.deb");
	j = get_json("/api/failures");
	assert_string_equal(text(first_of(j), "path"), "/srv/\xef\xbf\xbd\xc3\xa4<img>.deb");
	json_decref(j);
}

static void many_failures_come_in_pages(void **state)
{
	char path[100] = "/api/failures?limit=400";
	size_t n = 0, pages = 0;

	stub_n_failed = 1000;
	for (;;) {
		json_t *j = get_json(path);
		const char *next = text(j, "next");
		char want[300];

		snprintf(want, sizeof(want), "/srv/pool/secret/bad.deb.%zu", n + 1);
		assert_string_equal(text(first_of(j), "path"), want);
		n += n_of(j);
		pages++;
		if (next)
			snprintf(path, sizeof(path), "/api/failures?limit=400&cursor=%s", next);
		json_decref(j);
		if (!next)
			break;
	}
	assert_int_equal(n, 1000);
	assert_int_equal(pages, 3);
}

static void a_full_last_page_has_no_next_page(void **state)
{
	json_t *j;

	stub_n_failed = 256;
	j = get_json("/api/failures?limit=256");
	assert_int_equal(n_of(j), 256);
	assert_null(json_object_get(j, "next"));
	json_decref(j);
}

static void failures_are_filtered_by_path_and_reason(void **state)
{
	json_t *j;

	stub_n_failed = 1000;
	j = get_json("/api/failures?match=DEB.77");
	assert_int_equal(n_of(j), 11); /* .77, .770 to .779 */
	assert_null(json_object_get(j, "next"));
	json_decref(j);
	j = get_json("/api/failures?match=ends%20early&limit=5");
	assert_int_equal(n_of(j), 5);
	assert_string_equal(text(j, "next"), "5");
	json_decref(j);
}

/* One request does not search a whole archive. */
static void a_search_that_finds_nothing_ends_and_goes_on(void **state)
{
	json_t *j;

	stub_n_failed = 30000;
	j = get_json("/api/failures?match=none%20has%20this");
	assert_int_equal(n_of(j), 0);
	assert_string_equal(text(j, "next"), "20000");
	json_decref(j);
	j = get_json("/api/failures?match=none%20has%20this&cursor=20000");
	assert_null(json_object_get(j, "next"));
	json_decref(j);
}

static void wrong_queries_are_refused(void **state)
{
	assert_status(&f, "/api/failures?limit=0", 400);
	assert_status(&f, "/api/failures?limit=x", 400);
	assert_status(&f, "/api/failures?cursor=-1", 400);
	assert_status(&f, "/api/failures?cursor=18446744073709551615", 400);
	assert_status(&f, "/api/failures?match=%zz", 400);
	assert_status(&f, "/api/failures/", 404);
}

/* ---- files ---- */

static void the_page_runs_nothing_but_its_own_script(void **state)
{
	static const char *const rules[] = { "default-src 'none'", "script-src 'self'", "connect-src 'self'",
					     "require-trusted-types-for 'script'" };
	struct http_answer a = http_fetch(f.url, "GET", "/", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Content-Type", "text/html; charset=utf-8");
	assert_header(&a, "X-Content-Type-Options", "nosniff");
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		assert_non_null(strstr(http_answer_header(&a, "Content-Security-Policy"), rules[i]));
	http_answer_done(&a);
	a = http_fetch(f.url, "GET", "/web/app.js", NULL);
	assert_header(&a, "Content-Type", "text/javascript; charset=utf-8");
	http_answer_done(&a);
	assert_status(&f, "/web/style.css", 200);
	assert_status(&f, "/web/flame/model.js", 200);
	assert_status(&f, "/web/none.js", 404);
	assert_status(&f, "/web/../index.html", 404);
}

#define T(name, before) cmocka_unit_test_setup_teardown(name, before, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_status_has_figures_of_each_part, setup),
		T(the_index_is_not_counted_for_each_request, setup),
		T(an_index_that_cannot_be_read_is_null, setup),
		T(requests_are_counted_by_how_they_ended, setup),
		T(a_failure_is_listed_with_its_reason, setup),
		T(hidden_paths_are_neither_shown_nor_searched, setup_hidden),
		T(names_that_are_not_text_become_text, setup),
		T(many_failures_come_in_pages, setup),
		T(a_full_last_page_has_no_next_page, setup),
		T(failures_are_filtered_by_path_and_reason, setup),
		T(a_search_that_finds_nothing_ends_and_goes_on, setup),
		T(wrong_queries_are_refused, setup),
		T(the_page_runs_nothing_but_its_own_script, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
