/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request, from its headers to its reply.
 *
 * Hot contents, refusals and what is made beforehand are answered at once, on the HTTP thread, and leave
 * nothing behind. All else gets a struct request and is suspended: for its artifact's flight, or for a job on
 * a worker.
 */
#include "server/post.h"
#include "server/profiles/profiles.h"
#include "server/push/push.h"
#include "server/symbolize/symbolize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A flight may turn out to be the wrong one to follow; after this many, one of its own. */
#define MAX_FLIGHTS 3

/* What is known of a request before it has anything of its own. */
struct first {
	struct server *s;
	const struct http_request *hr;
	bool head;
	int64_t started_ns;
	enum request_type type;
};

static enum http_result account(const struct first *f, enum http_result sent, unsigned status,
				const char *result, uint64_t bytes)
{
	int64_t ns = clock_mono_ns() - f->started_ns;

	metrics_end(f->type, status, result, bytes, ns);
	if (f->s->access)
		access_line(f->s->access, f->hr->conn, f->hr->method, f->hr->url, status, bytes, ns, true);
	return sent;
}

static enum http_result send_made(const struct first *f, const struct made *m)
{
	return account(f, http_send(f->hr->conn, m->status, m->reply), m->status,
		       m->status < 400 ? "made" : "error", f->head ? 0 : m->size);
}

static enum http_result send_text(const struct first *f, unsigned status, const char *text)
{
	struct http_reply *r = reply_text(f->s, status, str_of(text));
	enum http_result sent = http_send(f->hr->conn, status, r);

	http_reply_unref(r);
	return account(f, sent, status, status < 400 ? "made" : "error", f->head ? 0 : strlen(text));
}

static enum http_result send_unauthorized(const struct first *f, unsigned status, const char *why)
{
	AUTO(mem_freep) char *line = mem_printf("%s\n", why);
	struct http_reply *r = reply_text(f->s, status, str_of(line));
	enum http_result sent;

	http_reply_header(r, "WWW-Authenticate", "Bearer realm=\"lode\"");
	sent = http_send(f->hr->conn, status, r);
	http_reply_unref(r);
	return account(f, sent, status, "error", f->head ? 0 : strlen(line));
}

static struct request *request_new(const struct first *f, const struct route *route)
{
	struct request *req = NEW(struct request);

	atomic_fetch_add(&f->s->n_open, 1);
	req->s = f->s;
	req->conn = f->hr->conn;
	req->method = f->hr->method;
	req->url = f->hr->url;
	req->head = f->head;
	req->started_ns = f->started_ns;
	req->deadline_ms = clock_mono_ms() + f->s->opts.request_deadline_ms;
	arena_init(&req->arena);
	req->type = f->type;
	req->route = *route;
	req->route.resolve.arg = arena_str(&req->arena, route->resolve.arg);
	req->route.file = arena_str(&req->arena, route->file);
	return req;
}

static void request_free(struct request *req)
{
	struct server *s = req->s;

	artifact_leave(req);
	http_reply_unref(req->reply);
	arena_done(&req->arena);
	free(req);
	atomic_fetch_sub(&s->n_open, 1);
}

static enum request_type type_of(const struct route *route)
{
	static const enum request_type types[ROUTE_N_KINDS] = {
		[ROUTE_METADATA] = TYPE_METADATA, [ROUTE_METRICS] = TYPE_METRICS,
		[ROUTE_HEALTHZ] = TYPE_HEALTH,    [ROUTE_READYZ] = TYPE_HEALTH,
		[ROUTE_STATUS] = TYPE_STATUS,     [ROUTE_FAILURES] = TYPE_STATUS,
		[ROUTE_PAGE] = TYPE_PAGE,         [ROUTE_SYMBOLIZE] = TYPE_SYMBOLIZE,
		[ROUTE_SYMBOLZ] = TYPE_SYMBOLIZE, [ROUTE_SYMBOLICATE_V5] = TYPE_SYMBOLIZE,
		[ROUTE_API] = TYPE_VIEW,
	};

	return route->kind == ROUTE_ARTIFACT ? (enum request_type)route->resolve.kind : types[route->kind];
}

/* ---- sending what an artifact has come to ---- */

static enum http_result send_reply(struct request *req, unsigned status, struct http_reply *reply,
				   uint64_t bytes, const char *result)
{
	req->status = status;
	req->bytes = bytes;
	req->result = result;
	return http_send(req->conn, status, reply);
}

