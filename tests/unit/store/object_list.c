/* SPDX-License-Identifier: Apache-2.0 */
/* The object list in memory: names, latest objects, figures. */
#include "fixture.h"
#include "store/internal.h"

static struct store *open_another(struct store_fixture *f)
{
	struct store *st = NULL;
	struct err err = { 0 };

	assert_done(store_open(f->dir, &(struct store_options){ .create = true, .object_list = true }, &st,
			       &err));
	return st;
}

static int set_up_listed(void **state)
{
	struct store_fixture *f;

	set_up_frozen(state);
	f = *state;
	reopen(f, &(struct store_options){ .object_list = true });
	return 0;
}

/* Put 100 bytes, made from the key. */
static void put(struct store *st, const char *key_text, enum store_origin origin, const char *file)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta = {
		.origin = origin, .quality = STORE_DWARF, .file = str_of(file), .from = STR("ci")
	};
	struct err err = { 0 };
	uint8_t p[100];

	test_fill(p, sizeof(p), hash64(key_text, strlen(key_text), 0));
	if (store_put_bytes(st, &key, &meta, true, bytes_of(p, sizeof(p)), STORE_ALWAYS, &err) < 0)
		fail_msg("%s", err.text);
	clock_test_advance(10000);
}

static bool has_file(void *arg, struct str file)
{
	return file.size > 0;
}

static const char *list_names(struct store_fixture *f, const char *after, size_t max, bool *ret_all)
{
	struct buf b = { 0 };
	const struct store_names_query query = { has_file, NULL, str_of(after), max };
	struct store_names found;
	struct err err = { 0 };
	const char *text;

	assert_done(store_names(f->st, &query, &f->arena, &found, &err));
	if (ret_all)
		*ret_all = found.all;
	for (size_t i = 0; i < found.n; i++)
		buf_printf(&b, STR_FMT "=" STR_FMT " ", STR_ARG(found.list[i].name),
			   STR_ARG(found.list[i].file));
	text = arena_strdup(&f->arena, buf_str(&b));
	buf_done(&b);
	return text;
}

static void names_come_in_pages_and_reflect_puts_and_removals(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("ab02/executable");
	struct err err = { 0 };
	bool all = false;

	put(f->st, "ab02/executable", STORE_PUSHED, "/usr/bin/two");
	put(f->st, "ab01/debuginfo", STORE_FETCHED, "one");
	put(f->st, "ab03/debuginfo", STORE_PUSHED, "");
	put(f->st, "ab01/source/x.c", STORE_PUSHED, "x.c");
	assert_string_equal(list_names(f, "", 10, &all),
			    "keys/ab/ab01.debuginfo=one keys/ab/ab02.executable=/usr/bin/two ");
	assert_true(all);
	assert_string_equal(list_names(f, "", 1, NULL), "keys/ab/ab01.debuginfo=one ");
	assert_string_equal(list_names(f, "keys/ab/ab01.debuginfo", 1, NULL),
			    "keys/ab/ab02.executable=/usr/bin/two ");
	put(f->st, "ab01/debuginfo", STORE_PUSHED, "other");
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_string_equal(list_names(f, "", 10, NULL), "keys/ab/ab01.debuginfo=other ");
}

static void changes_by_another_process_appear_after_the_next_gc(void **state)
{
	struct store_fixture *f = *state;
	struct store *other;
	struct store_gc_result result;
	struct store_key key = key_of("ab01/debuginfo");
	struct err err = { 0 };

	put(f->st, "ab01/debuginfo", STORE_PUSHED, "one");
	assert_string_equal(list_names(f, "", 10, NULL), "keys/ab/ab01.debuginfo=one ");
	other = open_another(f);
	put(other, "ab02/debuginfo", STORE_PUSHED, "two");
	assert_done(store_remove(other, &key, STR(""), &err));
	assert_string_equal(list_names(f, "", 10, NULL), "keys/ab/ab01.debuginfo=one ");
	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_string_equal(list_names(f, "", 10, NULL), "keys/ab/ab02.debuginfo=two ");
	store_close(other);
}

static void a_shortened_build_id_is_completed_if_one_object_has_it(void **state)
{
	struct store_fixture *f = *state;
	struct store_key one = key_of("00112233445566778899aabbccddeeff01/debuginfo"),
			 other = key_of("00112233445566778899aabbccddeeff02/executable");
	const struct bytes start = bytes_of(one.id.b, STORE_START_SIZE);
	struct build_id found = { 0 };
	struct err err = { 0 };

	assert_false(store_complete(f->st, start, &found));
	put(f->st, "00112233445566778899aabbccddeeff01/debuginfo", STORE_PUSHED, "one");
	put(f->st, "00112233445566778899aabbccddeeff01/executable", STORE_PUSHED, "one");
	put(f->st, "00112233445566778899aabbccddeeff01/debuginfo", STORE_PUSHED, "again");
	assert_true(store_complete(f->st, start, &found));
	assert_true(build_id_eq(&found, &one.id));
	put(f->st, "00112233445566778899aabbccddeeff02/executable", STORE_PUSHED, "other");
	assert_false(store_complete(f->st, start, &found));
	assert_done(store_remove(f->st, &one, STR(""), &err));
	one.kind = STORE_EXECUTABLE;
	assert_done(store_remove(f->st, &one, STR(""), &err));
	assert_true(store_complete(f->st, start, &found));
	assert_true(build_id_eq(&found, &other.id));
	assert_done(store_remove(f->st, &other, STR(""), &err));
	assert_false(store_complete(f->st, start, &found));
}

