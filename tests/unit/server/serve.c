/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#define ID "0123456789abcdef"

static struct server_fixture f;

static int setup(void **state)
{
	fixture_init(&f);
	fixture_start(&f);
	return 0;
}

static int teardown(void **state)
{
	fixture_done(&f);
	return 0;
}

static void check_served(size_t size)
{
	struct bytes want = fixture_put(&f, RESOLVE_DEBUGINFO, ID, "", size, "/usr/lib/debug/x.debug",
					"/srv/pool/x.deb");
	char text[32];

	/* The first request decodes it, the next ones get it from memory or disk. */
	for (int i = 0; i < 3; i++) {
		struct http_answer a = http_fetch(f.url, "GET", "/buildid/" ID "/debuginfo", NULL);

		assert_int_equal(a.status, 200);
		assert_body(&a, want);
		assert_header(&a, "Content-Type", "application/octet-stream");
		assert_header(&a, "X-DEBUGINFOD-FILE", "/usr/lib/debug/x.debug");
		assert_header(&a, "X-DEBUGINFOD-ARCHIVE", "/srv/pool/x.deb");
		snprintf(text, sizeof(text), "%zu", size);
		assert_header(&a, "X-DEBUGINFOD-SIZE", text);
		assert_header(&a, "Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT");
		assert_header(&a, "Cache-Control", "public, max-age=31536000, immutable");
		assert_header(&a, "Accept-Ranges", "bytes");
		http_answer_done(&a);
	}
	free((void *)want.p);
}

static void a_small_content_is_served(void **state)
{
	check_served(1000);
}

static void an_empty_content_is_served(void **state)
{
	check_served(0);
}

static void a_large_content_is_served(void **state)
{
	check_served(MIB(5) + 7);
}

static void a_content_too_large_for_the_cache_is_served(void **state)
{
	check_served(MIB(40));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_small_content_is_served, setup, teardown),
		cmocka_unit_test_setup_teardown(an_empty_content_is_served, setup, teardown),
		cmocka_unit_test_setup_teardown(a_large_content_is_served, setup, teardown),
		cmocka_unit_test_setup_teardown(a_content_too_large_for_the_cache_is_served, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
