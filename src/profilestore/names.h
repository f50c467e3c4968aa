/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locations that have no names, by the binary that they are in, and giving them. Whose turn it is, why one has none and when it is tried again is
 * kept in the metadata store, so that it outlives the process.
 */
#pragma once

#include "elf/elf.h"
#include "profilestore/profilestore.h"

enum naming_state {
	NAMING_NONE,     /* all of its locations have names, or came with them */
	NAMING_WANTED,   /* some do not; next_try_ms says when */
	NAMING_NEVER,    /* they cannot be named: no build ID, [vdso] without image, JIT */
	NAMING_DONE,     /* all were looked up; those without a name have none in the debug file that there is */
};

/* A binary is what a mapping of a profile was, whichever process it was in and wherever it lay: file name and build ID. */
struct profilestore_binary {
	uint32_t id;
	struct str file, build_id;      /* as they came; build IDs in lower case */
	uint32_t n_locations, n_named;
	enum naming_state state;
	uint32_t reason;                /* enum symbolize_reason, of the last try; 0: none */
	struct str why;                 /* more about it */
	struct str origin;              /* where its debug information came from */
	uint32_t n_tries;
	int64_t last_try_ms, next_try_ms;
	int64_t value;                  /* of profilestore_binaries(): what was spent in it (self) in that range */
};
struct profilestore_binaries {
	size_t n;
	int64_t total;
	struct profilestore_binary *v;
};
/* The binaries seen in a range, the largest value first; @r NULL: all there are, without values. One piece: free() it. */
int profilestore_binaries(struct profilestore *s, const struct profilestore_range *r, struct profilestore_binaries **ret, struct err *err);

/* The binaries whose turn it is by @now_ms, those with the most unnamed locations first; *ret_next_ms: when the next one's is, INT64_MAX: none. */
int profilestore_wanted(struct profilestore *s, int64_t now_ms, uint32_t limit, struct profilestore_binaries **ret, int64_t *ret_next_ms,
			struct err *err);

/* Unnamed locations of a binary, by rising address, from behind @after (0: from the start). Returns how many, at most @room. */
struct profilestore_unnamed {
	uint32_t location;
	uint64_t addr;
};
size_t profilestore_unnamed(struct profilestore *s, uint32_t binary, uint64_t after, struct profilestore_unnamed *ret, size_t room);

/* What a location is called, innermost line first; names are demangled, system names are as the linker has them. */
struct profilestore_name {
	uint32_t location;
	uint32_t n_lines; /* 0: it was looked up, and there is none: `reason` */
	uint32_t reason;
	const struct profilestore_name_line {
		struct str name, system_name, file;
		int64_t line, column, start_line;
	} *lines;
};
/* All of them, durably, or none. Waits for it. */
int profilestore_name(struct profilestore *s, const struct profilestore_name *names, size_t n, struct err *err);

/* What came of a try. NAMING_WANTED with the time of the next one, NAMING_DONE, or NAMING_NEVER. Durable. */
struct profilestore_tried {
	uint32_t binary;
	enum naming_state state;
	uint32_t reason;
	struct str why, origin;
	int64_t next_try_ms;
};
int profilestore_tried(struct profilestore *s, const struct profilestore_tried *t, struct err *err);

/*
 * Something new is known of this build ID: its unnamed locations are wanted now. @better: those that were named by a poorer file are
 * too (they keep the names that they have until then). Returns how many binaries that were.
 */
unsigned profilestore_wake(struct profilestore *s, const struct build_id *id, bool better);

/* Called, from any thread, when locations came in that have no names. For who names them. */
void profilestore_on_unnamed(struct profilestore *s, void (*fn)(void *arg), void *arg);
