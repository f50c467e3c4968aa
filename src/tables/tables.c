/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbolizer: what is known (an LRU), what is being made (flights), who waits until when (the timer).
 *
 * An entry goes into the LRU before its flight leaves the map, so whoever looks under the lock finds one of
 * them.
 *
 * What nobody has, while something is still being scanned, is *searched* for, if somebody waits for that: its
 * flight stays, and begins anew when it is told of something new, when all is scanned, or to end when nobody
 * waits for it any more.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/condition.h"
#include "tables/internal.h"

#define TICK_MS 1000 /* the timer looks at least so often: a test's clock may have been moved */

/* ---- entries ---- */

static void drop_entry(void *value)
{
	entry_unref(value);
}

static struct entry *find(struct tables *s, const struct entry_key *key)
{
	struct lru_ref *held = lru_get(s->entries, entry_key_bytes(key));
	struct entry *e = held ? entry_ref(lru_value(held)) : NULL;

	lru_unref(s->entries, held);
	return e;
}

struct entry *tables_peek(struct tables *s, const struct entry_key *key, bool *ret_refresh)
{
	struct entry *e = find(s, key);
	bool old = e && clock_mono_ms() >= atomic_load(&e->good_until_ms);

	atomic_fetch_add(&s->n_wanted, 1);
	if (e && (atomic_load(&e->spoiled) || (old && e->reason != FRAME_FOUND))) {
		entry_unref(e);
		return NULL;
	}
	atomic_fetch_add(&s->n_hits, e != NULL);
	*ret_refresh = old;
	return e;
}

static void keep(struct tables *s, struct entry *e)
{
	lru_del(s->entries, entry_key_bytes(&e->key));
	lru_unref(s->entries, lru_put(s->entries, entry_key_bytes(&e->key), entry_ref(e), e->weight));
}

/* ---- flights ---- */

static void build_run(void *arg);

void build_kick(struct build *f)
{
	if (f->queued) {
		f->again = true;
		return;
	}
	f->queued = true;
	if (pool_submit(f->s->pool, POOL_NORMAL, build_run, f) != 0)
		abort(); /* it has room for all flights, and outlives them */
}

static struct build *build_start(struct tables *s, const struct entry_key *key, struct entry *old)
{
	struct build *f = NEW(struct build);

	f->s = s;
	f->key = *key;
	f->old = old;
	map_put(&s->builds, entry_key_bytes(key), f);
	f->next = s->first_build;
	if (f->next)
		f->next->prev = f;
	s->first_build = f;
	s->n_builds++;
	build_kick(f);
	return f;
}

enum frame_reason tables_await(struct tables *s, const struct entry_key *key, struct waiter *w)
{
	struct build *f = map_get(&s->builds, entry_key_bytes(key));
	bool searches = w && w->request->unscanned;

	if (f && f->said && w && !searches) {
		w->entry = entry_ref(f->said);
		return FRAME_FOUND;
	}
	if (!f) {
		struct entry *e = find(s, key);

		if (e && !atomic_load(&e->spoiled) && clock_mono_ms() < atomic_load(&e->good_until_ms) &&
		    !(e->searching && searches)) {
			/* It landed just now. */
			if (w)
				w->entry = e;
			else
				entry_unref(e);
			return FRAME_FOUND;
		}
		if (s->n_builds >= s->opts.max_builds || s->closing) {
			entry_unref(e);
			return FRAME_BUSY;
		}
		f = build_start(s, key, e);
	}
	if (w) {
		w->build = f;
		w->prev = NULL;
		w->next = f->waiters;
		if (w->next)
			w->next->prev = w;
		f->waiters = w;
	}
	return FRAME_PENDING;
}

/*
 * Under the lock: give @e to all who want it, or, @searching, to those who do not wait for what is being
 * scanned; those who want nothing else any more are chained.
 */
static struct tables_request *hand_out(struct build *f, struct entry *e, bool searching)
{
	struct tables_request *ready = NULL;
	struct waiter *rest = NULL;

	for (struct waiter *w = f->waiters, *next; w; w = next) {
		struct tables_request *h = w->request;

		next = w->next;
		if (searching && h->unscanned) {
			w->prev = NULL;
			w->next = rest;
			if (rest)
				rest->prev = w;
			rest = w;
			continue;
		}
		/* Who was to wait, but cannot, is told that it is pending. */
		w->entry = e->searching && h->unscanned ? NULL : entry_ref(e);
		w->build = NULL;
		if (--h->n_missing)
			continue;
		request_unlist(h);
		h->next = ready;
		ready = h;
	}
	f->waiters = rest;
	return ready;
}

static void tell_all(struct tables_request *ready)
{
	while (ready) {
		struct tables_request *next = ready->next;

		ready->ready(ready->arg); /* it may be gone */
		ready = next;
	}
}

