/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET of an artifact, on its HTTP thread: join its flight, be resumed when it is known, send it.
 */
#include "server/artifact/artifact.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A flight may not fit the range of a request; after so many flights it gets one of its own. */
#define MAX_FLIGHTS 3

/* ---- from the path to the artifact ---- */

static bool is_slashes(struct str s)
{
	for (size_t i = 0; i < s.size; i++)
		if (s.p[i] != '/')
			return false;
	return true;
}

unsigned artifact_of_path(const struct http_route *route, const struct str *parts,
			  struct resolve_request *ret, const char **ret_text)
{
	*ret = (struct resolve_request){ .kind = (enum resolve_kind)route->kind };
	if (route->arg)
		return artifact_of_layout(route, parts, ret, ret_text);
	if (!server_build_id(&ret->id, parts[0])) {
		*ret_text = server_bad_build_id(parts[0]);
		return 400;
	}
	if (ret->kind != RESOLVE_SOURCE && ret->kind != RESOLVE_SECTION)
		return 0;
	if (is_slashes(parts[1])) {
		*ret_text = ret->kind == RESOLVE_SOURCE ? "which source? /buildid/ID/source/PATH"
							: "which section? /buildid/ID/section/NAME";
		return 400;
	}
	/* The slash is a part of a source path: a client cannot tell whether "./a.c" began with one. */
	ret->arg = ret->kind == RESOLVE_SOURCE ? parts[1] : (struct str){ parts[1].p + 1, parts[1].size - 1 };
	return 0;
}

static const struct http_canned *artifact_canned(struct server *s, const struct http_match *m)
{
	struct resolve_request what;
	const char *text;

	uint64_t epoch = resolve_epoch(s->resolver);

	/* First: a file that comes after it is not missed. */
	if (resolve_unfinished(s->resolver) || artifact_of_path(m->route, m->parts, &what, &text) ||
	    !resolve_unknown(s->resolver, &what))
		return NULL;
	/* Nor is one in an index that was set aside meanwhile, and is made anew. */
	if (resolve_epoch(s->resolver) != epoch)
		return NULL;
	return &s->unknown;
}

static void artifact_begin(struct request *req)
{
	struct artifact_waiter *w = ARENA_NEW(&req->arena, struct artifact_waiter);
	const char *text;
	unsigned status = artifact_of_path(req->route, req->parts, &w->what, &text);

	w->req = req;
	req->own = w;
	if (status)
		request_refuse(req, status, text);
	else
		forward_set(req, &w->what);
	if (!status)
		patience_begin(w);
}

static void artifact_done(struct request *req)
{
	if (req->own)
		artifact_leave(req->own);
}

/* ---- sending ---- */

static enum http_next get_refuse(struct request *req, unsigned status, const char *text)
{
	request_refuse(req, status, text);
	return HTTP_REPLY;
}

/*
 * Is it a failure of this file alone? A server that asks for its clients pauses after a 503 with Retry-After, for all files
 * and all clients, unless the reply says so. ERR_LIMIT with an errno is of memory or descriptors.
 */
static bool is_of_this_file(const struct err *err)
{
	return err->kind == ERR_IO || err->kind == ERR_CHANGED || (err->kind == ERR_LIMIT && !err->os);
}

/* Takes @reply. */
static enum http_next send_reply_once(struct request *req, unsigned status, struct http_reply *reply,
				      uint64_t bytes, const char *result)
{
	enum http_next next = request_send(req, status, reply, bytes, result);

	http_reply_unref(reply);
	return next;
}

static enum http_next send_failure(struct request *req, const struct artifact *a)
{
	const char *prefix = "it is here, but cannot be read";
	unsigned status;
	struct str text;

