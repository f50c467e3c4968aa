/* SPDX-License-Identifier: Apache-2.0 */
/* Whose name of a program counts. */
#include "test.h"

#include "resolve/internal.h"

static struct build_id numbered_id(uint32_t n)
{
	struct build_id id = { 0 };

	build_id_set(&id, bytes_of(&n, sizeof(n)));
	return id;
}

static void assert_hint(struct name_hints *h, uint32_t n, const char *want)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct build_id id = numbered_id(n);

	arena_init(&a);
	assert_str(name_hints_get(h, &id, &a), want);
}

static void put_hint(struct name_hints *h, uint32_t n, const char *file, enum resolve_hint by)
{
	struct build_id id = numbered_id(n);

	name_hints_put(h, &id, str_of(file), by);
}

static void a_reader_never_replaces_a_name_by_a_sender(void **state)
{
	struct name_hints *h = name_hints_new();

	put_hint(h, 1, "/usr/lib/first.so", RESOLVE_BY_READER);
	assert_hint(h, 1, "first.so");
	put_hint(h, 1, "second.so", RESOLVE_BY_READER);
	assert_hint(h, 1, "second.so");
	put_hint(h, 1, "/app/libx.so (deleted)", RESOLVE_BY_SENDER);
	assert_hint(h, 1, "libx.so");
	put_hint(h, 1, "evil", RESOLVE_BY_READER);
	put_hint(h, 1, "[vdso]", RESOLVE_BY_SENDER);
	assert_hint(h, 1, "libx.so");
	put_hint(h, 1, "liby.so", RESOLVE_BY_SENDER);
	assert_hint(h, 1, "liby.so");
	/* Nor by build IDs that have the same slots. */
	for (uint32_t n = 2; n < 20000; n++)
		put_hint(h, n, "evil", RESOLVE_BY_READER);
	assert_hint(h, 1, "liby.so");
	name_hints_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_never_replaces_a_name_by_a_sender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
