/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large contents: uploads in parts, which begin while the staging file still grows. So a push of gigabytes has little left to
 * do when its last byte has come, and the bucket takes a part while the next bytes are received and compressed.
 *
 * An upload has threads of its own, since a part waits for the bucket. Parts are sent out of the staging file, so that an
 * upload takes no memory for them. Nothing is visible before the upload ends. With a note (bucket_parts_note.c) it outlives
 * the process: another one asks the bucket for the parts that are there, and takes those whose bytes are still those of the
 * staging file.
 */
#include "store/bucket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/condition.h"
#include "base/pool.h"

#define THREADS     4u
#define PARTS_MOST  5000u /* of one: S3 allows 10000 */
#define BEGIN_PARTS 2u    /* less is put in one request at the end, or nearly */
#define AGAIN_MS    2000

enum part_state { PART_MISSING, PART_RUNS, PART_THERE };

struct upload_part {
	enum part_state state;
	struct bucket_part part;
};

struct bucket_parts {
	struct blob_bucket *s;
	char content[BLOB_CONTENT_NAME_SIZE];
	char given[GENERATION_SIZE]; /* "": none was given */
	int fd;                      /* of the staging file */
	struct staging mark;         /* parts_mark() */
	char *note_path;             /* NULL: after a kill nobody knows of the upload */
	/* The note's, when the upload is aborted; set before `stop`, or by the thread that begins. NULL: none. */
	char *aside_path;
	uint64_t part_size;
	/* set before `opened` */
	char object[BUCKET_NAME_SIZE], id[BUCKET_UPLOAD_SIZE];
	char generation[GENERATION_SIZE];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	unsigned refs, n_threads;
	uint64_t size; /* of the file, that will not change */
	bool whole;    /* it is the whole file */
	bool opened, is_there /* the content was: there is no upload */, ended;
	bool stop, aborts;
	bool failed;
	unsigned round; /* of bucket_parts_finish() */
	struct err err;
	struct upload_part *v;
	size_t n, room;
};

/* ---- one part ---- */

uint64_t part_hash(const uint8_t sha256[SHA256_SIZE])
{
	uint64_t ret = 0;

	for (size_t i = 0; i < sizeof(ret); i++)
		ret = ret << 8 | sha256[i];
	return ret;
}

/* Wait for one of the parts that may be put at once. */
static void part_slot_take(struct blob_bucket *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->n_parts >= BUCKET_PARTS_AT_ONCE)
		pthread_cond_wait(&s->changed, &s->lock);
	s->n_parts++;
	pthread_mutex_unlock(&s->lock);
}

