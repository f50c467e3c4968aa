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

/* One client may have half of all waits, so that another one can wait, too. */
static bool unread_take(struct server *s, uint32_t client)
{
	unsigned *of = &s->unread.n_of[client % UNREAD_CLIENTS], max = s->opts.max_unread;
	bool ok;

	pthread_mutex_lock(&s->unread.lock);
	ok = s->unread.n < max && *of < (max + 1) / 2;
	if (ok) {
		s->unread.n++;
		++*of;
	}
	pthread_mutex_unlock(&s->unread.lock);
	return ok;
}

void unread_done(struct artifact *a)
{
	struct server *s = a->s;

	pthread_mutex_lock(&a->lock);
	a->awaits = false;
	pthread_mutex_unlock(&a->lock);
	if (!a->counted)
		return;
	a->counted = false;
	pthread_mutex_lock(&s->unread.lock);
	s->unread.n--;
	s->unread.n_of[a->task.slot.client % UNREAD_CLIENTS]--;
	pthread_mutex_unlock(&s->unread.lock);
}

/* ---- waiting ---- */

bool unread_unlisted(struct artifact *a)
{
	struct scan_progress p;

	if (!a->s->opts.scan)
		return false;
	scan_progress(a->s->opts.scan, &p);
	if (!p.n_unlisted)
		return false;
	(void)err_set(&a->err, ERR_IO, "not found so far, and a bucket cannot be listed now: %s", p.unlisted);
	a->err.os = ENOTCONN;
	return true;
}

int unread_await(struct artifact *a, struct resolve_wake wake)
{
	struct server *s = a->s;
	struct resolve_patience p = {
		.until_ms = clock_mono_ms() + s->opts.unread_wait_s * 1000,
		.max = s->opts.max_unread,
		.n_waits = a->n_awaits,
	};
	bool may = s->opts.unread_wait_s > 0 && (a->counted || unread_take(s, a->task.slot.client));
	struct err err = { 0 };
	int r;

	a->counted |= may;
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
