/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for frames, from its headers to its reply. See symbolize.h.
 */
#include "server/symbolize/symbolize.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include "server/post.h"
#include "server/push/push.h"

/* ---- replies ---- */

static void refuse(struct request *req, unsigned status, const char *text)
{
	AUTO(mem_freep) char *line = mem_printf("%s\n", text);

	json_refuse(req, status, line);
}

static void reply(struct ask *a, const char *type)
{
	struct request *req = a->req;

	req->status = a->passes ? 202 : 200;
	req->bytes = a->out.size;
	req->result = "made";
	req->reply = reply_body(req->s, &a->out, type, true);
	if (a->passes)
		http_reply_header(req->reply, "Retry-After", "1");
}

/* ---- answering ---- */

bool ask_is_full(const struct ask *a)
{
	return a->parts.size > ASK_MAX_REPLY;
}

void ask_part_begin(struct ask *a, size_t i)
{
	a->at[i].off = a->parts.size;
}

void ask_part_end(struct ask *a, size_t i)
{
	a->at[i].size = a->parts.size - a->at[i].off;
}

void ask_add_part(struct ask *a, size_t i)
{
	if (a->at[i].size)
		buf_add(&a->out, a->parts.p + a->at[i].off, a->at[i].size);
}

static void on_answer(void *arg, size_t i, const struct tables_answer *ans)
{
	struct ask *a = arg;

	a->passes |= frame_reason_passes(ans->reason);
	a->form->answer(a, i, ans);
}

static void answer_all(struct ask *a)
{
	a->at = NEW_N(struct ask_part, a->n + 1);
	memset(a->at, 0, (a->n + 1) * sizeof(*a->at));
	tables_find_all(a->hold, a->queries, a->n, on_answer, a);
	for (size_t i = 0; i < a->n_ids; i++) {
		struct tables_module m;

		tables_request_module(a->hold, i, &m);
		a->passes |= frame_reason_passes(m.reason);
	}
	reply(a, a->form->finish(a));
}

static void run_answer(void *arg)
{
	struct request *req = arg;

	answer_all(req->ask);
	wait_job_done(req);
}

/* Tables are there, or the deadline is over. From any thread. */
static void on_ready(void *arg)
{
	struct request *req = arg;

	if (pool_submit(req->s->workers, POOL_NORMAL, run_answer, req) != 0)
		abort(); /* the pool has room for all that may be suspended */
}

static void start(struct ask *a)
{
	struct request *req = a->req;
	bool *goes_on = req->goes_on;
	int64_t max_ms = req->s->opts.request_deadline_ms;
	int64_t deadline_ms = clock_mono_ms() + MIN(a->timeout_ms, max_ms);

	/* It may be answered, and gone, before the hold is returned. */
	*goes_on = true;
	if (tables_request_new(req->s->opts.tables, a->ids, a->n_ids, a->hold_flags | TABLES_UNSCANNED,
			       (struct tables_wait){ deadline_ms, on_ready, req }, &a->hold) == TABLES_WAITS)
		return;
	*goes_on = false;
	answer_all(a);
}

static void run(struct ask *a)
{
	struct err err = { 0 };

	if (a->form->parse(a, &err) < 0) {
		char text[ERR_TEXT_SIZE + 32];

		snprintf(text, sizeof(text), "the request: %s", err.text);
		refuse(a->req, err.kind == ERR_LIMIT ? 413 : 400, text);
		return;
	}
	if (a->discriminators && !tables_has_discriminators(a->req->s->opts.tables)) {
		refuse(a->req, 400,
		       "the tables here are made without discriminators: lode serve --discriminators");
		return;
	}
	start(a);
}

static struct ask *ask_new(struct request *req, const struct ask_form *form)
{
	struct ask *a = ARENA_NEW(&req->arena, struct ask);

	a->req = req;
	a->arena = &req->arena;
	a->form = form;
	a->timeout_ms = ASK_TIMEOUT_MS;
	req->ask = a;
	return a;
}

static void post_job(struct request *req)
{
	/* The form reads it where it lies. */
	req->ask->body = buf_bytes(&req->post->body);
	run(req->ask);
}

static const struct post_kind ask_post = {
	.max = ASK_MAX_BODY,
	.max_together = ASK_MAX_BODIES,
	.too_long = "it has more than 16 MiB: ask in several",
	.refuse = refuse,
	.job = post_job,
};

void ask_get_job(struct request *req)
{
	bool pprof = req->route.kind == ROUTE_SYMBOLZ;
	struct ask *a = ask_new(req, &ask_get);

	if (!req->s->opts.tables) {
		refuse(req, 404, "addresses are not translated here");
	} else if (pprof) {
		/* pprof asks first whether there are symbols at all. */
		buf_add_str(&a->out, STR("num_symbols: 1\n"));
		reply(a, "text/plain; charset=utf-8");
	} else if (!req->route.resolve.id.size) {
		refuse(req, 400, "this path takes POST");
	} else {
		run(a);
	}
}

