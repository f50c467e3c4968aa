/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs in a bucket: versions, generations, marks, the marker. What all blobs promise is in blobs.c. */
#include "test.h"

#include <stdlib.h>
#include <time.h>
#include "fault_http.h"
#include "s3/s3.h"
#include "store/bucket.h"
#include "store/internal.h"

#define SHA "ababababababababababababababababababababababababababababababcdcd"

struct bucket_fixture {
	char dir[TEST_PATH_SIZE];
	struct bucket_memory *memory;
	struct bucket *bucket; /* to look at the objects */
	struct blobs *b;
};

static struct blobs *open_blobs(struct bucket_fixture *f, bucket_before_fn *before, void *arg)
{
	struct blobs *b = NULL;
	struct err err = { 0 };

	assert_done(blobs_open_bucket(bucket_open_memory(f->memory, before, arg), f->dir, true, &b, &err));
	return b;
}

static int set_up(void **state)
{
	struct bucket_fixture *f = NEW(struct bucket_fixture);

	clock_test_freeze(1000000);
	test_dir_make(f->dir);
	f->memory = bucket_memory_new();
	f->bucket = bucket_open_memory(f->memory, NULL, NULL);
	f->b = open_blobs(f, NULL, NULL);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct bucket_fixture *f = *state;

	f->b->ops->close(f->b);
	f->bucket->ops->close(f->bucket);
	bucket_memory_free(f->memory);
	test_dir_remove(f->dir);
	clock_test_thaw();
	free(f);
	return 0;
}

static int count_item(void *arg, const struct bucket_item *item, struct err *err)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned count(struct bucket_fixture *f, const char *prefix)
{
	struct err err = { 0 };
	unsigned n = 0;

	assert_done(f->bucket->ops->list(f->bucket, prefix, "", count_item, &n, &err));
	return n;
}

static void put_object(struct bucket_fixture *f, const char *name, const char *text)
{
	struct err err = { 0 };

	assert_done(f->bucket->ops->put(f->bucket, name, bytes_of(text, strlen(text)), &err));
}

static void put(struct blobs *b, const char *text, const struct blob_stamp *expect)
{
	static const struct blob_stamp none;
	struct err err = { 0 };

	assert_done(b->ops->put(b, "keys/00/a", bytes_of(text, strlen(text)), NULL, expect ? expect : &none,
				&err));
}

static struct blob_stamp stamp(struct blobs *b)
{
	struct blob_stamp ret = { 0 };
	struct err err = { 0 };

	assert_done(b->ops->stat(b, "keys/00/a", &ret, &err));
	return ret;
}

static void assert_text(struct blobs *b, const char *want)
{
	AUTO(buf_done) struct buf got = { 0 };
	struct blob_stamp ignored;
	struct err err = { 0 };

	assert_done(b->ops->get(b, "keys/00/a", 100, &got, &ignored, &err));
	assert_str(buf_str(&got), want);
}

static void a_replaced_version_is_removed(void **state)
{
	struct bucket_fixture *f = *state;
	struct blob_stamp first;

	put(f->b, "one", NULL);
	first = stamp(f->b);
	put(f->b, "two", &first);
	assert_text(f->b, "two");
	assert_int_equal(count(f, "keys/"), 1);
}

/* Of a writer that was killed. One of the two may be acknowledged. */
static void a_rival_version_stays_until_the_removal(void **state)
{
	struct bucket_fixture *f = *state;
	struct blob_stamp now;
	struct err err = { 0 };

	put_object(f, "keys/00/a!0000000000000001.0000000000000001.0000000000000000.-", "rival");
	put_object(f, "keys/00/a!0000000000000001.0000000000000002.0000000000000000.-", "present");
	assert_text(f->b, "present");
	now = stamp(f->b);
	assert_int_equal(f->b->ops->put(f->b, "keys/00/a", bytes_of("x", 1), NULL, &now, &err), BLOB_CHANGED);
	clock_test_advance(60000);
	put(f->b, "next", &now);
	assert_text(f->b, "next");
	assert_int_equal(count(f, "keys/"), 2);
	assert_done(f->b->ops->remove(f->b, "keys/00/a", NULL, &err));
	assert_int_equal(count(f, "keys/"), 0);
}

