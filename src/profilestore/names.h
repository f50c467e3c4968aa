/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for locations that came in without: the locations that want names, by binary; the state of naming
 * each binary (when it is tried again, or why it has no names), in the metadata store, so that it outlives
 * the process.
 *
 * A location is *wanted* if it came without lines and was not yet looked up in the table that its binary is
 * named by now. After that it is not wanted any more, whether it got a name or a reason. When another table
 * takes its place (a better debug file was pushed), all locations of the binary are wanted once more, and
 * keep the names they have until then. Both are in the metadata store: a process that was killed in the
 * middle continues where it was.
 *
 * Two things are done for a binary, each at its own time. A *look* applies the table at hand to new locations,
 * and is due as soon as wanted locations came in. A *try* searches for a table, or for a better one, and is due
 * at next_try_ms. So locations never wait for a try that could be named without it.
 */
#pragma once

#include "profilestore/profilestore.h"

enum naming_state {
	NAMING_NONE,   /* all its locations came with names */
	NAMING_WANTED, /* it has no table, or may get a better one; next_try_ms is the time of the next try */
	NAMING_NEVER,  /* its locations cannot be named: no build ID, [vdso] without image, JIT */
	/*
	 * all were looked up, but for those that a look is due for; a location without a name has none in the
	 * debug file that is here
	 */
	NAMING_DONE,
};

/*
 * A binary is a mapping of a profile, regardless of the process and the address where it was mapped: known by
 * its build ID, without one by its file.
 */
struct profilestore_binary {
	uint32_t id;
	struct str file, build_id; /* as they came; build IDs in lower case */
	uint32_t n_locations, n_named;
	uint32_t n_wanted;
	enum naming_state state;
	/* enum frame_reason of the last try, or of the last address without a name; 0: none */
	uint32_t reason;
	struct str why;    /* more about the reason */
	struct str origin; /* the file that its debug information came from */
	uint32_t n_tries;  /* failed tries in a row */
	uint32_t n_wakes;  /* calls of profilestore_wake(), since the store was opened */
	uint64_t n_added;  /* commits with wanted locations of it, likewise */
	bool look_is_due;
	bool try_is_due; /* from profilestore_wanted() only */
	int64_t last_try_ms, next_try_ms;
	int64_t value; /* from profilestore_binaries(): its own values (self) in that range */
};
struct profilestore_binaries {
	size_t n;
	int64_t total;
	struct profilestore_binary *v;
};
/*
 * The binaries seen in a range, the largest value first; @r NULL: all binaries, without values. The list is
 * in one piece: free() it. @hold grants what it is made of, and the list until its owner gives that back; NULL: not counted.
 */
int profilestore_binaries(struct profilestore *s, const struct profilestore_range *r,
			  struct budget_hold *hold, struct profilestore_binaries **ret, struct err *err);

/*
 * The binaries for which a look, or a try at @now_ms, is due, at most @limit: looks first, in the order in which
 * they became due, then tries, those with the most wanted locations first. *ret_next_ms: when the next try is
 * due, INT64_MAX: none. Without @by_path those without a build ID are left out. The list is in one piece: free() it.
 */
int profilestore_wanted(struct profilestore *s, int64_t now_ms, uint32_t limit, bool by_path,
			struct profilestore_binaries **ret, int64_t *ret_next_ms, struct err *err);

/*
 * Set the table that names the binary from now on: @table is a text that identifies it and its use. If it was
 * another until now, all locations that came without lines are wanted. It reaches the disk together with the
 * next names or the next outcome. Returns how many locations are wanted now.
 */
uint32_t profilestore_named_by(struct profilestore *s, uint32_t binary, struct str table);
/* The binary is named by another table than @table now. */
bool profilestore_named_by_other(struct profilestore *s, uint32_t binary, struct str table);

/*
 * Why the binary with this build ID was not named when its debug information was last looked for: enum frame_reason; 0: it
 * was, or has not been looked for yet. One look-up in a hash table.
 */
uint32_t profilestore_binary_reason(struct profilestore *s, struct str build_id);

/*
 * Wanted locations of a binary, in no order. Returns how many, at most @room. They stay wanted until
 * profilestore_name().
 */
struct profilestore_unnamed {
	uint64_t location; /* valid for profilestore_name(); a sweep may change it */
	/*
	 * enum frame_address_kind: FRAME_OFFSET: in the file; FRAME_VADDR; FRAME_RUNTIME: of a kernel, after
	 * `symbol`
	 */
	uint8_t kind;
	struct str symbol; /* FRAME_RUNTIME: "_text", "_stext", as in the mapping; static */
	uint64_t addr;
	/*
	 * FRAME_OFFSET: where its mapping began in the file; needed if only the debug file of the program is
	 * known
	 */
	uint64_t mapping_offset;
};
size_t profilestore_unnamed(struct profilestore *s, uint32_t binary, struct profilestore_unnamed *ret,
			    size_t room);

/* The names of a location, innermost line first; names are demangled, system names are the linker's. */
struct profilestore_name {
	uint64_t location; /* one of before a sweep is passed over: it stays wanted */
	uint32_t n_lines;  /* 0: it was looked up and has none, see `reason`; a name that it has stays */
	uint32_t reason;   /* enum frame_reason */
	uint64_t elf_addr; /* 0: not known */
	const struct profilestore_name_line {
		struct str name, system_name, file;
		int64_t line, column, start_line;
	} * lines;
};

/* The outcome of a try: NAMING_WANTED with the time of the next one, NAMING_DONE, or NAMING_NEVER. */
struct profilestore_tried {
	uint32_t binary;
	/* NAMING_DONE while some are wanted (they came meanwhile): it stays NAMING_WANTED, due now */
	enum naming_state state;
	uint32_t reason;
	struct str why, origin; /* origin empty: unchanged */
	uint32_t n_tries;
	uint32_t n_wakes; /* as it was when the try began: if the binary was woken since, it is due now */
	uint64_t n_added; /* likewise: if wanted locations came in since, a look is due */
	int64_t at_ms; /* when the outcome was known, by the clock of next_try_ms: it may be written much later */
	int64_t next_try_ms;
	bool is_look; /* the table at hand was applied: tries and their times stay as they are */
};

/* Write all of them durably, or none. Waits for it. */
int profilestore_name(struct profilestore *s, const struct profilestore_name *names, size_t n,
		      const struct profilestore_tried *tried, size_t n_tried, struct err *err);

/*
 * A look that named nothing is over: the table at hand is another than the one that names the binary, or there
 * is none. @n_added: as it was when the look began. @try_now: a try is due now, or 10 s after the last one that
 * was demanded so. Not durable. Returns when the next try is due; INT64_MAX: no time is set.
 */
int64_t profilestore_looked(struct profilestore *s, uint32_t binary, uint64_t n_added, bool try_now);

/*
 * A file with this build ID (at this path, for a binary without one) may be new here: the binary is due now,
 * even if it was NAMING_DONE, since there may be a better table. Not durable: after a restart, binaries that
 * failed are tried anyway. Returns how many binaries were woken.
 */
unsigned profilestore_wake(struct profilestore *s, const struct build_id *id);
unsigned profilestore_wake_file(struct profilestore *s, struct str file);

/* Set a function to be called, from any thread, when wanted locations came in. For the naming job. */
void profilestore_on_unnamed(struct profilestore *s, void (*fn)(void *arg), void *arg);
