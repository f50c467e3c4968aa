/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile on its way in: what can be made of it before it is the writer's turn, and what cannot.
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
	struct str name;
	struct add_group *groups;
	uint32_t n_groups;
	uint32_t *group_of; /* of each set of labels of the profile */
	struct profilestore_receipt receipt;
	/* of profilestore_add() */
	void (*done)(void *arg, const struct profilestore_receipt *r, const struct err *err);
	void *arg;
};

/* add_labels.c: the groups of @a, of the labels that came with it and those of its samples. */
int add_labels(struct add *a, const struct profilestore_label *labels, size_t n, struct err *err);

/* add_stacks.c: the number of each stack in @m, by its number in @a's profile; only of those that have a
 * value. NULL: see @err. */
uint32_t *add_stacks(struct profilestore *s, const struct profile *p, struct err *err);