static void a_record_is_not_put_without_its_content(void **state)
{
	static const struct blob_stamp none;
	struct bucket_fixture *f = *state;
	struct err err = { 0 };
	static const char needs[] = "data/ab/" SHA;

	assert_int_equal(f->b->ops->put(f->b, "keys/00/a", bytes_of("x", 1), needs, &none, &err), BLOB_UNMET);
	put_object(f, "data/ab/" SHA "!000000000010000000000000", "content");
	put_object(f, "dying/ab/" SHA "!000000000010000000000000!0000000000000001", "");
	assert_int_equal(f->b->ops->put(f->b, "keys/00/a", bytes_of("x", 1), needs, &none, &err), BLOB_UNMET);
	assert_int_equal(count(f, "keys/"), 0);
	put_object(f, "data/ab/" SHA "!000000000010000000000001", "content");
	assert_done(f->b->ops->put(f->b, "keys/00/a", bytes_of("x", 1), needs, &none, &err));
	assert_int_equal(count(f, "keys/"), 1);
}

static void what_killed_collectors_leave_is_swept_when_it_is_old(void **state)
{
	struct bucket_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	put_object(f, "data/ab/" SHA "!000000000010000000000000", "content");
	put_object(f, "data/ab/" SHA "!000000000010000000000001", "content");
	put_object(f, "data/cd/" SHA "!000000000010000000000001", "content");
	put_object(f, "dying/ab/" SHA "!000000000010000000000000!0000000000000001", "");
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(count(f, "data/"), 3);
	assert_int_equal(count(f, "dying/"), 1);
	clock_test_advance(3600 * 1000);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(count(f, "data/ab/"), 1);
	assert_int_equal(count(f, "data/cd/"), 1);
	assert_int_equal(count(f, "dying/"), 0);
}

static void a_prefix_with_other_objects_is_refused(void **state)
{
	struct bucket_fixture *f = *state;
	struct bucket_memory *m = bucket_memory_new();
	struct bucket *b = bucket_open_memory(m, NULL, NULL);
	struct blobs *ret = NULL;
	struct err err = { 0 };

	assert_fails(blobs_open_bucket(bucket_open_memory(m, NULL, NULL), f->dir, false, &ret, &err),
		     ERR_INVALID, "there is no store");
	assert_done(b->ops->put(b, "thesis.txt", bytes_of("x", 1), &err));
	assert_fails(blobs_open_bucket(bucket_open_memory(m, NULL, NULL), f->dir, true, &ret, &err),
		     ERR_INVALID, "not a store");
	assert_done(b->ops->put(b, "lode-store", bytes_of("lode store 2\n", 13), &err));
	assert_fails(blobs_open_bucket(bucket_open_memory(m, NULL, NULL), f->dir, true, &ret, &err),
		     ERR_INVALID, "newer");
	b->ops->close(b);
	bucket_memory_free(m);
}

static void a_damaged_marker_is_put_again(void **state)
{
	static const char *const damaged[] = { "lode ssore 1\n", "", "lode store 0\n", "lode store 1",
					       "<Error/>" };
	struct bucket_fixture *f = *state;
	struct err err = { 0 };
	struct blobs *other;

	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		AUTO(buf_done) struct buf text = { 0 };

		put_object(f, "data/ab/" SHA "!000000000010000000000000", "content");
		put_object(f, "lode-store", damaged[i]);
		other = open_blobs(f, NULL, NULL);
		other->ops->close(other);
		assert_done(f->bucket->ops->get(f->bucket, "lode-store", 100, &text, &err));
		assert_true(str_eq(buf_str(&text), STR("lode store 1\n")));
	}
}

static int get_without_memory(void *arg, const char *op, const char *name, struct err *err)
{
	return strcmp(op, "get") == 0 ? err_set(err, ERR_LIMIT, "no memory for an answer") : 0;
}

static void a_marker_is_not_damaged_for_want_of_memory(void **state)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct bucket_fixture *f = *state;
	struct blobs *other = NULL;
	char large[5000] = { 0 };
	struct err err = { 0 };

	put_object(f, "data/ab/" SHA "!000000000010000000000000", "content");
	assert_fails(blobs_open_bucket(bucket_open_memory(f->memory, get_without_memory, NULL), f->dir, true,
				       &other, &err),
		     ERR_LIMIT, "no memory");
	/* One that is longer than any is damaged. */
	memset(large, 'x', sizeof(large) - 1);
	put_object(f, "lode-store", large);
	other = open_blobs(f, NULL, NULL);
	other->ops->close(other);
	assert_done(f->bucket->ops->get(f->bucket, "lode-store", 100, &text, &err));
	assert_true(str_eq(buf_str(&text), STR("lode store 1\n")));
}

