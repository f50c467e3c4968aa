/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP requests: each profile that can be read can be written as pprof, and read again. */
#include "fuzz.h"

#include "profile/otlp.h"
#include "profile_same.h"

static const struct profile_limits limits = { .max_size = 1 << 20, .max_memory = 64 << 20 };

static int check_one(void *arg, struct profile *p, const struct otlp_label *labels, size_t n, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct profile *q = NULL;
	char what[PROFILE_WHAT_SIZE];

	FUZZ_CHECK(n <= OTLP_MAX_LABELS);
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK(labels[i].name.size && labels[i].value.size);
	FUZZ_CHECK(p->n_samples > 0);
	FUZZ_CHECK(profile_write_pprof(p, false, &b, err) == 0);
	FUZZ_CHECK(profile_read_pprof(buf_bytes(&b), NULL, &q, err) == 0);
	FUZZ_CHECK(profile_same(p, q, what));
	profile_free(q);
	profile_free(p);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otlp_result result;
	struct err err = { 0 };

	if (otlp_read(bytes_of(data, size), &limits, (struct otlp_sink){ check_one, NULL }, &result, &err) <
	    0)
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	else
		FUZZ_CHECK(!result.n_rejected || result.why.kind);
	return 0;
}
