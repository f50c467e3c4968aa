/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the sampler (sampler.c: processes, files, samples that wait) and the ways to interrupt processors:
 * sampler_bpf.c, sampler_perf.c, and the one in memory of tests.
 */
#pragma once

#include "agent/sampler.h"
#include "agent/sampler_pool.h"

/* A table of unwind rows. Files whose tables are equal byte for byte share one. */
struct sampler_table {
	struct bytes bytes;         /* the implementation's copy, until ops->table_drop() */
	struct sampler_range range; /* for the implementation by BPF */
	unsigned n_files;
	int64_t used_ns; /* during a search for one to evict */
};

struct sampler_file {
	uint32_t file; /* number with generation; valid if @used */
	uint32_t generation;
	bool used;
	enum sampler_table_state {
		SAMPLER_TABLE_NONE,
		SAMPLER_TABLE_SET,
		SAMPLER_TABLE_NEVER, /* frames of the file are walked by frame pointers */
		SAMPLER_TABLE_EVICTED
	} state;
	bool too_large; /* of SAMPLER_TABLE_NEVER: there is a table, but it is over the limit of all */
	struct sampler_table *table; /* of SAMPLER_TABLE_SET; else NULL */
	int64_t last_use_ns;         /* of a frame walked here; ops->file_used() has those of BPF */
	int64_t wanted_ns;           /* of the last SAMPLER_WANTED */
	int64_t dropped_ns;
};

/* Shared by the table of processes and samples that wait. */
struct sampler_process {
	unsigned n_refs;
	uint32_t pid;
	uint64_t start_ticks;
	int64_t set_ns, read_ns;   /* when it was set; before that its mappings were read */
	int64_t from_ns, until_ns; /* as in struct sampler_owner, of running processes, too */
	bool has_ended;
	uint32_t copy_of; /* as in struct sampler_owner */
	struct sampler_mapping *mappings;
	size_t n_mappings;
};

/* The result of a walk. */
struct sampler_walk {
	struct sampler_frame frames[SAMPLER_MAX_USER];
	size_t n;
	uint64_t missing; /* the address of the last frame in the process */
	uint32_t file;    /* of the last frame */
};

#define SAMPLER_EXECS 4096u /* as many as BPF reports: BPF_RECENT */
struct sampler_told {
	uint32_t pid;
	int64_t time_ns;
};

struct sampler_ops {
	/*
	 * Wait up to @timeout_ms, then hand everything over: sampler_take(), sampler_tell(). With @timeout_ms 0 it only
	 * drains. SAMPLER_MORE: not all of it, since that took too long.
	 */
	int (*poll)(struct sampler *s, int timeout_ms, struct err *err);
	int (*fd)(const struct sampler *s);
	/* Drop the samples that poll() has not handed over. Returns their number. May be NULL: there are none. */
	uint64_t (*drop_rest)(struct sampler *s);
	/* Mappings are checked by the caller. ERR_LIMIT: no room. Takes effect for the next interrupt. */
	int (*process_set)(struct sampler *s, const struct sampler_process *p, struct err *err);
	void (*process_drop)(struct sampler *s, uint32_t pid);
	/* The layout of its interpreter, for its next process_set(). NULL: frames of Python are not read. */
	int (*process_python)(struct sampler *s, uint32_t pid, const struct bpf_python *layout,
			      struct err *err);
	/* A new file: there was none of this number. May be NULL. */
	void (*file_added)(struct sampler *s, uint32_t file);
	/* Copy @table, which is checked and fits the limit, into ret->bytes. ERR_LIMIT: no room. */
	int (*table_keep)(struct sampler *s, struct bytes table, struct sampler_table *ret, struct err *err);
	void (*table_drop)(struct sampler *s, struct sampler_table *t); /* no file has it any more */
	/* The state or the table of a file has changed. May be NULL: all walks are here. */
	void (*file_changed)(struct sampler *s, const struct sampler_file *f);
	/* When a frame of the file was last walked elsewhere than here, CLOCK_MONOTONIC; 0: never. May be NULL. */
	int64_t (*file_used)(struct sampler *s, uint32_t file);
	/* Whether thread @task still sleeps since @out_ns. May be NULL: there are no such samples. */
	bool (*is_asleep)(struct sampler *s, uint32_t task, int64_t out_ns);
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
	struct sampler_table **tables; /* all different */
	size_t n_tables, room_tables;
	size_t n_used, n_table_files, n_mappings, table_bytes; /* n_table_files: of state SAMPLER_TABLE_SET */
	const struct sampler_handler *handler;                 /* during sampler_poll() */
	struct sampler_stats stats;
	/* Samples that wait; NULL: one that is being delivered. */
	struct sampler_held **held;
	size_t n_held, room_held, held_bytes;
	struct sampler_sleeps *sleeps; /* NULL: without time off the processor */
	bool hold_changed;             /* something was set since they were last walked */
	bool tells_unknown;       /* the implementation does not report unknown processes and addresses */
	struct sampler_walk walk; /* of the sample that is being delivered */
	struct sampler_told told[1024];
	struct sampler_process **ended; /* during sampler_poll(): references */
	size_t n_ended, room_ended;
	struct sampler_told execs[SAMPLER_EXECS]; /* the last one of a process, by pid modulo their number */
};

