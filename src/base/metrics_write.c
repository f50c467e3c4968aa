/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics in Prometheus' text format, version 0.0.4: families by name, within them series by labels, so
 * that two outputs can be compared line by line.
 */
#include "base/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"

static const char *const type_names[] = {
	[METRIC_COUNTER] = "counter",
	[METRIC_GAUGE] = "gauge",
	[METRIC_HISTOGRAM] = "histogram",
};

static int by_name_and_labels(const void *a, const void *b)
{
	const struct metric *x = *(struct metric *const *)a, *y = *(struct metric *const *)b;
	int r = strcmp(x->family->name, y->family->name);

	return r ? r : strcmp(x->labels, y->labels);
}

static void metrics_add_head(struct buf *out, const struct metric_family *f)
{
	buf_printf(out, "# HELP %s ", f->name);
	for (const char *p = f->help; *p; p++) {
		if (*p == '\n')
			buf_add_str(out, STR("\\n"));
		else if (*p == '\\')
			buf_add_str(out, STR("\\\\"));
		else
			buf_add_char(out, *p);
	}
	buf_printf(out, "\n# TYPE %s %s\n", f->name, type_names[f->type]);
}

/* The shortest text that reads back as the same number. */
static void metrics_add_double(struct buf *out, double v)
{
	char text[32];

	if (isinf(v)) {
		buf_add_str(out, v > 0 ? STR("+Inf") : STR("-Inf"));
		return;
	}
	snprintf(text, sizeof(text), "%.15g", v);
	if (strtod(text, NULL) != v)
		snprintf(text, sizeof(text), "%.17g", v);
	buf_add_str(out, str_of(text));
}

static void add_bucket(struct buf *out, const struct metric *m, double bound, uint64_t n)
{
	buf_printf(out, "%s_bucket{%s%sle=\"", m->family->name, m->labels, *m->labels ? "," : "");
	metrics_add_double(out, bound);
	buf_printf(out, "\"} %" PRIu64 "\n", n);
}

static void metrics_add_name(struct buf *out, const struct metric *m, const char *suffix)
{
	buf_printf(out, *m->labels ? "%s%s{%s} " : "%s%s%s ", m->family->name, suffix, m->labels);
}

/* The count is the sum of the buckets, not a counter of its own, so that it always equals the last bucket. */
static void metrics_add_histogram(struct buf *out, struct metric *m)
{
	uint64_t n = 0;

	for (unsigned i = 0; i <= m->n_bounds; i++) {
		n += atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
		add_bucket(out, m, i < m->n_bounds ? m->family->bounds[i] : INFINITY, n);
	}
	metrics_add_name(out, m, "_sum");
	metrics_add_double(out, atomic_load_explicit(&m->sum, memory_order_relaxed));
	buf_add_char(out, '\n');
	metrics_add_name(out, m, "_count");
	buf_printf(out, "%" PRIu64 "\n", n);
}

void metrics_write(struct buf *out)
{
	AUTO(mem_freep) struct metric **all = NULL;
	const char *name = NULL;
	size_t n;

	metrics_collect();
	all = metrics_all(&n);
	qsort(all, n, sizeof(*all), by_name_and_labels);
	for (size_t i = 0; i < n; i++) {
		struct metric *m = all[i];

		if (!name || strcmp(name, m->family->name) != 0)
			metrics_add_head(out, m->family);
		name = m->family->name;
		if (m->family->type == METRIC_HISTOGRAM) {
			metrics_add_histogram(out, m);
			continue;
		}
		metrics_add_name(out, m, "");
		buf_printf(out, "%" PRId64 "\n", metric_value(m));
	}
}