static void part_slot_give(struct blob_bucket *s)
{
	pthread_mutex_lock(&s->lock);
	s->n_parts--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static struct file_range part_range(const struct bucket_parts *p, size_t i, uint64_t size)
{
	uint64_t off = (uint64_t)i * p->part_size;

	return (struct file_range){ p->fd, off, MIN(p->part_size, size - off) };
}

static int part_send(struct bucket_parts *p, size_t i, uint64_t size, struct bucket_part *ret,
		     struct err *err)
{
	struct file_range range = part_range(p, i, size);
	int r;

	part_slot_take(p->s);
	r = p->s->bucket->ops->upload_part(p->s->bucket, p->object, p->id, (unsigned)i + 1, &range, ret, err);
	part_slot_give(p->s);
	/* The last part grows, if the upload goes on after a failure. */
	if (r == 0 && p->note_path && range.size == p->part_size)
		parts_note_add(p->note_path, p->id, (unsigned)i + 1, ret->hash);
	return r;
}

/* ---- beginning ---- */

/* Under the lock. */
static void parts_reserve(struct bucket_parts *p, size_t n)
{
	while (p->n < n)
		VEC_PUSH(p->v, p->n, p->room) = (struct upload_part){ 0 };
}

/* Take the parts that are in the bucket, and have the bytes of the file. */
static void parts_take_over(struct bucket_parts *p, const struct parts_note *note,
			    const struct bucket_part *there, size_t n_there, uint64_t size)
{
	for (size_t i = 0; i < note->n; i++) {
		const struct parts_note_part *known = &note->v[i];
		size_t at = SEARCH(0, n_there, k, there[k].number < known->number);
		uint8_t sha256[SHA256_SIZE];
		struct file_range range;

		if (at == n_there || there[at].number != known->number || there[at].size != p->part_size ||
		    known->number > size / p->part_size)
			continue;
		range = part_range(p, known->number - 1, size);
		if (sha256_of_file(&range, NULL, NULL, sha256, NULL) < 0 || part_hash(sha256) != known->hash)
			continue;
		pthread_mutex_lock(&p->lock);
		parts_reserve(p, known->number);
		p->v[known->number - 1] = (struct upload_part){ PART_THERE, there[at] };
		pthread_mutex_unlock(&p->lock);
	}
}

/* Is it a note of an upload into this bucket, or of one of older versions, which may be? */
static bool note_is_ours(const struct blob_bucket *s, const struct parts_note *note)
{
	return !note->where[0] || strcmp(note->where, s->bucket->where) == 0;
}

/* Go on with the upload of another process. BUCKET_MISSING: there is none. */
static int parts_resume(struct bucket_parts *p, uint64_t size, struct err *err)
{
	AUTO(mem_freep) struct bucket_part *there = NULL;
	AUTO(parts_note_done) struct parts_note note = { 0 };
	char content[BLOB_CONTENT_NAME_SIZE];
	size_t n = 0;
	int r;

	if (!p->note_path || p->given[0] || !parts_note_read(p->note_path, &note) ||
	    !note_is_ours(p->s, &note) || note.part_size != p->part_size ||
	    !generation_name_read(note.object, content, p->generation) || strcmp(content, p->content) != 0)
		return BUCKET_MISSING;
	r = p->s->bucket->ops->upload_parts(p->s->bucket, note.object, note.id, &there, &n, err);
	if (r)
		return r;
	memcpy(p->object, note.object, sizeof(p->object));
	memcpy(p->id, note.id, sizeof(p->id));
	parts_take_over(p, &note, there, n, size);
	return 0;
}

static bool id_is_plain(const char *id)
{
	for (; *id; id++)
		if ((unsigned char)*id < ' ')
			return false;
	return true;
}

static char *note_aside_path(const char *path)
{
	return mem_printf("%s-%016llx", path, (unsigned long long)random_id());
}

/* The note of an upload that nobody goes on with: the next sweep aborts that. */
static char *note_set_aside(const char *path)
{
	char *aside = note_aside_path(path);

	(void)rename(path, aside);
	return aside;
}

/*
 * Before it begins: set the note aside that could not be resumed, since it is of another bucket, or of another content. If this
 * upload was dropped meanwhile, that note may be of the next one, which runs. Under the lock, so that it is not dropped now.
 */
static int parts_take_note(struct bucket_parts *p, struct err *err)
{
	bool stop;

	pthread_mutex_lock(&p->lock);
	stop = p->stop;
	if (!stop && p->note_path)
		free(note_set_aside(p->note_path));
	pthread_mutex_unlock(&p->lock);
	return stop ? err_set(err, ERR_CANCELLED, "stopped") : 0;
}

/* It has begun. If it was dropped meanwhile, the next upload may have a note: this one is for the sweep. */
static void parts_put_note(struct bucket_parts *p)
{
	struct parts_note note = { .part_size = p->part_size };

	memcpy(note.object, p->object, sizeof(note.object));
	memcpy(note.id, p->id, sizeof(note.id));
	memcpy(note.where, p->s->bucket->where, sizeof(note.where));
	pthread_mutex_lock(&p->lock);
	if (p->stop && !p->aside_path)
		p->aside_path = note_aside_path(p->note_path);
	parts_note_begin(p->stop ? p->aside_path : p->note_path, &note);
	pthread_mutex_unlock(&p->lock);
}

static int parts_begin(struct bucket_parts *p, bool *ret_there, struct err *err)
{
	struct bucket *b = p->s->bucket;
	struct generation g;
	int r = BLOB_MISSING;

	memcpy(p->generation, p->given, sizeof(p->given));
	if (!p->given[0])
		r = bucket_content_next(p->s, p->content, &g, p->generation, err);
	*ret_there = r == 0;
	if (r != BLOB_MISSING)
		return r;
	generation_name_write(p->content, p->generation, p->object);
	if (parts_take_note(p, err) < 0 || b->ops->upload_begin(b, p->object, p->id, err) < 0)
		return -1;
	if (p->note_path && id_is_plain(p->id))
		parts_put_note(p);
	return 0;
}

static int parts_open(struct bucket_parts *p, uint64_t size, bool *ret_there, struct err *err)
{
	int r;

	*ret_there = false;
	if (bucket_ready(p->s, err) < 0)
		return -1;
	r = parts_resume(p, size, err);
	return r == BUCKET_MISSING ? parts_begin(p, ret_there, err) : r;
}

/* ---- the threads ---- */

static void parts_unref(struct bucket_parts *p)
{
	unsigned left;

	pthread_mutex_lock(&p->lock);
	left = --p->refs;
	pthread_mutex_unlock(&p->lock);
	if (left)
		return;
	fd_close(&p->fd);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	staging_dir_done(&p->mark, false);
	free(p->note_path);
	free(p->aside_path);
	free(p->v);
	free(p);
}

/* Under the lock: after a failure, wait. While the file grows it is tried again; then its owner is told. */
static void parts_pause(struct bucket_parts *p)
{
	while (p->failed && p->whole && !p->stop)
		pthread_cond_wait(&p->changed, &p->lock);
	if (p->failed && !p->stop && !condition_wait(&p->changed, &p->lock, AGAIN_MS) && !p->whole)
		p->failed = false;
}

static void parts_fail(struct bucket_parts *p, unsigned round, const struct err *why)
{
	/* A request of before is no failure of the call that waits now: it is made again. */
	if (round != p->round)
		return;
	p->failed = true;
	p->err = *why;
	pthread_cond_broadcast(&p->changed);
}

/* Under the lock: there are all bytes of part @i. */
static bool part_is_ready(const struct bucket_parts *p, size_t i)
{
	uint64_t off = (uint64_t)i * p->part_size;

	return p->whole ? off < p->size : p->size - MIN(off, p->size) >= p->part_size;
}

/* Under the lock: the next part to put; SIZE_MAX: none now. */
static size_t part_next(struct bucket_parts *p)
{
	for (size_t i = 0; part_is_ready(p, i); i++) {
		parts_reserve(p, i + 1);
		if (p->v[i].state == PART_MISSING)
			return i;
	}
	return SIZE_MAX;
}

/* Under the lock. */
static bool parts_are_there(const struct bucket_parts *p)
{
	if (!p->whole || p->n * p->part_size < p->size)
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].state != PART_THERE)
			return false;
	return true;
}

