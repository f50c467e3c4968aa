/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build IDs that are not known while packages are still being read. A debugger remembers a miss for minutes, so the
 * request is suspended until the file turns up, everything is read, or its time is over. Then a client that understands it
 * gets 503, and another one 404; both with X-LODE-UNREAD, so that no cache of ours remembers it.
 */
#include "server/artifact/artifact.h"

#include <errno.h>
#include <strings.h>

#define UNREAD_ASKED "X-LODE-UNREAD" /* of a request: "retry" asks for 503 */

/* ---- who may wait ---- */

static unsigned *unread_of(struct artifact *a)
{
	return &a->s->unread.n_of[a->task.slot.client % UNREAD_CLIENTS];
}

/* Under the lock. */
static void unread_list(struct artifact *a)
{
	struct server *s = a->s;

	a->counted = true;
	a->unread_older = s->unread.newest;
	a->unread_newer = NULL;
	if (a->unread_older)
		a->unread_older->unread_newer = a;
	s->unread.newest = a;
	s->unread.n++;
	++*unread_of(a);
}

/* Under the lock. */
static void unread_unlist(struct artifact *a)
{
	struct server *s = a->s;

	a->counted = false;
	*(a->unread_newer ? &a->unread_newer->unread_older : &s->unread.newest) = a->unread_older;
	if (a->unread_older)
		a->unread_older->unread_newer = a->unread_newer;
	s->unread.n--;
	--*unread_of(a);
}

/* Under the lock. One that is being freed cannot be had any more: it leaves the list by itself. */
static bool artifact_try_ref(struct artifact *a)
{
	unsigned n = atomic_load(&a->refs);

	while (n)
		if (atomic_compare_exchange_weak(&a->refs, &n, n + 1))
			return true;
	return false;
}

/* Under the lock: the newest wait of the client that has most, if that has more than @a's would have. NULL: none. */
static struct artifact *unread_displace(struct artifact *a)
{
	const struct server *s = a->s;
	struct artifact *other = s->unread.newest;
	unsigned most = *unread_of(a) + 1;

	for (struct artifact *i = s->unread.newest; i; i = i->unread_older)
		if (*unread_of(i) > most) {
			most = *unread_of(i);
			other = i;
		}
	if (most == *unread_of(a) + 1 || !artifact_try_ref(other))
		return NULL;
	unread_unlist(other);
	other->displaced = true;
	return other;
}

/*
 * One client may have half of all waits. When there are no more, a client with fewer than another one gets a place of that.
 * So as many clients can wait as there are places, whatever each of them asks for.
 */
static bool unread_take(struct artifact *a)
{
	struct server *s = a->s;
	unsigned max = s->opts.max_unread;
	struct artifact *displaced = NULL;
	bool ok;

	pthread_mutex_lock(&s->unread.lock);
	a->displaced = false;
	ok = a->counted;
	if (!ok && *unread_of(a) < (max + 1) / 2) {
		if (s->unread.n >= max)
			displaced = unread_displace(a);
		ok = s->unread.n < max;
		if (ok)
			unread_list(a);
	}
	pthread_mutex_unlock(&s->unread.lock);
	if (displaced) {
		task_kick(&displaced->task);
		artifact_unref(displaced);
	}
	return ok;
}

bool unread_displaced(struct artifact *a)
{
	bool displaced;

	pthread_mutex_lock(&a->s->unread.lock);
	displaced = a->displaced;
	a->displaced = false;
	pthread_mutex_unlock(&a->s->unread.lock);
	return displaced;
}

void unread_done(struct artifact *a)
{
	struct server *s = a->s;

	pthread_mutex_lock(&a->lock);
	a->awaits = false;
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&s->unread.lock);
	if (a->counted)
		unread_unlist(a);
	pthread_mutex_unlock(&s->unread.lock);
}

/* ---- waiting ---- */

bool unread_unlisted(struct artifact *a)
{
	struct scan_progress p;
	struct str why;

	if (!a->s->opts.scan)
		return false;
	scan_progress(a->s->opts.scan, &p);
	if (!p.n_unlisted)
		return false;
	why = str_of(p.unlisted);
	if (a->s->opts.hide_archive)
		why = server_hide_paths(&a->arena, why);
	(void)err_set(&a->err, ERR_IO,
		      "not found so far, and not everything that is here can be seen now: " STR_FMT,
		      STR_ARG(why));
	a->err.os = ENOTCONN;
	return true;
}

int unread_await(struct artifact *a, struct resolve_wake wake)
{
	struct server *s = a->s;
	struct resolve_patience p = {
		.until_ms = clock_mono_ms() + s->opts.unread_wait_s * 1000,
		/* Those that have left go when there are so many. */
		.max = 2 * s->opts.max_unread,
		.n_waits = a->n_awaits,
	};
	bool may = s->opts.unread_wait_s > 0 && unread_take(a);
	struct err err = { 0 };
	int r;

	if (!may)
		p.until_ms = 0; /* only whether there is anything to wait for */
	/* First: the wake may come before resolve_await() returns, and another step before this one is done. */
	pthread_mutex_lock(&a->lock);
	a->awaits = may;
	for (struct artifact_waiter *w = a->waiters; may && w; w = w->next)
		patience_join(w);
	pthread_mutex_unlock(&a->lock);
	a->n_awaits++;
	r = resolve_await(s->resolver, &a->what, &p, wake, &err);
	if (r < 0)
		log_warn("http", "waiting for files that are not read yet: %s", err.text);
	if (r < 0 || r == RESOLVE_BUSY) {
		a->unread = true;
		r = RESOLVE_BUSY;
		if (!may)
			counters_refused("unread");
	}
	return r;
}

/* ---- the reply ---- */

/* The client asks again after 503. elfutils' client never does: it takes 503 for a miss, and remembers that, too. */
static bool wants_retry(struct http_conn *conn)
{
	const char *asked = http_header(conn, UNREAD_ASKED), *agent = http_header(conn, "User-Agent");

	return (asked && strcasecmp(asked, "retry") == 0) ||
	       (agent && str_starts(str_of(agent), STR("lode/")));
}

void unread_refuse(struct request *req, const char *text)
{
	request_refuse(req, wants_retry(req->conn) ? 503 : 404,
		       arena_printf(&req->arena, "%s; packages are still being read: ask again", text));
	http_reply_header(req->reply, UNREAD_ASKED, "1");
}
