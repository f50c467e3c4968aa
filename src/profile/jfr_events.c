/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a recording that are read, the kind of profile that each belongs to, and its values. Kinds have the
 * names of Pyroscope's reader. Samples of a clock are counted, and multiplied by its interval at the end.
 *
 * Settings are events too, and come before the samples that they are about.
 */
#include "profile/jfr_read.h"

#include <stdio.h>

#define NS_PER_S      INT64_C(1000000000)
#define NS_PER_MS     INT64_C(1000000)
#define ASYNC_CPU_NS  (10 * NS_PER_MS) /* async-profiler's interval 0 */
#define ASYNC_WALL_NS (50 * NS_PER_MS)
#define JDK_NS        (20 * NS_PER_MS) /* the JDK's usual setting */

enum kind_number {
	KIND_CPU,
	KIND_CPU_TIME,
	KIND_WALL,
	KIND_NATIVE,
	KIND_IN_TLAB,
	KIND_OUTSIDE_TLAB,
	KIND_ALLOC_SAMPLE,
	KIND_LIVE,
	KIND_MALLOC,
	KIND_MUTEX,
	KIND_BLOCK,
	KIND_TRACE,
	N_KINDS,
	KIND_SETTING
};
_Static_assert(N_KINDS <= JFR_MAX_KINDS, "room for the kinds");

struct jfr_kind {
	struct str name;
	struct {
		struct str type, unit;
	} types[2]; /* the second may be empty */
	struct str period_type, period_unit;
};

#define COUNT       STR("count")
#define BYTES       STR("bytes")
#define NANOSECONDS STR("nanoseconds")
#define OF_TIME(name, type)                                                                             \
	{                                                                                               \
		STR(name), { { STR(type), NANOSECONDS }, { STR(""), STR("") } }, STR(type), NANOSECONDS \
	}
#define OF_MEMORY(objects, bytes, period, unit)                                                           \
	{                                                                                                 \
		STR("memory"), { { STR(objects), COUNT }, { STR(bytes), BYTES } }, STR(period), STR(unit) \
	}
#define OF_WAITING(name, count, time)                                                              \
	{                                                                                          \
		STR(name), { { STR(count), COUNT }, { STR(time), NANOSECONDS } }, STR(name), COUNT \
	}
static const struct jfr_kind kinds[N_KINDS] = {
	[KIND_CPU] = OF_TIME("process_cpu", "cpu"),
	[KIND_CPU_TIME] = OF_TIME("process_cpu", "cpu"),
	[KIND_WALL] = OF_TIME("wall", "wall"),
	[KIND_NATIVE] = OF_TIME("native", "native"),
	[KIND_IN_TLAB] = OF_MEMORY("alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes", "space", "bytes"),
	[KIND_OUTSIDE_TLAB] = OF_MEMORY("alloc_outside_tlab_objects", "alloc_outside_tlab_bytes", "space",
					"bytes"),
	[KIND_ALLOC_SAMPLE] = OF_MEMORY("alloc_sample_objects", "alloc_sample_bytes", "space", "bytes"),
	[KIND_LIVE] = { STR("memory"),
			{ { STR("live"), COUNT }, { STR(""), STR("") } },
			STR("objects"),
			COUNT },
	[KIND_MALLOC] = OF_MEMORY("malloc_objects", "malloc_bytes", "", ""),
	[KIND_MUTEX] = OF_WAITING("mutex", "contentions", "delay"),
	[KIND_BLOCK] = OF_WAITING("block", "contentions", "delay"),
	[KIND_TRACE] = OF_WAITING("trace", "calls", "duration"),
};

/* The values of an event: how its field counts. */
enum event_values {
	VALUES_SAMPLES,   /* the field, else 1, times the interval at the end */
	VALUES_TICKS,     /* the field, as time */
	VALUES_AND_BYTES, /* 1, and the field */
	VALUES_AND_TICKS, /* 1, and the field as time */
};
struct jfr_event_row {
	struct str name;
	enum kind_number kind;
	enum event_values values;
	struct str field; /* empty: none */
};

