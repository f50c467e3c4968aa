/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that are sampled: their mappings of code, given to the sampler, and their labels. A process is known by its
 * number and its start time, so that one that gets the same number later is another one.
 */
#pragma once

#include "agent/files.h"
#include "agent/labels.h"
#include "agent/maps.h"
#include "agent/python.h"
#include "agent/recent.h"
#include "agent/sampler.h"
#include "profile/perf_map.h"

#define PROCESSES_MAX 8192u

/* A mapping that may be executed. */
struct process_map {
	uint64_t start, limit, offset;
	struct mapped_file *file; /* NULL: memory without a file, or one that cannot be read */
	bool has_file;
};

struct process {
	uint32_t pid, parent;
	uint64_t start_ticks;
	struct process_map *maps; /* rising */
	size_t n_maps, room_maps;
	unsigned n_unread; /* mappings of files whose heads are not read */
	bool is_kernel;    /* a thread of the kernel */
	bool is_set;       /* the sampler has its mappings */
	bool is_read;      /* its mappings were read; false: it must be tried again */
	bool was_read;     /* they were read before, or it was tried */
	bool is_labelled;  /* @labels and @is_kept are known */
	bool is_asked;     /* it is one of those that are asked for, whatever parent it has by now */
	bool is_kept;      /* false: its samples are dropped, by a rule or since it is not asked for */
	bool has_odd_maps; /* a part of them was left out: too many, or files without a reader */
	bool has_ended; /* it had ended when it was to be read: its mappings are by records, or its parent's */
	bool is_fork;   /* it runs the program of its parent */
	int64_t seen_ns;              /* of the sample that made it known */
	uint32_t labels, label_round; /* of the maker of labels */
	int64_t label_again_ms;       /* label it again then: its container had no name yet; 0: no */
	char comm[16];
	unsigned n_dropped; /* so often it was judged, and was not kept */
	int64_t used_ms, next_read_ms;
	int64_t read_ns;           /* before its mappings were read last */
	int64_t from_ns, until_ns; /* with @has_ended: as in struct sampler_owner */
	uint32_t copy_of;          /* likewise */
	int64_t ended_ms;          /* its end was noticed then; 0: it runs. Samples of it may be under way */
	struct python_process *python; /* names of its functions; NULL: no interpreter of CPython */
	struct perf_map *made;         /* code that it made while it ran; NULL: not looked for */
	int64_t next_made_ms;
};

struct processes_options {
	const int *pids; /* only these and their descendants; n_pids 0: all */
	size_t n_pids;
	const char *proc;      /* NULL: /proc; for tests */
	struct recent *recent; /* borrowed; NULL: processes that have ended have no mappings */
};

struct processes;
struct processes *processes_new(const struct processes_options *o, struct files *files,
				struct label_maker *labels, struct sampler *sampler);
void processes_free(struct processes *p); /* takes NULL */

/* An event of the sampler. */
void processes_event(struct processes *p, const struct sampler_event *e);
/* The process of a sample; NULL: not known (any more). */
struct process *processes_find(struct processes *p, uint32_t pid, uint64_t start_ticks);
/* A file's head is read: processes that waited for it are given to the sampler. */
void processes_file_known(struct processes *p, struct mapped_file *f);
/* Retry those that could not be read; forget those that ended without an event, and the least recently sampled ones. */
void processes_tick(struct processes *p);
/* Another sample in code without a file: the name of the function, by the map that the process writes. Empty: none. */
struct str processes_made_name(struct processes *p, struct process *of, uint64_t addr);
/*
 * Open a mapped file again: by one of the processes that have it and run. Negative: there is none, or opening files
 * has used up its share of the time. *ret_pid: that process; 0 for the vDSO, of which this process has a copy.
 */
int processes_open_file(struct processes *p, const struct mapped_file *f, uint32_t *ret_pid);
/*
 * Open a file of a process as it was mapped: by its mapping, or by its path below the root of the process; if that root cannot
 * be opened, below that of the first process, or here. Negative: err_is_scarce(errno) for want of descriptors or memory.
 */
int process_open_mapped(const char *proc, uint32_t pid, const struct maps_line *line);
/* The same by the path alone, of a process that has ended: @pid is one that most likely has the same root. */
int process_open_path(const char *proc, uint32_t pid, const struct maps_line *line);
/*
 * As process_open_mapped(), of the mapping that starts at @start now. If the process ends meanwhile its file is not looked for
 * elsewhere: the path is a stranger's, and the file may be uploaded.
 */
int process_open_at(const char *proc, uint32_t pid, uint64_t start);

struct processes_stats {
	size_t n, n_maps;
	uint64_t n_read, n_gone, n_evicted, n_limited;
	uint64_t n_recovered; /* had ended, and their mappings were known all the same */
	size_t made_bytes, python_bytes;
	uint64_t n_python_read, n_python_gone, n_python_late; /* functions of Python */
	uint64_t n_made_cut;
	int64_t read_ns; /* time spent on /proc */
};
void processes_stats(const struct processes *p, struct processes_stats *ret);
