/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that wait on disk.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/spool.h"

struct spool_fixture {
	char dir[TEST_PATH_SIZE];
	struct spool *s;
};

static int spool_setup(void **state)
{
	struct spool_fixture *f = NEW(struct spool_fixture);

	test_dir_make(f->dir);
	*state = f;
	clock_test_freeze(1700000000);
	return 0;
}

static int spool_teardown(void **state)
{
	struct spool_fixture *f = *state;

	spool_close(f->s);
	test_dir_remove(f->dir);
	clock_test_thaw();
	free(f);
	return 0;
}

static void put_text(struct spool_fixture *f, int64_t time_ms, const char *text)
{
	struct err err;

	assert_done(spool_put(f->s, time_ms, bytes_of(text, strlen(text)), &err));
}

/* Take the next one; "" if there is none. */
static const char *take_text(struct spool_fixture *f)
{
	static char text[64];
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *name = NULL;
	struct err err;

	if (spool_next(f->s, &b, &name, &err) != 0)
		return "";
	snprintf(text, sizeof(text), STR_FMT, STR_ARG(buf_str(&b)));
	spool_remove(f->s, name);
	return text;
}

static void the_newest_comes_first_and_survives_the_process(void **state)
{
	struct spool_fixture *f = *state;
	struct spool_stats st;
	struct err err;

	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "first");
	put_text(f, 1700000010000, "second");
	put_text(f, 1700000010000, "third, at the same time");
	spool_close(f->s);
	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	spool_stats(f->s, &st);
	assert_int_equal(st.n, 3);
	assert_int_equal(st.oldest_ms, 1700000000000);
	assert_string_equal(take_text(f), "third, at the same time");
	assert_string_equal(take_text(f), "second");
	put_text(f, 1699999990000, "late");
	assert_string_equal(take_text(f), "first");
	assert_string_equal(take_text(f), "late");
	assert_string_equal(take_text(f), "");
	spool_stats(f->s, &st);
	assert_int_equal(st.bytes, 0);
	assert_int_equal(st.n_dropped, 0);
}

/* The clock may be set back. */
static void profiles_of_another_process_at_the_same_time_stay(void **state)
{
	struct spool_fixture *f = *state;
	struct err err;

	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "first");
	spool_close(f->s);
	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "second");
	assert_string_equal(take_text(f), "second");
	assert_string_equal(take_text(f), "first");
	assert_string_equal(take_text(f), "");
}

static void the_oldest_go_when_there_are_too_many_bytes(void **state)
{
	struct spool_fixture *f = *state;
	struct spool_stats st;
	struct err err;

	assert_done(spool_open(f->dir, 10, 0, &f->s, &err));
	put_text(f, 1700000000000, "aaaaa");
	put_text(f, 1700000001000, "bbbbb");
	put_text(f, 1700000002000, "cc");
	spool_stats(f->s, &st);
	assert_int_equal(st.n, 2);
	assert_int_equal(st.n_dropped, 1);
	assert_string_equal(take_text(f), "cc");
	assert_fails(spool_put(f->s, 0, bytes_of("more than ten", 13), &err), ERR_LIMIT, "spool");
	spool_stats(f->s, &st);
	assert_int_equal(st.n_dropped, 1);
	assert_string_equal(take_text(f), "bbbbb");
}

static void old_ones_go(void **state)
{
	struct spool_fixture *f = *state;
	struct err err;

	assert_done(spool_open(f->dir, 0, 60, &f->s, &err));
	put_text(f, 1700000000000, "a");
	clock_test_advance(59000);
	put_text(f, 1700000059000, "b");
	clock_test_advance(2000);
	assert_string_equal(take_text(f), "b");
	assert_string_equal(take_text(f), "");
}

static size_t n_files(const struct spool_fixture *f)
{
	struct spool_stats st;

	spool_stats(f->s, &st);
	return st.n;
}

static void a_clock_that_is_ahead_removes_nothing(void **state)
{
	static const int64_t from_s = 1700000000, year_s = 365 * INT64_C(86400);
	struct spool_fixture *f = *state;
	struct err err;

	assert_done(spool_open(f->dir, 0, 3600, &f->s, &err));
	put_text(f, from_s * 1000, "a");
	/* For a moment: the profile of that moment has its time, and proves nothing at a start with such a clock. */
	clock_test_freeze(from_s + year_s);
	put_text(f, (from_s + year_s) * 1000, "b");
	assert_int_equal(n_files(f), 2);
	spool_close(f->s);
	assert_done(spool_open(f->dir, 0, 3600, &f->s, &err));
	assert_int_equal(n_files(f), 2);
	/* It is right again. */
	clock_test_freeze(from_s + 60);
	put_text(f, (from_s + 60) * 1000, "c");
	assert_int_equal(n_files(f), 3);
	spool_close(f->s);
	/* An hour after a start it is known to be. */
	clock_test_freeze(from_s + 7 * 3600);
	assert_done(spool_open(f->dir, 0, 3600, &f->s, &err));
	assert_int_equal(n_files(f), 3);
	clock_test_advance(3600 * 1000);
	assert_string_equal(take_text(f), "b");
	assert_string_equal(take_text(f), "");
}

