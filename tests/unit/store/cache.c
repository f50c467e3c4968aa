/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of whole contents in front of blobs that are far away, damage and cannot be reached. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "codec/codec.h"
#include "faulty.h"
#include "fixture.h"
#include "store/internal.h"

#define SIZE   300000u
#define BUDGET MIB(16)

struct cache_fixture {
	char dir[TEST_PATH_SIZE];
	struct blobs *memory; /* below all */
	struct faulty *far;
	struct blobs *cache;
	struct blob_cache_options opts;
	uint8_t bytes[SIZE];
	char raw[STORE_CONTENT_NAME_SIZE], framed[STORE_CONTENT_NAME_SIZE];
	struct buf frames;
};

/* ---- fixture ---- */

/* The far blobs outlive a cache: a bucket does. */
static void keep_open(struct blobs *b)
{
}

static void open_cache(struct cache_fixture *f)
{
	static struct blobs_ops ops;
	struct err err = { 0 };

	f->far = faulty_new(f->memory);
	ops = *f->far->blobs.ops;
	ops.close = keep_open;
	f->far->blobs.ops = &ops;
	assert_done(blobs_open_cache(&f->far->blobs, &f->opts, &f->cache, &err));
}

static void close_cache(struct cache_fixture *f)
{
	if (f->cache)
		f->cache->ops->close(f->cache);
	f->cache = NULL;
	free(f->far);
	f->far = NULL;
}

static int add_frames(void *arg, struct bytes b, struct err *err)
{
	buf_add(arg, b.p, b.size);
	return 0;
}

static void put_blob(struct blobs *b, const char *name, struct bytes content)
{
	struct blob_stamp now = { 0 };
	struct err err = { 0 };

	(void)b->ops->stat(b, name, &now, &err);
	assert_done(b->ops->put(b, name, content, NULL, &now, &err));
}

/* A raw content of @n bytes that depend on @seed. */
static void put_raw(struct cache_fixture *f, unsigned seed, size_t n, char name[STORE_CONTENT_NAME_SIZE])
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(n);
	uint8_t sum[STORE_SHA256_SIZE];

	test_fill(p, n, seed);
	sha256_of(bytes_of(p, n), sum);
	put_blob(f->memory, store_content_name(sum, true, name), bytes_of(p, n));
}

static int set_up_cache(void **state)
{
	struct cache_fixture *f = NEW(struct cache_fixture);
	struct codec_frames *frames;
	uint8_t sum[STORE_SHA256_SIZE];
	struct err err = { 0 };

	test_dir_make(f->dir);
	f->opts = (struct blob_cache_options){ .dir = f->dir, .budget = BUDGET };
	f->memory = blobs_open_memory();
	test_fill(f->bytes, SIZE, 7);
	memset(f->bytes + 5000, 'x', SIZE / 2);
	sha256_of(bytes_of(f->bytes, SIZE), sum);
	frames = codec_frames_new(1, add_frames, &f->frames);
	assert_done(codec_frames_write(frames, bytes_of(f->bytes, SIZE), &err));
	assert_done(codec_frames_end(frames, &err));
	codec_frames_free(frames);
	put_blob(f->memory, store_content_name(sum, true, f->raw), bytes_of(f->bytes, SIZE));
	put_blob(f->memory, store_content_name(sum, false, f->framed), buf_bytes(&f->frames));
	open_cache(f);
	*state = f;
	return 0;
}

static int tear_down_cache(void **state)
{
	struct cache_fixture *f = *state;

	clock_test_thaw();
	close_cache(f);
	f->memory->ops->close(f->memory);
	buf_done(&f->frames);
	test_dir_remove(f->dir);
	free(f);
	return 0;
}

static void restart(struct cache_fixture *f)
{
	close_cache(f);
	open_cache(f);
}

/* ---- reading ---- */

