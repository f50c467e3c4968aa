/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory above the guaranteed shares is common: each class uses its guaranteed share first, then common memory,
 * up to its maximum share. One lock guards the figures; holds take it once per step.
 *
 * Holds that wait have memory that others wait for. When all holds that could return memory wait, the youngest
 * of them is refused, and returns its memory. So the oldest always goes on.
 */
#include "base/budget.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/condition.h"
#include "base/file.h"
#include "base/internal.h"
#include "base/mem.h"

#define CGROUP_TEXT_MAX KIB(64)
#define WAIT_SLICE_MS   100 /* then a waiting thread looks at its cancel flag */

/* In per cent of the total. The guaranteed shares are 50 of it, so that each maximum can be reached. */
static const struct class_shares {
	const char *name;
	unsigned least, most;
} shares[BUDGET_N_CLASSES] = {
	[BUDGET_BODY] = { "body", 8, 40 },    [BUDGET_PROFILE] = { "profile", 8, 40 },
	[BUDGET_QUERY] = { "query", 8, 50 },  [BUDGET_REPLY] = { "reply", 8, 30 },
	[BUDGET_TABLE] = { "table", 15, 60 }, [BUDGET_FILE] = { "file", 3, 25 },
	[BUDGET_SWEEP] = { "sweep", 0, 50 },
};

struct budget {
	uint64_t total, common;
	struct budget_class_limits {
		uint64_t least, most;
	} limits[BUDGET_N_CLASSES];
	pthread_mutex_t lock;
	pthread_cond_t returned;
	/* under the lock */
	uint64_t common_used;
	struct budget_class_use {
		uint64_t used, peak, n_refused;
	} classes[BUDGET_N_CLASSES];
	struct budget_hold *first, *last; /* that may wait, by age */
	unsigned n_waiting;               /* threads, of all holds */
};

/* ---- how much ---- */

static void memory_by_limit(void *arg, struct str text)
{
	uint64_t *least = arg, limit;

	/* Else it is "max". */
	if (str_to_u64(str_trim(text), &limit))
		*least = MIN(*least, limit);
}

uint64_t budget_memory_in_cgroup(uint64_t machine, struct str membership, const char *root)
{
	cgroup_each_limit(membership, root, "memory.max", memory_by_limit, &machine);
	cgroup_each_limit(membership, root, "memory.high", memory_by_limit, &machine);
	return machine;
}

uint64_t budget_usual(void)
{
	AUTO(buf_done) struct buf membership = { 0 };
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t n = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 31;

	if (file_read("/proc/self/cgroup", CGROUP_TEXT_MAX, &membership, NULL) == 0)
		n = budget_memory_in_cgroup(n, buf_str(&membership), "/sys/fs/cgroup");
	return MAX(n / 2, BUDGET_TOTAL_LEAST);
}

struct budget *budget_new_undivided(uint64_t total)
{
	struct budget *b = NEW(struct budget);

	b->total = b->common = total;
	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++)
		b->limits[i].most = total;
	pthread_mutex_init(&b->lock, NULL);
	condition_init(&b->returned);
	return b;
}

struct budget *budget_new(uint64_t total)
{
	struct budget *b = budget_new_undivided(MAX(total ? total : budget_usual(), BUDGET_TOTAL_LEAST));

	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++) {
		b->limits[i].least = b->total / 100 * shares[i].least;
		b->limits[i].most = b->total / 100 * shares[i].most;
		b->common -= b->limits[i].least;
	}
	return b;
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	pthread_cond_destroy(&b->returned);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- grants, under the lock ---- */

/* How much of @used bytes of a class is common memory. */
static uint64_t common_part(const struct budget *b, enum budget_class cls, uint64_t used)
{
	return used > b->limits[cls].least ? used - b->limits[cls].least : 0;
}

static bool grant_take(struct budget *b, enum budget_class cls, uint64_t bytes)
{
	struct budget_class_use *c = &b->classes[cls];
	uint64_t more;

	if (bytes > b->limits[cls].most || c->used > b->limits[cls].most - bytes)
		return false;
	more = common_part(b, cls, c->used + bytes) - common_part(b, cls, c->used);
	if (more > b->common - b->common_used)
		return false;
	b->common_used += more;
	c->used += bytes;
	c->peak = MAX(c->peak, c->used);
	return true;
}

static void grant_give_back(struct budget *b, enum budget_class cls, uint64_t bytes)
{
	struct budget_class_use *c = &b->classes[cls];

	b->common_used -= common_part(b, cls, c->used) - common_part(b, cls, c->used - bytes);
	c->used -= bytes;
	if (b->n_waiting)
		pthread_cond_broadcast(&b->returned);
}

/* ---- grants without a hold ---- */

bool budget_try(struct budget *b, enum budget_class cls, uint64_t bytes)
{
	bool granted;

	if (!b)
		return true;
	pthread_mutex_lock(&b->lock);
	granted = grant_take(b, cls, bytes);
	b->classes[cls].n_refused += !granted;
	pthread_mutex_unlock(&b->lock);
	return granted;
}

