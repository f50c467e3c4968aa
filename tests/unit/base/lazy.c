/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a library late: the error for a missing one, and that it is tried once.
 */
#include "test.h"

#include <zlib.h>
#include "base/lazy.h"

#define ZLIB_FUNCTIONS(X) \
	X(crc32)          \
	X(zlibVersion)

static struct {
	ZLIB_FUNCTIONS(LAZY_FIELD)
} zlib;

static void functions_are_those_of_the_library(void **state)
{
	static const char *const names[] = { ZLIB_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;
	struct err err = { 0 };

	assert_done(lazy_load(&lib, "libz.so.1", "zlib1g", names, &zlib, ARRAY_SIZE(names), &err));
	assert_done(lazy_load(&lib, "libz.so.1", "zlib1g", names, &zlib, ARRAY_SIZE(names), &err));
	assert_int_equal(zlib.crc32(0, (const Bytef *)"123456789", 9), 0xcbf43926);
	assert_non_null(zlib.zlibVersion());
}

static void a_library_that_is_missing_has_its_package_named(void **state)
{
	static const char *const names[] = { "f" };
	static struct lazy lib = LAZY_INIT;
	void *table[1] = { NULL };

	for (int i = 0; i < 2; i++) {
		struct err err = { 0 };

		assert_fails(lazy_load(&lib, "libnowhere.so.77", "libnowhere77", names, table, 1, &err),
			     ERR_INTERNAL, "libnowhere.so.77");
		assert_non_null(strstr(err.text, "install the package libnowhere77"));
		assert_null(table[0]);
	}
	assert_int_equal(lazy_load(&lib, "libnowhere.so.77", "libnowhere77", names, table, 1, NULL), -1);
}

static void a_library_that_lacks_a_function_is_too_old(void **state)
{
	static const char *const names[] = { "crc32", "crc33" };
	static struct lazy lib = LAZY_INIT;
	void *table[2] = { NULL };
	struct err err = { 0 };

	assert_fails(lazy_load(&lib, "libz.so.1", "zlib1g", names, table, 2, &err), ERR_INTERNAL,
		     "libz.so.1 has no crc33: it is too old");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_those_of_the_library),
		cmocka_unit_test(a_library_that_is_missing_has_its_package_named),
		cmocka_unit_test(a_library_that_lacks_a_function_is_too_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
