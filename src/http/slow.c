/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread looks at all connections at intervals. It only shuts a slow socket down; the owner then sees the
 * end of the connection and closes it.
 *
 * How much of a reply the client has read is known to the kernel alone: libmicrohttpd's writes end in the socket's
 * buffer. As long as that buffer is not empty, the client has read the acknowledged bytes.
 */
#include "http/slow.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include "base/condition.h"
#include "base/map.h"
#include "http/linger.h"
#include "http/peer.h"
#include "http/request.h"

#define LOOKS       8    /* looks within head_ms */
#define LOOK_MIN    50   /* ms */
#define LOOK_MAX    5000 /* ms */
#define ANSWERING   INT64_MAX
#define FED_MS      500     /* without a chunk of the body, until the peer is checked */
#define BODY_SPARE  10000   /* ms that a body has to spare at its start */
#define UNKNOWN     MIB(64) /* the size of a body of unknown size, for its limit */
#define CROWD_PART  64u     /* of the connections: so many are shut down at once when there are too many */
#define CROWD_MAX   128u
#define MARGIN(max) ((max) / 16 + 16)

/* An address of which connections are open: of IPv6 the network, since one client has all addresses of it. */
struct slow_address {
	uint8_t key[8];
	struct slow_conn *first;
	unsigned n;
};

struct slow {
	struct slow_options opts;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t stop;
	/* under the lock */
	struct slow_conn *first;
	struct map addresses; /* struct slow_address */
	unsigned n, n_closing;
	struct lingering lingering; /* since the last look */
	unsigned n_draining;        /* sockets in `draining` */
	bool stopping;
	/* */
	struct lingering draining; /* the thread's: it may have much to read */
	atomic_bool feeding;       /* a body came lately: look more often */
};

unsigned slow_room(unsigned max)
{
	return max + MARGIN(max);
}

/* ---- looking ---- */

static bool has_hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Under the lock, so that no descriptor is closed and reused meanwhile. */
static void shut_down(struct slow *s, struct slow_conn *c)
{
	if (!c->closing)
		s->n_closing++;
	c->closing = true;
	shutdown(c->fd, SHUT_RDWR);
}

/* The client was waited for @ms, in which @n bytes moved. false: it has used up its time. */
static bool spend_time(const struct slow *s, struct slow_conn *c, int64_t ms, uint64_t n)
{
	uint64_t gained = MIN(n, UINT32_MAX) * 1000 / s->opts.rate;

	c->spare_ms = MIN(c->spare_ms + (int64_t)gained - ms, s->opts.idle_ms);
	return c->spare_ms >= 0;
}

/* Under the lock. true: it receives a body. */
static bool look_at_body(struct slow *s, struct slow_conn *c, int64_t now_ms)
{
	/* In this order: a chunk that comes meanwhile makes the time too short, not too long. */
	int64_t waited_ms = atomic_load(&c->waited_ms), fed_ms = atomic_load(&c->fed_ms);
	uint64_t fed = atomic_load(&c->fed);
	unsigned n_bodies = atomic_load(&c->n_bodies);
	bool paused = atomic_load(&c->paused);

	if (!fed_ms)
		return false;
	if (c->seen_bodies != n_bodies) {
		c->seen_bodies = n_bodies;
		c->seen_ms = 0;
		c->seen_bytes = 0;
		c->spare_ms = MIN(BODY_SPARE, s->opts.idle_ms);
	}
	if (now_ms - fed_ms >= FED_MS && has_hung_up(c->fd)) {
		if (atomic_compare_exchange_strong(&c->fed_ms, &fed_ms, 0))
			shut_down(s, c);
		return true;
	}
	if (!paused)
		waited_ms += MAX(now_ms - fed_ms, 0);
	if (waited_ms > atomic_load(&c->limit_ms) ||
	    (s->opts.rate &&
	     !spend_time(s, c, MAX(waited_ms - c->seen_ms, 0), fed - MIN(c->seen_bytes, fed)))) {
		/* Not if another chunk has just come, or another body. */
		if (atomic_compare_exchange_strong(&c->fed_ms, &fed_ms, 0)) {
			counters_refused("slow body");
			shut_down(s, c);
		}
		return true;
	}
	c->seen_ms = MAX(c->seen_ms, waited_ms);
	c->seen_bytes = fed;
	return true;
}

