/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler by perf events, where BPF cannot be had: the kernel copies registers and part of the stack of each sample into a
 * ring for each processor, and the walk is done here.
 *
 * Events are those of each processor, or, with a list of processes, of each thread of these on each processor, which an
 * ordinary user may open for its own processes. Threads that they start later inherit the event. Names of threads come from
 * records, and for threads from before from /proc.
 */
#include "agent/sampler_perf.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "agent/sampler_cpus.h"
#include "agent/sampler_records.h"

#define MAX_EVENTS    16384 /* descriptors */
#define MAX_COMMS     65536 /* names of threads that are remembered */
#define RING_MIN      KIB(32)
#define CPUS_CHECK_MS 10000

struct perf_ring {
	int fd; /* the event that has the ring */
	struct perf_event_mmap_page *page;
	struct bytes data;
};

struct perf_sampler {
	int epoll;
	unsigned flags; /* of records */
	bool no_kernel_time;
	struct perf_ring *rings; /* [SAMPLER_MAX_CPUS] */
	int *more;               /* events that write into the rings */
	size_t n_more, room_more, n_cpus, ring_bytes;
	int64_t cpus_checked_ms;
	struct map comms; /* tid -> name */
	uint64_t lost, damaged;
	uint8_t copy[RECORD_MAX];
	struct sampler_record record;
};

/* ---- names of threads ---- */

static struct bytes tid_key(const uint32_t *tid)
{
	return bytes_of(tid, sizeof(*tid));
}

static void forget_comms(struct perf_sampler *p)
{
	struct bytes key;
	void *name;

	map_each (&p->comms, it, &key, &name)
		free(name);
	map_done(&p->comms);
	p->comms = (struct map){ 0 };
}

static void set_comm(struct perf_sampler *p, uint32_t tid, struct str comm)
{
	if (p->comms.n >= MAX_COMMS)
		forget_comms(p);
	free(map_put(&p->comms, tid_key(&tid),
		     mem_strndup(comm.p, MIN(comm.size, (size_t)SAMPLER_COMM - 1))));
}

static const char *comm_of_thread(struct perf_sampler *p, uint32_t pid, uint32_t tid)
{
	const char *known = map_get(&p->comms, tid_key(&tid));
	AUTO(buf_done) struct buf text = { 0 };
	char path[64];

	if (known)
		return known;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
	if (file_read(path, 64, &text, NULL) || !text.size)
		return "?";
	set_comm(p, tid, str_trim(str_of(buf_cstr(&text))));
	known = map_get(&p->comms, tid_key(&tid));
	return known ? known : "?";
}

/* ---- records ---- */

static void take_perf_sample(struct sampler *s, struct sampler_record *r)
{
	struct perf_sampler *p = s->impl;
	struct sampler_frame frame = { .addr = r->raw.ip, .file = SAMPLER_NO_FILE, .exact = true };
	struct sampler_sample sample = { .time_ns = r->time_ns,
					 .pid = r->pid,
					 .tid = r->tid,
					 .cpu = r->cpu,
					 .cgroup = r->cgroup,
					 .kernel = r->kernel,
					 .n_kernel = r->n_kernel,
					 .kernel_cut = r->kernel_cut,
					 .user = &frame,
					 .end = SAMPLER_KERNEL_ONLY };

	if (r->pid == 0 || (r->pid == (uint32_t)getpid() && s->options.n_pids == 0))
		return;
	snprintf(sample.comm, sizeof(sample.comm), "%s", comm_of_thread(p, r->pid, r->tid));
	if (r->mode == RECORD_USER_32) {
		sample.n_user = 1;
		sample.end = SAMPLER_NO_ROW;
	} else if (r->mode == RECORD_USER_64) {
		sample.raw = &r->raw;
		sample.end = SAMPLER_NO_PROCESS; /* not walked yet */
	}
	sampler_take(s, &sample);
}

