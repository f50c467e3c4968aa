/* SPDX-License-Identifier: Apache-2.0 */
/* The outcomes of a walk, by name. */
#include "unwind/unwind.h"

static const char *const names[UNWIND_N_OUTCOMES] = {
	[UNWIND_CALLER] = "caller",
	[UNWIND_CALLER_CHAIN] = "caller by frame pointer",
	[UNWIND_END] = "outermost frame",
	[UNWIND_END_CHAIN] = "end of the frame pointers",
	[UNWIND_NO_ROW] = "no unwind row",
	[UNWIND_BAD_RULE] = "unsupported unwind rule",
	[UNWIND_UNREADABLE] = "unreadable stack",
	[UNWIND_LOOP] = "stack does not go up",
	[UNWIND_TOO_DEEP] = "too deep",
	[UNWIND_NO_MAPPING] = "unknown mapping",
	[UNWIND_NO_TABLE] = "no unwind table",
	[UNWIND_NO_PROCESS] = "unknown process",
};

const char *unwind_outcome_name(enum unwind_outcome o)
{
	return (unsigned)o < UNWIND_N_OUTCOMES ? names[o] : "unknown";
}
