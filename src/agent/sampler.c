/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options, processes and files of a sampler, and the choice of its implementation.
 */
#include "agent/sampler.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "agent/sampler_bpf.h"
#include "agent/sampler_cpus.h"
#include "agent/sampler_perf.h"

/* The number of a dropped file is given out again after this time: samples on their way may name it. */
#define FILE_REST_NS (10 * INT64_C(1000000000))

static void limit_default(size_t *value, size_t normal)
{
	if (*value == 0)
		*value = normal;
}

int sampler_options_check(struct sampler_options *o, struct err *err)
{
	if (o->frequency_hz == 0)
		o->frequency_hz = 19;
	if (o->hold_ms == 0)
		o->hold_ms = 2000;
	limit_default(&o->ring_size, MIB(8));
	limit_default(&o->table_memory, MIB(64));
	limit_default(&o->mapping_memory, MIB(32));
	limit_default(&o->stack_copy, KIB(32));
	limit_default(&o->hold_memory, MIB(16));
	if (o->frequency_hz > SAMPLER_MAX_HZ)
		return err_set(err, ERR_INVALID, "frequency %u Hz: at most %d", o->frequency_hz,
			       SAMPLER_MAX_HZ);
	if (o->stack_copy > SAMPLER_MAX_STACK)
		return err_set(err, ERR_INVALID, "stack copy of %zu bytes: at most %zu", o->stack_copy,
			       SAMPLER_MAX_STACK);
	if (o->ring_size > MIB(1024))
		return err_set(err, ERR_INVALID, "ring of %zu bytes: at most 1 GiB", o->ring_size);
	for (size_t size = KIB(64);; size *= 2)
		if (size >= o->ring_size) {
			o->ring_size = size;
			return 0;
		}
}

struct sampler *sampler_new(const struct sampler_ops *ops, void *impl, enum sampler_kind kind,
			    const struct sampler_options *options)
{
	struct sampler *s = NEW(struct sampler);

	s->ops = ops;
	s->impl = impl;
	s->options = *options;
	s->about.kind = kind;
	s->about.no_kernel = options->no_kernel;
	s->about.text = s->about_text;
	s->about.lost = (const char *const *)s->lost;
	return s;
}

void sampler_note_lost(struct sampler *s, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;

	if (s->about.n_lost == ARRAY_SIZE(s->lost))
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		mem_none(1, 1);
	va_end(ap);
	s->lost[s->about.n_lost++] = text;
}

static void note_lost_clock(struct sampler *s, const struct sampler_options *wanted)
{
	if (wanted->clock != s->options.clock)
		sampler_note_lost(
			s, "cycles: this machine has no counter of them, as most virtual machines; the CPU "
			   "clock is used, which does not see code that runs with interrupts disabled");
}

int sampler_open(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	struct sampler_options o = *options, bpf;
	struct err why;

	if (sampler_options_check(&o, err))
		return -1;
	if (o.clock == SAMPLER_CLOCK_CYCLES && !sampler_has_cycles())
		o.clock = SAMPLER_CLOCK_CPU;
	bpf = o;
	if (!options->stack_copy)
		bpf.stack_copy = SAMPLER_MAX_STACK;
	if (!o.no_bpf && sampler_bpf_open(&bpf, ret, &why) == 0) {
		note_lost_clock(*ret, options);
		return 0;
	}
	if (sampler_perf_open(&o, ret, err))
		return o.no_bpf ? -1 : err_in(err, "%s; and", why.text);
	if (!o.no_bpf)
		sampler_note_lost(*ret, "%s", why.text);
	note_lost_clock(*ret, options);
	return 0;
}

void sampler_close(struct sampler *s)
{
	struct bytes key;
	void *p;

	if (!s)
		return;
	sampler_hold_drop(s);
	sampler_sleeps_free(s->sleeps);
	sampler_tables_done(s);
	s->ops->close(s);
	map_each (&s->processes, it, &key, &p)
		sampler_process_unref(p);
	map_done(&s->processes);
	free(s->ended);
	free(s->files);
	for (size_t i = 0; i < s->about.n_lost; i++)
		free(s->lost[i]);
	free(s);
}

const struct sampler_about *sampler_about(const struct sampler *s)
{
	return &s->about;
}

const char *sampler_end_name(enum sampler_end end)
{
	static const char *const names[SAMPLER_N_ENDS] = {
		[SAMPLER_COMPLETE] = "complete",       [SAMPLER_FRAME_END] = "frame pointer",
		[SAMPLER_KERNEL_ONLY] = "kernel only", [SAMPLER_NO_PROCESS] = "no process",
		[SAMPLER_NO_MAPPING] = "no mapping",   [SAMPLER_NO_TABLE] = "no table",
		[SAMPLER_EVICTED] = "evicted",         [SAMPLER_NO_ROW] = "no row",
		[SAMPLER_BAD_RULE] = "bad rule",       [SAMPLER_UNREADABLE] = "unreadable",
		[SAMPLER_TRUNCATED] = "truncated",     [SAMPLER_LOOP] = "loop",
		[SAMPLER_TOO_DEEP] = "too deep",       [SAMPLER_NO_REGISTERS] = "no registers",
	};

	return (size_t)end < SAMPLER_N_ENDS ? names[end] : "unknown";
}

