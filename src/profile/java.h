/* SPDX-License-Identifier: Apache-2.0 */
/* The names at the end of Java's profiles: a line for each number that stacks consist of. */
#pragma once

#include "profile/profile.h"

struct java_name {
	uint64_t id;
	struct profile_line line;
};
struct java_names {
	struct profile *p;
	PROFILE_TABLE(struct java_name) list; /* by ID */
};

/*
 * "0x00000003 com.example.f (F.java:10)"; other lines are ignored. A lack of memory is reported by profile_build_end().
 */
void java_names_read(struct java_names *n, struct profile *p, struct str text);
void java_names_done(struct java_names *n);
/* The location of a number. It is not an address; without a name it is shown as it is. */
uint32_t java_location(struct java_names *n, uint64_t id);

/* Heaps and contentions: text. */
bool java_is_profile(struct str head);
int java_read(struct str text, const struct profile_limits *limits, struct profile **ret, struct err *err);
