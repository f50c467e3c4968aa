/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builds: one for each entry that is being made, however many requests wait for it.
 *
 * An entry goes into the LRU before its build leaves the map, so a caller that looks under the lock finds one
 * of them.
 *
 * A build that found nothing while a scan was running goes on if a request waits for the scan
 * (TABLES_UNSCANNED): it starts again when something new is here or the scan has ended, and ends when no
 * request waits for it any more.
 */
#include <stdlib.h>
#include "tables/internal.h"

#define MAX_SEARCHES 1024u /* builds that wait for a scan */
#define STORED_TRIES 8u    /* while files are replaced, of whichever build ID */

static enum task_result build_step(void *arg);

struct build *build_start(struct tables *t, const struct entry_key *key, struct tables_entry *old,
			  const struct tables_request *req)
{
	struct build *b = NEW(struct build);

	b->tables = t;
	b->key = *key;
	b->old = old;
	b->task = (struct task){ .pool = t->pool, .step = build_step, .arg = b };
	/* Requests of clients, which wait for scans, come before naming in the background. */
	if (req && req->unscanned)
		atomic_init(&b->task.cls, POOL_URGENT);
	/* Builds of requests take turns. */
	b->task.slot.client = (uint32_t)((uintptr_t)req / 64);
	b->next = t->first_build;
	if (b->next)
		b->next->prev = b;
	t->first_build = b;
	t->n_builds++;
	return b;
}

/* Under the lock. */
static void build_unlist(struct build *b)
{
	struct tables *t = b->tables;

	if (!b->is_local) {
		local_forget(b);
		map_del(&t->builds, entry_key_bytes(&b->key));
	}
	*(b->prev ? &b->prev->next : &t->first_build) = b->next;
	if (b->next)
		b->next->prev = b->prev;
}

/* The entry that a build has just left in the LRU. */
static bool is_current(const struct tables_entry *e, bool awaits_scan)
{
	return !atomic_load(&e->spoiled) && !entry_is_expired(e) && !(e->searching && awaits_scan);
}

enum frame_reason build_await(struct tables *t, const struct entry_key *key, struct waiter *w)
{
	struct build *b = map_get(&t->builds, entry_key_bytes(key));
	bool awaits_scan = w && w->request->unscanned;

	if (b && b->miss && w && !awaits_scan) {
		w->entry = entry_ref(b->miss);
		return FRAME_FOUND;
	}
	if (!b) {
		struct tables_entry *e = cache_get(t, key);

		if (e && is_current(e, awaits_scan)) {
			if (w)
				w->entry = e;
			else
				entry_unref(e);
			return FRAME_FOUND;
		}
		if (t->n_builds >= t->opts.max_builds || t->closing) {
			entry_unref(e);
			return FRAME_BUSY;
		}
		b = build_start(t, key, e, w ? w->request : NULL);
		map_put(&t->builds, entry_key_bytes(key), b);
		task_kick(&b->task);
	}
	if (awaits_scan)
		atomic_store(&b->task.cls, POOL_URGENT);
	if (w)
		waiter_add(w, b);
	return FRAME_PENDING;
}

void builds_ask(struct tables_request *req, bool waits)
{
	struct tables *t = req->tables;
	size_t n_started = 0;

	while (req->n_asked < req->n * req->per_id && (waits ? req->n_out : n_started) < BUILDS_OUT) {
		size_t i = req->n_asked++;
		struct entry_key key = request_key(req, i);

		if (req->waiters[i].entry || !key.id.size)
			continue;
		switch (build_await(t, &key, waits ? &req->waiters[i] : NULL)) {
		case FRAME_BUSY:
			req->none_because = FRAME_BUSY;
			req->n_missing--;
			break;
		case FRAME_FOUND:
			req->n_missing--;
			break;
		default:
			n_started++;
			req->waiters[i].out = waits && !req->waiters[i].build->miss;
			req->n_out += req->waiters[i].out;
			break;
		}
	}
}

