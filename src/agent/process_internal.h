/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of processes, for its files: process.c (which ones there are, their state and labels), process_maps.c (their
 * mappings), process_ended.c (those that had ended before they were read).
 */
#pragma once

#include "agent/cost.h"
#include "agent/process.h"

struct processes {
	struct processes_options o;
	uint64_t asked_ticks; /* the earliest start of the processes that are asked for; 0: not known */
	struct files *files;
	struct label_maker *labels;
	struct sampler *sampler;
	struct map by_pid; /* struct process * */
	size_t made_bytes;
	struct python_reader python;
	struct process_memory *memory;
	struct cost_share reading, reading_made; /* mappings; perf maps */
	struct cost_share opening;               /* files again, by the mappings of a process */
	int64_t sweep_ms;
	struct processes_stats stats;
	struct sampler_mapping *given; /* scratch */
	size_t room_given;
};

/* The process with this number, read if it was not known. NULL: there is none. */
struct process *process_get(struct processes *p, uint32_t pid);
void process_label(struct processes *p, struct process *of);

/* ---- process_maps.c ---- */

void process_drop_maps(struct processes *p, struct process *of);
/* Read the mappings of a running process in place of those that it has. -1: there are none, as it has ended. */
int process_read_maps(struct processes *p, struct process *of);
/* The same from lines in rising order, of a process that has ended. */
struct recent_process;
void process_take_lines(struct processes *p, struct process *of, const struct recent_process *from);
/* Give its mappings to the sampler. The heads of all files are known. */
void process_give(struct processes *p, struct process *of);

/* ---- process_ended.c ---- */

/* CLOCK_MONOTONIC of its start, or a little before; 0: not known. */
int64_t process_start_ns(const struct process *of);

/* The mappings of a process that has ended, by the kernel's records of them. False: they are not known. */
bool process_recover(struct processes *p, struct process *of);
