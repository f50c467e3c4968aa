/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop, and its inbox for other threads: a fetch that they start is in the inbox until the next turn; cancel is a
 * flag that the next turn reads.
 */
#include "net/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#define MAX_FETCHES    16
#define MAX_PER_SERVER 8
#define FIRST_MS       10000
#define MAX_MS         300000
#define IDLE_MS        60000

int net_new(const struct net_options *opts, struct net **ret, struct err *err)
{
	struct net *n = NEW(struct net);

	if (opts)
		n->opts = *opts;
	n->opts.max_fetches = n->opts.max_fetches ? n->opts.max_fetches : MAX_FETCHES;
	n->opts.max_per_server = n->opts.max_per_server ? n->opts.max_per_server : MAX_PER_SERVER;
	n->new_fetches_end = &n->new_fetches;
	n->new_calls_end = &n->new_calls;
	n->queued_end = &n->queued;
	pthread_mutex_init(&n->lock, NULL);
	breakers_init(&n->breakers, n->opts.breaker_first_ms ? n->opts.breaker_first_ms : FIRST_MS,
		      n->opts.breaker_max_ms ? n->opts.breaker_max_ms : MAX_MS);
	if (wire_new(&n->opts, &n->wire, err) < 0) {
		net_free(n);
		return -1;
	}
	*ret = n;
	return 0;
}

static void take_inbox(struct net *n)
{
	struct net_call *calls;

	pthread_mutex_lock(&n->lock);
	if (n->new_fetches) {
		*n->queued_end = n->new_fetches;
		n->queued_end = n->new_fetches_end;
		n->new_fetches = NULL;
		n->new_fetches_end = &n->new_fetches;
	}
	calls = n->new_calls;
	n->new_calls = NULL;
	n->new_calls_end = &n->new_calls;
	pthread_mutex_unlock(&n->lock);
	while (calls) {
		struct net_call *c = calls;

		calls = call_next(c);
		call_set_next(c, n->calls);
		n->calls = c;
		call_begin(c);
	}
}

static struct net_fetch *unqueue_fetch(struct net *n)
{
	struct net_fetch *f = n->queued;

	n->queued = f->next;
	if (!n->queued)
		n->queued_end = &n->queued;
	f->next = NULL;
	return f;
}

static void admit_fetches(struct net *n, int64_t now_ms)
{
	while (n->queued && n->n_running - n->n_waiting < n->opts.max_fetches) {
		struct net_fetch *f = unqueue_fetch(n);

		f->next = n->running;
		n->running = f;
		n->n_running++;
		fetch_begin(f, now_ms);
	}
}

/* Queued fetches have a deadline too, and may be cancelled. */
static void queued_turn(struct net *n, int64_t now_ms, int64_t *next_ms)
{
	struct net_fetch **at = &n->queued;

	while (*at) {
		struct net_fetch *f = *at;
		bool late = f->deadline_ms && now_ms >= f->deadline_ms;

		if (f->deadline_ms)
			*next_ms = MIN(*next_ms, f->deadline_ms);
		if (!late && !atomic_load(&f->cancel)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		if (!f->next)
			n->queued_end = at;
		fetch_turn(f, now_ms, next_ms);
		net_fetch_unref(f);
	}
}

static void net_turn(struct net *n, int64_t *next_ms)
{
	int64_t now_ms = clock_mono_ms();
	struct net_fetch **at = &n->running;
	struct net_call *call;

	admit_fetches(n, now_ms);
	while (*at) {
		struct net_fetch *f = *at;

		if (fetch_turn(f, now_ms, next_ms)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		n->n_running--;
		net_fetch_unref(f);
	}
	queued_turn(n, now_ms, next_ms);
	call = n->calls;
	n->calls = NULL;
	while (call) {
		struct net_call *next = call_next(call);

		if (call_turn(call, now_ms, next_ms)) {
			call_set_next(call, n->calls);
			n->calls = call;
		} else {
			net_call_unref(call);
		}
		call = next;
	}
	/* A queued fetch can start now. */
	if (n->queued && n->n_running - n->n_waiting < n->opts.max_fetches)
		*next_ms = now_ms;
}

static bool inbox_empty(struct net *n)
{
	bool empty;

	pthread_mutex_lock(&n->lock);
	empty = !n->new_fetches && !n->new_calls;
	pthread_mutex_unlock(&n->lock);
	return empty;
}

static size_t net_count(struct net *n)
{
	size_t left = n->n_running + !inbox_empty(n);

	for (struct net_fetch *f = n->queued; f; f = f->next)
		left++;
	for (struct net_call *c = n->calls; c; c = call_next(c))
		left++;
	return left;
}

size_t net_run(struct net *n, int64_t timeout_ms)
{
	int64_t now_ms = clock_mono_ms(), next_ms = now_ms + MAX(timeout_ms, (int64_t)0);

	take_inbox(n);
	net_turn(n, &next_ms);
	if (!net_count(n) && !n->has_thread)
		return 0;
	now_ms = clock_mono_ms();
	wire_turn(n->wire, next_ms > now_ms ? next_ms - now_ms : 0);
	net_turn(n, &next_ms);
	return net_count(n);
}

static void *net_loop(void *arg)
{
	struct net *n = arg;

	pthread_setname_np(pthread_self(), "lode-net");
	while (!atomic_load(&n->stop))
		net_run(n, IDLE_MS);
	return NULL;
}

int net_start_thread(struct net *n, struct err *err)
{
	sigset_t all, was;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	n->has_thread = true;
	r = pthread_create(&n->thread, NULL, net_loop, n);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (r) {
		n->has_thread = false;
		return err_os(err, r, "cannot start the thread for other servers");
	}
	return 0;
}

static void abort_fetches(struct net_fetch *f)
{
	while (f) {
		struct net_fetch *next = f->next;

		fetch_abort(f);
		net_fetch_unref(f);
		f = next;
	}
}

void net_free(struct net *n)
{
	if (!n)
		return;
	atomic_store(&n->stop, true);
	if (n->has_thread) {
		wire_wake(n->wire);
		pthread_join(n->thread, NULL);
	}
	take_inbox(n);
	abort_fetches(n->running);
	abort_fetches(n->queued);
	while (n->calls) {
		struct net_call *c = n->calls;

		n->calls = call_next(c);
		call_abort(c);
		net_call_unref(c);
	}
	wire_free(n->wire);
	breakers_done(&n->breakers);
	pthread_mutex_destroy(&n->lock);
	free(n);
}
