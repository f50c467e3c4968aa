/* SPDX-License-Identifier: Apache-2.0 */
/* Putting, reading, listing and removing objects. */
#include "fixture.h"

#include <errno.h>
#include <unistd.h>
#include "store/internal.h"

#define LONG (3 * CODEC_FRAME_SIZE + 12345)

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

	text_put(f, "ab/source/x.c", STORE_PUSHED, STORE_DWARF, "int main;\n");
	assert_string_equal(text_get(f, "ab/source/x.c", &meta), "int main;\n");
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

	assert_int_equal(text_put(f, "ab/source/x.c", STORE_PUSHED, STORE_DWARF, ""), 0);
	assert_string_equal(text_get(f, "ab/source/x.c", &meta), "");
	assert_int_equal(meta.size, 0);
	assert_int_equal(meta.origin, STORE_PUSHED);
}

static void an_object_is_replaced_only_by_a_better_one(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "symbols"), 0);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_STRIPPED, "stripped"), STORE_KEPT);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "symbols");
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "dwarf"), 0);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "other"), STORE_KEPT);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "symbols"), STORE_KEPT);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "dwarf");
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "newer"), 0);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "newer");
}

static void the_same_bytes_again_change_only_the_origin(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	assert_int_equal(text_put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "x"), 0);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "x"), STORE_SAME);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "x"), STORE_SAME);
	text_get(f, "ab/debuginfo", &meta);
	assert_int_equal(meta.origin, STORE_PUSHED);
	assert_int_equal(text_put(f, "ab/debuginfo", STORE_FETCHED, STORE_DWARF, "x"), STORE_SAME);
	text_get(f, "ab/debuginfo", &meta);
	assert_int_equal(meta.origin, STORE_PUSHED);
}