static void tell_process(struct sampler *s, const struct sampler_record *r, enum sampler_event_kind kind)
{
	struct sampler_told *told = &s->told[r->pid % ARRAY_SIZE(s->told)];

	/* Nothing was reported of this process, so its end is not either. */
	if (!sampler_process_get(s, r->pid) && told->pid != r->pid)
		return;
	if (told->pid == r->pid)
		*told = (struct sampler_told){ 0 };
	sampler_tell(s,
		     &(struct sampler_event){
			     .kind = kind, .pid = r->pid, .file = SAMPLER_NO_FILE, .time_ns = r->time_ns });
}

static void take_perf_record(struct sampler *s, struct bytes b)
{
	struct perf_sampler *p = s->impl;
	struct sampler_record *r = &p->record;
	int e = sampler_record_read(b, p->flags, r, NULL);
	const char *parent;

	if (e) {
		p->damaged += e < 0;
		return;
	}
	switch (r->kind) {
	case RECORD_SAMPLE:
		take_perf_sample(s, r);
		break;
	case RECORD_EXEC:
		tell_process(s, r, SAMPLER_EXEC);
		set_comm(p, r->tid, r->comm);
		break;
	case RECORD_COMM:
		set_comm(p, r->tid, r->comm);
		break;
	case RECORD_FORK:
		parent = map_get(&p->comms, tid_key(&r->parent_tid));
		if (parent)
			set_comm(p, r->tid, str_of(parent));
		break;
	case RECORD_EXIT:
		free(map_del(&p->comms, tid_key(&r->tid)));
		if (r->pid == r->tid)
			tell_process(s, r, SAMPLER_EXIT);
		break;
	case RECORD_LOST:
		p->lost += r->lost;
		break;
	}
}

static void drain_ring(struct sampler *s, struct perf_ring *ring)
{
	struct perf_sampler *p = s->impl;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	struct bytes record;
	size_t n;

	while (tail != head && (n = sampler_ring_next(ring->data, head, tail, p->copy, &record))) {
		take_perf_record(s, record);
		tail += n;
		__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	}
	if (tail != head) { /* no record begins here: skip the bytes that are there */
		p->damaged++;
		__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	}
}

/* ---- events ---- */

static struct perf_event_attr event_attr(const struct sampler *s)
{
	const struct perf_sampler *p = s->impl;

	return (struct perf_event_attr){
		.sample_type = sampler_record_sample_type(p->flags),
		.sample_regs_user = sampler_record_registers(),
		.sample_stack_user = (uint32_t)(s->options.stack_copy & ~(size_t)7),
		.exclude_callchain_user = 1,
		.exclude_idle = 1,
		.exclude_kernel = p->no_kernel_time,
		.exclude_hv = p->no_kernel_time,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.inherit = s->options.n_pids > 0,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)MIN(p->ring_bytes / 4, MIB(16)),
	};
}

/* Map the ring of event @fd; smaller if the limit of locked memory wants it so. */
static int map_ring(struct perf_sampler *p, int cpu, int fd, struct err *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_ring *ring = &p->rings[cpu];
	void *memory = MAP_FAILED;

	for (; p->ring_bytes >= RING_MIN; p->ring_bytes /= 2) {
		memory = mmap(NULL, page + p->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (memory != MAP_FAILED || (errno != EPERM && errno != ENOMEM))
			break;
	}
	if (memory == MAP_FAILED)
		return err_os(err, errno, "map the ring of perf events: see kernel.perf_event_mlock_kb");
	ring->fd = fd;
	ring->page = memory;
	ring->data = bytes_of((uint8_t *)memory + page, p->ring_bytes);
	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN, .data.fd = fd }))
		return err_os(err, errno, "epoll_ctl");
	return 0;
}

/* An event of @pid (-1: all) on @cpu. The first one of a processor has the ring. */
static int open_on_cpu(struct sampler *s, int pid, int cpu, struct err *err)
{
	struct perf_sampler *p = s->impl;
	struct perf_event_attr attr = event_attr(s);
	int fd = sampler_event_open(&s->options, &attr, pid, cpu, err);

	if (fd < 0)
		return -1;
	if (p->rings[cpu].page) {
		if (p->n_more >= MAX_EVENTS || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, p->rings[cpu].fd)) {
			close(fd);
			return err_set(err, ERR_LIMIT, "more than %d events", MAX_EVENTS);
		}
		VEC_PUSH(p->more, p->n_more, p->room_more) = fd;
		return 0;
	}
	if (map_ring(p, cpu, fd, err)) {
		if (!p->rings[cpu].page)
			close(fd);
		return -1;
	}
	p->n_cpus++;
	return 0;
}

