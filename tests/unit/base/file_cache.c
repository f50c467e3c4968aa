/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of files in a folder: its budget, the order of use, restarts, damage, several threads.
 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file_cache.h"

#define SIZE  KIB(64)
#define WHOLE (SIZE + FILE_CACHE_TRAILER)

static char dir[TEST_PATH_SIZE];
static uint8_t bytes[SIZE], copy[SIZE];

static bool is_name(const char *name, uint64_t size)
{
	return str_starts(str_of(name), STR("f-"));
}

static struct file_cache_options options;

static int setup(void **state)
{
	test_dir_make(dir);
	options = (struct file_cache_options){
		.dir = dir, .budget = 8 * WHOLE, .part_max = 2, .log_name = "test", .is_name = is_name
	};
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

static int teardown(void **state)
{
	test_dir_remove(dir);
	return 0;
}

static struct file_cache *opened(void)
{
	struct file_cache *c;
	struct err err = { 0 };

	assert_done(file_cache_open(&options, &c, &err));
	return c;
}

static char *path_of(const char *name)
{
	static char path[TEST_PATH_SIZE + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static unsigned number_of_files(void)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	unsigned n = 0;

	while ((de = readdir(d)))
		n += de->d_name[0] != '.';
	closedir(d);
	return n;
}

static bool keep_evicting(struct file_cache *c, const char *name, size_t size,
			  struct file_cache_names *evicted)
{
	struct file_cache_new n;
	bool kept = file_cache_begin(c, name, size, &n, evicted);

	/* In two steps. */
	kept = kept && file_cache_add(&n, bytes_of(bytes, size / 3)) &&
	       file_cache_add(&n, bytes_of(bytes + size / 3, size - size / 3)) && file_cache_end(&n);
	file_cache_done(&n);
	return kept;
}

static bool keep(struct file_cache *c, const char *name)
{
	return keep_evicting(c, name, SIZE, NULL);
}

static bool has(struct file_cache *c, const char *name)
{
	struct file_cache_stamp stamp;

	return file_cache_has(c, name, &stamp);
}

/* By both ways of reading. */
static bool has_right_bytes(struct file_cache *c, const char *name)
{
	uint64_t size;
	int fd;

	memset(copy, 0, sizeof(copy));
	if (!file_cache_read(c, name, copy, SIZE))
		return false;
	assert_memory_equal(copy, bytes, SIZE);
	file_cache_check(c, name);
	if (file_cache_open_file(c, name, &fd, &size) != 0)
		return false;
	assert_int_equal(size, SIZE);
	memset(copy, 0, sizeof(copy));
	assert_int_equal(pread(fd, copy, SIZE, 0), SIZE);
	assert_memory_equal(copy, bytes, SIZE);
	close(fd);
	return true;
}

static struct file_cache_figures figures(struct file_cache *c)
{
	struct file_cache_figures f;

	file_cache_figures(c, &f);
	return f;
}

static void a_file_outlasts_a_restart_and_is_checked_before_it_is_opened(void **state)
{
	struct file_cache *c = opened();
	uint64_t size;
	int fd;

	assert_true(keep(c, "f-1"));
	assert_true(has_right_bytes(c, "f-1"));
	assert_false(has_right_bytes(c, "f-2"));
	/* It was written by this process. */
	assert_int_equal(file_cache_open_file(c, "f-1", &fd, &size), 0);
	close(fd);
	file_cache_close(c);
	c = opened();
	assert_true(has(c, "f-1"));
	assert_int_equal(file_cache_open_file(c, "f-1", &fd, &size), FILE_CACHE_UNCHECKED);
	assert_true(has_right_bytes(c, "f-1"));
	assert_int_equal(figures(c).size, WHOLE);
	assert_int_equal(figures(c).n_files, 1);
	file_cache_close(c);
}

static void the_least_recently_used_files_make_room_and_are_named(void **state)
{
	struct file_cache *c = opened();
	struct file_cache_names evicted = { 0 };
	char name[16];

	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "f-%d", i);
		assert_true(keep(c, name));
	}
	assert_true(has_right_bytes(c, "f-0"));
	assert_true(keep_evicting(c, "f-8", SIZE, &evicted));
	assert_int_equal(evicted.n, 1);
	assert_string_equal(evicted.v[0], "f-1");
	assert_false(has(c, "f-1"));
	assert_true(has(c, "f-0"));
	assert_int_equal(figures(c).size, 8 * WHOLE);
	assert_int_equal(figures(c).n_evicted, 1);
	assert_int_equal(number_of_files(), 8);
	file_cache_names_done(&evicted);
	file_cache_close(c);
	/* With another budget. */
	options.budget = 2 * WHOLE;
	c = opened();
	assert_int_equal(figures(c).n_files, 2);
	assert_int_equal(number_of_files(), 2);
	file_cache_close(c);
}

