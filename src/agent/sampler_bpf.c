/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler by BPF: loads bpf/sample.bpf.c, attaches it to a perf event on each processor, fills the maps that it walks
 * with, and decodes its records.
 *
 * Tables and mappings are in memory that the kernel's maps share with this process: setting them is a copy, and the walk of
 * samples that had to wait reads the same bytes.
 */
#include "agent/sampler_bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/bpf_lazy.h"
#include "agent/sampler_cpus.h"
#include "agent/sampler_pool.h"
#include "base/embedded.h"
#include "bpf/sample.h"
#include "unwind/unwind.h"

extern const struct embedded bpf_objects[];

#define KERNEL_BTF     "/sys/kernel/btf/vmlinux"
#define PID_NS_INITIAL 0xEFFFFFFCu
#define CPUS_CHECK_MS  10000
#define OFF_TIMES      10 /* stacks of threads that leave a processor, for each sample of it at most */

struct bpf_sampler {
	struct bpf_object *object;
	struct bpf_link *links[3]; /* of tracepoints */
	struct bpf_link **on_cpu;  /* [SAMPLER_MAX_CPUS] */
	size_t n_cpus;
	int64_t cpus_checked_ms;
	struct ring_buffer *rings;
	struct sampler *sampler; /* for the callbacks of libbpf */
	struct bpf_file *files;  /* shared with the kernel */
	int fd_files, fd_processes, fd_counters, fd_segments, fd_pools, fd_pythons, fd_sleepers;
	struct sampler_pool tables, mappings;
	bool in_pid_ns;
	struct sampler_range file_range[SAMPLER_MAX_FILES];
	struct map process_range; /* pid -> struct sampler_range */
	struct sampler_frame frames[SAMPLER_MAX_USER];
	struct sampler_python_frame python[SAMPLER_MAX_PYTHON];
};

/* ---- libbpf's messages ---- */

static _Thread_local char first_warning[240];

static int note_warning(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	/* That limit is of no use since Linux 5.11, and libbpf warns before it tries without. */
	if (level == LIBBPF_WARN && !first_warning[0] && !strstr(fmt, "RLIMIT_MEMLOCK")) {
		vsnprintf(first_warning, sizeof(first_warning), fmt, ap);
		first_warning[strcspn(first_warning, "\n")] = '\0';
	}
	return 0;
}

static int bpf_failed(struct err *err, int e, const char *doing)
{
	if (e == EPERM || e == EACCES)
		return err_os(err, e, "%s: CAP_BPF and CAP_PERFMON are needed%s%s", doing,
			      first_warning[0] ? "; " : "", first_warning);
	return err_os(err, e, "%s%s%s", doing, first_warning[0] ? ": " : "", first_warning);
}

/* ---- segments of memory that are elements of a map of maps ---- */

struct segment_kind {
	struct sampler_pool *pool;
	int outer_fd;
	const char *name;
};

static size_t segment_bytes(const struct sampler_pool *p, uint32_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (n * p->element + page - 1) / page * page;
}

