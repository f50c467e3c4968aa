/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store knows of a path or a build ID. Its objects have the name that was given when they were
 * pushed, or that the server told which they were fetched from; a name without folders is told as if it lay
 * in the topmost one, so that it can be asked for as a path.
 *
 * Names are looked for in the store's catalogue, which may be behind: what is told was looked up. A cursor is
 * "SKIP:NAME": the record that was told before, and how many results of the next one.
 */
#include "resolve/internal.h"

#define NAMES_AT_ONCE 1000

struct query {
	struct store *st;
	struct str value;
	size_t max, n_told;
	uint64_t skip; /* results of the record at hand that were told before */
	int64_t deadline_ms;
	struct arena arena;
	int (*fn)(void *arg, const struct index_metadata *m);
	void *arg;
	uint64_t n_of_record; /* told or passed over */
};

enum { PAGE_FULL = 1 << 20 }; /* of fn's own outcomes none should be so large */

static int tell_one(struct query *q, const struct index_metadata *m)
{
	if (q->n_of_record < q->skip) {
		q->n_of_record++;
		return 0;
	}
	if (q->n_told == q->max)
		return PAGE_FULL;
	q->n_told++;
	q->n_of_record++;
	return q->fn(q->arg, m);
}

static struct str rooted(struct query *q, struct str file)
{
	if (!file.size || file.p[0] == '/')
		return file;
	return str_of(arena_printf(&q->arena, "/" STR_FMT, STR_ARG(file)));
}

/* One that was never stripped is its own debug file, and is told as both. */
static int tell_record(struct query *q, const struct store_key *key, struct err *err)
{
	struct index_metadata m = { .build_id = key->id, .debuginfo = key->kind == STORE_DEBUGINFO };
	struct store_meta meta;
	int r = store_find(q->st, key, &q->arena, &meta, err);

	if (r)
		return r < 0 ? -1 : 0;
	m.file = rooted(q, meta.file);
	m.archive = meta.archive;
	r = tell_one(q, &m);
	if (r == 0 && !m.debuginfo && meta.quality == STORE_DWARF) {
		m.debuginfo = true;
		r = tell_one(q, &m);
	}
	return r;
}

static bool is_late(const struct query *q)
{
	return q->deadline_ms && clock_mono_ms() > q->deadline_ms;
}

static void cursor_write(const struct query *q, struct str before, struct buf *ret)
{
	ret->size = 0;
	buf_printf(ret, "%llu:", (unsigned long long)MAX(q->n_of_record, q->skip));
	buf_add_str(ret, before);
}

/* ---- by name ---- */

static bool is_path(void *arg, struct str file)
{
	struct str want = *(struct str *)arg;

	/* "/x" is "x", too. */
	if (file.size && file.p[0] != '/')
		want = (struct str){ want.p + 1, want.size - 1 };
	return file.size && str_eq(file, want);
}

static bool is_like(void *arg, struct str file)
{
	struct str want = *(struct str *)arg;

	if (file.size && file.p[0] != '/')
		want = (struct str){ want.p + 1, want.size - 1 };
	return file.size && index_glob_match(want, file);
}

static int by_name(struct query *q, bool (*match)(void *arg, struct str file), struct str after,
		   struct buf *ret_next, bool *ret_complete, struct err *err)
{
	AUTO(buf_done) struct buf before = { 0 };
	size_t n = NAMES_AT_ONCE;

	buf_add_str(&before, after);
	while (n == NAMES_AT_ONCE) {
		struct store_known *list;

		arena_reset(&q->arena);
		if (store_names(q->st, match, &q->value, buf_str(&before), NAMES_AT_ONCE, &q->arena, &list,
				&n, ret_complete, err) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			int r = is_late(q) ? PAGE_FULL : tell_record(q, &list[i].key, err);

			if (r == PAGE_FULL)
				cursor_write(q, buf_str(&before), ret_next);
			if (r)
				return r;
			q->skip = q->n_of_record = 0;
			before.size = 0;
			buf_add_str(&before, list[i].name);
		}
	}
	return 0;
}

/* ---- by build ID ---- */

static int by_build_id(struct query *q, struct buf *ret_next, struct err *err)
{
	static const enum store_kind kinds[] = { STORE_DEBUGINFO, STORE_EXECUTABLE };
	struct store_key key = { 0 };
	int r = 0;

	if (!build_id_parse(&key.id, q->value))
		return err_set(err, ERR_INVALID, "metadata: the value is not a build ID");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kinds); i++) {
		key.kind = kinds[i];
		r = tell_record(q, &key, err);
	}
	if (r == PAGE_FULL)
		cursor_write(q, STR(""), ret_next);
	return r;
}

/* ---- */

static int run(struct query *q, struct str key, struct str after, struct buf *ret_next, bool *ret_complete,
	       struct err *err)
{
	AUTO(mem_freep) char *canonical = NULL;

	if (str_eq(key, STR("buildid")))
		return by_build_id(q, ret_next, err);
	if (!q->value.size || q->value.p[0] != '/')
		return 0;
	if (str_eq(key, STR("glob")))
		return by_name(q, is_like, after, ret_next, ret_complete, err);
	canonical = mem_alloc(q->value.size + 2);
	q->value = (struct str){ canonical, path_canonical(q->value, canonical) };
	return by_name(q, is_path, after, ret_next, ret_complete, err);
}

int store_metadata(struct store *st, struct str key, struct str value, struct str cursor, size_t max,
		   int64_t deadline_mono_ms, int (*fn)(void *arg, const struct index_metadata *m), void *arg,
		   struct buf *ret_next, bool *ret_complete, struct err *err)
{
	struct query q = {
		.st = st, .value = value, .max = max, .deadline_ms = deadline_mono_ms, .fn = fn, .arg = arg
	};
	struct str after = cursor;
	bool complete = true;
	int r;

	if (cursor.size && (!str_to_u64(str_cut(&after, ':'), &q.skip) || q.skip > UINT32_MAX))
		return err_set(err, ERR_INVALID, "metadata: not a cursor of this server");
	ret_next->size = 0;
	arena_init(&q.arena);
	r = run(&q, key, after, ret_next, &complete, err);
	arena_done(&q.arena);
	if (r && r != PAGE_FULL)
		return r;
	/* Time is up, or the page is full. */
	*ret_complete = complete && !(r == PAGE_FULL && q.n_told < q.max);
	return 0;
}
