/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of store/blob.h, for each implementation. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include "store/blob.h"
#include "store/bucket.h"

struct blobs_fixture {
	char dir[TEST_PATH_SIZE];
	struct bucket_memory *bucket;
	struct blobs *b;
};

static int set_up_memory(void **state)
{
	struct blobs_fixture *f = NEW(struct blobs_fixture);

	f->b = blobs_open_memory();
	*state = f;
	return 0;
}

static int set_up_dir(void **state)
{
	struct blobs_fixture *f = NEW(struct blobs_fixture);
	struct err err = { 0 };

	test_dir_make(f->dir);
	assert_done(blobs_open_dir(f->dir, true, &f->b, &err));
	*state = f;
	return 0;
}

static int set_up_bucket(void **state)
{
	struct blobs_fixture *f = NEW(struct blobs_fixture);
	struct err err = { 0 };

	test_dir_make(f->dir);
	f->bucket = bucket_memory_new();
	assert_done(blobs_open_bucket(bucket_open_memory(f->bucket, NULL, NULL), f->dir, true, &f->b, &err));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct blobs_fixture *f = *state;

	clock_test_thaw();
	f->b->ops->close(f->b);
	bucket_memory_free(f->bucket);
	if (f->dir[0])
		test_dir_remove(f->dir);
	free(f);
	return 0;
}

static const struct blob_stamp none;

/* Contents are put from staging files. */
static void put_text(struct blobs *b, const char *name, const char *text)
{
	struct staging s = { .fd = -1 };
	struct err err = { 0 };

	if (strncmp(name, "data/", 5) == 0) {
		assert_done(b->ops->staging(b, STR(""), &s, &err));
		assert_done(staging_write(&s, bytes_of(text, strlen(text)), &err));
		assert_done(b->ops->put_staged(b, name, &s, true, &err));
		b->ops->staging_done(b, &s, false);
		return;
	}
	assert_done(b->ops->put(b, name, bytes_of(text, strlen(text)), NULL, &none, &err));
}

static void assert_text(struct blobs *b, const char *name, const char *want)
{
	AUTO(source_closep) struct source *s = NULL;
	char got[100] = "";
	struct err err = { 0 };

	assert_done(b->ops->open(b, name, &s, &err));
	assert_int_equal(s->size, strlen(want));
	assert_done(source_read_full(s, 0, got, s->size, SOURCE_RANDOM, &err));
	assert_string_equal(got, want);
}

static int collect_one(struct blobs *b, const char *name, int64_t not_after_ns)
{
	struct blob_garbage g = { .outcome = -1 };
	struct err err = { 0 };

	snprintf(g.name, sizeof(g.name), "%s", name);
	assert_done(b->ops->collect(b, &g, 1, not_after_ns, &err));
	return g.outcome;
}

static void put_staged(struct blobs *b, const char *name, const char *text)
{
	struct staging s = { .fd = -1 };
	struct err err = { 0 };

	assert_done(b->ops->staging(b, STR(""), &s, &err));
	for (const char *p = text; *p; p++)
		assert_done(staging_write(&s, bytes_of(p, 1), &err));
	assert_done(b->ops->put_staged(b, name, &s, true, &err));
	assert_done(b->ops->put_staged(b, name, &s, true, &err));
	assert_int_equal(collect_one(b, name, INT64_MAX), 0);
	assert_done(b->ops->put_staged(b, name, &s, true, &err));
	b->ops->staging_done(b, &s, false);
}

static void a_put_blob_can_be_read(void **state)
{
	struct blobs *b = ((struct blobs_fixture *)*state)->b;
	struct source *s = NULL;
	struct err err = { 0 };

	put_text(b, "keys/00/a", "one");
	assert_text(b, "keys/00/a", "one");
	put_staged(b, "data/00/b", "two");
	assert_text(b, "data/00/b", "two");
	assert_done(b->ops->settle(b, "data/00/b", &err));
	assert_int_equal(b->ops->open(b, "keys/00/b", &s, &err), BLOB_MISSING);
	assert_int_equal(b->ops->open(b, "keys/01/a", &s, &err), BLOB_MISSING);
	assert_int_equal(b->ops->settle(b, "keys/01/a", &err), BLOB_MISSING);
	assert_int_equal(b->ops->touch(b, "keys/01/a", &err), BLOB_MISSING);
	assert_int_equal(b->ops->remove(b, "keys/01/a", NULL, &err), BLOB_MISSING);
}

