/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of ranges on disk: its limit, its files after a restart, damage.
 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file_cache.h"
#include "s3/internal.h"

#define SIZE  KIB(64)
#define WHOLE (SIZE + FILE_CACHE_TRAILER)

static char dir[TEST_PATH_SIZE];
static uint8_t bytes[SIZE], copy[SIZE];

static int setup(void **state)
{
	test_dir_make(dir);
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

/* Calls @fn for each file. Returns their number. */
static unsigned each_file(void (*fn)(const char *path))
{
	DIR *d = opendir(dir);
	struct dirent *de;
	unsigned n = 0;

	while ((de = readdir(d))) {
		char path[sizeof(dir) + sizeof(de->d_name) + 1];

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, de->d_name);
		if (fn)
			fn(path);
		n++;
	}
	closedir(d);
	return n;
}

static void remove_path(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

static int teardown(void **state)
{
	test_dir_remove(dir);
	return 0;
}

static void put_at(struct disk_cache *d, uint64_t key, uint64_t off)
{
	disk_cache_put(d, key, range_of(off, SIZE), bytes);
}

static void *put_one(void *d)
{
	put_at(d, 7, 0);
	return NULL;
}

static bool has_right_bytes(struct disk_cache *d, uint64_t key, uint64_t off)
{
	struct byte_range r;

	if (!disk_cache_find(d, key, off, &r))
		return false;
	memset(copy, 0, sizeof(copy));
	if (!disk_cache_read(d, key, r, copy))
		return false;
	assert_memory_equal(copy, bytes, SIZE);
	return true;
}

static void a_range_is_found_by_any_of_its_bytes_also_after_a_restart(void **state)
{
	uint64_t key = disk_cache_key("s3://b/x", 1), other = disk_cache_key("s3://b/x", 2);
	struct disk_cache *d = disk_cache_open(dir, MIB(1), 1);

	put_at(d, key, 1000);
	put_at(d, key, 1000);
	for (int i = 0; i < 2; i++) {
		assert_true(has_right_bytes(d, key, 1000));
		assert_true(has_right_bytes(d, key, 1000 + SIZE - 1));
		assert_false(has_right_bytes(d, key, 999));
		assert_false(has_right_bytes(d, key, 1000 + SIZE));
		assert_false(has_right_bytes(d, other, 1000));
		assert_int_equal(disk_cache_size(d), WHOLE);
		disk_cache_close(d);
		d = disk_cache_open(dir, MIB(1), 1);
	}
	disk_cache_close(d);
}

static void the_least_recently_used_ranges_are_removed_at_the_limit(void **state)
{
	struct disk_cache *d = disk_cache_open(dir, 8 * WHOLE, 1);

	for (uint64_t i = 0; i < 8; i++)
		put_at(d, 1, i * SIZE);
	assert_true(has_right_bytes(d, 1, 0));
	put_at(d, 2, 0);
	assert_true(has_right_bytes(d, 1, 0));
	assert_false(has_right_bytes(d, 1, SIZE));
	assert_int_equal(disk_cache_size(d), 8 * WHOLE);
	assert_int_equal(each_file(NULL), 8);
	disk_cache_close(d);
	/* With another limit. */
	d = disk_cache_open(dir, WHOLE, 1);
	assert_int_equal(disk_cache_size(d), WHOLE);
	assert_int_equal(each_file(NULL), 1);
	disk_cache_close(d);
}

static void flip_byte(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t b;

	assert_int_equal(pread(fd, &b, 1, SIZE / 2), 1);
	b ^= 1;
	assert_int_equal(pwrite(fd, &b, 1, SIZE / 2), 1);
	close(fd);
}

static void cut_file(const char *path)
{
	assert_int_equal(truncate(path, SIZE / 2), 0);
}

static void damaged_files_are_removed(void **state)
{
	static void (*const damages[])(const char *path) = { flip_byte, cut_file, remove_path };

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct disk_cache *d = disk_cache_open(dir, MIB(1), 1);

		put_at(d, 1, 0);
		each_file(damages[i]);
		assert_false(has_right_bytes(d, 1, 0));
		assert_int_equal(each_file(NULL), 0);
		assert_int_equal(disk_cache_size(d), 0);
		disk_cache_close(d);
	}
}

