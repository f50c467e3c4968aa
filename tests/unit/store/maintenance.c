/* SPDX-License-Identifier: Apache-2.0 */
/* Garbage collection, eviction and verification. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "store/internal.h"

/* Put 1000 raw bytes, made from @seed. */
static int put(struct store_fixture *f, const char *key_text, enum store_origin origin, unsigned seed)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta = { .origin = origin, .quality = STORE_DWARF };
	struct err err = { 0 };
	uint8_t p[1000];
	int r;

	test_fill(p, sizeof(p), seed);
	r = store_put_bytes(f->st, &key, &meta, true, bytes_of(p, sizeof(p)), STORE_IF_BETTER, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	clock_test_advance(10000);
	return r;
}

static bool is_stored(struct store_fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta;
	struct err err = { 0 };
	int r = store_find(f->st, &key, &f->arena, &meta, &err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r == 0;
}

static void read_later(struct store_fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct source *s = NULL;
	struct err err = { 0 };

	clock_test_advance(100000);
	assert_done(store_open_object(f->st, &key, &f->arena, NULL, &s, &err));
	source_close(s);
	clock_test_advance(10000);
}

static void unreferenced_contents_are_collected(void **state)
{
	struct store_fixture *f = *state;
	struct store_gc_result gc;
	struct store_key key = key_of("ab/debuginfo");
	char path[TEST_PATH_SIZE + 32];
	struct err err = { 0 };

	put(f, "ab/debuginfo", STORE_PUSHED, 1);
	put(f, "ab/executable", STORE_PUSHED, 1);
	put(f, "cd/debuginfo", STORE_MADE, 2);
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_contents, 0);
	put(f, "cd/debuginfo", STORE_MADE, 3);
	snprintf(path, sizeof(path), "%s/tmp/left", f->dir);
	test_file_write(path, "x", 1);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_contents, 1);
	assert_int_equal(gc.bytes, 1000);
	assert_int_equal(gc.n_temporary, 1);
	assert_true(is_stored(f, "ab/executable"));
	assert_true(is_stored(f, "cd/debuginfo"));
}

static void young_contents_are_not_collected(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("ab/debuginfo");
	struct store_gc_result gc;
	struct err err = { 0 };

	put(f, "ab/debuginfo", STORE_PUSHED, 1);
	clock_test_advance(-9000);
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_contents, 0);
	assert_int_equal(gc.n_young, 1);
	clock_test_advance(9000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_contents, 1);
	assert_int_equal(gc.n_young, 0);
}

static void the_least_recently_used_object_is_evicted_first(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result ev;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_FETCHED, 1);
	put(f, "a2/debuginfo", STORE_FETCHED, 2);
	put(f, "a3/debuginfo", STORE_FETCHED, 3);
	read_later(f, "a1/debuginfo");
	assert_done(store_evict(f->st, 2000, &ev, &err));
	assert_int_equal(ev.n_objects, 1);
	assert_int_equal(ev.bytes, 1000);
	assert_true(is_stored(f, "a1/debuginfo"));
	assert_false(is_stored(f, "a2/debuginfo"));
	assert_true(is_stored(f, "a3/debuginfo"));
}

static void pushed_objects_are_evicted_last(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result ev;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_PUSHED, 1);
	put(f, "a2/debuginfo", STORE_FETCHED, 2);
	put(f, "a3/symtab", STORE_MADE, 3);
	put(f, "a4/debuginfo", STORE_PUSHED, 4);
	assert_done(store_evict(f->st, 2000, &ev, &err));
	assert_true(is_stored(f, "a1/debuginfo"));
	assert_false(is_stored(f, "a2/debuginfo"));
	assert_false(is_stored(f, "a3/symtab"));
	assert_done(store_evict(f->st, 1000, &ev, &err));
	assert_false(is_stored(f, "a1/debuginfo"));
	assert_true(is_stored(f, "a4/debuginfo"));
}

/* Its content stays for now, since another writer may be about to name it: to remove the record would make no room. */
static void an_object_of_a_moment_ago_is_not_evicted(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result ev;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_PUSHED, 1);
	put(f, "a2/debuginfo", STORE_FETCHED, 2);
	clock_test_advance(-9000);
	assert_done(store_evict(f->st, 0, &ev, &err));
	assert_false(is_stored(f, "a1/debuginfo"));
	assert_true(is_stored(f, "a2/debuginfo"));
	assert_int_equal(ev.n_objects, 1);
	assert_int_equal(ev.bytes, 1000);
	clock_test_advance(9000);
	assert_done(store_evict(f->st, 0, &ev, &err));
	assert_false(is_stored(f, "a2/debuginfo"));
}