static const struct jfr_event_row rows[] = {
	{ STR("jdk.ExecutionSample"), KIND_CPU, VALUES_SAMPLES, STR("") },
	{ STR("jdk.CPUTimeSample"), KIND_CPU_TIME, VALUES_TICKS, STR("samplingPeriod") },
	{ STR("jdk.NativeMethodSample"), KIND_NATIVE, VALUES_SAMPLES, STR("") },
	{ STR("profiler.WallClockSample"), KIND_WALL, VALUES_SAMPLES, STR("samples") },
	{ STR("jdk.ObjectAllocationInNewTLAB"), KIND_IN_TLAB, VALUES_AND_BYTES, STR("tlabSize") },
	{ STR("jdk.ObjectAllocationOutsideTLAB"), KIND_OUTSIDE_TLAB, VALUES_AND_BYTES,
	  STR("allocationSize") },
	{ STR("jdk.ObjectAllocationSample"), KIND_ALLOC_SAMPLE, VALUES_AND_BYTES, STR("weight") },
	{ STR("profiler.LiveObject"), KIND_LIVE, VALUES_AND_BYTES, STR("") },
	{ STR("profiler.Malloc"), KIND_MALLOC, VALUES_AND_BYTES, STR("size") },
	{ STR("jdk.JavaMonitorEnter"), KIND_MUTEX, VALUES_AND_TICKS, STR("duration") },
	{ STR("profiler.NativeLock"), KIND_MUTEX, VALUES_AND_TICKS, STR("duration") },
	{ STR("jdk.ThreadPark"), KIND_BLOCK, VALUES_AND_TICKS, STR("duration") },
	{ STR("jdk.JavaMonitorWait"), KIND_BLOCK, VALUES_AND_TICKS, STR("duration") },
	{ STR("jdk.MethodTrace"), KIND_TRACE, VALUES_AND_TICKS, STR("duration") },
	{ STR("jdk.ActiveSetting"), KIND_SETTING, VALUES_SAMPLES, STR("value") },
};

const struct jfr_event_row *jfr_event_row(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(rows[i].name, name))
			return &rows[i];
	return NULL;
}

enum jfr_slot jfr_event_slot(const struct jfr_event_row *row, struct str field)
{
	static const struct {
		struct str field;
		enum jfr_slot slot;
	} common[] = {
		{ STR("startTime"), JFR_START },
		{ STR("stackTrace"), JFR_STACK },
		{ STR("state"), JFR_STATE },
		{ STR("contextId"), JFR_CONTEXT },
		{ STR("spanName"), JFR_SPAN },
		{ STR("eventThread"), JFR_THREAD },
		{ STR("sampledThread"), JFR_THREAD },
		{ STR("method"), JFR_METHOD },
		{ STR("id"), JFR_ID },
		{ STR("name"), JFR_NAME },
	};

	if (row->field.size && str_eq(row->field, field))
		return JFR_VALUE;
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		if (str_eq(common[i].field, field))
			return common[i].slot;
	return JFR_NO_SLOT;
}

/* ---- settings ---- */

/* "20 ms"; 0: it is no interval ("everyChunk"). */
static int64_t read_interval(struct str s)
{
	static const struct {
		struct str unit;
		int64_t ns;
	} units[] = { { STR("ns"), 1 },
		      { STR("us"), 1000 },
		      { STR("ms"), NS_PER_MS },
		      { STR("s"), NS_PER_S },
		      { STR("m"), 60 * NS_PER_S },
		      { STR("h"), 3600 * NS_PER_S },
		      { STR("d"), 86400 * NS_PER_S },
		      { STR(""), 1 } };
	size_t n = 0;
	uint64_t v;
	int64_t ns;

	while (n < s.size && s.p[n] >= '0' && s.p[n] <= '9')
		n++;
	if (!str_to_u64((struct str){ s.p, n }, &v) || v > INT64_MAX)
		return 0;
	s = str_trim((struct str){ s.p + n, s.size - n });
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_eq(units[i].unit, s))
			return __builtin_mul_overflow((int64_t)v, units[i].ns, &ns) ? 0 : ns;
	return 0;
}

/* async-profiler's events that are clocks; others count something else. */
static bool is_clock(struct str event)
{
	static const struct str list[] = { STR(""),     STR("cpu"),       STR("itimer"),     STR("ctimer"),
					   STR("wall"), STR("cpu-clock"), STR("task-clock"), STR("alloc"),
					   STR("lock"), STR("nativemem"), STR("nativelock") };

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (str_eq(event, list[i]))
			return true;
	return false;
}