	if (a->outcome == RESOLVE_MISSING && a->unread) {
		unread_refuse(req, a->why.p);
		return HTTP_REPLY;
	}
	if (a->outcome == RESOLVE_MISSING) {
		log_debug("http", "%s: %s", req->url, a->why.p);
		return get_refuse(req, 404, a->why.p);
	}
	if (a->outcome == RESOLVE_BUSY) {
		counters_refused("resolver");
		return get_refuse(
			req, 503,
			"busy: too many requests wait for packages to be scanned, or for object storage");
	}
	if (a->err.kind == ERR_UPSTREAM && a->err.os == EAGAIN) {
		if (patience_again(req->own, true))
			return HTTP_REPLY;
		unread_refuse(req, arena_printf(&req->arena, "not here; other servers: %s", a->err.text));
		return HTTP_REPLY;
	}
	if (a->err.kind == ERR_IO && a->err.os == ENOTCONN)
		return get_refuse(req, 503, a->err.text);
	status = reply_status_of(&a->err);
	if (a->err.kind == ERR_UPSTREAM && (a->err.os == EBUSY || a->err.os == ENOSPC)) {
		enum http_next next = get_refuse(
			req, 503, arena_printf(&req->arena, "not here; other servers: %s", a->err.text));

		counters_refused(a->err.os == EBUSY ? "upstream" : "disk");
		/* The size is what another server says of this file: smaller ones have room. */
		if (a->err.os == ENOSPC)
			http_reply_header(req->reply, "X-LODE-UNREADABLE", "1");
		return next;
	}
	if (status == 502)
		prefix = "not here, and other servers failed";
	else if (status == 503)
		prefix = "it is here, but cannot be read now";
	/*
	 * Failures of other servers are in the page and the metrics; without a network they would fill the
	 * log.
	 */
	if (status == 502)
		log_debug("http", "%s: %s", req->url, a->err.text);
	else
		log_warn("http", "%s: %s", req->url, a->err.text);
	text = str_of(arena_printf(&req->arena, "%s: %s", prefix, a->err.text));
	if (req->s->opts.hide_archive)
		text = server_hide_paths(&req->arena, text);
	request_refuse(req, status, text.p);
	/* Other files of this server can be read: its clients go on to ask for them. */
	if (status == 503 && is_of_this_file(&a->err))
		http_reply_header(req->reply, "X-LODE-UNREADABLE", "1");
	return HTTP_REPLY;
}

static enum http_next send_ready(struct request *req, struct ready *r, uint64_t epoch)
{
	struct http_sent sent = { 0 };

	reply_ready(req->s, req->conn, req->head, r, &sent);
	req->status = sent.status;
	req->bytes = sent.bytes;
	req->result = sent.status < 400 ? r->result : "error";
	req->lent = sent.lent;
	hot_put(req->s->hot, str_of(req->url), r, epoch);
	return sent.outcome == HTTP_SENT ? HTTP_ENDED : HTTP_CLOSES;
}

/*
 * The artifact is known; send it while it is decoded. HTTP_REPLY without a reply: the request has another
 * artifact, look again.
 */
static enum http_next send_flowing(struct request *req)
{
	struct artifact_waiter *w = req->own;
	struct artifact *a = w->artifact;
	struct conditions c = reply_conditions(req->conn, req->head);
	struct verdict v = cond_judge(&c, &a->content);
	struct http_reply *reply = reply_of_verdict(req->s, &v, &a->content);

	if (reply)
		return send_reply_once(req, v.status, reply, 0, v.status < 400 ? a->result : "error");
	if (!req->head) {
		enum artifact_attached attached = artifact_attach(w, v.off, v.size);

		if (attached != ATTACHED) {
			w->n_flights++;
			artifact_leave(w);
			return artifact_ask(w, attached == ATTACH_SOLO || w->n_flights >= MAX_FLIGHTS)
				       ? HTTP_WAITS
				       : HTTP_REPLY;
		}
	}
	reply = http_reply_stream(v.size, artifact_read, w);
	reply_content_headers(req->s, reply, &a->content);
	reply_range_headers(reply, &v, &a->content);
	return send_reply_once(req, v.status, reply, req->head ? 0 : v.size, a->result);
}

