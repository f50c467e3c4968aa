/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a profile as a request of OTLP.
 *
 * Entry 0 of each table of the dictionary is "nothing", so entry i of the profile is entry i + 1 of the request; the profile's
 * string 0 is empty, so its strings keep their numbers, and those that OTLP needs follow. Attributes are: nothing, the two
 * types of frames, a build ID for each mapping, a number for each label that is one.
 */
#include "profile/otlp.h"

#include <endian.h>
#include <stdlib.h>

#include "codec/codec.h"
#include "profile/otlp_fields.h"
#include "wire/proto.h"

#define OTLP_GZIP_LEVEL 6
#define OTLP_ZSTD_LEVEL 3
#define ID_SIZE         16u

enum { ATTRIBUTE_NATIVE = 1, ATTRIBUTE_KERNEL, ATTRIBUTES_FIRST };

/* Of a sample type. */
enum otlp_way { OTLP_AS_IT_IS, OTLP_COUNTED, OTLP_LEFT_OUT };

struct otlp_writer {
	const struct profile *p;
	const struct otlp_write_options *o;
	uint32_t *stacks;     /* by stack of the profile: of the dictionary; 0: not used */
	uint32_t *label_attr; /* by label: of the dictionary; 0: a text */
	uint32_t *by_set;     /* samples, those of equal sets of labels together */
	uint32_t *set_start;  /* where those of a set begin, and one more */
	uint32_t n_stacks, n_profiles;
	uint32_t s_samples, s_count; /* strings */
	enum otlp_way ways[PROFILE_MAX_TYPES];
	struct buf dictionary, m, sub, value;
};

/* ---- small messages ---- */

static void put_utf8(struct buf *b, uint32_t field, struct str s, struct buf *valid)
{
	while (s.size)
		buf_add_str(valid, str_utf8_next(&s));
	proto_put_bytes(b, field, valid->p, valid->size);
	valid->size = 0;
}

static void put_fixed(struct buf *b, uint32_t field, uint64_t v)
{
	buf_add_uleb(b, (uint64_t)field << 3 | PROTO_64);
	v = htole64(v);
	buf_add(b, &v, sizeof(v));
}

static void put_value_type(struct buf *b, uint32_t field, uint32_t type, uint32_t unit, struct buf *m)
{
	proto_put_number(m, OTLP_TYPE, type);
	proto_put_number(m, OTLP_UNIT, unit);
	proto_put_message(b, field, m);
}

/* A text as the value of an attribute; @m is the attribute. */
static void put_text_value(struct otlp_writer *w, struct buf *m, uint32_t field, struct str text)
{
	AUTO(buf_done) struct buf valid = { 0 };

	put_utf8(&w->value, OTLP_VALUE_TEXT, text, &valid);
	proto_put_message(m, field, &w->value);
}

/* ---- the dictionary ---- */

static uint32_t put_dictionary_string(struct otlp_writer *w, struct str s, uint32_t *n)
{
	AUTO(buf_done) struct buf valid = { 0 };

	put_utf8(&w->dictionary, OTLP_STRINGS, s, &valid);
	return (*n)++;
}

static void put_attribute_text(struct otlp_writer *w, uint32_t key, struct str value)
{
	proto_put_number(&w->m, OTLP_ATTRIBUTE_KEY, key);
	put_text_value(w, &w->m, OTLP_ATTRIBUTE_VALUE, value);
	proto_put_message(&w->dictionary, OTLP_ATTRIBUTES, &w->m);
}

static void put_label_numbers(struct otlp_writer *w, uint32_t next)
{
	for (uint32_t i = 0; i < w->p->labels.n; i++) {
		const struct profile_label *l = &w->p->labels.p[i];

		if (l->str)
			continue;
		proto_put_number(&w->m, OTLP_ATTRIBUTE_KEY, l->key);
		/* Zero is a value, too: an attribute without one would be none. */
		buf_add_uleb(&w->value, OTLP_VALUE_INT << 3 | PROTO_VARINT);
		buf_add_uleb(&w->value, (uint64_t)l->num);
		proto_put_message(&w->m, OTLP_ATTRIBUTE_VALUE, &w->value);
		proto_put_number(&w->m, OTLP_ATTRIBUTE_UNIT, l->unit);
		proto_put_message(&w->dictionary, OTLP_ATTRIBUTES, &w->m);
		w->label_attr[i] = next++;
	}
}

