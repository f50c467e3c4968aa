/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a PUT on its way into the store.
 *
 * There are two buffers. The HTTP thread fills one; when it is full a worker takes it, and the HTTP thread
 * fills the other; when that is full too, the connection is suspended until the worker is done. The worker
 * that has written the last chunk checks the file, commits it, and makes the reply.
 */
#include "server/push/pass.h"
#include "server/push/push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "server/artifact/artifact.h"

/* Outcomes. */
enum {
	UPLOAD_ELSEWHERE = -2, /* after a crash fewer bytes are here than announced; the session stays */
	UPLOAD_TOO_LARGE = -3, /* a body in chunks turned out to be too large */
	UPLOAD_AWAY = -4,      /* the store cannot be reached; the session stays */
};

struct upload {
	struct server *s;
	struct request *req; /* the HTTP thread's; the worker's while it is suspended */
	struct arena arena;
	struct push_request
		pr; /* its strings are in the arena: the connection may end while a worker writes */
	struct build_id announced; /* that of `pr` before the file was checked */
	struct pool_slot slot;
	atomic_uint refs; /* the request's, and the worker's while there is one */
	pthread_mutex_t lock;
	/* under the lock */
	uint8_t *fill, *drain;
	size_t n_fill, n_drain;
	bool working;   /* a worker has it, or it is queued for one */
	bool suspended; /* the connection has ended */
	bool last;      /* the whole body is in */
	bool failed;    /* further bytes are dropped; `err` says why */
	bool gone;      /* the connection */
	/* under the push's lock */
	struct upload *prev, *next;
	bool closing; /* was shut down to make room */
	/* */
	int64_t began_ms;
	atomic_uint_fast64_t received;
	uint64_t dropped; /* the HTTP thread's: bytes after it failed */
	/* the worker's */
	struct session *session;
	struct err err;
	int outcome; /* STORE_FULL, UPLOAD_ELSEWHERE, UPLOAD_TOO_LARGE, or negative */
};

static void upload_copy_meta(struct upload *up)
{
	struct store_meta *m = &up->pr.meta;

	m->from = arena_str(&up->arena, m->from);
	m->owner = arena_str(&up->arena, m->owner);
	m->address = arena_str(&up->arena, m->address);
	m->file = arena_str(&up->arena, m->file);
	m->archive = arena_str(&up->arena, m->archive);
}

/* ---- the list of those that have a connection ---- */

static void upload_list(struct push *p, struct upload *up)
{
	pthread_mutex_lock(&p->lock);
	up->next = p->first;
	if (up->next)
		up->next->prev = up;
	p->first = up;
	pthread_mutex_unlock(&p->lock);
}

static void upload_unlist(struct push *p, struct upload *up)
{
	pthread_mutex_lock(&p->lock);
	*(up->prev ? &up->prev->next : &p->first) = up->next;
	if (up->next)
		up->next->prev = up->prev;
	pthread_mutex_unlock(&p->lock);
}

/* Under the push's lock. The bytes a second that its client sends; UINT64_MAX: it is new, or waits for us. */
static uint64_t upload_rate(struct upload *up, int64_t now_ms)
{
	int64_t age_ms = now_ms - up->began_ms;
	bool ours;

	pthread_mutex_lock(&up->lock);
	ours = up->working || up->suspended || up->last;
	pthread_mutex_unlock(&up->lock);
	return ours || age_ms < PUSH_SLOW_MS ? UINT64_MAX : up->received * 1000 / (uint64_t)age_ms;
}

bool upload_is_running(struct push *p, const struct build_id *id)
{
	bool found = false;

	pthread_mutex_lock(&p->lock);
	for (struct upload *up = p->first; up && !found; up = up->next)
		found = !up->closing && build_id_eq(&up->announced, id);
	pthread_mutex_unlock(&p->lock);
	return found;
}

bool upload_admit(struct push *p, const char *token, unsigned max_of_token)
{
	int64_t now_ms = clock_mono_ms();
	struct upload *slowest = NULL;
	uint64_t least = PUSH_SLOW_RATE;
	unsigned n = 0, n_own = 0;
	bool own, ok;

	pthread_mutex_lock(&p->lock);
	for (struct upload *up = p->first; up; up = up->next) {
		n += !up->closing;
		n_own += !up->closing && strcmp(up->pr.token, token) == 0;
	}
	/* Those that are closing or only have a worker are few, unless the disk has stopped. */
	own = max_of_token && n_own >= max_of_token;
	ok = atomic_load(&p->n_uploads) < 2 * PUSH_MAX_UPLOADS;
	if (ok && (own || n >= PUSH_MAX_UPLOADS)) {
		for (struct upload *up = p->first; up; up = up->next) {
			uint64_t rate = up->closing || (own && strcmp(up->pr.token, token) != 0)
						? UINT64_MAX
						: upload_rate(up, now_ms);

			if (rate >= least)
				continue;
			slowest = up;
			least = rate;
		}
		ok = slowest;
	}
	/* Its connection cannot end meanwhile: it leaves the list before. */
	if (slowest) {
		slowest->closing = true;
		http_shut(slowest->req->conn);
	}
	pthread_mutex_unlock(&p->lock);
	return ok;
}