/* Takes @reply. */
static enum http_result send_own(struct request *req, unsigned status, struct http_reply *reply,
				 uint64_t bytes, const char *result)
{
	enum http_result sent = send_reply(req, status, reply, bytes, result);

	http_reply_unref(reply);
	return sent;
}

static enum http_result send_error(struct request *req, unsigned status, struct str text)
{
	return send_own(req, status, reply_text(req->s, status, text), req->head ? 0 : text.size, "error");
}

static enum http_result send_failure(struct request *req, int outcome, const struct err *err, struct str why)
{
	char text[ERR_TEXT_SIZE + 64];
	struct str said;
	unsigned status;

	switch (outcome) {
	case RESOLVE_MISSING:
		return send_error(req, 404, why);
	case RESOLVE_BUSY:
		metrics_refused("resolver");
		return send_error(req, 503, STR("busy: too many wait for packages to be looked into\n"));
	}
	status = reply_status_of(err);
	snprintf(text, sizeof(text), "%s: %s\n",
		 status == 502   ? "not here, and other servers could not tell"
		 : status == 503 ? "it is here, but cannot be read now"
				 : "it is here, but cannot be read",
		 err->text);
	/* What is wrong with other servers is in the page and the metrics; without a network this would be
	 * all. */
	if (status == 502)
		log_debug("http", "%s: %s", req->url, err->text);
	else
		log_warn("http", "%s: %s", req->url, err->text);
	said = str_of(text);
	if (req->s->opts.hide_archive)
		said = reply_hide_paths(&req->arena, said);
	return send_error(req, status, said);
}

static enum http_result send_ready(struct request *req, struct ready *r, uint64_t epoch)
{
	unsigned status;
	uint64_t bytes;
	enum http_result sent = reply_ready(req->s, req->conn, req->head, r, &status, &bytes);

	req->status = status;
	req->bytes = bytes;
	req->result = status < 400 ? r->result : "error";
	hot_put(req->s->hot, str_of(req->url), r, epoch);
	return sent;
}

static enum http_result send_stopped(struct request *req)
{
	return send_reply(req, 503, req->s->made.busy.reply, 0, "error");
}

static enum http_result ask_again(struct request *req, bool solo)
{
	artifact_leave(req);
	return artifact_ask(req, solo) ? HTTP_SUSPENDED : HTTP_SENT;
}

/* It is known, and on its way or could be. HTTP_SENT without a status: ask_again() has something to say at
 * once. */
static enum http_result send_flowing(struct request *req)
{
	struct artifact *a = req->artifact;
	struct conditions c = reply_conditions(req->conn, req->head);
	struct verdict v = cond_judge(&c, &a->content);
	struct http_reply *reply = reply_of_verdict(req->s, &v, &a->content);
	enum http_result sent;

	if (reply)
		return send_own(req, v.status, reply, 0, v.status < 400 ? a->result : "error");
	if (!req->head) {
		enum artifact_attached attached = artifact_attach(req, v.off, v.size);

		if (attached != ATTACHED) {
			req->n_flights++;
			return ask_again(req, attached == ATTACH_SOLO || req->n_flights >= MAX_FLIGHTS);
		}
	}
	reply = http_reply_stream(v.size, artifact_read, req);
	reply_content_headers(req->s, reply, &a->content);
	reply_range_headers(reply, &v, &a->content);
	sent = send_own(req, v.status, reply, req->head ? 0 : v.size, a->result);
	return sent;
}

static enum http_result continue_artifact(struct request *req)
{
	for (;;) {
		struct artifact *a = req->artifact;
		enum http_result r;
		enum artifact_state state;
		struct ready *ready;

		pthread_mutex_lock(&a->lock);
		state = a->state;
		ready = state == ARTIFACT_WHOLE ? a->ready : NULL;
		pthread_mutex_unlock(&a->lock);
		switch (state) {
		case ARTIFACT_RESOLVING:
			if (req->fate == FATE_GONE) {
				req->status = 499;
				req->result = "error";
				return HTTP_CUT;
			}
			if (req->fate != FATE_EXPIRED)
				return send_stopped(req);
			metrics_refused("deadline");
			return send_error(req, 503, STR("it takes longer than a client waits; ask again\n"));
		case ARTIFACT_FAILED:
			return send_failure(req, a->outcome, &a->err, a->why);
		default:
			/* The deadline was for the wait; now it goes as fast as the client reads. */
			req->deadline_ms = INT64_MAX;
			r = ready ? send_ready(req, ready, a->epoch) : send_flowing(req);
			if (r != HTTP_SENT || req->status)
				return r;
		}
	}
}

