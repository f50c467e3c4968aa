/* SPDX-License-Identifier: Apache-2.0 */
/* Putting and reading objects, by one thread and by several at once. */
#include <errno.h>
#include <pthread.h>
#include "fixture.h"
#include "store/internal.h"

#define LONG (3 * CODEC_FRAME_SIZE + 12345)

static int put(struct store_fixture *f, const char *key_text, enum store_origin origin,
	       enum store_quality quality, const char *content)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta = { .origin = origin, .quality = quality, .from = str_of(content) };
	struct err err = { 0 };
	int r = store_put_bytes(f->st, &key, &meta, false, bytes_of(content, strlen(content)),
				STORE_IF_BETTER, &err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

/* The content, or "" if the object is missing. */
static const char *get(struct store_fixture *f, const char *key_text, struct store_meta *ret_meta)
{
	struct store_key key = key_of(key_text);
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };
	struct bytes b;
	int r = store_open_object(f->st, &key, &f->arena, ret_meta, &s, &err);

	if (r == STORE_MISSING)
		return "";
	if (r || source_read_arena(s, range_of(0, s->size), MIB(64), &f->arena, &b, &err) < 0)
		fail_msg("%s", err.text);
	return arena_strdup(&f->arena, (struct str){ (const char *)b.p, b.size });
}

static void put_in_chunks(struct store_fixture *f, const char *key_text, bool raw, const uint8_t *p, size_t n)
{
	struct store_put_options opts = { .raw = raw, .size = STORE_SIZE_UNKNOWN };
	struct store_meta meta = { .origin = STORE_FETCHED, .quality = STORE_DWARF, .mtime = 77 };
	struct store_key key = key_of(key_text);
	uint8_t sha256[STORE_SHA256_SIZE];
	struct source *s = NULL;
	struct store_put *put = NULL;
	struct err err = { 0 };
	uint8_t head[4];

	assert_done(store_put_begin(f->st, &opts, &put, &err));
	for (size_t off = 0, chunk = 1; off < n; off += chunk, chunk = MIN(2 * chunk + 7, (size_t)600000)) {
		chunk = MIN(chunk, n - off);
		assert_done(store_put_write(put, bytes_of(p + off, chunk), &err));
	}
	assert_int_equal(store_put_size(put), n);
	assert_done(store_put_end(put, &s, sha256, &err));
	assert_int_equal(s->size, n);
	assert_done(source_read_full(s, n - 4, head, 4, SOURCE_RANDOM, &err));
	assert_memory_equal(head, p + n - 4, 4);
	source_close(s);
	assert_done(store_put_commit(put, &key, &meta, STORE_IF_BETTER, &err));
}

static void assert_reads_anywhere(struct store_fixture *f, const char *key_text, const uint8_t *p, size_t n,
				  bool raw)
{
	struct store_key key = key_of(key_text);
	AUTO(source_closep) struct source *s = NULL;
	uint8_t *got = mem_alloc(n);
	struct store_meta meta;
	struct err err = { 0 };
	uint64_t off = 0;
	int fd;

	assert_done(store_open_object(f->st, &key, &f->arena, &meta, &s, &err));
	assert_int_equal(meta.size, n);
	assert_int_equal(meta.mtime, 77);
	assert_int_equal(s->mtime, 77);
	assert_int_equal(s->size, n);
	assert_int_equal(meta.raw, raw);
	assert_int_equal(source_raw_fd(s, &fd, &off), raw && f->dir[0] && !f->bucket);
	assert_done(source_read_full(s, 0, got, n, SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(got, p, n);
	for (uint64_t i = 0, at = 5; i < 50; i++, at = (at * 1103515245 + 12345) % (n - 1000)) {
		assert_done(source_read_full(s, at, got, 1000, SOURCE_RANDOM, &err));
		assert_memory_equal(got, p + at, 1000);
	}
	free(got);
}

static void a_long_content_is_read_at_any_place(void **state)
{
	struct store_fixture *f = *state;
	uint8_t *p = mem_alloc(LONG);

	test_fill(p, LONG, 1);
	memset(p + 1000, 'x', LONG / 2);
	put_in_chunks(f, "ab/debuginfo", false, p, LONG);
	put_in_chunks(f, "ab/symtab/1", true, p, LONG);
	put_in_chunks(f, "ab/executable", false, p, 2 * CODEC_FRAME_SIZE);
	assert_reads_anywhere(f, "ab/debuginfo", p, LONG, false);
	assert_reads_anywhere(f, "ab/symtab/1", p, LONG, true);
	assert_reads_anywhere(f, "ab/executable", p, 2 * CODEC_FRAME_SIZE, false);
	free(p);
}

static void a_content_is_a_plain_zstd_file(void **state)
{
	struct store_fixture *f = *state;
	AUTO(buf_done) struct buf packed = { 0 }, got = { 0 };
	char path[TEST_PATH_SIZE + 16], name[STORE_CONTENT_NAME_SIZE];
	struct store_meta meta;
	struct err err = { 0 };

	put(f, "ab/source/x.c", STORE_PUSHED, STORE_DWARF, "int main;\n");
	assert_string_equal(get(f, "ab/source/x.c", &meta), "int main;\n");
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, false, name));
	assert_done(file_read(path, MIB(1), &packed, &err));
	assert_int_equal(packed.size, meta.stored_size);
	assert_done(codec_decode_all(CODEC_ZSTD, buf_bytes(&packed), 100, &got, &err));
	assert_str(buf_str(&got), "int main;\n");
}

