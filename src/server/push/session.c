/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: uploads in parts, and interrupted uploads, which are parked here until the next part comes.
 *
 * A session belongs to its token: an upload of the same bytes with another token is another session. The
 * store keeps the received bytes under the name of the session, which contains its whole key. So the next
 * process finds it, and opens it when a client continues.
 */
#include "server/push/push.h"

#include <stdlib.h>

/* Each has a staging file on disk and up to 256 KiB of memory. */
#define MAX_PARKED 64u
#define PARKED_MS  INT64_C(3600000)
#define QUOTA_PART 4 /* complete objects shall not be evicted for incomplete ones */

struct sessions {
	struct store *store; /* NULL: none */
	uint64_t max_bytes;  /* of all parked sessions */
	pthread_mutex_t lock;
	/* under the lock */
	struct map by_name;     /* sessions with a name, parked or in use */
	struct session *parked; /* parked last */
	struct session *oldest;
	unsigned n_parked;
	uint64_t parked_bytes;
};

static void session_free(struct sessions *t, struct session *s)
{
	session_reset(t, s);
	free(s->name);
	free(s);
}

static struct bytes session_key(const struct session *s)
{
	return bytes_of(s->name, strlen(s->name));
}

/* Under the lock. */
static void session_unqueue(struct sessions *t, struct session *s)
{
	*(s->prev ? &s->prev->next : &t->parked) = s->next;
	*(s->next ? &s->next->prev : &t->oldest) = s->prev;
	s->prev = s->next = NULL;
	s->parked_ms = 0;
	t->n_parked--;
	t->parked_bytes -= session_offset(s);
}

/* Under the lock: as the newest. */
static void session_queue(struct sessions *t, struct session *s, int64_t now_ms)
{
	s->parked_ms = MAX(now_ms, INT64_C(1));
	s->prev = NULL;
	s->next = t->parked;
	*(s->next ? &s->next->prev : &t->oldest) = s;
	t->parked = s;
	t->n_parked++;
	t->parked_bytes += session_offset(s);
}

/* Under the lock: a session that has been parked too long, to be freed outside of the lock; NULL: none. */
static struct session *session_expired(struct sessions *t)
{
	struct session *s = t->oldest;

	if (!s || (t->n_parked <= MAX_PARKED && (t->parked_bytes <= t->max_bytes || t->n_parked == 1) &&
		   clock_mono_ms() - s->parked_ms < PARKED_MS))
		return NULL;
	session_unqueue(t, s);
	map_del(&t->by_name, session_key(s));
	return s;
}

void sessions_expire(struct sessions *t)
{
	struct session *s;

	do {
		pthread_mutex_lock(&t->lock);
		s = session_expired(t);
		pthread_mutex_unlock(&t->lock);
		if (s)
			session_free(t, s);
	} while (s);
}

/* ---- sessions of the last process ---- */

struct found_sessions {
	struct sessions *t;
	struct session *all; /* by `next` */
};

static int session_find(void *arg, const struct store_partial *p)
{
	struct found_sessions *f = arg;
	struct session *s = NEW(struct session);

	s->name = mem_strndup(p->name.p, p->name.size);
	s->named = true;
	s->left = p->size;
	s->parked_ms = p->saved; /* for the order; sessions_find() sets the time */
	s->next = f->all;
	f->all = s;
	return 0;
}

static struct session *found_take_oldest(struct session **all)
{
	struct session **oldest = all, *s;

	for (struct session **at = all; *at; at = &(*at)->next)
		if ((*at)->parked_ms < (*oldest)->parked_ms)
			oldest = at;
	s = *oldest;
	*oldest = s->next;
	return s;
}

static void sessions_find(struct sessions *t)
{
	struct found_sessions f = { .t = t };
	struct err err = { 0 };

	if (store_partials(t->store, session_find, &f, &err) < 0)
		log_warn("store", "interrupted uploads: %s", err.text);
	while (f.all) {
		struct session *s = found_take_oldest(&f.all);

		pthread_mutex_lock(&t->lock);
		map_put(&t->by_name, session_key(s), s);
		/* The hour begins anew: a clock that is ahead at the start would end it for all of them. */
		session_queue(t, s, clock_mono_ms());
		pthread_mutex_unlock(&t->lock);
	}
	sessions_expire(t);
}

