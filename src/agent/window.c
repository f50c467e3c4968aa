/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each file gets one mapping for a segment of code, at the addresses of the ELF file: then an address of the profile is one of
 * the file, and every reader of pprof can translate it.
 */
#include "agent/window.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/python_image.h"
#include "agent/python_stack.h"
#include "base/search.h"
#include "base/vec.h"

#define UPPER_HALF       ((uint64_t)1 << 63)
#define MADE             STR("[code made at run time, without a perf map]")
#define UNREADABLE       STR("[code of a file that cannot be read]")
#define FORGOTTEN        STR("[code of a file that is gone]")
#define PYTHON_GONE_MARK STR("[Python function that is gone]")
#define PYTHON_LATE_MARK STR("[Python function, not read in time]")
#define NAME_ROOM        300u
#define PREEMPTED        STR("[waits for a processor]")
#define TRACE_FRAMES     12u

struct window {
	struct window_sources s;
	struct window_options o;
	struct profile *p;
	uint64_t number; /* of the window */
	uint64_t n_samples, n_lost;
	struct window_python python; /* of all windows */
	struct window_made made;     /* likewise */
	uint32_t *sets;              /* by number of the labels: the profile's + 1 */
	size_t n_sets;
	uint32_t kernel_mapping; /* + 1 */
};

static int64_t period_ns(const struct window *w)
{
	return INT64_C(1000000000) / w->o.frequency_hz;
}

static void start_profile(struct window *w)
{
	const struct profile_limits limits = { .max_memory = w->o.max_memory };

	w->p = profile_new(&limits);
	profile_add_type(w->p, STR("cpu"), STR("nanoseconds"));
	if (w->o.off_cpu) {
		profile_add_type(w->p, STR("off_cpu"), STR("nanoseconds"));
		w->p->default_type = profile_add_string(w->p, STR("cpu"));
	}
	w->p->period = period_ns(w);
	w->p->period_type.type = profile_add_string(w->p, STR("cpu"));
	w->p->period_type.unit = profile_add_string(w->p, STR("nanoseconds"));
	w->number++;
	w->n_samples = w->n_lost = 0;
	w->kernel_mapping = 0;
	if (w->n_sets)
		memset(w->sets, 0, w->n_sets * sizeof(*w->sets));
}

struct window *window_new(const struct window_sources *s, const struct window_options *o)
{
	struct window *w = NEW(struct window);

	w->s = *s;
	w->o = *o;
	if (!w->o.max_memory)
		w->o.max_memory = WINDOW_MEMORY;
	start_profile(w);
	return w;
}

void window_free(struct window *w)
{
	if (!w)
		return;
	profile_free(w->p);
	free(w->sets);
	free(w);
}

/* ---- frames ---- */

static uint32_t function_location(struct window *w, struct str name, uint32_t mapping, uint64_t addr)
{
	struct profile_function f = { .name = profile_add_string(w->p, name) };
	struct profile_location l = { .addr = addr, .mapping = mapping };
	struct profile_line line = { 0 };

	f.system_name = f.name;
	line.function = profile_add_function(w->p, &f);
	return profile_add_location(w->p, &l, &line, 1);
}

/* A frame that stands for others: it has no address, so that all of a kind are one. */
static uint32_t mark_window_location(struct window *w, struct str name)
{
	return function_location(w, name, PROFILE_NONE, 0);
}

static uint32_t kernel_mapping(struct window *w)
{
	char hex[BUILD_ID_HEX_SIZE];
	struct profile_mapping m = { .start = UPPER_HALF };
	uint64_t text;

	if (w->kernel_mapping)
		return w->kernel_mapping - 1;
	kernel_names_state(w->s.kernel, &text);
	m.file = profile_add_string(w->p, text ? STR("[kernel.kallsyms]_text") : STR("[kernel.kallsyms]"));
	if (text && w->s.kernel_id.size)
		m.build_id = profile_add_string(w->p, str_of(build_id_hex(&w->s.kernel_id, hex)));
	if (text)
		m.start = text;
	m.limit = UINT64_MAX;
	m.flags = PROFILE_HAS_FUNCTIONS;
	w->kernel_mapping = profile_add_mapping(w->p, &m) + 1;
	return w->kernel_mapping - 1;
}

