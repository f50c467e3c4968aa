/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata queries on the store. Its objects have the name given at the push, or by the server that they were
 * fetched from; a name without directories is given out with a leading slash, so that it can be queried as a
 * path.
 *
 * Names are searched in the catalogue of the store, which may be out of date, so every result is looked up. A
 * cursor is "SKIP:NAME": the last complete record, and how many results of the next one were given out.
 */
#include "resolve/internal.h"

#define NAMES_AT_ONCE 1000

struct store_query {
	struct store *st;
	const struct index_metadata_query *asked;
	struct index_metadata_page *page;
	struct str value;     /* canonical, if it is a path */
	size_t n_results;     /* of this page */
	uint64_t skip;        /* results of the current record that were on an earlier page */
	uint64_t n_of_record; /* results of the current record: given out or skipped */
	struct arena arena;
};

enum { PAGE_FULL = 1 << 20 }; /* no outcome of the caller's fn may be this large */

static int give_result(struct store_query *q, const struct index_metadata *m)
{
	if (q->n_of_record < q->skip) {
		q->n_of_record++;
		return 0;
	}
	if (q->n_results == q->asked->max)
		return PAGE_FULL;
	q->n_results++;
	q->n_of_record++;
	return q->asked->fn(q->asked->arg, m);
}

static struct str rooted_name(struct store_query *q, struct str file)
{
	if (!file.size || file.p[0] == '/')
		return file;
	return str_of(arena_printf(&q->arena, "/" STR_FMT, STR_ARG(file)));
}

/* A program that was never stripped is its own debug file, and is given out as both. */
static int give_record(struct store_query *q, const struct store_key *key, struct err *err)
{
	struct index_metadata m = { .build_id = key->id, .debuginfo = key->kind == STORE_DEBUGINFO };
	struct store_meta meta;
	int r = store_find(q->st, key, &q->arena, &meta, err);

	if (r)
		return r < 0 ? -1 : 0;
	if (meta.quality == STORE_DYNSYM)
		return 0;
	m.file = rooted_name(q, meta.file);
	m.archive = meta.archive;
	m.go = meta.go;
	m.hash = meta.hashes[0];
	r = give_result(q, &m);
	if (r == 0 && !m.debuginfo && meta.quality == STORE_DWARF) {
		m.debuginfo = true;
		r = give_result(q, &m);
	}
	return r;
}

static bool store_query_is_late(const struct store_query *q)
{
	return q->asked->deadline_mono_ms && clock_mono_ms() > q->asked->deadline_mono_ms;
}

/* The next page begins after the record @before. */
static void page_end(struct store_query *q, struct str before)
{
	struct buf *next = &q->page->next;

	next->size = 0;
	buf_printf(next, "%llu:", (unsigned long long)MAX(q->n_of_record, q->skip));
	buf_add_str(next, before);
}

/* ---- by name ---- */

static bool name_is_path(void *arg, struct str file)
{
	struct str want = *(struct str *)arg;

	/* "/x" also matches "x". */
	if (file.size && file.p[0] != '/')
		want = (struct str){ want.p + 1, want.size - 1 };
	return file.size && str_eq(file, want);
}

static bool name_is_like(void *arg, struct str file)
{
	struct str want = *(struct str *)arg;

	if (file.size && file.p[0] != '/')
		want = (struct str){ want.p + 1, want.size - 1 };
	return file.size && index_glob_match(want, file);
}

static int results_by_name(struct store_query *q, bool (*match)(void *arg, struct str file), struct str after,
			   struct err *err)
{
	AUTO(buf_done) struct buf before = { 0 };
	struct store_names names = { .n = NAMES_AT_ONCE };

	buf_add_str(&before, after);
	while (names.n == NAMES_AT_ONCE) {
		const struct store_names_query query = { match, &q->value, buf_str(&before), NAMES_AT_ONCE };

		arena_reset(&q->arena);
		if (store_names(q->st, &query, &q->arena, &names, err) < 0)
			return -1;
		q->page->complete = names.all;
		for (size_t i = 0; i < names.n; i++) {
			int r = store_query_is_late(q) ? PAGE_FULL : give_record(q, &names.list[i].key, err);

			if (r == PAGE_FULL)
				page_end(q, buf_str(&before));
			if (r)
				return r;
			q->skip = q->n_of_record = 0;
			before.size = 0;
			buf_add_str(&before, names.list[i].name);
		}
	}
	return 0;
}

/* ---- by build ID ---- */

static int results_by_build_id(struct store_query *q, struct err *err)
{
	static const enum store_kind kinds[] = { STORE_DEBUGINFO, STORE_EXECUTABLE };
	struct store_key key = { 0 };
	int r = 0;

	if (!build_id_parse(&key.id, q->value))
		return err_set(err, ERR_INVALID, "metadata: the value is not a build ID");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kinds); i++) {
		key.kind = kinds[i];
		r = give_record(q, &key, err);
	}
	if (r == PAGE_FULL)
		page_end(q, STR(""));
	return r;
}

/* ---- */

static int query_run(struct store_query *q, struct str after, struct err *err)
{
	AUTO(mem_freep) char *canonical = NULL;

	if (str_eq(q->asked->key, STR("buildid")))
		return results_by_build_id(q, err);
	if (!q->value.size || q->value.p[0] != '/')
		return 0;
	if (str_eq(q->asked->key, STR("glob")))
		return results_by_name(q, name_is_like, after, err);
	canonical = mem_alloc(q->value.size + 2);
	q->value = (struct str){ canonical, path_canonical(q->value, canonical) };
	return results_by_name(q, name_is_path, after, err);
}

int store_metadata(struct store *st, const struct index_metadata_query *asked,
		   struct index_metadata_page *ret, struct err *err)
{
	struct store_query q = { .st = st, .asked = asked, .page = ret, .value = asked->value };
	struct str after = asked->cursor;
	int r;

	if (after.size && (!str_to_u64(str_cut(&after, ':'), &q.skip) || q.skip > UINT32_MAX))
		return err_set(err, ERR_INVALID, "metadata: not a cursor of this server");
	ret->next.size = 0;
	ret->complete = true;
	arena_init(&q.arena);
	r = query_run(&q, after, err);
	arena_done(&q.arena);
	if (r && r != PAGE_FULL)
		return r;
	/* A page that ended before it was full ended at the deadline. */
	if (r == PAGE_FULL && q.n_results < asked->max)
		ret->complete = false;
	return 0;
}
