/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One memory budget for a whole service: memory whose size depends on input (bodies, profiles, queries, replies,
 * tables, parts of files) is granted from it before or while it is allocated, waited for, or refused.
 *
 * Each class has a guaranteed share, which no other class can use, and a maximum share. So a class that is full
 * does not keep the others from working. A grant is a number: the budget allocates nothing.
 *
 *	struct budget_hold h;
 *
 *	budget_hold_init(&h, budget, BUDGET_QUERY);
 *	if (budget_hold_add(&h, size, err) < 0)       ERR_BUSY: 503; ERR_LIMIT: it will never fit
 *		...
 *	budget_hold_done(&h);                         returns all of it
 *
 * A hold takes its grants in steps of BUDGET_STEP, so adding a few bytes is one atomic addition.
 *
 * A budget of NULL is unlimited, for commands without a service; a hold may still have a limit of its own.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

struct budget;

enum budget_class {
	BUDGET_BODY,    /* bodies of requests that are being received, buffers of uploads */
	BUDGET_PROFILE, /* received profiles, from their parsing until they are stored */
	BUDGET_QUERY,   /* queries of profiles */
	BUDGET_REPLY,   /* replies that wait for their clients */
	BUDGET_TABLE,   /* symbol tables that are being built, and the sections that they are built of */
	BUDGET_FILE,    /* files that requests read in memory: names of sources, names in symbol tables */
	BUDGET_SWEEP,   /* the second copy of the profiles' metadata, while a sweep makes it */
	BUDGET_N_CLASSES
};

#define BUDGET_STEP        (UINT64_C(1) << 20)
#define BUDGET_RETRY_S     "5" /* Retry-After of a refusal */
#define BUDGET_TOTAL_LEAST (UINT64_C(64) << 20)

/* @total: in bytes; 0: budget_usual(). At least BUDGET_TOTAL_LEAST. */
struct budget *budget_new(uint64_t total);
/* The same without shares: any class may have all of it. For another resource than memory: disk space. */
struct budget *budget_new_undivided(uint64_t total);
void budget_free(struct budget *b); /* takes NULL. All of it was returned */
/* Half of the memory that this process may use: that of the cgroup if it has a limit, else of the machine. */
uint64_t budget_usual(void);

/* Grant @bytes now; false: refused, and counted. The caller gives them to budget_return() later. */
bool budget_try(struct budget *b, enum budget_class cls, uint64_t bytes);
uint64_t budget_most(const struct budget *b, enum budget_class cls); /* its maximum share */
void budget_return(struct budget *b, enum budget_class cls, uint64_t bytes);
/*
 * The error of a refusal. ERR_BUSY: the memory is used up now. ERR_LIMIT: @bytes are more than the class may ever
 * have. The text says which, and names --memory. Returns -1.
 */
int budget_refusal(const struct budget *b, enum budget_class cls, uint64_t bytes, struct err *err);

/*
 * The grants of one piece of work. Several threads may add and subtract at once; one thread calls init and
 * done.
 */
struct budget_hold {
	struct budget *budget;
	enum budget_class cls;
	/* Of this work alone, set after init; it may rise later. UINT64_MAX: as much as the class may have */
	atomic_uint_fast64_t max;
	/* Set after init, with a budget of NULL: bytes added here are added there, too. It ends later. */
	struct budget_hold *outer;
	/*
	 * How long an addition waits for others to return memory, set after init. 0: not at all. Work that waits
	 * has to be repeatable: if all such work waits for each other, that which began last gets ERR_BUSY.
	 */
	int64_t wait_ms;
	const atomic_bool *cancel; /* ends a wait; NULL: none */
	atomic_uint_fast64_t used, granted;
	uint64_t reserved; /* by budget_hold_reserve() */
	atomic_bool over;  /* budget_hold_charge() was refused */
	/* Additions that were refused with ERR_BUSY, or with ERR_LIMIT for the class's maximum, since init or done: a
	 * result without the part that needed them is incomplete. */
	atomic_uint n_busy, n_limit;
	/* under the budget's lock */
	unsigned n_waiting; /* threads */
	bool victim;        /* its waits end with ERR_BUSY */
	bool listed;
	struct budget_hold *prev, *next;
};

void budget_hold_init(struct budget_hold *h, struct budget *b, enum budget_class cls);
/* Returns all grants. Takes the zeroed; may be used again after it. */
void budget_hold_done(struct budget_hold *h);
/* ERR_BUSY, ERR_LIMIT, ERR_CANCELLED; nothing is added then. @h NULL: always granted. */
int budget_hold_add(struct budget_hold *h, uint64_t bytes, struct err *err);
void budget_hold_sub(struct budget_hold *h, uint64_t bytes);
/*
 * At the start: take the grants for @bytes at once, which later additions use. Other work that begins then sees that
 * they are not free. false: they are not granted now; nothing is counted or changed.
 */
bool budget_hold_reserve(struct budget_hold *h, uint64_t bytes);
/*
 * For memory that code deep in the work has allocated and cannot refuse: count it. If it is not granted at once,
 * the next budget_hold_check() waits for it, or fails. A check is one atomic load, for inner loops.
 */
void budget_hold_charge(struct budget_hold *h, uint64_t bytes);
int budget_hold_over(struct budget_hold *h, struct err *err);
static inline int budget_hold_check(struct budget_hold *h, struct err *err)
{
	return h && atomic_load_explicit(&h->over, memory_order_relaxed) ? budget_hold_over(h, err) : 0;
}

/* Something uses @now bytes; *last is how many it used before, 0 at first. Charges the difference. */
static inline void budget_hold_track(struct budget_hold *h, uint64_t *last, uint64_t now)
{
	if (now > *last)
		budget_hold_charge(h, now - *last);
	else if (now < *last)
		budget_hold_sub(h, *last - now);
	*last = now;
}

struct budget_stats {
	uint64_t total;
	struct budget_class_stats {
		const char *name; /* "body", "profile", ... */
		uint64_t used, peak, least, most;
		uint64_t n_refused;
	} classes[BUDGET_N_CLASSES];
};
/* With a @b of NULL all are 0 but the names. */
void budget_stats(struct budget *b, struct budget_stats *ret);
