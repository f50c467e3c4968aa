/* SPDX-License-Identifier: Apache-2.0 */
/* Flipped bytes in every file of a store: the right bytes are read, or an error; and the same bytes, put again, mend it. */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fixture.h"
#include "store/internal.h"

#define SIZE (CODEC_FRAME_SIZE + 54321)
#define KEY  "ab01/debuginfo"

/* In place of libc's: hundreds of syncs take seconds. */
int fsync(int fd)
{
	return 0;
}

static uint8_t bytes[SIZE];
static char found[TEST_PATH_SIZE];
static const char *wanted;

static int find_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_F && strstr(path, wanted))
		snprintf(found, sizeof(found), "%s", path);
	return 0;
}

/* The one file below the store's folder whose path contains @part. */
static const char *file_with(struct store_fixture *f, const char *part)
{
	found[0] = '\0';
	wanted = part;
	nftw(f->dir, find_file, 16, FTW_PHYS);
	assert_true(found[0]);
	return found;
}

/* As a disk does: without changing the file's times. Returns the byte's offset. */
static void flip_byte(const char *path, uint64_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	uint8_t b;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	at %= (uint64_t)st.st_size;
	assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
	b ^= 0x10;
	assert_int_equal(pwrite(fd, &b, 1, (off_t)at), 1);
	assert_int_equal(futimens(fd, (struct timespec[2]){ st.st_atim, st.st_mtim }), 0);
	close(fd);
}

static int put_bytes(struct store_fixture *f, enum store_origin origin, bool raw)
{
	struct store_key key = key_of(KEY);
	struct store_meta meta = { .origin = origin, .quality = STORE_DWARF };
	struct err err = { 0 };
	int r = store_put_bytes(f->st, &key, &meta, raw, bytes_of(bytes, sizeof(bytes)), STORE_IF_BETTER,
				&err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

enum read_result { READ_RIGHT, READ_MISSING, READ_DAMAGED };

static enum read_result read_back(struct store_fixture *f)
{
	struct store_key key = key_of(KEY);
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };
	struct bytes b;
	int r = store_open_object(f->st, &key, &f->arena, NULL, &s, &err);

	if (r == STORE_MISSING)
		return READ_MISSING;
	if (r < 0 || source_read_arena(s, range_of(0, s->size), MIB(8), &f->arena, &b, &err) < 0) {
		assert_int_equal(err.kind, ERR_INVALID);
		return READ_DAMAGED;
	}
	assert_int_equal(b.size, sizeof(bytes));
	assert_memory_equal(b.p, bytes, sizeof(bytes));
	return READ_RIGHT;
}

static bool is_same(struct store_fixture *f, enum store_sureness how)
{
	struct store_key key = key_of(KEY);
	struct store_meta meta;
	struct err err = { 0 };

	return store_find_sure(f->st, &key, how, &f->arena, &meta, &err) == 0;
}

static void flip_many(struct store_fixture *f, const char *part, bool raw, enum store_origin origin)
{
	static const struct store_options opts = { 0 };

	for (uint64_t i = 0; i < 48; i++) {
		enum read_result got;
		struct stat st;

		assert_true(put_bytes(f, origin, raw) >= 0);
		reopen(f, &opts);
		assert_int_equal(read_back(f), READ_RIGHT);
		reopen(f, &opts);
		assert_int_equal(stat(file_with(f, part), &st), 0);
		/* The first and the last bytes, and some between. */
		flip_byte(found, i < 16 ? i : i < 32 ? (uint64_t)st.st_size - 1 - (i - 16) : i * 7919);
		/* In turns: a read finds the damage, or a question of a client that wants to push. */
		if (i % 2)
			assert_true(!is_same(f, STORE_WHOLE) || read_back(f) == READ_RIGHT);
		got = read_back(f);
		if (got == READ_DAMAGED) {
			assert_false(is_same(f, STORE_AS_KNOWN));
			assert_false(is_same(f, STORE_ON_DISK));
		}
		if (origin != STORE_PUSHED && got == READ_DAMAGED && strcmp(part, "/data/") == 0)
			assert_int_equal(read_back(f), READ_MISSING);
		assert_true(put_bytes(f, origin, raw) >= 0);
		assert_int_equal(read_back(f), READ_RIGHT);
		reopen(f, &opts);
		assert_int_equal(read_back(f), READ_RIGHT);
		arena_reset(&f->arena);
	}
}

static void a_flipped_byte_of_a_content_is_found_and_mended(void **state)
{
	flip_many(*state, "/data/", false, STORE_PUSHED);
}

static void a_flipped_byte_of_a_raw_content_is_found_and_mended(void **state)
{
	flip_many(*state, "/data/", true, STORE_PUSHED);
}

static void a_damaged_fetched_object_is_removed(void **state)
{
	flip_many(*state, "/data/", true, STORE_FETCHED);
	flip_many(*state, "/data/", false, STORE_FETCHED);
}

static void count_commit(void *arg, const struct store_key *key, const struct store_meta *meta, bool replaced)
{
	assert_false(replaced);
	++*(unsigned *)arg;
}

/* Another writer replaces the damaged object while a push mends it. */
static struct {
	struct store_fixture *f;
	struct blobs_ops ops;
	const struct blobs_ops *under;
	unsigned n_new, n_replaced;
} racing;

static int put_staged_and_lose(struct blobs *b, const char *name, struct staging *s, bool keep,
			       struct err *err)
{
	int r = racing.under->put_staged(b, name, s, keep, err);
	struct store_key key = key_of(KEY);
	const struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };

	racing.f->st->blobs->ops = racing.under;
	assert_int_equal(
		store_put_bytes(racing.f->st, &key, &meta, true, bytes_of("other", 5), STORE_ALWAYS, err), 0);
	return r;
}

