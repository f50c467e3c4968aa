/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs run_script for their output: child_run(), and its callers for perf and rpm.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd/child.h"
#include "cmd/find/find.h"
#include "cmd/profile/profile.h"

#define USUAL_PATH "/usr/bin:/bin"

static int run_script(const char *script, size_t max, int64_t patience_ms, int said, struct buf *ret,
		      int *ret_status, struct err *err)
{
	const char *const argv[] = { "sh", "-c", script, NULL };

	return child_run(
		&(struct child){ .argv = argv, .max = max, .patience_ms = patience_ms, .said = said }, ret,
		ret_status, err);
}

static void the_output_is_read_to_its_end(void **state)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	int status;

	assert_int_equal(
		run_script("echo one; echo lost >&2; read x || echo two", 100, 0, -1, &out, &status, &err),
		0);
	assert_true(str_eq(buf_str(&out), STR("one\ntwo\n")));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	out.size = 0;
	assert_int_equal(run_script("head -c 3000000 /dev/zero", 3000000, 30000, -1, &out, &status, &err), 0);
	assert_int_equal(out.size, 3000000);
}

static void exit_status_and_stderr_are_returned(void **state)
{
	AUTO(fd_close) int said = memfd_create("test", MFD_CLOEXEC);
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	char text[16] = { 0 };
	int status;

	assert_int_equal(run_script("echo why >&2; exit 3", 100, 0, said, &out, &status, &err), 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	assert_int_equal(out.size, 0);
	assert_int_equal(pread(said, text, sizeof(text) - 1, 0), 4);
	assert_string_equal(text, "why\n");
}

static void an_unknown_program_is_missing(void **state)
{
	const char *const argv[] = { "lode-no-such-program", NULL };
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	int status;

	assert_int_equal(
		child_run(&(struct child){ .argv = argv, .max = 1, .said = -1 }, &out, &status, &err),
		FILE_MISSING);
}

static void a_program_that_does_not_end_is_killed(void **state)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct err err = { 0 };
	int status = 0;

	assert_int_equal(run_script("while :; do echo more; done", 10000, 0, -1, &out, &status, &err),
			 CHILD_TOO_MUCH);
	assert_true(WIFSIGNALED(status));
	out.size = 0;
	status = 0;
	assert_true(run_script("exec sleep 600", 100, 1, -1, &out, &status, &err) < 0);
	assert_int_equal(err.kind, ERR_IO);
	assert_string_equal(err.text, "sh: it did not end within 0 s");
	assert_true(WIFSIGNALED(status));
}

/* ---- callers ---- */

static void make_program(const char *dir, const char *name, const char *text)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	AUTO(mem_freep) char *list = mem_printf("%s:" USUAL_PATH, dir);

	test_file_write(path, text, strlen(text));
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(setenv("PATH", list, 1), 0);
}

static void perf_data_is_read_by_perf(void **state)
{
	AUTO(profile_freep) struct profile *p = NULL;
	char dir[TEST_PATH_SIZE];
	struct err err = { 0 };

	test_dir_make(dir);
	assert_int_equal(setenv("PATH", dir, 1), 0);
	assert_true(perf_script_read("x", &p, &err) < 0);
	assert_non_null(strstr(err.text, "perf is not installed here"));

	make_program(dir, "perf", "#!/bin/sh\necho incompatible file format >&2\nexit 255\n");
	err = (struct err){ 0 };
	assert_true(perf_script_read("x", &p, &err) < 0);
	assert_string_equal(err.text, "perf cannot read it: incompatible file format");

	make_program(
		dir, "perf",
		"#!/bin/sh\ncase $1 in\n"
		"script) printf 'busy 7 1.5: PERF_RECORD_MMAP2 7/7: [0x5000(0x1000) @ 0 00:00 1 1]: "
		"r-xp /nowhere/busy\\nbusy 7 2.5: 100 cycles: \\n\\t5010 [unknown] (/nowhere/busy)\\n\\n';;\n"
		"buildid-list) echo 0123abcd /nowhere/busy;;\nesac\n");
	assert_int_equal(perf_script_read("x", &p, &err), 0);
	assert_int_equal(p->n_samples, 1);
	assert_true(str_eq(profile_str(p, p->mappings.p[0].build_id), STR("0123abcd")));
	assert_int_equal(setenv("PATH", USUAL_PATH, 1), 0);
	test_dir_remove(dir);
}

static void rpm_lists_the_files_of_a_package(void **state)
{
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(mem_freep) char *folder = NULL;
	AUTO(mem_freep) char *db = NULL;
	char dir[TEST_PATH_SIZE];
	struct err err = { 0 };
	struct finder f = { 0 };
	struct settings s;

	test_dir_make(dir);
	settings_init(&s, &find_command, commands);
	arena_init(&f.a);
	f.s = &s;
	s.find.sysroot = dir;
	assert_int_equal(find_rpm_files(&f, "hello", &out, &err), FILE_MISSING);
	folder = mem_printf("%s/var/lib/rpm", dir);
	db = mem_printf("%s/Packages", folder);
	assert_int_equal(dir_make(folder, 0755, &err), 0);
	test_file_write(db, "", 0);
	assert_int_equal(setenv("PATH", dir, 1), 0);
	assert_int_equal(find_rpm_files(&f, "hello", &out, &err), FILE_MISSING);
	make_program(dir, "rpm", "#!/bin/sh\n[ $5 = hello ] && echo /usr/bin/$5\n");
	assert_int_equal(find_rpm_files(&f, "hello", &out, &err), 0);
	assert_true(str_eq(buf_str(&out), STR("/usr/bin/hello\n")));
	assert_int_equal(find_rpm_files(&f, "hallo", &out, &err), FILE_MISSING);
	assert_int_equal(setenv("PATH", USUAL_PATH, 1), 0);
	arena_done(&f.a);
	settings_done(&s);
	test_dir_remove(dir);
}

static void a_lack_of_memory_is_not_a_large_output(void **state)
{
	AUTO(fd_close) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* No memory has room for more than that. */
	struct buf all = { .size = SIZE_MAX - 10 };
	struct err err = { 0 };

	assert_fails(child_read(fd, SIZE_MAX, 0, &all, &err), ERR_LIMIT, "no memory");
}

static void a_lack_of_descriptors_is_not_a_large_profile(void **state)
{
	struct rlimit usual;
	struct settings s = { 0 };
	struct profile *p = NULL;
	struct err err = { 0 };
	int r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, usual.rlim_max }), 0);
	r = profile_read_path(&s, "/etc/passwd", &p, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
	assert_int_equal(r, -1);
	assert_non_null(strstr(err.text, "Too many open files"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_output_is_read_to_its_end),
		cmocka_unit_test(exit_status_and_stderr_are_returned),
		cmocka_unit_test(an_unknown_program_is_missing),
		cmocka_unit_test(a_program_that_does_not_end_is_killed),
		cmocka_unit_test(perf_data_is_read_by_perf),
		cmocka_unit_test(rpm_lists_the_files_of_a_package),
		cmocka_unit_test(a_lack_of_memory_is_not_a_large_output),
		cmocka_unit_test(a_lack_of_descriptors_is_not_a_large_profile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
