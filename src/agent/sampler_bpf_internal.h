/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the sampler by BPF: sampler_bpf.c (loading, attaching, polling), sampler_bpf_maps.c (tables and mappings in
 * memory that the kernel shares), sampler_bpf_records.c (records of the rings).
 */
#pragma once

#include <errno.h>

#include "agent/bpf_lazy.h"
#include "agent/sampler_ops.h"
#include "agent/sampler_pool.h"
#include "bpf/sample.h"

struct bpf_sampler {
	struct bpf_object *object;
	struct bpf_link *links[3]; /* of tracepoints */
	struct bpf_link **on_cpu;  /* [SAMPLER_MAX_CPUS] */
	size_t n_cpus;
	int64_t cpus_checked_ms;
	int64_t poll_end_ms; /* reading of samples ends then, for this call of poll() */
	bool drops;          /* records are only counted, in @n_dropped */
	uint64_t n_dropped;  /* samples */
	struct ring_buffer *rings;
	struct sampler *sampler; /* for the callbacks of libbpf */
	struct bpf_file *files;  /* shared with the kernel */
	int fd_files, fd_processes, fd_counters, fd_segments, fd_pools, fd_pythons, fd_sleepers;
	struct sampler_pool tables, mappings;
	bool in_pid_ns;
	uint32_t serial;          /* of the mappings that were set last */
	struct map process_range; /* pid -> struct sampler_range */
	struct sampler_frame frames[SAMPLER_MAX_USER];
	struct sampler_python_frame python[SAMPLER_MAX_PYTHON];
};

/* An error of libbpf, with its first warning since bpf_forget_warning(). Returns -1. */
int bpf_failed(struct err *err, int e, const char *doing);
void bpf_forget_warning(void);

/* ---- sampler_bpf_maps.c: implementations of struct sampler_ops ---- */

int bpf_table_keep(struct sampler *s, struct bytes table, struct sampler_table *ret, struct err *err);
void bpf_table_drop(struct sampler *s, struct sampler_table *t);
void bpf_file_changed(struct sampler *s, const struct sampler_file *f);
void bpf_file_added(struct sampler *s, uint32_t file);
int64_t bpf_file_used(struct sampler *s, uint32_t file);
int bpf_process_set(struct sampler *s, const struct sampler_process *p, struct err *err);
void bpf_process_drop(struct sampler *s, uint32_t pid);
int bpf_process_python(struct sampler *s, uint32_t pid, const struct bpf_python *layout, struct err *err);
bool bpf_is_asleep(struct sampler *s, uint32_t task, int64_t out_ns);
/* The pools of tables and mappings; the maps of the loaded object. */
void bpf_pools_init(struct bpf_sampler *b, size_t mapping_memory);
void bpf_pools_done(struct bpf_sampler *b);

/* ---- sampler_bpf_records.c: callbacks of the rings ---- */

/* Of a callback: libbpf ends ring_buffer__consume() with it; the record was taken. */
#define BPF_POLL_OVER (-ECANCELED)

int take_bpf_sample(void *ctx, void *data, size_t size);
int take_bpf_event(void *ctx, void *data, size_t size);
