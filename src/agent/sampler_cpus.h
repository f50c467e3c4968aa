/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processors, and the perf events on them.
 */
#pragma once

#include "agent/sampler.h"

#define SAMPLER_MAX_CPUS 4096

/* Read a list as "0-3,5" into @set. ERR_INVALID: it is none, or has a number from SAMPLER_MAX_CPUS on. */
int sampler_cpus_parse(struct str list, bool *set, struct err *err);
/* The processors that are online. */
int sampler_cpus_online(bool *set, struct err *err);

/* Whether there is a counter of cycles. Virtual machines mostly hide it. */
bool sampler_has_cycles(void);

/*
 * Open an event that interrupts processor @cpu (-1: any) while @pid runs (-1: all) at the rate of @o; @attr has the other
 * settings of the caller. Returns the descriptor, or -1 with a text that says what would permit it.
 */
struct perf_event_attr;
int sampler_event_open(const struct sampler_options *o, const struct perf_event_attr *attr, int pid, int cpu,
		       struct err *err);
