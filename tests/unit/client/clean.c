/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning: old files are removed, and those of a folder that is too large; other programs' files stay; a
 * pass may take many steps.
 */
#include "fixture.h"

#include <fcntl.h>
#include <time.h>

#define DAY 86400

static void put_aged(struct fixture *h, const char *name, size_t size, int64_t age_s)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	AUTO(mem_freep) void *content = mem_zalloc(size + 1);
	struct timespec t[2] = { { .tv_sec = time(NULL) - age_s }, { .tv_sec = 1000 } };

	memset(content, 'x', size);
	fixture_put(h, name, bytes_of(content, size));
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void age_folder(struct fixture *h, const char *name)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	struct timespec t[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void due_now(struct fixture *h, struct folder *f)
{
	folder_open(f, mem_strdup(h->cache));
	folder_control(f, CONTROL_CLEAN_INTERVAL, USUAL_CLEAN_INTERVAL_S, NULL);
	age_folder(h, CONTROL_CLEAN_INTERVAL);
}

static void only_files_unused_for_a_week_are_removed(void **state)
{
	static const char *const old[] = {
		ID_A "/debuginfo",        ID_A "/source##a.c",           ID_A "/section-0212c825-.debug_info",
		ID_A "/section-.text",    ID_A "/hdr-debuginfo",         ID_A "/executable",
		ID_B "/debuginfo.abcdef", ID_B "/hdr-source-01234567-a", "metadata/glob_x"
	};
	static const char *const foreign[] = { ID_A "/notes.txt", "notes/debuginfo", "debuginfo",
					       "ABCD/debuginfo" };
	static const char *const young[] = { "00/debuginfo", "ff00/source-01234567-x.python" };
	struct fixture h;
	struct folder f;

	fixture_open(&h);
	for (size_t i = 0; i < ARRAY_SIZE(old); i++)
		put_aged(&h, old[i], 10, 8 * DAY);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		put_aged(&h, foreign[i], 10, 800 * DAY);
	for (size_t i = 0; i < ARRAY_SIZE(young); i++)
		put_aged(&h, young[i], 10, 6 * DAY);
	age_folder(&h, ID_B);
	due_now(&h, &f);
	clean_step(&f, 0, 1000);
	for (size_t i = 0; i < ARRAY_SIZE(old); i++)
		assert_int_equal(fixture_size(&h, old[i]), -1);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		assert_int_equal(fixture_size(&h, foreign[i]), 10);
	for (size_t i = 0; i < ARRAY_SIZE(young); i++)
		assert_int_equal(fixture_size(&h, young[i]), 10);
	/* It is not due again: the shared file has the time of the last cleaning. */
	put_aged(&h, ID_A "/debuginfo", 10, 8 * DAY);
	clean_step(&f, 0, 1000);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), 10);
	folder_done(&f);
	fixture_close(&h);
}

static void a_pass_is_done_in_steps(void **state)
{
	struct fixture h;
	struct folder f;
	unsigned n_steps = 0;
	char name[64];

	fixture_open(&h);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "%02xaa%04x/debuginfo", i % 256, i);
		put_aged(&h, name, 1, 8 * DAY);
	}
	due_now(&h, &f);
	/* A budget of 0: each step does the least that it may. */
	do {
		clean_step(&f, 0, 0);
		n_steps++;
		assert_true(n_steps < 20);
	} while (fixture_size(&h, "ffaa00ff/debuginfo") >= 0 || fixture_size(&h, "00aa0000/debuginfo") >= 0);
	assert_true(n_steps > 2);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "%02xaa%04x/debuginfo", i % 256, i);
		assert_int_equal(fixture_size(&h, name), -1);
	}
	folder_done(&f);
	fixture_close(&h);
}

static void a_folder_too_large_loses_the_files_unused_longest(void **state)
{
	struct fixture h;
	struct folder f;
	char name[64];

	fixture_open(&h);
	fixture_put(&h, CONTROL_MAX_SIZE, bytes_of("1", 1)); /* MB */
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "%02x/debuginfo", i);
		put_aged(&h, name, 100000, (int64_t)(i + 1) * 3600);
	}
	folder_open(&f, mem_strdup(h.cache));
	folder_control(&f, CONTROL_CLEAN_INTERVAL, USUAL_CLEAN_INTERVAL_S, NULL);
	clean_step(&f, 2000000, 1000); /* it was told the bytes added: a pass finds the ages */
	clean_step(&f, 0, 1000);       /* and the next pass removes */
	assert_int_equal(fixture_size(&h, "00/debuginfo"), 100000);
	assert_int_equal(fixture_size(&h, "03/debuginfo"), 100000);
	assert_int_equal(fixture_size(&h, "0f/debuginfo"), -1);
	assert_int_equal(fixture_size(&h, "13/debuginfo"), -1);
	folder_done(&f);
	fixture_close(&h);
}

