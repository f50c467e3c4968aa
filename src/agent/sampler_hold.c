/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that wait: taken before their process was set or the table of a file was there. They keep registers and stack, are
 * walked again when something was set, and are delivered at their deadline at the latest.
 */
#include <stdlib.h>
#include "agent/sampler_ops.h"

struct sampler_held {
	struct sampler_sample sample;
	struct sampler_raw raw;
	struct sampler_process *process; /* a reference: as last set; NULL: not set yet */
	int64_t deadline_ms;
	size_t bytes;
};

/* Events of unknown processes and addresses, of samplers that do not report them themselves. */
#define TELL_PROCESS_NS INT64_C(20000000)
#define TELL_FILE_NS    INT64_C(1000000000)

static void held_free(struct sampler *s, struct sampler_held *h)
{
	s->held_bytes -= h->bytes;
	sampler_process_unref(h->process);
	free((void *)h->sample.kernel);
	free((void *)h->sample.python);
	free((void *)h->raw.stack.p);
	free(h);
}

/* A file whose table is over the limit has rows: that the walk went by frame pointers and ended is for want of memory. */
static enum sampler_end end_of_sample(const struct sampler *s, const struct sampler_sample *sample)
{
	const struct sampler_file *f = NULL;

	if (sample->end == SAMPLER_NO_ROW && sample->n_user)
		f = sampler_file_get(s, sample->user[sample->n_user - 1].file);
	return f && f->too_large ? SAMPLER_EVICTED : sample->end;
}

void sampler_deliver(struct sampler *s, const struct sampler_sample *sample)
{
	struct sampler_sample last = *sample;

	last.end = end_of_sample(s, sample);
	s->stats.samples++;
	s->stats.ends[last.end]++;
	if (s->handler && s->handler->sample)
		s->handler->sample(s->handler->ctx, &last);
}

static void deliver_sample(struct sampler *s, const struct sampler_sample *sample)
{
	if (sample->sleeper)
		sampler_sleep_walked(s, sample);
	else
		sampler_deliver(s, sample);
}

static bool end_may_wait(enum sampler_end end)
{
	return end == SAMPLER_NO_PROCESS || end == SAMPLER_NO_MAPPING || end == SAMPLER_NO_TABLE ||
	       end == SAMPLER_EVICTED;
}

static bool same_start(const struct sampler_process *p, const struct sampler_sample *sample)
{
	return !p->start_ticks || !sample->start_ticks || p->start_ticks == sample->start_ticks;
}

/* The mappings of @p are of the program that it ran then. */
static bool ran_then(const struct sampler_process *p, int64_t time_ns)
{
	return time_ns >= p->from_ns && (!p->until_ns || time_ns < p->until_ns);
}

/*
 * Whether the sample is of that process and of the program that it ran then: another one may have other code at the same
 * addresses.
 */
static bool same_process(const struct sampler_process *p, const struct sampler_sample *sample)
{
	if (!same_start(p, sample) || !ran_then(p, sample->time_ns))
		return false;
	/* It was set, and in the kernel it is not any more: it has run another program, whose event is under way. */
	return !sample->not_set || p->has_ended || sample->time_ns <= p->set_ns;
}

/* Walk @sample anew, into s->walk. Returns whether it has to wait. */
static bool walk_again(struct sampler *s, const struct sampler_process *p, struct sampler_sample *sample)
{
	sample->end = sampler_walk(s, p, sample->raw, &s->walk);
	sample->user = s->walk.frames;
	sample->n_user = s->walk.n;
	/* An address that is not in mappings that were read after the sample is in none. */
	return end_may_wait(sample->end) &&
	       !(sample->end == SAMPLER_NO_MAPPING && p->read_ns > sample->time_ns);
}

/* The process whose program it ran before the first one of its own. NULL: not known. */
static struct sampler_process *copied_process(const struct sampler *s, const struct sampler_process *p,
					      const struct sampler_sample *sample)
{
	struct sampler_process *of;

	if (!p->copy_of || !same_start(p, sample) || sample->time_ns >= p->from_ns)
		return NULL;
	of = sampler_process_get(s, p->copy_of);
	return of && ran_then(of, sample->time_ns) ? of : NULL;
}

static void tell_unknown(struct sampler *s, const struct sampler_sample *sample)
{
	struct sampler_told *told = &s->told[sample->pid % ARRAY_SIZE(s->told)];
	struct sampler_event e = { .pid = sample->pid,
				   .start_ticks = sample->start_ticks,
				   .addr = s->walk.missing,
				   .file = s->walk.file,
				   .time_ns = sample->time_ns };
	struct sampler_file *f = sampler_file_get(s, e.file);

	if (sample->end == SAMPLER_NO_PROCESS || sample->end == SAMPLER_NO_MAPPING) {
		if (told->pid == e.pid && e.time_ns - told->time_ns < TELL_PROCESS_NS)
			return;
		*told = (struct sampler_told){ e.pid, e.time_ns };
		e.kind = sample->end == SAMPLER_NO_PROCESS ? SAMPLER_NEW : SAMPLER_UNMAPPED;
	} else {
		if (!f || (f->wanted_ns && e.time_ns - f->wanted_ns < TELL_FILE_NS))
			return;
		f->wanted_ns = e.time_ns;
		e.kind = SAMPLER_WANTED;
	}
	sampler_tell(s, &e);
}

