/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of profile: growing tables, their index, the wire format of profile.proto. */
#pragma once

#include "base/hash_index.h"
#include "profile/profile.h"

#define PROFILE_MAX_ENTRIES (1u << 31) /* of one table */

/*
 * Make room for one more entry at t->p[t->n]. false: no memory is left, or the limit was reached.
 * profile_room() makes room for @n more.
 */
bool profile_grow(struct profile *p, void **table, uint32_t *room, uint64_t want, size_t entry_size);
#define profile_room(profile, t, more)             \
	((uint64_t)(t)->n + (more) <= (t)->room || \
	 profile_grow((profile), (void **)&(t)->p, &(t)->room, (uint64_t)(t)->n + (more), sizeof(*(t)->p)))
/* Append @entry; false as above. */
#define profile_push(profile, t, entry) \
	(profile_room((profile), (t), 1) && ((t)->p[(t)->n++] = (entry), true))
/* Let the table have at least @want entries; new ones are zero. false as above. */
bool profile_extend_to(struct profile *p, void **table, uint32_t *n, uint32_t *room, uint64_t want,
		       size_t entry_size);
#define profile_extend(profile, t, want) \
	profile_extend_to((profile), (void **)&(t)->p, &(t)->n, &(t)->room, (want), sizeof(*(t)->p))
bool profile_room_samples(struct profile *p, uint32_t more);
int profile_err_memory(const struct profile *p, struct err *err);
int64_t profile_scaled(int64_t v, double scale); /* rounded, and within int64_t */
/* Count @more bytes of memory. false: the limit was reached, or they are not granted. */
bool profile_charge(struct profile *p, uint64_t more);
void profile_uncharge(struct profile *p, uint64_t less);
/* @n zeroed elements that count as memory of @p; NULL as above. profile_release() frees them, with the same numbers. */
void *profile_alloc(struct profile *p, uint64_t n, size_t size);
void profile_release(struct profile *p, void *m, uint64_t n, size_t size);
/* Free a table that is not the profile's own, but whose memory counts as the profile's. */
#define profile_table_free(profile, t) profile_release((profile), (t)->p, (t)->room, sizeof(*(t)->p))
/* Free the room of a table after its first @n entries. */
void profile_cut(struct profile *p, void **table, uint32_t *room, uint32_t n, size_t size);
#define profile_trim(profile, t) profile_cut((profile), (void **)&(t)->p, &(t)->room, (t)->n, sizeof(*(t)->p))
/* The bytes that a string takes in the arena. */
#define PROFILE_STRING_SIZE(size) (((uint64_t)(size) + 16) & ~(uint64_t)15)

/* The stacks that one calls: the first of them, and the next one with the same callers; 0: none. */
struct stack_link {
	uint32_t child, next;
};

struct profile_index {
	uint64_t seed;
	bool failed; /* the limit of memory was reached */
	struct hash_index strings, functions, mappings, locations, stacks, label_sets, samples;
	PROFILE_TABLE(struct stack_link) links; /* of the stacks; build_stacks.c */
};
struct profile_index *profile_index_of(struct profile *p);
/* Note that the limit of memory was reached. Returns 0. */
uint32_t profile_build_fail(struct profile_index *x);
/* Let a hash table have room for one more. false: the limit was reached. */
bool profile_index_reserve(struct profile *p, struct hash_index *h,
			   uint64_t (*hash_of)(const struct profile *p, uint32_t i));
/* Empty a hash table and free its room. */
void profile_index_restart(struct profile *p, struct hash_index *h);
/* Is there such a stack? As long as stacks are added through the index. */
bool profile_has_stack(struct profile *p, uint32_t callers, uint32_t location);
void profile_index_free(struct profile_index *x);
/* A table was changed without the index: the next user of the index builds it anew. */
void profile_index_drop(struct profile *p);

/* ---- profile.proto's field numbers ---- */

enum {
	PPROF_SAMPLE_TYPE = 1,
	PPROF_SAMPLE,
	PPROF_MAPPING,
	PPROF_LOCATION,
	PPROF_FUNCTION,
	PPROF_STRING,
	PPROF_DROP_FRAMES,
	PPROF_KEEP_FRAMES,
	PPROF_TIME,
	PPROF_DURATION,
	PPROF_PERIOD_TYPE,
	PPROF_PERIOD,
	PPROF_COMMENT,
	PPROF_DEFAULT_TYPE,
	PPROF_DOC_URL,
};

/*
 * Decompress *in into @room, if it is compressed; then *in is @room. ERR_LIMIT: it is larger than @limits;
 * ERR_INVALID: it is empty, or compressed twice.
 */
int profile_unpack(struct bytes *in, const struct profile_limits *limits, struct buf *room, struct err *err);
void profile_unpack_done(const struct profile_limits *limits, struct buf *room);

/*
 * Bytes of a text or an entry are about to be used. They count each time, since entries of a dictionary may be used again and
 * again. true: the deadline has passed; the first error stays in *why.
 */
static inline bool profile_is_late(struct deadline *d, size_t size, struct err *why)
{
	if (!deadline_over(d, 1 + (uint32_t)MIN(size, (size_t)DEADLINE_STEPS)))
		return false;
	if (!why->kind)
		(void)deadline_error(d, why);
	return true;
}
