/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An rpm: its headers, and the members of its payload if that is not compressed (else it is codec's).
 */
#include "fuzz.h"
#include "pkg_walk.h"

#include "pkg/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source *src = source_of_mem(bytes_of(data, size), "x.rpm");
	struct err err = { 0 };
	struct pkg_info info;
	struct pkg_walk w;
	struct arena a;
	int r;

	arena_init(&a);
	r = rpm_open(src, &a, &info, &err);
	FUZZ_CHECK(r == 0 || err.kind != ERR_NONE);
	if (r == 0) {
		pkg_walk_info(&info, size);
		if (info.payload.codec == CODEC_NONE)
			pkg_walk_bytes(&info, bytes_of(data + info.payload.off, info.payload.size), 0, &w);
	}
	arena_done(&a);
	source_close(src);
	return 0;
}
