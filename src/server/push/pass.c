/* SPDX-License-Identifier: Apache-2.0 */
/* Passes, in memory: a list in the order in which they were given. */
#include "server/push/pass.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include "base/vec.h"

struct pass_entry {
	struct pass pass;
	char secret[PASS_SECRET_SIZE];
	int64_t given_ms; /* monotonic */
	enum pass_state state;
};

struct passes {
	pthread_mutex_t lock;
	/* under the lock */
	struct pass_entry *v;
	size_t n, room;
	uint64_t sent;
	/* */
	uint64_t max_direct;
};

struct passes *passes_new(uint64_t max_direct)
{
	struct passes *t = NEW(struct passes);

	t->max_direct = max_direct;
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void passes_free(struct passes *t)
{
	free(t->v);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static bool pass_is_over(const struct pass_entry *e, int64_t now_ms)
{
	int64_t use_ms = e->pass.direct_ms ? e->pass.direct_ms : PASS_USE_MS;

	return now_ms - e->given_ms > (e->state == PASS_OPEN ? use_ms : PASS_KEEP_MS);
}

/* Under the lock. */
static void passes_expire(struct passes *t)
{
	int64_t now_ms = clock_mono_ms();
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		if (!pass_is_over(&t->v[i], now_ms))
			t->v[n++] = t->v[i];
	t->n = n;
}

static void pass_drop(struct passes *t, size_t i)
{
	memmove(&t->v[i], &t->v[i + 1], (--t->n - i) * sizeof(t->v[0]));
}

/* Under the lock. Finished ones, which clients hardly ask for, make room, the oldest first. */
static int pass_room(struct passes *t, const char *owner, struct err *err)
{
	size_t n_own = 0, done = t->n;

	for (size_t i = t->n; i-- > 0;) {
		if (t->v[i].state == PASS_DONE)
			done = i;
		else
			n_own += strcmp(t->v[i].pass.owner, owner) == 0;
	}
	if (n_own >= PASSES_OF_ONE)
		return err_set(err, ERR_BUSY,
			       "%u uploads of this token are announced already: try again later",
			       PASSES_OF_ONE);
	if (t->n < PASSES_MAX)
		return 0;
	if (done == t->n)
		return err_set(err, ERR_BUSY, "%u uploads are announced already: try again later",
			       PASSES_MAX);
	pass_drop(t, done);
	return 0;
}

/* Under the lock. */
static int pass_room_direct(const struct passes *t, const struct pass *p, struct err *err)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].pass.direct_ms && t->v[i].state == PASS_OPEN)
			bytes += t->v[i].pass.size;
	bytes = MAX(bytes, t->sent);
	if (!p->direct_ms || !t->max_direct || !bytes || bytes + p->size <= t->max_direct)
		return 0;
	return err_set(err, ERR_BUSY,
		       "uploads with %llu bytes are announced or were sent already, and the store's quota "
		       "has no room for "
		       "more: try again later",
		       (unsigned long long)bytes);
}

void passes_sent(struct passes *t, uint64_t bytes)
{
	pthread_mutex_lock(&t->lock);
	t->sent = bytes;
	pthread_mutex_unlock(&t->lock);
}

int pass_give(struct passes *t, struct pass *p, char secret[PASS_SECRET_SIZE], struct err *err)
{
	uint8_t bits[(PASS_SECRET_SIZE - 1) / 2];
	struct pass_entry e = { .given_ms = clock_mono_ms(), .state = PASS_OPEN };
	int r;

	if (getrandom(bits, sizeof(bits), 0) != sizeof(bits) ||
	    (!p->direct_ms && getrandom(&p->number, sizeof(p->number), 0) != sizeof(p->number)))
		return err_os(err, errno, "getrandom");
	hex_encode(bytes_of(bits, sizeof(bits)), secret);
	e.pass = *p;
	memcpy(e.secret, secret, sizeof(e.secret));
	pthread_mutex_lock(&t->lock);
	passes_expire(t);
	r = pass_room(t, p->owner, err);
	if (r == 0)
		r = pass_room_direct(t, p, err);
	if (r == 0)
		VEC_PUSH(t->v, t->n, t->room) = e;
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* In the same time wherever they differ. */
static bool secret_is(const char *a, struct str b)
{
	unsigned char differs = 0;

	if (b.size != PASS_SECRET_SIZE - 1)
		return false;
	for (size_t i = 0; i < b.size; i++)
		differs |= (unsigned char)(a[i] ^ b.p[i]);
	return !differs;
}

bool pass_take(struct passes *t, struct str secret, struct pass *ret)
{
	bool found = false;

	pthread_mutex_lock(&t->lock);
	passes_expire(t);
	for (size_t i = 0; i < t->n && !found; i++) {
		struct pass_entry *e = &t->v[i];

		found = e->state == PASS_OPEN && !e->pass.direct_ms && secret_is(e->secret, secret);
		if (found) {
			e->state = PASS_USED;
			*ret = e->pass;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

void pass_print_number(uint64_t number, char out[PASS_NUMBER_SIZE])
{
	uint64_t big = htobe64(number);

	hex_encode(bytes_of(&big, sizeof(big)), out);
}

bool pass_read_number(struct str text, uint64_t *ret)
{
	uint8_t bytes[sizeof(*ret)] = { 0 };
	size_t n;

	if (!hex_decode(text, false, bytes, sizeof(bytes), &n) || n != sizeof(bytes))
		return false;
	memcpy(ret, bytes, sizeof(bytes));
	*ret = be64toh(*ret);
	return true;
}

bool pass_take_number(struct passes *t, uint64_t number, const struct build_id *id, const char *owner,
		      struct pass *ret)
{
	bool found = false;

	pthread_mutex_lock(&t->lock);
	passes_expire(t);
	for (size_t i = 0; i < t->n && !found; i++) {
		struct pass_entry *e = &t->v[i];

		found = e->state == PASS_OPEN && !e->pass.direct_ms && e->pass.number == number &&
			build_id_eq(&e->pass.id, id) && strcmp(e->pass.owner, owner) == 0;
		if (found) {
			e->state = PASS_USED;
			*ret = e->pass;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

static void pass_set_state(struct passes *t, uint64_t number, enum pass_state state)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].pass.number == number)
			t->v[i].state = state;
	pthread_mutex_unlock(&t->lock);
}

void pass_finish(struct passes *t, uint64_t number)
{
	pass_set_state(t, number, PASS_DONE);
}

void pass_refuse(struct passes *t, uint64_t number)
{
	pass_set_state(t, number, PASS_USED);
}

void pass_cancel(struct passes *t, uint64_t number)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = t->n; i-- > 0;)
		if (t->v[i].pass.number == number)
			pass_drop(t, i);
	pthread_mutex_unlock(&t->lock);
}

enum pass_state pass_state(struct passes *t, uint64_t number, const struct build_id *id)
{
	enum pass_state state = PASS_NONE;

	pthread_mutex_lock(&t->lock);
	passes_expire(t);
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].pass.number == number && build_id_eq(&t->v[i].pass.id, id))
			state = t->v[i].state;
	pthread_mutex_unlock(&t->lock);
	return state;
}

bool pass_is_open(struct passes *t, const struct build_id *id)
{
	bool open = false;

	pthread_mutex_lock(&t->lock);
	passes_expire(t);
	for (size_t i = 0; i < t->n && !open; i++)
		open = t->v[i].state == PASS_OPEN && build_id_eq(&t->v[i].pass.id, id);
	pthread_mutex_unlock(&t->lock);
	return open;
}
