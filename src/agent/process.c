/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is read when a sample of it arrives: its state, its mappings, its cgroup. A file among its mappings that is new is
 * read by the reader (files.c); until its program headers are known, no address of it can be translated, so the process is
 * given to the sampler when the last head has arrived. The sampler keeps copies of the stacks meanwhile.
 *
 * A process may change its mappings as fast as it likes. It is read again at most after 20 times as long as reading
 * took the last time, and all reading takes at most a share of the time.
 */
#include "agent/process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/cost.h"
#include "agent/process_memory.h"
#include "base/vec.h"

#define STAT_MAX       KIB(4)
#define CGROUP_MAX     KIB(64)
#define AGAIN_TIMES    20 /* read again after so many times the time of reading */
#define AGAIN_LEAST_MS 20
#define JUDGE_LAST_MS \
	10000            /* one that is dropped is judged again after twice as long each time, up to this */
#define READ_SHARE     8 /* all reading takes at most 1/8 of a processor */
#define READ_CREDIT_NS INT64_C(500000000) /* saved up at most */
/* Of it, for processes that were not read before: those that change their mappings all the time leave it to them. */
#define FIRST_CREDIT_NS (READ_CREDIT_NS / 2)
#define IDLE_MS         300000
#define SWEEP_EVERY_MS  30000
#define ENDED_MS        3000 /* a process is known for so long after its end, for samples that come later */
#define MADE_EVERY_MS   1000
#define MADE_STALE_MS   10000 /* code at a known address may be another function's by now */
#define MADE_MAX_FILE   ((uint64_t)64 << 20)
#define MADE_MAX_NAMES  ((uint64_t)8 << 20)
#define MADE_MAX        (1u << 17) /* functions of one process */
#define MADE_ALL_MAX    ((size_t)48 << 20)
#define MADE_SHARE      16 /* reading perf maps takes at most 1/16 of a processor */
#define MADE_CREDIT_NS  INT64_C(500000000)
#define MADE_FIRST_NS   (MADE_CREDIT_NS / 2) /* of it, for processes whose map was not read before */
/*
 * Opening files again takes at most 1/16 of a processor. Not of the time for reading: many new processes may use that up all
 * the time, and then no table would ever be built again.
 */
#define OPEN_SHARE     16
#define OPEN_CREDIT_NS INT64_C(500000000)
#define OPEN_TRIES     4
#define PARENTS_MAX    64

/* ---- the list ---- */

static struct bytes process_key(const uint32_t *pid)
{
	return bytes_of(pid, sizeof(*pid));
}

static struct process *process_at(const struct processes *p, uint32_t pid)
{
	return map_get(&p->by_pid, process_key(&pid));
}

static size_t made_size(const struct perf_map *m)
{
	return m->room * sizeof(*m->list) + m->names.room;
}

static void drop_made(struct processes *p, struct process *of)
{
	if (!of->made)
		return;
	p->made_bytes -= made_size(of->made);
	perf_map_done(of->made);
	free(of->made);
	of->made = NULL;
}

static void drop_process(struct processes *p, struct process *of)
{
	map_del(&p->by_pid, process_key(&of->pid));
	process_drop_maps(p, of);
	drop_made(p, of);
	python_process_free(of->python);
	free(of);
	p->stats.n--;
}

void processes_free(struct processes *p)
{
	struct bytes ignored;
	void *value;

	if (!p)
		return;
	map_each (&p->by_pid, it, &ignored, &value) {
		struct process *of = value;

		process_drop_maps(p, of);
		drop_made(p, of);
		python_process_free(of->python);
		free(of);
	}
	map_done(&p->by_pid);
	process_memory_free(p->memory);
	free(p->given);
	free(p);
}

/* ---- /proc ---- */

/* /proc/PID/NAME, without a limit of its own: the kernel makes these files. false: there is no such process. */
static bool read_proc(const struct processes *p, uint32_t pid, const char *name, size_t max, struct buf *ret)
{
	char path[PATH_MAX];
	struct err ignored = { 0 };

	ret->size = 0;
	snprintf(path, sizeof(path), "%s/%u/%s", p->o.proc, pid, name);
	return file_read(path, max, ret, &ignored) == 0;
}