uint64_t budget_most(const struct budget *b, enum budget_class cls)
{
	return b ? b->limits[cls].most : UINT64_MAX;
}

void budget_return(struct budget *b, enum budget_class cls, uint64_t bytes)
{
	if (!b || !bytes)
		return;
	pthread_mutex_lock(&b->lock);
	grant_give_back(b, cls, bytes);
	pthread_mutex_unlock(&b->lock);
}

int budget_refusal(const struct budget *b, enum budget_class cls, uint64_t bytes, struct err *err)
{
	if (b && bytes > b->limits[cls].most)
		return err_set(err, ERR_LIMIT,
			       "%" PRIu64 " MiB of memory are needed, and %" PRIu64
			       " MiB are the most for this; lode serve --memory sets it",
			       bytes >> 20, b->limits[cls].most >> 20);
	return err_set(
		err, ERR_BUSY,
		"the memory for this is used up (%s); try again later, or give lode serve more with --memory",
		shares[cls].name);
}

/* ---- holds ---- */

void budget_hold_init(struct budget_hold *h, struct budget *b, enum budget_class cls)
{
	*h = (struct budget_hold){ .budget = b, .cls = cls, .max = UINT64_MAX };
}

/* Under the lock. Holds that may wait are listed from their first grant on. */
static void hold_list(struct budget *b, struct budget_hold *h)
{
	if (h->listed || !h->wait_ms)
		return;
	h->prev = b->last;
	h->next = NULL;
	*(b->last ? &b->last->next : &b->first) = h;
	b->last = h;
	h->listed = true;
}

static void hold_unlist(struct budget *b, struct budget_hold *h)
{
	if (!h->listed)
		return;
	*(h->prev ? &h->prev->next : &b->first) = h->next;
	*(h->next ? &h->next->prev : &b->last) = h->prev;
	h->listed = false;
}

void budget_hold_done(struct budget_hold *h)
{
	struct budget *b = h->budget;
	uint64_t granted = atomic_load(&h->granted);

	budget_hold_sub(h->outer, h->outer ? atomic_load(&h->used) : 0);
	if (b) {
		pthread_mutex_lock(&b->lock);
		hold_unlist(b, h);
		if (granted)
			grant_give_back(b, h->cls, granted);
		pthread_mutex_unlock(&b->lock);
	}
	atomic_store(&h->used, 0);
	atomic_store(&h->granted, 0);
	atomic_store(&h->over, false);
	atomic_store(&h->n_busy, 0);
	atomic_store(&h->n_limit, 0);
	h->reserved = 0;
	h->victim = false;
}

/* Under the lock: every listed hold waits, so none will return memory by itself. Refuse the youngest, but never the
 * oldest. */
static void victim_choose(struct budget *b)
{
	struct budget_hold *youngest = NULL;

	for (struct budget_hold *h = b->first; h; h = h->next) {
		if (h->victim || !h->n_waiting)
			return;
		youngest = h;
	}
	if (!youngest || youngest == b->first)
		return;
	youngest->victim = true;
	pthread_cond_broadcast(&b->returned);
}

/* Under the lock. */
static int hold_refuse(struct budget_hold *h, uint64_t need, struct err *err)
{
	h->budget->classes[h->cls].n_refused++;
	atomic_fetch_add(need > h->budget->limits[h->cls].most ? &h->n_limit : &h->n_busy, 1);
	return budget_refusal(h->budget, h->cls, need, err);
}

/* Under the lock: @more bytes of grants; @need: all that the hold needs then. */
static int hold_wait(struct budget_hold *h, uint64_t more, uint64_t need, struct err *err)
{
	struct budget *b = h->budget;
	int64_t end_ms = clock_mono_ms() + h->wait_ms;
	bool granted = false;
	int r = 0;

	h->n_waiting++;
	b->n_waiting++;
	while (r == 0 && !granted) {
		if (err_if_cancelled(h->cancel, err) < 0) {
			r = -1;
		} else if (h->victim || clock_mono_ms() >= end_ms) {
			r = hold_refuse(h, need, err);
		} else {
			victim_choose(b);
			if (!h->victim)
				condition_wait(&b->returned, &b->lock, WAIT_SLICE_MS);
			granted = !h->victim && grant_take(b, h->cls, more);
		}
	}
	b->n_waiting--;
	h->n_waiting--;
	return r;
}

