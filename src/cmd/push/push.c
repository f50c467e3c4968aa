/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode push: send debug files, programs and sources to a server that keeps them.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/condition.h"
#include "cmd/push/direct.h"
#include "cmd/push/target.h"

#define PARALLEL      8u
#define RETRIES       8u
#define SHOW_EVERY_MS 200

/* ---- progress ---- */

static void show_push_progress(struct push *p, int64_t from_ms)
{
	double s = (double)(clock_mono_ms() - from_ms) / 1000.0;
	unsigned done = p->n_state[PUSH_STORED] + p->n_state[PUSH_HERE] + p->n_state[PUSH_FAILED];
	char sent[32], found[32], rate[32];

	fprintf(stderr, "\r\033[K%u of %u%s, %s sent of %s found, %s/s", done, p->n_items,
		p->walked ? "" : " so far", size_text(p->bytes_sent, sent), size_text(p->bytes_found, found),
		size_text(s > 0.2 ? (uint64_t)((double)p->bytes_sent / s) : 0, rate));
	if (p->n_state[PUSH_FAILED])
		fprintf(stderr, ", %u failed", p->n_state[PUSH_FAILED]);
	fflush(stderr);
}

static bool is_done(const struct push *p)
{
	return p->fatal ||
	       (p->walked &&
		p->n_state[PUSH_STORED] + p->n_state[PUSH_HERE] + p->n_state[PUSH_FAILED] == p->n_items);
}

static void wait_for_change(struct push *p, int64_t until_ms)
{
	int64_t left_ms = MIN(MAX(until_ms - clock_mono_ms(), INT64_C(1)), (int64_t)SHOW_EVERY_MS);

	condition_wait(&p->changed, &p->lock, left_ms);
}

static void push_all(struct push *p, bool shown)
{
	int64_t from_ms = clock_mono_ms(), shown_ms = 0;

	pthread_mutex_lock(&p->lock);
	while (!is_done(p) && !signals_stopped()) {
		int64_t now_ms = clock_mono_ms(), next_ms = push_pump(p, now_ms);

		if (shown && now_ms - shown_ms >= SHOW_EVERY_MS) {
			show_push_progress(p, from_ms);
			shown_ms = now_ms;
		}
		if (!is_done(p))
			wait_for_change(p, next_ms);
	}
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (shown)
		progress_clear();
}

/* ---- summary ---- */

static void put_push_items(struct json_writer *j, const struct push *p)
{
	json_open_array(j, "objects");
	for (const struct push_item *item = p->first; item; item = item->next) {
		char id[BUILD_ID_HEX_SIZE];

		json_open_object(j, NULL);
		json_put_text(j, "file", item->path);
		json_put_text(j, "build_id", build_id_hex(&item->key.id, id));
		json_put_text(j, "kind", store_kind_name(item->key.kind));
		json_put_uint(j, "size", item->size);
		json_put_text(j, "quality", store_quality_name(item->quality));
		json_put_text(j, "result", item->result ? item->result : "not tried");
		if (item->why && (item->state == PUSH_FAILED || !item->result))
			json_put_text(j, "why", item->why);
		json_close(j);
	}
	json_close(j);
}

static void print_push_json(const struct push *p, double took_s)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_uint(&j, "stored", p->n_state[PUSH_STORED]);
	json_put_uint(&j, "held", p->n_held);
	json_put_uint(&j, "already_there", p->n_state[PUSH_HERE]);
	json_put_uint(&j, "failed", p->n_state[PUSH_FAILED]);
	json_put_uint(&j, "unreadable", p->n_errors);
	json_put_uint(&j, "without_build_id", p->n_skipped);
	json_put_uint(&j, "bytes_stored", p->bytes_stored);
	json_put_uint(&j, "bytes_sent", p->bytes_sent);
	json_put_uint(&j, "to_bucket", p->n_signed);
	if (p->not_signed)
		json_put_text(&j, "not_to_bucket", p->not_signed);
	json_put_double(&j, "seconds", took_s);
	put_push_items(&j, p);
	json_close(&j);
	json_print_end(&text);
}

static void print_push_report(const struct push *p, int64_t took_ms, bool json)
{
	double s = (double)MAX(took_ms, INT64_C(1)) / 1000.0;
	char stored[32], rate[32];

	if (json) {
		print_push_json(p, s);
		return;
	}
	printf("%u stored (%s in %.1f s, %s/s), %u were there already, %u failed\n", p->n_state[PUSH_STORED],
	       size_text(p->bytes_stored, stored), s, size_text((uint64_t)((double)p->bytes_sent / s), rate),
	       p->n_state[PUSH_HERE], p->n_state[PUSH_FAILED]);
	if (p->n_held)
		printf("%u of the stored ones are on the server's disk only: it puts them into its bucket "
		       "when that "
		       "is back\n",
		       p->n_held);
	if (p->not_signed)
		printf("files went through the server, since one could not be sent to its bucket: %s\n",
		       p->not_signed);
	if (p->n_skipped)
		printf("%u ELF files were skipped: they have no build ID, or are neither programs, libraries "
		       "nor debug files\n",
		       p->n_skipped);
}