static void note_commit(void *arg, const struct store_key *key, const struct store_meta *meta, bool replaced)
{
	*(replaced ? &racing.n_replaced : &racing.n_new) += 1;
}

/* What readers made of the other bytes is of no use. */
static void a_push_that_mends_and_then_replaces_is_reported_as_replacing(void **state)
{
	struct store_fixture *f = *state;
	const struct store_options o = { .committed = note_commit };

	reopen(f, &o);
	assert_int_equal(put_bytes(f, STORE_PUSHED, true), 0);
	assert_int_equal(racing.n_new, 1);
	flip_byte(file_with(f, "data/"), 1000);
	reopen(f, &o);
	racing.f = f;
	racing.under = f->st->blobs->ops;
	racing.ops = *racing.under;
	racing.ops.put_staged = put_staged_and_lose;
	f->st->blobs->ops = &racing.ops;
	assert_int_equal(put_bytes(f, STORE_PUSHED, true), 0);
	assert_int_equal(racing.n_new, 1);
	assert_int_equal(racing.n_replaced, 2); /* by the other writer, and of its bytes */
	assert_int_equal(read_back(f), READ_RIGHT);
}

/* Readers that failed on the damaged content, such as the builder of its symbol table, have to be notified. */
static void a_push_that_mends_a_content_is_reported_as_committed(void **state)
{
	struct store_fixture *f = *state;
	unsigned n = 0;
	const struct store_options o = { .committed = count_commit, .committed_arg = &n };

	reopen(f, &o);
	assert_int_equal(put_bytes(f, STORE_PUSHED, true), 0);
	assert_int_equal(put_bytes(f, STORE_PUSHED, true), STORE_SAME);
	assert_int_equal(n, 1);
	flip_byte(file_with(f, "data/"), 1000);
	reopen(f, &o);
	assert_int_equal(put_bytes(f, STORE_PUSHED, true), STORE_SAME);
	assert_int_equal(n, 2);
	assert_int_equal(put_bytes(f, STORE_PUSHED, true), STORE_SAME);
	assert_int_equal(n, 2);
}

/* A pushed object that is here is not said to be absent, which clients remember. */
static void a_content_that_vanished_is_damage_of_a_pushed_object(void **state)
{
	static const enum store_origin origins[] = { STORE_FETCHED, STORE_PUSHED };
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
		assert_true(put_bytes(f, origins[i], false) >= 0);
		assert_int_equal(read_back(f), READ_RIGHT);
		assert_int_equal(unlink(file_with(f, "/data/")), 0);
		assert_int_equal(read_back(f), origins[i] == STORE_PUSHED ? READ_DAMAGED : READ_MISSING);
		assert_false(is_same(f, STORE_AS_KNOWN));
		assert_true(put_bytes(f, origins[i], false) >= 0);
		assert_int_equal(read_back(f), READ_RIGHT);
		assert_done(store_remove(f->st, &key, STR(""), &err));
		assert_int_equal(read_back(f), READ_MISSING);
	}
}

static void a_flipped_byte_of_a_record_is_found_and_mended(void **state)
{
	flip_many(*state, "/keys/", false, STORE_PUSHED);
}