static void the_order_of_use_outlasts_a_restart(void **state)
{
	struct file_cache *c = opened();
	struct file_cache_names l;
	struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	assert_true(keep(c, "f-a"));
	assert_true(keep(c, "f-b"));
	file_cache_close(c);
	/* Both are older than a minute; the use of the older one is noted. */
	assert_int_equal(utimensat(AT_FDCWD, path_of("f-a"), past, 0), 0);
	past[0].tv_sec = past[1].tv_sec = 2000;
	assert_int_equal(utimensat(AT_FDCWD, path_of("f-b"), past, 0), 0);
	for (int i = 0; i < 2; i++) {
		c = opened();
		file_cache_list(c, &l);
		assert_int_equal(l.n, 2);
		assert_string_equal(l.v[0], i ? "f-b" : "f-a");
		file_cache_names_done(&l);
		assert_true(has_right_bytes(c, "f-a"));
		file_cache_close(c);
	}
}

static void what_is_too_large_or_too_many_is_not_kept(void **state)
{
	struct file_cache *c;

	options.budget = 2 * SIZE - 1;
	c = opened();
	assert_false(keep(c, "f-1"));
	assert_int_equal(number_of_files(), 0);
	file_cache_close(c);
	options.budget = MIB(1);
	options.max_files = 2;
	c = opened();
	assert_true(keep(c, "f-1"));
	assert_true(keep(c, "f-2"));
	assert_true(keep(c, "f-3"));
	assert_false(has(c, "f-1"));
	assert_int_equal(figures(c).n_files, 2);
	file_cache_close(c);
}

/* Room that is reserved for a file is not given to another one. */
static void files_that_are_being_written_count_for_the_budget(void **state)
{
	struct file_cache *c;
	struct file_cache_new a, b, d;

	options.budget = 2 * WHOLE;
	c = opened();
	assert_true(file_cache_begin(c, "f-a", SIZE, &a, NULL));
	assert_true(file_cache_begin(c, "f-b", SIZE, &b, NULL));
	assert_false(file_cache_begin(c, "f-d", 1, &d, NULL));
	file_cache_done(&d);
	file_cache_done(&a);
	assert_true(file_cache_begin(c, "f-d", 1, &d, NULL));
	file_cache_done(&d);
	file_cache_done(&b);
	assert_int_equal(number_of_files(), 0);
	assert_true(keep(c, "f-1"));
	assert_true(keep(c, "f-2"));
	file_cache_close(c);
}

static void a_file_for_which_there_cannot_be_room_evicts_none(void **state)
{
	struct file_cache *c;
	struct file_cache_new a, b, d;

	options.budget = 4 * WHOLE;
	c = opened();
	assert_true(keep(c, "f-1"));
	assert_true(keep(c, "f-2"));
	assert_true(file_cache_begin(c, "f-a", SIZE, &a, NULL));
	assert_true(file_cache_begin(c, "f-b", SIZE, &b, NULL));
	/* Two files are kept, and two are being written: of these there is no room for one that is larger. */
	assert_false(file_cache_begin(c, "f-d", 2 * WHOLE, &d, NULL));
	file_cache_done(&d);
	assert_true(has(c, "f-1"));
	assert_true(has(c, "f-2"));
	file_cache_done(&a);
	file_cache_done(&b);
	file_cache_close(c);
}

static void a_file_that_is_not_whole_gets_no_name(void **state)
{
	struct file_cache *c = opened();
	struct file_cache_new n;

	assert_true(file_cache_begin(c, "f-1", SIZE, &n, NULL));
	assert_true(file_cache_add(&n, bytes_of(bytes, SIZE - 1)));
	assert_false(file_cache_end(&n));
	assert_false(file_cache_add(&n, bytes_of(bytes, 2)));
	file_cache_done(&n);
	assert_false(has(c, "f-1"));
	assert_int_equal(number_of_files(), 0);
	file_cache_close(c);
}

static void change_byte(const char *name, off_t at)
{
	int fd = open(path_of(name), O_RDWR | O_CLOEXEC);
	uint8_t b;

	assert_int_equal(pread(fd, &b, 1, at), 1);
	b ^= 1;
	assert_int_equal(pwrite(fd, &b, 1, at), 1);
	close(fd);
}