/* Of somebody else: neither is it taken, nor are the objects. */
static void an_object_with_the_name_of_the_marker_is_no_store(void **state)
{
	struct bucket_fixture *f = *state;
	struct bucket_memory *m = bucket_memory_new();
	struct bucket *b = bucket_open_memory(m, NULL, NULL);
	AUTO(buf_done) struct buf text = { 0 };
	struct blobs *ret = NULL;
	struct err err = { 0 };

	assert_done(b->ops->put(b, "lode-store", bytes_of("my notes", 8), &err));
	assert_done(b->ops->put(b, "data/mine", bytes_of("x", 1), &err));
	assert_fails(blobs_open_bucket(bucket_open_memory(m, NULL, NULL), f->dir, true, &ret, &err),
		     ERR_INVALID, "no marker");
	assert_done(b->ops->get(b, "lode-store", 100, &text, &err));
	assert_true(str_eq(buf_str(&text), STR("my notes")));
	b->ops->close(b);
	bucket_memory_free(m);
}

/* Another process makes the store and puts an object, just before the listing. */
static int before_listing(void *arg, const char *op, const char *name, struct err *err)
{
	struct bucket_fixture *f = arg;

	if (strcmp(op, "list") == 0 && !name[0]) {
		put_object(f, "lode-store", "lode store 1\n");
		put_object(f, "keys/00/a!0000000000000001.0000000000000001.0000000000000000.-", "one");
	}
	return 0;
}

static void two_processes_make_a_store_at_once(void **state)
{
	struct bucket_fixture *f = *state;
	struct blobs *other;
	struct err err = { 0 };

	assert_done(f->bucket->ops->remove(f->bucket, "lode-store", &err));
	other = open_blobs(f, before_listing, f);
	assert_text(other, "one");
	other->ops->close(other);
}

static int before_any(void *arg, const char *op, const char *name, struct err *err)
{
	if (!*(bool *)arg)
		return 0;
	(void)err_set(err, ERR_IO, "no connection");
	if (err)
		err->os = ENOTCONN;
	return -1;
}

static void a_bucket_may_be_away_at_the_start_and_later(void **state)
{
	struct bucket_fixture *f = *state;
	struct blob_stamp ignored;
	struct err err = { 0 };
	struct blobs *other;
	bool away = true;

	put(f->b, "one", NULL);
	other = open_blobs(f, before_any, &away);
	assert_true(other->ops->stat(other, "keys/00/a", &ignored, &err) < 0);
	assert_true(blob_is_away(&err));
	away = false;
	assert_text(other, "one");
	away = true;
	assert_true(other->ops->stat(other, "keys/00/b", &ignored, &err) < 0);
	assert_true(blob_is_away(&err));
	other->ops->close(other);
}

/* Its put was carried out after its writer had given up, and its content had been collected. */
static void a_version_without_its_content_is_passed_over(void **state)
{
	static const char late[] = "keys/00/a!0000000000000002.0000000000000009.0000000000000001." SHA
				   ".000000000010000000000000";
	struct bucket_fixture *f = *state;
	struct blob_stamp now;

	put_object(f, "data/ab/" SHA "!000000000010000000000001", "content");
	put_object(f,
		   "keys/00/a!0000000000000001.0000000000000001.0000000000000000." SHA
		   ".000000000010000000000001",
		   "one");
	put_object(f, late, "late");
	assert_text(f->b, "one");
	now = stamp(f->b);
	assert_int_equal(now.id, 1);
	clock_test_advance(60000);
	put(f->b, "two", &now);
	/* Also when its content is put again. */
	put_object(f, "data/ab/" SHA "!000000000010000000000000", "content");
	assert_text(f->b, "two");
}

static int pretend_puts(void *arg, const char *op, const char *name, struct err *err)
{
	return *(bool *)arg && strcmp(op, "put") == 0 ? BUCKET_PRETEND : 0;
}

static void a_version_that_is_not_listed_was_not_put(void **state)
{
	static const struct blob_stamp none;
	struct bucket_fixture *f = *state;
	struct err err = { 0 };
	bool lies = false;
	struct blobs *b = open_blobs(f, pretend_puts, &lies);

	lies = true;
	assert_fails(b->ops->put(b, "keys/00/a", bytes_of("x", 1), NULL, &none, &err), ERR_IO,
		     "does not list it");
	assert_true(blob_is_away(&err));
	b->ops->close(b);
}

/* The listing says three bytes. */
static int shorten(void *arg, const char *op, const char *name, struct err *err)
{
	struct bucket_fixture *f = arg;

	if (strcmp(op, "get") == 0 && str_starts(str_of(name), STR("keys/")))
		put_object(f, name, "<Error>");
	return 0;
}