/* Under the lock, which is released meanwhile. */
static void parts_step(struct bucket_parts *p, size_t i)
{
	struct bucket_part part;
	struct err why = { 0 };
	unsigned round = p->round;
	uint64_t size = p->size;
	int r;

	p->v[i].state = PART_RUNS;
	pthread_mutex_unlock(&p->lock);
	r = part_send(p, i, size, &part, &why);
	pthread_mutex_lock(&p->lock);
	p->v[i].state = r == 0 ? PART_THERE : PART_MISSING;
	p->v[i].part = part;
	if (r < 0)
		parts_fail(p, round, &why);
	pthread_cond_broadcast(&p->changed);
}

/* Under the lock, which is released meanwhile. */
static void parts_first_step(struct bucket_parts *p)
{
	unsigned round = p->round;
	uint64_t size = p->size;
	struct err why = { 0 };
	bool there = false;
	int r;

	pthread_mutex_unlock(&p->lock);
	r = parts_open(p, size, &there, &why);
	pthread_mutex_lock(&p->lock);
	if (r < 0)
		parts_fail(p, round, &why);
	p->opened = r == 0;
	p->is_there = there;
	pthread_cond_broadcast(&p->changed);
}

static void parts_thread_add(struct bucket_parts *p);

/* The last thread of an upload that was given up. */
static void parts_abort(struct bucket_parts *p)
{
	struct bucket *b = p->s->bucket;

	if (b->ops->upload_abort(b, p->object, p->id, NULL) == 0) {
		if (p->aside_path)
			unlink(p->aside_path);
	} else {
		log_warn("store",
			 "%s: an upload that was given up may be in the bucket; it is aborted later, or by a "
			 "rule of the bucket",
			 p->object);
	}
}

