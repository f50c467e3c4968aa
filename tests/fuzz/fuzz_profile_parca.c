/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of Parca's agent. profile_check.h has the checks of each profile. */
#include "fuzz.h"

#include "profile/parca.h"
#include "profile_check.h"

static int check_one(void *arg, struct profile *p, const struct parca_label *labels, size_t n,
		     struct err *err)
{
	FUZZ_CHECK(n >= 1 && n <= 1 + PARCA_MAX_LABELS);
	for (size_t i = 1; i < n; i++)
		FUZZ_CHECK(labels[i].value.size);
	FUZZ_CHECK(p->n_samples > 0 && p->duration_ns >= 0);
	check_written(p);
	profile_free(p);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct budget_hold hold;
	struct profile_limits limits = { .max_size = 1 << 20, .max_memory = 64 << 20, .memory = &hold };
	struct parca_result result;
	struct err err = { 0 };

	budget_hold_init(&hold, NULL, BUDGET_PROFILE);
	hold.max = 128 << 20;
	if (parca_read(bytes_of(data, size), &limits, (struct parca_sink){ check_one, NULL }, &result, &err) <
	    0)
		FUZZ_CHECK(err.kind == ERR_INVALID || err.kind == ERR_LIMIT);
	else
		FUZZ_CHECK(!result.n_rejected || result.why.kind);
	FUZZ_CHECK(hold.used == 0);
	budget_hold_done(&hold);
	return 0;
}
