/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a batch, sorted into profiles: those with the same labels, types, period and minute. A row's key is a list of
 * numbers, mostly those of texts; a run of equal texts is looked up once.
 */
#include "profile/parca_read.h"

#include <stdlib.h>

/* Each value would begin a series of its own (as with OTLP). */
static const char *const of_one_thread[] = { "cpu", "thread_id", "pid", NULL };

static bool is_of_one_thread(struct str name)
{
	for (const char *const *list = of_one_thread; *list; list++)
		if (str_eq(name, str_of(*list)))
			return true;
	/* The producer is that. */
	return str_eq(name, STR("__name__"));
}

static int label_columns(struct parca_reader *r, struct err *err)
{
	struct arrow_array *labels = arrow_column(r->stream, STR("labels")), *child;

	r->n_keys = PARCA_LABELS;
	if (!labels)
		return 0;
	if (labels->field->kind != ARROW_STRUCT || labels->dictionary)
		return err_set(err, ERR_INVALID, "its column 'labels' is no struct");
	child = labels + 1;
	for (uint32_t i = 0; i < labels->field->n_children; i++) {
		if (!is_of_one_thread(child->field->name)) {
			if (r->n_keys == PARCA_MAX_KEYS)
				return err_set(err, ERR_LIMIT, "it has more than %u labels",
					       PARCA_MAX_LABELS);
			r->columns[r->n_keys++] = (struct parca_column){ .column = child,
									 .name = child->field->name };
		}
		child += 1 + child->field->n_below;
	}
	return 0;
}

static int parca_columns(struct parca_reader *r, struct err *err)
{
	static const char *const names[PARCA_N_TEXTS] = {
		[PARCA_PRODUCER] = "producer",       [PARCA_TYPE] = "sample_type",
		[PARCA_UNIT] = "sample_unit",        [PARCA_PERIOD_TYPE] = "period_type",
		[PARCA_PERIOD_UNIT] = "period_unit", [PARCA_TEMPORALITY] = "temporality",
	};

	for (int i = 0; i < PARCA_N_TEXTS; i++)
		r->columns[i] = (struct parca_column){ .column = arrow_column(r->stream, str_of(names[i])) };
	r->stacks = arrow_column(r->stream, STR("stacktrace"));
	r->values = arrow_column(r->stream, STR("value"));
	r->times = arrow_column(r->stream, STR("timestamp"));
	r->periods = (struct parca_numbers){ .column = arrow_column(r->stream, STR("period")) };
	r->durations = (struct parca_numbers){ .column = arrow_column(r->stream, STR("duration")) };
	r->location_array = NULL;
	if (!r->stacks || !r->values || !r->times || !r->columns[PARCA_PRODUCER].column ||
	    !r->columns[PARCA_TYPE].column)
		return err_set(err, ERR_INVALID,
			       "it has not all of the columns stacktrace, value, timestamp, producer and "
			       "sample_type");
	return label_columns(r, err);
}

uint64_t parca_number(struct parca_numbers *of, uint64_t row)
{
	if (row < of->from || row >= of->until) {
		of->value = arrow_value(of->column, row);
		of->from = row;
		of->until = of->column ? arrow_same_until(of->column, row) : UINT64_MAX;
	}
	return of->value;
}

/* The number of a column's text in this row. Rows are taken in their order. */
static uint32_t text_of_key(struct parca_reader *r, struct parca_column *c, uint64_t row)
{
	struct arrow_array *a = c->column;
	uint64_t i = row;
	struct bytes b;

	if (row < c->until)
		return c->text;
	if (!a || !arrow_follow(&a, &i))
		return 0;
	c->until = arrow_same_until(c->column, row);
	if (a == c->array && i == c->row)
		return c->text;
	b = arrow_bytes(a, i);
	/* The loop over the rows reports it. */
	if (profile_is_late(r->limits.deadline, b.size, &r->why))
		return 0;
	c->array = a;
	c->row = i;
	return c->text = profile_add_string(r->room, (struct str){ (const char *)b.p, b.size });
}

static void row_key(struct parca_reader *r, uint64_t row, int64_t first_ns, uint32_t *ret)
{
	int64_t after_ns;

	for (uint32_t i = 0; i < r->n_keys; i++)
		if (i < PARCA_N_TEXTS || i >= PARCA_LABELS)
			ret[i] = text_of_key(r, &r->columns[i], row);
	/* Only another one matters; which one it is, the rows say. */
	ret[PARCA_PERIOD] = (uint32_t)hash_mix(parca_number(&r->periods, row), 0);
	if (__builtin_sub_overflow((int64_t)arrow_value(r->times, row), first_ns, &after_ns))
		after_ns = INT64_MAX;
	ret[PARCA_TIME] = (uint32_t)(after_ns / PARCA_SPAN_NS);
}

