/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include "server/artifact/artifact.h"

static char dir[TEST_PATH_SIZE];
static struct err err;

static int setup(void **state)
{
	log_set_level(LOG_ERROR);
	test_dir_make(dir);
	return 0;
}

static int teardown(void **state)
{
	test_dir_remove(dir);
	return 0;
}

static struct cache *opened(uint64_t max)
{
	struct cache *c;

	assert_done(cache_open(dir, max, NULL, &c, &err));
	return c;
}

static struct resolve_request request_of(unsigned n)
{
	return (struct resolve_request){ RESOLVE_DEBUGINFO,
					 { 2, { (uint8_t)(n >> 8), (uint8_t)n } },
					 STR("") };
}

static void put(struct cache *c, unsigned n, size_t size)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(size + 1);
	struct resolve_request w = request_of(n);
	struct cache_file *sp;
	int fd;

	test_fill(p, size, n);
	assert_int_equal(cache_begin(c, size, &sp, &fd, &err), 0);
	assert_done(fd_pwrite(fd, p, size, 0, &err));
	cache_keep(c, sp, &w, 7);
}

static bool has(struct cache *c, unsigned n, size_t size)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(size + 1), *q = mem_alloc(size + 1);
	AUTO(fd_close) int fd = -1;
	struct resolve_request w = request_of(n);
	size_t got;

	if (cache_find(c, &w, 7, size, &fd) != 0)
		return false;
	test_fill(p, size, n);
	assert_done(fd_pread(fd, q, size, 0, &got, &err));
	assert_int_equal(got, size);
	assert_memory_equal(p, q, size);
	return true;
}

static unsigned count_files(const char *prefix)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return n;
}

static void a_kept_file_is_found_at_once_and_after_a_restart(void **state)
{
	struct cache *c = opened(MIB(1));
	struct cache_stats st;

	assert_false(has(c, 1, 1000));
	put(c, 1, 1000);
	put(c, 2, 0);
	assert_true(has(c, 1, 1000));
	assert_true(has(c, 2, 0));
	cache_close(c);
	assert_int_equal(count_files("tmp-"), 0);
	c = opened(MIB(1));
	assert_true(has(c, 1, 1000));
	assert_true(has(c, 2, 0));
	cache_stats(c, &st);
	assert_int_equal(st.bytes, 1000);
	assert_int_equal(st.n_files, 2);
	cache_close(c);
	cache_close(NULL);
}

static void another_content_is_not_found(void **state)
{
	struct cache *c = opened(MIB(1));
	struct resolve_request w = request_of(1);
	int fd;

	put(c, 1, 1000);
	assert_int_equal(cache_find(c, &w, 8, 1000, &fd), CACHE_MISSING);
	w.kind = RESOLVE_EXECUTABLE;
	assert_int_equal(cache_find(c, &w, 7, 1000, &fd), CACHE_MISSING);
	w = request_of(1);
	w.arg = STR("x");
	assert_int_equal(cache_find(c, &w, 7, 1000, &fd), CACHE_MISSING);
	cache_close(c);
}

static void a_file_of_another_size_is_forgotten(void **state)
{
	struct cache *c = opened(MIB(1));
	struct cache_stats st;

	put(c, 1, 1000);
	cache_close(c);
	c = opened(MIB(1));
	assert_false(has(c, 1, 999));
	cache_stats(c, &st);
	assert_int_equal(st.bytes, 0);
	assert_int_equal(count_files("debuginfo-"), 0);
	cache_close(c);
}

static void the_least_recently_used_file_is_evicted_first(void **state)
{
	struct cache *c = opened(10000);

	for (unsigned i = 0; i < 10; i++)
		put(c, i, 1000);
	cache_close(c); /* all files have their own names now */
	c = opened(10000);
	assert_true(has(c, 0, 1000));
	put(c, 10, 1000);
	assert_true(has(c, 0, 1000));
	assert_false(has(c, 1, 1000));
	assert_true(has(c, 2, 1000));
	cache_close(c);
	/* The order of use survives, and a smaller budget holds from the start. */
	c = opened(3000);
	assert_true(has(c, 0, 1000));
	assert_true(has(c, 10, 1000));
	assert_true(has(c, 2, 1000));
	assert_false(has(c, 3, 1000));
	assert_int_equal(count_files("debuginfo-"), 3);
	cache_close(c);
}

