/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that other clients create and look for: computed independently of our code.
 */
#include "fixture.h"

static void names_of_sources_and_sections_are_a_hash_and_the_tail(void **state)
{
	static const struct {
		const char *name, *escaped, *old;
	} rows[] = {
		{ ".debug_info", "0212c825-.debug_info", ".debug_info" },
		{ "/usr/src/hello.c", "e8bdd979-#usr#src#hello.c", "##usr##src##hello.c" },
		{ "/\xc3\xbc.c", "0b2ef1c4-###.c", "##\xc3\xbc.c" },
		{ "a#b", NULL, "a#_b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO(mem_freep) char *now = entry_escape(rows[i].name), *old = entry_escape_old(rows[i].name);

		if (rows[i].escaped)
			assert_string_equal(now, rows[i].escaped);
		assert_string_equal(old, rows[i].old);
	}
}

static void a_long_name_keeps_its_end(void **state)
{
	char name[400];
	struct client_request w = { .kind = CLIENT_SOURCE, .name = name, .id = { 2, { 1, 2 } } };
	struct cache_entry e;

	memset(name, 'x', sizeof(name));
	memcpy(name, "/a/", 3);
	memcpy(name + 203, ".c", 3);
	entry_init(&e, &w);
	assert_string_equal(e.id, "0102");
	assert_int_equal(strlen(e.names[0]), 7 + 126);
	assert_memory_equal(e.names[0], "source-8646f495-xxx", 19);
	assert_string_equal(e.names[0] + 7 + 122, "xx.c");
	assert_non_null(e.names[1]);
	entry_done(&e);

	memset(name + 203, 'x', 100);
	name[303] = '\0';
	entry_init(&e, &w);
	assert_null(e.names[1]); /* too long for any file system */
	entry_done(&e);
}

static void whole_files_have_one_name(void **state)
{
	struct client_request w = { .kind = CLIENT_EXECUTABLE, .id = { 1, { 0xab } } };
	struct cache_entry e;

	entry_init(&e, &w);
	assert_string_equal(e.names[0], "executable");
	assert_null(e.names[1]);
	entry_done(&e);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_sources_and_sections_are_a_hash_and_the_tail),
		cmocka_unit_test(a_long_name_keeps_its_end),
		cmocka_unit_test(whole_files_have_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
