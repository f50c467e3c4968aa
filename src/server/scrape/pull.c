/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pull of a profile: the request, its answer, the profile to the store, and the notes of it.
 *
 * The request belongs to the thread of `net`, the parsing to a worker, the report to the thread of the store; each hands
 * the pull on, so no two have it at once.
 */
#include "server/scrape/internal.h"

#include <errno.h>
#include <stdlib.h>
#include "base/metrics.h"
#include "profile/input.h"
#include "server/intake/intake.h"

#define CONNECT_MS  5000
#define BASE_LASTS  10 /* intervals without a profile, after which a difference would be of another time */
#define QUOTED      100u
#define MAX_RETRY_S 600

static const double seconds_bounds[] = { 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 60, 0 };
static const struct metric_family pulls_total = { "lode_scrapes_total", "Pulls of profiles, by result.",
						  METRIC_COUNTER, "result", NULL };
static const struct metric_family pull_seconds = {
	"lode_scrape_duration_seconds",
	"Duration of pulls, with the seconds that the profile was asked to take.", METRIC_HISTOGRAM, "",
	seconds_bounds
};
static const struct metric_family pull_bytes = { "lode_scrape_bytes_total", "Bytes of pulled profiles.",
						 METRIC_COUNTER, "", NULL };
static const struct metric_family pull_samples = { "lode_scrape_samples_total",
						   "Stored samples of pulled profiles.", METRIC_COUNTER, "",
						   NULL };
static const struct metric_family pull_restarts = {
	"lode_scrape_restarts_total", "Counters that began anew: the process of the target was another one.",
	METRIC_COUNTER, "", NULL
};

struct pull {
	struct scrape *s;
	struct endpoint *e;       /* referenced */
	struct scrape_list *list; /* referenced; the next two are in it */
	const struct scrape_target *target;
	const struct scrape_profile *profile;
	struct net_call *call; /* set by the thread that starts it */
	struct budget_hold body_memory, memory;
	struct buf body;
	struct pool_slot slot; /* on the workers */
	struct arena arena;
	struct profile *p;
	bool is_base;   /* there was none before it */
	bool restarted; /* the base was of another process */
	int64_t start_ms, start_wall_ms;
	enum scrape_result result;
	struct err err;
	int64_t retry_after_s;
	uint64_t n_bytes, n_samples;
};

struct pull *pull_new(struct scrape *s, struct endpoint *e)
{
	struct pull *p = NEW(struct pull);

	p->s = s;
	p->e = e;
	e->refs++;
	e->pull = p;
	s->n_running++;
	p->list = scrape_list_ref(e->list);
	p->target = e->target;
	p->profile = e->profile;
	p->start_ms = clock_mono_ms();
	p->start_wall_ms = clock_wall_ms();
	p->retry_after_s = -1;
	p->slot.client = (uint32_t)e->hash;
	arena_init(&p->arena);
	budget_hold_init(&p->body_memory, NULL, BUDGET_BODY);
	p->body_memory.outer = &s->answers;
	budget_hold_init(&p->memory, s->server->opts.memory, BUDGET_PROFILE);
	return p;
}

static void pull_free(struct pull *p)
{
	struct scrape *s = p->s;

	profile_free(p->p);
	buf_done(&p->body);
	budget_hold_done(&p->body_memory);
	budget_hold_done(&p->memory);
	net_call_unref(p->call);
	scrape_list_unref(p->list);
	arena_done(&p->arena);
	pthread_mutex_lock(&s->lock);
	endpoint_unref(p->e);
	s->n_running--;
	/* The last access to @s. */
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	free(p);
}

/* ---- the end ---- */

static void pull_count(const struct pull *p)
{
	metric_count(&pulls_total, scrape_results[p->result]);
	metric_observe(metric_get(&pull_seconds), (double)(clock_mono_ms() - p->start_ms) / 1000);
	metric_add(metric_get(&pull_bytes), (int64_t)p->n_bytes);
	metric_add(metric_get(&pull_samples), (int64_t)p->n_samples);
	if (p->restarted)
		metric_count(&pull_restarts);
}

static bool pull_failed(const struct pull *p)
{
	return p->result != SCRAPE_STORED && p->result != SCRAPE_BASE;
}

/* Under the lock. Printable: the text has bytes of the target in it. */
static void pull_note_error(struct endpoint *e, const struct pull *p)
{
	size_t n = 0;

	for (const char *c = p->err.text; pull_failed(p) && *c && n + 1 < sizeof(e->seen.error); c++)
		e->seen.error[n++] = *c >= ' ' && *c < 0x7f ? *c : '?';
	e->seen.error[n] = '\0';
}

