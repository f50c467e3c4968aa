/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading all contents and comparing each with the SHA-256 in its name. Those that are far away are read several at a time;
 * the calling thread judges the damaged ones.
 *
 * With the option `remove` a damaged content is removed with all records that name it, and so is a damaged record: a missing
 * object can be fetched or pushed again, a damaged one would be served.
 */
#include "base/condition.h"
#include "store/internal.h"

#include <stdlib.h>

#define CHECKS_FAR 16u /* at once, of contents that are far away */
#define REPORT_MS  200

/* A content that is not whole. */
struct verify_found {
	size_t content;
	int outcome; /* of content_check() */
	struct err why;
};

struct verify {
	struct store *st;
	struct refs c;
	struct map
		rivals; /* names of records -> index + 1 of their first BLOB_RIVAL; the others come after it */
	const struct store_verify_options *o;
	struct store_verify_result result;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	size_t next, n_checked;
	uint64_t bytes_checked;
	struct verify_found *found;
	size_t n_found, room_found;
	unsigned n_running;
	_Atomic bool stop;
};

static void verify_report(void *arg, struct str what, const struct err *why)
{
	struct verify *v = arg;

	v->result.n_bad++;
	if (v->o->bad)
		v->o->bad(v->o->arg_bad, what, why);
}

/* ---- removing records ---- */

static void verify_note_rivals(struct verify *v)
{
	for (size_t i = 0; i < v->c.n_records; i++) {
		const struct refs_record *record = &v->c.records[i];
		struct bytes name = bytes_of(record->name, strlen(record->name));

		if (record->place == BLOB_RIVAL && !record->past && !map_get(&v->rivals, name))
			map_put(&v->rivals, name, (void *)(uintptr_t)(i + 1));
	}
}

/* BLOB_CHANGED: not now. */
static int verify_keep_rivals(struct verify *v, const char *name, struct err *err)
{
	size_t i = (size_t)(uintptr_t)map_get(&v->rivals, bytes_of(name, strlen(name)));

	for (; i && i <= v->c.n_records && strcmp(v->c.records[i - 1].name, name) == 0; i++) {
		int r = v->c.records[i - 1].place == BLOB_RIVAL
				? past_add_rival(v->st, &v->c.records[i - 1], err)
				: 0;

		if (r < 0 || r == BLOB_CHANGED)
			return r;
	}
	return 0;
}

/*
 * The record that readers take, as it was when it was counted. All versions of a record are removed with it, but a rival may
 * be the one that was acknowledged, and is whole: it becomes an earlier version.
 */
static int verify_remove_present(struct verify *v, const char *name, const struct blob_stamp *stamp,
				 struct err *err)
{
	struct blobs *b = v->st->blobs;
	int r = verify_keep_rivals(v, name, err);

	if (r == 0)
		r = b->ops->remove(b, name, stamp, err);
	v->result.n_removed += r == 0;
	return MIN(r, 0);
}

/* Report all records that name content @at, and with @remove remove them. */
static int verify_condemn(struct verify *v, size_t at, bool remove, const struct err *why, struct err *err)
{
	for (uint32_t i = v->c.contents[at].last; i; i = v->c.records[i - 1].before) {
		const struct refs_record *record = &v->c.records[i - 1];

		/* Another version than the present one is removed by the collector. */
		if (record->place != BLOB_PRESENT)
			continue;
		verify_report(v, str_of(record->name), why);
		if (remove && verify_remove_present(v, record->name, &record->stamp, err) < 0)
			return -1;
	}
	return 0;
}

/* A record that is damaged itself. Its content becomes garbage. One that cannot be read now stays. */
static int verify_remove_bad(struct verify *v, struct err *err)
{
	struct blobs *b = v->st->blobs;

	for (size_t i = 0; i < v->c.n_bad; i++) {
		const struct refs_bad *bad = &v->c.bad[i];
		int r;

		if (!bad->is_damaged || bad->place == BLOB_BESIDE)
			continue;
		if (bad->place == BLOB_PRESENT) {
			if (verify_remove_present(v, bad->name, &bad->stamp, err) < 0)
				return -1;
			continue;
		}
		r = b->ops->remove_beside(b, bad->name, &bad->stamp, err);
		if (r < 0)
			return -1;
		v->result.n_removed += r == 0;
	}
	return 0;
}

/* A bad sector, which may be read the next time: its records are reported, and nothing is removed. */
static bool verify_is_unreadable(const struct err *why)
{
	return why->kind == ERR_IO && why->os && !blob_is_away(why);
}

