/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stacks as text count, for Pyroscope's clients: by the end of the program's name ("app.alloc_space"), else by the
 * parameters `units` and `aggregationType`. Samples of a clock become its time, with `sampleRate`.
 */
#include "server/intake/forms.h"

#define NS_PER_S 1000000000u

struct form_kind {
	struct str suffix; /* of the program's name */
	struct str name, type, unit, period_type, period_unit;
	bool timed; /* its samples are ticks of a clock */
};

#define CPU(suffix)                                                                          \
	{                                                                                    \
		STR(suffix), STR("process_cpu"), STR("cpu"), STR("nanoseconds"), STR("cpu"), \
			STR("nanoseconds"), true                                             \
	}
#define MEMORY(type, unit)                                                                        \
	{                                                                                         \
		STR(type), STR("memory"), STR(type), STR(unit), STR("space"), STR("bytes"), false \
	}
#define WAITING(suffix, name, type, unit)                                                             \
	{                                                                                             \
		STR(suffix), STR(name), STR(type), STR(unit), STR("contentions"), STR("count"), false \
	}

static const struct form_kind kinds[] = {
	CPU("cpu"),
	CPU("itimer"),
	{ STR("wall"), STR("wall"), STR("wall"), STR("nanoseconds"), STR("wall"), STR("nanoseconds"), true },
	MEMORY("inuse_objects", "count"),
	MEMORY("inuse_space", "bytes"),
	MEMORY("alloc_objects", "count"),
	MEMORY("alloc_space", "bytes"),
	MEMORY("alloc_in_new_tlab_objects", "count"),
	MEMORY("alloc_in_new_tlab_bytes", "bytes"),
	MEMORY("alloc_outside_tlab_objects", "count"),
	MEMORY("alloc_outside_tlab_bytes", "bytes"),
	MEMORY("live", "count"),
	WAITING("mutex_count", "mutex", "contentions", "count"),
	WAITING("mutex_duration", "mutex", "delay", "nanoseconds"),
	WAITING("block_count", "block", "contentions", "count"),
	WAITING("block_duration", "block", "delay", "nanoseconds"),
	WAITING("lock_count", "block", "contentions", "count"),
	WAITING("lock_duration", "block", "delay", "nanoseconds"),
	{ STR("goroutines"), STR("goroutines"), STR("goroutine"), STR("count"), STR("goroutine"),
	  STR("count"), false },
	{ STR("exceptions"), STR("exceptions"), STR("exception"), STR("count"), STR("exception"),
	  STR("count"), false },
};

/* Clients' units, and the kind that they mean: of sums, and of averages over the time of the profile. */
static const struct {
	struct str units, sum, average;
} units_table[] = {
	{ STR("samples"), STR("cpu"), STR("cpu") },
	{ STR("objects"), STR("alloc_objects"), STR("inuse_objects") },
	{ STR("bytes"), STR("alloc_space"), STR("inuse_space") },
	{ STR("lock_samples"), STR("mutex_count"), STR("mutex_count") },
	{ STR("lock_nanoseconds"), STR("mutex_duration"), STR("mutex_duration") },
	{ STR("goroutines"), STR("goroutines"), STR("goroutines") },
	{ STR("exceptions"), STR("exceptions"), STR("exceptions") },
};

static const struct form_kind *kind_named(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_eq(kinds[i].suffix, name))
			return &kinds[i];
	return NULL;
}

const struct form_kind *form_kind_of_app(struct str *app)
{
	const char *dot = app->size ? memrchr(app->p, '.', app->size) : NULL;
	const struct form_kind *kind = NULL;

	if (dot && dot > app->p)
		kind = kind_named((struct str){ dot + 1, (size_t)(app->p + app->size - dot - 1) });
	if (kind)
		app->size = (size_t)(dot - app->p);
	return kind;
}

const struct form_kind *form_kind_of_units(struct str units, struct str aggregation, struct err *err)
{
	bool average = str_eq(aggregation, STR("average")) || str_eq(aggregation, STR("avg"));

	if (!units.size)
		units = STR("samples");
	for (size_t i = 0; i < ARRAY_SIZE(units_table); i++)
		if (str_eq(units_table[i].units, units))
			return kind_named(average ? units_table[i].average : units_table[i].sum);
	(void)err_set(err, ERR_INVALID,
		      "'units' must be one of samples, objects, bytes, lock_samples, lock_nanoseconds, "
		      "goroutines, exceptions");
	return NULL;
}

int form_sample_rate(struct str s, uint32_t *ret, struct err *err)
{
	uint64_t rate = FORM_USUAL_RATE;

	if (s.size && (!str_to_u64(s, &rate) || !rate || rate > NS_PER_S))
		return err_set(err, ERR_INVALID, "'sampleRate' must be the number of samples per second");
	*ret = (uint32_t)rate;
	return 0;
}

static int64_t times(int64_t v, int64_t factor)
{
	int64_t r;

	if (!__builtin_mul_overflow(v, factor, &r))
		return r;
	return v < 0 ? INT64_MIN : INT64_MAX;
}

int form_set_kind(struct profile *p, const struct form_kind *kind, uint32_t rate, struct err *err)
{
	int64_t period = kind->timed ? NS_PER_S / rate : 1;

	p->types.p[0].type = profile_add_string(p, kind->type);
	p->types.p[0].unit = profile_add_string(p, kind->unit);
	p->period_type.type = profile_add_string(p, kind->period_type);
	p->period_type.unit = profile_add_string(p, kind->period_unit);
	p->period = period;
	for (uint32_t i = 0; kind->timed && i < p->n_samples; i++)
		p->values[i] = times(p->values[i], period);
	return profile_build_end(p, err);
}

struct str form_kind_name(const struct form_kind *kind)
{
	return kind->name;
}