static uint64_t hash_of_key(const uint32_t *key, uint32_t n, uint64_t seed)
{
	uint64_t h = seed;

	for (uint32_t i = 0; i < n; i++)
		h = hash_mix(h, key[i]);
	return h;
}

static bool key_is(const struct parca_reader *r, uint32_t group, const uint32_t *key)
{
	return memcmp(r->keys.p + (uint64_t)group * r->n_keys, key, r->n_keys * sizeof(*key)) == 0;
}

static uint64_t hash_group(const struct parca_reader *r, uint32_t i)
{
	return hash_of_key(r->keys.p + (uint64_t)i * r->n_keys, r->n_keys, r->room->index->seed);
}

static int groups_grow(struct parca_reader *r, struct err *err)
{
	uint64_t before = hash_index_room(&r->index), room = MAX(2 * before, (uint64_t)64);

	if (!hash_index_is_full(&r->index))
		return 0;
	if (!profile_charge(r->room, room * sizeof(uint32_t)))
		return profile_err_memory(r->room, err);
	if (!HASH_INDEX_GROW(&r->index, room, i, hash_group(r, i))) {
		profile_uncharge(r->room, room * sizeof(uint32_t));
		return profile_err_memory(r->room, err);
	}
	profile_uncharge(r->room, before * sizeof(uint32_t));
	return 0;
}

/* The group of the key at the end of r->keys: the last one if it is new. */
static int find_group(struct parca_reader *r, const uint32_t *key, uint32_t *ret, struct err *err)
{
	uint32_t at, i;
	uint64_t hash;

	if (groups_grow(r, err) < 0)
		return -1;
	hash = hash_of_key(key, r->n_keys, profile_index_of(r->room)->seed);
	if (HASH_INDEX_FIND(&r->index, hash, at, i, key_is(r, i, key))) {
		*ret = i;
		return 0;
	}
	if (r->groups.n == PARCA_MAX_PROFILES)
		return err_set(err, ERR_LIMIT, "its rows are of more than %u profiles: send several requests",
			       PARCA_MAX_PROFILES);
	if (!profile_room(r->room, &r->keys, r->n_keys) ||
	    !profile_push(r->room, &r->groups, (struct parca_group){ 0 }))
		return profile_err_memory(r->room, err);
	memcpy(r->keys.p + r->keys.n, key, r->n_keys * sizeof(*key));
	r->keys.n += r->n_keys;
	*ret = r->groups.n - 1;
	hash_index_put(&r->index, at, *ret);
	return 0;
}

static int64_t earliest_time(const struct parca_reader *r, uint64_t n)
{
	int64_t first = INT64_MAX;

	for (uint64_t i = 0; i < n; i++)
		first = MIN(first, (int64_t)arrow_value(r->times, i));
	return first;
}

/* Rows of a group side by side, in their order. */
static void sort_rows(struct parca_reader *r)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < r->rows.n; i++)
		r->groups.p[r->rows.p[i]].n++;
	for (uint32_t i = 0; i < r->groups.n; i++) {
		r->groups.p[i].first = at;
		at += r->groups.p[i].n;
		r->groups.p[i].n = 0;
	}
	for (uint32_t i = 0; i < r->rows.n; i++) {
		struct parca_group *g = &r->groups.p[r->rows.p[i]];

		r->order.p[g->first + g->n++] = i;
	}
}

void parca_rows_done(struct parca_reader *r)
{
	profile_uncharge(r->room, hash_index_room(&r->index) * sizeof(uint32_t));
	free(r->index.slots);
	r->index = (struct hash_index){ 0 };
	r->keys.n = r->groups.n = r->rows.n = r->order.n = 0;
}

int parca_rows(struct parca_reader *r, struct err *err)
{
	uint32_t key[PARCA_MAX_KEYS], n = (uint32_t)arrow_rows(r->stream);
	int64_t first_ns;

	parca_rows_done(r);
	if (parca_columns(r, err) < 0)
		return -1;
	if (!profile_extend(r->room, &r->rows, n) || !profile_extend(r->room, &r->order, n))
		return profile_err_memory(r->room, err);
	first_ns = earliest_time(r, n);
	for (uint32_t i = 0; i < n; i++) {
		row_key(r, i, first_ns, key);
		if (profile_has_failed(r->room))
			return profile_err_memory(r->room, err);
		if (deadline_check(r->limits.deadline, 1, err) < 0)
			return -1;
		/* Rows side by side are mostly of one group. */
		if (i && key_is(r, r->rows.p[i - 1], key))
			r->rows.p[i] = r->rows.p[i - 1];
		else if (find_group(r, key, &r->rows.p[i], err) < 0)
			return -1;
	}
	sort_rows(r);
	return 0;
}
