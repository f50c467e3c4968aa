/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters, gauges and histograms, written in Prometheus' text format (0.0.4) with HELP and TYPE.
 *
 * A family is registered once, by a static definition. A series of it is looked up by its label values and
 * then kept: its address is valid for the life of the process, and adding to it is one atomic operation.
 * Label values must come from a small closed set, never from a request.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include "base/buf.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_family {
	const char *name; /* "lode_http_refused_total" */
	const char *help;
	enum metric_type type;
	const char *labels;   /* "code,type", or "" */
	const double *bounds; /* histogram: upper bounds in rising order, ended by 0 */
};

struct metric; /* one series */

/* The series of @family with these label values (as many as it has labels), created by the first call. */
struct metric *metric_get(const struct metric_family *family, ...);
void metric_add(struct metric *m, int64_t n);
void metric_set(struct metric *m, int64_t value);
void metric_observe(struct metric *m, double value); /* histogram */
int64_t metric_value(const struct metric *m);        /* counter, gauge */

/* A lookup and an addition in one line, where speed does not matter: metric_count(&family, "200",
 * "debuginfo"). */
#define metric_count(family, ...) metric_add(metric_get((family), ##__VA_ARGS__), 1)

/* Append all metrics, sorted by name. Callbacks registered by metrics_on_collect() run first, to set
 * gauges. */
void metrics_write(struct buf *out);
void metrics_on_collect(void (*fn)(void *arg), void *arg);
/* After it returns the callback does not run in any thread. Must not be called from a callback. */
void metrics_off_collect(void (*fn)(void *arg), void *arg);
