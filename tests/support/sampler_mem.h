/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler without a kernel: a test puts samples and events in, and sees what the code under test set.
 */
#pragma once

#include "agent/sampler_ops.h"

/* @options may be NULL. Close it with sampler_close(). */
struct sampler *sampler_mem_new(const struct sampler_options *options);

/* The next sampler_poll() delivers it, in order with the events. Copied, with frames and raw part. */
void sampler_mem_sample(struct sampler *s, const struct sampler_sample *sample);
void sampler_mem_event(struct sampler *s, const struct sampler_event *event);

/* How often it was called, with success, since the sampler was made. */
size_t sampler_mem_n_process_sets(const struct sampler *s);
size_t sampler_mem_n_process_drops(const struct sampler *s);
size_t sampler_mem_n_tables(const struct sampler *s);
/* Calls of sampler_process_set() and sampler_file_table() fail from now on with ERR_LIMIT, or no longer. */
void sampler_mem_fail(struct sampler *s, bool fail);
/* No thread sleeps any more, without a record of it. */
void sampler_mem_awake(struct sampler *s);
/* When a frame of @file was last sampled, for eviction. */
void sampler_mem_used(struct sampler *s, uint32_t file, int64_t time_ns);

/* As the code under test has set them: sampler_process_get() and sampler_file_get() of sampler_ops.h. */
