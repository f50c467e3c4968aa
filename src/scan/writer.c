/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer: the one thread that changes the index. Changes come through a bounded queue and are committed
 * in batches, so that a walk over a hundred thousand files is not a hundred thousand transactions. Callbacks
 * run after the commit.
 *
 * A batch that fails is rolled back and its changes are tried one by one, so that one that cannot be stored
 * does not take others with it. The callback of a lost change (disk full) gets ok = false: the walk or the
 * job that made it makes it again later. No change is stored in part.
 */
#include <stdlib.h>
#include <unistd.h>
#include "scan/internal.h"

#define QUEUE_SIZE 2048u

struct scan_writer {
	struct index *index;
	struct queue *queue;
	char *points_dir;
	size_t max_inline_points;
	void (*indexed)(void *arg, const struct build_id *id, struct str path);
	void *indexed_arg;
	void (*remakes)(void *arg, bool begins);
	void *remakes_arg;
	pthread_t thread;
	struct buf old_points; /* files, each with its NUL, to be removed after the transaction */
	atomic_uint n_lost, n_lost_files;
};

/* Is the row still of the file that the result was made from? Another walk may have replaced it meanwhile. */
static bool row_is_current(struct scan_writer *w, const struct index_file *f)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file now;
	struct err ignored;

	arena_init(&a);
	return index_file_by_id(w->index, f->id, &a, &now, &ignored) == 0 && now.generation == f->generation;
}

/* The row of these points is deleted in this transaction: until it is committed they are still needed. */
static void points_forget(struct scan_writer *w, const struct index_file *f)
{
	AUTO(buf_done) struct buf path = { 0 };

	if (!w->points_dir || !f->points_size)
		return;
	scan_points_path(w->points_dir, f, &path);
	buf_add(&w->old_points, buf_cstr(&path), strlen(buf_cstr(&path)) + 1);
}

static void points_remove_old(struct scan_writer *w)
{
	const char *p = (const char *)w->old_points.p;

	for (size_t at = 0; at < w->old_points.size; at += strlen(p + at) + 1)
		unlink(p + at);
	w->old_points.size = 0;
}

static int change_apply_map(struct scan_writer *w, struct change *c, struct err *err)
{
	AUTO(buf_done) struct buf path = { 0 };
	size_t points_size = c->deep->points.size;
	struct index_content content;

	if (!row_is_current(w, &c->file))
		return 0;
	if (points_size && points_size <= w->max_inline_points) {
		pkg_map_attach_points(&c->deep->map, buf_bytes(&c->deep->points));
		points_size = 0;
	}
	if (!w->points_dir)
		points_size = 0;
	if (points_size) {
		scan_points_path(w->points_dir, &c->file, &path);
		if (file_write_durable(buf_cstr(&path), c->deep->points.p, points_size, 0644, err) < 0)
			return err_in(err, "resume points");
	}
	content = (struct index_content){
		.map = buf_bytes(&c->deep->map),
		.points_size = points_size,
		.artifacts = c->deep->artifacts,
		.n_artifacts = c->deep->n_artifacts,
		.aliases = c->deep->aliases,
		.n_aliases = c->deep->n_aliases,
		.dirs = c->deep->dirs,
		.n_dirs = c->deep->n_dirs,
	};
	return index_set_map(w->index, c->file.id, &content, err);
}

/* The old content of @path is gone, and with it its resume points. */
static void points_forget_path(struct scan_writer *w, struct str path)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct index_file old;
	struct err ignored;

	arena_init(&a);
	if (index_file_by_path(w->index, path, &a, &old, &ignored) == 0)
		points_forget(w, &old);
}

static int change_apply(struct scan_writer *w, struct change *c, struct err *err)
{
	switch (c->kind) {
	case CHANGE_PUT:
		if (c->only_if_same && !row_is_current(w, &c->file))
			return 0;
		points_forget_path(w, c->file.path);
		if (index_put(w->index, &c->file, err) < 0)
			return -1;
		if (index_add_artifacts(w->index, c->file.id, c->artifacts, c->n_artifacts, err) < 0)
			return -1;
		return index_add_aliases(w->index, c->file.id, c->aliases, c->n_aliases, err);
	case CHANGE_FAIL:
		if (c->fail_after_put) {
			points_forget_path(w, c->file.path);
			if (index_put(w->index, &c->file, err) < 0)
				return -1;
		} else if (!row_is_current(w, &c->file)) {
			return 0;
		}
		return index_fail(w->index, c->file.id, &c->why, c->next_try_s, err);
	case CHANGE_MAP:
		return change_apply_map(w, c, err);
	case CHANGE_TOUCH:
		if (!row_is_current(w, &c->file))
			return 0;
		return index_touch(w->index, c->file.id, c->file.mtime_ns, c->file.inode, c->file.dev, err);
	case CHANGE_AGAIN:
		if (!row_is_current(w, &c->file))
			return 0;
		points_forget(w, &c->file);
		return index_reset(w->index, c->file.id, err);
	case CHANGE_DEL:
		/* Since it was found to be gone the path may have got another file. */
		if (!row_is_current(w, &c->file))
			return 0;
		points_forget(w, &c->file);
		return index_del(w->index, c->file.id, err);
	case CHANGE_DEL_DAMAGED:
		return index_del_damaged(w->index, c->file.id, err);
	case CHANGE_TIDY:
	case CHANGE_FENCE:
		return 0;
	}
	return 0;
}

