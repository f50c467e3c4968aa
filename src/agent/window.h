/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of some seconds, as one profile: stacks as a trie, each set of labels a set of labels of samples. Frames of the
 * kernel and of code that a process made have names; those of files have their build ID and address in the file, so that a
 * server names them.
 *
 * A stack that is not complete ends with a mark, a frame whose name is the reason in brackets: "[no row in libfoo.so]". So a
 * flame graph shows how much is missing, and where.
 */
#pragma once

#include "agent/kernel.h"
#include "agent/process.h"
#include "profile/profile.h"

/* Where frames get their names; borrowed. */
struct window_sources {
	struct kernel_names *kernel;
	struct processes *processes;
	struct label_maker *labels;
	struct mapped_file *(*file)(void *arg, uint32_t number); /* NULL: not known any more */
	void *arg;
	struct build_id kernel_id; /* of the running kernel; size 0: not known */
};

struct window_options {
	unsigned frequency_hz;
	bool off_cpu;        /* a second value: time off the processor */
	uint64_t max_memory; /* of the profile; 0: WINDOW_MEMORY */
	bool is_run;         /* it is not ended when it is full: samples after that are lost */
	bool only_known; /* drop samples of processes that are not known: it is not known whether they are asked for */
};
#define WINDOW_MEMORY ((uint64_t)64 << 20)

struct window;
struct window *window_new(const struct window_sources *s, const struct window_options *o);
void window_free(struct window *w); /* takes NULL */
enum window_outcome {
	WINDOW_FILTERED, /* by a rule of the labels, or since its process is not asked for */
	WINDOW_ADDED,
	WINDOW_LOST, /* there is no room; window_end() counts it */
};
enum window_outcome window_add(struct window *w, const struct sampler_sample *s);
/* It needs more memory than it may: end it now. */
bool window_is_full(const struct window *w);
/* Frames of Python in all samples so far. */
struct window_python {
	uint64_t n_frames, n_named;
	uint64_t
		n_early; /* samples of an interpreter that were taken before it was known: they show its own functions */
};
void window_python_stats(const struct window *w, struct window_python *ret);
/* Frames of code that was made at run time in all samples so far; named: by a perf map. */
struct window_made {
	uint64_t n_frames, n_named;
};
void window_made_stats(const struct window *w, struct window_made *ret);
uint64_t window_n_samples(const struct window *w);
/*
 * The profile of all samples since the last call; NULL: there were none. @wall_ns: the time of its start, @duration_ns
 * long. *ret_lost: samples that had no room.
 */
struct profile *window_end(struct window *w, int64_t wall_ns, int64_t duration_ns, uint64_t *ret_lost);