/* The start time and the parent are after the command, which may have blanks and brackets in it (proc(5)). */
static bool parse_stat(struct str text, struct process *ret)
{
	struct str head = str_cut(&text, '('), comm, rest;
	const char *last = text.p ? memrchr(text.p, ')', text.size) : NULL;
	uint64_t value = 0, flags = 0;

	if (!head.size || !last)
		return false;
	comm = (struct str){ text.p, (size_t)(last - text.p) };
	comm.size = MIN(comm.size, sizeof(ret->comm) - 1);
	memcpy(ret->comm, comm.p, comm.size);
	ret->comm[comm.size] = '\0';
	rest = (struct str){ last + 1, text.size - (size_t)(last + 1 - text.p) };
	for (unsigned field = 3; field <= 22; field++) {
		struct str word = str_word(&rest);

		if (field == 3)
			continue;
		if (!str_to_u64(word, &value)) {
			/* Some of the others may be negative. */
			if (field == 4 || field == 9 || field == 22)
				return false;
			continue;
		}
		if (field == 4)
			ret->parent = (uint32_t)value;
		else if (field == 9)
			flags = value;
	}
	ret->start_ticks = value;
	ret->is_kernel = flags & 0x00200000; /* PF_KTHREAD */
	return true;
}

static bool read_stat(const struct processes *p, uint32_t pid, struct process *ret)
{
	AUTO(buf_done) struct buf text = { 0 };

	return read_proc(p, pid, "stat", STAT_MAX, &text) && parse_stat(buf_str(&text), ret);
}

/* No process that started earlier is one of those that are asked for, nor started by one. 0: not known. */
static void note_asked_start(struct processes *p)
{
	for (size_t i = 0; i < p->o.n_pids; i++) {
		struct process one;

		if (!read_stat(p, (uint32_t)p->o.pids[i], &one)) {
			p->asked_ticks = 0;
			return;
		}
		if (!i || one.start_ticks < p->asked_ticks)
			p->asked_ticks = one.start_ticks;
	}
}

struct processes *processes_new(const struct processes_options *o, struct files *files,
				struct label_maker *labels, struct sampler *sampler)
{
	struct processes *p = NEW(struct processes);

	p->o = *o;
	p->o.proc = o->proc ? o->proc : "/proc";
	p->files = files;
	p->labels = labels;
	p->sampler = sampler;
	p->memory = process_memory_new();
	p->python = (struct python_reader){ .read = process_memory_read, .arg = p->memory };
	cost_share_saved(&p->reading, READ_SHARE, READ_CREDIT_NS);
	p->sweep_ms = clock_mono_ms();
	note_asked_start(p);
	return p;
}

/* ---- reading ---- */

static bool is_named(const struct processes *p, uint32_t pid)
{
	for (size_t i = 0; i < p->o.n_pids; i++)
		if ((uint32_t)p->o.pids[i] == pid)
			return true;
	return false;
}

/* The process that started @of: by the kernel's record, since one whose parent has ended has another parent. 0: not known. */
static uint32_t starter_of(const struct processes *p, const struct process *of)
{
	return recent_find(p->o.recent, of->pid, process_start_ns(of), INT64_MAX)->parent;
}

static bool has_asked_for_parent(const struct processes *p, const struct process *of, bool by_records)
{
	struct process at = *of;

	for (unsigned depth = 0; depth < PARENTS_MAX; depth++) {
		uint32_t starter, parent;

		if (is_named(p, at.pid))
			return true;
		/* The search in the records of all processors takes milliseconds on a large machine. */
		if (at.start_ticks && at.start_ticks < p->asked_ticks)
			return false;
		starter = by_records ? starter_of(p, &at) : 0;
		parent = starter ? starter : at.parent;
		if (parent < 2)
			return false;
		at = (struct process){ .pid = parent };
		/* One that has ended may have a record, too. */
		if (!read_stat(p, parent, &at) && !by_records)
			return false;
	}
	return false;
}

static bool is_asked_for(const struct processes *p, const struct process *of)
{
	return !p->o.n_pids || has_asked_for_parent(p, of, false) ||
	       (p->o.recent && has_asked_for_parent(p, of, true));
}

