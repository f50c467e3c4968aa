/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that are longer than the patience of elfutils' client. It gives up after 90 s without bytes of a file
 * (DEBUGINFOD_TIMEOUT), and proxies after a minute; interim responses do not count, a redirect does. So its request is
 * answered with a redirect to its own path before that, as often as needed: `waited_ms` counts how long it has waited.
 *
 * Our own client says how long a request may wait (X-LODE-WAIT), and gets 503 with the package that is being read; it asks
 * again at once.
 *
 * Between the two requests nobody waits for the artifact. It is kept for a moment, so that the work it waits for is
 * not given up.
 */
#include "server/artifact/artifact.h"

#include <stdio.h>

#define WAITED     "waited_ms"
#define KEPT_MS    5000  /* an artifact without requests, until its client is back */
#define NO_SOONER  1000  /* of two requests of one client: a redirect is no busy loop */
#define SILENT_MS  80000 /* the longest wait of a client that cannot be redirected */
#define WAIT_MAX   60000 /* ... and of a request that says how long it waits */
#define WAITED_MAX (INT64_C(86400) * 1000)

/* ---- requests ---- */

static bool follows_redirects(struct http_conn *conn)
{
	const char *agent = http_header(conn, "User-Agent");

	/* A lode server that asks for its client waits itself, and says so. */
	return agent && str_starts(str_of(agent), STR("elfutils/")) && !http_header(conn, "X-LODE-UNREAD");
}

/* 0: no number. */
static int64_t ms_of_text(struct str text, int64_t max)
{
	uint64_t ms;

	return str_to_u64(str_trim(text), &ms) ? (int64_t)MIN(ms, (uint64_t)max) : 0;
}

static int64_t waited_before_ms(struct http_conn *conn)
{
	const char *arg = http_arg(conn, WAITED);

	return arg ? ms_of_text(str_of(arg), WAITED_MAX) : 0;
}

/* "X-LODE-WAIT: 10000; waited=11000", in milliseconds. false: it does not say how long it waits. */
static bool says_wait(struct http_conn *conn, int64_t *ret_ms, int64_t *ret_waited_ms)
{
	const char *text = http_header(conn, "X-LODE-WAIT");
	struct str rest, ms;

	if (!text)
		return false;
	rest = str_of(text);
	ms = str_cut(&rest, ';');
	rest = str_trim(rest);
	*ret_ms = ms_of_text(ms, WAIT_MAX);
	*ret_waited_ms = 0;
	if (str_starts(rest, STR("waited=")))
		*ret_waited_ms = ms_of_text((struct str){ rest.p + 7, rest.size - 7 }, WAITED_MAX);
	return true;
}

static int64_t patience_started_ms(const struct artifact_waiter *w)
{
	return w->req->started_ns / 1000000;
}

void patience_begin(struct artifact_waiter *w)
{
	const struct server_options *o = &w->req->s->opts;
	int64_t ms;

	w->asks_again = says_wait(w->req->conn, &ms, &w->waited_ms);
	if (w->asks_again)
		wait_no_longer(w->req, patience_started_ms(w) + ms);
	if (w->asks_again || !o->redirect_ms || !follows_redirects(w->req->conn))
		return;
	w->redirected = true;
	w->waited_ms = waited_before_ms(w->req->conn);
	wait_no_longer(w->req, patience_started_ms(w) + o->redirect_ms);
}

void patience_join(struct artifact_waiter *w)
{
	int64_t most_ms = w->req->s->opts.unread_wait_s * 1000;

	most_ms = w->redirected || w->asks_again ? MAX(most_ms - w->waited_ms, (int64_t)0)
						 : MIN(most_ms, (int64_t)SILENT_MS);
	wait_no_longer(w->req, patience_started_ms(w) + most_ms);
}

static void ask_to_come_again(struct artifact_waiter *w)
{
	struct request *req = w->req;
	struct str reading = resolve_reading(req->s->resolver, &w->what, &req->arena);

	request_refuse(req, 503,
		       arena_printf(&req->arena, "not here so far; " STR_FMT " is being read: ask again",
				    STR_ARG(reading.size ? reading : STR("a package"))));
	http_reply_header(req->reply, "X-LODE-UNREAD", "waiting");
	if (reading.size)
		http_reply_header(req->reply, "X-LODE-READING", arena_strdup(&req->arena, reading));
}

bool patience_again(struct artifact_waiter *w, bool awaits)
{
	struct request *req = w->req;
	const struct server_options *o = &req->s->opts;
	int64_t now_ms = clock_mono_ms(), took_ms = now_ms - patience_started_ms(w);
	int64_t most_ms = o->unread_wait_s * 1000;
	char location[64];

	if (!awaits)
		most_ms = MAX(most_ms, o->request_deadline_ms);
	if ((!w->redirected && !w->asks_again) || w->waited_ms + took_ms >= most_ms ||
	    (w->redirected && took_ms < MIN((int64_t)NO_SOONER, o->redirect_ms)))
		return false;
	patience_keep(w->artifact, now_ms + KEPT_MS);
	if (w->asks_again) {
		ask_to_come_again(w);
		return true;
	}
	/* The query alone: a proxy may have changed the path before it. */
	snprintf(location, sizeof(location), "?" WAITED "=%lld", (long long)(w->waited_ms + took_ms));
	request_reply_text(req, 307, "the packages are still being read: ask again, at once");
	http_reply_header(req->reply, "Location", location);
	return true;
}

/* ---- artifacts without requests ---- */

void patience_keep(struct artifact *a, int64_t until_ms)
{
	struct server *s = a->s;

	/* Of one request's own the next request knows nothing. */
	if (a->solo)
		return;
	pthread_mutex_lock(&s->kept.lock);
	a->kept_until_ms = until_ms;
	if (!a->kept) {
		a->kept = true;
		artifact_ref(a);
		a->next_kept = s->kept.first;
		s->kept.first = a;
	}
	pthread_mutex_unlock(&s->kept.lock);
}

bool patience_keeps(struct artifact *a)
{
	bool kept;

	pthread_mutex_lock(&a->s->kept.lock);
	kept = a->kept;
	pthread_mutex_unlock(&a->s->kept.lock);
	return kept;
}

bool patience_tick(struct server *s, int64_t now_ms)
{
	struct artifact **at, *over = NULL;
	bool more;

	pthread_mutex_lock(&s->kept.lock);
	for (at = &s->kept.first; *at;) {
		struct artifact *a = *at;

		if (now_ms < a->kept_until_ms) {
			at = &a->next_kept;
			continue;
		}
		*at = a->next_kept;
		a->kept = false;
		a->next_over = over;
		over = a;
	}
	more = s->kept.first;
	pthread_mutex_unlock(&s->kept.lock);
	while (over) {
		struct artifact *next = over->next_over;

		/* If no request came back, the step ends it. */
		task_kick(&over->task);
		artifact_unref(over);
		over = next;
	}
	return more;
}
