/* SPDX-License-Identifier: Apache-2.0 */
/* Earlier versions of objects: kept, restored, removed and evicted. */
#include "fixture.h"

#include <errno.h>
#include <unistd.h>
#include "store/internal.h"

/* A reader touches the record between a push's look at it and its replacement. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
	unsigned left;
} touching;

static int put_staged_and_touch(struct blobs *b, const char *name, struct staging *s, bool keep,
				struct err *err)
{
	AUTO(buf_done) struct buf record = { 0 };
	struct store_key key = key_of("ab/debuginfo");
	int r = touching.under->put_staged(b, name, s, keep, err);

	clock_test_advance(100);
	if (touching.left && touching.left--) {
		store_record_name(&key, &record);
		assert_int_equal(touching.under->touch(b, buf_cstr(&record), err), 0);
	}
	return r;
}

static void a_replacement_that_is_tried_again_keeps_one_version(void **state)
{
	struct store_fixture *f = *state;

	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	touching.under = f->st->blobs->ops;
	touching.ops = *touching.under;
	touching.ops.put_staged = put_staged_and_touch;
	touching.left = 3;
	f->st->blobs->ops = &touching.ops;
	assert_int_equal(text_put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	f->st->blobs->ops = touching.under;
	assert_int_equal(touching.left, 0);
	assert_versions(f, "ci>ci ");
}

/* A push is acknowledged while a DELETE reads what it is to keep. */
static struct store_fixture *pushing;

static int put_and_push(struct blobs *b, const char *name, struct bytes content, const char *needs,
			const struct blob_stamp *expect, struct err *err)
{
	struct store_fixture *f = pushing;

	if (f && str_starts(str_of(name), STORE_PAST)) {
		pushing = NULL;
		f->st->blobs->ops = touching.under;
		clock_test_advance(1000);
		assert_int_equal(text_put_as(f, "ci", "two", STORE_IF_OWNED), 0);
		clock_test_advance(1000);
		f->st->blobs->ops = &touching.ops;
	}
	return touching.under->put(b, name, content, needs, expect, err);
}

static void a_push_beside_a_removal_is_an_earlier_version(void **state)
{
	struct store_key key = key_of("ab/debuginfo");
	struct store_fixture *f = *state;
	struct err err = { 0 };

	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	pushing = f;
	touching.under = f->st->blobs->ops;
	touching.ops = *touching.under;
	touching.ops.put = put_and_push;
	f->st->blobs->ops = &touching.ops;
	assert_done(store_remove(f->st, &key, STR("ci"), &err));
	f->st->blobs->ops = touching.under;
	assert_null(pushing);
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "");
	clock_test_advance(60000);
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "two");
}

/* As of a file that belongs to another user. */
static int touch_of_another_user(struct blobs *b, const char *name, struct err *err)
{
	return err_os(err, EPERM, "%s: set time", name);
}

static void contents_that_cannot_be_touched_are_replaced_and_restored(void **state)
{
	struct store_key key = key_of("ab/debuginfo");
	struct store_fixture *f = *state;
	struct store_meta meta;
	struct err err = { 0 };

	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	touching.under = f->st->blobs->ops;
	touching.ops = *touching.under;
	touching.ops.touch = touch_of_another_user;
	f->st->blobs->ops = &touching.ops;
	assert_int_equal(text_put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	f->st->blobs->ops = touching.under;
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "one");
	assert_versions(f, "ci>root ");
}

static void earlier_versions_are_kept_and_restored(void **state)
{
	static const char *const texts[] = { "v0", "v1", "v2", "v3", "v4" };
	struct store_key key = key_of("ab/debuginfo");
	struct store_fixture *f = *state;
	struct store_gc_result gc;
	struct store_stats stats;
	struct store_meta meta;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(text_put_as(f, "ci", texts[i], STORE_IF_OWNED), 0);
		clock_test_advance(60000);
	}
	assert_versions(f, "ci>ci ci>ci ci>ci ");
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_done(store_stats(f->st, &stats, &err));
	assert_int_equal(stats.n_objects, 1);
	assert_int_equal(stats.n_past, 3);
	assert_int_equal(stats.n_contents, 4); /* v0 is gone */
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "v3");
	assert_int_equal(meta.replaced, 0);
	assert_versions(f, "ci>ci ci>ci ci>root ");
	clock_test_advance(60000);
	assert_done(store_remove(f->st, &key, STR("root"), &err));
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "");
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "v3");
	assert_int_equal(store_restore(f->st, &key, STR("00000000"), STR("root"), &err), STORE_MISSING);
	/* Time removes them, and so does a removal for good. */
	clock_test_advance((STORE_PAST_S + 60) * 1000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_versions(f, "");
	assert_done(store_stats(f->st, &stats, &err));
	assert_int_equal(stats.n_contents, 1);
	assert_int_equal(text_put_as(f, "ci", "v5", STORE_IF_OWNED), 0);
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_versions(f, "");
}