/* Report each build ID that can be found from now on. */
static void writer_report(struct scan_writer *w, const struct change *c)
{
	bool plain = c->kind == CHANGE_PUT && c->file.kind == INDEX_PLAIN;
	const struct index_artifact *list = c->kind == CHANGE_MAP ? c->deep->artifacts : c->artifacts;
	size_t n = c->kind == CHANGE_MAP ? c->deep->n_artifacts : c->kind == CHANGE_PUT ? c->n_artifacts : 0;

	const struct index_alias *aliases = c->kind == CHANGE_MAP ? c->deep->aliases : c->aliases;
	size_t n_aliases = c->kind == CHANGE_MAP   ? c->deep->n_aliases
			   : c->kind == CHANGE_PUT ? c->n_aliases
						   : 0;

	for (size_t i = 0; w->indexed && i < n; i++)
		w->indexed(w->indexed_arg, &list[i].build_id,
			   plain                   ? c->file.path
			   : c->kind == CHANGE_MAP ? c->deep->paths[i]
						   : STR(""));
	for (size_t i = 0; w->indexed && i < n_aliases; i++)
		w->indexed(w->indexed_arg, &aliases[i].alias, plain ? c->file.path : STR(""));
}

static void change_finish(struct scan_writer *w, struct change **list, size_t n, bool ok)
{
	for (size_t i = 0; i < n; i++) {
		if (ok) {
			stats_committed(list[i]);
			writer_report(w, list[i]);
		}
		if (list[i]->done)
			list[i]->done(list[i]->arg, ok);
		change_free(list[i]);
	}
}

static void writer_rollback(struct scan_writer *w)
{
	index_rollback(w->index);
	w->old_points.size = 0;
}

/* One transaction. NOT_BEGUN: it could not begin, so its changes one by one could not either. */
enum { NOT_BEGUN = -2 };
static int changes_commit(struct scan_writer *w, struct change **list, size_t n, struct err *err)
{
	if (index_begin(w->index, err) < 0)
		return NOT_BEGUN;
	for (size_t i = 0; i < n; i++) {
		if (change_apply(w, list[i], err) < 0) {
			writer_rollback(w);
			return err_in(err, STR_FMT, STR_ARG(list[i]->file.path));
		}
	}
	if (index_commit(w->index, err) < 0) {
		writer_rollback(w);
		return -1;
	}
	points_remove_old(w);
	return 0;
}

/* A map that cannot be stored is a failure like any other: it is visible, and tried again later. */
static bool change_store_failure(struct scan_writer *w, struct change *c, const struct err *why)
{
	struct err ignored;

	if (c->kind != CHANGE_MAP)
		return false;
	c->kind = CHANGE_FAIL;
	c->fail_after_put = false;
	c->why = *why;
	c->next_try_s = retry_at(clock_wall_s(), c->file.tries);
	return changes_commit(w, &c, 1, &ignored) == 0;
}

/* Is this the only sign of a file, or of its new content? */
static bool change_is_of_new_file(const struct change *c)
{
	return (c->kind == CHANGE_PUT && !c->only_if_same) || (c->kind == CHANGE_FAIL && c->fail_after_put);
}

static void changes_store(struct scan_writer *w, struct change **list, size_t n)
{
	struct err err = { 0 };
	size_t n_lost = 0;
	int r = changes_commit(w, list, n, &err);

	if (r == 0) {
		change_finish(w, list, n, true);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		bool ok = false;

		if (r != NOT_BEGUN) {
			struct err why = { 0 };

			r = n > 1 ? changes_commit(w, &list[i], 1, &why) : -1;
			if (n == 1)
				why = err;
			ok = r == 0 || (r != NOT_BEGUN && change_store_failure(w, list[i], &why));
			if (r < 0)
				err = why;
		}
		n_lost += !ok && list[i]->kind != CHANGE_FENCE;
		/* Before a fence behind it has passed. */
		if (!ok && change_is_of_new_file(list[i]))
			atomic_fetch_add(&w->n_lost_files, 1);
		change_finish(w, &list[i], 1, ok);
	}
	if (n_lost)
		log_error("index", "%zu of %zu changes were not stored: %s", n_lost, n, err.text);
	else
		log_warn("index", "%s", err.text);
	atomic_fetch_add(&w->n_lost, (unsigned)n_lost);
}

