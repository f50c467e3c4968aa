/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/PID/maps, which gperftools and jemalloc append to their profiles; also its short form,
 * "400000-fcb000: /usr/bin/a (@OFFSET) BUILDID".
 */
#pragma once

#include "profile/profile.h"

struct profile_maps_part {
	uint64_t start, end;
	uint32_t mapping; /* of the profile */
};
struct profile_maps {
	struct profile *p;
	PROFILE_TABLE(struct profile_maps_part) list; /* by address */
	/* In the text; more variables than these are ignored. */
	struct profile_maps_variable {
		struct str name, value;
	} variables[8];
	unsigned n_variables;
};

/*
 * Executable ranges become mappings of @p; lines of another form are ignored. A lack of memory is reported by
 * profile_build_end().
 */
void profile_maps_read(struct profile_maps *m, struct profile *p, struct str text);
void profile_maps_done(struct profile_maps *m);
/* PROFILE_NONE: no mapping is at @addr. */
uint32_t profile_maps_find(const struct profile_maps *m, uint64_t addr);
