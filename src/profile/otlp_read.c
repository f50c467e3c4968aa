/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP's profiles: resources, scopes, profiles, samples. */
#include "profile/otlp_read.h"

static int64_t sum_of(const otlp_numbers *list)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < list->n; i++)
		if (__builtin_add_overflow(sum, (int64_t)list->p[i], &sum))
			return (int64_t)list->p[i] < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

/* ---- samples ---- */

/* The times of a sample are fixed64s; only their number counts. */
static uint64_t n_times(const struct proto_field *f)
{
	return f->wire == PROTO_LEN ? f->b.size / sizeof(uint64_t) : f->wire == PROTO_64;
}

static void add_otlp_sample(struct otlp_reader *r, struct bytes in)
{
	struct cursor c = cursor_of(in);
	uint64_t stack = 0, times = 0;
	struct proto_field f;
	int64_t values[2];
	bool has_values;
	uint32_t labels;

	r->list.n = 0;
	r->values.n = 0;
	while (proto_next(&c, &f)) {
		if (f.number == OTLP_SAMPLE_STACK)
			stack = f.v;
		else if (f.number == OTLP_SAMPLE_ATTRIBUTES)
			otlp_add_numbers(r, &f, &r->list);
		else if (f.number == OTLP_SAMPLE_VALUES)
			otlp_add_numbers(r, &f, &r->values);
		else if (f.number == OTLP_SAMPLE_TIMES)
			times += n_times(&f);
	}
	otlp_end(r, &c, "sample");
	has_values = r->values.n > 0;
	if (!has_values && !times)
		otlp_note(r, ERR_INVALID, "a sample has neither values nor timestamps");
	values[0] = has_values ? sum_of(&r->values) : (int64_t)times;
	if (__builtin_mul_overflow(values[0], r->p->period, &values[1]))
		values[1] = values[0] < 0 ? INT64_MIN : INT64_MAX;
	labels = otlp_sample_labels(r); /* first: a stack's mappings use r->list as well */
	profile_add_sample(r->p, otlp_stack(r, stack), labels, values);
}

/* ---- profiles ---- */

static struct profile_type read_type(struct otlp_reader *r, struct bytes in)
{
	struct profile_type ret = { 0 };
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		if (f.number == OTLP_TYPE)
			ret.type = otlp_string(r, f.v);
		else if (f.number == OTLP_UNIT)
			ret.unit = otlp_string(r, f.v);
	}
	otlp_end(r, &c, "type");
	return ret;
}

static bool is_type(const struct profile *p, struct profile_type t, struct str type, struct str unit)
{
	return str_eq(profile_str(p, t.type), type) && str_eq(profile_str(p, t.unit), unit);
}

/*
 * Profilers of CPU time send counts of samples, and the time between two of them as the period. Both are stored, as
 * pprof's own profiles of CPU time have them.
 */
static void add_types(struct otlp_reader *r, struct profile_type type)
{
	struct profile *p = r->p;
	bool counts = is_type(p, type, STR("samples"), STR("count"));

	if (!type.type)
		otlp_note(r, ERR_INVALID, "it has no sample type");
	profile_add_type(p, profile_str(p, type.type), profile_str(p, type.unit));
	if (counts && p->period > 0 && is_type(p, p->period_type, STR("cpu"), STR("nanoseconds")))
		profile_add_type(p, STR("cpu"), STR("nanoseconds"));
}

/* Everything but samples, which need the types first. */
static void read_profile_head(struct otlp_reader *r, struct bytes in)
{
	struct profile_type type = { 0 };
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f)) {
		switch (f.number) {
		case OTLP_SAMPLE_TYPE:
			type = read_type(r, f.b);
			break;
		case OTLP_TIME:
			r->p->time_ns = (int64_t)MIN(f.v, (uint64_t)INT64_MAX);
			if (f.wire != PROTO_64)
				otlp_note(r, ERR_INVALID,
					  "its time is of wire type %u: it is of an OTLP before 1.9, which "
					  "is not "
					  "read: update the sender",
					  f.wire);
			break;
		case OTLP_DURATION:
			r->p->duration_ns = (int64_t)MIN(f.v, (uint64_t)INT64_MAX);
			break;
		case OTLP_PERIOD_TYPE:
			r->p->period_type = read_type(r, f.b);
			break;
		case OTLP_PERIOD:
			r->p->period = (int64_t)f.v;
			break;
		}
	}
	otlp_end(r, &c, "profile");
	add_types(r, type);
}

static void read_samples(struct otlp_reader *r, struct bytes in)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (!r->why.kind && !profile_has_failed(r->p) && proto_next(&c, &f))
		if (f.number == OTLP_SAMPLES)
			add_otlp_sample(r, f.b);
}

/* The machine's memory, and the request's deadline, are not the profile's fault: the request fails. */
static int end_profile(struct otlp_reader *r, struct err *err)
{
	struct err failed = { 0 };

	if (!r->why.kind && profile_build_end(r->p, &failed) < 0)
		r->why = failed;
	if (r->why.kind && r->why.os) {
		*err = r->why;
		return -1;
	}
	return 0;
}

