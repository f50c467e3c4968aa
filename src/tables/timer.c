/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer thread: ends the wait of requests at their deadlines, kicks builds that wait for a scan when it has
 * ended or no request waits for them any more, and starts local builds.
 */
#include "base/condition.h"
#include "tables/internal.h"

#define TICK_MS 1000 /* it looks at least so often: a test's clock may have been moved */

/* At its deadline a request has the tables that are there, although their builds go on. */
static void take_at_deadline(struct tables_request *req)
{
	for (size_t i = 0; i < req->n * req->per_id; i++) {
		struct waiter *w = &req->waiters[i];
		struct entry_key key = request_key(req, i);
		struct tables_entry *e = w->build ? cache_get(req->tables, &key) : NULL;

		if (e && entry_is_usable(e))
			w->entry = e;
		else
			entry_unref(e);
	}
}

struct tables_request *timer_expire(struct tables *t, int64_t *ret_next_ms)
{
	int64_t now_ms = clock_mono_ms();
	struct tables_request *ready = NULL;

	*ret_next_ms = now_ms + TICK_MS;
	for (struct tables_request *req = t->waiting, *next; req; req = next) {
		next = req->next;
		if (!t->stopping && now_ms < req->deadline_ms) {
			*ret_next_ms = MIN(*ret_next_ms, req->deadline_ms);
			continue;
		}
		take_at_deadline(req);
		request_unlist(req);
		req->next = ready;
		ready = req;
	}
	local_start_due(t, now_ms, ret_next_ms);
	*ret_next_ms -= now_ms;
	return ready;
}

/* Called and returns under the lock, which it releases meanwhile. */
static void kick_searches(struct tables *t)
{
	bool unfinished;

	if (!t->n_searches)
		return;
	pthread_mutex_unlock(&t->lock);
	unfinished = resolve_unfinished(t->opts.resolver);
	pthread_mutex_lock(&t->lock);
	for (struct build *b = t->first_build; b; b = b->next)
		if (b->miss && (!unfinished || !b->waiters))
			task_kick(&b->task);
}

static void *timer_run(void *arg)
{
	struct tables *t = arg;

	pthread_setname_np(pthread_self(), "lode-table-time");
	pthread_mutex_lock(&t->lock);
	for (;;) {
		struct tables_request *ready;
		int64_t wait_ms;

		kick_searches(t);
		if (t->closing)
			break;
		ready = timer_expire(t, &wait_ms);
		if (ready) {
			pthread_mutex_unlock(&t->lock);
			requests_ready(ready);
			pthread_mutex_lock(&t->lock);
			continue;
		}
		if (!t->waiting && !t->n_searches && !t->n_expecting) {
			pthread_cond_wait(&t->changed, &t->lock);
			continue;
		}
		condition_wait(&t->changed, &t->lock, wait_ms);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int timer_start(struct tables *t)
{
	t->has_timer = pthread_create(&t->timer, NULL, timer_run, t) == 0;
	return t->has_timer ? 0 : -1;
}

void timer_join(struct tables *t)
{
	if (t->has_timer)
		pthread_join(t->timer, NULL);
}
