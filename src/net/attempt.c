/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server asked for the artifact of a fetch: checks its reply, and hands on its bytes.
 *
 * The first bytes are held back until the check accepts them. A server that continues where another broke off
 * sends some of the written bytes again, or all; they are compared and skipped. Only then it becomes the
 * winner, so the written bytes never come from a server that was not accepted.
 */
#include "net/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* A body of unknown size, because it is compressed: at most this many bytes for each byte of the transfer. */
#define MAX_RATIO        100u
#define RATIO_FROM       MIB(64)
#define MAX_MESSAGE      160u
#define MAX_MESSAGE_BODY KIB(64)
/* Bytes a second: slower for `silent_ms` counts as silent. */
#define MIN_RATE   1024u
#define OTHER_SIZE "its file has another size than the one being fetched"

struct attempt {
	struct net_fetch *f;
	struct candidate *c;
	struct xfer *xfer;
	char *url; /* owned */
	int64_t started_ms;
	uint64_t asked_from;              /* start of the Range; 0: none */
	uint64_t won_at;                  /* bytes that were written when it became the winner */
	unsigned version;                 /* of the bytes that it compares and continues: f->version */
	bool answered, connected, judged; /* the head was received; ... and judged */
	bool believed;                    /* the check accepted its first bytes */
	bool whole_hash;                  /* it starts at 0: all bytes written before are compared by hash */
	bool anew;                        /* all bytes written before are void if it wins */
	bool compressed;                  /* gzip was asked for */
	bool size_of_other; /* it announced no size: reply.size is that of the file being fetched */
	bool second;        /* it was started because the winner had stalled */
	bool differs, lost;
	struct fault fault; /* found here, not by the wire */
	struct net_reply reply;
	struct arena arena; /* of `reply` */
	struct buf held;    /* bytes not handed on yet: the head, or bytes that the sink did not take */
	uint64_t pos;       /* in the artifact, of the next byte after `held` */
	uint64_t n_body;    /* bytes of the body received */
	int64_t mark_ms;    /* when it had received mark_bytes; 0: not set */
	uint64_t mark_bytes;
	struct hash64_state hash;
};

/* ---- the head ---- */

static void set_status_fault(struct attempt *a)
{
	const struct head *h = xfer_head(a->xfer);
	struct str line = { (char *)a->held.p, a->held.size };
	char message[MAX_MESSAGE + 1];

	line = str_trim(str_cut(&line, '\n'));
	/* A page of HTML has no useful first line. */
	if (h->status == 404 || h->status == 410 || !line.size || line.p[0] == '<')
		line.size = 0;
	snprintf(message, sizeof(message), STR_FMT, (int)MIN(line.size, (size_t)MAX_MESSAGE),
		 line.p ? line.p : "");
	fault_set(&a->fault, h->status == 406 || h->status == 413 ? FAULT_KIND_LIMIT : FAULT_KIND_STATUS,
		  h->unread ? EAGAIN : 0, "%u%s%s%s", h->status, message[0] ? ": " : "", message,
		  h->unread ? " (it has not read all of its packages yet)" : "");
}

/* The sink's check refused the bytes. */
static int refuse_bytes(struct attempt *a, const struct err *err)
{
	fault_set(&a->fault, FAULT_KIND_LIE, err->os ? err->os : EIO, "%s", err->text);
	return -1;
}

static int refuse_reply(struct attempt *a, const char *text)
{
	fault_set(&a->fault, FAULT_KIND_LIE, EIO, "%s", text);
	return -1;
}

static int refuse_other_file(struct attempt *a, const char *text)
{
	a->differs = true;
	fault_set(&a->fault, FAULT_KIND_LIE, EIO, "%s", text);
	return -1;
}

/* 206: the range must be the one requested, of a file of the same size. */
static int judge_part(struct attempt *a, const struct head *h)
{
	if (!a->asked_from)
		return refuse_reply(a, "it sends a part of the file when all of it was requested");
	if (!h->has_range || h->from != a->asked_from)
		return refuse_reply(a, "it sends another part of the file than requested");
	if (h->encoded)
		return refuse_reply(a, "it sends an encoding that was not requested");
	if (!h->has_total || (a->f->size_known && h->total != a->f->size))
		return refuse_other_file(a, OTHER_SIZE);
	a->reply.size_known = true;
	a->reply.size = h->total;
	a->pos = h->from;
	/* The head of this file was accepted at its start. */
	a->believed = true;
	return 0;
}

