/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incomplete puts with a name: those that another process, or a commit that failed, has left.
 */
#include "store/internal.h"

struct partials {
	int (*fn)(void *arg, const struct store_partial *p);
	void *arg;
};

static int each_note(void *arg, const struct staging_note *note)
{
	struct store_partial p = { note->name, note->content, note->all, note->time_s };
	struct partials *each = arg;

	return each->fn(each->arg, &p);
}

int store_partials(struct store *st, int (*fn)(void *arg, const struct store_partial *p), void *arg,
		   struct err *err)
{
	struct partials each = { fn, arg };

	return st->blobs->ops->notes(st->blobs, each_note, &each, err);
}

struct partial_search {
	struct str name;
	uint64_t size;
};

static int partial_is_named(void *arg, const struct store_partial *p)
{
	struct partial_search *f = arg;

	if (str_eq(p->name, f->name))
		f->size = p->size;
	return 0;
}

uint64_t store_partial_size(struct store *st, struct str name)
{
	struct partial_search f = { .name = name };

	return store_partials(st, partial_is_named, &f, NULL) < 0 ? 0 : f.size;
}

bool store_forget_partial(struct store *st, struct str name)
{
	struct staging s = { .fd = -1 };
	bool found;

	if (st->blobs->ops->staging(st->blobs, name, &s, NULL) != 0)
		return false;
	found = s.note_path;
	store_usage_add(st, -(int64_t)s.size);
	st->blobs->ops->staging_done(st->blobs, &s, false);
	return found;
}
