/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's thread: it waits for events of the sampler and results of the reader, adds samples to the window, and
 * closes windows.
 */
#include "agent/agent.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/confine.h"
#include "agent/window.h"

#define TURN_MS     250
#define TICK_MS     1000
#define LAST_MS     3000 /* that samples of the end wait for their tables at most */
#define HOLD_MS     5000 /* that samples wait for their process and its tables */
#define MAX_NOTES   KIB(64)
#define RUN_MEMORY  ((uint64_t)1 << 30) /* of the profile of a whole run, when it is full */
#define OPEN_FILES  4096u
#define AGAIN_TRIES 16u /* files a second that are opened to be read again, until one can be */
/*
 * The time of threads that still sleep is added so often, also in a run without windows: a process without a sample for minutes
 * is forgotten (IDLE_MS of process.c), and its sleep would be that of an unknown one.
 */
#define ASLEEP_MS 8000

struct agent {
	struct agent_options o;
	struct sampler *sampler;
	struct parser *parser;
	struct recent *recent; /* NULL: the kernel does not permit it */
	struct files *files;
	struct processes *processes;
	struct kernel_names *kernel;
	struct label_maker *labels;
	struct window *window;
	struct mapped_file *by_number[SAMPLER_MAX_FILES];
	int64_t start_ms, window_ms, tick_ms, asleep_ms; /* monotonic */
	int64_t wall_start_ms, window_wall_ns;
	char confined[CONFINED_SIZE], recent_lacks[CONFINED_SIZE];
	struct agent_stats stats;
};

/* ---- files: between the list of files, the sampler and the processes ---- */

static int file_number(void *arg, uint32_t *ret, struct err *err)
{
	struct agent *a = arg;

	return sampler_file_new(a->sampler, ret, err);
}

static void file_dropped(void *arg, struct mapped_file *f)
{
	struct agent *a = arg;

	a->by_number[sampler_file_index(f->number)] = NULL;
	sampler_file_drop(a->sampler, f->number);
}

static struct mapped_file *file_of_number(void *arg, uint32_t number)
{
	struct agent *a = arg;
	uint32_t i = sampler_file_index(number);
	struct mapped_file *f = i < SAMPLER_MAX_FILES ? a->by_number[i] : NULL;

	return f && f->number == number ? f : NULL;
}

static void set_table(struct agent *a, struct mapped_file *f, struct bytes table)
{
	struct err err = { 0 };

	if (sampler_file_table(a->sampler, f->number, table, &err) < 0)
		log_debug("agent", "%s: %s", f->path, err.text);
}

static void file_head_read(void *arg, struct mapped_file *f)
{
	struct agent *a = arg;

	a->by_number[sampler_file_index(f->number)] = f;
	/* The walk does not wait for a table that will never come. Nor does it ask for it, so none may come later. */
	if (mapped_file_has_no_table(f))
		set_table(a, f, bytes_of(NULL, 0));
	processes_file_known(a->processes, f);
}

static void file_table_built(void *arg, struct mapped_file *f, struct bytes table)
{
	set_table(arg, f, table);
}

/* ---- the sampler ---- */

static void on_agent_sample(void *arg, const struct sampler_sample *s)
{
	struct agent *a = arg;

	if (a->stats.first_sample_ms < 0)
		a->stats.first_sample_ms = clock_mono_ms() - a->start_ms;
	switch (window_add(a->window, s)) {
	case WINDOW_ADDED:
		a->stats.n_samples++;
		a->stats.ends[s->end]++;
		break;
	case WINDOW_FILTERED:
		a->stats.n_filtered++;
		break;
	case WINDOW_LOST:
		break;
	}
}

static void on_agent_event(void *arg, const struct sampler_event *e)
{
	struct agent *a = arg;

	processes_event(a->processes, e);
}

static int poll_sampler(struct agent *a, int timeout_ms, struct err *err)
{
	const struct sampler_handler h = { on_agent_sample, on_agent_event, a };
	struct pollfd fds[] = { { .fd = sampler_fd(a->sampler), .events = POLLIN },
				{ .fd = files_fd(a->files), .events = POLLIN } };

	if (poll(fds, ARRAY_SIZE(fds), timeout_ms) < 0 && errno != EINTR)
		return err_os(err, errno, "poll");
	files_poll(a->files);
	return sampler_poll(a->sampler, 0, &h, err);
}