/* Samples and events. */

static void deliver_event(struct sampler *s, const struct sampler_event *event)
{
	if (s->handler && s->handler->event)
		s->handler->event(s->handler->ctx, event);
}

/*
 * Its last samples may be in the ring, after this event: they are walked before it is forgotten, at the end of the poll. In the
 * kernel it is of no use any more.
 */
static void note_ended(struct sampler *s, struct sampler_process *p)
{
	s->ops->process_drop(s, p->pid);
	VEC_PUSH(s->ended, s->n_ended, s->room_ended) = sampler_process_ref(p);
}

static void drop_ended(struct sampler *s)
{
	for (size_t i = 0; i < s->n_ended; i++) {
		struct sampler_process *p = s->ended[i];

		/* The number may belong to another one by now. */
		if (sampler_process_get(s, p->pid) == p)
			sampler_process_drop(s, p->pid);
		sampler_process_unref(p);
	}
	s->n_ended = 0;
}

void sampler_tell(struct sampler *s, const struct sampler_event *event)
{
	struct sampler_process *p = sampler_process_get(s, event->pid);
	bool late = event->kind == SAMPLER_EXEC && p && p->set_ns > event->time_ns;
	struct sampler_event again = *event;

	if (event->kind == SAMPLER_EXEC) {
		s->execs[event->pid % SAMPLER_EXECS] = (struct sampler_told){ event->pid, event->time_ns };
		sampler_process_drop(s, event->pid);
	}
	if (event->kind == SAMPLER_EXIT && p)
		note_ended(s, p);
	deliver_event(s, event);
	if (!late)
		return;
	/*
	 * The process was set after it ran the other program, and the mappings may be of either one. Samples may be under
	 * way, and no further event need come if it sleeps now.
	 */
	again.kind = SAMPLER_NEW;
	deliver_event(s, &again);
}

int sampler_poll(struct sampler *s, int timeout_ms, const struct sampler_handler *h, struct err *err)
{
	int r;

	s->handler = h;
	r = s->ops->poll(s, timeout_ms, err);
	if (r >= 0)
		sampler_hold_run(s);
	drop_ended(s);
	s->handler = NULL;
	return r;
}

void sampler_flush(struct sampler *s, const struct sampler_handler *h)
{
	s->handler = h;
	sampler_hold_flush(s);
	s->handler = NULL;
}

void sampler_drop_rest(struct sampler *s)
{
	if (s->ops->drop_rest)
		s->stats.lost += s->ops->drop_rest(s);
}

int sampler_fd(const struct sampler *s)
{
	return s->ops->fd(s);
}

/* Files. */

struct sampler_file *sampler_file_get(const struct sampler *s, uint32_t file)
{
	uint32_t i = sampler_file_index(file);

	return file != SAMPLER_NO_FILE && i < s->n_files && s->files[i].used && s->files[i].file == file
		       ? &s->files[i]
		       : NULL;
}

static struct sampler_file *free_file(struct sampler *s)
{
	int64_t now = clock_mono_ns();
	struct sampler_file *oldest = NULL;

	if (s->n_used == s->n_files && s->n_files < SAMPLER_MAX_FILES) {
		struct sampler_file *f = &VEC_PUSH(s->files, s->n_files, s->room_files);

		*f = (struct sampler_file){ 0 };
		return f;
	}
	for (size_t i = 0; i < s->n_files; i++)
		if (!s->files[i].used && (!oldest || s->files[i].dropped_ns < oldest->dropped_ns))
			oldest = &s->files[i];
	if (oldest && now - oldest->dropped_ns >= FILE_REST_NS)
		return oldest;
	if (s->n_files == SAMPLER_MAX_FILES)
		return NULL;
	oldest = &VEC_PUSH(s->files, s->n_files, s->room_files);
	*oldest = (struct sampler_file){ 0 };
	return oldest;
}

int sampler_file_new(struct sampler *s, uint32_t *ret_file, struct err *err)
{
	struct sampler_file *f = free_file(s);
	uint32_t generation;

	if (!f)
		return err_set(err, ERR_LIMIT, "more than %d files are sampled", SAMPLER_MAX_FILES);
	generation = (f->generation + 1) & 0xffff;
	*f = (struct sampler_file){ .used = true,
				    .generation = generation,
				    .file = generation << 16 | (uint32_t)(f - s->files) };
	s->n_used++;
	if (s->ops->file_added)
		s->ops->file_added(s, f->file);
	*ret_file = f->file;
	return 0;
}

