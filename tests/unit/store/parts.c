/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads in parts into a bucket: begun while the staging file grows, continued by another process, aborted. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include "store/bucket.h"
#include "store/internal.h"

#define NAME "data/ab/abababababababababababababababababababababababababababababababab"
#define SIZE (5 * BUCKET_PART_SIZE + 1000)

struct parts_fixture {
	char dir[TEST_PATH_SIZE];
	struct bucket_memory *memory;
	const char *where; /* the bucket's; NULL: unknown */
	struct bucket *bucket;
	struct blobs *b;
	uint8_t *bytes;
	atomic_uint n_parts, n_begun;
	atomic_bool away;
	atomic_uint away_after; /* so many parts; 0: no */
	atomic_bool late;       /* of the parts that fail, one fails late: when another one is put again */
	atomic_bool waits;      /* it does */
	atomic_bool swept;
	const char *held_op; /* the first one waits until `held` is false; NULL: none */
	atomic_bool held, is_held;
};

static void hold_operation(struct parts_fixture *f, const char *op)
{
	if (!f->held_op || strcmp(op, f->held_op) != 0 || atomic_exchange(&f->is_held, true))
		return;
	for (unsigned i = 0; i < 20000 && atomic_load(&f->held); i++)
		usleep(1000);
}

static int count_operation(void *arg, const char *op, const char *name, struct err *err)
{
	struct parts_fixture *f = arg;

	hold_operation(f, op);
	if (atomic_load(&f->away)) {
		if (strcmp(op, "part") == 0 && atomic_exchange(&f->late, false)) {
			unsigned n = atomic_load(&f->n_parts);

			f->waits = true;
			for (unsigned i = 0; i < 20000 && atomic_load(&f->n_parts) == n; i++)
				usleep(1000);
		}
		(void)err_set(err, ERR_IO, "away");
		if (err)
			err->os = ENOTCONN;
		return -1;
	}
	if (strcmp(op, "part") == 0 && atomic_fetch_add(&f->n_parts, 1) + 1 == f->away_after)
		f->away = true;
	if (strcmp(op, "upload") == 0)
		atomic_fetch_add(&f->n_begun, 1);
	return 0;
}

static void blobs_reopen(struct parts_fixture *f)
{
	struct bucket *bucket = bucket_open_memory(f->memory, count_operation, f);
	struct err err = { 0 };

	if (f->b)
		f->b->ops->close(f->b);
	snprintf(bucket->where, sizeof(bucket->where), "%s", f->where ? f->where : "");
	assert_done(blobs_open_bucket(bucket, f->dir, true, &f->b, &err));
}

static int set_up(void **state)
{
	struct parts_fixture *f = NEW(struct parts_fixture);
	uint64_t random = 1;

	test_dir_make(f->dir);
	f->memory = bucket_memory_new();
	f->bucket = bucket_open_memory(f->memory, NULL, NULL);
	f->bytes = mem_alloc(SIZE);
	for (size_t i = 0; i < SIZE; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		f->bytes[i] = (uint8_t)(random >> 33);
	}
	blobs_reopen(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct parts_fixture *f = *state;

	if (f->b)
		f->b->ops->close(f->b);
	f->bucket->ops->close(f->bucket);
	bucket_memory_free(f->memory);
	test_dir_remove(f->dir);
	free(f->bytes);
	free(f);
	return 0;
}

static struct staging staging_open(struct parts_fixture *f, const char *name)
{
	struct staging s = { .fd = -1 };
	struct err err = { 0 };

	assert_done(f->b->ops->staging(f->b, str_of(name), &s, &err));
	return s;
}

/* Write up to @size, and note it. */
static void staging_fill(struct parts_fixture *f, struct staging *s, uint64_t size)
{
	const struct staging_note note = { STR("it"), size, size, SIZE, .time_s = clock_wall_s() };
	struct err err = { 0 };

	assert_done(staging_write(s, bytes_of(f->bytes + s->size, size - s->size), &err));
	assert_done(f->b->ops->staging_note(f->b, s, &note, &err));
}

static void wait_for_parts(struct parts_fixture *f, unsigned n)
{
	for (unsigned i = 0; atomic_load(&f->n_parts) < n; i++) {
		assert_true(i < 20000);
		usleep(1000);
	}
}

static void assert_put(struct parts_fixture *f, const char *name)
{
	AUTO(mem_freep) uint8_t *got = mem_alloc(SIZE);
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };

	assert_done(f->b->ops->open(f->b, name, &s, &err));
	assert_int_equal(s->size, SIZE);
	assert_done(source_read_full(s, 0, got, SIZE, SOURCE_RANDOM, &err));
	assert_memory_equal(got, f->bytes, SIZE);
}