static void a_put_replaces_only_the_expected_version(void **state)
{
	struct blobs *b = ((struct blobs_fixture *)*state)->b;
	AUTO(buf_done) struct buf got = { 0 };
	struct blob_stamp first, second;
	struct err err = { 0 };

	put_text(b, "keys/00/a", "one");
	assert_int_equal(b->ops->put(b, "keys/00/a", bytes_of("x", 1), NULL, &none, &err), BLOB_CHANGED);
	assert_done(b->ops->get(b, "keys/00/a", 100, &got, &first, &err));
	assert_done(b->ops->put(b, "keys/00/a", bytes_of("three", 5), NULL, &first, &err));
	assert_int_equal(b->ops->put(b, "keys/00/a", bytes_of("x", 1), NULL, &first, &err), BLOB_CHANGED);
	assert_text(b, "keys/00/a", "three");
	assert_done(b->ops->stat(b, "keys/00/a", &second, &err));
	assert_done(b->ops->remove(b, "keys/00/a", NULL, &err));
	assert_int_equal(b->ops->put(b, "keys/00/a", bytes_of("x", 1), NULL, &second, &err), BLOB_CHANGED);
	assert_fails((put_text(b, "keys/00/b", "12345"), b->ops->get(b, "keys/00/b", 4, &got, &first, &err)),
		     ERR_LIMIT, "longer");
}

static void only_the_version_that_was_seen_is_removed(void **state)
{
	struct blobs *b = ((struct blobs_fixture *)*state)->b;
	struct blob_stamp first, second;
	struct err err = { 0 };

	put_text(b, "keys/00/a", "one");
	assert_done(b->ops->stat(b, "keys/00/a", &first, &err));
	assert_done(b->ops->put(b, "keys/00/a", bytes_of("three", 5), NULL, &first, &err));
	assert_done(b->ops->stat(b, "keys/00/a", &second, &err));
	assert_int_equal(b->ops->remove(b, "keys/00/a", &first, &err), BLOB_CHANGED);
	assert_text(b, "keys/00/a", "three");
	assert_done(b->ops->remove(b, "keys/00/a", &second, &err));
	assert_int_equal(b->ops->remove(b, "keys/00/a", &second, &err), BLOB_MISSING);
}

static void a_touched_blob_is_not_removed_as_old(void **state)
{
	struct blobs *b = ((struct blobs_fixture *)*state)->b;
	int64_t before_ns;
	struct err err = { 0 };

	clock_test_freeze(1000000);
	put_text(b, "data/00/a", "one");
	clock_test_advance(5000);
	before_ns = clock_wall_ms() * 1000000;
	clock_test_advance(5000);
	assert_done(b->ops->touch(b, "data/00/a", &err));
	assert_int_equal(collect_one(b, "data/00/a", before_ns), BLOB_YOUNGER);
	clock_test_advance(5000);
	put_staged(b, "data/00/b", "two");
	assert_int_equal(collect_one(b, "data/00/b", before_ns + 5000000000), BLOB_YOUNGER);
	assert_int_equal(collect_one(b, "data/00/b", before_ns + 10000000000), 0);
	assert_int_equal(collect_one(b, "data/00/a", before_ns + 5000000000), 0);
	assert_int_equal(collect_one(b, "data/00/a", INT64_MAX), BLOB_MISSING);
}

static void a_removed_blob_stays_readable_while_open(void **state)
{
	struct blobs *b = ((struct blobs_fixture *)*state)->b;
	AUTO(source_closep) struct source *s = NULL;
	char got[4] = "";
	struct err err = { 0 };

	put_text(b, "data/00/a", "one");
	assert_done(b->ops->open(b, "data/00/a", &s, &err));
	assert_int_equal(collect_one(b, "data/00/a", INT64_MAX), 0);
	assert_done(source_read_full(s, 0, got, 3, SOURCE_RANDOM, &err));
	assert_string_equal(got, "one");
}