static void *parts_run(void *arg)
{
	struct bucket_parts *p = arg;
	struct blob_bucket *s = p->s;
	bool aborts;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		size_t i = SIZE_MAX;

		if (p->failed) {
			parts_pause(p);
			continue;
		}
		if (!p->opened) {
			parts_first_step(p);
			continue;
		}
		if (!p->is_there)
			i = part_next(p);
		if (i == SIZE_MAX) {
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		if (p->n_threads < THREADS)
			parts_thread_add(p);
		parts_step(p, i);
	}
	aborts = !--p->n_threads && p->aborts && p->opened && !p->is_there && !p->ended;
	pthread_mutex_unlock(&p->lock);
	if (aborts)
		parts_abort(p);
	parts_unref(p);
	pthread_mutex_lock(&s->lock);
	s->n_threads--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Under the lock. Without a thread nothing is put before the end, which then fails. */
static void parts_thread_add(struct bucket_parts *p)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_mutex_lock(&p->s->lock);
	p->s->n_threads++;
	pthread_mutex_unlock(&p->s->lock);
	p->refs++;
	p->n_threads++;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, parts_run, p) != 0) {
		p->refs--;
		p->n_threads--;
		pthread_mutex_lock(&p->s->lock);
		p->s->n_threads--;
		pthread_mutex_unlock(&p->s->lock);
	}
	pthread_attr_destroy(&attr);
}

/* ---- the owner ---- */

/*
 * The file of a push that was held is in another folder, without a lock. After a kill its upload begins anew, and the sweep
 * aborts the one before: it must not while this process lives, so the note goes by an empty file that this process locks.
 */
static void parts_mark(struct bucket_parts *p)
{
	struct err err = { 0 };

	if (staging_dir_open(p->s->dir, STR(""), &p->mark, &err) < 0)
		log_warn("store", "%s; after a kill the bucket would keep the parts of an upload", err.text);
	else
		p->note_path = parts_note_path(&p->mark);
}

