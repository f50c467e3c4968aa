/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/kallsyms: a found function starts at or before the address, and has a name without control characters.
 */
#include "fuzz.h"

#include "agent/kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel_names *k = kernel_names_new("/nonexistent");
	struct kernel_symbol s;
	uint64_t text, addr;
	size_t n = kernel_names_load(k, (struct str){ (const char *)data, size });

	FUZZ_CHECK((kernel_names_state(k, &text) == KERNEL_NAMED) == (n != 0));
	for (size_t i = 0; i + sizeof(addr) <= size; i += sizeof(addr)) {
		memcpy(&addr, data + i, sizeof(addr));
		if (i % 16)
			addr = text + (addr & 0xffff);
		if (!kernel_names_at(k, addr, &s))
			continue;
		FUZZ_CHECK(n && s.start <= addr);
		for (size_t c = 0; c < s.name.size; c++)
			FUZZ_CHECK((unsigned char)s.name.p[c] >= ' ');
	}
	kernel_names_free(k);
	return 0;
}