static void an_empty_content_is_stored(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(put(f, "ab/source/x.c", STORE_PUSHED, STORE_DWARF, ""), 0);
	assert_string_equal(get(f, "ab/source/x.c", &meta), "");
	assert_int_equal(meta.size, 0);
	assert_int_equal(meta.origin, STORE_PUSHED);
}

static void an_object_is_replaced_only_by_a_better_one(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(put(f, "ab/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "symbols"), 0);
	assert_int_equal(put(f, "ab/debuginfo", STORE_PUSHED, STORE_STRIPPED, "stripped"), STORE_KEPT);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "symbols");
	assert_int_equal(put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "dwarf"), 0);
	assert_int_equal(put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "other"), STORE_KEPT);
	assert_int_equal(put(f, "ab/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "symbols"), STORE_KEPT);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "dwarf");
	assert_int_equal(put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "newer"), 0);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "newer");
}

static void the_same_bytes_again_change_only_the_origin(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "x"), 0);
	assert_int_equal(put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "x"), STORE_SAME);
	assert_int_equal(put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "x"), STORE_SAME);
	get(f, "ab/debuginfo", &meta);
	assert_int_equal(meta.origin, STORE_PUSHED);
	assert_int_equal(put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "x"), STORE_SAME);
	get(f, "ab/debuginfo", &meta);
	assert_int_equal(meta.origin, STORE_PUSHED);
}

static void the_same_content_is_stored_once(void **state)
{
	struct store_fixture *f = *state;
	struct store_stats stats;
	struct err err = { 0 };

	put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "x");
	put(f, "cd/debuginfo", STORE_PUSHED, STORE_DWARF, "x");
	put(f, "ab/source/y", STORE_PUSHED, STORE_DWARF, "x");
	put(f, "ab/source/z", STORE_PUSHED, STORE_DWARF, "y");
	assert_done(store_stats(f->st, &stats, &err));
	assert_int_equal(stats.n_objects, 4);
	assert_int_equal(stats.n_contents, 2);
	assert_int_equal(stats.content_size, 4);
}

static void a_put_of_another_size_than_announced_fails(void **state)
{
	struct store_fixture *f = *state;
	struct store_put_options opts = { .size = 5 };
	struct store_key key = key_of("ab/debuginfo");
	struct store_meta meta = { 0 };
	struct store_put *p = NULL;
	struct err err = { 0 };

	assert_done(store_put_begin(f->st, &opts, &p, &err));
	assert_fails(store_put_write(p, bytes_of("123456", 6), &err), ERR_INVALID, "announced");
	assert_done(store_put_write(p, bytes_of("123", 3), &err));
	assert_fails(store_put_commit(p, &key, &meta, STORE_ALWAYS, &err), ERR_INVALID, "ends at 3 of 5");
	assert_int_equal(store_find(f->st, &key, &f->arena, &meta, &err), STORE_MISSING);
}

static int add_object_text(void *arg, const struct store_object *o)
{
	char id[BUILD_ID_HEX_SIZE];

	buf_printf(arg, "%s/%s ", build_id_hex(&o->key.id, id), store_kind_name(o->key.kind));
	return 0;
}

