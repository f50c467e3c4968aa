/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are stored raw and compressed later. */
#include "fixture.h"

#include <sys/wait.h>
#include <unistd.h>
#include "store/internal.h"

#define LONG (3 * CODEC_FRAME_SIZE + 12345)

/* Fill @p with compressible bytes, or with noise. */
static void fill_content(uint8_t *p, bool noise, unsigned seed)
{
	if (noise)
		test_fill(p, LONG, seed);
	else
		for (size_t i = 0; i < LONG; i++)
			p[i] = (uint8_t)((i / 7 + seed) % 50);
}

static int put(struct store_fixture *f, const char *key_text, bool later, bool noise, unsigned seed)
{
	const struct store_put_options opts = { .later = later, .size = LONG };
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .from = STR("ci") };
	AUTO(mem_freep) uint8_t *p = mem_alloc(LONG);
	struct store_key key = key_of(key_text);
	struct store_put *put = NULL;
	struct err err = { 0 };
	int r;

	fill_content(p, noise, seed);
	assert_done(store_put_begin(f->st, &opts, &put, &err));
	assert_done(store_put_write(put, bytes_of(p, LONG), &err));
	r = store_put_commit(put, &key, &meta, STORE_IF_BETTER, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

/* Check that the object has the bytes that were put. Returns its metadata. */
static struct store_meta assert_content(struct store_fixture *f, const char *key_text, bool noise,
					unsigned seed)
{
	AUTO(mem_freep) uint8_t *want = mem_alloc(LONG), *got = mem_alloc(LONG);
	struct store_key key = key_of(key_text);
	AUTO(source_closep) struct source *s = NULL;
	struct store_meta meta;
	struct err err = { 0 };

	fill_content(want, noise, seed);
	assert_done(store_open_object(f->st, &key, &f->arena, &meta, &s, &err));
	assert_int_equal(s->size, LONG);
	assert_done(source_read_full(s, 0, got, LONG, SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(got, want, LONG);
	assert_str(meta.from, "ci");
	return meta;
}

static int pack(struct store_fixture *f, const char *key_text, uint64_t *ret_freed)
{
	AUTO(buf_done) struct buf name = { 0 };
	struct store_key key = key_of(key_text);
	struct err err = { 0 };
	int r;

	store_record_name(&key, &name);
	r = pack_record(f->st, buf_cstr(&name), NULL, NULL, ret_freed, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

static struct store_stats stats_of(struct store_fixture *f)
{
	struct store_stats stats;
	struct err err = { 0 };

	assert_done(store_stats(f->st, &stats, &err));
	return stats;
}

static void assert_collected(struct store_fixture *f, uint64_t n)
{
	struct store_gc_result gc;
	struct err err = { 0 };

	clock_test_advance(10000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_contents, n);
}

static void a_raw_object_is_compressed_later(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;
	uint64_t freed = 0;
	int64_t created;

	assert_int_equal(put(f, "ab/debuginfo", true, false, 1), 0);
	meta = assert_content(f, "ab/debuginfo", false, 1);
	assert_true(meta.raw && meta.later && meta.stored_size == LONG);
	created = meta.created;
	clock_test_advance(10000);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_int_equal(freed, LONG);
	meta = assert_content(f, "ab/debuginfo", false, 1);
	assert_true(!meta.raw && !meta.later && meta.stored_size < LONG / 2);
	assert_int_equal(meta.created, created);
	assert_collected(f, 1);
	assert_content(f, "ab/debuginfo", false, 1);
	assert_int_equal(stats_of(f).bytes, meta.stored_size);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), PACK_NOTHING);
	assert_int_equal(pack(f, "cd/debuginfo", &freed), PACK_NOTHING);
}

static void an_incompressible_object_stays_raw(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;
	uint64_t freed = 5;

	put(f, "ab/debuginfo", true, true, 1);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_int_equal(freed, 0);
	meta = assert_content(f, "ab/debuginfo", true, 1);
	assert_true(meta.raw && !meta.later);
	assert_int_equal(stats_of(f).n_contents, 1);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), PACK_NOTHING);
	assert_int_equal(put(f, "ab/debuginfo", true, true, 1), STORE_SAME);
	assert_false(assert_content(f, "ab/debuginfo", true, 1).later);
}

static void records_of_one_content_share_its_compressed_form(void **state)
{
	struct store_fixture *f = *state;
	uint64_t freed;

	put(f, "ab/debuginfo", true, false, 1);
	put(f, "ab/executable", true, false, 1);
	put(f, "cd/debuginfo", false, false, 1);
	assert_int_equal(stats_of(f).n_contents, 2);
	/* The store has these bytes already, raw and compressed: either form is reused. */
	assert_int_equal(put(f, "cd/debuginfo", true, false, 1), STORE_SAME);
	assert_false(assert_content(f, "cd/debuginfo", false, 1).raw);
	assert_int_equal(put(f, "ab/executable", true, false, 1), STORE_SAME);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_collected(f, 0);
	assert_true(assert_content(f, "ab/executable", false, 1).raw);
	assert_int_equal(pack(f, "ab/executable", &freed), 0);
	assert_collected(f, 1);
	assert_content(f, "ab/debuginfo", false, 1);
	assert_content(f, "ab/executable", false, 1);
}

/* The reading of a compressed content that is there takes long, and a collection ends just before the record is put. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
	struct store_fixture *f;
} slow;

static int settle_late(struct blobs *b, const char *name, struct err *err)
{
	clock_test_advance(60000);
	return slow.under->settle(b, name, err);
}

static int put_after_collection(struct blobs *b, const char *name, struct bytes content, const char *needs,
				const struct blob_stamp *expect, struct err *err)
{
	struct store_gc_result gc;

	b->ops = slow.under;
	assert_int_equal(store_gc(slow.f->st, NULL, NULL, &gc, err), 0);
	return slow.under->put(b, name, content, needs, expect, err);
}

static void a_compressed_form_that_is_found_is_not_collected(void **state)
{
	struct store_fixture *f = *state;
	struct store_key key = key_of("cd/debuginfo");
	struct err err = { 0 };
	uint64_t freed;

	put(f, "ab/debuginfo", true, false, 1);
	put(f, "cd/debuginfo", false, false, 1);
	assert_done(store_remove(f->st, &key, STR(""), &err));
	clock_test_advance(60000);
	slow.f = f;
	slow.under = f->st->blobs->ops;
	slow.ops = *slow.under;
	slow.ops.settle = settle_late;
	slow.ops.put = put_after_collection;
	f->st->blobs->ops = &slow.ops;
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_ptr_equal(f->st->blobs->ops, slow.under);
	assert_false(assert_content(f, "ab/debuginfo", false, 1).raw);
}

static void a_compressed_put_replaces_the_raw_form(void **state)
{
	struct store_fixture *f = *state;
	uint64_t freed;

	put(f, "ab/debuginfo", true, false, 1);
	assert_int_equal(put(f, "ab/debuginfo", false, false, 1), STORE_SAME);
	assert_false(assert_content(f, "ab/debuginfo", false, 1).raw);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), PACK_NOTHING);
	assert_collected(f, 1);
}

static void an_object_is_compressed_at_once_near_the_quota(void **state)
{
	struct store_fixture *f = *state;

	reopen(f, &(struct store_options){ .quota = LONG + LONG / 4 });
	(void)stats_of(f);
	put(f, "ab/debuginfo", true, false, 1);
	assert_false(assert_content(f, "ab/debuginfo", false, 1).raw);
	reopen(f, &(struct store_options){ .quota = 4 * LONG });
	(void)stats_of(f);
	put(f, "cd/debuginfo", true, false, 2);
	assert_true(assert_content(f, "cd/debuginfo", false, 2).raw);
}

static void the_quota_counts_raw_and_compressed_forms(void **state)
{
	struct store_fixture *f = *state;
	uint64_t used = 0, freed;
	struct store_meta meta;

	reopen(f, &(struct store_options){ .quota = 4 * LONG });
	(void)stats_of(f);
	put(f, "ab/debuginfo", true, false, 1);
	assert_true(store_usage(f->st, &used) && used == LONG);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	meta = assert_content(f, "ab/debuginfo", false, 1);
	assert_true(store_usage(f->st, &used) && used == LONG + meta.stored_size);
	assert_collected(f, 1);
	assert_true(store_usage(f->st, &used) && used == meta.stored_size);
}

/* stop_after() returns false @n times, then stops the compression. */
struct stop {
	unsigned n;
	bool kill; /* end the process instead of stopping */
};

static bool stop_after(void *arg)
{
	struct stop *s = arg;

	if (s->n--)
		return false;
	if (s->kill)
		_exit(0);
	return true;
}

static void a_stopped_or_killed_compression_changes_nothing(void **state)
{
	struct store_fixture *f = *state;
	struct stop stop = { .n = 2 };
	struct err err = { 0 };
	uint64_t freed = 0;
	int status;
	pid_t pid;

	put(f, "ab/debuginfo", true, false, 1);
	assert_true(pack_record(f->st, "keys/ab/ab.debuginfo", stop_after, &stop, &freed, &err) < 0);
	assert_int_equal(err.kind, ERR_CANCELLED);
	assert_true(assert_content(f, "ab/debuginfo", false, 1).later);
	pid = fork();
	if (pid == 0) {
		stop = (struct stop){ 2, true };
		pack_record(f->st, "keys/ab/ab.debuginfo", stop_after, &stop, &freed, NULL);
		_exit(1);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	reopen(f, &(struct store_options){ 0 });
	assert_true(assert_content(f, "ab/debuginfo", false, 1).later);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_content(f, "ab/debuginfo", false, 1);
	assert_collected(f, 1);
}

static void a_damaged_object_is_not_compressed(void **state)
{
	struct store_fixture *f = *state;
	char path[TEST_PATH_SIZE + STORE_CONTENT_NAME_SIZE + 8], name[STORE_CONTENT_NAME_SIZE];
	AUTO(mem_freep) uint8_t *wrong = mem_alloc(LONG);
	struct store_key key = key_of("ab/debuginfo");
	struct store_meta meta;
	struct source *s = NULL;
	struct err err = { 0 };
	uint64_t freed = 0;

	put(f, "ab/debuginfo", true, false, 1);
	meta = assert_content(f, "ab/debuginfo", false, 1);
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	fill_content(wrong, false, 2);
	test_file_write(path, wrong, LONG);
	assert_true(pack_record(f->st, "keys/ab/ab.debuginfo", NULL, NULL, &freed, &err) < 0);
	assert_int_equal(err.kind, ERR_INVALID);
	assert_non_null(strstr(err.text, "verify"));
	assert_int_equal(store_find_sure(f->st, &key, STORE_AS_KNOWN, &f->arena, &meta, &err), STORE_UNSURE);
	assert_fails(store_open_object(f->st, &key, &f->arena, &meta, &s, &err), ERR_INVALID, "damaged");
	put(f, "ab/debuginfo", true, false, 1);
	assert_content(f, "ab/debuginfo", false, 1);
}

static bool is_packed(struct store_fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta;
	struct err err = { 0 };

	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	return !meta.raw;
}

/* Uses the maintenance thread and the real clock. */
static void maintenance_compresses_objects_from_before_and_after_a_restart(void **state)
{
	struct store_fixture *f = *state;
	struct store_figures figures;

	clock_test_thaw();
	put(f, "ab/debuginfo", true, false, 1);
	reopen(f, &(struct store_options){ .maintain = true, .object_list = true });
	put(f, "cd/debuginfo", true, false, 2);
	for (unsigned i = 0; i < 3000 && !(is_packed(f, "ab/debuginfo") && is_packed(f, "cd/debuginfo")); i++)
		usleep(10000);
	assert_content(f, "ab/debuginfo", false, 1);
	assert_content(f, "cd/debuginfo", false, 2);
	assert_true(is_packed(f, "ab/debuginfo") && is_packed(f, "cd/debuginfo"));
	do {
		usleep(1000);
		store_figures(f->st, &figures);
	} while (figures.n_waiting);
	assert_int_equal(figures.waiting, 0);
}

struct usage_watch {
	struct store *st;
	uint64_t most;
	unsigned n;
};

static bool watch_usage(void *arg)
{
	struct usage_watch *w = arg;
	uint64_t used;

	assert_true(store_usage(w->st, &used));
	w->most = MAX(w->most, used);
	w->n++;
	return false;
}

static void a_copy_that_is_being_written_needs_no_room(void **state)
{
	struct store_fixture *f = *state;
	struct usage_watch w = { .st = f->st };
	struct store_evict_result evicted;
	uint64_t used, freed;
	struct err err = { 0 };

	assert_int_equal(put(f, "ad/debuginfo", true, true, 4), 0);
	assert_done(store_evict(f->st, UINT64_MAX, &evicted, &err)); /* counts */
	assert_true(store_usage(f->st, &used));
	assert_true(pack_record(f->st, "keys/ad/ad.debuginfo", watch_usage, &w, &freed, &err) >= 0);
	assert_true(w.n > 2);
	assert_int_equal(w.most, used);
	assert_int_equal(atomic_load(&f->st->packing), 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up_frozen, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_raw_object_is_compressed_later),
		T(an_incompressible_object_stays_raw),
		T(records_of_one_content_share_its_compressed_form),
		T(a_compressed_form_that_is_found_is_not_collected),
		T(a_compressed_put_replaces_the_raw_form),
		T(an_object_is_compressed_at_once_near_the_quota),
		T(the_quota_counts_raw_and_compressed_forms),
		T(a_stopped_or_killed_compression_changes_nothing),
		T(a_copy_that_is_being_written_needs_no_room),
		T(a_damaged_object_is_not_compressed),
		T(maintenance_compresses_objects_from_before_and_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
