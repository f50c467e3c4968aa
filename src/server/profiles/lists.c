/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is: types, labels and their values, series over time, profiles one by one.
 */
#include "server/json.h"
#include "server/profiles/profiles.h"

#include <stdlib.h>

#define MAX_BY      16u
#define MAX_SERIES  10000u
#define MAX_ENTRIES 100000u

static void write_list(struct api *a, const char *name, struct profilestore_list *l)
{
	struct buf *b = &a->out;

	buf_add_char(b, '{');
	api_add_key(b, name);
	buf_add_char(b, '[');
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_add_char(b, ',');
		json_add_string(b, l->v[i]);
	}
	buf_add_str(b, STR("]}\n"));
	free(l);
}

int api_types(struct api *a, struct err *err)
{
	struct profilestore_range r;
	struct profilestore_list *l;

	if (api_range(a, false, &r, err) < 0 || profilestore_types(a->store, &r, &l, err) < 0)
		return -1;
	write_list(a, "types", l);
	return 0;
}

int api_labels(struct api *a, struct err *err)
{
	struct profilestore_range r;
	struct profilestore_list *l;

	if (api_range(a, false, &r, err) < 0 || profilestore_label_names(a->store, &r, &l, err) < 0)
		return -1;
	write_list(a, "labels", l);
	return 0;
}

int api_label_values(struct api *a, struct err *err)
{
	struct profilestore_range r;
	struct profilestore_list *l;

	if (api_range(a, false, &r, err) < 0 || profilestore_label_values(a->store, &r, a->star, &l, err) < 0)
		return -1;
	write_list(a, "values", l);
	return 0;
}

/* ---- series ---- */

static void write_series(struct buf *b, const struct profilestore_series_list *l,
			 const struct profilestore_series *x)
{
	buf_add_char(b, '{');
	api_add_labels(b, x->labels, x->n_labels);
	api_add_int_of(b, "total", x->total);
	api_add_int_of(b, "profiles", (int64_t)x->n_profiles);
	api_add_key(b, "points");
	buf_add_char(b, '[');
	for (size_t i = 0; i < l->n_points; i++) {
		if (i)
			buf_add_char(b, ',');
		api_add_int(b, x->points[i]);
	}
	buf_add_str(b, STR("]}"));
}

static int series_options(struct api *a, struct str by[MAX_BY], struct profilestore_series_options *ret,
			  struct err *err)
{
	struct profilestore_series_options o = { .by = by };
	struct str names = api_text(a, "by"), step = api_text(a, "step");
	uint64_t limit;

	/* A number alone is milliseconds. */
	if (step.size && !api_duration_parse(step, &o.step_ms) &&
	    (!str_to_u64(step, (uint64_t *)&o.step_ms) || o.step_ms < 0))
		return err_set(err, ERR_INVALID, "'step' has to be a time such as 15s, 1h, or milliseconds");
	if (step.size && !o.step_ms)
		return err_set(err, ERR_INVALID, "'step' has to be more than nothing");
	if (api_flag(a, "one", &o.one, err) < 0 || api_number(a, "limit", 100, MAX_SERIES, &limit, err) < 0)
		return -1;
	o.limit = (uint32_t)limit;
	while (names.size) {
		if (o.n_by == MAX_BY)
			return err_set(err, ERR_INVALID, "'by' has more than %u labels", MAX_BY);
		by[o.n_by++] = str_trim(str_cut(&names, ','));
	}
	*ret = o;
	return 0;
}

int api_series(struct api *a, struct err *err)
{
	struct profilestore_series_options o;
	struct profilestore_series_list *l;
	struct profilestore_range r;
	struct str by[MAX_BY];
	struct buf *b = &a->out;

	if (api_range(a, false, &r, err) < 0 || series_options(a, by, &o, err) < 0 ||
	    profilestore_series(a->store, &r, &o, &l, err) < 0)
		return -1;
	buf_add_char(b, '{');
	api_add_str_of(b, "type", l->type);
	api_add_str_of(b, "unit", l->unit);
	api_add_int_of(b, "from", l->from_ms);
	api_add_int_of(b, "step", l->step_ms);
	api_add_key(b, "series");
	buf_add_char(b, '[');
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_add_char(b, ',');
		write_series(b, l, &l->v[i]);
	}
	buf_add_char(b, ']');
	api_add_int_of(b, "left_out", (int64_t)l->n_left_out);
	buf_add_str(b, STR("}\n"));
	free(l);
	return 0;
}

/* ---- profiles ---- */

int api_profiles(struct api *a, struct err *err)
{
	struct profilestore_entries *l;
	struct profilestore_range r;
	struct buf *b = &a->out;
	uint64_t limit;

	if (api_range(a, false, &r, err) < 0 || api_number(a, "limit", 100, MAX_ENTRIES, &limit, err) < 0 ||
	    profilestore_profiles(a->store, &r, (uint32_t)limit, &l, err) < 0)
		return -1;
	buf_add_str(b, STR("{\"profiles\":["));
	for (size_t i = 0; i < l->n; i++) {
		const struct profilestore_entry *e = &l->v[i];

		buf_add_str(b, i ? STR(",{") : STR("{"));
		api_add_int_of(b, "id", e->id);
		api_add_int_of(b, "time", e->time_ms);
		api_add_int_of(b, "duration", e->duration_ms);
		api_add_int_of(b, "total", e->total);
		api_add_int_of(b, "samples", (int64_t)e->n_samples);
		api_add_labels(b, e->labels, e->n_labels);
		buf_add_char(b, '}');
	}
	buf_add_str(b, STR("]}\n"));
	free(l);
	return 0;
}
