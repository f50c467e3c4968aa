/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of processes: from their command, executable and cgroup, changed by the rules of the user; equal sets are
 * stored once, under a number.
 */
#pragma once

#include "agent/container.h"
#include "agent/relabel.h"

#define LABEL_SETS_MAX 4096u /* until label_maker_renew(); processes with further sets get LABEL_SET_OTHER */

/* The facts known of a process. */
struct label_facts {
	struct str comm;   /* of its first thread */
	struct str exe;    /* the path of its program; empty: not known */
	struct str cgroup; /* the content of /proc/PID/cgroup */
	uint32_t pid;
	bool is_kernel;
};

struct label_options {
	bool pid, exe, cgroup; /* add these, too: each value makes a series */
	/* Names of containers and pods instead of their IDs, by the files below this root folder (container.h). NULL: no. */
	const char *root;
};

enum { LABEL_SET_NONE = 0, LABEL_SET_OTHER = 1, LABEL_SETS_FIRST = 2 };

struct label_maker;
/* @rules: borrowed; NULL: none. */
struct label_maker *label_maker_new(const struct label_options *o, struct relabel *rules);
void label_maker_free(struct label_maker *m); /* takes NULL */
/* The number of the labels. false: a rule drops the process. */
bool label_maker_get(struct label_maker *m, const struct label_facts *f, uint32_t *ret);
/*
 * After label_maker_get(): the monotonic time from which the same process may get other labels, since its container has no name
 * yet; 0: it will not.
 */
int64_t label_maker_again_ms(const struct label_maker *m);
/* false: names are not looked for. */
bool label_maker_containers(const struct label_maker *m, struct container_stats *ret);
const struct agent_labels *label_maker_set(const struct label_maker *m, uint32_t number);
size_t label_maker_n(const struct label_maker *m);
/*
 * Forget all sets if there is no room for another one: numbers from before are void, and the round, which starts at 0, is
 * the next one. Otherwise an agent that runs for months would give LABEL_SET_OTHER to every new process.
 */
void label_maker_renew(struct label_maker *m);
uint32_t label_maker_round(const struct label_maker *m);