struct sessions *sessions_new(struct store *store, uint64_t max_bytes)
{
	struct sessions *t = NEW(struct sessions);
	struct store_figures f = { 0 };

	t->store = store;
	if (store)
		store_figures(store, &f);
	t->max_bytes = f.quota ? MIN(max_bytes, f.quota / QUOTA_PART) : max_bytes;
	pthread_mutex_init(&t->lock, NULL);
	if (store)
		sessions_find(t);
	return t;
}

/* Parked sessions stay in the store for the next process. */
void sessions_free(struct sessions *t)
{
	while (t->oldest) {
		struct session *s = t->oldest;

		session_unqueue(t, s);
		store_put_leave(TAKE(s->put));
		s->left = 0;
		session_free(t, s);
	}
	map_done(&t->by_name);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static char *session_name(const struct push_request *pr)
{
	char id[BUILD_ID_HEX_SIZE], sum[2 * STORE_SHA256_SIZE + 1];

	return mem_printf("%s/%s %s %llu %s", build_id_hex(&pr->key.id, id), store_kind_name(pr->key.kind),
			  hex_encode(bytes_of(pr->sha256, STORE_SHA256_SIZE), sum),
			  (unsigned long long)pr->total, pr->token);
}

struct session *session_take(struct sessions *t, const struct push_request *pr)
{
	/* A body in chunks cannot go on: its client does not know how much has arrived. */
	bool named = pr->has_sha256 && pr->total != STORE_SIZE_UNKNOWN;
	AUTO(mem_freep) char *name = named ? session_name(pr) : NULL;
	struct session *s;

	sessions_expire(t);
	if (!name)
		return NEW(struct session);
	pthread_mutex_lock(&t->lock);
	s = map_get(&t->by_name, bytes_of(name, strlen(name)));
	if (!s) {
		s = NEW(struct session);
		s->name = TAKE(name);
		s->named = true;
		map_put(&t->by_name, session_key(s), s);
	} else if (s->parked_ms) {
		session_unqueue(t, s);
	} else {
		/*
		 * Another connection uploads the same bytes. A whole upload may run beside it: it does not
		 * matter which ends first.
		 */
		s = pr->size != pr->total ? NULL : NEW(struct session);
	}
	pthread_mutex_unlock(&t->lock);
	return s;
}

uint64_t session_offset(const struct session *s)
{
	return s->put ? store_put_size(s->put) : s->left;
}

bool session_peek(struct sessions *t, const struct push_request *pr, uint64_t *ret_off, bool *ret_busy)
{
	AUTO(mem_freep) char *name = session_name(pr);
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
	if (!s->named || !session_offset(s)) {
		session_drop(t, s);
		return;
	}
	pthread_mutex_lock(&t->lock);
	session_queue(t, s, clock_mono_ms());
	pthread_mutex_unlock(&t->lock);
	sessions_expire(t);
}

void session_drop(struct sessions *t, struct session *s)
{
	if (s->named) {
		pthread_mutex_lock(&t->lock);
		map_del(&t->by_name, session_key(s));
		pthread_mutex_unlock(&t->lock);
	}
	session_free(t, s);
}

void session_reset(struct sessions *t, struct session *s)
{
	store_put_abort(TAKE(s->put));
	if (s->left)
		store_forget_partial(t->store, str_of(s->name));
	s->left = 0;
}

void session_left(struct sessions *t, struct session *s)
{
	s->left = s->named ? store_partial_size(t->store, str_of(s->name)) : 0;
}

int session_open(struct sessions *t, struct session *s, uint64_t size, const uint8_t *sha256, struct err *err)
{
	const struct store_put_options opts = {
		.later = true, .size = size, .sha256 = sha256, .name = str_of(s->name ? s->name : "")
	};
	int r = s->put ? 0 : store_put_begin(t->store, &opts, &s->put, err);

	if (r == 0)
		s->left = 0;
	return r;
}