static int make_mapped(int outer_fd, const struct sampler_pool *p, uint32_t segment, uint32_t n,
		       void **ret_memory, struct err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	AUTO(fd_close)
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "lode_segment", 4, (uint32_t)p->element, n, &options);
	void *memory;

	first_warning[0] = '\0';
	if (fd < 0)
		return bpf_failed(err, errno, "make a map");
	memory = mmap(NULL, segment_bytes(p, n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return err_os(err, errno, "map %u elements of a map", n);
	if (bpf_map_update_elem(outer_fd, &segment, &fd, 0)) {
		int e = errno;

		munmap(memory, segment_bytes(p, n));
		return bpf_failed(err, e, "add a map to a map of maps");
	}
	/* The outer map and the memory keep it. */
	*ret_memory = memory;
	return 0;
}

static int make_table_segment(void *arg, uint32_t segment, uint32_t n, void **ret_memory, struct err *err)
{
	struct bpf_sampler *b = arg;

	return make_mapped(b->fd_segments, &b->tables, segment, n, ret_memory, err);
}

static void drop_table_segment(void *arg, uint32_t segment, void *memory, uint32_t n)
{
	struct bpf_sampler *b = arg;

	(void)!bpf_map_delete_elem(b->fd_segments, &segment);
	munmap(memory, segment_bytes(&b->tables, n));
}

static int make_mapping_pool(void *arg, uint32_t segment, uint32_t n, void **ret_memory, struct err *err)
{
	struct bpf_sampler *b = arg;

	return make_mapped(b->fd_pools, &b->mappings, segment, n, ret_memory, err);
}

static void drop_mapping_pool(void *arg, uint32_t segment, void *memory, uint32_t n)
{
	struct bpf_sampler *b = arg;

	(void)!bpf_map_delete_elem(b->fd_pools, &segment);
	munmap(memory, segment_bytes(&b->mappings, n));
}

/* ---- files ---- */

static void set_bpf_file(struct bpf_file *f, uint32_t state, uint32_t file)
{
	__atomic_store_n(&f->file, file, __ATOMIC_RELAXED);
	__atomic_store_n(&f->state, state, __ATOMIC_RELEASE);
}

static int bpf_file_table(struct sampler *s, uint32_t file, struct bytes table, struct bytes *ret_kept,
			  struct err *err)
{
	struct bpf_sampler *b = s->impl;
	uint32_t i = sampler_file_index(file);
	struct bpf_file *f = &b->files[i];
	struct sampler_range *range = &b->file_range[i];
	void *memory;

	*ret_kept = (struct bytes){ 0 };
	if (table.size == 0) {
		set_bpf_file(f, BPF_FILE_NEVER, file);
		return 0;
	}
	if (sampler_pool_take(&b->tables, (uint32_t)(table.size / UNWIND_CHUNK_SIZE), range, &memory, err))
		return -1;
	memcpy(memory, table.p, table.size);
	*ret_kept = bytes_of(memory, table.size);
	f->segment = range->segment;
	f->first = range->first;
	f->n_chunks = range->n;
	set_bpf_file(f, BPF_FILE_SET, file);
	return 0;
}

static void bpf_file_drop(struct sampler *s, uint32_t file, bool evicted)
{
	struct bpf_sampler *b = s->impl;
	uint32_t i = sampler_file_index(file);

	set_bpf_file(&b->files[i], evicted ? BPF_FILE_EVICTED : BPF_FILE_NONE, file);
	sampler_pool_give(&b->tables, &b->file_range[i]);
}

static void bpf_file_added(struct sampler *s, uint32_t file)
{
	struct bpf_sampler *b = s->impl;
	struct bpf_file *f = &b->files[sampler_file_index(file)];

	f->used_ns = f->wanted_ns = 0;
	set_bpf_file(f, BPF_FILE_NONE, file);
}

static int64_t bpf_file_used(struct sampler *s, uint32_t file)
{
	struct bpf_sampler *b = s->impl;

	return (int64_t)__atomic_load_n(&b->files[sampler_file_index(file)].used_ns, __ATOMIC_RELAXED);
}

/* ---- processes ---- */

static void bpf_process_drop(struct sampler *s, uint32_t pid)
{
	struct bpf_sampler *b = s->impl;
	struct sampler_range *range = map_del(&b->process_range, bytes_of(&pid, sizeof(pid)));

	(void)!bpf_map_delete_elem(b->fd_processes, &pid);
	(void)!bpf_map_delete_elem(b->fd_pythons, &pid);
	if (range)
		sampler_pool_give(&b->mappings, range);
	free(range);
}

static int bpf_process_python(struct sampler *s, uint32_t pid, const struct bpf_python *layout,
			      struct err *err)
{
	struct bpf_sampler *b = s->impl;

	first_warning[0] = '\0';
	if (bpf_map_update_elem(b->fd_pythons, &pid, layout, 0))
		return bpf_failed(err, errno, "set the interpreter of a process");
	return 0;
}

static int bpf_process_set(struct sampler *s, const struct sampler_process *p, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	struct sampler_range range = { 0 }, *kept;
	struct bpf_process process;
	struct bpf_python python;
	struct bpf_mapping *m;
	void *memory = NULL;

	if (p->n_mappings && sampler_pool_take(&b->mappings, (uint32_t)p->n_mappings, &range, &memory, err))
		return -1;
	m = memory;
	for (size_t i = 0; i < p->n_mappings; i++)
		m[i] = (struct bpf_mapping){ .start = p->mappings[i].start,
					     .end = p->mappings[i].end,
					     .bias = p->mappings[i].bias,
					     .file = p->mappings[i].file };
	process = (struct bpf_process){
		.start_ticks = p->start_ticks,
		.pool = range.segment,
		.first = range.first,
		.n = range.n,
		.is_python = bpf_map_lookup_elem(b->fd_pythons, &p->pid, &python) == 0,
	};
	first_warning[0] = '\0';
	if (bpf_map_update_elem(b->fd_processes, &p->pid, &process, 0)) {
		int e = errno;

		sampler_pool_give(&b->mappings, &range);
		if (e == E2BIG)
			return err_set(err, ERR_LIMIT, "more than %u processes are sampled", BPF_MAX_PROCS);
		return bpf_failed(err, e, "set a process");
	}
	kept = NEW(struct sampler_range);
	*kept = range;
	kept = map_put(&b->process_range, bytes_of(&p->pid, sizeof(p->pid)), kept);
	if (kept)
		sampler_pool_give(&b->mappings, kept);
	free(kept);
	return 0;
}

/* ---- records ---- */

static enum sampler_end bpf_end_of(uint32_t how)
{
	switch (how) {
	case BPF_END_KERNEL_ONLY:
		return SAMPLER_KERNEL_ONLY;
	case BPF_END_EVICTED:
		return SAMPLER_EVICTED;
	case BPF_END_NO_REGISTERS:
		return SAMPLER_NO_REGISTERS;
	default:
		return sampler_end_of(how);
	}
}

static enum sampler_python_end bpf_python_end_of(uint32_t how)
{
	switch (how) {
	case BPF_PYTHON_NONE:
		return SAMPLER_PYTHON_NONE;
	case BPF_PYTHON_COMPLETE:
		return SAMPLER_PYTHON_COMPLETE;
	case BPF_PYTHON_DEEP:
		return SAMPLER_PYTHON_DEEP;
	default:
		return SAMPLER_PYTHON_UNREADABLE;
	}
}

static void take_bpf_wake(struct bpf_sampler *b, const void *data, size_t size)
{
	const struct bpf_wake *w = data;

	if (size >= sizeof(*w))
		sampler_sleep_ended(b->sampler, w->task, (int64_t)w->out_ns, (int64_t)w->in_ns);
}

static bool bpf_is_asleep(struct sampler *s, uint32_t task, int64_t out_ns)
{
	struct bpf_sampler *b = s->impl;
	uint64_t since_ns = 0;

	return bpf_map_lookup_elem(b->fd_sleepers, &task, &since_ns) == 0 && since_ns == (uint64_t)out_ns;
}

/* The kernel wrote the record; its sizes are checked all the same. */
static int take_bpf_sample(void *ctx, void *data, size_t size)
{
	struct bpf_sampler *b = ctx;
	struct bpf_sample *r = data;
	size_t need = sizeof(*r);
	struct sampler_sample sample;
	const struct bpf_frame *user = (const struct bpf_frame *)(r + 1);
	const struct bpf_python_frame *python;
	struct sampler_raw raw;

	if (size >= sizeof(r->record) && r->record == BPF_RECORD_WAKE) {
		take_bpf_wake(b, data, size);
		return 0;
	}
	if (size < need || r->n_user > BPF_MAX_USER || r->n_kernel > BPF_MAX_KERNEL ||
	    r->n_python > BPF_MAX_PYTHON)
		return 0;
	need += r->n_user * sizeof(*user) + r->n_python * sizeof(*python) + r->n_kernel * sizeof(uint64_t);
	if (size < need)
		return 0;
	python = (const struct bpf_python_frame *)(user + r->n_user);
	sample = (struct sampler_sample){ .time_ns = (int64_t)r->time_ns,
					  .pid = r->pid,
					  .tid = r->tid,
					  .cpu = r->cpu,
					  .start_ticks = r->start_ticks,
					  .cgroup = r->cgroup,
					  .kernel = (const uint64_t *)(python + r->n_python),
					  .n_kernel = r->n_kernel,
					  .kernel_cut = r->flags & BPF_SAMPLE_KERNEL_CUT,
					  .user = b->frames,
					  .n_user = r->n_user,
					  .python = b->python,
					  .n_python = r->n_python,
					  .python_end = bpf_python_end_of(r->python_end),
					  .end = bpf_end_of(r->end),
					  .preempted = r->flags & BPF_SAMPLE_PREEMPTED,
					  .sleeper = r->task,
					  .weight = UINT32_C(1) << (r->shift & 31) };
	memcpy(sample.comm, r->comm, sizeof(sample.comm));
	sample.comm[sizeof(sample.comm) - 1] = '\0';
	for (size_t i = 0; i < r->n_user; i++)
		b->frames[i] = (struct sampler_frame){ user[i].addr, user[i].file, user[i].place & 1,
						       user[i].place >> 1 };
	for (size_t i = 0; i < r->n_python; i++)
		b->python[i] = (struct sampler_python_frame){ python[i].code, python[i].hash, python[i].instr,
							      python[i].entry };
	if (r->flags & BPF_SAMPLE_RAW && size >= need + sizeof(struct bpf_raw)) {
		const struct bpf_raw *from = (const struct bpf_raw *)((uint8_t *)data + need);

		need += sizeof(*from);
		raw.ip = from->ip;
		memcpy(raw.regs, from->regs, sizeof(raw.regs));
		raw.stack = bytes_of(from + 1, MIN(from->stack_size, size - need));
		sample.raw = &raw;
	}
	sampler_take(b->sampler, &sample);
	return 0;
}

static int take_bpf_event(void *ctx, void *data, size_t size)
{
	static const enum sampler_event_kind kinds[] = {
		[BPF_RECORD_NEW] = SAMPLER_NEW,       [BPF_RECORD_UNMAPPED] = SAMPLER_UNMAPPED,
		[BPF_RECORD_EXEC] = SAMPLER_EXEC,     [BPF_RECORD_EXIT] = SAMPLER_EXIT,
		[BPF_RECORD_WANTED] = SAMPLER_WANTED,
	};
	struct bpf_sampler *b = ctx;
	const struct bpf_event *e = data;

	if (size < sizeof(*e) || e->record < BPF_RECORD_NEW || e->record >= ARRAY_SIZE(kinds))
		return 0;
	sampler_tell(b->sampler, &(struct sampler_event){ .kind = kinds[e->record],
							  .pid = e->pid,
							  .start_ticks = e->start_ticks,
							  .addr = e->addr,
							  .file = e->file,
							  .time_ns = (int64_t)e->time_ns });
	return 0;
}

/* ---- processors ---- */

static int attach_cpu(struct sampler *s, int cpu, struct err *err)
{
	static const struct perf_event_attr attr = { 0 };
	struct bpf_sampler *b = s->impl;
	int fd = sampler_event_open(&s->options, &attr, -1, cpu, err);

	if (fd < 0)
		return -1;
	first_warning[0] = '\0';
	b->on_cpu[cpu] = bpf_program__attach_perf_event(
		bpf_object__find_program_by_name(b->object, "take_sample"), fd);
	if (!b->on_cpu[cpu]) {
		int e = errno;

		close(fd);
		return bpf_failed(err, e, "attach to a perf event");
	}
	b->n_cpus++;
	return 0;
}

/* Attach to processors that came, detach from those that went. -1: none is left, and why. */
static int follow_cpus(struct sampler *s, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	bool online[SAMPLER_MAX_CPUS];

	b->cpus_checked_ms = clock_mono_ms();
	if (sampler_cpus_online(online, err))
		return -1;
	for (int i = 0; i < SAMPLER_MAX_CPUS; i++) {
		if (online[i] && !b->on_cpu[i]) {
			if (attach_cpu(s, i, err) && b->n_cpus == 0)
				return err_in(err, "processor %d", i);
		} else if (!online[i] && b->on_cpu[i]) {
			bpf_link__destroy(b->on_cpu[i]);
			b->on_cpu[i] = NULL;
			b->n_cpus--;
		}
	}
	return 0;
}

static int bpf_sampler_poll(struct sampler *s, int timeout_ms, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	int r;

	if (clock_mono_ms() - b->cpus_checked_ms >= CPUS_CHECK_MS) {
		if (follow_cpus(s, err))
			return -1;
		sampler_pool_tidy(&b->tables);
		sampler_pool_tidy(&b->mappings);
	}
	r = timeout_ms ? ring_buffer__poll(b->rings, timeout_ms) : 0;
	if (r >= 0 || r == -EINTR)
		r = ring_buffer__consume(b->rings);
	return r < 0 ? err_os(err, -r, "read the samples of BPF") : 0;
}

static int bpf_sampler_fd(const struct sampler *s)
{
	const struct bpf_sampler *b = s->impl;

	return ring_buffer__epoll_fd(b->rings);
}

static void bpf_sampler_stats(struct sampler *s, struct sampler_stats *add)
{
	struct bpf_sampler *b = s->impl;
	int n = libbpf_num_possible_cpus();
	struct bpf_counters *c = NEW_N(struct bpf_counters, (size_t)MAX(n, 1));
	uint32_t zero = 0;

	if (n > 0 && !bpf_map_lookup_elem(b->fd_counters, &zero, c))
		for (int i = 0; i < n; i++) {
			add->lost += c[i].lost;
			add->lost_events += c[i].lost_events;
			add->bpf_runs += c[i].runs;
			add->bpf_ns += c[i].ns;
			add->switches += c[i].switches;
			add->switch_ns += c[i].switch_ns;
		}
	free(c);
	add->table_reserved = b->tables.reserved;
	add->mapping_reserved = b->mappings.reserved;
	add->ring_size = s->options.ring_size;
}

static void bpf_sampler_close(struct sampler *s)
{
	struct bpf_sampler *b = s->impl;
	struct bytes key;
	void *range;

	for (int i = 0; i < SAMPLER_MAX_CPUS; i++)
		if (b->on_cpu[i])
			bpf_link__destroy(b->on_cpu[i]);
	for (size_t i = 0; i < ARRAY_SIZE(b->links); i++)
		if (b->links[i])
			bpf_link__destroy(b->links[i]);
	if (b->rings)
		ring_buffer__free(b->rings);
	sampler_pool_done(&b->tables);
	sampler_pool_done(&b->mappings);
	map_each (&b->process_range, it, &key, &range)
		free(range);
	map_done(&b->process_range);
	if (b->files)
		munmap(b->files, SAMPLER_MAX_FILES * sizeof(*b->files));
	if (b->object)
		bpf_object__close(b->object);
	free(b->on_cpu);
	free(b);
}

/* ---- opening ---- */

static struct bpf_map *map_named(struct bpf_sampler *b, const char *name)
{
	return bpf_object__find_map_by_name(b->object, name);
}

/* The PID namespace of this process, unless it is the initial one: then BPF's numbers are ours. */
static void set_pid_namespace(struct bpf_config *c)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == PID_NS_INITIAL)
		return;
	c->pid_ns_dev = st.st_dev;
	c->pid_ns_ino = st.st_ino;
}

