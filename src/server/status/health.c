/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /healthz and /readyz: they reveal nothing of the contents, so they need no token.
 */
#include "server/status/status.h"

static const struct http_canned *health_canned(struct server *s, const struct http_match *m)
{
	return s->opts.profiles && profilestore_is_damaged(s->opts.profiles) ? &s->ok_damaged : &s->ok;
}

/* Unlike packages that are still being read, this may need someone. */
static bool has_unlisted(struct server *s)
{
	struct scan_progress p;

	if (!s->opts.scan)
		return false;
	scan_progress(s->opts.scan, &p);
	return p.n_unlisted;
}

static const struct http_canned *ready_canned(struct server *s, const struct http_match *m)
{
	if (!atomic_load(&s->is_ready))
		return &s->not_up;
	if (!resolve_unfinished(s->resolver))
		return &s->ok;
	return has_unlisted(s) ? &s->ok_unlisted : &s->ok_unread;
}

const struct http_handler health_get = { .canned = health_canned };
const struct http_handler ready_get = { .canned = ready_canned };