struct upload *upload_new(struct request *req, struct session *session)
{
	struct upload *up = NEW(struct upload);

	up->s = req->s;
	up->req = req;
	arena_init(&up->arena);
	up->pr = *(const struct push_request *)req->own;
	up->announced = up->pr.key.id;
	upload_copy_meta(up);
	up->session = session;
	atomic_init(&up->refs, 1);
	pthread_mutex_init(&up->lock, NULL);
	up->fill = mem_alloc(PUSH_BUFFER);
	up->drain = mem_alloc(PUSH_BUFFER);
	atomic_fetch_add(&up->s->push->n_uploads, 1);
	up->began_ms = clock_mono_ms();
	upload_list(up->s->push, up);
	return up;
}

/* Park the received bytes for the next connection, or drop them. */
static void upload_release_session(struct upload *up)
{
	struct session *session = TAKE(up->session);

	if (session && up->failed && up->outcome != UPLOAD_ELSEWHERE && up->outcome != UPLOAD_AWAY)
		session_drop(up->s->push->sessions, session);
	else if (session)
		session_park(up->s->push->sessions, session);
}

static void upload_unref(struct upload *up)
{
	if (atomic_fetch_sub(&up->refs, 1) != 1)
		return;
	upload_release_session(up);
	atomic_fetch_sub(&up->s->push->n_uploads, 1);
	pthread_mutex_destroy(&up->lock);
	free(up->fill);
	free(up->drain);
	arena_done(&up->arena);
	free(up);
}

/* ---- on a worker ---- */

static int upload_begin(struct upload *up, struct bytes b)
{
	const struct push_request *pr = &up->pr;
	int r;

	if (up->session->put)
		return 0;
	if (!pr->off && push_check_head(pr, b, &up->err) < 0)
		return -1;
	r = session_open(up->s->push->sessions, up->session, pr->total, pr->has_sha256 ? pr->sha256 : NULL,
			 &up->err);
	return r == 0 && session_offset(up->session) != pr->off ? UPLOAD_ELSEWHERE : r;
}

static int refuse_as_too_large(struct upload *up)
{
	up->outcome = UPLOAD_TOO_LARGE;
	if (up->pr.expected)
		return err_set(&up->err, ERR_LIMIT,
			       "the file has more bytes than the upload was initiated with");
	return err_set(&up->err, ERR_LIMIT, "the file has more than the %llu bytes that --max-push allows",
		       (unsigned long long)up->s->opts.max_push);
}

static void upload_write(struct upload *up, struct bytes b)
{
	uint64_t max = up->pr.expected ? up->pr.expected : up->s->opts.max_push;
	int r;

	if (up->failed || !b.size)
		return;
	r = upload_begin(up, b);
	if (r == 0 && session_offset(up->session) + b.size > max)
		r = refuse_as_too_large(up);
	if (r == 0)
		r = store_put_write(up->session->put, b, &up->err);
	if (r == 0)
		return;
	pthread_mutex_lock(&up->lock);
	if (up->outcome != UPLOAD_TOO_LARGE)
		up->outcome = r;
	up->failed = true;
	pthread_mutex_unlock(&up->lock);
}

static void upload_reply_offset(struct upload *up)
{
	uint64_t off = session_offset(up->session);

	/* Before the reply: after it the client may send the next part on another connection. */
	upload_release_session(up);
	if (up->failed)
		push_reply_offset(
			up->req, 409, "offset", off,
			"a part of the earlier bytes was lost in a crash: go on from X-LODE-OFFSET");
	else
		push_reply_offset(up->req, 202, "partial", off, "go on from X-LODE-OFFSET");
}

static void upload_reply_failure(struct upload *up)
{
	struct push_outcome o;

	if (up->outcome == UPLOAD_TOO_LARGE)
		o = (struct push_outcome){ .status = 413, .text = up->err.text };
	else
		push_failure(up->req->url, up->outcome, &up->err, &up->arena, &o);
	push_reply(up->req, o.status, o.result, o.text);
}

