/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files whose last scan failed, with the reason, from the index: `lode scan` prints them at its end, `lode
 * stat` at any time.
 */
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

static json_t *failure_json(const struct index_file *f)
{
	return json_pack("{s:o, s:o, s:s, s:I, s:I}", "path", json_text(f->path), "reason",
			 json_text(f->reason), "kind", err_kind_name(f->reason_kind), "tries",
			 (json_int_t)f->tries, "next_try", (json_int_t)f->next_try_s);
}

static int collect_kind(struct index *ix, enum index_kind kind, const struct failures_query *q, json_t *list,
			uint64_t *n, struct err *err)
{
	int64_t after = 0;

	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		size_t n_files;

		arena_init(&a);
		if (index_list(ix, kind, INDEX_FAILED, after, PAGE, &a, &files, &n_files, err) < 0)
			return -1;
		if (!n_files)
			return 0;
		for (size_t i = 0; i < n_files; i++) {
			after = files[i].id;
			if (!is_selected(q, files[i].path))
				continue;
			if (json_array_size(list) < q->max)
				json_array_append_new(list, failure_json(&files[i]));
			(*n)++;
		}
	}
}

int failures_collect(struct index *ix, const struct failures_query *q, json_t **ret, uint64_t *ret_n,
		     struct err *err)
{
	json_t *list = json_array();
	uint64_t n = 0;

	if (collect_kind(ix, INDEX_PACKAGE, q, list, &n, err) < 0 ||
	    collect_kind(ix, INDEX_PLAIN, q, list, &n, err) < 0) {
		json_decref(list);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
