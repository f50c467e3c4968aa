/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of Parca's agent: a stream of Arrow (arrow/arrow.h) with the schema "v2" of
 * parca.profilestore.v1alpha1.WriteArrow. A row is one sample at one time; rows with equal labels and types become a
 * profile. docs/decisions/0039-arrow.md says what becomes of each column.
 */
#pragma once

#include "profile/profile.h"

#define PARCA_MAX_PROFILES 10000u
#define PARCA_MAX_LABELS   256u                 /* columns of labels; a profile may have fewer */
#define PARCA_MAX_FRAMES   (UINT64_C(1) << 23)  /* of the stacks of a stream, counted once for each profile */
#define PARCA_SPAN_NS      INT64_C(60000000000) /* of the times of a profile, at most */

/* Views that last for the call. "__name__" is among them: the producer. */
struct parca_label {
	struct str name, value;
};

/* Called for each profile, which it takes. A failure ends the reading and is returned. */
struct parca_sink {
	int (*fn)(void *arg, struct profile *p, const struct parca_label *labels, size_t n, struct err *err);
	void *arg;
};

struct parca_result {
	uint32_t n_profiles; /* passed to the sink */
	uint32_t n_rejected;
	struct err why; /* of the first of these */
};

/*
 * ERR_INVALID: it is no such stream, or damaged: profiles of the batches before that are passed on. ERR_LIMIT: of @limits,
 * which hold for all buffers and for each profile, or of the numbers above.
 */
int parca_read(struct bytes in, const struct profile_limits *limits, struct parca_sink sink,
	       struct parca_result *ret, struct err *err);
