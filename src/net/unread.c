/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches of files that a lode server may have in packages that it has not read yet. The server lets a request wait for as
 * long as the request says; then it answers with X-LODE-UNREAD, and is asked again: at once if it goes on waiting for that
 * file, later if it cannot. So no request is silent for longer than any timeout on its way, and each answer has the name of
 * the package that is being read.
 *
 * A fetch that waits takes no turn from others: it is not counted among those that run, nor is its request among those to
 * one server, as long as there are not too many.
 */
#include "net/internal.h"

#define FIRST_MS    1000  /* the first request: soon there is something to show */
#define WAIT_MS     10000 /* each later one */
#define NO_SOONER   1000  /* of two requests to one server: no busy loop */
#define LATER_S     5     /* when the server cannot wait, without a Retry-After */
#define LATER_MAX_S 30
#define MAX_WAITING 256u /* fetches that wait at once */

static void show_reading(struct net_fetch *f, struct str text)
{
	const char *was = atomic_load(&f->shown_reading);

	if (!text.size)
		text = STR("its packages");
	/* Each text stays valid as long as the fetch. Most are as the one before, or differ by a percentage. */
	if (!was || !str_eq(str_of(was), text))
		atomic_store(&f->shown_reading, arena_strdup(&f->arena, text));
}

bool unread_again(struct net_fetch *f, struct candidate *c, const struct head *h, int64_t started_ms,
		  int64_t now_ms)
{
	const int64_t after_ms = (h->retry_after_s > 0 ? MIN(h->retry_after_s, (int64_t)LATER_MAX_S)
						       : LATER_S) *
				 1000;

	if (!f->patience.unread_ms)
		return false;
	if (!f->unread_since_ms)
		f->unread_since_ms = started_ms;
	if (now_ms - f->unread_since_ms >= f->patience.unread_ms ||
	    (!f->waits && f->net->n_waiting >= MAX_WAITING) ||
	    (f->sink.unread && f->sink.unread(f->sink.arg)))
		return false;
	if (!f->winner) {
		f->net->n_waiting += !f->waits;
		f->waits = true;
		show_reading(f, buf_str(&h->reading));
	}
	c->not_before_ms = h->waits ? MAX(now_ms, started_ms + NO_SOONER) : now_ms + after_ms;
	/* Not after the last moment, at which it is asked once more. */
	c->not_before_ms = MIN(c->not_before_ms,
			       MAX(f->unread_since_ms + f->patience.unread_ms, now_ms + NO_SOONER));
	/* These requests are no retries after failures. */
	c->n_tries = c->n_asked = 1;
	return true;
}

int64_t unread_turn_ms(const struct net_fetch *f, int64_t now_ms)
{
	int64_t ms = f->unread_since_ms ? WAIT_MS : FIRST_MS;
	int64_t left_ms = f->unread_since_ms ? f->unread_since_ms + f->patience.unread_ms - now_ms : ms;

	ms = MIN(ms, MAX(left_ms, (int64_t)0));
	return MIN(ms, (int64_t)f->patience.silent_ms / 2);
}

void unread_over(struct net_fetch *f)
{
	if (f->waits)
		f->net->n_waiting--;
	f->waits = false;
	atomic_store(&f->shown_reading, NULL);
}
