/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locations that have no names, by the binary that they are in, and giving them. Whose turn it is, why one
 * has none and when it is tried again is kept in the metadata store, so that it outlives the process.
 *
 * A location is *wanted* if it came without lines and was not yet looked up in the table that its binary is
 * named by now. What was looked up in that table is not wanted any more, whether it got a name or a reason;
 * where another table takes its place (a better debug file was pushed), all of the binary's are wanted once
 * more, and keep what names they have until then. Both are in the metadata store: whoever is killed in the
 * middle goes on where he was.
 */
#pragma once

#include "profilestore/profilestore.h"

enum naming_state {
	NAMING_NONE,   /* all of its locations came with names */
	NAMING_WANTED, /* some are wanted; next_try_ms says when it is tried (again) */
	NAMING_NEVER,  /* they cannot be named: no build ID, [vdso] without image, JIT */
	NAMING_DONE, /* all were looked up; those without a name have none in the debug file that there is */
};

/* A binary is what a mapping of a profile was, whichever process it was in and wherever it lay: known by its
 * build ID, without one by its file. */
struct profilestore_binary {
	uint32_t id;
	struct str file, build_id; /* as they came; build IDs in lower case */
	uint32_t n_locations, n_named;
	uint32_t n_wanted;
	enum naming_state state;
	uint32_t reason;   /* enum frame_reason, of the last try, or of the last address without a name; 0:
			    none */
	struct str why;    /* more about it */
	struct str origin; /* where its debug information came from */
	uint32_t n_tries;  /* that failed, in a row */
	uint32_t n_wakes;  /* of profilestore_wake(), since the store was opened */
	int64_t last_try_ms, next_try_ms;
	int64_t value; /* of profilestore_binaries(): what was spent in it (self) in that range */
};
struct profilestore_binaries {
	size_t n;
	int64_t total;
	struct profilestore_binary *v;
};
/* The binaries seen in a range, the largest value first; @r NULL: all there are, without values. One piece:
 * free() it. */
int profilestore_binaries(struct profilestore *s, const struct profilestore_range *r,
			  struct profilestore_binaries **ret, struct err *err);

/*
 * The binaries in state NAMING_WANTED whose turn it is by @now_ms, those with the most wanted locations
 * first, at most @limit; *ret_next_ms: when the next one's is, INT64_MAX: none. One piece: free() it.
 */
int profilestore_wanted(struct profilestore *s, int64_t now_ms, uint32_t limit,
			struct profilestore_binaries **ret, int64_t *ret_next_ms, struct err *err);

/*
 * @table, a text, says what the binary is named by from now on: which table, made of what. If it was another
 * one so far all its locations but those that came with lines are wanted. On disk together with the first
 * names (or the try) that follow. Returns how many are wanted now.
 */
uint32_t profilestore_named_by(struct profilestore *s, uint32_t binary, struct str table);

/* Locations of a binary that are wanted, in no order. Returns how many, at most @room. They are wanted until
 * profilestore_name(). */
struct profilestore_unnamed {
	uint32_t location;
	uint8_t kind;      /* enum frame_address_kind: FRAME_OFFSET: in the file; FRAME_VADDR;
			      FRAME_RUNTIME: of a kernel, behind `symbol` */
	struct str symbol; /* FRAME_RUNTIME: "_text", "_stext", as the mapping said; static */
	uint64_t addr;
	uint64_t mapping_offset; /* FRAME_OFFSET: where in the file the mapping began that it was seen in:
				    needed where nothing of the program but its debug file is known */
};
size_t profilestore_unnamed(struct profilestore *s, uint32_t binary, struct profilestore_unnamed *ret,
			    size_t room);

/* What a location is called, innermost line first; names are demangled, system names are as the linker has
 * them. */
struct profilestore_name {
	uint32_t location;
	uint32_t n_lines;  /* 0: it was looked up, and there is none: `reason`. A name that it has it keeps */
	uint32_t reason;   /* enum frame_reason */
	uint64_t elf_addr; /* 0: not known */
	const struct profilestore_name_line {
		struct str name, system_name, file;
		int64_t line, column, start_line;
	} * lines;
};

/* What came of a try. NAMING_WANTED with the time of the next one, NAMING_DONE, or NAMING_NEVER. */
struct profilestore_tried {
	uint32_t binary;
	enum naming_state state; /* NAMING_DONE while some are wanted (they came meanwhile): it stays
				    NAMING_WANTED, now */
	uint32_t reason;
	struct str why, origin; /* origin empty: as it was */
	uint32_t n_tries;
	uint32_t n_wakes; /* as it was when the try began: if it was woken meanwhile, it is tried again now */
	int64_t next_try_ms;
};

/* All of them, durably, or none. Waits for it. */
int profilestore_name(struct profilestore *s, const struct profilestore_name *names, size_t n,
		      const struct profilestore_tried *tried, size_t n_tried, struct err *err);

/*
 * Something new is known of this build ID (of this file, for a binary that has none): it is tried now, also
 * if it was NAMING_DONE: there may be a better table. Not durable: who starts anew tries what has failed
 * anyway. Returns how many binaries that were.
 */
unsigned profilestore_wake(struct profilestore *s, const struct build_id *id);
unsigned profilestore_wake_file(struct profilestore *s, struct str file);

/* Called, from any thread, when locations came in that are wanted. For who names them. */
void profilestore_on_unnamed(struct profilestore *s, void (*fn)(void *arg), void *arg);