static void parts_are_put_while_the_file_grows(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");
	struct err err = { 0 };

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 2 * BUCKET_PART_SIZE);
	assert_int_equal(f->n_begun, 0);
	staging_fill(f, &s, 4 * BUCKET_PART_SIZE + 5);
	wait_for_parts(f, 4);
	staging_fill(f, &s, SIZE);
	assert_done(f->b->ops->put_staged(f->b, NAME, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_int_equal(f->n_parts, 6);
	assert_int_equal(f->n_begun, 1);
	assert_put(f, NAME);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

/* With three parts of it in the bucket. */
static void leave_upload(struct parts_fixture *f)
{
	struct staging s = staging_open(f, "it");

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE + 7);
	wait_for_parts(f, 3);
	f->b->ops->staging_done(f->b, &s, true);
}

static void go_on_with_upload(struct parts_fixture *f)
{
	struct staging s = staging_open(f, "it");
	struct err err = { 0 };

	assert_int_equal(s.size, 3 * BUCKET_PART_SIZE + 7);
	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, SIZE);
	assert_done(f->b->ops->put_staged(f->b, NAME, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_put(f, NAME);
}

static void another_process_goes_on(void **state)
{
	struct parts_fixture *f = *state;

	f->where = "here s3://debug/";
	blobs_reopen(f);
	leave_upload(f);
	blobs_reopen(f);
	assert_int_equal(bucket_memory_uploads(f->memory), 1);
	go_on_with_upload(f);
	assert_int_equal(f->n_parts, 6);
	assert_int_equal(f->n_begun, 1);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

/* An older version has left a note that names no bucket. */
static void another_version_goes_on(void **state)
{
	struct parts_fixture *f = *state;

	f->where = NULL;
	leave_upload(f);
	f->where = "here s3://debug/";
	blobs_reopen(f);
	go_on_with_upload(f);
	assert_int_equal(f->n_begun, 1);
	assert_int_equal(f->n_parts, 6);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

/* The same ids may be those of other uploads there. */
static void an_upload_into_another_bucket_is_left_alone(void **state)
{
	struct parts_fixture *f = *state;
	struct bucket_memory *first = f->memory, *second = bucket_memory_new();
	struct bucket *other = bucket_open_memory(second, NULL, NULL);
	char id[BUCKET_UPLOAD_SIZE];
	struct err err = { 0 };
	uint64_t n;

	f->where = "here s3://debug/";
	blobs_reopen(f);
	leave_upload(f);
	/* Another node's upload there has the id of ours here. */
	assert_done(other->ops->upload_begin(other, "data/other", id, &err));
	f->memory = second;
	f->where = "there s3://debug/";
	blobs_reopen(f);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	go_on_with_upload(f);
	assert_int_equal(f->n_begun, 2);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(second), 1);
	assert_int_equal(bucket_memory_uploads(first), 1);
	/* It is the store again. */
	f->memory = first;
	f->where = "here s3://debug/";
	blobs_reopen(f);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(first), 0);
	f->b->ops->close(TAKE(f->b));
	other->ops->close(other);
	bucket_memory_free(second);
}

static unsigned n_in_tmp(struct parts_fixture *f)
{
	AUTO(mem_freep) char *path = mem_printf("%s/tmp", f->dir);
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/*
 * The bucket is slow: an upload has not begun when its client is gone, and the next one with that staging file runs. The note
 * of that must stay where it is, or a sweep aborts it.
 */
static void begin_late(struct parts_fixture *f, const char *op)
{
	struct staging s = staging_open(f, "it");
	struct blobs *late = f->b;
	struct err err = { 0 };
	size_t n_left;
	uint64_t n;
	int r;

	f->held_op = op;
	f->held = true;
	late->ops->staging_expect(late, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE + 7);
	while (!f->is_held)
		usleep(1000);
	late->ops->staging_done(late, &s, true);
	f->b = NULL;
	blobs_reopen(f);
	s = staging_open(f, "it");
	assert_int_equal(s.size, 3 * BUCKET_PART_SIZE + 7);
	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	wait_for_parts(f, 3);
	f->held = false;
	late->ops->close(late); /* waits for the thread */
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	n_left = bucket_memory_uploads(f->memory);
	staging_fill(f, &s, SIZE);
	r = f->b->ops->put_staged(f->b, NAME, &s, true, &err);
	f->b->ops->staging_done(f->b, &s, false);
	assert_done(r);
	assert_int_equal(n_left, 1);
	assert_put(f, NAME);
	assert_int_equal(n_in_tmp(f), 0);
}

static void an_upload_that_has_not_begun_leaves_the_next_one_alone(void **state)
{
	begin_late(*state, "list");
}

static void an_upload_that_begins_late_leaves_the_next_one_alone(void **state)
{
	begin_late(*state, "upload");
}

/* Its generation is given: nobody knew at first that it would be this content. */
static void an_upload_that_is_not_continued_is_swept(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s;
	struct err err = { 0 };
	uint64_t n;

	leave_upload(f);
	blobs_reopen(f);
	s = staging_open(f, "it");
	staging_fill(f, &s, SIZE);
	assert_done(f->b->ops->put_staged(f->b, NAME, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_int_equal(f->n_begun, 2);
	assert_put(f, NAME);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

/* Bytes that were lost in a crash, and came again in another form. */
static void parts_of_other_bytes_are_put_again(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");
	struct err err = { 0 };

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE + 7);
	wait_for_parts(f, 3);
	f->b->ops->staging_done(f->b, &s, true);
	blobs_reopen(f);
	s = staging_open(f, "it");
	f->bytes[BUCKET_PART_SIZE + 9] ^= 1;
	assert_done(fd_pwrite(s.fd, f->bytes + BUCKET_PART_SIZE + 9, 1, BUCKET_PART_SIZE + 9, &err));
	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, SIZE);
	assert_done(f->b->ops->put_staged(f->b, NAME, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_int_equal(f->n_parts, 7);
	assert_put(f, NAME);
}

static void another_content_is_put_from_its_beginning(void **state)
{
	static const char other[] = "data/cd/"
				    "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");
	struct blob_stamp stamp;
	struct err err = { 0 };

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, SIZE);
	assert_done(f->b->ops->put_staged(f->b, other, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_put(f, other);
	assert_int_equal(f->b->ops->stat(f->b, NAME, &stamp, &err), BLOB_MISSING);
	blobs_reopen(f); /* waits for the threads */
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

static void an_upload_that_is_given_up_is_aborted(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE);
	wait_for_parts(f, 3);
	f->b->ops->staging_done(f->b, &s, false);
	blobs_reopen(f);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

static void an_upload_without_its_staging_file_is_swept(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");
	struct err err = { 0 };
	uint64_t n;

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE);
	wait_for_parts(f, 3);
	f->b->ops->staging_done(f->b, &s, true);
	blobs_reopen(f);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 1);
	/* The client begins anew, with another file. */
	s = staging_open(f, "it");
	f->b->ops->staging_done(f->b, &s, false);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

/* As after a kill: the bucket is away when it should be aborted. */
static void an_upload_of_a_file_without_a_name_is_swept(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "");
	struct err err = { 0 };
	uint64_t n;

	assert_done(staging_write(&s, bytes_of(f->bytes, SIZE), &err));
	f->away_after = 2;
	assert_int_equal(f->b->ops->put_staged(f->b, NAME, &s, true, &err), -1);
	f->away = false;
	/* Its writer may try again. */
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 1);
	f->away = true;
	f->b->ops->staging_done(f->b, &s, false);
	f->b->ops->close(TAKE(f->b));
	f->away = false;
	blobs_reopen(f);
	assert_int_equal(bucket_memory_uploads(f->memory), 1);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

/* Another writer has the name, so the file is removed at the end; nobody could go on with its upload. */
static void an_upload_of_a_file_without_a_name_is_not_kept(void **state)
{
	struct parts_fixture *f = *state;
	struct staging other = staging_open(f, "it"), s = staging_open(f, "it");

	assert_null(s.note_path);
	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE);
	wait_for_parts(f, 3);
	f->b->ops->staging_done(f->b, &s, true);
	f->b->ops->staging_done(f->b, &other, false);
	blobs_reopen(f);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

static void a_bucket_that_comes_back_gets_the_rest(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");
	struct err err = { 0 };

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE);
	wait_for_parts(f, 3);
	f->away = true;
	staging_fill(f, &s, SIZE);
	assert_int_equal(f->b->ops->put_staged(f->b, NAME, &s, true, &err), -1);
	assert_true(blob_is_away(&err));
	f->away = false;
	assert_done(f->b->ops->put_staged(f->b, NAME, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_int_equal(f->n_parts, 6);
	assert_put(f, NAME);
}

/* Its file has no name, and no lock. */
static int put_held(struct parts_fixture *f, struct store *st, struct err *err)
{
	struct store_meta meta = { .origin = STORE_PUSHED, .size = SIZE, .stored_size = SIZE, .raw = true };
	AUTO(mem_freep) char *path = mem_printf("%s/1.content", f->dir);
	struct store_key key;
	int fd;

	test_file_write(path, f->bytes, SIZE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && store_key_parse(STR("ab/debuginfo"), &key));
	sha256_of(bytes_of(f->bytes, SIZE), meta.sha256);
	return put_commit_held(st, fd, &key, &meta, STORE_IF_OWNED, err);
}

/* As after a kill: the bucket is away when the upload should be aborted. */
static void the_upload_of_a_held_push_is_swept(void **state)
{
	struct parts_fixture *f = *state;
	struct store *st = store_open_blobs(TAKE(f->b), &(struct store_options){ 0 });
	struct err err = { 0 };
	uint64_t n;

	f->away_after = 2;
	assert_int_equal(put_held(f, st, &err), -1);
	assert_true(blob_is_away(&err));
	store_close(st);
	assert_int_equal(bucket_memory_uploads(f->memory), 1);
	f->away = false;
	blobs_reopen(f);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
	assert_int_equal(n_in_tmp(f), 0);
}

static int sweep_at_part(void *arg, const char *op, const char *name, struct err *err)
{
	struct parts_fixture *f = arg;
	uint64_t n;

	if (strcmp(op, "part") == 0 && atomic_fetch_add(&f->n_parts, 1) == 1)
		f->swept = f->b->ops->sweep(f->b, &n, err) == 0;
	return 0;
}

/* Another process collects garbage meanwhile. */
static void the_upload_of_a_held_push_is_not_swept_while_it_runs(void **state)
{
	struct parts_fixture *f = *state;
	struct blobs *b = NULL;
	struct store *st;
	struct err err = { 0 };

	assert_done(
		blobs_open_bucket(bucket_open_memory(f->memory, sweep_at_part, f), f->dir, true, &b, &err));
	st = store_open_blobs(b, &(struct store_options){ 0 });
	assert_done(put_held(f, st, &err));
	assert_true(f->swept);
	store_close(st);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
	assert_int_equal(n_in_tmp(f), 0);
}

static void a_large_push_that_was_held_is_put(void **state)
{
	struct parts_fixture *f = *state;
	AUTO(source_closep) struct source *s = NULL;
	AUTO(mem_freep) uint8_t *got = mem_alloc(SIZE);
	AUTO(arena_done) struct arena a = { 0 };
	struct store *st = store_open_blobs(TAKE(f->b), &(struct store_options){ 0 });
	struct store_key key;
	struct err err = { 0 };

	arena_init(&a);
	assert_true(store_key_parse(STR("ab/debuginfo"), &key));
	assert_done(put_held(f, st, &err));
	assert_done(store_open_object(st, &key, &a, NULL, &s, &err));
	assert_done(source_read_full(s, 0, got, SIZE, SOURCE_RANDOM, &err));
	assert_memory_equal(got, f->bytes, SIZE);
	source_close(TAKE(s));
	store_close(st);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
	blobs_reopen(f);
}

/* A torn line, as after a crash: the parts of the lines before it are known. */
/* The next try does not fail by a request of the one before. */
static void a_part_that_fails_late_is_put_again(void **state)
{
	struct parts_fixture *f = *state;
	struct staging s = staging_open(f, "it");
	struct err err = { 0 };

	f->b->ops->staging_expect(f->b, &s, NAME, SIZE);
	staging_fill(f, &s, 3 * BUCKET_PART_SIZE);
	wait_for_parts(f, 3);
	f->late = f->away = true;
	staging_fill(f, &s, SIZE);
	assert_int_equal(f->b->ops->put_staged(f->b, NAME, &s, true, &err), -1);
	while (!f->waits)
		usleep(1000);
	f->away = false;
	assert_done(f->b->ops->put_staged(f->b, NAME, &s, true, &err));
	f->b->ops->staging_done(f->b, &s, false);
	assert_put(f, NAME);
}

/* A lack of descriptors is no damage of a note; a link to itself fails as well. */
static void a_note_that_cannot_be_read_now_stays(void **state)
{
	struct parts_fixture *f = *state;
	AUTO(mem_freep) char *path = mem_printf("%s/tmp/parts-x", f->dir);
	AUTO(mem_freep) char *damaged = mem_printf("%s/tmp/parts-y", f->dir);
	struct err err = { 0 };
	struct stat st;
	uint64_t n;

	assert_int_equal(symlink("parts-x", path), 0);
	test_file_write(damaged, "lode parts 1\nobject: x\n", 23);
	assert_done(f->b->ops->sweep(f->b, &n, &err));
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(lstat(damaged, &st), -1);
}

static void a_torn_note_is_read_up_to_the_tear(void **state)
{
	struct parts_fixture *f = *state;
	AUTO(mem_freep) char *path = mem_printf("%s/parts-x", f->dir);
	AUTO(parts_note_done) struct parts_note got = { 0 };
	struct parts_note note = {
		.object = NAME "!g", .id = "upload 1", .part_size = 7, .where = "h s3://b/"
	};
	AUTO(fd_close) int fd = -1;

	parts_note_begin(path, &note);
	parts_note_add(path, note.id, 1, 11);
	parts_note_add(path, "another upload", 2, 22);
	parts_note_add(path, note.id, 3, 33);
	fd = open(path, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "4 00000000", 10), 10);
	assert_true(parts_note_read(path, &got));
	assert_string_equal(got.object, note.object);
	assert_string_equal(got.id, note.id);
	assert_int_equal(got.part_size, 7);
	assert_string_equal(got.where, note.where);
	assert_int_equal(got.n, 2);
	assert_int_equal(got.v[1].number, 3);
	assert_int_equal(got.v[1].hash, 33);
	fd_close(&fd);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 20), 1);
	parts_note_done(&got);
	assert_false(parts_note_read(path, &got));
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		ONE(parts_are_put_while_the_file_grows),
		ONE(another_process_goes_on),
		ONE(parts_of_other_bytes_are_put_again),
		ONE(another_content_is_put_from_its_beginning),
		ONE(an_upload_that_is_given_up_is_aborted),
		ONE(an_upload_without_its_staging_file_is_swept),
		ONE(a_bucket_that_comes_back_gets_the_rest),
		ONE(a_part_that_fails_late_is_put_again),
		ONE(an_upload_of_a_file_without_a_name_is_swept),
		ONE(an_upload_of_a_file_without_a_name_is_not_kept),
		ONE(another_version_goes_on),
		ONE(an_upload_into_another_bucket_is_left_alone),
		ONE(an_upload_that_is_not_continued_is_swept),
		ONE(an_upload_that_has_not_begun_leaves_the_next_one_alone),
		ONE(an_upload_that_begins_late_leaves_the_next_one_alone),
		ONE(a_large_push_that_was_held_is_put),
		ONE(the_upload_of_a_held_push_is_swept),
		ONE(the_upload_of_a_held_push_is_not_swept_while_it_runs),
		ONE(a_note_that_cannot_be_read_now_stays),
		ONE(a_torn_note_is_read_up_to_the_tear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
