/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stack of a native walk and of frames of Python. Pure.
 */
#pragma once

#include "agent/sampler.h"

/* Of a native frame, in an interpreter. */
enum python_role { PYTHON_OTHER, PYTHON_LOOP, PYTHON_GLUE };

struct python_stack_item {
	bool is_python;
	uint32_t i; /* in sample->python or sample->user */
};

#define PYTHON_STACK_MAX (SAMPLER_MAX_USER + SAMPLER_MAX_PYTHON)

/*
 * Put the frames of Python in the places of the evaluation loops that run them: @roles[i] is that of native frame i. The
 * loops themselves, and glue directly outside of one, are left out. Frames of Python whose loop is not among the native
 * frames are outermost. Innermost first; returns how many, at most PYTHON_STACK_MAX.
 */
size_t python_stack_join(const struct sampler_sample *s, const enum python_role *roles,
			 struct python_stack_item *ret);
