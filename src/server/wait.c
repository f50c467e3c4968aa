/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suspended requests. Whoever has something for one wakes it; the thread here wakes those whose time is over
 * or whose client has hung up (libmicrohttpd does not look at a suspended connection). A request is resumed
 * by whoever clears its `suspended` under the lock, so exactly once.
 *
 * It is also the server's clock: uploads that wait for their next part grow too old here.
 */
#include "base/condition.h"
#include "server/internal.h"
#include "server/push/push.h"

#define TICK_MS      50
#define IDLE_TICK_MS 60000 /* when nobody waits */
#define LOOKS_A_TICK 512   /* connections asked whether they still live; they take turns */

static void list_add(struct wait_list *w, struct request *req)
{
	req->wait_prev = NULL;
	req->wait_next = w->first;
	if (w->first)
		w->first->wait_prev = req;
	w->first = req;
	req->listed = true;
	w->n++;
}

static void list_del(struct wait_list *w, struct request *req)
{
	*(req->wait_prev ? &req->wait_prev->wait_next : &w->first) = req->wait_next;
	if (req->wait_next)
		req->wait_next->wait_prev = req->wait_prev;
	req->listed = false;
	w->n--;
}

bool wait_suspend(struct request *req)
{
	struct wait_list *w = &req->s->wait;
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = !w->stopping;
	if (ok) {
		req->suspended = true;
		if (!w->n)
			pthread_cond_broadcast(&w->changed);
		list_add(w, req);
		http_suspend(req->conn);
	}
	pthread_mutex_unlock(&w->lock);
	return ok;
}

/* Under the lock: true when it is the caller's to resume. */
static bool take(struct wait_list *w, struct request *req)
{
	if (!req->suspended)
		return false;
	req->suspended = false;
	if (req->listed)
		list_del(w, req);
	return true;
}

void wait_wake(struct request *req)
{
	struct wait_list *w = &req->s->wait;
	bool mine;

	pthread_mutex_lock(&w->lock);
	mine = take(w, req);
	pthread_mutex_unlock(&w->lock);
	if (mine)
		http_resume(req->conn);
}

bool wait_job(struct request *req)
{
	struct wait_list *w = &req->s->wait;
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = !w->stopping;
	if (ok) {
		req->suspended = true;
		w->n_jobs++;
		http_suspend(req->conn);
	}
	pthread_mutex_unlock(&w->lock);
	return ok;
}

void wait_job_done(struct request *req)
{
	struct wait_list *w = &req->s->wait;
	struct http_conn *conn = req->conn;

	pthread_mutex_lock(&w->lock);
	req->suspended = false;
	/* Before the count goes down: then nobody is suspended any more. */
	http_resume(conn);
	w->n_jobs--;
	/* Only who stops waits for that: an upload is resumed some times a MB. */
	if (w->stopping)
		pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

unsigned wait_count(struct wait_list *w)
{
	unsigned n;

	pthread_mutex_lock(&w->lock);
	n = w->n + w->n_jobs;
	pthread_mutex_unlock(&w->lock);
	return n;
}

void wait_artifact_count(struct wait_list *w, int n)
{
	pthread_mutex_lock(&w->lock);
	w->n_artifacts += (unsigned)n;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void wait_artifacts_gone(struct wait_list *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->n_artifacts)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

/*
 * One round over the list, under the lock. Those to be woken leave it and are chained through wait_next: they
 * are still suspended for libmicrohttpd, so they stay where they are until they are resumed.
 */
static struct request *tick(struct wait_list *w, int64_t now_ms, unsigned *turn)
{
	struct request *woken = NULL;
	unsigned i = 0, n = w->n;

	for (struct request *req = w->first, *next; req; req = next, i++) {
		bool look = n <= LOOKS_A_TICK || (i + *turn) % (n / LOOKS_A_TICK + 1) == 0;

		next = req->wait_next;
		if (w->stopping)
			req->fate = FATE_STOPPED;
		else if (now_ms >= req->deadline_ms)
			req->fate = FATE_EXPIRED;
		else if (look && http_gone(req->conn))
			req->fate = FATE_GONE;
		else
			continue;
		take(w, req);
		req->wait_next = woken;
		woken = req;
	}
	++*turn;
	return woken;
}

static void *run(void *arg)
{
	struct wait_list *w = arg;
	struct server *s = CONTAINER_OF(w, struct server, wait);
	unsigned turn = 0;
	bool last;

	pthread_setname_np(pthread_self(), "lode-wait");
	pthread_mutex_lock(&w->lock);
	do {
		struct request *woken;

		last = w->stopping;
		woken = tick(w, clock_mono_ms(), &turn);
		pthread_mutex_unlock(&w->lock);
		while (woken) {
			struct request *next = woken->wait_next;

			/* From here on it may be gone. */
			http_resume(woken->conn);
			woken = next;
		}
		push_tick(s->push);
		if (s->opts.scan && !atomic_load(&s->is_ready)) {
			struct scan_progress p;

			scan_progress(s->opts.scan, &p);
			atomic_store(&s->is_ready, p.ready);
		}
		pthread_mutex_lock(&w->lock);
		if (w->stopping)
			continue;
		if (!w->n && (!s->opts.scan || atomic_load(&s->is_ready))) {
			condition_wait(&w->changed, &w->lock, IDLE_TICK_MS);
			continue;
		}
		condition_wait(&w->changed, &w->lock, TICK_MS);
	} while (!last);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

void wait_init(struct wait_list *w)
{
	pthread_mutex_init(&w->lock, NULL);
	condition_init(&w->changed);
}

int wait_start(struct wait_list *w, struct err *err)
{
	int r = pthread_create(&w->thread, NULL, run, w);

	if (r)
		return err_os(err, r, "no thread for waiting requests");
	w->running = true;
	return 0;
}

void wait_stop(struct wait_list *w)
{
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (w->running)
		pthread_join(w->thread, NULL);
	w->running = false;
	pthread_mutex_lock(&w->lock);
	while (w->n_jobs)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

void wait_done(struct wait_list *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
}