static void assert_opens(struct cache_fixture *f, const char *name, struct bytes want)
{
	AUTO(source_closep) struct source *s = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(want.size);
	struct err err = { 0 };

	assert_done(f->cache->ops->open(f->cache, name, &s, &err));
	assert_int_equal(s->size, want.size);
	assert_done(source_read_full(s, 0, got, want.size, SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(got, want.p, want.size);
}

static void assert_both_open(struct cache_fixture *f)
{
	assert_opens(f, f->raw, bytes_of(f->bytes, SIZE));
	assert_opens(f, f->framed, buf_bytes(&f->frames));
}

static struct blob_cache_figures figures(struct cache_fixture *f)
{
	struct blob_cache_figures r;

	assert_true(blobs_cache_figures(f->cache, &r));
	return r;
}

/* Files of the folder, without the lock. */
static unsigned count_files(struct cache_fixture *f)
{
	DIR *dir = opendir(f->dir);
	unsigned n = 0;
	struct dirent *e;

	while ((e = readdir(dir)))
		n += e->d_name[0] != '.' && strcmp(e->d_name, "lock") != 0;
	closedir(dir);
	return n;
}

static char *path_of(struct cache_fixture *f, const char *name)
{
	return mem_printf("%s/%s", f->dir, strrchr(name, '/') + 1);
}

/* ---- tests ---- */

static void a_content_is_fetched_once_and_mapped_from_its_file(void **state)
{
	struct cache_fixture *f = *state;
	AUTO(source_closep) struct source *s = NULL;
	struct blob_stamp stamp;
	struct err err = { 0 };
	uint64_t off = 1;
	void *p;
	int fd;

	for (unsigned i = 0; i < 3; i++)
		assert_both_open(f);
	assert_int_equal(f->far->n_opens, 2);
	assert_int_equal(figures(f).n_fetched, 2);
	assert_int_equal(figures(f).n_kept, 4);
	assert_done(f->cache->ops->open(f->cache, f->raw, &s, &err));
	assert_true(source_raw_fd(s, &fd, &off));
	assert_int_equal(off, 0);
	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	assert_memory_equal(p, f->bytes, SIZE);
	munmap(p, SIZE);
	assert_done(f->cache->ops->stat(f->cache, f->raw, &stamp, &err));
	assert_int_equal(stamp.size, SIZE);
	assert_int_equal(f->cache->ops->open(f->cache, "data/00/00", &s, &err), BLOB_MISSING);
}

static void it_survives_a_restart_and_the_bucket_being_away(void **state)
{
	struct cache_fixture *f = *state;
	struct source *s = NULL;
	struct blob_stamp stamp;
	char other[STORE_CONTENT_NAME_SIZE];
	struct err err = { 0 };

	assert_both_open(f);
	put_raw(f, 1, 1000, other);
	restart(f);
	atomic_store(&f->far->away, true);
	assert_both_open(f);
	assert_done(f->cache->ops->stat(f->cache, f->framed, &stamp, &err));
	assert_int_equal(stamp.size, f->frames.size);
	assert_int_equal(f->far->n_opens, 0);
	/* The rest is an error, and not missing. */
	assert_fails(f->cache->ops->open(f->cache, other, &s, &err), ERR_IO, other);
	assert_true(blob_is_away(&err));
	assert_fails(f->cache->ops->stat(f->cache, other, &stamp, &err), ERR_IO, "");
	assert_true(blob_is_away(&err));
}

static void flip_in_file(const char *path, long at, bool from_end)
{
	FILE *file = fopen(path, "r+b");
	int c;

	assert_non_null(file);
	assert_int_equal(fseek(file, at, from_end ? SEEK_END : SEEK_SET), 0);
	c = fgetc(file);
	assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
	fputc(c ^ 1, file);
	fclose(file);
}

static void a_damaged_file_is_fetched_again_after_a_start(void **state)
{
	struct cache_fixture *f = *state;

	for (unsigned i = 0; i < 5; i++) {
		AUTO(mem_freep) char *raw = path_of(f, f->raw);
		AUTO(mem_freep) char *framed = path_of(f, f->framed);

		assert_both_open(f);
		close_cache(f);
		if (i < 3) {
			flip_in_file(raw, i == 2 ? -5 : i ? 123456 : 0, i == 2);
			flip_in_file(framed, i == 2 ? -30 : i ? 999 : 0, i == 2);
		} else {
			assert_int_equal(truncate(raw, i == 3 ? 100 : 10), 0);
			assert_int_equal(truncate(framed, i == 3 ? 100 : 0), 0);
		}
		open_cache(f);
		assert_both_open(f);
		assert_int_equal(figures(f).n_fetched, 2);
		if (i < 4)
			assert_int_equal(figures(f).n_damaged, 2);
		assert_int_equal(count_files(f), 2);
	}
}

static void bytes_that_were_damaged_on_their_way_are_not_kept(void **state)
{
	struct cache_fixture *f = *state;
	struct source *s = NULL;
	struct err err = { 0 };

	/* Once: fetched again. */
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&f->far->n_damaged, 1);
		assert_opens(f, i ? f->raw : f->framed, i ? bytes_of(f->bytes, SIZE) : buf_bytes(&f->frames));
	}
	restart(f);
	/* They are damaged there. */
	f->cache->ops->remove(f->cache, f->raw, NULL, &err);
	put_blob(f->memory, f->raw, bytes_of(f->bytes + 1, SIZE - 1));
	assert_fails(f->cache->ops->open(f->cache, f->raw, &s, &err), ERR_INVALID, "SHA-256 differs");
	assert_int_equal(count_files(f), 1);
}

