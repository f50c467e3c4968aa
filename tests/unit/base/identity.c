/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/hash.h"

static const char go_text[] =
	"aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq";

static void go_text_and_its_hex_are_one_identity(void **state)
{
	char hex[BUILD_ID_HEX_SIZE];
	struct build_id a, b;

	assert_true(build_id_read(&a, str_of(go_text)));
	assert_int_equal(a.size, 83);
	assert_int_equal(strlen(build_id_hex(&a, hex)), 166);
	assert_true(build_id_read(&b, str_of(hex)));
	assert_true(build_id_eq(&a, &b));
	assert_int_equal(build_id_kind_of(&b), BUILD_ID_GO);
	assert_true(build_id_may_be_alias(&b));
	/* Paths have hex only. */
	assert_false(build_id_parse(&b, str_of(go_text)));
}

static void hex_of_either_case(void **state)
{
	struct build_id id;

	assert_true(build_id_read(&id, STR("600DCAFE4A110000F2BF38C493F5FB92")));
	assert_int_equal(id.size, 16);
	assert_int_equal(id.b[3], 0xfe);
	assert_int_equal(build_id_kind_of(&id), BUILD_ID_GNU);
	assert_true(build_id_may_be_alias(&id));
	assert_false(build_id_parse(&id, STR("600DCAFE4A110000F2BF38C493F5FB92")));
	assert_true(build_id_read(&id, STR("e5c7cf2e8e0d4ffb7d0a4c1a0bb8bb4b4a1d2c3b")));
	assert_false(build_id_may_be_alias(&id));
}

static void words_that_identify_no_file(void **state)
{
	static const char *const words[] = {
		"",
		"redacted",
		"a/b",
		"abc/def/ghi/jkl",
		"0123",
		"012",
		"aTgZ-hE7CkRJl7jJ_WmPeKx0cVYhN1yq3dUwB5sT",
		"aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT\n",
		"aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3 dUwB5sT",
		"aTgZ-hE7CkRJl7jJ_WmP/eKx0cVYhN1yq3dUwB5sT/Qz8mPfLr2oHn6iXvGtKc/Yb4uDj9wSe7aZk1xRfNq/longer",
	};
	struct build_id id;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_false(build_id_set_go(&id, str_of(words[i])));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_int_equal(build_id_read(&id, str_of(words[i])), strcmp(words[i], "0123") == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(go_text_and_its_hex_are_one_identity),
		cmocka_unit_test(hex_of_either_case),
		cmocka_unit_test(words_that_identify_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