static void the_same_content_is_stored_once(void **state)
{
	struct store_fixture *f = *state;
	struct store_stats stats;
	struct err err = { 0 };

	text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "x");
	text_put(f, "cd/debuginfo", STORE_PUSHED, STORE_DWARF, "x");
	text_put(f, "ab/source/y", STORE_PUSHED, STORE_DWARF, "x");
	text_put(f, "ab/source/z", STORE_PUSHED, STORE_DWARF, "y");
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

	text_put(f, "cd01/debuginfo", STORE_PUSHED, STORE_DWARF, "1");
	text_put(f, "ab01/executable", STORE_PUSHED, STORE_DWARF, "2");
	text_put(f, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "3");
	text_put(f, "ab02/debuginfo", STORE_PUSHED, STORE_DWARF, "4");
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

	text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "x");
	assert_done(store_remove(f->st, &key, STR(""), &err));
	assert_int_equal(store_remove(f->st, &key, STR(""), &err), STORE_MISSING);
	assert_int_equal(store_find(f->st, &key, &f->arena, &meta, &err), STORE_MISSING);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "");
}

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

	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	ops.get = get_unreadable;
	f->st->blobs->ops = &ops;
	assert_fails(store_put_bytes(f->st, &key, &meta, false, bytes_of("poorer", 6), STORE_IF_BETTER, &err),
		     ERR_IO, "read");
	assert_fails(store_gc(f->st, NULL, NULL, &gc, &err), ERR_IO, "read");
	assert_fails(store_evict(f->st, 0, &evicted, &err), ERR_IO, "read");
	f->st->blobs->ops = under;
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "one");
	assert_str(store_owner(&meta), "ci");
}

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

	assert_int_equal(text_put(&f, "aa/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "one"), 0);
	assert_int_equal(count.n, 1);
	assert_int_equal(count.n_replaced, 0);
	assert_int_equal(text_put(&f, "aa/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "one"), STORE_SAME);
	assert_int_equal(text_put(&f, "aa/debuginfo", STORE_PUSHED, STORE_STRIPPED, "poorer"), STORE_KEPT);
	assert_int_equal(count.n, 1);
	assert_int_equal(text_put(&f, "aa/debuginfo", STORE_PUSHED, STORE_DWARF, "better"), 0);
	assert_int_equal(count.n, 2);
	assert_int_equal(count.n_replaced, 1);
	store_close(f.st);
}

/* Compressible, and by much better at a higher level. */
static const char *long_text(struct store_fixture *f)
{
	char *text = arena_alloc(&f->arena, LONG + 1);

	for (size_t i = 0; i < LONG; i++)
		text[i] = (char)('a' + (i * i / 7 + i / 1000 * 31) % 23);
	text[LONG] = '\0';
	return text;
}

static void assert_found(struct store_fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta;
	struct err err = { 0 };

	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	assert_done(store_find_sure(f->st, &key, STORE_ON_DISK, &f->arena, &meta, &err));
	assert_done(store_find_sure(f->st, &key, STORE_WHOLE, &f->arena, &meta, &err));
}

/* Put "cd/debuginfo" with the same bytes as another version of libzstd would compress them. */
static void put_in_another_size(struct store_fixture *f, const char *text)
{
	struct store_meta meta,
		other = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .owner = STR("other") };
	struct store_key key = key_of("ab/debuginfo");
	struct err err = { 0 };

	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	key = key_of("cd/debuginfo");
	f->st->opts.level = 19;
	assert_done(store_put_bytes(f->st, &key, &other, false, bytes_of(text, strlen(text)), STORE_IF_OWNED,
				    &err));
	f->st->opts.level = STORE_LEVEL;
	assert_done(store_find(f->st, &key, &f->arena, &other, &err));
	assert_int_not_equal(meta.stored_size, other.stored_size);
}

static void a_content_of_another_size_is_that_of_its_records(void **state)
{
	struct store_fixture *f = *state;
	const char *text = long_text(f);

	assert_int_equal(text_put_as(f, "ci", text, STORE_IF_OWNED), 0);
	put_in_another_size(f, text);
	assert_found(f, "ab/debuginfo");
	assert_found(f, "cd/debuginfo");
	/* The object has its owner still. */
	assert_int_equal(text_put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	assert_int_equal(text_put_as(f, "ci", text, STORE_IF_OWNED), STORE_SAME);
	assert_found(f, "cd/debuginfo");
}

static int open_of_no_content(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	return err_os(err, EMFILE, "%s: open", name);
}

static int open_on_bad_sector(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	return err_os(err, EIO, "%s: open", name);
}

/* A content of another size that was not read yet, and cannot be read now. */
static void an_object_whose_content_cannot_be_read_has_its_owner(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .owner = STR("other") };
	struct store_key key = key_of("ab/debuginfo");
	const char *text = long_text(f);
	const struct blobs_ops *under;
	struct blobs_ops ops;
	struct blob_stamp stamp;
	char name[STORE_CONTENT_NAME_SIZE];
	struct err err = { 0 };

	assert_int_equal(text_put_as(f, "ci", text, STORE_IF_OWNED), 0);
	put_in_another_size(f, text);
	reopen(f, &(struct store_options){ 0 });
	under = f->st->blobs->ops;
	ops = *under;
	f->st->blobs->ops = &ops;
	ops.open = open_of_no_content;
	assert_fails(store_put_bytes(f->st, &key, &meta, false, bytes_of("evil", 4), STORE_IF_OWNED, &err),
		     ERR_LIMIT, "open");
	ops.open = open_on_bad_sector;
	assert_int_equal(text_put_as(f, "other", "evil", STORE_IF_OWNED), STORE_OWNED);
	/* The same bytes take its place. */
	assert_true(text_put_as(f, "ci", text, STORE_IF_OWNED) >= 0);
	f->st->blobs->ops = under;
	assert_found(f, "ab/debuginfo");
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	store_content_name(meta.sha256, meta.raw, name);
	assert_done(under->stat(f->st->blobs, name, &stamp, &err));
	assert_int_equal(stamp.size, meta.stored_size);
}

static void a_content_that_is_cut_off_is_missing(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("ab/debuginfo");
	char name[STORE_CONTENT_NAME_SIZE];
	AUTO(mem_freep) char *path = NULL;
	const char *text = long_text(f);
	struct store_meta meta;
	struct err err = { 0 };

	assert_int_equal(text_put_as(f, "ci", text, STORE_IF_OWNED), 0);
	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	path = mem_printf("%s/%s", f->dir, store_content_name(meta.sha256, false, name));
	assert_int_equal(truncate(path, (off_t)meta.stored_size - 1), 0);
	assert_int_equal(store_find_sure(f->st, &key, STORE_AS_KNOWN, &f->arena, &meta, &err), STORE_UNSURE);
	assert_int_equal(store_find_sure(f->st, &key, STORE_ON_DISK, &f->arena, &meta, &err), STORE_UNSURE);
	/* It was read for that. */
	assert_int_equal(store_find(f->st, &key, &f->arena, &meta, &err), STORE_MISSING);
	assert_true(text_put_as(f, "ci", text, STORE_IF_OWNED) >= 0);
	assert_found(f, "ab/debuginfo");
}

/* The way from the bucket changes the decoded size of the last frame, in the table, so many times. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
	unsigned n_left;
} noisy;

static int open_over_noise(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	AUTO(source_closep) struct source *s = NULL;
	uint8_t *p;
	int r = noisy.under->open(b, name, &s, err);

	if (r)
		return r;
	p = mem_alloc(s->size);
	if (source_read_full(s, 0, p, s->size, SOURCE_RANDOM, err) < 0) {
		free(p);
		return -1;
	}
	if (noisy.n_left && noisy.n_left--)
		p[s->size - 9 - 4] ^= 0x10;
	*ret = source_of_heap(p, s->size, name);
	return 0;
}

static void a_size_that_was_damaged_on_its_way_is_read_again(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("ab/debuginfo");
	struct source *s = NULL;
	struct err err = { 0 };

	text_put(f, "ab/debuginfo", STORE_PUSHED, STORE_DWARF, "one");
	noisy.under = f->st->blobs->ops;
	noisy.ops = *noisy.under;
	noisy.ops.open = open_over_noise;
	f->st->blobs->ops = &noisy.ops;
	noisy.n_left = CONTENT_FAR_TRIES - 1;
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "one");
	assert_int_equal(noisy.n_left, 0);
	noisy.n_left = CONTENT_FAR_TRIES;
	assert_fails(store_open_object(f->st, &key, &f->arena, NULL, &s, &err), ERR_INVALID,
		     "has 19 bytes, the record says 3");
	assert_string_equal(text_get(f, "ab/debuginfo", NULL), "one");
	f->st->blobs->ops = noisy.under;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_EACH(a_long_content_is_read_at_any_place),
		cmocka_unit_test_setup_teardown(a_content_is_a_plain_zstd_file, set_up, tear_down),
		IN_EACH(an_empty_content_is_stored),
		cmocka_unit_test_setup_teardown(a_size_that_was_damaged_on_its_way_is_read_again,
						set_up_bucket, tear_down),
		IN_EACH(an_object_is_replaced_only_by_a_better_one),
		IN_EACH(the_same_bytes_again_change_only_the_origin),
		IN_EACH(the_same_content_is_stored_once),
		IN_EACH(a_put_of_another_size_than_announced_fails),
		IN_EACH(the_list_comes_in_pages),
		IN_EACH(a_removed_object_is_missing),
		IN_EACH(a_content_of_another_size_is_that_of_its_records),
		cmocka_unit_test_setup_teardown(an_object_whose_content_cannot_be_read_has_its_owner, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_content_that_is_cut_off_is_missing, set_up, tear_down),
		FROZEN(a_record_that_cannot_be_read_is_not_a_missing_one),
		cmocka_unit_test(the_commit_callback_is_called_for_new_bytes_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
