/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile that is being added: the part of the work that is done before the writer's turn, and the checks.
 */
#pragma once

#include "profilestore/internal.h"

/* One set of labels among the samples of a profile. */
struct add_group {
	struct profilestore_label *labels; /* by name */
	size_t n_labels;
};

struct add {
	struct job job;
	const struct profile *p; /* borrowed until it is done */
	struct arena arena;
	int64_t time_ms, duration_ms;
	bool has_time; /* of its own */
	bool is_named; /* by a label */
	bool is_delta; /* its types end in ":delta" */
	struct str name, sender;
	struct add_group *groups;
	uint32_t n_groups;
	uint32_t *group_of;           /* of each set of labels of the profile */
	uint32_t n_mended, n_dropped; /* labels */
	struct profilestore_receipt receipt;
	struct profilestore_batch *batch; /* NULL: it came alone */
	/* the callback of profilestore_add() */
	void (*done)(void *arg, const struct profilestore_receipt *r, const struct err *err);
	void *arg;
};

/*
 * add_labels.c: make the groups of @a, from the labels that came with the profile and those of its samples. Those that
 * had to be changed or dropped are counted.
 */
int add_labels(struct add *a, const struct profilestore_upload *u, struct err *err);

/*
 * add_stacks.c: the number of each stack in the metadata store, by its number in the profile; only of stacks
 * with a value. NULL: @err.
 */
uint32_t *add_stacks(struct profilestore *s, const struct profile *p, struct err *err);
