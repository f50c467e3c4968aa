/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that puts held pushes into the bucket when it is back, one after the other, by the rules that hold then: the
 * owner of an object may have changed meanwhile, at another node.
 *
 * A push is removed from the folder after it was committed. A kill in between puts it again: the bytes are there by then,
 * or, if another push has taken its place, a later one, which stays.
 */
#include "store/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_PAUSE_MS 500
#define PAUSE_MAX_MS   10000

struct hold_putter {
	struct store *st;
	pthread_t thread;
	bool running;
	atomic_bool stop;
	unsigned n_failures; /* one after the other */
	bool told;           /* that the bucket is away */
};

static int held_stop_check(void *arg, uint64_t n)
{
	struct hold_putter *p = arg;

	return atomic_load(&p->stop);
}

/* Is the file as it was when it was acknowledged? */
static int held_check(struct hold_putter *p, const struct held_push *push, int fd, struct err *err)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own < 0)
		return err_os(err, errno, "dup");
	return content_compare(source_of_fd(own, push->meta.stored_size, 0, "a push that was held"),
			       push->meta.raw, push->meta.sha256, held_stop_check, p, err);
}

static enum held_outcome held_outcome_of(int r)
{
	switch (r) {
	case 0:
		return HELD_PUT;
	case STORE_SAME:
		return HELD_SAME;
	case STORE_KEPT:
		return HELD_BETTER;
	case STORE_OWNED:
		return HELD_REFUSED;
	default:
		return HELD_LATER;
	}
}

/* Commit it, takes @fd. *ret_owner in @a: of the object that stays. */
static enum held_outcome held_commit(struct store *st, const struct held_push *push, int fd, struct arena *a,
				     struct str *ret_owner, struct err *err)
{
	struct store_meta there = { 0 };
	int r;

	if (push->policy == STORE_IF_OWNED && store_takes_place(&push->key, &push->meta)) {
		*ret_owner = object_other_owner(st, &push->key, push->meta.owner, push->meta.sha256,
						object_find, a, err);
		if (ret_owner->size || blob_is_away(err)) {
			close(fd);
			return ret_owner->size ? HELD_REFUSED : HELD_LATER;
		}
	}
	r = put_commit_held(st, fd, &push->key, &push->meta, push->policy, err);
	if (r == STORE_FULL)
		(void)err_set(err, ERR_LIMIT, "the store has used up its quota");
	if (r == STORE_OWNED && object_find(st, &push->key, a, &there, NULL) == 0)
		*ret_owner = store_owner(&there);
	return held_outcome_of(r);
}

static void held_tell(struct hold_putter *p, const struct held_push *push, enum held_outcome outcome,
		      struct str owner, const struct err *err, struct arena *a)
{
	struct str key = store_key_text(&push->key, a);

	switch (outcome) {
	case HELD_REFUSED:
		log_warn("store",
			 STR_FMT ": a push of '" STR_FMT
				 "' was kept while the bucket was away, and is refused: "
				 "the object belongs to '" STR_FMT "'; lode store kept lists it",
			 STR_ARG(key), STR_ARG(store_owner(&push->meta)), STR_ARG(owner));
		return;
	case HELD_DAMAGED:
		log_error("store", STR_FMT ": a push that was kept while the bucket was away is damaged: %s",
			  STR_ARG(key), err->text);
		return;
	case HELD_LATER:
		if (!p->told && !atomic_load(&p->stop))
			log_warn("store", STR_FMT ": a push is kept on this machine: %s", STR_ARG(key),
				 err->text);
		p->told = true;
		return;
	default:
		log_info("store", STR_FMT ": a push that was kept while the bucket was away %s", STR_ARG(key),
			 outcome == HELD_PUT    ? "is in it now"
			 : outcome == HELD_SAME ? "was there already"
						: "was replaced by a better or later one");
		p->told = false;
	}
}

/* @fd -1: @why it could not be opened. */
static void held_put(struct hold_putter *p, const struct held_push *push, int fd, const struct err *why,
		     struct arena *a)
{
	struct store *st = p->st;
	struct str owner = STR("");
	struct err err = *why;
	enum held_outcome outcome;