/* Time off the processor: a scratch more for each processor, and maps of their full size. */
static void set_off_cpu(struct bpf_sampler *b, const struct sampler_options *o, int n_cpus,
			struct bpf_config *c)
{
	c->off_scratch = (uint32_t)n_cpus;
	c->off_site_rate = o->frequency_hz;
	c->off_rate = OFF_TIMES * o->frequency_hz;
	if (o->off_cpu)
		return;
	bpf_program__set_autoload(bpf_object__find_program_by_name(b->object, "see_switch"), false);
	(void)!bpf_map__set_max_entries(map_named(b, "sleepers"), 1);
	(void)!bpf_map__set_max_entries(map_named(b, "places"), 1);
}

static int set_config(struct sampler *s, struct err *err)
{
	struct bpf_sampler *b = s->impl;
	const struct sampler_options *o = &s->options;
	struct bpf_map *scratches = map_named(b, "scratches");
	int n_cpus = libbpf_num_possible_cpus();
	uint32_t pages = (uint32_t)((o->stack_copy + BPF_STACK_PAGE - 1) / BPF_STACK_PAGE);
	struct bpf_config c = { .own_pid = (uint32_t)getpid(),
				.filter_pids = o->n_pids > 0,
				.with_kernel = !o->no_kernel,
				.always_raw = o->keep_raw,
				.measure_time = o->measure,
				.stack_pages = pages,
				.rest_size = BPF_REST(pages),
				.wake_at = o->ring_size / 8 };

	set_pid_namespace(&c);
	b->in_pid_ns = c.pid_ns_ino != 0;
	if (b->in_pid_ns) {
		sampler_note_lost(
			s,
			"PID namespace: processes outside of it are not sampled, and the end of a process is "
			"noticed later");
		bpf_program__set_autoload(bpf_object__find_program_by_name(b->object, "see_free"), false);
	}
	set_off_cpu(b, o, n_cpus, &c);
	if (n_cpus < 1 || bpf_map__set_initial_value(map_named(b, ".rodata.config"), &c, sizeof(c)))
		return err_set(err, ERR_INTERNAL, "the BPF object has another layout");
	(void)!bpf_map__set_max_entries(map_named(b, "samples"), (uint32_t)o->ring_size);
	(void)!bpf_map__set_max_entries(map_named(b, "chosen"), (uint32_t)MAX(o->n_pids, (size_t)1));
	(void)!bpf_map__set_max_entries(scratches, (uint32_t)(o->off_cpu ? 2 * n_cpus : n_cpus));
	(void)!bpf_map__set_value_size(scratches,
				       (uint32_t)BPF_SCRATCH(bpf_map__value_size(scratches), pages));
	return 0;
}

