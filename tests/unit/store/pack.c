/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept as it came, and compressed afterwards. */
#include "fixture.h"

#include <sys/wait.h>
#include <unistd.h>
#include "store/internal.h"

#define LONG (3 * CODEC_FRAME_SIZE + 12345)

/* Text, that can be compressed, or noise. */
static void fill(uint8_t *p, bool noise, unsigned seed)
{
	if (noise)
		test_fill(p, LONG, seed);
	else
		for (size_t i = 0; i < LONG; i++)
			p[i] = (uint8_t)((i / 7 + seed) % 50);
}

static int put(struct fixture *f, const char *key_text, bool later, bool noise, unsigned seed)
{
	const struct store_put_options opts = { .later = later, .size = LONG };
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF, .from = STR("ci") };
	AUTO(mem_freep) uint8_t *p = mem_alloc(LONG);
	struct store_key key = key_of(key_text);
	struct store_put *put = NULL;
	struct err err = { 0 };
	int r;

	fill(p, noise, seed);
	assert_done(store_put_begin(f->st, &opts, &put, &err));
	assert_done(store_put_write(put, bytes_of(p, LONG), &err));
	r = store_put_commit(put, &key, &meta, STORE_IF_BETTER, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

/* What its record says; its bytes are those that were put. */
static struct store_meta check(struct fixture *f, const char *key_text, bool noise, unsigned seed)
{
	AUTO(mem_freep) uint8_t *want = mem_alloc(LONG), *got = mem_alloc(LONG);
	struct store_key key = key_of(key_text);
	AUTO(source_closep) struct source *s = NULL;
	struct store_meta meta;
	struct err err = { 0 };

	fill(want, noise, seed);
	assert_done(store_open_object(f->st, &key, &f->arena, &meta, &s, &err));
	assert_int_equal(s->size, LONG);
	assert_done(source_read_full(s, 0, got, LONG, SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(got, want, LONG);
	assert_str(meta.from, "ci");
	return meta;
}

static int pack(struct fixture *f, const char *key_text, uint64_t *ret_freed)
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

static struct store_stats stats_of(struct fixture *f)
{
	struct store_stats stats;
	struct err err = { 0 };

	assert_done(store_stats(f->st, &stats, &err));
	return stats;
}

static void collect(struct fixture *f, uint64_t n)
{
	struct store_gc_result gc;
	struct err err = { 0 };

	clock_test_advance(10000);
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_int_equal(gc.n_contents, n);
}

static void it_is_kept_as_it_came_and_compressed_afterwards(void **state)
{
	struct fixture *f = *state;
	struct store_meta meta;
	uint64_t freed = 0;
	int64_t created;

	assert_int_equal(put(f, "ab/debuginfo", true, false, 1), 0);
	meta = check(f, "ab/debuginfo", false, 1);
	assert_true(meta.raw && meta.later && meta.stored_size == LONG);
	created = meta.created;
	clock_test_advance(10000);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_int_equal(freed, LONG);
	meta = check(f, "ab/debuginfo", false, 1);
	assert_true(!meta.raw && !meta.later && meta.stored_size < LONG / 2);
	assert_int_equal(meta.created, created);
	collect(f, 1);
	check(f, "ab/debuginfo", false, 1);
	assert_int_equal(stats_of(f).bytes, meta.stored_size);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), PACK_NOTHING);
	assert_int_equal(pack(f, "cd/debuginfo", &freed), PACK_NOTHING);
}

static void what_gets_hardly_smaller_stays_as_it_is(void **state)
{
	struct fixture *f = *state;
	struct store_meta meta;
	uint64_t freed = 5;

	put(f, "ab/debuginfo", true, true, 1);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	assert_int_equal(freed, 0);
	meta = check(f, "ab/debuginfo", true, 1);
	assert_true(meta.raw && !meta.later);
	assert_int_equal(stats_of(f).n_contents, 1);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), PACK_NOTHING);
	assert_int_equal(put(f, "ab/debuginfo", true, true, 1), STORE_SAME);
	assert_false(check(f, "ab/debuginfo", true, 1).later);
}

static void the_same_bytes_are_compressed_once(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	put(f, "ab/debuginfo", true, false, 1);
	put(f, "ab/executable", true, false, 1);
	put(f, "cd/debuginfo", false, false, 1);
	assert_int_equal(stats_of(f).n_contents, 2);
	/* In the same form or the other: they are here already. */
	assert_int_equal(put(f, "cd/debuginfo", true, false, 1), STORE_SAME);
	assert_false(check(f, "cd/debuginfo", false, 1).raw);
	assert_int_equal(put(f, "ab/executable", true, false, 1), STORE_SAME);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	collect(f, 0);
	assert_true(check(f, "ab/executable", false, 1).raw);
	assert_int_equal(pack(f, "ab/executable", &freed), 0);
	collect(f, 1);
	check(f, "ab/debuginfo", false, 1);
	check(f, "ab/executable", false, 1);
}

/* What is put compressed takes the place of what is only to become so. */
static void one_that_is_compressed_already_is_taken(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	put(f, "ab/debuginfo", true, false, 1);
	assert_int_equal(put(f, "ab/debuginfo", false, false, 1), STORE_SAME);
	assert_false(check(f, "ab/debuginfo", false, 1).raw);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), PACK_NOTHING);
	collect(f, 1);
}

