/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight of an artifact: requests join it, follow it and leave it. step.c has the work of the workers.
 *
 * Requests for the same artifact at once join one flight: it is resolved once and decoded once, into a file
 * of the cache that all of them read while it grows. Without room in the cache it goes through a ring in
 * memory; then one request follows, and the others get flights of their own.
 */
#include "server/artifact/artifact.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void artifact_key(const struct resolve_request *what, struct buf *ret)
{
	buf_add_char(ret, (char)what->kind);
	/* A request that comes back through other servers must not wait for itself. */
	buf_add_char(ret, (char)(what->not_further ? 255u : MIN(what->n_hops, 254u)));
	buf_add_char(ret, (char)what->id.size);
	buf_add(ret, what->id.b, what->id.size);
	buf_add_str(ret, what->arg);
	buf_add_str(ret, what->name);
}

static void artifact_count(struct server *s, int n)
{
	pthread_mutex_lock(&s->artifacts.lock);
	s->artifacts.n += (unsigned)n;
	if (!s->artifacts.n)
		pthread_cond_broadcast(&s->artifacts.gone);
	pthread_mutex_unlock(&s->artifacts.lock);
}

void artifacts_wait_gone(struct server *s)
{
	pthread_mutex_lock(&s->artifacts.lock);
	while (s->artifacts.n)
		pthread_cond_wait(&s->artifacts.gone, &s->artifacts.lock);
	pthread_mutex_unlock(&s->artifacts.lock);
}

struct making {
	struct server *s;
	const struct resolve_request *what;
	struct bytes key;
	bool solo;
	uint32_t client; /* that asks first */
};

void artifact_ref(void *obj)
{
	atomic_fetch_add_explicit(&((struct artifact *)obj)->refs, 1, memory_order_relaxed);
}

/* One reference is for the caller, the other for the table. */
static void *artifact_make(void *arg)
{
	const struct making *m = arg;
	struct artifact *a = NEW(struct artifact);
	uint8_t *key = mem_alloc(m->key.size);

	memcpy(key, m->key.p, m->key.size);
	a->s = m->s;
	a->key = bytes_of(key, m->key.size);
	arena_init(&a->arena);
	a->what = *m->what;
	a->what.arg = arena_str(&a->arena, a->what.arg);
	a->what.name = arena_str(&a->arena, a->what.name);
	a->what.forwarded_for = arena_str(&a->arena, a->what.forwarded_for);
	a->what.via = arena_str(&a->arena, a->what.via);
	a->what.user_agent = arena_str(&a->arena, a->what.user_agent);
	a->solo = m->solo;
	a->landed = m->solo;
	a->buffer_fd = -1;
	atomic_init(&a->refs, m->solo ? 1u : 2u);
	a->task = (struct task){ .pool = a->s->workers,
				 .cls = HTTP_CLASS_ARTIFACT,
				 .slot = { .client = m->client },
				 .step = artifact_step,
				 .ref = artifact_ref,
				 .unref = artifact_unref,
				 .arg = a };
	pthread_mutex_init(&a->lock, NULL);
	artifact_count(a->s, 1);
	return a;
}

void artifact_unref(void *arg)
{
	struct artifact *a = arg;
	struct server *s = a->s;

	if (atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1)
		return;
	assert(!a->waiters && a->landed);
	task_done(&a->task);
	unread_done(a);
	source_close(a->source);
	cache_drop(s->cache, a->file);
	if (a->buffer_fd >= 0)
		close(a->buffer_fd);
	if (a->ring)
		atomic_fetch_sub(&s->ring_bytes, a->ring_size);
	free(a->ring);
	free(a->chunk);
	ready_unref(a->ready);
	content_done(&a->content);
	arena_done(&a->arena);
	pthread_mutex_destroy(&a->lock);
	free((void *)a->key.p);
	free(a);
	artifact_count(s, -1);
}

void artifact_land(struct artifact *a)
{
	bool mine;

	pthread_mutex_lock(&a->lock);
	mine = !a->landed;
	a->landed = true;
	pthread_mutex_unlock(&a->lock);
	if (!mine)
		return;
	flight_land(a->s->flights, a->key);
	artifact_unref(a);
}

void artifact_wake_all(struct artifact *a)
{
	for (struct artifact_waiter *w = a->waiters; w; w = w->next)
		wait_wake(w->req);
}

/* ---- asking ---- */