/* Resumed although the artifact is not known yet. */
static enum http_next send_nothing(struct request *req, bool awaits)
{
	switch (req->fate) {
	case FATE_GONE:
		req->status = 499;
		return HTTP_CLOSES;
	case FATE_EXPIRED:
		if (patience_again(req->own, awaits))
			return HTTP_REPLY;
		counters_refused("deadline");
		if (awaits) {
			unread_refuse(req, "not found: no such build ID here so far");
			return HTTP_REPLY;
		}
		return get_refuse(req, 503, "the package is still being read; ask again");
	default:
		return get_refuse(req, 503, "the server stops; ask again");
	}
}

static enum http_next send_artifact(struct request *req)
{
	for (;;) {
		struct artifact *a = ((struct artifact_waiter *)req->own)->artifact;
		enum artifact_state state;
		struct ready *ready;
		enum http_next next;
		bool awaits;

		pthread_mutex_lock(&a->lock);
		state = a->state;
		ready = state == ARTIFACT_WHOLE ? a->ready : NULL;
		awaits = a->awaits;
		pthread_mutex_unlock(&a->lock);
		if (state == ARTIFACT_RESOLVING)
			return send_nothing(req, awaits);
		if (state == ARTIFACT_FAILED)
			return send_failure(req, a);
		/* The deadline is only for the wait: how long the body takes depends on the client. */
		req->deadline_ms = INT64_MAX;
		next = ready ? send_ready(req, ready, a->epoch) : send_flowing(req);
		if (next != HTTP_REPLY)
			return next;
	}
}

/* Some clients ask for the whole content by a range. */
static bool wants_range(struct http_conn *conn)
{
	const char *range = http_header(conn, "Range");

	return range && strcmp(range, "bytes=0-") != 0;
}

static enum http_next artifact_run(struct request *req)
{
	struct artifact_waiter *w = req->own;

	if (!w->artifact && artifact_ask(w, wants_range(req->conn)))
		return HTTP_WAITS;
	return send_artifact(req);
}

const struct http_handler artifact_get = {
	.canned = artifact_canned,
	.begin = artifact_begin,
	.run = artifact_run,
	.done = artifact_done,
};

/* ---- answered at once ---- */

bool artifact_hot(struct server *s, const struct http_request *hr, bool head, struct http_sent *ret)
{
	struct ready *r = hot_get(s->hot, str_of(hr->url), resolve_epoch(s->resolver));

	if (!r)
		return false;
	reply_ready(s, hr->conn, head, r, ret);
	ret->type = r->type;
	ret->result = ret->status < 400 ? r->result : "error";
	/* Sending a file takes a while; it is logged at its end. */
	ret->streams = ret->lent.end || (!r->mem && ret->bytes);
	ready_unref(r);
	return true;
}

/* ---- other paths ---- */

static void artifact_other_begin(struct request *req)
{
	struct str rest = req->parts[0], id, kind;

	while (rest.size && rest.p[0] == '/')
		rest = (struct str){ rest.p + 1, rest.size - 1 };
	id = str_cut(&rest, '/');
	while (rest.size && rest.p[0] == '/')
		rest = (struct str){ rest.p + 1, rest.size - 1 };
	kind = str_cut(&rest, '/');
	if (!build_id_parse(&(struct build_id){ 0 }, id))
		request_refuse(req, 400, server_bad_build_id(id));
	else if (str_eq(kind, STR("debuginfo")) || str_eq(kind, STR("executable")) ||
		 str_eq(kind, STR("sources")))
		request_refuse(req, 404, "no such path: nothing may follow debuginfo, executable or sources");
	else
		request_refuse(req, 404,
			       "no such path: after the build ID comes debuginfo, executable, source/PATH, "
			       "section/NAME or symbolize");
}

const struct http_handler artifact_other = { .begin = artifact_other_begin };