void process_label(struct processes *p, struct process *of)
{
	AUTO(buf_done) struct buf cgroup = { 0 };
	char path[PATH_MAX], link[PATH_MAX];
	struct str exe = STR("");
	ssize_t n = -1;

	if (!of->is_kernel) {
		/* A child is in the control group of its parent, mostly. */
		read_proc(p, of->has_ended ? of->parent : of->pid, "cgroup", CGROUP_MAX, &cgroup);
		snprintf(path, sizeof(path), "%s/%u/exe", p->o.proc, of->has_ended ? of->parent : of->pid);
		if (!of->has_ended || of->is_fork)
			n = readlink(path, link, sizeof(link));
		if (n > 0)
			exe = (struct str){ link, (size_t)n };
		else if (of->has_ended && !of->is_fork && of->n_maps && of->maps[0].file)
			exe = str_of(of->maps[0].file->path);
	}
	of->is_labelled = true;
	of->label_round = label_maker_round(p->labels);
	of->is_asked = of->is_asked || is_asked_for(p, of);
	of->is_kept = of->is_asked &&
		      label_maker_get(
			      p->labels,
			      &(struct label_facts){ .comm = str_of(of->comm),
						     .exe = exe,
						     .cgroup = cgroup.size ? buf_str(&cgroup) : STR(""),
						     .pid = of->pid,
						     .is_kernel = of->is_kernel },
			      &of->labels);
	of->label_again_ms = of->is_kept ? label_maker_again_ms(p->labels) : 0;
}

static bool may_read(struct processes *p, const struct process *of)
{
	return cost_share_saved(&p->reading, READ_SHARE, READ_CREDIT_NS) >
	       (of->was_read ? FIRST_CREDIT_NS : 0);
}

static void process_is_gone(struct processes *p, struct process *of)
{
	p->stats.n_gone++;
	sampler_process_drop(p->sampler, of->pid);
	drop_process(p, of);
}

/* Read the state and the mappings. False: it has ended. */
static bool read_running(struct processes *p, struct process *of)
{
	struct process now = *of;

	if (!read_stat(p, of->pid, &now) || (of->start_ticks && now.start_ticks != of->start_ticks))
		return false;
	of->start_ticks = now.start_ticks;
	of->parent = now.parent;
	of->is_kernel = now.is_kernel;
	memcpy(of->comm, now.comm, sizeof(of->comm));
	process_label(p, of);
	p->stats.n_read++;
	return of->is_kernel || !of->is_kept || process_read_maps(p, of) == 0;
}

static void read_process(struct processes *p, struct process *of)
{
	int64_t from_ns = cost_ns(), took_ns, again_ms;
	bool is_known = read_running(p, of) || process_recover(p, of);

	took_ns = cost_ns() - from_ns;
	of->was_read = true;
	p->stats.read_ns += took_ns;
	p->reading.credit_ns -= took_ns;
	if (!is_known) {
		process_is_gone(p, of);
		return;
	}
	again_ms = of->is_kept ? AGAIN_LEAST_MS
			       : clock_backoff(AGAIN_LEAST_MS, of->n_dropped++, JUDGE_LAST_MS);
	of->next_read_ms = clock_mono_ms() + MAX(took_ns * AGAIN_TIMES / 1000000, again_ms);
	/* One that is dropped is set too: its stacks need not be kept. */
	if (!of->n_unread && (of->is_read || of->is_kernel || !of->is_kept))
		process_give(p, of);
}

static struct process *add_process(struct processes *p, uint32_t pid, uint64_t start_ticks)
{
	struct process *of = NEW(struct process);

	of->pid = pid;
	of->start_ticks = start_ticks;
	of->used_ms = clock_mono_ms();
	map_put(&p->by_pid, process_key(&of->pid), of);
	p->stats.n++;
	return of;
}

struct process *process_get(struct processes *p, uint32_t pid)
{
	if (!process_at(p, pid))
		read_process(p, add_process(p, pid, 0));
	return process_at(p, pid);
}

/* 0: not known. */
static bool is_of_start(const struct process *of, uint64_t start_ticks)
{
	return !start_ticks || !of->start_ticks || of->start_ticks == start_ticks;
}

static void process_changed(struct processes *p, const struct sampler_event *e)
{
	struct process *of = process_at(p, e->pid);

	if (of && !is_of_start(of, e->start_ticks)) {
		drop_process(p, of);
		of = NULL;
	}
	if (!of)
		of = add_process(p, e->pid, e->start_ticks);
	of->used_ms = clock_mono_ms();
	of->seen_ns = e->time_ns;
	of->parent = e->parent ? e->parent : of->parent;
	of->is_fork = e->is_fork;
	/* Otherwise processes_tick() reads it when its time has come. */
	of->is_read = false;
	if (of->next_read_ms <= of->used_ms && may_read(p, of))
		read_process(p, of);
}

static void table_wanted(struct processes *p, const struct sampler_event *e)
{
	struct process *of = process_at(p, e->pid);

	for (size_t i = 0; of && i < of->n_maps; i++) {
		struct mapped_file *f = of->maps[i].file;
		uint32_t pid;
		int fd;

		if (!f || f->number != e->file)
			continue;
		/* It is on its way: opening the file reads the mappings of a process again. */
		if (f->wants_table)
			return;
		fd = processes_open_file(p, f, &pid);
		if (fd >= 0)
			files_want_table(p->files, f, fd);
		return;
	}
}

