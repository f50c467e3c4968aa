/* SPDX-License-Identifier: Apache-2.0 */
/* The different sets of labels of a range. */
#include "base/vec.h"
#include "profilestore/internal.h"

#include <stdlib.h>

struct label_sets {
	struct arena arena; /* labels; their texts are those of series, which the reader holds */
	struct map known;   /* by key */
	struct buf key;
	struct profilestore_label_set *v;
	size_t n, room;
	size_t n_labels, text_size;
};

static void label_sets_done(struct label_sets *l)
{
	map_done(&l->known);
	buf_done(&l->key);
	free(l->v);
	arena_done(&l->arena);
}

/* The set without labels that are not in @by. Returns its size. */
static size_t label_set_reduce(struct profilestore_label *v, size_t n, const struct str *by, size_t n_by)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n_by; k++)
			if (str_eq(v[i].name, by[k])) {
				v[kept++] = v[i];
				break;
			}
	return n_by ? kept : n;
}

static void label_set_add(struct label_sets *l, const struct profilestore_label *v, size_t n)
{
	static const struct str no_texts[SERIES_N_TEXTS];
	struct profilestore_label *copy;

	series_key(&l->key, no_texts, false, v, n);
	if (!n || map_get(&l->known, bytes_of(l->key.p, l->key.size)))
		return;
	copy = ARENA_NEW_N(&l->arena, struct profilestore_label, n);
	memcpy(copy, v, n * sizeof(*v));
	VEC_PUSH(l->v, l->n, l->room) = (struct profilestore_label_set){ copy, n };
	map_put(&l->known, bytes_of(l->key.p, l->key.size), copy);
	l->n_labels += n;
	for (size_t i = 0; i < n; i++)
		l->text_size += v[i].name.size + v[i].value.size;
}

static int by_labels(const void *a, const void *b)
{
	const struct profilestore_label_set *x = a, *y = b;

	for (size_t i = 0; i < x->n && i < y->n; i++) {
		int r = str_cmp(x->labels[i].name, y->labels[i].name);

		if (!r)
			r = str_cmp(x->labels[i].value, y->labels[i].value);
		if (r)
			return r;
	}
	return x->n < y->n ? -1 : x->n > y->n;
}

static struct str label_set_text(char **at, struct str s)
{
	struct str copy = { *at, s.size };

	if (s.size)
		memcpy(*at, s.p, s.size);
	*at += s.size;
	return copy;
}

/* In one piece: the series may be deleted. */
static struct profilestore_label_sets *label_sets_copy(const struct label_sets *l)
{
	struct profilestore_label_sets *copy = mem_alloc(sizeof(*copy) + l->n * sizeof(*copy->v) +
							 l->n_labels * sizeof(struct profilestore_label) +
							 l->text_size);
	struct profilestore_label *labels;
	char *text;

	*copy = (struct profilestore_label_sets){ l->n, (struct profilestore_label_set *)(copy + 1) };
	labels = (struct profilestore_label *)(copy->v + l->n);
	text = (char *)(labels + l->n_labels);
	for (size_t i = 0; i < l->n; i++) {
		copy->v[i] = (struct profilestore_label_set){ labels, l->v[i].n };
		for (size_t k = 0; k < l->v[i].n; k++)
			*labels++ = (struct profilestore_label){
				label_set_text(&text, l->v[i].labels[k].name),
				label_set_text(&text, l->v[i].labels[k].value)
			};
	}
	if (copy->n)
		qsort(copy->v, copy->n, sizeof(*copy->v), by_labels);
	return copy;
}

int profilestore_label_sets(struct profilestore *s, const struct profilestore_range *r, const struct str *by,
			    size_t n_by, size_t limit, struct profilestore_label_sets **ret, struct err *err)
{
	struct profilestore_label labels[SERIES_MAX_LABELS];
	AUTO(label_sets_done) struct label_sets l = { 0 };
	struct reader rd;
	uint32_t it = 0;
	int res;

	arena_init(&l.arena);
	reader_hold(s, &rd);
	for (struct series *x; l.n <= limit && (x = series_next(s, r, &it));)
		label_set_add(&l, labels,
			      label_set_reduce(labels, series_labels(x, r->derived, labels), by, n_by));
	res = deadline_check(r->deadline, 0, err);
	if (res == 0 && l.n > limit)
		res = err_set(err, ERR_LIMIT,
			      "more than %zu sets of labels: ask for fewer labels, or with more matchers",
			      limit);
	if (res == 0)
		*ret = label_sets_copy(&l);
	reader_end(&rd);
	return res;
}