/* Modules and BPF programs are where the kernel found room: of these the address of the function says nothing elsewhere. */
static uint32_t kernel_location(struct window *w, uint64_t addr, bool exact)
{
	struct profile_mapping m = { .start = UPPER_HALF, .limit = UINT64_MAX };
	struct profile_location l = { .addr = addr - !exact };
	struct kernel_symbol sym;
	char file[NAME_ROOM];

	if (!kernel_names_at(w->s.kernel, l.addr, &sym)) {
		l.mapping = kernel_mapping(w);
		return profile_add_location(w->p, &l, NULL, 0);
	}
	if (!sym.module.size)
		return function_location(w, sym.name, kernel_mapping(w), l.addr);
	snprintf(file, sizeof(file), "[" STR_FMT "]", (int)MIN(sym.module.size, (size_t)200), sym.module.p);
	m.file = profile_add_string(w->p, str_of(file));
	m.flags = PROFILE_HAS_FUNCTIONS;
	return function_location(w, sym.name, profile_add_mapping(w->p, &m), sym.start);
}

static uint32_t file_mapping(struct window *w, struct mapped_file *f, unsigned segment)
{
	struct file_span span = mapped_file_span(f, segment);
	struct profile_mapping m = { .start = span.start, .limit = span.limit, .offset = span.off };
	char hex[BUILD_ID_HEX_SIZE];

	if (f->window != w->number) {
		f->window = w->number;
		memset(f->mappings, 0, sizeof(f->mappings));
	}
	if (f->mappings[segment])
		return f->mappings[segment] - 1;
	m.file = profile_add_string(w->p, str_of(f->path));
	if (f->id.size)
		m.build_id = profile_add_string(w->p, str_of(build_id_hex(&f->id, hex)));
	f->mappings[segment] = profile_add_mapping(w->p, &m) + 1;
	return f->mappings[segment] - 1;
}

static uint32_t file_location(struct window *w, const struct sampler_frame *frame)
{
	struct mapped_file *f = w->s.file(w->s.arg, frame->file);
	struct profile_location l = { .addr = frame->addr, .mapping = PROFILE_NONE };
	int segment;

	if (!f)
		return mark_window_location(w, FORGOTTEN);
	segment = mapped_file_segment(f, l.addr);
	if (segment < 0)
		return mark_window_location(w, FORGOTTEN);
	l.mapping = file_mapping(w, f, (unsigned)segment);
	return profile_add_location(w->p, &l, NULL, 0);
}

static const struct process_map *map_of_process(const struct process *of, uint64_t addr)
{
	size_t i = SEARCH(0, of->n_maps, k, of->maps[k].limit <= addr);

	return i < of->n_maps && of->maps[i].start <= addr ? &of->maps[i] : NULL;
}

/* Code outside of files. The same function of several processes is one: its address says nothing. */
static uint32_t made_location(struct window *w, struct process *of, const struct sampler_frame *frame)
{
	const struct process_map *map = of ? map_of_process(of, frame->addr) : NULL;
	struct str name = of ? processes_made_name(w->s.processes, of, frame->addr) : STR("");

	if (!name.size && map && map->has_file)
		return mark_window_location(w, UNREADABLE);
	w->made.n_frames++;
	w->made.n_named += name.size > 0;
	return mark_window_location(w, name.size ? name : MADE);
}

/* ---- marks ---- */

/* Where the walk ended: the file of the last frame, or a name for code without a file. */
static struct str place_of_end(const struct window *w, const struct sampler_sample *s,
			       const struct process *of)
{
	const struct sampler_frame *last = s->n_user ? &s->user[s->n_user - 1] : NULL;
	const struct process_map *map;
	struct mapped_file *f;

	if (!last)
		return STR("");
	if (last->file != SAMPLER_NO_FILE) {
		f = w->s.file(w->s.arg, last->file);
		return f ? path_basename(str_of(f->path)) : STR("");
	}
	map = of ? map_of_process(of, last->addr) : NULL;
	return map && map->has_file ? STR("a file that cannot be read") : STR("code made at run time");
}

static uint32_t reason_location(struct window *w, const struct sampler_sample *s, const struct process *of)
{
	struct str file = place_of_end(w, s, of);
	char text[NAME_ROOM];

	file.size = MIN(file.size, (size_t)200);
	if (file.size && (s->end == SAMPLER_NO_TABLE || s->end == SAMPLER_NO_ROW ||
			  s->end == SAMPLER_BAD_RULE || s->end == SAMPLER_EVICTED))
		snprintf(text, sizeof(text), "[%s in " STR_FMT "]", sampler_end_name(s->end), STR_ARG(file));
	else
		snprintf(text, sizeof(text), "[%s]", sampler_end_name(s->end));
	return mark_window_location(w, str_of(text));
}