void sampler_file_drop(struct sampler *s, uint32_t file)
{
	struct sampler_file *f = sampler_file_get(s, file);

	if (!f)
		return;
	sampler_table_leave(s, f, SAMPLER_TABLE_NONE);
	f->used = false;
	f->dropped_ns = clock_mono_ns();
	s->n_used--;
}

/* Processes. */

static struct bytes pid_key(const uint32_t *pid)
{
	return bytes_of(pid, sizeof(*pid));
}

struct sampler_process *sampler_process_get(const struct sampler *s, uint32_t pid)
{
	return map_get(&s->processes, pid_key(&pid));
}

struct sampler_process *sampler_process_ref(struct sampler_process *p)
{
	if (p)
		p->n_refs++;
	return p;
}

void sampler_process_unref(struct sampler_process *p)
{
	if (!p || --p->n_refs)
		return;
	free(p->mappings);
	free(p);
}

/* When the process began to run its present program; 0: not known. */
static int64_t exec_ns_of(const struct sampler *s, uint32_t pid)
{
	const struct sampler_told *e = &s->execs[pid % SAMPLER_EXECS];

	return e->pid == pid ? e->time_ns : 0;
}

/* Take @p, which is NULL or was in the table of processes. */
static void process_replaced(struct sampler *s, struct sampler_process *p)
{
	if (p)
		s->n_mappings -= p->n_mappings;
	sampler_process_unref(p);
}

static int mappings_check(const struct sampler *s, const struct sampler_mapping *m, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (m[i].start >= m[i].end || (i && m[i].start < m[i - 1].end))
			return err_set(err, ERR_INVALID, "mapping %zu: not sorted", i);
		if (m[i].file != SAMPLER_NO_FILE && !sampler_file_get(s, m[i].file))
			return err_set(err, ERR_INVALID, "mapping %zu: there is no file %#x", i, m[i].file);
	}
	return 0;
}

int sampler_process_set(struct sampler *s, const struct sampler_owner *of,
			const struct sampler_mapping *mappings, size_t n_mappings, struct err *err)
{
	struct sampler_process *p;

	n_mappings = MIN(n_mappings, (size_t)SAMPLER_MAX_MAPPINGS);
	if (mappings_check(s, mappings, n_mappings, err))
		return err_in(err, "process %u", of->pid);
	p = NEW(struct sampler_process);
	*p = (struct sampler_process){ .n_refs = 1,
				       .pid = of->pid,
				       .start_ticks = of->start_ticks,
				       .set_ns = clock_mono_ns(),
				       .has_ended = of->has_ended,
				       .until_ns = of->until_ns,
				       .n_mappings = n_mappings };
	p->read_ns = of->read_ns ? of->read_ns : p->set_ns;
	p->from_ns = of->has_ended ? of->from_ns : exec_ns_of(s, of->pid);
	p->copy_of = of->has_ended ? of->copy_of : 0;
	p->mappings = NEW_N(struct sampler_mapping, n_mappings + 1);
	if (n_mappings)
		memcpy(p->mappings, mappings, n_mappings * sizeof(*mappings));
	if (!of->has_ended && s->ops->process_set(s, p, err)) {
		sampler_process_unref(p);
		sampler_process_drop(s, of->pid);
		return err_in(err, "process %u", of->pid);
	}
	/* Not before: a sample until here may have missed it. */
	p->set_ns = clock_mono_ns();
	s->n_mappings += n_mappings;
	process_replaced(s, map_put(&s->processes, pid_key(&of->pid), p));
	sampler_hold_process(s, p);
	return 0;
}

void sampler_process_drop(struct sampler *s, uint32_t pid)
{
	struct sampler_process *p = map_del(&s->processes, pid_key(&pid));

	s->ops->process_drop(s, pid);
	process_replaced(s, p);
}

int sampler_process_python(struct sampler *s, uint32_t pid, const struct bpf_python *layout, struct err *err)
{
	return s->ops->process_python ? s->ops->process_python(s, pid, layout, err) : 1;
}

void sampler_stats(struct sampler *s, struct sampler_stats *ret)
{
	*ret = s->stats;
	ret->n_files = s->n_used;
	ret->n_tables = s->n_tables;
	ret->n_table_files = s->n_table_files;
	ret->n_mappings = s->n_mappings;
	ret->n_processes = s->processes.n;
	ret->table_bytes = s->table_bytes;
	ret->held_bytes = s->held_bytes;
	ret->n_asleep = sampler_sleeps_n(s->sleeps);
	s->ops->stats(s, ret);
}
