/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's samples: profiles of a batch, batches of a stream. */
#include "profile/parca_read.h"

#define SCHEMA_VERSION STR("parca_write_schema_version")

static struct str key_str(const struct parca_reader *r, uint32_t group, uint32_t key)
{
	return profile_str(r->room, r->keys.p[(uint64_t)group * r->n_keys + key]);
}

/* ---- a profile ---- */

/*
 * Counts of samples of CPU time come with the time between two of them: both are stored, as pprof's own profiles of CPU
 * time have them.
 */
static void profile_types(struct parca_reader *r, uint32_t group)
{
	struct str type = key_str(r, group, PARCA_TYPE), unit = key_str(r, group, PARCA_UNIT),
		   period_type = key_str(r, group, PARCA_PERIOD_TYPE),
		   period_unit = key_str(r, group, PARCA_PERIOD_UNIT);
	struct profile *p = r->p;

	if (!type.size)
		err_set(&r->why, ERR_INVALID, "a row has no sample_type");
	p->period = (int64_t)parca_number(&r->periods, r->order.p[r->groups.p[group].first]);
	p->period_type.type = profile_add_string(p, period_type);
	p->period_type.unit = profile_add_string(p, period_unit);
	profile_add_type(p, type, unit);
	if (str_eq(type, STR("samples")) && str_eq(unit, STR("count")) && p->period > 0 &&
	    str_eq(period_type, STR("cpu")) && str_eq(period_unit, STR("nanoseconds")))
		profile_add_type(p, STR("cpu"), STR("nanoseconds"));
}

/* Of values that are differences the duration is that of the rows, or the time between the first and the last. */
static void profile_times(struct parca_reader *r, uint32_t group)
{
	const struct parca_group *g = &r->groups.p[group];
	int64_t first = INT64_MAX, last = INT64_MIN, duration = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		uint64_t row = r->order.p[g->first + i];
		int64_t time = (int64_t)arrow_value(r->times, row);

		first = MIN(first, time);
		last = MAX(last, time);
		duration = MAX(duration, (int64_t)parca_number(&r->durations, row));
	}
	r->p->time_ns = first;
	if (str_eq(key_str(r, group, PARCA_TEMPORALITY), STR("delta")))
		r->p->duration_ns = MAX(duration, last - first);
}

static int profile_samples(struct parca_reader *r, uint32_t group, struct err *err)
{
	const struct parca_group *g = &r->groups.p[group];

	for (uint32_t i = 0; i < g->n && !r->why.kind && !profile_has_failed(r->p); i++) {
		uint64_t row = r->order.p[g->first + i];
		int64_t values[2];

		if (deadline_check(r->limits.deadline, 1, err) < 0)
			return -1;
		values[0] = (int64_t)arrow_value(r->values, row);
		if (__builtin_mul_overflow(values[0], r->p->period, &values[1]))
			values[1] = values[0] < 0 ? INT64_MIN : INT64_MAX;
		profile_add_sample(r->p, parca_stack(r, row), 0, values);
	}
	return 0;
}

static int make_profile(struct parca_reader *r, uint32_t group, struct err *err)
{
	struct err failed = { 0 };

	r->number++;
	r->why = (struct err){ 0 };
	profile_types(r, group);
	profile_times(r, group);
	if (profile_samples(r, group, err) < 0)
		return -1;
	if (!r->why.kind && profile_build_end(r->p, &failed) < 0)
		r->why = failed;
	/* Of the machine's memory it is not the profile's fault: the request fails. */
	if (r->why.kind && (r->why.os || !err_is_input(&r->why))) {
		*err = r->why;
		return -1;
	}
	return 0;
}

/* ---- the stream ---- */

static size_t group_labels(const struct parca_reader *r, uint32_t group, struct parca_label *ret)
{
	size_t n = 0;

	ret[n++] = (struct parca_label){ STR("__name__"), key_str(r, group, PARCA_PRODUCER) };
	for (uint32_t i = PARCA_LABELS; i < r->n_keys; i++) {
		struct str value = key_str(r, group, i);

		if (value.size)
			ret[n++] = (struct parca_label){ r->columns[i].name, value };
	}
	return n;
}

static int each_group(struct parca_reader *r, uint32_t group, struct parca_sink sink,
		      struct parca_result *result, struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(&r->limits);
	struct parca_label labels[1 + PARCA_MAX_LABELS];
	int failed;

	r->p = p;
	failed = make_profile(r, group, err);
	r->p = NULL;
	if (failed < 0)
		return -1;
	if (r->why.kind) {
		if (!result->n_rejected++)
			result->why = r->why;
		return 0;
	}
	result->n_profiles++;
	return sink.fn(sink.arg, TAKE(p), labels, group_labels(r, group, labels), err);
}

static int read_batches(struct parca_reader *r, struct parca_sink sink, struct parca_result *result,
			struct err *err)
{
	struct str version = arrow_metadata(r->stream, SCHEMA_VERSION);
	int got;

	if (!str_eq(version, STR("v2")))
		return err_set(err, ERR_INVALID,
			       "is a stream of Arrow, but not of Parca's schema v2, which is the only one "
			       "that is read: update the agent");
	while ((got = arrow_next(r->stream, err)) == 0) {
		if (parca_rows(r, err) < 0)
			return -1;
		for (uint32_t i = 0; i < r->groups.n; i++)
			if (each_group(r, i, sink, result, err) < 0)
				return -1;
	}
	return got < 0 ? -1 : 0;
}

static void parca_reader_done(struct parca_reader *r)
{
	arrow_close(r->stream);
	parca_rows_done(r);
	profile_table_free(r->room, &r->keys);
	profile_table_free(r->room, &r->groups);
	profile_table_free(r->room, &r->rows);
	profile_table_free(r->room, &r->order);
	profile_table_free(r->room, &r->made_locations);
	profile_table_free(r->room, &r->made_stacks);
	profile_table_free(r->room, &r->lines);
	profile_table_free(r->room, &r->entries);
	profile_table_free(r->room, &r->locations);
	profile_free(r->room);
}

int parca_read(struct bytes in, const struct profile_limits *limits, struct parca_sink sink,
	       struct parca_result *ret, struct err *err)
{
	struct arrow_limits arrow = { .hold = limits ? limits->memory : NULL,
				      .max_size = limits && limits->max_size ? limits->max_size
									     : PROFILE_MAX_SIZE };
	struct parca_reader *r = NEW(struct parca_reader);
	int done;

	*ret = (struct parca_result){ 0 };
	if (limits)
		r->limits = *limits;
	r->room = profile_new(limits);
	done = arrow_open(in, &arrow, &r->stream, err) < 0 ? -1 : read_batches(r, sink, ret, err);
	parca_reader_done(r);
	mem_freep(&r);
	return done;
}