/* Strings, attributes and mappings. */
static void put_mappings(struct otlp_writer *w)
{
	const struct profile *p = w->p;
	uint32_t n = 0, next = ATTRIBUTES_FIRST, s_build_id, s_frame_type;

	for (uint32_t i = 0; i < p->strings.n && !buf_is_over(&w->dictionary); i++)
		put_dictionary_string(w, p->strings.p[i], &n);
	s_build_id = put_dictionary_string(w, OTLP_BUILD_ID_GNU, &n);
	s_frame_type = put_dictionary_string(w, OTLP_FRAME_TYPE, &n);
	w->s_samples = put_dictionary_string(w, STR("samples"), &n);
	w->s_count = put_dictionary_string(w, STR("count"), &n);
	proto_put_message(&w->dictionary, OTLP_ATTRIBUTES, &w->m);
	put_attribute_text(w, s_frame_type, OTLP_FRAME_NATIVE);
	put_attribute_text(w, s_frame_type, OTLP_FRAME_KERNEL);
	proto_put_message(&w->dictionary, OTLP_MAPPINGS, &w->m);
	for (uint32_t i = 0; i < p->mappings.n; i++) {
		const struct profile_mapping *map = &p->mappings.p[i];

		if (map->build_id)
			put_attribute_text(w, s_build_id, profile_str(p, map->build_id));
		proto_put_number(&w->m, OTLP_MAPPING_START, map->start);
		proto_put_number(&w->m, OTLP_MAPPING_LIMIT, map->limit);
		proto_put_number(&w->m, OTLP_MAPPING_OFFSET, map->offset);
		proto_put_number(&w->m, OTLP_MAPPING_FILE, map->file);
		if (map->build_id) {
			buf_add_uleb(&w->sub, next++);
			proto_put_message(&w->m, OTLP_MAPPING_ATTRIBUTES, &w->sub);
		}
		proto_put_message(&w->dictionary, OTLP_MAPPINGS, &w->m);
	}
	put_label_numbers(w, next);
}

static void put_functions(struct otlp_writer *w)
{
	proto_put_message(&w->dictionary, OTLP_FUNCTIONS, &w->m);
	for (uint32_t i = 0; i < w->p->functions.n; i++) {
		const struct profile_function *f = &w->p->functions.p[i];

		proto_put_number(&w->m, OTLP_FUNCTION_NAME, f->name);
		proto_put_number(&w->m, OTLP_FUNCTION_SYSTEM_NAME, f->system_name);
		proto_put_number(&w->m, OTLP_FUNCTION_FILE, f->file);
		proto_put_number(&w->m, OTLP_FUNCTION_LINE, (uint64_t)f->start_line);
		proto_put_message(&w->dictionary, OTLP_FUNCTIONS, &w->m);
	}
}

/* The kernel and its modules have names in brackets; the vDSO is code of a process. 0: not known. */
static uint32_t frame_type_of(const struct otlp_writer *w, const struct profile_location *l)
{
	struct str file;

	if (l->mapping == PROFILE_NONE)
		return 0;
	file = profile_str(w->p, w->p->mappings.p[l->mapping].file);
	if (!file.size || *file.p != '[' || str_eq(file, STR("[vdso]")))
		return ATTRIBUTE_NATIVE;
	return ATTRIBUTE_KERNEL;
}

