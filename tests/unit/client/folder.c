/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder without any server: other clients' entries, read-only folders, sections cut out of cached files.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

static mode_t mode_of(struct fixture *h, const char *name)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void set_times(struct fixture *h, const char *name, time_t atime, time_t mtime)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	struct timespec t[2] = { { .tv_sec = atime }, { .tv_sec = mtime } };

	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void the_place_follows_the_customary_order(void **state)
{
	struct fixture h;
	char *path, legacy[TEST_PATH_SIZE + 64], want[TEST_PATH_SIZE + 64];

	fixture_open(&h);
	setenv("HOME", h.top, 1);
	unsetenv("XDG_CACHE_HOME");
	path = folder_usual(NULL);
	snprintf(want, sizeof(want), "%s/.cache/debuginfod_client", h.top);
	assert_string_equal(path, want);
	free(path);
	setenv("XDG_CACHE_HOME", "/xdg", 1);
	path = folder_usual(NULL);
	assert_string_equal(path, "/xdg/debuginfod_client");
	free(path);
	snprintf(legacy, sizeof(legacy), "%s/.debuginfod_client_cache", h.top);
	assert_int_equal(mkdir(legacy, 0700), 0);
	path = folder_usual(NULL);
	assert_string_equal(path, legacy);
	free(path);
	setenv("DEBUGINFOD_CACHE_PATH", "/given", 1);
	path = folder_usual(NULL);
	assert_string_equal(path, "/given");
	free(path);
	unsetenv("DEBUGINFOD_CACHE_PATH");
	unsetenv("XDG_CACHE_HOME");
	fixture_close(&h);
}

static void entries_of_another_client_are_found(void **state)
{
	struct fixture h;
	struct client_result r;

	fixture_open(&h);
	fixture_put(&h, ID_A "/debuginfo", buf_bytes(&h.debug));
	fixture_put(&h, ID_A "/hdr-debuginfo", bytes_of("X-DEBUGINFOD-FILE: a\n", 22));
	fixture_put(&h, ID_A "/source##src##a.c", bytes_of("old", 3));
	fixture_put(&h, ID_A "/source-e8bdd979-#usr#src#hello.c", bytes_of("new", 3));
	set_times(&h, ID_A "/debuginfo", 1000, 1000);
	fixture_ask(&h, "");
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_true(r.cached);
	assert_string_equal(r.headers, "X-DEBUGINFOD-FILE: a\n");
	assert_found(&r, buf_bytes(&h.debug));
	r = fixture_find(&h, CLIENT_SOURCE, ID_A, "/src/a.c");
	assert_found(&r, bytes_of("old", 3));
	r = fixture_find(&h, CLIENT_SOURCE, ID_A, "/usr/src/hello.c");
	assert_found(&r, bytes_of("new", 3));
	/* It was used just now, whatever the access times of the mount. */
	{
		AUTO(mem_freep) char *path = fixture_path(&h, ID_A "/debuginfo");
		struct stat st;

		assert_int_equal(stat(path, &st), 0);
		assert_true(st.st_atime >= time(NULL) - 300);
		assert_int_equal(st.st_mtime, 1000);
	}
	fixture_close(&h);
}

static void without_servers_the_result_says_so(void **state)
{
	struct fixture h;
	struct client_result r;

	fixture_open(&h);
	fixture_ask(&h, "");
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_int_equal(r.outcome, CLIENT_FAILED);
	assert_int_equal(r.os, ENOSYS);
	client_result_done(&r);
	fixture_close(&h);
}

static void a_fresh_negative_entry_is_believed_and_an_old_one_removed(void **state)
{
	struct fixture h;
	struct client_result r;

	fixture_open(&h);
	fixture_put(&h, ID_A "/debuginfo", bytes_of("", 0));
	fixture_ask(&h, "");
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_int_equal(r.outcome, CLIENT_ABSENT);
	assert_int_equal(r.os, ENOENT);
	client_result_done(&r);
	set_times(&h, ID_A "/debuginfo", time(NULL) - 700, time(NULL) - 700);
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_int_equal(r.outcome, CLIENT_FAILED); /* no server is configured */
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), -1);
	client_result_done(&r);
	fixture_close(&h);
}