/* ---- its calls ---- */

static bool wants_part(struct http_conn *conn)
{
	const char *range = http_header(conn, "Range");

	/* The whole, as some clients ask for it. */
	return range && strcmp(range, "bytes=0-") != 0;
}

static enum http_result begin_artifact(const struct first *f, const struct route *route, void **ctx)
{
	struct request *req;

	if (resolve_unknown(f->s->resolver, &route->resolve))
		return send_made(f, &f->s->made.unknown);
	if (wait_count(&f->s->wait) >= f->s->opts.max_queued) {
		metrics_refused("queue");
		return send_made(f, &f->s->made.busy);
	}
	req = request_new(f, route);
	*ctx = req;
	forward_set(req);
	if (artifact_ask(req, wants_part(f->hr->conn)))
		return HTTP_SUSPENDED;
	return continue_artifact(req);
}

static void run_job(void *arg)
{
	struct request *req = arg;
	bool goes_on = false;

	req->goes_on = &goes_on;
	req->job(req);
	/* If so, it may be gone. */
	if (!goes_on)
		wait_job_done(req);
}

bool request_run(struct request *req, void (*job)(struct request *req))
{
	req->job = job;
	if (!wait_job(req))
		return false;
	if (pool_submit(req->s->workers, job == metrics_job || job == status_job ? POOL_URGENT : POOL_NORMAL,
			run_job, req) != 0)
		abort(); /* the pool has room for all that may be suspended */
	return true;
}

/* Its job has run; or has slept, and runs again. */
static enum http_result continue_job(struct request *req)
{
	if (req->reply)
		return send_reply(req, req->status, req->reply, req->head ? 0 : req->bytes, req->result);
	switch (req->fate) {
	case FATE_NONE:
		req->deadline_ms = clock_mono_ms() + req->sleep_ms;
		return wait_suspend(req) ? HTTP_SUSPENDED : send_stopped(req);
	case FATE_EXPIRED:
		req->fate = FATE_NONE;
		return request_run(req, req->job) ? HTTP_SUSPENDED : send_stopped(req);
	case FATE_GONE:
		req->status = 499;
		req->result = "error";
		return HTTP_CUT;
	case FATE_STOPPED:
		break;
	}
	return send_stopped(req);
}

static enum http_result begin_job(const struct first *f, const struct route *route,
				  void (*job)(struct request *req), void **ctx)
{
	struct request *req;

	if (wait_count(&f->s->wait) >= f->s->opts.max_queued) {
		metrics_refused("queue");
		return send_made(f, &f->s->made.busy);
	}
	req = request_new(f, route);
	*ctx = req;
	return request_run(req, job) ? HTTP_SUSPENDED : send_stopped(req);
}

static enum http_result begin_page(const struct first *f, const struct route *route)
{
	const struct made *m = page_find(f->s->page, route->file);

	return m ? send_made(f, m) : send_text(f, 404, "no such path\n");
}

static enum http_result begin(struct first *f, void **ctx)
{
	struct server *s = f->s;
	const char *url = f->hr->url, *why;
	char room[ROUTE_URL_MAX + 1];
	struct route route;
	int status = route_parse(str_of(url), room, &route, &why);

	f->type = status ? TYPE_OTHER : type_of(&route);
	metrics_begin(f->type);
	if (status)
		return send_text(f, (unsigned)status, why);
	switch (route.kind) {
	case ROUTE_ARTIFACT:
		return begin_artifact(f, &route, ctx);
	case ROUTE_METADATA:
		return begin_job(f, &route, metadata_job, ctx);
	case ROUTE_METRICS:
		return begin_job(f, &route, metrics_job, ctx);
	case ROUTE_STATUS:
		return begin_job(f, &route, status_job, ctx);
	case ROUTE_FAILURES:
		return begin_job(f, &route, failures_job, ctx);
	case ROUTE_SYMBOLIZE:
	case ROUTE_SYMBOLZ:
	case ROUTE_SYMBOLICATE_V5:
		return begin_job(f, &route, ask_get_job, ctx);
	case ROUTE_API:
		return begin_job(f, &route, api_job, ctx);
	case ROUTE_HEALTHZ:
		return send_made(f, &s->made.ok);
	case ROUTE_READYZ:
		return atomic_load(&s->is_ready) ? send_made(f, &s->made.ok) : send_made(f, &s->made.not_up);
	case ROUTE_PAGE:
	case ROUTE_N_KINDS:
		break;
	}
	return begin_page(f, &route);
}