/* Under the lock: is it old already? */
static bool overtaken(const struct build *f, const struct entry *e)
{
	if (f->s->closing)
		return false;
	return f->news == REPLACED || (f->news == SOMETHING_NEW && (e->reason != FRAME_FOUND || e->lacking));
}

/* Under the lock: nobody has it, but it may turn up, and somebody waits for that. */
static bool goes_on_searching(const struct build *f, const struct entry *e)
{
	if (!e->searching || f->s->closing || f->s->n_searches >= MAX_SEARCHES)
		return false;
	for (const struct waiter *w = f->waiters; w; w = w->next)
		if (w->request->unscanned)
			return true;
	return false;
}

enum landing { LANDED, AGAIN, STAYS };

/* Takes @e. AGAIN: it is to be made once more, with this as what is to be replaced. */
static enum landing land(struct build *f, struct entry *e)
{
	struct tables *s = f->s;
	struct tables_request *ready;

	make_drop(f);
	keep(s, e);
	pthread_mutex_lock(&s->lock);
	if (overtaken(f, e)) {
		f->news = NOTHING_NEW;
		pthread_mutex_unlock(&s->lock);
		entry_unref(f->old);
		f->old = e;
		return AGAIN;
	}
	if (goes_on_searching(f, e)) {
		f->said = e;
		/* The timer looks after it. */
		s->n_searches++;
		pthread_cond_broadcast(&s->changed);
		ready = hand_out(f, e, true);
		pthread_mutex_unlock(&s->lock);
		tell_all(ready);
		return STAYS;
	}
	if (f->old && e != f->old && e->reason == FRAME_FOUND)
		atomic_fetch_add(&s->n_replaced, 1);
	atomic_fetch_add(&s->n_failed, e->reason != FRAME_FOUND);
	map_del(&s->builds, entry_key_bytes(&f->key));
	*(f->prev ? &f->prev->next : &s->first_build) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	ready = hand_out(f, e, false);
	pthread_mutex_unlock(&s->lock);
	tell_all(ready);
	entry_unref(f->old);
	entry_unref(e);
	free(f);
	/* Last: tables_free() waits for it. */
	pthread_mutex_lock(&s->lock);
	s->n_builds--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return LANDED;
}

static void build_run(void *arg)
{
	struct build *f = arg;
	struct tables *s = f->s;

	for (;;) {
		struct entry *e = make_step(f);
		enum landing landing = e ? land(f, e) : STAYS;
		bool again;

		if (landing == LANDED)
			return;
		if (landing == AGAIN)
			continue;
		pthread_mutex_lock(&s->lock);
		again = f->again || s->closing;
		f->again = false;
		f->queued = again;
		pthread_mutex_unlock(&s->lock);
		/* If not, it may be gone. */
		if (!again)
			return;
	}
}

/* ---- news ---- */

static void renew_one(struct tables *s, const struct entry_key *key, bool replaced)
{
	struct build *f;
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = find(s, key);
	if (e && (replaced || e->lacking || e->reason != FRAME_FOUND))
		atomic_store(&e->good_until_ms, 0);
	f = map_get(&s->builds, entry_key_bytes(key));
	if (f) {
		f->news = MAX(f->news, replaced ? REPLACED : SOMETHING_NEW);
		build_kick(f);
	}
	pthread_mutex_unlock(&s->lock);
	entry_unref(e);
}

void tables_renew(struct tables *s, const struct build_id *id, bool replaced)
{
	struct entry_key table = { .kind = ENTRY_TABLE, .id = *id },
			 layout = { .kind = ENTRY_LAYOUT, .id = *id };

	/* Before the flights are told: what one of them took from there is overtaken then. */
	if (replaced)
		make_forget(s, id);
	renew_one(s, &table, replaced);
	renew_one(s, &layout, replaced);
}

bool building_begin(struct build *f, uint64_t size)
{
	struct tables *s = f->s;
	bool may;

	pthread_mutex_lock(&s->lock);
	may = !s->n_building || s->building + size <= s->opts.building_size;
	if (may) {
		s->n_building++;
		s->building += size;
	}
	f->parked = !may;
	pthread_mutex_unlock(&s->lock);
	return may;
}

void building_end(struct tables *s, uint64_t size)
{
	pthread_mutex_lock(&s->lock);
	s->n_building--;
	s->building -= size;
	for (struct build *f = s->first_build; f; f = f->next)
		if (f->parked) {
			f->parked = false;
			build_kick(f);
		}
	pthread_mutex_unlock(&s->lock);
}

/* ---- the timer ---- */