static void attach_tracepoints(struct sampler *s)
{
	static const struct {
		const char *program, *tracepoint, *lost;
	} rows[] = {
		{ "see_exec", "sched_process_exec",
		  "the first samples of a process after it runs another program may have wrong names" },
		{ "see_free", "sched_process_free", "the end of a process is noticed later" },
	};
	struct bpf_sampler *b = s->impl;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bpf_program *p = bpf_object__find_program_by_name(b->object, rows[i].program);

		if (i == 1 && b->in_pid_ns)
			continue;
		b->links[i] = bpf_program__attach_raw_tracepoint(p, rows[i].tracepoint);
		if (!b->links[i])
			sampler_note_lost(s, "tracepoint %s: %s: %s", rows[i].tracepoint, strerror(errno),
					  rows[i].lost);
	}
}

static void attach_switches(struct sampler *s)
{
	struct bpf_sampler *b = s->impl;

	if (!s->options.off_cpu)
		return;
	b->links[2] = bpf_program__attach_trace(bpf_object__find_program_by_name(b->object, "see_switch"));
	if (b->links[2])
		s->sleeps = sampler_sleeps_new();
	else
		sampler_note_lost(s, "time off the processor (--off-cpu): tracepoint sched_switch: %s",
				  strerror(errno));
}

