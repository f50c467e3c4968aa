/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts from outside, printed for people; JSON output; output that is lost, or ends early.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include "test.h"
#include "cmd/cmd.h"
#include "cmd/internal.h"
#include "store/store.h"

static void check_printed(struct str in, const char *want)
{
	char *out = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);

	print_text(f, in);
	fclose(f);
	assert_string_equal(out, want);
	free(out);
}

static void control_characters_are_escaped(void **state)
{
	check_printed(STR("usr/bin/x"), "usr/bin/x");
	check_printed(STR("\033[2Jx\r\n\t\177"), "\\x1b[2Jx\\x0d\\x0a\\x09\\x7f");
	check_printed(STR("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
	/* U+009B is a control character of xterm in UTF-8, too; U+202E turns the rest of the line around. */
	check_printed(STR("\xc2\x9b"
			  "31m"),
		      "\\xc2\\x9b31m");
	check_printed(STR("\xe2\x80\xae"
			  "exe"),
		      "\\xe2\\x80\\xaeexe");
	check_printed(STR("\x9b\xff"), "\\x9b\xff");
	check_printed((struct str){ 0 }, "");
}

/* Bytes of a file name that are not UTF-8 become U+FFFD, as in all JSON of lode. */
static void json_takes_any_bytes(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_array(&j, NULL);
	json_put_str(&j, NULL, STR("gr\xc3\xbc\xc3\x9f"));
	json_put_str(&j, NULL, STR("a\xffz"));
	json_put_str(&j, NULL, (struct str){ 0 });
	json_close(&j);
	assert_string_equal(buf_cstr(&text),
			    "[\n  \"gr\xc3\xbc\xc3\x9f\",\n  \"a\xef\xbf\xbdz\",\n  \"\"\n]");
}

static void sizes_are_short(void **state)
{
	char b[32];

	assert_string_equal(size_text(0, b), "0 B");
	assert_string_equal(size_text(999, b), "999 B");
	assert_string_equal(size_text(1000, b), "1.0 kB");
	assert_string_equal(size_text(99949, b), "99.9 kB");
	assert_string_equal(size_text(99950, b), "100 kB");
	assert_string_equal(size_text(858200000, b), "858 MB");
	assert_string_equal(size_text(999600, b), "1.0 MB");
	assert_string_equal(size_text(UINT64_MAX, b), "18.4 EB");
}

/* ---- output that cannot be written ---- */

/* Standard output goes to @path between the two. */
static int begin_output_to(const char *path)
{
	int keep, fd = open(path, O_WRONLY | O_CLOEXEC);

	fflush(stdout);
	keep = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	assert_true(keep >= 0 && fd >= 0);
	assert_true(dup2(fd, STDOUT_FILENO) >= 0);
	close(fd);
	return keep;
}

static void end_output_to(int keep)
{
	(void)!fflush(stdout);
	clearerr(stdout);
	assert_true(dup2(keep, STDOUT_FILENO) >= 0);
	close(keep);
}

/* A short text fails in fflush(), a long one in fwrite(). */
static void json_on_a_full_disk_is_a_failure(void **state)
{
	for (size_t size = 10; size <= MIB(1); size *= 4) {
		struct buf text = { 0 };
		int keep, status;

		memset(buf_reserve(&text, size), 'x', size);
		text.size = size;
		keep = begin_output_to("/dev/full");
		status = json_print_end(&text);
		end_output_to(keep);
		assert_int_equal(status, EXIT_FAILED);
	}
}

static int run_version_to(const char *path)
{
	char *argv[] = { (char *)"lode", (char *)"version", NULL };
	int status, keep = begin_output_to(path);

	/* Nothing is left for the end, so that nothing fails there. */
	setvbuf(stdout, NULL, _IONBF, 0);
	status = cmd_run(2, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	end_output_to(keep);
	return status;
}

static void a_command_whose_earlier_output_is_lost_has_failed(void **state)
{
	assert_int_equal(run_version_to("/dev/null"), EXIT_DONE);
	assert_int_equal(run_version_to("/dev/full"), EXIT_FAILED);
}

/* ---- output that ends early ---- */

static void put_object(struct store *st, uint8_t id)
{
	const struct store_put_options opts = { .size = 1 };
	struct store_meta meta = { .raw = true };
	struct store_key key = { .kind = STORE_SOURCES };
	struct store_put *put;
	struct err err;

	assert_true(build_id_set(&key.id, bytes_of(&id, 1)));
	assert_done(store_put_begin(st, &opts, &put, &err));
	assert_done(store_put_write(put, bytes_of(&id, 1), &err));
	assert_done(store_put_end(put, NULL, NULL, &err));
	assert_done(store_put_commit(put, &key, &meta, STORE_ALWAYS, &err));
}

static int list_store(const char *dir)
{
	char *argv[] = { (char *)"lode",    (char *)"store", (char *)"ls", (char *)"--json",
			 (char *)"--store", (char *)dir,     NULL };
	int status, keep = begin_output_to("/dev/null");

	status = cmd_run(6, argv);
	end_output_to(keep);
	return status;
}

/* The last test: the signal counts until the process ends. */
static void a_list_that_a_signal_ended_is_a_failure(void **state)
{
	char dir[TEST_PATH_SIZE];
	struct store *st;
	struct err err;

	setenv("LODE_CONFIG", "/dev/null", 1);
	test_dir_make(dir);
	assert_done(store_open(dir, &(struct store_options){ .create = true }, &st, &err));
	put_object(st, 1);
	put_object(st, 2);
	store_close(st);
	assert_int_equal(list_store(dir), EXIT_DONE);
	signals_catch();
	raise(SIGTERM);
	assert_int_equal(list_store(dir), EXIT_FAILED);
	test_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_characters_are_escaped),
		cmocka_unit_test(json_takes_any_bytes),
		cmocka_unit_test(sizes_are_short),
		cmocka_unit_test(json_on_a_full_disk_is_a_failure),
		cmocka_unit_test(a_command_whose_earlier_output_is_lost_has_failed),
		cmocka_unit_test(a_list_that_a_signal_ended_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