static int judge_whole(struct attempt *a, const struct head *h)
{
	struct net_fetch *f = a->f;

	if (h->encoded && !a->compressed)
		return refuse_reply(a, "it sends an encoding that was not requested");
	if (!h->encoded && h->has_length) {
		a->reply.size_known = true;
		a->reply.size = h->length;
	} else if (h->has_file_size) {
		a->reply.size_known = true;
		a->reply.size = h->file_size;
	}
	if (a->reply.size_known && a->reply.size > f->max_size) {
		fault_set(&a->fault, FAULT_KIND_LIMIT, EFBIG, "its file has %llu bytes, more than the limit",
			  (unsigned long long)a->reply.size);
		return -1;
	}
	if (!f->have || a->c->from_start) {
		a->anew = true;
	} else if (a->reply.size_known && f->size_known && a->reply.size != f->size) {
		/* It may be used after all, from its beginning. */
		a->anew = true;
	} else {
		a->whole_hash = true;
		a->version = f->version;
		hash64_init(&a->hash, 0);
		/* Where a body without a size ends, a connection that broke off may look like the end of the file. */
		if (!a->reply.size_known && f->size_known) {
			a->size_of_other = a->reply.size_known = true;
			a->reply.size = f->size;
		}
	}
	return 0;
}

static void fill_reply(struct attempt *a, const struct head *h)
{
	struct net_reply *r = &a->reply;

	r->server = a->c->server ? breaker_url(a->c->server) : "";
	r->url = net_url_shown(str_of(xfer_url(a->xfer)), &a->arena).p;
	r->status = h->status == 206 ? 200 : h->status;
	r->mtime = h->mtime;
	r->type = arena_str(&a->arena, buf_str(&h->type));
	r->etag = arena_str(&a->arena, buf_str(&h->etag));
	r->headers = arena_str(&a->arena, buf_str(&h->lines));
}

/* Once, with the first byte of the body or its end. */
static int judge_head(struct attempt *a)
{
	const struct head *h = xfer_head(a->xfer);

	a->judged = true;
	if (h->status != 200 && h->status != 206)
		return 0;
	fill_reply(a, h);
	return h->status == 206 ? judge_part(a, h) : judge_whole(a, h);
}

static bool is_refusal(const struct attempt *a)
{
	unsigned status = xfer_head(a->xfer)->status;

	return status != 200 && status != 206;
}

/* ---- the body ---- */

static int attempt_check(struct attempt *a, bool all)
{
	struct net_fetch *f = a->f;
	struct err err = { 0 };
	int r;

	if (!f->sink.check)
		return 0;
	r = f->sink.check(f->sink.arg, &a->reply, bytes_of(a->held.p, MIN(a->held.size, NET_HEAD_MAX)), all,
			  &err);
	if (r == NET_MORE && (all || a->held.size >= NET_HEAD_MAX))
		r = 0;
	if (r < 0 && str_starts(a->reply.type, STR("text/html")))
		snprintf(err.text, sizeof(err.text), "it sends a page of HTML instead of the file");
	return r < 0 ? refuse_bytes(a, &err) : r;
}

/* Compare the overlap with the bytes written, and remove it from @piece. */
static int pass_known(struct attempt *a, struct bytes *piece)
{
	struct net_fetch *f = a->f;
	size_t n = (size_t)MIN((uint64_t)piece->size, f->have - a->pos);

	if (a->whole_hash) {
		hash64_feed(&a->hash, piece->p, n);
		if (a->pos + n == f->have && hash64_end(&a->hash) != hash64_end(&f->hash))
			return refuse_other_file(a, "its file has other bytes than the one being fetched");
	} else {
		for (size_t i = 0; i < n; i++)
			if (a->pos + i + FETCH_TAIL >= f->have &&
			    f->tail[(a->pos + i) % FETCH_TAIL] != piece->p[i])
				return refuse_other_file(
					a, "its file has other bytes than the one being fetched");
	}
	a->pos += n;
	piece->p += n;
	piece->size -= n;
	return 0;
}