static void a_file_given_out_just_now_stays(void **state)
{
	struct fixture h;
	struct folder f;

	fixture_open(&h);
	fixture_put(&h, CONTROL_MAX_UNUSED, bytes_of("0", 1));
	put_aged(&h, ID_A "/debuginfo", 10, 0);
	/* A hit 5 s ago, when the access time was young enough not to be updated. */
	put_aged(&h, ID_A "/executable", 10, YOUNG_S + 4);
	put_aged(&h, ID_B "/debuginfo", 10, 2 * YOUNG_S + 100);
	due_now(&h, &f);
	clean_step(&f, 0, 1000);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), 10);
	assert_int_equal(fixture_size(&h, ID_A "/executable"), 10);
	assert_int_equal(fixture_size(&h, ID_B "/debuginfo"), -1);
	folder_done(&f);
	fixture_close(&h);
}

static int64_t accessed(struct fixture *h, const char *name)
{
	AUTO(mem_freep) char *path = fixture_path(h, name);
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_atime;
}

/* The machine had the year 2100 for a while. */
static void times_in_the_future_keep_nothing(void **state)
{
	AUTO(mem_freep) char *interval = NULL;
	struct timespec later[2] = { { .tv_sec = 4102444800 }, { .tv_sec = 4102444800 } };
	struct fixture h;
	struct folder f;

	fixture_open(&h);
	put_aged(&h, ID_A "/debuginfo", 10, 8 * DAY);
	put_aged(&h, ID_B "/debuginfo", 10, -800 * DAY);
	due_now(&h, &f);
	interval = fixture_path(&h, CONTROL_CLEAN_INTERVAL);
	assert_int_equal(utimensat(AT_FDCWD, interval, later, 0), 0);
	clean_step(&f, 0, 1000);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), -1);
	assert_int_equal(fixture_size(&h, ID_B "/debuginfo"), 10);
	/* It ages from now on. */
	assert_true(accessed(&h, ID_B "/debuginfo") <= time(NULL));
	assert_true(accessed(&h, CONTROL_CLEAN_INTERVAL) <= time(NULL));
	folder_done(&f);
	fixture_close(&h);
}

/* A download was cut while the machine had the year 2100. */
static void a_dead_download_of_a_wrong_clock_is_removed(void **state)
{
	AUTO(mem_freep) char *temp = NULL;
	const struct timespec later[2] = { { .tv_sec = 4102444800 }, { .tv_sec = 4102444800 } };
	const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct stat st;
	struct fixture h;
	struct folder f;

	fixture_open(&h);
	put_aged(&h, ID_A "/debuginfo.abcdef", 10, 0);
	temp = fixture_path(&h, ID_A "/debuginfo.abcdef");
	assert_int_equal(utimensat(AT_FDCWD, temp, later, 0), 0);
	due_now(&h, &f);
	clean_step(&f, 0, 1000);
	/* It ages from now on. */
	assert_int_equal(stat(temp, &st), 0);
	assert_true(st.st_mtime <= time(NULL) && st.st_atime <= time(NULL));
	assert_int_equal(utimensat(AT_FDCWD, temp, past, 0), 0);
	age_folder(&h, CONTROL_CLEAN_INTERVAL);
	clean_step(&f, 0, 1000);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo.abcdef"), -1);
	folder_done(&f);
	fixture_close(&h);
}

/* The folder is on a file server, which sets the time of the last cleaning, and is a minute ahead. */
static void a_server_whose_clock_is_ahead_does_not_cause_cleaning(void **state)
{
	AUTO(mem_freep) char *interval = NULL;
	struct timespec t[2] = { { .tv_sec = time(NULL) + 60 }, { .tv_sec = time(NULL) + 60 } };
	struct fixture h;
	struct folder f;

	fixture_open(&h);
	put_aged(&h, ID_A "/debuginfo", 10, 8 * DAY);
	due_now(&h, &f);
	interval = fixture_path(&h, CONTROL_CLEAN_INTERVAL);
	assert_int_equal(utimensat(AT_FDCWD, interval, t, 0), 0);
	clean_step(&f, 0, 1000);
	assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), 10);
	folder_done(&f);
	fixture_close(&h);
}

static void a_damaged_state_begins_anew(void **state)
{
	static const char *const texts[] = { "", "x", "99999 1 2", "-1 -1 -1 -1", "3 4 5 6 7 8 9" };
	struct fixture h;

	fixture_open(&h);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct folder f;

		fixture_put(&h, "lode_clean", bytes_of(texts[i], strlen(texts[i])));
		put_aged(&h, ID_A "/debuginfo", 10, 8 * DAY);
		due_now(&h, &f);
		clean_step(&f, 0, 1000);
		assert_int_equal(fixture_size(&h, ID_A "/debuginfo"), -1);
		folder_done(&f);
	}
	fixture_close(&h);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_files_unused_for_a_week_are_removed),
		cmocka_unit_test(a_pass_is_done_in_steps),
		cmocka_unit_test(a_folder_too_large_loses_the_files_unused_longest),
		cmocka_unit_test(a_file_given_out_just_now_stays),
		cmocka_unit_test(times_in_the_future_keep_nothing),
		cmocka_unit_test(a_dead_download_of_a_wrong_clock_is_removed),
		cmocka_unit_test(a_server_whose_clock_is_ahead_does_not_cause_cleaning),
		cmocka_unit_test(a_damaged_state_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