static void take_setting(struct jfr_reader *r, const struct jfr_value *slots)
{
	/* A name is short: longer ones are none of these. The value may be converted in the same place. */
	char room[16];
	struct str name = slots[JFR_NAME].there ? jfr_string(r, slots[JFR_NAME].off, sizeof(room)) : STR("");
	const struct jfr_type *of = jfr_type_of(r, slots[JFR_ID].number);
	struct str value, event = of ? jfr_type_name(r, of) : STR("");

	if (name.size)
		memcpy(room, name.p, name.size);
	name.p = room;
	value = slots[JFR_VALUE].there ? jfr_string(r, slots[JFR_VALUE].off, JFR_MAX_NAME) : STR("");
	if (str_eq(name, STR("event"))) {
		r->is_wall = str_eq(value, STR("wall"));
		r->other_event = is_clock(value) ? STR("")
						 : profile_str(r->room, profile_add_string(r->room, value));
	} else if (str_eq(name, STR("interval")) && str_eq(event, STR("jdk.ExecutionSample"))) {
		r->event_interval = read_interval(value);
		r->cpu_ns = r->event_interval ? r->event_interval : ASYNC_CPU_NS;
	} else if (str_eq(name, STR("wall")) && str_eq(event, STR("jdk.ExecutionSample"))) {
		r->wall_ns = read_interval(value) ? read_interval(value) : ASYNC_WALL_NS;
	} else if (str_eq(name, STR("period")) && read_interval(value)) {
		if (str_eq(event, STR("jdk.ExecutionSample")))
			r->jdk_ns = read_interval(value);
		else if (str_eq(event, STR("jdk.NativeMethodSample")))
			r->native_ns = read_interval(value);
	}
}

/* ---- samples ---- */

static int64_t ticks_ns(const struct jfr_reader *r, uint64_t ticks)
{
	__int128 ns;

	if (ticks > INT64_MAX)
		return 0;
	ns = (__int128)ticks * NS_PER_S / r->ticks_per_s;
	return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* The chunk's header does not have the duration of one that is unfinished. */
static void note_event_time(struct jfr_reader *r, uint64_t start)
{
	int64_t ticks, end;

	if (r->unfinished && !__builtin_sub_overflow((int64_t)start, r->start_ticks, &ticks) && ticks > 0 &&
	    !__builtin_add_overflow(r->start_ns, ticks_ns(r, (uint64_t)ticks), &end))
		r->last_ns = MAX(r->last_ns, end);
}

/* Mutex and block have the same types: in one profile they are "mutex_delay" and "block_delay". */
static void add_kind_types(struct profile *p, enum kind_number kind, bool together)
{
	const struct jfr_kind *k = &kinds[kind];
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(k->types) && k->types[i].type.size; i++) {
		struct str type = k->types[i].type;

		if (together && (kind == KIND_MUTEX || kind == KIND_BLOCK))
			type = (struct str){ text, (size_t)snprintf(text, sizeof(text), STR_FMT "_" STR_FMT,
								    STR_ARG(k->name), STR_ARG(type)) };
		profile_add_type(p, type, k->types[i].unit);
	}
}

/* Where events of this kind go. If together, all types are there before the first sample. */
static struct jfr_out *out_of(struct jfr_reader *r, enum kind_number kind)
{
	struct jfr_out *out = &r->outs[kind];
	struct jfr_target *t = &r->targets[r->options->together ? 0 : kind];

	out->used = true;
	if (out->target)
		return out;
	if (!t->p) {
		t->p = profile_new(r->limits);
		if (!r->options->together)
			add_kind_types(t->p, kind, false);
		for (uint32_t i = 0; r->options->together && i < N_KINDS; i++) {
			r->outs[i].first_type = t->p->types.n;
			add_kind_types(t->p, i, true);
		}
	}
	out->target = t;
	return out;
}

/* The method that was traced is called by the leaf of the stack. */
static int add_traced_method(struct jfr_reader *r, struct jfr_target *t, const struct jfr_value *slots,
			     uint32_t *stack, struct err *err)
{
	const struct profile_location *leaf = &t->p->locations.p[t->p->stacks.p[*stack].location];
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct profile_line line = { 0 };

	if (jfr_function(r, t, slots[JFR_METHOD].number, false, &line.function, err) < 0)
		return -1;
	if (leaf->n_lines && t->p->lines.p[leaf->first_line].function == line.function)
		return 0;
	*stack = profile_add_stack(t->p, *stack, profile_add_location(t->p, &l, &line, 1));
	return 0;
}

