/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of each server. A server that cannot be reached, or is silent, is passed over for a while (open);
 * then one request probes it, and other requests pass it over until the probe has ended. A server that was
 * only slower than another is not passed over but asked last for a while (slow): so a machine that drops all
 * packets delays the first request by its hedge, but not every request.
 */
#include "net/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define REFUSED_S  1   /* a refused connection costs nothing, and the server may have been started by then */
#define SLOW_AFTER 3   /* times slower than another server, in a row, though connected */
#define MAX_SHIFT  16u /* doublings of the first pause */
#define MAX_WAITS  32u /* requests that wait at one server for files that it has not read yet */

struct server {
	char *url; /* fixed */
	/* under the table's lock */
	struct breaker_memory m; /* in times of breaker_now_s() */
	bool trying;             /* a request is probing it */
	unsigned n_active, n_waiting;
	unsigned n_outrun;
	uint64_t n_asked, n_counted[COUNT_FAILED + 1], n_bytes;
};

/* Not wall time, which may be set: a server would be passed over for as long as the clock was set back. */
static int64_t breaker_now_s(void)
{
	return clock_mono_ms() / 1000;
}

/* The times of @m, later by @by_s. 0 is none. */
static struct breaker_memory memory_moved(struct breaker_memory m, int64_t by_s)
{
	m.open_until_s += m.open_until_s ? by_s : 0;
	m.slow_until_s += m.slow_until_s ? by_s : 0;
	return m;
}

void breakers_init(struct breakers *b, unsigned first_ms, unsigned max_ms)
{
	*b = (struct breakers){ .first_ms = first_ms, .max_ms = max_ms };
	pthread_mutex_init(&b->lock, NULL);
}

void breakers_done(struct breakers *b)
{
	for (size_t i = 0; i < b->n; i++) {
		free(b->all[i]->url);
		free(b->all[i]);
	}
	free(b->all);
	map_done(&b->by_url);
	pthread_mutex_destroy(&b->lock);
}

struct server *breaker_server(struct breakers *b, const char *url)
{
	struct bytes key = bytes_of(url, strlen(url));
	struct server *s;

	pthread_mutex_lock(&b->lock);
	s = map_get(&b->by_url, key);
	if (!s) {
		s = NEW(struct server);
		s->url = mem_strdup(url);
		map_put(&b->by_url, key, s);
		VEC_PUSH(b->all, b->n, b->room) = s;
	}
	pthread_mutex_unlock(&b->lock);
	return s;
}

const char *breaker_url(const struct server *s)
{
	return s->url;
}

/* Under the lock. */
static enum breaker_state server_state(const struct server *s, int64_t now_s)
{
	if (s->m.open_until_s > now_s)
		return BREAKER_OPEN;
	if (s->trying)
		return BREAKER_TRYING;
	return s->m.slow_until_s > now_s ? BREAKER_SLOW : BREAKER_CLOSED;
}

enum breaker_state breaker_check(struct breakers *b, struct server *s, int64_t *ret_again_s, char *message)
{
	int64_t now_s = breaker_now_s();
	enum breaker_state state;

	pthread_mutex_lock(&b->lock);
	state = server_state(s, now_s);
	if (ret_again_s)
		*ret_again_s = state == BREAKER_OPEN ? s->m.open_until_s - now_s : 0;
	if (message)
		strcpy(message, s->m.message);
	pthread_mutex_unlock(&b->lock);
	return state;
}

bool breaker_take(struct breakers *b, struct server *s, unsigned max_active)
{
	bool ok;

	pthread_mutex_lock(&b->lock);
	ok = s->n_active < max_active;
	if (ok) {
		s->n_active++;
		s->n_asked++;
		s->trying |= s->m.n_failures > 0;
	}
	pthread_mutex_unlock(&b->lock);
	return ok;
}

void breaker_give(struct breakers *b, struct server *s)
{
	pthread_mutex_lock(&b->lock);
	s->n_active--;
	pthread_mutex_unlock(&b->lock);
}

bool breaker_is_full(struct breakers *b, struct server *s, unsigned max_active)
{
	bool full;

	pthread_mutex_lock(&b->lock);
	full = s->n_active >= max_active;
	pthread_mutex_unlock(&b->lock);
	return full;
}

bool breaker_take_waiting(struct breakers *b, struct server *s)
{
	bool ok;

	pthread_mutex_lock(&b->lock);
	ok = s->n_waiting < MAX_WAITS;
	if (ok) {
		s->n_waiting++;
		s->n_asked++;
		s->trying |= s->m.n_failures > 0;
	}
	pthread_mutex_unlock(&b->lock);
	return ok;
}

void breaker_give_waiting(struct breakers *b, struct server *s)
{
	pthread_mutex_lock(&b->lock);
	s->n_waiting--;
	pthread_mutex_unlock(&b->lock);
}