static void one_file_may_use_half_of_the_budget(void **state)
{
	struct cache *c = opened(10000);
	struct cache_file *a, *b;
	struct cache_stats st;
	int fd;

	assert_int_equal(cache_begin(c, 5001, &a, &fd, &err), CACHE_NO_ROOM);
	assert_int_equal(cache_begin(c, 5000, &a, &fd, &err), 0);
	assert_int_equal(cache_begin(c, 5000, &b, &fd, &err), 0);
	cache_drop(c, b);
	assert_int_equal(cache_begin(c, 5000, &b, &fd, &err), 0);
	/* A file that is being written cannot be evicted. */
	assert_int_equal(cache_begin(c, 1, &(struct cache_file *){ NULL }, &fd, &err), CACHE_NO_ROOM);
	cache_drop(c, a);
	cache_drop(c, b);
	cache_drop(c, NULL);
	cache_stats(c, &st);
	assert_int_equal(st.bytes, 0);
	assert_int_equal(count_files("tmp-"), 0);
	cache_close(c);
}

static void on_a_full_disk_nothing_is_cached(void **state)
{
	struct cache *c = opened(MIB(10));
	struct rlimit old, small;
	struct cache_file *sp;
	struct cache_stats st;
	int fd;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 4096;
	setrlimit(RLIMIT_FSIZE, &small);
	assert_int_equal(cache_begin(c, 100000, &sp, &fd, &err), CACHE_NO_ROOM);
	setrlimit(RLIMIT_FSIZE, &old);
	cache_stats(c, &st);
	assert_int_equal(st.bytes, 0);
	assert_int_equal(count_files("tmp-"), 0);
	cache_close(c);
}

static void leftovers_of_a_crash_are_removed_and_other_files_kept(void **state)
{
	char path[TEST_PATH_SIZE + 300];
	struct cache_stats st;
	struct cache *c;

	snprintf(path, sizeof(path), "%s/tmp-5", dir);
	test_file_write(path, "half", 4);
	snprintf(path, sizeof(path), "%s/README", dir);
	test_file_write(path, "mine", 4);
	snprintf(path, sizeof(path), "%s/debuginfo-zz-0-0", dir);
	test_file_write(path, "mine", 4);
	c = opened(MIB(1));
	assert_int_equal(count_files("tmp-"), 0);
	assert_int_equal(count_files("README"), 1);
	assert_int_equal(count_files("debuginfo-zz"), 1);
	cache_stats(c, &st);
	assert_int_equal(st.n_files, 0);
	cache_close(c);
}

/* The one kept file, in the folder's words. */
static int open_kept(int flags)
{
	AUTO(mem_freep) char *path = NULL;
	DIR *d = opendir(dir);
	int fd;

	for (struct dirent *e; (e = readdir(d));)
		if (strncmp(e->d_name, "debuginfo-", 10) == 0 && !path)
			path = mem_printf("%s/%s", dir, e->d_name);
	closedir(d);
	assert_non_null(path);
	fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void flip_kept(off_t at)
{
	AUTO(fd_close) int fd = open_kept(O_RDWR);
	uint8_t b;

	assert_int_equal(pread(fd, &b, 1, at), 1);
	b ^= 1;
	assert_int_equal(pwrite(fd, &b, 1, at), 1);
}

static void a_damaged_file_is_removed_before_it_is_used(void **state)
{
	static const off_t places[] = { 0, 1, 31, 32, 65535, 300000, 599999 };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct cache *c = opened(MIB(4));
		struct cache_stats st;

		put(c, 1, 600000);
		cache_close(c);
		flip_kept(places[i]);
		c = opened(MIB(4));
		assert_false(has(c, 1, 600000));
		cache_stats(c, &st);
		assert_int_equal(st.bytes, 0);
		assert_int_equal(count_files("debuginfo-"), 0);
		put(c, 1, 600000);
		assert_true(has(c, 1, 600000));
		cache_close(c);
		c = opened(MIB(4));
		assert_true(has(c, 1, 600000));
		cache_close(c);
	}
}

