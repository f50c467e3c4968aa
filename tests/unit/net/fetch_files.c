/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of files instead of servers.
 */
#include "test.h"
#include "sink.h"

#include <sys/stat.h>
#include <unistd.h>

static void a_tree_of_files_is_a_server_too(void **state)
{
	char dir[TEST_PATH_SIZE];
	AUTO(mem_freep) char *path = NULL, *url = NULL, *folder = NULL;
	const char *urls[2];
	struct fault_rule bad = sink_good();
	struct fault_http *h;
	struct net *n = sink_net();
	struct sink s = { 0 };
	struct err err = { 0 };

	test_dir_make(dir);
	folder = mem_printf("%s/a b/buildid/ab", dir);
	path = mem_printf("%s/debuginfo", folder);
	url = mem_printf("file://%s/a%%20b", dir);
	urls[0] = url;
	/* A folder that is not mounted has no misses. */
	sink_fetch(n, &s, NULL, urls, 1);
	assert_true(s.outcome < 0);
	assert_non_null(strstr(sink_said(&s, url), "its folder is not there"));
	sink_done(&s);
	assert_done(dir_make(folder, 0755, &err));
	sink_fetch(n, &s, NULL, urls, 1);
	assert_int_equal(s.outcome, NET_MISSING);
	sink_done(&s);
	test_file_write(path, sink_artifact().p, sink_artifact().size);
	sink_fetch(n, &s, NULL, urls, 1);
	sink_assert_got(&s);
	sink_done(&s);
	/* It continues where another server broke off. */
	bad.fault = FAULT_CUT;
	bad.at = 123456;
	h = fault_http_new(&bad, 1);
	urls[0] = fault_http_url(h);
	urls[1] = url;
	s.no_again = true;
	sink_fetch(n, &s, NULL, urls, 2);
	sink_assert_got(&s);
	sink_done(&s);
	net_free(n);
	fault_http_free(h);
	test_dir_remove(dir);
}

/* Fetch @path of the tree below @dir/tree. */
static int fetch_in_tree(struct net *n, const char *dir, const char *path)
{
	AUTO(mem_freep) char *url = mem_printf("file://%s/tree", dir);
	const char *urls[] = { url };
	const struct net_request req = { .urls = urls, .n_urls = 1, .path = path };
	struct sink s = { .html_is_fine = true };
	int r;

	sink_custom(n, &s, &req);
	r = s.outcome;
	sink_done(&s);
	return r;
}

static void a_folder_has_only_the_files_in_it(void **state)
{
	static const char *const outside[] = { "../secret",     "b/../../secret",
					       "%2e%2e/secret", "b%2f..%2f..%2fsecret",
					       "b%2Fin",        "b/in%00" };
	char dir[TEST_PATH_SIZE], path[2 * TEST_PATH_SIZE], to[2 * TEST_PATH_SIZE];
	struct net *n = sink_net();
	struct err err = { 0 };

	test_dir_make(dir);
	snprintf(path, sizeof(path), "%s/tree/b", dir);
	assert_done(dir_make(path, 0755, &err));
	snprintf(path, sizeof(path), "%s/tree/b/in", dir);
	test_file_write(path, "in", 2);
	snprintf(to, sizeof(to), "%s/secret", dir);
	test_file_write(to, "secret", 6);
	snprintf(path, sizeof(path), "%s/tree/b/link", dir);
	assert_int_equal(symlink(to, path), 0);
	snprintf(path, sizeof(path), "%s/tree/up", dir);
	assert_int_equal(symlink("..", path), 0);
	snprintf(path, sizeof(path), "%s/tree/good", dir);
	assert_int_equal(symlink("b/in", path), 0);
	snprintf(path, sizeof(path), "%s/tree/fifo", dir);
	assert_int_equal(mkfifo(path, 0644), 0);

	assert_int_equal(fetch_in_tree(n, dir, "b/in"), 0);
	assert_int_equal(fetch_in_tree(n, dir, "good"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		if (fetch_in_tree(n, dir, outside[i]) >= 0)
			fail_msg("%s is read or looked for", outside[i]);
	assert_int_equal(fetch_in_tree(n, dir, "b/link"), NET_MISSING);
	assert_int_equal(fetch_in_tree(n, dir, "up/secret"), NET_MISSING);
	assert_int_equal(fetch_in_tree(n, dir, "up/tree/b/in"), 0);
	assert_int_equal(fetch_in_tree(n, dir, "fifo"), NET_MISSING);
	assert_int_equal(fetch_in_tree(n, dir, "b"), NET_MISSING);
	net_free(n);
	test_dir_remove(dir);
}

static void a_path_that_leads_out_is_not_requested(void **state)
{
	static const char *const paths[] = { "buildid/ab/source/../../../admin",
					     "buildid/ab/section/..%2f..%2fadmin",
					     "buildid/ab/source/%252e%252e/x" };
	struct fault_rule rule = sink_good();
	struct fault_http *h = fault_http_new(&rule, 1);
	const char *url = fault_http_url(h);
	struct net *n = sink_net();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct net_request req = { .urls = &url, .n_urls = 1, .path = paths[i] };
		struct sink s = { 0 };

		sink_custom(n, &s, &req);
		assert_true(s.outcome < 0);
		assert_non_null(strstr(sink_said(&s, url), "leads out of the server's folder"));
		sink_done(&s);
	}
	assert_int_equal(fault_http_requests(h, NULL), 0);
	net_free(n);
	fault_http_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_of_files_is_a_server_too),
		cmocka_unit_test(a_folder_has_only_the_files_in_it),
		cmocka_unit_test(a_path_that_leads_out_is_not_requested),
	};

	return cmocka_run_group_tests_name("net-fetch_files", tests, NULL, NULL);
}