/* The folder is on a file server whose clock is ahead, or this machine had the year 2100 for a while. */
static void entries_of_a_clock_that_is_a_little_ahead_are_believed(void **state)
{
	static const char text[] = "{\"results\": [], \"complete\": true}";
	struct fixture h;

	for (int far = 0; far < 2; far++) {
		time_t then = far ? (time_t)4102444800 : time(NULL) + 30;
		struct client_result r;

		fixture_open(&h);
		fixture_put(&h, ID_A "/debuginfo", bytes_of("", 0));
		set_times(&h, ID_A "/debuginfo", then, then);
		fixture_put(&h, "metadata/glob_x", bytes_of(text, sizeof(text) - 1));
		set_times(&h, "metadata/glob_x", then, then);
		fixture_ask(&h, "");
		r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
		assert_int_equal(r.outcome, far ? CLIENT_FAILED : CLIENT_ABSENT);
		client_result_done(&r);
		assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), far ? -1 : 0);
		client_metadata(h.client, "glob", "x", NULL, &r);
		assert_int_equal(r.outcome, far ? CLIENT_FAILED : CLIENT_FOUND);
		client_result_done(&r);
		fixture_close(&h);
	}
}

static void a_section_is_cut_out_of_what_is_here(void **state)
{
	struct fixture h;
	struct client_result r;
	AUTO(buf_done) struct buf text = { 0 };

	fixture_open(&h);
	fixture_put(&h, ID_A "/debuginfo", buf_bytes(&h.debug));
	fixture_put(&h, ID_A "/executable", buf_bytes(&h.program));
	fixture_ask(&h, "");
	/* The debug file has it without contents: they are in the executable. */
	r = fixture_find(&h, CLIENT_SECTION, ID_A, ".text");
	assert_int_equal(r.outcome, CLIENT_FOUND);
	assert_true(memmem(h.program.p, h.program.size, ".text", 5) != NULL);
	assert_true(r.size > 0 && r.size < h.program.size);
	client_result_done(&r);
	r = fixture_find(&h, CLIENT_SECTION, ID_A, ".debug_info");
	assert_int_equal(r.outcome, CLIENT_FOUND);
	client_result_done(&r);
	assert_true(fixture_size(&h, ID_A "/section-0212c825-.debug_info") > 0);
	assert_int_equal(fixture_size(&h, ID_A "/section-0212c825-.debug_info"),
			 fixture_size(&h, ID_A "/section-.debug_info"));
	assert_int_equal(mode_of(&h, ID_A "/section-.debug_info"), 0400);
	r = fixture_find(&h, CLIENT_SECTION, ID_A, ".nonsense");
	assert_int_equal(r.outcome, CLIENT_ABSENT);
	client_result_done(&r);
	assert_tidy(&h);
	fixture_close(&h);
}

static void a_wrong_file_is_not_believed(void **state)
{
	struct fixture h;
	struct client_result r;

	fixture_open(&h);
	fixture_put(&h, ID_A "/debuginfo", buf_bytes(&h.other));
	fixture_put(&h, ID_B "/debuginfo", bytes_of(h.other.p, h.other.size - 1000));
	fixture_ask(&h, "");
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_int_equal(r.outcome, CLIENT_FAILED);
	assert_non_null(strstr(buf_cstr(&r.why), "another build ID, " ID_B));
	client_result_done(&r);
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_B, NULL);
	assert_int_equal(r.outcome, CLIENT_FAILED);
	assert_non_null(strstr(buf_cstr(&r.why), "cut short or damaged"));
	client_result_done(&r);
	fixture_close(&h);
}

static void a_folder_that_cannot_be_written_to_has_a_spare(void **state)
{
	struct fixture h;
	struct fault_http *s;
	struct client_result r;
	char path[TEST_PATH_SIZE + 128];

	fixture_open(&h);
	/* A file in place of the folder: root may write anywhere, but not below a file. */
	test_file_write(h.cache, "x", 1);
	s = fault_http_new(
		&(struct fault_rule){ .path = "/buildid/" ID_A "/debuginfo", .body = buf_bytes(&h.debug) },
		1);
	fixture_ask(&h, fault_http_url(s));
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	snprintf(path, sizeof(path), "%s/debuginfod_client-%u/" ID_A "/debuginfo", h.top,
		 (unsigned)geteuid());
	assert_int_equal(r.outcome, CLIENT_FOUND);
	assert_string_equal(r.path, path);
	assert_non_null(strstr(buf_cstr(&r.why), "the cache folder cannot take it"));
	assert_found(&r, buf_bytes(&h.debug));
	/* The second time it is cached. */
	r = fixture_find(&h, CLIENT_DEBUGINFO, ID_A, NULL);
	assert_true(r.cached);
	assert_found(&r, buf_bytes(&h.debug));
	assert_int_equal(fault_http_requests(s, NULL), 1);
	fault_http_free(s);
	fixture_close(&h);
}