/* It has reached the next byte to be written: it becomes the winner. */
static int attempt_win(struct attempt *a)
{
	struct net_fetch *f = a->f;
	struct err err = { 0 };
	int r = a->anew || !f->begun ? fetch_begin_body(f, &a->reply, &err) : 0;

	if (r == NET_NO_ROOM) {
		fault_set(&a->fault, FAULT_KIND_LIE, ENOSPC, "%s", err.text);
		return -1;
	}
	if (r)
		return r < 0 ? -1 : refuse_reply(a, "its file is not the one being fetched");
	f->winner = a;
	a->won_at = f->have;
	a->anew = false;
	a->version = f->version;
	/* A weak tag (W/) does not identify the bytes. */
	if (str_starts(a->reply.etag, STR("\"")) && a->reply.etag.size < sizeof(a->c->etag))
		snprintf(a->c->etag, sizeof(a->c->etag), STR_FMT, STR_ARG(a->reply.etag));
	return 0;
}

static int hand_on(struct attempt *a, struct bytes piece)
{
	struct net_fetch *f = a->f;

	if (f->winner != a) {
		/* Its server is asked again, for the whole file. */
		if (!a->anew && a->version != f->version)
			return refuse_other_file(a, "the bytes that it was to continue are void");
		if (!a->anew && a->pos < f->have && pass_known(a, &piece) < 0)
			return XFER_ABORT;
		if (!a->anew && a->pos < f->have)
			return XFER_TAKEN;
		if (attempt_win(a) < 0)
			return XFER_ABORT;
	}
	if (piece.size && fetch_write(f, piece) == XFER_ABORT)
		return XFER_ABORT;
	a->pos += piece.size;
	return XFER_TAKEN;
}

static int flush_held(struct attempt *a)
{
	struct buf held = a->held;
	int r;

	a->held = (struct buf){ 0 };
	if (!held.size && a->f->winner == a)
		return XFER_TAKEN;
	r = hand_on(a, buf_bytes(&held));
	buf_done(&held);
	return r;
}

static int refuse_excess(struct attempt *a, size_t n)
{
	struct net_fetch *f = a->f;
	uint64_t end = a->pos + a->held.size + n;

	if (a->reply.size_known && end > a->reply.size)
		return a->size_of_other ? refuse_other_file(a, OTHER_SIZE)
					: refuse_reply(a, "it sends more bytes than it announced");
	if (end > f->max_size) {
		fault_set(&a->fault, FAULT_KIND_LIMIT, EFBIG, "it sends more than %llu bytes",
			  (unsigned long long)f->max_size);
		return -1;
	}
	if (!a->reply.size_known && end > f->max_unknown)
		return refuse_reply(a, "it sends without end");
	if (xfer_head(a->xfer)->encoded && a->n_body > RATIO_FROM &&
	    a->n_body / MAX_RATIO > xfer_wire_bytes(a->xfer))
		return refuse_reply(a, "it unpacks to more than a hundred times its transfer size");
	return 0;
}

static int attempt_on_data(void *arg, struct bytes piece)
{
	struct attempt *a = arg;
	int r;

	if (a->lost)
		return XFER_PAUSE;
	a->answered = true;
	if (!a->judged && judge_head(a) < 0)
		return XFER_ABORT;
	if (is_refusal(a)) {
		if (a->held.size < MAX_MESSAGE_BODY)
			buf_add(&a->held, piece.p, piece.size);
		return a->held.size < MAX_MESSAGE_BODY ? XFER_TAKEN : XFER_ABORT;
	}
	if (a->f->winner && a->f->winner != a && !a->second) {
		/* Another server was first; fetch_turn() ends this attempt. */
		a->lost = true;
		return XFER_PAUSE;
	}
	if (refuse_excess(a, piece.size) < 0)
		return XFER_ABORT;
	if (a->believed) {
		r = hand_on(a, piece);
		if (r == XFER_TAKEN)
			a->n_body += piece.size;
		return r;
	}
	buf_add(&a->held, piece.p, piece.size);
	a->n_body += piece.size;
	r = attempt_check(a, a->reply.size_known && a->held.size == a->reply.size);
	if (r)
		return r < 0 ? XFER_ABORT : XFER_TAKEN;
	a->believed = true;
	return flush_held(a);
}

