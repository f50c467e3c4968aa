/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists: types, labels and their values, series over time, single profiles.
 */
#include "server/profiles/profiles.h"

#include <stdlib.h>

#define MAX_BY       16u
#define MAX_SERIES   10000u
#define MAX_ENTRIES  100000u
#define USUAL_LISTED 100u

static void write_list(struct api *a, const char *name, struct profilestore_list *l)
{
	struct json_writer *w = &a->json;

	json_open_object(w, NULL);
	json_open_array(w, name);
	for (size_t i = 0; i < l->n && !buf_is_over(&a->out); i++)
		json_put_str(w, NULL, l->v[i]);
	json_close(w);
	json_close(w);
	buf_add_char(&a->out, '\n');
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

static void write_series(struct api *a, const struct profilestore_series_list *l,
			 const struct profilestore_series *x)
{
	struct json_writer *w = &a->json;

	json_open_object(w, NULL);
	api_put_labels(a, x->labels, x->n_labels);
	json_put_int(w, "total", x->total);
	json_put_uint(w, "profiles", x->n_profiles);
	json_open_array(w, "points");
	for (size_t i = 0; i < l->n_points; i++)
		json_put_int(w, NULL, x->points[i]);
	json_close(w);
	json_close(w);
}

static int series_options(struct api *a, struct str by[MAX_BY], struct profilestore_series_options *ret,
			  struct err *err)
{
	struct profilestore_series_options o = { .by = by };
	struct str names = api_text(a, "by"), step = api_text(a, "step");
	uint64_t limit;

	/* A number without a unit is milliseconds. */
	if (step.size && !api_duration_parse(step, &o.step_ms) &&
	    (!str_to_u64(step, (uint64_t *)&o.step_ms) || o.step_ms < 0))
		return err_set(err, ERR_INVALID, "'step' must be a time such as 15s, 1h, or milliseconds");
	if (step.size && !o.step_ms)
		return err_set(err, ERR_INVALID, "'step' must be more than 0");
	if (api_flag(a, "one", &o.one, err) < 0 ||
	    api_number(a, "limit", USUAL_LISTED, MAX_SERIES, &limit, err) < 0)
		return -1;
	o.limit = (uint32_t)limit;
	o.memory = &a->memory;
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
	struct json_writer *w = &a->json;

	if (api_range(a, false, &r, err) < 0 || series_options(a, by, &o, err) < 0 ||
	    profilestore_series(a->store, &r, &o, &l, err) < 0)
		return -1;
	json_open_object(w, NULL);
	json_put_str(w, "type", l->type);
	json_put_str(w, "unit", l->unit);
	json_put_int(w, "total", l->total);
	json_put_int(w, "from", l->from_ms);
	json_put_int(w, "step", l->step_ms);
	json_open_array(w, "series");
	for (size_t i = 0; i < l->n && !buf_is_over(&a->out); i++)
		write_series(a, l, &l->v[i]);
	json_close(w);
	json_put_uint(w, "left_out", l->n_left_out);
	api_put_damaged(a, l->n_damaged);
	json_close(w);
	buf_add_char(&a->out, '\n');
	free(l);
	return 0;
}

/* ---- profiles ---- */

int api_profiles(struct api *a, struct err *err)
{
	struct profilestore_entries *l;
	struct profilestore_range r;
	struct json_writer *w = &a->json;
	uint64_t limit;

	if (api_range(a, false, &r, err) < 0 ||
	    api_number(a, "limit", USUAL_LISTED, MAX_ENTRIES, &limit, err) < 0 ||
	    profilestore_profiles(a->store, &r, (uint32_t)limit, &l, err) < 0)
		return -1;
	json_open_object(w, NULL);
	json_open_array(w, "profiles");
	for (size_t i = 0; i < l->n && !buf_is_over(&a->out); i++) {
		const struct profilestore_entry *e = &l->v[i];

		json_open_object(w, NULL);
		json_put_int(w, "id", e->id);
		json_put_int(w, "time", e->time_ms);
		json_put_int(w, "duration", e->duration_ms);
		json_put_int(w, "total", e->total);
		json_put_uint(w, "samples", e->n_samples);
		api_put_labels(a, e->labels, e->n_labels);
		json_close(w);
	}
	json_close(w);
	api_put_damaged(a, l->n_damaged);
	json_close(w);
	buf_add_char(&a->out, '\n');
	free(l);
	return 0;
}