/* As of a file that was appended to, or of another program. */
static void a_record_that_is_too_long_is_damaged_and_mended(void **state)
{
	static const char tail[70000] = "?";
	struct store_fixture *f = *state;
	const struct store_verify_options verify = { .remove = false };
	struct store_evict_result evicted;
	struct store_verify_result checked;
	struct store_gc_result gc;
	struct err err = { 0 };
	int fd;

	assert_true(put_bytes(f, STORE_PUSHED, false) >= 0);
	fd = open(file_with(f, "/keys/"), O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(fd >= 0 && write(fd, tail, sizeof(tail)) == sizeof(tail));
	close(fd);
	assert_int_equal(read_back(f), READ_DAMAGED);
	assert_done(store_verify(f->st, &verify, &checked, &err));
	assert_int_equal(checked.n_bad, 1);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_done(store_evict(f->st, UINT64_MAX, &evicted, &err));
	assert_true(put_bytes(f, STORE_PUSHED, false) >= 0);
	assert_int_equal(read_back(f), READ_RIGHT);
}

static void the_background_check_finds_damage(void **state)
{
	static const enum store_origin origins[] = { STORE_PUSHED, STORE_MADE };
	struct store_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
		struct store_key key = key_of(KEY);
		struct err err = { 0 };
		uint64_t n_bad;

		assert_true(put_bytes(f, origins[i], true) >= 0);
		/* Known to be whole; the check reads it all the same. */
		flip_byte(file_with(f, "/data/"), 1234);
		assert_done(scrub_pass(f->st, NULL, NULL, &n_bad, &err));
		assert_int_equal(n_bad, 1);
		assert_false(is_same(f, STORE_AS_KNOWN));
		assert_int_equal(read_back(f), origins[i] == STORE_PUSHED ? READ_DAMAGED : READ_MISSING);
		assert_int_equal(put_bytes(f, origins[i], true), origins[i] == STORE_PUSHED ? STORE_SAME : 0);
		assert_int_equal(read_back(f), READ_RIGHT);
		assert_done(scrub_pass(f->st, NULL, NULL, &n_bad, &err));
		assert_int_equal(n_bad, 0);
		assert_done(store_remove(f->st, &key, STR(""), &err));
	}
}

/* A push keeps its content raw at first; its compressed form may exist, damaged. */
static void a_damaged_compressed_content_is_made_anew(void **state)
{
	struct store_fixture *f = *state;
	struct store_key other = key_of("ab02/debuginfo");
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	const struct store_put_options opts = { .later = true, .size = sizeof(bytes) };
	struct store_put *p = NULL;
	struct err err = { 0 };
	uint64_t freed;

	assert_true(put_bytes(f, STORE_PUSHED, false) >= 0);
	reopen(f, &(struct store_options){ 0 });
	flip_byte(file_with(f, "/data/"), 999);
	assert_done(store_put_begin(f->st, &opts, &p, &err));
	assert_done(store_put_write(p, bytes_of(bytes, sizeof(bytes)), &err));
	assert_done(store_put_commit(p, &other, &meta, STORE_IF_BETTER, &err));
	assert_done(pack_record(f->st, "keys/ab/ab02.debuginfo", NULL, NULL, &freed, &err));
	assert_int_equal(read_back(f), READ_RIGHT);
}

/* ---- a lack of memory ---- */

static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
} poor;

/* As that of a bucket without memory for the bytes. */
static int poor_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		     size_t *ret_got, struct err *err)
{
	return err_set(err, ERR_LIMIT, "no memory for %zu bytes", n);
}

static void poor_close(struct source *s)
{
	source_fini(s);
	free(s);
}

static int poor_open(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	static const struct source_ops ops = { .read = poor_read, .close = poor_close };
	struct blob_stamp there;
	int r = poor.under->stat(b, name, &there, err);

	if (r)
		return r;
	*ret = NEW(struct source);
	source_init(*ret, &ops, there.size, 0, name);
	return 0;
}

static int poor_get(struct blobs *b, const char *name, size_t max, struct buf *ret,
		    struct blob_stamp *ret_stamp, struct err *err)
{
	return err_set(err, ERR_LIMIT, "no memory for %s", name);
}

static void memory_is_short(struct store_fixture *f, bool is_short)
{
	if (is_short) {
		poor.under = f->st->blobs->ops;
		poor.ops = *poor.under;
		poor.ops.open = poor_open;
	}
	f->st->blobs->ops = is_short ? &poor.ops : poor.under;
}