static void a_spare_folder_that_others_can_write_to_is_a_trap(void **state)
{
	struct fixture h;
	struct folder f;
	char path[TEST_PATH_SIZE + 64];

	fixture_open(&h);
	snprintf(path, sizeof(path), "%s/debuginfod_client-%u", h.top, (unsigned)geteuid());
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	if (folder_open_spare(&f, false))
		assert_string_not_equal(f.path, path);
	folder_done(&f);
	fixture_close(&h);
}

static void control_files_are_made_and_read(void **state)
{
	struct fixture h;
	struct folder f;
	int64_t mtime;

	fixture_open(&h);
	folder_open(&f, mem_strdup(h.cache));
	assert_false(f.read_only);
	assert_int_equal(folder_control(&f, CONTROL_MISS, 600, &mtime), 600);
	assert_true(mtime > 0);
	assert_int_equal(fixture_size(&h, CONTROL_MISS), 3);
	fixture_put(&h, CONTROL_MISS, bytes_of("17\n", 3));
	assert_int_equal(folder_control(&f, CONTROL_MISS, 600, NULL), 17);
	fixture_put(&h, CONTROL_MISS, bytes_of("much", 4));
	assert_int_equal(folder_control(&f, CONTROL_MISS, 600, NULL), 600);
	fixture_put(&h, CONTROL_MISS, bytes_of("-5", 2));
	assert_int_equal(folder_control(&f, CONTROL_MISS, 600, NULL), 600);
	assert_int_equal(mode_of(&h, ""), 0700);
	folder_done(&f);
	fixture_close(&h);
}

static void a_file_that_is_not_committed_leaves_nothing(void **state)
{
	struct fixture h;
	struct folder f;
	struct put p;
	struct err err = { 0 };

	fixture_open(&h);
	folder_open(&f, mem_strdup(h.cache));
	assert_done(put_begin(&p, (struct put_folders){ &f, NULL }, ID_A, "debuginfo", 100, &err));
	assert_done(put_write(&p, "abc", 3, 0, &err));
	put_done(&p);
	assert_int_equal(fixture_size(&h, ID_A), -1);
	folder_done(&f);
	fixture_close(&h);
}

static void a_file_larger_than_the_disk_is_refused_before_it_comes(void **state)
{
	struct fixture h;
	struct folder f;
	struct put p;
	struct err err = { 0 };

	fixture_open(&h);
	folder_open(&f, mem_strdup(h.cache));
	assert_fails(
		put_begin(&p, (struct put_folders){ &f, NULL }, ID_A, "debuginfo", UINT64_C(1) << 60, &err),
		ERR_IO, "are free");
	assert_int_equal(err.os, ENOSPC);
	folder_done(&f);
	fixture_close(&h);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_place_follows_the_customary_order),
		cmocka_unit_test(entries_of_another_client_are_found),
		cmocka_unit_test(without_servers_the_result_says_so),
		cmocka_unit_test(a_fresh_negative_entry_is_believed_and_an_old_one_removed),
		cmocka_unit_test(entries_of_a_clock_that_is_a_little_ahead_are_believed),
		cmocka_unit_test(a_section_is_cut_out_of_what_is_here),
		cmocka_unit_test(a_wrong_file_is_not_believed),
		cmocka_unit_test(a_folder_that_cannot_be_written_to_has_a_spare),
		cmocka_unit_test(a_spare_folder_that_others_can_write_to_is_a_trap),
		cmocka_unit_test(control_files_are_made_and_read),
		cmocka_unit_test(a_file_that_is_not_committed_leaves_nothing),
		cmocka_unit_test(a_file_larger_than_the_disk_is_refused_before_it_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