/* Under the lock. Returns how long it is until the next pull. */
static int64_t note_end(struct endpoint *e, struct pull *p)
{
	int64_t now_ms = clock_mono_ms(), wait_ms;
	uint64_t random = hash64(&now_ms, sizeof(now_ms), e->hash);

	e->pull = NULL;
	if (p->result == SCRAPE_CANCELLED)
		return 0;
	pull_note_error(e, p);
	e->seen.result = p->result;
	e->seen.start_ms = p->start_wall_ms;
	e->seen.duration_ms = now_ms - p->start_ms;
	if (pull_failed(p)) {
		e->seen.failures++;
		e->seen.n_failed++;
		wait_ms = schedule_backoff_ms(e->seen.failures, e->target->group->interval_ms, random);
		wait_ms = MAX(wait_ms, MIN(p->retry_after_s, (int64_t)MAX_RETRY_S) * 1000);
		e->due_ms = e->seen.failures > 1 || p->retry_after_s > 0 ? MAX(e->due_ms, now_ms + wait_ms)
									 : e->due_ms;
		return e->due_ms - now_ms;
	}
	e->seen.failures = 0;
	e->seen.n_stored++;
	e->seen.stored_ms = clock_wall_ms();
	e->seen.n_samples = p->n_samples;
	e->seen.n_bytes = p->n_bytes;
	e->seen.n_bases += p->restarted;
	return e->due_ms - now_ms;
}

/* A line for each change between good and bad, not for each pull. */
static void log_change(const struct pull *p, unsigned failures, int64_t wait_ms)
{
	AUTO(buf_done) struct buf url = { 0 };

	scrape_url(p->target, p->profile, true, &url);
	if (pull_failed(p) && !failures)
		log_warn("scrape", "%s: %s; next try in %lld s", buf_cstr(&url), p->err.text,
			 (long long)(MAX(wait_ms, (int64_t)0) + 999) / 1000);
	else if (!pull_failed(p) && failures)
		log_info("scrape", "%s: profiles come again, after %u failures", buf_cstr(&url), failures);
}

static void pull_end(struct pull *p, enum scrape_result result)
{
	struct scrape *s = p->s;
	unsigned failures;
	int64_t wait_ms;

	p->result = result;
	pull_count(p);
	pthread_mutex_lock(&s->lock);
	failures = p->e->seen.failures;
	wait_ms = note_end(p->e, p);
	pthread_mutex_unlock(&s->lock);
	if (result != SCRAPE_CANCELLED)
		log_change(p, failures, wait_ms);
	pull_free(p);
}

/* ---- the profile, on a worker ---- */

static enum scrape_result result_of_own(const struct err *err)
{
	if (err->kind == ERR_INVALID)
		return SCRAPE_INVALID;
	return err->kind == ERR_LIMIT && !err->os ? SCRAPE_TOO_LARGE : SCRAPE_BUSY;
}

static void pull_end_work(void *arg)
{
	struct pull *p = arg;

	pull_end(p, p->err.kind ? SCRAPE_BUSY : p->is_base ? SCRAPE_BASE : SCRAPE_STORED);
}

/* The thread of the store must not wait for the log, or free a large profile. */
static void pull_stored(void *arg, const struct profilestore_receipt *r, const struct err *err)
{
	struct pull *p = arg;

	if (err)
		p->err = *err;
	else
		p->n_samples = r->n_samples;
	pool_queue(p->s->server->workers, HTTP_CLASS_INTAKE, &p->slot, pull_end_work, p);
}

static void drop_old_base(struct pull *p)
{
	struct endpoint *e = p->e;
	bool is_old = p->start_ms - e->base_ms > BASE_LASTS * p->target->group->interval_ms;
	bool is_other = e->base_time_ns && p->p->time_ns && p->p->time_ns < e->base_time_ns;

	if (!e->base || (!is_old && !is_other))
		return;
	p->restarted = is_other;
	profile_counters_free(TAKE(e->base));
}

/*
 * Replace counters by their rise since the pull before. The base is a new one then, also if the store fails
 * afterwards: the next profile must not have values twice.
 */
static int pull_difference(struct pull *p, struct err *err)
{
	struct endpoint *e = p->e;
	struct profile_counters *next;
	int64_t time_ns = p->p->time_ns;
	int r;

	drop_old_base(p);
	r = profile_counters_rise(p->p, e->base, &p->s->bases, &next, err);
	if (r < 0)
		return err_in(err, "the difference to the profile before");
	p->is_base = r == PROFILE_NO_BASE;
	p->restarted |= p->is_base && e->base;
	p->p->duration_ns = p->is_base ? 0 : (p->start_ms - e->base_ms) * 1000000;
	profile_counters_free(e->base);
	e->base = next;
	e->base_ms = p->start_ms;
	e->base_time_ns = time_ns;
	return 0;
}

