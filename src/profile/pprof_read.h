/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reading profile.proto is made of.
 *
 * pprof_wire.c    fields; numbers of entries
 * pprof_tables.c  all but samples
 * pprof_read.c    samples; the whole
 */
#pragma once

#include "profile/internal.h"

/* A field: the bytes of a WIRE_LEN one, the number of the others. */
struct field {
	uint32_t number, wire;
	uint64_t v;
	struct bytes b;
};

/* Numbers that entries were given by the file. Mostly they are 1, 2, 3; else they are hashed. */
struct ids {
	const char *what;
	PROFILE_TABLE(uint64_t) list;
	uint32_t *slots, mask;
};

struct part {
	size_t first, end; /* offsets in the message */
};

struct pprof_reader {
	struct profile *p;
	struct bytes in;
	struct ids mappings, functions, locations;
	struct part locations_part, samples_part;
	/* What one sample is collected in. */
	PROFILE_TABLE(uint32_t) stack;
	PROFILE_TABLE(struct profile_label) labels;
	/* Location lists that were read before, as they are in the file, and what stack they are. */
	struct seen {
		uint32_t off, size, stack;
	} * seen;
	uint32_t string_max; /* the largest number of a string that was referred to */
};

/* ---- fields ---- */

/* False at the end, and where there is no field: then @c has failed. */
bool pprof_field(struct cursor *c, struct field *f);
struct cursor pprof_cursor(const struct pprof_reader *r, struct bytes b);
int pprof_err_wire(const struct cursor *c, struct err *err);
int pprof_err_kind(const struct field *f, struct err *err);
/* What is kept of a reference to a string; whether it is there is seen when all strings were read. */
uint32_t pprof_string(struct pprof_reader *r, uint64_t v);
/*
 * The numbers of a message's fields 1 to @n: of each the last, into ret[its number], else 0. Those of the
 * bits in @strings refer to strings.
 */
int pprof_numbers(struct pprof_reader *r, struct bytes b, uint32_t n, uint32_t strings, uint64_t *ret,
		  struct err *err);

/* ---- numbers of entries ---- */

int pprof_id_add(struct pprof_reader *r, struct ids *ids, uint64_t id, struct err *err);
/* All are there: from now on they can be found. */
int pprof_ids_end(struct pprof_reader *r, struct ids *ids, struct err *err);
void pprof_ids_done(struct pprof_reader *r, struct ids *ids);

static inline uint64_t pprof_id_hash(uint64_t id)
{
	return hash_mix(id, 0x2545f4914f6cdd1d);
}

/* PROFILE_NONE: there is none. */
static inline uint32_t pprof_id_find(const struct ids *ids, uint64_t id)
{
	if (!ids->slots)
		return id - 1 < ids->list.n ? (uint32_t)(id - 1) : PROFILE_NONE;
	for (uint64_t at = pprof_id_hash(id) & ids->mask; ids->slots[at]; at = (at + 1) & ids->mask)
		if (ids->list.p[ids->slots[at] - 1] == id)
			return ids->slots[at] - 1;
	return PROFILE_NONE;
}

/* ---- tables ---- */

/* All but locations and samples; of these, where they are. */
int pprof_read_tables(struct pprof_reader *r, struct err *err);
int pprof_read_location(struct pprof_reader *r, struct bytes b, struct err *err);
