/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread of a server: it counts at the start, makes room before it is needed, and collects
 * garbage once a day and after removals.
 */
#include <stdlib.h>
#include "base/condition.h"
#include "store/internal.h"

#define GC_EVERY_MS  (INT64_C(24) * 3600 * 1000)
#define GC_SOON_MS   INT64_C(10000) /* after a removal */
#define ROOM_WAIT_MS INT64_C(10000) /* between two tries that had nothing to evict */

struct maintain {
	struct store *st;
	pthread_t thread;
	bool running;
};

static bool maintain_is_stopped(struct maintain *m)
{
	bool stop;

	pthread_mutex_lock(&m->st->work_lock);
	stop = m->st->stop;
	pthread_mutex_unlock(&m->st->work_lock);
	return stop;
}

static int gc_progress(void *arg, uint64_t n_done, uint64_t n_all, uint64_t bytes_done, uint64_t bytes_all)
{
	return maintain_is_stopped(arg) ? 1 : 0;
}

/* true: there will be more soon, or the blobs are away. */
static bool maintain_gc(struct maintain *m)
{
	struct store_gc_result result;
	struct err err = { 0 };

	if (store_gc(m->st, gc_progress, m, &result, &err) < 0) {
		if (err.kind != ERR_CANCELLED)
			log_warn("store", "%s", err.text);
		return blob_is_away(&err);
	}
	if (result.n_contents || result.n_temporary)
		log_info("store", "removed %llu unreferenced contents (%llu bytes), %llu left-over files",
			 (unsigned long long)result.n_contents, (unsigned long long)result.bytes,
			 (unsigned long long)result.n_temporary);
	if (result.n_past)
		log_info("store", "removed %llu earlier versions of more than %lld days",
			 (unsigned long long)result.n_past, (long long)(STORE_PAST_S / 86400));
	return result.n_young > 0;
}

/* Evict down to 7/8; the store is crowded at 15/16. */
static void maintain_evict(struct maintain *m)
{
	struct store_evict_result result;
	struct store *st = m->st;
	struct err err = { 0 };
	int r;

	pthread_mutex_lock(&st->room);
	r = store_evict(st, st->opts.quota - st->opts.quota / 8, &result, &err);
	pthread_mutex_unlock(&st->room);
	if (r < 0)
		log_warn("store", "%s", err.text);
	else if (result.n_objects)
		log_info("store", "evicted %llu objects, %llu bytes", (unsigned long long)result.n_objects,
			 (unsigned long long)result.bytes);
}

/* Wait until @until_ms or until there is work. true: the thread has to end. */
static bool maintain_wait(struct maintain *m, int64_t until_ms, bool *ret_garbage)
{
	bool stop;

	pthread_mutex_lock(&m->st->work_lock);
	while (!m->st->stop && !m->st->crowded && !m->st->garbage) {
		int64_t left_ms = until_ms - clock_mono_ms();

		if (left_ms <= 0)
			break;
		condition_wait(&m->st->work_changed, &m->st->work_lock, MIN(left_ms, INT64_C(60000)) + 1000);
	}
	*ret_garbage = m->st->garbage;
	m->st->crowded = m->st->garbage = false;
	stop = m->st->stop;
	pthread_mutex_unlock(&m->st->work_lock);
	return stop;
}

static void *maintain_run(void *arg)
{
	struct maintain *m = arg;
	int64_t gc_ms = clock_mono_ms(), room_ms = 0;
	bool garbage = false, stop = false;
	uint64_t used;

	pthread_setname_np(pthread_self(), "lode-store");
	while (!stop) {
		int64_t now = clock_mono_ms();
		bool crowded;

		if (now >= gc_ms || !store_usage(m->st, &used)) {
			gc_ms = now + (maintain_gc(m) ? GC_SOON_MS : GC_EVERY_MS);
		}
		crowded = store_is_crowded(m->st);
		if (crowded && now >= room_ms) {
			maintain_evict(m);
			room_ms = now + ROOM_WAIT_MS;
			crowded = store_is_crowded(m->st);
		}
		stop = maintain_wait(m, crowded ? MIN(gc_ms, room_ms) : gc_ms, &garbage);
		if (garbage)
			gc_ms = MIN(gc_ms, clock_mono_ms() + GC_SOON_MS);
	}
	return NULL;
}

struct maintain *maintain_start(struct store *st)
{
	struct maintain *m = NEW(struct maintain);

	m->st = st;
	m->running = pthread_create(&m->thread, NULL, maintain_run, m) == 0;
	return m;
}

void maintain_stop(struct maintain *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->st->work_lock);
	m->st->stop = true;
	pthread_cond_signal(&m->st->work_changed);
	pthread_mutex_unlock(&m->st->work_lock);
	if (m->running)
		pthread_join(m->thread, NULL);
	free(m);
}
