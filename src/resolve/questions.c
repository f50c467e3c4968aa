/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of questions to other servers that are asked in vain: a token bucket for each client, and one for all
 * of these. Symbol tables have two more, which nothing else can use up: one for the naming of profiles, and one for
 * the clients that ask for addresses. A question takes a token, and gives it back unless the servers report that
 * the file does not exist: build IDs can be made up, files of theirs cannot.
 *
 * The table of clients has a fixed size. Two clients in the same slot evict each other, and the newer one
 * starts with a full bucket; the bucket for all holds in any case.
 */
#include "resolve/internal.h"

#include <stdlib.h>

#define SLOTS        4096u
#define TABLES_SHARE 5 /* either kind of symbol tables gets a fifth of a client's share */
#define CLIENTS      4 /* all others together get what four clients get */
#define MINUTE_MS    60000
/*
 * A bucket of n questions a minute gets n parts each millisecond: nothing is lost by rounding, however often it is filled.
 */
#define QUESTION ((int64_t)MINUTE_MS)

struct question_bucket {
	uint32_t client;
	int64_t at_ms; /* 0: new */
	int64_t left;  /* in parts of a question: QUESTION of them */
};

struct questions {
	unsigned per_minute;
	pthread_mutex_t lock;
	/* under the lock */
	struct question_bucket all, naming, addresses, clients[SLOTS];
};

struct questions *questions_new(unsigned per_minute)
{
	struct questions *q;

	if (!per_minute)
		return NULL;
	q = NEW(struct questions);
	q->per_minute = per_minute;
	pthread_mutex_init(&q->lock, NULL);
	return q;
}

void questions_free(struct questions *q)
{
	if (!q)
		return;
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static int64_t bucket_size(const struct questions *q, const struct question_bucket *b)
{
	int64_t n = q->per_minute;

	if (b == &q->all)
		n *= CLIENTS;
	else if (b == &q->naming || b == &q->addresses)
		n = MAX(n / TABLES_SHARE, (int64_t)1);
	return QUESTION * n;
}

static void bucket_fill(const struct questions *q, struct question_bucket *b, uint32_t client, int64_t now_ms)
{
	int64_t size = bucket_size(q, b);

	if (!b->at_ms || b->client != client)
		*b = (struct question_bucket){ client, now_ms, size };
	b->left += size / QUESTION * MIN(MAX(now_ms - b->at_ms, (int64_t)0), (int64_t)MINUTE_MS);
	b->left = MIN(b->left, size);
	b->at_ms = now_ms;
}

static struct question_bucket *own_bucket_of(struct questions *q, uint32_t client)
{
	switch (client) {
	case RESOLVE_FOR_NAMING:
		return &q->naming;
	case RESOLVE_FOR_ADDRESSES:
		return &q->addresses;
	default:
		return &q->clients[client % SLOTS];
	}
}

/* The common bucket of @client; NULL: it has none. */
static struct question_bucket *common_bucket_of(struct questions *q, uint32_t client)
{
	return client < RESOLVE_FIRST_CLIENT ? NULL : &q->all;
}

bool questions_take(struct questions *q, uint32_t client, int64_t now_ms)
{
	struct question_bucket *b, *common;
	bool ok;

	if (!q)
		return true;
	b = own_bucket_of(q, client);
	common = common_bucket_of(q, client);
	pthread_mutex_lock(&q->lock);
	bucket_fill(q, b, client, now_ms);
	if (common)
		bucket_fill(q, common, 0, now_ms);
	ok = b->left >= QUESTION && (!common || common->left >= QUESTION);
	if (ok) {
		b->left -= QUESTION;
		if (common)
			common->left -= QUESTION;
	}
	pthread_mutex_unlock(&q->lock);
	return ok;
}

void questions_give(struct questions *q, uint32_t client)
{
	struct question_bucket *b, *common;

	if (!q)
		return;
	b = own_bucket_of(q, client);
	common = common_bucket_of(q, client);
	pthread_mutex_lock(&q->lock);
	/* More than the size is cut off when it is filled. */
	if (b->at_ms && b->client == client)
		b->left += QUESTION;
	if (common)
		common->left += QUESTION;
	pthread_mutex_unlock(&q->lock);
}
