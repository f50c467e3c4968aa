/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by base's own files and its tests.
 */
#pragma once

#include "base/metrics.h"
#include "base/view.h"

/*
 * How many of @n_cpus the cgroup allows: the smallest quota (cgroup v2, cpu.max) between our group and the
 * root, rounded up, at least 1. @membership is the text of /proc/self/cgroup, @root the folder where cgroups
 * are mounted.
 */
unsigned pool_cpus_in_cgroup(unsigned n_cpus, struct str membership, const char *root);

/*
 * The memory of this machine that the cgroup allows, in bytes: @machine, or the smallest of memory.max and
 * memory.high. Arguments as above.
 */
uint64_t budget_memory_in_cgroup(uint64_t machine, struct str membership, const char *root);

/* Call @fn with the text of @file of our cgroup and of each one above it that has such a file. */
void cgroup_each_limit(struct str membership, const char *root, const char *file,
		       void (*fn)(void *arg, struct str text), void *arg);

/* One series. It is never freed. */
struct metric {
	const struct metric_family *family;
	const char *labels;    /* as they are printed, without the braces */
	_Atomic int64_t value; /* counter, gauge */
	unsigned n_bounds;
	_Atomic uint64_t *buckets; /* n_bounds + 1; each counts its own range only */
	_Atomic double sum;
};

void metrics_collect(void);                 /* run the callbacks */
struct metric **metrics_all(size_t *ret_n); /* a copy of the list, on the heap */