/* ---- start and end ---- */

static void read_kernel_id(struct build_id *ret)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err ignored = { 0 };

	if (file_read("/sys/kernel/notes", MAX_NOTES, &b, &ignored) != 0 ||
	    elf_notes_build_id(buf_bytes(&b), __BYTE_ORDER == __BIG_ENDIAN, ret) != 0)
		ret->size = 0;
}

/* Files that wait to be read are open, besides those of perf events. */
static void raise_open_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= OPEN_FILES)
		return;
	l.rlim_cur = MIN(l.rlim_max, (rlim_t)OPEN_FILES);
	setrlimit(RLIMIT_NOFILE, &l);
}

static int start_files(struct agent *a, struct err *err)
{
	const struct files_handler h = { .arg = a,
					 .number = file_number,
					 .drop = file_dropped,
					 .head = file_head_read,
					 .table = file_table_built };

	return files_new(&h, a->parser, &a->files, err);
}

static void start_window(struct agent *a)
{
	a->window_ms = clock_mono_ms();
	a->window_wall_ns = clock_wall_ms() * 1000000;
	a->asleep_ms = a->window_ms;
}

static void *read_kernel_names(void *ignored)
{
	return kernel_names_new(NULL);
}

/*
 * Open the sampler, and read the names of the kernel meanwhile: each takes as long as the other, and the first sample waits for
 * both.
 */
static int open_sampler(struct agent *a, struct err *err)
{
	pthread_t thread;
	void *names = NULL;
	bool started = pthread_create(&thread, NULL, read_kernel_names, NULL) == 0;
	int r = sampler_open(&a->o.sampler, &a->sampler, err);

	if (started)
		pthread_join(thread, &names);
	else
		names = kernel_names_new(NULL);
	a->kernel = names;
	return r;
}

/* Without it only processes that live until they are read have names. */
static void open_recent(struct agent *a, bool starters)
{
	struct err err = { 0 };

	if (recent_new(a->o.sampler.pids, a->o.sampler.n_pids, starters, &a->recent, &err) < 0)
		snprintf(a->recent_lacks, sizeof(a->recent_lacks), "%.*s", CONFINED_SIZE - 1, err.text);
}

int agent_new(const struct agent_options *o, struct agent **ret, struct err *err)
{
	struct agent *a = NEW(struct agent);
	/* A sampler that was limited to the processes has no sample of others. */
	bool is_chosen = o->n_pids > 0 && o->sampler.n_pids == 0;
	struct processes_options p = { .pids = o->pids, .n_pids = is_chosen ? o->n_pids : 0 };
	struct window_sources sources = { .file = file_of_number, .arg = a };
	/* A window is full at half of its limit. */
	struct window_options w = { .max_memory = o->window ? 0 : 2 * RUN_MEMORY, .is_run = !o->window };

	a->o = *o;
	a->o.window_ms = o->window_ms ? o->window_ms : AGENT_WINDOW_S * 1000;
	a->start_ms = clock_mono_ms();
	a->wall_start_ms = clock_wall_ms();
	a->stats.first_sample_ms = -1;
	if (!a->o.sampler.hold_ms)
		a->o.sampler.hold_ms = HOLD_MS;
	raise_open_files();
	/* The parser first, while there is one thread, little memory and no other descriptor. */
	if (parser_new(&a->parser, err) < 0 || open_sampler(a, err) < 0 || start_files(a, err) < 0) {
		agent_free(a);
		return -1;
	}
	a->labels = label_maker_new(&o->labels, o->rules);
	open_recent(a, is_chosen);
	p.recent = a->recent;
	a->processes = processes_new(&p, a->files, a->labels, a->sampler);
	sources.kernel = a->kernel;
	sources.processes = a->processes;
	sources.labels = a->labels;
	read_kernel_id(&sources.kernel_id);
	w.off_cpu = o->sampler.off_cpu;
	w.only_known = is_chosen;
	w.frequency_hz = o->sampler.frequency_hz ? o->sampler.frequency_hz : 19;
	a->window = window_new(&sources, &w);
	start_window(a);
	*ret = a;
	return 0;
}

