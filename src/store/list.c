/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing objects, and removing one.
 *
 * The names of records are in the order of their build IDs; the cursor is the last name that was told.
 */
#include "store/internal.h"

struct listing {
	struct store *st;
	size_t left;
	int (*fn)(void *arg, const struct store_object *o);
	void *arg;
	struct arena arena;
	struct buf *next;
};

enum { LIST_ENOUGH = 1000000 };

static int tell(void *arg, const char *name, const struct blob_stamp *listed, struct err *err)
{
	struct listing *l = arg;
	struct store_object o;
	struct blob_stamp stamp;

	if (!l->left)
		return LIST_ENOUGH;
	arena_reset(&l->arena);
	l->next->size = 0;
	buf_add_str(l->next, str_of(name));
	/* One that is damaged is for verify; one that has gone is none. */
	if (store_record_get(l->st, name, &l->arena, &o.key, &o.meta, &stamp, NULL) != 0)
		return 0;
	l->left--;
	return l->fn(l->arg, &o);
}

int store_list(struct store *st, struct str prefix, struct str cursor, size_t max,
	       int (*fn)(void *arg, const struct store_object *o), void *arg, struct buf *ret_next,
	       struct err *err)
{
	struct listing l = { .st = st, .left = max, .fn = fn, .arg = arg, .next = ret_next };
	AUTO(buf_done) struct buf names = { 0 };
	AUTO(buf_done) struct buf after = { 0 };
	int r;

	/* The caller may give us what we have given him. */
	buf_add_str(&after, cursor);
	ret_next->size = 0;
	buf_add_str(&names, STORE_KEYS);
	if (prefix.size > 1)
		buf_printf(&names, "%.2s/", prefix.p);
	buf_add_str(&names, prefix);
	arena_init(&l.arena);
	r = st->blobs->ops->list(st->blobs, buf_str(&names), buf_str(&after), tell, &l, err);
	arena_done(&l.arena);
	if (r == LIST_ENOUGH)
		return 0;
	if (r == 0)
		ret_next->size = 0;
	return r < 0 ? err_in(err, "store") : r;
}

int store_remove(struct store *st, const struct store_key *key, struct err *err)
{
	AUTO(buf_done) struct buf name = { 0 };
	int r;

	store_record_name(key, &name);
	r = st->blobs->ops->remove(st->blobs, buf_cstr(&name), INT64_MAX, err);
	if (r < 0)
		return err_in(err, "store");
	if (r >= 0)
		catalogue_del(st->catalogue, buf_cstr(&name));
	if (r == 0) {
		atomic_fetch_add(&st->generation, 1);
		maintain_wake(st->maintain, true);
	}
	return r ? STORE_MISSING : 0;
}