static void attempt_on_connected(void *arg)
{
	((struct attempt *)arg)->connected = true;
}

static const struct xfer_events events = { .connected = attempt_on_connected, .data = attempt_on_data };

/* ---- its life ---- */

/* The start of the Range: a part of the bytes written before is requested again, to compare. */
static uint64_t resume_from(const struct net_fetch *f, const struct candidate *c)
{
	uint64_t overlap = MIN(f->have, (uint64_t)FETCH_TAIL);

	return c->from_start ? 0 : f->have - overlap;
}

/* A server of another kind is told nothing about clients; Via stays, since it may be a lode server. */
static bool header_is_for(enum net_layout layout, const char *line)
{
	return layout == NET_DEBUGINFOD ||
	       (strncasecmp(line, "X-Forwarded-For:", strlen("X-Forwarded-For:")) != 0 &&
		strncasecmp(line, "User-Agent:", strlen("User-Agent:")) != 0);
}

struct attempt *attempt_start(struct net_fetch *f, struct candidate *c, int64_t now_ms, struct fault *fault)
{
	struct attempt *a = NEW(struct attempt);
	const char *headers[64];
	AUTO(mem_freep) char *if_range = NULL;
	AUTO(mem_freep) char *waits = NULL;
	struct xfer_request req = {
		.headers = headers,
		.from = resume_from(f, c),
		.connect_ms = f->patience.connect_ms,
		.events = &events,
		.arg = a,
	};

	a->f = f;
	a->c = c;
	a->started_ms = now_ms;
	a->second = f->winner != NULL;
	a->asked_from = req.from;
	a->version = f->version;
	arena_init(&a->arena);
	a->url = mem_printf("%s/%s", c->plain, c->path);
	req.url = a->url;
	req.base_size = strlen(c->plain);
	/* A web server may have no other form of a file than the compressed one. */
	req.compressed = a->compressed = (f->compressed || c->layout != NET_DEBUGINFOD) && !req.from;
	req.any_host = c->layout == NET_SSQP && str_starts(str_of(c->plain), STR("https:"));
	for (size_t i = 0; i < f->n_headers; i++)
		if (header_is_for(c->layout, f->headers[i]))
			headers[req.n_headers++] = f->headers[i];
	headers[req.n_headers++] = "X-LODE-UNREAD: retry";
	if (f->patience.unread_ms) {
		const int64_t waited_ms = f->unread_since_ms ? now_ms - f->unread_since_ms : 0;

		headers[req.n_headers++] = waits = mem_printf("X-LODE-WAIT: %lld; waited=%lld",
							      (long long)unread_turn_ms(f, now_ms),
							      (long long)waited_ms);
	}
	/* Its own file, if that has not changed. */
	if (req.from && c->etag[0])
		headers[req.n_headers++] = if_range = mem_printf("If-Range: %s", c->etag);
	if (!net_path_is_inside(str_of(c->path))) {
		fault_set(fault, FAULT_KIND_STATUS, EINVAL,
			  "not asked: the path leads out of the server's folder");
		attempt_drop(a);
		return NULL;
	}
	if (xfer_start(f->net->wire, &req, &a->xfer, fault) < 0) {
		attempt_drop(a);
		return NULL;
	}
	c->attempt = a;
	return a;
}

void attempt_drop(struct attempt *a)
{
	if (!a)
		return;
	if (a->f->winner == a)
		a->f->winner = NULL;
	if (a->c->attempt == a)
		a->c->attempt = NULL;
	xfer_drop(a->xfer);
	buf_done(&a->held);
	arena_done(&a->arena);
	free(a->url);
	free(a);
}