/* Under the lock: those whose time is over, chained. *ret_next_ms: when to look again. */
static struct tables_request *expire(struct tables *s, int64_t *ret_next_ms)
{
	int64_t now_ms = clock_mono_ms();
	struct tables_request *ready = NULL;

	*ret_next_ms = now_ms + TICK_MS;
	for (struct tables_request *h = s->waiting, *next; h; h = next) {
		next = h->next;
		if (!s->stopping && now_ms < h->deadline_ms) {
			*ret_next_ms = MIN(*ret_next_ms, h->deadline_ms);
			continue;
		}
		request_unlist(h);
		h->next = ready;
		ready = h;
	}
	*ret_next_ms -= now_ms;
	return ready;
}

/* Searches end when nobody waits for them any more, or when all is scanned: then a last look is taken. Called
 * and returns under the lock, which it lets go. */
static void look_after_searches(struct tables *s)
{
	bool unfinished;

	if (!s->n_searches)
		return;
	pthread_mutex_unlock(&s->lock);
	unfinished = resolve_unfinished(s->opts.resolver);
	pthread_mutex_lock(&s->lock);
	for (struct build *f = s->first_build; f; f = f->next)
		if (f->said && (!unfinished || !f->waiters))
			build_kick(f);
}

static void *run_timer(void *arg)
{
	struct tables *s = arg;

	pthread_setname_np(pthread_self(), "lode-symb-time");
	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct tables_request *ready;
		int64_t wait_ms;

		look_after_searches(s);
		if (s->closing)
			break;
		ready = expire(s, &wait_ms);
		if (ready) {
			pthread_mutex_unlock(&s->lock);
			tell_all(ready);
			pthread_mutex_lock(&s->lock);
			continue;
		}
		if (!s->waiting && !s->n_searches) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		condition_wait(&s->changed, &s->lock, wait_ms);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- beginning, end ---- */

static void set_options(struct tables *s, const struct tables_options *o)
{
	s->opts = *o;
	s->temp_dir = mem_strdup(o->temp_dir ? o->temp_dir : "/var/tmp");
	s->opts.tables_size = o->tables_size ? o->tables_size : TABLES_SIZE;
	s->opts.building_size = o->building_size ? o->building_size : BUILDING_SIZE;
	s->opts.n_threads = o->n_threads ? o->n_threads : MIN(pool_cpus(), THREADS_MAX);
	s->opts.max_builds = o->max_builds ? o->max_builds : MAX_BUILDS;
	s->opts.miss_ms = o->miss_ms ? o->miss_ms : MISS_MS;
	s->opts.error_ms = o->error_ms ? o->error_ms : ERROR_MS;
}

struct tables *tables_new(const struct tables_options *o)
{
	struct tables *s = NEW(struct tables);

	set_options(s, o);
	pthread_mutex_init(&s->lock, NULL);
	condition_init(&s->changed);
	s->entries = lru_new(s->opts.tables_size, drop_entry);
	s->pool = pool_new("lode-symb", s->opts.n_threads, s->opts.max_builds + 1);
	s->has_timer = pthread_create(&s->timer, NULL, run_timer, s) == 0;
	/* Nobody could wait then: all is answered at once. */
	s->stopping = !s->has_timer;
	return s;
}

void tables_stop(struct tables *s)
{
	struct tables_request *ready;
	int64_t ignored;

	if (!s)
		return;
	atomic_store(&s->cancel, true);
	pthread_mutex_lock(&s->lock);
	s->stopping = true;
	ready = expire(s, &ignored);
	pthread_mutex_unlock(&s->lock);
	tell_all(ready);
}

void tables_free(struct tables *s)
{
	if (!s)
		return;
	tables_stop(s);
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_broadcast(&s->changed);
	for (struct build *f = s->first_build; f; f = f->next)
		build_kick(f);
	while (s->n_builds)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	if (s->has_timer)
		pthread_join(s->timer, NULL);
	pool_free(s->pool);
	lru_free(s->entries);
	map_done(&s->builds);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s->temp_dir);
	free(s);
}

bool tables_has_discriminators(const struct tables *s)
{
	return s->opts.discriminators;
}

void tables_stats(struct tables *s, struct tables_stats *ret)
{
	pthread_mutex_lock(&s->lock);
	ret->n_builds = s->n_builds;
	pthread_mutex_unlock(&s->lock);
	ret->n_made = atomic_load(&s->n_made);
	ret->n_from_store = atomic_load(&s->n_from_store);
	ret->n_failed = atomic_load(&s->n_failed);
	ret->n_replaced = atomic_load(&s->n_replaced);
	ret->n_wanted = atomic_load(&s->n_wanted);
	ret->n_hits = atomic_load(&s->n_hits);
	ret->tables_size = lru_weight(s->entries);
}
