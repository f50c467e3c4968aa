/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent: samples a machine, or some of its processes, and makes profiles of the samples.
 *
 *   sampler.h  interrupts and walks
 *   process.h  the processes: mappings, labels (labels.h, cgroup.h, relabel.h)
 *   files.h    mapped files: build IDs, tables of unwind rows
 *   parser.h   the process that parses them; confine.h: rights that are given up
 *   kernel.h   names of the kernel's functions
 *   window.h   samples as a profile
 *   sender.h   profiles to a server, spool.h while it is away
 *   home.h     debug information to that server, when it has none
 *   status.h   the agent's state, for people and for Prometheus
 *
 * An agent belongs to one thread, which calls agent_run(). Files are read, profiles are sent and debug information is uploaded
 * by threads of its own.
 */
#pragma once

#include "agent/labels.h"
#include "agent/parser.h"
#include "agent/sampler.h"
#include "profile/profile.h"

#define AGENT_WINDOW_S 10
#define CONFINED_SIZE  120

struct agent_options {
	struct sampler_options sampler;
	struct label_options labels;
	struct relabel *rules; /* borrowed; NULL: none */
	const int *pids;       /* these processes and their descendants; n_pids 0: all */
	size_t n_pids;
	int64_t window_ms; /* 0: AGENT_WINDOW_S; of profiles that are sent */
	int64_t run_ms;    /* 0: until @stopped */
	/* Called four times a second; true ends the run. */
	bool (*stopped)(void *arg);
	/* A profile of a window, which is taken. NULL: there is one window for the whole run, which agent_take() returns. */
	void (*window)(void *arg, struct profile *taken);
	void (*tick)(void *arg); /* every second; NULL: not needed */
	void *arg;
};

struct agent;
/* Samples are taken from here on. */
int agent_new(const struct agent_options *o, struct agent **ret, struct err *err);
void agent_free(struct agent *a); /* takes NULL */
/* Give up the rights that are not needed after the start (confine.h), of the whole process. A failure is in the state. */
void agent_confine(struct agent *a);
int agent_run(struct agent *a, struct err *err);
/* The profile of the run, or of the window that is not complete; NULL: no samples. */
struct profile *agent_take(struct agent *a);
const struct sampler_about *agent_about(const struct agent *a);

/* Open the file with this build ID that a process has mapped. Only in the agent's thread (tick). Negative: none has it. */
struct agent_mapped {
	int fd; /* the caller's */
	uint32_t pid;
	char *path; /* in the file system of the process; heap */
};
int agent_open_mapped(struct agent *a, const struct build_id *id, struct agent_mapped *ret);

/* All that is known, for status and metrics. */
struct agent_stats {
	int64_t start_ms; /* wall time */
	struct sampler_stats sampler;
	struct sampler_about about;
	uint64_t n_samples, n_filtered, n_lost; /* in profiles; dropped by rules; without memory */
	uint64_t ends[SAMPLER_N_ENDS];          /* of those in profiles */
	uint64_t n_windows;
	size_t n_processes, n_maps, n_label_sets;
	uint64_t n_processes_read, n_processes_gone, n_processes_recovered, n_processes_limited;
	size_t n_files, n_files_waiting, n_files_refused;
	uint64_t n_tables, n_tables_failed;
	int64_t files_cpu_ns;
	struct parser_stats parsing;
	char confined[CONFINED_SIZE]; /* why the agent's own system calls are not filtered; "": they are */
	char recent_lacks
		[CONFINED_SIZE]; /* why mappings of processes that have ended are not known; "": they are */
	size_t n_kernel_names, kernel_bytes;
	const char *kernel; /* why the kernel has no names; "": it has */
	size_t made_bytes;
	struct agent_python {
		uint64_t n_frames, n_named, n_early; /* struct window_python */
		uint64_t n_functions, n_gone;        /* code objects read; those that were gone */
		size_t bytes;
	} python;
	uint64_t n_made_frames, n_made_named; /* struct window_made */
	bool names_containers;
	struct container_stats containers;
	int64_t first_sample_ms; /* after the start; -1: none yet */
};
void agent_stats(struct agent *a, struct agent_stats *ret);
