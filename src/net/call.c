/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One plain request to one URL, with its answer in memory.
 */
#include "net/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CONNECT_MS 5000
#define SILENT_MS  90000
#define MAX_ANSWER MIB(1)
#define CALL_READ  KIB(16) /* many calls may wait for their answers at once */

struct net_call {
	struct net *net;
	struct net_call *next;
	atomic_uint refs;
	atomic_bool cancel, ended; /* any thread */
	/* fixed */
	struct arena arena;
	struct net_call_request req; /* its strings are in the arena */
	int64_t deadline_ms;
	struct server *server; /* NULL: none */
	/* the loop's */
	struct xfer *xfer;
	bool taken; /* counted by breaker_take() */
	struct buf body;
	uint64_t held; /* of req.memory, by `body` */
	uint64_t n_sent;
	struct err err;
};

struct net_call *call_next(struct net_call *c)
{
	return c->next;
}

void call_set_next(struct net_call *c, struct net_call *next)
{
	c->next = next;
}

static struct net_call_answer call_answer_of(const struct net_call *c)
{
	const struct head *h = xfer_head(c->xfer);

	return (struct net_call_answer){
		.status = h->status,
		.type = buf_str(&h->type),
		.headers = buf_str(&h->lines),
		.body = buf_bytes(&c->body),
		.retry_after_s = h->retry_after_s,
	};
}

/* The body of an answer of status 2xx, for a caller that takes it as it comes. */
static int call_pass_on(struct net_call *c, struct bytes piece)
{
	const struct net_call_answer a = call_answer_of(c);

	return c->req.write(c->req.arg, &a, piece, &c->err) < 0 ? -1 : XFER_TAKEN;
}

static int call_on_data(void *arg, struct bytes piece)
{
	struct net_call *c = arg;
	unsigned status = xfer_head(c->xfer)->status;

	if (c->req.write && status >= 200 && status < 300)
		return call_pass_on(c, piece);
	if (c->body.size + piece.size > c->req.max_answer)
		return err_set(&c->err, ERR_LIMIT, "its answer is longer than %zu bytes", c->req.max_answer);
	buf_add(&c->body, piece.p, piece.size);
	budget_hold_track(c->req.memory, &c->held, c->body.room);
	return budget_hold_check(c->req.memory, &c->err) < 0 ? -1 : XFER_TAKEN;
}

static int call_read_memory(struct net_call *c, void *buf, size_t n, size_t *ret_got)
{
	memcpy(buf, c->req.body->p + c->n_sent, n);
	*ret_got = n;
	return 0;
}

static bool call_has_body(const struct net_call *c)
{
	return c->req.read || c->req.body;
}

static ssize_t call_on_upload(void *arg, void *buf, size_t n)
{
	struct net_call *c = arg;
	size_t got = 0;
	int r;

	n = (size_t)MIN((uint64_t)n, c->req.body_size - c->n_sent);
	if (!n)
		return 0;
	r = c->req.body ? call_read_memory(c, buf, n, &got) : c->req.read(c->req.arg, buf, n, &got, &c->err);
	if (r < 0)
		return -1;
	if (!got)
		return err_set(&c->err, ERR_INVALID, "the body ends at %llu of %llu bytes",
			       (unsigned long long)c->n_sent, (unsigned long long)c->req.body_size);
	c->n_sent += got;
	return (ssize_t)got;
}

static const struct xfer_events events = { .data = call_on_data, .upload = call_on_upload };

static void call_release(struct net_call *c, enum breaker_event event, const char *message)
{
	if (c->taken) {
		breaker_report(&c->net->breakers, c->server, event, message);
		breaker_give(&c->net->breakers, c->server);
	}
	c->taken = false;
	xfer_drop(TAKE(c->xfer));
}

static void call_finish(struct net_call *c, int outcome, const struct net_call_answer *a)
{
	atomic_store(&c->ended, true);
	c->req.done(c->req.arg, c, outcome, a, outcome ? &c->err : NULL);
	xfer_drop(TAKE(c->xfer));
}

static void call_fail(struct net_call *c, enum err_kind kind, int os, const char *text)
{
	if (!c->err.kind)
		err_set(&c->err, kind, "%s", text);
	if (os)
		c->err.os = os;
	call_finish(c, -1, NULL);
}

void call_begin(struct net_call *c)
{
	const struct xfer_request req = {
		.url = c->req.url,
		.base_size = c->req.server && str_starts(str_of(c->req.url), str_of(c->req.server))
				     ? strlen(c->req.server)
				     : 0,
		.method = c->req.method,
		.headers = c->req.headers,
		.n_headers = c->req.n_headers,
		.has_upload = call_has_body(c),
		.keep_all = true,
		.read_size = c->req.write ? 0 : CALL_READ,
		.stays = c->req.stays,
		.compressed = c->req.compressed,
		.direct = c->req.direct,
		.tls = c->req.tls,
		.upload_size = c->req.body_size,
		.connect_ms = c->req.connect_ms,
		.events = &events,
		.arg = c,
	};
	struct fault fault;
	char message[200];
	int64_t again_s;

	if (c->server && breaker_check(&c->net->breakers, c->server, &again_s, message) == BREAKER_OPEN) {
		err_set(&c->err, ERR_UPSTREAM, "passed over: %s; will be asked again in %lld s", message,
			(long long)again_s);
		c->err.os = EHOSTUNREACH;
		return;
	}
	if (c->server)
		c->taken = breaker_take(&c->net->breakers, c->server, UINT32_MAX);
	if (xfer_start(c->net->wire, &req, &c->xfer, &fault) < 0) {
		err_set(&c->err, ERR_UPSTREAM, "%s", fault.text);
		c->err.os = fault.os;
	}
}