/* Bytes that the client has read of its replies. For a Unix socket only the unread ones are known. */
static uint64_t read_by_client(int fd, int unread)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		return (uint64_t)unread;
	return info.tcpi_bytes_acked;
}

static void look_at_reply(struct slow *s, struct slow_conn *c, int64_t now_ms)
{
	int unread = 0;
	uint64_t bytes;

	if (!s->opts.rate || ioctl(c->fd, SIOCOUTQ, &unread) < 0 || !unread) {
		c->replies = false;
		return;
	}
	bytes = read_by_client(c->fd, unread);
	if (!c->replies) {
		c->replies = true;
		c->spare_ms = s->opts.idle_ms;
	} else if (!spend_time(s, c, now_ms - c->seen_ms,
			       bytes > c->seen_bytes ? bytes - c->seen_bytes : c->seen_bytes - bytes)) {
		counters_refused("slow reader");
		shut_down(s, c);
	}
	c->seen_ms = now_ms;
	c->seen_bytes = bytes;
}

static void slow_check(struct slow *s)
{
	int64_t now_ms = clock_mono_ms(), before_ms = now_ms - s->opts.head_ms;
	bool feeding = false;

	for (struct slow_conn *c = s->first; c; c = c->next) {
		int64_t since_ms = atomic_load_explicit(&c->since_ms, memory_order_relaxed);

		if (c->closing)
			continue;
		if (look_at_body(s, c, now_ms)) {
			feeding = true;
			continue;
		}
		if (since_ms == ANSWERING) {
			look_at_reply(s, c, now_ms);
			continue;
		}
		/* Once. If a whole request has just arrived, the end of its answer starts the time anew. */
		if (since_ms <= before_ms &&
		    atomic_compare_exchange_strong(&c->since_ms, &since_ms, ANSWERING))
			shut_down(s, c);
	}
	atomic_store(&s->feeding, feeding);
}

/* Clients that send fast keep this busy, and others may connect meanwhile: it releases the lock. */
static void drain_lingering(struct slow *s)
{
	linger_move(&s->lingering, &s->draining);
	s->n_draining = s->draining.n;
	if (!s->n_draining)
		return;
	pthread_mutex_unlock(&s->lock);
	linger_drain(&s->draining, clock_mono_ms());
	pthread_mutex_lock(&s->lock);
	s->n_draining = s->draining.n;
}

static void *slow_run(void *arg)
{
	struct slow *s = arg;
	int64_t look_ms = MIN(MAX(s->opts.head_ms / LOOKS, LOOK_MIN), LOOK_MAX);

	pthread_setname_np(pthread_self(), "lode-slow");
	pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		int64_t wait_ms = atomic_load(&s->feeding) ? MIN(look_ms, FED_MS) : look_ms;

		condition_wait(&s->stop, &s->lock,
			       s->lingering.n + s->n_draining ? MIN(wait_ms, LINGER_LOOK_MS) : wait_ms);
		drain_lingering(s);
		slow_check(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int slow_new(const struct slow_options *opts, struct slow **ret, struct err *err)
{
	struct slow *s = NEW(struct slow);
	int r;

	s->opts = *opts;
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->stop);
	r = pthread_create(&s->thread, NULL, slow_run, s);
	if (r) {
		free(s);
		return err_os(err, r, "no thread for slow connections");
	}
	*ret = s;
	return 0;
}

void slow_free(struct slow *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	pthread_cond_signal(&s->stop);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->stop);
	linger_done(&s->lingering);
	linger_done(&s->draining);
	map_done(&s->addresses);
	free(s);
}

/* ---- too many ---- */

/* How many connections the address may have; 0: no limit. */
static unsigned address_limit(const struct slow *s, const struct sockaddr *peer)
{
	if (!peer || peer->sa_family == AF_UNIX)
		return 0;
	return peer_is_loopback(peer) ? s->opts.max_local : s->opts.max_remote;
}

