/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles to a server that keeps them.
 */
#pragma once

#include "cmd/push/target.h"
#include "profile/profile.h"

struct send_label {
	struct str name, value;
};

/* What came of one. */
struct send_result {
	uint64_t n_samples, n_profiles, size; /* as the server counts them; bytes that were sent */
	bool duplicate;
	int64_t id; /* 0: none */
};

/* As pprof; what has no time gets @time_ms. What the server says no to is ERR_INVALID with what it said. */
int send_profile(struct target *t, struct profile *p, const struct send_label *labels, size_t n_labels,
		 int64_t time_ms, struct send_result *ret, struct err *err);
