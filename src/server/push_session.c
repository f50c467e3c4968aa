/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads that come in parts, or that were cut: what has arrived waits here for the rest.
 *
 * It belongs to who pushes: another token's upload of the same bytes is another session. They are in memory
 * and go with the process, as does their file; who asks then begins at 0 again.
 */
#include "server/push.h"

#include <stdlib.h>

/* Each holds a spool on disk and up to 256 KiB of memory. */
#define MAX_PARKED 64u
#define PARKED_MS  INT64_C(3600000)

struct sessions {
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_name;     /* those that have a name, also those in use */
	struct session *parked; /* the one that was parked last */
	struct session *oldest;
	unsigned n_parked;
};

struct sessions *sessions_new(void)
{
	struct sessions *t = NEW(struct sessions);

	pthread_mutex_init(&t->lock, NULL);
	return t;
}

static void session_free(struct session *s)
{
	store_put_abort(s->put);
	free(s->name);
	free(s);
}

static struct bytes key_of(const struct session *s)
{
	return bytes_of(s->name, strlen(s->name));
}

/* Under the lock. */
static void unpark(struct sessions *t, struct session *s)
{
	*(s->prev ? &s->prev->next : &t->parked) = s->next;
	*(s->next ? &s->next->prev : &t->oldest) = s->prev;
	s->prev = s->next = NULL;
	s->parked_ms = 0;
	t->n_parked--;
}

/* Under the lock: one that has waited too long, to be freed outside of it; NULL: none. */
static struct session *expired(struct sessions *t)
{
	struct session *s = t->oldest;

	if (!s || (t->n_parked <= MAX_PARKED && clock_mono_ms() - s->parked_ms < PARKED_MS))
		return NULL;
	unpark(t, s);
	map_del(&t->by_name, key_of(s));
	return s;
}

static void expire(struct sessions *t)
{
	struct session *s;

	do {
		pthread_mutex_lock(&t->lock);
		s = expired(t);
		pthread_mutex_unlock(&t->lock);
		if (s)
			session_free(s);
	} while (s);
}

void sessions_free(struct sessions *t)
{
	while (t->oldest) {
		struct session *s = t->oldest;

		unpark(t, s);
		session_free(s);
	}
	map_done(&t->by_name);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static char *name_of(const struct push_request *pr)
{
	char id[BUILD_ID_HEX_SIZE], sum[2 * STORE_SHA256_SIZE + 1];

	return mem_printf("%s/%s %s %llu %s", build_id_hex(&pr->key.id, id), store_kind_name(pr->key.kind),
			  hex_encode(bytes_of(pr->sha256, STORE_SHA256_SIZE), sum),
			  (unsigned long long)pr->total, pr->token);
}

struct session *session_take(struct sessions *t, const struct push_request *pr)
{
	AUTO(mem_freep) char *name = pr->has_sha256 ? name_of(pr) : NULL;
	struct session *s;

	expire(t);
	if (!name)
		return NEW(struct session);
	pthread_mutex_lock(&t->lock);
	s = map_get(&t->by_name, bytes_of(name, strlen(name)));
	if (!s) {
		s = NEW(struct session);
		s->name = TAKE(name);
		s->named = true;
		map_put(&t->by_name, key_of(s), s);
	} else if (s->parked_ms) {
		unpark(t, s);
	} else {
		/* The whole at once anybody may send; of the same bytes it does not matter whose come first.
		 */
		s = pr->size != pr->total ? NULL : NEW(struct session);
	}
	pthread_mutex_unlock(&t->lock);
	return s;
}

uint64_t session_offset(const struct session *s)
{
	return s->put ? store_put_size(s->put) : 0;
}

bool session_peek(struct sessions *t, const struct push_request *pr, uint64_t *ret_off, bool *ret_busy)
{
	AUTO(mem_freep) char *name = name_of(pr);
	struct session *s;

	pthread_mutex_lock(&t->lock);
	s = map_get(&t->by_name, bytes_of(name, strlen(name)));
	if (s) {
		*ret_busy = !s->parked_ms;
		*ret_off = *ret_busy ? 0 : session_offset(s);
	}
	pthread_mutex_unlock(&t->lock);
	return s != NULL;
}

void session_park(struct sessions *t, struct session *s)
{
	if (!s->named || !s->put) {
		session_drop(t, s);
		return;
	}
	pthread_mutex_lock(&t->lock);
	s->parked_ms = MAX(clock_mono_ms(), INT64_C(1));
	s->prev = NULL;
	s->next = t->parked;
	*(s->next ? &s->next->prev : &t->oldest) = s;
	t->parked = s;
	t->n_parked++;
	pthread_mutex_unlock(&t->lock);
	expire(t);
}

void session_drop(struct sessions *t, struct session *s)
{
	if (s->named) {
		pthread_mutex_lock(&t->lock);
		map_del(&t->by_name, key_of(s));
		pthread_mutex_unlock(&t->lock);
	}
	session_free(s);
}

void session_reset(struct session *s)
{
	store_put_abort(s->put);
	s->put = NULL;
}