static void the_background_check_removes_a_damaged_file(void **state)
{
	struct cache *c = opened(MIB(1));
	struct cache_stats st = { .n_files = 1 };

	put(c, 1, 1000);
	cache_close(c);
	flip_kept(7);
	c = opened(MIB(1));
	for (unsigned i = 0; i < 500 && st.n_files; i++) {
		usleep(10000);
		cache_stats(c, &st);
	}
	assert_int_equal(st.n_files, 0);
	cache_close(c);
}

static void note_bad_file(void *arg, struct str file, const struct err *why)
{
	assert_non_null(strstr(why->text, "damaged"));
	(*(unsigned *)arg)++;
}

static void verify_reports_and_removes_damaged_files(void **state)
{
	struct cache_verify_options o = { .bad = note_bad_file };
	struct cache *c = opened(MIB(1));
	struct cache_verify_result v;
	unsigned n = 0;

	o.arg = &n;
	put(c, 1, 1000);
	cache_close(c);
	assert_done(server_cache_verify(dir, &o, &v, &err));
	assert_int_equal(v.n_files, 1);
	assert_int_equal(v.n_bad + n, 0);
	flip_kept(7);
	assert_done(server_cache_verify(dir, &o, &v, &err));
	assert_int_equal(v.n_bad, 1);
	assert_int_equal(count_files("debuginfo-"), 1);
	o.remove = true;
	assert_done(server_cache_verify(dir, &o, &v, &err));
	assert_int_equal(v.n_removed, 1);
	assert_int_equal(n, 2);
	assert_int_equal(count_files("debuginfo-"), 0);
	assert_done(server_cache_verify("/nonexistent/cache", &o, &v, &err));
	assert_int_equal(v.n_files, 0);
}

static void files_of_a_version_without_digests_are_removed(void **state)
{
	char path[TEST_PATH_SIZE + 300];
	struct cache *c;

	snprintf(path, sizeof(path), "%s/debuginfo-0001-0000000000000000-0000000000000007", dir);
	test_file_write(path, "bytes", 5);
	c = opened(MIB(1));
	assert_int_equal(count_files("debuginfo-"), 0);
	assert_false(has(c, 1, 5));
	cache_close(c);
}

static void two_processes_do_not_share_a_cache(void **state)
{
	struct cache *c = opened(MIB(1)), *other;

	assert_fails(cache_open(dir, MIB(1), NULL, &other, &err), ERR_LIMIT, "another process");
	cache_close(c);
	c = opened(MIB(1));
	cache_close(c);
}

static void one_artifact_kept_twice_is_one_file(void **state)
{
	struct cache *c = opened(MIB(1));
	struct cache_stats st;

	put(c, 1, 1000);
	put(c, 1, 1000);
	assert_true(has(c, 1, 1000));
	cache_stats(c, &st);
	assert_int_equal(st.bytes, 1000);
	cache_close(c);
	assert_int_equal(count_files("debuginfo-"), 1);
	assert_int_equal(count_files("tmp-"), 0);
}

static void a_budget_is_found_when_none_is_given(void **state)
{
	struct cache *c = opened(0);
	struct cache_stats st;

	cache_stats(c, &st);
	assert_true(st.max_bytes > 0 && st.max_bytes <= (uint64_t)10 << 30);
	cache_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_kept_file_is_found_at_once_and_after_a_restart, setup,
						teardown),
		cmocka_unit_test_setup_teardown(another_content_is_not_found, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_of_another_size_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(the_least_recently_used_file_is_evicted_first, setup,
						teardown),
		cmocka_unit_test_setup_teardown(one_file_may_use_half_of_the_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(on_a_full_disk_nothing_is_cached, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_of_a_crash_are_removed_and_other_files_kept, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_damaged_file_is_removed_before_it_is_used, setup, teardown),
		cmocka_unit_test_setup_teardown(the_background_check_removes_a_damaged_file, setup, teardown),
		cmocka_unit_test_setup_teardown(verify_reports_and_removes_damaged_files, setup, teardown),
		cmocka_unit_test_setup_teardown(files_of_a_version_without_digests_are_removed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(two_processes_do_not_share_a_cache, setup, teardown),
		cmocka_unit_test_setup_teardown(one_artifact_kept_twice_is_one_file, setup, teardown),
		cmocka_unit_test_setup_teardown(a_budget_is_found_when_none_is_given, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