static int add_blob_text(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	buf_printf(arg, "%s=%llu ", name, (unsigned long long)stamp->size);
	return 0;
}

static void the_list_is_sorted_and_continues_after_a_name(void **state)
{
	struct blobs *b = ((struct blobs_fixture *)*state)->b;
	AUTO(buf_done) struct buf got = { 0 };
	struct err err = { 0 };

	put_text(b, "keys/ab/ab02.x", "1");
	put_text(b, "keys/ff/ff.x", "22");
	put_text(b, "keys/ab/ab01.x", "333");
	put_text(b, "keys/00/00.x", "4");
	put_text(b, "data/00/00.x", "55");
	assert_done(b->ops->list(b, STR("keys/"), STR(""), add_blob_text, &got, &err));
	assert_str(buf_str(&got), "keys/00/00.x=1 keys/ab/ab01.x=3 keys/ab/ab02.x=1 keys/ff/ff.x=2 ");
	got.size = 0;
	assert_done(b->ops->list(b, STR("keys/"), STR("keys/ab/ab01.x"), add_blob_text, &got, &err));
	assert_str(buf_str(&got), "keys/ab/ab02.x=1 keys/ff/ff.x=2 ");
	got.size = 0;
	assert_done(b->ops->list(b, STR("keys/ab/ab02"), STR(""), add_blob_text, &got, &err));
	assert_str(buf_str(&got), "keys/ab/ab02.x=1 ");
	got.size = 0;
	assert_done(b->ops->list(b, STR("keys/ab/ab02"), STR("keys/ab/ab02.x"), add_blob_text, &got, &err));
	assert_int_equal(got.size, 0);
}

static void staging_files_in_use_are_not_swept(void **state)
{
	struct blobs_fixture *f = *state;
	struct blobs *b = f->b, *other;
	struct staging s = { .fd = -1 };
	char path[TEST_PATH_SIZE + 32];
	struct err err = { 0 };
	uint64_t n = 0;

	assert_done(blobs_open_dir(f->dir, false, &other, &err));
	assert_done(b->ops->staging(b, STR(""), &s, &err));
	assert_done(staging_write(&s, bytes_of("abc", 3), &err));
	snprintf(path, sizeof(path), "%s/tmp/dead", f->dir);
	test_file_write(path, "x", 1);
	assert_done(other->ops->sweep(other, &n, &err));
	assert_int_equal(n, 1);
	assert_done(b->ops->put_staged(b, "data/00/a", &s, true, &err));
	b->ops->staging_done(b, &s, false);
	assert_text(b, "data/00/a", "abc");
	assert_done(other->ops->sweep(other, &n, &err));
	assert_int_equal(n, 0);
	other->ops->close(other);
}

struct stat_loop {
	struct blobs *b;
	atomic_bool stop;
	unsigned n_missing;
};

static void *stat_repeatedly(void *arg)
{
	struct stat_loop *l = arg;
	struct blob_stamp stamp;
	struct err err = { 0 };

	while (!atomic_load(&l->stop))
		l->n_missing += l->b->ops->stat(l->b, "data/00/a", &stamp, &err) != 0;
	return NULL;
}