static void address_key(const struct sockaddr *peer, uint8_t key[8])
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)peer;

	memset(key, 0, 8);
	if (peer->sa_family == AF_INET)
		memcpy(key + 4, &((const struct sockaddr_in *)peer)->sin_addr, 4);
	else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		memcpy(key + 4, six->sin6_addr.s6_addr + 12, 4);
	else
		memcpy(key, six->sin6_addr.s6_addr, 8);
}

/* The lower, the sooner it is shut down; INT64_MAX: it is in use. */
static int64_t use_of(const struct slow *s, const struct slow_conn *c)
{
	int64_t since_ms = atomic_load_explicit(&c->since_ms, memory_order_relaxed);
	bool body = atomic_load_explicit(&c->fed_ms, memory_order_relaxed);

	if (c->closing)
		return INT64_MAX;
	if (since_ms != ANSWERING && !body)
		return since_ms - INT64_MAX / 2;
	return (body || c->replies) && c->spare_ms < s->opts.idle_ms / 2 ? c->spare_ms : INT64_MAX;
}

struct crowd {
	struct slow_conn *least[CROWD_MAX];
	int64_t use[CROWD_MAX];
	size_t n, max;
};

/* Keep the @max least used ones, sorted; of two alike the older one, which is later in the lists. */
static void crowd_add(struct crowd *v, struct slow_conn *c, int64_t use)
{
	size_t i = v->n;

	if (use == INT64_MAX || (v->n == v->max && use > v->use[v->n - 1]))
		return;
	if (v->n < v->max)
		v->n++;
	else
		i--;
	for (; i && v->use[i - 1] > use; i--) {
		v->use[i] = v->use[i - 1];
		v->least[i] = v->least[i - 1];
	}
	v->use[i] = use;
	v->least[i] = c;
}

/* Under the lock. false: all connections are in use. */
static bool crowd_shut(struct slow *s, struct crowd *v)
{
	for (size_t i = 0; i < v->n; i++)
		shut_down(s, v->least[i]);
	if (v->n)
		counters_refused("connections");
	return v->n;
}

/* Under the lock. */
static bool admit_to_address(struct slow *s, const struct sockaddr *peer, unsigned limit)
{
	struct crowd v = { .max = 1 };
	struct slow_address *a;
	uint8_t key[8];
	unsigned n = 0;

	address_key(peer, key);
	a = map_get(&s->addresses, (struct bytes){ key, sizeof(key) });
	if (!a || a->n < limit)
		return true;
	for (struct slow_conn *c = a->first; c; c = c->near_next) {
		n += !c->closing;
		crowd_add(&v, c, use_of(s, c));
	}
	return n < limit || crowd_shut(s, &v);
}

/* Under the lock. */
static bool admit_to_all(struct slow *s)
{
	struct crowd v = { .max = MIN(MAX(s->opts.max / CROWD_PART, 1u), CROWD_MAX) };

	if (s->n - s->n_closing < s->opts.max)
		return s->n < 2 * slow_room(s->opts.max);
	for (struct slow_conn *c = s->first; c; c = c->next)
		crowd_add(&v, c, use_of(s, c));
	return crowd_shut(s, &v) && s->n < 2 * slow_room(s->opts.max);
}

bool slow_admit(struct slow *s, const struct sockaddr *peer)
{
	unsigned limit = address_limit(s, peer);
	bool ok;

	pthread_mutex_lock(&s->lock);
	ok = (!limit || admit_to_address(s, peer, limit)) && admit_to_all(s);
	pthread_mutex_unlock(&s->lock);
	if (!ok)
		counters_refused("connections");
	return ok;
}

/* Under the lock. */
static void join_address(struct slow *s, struct slow_conn *c, const struct sockaddr *peer)
{
	struct slow_address *a;
	uint8_t key[8];

	address_key(peer, key);
	a = map_get(&s->addresses, (struct bytes){ key, sizeof(key) });
	if (!a) {
		a = NEW(struct slow_address);
		memcpy(a->key, key, sizeof(key));
		map_put(&s->addresses, (struct bytes){ a->key, sizeof(key) }, a);
	}
	a->n++;
	c->address = a;
	c->near_next = a->first;
	if (a->first)
		a->first->near_prev = c;
	a->first = c;
}

