/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for frames: parsed, its tables requested, answered. See symbolize.h.
 */
#include "server/symbolize/symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static enum http_next ask_refuse(struct ask *a, unsigned status, const char *text)
{
	/* A form may have refused it itself. */
	if (!a->req->reply)
		request_refuse(a->req, status, text);
	return HTTP_REPLY;
}

/* ---- replies ---- */

/* Charge the request's memory: its parsed form, its answers and their text. */
static void ask_account(struct ask *a)
{
	budget_hold_track(&a->hold, &a->held, a->req->arena.size + a->parts.room + a->out.room);
}

/* Of the chunk to be written. */
static void ask_deadline(struct ask *a)
{
	a->deadline = request_deadline(a->req, "the symbolization", "ask for fewer addresses at once");
	tables_request_set_deadline(a->request, &a->deadline);
}

/* A client that hung up has met no limit. */
static void count_deadline(const struct err *err)
{
	if (err->os == ETIME)
		counters_refused("deadline");
}

static enum http_next ask_write_next(struct request *req)
{
	struct ask *a = req->own;
	struct err err = { 0 };
	const char *type;

	a->out.size = a->n_sent = 0;
	ask_deadline(a);
	a->cut = ask_write_chunk(a, &type, &err) < 0;
	if (a->cut)
		count_deadline(&err);
	ask_account(a);
	return HTTP_REPLY; /* it goes on where it was suspended, in ask_read() */
}

/* On an HTTP thread: the bytes at hand. When there are none, a worker writes the next chunk meanwhile. */
static ssize_t ask_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct ask *a = arg;
	size_t n = MIN(max, a->out.size - a->n_sent);

	if (a->cut)
		return HTTP_STREAM_CUT;
	if (!n && a->ended)
		return HTTP_STREAM_END;
	if (!n) {
		if (!wait_begin_work(a->req))
			return HTTP_STREAM_CUT;
		request_continue(a->req, ask_write_next);
		return 0;
	}
	memcpy(buf, a->out.p + a->n_sent, n);
	a->n_sent += n;
	a->req->bytes += n;
	return (ssize_t)n;
}

static void ask_reply_stream(struct ask *a, const char *type)
{
	struct request *req = a->req;

	http_reply_unref(req->reply);
	req->reply = http_reply_stream(HTTP_SIZE_UNKNOWN, ask_read, a);
	http_reply_header(req->reply, "Content-Type", type);
	http_reply_header(req->reply, "Cache-Control", "no-store");
	reply_common_headers(req->service, req->reply);
	req->status = a->passes ? 202 : 200;
	req->bytes = 0;
	req->result = "made";
}

/* ---- on workers ---- */

#define STEPS_OF_MODULE 1024u

/* The status is sent before all answers are known. All that passes is known by the tables and layouts. */
static void ask_note_passing(struct ask *a)
{
	AUTO(mem_freep) bool *asked = mem_zalloc(a->n_ids + 1);

	for (size_t i = 0; i < a->n_ids; i++) {
		struct tables_module m;

		tables_request_module(a->request, i, &m);
		a->passes |= frame_reason_passes(m.reason);
		asked[i] = m.reason != FRAME_FOUND || m.layout || !(a->request_flags & TABLES_LAYOUTS);
	}
	for (size_t i = 0; i < a->n; i++) {
		const struct tables_query *q = &a->queries[i];
		struct tables_answer ans;

		if (q->module >= a->n_ids || asked[q->module] || q->kind == FRAME_VADDR)
			continue;
		asked[q->module] = true;
		/* The first chunk refuses it then. */
		if (deadline_over(&a->deadline, STEPS_OF_MODULE))
			return;
		tables_find(a->request, q, &ans);
		a->passes |= frame_reason_passes(ans.reason);
	}
}

static enum http_next ask_answer_all(struct ask *a)
{
	struct request *req = a->req;
	struct err err = { 0 };
	const char *type;

	/* The forms have copied the parts that they need. */
	body_drop(req);
	a->body = (struct bytes){ 0 };
	ask_account(a);
	if (budget_hold_add(&a->hold, 2 * ASK_CHUNK, &err) < 0)
		return ask_refuse(a, err.kind == ERR_LIMIT ? 413 : 503, err.text);
	budget_hold_sub(&a->hold, 2 * ASK_CHUNK);
	ask_deadline(a);
	ask_note_passing(a);
	if (ask_write_chunk(a, &type, &err) < 0) {
		count_deadline(&err);
		return ask_refuse(a, err.os == ETIME ? 504 : 503, err.text);
	}
	ask_account(a);
	/* Of a form that has no chunks. */
	if (!a->form->begin && budget_hold_check(&a->hold, &err) < 0)
		return ask_refuse(a, 503, err.text);
	if (!a->ended) {
		ask_reply_stream(a, type);
	} else {
		budget_hold_track(&a->hold, &a->held, 0);
		/* Nothing but the reply is needed from here on. */
		tables_request_free(TAKE(a->request));
		if (!request_reply_body(req, a->passes ? 202 : 200, &a->out, type, true))
			return HTTP_REPLY;
		ask_account(a);
	}
	if (a->passes)
		http_reply_header(req->reply, "Retry-After", "1");
	return HTTP_REPLY;
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
	struct err err = { 0 };
	int64_t max_ms = req->s->opts.request_deadline_ms;
	int64_t deadline_ms = clock_mono_ms() + MIN(a->timeout_ms, max_ms);

	/* It may wait long for its tables, too. */
	ask_account(a);
	if (budget_hold_check(&a->hold, &err) < 0)
		return ask_refuse(a, err.kind == ERR_LIMIT ? 413 : 503, err.text);
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
	int r;

	/* The form reads it in place. */
	a->body = buf_bytes(&req->body);
	r = a->form->parse(a, &err);
	budget_hold_sub(&a->hold, a->tree_size);
	if (r < 0) {
		char text[ERR_TEXT_SIZE + 32];

		snprintf(text, sizeof(text), "the request: %s", err.text);
		return ask_refuse(a, err.kind == ERR_LIMIT ? 413 : err.kind == ERR_BUSY ? 503 : 400, text);
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
	budget_hold_init(&a->hold, req->s->opts.memory, BUDGET_REPLY);
	req->own = a;
	if (!req->s->opts.tables)
		request_refuse(req, 404, "this server does not symbolize addresses");
	else if (req->parts[0].size && !server_build_id(&a->path_id, req->parts[0]))
		request_refuse(req, 400, server_bad_build_id(req->parts[0]));
}

static void ask_post_begin(struct request *req)
{
	bool binary = http_has_type(req->conn, "application/x-lode-symbolize");

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
	if (a->form->drop)
		a->form->drop(a);
	tables_request_free(a->request);
	buf_done(&a->parts);
	buf_done(&a->out);
	free(a->at);
	budget_hold_done(&a->hold);
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