static void the_latest_objects_come_first(void **state)
{
	struct store_fixture *f = *state;
	struct store_known *list;
	size_t n;

	for (unsigned i = 0; i < 9; i++) {
		char key[32], file[8];

		snprintf(key, sizeof(key), "ab%02u/debuginfo", i * 7 % 9);
		snprintf(file, sizeof(file), "%u", i);
		put(f->st, key, i == 8 ? STORE_FETCHED : STORE_PUSHED, file);
	}
	store_latest(f->st, STORE_PUSHED, 3, &f->arena, &list, &n);
	assert_int_equal(n, 3);
	for (unsigned i = 0; i < 3; i++) {
		char file[8];

		snprintf(file, sizeof(file), "%u", 7 - i);
		assert_str(list[i].file, file);
		assert_str(list[i].from, "ci");
	}
	store_latest(f->st, STORE_MADE, 3, &f->arena, &list, &n);
	assert_int_equal(n, 0);
}

static void figures_match_the_objects_after_puts_and_evictions(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result result;
	struct store_figures figures;
	struct err err = { 0 };

	put(f->st, "ab01/debuginfo", STORE_FETCHED, "one");
	put(f->st, "ab02/debuginfo", STORE_FETCHED, "two");
	put(f->st, "ab03/source/x", STORE_PUSHED, "x");
	store_figures(f->st, &figures);
	assert_int_equal(figures.n[STORE_FETCHED], 2);
	assert_int_equal(figures.bytes[STORE_FETCHED], 200);
	assert_int_equal(figures.n[STORE_PUSHED], 1);
	put(f->st, "ab01/debuginfo", STORE_PUSHED, "one");
	assert_done(store_evict(f->st, 200, &result, &err));
	store_figures(f->st, &figures);
	assert_int_equal(figures.n[STORE_FETCHED], 0);
	assert_int_equal(figures.n[STORE_PUSHED], 2);
	assert_int_equal(figures.bytes[STORE_PUSHED], 200);
	assert_true(figures.all);
}

static void put_go(struct store *st, const char *key_text, const char *go)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	struct err err = { 0 };
	uint8_t p[100];

	assert_true(build_id_parse(&meta.go, str_of(go)));
	test_fill(p, sizeof(p), hash64(key_text, strlen(key_text), 0));
	if (store_put_bytes(st, &key, &meta, true, bytes_of(p, sizeof(p)), STORE_ALWAYS, &err) < 0)
		fail_msg("%s", err.text);
	clock_test_advance(10000);
}

/* Before, the program made the alias as young as itself, and the next walk gave it to the other program. */
static void an_alias_stays_with_the_oldest_object_when_its_program_comes_later(void **state)
{
	static const char go[] = "0011223344556677889900112233445566778899";
	struct store_fixture *f = *state;
	struct store_gc_result result;
	struct build_id alias, found, own = key_of("ab01/executable").id;
	struct err err = { 0 };

	assert_true(build_id_parse(&alias, str_of(go)));
	put_go(f->st, "ab01/debuginfo", go);
	put_go(f->st, "cd02/executable", go);
	put_go(f->st, "ab01/executable", go);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(store_alias(f->st, &alias, &found));
		assert_true(build_id_eq(&found, &own));
		assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	}
	assert_true(store_alias(f->st, &alias, &found));
	assert_true(build_id_eq(&found, &own));
}

static void an_alias_stays_when_the_oldest_of_two_objects_is_removed(void **state)
{
	static const char go[] = "0011223344556677889900112233445566778899";
	struct store_key debug = key_of("ab0102030405060708090a0b0c0d0e0f10111213/debuginfo");
	struct store_fixture *f = *state;
	struct build_id alias, found;
	struct err err = { 0 };

	assert_true(build_id_parse(&alias, str_of(go)));
	put_go(f->st, "ab0102030405060708090a0b0c0d0e0f10111213/debuginfo", go);
	put_go(f->st, "ab0102030405060708090a0b0c0d0e0f10111213/executable", go);
	assert_done(store_remove(f->st, &debug, STR(""), &err));
	assert_true(store_alias(f->st, &alias, &found));
	assert_true(build_id_eq(&found, &debug.id));
}

static void without_an_object_list_the_results_are_empty(void **state)
{
	struct store_fixture *f = *state;
	struct store_figures figures;
	struct store_known *list;
	bool all = true;
	size_t n;

	store_close(f->st);
	f->st = store_open_memory(&(struct store_options){ 0 });
	put(f->st, "ab01/debuginfo", STORE_PUSHED, "one");
	assert_string_equal(list_names(f, "", 10, &all), "");
	assert_false(all);
	store_latest(f->st, STORE_PUSHED, 3, &f->arena, &list, &n);
	assert_int_equal(n, 0);
	store_figures(f->st, &figures);
	assert_false(figures.all);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up_listed, tear_down)
	const struct CMUnitTest tests[] = {
		T(names_come_in_pages_and_reflect_puts_and_removals),
		T(changes_by_another_process_appear_after_the_next_gc),
		T(a_shortened_build_id_is_completed_if_one_object_has_it),
		T(the_latest_objects_come_first),
		T(figures_match_the_objects_after_puts_and_evictions),
		T(an_alias_stays_with_the_oldest_object_when_its_program_comes_later),
		T(an_alias_stays_when_the_oldest_of_two_objects_is_removed),
		T(without_an_object_list_the_results_are_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
