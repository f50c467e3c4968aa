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
	assert_int_equal(v.n_removed, 4);
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

/* ---- records that are damaged ---- */

static struct {
	unsigned n;
	char last[1024];
} warned;

static void note_warning(void *arg, enum log_level level, const char *area, const char *text)
{
	warned.n += level == LOG_WARN;
	if (level == LOG_WARN)
		snprintf(warned.last, sizeof(warned.last), "%s", text);
}

/* A store that collects what was put ten seconds ago. */
static void set_up_damage(struct store_fixture *f)
{
	clock_test_freeze(1000000);
	warned.n = 0;
	log_set_sink(note_warning, NULL);
	text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "one");
	text_put(f, "cd/debuginfo", STORE_PUSHED, STORE_DWARF, "two");
	clock_test_advance(60000);
}

static void tear_down_damage(struct store_fixture *f)
{
	log_set_sink(NULL, NULL);
}

static void remove_object(struct store_fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct err err = { 0 };

	assert_done(store_remove(f->st, &key, STR(""), &err));
	clock_test_advance(60000);
}

/* Put other bytes in the place of a record: all but the first @keep are wrong; with @keep 0 it is empty. */
static void damage_record(struct store_fixture *f, const char *key_text, size_t keep)
{
	AUTO(buf_done) struct buf name = { 0 }, text = { 0 };
	struct store_key key = key_of(key_text);
	char content[STORE_CONTENT_NAME_SIZE];
	struct store_record record;
	struct err err = { 0 };

	store_record_name(&key, &name);
	assert_done(store_record_text(f->st, buf_cstr(&name), &f->arena, &record, &text, &err));
	assert_true(text.size > keep);
	for (size_t i = keep; i < text.size; i++)
		text.p[i] ^= 1;
	assert_done(f->st->blobs->ops->put(
		f->st->blobs, buf_cstr(&name), bytes_of(text.p, keep ? text.size : 0),
		store_content_name(record.meta.sha256, record.meta.raw, content), &record.stamp, &err));
	clock_test_advance(60000);
}

/* Of a record up to the line of the SHA-256, and some. */
#define KEEPS_SHA256 150u

static struct store_gc_result collect(struct store_fixture *f)
{
	struct store_gc_result gc;
	struct err err = { 0 };

	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	return gc;
}

static struct store_verify_result verify(struct store_fixture *f, bool remove)
{
	struct store_verify_options o = { .remove = remove };
	struct store_verify_result v;
	struct err err = { 0 };

	assert_done(store_verify(f->st, &o, &v, &err));
	return v;
}

/* The bytes may be with nobody else. */
static void the_content_of_a_damaged_record_stays_for_the_next_push(void **state)
{
	struct store_fixture *f = *state;
	struct store_gc_result gc;

	set_up_damage(f);
	damage_record(f, "ab/debuginfo", KEEPS_SHA256);
	remove_object(f, "cd/debuginfo");
	gc = collect(f);
	assert_int_equal(gc.n_contents, 1);
	assert_int_equal(gc.n_young, 0);
	assert_int_equal(verify(f, false).n_contents, 1);
	assert_int_equal(warned.n, 1);
	assert_non_null(strstr(warned.last, "keys/ab/ab.debuginfo: "));
	assert_non_null(strstr(warned.last, ": cut off; 1 unreferenced contents ("));
	assert_non_null(
		strstr(warned.last, "; push the file again, or remove the record with lode store verify"));
	/* It is said once a day. */
	collect(f);
	assert_int_equal(warned.n, 1);
	clock_test_advance(25 * 3600 * 1000);
	collect(f);
	assert_int_equal(warned.n, 2);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "one"), 0);
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "one");
	assert_int_equal(collect(f).n_contents, 0);
	assert_int_equal(warned.n, 2);
	tear_down_damage(f);
}