static void the_list_comes_in_pages(void **state)
{
	struct store_fixture *f = *state;
	AUTO(buf_done) struct buf got = { 0 }, next = { 0 };
	struct err err = { 0 };
	int pages = 0;

	put(f, "cd01/debuginfo", STORE_PUSHED, STORE_DWARF, "1");
	put(f, "ab01/executable", STORE_PUSHED, STORE_DWARF, "2");
	put(f, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "3");
	put(f, "ab02/debuginfo", STORE_PUSHED, STORE_DWARF, "4");
	do {
		assert_done(store_list(f->st, &(struct store_range){ STR(""), buf_str(&next), 3 },
				       add_object_text, &got, &next, &err));
		pages++;
	} while (next.size);
	assert_int_equal(pages, 2);
	assert_str(buf_str(&got), "ab01/debuginfo ab01/executable ab02/debuginfo cd01/debuginfo ");
	got.size = 0;
	assert_done(store_list(f->st, &(struct store_range){ STR("ab01"), STR(""), 10 }, add_object_text,
			       &got, &next, &err));
	assert_str(buf_str(&got), "ab01/debuginfo ab01/executable ");
	assert_int_equal(next.size, 0);
	got.size = 0;
	assert_done(store_list(f->st, &(struct store_range){ STR("a"), STR(""), 1 }, add_object_text, &got,
			       &next, &err));
	assert_str(buf_str(&got), "ab01/debuginfo ");
	assert_true(next.size > 0);
}

static void a_removed_object_is_missing(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("ab/debuginfo");
	struct store_meta meta;
	struct err err = { 0 };

	put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "x");
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_int_equal(store_remove(f->st, &key, STR(""), &err), STORE_MISSING);
	assert_int_equal(store_find(f->st, &key, &f->arena, &meta, &err), STORE_MISSING);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "");
}

/* ---- owners ---- */

static int put_as(struct store_fixture *f, const char *owner, const char *content, enum store_policy policy)
{
	struct store_key key = key_of("ab/debuginfo");
	struct store_meta meta = {
		.origin = STORE_PUSHED, .quality = STORE_DWARF, .from = str_of(owner), .owner = str_of(owner)
	};
	struct err err = { 0 };
	int r = store_put_bytes(f->st, &key, &meta, false, bytes_of(content, strlen(content)), policy, &err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

/* "content by owner, ..." of the earlier versions, the oldest first. */
static int add_version_text(void *arg, const struct store_object *o)
{
	assert_true(o->meta.replaced > 0);
	buf_printf(arg, STR_FMT ">" STR_FMT " ", STR_ARG(o->meta.from), STR_ARG(o->meta.replaced_by));
	return 0;
}

static void assert_versions(struct store_fixture *f, const char *want)
{
	AUTO(buf_done) struct buf got = { 0 }, next = { 0 };
	struct err err = { 0 };

	assert_done(store_list(f->st, &(struct store_range){ STR("ab"), STR(""), 100, true },
			       add_version_text, &got, &next, &err));
	assert_str(buf_str(&got), want);
}

static void an_object_is_replaced_by_its_owner_only(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	assert_int_equal(put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "one");
	assert_versions(f, "");
	assert_int_equal(put_as(f, "other", "one", STORE_IF_OWNED), STORE_SAME);
	assert_int_equal(put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	clock_test_advance(1000);
	/* An administrator may, and the object keeps its owner. */
	assert_int_equal(put_as(f, "root", "three", STORE_IF_BETTER), 0);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "three");
	assert_str(store_owner(&meta), "ci");
	assert_str(meta.from, "root");
	clock_test_advance(1000);
	assert_int_equal(put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_int_equal(put_as(f, "ci", "four", STORE_IF_OWNED), 0);
	assert_versions(f, "ci>ci ci>root root>ci ");
}

static void dynamic_symbols_give_way_to_anybody(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DYNSYM, .owner = STR("agent") };
	struct store_key key = key_of("ab/debuginfo");
	struct err err = { 0 };

	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_OWNED, &err));
	meta.owner = STR("other");
	assert_int_equal(store_put_bytes(f->st, &key, &meta, false, bytes_of("two", 3), STORE_IF_OWNED, &err),
			 STORE_OWNED);
	meta.quality = STORE_STRIPPED;
	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("three", 5), STORE_IF_OWNED, &err));
	meta.owner = STR("agent");
	meta.quality = STORE_DYNSYM;
	assert_int_equal(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_OWNED, &err),
			 STORE_KEPT);
}

