/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty.h"

#include <errno.h>

static struct faulty *faulty_of(struct blobs *b)
{
	return CONTAINER_OF(b, struct faulty, blobs);
}

static int faulty_fail(struct faulty *f, struct err *err)
{
	(void)err_set(err, ERR_IO, "the test's fault");
	if (err)
		err->os = f->os;
	return -1;
}

static int reads(struct faulty *f, struct err *err)
{
	return atomic_load(&f->away) || atomic_load(&f->left) == 0 ? faulty_fail(f, err) : 0;
}

static int changes(struct faulty *f, struct err *err)
{
	int left = atomic_load(&f->left);

	while (left > 0 && !atomic_compare_exchange_weak(&f->left, &left, left - 1))
		;
	return atomic_load(&f->away) || left == 0 ? faulty_fail(f, err) : 0;
}

/* ---- sources ---- */

struct faulty_source {
	struct source source;
	struct source *under;
	struct faulty *f;
	bool damaged;
};

static int faulty_read(struct source *base, uint64_t off, void *buf, size_t n, enum source_hint hint,
		       size_t *ret_got, struct err *err)
{
	struct faulty_source *s = CONTAINER_OF(base, struct faulty_source, source);
	uint64_t at = s->under->size / 2;

	if (reads(s->f, err) < 0 || source_read(s->under, off, buf, n, hint, ret_got, err) < 0)
		return -1;
	atomic_fetch_add(&s->f->n_bytes, *ret_got);
	if (s->damaged && off <= at && at - off < *ret_got)
		((uint8_t *)buf)[at - off] ^= 0x20;
	return 0;
}

static void faulty_source_close(struct source *base)
{
	struct faulty_source *s = CONTAINER_OF(base, struct faulty_source, source);

	source_close(s->under);
	source_fini(base);
	free(s);
}

static const struct source_ops source_ops = { .read = faulty_read, .close = faulty_source_close };

/* ---- the calls ---- */

static int faulty_staging(struct blobs *b, struct str name, struct staging *ret, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return changes(f, err) < 0 ? -1 : f->under->ops->staging(f->under, name, ret, err);
}

static void faulty_staging_done(struct blobs *b, struct staging *s, bool keep)
{
	struct faulty *f = faulty_of(b);

	f->under->ops->staging_done(f->under, s, keep);
}

static int faulty_staging_note(struct blobs *b, struct staging *s, const struct staging_note *note,
			       struct err *err)
{
	struct faulty *f = faulty_of(b);

	return f->under->ops->staging_note(f->under, s, note, err);
}

static int faulty_notes(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
			struct err *err)
{
	struct faulty *f = faulty_of(b);

	return f->under->ops->notes(f->under, fn, arg, err);
}

static int faulty_put_staged(struct blobs *b, const char *name, struct staging *s, bool keep, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return changes(f, err) < 0 ? -1 : f->under->ops->put_staged(f->under, name, s, keep, err);
}

static int faulty_put(struct blobs *b, const char *name, struct bytes content, const char *needs,
		      const struct blob_stamp *expect, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return changes(f, err) < 0 ? -1 : f->under->ops->put(f->under, name, content, needs, expect, err);
}

static int faulty_settle(struct blobs *b, const char *name, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return reads(f, err) < 0 ? -1 : f->under->ops->settle(f->under, name, err);
}

static int faulty_settle_all(struct blobs *b, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return reads(f, err) < 0 ? -1 : f->under->ops->settle_all(f->under, err);
}

static int faulty_open(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	struct faulty *f = faulty_of(b);
	struct faulty_source *s;
	struct source *under;
	int r;

	atomic_fetch_add(&f->n_opens, 1);
	if (reads(f, err) < 0)
		return -1;
	if (atomic_load(&f->removed))
		return BLOB_MISSING;
	r = f->under->ops->open(f->under, name, &under, err);
	if (r)
		return r;
	s = NEW(struct faulty_source);
	source_init(&s->source, &source_ops, under->size, under->mtime, under->name);
	s->under = under;
	s->f = f;
	if (atomic_load(&f->n_damaged) > 0) {
		atomic_fetch_sub(&f->n_damaged, 1);
		s->damaged = true;
	}
	*ret = &s->source;
	return 0;
}

static int faulty_get(struct blobs *b, const char *name, size_t max, struct buf *ret,
		      struct blob_stamp *ret_stamp, struct err *err)
{
	struct faulty *f = faulty_of(b);

	atomic_fetch_add(&f->n_gets, 1);
	return reads(f, err) < 0 ? -1 : f->under->ops->get(f->under, name, max, ret, ret_stamp, err);
}

static int faulty_stat(struct blobs *b, const char *name, struct blob_stamp *ret, struct err *err)
{
	struct faulty *f = faulty_of(b);

	atomic_fetch_add(&f->n_stats, 1);
	if (reads(f, err) < 0)
		return -1;
	return atomic_load(&f->removed) ? BLOB_MISSING : f->under->ops->stat(f->under, name, ret, err);
}

static int faulty_touch(struct blobs *b, const char *name, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return changes(f, err) < 0 ? -1 : f->under->ops->touch(f->under, name, err);
}

static int faulty_remove(struct blobs *b, const char *name, const struct blob_stamp *seen, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return changes(f, err) < 0 ? -1 : f->under->ops->remove(f->under, name, seen, err);
}

static int faulty_collect(struct blobs *b, struct blob_garbage *v, size_t n, int64_t not_after_ns,
			  struct err *err)
{
	struct faulty *f = faulty_of(b);

	return changes(f, err) < 0 ? -1 : f->under->ops->collect(f->under, v, n, not_after_ns, err);
}

static int faulty_list(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		       struct err *err)
{
	struct faulty *f = faulty_of(b);

	return reads(f, err) < 0 ? -1 : f->under->ops->list(f->under, prefix, after, fn, arg, err);
}

static int faulty_staged(struct blobs *b, uint64_t *ret_bytes, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return f->under->ops->staged(f->under, ret_bytes, err);
}

static int faulty_sweep(struct blobs *b, uint64_t *ret_n, struct err *err)
{
	struct faulty *f = faulty_of(b);

	return f->under->ops->sweep(f->under, ret_n, err);
}

static void faulty_close(struct blobs *b)
{
	struct faulty *f = faulty_of(b);

	f->under->ops->close(f->under);
	free(f);
}

static const struct blobs_ops faulty_ops = {
	.staging = faulty_staging,
	.staging_done = faulty_staging_done,
	.staging_note = faulty_staging_note,
	.notes = faulty_notes,
	.put_staged = faulty_put_staged,
	.put = faulty_put,
	.settle = faulty_settle,
	.settle_all = faulty_settle_all,
	.open = faulty_open,
	.get = faulty_get,
	.stat = faulty_stat,
	.touch = faulty_touch,
	.remove = faulty_remove,
	.collect = faulty_collect,
	.list = faulty_list,
	.staged = faulty_staged,
	.sweep = faulty_sweep,
	.close = faulty_close,
};

struct faulty *faulty_new(struct blobs *under)
{
	struct faulty *f = NEW(struct faulty);

	f->blobs.ops = &faulty_ops;
	f->under = under;
	f->os = ENOTCONN;
	atomic_init(&f->left, -1);
	return f;
}