static int pull_give(struct pull *p, struct err *err)
{
	const struct profile_limits limits = take_limits_of(&p->memory);
	const struct take_how how = { .pyroscope = true, .name = str_of(p->profile->type_name) };
	struct profilestore_upload u;

	if (!p->body.size)
		return err_set(err, ERR_INVALID, "its answer is empty");
	if (profile_read(buf_bytes(&p->body), PROFILE_FORMAT_PPROF, &limits, &p->p, err) < 0)
		return err_in(err, "its answer");
	buf_done(&p->body);
	budget_hold_done(&p->body_memory);
	if (p->profile->counts && pull_difference(p, err) < 0)
		return -1;
	/* By the clock of this server: that of the target may be wrong. */
	p->p->time_ns = p->start_wall_ms * 1000000;
	u = take_upload(p->p, p->target->labels, p->target->n_labels, how, &p->arena);
	u.sender = str_of(p->target->shown);
	return profilestore_add(p->s->server->opts.profiles, &u, pull_stored, p, err);
}

static void pull_work(void *arg)
{
	struct pull *p = arg;
	struct err err = { 0 };

	/* After 0, the pull may be gone. */
	if (pull_give(p, &err) == 0)
		return;
	p->err = err;
	pull_end(p, result_of_own(&err));
}

/* ---- the answer, on the thread of net ---- */

static const char *status_advice(unsigned status)
{
	switch (status) {
	case 401:
	case 403:
		return "; check authorization or basic_auth of its group";
	case 404:
		return "; the program has no such profile, or path_prefix is wrong";
	default:
		return "";
	}
}

/* The first line of the body says what Go's handlers refuse. */
static void pull_refused(struct pull *p, const struct net_call_answer *a)
{
	struct str text = { (const char *)a->body.p, a->body.size }, line = str_trim(str_cut(&text, '\n'));
	bool quotes = line.size && line.p[0] != '<';

	(void)err_set(&p->err, ERR_UPSTREAM, "status %u%s%.*s%s", a->status, quotes ? ": " : "",
		      quotes ? (int)MIN(line.size, (size_t)QUOTED) : 0, quotes ? line.p : "",
		      status_advice(a->status));
	p->retry_after_s = a->retry_after_s;
	pull_end(p, SCRAPE_STATUS);
}

static enum scrape_result result_of_call(const struct err *err)
{
	switch (err->kind) {
	case ERR_LIMIT:
		return SCRAPE_TOO_LARGE;
	case ERR_BUSY:
		return SCRAPE_BUSY;
	case ERR_CANCELLED:
		return err->os == ETIME ? SCRAPE_TIMEOUT : SCRAPE_CANCELLED;
	default:
		return err->os == ETIME ? SCRAPE_TIMEOUT : SCRAPE_UNREACHABLE;
	}
}

static void pull_answered(void *arg, struct net_call *c, int outcome, const struct net_call_answer *a,
			  const struct err *err)
{
	struct pull *p = arg;

	if (outcome < 0 && atomic_load(&p->s->answers.used) > SCRAPE_MAX_ANSWERS) {
		(void)err_set(&p->err, ERR_BUSY, "all answers together need more than %u MiB now",
			      (unsigned)(SCRAPE_MAX_ANSWERS >> 20));
		pull_end(p, SCRAPE_BUSY);
		return;
	}
	if (outcome < 0) {
		p->err = *err;
		pull_end(p, result_of_call(err));
		return;
	}
	if (a->status != 200) {
		pull_refused(p, a);
		return;
	}
	p->n_bytes = a->body.size;
	if (a->body.size)
		buf_add(&p->body, a->body.p, a->body.size);
	pool_queue(p->s->server->workers, HTTP_CLASS_INTAKE, &p->slot, pull_work, p);
}

/* ---- the request ---- */

void pull_start(struct pull *p)
{
	const struct scrape_group *g = p->target->group;
	AUTO(buf_done) struct buf url = { 0 }, auth = { 0 };
	const char *headers[] = { NULL };
	struct net_call_request req = {
		.headers = headers,
		.max_answer = SCRAPE_MAX_ANSWER,
		.memory = &p->body_memory,
		.connect_ms = (unsigned)MIN(g->timeout_ms, (int64_t)CONNECT_MS),
		.deadline_ms = p->profile->seconds * 1000 + g->timeout_ms,
		.compressed = true,
		.direct = true,
		.tls = g->has_tls ? &g->tls : NULL,
		.arg = p,
		.done = pull_answered,
	};

	if (scrape_authorization(g, &auth, &p->err) < 0) {
		pull_end(p, SCRAPE_SECRET);
		return;
	}
	if (auth.size)
		headers[req.n_headers++] = buf_cstr(&auth);
	scrape_url(p->target, p->profile, false, &url);
	req.url = buf_cstr(&url);
	req.silent_ms = (unsigned)req.deadline_ms + 1000;
	/* The pull may be gone when this returns. */
	net_call_start(p->s->net, &req, &p->call);
}

void pull_cancel(struct pull *p)
{
	net_call_cancel(p->call);
}