static void a_content_is_removed_with_its_last_record(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result ev;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_FETCHED, 1);
	put(f, "a2/debuginfo", STORE_PUSHED, 1);
	put(f, "a3/debuginfo", STORE_FETCHED, 3);
	assert_done(store_evict(f->st, 1000, &ev, &err));
	assert_false(is_stored(f, "a1/debuginfo"));
	assert_true(is_stored(f, "a2/debuginfo"));
	assert_false(is_stored(f, "a3/debuginfo"));
}

static void a_put_evicts_objects_to_fit(void **state)
{
	struct store_fixture *f = *state;
	uint64_t used = 0;

	reopen(f, &(struct store_options){ .quota = 3000 });
	put(f, "a1/debuginfo", STORE_FETCHED, 1);
	put(f, "a2/debuginfo", STORE_FETCHED, 2);
	put(f, "a3/debuginfo", STORE_FETCHED, 3);
	assert_int_equal(put(f, "a4/debuginfo", STORE_PUSHED, 4), 0);
	assert_false(is_stored(f, "a1/debuginfo"));
	assert_true(is_stored(f, "a4/debuginfo"));
	assert_true(store_usage(f->st, &used) && used <= 3000);
}

static void an_object_over_the_quota_is_refused(void **state)
{
	struct store_fixture *f = *state;

	reopen(f, &(struct store_options){ .quota = 999 });
	assert_int_equal(put(f, "a1/debuginfo", STORE_PUSHED, 1), STORE_FULL);
	reopen(f, &(struct store_options){ .quota = 2500, .keep_pushed = true });
	assert_int_equal(put(f, "a1/debuginfo", STORE_PUSHED, 1), 0);
	assert_int_equal(put(f, "a2/debuginfo", STORE_PUSHED, 2), 0);
	assert_int_equal(put(f, "a3/debuginfo", STORE_FETCHED, 3), STORE_FULL);
	assert_true(is_stored(f, "a1/debuginfo"));
	assert_true(is_stored(f, "a2/debuginfo"));
}

static void add_bad_name(void *arg, struct str what, const struct err *why)
{
	buf_printf(arg, STR_FMT " ", STR_ARG(what));
}

static void verify_finds_and_removes_damaged_objects(void **state)
{
	struct store_fixture *f = *state;
	AUTO(buf_done) struct buf bad = { 0 };
	struct store_verify_result v;
	struct store_key key = key_of("a1/debuginfo");
	char path[TEST_PATH_SIZE + STORE_CONTENT_NAME_SIZE + 8], name[STORE_CONTENT_NAME_SIZE];
	struct store_meta meta;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_PUSHED, 1);
	put(f, "a2/debuginfo", STORE_PUSHED, 1);
	put(f, "a3/debuginfo", STORE_PUSHED, 3);
	put(f, "a4/debuginfo", STORE_PUSHED, 4);
	assert_done(store_verify(
		f->st, &(struct store_verify_options){ false, add_bad_name, &bad, NULL, NULL }, &v, &err));
	assert_int_equal(v.n_bad, 0);
	assert_int_equal(v.n_objects, 4);
	assert_int_equal(v.bytes, 3000);

	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	test_file_write(path, "rotten", 6);
	key = key_of("a3/debuginfo");
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	unlink(path);
	snprintf(path, sizeof(path), "%s/keys/a4/a4.debuginfo", f->dir);
	test_file_write(path, "lode object 1\n", 14);
	assert_done(store_verify(
		f->st, &(struct store_verify_options){ false, add_bad_name, &bad, NULL, NULL }, &v, &err));
	assert_int_equal(v.n_bad, 4);
	assert_int_equal(v.n_removed, 0);
	assert_str(buf_str(&bad),
		   "keys/a4/a4.debuginfo keys/a2/a2.debuginfo keys/a1/a1.debuginfo keys/a3/a3.debuginfo ");
	assert_done(store_verify(
		f->st, &(struct store_verify_options){ true, add_bad_name, &bad, NULL, NULL }, &v, &err));
	assert_int_equal(v.n_removed, 3);
	/* Good objects can be put again. */
	assert_int_equal(put(f, "a1/debuginfo", STORE_PUSHED, 1), 0);
	assert_int_equal(put(f, "a4/debuginfo", STORE_PUSHED, 4), 0);
	assert_done(store_verify(
		f->st, &(struct store_verify_options){ false, add_bad_name, &bad, NULL, NULL }, &v, &err));
	assert_int_equal(v.n_bad, 0);
}