static void put_locations(struct otlp_writer *w)
{
	const struct profile *p = w->p;

	proto_put_message(&w->dictionary, OTLP_LOCATIONS, &w->m);
	for (uint32_t i = 0; i < p->locations.n && !buf_is_over(&w->dictionary); i++) {
		const struct profile_location *l = &p->locations.p[i];
		uint32_t type = frame_type_of(w, l);

		proto_put_number(&w->m, OTLP_LOCATION_MAPPING,
				 l->mapping == PROFILE_NONE ? 0 : (uint64_t)l->mapping + 1);
		proto_put_number(&w->m, OTLP_LOCATION_ADDRESS, l->addr);
		for (uint32_t k = 0; k < l->n_lines; k++) {
			const struct profile_line *line = &p->lines.p[l->first_line + k];

			proto_put_number(&w->sub, OTLP_LINE_FUNCTION, (uint64_t)line->function + 1);
			proto_put_number(&w->sub, OTLP_LINE_LINE, (uint64_t)line->line);
			proto_put_number(&w->sub, OTLP_LINE_COLUMN, (uint64_t)line->column);
			proto_put_message(&w->m, OTLP_LOCATION_LINES, &w->sub);
		}
		if (type) {
			buf_add_uleb(&w->sub, type);
			proto_put_message(&w->m, OTLP_LOCATION_ATTRIBUTES, &w->sub);
		}
		proto_put_message(&w->dictionary, OTLP_LOCATIONS, &w->m);
	}
}

/* Those that samples have; a stack is a list of locations, the leaf first. */
static void put_otlp_stacks(struct otlp_writer *w)
{
	const struct profile *p = w->p;

	proto_put_message(&w->dictionary, OTLP_STACKS, &w->m);
	w->n_stacks = 1;
	for (uint32_t i = 0; i < p->n_samples && !buf_is_over(&w->dictionary); i++) {
		uint32_t stack = p->sample_stack[i];

		if (!stack || w->stacks[stack])
			continue;
		w->stacks[stack] = w->n_stacks++;
		for (uint32_t s = stack; s; s = p->stacks.p[s].parent)
			buf_add_uleb(&w->sub, (uint64_t)p->stacks.p[s].location + 1);
		proto_put_message(&w->m, OTLP_STACK_LOCATIONS, &w->sub);
		proto_put_message(&w->dictionary, OTLP_STACKS, &w->m);
	}
}

/* ---- profiles ---- */

static bool is_unit(const struct otlp_writer *w, struct profile_type t, struct str type, struct str unit)
{
	return str_eq(profile_str(w->p, t.type), type) && str_eq(profile_str(w->p, t.unit), unit);
}

/* CPU time that is a number of samples. */
static bool is_counted(const struct otlp_writer *w, uint32_t type)
{
	const struct profile *p = w->p;

	if (p->period <= 0 || !is_unit(w, p->types.p[type], STR("cpu"), STR("nanoseconds")) ||
	    !is_unit(w, p->period_type, STR("cpu"), STR("nanoseconds")))
		return false;
	for (uint32_t i = 0; i < p->n_samples; i++)
		if (profile_value(p, i, type) % p->period)
			return false;
	return true;
}

/* Another type has these counts already, and a reader makes the CPU time of it. */
static bool is_counted_already(const struct otlp_writer *w, uint32_t type)
{
	const struct profile *p = w->p;

	for (uint32_t t = 0; t < p->types.n; t++) {
		bool equal = is_unit(w, p->types.p[t], STR("samples"), STR("count"));

		for (uint32_t i = 0; equal && i < p->n_samples; i++)
			equal = profile_value(p, i, t) == profile_value(p, i, type) / p->period;
		if (equal)
			return true;
	}
	return false;
}

static enum otlp_way way_of_type(const struct otlp_writer *w, uint32_t type)
{
	if (!is_counted(w, type))
		return OTLP_AS_IT_IS;
	return is_counted_already(w, type) ? OTLP_LEFT_OUT : OTLP_COUNTED;
}