static void a_content_is_not_damaged_for_want_of_memory(void **state)
{
	static const enum store_origin origins[] = { STORE_FETCHED, STORE_PUSHED };
	const struct store_verify_options remove = { .remove = true };
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct store_verify_result v;
	struct source *s = NULL;
	struct err err = { 0 };
	uint64_t n;

	for (size_t i = 0; i < ARRAY_SIZE(origins); i++) {
		assert_true(put_bytes(f, origins[i], false) >= 0);
		reopen(f, &(struct store_options){ 0 });
		memory_is_short(f, true);
		assert_fails(store_open_object(f->st, &key, &f->arena, NULL, &s, &err), ERR_LIMIT,
			     "no memory");
		assert_fails(store_verify(f->st, &remove, &v, &err), ERR_LIMIT, "no memory");
		assert_fails(scrub_pass(f->st, NULL, NULL, &n, &err), ERR_LIMIT, "no memory");
		memory_is_short(f, false);
		assert_int_equal(read_back(f), READ_RIGHT);
		assert_true(is_same(f, STORE_ON_DISK));
	}
}

/*
 * The head of a frame may then want a window of gigabytes, which is no want of memory: the check has an end, and a push of the
 * same bytes puts them again.
 */
static void each_flipped_bit_of_a_small_content_is_damage(void **state)
{
	const struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct store_verify_result v;
	struct stat there;
	uint64_t n_bad;

	memset(bytes, 'x', 200);
	for (unsigned bit = 0;; bit++) {
		struct err err = { 0 };
		uint8_t b;
		int fd, r;

		r = store_put_bytes(f->st, &key, &meta, false, bytes_of(bytes, 200), STORE_IF_BETTER, &err);
		if (r < 0)
			fail_msg("bit %u: %s", bit - 1, err.text);
		reopen(f, &(struct store_options){ 0 });
		fd = open(file_with(f, "/data/"), O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0 && fstat(fd, &there) == 0);
		if (bit / 8 == there.st_size) {
			close(fd);
			return;
		}
		assert_int_equal(pread(fd, &b, 1, bit / 8), 1);
		b ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(pwrite(fd, &b, 1, bit / 8), 1);
		assert_int_equal(futimens(fd, (struct timespec[2]){ there.st_atim, there.st_mtim }), 0);
		close(fd);
		if (store_verify(f->st, &(struct store_verify_options){ 0 }, &v, &err) < 0 ||
		    scrub_pass(f->st, NULL, NULL, &n_bad, &err) < 0)
			fail_msg("bit %u: %s", bit, err.text);
	}
}

/* It would be removed without an earlier version. */
static void an_object_is_not_removed_for_want_of_memory(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of(KEY);
	struct err err = { 0 };

	assert_int_equal(put_bytes(f, STORE_PUSHED, false), 0);
	memory_is_short(f, true);
	poor.ops.get = poor_get;
	assert_fails(store_remove(f->st, &key, STR("ci"), &err), ERR_LIMIT, "no memory");
	memory_is_short(f, false);
	assert_int_equal(read_back(f), READ_RIGHT);
	/* A damaged record is removed. */
	flip_byte(file_with(f, "/keys/"), 100);
	assert_done(store_remove(f->st, &key, STR("ci"), &err));
	assert_int_equal(read_back(f), READ_MISSING);
}

static int set_up_bytes(void **state)
{
	/* Compressible, so that both forms are on disk. */
	for (size_t i = 0; i < sizeof(bytes); i += 1024)
		test_fill(bytes + i, MIN(sizeof(bytes) - i, (size_t)300), i);
	return set_up(state);
}

#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, set_up_bytes, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_DISK(a_flipped_byte_of_a_content_is_found_and_mended),
		ON_DISK(each_flipped_bit_of_a_small_content_is_damage),
		ON_DISK(a_flipped_byte_of_a_raw_content_is_found_and_mended),
		ON_DISK(a_damaged_fetched_object_is_removed),
		ON_DISK(a_content_that_vanished_is_damage_of_a_pushed_object),
		ON_DISK(a_push_that_mends_a_content_is_reported_as_committed),
		ON_DISK(a_push_that_mends_and_then_replaces_is_reported_as_replacing),
		ON_DISK(a_flipped_byte_of_a_record_is_found_and_mended),
		ON_DISK(a_record_that_is_too_long_is_damaged_and_mended),
		ON_DISK(the_background_check_finds_damage),
		ON_DISK(a_damaged_compressed_content_is_made_anew),
		ON_DISK(a_content_is_not_damaged_for_want_of_memory),
		ON_DISK(an_object_is_not_removed_for_want_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
