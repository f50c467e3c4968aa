/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of objects: which of them may replace one. */
#include "fixture.h"

static void an_object_is_replaced_by_its_owner_only(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	assert_int_equal(text_put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "one");
	assert_versions(f, "");
	assert_int_equal(text_put_as(f, "other", "one", STORE_IF_OWNED), STORE_SAME);
	assert_int_equal(text_put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	clock_test_advance(1000);
	/* An administrator may, and the object keeps its owner. */
	assert_int_equal(text_put_as(f, "root", "three", STORE_IF_BETTER), 0);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "three");
	assert_str(store_owner(&meta), "ci");
	assert_str(meta.from, "root");
	clock_test_advance(1000);
	assert_int_equal(text_put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_int_equal(text_put_as(f, "ci", "four", STORE_IF_OWNED), 0);
	assert_versions(f, "ci>ci ci>root root>ci ");
}

static void dynamic_symbols_give_way_to_anybody(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DYNSYM, .owner = STR("agent") };
	struct store_key key = key_of("ab/debuginfo");
	struct err err = { 0 };

	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_OWNED, &err));
	meta.owner = STR("other");
	assert_int_equal(store_put_bytes(f->st, &key, &meta, false, bytes_of("two", 3), STORE_IF_OWNED, &err),
			 STORE_OWNED);
	meta.quality = STORE_STRIPPED;
	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("three", 5), STORE_IF_OWNED, &err));
	meta.owner = STR("agent");
	meta.quality = STORE_DYNSYM;
	assert_int_equal(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_OWNED, &err),
			 STORE_KEPT);
}

/* An agent may have brought them before the program came. */
static void dynamic_symbols_do_not_give_way_for_a_program(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DYNSYM, .owner = STR("agent") };
	struct store_key key = key_of("ab/debuginfo"), program = key_of("ab/executable");
	AUTO(arena_done) struct arena a = { 0 };
	struct err err = { 0 };

	arena_init(&a);
	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_OWNED, &err));
	assert_str(store_other_owner(f->st, &key, STR("other"), NULL, &a, &err), "");
	meta.owner = STR("ci");
	meta.quality = STORE_SYMBOLS;
	assert_done(store_put_bytes(f->st, &program, &meta, false, bytes_of("two", 3), STORE_IF_OWNED, &err));
	assert_str(store_other_owner(f->st, &key, STR("other"), NULL, &a, &err), "");
	meta.quality = STORE_DWARF;
	assert_done(
		store_put_bytes(f->st, &program, &meta, false, bytes_of("three", 5), STORE_IF_OWNED, &err));
	assert_str(store_other_owner(f->st, &key, STR("other"), NULL, &a, &err), "ci");
	assert_str(store_other_owner(f->st, &key, STR("agent"), NULL, &a, &err), "ci");
	assert_str(store_other_owner(f->st, &key, STR("ci"), NULL, &a, &err), "");
}

static void an_object_of_an_older_version_belongs_to_its_pusher(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .from = STR("loopback") };
	struct store_key key = key_of("ab/debuginfo");
	struct err err = { 0 };

	assert_str(store_owner(&meta), "local");
	meta.from = STR("ci");
	assert_str(store_owner(&meta), "ci");
	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_BETTER, &err));
	assert_int_equal(text_put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_int_equal(text_put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	meta.origin = STORE_FETCHED;
	assert_str(store_owner(&meta), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FROZEN(an_object_is_replaced_by_its_owner_only),
		IN_EACH(dynamic_symbols_give_way_to_anybody),
		IN_EACH(dynamic_symbols_do_not_give_way_for_a_program),
		IN_EACH(an_object_of_an_older_version_belongs_to_its_pusher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
