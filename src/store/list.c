/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing objects, and removing one.
 *
 * The names of records are in the order of their build IDs; the cursor is the last name that was reported.
 */
#include "store/internal.h"

struct object_walk {
	struct store *st;
	size_t left;
	store_object_fn *fn;
	void *arg;
	struct arena arena;
	struct buf *next;
};

enum { LIST_ENOUGH = 1000000 };

static int object_report(void *arg, const struct blob_scanned *s, struct err *err)
{
	struct object_walk *l = arg;
	struct store_record record;
	struct store_object o;

	if (s->place != BLOB_PRESENT)
		return 0;
	if (!l->left)
		return LIST_ENOUGH;
	arena_reset(&l->arena);
	l->next->size = 0;
	buf_add_str(l->next, str_of(s->name));
	/* Skip damaged records, which verify reports, and removed ones. */
	if (store_record_scanned(l->st, s, &l->arena, &record, NULL) != 0)
		return 0;
	o = (struct store_object){ record.key, record.meta };
	l->left--;
	return l->fn(l->arg, &o);
}

int store_list(struct store *st, const struct store_range *range, store_object_fn *fn, void *arg,
	       struct buf *ret_next, struct err *err)
{
	struct object_walk l = { .st = st, .left = range->max, .fn = fn, .arg = arg, .next = ret_next };
	struct str prefix = range->prefix;
	AUTO(buf_done) struct buf names = { 0 };
	AUTO(buf_done) struct buf after = { 0 };
	int r;

	/* The cursor may be a view into *ret_next. */
	buf_add_str(&after, range->cursor);
	ret_next->size = 0;
	buf_add_str(&names, range->past ? STORE_PAST : STORE_KEYS);
	if (prefix.size > 1)
		buf_printf(&names, "%.2s/", prefix.p);
	buf_add_str(&names, prefix);
	arena_init(&l.arena);
	r = blobs_scan(st->blobs, buf_str(&names), buf_str(&after), STORE_MAX_RECORD, object_report, &l, err);
	arena_done(&l.arena);
	if (r == LIST_ENOUGH)
		return 0;
	if (r == 0)
		ret_next->size = 0;
	return r < 0 ? err_in(err, "store") : r;
}

/* Of one record that others replace, or whose use a reader notes, between a look at it and its removal. */
#define REMOVE_TRIES 64

/*
 * Keep the object as an earlier version, if it is worth it, and remove that version: reading a content takes seconds, in which
 * a push of other bytes may be acknowledged. BLOB_MISSING; BLOB_CHANGED: it is replaced again and again.
 */
static int remove_keep(struct store *st, const char *name, struct str by, struct err *err)
{
	uint8_t kept[STORE_SHA256_SIZE];
	int r = BLOB_CHANGED;
	bool any = false;

	for (unsigned i = 0; i < REMOVE_TRIES && r == BLOB_CHANGED; i++) {
		struct store_record record = { 0 };
		struct err why = { 0 };
		struct arena arena;

		arena_init(&arena);
		r = store_record_get(st, name, &arena, &record, &why);
		if (r == 0 && !(any && memcmp(kept, record.meta.sha256, sizeof(kept)) == 0)) {
			r = past_add(st, name, &record, by, err);
			any |= r == 0;
			if (r == 0)
				memcpy(kept, record.meta.sha256, sizeof(kept));
		} else if (r < 0 && why.kind == ERR_INVALID) {
			r = 0; /* a damaged record is just removed */
		} else if (r < 0 && err) {
			*err = why;
		}
		arena_done(&arena);
		/* Of bytes that the bucket could not send whole the version is not known. */
		if (r == 0)
			r = st->blobs->ops->remove(st->blobs, name, record.stamp.id ? &record.stamp : NULL,
						   err);
	}
	return r;
}

static int remove_object(struct store *st, const struct store_key *key, struct str by, struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	int r;

	store_record_name(key, &name);
	if (by.size) {
		r = remove_keep(st, buf_cstr(&name), by, err);
	} else {
		r = past_trim(st, buf_cstr(&name), true, err);
		if (r == 0)
			r = st->blobs->ops->remove(st->blobs, (const char *)name.p, NULL, err);
	}
	if (r == BLOB_CHANGED)
		r = err_set(err, ERR_BUSY, "the object is being replaced at this moment; try again");
	if (r < 0)
		return err_in(err, "store");
	if (r >= 0)
		object_list_del(st->objects, buf_cstr(&name));
	if (r == 0) {
		atomic_fetch_add(&st->generation, 1);
		store_wake(st, true);
	}
	/* Also a removal by another thread is durable when this one is told that nothing is there. */
	if (st->blobs->ops->settle(st->blobs, (const char *)name.p, err) < 0)
		return err_in(err, "store");
	return r ? STORE_MISSING : 0;
}

int store_remove(struct store *st, const struct store_key *key, struct str by, struct err *err)
{
	/* Pushes of it that are held would bring it back. */
	bool held = hold_freeze(st->hold, key);
	int r = remove_object(st, key, by, err);

	hold_thaw(st->hold, key, held && r >= 0);
	if (held && r >= 0)
		atomic_fetch_add(&st->generation, 1);
	return held && r == STORE_MISSING ? 0 : r;
}
