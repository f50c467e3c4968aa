/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suspended requests. A thread that has something for a request wakes it; the thread here wakes requests whose
 * deadline is over or whose client has hung up (libmicrohttpd does not look at a suspended connection). The
 * thread that clears `suspended` under the lock resumes the request, so it is resumed exactly once.
 *
 * The thread is also the server's clock: it calls the service's tick().
 */
#include "http/request.h"

#include "base/condition.h"

#define TICK_MS      50
#define IDLE_TICK_MS 60000 /* when no request is suspended */
#define LOOKS_A_TICK 512   /* connections checked for a hang-up per tick; they take turns */

/* A request is suspended (@n 1), or is no longer (-1). */
static void wait_class_count(struct wait_list *w, const struct request *req, int n)
{
	struct wait_class *c = &w->classes[req->cls];
	unsigned *of = &c->n_of[req->client % HTTP_CLIENTS];

	c->n += (unsigned)n;
	*of += (unsigned)n;
	if (n > 0 ? *of == 1 : *of == 0)
		c->n_clients += (unsigned)n;
}

static void wait_list_add(struct wait_list *w, struct request *req)
{
	req->wait_prev = NULL;
	req->wait_next = w->first;
	if (w->first)
		w->first->wait_prev = req;
	w->first = req;
	req->listed = true;
	w->n++;
	wait_class_count(w, req, 1);
}

static void wait_list_del(struct wait_list *w, struct request *req)
{
	*(req->wait_prev ? &req->wait_prev->wait_next : &w->first) = req->wait_next;
	if (req->wait_next)
		req->wait_next->wait_prev = req->wait_prev;
	req->listed = false;
	w->n--;
	wait_class_count(w, req, -1);
}

bool wait_suspend(struct request *req)
{
	struct wait_list *w = &req->service->wait;
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = !w->stopping;
	if (ok) {
		req->suspended = true;
		if (!w->n)
			pthread_cond_broadcast(&w->changed);
		wait_list_add(w, req);
		http_suspend(req->conn);
	}
	pthread_mutex_unlock(&w->lock);
	return ok;
}

void wait_no_longer(struct request *req, int64_t at_ms)
{
	struct wait_list *w = &req->service->wait;

	pthread_mutex_lock(&w->lock);
	req->deadline_ms = MIN(req->deadline_ms, at_ms);
	pthread_mutex_unlock(&w->lock);
}

/* Under the lock. true: the caller has to resume it. */
static bool wait_take(struct wait_list *w, struct request *req)
{
	if (!req->suspended)
		return false;
	req->suspended = false;
	if (req->listed)
		wait_list_del(w, req);
	return true;
}

void wait_wake(struct request *req)
{
	struct wait_list *w = &req->service->wait;
	struct http_conn *conn = req->conn;

	pthread_mutex_lock(&w->lock);
	/* Under the lock: after wait_stop() no request may be suspended, since the HTTP threads end then. */
	if (wait_take(w, req))
		http_resume(conn);
	pthread_mutex_unlock(&w->lock);
}

bool wait_begin_work(struct request *req)
{
	struct wait_list *w = &req->service->wait;
	bool ok;

	pthread_mutex_lock(&w->lock);
	ok = !w->stopping;
	if (ok) {
		req->suspended = true;
		w->n_working++;
		wait_class_count(w, req, 1);
		http_suspend(req->conn);
	}
	pthread_mutex_unlock(&w->lock);
	return ok;
}

void wait_end_work(struct request *req)
{
	struct wait_list *w = &req->service->wait;
	struct http_conn *conn = req->conn;

	pthread_mutex_lock(&w->lock);
	req->suspended = false;
	wait_class_count(w, req, -1);
	/* First, so that no request is suspended when the count is 0. */
	http_resume(conn);
	w->n_working--;
	/* Only wait_stop() waits for that, and an upload is resumed several times per MB. */
	if (w->stopping)
		pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

unsigned wait_count(struct http_service *sv)
{
	struct wait_list *w = &sv->wait;
	unsigned n;

	pthread_mutex_lock(&w->lock);
	n = w->n + w->n_working;
	pthread_mutex_unlock(&w->lock);
	return n;
}

bool wait_is_full(struct http_service *sv, enum http_class cls, uint32_t client)
{
	struct wait_list *w = &sv->wait;
	const struct wait_class *c = &w->classes[cls];
	unsigned max = sv->opts.max_queued, mine;
	bool full;

	pthread_mutex_lock(&w->lock);
	mine = c->n_of[client % HTTP_CLIENTS];
	full = c->n >= max && mine && mine >= max / c->n_clients;
	pthread_mutex_unlock(&w->lock);
	return full;
}

/* ---- deadlines ---- */

static bool request_is_unwanted(void *arg)
{
	struct request *req = arg;
	struct wait_list *w = &req->service->wait;
	bool stopping;

	pthread_mutex_lock(&w->lock);
	stopping = w->stopping;
	pthread_mutex_unlock(&w->lock);
	return stopping || http_gone(req->conn);
}

struct deadline request_deadline(struct request *req, const char *what, const char *remedy)
{
	struct deadline d = deadline_in(req->service->opts.request_deadline_ms, what, remedy);

	d.cancelled = request_is_unwanted;
	d.arg = req;
	return d;
}

/*
 * One round over the list, under the lock. Requests to be resumed leave it and are chained through
 * wait_next: until they are resumed, nothing else touches them.
 */
static struct request *wait_round(struct wait_list *w, int64_t now_ms, unsigned *turn)
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
		wait_take(w, req);
		req->wait_next = woken;
		woken = req;
	}
	++*turn;
	return woken;
}

static void *wait_run(void *arg)
{
	struct http_service *sv = arg;
	struct wait_list *w = &sv->wait;
	unsigned turn = 0;
	bool last;

	pthread_setname_np(pthread_self(), "lode-wait");
	pthread_mutex_lock(&w->lock);
	do {
		struct request *woken;
		bool soon;

		last = w->stopping;
		woken = wait_round(w, clock_mono_ms(), &turn);
		pthread_mutex_unlock(&w->lock);
		while (woken) {
			struct request *next = woken->wait_next;

			/* It may be gone after this. */
			http_resume(woken->conn);
			woken = next;
		}
		soon = sv->opts.tick && sv->opts.tick(sv->opts.server);
		pthread_mutex_lock(&w->lock);
		if (!w->stopping)
			condition_wait(&w->changed, &w->lock, w->n || soon ? TICK_MS : IDLE_TICK_MS);
	} while (!last);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

void wait_init(struct wait_list *w)
{
	pthread_mutex_init(&w->lock, NULL);
	condition_init(&w->changed);
}

int wait_start(struct http_service *sv, struct err *err)
{
	struct wait_list *w = &sv->wait;
	int r = pthread_create(&w->thread, NULL, wait_run, sv);

	if (r)
		return err_os(err, r, "no thread for waiting requests");
	w->running = true;
	return 0;
}

void wait_stop(struct http_service *sv)
{
	struct wait_list *w = &sv->wait;

	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (w->running)
		pthread_join(w->thread, NULL);
	w->running = false;
	pthread_mutex_lock(&w->lock);
	while (w->n_working)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

void wait_done(struct wait_list *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
}