static void a_file_that_others_removed_is_fetched_again(void **state)
{
	struct cache_fixture *f = *state;
	AUTO(mem_freep) char *path = path_of(f, f->raw);

	assert_both_open(f);
	assert_int_equal(unlink(path), 0);
	assert_both_open(f);
	assert_int_equal(f->far->n_opens, 3);
}

static void the_least_recently_used_go_first_also_after_a_restart(void **state)
{
	struct cache_fixture *f = *state;
	char names[6][STORE_CONTENT_NAME_SIZE];
	uint64_t before;

	close_cache(f);
	f->opts.budget = 4100000;
	open_cache(f);
	for (unsigned i = 0; i < 6; i++) {
		struct timespec times[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
		AUTO(source_closep) struct source *s = NULL;
		AUTO(mem_freep) char *path = NULL;
		struct err err = { 0 };

		put_raw(f, i, 1000000, names[i]);
		path = path_of(f, names[i]);
		assert_done(f->cache->ops->open(f->cache, names[i], &s, &err));
		assert_true(figures(f).size <= f->opts.budget);
		utimensat(AT_FDCWD, path, times, 0);
	}
	assert_int_equal(figures(f).n_evicted, 2);
	assert_int_equal(count_files(f), 4);
	f->opts.budget = 4000300;
	for (unsigned i = 0; i < 2; i++) {
		struct err err = { 0 };
		struct source *s = NULL;

		/* The oldest by its time is 2, then 3. */
		restart(f);
		before = f->far->n_opens;
		assert_done(f->cache->ops->open(f->cache, names[i], &s, &err));
		source_close(s);
		assert_int_equal(f->far->n_opens, before + 1);
		assert_done(f->cache->ops->open(f->cache, names[5], &s, &err));
		source_close(s);
		assert_int_equal(f->far->n_opens, before + 1);
		assert_true(figures(f).size <= f->opts.budget);
	}
	{
		AUTO(mem_freep) char *gone = path_of(f, names[2]);
		AUTO(mem_freep) char *there = path_of(f, names[5]);

		assert_int_not_equal(access(gone, F_OK), 0);
		assert_int_equal(access(there, F_OK), 0);
	}
}

static void files_are_bounded_and_large_contents_pass(void **state)
{
	struct cache_fixture *f = *state;
	char name[STORE_CONTENT_NAME_SIZE];

	close_cache(f);
	f->opts.max_files = 3;
	open_cache(f);
	for (unsigned i = 0; i < 8; i++) {
		AUTO(source_closep) struct source *s = NULL;
		struct err err = { 0 };

		put_raw(f, i, 1000, name);
		assert_done(f->cache->ops->open(f->cache, name, &s, &err));
		assert_true(count_files(f) <= 3);
	}
	put_raw(f, 99, BUDGET / 4 + 1, name);
	for (unsigned i = 0; i < 2; i++) {
		AUTO(source_closep) struct source *s = NULL;
		struct err err = { 0 };
		uint8_t got[10];

		assert_done(f->cache->ops->open(f->cache, name, &s, &err));
		assert_done(source_read_full(s, BUDGET / 5, got, sizeof(got), SOURCE_RANDOM, &err));
	}
	assert_int_equal(figures(f).n_passed, 2);
	assert_int_equal(count_files(f), 3);
}

/* ---- several readers ---- */

struct opener {
	struct cache_fixture *f;
	const char *name;
	int r;
	struct err err;
};

static void *open_once(void *arg)
{
	struct opener *o = arg;
	struct source *s = NULL;

	o->r = o->f->cache->ops->open(o->f->cache, o->name, &s, &o->err);
	source_close(s);
	return NULL;
}

#define N_OPENERS 12u
static void open_at_once(struct cache_fixture *f, const char *name, struct opener o[N_OPENERS])
{
	pthread_t threads[N_OPENERS];

	for (unsigned i = 0; i < N_OPENERS; i++) {
		o[i] = (struct opener){ .f = f, .name = name };
		assert_int_equal(pthread_create(&threads[i], NULL, open_once, &o[i]), 0);
	}
	for (unsigned i = 0; i < N_OPENERS; i++)
		pthread_join(threads[i], NULL);
}

static void of_several_readers_one_fetches(void **state)
{
	struct cache_fixture *f = *state;
	struct opener o[N_OPENERS];
	char name[STORE_CONTENT_NAME_SIZE];

	put_raw(f, 3, MIB(3), name);
	open_at_once(f, name, o);
	for (unsigned i = 0; i < N_OPENERS; i++)
		assert_int_equal(o[i].r, 0);
	assert_int_equal(f->far->n_opens, 1);
	assert_int_equal(f->far->n_bytes, MIB(3));
	/* After a restart one of them checks the file. */
	restart(f);
	open_at_once(f, name, o);
	assert_int_equal(f->far->n_opens, 0);
	assert_int_equal(figures(f).n_kept, N_OPENERS);
	assert_int_equal(figures(f).n_fetched, 0);
}

static void all_readers_get_the_failure(void **state)
{
	struct cache_fixture *f = *state;
	struct opener o[N_OPENERS];

	atomic_store(&f->far->away, true);
	open_at_once(f, f->raw, o);
	for (unsigned i = 0; i < N_OPENERS; i++) {
		assert_int_equal(o[i].r, -1);
		assert_true(blob_is_away(&o[i].err));
	}
	atomic_store(&f->far->away, false);
	assert_both_open(f);
}

/* ---- records ---- */

static void assert_record(struct cache_fixture *f, const char *want)
{
	AUTO(buf_done) struct buf got = { 0 };
	struct blob_stamp stamp;
	struct err err = { 0 };

	assert_done(f->cache->ops->get(f->cache, "keys/ab/ab", 100, &got, &stamp, &err));
	assert_str(buf_str(&got), want);
	assert_int_equal(stamp.size, strlen(want));
	assert_true(stamp.id);
}

static void assert_record_is_away(struct cache_fixture *f)
{
	AUTO(buf_done) struct buf got = { 0 };
	struct blob_stamp stamp;
	struct err err = { 0 };

	assert_fails(f->cache->ops->get(f->cache, "keys/ab/ab", 100, &got, &stamp, &err), ERR_IO, "");
	assert_true(blob_is_away(&err));
}

static void a_record_is_answered_from_memory_only_while_the_bucket_is_away(void **state)
{
	static const char *const names[] = { "keys/ab/ab" };
	struct cache_fixture *f = *state;
	AUTO(buf_done) struct buf got = { 0 };
	struct blob_stamp stamp;
	struct err err = { 0 };

	clock_test_freeze(1000000);
	put_blob(f->memory, "keys/ab/ab", bytes_of("one", 3));
	atomic_store(&f->far->away, true);
	assert_record_is_away(f); /* it was never seen */
	atomic_store(&f->far->away, false);
	assert_record(f, "one");
	put_blob(f->memory, "keys/ab/ab", bytes_of("other", 5)); /* by another node */
	assert_record(f, "other");
	atomic_store(&f->far->away, true);
	clock_test_advance(BLOB_CACHE_RECORD_S * 1000);
	assert_record(f, "other");
	assert_int_equal(figures(f).n_stale, 1);
	/* But not for a put: the sender would be told that the object is there. */
	f->cache->ops->look(f->cache, names, 1);
	assert_record_is_away(f);
	f->cache->ops->look_end(f->cache);
	assert_record(f, "other");
	clock_test_advance(1000);
	assert_record_is_away(f);
	/* Seen to be missing, it is not remembered. */
	atomic_store(&f->far->away, false);
	assert_record(f, "other");
	assert_done(f->memory->ops->remove(f->memory, "keys/ab/ab", NULL, &err));
	assert_int_equal(f->cache->ops->get(f->cache, "keys/ab/ab", 100, &got, &stamp, &err), BLOB_MISSING);
	atomic_store(&f->far->away, true);
	assert_record_is_away(f);
}

/* After a write that failed, either version may be there. */
static void a_record_that_this_process_changes_is_forgotten(void **state)
{
	struct cache_fixture *f = *state;
	struct blob_stamp stamp;
	struct err err = { 0 };

	put_blob(f->memory, "keys/ab/ab", bytes_of("one", 3));
	assert_record(f, "one");
	assert_done(f->cache->ops->stat(f->cache, "keys/ab/ab", &stamp, &err));
	atomic_store(&f->far->away, true);
	assert_true(f->cache->ops->put(f->cache, "keys/ab/ab", bytes_of("two", 3), NULL, &stamp, &err) < 0);
	assert_record_is_away(f);
	atomic_store(&f->far->away, false);
	assert_record(f, "one");
	assert_done(f->cache->ops->remove(f->cache, "keys/ab/ab", NULL, &err));
	atomic_store(&f->far->away, true);
	assert_record_is_away(f);
}

/* ---- contents that are put and removed ---- */

static void a_raw_content_that_is_put_is_kept_and_one_that_is_collected_is_not(void **state)
{
	struct cache_fixture *f = *state;
	struct blob_garbage garbage = { .outcome = -1 };
	struct staging s = { .fd = -1 };
	struct err err = { 0 };
	struct source *src = NULL;

	assert_done(f->memory->ops->remove(f->memory, f->raw, NULL, &err));
	assert_done(f->cache->ops->staging(f->cache, STR(""), &s, &err));
	assert_done(staging_write(&s, bytes_of(f->bytes, SIZE), &err));
	assert_done(f->cache->ops->put_staged(f->cache, f->raw, &s, true, &err));
	f->cache->ops->staging_done(f->cache, &s, false);
	assert_opens(f, f->raw, bytes_of(f->bytes, SIZE));
	assert_int_equal(f->far->n_opens, 0);
	snprintf(garbage.name, sizeof(garbage.name), "%s", f->raw);
	assert_done(f->cache->ops->collect(f->cache, &garbage, 1, INT64_MAX, &err));
	assert_int_equal(garbage.outcome, 0);
	assert_int_equal(f->cache->ops->open(f->cache, f->raw, &src, &err), BLOB_MISSING);
	assert_int_equal(count_files(f), 0);
}

/* ---- kills, full disks, two processes ---- */

static void a_kill_leaves_files_that_the_next_start_uses_or_removes(void **state)
{
	struct cache_fixture *f = *state;
	AUTO(mem_freep) char *half = mem_printf("%s/tmp-0", f->dir);
	AUTO(mem_freep) char *foreign = mem_printf("%s/README", f->dir);
	pid_t child;
	int status;

	close_cache(f);
	child = fork();
	if (!child) {
		open_cache(f);
		assert_both_open(f);
		test_file_write(half, "half", 4);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	test_file_write(foreign, "x", 1);
	open_cache(f);
	atomic_store(&f->far->away, true);
	assert_both_open(f);
	assert_int_equal(count_files(f), 2);
}

static void a_folder_is_for_one_process(void **state)
{
	struct cache_fixture *f = *state;
	struct blobs *other = NULL;
	struct err err = { 0 };

	assert_fails(blobs_open_cache(blobs_open_memory(), &f->opts, &other, &err), ERR_BUSY,
		     "another process");
}

static void a_folder_that_fails_costs_no_more_than_the_cache(void **state)
{
	struct cache_fixture *f = *state;
	const struct rlimit small = { 100000, RLIM_INFINITY };
	struct rlimit was;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_both_open(f);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(figures(f).n_passed, 2);
	assert_int_equal(count_files(f), 0);
	assert_both_open(f);
	assert_int_equal(count_files(f), 2);
}

/* ---- as a store ---- */

static void a_store_over_it_reads_and_writes_as_without(void **state)
{
	struct cache_fixture *f = *state;
	struct store *st = store_open_blobs(TAKE(f->cache), &(struct store_options){ 0 });
	struct store_key key = key_of("ab01/symtab/1");
	struct store_meta meta = { .origin = STORE_MADE, .quality = STORE_DWARF };
	AUTO(arena_done) struct arena a = { 0 };
	struct store_verify_result v;
	struct err err = { 0 };

	arena_init(&a);
	for (unsigned i = 0; i < 2; i++) {
		AUTO(source_closep) struct source *s = NULL;
		uint64_t off;
		int fd;

		assert_true(store_put_bytes(st, &key, &meta, i == 0, bytes_of(f->bytes, SIZE), STORE_ALWAYS,
					    &err) >= 0);
		assert_done(store_open_object(st, &key, &a, NULL, &s, &err));
		assert_int_equal(s->size, SIZE);
		assert_int_equal(source_raw_fd(s, &fd, &off), i == 0);
		atomic_store(&f->far->away, true);
		source_close(TAKE(s));
		assert_done(store_open_object(st, &key, &a, NULL, &s, &err));
		atomic_store(&f->far->away, false);
	}
	assert_done(store_verify(st, &(struct store_verify_options){ .remove = false }, &v, &err));
	assert_int_equal(v.n_bad, 0);
	store_close(st);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, set_up_cache, tear_down_cache)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(a_content_is_fetched_once_and_mapped_from_its_file),
		ONE(it_survives_a_restart_and_the_bucket_being_away),
		ONE(a_damaged_file_is_fetched_again_after_a_start),
		ONE(bytes_that_were_damaged_on_their_way_are_not_kept),
		ONE(a_file_that_others_removed_is_fetched_again),
		ONE(the_least_recently_used_go_first_also_after_a_restart),
		ONE(files_are_bounded_and_large_contents_pass),
		ONE(of_several_readers_one_fetches),
		ONE(all_readers_get_the_failure),
		ONE(a_record_is_answered_from_memory_only_while_the_bucket_is_away),
		ONE(a_record_that_this_process_changes_is_forgotten),
		ONE(a_raw_content_that_is_put_is_kept_and_one_that_is_collected_is_not),
		ONE(a_kill_leaves_files_that_the_next_start_uses_or_removes),
		ONE(a_folder_is_for_one_process),
		ONE(a_folder_that_fails_costs_no_more_than_the_cache),
		ONE(a_store_over_it_reads_and_writes_as_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