/* All threads of @pid, on @cpu. One that ended meanwhile is no failure. */
static int open_threads(struct sampler *s, int pid, int cpu, struct err *err)
{
	char path[64];
	struct dirent *e;
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return err_os(err, errno, "%s", path);
	while ((e = readdir(dir))) {
		int tid = atoi(e->d_name);

		if (tid <= 0)
			continue;
		if (open_on_cpu(s, tid, cpu, err) == 0)
			n++;
		else if (err->os != ESRCH)
			break;
	}
	closedir(dir);
	return n ? 0 : err_in(err, "process %d", pid);
}

static int open_cpu(struct sampler *s, int cpu, struct err *err)
{
	if (s->options.n_pids == 0)
		return open_on_cpu(s, -1, cpu, err);
	for (size_t i = 0; i < s->options.n_pids; i++)
		if (open_threads(s, s->options.pids[i], cpu, err))
			return -1;
	return 0;
}

static void close_ring(struct perf_sampler *p, int cpu)
{
	struct perf_ring *ring = &p->rings[cpu];

	if (!ring->page)
		return;
	munmap(ring->page, (size_t)sysconf(_SC_PAGESIZE) + ring->data.size);
	close(ring->fd);
	*ring = (struct perf_ring){ 0 };
	p->n_cpus--;
}

/* Processors that came. With a list of processes, their events are on the processors of the start. */
static int follow_perf_cpus(struct sampler *s, struct err *err)
{
	struct perf_sampler *p = s->impl;
	bool online[SAMPLER_MAX_CPUS];
	bool first = p->n_cpus == 0;

	p->cpus_checked_ms = clock_mono_ms();
	if (sampler_cpus_online(online, err))
		return -1;
	for (int i = 0; i < SAMPLER_MAX_CPUS; i++) {
		if (online[i] && !p->rings[i].page && (first || s->options.n_pids == 0)) {
			if (open_cpu(s, i, err) && first)
				return -1;
		} else if (!online[i] && p->rings[i].page && s->options.n_pids == 0) {
			drain_ring(s, &p->rings[i]);
			close_ring(p, i);
		}
	}
	return p->n_cpus ? 0 : -1;
}

/* ---- operations ---- */

static int perf_sampler_poll(struct sampler *s, int timeout_ms, struct err *err)
{
	struct perf_sampler *p = s->impl;
	struct epoll_event events[16];

	/* The list of processors may be unreadable for a moment, without a descriptor or memory. */
	if (clock_mono_ms() - p->cpus_checked_ms >= CPUS_CHECK_MS && follow_perf_cpus(s, err) &&
	    p->n_cpus == 0)
		return -1;
	if (timeout_ms && epoll_wait(p->epoll, events, ARRAY_SIZE(events), timeout_ms) < 0 && errno != EINTR)
		return err_os(err, errno, "wait for perf events");
	for (int i = 0; i < SAMPLER_MAX_CPUS; i++)
		if (p->rings[i].page)
			drain_ring(s, &p->rings[i]);
	return 0;
}

static int perf_sampler_fd(const struct sampler *s)
{
	return ((const struct perf_sampler *)s->impl)->epoll;
}

static int perf_process_set(struct sampler *s, const struct sampler_process *process, struct err *err)
{
	if ((s->n_mappings + process->n_mappings) * sizeof(struct sampler_mapping) >
	    s->options.mapping_memory)
		return err_set(err, ERR_LIMIT, "%zu mappings are in use, the limit is %zu bytes",
			       s->n_mappings, s->options.mapping_memory);
	return 0;
}

static void perf_process_drop(struct sampler *s, uint32_t pid)
{
}