static void an_object_of_an_older_version_belongs_to_its_pusher(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .from = STR("loopback") };
	struct store_key key = key_of("ab/debuginfo");
	struct err err = { 0 };

	assert_str(store_owner(&meta), "local");
	meta.from = STR("ci");
	assert_str(store_owner(&meta), "ci");
	assert_done(store_put_bytes(f->st, &key, &meta, false, bytes_of("one", 3), STORE_IF_BETTER, &err));
	assert_int_equal(put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_int_equal(put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	meta.origin = STORE_FETCHED;
	assert_str(store_owner(&meta), "");
}

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

	assert_int_equal(put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	touching.under = f->st->blobs->ops;
	touching.ops = *touching.under;
	touching.ops.put_staged = put_staged_and_touch;
	touching.left = 3;
	f->st->blobs->ops = &touching.ops;
	assert_int_equal(put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	f->st->blobs->ops = touching.under;
	assert_int_equal(touching.left, 0);
	assert_versions(f, "ci>ci ");
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

	assert_int_equal(put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	touching.under = f->st->blobs->ops;
	touching.ops = *touching.under;
	touching.ops.touch = touch_of_another_user;
	f->st->blobs->ops = &touching.ops;
	assert_int_equal(put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	f->st->blobs->ops = touching.under;
	assert_string_equal(get(f, "ab/debuginfo", &meta), "one");
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
		assert_int_equal(put_as(f, "ci", texts[i], STORE_IF_OWNED), 0);
		clock_test_advance(60000);
	}
	assert_versions(f, "ci>ci ci>ci ci>ci ");
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_done(store_stats(f->st, &stats, &err));
	assert_int_equal(stats.n_objects, 1);
	assert_int_equal(stats.n_past, 3);
	assert_int_equal(stats.n_contents, 4); /* v0 is gone */
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	assert_string_equal(get(f, "ab/debuginfo", &meta), "v3");
	assert_int_equal(meta.replaced, 0);
	assert_versions(f, "ci>ci ci>ci ci>root ");
	clock_test_advance(60000);
	assert_done(store_remove(f->st, &key, STR("root"), &err));
	assert_string_equal(get(f, "ab/debuginfo", &meta), "");
	assert_done(store_restore(f->st, &key, STR(""), STR("root"), &err));
	assert_string_equal(get(f, "ab/debuginfo", &meta), "v3");
	assert_int_equal(store_restore(f->st, &key, STR("00000000"), STR("root"), &err), STORE_MISSING);
	/* Time removes them, and so does a removal for good. */
	clock_test_advance((STORE_PAST_S + 60) * 1000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_versions(f, "");
	assert_done(store_stats(f->st, &stats, &err));
	assert_int_equal(stats.n_contents, 1);
	assert_int_equal(put_as(f, "ci", "v5", STORE_IF_OWNED), 0);
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_versions(f, "");
}

/* A collector whose walk has read the records; before it reads the earlier versions, one is restored. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
	struct store_fixture *f;
} restoring;

static int list_after_restore(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn,
			      void *arg, struct err *err)
{
	struct store_key key = key_of("ab/debuginfo");

	if (str_eq(prefix, STORE_PAST)) {
		b->ops = restoring.under;
		assert_int_equal(store_restore(restoring.f->st, &key, STR(""), STR("root"), err), 0);
	}
	return restoring.under->list(b, prefix, after, fn, arg, err);
}

static void a_version_that_is_restored_while_garbage_is_collected_stays(void **state)
{
	struct store_fixture *f = *state;
	struct store_gc_result gc;
	struct store_meta meta;
	struct err err = { 0 };

	assert_int_equal(put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	assert_int_equal(put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	restoring.under = f->st->blobs->ops;
	restoring.ops = *restoring.under;
	restoring.ops.list = list_after_restore;
	restoring.f = f;
	f->st->blobs->ops = &restoring.ops;
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_ptr_equal(f->st->blobs->ops, restoring.under);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "one");
	assert_versions(f, "ci>root ");
}

/* ---- records that cannot be read, contents that go ---- */

static int get_unreadable(struct blobs *b, const char *name, size_t max, struct buf *ret,
			  struct blob_stamp *ret_stamp, struct err *err)
{
	return err_os(err, EIO, "%s: read", name);
}

/* Else a worse file would take the place of its object, and a collector its content. */
static void a_record_that_cannot_be_read_is_not_a_missing_one(void **state)
{
	struct store_fixture *f = *state;
	const struct blobs_ops *under = f->st->blobs->ops;
	struct blobs_ops ops = *under;
	struct store_meta meta = { .origin = STORE_FETCHED, .quality = STORE_STRIPPED };
	struct store_key key = key_of("ab/debuginfo");
	struct store_evict_result evicted;
	struct store_gc_result gc;
	struct err err = { 0 };

	assert_int_equal(put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	ops.get = get_unreadable;
	f->st->blobs->ops = &ops;
	assert_fails(store_put_bytes(f->st, &key, &meta, false, bytes_of("poorer", 6), STORE_IF_BETTER, &err),
		     ERR_IO, "read");
	assert_fails(store_gc(f->st, NULL, NULL, &gc, &err), ERR_IO, "read");
	assert_fails(store_evict(f->st, 0, &evicted, &err), ERR_IO, "read");
	f->st->blobs->ops = under;
	assert_string_equal(get(f, "ab/debuginfo", &meta), "one");
	assert_str(store_owner(&meta), "ci");
}

/* A record that takes so long that a collector has removed its content before it saw the record. */
static int put_late(struct blobs *b, const char *name, struct bytes content, const char *needs,
		    const struct blob_stamp *expect, struct err *err)
{
	int r;

	b->ops = restoring.under;
	r = restoring.under->put(b, name, content, needs, expect, err);
	clock_test_advance(60000);
	assert_int_equal(restoring.under->remove(b, needs, NULL, err), 0);
	return r;
}

static void a_content_that_goes_before_its_record_is_seen_is_put_again(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	restoring.under = f->st->blobs->ops;
	restoring.ops = *restoring.under;
	restoring.ops.put = put_late;
	f->st->blobs->ops = &restoring.ops;
	assert_int_equal(put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	assert_ptr_equal(f->st->blobs->ops, restoring.under);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "one");
}

static void earlier_versions_are_evicted_first(void **state)
{
	struct store_fixture *f = *state;
	struct store_evict_result result;
	struct store_meta meta;
	struct store_stats stats;
	struct err err = { 0 };

	put(f, "cd/debuginfo", STORE_FETCHED, STORE_DWARF, "fetched");
	clock_test_advance(60000);
	put_as(f, "ci", "one", STORE_IF_OWNED);
	put_as(f, "ci", "two", STORE_IF_OWNED);
	clock_test_advance(60000);
	assert_done(store_stats(f->st, &stats, &err));
	assert_done(store_evict(f->st, stats.bytes - 1, &result, &err));
	assert_versions(f, "");
	assert_string_equal(get(f, "cd/debuginfo", &meta), "fetched");
	assert_string_equal(get(f, "ab/debuginfo", &meta), "two");
}

/* ---- several threads ---- */

struct racer {
	struct store_fixture *f;
	pthread_t thread;
	enum store_quality quality;
	const char *content;
	int r;
};

static void *put_in_thread(void *arg)
{
	struct racer *racer = arg;

	racer->r = put(racer->f, "ab/debuginfo", STORE_PUSHED, racer->quality, racer->content);
	return NULL;
}

static void concurrent_puts_keep_the_best_object(void **state)
{
	struct racer racers[24];
	struct store_fixture *f = *state;
	struct store_meta meta;

	for (size_t i = 0; i < ARRAY_SIZE(racers); i++) {
		racers[i] = (struct racer){ f, .quality = (enum store_quality)(STORE_STRIPPED + i % 3),
					    .content = (const char *[]){ "stripped", "symbols",
									 "dwarf" }[i % 3] };
		assert_int_equal(pthread_create(&racers[i].thread, NULL, put_in_thread, &racers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(racers); i++)
		pthread_join(racers[i].thread, NULL);
	assert_string_equal(get(f, "ab/debuginfo", &meta), "dwarf");
	assert_int_equal(meta.quality, STORE_DWARF);
}

struct collector {
	struct store_fixture *f;
	pthread_t thread;
	atomic_bool stop;
};

static void *collect_in_thread(void *arg)
{
	struct collector *c = arg;
	struct store_gc_result result;
	struct store *st = NULL;
	struct err err = { 0 };

	/* A store of its own, as in another process. */
	if (store_open(c->f->dir, &(struct store_options){ 0 }, &st, &err) < 0)
		fail_msg("%s", err.text);
	while (!atomic_load(&c->stop))
		if (store_gc(st, NULL, NULL, &result, &err) < 0)
			fail_msg("%s", err.text);
	store_close(st);
	return NULL;
}

/* Contents are removed and put again while another thread collects garbage. */
static void concurrent_gc_removes_no_content_in_use(void **state)
{
	struct collector c = { .f = *state };
	struct store_fixture *f = *state;
	struct err err = { 0 };

	f->st->settle_ns = 20000000;
	assert_int_equal(pthread_create(&c.thread, NULL, collect_in_thread, &c), 0);
	for (unsigned i = 0; i < 300; i++) {
		struct store_key key = key_of(i % 2 ? "ab/debuginfo" : "cd/debuginfo");
		char text[16];
		struct store_meta meta;

		snprintf(text, sizeof(text), "%u", i % 7);
		put(f, i % 2 ? "ab/debuginfo" : "cd/debuginfo", STORE_PUSHED, STORE_DWARF, text);
		assert_string_equal(get(f, i % 2 ? "ab/debuginfo" : "cd/debuginfo", &meta), text);
		if (i % 5 == 0)
			assert_done(store_remove(f->st, &key, STR(""), &err));
		arena_reset(&f->arena);
	}
	atomic_store(&c.stop, true);
	pthread_join(c.thread, NULL);
}

#define FROZEN(test) cmocka_unit_test_setup_teardown(test, set_up_frozen, tear_down)
#define BOTH(test)                                                               \
	cmocka_unit_test_setup_teardown(test, set_up_memory, tear_down),         \
		cmocka_unit_test_setup_teardown(test, set_up_bucket, tear_down), \
		cmocka_unit_test_setup_teardown(test, set_up, tear_down)

struct commit_count {
	unsigned n, n_replaced;
};

static void count_commit(void *arg, const struct store_key *key, const struct store_meta *meta, bool replaced)
{
	struct commit_count *t = arg;

	assert_int_equal(key->kind, STORE_DEBUGINFO);
	assert_true(meta->size > 0);
	t->n++;
	t->n_replaced += replaced;
}

static void the_commit_callback_is_called_for_new_bytes_only(void **state)
{
	struct commit_count count = { 0 };
	struct store_options o = { .committed = count_commit, .committed_arg = &count };
	struct store_fixture f = { .st = store_open_memory(&o) };

	assert_int_equal(put(&f, "aa/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "one"), 0);
	assert_int_equal(count.n, 1);
	assert_int_equal(count.n_replaced, 0);
	assert_int_equal(put(&f, "aa/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "one"), STORE_SAME);
	assert_int_equal(put(&f, "aa/debuginfo", STORE_PUSHED, STORE_STRIPPED, "poorer"), STORE_KEPT);
	assert_int_equal(count.n, 1);
	assert_int_equal(put(&f, "aa/debuginfo", STORE_PUSHED, STORE_DWARF, "better"), 0);
	assert_int_equal(count.n, 2);
	assert_int_equal(count.n_replaced, 1);
	store_close(f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_long_content_is_read_at_any_place),
		cmocka_unit_test_setup_teardown(a_content_is_a_plain_zstd_file, set_up, tear_down),
		BOTH(an_empty_content_is_stored),
		BOTH(an_object_is_replaced_only_by_a_better_one),
		BOTH(the_same_bytes_again_change_only_the_origin),
		BOTH(the_same_content_is_stored_once),
		BOTH(a_put_of_another_size_than_announced_fails),
		BOTH(the_list_comes_in_pages),
		BOTH(a_removed_object_is_missing),
		FROZEN(an_object_is_replaced_by_its_owner_only),
		BOTH(dynamic_symbols_give_way_to_anybody),
		BOTH(an_object_of_an_older_version_belongs_to_its_pusher),
		FROZEN(a_replacement_that_is_tried_again_keeps_one_version),
		FROZEN(contents_that_cannot_be_touched_are_replaced_and_restored),
		FROZEN(earlier_versions_are_kept_and_restored),
		FROZEN(a_version_that_is_restored_while_garbage_is_collected_stays),
		FROZEN(a_record_that_cannot_be_read_is_not_a_missing_one),
		FROZEN(a_content_that_goes_before_its_record_is_seen_is_put_again),
		FROZEN(earlier_versions_are_evicted_first),
		BOTH(concurrent_puts_keep_the_best_object),
		cmocka_unit_test(the_commit_callback_is_called_for_new_bytes_only),
		cmocka_unit_test_setup_teardown(concurrent_gc_removes_no_content_in_use, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