struct tables_request *build_complete(struct build *b, struct tables_entry *e, enum waiters_group group)
{
	struct tables_request *hungry, *ready = waiters_complete(b, e, group, &hungry);

	for (struct tables_request *req = hungry; req; req = req->next_hungry) {
		req->hungry = false;
		if (!req->n_missing) /* in @ready already */
			continue;
		builds_ask(req, true);
		if (req->n_missing)
			continue;
		request_unlist(req);
		req->next = ready;
		ready = req;
	}
	return ready;
}

/* The table in the store, into the LRU; not that of a file that was replaced while it was opened. NULL: there is none now. */
static struct tables_entry *take_stored(struct tables *t, const struct entry_key *key)
{
	for (unsigned n = 0; n < STORED_TRIES; n++) {
		AUTO(arena_done) struct arena a = { 0 };
		struct tables_entry *e;
		uint64_t n_before;
		bool current;

		pthread_mutex_lock(&t->lock);
		n_before = t->n_replacements;
		pthread_mutex_unlock(&t->lock);
		e = stored_open(t, key, &a);
		if (!e)
			return NULL;
		entry_note_lacking(e, 0);
		pthread_mutex_lock(&t->lock);
		current = t->n_replacements == n_before;
		/* A build that has ended meanwhile may have left a better one there. */
		if (current)
			e = cache_put_absent(t, e);
		pthread_mutex_unlock(&t->lock);
		if (current)
			return e;
		entry_unref(e);
	}
	return NULL;
}

struct tables_entry *build_take_at_hand(struct tables *t, const struct entry_key *key)
{
	struct tables_entry *e = cache_get(t, key);

	atomic_fetch_add(&t->n_wanted, 1);
	atomic_fetch_add(&t->n_hits, e != NULL);
	if (e || key->kind != ENTRY_TABLE)
		return e;
	e = take_stored(t, key);
	atomic_fetch_add(&t->n_from_store, e != NULL);
	return e;
}

/* ---- the end of a build ---- */

/* Under the lock: something that @e does not have turned up while it was made. */
static bool is_overtaken(const struct build *b, const struct tables_entry *e)
{
	if (b->tables->closing)
		return false;
	return b->news == NEWS_REPLACED || (b->news == NEWS_FILE && (e->reason != FRAME_FOUND || e->lacking));
}

/* Under the lock: nothing has it, but the scan may find it, and a request waits for that. */
static bool goes_on_searching(const struct build *b, const struct tables_entry *e)
{
	const struct tables *t = b->tables;

	return e->searching && !t->closing && t->n_searches < MAX_SEARCHES && waiters_await_scan(b);
}