struct bucket_parts *bucket_parts_new(struct blob_bucket *s, const struct staging *staging,
				      const char *content, const char *generation, uint64_t all)
{
	struct bucket_parts *p = NEW(struct bucket_parts);

	p->s = s;
	p->mark.fd = -1;
	snprintf(p->content, sizeof(p->content), "%s", content);
	if (generation)
		memcpy(p->given, generation, sizeof(p->given));
	/*
	 * Its own descriptor: a duplicate would share the lock of the staging file. The file of a push that was held has no
	 * lock, and no name here.
	 */
	p->fd = staging->path ? open(staging->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
			      : fcntl(staging->fd, F_DUPFD_CLOEXEC, 0);
	p->note_path = parts_note_path(staging);
	if (!staging->path)
		parts_mark(p);
	/* A content in frames may be a little longer than @all. */
	p->part_size = MAX((uint64_t)BUCKET_PART_SIZE, all / PARTS_MOST + 1);
	p->refs = 1;
	pthread_mutex_init(&p->lock, NULL);
	condition_init(&p->changed);
	return p;
}

void bucket_parts_grow(struct bucket_parts *p, uint64_t size)
{
	pthread_mutex_lock(&p->lock);
	if (size > p->size && !p->whole) {
		p->size = size;
		if (!p->n_threads && size > BEGIN_PARTS * p->part_size)
			parts_thread_add(p);
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
}

/* Under the lock: does this upload yield what is wanted? */
static bool parts_fit(const struct bucket_parts *p, const char *content, const char *last)
{
	return strcmp(p->content, content) == 0 && !p->ended && !p->is_there &&
	       (!p->opened || !last[0] || strcmp(p->generation, last) > 0);
}

/* All parts are in the bucket: join them. */
static int parts_join(struct bucket_parts *p, struct err *err)
{
	AUTO(mem_freep) struct bucket_part *v = NEW_N(struct bucket_part, p->n);
	struct bucket *b = p->s->bucket;
	int r;

	for (size_t i = 0; i < p->n; i++)
		v[i] = p->v[i].part;
	r = b->ops->upload_end(b, p->object, p->id, v, p->n, err);
	if (r == 0 && p->note_path)
		unlink(p->note_path);
	return r;
}

int bucket_parts_finish(struct bucket_parts *p, const char *content, const char *last, uint64_t size,
			char ret_object[BUCKET_NAME_SIZE], struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&p->lock);
	p->size = size;
	p->whole = true;
	p->failed = false;
	p->round++;
	if (p->fd >= 0 && !p->n_threads)
		parts_thread_add(p);
	pthread_cond_broadcast(&p->changed);
	while (p->n_threads && !p->failed && parts_fit(p, content, last) && !parts_are_there(p))
		pool_condition_wait(&p->changed, &p->lock);
	if (!parts_fit(p, content, last))
		r = BLOB_CHANGED;
	else if (p->failed || !p->n_threads)
		r = -1;
	if (r < 0 && err)
		*err = p->err;
	if (r < 0 && !p->failed)
		(void)err_set(err, ERR_IO, "the upload cannot begin: no thread, or its staging file is gone");
	pthread_mutex_unlock(&p->lock);
	/* No thread changes it now. */
	if (r == 0)
		r = parts_join(p, err);
	if (r)
		return r;
	pthread_mutex_lock(&p->lock);
	p->ended = true;
	pthread_mutex_unlock(&p->lock);
	memcpy(ret_object, p->object, BUCKET_NAME_SIZE);
	return 0;
}

void bucket_parts_drop(struct bucket_parts *p, bool keep)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	p->aborts = !keep || !p->note_path;
	/* The next upload of this staging file must not go on with one that is being aborted. */
	if (p->aborts && p->note_path && !p->ended)
		p->aside_path = note_set_aside(p->note_path);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	parts_unref(p);
}

/* ---- what was left ---- */

/* Is the staging file of that note there? */
static bool has_staging(int dir_fd, const char *leaf)
{
	const char *id = leaf + sizeof(PARTS_NOTE) - 1;
	AUTO(mem_freep) char *part = mem_printf("part-%s", id);
	struct stat st;

	return fstatat(dir_fd, part, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	       fstatat(dir_fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Once in a process: what is in another bucket cannot be aborted here. */
static void parts_tell_other(struct blob_bucket *s, const char *path, const struct parts_note *note)
{
	bool told;

	pthread_mutex_lock(&s->lock);
	told = s->told_other;
	s->told_other = true;
	pthread_mutex_unlock(&s->lock);
	if (!told)
		log_info("store",
			 "%s: an upload in parts has not ended in another bucket (%s): it is aborted when "
			 "that is the store again, or by a rule of that bucket; then remove this file",
			 path, note->where);
}

void bucket_parts_sweep(struct blob_bucket *s)
{
	AUTO(mem_freep) char *dir = mem_printf("%s/tmp", s->dir);
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO(mem_freep) char *path = mem_printf("%s/%s", dir, e->d_name);
		AUTO(parts_note_done) struct parts_note note = { 0 };
		bool known;

		if (!str_starts(str_of(e->d_name), STR(PARTS_NOTE)) || has_staging(dirfd(d), e->d_name))
			continue;
		known = parts_note_read(path, &note);
		if (known && !note_is_ours(s, &note))
			parts_tell_other(s, path, &note);
		else if (known ? s->bucket->ops->upload_abort(s->bucket, note.object, note.id, NULL) == 0
			       : !note.is_unread)
			unlink(path);
	}
	if (d)
		closedir(d);
}