/* Grant steps until @h has @need bytes. @try: do not wait, and do not count a refusal. */
static int hold_grow(struct budget_hold *h, uint64_t need, bool try, struct err *err)
{
	struct budget *b = h->budget;
	uint64_t granted, more;
	int r = 0;

	pthread_mutex_lock(&b->lock);
	granted = atomic_load(&h->granted);
	if (need > granted) {
		more = (need - granted + BUDGET_STEP - 1) / BUDGET_STEP * BUDGET_STEP;
		hold_list(b, h);
		/* The last step may not fit whole. */
		if (!grant_take(b, h->cls, more)) {
			more = need - granted;
			if (grant_take(b, h->cls, more))
				r = 0;
			else if (try)
				r = -1;
			else if (h->wait_ms && need <= b->limits[h->cls].most)
				r = hold_wait(h, more, need, err);
			else
				r = hold_refuse(h, need, err);
		}
		if (r == 0)
			atomic_fetch_add(&h->granted, more);
	}
	pthread_mutex_unlock(&b->lock);
	return r;
}

static int hold_too_large(const struct budget_hold *h, struct err *err)
{
	return err_set(err, ERR_LIMIT, "it needs more memory than the %" PRIu64 " MiB that it may have",
		       (uint64_t)atomic_load(&h->max) >> 20);
}

int budget_hold_add(struct budget_hold *h, uint64_t bytes, struct err *err)
{
	uint64_t before, need;
	int r = 0;

	if (!h)
		return 0;
	before = atomic_fetch_add_explicit(&h->used, bytes, memory_order_relaxed);
	if (add_overflows(before, bytes, &need) || need > h->max)
		r = hold_too_large(h, err);
	else if (h->outer)
		r = budget_hold_add(h->outer, bytes, err);
	else if (h->budget && need > atomic_load_explicit(&h->granted, memory_order_relaxed))
		r = hold_grow(h, need, false, err);
	if (r < 0)
		atomic_fetch_sub_explicit(&h->used, bytes, memory_order_relaxed);
	return r;
}

void budget_hold_charge(struct budget_hold *h, uint64_t bytes)
{
	uint64_t need;

	if (!h)
		return;
	budget_hold_charge(h->outer, bytes);
	need = atomic_fetch_add_explicit(&h->used, bytes, memory_order_relaxed) + bytes;
	if (h->outer && atomic_load_explicit(&h->outer->over, memory_order_relaxed))
		atomic_store_explicit(&h->over, true, memory_order_relaxed);
	if (need > h->max || (h->budget && need > atomic_load_explicit(&h->granted, memory_order_relaxed) &&
			      hold_grow(h, need, true, NULL) < 0))
		atomic_store_explicit(&h->over, true, memory_order_relaxed);
}

int budget_hold_over(struct budget_hold *h, struct err *err)
{
	uint64_t need = atomic_load(&h->used);

	if (need > h->max)
		return hold_too_large(h, err);
	if (budget_hold_check(h->outer, err) < 0 || (h->budget && hold_grow(h, need, false, err) < 0))
		return -1;
	atomic_store_explicit(&h->over, false, memory_order_relaxed);
	return 0;
}

bool budget_hold_reserve(struct budget_hold *h, uint64_t bytes)
{
	if (h->budget && hold_grow(h, bytes, true, NULL) < 0) {
		/* Its owner may begin again with budget_hold_init(): without a grant it is in no list. */
		pthread_mutex_lock(&h->budget->lock);
		if (!atomic_load(&h->granted))
			hold_unlist(h->budget, h);
		pthread_mutex_unlock(&h->budget->lock);
		return false;
	}
	h->reserved = bytes;
	return true;
}

void budget_hold_sub(struct budget_hold *h, uint64_t bytes)
{
	struct budget *b;
	uint64_t used, granted, less;

	if (!h)
		return;
	budget_hold_sub(h->outer, bytes);
	used = atomic_fetch_sub_explicit(&h->used, bytes, memory_order_relaxed) - bytes;
	b = h->budget;
	/* Keep a step, so that work that gets and returns little does not come back each time. */
	if (!b || atomic_load_explicit(&h->granted, memory_order_relaxed) < used + 2 * BUDGET_STEP)
		return;
	pthread_mutex_lock(&b->lock);
	granted = atomic_load(&h->granted);
	used = atomic_load(&h->used);
	used = MAX(used + BUDGET_STEP, h->reserved);
	less = granted > used ? granted - used : 0;
	atomic_fetch_sub(&h->granted, less);
	if (less)
		grant_give_back(b, h->cls, less);
	pthread_mutex_unlock(&b->lock);
}

void budget_stats(struct budget *b, struct budget_stats *ret)
{
	*ret = (struct budget_stats){ 0 };
	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++)
		ret->classes[i].name = shares[i].name;
	if (!b)
		return;
	ret->total = b->total;
	pthread_mutex_lock(&b->lock);
	for (unsigned i = 0; i < BUDGET_N_CLASSES; i++)
		ret->classes[i] = (struct budget_class_stats){
			.name = shares[i].name,
			.used = b->classes[i].used,
			.peak = b->classes[i].peak,
			.least = b->limits[i].least,
			.most = b->limits[i].most,
			.n_refused = b->classes[i].n_refused,
		};
	pthread_mutex_unlock(&b->lock);
}
