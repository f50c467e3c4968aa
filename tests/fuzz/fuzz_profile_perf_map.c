/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps of code that processes made: entries are sorted, not empty and within the address space, each is found at its
 * start or hidden by a later one, and names have no control characters.
 */
#include "fuzz.h"

#include "profile/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map m = { 0 };
	size_t used;

	/* In two pieces, as it is read from a file that grows. */
	used = perf_map_feed(&m, (struct str){ (const char *)data, size / 2 }, false);
	FUZZ_CHECK(used <= size / 2);
	FUZZ_CHECK(perf_map_feed(&m, (struct str){ (const char *)data + used, size - used }, true) ==
		   size - used);
	perf_map_sort(&m);
	for (size_t i = 0; i < m.n; i++) {
		const struct perf_map_entry *e = &m.list[i], *at = perf_map_at(&m, e->start);

		FUZZ_CHECK(e->size && e->start + e->size > e->start && e->name_size);
		FUZZ_CHECK(!i || m.list[i - 1].start <= e->start);
		FUZZ_CHECK(!at || (at->start <= e->start && e->start - at->start < at->size));
		for (size_t k = 0; k < e->name_size; k++)
			FUZZ_CHECK((unsigned char)perf_map_name(&m, e).p[k] >= 0x20 &&
				   perf_map_name(&m, e).p[k] != 0x7f);
	}
	perf_map_done(&m);
	return 0;
}