/* That it is asked for does not change: its parent may have ended meanwhile. */
static void process_runs_another(struct processes *p, uint32_t pid)
{
	struct process *of = process_at(p, pid);
	uint64_t start_ticks = of ? of->start_ticks : 0;
	bool is_asked = of && of->is_asked;

	if (of)
		drop_process(p, of);
	if (is_asked && p->o.n_pids)
		add_process(p, pid, start_ticks)->is_asked = true;
}

void processes_event(struct processes *p, const struct sampler_event *e)
{
	struct process *of;

	switch (e->kind) {
	case SAMPLER_NEW:
	case SAMPLER_UNMAPPED:
		process_changed(p, e);
		break;
	case SAMPLER_EXEC:
		process_runs_another(p, e->pid);
		break;
	case SAMPLER_EXIT:
		of = process_at(p, e->pid);
		/* The number may belong to another one by now. */
		if (of && is_of_start(of, e->start_ticks))
			of->ended_ms = clock_mono_ms();
		break;
	case SAMPLER_WANTED:
		table_wanted(p, e);
		break;
	}
}

struct process *processes_find(struct processes *p, uint32_t pid, uint64_t start_ticks)
{
	struct process *of = process_at(p, pid);

	if (!of || !is_of_start(of, start_ticks))
		return NULL;
	of->used_ms = clock_mono_ms();
	/* The sets were made anew since. */
	if (of->is_labelled && (of->label_round != label_maker_round(p->labels) ||
				(of->label_again_ms && of->used_ms >= of->label_again_ms)))
		process_label(p, of);
	return of;
}

/* ---- in the background ---- */

/* Its number may belong to another process by now. */
static bool is_gone(const struct processes *p, const struct process *of)
{
	struct process now;

	return !read_stat(p, of->pid, &now) || now.start_ticks != of->start_ticks;
}

static void sweep_processes(struct processes *p)
{
	int64_t now_ms = clock_mono_ms(), idle_ms = p->stats.n > PROCESSES_MAX ? IDLE_MS / 30 : IDLE_MS;
	struct process **old = NULL;
	size_t n = 0, room = 0;
	struct bytes ignored;
	void *value;

	map_each (&p->by_pid, it, &ignored, &value) {
		struct process *of = value;

		if (now_ms - of->used_ms > idle_ms ||
		    (now_ms - of->used_ms > SWEEP_EVERY_MS && is_gone(p, of)))
			VEC_PUSH(old, n, room) = of;
	}
	for (size_t i = 0; i < n; i++) {
		p->stats.n_evicted++;
		sampler_process_drop(p->sampler, old[i]->pid);
		drop_process(p, old[i]);
	}
	free(old);
}

static void forget_ended(struct processes *p, struct process *of)
{
	/* Of others the sampler knows it by itself. */
	if (of->has_ended)
		sampler_process_drop(p->sampler, of->pid);
	drop_process(p, of);
}

static bool is_over(const struct process *of, int64_t now_ms)
{
	return of->ended_ms && now_ms - of->ended_ms > ENDED_MS;
}

/* One that has ended is, too, for samples of another of its programs (process_recover()). */
static bool may_be_read_now(const struct process *of, int64_t now_ms)
{
	return !of->is_read && !of->is_kernel && (!of->ended_ms || of->has_ended) &&
	       of->next_read_ms <= now_ms;
}

void processes_tick(struct processes *p)
{
	int64_t now_ms = clock_mono_ms();
	struct process **late = NULL;
	size_t n = 0, room = 0;
	struct bytes ignored;
	void *value;

	map_each (&p->by_pid, it, &ignored, &value) {
		struct process *of = value;

		if (is_over(of, now_ms) || may_be_read_now(of, now_ms))
			VEC_PUSH(late, n, room) = of;
	}
	for (size_t i = 0; i < n; i++)
		if (is_over(late[i], now_ms))
			forget_ended(p, late[i]);
		else if (may_read(p, late[i]))
			read_process(p, late[i]);
	free(late);
	if (now_ms - p->sweep_ms < SWEEP_EVERY_MS)
		return;
	p->sweep_ms = now_ms;
	sweep_processes(p);
	files_sweep(p->files);
	if (p->o.recent)
		recent_follow(p->o.recent);
}

/* ---- code that a process made ---- */

