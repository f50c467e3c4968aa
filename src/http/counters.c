/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of requests: by type, status and result. They have the names and labels that elfutils' server has.
 */
#include "http/request.h"

#include <stdlib.h>
#include "base/metrics.h"

/* All that the server sends: another one would count as a failure without a code. */
static const unsigned codes[] = { 200, 201, 202, 204, 206, 302, 304, 307, 400, 401, 403,
				  404, 405, 406, 409, 411, 412, 413, 414, 415, 416, 421,
				  422, 429, 499, 500, 501, 502, 503, 504, 507, 0 };
#define N_CODES     ARRAY_SIZE(codes)
#define RESULTS_MAX 16u

/* A few atomic additions for each request: they do not show beside its system calls. */
struct counters {
	const char *const *types, *const *results;
	unsigned n_types, n_results;
	struct {
		_Atomic uint64_t n, bytes, us;
	} responses[HTTP_TYPES_MAX][N_CODES];
	_Atomic uint64_t requests[HTTP_TYPES_MAX], by_result[RESULTS_MAX];
	_Atomic int64_t open[HTTP_TYPES_MAX];
	struct metric *duration;
};

static const double seconds[] = { 0.0001, 0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 0 };
static const struct metric_family duration = { "lode_http_duration_seconds",
					       "Time from the headers of a request to the end of its reply.",
					       METRIC_HISTOGRAM, "", seconds };
static const struct metric_family refused = { "lode_http_refused_total",
					      "Requests refused because a limit was met, by limit.",
					      METRIC_COUNTER, "limit", NULL };

struct counters *counters_new(const char *const *types, const char *const *results)
{
	struct counters *c = NEW(struct counters);

	c->types = types;
	c->results = results;
	while (types[c->n_types])
		c->n_types++;
	while (results[c->n_results])
		c->n_results++;
	if (c->n_types > HTTP_TYPES_MAX || c->n_results > RESULTS_MAX)
		abort();
	c->duration = metric_get(&duration);
	return c;
}

void counters_free(struct counters *c)
{
	free(c);
}

void counters_begin(struct counters *c, unsigned type)
{
	atomic_fetch_add_explicit(&c->requests[type], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->open[type], 1, memory_order_relaxed);
}

static unsigned code_index(unsigned status)
{
	unsigned i = 0;

	while (i < N_CODES - 1 && codes[i] != status)
		i++;
	return i;
}

static unsigned result_index(const struct counters *c, const char *result)
{
	unsigned i = 0;

	/* All are literals; most have the very address of the table's. */
	while (i < c->n_results - 1 && c->results[i] != result && strcmp(c->results[i], result) != 0)
		i++;
	return i;
}

void counters_end(struct counters *c, const struct http_sent *sent, int64_t ns)
{
	unsigned type = sent->type, code = code_index(sent->status);

	atomic_fetch_sub_explicit(&c->open[type], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->responses[type][code].n, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->responses[type][code].bytes, sent->bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->responses[type][code].us, (uint64_t)ns / 1000, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->by_result[result_index(c, sent->result)], 1, memory_order_relaxed);
	metric_observe(c->duration, (double)ns / 1e9);
}

void counters_refused(const char *limit)
{
	metric_count(&refused, limit);
}

int64_t counters_open(const struct counters *c, unsigned type)
{
	return atomic_load_explicit(&c->open[type], memory_order_relaxed);
}

/* ---- read ---- */

const char *const http_outcome_names[N_OUTCOMES] = {
	[OUTCOME_SERVED] = "served",         [OUTCOME_UNCHANGED] = "unchanged", [OUTCOME_MISSING] = "missing",
	[OUTCOME_REFUSED] = "refused",       [OUTCOME_BUSY] = "busy",           [OUTCOME_FAILED] = "failed",
	[OUTCOME_BROKEN_OFF] = "broken_off",
};

static enum http_outcome counters_outcome(unsigned status)
{
	switch (status) {
	case 304:
		return OUTCOME_UNCHANGED;
	case 404:
		return OUTCOME_MISSING;
	case 429:
	case 503:
	case 504:
		return OUTCOME_BUSY;
	case 499:
		return OUTCOME_BROKEN_OFF;
	case 501: /* a form that this server does not know */
		return OUTCOME_REFUSED;
	case 0: /* none of the codes above */
		return OUTCOME_FAILED;
	default:
		return status < 400 ? OUTCOME_SERVED : status < 500 ? OUTCOME_REFUSED : OUTCOME_FAILED;
	}
}

static unsigned long long counter_value(const _Atomic uint64_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

void http_outcomes(const struct http_service *sv, struct http_outcomes *ret)
{
	const struct counters *c = sv->counters;

	*ret = (struct http_outcomes){ 0 };
	for (unsigned type = 0; type < c->n_types; type++) {
		if (sv->opts.internal_types >> type & 1)
			continue;
		for (unsigned code = 0; code < N_CODES; code++) {
			ret->n[counters_outcome(codes[code])] += counter_value(&c->responses[type][code].n);
			ret->bytes += counter_value(&c->responses[type][code].bytes);
		}
	}
}

static void write_responses(const struct counters *c, struct buf *out)
{
	static const char *const units[] = { "transfer_bytes", "duration_milliseconds",
					     "after_you_milliseconds" };

	for (unsigned unit = 0; unit < ARRAY_SIZE(units); unit++)
		for (unsigned type = 0; type < c->n_types; type++)
			for (unsigned code = 0; code < N_CODES; code++) {
				unsigned long long n = counter_value(&c->responses[type][code].n), sum;

				if (!n)
					continue;
				/* "after_you": here no request waits for that of another client. */
				sum = unit == 0   ? counter_value(&c->responses[type][code].bytes)
				      : unit == 1 ? counter_value(&c->responses[type][code].us) / 1000
						  : 0;
				buf_printf(out, "http_responses_%s_count{code=\"%u\",type=\"%s\"} %llu\n",
					   units[unit], codes[code], c->types[type], n);
				buf_printf(out, "http_responses_%s_sum{code=\"%u\",type=\"%s\"} %llu\n",
					   units[unit], codes[code], c->types[type], sum);
			}
}

void counters_write(const struct counters *c, struct buf *out)
{
	for (unsigned type = 0; type < c->n_types; type++)
		if (counter_value(&c->requests[type]))
			buf_printf(out, "http_requests_total{type=\"%s\"} %llu\n", c->types[type],
				   counter_value(&c->requests[type]));
	for (unsigned i = 0; i < c->n_results; i++)
		if (counter_value(&c->by_result[i]))
			buf_printf(out, "http_responses_total{result=\"%s\"} %llu\n", c->results[i],
				   counter_value(&c->by_result[i]));
	write_responses(c, out);
}
