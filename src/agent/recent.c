/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring for each processor, filled by an event that counts nothing. The kernel writes backwards, so that the newest record
 * is at the ring's head, and the records after it lead to the oldest.
 *
 * Rings are read while the kernel writes: it overwrites the oldest records, and a record counts only if it was still there
 * after it was copied, with room for one that is being written.
 */
#include "agent/recent.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/sampler_cpus.h"
#include "base/vec.h"

#define MAX_RECENT_EVENTS 4096u

struct recent_ring {
	int fd;
	struct perf_event_mmap_page *page; /* then the ring; NULL: none on this processor */
};

struct recent {
	struct recent_ring *rings; /* [SAMPLER_MAX_CPUS] */
	size_t n_cpus;             /* up to the last one that has a ring */
	size_t page_size, ring_size;
	const int *pids; /* NULL: all processes */
	size_t n_pids;
	bool starters;
	int *more; /* events of further processes, which write into the rings */
	size_t n_more, room_more;
	struct recent_process found;
};

/* ---- rings ---- */

/* An event of @pid (-1: all) on @cpu. */
static int open_recent_event(const struct recent *r, int pid, int cpu, struct err *err)
{
	struct perf_event_attr a = {
		.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = r->starters,
		.inherit = r->n_pids > 0,
		.write_backward = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? err_os(err, errno, "perf_event_open") : fd;
}

static int map_recent_ring(struct recent *r, int pid, int cpu, struct err *err)
{
	AUTO(fd_close) int fd = open_recent_event(r, pid, cpu, err);
	void *page;

	if (fd < 0)
		return -1;
	/* Not writable: then the kernel writes over the oldest records. */
	page = mmap(NULL, r->page_size + r->ring_size, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return err_os(err, errno, "map a ring of perf events");
	r->rings[cpu] = (struct recent_ring){ TAKE_FD(fd), page };
	r->n_cpus = MAX(r->n_cpus, (size_t)cpu + 1);
	return 0;
}

static int open_recent_ring(struct recent *r, int cpu, struct err *err)
{
	if (map_recent_ring(r, r->n_pids ? r->pids[0] : -1, cpu, err) < 0)
		return -1;
	for (size_t i = 1; i < r->n_pids && r->n_more < MAX_RECENT_EVENTS; i++) {
		struct err ended = { 0 };
		AUTO(fd_close) int fd = open_recent_event(r, r->pids[i], cpu, &ended);

		if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->rings[cpu].fd) == 0)
			VEC_PUSH(r->more, r->n_more, r->room_more) = TAKE_FD(fd);
	}
	return 0;
}

static void close_recent_ring(struct recent *r, struct recent_ring *ring)
{
	if (!ring->page)
		return;
	munmap(ring->page, r->page_size + r->ring_size);
	close(ring->fd);
	ring->page = NULL;
}

/* The first error in @err, if no processor has a ring. */
static int follow_processors(struct recent *r, struct err *err)
{
	bool online[SAMPLER_MAX_CPUS];
	bool some = false;

	if (sampler_cpus_online(online, err))
		return -1;
	for (int i = 0; i < SAMPLER_MAX_CPUS; i++) {
		if (!online[i])
			close_recent_ring(r, &r->rings[i]);
		else if (!r->rings[i].page && open_recent_ring(r, i, err) < 0 && !some)
			return -1;
		some |= r->rings[i].page != NULL;
	}
	return 0;
}

void recent_follow(struct recent *r)
{
	struct err ignored = { 0 };

	/* Events of processes are on the processors of the start. */
	if (r->n_pids)
		return;
	(void)follow_processors(r, &ignored);
}

int recent_new(const int *pids, size_t n_pids, bool starters, struct recent **ret, struct err *err)
{
	struct recent *r = NEW(struct recent);
	long n = sysconf(_SC_NPROCESSORS_CONF);

	r->pids = pids;
	r->n_pids = n_pids;
	r->starters = starters;
	r->rings = mem_zalloc(SAMPLER_MAX_CPUS * sizeof(*r->rings));
	r->page_size = (size_t)sysconf(_SC_PAGESIZE);
	r->ring_size = RECENT_RING_SIZE;
	while (r->ring_size > RECENT_LEAST_SIZE && r->ring_size * (size_t)MAX(n, 1L) > RECENT_ALL_SIZE)
		r->ring_size /= 2;
	if (follow_processors(r, err) < 0) {
		recent_free(r);
		return err_in(err, "records of mappings");
	}
	*ret = r;
	return 0;
}

void recent_free(struct recent *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_more; i++)
		close(r->more[i]);
	for (size_t i = 0; i < r->n_cpus; i++)
		close_recent_ring(r, &r->rings[i]);
	free(r->more);
	free(r->rings);
	buf_done(&r->found.paths);
	free(r);
}

/* ---- search ---- */

const struct recent_process *recent_find(struct recent *r, uint32_t pid, int64_t start_ns, int64_t at_ns)
{
	struct recent_process *found = &r->found;

	recent_search(found, pid, start_ns);
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < r->n_cpus; i++) {
			const struct recent_ring *ring = &r->rings[i];
			struct recent_view v;

			if (!ring->page)
				continue;
			v = (struct recent_view){ .data = (const uint8_t *)ring->page + r->page_size,
						  .size = r->ring_size,
						  .head = __atomic_load_n(
							  (const uint64_t *)&ring->page->data_head,
							  __ATOMIC_ACQUIRE),
						  .head_now = (const uint64_t *)&ring->page->data_head };
			if (pass == 0)
				recent_scan_execs(found, &v, at_ns);
			else
				recent_scan_maps(found, &v);
		}
	return found;
}
