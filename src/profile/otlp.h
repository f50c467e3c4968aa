/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of OpenTelemetry (OTLP, opentelemetry.proto.profiles.v1development as of opentelemetry-proto 1.10): a request
 * of the collector's ProfilesService, or ProfilesData of a file, which have the same fields. docs/decisions/37-otlp.md
 * says what becomes of each part of it.
 *
 * Any other revision of the protocol is a change of otlp_fields.h. One before 1.9 is told apart and refused, since its
 * fields have the same numbers and other meanings.
 */
#pragma once

#include "profile/profile.h"

#define OTLP_MAX_PROFILES 4096u               /* of one request */
#define OTLP_MAX_LABELS   32u                 /* of one resource; further ones are dropped */
#define OTLP_MAX_FRAMES   (UINT64_C(1) << 23) /* of the stacks of one request, counted once for each profile */

/* Of the resource: the name has the characters of a Prometheus label. Views that last for the call. */
struct otlp_label {
	struct str name, value;
};

/* Called for each profile, which it takes. A failure ends the reading and is returned. */
struct otlp_sink {
	int (*fn)(void *arg, struct profile *p, const struct otlp_label *labels, size_t n, struct err *err);
	void *arg;
};

struct otlp_result {
	uint32_t n_profiles; /* passed to the sink */
	uint32_t n_rejected; /* that are damaged in themselves */
	struct err why;      /* of the first of these */
};

/*
 * Read a request, compressed (gzip, zstd, xz, bzip2) or not. A profile that is damaged costs the others nothing: it is
 * counted. ERR_INVALID: it is no such request, of an older revision, or its dictionary is damaged. ERR_LIMIT: of
 * @limits, which hold for the dictionary and for each profile, or of the numbers above.
 */
int otlp_read(struct bytes in, const struct profile_limits *limits, struct otlp_sink sink,
	      struct otlp_result *ret, struct err *err);
