/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer: the one thread that changes the index. Changes come by a bounded queue and are committed in
 * batches, so that a walk over a hundred thousand files is not a hundred thousand transactions. Who wants to
 * know is told after the commit.
 *
 * A batch that fails (disk full) is rolled back and lost, and its owners are told so: the walk or the job
 * that made a change makes it again, later. Nothing is half there.
 */
#include <stdlib.h>
#include <unistd.h>
#include "scan/internal.h"

#define QUEUE_SIZE 2048u

struct writer {
	struct index *index;
	struct queue *queue;
	char *points_dir;
	pthread_t thread;
};

struct change *change_new(enum change_kind kind)
{
	struct change *c = NEW(struct change);

	c->kind = kind;
	arena_init(&c->arena);
	return c;
}

void change_free(struct change *c)
{
	if (!c)
		return;
	if (c->deep) {
		deep_result_done(c->deep);
		free(c->deep);
	}
	arena_done(&c->arena);
	free(c);
}

void scan_points_path(const char *points_dir, const struct index_file *f, struct buf *ret)
{
	buf_printf(ret, "%s/%lld.%016llx", points_dir, (long long)f->id, (unsigned long long)f->generation);
	buf_cstr(ret);
}

/* Is the file still the one that the result was made from? Another walk may have replaced it meanwhile. */
static bool still_that(struct writer *w, const struct index_file *f)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file now;
	struct err ignored;

	arena_init(&a);
	return index_file_by_id(w->index, f->id, &a, &now, &ignored) == 0 && now.generation == f->generation;
}

static void points_remove(struct writer *w, const struct index_file *f)
{
	AUTO(buf_done) struct buf path = { 0 };

	if (!w->points_dir)
		return;
	scan_points_path(w->points_dir, f, &path);
	unlink(buf_cstr(&path));
}

static int apply_map(struct writer *w, struct change *c, struct err *err)
{
	AUTO(buf_done) struct buf path = { 0 };
	size_t points_size = c->deep->points.size;

	if (!still_that(w, &c->file))
		return 0;
	if (!w->points_dir)
		points_size = 0;
	if (points_size) {
		scan_points_path(w->points_dir, &c->file, &path);
		if (file_write_durable(buf_cstr(&path), c->deep->points.p, points_size, 0644, err) < 0)
			return err_in(err, "resume points");
	}
	return index_set_map(w->index, c->file.id, buf_bytes(&c->deep->map), points_size, c->deep->artifacts,
			     c->deep->n_artifacts, c->deep->dirs, c->deep->n_dirs, err);
}

/* A path's old content is gone: so are its resume points. */
static void forget_points_of(struct writer *w, struct str path)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file old;
	struct err ignored;

	arena_init(&a);
	if (index_file_by_path(w->index, path, &a, &old, &ignored) == 0 && old.points_size)
		points_remove(w, &old);
}

static int apply(struct writer *w, struct change *c, struct err *err)
{
	switch (c->kind) {
	case CHANGE_PUT:
		forget_points_of(w, c->file.path);
		if (index_put(w->index, &c->file, err) < 0)
			return -1;
		return index_add_artifacts(w->index, c->file.id, c->artifacts, c->n_artifacts, err);
	case CHANGE_FAIL:
		if (c->fail_after_put) {
			forget_points_of(w, c->file.path);
			if (index_put(w->index, &c->file, err) < 0)
				return -1;
		} else if (!still_that(w, &c->file)) {
			return 0;
		}
		return index_fail(w->index, c->file.id, &c->why, c->next_try_s, err);
	case CHANGE_MAP:
		return apply_map(w, c, err);
	case CHANGE_TOUCH:
		return index_touch(w->index, c->file.id, c->file.mtime_ns, c->file.inode, c->file.dev, err);
	case CHANGE_DEL:
		if (c->file.points_size)
			points_remove(w, &c->file);
		return index_del(w->index, c->file.id, err);
	case CHANGE_TIDY:
	case CHANGE_FENCE:
		return 0;
	}
	return 0;
}

static void finish(struct change **list, size_t n, bool ok)
{
	for (size_t i = 0; i < n; i++) {
		if (ok)
			stats_committed(list[i]);
		if (list[i]->done)
			list[i]->done(list[i]->arg, ok);
		change_free(list[i]);
	}
}

/* A batch: one transaction. A tidy-up runs by itself, outside of any. */
static void batch(struct writer *w, struct change *first)
{
	struct change *list[SCAN_BATCH], *tidy = NULL;
	struct err err = { 0 };
	size_t n = 0;
	bool ok;
	void *item = first;

	ok = index_begin(w->index, &err) == 0;
	do {
		struct change *c = item;

		if (c->kind == CHANGE_TIDY) {
			tidy = c;
			break;
		}
		list[n++] = c;
		if (ok && apply(w, c, &err) < 0) {
			err_in(&err, STR_FMT, STR_ARG(c->file.path));
			ok = false;
		}
	} while (n < SCAN_BATCH && queue_try_pop(w->queue, &item) == 0);
	if (ok)
		ok = index_commit(w->index, &err) == 0;
	if (!ok) {
		index_rollback(w->index);
		log_error("index", "%zu changes were not stored: %s", n, err.text);
	}
	finish(list, n, ok);
	if (tidy) {
		ok = index_tidy(w->index, tidy->all, &err) == 0;
		if (!ok)
			log_warn("index", "tidying up: %s", err.text);
		finish(&tidy, 1, ok);
	}
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	void *item;

	pthread_setname_np(pthread_self(), "index-writer");
	while (queue_pop(w->queue, -1, &item) == 0)
		batch(w, item);
	return NULL;
}

int writer_start(const char *index_path, const char *points_dir, struct writer **ret, struct err *err)
{
	struct writer *w = NEW(struct writer);
	struct index_options opts = { 0 };

	if (index_open(index_path, &opts, &w->index, err) < 0) {
		free(w);
		return -1;
	}
	w->queue = queue_new(QUEUE_SIZE);
	w->points_dir = points_dir ? mem_strdup(points_dir) : NULL;
	if (pthread_create(&w->thread, NULL, writer_main, w) != 0) {
		queue_free(w->queue);
		index_close(w->index);
		free(w->points_dir);
		free(w);
		return err_set(err, ERR_LIMIT, "no thread for the index writer");
	}
	*ret = w;
	return 0;
}

void writer_push(struct writer *w, struct change *c)
{
	if (queue_push(w->queue, c) != 0) {
		if (c->done)
			c->done(c->arg, false);
		change_free(c);
	}
}

struct fence {
	pthread_mutex_t lock;
	pthread_cond_t passed;
	bool done;
};

static void fence_done(void *arg, bool ok)
{
	struct fence *f = arg;

	pthread_mutex_lock(&f->lock);
	f->done = true;
	pthread_cond_signal(&f->passed);
	pthread_mutex_unlock(&f->lock);
}

void writer_fence(struct writer *w)
{
	struct fence f = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	struct change *c = change_new(CHANGE_FENCE);

	c->done = fence_done;
	c->arg = &f;
	writer_push(w, c);
	pthread_mutex_lock(&f.lock);
	while (!f.done)
		pthread_cond_wait(&f.passed, &f.lock);
	pthread_mutex_unlock(&f.lock);
	pthread_mutex_destroy(&f.lock);
	pthread_cond_destroy(&f.passed);
}

void writer_stop(struct writer *w)
{
	if (!w)
		return;
	queue_close(w->queue);
	pthread_join(w->thread, NULL);
	queue_free(w->queue);
	index_close(w->index);
	free(w->points_dir);
	free(w);
}