static void an_answer_of_another_length_is_no_record(void **state)
{
	AUTO(buf_done) struct buf got = { 0 };
	struct bucket_fixture *f = *state;
	struct blobs *b = open_blobs(f, shorten, f);
	struct blob_stamp ignored;
	struct err err = { 0 };

	put(f->b, "one", NULL);
	assert_fails(b->ops->get(b, "keys/00/a", 100, &got, &ignored, &err), ERR_IO, "sent 7 of 3 bytes");
	assert_true(blob_is_away(&err));
	b->ops->close(b);
}

static int late_removals(void *arg, const char *op, const char *name, struct err *err)
{
	return strcmp(op, "delete") == 0 && str_starts(str_of(name), STR("data/")) ? BUCKET_LATE : 0;
}

/* The server may carry it out at any time: no writer may rely on that content. */
static void the_mark_of_a_removal_that_failed_stays(void **state)
{
	static const struct blob_stamp none;
	struct bucket_fixture *f = *state;
	struct blobs *b = open_blobs(f, late_removals, NULL);
	struct blob_garbage g = { .name = "data/ab/" SHA };
	struct err err = { 0 };
	uint64_t n;

	put_object(f, "data/ab/" SHA "!000000000010000000000000", "content");
	clock_test_advance(60000);
	assert_true(b->ops->collect(b, &g, 1, clock_wall_ms() * 1000000, &err) < 0);
	assert_int_equal(count(f, "dying/"), 1);
	assert_int_equal(f->b->ops->put(f->b, "keys/00/a", bytes_of("x", 1), g.name, &none, &err),
			 BLOB_UNMET);
	assert_true(bucket_memory_land(f->memory, 0));
	clock_test_advance(3600 * 1000);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(count(f, "dying/"), 0);
	b->ops->close(b);
}

/* ---- scans ---- */

#define N_SCANNED 300

struct scanned {
	unsigned n, n_present, n_rivals;
	char last[64];
};

static int note_scanned(void *arg, const struct blob_scanned *s, struct err *err)
{
	struct scanned *c = arg;

	assert_int_equal(s->outcome, 0);
	assert_true(strcmp(s->name, c->last) >= 0);
	snprintf(c->last, sizeof(c->last), "%s", s->name);
	assert_int_equal(s->content.size, strlen(s->name));
	assert_memory_equal(s->content.p, s->name, s->content.size);
	assert_int_equal(s->stamp.size, s->content.size);
	c->n++;
	c->n_present += s->place == BLOB_PRESENT;
	c->n_rivals += s->place == BLOB_RIVAL;
	return c->n == 2 * N_SCANNED ? 1 : 0;
}

static void a_scan_reads_many_at_a_time_in_order(void **state)
{
	struct bucket_fixture *f = *state;
	struct bucket *bucket = bucket_open_memory(f->memory, NULL, NULL);
	struct blobs *b = NULL;
	struct scanned c = { 0 };
	struct err err = { 0 };

	for (unsigned i = 0; i < N_SCANNED; i++) {
		char name[32], object[128];

		snprintf(name, sizeof(name), "keys/%02x/%03u", i % 16, i);
		snprintf(object, sizeof(object), "%s!0000000000000001.0000000000000002.0000000000000000.-",
			 name);
		put_object(f, object, name);
		snprintf(object, sizeof(object), "%s!0000000000000001.0000000000000001.0000000000000000.-",
			 name);
		if (i % 10 == 0)
			put_object(f, object, name);
	}
	clock_test_advance(3600 * 1000);
	bucket->n_reads = 8;
	assert_done(blobs_open_bucket(bucket, f->dir, true, &b, &err));
	assert_done(blobs_scan(b, STR("keys/"), STR(""), 100, note_scanned, &c, &err));
	assert_int_equal(c.n_present, N_SCANNED);
	assert_int_equal(c.n_rivals, N_SCANNED / 10);
	/* The function may end it. */
	c = (struct scanned){ .n = 2 * N_SCANNED - 20 };
	assert_int_equal(blobs_scan(b, STR("keys/"), STR(""), 100, note_scanned, &c, &err), 1);
	b->ops->close(b);
}

/* ---- what the collector does of these ---- */

static struct store *open_store(struct bucket_fixture *f)
{
	struct store *st = store_open_blobs(open_blobs(f, NULL, NULL), &(struct store_options){ 0 });

	st->settle_ns = 0;
	return st;
}

static void push(struct store *st, const char *text)
{
	const struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .from = STR("a") };
	struct store_key key;
	struct err err = { 0 };
	int r;

	assert_true(store_key_parse(STR("ab/debuginfo"), &key));
	r = store_put_bytes(st, &key, &meta, true, bytes_of(text, strlen(text)), STORE_IF_BETTER, &err);
	assert_int_equal(r, 0);
}