static void call_answered(struct net_call *c)
{
	const struct net_call_answer a = call_answer_of(c);

	if (c->taken) {
		breaker_report(&c->net->breakers, c->server, BREAKER_ANSWERED, "");
		breaker_give(&c->net->breakers, c->server);
		c->taken = false;
	}
	call_finish(c, 0, &a);
}

bool call_turn(struct net_call *c, int64_t now_ms, int64_t *next_ms)
{
	struct fault fault = { 0 };
	int64_t silent_at;

	if (atomic_load(&c->cancel)) {
		call_release(c, BREAKER_DROPPED, "");
		call_fail(c, ERR_CANCELLED, ECANCELED, "cancelled");
		return false;
	}
	if (!c->xfer) {
		call_release(c, BREAKER_DROPPED, "");
		call_fail(c, ERR_UPSTREAM, 0, "the request could not be sent");
		return false;
	}
	if (c->deadline_ms && now_ms >= c->deadline_ms) {
		call_release(c, BREAKER_DROPPED, "");
		call_fail(c, ERR_CANCELLED, ETIME, "it was not done in time");
		return false;
	}
	if (!xfer_ended(c->xfer, &fault)) {
		silent_at = xfer_heard_ms(c->xfer) + c->req.silent_ms;
		if (now_ms < silent_at) {
			*next_ms = MIN(*next_ms, c->deadline_ms ? MIN(silent_at, c->deadline_ms) : silent_at);
			return true;
		}
		fault_set(&fault, FAULT_KIND_TIMEOUT, ETIME, "it does not answer");
	}
	/* A server may refuse a body before it has read all of it. */
	if (fault.kind == FAULT_KIND_NONE || (fault.kind == FAULT_KIND_BROKEN && !c->err.kind &&
					      call_has_body(c) && xfer_head(c->xfer)->status >= 400)) {
		call_answered(c);
		return false;
	}
	call_release(c,
		     fault.os == ECONNREFUSED                                               ? BREAKER_REFUSED
		     : fault.kind == FAULT_KIND_CONNECT || fault.kind == FAULT_KIND_TIMEOUT ? BREAKER_FAILED
											    : BREAKER_DROPPED,
		     fault.text);
	call_fail(c, ERR_UPSTREAM, fault.os, fault.text);
	return false;
}

void call_abort(struct net_call *c)
{
	call_release(c, BREAKER_DROPPED, "");
	call_fail(c, ERR_CANCELLED, ECANCELED, "cancelled");
}

static const char *tls_text(struct net_call *c, const char *text)
{
	return text ? arena_strdup(&c->arena, str_of(text)) : NULL;
}

static const struct net_tls *tls_copy(struct net_call *c, const struct net_tls *tls)
{
	struct net_tls *copy;

	if (!tls)
		return NULL;
	copy = ARENA_NEW(&c->arena, struct net_tls);
	copy->ca_file = tls_text(c, tls->ca_file);
	copy->cert_file = tls_text(c, tls->cert_file);
	copy->key_file = tls_text(c, tls->key_file);
	copy->server_name = tls_text(c, tls->server_name);
	copy->insecure = tls->insecure;
	return copy;
}

void net_call_start(struct net *n, const struct net_call_request *req, struct net_call **ret)
{
	struct net_call *c = NEW(struct net_call);
	const char **headers;

	assert(req->done && req->url);
	c->net = n;
	atomic_init(&c->refs, ret ? 2u : 1u);
	arena_init(&c->arena);
	c->req = *req;
	c->req.url = arena_strdup(&c->arena, str_of(req->url));
	c->req.method = req->method ? arena_strdup(&c->arena, str_of(req->method)) : NULL;
	headers = ARENA_NEW_N(&c->arena, const char *, req->n_headers + 1);
	for (size_t i = 0; i < req->n_headers; i++)
		headers[i] = arena_strdup(&c->arena, str_of(req->headers[i]));
	c->req.headers = headers;
	c->req.tls = tls_copy(c, req->tls);
	c->req.body_size = req->body ? req->body->size : req->body_size;
	c->req.max_answer = req->max_answer ? req->max_answer : MAX_ANSWER;
	c->req.connect_ms = req->connect_ms ? req->connect_ms : CONNECT_MS;
	c->req.silent_ms = req->silent_ms ? req->silent_ms : SILENT_MS;
	c->deadline_ms = req->deadline_ms ? clock_mono_ms() + req->deadline_ms : 0;
	c->req.server = req->server ? arena_strdup(&c->arena, str_of(req->server)) : NULL;
	if (req->breaker && req->server)
		c->server = breaker_server(&n->breakers, req->server);
	if (ret)
		*ret = c;
	pthread_mutex_lock(&n->lock);
	*n->new_calls_end = c;
	n->new_calls_end = &c->next;
	pthread_mutex_unlock(&n->lock);
	wire_wake(n->wire);
}

void net_call_cancel(struct net_call *c)
{
	atomic_store(&c->cancel, true);
	if (!atomic_load(&c->ended))
		wire_wake(c->net->wire);
}

void net_call_unref(struct net_call *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	buf_done(&c->body);
	arena_done(&c->arena);
	free(c);
}