/* As may_read(): many processes with large maps, each read as seldom as its size allows, would take all of the time. */
static bool may_read_made(struct processes *p, const struct process *of)
{
	return cost_share_saved(&p->reading_made, MADE_SHARE, MADE_CREDIT_NS) >
	       (of->made ? MADE_FIRST_NS : 0);
}

static void update_made(struct processes *p, struct process *of, int64_t now_ms)
{
	const struct perf_map_limits limits = { MADE_MAX_FILE, MADE_MAX_NAMES, MADE_MAX };
	int64_t from_ns = cost_ns(), took_ns;
	struct err err = { 0 };
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", of->pid);
	if (!of->made)
		of->made = NEW(struct perf_map);
	else
		p->made_bytes -= made_size(of->made);
	if (p->made_bytes < MADE_ALL_MAX && perf_map_update(of->made, pid, &limits, &err) < 0)
		log_debug("agent", "process %u: %s", of->pid, err.text);
	p->made_bytes += made_size(of->made);
	p->stats.n_made_cut += of->made->cut;
	took_ns = cost_ns() - from_ns;
	p->reading_made.credit_ns -= took_ns;
	of->next_made_ms = now_ms + MAX(took_ns * AGAIN_TIMES / 1000000, (int64_t)MADE_EVERY_MS);
}

struct str processes_made_name(struct processes *p, struct process *of, uint64_t addr)
{
	const struct perf_map_entry *e = of->made ? perf_map_at(of->made, addr) : NULL;
	int64_t now_ms = clock_mono_ms();

	/* Without time for it the names of the last reading hold on. */
	if (now_ms < of->next_made_ms + (e ? MADE_STALE_MS : 0) || !may_read_made(p, of))
		return e ? perf_map_name(of->made, e) : STR("");
	update_made(p, of, now_ms);
	e = perf_map_at(of->made, addr);
	return e ? perf_map_name(of->made, e) : STR("");
}

/* ---- opening again ---- */

static bool is_same_file(int fd, const struct mapped_file *f)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == f->key.device && st.st_ino == f->key.inode &&
	       (uint64_t)st.st_size == f->key.size;
}

/* Charge the work since @from_ns. false: the share of the time is used up. */
static bool may_open_more(struct processes *p, int64_t *from_ns)
{
	int64_t now_ns = cost_ns();

	p->opening.credit_ns -= now_ns - *from_ns;
	*from_ns = now_ns;
	return cost_share_saved(&p->opening, OPEN_SHARE, OPEN_CREDIT_NS) > 0;
}

static int open_file_of_one(struct processes *p, const struct mapped_file *f, int64_t *from_ns,
			    uint32_t *ret_pid)
{
	struct bytes ignored;
	unsigned tries = 0;
	void *value;

	map_each (&p->by_pid, it, &ignored, &value) {
		const struct process *of = value;

		/* Children that ended have the mappings of their parent, and there may be hundreds of them. */
		if (of->ended_ms)
			continue;
		for (size_t i = 0; i < of->n_maps; i++) {
			int fd;

			if (of->maps[i].file != f)
				continue;
			/* The mappings of the process are read up to that one: there may be a million. */
			if (tries++ == OPEN_TRIES || !may_open_more(p, from_ns))
				return -1;
			fd = process_open_at(p->o.proc, of->pid, of->maps[i].start);
			if (fd >= 0 && is_same_file(fd, f)) {
				*ret_pid = of->pid;
				return fd;
			}
			fd_close(&fd);
			break;
		}
	}
	return -1;
}

int processes_open_file(struct processes *p, const struct mapped_file *f, uint32_t *ret_pid)
{
	int64_t from_ns;
	int fd;

	if (files_is_vdso(p->files, f)) {
		*ret_pid = 0;
		return files_open_vdso();
	}
	/* No process has it; or the search is too much: of a million mappings it takes milliseconds. */
	if (!f->n_refs || cost_share_saved(&p->opening, OPEN_SHARE, OPEN_CREDIT_NS) <= 0)
		return -1;
	from_ns = cost_ns();
	fd = open_file_of_one(p, f, &from_ns, ret_pid);
	may_open_more(p, &from_ns);
	return fd;
}

void processes_stats(const struct processes *p, struct processes_stats *ret)
{
	*ret = p->stats;
	ret->made_bytes = p->made_bytes;
	ret->python_bytes = p->python.bytes;
	ret->n_python_read = p->python.n_read;
	ret->n_python_gone = p->python.n_gone;
	ret->n_python_late = p->python.n_late;
}
