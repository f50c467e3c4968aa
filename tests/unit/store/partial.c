/* SPDX-License-Identifier: Apache-2.0 */
/* Partial objects of interrupted writers: kept, resumed, swept. */
#include "test.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "store/internal.h"

#define LONG (11 * CODEC_FRAME_SIZE + 4321)
#define NAME "ab/debuginfo 1234 ci"

struct partial_fixture {
	char dir[TEST_PATH_SIZE];
	struct store *st;
	uint8_t *p;
	bool later; /* put objects raw, to be compressed later */
};

static void reopen(struct partial_fixture *f)
{
	struct err err = { 0 };

	store_close(f->st);
	assert_done(store_open(f->dir, &(struct store_options){ .create = true }, &f->st, &err));
}

static int set_up(void **state)
{
	struct partial_fixture *f = NEW(struct partial_fixture);

	test_dir_make(f->dir);
	f->p = mem_alloc(LONG);
	test_fill(f->p, LONG, 9);
	reopen(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct partial_fixture *f = *state;

	clock_test_thaw();
	store_close(f->st);
	test_dir_remove(f->dir);
	free(f->p);
	free(f);
	return 0;
}

static int set_up_raw(void **state)
{
	struct partial_fixture *f;

	set_up(state);
	f = *state;
	f->later = true;
	return 0;
}

static struct store_put *begin(struct partial_fixture *f, uint64_t size, const char *name)
{
	const struct store_put_options opts = { .later = f->later, .size = size, .name = str_of(name) };
	struct store_put *p = NULL;
	struct err err = { 0 };

	assert_done(store_put_begin(f->st, &opts, &p, &err));
	return p;
}

static void write_to(struct partial_fixture *f, struct store_put *p, uint64_t end)
{
	struct err err = { 0 };

	while (store_put_size(p) < end) {
		uint64_t at = store_put_size(p), n = MIN(end - at, (uint64_t)100000);

		assert_done(store_put_write(p, bytes_of(f->p + at, n), &err));
	}
}

/* Write the missing bytes and commit; check that the object is complete. */
static void end_and_check(struct partial_fixture *f, struct store_put *p)
{
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	AUTO(source_closep) struct source *s = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(LONG);
	struct store_key key;
	struct arena a;
	struct err err = { 0 };
	struct store_stats stats;

	arena_init(&a);
	assert_true(store_key_parse(STR("ab/debuginfo"), &key));
	write_to(f, p, LONG);
	assert_done(store_put_commit(p, &key, &meta, STORE_IF_BETTER, &err));
	assert_done(store_open_object(f->st, &key, &a, &meta, &s, &err));
	assert_int_equal(s->size, LONG);
	assert_done(source_read_full(s, 0, got, LONG, SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(got, f->p, LONG);
	assert_done(store_stats(f->st, &stats, &err));
	assert_int_equal(stats.n_contents, 1);
	arena_done(&a);
}

static int add_partial_text(void *arg, const struct store_partial *p)
{
	buf_printf(arg, STR_FMT " %llu/%llu;", STR_ARG(p->name), (unsigned long long)p->size,
		   (unsigned long long)p->all);
	return 0;
}

static void assert_partials(struct partial_fixture *f, const char *want)
{
	AUTO(buf_done) struct buf got = { 0 };
	struct err err = { 0 };

	assert_done(store_partials(f->st, add_partial_text, &got, &err));
	assert_str(buf_str(&got), want);
}

static unsigned n_temporary(struct partial_fixture *f)
{
	AUTO(mem_freep) char *command = mem_printf("exit $(ls '%s/tmp' | wc -l)", f->dir);

	return (unsigned)WEXITSTATUS(system(command));
}

/* Write up to @end in a process that exits without cleaning up, as after kill -9. */
static void write_in_killed_process(struct partial_fixture *f, uint64_t end)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		write_to(f, begin(f, LONG, NAME), end);
		_exit(0);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_partial_put_is_resumed(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p = begin(f, LONG, NAME);

	write_to(f, p, 5 * CODEC_FRAME_SIZE + 1000);
	store_put_leave(p);
	reopen(f);
	assert_partials(f, NAME " 1310720/2887905;");
	p = begin(f, LONG, NAME);
	assert_int_equal(store_put_size(p), 5 * CODEC_FRAME_SIZE);
	end_and_check(f, p);
	assert_partials(f, "");
	assert_int_equal(n_temporary(f), 0);
}

static void a_killed_process_loses_little_more_than_1_mib(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;

	for (uint64_t end = MIB(1) + 50000; end < LONG; end += 700001) {
		write_in_killed_process(f, end);
		p = begin(f, LONG, NAME);
		assert_true(store_put_size(p) <= end &&
			    store_put_size(p) + MIB(1) + CODEC_FRAME_SIZE + 100000 > end);
		store_put_leave(p);
	}
	end_and_check(f, begin(f, LONG, NAME));
}

/* Leave a partial object with zeros in the middle, as in disk blocks that were never written. */
static void leave_damaged(struct partial_fixture *f)
{
	AUTO(mem_freep) char *command = NULL;
	struct store_put *p = begin(f, LONG, NAME);

	write_to(f, p, 9 * CODEC_FRAME_SIZE);
	store_put_leave(p);
	command = mem_printf(
		"dd if=/dev/zero of=$(echo '%s'/tmp/part-*) bs=1 seek=800000 count=5000 conv=notrunc "
		"2>/dev/null",
		f->dir);
	assert_int_equal(system(command), 0);
}

static void a_damaged_partial_is_resumed_before_the_damage(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;

	leave_damaged(f);
	p = begin(f, LONG, NAME);
	assert_true(store_put_size(p) > 0 && store_put_size(p) < 5 * CODEC_FRAME_SIZE);
	end_and_check(f, p);
}

/* Bytes after the valid part are cut off: the rest of the file may be shorter than they are. */
static void nothing_of_a_damaged_partial_stays_at_the_end(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;
	uint64_t n;

	leave_damaged(f);
	p = begin(f, LONG, NAME);
	n = store_put_size(p);
	assert_true(n > 0 && n < 5 * CODEC_FRAME_SIZE);
	memset(f->p + n, 0, LONG - n);
	end_and_check(f, p);
}

static void a_raw_partial_is_resumed_at_its_last_byte(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p = begin(f, LONG, NAME);

	write_to(f, p, 5 * CODEC_FRAME_SIZE + 1000);
	store_put_leave(p);
	reopen(f);
	assert_partials(f, NAME " 1311720/2887905;");
	/* It stays raw, although this put is not. */
	f->later = false;
	p = begin(f, LONG, NAME);
	assert_int_equal(store_put_size(p), 5 * CODEC_FRAME_SIZE + 1000);
	end_and_check(f, p);
	assert_int_equal(n_temporary(f), 0);
}

static void a_damaged_raw_partial_starts_again(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;

	leave_damaged(f);
	p = begin(f, LONG, NAME);
	assert_int_equal(store_put_size(p), 0);
	end_and_check(f, p);
}

static uint64_t used_bytes(struct partial_fixture *f)
{
	struct store_stats stats;
	struct err err = { 0 };
	uint64_t n = 0;

	/* The running total, if known, equals a fresh count. */
	if (store_usage(f->st, &n)) {
		uint64_t followed = n;

		assert_done(store_stats(f->st, &stats, &err));
		assert_true(store_usage(f->st, &n) && n == followed);
	} else {
		assert_done(store_stats(f->st, &stats, &err));
		assert_true(store_usage(f->st, &n));
	}
	return n;
}

static void partial_puts_count_as_used_space(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p, *q;

	assert_int_equal(used_bytes(f), 0);
	p = begin(f, LONG, NAME);
	q = begin(f, LONG, "another");
	write_to(f, p, MIB(2));
	write_to(f, q, MIB(1));
	assert_int_equal(used_bytes(f), MIB(3));
	store_put_leave(p);
	store_put_abort(q);
	assert_int_equal(used_bytes(f), MIB(2));
	reopen(f);
	assert_int_equal(used_bytes(f), MIB(2));
	p = begin(f, LONG, NAME);
	end_and_check(f, p);
	assert_int_equal(used_bytes(f), LONG);
	write_to(f, p = begin(f, LONG, "another"), MIB(2));
	store_put_leave(p);
	store_forget_partial(f->st, STR("another"));
	assert_int_equal(used_bytes(f), LONG);
}

static void a_partial_put_fails_at_the_quota(void **state)
{
	const struct store_options opts = { .quota = MIB(3) };
	struct partial_fixture *f = *state;
	struct store_put *p, *q;
	struct err err = { 0 };
	int r = 0;

	store_close(f->st);
	assert_done(store_open(f->dir, &opts, &f->st, &err));
	p = begin(f, LONG, NAME);
	write_to(f, p, MIB(2));
	q = begin(f, LONG, "another");
	while (r == 0 && store_put_size(q) < MIB(2))
		r = store_put_write(q, bytes_of(f->p + store_put_size(q), 100000), &err);
	assert_int_equal(r, STORE_FULL);
	store_put_abort(q);
	end_and_check(f, p);
}

static void a_partial_has_one_writer_at_a_time(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p = begin(f, LONG, NAME), *q = begin(f, LONG, NAME), *r;

	write_to(f, p, MIB(2));
	write_to(f, q, MIB(1));
	store_put_leave(q);
	assert_partials(f, NAME " 1048576/2887905;");
	r = begin(f, LONG, "another");
	assert_int_equal(store_put_size(r), 0);
	store_put_abort(r);
	end_and_check(f, p);
	assert_int_equal(n_temporary(f), 0);
}

static void gc_removes_a_partial_after_its_keeping_time(void **state)
{
	struct partial_fixture *f = *state;
	struct store_gc_result result;
	struct err err = { 0 };
	struct store_put *p;

	clock_test_freeze(1000000);
	write_in_killed_process(f, MIB(2));
	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_int_equal(result.n_temporary, 0);
	p = begin(f, LONG, NAME);
	assert_true(store_put_size(p) >= MIB(1));
	store_put_leave(p);
	clock_test_advance((STORE_PARTIAL_S + 60) * 1000);
	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_true(result.n_temporary >= 1);
	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_int_equal(n_temporary(f), 0);
	p = begin(f, LONG, NAME);
	assert_int_equal(store_put_size(p), 0);
	store_put_abort(p);
}

static void assert_gc_leaves(struct partial_fixture *f, unsigned n_files)
{
	struct store_gc_result result;
	struct err err = { 0 };

	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_int_equal(result.n_temporary, 0);
	assert_int_equal(n_temporary(f), n_files);
}

static void a_partial_outlives_a_clock_that_is_wrong(void **state)
{
	static const int64_t from_s = 1000000, year_s = 365 * INT64_C(86400);
	struct partial_fixture *f = *state;

	clock_test_freeze(from_s);
	reopen(f);
	write_in_killed_process(f, MIB(2));
	/* It is ahead for a moment while the service runs; a note in the future is not older either. */
	assert_gc_leaves(f, 2);
	clock_test_freeze(from_s + year_s);
	assert_gc_leaves(f, 2);
	clock_test_freeze(from_s - year_s);
	assert_gc_leaves(f, 2);
	/* It is ahead at the start, and for an hour. */
	clock_test_freeze(from_s + year_s);
	reopen(f);
	assert_gc_leaves(f, 2);
	clock_test_advance(3600 * 1000);
	assert_gc_leaves(f, 2);
}

static void a_partial_that_is_being_written_stays(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;

	clock_test_freeze(1000000);
	p = begin(f, LONG, NAME);
	write_to(f, p, MIB(2));
	assert_gc_leaves(f, 2);
	clock_test_advance((STORE_PARTIAL_S + 60) * 1000);
	assert_gc_leaves(f, 2);
	end_and_check(f, p);
}

static void a_forgotten_partial_starts_again(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p = begin(f, LONG, NAME);

	write_to(f, p, MIB(2));
	store_put_leave(p);
	store_forget_partial(f->st, STR(NAME));
	assert_int_equal(n_temporary(f), 0);
	p = begin(f, LONG, NAME);
	assert_int_equal(store_put_size(p), 0);
	write_to(f, p, MIB(2));
	store_put_abort(p);
	assert_int_equal(n_temporary(f), 0);
}

/* In place of a store's call that puts a record: the process is killed. */
static int put_is_killed(struct blobs *b, const char *name, struct bytes content, const char *needs,
			 const struct blob_stamp *expect, struct err *err)
{
	_exit(0);
}

/* Commit all bytes in a process that is killed after the content was put, before its record. */
static void commit_in_killed_process(struct partial_fixture *f)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
		struct blobs_ops ops = *f->st->blobs->ops;
		struct store_put *p = begin(f, LONG, NAME);
		struct store_key key;
		struct err err = { 0 };

		write_to(f, p, LONG);
		ops.put = put_is_killed;
		f->st->blobs->ops = &ops;
		if (store_key_parse(STR("ab/debuginfo"), &key))
			(void)store_put_commit(p, &key, &meta, STORE_IF_BETTER, &err);
		_exit(1);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Another object with the same bytes is pushed and acknowledged. */
static void put_under_another_key(struct partial_fixture *f)
{
	const struct store_put_options opts = { .later = f->later, .size = LONG };
	struct store_meta meta = { .origin = STORE_PUSHED, .quality = STORE_DWARF };
	struct store_put *p = NULL;
	struct store_key key;
	struct err err = { 0 };

	assert_true(store_key_parse(STR("cd/debuginfo"), &key));
	assert_done(store_put_begin(f->st, &opts, &p, &err));
	write_to(f, p, LONG);
	assert_done(store_put_commit(p, &key, &meta, STORE_IF_BETTER, &err));
}

static void assert_is_whole(struct partial_fixture *f, const char *key_text)
{
	AUTO(source_closep) struct source *s = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(LONG);
	AUTO(arena_done) struct arena a = { 0 };
	struct store_key key;
	struct err err = { 0 };

	arena_init(&a);
	assert_true(store_key_parse(str_of(key_text), &key));
	assert_done(store_open_object(f->st, &key, &a, NULL, &s, &err));
	assert_done(source_read_full(s, 0, got, LONG, SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(got, f->p, LONG);
}

/* The killed process has left the file of the content under its old name, too. */
static void a_forgotten_upload_leaves_the_content_that_it_has_become_alone(void **state)
{
	struct partial_fixture *f = *state;

	commit_in_killed_process(f);
	put_under_another_key(f);
	assert_true(store_forget_partial(f->st, STR(NAME)));
	assert_int_equal(n_temporary(f), 0);
	assert_is_whole(f, "cd/debuginfo");
}

static void a_resumed_upload_leaves_the_content_that_it_has_become_alone(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;

	commit_in_killed_process(f);
	put_under_another_key(f);
	p = begin(f, LONG, NAME);
	assert_int_equal(store_put_size(p), 0);
	write_to(f, p, MIB(2));
	assert_is_whole(f, "cd/debuginfo");
	end_and_check(f, p);
	assert_is_whole(f, "cd/debuginfo");
	assert_int_equal(n_temporary(f), 0);
}

/* Of a staging file that was opened, but is not locked yet: this is called once before. */
static struct {
	void (*before)(struct partial_fixture *f);
	struct partial_fixture *f;
	struct store_put *first, *second;
} locking;

/* In place of libc's. */
int flock(int fd, int operation)
{
	void (*before)(struct partial_fixture * f) = TAKE(locking.before);

	if (before)
		before(locking.f);
	return (int)syscall(SYS_flock, fd, operation);
}

static void before_lock(struct partial_fixture *f, void (*before)(struct partial_fixture *f))
{
	locking.f = f;
	locking.before = before;
}

static void commit_first(struct partial_fixture *f)
{
	end_and_check(f, TAKE(locking.first));
}

/* The other upload opened the file while this one had its lock. */
static void an_upload_that_becomes_a_content_is_not_continued_by_another(void **state)
{
	struct partial_fixture *f = *state;
	struct store_put *p;

	locking.first = begin(f, LONG, NAME);
	write_to(f, locking.first, LONG);
	before_lock(f, commit_first);
	p = begin(f, LONG, NAME);
	assert_null(locking.first);
	assert_int_equal(store_put_size(p), 0);
	write_to(f, p, MIB(2));
	assert_is_whole(f, "ab/debuginfo");
	store_put_abort(p);
	assert_int_equal(n_temporary(f), 0);
}

static void abort_first_begin_second(struct partial_fixture *f)
{
	store_put_abort(TAKE(locking.first));
	locking.second = begin(f, LONG, NAME);
}

static void a_sweep_leaves_the_file_of_the_next_upload_alone(void **state)
{
	struct partial_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	locking.first = begin(f, LONG, NAME);
	before_lock(f, abort_first_begin_second);
	assert_done(f->st->blobs->ops->sweep(f->st->blobs, &n, &err));
	assert_null(locking.first);
	assert_int_equal(n, 0);
	end_and_check(f, TAKE(locking.second));
}

static void leave_first(struct partial_fixture *f)
{
	write_to(f, locking.first, MIB(2));
	store_put_leave(TAKE(locking.first));
}

static void a_sweep_leaves_an_upload_that_was_left_meanwhile(void **state)
{
	struct partial_fixture *f = *state;
	struct err err = { 0 };
	uint64_t n;

	locking.first = begin(f, LONG, NAME);
	before_lock(f, leave_first);
	assert_done(f->st->blobs->ops->sweep(f->st->blobs, &n, &err));
	assert_null(locking.first);
	assert_int_equal(n, 0);
	assert_int_equal(store_partial_size(f->st, STR(NAME)), MIB(2));
	end_and_check(f, begin(f, LONG, NAME));
}

/* Foreign files with the names of notes, and truncated notes. */
static void invalid_notes_are_ignored_and_swept(void **state)
{
	struct partial_fixture *f = *state;
	char path[TEST_PATH_SIZE + 32];
	struct store_gc_result result;
	struct err err = { 0 };

	snprintf(path, sizeof(path), "%s/tmp/note-1", f->dir);
	test_file_write(path, "lode partial 1\nname: x\n", 23);
	snprintf(path, sizeof(path), "%s/tmp/part-1", f->dir);
	test_file_write(path, "x", 1);
	snprintf(path, sizeof(path), "%s/tmp/note-", f->dir);
	test_file_write(path, "", 0);
	assert_partials(f, "");
	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_done(store_gc(f->st, NULL, NULL, &result, &err));
	assert_int_equal(n_temporary(f), 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define L(test) cmocka_unit_test_setup_teardown(test, set_up_raw, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_partial_put_is_resumed),
		L(a_raw_partial_is_resumed_at_its_last_byte),
		L(a_damaged_raw_partial_starts_again),
		L(partial_puts_count_as_used_space),
		L(a_partial_put_fails_at_the_quota),
		L(a_killed_process_loses_little_more_than_1_mib),
		L(gc_removes_a_partial_after_its_keeping_time),
		L(a_forgotten_partial_starts_again),
		L(a_forgotten_upload_leaves_the_content_that_it_has_become_alone),
		L(a_resumed_upload_leaves_the_content_that_it_has_become_alone),
		L(an_upload_that_becomes_a_content_is_not_continued_by_another),
		T(a_killed_process_loses_little_more_than_1_mib),
		T(a_damaged_partial_is_resumed_before_the_damage),
		T(nothing_of_a_damaged_partial_stays_at_the_end),
		T(a_partial_has_one_writer_at_a_time),
		T(gc_removes_a_partial_after_its_keeping_time),
		T(a_partial_outlives_a_clock_that_is_wrong),
		T(a_partial_that_is_being_written_stays),
		T(a_forgotten_partial_starts_again),
		T(a_forgotten_upload_leaves_the_content_that_it_has_become_alone),
		T(a_resumed_upload_leaves_the_content_that_it_has_become_alone),
		T(an_upload_that_becomes_a_content_is_not_continued_by_another),
		T(a_sweep_leaves_the_file_of_the_next_upload_alone),
		T(a_sweep_leaves_an_upload_that_was_left_meanwhile),
		T(invalid_notes_are_ignored_and_swept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
