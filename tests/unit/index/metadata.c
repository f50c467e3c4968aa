/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#define EXE ELF_IS_EXECUTABLE
#define DBG ELF_IS_DEBUG

/* The results, as lines such as "x 1 /file archive". */
struct results {
	struct buf text;
	size_t n;
	int stop; /* at this result, add_result() returns 77 */
};

static int add_result(void *arg, const struct index_metadata *r)
{
	struct results *t = arg;

	for (uint32_t id = 1; id < 200; id++) {
		struct build_id want = fixture_id(id);

		if (build_id_eq(&want, &r->build_id))
			buf_printf(&t->text, "%c %u " STR_FMT "%s" STR_FMT "\n", r->debuginfo ? 'd' : 'x', id,
				   STR_ARG(r->file), r->archive.size ? " " : "", STR_ARG(r->archive));
	}
	t->n++;
	return t->stop && (int)t->n == t->stop ? 77 : 0;
}

#define QUERY(k, v, from, n, to)         \
	(&(struct index_metadata_query){ \
		.key = (k), .value = (v), .cursor = (from), .max = (n), .fn = add_result, .arg = (to) })

static void page_done(struct index_metadata_page *page)
{
	buf_done(&page->next);
}

/* Query all results in pages of @max. Returns whether every page was complete. */
static bool query_all(struct index_fixture *fix, const char *key, const char *value, size_t max,
		      struct results *t)
{
	AUTO(buf_done) struct buf cursor = { 0 };
	AUTO(page_done) struct index_metadata_page page = { 0 };
	struct err err = { 0 };
	bool all = true;

	memset(t, 0, sizeof(*t));
	for (int i = 0; i < 1000; i++) {
		size_t before = t->n;

		assert_done(index_metadata(
			fix->ix, QUERY(str_of(key), str_of(value), buf_str(&cursor), max, t), &page, &err));
		assert_true(t->n - before <= max);
		all = all && page.complete;
		if (!page.next.size)
			return all;
		assert_true(t->n - before == max);
		cursor.size = 0;
		buf_add_str(&cursor, buf_str(&page.next));
	}
	fail();
	return false;
}

static void assert_results(struct index_fixture *fix, const char *key, const char *value, const char *want)
{
	for (size_t max = 1; max < 8; max++) {
		struct results t;

		assert_true(query_all(fix, key, value, max, &t));
		assert_string_equal(buf_cstr(&t.text), want);
		buf_done(&t.text);
	}
}

static void add_files(struct index_fixture *fix)
{
	static const struct fixture_entry first[] = {
		{ "usr/bin/ls", 1, EXE },
		{ "usr/bin/cat", 2, EXE },
		{ "usr/share/doc/ls", 0, 0 },
		{ "usr/lib/debug/ls", 1, DBG },
	};
	static const struct fixture_entry second[] = {
		{ "usr/bin/ls", 3, EXE | DBG },
		{ "opt/x/ls", 4, EXE },
	};

	fixture_add_plain(fix, "/usr/bin/ls", 10, 1, EXE);
	fixture_add_plain(fix, "/usr/bin/gdb", 20, 5, EXE | DBG);
	fixture_add_plain(fix, "/usr/sbin/lsof", 30, 6, EXE);
	fixture_add_plain(fix, "/lsx", 30, 7, DBG);
	fixture_add_package(fix, "/pool/first.deb", 40, first, ARRAY_SIZE(first));
	fixture_add_package(fix, "/pool/second.deb", 50, second, ARRAY_SIZE(second));
}

static void an_exact_path_is_found_in_files_and_packages(void **state)
{
	struct index_fixture *fix = *state;

	add_files(fix);
	assert_results(fix, "file", "/usr/bin/ls",
		       "x 1 /usr/bin/ls\n"
		       "x 1 /usr/bin/ls /pool/first.deb\n"
		       "x 3 /usr/bin/ls /pool/second.deb\n"
		       "d 3 /usr/bin/ls /pool/second.deb\n");
	assert_results(fix, "file", "//usr/./bin/../bin/gdb", "x 5 /usr/bin/gdb\nd 5 /usr/bin/gdb\n");
	assert_results(fix, "file", "/usr/share/doc/ls", "");
	assert_results(fix, "file", "/usr/bin", "");
	assert_results(fix, "file", "usr/bin/ls", "");
	assert_results(fix, "file", "", "");
	assert_results(fix, "file", "/", "");
	/* The path of a package does not match its members. */
	assert_results(fix, "file", "/pool/first.deb", "");
}