static int add_event(struct jfr_reader *r, enum kind_number kind, const struct jfr_value *slots,
		     const int64_t values[2], struct err *err)
{
	const struct jfr_out *out = out_of(r, kind);
	struct profile *p = out->target->p;
	int64_t row[2 * N_KINDS] = { 0 };
	uint32_t stack;

	if (profile_build_end(p, err) < 0 ||
	    jfr_stack(r, out->target, slots[JFR_STACK].number, &stack, err) < 0 ||
	    (kind == KIND_TRACE && slots[JFR_METHOD].there && stack &&
	     add_traced_method(r, out->target, slots, &stack, err) < 0))
		return -1;
	row[out->first_type] = values[0];
	if (kinds[kind].types[1].type.size)
		row[out->first_type + 1] = values[1];
	profile_add_sample(p, stack, jfr_labels_of(r, out->target, slots), row);
	return profile_build_end(p, err);
}

/* A thread that sleeps takes no CPU time. A wall clock sees all threads, and those that run take CPU time as well. */
static int add_clock_event(struct jfr_reader *r, enum kind_number kind, const struct jfr_value *slots,
			   const int64_t values[2], struct err *err)
{
	bool sleeps = slots[JFR_STATE].there && slots[JFR_STATE].number == r->sleeping;
	bool runs = slots[JFR_STATE].there && slots[JFR_STATE].number == r->runnable;
	bool cpu = kind == KIND_CPU ? !sleeps : r->is_wall && runs;
	bool wall = kind == KIND_WALL || sleeps || r->is_wall;

	if (cpu && add_event(r, KIND_CPU, slots, values, err) < 0)
		return -1;
	return wall ? add_event(r, KIND_WALL, slots, values, err) : 0;
}

static int64_t plain_value(const struct jfr_value *v)
{
	return v->number > INT64_MAX ? 0 : (int64_t)v->number;
}

static int take_values(struct jfr_reader *r, const struct jfr_event_row *row, const struct jfr_value *slots,
		       struct err *err)
{
	const struct jfr_value *v = &slots[JFR_VALUE];
	int64_t values[2] = { 1, 0 };

	switch (row->values) {
	case VALUES_SAMPLES:
		if (row->field.size)
			values[0] = plain_value(v);
		break;
	case VALUES_TICKS:
		values[0] = ticks_ns(r, v->number);
		break;
	case VALUES_AND_BYTES:
		values[1] = plain_value(v);
		break;
	case VALUES_AND_TICKS:
		values[1] = ticks_ns(r, v->number);
		break;
	}
	if (row->kind == KIND_CPU || row->kind == KIND_WALL)
		return add_clock_event(r, row->kind, slots, values, err);
	return add_event(r, row->kind, slots, values, err);
}

int jfr_event_take(struct jfr_reader *r, const struct jfr_type *type, const struct jfr_event *e,
		   struct err *err)
{
	struct jfr_value slots[JFR_N_SLOTS] = { 0 };
	const struct jfr_event_row *row = type->event;
	struct cursor c = jfr_cursor(r, e->body);

	c.end = c.start + e->off + e->size;
	if (jfr_value_read(r, (uint32_t)(type - r->types.p), &c, slots, err) < 0)
		return -1;
	note_event_time(r, slots[JFR_START].number);
	if (row->kind != KIND_SETTING)
		return take_values(r, row, slots, err);
	take_setting(r, slots);
	return 0;
}

/* ---- the end ---- */

/* The time that one sample of a clock stands for. */
static int64_t interval_of(const struct jfr_reader *r, enum kind_number kind)
{
	int64_t by_rate = r->options->sample_rate ? NS_PER_S / r->options->sample_rate : 0;

	if (kind == KIND_NATIVE)
		return r->native_ns ? r->native_ns : JDK_NS;
	if (r->is_wall) {
		if (r->event_interval)
			return r->event_interval;
		return by_rate ? by_rate : ASYNC_WALL_NS;
	}
	if (kind == KIND_WALL && r->wall_ns)
		return r->wall_ns;
	if (r->cpu_ns)
		return r->cpu_ns;
	if (r->jdk_ns)
		return r->jdk_ns;
	return by_rate ? by_rate : JDK_NS;
}

static void scale_type(struct profile *p, uint32_t type, int64_t factor)
{
	for (uint32_t i = 0; i < p->n_samples; i++) {
		int64_t *v = &p->values[(size_t)i * p->types.n + type];

		if (__builtin_mul_overflow(*v, factor, v))
			*v = INT64_MAX;
	}
}

