/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming the locations of a profile that are bare addresses.
 *
 * Locations with names stay as they are; one whose names come without files (perf's) is looked up too, and
 * keeps its name if nothing more is known. The caller provides the look-up: for each module (the mappings of
 * one build ID, or one path) begin(), then its addresses in rising order, then end().
 */
#pragma once

#include "profile/profile.h"
#include "frame/frame.h"

/*
 * A frame in the texts of profiles: names demangled, whole paths. Texts are kept, since many addresses are in
 * few functions.
 */
struct profile_frame_text {
	struct str name, system_name, file; /* valid until profile_frame_texts_free() */
	int64_t line, column, start_line;
};
struct profile_frame_texts;
struct profile_frame_texts *profile_frame_texts_new(enum frame_demangling how);
void profile_frame_texts_free(struct profile_frame_texts *x); /* takes NULL */
void profile_frame_text_of(struct profile_frame_texts *x, const struct symtab_frame *f,
			   struct profile_frame_text *ret);
size_t profile_frame_texts_size(const struct profile_frame_texts *x); /* bytes of texts */

/* The name of a mapping that has no file: "", "[heap]", "//anon", memory of a JIT compiler. */
bool profile_is_no_file(struct str file);

struct profile_module {
	struct str file;                  /* as the profile has it; empty: not known */
	struct build_id id;               /* size 0: not known */
	const struct frame_mapping *maps; /* all of the module */
	size_t n_maps;
};

struct profile_namer {
	/*
	 * FRAME_FOUND: addresses will be asked for, then end() is called. *ret_why: more about a reason, or
	 * NULL; valid until the next call.
	 */
	enum frame_reason (*begin)(void *arg, const struct profile_module *m, const char **ret_why);
	/* A run-time address; @ret and *ret_why (as begin()'s; NULL before the call) are valid until the next call. */
	enum frame_reason (*ask)(void *arg, const struct profile_module *m, uint64_t addr,
				 struct symtab_frames *ret, const char **ret_why);
	void (*end)(void *arg);
	/* NULL, or: @n_done of @n_all locations are done. Non-zero stops: ERR_CANCELLED. */
	int (*progress)(void *arg, uint32_t n_done, uint32_t n_all);
	void *arg;
	enum frame_demangling demangling;
};

/* The result for one module. */
struct profile_named {
	struct str file, build_id;
	uint32_t n_named;         /* locations that had names before */
	uint32_t n_new;           /* that got names now, or better ones */
	uint32_t n_unnamed;       /* that have no names */
	enum frame_reason reason; /* of the module, or of its first address without a name */
	char why[200];
};

/* @ret_list, on the heap: the modules, those with the most unnamed locations first. */
int profile_name(struct profile *p, const struct profile_namer *n, struct profile_named **ret_list,
		 size_t *ret_n, struct err *err);