/* An acknowledged object may have the content that is replaced, and the process may be killed at any moment. */
static void a_content_that_is_replaced_is_never_missing(void **state)
{
	struct blobs_fixture *f = *state;
	struct stat_loop l = { .b = f->b };
	struct err err = { 0 };
	pthread_t thread;

	put_staged(f->b, "data/00/a", "abc");
	assert_int_equal(pthread_create(&thread, NULL, stat_repeatedly, &l), 0);
	for (int i = 0; i < 200; i++) {
		struct staging s = { .fd = -1 };

		assert_done(f->b->ops->staging(f->b, STR(""), &s, &err));
		assert_done(staging_write(&s, bytes_of("abc", 3), &err));
		assert_done(f->b->ops->put_staged(f->b, "data/00/a", &s, false, &err));
		f->b->ops->staging_done(f->b, &s, false);
	}
	atomic_store(&l.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(l.n_missing, 0);
	assert_text(f->b, "data/00/a", "abc");
}

static void a_folder_with_other_files_is_refused(void **state)
{
	struct blobs_fixture *f = *state;
	char path[TEST_PATH_SIZE + 32], file[TEST_PATH_SIZE + 64];
	struct err err = { 0 };
	struct blobs *b = NULL;

	snprintf(path, sizeof(path), "%s/sub", f->dir);
	assert_fails(blobs_open_dir(path, false, &b, &err), ERR_IO, "there is no store");
	assert_done(dir_make(path, 0755, &err));
	snprintf(file, sizeof(file), "%s/thesis.txt", path);
	test_file_write(file, "x", 1);
	assert_fails(blobs_open_dir(path, true, &b, &err), ERR_INVALID, "not a store");
	snprintf(file, sizeof(file), "%s/lode-store", path);
	test_file_write(file, "lode store 2\n", 13);
	assert_fails(blobs_open_dir(path, true, &b, &err), ERR_INVALID, "newer");
}

static void a_damaged_marker_of_a_folder_is_written_again(void **state)
{
	static char large[5000];
	static const char *const damaged[] = { "lode s|ore 1\n", "", "lode store 0\n", "lode store 1",
					       large };
	struct blobs_fixture *f = *state;
	char path[TEST_PATH_SIZE + 32], marker[TEST_PATH_SIZE + 64];
	struct err err = { 0 };

	memset(large, 'x', sizeof(large) - 1);
	snprintf(path, sizeof(path), "%s/sub", f->dir);
	snprintf(marker, sizeof(marker), "%s/lode-store", path);
	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		AUTO(buf_done) struct buf text = { 0 };
		struct blobs *b = NULL;

		assert_done(blobs_open_dir(path, true, &b, &err));
		b->ops->close(b);
		test_file_write(marker, damaged[i], strlen(damaged[i]));
		/* A command that only reads leaves it as it is. */
		assert_done(blobs_open_dir(path, false, &b, &err));
		b->ops->close(b);
		assert_done(blobs_open_dir(path, true, &b, &err));
		b->ops->close(b);
		assert_done(file_read(marker, 100, &text, &err));
		assert_true(str_eq(buf_str(&text), STR("lode store 1\n")));
	}
}

/* A store with earlier versions has a folder for them, too. */
static void count_lines(void *arg, enum log_level level, const char *area, const char *text)
{
	++*(unsigned *)arg;
}

/* Nobody is sent to check the disk. */
static void a_marker_is_not_damaged_for_want_of_descriptors(void **state)
{
	struct blobs_fixture *f = *state;
	AUTO(mem_freep) char *path = mem_printf("%s/sub", f->dir);
	struct rlimit was, small;
	struct blobs *b = NULL;
	struct err err = { 0 };
	unsigned n_lines = 0;
	int r;

	assert_done(blobs_open_dir(path, true, &b, &err));
	b->ops->close(b);
	log_set_sink(count_lines, &n_lines);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	small = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
	r = blobs_open_dir(path, false, &b, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(r, -1);
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_int_equal(err.os, EMFILE);
	log_set_sink(NULL, NULL);
	assert_int_equal(n_lines, 0);
}

static void a_missing_marker_of_a_folder_is_written_again(void **state)
{
	static const char *const made[] = { "", "/keys/ab", "/past" };
	struct blobs_fixture *f = *state;
	char path[TEST_PATH_SIZE + 32], marker[TEST_PATH_SIZE + 64], other[TEST_PATH_SIZE + 64];
	struct err err = { 0 };
	struct blobs *b = NULL;

	snprintf(path, sizeof(path), "%s/sub", f->dir);
	snprintf(marker, sizeof(marker), "%s/lode-store", path);
	assert_done(blobs_open_dir(path, true, &b, &err));
	b->ops->close(b);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		AUTO(buf_done) struct buf text = { 0 };

		snprintf(other, sizeof(other), "%s%s", path, made[i]);
		assert_done(dir_make(other, 0755, &err));
		assert_int_equal(unlink(marker), 0);
		/* A command that only reads leaves it as it is; without a record the store was not finished. */
		if (i) {
			assert_done(blobs_open_dir(path, false, &b, &err));
			b->ops->close(b);
		} else {
			assert_fails(blobs_open_dir(path, false, &b, &err), ERR_IO, "no store");
		}
		assert_true(access(marker, F_OK) < 0);
		assert_done(blobs_open_dir(path, true, &b, &err));
		b->ops->close(b);
		assert_done(file_read(marker, 100, &text, &err));
		assert_true(str_eq(buf_str(&text), STR("lode store 1\n")));
	}
	/* A process that was killed while it wrote the marker has left its temporary file. */
	assert_int_equal(unlink(marker), 0);
	snprintf(other, sizeof(other), "%s/" FILE_TEMP_PREFIX "0123456789abcdef", path);
	test_file_write(other, "lode", 4);
	assert_done(blobs_open_dir(path, true, &b, &err));
	b->ops->close(b);
	/* With anything else it is the folder of somebody else. */
	assert_int_equal(unlink(marker), 0);
	snprintf(other, sizeof(other), "%s/keys/id_ed25519", path);
	assert_done(dir_make(other, 0755, &err));
	assert_fails(blobs_open_dir(path, false, &b, &err), ERR_IO, "no store");
	assert_int_equal(rmdir(other), 0);
	assert_done(blobs_open_dir(path, true, &b, &err));
	b->ops->close(b);
	snprintf(other, sizeof(other), "%s/src", path);
	assert_done(dir_make(other, 0755, &err));
	assert_int_equal(unlink(marker), 0);
	assert_fails(blobs_open_dir(path, true, &b, &err), ERR_INVALID, "not empty");
}

