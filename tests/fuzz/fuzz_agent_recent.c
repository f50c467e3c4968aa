/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring with records of mappings that is any bytes, as after it was overwritten: the search ends, reads nothing outside of
 * the ring, and its mappings rise and do not overlap.
 *
 * Input: how far the kernel has come since the head was read (in units of 8 bytes), the head, the time that is asked for;
 * the rest is the ring, repeated to a power of two.
 */
#include "fuzz.h"

#include <string.h>

#include "agent/recent.h"

#define RING_SIZE KIB(16)
#define PID       7u

static void check_found(const struct recent_process *p)
{
	uint64_t last = 0;

	FUZZ_CHECK(p->n_maps <= RECENT_MAX_MAPS && p->paths.size <= RECENT_PATHS_SIZE);
	FUZZ_CHECK(memchr(p->comm, '\0', sizeof(p->comm)) && p->from_ns <= p->until_ns);
	for (size_t i = 0; i < p->n_maps; i++) {
		struct maps_line m = recent_line(p, i);

		FUZZ_CHECK(m.start >= last && m.limit > m.start && m.exec);
		FUZZ_CHECK(p->maps[i].path_at + m.path.size <= p->paths.size);
		FUZZ_CHECK(p->maps[i].time_ns >= p->from_ns && p->maps[i].time_ns < p->until_ns);
		last = m.limit;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct recent_process p;
	uint8_t *ring;
	uint64_t head, now;
	int64_t at_ns;

	if (size < 20)
		return 0;
	memcpy(&head, data + 4, sizeof(head));
	memcpy(&at_ns, data + 12, sizeof(at_ns));
	head &= ~UINT64_C(7);
	now = head - 8u * data[0];
	data += 20;
	size -= 20;
	/* A block of its own, for the sanitizer. */
	ring = mem_zalloc(RING_SIZE);
	for (size_t i = 0; size && i < RING_SIZE; i += size)
		memcpy(ring + i, data, MIN(size, RING_SIZE - i));
	recent_search(&p, PID, 0);
	recent_scan_execs(&p, &(struct recent_view){ ring, RING_SIZE, head, &now }, at_ns);
	recent_scan_maps(&p, &(struct recent_view){ ring, RING_SIZE, head, &now });
	check_found(&p);
	free(ring);
	buf_done(&p.paths);
	return 0;
}