	if (fd < 0) {
		outcome = content_is_damaged(&err) ? HELD_DAMAGED : HELD_LATER;
	} else if (held_check(p, push, fd, &err) < 0) {
		close(fd);
		outcome = content_is_damaged(&err) ? HELD_DAMAGED : HELD_LATER;
	} else {
		outcome = held_commit(st, push, fd, a, &owner, &err);
	}
	held_tell(p, push, outcome, owner, &err, a);
	/* What was served as this object is another one now. */
	hold_end(st->hold, push, outcome, owner);
	if (outcome != HELD_LATER)
		atomic_fetch_add(&st->generation, 1);
	if (outcome != HELD_LATER || blob_is_away(&err))
		hold_note_away(st->hold, outcome == HELD_LATER);
	p->n_failures = outcome == HELD_LATER ? p->n_failures + 1 : 0;
}

static void *putter_run(void *arg)
{
	struct hold_putter *p = arg;
	struct hold *h = p->st->hold;

	pthread_setname_np(pthread_self(), "lode-held");
	while (!atomic_load(&p->stop)) {
		AUTO(arena_done) struct arena a = { 0 };
		struct held_push push;
		struct err why = { 0 };
		int64_t wait_ms;
		int fd;

		arena_init(&a);
		if (!hold_next(h, &a, &push, &fd, &wait_ms, &why)) {
			hold_wait(h, wait_ms);
			continue;
		}
		held_put(p, &push, fd, &why, &a);
		if (p->n_failures)
			hold_wait(h, clock_backoff(FIRST_PAUSE_MS, p->n_failures - 1, PAUSE_MAX_MS));
	}
	return NULL;
}

struct hold_putter *hold_putter_start(struct store *st)
{
	struct hold_putter *p = NEW(struct hold_putter);

	p->st = st;
	p->running = pthread_create(&p->thread, NULL, putter_run, p) == 0;
	return p;
}

void hold_putter_stop(struct hold_putter *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, true);
	hold_wake(p->st->hold);
	if (p->running)
		pthread_join(p->thread, NULL);
	free(p);
}

bool store_holds_now(struct store *st)
{
	return hold_takes(st->hold) && hold_is_away(st->hold);
}

bool store_may_hold(struct store *st, bool away)
{
	if (away && hold_takes(st->hold))
		hold_note_away(st->hold, true);
	return hold_takes(st->hold);
}

/* What is known without the bucket: a push that is held, or the object as it was a while ago. */
static int known_find(struct store *st, const struct store_key *key, struct arena *a, struct store_meta *ret,
		      struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	AUTO(buf_done) struct buf text = { 0 };
	struct store_record record;
	struct blob_stamp stamp;

	if (hold_find(st->hold, key, a, ret))
		return 0;
	store_record_name(key, &name);
	if (!blobs_recall(st->blobs, buf_cstr(&name), STORE_MAX_RECORD, &text, &stamp) ||
	    store_record_of((const char *)name.p, buf_bytes(&text), &stamp, a, &record, NULL) < 0)
		return STORE_MISSING;
	*ret = record.meta;
	return 0;
}

int hold_push(struct store *st, const struct store_key *key, const struct store_meta *meta,
	      enum store_policy policy, struct staging *s, struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	struct store_meta there;
	int r;

	arena_init(&a);
	if (policy == STORE_IF_OWNED && store_takes_place(key, meta) &&
	    object_other_owner(st, key, meta->owner, meta->sha256, known_find, &a, NULL).size)
		return STORE_OWNED;
	/* While the bucket is away what is held answers, so the commit's judgement would come too late. */
	if (policy == STORE_IF_OWNED && !store_takes_place(key, meta) &&
	    known_find(st, key, &a, &there, NULL) == 0) {
		r = object_judge(&there, meta, policy);
		if (r == STORE_KEPT || r == STORE_OWNED)
			return r;
	}
	r = hold_add(st->hold, key, meta, policy, s, err);
	if (r != STORE_HELD)
		return r;
	store_record_name(key, &name);
	object_list_put(st->objects, buf_cstr(&name), key, meta);
	atomic_fetch_add(&st->generation, 1);
	if (st->opts.committed)
		st->opts.committed(st->opts.committed_arg, key, meta, true);
	hold_wake(st->hold);
	return r;
}