static void a_pattern_is_found_in_files_and_packages(void **state)
{
	struct index_fixture *fix = *state;

	add_files(fix);
	assert_results(fix, "glob", "/usr/*bin/ls*",
		       "x 1 /usr/bin/ls\n"
		       "x 6 /usr/sbin/lsof\n"
		       "x 1 /usr/bin/ls /pool/first.deb\n"
		       "x 3 /usr/bin/ls /pool/second.deb\n"
		       "d 3 /usr/bin/ls /pool/second.deb\n");
	assert_results(fix, "glob", "/*/*/ls",
		       "x 1 /usr/bin/ls\n"
		       "x 1 /usr/bin/ls /pool/first.deb\n"
		       "x 4 /opt/x/ls /pool/second.deb\n"
		       "x 3 /usr/bin/ls /pool/second.deb\n"
		       "d 3 /usr/bin/ls /pool/second.deb\n");
	assert_results(fix, "glob", "/ls?", "d 7 /lsx\n");
	assert_results(fix, "glob", "/usr/lib/debug/*", "d 1 /usr/lib/debug/ls /pool/first.deb\n");
	/* No wildcard stands for a slash. */
	assert_results(fix, "glob", "*ls*", "");
	assert_results(fix, "glob", "", "");
}

static void a_build_id_has_all_its_paths(void **state)
{
	struct index_fixture *fix = *state;
	struct build_id id = fixture_id(1);
	char hex[BUILD_ID_HEX_SIZE];

	add_files(fix);
	assert_results(fix, "buildid", build_id_hex(&id, hex),
		       "x 1 /usr/bin/ls\n"
		       "x 1 /usr/bin/ls /pool/first.deb\n"
		       "d 1 /usr/lib/debug/ls /pool/first.deb\n");
	id = fixture_id(99);
	assert_results(fix, "buildid", build_id_hex(&id, hex), "");
}

static void unscanned_packages_make_the_result_incomplete(void **state)
{
	struct index_fixture *fix = *state;
	struct build_id id = fixture_id(50);
	char hex[BUILD_ID_HEX_SIZE];
	struct err why = { .kind = ERR_INVALID }, err = { 0 };
	struct results t;
	int64_t file;

	add_files(fix);
	file = fixture_add_header(fix, "/pool/third.deb", 60, 50, 1);
	assert_false(query_all(fix, "file", "/lsx", 10, &t));
	assert_int_equal(t.n, 1);
	buf_done(&t.text);
	assert_false(query_all(fix, "buildid", build_id_hex(&id, hex), 10, &t));
	assert_int_equal(t.n, 0);
	id = fixture_id(7);
	assert_true(query_all(fix, "buildid", build_id_hex(&id, hex), 10, &t));
	buf_done(&t.text);
	/* A failed package can add no results: the result is complete without it. */
	assert_done(index_fail(fix->ix, file, &why, 0, &err));
	assert_true(query_all(fix, "file", "/lsx", 10, &t));
	buf_done(&t.text);
}

static void a_query_past_its_deadline_returns_a_cursor(void **state)
{
	struct index_fixture *fix = *state;
	AUTO(page_done) struct index_metadata_page page = { 0 }, rest = { 0 };
	struct results t = { 0 };
	struct index_metadata_query q = *QUERY(STR("glob"), STR("/*/*/*"), STR(""), 10, &t);
	struct err err = { 0 };

	add_files(fix);
	q.deadline_mono_ms = clock_mono_ms() - 1;
	assert_done(index_metadata(fix->ix, &q, &page, &err));
	assert_false(page.complete);
	assert_int_equal(t.n, 0);
	assert_true(page.next.size > 0);
	/* The next page has all results. */
	q.cursor = buf_str(&page.next);
	q.max = 100;
	q.deadline_mono_ms = clock_mono_ms() + 60000;
	assert_done(index_metadata(fix->ix, &q, &rest, &err));
	assert_true(rest.complete);
	assert_int_equal(rest.next.size, 0);
	assert_int_equal(t.n, 9);
	buf_done(&t.text);
}

struct late_results {
	struct index_metadata_query *q;
	size_t n;
};

/* The deadline passes with each result. */
static int add_late(void *arg, const struct index_metadata *r)
{
	struct late_results *t = arg;

	t->n++;
	t->q->deadline_mono_ms = clock_mono_ms() - 1;
	return 0;
}

