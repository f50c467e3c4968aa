/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of each server, for people: one line each, the last word that there was on it.
 */
#include "net/internal.h"

#include <stdio.h>

void notes_init(struct notes *n, size_t max)
{
	arena_init(&n->arena);
	n->items = ARENA_NEW_N(&n->arena, struct net_note, max);
	n->n = 0;
}

void notes_done(struct notes *n)
{
	arena_done(&n->arena);
}

/* A server's words go to terminals, logs and one-line replies. */
static char *printable(struct arena *a, const char *said)
{
	char *text = arena_strdup(a, str_of(said));

	for (char *p = text; *p; p++)
		if ((uint8_t)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return text;
}

void note_add(struct notes *n, const char *server, unsigned n_tries, unsigned status, bool passed_over,
	      int64_t again_s, const char *said)
{
	struct str shown = net_url_shown(str_of(server), &n->arena);
	struct net_note note = {
		.server = shown.p,
		.said = printable(&n->arena, said),
		.status = status,
		.n_tries = n_tries,
		.missing = status == 404 || status == 410,
		.passed_over = passed_over,
		.again_s = again_s,
	};
	size_t i = 0;

	if (again_s > 0)
		note.said = arena_printf(&n->arena, "%s; will be asked again in %lld s", note.said,
					 (long long)again_s);
	while (i < n->n && !str_eq(str_of(n->items[i].server), shown))
		i++;
	if (i < n->n) {
		memmove(&n->items[i], &n->items[i + 1], (n->n - i - 1) * sizeof(*n->items));
		n->n--;
	}
	n->items[n->n++] = note;
}