static enum http_result send_hot(struct first *f, struct ready *r, void **ctx)
{
	enum http_result sent;
	unsigned status;
	uint64_t bytes;

	f->type = r->type;
	metrics_begin(f->type);
	sent = reply_ready(f->s, f->hr->conn, f->head, r, &status, &bytes);
	if (r->mem || !bytes) {
		sent = account(f, sent, status, status < 400 ? r->result : "error", bytes);
	} else {
		/* It takes a while; the log tells how it ended. */
		struct route route = { .kind = ROUTE_ARTIFACT, .resolve.kind = (enum resolve_kind)r->type };
		struct request *req = request_new(f, &route);

		req->status = status;
		req->bytes = bytes;
		req->result = r->result;
		*ctx = req;
	}
	ready_unref(r);
	return sent;
}

static enum http_result begin_other_method(struct first *f)
{
	f->type = TYPE_OTHER;
	metrics_begin(f->type);
	if (strcmp(f->hr->method, "OPTIONS") == 0 && f->s->opts.cors)
		return send_made(f, &f->s->made.options);
	return send_made(f, &f->s->made.method);
}

struct request *request_new_push(struct server *s, const struct http_request *hr)
{
	const struct first f = { s, hr, false, clock_mono_ns(), TYPE_PUSH };
	const struct route none = { .kind = ROUTE_N_KINDS };

	metrics_begin(f.type);
	return request_new(&f, &none);
}

struct request *request_new_post(struct server *s, const struct http_request *hr, const struct route *route,
				 enum request_type type)
{
	const struct first f = { s, hr, false, clock_mono_ns(), type };

	metrics_begin(f.type);
	return request_new(&f, route);
}

bool request_begin(void *arg, const struct http_request *hr, void **ctx)
{
	struct server *s = arg;

	if (ask_begin(s, hr, ctx) || (!*ctx && api_begin(s, hr, ctx)))
		return true;
	if (*ctx)
		return false; /* it was refused */
	return s->opts.store && strcmp(hr->method, "OPTIONS") != 0 ? push_begin(s, hr, ctx) : false;
}

size_t request_body(void *arg, const struct http_request *hr, void *ctx, struct bytes piece)
{
	struct request *req = ctx;

	return req->post ? post_body(req, piece) : push_body(req, piece);
}

/* What tells nothing of what is here: for whoever watches over the server. */
static bool is_open_to_all(const char *url)
{
	return strcmp(url, "/healthz") == 0 || strcmp(url, "/readyz") == 0;
}

enum http_result request_handle(void *arg, const struct http_request *hr, void **ctx)
{
	struct server *s = arg;
	struct first f = { s, hr, false, clock_mono_ns(), TYPE_OTHER };
	struct request *req = *ctx;
	struct ready *hot;

	if (req && req->push)
		return push_request(req);
	if (req && req->post && !req->job)
		return post_request(req);
	if (req)
		return req->job ? continue_job(req) : continue_artifact(req);
	f.head = strcmp(hr->method, "HEAD") == 0;
	if (!f.head && strcmp(hr->method, "GET") != 0)
		return begin_other_method(&f);
	if (s->limit && !limit_take(s->limit, http_peer(hr->conn), clock_mono_ms())) {
		metrics_begin(f.type);
		metrics_refused("rate");
		return send_made(&f, &s->made.too_many);
	}
	if (s->opts.require_read_token && !is_open_to_all(hr->url)) {
		const char *why = "";
		unsigned status = push_may_read(s->push, hr->conn, &why);

		if (status) {
			metrics_begin(f.type);
			return send_unauthorized(&f, status, why);
		}
	}
	hot = hot_get(s->hot, str_of(hr->url), resolve_epoch(s->resolver));
	return hot ? send_hot(&f, hot, ctx) : begin(&f, ctx);
}

void request_done(void *arg, struct http_conn *c, void *ctx, bool complete)
{
	struct request *req = ctx;
	int64_t ns = clock_mono_ns() - req->started_ns;
	enum request_type type = req->type;

	if (req->push)
		push_done(req);
	if (req->ask)
		ask_done(req);
	if (req->api)
		api_done(req);
	if (req->post)
		post_done(req);
	/* It was broken off before anything could be said. */
	if (!req->status)
		req->status = 499;
	metrics_end(type, req->status, req->result ? req->result : "error", req->bytes, ns);
	if (req->s->access)
		access_line(req->s->access, c, req->method, req->url, req->status, req->bytes, ns, complete);
	request_free(req);
}
