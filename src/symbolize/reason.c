/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an address has no frames: names for programs, texts for people.
 */
#include "symbolize/symbolize.h"

static const struct {
	const char *name, *text;
	bool passes;
} reasons[SYMBOLIZE_N_REASONS] = {
	[SYMBOLIZE_FOUND] = { "found", "found", false },
	[SYMBOLIZE_NO_BUILD_ID] = { "no-build-id", "its module has no build ID", false },
	[SYMBOLIZE_NO_MAPPING] = { "no-mapping", "it lies in none of the mappings", false },
	[SYMBOLIZE_UNKNOWN] = { "unknown", "nothing here has this build ID", false },
	[SYMBOLIZE_UPSTREAM_404] = { "upstream-404", "neither this server nor the others have this build ID",
				     false },
	[SYMBOLIZE_UPSTREAM_FAILED] = { "upstream-failed",
					"it is not here, and another server could not tell", true },
	[SYMBOLIZE_TIMED_OUT] = { "timed-out", "it is not here, and another server did not answer in time",
				  true },
	[SYMBOLIZE_NOT_ELF] = { "not-elf", "what has this build ID is no ELF file", false },
	[SYMBOLIZE_DAMAGED] = { "damaged", "its file is here, but cannot be read", false },
	[SYMBOLIZE_NO_SYMBOLS] = { "no-symbols", "its file has neither debug information nor symbols",
				   false },
	[SYMBOLIZE_NO_LAYOUT] = { "no-layout",
				  "the program headers that translate such an address are not known", false },
	[SYMBOLIZE_OUTSIDE] = { "outside", "it lies outside of any function", false },
	[SYMBOLIZE_ALT_MISSING] = { "alt-missing", "some names are in a supplementary file that is not here",
				    false },
	[SYMBOLIZE_SPLIT_MISSING] = { "split-missing", "some calls are in a .dwo file that is not here",
				      false },
	[SYMBOLIZE_PENDING] = { "pending", "its table is being made: ask again", true },
	[SYMBOLIZE_BUSY] = { "busy", "too many tables are being made: ask again", true },
};

const char *symbolize_reason_name(enum symbolize_reason r)
{
	return reasons[r].name;
}

const char *symbolize_reason_text(enum symbolize_reason r)
{
	return reasons[r].text;
}

bool symbolize_reason_passes(enum symbolize_reason r)
{
	return reasons[r].passes;
}
