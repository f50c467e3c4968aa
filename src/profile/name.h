/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming what a profile has only addresses of.
 *
 * What is named stays as it is; a location whose names come without files (perf's) is looked up too, and
 * keeps its name if nothing more is known. Who asks says how: a module (what has one build ID, or one path)
 * is begun, then its addresses are asked for in rising order.
 */
#pragma once

#include "profile/profile.h"
#include "frame/frame.h"

/* A frame in the texts that profiles have: names demangled as is wanted, whole paths. One who asks keeps them
 * until the end. */
struct profile_frame_text {
	struct str name, system_name, file; /* good until profile_frame_texts_free() */
	int64_t line, column, start_line;
};
struct profile_frame_texts;
struct profile_frame_texts *profile_frame_texts_new(enum frame_demangling how);
void profile_frame_texts_free(struct profile_frame_texts *x); /* takes NULL */
void profile_frame_text_of(struct profile_frame_texts *x, const struct symtab_frame *f,
			   struct profile_frame_text *ret);
size_t profile_frame_texts_size(const struct profile_frame_texts *x); /* bytes that are kept */

/* There is no file of what a mapping calls itself: "", "[heap]", "//anon", memory of a JIT compiler. */
bool profile_is_no_file(struct str file);

struct profile_module {
	struct str file;                  /* as the profile has it; empty: not known */
	struct build_id id;               /* size 0: not known */
	const struct frame_mapping *maps; /* all of it */
	size_t n_maps;
};

struct profile_namer {
	/* FRAME_FOUND: addresses will be asked for, then end() is called. *ret_why: more about a reason,
	 * or NULL; good until the next call. */
	enum frame_reason (*begin)(void *arg, const struct profile_module *m, const char **ret_why);
	/* A run-time address; @ret is good until the next call. */
	enum frame_reason (*ask)(void *arg, const struct profile_module *m, uint64_t addr,
				 struct symtab_frames *ret);
	void (*end)(void *arg);
	/* NULL, or: @n_done of @n_all locations were looked at. Non-zero stops: ERR_CANCELLED. */
	int (*progress)(void *arg, uint32_t n_done, uint32_t n_all);
	void *arg;
	enum frame_demangling demangling;
};

/* What came of one module. */
struct profile_named {
	struct str file, build_id;
	uint32_t n_named;         /* locations that were named already */
	uint32_t n_new;           /* that are named now, or better */
	uint32_t n_unnamed;       /* that are not */
	enum frame_reason reason; /* why not: of the module, or of the first address */
	char why[200];
};

/* @ret_list, on the heap: the modules, those with the most unnamed locations first. */
int profile_name(struct profile *p, const struct profile_namer *n, struct profile_named **ret_list,
		 size_t *ret_n, struct err *err);