static void verify_removes_a_damaged_record_and_the_collector_its_content(void **state)
{
	struct store_fixture *f = *state;
	struct store_verify_result v;

	set_up_damage(f);
	damage_record(f, "ab/debuginfo", KEEPS_SHA256);
	v = verify(f, false);
	assert_int_equal(v.n_bad, 1);
	assert_int_equal(v.n_removed, 0);
	v = verify(f, true);
	assert_int_equal(v.n_bad, 1);
	assert_int_equal(v.n_removed, 1);
	assert_int_equal(verify(f, false).n_bad, 0);
	assert_int_equal(collect(f).n_contents, 1);
	assert_string_equal(text_get(f, "cd/debuginfo", NULL), "two");
	tear_down_damage(f);
}

/* Nobody knows which content it needs. The name of a version in a bucket says it. */
static void an_empty_record_keeps_all_contents_without_a_record(void **state)
{
	struct store_fixture *f = *state;
	bool is_known = f->bucket != NULL;

	set_up_damage(f);
	damage_record(f, "ab/debuginfo", 0);
	remove_object(f, "cd/debuginfo");
	assert_int_equal(collect(f).n_contents, is_known ? 1 : 0);
	assert_int_equal(warned.n, 1);
	assert_non_null(strstr(warned.last, is_known ? "; 1 unreferenced" : "; 2 unreferenced"));
	assert_int_equal(verify(f, true).n_removed, 1);
	assert_int_equal(collect(f).n_contents, is_known ? 1 : 2);
	tear_down_damage(f);
}

/* The record of another object under that name says nothing of the content of that one. */
static void a_record_under_another_name_keeps_all_contents(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct store_fixture *f = *state;
	struct store_record record, other;
	struct err err = { 0 };

	set_up_damage(f);
	assert_done(store_record_text(f->st, "keys/ab/ab.debuginfo", &f->arena, &record, &text, &err));
	assert_done(store_record_text(f->st, "keys/cd/cd.debuginfo", &f->arena, &other, &text, &err));
	assert_done(f->st->blobs->ops->put(f->st->blobs, "keys/ab/ab.debuginfo", buf_bytes(&text), NULL,
					   &record.stamp, &err));
	remove_object(f, "cd/debuginfo");
	assert_int_equal(collect(f).n_contents, 0);
	assert_int_equal(warned.n, 1);
	tear_down_damage(f);
}

/* A value that this version does not know, and a sum that is right. */
static void put_newer_record(struct store_fixture *f, const char *key_text)
{
	AUTO(buf_done) struct buf name = { 0 }, text = { 0 };
	struct store_key key = key_of(key_text);
	char content[STORE_CONTENT_NAME_SIZE], *at;
	struct store_record record;
	struct err err = { 0 };

	store_record_name(&key, &name);
	assert_done(store_record_text(f->st, buf_cstr(&name), &f->arena, &record, &text, &err));
	at = strstr(buf_cstr(&text), "quality: dwarf\n");
	assert_non_null(at);
	memcpy(at, "quality: novel\n", 15);
	text.size -= strlen("sum: 0123456789abcdef\n");
	buf_printf(&text, "sum: %016llx\n", (unsigned long long)hash64(text.p, text.size, 0));
	assert_done(f->st->blobs->ops->put(f->st->blobs, buf_cstr(&name), buf_bytes(&text),
					   store_content_name(record.meta.sha256, record.meta.raw, content),
					   &record.stamp, &err));
	clock_test_advance(60000);
}

/* Its sum is right, but it has a value that this version does not know. */
static void a_record_of_a_newer_version_stays_with_its_content(void **state)
{
	struct store_fixture *f = *state;
	struct store_verify_result v;

	set_up_damage(f);
	put_newer_record(f, "ab/debuginfo");
	remove_object(f, "cd/debuginfo");
	assert_int_equal(collect(f).n_contents, 1);
	assert_non_null(strstr(warned.last, "quality: not a value for it; 1 unreferenced contents ("));
	assert_non_null(strstr(warned.last, "or use the newer lode that has written the record"));
	v = verify(f, true);
	assert_int_equal(v.n_bad, 1);
	assert_int_equal(v.n_removed, 0);
	assert_int_equal(collect(f).n_contents, 0);
	tear_down_damage(f);
}

