/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of all metrics. It only grows: a series lives as long as the process, so that its users may
 * keep its address. A lookup takes the lock; counting does not. metrics_write.c formats them.
 */
#include "base/metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include "base/internal.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"

#define LABELS_MAX 8

struct collector {
	void (*fn)(void *arg);
	void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t collected = PTHREAD_COND_INITIALIZER;
/* all under the lock */
static struct map by_key;      /* from name and label values, each with its NUL, to struct metric */
static struct metric **series; /* all of them */
static size_t n_series, n_series_room;
static struct collector *collectors;
static size_t n_collectors;
static unsigned n_collecting; /* threads that run callbacks now */

/* `a="x",b="y"`. */
static void add_labels(struct buf *out, struct str names, const char *const *values)
{
	for (size_t i = 0; names.size; i++) {
		if (i)
			buf_add_char(out, ',');
		buf_add_str(out, str_cut(&names, ','));
		buf_add_str(out, STR("=\""));
		for (const char *p = values[i]; *p; p++) {
			if (*p == '\\' || *p == '"')
				buf_add_char(out, '\\');
			if (*p == '\n')
				buf_add_str(out, STR("\\n"));
			else
				buf_add_char(out, *p);
		}
		buf_add_char(out, '"');
	}
}

static struct metric *series_new(const struct metric_family *family, const char *const *values)
{
	struct metric *m = NEW(struct metric);
	struct buf labels = { 0 };

	m->family = family;
	add_labels(&labels, str_of(family->labels), values);
	m->labels = buf_cstr(&labels); /* takes the buffer */
	if (family->type == METRIC_HISTOGRAM) {
		assert(family->bounds);
		while (family->bounds[m->n_bounds] != 0)
			m->n_bounds++;
		m->buckets = mem_zalloc((m->n_bounds + 1) * sizeof(m->buckets[0]));
	}
	VEC_GROW(series, n_series, n_series_room);
	series[n_series++] = m;
	return m;
}

struct metric *metric_get(const struct metric_family *family, ...)
{
	const char *values[LABELS_MAX];
	AUTO(buf_done) struct buf key = { 0 };
	struct str names = str_of(family->labels);
	struct metric *m;
	size_t n = 0;
	va_list ap;

	buf_add(&key, family->name, strlen(family->name) + 1);
	va_start(ap, family);
	while (names.size) {
		str_cut(&names, ',');
		assert(n < LABELS_MAX);
		values[n] = va_arg(ap, const char *);
		buf_add(&key, values[n], strlen(values[n]) + 1);
		n++;
	}
	va_end(ap);

	pthread_mutex_lock(&lock);
	m = map_get(&by_key, buf_bytes(&key));
	if (!m) {
		m = series_new(family, values);
		map_put(&by_key, buf_bytes(&key), m);
	}
	pthread_mutex_unlock(&lock);
	assert(m->family->type == family->type);
	return m;
}

void metric_add(struct metric *m, int64_t n)
{
	assert(m->family->type != METRIC_HISTOGRAM);
	assert(n >= 0 || m->family->type == METRIC_GAUGE);
	atomic_fetch_add_explicit(&m->value, n, memory_order_relaxed);
}

void metric_set(struct metric *m, int64_t value)
{
	assert(m->family->type != METRIC_HISTOGRAM);
	atomic_store_explicit(&m->value, value, memory_order_relaxed);
}

int64_t metric_value(const struct metric *m)
{
	return atomic_load_explicit(&m->value, memory_order_relaxed);
}

void metric_observe(struct metric *m, double value)
{
	double sum = atomic_load_explicit(&m->sum, memory_order_relaxed);
	unsigned i = 0;

	assert(m->family->type == METRIC_HISTOGRAM);
	assert(value == value); /* NaN would spoil the sum for good */
	while (i < m->n_bounds && value > m->family->bounds[i])
		i++;
	atomic_fetch_add_explicit(&m->buckets[i], 1, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&m->sum, &sum, sum + value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

void metrics_on_collect(void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	collectors = mem_realloc(collectors, n_collectors + 1, sizeof(*collectors));
	collectors[n_collectors++] = (struct collector){ fn, arg };
	pthread_mutex_unlock(&lock);
}

void metrics_off_collect(void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_collectors; i++) {
		if (collectors[i].fn != fn || collectors[i].arg != arg)
			continue;
		memmove(&collectors[i], &collectors[i + 1], (n_collectors - i - 1) * sizeof(*collectors));
		n_collectors--;
		break;
	}
	/* It may be running in another thread, and @arg must stay valid until it has returned. */
	while (n_collecting)
		pthread_cond_wait(&collected, &lock);
	pthread_mutex_unlock(&lock);
}

void metrics_collect(void)
{
	AUTO(mem_freep) struct collector *copy = NULL;
	size_t n;

	pthread_mutex_lock(&lock);
	n = n_collectors;
	copy = NEW_N(struct collector, n);
	if (n)
		memcpy(copy, collectors, n * sizeof(*copy));
	n_collecting++;
	pthread_mutex_unlock(&lock);

	for (size_t i = 0; i < n; i++)
		copy[i].fn(copy[i].arg);

	pthread_mutex_lock(&lock);
	if (--n_collecting == 0)
		pthread_cond_broadcast(&collected);
	pthread_mutex_unlock(&lock);
}

struct metric **metrics_all(size_t *ret_n)
{
	struct metric **copy;

	pthread_mutex_lock(&lock);
	copy = NEW_N(struct metric *, n_series);
	if (n_series)
		memcpy(copy, series, n_series * sizeof(*copy));
	*ret_n = n_series;
	pthread_mutex_unlock(&lock);
	return copy;
}