/* Of somebody else. */
static void a_file_with_the_name_of_the_marker_is_no_store(void **state)
{
	struct blobs_fixture *f = *state;
	char path[TEST_PATH_SIZE + 32], marker[TEST_PATH_SIZE + 64];
	AUTO(buf_done) struct buf text = { 0 };
	struct err err = { 0 };
	struct blobs *b = NULL;
	static char large[5000];
	struct stat st;

	snprintf(path, sizeof(path), "%s/other", f->dir);
	snprintf(marker, sizeof(marker), "%s/lode-store", path);
	assert_done(dir_make(path, 0755, &err));
	test_file_write(marker, "my notes", 8);
	assert_fails(blobs_open_dir(path, true, &b, &err), ERR_INVALID, "no marker");
	assert_done(file_read(marker, 100, &text, &err));
	assert_true(str_eq(buf_str(&text), STR("my notes")));
	/* Nor is a long one. */
	memset(large, 'x', sizeof(large));
	test_file_write(marker, large, sizeof(large));
	assert_fails(blobs_open_dir(path, true, &b, &err), ERR_INVALID, "no marker");
	assert_int_equal(stat(marker, &st), 0);
	assert_int_equal(st.st_size, sizeof(large));
}

#define BOTH(test)                                                            \
	cmocka_unit_test_setup_teardown(test, set_up_memory, tear_down),      \
		cmocka_unit_test_setup_teardown(test, set_up_dir, tear_down), \
		cmocka_unit_test_setup_teardown(test, set_up_bucket, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_put_blob_can_be_read),
		BOTH(a_put_replaces_only_the_expected_version),
		BOTH(only_the_version_that_was_seen_is_removed),
		BOTH(a_touched_blob_is_not_removed_as_old),
		BOTH(a_removed_blob_stays_readable_while_open),
		BOTH(the_list_is_sorted_and_continues_after_a_name),
		cmocka_unit_test_setup_teardown(staging_files_in_use_are_not_swept, set_up_dir, tear_down),
		cmocka_unit_test_setup_teardown(a_content_that_is_replaced_is_never_missing, set_up_dir,
						tear_down),
		cmocka_unit_test_setup_teardown(a_folder_with_other_files_is_refused, set_up_dir, tear_down),
		cmocka_unit_test_setup_teardown(a_damaged_marker_of_a_folder_is_written_again, set_up_dir,
						tear_down),
		cmocka_unit_test_setup_teardown(a_marker_is_not_damaged_for_want_of_descriptors, set_up_dir,
						tear_down),
		cmocka_unit_test_setup_teardown(a_missing_marker_of_a_folder_is_written_again, set_up_dir,
						tear_down),
		cmocka_unit_test_setup_teardown(a_file_with_the_name_of_the_marker_is_no_store, set_up_dir,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
