/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The naming thread: starts attempts at the binaries that are due, and goes on with those whose tables are
 * there, a batch of names of each in turn. Between them it sleeps.
 */
#include "naming/naming.h"

#include <stdlib.h>
#include "base/condition.h"
#include "base/metrics.h"
#include "naming/internal.h"

#define TICK_MS   1000  /* it looks at the clock at least so often: a test's may have been moved */
#define ROUND_MAX 4096u /* binaries */
/* Choosing the binaries of a round takes at most this part of the time. */
#define ROUND_PART    32
#define ROUND_REST_MS 60000 /* however long it took: the machine may have stood still */

/* After MATCH_MS of looking up paths, none is looked up for MATCH_REST times as long. */
#define MATCH_MS   500
#define MATCH_REST 7

static const struct metric_family addresses_family = {
	"lode_naming_addresses_total",
	"Addresses of profiles that were looked up, by whether they got a name", METRIC_COUNTER, "result",
	NULL
};
static const double seconds_bounds[] = { 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 0 };
static const struct metric_family seconds_family = {
	"lode_naming_seconds", "Seconds from the start of an attempt until its names are stored.",
	METRIC_HISTOGRAM, "", seconds_bounds
};

/* ---- rounds ---- */

/* Write all that was put, or start again later. */
static void attempts_finish(struct naming *n)
{
	struct naming_batch *p = &n->batch;

	if (!naming_batch_flush(p)) {
		log_warn("naming", "names could not be written, retrying in %lld s: %s",
			 (long long)(n->opts.interval_ms / 1000), p->err.text);
		n->not_before_ms = clock_mono_ms() + n->opts.interval_ms;
		n->next_round_ms = n->not_before_ms;
	}
	atomic_fetch_add(&n->n_named, p->n_named);
	atomic_fetch_add(&n->n_unnamed, p->n_unnamed);
	metric_add(metric_get(&addresses_family, "named"), (int64_t)p->n_named);
	metric_add(metric_get(&addresses_family, "unnamed"), (int64_t)p->n_unnamed);
	p->n_named = p->n_unnamed = 0;
}

/*
 * A binary without a build ID is looked up by its path, which may take seconds where many packages have files in that
 * folder. Many such binaries must not keep those with a build ID waiting: some stay due for a later round.
 */
static bool naming_may_match(struct naming *n)
{
	if (clock_mono_ms() >= n->match_after_ms)
		return true;
	n->next_round_ms = MIN(n->next_round_ms, n->match_after_ms);
	return false;
}

static void naming_note_match(struct naming *n, int64_t took_ms)
{
	n->match_spent_ms += took_ms;
	if (n->match_spent_ms < MATCH_MS)
		return;
	n->match_after_ms = clock_mono_ms() + MIN(MATCH_REST * n->match_spent_ms, (int64_t)ROUND_REST_MS);
	n->match_spent_ms = 0;
}

static void start_attempts_at(struct naming *n, const struct profilestore_binary *b)
{
	int64_t from_ms = clock_mono_ms();

	if (!b->build_id.size && !naming_may_match(n))
		return;
	/* First, since a try may wait long for something better. */
	if (b->look_is_due && n->n_looks < NAMING_MAX_LOOKS && !naming_attempt_of(n, b->id, true))
		naming_look_start(n, b);
	if (b->try_is_due && atomic_load(&n->n_running) < n->opts.max_tries &&
	    !naming_attempt_of(n, b->id, false))
		naming_try_start(n, b);
	if (!b->build_id.size)
		naming_note_match(n, clock_mono_ms() - from_ms);
}