/* ---- POST ---- */

static const struct ask_form *form_of(const struct request *req)
{
	const char *type = http_header(req->conn, "Content-Type");

	if (req->route.kind == ROUTE_SYMBOLICATE_V5)
		return &ask_v5;
	if (req->route.kind == ROUTE_SYMBOLZ)
		return &ask_pprof;
	return type && strncasecmp(type, "application/x-lode-symbolize", 28) == 0 ? &ask_binary : &ask_json;
}

bool ask_begin(struct server *s, const struct http_request *hr, void **ctx)
{
	char room[ROUTE_URL_MAX + 1];
	struct request *req;
	struct route route;
	const char *why = "";
	unsigned status;

	if (!s->opts.tables || strcmp(hr->method, "POST") != 0 ||
	    route_parse(str_of(hr->url), room, &route, &why) != 0 ||
	    (route.kind != ROUTE_SYMBOLIZE && route.kind != ROUTE_SYMBOLZ &&
	     route.kind != ROUTE_SYMBOLICATE_V5))
		return false;
	req = request_new_post(s, hr, &route, TYPE_SYMBOLIZE);
	*ctx = req;
	ask_new(req, form_of(req));
	post_begin(req, &ask_post, &s->ask_bytes);
	if (!req->reply && s->opts.require_read_token && (status = push_may_read(s->push, hr->conn, &why)))
		refuse(req, status, why);
	return !req->reply;
}

void ask_done(struct request *req)
{
	struct ask *a = req->ask;

	tables_request_free(a->hold);
	buf_done(&a->parts);
	buf_done(&a->out);
	free(a->at);
}

/* ---- which build ID begins like this? ---- */

struct only_one {
	struct build_id id;
	size_t n;
};

static int take_object(void *arg, const struct store_object *o)
{
	struct only_one *one = arg;

	if (!one->n || !build_id_eq(&one->id, &o->key.id))
		one->n++;
	one->id = o->key.id;
	return 0;
}

bool ask_complete_id(struct server *s, struct bytes prefix, struct build_id *ret)
{
	static const struct index_options read_only = { .read_only = true };
	AUTO(buf_done) struct buf next = { 0 };
	struct only_one one = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	struct err ignored = { 0 };
	int r = INDEX_MISSING;

	if (s->opts.index_path) {
		pthread_mutex_lock(&s->index_lock);
		if (!s->index && index_open(s->opts.index_path, &read_only, &s->index, &ignored) < 0)
			s->index = NULL;
		if (s->index)
			r = index_complete(s->index, prefix, ret, &ignored);
		pthread_mutex_unlock(&s->index_lock);
	}
	if (r == 0)
		return true;
	if (!s->opts.store || store_list(s->opts.store, str_of(hex_encode(prefix, hex)), STR(""), 16,
					 take_object, &one, &next, &ignored) < 0)
		return false;
	*ret = one.id;
	return one.n == 1;
}

/* ---- writing JSON ---- */

void ask_add_name(struct ask *a, const struct symtab_frame *f, struct buf *b)
{
	AUTO(buf_done) struct buf name = { 0 };

	frame_name(f, a->demangling, &name);
	json_add_string(b, buf_str(&name));
}

void ask_add_path(const struct symtab_frame *f, struct buf *b)
{
	AUTO(buf_done) struct buf path = { 0 };

	symtab_path(f->dir, f->file, &path);
	json_add_string(b, buf_str(&path));
}

/* ---- reading ---- */

json_t *ask_load_json(const struct ask *a, struct err *err)
{
	return json_load_bytes(a->body, ASK_MAX_LISTS, ASK_MAX_VALUES, err);
}

bool ask_number_text(struct str s, bool hex, uint64_t *ret)
{
	uint64_t v = 0;

	s = str_trim(s);
	if (str_starts(s, STR("0x")) || str_starts(s, STR("0X"))) {
		hex = true;
		s = (struct str){ s.p + 2, s.size - 2 };
	}
	if (!hex)
		return str_to_u64(s, ret);
	if (!s.size || s.size > 16)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		unsigned c = (unsigned char)s.p[i], d = 16;

		if (c - '0' < 10)
			d = c - '0';
		else if ((c | 32) - 'a' < 6)
			d = (c | 32) - 'a' + 10;
		if (d == 16)
			return false;
		v = v << 4 | d;
	}
	*ret = v;
	return true;
}

bool ask_number(const json_t *j, uint64_t *ret)
{
	if (json_is_integer(j)) {
		*ret = (uint64_t)json_integer_value(j);
		return json_integer_value(j) >= 0;
	}
	return json_is_string(j) &&
	       ask_number_text((struct str){ json_string_value(j), json_string_length(j) }, false, ret);
}