/* A pattern with a star costs up to its length times that of the name. */
static void the_deadline_passes_between_names_that_cost_much_to_match(void **state)
{
	struct index_fixture *fix = *state;
	AUTO(page_done) struct index_metadata_page page = { 0 }, rest = { 0 };
	char names[3][3000], pattern[1002] = "/*";
	struct fixture_entry entries[ARRAY_SIZE(names)];
	struct index_metadata_query q = { .key = STR("glob"), .max = 10, .fn = add_late };
	struct late_results t = { .q = &q };
	struct err err = { 0 };

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		memset(names[i], 'a', sizeof(names[i]));
		names[i][sizeof(names[i]) - 1 - i] = '\0';
		entries[i] = (struct fixture_entry){ names[i], i + 1, EXE };
	}
	fixture_add_package(fix, "/pool/a.deb", 1, entries, ARRAY_SIZE(entries));
	memset(pattern + 2, 'a', sizeof(pattern) - 3);
	q.value = str_of(pattern);
	q.arg = &t;
	q.deadline_mono_ms = clock_mono_ms() + 60000;
	assert_done(index_metadata(fix->ix, &q, &page, &err));
	assert_int_equal(t.n, 1);
	assert_false(page.complete);
	/* The next page begins after the result that was given. */
	q.cursor = buf_str(&page.next);
	q.deadline_mono_ms = 0;
	assert_done(index_metadata(fix->ix, &q, &rest, &err));
	assert_int_equal(t.n, 2);
}

static void a_nonzero_result_of_the_callback_ends_the_query(void **state)
{
	struct index_fixture *fix = *state;
	AUTO(page_done) struct index_metadata_page page = { 0 };
	struct results t = { .stop = 2 };
	struct err err = { 0 };

	add_files(fix);
	assert_int_equal(
		index_metadata(fix->ix, QUERY(STR("glob"), STR("/*/*/*"), STR(""), 10, &t), &page, &err), 77);
	assert_int_equal(t.n, 2);
	buf_done(&t.text);
}

static void invalid_queries_are_refused(void **state)
{
	struct index_fixture *fix = *state;
	AUTO(page_done) struct index_metadata_page page = { 0 };
	static const char *const cursors[] = { "x",
					       "1",
					       "1-2-3",
					       "3-0-0-0",
					       "0-0-0-0",
					       "1-0-0-0-0",
					       "1-0--0",
					       "-1-0-0-0",
					       "1-0-99999999999999999999-0",
					       "1-9223372036854775808-0-0" };
	static char huge[5000];
	const struct str pattern = { huge, sizeof(huge) };
	struct results t = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cursors); i++)
		assert_fails(index_metadata(fix->ix,
					    QUERY(STR("file"), STR("/x"), str_of(cursors[i]), 10, &t), &page,
					    &err),
			     ERR_INVALID, "cursor");
	assert_fails(index_metadata(fix->ix, QUERY(STR("name"), STR("/x"), STR(""), 10, &t), &page, &err),
		     ERR_INVALID, "key");
	assert_fails(index_metadata(fix->ix, QUERY(STR("buildid"), STR("/x"), STR(""), 10, &t), &page, &err),
		     ERR_INVALID, "build ID");
	memset(huge, '*', sizeof(huge));
	assert_fails(index_metadata(fix->ix, QUERY(STR("glob"), pattern, STR(""), 10, &t), &page, &err),
		     ERR_INVALID, "pattern");
}

static void packages_of_several_pages_are_all_found(void **state)
{
	struct index_fixture *fix = *state;
	struct results t;

	for (uint32_t i = 0; i < 150; i++) {
		struct fixture_entry e = { "usr/bin/x", i + 1, EXE };
		char path[64];

		snprintf(path, sizeof(path), "/pool/%u.deb", i);
		fixture_add_package(fix, path, 1, &e, 1);
	}
	assert_true(query_all(fix, "glob", "/usr/bin/?", 7, &t));
	assert_int_equal(t.n, 150);
	buf_done(&t.text);
	assert_true(query_all(fix, "file", "/usr/bin/x", 50, &t));
	assert_int_equal(t.n, 150);
	buf_done(&t.text);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(an_exact_path_is_found_in_files_and_packages),
		T(a_pattern_is_found_in_files_and_packages),
		T(a_build_id_has_all_its_paths),
		T(unscanned_packages_make_the_result_incomplete),
		T(a_query_past_its_deadline_returns_a_cursor),
		T(the_deadline_passes_between_names_that_cost_much_to_match),
		T(a_nonzero_result_of_the_callback_ends_the_query),
		T(invalid_queries_are_refused),
		T(packages_of_several_pages_are_all_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