static void put_otlp_sample(struct otlp_writer *w, uint32_t sample, int64_t value, struct buf *profile)
{
	const struct profile_label_set *set = &w->p->label_sets.p[w->p->sample_labels[sample]];

	proto_put_number(&w->m, OTLP_SAMPLE_STACK, w->stacks[w->p->sample_stack[sample]]);
	for (uint32_t i = 0; i < set->n; i++)
		if (w->label_attr[set->first + i])
			buf_add_uleb(&w->sub, w->label_attr[set->first + i]);
	if (w->sub.size)
		proto_put_message(&w->m, OTLP_SAMPLE_ATTRIBUTES, &w->sub);
	buf_add_uleb(&w->sub, (uint64_t)value);
	proto_put_message(&w->m, OTLP_SAMPLE_VALUES, &w->sub);
	proto_put_message(profile, OTLP_SAMPLES, &w->m);
}

static void put_profile_id(struct otlp_writer *w, struct buf *profile)
{
	uint8_t id[ID_SIZE];
	uint32_t n = htole32(++w->n_profiles), last;

	if (!w->o->id)
		return;
	memcpy(id, w->o->id, ID_SIZE);
	memcpy(&last, id + ID_SIZE - sizeof(last), sizeof(last));
	last ^= n;
	memcpy(id + ID_SIZE - sizeof(last), &last, sizeof(last));
	proto_put_bytes(profile, OTLP_PROFILE_ID, id, ID_SIZE);
}

/* The samples of one set of labels, with one type. */
static void put_otlp_profile(struct otlp_writer *w, uint32_t set, uint32_t type, struct buf *profile)
{
	bool counted = w->ways[type] == OTLP_COUNTED;
	const struct profile *p = w->p;
	const struct profile_type *t = &p->types.p[type];

	put_value_type(profile, OTLP_SAMPLE_TYPE, counted ? w->s_samples : t->type,
		       counted ? w->s_count : t->unit, &w->m);
	put_fixed(profile, OTLP_TIME, (uint64_t)p->time_ns);
	proto_put_number(profile, OTLP_DURATION, (uint64_t)p->duration_ns);
	if (p->period_type.type || p->period_type.unit)
		put_value_type(profile, OTLP_PERIOD_TYPE, p->period_type.type, p->period_type.unit, &w->m);
	proto_put_number(profile, OTLP_PERIOD, (uint64_t)p->period);
	put_profile_id(w, profile);
	for (uint32_t i = w->set_start[set]; i < w->set_start[set + 1] && !buf_is_over(profile); i++) {
		int64_t value = profile_value(p, w->by_set[i], type);

		put_otlp_sample(w, w->by_set[i], counted ? value / p->period : value, profile);
	}
}

/* ---- resources ---- */

static void put_resource_attribute(struct otlp_writer *w, struct buf *resource, struct str key,
				   struct str value)
{
	AUTO(buf_done) struct buf valid = { 0 };

	put_utf8(&w->m, OTLP_KEY, key, &valid);
	put_text_value(w, &w->m, OTLP_VALUE, value);
	proto_put_message(resource, OTLP_RESOURCE_ATTRIBUTES, &w->m);
}

static void put_resource(struct otlp_writer *w, uint32_t set, struct buf *out)
{
	const struct otlp_write_options *o = w->o;
	const struct profile_label_set *labels = &w->p->label_sets.p[set];
	AUTO(buf_done) struct buf resource = { 0 };

	for (size_t i = 0; i < o->n_resource; i++)
		put_resource_attribute(w, &resource, o->resource[i].name, o->resource[i].value);
	for (uint32_t i = 0; i < labels->n; i++) {
		const struct profile_label *l = &w->p->labels.p[labels->first + i];
		struct str key = profile_str(w->p, l->key), value = profile_str(w->p, l->str);

		if (!l->str)
			continue;
		put_resource_attribute(w, &resource, o->key ? o->key(o->arg, key, value) : key, value);
	}
	proto_put_message(out, OTLP_RESOURCE, &resource);
}