void agent_free(struct agent *a)
{
	if (!a)
		return;
	window_free(a->window);
	processes_free(a->processes);
	recent_free(a->recent);
	files_free(a->files);
	parser_free(a->parser);
	label_maker_free(a->labels);
	kernel_names_free(a->kernel);
	sampler_close(a->sampler);
	free(a);
}

const struct sampler_about *agent_about(const struct agent *a)
{
	return sampler_about(a->sampler);
}

void agent_confine(struct agent *a)
{
	struct err err = { 0 };

	if (confine_agent(&err) < 0)
		snprintf(a->confined, sizeof(a->confined), "%.*s", CONFINED_SIZE - 1, err.text);
}

/* ---- the run ---- */

static void add_asleep(struct agent *a, int64_t now_ms)
{
	const struct sampler_handler h = { on_agent_sample, on_agent_event, a };

	a->asleep_ms = now_ms;
	sampler_asleep(a->sampler, &h);
}

static struct profile *end_window(struct agent *a)
{
	int64_t now_ms = clock_mono_ms();
	struct profile *p;
	uint64_t lost;

	add_asleep(a, now_ms);
	p = window_end(a->window, a->window_wall_ns, MAX(now_ms - a->window_ms, (int64_t)1) * 1000000, &lost);

	a->stats.n_lost += lost;
	a->stats.n_windows++;
	start_window(a);
	return p;
}

static void close_window(struct agent *a)
{
	struct profile *p = end_window(a);

	if (p)
		a->o.window(a->o.arg, p);
	kernel_names_refresh(a->kernel);
	label_maker_renew(a->labels);
}

/* One file at a time: there may be no parser yet. Those that were deleted cannot be opened any more. */
static void read_file_again(struct agent *a)
{
	struct mapped_file *f, *first = NULL;
	uint32_t pid;
	int fd = -1;

	/* Until it is the turn of the first one again: there may be fewer. */
	for (unsigned i = 0; i < AGAIN_TRIES && fd < 0; i++) {
		f = files_next_unread(a->files);
		if (!f || f == first)
			return;
		if (!first)
			first = f;
		fd = processes_open_file(a->processes, f, &pid);
	}
	if (fd >= 0)
		files_read_again(a->files, f, fd);
}

/* @closes: the window ends in this turn, which adds the time of sleeping threads itself. */
static void run_tick(struct agent *a, bool closes)
{
	int64_t now_ms = clock_mono_ms();

	/*
	 * Not twice without a poll between: the second time a sleep whose end has not been read yet would count as lost.
	 */
	if (!closes && now_ms - a->asleep_ms >= ASLEEP_MS)
		add_asleep(a, now_ms);
	processes_tick(a->processes);
	if (now_ms - a->tick_ms < TICK_MS)
		return;
	a->tick_ms = now_ms;
	read_file_again(a);
	if (a->o.tick)
		a->o.tick(a->o.arg);
}

static int64_t turn_ms(const struct agent *a, int64_t end_ms)
{
	return MAX(MIN((int64_t)TURN_MS, end_ms - clock_mono_ms()), (int64_t)1);
}