/* A SHA-256 that no content has is damaged itself. */
static void a_record_that_names_no_content_keeps_all_contents(void **state)
{
	struct store_fixture *f = *state;

	set_up_damage(f);
	damage_record(f, "ab/debuginfo", sizeof("lode object 1\nbuild-id: ab\nkind: debuginfo\nsha256: 00"));
	remove_object(f, "cd/debuginfo");
	assert_int_equal(collect(f).n_contents, 0);
	tear_down_damage(f);
}

/* Its bytes are in the form that has a record. */
static void the_other_form_of_a_content_is_not_kept(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("ab/debuginfo");
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	struct err err = { 0 };

	set_up_damage(f);
	damage_record(f, "ab/debuginfo", 0);
	assert_int_equal(text_put(f, "ef/debuginfo", STORE_PUSHED, STORE_DWARF, "three"), 0);
	key = key_of("ff/debuginfo");
	assert_done(store_put_bytes(f->st, &key, &meta, true, bytes_of("three", 5), STORE_IF_BETTER, &err));
	clock_test_advance(60000);
	remove_object(f, "ff/debuginfo");
	assert_int_equal(collect(f).n_contents, 1);
	remove_object(f, "ef/debuginfo");
	assert_int_equal(collect(f).n_contents, 0);
	tear_down_damage(f);
}

static uint64_t evict(struct store_fixture *f, uint64_t target)
{
	struct store_evict_result ev;
	struct err err = { 0 };

	assert_done(store_evict(f->st, target, &ev, &err));
	return ev.n_objects;
}

static void contents_that_are_kept_go_before_pushed_objects(void **state)
{
	struct store_fixture *f = *state;
	uint64_t used = 0;

	set_up_damage(f);
	text_put(f, "a1/debuginfo", STORE_FETCHED, STORE_DWARF, "four");
	clock_test_advance(60000);
	damage_record(f, "ab/debuginfo", 0);
	collect(f);
	assert_true(store_usage(f->st, &used) && used > 0);
	assert_int_equal(evict(f, used - 1), 1);
	assert_false(is_stored(f, "a1/debuginfo"));
	assert_int_equal(verify(f, false).n_contents, 2);
	assert_int_equal(warned.n, 1);
	/* None of them with this option: the next are pushed objects, or one of these. */
	f->st->opts.keep_pushed = true;
	assert_int_equal(evict(f, 1), 0);
	assert_int_equal(verify(f, false).n_contents, 2);
	f->st->opts.keep_pushed = false;
	assert_true(store_usage(f->st, &used));
	assert_int_equal(evict(f, used - 1), 0);
	assert_true(is_stored(f, "cd/debuginfo"));
	assert_int_equal(verify(f, false).n_contents, 1);
	assert_int_equal(warned.n, 2);
	assert_non_null(strstr(warned.last, " bytes of contents that were kept for damaged records"));
	tear_down_damage(f);
}

static void the_content_that_a_damaged_record_names_is_not_evicted(void **state)
{
	struct store_fixture *f = *state;

	set_up_damage(f);
	text_put(f, "a1/debuginfo", STORE_FETCHED, STORE_DWARF, "one");
	clock_test_advance(60000);
	damage_record(f, "ab/debuginfo", KEEPS_SHA256);
	assert_int_equal(evict(f, 0), 2);
	assert_int_equal(verify(f, false).n_contents, 1);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "one"), 0);
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "one");
	tear_down_damage(f);
}

/* Garbage that is kept grows with each push that replaces another one: that is nothing new of the record. */
static void a_damaged_record_is_named_once_a_day_while_garbage_grows(void **state)
{
	struct store_fixture *f = *state;

	set_up_damage(f);
	damage_record(f, "ab/debuginfo", 0);
	for (unsigned i = 0; i < 3; i++) {
		char key[16];

		snprintf(key, sizeof(key), "c%u/debuginfo", i);
		assert_int_equal(put(f, key, STORE_PUSHED, i), 0);
		clock_test_advance(60000);
		remove_object(f, key);
		collect(f);
	}
	assert_int_equal(warned.n, 1);
	/* Another one is. */
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "one"), 0);
	damage_record(f, "cd/debuginfo", 0);
	collect(f);
	assert_int_equal(warned.n, 2);
	assert_non_null(strstr(warned.last, "keys/cd/cd.debuginfo: "));
	tear_down_damage(f);
}