static void start_due_attempts(struct naming *n)
{
	AUTO(mem_freep) struct profilestore_binaries *list = NULL;
	int64_t wall_ms = clock_wall_ms(), now_ms = clock_mono_ms(), next_ms;
	bool by_path;
	struct err err = { 0 };

	n->next_round_ms = now_ms + n->opts.interval_ms;
	/* More binaries without a build ID than a round has may stay due for long. */
	by_path = naming_may_match(n);
	if (profilestore_wanted(n->opts.store, wall_ms, ROUND_MAX, by_path, &list, &next_ms, &err) < 0) {
		log_warn("naming", "%s", err.text);
		return;
	}
	/* With very many binaries a round takes long, under the lock that commits of profiles need, too. */
	n->not_before_ms = MAX(n->not_before_ms,
			       now_ms + MIN(ROUND_PART * (clock_mono_ms() - now_ms), (int64_t)ROUND_REST_MS));
	naming_batch_begin(&n->batch);
	/* The end of an attempt makes room for another, and starts a new round. */
	for (size_t i = 0; i < list->n; i++)
		start_attempts_at(n, &list->v[i]);
	if (next_ms != INT64_MAX)
		n->next_round_ms = MIN(n->next_round_ms, now_ms + (next_ms - wall_ms));
	/* Their rest has begun: those with a build ID that had no place in the list are next. */
	if (by_path && list->n == ROUND_MAX && !naming_may_match(n))
		n->next_round_ms = n->not_before_ms;
	attempts_finish(n);
}

