/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's WriteRaw as JSON over its gateway's path: series of labels, each with pprof profiles in base64. parca_v1.c has the
 * call itself.
 */
#include "server/json.h"
#include "server/intake/intake.h"
#include "server/intake/forms.h"

#define MAX_LISTS  100000u
#define MAX_VALUES 400000u

static struct str parca_text(const json_t *j)
{
	return json_is_string(j) ? (struct str){ json_string_value(j), json_string_length(j) } : STR("");
}

/* JSON of protobuf messages may have either name. */
static const json_t *json_field(const json_t *j, const char *name, const char *camel)
{
	const json_t *v = json_object_get(j, name);

	return v ? v : json_object_get(j, camel);
}

static int parca_labels(const json_t *series, struct arena *a, struct form_profile *f, struct err *err)
{
	const json_t *list = json_object_get(json_object_get(series, "labels"), "labels"), *one;
	struct profilestore_label *labels;
	size_t i;

	if (!json_is_array(list))
		return err_set(err, ERR_INVALID, "no list 'labels' in 'labels'");
	if (json_array_size(list) > PROFILESTORE_MAX_LABELS)
		return err_set(err, ERR_LIMIT, "more than %u labels", PROFILESTORE_MAX_LABELS);
	labels = ARENA_NEW_N(a, struct profilestore_label, json_array_size(list) + 1);
	json_array_foreach(list, i, one)
	{
		const json_t *name = json_object_get(one, "name"), *value = json_object_get(one, "value");

		if (!json_is_string(name) || (value && !json_is_string(value)))
			return err_set(err, ERR_INVALID, "label %zu: 'name' and 'value' must be text", i);
		labels[i] = (struct profilestore_label){ parca_text(name), parca_text(value) };
	}
	f->labels = labels;
	f->n_labels = json_array_size(list);
	return 0;
}

static int each_sample(const json_t *series, struct form_profile *f, struct form_sink sink, struct err *err)
{
	const json_t *list = json_object_get(series, "samples"), *one;
	AUTO(buf_done) struct buf raw = { .hold = sink.memory };
	size_t i;

	if (!json_is_array(list) || !json_array_size(list))
		return err_set(err, ERR_INVALID, "no list 'samples'");
	json_array_foreach(list, i, one)
	{
		const json_t *text = json_field(one, "raw_profile", "rawProfile");

		raw.size = 0;
		if (!json_is_string(text) || !base64_decode(parca_text(text), &raw))
			return err_set(err, ERR_INVALID, "sample %zu has no 'raw_profile' in base64", i);
		f->raw = buf_bytes(&raw);
		if (buf_check(&raw, err) < 0)
			return -1;
		if (sink.fn(sink.arg, f, err) < 0)
			return err_in(err, "sample %zu", i);
	}
	return 0;
}

static int each_series(const json_t *all, struct arena *a, struct form_sink sink, struct err *err)
{
	struct form_profile f = { .normalized = json_is_true(json_object_get(all, "normalized")) };
	const json_t *list = json_object_get(all, "series"), *one;
	size_t i;

	if (!json_is_array(list) || !json_array_size(list))
		return err_set(err, ERR_INVALID, "no list 'series'");
	json_array_foreach(list, i, one)
	{
		if (parca_labels(one, a, &f, err) < 0 || each_sample(one, &f, sink, err) < 0)
			return err_in(err, "series %zu", i);
	}
	return 0;
}

int form_parca(struct bytes body, struct arena *a, struct form_sink sink, struct err *err)
{
	uint64_t tree = json_tree_size(body);
	json_t *all;
	int r;

	if (budget_hold_add(sink.memory, tree, err) < 0)
		return -1;
	all = json_load_bytes(body, MAX_LISTS, MAX_VALUES, err);
	r = all ? each_series(all, a, sink, err) : -1;
	json_decref(all);
	budget_hold_sub(sink.memory, tree);
	return r;
}

/* ---- the request ---- */

static bool has_name(const struct form_profile *f)
{
	for (size_t i = 0; i < f->n_labels; i++)
		if (str_eq(f->labels[i].name, STR("__name__")) && f->labels[i].value.size)
			return true;
	return false;
}

int parca_take_pprof(struct api *a, const struct form_profile *f, struct err *err)
{
	AUTO(profile_freep) struct profile *p = NULL;

	if (!has_name(f))
		return err_set(err, ERR_INVALID,
			       "the label __name__ is missing: it names the type of the profile");
	if (take_read(a, f->raw, STR("pprof"), &p, err) < 0)
		return -1;
	for (uint32_t i = 0; f->normalized && i < p->mappings.n; i++)
		p->mappings.p[i].start = p->mappings.p[i].limit = p->mappings.p[i].offset = 0;
	return take_foreign(a, TAKE(p), f->labels, f->n_labels, (struct take_how){ 0 }, err);
}

/* One may decode to hundreds of megabytes: the clock is read for each. */
static int parca_take_one(void *arg, const struct form_profile *f, struct err *err)
{
	struct api *a = arg;

	return deadline_check(&a->deadline, DEADLINE_STEPS, err) < 0 ? -1 : parca_take_pprof(a, f, err);
}

static void parca_answer(struct api *a, const struct profilestore_receipt *r)
{
	buf_add_str(&a->out, STR("{}\n"));
}

int api_post_parca(struct api *a, struct err *err)
{
	int r = form_parca(a->body, a->arena, (struct form_sink){ parca_take_one, a, &a->memory }, err);

	return take_end(a, r, parca_answer, err);
}