/* ---- samples ---- */

static uint32_t set_of_labels(struct window *w, uint32_t number)
{
	const struct agent_labels *l = label_maker_set(w->s.labels, number);
	struct profile_label v[AGENT_MAX_LABELS];

	if (number >= w->n_sets) {
		size_t n = MAX((size_t)number + 1, w->n_sets * 2);

		w->sets = mem_realloc(w->sets, n, sizeof(*w->sets));
		memset(w->sets + w->n_sets, 0, (n - w->n_sets) * sizeof(*w->sets));
		w->n_sets = n;
	}
	if (w->sets[number])
		return w->sets[number] - 1;
	for (size_t i = 0; i < l->n; i++)
		v[i] = (struct profile_label){ .key = profile_add_string(w->p, l->v[i].name),
					       .str = profile_add_string(w->p, l->v[i].value) };
	w->sets[number] = profile_add_labels(w->p, v, (uint32_t)l->n) + 1;
	return w->sets[number] - 1;
}

/* A process that ended before it was read, or was not read yet, has at least the name of its thread. */
static bool labels_of_sample(struct window *w, const struct sampler_sample *s, const struct process *of,
			     uint32_t *ret)
{
	if (of && of->is_labelled) {
		*ret = of->labels;
		return of->is_kept;
	}
	if (w->o.only_known)
		return false;
	return label_maker_get(w->s.labels,
			       &(struct label_facts){ .comm = str_of(s->comm),
						      .cgroup = STR(""),
						      .pid = s->pid,
						      .is_kernel = s->end == SAMPLER_KERNEL_ONLY },
			       ret);
}

/* A run of frames that stand for others becomes one. */
static uint32_t push_frame(struct window *w, uint32_t stack, uint32_t location)
{
	if (stack && !profile_has_failed(w->p) && w->p->stacks.p[stack].location == location &&
	    w->p->locations.p[location].mapping == PROFILE_NONE)
		return stack;
	return profile_add_stack(w->p, stack, location);
}

static uint32_t push_user(struct window *w, uint32_t stack, const struct sampler_sample *s, size_t i,
			  struct process *of)
{
	const struct sampler_frame *f = &s->user[i];

	/* An address in no mapping is no code; the mark says so. */
	if (s->end == SAMPLER_NO_MAPPING && i + 1 == s->n_user && f->file == SAMPLER_NO_FILE &&
	    !(of && map_of_process(of, f->addr)))
		return stack;
	return push_frame(w, stack,
			  f->file == SAMPLER_NO_FILE ? made_location(w, of, f) : file_location(w, f));
}

/* Not push_frame(): a function that calls itself is a frame each time. */
static uint32_t push_python(struct window *w, uint32_t stack, const struct sampler_python_frame *frame,
			    struct process *of)
{
	struct profile_location l = { .mapping = PROFILE_NONE };
	struct profile_function f = { 0 };
	struct profile_line line = { 0 };
	struct python_function python;
	int r = python_function_of(of->python, frame, &python);

	w->python.n_frames++;
	w->python.n_named += r == 0;
	if (r)
		return push_frame(
			w, stack,
			mark_window_location(w, r == PYTHON_LATE ? PYTHON_LATE_MARK : PYTHON_GONE_MARK));
	f.name = f.system_name = profile_add_string(w->p, python.name);
	f.file = profile_add_string(w->p, python.file);
	f.start_line = python.first_line;
	line.function = profile_add_function(w->p, &f);
	line.line = python.line;
	return profile_add_stack(w->p, stack, profile_add_location(w->p, &l, &line, 1));
}

static enum python_role role_of_frame(struct window *w, const struct sampler_frame *frame)
{
	struct mapped_file *f = frame->file == SAMPLER_NO_FILE ? NULL : w->s.file(w->s.arg, frame->file);
	const struct python_range *r = f && f->python ? python_image_range(f->python, frame->addr) : NULL;

	if (!r)
		return PYTHON_OTHER;
	return r->is_loop ? PYTHON_LOOP : PYTHON_GLUE;
}

/* Its frames of Python were not read: it was taken before the interpreter was known. Later it runs other functions. */
static bool is_python_early(struct window *w, const struct sampler_sample *s, const struct process *of)
{
	if (!s->held || !of || !(of->python || of->has_ended) || s->python_end != SAMPLER_PYTHON_NONE)
		return false;
	for (size_t i = 0; i < s->n_user; i++)
		if (role_of_frame(w, &s->user[i]) == PYTHON_LOOP)
			return true;
	return false;
}

