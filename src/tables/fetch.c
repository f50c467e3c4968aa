/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a table is built of, from the resolver. Where the resolver has to wait (for a package to be
 * scanned, for another server) the step ends, and the build's task is kicked to go on.
 */
#include "tables/internal.h"

void fetched_done(struct fetched *t)
{
	elf_close(t->img);
	source_close(t->src);
	budget_hold_done(&t->copies);
	*t = (struct fetched){ 0 };
}

/* ---- failures ---- */

static enum frame_reason frame_reason_of(enum resolve_reason why)
{
	switch (why) {
	case RESOLVE_NOT_HERE:
		return FRAME_UNKNOWN;
	case RESOLVE_UPSTREAM_404:
		return FRAME_UPSTREAM_404;
	case RESOLVE_UPSTREAM_FAILED:
	case RESOLVE_UPSTREAM_UNUSABLE:
		return FRAME_UPSTREAM_FAILED;
	case RESOLVE_UPSTREAM_TIMED_OUT:
		return FRAME_TIMED_OUT;
	case RESOLVE_UPSTREAM_NOT_ELF:
		return FRAME_NOT_ELF;
	case RESOLVE_DAMAGED:
		break;
	}
	return FRAME_DAMAGED;
}

static enum make_outcome fetch_missing(struct make_failure *f, enum frame_reason reason)
{
	f->reason = reason;
	return MAKE_MISSING;
}

enum frame_reason fetch_reason_of(const struct err *err)
{
	return err->kind == ERR_BUSY ? FRAME_BUSY : frame_reason_of(resolve_reason_of(err));
}

/* f->err is set. */
static enum make_outcome fetch_failed(struct make_failure *f)
{
	return fetch_missing(f, fetch_reason_of(&f->err));
}

/* ---- bytes ---- */

/* From now on @t is read from a file of ours. */
static int fetched_copy(struct build *b, struct fetched *t, struct err *err)
{
	const struct copy_options o = { b->tables->temp_dir, &t->copies, &b->tables->cancel,
					b->tables->opts.room };
	struct source *src;

	budget_hold_init(&t->copies, b->tables->disk, BUDGET_TABLE);
	if (tables_copy(t->src, t->img, &o, &src, err) < 0)
		return err_in(err, "a temporary copy in %s", o.dir);
	elf_close(TAKE(t->img));
	source_close(t->src);
	t->src = src;
	return 0;
}

int fetched_make_random(struct build *b, struct fetched *t, struct err *err)
{
	uint64_t off;
	int fd;

	if (!t->img || source_raw_fd(t->src, &fd, &off))
		return 0;
	if (fetched_copy(b, t, err) < 0)
		return -1;
	return elf_open(t->src, &t->img, err) == 0 ? 0 : -1;
}

static void no_wake_here(void *arg)
{
	(void)arg;
}

/* A local build waits for nothing: a file that is not here now may still come. */
static enum make_outcome fetch_here(struct build *b, struct fetched *t, struct resolve_request *req,
				    struct resolve_why *why, struct make_failure *ret)
{
	int r;

	req->not_further = "the files here are used while other servers are asked";
	r = resolve(b->tables->opts.resolver, req, (struct resolve_wake){ no_wake_here, NULL }, &t->answer,
		    why, &ret->err);
	if (r < 0)
		return fetch_missing(ret, frame_reason_of(why->reason));
	if (r)
		return fetch_missing(ret, FRAME_PENDING);
	t->src = t->answer.source;
	return t->answer.arrived ? fetch_missing(ret, FRAME_PENDING) : MAKE_DONE;
}

static enum make_outcome fetch_open(struct build *b, struct fetched *t, enum resolve_kind kind,
				    const struct build_id *id, struct arena *a, struct make_failure *ret)
{
	struct resolve_request req = { .kind = kind,
				       .id = *id,
				       .dynsym = t->dynsym,
				       .client = build_is_for_client(b) ? RESOLVE_FOR_ADDRESSES
									: RESOLVE_FOR_NAMING };
	struct resolve_why why;
	struct task_waker *w;
	int r;

	resolve_why_init(&why, a);
	if (b->is_local)
		return fetch_here(b, t, &req, &why, ret);
	w = task_waker_new(&b->task);
	r = resolve(b->tables->opts.resolver, &req, (struct resolve_wake){ task_waker_fire, w }, &t->answer,
		    &why, &ret->err);
	if (r == RESOLVE_WAIT)
		return MAKE_WAITS;
	task_waker_return(&b->task, w);
	if (r)
		return fetch_missing(ret, r == RESOLVE_BUSY ? FRAME_BUSY : frame_reason_of(why.reason));
	t->src = t->answer.source;
	return MAKE_DONE;
}

/* All bytes of an opened file. */
static enum make_outcome fetch_all(struct build *b, struct fetched *t, struct make_failure *ret)
{
	if (t->answer.arrived) {
		struct task_waker *w = task_waker_new(&b->task);
		uint64_t last = t->src->size ? t->src->size - 1 : 0, have;
		int r = t->answer.arrived(t->src, last, task_waker_fire, w, &have, &ret->err);

		if (r == RESOLVE_WAIT)
			return MAKE_WAITS;
		task_waker_return(&b->task, w);
		if (r < 0)
			return fetch_failed(ret);
		t->answer.arrived = NULL;
	}
	if (t->answer.sequential_only && fetched_copy(b, t, &ret->err) < 0)
		return fetch_failed(ret);
	return MAKE_DONE;
}

enum make_outcome fetch_source(struct build *b, struct fetched *t, enum resolve_kind kind,
			       const struct build_id *id, struct arena *a, struct make_failure *ret)
{
	enum make_outcome r = MAKE_DONE;

	*ret = (struct make_failure){ 0 };
	if (!t->src)
		r = fetch_open(b, t, kind, id, a, ret);
	if (r == MAKE_DONE)
		r = fetch_all(b, t, ret);
	if (r == MAKE_MISSING)
		fetched_done(t);
	return r;
}

enum make_outcome fetch_elf(struct build *b, struct fetched *t, enum resolve_kind kind,
			    const struct build_id *id, struct arena *a, struct make_failure *ret)
{
	enum make_outcome outcome = fetch_source(b, t, kind, id, a, ret);
	int r;

	if (outcome != MAKE_DONE)
		return outcome;
	r = elf_open(t->src, &t->img, &ret->err);
	if (r == 0)
		return MAKE_DONE;
	if (r == ELF_NOT_ELF) {
		(void)!elf_foreign_source_err(t->src, &ret->err);
		outcome = fetch_missing(ret, FRAME_NOT_ELF);
	} else {
		outcome = fetch_failed(ret);
	}
	fetched_done(t);
	return outcome;
}
