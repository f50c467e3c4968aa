/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /healthz and /readyz: they reveal nothing of the contents, so they need no token.
 */
#include "server/status/status.h"

static const struct http_canned *health_canned(struct server *s, const struct http_match *m)
{
	return s->opts.profiles && profilestore_is_damaged(s->opts.profiles) ? &s->ok_damaged : &s->ok;
}

static const struct http_canned *ready_canned(struct server *s, const struct http_match *m)
{
	if (!atomic_load(&s->is_ready))
		return &s->not_up;
	return resolve_unfinished(s->resolver) ? &s->ok_unread : &s->ok;
}

const struct http_handler health_get = { .canned = health_canned };
const struct http_handler ready_get = { .canned = ready_canned };