/* HTTP reports a complete body. */
static void judge_end(struct attempt *a)
{
	if (a->reply.size_known && a->pos + a->held.size < a->reply.size) {
		fault_set(&a->fault, FAULT_KIND_BROKEN, ECONNRESET, "it broke off after %llu of %llu bytes",
			  (unsigned long long)(a->pos + a->held.size), (unsigned long long)a->reply.size);
		return;
	}
	if (!a->believed) {
		if (attempt_check(a, true) < 0)
			return;
		a->believed = true;
	}
	if ((a->held.size || a->f->winner != a) && flush_held(a) == XFER_ABORT && !a->fault.kind)
		refuse_reply(a, "the rest of the file is missing");
	if (a->f->winner != a && !a->fault.kind)
		refuse_other_file(a, "its file is shorter than the bytes fetched already");
}

/* One byte a second is not silence, and could go on for years. Returns when an attempt that is too slow is
 * ended. */
static int64_t crawl_limit_ms(struct attempt *a, int64_t now_ms)
{
	uint64_t bytes = xfer_wire_bytes(a->xfer),
		 enough = (uint64_t)a->f->patience.silent_ms * MIN_RATE / 1000;

	if (!a->mark_ms || bytes - a->mark_bytes >= enough) {
		a->mark_ms = now_ms;
		a->mark_bytes = bytes;
	}
	return a->mark_ms + a->f->patience.silent_ms;
}

bool attempt_turn(struct attempt *a, int64_t now_ms, int64_t *next_ms, struct fault *ret)
{
	struct net_fetch *f = a->f;
	int64_t limit_ms = xfer_heard_ms(a->xfer) + f->patience.silent_ms;
	struct fault wire = { 0 };
	bool crawls = false;

	if (!xfer_ended(a->xfer, &wire)) {
		int64_t crawl_ms = a->answered ? crawl_limit_ms(a, now_ms) : INT64_MAX;

		/* Bytes of a head that trickles do not extend the limit. */
		if (!a->answered)
			limit_ms = a->started_ms + f->patience.connect_ms + f->patience.silent_ms;
		crawls = now_ms < limit_ms;
		limit_ms = MIN(limit_ms, crawl_ms);
		if (now_ms < limit_ms) {
			*next_ms = MIN(*next_ms, limit_ms);
			return false;
		}
		fault_set(ret, a->connected ? FAULT_KIND_TIMEOUT : FAULT_KIND_CONNECT, ETIME,
			  crawls   ? "it sends less than 1 kB a second, after %llu bytes"
			  : a->pos ? "it fell silent after %llu bytes"
				   : "it does not answer",
			  (unsigned long long)a->pos);
		return true;
	}
	if (xfer_head(a->xfer)->status)
		a->answered = true;
	if (a->fault.kind == FAULT_KIND_NONE && wire.kind == FAULT_KIND_NONE) {
		if (!a->judged && judge_head(a) < 0)
			/* the fault is set */;
		else if (is_refusal(a))
			set_status_fault(a);
		else
			judge_end(a);
	} else if (a->answered && a->judged && is_refusal(a)) {
		set_status_fault(a);
	}
	*ret = a->fault.kind ? a->fault : wire;
	if (a->fault.kind == FAULT_KIND_NONE && wire.kind == FAULT_KIND_BROKEN && a->pos)
		fault_set(ret, FAULT_KIND_BROKEN, wire.os, "it broke off after %llu bytes",
			  (unsigned long long)a->pos);
	return true;
}

bool attempt_connected(const struct attempt *a)
{
	return a->connected || a->answered;
}

bool attempt_answered(const struct attempt *a)
{
	return a->answered;
}

int64_t attempt_heard_ms(const struct attempt *a)
{
	return xfer_heard_ms(a->xfer);
}

int64_t attempt_started_ms(const struct attempt *a)
{
	return a->started_ms;
}

const struct head *attempt_head(const struct attempt *a)
{
	return xfer_head(a->xfer);
}

bool attempt_lost(const struct attempt *a)
{
	return a->lost;
}

bool attempt_differs(const struct attempt *a)
{
	return a->differs;
}

uint64_t attempt_pos(const struct attempt *a)
{
	return a->pos;
}

uint64_t attempt_gained(const struct attempt *a)
{
	return a->f->winner == a ? a->f->have - MIN(a->won_at, a->f->have) : 0;
}

uint64_t attempt_bytes(const struct attempt *a)
{
	return a->n_body;
}