/* While a newer lode runs, its records come and go: what to do about the damaged one would not be said. */
static void a_record_of_a_newer_version_does_not_hide_a_damaged_one(void **state)
{
	struct store_fixture *f = *state;

	set_up_damage(f);
	damage_record(f, "cd/debuginfo", KEEPS_SHA256);
	put_newer_record(f, "ab/debuginfo");
	collect(f);
	assert_int_equal(warned.n, 1);
	assert_non_null(strstr(warned.last, "keys/cd/cd.debuginfo: "));
	assert_non_null(strstr(warned.last, ", and 1 more records are damaged"));
	assert_non_null(strstr(warned.last, "or remove the record with lode store verify"));
	tear_down_damage(f);
}

static int note_blob_name(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	buf_printf(arg, "%s", name);
	return 0;
}

/* "one", the earlier version of ab/debuginfo, with another last byte, or as an empty file. */
static void damage_earlier_version(struct store_fixture *f, bool is_empty)
{
	AUTO(buf_done) struct buf name = { 0 }, text = { 0 };
	struct blobs *b = f->st->blobs;
	char content[STORE_CONTENT_NAME_SIZE];
	struct store_record record;
	struct err err = { 0 };

	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "three"), 0);
	assert_done(b->ops->list(b, STORE_PAST, STR(""), note_blob_name, &name, &err));
	assert_done(store_record_text(f->st, buf_cstr(&name), &f->arena, &record, &text, &err));
	text.p[text.size - 1] ^= 1;
	assert_done(b->ops->put(b, buf_cstr(&name), bytes_of(text.p, is_empty ? 0 : text.size),
				store_content_name(record.meta.sha256, record.meta.raw, content),
				&record.stamp, &err));
	clock_test_advance(60000);
}

static void a_damaged_earlier_version_goes_by_its_age(void **state)
{
	struct store_fixture *f = *state;
	struct store_gc_result gc;

	for (unsigned i = 0; i < 2; i++) {
		set_up_damage(f);
		damage_earlier_version(f, i == 1);
		gc = collect(f);
		assert_int_equal(gc.n_past, 0);
		assert_int_equal(gc.n_contents, 0);
		assert_int_equal(verify(f, false).n_contents, 3);
		/* No push mends it. */
		assert_int_equal(warned.n, 1);
		assert_non_null(strstr(warned.last, "past/ab/ab.debuginfo."));
		assert_null(strstr(warned.last, "push the file again"));
		assert_non_null(strstr(warned.last, "; remove the record with lode store verify"));
		clock_test_advance(STORE_PAST_S * 1000);
		gc = collect(f);
		assert_int_equal(gc.n_past, 1);
		assert_int_equal(gc.n_contents, 1);
		assert_int_equal(gc.n_young, 0);
		assert_int_equal(warned.n, 1);
		assert_int_equal(verify(f, false).n_bad, 0);
		assert_string_equal(text_get(f, "ab/debuginfo", NULL), "three");
		remove_object(f, "ab/debuginfo");
		collect(f);
		tear_down_damage(f);
	}
}

/* As all earlier versions. No command could restore it. */
static void a_damaged_earlier_version_is_evicted_first(void **state)
{
	struct store_fixture *f = *state;
	uint64_t used = 0;

	set_up_damage(f);
	damage_earlier_version(f, false);
	text_put(f, "a1/debuginfo", STORE_FETCHED, STORE_DWARF, "four");
	clock_test_advance(60000);
	collect(f);
	assert_true(store_usage(f->st, &used) && used > 0);
	assert_int_equal(evict(f, used - 1), 1);
	assert_int_equal(verify(f, false).n_bad, 0);
	assert_int_equal(verify(f, false).n_contents, 3);
	assert_true(is_stored(f, "a1/debuginfo"));
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "three");
	tear_down_damage(f);
}

static int get_over_bad_sector(struct blobs *b, const char *name, size_t max, struct buf *ret,
			       struct blob_stamp *ret_stamp, struct err *err)
{
	return strstr(name, "keys/ab/") ? err_os(err, sector.os, "%s: read", name)
					: sector.under->get(b, name, max, ret, ret_stamp, err);
}