static int hide_others(void *arg, const char *op, const char *name, struct err *err)
{
	return str_starts(str_of(name), STR("keys/")) && strcmp(op, "list") == 0 ? BUCKET_PRETEND : 0;
}

/* Of two that met either may have been acknowledged. */
static void an_old_rival_becomes_an_earlier_version(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store(f), *other;
	struct store_gc_result gc;
	struct err err = { 0 };

	push(st, "one");
	other = store_open_blobs(open_blobs(f, hide_others, NULL), &(struct store_options){ 0 });
	push(other, "two");
	assert_int_equal(count(f, "keys/"), 2);
	assert_done(store_gc(st, NULL, NULL, &gc, &err));
	assert_int_equal(count(f, "keys/"), 2);
	assert_int_equal(gc.n_young, 0);
	clock_test_advance(3600 * 1000);
	assert_done(store_gc(st, NULL, NULL, &gc, &err));
	assert_int_equal(count(f, "keys/"), 1);
	assert_int_equal(count(f, "past/"), 1);
	assert_int_equal(count(f, "data/"), 2);
	store_close(other);
	store_close(st);
}

static int note_name(void *arg, const struct bucket_item *item, struct err *err)
{
	snprintf(arg, BUCKET_NAME_SIZE, "%s", item->name);
	return 0;
}

/* Of the present version, if it has no rival with a higher number. */
static void name_of_last(struct bucket_fixture *f, char ret[BUCKET_NAME_SIZE])
{
	struct err err = { 0 };

	assert_done(f->bucket->ops->list(f->bucket, "keys/", "", note_name, ret, &err));
}

/* @st and *ret_other have written a version each, and the present one is damaged. */
static void damage_rival(struct bucket_fixture *f, struct store *st, struct store **ret_other)
{
	char present[BUCKET_NAME_SIZE];

	push(st, "one");
	*ret_other = store_open_blobs(open_blobs(f, hide_others, NULL), &(struct store_options){ 0 });
	push(*ret_other, "two");
	name_of_last(f, present);
	put_object(f, present, "damaged");
	clock_test_advance(3600 * 1000);
}

/* The one that readers take is damaged: the other one is all that is left, and may be acknowledged. */
static void a_rival_of_a_damaged_version_stays(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store(f), *other;
	struct store_gc_result gc;
	struct err err = { 0 };

	damage_rival(f, st, &other);
	for (unsigned i = 0; i < 2; i++) {
		assert_done(store_gc(st, NULL, NULL, &gc, &err));
		assert_int_equal(gc.n_young, 0);
		assert_int_equal(count(f, "keys/"), 2);
		assert_int_equal(count(f, "data/"), 2);
	}
	/* A push replaces the damaged one; then the other one is an earlier version. */
	push(st, "three");
	clock_test_advance(3600 * 1000);
	assert_done(store_gc(st, NULL, NULL, &gc, &err));
	assert_int_equal(count(f, "keys/"), 1);
	assert_int_equal(count(f, "past/"), 1);
	store_close(other);
	store_close(st);
}

static void verify_and_remove(struct store *st, unsigned n_removed)
{
	struct store_verify_result v;
	struct err err = { 0 };

	assert_done(store_verify(st, &(struct store_verify_options){ .remove = true }, &v, &err));
	assert_int_equal(v.n_removed, n_removed);
}

/* With the damaged one all versions of that object go: the other one may be acknowledged, and is whole. */
static void verify_keeps_the_rival_of_a_damaged_version(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store(f), *other;
	struct store_gc_result gc;
	struct store_key key;
	struct err err = { 0 };

	damage_rival(f, st, &other);
	verify_and_remove(st, 1);
	assert_int_equal(count(f, "keys/"), 0);
	assert_int_equal(count(f, "past/"), 1);
	clock_test_advance(3600 * 1000);
	assert_done(store_gc(st, NULL, NULL, &gc, &err));
	assert_int_equal(count(f, "data/"), 1);
	assert_true(store_key_parse(STR("ab/debuginfo"), &key));
	assert_done(store_restore(st, &key, STR(""), STR("a"), &err));
	store_close(other);
	store_close(st);
}

struct damaged_once {
	struct bucket_fixture *f;
	char name[BUCKET_NAME_SIZE];
	struct buf text; /* heap */
	unsigned n;
};

/* The first read of that object is damaged on its way. */
static int damage_first_read(void *arg, const char *op, const char *name, struct err *err)
{
	struct damaged_once *d = arg;

	if (strcmp(op, "get") != 0 || strcmp(name, d->name) != 0)
		return 0;
	d->text.p[20] ^= d->n < 2;
	put_object(d->f, name, buf_cstr(&d->text));
	d->n++;
	return 0;
}

