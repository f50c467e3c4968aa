/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdw as the judge of a stack: unwinds the same registers and the same copy of the stack.
 */
#pragma once

#include "agent/sampler.h"

struct oracle;

struct oracle *oracle_new(void); /* NULL: this build has no libdw */
void oracle_free(struct oracle *o);
enum oracle_verdict {
	ORACLE_SAME,      /* every frame that libdw has; it may end earlier where the copy ends */
	ORACLE_DIFFERENT, /* a frame differs, or one of them has frames that the other has not */
	ORACLE_NOTHING, /* libdw could not begin, or ended at a word that the copy does not have: it says nothing */
};
enum oracle_verdict oracle_compare(struct oracle *o, const struct sampler_sample *s);
