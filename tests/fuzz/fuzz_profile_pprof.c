/* SPDX-License-Identifier: Apache-2.0 */
/* profile.proto: a profile that can be read can be written, and reads the same. Merged with itself it doubles. */

#include "profile_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_limits limits = { .max_size = 1 << 20, .max_memory = 64 << 20 };
	struct profile *p = NULL, *q = NULL, *m;
	struct buf b = { 0 };
	struct err err = { 0 };
	char what[PROFILE_WHAT_SIZE];
	enum profile_format format;

	profile_detect(bytes_of(data, size), &format, &err);
	if (profile_read_pprof(bytes_of(data, size), &limits, &p, &err) < 0) {
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
		return 0;
	}
	FUZZ_CHECK(profile_write_pprof(p, false, &b, &err) == 0);
	FUZZ_CHECK(profile_read_pprof(buf_bytes(&b), NULL, &q, &err) == 0);
	FUZZ_CHECK(profile_same(p, q, what));
	m = profile_new(&limits);
	if (profile_merge(m, p, 1, &err) == 0 && profile_merge(m, q, 1, &err) == 0 &&
	    profile_merge_end(m, &err) == 0)
		for (uint32_t t = 0; t < p->types.n && !check_is_saturated(p) && !check_is_saturated(m); t++)
			FUZZ_CHECK(profile_total(m, t) == 2 * profile_total(p, t));
	profile_free(m);
	if (profile_prune(p, &err) < 0)
		FUZZ_CHECK(err.kind == ERR_LIMIT);
	profile_free(p);
	profile_free(q);
	buf_done(&b);
	return 0;
}
