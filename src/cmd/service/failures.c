/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files whose last scan failed, with the reason, from the index: `lode scan` prints them at its end,
 * `lode stat` at any time.
 */
#include <stdlib.h>
#include "cmd/service/service.h"

#define PAGE 1000

static bool is_selected(const struct failures_query *q, struct str path)
{
	for (size_t i = 0; i < q->n_roots; i++) {
		struct str root = q->roots[i];

		if (str_eq(path, root))
			return true;
		if (str_starts(path, root) && (root.p[root.size - 1] == '/' || path.p[root.size] == '/'))
			return true;
	}
	return q->n_roots == 0;
}

static void failure_add(struct failures *ret, const struct index_file *f)
{
	VEC_PUSH(ret->v, ret->n_listed,
		 ret->room) = (struct failure){ .path = arena_str(&ret->arena, f->path),
						.reason = arena_str(&ret->arena, f->reason),
						.kind = f->reason_kind,
						.tries = (int64_t)f->tries,
						.next_try_s = f->next_try_s };
}

static int collect_kind(struct index *ix, enum index_kind kind, const struct failures_query *q,
			struct failures *ret, struct err *err)
{
	int64_t after = 0;

	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		size_t n_files;

		arena_init(&a);
		if (index_list(ix, &(struct index_range){ kind, INDEX_FAILED, after, PAGE }, &a, &files,
			       &n_files, err) < 0)
			return -1;
		if (!n_files)
			return 0;
		for (size_t i = 0; i < n_files; i++) {
			after = files[i].id;
			if (!is_selected(q, files[i].path))
				continue;
			if (ret->n_listed < q->max)
				failure_add(ret, &files[i]);
			ret->n++;
		}
	}
}

int failures_collect(struct index *ix, const struct failures_query *q, struct failures *ret, struct err *err)
{
	*ret = (struct failures){ 0 };
	arena_init(&ret->arena);
	if (collect_kind(ix, INDEX_PACKAGE, q, ret, err) < 0 ||
	    collect_kind(ix, INDEX_PLAIN, q, ret, err) < 0) {
		failures_done(ret);
		return -1;
	}
	return 0;
}

void failures_done(struct failures *f)
{
	free(f->v);
	arena_done(&f->arena);
	*f = (struct failures){ 0 };
}

void failures_put(struct json_writer *out, const struct failures *f)
{
	json_open_array(out, "failures");
	for (size_t i = 0; i < f->n_listed; i++) {
		json_open_object(out, NULL);
		json_put_str(out, "path", f->v[i].path);
		json_put_str(out, "reason", f->v[i].reason);
		json_put_text(out, "kind", err_kind_name(f->v[i].kind));
		json_put_int(out, "tries", f->v[i].tries);
		json_put_int(out, "next_try", f->v[i].next_try_s);
		json_close(out);
	}
	json_close(out);
}
