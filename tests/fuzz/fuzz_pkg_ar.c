/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ar: members are within the file and in order, for any headers.
 */
#include "fuzz.h"

#include "pkg/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source *src = source_of_mem(bytes_of(data, size), "x");
	struct err err = { 0 };
	struct ar_member m;
	struct arena a;
	struct ar ar;
	uint64_t last = 0;
	int r;

	arena_init(&a);
	if (ar_detect(bytes_of(data, size))) {
		ar_init(&ar, src, &a);
		while ((r = ar_next(&ar, &m, &err)) == 0) {
			FUZZ_CHECK(m.off <= size && m.size <= size - m.off);
			FUZZ_CHECK(m.off >= last + 60);
			last = m.off;
			/* The whole name is readable. */
			(void)hash64(m.name.p, m.name.size, 0);
		}
		FUZZ_CHECK(r == AR_END || err.kind != ERR_NONE);
	}
	arena_done(&a);
	source_close(src);
	return 0;
}
