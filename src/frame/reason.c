/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons: names for programs, texts for people, and remedies. */
#include "frame/frame.h"

static const struct {
	const char *name, *text;
	bool passes;
	const char *help;
} reasons[FRAME_N_REASONS] = {
	[FRAME_FOUND] = { "found", "found", false, "" },
	[FRAME_NO_BUILD_ID] = { "no-build-id", "its module has no build ID", false,
				"build it with -Wl,--build-id, or send profiles that have build IDs" },
	[FRAME_NO_MAPPING] = { "no-mapping", "the address is in none of the mappings", false,
			       "send profiles with their mappings" },
	[FRAME_UNKNOWN] = { "unknown", "nothing here has this build ID", false,
			    "push the debug file: lode push FILE --to URL; or put its package (Debian: "
			    "-dbgsym, Fedora: -debuginfo) into a scanned folder; or name upstream servers: "
			    "--debuginfod-upstream-servers URL" },
	[FRAME_UPSTREAM_404] = { "upstream-404",
				 "neither this server nor the upstream servers have this build ID", false,
				 "push the debug file: lode push FILE --to URL; or put its package "
				 "(Debian: -dbgsym, Fedora: -debuginfo) into a scanned folder" },
	[FRAME_UPSTREAM_FAILED] = { "upstream-failed",
				    "its debug file is not here, and an upstream server failed", true,
				    "wait, the server is asked again; after 401 or 403 add credentials to "
				    "its URL, after a redirect to another host allow that by "
				    "--upstream-redirects, after a file of another build ID replace that "
				    "there; or push the debug file: lode push FILE --to URL" },
	[FRAME_TIMED_OUT] = { "timed-out",
			      "its debug file is not here, and an upstream server did not answer in "
			      "time",
			      true,
			      "wait, the server is asked again; or push the debug file: lode push FILE --to "
			      "URL" },
	[FRAME_NOT_ELF] = { "not-elf",
			    "its debug file is not here, and an upstream server sent a file that is not ELF",
			    false, "push the debug file: lode push FILE --to URL" },
	[FRAME_DAMAGED] = { "damaged",
			    "its file or its package is here, but it or a part of it cannot be read", false,
			    "put a sound copy of its file or package in its place, or remove it and push the "
			    "debug file: lode push FILE --to URL" },
	[FRAME_NO_SYMBOLS] = { "no-symbols", "its file has neither debug information nor symbols", false,
			       "push the debug file: lode push FILE --to URL; or put its package "
			       "(Debian: -dbgsym, Fedora: -debuginfo) into a scanned folder" },
	[FRAME_NO_LAYOUT] = { "no-layout", "the program headers to translate such an address are not known",
			      false,
			      "push the program itself beside its debug file: lode push FILE --to URL" },
	[FRAME_OUTSIDE] = { "outside", "the address is outside of every function", false,
			    "none: its debug information has no function there; check the address: it must "
			    "be one of the ELF file, as nm and objdump print them" },
	[FRAME_ALT_MISSING] = { "alt-missing", "some names are in a supplementary file that is not here",
				false,
				"push the supplementary (dwz) file: lode push FILE --to URL; or put its "
				"package "
				"into a scanned folder" },
	[FRAME_SPLIT_MISSING] = { "split-missing", "some calls are in a .dwo file that is not here", false,
				  "push the program from where its .dwo files or its .dwp file are: lode "
				  "push PROGRAM --to URL; or, if it is in a scanned folder, put them beside "
				  "it" },
	[FRAME_PENDING] = { "pending",
			    "its table is being built, or a scan or an upstream server may still "
			    "have its file: ask again",
			    true, "wait" },
	[FRAME_NO_DEBUG_INFO] = { "no-debug-info",
				  "no symbol is at this address, and the debug information of its file is "
				  "missing",
				  false,
				  "push the debug file: lode push FILE --to URL; or put its package "
				  "(Debian: -dbgsym, Fedora: -debuginfo) into a scanned folder; or name "
				  "upstream servers: --debuginfod-upstream-servers URL" },
	[FRAME_BUSY] = { "busy", "too many tables are being built: ask again", true, "wait" },
};

const char *frame_reason_name(enum frame_reason r)
{
	return reasons[r].name;
}

const char *frame_reason_text(enum frame_reason r)
{
	return reasons[r].text;
}

bool frame_reason_passes(enum frame_reason r)
{
	return reasons[r].passes;
}

const char *frame_reason_help(enum frame_reason r)
{
	return reasons[r].help;
}

_Static_assert(FRAME_N_REASONS <= 32, "sets of reasons are 32 bits");

bool frame_reason_hides_debug(enum frame_reason r)
{
	return r == FRAME_UPSTREAM_FAILED || r == FRAME_TIMED_OUT || r == FRAME_NOT_ELF ||
	       r == FRAME_DAMAGED || r == FRAME_PENDING;
}

bool frame_reason_is_damaged(const struct symtab_info *info)
{
	return (info->flags & SYMTAB_PARTIAL) && !(info->flags & SYMTAB_SPLIT_MISSING);
}

enum frame_reason frame_reason_lacking(const struct symtab_info *info, const struct symtab_frames *f)
{
	if (info->flags & SYMTAB_ALT_MISSING)
		for (size_t i = 0; i < f->n; i++)
			if (!f->list[i].name.size && !f->list[i].linkage.size)
				return FRAME_ALT_MISSING;
	if ((info->flags & SYMTAB_SPLIT_MISSING) && f->n && f->list[f->n - 1].origin != SYMTAB_DWARF)
		return FRAME_SPLIT_MISSING;
	return FRAME_FOUND;
}

enum frame_reason frame_reason_outside(const struct symtab_info *info, enum frame_reason no_debug,
				       const struct frame_layout *l, uint64_t vaddr)
{
	/* In no code: debug information would not help. */
	if (l && l->n_segments && !frame_layout_has_code(l, vaddr))
		return FRAME_OUTSIDE;
	if (frame_reason_is_damaged(info))
		return FRAME_DAMAGED;
	if (info->flags & (SYMTAB_HAS_DWARF | SYMTAB_HAS_GO))
		return FRAME_OUTSIDE;
	return frame_reason_hides_debug(no_debug) ? no_debug : FRAME_NO_DEBUG_INFO;
}