/* Under the lock. */
static void leave_address(struct slow *s, struct slow_conn *c)
{
	struct slow_address *a = c->address;

	*(c->near_prev ? &c->near_prev->near_next : &a->first) = c->near_next;
	if (c->near_next)
		c->near_next->near_prev = c->near_prev;
	if (--a->n)
		return;
	map_del(&s->addresses, (struct bytes){ a->key, sizeof(a->key) });
	free(a);
}

/* ---- a connection ---- */

void slow_add(struct slow *s, struct slow_conn *c, int fd, const struct sockaddr *peer)
{
	unsigned limit = address_limit(s, peer);

	c->fd = fd;
	slow_answered(c);
	pthread_mutex_lock(&s->lock);
	c->next = s->first;
	if (c->next)
		c->next->prev = c;
	s->first = c;
	s->n++;
	if (limit) {
		join_address(s, c, peer);
		/* Two threads may have admitted the last connection at once: one of them goes again. */
		(void)admit_to_address(s, peer, limit + 1);
	}
	pthread_mutex_unlock(&s->lock);
}

void slow_del(struct slow *s, struct slow_conn *c)
{
	pthread_mutex_lock(&s->lock);
	*(c->prev ? &c->prev->next : &s->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n--;
	s->n_closing -= c->closing;
	if (c->address)
		leave_address(s, c);
	pthread_mutex_unlock(&s->lock);
}

void slow_linger(struct slow *s, const struct slow_conn *c)
{
	pthread_mutex_lock(&s->lock);
	if (s->lingering.n + s->n_draining < LINGER_MAX)
		linger_add(&s->lingering, c->fd, clock_mono_ms());
	pthread_cond_signal(&s->stop);
	pthread_mutex_unlock(&s->lock);
}

static void look_soon(struct slow *s)
{
	if (atomic_load_explicit(&s->feeding, memory_order_relaxed))
		return;
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->feeding, true);
	pthread_cond_signal(&s->stop);
	pthread_mutex_unlock(&s->lock);
}

void slow_body(struct slow *s, struct slow_conn *c, uint64_t size, bool drop)
{
	int64_t limit_ms = INT64_MAX;

	size = MIN(size == UINT64_MAX ? (uint64_t)UNKNOWN : size, UINT64_C(1) << 50);
	if (drop)
		limit_ms = SLOW_DROP_MS;
	else if (s->opts.body_ms)
		limit_ms = s->opts.body_ms + (int64_t)(size * 1000 / SLOW_BODY_RATE);
	atomic_store(&c->limit_ms, limit_ms);
	atomic_store(&c->waited_ms, 0);
	atomic_store(&c->fed, 0);
	atomic_store(&c->paused, false);
	atomic_fetch_add(&c->n_bodies, 1);
	atomic_store(&c->fed_ms, clock_mono_ms());
	look_soon(s);
}

void slow_fed(struct slow *s, struct slow_conn *c, size_t n, bool all)
{
	int64_t now_ms = clock_mono_ms(), fed_ms = atomic_load_explicit(&c->fed_ms, memory_order_relaxed);

	if (!atomic_load_explicit(&c->paused, memory_order_relaxed) && fed_ms && fed_ms != now_ms)
		atomic_fetch_add_explicit(&c->waited_ms, now_ms - fed_ms, memory_order_relaxed);
	atomic_store_explicit(&c->fed_ms, now_ms, memory_order_release);
	atomic_fetch_add_explicit(&c->fed, n, memory_order_relaxed);
	atomic_store_explicit(&c->paused, !all, memory_order_relaxed);
	look_soon(s);
}

void slow_asked(struct slow_conn *c)
{
	atomic_store_explicit(&c->fed_ms, 0, memory_order_relaxed);
	atomic_store_explicit(&c->since_ms, ANSWERING, memory_order_relaxed);
}

void slow_answered(struct slow_conn *c)
{
	atomic_store_explicit(&c->since_ms, clock_mono_ms(), memory_order_relaxed);
}