/* Store the queued changes, up to a batch. A tidy-up runs by itself, outside of any transaction. */
static void batch_store(struct scan_writer *w, struct change *first)
{
	struct change *list[SCAN_BATCH], *tidy = NULL;
	size_t n = 0;
	void *item = first;

	do {
		struct change *c = item;

		if (c->kind == CHANGE_TIDY) {
			tidy = c;
			break;
		}
		list[n++] = c;
	} while (n < SCAN_BATCH && queue_try_pop(w->queue, &item) == 0);
	if (n)
		changes_store(w, list, n);
	if (tidy) {
		struct err err = { 0 };
		bool ok = index_tidy(w->index, tidy->all, &err) == 0;

		if (!ok)
			log_warn("index", "tidying up: %s", err.text);
		change_finish(w, &tidy, 1, ok);
	}
}

/* On any thread: wake the writer. With a full queue it looks after its batch. */
static void writer_note_damage(void *arg)
{
	struct scan_writer *w = arg;
	struct change *c = change_new(CHANGE_FENCE);

	if (queue_try_push(w->queue, c) != 0)
		change_free(c);
}

/*
 * The index is made anew from the files. Until the walk that does so has ended, the scan is unfinished, and nothing is
 * reported as missing.
 */
static void writer_remake(struct scan_writer *w)
{
	AUTO(mem_freep) char *aside = NULL;
	struct err err = { 0 };

	if (w->remakes)
		w->remakes(w->remakes_arg, true);
	if (index_remake(w->index, &aside, &err) == 0)
		log_error("index",
			  "a page of the database is damaged: it is set aside as %s, and the folders are "
			  "scanned again; check the disk",
			  aside);
	else
		log_error("index",
			  "a page of the database is damaged, and it cannot be made anew (%s): requests that "
			  "need the page fail; check the disk, then start the service again",
			  err.text);
	if (w->remakes)
		w->remakes(w->remakes_arg, false);
}

static void *writer_main(void *arg)
{
	struct scan_writer *w = arg;
	void *item;

	pthread_setname_np(pthread_self(), "index-writer");
	while (queue_pop(w->queue, -1, &item) == 0) {
		batch_store(w, item);
		if (index_is_damaged(w->index))
			writer_remake(w);
	}
	return NULL;
}

int writer_start(const struct scan_options *o, void (*remakes)(void *arg, bool begins), void *remakes_arg,
		 struct scan_writer **ret, struct err *err)
{
	struct scan_writer *w = NEW(struct scan_writer);
	struct index_options opts = { 0 };

	if (index_open(o->index_path, &opts, &w->index, err) < 0) {
		free(w);
		return -1;
	}
	w->queue = queue_new(QUEUE_SIZE);
	w->points_dir = o->points_dir ? mem_strdup(o->points_dir) : NULL;
	w->max_inline_points = o->max_inline_points ? o->max_inline_points : SCAN_INLINE_POINTS;
	w->indexed = o->indexed;
	w->indexed_arg = o->indexed_arg;
	w->remakes = remakes;
	w->remakes_arg = remakes_arg;
	index_on_damage(w->index, writer_note_damage, w);
	if (pthread_create(&w->thread, NULL, writer_main, w) != 0) {
		queue_free(w->queue);
		index_close(w->index);
		free(w->points_dir);
		free(w);
		return err_set(err, ERR_LIMIT, "cannot start the thread of the index writer");
	}
	*ret = w;
	return 0;
}

void writer_push(struct scan_writer *w, struct change *c)
{
	if (queue_push(w->queue, c) != 0) {
		if (c->done)
			c->done(c->arg, false);
		change_free(c);
	}
}

unsigned writer_lost(struct scan_writer *w)
{
	return atomic_exchange(&w->n_lost, 0);
}

unsigned writer_lost_files(struct scan_writer *w)
{
	return atomic_exchange(&w->n_lost_files, 0);
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

void writer_fence(struct scan_writer *w)
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

void writer_stop(struct scan_writer *w)
{
	if (!w)
		return;
	index_on_damage(w->index, NULL, NULL);
	queue_close(w->queue);
	pthread_join(w->thread, NULL);
}

void writer_free(struct scan_writer *w)
{
	if (!w)
		return;
	queue_free(w->queue);
	index_close(w->index);
	buf_done(&w->old_points);
	free(w->points_dir);
	free(w);
}