static int load_object(struct sampler *s, struct err *err)
{
	struct bytes object = embedded_get(bpf_objects, "sample.bpf.o");
	struct bpf_sampler *b = s->impl;
	uint32_t one = 1;

	first_warning[0] = '\0';
	b->object = bpf_object__open_mem(object.p, object.size, NULL);
	if (!b->object)
		return bpf_failed(err, errno, "open the BPF object");
	if (set_config(s, err))
		return -1;
	/* By the rights that open() has: access() looks at the real user without capabilities. */
	if (faccessat(AT_FDCWD, KERNEL_BTF, R_OK, AT_EACCESS))
		return err_os(err, errno, KERNEL_BTF "%s",
			      errno == ENOENT ? ": the kernel is without BTF (CONFIG_DEBUG_INFO_BTF)" : "");
	if (bpf_object__load(b->object))
		return bpf_failed(err, errno, "load the BPF programs");
	b->fd_files = bpf_map__fd(map_named(b, "files"));
	b->fd_processes = bpf_map__fd(map_named(b, "processes"));
	b->fd_pythons = bpf_map__fd(map_named(b, "pythons"));
	b->fd_counters = bpf_map__fd(map_named(b, "counters"));
	b->fd_segments = bpf_map__fd(map_named(b, "segments"));
	b->fd_pools = bpf_map__fd(map_named(b, "pools"));
	b->fd_sleepers = bpf_map__fd(map_named(b, "sleepers"));
	for (size_t i = 0; i < s->options.n_pids; i++)
		if (bpf_map_update_elem(bpf_map__fd(map_named(b, "chosen")), &s->options.pids[i], &one, 0))
			return bpf_failed(err, errno, "choose a process");
	b->files = mmap(NULL, SAMPLER_MAX_FILES * sizeof(*b->files), PROT_READ | PROT_WRITE, MAP_SHARED,
			b->fd_files, 0);
	if (b->files == MAP_FAILED) {
		b->files = NULL;
		return err_os(err, errno, "map the table of files");
	}
	/* Events first: the mappings that they set serve the samples. */
	b->rings = ring_buffer__new(bpf_map__fd(map_named(b, "events")), take_bpf_event, b, NULL);
	if (!b->rings || ring_buffer__add(b->rings, bpf_map__fd(map_named(b, "samples")), take_bpf_sample, b))
		return bpf_failed(err, errno, "map the ring of samples");
	return 0;
}