void build_free(struct build *b)
{
	struct tables *t = b->tables;

	task_done(&b->task);
	entry_unref(b->old);
	free(b);
	/* Last: tables_free() waits for it. */
	pthread_mutex_lock(&t->lock);
	t->n_builds--;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

enum build_end { BUILD_ENDED, BUILD_AGAIN, BUILD_STAYS };

/* Takes @e. BUILD_AGAIN: make it once more; @e is to be replaced. BUILD_STAYS: it waits for a scan. */
static enum build_end build_end_with(struct build *b, struct tables_entry *e)
{
	struct tables *t = b->tables;
	struct tables_request *ready;

	make_drop(b);
	if (b->is_local) {
		pthread_mutex_lock(&t->lock);
		build_unlist(b);
		pthread_mutex_unlock(&t->lock);
		local_end(b, e);
		return BUILD_ENDED;
	}
	pthread_mutex_lock(&t->lock);
	local_forget(b);
	pthread_mutex_unlock(&t->lock);
	cache_put(t, e);
	pthread_mutex_lock(&t->lock);
	if (is_overtaken(b, e)) {
		atomic_store(&e->replaced, b->news == NEWS_REPLACED);
		b->was_replaced = b->was_replaced || b->news == NEWS_REPLACED;
		b->news = NEWS_NONE;
		pthread_mutex_unlock(&t->lock);
		entry_unref(b->old);
		b->old = e;
		return BUILD_AGAIN;
	}
	if (goes_on_searching(b, e)) {
		b->miss = e;
		/* The timer watches the scan. */
		t->n_searches++;
		pthread_cond_broadcast(&t->changed);
		ready = build_complete(b, e, WAITERS_UNSEARCHING);
		pthread_mutex_unlock(&t->lock);
		requests_ready(ready);
		return BUILD_STAYS;
	}
	if (b->old && e != b->old && e->reason == FRAME_FOUND)
		atomic_fetch_add(&t->n_replaced, 1);
	atomic_fetch_add(&t->n_failed, e->reason != FRAME_FOUND);
	build_unlist(b);
	ready = build_complete(b, e, WAITERS_ALL);
	pthread_mutex_unlock(&t->lock);
	requests_ready(ready);
	entry_unref(e);
	return BUILD_ENDED;
}

static enum task_result build_step(void *arg)
{
	struct build *b = arg;
	struct tables_entry *e;
	enum build_end end;

	do {
		if (make_step(b, &e) == MAKE_WAITS) {
			pthread_mutex_lock(&b->tables->lock);
			local_expect(b);
			pthread_mutex_unlock(&b->tables->lock);
			return TASK_DONE;
		}
		end = build_end_with(b, e);
	} while (end == BUILD_AGAIN);
	if (end == BUILD_STAYS)
		return TASK_DONE;
	build_free(b);
	return TASK_GONE;
}

/* ---- news ---- */

static void renew_entry(struct tables *t, const struct entry_key *key, bool replaced)
{
	struct tables_entry *e;
	struct build *b;

	pthread_mutex_lock(&t->lock);
	t->n_replacements += replaced;
	e = cache_get(t, key);
	if (e && (replaced || e->lacking || e->reason != FRAME_FOUND))
		atomic_store(&e->good_until_ms, 0);
	if (e && replaced)
		atomic_store(&e->replaced, true);
	b = map_get(&t->builds, entry_key_bytes(key));
	if (b) {
		b->news = MAX(b->news, replaced ? NEWS_REPLACED : NEWS_FILE);
		task_kick(&b->task);
	}
	pthread_mutex_unlock(&t->lock);
	entry_unref(e);
}

/* Before the table leaves the store: a build of the old file that ends from now on keeps none there. */
static void announce_replaced(struct tables *t, const struct entry_key *key)
{
	struct build *b;

	pthread_mutex_lock(&t->lock);
	b = map_get(&t->builds, entry_key_bytes(key));
	if (b)
		b->news = NEWS_REPLACED;
	pthread_mutex_unlock(&t->lock);
}

static void renew_both(struct tables *t, const struct build_id *id, bool replaced)
{
	struct entry_key table = { .kind = ENTRY_TABLE, .id = *id },
			 layout = { .kind = ENTRY_LAYOUT, .id = *id };

	/* Before builds get the news: a build that has read the store by now is overtaken then. */
	if (replaced) {
		announce_replaced(t, &table);
		stored_forget(t, id);
	}
	renew_entry(t, &table, replaced);
	renew_entry(t, &layout, replaced);
}

void tables_renew(struct tables *t, const struct build_id *id, bool replaced,
		  void (*also)(void *arg, const struct build_id *id), void *arg)
{
	AUTO(mem_freep) struct build_id *lacking = NULL;
	size_t n;

	renew_both(t, id, replaced);
	pthread_mutex_lock(&t->lock);
	lacking = lacking_take(t, id, &n);
	pthread_mutex_unlock(&t->lock);
	for (size_t i = 0; i < n; i++) {
		renew_both(t, &lacking[i], false);
		if (also)
			also(arg, &lacking[i]);
	}
}
