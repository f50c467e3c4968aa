/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/maps in two pieces: mappings rise and do not overlap, names lie in the text.
 */
#include "fuzz.h"

#include "agent/maps.h"

struct fuzz_maps {
	const uint8_t *data;
	size_t size;
	uint64_t last;
};

static int check_map(void *arg, const struct maps_line *l)
{
	struct fuzz_maps *f = arg;
	AUTO(buf_done) struct buf path = { 0 };

	FUZZ_CHECK(l->start >= f->last && l->limit > l->start && l->exec);
	FUZZ_CHECK(!l->path.size || ((const uint8_t *)l->path.p >= f->data &&
				     (const uint8_t *)l->path.p + l->path.size <= f->data + f->size));
	f->last = l->limit;
	maps_path(l->path, &path);
	FUZZ_CHECK(path.size <= l->path.size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_maps f = { data, size, 0 };
	struct maps_reader r = { .fn = check_map, .arg = &f };
	size_t used, rest;

	FUZZ_CHECK(maps_feed(&r, (struct str){ (const char *)data, size / 2 }, false, &used) == 0);
	FUZZ_CHECK(used <= size / 2);
	FUZZ_CHECK(maps_feed(&r, (struct str){ (const char *)data + used, size - used }, true, &rest) == 0);
	FUZZ_CHECK(used + rest == size);
	return 0;
}
