/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many CPUs this process may use. sysconf() counts those of the machine; a container gets fewer, by
 * affinity or by quota, and more threads than that only get in each other's way.
 */
#include "base/pool.h"

#include <errno.h>
#include <sched.h>
#include "base/file.h"
#include "base/internal.h"
#include "base/mem.h"

#define CPUS_MAX        65536
#define CGROUP_TEXT_MAX KIB(64)

static unsigned cpus_by_affinity(void)
{
	for (int room = 1024; room <= CPUS_MAX; room *= 4) {
		size_t size = CPU_ALLOC_SIZE(room);
		AUTO(mem_freep) cpu_set_t *set = mem_zalloc(size);

		if (sched_getaffinity(0, size, set) == 0)
			return (unsigned)MAX(CPU_COUNT_S(size, set), 1);
		if (errno != EINVAL) /* EINVAL: more CPUs than bits */
			break;
	}
	return 1;
}

/* "max 100000" or "150000 100000": microseconds in each period. */
static void cpus_by_quota(void *arg, struct str text)
{
	unsigned *n_cpus = arg;
	uint64_t quota, period, n;
	struct str first = str_cut(&text, ' ');

	if (!str_to_u64(first, &quota) || !str_to_u64(str_trim(text), &period) || !period)
		return;
	n = quota / period + (quota % period != 0);
	*n_cpus = (unsigned)MIN(MAX(n, 1), (uint64_t)*n_cpus);
}

unsigned pool_cpus_in_cgroup(unsigned n_cpus, struct str membership, const char *root)
{
	cgroup_each_limit(membership, root, "cpu.max", cpus_by_quota, &n_cpus);
	return n_cpus;
}

unsigned pool_cpus(void)
{
	AUTO(buf_done) struct buf membership = { 0 };
	unsigned n = cpus_by_affinity();

	if (file_read("/proc/self/cgroup", CGROUP_TEXT_MAX, &membership, NULL) == 0)
		n = pool_cpus_in_cgroup(n, buf_str(&membership), "/sys/fs/cgroup");
	return n;
}