static int note_first_name(void *arg, const struct bucket_item *item, struct err *err)
{
	snprintf(arg, BUCKET_NAME_SIZE, "%s", item->name);
	return 1;
}

/* It may be acknowledged. */
static void verify_keeps_a_rival_that_is_damaged_on_its_way(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store(f), *other;
	struct damaged_once d = { .f = f };
	struct err err = { 0 };

	push(st, "one");
	other = store_open_blobs(open_blobs(f, hide_others, NULL), &(struct store_options){ 0 });
	push(other, "two");
	assert_int_equal(f->bucket->ops->list(f->bucket, "keys/", "", note_first_name, d.name, &err), 1);
	assert_done(f->bucket->ops->get(f->bucket, d.name, STORE_MAX_RECORD, &d.text, &err));
	clock_test_advance(3600 * 1000);
	store_close(other);
	other = store_open_blobs(open_blobs(f, damage_first_read, &d), &(struct store_options){ 0 });
	verify_and_remove(other, 0);
	assert_true(d.n >= 2);
	assert_int_equal(count(f, "keys/"), 2);
	buf_done(&d.text);
	store_close(other);
	store_close(st);
}

static void damage_object(struct bucket_fixture *f, const char *prefix)
{
	char name[BUCKET_NAME_SIZE];
	struct err err = { 0 };

	assert_done(f->bucket->ops->list(f->bucket, prefix, "", note_name, name, &err));
	put_object(f, name, "bad");
}

/* The same where the content of the present version is damaged. */
static void verify_keeps_the_rival_of_a_version_with_a_damaged_content(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store(f), *other;
	char present[BUCKET_NAME_SIZE], prefix[BUCKET_NAME_SIZE];
	struct version_name v;
	size_t blob;

	push(st, "one");
	other = store_open_blobs(open_blobs(f, hide_others, NULL), &(struct store_options){ 0 });
	push(other, "two");
	name_of_last(f, present);
	assert_true(version_name_read(present, &v, &blob));
	snprintf(prefix, sizeof(prefix), "%s!", v.content);
	damage_object(f, prefix);
	clock_test_advance(3600 * 1000);
	verify_and_remove(st, 1);
	assert_int_equal(count(f, "keys/"), 0);
	assert_int_equal(count(f, "past/"), 1);
	assert_int_equal(count(f, "data/"), 1);
	store_close(other);
	store_close(st);
}

/* Left by a writer that was killed, and damaged since: nobody wants it, nor its content. */
static void a_damaged_version_that_was_replaced_is_removed(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store(f);
	char first[BUCKET_NAME_SIZE];
	struct store_gc_result gc;
	struct err err = { 0 };

	push(st, "one");
	name_of_last(f, first);
	push(st, "two");
	put_object(f, first, "damaged");
	assert_int_equal(count(f, "keys/"), 2);
	clock_test_advance(3600 * 1000);
	assert_done(store_gc(st, NULL, NULL, &gc, &err));
	assert_int_equal(count(f, "keys/"), 1);
	store_close(st);
}

/* ---- ages, by a server with S3's API ---- */

#define PUT_AT INT64_C(1767225600)
#define YEAR   INT64_C(31536000)

/* Listings and the other answers of a server, each with its Date. Objects were put at PUT_AT. */
struct dated_bucket {
	struct fault_http *h;
	struct bucket *bucket;
	struct buf mark, upload; /* listings */
	char headers[2][64];
};

static void listing_of(const char *name, struct buf *out)
{
	buf_printf(out,
		   "<ListBucketResult><Contents><Key>p/%s</Key><Size>1</Size>"
		   "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>",
		   name);
}

