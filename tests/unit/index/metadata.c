/* SPDX-License-Identifier: Apache-2.0 */
#include "maker.h"

#define EXE ELF_IS_EXECUTABLE
#define DBG ELF_IS_DEBUG

/* Results as lines "x 1 /file archive". */
struct told {
	struct buf text;
	size_t n;
	int stop; /* after this many, fn returns 77 */
};

static int on_result(void *arg, const struct index_metadata *r)
{
	struct told *t = arg;

	for (uint32_t id = 1; id < 200; id++) {
		struct build_id want = maker_id(id);

		if (build_id_eq(&want, &r->build_id))
			buf_printf(&t->text, "%c %u " STR_FMT "%s" STR_FMT "\n", r->debuginfo ? 'd' : 'x', id,
				   STR_ARG(r->file), r->archive.size ? " " : "", STR_ARG(r->archive));
	}
	t->n++;
	return t->stop && (int)t->n == t->stop ? 77 : 0;
}

#define QUERY(k, v, from, n, to)         \
	(&(struct index_metadata_query){ \
		.key = (k), .value = (v), .cursor = (from), .max = (n), .fn = on_result, .arg = (to) })

static void page_done(struct index_metadata_page *page)
{
	buf_done(&page->next);
}

/* All of it, in pages of @max. */
static bool ask(struct maker *m, const char *key, const char *value, size_t max, struct told *t)
{
	AUTO(buf_done) struct buf cursor = { 0 };
	AUTO(page_done) struct index_metadata_page page = { 0 };
	struct err err = { 0 };
	bool all = true;

	memset(t, 0, sizeof(*t));
	for (int i = 0; i < 1000; i++) {
		size_t before = t->n;

		assert_done(index_metadata(m->ix, QUERY(str_of(key), str_of(value), buf_str(&cursor), max, t),
					   &page, &err));
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

static void check(struct maker *m, const char *key, const char *value, const char *want)
{
	for (size_t max = 1; max < 8; max++) {
		struct told t;

		assert_true(ask(m, key, value, max, &t));
		assert_string_equal(buf_cstr(&t.text), want);
		buf_done(&t.text);
	}
}

static void fill(struct maker *m)
{
	static const struct maker_entry first[] = {
		{ "usr/bin/ls", 1, EXE },
		{ "usr/bin/cat", 2, EXE },
		{ "usr/share/doc/ls", 0, 0 },
		{ "usr/lib/debug/ls", 1, DBG },
	};
	static const struct maker_entry second[] = {
		{ "usr/bin/ls", 3, EXE | DBG },
		{ "opt/x/ls", 4, EXE },
	};

	maker_plain(m, "/usr/bin/ls", 10, 1, EXE);
	maker_plain(m, "/usr/bin/gdb", 20, 5, EXE | DBG);
	maker_plain(m, "/usr/sbin/lsof", 30, 6, EXE);
	maker_plain(m, "/lsx", 30, 7, DBG);
	maker_package(m, "/pool/first.deb", 40, first, ARRAY_SIZE(first));
	maker_package(m, "/pool/second.deb", 50, second, ARRAY_SIZE(second));
}

static void an_exact_path_in_files_and_packages(void **state)
{
	struct maker *m = *state;

	fill(m);
	check(m, "file", "/usr/bin/ls",
	      "x 1 /usr/bin/ls\n"
	      "x 1 /usr/bin/ls /pool/first.deb\n"
	      "x 3 /usr/bin/ls /pool/second.deb\n"
	      "d 3 /usr/bin/ls /pool/second.deb\n");
	check(m, "file", "//usr/./bin/../bin/gdb", "x 5 /usr/bin/gdb\nd 5 /usr/bin/gdb\n");
	check(m, "file", "/usr/share/doc/ls", "");
	check(m, "file", "/usr/bin", "");
	check(m, "file", "usr/bin/ls", "");
	check(m, "file", "", "");
	check(m, "file", "/", "");
	/* The package is not one of its members. */
	check(m, "file", "/pool/first.deb", "");
}

static void a_pattern_in_files_and_packages(void **state)
{
	struct maker *m = *state;

	fill(m);
	check(m, "glob", "/usr/*bin/ls*",
	      "x 1 /usr/bin/ls\n"
	      "x 6 /usr/sbin/lsof\n"
	      "x 1 /usr/bin/ls /pool/first.deb\n"
	      "x 3 /usr/bin/ls /pool/second.deb\n"
	      "d 3 /usr/bin/ls /pool/second.deb\n");
	check(m, "glob", "/*/*/ls",
	      "x 1 /usr/bin/ls\n"
	      "x 1 /usr/bin/ls /pool/first.deb\n"
	      "x 4 /opt/x/ls /pool/second.deb\n"
	      "x 3 /usr/bin/ls /pool/second.deb\n"
	      "d 3 /usr/bin/ls /pool/second.deb\n");
	check(m, "glob", "/ls?", "d 7 /lsx\n");
	check(m, "glob", "/usr/lib/debug/*", "d 1 /usr/lib/debug/ls /pool/first.deb\n");
	/* No wildcard stands for a slash. */
	check(m, "glob", "*ls*", "");
	check(m, "glob", "", "");
}

static void the_paths_of_a_build_id(void **state)
{
	struct maker *m = *state;
	struct build_id id = maker_id(1);
	char hex[BUILD_ID_HEX_SIZE];

	fill(m);
	check(m, "buildid", build_id_hex(&id, hex),
	      "x 1 /usr/bin/ls\n"
	      "x 1 /usr/bin/ls /pool/first.deb\n"
	      "d 1 /usr/lib/debug/ls /pool/first.deb\n");
	id = maker_id(99);
	check(m, "buildid", build_id_hex(&id, hex), "");
}

static void packages_that_wait_make_it_incomplete(void **state)
{
	struct maker *m = *state;
	struct build_id id = maker_id(50);
	char hex[BUILD_ID_HEX_SIZE];
	struct err why = { .kind = ERR_INVALID }, err = { 0 };
	struct told t;
	int64_t file;

	fill(m);
	file = maker_header(m, "/pool/third.deb", 60, 50, 1);
	assert_false(ask(m, "file", "/lsx", 10, &t));
	assert_int_equal(t.n, 1);
	buf_done(&t.text);
	assert_false(ask(m, "buildid", build_id_hex(&id, hex), 10, &t));
	assert_int_equal(t.n, 0);
	id = maker_id(7);
	assert_true(ask(m, "buildid", build_id_hex(&id, hex), 10, &t));
	buf_done(&t.text);
	/* One that cannot be read will not say more. */
	assert_done(index_fail(m->ix, file, &why, 0, &err));
	assert_true(ask(m, "file", "/lsx", 10, &t));
	buf_done(&t.text);
}

static void a_deadline_stops_it_and_says_where(void **state)
{
	struct maker *m = *state;
	AUTO(page_done) struct index_metadata_page page = { 0 }, rest = { 0 };
	struct told t = { 0 };
	struct index_metadata_query q = *QUERY(STR("glob"), STR("/*/*/*"), STR(""), 10, &t);
	struct err err = { 0 };

	fill(m);
	q.deadline_mono_ms = clock_mono_ms() - 1;
	assert_done(index_metadata(m->ix, &q, &page, &err));
	assert_false(page.complete);
	assert_int_equal(t.n, 0);
	assert_true(page.next.size > 0);
	/* The next page has all of them. */
	q.cursor = buf_str(&page.next);
	q.max = 100;
	q.deadline_mono_ms = clock_mono_ms() + 60000;
	assert_done(index_metadata(m->ix, &q, &rest, &err));
	assert_true(rest.complete);
	assert_int_equal(rest.next.size, 0);
	assert_int_equal(t.n, 9);
	buf_done(&t.text);
}

static void the_askers_word_ends_it(void **state)
{
	struct maker *m = *state;
	AUTO(page_done) struct index_metadata_page page = { 0 };
	struct told t = { .stop = 2 };
	struct err err = { 0 };

	fill(m);
	assert_int_equal(
		index_metadata(m->ix, QUERY(STR("glob"), STR("/*/*/*"), STR(""), 10, &t), &page, &err), 77);
	assert_int_equal(t.n, 2);
	buf_done(&t.text);
}

static void what_makes_no_sense_is_refused(void **state)
{
	struct maker *m = *state;
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
	struct told t = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cursors); i++)
		assert_fails(index_metadata(m->ix, QUERY(STR("file"), STR("/x"), str_of(cursors[i]), 10, &t),
					    &page, &err),
			     ERR_INVALID, "cursor");
	assert_fails(index_metadata(m->ix, QUERY(STR("name"), STR("/x"), STR(""), 10, &t), &page, &err),
		     ERR_INVALID, "key");
	assert_fails(index_metadata(m->ix, QUERY(STR("buildid"), STR("/x"), STR(""), 10, &t), &page, &err),
		     ERR_INVALID, "build ID");
	memset(huge, '*', sizeof(huge));
	assert_fails(index_metadata(m->ix, QUERY(STR("glob"), pattern, STR(""), 10, &t), &page, &err),
		     ERR_INVALID, "pattern");
}

static void more_than_a_page_of_packages(void **state)
{
	struct maker *m = *state;
	struct told t;

	for (uint32_t i = 0; i < 150; i++) {
		struct maker_entry e = { "usr/bin/x", i + 1, EXE };
		char path[64];

		snprintf(path, sizeof(path), "/pool/%u.deb", i);
		maker_package(m, path, 1, &e, 1);
	}
	assert_true(ask(m, "glob", "/usr/bin/?", 7, &t));
	assert_int_equal(t.n, 150);
	buf_done(&t.text);
	assert_true(ask(m, "file", "/usr/bin/x", 50, &t));
	assert_int_equal(t.n, 150);
	buf_done(&t.text);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, maker_set_up, maker_tear_down)
	const struct CMUnitTest tests[] = {
		T(an_exact_path_in_files_and_packages),
		T(a_pattern_in_files_and_packages),
		T(the_paths_of_a_build_id),
		T(packages_that_wait_make_it_incomplete),
		T(a_deadline_stops_it_and_says_where),
		T(the_askers_word_ends_it),
		T(what_makes_no_sense_is_refused),
		T(more_than_a_page_of_packages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