static void nothing_is_collected_beside_a_record_that_cannot_be_read(void **state)
{
	struct store_fixture *f = *state;
	struct store_verify_options o = { .remove = true };
	struct store_verify_result v;
	struct store_gc_result gc;
	struct err err = { 0 };

	set_up_damage(f);
	remove_object(f, "cd/debuginfo");
	sector.under = f->st->blobs->ops;
	sector.ops = *sector.under;
	sector.ops.get = get_over_bad_sector;
	sector.os = EIO;
	f->st->blobs->ops = &sector.ops;
	assert_fails(store_gc(f->st, NULL, NULL, &gc, &err), ERR_IO,
		     "keys/ab/ab.debuginfo: read: Input/output error");
	assert_non_null(
		strstr(err.text, "; no content is removed before this can be read: mend the disk, or"));
	assert_int_equal(err.os, EIO);
	/* It is reported, and stays. */
	v = verify(f, true);
	assert_int_equal(v.n_bad, 1);
	assert_int_equal(v.n_removed, 0);
	/* A lack of memory is no fault of a record. */
	sector.os = ENOMEM;
	assert_fails(store_verify(f->st, &o, &v, &err), ERR_LIMIT, "read");
	f->st->blobs->ops = sector.under;
	assert_int_equal(collect(f).n_contents, 1);
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "one");
	tear_down_damage(f);
}

/* A bad sector is one of many objects. */
static void the_check_goes_on_after_a_record_that_cannot_be_read(void **state)
{
	struct store_fixture *f = *state;
	char path[TEST_PATH_SIZE + STORE_CONTENT_NAME_SIZE + 8], name[STORE_CONTENT_NAME_SIZE];
	struct store_key key = key_of("a1/debuginfo");
	struct store_meta meta;
	struct err err = { 0 };
	uint64_t n_bad = 0;

	put(f, "a1/debuginfo", STORE_FETCHED, 1);
	put(f, "ab/debuginfo", STORE_PUSHED, 2);
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	test_file_write(path, "rotten", 6);
	sector.under = f->st->blobs->ops;
	sector.ops = *sector.under;
	sector.ops.get = get_over_bad_sector;
	sector.os = EIO;
	f->st->blobs->ops = &sector.ops;
	assert_done(scrub_pass(f->st, NULL, NULL, &n_bad, &err));
	assert_int_equal(n_bad, 1);
	/* A lack of memory is of all. */
	sector.os = ENOMEM;
	assert_fails(scrub_pass(f->st, NULL, NULL, &n_bad, &err), ERR_LIMIT, "read");
	f->st->blobs->ops = sector.under;
	assert_false(is_stored(f, "a1/debuginfo"));
	assert_true(is_stored(f, "ab/debuginfo"));
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
		IN_EACH(the_content_of_a_damaged_record_stays_for_the_next_push),
		IN_EACH(verify_removes_a_damaged_record_and_the_collector_its_content),
		IN_EACH(a_record_of_a_newer_version_stays_with_its_content),
		IN_EACH(an_empty_record_keeps_all_contents_without_a_record),
		cmocka_unit_test_setup_teardown(a_record_under_another_name_keeps_all_contents, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_record_that_names_no_content_keeps_all_contents, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_other_form_of_a_content_is_not_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(contents_that_are_kept_go_before_pushed_objects, set_up,
						tear_down),
		IN_EACH(the_content_that_a_damaged_record_names_is_not_evicted),
		cmocka_unit_test_setup_teardown(a_damaged_record_is_named_once_a_day_while_garbage_grows,
						set_up, tear_down),
		IN_EACH(a_record_of_a_newer_version_does_not_hide_a_damaged_one),
		IN_EACH(a_damaged_earlier_version_goes_by_its_age),
		IN_EACH(a_damaged_earlier_version_is_evicted_first),
		cmocka_unit_test_setup_teardown(nothing_is_collected_beside_a_record_that_cannot_be_read,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_check_goes_on_after_a_record_that_cannot_be_read, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