static void put_resource_profiles(struct otlp_writer *w, uint32_t set, struct buf *out)
{
	AUTO(buf_done) struct buf all = { 0 };
	AUTO(buf_done) struct buf scope = { 0 };
	AUTO(buf_done) struct buf profile = { 0 };

	buf_meter(&all, out->hold);
	put_resource(w, set, &all);
	proto_put_str(&w->m, OTLP_SCOPE_NAME, STR("lode"));
	proto_put_str(&w->m, OTLP_SCOPE_VERSION, STR(LODE_VERSION));
	proto_put_message(&scope, OTLP_SCOPE, &w->m);
	for (uint32_t t = 0; t < w->p->types.n; t++) {
		if (w->ways[t] == OTLP_LEFT_OUT)
			continue;
		put_otlp_profile(w, set, t, &profile);
		proto_put_message(&scope, OTLP_PROFILES, &profile);
	}
	proto_put_message(&all, OTLP_SCOPE_PROFILES, &scope);
	proto_put_message(out, OTLP_RESOURCE_PROFILES, &all);
}

/* ---- the whole ---- */

static void sort_by_set(struct otlp_writer *w)
{
	const struct profile *p = w->p;
	uint32_t *next = mem_zalloc(((size_t)p->label_sets.n + 1) * sizeof(*next));

	for (uint32_t i = 0; i < p->n_samples; i++)
		w->set_start[p->sample_labels[i] + 1]++;
	for (uint32_t s = 0; s < p->label_sets.n; s++) {
		w->set_start[s + 1] += w->set_start[s];
		next[s] = w->set_start[s];
	}
	for (uint32_t i = 0; i < p->n_samples; i++)
		w->by_set[next[p->sample_labels[i]]++] = i;
	free(next);
}

static void otlp_put_all(struct otlp_writer *w, struct buf *out)
{
	const struct profile *p = w->p;

	for (uint32_t t = 0; t < p->types.n; t++)
		w->ways[t] = way_of_type(w, t);
	sort_by_set(w);
	put_mappings(w);
	put_functions(w);
	put_locations(w);
	put_otlp_stacks(w);
	for (uint32_t s = 0; s < p->label_sets.n && !buf_is_over(out); s++)
		if (w->set_start[s] < w->set_start[s + 1])
			put_resource_profiles(w, s, out);
	proto_put_message(out, OTLP_DICTIONARY, &w->dictionary);
}

static void otlp_writer_done(struct otlp_writer *w)
{
	free(w->stacks);
	free(w->label_attr);
	free(w->by_set);
	free(w->set_start);
	buf_done(&w->dictionary);
	buf_done(&w->m);
	buf_done(&w->sub);
	buf_done(&w->value);
}

int otlp_write(const struct profile *p, const struct otlp_write_options *o, struct buf *out, struct err *err)
{
	struct otlp_writer w = { .p = p, .o = o };
	AUTO(buf_done) struct buf plain = { 0 };

	if (p->types.n > PROFILE_MAX_TYPES)
		return err_set(err, ERR_LIMIT, "has more than %u sample types", PROFILE_MAX_TYPES);
	buf_meter(&plain, out->hold);
	w.stacks = mem_zalloc(((size_t)p->stacks.n + 1) * sizeof(*w.stacks));
	w.label_attr = mem_zalloc(((size_t)p->labels.n + 1) * sizeof(*w.label_attr));
	w.by_set = mem_zalloc(((size_t)p->n_samples + 1) * sizeof(*w.by_set));
	w.set_start = mem_zalloc(((size_t)p->label_sets.n + 2) * sizeof(*w.set_start));
	otlp_put_all(&w, o->packing == OTLP_PLAIN ? out : &plain);
	otlp_writer_done(&w);
	if (buf_check(&plain, err) < 0)
		return -1;
	switch (o->packing) {
	case OTLP_GZIP:
		return codec_pack_gzip(buf_bytes(&plain), OTLP_GZIP_LEVEL, out, err);
	case OTLP_ZSTD:
		return codec_pack_zstd(buf_bytes(&plain), OTLP_ZSTD_LEVEL, out, err);
	default:
		return 0;
	}
}
