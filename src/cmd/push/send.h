/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending a profile to a server that keeps it.
 */
#pragma once

#include "cmd/push/target.h"
#include "profile/profile.h"

struct send_label {
	struct str name, value;
};

struct send_result {
	struct client_receipt receipt;
	uint64_t size; /* bytes that were sent */
};

struct send_labels {
	const struct send_label *v;
	size_t n;
};
/* Send @p as pprof; a profile without a time gets @time_ms. A refusal is ERR_INVALID with the server's
 * message. */
int send_profile(struct target *t, struct profile *p, struct send_labels labels, int64_t time_ms,
		 struct send_result *ret, struct err *err);

/* The labels of --label, s->labels.n of them; a mistake of the user's is ERR_INVALID. */
int send_labels_parse(const struct settings *s, struct send_label *ret, struct err *err);
