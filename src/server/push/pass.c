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
};

struct passes *passes_new(void)
{
	struct passes *t = NEW(struct passes);

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
	return now_ms - e->given_ms > (e->state == PASS_OPEN ? PASS_USE_MS : PASS_KEEP_MS);
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

int pass_give(struct passes *t, struct pass *p, char secret[PASS_SECRET_SIZE], struct err *err)
{
	uint8_t bits[(PASS_SECRET_SIZE - 1) / 2];
	struct pass_entry e = { .given_ms = clock_mono_ms(), .state = PASS_OPEN };
	int r = 0;

	if (getrandom(bits, sizeof(bits), 0) != sizeof(bits) ||
	    getrandom(&p->number, sizeof(p->number), 0) != sizeof(p->number))
		return err_os(err, errno, "getrandom");
	hex_encode(bytes_of(bits, sizeof(bits)), secret);
	e.pass = *p;
	memcpy(e.secret, secret, sizeof(e.secret));
	pthread_mutex_lock(&t->lock);
	passes_expire(t);
	if (t->n == PASSES_MAX)
		r = err_set(err, ERR_BUSY, "%u uploads are announced already: try again later", PASSES_MAX);
	else
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

		found = e->state == PASS_OPEN && secret_is(e->secret, secret);
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

		found = e->state == PASS_OPEN && e->pass.number == number && build_id_eq(&e->pass.id, id) &&
			strcmp(e->pass.owner, owner) == 0;
		if (found) {
			e->state = PASS_USED;
			*ret = e->pass;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

void pass_finish(struct passes *t, uint64_t number)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].pass.number == number)
			t->v[i].state = PASS_DONE;
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