/* Under the lock. 10 s, 20 s, 40 s, ...; at least 1 s. */
static int64_t pause_s(const struct breakers *b, unsigned n_failures)
{
	uint64_t ms = (uint64_t)b->first_ms << MIN(n_failures ? n_failures - 1 : 0, MAX_SHIFT);

	return (int64_t)((MIN(ms, (uint64_t)b->max_ms) + 999) / 1000);
}

static void server_set_message(struct server *s, const char *message)
{
	snprintf(s->m.message, sizeof(s->m.message), "%s", message);
}

static void slow_down(const struct breakers *b, struct server *s, int64_t now_s, const char *message)
{
	s->m.slow_until_s = now_s + pause_s(b, 1);
	server_set_message(s, message);
}

void breaker_report(struct breakers *b, struct server *s, enum breaker_event event, const char *message)
{
	struct breaker_memory was;
	int64_t now_s = breaker_now_s();

	pthread_mutex_lock(&b->lock);
	was = s->m;
	s->trying = false;
	switch (event) {
	case BREAKER_ANSWERED:
		s->m = (struct breaker_memory){ .open_until_s = 0 };
		s->n_outrun = 0;
		break;
	case BREAKER_FAILED:
		s->m.n_failures++;
		s->m.open_until_s = now_s + pause_s(b, s->m.n_failures);
		server_set_message(s, message);
		break;
	case BREAKER_REFUSED:
		s->m.open_until_s = now_s + REFUSED_S;
		server_set_message(s, message);
		break;
	case BREAKER_OUTRUN:
		if (++s->n_outrun >= SLOW_AFTER)
			slow_down(b, s, now_s, message);
		break;
	case BREAKER_UNHEARD:
		slow_down(b, s, now_s, message);
		break;
	case BREAKER_DROPPED:
		break;
	}
	if (s->m.open_until_s != was.open_until_s || s->m.slow_until_s != was.slow_until_s)
		atomic_fetch_add(&b->epoch, 1);
	pthread_mutex_unlock(&b->lock);
}

void breaker_busy(struct breakers *b, struct server *s, int64_t seconds, const char *message)
{
	pthread_mutex_lock(&b->lock);
	s->m.open_until_s = breaker_now_s() + MIN(seconds, (int64_t)BREAKER_MAX_S);
	server_set_message(s, message);
	atomic_fetch_add(&b->epoch, 1);
	pthread_mutex_unlock(&b->lock);
}

void breaker_count(struct breakers *b, struct server *s, enum breaker_count what, uint64_t bytes)
{
	pthread_mutex_lock(&b->lock);
	s->n_counted[what]++;
	s->n_bytes += bytes;
	pthread_mutex_unlock(&b->lock);
}

bool breaker_memory(struct server *s, struct breaker_memory *ret)
{
	int64_t now_s = breaker_now_s();

	*ret = memory_moved(s->m, clock_wall_s() - now_s);
	/* A failure is kept for an hour after the pause, so that the next one is not taken for the first. */
	return s->m.slow_until_s > now_s || s->m.open_until_s > now_s ||
	       (s->m.n_failures && s->m.open_until_s + BREAKER_MAX_S > now_s);
}

void breaker_remember(struct breakers *b, const char *url, const struct breaker_memory *m)
{
	struct breaker_memory here = memory_moved(*m, breaker_now_s() - clock_wall_s());
	struct server *s = breaker_server(b, url);

	pthread_mutex_lock(&b->lock);
	if (here.open_until_s > s->m.open_until_s || here.slow_until_s > s->m.slow_until_s)
		s->m = here;
	pthread_mutex_unlock(&b->lock);
}

void net_each_server(struct net *n, void (*fn)(void *arg, const struct net_server_state *s), void *arg)
{
	struct breakers *b = &n->breakers;
	size_t n_all;

	pthread_mutex_lock(&b->lock);
	n_all = b->n;
	pthread_mutex_unlock(&b->lock);
	for (size_t i = 0; i < n_all; i++) {
		int64_t now_s = breaker_now_s();
		struct breaker_memory m;
		struct net_server_state state;
		struct server *s;

		pthread_mutex_lock(&b->lock);
		s = b->all[i];
		m = s->m;
		state = (struct net_server_state){
			.url = s->url,
			.open = m.open_until_s > now_s,
			.again_s = MAX(m.open_until_s - now_s, (int64_t)0),
			.slow = m.slow_until_s > now_s,
			.n_failures = m.n_failures,
			.message = m.message,
			.n_asked = s->n_asked,
			.n_found = s->n_counted[COUNT_FOUND],
			.n_missing = s->n_counted[COUNT_MISSING],
			.n_failed = s->n_counted[COUNT_FAILED],
			.n_bytes = s->n_bytes,
		};
		pthread_mutex_unlock(&b->lock);
		fn(arg, &state);
	}
}

uint64_t net_breakers_epoch(struct net *n)
{
	return atomic_load(&n->breakers.epoch);
}
