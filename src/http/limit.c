/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate limit: a token bucket for each address, in a table of fixed size. Two addresses in the same slot
 * evict each other, and the newer one starts with a full bucket: a full table lets too much through, never
 * too little. Of an IPv6 address only the network (/64) counts, since one client has all addresses of it.
 */
#include "http/limit.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#define SLOTS  16384u
#define SHARDS 64u
#define BURST  10 /* seconds of the rate */

struct slot {
	uint64_t key;
	int64_t millitokens;
	int64_t at_ms;
};

struct limit {
	unsigned rate;
	uint64_t seed; /* so that no client can choose its slot */
	pthread_mutex_t locks[SHARDS];
	struct slot slots[SLOTS]; /* each under the lock of its number % SHARDS */
};

uint64_t limit_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint64_t)clock_mono_ns();
	return seed;
}

struct limit *limit_new(unsigned rate)
{
	struct limit *l = NEW(struct limit);

	l->rate = rate;
	l->seed = limit_seed();
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&l->locks[i], NULL);
	return l;
}

void limit_free(struct limit *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&l->locks[i]);
	free(l);
}

uint64_t limit_address_key(const struct sockaddr *addr, uint64_t seed)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;

	if (addr->sa_family == AF_INET)
		return hash64(&((const struct sockaddr_in *)addr)->sin_addr, 4, seed);
	if (addr->sa_family != AF_INET6)
		return 0;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		return hash64(six->sin6_addr.s6_addr + 12, 4, seed);
	return hash64(&six->sin6_addr, 8, seed);
}

bool limit_take(struct limit *l, const struct sockaddr *addr, int64_t now_ms)
{
	int64_t full = (int64_t)l->rate * BURST * 1000;
	uint64_t key = limit_address_key(addr, l->seed);
	unsigned i = (unsigned)(key % SLOTS);
	struct slot *slot = &l->slots[i];
	bool ok;

	/* A Unix socket has no address: all its clients would be one. */
	if (addr->sa_family == AF_UNIX)
		return true;
	pthread_mutex_lock(&l->locks[i % SHARDS]);
	if (slot->key != key || !slot->at_ms)
		*slot = (struct slot){ key, full, now_ms };
	/* The longest useful time fills the bucket; a longer one could overflow. */
	slot->millitokens += MIN(now_ms - slot->at_ms, (int64_t)BURST * 1000) * l->rate;
	slot->millitokens = MIN(slot->millitokens, full);
	slot->at_ms = now_ms;
	ok = slot->millitokens >= 1000;
	if (ok)
		slot->millitokens -= 1000;
	pthread_mutex_unlock(&l->locks[i % SHARDS]);
	return ok;
}
