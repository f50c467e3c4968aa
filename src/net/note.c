/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of each server, for people: one line each, the last one reported.
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

/* The text from a server goes to terminals, logs and one-line replies. */
static char *note_text(struct arena *a, const char *message)
{
	char *text = arena_strdup(a, str_of(message));

	for (char *p = text; *p; p++)
		if ((uint8_t)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return text;
}

void note_add(struct notes *n, const struct net_note *given)
{
	struct str shown = net_url_shown(str_of(given->server), &n->arena);
	struct net_note note = *given;
	size_t i = 0;

	note.server = shown.p;
	note.message = note_text(&n->arena, given->message);
	note.missing = (note.status == 404 || note.status == 410) && !note.unread;
	if (note.again_s > 0)
		note.message = arena_printf(&n->arena, "%s; will be asked again in %lld s", note.message,
					    (long long)note.again_s);
	while (i < n->n && !str_eq(str_of(n->items[i].server), shown))
		i++;
	if (i < n->n) {
		memmove(&n->items[i], &n->items[i + 1], (n->n - i - 1) * sizeof(*n->items));
		n->n--;
	}
	n->items[n->n++] = note;
}