/* Events of the CPU that are no clock, as cache-misses: samples of so many of them. */
static struct str set_other_event(struct jfr_reader *r, const struct jfr_out *out)
{
	struct profile *p = out->target->p;
	struct profile_type t = { profile_add_string(p, r->other_event), profile_add_string(p, COUNT) };
	int64_t every = MAX(r->event_interval, (int64_t)1);

	scale_type(p, out->first_type, every);
	p->types.p[out->first_type] = p->period_type = t;
	p->period = every;
	return STR("events");
}

/* Complete the values of a kind, and the period of its profile. Returns NAME. */
static struct str end_kind(struct jfr_reader *r, enum kind_number kind)
{
	const struct jfr_out *out = &r->outs[kind];
	const struct jfr_kind *k = &kinds[kind];
	struct profile *p = out->target->p;
	int64_t interval = 0;

	if (kind == KIND_CPU && r->other_event.size)
		return set_other_event(r, out);
	if (kind == KIND_CPU || kind == KIND_WALL || kind == KIND_NATIVE) {
		interval = interval_of(r, kind);
		scale_type(p, out->first_type, interval);
	}
	/* If together, the period of the first kind. */
	if (!p->period_type.type) {
		p->period_type = (struct profile_type){ profile_add_string(p, k->period_type),
							profile_add_string(p, k->period_unit) };
		p->period = interval;
	}
	if (r->options->together && !p->default_type)
		p->default_type = p->types.p[out->first_type].type;
	return k->name;
}

static void set_profile_times(const struct jfr_reader *r, struct profile *p)
{
	char text[128];

	p->time_ns = MAX(r->first_ns, (int64_t)0);
	if (r->last_ns > r->first_ns && r->first_ns > 0)
		p->duration_ns = r->last_ns - r->first_ns;
	if (r->n_unfinished) {
		snprintf(text, sizeof(text),
			 "chunk %u of the recording is unfinished: its last events are missing",
			 r->n_unfinished);
		(void)profile_push(p, &p->comments, profile_add_string(p, str_of(text)));
	}
}

/* Remove the types of kinds without events, and samples that have no other ones. */
static void drop_unused_types(struct jfr_reader *r, struct profile *p)
{
	uint32_t kept[2 * N_KINDS], n = 0, n_samples = 0, n_types = p->types.n;

	for (uint32_t i = 0; i < N_KINDS; i++)
		for (uint32_t k = 0; r->outs[i].used && k < ARRAY_SIZE(kinds[i].types); k++)
			if (kinds[i].types[k].type.size)
				kept[n++] = r->outs[i].first_type + k;
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const int64_t *from = p->values + (size_t)i * n_types;
		int64_t *to = p->values + (size_t)n_samples * n;
		bool any = false;

		/* Rows move to the front, and are never longer than before. */
		for (uint32_t k = 0; k < n; k++) {
			to[k] = from[kept[k]];
			any |= to[k] != 0;
		}
		p->sample_stack[n_samples] = p->sample_stack[i];
		p->sample_labels[n_samples] = p->sample_labels[i];
		n_samples += any;
	}
	for (uint32_t k = 0; k < n; k++)
		p->types.p[k] = p->types.p[kept[k]];
	p->types.n = n;
	p->n_samples = n_samples;
	profile_index_drop(p);
}

static int pass_on(struct jfr_reader *r, struct jfr_target *t, struct str name, struct profile_sink sink,
		   struct err *err)
{
	set_profile_times(r, t->p);
	if (profile_build_end(t->p, err) < 0)
		return -1;
	jfr_target_done(t);
	if (!t->p->n_samples)
		return 0;
	return sink.fn(sink.arg, TAKE(t->p), name, err);
}

int jfr_events_end(struct jfr_reader *r, struct profile_sink sink, struct err *err)
{
	struct jfr_target *first = &r->targets[0];

	/* Both measure the CPU time: one by the kernel's clock, the other by looking at some threads. */
	if (r->outs[KIND_CPU_TIME].used)
		r->outs[KIND_CPU].used = false;
	for (uint32_t i = 0; i < N_KINDS; i++) {
		struct str name;

		if (!r->outs[i].used)
			continue;
		name = end_kind(r, i);
		if (!r->options->together && pass_on(r, r->outs[i].target, name, sink, err) < 0)
			return -1;
	}
	if (!r->options->together || !first->p)
		return 0;
	drop_unused_types(r, first->p);
	return pass_on(r, first, STR(""), sink, err);
}
