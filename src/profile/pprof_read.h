/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the reader of profile.proto.
 *
 *   pprof_wire.c    errors of fields; numbers of entries
 *   pprof_tables.c  everything except samples
 *   pprof_read.c    samples; the whole
 */
#pragma once

#include "profile/internal.h"
#include "wire/proto.h"

/* The IDs of entries in the file. Mostly they are 1, 2, 3; else they are hashed. */
struct ids {
	const char *what;
	PROFILE_TABLE(uint64_t) list;
	uint32_t *slots, mask;
};

struct part {
	size_t first, end; /* offsets in the message */
	uint32_t n;        /* fields in it */
};

struct pprof_reader {
	struct profile *p;
	struct bytes in;
	struct ids mappings, functions, locations;
	struct part locations_part, samples_part;
	/* The stack of the sample that is being read. */
	PROFILE_TABLE(uint32_t) stack;
	PROFILE_TABLE(struct profile_label) labels;
	/* Location lists that were read before, as bytes of the file, and their stacks. */
	struct seen {
		uint32_t off, size, stack;
	} * seen;
	uint32_t seen_mask;
	uint32_t string_max; /* the largest string index that was used */
};

/* ---- fields ---- */

static inline struct cursor pprof_cursor(const struct pprof_reader *r, struct bytes b)
{
	return cursor_at(b, false, (uint64_t)(b.p ? b.p - r->in.p : 0));
}
int pprof_err_wire(const struct cursor *c, struct err *err);
int pprof_err_kind(uint32_t number, uint32_t wire, struct err *err);
/*
 * The number to store for a string index; whether the string exists is checked after all strings were read.
 */
uint32_t pprof_string(struct pprof_reader *r, uint64_t v);
/*
 * The fields 1 to @n of a message that are numbers: of each the last, in ret[its number], else 0. Those of
 * the bits in @strings are string indices.
 */
int pprof_numbers(struct pprof_reader *r, struct bytes b, uint32_t n, uint32_t strings, uint64_t *ret,
		  struct err *err);

/* ---- numbers of entries ---- */

static inline int pprof_id_add(struct pprof_reader *r, struct ids *ids, uint64_t id, struct err *err)
{
	if (!id)
		return err_set(err, ERR_INVALID, "has the ID 0");
	return profile_push(r->p, &ids->list, id) ? 0 : profile_err_memory(r->p, err);
}
/* All entries were read: from now on they can be found. */
int pprof_ids_end(struct pprof_reader *r, struct ids *ids, struct err *err);
void pprof_ids_done(struct pprof_reader *r, struct ids *ids);

static inline uint64_t pprof_id_hash(uint64_t id)
{
	return hash_mix(id, 0x2545f4914f6cdd1d);
}

/* PROFILE_NONE: no entry has this ID. */
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

/* Everything except locations and samples; of these, which part of the message they are in. */
int pprof_read_tables(struct pprof_reader *r, struct err *err);
int pprof_read_location(struct pprof_reader *r, struct bytes b, struct err *err);
