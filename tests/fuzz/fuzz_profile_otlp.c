/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP requests. profile_check.h has the checks of each profile. */
#include "fuzz.h"

#include "profile/otlp.h"
#include "profile_check.h"

static int check_one(void *arg, struct profile *p, const struct otlp_label *labels, size_t n, struct err *err)
{
	FUZZ_CHECK(n <= OTLP_MAX_LABELS);
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK(labels[i].name.size && labels[i].value.size);
	FUZZ_CHECK(p->n_samples > 0);
	check_written(p);
	profile_free(p);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otlp_result result;
	struct err err = { 0 };

	if (otlp_read(bytes_of(data, size), &check_limits, (struct otlp_sink){ check_one, NULL }, &result,
		      &err) < 0)
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	else
		FUZZ_CHECK(!result.n_rejected || result.why.kind);
	return 0;
}
