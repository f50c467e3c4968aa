/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps of code that processes made: entries are sorted, not empty and within the address space, each is found at its
 * start or hidden by a later one, and names have no control characters.
 */
#include "fuzz.h"

#include "cmd/symbolize/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map m = { 0 };

	buf_add(&m.text, data, size);
	perf_map_parse(&m);
	for (size_t i = 0; i < m.n; i++) {
		const struct perf_map_entry *e = &m.list[i], *at = perf_map_at(&m, e->start);

		FUZZ_CHECK(e->size && e->start + e->size > e->start && e->name.size);
		FUZZ_CHECK(!i || m.list[i - 1].start <= e->start);
		FUZZ_CHECK(!at || (at->start <= e->start && e->start - at->start < at->size));
		for (size_t k = 0; k < e->name.size; k++)
			FUZZ_CHECK((unsigned char)e->name.p[k] >= 0x20 && e->name.p[k] != 0x7f);
	}
	perf_map_done(&m);
	return 0;
}