static int perf_table_keep(struct sampler *s, struct bytes table, struct sampler_table *ret, struct err *err)
{
	uint8_t *copy = mem_try(table.size);

	if (!copy)
		return err_set(err, ERR_LIMIT, "no memory for a table of %zu bytes", table.size);
	memcpy(copy, table.p, table.size);
	ret->bytes = bytes_of(copy, table.size);
	return 0;
}

static void perf_table_drop(struct sampler *s, struct sampler_table *t)
{
	free((void *)t->bytes.p);
}

static void perf_sampler_stats(struct sampler *s, struct sampler_stats *add)
{
	const struct perf_sampler *p = s->impl;

	add->lost += p->lost + p->damaged;
	add->table_reserved = s->table_bytes;
	add->mapping_reserved = s->n_mappings * sizeof(struct sampler_mapping);
	add->ring_size = p->n_cpus * p->ring_bytes;
}

static void perf_sampler_close(struct sampler *s)
{
	struct perf_sampler *p = s->impl;

	for (size_t i = 0; i < p->n_more; i++)
		close(p->more[i]);
	for (int i = 0; i < SAMPLER_MAX_CPUS; i++)
		close_ring(p, i);
	if (p->epoll >= 0)
		close(p->epoll);
	forget_comms(p);
	free(p->more);
	free(p->rings);
	free(p);
}

/*
 * Open the events; where the kernel or the privileges refuse a part, do without it: the cgroup (Linux 5.7), then time in the
 * kernel (kernel.perf_event_paranoid 2).
 */
static int open_with_less(struct sampler *s, struct err *err)
{
	struct perf_sampler *p = s->impl;

	if (follow_perf_cpus(s, err) == 0)
		return 0;
	if (err->os == EINVAL) {
		p->flags &= ~(unsigned)RECORD_CGROUP;
		if (follow_perf_cpus(s, err) == 0) {
			sampler_note_lost(s, "the cgroup of a sample: it needs Linux 5.7");
			return 0;
		}
	}
	if (err->os != EACCES && err->os != EPERM)
		return -1;
	p->flags &= ~(unsigned)RECORD_KERNEL;
	p->no_kernel_time = true;
	s->about.no_kernel = true;
	if (follow_perf_cpus(s, err))
		return -1;
	sampler_note_lost(s,
			  "time in the kernel: it needs CAP_PERFMON, or kernel.perf_event_paranoid below 2");
	return 0;
}

int sampler_perf_open(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	static const struct sampler_ops ops = {
		.poll = perf_sampler_poll,
		.fd = perf_sampler_fd,
		.process_set = perf_process_set,
		.process_drop = perf_process_drop,
		.table_keep = perf_table_keep,
		.table_drop = perf_table_drop,
		.stats = perf_sampler_stats,
		.close = perf_sampler_close,
	};
	struct perf_sampler *p = NEW(struct perf_sampler);
	struct sampler *s = sampler_new(&ops, p, SAMPLER_PERF, options);
	long n = MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);

	s->tells_unknown = true;
	p->rings = mem_zalloc(SAMPLER_MAX_CPUS * sizeof(*p->rings));
	p->flags = RECORD_CGROUP | (options->no_kernel ? 0 : RECORD_KERNEL);
	for (p->ring_bytes = options->ring_size; p->ring_bytes * (size_t)n > options->ring_size;)
		p->ring_bytes /= 2;
	p->ring_bytes = MAX(p->ring_bytes, KIB(512)); /* what an ordinary user may lock */
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0 ? err_os(err, errno, "epoll_create1") : open_with_less(s, err)) {
		sampler_close(s);
		return err_in(err, "perf events");
	}
	if (options->off_cpu)
		sampler_note_lost(s, "time off the processor (--off-cpu): it needs BPF");
	sampler_note_lost(s, "stacks deeper than %zu bytes are cut: there is no BPF", options->stack_copy);
	snprintf(s->about_text, sizeof(s->about_text), "perf events (%zu processors, %u Hz, %s)", p->n_cpus,
		 s->options.frequency_hz, s->options.clock == SAMPLER_CLOCK_CYCLES ? "cycles" : "CPU clock");
	*ret = s;
	return 0;
}