static int tell_failures(const struct push *p)
{
	unsigned n_left = p->n_items;
	struct err err = { 0 };

	for (const struct push_item *item = p->first; item; item = item->next) {
		if (push_is_over(item->state))
			n_left--;
		if (item->state != PUSH_FAILED)
			continue;
		(void)err_set(&err, ERR_UPSTREAM, "%s: %s: %s", item->path, store_kind_name(item->key.kind),
			      item->why);
		tell_error("push", &err);
	}
	if (p->fatal) {
		(void)err_set(&err, ERR_UPSTREAM, "%s: %s", p->o.to, p->fatal);
		tell_error("push", &err);
	} else if (signals_stopped()) {
		(void)err_set(&err, ERR_CANCELLED,
			      "stopped; %u files were not sent, the next push continues with them", n_left);
		tell_error("push", &err);
	}
	return p->fatal || signals_stopped() || p->n_state[PUSH_FAILED] || p->n_errors || !p->n_items
		       ? EXIT_FAILED
		       : EXIT_DONE;
}

/* ---- */

static void push_init(struct push *p)
{
	pthread_mutex_init(&p->lock, NULL);
	condition_init(&p->changed);
	p->last = &p->first;
}

static void push_done(struct push *p)
{
	for (struct push_item *item = p->first, *next; item; item = next) {
		next = item->next;
		fd_close(&item->fd);
		free(item->path);
		free(item->name);
		free(item->why);
		direct_free(item->direct);
		free(item);
	}
	map_done(&p->known);
	free(p->fatal);
	free(p->not_signed);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
}

static int run_uploads(const struct settings *s, struct push *p)
{
	const struct net_options net = { .max_per_server = p->o.parallel + 1 };
	int64_t from_ms = clock_mono_ms();
	struct err err = { 0 };
	pthread_t finder;
	int r;

	if (net_new(&net, &p->net, &err) < 0)
		return tell_error("push", &err);
	signals_catch();
	signal(SIGPIPE, SIG_IGN);
	r = net_start_thread(p->net, &err);
	if (r == 0) {
		r = pthread_create(&finder, NULL, push_find, p);
		if (r)
			r = err_os(&err, r, "no thread for the walk over the files");
	}
	if (r < 0) {
		net_free(p->net);
		return tell_error("push", &err);
	}
	push_all(p, isatty(STDERR_FILENO) && !s->verbose);
	pthread_join(finder, NULL);
	/* Cancels all requests; after that no other thread uses the items. */
	net_free(p->net);
	print_push_report(p, clock_mono_ms() - from_ms, s->json);
	if (!p->n_items && !p->n_errors && !p->fatal) {
		(void)err_set(&err, ERR_INVALID, "nothing to push: there is no ELF file with a build ID");
		return tell_error("push", &err);
	}
	return tell_failures(p);
}

static int run_push(struct settings *s)
{
	struct push p = { .paths = &s->paths };
	struct err err = { 0 };
	int status;

	p.o.parallel = s->push.parallel ? s->push.parallel : 1;
	p.o.retries = s->push.retries;
	p.o.sources = s->push.sources;
	p.o.signed_too = !s->push.through_server;
	if (target_url(s->push.to, &s->arena, &p.o.to, &err) < 0)
		return usage_error("push", "%s", err.text);
	if (target_token(s->push.token_file, &s->arena, &p.o.token, &err) < 0)
		return tell_error("push", &err);
	push_init(&p);
	status = run_uploads(s, &p);
	push_done(&p);
	return status;
}

static void push_defaults(struct settings *s)
{
	s->push.parallel = PARALLEL;
	s->push.retries = RETRIES;
}

static const struct option_row push_rows[] = {
	TARGET_ROWS,
	{ 0, "sources", NULL,
	  "push the source files named by debug information, too, if they are on this machine",
	  OPT_ON(push.sources) },
	{ 0, "parallel", "N", "uploads at once [8]", OPT_NUMBER(push.parallel) },
	{ 0, "retries", "N", "retries of an upload, with longer and longer pauses [8]",
	  OPT_NUMBER(push.retries) },
	{ 0, "through-server", NULL,
	  "send no file to the server's bucket, also where the server offers that (its --signed-uploads)",
	  OPT_ON(push.through_server) },
	{ 'v', "verbose", NULL, "log more", OPT_ON(verbose) },
	{ 0 },
};
static const struct option_group push_group = { "Pushing", push_rows };

const struct command command_push = {
	.name = "push",
	.args = "FILE|DIR... --to URL",
	.summary = "send debug files, programs and sources to a server that keeps them",
	.examples = "  lode push build/ --to http://debug.example:8002 --token-file ci.token\n"
		    "  lode push --sources app.debug app --to http://localhost:8002\n",
	.groups = { &push_group, &group_output },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "no FILE or DIR given",
	.defaults = push_defaults,
	.run = run_push,
};