static void without_room_it_is_compressed_at_once(void **state)
{
	struct fixture *f = *state;

	reopen(f, &(struct store_options){ .quota = LONG + LONG / 4 });
	(void)stats_of(f);
	put(f, "ab/debuginfo", true, false, 1);
	assert_false(check(f, "ab/debuginfo", false, 1).raw);
	reopen(f, &(struct store_options){ .quota = 4 * LONG });
	(void)stats_of(f);
	put(f, "cd/debuginfo", true, false, 2);
	assert_true(check(f, "cd/debuginfo", false, 2).raw);
}

static void the_quota_counts_both(void **state)
{
	struct fixture *f = *state;
	uint64_t used = 0, freed;
	struct store_meta meta;

	reopen(f, &(struct store_options){ .quota = 4 * LONG });
	(void)stats_of(f);
	put(f, "ab/debuginfo", true, false, 1);
	assert_true(store_usage(f->st, &used) && used == LONG);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	meta = check(f, "ab/debuginfo", false, 1);
	assert_true(store_usage(f->st, &used) && used == LONG + meta.stored_size);
	collect(f, 1);
	assert_true(store_usage(f->st, &used) && used == meta.stored_size);
}

/* So many questions, then it is to stop; killed, if the process is another. */
struct stop {
	unsigned n;
	bool kill;
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

static void stopped_or_killed_it_is_what_it_was(void **state)
{
	struct fixture *f = *state;
	struct stop stop = { .n = 2 };
	struct err err = { 0 };
	uint64_t freed = 0;
	int status;
	pid_t pid;

	put(f, "ab/debuginfo", true, false, 1);
	assert_true(pack_record(f->st, "keys/ab/ab.debuginfo", stop_after, &stop, &freed, &err) < 0);
	assert_int_equal(err.kind, ERR_CANCELLED);
	assert_true(check(f, "ab/debuginfo", false, 1).later);
	pid = fork();
	if (pid == 0) {
		stop = (struct stop){ 2, true };
		pack_record(f->st, "keys/ab/ab.debuginfo", stop_after, &stop, &freed, NULL);
		_exit(1);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	reopen(f, &(struct store_options){ 0 });
	assert_true(check(f, "ab/debuginfo", false, 1).later);
	assert_int_equal(pack(f, "ab/debuginfo", &freed), 0);
	check(f, "ab/debuginfo", false, 1);
	collect(f, 1);
}

static void what_is_damaged_is_not_compressed(void **state)
{
	struct fixture *f = *state;
	char path[TEST_PATH_SIZE + STORE_CONTENT_NAME_SIZE + 8], name[STORE_CONTENT_NAME_SIZE];
	AUTO(mem_freep) uint8_t *wrong = mem_alloc(LONG);
	struct store_meta meta;
	struct err err = { 0 };
	uint64_t freed = 0;

	put(f, "ab/debuginfo", true, false, 1);
	meta = check(f, "ab/debuginfo", false, 1);
	snprintf(path, sizeof(path), "%s/%s", f->dir, store_content_name(meta.sha256, true, name));
	fill(wrong, false, 2);
	test_file_write(path, wrong, LONG);
	assert_true(pack_record(f->st, "keys/ab/ab.debuginfo", NULL, NULL, &freed, &err) < 0);
	assert_int_equal(err.kind, ERR_INVALID);
	assert_non_null(strstr(err.text, "verify"));
	check(f, "ab/debuginfo", false, 2);
}

static bool is_packed(struct fixture *f, const char *key_text)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta;
	struct err err = { 0 };

	assert_done(store_find(f->st, &key, &f->arena, &meta, &err));
	return !meta.raw;
}

/* With its thread, in the time of the world. */
static void a_server_does_it_by_itself_also_after_a_restart(void **state)
{
	struct fixture *f = *state;
	struct store_figures figures;

	clock_test_thaw();
	put(f, "ab/debuginfo", true, false, 1);
	reopen(f, &(struct store_options){ .maintain = true, .object_list = true });
	put(f, "cd/debuginfo", true, false, 2);
	for (unsigned i = 0; i < 3000 && !(is_packed(f, "ab/debuginfo") && is_packed(f, "cd/debuginfo")); i++)
		usleep(10000);
	check(f, "ab/debuginfo", false, 1);
	check(f, "cd/debuginfo", false, 2);
	assert_true(is_packed(f, "ab/debuginfo") && is_packed(f, "cd/debuginfo"));
	do {
		usleep(1000);
		store_figures(f->st, &figures);
	} while (figures.n_waiting);
	assert_int_equal(figures.waiting, 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up_frozen, tear_down)
	const struct CMUnitTest tests[] = {
		T(it_is_kept_as_it_came_and_compressed_afterwards),
		T(what_gets_hardly_smaller_stays_as_it_is),
		T(the_same_bytes_are_compressed_once),
		T(one_that_is_compressed_already_is_taken),
		T(without_room_it_is_compressed_at_once),
		T(the_quota_counts_both),
		T(stopped_or_killed_it_is_what_it_was),
		T(what_is_damaged_is_not_compressed),
		T(a_server_does_it_by_itself_also_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
