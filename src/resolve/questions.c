/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of questions to other servers that are asked in vain: a token bucket for each client, one for symbol
 * tables, which anyone's profile makes us build, and one for all. A question takes a token, and gives it back
 * unless the servers report that the file does not exist: build IDs can be made up, files of theirs cannot.
 *
 * The table of clients has a fixed size. Two clients in the same slot evict each other, and the newer one
 * starts with a full bucket; the bucket for all holds in any case.
 */
#include "resolve/internal.h"

#include <stdlib.h>

#define SLOTS        4096u
#define TABLES_SHARE 5 /* symbol tables get a fifth of what a client gets */
#define CLIENTS      4 /* all together get what four clients get */
#define MINUTE_MS    60000

struct question_bucket {
	uint32_t client;
	int64_t at_ms; /* 0: new */
	int64_t left;  /* in thousandths of a question */
};

struct questions {
	unsigned per_minute;
	pthread_mutex_t lock;
	/* under the lock */
	struct question_bucket all, tables, clients[SLOTS];
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

	return 1000 * (b == &q->all ? n * CLIENTS : b == &q->tables ? MAX(n / TABLES_SHARE, (int64_t)1) : n);
}

static void bucket_fill(const struct questions *q, struct question_bucket *b, uint32_t client, int64_t now_ms)
{
	int64_t size = bucket_size(q, b);

	if (!b->at_ms || b->client != client)
		*b = (struct question_bucket){ client, now_ms, size };
	b->left += size * MIN(MAX(now_ms - b->at_ms, (int64_t)0), (int64_t)MINUTE_MS) / MINUTE_MS;
	b->left = MIN(b->left, size);
	b->at_ms = now_ms;
}

static struct question_bucket *bucket_of(struct questions *q, uint32_t client)
{
	return client == RESOLVE_FOR_TABLES ? &q->tables : &q->clients[client % SLOTS];
}

bool questions_take(struct questions *q, uint32_t client, int64_t now_ms)
{
	struct question_bucket *b;
	bool ok;

	if (!q)
		return true;
	b = bucket_of(q, client);
	pthread_mutex_lock(&q->lock);
	bucket_fill(q, b, client, now_ms);
	bucket_fill(q, &q->all, 0, now_ms);
	ok = b->left >= 1000 && q->all.left >= 1000;
	if (ok) {
		b->left -= 1000;
		q->all.left -= 1000;
	}
	pthread_mutex_unlock(&q->lock);
	return ok;
}

void questions_give(struct questions *q, uint32_t client)
{
	struct question_bucket *b;

	if (!q)
		return;
	b = bucket_of(q, client);
	pthread_mutex_lock(&q->lock);
	/* More than the size is cut off when it is filled. */
	if (b->at_ms && b->client == client)
		b->left += 1000;
	q->all.left += 1000;
	pthread_mutex_unlock(&q->lock);
}
