/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of OpenTelemetry (OTLP, opentelemetry.proto.profiles.v1development as of opentelemetry-proto 1.10): a request
 * of the collector's ProfilesService, or ProfilesData of a file, which have the same fields. docs/decisions/0037-otlp.md
 * says what becomes of each part of it.
 *
 * Any other revision of the protocol is a change of otlp_fields.h. One before 1.9 is told apart and refused, since its
 * fields have the same numbers and other meanings.
 */
#pragma once

#include "profile/profile.h"

#define OTLP_MAX_PROFILES 4096u               /* of one request, with those without samples */
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
 * @limits, which hold for the dictionary and for each profile, or of the numbers above. ERR_CANCELLED: of their deadline.
 */
int otlp_read(struct bytes in, const struct profile_limits *limits, struct otlp_sink sink,
	      struct otlp_result *ret, struct err *err);

/* ---- out ---- */

enum otlp_packing { OTLP_PLAIN, OTLP_GZIP, OTLP_ZSTD };

struct otlp_write_options {
	const struct otlp_label *resource; /* attributes of all resources */
	size_t n_resource;
	/* The attribute's key for a label of samples, valid until the next call. NULL: the label's own name. */
	struct str (*key)(void *arg, struct str label, struct str value);
	void *arg;
	const uint8_t *id; /* 16 bytes, of which the profiles' IDs are made; NULL: they have none */
	enum otlp_packing packing;
};

/*
 * Append @p as a request. Labels of samples that are texts become attributes of resources, one resource for each set of them;
 * numbers become attributes of samples. Each sample type is a profile of its own; CPU time that is a multiple of the period is
 * written as a count of samples, as other profilers of OTLP do, and otlp_read() makes both types of it. Texts that are not
 * UTF-8 are changed, since readers refuse them. Not written: whether a location is folded, patterns of frames, comments.
 */
int otlp_write(const struct profile *p, const struct otlp_write_options *o, struct buf *out, struct err *err);