static void damage(const char *name, int how)
{
	char other[sizeof(dir) + 64];

	snprintf(other, sizeof(other), "%s/f-other", dir);
	switch (how) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4: /* of the bytes; magic, digest, size and name of the trailer */
		change_byte(name, how ? SIZE + (how - 1) * 8 : SIZE / 2);
		break;
	case 5:
		assert_int_equal(truncate(path_of(name), SIZE / 2), 0);
		break;
	case 6:
		assert_int_equal(unlink(path_of(name)), 0);
		break;
	default: /* a whole file of another name */
		assert_int_equal(rename(other, path_of(name)), 0);
	}
}

static void damaged_files_are_removed_by_both_ways_of_reading(void **state)
{
	for (int how = 0; how < 8; how++)
		for (int way = 0; way < 2; way++) {
			struct file_cache *c = opened();

			assert_true(keep(c, "f-1"));
			assert_true(keep(c, "f-other"));
			damage("f-1", how);
			if (way)
				file_cache_check(c, "f-1");
			else
				assert_false(file_cache_read(c, "f-1", copy, SIZE));
			assert_false(has(c, "f-1"));
			assert_int_equal(access(path_of("f-1"), F_OK), -1);
			file_cache_forget(c, "f-other");
			assert_int_equal(figures(c).size, 0);
			/* A file that was removed by others is not damaged. */
			assert_int_equal(figures(c).n_damaged, how != 6 || way);
			file_cache_close(c);
		}
}

static void other_files_are_removed_at_the_start_but_no_folders(void **state)
{
	struct file_cache *c = opened();
	struct err err = { 0 };

	assert_true(keep(c, "f-1"));
	file_cache_close(c);
	assert_done(file_write_named(path_of("f-2"), "cut", 3, 0600, &err));
	assert_done(file_write_named(path_of("tmp-1"), bytes, SIZE, 0600, &err));
	assert_done(file_write_named(path_of("lock"), bytes, 0, 0600, &err));
	assert_int_equal(symlink("/etc/passwd", path_of("f-3")), 0);
	assert_int_equal(mkdir(path_of("f-4"), 0700), 0);
	c = opened();
	assert_true(has_right_bytes(c, "f-1"));
	assert_int_equal(figures(c).n_files, 1);
	assert_int_equal(number_of_files(), 2);
	file_cache_close(c);
}

static void one_process_at_a_time_has_the_folder(void **state)
{
	struct file_cache *c = opened(), *other;
	struct err err = { 0 };

	assert_int_equal(file_cache_open(&options, &other, &err), -1);
	assert_int_equal(err.kind, ERR_BUSY);
	file_cache_close(c);
	file_cache_close(opened());
}

static void an_open_file_stays_readable_after_its_eviction(void **state)
{
	struct file_cache *c = opened();
	uint64_t size;
	int fd;

	assert_true(keep(c, "f-1"));
	assert_int_equal(file_cache_open_file(c, "f-1", &fd, &size), 0);
	file_cache_forget(c, "f-1");
	assert_int_equal(pread(fd, copy, SIZE, 0), SIZE);
	assert_memory_equal(copy, bytes, SIZE);
	close(fd);
	file_cache_close(c);
}

static void *use_all(void *arg)
{
	struct file_cache *c = arg;
	uint8_t *mine = mem_alloc(SIZE);
	char name[16];

	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "f-%u", i * 7 % 13);
		if (i % 50 == 49)
			file_cache_forget(c, name);
		else if (file_cache_read(c, name, mine, SIZE))
			assert_memory_equal(mine, bytes, SIZE);
		else
			(void)keep(c, name);
	}
	free(mine);
	return NULL;
}

static void many_threads_see_right_bytes_within_the_budget(void **state)
{
	struct file_cache *c = opened();
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_all, c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_true(figures(c).size <= options.budget);
	assert_int_equal(figures(c).n_damaged, 0);
	assert_int_equal(figures(c).n_files, number_of_files());
	file_cache_close(c);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_file_outlasts_a_restart_and_is_checked_before_it_is_opened),
		CASE(the_least_recently_used_files_make_room_and_are_named),
		CASE(the_order_of_use_outlasts_a_restart),
		CASE(what_is_too_large_or_too_many_is_not_kept),
		CASE(files_that_are_being_written_count_for_the_budget),
		CASE(a_file_for_which_there_cannot_be_room_evicts_none),
		CASE(a_file_that_is_not_whole_gets_no_name),
		CASE(damaged_files_are_removed_by_both_ways_of_reading),
		CASE(other_files_are_removed_at_the_start_but_no_folders),
		CASE(one_process_at_a_time_has_the_folder),
		CASE(an_open_file_stays_readable_after_its_eviction),
		CASE(many_threads_see_right_bytes_within_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