/* Where the disk has a bad sector. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
	char name[STORE_CONTENT_NAME_SIZE];
	int os;
} sector;

static int open_over_bad_sector(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	return strcmp(name, sector.name) == 0 ? err_os(err, sector.os, "%s: read", name)
					      : sector.under->open(b, name, ret, err);
}

static int get_of_no_one(struct blobs *b, const char *name, size_t max, struct buf *ret,
			 struct blob_stamp *ret_stamp, struct err *err)
{
	return err_os(err, ENOTCONN, "%s: read", name);
}

static void verify_reports_a_content_that_cannot_be_read_and_goes_on(void **state)
{
	struct store_fixture *f = *state;
	AUTO(buf_done) struct buf bad = { 0 };
	struct store_verify_options o = { .remove = true, .bad = add_bad_name, .arg_bad = &bad };
	char path[TEST_PATH_SIZE + STORE_CONTENT_NAME_SIZE + 8], name[STORE_CONTENT_NAME_SIZE];
	struct store_key key = key_of("a1/debuginfo");
	struct store_verify_result v;
	struct store_meta meta;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_PUSHED, 1);
	put(f, "a2/debuginfo", STORE_PUSHED, 2);
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	store_content_name(meta.sha256, true, sector.name);
	key = key_of("a2/debuginfo");
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	test_file_write(path, "rotten", 6);
	sector.under = f->st->blobs->ops;
	sector.ops = *sector.under;
	sector.ops.open = open_over_bad_sector;
	sector.os = EIO;
	f->st->blobs->ops = &sector.ops;
	assert_done(store_verify(f->st, &o, &v, &err));
	assert_int_equal(v.n_bad, 2);
	assert_int_equal(v.n_removed, 1);
	assert_str(buf_str(&bad), "keys/a1/a1.debuginfo keys/a2/a2.debuginfo ");
	/* A store that cannot be reached ends it, and no object is called damaged. */
	bad.size = 0;
	sector.os = ENOTCONN;
	assert_fails(store_verify(f->st, &o, &v, &err), ERR_IO, "read");
	sector.ops.get = get_of_no_one;
	assert_fails(store_verify(f->st, &o, &v, &err), ERR_IO, "read");
	assert_str(buf_str(&bad), "");
	f->st->blobs->ops = sector.under;
	assert_true(is_stored(f, "a1/debuginfo"));
	assert_false(is_stored(f, "a2/debuginfo"));
}

static void verify_does_not_report_damaged_garbage(void **state)
{
	struct store_fixture *f = *state;
	AUTO(buf_done) struct buf bad = { 0 };
	struct store_verify_options o = { .bad = add_bad_name, .arg_bad = &bad };
	struct store_verify_result v;
	struct store_key key = key_of("a1/debuginfo");
	char path[TEST_PATH_SIZE + STORE_CONTENT_NAME_SIZE + 8], name[STORE_CONTENT_NAME_SIZE];
	struct store_meta meta;
	struct err err = { 0 };

	put(f, "a1/debuginfo", STORE_PUSHED, 1);
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	snprintf(path, sizeof(path), "%s/keys/a1/a1.debuginfo", f->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	test_file_write(path, "rotten", 6);
	/* What was put while verify runs stays, to the millisecond. */
	assert_int_equal(
		utimensat(AT_FDCWD, path, (struct timespec[2]){ { 1000000000, 0 }, { 1000000000, 0 } }, 0),
		0);
	assert_done(store_verify(f->st, &o, &v, &err));
	assert_int_equal(v.n_contents, 1);
	assert_int_equal(v.n_bad, 0);
	assert_int_equal(bad.size, 0);
	o.remove = true;
	assert_done(store_verify(f->st, &o, &v, &err));
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(unreferenced_contents_are_collected, set_up_frozen,
						tear_down),
		cmocka_unit_test_setup_teardown(young_contents_are_not_collected, set_up_frozen, tear_down),
		cmocka_unit_test_setup_teardown(the_least_recently_used_object_is_evicted_first,
						set_up_frozen, tear_down),
		cmocka_unit_test_setup_teardown(pushed_objects_are_evicted_last, set_up_frozen, tear_down),
		cmocka_unit_test_setup_teardown(an_object_of_a_moment_ago_is_not_evicted, set_up_frozen,
						tear_down),
		cmocka_unit_test_setup_teardown(a_content_is_removed_with_its_last_record, set_up_frozen,
						tear_down),
		cmocka_unit_test_setup_teardown(a_put_evicts_objects_to_fit, set_up_frozen, tear_down),
		cmocka_unit_test_setup_teardown(an_object_over_the_quota_is_refused, set_up_frozen,
						tear_down),
		cmocka_unit_test_setup_teardown(verify_reports_a_content_that_cannot_be_read_and_goes_on,
						set_up_frozen, tear_down),
		cmocka_unit_test_setup_teardown(verify_does_not_report_damaged_garbage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(verify_finds_and_removes_damaged_objects, set_up_frozen,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