void naming_queue(struct naming *n, struct naming_attempt *t)
{
	pthread_mutex_lock(&n->lock);
	t->next = NULL;
	*n->ready_last = t;
	n->ready_last = &t->next;
	pthread_cond_signal(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

/* Takes @ready. An attempt that has more to do goes to the end of the queue. */
static void step_attempts(struct naming *n, struct naming_attempt *ready, bool stopping)
{
	struct naming_attempt *ended = NULL, *more = NULL, *t;

	naming_batch_begin(&n->batch);
	while ((t = ready)) {
		struct naming_attempt **to = &ended;

		ready = t->next;
		if (!stopping && !n->batch.failed && !naming_attempt_step(t))
			to = &more;
		t->next = *to;
		*to = t;
	}
	/* Before that, a new round would find the same binaries again. */
	attempts_finish(n);
	/* More addresses may have come in for them meanwhile, or be left. */
	if (ended)
		n->next_round_ms = n->not_before_ms;
	while ((t = ended)) {
		ended = t->next;
		metric_observe(metric_get(&seconds_family), (double)(clock_mono_ms() - t->from_ms) / 1000);
		naming_attempt_free(t);
	}
	if (!more)
		naming_batch_rest(&n->batch);
	while ((t = more)) {
		more = t->next;
		naming_queue(n, t);
	}
}

/* ---- the thread ---- */

/* Under the lock. */
static void sleep_until(struct naming *n, int64_t until_ms)
{
	int64_t now_ms = clock_mono_ms(), wait_ms = MIN(until_ms, now_ms + TICK_MS) - now_ms;

	if (wait_ms > 0)
		condition_wait(&n->changed, &n->lock, wait_ms);
}

/*
 * Under the lock: the time of the next round. Profiles that come in while names are written, which takes a
 * few milliseconds, are handled together.
 */
static int64_t round_at_ms(const struct naming *n)
{
	if (n->stopping)
		return INT64_MAX;
	return n->kicked ? n->not_before_ms : MAX(n->next_round_ms, n->not_before_ms);
}

static void *naming_run(void *arg)
{
	struct naming *n = arg;

	pthread_setname_np(pthread_self(), "lode-naming");
	pthread_mutex_lock(&n->lock);
	while (!n->stopping || atomic_load(&n->n_running) || n->n_looks) {
		bool stopping = n->stopping, is_round = clock_mono_ms() >= round_at_ms(n);
		struct naming_attempt *ready = TAKE(n->ready);

		n->ready_last = &n->ready;
		if (!ready && !is_round) {
			sleep_until(n, round_at_ms(n));
			continue;
		}
		if (is_round)
			n->kicked = false;
		pthread_mutex_unlock(&n->lock);
		/* In turn: a binary with a million addresses does not keep others from their start. */
		if (ready)
			step_attempts(n, ready, stopping);
		if (is_round)
			start_due_attempts(n);
		pthread_mutex_lock(&n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* ---- kicks and wakes ---- */

static bool waking_begin(struct naming *n)
{
	bool goes;

	pthread_mutex_lock(&n->lock);
	goes = !n->stopping;
	n->n_waking += goes;
	pthread_mutex_unlock(&n->lock);
	return goes;
}

static void waking_end(struct naming *n, bool kick)
{
	pthread_mutex_lock(&n->lock);
	n->kicked |= kick;
	n->n_waking--;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

void naming_kick(struct naming *n)
{
	if (waking_begin(n))
		waking_end(n, true);
}

struct wake_others {
	struct profilestore *store; /* NULL: nothing is named */
	unsigned n_woken;
};

static void wake_other(void *arg, const struct build_id *id)
{
	struct wake_others *x = arg;

	if (x->store)
		x->n_woken += profilestore_wake(x->store, id);
}

unsigned naming_wake(struct naming *n, const struct build_id *id, struct str file, bool replaced)
{
	struct wake_others others = { n->opts.store, 0 };

	if (!waking_begin(n))
		return 0;
	tables_renew(n->opts.tables, id, replaced, wake_other, &others);
	wake_other(&others, id);
	if (n->opts.store)
		others.n_woken += profilestore_wake_file(n->opts.store, file);
	waking_end(n, others.n_woken != 0);
	return others.n_woken;
}

static void on_unnamed(void *arg)
{
	naming_kick(arg);
}

/* ---- beginning, end ---- */

struct naming *naming_new(const struct naming_options *o)
{
	struct naming *n = NEW(struct naming);

	n->opts = *o;
	n->opts.interval_ms = o->interval_ms ? o->interval_ms : NAMING_INTERVAL_MS;
	n->opts.wait_ms = o->wait_ms ? o->wait_ms : NAMING_WAIT_MS;
	n->opts.max_tries = o->max_tries ? o->max_tries : NAMING_MAX_TRIES;
	pthread_mutex_init(&n->lock, NULL);
	condition_init(&n->changed);
	n->ready_last = &n->ready;
	return n;
}

int naming_start(struct naming *n, struct err *err)
{
	int code;

	if (!n->opts.store)
		return 0;
	naming_batch_init(&n->batch, n->opts.store);
	n->unnamed = NEW_N(struct profilestore_unnamed, NAMING_BATCH);
	n->queries = NEW_N(struct tables_query, NAMING_BATCH);
	n->maps = NEW_N(struct frame_mapping, NAMING_BATCH);
	n->kicked = true;
	code = pthread_create(&n->thread, NULL, naming_run, n);
	if (code)
		return err_os(err, code, "starting the thread that names addresses");
	n->started = true;
	profilestore_on_unnamed(n->opts.store, on_unnamed, n);
	return 0;
}

void naming_stop(struct naming *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->stopping = true;
	pthread_cond_broadcast(&n->changed);
	while (n->n_waking)
		pthread_cond_wait(&n->changed, &n->lock);
	pthread_mutex_unlock(&n->lock);
	if (!n->started)
		return;
	profilestore_on_unnamed(n->opts.store, NULL, NULL);
	pthread_join(n->thread, NULL);
	n->started = false;
}

void naming_free(struct naming *n)
{
	if (!n)
		return;
	naming_stop(n);
	if (n->opts.store)
		naming_batch_done(&n->batch);
	map_done(&n->attempts);
	free(n->unnamed);
	free(n->queries);
	free(n->maps);
	pthread_mutex_destroy(&n->lock);
	pthread_cond_destroy(&n->changed);
	free(n);
}

void naming_stats(struct naming *n, struct naming_stats *ret)
{
	*ret = (struct naming_stats){ .n_named = atomic_load(&n->n_named),
				      .n_unnamed = atomic_load(&n->n_unnamed),
				      .n_tries = atomic_load(&n->n_tries),
				      .n_failed = atomic_load(&n->n_failed),
				      .n_running = atomic_load(&n->n_running) };
}
