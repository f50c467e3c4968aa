/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/targets: the files of targets, the targets, and the last pull of each of their profiles. Targets with failures
 * come first.
 *
 *   { "files": [ { "file", "targets", "read", "error" } ],
 *     "targets": [ { "url", "labels": {}, "interval", "failing",
 *                    "profiles": [ { "name", "path", "running", "next", "result", "start", "duration", "stored_at",
 *                                    "samples", "bytes", "stored", "failed", "failures", "restarts", "error" } ] } ],
 *     "left_out", "duplicates" }
 *
 * Times are milliseconds since 1970. Nothing in it is secret: settings of authorization and TLS are not shown.
 */
#include "server/scrape/internal.h"

#define SHOWN_TARGETS 1000u

static void show_file(struct json_writer *w, struct arena *a, const struct scrape_file *f)
{
	json_open_object(w, NULL);
	json_put_str(w, "file", path_basename(str_of(f->path)));
	json_put_uint(w, "targets", f->list ? f->list->n : 0);
	json_put_int(w, "read", f->read_ms);
	if (f->broken)
		json_put_str(w, "error", server_hide_paths(a, str_of(f->err.text)));
	json_close(w);
}

static void show_endpoint(struct json_writer *w, struct arena *a, const struct endpoint *e,
			  int64_t to_wall_ms)
{
	json_open_object(w, NULL);
	json_put_text(w, "name", e->profile->name);
	json_put_text(w, "path", e->profile->path);
	json_put_bool(w, "running", e->pull);
	json_put_int(w, "next", e->due_ms + to_wall_ms);
	json_put_text(w, "result", scrape_results[e->seen.result]);
	json_put_int(w, "start", e->seen.start_ms);
	json_put_int(w, "duration", e->seen.duration_ms);
	json_put_int(w, "stored_at", e->seen.stored_ms);
	json_put_uint(w, "samples", e->seen.n_samples);
	json_put_uint(w, "bytes", e->seen.n_bytes);
	json_put_uint(w, "stored", e->seen.n_stored);
	json_put_uint(w, "failed", e->seen.n_failed);
	json_put_uint(w, "failures", e->seen.failures);
	json_put_uint(w, "restarts", e->seen.n_bases);
	if (e->seen.failures)
		json_put_str(w, "error", server_hide_paths(a, str_of(e->seen.error)));
	json_close(w);
}

static void show_target(struct json_writer *w, struct arena *a, struct endpoint *const *v, size_t n,
			size_t n_failing, int64_t to_wall_ms)
{
	const struct scrape_target *t = v[0]->target;

	json_open_object(w, NULL);
	json_put_text(w, "url", t->shown);
	json_open_object(w, "labels");
	for (size_t i = 0; i < t->n_labels; i++) {
		json_key(w, t->labels[i].name);
		json_put_str(w, NULL, t->labels[i].value);
	}
	json_close(w);
	json_put_int(w, "interval", t->group->interval_ms);
	json_put_uint(w, "failing", n_failing);
	json_open_array(w, "profiles");
	for (size_t i = 0; i < n; i++)
		show_endpoint(w, a, v[i], to_wall_ms);
	json_close(w);
	json_close(w);
}

/* Those with failures, or those without. Returns how many there are; at most @max of them are written. */
static size_t show_targets(struct json_writer *w, struct arena *a, const struct endpoints *all, bool failing,
			   size_t max)
{
	int64_t to_wall_ms = clock_wall_ms() - clock_mono_ms();
	size_t n_shown = 0;

	for (size_t i = 0, n; i < all->n; i += n) {
		size_t n_failing = 0;

		for (n = 0; i + n < all->n && all->v[i + n]->target == all->v[i]->target; n++)
			n_failing += all->v[i + n]->seen.failures > 0;
		if (failing != (n_failing > 0))
			continue;
		if (n_shown++ < max)
			show_target(w, a, &all->v[i], n, n_failing, to_wall_ms);
	}
	return n_shown;
}

static void show_all(struct scrape *s, struct json_writer *w, struct arena *a)
{
	size_t n_failing = 0, n_good = 0;

	json_open_array(w, "files");
	for (size_t i = 0; s && i < s->n_files; i++)
		show_file(w, a, &s->files[i]);
	json_close(w);
	json_open_array(w, "targets");
	if (s) {
		n_failing = show_targets(w, a, &s->endpoints, true, SHOWN_TARGETS);
		n_good = show_targets(w, a, &s->endpoints, false,
				      SHOWN_TARGETS - MIN(n_failing, (size_t)SHOWN_TARGETS));
	}
	json_close(w);
	json_put_uint(w, "left_out", n_failing + n_good - MIN(n_failing + n_good, (size_t)SHOWN_TARGETS));
	json_put_uint(w, "duplicates", s ? s->endpoints.n_twice : 0);
}

int api_targets(struct api *a, struct err *err)
{
	struct scrape *s = a->req->s->scrape;
	struct json_writer *w = &a->json;

	json_open_object(w, NULL);
	if (s)
		pthread_mutex_lock(&s->lock);
	show_all(s, w, a->arena);
	if (s)
		pthread_mutex_unlock(&s->lock);
	json_close(w);
	buf_add_char(&a->out, '\n');
	return 0;
}

/* ---- figures ---- */

void scrape_stats(struct scrape *s, struct scrape_stats *ret)
{
	*ret = (struct scrape_stats){ .base_bytes = atomic_load(&s->bases.used) };
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->endpoints.n; i++) {
		const struct endpoint *e = s->endpoints.v[i];

		ret->n_failing += e->seen.failures > 0;
		ret->n_new += e->seen.result == SCRAPE_NONE;
	}
	for (size_t i = 0; i < s->n_files; i++)
		ret->n_broken += s->files[i].broken;
	ret->n_targets = s->endpoints.n_targets;
	ret->n_good = s->endpoints.n - ret->n_failing - ret->n_new;
	ret->n_running = s->n_running;
	pthread_mutex_unlock(&s->lock);
}