/* They are sent when there are descriptors again. */
static void profiles_stay_while_no_file_can_be_opened(void **state)
{
	struct spool_fixture *f = *state;
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *name = NULL;
	struct rlimit usual, none;
	struct spool_stats st;
	struct err err = { 0 };
	int r;

	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "first");
	put_text(f, 1700000010000, "second");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	none = (struct rlimit){ 0, usual.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = spool_next(f->s, &b, &name, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
	assert_true(r < 0);
	spool_stats(f->s, &st);
	assert_int_equal(st.n, 2);
	assert_int_equal(st.n_dropped, 0);
	assert_string_equal(take_text(f), "second");
	assert_string_equal(take_text(f), "first");
}

/* As one of another user, which root could read: the tests may run as root. */
static void a_file_that_cannot_be_opened_does_not_hold_older_ones(void **state)
{
	struct spool_fixture *f = *state;
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) char *name = NULL, *again = NULL, *path = NULL;
	struct spool_stats st;
	struct err err = { 0 };

	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "first");
	put_text(f, 1700000010000, "second");
	put_text(f, 1700000020000, "third");
	assert_done(spool_next(f->s, &b, &name, &err));
	path = mem_printf("%s/%s", f->dir, name);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(name, path), 0);
	assert_string_equal(take_text(f), "second");
	assert_string_equal(take_text(f), "first");
	assert_true(spool_next(f->s, &b, &again, &err) < 0);
	assert_int_equal(err.os, ELOOP);
	spool_stats(f->s, &st);
	assert_int_equal(st.n, 1);
	assert_int_equal(st.n_dropped, 0);
}

/* As one that is too large for a slow line, or on which the server fails. */
static void one_that_cannot_be_sent_does_not_hold_older_ones(void **state)
{
	static const char *const want[] = { "third", "fourth", "second", "first", "fourth", "third" };
	struct spool_fixture *f = *state;
	struct spool_stats st;
	struct err err = { 0 };

	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "first");
	put_text(f, 1700000010000, "second");
	put_text(f, 1700000020000, "third");
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		AUTO(buf_done) struct buf b = { 0 };
		AUTO(mem_freep) char *name = NULL;

		assert_done(spool_next(f->s, &b, &name, &err));
		assert_string_equal(buf_cstr(&b), want[i]);
		spool_put_off(f->s, name);
		/* A new one has not been tried yet. */
		if (i == 0)
			put_text(f, 1700000030000, "fourth");
	}
	spool_stats(f->s, &st);
	assert_int_equal(st.n, 4);
	assert_string_equal(take_text(f), "second");
	assert_string_equal(take_text(f), "first");
	clock_test_advance(10000);
	assert_string_equal(take_text(f), "fourth");
	assert_string_equal(take_text(f), "third");
	assert_string_equal(take_text(f), "");
}

/* One that a server never takes is not sent to it all day, with all the others that it takes meanwhile between. */
static void one_that_is_never_taken_is_tried_ever_less_often(void **state)
{
	struct spool_fixture *f = *state;
	unsigned n_tries = 0;
	struct err err = { 0 };

	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	put_text(f, 1700000000000, "bad");
	for (unsigned s = 0; s < 3600; s++) {
		AUTO(buf_done) struct buf b = { 0 };
		AUTO(mem_freep) char *name = NULL;

		clock_test_advance(1000);
		if (s % 10 == 0)
			put_text(f, 1700000000000 + s * 1000, "good");
		if (spool_next(f->s, &b, &name, &err) != 0)
			continue;
		n_tries += str_eq(buf_str(&b), STR("bad"));
		if (str_eq(buf_str(&b), STR("bad")))
			spool_put_off(f->s, name);
		else
			spool_remove(f->s, name);
	}
	assert_in_range(n_tries, 10, 20);
}

static void other_files_in_the_folder_are_left_alone(void **state)
{
	struct spool_fixture *f = *state;
	AUTO(mem_freep) char *other = mem_printf("%s/notes.txt", f->dir);
	AUTO(mem_freep) char *odd = mem_printf("%s/1700000000000-0000000g.pb.gz", f->dir);
	AUTO(mem_freep) char *temp = mem_printf("%s/" FILE_TEMP_PREFIX "x", f->dir);
	AUTO(mem_freep) char *empty = mem_printf("%s/1700000000000-00000001.pb.gz", f->dir);
	struct err err;

	test_file_write(other, "x", 1);
	test_file_write(odd, "x", 1);
	test_file_write(temp, "x", 1);
	test_file_write(empty, "", 0);
	assert_done(spool_open(f->dir, 0, 0, &f->s, &err));
	/* What a kill has left is removed, and an empty file is no profile. */
	assert_string_equal(take_text(f), "");
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(access(odd, F_OK), 0);
	assert_int_not_equal(access(temp, F_OK), 0);
	assert_int_not_equal(access(empty, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_newest_comes_first_and_survives_the_process, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(profiles_of_another_process_at_the_same_time_stay,
						spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(the_oldest_go_when_there_are_too_many_bytes, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(old_ones_go, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(a_clock_that_is_ahead_removes_nothing, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(profiles_stay_while_no_file_can_be_opened, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened_does_not_hold_older_ones,
						spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(one_that_cannot_be_sent_does_not_hold_older_ones, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(one_that_is_never_taken_is_tried_ever_less_often, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(other_files_in_the_folder_are_left_alone, spool_setup,
						spool_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