static int dated_set_up(void **state)
{
	struct dated_bucket *d = NEW(struct dated_bucket);
	static struct s3_options opts;
	struct err err = { 0 };

	d->h = fault_http_new(&(struct fault_rule){ .status = 500 }, 1);
	setenv("AWS_CONFIG_FILE", "/nonexistent/config", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", 1);
	setenv("AWS_ACCESS_KEY_ID", "AKTEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
	log_set_level(LOG_ERROR);
	opts = (struct s3_options){ .endpoint = fault_http_url(d->h), .hedge_min_ms = 3600000 };
	s3_shared_options(&opts);
	assert_done(bucket_open_s3("s3://b/p", &d->bucket, &err));
	listing_of("dying/ab/" SHA "!000000000010000000000000!0000000000000001", &d->mark);
	listing_of("incoming/0123456789abcdef0123456789abcdef!facts", &d->upload);
	*state = d;
	return 0;
}

static int dated_tear_down(void **state)
{
	struct dated_bucket *d = *state;

	d->bucket->ops->close(d->bucket);
	s3_shared_done();
	fault_http_free(d->h);
	buf_done(&d->mark);
	buf_done(&d->upload);
	clock_test_thaw();
	free(d);
	return 0;
}

/* Of two settings that name the same bucket: notes on the disk name it. */
static void the_place_of_a_bucket_has_server_and_prefix(void **state)
{
	struct dated_bucket *d = *state;
	AUTO(mem_freep) char *here = mem_printf("%s s3://b/p/", fault_http_url(d->h));
	static const char *const amazons[] = { "https://s3.eu-west-1.amazonaws.com",
					       "https://s3.cn-north-1.amazonaws.com.cn" };
	struct bucket *b = NULL;
	struct err err = { 0 };

	assert_string_equal(d->bucket->where, here);
	assert_done(bucket_open_s3("s3://b/p//", &b, &err));
	assert_string_equal(b->where, here);
	b->ops->close(b);
	assert_done(bucket_open_s3("s3://b/two\nlines", &b, &err));
	assert_string_equal(b->where, "");
	b->ops->close(b);
	for (size_t i = 0; i < ARRAY_SIZE(amazons); i++) {
		struct s3_options opts = { .endpoint = amazons[i] };

		s3_shared_done();
		s3_shared_options(&opts);
		assert_done(bucket_open_s3("s3://b", &b, &err));
		assert_string_equal(b->where, "amazon s3://b/");
		b->ops->close(b);
	}
}

static const char *date_header(int64_t date_s, char out[64])
{
	time_t t = (time_t)date_s;
	struct tm tm;

	strftime(out, 64, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&t, &tm));
	return out;
}

/* From now on answers have this Date. @refused_s: the next request is refused, with that one; 0: it is not. */
static void dated_bucket_answer(struct dated_bucket *d, struct bytes listing, int64_t date_s,
				int64_t refused_s)
{
	static const char refusal[] = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
	const char *now = date_header(date_s, d->headers[0]);
	const struct fault_rule rules[] = {
		{ .status = 403,
		  .times = 1,
		  .headers = date_header(refused_s, d->headers[1]),
		  .body = bytes_of(refusal, strlen(refusal)) },
		{ .path = "/b/p/", .status = 204, .headers = now },
		{ .headers = now, .body = listing },
	};

	fault_http_rules(d->h, rules + !refused_s, ARRAY_SIZE(rules) - !refused_s);
}

/* Look for marks and unfinished uploads that are old. Returns how many requests were for one of them, not for listings. */
static unsigned sweep_both(struct dated_bucket *d, int64_t date_s, int64_t refused_s)
{
	struct blob_bucket s = { .bucket = d->bucket };
	struct err err = { 0 };
	uint64_t left;
	unsigned before = fault_http_requests(d->h, "/b/p/");

	dated_bucket_answer(d, buf_bytes(&d->mark), date_s, refused_s);
	assert_done(bucket_sweep(&s, &err));
	dated_bucket_answer(d, buf_bytes(&d->upload), date_s, 0);
	assert_done(bucket_incoming_sweep(d->bucket, &left, &err));
	return fault_http_requests(d->h, "/b/p/") - before;
}

static void nothing_is_swept_by_the_clock_of_this_machine(void **state)
{
	struct dated_bucket *d = *state;

	clock_test_freeze(PUT_AT + YEAR);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(sweep_both(d, PUT_AT + 600, 0), 0);
	clock_test_freeze(PUT_AT + 3 * YEAR);
	assert_int_equal(sweep_both(d, PUT_AT + 600, 0), 0);
	/* The mark is old by the server's clock. */
	clock_test_advance(1200 * 1000);
	assert_int_equal(sweep_both(d, PUT_AT + 1805, 0), 0);
	assert_int_equal(sweep_both(d, PUT_AT + 1805, 0), 1);
}

static void nothing_is_swept_by_an_answer_that_is_a_year_ahead(void **state)
{
	struct dated_bucket *d = *state;

	clock_test_freeze(PUT_AT + 600);
	assert_int_equal(sweep_both(d, PUT_AT + 600 + YEAR, 0), 0);
	assert_int_equal(sweep_both(d, PUT_AT + 600, 0), 0);
	assert_int_equal(sweep_both(d, PUT_AT + 600, PUT_AT + 600 + YEAR), 0);
	assert_int_equal(sweep_both(d, PUT_AT + 600 + YEAR, 0), 0);
	assert_int_equal(sweep_both(d, PUT_AT + 600, 0), 0);
}

#define IN_BUCKET(test)   cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define BY_A_SERVER(test) cmocka_unit_test_setup_teardown(test, dated_set_up, dated_tear_down)

static struct store *open_store_before(struct bucket_fixture *f, bucket_before_fn *before)
{
	return store_open_blobs(open_blobs(f, before, NULL), &(struct store_options){ 0 });
}

static void push_expect(struct store *st, const char *text, int want)
{
	const struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	struct store_key key;
	struct err err = { 0 };

	assert_true(store_key_parse(STR("ab/debuginfo"), &key));
	assert_int_equal(
		store_put_bytes(st, &key, &meta, true, bytes_of(text, strlen(text)), STORE_IF_OWNED, &err),
		want);
}

/* As libcurl without memory, and a server with very long headers. */
static int gets_reach_a_limit(void *arg, const char *op, const char *name, struct err *err)
{
	return strcmp(op, "get") == 0 && str_starts(str_of(name), STR("keys/"))
		       ? err_set(err, ERR_LIMIT, "no memory, or no descriptors")
		       : 0;
}

/* Its content is no garbage, and a push does not take its place. */
static void a_record_that_is_not_read_for_want_of_memory_is_not_damaged(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store_before(f, NULL);
	struct store_gc_result gc;
	struct err err = { 0 };

	push_expect(st, "one", 0);
	store_close(st);
	st = open_store_before(f, gets_reach_a_limit);
	assert_fails(store_gc(st, NULL, NULL, &gc, &err), ERR_LIMIT, "no memory");
	push_expect(st, "two", -1);
	store_close(st);
	st = open_store_before(f, NULL);
	push_expect(st, "one", STORE_SAME);
	store_close(st);
}

static int make_longer(void *arg, const struct bucket_item *item, struct err *err)
{
	static const char text[70000] = "?";
	struct bucket_fixture *f = arg;

	return f->bucket->ops->put(f->bucket, item->name, bytes_of(text, sizeof(text)), err);
}

static void a_record_that_is_too_long_is_damaged(void **state)
{
	struct bucket_fixture *f = *state;
	struct store *st = open_store_before(f, NULL);
	struct store_gc_result gc;
	struct err err = { 0 };

	push_expect(st, "one", 0);
	assert_done(f->bucket->ops->list(f->bucket, "keys/", "", make_longer, f, &err));
	assert_done(store_gc(st, NULL, NULL, &gc, &err));
	push_expect(st, "one", 0);
	push_expect(st, "one", STORE_SAME);
	store_close(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_BUCKET(a_marker_is_not_damaged_for_want_of_memory),
		IN_BUCKET(a_replaced_version_is_removed),
		IN_BUCKET(a_rival_version_stays_until_the_removal),
		IN_BUCKET(a_record_is_not_put_without_its_content),
		IN_BUCKET(what_killed_collectors_leave_is_swept_when_it_is_old),
		IN_BUCKET(a_prefix_with_other_objects_is_refused),
		IN_BUCKET(a_damaged_marker_is_put_again),
		IN_BUCKET(an_object_with_the_name_of_the_marker_is_no_store),
		IN_BUCKET(two_processes_make_a_store_at_once),
		BY_A_SERVER(the_place_of_a_bucket_has_server_and_prefix),
		IN_BUCKET(a_bucket_may_be_away_at_the_start_and_later),
		IN_BUCKET(a_version_without_its_content_is_passed_over),
		IN_BUCKET(a_version_that_is_not_listed_was_not_put),
		IN_BUCKET(an_answer_of_another_length_is_no_record),
		IN_BUCKET(the_mark_of_a_removal_that_failed_stays),
		IN_BUCKET(a_record_that_is_not_read_for_want_of_memory_is_not_damaged),
		IN_BUCKET(a_record_that_is_too_long_is_damaged),
		IN_BUCKET(a_scan_reads_many_at_a_time_in_order),
		IN_BUCKET(an_old_rival_becomes_an_earlier_version),
		IN_BUCKET(a_rival_of_a_damaged_version_stays),
		IN_BUCKET(verify_keeps_the_rival_of_a_damaged_version),
		IN_BUCKET(verify_keeps_the_rival_of_a_version_with_a_damaged_content),
		IN_BUCKET(verify_keeps_a_rival_that_is_damaged_on_its_way),
		IN_BUCKET(a_damaged_version_that_was_replaced_is_removed),
		BY_A_SERVER(nothing_is_swept_by_the_clock_of_this_machine),
		BY_A_SERVER(nothing_is_swept_by_an_answer_that_is_a_year_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
