/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the sampler (sampler.c: processes, files, samples that wait) and the ways to interrupt processors:
 * sampler_bpf.c, sampler_perf.c, and the one in memory of tests.
 */
#pragma once

#include "agent/sampler.h"

struct sampler_file {
	uint32_t file; /* number with generation; valid if @used */
	uint32_t generation;
	bool used;
	enum sampler_table {
		SAMPLER_TABLE_NONE,
		SAMPLER_TABLE_SET,
		SAMPLER_TABLE_NEVER,
		SAMPLER_TABLE_EVICTED
	} state;
	struct bytes table;  /* kept by the implementation until its file_drop() */
	int64_t last_use_ns; /* of a frame walked here; ops->file_used() has those of BPF */
	int64_t dropped_ns;
};

struct sampler_process {
	uint32_t pid;
	uint64_t start_ticks;
	struct sampler_mapping *mappings;
	size_t n_mappings;
};

struct sampler_ops {
	/*
	 * Wait up to @timeout_ms, then hand everything over: sampler_take(), sampler_tell(). With @timeout_ms 0 it only
	 * drains.
	 */
	int (*poll)(struct sampler *s, int timeout_ms, struct err *err);
	int (*fd)(const struct sampler *s);
	/* Mappings are checked by the caller. ERR_LIMIT: no room. Takes effect for the next interrupt. */
	int (*process_set)(struct sampler *s, const struct sampler_process *p, struct err *err);
	void (*process_drop)(struct sampler *s, uint32_t pid);
	/*
	 * Keep @table, which is checked and fits the limit, and use it. *ret_kept is the copy, which stays valid until
	 * file_drop(). An empty one: frames of the file are walked by frame pointers.
	 */
	int (*file_table)(struct sampler *s, uint32_t file, struct bytes table, struct bytes *ret_kept,
			  struct err *err);
	/* Forget the table, if there is one. @evicted: the file itself stays. */
	void (*file_drop)(struct sampler *s, uint32_t file, bool evicted);
	/* When a frame of the file was last walked elsewhere than here, CLOCK_MONOTONIC; 0: never. */
	int64_t (*file_used)(struct sampler *s, uint32_t file);
	void (*stats)(struct sampler *s, struct sampler_stats *add);
	void (*close)(struct sampler *s); /* frees the implementation's part */
};

struct sampler {
	const struct sampler_ops *ops;
	void *impl;
	struct sampler_options options; /* defaults filled in */
	struct sampler_about about;
	char about_text[160];
	char *lost[8];
	struct map processes; /* pid -> struct sampler_process */
	struct sampler_file *files;
	size_t n_files, room_files;
	size_t n_used, n_tables, n_mappings, table_bytes;
	const struct sampler_handler *handler; /* during sampler_poll() */
	struct sampler_stats stats;
};

/* With the defaults in place of zeros. ERR_INVALID: out of range. */
int sampler_options_check(struct sampler_options *o, struct err *err);
/* A sampler over @ops; @impl is passed to it as s->impl, and belongs to it. @options are checked ones. */
struct sampler *sampler_new(const struct sampler_ops *ops, void *impl, enum sampler_kind kind,
			    const struct sampler_options *options);
/* Add a line to sampler_about.lost. */
void sampler_note_lost(struct sampler *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From ops->poll(): a sample whose stack is walked, or, if it has @raw and ended for the lack of a process, a mapping or a
 * table, one that may have to wait. */
void sampler_take(struct sampler *s, const struct sampler_sample *sample);
void sampler_tell(struct sampler *s, const struct sampler_event *event);

const struct sampler_process *sampler_process_get(const struct sampler *s, uint32_t pid);
struct sampler_file *sampler_file_get(const struct sampler *s,
				      uint32_t file); /* NULL: dropped, or of no file */