/* Those of a process that was killed; of lode before its files had trailers; names that only look like those of ranges. */
static void foreign_and_cut_files_are_removed_at_the_start(void **state)
{
	static const char *const names[] = {
		"0000000000000001-0-10000.7f00", "tmp-0",
		"0000000000000002-0-10000",      "1-0-10000",
		"0000000000000001-0x0-10000",    "0000000000000001- 0-10000",
	};
	struct disk_cache *d = disk_cache_open(dir, MIB(1), 1);
	struct err err = { 0 };
	char path[TEST_PATH_SIZE + 64];

	put_at(d, 1, 0);
	disk_cache_close(d);
	each_file(cut_file);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		static uint8_t old[SIZE + FILE_CACHE_TRAILER];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		assert_done(file_write_named(path, old, i == 2 ? SIZE + 24 : sizeof(old), 0600, &err));
	}
	d = disk_cache_open(dir, MIB(1), 1);
	assert_int_equal(disk_cache_size(d), 0);
	assert_int_equal(each_file(NULL), 0);
	disk_cache_close(d);
}

static void two_threads_that_put_one_range_leave_one_file(void **state)
{
	struct disk_cache *d = disk_cache_open(dir, MIB(1), 1);
	pthread_t t[4];

	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			assert_int_equal(pthread_create(&t[i], NULL, put_one, d), 0);
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			pthread_join(t[i], NULL);
		assert_int_equal(disk_cache_size(d), WHOLE);
		assert_true(has_right_bytes(d, 7, 0));
		disk_cache_forget_all(d, 7);
		assert_int_equal(disk_cache_size(d), 0);
		assert_int_equal(each_file(NULL), 0);
	}
	disk_cache_close(d);
}

static void overlapping_ranges_are_each_found(void **state)
{
	struct disk_cache *d = disk_cache_open(dir, MIB(1), 1);
	struct byte_range r;

	disk_cache_put(d, 1, range_of(0, SIZE / 2), bytes);
	disk_cache_put(d, 1, range_of(0, SIZE), bytes);
	disk_cache_put(d, 1, range_of(SIZE / 4, SIZE), bytes);
	assert_true(disk_cache_find(d, 1, 0, &r));
	assert_int_equal(r.size, SIZE);
	assert_true(disk_cache_find(d, 1, SIZE / 2, &r));
	assert_int_equal(r.off, SIZE / 4);
	/* A range that is found to be lost uncovers the others. */
	each_file(remove_path);
	assert_false(disk_cache_read(d, 1, range_of(0, SIZE), copy));
	assert_true(disk_cache_find(d, 1, 0, &r));
	assert_int_equal(r.size, SIZE / 2);
	disk_cache_close(d);
}

static void without_a_folder_or_a_limit_there_is_none(void **state)
{
	struct byte_range r;

	assert_null(disk_cache_open(NULL, MIB(1), 1));
	assert_null(disk_cache_open(dir, 0, 1));
	assert_null(disk_cache_open("/proc/no/such", MIB(1), 1));
	disk_cache_put(NULL, 1, range_of(0, SIZE), bytes);
	assert_false(disk_cache_find(NULL, 1, 0, &r));
	disk_cache_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_range_is_found_by_any_of_its_bytes_also_after_a_restart,
						setup, teardown),
		cmocka_unit_test_setup_teardown(the_least_recently_used_ranges_are_removed_at_the_limit,
						setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_files_are_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(foreign_and_cut_files_are_removed_at_the_start, setup,
						teardown),
		cmocka_unit_test_setup_teardown(two_threads_that_put_one_range_leave_one_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(overlapping_ranges_are_each_found, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_folder_or_a_limit_there_is_none, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
