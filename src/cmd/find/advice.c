/* SPDX-License-Identifier: Apache-2.0 */
/* Advice on debug files that were found neither on this machine nor on the servers. */
#include <limits.h>
#include <stdlib.h>
#include "cmd/find/find.h"
#include "cmd/symbolize/symbolize.h"

/* All lists of dpkg are read for each. */
#define ADVICE_MAX 5u

bool find_advice(struct finder *f, const struct find_want *w, struct buf *out)
{
	const struct lookup_options places = { .urls = find_server_urls(f), .local_only = f->s->find.here };
	enum frame_reason reason = w->failed ? FRAME_UPSTREAM_FAILED : FRAME_UPSTREAM_404;
	struct str name = str_of(w->item->name);
	const char *opened = w->item->open_path;
	char real[PATH_MAX];

	/* Servers are asked by build ID: without one there is no advice. */
	if (!w->item->id.size || w->kind != CLIENT_DEBUGINFO || w->alt_of || w->item->optional ||
	    f->n_advised >= ADVICE_MAX)
		return false;
	f->n_advised++;
	if (name.p[0] != '/')
		name = opened && realpath(opened, real) ? str_of(real) : STR("");
	symbolize_advice(&places, reason, name, NULL, out);
	return out->size > 0;
}