int sampler_bpf_open(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	static const struct sampler_ops ops = {
		.poll = bpf_sampler_poll,
		.fd = bpf_sampler_fd,
		.process_set = bpf_process_set,
		.process_drop = bpf_process_drop,
		.process_python = bpf_process_python,
		.file_added = bpf_file_added,
		.file_table = bpf_file_table,
		.file_drop = bpf_file_drop,
		.file_used = bpf_file_used,
		.is_asleep = bpf_is_asleep,
		.stats = bpf_sampler_stats,
		.close = bpf_sampler_close,
	};
	struct bpf_sampler *b;
	struct sampler *s;

	if (libbpf_load(err))
		return -1;
	libbpf_set_print(note_warning);
	b = NEW(struct bpf_sampler);
	b->on_cpu = mem_zalloc(SAMPLER_MAX_CPUS * sizeof(struct bpf_link *));
	b->tables = (struct sampler_pool){ .element = UNWIND_CHUNK_SIZE,
					   .normal = 256, /* 1 MiB */
					   .n_max = BPF_MAX_SEGMENTS,
					   .make = make_table_segment,
					   .drop = drop_table_segment,
					   .arg = b };
	b->mappings = (struct sampler_pool){ .element = sizeof(struct bpf_mapping),
					     .normal = 4096, /* 128 KiB */
					     .n_max = BPF_MAX_POOLS,
					     .bytes_max = options->mapping_memory,
					     .make = make_mapping_pool,
					     .drop = drop_mapping_pool,
					     .arg = b };
	s = b->sampler = sampler_new(&ops, b, SAMPLER_BPF, options);
	if (load_object(s, err))
		goto failed;
	attach_tracepoints(s);
	attach_switches(s);
	if (follow_cpus(s, err))
		goto failed;
	snprintf(s->about_text, sizeof(s->about_text), "BPF (%zu processors, %u Hz, %s)", b->n_cpus,
		 s->options.frequency_hz, s->options.clock == SAMPLER_CLOCK_CYCLES ? "cycles" : "CPU clock");
	*ret = s;
	return 0;
failed:
	sampler_close(s);
	return err_in(err, "BPF");
}