bool artifact_ask(struct artifact_waiter *w, bool solo)
{
	AUTO(buf_done) struct buf key = { 0 };
	struct server *s = w->req->s;
	struct making m = { s, &w->what, { 0 }, solo, w->req->client };
	bool leader = true, suspended = false;
	struct artifact *a;

	artifact_key(&w->what, &key);
	m.key = buf_bytes(&key);
	for (;;) {
		a = solo ? artifact_make(&m)
			 : flight_join(s->flights, m.key, artifact_make, &m, artifact_ref, &leader);
		pthread_mutex_lock(&a->lock);
		if (!a->given_up)
			break;
		/*
		 * All other requests left at this moment. It is not in the table any more, so the next try
		 * gets another.
		 */
		pthread_mutex_unlock(&a->lock);
		artifact_unref(a);
	}
	w->artifact = a;
	w->prev = NULL;
	w->next = a->waiters;
	if (a->waiters)
		a->waiters->prev = w;
	a->waiters = w;
	a->n_waiters++;
	a->body_wanted |= !w->req->head;
	if (a->awaits)
		patience_join(w);
	if (a->state == ARTIFACT_RESOLVING)
		suspended = wait_suspend(w->req);
	if (leader)
		task_kick(&a->task);
	pthread_mutex_unlock(&a->lock);
	return suspended;
}

void artifact_leave(struct artifact_waiter *w)
{
	struct artifact *a = w->artifact;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	*(w->prev ? &w->prev->next : &a->waiters) = w->next;
	if (w->next)
		w->next->prev = w->prev;
	w->artifact = NULL;
	/* No request is left for it: a step ends it. */
	if (--a->n_waiters == 0 && a->state != ARTIFACT_WHOLE && a->state != ARTIFACT_FAILED)
		task_kick(&a->task);
	pthread_mutex_unlock(&a->lock);
	artifact_unref(a);
}

/* ---- following ---- */

static bool holds_all(const struct artifact *a)
{
	return a->buffer == BUFFER_FILE || (a->buffer == BUFFER_RING && !a->solo);
}

enum artifact_attached artifact_attach(struct artifact_waiter *w, uint64_t off, uint64_t size)
{
	struct artifact *a = w->artifact;
	enum artifact_attached result = ATTACHED;

	pthread_mutex_lock(&a->lock);
	if (holds_all(a)) {
		if (a->state == ARTIFACT_KNOWN) {
			a->from = 0;
			a->to = a->content.size;
		}
	} else if (a->solo && !a->reader) {
		a->reader = w;
		a->from = a->start = a->have = off;
		a->to = off + size;
	} else {
		result = a->solo ? ATTACH_SOLO : a->buffer == BUFFER_NONE ? ATTACH_ANEW : ATTACH_SOLO;
	}
	if (result == ATTACHED) {
		w->body_off = off;
		w->streaming = true;
		if (a->state == ARTIFACT_KNOWN) {
			a->state = ARTIFACT_FLOWING;
			task_kick(&a->task);
		}
	}
	pthread_mutex_unlock(&a->lock);
	return result;
}

/* Under the lock. Copy @n bytes at @at from the ring. */
static size_t ring_read(struct artifact *a, uint64_t at, char *buf, size_t n)
{
	size_t place = (size_t)((at - a->from) % a->ring_size), first = MIN(n, a->ring_size - place);

	memcpy(buf, a->ring + place, first);
	memcpy(buf + first, a->ring, n - first);
	return n;
}

ssize_t artifact_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct artifact_waiter *w = arg;
	struct artifact *a = w->artifact;
	uint64_t at = w->body_off + pos;
	ssize_t n = HTTP_STREAM_CUT;
	bool from_file = false;

	pthread_mutex_lock(&a->lock);
	if (a->have > at) {
		n = (ssize_t)MIN((uint64_t)max, a->have - at);
		from_file = a->buffer == BUFFER_FILE;
		if (!from_file)
			n = (ssize_t)ring_read(a, at, buf, (size_t)n);
		if (a->reader == w) {
			a->start = at + (uint64_t)n;
			if (a->stalled && a->have - a->start <= a->ring_size / 2) {
				a->stalled = false;
				task_kick(&a->task);
			}
		}
	} else if (a->state == ARTIFACT_FLOWING && w->req->fate == FATE_NONE) {
		w->wait_at = at;
		if (wait_suspend(w->req))
			n = 0;
	}
	pthread_mutex_unlock(&a->lock);
	if (from_file)
		n = pread(a->buffer_fd, buf, (size_t)n, (off_t)at);
	/* All bytes before `have` were written: an end of the file here is an error. */
	return n > 0 || !from_file ? n : HTTP_STREAM_CUT;
}