static int read_otlp_profile(struct otlp_reader *r, struct bytes in, struct profile **ret, struct err *err)
{
	AUTO(profile_freep) struct profile *p = profile_new(&r->limits);
	int failed;

	r->p = p;
	r->number++;
	r->why = (struct err){ 0 };
	r->labels.n = 0;
	read_profile_head(r, in);
	read_samples(r, in);
	failed = end_profile(r, err);
	r->p = NULL;
	if (failed == 0 && !r->why.kind)
		*ret = TAKE(p);
	return failed;
}

/* ---- the request ---- */

struct otlp_request {
	struct otlp_reader r;
	struct otlp_sink sink;
	struct otlp_result *result;
	struct otlp_label labels[OTLP_MAX_LABELS];
	size_t n_labels;
};

static int each_profile(struct otlp_request *q, struct bytes in, struct err *err)
{
	struct otlp_result *result = q->result;
	AUTO(profile_freep) struct profile *p = NULL;

	if (deadline_check(q->r.limits.deadline, 1 + (uint32_t)MIN(in.size, (size_t)DEADLINE_STEPS), err) < 0)
		return -1;
	/* Those without samples, too. */
	if (q->r.number == OTLP_MAX_PROFILES)
		return err_set(err, ERR_LIMIT, "has more than %u profiles", OTLP_MAX_PROFILES);
	if (read_otlp_profile(&q->r, in, &p, err) < 0)
		return -1;
	if (!p) {
		if (!result->n_rejected++)
			result->why = q->r.why;
		return 0;
	}
	/* An idle process has a profile without samples. */
	if (!p->n_samples)
		return 0;
	result->n_profiles++;
	return q->sink.fn(q->sink.arg, TAKE(p), q->labels, q->n_labels, err);
}

/* Call @fn for each field @number of the message. */
static int each_message(struct otlp_request *q, struct bytes in, uint32_t number,
			int (*fn)(struct otlp_request *q, struct bytes in, struct err *err), struct err *err)
{
	struct cursor c = cursor_of(in);
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == number && f.wire == PROTO_LEN && fn(q, f.b, err) < 0)
			return -1;
	return cursor_ok(&c)
		       ? 0
		       : err_set(err, ERR_INVALID, "is not an OTLP request, or is damaged, at offset %llu",
				 (unsigned long long)cursor_off(&c));
}

static int each_scope(struct otlp_request *q, struct bytes in, struct err *err)
{
	return each_message(q, in, OTLP_PROFILES, each_profile, err);
}

static int take_resource(struct otlp_request *q, struct bytes in, struct err *err)
{
	q->n_labels = otlp_resource(&q->r, in, q->labels);
	return 0;
}

static int each_resource(struct otlp_request *q, struct bytes in, struct err *err)
{
	q->n_labels = 0;
	if (each_message(q, in, OTLP_RESOURCE, take_resource, err) < 0)
		return -1;
	q->n_labels = otlp_service(&q->r, q->labels, q->n_labels);
	return each_message(q, in, OTLP_SCOPE_PROFILES, each_scope, err);
}

static int take_dictionary(struct otlp_request *q, struct bytes in, struct err *err)
{
	return otlp_dictionary(&q->r, in, err);
}

static int otlp_read_all(struct otlp_request *q, struct bytes in, struct err *err)
{
	q->r.label_text = profile_alloc(q->r.room, OTLP_MAX_LABELS, OTLP_LABEL_ROOM);
	if (!q->r.label_text)
		return profile_err_memory(q->r.room, err);
	/* It may come after the resources. */
	if (each_message(q, in, OTLP_DICTIONARY, take_dictionary, err) < 0)
		return -1;
	if (!q->r.tables[OTLP_STRINGS].n)
		return err_set(err, ERR_INVALID,
			       "has no dictionary of strings: it is no OTLP request, or of a "
			       "revision before 1.7, which is not read: update the sender");
	return each_message(q, in, OTLP_RESOURCE_PROFILES, each_resource, err);
}

static void otlp_reader_done(struct otlp_reader *r)
{
	profile_release(r->room, r->label_text, OTLP_MAX_LABELS, OTLP_LABEL_ROOM);
	for (int t = 0; t < OTLP_N_TABLES; t++) {
		profile_table_free(r->room, &r->tables[t]);
		profile_table_free(r->room, &r->made[t]);
	}
	profile_table_free(r->room, &r->lines);
	profile_table_free(r->room, &r->labels);
	profile_table_free(r->room, &r->list);
	profile_table_free(r->room, &r->values);
	profile_table_free(r->room, &r->locations);
	profile_free(r->room);
}

int otlp_read(struct bytes in, const struct profile_limits *limits, struct otlp_sink sink,
	      struct otlp_result *ret, struct err *err)
{
	struct otlp_request q = { .r.limits = limits ? *limits : (struct profile_limits){ 0 },
				  .sink = sink,
				  .result = ret };
	AUTO(buf_done) struct buf plain = { 0 };
	int done;

	*ret = (struct otlp_result){ 0 };
	if (profile_unpack(&in, limits, &plain, err) < 0) {
		profile_unpack_done(limits, &plain);
		return -1;
	}
	q.r.room = profile_new(limits);
	done = otlp_read_all(&q, in, err);
	otlp_reader_done(&q.r);
	profile_unpack_done(limits, &plain);
	return done;
}