/* With the defaults in place of zeros. ERR_INVALID: out of range. */
int sampler_options_check(struct sampler_options *o, struct err *err);
/* A sampler over @ops; @impl is passed to it as s->impl, and belongs to it. @options are checked ones. */
struct sampler *sampler_new(const struct sampler_ops *ops, void *impl, enum sampler_kind kind,
			    const struct sampler_options *options);
/* Add a line to sampler_about.lost. */
void sampler_note_lost(struct sampler *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * From ops->poll(): a sample whose stack is walked, or one with @raw that is not walked or ended for the lack of a process, a
 * mapping or a table, and may have to wait.
 */
void sampler_take(struct sampler *s, const struct sampler_sample *sample);
void sampler_tell(struct sampler *s, const struct sampler_event *event);
void sampler_deliver(struct sampler *s,
		     const struct sampler_sample *sample); /* to the handler, and count it */

/* ---- sampler_tables.c ---- */

void sampler_table_leave(struct sampler *s, struct sampler_file *f, enum sampler_table_state state);
void sampler_tables_done(struct sampler *s); /* before ops->close() */

/* ---- sampler_off.c: sleeps, from the sample at their start to their end ---- */

struct sampler_sleeps *sampler_sleeps_new(void);
void sampler_sleeps_free(struct sampler_sleeps *l); /* takes NULL */
/* A sample with @sleeper has arrived; its stack may have to wait. Later its stack is walked. */
void sampler_sleep_begun(struct sampler *s, const struct sampler_sample *sample);
void sampler_sleep_walked(struct sampler *s, const struct sampler_sample *sample);
/* The thread runs again. */
void sampler_sleep_ended(struct sampler *s, uint32_t task, int64_t out_ns, int64_t in_ns);
size_t sampler_sleeps_n(const struct sampler_sleeps *l); /* takes NULL */

struct sampler_process *sampler_process_get(const struct sampler *s, uint32_t pid); /* borrowed */
struct sampler_process *sampler_process_ref(struct sampler_process *p); /* takes and returns NULL */
void sampler_process_unref(struct sampler_process *p);
struct sampler_file *sampler_file_get(const struct sampler *s,
				      uint32_t file); /* NULL: dropped, or of no file */

/* Walk the stack of @raw with the mappings of @p; NULL: SAMPLER_NO_PROCESS. */
enum sampler_end sampler_walk(struct sampler *s, const struct sampler_process *p,
			      const struct sampler_raw *raw, struct sampler_walk *ret);
enum sampler_end sampler_end_of(unsigned outcome); /* enum unwind_outcome */

/* @p was set: for samples that wait for it. They keep it when it ends. */
void sampler_hold_process(struct sampler *s, struct sampler_process *p);
void sampler_hold_run(
	struct sampler *s); /* walk the waiting samples again, and deliver those that are done */
void sampler_hold_flush(struct sampler *s); /* deliver all of them */
void sampler_hold_drop(struct sampler *s);
