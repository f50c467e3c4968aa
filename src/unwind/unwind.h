/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind: from a frame of native code to its caller, without frame pointers.
 *
 * A file's call frame information is converted once into a packed table: which address has which rule. step.h has the
 * table's layout, the look-up and the step, for user space and for BPF; docs/formats/unwind.md describes the bytes.
 *
 * Rules come from .eh_frame; without that, from .debug_frame; for Go programs, from the stack sizes in Go's own table; and,
 * where none of them has a rule, from the code of the function that returns from a signal handler. x86-64 only.
 *
 * The same file gives the same bytes.
 */
#pragma once

#include <stdatomic.h>
#include "elf/elf.h"
#include "unwind/step.h"

#define UNWIND_MAX_FRAME_SECTION MIB(1024) /* bytes of .eh_frame or .debug_frame */

/* Of struct unwind_head. */
enum unwind_flags {
	UNWIND_FROM_EH_FRAME = 1 << 0,
	UNWIND_FROM_DEBUG_FRAME = 1 << 1,
	UNWIND_FROM_GO = 1 << 2,
	UNWIND_FROM_CODE = 1 << 3, /* the function that returns from signal handlers was recognised */
	UNWIND_PARTIAL = 1 << 4,   /* parts were damaged, or over a limit, and have no rows */
};

struct unwind_options {
	const atomic_bool *cancel;  /* NULL, or checked now and then: once it is set, ERR_CANCELLED */
	struct budget_hold *memory; /* NULL, or grants the memory needed beside the table */
};

struct unwind_stats {
	uint64_t n_functions, n_rows, n_escapes, n_rules;
	uint64_t n_bad;     /* rows whose rule is not supported */
	uint64_t n_skipped; /* functions that are damaged, or over a limit */
	bool sorted;        /* .eh_frame_hdr has led to all functions in order */
};

enum {
	UNWIND_NOTHING = 1, /* a file without rules for any address, or of another machine */
	UNWIND_NOT_TABLE = 2,
};
/*
 * Append the table of a program, a library or a debug file to @out, which is empty. Damaged parts are left out and counted.
 * ERR_LIMIT: a section is over its limit, or more memory is needed than granted.
 */
int unwind_build(const struct elf_image *img, const struct unwind_options *o, struct buf *out,
		 struct unwind_stats *ret, struct err *err);

/*
 * Open a table in memory, aligned to 8 bytes, which is borrowed. UNWIND_NOT_TABLE: the bytes are none, or that of another
 * version. ERR_INVALID: it is damaged. Looking up an address in a table that was not opened is safe, too.
 */
int unwind_table_open(struct bytes b, struct unwind_table *ret, struct err *err);

/* The rows of a table in the order of addresses: each address at which another rule starts to hold. */
struct unwind_rows {
	struct unwind_table table;
	uint64_t addr; /* of the row */
	struct unwind_rule rule;
	uint64_t page;     /* the next row's */
	uint32_t n_passed; /* slots of it */
};
void unwind_rows_start(struct unwind_rows *it, const struct unwind_table *t);
bool unwind_rows_next(struct unwind_rows *it); /* sets addr and rule */

/* As text: "cfa=rsp+16 rbp=cfa-16 ra=cfa-8". */
void unwind_rule_print(const struct unwind_rule *r, struct buf *out);

/* For people: the reason why a stack ends, such as "no row". */
const char *unwind_outcome_name(enum unwind_outcome o);