static void hold_sample(struct sampler *s, const struct sampler_sample *sample, struct sampler_process *p)
{
	struct sampler_held *h = NEW(struct sampler_held);
	uint64_t *kernel = NEW_N(uint64_t, sample->n_kernel + 1);
	struct sampler_python_frame *python = NEW_N(struct sampler_python_frame, sample->n_python + 1);
	uint8_t *stack = mem_alloc(sample->raw->stack.size + 1);

	if (sample->n_kernel)
		memcpy(kernel, sample->kernel, sample->n_kernel * sizeof(*kernel));
	if (sample->n_python)
		memcpy(python, sample->python, sample->n_python * sizeof(*python));
	if (sample->raw->stack.size)
		memcpy(stack, sample->raw->stack.p, sample->raw->stack.size);
	h->sample = *sample;
	h->sample.kernel = kernel;
	h->sample.python = python;
	h->raw = *sample->raw;
	h->raw.stack.p = stack;
	h->sample.raw = &h->raw;
	h->sample.held = true;
	h->process = sampler_process_ref(p);
	h->deadline_ms = clock_mono_ms() + s->options.hold_ms;
	h->bytes = sizeof(*h) + sample->n_kernel * sizeof(*kernel) + sample->n_python * sizeof(*python) +
		   sample->raw->stack.size;
	s->held_bytes += h->bytes;
	s->stats.held++;
	VEC_PUSH(s->held, s->n_held, s->room_held) = h;
}

/* @of: NULL: none, and @h keeps the one that it has. */
static void take_process(struct sampler_held *h, struct sampler_process *of)
{
	if (!of)
		return;
	sampler_process_ref(of);
	sampler_process_unref(h->process);
	h->process = of;
}

/* The process of a sample, as it is set now. NULL: not set, or another one of the same number. */
static struct sampler_process *process_of(const struct sampler *s, const struct sampler_sample *sample)
{
	struct sampler_process *p = sampler_process_get(s, sample->pid);

	if (!p || same_process(p, sample))
		return p;
	return copied_process(s, p, sample);
}

void sampler_take(struct sampler *s, const struct sampler_sample *sample)
{
	struct sampler_sample again = *sample;

	if (sample->sleeper)
		sampler_sleep_begun(s, sample);
	if (!sample->raw || !end_may_wait(sample->end)) {
		deliver_sample(s, sample);
		return;
	}
	if (walk_again(s, process_of(s, sample), &again)) {
		if (s->tells_unknown)
			tell_unknown(s, &again);
		/* The handler may have set the process: the sample is walked again at the end of the poll. */
		if (s->held_bytes + sample->raw->stack.size <= s->options.hold_memory) {
			hold_sample(s, sample, process_of(s, sample));
			return;
		}
		s->stats.hold_full++;
		walk_again(s, process_of(s, sample), &again);
	}
	if (!s->options.keep_raw)
		again.raw = NULL;
	deliver_sample(s, &again);
}

void sampler_hold_process(struct sampler *s, struct sampler_process *p)
{
	s->hold_changed = true;
	for (size_t i = 0; i < s->n_held; i++) {
		struct sampler_held *h = s->held[i];

		if (h && h->sample.pid == p->pid)
			take_process(h, same_process(p, &h->sample) ? p : copied_process(s, p, &h->sample));
	}
}

/* Deliver @h if it need not wait any more. */
static bool try_held(struct sampler *s, struct sampler_held *h, int64_t now_ms)
{
	bool waits = walk_again(s, h->process, &h->sample);

	if (waits && now_ms < h->deadline_ms) {
		const struct sampler_process *p = sampler_process_get(s, h->sample.pid);

		/*
		 * It was mapped after the mappings were read that an earlier event had asked for, or the process has ended
		 * and they are of another of its programs.
		 */
		if (h->sample.end == SAMPLER_NO_MAPPING ||
		    (h->sample.end == SAMPLER_NO_PROCESS && p && p->has_ended))
			tell_unknown(s, &h->sample);
		/* The handler may have set the process, while this sample was not among those that wait. */
		take_process(h, process_of(s, &h->sample));
		return false;
	}
	if (!s->options.keep_raw)
		h->sample.raw = NULL;
	deliver_sample(s, &h->sample);
	return true;
}

static void run_held_samples(struct sampler *s, int64_t now_ms)
{
	bool changed = s->hold_changed;
	size_t n = 0;

	s->hold_changed = false;
	for (size_t i = 0; i < s->n_held; i++) {
		struct sampler_held *h = s->held[i];

		if (!changed && now_ms < h->deadline_ms)
			continue;
		s->held[i] = NULL; /* the handler may set processes */
		if (try_held(s, h, now_ms))
			held_free(s, h);
		else
			s->held[i] = h;
	}
	for (size_t i = 0; i < s->n_held; i++)
		if (s->held[i])
			s->held[n++] = s->held[i];
	s->n_held = n;
}

void sampler_hold_run(struct sampler *s)
{
	run_held_samples(s, clock_mono_ms());
}

void sampler_hold_flush(struct sampler *s)
{
	run_held_samples(s, INT64_MAX);
}

void sampler_hold_drop(struct sampler *s)
{
	for (size_t i = 0; i < s->n_held; i++)
		held_free(s, s->held[i]);
	free(s->held);
	s->held = NULL;
	s->n_held = 0;
}