static void earlier_versions_outlive_a_clock_that_is_wrong_at_the_start(void **state)
{
	static const int64_t year_s = 365 * INT64_C(86400);
	const struct store_options opts = { 0 };
	struct store_fixture *f = *state;
	struct store_gc_result gc;
	struct err err = { 0 };
	int64_t from_s;

	clock_test_freeze(year_s);
	reopen(f, &opts);
	assert_int_equal(text_put_as(f, "ci", "v0", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	assert_int_equal(text_put_as(f, "ci", "v1", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	/* It is a year ahead, and so is what is put meanwhile. */
	clock_test_freeze(from_s = 2 * year_s);
	reopen(f, &opts);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_past, 0);
	assert_int_equal(text_put_as(f, "ci", "v2", STORE_IF_OWNED), 0);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_versions(f, "ci>ci ci>ci ");
	/* It jumps while the service runs. */
	clock_test_freeze(5 * year_s);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	clock_test_freeze(from_s);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_versions(f, "ci>ci ci>ci ");
	/* After a day it is right. */
	clock_test_advance((86400 + 60) * 1000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_past, 1);
	assert_versions(f, "ci>ci ");
	/* A process that runs for minutes goes by what others have put. */
	clock_test_freeze(from_s += STORE_PAST_S + 86400);
	reopen(f, &opts);
	assert_int_equal(text_put_as(f, "ci", "v3", STORE_IF_OWNED), 0);
	clock_test_freeze(from_s + 600);
	reopen(f, &opts);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_past, 1);
	assert_versions(f, "ci>ci ");
}

static void earlier_versions_go_by_their_age_after_a_jump_of_a_moment(void **state)
{
	static const int64_t year_s = 365 * INT64_C(86400);
	const struct store_options opts = { 0 };
	struct store_fixture *f = *state;
	struct store_gc_result gc;
	struct err err = { 0 };

	clock_test_freeze(year_s);
	reopen(f, &opts);
	assert_int_equal(text_put_as(f, "ci", "v0", STORE_IF_OWNED), 0);
	assert_int_equal(text_put_as(f, "ci", "v1", STORE_IF_OWNED), 0);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	clock_test_freeze(2 * year_s);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_versions(f, "ci>ci ");
	/* Right again, it is believed at once. */
	clock_test_freeze(year_s);
	clock_test_advance((STORE_PAST_S + 60) * 1000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_past, 1);
	assert_versions(f, "");
}

/* A crash of a machine whose clock is ahead leaves the note of an upload, and no record, of that time. */
static void earlier_versions_outlive_the_note_of_an_upload_that_is_ahead(void **state)
{
	static const int64_t year_s = 365 * INT64_C(86400);
	const struct store_put_options opts = { .size = MIB(8), .name = STR("upload") };
	struct store_fixture *f = *state;
	AUTO(mem_freep) uint8_t *bytes = mem_alloc(MIB(4));
	struct store_gc_result gc;
	struct err err = { 0 };
	struct store_put *p;

	test_fill(bytes, MIB(4), 9);
	clock_test_freeze(year_s);
	reopen(f, &(struct store_options){ 0 });
	assert_int_equal(text_put_as(f, "ci", "v0", STORE_IF_OWNED), 0);
	assert_int_equal(text_put_as(f, "ci", "v1", STORE_IF_OWNED), 0);
	clock_test_freeze(2 * year_s);
	reopen(f, &(struct store_options){ 0 });
	assert_done(store_put_begin(f->st, &opts, &p, &err));
	assert_done(store_put_write(p, bytes_of(bytes, MIB(4)), &err));
	store_put_leave(p);
	clock_test_freeze(2 * year_s + 600);
	reopen(f, &(struct store_options){ 0 });
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_versions(f, "ci>ci ");
}

static int ignore_held(void *arg, const struct store_held *held)
{
	return 0;
}

/* Hold a push of "one", the object of which has another owner by the time it is put if @refused. */
static void hold_push_of(struct store_fixture *f, struct hold *h, const char *key_text, bool refused)
{
	const struct store_key key = key_of(key_text);
	struct store_meta meta = { .origin = STORE_PUSHED, .owner = STR("ci"), .from = STR("ci"), .size = 3 };
	struct staging s = { .fd = -1 };
	struct held_push p;
	struct err err = { 0 };
	int64_t wait_ms;
	int fd;

	assert_done(staging_dir_open(f->dir, STR(""), &s, &err));
	assert_done(staging_write(&s, bytes_of("one", 3), &err));
	meta.stored_size = s.size;
	assert_int_equal(hold_add(h, &key, &meta, STORE_IF_OWNED, &s, &err), STORE_HELD);
	staging_dir_done(&s, false);
	if (!refused)
		return;
	assert_true(hold_next(h, &f->arena, &p, &fd, &wait_ms, &err));
	close(fd);
	hold_end(h, &p, HELD_REFUSED, STR("other"));
}

static void assert_n_refused(struct store_fixture *f, struct hold *h, size_t want)
{
	struct store_object list[4];

	assert_int_equal(hold_refused(h, &f->arena, list, ARRAY_SIZE(list)), want);
}

static void a_refused_push_outlives_a_clock_that_is_wrong(void **state)
{
	static const int64_t year_s = 365 * INT64_C(86400);
	struct store_fixture *f = *state;
	struct hold *h = NULL;
	struct err err = { 0 };

	clock_test_freeze(year_s);
	assert_done(hold_open(f->dir, "s3://b/p", MIB(1), ignore_held, NULL, &h, &err));
	hold_push_of(f, h, "ab/debuginfo", true);
	assert_n_refused(f, h, 1);
	/* It is a year ahead while the service runs, and at its start. */
	clock_test_freeze(2 * year_s);
	hold_push_of(f, h, "cd/debuginfo", false);
	assert_n_refused(f, h, 1);
	hold_close(h);
	assert_done(hold_open(f->dir, "s3://b/p", MIB(1), ignore_held, NULL, &h, &err));
	hold_push_of(f, h, "cd01/debuginfo", false);
	assert_n_refused(f, h, 1);
	/* After a day it is right. */
	clock_test_advance(86400 * 1000);
	hold_push_of(f, h, "cd02/debuginfo", false);
	assert_n_refused(f, h, 0);
	hold_close(h);
}

static void earlier_versions_are_evicted_first(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result result;
	struct store_meta meta;
	struct store_stats stats;
	struct err err = { 0 };

	text_put(f, "cd/debuginfo", STORE_FETCHED, STORE_DWARF, "fetched");
	clock_test_advance(60000);
	text_put_as(f, "ci", "one", STORE_IF_OWNED);
	text_put_as(f, "ci", "two", STORE_IF_OWNED);
	clock_test_advance(60000);
	assert_done(store_stats(f->st, &stats, &err));
	assert_done(store_evict(f->st, stats.bytes - 1, &result, &err));
	assert_versions(f, "");
	assert_string_equal(text_get(f, "cd/debuginfo", &meta), "fetched");
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "two");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FROZEN(a_replacement_that_is_tried_again_keeps_one_version),
		FROZEN(a_push_beside_a_removal_is_an_earlier_version),
		FROZEN(contents_that_cannot_be_touched_are_replaced_and_restored),
		FROZEN(earlier_versions_are_kept_and_restored),
		FROZEN(earlier_versions_outlive_a_clock_that_is_wrong_at_the_start),
		FROZEN(earlier_versions_go_by_their_age_after_a_jump_of_a_moment),
		FROZEN(earlier_versions_outlive_the_note_of_an_upload_that_is_ahead),
		FROZEN(a_refused_push_outlives_a_clock_that_is_wrong),
		FROZEN(earlier_versions_are_evicted_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