/* The file is complete: check and commit it. */
static void upload_commit(struct upload *up)
{
	struct push_outcome o;

	push_commit(up->s, &up->pr, TAKE(up->session->put), up->req->url, &up->arena, &o);
	up->failed = true; /* the session is over */
	if (o.away) {
		up->outcome = UPLOAD_AWAY;
		session_left(up->s->push->sessions, up->session);
		/* Before the reply: after it the client may come again, on another connection. */
		upload_release_session(up);
	}
	if (o.status < 300 && up->pr.pass)
		pass_finish(up->s->push->passes, up->pr.pass);
	push_reply(up->req, o.status, o.result, o.text);
}

static void upload_reply(struct upload *up)
{
	if (up->failed && up->outcome == UPLOAD_ELSEWHERE)
		upload_reply_offset(up);
	else if (up->failed)
		upload_reply_failure(up);
	else if (up->pr.total == STORE_SIZE_UNKNOWN && !session_offset(up->session))
		push_reply(up->req, 422, NULL, "the body is empty");
	else if (up->pr.expected && session_offset(up->session) != up->pr.expected)
		push_reply(up->req, 400, NULL,
			   "the file does not have the size that the upload was initiated with");
	else if (up->pr.total == STORE_SIZE_UNKNOWN || session_offset(up->session) == up->pr.total)
		upload_commit(up);
	else
		upload_reply_offset(up);
	upload_release_session(up);
}

static void upload_work(void *arg)
{
	struct upload *up = arg;
	struct request *req;
	bool resume = false;

	pthread_mutex_lock(&up->lock);
	while (!up->gone && (up->n_fill == PUSH_BUFFER || up->n_drain || (up->last && up->n_fill))) {
		if (!up->n_drain) {
			uint8_t *p = up->fill;

			up->fill = up->drain;
			up->drain = p;
			up->n_drain = up->n_fill;
			up->n_fill = 0;
		}
		/* There is room again: receive more meanwhile. */
		if (up->suspended && !up->last) {
			up->suspended = false;
			wait_end_work(up->req);
		}
		pthread_mutex_unlock(&up->lock);
		upload_write(up, bytes_of(up->drain, up->n_drain));
		pthread_mutex_lock(&up->lock);
		up->n_drain = 0;
	}
	up->working = false;
	req = up->req;
	if (up->last && up->suspended && !up->gone) {
		resume = true;
		up->suspended = false;
	}
	pthread_mutex_unlock(&up->lock);
	if (resume) {
		upload_reply(up);
		wait_end_work(req);
	}
	upload_unref(up);
}

/* Under the lock. */
static void upload_start_work(struct upload *up)
{
	up->working = true;
	atomic_fetch_add(&up->refs, 1);
	pool_queue(up->s->writers, POOL_NORMAL, &up->slot, upload_work, up);
}

/* ---- on the HTTP thread ---- */

size_t upload_body(struct upload *up, struct bytes chunk)
{
	size_t n;

	pthread_mutex_lock(&up->lock);
	if (up->failed) {
		pthread_mutex_unlock(&up->lock);
		up->dropped += chunk.size;
		/* A body of a known size ends by itself. */
		if (up->pr.total == STORE_SIZE_UNKNOWN && up->dropped > PUSH_DROP_MAX)
			http_shut(up->req->conn);
		return chunk.size;
	}
	n = MIN(PUSH_BUFFER - up->n_fill, chunk.size);
	memcpy(up->fill + up->n_fill, chunk.p, n);
	up->n_fill += n;
	atomic_fetch_add_explicit(&up->received, n, memory_order_relaxed);
	if (up->n_fill == PUSH_BUFFER && !up->working)
		upload_start_work(up);
	/*
	 * Even if a part of the chunk fitted: libmicrohttpd passes the rest again only when more bytes come
	 * from the client, or when the connection is resumed. After the last bytes of the body none come.
	 */
	if (n < chunk.size) {
		up->suspended = wait_begin_work(up->req);
		if (!up->suspended) {
			up->outcome = err_set(&up->err, ERR_CANCELLED, "the server stops");
			up->failed = true;
			n = chunk.size;
		}
	}
	pthread_mutex_unlock(&up->lock);
	return n;
}

bool upload_finish(struct upload *up)
{
	bool ok;

	pthread_mutex_lock(&up->lock);
	ok = wait_begin_work(up->req);
	if (ok) {
		up->last = true;
		up->suspended = true;
		if (!up->working)
			upload_start_work(up);
	}
	pthread_mutex_unlock(&up->lock);
	return ok;
}

void upload_gone(struct upload *up)
{
	upload_unlist(up->s->push, up);
	pthread_mutex_lock(&up->lock);
	up->gone = true;
	pthread_mutex_unlock(&up->lock);
	upload_unref(up);
}
