/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for frames: parsed, its tables requested, answered. See symbolize.h.
 */
#include "server/symbolize/symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static enum http_next ask_reply(struct ask *a, const char *type)
{
	struct request *req = a->req;

	request_reply_body(req, a->passes ? 202 : 200, &a->out, type, true);
	if (a->passes)
		http_reply_header(req->reply, "Retry-After", "1");
	return HTTP_REPLY;
}

static enum http_next ask_refuse(struct ask *a, unsigned status, const char *text)
{
	/* A form may have refused it itself. */
	if (!a->req->reply)
		request_refuse(a->req, status, text);
	return HTTP_REPLY;
}

/* ---- on workers ---- */

static void ask_on_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;

	a->passes |= frame_reason_passes(ans->reason);
	a->form->answer(a, i, ans);
}

static enum http_next ask_answer_all(struct ask *a)
{
	struct err err = { 0 };

	a->at = NEW_N(struct ask_part, a->n + 1);
	memset(a->at, 0, (a->n + 1) * sizeof(*a->at));
	a->deadline = request_deadline(a->req, "the symbolization", "ask for fewer addresses at once");
	tables_request_set_deadline(a->request, &a->deadline);
	tables_find_all(a->request, a->queries, a->n, ask_on_answer, a);
	if (deadline_check(&a->deadline, 0, &err) < 0) {
		counters_refused("deadline");
		return ask_refuse(a, err.os == ETIME ? 504 : 503, err.text);
	}
	for (size_t i = 0; i < a->n_ids; i++) {
		struct tables_module m;

		tables_request_module(a->request, i, &m);
		a->passes |= frame_reason_passes(m.reason);
	}
	return ask_reply(a, a->form->finish(a));
}

static enum http_next ask_answer(struct request *req)
{
	return ask_answer_all(req->own);
}

/* Tables are there, or the deadline is over. From any thread. */
static void ask_on_ready(void *arg)
{
	request_continue(arg, ask_answer);
}

static enum http_next ask_start(struct ask *a)
{
	struct request *req = a->req;
	int64_t max_ms = req->s->opts.request_deadline_ms;
	int64_t deadline_ms = clock_mono_ms() + MIN(a->timeout_ms, max_ms);

	/* With TABLES_WAITS the request may be answered, and gone, before this returns. */
	if (tables_request_new(req->s->opts.tables, a->ids, a->n_ids, a->request_flags | TABLES_UNSCANNED,
			       (struct tables_wait){ deadline_ms, ask_on_ready, req },
			       &a->request) == TABLES_WAITS)
		return HTTP_WAITS;
	return ask_answer_all(a);
}

static enum http_next ask_run(struct request *req)
{
	struct ask *a = req->own;
	struct err err = { 0 };

	/* The form reads it in place. */
	a->body = buf_bytes(&req->body);
	if (a->form->parse(a, &err) < 0) {
		char text[ERR_TEXT_SIZE + 32];

		snprintf(text, sizeof(text), "the request: %s", err.text);
		return ask_refuse(a, err.kind == ERR_LIMIT ? 413 : 400, text);
	}
	if (a->discriminators && !tables_has_discriminators(req->s->opts.tables))
		return ask_refuse(
			a, 400,
			"this server builds its tables without discriminators: lode serve --discriminators");
	return ask_start(a);
}

/* ---- on HTTP threads ---- */

static void ask_begin_with(struct request *req, const struct ask_form *form)
{
	struct ask *a = ARENA_NEW(&req->arena, struct ask);

	a->req = req;
	a->arena = &req->arena;
	a->form = form;
	a->timeout_ms = ASK_TIMEOUT_MS;
	req->own = a;
	if (!req->s->opts.tables)
		request_refuse(req, 404, "this server does not symbolize addresses");
	else if (req->parts[0].size && !build_id_parse(&a->path_id, req->parts[0]))
		request_refuse(req, 400, server_bad_build_id(req->parts[0]));
}

static void ask_post_begin(struct request *req)
{
	const char *type = http_header(req->conn, "Content-Type");
	bool binary = type && strncasecmp(type, "application/x-lode-symbolize", 28) == 0;

	ask_begin_with(req, req->route->arg ? req->route->arg : binary ? &ask_binary : &ask_json);
}

static void ask_get_begin(struct request *req)
{
	ask_begin_with(req, &ask_get);
}

static void ask_done(struct request *req)
{
	struct ask *a = req->own;

	if (!a)
		return;
	tables_request_free(a->request);
	buf_done(&a->parts);
	buf_done(&a->out);
	free(a->at);
}

/* pprof asks first whether there are symbols at all. */
static enum http_next ask_pprof_run(struct request *req)
{
	request_reply_text(req, 200, "num_symbols: 1");
	return HTTP_REPLY;
}

const struct http_handler symbolize_post = { .begin = ask_post_begin, .run = ask_run, .done = ask_done };
const struct http_handler symbolize_get = { .begin = ask_get_begin, .run = ask_run, .done = ask_done };
const struct http_handler symbolize_pprof_get = { .begin = ask_get_begin,
						  .run = ask_pprof_run,
						  .done = ask_done };
const struct http_body symbolize_body = {
	.slot = BODY_SYMBOLIZE,
	.max = ASK_MAX_BODY,
	.max_together = ASK_MAX_BODIES,
	.too_long = "the body has more than 16 MiB: send several requests",
};