/* Frames of Python in the places of the interpreter's. */
static uint32_t push_joined(struct window *w, uint32_t stack, const struct sampler_sample *s,
			    struct process *of)
{
	enum python_role roles[SAMPLER_MAX_USER];
	struct python_stack_item items[PYTHON_STACK_MAX];
	size_t n;

	for (size_t i = 0; i < s->n_user; i++)
		roles[i] = role_of_frame(w, &s->user[i]);
	n = python_stack_join(s, roles, items);
	if (sampler_end_complete(s->end) && s->python_end == SAMPLER_PYTHON_DEEP)
		stack = push_frame(w, stack, mark_window_location(w, STR("[too deep]")));
	if (sampler_end_complete(s->end) && s->python_end == SAMPLER_PYTHON_UNREADABLE)
		stack = push_frame(w, stack, mark_window_location(w, STR("[unreadable]")));
	for (size_t i = n; i-- > 0;)
		stack = items[i].is_python ? push_python(w, stack, &s->python[items[i].i], of)
					   : push_user(w, stack, s, items[i].i, of);
	return stack;
}

/* A thread that leaves its processor is in the scheduler; the functions of the tracepoint above it say nothing. */
static size_t innermost_of_kernel(struct window *w, const struct sampler_sample *s)
{
	struct kernel_symbol sym;

	for (size_t i = 0; s->off_ns && i < s->n_kernel && i < TRACE_FRAMES; i++)
		if (kernel_names_at(w->s.kernel, s->kernel[i] - 1, &sym) &&
		    str_eq(sym.name, STR("__schedule")))
			return i;
	return 0;
}

static uint32_t stack_of_sample(struct window *w, const struct sampler_sample *s, struct process *of)
{
	size_t innermost = innermost_of_kernel(w, s);
	uint32_t stack = 0;

	if (!sampler_end_complete(s->end))
		stack = push_frame(w, stack, reason_location(w, s, of));
	w->python.n_early += is_python_early(w, s, of);
	if (s->n_python && of && of->python)
		stack = push_joined(w, stack, s, of);
	else
		for (size_t i = s->n_user; i-- > 0;)
			stack = push_user(w, stack, s, i, of);
	/*
	 * The outermost frame of the kernel is its entry; the innermost one was interrupted, the others are return
	 * addresses.
	 */
	for (size_t i = s->n_kernel; i-- > innermost;)
		stack = push_frame(w, stack, kernel_location(w, s->kernel[i], i == 0));
	if (s->preempted)
		stack = push_frame(w, stack, mark_window_location(w, PREEMPTED));
	return stack;
}

enum window_outcome window_add(struct window *w, const struct sampler_sample *s)
{
	struct process *of = processes_find(w->s.processes, s->pid, s->start_ticks);
	int64_t values[2] = { s->off_ns ? 0 : period_ns(w), s->off_ns };
	uint32_t labels, stack;

	if (!labels_of_sample(w, s, of, &labels))
		return WINDOW_FILTERED;
	/* One that has failed has nothing of its samples any more. */
	if (w->o.is_run && window_is_full(w)) {
		w->n_lost++;
		return WINDOW_LOST;
	}
	stack = stack_of_sample(w, s, of);
	labels = set_of_labels(w, labels);
	if (profile_has_failed(w->p)) {
		w->n_lost++;
		return WINDOW_LOST;
	}
	profile_add_sample(w->p, stack, labels, values);
	w->n_samples++;
	return WINDOW_ADDED;
}

bool window_is_full(const struct window *w)
{
	return profile_has_failed(w->p) || w->p->memory > w->o.max_memory / 2;
}

void window_made_stats(const struct window *w, struct window_made *ret)
{
	*ret = w->made;
}

void window_python_stats(const struct window *w, struct window_python *ret)
{
	*ret = w->python;
}

uint64_t window_n_samples(const struct window *w)
{
	return w->n_samples;
}

struct profile *window_end(struct window *w, int64_t wall_ns, int64_t duration_ns, uint64_t *ret_lost)
{
	struct profile *p = w->p;
	struct err err = { 0 };

	*ret_lost = w->n_lost;
	p->time_ns = wall_ns;
	p->duration_ns = duration_ns;
	if (!w->n_samples || profile_build_end(p, &err) < 0) {
		*ret_lost += w->n_samples;
		profile_free(p);
		p = NULL;
	}
	start_profile(w);
	return p;
}