static int verify_judge(struct verify *v, const struct verify_found *f, struct err *err)
{
	bool remove = v->o->remove && !(f->outcome < 0 && verify_is_unreadable(&f->why));
	const struct refs_content *content = &v->c.contents[f->content];
	struct blobs *b = v->st->blobs;
	struct err why = f->why;
	struct blob_garbage bad;

	store_content_name(content->sha256, content->raw, bad.name);
	if (f->outcome < 0 && !content_is_damaged(&why) && !verify_is_unreadable(&why)) {
		*err = why;
		return -1;
	}
	/* It may have been evicted meanwhile: then its records are gone too. */
	if (f->outcome == BLOB_MISSING) {
		if (content->there || !content->n_records)
			return 0;
		(void)err_set(&why, ERR_INVALID, "%s: its content is missing", bad.name);
	}
	/* A content without records is garbage, as the one of an object whose bytes were pushed again: no object is bad. */
	if (verify_condemn(v, f->content, remove, &why, err) < 0)
		return -1;
	/* Remove it at once, not with the garbage: a later push of the same bytes would take it for valid. */
	return remove && content->there ? b->ops->collect(b, &bad, 1, v->c.from_ns, err) : 0;
}

/* ---- the threads that read ---- */

static int verify_read(void *arg, uint64_t n)
{
	struct verify *v = arg;

	return atomic_load(&v->stop) ? 1 : 0;
}

static bool verify_next(struct verify *v, size_t *ret)
{
	bool more;

	pthread_mutex_lock(&v->lock);
	more = v->next < v->c.n_contents && !atomic_load(&v->stop);
	*ret = v->next;
	v->next += more;
	pthread_mutex_unlock(&v->lock);
	return more;
}

static void *verify_main(void *arg)
{
	struct verify *v = arg;
	size_t i;

	while (verify_next(v, &i)) {
		const struct refs_content *content = &v->c.contents[i];
		struct verify_found f = { .content = i };

		f.outcome = content_check(v->st, content->sha256, content->raw, verify_read, v, &f.why);
		pthread_mutex_lock(&v->lock);
		v->n_checked++;
		v->bytes_checked += content->stored_size;
		if (f.outcome)
			VEC_PUSH(v->found, v->n_found, v->room_found) = f;
		pthread_mutex_unlock(&v->lock);
	}
	pthread_mutex_lock(&v->lock);
	v->n_running--;
	pthread_cond_signal(&v->changed);
	pthread_mutex_unlock(&v->lock);
	return NULL;
}

/* ---- the calling thread ---- */

/* Wait a while, and judge those that were found meanwhile. *ret_runs: there will be more. */
static int verify_step(struct verify *v, bool *ret_runs, struct err *err)
{
	const struct store_verify_options *o = v->o;
	struct verify_found *found;
	size_t n, n_checked;
	uint64_t bytes;
	int r = 0;

	pthread_mutex_lock(&v->lock);
	if (v->n_running)
		condition_wait(&v->changed, &v->lock, REPORT_MS);
	*ret_runs = v->n_running;
	found = TAKE(v->found);
	n = v->n_found;
	v->n_found = v->room_found = 0;
	n_checked = v->n_checked;
	bytes = v->bytes_checked;
	pthread_mutex_unlock(&v->lock);
	for (size_t i = 0; i < n && r == 0; i++)
		r = verify_judge(v, &found[i], err);
	free(found);
	if (r == 0 && o->progress && o->progress(o->arg, n_checked, v->c.n_contents, bytes, v->c.bytes))
		r = err_set(err, ERR_CANCELLED, "stopped");
	return r;
}

static int verify_run(struct verify *v, struct err *err)
{
	unsigned want = v->st->blobs->remote ? CHECKS_FAR : 1, n = 0;
	pthread_t threads[CHECKS_FAR];
	bool runs = true;
	int r = 0;

	pthread_mutex_lock(&v->lock);
	while (n < want && pthread_create(&threads[n], NULL, verify_main, v) == 0)
		n++;
	v->n_running = n;
	pthread_mutex_unlock(&v->lock);
	if (!n)
		return err_set(err, ERR_LIMIT, "cannot start a thread");
	while (runs && r == 0)
		r = verify_step(v, &runs, err);
	atomic_store(&v->stop, r < 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return r;
}

int store_verify(struct store *st, const struct store_verify_options *o, struct store_verify_result *ret,
		 struct err *err)
{
	struct verify v = { .st = st, .o = o };
	int r;

	if (refs_count(st, &v.c, verify_report, &v, err) < 0)
		return -1;
	pthread_mutex_init(&v.lock, NULL);
	condition_init(&v.changed);
	if (o->remove)
		verify_note_rivals(&v);
	r = o->remove ? verify_remove_bad(&v, err) : 0;
	if (r == 0)
		r = verify_run(&v, err);
	v.result.n_contents = v.n_checked;
	v.result.n_objects = v.c.n_records - v.c.n_past - v.c.n_beside;
	v.result.bytes = v.bytes_checked;
	free(v.found);
	map_done(&v.rivals);
	pthread_cond_destroy(&v.changed);
	pthread_mutex_destroy(&v.lock);
	refs_done(&v.c);
	if (r < 0)
		return err_in(err, "store");
	*ret = v.result;
	return 0;
}
