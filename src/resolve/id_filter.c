/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Bloom filter, in memory, of all build IDs in the index. Most build IDs that clients ask for are nowhere
 * here; a database query takes an HTTP thread some microseconds, the filter costs one cache line.
 *
 * It must never deny a build ID that is committed. So a filter is valid for one state of the database only,
 * identified by the mark of the last commit: after the next commit, by any process, it is not used until its
 * thread has built a new one. While a scan commits all the time no filter is built, and every request queries
 * the database.
 */
#include <stdlib.h>
#include <sys/random.h>
#include "base/condition.h"
#include "resolve/internal.h"

/* With five bits set in one word, 1 of 100 absent IDs still needs the database. */
#define BITS_PER_ID 16
#define N_BITS      5
#define CHECK_MS    500
#define REST_FACTOR 20 /* building it takes at most this fraction of a CPU */

struct id_bits {
	struct db_mark mark;
	uint64_t seed;
	size_t n_words; /* a power of two */
	uint64_t words[];
};

struct id_filter {
	/* fixed */
	char *path;
	struct index *watch;
	pthread_t thread;
	bool has_thread;
	/* under filter_lock */
	pthread_rwlock_t filter_lock;
	struct id_bits *filter; /* NULL: none yet */
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t stop;
	bool stopping;
};

/* The bits of @id, in word *ret_word. */
static uint64_t filter_bits_of(const struct id_bits *f, const struct build_id *id, size_t *ret_word)
{
	uint64_t h = hash64(id->b, id->size, f->seed), bits = 0;

	*ret_word = (size_t)(h >> 32) & (f->n_words - 1);
	for (unsigned i = 0; i < N_BITS; i++)
		bits |= 1ull << (h >> (6 * i) & 63);
	return bits;
}

bool id_filter_lacks(struct id_filter *k, const struct build_id *id)
{
	struct db_mark now;
	bool lacks = false;
	uint64_t bits;
	size_t word;

	if (!index_mark(k->watch, &now))
		return false;
	pthread_rwlock_rdlock(&k->filter_lock);
	if (k->filter && memcmp(&k->filter->mark, &now, sizeof(now)) == 0) {
		bits = filter_bits_of(k->filter, id, &word);
		lacks = (k->filter->words[word] & bits) != bits;
	}
	pthread_rwlock_unlock(&k->filter_lock);
	return lacks;
}

/* ---- building ---- */

static int filter_count_ids(void *arg, const struct build_id *id)
{
	++*(size_t *)arg;
	return 0;
}

static int filter_add_id(void *arg, const struct build_id *id)
{
	struct id_bits *f = arg;
	size_t word;
	uint64_t bits = filter_bits_of(f, id, &word);

	f->words[word] |= bits;
	return 0;
}

static struct id_bits *id_bits_new(size_t n_ids)
{
	size_t n_words = 64;
	struct id_bits *f;

	while (n_words < n_ids * BITS_PER_ID / 64)
		n_words *= 2;
	f = mem_try(sizeof(*f) + n_words * sizeof(f->words[0]));
	if (!f)
		return NULL;
	memset(f, 0, sizeof(*f) + n_words * sizeof(f->words[0]));
	f->n_words = n_words;
	if (getrandom(&f->seed, sizeof(f->seed), GRND_NONBLOCK) != sizeof(f->seed))
		f->seed = (uint64_t)clock_mono_ns();
	return f;
}

static void filter_publish(struct id_filter *k, struct id_bits *f)
{
	struct id_bits *old;

	pthread_rwlock_wrlock(&k->filter_lock);
	old = k->filter;
	k->filter = f;
	pthread_rwlock_unlock(&k->filter_lock);
	free(old);
}

/* Valid for the mark if that is the same before and after; else it is dropped. */
static int filter_build(struct id_filter *k, struct err *err)
{
	struct index_options opts = { .read_only = true };
	struct id_bits *f = NULL;
	struct db_mark behind;
	struct index *ix;
	size_t n = 0;
	int r;

	/* A connection of its own, since it is rarely needed. */
	if (index_open(k->path, &opts, &ix, err) < 0)
		return -1;
	r = index_build_ids(ix, filter_count_ids, &n, err);
	if (r == 0) {
		f = id_bits_new(n);
		if (!f)
			r = err_set(err, ERR_LIMIT, "no memory for a filter of %zu build IDs", n);
		else if (!index_mark(k->watch, &f->mark))
			r = 1;
	}
	if (r == 0)
		r = index_build_ids(ix, filter_add_id, f, err);
	index_close(ix);
	if (r == 0 && (!index_mark(k->watch, &behind) || memcmp(&behind, &f->mark, sizeof(behind)) != 0))
		r = 1;
	if (r)
		free(f);
	else
		filter_publish(k, f);
	return r < 0 ? -1 : 0;
}

static bool filter_is_stale(struct id_filter *k, struct db_mark *ret_now)
{
	bool stale;

	if (!index_mark(k->watch, ret_now))
		return false;
	pthread_rwlock_rdlock(&k->filter_lock);
	stale = !k->filter || memcmp(&k->filter->mark, ret_now, sizeof(*ret_now)) != 0;
	pthread_rwlock_unlock(&k->filter_lock);
	return stale;
}

int id_filter_refresh(struct id_filter *k, struct err *err)
{
	struct db_mark now;

	return filter_is_stale(k, &now) ? filter_build(k, err) : 0;
}

static void *id_filter_main(void *arg)
{
	struct id_filter *k = arg;
	struct db_mark last = { 0 }, now;
	int64_t wait_ms = 0, started;
	bool first = true;

	pthread_setname_np(pthread_self(), "id-filter");
	while (!condition_pause(&k->stop, &k->lock, &k->stopping, wait_ms)) {
		wait_ms = CHECK_MS;
		if (!filter_is_stale(k, &now))
			continue;
		/* The mark is the same as 500 ms ago: the writer has paused. The first filter is built at
		 * once. */
		if (!first && memcmp(&now, &last, sizeof(now)) != 0) {
			last = now;
			continue;
		}
		first = false;
		started = clock_mono_ns();
		if (filter_build(k, NULL) < 0)
			wait_ms = 60 * 1000;
		wait_ms = MAX(wait_ms, (clock_mono_ns() - started) / 1000000 * REST_FACTOR);
	}
	return NULL;
}

struct id_filter *id_filter_new(const char *index_path, struct index *watch)
{
	struct id_filter *k = NEW(struct id_filter);

	k->path = mem_strdup(index_path);
	k->watch = watch;
	pthread_rwlock_init(&k->filter_lock, NULL);
	pthread_mutex_init(&k->lock, NULL);
	condition_init(&k->stop);
	/* Without the thread every request queries the database: slower, but correct. */
	k->has_thread = pthread_create(&k->thread, NULL, id_filter_main, k) == 0;
	return k;
}

void id_filter_free(struct id_filter *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->stopping = true;
	pthread_cond_signal(&k->stop);
	pthread_mutex_unlock(&k->lock);
	if (k->has_thread)
		pthread_join(k->thread, NULL);
	free(k->filter);
	pthread_rwlock_destroy(&k->filter_lock);
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->stop);
	free(k->path);
	free(k);
}
