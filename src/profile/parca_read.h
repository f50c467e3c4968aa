/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the reader of Parca's samples.
 *
 *   parca_rows.c     rows of a batch, sorted into profiles by their labels and types
 *   parca_stacks.c   their stacks
 *   parca_read.c     profiles; the whole
 */
#pragma once

#include "arrow/arrow.h"
#include "profile/internal.h"
#include "profile/parca.h"

/* Columns whose texts or numbers tell profiles apart, before the labels. */
enum parca_key {
	PARCA_PRODUCER,
	PARCA_TYPE,
	PARCA_UNIT,
	PARCA_PERIOD_TYPE,
	PARCA_PERIOD_UNIT,
	PARCA_TEMPORALITY,
	PARCA_N_TEXTS,
	PARCA_PERIOD = PARCA_N_TEXTS, /* a number */
	PARCA_TIME,                   /* PARCA_SPAN_NS from the first row's */
	PARCA_LABELS,
};
#define PARCA_MAX_KEYS (PARCA_LABELS + PARCA_MAX_LABELS)

struct parca_column {
	struct arrow_array *column; /* NULL: there is none */
	struct str name;
	/* Of the rows before this one; the next one mostly has the same, too. */
	uint64_t until;
	uint32_t text;
	const struct arrow_array *array;
	uint64_t row;
};

/* Numbers of a column: rows from @from up to @until have the same. */
struct parca_numbers {
	struct arrow_array *column; /* NULL: all are 0 */
	uint64_t from, until, value;
};

struct parca_group {
	uint32_t first, n; /* of `order` */
};

/* The result for an entry, in the profile of this number. */
struct parca_made {
	uint32_t profile, index;
	uint64_t n; /* of a stack: its length */
};

struct parca_reader {
	struct profile_limits limits;
	struct profile *room; /* counts the memory of everything here; its strings are those of keys */
	struct arrow_stream *stream;

	/* The batch. */
	struct parca_column columns[PARCA_MAX_KEYS]; /* PARCA_PERIOD, PARCA_TIME: not used */
	uint32_t n_keys;
	struct arrow_array *stacks, *values, *times;
	struct parca_numbers periods, durations;
	PROFILE_TABLE(uint32_t) keys; /* n_keys of each group */
	PROFILE_TABLE(struct parca_group) groups;
	struct hash_index index;       /* of groups */
	PROFILE_TABLE(uint32_t) rows;  /* the group of each row */
	PROFILE_TABLE(uint32_t) order; /* rows, sorted by group */

	/* The profile that is being made. */
	struct profile *p;
	uint32_t number;                                 /* from 1 */
	struct err why;                                  /* kind ERR_NONE: nothing is wrong so far */
	uint64_t n_frames;                               /* of all, of PARCA_MAX_FRAMES */
	PROFILE_TABLE(struct parca_made) made_locations; /* by their index in the dictionary */
	PROFILE_TABLE(struct parca_made) made_stacks;    /* by where they begin */
	PROFILE_TABLE(struct profile_line) lines;
	/* Fields of a location, and of the array that they are of. */
	const struct arrow_array *location_array;
	struct arrow_array *address, *file, *build_id, *line_list;
	PROFILE_TABLE(uint64_t) entries;   /* of a stack: indices in the dictionary of locations */
	PROFILE_TABLE(uint32_t) locations; /* of a stack */
	uint32_t nothing_profile, nothing; /* the location of a null: of this profile */
	/* The mapping that was made last: of this profile, by indices of dictionaries. */
	uint32_t mapping_profile, mapping;
	uint64_t mapping_file, mapping_id;
};

/* ---- parca_rows.c ---- */

uint64_t parca_number(struct parca_numbers *of, uint64_t row);

/* Take the columns of the batch, and sort its rows into r->groups. */
int parca_rows(struct parca_reader *r, struct err *err);
void parca_rows_done(struct parca_reader *r);

/* ---- parca_stacks.c ---- */

/* The stack of a row; wrong ones are noted in r->why. */
uint32_t parca_stack(struct parca_reader *r, uint64_t row);