int agent_run(struct agent *a, struct err *err)
{
	/* From here on: on a busy machine opening takes seconds. */
	int64_t end_ms = a->o.run_ms ? clock_mono_ms() + a->o.run_ms : INT64_MAX;
	int r = 0;

	while (clock_mono_ms() < end_ms && !(a->o.stopped && a->o.stopped(a->o.arg))) {
		int64_t window_end_ms = a->o.window ? a->window_ms + a->o.window_ms : INT64_MAX;
		bool closes;

		if (poll_sampler(a, (int)turn_ms(a, MIN(end_ms, window_end_ms)), err) < 0)
			return -1;
		closes = a->o.window && (clock_mono_ms() >= window_end_ms || window_is_full(a->window));
		run_tick(a, closes);
		if (closes)
			close_window(a);
	}
	/* The stacks of the last samples may wait for a table. */
	for (int64_t until_ms = clock_mono_ms() + LAST_MS; clock_mono_ms() < until_ms;) {
		bool idle = files_idle(a->files);

		r = poll_sampler(a, (int)MIN(turn_ms(a, until_ms), INT64_C(50)), err);
		if (r < 0)
			return -1;
		if (idle && r != SAMPLER_MORE)
			break;
	}
	/* Not in agent_take(): samples that come after the run's end are not of it. */
	if (r == SAMPLER_MORE)
		sampler_drop_rest(a->sampler);
	return 0;
}

struct profile *agent_take(struct agent *a)
{
	const struct sampler_handler h = { on_agent_sample, on_agent_event, a };

	/* Those of processes that have ended wait longer than the run's end. */
	sampler_flush(a->sampler, &h);
	return end_window(a);
}

/* ---- the state ---- */

int agent_open_mapped(struct agent *a, const struct build_id *id, struct agent_mapped *ret)
{
	for (size_t i = 0; i < SAMPLER_MAX_FILES; i++) {
		const struct mapped_file *f = a->by_number[i];

		if (!f || !build_id_eq(&f->id, id) || f->path[0] != '/')
			continue;
		ret->fd = processes_open_file(a->processes, f, &ret->pid);
		if (ret->fd < 0)
			continue;
		ret->path = mem_strdup(f->path);
		return 0;
	}
	return -1;
}

static const char *kernel_reason(const struct agent *a)
{
	uint64_t ignored;

	if (sampler_about(a->sampler)->no_kernel)
		return "";
	switch (kernel_names_state(a->kernel, &ignored)) {
	case KERNEL_HIDDEN:
		return "the kernel hides its addresses (kernel.kptr_restrict, or kernel.perf_event_paranoid "
		       "above "
		       "1); give the agent CAP_SYSLOG";
	case KERNEL_MISSING:
		return "/proc/kallsyms cannot be read, or is empty";
	case KERNEL_NAMED:
		break;
	}
	return "";
}

void agent_stats(struct agent *a, struct agent_stats *ret)
{
	struct processes_stats p;
	struct window_python python;
	struct window_made made;
	struct files_stats f;

	*ret = a->stats;
	ret->start_ms = a->wall_start_ms;
	sampler_stats(a->sampler, &ret->sampler);
	ret->about = *sampler_about(a->sampler);
	processes_stats(a->processes, &p);
	ret->n_processes = p.n;
	ret->n_maps = p.n_maps;
	ret->n_processes_read = p.n_read;
	ret->n_processes_gone = p.n_gone;
	ret->n_processes_recovered = p.n_recovered;
	ret->n_processes_limited = p.n_limited;
	ret->made_bytes = p.made_bytes;
	window_python_stats(a->window, &python);
	ret->python = (struct agent_python){ python.n_frames, python.n_named,  python.n_early,
					     p.n_python_read, p.n_python_gone, p.python_bytes };
	window_made_stats(a->window, &made);
	ret->n_made_frames = made.n_frames;
	ret->n_made_named = made.n_named;
	files_stats(a->files, &f);
	ret->n_files = f.n_files;
	ret->n_files_waiting = f.n_waiting;
	ret->n_files_refused = f.n_refused;
	ret->n_tables = f.n_tables;
	ret->n_tables_failed = f.n_failed;
	ret->files_cpu_ns = f.cpu_ns;
	ret->parsing = f.parsing;
	snprintf(ret->confined, sizeof(ret->confined), "%s", a->confined);
	snprintf(ret->recent_lacks, sizeof(ret->recent_lacks), "%s", a->recent_lacks);
	ret->n_label_sets = label_maker_n(a->labels);
	ret->names_containers = label_maker_containers(a->labels, &ret->containers);
	ret->kernel_bytes = kernel_names_size(a->kernel, &ret->n_kernel_names);
	ret->kernel = kernel_reason(a);
}
