/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a lode server that has not read all of its packages yet: how long, and the progress on a terminal meanwhile.
 */
#include <unistd.h>
#include "cmd/internal.h"
#include "net/net.h"

#define SHOW_EACH_MS 200

int64_t unread_wait_ms(const struct settings *s)
{
	return s->find.unread_wait_s ? s->find.unread_wait_s * 1000 : -1;
}

void progress_add_waiting(struct buf *line, const struct client_progress *p)
{
	AUTO(arena_done) struct arena a = { 0 };

	arena_init(&a);
	if (p->n_waiting > 1)
		buf_printf(line, "%zu files wait for ", p->n_waiting);
	else
		buf_add_str(line, STR("waiting for "));
	/* The package first: a terminal may be narrow. */
	buf_printf(line, "%s to be read by " STR_FMT, p->reading,
		   STR_ARG(net_url_shown(str_of(p->reading_at), &a)));
}

/* ---- of a search that shows nothing else ---- */

struct wait_watch {
	struct client_watch watch;
	int64_t shown_ms;
	bool shown;
};

static int on_wait_progress(void *arg, const struct client_progress *p)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct wait_watch *w = arg;
	int64_t now_ms = clock_mono_ms();

	if (signals_stopped())
		return 1;
	if (!p->reading || now_ms - w->shown_ms < SHOW_EACH_MS)
		return 0;
	w->shown_ms = now_ms;
	w->shown = true;
	progress_add_waiting(&b, p);
	progress_show(&b);
	return 0;
}

static void on_wait_done(void *arg, size_t i, struct client_result *r)
{
	struct wait_watch *w = arg;

	if (w->shown)
		progress_clear();
	w->shown = false;
}

const struct client_watch *wait_watch_new(struct settings *s)
{
	struct wait_watch *w;

	if (!isatty(STDERR_FILENO))
		return NULL;
	w = ARENA_NEW(&s->arena, struct wait_watch);
	w->watch = (struct client_watch){ .arg = w, .progress = on_wait_progress, .done = on_wait_done };
	return &w->watch;
}
